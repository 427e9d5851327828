//! Nobody waits in silence: every recording, cut at every second, with all sources and with the API alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use kflow_core::correlate::{Pod, PodView, World};
use kflow_core::diagnose::{self, Catalogue, Confidence, Verdict};
use kflow_model::session::reader;
use kflow_model::{Body, Nanos, PodUid, Source, fs::FsAction, stamp::SECOND};

use super::{Expected, RECORDED, Sources, root};

/// Nobody waits longer than this without a sentence, besides times that are the pod's own.
const LONGEST: i64 = 31 * SECOND;

/// What a source alone cannot tell, and why; everything else that it is silent on is a failure.
const KNOWN: [(Sources, &str, &str, &str); 19] = {
    const UNSEEN: &str = "the kubelet has not begun with the pod: nothing on the node names it";
    const API: &str = "what the API waits for is known to the API only";
    use Sources::Node;
    [
        (Node, "18c-pleg-unhealthy", "s18c/new-pod", UNSEEN),
        (Node, "56-kubelet-frozen", "s56/no-kubelet", UNSEEN),
        (Node, "18a-runtime-stopped", "s18a/new-pod", UNSEEN),
        (Node, "newpod", "crip/newpod", UNSEEN),
        (Node, "newondead", "node2/newondead", UNSEEN),
        (Node, "25-finalizer", "s25/finalizer", API),
        (Node, "held", "term/held", API),
        (Node, "track-c7p7g", "fin/track-c7p7g", API),
        (Node, "42-readinessgate", "s42/gate", API),
        (Node, "gate", "web/gate", API),
        (Node, "steady", "crip/steady", API),
        (Node, "lagging", "lag/lagging", API),
        (Node, "locked", "lock/locked", API),
        (Node, "infeas", "app1/infeas", API),
        (
            Node,
            "18a-runtime-stopped",
            "s18a/already-running",
            "the kubelet stands still before it hears of the deletion",
        ),
        (
            Node,
            "ondead",
            "node2/ondead",
            "the kubelet is down before it hears of the deletion",
        ),
        (
            Node,
            "48-preemption",
            "s48/low",
            "by the node alone the pod has ended when it is asked about",
        ),
        (
            Node,
            "tainted",
            "evict/tainted",
            "by the node alone the pod has ended when it is asked about",
        ),
        (
            Node,
            "initslow",
            "init/initslow",
            "of this pod's containers the node shows one, and not that it is an init container",
        ),
    ]
};

/// What a source cannot tell: where a pod is not on a node yet, the node's own; and what [`KNOWN`] lists.
pub(super) fn is_known(e: &Expected, sources: Sources) -> bool {
    let elsewhere = matches!(e.stage.as_deref(), Some("api" | "schedule"));
    (sources == Sources::Node && elsewhere)
        || KNOWN.iter().any(|(s, scenario, target, _)| {
            *s == sources && *scenario == e.scenario && *target == e.target
        })
}

/// Times that are the pod's own: until then it waits by its own wish.
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
    // `deletionTimestamp` lies its grace period ahead of the deletion.
    let grace = api.deletion.map_or(0, |d| d.since(now).max(0));
    probe * SECOND + grace
}

#[derive(Default)]
struct Silence {
    since: BTreeMap<PodUid, Nanos>,
    wrong: BTreeMap<String, String>,
    asked: usize,
}

impl Silence {
    /// Asks about a pod; true when nothing can change before new evidence comes.
    fn ask(&mut self, world: &World, p: &Pod, now: Nanos, of: &str) -> bool {
        self.asked += 1;
        let told = diagnose::why(world, p, now);
        let key = format!("{of} {}", p.key());
        match &told {
            None => {
                let since = *self.since.entry(p.uid.clone()).or_insert(now);
                let silent = now.since(since);
                if silent > LONGEST + own_time(p, now) {
                    self.wrong
                        .insert(key, format!("nothing is said for {} s", silent / SECOND));
                }
            }
            Some(v) => {
                self.since.remove(&p.uid);
                if let Some(why) = contradicted(p, v, now) {
                    self.wrong.insert(key, why);
                }
            }
        }
        told.is_some_and(|v| v.state.is_well())
    }
}

/// A sentence that is concluded from silence, of a pod that moves.
fn contradicted(p: &PodView, v: &Verdict, now: Nanos) -> Option<String> {
    let general = Catalogue::get().cause(v.cause?).general && v.confidence == Confidence::Possible;
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

fn watch(path: &std::path::Path, sources: Sources, all: &mut Silence) {
    let session = reader::load(path).unwrap_or_else(|e| panic!("{e}"));
    let Some(first) = session.observations.first() else {
        return;
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let of = format!("{name} {sources:?}");
    let mut world = World::new();
    let mut tick = first.stamp.seen.plus(SECOND);
    // Pods that were well: asked again when their view changes.
    let mut calm: BTreeMap<PodUid, Pod> = BTreeMap::new();
    for o in &session.observations {
        while o.stamp.seen >= tick {
            world.refresh();
            for p in world.pods() {
                // Excerpts name pods whose story they leave out; and of a pod of an earlier time that left no name, a
                // line on its cgroup or its resources is no sign that it still is.
                let by_logs = p.evidence.iter().all(|o| matches!(o.body, Body::Log(_)));
                if by_logs && (p.uid.as_str().contains('/') || p.name.is_empty()) {
                    continue;
                }
                let listed = |(s, _, target, _): &(Sources, &str, &str, &str)| {
                    *s == sources && *target == p.key()
                };
                if KNOWN.iter().any(listed) {
                    continue;
                }
                if calm.get(&p.uid).is_some_and(|known| Arc::ptr_eq(known, p)) {
                    continue;
                }
                if all.ask(&world, p, tick, &of) {
                    calm.insert(p.uid.clone(), Arc::clone(p));
                } else {
                    calm.remove(&p.uid);
                }
            }
            tick = tick.plus(SECOND);
        }
        if sources.has(o.source) {
            world.observe(o);
        }
    }
    all.since.clear();
}

#[test]
fn nobody_waits_in_silence() {
    let only = std::env::var("ONLY").ok();
    let mut all = Silence::default();
    for (folder, _) in RECORDED {
        let mut files: Vec<_> = std::fs::read_dir(root().join(folder))
            .expect("recordings")
            .filter_map(|f| Some(f.ok()?.path()))
            .filter(|p| p.to_string_lossy().ends_with(".kflow.zst"))
            .collect();
        files.sort();
        for path in files {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if only.as_ref().is_none_or(|o| name.starts_with(o.as_str())) {
                for sources in Sources::EACH {
                    watch(&path, sources, &mut all);
                }
            }
        }
    }
    assert!(
        all.asked > 1000 || only.is_some(),
        "only {} moments",
        all.asked
    );
    let wrong: Vec<String> = all.wrong.iter().map(|(k, v)| format!("{k}: {v}")).collect();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_one_source_cannot_tell_is_listed_with_its_reason() {
    for (sources, scenario, target, why) in KNOWN {
        assert!(
            sources != Sources::All && !why.is_empty(),
            "{scenario} {target}"
        );
        let known = RECORDED
            .iter()
            .flat_map(|(_, file)| super::expected(file))
            .any(|e| e.scenario == scenario && e.target == target);
        assert!(known, "{scenario} {target} is no scenario");
        assert!(Source::ALL.iter().any(|s| sources.has(*s)));
    }
}
