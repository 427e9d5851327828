//! Recordings that are missing or cannot be read in full.

use std::path::Path;
use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_core::query::Moment;
use kflow_core::selection::Selection;
use kflow_engine::{Player, Snapshot};
use kflow_model::gap::WatchKind;
use kflow_model::{Body, Observation, Scope};

use super::{WELL, banners, each, kflow};
use crate::proxy::rig::eventually;

/// The commands to try on each recording; `-s FILE` and sometimes `--at` follow.
const COMMANDS: [(&str, &[&str]); 15] = [
    ("why", &["why", "s01/healthy"]),
    ("why json", &["why", "s01/healthy", "-o", "json"]),
    ("why nobody", &["why", "s01/nobody"]),
    ("why node", &["why", "node/node1"]),
    ("why --all", &["why", "--all"]),
    ("why --all json", &["why", "--all", "-o", "json"]),
    ("why --ever", &["why", "--ever"]),
    ("why --ever json", &["why", "--ever", "-o", "json"]),
    ("timeline", &["timeline"]),
    ("timeline json", &["timeline", "-o", "json"]),
    ("calls", &["calls"]),
    ("requests json", &["requests", "-o", "json"]),
    ("flow", &["flow", "s01/healthy"]),
    ("export json", &["export", "-o", "json"]),
    ("stats csv", &["stats", "-o", "csv"]),
];

/// Returns the lines of a real recording, in which `healthy` runs from 00:24:28 to 00:25:08.
fn lines() -> Vec<String> {
    let packed = include_bytes!("../../../fixtures/sessions/S1-basics.kflow.zst");
    let text = String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap();
    // Only until 30 s after [`RUNNING`]: the recording is read a hundred times and should be short.
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

/// A moment at which `healthy` runs.
const RUNNING: &str = "2026-11-21T00:24:45Z";
const RUNNING_NS: i64 = 1_795_220_685_000_000_000;

fn write(dir: &Path, name: &str, lines: &[String]) -> String {
    let path = dir.join(name);
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    path.display().to_string()
}

/// Plays a recording up to a moment, or to its end.
fn played(file: &str, at: Option<&str>, scope: &Scope) -> Arc<Snapshot> {
    let start = at.map_or(Moment::End, |at| Moment::parse(at).unwrap());
    let selection = Arc::new(Selection::new(scope).unwrap());
    let mut player = Player::open(Path::new(file), start, selection).unwrap();
    eventually("the recording is read", || {
        player.tick(kflow_model::clock::monotonic());
        player.report().is_some().then(|| player.snapshot())
    })
}

/// Runs every command and the terminal on a recording.
fn table(way: &str, file: &str, at: Option<&str>) {
    banners(way, &played(file, at, &Scope::default()), &WELL);
    each(&COMMANDS, |(name, args)| {
        // Calls and requests come from other sources than the one with the gap.
        if way.starts_with("gap") && matches!(args[0], "calls" | "requests") {
            return;
        }
        // Which pods exist is known without Events.
        if way == "gap of events" && *name == "why nobody" {
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
fn before_its_lists_a_recording_is_not_said_to_have_none() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "s1.kflow", &lines());
    banners(
        "first moment",
        &played(&file, Some("+0s"), &Scope::default()),
        &WELL,
    );
    for (name, args) in COMMANDS {
        // The audit log already has a request at the first moment.
        if !name.starts_with("requests") {
            kflow(&[args, &["-s", &file, "--at", "+0s"]].concat())
                .is_unknown(&format!("first moment, {name}"));
        }
        let mut all = args.to_vec();
        all.extend(["-s", &file, "--at", "+0s"]);
        let said = kflow(&all);
        for lack in ["the recording has no", "in the recording"] {
            for rest in said.err.split(lack).skip(1) {
                assert!(rest.contains(" up to 2026-"), "{name}: {}", said.err);
            }
        }
    }
}

/// `curl …/pods?watch=1&allowWatchBookmarks=true`: the changes are known, but not whether there are other pods.
#[test]
fn a_watch_without_a_list_gives_its_pods_and_no_claim() {
    let dir = tempfile::tempdir().unwrap();
    let watch = dir.path().join("watch.jsonl");
    let pod = |rv: u32| {
        serde_json::json!({"kind": "Pod", "apiVersion": "v1", "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "00000000-0000-0000-0000-000000000001",
            "resourceVersion": rv.to_string(), "creationTimestamp": "2026-11-21T00:00:00Z"},
            "spec": {"containers": [{"name": "c", "image": "web:1"}]}, "status": {"phase": "Pending"}})
    };
    let bookmark = serde_json::json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"resourceVersion": "50", "creationTimestamp": null}, "spec": {"containers": null}, "status": {}});
    let line = |kind: &str, object| serde_json::json!({"type": kind, "object": object}).to_string();
    for bookmarks in [false, true] {
        let mut lines = vec![line("ADDED", pod(10)), line("MODIFIED", pod(60))];
        if bookmarks {
            lines.insert(1, line("BOOKMARK", bookmark.clone()));
        }
        std::fs::write(&watch, lines.join("\n")).unwrap();
        let file = dir.path().join("watch.kflow").display().to_string();
        let watch = watch.to_str().unwrap();
        assert_eq!(
            kflow(&["import", "-q", "--watch", watch, "-O", &file]).code,
            Some(0)
        );
        for args in [
            &["timeline"][..],
            &["flow", "shop/web-0"],
            &["export", "-o", "text"],
        ] {
            let said = kflow(&[args, &["-s", &file]].concat());
            assert_eq!(said.code, Some(0), "{args:?}: {}", said.err);
            // `flow` names no pod here: the pod has not yet reached a step that its status shows.
            let shown = args[0] == "flow" || said.out.contains("shop/web-0");
            assert!(shown, "{args:?}: {}", said.out);
        }
        for args in [
            &["why", "--all"][..],
            &["why", "shop/web-0"],
            &["why", "shop/nobody"],
            &["timeline", "shop/nobody"],
        ] {
            let said = kflow(&[args, &["-s", &file]].concat());
            said.is_unknown(&format!("bookmarks {bookmarks}, {args:?}"));
            assert!(said.err.contains("no list of"), "{args:?}: {}", said.err);
        }
    }
}

#[test]
fn a_recording_that_holds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty.kflow").display().to_string();
    std::fs::write(&path, "").unwrap();
    for (name, args) in COMMANDS {
        // A file that is no recording is an error of usage, not an answer.
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

/// Returns the number of lines after the header that were seen by the moment at which the pod runs.
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
    // The watch broke 15 s before the moment, and nothing came from the apiserver for 30 s.
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

/// Returns the lines of the recording without the apiserver's between `from` and `to`, and with `told` at the end of
/// that time.
fn without(from: i64, to: i64, told: &[String]) -> Vec<String> {
    let (mut before, rest): (Vec<String>, Vec<String>) =
        lines().into_iter().partition(|l| seen_or_first(l) < to);
    before.retain(|l| seen_or_first(l) < from || !l.contains("\"src\":\"kube\""));
    before.extend(told.iter().cloned());
    before.extend(rest);
    before
}

/// Returns the time at which a line was seen, ns; the header comes first.
fn seen_or_first(line: &str) -> i64 {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line["s"].as_i64().unwrap_or(i64::MIN)
}

/// A loss, and the end of a watch that had fallen silent, are recorded only when they are over. A moment within them is
/// still unknown to every command, and a moment before them is known.
#[test]
fn a_moment_in_what_is_told_later_to_be_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (RUNNING_NS - 4_000_000_000, RUNNING_NS + 12_000_000_000);
    let lost = |of: &str| {
        format!(
            "{{\"t\":{to},\"s\":{to},\"src\":\"{of}\",\"b\":{{\"gap\":{{\"of\":\"{of}\",\"since\":{from},\"lost\":3,\"why\":\"no room for observations\"}}}}}}"
        )
    };
    let silent = |kind: &str| {
        format!(
            "{{\"t\":{to},\"s\":{to},\"src\":\"kube\",\"b\":{{\"watch\":{{\"resource\":\"{kind}\",\"kind\":\"broken\",\"detail\":\"the watch said nothing\",\"failure\":\"timed_out\"}}}}}}"
        )
    };
    for (way, told) in [
        ("lost by the watch", vec![lost("kube")]),
        ("lost by kflow", vec![lost("kflow")]),
        ("gap of pods", vec![silent("pods")]),
        ("gap of events", vec![silent("events")]),
    ] {
        let file = write(dir.path(), "later.kflow", &without(from, to, &told));
        table(way, &file, Some(RUNNING));
        let before = "2026-11-21T00:24:31Z";
        let said = kflow(&["why", "s01/healthy", "-s", &file, "--at", before]);
        assert_eq!(said.code, Some(0), "{way}: {}{}", said.out, said.err);
    }
}

/// After a loss everything is listed again, and all is well at the end; whether something was wrong
/// in between is unknown.
#[test]
fn what_was_lost_in_the_middle_may_have_been_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (RUNNING_NS - 4_000_000_000, RUNNING_NS + 12_000_000_000);
    let again: Vec<String> = lines()
        .into_iter()
        .skip(1)
        .filter(|l| l.contains("\"kind\":\"list_") && seen(l) < from)
        .map(|l| {
            let mut line: serde_json::Value = serde_json::from_str(&l).unwrap();
            line["s"] = (to + 1).into();
            line["t"] = (to + 1).into();
            line.to_string()
        })
        .collect();
    assert!(again.len() >= 4, "{again:?}");
    let lost = format!(
        "{{\"t\":{to},\"s\":{to},\"src\":\"kube\",\"b\":{{\"gap\":{{\"of\":\"kube\",\"since\":{from},\"lost\":3,\"why\":\"no room for observations\"}}}}}}"
    );
    let whole = write(dir.path(), "whole.kflow", &lines());
    let said = kflow(&["why", "--ever", "-s", &whole]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let mut told = vec![lost];
    told.extend(again);
    let file = write(dir.path(), "lost.kflow", &without(from, to, &told));
    let all = kflow(&["why", "--all", "-s", &file]);
    assert_eq!(all.code, Some(0), "{}{}", all.out, all.err);
    for output in ["text", "json"] {
        let said = kflow(&["why", "--ever", "-s", &file, "-o", output]);
        said.is_unknown(&format!("lost in the middle, {output}"));
        assert!(
            said.err.contains("for 16.0s from 2026-11-21T00:24:41"),
            "{}",
            said.err
        );
    }
    let mut player = Player::open(Path::new(&file), Moment::End, Arc::default()).unwrap();
    let overview = eventually("the recording is looked through", || {
        player.tick(kflow_model::clock::monotonic());
        player
            .overview()
            .whole
            .then(|| Arc::clone(player.overview()))
    });
    assert!(overview.knowledge.known().is_err());
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
        &["export", "shop/web-0", "-o", "json"],
    ] {
        let mut all = args.to_vec();
        all.extend(["-s", &file, "--at", RUNNING]);
        let said = kflow(&all);
        said.is_unknown(args[0]);
        assert!(said.err.contains("namespace shop"), "{}", said.err);
    }
    let shop = Scope {
        namespace: Some("shop".to_owned()),
        ..Scope::default()
    };
    let snap = played(&file, Some(RUNNING), &shop);
    for (pane, banner) in banners("another cluster", &snap, &WELL) {
        assert!(banner.contains("shop"), "{pane:?}: {banner}");
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
    let snap = played(&file, Some(RUNNING), &Scope::default());
    banners("unlisted", &snap, &WELL);
}

/// An agent that watches an apiserver sends only recent observations; the list came before them.
#[test]
fn what_an_agent_watched_without_a_list_is_not_told_of_a_recording() {
    let session =
        kflow_model::session::load(&crate::fixture("sessions/S1-basics.kflow.zst")).unwrap();
    let (_, end) = session.range().unwrap();
    let mut world = World::new();
    let is_list = |o: &Observation| {
        let kinds = [WatchKind::ListBegin, WatchKind::ListEnd];
        matches!(&o.body, Body::Watch(n) if kinds.contains(&n.kind))
    };
    let of = session.observations.iter().filter(|o| !is_list(o));
    of.for_each(|o| world.observe(o));
    world.refresh();
    for (recorded, why) in [
        (None, "the agent of the node tells"),
        (Some(end), "what was read follows"),
    ] {
        let unknown = unknown::every(Asked {
            world: &world,
            at: end,
            scope: None,
            recorded,
        });
        let unknown = unknown.unwrap();
        assert!(unknown.why.starts_with(why), "{unknown}");
        let asks = unknown.help.contains("without --no-api");
        assert_eq!(asks, recorded.is_none(), "{unknown}");
    }
}

/// A list that kubectl wrote shows that a pod is well, but it may lack others.
#[test]
fn a_plain_list_does_not_show_that_all_pods_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = crate::fixture("bundle").display().to_string();
    let file = dir.path().join("list.kflow").display().to_string();
    let said = kflow(&["import", "-q", &bundle, "-O", &file]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let snap = played(&file, None, &Scope::default());
    banners("plain list", &snap, &["No pod has", "There are no"]);
    for (pod, known) in [("fine", true), ("sts-0", false)] {
        let pods = snap.world.pods().iter();
        let pod = pods.clone().find(|p| p.name == pod).unwrap();
        assert_eq!(
            unknown::known(snap.asked(), pod).is_none(),
            known,
            "{}",
            pod.key()
        );
    }
}
