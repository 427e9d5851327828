//! Which pod an observation is about, and what becomes of a pod: two pods of one name, mirror pods, deleted pods,
//! remnants in the runtime.

use std::collections::BTreeSet;
use std::sync::Arc;

use kflow_core::correlate::PodView;
use kflow_core::diagnose::State;
use kflow_core::flow::Stage;
use kflow_core::timeline::Span;
use kflow_model::gap::{WatchKind, WatchNote};
use kflow_model::pod::{PodSeen, WatchEvent};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos, ObjectRef, Observation, PodUid, Source, Stamp, Text};

use super::{SESSIONS, session, world};

/// How much later the second pod lives than the first, ns.
const LATER: i64 = 100_000_000_000;

/// Moves every time of the recordings' day by `by` ns.
fn later(json: &mut serde_json::Value, by: i64) {
    match json {
        serde_json::Value::Number(n) => {
            if let Some(at) = n
                .as_i64()
                .filter(|n| (1_795_200_000_000_000_000..1_795_300_000_000_000_000).contains(n))
            {
                *json = (at + by).into();
            }
        }
        serde_json::Value::Array(v) => v.iter_mut().for_each(|x| later(x, by)),
        serde_json::Value::Object(m) => m.values_mut().for_each(|x| later(x, by)),
        _ => {}
    }
}

/// The kubelet's log alone shows when a pod's worker begins to stop it, and not that the pod is gone.
#[test]
fn what_a_pod_waited_for_has_ended_when_its_worker_stops_it() {
    let mut stopped = 0;
    for name in SESSIONS {
        let log = session(name);
        let log = log.iter().filter(|o| o.source == Source::Kubelet);
        let world = world(log);
        for pod in world.pods() {
            let spans = &pod.timeline.spans;
            let of_worker = |s: &&Span| s.step == "SyncTerminatingPod";
            let Some(stop) = spans.iter().filter(of_worker).map(|s| s.start.at).max() else {
                continue;
            };
            stopped += 1;
            let waits = |s: &&Span| s.end.is_none() && s.start.at <= stop;
            let waits = |s: &&Span| waits(s) && s.stage != Stage::Terminate && !s.is_run();
            let open: Vec<&Span> = spans.iter().filter(waits).collect();
            assert!(open.is_empty(), "{name} {}: {open:?}", pod.key());
        }
    }
    assert!(stopped > 50, "{stopped}");
}

/// UID of the pod `s01/healthy` of S1, and one for the next pod of that name.
const OLD: &str = "4ac3c3e9-1ad8-496b-869a-7687fcb13acf";
const NEW: &str = "5bd4d4f0-2be9-4a7c-97ab-8798fdc24bd0";

fn text(o: &Evidence) -> String {
    serde_json::to_string(o).unwrap()
}

/// Logs, Events, states and files of the pod `s01/healthy`. Calls are left out: connection and stream identify them, which a copy would
/// repeat.
fn story() -> Vec<Evidence> {
    let of_pod = |o: &Evidence| {
        let text = text(o);
        let names = ["s01/healthy", OLD, "\"ns\":\"s01\",\"n\":\"healthy\""];
        names.iter().any(|name| text.contains(name))
    };
    let all = session("S1-basics").into_iter();
    all.filter(|o| matches!(o.source, Source::Kubelet | Source::Kube | Source::Fs))
        .filter(of_pod)
        .collect()
}

/// The observation as one of the next pod, `by` ns later and on a node.
fn next(o: &Evidence, by: i64, node: &str) -> Evidence {
    let text = text(o).replace(OLD, NEW).replace("node1", node);
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    later(&mut json, by);
    let mut o: kflow_model::Observation = serde_json::from_value(json).unwrap();
    if let Body::Pod(p) = &mut o.body {
        p.resource_version += 100_000;
    }
    Arc::new(o)
}

/// Two pods have one name, one after the other: an observation with only the name belongs to the pod that existed then.
#[test]
fn a_pod_that_is_created_anew_under_its_name_keeps_its_own_story() {
    let first = story();
    let second: Vec<Evidence> = first.iter().map(|o| next(o, LATER, "node1")).collect();
    let alone = world(&first);
    let both = world(first.iter().chain(&second));
    let steps = |p: &PodView| -> Vec<String> {
        p.timeline
            .spans
            .iter()
            .map(|s| format!("{} {} {} {:?}", s.stage, s.step, s.container, s.start))
            .collect()
    };
    let a = alone.pod(&OLD.into()).expect("the first life");
    let b = both
        .pod(&OLD.into())
        .expect("the first life beside the second");
    assert_eq!(steps(a), steps(b));
    let c = both.pod(&NEW.into()).expect("the second life");
    assert_eq!(steps(a).len(), steps(c).len());
    for (x, y) in a.timeline.spans.iter().zip(&c.timeline.spans) {
        assert_eq!(
            (x.stage, &x.step, &x.container),
            (y.stage, &y.step, &y.container)
        );
        assert_eq!(x.start.at + LATER, y.start.at, "{} {}", x.stage, x.step);
    }
    assert_eq!(both.find("s01/healthy").len(), 2);
}

/// No recording here has two nodes. Invented: the story of a recorded pod once more, on another node whose clock is
/// ahead or behind, right after the first one is gone, as a StatefulSet moves a pod.
#[test]
fn a_pod_that_moves_to_a_node_with_another_clock_keeps_its_own_story_and_takes_none() {
    const AHEAD: i64 = 3 * SECOND;
    let of_node = |o: &Evidence| match &o.body {
        Body::Event(e) => e.component == "kubelet",
        _ => matches!(o.source, Source::Kubelet | Source::Fs),
    };
    let first = story();
    let times = || first.iter().map(|o| o.stamp.at);
    let later_by = times().max().unwrap().since(times().min().unwrap()) + SECOND;
    for ahead in [AHEAD, -AHEAD] {
        let by = |o| later_by + if of_node(o) { ahead } else { 0 };
        let second: Vec<Evidence> = first.iter().map(|o| next(o, by(o), "node2")).collect();
        let (alone, after) = (world(&first), world(&second));
        let both = world(first.iter().chain(&second));
        assert_eq!(both.find("s01/healthy").len(), 2, "{ahead}");
        for (uid, other, node, own) in [(OLD, NEW, "node1", &alone), (NEW, OLD, "node2", &after)] {
            let own = own.pod(&uid.into()).expect("its story");
            let pod = both.pod(&uid.into()).expect("its story beside the other");
            assert_eq!((pod.node.as_str(), &pod.status), (node, &own.status));
            if ahead < 0 {
                // Lines with the name alone go by time: the node's first seconds are before the pod's creation.
                continue;
            }
            // What names a UID is never the other's.
            let has = |uid: &str, p: &PodView| {
                p.evidence.iter().filter(|o| text(o).contains(uid)).count()
            };
            assert_eq!(has(other, pod), 0, "{ahead} {uid}");
            assert_eq!(has(uid, pod), has(uid, own), "{ahead} {uid}");
            assert_eq!(pod.evidence.len(), own.evidence.len(), "{uid}");
            // Two clocks contradict each other, so that neither is told: what follows from both alone is not concluded.
            let stages = |p: &PodView| -> BTreeSet<Stage> {
                p.timeline.spans.iter().map(|s| s.stage).collect()
            };
            assert_eq!(stages(pod), stages(own), "{uid}");
            if uid == OLD {
                let steps = |p: &PodView| -> Vec<Text> {
                    p.timeline.spans.iter().map(|s| s.step.clone()).collect()
                };
                assert_eq!(steps(pod), steps(own), "{uid}");
            }
        }
    }
}

#[test]
fn a_static_pod_and_its_mirrors_are_one_story() {
    let w = world(&session("S1-basics"));
    let found = w.find("s17/static-web-node1");
    assert_eq!(found.len(), 1);
    let p = found[0];
    assert_eq!(
        p.uid.as_str().len(),
        32,
        "the UID is the kubelet's: {}",
        p.uid
    );
    assert_eq!(
        p.mirrors.len(),
        2,
        "the mirror was deleted once and made again"
    );
    for mirror in &p.mirrors {
        assert_eq!(w.pod(mirror).map(|x| &x.uid), Some(&p.uid));
    }
    let starts = p
        .timeline
        .spans
        .iter()
        .filter(|s| s.step == "StartContainer")
        .count();
    assert_eq!(starts, 1, "deleting the mirror stops nothing");
}

/// The runtime and old Events still name pods that were deleted before the recording began.
#[test]
fn a_pod_that_a_complete_list_did_not_hold_is_gone_and_waits_for_nothing() {
    let mut gone = 0;
    for name in &SESSIONS[1..] {
        let observations = session(name);
        let listed_at = observations
            .iter()
            .find_map(|o| match &o.body {
                Body::Watch(n) if n.resource == "pods" => Some(o.stamp.seen),
                _ => None,
            })
            .expect("a list of pods");
        for p in world(&observations).pods() {
            let old = p.evidence.iter().any(|o| o.stamp.at < listed_at);
            if p.api.is_some() || !old || p.uid.as_str().len() == 32 {
                continue;
            }
            gone += 1;
            assert_eq!(p.status, "Gone", "{name} {}", p.key());
            assert_eq!(p.current, None, "{name} {}", p.key());
            assert!(
                p.gone.is_some_and(|at| at >= listed_at),
                "{name} {}",
                p.key()
            );
        }
    }
    assert!(gone > 20, "{gone}");
    // A pod is not gone because a list of another scope does not have it.
    let observations: Vec<Evidence> = session("S2-stuck-early")
        .iter()
        .map(|o| {
            let mut o: Observation = (**o).clone();
            if let Body::Watch(n) = &mut o.body {
                n.scope = "elsewhere".into();
            }
            Arc::new(o)
        })
        .collect();
    let w = world(&observations);
    assert_eq!(
        w.find("s21/sidecar").first().expect("the remnant").gone,
        None
    );
}

/// An agent that starts later first sees a pod when the kubelet syncs it again: that is no admission.
#[test]
fn a_pod_that_runs_was_not_admitted_when_who_looks_late_first_hears_of_it() {
    let mut looked = 0;
    for name in ["S1-basics", "S5-burst"] {
        let observations = session(name);
        let whole = world(&observations);
        for p in whole.pods() {
            let Some(ready) = p.timeline.stage(Stage::Ready).and_then(|s| s.end) else {
                continue;
            };
            let late = |o: &&Evidence| {
                matches!(o.source, Source::Kube) || o.stamp.at > ready.at.plus(SECOND)
            };
            let late = world(observations.iter().filter(late));
            let found = late.find(&p.key());
            let told = found.first().expect("the API knows it");
            if let Some(admit) = told.timeline.stage(Stage::Admit).and_then(|s| s.end) {
                looked += 1;
                assert!(admit.at <= ready.at, "{name} {}", p.key());
            }
        }
    }
    assert!(looked > 10, "{looked}");
}

/// Lists of a Deployment's pods alone, as `kflow record --pod deploy/web` keeps them.
#[test]
fn a_list_of_an_owners_pods_tells_that_one_of_them_is_gone_and_nothing_of_others() {
    let at = |s: i64, body| {
        Arc::new(Observation {
            stamp: Stamp::exact(Nanos::from_secs(s)),
            source: Source::Kube,
            body,
        })
    };
    let pod = |name: &str, set: &str| {
        let owner = ObjectRef {
            kind: "ReplicaSet".into(),
            namespace: "shop".into(),
            name: set.into(),
            uid: Text::default(),
        };
        Body::Pod(Box::new(PodSeen {
            event: WatchEvent::Listed,
            namespace: "shop".into(),
            name: name.into(),
            uid: PodUid::from(name),
            owner: Some(owner),
            ..PodSeen::default()
        }))
    };
    let note = |kind| {
        Body::Watch(Box::new(WatchNote {
            resource: "pods".into(),
            kind,
            scope: "shop,of=Deployment/web".into(),
            detail: Text::default(),
            failure: None,
        }))
    };
    let set = "web-7ddcb6dc58";
    let mut told = vec![
        at(1, note(WatchKind::ListBegin)),
        at(2, pod("web-1", set)),
        at(2, pod("web-2", set)),
        // The recorder did not know the owner of this pod.
        at(2, pod("db-1", "db-7ddcb6dc58")),
        at(3, note(WatchKind::ListEnd)),
    ];
    let gone = |told: &[Evidence], name: &str| {
        let w = world(told);
        let found = w.find(&format!("shop/{name}"));
        found.first().expect("the pod").gone
    };
    assert_eq!(gone(&told, "web-1"), None);
    told.extend([
        at(11, note(WatchKind::ListBegin)),
        at(12, pod("web-2", set)),
        at(13, note(WatchKind::ListEnd)),
    ]);
    assert_eq!(gone(&told, "web-1"), Some(Nanos::from_secs(13)));
    assert_eq!(gone(&told, "web-2"), None);
    assert_eq!(gone(&told, "db-1"), None);
}

#[test]
fn with_the_tap_alone_what_is_left_of_a_pod_has_exited_and_is_not_stuck() {
    let mut remnants = 0;
    for name in SESSIONS {
        let observations = session(name);
        let w = world(observations.iter().filter(|o| o.source == Source::Cri));
        let now = w.now();
        for p in w.pods().iter().filter(|p| p.is_remnant()) {
            remnants += 1;
            assert_eq!(p.current, None, "{name} {}", p.uid);
            let state = kflow_core::diagnose::why(&w, p, now).map(|v| v.state);
            assert!(
                state.is_some_and(State::is_well),
                "{name} {} {state:?}",
                p.uid
            );
            assert!(
                p.containers.iter().all(|c| c.state.is_terminated()),
                "{name} {:?}",
                p.containers
            );
        }
        // The tap never shows that a pod is gone from the API.
        assert!(w.pods().iter().all(|p| p.gone.is_none()), "{name}");
    }
    assert!(remnants > 20, "{remnants}");
}

/// Only Events from before the recording name these pods: their waits were not seen to end, but are over.
#[test]
fn nothing_of_a_pod_of_the_past_is_in_flight() {
    let mut past = 0;
    for name in ["S1-basics", "S5-burst"] {
        let observations = session(name);
        let w = world(observations.iter());
        for p in w.pods().iter().filter(|p| p.past) {
            past += 1;
            assert_eq!(p.current, None, "{name} {}", p.key());
            for s in &p.timeline.spans {
                assert!(s.end.is_some(), "{name} {} {}", p.key(), s.step);
            }
        }
    }
    assert!(past > 0, "{past}");
}

/// No recording has a call of these that was given up at its deadline, so the test gives the failed ones that status.
#[test]
fn a_call_that_timed_out_is_tried_again_like_one_that_failed() {
    for (name, step) in [
        ("S4-runtime", "completeWork"),
        ("S3-crashes", "CrashLoopBackOff"),
    ] {
        let recorded: Vec<Evidence> = session(name)
            .into_iter()
            .filter(|o| o.source != Source::Otlp)
            .collect();
        let timed_out = recorded.iter().map(|o| {
            let mut o = (**o).clone();
            if let Body::CallEnd(e) = &mut o.body
                && e.code == Some(2)
            {
                e.code = Some(4);
            }
            Arc::new(o)
        });
        let timed_out: Vec<Evidence> = timed_out.collect();
        let waits = |all: &[Evidence]| {
            let mut waits = Vec::new();
            for p in world(all).pods() {
                let of_it = p.timeline.spans.iter().filter(|s| s.step == step);
                waits.extend(of_it.map(|s| (p.key(), s.start, s.end, s.attempt)));
            }
            waits
        };
        let failed = waits(&recorded);
        assert!(!failed.is_empty(), "{name}");
        assert_eq!(waits(&timed_out), failed, "{name}");
    }
}
