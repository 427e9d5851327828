//! How the conditions of a node changed, as the API showed them.

use super::world::NodeState;
use kflow_model::pod::Condition;
use kflow_model::{Body, Evidence, Nanos, Text};

/// A condition from one change to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Since when it was so: its `lastTransitionTime`, where that says more than when it was seen.
    pub at: Nanos,
    pub condition: Condition,
    /// The state of the node that shows it.
    pub evidence: Evidence,
}

/// Everything that is known of one condition: its changes, oldest first, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// `Ready`, `MemoryPressure`, …
    pub kind: Text,
    pub changes: Vec<Change>,
}

impl NodeState {
    /// The conditions that the node has now, by kind. A condition that went to another state and back between two
    /// looks has a change without another status.
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
                    // Its message may be another one.
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
