//! Marks: what happened at a moment.

use super::{Build, edge};
use crate::flow::Stage;
use crate::model::{Text, event::EventSeen};
use crate::timeline::{Mark, MarkKind};

/// The stage that an Event tells of.
pub(crate) fn stage_of_event(e: &EventSeen) -> Stage {
    match e.reason.as_str() {
        "Scheduled" | "FailedScheduling" | "Preempted" | "BindingConditionsPending" => {
            Stage::Schedule
        }
        "SuccessfulCreate" | "FailedCreate" => Stage::Api,
        "FailedMount"
        | "FailedAttachVolume"
        | "SuccessfulAttachVolume"
        | "FailedMapVolume"
        | "SuccessfulMountVolume"
        | "VolumePermissionChangeInProgress" => Stage::Volumes,
        "FailedCreatePodContainer" => Stage::Cgroup,
        "FailedCreatePodSandBox"
        | "SandboxChanged"
        | "NetworkNotReady"
        | "FailedPodSandBoxStatus" => Stage::Sandbox,
        "Pulling"
        | "Pulled"
        | "ErrImageNeverPull"
        | "InspectFailed"
        | "FailedToRetrieveImagePullSecret" => Stage::Image,
        "BackOff" if e.message.starts_with("Back-off pulling") => Stage::Image,
        "Failed"
            if e.message.contains("pull image")
                || e.message.ends_with("ErrImagePull")
                || e.message.ends_with("ImagePullBackOff")
                || e.message.ends_with("InvalidImageName")
                || e.message.ends_with("ErrImageNeverPull") =>
        {
            Stage::Image
        }
        "Created" => Stage::Create,
        "Failed" => Stage::Create,
        "Started" | "BackOff" | "FailedPostStartHook" => Stage::Start,
        "Unhealthy" | "ProbeWarning" | "ResizeStarted" | "ResizeCompleted" | "ResizeError"
        | "ResizeDeferred" | "ResizeInfeasible" => Stage::Ready,
        "Killing" if !e.message.starts_with("Stopping") => Stage::Ready,
        "Killing"
        | "FailedPreStopHook"
        | "FailedKillPod"
        | "Evicted"
        | "DeadlineExceeded"
        | "ExceededGracePeriod"
        | "TaintManagerEviction"
        | "SuccessfulDelete"
        | "NodeNotReady"
        | "NodeControllerEviction"
        | "Preempting" => Stage::Terminate,
        _ => Stage::Admit,
    }
}

/// Adds the marks.
pub(crate) fn derive(b: &mut Build<'_>) {
    for (o, e) in &b.facts.events {
        b.marks.push(Mark {
            at: edge(o),
            kind: MarkKind::Event,
            stage: stage_of_event(e),
            container: e.container.clone(),
            text: Text::from(format!("{}: {}", e.reason, e.message)),
            bad: e.warning,
            count: e.count.max(1),
            evidence: (*o).clone(),
        });
    }
}
