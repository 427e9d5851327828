//! What a runtime tells everybody about images, snapshots and tasks.

use serde::{Deserialize, Serialize};

use super::{ContainerId, Pairs, Text, cri::Subject};

/// An event of the runtime that is not one of a container's life ([`ContainerEvent`](super::cri::ContainerEvent)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RuntimeEvent {
    /// What happened, as containerd names it: `/images/create`, `/snapshot/prepare`, `/tasks/create`.
    pub topic: Text,
    /// Name of the image, key of the snapshot; empty where that is the container's id, and for a task.
    #[serde(rename = "of", default, skip_serializing_if = "Text::is_empty")]
    pub name: Text,
    /// The container that it is about: of a task, and of the snapshot that is a container's root file system.
    #[serde(rename = "cid", default, skip_serializing_if = "ContainerId::is_empty")]
    pub container_id: ContainerId,
    /// What else it tells: `snapshotter`, `parent`, `pid`, `exit_code`.
    #[serde(rename = "f", default, skip_serializing_if = "Pairs::is_empty")]
    pub fields: Pairs,
}

impl RuntimeEvent {
    /// Who it is about, as calls say it: the container, where it is one's.
    pub fn subject(&self) -> Subject {
        Subject {
            container_id: self.container_id.clone(),
            ..Subject::default()
        }
    }
    /// A field by its name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.value(name)
    }
}
