//! `kubectl describe` of what is no pod: nodes, claims and volumes as the API would have written them; of others only what
//! they are.

use serde_json::{Map, Value, json};

use super::outline::{Line, get, value};
use super::pod::{pairs, put, quantities};
use super::{absolute, age};

/// Returns the kind of what is described, which kubectl does not print, by the fields that only this kind has
/// (k8s.io/kubectl/pkg/describe/describe.go). `None` for a kind about which kflow learns nothing.
pub(super) fn kind(lines: &[Line<'_>]) -> Option<&'static str> {
    const KINDS: [(&str, &[&str]); 12] = [
        ("Pod", &["Node", "Containers"]),
        ("Node", &["Roles", "Unschedulable"]),
        ("Node", &["Taints", "System Info"]),
        (
            "PersistentVolumeClaim",
            &["Namespace", "StorageClass", "Volume"],
        ),
        ("PersistentVolume", &["Claim", "Reclaim Policy"]),
        ("Deployment", &["StrategyType"]),
        ("DaemonSet", &["Desired Number of Nodes Scheduled"]),
        ("CronJob", &["Schedule", "Concurrency Policy"]),
        ("Job", &["Parallelism", "Completions"]),
        ("StatefulSet", &["Update Strategy", "Volume Claims"]),
        ("ReplicaSet", &["Replicas", "Pods Status"]),
        // Of a pod whose paste has only the head and the Events.
        ("Pod", &["Node", "Status"]),
    ];
    let has = |key: &&str| get(lines, key).is_some();
    KINDS
        .iter()
        .find(|(_, keys)| keys.iter().all(has))
        .map(|(kind, _)| *kind)
}

/// Returns a Node, claim or volume.
pub(super) fn object(kind: &str, lines: &[Line<'_>]) -> Option<Value> {
    let mut metadata = Map::new();
    put(&mut metadata, "name", value(lines, "Name"));
    put(&mut metadata, "namespace", value(lines, "Namespace"));
    let created = value(lines, "CreationTimestamp").and_then(absolute);
    put(&mut metadata, "creationTimestamp", created.as_deref());
    if let Some(labels) = get(lines, "Labels") {
        metadata.insert("labels".into(), pairs(labels, '='));
    }
    let mut spec = Map::new();
    let mut status = Map::new();
    match kind {
        "Node" => {
            spec.insert(
                "unschedulable".into(),
                json!(value(lines, "Unschedulable") == Some("true")),
            );
            let taints = get(lines, "Taints").into_iter();
            let taints = taints.flat_map(Line::entries).map(taint);
            spec.insert("taints".into(), taints.collect());
            if let Some(all) = get(lines, "Allocatable") {
                status.insert("allocatable".into(), quantities(all));
            }
            if let Some(info) = get(lines, "System Info") {
                let mut versions = Map::new();
                put(
                    &mut versions,
                    "kubeletVersion",
                    info.value("Kubelet Version"),
                );
                let runtime = info.value("Container Runtime Version");
                put(&mut versions, "containerRuntimeVersion", runtime);
                status.insert("nodeInfo".into(), Value::Object(versions));
            }
        }
        "PersistentVolumeClaim" => {
            if let Some(annotations) = get(lines, "Annotations") {
                metadata.insert("annotations".into(), pairs(annotations, ':'));
            }
            put(&mut spec, "storageClassName", value(lines, "StorageClass"));
            put(&mut spec, "volumeName", value(lines, "Volume"));
            put(&mut spec, "volumeMode", value(lines, "VolumeMode"));
            put(&mut status, "phase", phase(lines));
            let capacity = json!({"storage": value(lines, "Capacity")});
            status.insert("capacity".into(), capacity);
        }
        "PersistentVolume" => {
            put(&mut spec, "storageClassName", value(lines, "StorageClass"));
            let policy = value(lines, "Reclaim Policy");
            put(&mut spec, "persistentVolumeReclaimPolicy", policy);
            if let Some((namespace, name)) = value(lines, "Claim").and_then(|c| c.split_once('/')) {
                let claim = json!({"namespace": namespace, "name": name});
                spec.insert("claimRef".into(), claim);
            }
            let source = get(lines, "Source");
            if let Some(driver) = source.and_then(|s| s.value("Driver")) {
                let handle = source.and_then(|s| s.value("VolumeHandle"));
                spec.insert(
                    "csi".into(),
                    json!({"driver": driver, "volumeHandle": handle}),
                );
            }
            put(&mut status, "phase", phase(lines));
        }
        _ => return None,
    }
    if let Some(modes) = value(lines, "Access Modes") {
        let modes = modes.split(',').map(|m| long_mode(m.trim()));
        spec.insert("accessModes".into(), modes.collect());
    }
    if let Some(table) = get(lines, "Conditions") {
        let conditions = table.below.iter().filter_map(|l| condition(l.text));
        status.insert("conditions".into(), conditions.collect());
    }
    Some(json!({"kind": kind, "metadata": metadata, "spec": spec, "status": status}))
}

fn phase<'a>(lines: &[Line<'a>]) -> Option<&'a str> {
    // `Terminating (lasts 3m)` stands in the place of the phase.
    value(lines, "Status").filter(|p| !p.starts_with("Terminating"))
}

/// `key=value:NoSchedule`, `key:NoSchedule`
fn taint(text: &str) -> Value {
    let (front, effect) = text.rsplit_once(':').unwrap_or((text, ""));
    let (key, value) = front.split_once('=').unwrap_or((front, ""));
    json!({"key": key, "value": value, "effect": effect})
}

/// `RWO` in the API's word.
pub(super) fn long_mode(short: &str) -> Value {
    json!(match short {
        "RWO" => "ReadWriteOnce",
        "ROX" => "ReadOnlyMany",
        "RWX" => "ReadWriteMany",
        "RWOP" => "ReadWriteOncePod",
        other => other,
    })
}

/// A row of `Type  Status  LastHeartbeatTime  LastTransitionTime  Reason  Message`. Both times are of the form
/// `Mon, 12 Feb 2024 20:12:59 +0000`, or `0001-01-01 …` where there is none.
fn condition(text: &str) -> Option<Value> {
    let (kind, rest) = age::word(text);
    let (status, rest) = age::word(rest);
    if !matches!(status, "True" | "False" | "Unknown") {
        return None;
    }
    let (_, rest) = time(rest);
    let (transition, rest) = time(rest);
    let (reason, message) = age::word(rest);
    Some(json!({
        "type": kind,
        "status": status,
        "lastTransitionTime": transition.and_then(absolute),
        "reason": reason,
        "message": message.trim(),
    }))
}

/// Splits the six words of a time off.
fn time(text: &str) -> (Option<&str>, &str) {
    const WORDS: usize = 6;
    let text = text.trim_start();
    let mut rest = text;
    for _ in 0..WORDS {
        rest = age::word(rest).1;
    }
    let split = text.split_at_checked(text.len() - rest.len());
    split.map_or((None, text), |(time, rest)| (Some(time.trim()), rest))
}
