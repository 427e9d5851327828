//! What the one word in the column STATUS says.

use serde_json::{Value, json};

use super::fraction;

/// What a status says.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) phase: &'static str,
    pub(super) is_deleted: bool,
    /// True for a deleted pod whose node does not report: kubectl prints its reason `NodeLost`, since 1.5 as `Unknown`.
    pub(super) is_lost: bool,
    /// State of the init container that the pod waits for.
    pub(super) init: Option<Value>,
    /// State of a container.
    pub(super) container: Option<Value>,
    /// True if the pod has it for its own reason, or it says no more than that.
    pub(super) of_pod: bool,
}

/// Reasons of containers that have ended, with the exit code that each stands for (1.36: pkg/kubelet/kubelet_pods.go,
/// pkg/kubelet/kuberuntime; `StartError` is containerd's).
const ENDED: [(&str, i32); 4] = [
    ("Completed", 0),
    ("OOMKilled", 137),
    ("StartError", 128),
    ("ContainerStatusUnknown", 137),
];

/// Returns the exit code that the reason of a container's end stands for.
pub(in super::super) fn exit_code(reason: &str) -> Option<i32> {
    let known = ENDED.iter().find(|(r, _)| *r == reason);
    known.map(|(_, code)| *code)
}

/// Reasons of containers that have ended with any code but 0; the second is Docker's, of a container that did not start.
const FAILED: [&str; 2] = ["Error", "ContainerCannotRun"];

/// Reasons by which containers wait (1.36: pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime/kuberuntime_container.go,
/// staging/src/k8s.io/cri-api/pkg/errors).
pub(in super::super) const WAITS: [&str; 17] = [
    "ContainerCreating",
    "PodInitializing",
    "ImagePullBackOff",
    "CrashLoopBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "ImageInspectError",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
    "CreateContainerConfigError",
    "CreateContainerError",
    "PreCreateHookError",
    "PreStartHookError",
    "RunContainerError",
    "PostStartHookError",
    "RestartingAllContainers",
];

/// The kubelet starts a container again at once when it has ended for the first time. In a pod that is older, s, one that has ended and
/// was never started again is not started again.
const SETTLED: i64 = 60;

impl Told {
    /// The same where the row also tells the age of the pod, and how many of its containers are ready.
    pub(super) fn of_row(row: &super::Row, is_ready: bool) -> Self {
        let mut told = Self::of(&row.status, row.restarts, is_ready);
        let ended = |state: &Value| state.get("terminated").is_some();
        let is_old = row.age.is_some_and(|age| age.seconds >= SETTLED);
        let none_runs = row.ready.0 == 0 && row.restarts == 0;
        if is_old
            && none_runs
            && told.phase == "Running"
            && told.container.as_ref().is_some_and(ended)
        {
            told.phase = "Failed";
        }
        told
    }

    /// `is_ready`: all containers are.
    pub(super) fn of(status: &str, restarts: i32, is_ready: bool) -> Self {
        let phase = |phase| Self {
            phase,
            ..Self::default()
        };
        match status {
            "Pending" | "SchedulingGated" => phase("Pending"),
            "Succeeded" => phase("Succeeded"),
            "Failed" => phase("Failed"),
            "Running" => Self {
                container: Some(json!({"running": {}})),
                ..phase("Running")
            },
            "NotReady" => Self {
                of_pod: true,
                ..phase("Running")
            },
            "Completed" => Self {
                container: state(status),
                ..phase("Succeeded")
            },
            "Terminating" => Self {
                is_deleted: true,
                ..phase("Running")
            },
            "NodeLost" => Self {
                is_lost: true,
                ..phase("Unknown")
            },
            // What the kubelet of a lost node last reported stays: its containers may be ready. Otherwise this is as well the reason
            // with which containerd ends a container whose end it has not seen, as by a restart of the node
            // (internal/cri/server/restart.go, `unknownExitReason`): which of the two is not told.
            "Unknown" => Self {
                is_lost: is_ready,
                ..phase("Unknown")
            },
            _ => match status.strip_prefix("Init:") {
                Some(of_init) => {
                    let running = fraction(of_init).map(|_| json!({"running": {}}));
                    let init = running.or_else(|| state(of_init));
                    Self {
                        of_pod: init.is_none(),
                        init,
                        ..phase("Pending")
                    }
                }
                None => match state(status) {
                    // A container that has ended leaves the phase Running (pkg/kubelet/kubelet_pods.go, `getPhase`).
                    Some(state) => Self {
                        phase: match state.get("terminated") {
                            None if restarts == 0 => "Pending",
                            _ => "Running",
                        },
                        container: Some(state),
                        ..Self::default()
                    },
                    // A pod's own reason stands with the phase Failed alone.
                    None if is_of_pod(status) => Self {
                        of_pod: true,
                        ..phase("Failed")
                    },
                    None if is_ready => Self {
                        container: Some(json!({"running": {}})),
                        ..phase("Running")
                    },
                    // A word of a runtime or of another kubelet, for which a container waits.
                    None => Self {
                        container: Some(json!({"waiting": {"reason": status}})),
                        ..phase("Pending")
                    },
                },
            },
        }
    }
}

/// The state of a container of this reason; `None` where it is none of a container.
fn state(reason: &str) -> Option<Value> {
    if WAITS.contains(&reason) {
        return Some(json!({"waiting": {"reason": reason}}));
    }
    if let Some(code) = exit_code(reason) {
        return Some(json!({"terminated": {"reason": reason, "exitCode": code}}));
    }
    if FAILED.contains(&reason) {
        return Some(json!({"terminated": {"reason": reason}}));
    }
    // A container that ended without a reason: `ExitCode:1`, `Signal:9`.
    let (word, number) = reason.split_once(':')?;
    let number: i32 = number.parse().ok()?;
    match word {
        "ExitCode" => Some(json!({"terminated": {"exitCode": number}})),
        "Signal" => {
            Some(json!({"terminated": {"exitCode": number.saturating_add(128), "signal": number}}))
        }
        _ => None,
    }
}

/// True for the reason of a pod that has failed itself, and of none of its containers.
fn is_of_pod(word: &str) -> bool {
    /// 1.36: pkg/kubelet/eviction/helpers.go, pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/lifecycle/handlers.go,
    /// pkg/kubelet/cm/topologymanager, pkg/kubelet/cm/cpumanager/policy_static.go, pkg/kubelet/preemption,
    /// pkg/kubelet/active_deadline.go, pkg/kubelet/nodeshutdown, pkg/scheduler/framework/plugins/names; `MatchNodeSelector`,
    /// `HostPort`, `HostName`, `Terminated`, `Shutdown` of old releases.
    const REASONS: [&str; 26] = [
        "Evicted",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeUnschedulable",
        "TaintToleration",
        "MatchNodeSelector",
        "HostPort",
        "HostName",
        "NodeShutdown",
        "Terminated",
        "Shutdown",
        "Preempting",
        "DeadlineExceeded",
        "UnexpectedAdmissionError",
        "TopologyAffinityError",
        "SMTAlignmentError",
        "AppArmor",
        "InvalidNodeInfo",
        "UnexpectedPredicateFailureType",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodOSNotSupported",
        "PodFeatureUnsupported",
        "PodLevelResourcesNotSupported",
        "InitContainerRestartPolicyForbidden",
        "VolumeAttachmentLimitExceeded",
    ];
    word.starts_with("OutOf") || REASONS.contains(&word)
}

/// True for what stands as the status of a pod and of little else.
pub(super) fn is_status(word: &str) -> bool {
    const PHASES: [&str; 9] = [
        "Pending",
        "Running",
        "NotReady",
        "Succeeded",
        "Failed",
        "Unknown",
        "Terminating",
        "SchedulingGated",
        "NodeLost",
    ];
    word.starts_with("Init:") || PHASES.contains(&word) || is_of_pod(word) || state(word).is_some()
}
