//! What the list shows, and what it hides.

use std::sync::Arc;

use super::order::{self, GroupBy, Hidden, Key, Sort};
use crate::filter::Filter;
use kflow_core::correlate::StageState;
use kflow_core::correlate::world::Pod;
use kflow_core::diagnose::Verdict;
use kflow_core::query::{OwnerRecord, PodRecord};
use kflow_engine::Snapshot;
use kflow_model::{Nanos, Text};

/// The filter, the order, and the switches of the list.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) sort: Sort,
    pub(super) reverse: bool,
    pub(super) group: GroupBy,
    /// Whether pods that are gone are shown.
    pub(super) gone: bool,
    /// Whether pods that completed successfully are shown.
    pub(super) finished: bool,
    /// How many owners may stand above the pods.
    pub(super) owners: usize,
    pub(super) filter: Filter,
}

impl Wanted {
    pub(super) fn key(&self, snap: &Snapshot, p: &Pod) -> Key {
        let verdict = snap.verdicts.get(&p.uid).map(|v| &**v);
        // A pod of the past is shown only if a filter matches it. The same holds for a pod of which only the UID is
        // known, if it is gone or no stage of it was observed.
        let nothing = || p.stages.iter().all(|s| *s == StageState::NotReached);
        let unknown = p.name.is_empty() && (p.gone.is_some() || nothing());
        let hidden = if (p.past || unknown) && self.filter.is_all() {
            Hidden::Past
        } else if p.gone.is_some() && !self.gone {
            Hidden::Gone
        } else if order::is_finished(p) && !self.finished {
            Hidden::Finished
        } else {
            Hidden::No
        };
        let score = if hidden != Hidden::No {
            None
        } else if self.filter.is_all() {
            Some(0)
        } else {
            let record = PodRecord::new(p, verdict, snap.now);
            let labels = p.api.as_ref().map(|a| a.labels.as_slice());
            self.filter.score(&p.key(), labels, &record)
        };
        let group = match self.group {
            GroupBy::None => Text::default(),
            GroupBy::Cause => self.group.of(p, verdict.map(|v| snap.root(v))).into(),
            by => by.of(p, None).into(),
        };
        let mut key = Key::new(p, verdict, score, self.sort, group);
        key.hidden = hidden;
        key
    }
    /// Returns true if the pod's place depends on the verdict of another pod, which may change while its own does not.
    pub(super) fn looks_behind(&self, verdict: Option<&Arc<Verdict>>) -> bool {
        self.group == GroupBy::Cause && verdict.is_some_and(|v| v.behind.is_some())
    }
    /// Returns true if the filter matches a verdict on an owner.
    pub(super) fn keeps_owner(&self, v: &Verdict, now: Nanos) -> bool {
        if self.filter.is_all() {
            return true;
        }
        let Some(owner) = &v.owner else {
            return false;
        };
        let record = OwnerRecord {
            owner,
            verdict: (v.cause_id(), &v.sentence),
            since: v.since,
            now,
        };
        let name = format!("{}/{}", v.namespace, order::owner_name(v));
        self.filter.score(&name, None, &record).is_some()
    }
}

/// Number of hidden pods, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NotShown {
    pub(super) past: usize,
    pub(super) gone: usize,
    pub(super) finished: usize,
}
