//! `kubectl describe` of what is no pod: nodes, claims and volumes as the API would have written them; of others only what
//! they are.

use serde_json::{Map, Value, json};

use super::outline::{Line, get, value};
use super::pod::{pairs, put, quantities};
use super::table::Row;
use super::{absolute, age};
use kflow_model::Nanos;

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
    let known = KINDS.iter().find(|(_, keys)| keys.iter().all(has));
    // Of a node people paste the name and the conditions.
    known
        .map(|(kind, _)| *kind)
        .or_else(|| conditions_of_node(lines).next().map(|_| "Node"))
}

/// True for a description in a namespace whose Events a kubelet or the scheduler reports, as both do of pods alone there.
pub(super) fn is_of_pod(lines: &[Line<'_>], rows: &[Row]) -> bool {
    let by = |row: &Row| matches!(row.component.as_str(), "kubelet" | "default-scheduler");
    let named = ["Name", "Namespace"]
        .iter()
        .all(|key| get(lines, key).is_some());
    named && rows.iter().any(by)
}

/// Types of a node's conditions (1.36: staging/src/k8s.io/api/core/v1/types.go, `NodeConditionType`; `OutOfDisk` before 1.13).
const OF_NODES: [&str; 6] = [
    "Ready",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
    "OutOfDisk",
];

/// True for a row of a node's conditions: no other one has such a type and two times.
pub(super) fn is_condition_of_node(text: &str) -> bool {
    let (kind, rest) = age::word(text);
    let (_, rest) = age::word(rest);
    let (heard, rest) = time(rest);
    let (changed, _) = time(rest);
    let is_time = |t: Option<&str>| t.and_then(absolute).is_some();
    OF_NODES.contains(&kind) && is_time(heard) && is_time(changed) && condition(text).is_some()
}

/// Returns the message of the condition `Ready` of a node whose runtime has no network (1.36: pkg/kubelet/runtime.go,
/// `networkErrors`; pkg/kubelet/nodestatus/setters.go, `ReadyCondition`), which the kubelet logs too (pkg/kubelet/kubelet.go,
/// `updateRuntimeUp`), and what stands before it.
pub(super) fn unready(line: &str) -> Option<(&str, &str)> {
    const WORDS: &str = "untime network not ready: NetworkReady=false";
    let before = line.get(..line.find(WORDS)?)?;
    let before = before.trim_end_matches(char::is_alphabetic);
    let before = ["container ", "Container "]
        .into_iter()
        .find_map(|word| before.strip_suffix(word))
        .unwrap_or(before);
    line.split_at_checked(before.len())
}

/// Returns a node that is not ready for this reason.
pub(super) fn unready_node(name: &str, message: &str) -> Value {
    json!({
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"conditions": [{
            "type": "Ready",
            "status": "False",
            "reason": "KubeletNotReady",
            "message": message,
        }]},
    })
}

/// Returns the last heartbeat of a node that reported its conditions at the time of the description. The node's controller makes
/// `Ready` unknown where the node does not report.
pub(super) fn heard(kind: &str, lines: &[Line<'_>]) -> Option<Nanos> {
    fn all<'l>(lines: &'l [Line<'_>]) -> Box<dyn Iterator<Item = &'l str> + 'l> {
        let each = |l: &'l Line<'_>| std::iter::once(l.text).chain(all(&l.below));
        Box::new(lines.iter().flat_map(each))
    }
    if kind != "Node" {
        return None;
    }
    let rows = all(lines).filter(|text| is_condition_of_node(text));
    let ready = rows.filter_map(|text| {
        let (kind, rest) = age::word(text);
        let (status, rest) = age::word(rest);
        let is_reported = kind == "Ready" && status != "Unknown";
        time(rest).0.filter(|_| is_reported)
    });
    ready.filter_map(Nanos::parse_rfc2822).max()
}

/// Rows of a node's conditions, at whatever depth they stand.
fn conditions_of_node<'l>(lines: &'l [Line<'_>]) -> Box<dyn Iterator<Item = Value> + 'l> {
    Box::new(lines.iter().flat_map(|line| {
        let own = is_condition_of_node(line.text).then(|| condition(line.text));
        own.flatten()
            .into_iter()
            .chain(conditions_of_node(&line.below))
    }))
}

/// Returns a Node, claim or volume.
pub(super) fn object(kind: &str, lines: &[Line<'_>]) -> Option<Value> {
    let mut metadata = Map::new();
    put(&mut metadata, "name", value(lines, "Name"));
    put(&mut metadata, "namespace", value(lines, "Namespace"));
    let created = value(lines, "CreationTimestamp").and_then(absolute);
    put(&mut metadata, "creationTimestamp", created.as_deref());
    if let Some(labels) = get(lines, "Labels") {
        metadata.insert("labels".into(), pairs(labels, &['=']));
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
                // Before 1.9 with an equals sign.
                let all = pairs(annotations, &[':', '=']);
                metadata.insert("annotations".into(), all);
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
            put(&mut spec, "volumeMode", value(lines, "VolumeMode"));
            if let Some(size) = value(lines, "Capacity") {
                spec.insert("capacity".into(), json!({"storage": size}));
            }
            let terms = get(lines, "Node Affinity").and_then(|l| l.get("Required Terms"));
            if let Some(terms) = terms {
                let terms: Vec<Value> = terms.below.iter().map(term).collect();
                let required = json!({"required": {"nodeSelectorTerms": terms}});
                spec.insert("nodeAffinity".into(), required);
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
    } else if kind == "Node" {
        let conditions: Vec<Value> = conditions_of_node(lines).collect();
        if !conditions.is_empty() {
            status.insert("conditions".into(), Value::Array(conditions));
        }
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

/// A term of a volume's node affinity: `Term 0:  topology.kubernetes.io/zone in [a, b]`, and its other requirements below
/// (k8s.io/kubectl/pkg/describe/describe.go, `printNodeSelectorTermsMultilineWithIndent`).
fn term(line: &Line<'_>) -> Value {
    let requirement = |text: &str| {
        let (key, rest) = age::word(text);
        let (operator, values) = age::word(rest);
        let operator = match operator {
            "in" => "In",
            "notin" => "NotIn",
            "exists" => "Exists",
            "doesnotexist" => "DoesNotExist",
            other => other,
        };
        let values = values.trim().trim_matches(['[', ']']);
        let values = values.split(',').map(str::trim).filter(|v| !v.is_empty());
        let values: Vec<&str> = values.collect();
        json!({"key": key, "operator": operator, "values": values})
    };
    let all: Vec<Value> = line.entries().map(requirement).collect();
    json!({"matchExpressions": all})
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
