//! Finds which nodes of a cluster have an agent, by listing the agents' pods at the apiserver now and then.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Place;
use kflow_model::offset::Offset;
use kflow_sources::agent::{AgentPod, LABEL, SOCKET, agents, own_agent};

/// Longest time between two lists.
const LOOK: Duration = Duration::from_secs(30);

/// The agents of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agents {
    /// Pods of agents by node, as of the last list that was read.
    pub by_node: BTreeMap<String, AgentPod>,
    /// The agent on this machine, and its node, which need not be one of this cluster.
    pub here: Option<(String, AgentPod)>,
    /// The node of that agent, and a remark about the agent.
    pub note: Option<(String, String)>,
    /// At least one list was read.
    pub known: bool,
    /// Why the last list could not be read.
    pub failing: Option<String>,
    /// Offset of the apiserver's clock, if known from the list.
    pub apiserver: Option<Offset>,
}

impl Agents {
    /// The agent of a node: its pod, or the one on this machine.
    pub fn of(&self, node: &str) -> Option<&AgentPod> {
        let here = self.here.as_ref().filter(|(its, _)| its == node);
        self.by_node.get(node).or(here.map(|(_, agent)| agent))
    }

    /// The remark about the agent on this machine, if its node has this name.
    pub fn note(&self, node: &str) -> Option<&str> {
        let note = self.note.as_ref().filter(|(of, _)| of == node);
        note.map(|(_, said)| said.as_str())
    }
}

/// Searches for agents in a namespace, and holds what was found last.
#[derive(Clone, Debug, Default)]
pub struct Look {
    namespace: String,
    /// Socket of an agent on this machine.
    here: Option<PathBuf>,
    found: Arc<Mutex<Arc<Agents>>>,
}

impl Look {
    /// Searches in this namespace once a run has an apiserver to ask.
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            here: Some(SOCKET.into()),
            ..Self::default()
        }
    }
    /// Sets another socket for the agent on this machine.
    #[must_use]
    pub fn here(self, socket: impl Into<PathBuf>) -> Self {
        Self {
            here: Some(socket.into()),
            ..self
        }
    }
    /// Where the agents that it finds are reached.
    pub fn place(&self) -> Place {
        Place::Pods {
            namespace: self.namespace.clone(),
            labels: LABEL.to_owned(),
            here: self.here.clone(),
        }
    }
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
    /// Returns what was found last: the same `Arc` while nothing changes.
    pub fn found(&self) -> Arc<Agents> {
        Arc::clone(&self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn set(&self, now: Agents) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if **found != now {
            *found = Arc::new(now);
        }
    }
}

/// Lists agents every 15 to 30 s, at random, so that many clients do not ask at the same time.
pub(super) async fn look(client: kube::Client, look: Look) {
    loop {
        let agents = agents(&client, &look.namespace).await;
        // An agent that is a pod is asked through that pod.
        let has_pod = |node: &str| matches!(&agents, Ok((of, _)) if of.contains_key(node));
        let own = match &look.here {
            Some(socket) => own_agent(&client, socket, |node| !has_pod(node)).await,
            None => None,
        };
        let (mut here, mut note) = (None, None);
        if let Some(own) = own {
            if own.may_tell.is_ok() {
                let agent = AgentPod {
                    name: String::new(),
                    version: own.info.version,
                    ready: true,
                };
                here = Some((own.node.clone(), agent));
            }
            let said = own.may_tell.unwrap_or_else(Some);
            note = said.map(|said| (own.node, said));
        }
        look.set(match agents {
            Ok((by_node, apiserver)) => Agents {
                by_node,
                here,
                note,
                known: true,
                failing: None,
                apiserver,
            },
            Err(why) => Agents {
                failing: Some(why.to_string()),
                here,
                note,
                ..Agents::clone(&look.found())
            },
        });
        tokio::time::sleep(LOOK.mul_f64(1.0 - fastrand::f64() / 2.0)).await;
    }
}
