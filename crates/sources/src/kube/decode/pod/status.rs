//! The fields of a pod's status that kflow reads.

use serde::Deserialize;

use super::super::json::{MESSAGE, N, RawCondition, Time, conditions, cut};
use kflow_model::{
    ContainerId, Text,
    pod::{ContainerState, ContainerStatus, PodStatus, Terminated},
};

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawStatus {
    phase: N<Text>,
    reason: N<Text>,
    message: N<Text>,
    start_time: Time,
    #[serde(rename = "podIP")]
    pod_ip: N<Text>,
    nominated_node_name: N<Text>,
    qos_class: N<Text>,
    observed_generation: N<u64>,
    conditions: N<Vec<RawCondition>>,
    init_container_statuses: N<Vec<RawContainerStatus>>,
    container_statuses: N<Vec<RawContainerStatus>>,
    ephemeral_container_statuses: N<Vec<RawContainerStatus>>,
}

impl RawStatus {
    pub(super) fn into_model(self) -> PodStatus {
        let statuses = |raw: Vec<RawContainerStatus>| {
            raw.into_iter()
                .map(RawContainerStatus::into_model)
                .collect()
        };
        PodStatus {
            phase: self.phase.0.into(),
            reason: self.reason.0,
            message: cut(&self.message.0, MESSAGE),
            start_time: self.start_time.at(),
            pod_ip: self.pod_ip.0,
            nominated_node: self.nominated_node_name.0,
            qos: self.qos_class.0,
            observed_generation: self.observed_generation.0,
            conditions: conditions(self.conditions.0),
            init_containers: statuses(self.init_container_statuses.0),
            containers: statuses(self.container_statuses.0),
            ephemeral_containers: statuses(self.ephemeral_container_statuses.0),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawContainerStatus {
    name: N<Text>,
    #[serde(rename = "containerID")]
    container_id: N<Text>,
    image: N<Text>,
    restart_count: N<u32>,
    ready: N<bool>,
    started: Option<bool>,
    state: N<RawState>,
    last_state: N<RawState>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawState {
    waiting: Option<Waiting>,
    running: Option<Running>,
    terminated: Option<RawTerminated>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Waiting {
    reason: N<Text>,
    message: N<Text>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Running {
    started_at: Time,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawTerminated {
    exit_code: Option<i32>,
    signal: N<i32>,
    reason: N<Text>,
    message: N<Text>,
    started_at: Time,
    finished_at: Time,
    #[serde(rename = "containerID")]
    container_id: N<Text>,
}

impl RawTerminated {
    fn into_model(self) -> Terminated {
        Terminated {
            exit_code: self.exit_code,
            signal: self.signal.0,
            reason: self.reason.0,
            message: cut(&self.message.0, MESSAGE),
            started: self.started_at.at(),
            finished: self.finished_at.at(),
            id: bare(&self.container_id.0),
        }
    }
}

impl RawContainerStatus {
    fn into_model(self) -> ContainerStatus {
        let state = match self.state.0 {
            RawState {
                terminated: Some(t),
                ..
            } => ContainerState::Terminated(t.into_model()),
            RawState {
                running: Some(r), ..
            } => ContainerState::Running {
                started: r.started_at.at(),
            },
            RawState {
                waiting: Some(w), ..
            } => ContainerState::Waiting {
                reason: w.reason.0,
                message: cut(&w.message.0, MESSAGE),
            },
            _ => ContainerState::default(),
        };
        ContainerStatus {
            name: self.name.0,
            id: bare(&self.container_id.0),
            image: self.image.0,
            restarts: self.restart_count.0,
            ready: self.ready.0,
            started: self.started,
            state,
            last: self.last_state.0.terminated.map(RawTerminated::into_model),
        }
    }
}

/// Removes the runtime's scheme from an id: `containerd://<id>`.
fn bare(id: &str) -> ContainerId {
    id.split_once("://").map_or(id, |(_, bare)| bare).into()
}
