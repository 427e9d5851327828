//! Failures of pods in lines of logs that name none, as those that have only the id of a container.
//!
//! Where nothing that was read names a pod, they are of one that has a placeholder's name.

use kflow_core::diagnose::signal;
use kflow_core::flow::{self, Fact};
use kflow_model::log::{Component, LogLine};
use kflow_model::{Body, Observation, PodRef};
use kflow_sources::kube::decode::NAMESPACE;

const POD: &str = "POD";
/// More lines are a log, which names its pods elsewhere.
const MOST: usize = 1000;

/// Gives the lines a pod.
pub(super) fn name(observations: &mut [Observation]) {
    if observations.len() > MOST || observations.iter().any(names_pod) {
        return;
    }
    for o in observations {
        if let Body::Log(line) = &mut o.body
            && is_of_pod(line)
        {
            line.pod = PodRef::by_name(NAMESPACE, POD);
        }
    }
}

/// True for all but a line of a log that names no pod.
fn names_pod(o: &Observation) -> bool {
    match &o.body {
        Body::Log(line) => !line.pod.is_empty() || !line.more_pods.is_empty(),
        _ => true,
    }
}

/// True for a failure of which the reason is one of a pod.
fn is_of_pod(line: &LogLine) -> bool {
    let of_node = matches!(
        line.component,
        Component::Apiserver | Component::ControllerManager
    );
    let said = flow::line(line);
    let is_told = match &said {
        Some(said) => said.fact() == Fact::SyncFailed || said.failure().is_some(),
        None => matches!(line.component, Component::Containerd | Component::Crio),
    };
    let reason = signal::of_line(line, said.as_ref()).map(|(reason, ..)| reason);
    let is_reason = |reason: &str| reason.starts_with(|c: char| c.is_ascii_uppercase());
    !of_node && is_told && reason.is_some_and(|r| is_reason(&r))
}
