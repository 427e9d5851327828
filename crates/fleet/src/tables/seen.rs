//! Selects which recording's row to keep for an object that the recordings of several nodes contain: each node's
//! watch also has the pods that are bound to no node.

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
    /// recorder with the object.
    fn told_by(&mut self, recorder: &str, node: &str, what: Text) -> bool {
        if self.recorders.is_empty() || node == recorder {
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
