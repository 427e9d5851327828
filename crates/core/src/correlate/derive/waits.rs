//! What a container waits for by its status alone: the Events of a pod that is stuck for more than an hour have expired, and
//! a table of pods has none.

use rustc_hash::FxHashSet;

use super::Build;
use super::span::edge;
use crate::flow::{Stage, container_error_stage};
use crate::timeline::{Certainty, Outcome, Span};
use kflow_model::cri::method;
use kflow_model::pod::{ContainerState, ContainerStatus, PodSeen};
use kflow_model::{Evidence, Text};

/// Adds an open step for each container that waits by the pod's newest status, unless another source shows that wait. The
/// step begins with the first status that has shown the wait ever since: when the wait itself began, no status says.
pub(crate) fn derive(b: &mut Build<'_>) {
    let f = b.seen;
    let Some((_, newest)) = f.states.last() else {
        return;
    };
    if newest.status.phase.is_over() {
        return;
    }
    let shown: FxHashSet<(Stage, Text)> = b
        .spans()
        .iter()
        .filter(|s| s.outcome != Outcome::Ok && !s.is_run())
        .map(|s| (s.stage, s.container.clone()))
        .collect();
    for c in newest.statuses() {
        let Some((stage, step)) = step_of(c) else {
            continue;
        };
        // A pull may be known without its container.
        let is_shown = |container: &Text| shown.contains(&(stage, container.clone()));
        if is_shown(&c.name) || is_shown(&Text::default()) {
            continue;
        }
        let waits = |p: &PodSeen| {
            let status = p.statuses().find(|s| s.name == c.name);
            status.and_then(step_of).is_some_and(|(s, _)| s == stage)
        };
        let since = f.states.iter().rev().take_while(|(_, p)| waits(p)).last();
        let (Some((o, _)), ContainerState::Waiting { reason, message }) = (since, &c.state) else {
            continue;
        };
        let evidence: Vec<Evidence> = vec![(*o).clone()];
        let mut s = Span::new(stage, step, edge(o), None, Certainty::Bounded, evidence);
        s.container.clone_from(&c.name);
        s.attempt = c.restarts;
        if reason != step {
            s.code.clone_from(reason);
        }
        s.message.clone_from(message);
        b.add(s);
    }
}

/// Stage and step of the reason by which a container waits; `None` for one that waits for no step of its own, or that is not the
/// kubelet's (1.36: pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/container/sync_result.go).
fn step_of(c: &ContainerStatus) -> Option<(Stage, &'static str)> {
    let ContainerState::Waiting { reason, message } = &c.state else {
        return None;
    };
    Some(match reason.as_str() {
        "ImagePullBackOff" => (Stage::Image, "ImagePullBackOff"),
        "ErrImagePull"
        | "ErrImageNeverPull"
        | "ImageInspectError"
        | "InvalidImageName"
        | "RegistryUnavailable"
        | "SignatureValidationFailed" => (Stage::Image, "EnsureImageExists"),
        "CreateContainerConfigError" => (Stage::Create, "generateContainerConfig"),
        "CreateContainerError" => (
            container_error_stage(reason, message),
            method::CREATE_CONTAINER,
        ),
        "PreCreateHookError" => (Stage::Create, "startContainer"),
        "RunContainerError" => (Stage::Start, method::START_CONTAINER),
        "PreStartHookError" => (Stage::Start, "startContainer"),
        "PostStartHookError" => (Stage::Start, "PostStartHook"),
        "CrashLoopBackOff" => (Stage::Start, "CrashLoopBackOff"),
        _ => return None,
    })
}
