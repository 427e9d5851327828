//! Lines of a log that are in several files: a journal that was printed twice, since different times, or whose lines are
//! in `/var/log/messages` too. Files of a log that rotated have no time in common and cost nothing here.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::Summary;
use kflow_model::{Nanos, Observation};

/// Reason for leaving out a line.
const REPEATED: &str = "in another file too";

/// Drops what an earlier file told already. `pieces` are the observations of each file, and `summaries` those files.
/// Equal lines of one file are as many lines.
pub(super) fn leave(
    observations: &mut Vec<Observation>,
    pieces: &[Range<usize>],
    summaries: &mut [Summary],
) {
    let bounds: Vec<Option<(Nanos, Nanos)>> = pieces
        .iter()
        .map(|piece| {
            let its = observations.get(piece.clone()).unwrap_or_default();
            let times = || its.iter().map(|o| o.stamp.at);
            Some((times().min()?, times().max()?))
        })
        .collect();
    let mut repeated = vec![false; observations.len()];
    for (n, piece) in pieces.iter().enumerate() {
        let Some((begin, end)) = bounds.get(n).copied().flatten() else {
            continue;
        };
        // The earlier files that have a time in common with this one.
        let common = |(_, b): &(_, &Option<(Nanos, Nanos)>)| {
            b.is_some_and(|(first, last)| first <= end && begin <= last)
        };
        let earlier = pieces.iter().zip(&bounds).take(n).filter(common);
        let mut told: FxHashMap<Nanos, Vec<usize>> = FxHashMap::default();
        for (of, _) in earlier {
            for at in of.clone() {
                let when = observations.get(at).map(|o| o.stamp.at);
                if let Some(when) = when.filter(|w| (begin..=end).contains(w)) {
                    told.entry(when).or_default().push(at);
                }
            }
        }
        if told.is_empty() {
            continue;
        }
        for at in piece.clone() {
            let Some(o) = observations.get(at) else {
                continue;
            };
            let Some(like) = told.get_mut(&o.stamp.at) else {
                continue;
            };
            let same = |i: &usize| observations.get(*i).is_some_and(|e| e.body == o.body);
            if let Some(found) = like.iter().position(same) {
                // It stands for one line.
                like.swap_remove(found);
                if let Some(repeated) = repeated.get_mut(at) {
                    *repeated = true;
                }
                if let Some(summary) = summaries.get_mut(n) {
                    summary.observations = summary.observations.saturating_sub(1);
                    *summary.ignored.entry(REPEATED).or_default() += 1;
                }
            }
        }
    }
    let mut repeated = repeated.into_iter();
    observations.retain(|_| repeated.next() != Some(true));
}
