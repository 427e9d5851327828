//! Pods of which nothing is known but what lists show: the Events of one that is stuck for more than an hour have expired.

use super::{SESSIONS, session, world};
use kflow_core::flow::Stage;
use kflow_core::sequence::Diagram;
use kflow_model::Body;
use kflow_model::pod::{ContainerState, PodSeen};

/// The reasons that name the stage, and the stages that a container may be in by them.
const REASONS: [(&str, &[Stage]); 6] = [
    ("ErrImagePull", &[Stage::Image]),
    ("ImagePullBackOff", &[Stage::Image]),
    ("InvalidImageName", &[Stage::Image]),
    ("CreateContainerConfigError", &[Stage::Create]),
    // Runtimes make the process in different calls.
    ("CreateContainerError", &[Stage::Create, Stage::Start]),
    ("RunContainerError", &[Stage::Start]),
];

fn waits(p: &PodSeen) -> Option<(&'static [Stage], &str)> {
    let mut statuses = p.statuses();
    let known = statuses.find_map(|s| {
        let ContainerState::Waiting { reason, .. } = &s.state else {
            return None;
        };
        let known = REASONS.iter().find(|(r, _)| reason == r);
        known.map(|(_, stages)| (*stages, reason.as_str()))
    });
    known.filter(|_| p.deletion.is_none())
}

/// Every moment at which a recorded pod waited for one of these reasons is looked at as one list that shows nothing else.
#[test]
fn the_reason_of_a_container_is_the_stage_of_its_pod() {
    let mut looked = std::collections::BTreeMap::new();
    for name in SESSIONS {
        for o in &session(name) {
            let Body::Pod(p) = &o.body else { continue };
            let Some((stages, reason)) = waits(p) else {
                continue;
            };
            let w = world([o]);
            let pod = w.pod(&p.uid).expect("the pod");
            let (stage, _) = pod.current.expect("a stage");
            assert!(
                stages.contains(&stage),
                "{name}: {} waits in {} by {reason}",
                p.name,
                stage.name()
            );
            let step = pod.timeline.steps().find(|s| s.is_by_status());
            let step = step.expect("a step that its status tells of");
            assert_eq!((step.stage, step.end), (stage, None), "{name}: {}", p.name);
            let drawn = Diagram::of(pod, &w, false);
            let wait = format!("waits in {}: {}", stage.name(), step.step);
            assert!(
                drawn.messages.iter().any(|m| m.text.starts_with(&wait)),
                "{name}: {wait} is not in {drawn:?}"
            );
            *looked.entry(reason.to_owned()).or_insert(0) += 1;
        }
    }
    let seen: Vec<&str> = looked.keys().map(String::as_str).collect();
    let mut wanted: Vec<&str> = REASONS.iter().map(|(r, _)| *r).collect();
    wanted.sort_unstable();
    assert_eq!(seen, wanted, "{looked:?}");
}
