//! What a timeline adds up to: how long its stages worked, and what decided the time to readiness.

use super::{Span, SpanIndex, Timeline};
use crate::flow::Stage;
use kflow_model::Nanos;
use kflow_model::cri::method;

/// A piece of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Critical {
    /// The span that decided, `None` for time that nothing explains.
    pub span: Option<SpanIndex>,
    /// Start of the piece.
    pub start: Nanos,
    /// End of the piece.
    pub end: Nanos,
}

impl Critical {
    /// Length, ns.
    pub fn ns(&self) -> i64 {
        self.end.since(self.start).max(0)
    }
}

fn steps_of(t: &Timeline, stage: Stage) -> impl Iterator<Item = &Span> {
    t.spans
        .iter()
        .filter(move |s| s.stage == stage && !s.is_stage() && !s.is_run())
}

/// Merges intervals that overlap or touch; sorted.
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

/// The times in which a span worked, by start, until `now` while it lasts. A stage is the envelope of its steps, and what
/// lies between them is no work of it; a stage without steps is taken whole.
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

/// How long a span worked, ns: the sum of [`work`].
pub fn work_ns(t: &Timeline, span: &Span, now: Nanos) -> i64 {
    work(t, span, now).iter().map(|(a, b)| b.since(*a)).sum()
}

/// The chain of spans that decided when the pod became ready (or, until it is, how long it has been waiting).
///
/// From the end backwards: at each moment the innermost span that went on then and ended last decided; where none did,
/// is unknown. The pieces are in order of time, touch each other, and add up to the whole time.
pub fn critical_path(t: &Timeline, now: Nanos) -> Vec<Critical> {
    let Some(begin) = t.spans.first().map(|s| s.start.at) else {
        return Vec::new();
    };
    let ready = t.stage(Stage::Ready);
    let end = match ready.and_then(|s| s.end) {
        Some(e) => e.at,
        // Not ready yet, or over without it: what happened until termination began.
        None => t
            .stage(Stage::Terminate)
            .map_or(now, |s| s.start.at.min(now)),
    };
    // An init container's run decides when the next container may start; a main container's own does not.
    let starts_after = |s: &Span| {
        s.end.is_some_and(|e| {
            t.spans.iter().any(|x| {
                x.step == method::START_CONTAINER
                    && x.container != s.container
                    && x.start.at >= e.at
            })
        })
    };
    let candidates: Vec<(SpanIndex, &Span)> = (0..)
        .zip(&t.spans)
        .filter(|(_, s)| {
            s.stage != Stage::Terminate
                && !s.is_stage()
                && s.start.at < end
                && (!s.is_run() || starts_after(s))
        })
        .collect();
    let depth = |s: &Span| {
        std::iter::successors(s.parent, |p| t.spans.get(*p as usize)?.parent)
            .take(16)
            .count()
    };
    let mut path: Vec<Critical> = Vec::new();
    let mut at = end;
    // Each turn goes back to the start of a span or to the end of one, so it ends; the bound is for what is broken.
    for _ in 0..=2 * t.spans.len() {
        if at <= begin {
            break;
        }
        // What went on just before `at`: the innermost, then the latest to start.
        let on = candidates
            .iter()
            .filter(|(_, s)| s.start.at < at && s.end.is_none_or(|e| e.at >= at))
            .max_by_key(|(i, s)| (depth(s), s.start.at, std::cmp::Reverse(*i)));
        let (span, from) = if let Some((i, s)) = on {
            // A child that ended inside it decides from its end back.
            let child = candidates
                .iter()
                .filter(|(_, c)| c.parent == Some(*i))
                .filter_map(|(_, c)| c.end)
                .map(|e| e.at)
                .filter(|e| *e < at && *e > s.start.at)
                .max();
            (Some(*i), child.unwrap_or(s.start.at))
        } else {
            let before = candidates
                .iter()
                .filter_map(|(_, s)| s.end)
                .map(|e| e.at)
                .filter(|e| *e < at)
                .max()
                .unwrap_or(begin);
            (None, before)
        };
        let from = from.max(begin);
        match path.last_mut() {
            Some(last) if last.span == span => last.start = from,
            _ => path.push(Critical {
                span,
                start: from,
                end: at,
            }),
        }
        at = from;
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{Certainty, Edge, RUN};

    fn span(
        stage: Stage,
        step: &str,
        container: &str,
        start: i64,
        end: Option<i64>,
        parent: Option<u32>,
    ) -> Span {
        let edge = |at| Edge {
            at: Nanos(at),
            precision: 1,
        };
        let (start, end) = (edge(start), end.map(edge));
        Span {
            container: container.into(),
            parent,
            ..Span::new(stage, step, start, end, Certainty::Measured, Vec::new())
        }
    }

    /// Sandbox 0–100 with its network 20–90, an unknown 100–150, an init container's run 170–300, then the main one.
    fn start() -> Timeline {
        Timeline {
            spans: vec![
                span(Stage::Sandbox, "sandbox", "", 0, Some(100), None),
                span(Stage::Sandbox, "RunPodSandbox", "", 0, Some(100), Some(0)),
                span(
                    Stage::Sandbox,
                    "cni.setup_pod_network",
                    "",
                    20,
                    Some(90),
                    Some(1),
                ),
                span(Stage::Start, "start", "", 150, Some(330), None),
                span(
                    Stage::Start,
                    "StartContainer",
                    "init",
                    150,
                    Some(170),
                    Some(3),
                ),
                span(Stage::Start, RUN, "init", 170, Some(300), None),
                span(
                    Stage::Start,
                    "StartContainer",
                    "web",
                    300,
                    Some(330),
                    Some(3),
                ),
                span(Stage::Start, RUN, "web", 330, None, None),
                span(Stage::Ready, "ready", "", 330, Some(400), None),
                span(Stage::Ready, "SetPodStatus", "", 330, Some(400), Some(8)),
            ],
            ..Timeline::default()
        }
    }

    #[test]
    fn the_critical_path_has_no_holes_and_adds_up_to_the_whole_time() {
        let t = start();
        let path = critical_path(&t, Nanos(1000));
        let told: Vec<(&str, i64, i64)> = path
            .iter()
            .map(|c| {
                let step = c
                    .span
                    .and_then(|i| t.spans.get(i as usize))
                    .map_or("?", |s| s.step.as_str());
                (step, c.start.0, c.end.0)
            })
            .collect();
        assert_eq!(
            told,
            [
                ("RunPodSandbox", 0, 20),
                ("cni.setup_pod_network", 20, 90),
                ("RunPodSandbox", 90, 100),
                ("?", 100, 150),
                ("StartContainer", 150, 170),
                ("run", 170, 300),
                ("StartContainer", 300, 330),
                ("SetPodStatus", 330, 400),
            ]
        );
        assert_eq!(path.iter().map(Critical::ns).sum::<i64>(), 400);
    }

    #[test]
    fn a_stage_works_only_while_a_step_of_it_goes_on() {
        let t = start();
        let stage = t.stage(Stage::Start).expect("it began");
        let now = Nanos(1000);
        assert_eq!((stage.duration(now), work_ns(&t, stage, now)), (180, 50));
    }
}
