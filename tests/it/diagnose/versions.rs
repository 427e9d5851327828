//! `docs/versions.md`: for each kubelet and runtime that was recorded, how many verdicts are told and right, and which
//! steps of a healthy start each source shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use kflow_core::correlate::World;
use kflow_core::flow::Stage;
use kflow_model::session::reader;
use kflow_model::{Body, Nanos, Source};

use super::{RECORDED, Rows, Sources};
use crate::in_repository;

/// Recordings with a healthy start of a pod, and the pod.
const HEALTHY: [(&str, &str); 14] = [
    ("fixtures/versions/S27-containerd-2.3", "sv2301/healthy"),
    ("fixtures/sessions/S1-basics", "s01/healthy"),
    ("fixtures/versions/S20-kubelet-1.35", "sv3501/healthy"),
    ("fixtures/versions/S21-kubelet-1.34", "sv3401/healthy"),
    ("fixtures/versions/S19-kubelet-1.33", "sv3301/healthy"),
    ("fixtures/versions/S22-kubelet-1.32", "sv3201/healthy"),
    ("fixtures/versions/S16-kubelet-1.31", "sf01/healthy"),
    ("fixtures/versions/S18-kubelet-1.30", "sv3001/healthy"),
    ("fixtures/versions/S23-kubelet-1.29", "sv2901/healthy"),
    ("fixtures/versions/S24-kubelet-1.28", "sv2801/healthy"),
    ("fixtures/versions/S17-kubelet-1.27", "sv2701/healthy"),
    ("fixtures/versions/S25-containerd-1.7", "sv1701/healthy"),
    ("fixtures/versions/S26-cri-dockerd", "svdk01/healthy"),
    ("fixtures/versions/S15-crio", "sd01/healthy"),
];

/// Stages from the API request to readiness.
const START: [Stage; 10] = [
    Stage::Api,
    Stage::Schedule,
    Stage::Admit,
    Stage::Cgroup,
    Stage::Volumes,
    Stage::Sandbox,
    Stage::Image,
    Stage::Create,
    Stage::Start,
    Stage::Ready,
];

/// Sets of sources that a user may have alone.
const ALONE: [(&str, &[Source]); 7] = [
    ("API", &[Source::Kube, Source::Audit]),
    ("tap", &[Source::Cri]),
    ("kubelet's log", &[Source::Kubelet]),
    ("runtime's log", &[Source::Runtime]),
    ("spans", &[Source::Otlp]),
    ("file system", &[Source::Fs]),
    (
        "tap, kubelet's log and file system",
        &[Source::Cri, Source::Kubelet, Source::Fs],
    ),
];

const HEAD: &str = "\
# Versions

Which kubelets and runtimes kflow was tried with, by recordings that the tests read. Written by
`KFLOW_UPDATE=1 cargo test --test it diagnose`; a test fails when it is stale.

## Verdicts

Scenarios whose cause is known, of each kubelet and runtime: how many are told, by all sources, the API alone and the node's own
sources alone. None that is told is wrong: a wrong one fails the test. What each says is in [diagnosis.md](diagnosis.md), with the
moments at which a source alone cannot know.

";

const REST: &str = "\
## Features of pods

Where each is recorded, all on kubelet 1.36; what is said of them is in [diagnosis.md](diagnosis.md).

| feature | recorded | not recorded |
|---|---|---|
| sidecars (init containers that are restarted) | `s21/sidecar`; `modern/sidecar-crashes`, `modern/sidecar-not-started` | |
| resize in place | `s37/resize` (done; refused), `modern/resized` (waits for room) | memory that is made less than what is used |
| resources of the pod as a whole | `modern/pod-level`, `modern/pod-level-large` | an end by its memory limit: needs cgroup v2 |
| ephemeral containers | `s26/web` (starts), `modern/debugged` (its image is missing) | |
| image volumes | `modern/image-volume`, `modern/image-volume-missing` | |
| user namespaces | `modern/userns` (the runtime refuses it) | one that works: runc 1.1.5, which these nodes have, has no mounts with mapped ids; with the runc 1.4.3 of `S27-containerd-2.3` no such pod was recorded |
| dynamic resource allocation | `dra/notmpl`, `dra/npu`, `dra/tpu-a`, `dra/tpu-b` | a driver that works: none was built for these nodes |
| cgroup v2 | | the nodes were machines whose kernel has given its controllers to v1, and a controller is in one of the two; paths of v2 are read by tests of their own (`crates/sources/src/fs/path.rs`) |
| Windows nodes | `adm/windows` (refused by a Linux kubelet) | left out: eBPF, unix sockets and cgroups are Linux's |

## What differs

* A kubelet before 1.31 logs that it refuses a pod for want of a resource in a line of its own, `Predicate failed on Pod`.
* Kubelets 1.28 and 1.29 give the calls of a sync a trace of its own each (`pkg/kubelet/kubelet.go`, SyncPod: `todoCtx := context.TODO()`). A call
  that names its pod, or bears the annotation that the pod's other calls bear, is the pod's all the same. The kubelet's second look at an image does
  neither, and gets its pod by the order of the calls ([proxy.md](proxy.md)): all 50 of these two, where 51 of 115 `ImageStatus` had none (the one
  that is left is about the sandbox's image). Of the other kubelets the trace tells it. Held against the traces, with these left out (all of the
  recordings here, most of them without the annotation): 383 looks right, 0 wrong, 338 without a pod. With all other recordings too, and no
  annotation in any look: 655 looks right, 0 wrong, 739 without a pod; most of these are looks of pods whose container is never created.
* containerd 1.7 sends spans of calls and pulls, and none of its sandboxes, containers and tasks; it puts `: unknown` behind an error of the
  OCI runtime, as dockerd does, which is left out.
* containerd 2.2 and later log a pod's and a container's metadata as protobuf's text (`name:\"web-0\" uid:\"…\" namespace:\"shop\"`), where it was
  `&PodSandboxMetadata{Name:web-0,…}`. From 2.3 on spans of a task begin with `client.` (`client.task.Start`), and a sandbox's CNI has a span of its
  own (`cni.setup_pod_network`). 2.3.4 answers the CRI's streams of lists with Unimplemented, as 2.1.9 does, and the kubelet falls back.
* cri-dockerd sends no spans, and its log says nothing of pods: it is not read, nor is dockerd's. A command that is not there ends as
  `ContainerCannotRun`, where containerd says `StartError`.

## What is not in the table

* A kubelet 1.34.9 without tracing: the bytes of its calls are in `fixtures/cri/untraced`, and the decoder is held against them; nothing
  else of it was recorded.
* containerd 1.6.20: `tests/real` runs it in every CI, behind the proxy and under the tap, with its events, without a kubelet. They passed
  with 2.3.4 as well (2026-11-27). No kubelet was recorded before it: the nodes above were made with 1.7 and later.
* cri-dockerd 0.3.25, which stands before Docker 20.10.24: a node names dockerd alone.
* CRI-O was built from its main branch; no release of it was recorded. Nor was a kubelet before 1.27.
";

/// Versions of kubelet and runtime, by the last state of the session's Node: the first state may be
/// from an earlier kubelet.
fn versions(path: &str) -> (String, String) {
    let session = load(path);
    let node = session
        .observations
        .iter()
        .rev()
        .find_map(|o| match &o.body {
            Body::Node(n) if !n.kubelet_version.is_empty() => Some(n),
            _ => None,
        });
    let said = |v: &str| v.split('+').next().unwrap_or(v).replace("://", " ");
    node.map_or_else(
        || ("a kubelet that no source names".to_owned(), String::new()),
        |n| (said(&n.kubelet_version), said(&n.runtime_version)),
    )
}

fn load(path: &str) -> reader::Session {
    let path: PathBuf = in_repository(format!("{path}.kflow.zst"));
    reader::load(&path).unwrap_or_else(|e| panic!("{e}"))
}

/// The steps that some sources (`None`: all) show of a pod until its deletion, by stage.
fn steps(
    session: &reader::Session,
    key: &str,
    sources: Option<&[Source]>,
) -> BTreeMap<Stage, BTreeSet<String>> {
    let end = session.observations.iter().find_map(|o| match &o.body {
        Body::Pod(p) if format!("{}/{}", p.namespace, p.name) == key && p.deletion.is_some() => {
            Some(o.stamp.seen)
        }
        _ => None,
    });
    let mut world = World::new();
    for o in session
        .observations
        .iter()
        .filter(|o| o.stamp.seen < end.unwrap_or(Nanos(i64::MAX)))
    {
        if sources.is_none_or(|s| s.contains(&o.source)) {
            world.observe(o);
        }
    }
    world.refresh();
    let mut by_stage: BTreeMap<Stage, BTreeSet<String>> = BTreeMap::new();
    for span in world
        .find(key)
        .first()
        .into_iter()
        .flat_map(|p| &p.timeline.spans)
    {
        if !span.is_stage() {
            by_stage
                .entry(span.stage)
                .or_default()
                .insert(span.step.to_string());
        }
    }
    by_stage
}

/// The scenarios of one kubelet and runtime.
#[derive(Default)]
struct Share {
    scenarios: usize,
    /// How many of them are told, by the sources that are read.
    told: BTreeMap<Sources, usize>,
    recordings: Vec<String>,
}

/// The text of the document, from the verdicts on the recordings of each folder.
pub(super) fn document(tables: &[Rows]) -> String {
    let mut out = HEAD.to_owned();
    let mut shares: BTreeMap<(String, String), Share> = BTreeMap::new();
    for ((folder, _), rows) in RECORDED.iter().zip(tables) {
        let sessions: BTreeSet<&String> = rows.keys().map(|(session, ..)| session).collect();
        for session in sessions {
            let share = shares
                .entry(versions(&format!("{folder}/{session}")))
                .or_default();
            for ((_, _, _), row) in rows.iter().filter(|((s, ..), _)| s == session) {
                share.scenarios += 1;
                for (sources, told) in &row.got {
                    *share.told.entry(*sources).or_default() += usize::from(told != "-");
                }
            }
            share.recordings.push(session.clone());
        }
    }
    out.push_str("| kubelet | runtime | scenarios | all sources | API alone | node alone | recordings |\n|---|---|---|---|---|---|---|\n");
    for ((kubelet, runtime), share) in &shares {
        let told = |s| share.told.get(&s).copied().unwrap_or_default();
        let (all, api, node) = (told(Sources::All), told(Sources::Api), told(Sources::Node));
        let _ = writeln!(
            out,
            "| {kubelet} | {runtime} | {} | {all} | {api} | {node} | {} |",
            share.scenarios,
            share.recordings.join(", ")
        );
    }
    out.push_str("\n## A healthy start\n\nHow many kinds of steps are seen of each stage, with all sources and with some alone.\n");
    for (path, key) in HEALTHY {
        let (kubelet, runtime) = versions(path);
        let session = load(path);
        let _ = writeln!(
            out,
            "\n### Kubelet {kubelet}, {runtime} (`{path}`, {key})\n"
        );
        let alone = ALONE.map(|(name, sources)| (name, steps(&session, key, Some(sources))));
        let names = alone.each_ref().map(|(name, _)| *name).join(" | ");
        let _ = writeln!(
            out,
            "| stage | {names} | all | the steps |\n|---|{}---|---|",
            "---|".repeat(ALONE.len())
        );
        let all = steps(&session, key, None);
        for stage in START {
            let count =
                |of: &BTreeMap<Stage, BTreeSet<String>>| of.get(&stage).map_or(0, BTreeSet::len);
            let cells: Vec<String> = alone.iter().map(|(_, s)| count(s).to_string()).collect();
            let named = all
                .get(&stage)
                .into_iter()
                .flatten()
                .cloned()
                .collect::<Vec<_>>()
                .join(", ");
            let _ = writeln!(
                out,
                "| {stage} | {} | {} | {named} |",
                cells.join(" | "),
                count(&all)
            );
        }
    }
    out.push('\n');
    out.push_str(REST);
    out
}
