//! The fields of a Node that kflow reads.

use serde::Deserialize;
use std::collections::BTreeMap;

use super::super::super::Fed;
use super::super::kubectl::ROW_UID;
use super::json::{Meta, N, RawCondition, Scalar, conditions, pairs};
use kflow_model::{Text, node::NodeSeen, pod::WatchEvent};

pub(super) fn decode(json: &[u8], event: WatchEvent) -> Result<NodeSeen, Fed> {
    let raw: RawNode = serde_json::from_slice(json)
        .map_err(|_| Fed::Malformed("not a node as the API writes it"))?;
    let mut meta = raw.metadata.0;
    if meta.name.0.is_empty() {
        return Err(Fed::Malformed("node without name"));
    }
    let status = raw.status.0;
    Ok(NodeSeen {
        event,
        is_row: meta.uid.0.starts_with(ROW_UID),
        resource_version: meta.version(),
        created: meta.created(),
        deletion: meta.deletion_timestamp.at(),
        labels: meta.labels(),
        name: meta.name.0,
        unschedulable: raw.spec.0.unschedulable.0,
        taints: raw
            .spec
            .0
            .taints
            .0
            .into_iter()
            .map(|t| (t.key.0, t.value.0, t.effect.0))
            .collect(),
        allocatable: pairs(status.allocatable.0),
        conditions: conditions(status.conditions.0),
        kubelet_version: status.node_info.0.kubelet_version.0,
        runtime_version: status.node_info.0.container_runtime_version.0,
        volumes_attached: status
            .volumes_attached
            .0
            .into_iter()
            .map(|v| v.name.0)
            .collect(),
    })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawNode {
    metadata: N<Meta>,
    spec: N<Spec>,
    status: N<Status>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    unschedulable: N<bool>,
    taints: N<Vec<Taint>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Taint {
    key: N<Text>,
    value: N<Text>,
    effect: N<Text>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    allocatable: N<BTreeMap<Text, Scalar>>,
    conditions: N<Vec<RawCondition>>,
    node_info: N<NodeInfo>,
    volumes_attached: N<Vec<Attached>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct NodeInfo {
    kubelet_version: N<Text>,
    container_runtime_version: N<Text>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Attached {
    name: N<Text>,
}
