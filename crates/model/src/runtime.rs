//! Events that a container runtime publishes about images, snapshots and tasks.

use serde::{Deserialize, Serialize};

use super::{ContainerId, Pairs, Text, cri::Subject};

/// An event of the runtime about anything but a container's life cycle, which is
/// [`ContainerEvent`](super::cri::ContainerEvent).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RuntimeEvent {
    /// Topic of the event, as containerd names it: `/images/create`, `/snapshot/prepare`, `/tasks/create`.
    pub topic: Text,
    /// Name of the image or key of the snapshot; empty for a task, and for a snapshot whose key is the container's id.
    #[serde(rename = "of", default, skip_serializing_if = "Text::is_empty")]
    pub name: Text,
    /// Container of the task, or of the snapshot that is a container's root file system; otherwise empty.
    #[serde(rename = "cid", default, skip_serializing_if = "ContainerId::is_empty")]
    pub container_id: ContainerId,
    /// Further fields of the event: `snapshotter`, `parent`, `pid`, `exit_code`.
    #[serde(rename = "f", default, skip_serializing_if = "Pairs::is_empty")]
    pub fields: Pairs,
}

impl RuntimeEvent {
    /// Returns the subject in the form that calls have: the container, when the event is about one.
    pub fn subject(&self) -> Subject {
        Subject {
            container_id: self.container_id.clone(),
            ..Subject::default()
        }
    }
    /// Returns the value of the field `name`.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.value(name)
    }
}
