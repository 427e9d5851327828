//! Any other API object that explains what happens to a pod: owners, claims, volumes, attachments, quotas.

use serde::{Deserialize, Serialize};

use super::{
    Nanos, ObjectRef, Text,
    pod::{Condition, WatchEvent},
};

/// One state of an object in a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectSeen {
    /// How the state reached kflow.
    #[serde(rename = "ev")]
    pub event: WatchEvent,
    /// Kind (`Deployment`, `ReplicaSet`, `PersistentVolumeClaim`, …), namespace, name, UID.
    #[serde(rename = "o")]
    pub object: ObjectRef,
    /// `metadata.resourceVersion` as a number.
    #[serde(rename = "rv")]
    pub resource_version: u64,
    /// `metadata.creationTimestamp` (1 s).
    #[serde(rename = "ct")]
    pub created: Nanos,
    /// `metadata.deletionTimestamp`; `None` when nobody asked to delete the object.
    #[serde(rename = "dt", skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Nanos>,
    /// `metadata.generation`.
    #[serde(rename = "gen")]
    pub generation: u64,
    /// `status.observedGeneration`.
    #[serde(rename = "og")]
    pub observed_generation: u64,
    /// The owner that is the object's controller, `None` when there is none.
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
    /// Returns the fact `key`.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }
    /// Returns the condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.kind == kind)
    }
    /// True for a condition that the object has, and that is true.
    pub fn holds(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(Condition::is_true)
    }
}
