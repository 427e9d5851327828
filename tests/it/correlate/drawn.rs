//! Spans that a timeline must not have: each was found by hand in a recording.

use std::sync::Arc;

use kflow_core::flow::Stage;
use kflow_core::timeline::Span;
use kflow_model::cri::{CallKey, Inventory, InventoryItem, RuntimeState, Subject};
use kflow_model::{Body, Evidence, Observation, Source};

use super::{SESSIONS, session, world};

const BACK_OFF: &str = "CrashLoopBackOff";

/// An entry of the runtime's container list: an init container that ended just before `c` was created
/// in the same sandbox.
fn init_container(observations: &[Evidence]) -> Evidence {
    let (o, created) = observations
        .iter()
        .find_map(|o| match &o.body {
            Body::CallStart(c) if c.method == "CreateContainer" && c.subject.container == "c" => {
                Some((o, c))
            }
            _ => None,
        })
        .expect("the creation of c");
    Arc::new(Observation {
        stamp: o.stamp,
        source: Source::Cri,
        body: Body::Inventory(Box::new(Inventory {
            key: CallKey {
                stream: 1_000_001,
                ..created.key
            },
            complete: false,
            sandboxes: false,
            items: vec![InventoryItem {
                subject: Subject {
                    container: "i".into(),
                    container_id: "1111111111111111".into(),
                    attempt: Some(0),
                    ..created.subject.clone()
                },
                state: RuntimeState::Exited,
                created: o.stamp.at.plus(-2_000_000_000),
                started: o.stamp.at.plus(-1_900_000_000),
                finished: o.stamp.at.plus(-100_000_000),
                exit_code: Some(0),
                reason: "Completed".into(),
                ips: Vec::new(),
            }],
        })),
    })
}

#[test]
fn the_back_off_of_a_container_is_not_that_of_another_whose_name_is_part_of_its_line() {
    let observations = session("S3-crashes");
    let whole = world(&observations);
    let crash = whole.find("s11/crash")[0];
    // With tap and log alone only the kubelet's line tells of the back-off.
    let own: Vec<Evidence> = crash
        .evidence
        .iter()
        .filter(|o| matches!(o.source, Source::Cri | Source::Kubelet))
        .filter(|o| !matches!(o.body, Body::Event(_)))
        .cloned()
        .collect();
    let init = init_container(&own);
    let w = world(own.iter().chain([&init]));
    let spans = &w.find("s11/crash")[0].timeline.spans;
    let of = |container: &str| -> Vec<&Span> {
        let mut all: Vec<&Span> = spans.iter().filter(|s| s.container == container).collect();
        all.retain(|s| s.is_run() || s.step == BACK_OFF);
        all
    };
    assert_eq!(
        of("i").len(),
        1,
        "it ran, and waits for nothing: {:#?}",
        of("i")
    );
    assert!(of("c").iter().any(|s| s.step == BACK_OFF), "{:#?}", of("c"));
}

#[test]
fn a_container_waits_once_after_each_attempt() {
    let mut waits = 0;
    for name in SESSIONS {
        for p in world(&session(name)).pods() {
            let mut seen = std::collections::BTreeSet::new();
            for s in p.timeline.spans.iter().filter(|s| s.step == BACK_OFF) {
                waits += 1;
                let new = seen.insert((s.container.clone(), s.attempt));
                assert!(new, "{name} {} {} #{}", p.key(), s.container, s.attempt);
            }
        }
    }
    assert!(waits > 20, "{waits}");
}

#[test]
fn nobody_schedules_a_static_pod_whoever_tells_of_it() {
    let mut seen = 0;
    for name in SESSIONS {
        let observations = session(name);
        for sources in [
            &Source::ALL[..],
            &[Source::Kube],
            &[Source::Audit],
            &[Source::Kube, Source::Cri],
            &[Source::Kubelet],
        ] {
            let w = world(observations.iter().filter(|o| sources.contains(&o.source)));
            for p in w.pods().iter().filter(|p| p.uid.as_str().len() == 32) {
                seen += 1;
                assert!(
                    p.timeline.stage(Stage::Schedule).is_none(),
                    "{name} {sources:?} {}",
                    p.key()
                );
                assert_eq!(
                    p.stage(Stage::Schedule),
                    kflow_core::correlate::StageState::NotReached
                );
            }
        }
    }
    assert!(seen > 3, "{seen}");
}
