//! When lists were read, which they do not tell: `fixtures/bundle`, whose pods' newest time is 08:39:58 and whose Events' is
//! 08:40:12.

use super::{Desk, fixture, run, text};
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;
use std::collections::BTreeSet;
use std::fs::File;
use std::process::Stdio;

const PODS: &str = "2026-11-21T08:39:58Z";
const EVENTS: &str = "2026-11-21T08:40:12Z";
/// Ten minutes after the newest time of the pods.
const LATER: &str = "2026-11-21T08:50:03Z";
const DAYS_LATER: &str = "2026-11-25T08:00:00Z";

fn time(text: &str) -> Nanos {
    Nanos::parse_rfc3339(text).unwrap().0
}

/// Copies a list of the bundle to the desk, written at a time.
fn copy(desk: &Desk, name: &str, written: &str) -> String {
    let content = std::fs::read(fixture("bundle").join(name)).unwrap();
    desk.file_of(&name.replace('/', "-"), content, written)
}

/// The seconds in which the observations of a kind arrived.
fn read(session: &str, kind: &str) -> BTreeSet<String> {
    let lines = std::fs::read_to_string(session).unwrap();
    let seen = lines.lines().skip(1).filter_map(|line| {
        let o: serde_json::Value = serde_json::from_str(line).unwrap();
        o["b"].get(kind)?;
        let end = Nanos(o["s"].as_i64().unwrap());
        Some(end.plus(-SECOND).to_rfc3339().replace(".000000000Z", "Z"))
    });
    seen.collect()
}

fn at(text: &str) -> BTreeSet<String> {
    BTreeSet::from([text.to_owned()])
}

/// The exit code for the pod that waits without news.
fn verdict(session: &str) -> Option<i32> {
    run(&["why", "handy/needs", "-s", session]).status.code()
}

#[test]
fn a_list_counts_as_read_when_its_file_was_written() {
    let desk = Desk::new();
    let (fresh, said) = desk.import(
        "a.kflow",
        &["--watch", &copy(&desk, "handy/pods.json", LATER)],
    );
    assert!(
        said.contains("when their file was written, up to 10m05s after"),
        "{said}"
    );
    assert_eq!(read(&fresh, "pod"), at(LATER));
    assert_eq!(verdict(&fresh), Some(1));
    // A copy that was made days later tells nothing.
    let copied = copy(&desk, "handy/pods.json", DAYS_LATER);
    let (copied, said) = desk.import("b.kflow", &["--watch", &copied]);
    assert!(
        said.contains("3d23h before their file was written"),
        "{said}"
    );
    assert_eq!(read(&copied, "pod"), at(PODS));
    assert_eq!(verdict(&copied), Some(2));
}

#[test]
fn the_lists_of_a_bundle_are_of_one_moment() {
    let desk = Desk::new();
    let (pods, events) = ("handy/pods.json", "handy/events.json");
    for (name, written, want) in [
        ("unpacked.kflow", [DAYS_LATER, DAYS_LATER], [EVENTS, EVENTS]),
        // The pods were in their file before the newest Event.
        (
            "kept.kflow",
            ["2026-11-21T08:40:05Z", LATER],
            ["2026-11-21T08:40:05Z", LATER],
        ),
    ] {
        let [pods, events] = [
            copy(&desk, pods, written[0]),
            copy(&desk, events, written[1]),
        ];
        let (session, said) = desk.import(name, &["--watch", &pods, "--watch", &events]);
        assert!(said.contains("lists count as read"), "{said}");
        assert_eq!(read(&session, "pod"), at(want[0]), "{name}");
        assert_eq!(read(&session, "event"), at(want[1]), "{name}");
    }
}

#[test]
fn what_kubectl_sends_is_of_now() {
    let desk = Desk::new();
    let import = |name: &str, list: &str| {
        let out = desk.path(name);
        let child = crate::program::command()
            .args(["import", "-q", "--watch", "-", "-O", &out])
            .stdin(Stdio::from(File::open(list).unwrap()))
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", text(&child.stderr));
        out
    };
    // A list of long ago does not become one of now.
    let old = fixture("bundle/handy/pods.json").display().to_string();
    assert_eq!(read(&import("old.kflow", &old), "pod"), at(PODS));
    let now = kflow_model::clock::now();
    let minute = now.plus(-60 * SECOND).to_rfc3339();
    let minute = format!("{}Z", &minute[..19]);
    let list = std::fs::read_to_string(&old).unwrap();
    let list = desk.file("now.json", list.replace(PODS, &minute));
    let fresh = read(&import("now.kflow", &list), "pod");
    assert!(
        fresh.iter().all(|t| time(t).plus(SECOND) >= now),
        "{fresh:?}"
    );
}

#[test]
fn the_user_says_when_lists_were_read() {
    let desk = Desk::new();
    let bundle = fixture("bundle").display().to_string();
    let (session, said) = desk.import("a.kflow", &[&bundle, "--taken", LATER]);
    assert!(!said.contains("count as read"), "{said}");
    assert_eq!(read(&session, "pod"), at(LATER));
    assert_eq!(read(&session, "node"), at(LATER));
    let said = desk.refused(&[&bundle, "--taken", PODS]);
    assert!(said.contains("a time in handy/events.json"), "{said}");
    let said = desk.refused(&[&bundle, "--taken", "yesterday"]);
    assert!(
        said.contains("--taken \"yesterday\" is not a time"),
        "{said}"
    );
    let log = fixture("captures/kubelet.log.zst").display().to_string();
    let said = desk.refused(&["--kubelet-log", &log, "--taken", LATER]);
    assert!(said.contains("--watch"), "{said}");
}

/// That a log ends before lists were read does not make its node silent.
#[test]
fn lists_that_are_newer_than_all_logs_end_them() {
    let desk = Desk::new();
    let ends = |lists: &str| {
        let pods = copy(&desk, "handy/pods.json", lists);
        let log = desk.file(
            "kubelet.log",
            "I1121 08:45:00.000000    1 kubelet.go:2483] \"SyncLoop ADD\" source=\"api\" pods=[\"a/b\"]\n",
        );
        let inputs = ["--watch", &pods, "--kubelet-log", &log, "--year", "2026"];
        let (session, _) = desk.import("a.kflow", &inputs);
        let lines = std::fs::read_to_string(session).unwrap();
        lines.matches("\"resource\":\"end\"").count()
    };
    assert_eq!(ends(LATER), 1);
    assert_eq!(ends("2026-11-21T08:40:13Z"), 0);
}

/// `oc adm must-gather` writes when it ran.
#[test]
fn a_bundle_that_says_when_it_was_made_dates_its_lists() {
    let desk = Desk::new();
    let folder = desk.dir.path().join("inspect.local.1");
    std::fs::create_dir(&folder).unwrap();
    std::fs::rename(
        copy(&desk, "handy/pods.json", DAYS_LATER),
        folder.join("pods.json"),
    )
    .unwrap();
    std::fs::write(
        folder.join("timestamp"),
        "2026-11-21 08:49:00.1 +0000 UTC m=+0.2\n2026-11-21 08:50:02.5 +0000 UTC m=+62.6\n",
    )
    .unwrap();
    let (session, said) = desk.import("a.kflow", &[&desk.path("inspect.local.1")]);
    assert_eq!(read(&session, "pod"), at("2026-11-21T08:50:02Z"), "{said}");
}

#[test]
fn a_time_of_day_is_on_the_day_of_the_lists() {
    let desk = Desk::new();
    let pods = copy(&desk, "handy/pods.json", DAYS_LATER);
    let (session, _) = desk.import("a.kflow", &["--watch", &pods, "--taken", "08:50:03"]);
    assert_eq!(read(&session, "pod"), at(LATER));
    // The first one after what they tell.
    let (session, _) = desk.import("b.kflow", &["--watch", &pods, "--taken", "08:00:00"]);
    assert_eq!(read(&session, "pod"), at("2026-11-22T08:00:00Z"));
    let said = desk.refused(&["--watch", &pods, "--taken", "2126-11-21T08:50:03Z"]);
    assert!(said.contains("in the future"), "{said}");
}

#[test]
fn lists_of_two_bundles_were_not_read_together() {
    let desk = Desk::new();
    for (folder, day) in [("a", "21"), ("b", "22")] {
        let pods = std::fs::read_to_string(fixture("bundle/handy/pods.json")).unwrap();
        let folder = desk.dir.path().join(folder);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(
            folder.join("pods.json"),
            pods.replace("2026-11-21", &format!("2026-11-{day}")),
        )
        .unwrap();
    }
    let (session, said) = desk.import("two.kflow", &[&desk.path("a"), &desk.path("b")]);
    let want = [PODS, "2026-11-22T08:39:58Z"].map(str::to_owned);
    assert_eq!(read(&session, "pod"), BTreeSet::from(want));
    assert!(
        said.contains("a ends 24h00m before b:") || said.contains("a ends 1d"),
        "{said}"
    );
    assert!(said.contains("--at 2026-11-21T08:39:59"), "{said}");
}
