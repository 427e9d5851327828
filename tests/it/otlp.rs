//! Traces, decoded with OpenTelemetry's own protobuf definition: each trace is one tree, every span has a service, ids
//! stay the same when more is observed, and links lead to the spans that the components sent.

mod grpc;
pub(crate) mod posting;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use kflow_core::correlate::{PodView, World};
use kflow_core::diagnose::{Diagnoser, Verdicts};
use kflow_export::file::{self, Kind, Told};
use kflow_export::otlp::wire::{AnyValue, Request, Span, Value};
use kflow_export::otlp::{Episode, Findings, Made, Outbox, Trace, traces};
use kflow_model::{Body, Evidence, Nanos, SpanId, TraceId};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};

use crate::correlate::{SESSIONS, world};
use crate::fixture;

fn recordings() -> Vec<PathBuf> {
    let versions = ["versions/S15-crio", "versions/S16-kubelet-1.31"];
    let sessions = SESSIONS.map(|s| format!("sessions/{s}"));
    let names = sessions.iter().map(String::as_str).chain(versions);
    names.map(|n| fixture(&format!("{n}.kflow.zst"))).collect()
}

fn observations(path: &Path) -> Vec<Evidence> {
    kflow_model::session::load(path)
        .expect("a recording")
        .observations
}

/// Returns the first and the last time at which an observation was seen.
fn range(all: &[Evidence]) -> (Nanos, Nanos) {
    let seen = || all.iter().map(|o| o.stamp.seen);
    (seen().min().unwrap(), seen().max().unwrap())
}

fn all_traces(w: &World, now: Nanos) -> Vec<(&PodView, Trace)> {
    let of = |p| traces(p, Findings::default(), now);
    let pods = w.every_pod().iter().map(|p| -> &PodView { p });
    pods.flat_map(|p| of(p).into_iter().map(move |t| (p, t)))
        .collect()
}

fn attribute<'a>(s: &'a Span, key: &str) -> Option<&'a Value> {
    let mut with = s.attributes.iter().filter(|a| a.key == key);
    let found = with.next();
    assert!(with.next().is_none(), "{key} twice: {s:?}");
    found?.value.as_ref()?.value.as_ref()
}

fn text<'a>(s: &'a Span, key: &str) -> &'a str {
    match attribute(s, key) {
        Some(Value::StringValue(s)) => s,
        _ => "",
    }
}

fn link_of(trace: &[u8], span: &[u8]) -> (TraceId, SpanId) {
    let trace = u128::from_be_bytes(trace.try_into().expect("16 bytes"));
    let span = u64::from_be_bytes(span.try_into().expect("8 bytes"));
    (TraceId(trace), SpanId(span))
}

#[test]
fn each_trace_is_one_tree_of_services_with_names_that_are_few() {
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for path in recordings() {
        let all = observations(&path);
        let (first, last) = range(&all);
        let middle = first.plus(last.since(first) / 2);
        for now in [middle, last] {
            let w = world(all.iter().filter(|o| o.stamp.seen <= now));
            for (pod, t) in all_traces(&w, now) {
                let what = format!("{} {} {:?}", path.display(), pod.key(), t.episode);
                let ids: BTreeSet<u64> = t.spans.iter().map(|m| m.id.0).collect();
                assert_eq!(ids.len(), t.spans.len(), "{what}: an id twice");
                let mut before = BTreeSet::new();
                for (
                    i,
                    Made {
                        id, service, span, ..
                    },
                ) in t.spans.iter().enumerate()
                {
                    let Some(parent) = span.parent_span_id.as_slice().try_into().ok() else {
                        assert_eq!((i, span.parent_span_id.len()), (0, 0), "{what}: one root");
                        before.insert(id.0);
                        continue;
                    };
                    assert!(
                        before.contains(&u64::from_be_bytes(parent)),
                        "{what}: {}",
                        span.name
                    );
                    before.insert(id.0);
                    assert!(!service.is_empty(), "{what}: {}", span.name);
                    assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
                    assert_eq!(text(span, "k8s.pod.uid"), pod.uid.as_str(), "{what}");
                    *names.entry(span.name.clone()).or_default() += 1;
                }
                let of = match t.episode {
                    Episode::Start => "start",
                    Episode::Restart { .. } => "restart",
                    Episode::Termination => "termination",
                };
                *seen.entry(of).or_default() += 1;
                assert_eq!(t.over.is_none(), t.spans[0].open, "{what}");
            }
        }
    }
    assert!(
        seen["start"] > 500 && seen["restart"] > 50 && seen["termination"] > 100,
        "{seen:?}"
    );
    // Names hold no pod, image or id: a trace store makes one operation of each name.
    assert!(names.len() < 80, "{names:?}");
    assert!(names["runtime.v1.RuntimeService/RunPodSandbox"] > 100);
}

#[test]
fn what_may_be_sent_keeps_its_ids_when_more_is_seen() {
    let mut kept = 0;
    let mut lost = Vec::new();
    for path in recordings() {
        let all = observations(&path);
        let (first, last) = range(&all);
        let mut w = World::new();
        let mut fed = all.iter().peekable();
        // By pod UID and span id: a description of the span, and whether the span was settled.
        let mut given: HashMap<(String, u64), (String, bool)> = HashMap::new();
        for n in 1..=12_i64 {
            let now = first.plus(last.since(first) / 12 * n);
            let now = if n == 12 { last } else { now };
            while let Some(o) = fed.next_if(|o| o.stamp.seen <= now) {
                w.observe(o);
            }
            w.refresh();
            let mut here: HashMap<(String, u64), (String, bool)> = HashMap::new();
            for (pod, t) in all_traces(&w, now) {
                let settled: BTreeSet<u64> = t.settled(now).map(|m| m.id.0).collect();
                for m in &t.spans {
                    let what = format!(
                        "{:?} {} {} {}",
                        t.episode,
                        text(&m.span, "kflow.stage"),
                        text(&m.span, "kflow.step"),
                        text(&m.span, "k8s.container.name")
                    );
                    here.insert(
                        (pod.uid.to_string(), m.id.0),
                        (what, settled.contains(&m.id.0)),
                    );
                }
            }
            for (id, (what, _)) in given.iter().filter(|(_, (_, settled))| *settled) {
                // The world drops a pod some time after the pod is gone.
                if !w.every_pod().iter().any(|p| p.uid.as_str() == id.0) {
                    continue;
                }
                match here.get(id) {
                    Some((now, _)) if now == what => kept += 1,
                    other => lost.push(format!("{}: {id:?} {what} -> {other:?}", path.display())),
                }
            }
            given = here;
        }
    }
    assert!(kept > 50_000, "{kept}");
    // One wait is derived from an Event alone, and two minutes later the apiserver raises that Event's count instead of
    // keeping the original.
    let shown: Vec<_> = lost.iter().take(20).collect();
    assert!(lost.len() <= 1, "{kept} kept, lost: {shown:#?}");
}

#[test]
fn links_lead_to_the_spans_that_the_components_sent() {
    let (mut calls, mut linked, mut led) = (0, 0, 0);
    for path in recordings() {
        let all = observations(&path);
        let now = range(&all).1;
        let sent: BTreeSet<(TraceId, SpanId)> = all
            .iter()
            .filter_map(|o| match &o.body {
                Body::Span(s) => Some((s.trace, s.span)),
                _ => None,
            })
            .collect();
        let w = world(&all);
        for (_, t) in all_traces(&w, now) {
            for m in &t.spans {
                let is_call = text(&m.span, "rpc.system.name") == "grpc";
                calls += usize::from(is_call);
                linked += usize::from(is_call && !m.span.links.is_empty());
                for l in &m.span.links {
                    let to = link_of(&l.trace_id, &l.span_id);
                    led += usize::from(sent.contains(&to));
                    // Each link leads to a span that a component sent, except for links of a root span and of calls: a
                    // call's traceparent may name a span that nobody exported.
                    let own = m.span.parent_span_id.is_empty();
                    assert!(
                        own || is_call || sent.contains(&to),
                        "{} {l:?}",
                        m.span.name
                    );
                }
            }
        }
    }
    assert!(
        calls > 1_000 && linked * 10 > calls * 9,
        "{linked} of {calls}"
    );
    assert!(led > 1_500, "{led}");
}

/// Returns one export format of a session's pods, with their verdicts.
fn written(w: &World, found: &Verdicts, kind: Kind, now: Nanos) -> Vec<u8> {
    let told = Told {
        pods: &*found.0,
        others: &found.1,
        incidents: &[],
    };
    let mut out = Vec::new();
    file::write(kind, w, w.pods(), &told, now, &mut out).expect("a Vec takes all");
    out
}

#[test]
fn both_forms_are_of_opentelemetrys_own_format_and_say_the_same() {
    let set = std::fs::read(fixture("otlp/trace.descriptor.zst")).expect("the definition");
    let set = zstd::decode_all(set.as_slice()).expect("zstd");
    let pool = DescriptorPool::decode(set.as_slice()).expect("descriptors");
    let of = "opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest";
    let of = pool.get_message_by_name(of).expect("the request");
    let mut verdicts = 0;
    for name in [
        "sessions/S2-stuck-early",
        "sessions/S3-crashes",
        "versions/S15-crio",
    ] {
        let all = observations(&fixture(&format!("{name}.kflow.zst")));
        let (first, last) = range(&all);
        let now = first.plus(last.since(first) / 2);
        let w = world(all.iter().filter(|o| o.stamp.seen <= now));
        let found = Diagnoser::new().update(&w, now);
        let bytes = written(&w, &found, Kind::OtlpProtobuf, now);
        let read = DynamicMessage::decode(of.clone(), bytes.as_slice()).expect("a request");
        crate::perfetto::known(&read);
        let request = Request::decode(bytes.as_slice()).expect("a request");
        let json = written(&w, &found, Kind::Otlp, now);
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(
            serde_json::to_value(&request).expect("JSON"),
            json,
            "{name}"
        );
        // Each verdict on a pod with a timeline is an event of a root span.
        for s in request.resource_spans.iter().flat_map(|r| &r.scope_spans) {
            let roots = s.spans.iter().filter(|s| s.parent_span_id.is_empty());
            let events = roots.flat_map(|s| &s.events);
            verdicts += events.filter(|e| e.name == "kflow.verdict").count();
        }
        for r in &request.resource_spans {
            let attributes = &r.resource.as_ref().expect("a resource").attributes;
            let service = attributes.iter().find(|a| a.key == "service.name");
            let Some(AnyValue {
                value: Some(Value::StringValue(name)),
            }) = service.and_then(|a| a.value.clone())
            else {
                panic!("a resource without a service: {r:?}");
            };
            assert!(!name.is_empty());
        }
    }
    assert!(verdicts > 30, "{verdicts}");
}

#[test]
fn a_run_gives_out_each_span_once_and_in_the_end_what_an_export_has() {
    let mut given = 0;
    for name in ["S1-basics", "S3-crashes", "S5-burst", "S8-node"] {
        let all = observations(&crate::recording(name));
        let (first, last) = range(&all);
        let mut outbox = Outbox::new(first);
        let mut sent: HashMap<u64, Span> = HashMap::new();
        let mut w = World::new();
        let mut fed = all.iter().peekable();
        let mut now = first;
        // One more minute, in which no observation comes.
        while now < last.plus(60_000_000_000) {
            now = now.plus(1_000_000_000);
            while let Some(o) = fed.next_if(|o| o.stamp.seen <= now) {
                w.observe(o);
            }
            w.refresh();
            for m in outbox.take(w.every_pod(), |_| Findings::default(), now) {
                let old = sent.insert(m.id.0, m.span);
                assert!(old.is_none(), "{name}: twice: {old:?}");
            }
        }
        // What is final at the end was sent, and mostly with the same times.
        let mut missing = Vec::new();
        let mut other = 0;
        for (pod, t) in all_traces(&w, now) {
            for m in t
                .settled(now)
                .filter(|_| t.over.is_some_and(|o| o >= first))
            {
                match sent.get(&m.id.0) {
                    None => missing.push(format!("{} {:?} {}", pod.key(), t.episode, m.span.name)),
                    Some(s) => {
                        let times = |s: &Span| (s.start_time_unix_nano, s.end_time_unix_nano);
                        other += usize::from(times(s) != times(&m.span));
                    }
                }
            }
        }
        assert!(missing.is_empty(), "{name}: {missing:#?}");
        // The stage of a start grows when an old container is removed later.
        assert!(
            other * 50 <= sent.len(),
            "{name}: {other} of {}",
            sent.len()
        );
        given += sent.len();
    }
    assert!(given > 5_000, "{given}");
}
