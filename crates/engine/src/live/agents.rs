//! Which nodes of a cluster have an agent: asked of the apiserver by one list now and then, of no agent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kflow_model::offset::Offset;
use kflow_sources::agent::{AgentPod, agents};

/// How often their pods are listed.
const LOOK: Duration = Duration::from_secs(30);

/// The agents of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agents {
    /// Pods of agents by node, as of the last list that was read.
    pub by_node: BTreeMap<String, AgentPod>,
    /// A list was read.
    pub known: bool,
    /// Why the last one could not be read.
    pub failing: Option<String>,
    /// The apiserver's clock, where it told one with the list.
    pub apiserver: Option<Offset>,
}

/// Agents that are looked for in a namespace, and the newest of what was found.
#[derive(Clone, Debug, Default)]
pub struct Look {
    namespace: String,
    found: Arc<Mutex<Arc<Agents>>>,
}

impl Look {
    /// Looks in this namespace once a run has an apiserver to ask.
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            ..Self::default()
        }
    }
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
    /// What is known; the same `Arc` while that is the same.
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

/// Lists agents every 15 to 30 s: many who look do not ask in step.
pub(super) async fn look(client: kube::Client, look: Look) {
    loop {
        match agents(&client, &look.namespace).await {
            Ok((by_node, apiserver)) => look.set(Agents {
                by_node,
                known: true,
                failing: None,
                apiserver,
            }),
            Err(why) => look.set(Agents {
                failing: Some(why.to_string()),
                ..Agents::clone(&look.found())
            }),
        }
        tokio::time::sleep(LOOK.mul_f64(1.0 - fastrand::f64() / 2.0)).await;
    }
}
