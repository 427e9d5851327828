//! Timelines as a Perfetto trace (protobuf TrackEvent), to open in the Perfetto UI: a group a pod, a track a stage.
//!
//! Slices of one track have to nest, so spans of a stage that overlap without nesting (containers that are made side
//! by side) get a track each. Only the few fields of `perfetto.protos` that this needs are defined here; their numbers
//! are part of that format and never change.

use std::io::{self, Write};

use prost::Message;

use kflow_core::correlate::Pod;
use kflow_core::flow::Stage;
use kflow_core::timeline::{Span, Timeline, summary};
use kflow_model::Nanos;

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
    /// `EXPLICIT`: children stand in the order of `sibling_rank`.
    #[prost(uint32, optional, tag = "11")]
    child_ordering: Option<u32>,
    #[prost(int32, optional, tag = "12")]
    sibling_rank: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    annotations: Vec<Annotation>,
    /// 1 begin, 2 end, 3 instant.
    #[prost(uint32, tag = "9")]
    kind: u32,
    #[prost(uint64, tag = "11")]
    track: u64,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
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
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
const EXPLICIT: u32 = 3;
const SEQUENCE: u32 = 1;
const STATE_CLEARED: u32 = 1;

/// Writes all pods as one trace. Open spans end at `now` and say so.
pub fn write(pods: &[Pod], now: Nanos, out: &mut impl Write) -> io::Result<()> {
    let mut w = Writer { out, next_track: 1 };
    let first = pods
        .iter()
        .filter_map(|p| p.timeline.range())
        .map(|(a, _)| a)
        .min();
    let origin = ns(first.unwrap_or(now));
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
    pods.iter().try_for_each(|p| w.pod(p, now))
}

fn ns(at: Nanos) -> u64 {
    u64::try_from(at.0).unwrap_or(0)
}

struct Writer<'a, W: Write> {
    out: &'a mut W,
    next_track: u64,
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
        let uuid = self.next_track;
        self.next_track += 1;
        self.packet(&TracePacket {
            sequence: SEQUENCE,
            track: Some(TrackDescriptor {
                uuid,
                name: name.to_owned(),
                parent,
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

    fn pod(&mut self, pod: &Pod, now: Nanos) -> io::Result<()> {
        let group = self.track(&format!("{} ({})", pod.key(), pod.status), None, 0)?;
        for stage in Stage::ALL {
            let slices = slices(&pod.timeline, stage, now);
            for (lane, slices) in lanes(slices).into_iter().enumerate() {
                let rank = (stage.index() * 100 + lane) as i32;
                let track = self.track(stage.name(), Some(group), rank)?;
                self.lane(track, &slices)?;
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
            };
            self.event(m.at.at, event)?;
        }
        Ok(())
    }

    /// Slices of one lane nest: begins and ends are written in the order of a walk through them.
    fn lane(&mut self, track: u64, slices: &[Slice<'_>]) -> io::Result<()> {
        let mut open: Vec<Nanos> = Vec::new();
        for s in slices {
            while let Some(end) = open.pop_if(|end| *end <= s.from) {
                self.end(track, end)?;
            }
            self.event(s.from, begin(track, s.span))?;
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
    from: Nanos,
    to: Nanos,
}

/// The slices of a stage and of its steps: one for each time in which they worked.
fn slices(t: &Timeline, stage: Stage, now: Nanos) -> Vec<Slice<'_>> {
    t.spans
        .iter()
        .filter(|s| s.stage == stage)
        .flat_map(|span| {
            summary::work(t, span, now)
                .into_iter()
                .map(move |(from, to)| Slice { span, from, to })
        })
        .collect()
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
    use super::*;
    use kflow_core::correlate::PodView;
    use kflow_core::timeline::{Certainty, Edge, Timeline};
    use std::sync::Arc;

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
        write(&[pod], Nanos(200), &mut bytes).unwrap();
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
