//! Who ended a pod that its owner did not delete: told while the pod ends, and when it is gone. By the pod's condition
//! `DisruptionTarget` and by the Events, and by each of them alone.

use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::diagnose::{self, State};
use kflow_model::session::reader;
use kflow_model::{Body, Evidence};

use super::owners::why;

const SCHEDULER: &str =
    "it was ended by the scheduler, for a pod with a higher priority (preemption).";
const TAINT: &str = "it was ended by the taint manager, because of a taint of node node1.";

/// Recording, pod, and how it is told once it is gone.
const GONE: [(&str, &str, &str); 5] = [
    ("../sessions/S8-node", "s48/low", SCHEDULER),
    (
        "../sessions/S8-node",
        "s49/drainme",
        "it was ended by the eviction API, for example a drain.",
    ),
    (
        "../sessions/S8-node",
        "s28/hog",
        "it was ended by the kubelet of node node1 (eviction).",
    ),
    ("../causes/real/running", "evict/tainted", TAINT),
    ("../causes/real/mixed", "prio/low", SCHEDULER),
];

#[test]
fn a_pod_that_is_gone_says_who_ended_it() {
    for (recording, pod, who) in GONE {
        let (said, status) = why(recording, &[pod]);
        assert!(
            said.contains(&format!("The pod is gone: {who}")),
            "{pod}: {said}"
        );
        assert_eq!(status, Some(0), "{pod}");
    }
}

/// What is told at last of a pod of the observations that `keep` leaves.
fn at_last(recording: &str, pod: &str, keep: impl Fn(&Evidence) -> Option<Evidence>) -> String {
    let session = reader::load(&crate::recording(recording)).unwrap_or_else(|e| panic!("{e}"));
    let mut world = World::new();
    for o in session.observations.iter().filter_map(keep) {
        world.observe(&o);
    }
    world.refresh();
    let now = session.observations.last().expect("a recording").stamp.seen;
    let found = diagnose::find(&world, pod);
    let verdict = found.iter().find_map(|t| t.verdict(&world, now));
    let verdict = verdict.unwrap_or_else(|| panic!("{recording} {pod}"));
    assert_eq!(verdict.state, State::Gone, "{recording} {pod}");
    verdict.sentence.clone()
}

fn without_condition(o: &Evidence) -> Option<Evidence> {
    let Body::Pod(pod) = &o.body else {
        return Some(Arc::clone(o));
    };
    let mut pod = pod.clone();
    pod.status
        .conditions
        .retain(|c| c.kind != "DisruptionTarget");
    let mut o = o.as_ref().clone();
    o.body = Body::Pod(pod);
    Some(Arc::new(o))
}

#[test]
fn the_condition_and_the_events_each_tell_who_ended_a_pod() {
    let ended = GONE
        .into_iter()
        .filter(|(.., who)| [SCHEDULER, TAINT].contains(who));
    for (recording, pod, who) in ended {
        let who = format!("The pod is gone: {who}");
        let by_events = at_last(recording, pod, without_condition);
        assert_eq!(by_events, who, "{recording} {pod}, by Events");
        let by_condition = at_last(recording, pod, |o| {
            let is_event = matches!(o.body, Body::Event(_));
            (!is_event).then(|| Arc::clone(o))
        });
        assert_eq!(by_condition, who, "{recording} {pod}, by its condition");
        let by_neither = at_last(recording, pod, |o| match o.body {
            Body::Event(_) => None,
            _ => without_condition(o),
        });
        assert_eq!(by_neither, "The pod is gone.", "{recording} {pod}");
    }
}

/// What the taint manager takes back is no reason for the end that comes later.
#[test]
fn a_deletion_that_was_taken_back_ended_no_pod() {
    let taken_back = |o: &Evidence| {
        let Body::Event(e) = &o.body else {
            return without_condition(o);
        };
        let mut e = e.clone();
        if e.reason == "TaintManagerEviction" {
            e.message = "Cancelling deletion of Pod evict/tainted".into();
        }
        let mut o = o.as_ref().clone();
        o.body = Body::Event(e);
        Some(Arc::new(o))
    };
    let said = at_last("../causes/real/running", "evict/tainted", taken_back);
    assert_eq!(said, "The pod is gone.");
}

/// The Event has the UID alone of the pod that is to run in its place.
#[test]
fn a_pod_that_is_preempted_names_who_takes_its_place() {
    let (said, _) = why(
        "../sessions/S8-node",
        &["s48/low", "--at", "2026-11-21T00:50:23Z"],
    );
    let who = "(preemption): Preempted by pod s48/high (priority 1000) on node node1.";
    assert!(said.contains("KF911") && said.contains(who), "{said}");
}
