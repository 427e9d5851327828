//! Selects the observations that are listed, and folds repeats into one row.

use super::Log;
use crate::describe;
use kflow_engine::Snapshot;
use kflow_export::owner::evidence;
use kflow_model::{Body, Evidence, Nanos, Observation};

/// A row: one observation, or several repeats of a line. Fields are indices of the first and the
/// last, and their number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    first: u32,
    last: u32,
    times: u32,
}

/// Rows in one part of [`Rows`].
const PART: usize = 4096;

/// A list in parts of bounded size. A single allocation for millions of rows would be copied as it grows, which takes
/// longer than a frame may.
#[derive(Debug, Default)]
pub(super) struct Rows(Vec<Vec<Kept>>);

impl Rows {
    fn len(&self) -> usize {
        let full = self.0.len().saturating_sub(1) * PART;
        full + self.0.last().map_or(0, Vec::len)
    }
    fn get(&self, n: usize) -> Option<Kept> {
        self.0.get(n / PART)?.get(n % PART).copied()
    }
    fn last_mut(&mut self) -> Option<&mut Kept> {
        self.0.last_mut()?.last_mut()
    }
    fn push(&mut self, row: Kept) {
        match self.0.last_mut() {
            Some(part) if part.len() < PART => part.push(row),
            _ => {
                let mut part = Vec::with_capacity(PART);
                part.push(row);
                self.0.push(part);
            }
        }
    }
    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Returns true if both are the same line of the same component, with everything but the time equal.
fn is_repeat(a: &Observation, b: &Observation) -> bool {
    a.source == b.source && matches!(a.body, Body::Log(_)) && a.body == b.body
}

/// Limit on the observations that one frame looks through, so that a filter of a long log does not delay the frame.
const BUDGET: usize = 4_000;

impl Log {
    /// Returns true if every observation is listed, each as a row of its own. A pod's log is short enough to fold
    /// repeats in it.
    pub(super) const fn plain(&self) -> bool {
        self.off.is_empty() && self.filter.is_all() && !self.narrow && (self.all || !self.fold)
    }
    fn source<'a>(&'a self, snap: &'a Snapshot, n: usize) -> Option<&'a Evidence> {
        if self.all {
            return snap.log.get(n);
        }
        match &self.pod {
            Some(pod) => snap.world.pod(pod)?.evidence.get(n),
            None => self.of_owner.get(n),
        }
    }
    fn total(&self, snap: &Snapshot) -> usize {
        if self.all {
            return snap.log.len();
        }
        match &self.pod {
            Some(pod) => snap.world.pod(pod).map_or(0, |p| p.evidence.len()),
            None => self.of_owner.len(),
        }
    }
    pub(super) fn rows(&self) -> usize {
        if self.plain() {
            self.len
        } else {
            self.kept.len()
        }
    }
    /// Returns the observation of a row; for repeats, the last one.
    pub(super) fn row<'a>(&'a self, snap: &'a Snapshot, n: usize) -> Option<&'a Evidence> {
        if self.plain() {
            return self.source(snap, n);
        }
        self.source(snap, self.kept.get(n)?.last as usize)
    }
    /// Returns how many observations a row folds, and the time of the first; `None` for a single one.
    pub(super) fn repeats(&self, snap: &Snapshot, n: usize) -> Option<(u32, Nanos)> {
        if self.plain() {
            return None;
        }
        let kept = self.kept.get(n).filter(|k| k.times > 1)?;
        let first = self.source(snap, kept.first as usize)?;
        Some((kept.times, first.stamp.at))
    }
    /// Returns true if a row shows an observation or folds it with its repeats.
    pub(super) fn holds(&self, snap: &Snapshot, n: usize, e: &Evidence) -> bool {
        let same = |o: &Evidence| **o == **e;
        if self.row(snap, n).is_some_and(same) {
            return true;
        }
        let Some(kept) = self.kept.get(n).filter(|k| k.times > 1 && !self.plain()) else {
            return false;
        };
        (kept.first..kept.last).any(|i| self.source(snap, i as usize).is_some_and(same))
    }
    fn keeps(&self, snap: &Snapshot, o: &Evidence) -> bool {
        !self.off.contains(&o.source)
            && (!self.narrow || snap.world.selects_observation(o))
            && (self.filter.is_all() || {
                let text = if self.filter.needs_text() {
                    describe::line(o).0
                } else {
                    String::new()
                };
                self.filter.score(&text, None, &**o).is_some()
            })
    }
    /// Looks through more of the log; starts again if the settings changed or the front of the log was dropped.
    pub(super) fn update(&mut self, snap: &Snapshot) {
        let narrow = self.all && !snap.world.selection().is_all();
        self.dirty |= narrow != self.narrow;
        self.narrow = narrow;
        self.of_owner = match &self.owner {
            Some(owner) if self.pod.is_none() && !self.all => evidence(&snap.world, owner),
            _ => Vec::new(),
        };
        let first = self.source(snap, 0).cloned();
        let same_front = match (&first, &self.first) {
            (Some(a), Some(b)) => std::sync::Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        let total = self.total(snap);
        // A pod's evidence is sorted, so a new observation may be inserted anywhere. The list is short and is rebuilt.
        if self.dirty || !same_front || total < self.len || (!self.all && total != self.len) {
            self.kept.clear();
            self.listed = 0;
            self.upto = 0;
            self.dirty = false;
        }
        self.first = first;
        self.len = total;
        if self.plain() {
            self.upto = total;
            return;
        }
        let until = total.min(self.upto + BUDGET);
        for n in self.upto..until {
            if self.source(snap, n).is_some_and(|o| self.keeps(snap, o)) {
                self.keep(snap, n as u32);
            }
        }
        self.upto = until;
    }
    /// Adds an observation: to the previous row if the observation repeats its line, else as a new row.
    fn keep(&mut self, snap: &Snapshot, n: u32) {
        let before = self.kept.last_mut().filter(|_| self.fold).copied();
        let repeats = before.is_some_and(|k| {
            let pair = (
                self.source(snap, k.last as usize),
                self.source(snap, n as usize),
            );
            matches!(pair, (Some(a), Some(b)) if is_repeat(a, b))
        });
        match self.kept.last_mut() {
            Some(k) if repeats => {
                k.last = n;
                k.times += 1;
            }
            _ => self.kept.push(Kept {
                first: n,
                last: n,
                times: 1,
            }),
        }
        self.listed += 1;
    }
    /// Returns the row nearest to a moment. Rows are only nearly in order of time, so the rows around the result of a
    /// binary search are compared.
    pub(super) fn nearest(&self, snap: &Snapshot, at: Nanos) -> usize {
        let n = self.rows();
        let (mut low, mut high) = (0, n);
        while low < high {
            let mid = low + (high - low) / 2;
            if self.row(snap, mid).is_some_and(|o| o.stamp.at <= at) {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        (low.saturating_sub(20)..(low + 20).min(n))
            .min_by_key(|i| {
                self.row(snap, *i)
                    .map_or(i64::MAX, |o| o.stamp.at.since(at).saturating_abs())
            })
            .unwrap_or(0)
    }
}
