//! A recording that cannot be read, or not there.

use std::path::Path;

use super::{each, kflow};

/// What is tried on each recording, of which `-s FILE` and perhaps `--at` are added.
const COMMANDS: [(&str, &[&str]); 11] = [
    ("why", &["why", "s01/healthy"]),
    ("why json", &["why", "s01/healthy", "-o", "json"]),
    ("why nobody", &["why", "s01/nobody"]),
    ("why --all", &["why", "--all"]),
    ("why --all json", &["why", "--all", "-o", "json"]),
    ("timeline", &["timeline"]),
    ("timeline json", &["timeline", "-o", "json"]),
    ("calls", &["calls"]),
    ("requests json", &["requests", "-o", "json"]),
    ("flow", &["flow", "s01/healthy"]),
    ("export json", &["export", "-f", "json"]),
];

/// The lines of a real recording: `healthy` runs from 00:24:28 to 00:25:08.
fn lines() -> Vec<String> {
    let packed = include_bytes!("../../../fixtures/sessions/S1-basics.kflow.zst");
    let text = String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap();
    // Up to half a minute later: what is read a hundred times is short.
    let mut lines = text.lines();
    let header = lines.next().unwrap();
    let soon = |l: &&str| seen(l) < RUNNING_NS + 30_000_000_000;
    let rest = lines.take_while(soon);
    std::iter::once(header)
        .chain(rest)
        .map(str::to_owned)
        .collect()
}

fn seen(line: &str) -> i64 {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line["s"].as_i64().unwrap()
}

/// While `healthy` runs.
const RUNNING: &str = "2026-11-21T00:24:45Z";
const RUNNING_NS: i64 = 1_795_220_685_000_000_000;

fn write(dir: &Path, name: &str, lines: &[String]) -> String {
    let path = dir.join(name);
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    path.display().to_string()
}

fn table(way: &str, file: &str, at: Option<&str>) {
    each(&COMMANDS, |(name, args)| {
        // Calls and requests are other sources' than the one that has the gap.
        if way == "gap" && matches!(args[0], "calls" | "requests") {
            return;
        }
        let mut all = args.to_vec();
        all.extend(["-s", file]);
        if let Some(at) = at {
            all.extend(["--at", at]);
        }
        kflow(&all).is_unknown(&format!("{way}, {name}"));
    });
}

#[test]
fn a_moment_outside_of_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "s1.kflow", &lines());
    table("before", &file, Some("2026-11-20T00:24:45Z"));
    table("before the begin", &file, Some("-100h"));
    table("after", &file, Some("2026-11-22T00:24:45Z"));
    table("after the begin", &file, Some("+100h"));
}

#[test]
fn a_recording_that_holds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty.kflow").display().to_string();
    std::fs::write(&path, "").unwrap();
    for (name, args) in COMMANDS {
        // What is no recording at all is told as an error of usage, not as an answer.
        let mut all = args.to_vec();
        all.extend(["-s", &path]);
        kflow(&all).is_unknown(name.trim_end_matches(" json"));
    }
    table(
        "only a header",
        &write(dir.path(), "header.kflow", &lines()[..1]),
        None,
    );
}

/// How many lines, the header apart, were seen by the moment at which the pod runs.
fn while_running(all: &[String]) -> usize {
    let mut lines = all.iter().skip(1);
    lines.position(|l| seen(l) > RUNNING_NS).unwrap()
}

#[test]
fn a_recording_that_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = lines();
    let end = while_running(&all);
    all.truncate(end + 2);
    let last = all.last_mut().unwrap();
    last.truncate(last.len() / 2);
    let path = dir.path().join("cut.kflow");
    std::fs::write(&path, all.join("\n")).unwrap();
    table("cut", &path.display().to_string(), None);
}

#[test]
fn a_recording_with_damaged_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = lines();
    let end = while_running(&all);
    for line in all.iter_mut().take(end).skip(end - 20) {
        line.truncate(line.len() / 2);
    }
    let file = write(dir.path(), "damaged.kflow", &all);
    table("damaged", &file, Some(RUNNING));
    // Before the damage everything is known.
    let said = kflow(&[
        "why",
        "s01/healthy",
        "-s",
        &file,
        "--at",
        "2026-11-21T00:24:40Z",
    ]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
}

#[test]
fn a_moment_in_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    // The watch broke 15 s before, and nothing of the apiserver's came for 30 s.
    let (from, to) = (RUNNING_NS - 15_000_000_000, RUNNING_NS + 15_000_000_000);
    let mut all = lines();
    let mut told = false;
    all = all
        .into_iter()
        .flat_map(|line| {
            let inside = line.contains("\"src\":\"kube\"") && (from..to).contains(&seen(&line));
            let broken = |resource: &str| {
                format!("{{\"t\":{from},\"s\":{from},\"src\":\"kube\",\"b\":{{\"watch\":{{\"resource\":\"{resource}\",\"kind\":\"broken\",\"detail\":\"cannot reach the apiserver: connection refused\",\"failure\":\"unreachable\"}}}}}}")
            };
            match (inside, told) {
                (true, true) => vec![],
                (true, false) => {
                    told = true;
                    vec![broken("pods"), broken("events")]
                }
                _ => vec![line],
            }
        })
        .collect();
    assert!(told);
    table("gap", &write(dir.path(), "gap.kflow", &all), Some(RUNNING));
}

#[test]
fn a_recording_of_another_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "s1.kflow", &lines());
    for args in [
        &["why", "shop/web-0"][..],
        &["timeline", "shop/web-0"],
        &["calls", "--pod", "shop/web-0"],
        &["requests", "--pod", "shop/web-0"],
        &["flow", "shop/web-0"],
        &["export", "shop/web-0", "-f", "json"],
    ] {
        let mut all = args.to_vec();
        all.extend(["-s", &file, "--at", RUNNING]);
        let said = kflow(&all);
        said.is_unknown(args[0]);
        assert!(said.err.contains("namespace shop"), "{}", said.err);
    }
}

#[test]
fn a_recording_without_a_list_of_pods() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = lines();
    all.retain(|l| !l.contains("\"watch\":{\"resource\":\"pods\""));
    let file = write(dir.path(), "unlisted.kflow", &all);
    for args in [
        &["why", "--all"][..],
        &["why", "s01/nobody"],
        &["timeline", "s01/nobody"],
        &["calls", "--pod", "s01/nobody"],
    ] {
        let mut all = args.to_vec();
        all.extend(["-s", &file, "--at", RUNNING]);
        kflow(&all).is_unknown(&args.join(" "));
    }
}
