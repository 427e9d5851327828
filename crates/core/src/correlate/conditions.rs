//! How the conditions of a node changed, as the API showed them.

use super::world::NodeState;
use kflow_model::pod::Condition;
use kflow_model::{Body, Evidence, Nanos, Text};

/// A state of a condition, which lasts until the next change.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Start of this state: the condition's `lastTransitionTime`, unless the condition was seen in it earlier.
    pub at: Nanos,
    pub condition: Condition,
    /// The observation of the node that shows this state.
    pub evidence: Evidence,
}

/// All known states of one condition, oldest first, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// Condition type: `Ready`, `MemoryPressure`, …
    pub kind: Text,
    pub changes: Vec<Change>,
}

impl NodeState {
    /// Histories of the conditions that the node has now, sorted by type. A condition that changed and changed back
    /// between two observations yields a `Change` with the same status and a later transition.
    pub fn conditions(&self) -> Vec<History> {
        let mut all: Vec<History> = Vec::new();
        for e in &self.evidence {
            let Body::Node(seen) = &e.body else { continue };
            for c in &seen.conditions {
                let at = c.transition.map_or(e.stamp.at, |t| t.min(e.stamp.at));
                let of_kind = all.iter_mut().find(|h| h.kind == c.kind);
                let Some(history) = of_kind else {
                    let changes = vec![Change::of(at, c, e)];
                    let kind = c.kind.clone();
                    all.push(History { kind, changes });
                    continue;
                };
                let Some(last) = history.changes.last_mut() else {
                    continue;
                };
                let (status, transition) = (&last.condition.status, last.condition.transition);
                if *status == c.status && transition == c.transition {
                    // Keeps the newest message and reason.
                    last.condition.clone_from(c);
                } else {
                    let at = at.max(last.at);
                    history.changes.push(Change::of(at, c, e));
                }
            }
        }
        let newest = self.api.as_ref();
        all.retain(|h| newest.is_some_and(|n| n.condition(&h.kind).is_some()));
        all.sort_by(|a, b| a.kind.cmp(&b.kind));
        all
    }
}

impl Change {
    fn of(at: Nanos, condition: &Condition, evidence: &Evidence) -> Self {
        Self {
            at,
            condition: condition.clone(),
            evidence: evidence.clone(),
        }
    }
}
