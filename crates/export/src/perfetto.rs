//! Timelines as a Perfetto trace (protobuf TrackEvent), to open in the Perfetto UI: a group a pod, a track a stage, what was
//! said of the pod, of nodes and of owners as instants, arrows from a container's pull to its create and from its create to its start, and
//! counters of the runtime's calls.
//!
//! Slices of one track have to nest, so spans of a stage that overlap without nesting (containers that are made side
//! by side) get a track each. Only the few fields of `perfetto.protos` that this needs are defined here; their numbers
//! are part of that format and never change.

use std::hash::BuildHasher;
use std::io::{self, Write};

use prost::Message;

use super::file::Told;
use super::why::{confidence_name, subject};
use kflow_core::correlate::{Call, CallLog, Pod, World};
use kflow_core::diagnose::Verdict;
use kflow_core::flow::Stage;
use kflow_core::timeline::{Outcome, Span, Timeline, summary};
use kflow_model::Nanos;
use kflow_model::cri::method;

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    sequence: u32,
    #[prost(message, optional, tag = "6")]
    clocks: Option<ClockSnapshot>,
    #[prost(message, optional, tag = "11")]
    event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    primary: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Clock {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(uint64, tag = "2")]
    timestamp: u64,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, optional, tag = "5")]
    parent: Option<u64>,
    /// Makes it a counter's track.
    #[prost(message, optional, tag = "8")]
    counter: Option<Counter>,
    /// `EXPLICIT`: children stand in the order of `sibling_rank`.
    #[prost(uint32, optional, tag = "11")]
    child_ordering: Option<u32>,
    #[prost(int32, optional, tag = "12")]
    sibling_rank: Option<i32>,
}

/// `CounterDescriptor`
#[derive(Clone, Copy, PartialEq, Message)]
struct Counter {
    #[prost(uint32, tag = "3")]
    unit: u32,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    annotations: Vec<Annotation>,
    /// 1 begin, 2 end, 3 instant, 4 counter.
    #[prost(uint32, tag = "9")]
    kind: u32,
    #[prost(uint64, tag = "11")]
    track: u64,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    value: Option<i64>,
    /// Arrows that begin here.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flows: Vec<u64>,
    /// Arrows that end here.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    flows_end: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(int64, optional, tag = "4")]
    int: Option<i64>,
    #[prost(string, optional, tag = "6")]
    text: Option<String>,
    #[prost(string, tag = "10")]
    name: String,
}

const BEGIN: u32 = 1;
const END: u32 = 2;
const INSTANT: u32 = 3;
const COUNTER: u32 = 4;
const UNIT_COUNT: u32 = 2;
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
const EXPLICIT: u32 = 3;
const SEQUENCE: u32 = 1;
const STATE_CLEARED: u32 = 1;

/// Writes these pods as one trace, with the runtime's calls in the time that they span. Open spans end at `now` and say so.
pub fn write<S: BuildHasher>(
    world: &World,
    pods: &[Pod],
    told: &Told<'_, S>,
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut w = Writer {
        out,
        next_track: 1,
        next_flow: 1,
    };
    let range = range(pods, now);
    let origin = ns(range.map_or(now, |(first, _)| first));
    w.packet(&TracePacket {
        timestamp: Some(origin),
        sequence: SEQUENCE,
        sequence_flags: Some(STATE_CLEARED),
        clocks: Some(ClockSnapshot {
            clocks: vec![
                Clock {
                    id: REALTIME,
                    timestamp: origin,
                },
                Clock {
                    id: BOOTTIME,
                    timestamp: origin,
                },
            ],
            primary: Some(BOOTTIME),
        }),
        ..TracePacket::default()
    })?;
    if let Some(range) = range {
        w.counters(world.calls(), range)?;
    }
    let others = told.of_others(world, pods);
    if !others.is_empty() {
        let group = w.track("nodes and owners", None, 0)?;
        for (rank, v) in (0..).zip(others) {
            let track = w.track(&subject(v), Some(group), rank)?;
            w.event(v.since, said(track, v, now))?;
        }
    }
    pods.iter().try_for_each(|p| w.pod(p, told.pod(p), now))
}

/// First and last moment of these pods.
fn range(pods: &[Pod], now: Nanos) -> Option<(Nanos, Nanos)> {
    let ranges = pods.iter().filter_map(|p| {
        let (first, last) = p.timeline.range()?;
        let open = p.timeline.spans.iter().any(|s| s.end.is_none());
        Some((first, if open { last.max(now) } else { last }))
    });
    ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

fn ns(at: Nanos) -> u64 {
    u64::try_from(at.0).unwrap_or(0)
}

struct Writer<'a, W: Write> {
    out: &'a mut W,
    next_track: u64,
    next_flow: u64,
}

impl<W: Write> Writer<'_, W> {
    /// A trace is `repeated TracePacket packet = 1`.
    fn packet(&mut self, p: &TracePacket) -> io::Result<()> {
        let mut head = vec![0x0a];
        prost::encoding::encode_varint(p.encoded_len() as u64, &mut head);
        self.out.write_all(&head)?;
        self.out.write_all(&p.encode_to_vec())
    }

    fn track(&mut self, name: &str, parent: Option<u64>, rank: i32) -> io::Result<u64> {
        self.track_of(name, parent, rank, None)
    }

    fn track_of(
        &mut self,
        name: &str,
        parent: Option<u64>,
        rank: i32,
        counter: Option<Counter>,
    ) -> io::Result<u64> {
        let uuid = self.next_track;
        self.next_track += 1;
        self.packet(&TracePacket {
            sequence: SEQUENCE,
            track: Some(TrackDescriptor {
                uuid,
                name: name.to_owned(),
                parent,
                counter,
                child_ordering: Some(EXPLICIT),
                sibling_rank: Some(rank),
            }),
            ..TracePacket::default()
        })?;
        Ok(uuid)
    }

    fn event(&mut self, at: Nanos, event: TrackEvent) -> io::Result<()> {
        self.packet(&TracePacket {
            timestamp: Some(ns(at)),
            sequence: SEQUENCE,
            event: Some(event),
            ..TracePacket::default()
        })
    }

    /// What the runtime had to do meanwhile: of all pods, because calls wait for each other.
    fn counters(&mut self, calls: &CallLog, (first, last): (Nanos, Nanos)) -> io::Result<()> {
        if calls.is_empty() {
            return Ok(());
        }
        let group = self.track("CRI calls of all pods", None, 0)?;
        let is_pull = |c: &Call| c.method == method::PULL_IMAGE;
        // The kubelet's relist begins with it; unfiltered it is housekeeping and garbage collection too.
        let is_relist = |c: &Call| c.method == method::LIST_POD_SANDBOX && !c.filtered;
        let counters = [
            ("calls in flight", in_flight(calls, first, |_| true)),
            ("pulls in flight", in_flight(calls, first, is_pull)),
            (
                "relists so far (flat: PLEG stands still)",
                calls
                    .iter()
                    .filter(|c| c.start >= first && is_relist(c))
                    .map(|c| (c.start, 1))
                    .collect(),
            ),
        ];
        for (rank, (name, changes)) in counters.into_iter().enumerate() {
            let unit = Counter { unit: UNIT_COUNT };
            let track = self.track_of(name, Some(group), rank as i32, Some(unit))?;
            for (at, value) in values(changes, first, last) {
                let event = TrackEvent {
                    kind: COUNTER,
                    track,
                    value: Some(value),
                    ..TrackEvent::default()
                };
                self.event(at, event)?;
            }
        }
        Ok(())
    }

    fn pod(&mut self, pod: &Pod, verdict: Option<&Verdict>, now: Nanos) -> io::Result<()> {
        let group = self.track(&format!("{} ({})", pod.key(), pod.status), None, 0)?;
        if let Some(v) = verdict {
            let track = self.track("verdict", Some(group), -1)?;
            self.event(v.since, said(track, v, now))?;
        }
        let arrows = arrows(&pod.timeline, &mut self.next_flow);
        for stage in Stage::ALL {
            let slices = slices(&pod.timeline, stage, now);
            for (lane, slices) in lanes(slices).into_iter().enumerate() {
                let rank = (stage.index() * 100 + lane) as i32;
                let track = self.track(stage.name(), Some(group), rank)?;
                self.lane(track, &slices, &arrows)?;
            }
        }
        if pod.timeline.marks.is_empty() {
            return Ok(());
        }
        let track = self.track("marks", Some(group), 2000)?;
        for m in &pod.timeline.marks {
            let event = TrackEvent {
                kind: INSTANT,
                track,
                categories: vec![m.stage.name().to_owned()],
                name: Some(m.text.to_string()),
                annotations: vec![
                    text("source", m.evidence.source.name()),
                    number("precision_ns", i64::from(m.at.precision)),
                ],
                ..TrackEvent::default()
            };
            self.event(m.at.at, event)?;
        }
        Ok(())
    }

    /// Slices of one lane nest: begins and ends are written in the order of a walk through them.
    fn lane(&mut self, track: u64, slices: &[Slice<'_>], arrows: &[Arrow]) -> io::Result<()> {
        let mut open: Vec<Nanos> = Vec::new();
        for s in slices {
            while let Some(end) = open.pop_if(|end| *end <= s.from) {
                self.end(track, end)?;
            }
            let mut event = begin(track, s.span);
            for a in arrows {
                if a.from == s.index {
                    event.flows.push(a.id);
                }
                if a.to == s.index {
                    event.flows_end.push(a.id);
                }
            }
            self.event(s.from, event)?;
            // A child is cut to its parent where edges of different sources disagree: slices must nest.
            open.push(open.last().map_or(s.to, |outer| s.to.min(*outer)));
        }
        while let Some(end) = open.pop() {
            self.end(track, end)?;
        }
        Ok(())
    }

    fn end(&mut self, track: u64, at: Nanos) -> io::Result<()> {
        self.event(
            at,
            TrackEvent {
                kind: END,
                track,
                ..TrackEvent::default()
            },
        )
    }
}

/// A time in which a span worked.
#[derive(Clone, Copy, Debug)]
struct Slice<'a> {
    span: &'a Span,
    /// Place of the span in its timeline.
    index: usize,
    from: Nanos,
    to: Nanos,
}

/// The slices of a stage and of its steps: one for each time in which they worked.
fn slices(t: &Timeline, stage: Stage, now: Nanos) -> Vec<Slice<'_>> {
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

/// One step led to another: places of the two spans. Only a stage pauses, so each of them is one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrow {
    id: u64,
    from: usize,
    to: usize,
}

/// From a container's pull to its create, and from its create to its start.
fn arrows(t: &Timeline, next: &mut u64) -> Vec<Arrow> {
    let mut all = Vec::new();
    for (to, s) in t.spans.iter().enumerate() {
        let step = match s.step.as_str() {
            method::START_CONTAINER => method::CREATE_CONTAINER,
            method::CREATE_CONTAINER => method::PULL_IMAGE,
            _ => continue,
        };
        let mut before = t.spans.iter().enumerate().take(to).rev();
        // The newest of either kind: a pull before the container's last create was for that one.
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

/// One more at the start of each call, one less at its end. What began before `first` counts from there.
fn in_flight(calls: &CallLog, first: Nanos, counted: impl Fn(&Call) -> bool) -> Vec<(Nanos, i64)> {
    calls
        .iter()
        .filter(|c| c.end.is_none_or(|e| e >= first) && counted(c))
        .flat_map(|c| [Some((c.start.max(first), 1)), c.end.map(|e| (e, -1))])
        .flatten()
        .collect()
}

/// The sum of the changes after each moment at which there were any, from 0 at `first` on.
fn values(mut changes: Vec<(Nanos, i64)>, first: Nanos, last: Nanos) -> Vec<(Nanos, i64)> {
    changes.sort_unstable();
    let mut out = vec![(first, 0)];
    let mut sum = 0;
    for (at, by) in changes.into_iter().take_while(|(at, _)| *at <= last) {
        sum += by;
        match out.last_mut() {
            Some((then, value)) if *then == at => *value = sum,
            _ => out.push((at, sum)),
        }
    }
    out
}

/// A verdict, at the moment since when it is so.
fn said(track: u64, v: &Verdict, now: Nanos) -> TrackEvent {
    let mut annotations = vec![
        text("sentence", &v.sentence),
        text("state", v.state.name()),
        text("confidence", confidence_name(v.confidence)),
        number("as_of_ns", now.0),
    ];
    for (name, value) in [("cause", v.cause_id()), ("container", &v.container)] {
        if !value.is_empty() {
            annotations.push(text(name, value));
        }
    }
    // Arguments of one name would hide each other.
    for (n, p) in (1..).zip(&v.evidence) {
        annotations.push(text(&format!("evidence {n}"), &p.to_string()));
    }
    for (n, next) in (1..).zip(&v.next) {
        let line = format!("{}  {}", next.text, next.command);
        annotations.push(text(&format!("next {n}"), line.trim_end()));
    }
    TrackEvent {
        kind: INSTANT,
        track,
        categories: vec![v.stage.name().to_owned()],
        name: Some(format!("{} {}", v.cause_id(), v.title).trim().to_owned()),
        annotations,
        ..TrackEvent::default()
    }
}

fn begin(track: u64, s: &Span) -> TrackEvent {
    let mut annotations = vec![
        text("outcome", s.outcome.name()),
        text(
            "sources",
            &s.sources()
                .iter()
                .map(|s| s.name())
                .collect::<Vec<_>>()
                .join(","),
        ),
        number("attempt", i64::from(s.attempt)),
        number("precision_ns", i64::from(s.start.precision)),
    ];
    for (name, value) in [
        ("container", &s.container),
        ("code", &s.code),
        ("message", &s.message),
    ] {
        if !value.is_empty() {
            annotations.push(text(name, value));
        }
    }
    let name = if s.container.is_empty() {
        s.step.to_string()
    } else {
        format!("{} {}", s.step, s.container)
    };
    TrackEvent {
        kind: BEGIN,
        track,
        categories: vec![s.stage.name().to_owned()],
        name: Some(name),
        annotations,
        ..TrackEvent::default()
    }
}

fn text(name: &str, value: &str) -> Annotation {
    Annotation {
        name: name.to_owned(),
        text: Some(value.to_owned()),
        int: None,
    }
}

fn number(name: &str, value: i64) -> Annotation {
    Annotation {
        name: name.to_owned(),
        text: None,
        int: Some(value),
    }
}

/// Spreads slices over lanes so that in each lane any two either nest or do not touch.
fn lanes(mut slices: Vec<Slice<'_>>) -> Vec<Vec<Slice<'_>>> {
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
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use super::*;
    use kflow_core::correlate::PodView;
    use kflow_core::timeline::{Certainty, Edge, Timeline};

    fn span(step: &str, from: i64, to: Option<i64>) -> Span {
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
        // The stage works from the first step on.
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
            // A restart, without a pull, and a create that nothing is known of.
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

    #[test]
    fn a_counter_begins_at_zero_and_has_one_value_a_moment() {
        let changes = [(30, -1), (10, 1), (20, 1), (30, -1), (20, 1), (99, 1)];
        let changes = changes.map(|(at, by)| (Nanos(at), by)).to_vec();
        assert_eq!(
            values(changes, Nanos(10), Nanos(50)),
            [(Nanos(10), 1), (Nanos(20), 3), (Nanos(30), 1)]
        );
        assert_eq!(values(Vec::new(), Nanos(3), Nanos(5)), [(Nanos(3), 0)]);
    }

    #[derive(Clone, PartialEq, Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packets: Vec<TracePacket>,
    }

    #[test]
    fn every_begin_has_its_end_and_times_never_go_back_in_a_track() {
        let pod: Pod = Arc::new(
            PodView {
                name: "web".into(),
                namespace: "default".into(),
                timeline: Arc::new(Timeline {
                    spans: vec![
                        span("create", 5, Some(100)),
                        span("a", 10, Some(120)),
                        span("c", 60, None),
                    ],
                    ..Timeline::default()
                })
                .into(),
                ..PodView::default()
            }
            .into(),
        );
        let mut bytes = Vec::new();
        let none = Told {
            pods: &HashMap::new(),
            others: &[],
            incidents: &[],
        };
        write(&World::new(), &[pod], &none, Nanos(200), &mut bytes).unwrap();
        let trace = Trace::decode(bytes.as_slice()).unwrap();
        let mut depth = std::collections::BTreeMap::<u64, (i64, u64)>::new();
        for p in &trace.packets {
            let Some(e) = &p.event else { continue };
            let (open, last) = depth.entry(e.track).or_default();
            *open += if e.kind == BEGIN { 1 } else { -1 };
            assert!(*open >= 0 && p.timestamp.unwrap() >= *last);
            *last = p.timestamp.unwrap();
        }
        assert!(!depth.is_empty() && depth.values().all(|(open, _)| *open == 0));
    }
}
