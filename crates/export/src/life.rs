//! A pod's whole life for a picture: a time axis on which its start, its restarts and its back-offs are readable, and one
//! row for all attempts of a step.

use std::collections::HashMap;

use kflow_core::flow::Stage;
use kflow_core::timeline::{Outcome, Span, SpanIndex, Timeline, summary};
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;
use kflow_model::units::duration;

/// A life shorter than this many starts is drawn to scale as a whole.
const SHORT_LIFE: i64 = 3;
/// Least and greatest share of the axis for the start, when what comes after it is folded.
const START: (f64, f64) = (0.35, 0.8);
/// A quiet time is folded if it is longer than this many starts.
const QUIET: i64 = 2;
/// A quiet time this many times longer than all that is before it leaves that less than a twentieth of the axis.
const STILL: i64 = 20;
/// Width of the start, in widths of what lasts as long as it later. Chosen: a start of half a second beside four
/// back-offs gets a third of the axis.
const START_WEIGHT: f64 = 20.0;
/// Quiet times that are shown at either end of a long life; all that is between them is folded into one.
const KEPT: usize = 3;

/// A part of an [`Axis`]. Offsets are ns since the axis' begin; places are shares of its width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    pub from: i64,
    pub to: i64,
    pub x: f64,
    pub width: f64,
    /// Whether the piece is a quiet time that is drawn shorter than its length.
    pub folded: bool,
}

/// A time axis over a pod's life. The start is drawn to scale. If the life is much longer, a time in which nothing
/// begins or ends, longer than twice the start, is folded: its width grows with the logarithm of its length.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub first: Nanos,
    /// In order, without holes; at least one.
    pieces: Vec<Piece>,
}

impl Axis {
    /// Returns the axis from the first evidence until the last, or until now for a pod of which something is open; `None`
    /// without any.
    pub fn of(t: &Timeline, now: Nanos) -> Option<Self> {
        let (first, last) = t.range()?;
        let open = t.spans.iter().any(|s| s.end.is_none());
        let last = if open { last.max(now) } else { last };
        let length = last.since(first).max(1);
        let edges = edges(t, first, length);
        let start = start(t, first, &edges).clamp(1, length);
        let pieces = if length / SHORT_LIFE <= start {
            vec![(0, length, 1.0, false)]
        } else {
            let mut all = vec![(0, start, 0.0, false)];
            all.extend(later(start, length, &edges));
            let rest: f64 = all.iter().map(|p| p.2).sum();
            let share = (START_WEIGHT / (START_WEIGHT + rest)).clamp(START.0, START.1);
            for (i, p) in all.iter_mut().enumerate() {
                p.2 = match i {
                    0 => share,
                    _ => p.2 / rest * (1.0 - share),
                };
            }
            all
        };
        let mut x = 0.0;
        let placed = pieces.into_iter().map(|(from, to, width, folded)| {
            let piece = Piece {
                from,
                to,
                x,
                width,
                folded,
            };
            x += width;
            piece
        });
        Some(Self {
            first,
            pieces: placed.collect(),
        })
    }
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
    /// Returns the pieces that are quiet times.
    pub fn folds(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().filter(|p| p.folded)
    }
    /// Returns the length, ns.
    pub fn length(&self) -> i64 {
        self.pieces.last().map_or(1, |p| p.to)
    }
    /// Returns the last moment.
    pub fn last(&self) -> Nanos {
        self.first.plus(self.length())
    }
    /// Returns the place of a moment, 0 to 1.
    pub fn place(&self, at: Nanos) -> f64 {
        let at = at.since(self.first).clamp(0, self.length());
        let piece = self.pieces.iter().find(|p| at <= p.to);
        piece.map_or(1.0, |p| {
            let length = (p.to - p.from).max(1);
            p.x + p.width * (at - p.from) as f64 / length as f64
        })
    }
    /// Returns the moment at a place, as ns since the begin.
    fn offset(&self, place: f64) -> i64 {
        let piece = self.pieces.iter().find(|p| place <= p.x + p.width);
        piece.map_or(self.length(), |p| {
            let share = ((place - p.x) / p.width).clamp(0.0, 1.0);
            p.from + (share * (p.to - p.from) as f64) as i64
        })
    }
    /// Returns ticks at round times, as ns since the begin with their places, at least `gap` and less than twice that
    /// apart on a piece of the axis.
    pub fn ticks(&self, gap: f64) -> Vec<(i64, f64)> {
        let mut ticks: Vec<(i64, f64)> = Vec::new();
        let mut from = 0.0;
        while from <= 1.0 {
            let after = ticks.last().map_or(0, |(at, _)| at + 1);
            let low = self.offset(from).max(after);
            let most = (self.offset((from + gap).min(1.0)) - low).max(1);
            let step = rounds().take_while(|s| *s <= most).last().unwrap_or(1);
            let at = low.saturating_add(step - 1) / step * step;
            let x = self.place(self.first.plus(at));
            if at > self.length() {
                break;
            }
            ticks.push((at, x));
            from = x.max(from) + gap;
        }
        ticks
    }
}

/// Formats a tick's time without trailing zeros: `0`, `30s`, `2m`, `1.5s`.
pub fn tick(at: i64) -> String {
    if at == 0 {
        return "0".to_owned();
    }
    let text = duration(at);
    let (number, unit) = match text.find(|c: char| c.is_alphabetic()) {
        Some(i) if text.contains('.') => text.split_at(i),
        _ => return text.trim_end_matches("00s").to_owned(),
    };
    let number = number.trim_end_matches('0').trim_end_matches('.');
    format!("{number}{unit}")
}

/// Returns round lengths of time, ns: powers of ten up to ten seconds, then units of clocks and calendars.
fn rounds() -> impl Iterator<Item = i64> {
    let tens = (0..11).flat_map(|n| [1, 2, 5].map(|by| by * 10_i64.pow(n)));
    let clock = [
        10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400,
    ];
    let days = (0..).map_while(|n| 43_200_i64.checked_shl(n).filter(|s| *s > 0));
    let seconds = clock.into_iter().chain(days);
    tens.take_while(|step| *step < 10 * SECOND)
        .chain(seconds.map_while(|s| s.checked_mul(SECOND)))
}

/// Returns when spans begin and end, and when something went wrong, in order, each once; with the begin and the end.
fn edges(t: &Timeline, first: Nanos, length: i64) -> Vec<i64> {
    let spans = t.spans.iter().flat_map(|s| {
        let end = s.end.map(|e| e.at);
        std::iter::once(s.start.at).chain(end)
    });
    let bad = t.marks.iter().filter(|m| m.bad).map(|m| m.at.at);
    let mut all: Vec<i64> = spans.chain(bad).map(|at| at.since(first)).collect();
    all.retain(|at| (0..=length).contains(at));
    all.extend([0, length]);
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns how long the start took: until the pod was ready first, or until it stood still so long that all that was
/// before could not be seen beside it. A pod that was never ready stood still in its last quiet time that is longer than
/// twice what was before.
fn start(t: &Timeline, first: Nanos, edges: &[i64]) -> i64 {
    let ready = t.stage(Stage::Ready).filter(|s| s.outcome == Outcome::Ok);
    let ready = ready.and_then(|s| s.end).map(|e| e.at.since(first));
    let (until, times) = match ready {
        Some(ready) => (ready, STILL),
        None => (i64::MAX, QUIET),
    };
    let mut newest = edges.windows(2).rev();
    let quiet = newest.find_map(|w| match w {
        [a, b] if *a > 0 && *b <= until && b - a > a.saturating_mul(times) => Some(*a),
        _ => None,
    });
    let took = quiet.or(ready).or(edges.last().copied()).unwrap_or(1);
    // A little room, so that the last step of the start does not end at the fold.
    took.saturating_add(took / 40)
}

/// Returns the pieces after the start: begin, end, weight, and whether it is folded.
fn later(start: i64, length: i64, edges: &[i64]) -> Vec<(i64, i64, f64, bool)> {
    let after = edges.iter().copied().filter(|e| *e > start);
    let all: Vec<i64> = std::iter::once(start).chain(after).collect();
    let long = start.saturating_mul(QUIET);
    let is_long = |a: i64, b: i64| b - a > long;
    let mut quiet: Vec<(i64, i64)> = all
        .windows(2)
        .filter_map(|w| match w {
            [a, b] if is_long(*a, *b) => Some((*a, *b)),
            _ => None,
        })
        .collect();
    if quiet.len() > 2 * KEPT {
        let tail = quiet.split_off(quiet.len() - KEPT);
        quiet.truncate(KEPT);
        if let (Some((_, from)), Some((to, _))) = (quiet.last(), tail.first()) {
            quiet.push((*from, *to));
        }
        quiet.extend(tail);
    }
    let mut pieces = Vec::new();
    let mut at = start;
    let busy = |from: i64, to: i64| (from, to, (to - from) as f64 / start as f64, false);
    for (from, to) in quiet {
        if from > at {
            pieces.push(busy(at, from));
        }
        let weight = QUIET as f64 + ((to - from) as f64 / long as f64).ln().max(0.0);
        pieces.push((from, to, weight, true));
        at = to;
    }
    if length > at {
        pieces.push(busy(at, length));
    }
    pieces
}

/// A row: a span, or all attempts of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub depth: u16,
    /// By start; at least one.
    pub spans: Vec<SpanIndex>,
    /// Whether rows of its steps follow.
    pub children: bool,
}

impl Line {
    pub fn spans<'t>(&self, t: &'t Timeline) -> impl Iterator<Item = &'t Span> {
        self.spans.iter().filter_map(|i| t.spans.get(*i as usize))
    }
    /// Returns how the attempts ended: in flight if one is, failed if one did.
    pub fn outcome(&self, t: &Timeline) -> Outcome {
        let all = || self.spans(t).map(|s| s.outcome);
        [Outcome::InFlight, Outcome::Error, Outcome::Cancelled]
            .into_iter()
            .find(|o| all().any(|s| s == *o))
            .unwrap_or(Outcome::Ok)
    }
}

/// Formats how long the attempts of a step worked: `996ms to 1.00s`.
pub fn lengths(t: &Timeline, line: &Line, now: Nanos) -> String {
    let worked = || line.spans(t).map(|s| summary::work_ns(t, s, now));
    let (least, most) = (worked().min(), worked().max());
    let (least, most) = (duration(least.unwrap_or(0)), duration(most.unwrap_or(0)));
    if least == most {
        least
    } else {
        format!("{least} to {most}")
    }
}

/// Identity of a step, whatever the attempt: two volumes are mounted by two steps.
type Step<'t> = (Stage, &'t str, &'t str, &'t str);

fn step(s: &Span) -> Step<'_> {
    let volume = s.message.strip_prefix("volume ").unwrap_or_default();
    let volume = volume.split([':', ' ']).next().unwrap_or_default();
    (s.stage, &s.step, &s.container, volume)
}

/// Returns the rows of a timeline: by stage, then by start, each followed by those of its steps.
pub fn lines(t: &Timeline) -> Vec<Line> {
    let mut children: Vec<Vec<SpanIndex>> = vec![Vec::new(); t.spans.len()];
    let mut roots = Vec::new();
    for (i, s) in (0..).zip(&t.spans) {
        match s.parent.and_then(|p| children.get_mut(p as usize)) {
            // A parent comes before its children, so there are no cycles.
            Some(c) if s.parent.is_some_and(|p| p < i) => c.push(i),
            _ => roots.push(i),
        }
    }
    let grouped = |all: Vec<SpanIndex>| -> Vec<Vec<SpanIndex>> {
        let mut places: HashMap<Step<'_>, usize> = HashMap::new();
        let mut groups: Vec<Vec<SpanIndex>> = Vec::new();
        for i in all {
            let Some(s) = t.spans.get(i as usize) else {
                continue;
            };
            let place = *places.entry(step(s)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.push(i),
                None => groups.push(vec![i]),
            }
        }
        groups
    };
    roots.sort_by_key(|i| t.spans.get(*i as usize).map(|s| (s.stage, s.start)));
    let mut stack: Vec<(Vec<SpanIndex>, u16)> =
        grouped(roots).into_iter().rev().map(|g| (g, 0)).collect();
    let mut lines = Vec::new();
    while let Some((spans, depth)) = stack.pop() {
        let mut own: Vec<SpanIndex> = spans
            .iter()
            .filter_map(|i| children.get(*i as usize))
            .flatten()
            .copied()
            .collect();
        own.sort_unstable();
        lines.push(Line {
            depth,
            spans,
            children: !own.is_empty(),
        });
        let below = grouped(own).into_iter().rev();
        stack.extend(below.map(|g| (g, depth.saturating_add(1))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_core::timeline::{Certainty, Edge, RUN};
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    fn span(stage: Stage, step: &str, attempt: u32, ms: (i64, Option<i64>)) -> Span {
        let edge = |n: i64| Edge {
            at: Nanos(n * MS),
            precision: 1,
        };
        Span {
            attempt,
            container: "c".into(),
            ..Span::new(
                stage,
                step,
                edge(ms.0),
                ms.1.map(edge),
                Certainty::Measured,
                Vec::new(),
            )
        }
    }

    /// A container that runs for a second and then waits for its back-off, as often as asked.
    fn crash_loop(times: u32) -> Timeline {
        let mut spans = vec![
            span(Stage::Sandbox, "sandbox", 0, (0, Some(400))),
            span(Stage::Ready, "ready", 0, (400, Some(500))),
        ];
        let mut at = 500;
        for n in 0..times {
            spans.push(span(Stage::Start, RUN, n, (at, Some(at + 1000))));
            let wait = 10_000 << n.min(5);
            at += 1000 + wait;
            spans.push(span(
                Stage::Start,
                "CrashLoopBackOff",
                n,
                (at - wait, Some(at)),
            ));
        }
        Timeline {
            spans,
            ..Timeline::default()
        }
    }

    #[test]
    fn a_short_life_is_drawn_to_scale() {
        let t = Timeline {
            spans: vec![
                span(Stage::Ready, "ready", 0, (0, Some(500))),
                span(Stage::Start, RUN, 0, (500, Some(1200))),
            ],
            ..Timeline::default()
        };
        let axis = Axis::of(&t, Nanos(0)).unwrap();
        assert_eq!(axis.pieces().len(), 1);
        assert!((axis.place(Nanos(600 * MS)) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_start_and_every_back_off_of_a_crash_loop_are_wide_enough_to_be_read() {
        for (times, least) in [(4, 0.06), (400, 0.04)] {
            let t = crash_loop(times);
            let axis = Axis::of(&t, Nanos(0)).unwrap();
            let width = |s: &Span| axis.place(s.end.unwrap().at) - axis.place(s.start.at);
            assert!(axis.place(Nanos(500 * MS)) > 0.3);
            let waits: Vec<f64> = t
                .spans
                .iter()
                .filter(|s| s.step == "CrashLoopBackOff")
                .map(width)
                .collect();
            for wait in [waits.first(), waits.get(1), waits.last()] {
                assert!(*wait.unwrap() > least, "{times}: {wait:?}");
            }
            assert!(axis.pieces().len() < 40, "{}", axis.pieces().len());
        }
    }

    #[test]
    fn a_pod_that_never_became_ready_has_a_start_too() {
        // The pull goes on for an hour, after a start of half a second.
        let t = Timeline {
            spans: vec![
                span(Stage::Sandbox, "RunPodSandbox", 0, (0, Some(500))),
                span(Stage::Image, "PullImage", 0, (510, None)),
            ],
            ..Timeline::default()
        };
        let axis = Axis::of(&t, Nanos(3_600_000 * MS)).unwrap();
        assert!(axis.place(Nanos(500 * MS)) > 0.3);
        assert_eq!(axis.folds().count(), 1);
    }

    #[test]
    fn the_start_of_a_pod_whose_pull_took_a_minute_can_be_read() {
        let t = Timeline {
            spans: vec![
                span(Stage::Volumes, "WaitForAttachAndMount", 0, (0, Some(300))),
                span(Stage::Sandbox, "RunPodSandbox", 0, (300, Some(450))),
                span(Stage::Image, "PullImage", 0, (450, Some(60_000))),
                span(Stage::Ready, "ready", 0, (60_000, Some(60_500))),
            ],
            ..Timeline::default()
        };
        let axis = Axis::of(&t, Nanos(0)).unwrap();
        assert!(axis.place(Nanos(300 * MS)) > 0.3);
        // Of a pod that starts in half a second, no step is long enough to be folded.
        let axis = Axis::of(&crash_loop(0), Nanos(0)).unwrap();
        assert_eq!(axis.folds().count(), 0);
    }

    #[test]
    fn attempts_of_a_step_share_a_row_and_volumes_do_not() {
        let mut t = crash_loop(300);
        for volume in ["a", "b"] {
            let mut s = span(Stage::Volumes, "MountVolume.SetUp", 0, (0, Some(1)));
            s.message = format!("volume {volume}").into();
            t.spans.push(s);
        }
        let rows: Vec<(&str, usize)> = lines(&t)
            .iter()
            .map(|l| {
                let s = l.spans(&t).next().unwrap();
                (s.step.as_str(), l.spans.len())
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("MountVolume.SetUp", 1),
                ("MountVolume.SetUp", 1),
                ("sandbox", 1),
                (RUN, 300),
                ("CrashLoopBackOff", 300),
                ("ready", 1),
            ]
        );
    }

    #[test]
    fn a_tick_has_the_digits_that_it_needs() {
        let said =
            [0, 10, 1500, 200_000, 30_000, 60_000, 90_000, 7_200_000].map(|ms| tick(ms * MS));
        assert_eq!(
            said,
            ["0", "10ms", "1.5s", "3m20s", "30s", "1m", "1m30s", "2h00m"]
        );
    }

    proptest! {
        #[test]
        fn places_keep_the_order_of_moments_and_ticks_keep_their_distance(
            times in 0_u32..40, at in 0_i64..4_000_000, more in 0_i64..4_000_000, gap in 0.05_f64..0.4,
        ) {
            let axis = Axis::of(&crash_loop(times), Nanos(0)).unwrap();
            let (a, b) = (axis.place(Nanos(at * MS)), axis.place(Nanos((at + more) * MS)));
            prop_assert!(a <= b && (0.0..=1.0 + 1e-9).contains(&b), "{} {}", a, b);
            let ticks = axis.ticks(gap);
            prop_assert!(ticks.first().is_some_and(|t| t.0 == 0) && ticks.len() >= 2);
            for w in ticks.windows(2) {
                prop_assert!(w[1].1 - w[0].1 >= gap * 0.99 && w[0].0 < w[1].0, "{:?}", ticks);
            }
        }
        #[test]
        fn ticks_are_round_and_few_whatever_the_length(length in 1_i64..1_i64 << 60) {
            let mut t = Timeline::default();
            let mut s = span(Stage::Api, "api", 0, (0, Some(0)));
            s.end = Some(Edge { at: Nanos(length), precision: 1 });
            t.spans.push(s);
            let ticks = Axis::of(&t, Nanos(0)).unwrap().ticks(1.0 / 6.0);
            prop_assert!((2..=7).contains(&ticks.len()), "{:?}", ticks);
            for (at, _) in ticks {
                prop_assert!(at < 10 || at % 10_i64.pow(at.ilog10().saturating_sub(2)) == 0 || at % (600 * SECOND) == 0, "{}", at);
            }
        }
    }
}
