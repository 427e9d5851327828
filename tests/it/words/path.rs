//! Compares the critical path with the other views.

use super::Seen;
use kflow_core::diagnose::awaited::{Awaited, Waits};
use kflow_core::diagnose::pulls::{Ahead, Standing};
use kflow_core::flow::Stage;
use kflow_core::timeline::critical::{self, Blocker, Reached};
use kflow_model::Nanos;

/// At each instant of a start exactly one thing blocks it, from the first span to now, to readiness or to the end, and
/// the reported parts add up to the whole.
pub(super) fn partition(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let (t, now) = (&s.pod.timeline, s.facts.now);
    let Some(path) = critical::path(s.pod, now) else {
        if let Some(first) = t.spans.first() {
            wrong.push(format!("{} and no critical path", first.step));
        }
        return;
    };
    let mut at: Option<Nanos> = None;
    for piece in &path.pieces {
        if at.is_some_and(|at| at != piece.start) || piece.ns() <= 0 {
            wrong.push(format!("a hole before {:?}", piece.start));
        }
        at = Some(piece.end);
        let known = piece.span.and_then(|i| t.spans.get(i as usize));
        if known.is_none() != (piece.blocker == Blocker::Unknown) {
            wrong.push(format!("{} of {known:?}", piece.blocker.name()));
        }
    }
    let lines: i64 = path.lines().iter().map(|l| l.ns(&path)).sum();
    let shares: i64 = path.shares(t).iter().map(|s| s.ns).sum();
    if lines != path.ns() || shares != path.ns() {
        wrong.push(format!("{lines} and {shares} of {}", path.ns()));
    }
    let ended = t.stage(Stage::Ready).is_some_and(|s| s.end.is_some());
    if ended && (path.reached == Reached::Ready) != s.pod.became_ready.is_some() {
        wrong.push(format!(
            "{:?} of a pod that became ready {:?}",
            path.reached, s.pod.became_ready
        ));
    }
    if path.reached == Reached::NotYet && at.is_some_and(|at| at != now) {
        wrong.push(format!("not ready, and its path ends at {at:?}"));
    }
}

/// A pod that waits for another pod's pull also waits for it on its critical path, and the other way round.
pub(super) fn queue(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let now = s.facts.now;
    let Some(path) = critical::path(s.pod, now).filter(|p| p.reached == Reached::NotYet) else {
        return;
    };
    let Some(last) = path.pieces.last() else {
        return;
    };
    let wanted = s.pulls.of_pod(s.pod, now);
    let behind = wanted.iter().find_map(|w| match &w.standing {
        Standing::Queued(Ahead::Call(c)) => Some(c),
        _ => None,
    });
    let queues = last.blocker == Blocker::Queue;
    let waits = Waits::of(s.world, s.pod, now).in_piece(last);
    match behind {
        Some(c) if queues => {
            let same = |a: &Awaited| a.call() == Some(c.key);
            if !waits.iter().any(same) {
                wrong.push(format!("queued behind {}, by its path {waits:?}", c.image));
            }
        }
        Some(c) => wrong.push(format!("queued behind {}, by its path {last:?}", c.image)),
        None => {}
    }
}
