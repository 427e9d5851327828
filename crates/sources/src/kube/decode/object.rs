//! Any other object: metadata, conditions, and the facts that the table below names for its kind.

use serde_json::Value;

use super::super::super::Fed;
use super::json::{Meta, RawCondition, conditions, cut};
use kflow_model::{ObjectRef, Text, object::ObjectSeen, pod::WatchEvent};

/// Facts of a kind: key in [`ObjectSeen::facts`], JSON pointer in the object.
type Facts = &'static [(&'static str, &'static str)];

/// Which fields of which kind are kept. A kind that is not here is kept without facts. A pointer to a map gives one
/// fact for each of its entries, `key.entry`; one to a list of named states also their states and messages,
/// `key.NAME.state` and `key.NAME.message`.
pub(super) const TABLE: &[(&str, Facts)] = &[
    (
        "Deployment",
        &[
            ("availableReplicas", "/status/availableReplicas"),
            ("paused", "/spec/paused"),
            ("readyReplicas", "/status/readyReplicas"),
            ("replicas", "/spec/replicas"),
            ("statusReplicas", "/status/replicas"),
            ("strategy", "/spec/strategy/type"),
            ("unavailableReplicas", "/status/unavailableReplicas"),
            ("updatedReplicas", "/status/updatedReplicas"),
        ],
    ),
    (
        "ReplicaSet",
        &[
            ("availableReplicas", "/status/availableReplicas"),
            ("readyReplicas", "/status/readyReplicas"),
            ("replicas", "/spec/replicas"),
            ("statusReplicas", "/status/replicas"),
            ("terminatingReplicas", "/status/terminatingReplicas"),
        ],
    ),
    (
        "ReplicationController",
        &[
            ("readyReplicas", "/status/readyReplicas"),
            ("replicas", "/spec/replicas"),
            ("statusReplicas", "/status/replicas"),
        ],
    ),
    (
        "StatefulSet",
        &[
            ("currentRevision", "/status/currentRevision"),
            ("podManagementPolicy", "/spec/podManagementPolicy"),
            ("readyReplicas", "/status/readyReplicas"),
            ("replicas", "/spec/replicas"),
            ("serviceName", "/spec/serviceName"),
            ("statusReplicas", "/status/replicas"),
            ("partition", "/spec/updateStrategy/rollingUpdate/partition"),
            ("strategy", "/spec/updateStrategy/type"),
            ("updateRevision", "/status/updateRevision"),
            ("updatedReplicas", "/status/updatedReplicas"),
        ],
    ),
    (
        "DaemonSet",
        &[
            ("currentNumberScheduled", "/status/currentNumberScheduled"),
            ("desiredNumberScheduled", "/status/desiredNumberScheduled"),
            ("numberAvailable", "/status/numberAvailable"),
            ("numberMisscheduled", "/status/numberMisscheduled"),
            ("numberReady", "/status/numberReady"),
            ("numberUnavailable", "/status/numberUnavailable"),
            ("strategy", "/spec/updateStrategy/type"),
            ("updatedNumberScheduled", "/status/updatedNumberScheduled"),
        ],
    ),
    (
        "Job",
        &[
            ("active", "/status/active"),
            ("activeDeadlineSeconds", "/spec/activeDeadlineSeconds"),
            ("backoffLimit", "/spec/backoffLimit"),
            ("completionTime", "/status/completionTime"),
            ("completions", "/spec/completions"),
            ("failed", "/status/failed"),
            ("managedBy", "/spec/managedBy"),
            ("parallelism", "/spec/parallelism"),
            // Kueue's (pkg/controller/constants/constants.go, QueueLabel).
            ("queue", "/metadata/labels/kueue.x-k8s.io~1queue-name"),
            ("ready", "/status/ready"),
            ("startTime", "/status/startTime"),
            ("succeeded", "/status/succeeded"),
            ("suspend", "/spec/suspend"),
        ],
    ),
    // kubernetes-sigs/jobset, api/jobset/v1alpha2/jobset_types.go
    (
        "JobSet",
        &[
            ("queue", "/metadata/labels/kueue.x-k8s.io~1queue-name"),
            ("suspend", "/spec/suspend"),
        ],
    ),
    (
        "CronJob",
        &[
            ("concurrencyPolicy", "/spec/concurrencyPolicy"),
            ("lastScheduleTime", "/status/lastScheduleTime"),
            ("lastSuccessfulTime", "/status/lastSuccessfulTime"),
            ("schedule", "/spec/schedule"),
            ("suspend", "/spec/suspend"),
        ],
    ),
    (
        "PersistentVolumeClaim",
        &[
            ("accessModes", "/spec/accessModes"),
            (
                "selectedNode",
                "/metadata/annotations/volume.kubernetes.io~1selected-node",
            ),
            (
                "provisioner",
                "/metadata/annotations/volume.kubernetes.io~1storage-provisioner",
            ),
            // Before Kubernetes 1.23.
            (
                "provisioner",
                "/metadata/annotations/volume.beta.kubernetes.io~1storage-provisioner",
            ),
            ("capacity", "/status/capacity/storage"),
            ("finalizers", "/metadata/finalizers"),
            ("phase", "/status/phase"),
            ("request", "/spec/resources/requests/storage"),
            ("storageClass", "/spec/storageClassName"),
            ("volumeMode", "/spec/volumeMode"),
            ("volumeName", "/spec/volumeName"),
        ],
    ),
    (
        "PersistentVolume",
        &[
            ("accessModes", "/spec/accessModes"),
            ("capacity", "/spec/capacity/storage"),
            ("claimName", "/spec/claimRef/name"),
            ("claimNamespace", "/spec/claimRef/namespace"),
            ("driver", "/spec/csi/driver"),
            ("finalizers", "/metadata/finalizers"),
            ("message", "/status/message"),
            ("nodeAffinity", "/spec/nodeAffinity/required"),
            ("phase", "/status/phase"),
            ("reason", "/status/reason"),
            ("reclaimPolicy", "/spec/persistentVolumeReclaimPolicy"),
            ("storageClass", "/spec/storageClassName"),
            ("volumeHandle", "/spec/csi/volumeHandle"),
            ("volumeMode", "/spec/volumeMode"),
        ],
    ),
    (
        "StorageClass",
        &[
            ("provisioner", "/provisioner"),
            ("reclaimPolicy", "/reclaimPolicy"),
            ("volumeBindingMode", "/volumeBindingMode"),
        ],
    ),
    (
        "VolumeAttachment",
        &[
            ("attachError", "/status/attachError/message"),
            ("attached", "/status/attached"),
            ("attacher", "/spec/attacher"),
            ("detachError", "/status/detachError/message"),
            ("node", "/spec/nodeName"),
            ("volumeName", "/spec/source/persistentVolumeName"),
        ],
    ),
    (
        "ResourceQuota",
        &[("hard", "/status/hard"), ("used", "/status/used")],
    ),
    (
        "Namespace",
        &[
            ("finalizers", "/spec/finalizers"),
            ("ownFinalizers", "/metadata/finalizers"),
            ("phase", "/status/phase"),
        ],
    ),
    (
        "PodDisruptionBudget",
        &[
            ("currentHealthy", "/status/currentHealthy"),
            ("desiredHealthy", "/status/desiredHealthy"),
            ("disruptionsAllowed", "/status/disruptionsAllowed"),
            ("expectedPods", "/status/expectedPods"),
            ("maxUnavailable", "/spec/maxUnavailable"),
            ("minAvailable", "/spec/minAvailable"),
            ("selector", "/spec/selector"),
            (
                "unhealthyPodEvictionPolicy",
                "/spec/unhealthyPodEvictionPolicy",
            ),
        ],
    ),
    // Kueue's (apis/kueue/v1beta2/workload_types.go).
    (
        "Workload",
        &[
            ("active", "/spec/active"),
            ("check", "/status/admissionChecks"),
            ("queue", "/spec/queueName"),
        ],
    ),
    ("CSINode", &[("drivers", "/spec/drivers")]),
    ("CSIDriver", &[("attachRequired", "/spec/attachRequired")]),
    ("RuntimeClass", &[("handler", "/handler")]),
    (
        "PriorityClass",
        &[("globalDefault", "/globalDefault"), ("value", "/value")],
    ),
    (
        "Lease",
        &[
            ("durationSeconds", "/spec/leaseDurationSeconds"),
            ("holder", "/spec/holderIdentity"),
            ("renewTime", "/spec/renewTime"),
        ],
    ),
    (
        "HorizontalPodAutoscaler",
        &[
            ("currentReplicas", "/status/currentReplicas"),
            ("desiredReplicas", "/status/desiredReplicas"),
            ("maxReplicas", "/spec/maxReplicas"),
            ("minReplicas", "/spec/minReplicas"),
            ("targetKind", "/spec/scaleTargetRef/kind"),
            ("targetName", "/spec/scaleTargetRef/name"),
        ],
    ),
];

/// Length of the longest text that is kept of a field.
const LONGEST: usize = 1024;

pub(super) fn decode(json: &[u8], kind: &str, event: WatchEvent) -> Result<ObjectSeen, Fed> {
    const BAD: Fed = Fed::Malformed("not an object as the API writes it");
    let facts = TABLE.iter().find(|(k, _)| *k == kind).map(|(_, f)| *f);
    let value: Value = if facts.is_some() {
        serde_json::from_slice(json).map_err(|_| BAD)?
    } else {
        Value::Null
    };
    let raw: Raw = serde_json::from_slice(json).map_err(|_| BAD)?;
    let meta = raw.metadata.0;
    if meta.name.0.is_empty() {
        return Err(Fed::Malformed("object without name"));
    }
    let mut out = Vec::new();
    for (key, pointer) in facts.unwrap_or_default() {
        if let Some(v) = value.pointer(pointer) {
            fact(key, v, &mut out);
        }
    }
    out.sort();
    out.dedup();
    Ok(ObjectSeen {
        event,
        resource_version: meta.version(),
        created: meta.created(),
        deletion: meta.deletion_timestamp.at(),
        generation: meta.generation.0,
        observed_generation: raw.status.0.observed_generation.0,
        owner: meta.controller(),
        object: ObjectRef {
            kind: kind.into(),
            namespace: meta.namespace.0,
            name: meta.name.0,
            uid: meta.uid.0,
        },
        conditions: conditions(raw.status.0.conditions.0),
        facts: out,
    })
}

/// A label selector as kubectl takes it: `app=web,tier in (a,b)`; `None` for one that has an operator of another kind, or is
/// too long to be kept whole: a part of it would select others.
fn selector(v: &Value) -> Option<String> {
    let mut terms = Vec::new();
    let pairs = v.get("matchLabels").and_then(Value::as_object);
    for (key, value) in pairs.into_iter().flatten() {
        terms.push(format!("{key}={}", value.as_str()?));
    }
    let all = v.get("matchExpressions").and_then(Value::as_array);
    for e in all.into_iter().flatten() {
        let key = e.get("key").and_then(Value::as_str)?;
        let values = e.get("values").and_then(Value::as_array);
        let values: Vec<&str> = values
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let only = values.len() == 1;
        let values = values.join(",");
        terms.push(match e.get("operator").and_then(Value::as_str)? {
            "In" if only => format!("{key}={values}"),
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    Some(terms.join(",")).filter(|text| text.len() <= LONGEST)
}

/// The terms of a node selector, of which a node has to meet one: `zone in (a,b) or disk in (ssd)`; `None` where a term has a
/// requirement that a label selector cannot have.
fn node_terms(v: &Value) -> Option<String> {
    let terms = v.get("nodeSelectorTerms").and_then(Value::as_array)?;
    let term = |t: &Value| {
        let of_names = t.get("matchFields").is_some();
        selector(t).filter(|text| !of_names && !text.is_empty())
    };
    let terms: Option<Vec<String>> = terms.iter().map(term).collect();
    terms
        .map(|terms| terms.join(" or "))
        .filter(|text| !text.is_empty() && text.len() <= LONGEST)
}

fn fact(key: &str, v: &Value, out: &mut Vec<(Text, Text)>) {
    let text: Text = match v {
        Value::Object(_) if matches!(key, "selector" | "nodeAffinity") => {
            let text = match key {
                "selector" => selector(v),
                _ => node_terms(v),
            };
            let Some(text) = text else { return };
            text.into()
        }
        Value::Null => return,
        Value::Bool(b) => b.to_string().into(),
        Value::Number(n) => n.to_string().into(),
        Value::String(s) => cut(s, LONGEST),
        Value::Array(a) if a.iter().all(|v| v.get("state").is_some()) && !a.is_empty() => {
            for v in a {
                let name = v.get("name").and_then(Value::as_str).unwrap_or_default();
                for part in ["state", "message"] {
                    if let Some(text) = v.get(part) {
                        fact(&format!("{key}.{name}.{part}"), text, out);
                    }
                }
            }
            return;
        }
        Value::Array(a) => a
            .iter()
            .filter_map(|v| v.as_str().or_else(|| v.get("name").and_then(Value::as_str)))
            .collect::<Vec<_>>()
            .join(",")
            .into(),
        Value::Object(m) => {
            for (k, v) in m {
                if !v.is_object() {
                    fact(&format!("{key}.{k}"), v, out);
                }
            }
            return;
        }
    };
    out.push((key.into(), text));
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Raw {
    metadata: super::json::N<Meta>,
    status: super::json::N<Status>,
}

/// The part of a status that many kinds share. A Namespace or claim has more of its own.
#[derive(serde::Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    observed_generation: super::json::N<u64>,
    conditions: super::json::N<Vec<RawCondition>>,
}
