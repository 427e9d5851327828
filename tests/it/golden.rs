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
use kflow::model::{Nanos, Source};
use kflow::timeline::Span;
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

#[test]
fn the_healthy_pod_is_right_in_every_stage() {
    let observations = session("S1-basics");
    // Spans come late or not at all; the story does not hang on them.
    let w = world(observations.iter().filter(|o| o.source != Source::Otlp));
    let p = w.find("s01/healthy")[0];
    let mut told = String::new();
    for s in &p.timeline.spans {
        told.push_str(&line(&p.timeline.spans, s));
        told.push('\n');
    }
    for g in &p.timeline.gaps {
        let end = g.end.map_or("…".into(), clock);
        writeln!(told, "? {} {} → {end} {}", g.stage, clock(g.start), g.why).unwrap();
    }
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/correlate/s01-healthy.txt"
    );
    if std::env::var_os("KFLOW_BLESS").is_some() {
        std::fs::write(path, &told).expect("the golden file is written");
    }
    let want = include_str!("../../fixtures/correlate/s01-healthy.txt");
    for (i, (a, b)) in told.lines().zip(want.lines()).enumerate() {
        assert_eq!(a, b, "line {}", i + 1);
    }
    assert_eq!(told.lines().count(), want.lines().count());
}
