//! Events that kubectl printed for people and that another capture has too: JSON, or another description. A printed Event
//! has ages in place of times, and no name.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};

use super::placeholders::is_placeholder;
use kflow_model::event::EventSeen;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Observation, Stamp};
use kflow_sources::kube::decode::{is_printed, is_undated};

/// Greatest distance between the last occurrences of one Event in two captures, ns. Ages count from the time at which
/// kubectl ran, which may be known to some seconds only.
const APART: i64 = 2 * SECOND;
/// The same for two captures with equal counts, or for one of them with a name, ns.
const COUNTED_APART: i64 = 60 * SECOND;

/// An Event with its place among the observations.
type Told<'a> = (usize, &'a Stamp, &'a EventSeen);

/// Drops each printed Event that another capture tells at least as well.
pub(super) fn drop_printed(observations: &mut Vec<Observation>) {
    let printed = |o: &Observation| matches!(&o.body, Body::Event(e) if is_printed(e));
    if !observations.iter().any(printed) {
        return;
    }
    let mut alike: FxHashMap<_, Vec<Told<'_>>> = FxHashMap::default();
    let mut dated: FxHashSet<_> = FxHashSet::default();
    for (i, o) in observations.iter().enumerate() {
        if let Body::Event(e) = &o.body {
            let of = (&e.object.kind, &e.object.namespace, &e.object.name);
            let told = alike.entry((of, &e.reason, &e.message)).or_default();
            told.push((i, &o.stamp, e));
            if !is_undated(e) {
                dated.insert((&e.object.kind, &e.reason, &e.message));
            }
        }
    }
    let mut retold = vec![false; observations.len()];
    for events in alike.values() {
        for one in events.iter().filter(|(_, _, e)| is_printed(e)) {
            let (_, _, e) = one;
            let elsewhere = || dated.contains(&(&e.object.kind, &e.reason, &e.message));
            let is_told = events.iter().any(|other| says_as_much(other, one))
                || (is_undated(e) && is_placeholder(&e.object.name) && elsewhere());
            if is_told && let Some(retold) = retold.get_mut(one.0) {
                *retold = true;
            }
        }
    }
    let mut retold = retold.into_iter();
    observations.retain(|_| retold.next() != Some(true));
}

/// True if `other` is the Event `one`, and of the two the one to keep: one with a name, else one with a time, else one that occurred more
/// often, else a more precise or an earlier one.
fn says_as_much(other: &Told<'_>, one: &Told<'_>) -> bool {
    let ((_, at, e), (_, one_at, one_e)) = (other, one);
    // People quote a message beside the description that it is from.
    if is_undated(one_e) && !is_undated(e) {
        return true;
    }
    let rank = |(i, at, e): &Told<'_>| {
        let how = (is_printed(e), is_undated(e));
        (how, Reverse(e.count), at.precision, *i)
    };
    let apart = at.at.since(one_at.until()).max(one_at.at.since(at.until()));
    let counted = one_e.count == e.count && (one_e.count > 1 || !is_printed(e));
    // Tables of old kubectls do not name the container.
    let container = one_e.container.is_empty() || one_e.container == e.container;
    rank(other) < rank(one)
        && one_e.count <= e.count
        && container
        && apart <= if counted { COUNTED_APART } else { APART }
}
