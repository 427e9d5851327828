//! Sums of a timeline: how long its stages worked.

use super::{Span, Timeline};
use crate::flow::Stage;
use kflow_model::Nanos;

fn steps_of(t: &Timeline, stage: Stage) -> impl Iterator<Item = &Span> {
    t.spans.iter().filter(move |s| {
        s.stage == stage && !s.is_stage() && !s.is_run() && !is_garbage_collection(t, s)
    })
}

/// True for garbage collection, and for a span that lies in garbage collection.
pub fn is_garbage_collection(t: &Timeline, span: &Span) -> bool {
    let around = span.parent.and_then(|p| t.spans.get(p as usize));
    span.is_garbage_collection() || around.is_some_and(|p| is_garbage_collection(t, p))
}

/// Merges intervals that overlap or touch; the result is sorted.
fn merged(mut v: Vec<(Nanos, Nanos)>) -> Vec<(Nanos, Nanos)> {
    v.sort();
    let mut out: Vec<(Nanos, Nanos)> = Vec::with_capacity(v.len());
    for (start, end) in v {
        match out.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => out.push((start, end)),
        }
    }
    out
}

/// Returns the intervals in which a span worked, by start; an open span works until `now`. A stage works while any of
/// its steps does, and not between them; a stage without steps works all the time.
pub fn work(t: &Timeline, span: &Span, now: Nanos) -> Vec<(Nanos, Nanos)> {
    let interval = |s: &Span| (s.start.at, s.end.map_or(now, |e| e.at).max(s.start.at));
    let steps = if span.is_stage() {
        merged(steps_of(t, span.stage).map(interval).collect())
    } else {
        Vec::new()
    };
    if steps.is_empty() {
        vec![interval(span)]
    } else {
        steps
    }
}

/// Returns how long a span worked, ns: the sum of [`work`].
pub fn work_ns(t: &Timeline, span: &Span, now: Nanos) -> i64 {
    work(t, span, now).iter().map(|(a, b)| b.since(*a)).sum()
}

/// Returns how long any of these intervals lasted, ns; overlaps count once.
pub fn total(intervals: Vec<(Nanos, Nanos)>) -> i64 {
    let lengths = merged(intervals).into_iter().map(|(a, b)| b.since(a));
    lengths.sum()
}
