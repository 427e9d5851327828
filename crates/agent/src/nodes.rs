//! The agents of a cluster, node by node, as a user with a kubeconfig sees them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::client::Client;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use kflow_model::units::wait;
use kflow_serve::wire::InfoResponse;
use kflow_sources::agent::{LABEL, OwnAgent, Way, own_agent, reach};

use crate::install::{is_ready, meant_for, unready};
use crate::objects::{Error, list};

/// How many agents are asked at the same time.
const TOGETHER: usize = 8;
/// How long an agent may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A node and its agent.
#[derive(Debug)]
pub struct Node {
    pub name: String,
    pub agent: Agent,
}

/// What is known about a node's agent.
#[derive(Debug)]
pub enum Agent {
    /// The node has no agent pod.
    None,
    /// The node has an agent pod that does not answer, for the reason `why`.
    Silent { pod: String, why: String },
    /// The agent answers with its state.
    Answers {
        /// Name of the agent's pod; empty when the agent was asked through its socket on this machine.
        pod: String,
        info: Box<InfoResponse>,
    },
}

/// The known nodes of a cluster.
#[derive(Debug, Default)]
pub struct Nodes {
    /// Sorted by name.
    pub all: Vec<Node>,
    /// Why the nodes could not be listed, so that nodes without an agent are missing; `None` when they were listed.
    pub unlisted: Option<Error>,
    /// A remark about the agent on this machine.
    pub note: Option<String>,
}

/// Returns all nodes, or only the one named `only`. `here` is the socket of an agent on this machine, which is asked
/// when its node has no agent pod that answers, or when the agents' pods cannot be listed.
pub async fn nodes(
    client: &Client,
    namespace: &str,
    only: Option<&str>,
    here: &Path,
) -> Result<Nodes, Error> {
    let agents = list(client, ("", "v1", "Pod"), Some(namespace), LABEL);
    let own = own_agent(client, here, |node| only.is_none_or(|only| only == node));
    let (own, agents) = tokio::join!(own, agents);
    let listed = match agents {
        Ok(pods) => pods,
        Err(e) => {
            // Without a given name, it is not known whether this machine's node is one of the cluster.
            let Some(own) = own.filter(|_| only.is_some()) else {
                return Err(e);
            };
            return match own.may_tell.clone() {
                Ok(note) => Ok(Nodes {
                    all: vec![row(own)],
                    note,
                    ..Nodes::default()
                }),
                Err(said) => Err(Error::Stranger(Box::new(e), said)),
            };
        }
    };
    let mut pods: BTreeMap<String, DynamicObject> = BTreeMap::new();
    for pod in listed {
        let Some(node) = meant_for(&pod.data).map(str::to_owned) else {
            continue;
        };
        // A pod that is being deleted is shown only when its node has no other agent pod.
        if pod.metadata.deletion_timestamp.is_none() || !pods.contains_key(&node) {
            pods.insert(node, pod);
        }
    }
    let (mut names, unlisted) = match only {
        Some(name) => (vec![name.to_owned()], None),
        None => match list(client, ("", "v1", "Node"), None, "").await {
            Ok(all) => (
                all.into_iter().filter_map(|n| n.metadata.name).collect(),
                None,
            ),
            Err(e) => (Vec::new(), Some(e)),
        },
    };
    if only.is_none() {
        names.extend(pods.keys().cloned());
        names.sort_unstable();
        names.dedup();
    }
    let turns = Arc::new(Semaphore::new(TOGETHER));
    let mut asked = JoinSet::new();
    for name in names {
        let pod = pods.remove(&name);
        let (client, namespace) = (client.clone(), namespace.to_owned());
        let turns = Arc::clone(&turns);
        asked.spawn(async move {
            // Cannot fail: the semaphore is never closed.
            let _turn = turns.acquire_owned().await;
            let agent = match pod {
                None => Agent::None,
                Some(pod) => agent(&client, &namespace, &name, &pod).await,
            };
            Node { name, agent }
        });
    }
    let mut all = Vec::new();
    while let Some(done) = asked.join_next().await {
        // The panic hook has reported a panic of a task.
        all.extend(done);
    }
    let silent = |n: &&mut Node| !matches!(n.agent, Agent::Answers { .. });
    let mut note = None;
    if let Some(own) = own
        && let Some(its) = all.iter_mut().filter(silent).find(|n| n.name == own.node)
    {
        note = match own.may_tell.clone() {
            Ok(said) => {
                *its = row(own);
                said
            }
            Err(said) => Some(said),
        };
    }
    all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(Nodes {
        all,
        unlisted,
        note,
    })
}

/// Returns the row of the agent on this machine.
fn row(own: OwnAgent) -> Node {
    Node {
        name: own.node,
        agent: Agent::Answers {
            pod: String::new(),
            info: Box::new(own.info),
        },
    }
}

async fn agent(client: &Client, namespace: &str, node: &str, pod: &DynamicObject) -> Agent {
    let name = pod.metadata.name.clone().unwrap_or_default();
    if !is_ready(&pod.data) {
        let why = unready(&pod.data);
        return Agent::Silent { pod: name, why };
    }
    let way = Way::Pod {
        client: client.clone(),
        namespace: namespace.to_owned(),
        labels: LABEL.to_owned(),
        node: node.to_owned(),
        here: None,
    };
    let asked = async {
        let mut reached = reach(&way).await.map_err(|e| e.to_string())?;
        reached.client.info().await.map_err(|e| e.to_string())
    };
    let answer = timeout(ANSWER, asked).await;
    match answer.unwrap_or_else(|_| Err(format!("no answer for {}", wait(ANSWER)))) {
        Ok(info) => Agent::Answers {
            pod: name,
            info: Box::new(info),
        },
        Err(why) => Agent::Silent { pod: name, why },
    }
}
