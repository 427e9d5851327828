//! `kflow import` of the raw captures of a session of 25 MB: the aim is 300 ms for the whole process.
//!
//! The captures are those of one recording (`fixtures/captures`), over and over: each round later than the one before,
//! with its own UIDs and ids. That recording's spans are not committed as a capture; in their place are those of
//! `fixtures/otlp`, as the collector's file exporter would have written them, repeated until there are as many as it
//! had. They stand beside reading the same bytes with `serde_json` and nothing else. `cargo bench --bench import`;
//! `-- make FOLDER` writes the captures and imports nothing.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark measures time, prints it, and stops where it cannot"
)]

#[path = "shared/allocator.rs"]
mod allocator;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use chrono::{NaiveDateTime, TimeDelta};
use regex::{Captures, Regex};
use serde_json::{Value, json};

/// What makes a session of 25 MB.
const ROUNDS: i64 = 13;
const AIM_MS: f64 = 300.0;
const RUNS: usize = 15;
/// The recording lasts 2 min 16 s.
const ROUND_S: i64 = 140;
/// The recording has 2,865 spans, and `fixtures/otlp` 129.
const SPANS: i64 = 22;

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    if let [make, to] = args.as_slice()
        && make == "make"
    {
        return captures(Path::new(to));
    }
    let dir = tempfile::tempdir().expect("a folder");
    let from = dir.path().join("captures");
    fs::create_dir(&from).expect("a folder");
    captures(&from);
    import(&from, dir.path());
}

/// The whole process, and the same bytes read by serde_json.
fn import(from: &Path, scratch: &Path) {
    let out = scratch.join("out.kflow.zst");
    let run = || {
        let t = Instant::now();
        let status = Command::new(env!("CARGO_BIN_EXE_kflow"))
            .args(["import", "-q"])
            .arg(from)
            .arg("-O")
            .arg(&out)
            .status()
            .expect("kflow");
        assert!(status.success(), "the import ended with {status}");
        t.elapsed().as_secs_f64() * 1e3
    };
    run();
    let before = children();
    let imported = median(run);
    let busy = (children() - before) / RUNS as f64;
    let files: Vec<(bool, Vec<u8>)> = fs::read_dir(from)
        .expect("the captures")
        .map(|f| {
            let path = f.expect("a capture").path();
            let json = path.extension().is_some_and(|e| e == "jsonl");
            (json, fs::read(path).expect("a capture"))
        })
        .collect();
    let read = median(|| {
        let t = Instant::now();
        for (json, text) in &files {
            let lines = text.split(|b| *b == b'\n').filter(|l| !l.is_empty());
            for line in lines {
                if *json {
                    serde_json::from_slice::<Value>(line).expect("JSON");
                } else {
                    std::str::from_utf8(line).expect("UTF-8");
                }
            }
        }
        t.elapsed().as_secs_f64() * 1e3
    });
    let raw = files.iter().map(|(_, text)| text.len()).sum::<usize>() as f64 / 1e6;
    let session = zstd::decode_all(fs::File::open(&out).expect("a session")).expect("zstd");
    let lines = memchr::memchr_iter(b'\n', &session).count();
    println!(
        "{raw:.1} MB of captures, a session of {:.1} MB ({lines} lines)",
        session.len() as f64 / 1e6
    );
    let mark = if imported <= AIM_MS { "met" } else { "NOT MET" };
    println!(
        "kflow import, the whole process {imported:7.0} ms {:6.0} MB/s   aim {AIM_MS} ms {mark}; processor {busy:.0} ms",
        raw * 1e3 / imported
    );
    println!(
        "reading it by serde_json        {read:7.0} ms {:6.0} MB/s   of it {:.2}",
        raw * 1e3 / read,
        imported / read
    );
}

fn median(mut run: impl FnMut() -> f64) -> f64 {
    let mut all: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    all.sort_by(f64::total_cmp);
    all[RUNS / 2]
}

/// Processor time of the processes that were waited for, ms (`proc_pid_stat(5)`: cutime and cstime, in hundredths).
fn children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let hundredths: f64 = fields
        .split_whitespace()
        .skip(13)
        .take(2)
        .filter_map(|n| n.parse::<f64>().ok())
        .sum();
    hundredths * 10.0
}

/// Writes one file of each kind.
fn captures(to: &Path) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut files = vec![("otlp.jsonl".to_owned(), spans(&fixtures))];
    for file in fs::read_dir(fixtures.join("captures")).expect("fixtures") {
        let path = file.expect("fixtures").path();
        let text = zstd::decode_all(fs::File::open(&path).expect("a fixture")).expect("zstd");
        let name = path.file_stem().expect("a name").to_string_lossy();
        let text = String::from_utf8(text).expect("UTF-8");
        files.push((name.into_owned(), text));
    }
    let changes = Regex::new(concat!(
        r"(?P<klog>(?m:^)[IWEF]\d{4} \d\d:\d\d:\d\d)|(?P<iso>\b2026-\d\d-\d\dT\d\d:\d\d:\d\d)|(?P<ns>\b1[78]\d{17}\b)",
        r"|(?P<id>\b(?:[0-9a-f]{8}-[0-9a-f]{4}-|[0-9a-f]{64}\b|[0-9a-f]{32}\b|[0-9a-f]{16}\b))",
    ))
    .expect("a pattern");
    for (name, text) in files {
        let whole: String = (0..ROUNDS)
            .map(|n| changes.replace_all(&text, |c: &Captures<'_>| changed(c, n)))
            .collect();
        fs::write(to.join(name), whole).expect("room");
    }
}

fn changed(c: &Captures<'_>, round: i64) -> String {
    let text = c.get(0).map_or("", |m| m.as_str());
    let later = |text: &str, form: &str| {
        let t = NaiveDateTime::parse_from_str(text, form).expect("a time");
        t + TimeDelta::seconds(round * ROUND_S)
    };
    if c.name("klog").is_some() {
        let (level, t) = text.split_at(1);
        let t = later(&format!("2026{t}"), "%Y%m%d %H:%M:%S");
        format!("{level}{}", t.format("%m%d %H:%M:%S"))
    } else if c.name("iso").is_some() {
        const ISO: &str = "%Y-%m-%dT%H:%M:%S";
        later(text, ISO).format(ISO).to_string()
    } else if c.name("ns").is_some() {
        let ns: i64 = text.parse().expect("digits");
        (ns + round * ROUND_S * 1_000_000_000).to_string()
    } else {
        // The first four digits are the round's: what was different stays different.
        format!("{round:04x}{}", text.split_at(4).1)
    }
}

/// The exports, each a line of OTLP JSON.
fn spans(fixtures: &Path) -> String {
    let text = fs::read_to_string(fixtures.join("otlp/decoded.jsonl")).expect("the fixture");
    let all: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    let mut out = String::new();
    for copy in 0..SPANS {
        for export in all.chunk_by(|a, b| a["recv"] == b["recv"]) {
            let spans: Vec<Value> = export.iter().map(|s| span(s, copy)).collect();
            let service = attribute("service.name", &export[0]["service"]);
            out.push_str(
                &json!({"resourceSpans": [{
                    "resource": {"attributes": [service]},
                    "scopeSpans": [{"scope": {}, "spans": spans}],
                }]})
                .to_string(),
            );
            out.push('\n');
        }
    }
    out
}

fn attribute(key: &str, value: &Value) -> Value {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    json!({"key": key, "value": {"stringValue": text}})
}

/// A span under ids of the copy's own, a part of the recording later.
fn span(s: &Value, copy: i64) -> Value {
    let id = |field: &str| {
        let text = s[field].as_str().unwrap_or_default();
        match text.split_at_checked(text.len().saturating_sub(4)) {
            Some((rest, last)) if !last.is_empty() => {
                let last = u16::from_str_radix(last, 16).expect("hex");
                format!("{rest}{:04x}", last.wrapping_add(copy as u16))
            }
            _ => String::new(),
        }
    };
    let time = |t: &Value| {
        let later = copy * ROUND_S * 1_000_000_000 / SPANS;
        (t.as_i64().expect("a time") + later).to_string()
    };
    let attrs = s["attrs"].as_object().expect("attributes");
    let events = s["events"].as_array().expect("events");
    json!({
        "traceId": id("trace"), "spanId": id("span"), "parentSpanId": id("parent"),
        "name": s["name"], "kind": s["kind"], "flags": s["flags"],
        "startTimeUnixNano": time(&s["start"]), "endTimeUnixNano": time(&s["end"]),
        "attributes": attrs.iter().map(|(k, v)| attribute(k, v)).collect::<Vec<_>>(),
        "events": events
            .iter()
            .map(|e| json!({"timeUnixNano": time(&e["t"]), "name": e["name"]}))
            .collect::<Vec<_>>(),
        "status": {"code": s["status"]["code"], "message": s["status"]["msg"]},
    })
}
