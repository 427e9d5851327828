//! The metrics that an agent exports for Prometheus, and the Grafana dashboard that shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use kflow_agent::metrics::{Counts, State, write};
use kflow_core::diagnose::Diagnoser;
use kflow_core::stats::{Measure, measured};
use kflow_engine::world_at;
use kflow_export::open_metrics::Page;
use kflow_export::world_metrics::{self, Starts};
use kflow_model::clock;
use kflow_model::cri::{CallKey, CallStart, Service, code_name, method};
use kflow_model::session::load;
use kflow_model::{Body, Evidence, Nanos, Observation, Source, Stamp, Text};
use kflow_sources::live::{SourceStatus, Status};
use regex::Regex;

use super::{Node, PATIENCE, block_on, connected};
use crate::fixture;
use crate::program::kflow;

/// A sample: its name, labels and value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Parses every sample of a page of metrics; fails on a line that is neither a sample nor a comment.
fn samples(page: &str) -> Vec<Sample> {
    let line = Regex::new(r#"^([a-z_]+)(?:\{((?:[a-z]+="[^"\\]*",?)+)\})? ([0-9.+e-]+)$"#).unwrap();
    let label = Regex::new(r#"([a-z]+)="([^"]*)""#).unwrap();
    let (body, end) = page.rsplit_once("# EOF").unwrap();
    assert_eq!(end, "\n");
    let mut families = BTreeSet::new();
    let mut all = Vec::new();
    for text in body.lines() {
        if let Some(comment) = text.strip_prefix("# ") {
            let mut words = comment.split(' ');
            if words.next() == Some("TYPE") {
                assert!(
                    families.insert(words.next().unwrap().to_owned()),
                    "twice: {text}"
                );
            }
            continue;
        }
        let c = line.captures(text).unwrap_or_else(|| panic!("{text}"));
        assert!(families.iter().any(|f| c[1].starts_with(f)), "{text}");
        let labels = c.get(2).map_or("", |m| m.as_str());
        let labels = label
            .captures_iter(labels)
            .map(|l| (l[1].to_owned(), l[2].to_owned()));
        all.push((c[1].to_owned(), labels.collect(), c[3].parse().unwrap()));
    }
    all
}

fn page(counts: &Counts) -> String {
    let state = State {
        sources: Vec::new(),
        spool: Some(kflow_store::Status::default()),
        store: Some(kflow_store::upload::Status::default()),
    };
    let mut out = Vec::new();
    write(&mut out, counts, &state).unwrap();
    String::from_utf8(out).unwrap()
}

/// The counts of a recording, and its observations.
fn recorded() -> (Counts, Vec<Evidence>) {
    let session = load(&fixture("sessions/S5-burst.kflow.zst")).unwrap();
    let mut counts = Counts::default();
    for o in &session.observations {
        counts.take(o);
    }
    (counts, session.observations)
}

/// The start of a call on a connection of which nothing else is known.
fn call_of(stream: u32, method: &str) -> Evidence {
    let start = CallStart::new(CallKey { conn: 900, stream }, Service::Other, method);
    Arc::new(Observation {
        stamp: Stamp::exact(Nanos(1)),
        source: Source::Cri,
        body: Body::CallStart(Box::new(start)),
    })
}

/// The sum of all samples of a metric's name.
fn sum(all: &[Sample], name: &str) -> u64 {
    let of = all.iter().filter(|(n, ..)| n == name);
    of.map(|(.., v)| *v as u64).sum()
}

#[test]
fn what_is_counted_is_what_was_recorded_and_no_label_takes_values_that_others_choose() {
    let (mut counts, observations) = recorded();
    let all = samples(&page(&counts));
    let of = |f: fn(&Body) -> bool| observations.iter().filter(|o| f(&o.body)).count() as u64;
    let ended = of(|b| matches!(b, Body::CallEnd(_)));
    assert!(ended > 1000);
    assert_eq!(sum(&all, "kflow_cri_calls_total"), ended);
    assert_eq!(
        sum(&all, "kflow_observations_total"),
        observations.len() as u64
    );
    let began: BTreeSet<CallKey> = observations
        .iter()
        .filter_map(|o| match &o.body {
            Body::CallStart(c) => Some(c.key),
            _ => None,
        })
        .collect();
    let lengths = sum(&all, "kflow_cri_call_duration_seconds_count");
    assert!(
        lengths * 10 > ended * 9 && lengths <= began.len() as u64,
        "{lengths} of {ended}"
    );
    // Buckets are cumulative: each counts those below it, and the last one counts all.
    let mut below: BTreeMap<String, f64> = BTreeMap::new();
    for (name, labels, value) in &all {
        let method = labels.get("method").cloned().unwrap_or_default();
        match name.as_str() {
            "kflow_cri_call_duration_seconds_bucket" => {
                let before = below.insert(method, *value).unwrap_or(0.0);
                assert!(*value >= before);
            }
            "kflow_cri_call_duration_seconds_count" => assert_eq!(below.get(&method), Some(value)),
            _ => {}
        }
    }
    // A runtime or its client may send any method, code and ID: labels stay valid and their number bounded.
    let lines = page(&counts).lines().count();
    for n in 0..5000_u32 {
        counts.take(&call_of(
            n,
            &format!("/some.Service/Method{n}\"}} 1\nevil 1"),
        ));
    }
    let after = page(&counts);
    assert!(after.lines().count() <= lines + 1, "{after}");
    let codes: Vec<&str> = (0..17).map(code_name).collect();
    let own = [
        "other",
        "unknown",
        "reset by the kubelet",
        "reset by the runtime",
        "connection closed",
        "not seen",
    ];
    for (name, labels, _) in samples(&after) {
        for (label, value) in labels {
            let value = value.as_str();
            let is_bounded = match label.as_str() {
                "method" => method::ALL.contains(&value) || own.contains(&value),
                "code" => codes.contains(&value) || own.contains(&value),
                "source" => Source::ALL.iter().any(|s| s.name() == value),
                "direction" => ["request", "response"].contains(&value),
                "state" => ["starting", "on", "off"].contains(&value),
                "le" => value == "+Inf" || value.parse::<f64>().is_ok(),
                _ => false,
            };
            assert!(is_bounded, "{name}: {label}={value:?}");
        }
    }
    assert!(
        after.contains("kflow_cri_calls_in_flight{method=\"other\"} 5000\n"),
        "{after}"
    );
}

/// Prometheus sees no increase when a series begins with its first count: a counter of losses is exported as
/// 0 from the start.
#[test]
fn what_nothing_was_lost_of_is_counted_as_nothing() {
    let state = State {
        sources: vec![state_of(Source::Kubelet)],
        ..State::default()
    };
    let mut out = Vec::new();
    write(&mut out, &Counts::default(), &state).unwrap();
    let page = String::from_utf8(out).unwrap();
    for name in ["observations", "gaps", "lost"] {
        let line = format!("kflow_{name}_total{{source=\"kubelet\"}} 0\n");
        assert!(page.contains(&line), "{line}{page}");
    }
}

fn state_of(source: Source) -> SourceStatus {
    SourceStatus {
        source,
        name: "tap".into(),
        status: Status::Off("no such socket".into()),
        help: Text::default(),
        since: None,
        next: None,
        last: None,
        lag_ns: None,
        read_to: None,
        lost: 0,
        count: 0,
        guessed: false,
    }
}

/// `deploy/grafana.json`: each query names metrics that are exported, and labels that they have.
#[test]
fn every_query_of_the_dashboard_finds_what_is_exported() {
    let (mut counts, _) = recorded();
    counts.take(&call_of(1, method::PULL_IMAGE));
    let gap = kflow_sources::live::gap(Source::Cri, Nanos(1), Nanos(2), 3, "queue full");
    counts.take(&Arc::new(gap));
    let mut out = Vec::new();
    let state = State {
        sources: vec![state_of(Source::Cri)],
        spool: Some(kflow_store::Status::default()),
        store: Some(kflow_store::upload::Status {
            last: Some(Nanos(1)),
            tidied: Some(kflow_store::tidy::Tidied::default()),
            ..kflow_store::upload::Status::default()
        }),
    };
    write(&mut out, &counts, &state).unwrap();
    let of_agent = samples(&String::from_utf8(out).unwrap());
    let (of_world, ..) = world_page("S2-stuck-early", 2);
    let mut exported: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (name, labels, _) in of_agent.into_iter().chain(of_world) {
        let known = exported.entry(name).or_default();
        for (label, value) in labels {
            known.entry(label).or_default().insert(value);
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/grafana.json");
    let text = std::fs::read_to_string(path).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let metric = Regex::new(r"kflow_[a-z_]+").unwrap();
    let selected = Regex::new(r"(kflow_[a-z_]+)\{([^}]*)\}").unwrap();
    let matcher = Regex::new(r#"([a-z]+)(=~|!=|=)"([^"]*)""#).unwrap();
    let by = Regex::new(r"by \(([^)]*)\)").unwrap();
    let shown = Regex::new(r"\{\{([a-z]+)\}\}").unwrap();
    let mut asked = BTreeSet::new();
    let panels = dashboard["panels"].as_array().unwrap();
    for target in panels.iter().flat_map(|p| p["targets"].as_array().unwrap()) {
        let expr = target["expr"].as_str().unwrap();
        // Prometheus adds the label `instance` when it scrapes.
        let has =
            |name: &str, label: &str| label == "instance" || exported[name].contains_key(label);
        let names: Vec<&str> = metric.find_iter(expr).map(|m| m.as_str()).collect();
        assert_eq!(names.len(), 1, "{expr}");
        assert!(exported.contains_key(names[0]), "{expr}: not exported");
        asked.insert(names[0].to_owned());
        let legend = target["legendFormat"].as_str().unwrap();
        let kept: BTreeSet<&str> = by.captures(expr).map_or_else(BTreeSet::new, |c| {
            let (_, [labels]) = c.extract();
            labels.split(", ").collect()
        });
        for label in &kept {
            assert!(has(names[0], label), "{expr}: no label {label}");
        }
        for label in shown.captures_iter(legend) {
            assert!(kept.contains(&label[1]), "{expr}: {legend}");
        }
        let c = selected.captures(expr).unwrap();
        for m in matcher.captures_iter(&c[2]) {
            assert!(has(names[0], &m[1]), "{expr}: no label {}", &m[1]);
            if &m[1] != "instance" {
                assert!(
                    exported[names[0]][&m[1]].contains(&m[3]),
                    "{expr}: {} is never {}",
                    &m[1],
                    &m[3]
                );
            }
        }
    }
    // Metrics that are exported but are in no panel.
    let family = |name: &String| {
        let suffixes = ["_bucket", "_count", "_sum"];
        let stem = suffixes.iter().find_map(|s| name.strip_suffix(s));
        stem.map_or_else(|| name.clone(), str::to_owned)
    };
    let in_panels: BTreeSet<String> = asked.iter().map(family).collect();
    let rest: Vec<String> = exported
        .keys()
        .map(family)
        .filter(|n| !in_panels.contains(n))
        .collect();
    assert_eq!(
        rest,
        [
            "kflow_cri_calls_untracked_total",
            "kflow_store_segments_removed_total",
            "kflow_store_segments_sent_total"
        ]
    );
}

/// The metrics of the world that the terminal would export after so many quarters of a recording, when it was asked at
/// the end of each; with the durations of the pods' starts (the start SLI), s, and the number of verdicts that are not
/// well by cause.
fn world_page(name: &str, quarters: i64) -> (Vec<Sample>, Vec<f64>, BTreeMap<String, u64>) {
    let session = load(&crate::recording(name)).unwrap();
    let (begin, end) = session.range().unwrap();
    let (mut starts, mut lengths) = (Starts::default(), BTreeMap::new());
    let mut last = None;
    for n in 1..=quarters {
        let at = begin.plus(end.since(begin) / 4 * n + 3).min(end);
        let world = world_at(&session, at, Arc::default());
        starts.look(&world);
        for pod in world.pods() {
            let sli = measured(pod, None)
                .into_iter()
                .find(|(m, _)| *m == Measure::StartSli);
            if let Some(ns) = sli.and_then(|(_, ns)| ns) {
                // The duration counts as it was when it was first known.
                lengths.entry(pod.uid.clone()).or_insert(ns as f64 / 1e9);
            }
        }
        last = Some((world, at));
    }
    let (world, at) = last.unwrap();
    let (of_pods, of_owners) = Diagnoser::new().update(&world, at);
    let verdicts: Vec<_> = of_pods.values().chain(of_owners.iter()).collect();
    let mut unwell: BTreeMap<String, u64> = BTreeMap::new();
    for v in verdicts.iter().filter(|v| !v.state.is_well()) {
        let cause = v.cause.map_or("unknown", |c| c.as_str());
        *unwell.entry(cause.to_owned()).or_default() += 1;
    }
    let mut out = Vec::new();
    let mut page = Page::new(&mut out);
    world_metrics::write(&mut page, &starts, verdicts.iter().map(|v| &***v)).unwrap();
    page.end().unwrap();
    let all = samples(&String::from_utf8(out).unwrap());
    (all, lengths.into_values().collect(), unwell)
}

#[test]
fn starts_and_verdicts_are_those_that_stats_and_why_tell() {
    const START: &str = "kflow_pod_start_sli_duration_seconds";
    for name in ["S1-basics", "S2-stuck-early", "S5-burst"] {
        for quarters in [2, 4] {
            let (all, lengths, unwell) = world_page(name, quarters);
            assert_eq!(sum(&all, &format!("{START}_count")), lengths.len() as u64);
            let buckets = all.iter().filter(|(n, ..)| *n == format!("{START}_bucket"));
            for (_, labels, n) in buckets {
                let bound = labels["le"].parse().unwrap_or(f64::INFINITY);
                let below = lengths.iter().filter(|s| **s <= bound).count();
                assert_eq!(*n as usize, below, "{name} {labels:?}");
            }
            let told = all.iter().filter(|(n, ..)| n == "kflow_verdicts");
            let told = told.map(|(_, labels, n)| (labels["cause"].clone(), *n as u64));
            assert_eq!(told.collect::<BTreeMap<_, _>>(), unwell, "{name}");
        }
    }
    assert!(world_page("S5-burst", 4).1.len() > 20);
    assert!(world_page("S2-stuck-early", 2).2.len() >= 3);
}

fn get(port: u16, request: &str) -> std::io::Result<String> {
    let mut to = TcpStream::connect(("127.0.0.1", port))?;
    to.set_read_timeout(Some(PATIENCE))?;
    to.write_all(
        format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut text = String::new();
    to.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn metrics_are_served_on_loopback_and_segments_go_into_a_store() {
    let node = Node::new();
    let (port, store) = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        (
            free.local_addr().unwrap().port(),
            format!("file://{}", node.path("store").display()),
        )
    };
    let address = format!("127.0.0.1:{port}");
    let spool = node.path("spool").display().to_string();
    let agent = node.start(&[
        "--spool",
        &spool,
        "--metrics",
        &address,
        "--store",
        &store,
        "--cluster",
        "lab",
        "--segment",
        "1s",
        "--store-keep",
        "14d",
    ]);
    block_on(async {
        connected(&node.socket()).await;
    });
    let begun = clock::monotonic();
    let all = loop {
        let answer = get(port, "GET /metrics").unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(
            head.contains("application/openmetrics-text; version=1.0.0"),
            "{head}"
        );
        let all = samples(body);
        if sum(&all, "kflow_store_segments_sent_total") >= 1 {
            break all;
        }
        assert!(begun.elapsed() < PATIENCE, "{body}");
        std::thread::yield_now();
    };
    assert!(sum(&all, "kflow_observations_total") >= 3, "{all:?}");
    assert!(sum(&all, "kflow_sources") >= 3, "{all:?}");
    assert_eq!(sum(&all, "kflow_store_failing"), 0);
    assert!(sum(&all, "kflow_store_last_sent_timestamp_seconds") > 1_700_000_000);
    let socket = node.socket().display().to_string();
    let status = kflow(["agent", "status", "--socket", &socket]).out;
    let of_store = status.lines().find(|l| l.contains(&store));
    let of_store = of_store.unwrap_or_else(|| panic!("{status}"));
    assert!(of_store.contains(" sent, "), "{of_store}");
    assert!(
        of_store.contains(" ago; ") && of_store.contains(" wait"),
        "{of_store}"
    );
    assert!(get(port, "GET /").unwrap().starts_with("HTTP/1.1 404"));
    assert!(
        get(port, "POST /metrics")
            .unwrap()
            .starts_with("HTTP/1.1 405")
    );
    drop(agent);
    let listed = kflow(["store", "ls", &store, "-o", "json"]);
    assert!(listed.out.contains("\"node\":\"node1\""), "{}", listed.out);
    // `--metrics` listens on loopback only: it is refused on other addresses.
    let socket = node.path("other/agent.sock").display().to_string();
    let args = [
        "agent",
        "run",
        "--node",
        "n",
        "--no-api",
        "--no-spool",
        "--tap",
        "off",
    ];
    let open = ["--metrics", "0.0.0.0:0", "--serve", &socket];
    let said = kflow(args.iter().chain(&open));
    assert!(said.err.contains("loopback"), "{}", said.err);
}
