//! Timelines as a Perfetto trace (protobuf TrackEvent) for the Perfetto UI: a group per pod, a track per stage,
//! verdicts on pods, nodes and owners as instants, arrows from a container's pull to its create and from the create to
//! its start, and counters of the runtime's calls.
//!
//! Slices of one track have to nest, so spans of a stage that overlap without nesting (containers that are created at
//! the same time) are spread over several tracks.

mod lanes;
mod packet;

use std::hash::BuildHasher;
use std::io::{self, Write};

use prost::Message;

use super::file::Told;
use super::why::{confidence_name, subject};
use kflow_core::correlate::{Call, CallLog, Pod, World};
use kflow_core::diagnose::Verdict;
use kflow_core::flow::Stage;
use kflow_core::timeline::Span;
use kflow_model::Nanos;
use kflow_model::cri::method;
use lanes::{Arrow, Slice, arrows, lanes, slices};
use packet::{
    BEGIN, BOOTTIME, COUNTER, Clock, ClockSnapshot, Counter, END, EXPLICIT, INSTANT, REALTIME,
    SEQUENCE, STATE_CLEARED, TracePacket, TrackDescriptor, TrackEvent, UNIT_COUNT, number, text,
};

/// Writes these pods as one trace, with the runtime's calls of the same time. Open spans end at `now` and
/// are marked as open.
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

/// Returns the first and the last moment of these pods.
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
    /// Writes a packet: a trace is `repeated TracePacket packet = 1`.
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

    /// Writes counters of the runtime's calls, of all pods because calls wait for one another.
    fn counters(&mut self, calls: &CallLog, (first, last): (Nanos, Nanos)) -> io::Result<()> {
        if calls.is_empty() {
            return Ok(());
        }
        let group = self.track("CRI calls of all pods", None, 0)?;
        let is_pull = |c: &Call| c.method == method::PULL_IMAGE;
        // A relist of the kubelet begins with this call. Housekeeping and garbage collection also make
        // it without a filter.
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

    /// Writes the slices of a lane, which nest: begins and ends are in the order of a walk through the tree.
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
            // A child is cut at its parent's end, because edges of different sources may disagree and slices must nest.
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

/// Returns +1 for the start of each call, −1 for its end. Calls that began before `first` count from `first`.
fn in_flight(calls: &CallLog, first: Nanos, counted: impl Fn(&Call) -> bool) -> Vec<(Nanos, i64)> {
    calls
        .iter()
        .filter(|c| c.end.is_none_or(|e| e >= first) && counted(c))
        .flat_map(|c| [Some((c.start.max(first), 1)), c.end.map(|e| (e, -1))])
        .flatten()
        .collect()
}

/// Sums the changes: returns the value from each moment with a change on, beginning with 0 at `first`.
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

/// Makes an instant of a verdict, at the moment since when the verdict holds.
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
    // Arguments with equal names would hide one another, so they are numbered.
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use super::lanes::tests::span;
    use super::*;
    use kflow_core::correlate::PodView;
    use kflow_core::timeline::Timeline;

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
