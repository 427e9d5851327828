//! Mistakes that an independent reading of the raw recordings once found: each stays corrected.

use crate::correlate::{SESSIONS, session, world};
use kflow_core::correlate::{PodView, World};
use kflow_core::flow::Stage;
use kflow_core::timeline::{Certainty, Outcome};
use kflow_model::stamp::{MILLI, SECOND};
use kflow_model::{Nanos, Source, cri::is_noise};

#[expect(clippy::panic, reason = "a missing pod fails the test")]
fn pod<'a>(w: &'a World, namespace: &str, name: &str) -> &'a PodView {
    w.pods()
        .iter()
        .find(|p| p.namespace == namespace && p.name == name)
        .unwrap_or_else(|| panic!("no pod {namespace}/{name}"))
}

#[test]
fn every_call_about_a_container_names_its_pod_container_and_sandbox() {
    for name in SESSIONS {
        let w = world(&session(name));
        let mut nameless = Vec::new();
        for c in w.calls().iter().filter(|c| !is_noise(&c.method)) {
            if !c.container_id.is_empty() && !c.container.is_empty() {
                assert!(
                    !c.sandbox_id.is_empty(),
                    "{name}: {} of {}/{} in no sandbox",
                    c.method,
                    c.pod,
                    c.container
                );
            }
            let about_one =
                !c.container_id.is_empty() || !c.sandbox_id.is_empty() || !c.image.is_empty();
            // Only a span tells for which pod an image is looked up, when the sync makes no other call.
            if c.pod.is_empty() && about_one && c.method != "ImageStatus" {
                nameless.push(c.method.as_str());
            }
        }
        nameless.sort_unstable();
        // crictl pulls for no pod; three containers were gone before the recording S14 began.
        let expected: &[&str] = match name {
            "S13-crictl" => &["PullImage", "PullImage"],
            "S14-verbosity2" => &["ContainerStatus", "ContainerStatus", "ContainerStatus"],
            _ => &[],
        };
        assert_eq!(nameless, expected, "{name}");
    }
}

#[test]
fn what_is_ready_has_no_reason_for_not_being_ready() {
    for name in SESSIONS {
        let w = world(&session(name));
        for p in w.pods() {
            for s in &p.timeline.spans {
                if s.stage == Stage::Ready && s.outcome == Outcome::Ok && s.step == "SetPodStatus" {
                    assert_eq!(s.code, "", "{name} {}", p.key());
                }
            }
        }
    }
}

#[test]
fn a_gap_says_why_and_a_pod_that_is_done_has_none_until_it_is_deleted() {
    for name in SESSIONS {
        let observations = session(name);
        let began = observations
            .iter()
            .filter(|o| matches!(o.source, Source::Cri | Source::Kubelet | Source::Fs))
            .map(|o| o.stamp.seen)
            .min()
            .unwrap_or(Nanos(0));
        let w = world(&observations);
        for p in w.pods() {
            for g in &p.timeline.gaps {
                // The recordings have one node, and all of its sources.
                assert_ne!(g.why, "no source on this pod's node", "{name} {}", p.key());
                assert_eq!(
                    g.why == "before the recording began",
                    g.end.unwrap_or(g.start) <= began,
                    "{name} {}: {g:?}",
                    p.key()
                );
            }
        }
    }
    // Rejected at admission, and deleted 140 s later.
    let w = world(&session("S2-stuck-early"));
    let p = pod(&w, "s08a", "admit-affinity");
    assert_eq!(p.timeline.gaps, []);
    // Refused by a webhook: the API has no pod that could wait.
    let w = world(&session("S7-restart-json"));
    assert_eq!(pod(&w, "s30", "hook-deny").timeline.gaps, []);
}

#[test]
fn a_sandbox_that_is_not_the_kubelets_ends_with_its_removal() {
    let w = world(&session("S13-crictl"));
    let p = pod(&w, "crictl", "by-crictl");
    assert!(
        p.timeline
            .steps()
            .any(|s| s.step == "RemovePodSandbox" && s.outcome == Outcome::Ok)
    );
    assert!(p.timeline.gaps.iter().all(|g| g.end.is_some()));
    let sandbox = p.timeline.stage(Stage::Sandbox).map(|s| s.start.at);
    let admit = p.timeline.stage(Stage::Admit).map(|s| s.start.at);
    assert!(admit.is_none() || admit <= sandbox, "admitted after it ran");
}

#[test]
fn a_hook_before_the_end_is_not_taken_for_one_after_the_start() {
    let observations = session("S3-crashes");
    let tap = world(observations.iter().filter(|o| o.source == Source::Cri));
    assert!(
        pod(&tap, "s15a", "slow-prestop")
            .timeline
            .steps()
            .all(|s| s.step != "PostStartHook")
    );
    assert!(
        pod(&tap, "s14", "poststart")
            .timeline
            .steps()
            .any(|s| s.step == "PostStartHook")
    );
}

#[test]
fn a_probe_is_known_no_better_than_the_start_that_it_is_counted_from() {
    let observations = session("S1-basics");
    let w = world(
        observations
            .iter()
            .filter(|o| matches!(o.source, Source::Kube | Source::Kubelet)),
    );
    let p = pod(&w, "s01", "healthy");
    let mut probes = p
        .timeline
        .steps()
        .filter(|s| s.step.ends_with("Probe"))
        .peekable();
    assert!(probes.peek().is_some());
    assert!(probes.all(|s| s.certainty != Certainty::Measured));
}

#[test]
fn the_time_in_a_stage_is_that_of_the_verdict_about_it() {
    // At 00:29:18 most of the pods that were made to hang do hang.
    let now = Nanos(1_795_220_958_013_000_000);
    let observations = session("S2-stuck-early");
    let w = world(observations.iter().filter(|o| o.stamp.seen <= now));
    let mut stuck = 0;
    for p in w.pods() {
        let Some(v) = kflow_core::diagnose::why(&w, p, now) else {
            continue;
        };
        let Some((_, since)) = p.current.filter(|(stage, _)| *stage == v.stage) else {
            continue;
        };
        // Attempts that fail alike, and calls that are answered between them, do not restart the time in the stage.
        let apart = since.since(v.since);
        assert!(apart.abs() < 500_000_000, "{}: {apart} ns apart", p.key());
        stuck += 1;
    }
    assert_eq!(stuck, 16);
}

#[test]
fn preemptor_and_victim_tell_of_each_other_by_event_or_by_log_and_once() {
    use kflow_model::{Body, log::Component};
    let all = session("S8-node");
    let event = |o: &&kflow_model::Evidence| matches!(&o.body, Body::Event(_));
    let scheduler = |o: &&kflow_model::Evidence| matches!(&o.body, Body::Log(l) if l.component == Component::Scheduler);
    let told = |w: &World, name: &str| -> Vec<String> {
        let t = &pod(w, "s48", name).timeline;
        let marks = t.marks.iter().filter(|m| m.text.starts_with("Preempt"));
        marks.map(|m| m.text.to_string()).collect()
    };
    let room = "Preempting s48/low on node node1: its room is for this pod";
    let by = "Preempted: Preempted by pod 5445feeb-1c2a-449a-9cf0-9bdd14fed899 on node node1";
    let both = world(&all);
    assert_eq!(told(&both, "high"), [room]);
    assert_eq!(told(&both, "low"), [format!("{by} (s48/high)")]);
    let by_event = world(all.iter().filter(|o| !scheduler(o)));
    assert_eq!(told(&by_event, "high"), [room]);
    assert_eq!(told(&by_event, "low"), [by]);
    let by_log = world(all.iter().filter(|o| !event(o)));
    assert_eq!(told(&by_log, "high"), [room]);
    // The Event about the victim does not make the preemptor preempted.
    let high = pod(&both, "s48", "high");
    let end = all.last().unwrap().stamp.seen;
    if let Some(v) = kflow_core::diagnose::why(&both, high, end) {
        assert!(!v.sentence.contains("preempt"), "{}", v.sentence);
    }
}

#[test]
fn a_deletion_that_found_nothing_is_no_part_of_the_pods_end() {
    // `kubectl delete` of s48/low came 14 s after the pod was gone, and got a 404.
    let w = world(&session("S8-node"));
    let low = pod(&w, "s48", "low");
    let end = low.timeline.stage(Stage::Terminate).unwrap();
    assert_eq!(end.outcome, Outcome::Ok, "{}", end.message);
    assert!(end.end.unwrap().at.since(end.start.at) < 13_000_000_000);
    let late = "delete pods 404 by kubernetes-admin";
    assert!(low.timeline.marks.iter().any(|m| m.text == late && m.bad));
}

fn recorded(name: &str) -> Vec<kflow_model::Evidence> {
    let path = crate::fixture(&format!("correlate/{name}"));
    kflow_model::session::load(&path).unwrap().observations
}

/// The kubelet was started anew after a quarter of an hour, on a node that was low on disk by then: it admits its pods
/// again, and refuses this one.
#[test]
fn a_refusal_after_a_kubelets_restart_is_no_part_of_the_pods_start() {
    let w = world(&recorded("readmitted.kflow.zst"));
    let p = pod(&w, "e15", "backend-7bb6445cb5-wsvtj");
    let took = |s: Stage| p.took[s.index()];
    assert!((1..100 * MILLI).contains(&took(Stage::Admit)), "{p:?}");
    // The volumes took 900 ms, and three later attempts 77 ms.
    let volumes = 900 * MILLI..SECOND;
    assert!(volumes.contains(&took(Stage::Volumes)), "{:?}", p.took);
    let refused = p.timeline.steps().find(|s| s.code == "Evicted").unwrap();
    assert!(refused.end.unwrap().at.since(refused.start.at) < MILLI);
    let ran = p.timeline.spans.iter().find(|s| s.is_run()).unwrap();
    assert!(refused.start.at.since(ran.start.at) > 14 * 60 * SECOND);
}

#[test]
fn a_pod_that_ran_before_kflow_looked_waits_for_nothing_that_is_known() {
    let all = recorded("running-node-at-attach.kflow");
    // Directories and mounts were recorded before the runtime's list.
    let lists = |o: &kflow_model::Evidence| matches!(o.body, kflow_model::Body::Inventory(_));
    assert!(all.iter().any(lists));
    let w = world(&all);
    let p = pod(&w, "default", "p1-node1");
    assert_eq!((p.status.as_str(), p.current), ("Running", None));
    // Its cgroup was there before its sandbox, half a minute before it was seen.
    assert_eq!(p.timeline.steps().count(), 0, "{:?}", p.timeline.spans);
}

/// A recording (fixtures/correlate/README.md), as of a time of day.
fn stops(time: &str) -> (World, Nanos) {
    let at = Nanos::parse_rfc3339(&format!("2026-11-29T{time}Z"))
        .unwrap()
        .0;
    let all = recorded("stops.kflow.zst");
    (world(all.iter().filter(|o| o.stamp.seen <= at)), at)
}

fn told(time: &str, namespace: &str, name: &str) -> kflow_core::diagnose::Verdict {
    let (w, at) = stops(time);
    let mut like = w.pods().iter().filter(|p| p.namespace == namespace);
    let pod = like.find(|p| p.name.starts_with(name)).unwrap();
    kflow_core::diagnose::why(&w, pod, at).unwrap()
}

/// Its StopContainer began before the tap was there: that no such call is seen does not show that there is none.
#[test]
fn a_container_that_is_being_stopped_is_told_also_once_a_tap_is_there() {
    for time in ["05:39:36", "05:39:45", "05:40:30"] {
        let v = told(time, "shop", "slowterm");
        assert_eq!(v.cause_id(), "KF903", "{time}: {}", v.sentence);
    }
}

/// The kubelet says after 10 s that the runtime did not kill the pod, though the pod was given 30 s when it was deleted.
#[test]
fn a_runtime_is_not_blamed_for_what_its_grace_period_allows() {
    let v = told("05:39:50", "shop", "evict-5b984959f5-t8nq9");
    assert_ne!(v.cause_id(), "KF905", "{}", v.sentence);
}

#[test]
fn a_liveness_probe_that_always_fails_is_told_before_it_kills() {
    let v = told("05:40:30", "shop", "p-live-ft");
    assert_eq!(v.cause_id(), "KF803", "{}", v.sentence);
    assert_eq!(v.state, kflow_core::diagnose::State::Slow);
    assert!(
        v.sentence.contains("200 failures in a row count"),
        "{}",
        v.sentence
    );
}

#[test]
fn a_failed_pod_of_a_job_that_has_given_up_says_so() {
    let v = told("05:40:30", "shop", "migrate");
    let stands = v.owner_state.unwrap_or_default();
    let failed = "job/migrate: it has failed, so no other pod follows (BackoffLimitExceeded";
    assert!(stands.starts_with(failed), "{stands}");
}

/// A completed pod stays in the API until somebody deletes it. Its kubelet had removed its sandbox and containers.
#[test]
fn a_pod_that_completed_is_not_gone() {
    let all = recorded("readmitted.kflow.zst");
    let w = world(&all);
    let p = pod(&w, "e15", "backend-7bb6445cb5-wsvtj");
    let v = kflow_core::diagnose::why(&w, p, all.last().unwrap().stamp.seen).unwrap();
    assert_ne!(v.state, kflow_core::diagnose::State::Gone, "{}", v.sentence);
    assert_eq!(p.gone, None);
}
