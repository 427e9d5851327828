//! What a container waits for, where only its status in the API tells it: Events expire after an hour, and a table of pods
//! has none.

use rustc_hash::FxHashSet;

use super::Build;
use super::cri;
use super::span::edge;
use crate::flow::{Stage, container_error_stage};
use crate::timeline::{Certainty, Edge, Outcome, Span};
use kflow_model::pod::{ContainerState, ContainerStatus, PodSeen, WatchEvent};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Text};

/// Adds an open step for each container that waits by the pod's newest status, unless another source shows that wait. No
/// status says when a wait began: the step begins with the oldest status from which on all show the wait, or, where that is of a list and
/// may be much older than its reading, with the end of the container's last run.
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
        let evidence = vec![(*o).clone()];
        let begin = ended_before(o, &c.name).unwrap_or_else(|| edge(o));
        let mut s = Span::new(stage, step, begin, None, Certainty::Bounded, evidence);
        s.container.clone_from(&c.name);
        s.attempt = c.restarts;
        if reason != step {
            s.code.clone_from(reason);
        }
        s.message.clone_from(message);
        b.add(s);
    }
}

/// Returns when the container of a pod that a list shows ended last, by its status (1 s): it has waited since then at most.
fn ended_before(o: &Evidence, container: &Text) -> Option<Edge> {
    let Body::Pod(p) = &o.body else { return None };
    let listed = p.event == WatchEvent::Listed;
    let status = p.statuses().find(|s| listed && s.name == *container)?;
    let at = status.last.as_ref()?.finished.filter(|at| at.0 > 0)?;
    (at < o.stamp.at).then_some(Edge {
        at,
        precision: SECOND as u32,
    })
}

/// Returns stage and step of the reason for which a container waits; `None` for one that waits for its turn, and for a reason that
/// is not the kubelet's (1.36: pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime/kuberuntime_container.go).
fn step_of(c: &ContainerStatus) -> Option<(Stage, &'static str)> {
    let ContainerState::Waiting { reason, message } = &c.state else {
        return None;
    };
    let reason = reason.as_str();
    Some(match reason {
        "ImagePullBackOff" => (Stage::Image, "ImagePullBackOff"),
        "ErrImagePull"
        | "ErrImageNeverPull"
        | "ImageInspectError"
        | "InvalidImageName"
        | "RegistryUnavailable"
        | "SignatureValidationFailed" => (Stage::Image, "EnsureImageExists"),
        "CreateContainerConfigError"
        | "CreateContainerError"
        | "PreCreateHookError"
        | "RunContainerError" => (container_error_stage(reason, message), cri::step_of(reason)),
        "PreStartHookError" => (Stage::Start, cri::step_of(reason)),
        "PostStartHookError" => (Stage::Start, "PostStartHook"),
        "CrashLoopBackOff" => (Stage::Start, "CrashLoopBackOff"),
        _ => return None,
    })
}
