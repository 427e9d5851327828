//! Objects as a list shows them: Events with one object for all occurrences, which has the time of the last one; pods
//! long after what happened to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::diagnose;
use kflow_model::pod::{PodPhase, WatchEvent};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Source, Stamp};

use super::{session, world};

/// The newest state of each Event of the recording, as a list at its end shows it.
fn listed(all: &[Evidence]) -> Vec<Evidence> {
    let mut newest: BTreeMap<String, Evidence> = BTreeMap::new();
    for o in all {
        if let Body::Event(e) = &o.body
            && !e.name.is_empty()
        {
            let mut o = (**o).clone();
            if let Body::Event(e) = &mut o.body {
                e.listed = true;
            }
            newest.insert(e.name.to_string(), Arc::new(o));
        }
    }
    newest.into_values().collect()
}

/// The steps of a pod's timeline, with their begins.
fn steps(world: &World, name: &str) -> Vec<String> {
    let pod = world.pods().iter().find(|p| p.name == name).unwrap();
    let steps = pod.timeline.steps();
    steps
        .filter(|s| s.step.contains("Image"))
        .map(|s| format!("{} {:?}", s.step, s.start.at))
        .collect()
}

#[test]
fn events_of_a_list_leave_the_attempts_that_the_log_tells() {
    let all = session("S2-stuck-early");
    let log: Vec<&Evidence> = all.iter().filter(|o| o.source == Source::Kubelet).collect();
    let list = listed(&all);
    let alone = steps(&world(log.iter().copied()), "image-missing");
    assert!(alone.len() >= 8, "{alone:?}");
    let with_list = steps(&world(log.iter().copied().chain(&list)), "image-missing");
    assert_eq!(alone, with_list);
}

/// What a list shows began when the object says, not when the list was read.
#[test]
fn a_pod_that_was_rejected_long_before_its_list_was_read_says_so() {
    let all = session("S2-stuck-early");
    let rejected = |o: &&Evidence| match &o.body {
        Body::Pod(p) => {
            p.name == "admit-affinity" && p.status.phase == PodPhase::Failed && p.deletion.is_none()
        }
        _ => false,
    };
    let state = all.iter().find(rejected);
    let mut o = (**state.unwrap()).clone();
    let Body::Pod(p) = &mut o.body else { panic!() };
    p.event = WatchEvent::Listed;
    let began = p.status.start_time.unwrap();
    let read = began.plus(136 * SECOND);
    o.stamp = Stamp::new(read.plus(-SECOND), SECOND as u32, read);
    let world = world(&[Arc::new(o)]);
    let verdict = diagnose::why(&world, &world.pods()[0], read).unwrap();
    assert_eq!(verdict.since.since(began), 0, "{verdict:?}");
}
