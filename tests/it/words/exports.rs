//! Exports report the same working time of a stage as the timeline, and not the time from its first step to its last.

use std::collections::{BTreeMap, HashMap};

use crate::correlate::{SESSIONS, session, world};
use kflow_core::correlate::{Pod, PodView, World};
use kflow_core::flow::Stage;
use kflow_core::timeline::{RUN, summary};
use kflow_export::file::Told;
use kflow_export::otlp::Findings;
use kflow_model::span::SpanKind;
use kflow_model::{Body, Nanos, units::duration};
use kflow_sources::LineDecoder;
use kflow_sources::otlp::decode::OtlpDecoder;
use prost::Message;
use serde_json::Value;

/// How long each stage worked, ns, by pod and stage.
type Lengths = BTreeMap<(String, Stage), i64>;

fn timeline(pods: &[Pod], now: Nanos) -> Lengths {
    let mut all = Lengths::new();
    for p in pods {
        for stage in Stage::ALL {
            if let Some(s) = p.timeline.stage(stage) {
                let ns = summary::work_ns(&p.timeline, s, now);
                all.insert((p.uid.to_string(), stage), ns);
            }
        }
    }
    all
}

/// The fields of a Perfetto trace that place a slice; their numbers are those of Perfetto's protobuf definition.
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(message, optional, tag = "11")]
    event: Option<Event>,
    #[prost(message, optional, tag = "60")]
    track: Option<Track>,
}

#[derive(Clone, PartialEq, Message)]
struct Track {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, optional, tag = "5")]
    parent: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(uint32, tag = "9")]
    kind: u32,
    #[prost(uint64, tag = "11")]
    track: u64,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
}

/// Returns the working times in the Perfetto trace of one pod.
fn perfetto(pod: &Pod, now: Nanos) -> Lengths {
    let mut bytes = Vec::new();
    let none = Told {
        pods: &HashMap::new(),
        others: &[],
        incidents: &[],
    };
    kflow_export::perfetto::write(
        &World::new(),
        std::slice::from_ref(pod),
        &none,
        now,
        &mut bytes,
    )
    .expect("written");
    let trace = Trace::decode(bytes.as_slice()).expect("a trace");
    let mut stages: BTreeMap<u64, Stage> = BTreeMap::new();
    // By track: the open slices.
    let mut open: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
    let mut all = Lengths::new();
    for p in trace.packets {
        if let Some(t) = p.track {
            let stage = Stage::ALL.into_iter().find(|s| s.name() == t.name);
            stages.extend(stage.map(|s| (t.uuid, s)));
        }
        let (Some(e), Some(at)) = (p.event, p.timestamp) else {
            continue;
        };
        let Some(stage) = stages.get(&e.track) else {
            continue;
        };
        let slices = open.entry(e.track).or_default();
        if e.kind == 1 {
            slices.push((e.name.unwrap_or_default(), at));
        } else if let Some((name, from)) = slices.pop()
            && name == stage.name()
        {
            *all.entry((pod.uid.to_string(), *stage)).or_default() += (at - from) as i64;
        }
    }
    assert!(open.values().all(Vec::is_empty));
    all
}

/// Returns the string value of an OTLP attribute.
fn attribute<'v>(of: &'v Value, key: &str) -> &'v str {
    of["attributes"]
        .as_array()
        .and_then(|a| a.iter().find(|a| a["key"] == key))
        .and_then(|a| a["value"]["stringValue"].as_str())
        .unwrap_or_default()
}

/// Returns the length of the union of the intervals.
fn covered(mut intervals: Vec<(i64, i64)>) -> i64 {
    intervals.sort_unstable();
    let mut upto = i64::MIN;
    let mut sum = 0;
    for (from, to) in intervals {
        sum += (to - from.max(upto)).max(0);
        upto = upto.max(to);
    }
    sum
}

/// Returns the working times from the steps in all OTLP traces of a pod, and checks the working time that each stage's
/// own span states.
fn otlp(pods: &[Pod], now: Nanos) -> Lengths {
    let mut bytes = Vec::new();
    let all = pods
        .iter()
        .map(|p| -> (&PodView, _) { (p, Findings::default()) });
    kflow_export::otlp::json(all, now, &mut bytes).expect("written");
    let request: Value = serde_json::from_slice(&bytes).expect("JSON");
    received(&bytes, &request);
    let mut steps: BTreeMap<(String, Stage), Vec<(i64, i64)>> = BTreeMap::new();
    let mut stages: BTreeMap<String, (i64, i64, i64)> = BTreeMap::new();
    let mut inside: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    let resources = request["resourceSpans"].as_array().expect("a list");
    let scopes = resources.iter().map(|r| &r["scopeSpans"][0]["spans"]);
    for s in scopes.flat_map(|s| s.as_array().expect("spans")) {
        let edge = |key: &str| -> i64 {
            let time = s[key].as_str().and_then(|t| t.parse().ok());
            time.expect("a time")
        };
        let (from, to) = (edge("startTimeUnixNano"), edge("endTimeUnixNano"));
        assert!(from <= to);
        let stage = Stage::ALL
            .into_iter()
            .find(|x| attribute(s, "kflow.stage") == x.name());
        let Some(stage) = stage else {
            assert!(s["parentSpanId"].is_null(), "no stage: {s}");
            continue;
        };
        let key = |id: &str| s[id].as_str().expect("an id").to_owned();
        let step = attribute(s, "kflow.step");
        if step.is_empty() {
            let work = s["attributes"].as_array().expect("attributes").iter();
            let work = work.filter(|a| a["key"] == "kflow.work_ns");
            let work = work.filter_map(|a| a["value"]["intValue"].as_str()?.parse::<i64>().ok());
            stages.insert(key("spanId"), (from, to, work.sum()));
        } else {
            let uid = attribute(s, "k8s.pod.uid").to_owned();
            let said = s["attributes"].as_array().expect("attributes");
            let is_garbage = said.iter().any(|a| a["key"] == "kflow.garbage_collection");
            if step != RUN && !is_garbage {
                steps.entry((uid, stage)).or_default().push((from, to));
            }
            if !is_garbage {
                inside
                    .entry(key("parentSpanId"))
                    .or_default()
                    .push((from, to));
            }
        }
    }
    for (id, (from, to, work)) in stages {
        let Some(inside) = inside.get(&id) else {
            continue;
        };
        assert_eq!(inside.iter().map(|i| i.0).min(), Some(from), "{id}");
        assert!(
            inside.iter().all(|i| i.1 <= to) && work <= to - from,
            "{id}"
        );
    }
    steps.into_iter().map(|(k, v)| (k, covered(v))).collect()
}

/// The OTLP receiver, which reads exports of kubelets and collectors, finds every span in kflow's
/// export, with its content.
fn received(bytes: &[u8], request: &Value) {
    let mut seen = Vec::new();
    // The receiver ignores spans that kflow itself made: they are no evidence.
    OtlpDecoder::default().line(bytes, &mut seen);
    assert_eq!(seen.len(), 0);
    let of_another = String::from_utf8_lossy(bytes);
    let scope = r#""scope":{"name":"kflow""#;
    assert!(of_another.contains(scope));
    let of_another = of_another.replace(scope, r#""scope":{"name":"another""#);
    OtlpDecoder::default().line(of_another.as_bytes(), &mut seen);
    let mut seen = seen.iter().filter_map(|o| match &o.body {
        Body::Span(s) => Some((o.stamp.at, s)),
        _ => None,
    });
    let resources = request["resourceSpans"].as_array().expect("a list");
    for s in resources
        .iter()
        .filter_map(|r| r["scopeSpans"][0]["spans"].as_array())
        .flatten()
    {
        let (start, got) = seen.next().expect("as many spans");
        let hex = |key: &str| u128::from_str_radix(s[key].as_str()?, 16).ok();
        assert_eq!(Some(got.trace.0), hex("traceId"), "{s}");
        assert_eq!(Some(u128::from(got.span.0)), hex("spanId"), "{s}");
        let parent = got.parent.map(|p| u128::from(p.0));
        assert_eq!(parent, hex("parentSpanId"), "{s}");
        assert_eq!(s["name"], got.name.as_str());
        assert_eq!(s["startTimeUnixNano"], start.0.to_string());
        assert_eq!(s["endTimeUnixNano"], got.end.0.to_string());
        let kind = if s["kind"] == 3 {
            SpanKind::Client
        } else {
            SpanKind::Internal
        };
        assert_eq!(got.kind, kind, "{s}");
        assert_eq!(got.error, s["status"]["code"] == 2, "{s}");
        assert!(!got.service.is_empty(), "{s}");
    }
    assert!(seen.next().is_none(), "more spans than the export has");
}

/// Returns the label beside each stage's bar in the HTML export: `60ms of 2.78s`.
fn html(pod: &Pod, now: Nanos) -> BTreeMap<Stage, String> {
    let mut bytes = Vec::new();
    kflow_export::html::write("t", &[(pod, None)], &[], &[], now, &mut bytes).expect("written");
    let page = String::from_utf8(bytes).expect("UTF-8");
    let row = regex::Regex::new(
        r#"<div class="row stage [^>]+><div class="l"><span class="n"[^>]*>([a-z]+)</span><span class="d">([^<]+)</span>"#,
    )
    .expect("a pattern");
    row.captures_iter(&page)
        .filter_map(|c| {
            let stage = Stage::ALL.into_iter().find(|s| s.name() == &c[1])?;
            Some((stage, c[2].to_owned()))
        })
        .collect()
}

#[test]
fn a_stage_is_as_long_in_every_export_as_in_the_timeline() {
    let mut folded = 0;
    for name in SESSIONS {
        let observations = session(name);
        let w = world(&observations);
        let now = observations
            .iter()
            .map(|o| o.stamp.seen)
            .max()
            .expect("some");
        let pods: Vec<Pod> = w.pods().to_vec();
        let told = timeline(&pods, now);
        assert_eq!(otlp(&pods, now), told, "{name}: OTLP");
        for p in &pods {
            let own: Lengths = told
                .iter()
                .filter(|((uid, _), _)| *uid == *p.uid.as_str())
                .map(|(k, v)| (k.clone(), *v))
                .collect();
            assert_eq!(perfetto(p, now), own, "{name} {}: Perfetto", p.key());
            let page = html(p, now);
            assert_eq!(page.len(), own.len(), "{name} {}: HTML", p.key());
            for ((_, stage), work) in &own {
                let whole = p.timeline.stage(*stage).map_or(0, |s| s.duration(now));
                let (worked, lasted) = (duration(*work), duration(whole));
                let label = if worked == lasted {
                    lasted
                } else {
                    folded += 1;
                    format!("{worked} of {lasted}")
                };
                assert_eq!(page.get(stage), Some(&label), "{name} {}: HTML", p.key());
            }
        }
    }
    assert!(folded > 50, "only {folded} stages pause");
}
