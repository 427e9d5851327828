//! The tree of spans as rows.

use rustc_hash::FxHashSet;

use kflow_core::flow::Stage;
use kflow_core::timeline::{Outcome, Span, Timeline};
use kflow_model::Text;

/// Identity of a row during the pod's life. The index of its span is not stable: it changes when evidence arrives.
pub(super) type Id = (Stage, Text, Text, u32);

/// A visible row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Index of the span in the timeline.
    pub(super) span: u32,
    pub(super) depth: u16,
    pub(super) children: bool,
    /// Whether the children are shown.
    pub(super) open: bool,
    /// Whether the row is the last of its parent's children.
    pub(super) last: bool,
}

pub(super) fn id(s: &Span) -> Id {
    (s.stage, s.step.clone(), s.container.clone(), s.attempt)
}

/// Returns whether a row is open by default: if its children are few, or if one of a moderate number failed
/// or is in flight.
pub(super) fn open_by_default(t: &Timeline, index: u32, all: Option<bool>) -> bool {
    if let Some(a) = all {
        return a;
    }
    let children = || t.spans.iter().filter(|s| s.parent == Some(index));
    let trouble = children().any(|s| matches!(s.outcome, Outcome::Error | Outcome::InFlight));
    let n = children().count();
    n <= 6 || (trouble && n <= 40)
}

/// Returns the visible rows, depth first, by start; the rows in `turned` are open if closed by default, and the other
/// way round.
pub(super) fn tree(t: &Timeline, turned: &FxHashSet<Id>, all: Option<bool>) -> Vec<Row> {
    let n = t.spans.len();
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); n];
    let mut roots = Vec::new();
    for (i, s) in t.spans.iter().enumerate() {
        match s.parent.and_then(|p| children.get_mut(p as usize)) {
            // A parent comes before its children, so there are no cycles.
            Some(c) if s.parent.is_some_and(|p| (p as usize) < i) => c.push(i as u32),
            _ => roots.push(i as u32),
        }
    }
    let mut rows = Vec::new();
    // Stages are in causal order; within a stage, spans are by start, as the timeline is sorted.
    roots.sort_by_key(|i| t.spans.get(*i as usize).map(|s| (s.stage, s.start)));
    let mut stack: Vec<(u32, u16, bool)> = roots.iter().rev().map(|i| (*i, 0, false)).collect();
    while let Some((i, depth, last)) = stack.pop() {
        let Some(s) = t.spans.get(i as usize) else {
            continue;
        };
        let own = children.get(i as usize).map_or(&[][..], Vec::as_slice);
        let open = !own.is_empty() && (open_by_default(t, i, all) != turned.contains(&id(s)));
        rows.push(Row {
            span: i,
            depth,
            children: !own.is_empty(),
            open,
            last,
        });
        if open {
            for (k, c) in own.iter().enumerate().rev() {
                stack.push((*c, depth + 1, k + 1 == own.len()));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_core::timeline::{Certainty, Edge};
    use kflow_model::Nanos;

    fn span(stage: Stage, step: &str, from: i64, to: i64, parent: Option<u32>) -> Span {
        let edge = |n| Edge {
            at: Nanos(n * 1_000_000_000),
            precision: 1,
        };
        let (from, to) = (edge(from), Some(edge(to)));
        Span {
            parent,
            ..Span::new(stage, step, from, to, Certainty::Measured, Vec::new())
        }
    }

    #[test]
    fn rows_follow_the_stages_and_folding_is_remembered_by_name() {
        let t = Timeline {
            spans: vec![
                span(Stage::Sandbox, "sandbox", 0, 5, None),
                span(Stage::Sandbox, "RunPodSandbox", 1, 2, Some(0)),
                span(Stage::Api, "api", 0, 1, None),
                span(Stage::Sandbox, "RunPodSandbox", 3, 5, Some(0)),
            ],
            ..Timeline::default()
        };
        let spans = |turned: &FxHashSet<Id>| -> Vec<u32> {
            tree(&t, turned, None).iter().map(|r| r.span).collect()
        };
        assert_eq!(spans(&FxHashSet::default()), [2, 0, 1, 3]);
        let folded = FxHashSet::from_iter([id(&t.spans[0])]);
        assert_eq!(spans(&folded), [2, 0]);
    }
}
