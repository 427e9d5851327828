//! What a timeline adds up to: how long stages took, what decided the time to readiness, what was slow, what failed.

use std::collections::BTreeMap;

use super::{Outcome, Span, SpanIndex, Timeline};
use crate::flow::Stage;
use kflow_model::cri::method;
use kflow_model::{Nanos, Text};

/// How long one stage took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTime {
    /// Stage that is measured.
    pub stage: Stage,
    /// From its first step's start to its last one's end (to `now` while it lasts), ns.
    pub span_ns: i64,
    /// Time in which at least one of its steps went on, ns: a stage whose steps lie apart is not busy in between.
    pub busy_ns: i64,
    /// It lasts.
    pub open: bool,
}

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

/// How long each stage that was reached took, in causal order.
pub fn stages(t: &Timeline, now: Nanos) -> Vec<StageTime> {
    Stage::ALL
        .into_iter()
        .filter_map(|stage| {
            let whole = t.stage(stage)?;
            Some(StageTime {
                stage,
                span_ns: whole.duration(now),
                busy_ns: work_ns(t, whole, now),
                open: whole.end.is_none(),
            })
        })
        .collect()
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

/// The longest steps, longest first.
pub fn slowest(t: &Timeline, now: Nanos, n: usize) -> Vec<SpanIndex> {
    let mut v: Vec<(SpanIndex, i64)> = (0..)
        .zip(&t.spans)
        .filter(|(_, s)| !s.is_stage() && !s.is_run())
        .map(|(i, s)| (i, s.duration(now)))
        .collect();
    v.sort_by_key(|(i, ns)| (std::cmp::Reverse(*ns), *i));
    v.into_iter().take(n).map(|(i, _)| i).collect()
}

/// The first step after a moment that ended badly; from the beginning again when there is none after it.
pub fn next_error(t: &Timeline, after: Nanos) -> Option<SpanIndex> {
    let bad = || {
        (0..).zip(&t.spans).filter(|(_, s)| {
            !s.is_stage() && matches!(s.outcome, Outcome::Error | Outcome::Cancelled)
        })
    };
    bad()
        .find(|(_, s)| s.start.at > after)
        .or_else(|| bad().next())
        .map(|(i, _)| i)
}

/// Durations of the calls of one method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MethodTime {
    /// CRI method.
    pub method: Text,
    /// Calls that ended.
    pub count: usize,
    /// Calls that failed.
    pub errors: usize,
    /// Calls in flight.
    pub in_flight: usize,
    /// Median, ns.
    pub p50_ns: i64,
    /// 90th percentile, ns.
    pub p90_ns: i64,
    /// 99th percentile, ns.
    pub p99_ns: i64,
    /// Longest, ns.
    pub max_ns: i64,
    /// All of them together, ns.
    pub total_ns: i64,
}

/// The value below which a share of sorted values lies (nearest rank), 0 for none.
pub fn percentile(sorted: &[i64], permille: usize) -> i64 {
    let rank = (sorted.len() * permille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// One call, as far as [`methods`] needs it: method, length when it ended, failed.
pub type CallTime<'a> = (&'a str, Option<i64>, bool);

/// Percentiles per method, the method with the most time first.
pub fn methods<'a>(calls: impl IntoIterator<Item = CallTime<'a>>) -> Vec<MethodTime> {
    let mut by: BTreeMap<&str, (Vec<i64>, usize, usize)> = BTreeMap::new();
    for (method, ns, failed) in calls {
        let (times, errors, open) = by.entry(method).or_default();
        match ns {
            Some(ns) => times.push(ns),
            None => *open += 1,
        }
        *errors += usize::from(failed);
    }
    let mut out: Vec<MethodTime> = by
        .into_iter()
        .map(|(method, (mut times, errors, in_flight))| {
            times.sort_unstable();
            MethodTime {
                method: method.into(),
                count: times.len(),
                errors,
                in_flight,
                p50_ns: percentile(&times, 500),
                p90_ns: percentile(&times, 900),
                p99_ns: percentile(&times, 990),
                max_ns: times.last().copied().unwrap_or(0),
                total_ns: times.iter().fold(0, |a, b| a.saturating_add(*b)),
            }
        })
        .collect();
    out.sort_by_key(|m| std::cmp::Reverse(m.total_ns));
    out
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
    fn a_stage_is_busy_only_while_a_step_of_it_goes_on() {
        let times = stages(&start(), Nanos(1000));
        let of = |stage| times.iter().find(|s| s.stage == stage).copied();
        let start = of(Stage::Start).map(|s| (s.span_ns, s.busy_ns));
        assert_eq!(start, Some((180, 50)));
        assert_eq!(of(Stage::Volumes), None);
    }

    #[test]
    fn the_next_error_begins_again_at_the_end() {
        let mut t = start();
        assert_eq!(next_error(&t, Nanos(0)), None);
        if let Some(s) = t.spans.get_mut(1) {
            s.outcome = Outcome::Error;
        }
        assert_eq!(next_error(&t, Nanos(-1)), Some(1));
        assert_eq!(next_error(&t, Nanos(200)), Some(1));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let v: Vec<i64> = (1..=100).collect();
        assert_eq!(
            (
                percentile(&v, 500),
                percentile(&v, 990),
                percentile(&v, 1000)
            ),
            (50, 99, 100)
        );
        assert_eq!(percentile(&[], 500), 0);
        let m = methods([
            ("A", Some(5), false),
            ("A", Some(7), true),
            ("B", None, false),
        ]);
        assert_eq!(
            m.iter()
                .map(|m| (m.method.as_str(), m.count, m.errors, m.in_flight, m.max_ns))
                .collect::<Vec<_>>(),
            [("A", 2, 1, 0, 7), ("B", 0, 0, 1, 0)]
        );
    }

    #[test]
    fn the_slowest_steps_come_first_and_open_ones_count_until_now() {
        let t = start();
        let slow = slowest(&t, Nanos(1000), 2);
        let names: Vec<&str> = slow
            .iter()
            .filter_map(|i| t.spans.get(*i as usize))
            .map(|s| s.step.as_str())
            .collect();
        assert_eq!(names, ["RunPodSandbox", "cni.setup_pod_network"]);
    }
}
