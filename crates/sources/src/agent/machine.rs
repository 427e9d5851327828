//! Finds out whether this machine is a certain node of a cluster: nodes of two clusters may have the same name.

use std::path::Path;

use kube::client::Client as Kube;
use serde::Deserialize;
use tokio::time::timeout;
use tonic::codegen::http::StatusCode;

use super::ANSWER;
use super::reach::{get, on_this_machine};
use crate::kube::live::escape;
use kflow_model::units::wait;
use kflow_serve::wire::InfoResponse;

/// The kernel's boot ID. The kubelet's cadvisor reads it here for `status.nodeInfo.bootID`, and a container sees the
/// same one: `bootIDFilePath` in google/cadvisor, machine/info.go; `MachineInfo` in kubernetes,
/// pkg/kubelet/nodestatus/setters.go.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Longest Node object that is read, bytes: its status lists the node's images.
const NODE: usize = 4 << 20;

/// Whether this machine is the node of a certain name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Machine {
    /// It is: the boot IDs are equal.
    Node,
    /// It is another one: the boot IDs differ.
    Another,
    /// It has the same name; the boot IDs could not be compared, for this reason.
    Named(String),
}

impl Machine {
    /// Says whether the agent on this machine may be asked about the node of this name. Returns the remark to show
    /// beside its answers, if there is one; the error says why the agent is not asked.
    pub fn may_tell_of(&self, node: &str) -> Result<Option<String>, String> {
        match self {
            Self::Node => Ok(None),
            Self::Another => Err(format!(
                "the agent on this machine is not asked: its node is called {node} too, and is another one (their boot IDs differ)"
            )),
            Self::Named(why) => Ok(Some(format!(
                "that the agent on this machine is that of {node} is known by the name alone: {why}"
            ))),
        }
    }
}

/// The agent on this machine.
#[derive(Debug)]
pub struct OwnAgent {
    /// Name of the agent's node, as the agent reports it.
    pub node: String,
    /// The agent's own description of its state.
    pub info: InfoResponse,
    /// The remark to show beside the agent's answers, if there is one; or why the agent is not asked: its node is
    /// another cluster's.
    pub may_tell: Result<Option<String>, String>,
}

/// Returns the agent at a socket if one answers and `wanted` accepts the name of its node.
pub async fn own_agent(
    client: &Kube,
    socket: &Path,
    wanted: impl Fn(&str) -> bool,
) -> Option<OwnAgent> {
    let (node, info) = on_this_machine(socket).await.filter(|(n, _)| wanted(n))?;
    let may_tell = machine(client, &node).await.may_tell_of(&node);
    Some(OwnAgent {
        node,
        info,
        may_tell,
    })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Node {
    status: Status,
}
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    node_info: NodeInfo,
}
#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeInfo {
    #[serde(rename = "bootID")]
    boot_id: String,
}

/// Compares the boot ID of this machine with that of the Node of this name.
pub async fn machine(client: &Kube, node: &str) -> Machine {
    match timeout(ANSWER, same(client, node)).await {
        Ok(Ok(true)) => Machine::Node,
        Ok(Ok(false)) => Machine::Another,
        Ok(Err(why)) => Machine::Named(why),
        Err(_) => Machine::Named(format!(
            "the Node cannot be read: no answer for {}",
            wait(ANSWER)
        )),
    }
}

async fn same(client: &Kube, node: &str) -> Result<bool, String> {
    let own = tokio::fs::read_to_string(BOOT_ID)
        .await
        .map_err(|e| format!("{BOOT_ID}: {e}"))?;
    let unread = |why: String| format!("the Node cannot be read: {why}");
    let uri = format!("/api/v1/nodes/{}", escape(node));
    let answer = get(client, &uri, NODE).await.map_err(unread)?;
    match answer.status {
        StatusCode::OK => {}
        StatusCode::FORBIDDEN => return Err(unread("needs get on nodes".to_owned())),
        other => return Err(unread(format!("the apiserver answers {other}"))),
    }
    let its: Node = serde_json::from_slice(&answer.body)
        .map_err(|_| unread("the apiserver answers not as a Kubernetes API does".to_owned()))?;
    let its = its.status.node_info.boot_id;
    if its.is_empty() {
        return Err("the Node tells no boot ID".to_owned());
    }
    Ok(its == own.trim())
}
