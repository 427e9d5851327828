//! The flow map on real recordings: which steps each recording lights, compared with docs/flows.md.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use kflow_core::correlate::World;
use kflow_core::correlate::steps::steps;
use kflow_core::flow::runs::{RunEnd, lit, passes};
use kflow_core::flow::{Map, StepId};
use kflow_model::log::Component;
use kflow_model::session::Session;
use kflow_model::stamp::{MILLI, SECOND};
use kflow_model::{Body, Nanos, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{in_repository, pages};
use std::sync::Arc;

/// The recording of a node with CRI-O.
const CRIO: &str = "fixtures/versions/S15-crio.kflow.zst";

/// The recordings in the order of their numbers, with the steps that each lights; and whether all of them have spans: a
/// session that was made before kflow could read spans lights fewer steps than the page says.
fn seen(map: &Map) -> (Vec<pages::Seen>, bool) {
    let mut spans = true;
    let mut files: BTreeMap<u32, PathBuf> = BTreeMap::new();
    let folder = std::fs::read_dir(in_repository("fixtures/sessions")).unwrap();
    for path in folder
        .map(|entry| entry.unwrap().path())
        .chain([in_repository(CRIO)])
    {
        if let Some(n) = number(&path) {
            files.insert(n, path);
        }
    }
    let seen = files
        .into_iter()
        .map(|(n, path)| {
            let session = kflow_model::session::load(&path).unwrap();
            let (begin, _) = session.range().unwrap();
            spans &= has_spans(&session);
            let evidence: Vec<_> = session
                .observations
                .into_iter()
                // The first list of Events has those of earlier recordings, because the API keeps Events for an hour.
                .filter(|o| o.stamp.until() >= begin)
                .collect();
            let lit = lit(map, &evidence, Nanos(i64::MAX));
            let steps: BTreeSet<StepId> = lit.into_iter().map(|l| l.step).collect();
            pages::Seen {
                recording: format!("S{n}"),
                steps,
            }
        })
        .collect();
    (seen, spans)
}

fn has_spans(session: &Session) -> bool {
    session
        .observations
        .iter()
        .any(|o| o.source == Source::Otlp)
}

/// The number of a recording: `3` for `S3-crashes.kflow.zst`.
fn number(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?.strip_suffix(".kflow.zst")?;
    name.strip_prefix('S')?.split('-').next()?.parse().ok()
}

#[test]
fn every_step_is_seen_in_a_recording_or_says_why_not_and_the_page_is_current() {
    let map = Map::embedded();
    let (seen, complete) = seen(map);
    assert_eq!(
        seen.len(),
        15,
        "recordings in fixtures/sessions, and that of CRI-O"
    );
    let mut wrong = Vec::new();
    for (i, step) in map.steps().iter().enumerate() {
        let lit = seen
            .iter()
            .filter(|s| s.steps.contains(&StepId(i as u16)))
            .map(|s| s.recording.as_str())
            .collect::<Vec<_>>();
        if complete && lit.is_empty() && !step.is_invisible() && step.unseen.is_empty() {
            wrong.push(format!("{} is seen nowhere and does not say why", step.id));
        }
        if !lit.is_empty() && !step.unseen.is_empty() {
            wrong.push(format!(
                "{} says `{}` but is seen in {}",
                step.id,
                step.unseen,
                lit.join(" ")
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));

    let now = pages::flows(map, &seen);
    if complete {
        pages::current("docs/flows.md", &now);
        return;
    }
    let page = std::fs::read_to_string(in_repository("docs/flows.md")).unwrap();
    for step in map.steps() {
        let row = format!("\n| {} | {} | `{}` |", step.id, step.label, step.function);
        assert!(page.contains(&row), "docs/flows.md lacks {row}");
    }
}

#[test]
fn a_healthy_pods_steps_are_lit_once_however_many_sources_tell_of_them() {
    let map = Map::embedded();
    let path = in_repository("fixtures/sessions/S1-basics.kflow.zst");
    let session = kflow_model::session::load(&path).unwrap();
    let mut world = World::new();
    for o in &session.observations {
        world.observe(o);
    }
    world.refresh();
    let pod = world.find("s01/healthy")[0];
    let lit = lit(map, &pod.evidence, world.now());
    let of = |id: &str| {
        let step = map.step(id).unwrap().0;
        lit.iter().find(|l| l.step == step).unwrap()
    };
    // One sandbox, one pull, an init container and two others. Several of tap, spans, logs and Events show each.
    for (id, count) in [
        ("b06", 1),
        ("e07", 1),
        ("e10", 1),
        ("e17", 1),
        ("e20", 3),
        ("e22", 3),
        ("h08", 1),
        ("h10", 2),
        ("k10", 1),
        ("k12", 1),
    ] {
        assert_eq!(of(id).count, count, "{id}");
    }
    // The order of the map is the order in which steps begin.
    let order = [
        "k10", "b06", "c09", "c19", "e10", "e17", "e20", "e22", "h01", "h10", "h18",
    ];
    let firsts: Vec<_> = order.iter().map(|id| of(id).first.at).collect();
    assert!(firsts.is_sorted(), "{firsts:?}");
    let sandbox = &of("e10").runs[0];
    assert_eq!(sandbox.how, RunEnd::Ok);
    let took = sandbox.duration(world.now()).unwrap();
    assert!(took > 100 * MILLI, "the tap: 195 ms");
    if !has_spans(&session) {
        return;
    }
    let span = of("f01").runs[0].duration(world.now()).unwrap();
    assert!(
        (0..MILLI).contains(&(took - span)),
        "the tap says {took} ns, containerd's span {span} ns"
    );
    assert!(
        of("e10").evidence.len() >= 2,
        "call and span, at least: {:?}",
        of("e10").evidence.len()
    );
}

/// The begin of a recording with CRI-O (fixtures/README.md). Spans, log, or both light CRI-O's own steps, and none of
/// another runtime's.
#[test]
fn a_healthy_start_with_cri_o_lights_its_steps() {
    let map = Map::embedded();
    let path = in_repository("fixtures/crio/healthy.kflow.zst");
    let session = kflow_model::session::load(&path).unwrap();
    let of = |without: &[Source]| {
        let mut world = World::new();
        for o in &session.observations {
            if !without.contains(&o.source) {
                world.observe(o);
            }
        }
        world.refresh();
        let pod = world.find("sd01/healthy")[0];
        let lit = steps(map, &world, pod);
        let of_a_runtime = lit.iter().filter(|l| map.runtime_of(l.step).is_some());
        of_a_runtime
            .filter_map(|l| Some((map.get(l.step)?.id.as_str(), l.count)))
            .collect::<Vec<_>>()
    };
    // The sandbox, its namespaces and network, and three containers; the image was present. For the sandbox and for
    // each container a conmon is started and the OCI runtime is called; the state is written after both calls, for the
    // sandbox once.
    let log = [("m01", 1), ("m07", 1), ("m14", 3), ("m16", 3)];
    let both = [
        ("m01", 1),
        ("m05", 1),
        ("m06", 1),
        ("m07", 1),
        ("m09", 4),
        ("m10", 4),
        ("m11", 7),
        ("m14", 3),
        ("m15", 3),
        ("m16", 3),
    ];
    assert_eq!(of(&[]), both, "spans and log");
    assert_eq!(of(&[Source::Runtime]), both, "spans");
    assert_eq!(of(&[Source::Otlp]), log, "log");
    assert_eq!(of(&[Source::Otlp, Source::Runtime]), [], "neither");
}

/// A pod that starts and ends well, on containerd 1.7.34, 2.1.9 and 2.3.4. The log names pods and containers in other
/// words since 2.2, and spans have other names since 2.3 (`task.Kill` is `client.task.Kill`); 1.7 has few spans.
#[test]
fn each_containerd_lights_the_same_steps() {
    let map = Map::embedded();
    let of = |file: &str, key: &str, only: &[Source]| {
        let path = in_repository(format!("fixtures/versions/{file}.kflow.zst"));
        let session = kflow_model::session::load(&path).unwrap();
        let mut world = World::new();
        for o in &session.observations {
            if only.is_empty() || only.contains(&o.source) {
                world.observe(o);
            }
        }
        world.refresh();
        let pod = world.find(key)[0];
        let lit: BTreeSet<String> = steps(map, &world, pod)
            .iter()
            .filter(|l| map.runtime_of(l.step).is_some())
            .filter_map(|l| Some(map.get(l.step)?.id.as_str().to_owned()))
            .collect();
        let drawn: BTreeSet<String> = pod
            .timeline
            .spans
            .iter()
            .filter(|s| s.step.contains('.'))
            .map(|s| s.step.trim_start_matches("client.").to_owned())
            .collect();
        (lit, drawn)
    };
    // The log alone: its lines say which sandbox is the pod's, and which containers are the sandbox's.
    let of_log = |file, key| of(file, key, &[Source::Runtime]).0;
    let mut words = BTreeSet::from(["f01", "f08", "f09", "f10", "f11", "f12"].map(str::to_owned));
    assert_eq!(of_log("S20-kubelet-1.35", "sv3501/healthy"), words);
    assert_eq!(of_log("S27-containerd-2.3", "sv2301/healthy"), words);
    assert!(words.remove("f10"), "1.7.34 tells no exit");
    assert_eq!(of_log("S25-containerd-1.7", "sv1701/healthy"), words);
    let (lit_2_1, drawn_2_1) = of("S20-kubelet-1.35", "sv3501/healthy", &[]);
    let (lit_2_3, drawn_2_3) = of("S27-containerd-2.3", "sv2301/healthy", &[]);
    assert!(lit_2_3.is_superset(&lit_2_1), "{lit_2_1:?}: {lit_2_3:?}");
    assert!(drawn_2_1.contains("task.Kill"), "{drawn_2_1:?}");
    assert!(
        drawn_2_3.is_superset(&drawn_2_1),
        "{drawn_2_1:?}: {drawn_2_3:?}"
    );
}

/// Pods light steps of their node's runtime only.
#[test]
fn steps_are_those_of_the_nodes_runtime() {
    let map = Map::embedded();
    for (path, other) in [
        ("fixtures/sessions/S1-basics.kflow.zst", Component::Crio),
        ("fixtures/sessions/S3-crashes.kflow.zst", Component::Crio),
        (CRIO, Component::Containerd),
    ] {
        let session = kflow_model::session::load(&in_repository(path)).unwrap();
        let mut world = World::new();
        for o in &session.observations {
            world.observe(o);
        }
        world.refresh();
        let mut of_runtime = 0;
        for pod in world.pods() {
            for l in steps(map, &world, pod) {
                let runtime = map.runtime_of(l.step);
                assert_ne!(runtime, Some(other), "{path} {}: {:?}", pod.key(), l.step);
                of_runtime += usize::from(runtime.is_some());
            }
        }
        assert!(of_runtime > 50, "{path}: {of_runtime}");
    }
}

/// For each pod of each recording, a call's step on the runtime's side is lit as often as the one
/// on the kubelet's side.
#[test]
fn a_call_is_as_often_on_the_runtimes_side_as_on_the_kubelets() {
    let map = Map::embedded();
    let mut compared = 0;
    // S13 has no tap, and an Event stands for several calls.
    let tapped = crate::correlate::SESSIONS
        .into_iter()
        .filter(|s| *s != "S13-crictl");
    for name in tapped {
        let world = crate::correlate::world(&crate::correlate::session(name));
        for pod in world.pods() {
            // For a pod from before the recording, one Event stands for several calls.
            if !pod
                .evidence
                .iter()
                .any(|o| matches!(o.body, Body::CallStart(_)))
            {
                continue;
            }
            let lit = lit(map, &pod.evidence, world.now());
            let of = |id: &str| {
                let step = map.step(id).unwrap().0;
                lit.iter().find(|l| l.step == step).map(|l| l.count)
            };
            for (kubelet, runtime) in [("e17", "f07"), ("e20", "f08"), ("e22", "f09")] {
                if let (Some(a), Some(b)) = (of(kubelet), of(runtime)) {
                    assert_eq!(a, b, "{name} {}: {kubelet}, {runtime}", pod.key());
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn both_starts_of_a_kubelet_are_passes_with_all_their_steps() {
    let map = Map::embedded();
    let path = in_repository("fixtures/sessions/S7-restart-json.kflow.zst");
    let session = kflow_model::session::load(&path).unwrap();
    let (begin, end) = session.range().unwrap();
    let evidence: Vec<_> = session
        .observations
        .into_iter()
        .filter(|o| o.stamp.at >= begin)
        .collect();
    let (flow, _) = map.flow("kubelet-startup").unwrap();
    let passes: Vec<_> = passes(map, flow, &evidence)
        .into_iter()
        .map(|piece| lit(map, &piece, end))
        .filter(|l| {
            l.iter()
                .any(|l| map.get(l.step).is_some_and(|s| s.id == "a03"))
        })
        .collect();
    assert_eq!(passes.len(), 2, "the kubelet was restarted once");
    for pass in &passes {
        let at = |id: &str| {
            let step = map.step(id).unwrap().0;
            pass.iter().find(|l| l.step == step).unwrap().first.at
        };
        for id in [
            "a06", "a07", "a10", "a13", "a14", "a16", "a18", "a20", "a23", "a26", "a28",
        ] {
            let since = at(id).since(at("a03"));
            assert!((0..SECOND).contains(&since), "{id} {since}");
        }
    }
}

/// The wording of versions is data: a recording of an older kubelet, which writes `syncPod enter`,
/// gives the same timelines.
#[test]
fn a_recording_in_the_words_of_an_older_version_gives_the_same_timelines() {
    let path = in_repository("fixtures/sessions/S1-basics.kflow.zst");
    let session = kflow_model::session::load(&path).unwrap();
    let mut renamed = 0;
    let (mut today, mut older) = (World::new(), World::new());
    for o in &session.observations {
        // Spans show the same steps: without them only the lines can.
        if o.source == Source::Otlp {
            continue;
        }
        today.observe(o);
        let mut old = (**o).clone();
        if let Body::Log(l) = &mut old.body
            && let Some(rest) = l.message.strip_prefix("Sync")
            && matches!(
                l.message.as_str(),
                "SyncPod enter"
                    | "SyncPod exit"
                    | "SyncTerminatingPod enter"
                    | "SyncTerminatingPod exit"
            )
        {
            l.message = format!("sync{rest}").into();
            renamed += 1;
        }
        older.observe(&Arc::new(old));
    }
    assert!(renamed > 50, "{renamed}");
    today.refresh();
    older.refresh();
    let told = |w: &World| -> Vec<String> {
        let all = w.pods().iter().flat_map(|p| {
            let key = p.key();
            let spans: Vec<String> = p
                .timeline
                .spans
                .iter()
                .map(|s| {
                    format!(
                        "{key} {} {} {:?} {:?} {:?}",
                        s.step, s.container, s.start, s.end, s.outcome
                    )
                })
                .collect();
            spans
        });
        all.collect()
    };
    assert!(
        told(&today)
            .iter()
            .any(|s| s.contains("SyncTerminatingPod"))
    );
    assert_eq!(told(&today), told(&older));
}
