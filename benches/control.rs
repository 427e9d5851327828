//! Observations of the apiserver under load: 5,000 spans and 5,000 audit records in every second of a simulated minute,
//! from bytes to a refreshed world with its pictures, as a live run does it.
//!
//! The audit lines are the recorded ones of `fixtures/captures`, replayed in rounds; each round has audit ids, times, a
//! namespace and a pod of its own. With `one` as second argument all rounds are about one pod, which then has tens of
//! thousands of requests. Every eighth span is the server span of one of those requests, and the others are its
//! children. `cargo bench --bench control` prints how many times faster than real time that was (in processor time, so
//! that a busy machine does not matter) and how much memory it took; it asserts only that nothing was lost on the way.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints, and may give up when its fixture is broken"
)]

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kflow_engine::Pipeline;
use kflow_engine::snapshot::Mode;
use kflow_export::otlp::wire::{
    Request, Resource, ResourceSpans, ScopeSpans, Span, attribute, kind,
};
use kflow_model::{Nanos, Text};
use kflow_sources::audit::decode::AuditLines;
use kflow_sources::otlp::decode::decode_request;
use kflow_sources::{Fed, LineDecoder};
use prost::Message;

/// Simulated seconds, unless the first argument says otherwise.
const SECONDS: u64 = 60;
const RATE: u64 = 5_000;
/// Spans per request.
const SPANS: u64 = 8;
/// Spans per export.
const BATCH: u64 = 512;
/// UID of the recorded pod.
const POD: &str = "4e4df844-2868-44f4-b348-afe965e789f5";
/// The number of observations that a live run's log keeps.
const KEEP: usize = 500_000;

/// Returns the spans of one request in the apiserver's export order: children first.
fn trace(n: u64, audit_id: &str, at: u64) -> Vec<Span> {
    let names = [
        "POST /api/v1/namespaces/{:namespace}/pods",
        "audit",
        "priorityandfairness",
        "authorization",
        "Create",
        "Create etcd3",
        "etcdserverpb.KV/Txn",
        "SerializeObject",
    ];
    let id = |depth: usize| (n * SPANS + depth as u64 + 1).to_be_bytes().to_vec();
    names
        .iter()
        .enumerate()
        .rev()
        .map(|(depth, name)| Span {
            trace_id: u128::from(n + 1).to_be_bytes().to_vec(),
            span_id: id(depth),
            parent_span_id: depth.checked_sub(1).map(id).unwrap_or_default(),
            name: (*name).to_owned(),
            kind: if depth == 0 {
                kind::SERVER
            } else {
                kind::INTERNAL
            },
            start_time_unix_nano: at + depth as u64 * 10_000,
            end_time_unix_nano: at + 5_000_000 - depth as u64 * 10_000,
            attributes: vec![
                attribute("audit-id", audit_id),
                attribute("http.request.method", "POST"),
                attribute("url.path", "/api/v1/namespaces/s01/pods"),
                attribute("user_agent.original", "kubectl/v1.36.4"),
            ],
            ..Span::default()
        })
        .collect()
}

/// A recorded audit line, cut after each key whose value differs between copies: [id], [received], [stage].
struct Template {
    parts: [String; 4],
    /// When the request was received, counted from the recording's first, and how long it took; µs.
    received: u64,
    took: u64,
}

impl Template {
    /// Returns the line as a request of its own about the `round`-th pod, received at `begin`, µs.
    fn line(&self, id: &str, round: u64, begin: u64) -> String {
        let received = begin + self.received;
        let [a, b, c, d] = &self.parts;
        let line = format!(
            "{a}{id}{b}{}{c}{}{d}",
            micro_time(received),
            micro_time(received + self.took)
        );
        line.replace("s62", &format!("s62-{round}"))
            .replace(POD, &format!("{round:08x}{}", POD.get(8..).unwrap_or("")))
    }
}

/// Formats µs since the epoch, such as `2026-11-21T01:02:50.184626Z`.
fn micro_time(us: u64) -> String {
    chrono::DateTime::from_timestamp_micros(us as i64)
        .expect("a time of our days")
        .format("%Y-%m-%dT%H:%M:%S%.6fZ")
        .to_string()
}

/// Returns the recorded audit lines that kflow keeps, in order. One round of them is some 300 requests about a pod that
/// starts, is patched and deleted, about its namespace's objects, and about the node.
fn templates() -> Vec<Template> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/captures/audit.jsonl.zst");
    let file = std::fs::File::open(path).expect("the fixture");
    let mut text = String::new();
    zstd::stream::read::Decoder::new(file)
        .and_then(|mut d| d.read_to_string(&mut text))
        .expect("the fixture is compressed text");
    let micros = |t: &str| {
        let t = chrono::DateTime::parse_from_rfc3339(t).expect("a time");
        t.timestamp_micros() as u64
    };
    let mut all: Vec<Template> = text
        .lines()
        // Lines that kflow ignores, such as health checks, would be no load.
        .filter(|l| {
            let fed = AuditLines::new().line(l.as_bytes(), &mut Vec::new());
            matches!(fed, Fed::Observed(1))
        })
        .filter_map(|l| {
            let (a, rest) = cut(l, "\"auditID\":\"")?;
            let (_, rest) = rest.split_once('"')?;
            let (b, rest) = cut(rest, "\"requestReceivedTimestamp\":\"")?;
            let (received, rest) = rest.split_once('"')?;
            let (c, rest) = cut(rest, "\"stageTimestamp\":\"")?;
            let (stage, d) = rest.split_once('"')?;
            Some(Template {
                parts: [a, format!("\"{b}"), format!("\"{c}"), format!("\"{d}")],
                received: micros(received),
                took: micros(stage).saturating_sub(micros(received)),
            })
        })
        .collect();
    let first = all.iter().map(|t| t.received).min().expect("some lines");
    // A recorded round takes 55 s. Its times are divided by 1,000, so that every simulated second has 5,000 records.
    for t in &mut all {
        t.received = (t.received - first) / 1000;
    }
    all
}

/// Returns the text up to and including `key`, and the rest; `None` without `key`.
fn cut<'a>(text: &'a str, key: &str) -> Option<(String, &'a str)> {
    let (head, tail) = text.split_once(key)?;
    Some((format!("{head}{key}"), tail))
}

fn resident_mib() -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|s| {
            let line = s.lines().find(|l| l.starts_with("VmRSS:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .unwrap_or(0)
        / 1024
}

/// Returns the processor time of this thread, which other work on the machine does not lengthen.
fn cpu() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let ns = told.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(ns.expect("a number"))
}

fn main() {
    let templates = templates();
    let mut pipeline = Pipeline::new();
    let mut decoder = AuditLines::new();
    let begin = 1_795_220_640_000_000_000_u64;
    let mode = Mode::Live {
        scope: Text::new("all"),
        following: true,
        recording: Text::default(),
    };
    let (mut spans, mut records, mut requests, mut bytes) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut pods, mut grouped) = (0, Duration::ZERO);
    let mut took = Duration::ZERO;
    let [mut decode, mut observe, mut refresh, mut picture] = [Duration::ZERO; 4];
    println!("second  CPU s  resident MiB  requests kept  forgotten   pods  groups");
    let seconds = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(SECONDS);
    let one_pod = std::env::args().nth(2).is_some_and(|a| a == "one");
    for second in 0..seconds {
        // The input is made outside the measured time.
        let mut audit = Vec::new();
        let mut exports = Vec::new();
        let mut batch = Vec::new();
        for n in 0..RATE {
            let number = second * RATE + n;
            let id = format!("{number:08x}-0000-4000-8000-000000000000");
            let template = templates
                .get((number % templates.len() as u64) as usize)
                .expect("a template");
            let at = begin / 1000 + number * (1_000_000 / RATE);
            let round = if one_pod {
                0
            } else {
                number / templates.len() as u64
            };
            audit.push(template.line(&id, round, at));
            if n % SPANS == 0 {
                batch.extend(trace(number, &id, at * 1000));
            }
            if batch.len() as u64 >= BATCH || n + 1 == RATE {
                let export = Request {
                    resource_spans: vec![ResourceSpans {
                        resource: Some(Resource {
                            attributes: vec![attribute("service.name", "apiserver")],
                        }),
                        scope_spans: vec![ScopeSpans {
                            spans: std::mem::take(&mut batch),
                            ..ScopeSpans::default()
                        }],
                        ..ResourceSpans::default()
                    }],
                };
                exports.push(export.encode_to_vec());
            }
        }
        let clock = cpu();
        let now = Nanos((begin + second * 1_000_000_000) as i64);
        let mut out = Vec::new();
        let frame = audit.len().div_ceil(10);
        let mut pending = exports.iter();
        for lines in audit.chunks(frame) {
            let mut step = cpu();
            for line in lines {
                bytes += line.len() as u64;
                let fed = decoder.line(line.as_bytes(), &mut out);
                assert!(matches!(fed, Fed::Observed(1)), "{fed:?}");
                requests += 1;
            }
            records += out.len() as u64;
            for export in pending.by_ref().take(exports.len().div_ceil(10)) {
                bytes += export.len() as u64;
                let got = decode_request(export, now).expect("an export decodes");
                spans += got.len() as u64;
                out.extend(got);
            }
            decode += cpu().saturating_sub(step);
            step = cpu();
            for mut o in out.drain(..) {
                o.stamp.seen = now;
                pipeline.observe(Arc::new(o));
            }
            pipeline.shrink(KEEP);
            observe += cpu().saturating_sub(step);
            step = cpu();
            pipeline.refresh();
            refresh += cpu().saturating_sub(step);
            step = cpu();
            let shown = pipeline.snapshot(now, mode.clone(), (now, now), Vec::new());
            assert!(shown.version > 0);
            pods = shown.world.pods().len();
            picture += cpu().saturating_sub(step);
        }
        took += cpu().saturating_sub(clock);
        // Measures the groups that the Requests pane draws.
        let clock = cpu();
        let groups = pipeline.refresh().requests().groups().len();
        grouped = grouped.max(cpu().saturating_sub(clock));
        if second % 10 == 9 {
            let log = pipeline.refresh().requests();
            println!(
                "  decode {decode:.1?}, observe {observe:.1?}, refresh {refresh:.1?}, picture {picture:.1?}",
            );
            println!(
                "{:>6}  {:>6.1}  {:>12}  {:>13}  {:>9}  {pods:>5}  {groups:>6}",
                second + 1,
                took.as_secs_f64(),
                resident_mib(),
                log.len(),
                log.forgotten().0
            );
        }
    }
    let log = pipeline.refresh().requests();
    assert_eq!(
        log.len() as u64 + log.forgotten().0,
        requests,
        "every request is kept, or counted as forgotten"
    );
    println!("grouping by client, verb and resource: {grouped:.1?} at most");
    println!(
        "{spans} spans and {records} audit records ({} MiB) in {:.1} s: {:.1} times real time",
        bytes >> 20,
        took.as_secs_f64(),
        seconds as f64 / took.as_secs_f64()
    );
}
