//! What the agents of several nodes know, asked once and side by side.
//!
//! Of each node a world of its own is made: what the apiserver told of it, which was asked before and is not asked again, and what
//! its agent's ring holds, both by the node's clock. It is looked at and dropped, so that memory follows how many nodes are asked
//! at a time and not how many there are.

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

/// Agents that are connected to at a time: one that does not answer keeps a connection, and nothing else, from the others.
pub const TOGETHER: usize = 32;
/// Agents that are read at a time.
const READ: usize = 8;
/// Worlds that are made at a time.
const WORLDS: usize = 2;

/// How long is waited for whom.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// An agent may take so long to answer, and again to give what its ring holds; the apiserver to tell which agents there are.
    pub answer: Duration,
    /// An agent whose turn has not come by then is not asked.
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

/// The observations of one node, by its agent and by the apiserver.
#[derive(Debug)]
pub struct NodeTold {
    /// In the order in which they arrived, by the node's clock.
    pub observations: Vec<Evidence>,
    /// The moment that they are of, by the node's clock.
    pub now: Nanos,
    pub offset: Offset,
    /// The apiserver's clock, where it told one.
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

/// Why a node's agent has told nothing.
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
    /// Which agents there are could not be asked.
    #[error("{0}")]
    Unlisted(String),
    /// One on this machine, whose node has the same name, is no help; what is said of it.
    #[error("{0}; {1}")]
    Stranger(Box<Unheard>, String),
    #[error("kflow failed at what the agent there told (a bug)")]
    Bug,
}

impl Unheard {
    /// Nodes of which the same is said: `Failed` of each agent in words of its own.
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

/// What was heard.
#[derive(Debug)]
pub struct Heard<T> {
    /// The nodes, and what was made of what the agent of each told.
    pub nodes: Vec<(Text, Result<T, Unheard>)>,
    /// The apiserver's clock, where it told one.
    pub apiserver: Option<Offset>,
    /// What there is to say of the agent on this machine that was asked.
    pub note: Option<String>,
}

/// Whom to ask, and how.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Says where the apiserver is.
    pub config: &'a Config,
    /// Namespace of the agents.
    pub namespace: &'a str,
    /// Socket of an agent on this machine. It is asked for its node where no agent's pod can be had: it was started by hand or by
    /// systemd, or the apiserver refuses.
    pub here: Option<&'a Path>,
    pub patience: Patience,
    /// In the order in which they are asked.
    pub nodes: &'a [Text],
    /// What they kept of a time in the past, in the place of what their rings hold.
    pub past: Option<Past>,
}

/// Asks the agents of these nodes, [`TOGETHER`] at a time. `look` is given what is known of the node of each that answers, on a
/// thread of its own.
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
    // What still waits for a resolver is not waited for.
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

/// The agent on this machine, where it answers, and whether its node is the one of that name that is asked about.
async fn here(
    question: &Question<'_>,
    client: &Result<kube::Client, String>,
) -> Option<(Greeted, Machine)> {
    let greeted = timeout(question.patience.answer, agent::greet_here(question.here?)).await;
    // One that cannot be had is as none.
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
            // A panic was told by the panic hook.
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

/// What the apiserver told of some nodes, as far as it is about one of them, its pods, or what these belong to.
#[derive(Debug, Default)]
pub struct ApiTold {
    selection: Arc<Selection>,
    of_all: Vec<Evidence>,
    of_node: FxHashMap<Text, Vec<Evidence>>,
    of_namespace: FxHashMap<Text, Vec<Evidence>>,
    /// Namespaces of the pods of each node.
    namespaces: FxHashMap<Text, FxHashSet<Text>>,
}

impl ApiTold {
    /// Without an observation, for questions about the past, which an apiserver does not answer.
    pub fn nothing(selection: Arc<Selection>) -> Self {
        Self {
            selection,
            ..Self::default()
        }
    }

    /// Of these nodes. `world` is made of the observations, and knows of each pod where it runs.
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
                    // Who mounts a claim keeps others on other nodes from it.
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

    /// What is about a node, by a clock that is ahead of this machine's, ns.
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

    /// The same, with what its agent told.
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

/// The same by a clock that is ahead, ns: when it was received, and its own time where that is the same.
pub(crate) fn by_clock_ahead(o: &Evidence, ns: i64) -> Evidence {
    let mut o = kflow_model::Observation::clone(o);
    if o.stamp.at == o.stamp.seen {
        o.stamp.at = o.stamp.at.plus(ns);
    }
    o.stamp.seen = o.stamp.seen.plus(ns);
    Arc::new(o)
}
