//! Lays out slices: those of a stage in lanes in which they nest, and arrows between them.

use kflow_core::flow::Stage;
use kflow_core::timeline::{Outcome, Span, Timeline, summary};
use kflow_model::Nanos;
use kflow_model::cri::method;

/// An interval in which a span worked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice<'a> {
    pub(super) span: &'a Span,
    /// The span's index in its timeline.
    pub(super) index: usize,
    pub(super) from: Nanos,
    pub(super) to: Nanos,
}

/// Returns the slices of a stage and of its steps: one per interval in which they worked.
pub(super) fn slices(t: &Timeline, stage: Stage, now: Nanos) -> Vec<Slice<'_>> {
    t.spans
        .iter()
        .enumerate()
        .filter(|(_, s)| s.stage == stage)
        .flat_map(|(index, span)| {
            summary::work(t, span, now)
                .into_iter()
                .map(move |(from, to)| Slice {
                    span,
                    index,
                    from,
                    to,
                })
        })
        .collect()
}

/// An arrow between two steps, by their spans' indices. Only stages have several slices, so each step is one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) id: u64,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Returns arrows from each container's pull to its create, and from the create to its start.
pub(super) fn arrows(t: &Timeline, next: &mut u64) -> Vec<Arrow> {
    let mut all = Vec::new();
    for (to, s) in t.spans.iter().enumerate() {
        let step = match s.step.as_str() {
            method::START_CONTAINER => method::CREATE_CONTAINER,
            method::CREATE_CONTAINER => method::PULL_IMAGE,
            _ => continue,
        };
        let mut before = t.spans.iter().enumerate().take(to).rev();
        // The newest of both kinds: a pull before the container's last create belongs to that create.
        let from = before.find(|(_, b)| {
            let kind = b.step == step || b.step == s.step;
            kind && b.container == s.container && b.outcome == Outcome::Ok
        });
        if let Some((from, b)) = from
            && b.step == step
        {
            all.push(Arrow {
                id: *next,
                from,
                to,
            });
            *next += 1;
        }
    }
    all
}

/// Spreads slices over lanes, so that any two in a lane either nest or do not overlap.
pub(super) fn lanes(mut slices: Vec<Slice<'_>>) -> Vec<Vec<Slice<'_>>> {
    slices.sort_by_key(|s| (s.from, std::cmp::Reverse(s.to), !s.span.is_stage()));
    let mut lanes: Vec<(Vec<Nanos>, Vec<Slice<'_>>)> = Vec::new();
    for s in slices {
        let fits = lanes.iter_mut().find_map(|(open, lane)| {
            while open.pop_if(|e| *e <= s.from).is_some() {}
            open.last()
                .is_none_or(|outer| s.to <= *outer)
                .then_some((open, lane))
        });
        if let Some((open, lane)) = fits {
            open.push(s.to);
            lane.push(s);
        } else {
            lanes.push((vec![s.to], vec![s]));
        }
    }
    lanes.into_iter().map(|(_, slices)| slices).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use kflow_core::timeline::{Certainty, Edge};

    pub(in crate::perfetto) fn span(step: &str, from: i64, to: Option<i64>) -> Span {
        let edge = |at| Edge {
            at: Nanos(at),
            precision: 1,
        };
        let certainty = Certainty::Measured;
        Span::new(
            Stage::Create,
            step,
            edge(from),
            to.map(edge),
            certainty,
            Vec::new(),
        )
    }

    #[test]
    fn overlapping_spans_get_a_lane_each_and_nested_ones_share() {
        let spans = [
            span("create", 0, Some(100)),
            span("a", 10, Some(50)),
            span("b", 40, Some(90)),
            span("c", 60, None),
        ];
        let t = Timeline {
            spans: spans.to_vec(),
            ..Timeline::default()
        };
        let lanes = lanes(slices(&t, Stage::Create, Nanos(95)));
        let names: Vec<Vec<&str>> = lanes
            .iter()
            .map(|l| l.iter().map(|s| s.span.step.as_str()).collect())
            .collect();
        // The stage works from its first step on.
        assert_eq!(names, [vec!["create", "a", "c"], vec!["b"]]);
    }

    #[test]
    fn an_arrow_joins_what_led_to_what_in_each_container_by_itself() {
        let of = |step, container: &str, from, outcome| Span {
            container: container.into(),
            outcome,
            ..span(step, from, Some(from + 5))
        };
        let steps = [
            ("PullImage", "a", Outcome::Error),
            ("PullImage", "a", Outcome::Ok),
            ("CreateContainer", "b", Outcome::Ok),
            ("CreateContainer", "a", Outcome::Error),
            ("CreateContainer", "a", Outcome::Ok),
            ("StartContainer", "b", Outcome::Ok),
            ("StartContainer", "a", Outcome::Ok),
            // A restart without a pull, and a start whose create is unknown.
            ("CreateContainer", "a", Outcome::Ok),
            ("StartContainer", "a", Outcome::InFlight),
            ("StartContainer", "c", Outcome::Ok),
        ];
        let spans = (0..).step_by(10).zip(steps);
        let t = Timeline {
            spans: spans.map(|(at, (s, c, o))| of(s, c, at, o)).collect(),
            ..Timeline::default()
        };
        let found: Vec<_> = arrows(&t, &mut 7)
            .iter()
            .map(|a| (a.id, a.from, a.to))
            .collect();
        assert_eq!(
            found,
            [(7, 1, 3), (8, 1, 4), (9, 2, 5), (10, 4, 6), (11, 7, 8)]
        );
    }
}
