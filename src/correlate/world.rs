//! The world and its indexes.

use std::sync::Arc;

use super::{CallLog, PodView};
use crate::model::{Nanos, ObjectRef, PodUid, Source, Text, node::NodeSeen, object::ObjectSeen};
use crate::timeline::Evidence;

/// A pod: the view, shared between snapshots until it changes.
pub type Pod = Arc<PodView>;

/// A node: its newest state and what the kubelet does besides pods.
#[derive(Clone, Debug, Default)]
pub struct NodeState {
    /// Name.
    pub name: Text,
    /// Newest state from the API.
    pub api: Option<Arc<NodeSeen>>,
    /// States, events, health and node-level log lines, by time.
    pub evidence: Vec<Evidence>,
}

/// An object that is not a pod: owner, claim, quota.
#[derive(Clone, Debug, Default)]
pub struct ObjectState {
    /// Which.
    pub object: ObjectRef,
    /// Newest state from the API, when it was watched.
    pub api: Option<Arc<ObjectSeen>>,
    /// States, events and audit records about it, by time.
    pub evidence: Vec<Evidence>,
    /// Pods that it controls.
    pub pods: Vec<PodUid>,
}

/// Health of a source, as the observations show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceState {
    /// Observations so far.
    pub count: u64,
    /// Time of the first, by `seen`.
    pub first: Option<Nanos>,
    /// Time of the newest, by `seen`.
    pub last: Option<Nanos>,
    /// Units lost, as gaps tell.
    pub lost: u64,
    /// Gaps, newest last (bounded).
    pub gaps: Vec<Evidence>,
}

/// Estimated offset of other clocks against the node's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// apiserver's clock minus node's clock, ns; `None` without paired observations.
    pub api_ns: Option<i64>,
    /// Half width of the interval that all pairs allow, ns.
    pub api_within_ns: i64,
    /// Pairs used.
    pub pairs: u32,
}

/// All that is known. See the [module](super).
#[derive(Clone, Debug, Default)]
pub struct World {
    pods: Vec<Pod>,
    calls: CallLog,
    now: Nanos,
}

impl World {
    /// An empty world.
    pub fn new() -> Self {
        Self::default()
    }
    /// Files one observation. Views are stale until [`settle`](Self::settle).
    pub fn observe(&mut self, o: &Evidence) {
        self.now = self.now.max(o.stamp.seen);
    }
    /// Brings the views of all pods that changed up to date.
    pub fn settle(&mut self) {}
    /// The newest `seen` so far.
    pub const fn now(&self) -> Nanos {
        self.now
    }
    /// All pods, deleted ones too, in order of first evidence.
    pub fn pods(&self) -> &[Pod] {
        &self.pods
    }
    /// A pod by UID (a mirror's UID leads to the static pod).
    pub fn pod(&self, uid: &PodUid) -> Option<&Pod> {
        self.pods
            .iter()
            .find(|p| &p.uid == uid || p.mirrors.contains(uid))
    }
    /// Pods by `ns/name`, `name` or UID, newest first.
    pub fn find(&self, query: &str) -> Vec<&Pod> {
        self.pods
            .iter()
            .rev()
            .filter(|p| p.uid.as_str() == query || p.name == query || p.key() == query)
            .collect()
    }
    /// Nodes by name.
    pub fn nodes(&self) -> Vec<&NodeState> {
        Vec::new()
    }
    /// A node by name.
    pub fn node(&self, _name: &str) -> Option<&NodeState> {
        None
    }
    /// Objects that are not pods (owners, claims), by kind, namespace, name.
    pub fn objects(&self) -> Vec<&ObjectState> {
        Vec::new()
    }
    /// An object by kind (`Deployment`), namespace and name.
    pub fn object(&self, _kind: &str, _namespace: &str, _name: &str) -> Option<&ObjectState> {
        None
    }
    /// Every CRI call.
    pub const fn calls(&self) -> &CallLog {
        &self.calls
    }
    /// Health of a source.
    pub fn source(&self, _source: Source) -> SourceState {
        SourceState::default()
    }
    /// Clock skew.
    pub fn skew(&self) -> Skew {
        Skew::default()
    }
}
