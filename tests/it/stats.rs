//! `kflow stats`: its figures, compared with those computed here from the timelines and calls of the same recording.

use std::collections::{BTreeMap, BTreeSet};

use kflow_model::Body;
use kflow_model::pod::Condition;
use kflow_model::session::reader;
use serde_json::Value;

use crate::fixture;
use crate::program;

fn kflow(args: &[&str]) -> (String, String, i32) {
    let (code, out, err) = program::kflow(args).parts();
    (out, err, code.unwrap())
}

fn session(name: &str) -> String {
    crate::recording(name).display().to_string()
}

fn json(args: &[&str]) -> Vec<Value> {
    let mut all = args.to_vec();
    all.extend(["-o", "json"]);
    let (out, err, _) = kflow(&all);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}\n{err}"))
}

/// Returns the percentile by nearest rank; a second implementation, independent of kflow's.
fn nearest_rank(lengths: &mut [i64], percent: f64) -> i64 {
    lengths.sort_unstable();
    let rank = (percent / 100.0 * lengths.len() as f64).ceil() as usize;
    lengths[rank.max(1) - 1]
}

#[test]
fn figures_are_those_of_the_calls_and_timelines() {
    for name in ["S1-basics", "S5-burst", "S6-slowpull"] {
        let file = session(name);
        let mut lengths: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        let mut open: BTreeMap<String, usize> = BTreeMap::new();
        for call in json(&["calls", "-s", &file]) {
            let key = format!("call/{}", call["method"].as_str().unwrap());
            match (call["start_ns"].as_i64(), call["end_ns"].as_i64()) {
                (Some(a), Some(b)) => lengths.entry(key).or_default().push(b - a),
                _ => *open.entry(key).or_default() += 1,
            }
        }
        for pod in json(&["timeline", "-s", &file]) {
            if let Some(ns) = pod["start"]["total_ns"].as_i64() {
                lengths.entry("start".to_owned()).or_default().push(ns);
                let sli = pod["start"]["sli_ns"].as_i64().unwrap();
                lengths.entry("start-sli".to_owned()).or_default().push(sli);
            }
        }
        let rows = json(&["stats", "-s", &file]);
        for (measure, mut lengths) in lengths {
            let row = rows.iter().find(|r| r["measure"] == measure.as_str());
            let row = row.unwrap_or_else(|| panic!("{name}: no row of {measure}"));
            let told = |key: &str| row[key].as_i64().unwrap();
            assert_eq!(told("count"), lengths.len() as i64, "{name} {measure}");
            assert_eq!(
                told("total_ns"),
                lengths.iter().sum::<i64>(),
                "{name} {measure}"
            );
            for (key, percent) in [
                ("p50_ns", 50.0),
                ("p90_ns", 90.0),
                ("p95_ns", 95.0),
                ("p99_ns", 99.0),
            ] {
                let want = nearest_rank(&mut lengths, percent);
                assert_eq!(told(key), want, "{name} {measure} {key}");
            }
            if measure.starts_with("call/") {
                let open = open.get(&measure).copied().unwrap_or(0);
                assert_eq!(told("open"), open as i64, "{name} {measure}");
            }
        }
    }
}

/// `ready` counts the pods that the apiserver first showed as not Ready and later as Ready, and so no pod that
/// completed without becoming Ready.
#[test]
fn ready_counts_pods_that_became_ready() {
    let mut completed = 0;
    for name in ["S1-basics", "S3-crashes", "S9-evented-json"] {
        let s = reader::load(&crate::recording(name)).unwrap();
        let mut became: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
        for o in &s.observations {
            let Body::Pod(p) = &o.body else { continue };
            let ready = p.condition("Ready").is_some_and(Condition::is_true);
            let uid = p.mirror_of.as_ref().unwrap_or(&p.uid);
            let first = became.entry(uid.as_str()).or_insert((ready, ready));
            first.1 |= ready;
            completed += usize::from(p.status.phase.is_over() && !first.1);
        }
        let want = became.values().filter(|(first, ever)| !first && *ever);
        let rows = json(&["stats", "-s", &session(name), "--measure", "ready"]);
        let told: i64 = rows.iter().map(|r| r["count"].as_i64().unwrap()).sum();
        assert_eq!(told, want.count() as i64, "{name}");
    }
    assert!(completed > 0, "no pod completed without having been Ready");
}

#[test]
fn groups_are_parts_of_the_whole() {
    let file = session("S2-stuck-early");
    let all = json(&[
        "stats",
        "-s",
        &file,
        "--measure",
        "stage,call/RunPodSandbox",
    ]);
    assert!(all.len() > 5);
    for by in ["node", "namespace", "owner"] {
        let parts = json(&[
            "stats",
            "-s",
            &file,
            "--measure",
            "stage,call/RunPodSandbox",
            "--by",
            by,
        ]);
        for row in &all {
            let sum = |key: &str| -> i64 {
                let of = parts.iter().filter(|p| p["measure"] == row["measure"]);
                of.map(|p| p[key].as_i64().unwrap()).sum()
            };
            for key in ["count", "open", "total_ns"] {
                assert_eq!(sum(key), row[key].as_i64().unwrap(), "{by} {key} {row}");
            }
        }
    }
    let shares: i64 = all
        .iter()
        .filter(|r| r["measure"].as_str().unwrap().starts_with("stage/"))
        .filter_map(|r| r["share_permille"].as_i64())
        .sum();
    // Each share is truncated to a thousandth.
    assert!((985..=1000).contains(&shares), "{shares}");
}

/// Compares a burst of 40 pods with a calm node; the recordings' ground truth calls the burst slow.
#[test]
fn a_burst_is_slower_than_a_calm_node_and_nothing_is_slower_than_itself() {
    let (calm, burst) = (session("S1-basics"), session("S5-burst"));
    let judged = |a: &str, b: &str| -> BTreeMap<String, String> {
        json(&["stats", "--compare", a, b])
            .iter()
            .map(|d| {
                let text = |key: &str| d[key].as_str().unwrap().to_owned();
                (text("measure"), text("judgement"))
            })
            .collect()
    };
    let there = judged(&calm, &burst);
    for measure in [
        "start",
        "ready",
        "stage/sandbox",
        "call/RunPodSandbox",
        "call/CreateContainer",
    ] {
        assert_eq!(there[measure], "slower", "{measure}");
    }
    let back = judged(&burst, &calm);
    assert_eq!(back["call/RunPodSandbox"], "faster");
    for (measure, judgement) in judged(&burst, &burst) {
        assert!(
            matches!(judgement.as_str(), "chance" | "too-few"),
            "{measure}: {judgement}"
        );
    }
    // Two parts of the same burst.
    let parts = json(&[
        "stats",
        "-s",
        &burst,
        "--filter",
        "pod:*2*",
        "--against",
        "!pod:*2*",
        "--measure",
        "call/RunPodSandbox",
    ]);
    let (of, against) = (&parts[0]["after"]["count"], &parts[0]["before"]["count"]);
    assert_eq!(
        of.as_i64().unwrap() + against.as_i64().unwrap(),
        40,
        "{parts:?}"
    );
}

/// Every pod that was created and every call that began lies in exactly one of two adjacent ranges.
#[test]
fn ranges_that_meet_are_parts_of_the_whole() {
    let file = session("S5-burst");
    let counts = |args: &[&str]| -> BTreeMap<String, i64> {
        let rows = json(&[&["stats", "-s", &file], args].concat());
        let row = |r: &Value| {
            let n = r["count"].as_i64().unwrap() + r["open"].as_i64().unwrap();
            (r["measure"].as_str().unwrap().to_owned(), n)
        };
        rows.iter().map(row).collect()
    };
    let (all, early, late) = (
        counts(&[]),
        counts(&["--range", "..40%"]),
        counts(&["--range", "40%.."]),
    );
    for (measure, n) in &all {
        let part = |of: &BTreeMap<String, i64>| of.get(measure).copied().unwrap_or_default();
        assert_eq!(part(&early) + part(&late), *n, "{measure}");
    }
    assert!(early["call/ListPodSandbox"] > 0 && late["call/ListPodSandbox"] > 0);
    // Comparing the two ranges gives the figures of each.
    let compared = json(&["stats", "-s", &file, "--compare", "..40%", "40%.."]);
    for row in &compared {
        let measure = row["measure"].as_str().unwrap();
        let count = |side: &str| {
            let of = &row[side];
            let n = |key: &str| of[key].as_i64().unwrap_or_default();
            n("count") + n("open")
        };
        let want = |of: &BTreeMap<String, i64>| of.get(measure).copied().unwrap_or_default();
        assert_eq!(
            (count("before"), count("after")),
            (want(&early), want(&late)),
            "{measure}"
        );
    }
    assert_eq!(compared.len(), all.len());
}

#[cfg(feature = "fleet")]
#[test]
fn two_times_of_many_nodes_beside_each_other_are_what_each_is_alone() {
    let file = session("S5-burst");
    let rows = |times: &[&str]| json(&[&["fleet", &file, "--question", "lengths"], times].concat());
    let (before, after) = (rows(&["--range", "..40%"]), rows(&["--range", "40%.."]));
    let both = rows(&["--compare", "..40%", "40%.."]);
    let mut told = 0;
    for row in &both {
        for (side, alone) in [("before", &before), ("after", &after)] {
            let alone = alone.iter().find(|r| r["measure"] == row["measure"]);
            for column in ["count", "open", "p50_ns", "max_ns"] {
                let want = alone.map_or(&Value::Null, |r| &r[column]);
                assert_eq!(
                    &row[format!("{side}_{column}")],
                    want,
                    "{} {column}",
                    row["measure"]
                );
                told += usize::from(!want.is_null());
            }
        }
    }
    assert!(
        told > 100 && both.len() >= before.len().max(after.len()),
        "{told}"
    );
    let (_, err, code) = kflow(&[
        "fleet",
        &file,
        "--range",
        "..40%",
        "--compare",
        "..40%",
        "40%..",
    ]);
    assert!(code == 2 && err.contains("--compare"), "{err}");
}

/// Each condition changes between the pod's creation and deletion, in the order in which the scheduler and the kubelet
/// set them, and at the time in the condition itself, which has a resolution of one second.
#[test]
fn conditions_turn_when_they_say_so() {
    let file = session("S5-burst");
    let rows = json(&["stats", "-s", &file, "--measure", "condition,ready"]);
    let p50 = |measure: &str| {
        let row = rows.iter().find(|r| r["measure"] == measure);
        row.unwrap_or_else(|| panic!("no row of {measure}"))["p50_ns"]
            .as_i64()
            .unwrap()
    };
    let order = [
        "PodScheduled",
        "PodReadyToStartContainers",
        "ContainersReady",
    ];
    let order = order.map(|c| p50(&format!("condition/{c}")));
    assert!(order.is_sorted() && order[0] > 0, "{order:?}");
    let second = 1_000_000_000;
    assert!((order[2] - p50("ready")).abs() < second, "{order:?}");
    let s = reader::load(&fixture("sessions/S5-burst.kflow.zst")).unwrap();
    let mut told: BTreeMap<&str, i64> = BTreeMap::new();
    for o in &s.observations {
        let Body::Pod(p) = &o.body else { continue };
        if let Some(c) = p.condition("ContainersReady").filter(|c| c.is_true()) {
            let late = o.stamp.seen.since(c.transition.unwrap());
            told.entry(p.uid.as_str()).or_insert(late);
        }
    }
    assert_eq!(told.len(), 40);
    for (uid, late) in told {
        assert!((0..2 * second).contains(&late), "{uid}: {late} ns after");
    }
}

#[test]
fn strangers_forms_hold_the_same_rows() {
    let file = session("S5-burst");
    let rows = json(&["stats", "-s", &file, "--by", "namespace"]);
    let (text, _, code) = kflow(&["stats", "-s", &file, "--by", "namespace", "-o", "csv"]);
    assert_eq!(code, 0);
    let mut table = csv::Reader::from_reader(text.as_bytes());
    let head = table.headers().unwrap().clone();
    let cells: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
    assert_eq!(cells.len(), rows.len());
    for (cell, row) in cells.iter().zip(&rows) {
        for (name, value) in head.iter().zip(cell) {
            match &row[name] {
                Value::Number(n) => assert_eq!(n.to_string(), value, "{name}"),
                Value::String(s) => assert_eq!(s, value, "{name}"),
                Value::Null if name == "slowest_pod" => {}
                Value::Null => assert_eq!(value, "", "{name}"),
                other => panic!("{name}: {other}"),
            }
        }
    }
    let (text, ..) = kflow(&[
        "stats",
        "-s",
        &file,
        "--by",
        "namespace",
        "-o",
        "openmetrics",
    ]);
    assert!(text.ends_with("\n# EOF\n"));
    let counts = text
        .lines()
        .filter(|l| l.starts_with("kflow_duration_seconds_count{"));
    let counted: i64 = counts
        .map(|l| l.rsplit(' ').next().unwrap().parse::<i64>().unwrap())
        .sum();
    let want: i64 = rows.iter().map(|r| r["count"].as_i64().unwrap()).sum();
    assert_eq!(counted, want);
}

#[test]
fn what_cannot_be_answered_is_said() {
    let file = session("S5-burst");
    let (out, err, code) = kflow(&["stats", "-s", &file, "--measure", "stage/imag"]);
    assert!(out.is_empty() && code == 2, "{out}{err}");
    assert!(err.contains("stage/image"), "{err}");
    // Nothing was measured, and that is no error of the user: all pods of the recording are gone before they start.
    let stuck = session("S2-stuck-early");
    let (out, err, code) = kflow(&["stats", "-s", &stuck, "--measure", "start"]);
    assert!(code == 0 && out.starts_with("MEASURE"), "{out}{err}");
    assert!(err.contains("there are no lengths of start"), "{err}");
    let (_, err, code) = kflow(&["stats", "-s", &file, "--range", "50%"]);
    assert!(code == 2 && err.contains("FROM..TO"), "{err}");
    let (_, err, code) = kflow(&["stats", "-s", &file, "--filter", "pod:nobody"]);
    assert!(
        code == 0 && err.contains("there are no starts and calls to measure"),
        "{err}"
    );
    let (_, err, code) = kflow(&["stats", "--compare", &file, "/no/such/file"]);
    assert!(code == 2 && err.contains("/no/such/file"), "{err}");
    for (args, told) in [
        (
            &["--compare", &file, "..50%"][..],
            "two times, or two recordings",
        ),
        (&["--compare", &file, &file], "leave -s and --store out"),
        (&["--compare", "..50%", "5x%.."], "5x%"),
        (&["--compare", "..50%"], "BEFORE"),
        (
            &["--compare", "..50%", "50%..", "--range", "..50%"],
            "--range",
        ),
        (
            &["--compare", "..50%", "50%..", "--against", "pod:a"],
            "--against",
        ),
    ] {
        let (out, err, code) = kflow(&[&["stats", "-s", &file], args].concat());
        assert!(
            code == 2 && out.is_empty() && err.contains(told),
            "{args:?}: {err}"
        );
    }
}

/// `reason:` finds a pod by its verdict's cause as by the reason of an Event about it.
#[test]
fn pods_are_chosen_by_their_cause_and_by_their_events() {
    let file = session("S3-crashes");
    let started = |filter: &str| {
        let args = [
            "stats",
            "-s",
            &file,
            "--at",
            "50%",
            "--measure",
            "stage/create",
        ];
        let rows = json(&[&args[..], &["--filter", filter]].concat());
        let count = |r: &Value| r["count"].as_i64().unwrap() + r["open"].as_i64().unwrap();
        rows.first().map_or(0, count)
    };
    let why = program::kflow(["why", "--all", "-s", &file, "--at", "50%", "-o", "json"]).out;
    let why: Vec<Value> = serde_json::from_str(&why).unwrap();
    let of_pods = why.iter().filter(|v| v["pod"] != "");
    let causes: BTreeSet<&str> = of_pods.map(|v| v["cause"].as_str().unwrap()).collect();
    assert!(!causes.is_empty());
    for cause in causes {
        assert!(started(&format!("reason:{cause}")) > 0, "{cause}");
        assert!(started(cause) > 0, "{cause}");
    }
    let (backing_off, all) = (started("reason:BackOff"), started("!pod:nobody"));
    assert!(0 < backing_off && backing_off < all, "{backing_off} {all}");
    assert_eq!(started("reason:Backing"), 0);
}
