//! Selects which recording's row to keep for an object that the recordings of several nodes contain: each node's
//! watch also has the pods that are bound to no node, and the recording of a cluster has those of every node.

use std::collections::{BTreeSet, HashMap};

use kflow_core::correlate::World;
use kflow_core::diagnose::Subject;
use kflow_model::Text;

/// What each recorder has told so far. Without recorders every row is kept.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The nodes whose recordings are joined.
    recorders: BTreeSet<Text>,
    /// The recorder that told of an object first.
    first: HashMap<Text, Text>,
}

impl Seen {
    /// For the recordings of these nodes.
    pub fn of(recorders: impl IntoIterator<Item = Text>) -> Self {
        Self {
            recorders: recorders.into_iter().collect(),
            first: HashMap::new(),
        }
    }

    /// True when this recorder's row of an object on `node` is kept: the node's own row, else that of the first
    /// recorder with the object. The recorder of a cluster has no name.
    fn told_by(&mut self, recorder: &str, node: &str, what: Text) -> bool {
        if self.recorders.is_empty() || (node == recorder && !node.is_empty()) {
            return true;
        }
        if self.recorders.contains(node) {
            return false;
        }
        self.first.entry(what).or_insert_with(|| recorder.into()) == recorder
    }

    pub(super) fn pod(&mut self, recorder: &str, node: &str, uid: &str) -> bool {
        self.told_by(recorder, node, uid.into())
    }

    /// True when this recorder's row of a call to the runtime of `node` is kept: a node records its own calls.
    pub(super) fn call(&self, recorder: &str, node: &str) -> bool {
        let of_cluster = recorder.is_empty() && !self.recorders.is_empty();
        !of_cluster || !(node.is_empty() || self.recorders.contains(node))
    }

    pub(super) fn request(&mut self, recorder: &str, audit_id: &str) -> bool {
        self.told_by(recorder, "", audit_id.into())
    }

    pub(super) fn subject(&mut self, recorder: &str, world: &World, subject: &Subject) -> bool {
        match subject {
            Subject::Pod { uid, .. } => {
                let node = world.pod(uid).map(|p| p.node.clone());
                self.pod(recorder, &node.unwrap_or_default(), uid.as_str())
            }
            Subject::Node(name) => self.told_by(recorder, name, name.clone()),
            Subject::Owner(_) => self.told_by(recorder, "", subject.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recording_of_a_cluster_adds_what_no_node_records() {
        let mut seen = Seen::of(["a".into(), "b".into()]);
        let cluster = "";
        assert!(seen.pod("a", "a", "on-a"));
        assert!(!seen.pod(cluster, "a", "on-a"));
        assert!(seen.pod(cluster, "c", "on-c"));
        assert!(seen.pod("a", "", "pending"));
        assert!(!seen.pod("b", "", "pending") && !seen.pod(cluster, "", "pending"));
        assert!(seen.pod(cluster, "", "in no node's time"));
        let kept = ["a", "c", ""].map(|node| seen.call(cluster, node));
        assert_eq!(kept, [false, true, false]);
        assert!(seen.call("a", "") && seen.call("a", "a"));
        let mut alone = Seen::of([]);
        assert!(alone.pod(cluster, "a", "on-a") && alone.call(cluster, ""));
    }
}
