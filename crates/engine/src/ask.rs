//! Asks the agents of several nodes once, in parallel, for their observations.
//!
//! Builds one world per node from what the apiserver reported of the node, which the caller fetched before, and from
//! what the agent's ring holds, both by the node's clock. The world is dropped after use, so memory grows with the
//! number of nodes asked at a time and not with the size of the cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout, timeout_at};

use crate::live::{Config, connect};
use kflow_core::correlate::{NODE_LEASES, World};
use kflow_core::selection::Selection;
use kflow_model::clock;
use kflow_model::offset::Offset;
use kflow_model::units::wait;
use kflow_model::{Body, Evidence, Nanos, Text};
pub use kflow_sources::agent::Past;
use kflow_sources::agent::{self, AgentPod, Greeted, Machine, Silent, Told, machine};

/// Most agents that are connected to at a time. An agent that does not answer takes up one of these places, and
/// nothing else.
pub const TOGETHER: usize = 32;
/// Most agents whose observations are read at a time.
const READ: usize = 8;
/// Most worlds that are built at a time.
const WORLDS: usize = 2;

/// Time limits for asking agents.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Time to read the kubeconfig, for an agent to answer, and again for it to send what its ring holds. The list of
    /// the agents' pods has a limit of its own, in `kflow_sources::agent`.
    pub answer: Duration,
    /// An agent whose turn has not come after this time is not asked.
    pub turns: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(10),
            turns: Duration::from_secs(30),
        }
    }
}

/// The observations of one node, from its agent and from the apiserver.
#[derive(Debug)]
pub struct NodeTold {
    /// In order of arrival, by the node's clock.
    pub observations: Vec<Evidence>,
    /// The time of the answer, by the node's clock.
    pub now: Nanos,
    pub offset: Offset,
    /// Offset of the apiserver's clock, if known.
    pub apiserver: Option<Offset>,
    selection: Arc<Selection>,
}

impl NodeTold {
    pub fn world(&self) -> World {
        let mut world = World::selecting(Arc::clone(&self.selection));
        if let Some(apiserver) = self.apiserver {
            world.compare_clocks(apiserver, self.offset);
        }
        self.observations.iter().for_each(|o| world.observe(o));
        world.refresh();
        world
    }
}

/// Why a node's agent gave no observations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unheard {
    #[error("no agent of kflow is there")]
    None,
    #[error(transparent)]
    Silent(#[from] Silent),
    #[error("the agent there did not answer within {}", wait(*.0))]
    Late(Duration),
    #[error("there was no time to ask the agent there: turns end after {}", wait(*.0))]
    NoTurn(Duration),
    /// The agents' pods could not be listed.
    #[error("{0}")]
    Unlisted(String),
    /// Why the node's agent gave nothing, and why the agent on this machine, whose node has the same name, cannot
    /// stand in.
    #[error("{0}; {1}")]
    Stranger(Box<Unheard>, String),
    #[error("kflow failed at what the agent there told (a bug)")]
    Bug,
}

impl Unheard {
    /// True when both can be reported as one reason. Each `Failed` has a message of its own; all of
    /// them count as alike.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Silent(Silent::Failed(_)), Self::Silent(Silent::Failed(_))) => true,
            _ => self == other,
        }
    }
}

/// Why no agent could be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot ask agents: {0}")]
    Thread(#[from] std::io::Error),
}

/// The answers of all nodes.
#[derive(Debug)]
pub struct Heard<T> {
    /// Each node with what `look` returned for it, or why its agent gave nothing.
    pub nodes: Vec<(Text, Result<T, Unheard>)>,
    /// Offset of the apiserver's clock, if known.
    pub apiserver: Option<Offset>,
    /// A remark about the agent on this machine, if that agent was asked.
    pub note: Option<String>,
}

/// Which agents are asked, and how.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// How to reach the apiserver.
    pub config: &'a Config,
    /// Namespace of the agents.
    pub namespace: &'a str,
    /// Socket of an agent on this machine. It is asked about its own node when no agent pod of that node can be
    /// reached: it was started by hand or by systemd, or the apiserver refuses.
    pub here: Option<&'a Path>,
    pub patience: Patience,
    /// Asked in this order.
    pub nodes: &'a [Text],
    /// Asks for a time in the past that the agents stored, instead of what their rings hold.
    pub past: Option<Past>,
}

/// Asks the agents of these nodes, at most [`TOGETHER`] at a time. Calls `look`, on a blocking thread, for each node
/// whose agent answers.
pub fn ask<T: Send + 'static>(
    question: Question<'_>,
    told: ApiTold,
    look: impl Fn(&Text, NodeTold) -> T + Send + Sync + 'static,
) -> Result<Heard<T>, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let answers = runtime.block_on(all(question, told, look));
    // A DNS lookup that still blocks a thread is not waited for.
    runtime.shutdown_background();
    Ok(answers)
}

async fn connected(question: &Question<'_>) -> Result<kube::Client, String> {
    let most = question.patience.answer;
    let connected = timeout(most, connect(question.config)).await;
    let (client, _) = connected
        .unwrap_or_else(|_| Err(format!("no kubeconfig within {}", wait(most))))
        .map_err(|why| format!("cannot ask agents: {why}"))?;
    Ok(client)
}

/// The agents' pods by node, the client that reaches them, and the apiserver's clock.
type Listed = (kube::Client, BTreeMap<String, AgentPod>, Option<Offset>);

async fn listed(
    question: &Question<'_>,
    client: Result<kube::Client, String>,
) -> Result<Listed, String> {
    let client = client?;
    let (pods, apiserver) = agent::agents(&client, question.namespace)
        .await
        .map_err(|e| e.to_string())?;
    Ok((client, pods, apiserver))
}

/// The agent on this machine, if it answers and its node is one of those asked about, and whether this machine is
/// that node.
async fn here(
    question: &Question<'_>,
    client: &Result<kube::Client, String>,
) -> Option<(Greeted, Machine)> {
    let greeted = timeout(question.patience.answer, agent::greet_here(question.here?)).await;
    // An agent that does not answer counts as absent.
    let greeted = greeted.ok()?.ok()?;
    let node = greeted.node()?;
    if !question.nodes.iter().any(|n| n == node) {
        return None;
    }
    let machine = match client {
        Ok(client) => machine(client, node).await,
        Err(why) => Machine::Named(why.clone()),
    };
    Some((greeted, machine))
}

async fn all<T: Send + 'static>(
    question: Question<'_>,
    told: ApiTold,
    look: impl Fn(&Text, NodeTold) -> T + Send + Sync + 'static,
) -> Heard<T> {
    let client = connected(&question).await;
    let (listed, mut here) =
        tokio::join!(listed(&question, client.clone()), here(&question, &client));
    let Question {
        namespace,
        patience,
        nodes,
        past,
        ..
    } = question;
    let until = Instant::now() + patience.turns;
    let apiserver = listed.as_ref().ok().and_then(|(_, _, its)| *its);
    let (told, look) = (Arc::new(told), Arc::new(look));
    let [turns, reads, worlds] = [TOGETHER, READ, WORLDS].map(|n| Arc::new(Semaphore::new(n)));
    let mut asked = JoinSet::new();
    let mut answers: BTreeMap<usize, Result<T, Unheard>> = BTreeMap::new();
    let note = Arc::new(OnceLock::new());
    for (n, node) in nodes.iter().enumerate() {
        let pod = match &listed {
            Ok((client, pods, _)) => match pods.get(node.as_str()) {
                Some(pod) => Ok((client.clone(), pod.clone())),
                None => Err(Unheard::None),
            },
            Err(why) => Err(Unheard::Unlisted(why.clone())),
        };
        let own = here.take_if(|(here, _)| here.node() == Some(node));
        let pod = match pod {
            Err(why) if own.is_none() => {
                answers.insert(n, Err(why));
                continue;
            }
            pod => pod.ok(),
        };
        // No semaphore is ever closed.
        let Ok(turn) = timeout_at(until, Arc::clone(&turns).acquire_owned()).await else {
            answers.insert(n, Err(Unheard::NoTurn(patience.turns)));
            continue;
        };
        let (namespace, node) = (namespace.to_owned(), node.clone());
        let (told, look) = (Arc::clone(&told), Arc::clone(&look));
        let (reads, worlds) = (Arc::clone(&reads), Arc::clone(&worlds));
        let note = Arc::clone(&note);
        asked.spawn(async move {
            let _turn = turn;
            let late = || Unheard::Late(patience.answer);
            let read = async {
                let by_pod = match pod {
                    Some((client, pod)) => {
                        let greeted = agent::greet(&client, &namespace, &node, &pod);
                        let greeted = timeout(patience.answer, greeted).await;
                        greeted
                            .map_err(|_| late())
                            .and_then(|g| g.map_err(Unheard::from))
                    }
                    None => Err(Unheard::None),
                };
                let greeted = match (by_pod, own) {
                    (Err(why), Some((own, machine))) => {
                        match machine.may_tell_of(&node) {
                            Ok(Some(said)) => drop(note.set(said)),
                            Ok(None) => {}
                            Err(said) => return Err(Unheard::Stranger(Box::new(why), said)),
                        }
                        own
                    }
                    (by_pod, _) => by_pod?,
                };
                let room = timeout_at(until, reads.acquire_owned()).await;
                let room = room.map_err(|_| Unheard::NoTurn(patience.turns))?;
                let said = timeout(patience.answer, greeted.told(past)).await;
                Ok::<_, Unheard>((said.map_err(|_| late())??, room))
            };
            let (said, _room) = match read.await {
                Ok(read) => read,
                Err(why) => return (n, Err(why)),
            };
            let _place = worlds.acquire_owned().await;
            let looked = spawn_blocking(move || {
                let told = told.with(&node, &said, apiserver);
                look(&node, told)
            });
            // The panic hook has already reported a panic.
            (n, looked.await.map_err(|_| Unheard::Bug))
        });
    }
    while let Some(done) = asked.join_next().await {
        answers.extend(done);
    }
    let named = |(n, node): (usize, &Text)| {
        let answer = answers.remove(&n).unwrap_or(Err(Unheard::Bug));
        (node.clone(), answer)
    };
    let nodes = nodes.iter().enumerate().map(named).collect();
    Heard {
        nodes,
        apiserver,
        note: note.get().cloned(),
    }
}

/// What the apiserver reported that concerns some nodes: the nodes, their pods, and the objects that these pods
/// depend on.
#[derive(Debug, Default)]
pub struct ApiTold {
    selection: Arc<Selection>,
    of_all: Vec<Evidence>,
    of_node: FxHashMap<Text, Vec<Evidence>>,
    of_namespace: FxHashMap<Text, Vec<Evidence>>,
    /// Namespaces in which each node has pods.
    namespaces: FxHashMap<Text, FxHashSet<Text>>,
}

impl ApiTold {
    /// Holds no observations: for questions about the past, which an apiserver does not answer.
    pub fn nothing(selection: Arc<Selection>) -> Self {
        Self {
            selection,
            ..Self::default()
        }
    }

    /// Selects what concerns these nodes. `world` is built from the same observations and says on which
    /// node each pod runs.
    pub fn of<'a>(
        world: &World,
        observations: impl IntoIterator<Item = &'a Evidence>,
        nodes: &[Text],
    ) -> Self {
        let wanted: FxHashSet<&Text> = nodes.iter().collect();
        let (mut by_uid, mut by_name) = (FxHashMap::default(), FxHashMap::default());
        let mut told = Self {
            selection: Arc::clone(world.selection()),
            ..Self::default()
        };
        let here = world
            .every_pod()
            .iter()
            .filter(|p| wanted.contains(&p.node));
        for p in here {
            by_uid.insert(p.uid.as_str(), &p.node);
            by_name.insert((p.namespace.as_str(), p.name.as_str()), &p.node);
            let of = told.namespaces.entry(p.node.clone()).or_default();
            of.insert(p.namespace.clone());
        }
        let mut put = |node: Option<&&Text>, o: &Evidence| {
            if let Some(node) = node.filter(|n| wanted.contains(*n)) {
                let of = told.of_node.entry(Text::clone(node)).or_default();
                of.push(Arc::clone(o));
            }
        };
        for o in observations {
            let namespace = match &o.body {
                Body::Pod(p) => {
                    put(by_uid.get(p.uid.as_str()), o);
                    // A pod that mounts a claim can keep pods on other nodes from mounting it: those nodes need it too.
                    let claims = p.spec.volumes.iter().any(|v| v.claim(&p.name).is_some());
                    if !claims {
                        continue;
                    }
                    &p.namespace
                }
                Body::Event(e) if e.object.kind == "Pod" => {
                    let named = (e.object.namespace.as_str(), e.object.name.as_str());
                    let by_uid = by_uid.get(e.object.uid.as_str());
                    put(by_uid.or_else(|| by_name.get(&named)), o);
                    continue;
                }
                Body::Event(e) if e.object.kind == "Node" => {
                    put(Some(&&e.object.name), o);
                    continue;
                }
                Body::Node(n) => {
                    put(Some(&&n.name), o);
                    continue;
                }
                Body::Object(x) if x.object.namespace == NODE_LEASES => {
                    put(Some(&&x.object.name), o);
                    continue;
                }
                Body::Event(e) => &e.object.namespace,
                Body::Object(x) => &x.object.namespace,
                _ => {
                    told.of_all.push(Arc::clone(o));
                    continue;
                }
            };
            let of = told.of_namespace.entry(namespace.clone()).or_default();
            of.push(Arc::clone(o));
        }
        told
    }

    /// Returns the observations that concern a node, by a clock that is `ahead` ns ahead of this machine's.
    pub(crate) fn about(&self, node: &Text, ahead: i64) -> impl Iterator<Item = Evidence> {
        let namespaces = self.namespaces.get(node).into_iter().flatten();
        let shared = namespaces
            .filter_map(|n| self.of_namespace.get(n))
            .chain(self.of_namespace.get(&Text::default()));
        let own = self.of_node.get(node).into_iter();
        let by_api = self.of_all.iter().chain(own.chain(shared).flatten());
        by_api.map(move |o| match ahead {
            0 => Arc::clone(o),
            _ => by_clock_ahead(o, ahead),
        })
    }

    /// The same, together with what the node's agent reported.
    fn with(&self, node: &Text, said: &Told, apiserver: Option<Offset>) -> NodeTold {
        let ahead = said.offset.certain_ns();
        let mut observations: Vec<Evidence> = said.observations().map(Arc::new).collect();
        observations.extend(self.about(node, ahead));
        observations.sort_by_key(|o| o.stamp.seen);
        NodeTold {
            observations,
            now: clock::now().plus(ahead),
            offset: said.offset,
            apiserver,
            selection: Arc::clone(&self.selection),
        }
    }
}

/// Moves an observation to a clock that is `ns` ahead: `seen` always, `at` only where it equals `seen`.
pub(crate) fn by_clock_ahead(o: &Evidence, ns: i64) -> Evidence {
    let mut o = kflow_model::Observation::clone(o);
    if o.stamp.at == o.stamp.seen {
        o.stamp.at = o.stamp.at.plus(ns);
    }
    o.stamp.seen = o.stamp.seen.plus(ns);
    Arc::new(o)
}
