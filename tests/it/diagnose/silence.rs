//! No pod waits without a verdict: every recording, asked every second, with all sources and with parts of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use kflow_core::correlate::{Pod, PodView, World};
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_core::diagnose::{self, Catalogue, Confidence, Verdict};
use kflow_core::flow::Stage;
use kflow_model::session::reader;
use kflow_model::{Body, Evidence, Nanos, PodUid, Source, fs::FsAction, stamp::SECOND};

use crate::words::PARTS;

use super::{Expected, RECORDED, Sources};
use crate::in_repository;

/// What a source alone cannot tell at a moment that is asked about, and why: recording, sources, scenario, pod. Any
/// other silence is a failure.
const KNOWN: [(&str, Sources, &str, &str, &str); 19] = {
    const UNSEEN: &str = "the kubelet has not begun with the pod: nothing on the node names it";
    const API: &str = "what the API waits for is known to the API only";
    use Sources::Node;
    [
        (
            "S10-pleg",
            Node,
            "18c-pleg-unhealthy",
            "s18c/new-pod",
            UNSEEN,
        ),
        (
            "S11-control-plane",
            Node,
            "56-kubelet-frozen",
            "s56/no-kubelet",
            UNSEEN,
        ),
        (
            "S4-runtime",
            Node,
            "18a-runtime-stopped",
            "s18a/new-pod",
            UNSEEN,
        ),
        ("pressure", Node, "newpod", "crip/newpod", UNSEEN),
        ("runtime", Node, "newondead", "node2/newondead", UNSEEN),
        ("S3-crashes", Node, "25-finalizer", "s25/finalizer", API),
        ("running", Node, "held", "term/held", API),
        ("plugins", Node, "track-c7p7g", "fin/track-c7p7g", API),
        ("S3-crashes", Node, "42-readinessgate", "s42/gate", API),
        ("running", Node, "gate", "web/gate", API),
        ("pressure", Node, "steady", "crip/steady", API),
        ("pressure", Node, "lagging", "lag/lagging", API),
        ("config", Node, "locked", "lock/locked", API),
        ("mixed", Node, "infeas", "app1/infeas", API),
        (
            "S4-runtime",
            Node,
            "18a-runtime-stopped",
            "s18a/already-running",
            "the kubelet stands still before it hears of the deletion",
        ),
        (
            "runtime",
            Node,
            "ondead",
            "node2/ondead",
            "the kubelet is down before it hears of the deletion",
        ),
        (
            "S8-node",
            Node,
            "48-preemption",
            "s48/low",
            "by the node alone the pod has ended when it is asked about",
        ),
        (
            "running",
            Node,
            "tainted",
            "evict/tainted",
            "by the node alone the pod has ended when it is asked about",
        ),
        (
            "running",
            Node,
            "initslow",
            "init/initslow",
            "of this pod's containers the node shows one, and not that it is an init container",
        ),
    ]
};

/// Pods that the kubelet killed for their deadline, in recordings at -v=2. The kubelet's log does not say there why it
/// kills, so that the node's sources alone cannot tell. Recording, scenario, pod.
const DEADLINES: [(&str, &str, &str); 12] = [
    ("S16-kubelet-1.31", "f33-deadline", "sf33/hasty"),
    ("S17-kubelet-1.27", "v2733-deadline", "sv2733/hasty"),
    ("S18-kubelet-1.30", "v3033-deadline", "sv3033/hasty"),
    ("S19-kubelet-1.33", "v3333-deadline", "sv3333/hasty"),
    ("S20-kubelet-1.35", "v3533-deadline", "sv3533/hasty"),
    ("S21-kubelet-1.34", "v3433-deadline", "sv3433/hasty"),
    ("S22-kubelet-1.32", "v3233-deadline", "sv3233/hasty"),
    ("S23-kubelet-1.29", "v2933-deadline", "sv2933/hasty"),
    ("S24-kubelet-1.28", "v2833-deadline", "sv2833/hasty"),
    ("S25-containerd-1.7", "v1733-deadline", "sv1733/hasty"),
    ("S26-cri-dockerd", "vdk33-deadline", "svdk33/hasty"),
    ("S27-containerd-2.3", "v2333-deadline", "sv2333/hasty"),
];

/// Scenarios of `fixtures/causes` for which one source alone tells no cause although it has observations: the reason,
/// the source, and the files. The recordings have what these stories leave out ([`KNOWN`]).
const UNTOLD: [(&str, Sources, &[&str]); 7] = [
    (
        "no line of the story's log names the node that is asked about",
        Sources::Node,
        &["KF318", "KF320"],
    ),
    (
        "only the kubelet's log tells of a manifest that is no pod",
        Sources::Api,
        &["KF320"],
    ),
    (
        "the kubelet has not begun with the pod: nothing on the node names it",
        Sources::Node,
        &[
            "KF302",
            "kubelet-certificate-expired",
            "proxy-refuses-the-kubelet",
        ],
    ),
    (
        "of the node the story has that the kubelet began with the pod; an Event tells what fails",
        Sources::Node,
        &[
            "KF401",
            "KF404",
            "KF405",
            "KF406",
            "KF410",
            "KF415",
            "KF613",
            "attach-without-csidriver",
            "azure-in-use",
            "azure-owned-by-vm",
            "ebs-in-flight",
            "ebs-in-use",
            "ebs-limit",
            "gce-in-use",
            "volume-over-pull-fails",
            "volume-over-sandbox-fails",
        ],
    ),
    (
        "of the node the story has a pod that runs, or has run; an Event or the API's state tells what is wrong with it",
        Sources::Node,
        &[
            "KF705",
            "KF707",
            "KF709",
            "KF710",
            "KF712",
            "KF801",
            "KF802",
            "KF803",
            "KF804",
            "KF805",
            "KF806",
            "KF807",
            "KF808",
            "KF901",
            "KF910",
            "KF911",
            "KF912",
            "ended-by-a-shutdown",
            "evicted-container-limit",
            "evicted-emptydir-limit",
            "evicted-pod-limit",
            "gate-of-a-target-group",
            "liveness-and-readiness",
            "oomkilled-exit-0",
            "oomkilled-exit-1",
            "oomkilled-exit-143",
            "probe-at-the-pods-own-limit",
            "probe-cannot-be-run",
        ],
    ),
    (
        "of the node the story has sandboxes that were made; an Event tells that each was the last one's replacement",
        Sources::Node,
        &["KF513"],
    ),
    (
        "it stands in a log of the node, and nothing in the API",
        Sources::Api,
        &["KF702b", "KF906"],
    ),
];

/// True when [`UNTOLD`] lists a scenario.
pub(super) fn is_untold(scenario: &str, sources: Sources) -> bool {
    UNTOLD
        .iter()
        .any(|(_, s, names)| *s == sources && names.contains(&scenario))
}

/// True for what a source cannot tell: the node's own, when a pod is not on a node yet; and what [`KNOWN`] and
/// [`DEADLINES`] list.
pub(super) fn is_known(e: &Expected, sources: Sources) -> bool {
    let elsewhere = matches!(e.stage.as_deref(), Some("api" | "schedule"));
    let deadline = DEADLINES.contains(&(&*e.session, &*e.scenario, &*e.target));
    (sources == Sources::Node && (elsewhere || deadline))
        || KNOWN.iter().any(|(session, s, scenario, target, _)| {
            *s == sources && *session == e.session && *scenario == e.scenario && *target == e.target
        })
}

/// How long a pod may be in a stage without a verdict, besides the pod's own delays ([`own_time`]).
struct Patience {
    stage: Stage,
    /// The longest usual time in the stage, s: measured in the recordings where nothing was wrong with it, or cited.
    usual: f64,
    source: &'static str,
    /// The longest time without a verdict, s, with all sources and with a part of them.
    all: i64,
    part: i64,
}

/// One entry for each stage; none exceeds the usual time by more than [`BEYOND`].
const PATIENCE: [Patience; 11] = {
    const fn stage(
        stage: Stage,
        usual: f64,
        source: &'static str,
        all: i64,
        part: i64,
    ) -> Patience {
        Patience {
            stage,
            usual,
            source,
            all,
            part,
        }
    }
    [
        stage(
            Stage::Api,
            0.1,
            "S5-burst: stored and queued at most 0.1 s after the request",
            10,
            30,
        ),
        stage(
            Stage::Schedule,
            0.1,
            "S5-burst: PodScheduled after at most 0.10 s",
            30,
            30,
        ),
        stage(
            Stage::Admit,
            0.89,
            "S5-burst: status.startTime after at most 0.89 s",
            // Holds also for a node of which nothing is known.
            30,
            30,
        ),
        stage(
            Stage::Cgroup,
            0.1,
            "S5-burst: pod_container_manager EnsureExists",
            20,
            25,
        ),
        stage(
            Stage::Volumes,
            0.3,
            "S1-basics: WaitForAttachAndMount polls every 0.3 s",
            20,
            25,
        ),
        stage(
            Stage::Sandbox,
            4.87,
            "S5-burst: PodReadyToStartContainers at most 4.87 s after startTime",
            20,
            25,
        ),
        stage(
            Stage::Image,
            0.33,
            "S6-slowpull: pulls from a registry that is near",
            10,
            30,
        ),
        stage(
            Stage::Create,
            2.57,
            "S5-burst: CreateContainer at most 2.57 s",
            15,
            30,
        ),
        stage(
            Stage::Start,
            3.49,
            "S5-burst: Ready at most 3.49 s after the sandbox",
            30,
            30,
        ),
        stage(
            Stage::Ready,
            10.0,
            "SetDefaults_Probe: PeriodSeconds 10",
            30,
            30,
        ),
        stage(
            Stage::Terminate,
            9.35,
            "S5-burst: gone at most 9.35 s after its containers had ended",
            20,
            30,
        ),
    ]
};

/// No pod waits without a verdict longer than this beyond the usual time, s.
const BEYOND: f64 = 30.0;

/// The test asks every second: a verdict that is due may be seen a second later.
const LOOK: i64 = 1;

fn patience(stage: Stage, part: bool) -> i64 {
    let of = PATIENCE.iter().find(|p| p.stage == stage);
    of.map_or(0, |p| if part { p.part } else { p.all }) + LOOK
}

/// The delays that the pod itself asks for, ns: probes' delays, and the rest of its grace period.
fn own_time(p: &PodView, now: Nanos) -> i64 {
    let Some(api) = p.api.as_deref() else {
        return 0;
    };
    let probe = api
        .spec
        .containers
        .iter()
        .chain(&api.spec.init_containers)
        .flat_map(|c| &c.probes)
        .map(|p| match p.kind.as_str() {
            "startup" => {
                i64::from(p.initial_delay_s)
                    + i64::from(p.period_s) * i64::from(p.failure_threshold)
            }
            "readiness" => i64::from(p.initial_delay_s),
            _ => 0,
        })
        .max()
        .unwrap_or(0);
    // `deletionTimestamp` is the time of the deletion request plus the grace period.
    let grace = api.deletion.map_or(0, |d| d.since(now).max(0));
    probe * SECOND + grace
}

#[derive(Default)]
struct Silence {
    /// The stage of each pod that is not well and has no verdict, and since when.
    since: BTreeMap<PodUid, (Stage, Nanos)>,
    wrong: BTreeMap<String, String>,
    asked: usize,
}

impl Silence {
    /// Asks about a pod; returns true when the pod is well, so that nothing changes before new evidence comes.
    fn ask(&mut self, world: &World, p: &Pod, now: Nanos, of: &str, part: bool) -> bool {
        self.asked += 1;
        let told = diagnose::why(world, p, now);
        let key = format!("{of} {}", p.key());
        let asked = Asked {
            world,
            at: now,
            scope: None,
            recorded: Some(now),
        };
        match &told {
            // Where there is no API, it is also an answer that the pod's state is unknown, and what would help.
            None if p.api.is_none() && unknown::known(asked, p).is_some() => {
                self.since.remove(&p.uid);
            }
            None => {
                let stage = p.current.map_or(Stage::Ready, |(stage, _)| stage);
                let since = self.since.entry(p.uid.clone()).or_insert((stage, now));
                if since.0 != stage {
                    *since = (stage, now);
                }
                let silent = now.since(since.1);
                if silent > patience(stage, part) * SECOND + own_time(p, now) {
                    let text = format!("nothing is said for {} s in {stage}", silent / SECOND);
                    self.wrong.insert(key, text);
                }
            }
            Some(v) => {
                self.since.remove(&p.uid);
                if let Some(why) = contradicted(p, v, now).or_else(|| seen_since(p, v)) {
                    self.wrong.insert(key, why);
                }
            }
        }
        told.is_some_and(|v| v.state.is_well())
    }
}

/// A verdict says that something was not seen since a moment, but it was seen: returns how.
fn seen_since(p: &PodView, v: &Verdict) -> Option<String> {
    let about = |o: &Body, what: &str| match o {
        Body::CallStart(c) => {
            what.starts_with(&format!("no {} call", c.method))
                || what.starts_with(&format!("no {} yet", c.method))
                || what == format!("nothing of container {} since", c.subject.container)
        }
        Body::Event(e) => {
            let named = what.starts_with(&format!("no {} event", e.reason));
            let own = v.container.is_empty() || e.container == v.container;
            named && own && !e.listed
        }
        _ => false,
    };
    for proof in v.evidence.iter().filter(|x| x.evidence.is_none()) {
        let seen = p
            .evidence
            .iter()
            .rev()
            .find(|o| o.stamp.at > proof.at.plus(SECOND) && about(&o.body, &proof.what));
        if let Some(o) = seen {
            return Some(format!(
                "\"{}\" of {}, but at {}",
                proof.what, proof.at, o.stamp.at
            ));
        }
    }
    None
}

/// A verdict that is concluded from silence, although the pod moved less than 5 s ago: returns how.
fn contradicted(p: &PodView, v: &Verdict, now: Nanos) -> Option<String> {
    let of_silence = v.evidence.iter().any(|x| x.evidence.is_none());
    let general = (Catalogue::get().cause(v.cause?).general || of_silence)
        && v.confidence == Confidence::Possible;
    let moved = p.evidence.iter().rev().find(|o| match &o.body {
        Body::CallEnd(c) => c.code == Some(0),
        Body::Event(e) => {
            !e.warning
                && !e.listed
                && e.component == "kubelet"
                && e.reason != "BackOff"
                && e.reason != "Killing"
        }
        Body::Fs(f) => f.action == FsAction::Created,
        _ => false,
    })?;
    let calm = now.since(moved.stamp.seen);
    (general && calm < 5 * SECOND).then(|| {
        format!(
            "{} although it moved {} ms before: {}",
            v.cause_id(),
            calm / 1_000_000,
            v.sentence
        )
    })
}

fn watch(all: &[Evidence], part: bool, sources: &[Source], of: &str, told: &mut Silence) {
    let Some(first) = all.first() else {
        return;
    };
    let mut world = World::new();
    let mut tick = first.stamp.seen.plus(SECOND);
    // Pods that were well: the test asks again when their view changes.
    let mut calm: BTreeMap<PodUid, Pod> = BTreeMap::new();
    for o in all {
        while o.stamp.seen >= tick {
            world.refresh();
            for p in world.pods() {
                // Skips pods that only log lines name: excerpts leave out their story, and a line about the cgroup or
                // the resources of an earlier pod without a name does not show that the pod still exists.
                let by_logs = p.evidence.iter().all(|o| matches!(o.body, Body::Log(_)));
                if by_logs && (p.uid.as_str().contains('/') || p.name.is_empty()) {
                    continue;
                }
                if calm.get(&p.uid).is_some_and(|known| Arc::ptr_eq(known, p)) {
                    continue;
                }
                if told.ask(&world, p, tick, of, part) {
                    calm.insert(p.uid.clone(), Arc::clone(p));
                } else {
                    calm.remove(&p.uid);
                }
            }
            tick = tick.plus(SECOND);
        }
        if o.source == Source::Kflow || sources.contains(&o.source) {
            world.observe(o);
        }
    }
    told.since.clear();
}

#[test]
fn nobody_waits_in_silence() {
    let (only, part_only) = (std::env::var("ONLY").ok(), std::env::var("PART").ok());
    let mut files: Vec<PathBuf> = Vec::new();
    for (folder, _) in RECORDED {
        let folder = std::fs::read_dir(in_repository(folder)).expect("recordings");
        files.extend(folder.filter_map(|f| Some(f.ok()?.path())));
    }
    // Recordings that are not in the repository, made by `kflow import`.
    let more = std::env::var("RECORDINGS").unwrap_or_default();
    files.extend(more.split(':').filter(|f| !f.is_empty()).map(PathBuf::from));
    files.retain(|p| p.to_string_lossy().ends_with(".kflow.zst"));
    files.sort();
    let mut all = Silence::default();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(".kflow.zst");
        if only.as_ref().is_some_and(|o| !name.starts_with(o.as_str())) {
            continue;
        }
        let session = reader::load(&path).unwrap_or_else(|e| panic!("{e}"));
        for (part, sources) in PARTS {
            if part_only.as_ref().is_none_or(|o| o == part) {
                let of = format!("{name}, {part}:");
                watch(&session.observations, part != "all", sources, &of, &mut all);
            }
        }
    }
    let whole = only.is_none() && part_only.is_none();
    assert!(all.asked > 1000 || !whole, "only {} moments", all.asked);
    let wrong: Vec<String> = all.wrong.iter().map(|(k, v)| format!("{k}: {v}")).collect();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn no_stage_is_silent_for_long_beyond_what_is_usual() {
    for (stage, p) in Stage::ALL.into_iter().zip(PATIENCE) {
        assert_eq!(p.stage, stage);
        assert!(!p.source.is_empty() && p.all <= p.part, "{stage}");
        assert!(p.part as f64 <= p.usual + BEYOND, "{stage}");
    }
}

#[test]
fn what_one_source_cannot_tell_is_listed_with_its_reason() {
    let deadlines =
        DEADLINES.map(|(s, scenario, target)| (s, Sources::Node, scenario, target, "-v=2"));
    for (session, sources, scenario, target, why) in KNOWN.into_iter().chain(deadlines) {
        assert!(
            sources != Sources::All && !why.is_empty(),
            "{scenario} {target}"
        );
        let known = RECORDED
            .iter()
            .flat_map(|(_, file)| super::expected(file))
            .any(|e| e.session == session && e.scenario == scenario && e.target == target);
        assert!(known, "{scenario} {target} is no scenario");
        assert!(Source::ALL.iter().any(|s| sources.has(*s)));
    }
}
