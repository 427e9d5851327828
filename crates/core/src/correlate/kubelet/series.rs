//! Counts and durations of work over time: bounded, and independent of the order of arrival.

use std::collections::VecDeque;

use kflow_model::{Nanos, stamp::SECOND};

/// Number of seconds that a [`Series`] covers.
pub const SERIES_SECONDS: usize = 600;

/// Counts per second of the newest [`SERIES_SECONDS`] seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    first_s: i64,
    pub(super) counts: VecDeque<u32>,
}

impl Series {
    pub(super) fn add(&mut self, at: Nanos) {
        let s = at.0.div_euclid(SECOND);
        if self.counts.is_empty() {
            self.first_s = s;
        }
        while s < self.first_s {
            if self.counts.len() >= SERIES_SECONDS {
                return;
            }
            self.counts.push_front(0);
            self.first_s -= 1;
        }
        let ahead = s - self.first_s;
        if ahead - self.counts.len() as i64 > SERIES_SECONDS as i64 {
            self.counts.clear();
            self.first_s = s;
        }
        while self.first_s + self.counts.len() as i64 <= s {
            self.counts.push_back(0);
        }
        while self.counts.len() > SERIES_SECONDS {
            self.counts.pop_front();
            self.first_s += 1;
        }
        if let Some(c) = self.counts.get_mut((s - self.first_s) as usize) {
            *c = c.saturating_add(1);
        }
    }
    /// Counts of the `n` seconds that end with the second of `now`, oldest first; 0 where nothing is known.
    pub fn last(&self, now: Nanos, n: usize) -> Vec<u64> {
        let end = now.0.div_euclid(SECOND);
        (0..n as i64)
            .rev()
            .map(|back| {
                usize::try_from(end - back - self.first_s)
                    .ok()
                    .and_then(|at| self.counts.get(at))
                    .map_or(0, |c| u64::from(*c))
            })
            .collect()
    }
}

/// Counts and durations of one kind of work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    pub count: u64,
    pub last: Option<Nanos>,
    /// Number of pieces of work whose duration is known.
    pub timed: u64,
    /// Sum of the known durations, ns.
    pub total_ns: i64,
    /// Longest known duration, ns.
    pub worst_ns: i64,
    /// Counts per second.
    pub series: Series,
}

impl Activity {
    pub(super) fn add(&mut self, at: Nanos, took_ns: Option<i64>) {
        self.count += 1;
        self.last = self.last.max(Some(at));
        self.series.add(at);
        if let Some(ns) = took_ns {
            self.timed += 1;
            self.total_ns = self.total_ns.saturating_add(ns);
            self.worst_ns = self.worst_ns.max(ns);
        }
    }
    /// Mean of the known durations, ns; `None` when there is none.
    pub fn mean_ns(&self) -> Option<i64> {
        self.total_ns.checked_div(i64::try_from(self.timed).ok()?)
    }
}
