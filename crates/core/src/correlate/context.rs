//! What a pod's view is derived from besides its evidence: what is known of all pods, and what is kept no more of this one.

use std::sync::Arc;

use super::owners::has;
use kflow_model::Evidence;
use kflow_model::pod::PodSeen;
use kflow_model::scope::{covers, shows};
use kflow_model::{Nanos, Source, Text};

/// What all views depend on besides their own evidence: when it changes, all pods are derived again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodContext {
    /// What to take off API times, ns.
    pub(crate) shift: i64,
    /// Sources that said anything at all, as bits.
    pub(crate) present: u16,
    /// When the first of the node's sources (of any, when there is none) began to be recorded.
    pub(crate) began: Option<Nanos>,
    /// Times at which the tap was blind: since, until.
    pub(crate) blind: Vec<(Nanos, Nanos)>,
    /// Name of the node that the node's sources run on, empty while unknown.
    pub(crate) local: Text,
    /// Complete lists of pods.
    pub(crate) windows: Arc<Vec<ListWindow>>,
}

impl PodContext {
    /// True when a source said anything in this session, about whomever.
    pub(crate) const fn has(&self, source: Source) -> bool {
        self.present & (1 << source as u16) != 0
    }
}

/// A complete list of pods: who was known before it, is in scope and is not in it, is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListWindow {
    /// Begin, by arrival.
    pub(crate) begin: Nanos,
    /// End, by arrival.
    pub(crate) end: Nanos,
    /// Its bounds, see [`bounds`](kflow_model::scope::bounds).
    pub(crate) scope: Text,
    /// The note that ended it.
    pub(crate) proof: Evidence,
}

impl ListWindow {
    /// True when a pod would be in the list if it existed.
    pub(crate) fn covers(&self, namespace: &str, node: &str, name: &str) -> bool {
        covers(&self.scope, namespace, node, name)
    }
    /// True when the list would show a pod whose object was seen.
    pub(crate) fn shows(&self, p: &PodSeen) -> bool {
        let (namespace, node) = (&p.namespace, &p.spec.node);
        shows(&self.scope, namespace, node, &p.name, |o| has(o, p))
    }
}

/// Evidence of a pod that was folded away: how much, and of which time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folded {
    /// Observations taken so far.
    pub(crate) count: u64,
    /// The time of the first.
    pub(crate) since: Nanos,
    /// The time of the last.
    pub(crate) until: Nanos,
}

impl Folded {
    pub(crate) fn note(&mut self, o: &Evidence) {
        let at = o.stamp.at;
        if self.count == 0 {
            (self.since, self.until) = (at, at);
        }
        self.count += 1;
        self.since = self.since.min(at);
        self.until = self.until.max(at);
    }
}
