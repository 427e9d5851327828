//! What a value is, by the fields that it has.

use serde_json::{Map, Value};

pub(super) type Fields = Map<String, Value>;

/// Groups of the API whose kinds are read. All others are of custom resources, which have kinds of the same names.
const GROUPS: [&str; 5] = ["apps", "autoscaling", "batch", "extensions", "policy"];
/// The end of the names of other groups that Kubernetes itself has.
const OF_KUBERNETES: &str = ".k8s.io";
/// Kinds that are read whole, as far as their group is not needed to tell them.
const KINDS: [&str; 14] = [
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Event",
    "Job",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "ReplicaSet",
    "ReplicationController",
    "ResourceQuota",
    "StatefulSet",
];

/// Fields of a pod's status (1.36: `staging/src/k8s.io/api/core/v1/types.go`, `PodStatus`).
pub(super) const POD_STATUS: [&str; 20] = [
    "allocatedResources",
    "conditions",
    "containerStatuses",
    "ephemeralContainerStatuses",
    "extendedResourceClaimStatus",
    "hostIP",
    "hostIPs",
    "initContainerStatuses",
    "message",
    "nodeAllocatableResourceClaimStatuses",
    "nominatedNodeName",
    "observedGeneration",
    "phase",
    "podIP",
    "podIPs",
    "qosClass",
    "reason",
    "resize",
    "resourceClaimStatuses",
    "startTime",
];
pub(super) const STATUSES: [&str; 3] = [
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
];
/// Of these, what few others have.
const OF_PODS: [&str; 6] = [
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "qosClass",
    "startTime",
];
const PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];
/// Fields of a container's status (`ContainerStatus`).
const CONTAINER_STATUS: [&str; 15] = [
    "allocatedResources",
    "allocatedResourcesStatus",
    "containerID",
    "image",
    "imageID",
    "lastState",
    "name",
    "ready",
    "resources",
    "restartCount",
    "started",
    "state",
    "stopSignal",
    "user",
    "volumeMounts",
];
const STATES: [&str; 3] = ["waiting", "running", "terminated"];
/// Fields of conditions (`PodCondition`, `NodeCondition`, `DeploymentCondition`).
const CONDITION: [&str; 9] = [
    "lastHeartbeatTime",
    "lastProbeTime",
    "lastTransitionTime",
    "lastUpdateTime",
    "message",
    "observedGeneration",
    "reason",
    "status",
    "type",
];
/// Types of conditions that only pods have, and reasons that only theirs have (`pkg/kubelet/status/generate.go`).
pub(super) const OF_POD: [&str; 5] = [
    "ContainersNotInitialized",
    "ContainersNotReady",
    "ContainersReady",
    "PodReadyToStartContainers",
    "PodScheduled",
];
/// Types of conditions that only nodes have.
pub(super) const OF_NODE: [&str; 5] = [
    "DiskPressure",
    "MemoryPressure",
    "NetworkUnavailable",
    "OutOfDisk",
    "PIDPressure",
];

/// Kinds of owners that have pods, and objects of no other kind that have a status like theirs.
const OWNERS: [&str; 4] = ["DaemonSet", "Job", "ReplicaSet", "ReplicationController"];

/// Returns namespace and name in the metadata of a pod.
pub(super) fn metadata_of_pod(fields: &Fields) -> Option<(&str, &str)> {
    let owners = fields.get("ownerReferences")?.as_array()?;
    let kind = |owner: &Value| owner.get("kind").and_then(Value::as_str).map(str::to_owned);
    let mut kinds = owners.iter().filter_map(kind);
    let is_of_pod = kinds.any(|kind| OWNERS.contains(&kind.as_str()));
    let names = (text(fields, "namespace")?, text(fields, "name")?);
    is_of_pod.then_some(names)
}

pub(super) fn text<'f>(fields: &'f Fields, key: &str) -> Option<&'f str> {
    fields.get(key)?.as_str().filter(|text| !text.is_empty())
}

pub(super) fn has_only(fields: &Fields, keys: &[&str]) -> bool {
    !fields.is_empty() && fields.keys().all(|key| keys.contains(&key.as_str()))
}

/// True for an object of some API: it says of which.
pub(super) fn is_object(fields: &Fields) -> bool {
    ["apiVersion", "metadata", "items", "status"]
        .iter()
        .any(|key| fields.contains_key(*key))
}

/// True for an object of a supported kind that the API returned: a manifest has neither a status nor the metadata that the API sets.
pub(super) fn is_read(fields: &Fields, kind: &str) -> bool {
    let version = text(fields, "apiVersion").unwrap_or("v1");
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let is_known = group.is_empty() || GROUPS.contains(&group) || group.ends_with(OF_KUBERNETES);
    let set = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
    ];
    let metadata = fields.get("metadata").and_then(Value::as_object);
    let is_set = metadata.is_some_and(|m| set.iter().any(|key| text(m, key).is_some()));
    let has_status = fields
        .get("status")
        .and_then(Value::as_object)
        .is_some_and(|s| !s.is_empty());
    KINDS.contains(&kind)
        && is_known
        && (is_set || has_status || kind == "Event" && is_event(fields))
}

pub(super) fn is_event(fields: &Fields) -> bool {
    let is_reason = |reason: &str| {
        reason.starts_with(|c: char| c.is_ascii_uppercase())
            && reason.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let has_message = text(fields, "message")
        .or_else(|| text(fields, "note"))
        .is_some();
    let has_object = ["involvedObject", "regarding"]
        .iter()
        .any(|key| fields.get(*key).is_some_and(Value::is_object));
    let of_type = matches!(text(fields, "type"), Some("Normal" | "Warning"));
    text(fields, "reason").is_some_and(is_reason) && has_message && (has_object || of_type)
}

pub(super) fn is_pod_status(fields: &Fields) -> bool {
    let is_phase = || text(fields, "phase").is_some_and(|phase| PHASES.contains(&phase));
    let has = |key: &&str| fields.contains_key(*key);
    let has_containers = || {
        let mut lists = STATUSES
            .iter()
            .filter_map(|key| fields.get(*key)?.as_array());
        lists.any(|all| {
            !all.is_empty()
                && all
                    .iter()
                    .all(|c| c.as_object().is_some_and(is_container_status))
        })
    };
    let has_conditions = || {
        let all = fields
            .get("conditions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        all.filter_map(Value::as_object)
            .any(|condition| is_of(condition, &OF_POD))
    };
    has_only(fields, &POD_STATUS)
        && (has_containers() || has_conditions() || is_phase() && OF_PODS.iter().any(has))
}

pub(super) fn is_container_status(fields: &Fields) -> bool {
    let is_told = |key: &&str| {
        fields
            .get(*key)
            .and_then(Value::as_object)
            .is_some_and(is_state)
    };
    has_only(fields, &CONTAINER_STATUS)
        && (["state", "lastState"].iter().any(is_told) || fields.contains_key("restartCount"))
}

/// True for the state of a container: one of three, with the fields of that.
pub(super) fn is_state(fields: &Fields) -> bool {
    let of_state = |(key, value): (&String, &Value)| {
        let keys: &[&str] = match key.as_str() {
            "waiting" => &["reason", "message"],
            "running" => &["startedAt"],
            _ => &[
                "containerID",
                "exitCode",
                "finishedAt",
                "message",
                "reason",
                "signal",
                "startedAt",
            ],
        };
        value.as_object().is_some_and(|of| has_only(of, keys))
    };
    has_only(fields, &STATES) && fields.iter().all(of_state)
}

pub(super) fn is_condition(fields: &Fields) -> bool {
    has_only(fields, &CONDITION) && fields.contains_key("type") && fields.contains_key("status")
}

pub(super) fn is_of(condition: &Fields, all: &[&str]) -> bool {
    let is_told = |key: &&str| text(condition, key).is_some_and(|told| all.contains(&told));
    is_condition(condition) && ["type", "reason"].iter().any(is_told)
}
