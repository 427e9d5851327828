//! Any other API object that a pod's story needs: owners, claims, volumes, attachments, quotas.

use serde::{Deserialize, Serialize};

use super::{
    Nanos, ObjectRef, Text,
    pod::{Condition, WatchEvent},
};

/// One state of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectSeen {
    /// How it was seen.
    #[serde(rename = "ev")]
    pub event: WatchEvent,
    /// Kind (`Deployment`, `ReplicaSet`, `PersistentVolumeClaim`, …), namespace, name, UID.
    #[serde(rename = "o")]
    pub object: ObjectRef,
    /// `metadata.resourceVersion` as a number.
    #[serde(rename = "rv")]
    pub resource_version: u64,
    /// Creation (1 s).
    #[serde(rename = "ct")]
    pub created: Nanos,
    /// Deletion requested.
    #[serde(rename = "dt", skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Nanos>,
    /// `metadata.generation`.
    #[serde(rename = "gen")]
    pub generation: u64,
    /// `status.observedGeneration`.
    #[serde(rename = "og")]
    pub observed_generation: u64,
    /// Controller owner.
    #[serde(rename = "ow", skip_serializing_if = "Option::is_none")]
    pub owner: Option<ObjectRef>,
    /// Conditions, sorted by type.
    #[serde(rename = "cond", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Facts, sorted by key: `replicas`, `readyReplicas`, `phase`, `storageClass`, `volumeName`, `hard.pods`, …
    #[serde(rename = "f", skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<(Text, Text)>,
}

impl ObjectSeen {
    /// Value of a fact.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }
}
