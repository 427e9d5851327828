//! Ways to an agent: its socket, or a port-forward to its pod.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::client::{Body as HttpBody, Client as Kube};
use prost::bytes::Bytes;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::codegen::http::header::DATE;
use tonic::codegen::http::{Request, StatusCode, Uri};
use tonic::transport::Endpoint;

use super::machine::own_agent;
use super::{ANSWER, LABEL, PORT, Way};
use crate::kube::live::escape;
use crate::live::{root, unix};
use crate::proxy::Client;
use kflow_model::Nanos;
use kflow_model::clock;
use kflow_model::offset::Offset;
use kflow_model::units::wait;
use kflow_serve::wire::InfoResponse;

/// Longest list of one node's agent pods that is read, bytes.
const LIST: usize = 4 << 20;
/// Longest list of all nodes' agent pods that is read, bytes: one such pod is some 6 KiB of JSON.
const LIST_ALL: usize = 64 << 20;

/// Why there is no agent to follow.
#[derive(Debug, thiserror::Error)]
pub enum Absent {
    /// No agent runs on the node.
    #[error(
        "no agent of kflow on {node} (namespace {namespace}): with one, CRI calls, kubelet log, cgroups and volumes of the node are seen too; `kflow agent install`, `--debug-pod IMAGE` for one look, or run kflow on the node itself"
    )]
    None { node: String, namespace: String },
    /// The agent that was started for one look no longer exists.
    #[error(
        "the agent that was started on {node} ({labels}) is gone: nobody listened to it for too long, its time was over, or it was deleted; start kflow again"
    )]
    Gone { node: String, labels: String },
    /// The agent's pod exists but does not run.
    #[error("the agent's pod {name} is {phase}: kubectl -n {namespace} describe pod {name}")]
    NotRunning {
        name: String,
        namespace: String,
        phase: String,
    },
    /// The apiserver refuses the request.
    #[error(
        "may not look for an agent of kflow on {node}: needs {verb} in namespace {namespace} (role kflow-viewer of `kflow agent install --dry-run`)"
    )]
    Forbidden {
        node: String,
        namespace: String,
        verb: &'static str,
    },
    /// The agent or the apiserver cannot be reached.
    #[error("{0}")]
    Failed(String),
    /// The pod is not reached, for the inner reason, and the agent on this machine is not asked: its node is another
    /// one of the same name, as the remark says.
    #[error("{0}; {1}")]
    Stranger(Box<Absent>, String),
}

impl Absent {
    /// Returns true when only a person can change the cause; the agent is then looked for less often.
    pub fn is_final(&self) -> bool {
        match self {
            Self::None { .. } | Self::Gone { .. } | Self::Forbidden { .. } => true,
            Self::NotRunning { .. } | Self::Failed(_) => false,
            Self::Stranger(why, _) => why.is_final(),
        }
    }
}

/// A connection to an agent.
#[derive(Debug)]
pub struct Reached {
    pub client: Client,
    /// Receives the kubelet's reason when the port-forward fails.
    pub(super) broken: Option<Broken>,
    /// Remark on how the agent was reached, shown with the agent's state.
    pub(super) note: Option<String>,
}

impl Reached {
    /// Describes the agent's state in one line.
    pub fn said(&self, info: &InfoResponse) -> String {
        let said = super::said(info);
        match &self.note {
            Some(note) => format!("{said}; {note}"),
            None => said,
        }
    }
}

/// Receives the reason why a port-forward failed, from its other end.
#[derive(Debug)]
pub(super) struct Broken(oneshot::Receiver<String>);

impl Broken {
    /// Returns the reason if it arrives within 1 s, else `otherwise`.
    pub(super) async fn why(self, otherwise: String) -> String {
        match timeout(Duration::from_secs(1), self.0).await {
            Ok(Ok(why)) => format!("the port-forward failed: {}", why.trim()),
            _ => otherwise,
        }
    }
}

/// Connects to an agent.
pub async fn reach(way: &Way) -> Result<Reached, Absent> {
    match way {
        Way::Socket(path) => by_socket(path).await,
        Way::Pod {
            client,
            namespace,
            labels,
            node,
            here,
        } => {
            let by_pod = async {
                let name = pod(client, namespace, labels, node).await?;
                forward(client, namespace, node, &name).await
            };
            match (by_pod.await, here) {
                (Err(why), Some(socket)) => {
                    let own = own_agent(client, socket, |its| its == node).await;
                    match own.map(|own| own.may_tell) {
                        Some(Ok(note)) => Ok(Reached {
                            note,
                            ..by_socket(socket).await?
                        }),
                        Some(Err(said)) => Err(Absent::Stranger(Box::new(why), said)),
                        None => Err(why),
                    }
                }
                (reached, _) => reached,
            }
        }
    }
}

/// Returns the node of the agent at a socket, and the agent's description of its state; `None` if no agent answers
/// within [`ANSWER`].
pub(super) async fn on_this_machine(socket: &Path) -> Option<(String, InfoResponse)> {
    let asked = async {
        let info = by_socket(socket).await.ok()?.client.info().await.ok()?;
        Some((info.agent.as_ref()?.node.clone(), info))
    };
    timeout(ANSWER, asked).await.ok().flatten()
}

pub(super) async fn by_socket(path: &Path) -> Result<Reached, Absent> {
    let channel = unix::channel(path)
        .await
        .map_err(|e| Absent::Failed(format!("no agent: {e}")))?;
    let who = format!("the agent at {}", path.display());
    Ok(Reached {
        client: Client::over(channel, who),
        broken: None,
        note: None,
    })
}

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}
#[derive(Deserialize)]
struct Item {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    #[serde(default)]
    creation_timestamp: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
}
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: String,
    conditions: Vec<Condition>,
}
#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Item {
    fn runs(&self) -> bool {
        self.status.phase == "Running"
    }
    /// Sort key of the pods on one node. The pod to follow comes first: the newest that runs.
    fn rank(&self) -> impl Ord + use<> {
        std::cmp::Reverse((self.runs(), self.metadata.creation_timestamp.clone()))
    }
}

/// An agent's pod, as the apiserver knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPod {
    /// Empty for an agent on this machine that is reached by its socket.
    pub name: String,
    /// `app.kubernetes.io/version`; empty where the pod has no such label.
    pub version: String,
    /// The pod runs, and its condition `Ready` is `True`.
    pub ready: bool,
}

/// An answer of the apiserver.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
    /// Offset of the apiserver's clock by the `Date` header, where the answer has one.
    clock: Option<Offset>,
}

/// Sends a GET to the apiserver and reads a JSON body of at most `most` bytes.
pub(super) async fn get(client: &Kube, uri: &str, most: usize) -> Result<Answer, String> {
    let request = Request::get(uri)
        .header("Accept", "application/json")
        .body(HttpBody::empty())
        .map_err(|e| e.to_string())?;
    let sent = clock::now();
    let response = client.send(request).await.map_err(|e| root(&e))?;
    let (received, status) = (clock::now(), response.status());
    let date = response.headers().get(DATE).and_then(|d| d.to_str().ok());
    let date = date.and_then(Nanos::parse_rfc2822);
    let body = http_body_util::Limited::new(response.into_body(), most)
        .collect()
        .await
        .map_err(|e| root(&*e))?;
    Ok(Answer {
        status,
        body: body.to_bytes(),
        clock: date.map(|d| Offset::between(sent, d, received).to_the_second()),
    })
}

/// Lists the pods of agents, of one node or of all. Pods that are being deleted are left out: their
/// agents serve no longer.
async fn list(
    client: &Kube,
    namespace: &str,
    labels: &str,
    node: Option<&str>,
) -> Result<(Vec<Item>, Option<Offset>), Absent> {
    let whose = node.unwrap_or("any node");
    let mut uri = format!(
        "/api/v1/namespaces/{}/pods?labelSelector={}",
        escape(namespace),
        escape(labels),
    );
    match node {
        Some(node) => {
            uri.push_str("&fieldSelector=");
            uri.push_str(&escape(&format!("spec.nodeName={node}")));
        }
        // The list of all nodes comes from the apiserver's cache: many clients may ask for it, and none needs the
        // newest state.
        None => uri.push_str("&resourceVersion=0"),
    }
    let most = if node.is_some() { LIST } else { LIST_ALL };
    let failed =
        |why: String| Absent::Failed(format!("cannot look for an agent on {whose}: {why}"));
    let asked = timeout(ANSWER, get(client, &uri, most)).await;
    let answer = asked
        .map_err(|_| failed(format!("no answer for {}", wait(ANSWER))))?
        .map_err(failed)?;
    match answer.status {
        StatusCode::OK => {}
        StatusCode::FORBIDDEN => {
            return Err(Absent::Forbidden {
                node: whose.to_owned(),
                namespace: namespace.to_owned(),
                verb: "list on pods",
            });
        }
        other => return Err(failed(format!("the apiserver answers {other}"))),
    }
    let list: List = serde_json::from_slice(&answer.body)
        .map_err(|_| failed("the apiserver answers not as a Kubernetes API does".to_owned()))?;
    let mut all = list.items;
    all.retain(|p| p.metadata.deletion_timestamp.is_none());
    all.sort_by_cached_key(Item::rank);
    Ok((all, answer.clock))
}

/// Returns the agents of a cluster by node, as their pods describe them (no agent is asked), and the offset of the
/// apiserver's clock where the answer has one.
pub async fn agents(
    client: &Kube,
    namespace: &str,
) -> Result<(BTreeMap<String, AgentPod>, Option<Offset>), Absent> {
    let mut agents = BTreeMap::new();
    let (pods, its) = list(client, namespace, LABEL, None).await?;
    for p in pods {
        let ready = |c: &Condition| c.kind == "Ready" && c.status == "True";
        let pod = AgentPod {
            ready: p.runs() && p.status.conditions.iter().any(ready),
            version: (p.metadata.labels)
                .get("app.kubernetes.io/version")
                .cloned()
                .unwrap_or_default(),
            name: p.metadata.name,
        };
        if !p.spec.node_name.is_empty() {
            agents.entry(p.spec.node_name).or_insert(pod);
        }
    }
    Ok((agents, its))
}

/// The name of the newest running pod of an agent on a node.
async fn pod(client: &Kube, namespace: &str, labels: &str, node: &str) -> Result<String, Absent> {
    match list(client, namespace, labels, Some(node))
        .await?
        .0
        .into_iter()
        .next()
    {
        None if labels != LABEL => Err(Absent::Gone {
            node: node.to_owned(),
            labels: labels.to_owned(),
        }),
        None => Err(Absent::None {
            node: node.to_owned(),
            namespace: namespace.to_owned(),
        }),
        Some(p) if p.runs() => Ok(p.metadata.name),
        Some(p) => Err(Absent::NotRunning {
            name: p.metadata.name,
            namespace: namespace.to_owned(),
            phase: if p.status.phase.is_empty() {
                "not started".to_owned()
            } else {
                p.status.phase
            },
        }),
    }
}

/// Connects to the agent's port in its pod, by a port-forward through the apiserver.
pub(super) async fn forward(
    client: &Kube,
    namespace: &str,
    node: &str,
    name: &str,
) -> Result<Reached, Absent> {
    let who = format!("the agent of {node}");
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let ports = [PORT];
    let failed = |why: String| Absent::Failed(format!("cannot reach {who}: {why}"));
    let mut forwarder = match timeout(ANSWER, pods.portforward(name, &ports)).await {
        Err(_) => return Err(failed(format!("no answer for {}", wait(ANSWER)))),
        Ok(Err(kube::Error::Api(s))) if s.code == 403 => {
            return Err(Absent::Forbidden {
                node: node.to_owned(),
                namespace: namespace.to_owned(),
                verb: "get and create on pods/portforward",
            });
        }
        Ok(Err(e)) => return Err(failed(root(&e))),
        Ok(Ok(forwarder)) => forwarder,
    };
    let stream = forwarder
        .take_stream(PORT)
        .ok_or_else(|| failed("there is no stream".to_owned()))?;
    let (tell, told) = oneshot::channel();
    if let Some(error) = forwarder.take_error(PORT) {
        tokio::spawn(async move {
            if let Some(why) = error.await {
                // The receiver may be gone already.
                tell.send(why).ok();
            }
            // Dropped only now: the forwarder lives as long as the stream.
            drop(forwarder);
        });
    }
    // A port-forward is one stream and cannot be reconnected: when it breaks, another forward is opened.
    let stream = Arc::new(Mutex::new(Some(TokioIo::new(stream))));
    let connect = tower::service_fn(move |_: Uri| {
        let taken = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        async move { taken.ok_or_else(|| std::io::Error::other("the port-forward has ended")) }
    });
    let endpoint = Endpoint::from_static("http://localhost")
        .user_agent(concat!("kflow/", env!("CARGO_PKG_VERSION")))
        .map_err(|e| failed(root(&e)))?;
    let channel = timeout(ANSWER, endpoint.connect_with_connector(connect))
        .await
        .map_err(|_| failed(format!("no answer for {}", wait(ANSWER))))?
        .map_err(|e| failed(root(&e)))?;
    Ok(Reached {
        client: Client::over(channel, who),
        broken: Some(Broken(told)),
        note: None,
    })
}
