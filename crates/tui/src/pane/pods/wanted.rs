//! What the list shows, and what it leaves out.

use std::sync::Arc;

use super::order::{self, GroupBy, Hidden, Key, Sort};
use crate::filter::Filter;
use kflow_core::correlate::StageState;
use kflow_core::correlate::world::Pod;
use kflow_core::diagnose::Verdict;
use kflow_core::query::{OwnerRecord, PodRecord};
use kflow_engine::Snapshot;
use kflow_model::{Nanos, Text};

/// What is shown, and in which order.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) sort: Sort,
    pub(super) reverse: bool,
    pub(super) group: GroupBy,
    /// Pods that are gone.
    pub(super) gone: bool,
    /// Pods that ended as they should.
    pub(super) finished: bool,
    pub(super) filter: Filter,
}

impl Wanted {
    pub(super) fn key(&self, snap: &Snapshot, p: &Pod) -> Key {
        let verdict = snap.verdicts.get(&p.uid).map(|v| &**v);
        // A pod of the past is found by its name; one of which there is no more than a UID, and nothing that happened
        // to it or all of it over, by that.
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
            let record = PodRecord {
                pod: p,
                verdict: verdict.map_or(("", ""), |v| (v.cause_id(), v.sentence.as_str())),
                now: snap.now,
            };
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
    /// True where the pod's place depends on another verdict than its own, which may change without it.
    pub(super) fn looks_behind(&self, verdict: Option<&Arc<Verdict>>) -> bool {
        self.group == GroupBy::Cause && verdict.is_some_and(|v| v.behind.is_some())
    }
    /// True for a verdict on an owner that the filter keeps.
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

/// Rows that are not shown, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NotShown {
    pub(super) past: usize,
    pub(super) gone: usize,
    pub(super) finished: usize,
}
