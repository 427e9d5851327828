//! The life of `s01/healthy`, from the API request to the last unmount, edge by edge.
//!
//! `fixtures/correlate/s01-healthy.txt` was checked by hand against the raw recording `S1-basics`
//! (times are minutes:seconds after 2026-11-21T00:00Z; the number in brackets is the precision in ns):
//!
//! * api, schedule: `requestReceivedTimestamp` and `stageTimestamp` of the audit records of `create pods` (504.775 →
//!   512.507 ms of second 24:27) and `create pods/binding` (522.647 → 525.976). The scheduler's part lies between them.
//! * admit: the kubelet's lines "Receiving a new pod" (24:27.531727), "SyncLoop ADD" (.531783), "Pod Admit Result"
//!   (.531888), "Pod is being synced for the first time" (.533123), "SyncPod enter" (.533256).
//! * cgroup: "Got phase for pod" (.533649) and inotify's CREATE of
//!   `/sys/fs/cgroup/memory/kubepods/burstable/pod4ac3c3e9-…` (1795220667536596586).
//! * volumes: "Waiting for volumes to attach and mount for pod" (.542597), "All volumes are attached and mounted for
//!   pod" (.843438); per volume "operationExecutor.MountVolume started" and "MountVolume.SetUp succeeded": tok .663395 →
//!   .675216, kube-api-access-76prz .663422 → .676574, cfg .663435 → .664586, sec .663487 → .670173, scratch .663502 →
//!   .668417, mem .663524 → .668066.
//! * sandbox, image, create, start, the runtime's part of terminate: the kubelet's own client spans of the same calls
//!   in `otlp-decoded.jsonl` (a source that this timeline does not use): there are as many of each method, each ends at
//!   most 1 ms after the last byte that the tap saw, and starts at most 2 ms before the first one; three of them 3 to
//!   5 ms (ImageStatus 28.114, StartContainer 28.143 and 30.844), when the two cores of the machine were busy.
//! * `EnsureImageExists`: the hex suffixes of the events' names, `healthy.18e9e7afa44ef19a` (Pulling) and
//!   `healthy.18e9e7afa80b5b8d` (Pulled), are 1795220668045783450 and 1795220668108462989.
//! * runs end at the `exited_at` of containerd's "received container exit event": 1795220670.226886996 (setup),
//!   1795220710.950824648 (worker), 1795220729.021988857 with 137 (web). PLEG's line "Generic (PLEG): container
//!   finished" for `setup` is at 24:30.692230.
//! * ready: "Probe succeeded" of startup (24:31.845902) and readiness (24:32.702062); the watch shows `Ready=True` with
//!   `lastTransitionTime` 24:32 at 24:32.729, so it turned in between.
//! * terminate: audit `delete pods` by kubectl (25:08.953969 → .959053), "SyncTerminatingPod enter"/"exit" (25:08.961248,
//!   25:29.363288), "Running preStop hook"/"PreStop hook completed" (25:08.961815, 25:14.006801), per volume
//!   "operationExecutor.UnmountVolume started"/"UnmountVolume.TearDown succeeded" (25:29.473273 … .485565, the last
//!   one is cfg), inotify's DELETE of the pod's cgroup (1795220729643535460), "SyncTerminatedPod enter"/"exit"
//!   (25:29.892538, .893461), audit `delete pods` by the kubelet (25:29.933768 → .941568).

use crate::correlate::{session, world};
use kflow_core::flow::Stage;
use kflow_core::timeline::{Certainty, Span};
use kflow_model::{Nanos, Source};
use std::fmt::Write;

fn clock(at: Nanos) -> String {
    let s = at.to_rfc3339();
    s.get(14..29).unwrap_or(&s).to_owned()
}

#[expect(clippy::unwrap_used, reason = "writing to a string does not fail")]
fn line(spans: &[Span], s: &Span) -> String {
    let mut depth = 0;
    let mut up = s.parent;
    while let Some(p) = up {
        depth += 1;
        up = spans.get(p as usize).and_then(|s| s.parent);
    }
    let end = s.end.map_or("…".into(), |e| {
        format!("{}({})", clock(e.at), e.precision)
    });
    let mut out = format!(
        "{:indent$}{} {} {}({}) → {end} {:?} {:?}",
        "",
        s.stage,
        s.step,
        clock(s.start.at),
        s.start.precision,
        s.outcome,
        s.certainty,
        indent = depth * 2
    );
    if !s.container.is_empty() {
        write!(out, " [{} #{}]", s.container, s.attempt).unwrap();
    }
    if s.step.starts_with("MountVolume") || s.step.starts_with("UnmountVolume") {
        write!(out, " {}", s.message).unwrap();
    }
    out
}

/// Compares every span and gap of the pod with a file that was checked by hand, and is changed by hand.
fn same_as_golden(name: &str, p: &kflow_core::correlate::PodView) {
    let mut told = String::new();
    for s in &p.timeline.spans {
        told.push_str(&line(&p.timeline.spans, s));
        told.push('\n');
    }
    for g in &p.timeline.gaps {
        let end = g.end.map_or("…".into(), clock);
        writeln!(told, "? {} {} → {end} {}", g.stage, clock(g.start), g.why).unwrap();
    }
    let path = crate::in_repository("fixtures/correlate").join(name);
    let want = std::fs::read_to_string(path).expect("the golden file");
    for (i, (a, b)) in told.lines().zip(want.lines()).enumerate() {
        assert_eq!(a, b, "{name} line {}", i + 1);
    }
    assert_eq!(told.lines().count(), want.lines().count(), "{told}");
}

#[test]
fn the_healthy_pod_is_right_in_every_stage() {
    let observations = session("S1-basics");
    // Spans come late or not at all: the timeline is the same without them.
    let w = world(observations.iter().filter(|o| o.source != Source::Otlp));
    let p = w.find("s01/healthy")[0];
    same_as_golden("s01-healthy.txt", p);
}

/// With the API alone every edge of the node's work is known to a second, or by an Event; nothing is measured, and what
/// the API never shows (`cgroup`, the kubelet's admission, the runtime's calls one by one) is absent.
#[test]
fn the_api_alone_tells_a_coarse_story_and_measures_nothing() {
    let observations = session("S1-basics");
    let w = world(observations.iter().filter(|o| o.source == Source::Kube));
    let p = w.find("s01/healthy")[0];
    let stages: std::collections::BTreeSet<_> = p.timeline.spans.iter().map(|s| s.stage).collect();
    for unseen in [Stage::Cgroup, Stage::Volumes] {
        assert!(!stages.contains(&unseen), "{unseen}");
    }
    for s in &p.timeline.spans {
        assert_ne!(s.certainty, Certainty::Measured, "{s:?}");
    }
    same_as_golden("s01-healthy-api.txt", p);
}

/// The tap alone shows nothing before `RunPodSandbox` and nothing of readiness. Each call is exact, and everything else
/// is unknown.
#[test]
fn the_tap_alone_measures_the_runtimes_calls_and_leaves_the_rest_unknown() {
    let observations = session("S1-basics");
    let w = world(observations.iter().filter(|o| o.source == Source::Cri));
    let p = w.find("s01/healthy")[0];
    let full = world(observations.iter().filter(|o| o.source != Source::Otlp));
    let full = full.find("s01/healthy")[0];
    for s in p.timeline.spans.iter().filter(|s| s.call.is_some()) {
        assert_eq!(s.certainty, Certainty::Measured);
        let same = |x: &&Span| x.call == s.call && (x.start, x.end) == (s.start, s.end);
        assert!(full.timeline.spans.iter().any(|x| same(&x)), "{s:?}");
    }
    for unseen in [
        Stage::Api,
        Stage::Schedule,
        Stage::Cgroup,
        Stage::Volumes,
        Stage::Ready,
    ] {
        assert!(
            p.timeline.spans.iter().all(|s| s.stage != unseen),
            "{unseen}"
        );
    }
    same_as_golden("s01-healthy-tap.txt", p);
}

#[test]
fn a_container_that_is_stopped_to_be_restarted_does_not_end_the_pod() {
    let observations = session("S3-crashes");
    let w = world(observations.iter());
    let spans = &w.find("s12/liveness")[0].timeline.spans;
    let stops: Vec<_> = spans.iter().filter(|s| s.step == "StopContainer").collect();
    // The liveness probe kills the container five times; the container waits in back-off when the pod is deleted.
    assert_eq!(stops.len(), 5);
    for (n, s) in (0_u32..).zip(&stops) {
        assert_eq!((s.stage, s.attempt), (Stage::Start, n), "{s:?}");
    }
    let end = spans
        .iter()
        .find(|s| s.is_stage() && s.stage == Stage::Terminate)
        .unwrap();
    let asked = spans.iter().find(|s| s.step == "Delete").unwrap();
    assert_eq!(end.start, asked.start);
    // The containers of earlier attempts are removed while the pod lives, the last one at the pod's end.
    let removed: Vec<_> = spans
        .iter()
        .filter(|s| s.step == "RemoveContainer")
        .map(|s| (s.attempt, s.stage))
        .collect();
    let want = |n| {
        (
            n,
            if n < 4 {
                Stage::Start
            } else {
                Stage::Terminate
            },
        )
    };
    assert_eq!(removed, (0..5).map(want).collect::<Vec<_>>());
    // Stops and removals do not extend the stage `start`.
    let start = spans
        .iter()
        .find(|s| s.is_stage() && s.stage == Stage::Start)
        .unwrap();
    assert!(start.end.unwrap() < end.end.unwrap());
}

#[test]
fn a_pod_that_waits_for_a_hung_sync_loop_says_so() {
    let observations = session("S10-pleg");
    let w = world(observations.iter());
    let find = |w: &kflow_core::correlate::World, step: &str| {
        let p = w.find("s18c/new-pod")[0].clone();
        p.timeline.spans.iter().find(|s| s.step == step).cloned()
    };
    let wait = find(&w, "syncLoopIteration").unwrap();
    // From the line "Receiving a new pod" to the line "SyncLoop ADD".
    assert_eq!(clock(wait.start.at), "53:30.729726000");
    assert_eq!(wait.end.map(|e| clock(e.at)).unwrap(), "57:06.560037000");
    assert_eq!(
        (wait.stage, wait.certainty),
        (Stage::Admit, Certainty::Measured)
    );
    let handled = find(&w, "HandlePodAdditions").unwrap();
    assert_eq!(handled.start, wait.end.unwrap());
    // While the sync loop hangs, the wait for it is open, and nothing after it has begun.
    let then = wait.start.at.plus(60_000_000_000);
    let w = world(observations.iter().filter(|o| o.stamp.seen <= then));
    assert_eq!(find(&w, "syncLoopIteration").unwrap().end, None);
    assert!(find(&w, "HandlePodAdditions").is_none());
    // Pods of a session whose loop never hangs have no such step.
    let s1 = world(session("S1-basics").iter());
    let waits = |p: &kflow_core::correlate::Pod| {
        p.timeline
            .spans
            .iter()
            .any(|s| s.step == "syncLoopIteration")
    };
    assert!(!s1.pods().iter().any(waits));
}
