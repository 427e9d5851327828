//! A node as the API shows it, reduced to what scheduling and health need.

use serde::{Deserialize, Serialize};

use super::{
    Nanos, Text,
    pod::{Condition, WatchEvent},
};

/// One state of a node in a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSeen {
    /// How the state reached kflow.
    #[serde(rename = "ev")]
    pub event: WatchEvent,
    /// `metadata.name`.
    #[serde(rename = "n")]
    pub name: Text,
    /// `metadata.resourceVersion` as a number.
    #[serde(rename = "rv")]
    pub resource_version: u64,
    /// `metadata.creationTimestamp` (1 s).
    #[serde(rename = "ct")]
    pub created: Nanos,
    /// `metadata.deletionTimestamp`; `None` when nobody asked to delete the node.
    #[serde(rename = "dt", skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Nanos>,
    /// Labels, sorted.
    #[serde(rename = "lb")]
    pub labels: Vec<(Text, Text)>,
    /// `spec.unschedulable`.
    #[serde(rename = "un", skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
    /// Taints: key, value, effect.
    #[serde(rename = "ta", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<(Text, Text, Text)>,
    /// `status.allocatable`, sorted by resource (`cpu`→`2`, `memory`→`24581696Ki`, `pods`→`110`).
    #[serde(rename = "al")]
    pub allocatable: Vec<(Text, Text)>,
    /// Conditions, sorted by type.
    #[serde(rename = "cond")]
    pub conditions: Vec<Condition>,
    /// `nodeInfo.kubeletVersion`.
    #[serde(rename = "kv", skip_serializing_if = "Text::is_empty")]
    pub kubelet_version: Text,
    /// `nodeInfo.containerRuntimeVersion`: `containerd://2.1.9`.
    #[serde(rename = "rtv", skip_serializing_if = "Text::is_empty")]
    pub runtime_version: Text,
    /// Names in `status.volumesAttached`.
    #[serde(rename = "va", skip_serializing_if = "Vec::is_empty")]
    pub volumes_attached: Vec<Text>,
    /// True for a row of `kubectl get nodes`, which shows neither labels nor taints.
    #[serde(rename = "row", skip_serializing_if = "std::ops::Not::not")]
    pub is_row: bool,
}

impl NodeSeen {
    /// Returns the condition of the type `kind`.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.kind == kind)
    }
    /// True if `allocatable` is all that the node can give. A row and a description that was cut lack it; an object of the
    /// API has a version.
    pub fn has_allocatable(&self) -> bool {
        let is_printed = self.event == WatchEvent::Listed && self.resource_version == 0;
        !is_printed || !self.allocatable.is_empty()
    }
}
