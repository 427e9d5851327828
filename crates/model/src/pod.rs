//! A pod as the API shows it, reduced to what kflow uses. Environment values, commands and arguments are never read.

use serde::{Deserialize, Serialize};

use super::{ContainerId, Nanos, ObjectRef, PodUid, Text};

/// How the state of an object reached kflow: the type of the watch event, or a list.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum WatchEvent {
    /// The object came with a list: it exists, but the list does not say since when.
    #[default]
    Listed,
    /// ADDED: the object was created, or came into the watch's scope.
    Added,
    /// MODIFIED: the object has a new state.
    Modified,
    /// DELETED: the object's last state.
    Deleted,
}

/// One state of a pod. The stamp's `at` is the arrival of the watch event or list, so it is an upper bound of the time
/// of the change: the change happened between the arrival of the previous state and that of this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodSeen {
    /// How the state reached kflow.
    #[serde(rename = "ev")]
    pub event: WatchEvent,
    /// `metadata.uid`.
    #[serde(rename = "u")]
    pub uid: PodUid,
    /// `metadata.namespace`.
    #[serde(rename = "ns")]
    pub namespace: Text,
    #[serde(rename = "n")]
    pub name: Text,
    /// `metadata.resourceVersion` as a number (0 when it is not one). It orders the states of the
    /// objects of one cluster.
    #[serde(rename = "rv")]
    pub resource_version: u64,
    /// `metadata.generation`.
    #[serde(rename = "gen", skip_serializing_if = "is_default")]
    pub generation: u64,
    /// `metadata.creationTimestamp` (1 s).
    #[serde(rename = "ct")]
    pub created: Nanos,
    /// `metadata.deletionTimestamp` (1 s): the time of the request plus the grace period, so usually in the future.
    #[serde(rename = "dt", skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Nanos>,
    /// `metadata.deletionGracePeriodSeconds`.
    #[serde(rename = "dg", skip_serializing_if = "Option::is_none")]
    pub deletion_grace_s: Option<i64>,
    /// `metadata.finalizers`.
    #[serde(rename = "fin", skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<Text>,
    /// Labels, sorted.
    #[serde(rename = "lb", skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(Text, Text)>,
    /// The owner that is the pod's controller, `None` when there is none.
    #[serde(rename = "ow", skip_serializing_if = "Option::is_none")]
    pub owner: Option<ObjectRef>,
    /// `kubernetes.io/config.mirror`. Of a mirror pod, the static pod's UID; of the static pod itself, as the kubelet
    /// reports it, its own UID.
    #[serde(rename = "mir", skip_serializing_if = "Option::is_none")]
    pub mirror_of: Option<PodUid>,
    #[serde(rename = "sp")]
    pub spec: PodSpec,
    #[serde(rename = "st")]
    pub status: PodStatus,
}

fn is_default<T: Default + PartialEq>(v: &T) -> bool {
    *v == T::default()
}

/// The parts of a pod's spec that decide where and how it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodSpec {
    /// `nodeName`, empty while the pod is not bound.
    #[serde(rename = "node", skip_serializing_if = "Text::is_empty")]
    pub node: Text,
    /// `schedulerName`, empty for the default scheduler.
    #[serde(rename = "sched", skip_serializing_if = "Text::is_empty")]
    pub scheduler: Text,
    /// `restartPolicy`: `Always`, `OnFailure`, `Never`.
    #[serde(rename = "rp", skip_serializing_if = "Text::is_empty")]
    pub restart_policy: Text,
    /// `priorityClassName`.
    #[serde(rename = "pc", skip_serializing_if = "Text::is_empty")]
    pub priority_class: Text,
    #[serde(rename = "prio", skip_serializing_if = "is_default")]
    pub priority: i32,
    /// `runtimeClassName`.
    #[serde(rename = "rc", skip_serializing_if = "Text::is_empty")]
    pub runtime_class: Text,
    /// `serviceAccountName`.
    #[serde(rename = "sa", skip_serializing_if = "Text::is_empty")]
    pub service_account: Text,
    #[serde(rename = "hn", skip_serializing_if = "is_default")]
    pub host_network: bool,
    /// `terminationGracePeriodSeconds`.
    #[serde(rename = "tg", skip_serializing_if = "Option::is_none")]
    pub termination_grace_s: Option<i64>,
    /// `activeDeadlineSeconds`.
    #[serde(rename = "ad", skip_serializing_if = "Option::is_none")]
    pub active_deadline_s: Option<i64>,
    /// `nodeSelector`, sorted.
    #[serde(rename = "sel", skip_serializing_if = "Vec::is_empty")]
    pub node_selector: Vec<(Text, Text)>,
    /// `affinity` as compact JSON, empty when none; cut at 2 KiB.
    #[serde(rename = "aff", skip_serializing_if = "Text::is_empty")]
    pub affinity: Text,
    /// `topologySpreadConstraints` as compact JSON, empty when none; cut at 2 KiB.
    #[serde(rename = "tsc", skip_serializing_if = "Text::is_empty")]
    pub topology_spread: Text,
    /// Tolerations other than the two defaults that admission adds.
    #[serde(rename = "tol", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Names of `schedulingGates`.
    #[serde(rename = "sg", skip_serializing_if = "Vec::is_empty")]
    pub scheduling_gates: Vec<Text>,
    /// Group of pods that are only scheduled together: `schedulingGroup.podGroupName` (1.36), or the workload and its
    /// group in `workloadRef` (1.35); else Volcano's, by the annotation `scheduling.k8s.io/group-name`.
    #[serde(rename = "pg", skip_serializing_if = "Text::is_empty")]
    pub pod_group: Text,
    /// What the `resourceClaims` refer to: the name of a ResourceClaim, or `template/` and the name of a template.
    #[serde(rename = "rcl", skip_serializing_if = "Vec::is_empty")]
    pub resource_claims: Vec<Text>,
    /// Requests of the pod as a whole (`spec.resources`), sorted. Where they name a resource, its containers' requests
    /// of that resource do not count.
    #[serde(rename = "rq", skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<(Text, Text)>,
    /// Limits of the pod as a whole, sorted.
    #[serde(rename = "lim", skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<(Text, Text)>,
    /// Condition types of `readinessGates`.
    #[serde(rename = "rg", skip_serializing_if = "Vec::is_empty")]
    pub readiness_gates: Vec<Text>,
    /// Names of `imagePullSecrets`.
    #[serde(rename = "ips", skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<Text>,
    /// `spec.volumes`, in order.
    #[serde(rename = "vol", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeSpec>,
    /// Init containers (sidecars included), in order.
    #[serde(rename = "ic", skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<ContainerSpec>,
    /// `spec.containers`, in order.
    #[serde(rename = "cs", skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerSpec>,
    /// Names of ephemeral containers.
    #[serde(rename = "ec", skip_serializing_if = "Vec::is_empty")]
    pub ephemeral_containers: Vec<Text>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// Key of the taint, empty for every key.
    #[serde(rename = "k", skip_serializing_if = "Text::is_empty")]
    pub key: Text,
    /// `Equal` (the default, then empty) or `Exists`.
    #[serde(rename = "op", skip_serializing_if = "Text::is_empty")]
    pub operator: Text,
    /// Value, empty with `Exists`.
    #[serde(rename = "v", skip_serializing_if = "Text::is_empty")]
    pub value: Text,
    /// Effect of the taint, empty for every effect.
    #[serde(rename = "e", skip_serializing_if = "Text::is_empty")]
    pub effect: Text,
}

/// A volume of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeSpec {
    /// Name of the volume in the pod.
    #[serde(rename = "n")]
    pub name: Text,
    /// `configMap`, `secret`, `persistentVolumeClaim`, `emptyDir`, `hostPath`, `projected`, `csi`, `ephemeral`, …
    #[serde(rename = "k")]
    pub kind: Text,
    /// What the volume refers to: the name of the ConfigMap, Secret or claim, the path, the CSI driver. For `projected`
    /// the sources as `configMap/x,secret/y`.
    #[serde(rename = "r", skip_serializing_if = "Text::is_empty")]
    pub refers: Text,
    /// `optional: true`.
    #[serde(rename = "opt", skip_serializing_if = "is_default")]
    pub optional: bool,
}

impl VolumeSpec {
    /// True when the kubelet creates the volume's content or finds it on the node, so that no storage is attached.
    pub fn is_local(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "configMap"
                | "secret"
                | "projected"
                | "downwardAPI"
                | "emptyDir"
                | "hostPath"
                | "image"
        )
    }
    /// Returns the claim that a pod of this name mounts through the volume: the claim that the volume refers to, or the
    /// one that is created for a generic ephemeral volume (k8s.io/component-helpers/storage/ephemeral,
    /// `VolumeClaimName`).
    pub fn claim(&self, pod: &str) -> Option<Text> {
        match self.kind.as_str() {
            "persistentVolumeClaim" => Some(self.refers.clone()),
            "ephemeral" => Some(format!("{pod}-{}", self.name).into()),
            _ => None,
        }
    }
}

/// A container of a pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerSpec {
    #[serde(rename = "n")]
    pub name: Text,
    /// Image reference in the spec.
    #[serde(rename = "img")]
    pub image: Text,
    /// `imagePullPolicy`.
    #[serde(rename = "pp", skip_serializing_if = "Text::is_empty")]
    pub pull_policy: Text,
    /// True for a restartable init container (sidecar).
    #[serde(rename = "sc", skip_serializing_if = "is_default")]
    pub sidecar: bool,
    /// Requests, sorted by resource (`cpu`→`100m`).
    #[serde(rename = "rq", skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<(Text, Text)>,
    /// Limits, sorted by resource.
    #[serde(rename = "lim", skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<(Text, Text)>,
    /// The startup, liveness and readiness probes that are set.
    #[serde(rename = "pr", skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeSpec>,
    /// `postStart` hook: `exec`, `httpGet`, `sleep`; empty when none.
    #[serde(rename = "ps", skip_serializing_if = "Text::is_empty")]
    pub post_start: Text,
    /// `preStop` hook, in the same form.
    #[serde(rename = "pre", skip_serializing_if = "Text::is_empty")]
    pub pre_stop: Text,
    #[serde(rename = "hp", skip_serializing_if = "Vec::is_empty")]
    pub host_ports: Vec<i32>,
    /// Names of the ConfigMaps and Secrets that environment variables come from: `configMap/x`, `secret/y`.
    #[serde(rename = "er", skip_serializing_if = "Vec::is_empty")]
    pub env_refs: Vec<Text>,
    /// `runAsNonRoot` of the container, or else of the pod.
    #[serde(rename = "nr", skip_serializing_if = "is_default")]
    pub run_as_non_root: bool,
}

/// A probe of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeSpec {
    /// `startup`, `liveness`, `readiness`.
    #[serde(rename = "k")]
    pub kind: Text,
    /// `exec`, `httpGet :8080/healthz`, `tcpSocket :80`, `grpc :90`.
    #[serde(rename = "h")]
    pub handler: Text,
    /// `initialDelaySeconds`.
    #[serde(rename = "i", skip_serializing_if = "is_default")]
    pub initial_delay_s: i32,
    /// `periodSeconds`.
    #[serde(rename = "p")]
    pub period_s: i32,
    /// `timeoutSeconds`.
    #[serde(rename = "t")]
    pub timeout_s: i32,
    /// `failureThreshold`: after so many failures in a row the probe counts as failed.
    #[serde(rename = "f")]
    pub failure_threshold: i32,
}

/// `status.phase`. Ordered alphabetically, by the API's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Text", into = "Text")]
pub enum PodPhase {
    /// The status has no phase: nobody has written it yet.
    #[default]
    Unset,
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
    /// A phase that Kubernetes 1.36 does not define.
    Other(Text),
}

impl PodPhase {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unset => "",
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
            Self::Other(word) => word,
        }
    }
    pub const fn is_unset(&self) -> bool {
        matches!(self, Self::Unset)
    }
    /// True when no container of the pod will run again.
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl From<&str> for PodPhase {
    fn from(word: &str) -> Self {
        match word {
            "" => Self::Unset,
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Unknown" => Self::Unknown,
            _ => Self::Other(word.into()),
        }
    }
}

impl From<Text> for PodPhase {
    fn from(word: Text) -> Self {
        Self::from(word.as_str())
    }
}

impl From<PodPhase> for Text {
    fn from(phase: PodPhase) -> Self {
        phase.as_str().into()
    }
}

impl PartialOrd for PodPhase {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PodPhase {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl std::fmt::Display for PodPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodStatus {
    #[serde(rename = "ph")]
    pub phase: PodPhase,
    /// `reason` (Evicted, NodeAffinity, …).
    #[serde(rename = "r", skip_serializing_if = "Text::is_empty")]
    pub reason: Text,
    #[serde(rename = "m", skip_serializing_if = "Text::is_empty")]
    pub message: Text,
    /// `startTime` (1 s): when the kubelet first wrote the status.
    #[serde(rename = "t0", skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Nanos>,
    #[serde(rename = "ip", skip_serializing_if = "Text::is_empty")]
    pub pod_ip: Text,
    /// `nominatedNodeName`.
    #[serde(rename = "nom", skip_serializing_if = "Text::is_empty")]
    pub nominated_node: Text,
    /// `qosClass`.
    #[serde(rename = "qos", skip_serializing_if = "Text::is_empty")]
    pub qos: Text,
    #[serde(rename = "og", skip_serializing_if = "is_default")]
    pub observed_generation: u64,
    /// Conditions, sorted by type.
    #[serde(rename = "cond", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Init container statuses.
    #[serde(rename = "ics", skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<ContainerStatus>,
    /// Container statuses.
    #[serde(rename = "css", skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerStatus>,
    /// Ephemeral container statuses.
    #[serde(rename = "ecs", skip_serializing_if = "Vec::is_empty")]
    pub ephemeral_containers: Vec<ContainerStatus>,
}

/// A condition of a pod, node or other object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// `type`: `PodScheduled`, `Ready`, `MemoryPressure`, …
    #[serde(rename = "k")]
    pub kind: Text,
    /// `True`, `False`, `Unknown`.
    #[serde(rename = "s")]
    pub status: Text,
    #[serde(rename = "r", skip_serializing_if = "Text::is_empty")]
    pub reason: Text,
    #[serde(rename = "m", skip_serializing_if = "Text::is_empty")]
    pub message: Text,
    /// `lastTransitionTime` (1 s).
    #[serde(rename = "t", skip_serializing_if = "Option::is_none")]
    pub transition: Option<Nanos>,
}

impl Condition {
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerStatus {
    #[serde(rename = "n")]
    pub name: Text,
    /// Container id without `containerd://`, empty before the container is first created.
    #[serde(rename = "id", skip_serializing_if = "ContainerId::is_empty")]
    pub id: ContainerId,
    /// Image reference in the status.
    #[serde(rename = "img", skip_serializing_if = "Text::is_empty")]
    pub image: Text,
    /// `restartCount`.
    #[serde(rename = "rc", skip_serializing_if = "is_default")]
    pub restarts: u32,
    /// `ready`: the readiness probe passes, or there is none.
    #[serde(rename = "ok", skip_serializing_if = "is_default")]
    pub ready: bool,
    /// `started`: the startup probe has passed, or there is none.
    #[serde(rename = "sd", skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    #[serde(rename = "st")]
    pub state: ContainerState,
    /// `lastState.terminated`: the previous termination.
    #[serde(rename = "ls", skip_serializing_if = "Option::is_none")]
    pub last: Option<Terminated>,
}

impl ContainerStatus {
    /// True when the container ran and does not run now: it is over, or waits for its next start.
    pub fn has_ended(&self) -> bool {
        match &self.state {
            ContainerState::Waiting { reason, .. } => reason == "CrashLoopBackOff",
            ContainerState::Terminated(_) => true,
            ContainerState::Running { .. } => false,
        }
    }
    /// Returns when the newest run and the one before it started (1 s), as far as the status tells.
    pub fn starts(&self) -> impl Iterator<Item = Nanos> {
        let newest = match &self.state {
            ContainerState::Running { started } => *started,
            ContainerState::Terminated(t) => t.started,
            ContainerState::Waiting { .. } => None,
        };
        let before = self.last.as_ref().and_then(|t| t.started);
        newest.into_iter().chain(before)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerState {
    /// `state.waiting`: the container is not to run yet, or not to run again yet.
    Waiting {
        /// Reason (`ContainerCreating`, `ImagePullBackOff`, …).
        #[serde(rename = "r")]
        reason: Text,
        #[serde(rename = "m", default, skip_serializing_if = "Text::is_empty")]
        message: Text,
    },
    /// `state.running`.
    Running {
        /// `startedAt` (1 s); not told by a table of pods.
        #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
        started: Option<Nanos>,
    },
    /// `state.terminated`.
    Terminated(Terminated),
}

impl ContainerState {
    /// True while the kubelet waits before it starts the container again.
    pub fn backs_off(&self) -> bool {
        matches!(self, Self::Waiting { reason, .. } if reason == "CrashLoopBackOff")
    }
    /// Returns reason and message of the state Waiting; `None` while the container is just being made, and in other states.
    pub fn held_up_by(&self) -> Option<(&Text, &Text)> {
        match self {
            Self::Waiting { reason, message } => {
                let made = matches!(
                    reason.as_str(),
                    "" | "ContainerCreating" | "PodInitializing"
                );
                (!made).then_some((reason, message))
            }
            Self::Running { .. } | Self::Terminated(_) => None,
        }
    }
}

impl Default for ContainerState {
    fn default() -> Self {
        Self::Waiting {
            reason: Text::default(),
            message: Text::default(),
        }
    }
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Terminated {
    /// `None` in what shows only a part of the status: the row of a table, a description that was cut.
    #[serde(rename = "xc", skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that ended the container, 0 when none.
    #[serde(rename = "sig", skip_serializing_if = "is_default")]
    pub signal: i32,
    #[serde(rename = "r", skip_serializing_if = "Text::is_empty")]
    pub reason: Text,
    /// Message, cut at 2 KiB.
    #[serde(rename = "m", skip_serializing_if = "Text::is_empty")]
    pub message: Text,
    /// `startedAt` (1 s).
    #[serde(rename = "t0", skip_serializing_if = "Option::is_none")]
    pub started: Option<Nanos>,
    /// `finishedAt` (1 s).
    #[serde(rename = "t1", skip_serializing_if = "Option::is_none")]
    pub finished: Option<Nanos>,
    /// Id of the container without `containerd://`.
    #[serde(rename = "id", skip_serializing_if = "ContainerId::is_empty")]
    pub id: ContainerId,
}

impl PodSeen {
    /// Returns the condition of the type `kind`.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|c| c.kind == kind)
    }
    /// True for a pod that has been bound to a node, as every pod that runs has. A row of a table may not show to which.
    pub fn is_bound(&self) -> bool {
        let scheduled = || {
            self.condition("PodScheduled")
                .is_some_and(Condition::is_true)
        };
        let ran = self.status.phase == PodPhase::Running;
        !self.spec.node.is_empty() || ran || scheduled()
    }
    /// Returns the container of the spec named `name`, init containers included.
    pub fn container(&self, name: &str) -> Option<&ContainerSpec> {
        self.spec
            .init_containers
            .iter()
            .chain(&self.spec.containers)
            .find(|c| c.name == name)
    }
    /// True when a main container has ended before: the pod may have been Ready then.
    pub fn ran_before(&self) -> bool {
        let mut main = self.status.containers.iter();
        main.any(|c| c.restarts > 0 || c.last.is_some())
    }
    /// Returns all container statuses: init, main, ephemeral.
    pub fn statuses(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.status
            .init_containers
            .iter()
            .chain(&self.status.containers)
            .chain(&self.status.ephemeral_containers)
    }
    /// Returns the newest time in the pod's state.
    pub fn last_change(&self) -> Nanos {
        let of_conditions = self.status.conditions.iter().filter_map(|c| c.transition);
        let of_containers = self.statuses().filter_map(|s| match &s.state {
            ContainerState::Running { started } => *started,
            ContainerState::Terminated(t) => t.finished,
            ContainerState::Waiting { .. } => s.last.as_ref().and_then(|t| t.finished),
        });
        let all = of_conditions
            .chain(of_containers)
            .chain(self.status.start_time);
        all.fold(self.created, Nanos::max)
    }
}
