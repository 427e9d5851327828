//! The columns STATUS, READY and RESTARTS of `kubectl get pods`.

use kflow_model::pod::Condition;
use kflow_model::{
    Text,
    pod::{ContainerState, PodSeen, Terminated},
};

/// The columns that `kubectl get pods` prints for a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) status: Text,
    /// READY: number of ready containers, and of all.
    pub(crate) ready: (u32, u32),
    pub(crate) restarts: u32,
}

fn ended(t: &Terminated) -> Text {
    if !t.reason.is_empty() {
        t.reason.clone()
    } else if t.signal != 0 {
        format!("Signal:{}", t.signal).into()
    } else if let Some(code) = t.exit_code {
        format!("ExitCode:{code}").into()
    } else {
        "Terminated".into()
    }
}

/// Ports `printPod` of `pkg/printers/internalversion/printers.go` (1.36), which the apiserver runs for kubectl's table.
pub(crate) fn print_pod(pod: &PodSeen) -> Printed {
    let s = &pod.status;
    let sidecar = |name: &str| {
        pod.spec
            .init_containers
            .iter()
            .any(|c| c.name == name && c.sidecar)
    };
    let is_true = |kind: &str| pod.condition(kind).is_some_and(Condition::is_true);
    let mut reason = if s.reason.is_empty() {
        s.phase.clone().into()
    } else {
        s.reason.clone()
    };
    if pod
        .condition("PodScheduled")
        .is_some_and(|c| c.reason == "SchedulingGated")
    {
        reason = "SchedulingGated".into();
    }
    let sidecars = pod
        .spec
        .init_containers
        .iter()
        .filter(|c| c.sidecar)
        .count();
    let total = pod.spec.containers.len() + sidecars;
    let (mut ready, mut restarts, mut sidecar_restarts) = (0, 0, 0);
    let mut initializing = false;
    for (i, c) in s.init_containers.iter().enumerate() {
        restarts += c.restarts;
        let restartable = sidecar(&c.name);
        if restartable {
            sidecar_restarts += c.restarts;
        }
        match &c.state {
            ContainerState::Terminated(t) if t.exit_code == Some(0) => continue,
            _ if restartable && c.started == Some(true) => {
                ready += u32::from(c.ready);
                continue;
            }
            ContainerState::Terminated(t) => reason = format!("Init:{}", ended(t)).into(),
            ContainerState::Waiting { reason: why, .. }
                if !why.is_empty() && why != "PodInitializing" =>
            {
                reason = format!("Init:{why}").into();
            }
            _ => reason = format!("Init:{i}/{}", pod.spec.init_containers.len()).into(),
        }
        initializing = true;
        break;
    }
    if !initializing || is_true("Initialized") {
        restarts = sidecar_restarts;
        let mut running = false;
        for c in s.containers.iter().rev() {
            restarts += c.restarts;
            match &c.state {
                ContainerState::Waiting { reason: why, .. } if !why.is_empty() => {
                    reason.clone_from(why);
                }
                ContainerState::Terminated(t) => reason = ended(t),
                ContainerState::Running { .. } if c.ready => {
                    running = true;
                    ready += 1;
                }
                _ => {}
            }
        }
        if reason == "Completed" && running {
            reason = if is_true("Ready") {
                "Running".into()
            } else {
                "NotReady".into()
            };
        }
    }
    if pod.deletion.is_some() {
        if s.reason == "NodeLost" {
            reason = "Unknown".into();
        } else if !s.phase.is_over() {
            reason = "Terminating".into();
        }
    }
    Printed {
        status: reason,
        ready: (ready, u32::try_from(total).unwrap_or(u32::MAX)),
        restarts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::Nanos;
    use kflow_model::pod::{Condition, ContainerSpec, ContainerStatus};

    fn waiting(reason: &str) -> ContainerState {
        ContainerState::Waiting {
            reason: reason.into(),
            message: Text::default(),
        }
    }
    fn exited(exit_code: i32, reason: &str) -> ContainerState {
        ContainerState::Terminated(Terminated {
            exit_code: Some(exit_code),
            reason: reason.into(),
            ..Terminated::default()
        })
    }
    fn running() -> ContainerState {
        ContainerState::Running { started: None }
    }
    fn pod(phase: &str, init: &[ContainerState], main: &[(ContainerState, bool)]) -> PodSeen {
        let mut p = PodSeen::default();
        p.status.phase = phase.into();
        for (i, state) in init.iter().enumerate() {
            let name: Text = format!("i{i}").into();
            p.spec.init_containers.push(ContainerSpec {
                name: name.clone(),
                ..ContainerSpec::default()
            });
            p.status.init_containers.push(ContainerStatus {
                name,
                state: state.clone(),
                ..ContainerStatus::default()
            });
        }
        for (i, (state, ready)) in main.iter().enumerate() {
            let name: Text = format!("c{i}").into();
            p.spec.containers.push(ContainerSpec {
                name: name.clone(),
                ..ContainerSpec::default()
            });
            p.status.containers.push(ContainerStatus {
                name,
                state: state.clone(),
                ready: *ready,
                restarts: 2,
                ..ContainerStatus::default()
            });
        }
        p
    }
    fn with(mut p: PodSeen, kind: &str, status: &str, reason: &str) -> PodSeen {
        p.status.conditions.push(Condition {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            ..Condition::default()
        });
        p
    }
    fn deleting(mut p: PodSeen) -> PodSeen {
        p.deletion = Some(Nanos(1));
        p
    }

    #[test]
    fn a_pod_reads_as_kubectl_prints_it() {
        let init = || vec![running(), waiting("PodInitializing")];
        let cases: Vec<(&str, PodSeen)> = vec![
            ("Pending", pod("Pending", &[], &[])),
            (
                "SchedulingGated",
                with(
                    pod("Pending", &[], &[]),
                    "PodScheduled",
                    "False",
                    "SchedulingGated",
                ),
            ),
            (
                "ContainerCreating",
                pod("Pending", &[], &[(waiting("ContainerCreating"), false)]),
            ),
            (
                "Init:0/2",
                pod("Pending", &init(), &[(waiting("PodInitializing"), false)]),
            ),
            (
                "Init:1/2",
                pod(
                    "Pending",
                    &[exited(0, "Completed"), running()],
                    &[(waiting("PodInitializing"), false)],
                ),
            ),
            (
                "Init:CrashLoopBackOff",
                pod(
                    "Pending",
                    &[waiting("CrashLoopBackOff")],
                    &[(waiting("PodInitializing"), false)],
                ),
            ),
            ("Init:Error", pod("Pending", &[exited(2, "Error")], &[])),
            ("Init:ExitCode:3", pod("Pending", &[exited(3, "")], &[])),
            (
                "PodInitializing",
                pod(
                    "Pending",
                    &[exited(0, "Completed")],
                    &[(waiting("PodInitializing"), false)],
                ),
            ),
            ("Running", pod("Running", &[], &[(running(), true)])),
            (
                "CrashLoopBackOff",
                pod("Running", &[], &[(waiting("CrashLoopBackOff"), false)]),
            ),
            ("Error", pod("Running", &[], &[(exited(1, "Error"), false)])),
            ("ExitCode:9", pod("Failed", &[], &[(exited(9, ""), false)])),
            (
                "Completed",
                pod("Succeeded", &[], &[(exited(0, "Completed"), false)]),
            ),
            (
                "NotReady",
                pod(
                    "Running",
                    &[],
                    &[(exited(0, "Completed"), false), (running(), true)],
                ),
            ),
            (
                "Running",
                with(
                    pod(
                        "Running",
                        &[],
                        &[(exited(0, "Completed"), false), (running(), true)],
                    ),
                    "Ready",
                    "True",
                    "",
                ),
            ),
            (
                "Terminating",
                deleting(pod("Running", &[], &[(running(), true)])),
            ),
            (
                "Error",
                deleting(pod("Failed", &[], &[(exited(137, "Error"), false)])),
            ),
        ];
        for (want, p) in cases {
            assert_eq!(print_pod(&p).status, want, "{:?}", p.status);
        }
    }

    #[test]
    fn the_reason_of_a_rejected_pod_is_its_status_and_a_lost_node_makes_it_unknown() {
        let mut p = pod("Failed", &[], &[]);
        p.status.reason = "OutOfcpu".into();
        assert_eq!(print_pod(&p).status, "OutOfcpu");
        let mut p = deleting(pod("Running", &[], &[(running(), true)]));
        p.status.reason = "NodeLost".into();
        assert_eq!(print_pod(&p).status, "Unknown");
    }

    #[test]
    fn sidecars_count_as_containers_and_init_restarts_count_only_while_initializing() {
        let mut p = pod(
            "Running",
            &[running(), exited(0, "Completed")],
            &[(running(), true)],
        );
        if let (Some(spec), Some(status)) = (
            p.spec.init_containers.first_mut(),
            p.status.init_containers.first_mut(),
        ) {
            spec.sidecar = true;
            status.started = Some(true);
            status.ready = true;
            status.restarts = 5;
        }
        let printed = print_pod(&p);
        assert_eq!((printed.ready, printed.restarts), ((2, 2), 7));
    }
}
