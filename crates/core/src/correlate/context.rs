//! What a pod's view is derived from besides its evidence: facts about all pods, and a count of the pod's evidence
//! that was dropped.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::owners::has;
use kflow_model::Evidence;
use kflow_model::gap::WatchNote;
use kflow_model::pod::PodSeen;
use kflow_model::redact::REDACTED;
use kflow_model::scope::{covers, shows};
use kflow_model::stamp::SECOND;
use kflow_model::{Nanos, Source, Text};

/// Facts that the views of all pods depend on. When one of them changes, all pods are derived again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodContext {
    /// Offset to subtract from the API's times to get the node's, ns.
    pub(crate) shift: i64,
    /// Bit set of the sources (`1 << source as u16`) that produced an observation.
    pub(crate) present: u16,
    /// When the first of the node's sources began to be recorded; of any source, when there is none of the node.
    pub(crate) began: Option<Nanos>,
    /// Intervals in which the tap saw nothing: from, until.
    pub(crate) blind: Vec<(Nanos, Nanos)>,
    /// Name of the node that the node's sources run on, empty while unknown.
    pub(crate) local: Text,
    /// All complete lists of pods.
    pub(crate) windows: Arc<Vec<ListWindow>>,
}

impl PodContext {
    /// True when a source produced any observation in this session, about whichever pod.
    pub(crate) const fn has(&self, source: Source) -> bool {
        self.present & (1 << source as u16) != 0
    }
}

/// A complete list of pods. A pod that was known before the list, is in its scope and is not in it, is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListWindow {
    /// Arrival of the list's begin.
    pub(crate) begin: Nanos,
    /// Arrival of the list's end.
    pub(crate) end: Nanos,
    /// Scope of the list, see [`bounds`](kflow_model::scope::bounds).
    pub(crate) scope: Text,
    /// For a table of `kubectl get pods`: the pods in it, as `namespace/name`. `None` for a list of the API.
    pub(crate) names: Option<Arc<BTreeSet<Text>>>,
    /// The watch note that ended the list.
    pub(crate) proof: Evidence,
}

/// How long before the time of its file a table may have been printed, ns: the commands of a ticket are typed one after
/// the other.
const TYPED: i64 = 120 * SECOND;

impl ListWindow {
    /// Returns the list of names that a note holds; `None` where redaction took one.
    pub(crate) fn of_names(proof: &Evidence, note: &WatchNote) -> Option<Self> {
        let is_whole = !note.detail.contains(REDACTED);
        let names = note.detail.split(' ').map(Text::from);
        is_whole.then(|| Self {
            begin: proof.stamp.at.plus(-TYPED),
            end: proof.stamp.at,
            scope: note.scope.clone(),
            names: Some(Arc::new(names.collect())),
            proof: Arc::clone(proof),
        })
    }
    /// True when the pod is within the list's bounds and the list does not have it.
    pub(crate) fn covers(&self, namespace: &str, node: &str, name: &str) -> bool {
        covers(&self.scope, namespace, node, name) && !self.has_name(namespace, name)
    }
    /// The same of the pod whose object is given.
    pub(crate) fn shows(&self, p: &PodSeen) -> bool {
        let (namespace, node) = (&p.namespace, &p.spec.node);
        shows(&self.scope, namespace, node, &p.name, |o| has(o, p))
            && !self.has_name(namespace, &p.name)
    }
    /// True for a list of names that has this one.
    pub(crate) fn has_name(&self, namespace: &str, name: &str) -> bool {
        let key = || Text::from(format!("{namespace}/{name}"));
        (self.names.as_ref()).is_some_and(|names| names.contains(&key()))
    }
}

/// Summary of a pod's evidence that was dropped to save memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folded {
    /// Number of observations dropped.
    pub(crate) count: u64,
    /// Time of the first.
    pub(crate) since: Nanos,
    /// Time of the last.
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
