//! A whole cluster, and the one of its nodes that is open.
//!
//! The cluster is one run over the apiserver's watches, which connects to no agent. Opening a node starts a run of
//! its own, as if the node had been named on the command line: only then its agent is connected to. Leaving the node
//! ends that run and drops its world. So memory and connections follow what is looked at and not the size of the
//! cluster, and a world has the sources of one node only, whose clock and kubelet are those of its pods. To show the
//! pods of an owner side by side, each of their nodes gets such a run, and the rows are taken from those worlds.

mod beside;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::live::{AGENT, Agent, Agents, Config, Control, Error, KubeletLog, Live, Look};
use crate::nodes::{self, NodeRow};
use crate::record::State;
use crate::snapshot::Snapshot;
use kflow_core::correlate::Pod;
use kflow_core::selection::{Selection, SelectionError};
use kflow_export::abreast::{self, Clock, Lane};
use kflow_model::clock;
use kflow_model::{Nanos, ObjectRef, Scope, Text};
use kflow_sources::agent::Mark;

pub use beside::{BESIDE, Hearing, Joined, NodeHeard};
use beside::{Beside, Listened};

/// Shortest time between two rebuilds of the rows of nodes.
const ROWS: Duration = Duration::from_secs(1);
/// Most nodes that were left and whose recordings are still being closed.
const LEAVING: usize = 4;

/// The pods of an owner side by side, each as its node's agent sees it, where that agent is followed.
#[derive(Debug)]
pub struct Abreast {
    pub owner: ObjectRef,
    pub lanes: Vec<Lane>,
    /// Nodes whose agent is not heard, or no longer, and why.
    pub unheard: Vec<(Text, String)>,
}

impl PartialEq for Abreast {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Abreast {}

/// The cluster around the world that a snapshot shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterView {
    pub nodes: Arc<Vec<NodeRow>>,
    /// Which nodes have an agent; `None` where agents are not searched for.
    pub agents: Option<Arc<Agents>>,
    /// Namespace of the agents.
    pub namespace: Text,
    /// The open node, whose world the snapshot shows.
    pub open: Option<Open>,
    /// The pods that are shown side by side.
    pub abreast: Option<Arc<Abreast>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    pub node: Text,
    pub since: Nanos,
    /// CRI calls in flight on the node.
    pub calls: usize,
}

/// Why a node cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum CannotOpen {
    #[error("nodes are opened in a cluster's view: start kflow tui without --node and --no-api")]
    NoCluster,
    #[error(
        "cannot open {node}: recordings of nodes that were left are still being closed; try again"
    )]
    Leaving { node: String },
    #[error("cannot open {node}: {source}")]
    Start { node: String, source: Error },
    #[error("cannot open {node}: {source}")]
    Scope {
        node: String,
        source: SelectionError,
    },
}

/// Returns the configuration of one node's run, which is the same as if the node were named on the command line.
pub fn of_node(base: &Config, node: &str, agent: Option<Agent>) -> Result<Config, SelectionError> {
    let scope = Scope {
        node: Some(node.to_owned()),
        ..base.scope.clone().unwrap_or_default()
    };
    Ok(Config {
        selection: Arc::new(Selection::new(&scope)?),
        scope: Some(scope),
        kubelet_log: KubeletLog::Remote,
        agent,
        agents: None,
        // Receivers and the control plane's logs stay with the cluster's run.
        control: Control {
            scrape: base.control.scrape,
            ..Control::default()
        },
        traces: None,
        ..base.clone()
    })
}

#[derive(Debug)]
struct Node {
    name: String,
    since: Nanos,
    live: Live,
}

/// State of the side-by-side view of an owner's pods.
#[derive(Debug)]
struct Side {
    owner: ObjectRef,
    runs: BTreeMap<Text, Beside>,
    /// The newest view, and the snapshots that it was made from.
    shown: Option<(Vec<Arc<Snapshot>>, Arc<Abreast>)>,
    /// Number of views made so far. It is part of the snapshot's version, so that views of an unchanged world differ.
    made: u64,
}

/// See the [module](self). Dropping it stops everything.
#[derive(Debug)]
pub struct Cluster {
    main: Live,
    open: Option<Node>,
    side: Option<Side>,
    /// Nodes that [`Cluster::listen`] follows.
    listened: BTreeMap<Text, Listened>,
    /// When [`Cluster::listen`] may answer again.
    due: Option<Instant>,
    /// Template of a node's run; `None` where no node can be opened.
    base: Option<Config>,
    look: Option<Look>,
    /// How far the stream of each agent was read, by node.
    marks: BTreeMap<String, Mark>,
    leaving: Vec<JoinHandle<()>>,
    /// Number of times that a node was opened or left. It is part of the snapshot's version, so that those of
    /// different runs differ.
    turn: u64,
    nodes: Option<(Instant, Arc<Snapshot>, Arc<Vec<NodeRow>>)>,
    /// The newest snapshot, and the base and view that it was made from.
    shown: Option<(Arc<Snapshot>, ClusterView, Arc<Snapshot>)>,
}

impl Cluster {
    /// Starts the cluster's run. Nodes can be opened if the configuration asks an apiserver and names no node.
    pub fn start(config: Config) -> Result<Self, Error> {
        let whole = config.scope.as_ref().is_some_and(|s| s.node.is_none());
        let base = whole.then(|| config.clone());
        Ok(Self {
            look: config.agents.clone(),
            main: Live::start(config)?,
            open: None,
            side: None,
            listened: BTreeMap::new(),
            due: None,
            base,
            marks: BTreeMap::new(),
            leaving: Vec::new(),
            turn: 0,
            nodes: None,
            shown: None,
        })
    }

    /// The run that is shown: the open node's, else the cluster's.
    pub fn live(&self) -> &Live {
        self.open.as_ref().map_or(&self.main, |n| &n.live)
    }
    pub fn live_mut(&mut self) -> &mut Live {
        self.open.as_mut().map_or(&mut self.main, |n| &mut n.live)
    }
    /// The cluster's own run.
    pub const fn main(&self) -> &Live {
        &self.main
    }
    /// Name of the open node.
    pub fn node(&self) -> Option<&str> {
        self.open.as_ref().map(|n| n.name.as_str())
    }

    /// Opens a node in place of the one that is open.
    pub fn open(&mut self, node: &str) -> Result<(), CannotOpen> {
        if self.node() == Some(node) {
            return Ok(());
        }
        let config = self.of_node(node)?;
        self.leaving.retain(|l| !l.is_finished());
        if self.leaving.len() >= LEAVING {
            let node = node.to_owned();
            return Err(CannotOpen::Leaving { node });
        }
        let live = Live::start(config).map_err(|source| CannotOpen::Start {
            node: node.to_owned(),
            source,
        })?;
        self.leave();
        self.turn += 1;
        self.open = Some(Node {
            name: node.to_owned(),
            since: clock::now(),
            live,
        });
        Ok(())
    }

    /// Leaves the open node and returns its name. Its sources stop at once; its recording is closed on another thread.
    pub fn leave(&mut self) -> Option<String> {
        let Node { name, live, .. } = self.open.take()?;
        self.turn += 1;
        self.end(live);
        Some(name)
    }

    fn end<T: Send + 'static>(&mut self, runs: T) {
        let end = std::thread::Builder::new()
            .name("kflow-leave".into())
            .spawn(move || drop(runs));
        // If no thread can be started, the runs are dropped here, which waits for their recordings.
        self.leaving.extend(end.ok());
    }

    /// Shows the pods of an owner side by side, or with `None` stops doing so. Meanwhile the agents of their nodes
    /// are followed.
    pub fn look_abreast(&mut self, owner: Option<ObjectRef>) -> Result<(), CannotOpen> {
        if owner.is_some() && self.base.is_none() {
            return Err(CannotOpen::NoCluster);
        }
        if self.side.as_ref().map(|s| &s.owner) == owner.as_ref() {
            return Ok(());
        }
        if let Some(side) = self.side.take() {
            self.end(side.runs);
        }
        self.side = owner.map(|owner| Side {
            owner,
            runs: BTreeMap::new(),
            shown: None,
            made: 0,
        });
        Ok(())
    }

    /// Returns the side-by-side view, made anew if something changed.
    fn abreast(&mut self) -> Option<Arc<Abreast>> {
        let mut side = self.side.take()?;
        let shown = self.side_by_side(&mut side);
        self.side = Some(side);
        Some(shown)
    }

    fn side_by_side(&mut self, side: &mut Side) -> Arc<Abreast> {
        if let Some((_, shown)) = &side.shown
            && !self.live().follows()
        {
            return Arc::clone(shown);
        }
        let whole = self.main.snapshot();
        let mut lanes = abreast::of(&whole.world, &side.owner, whole.now);
        let found = self.look.as_ref().map(Look::found).unwrap_or_default();
        let nodes = lanes.iter().filter(|l| l.pod.gone.is_none());
        let nodes: BTreeSet<Text> = nodes.map(|l| l.pod.node.clone()).collect();
        let agents = |n: &Text| found.of(n).is_some_and(|a| a.ready);
        let wanted: BTreeSet<&Text> = nodes.iter().filter(|n| agents(n)).take(BESIDE).collect();
        // A node whose pods are gone keeps its run until another owner is chosen: the pods are still shown.
        let mut unheard = Vec::new();
        for node in wanted {
            if !side.runs.contains_key(node) && side.runs.len() < BESIDE {
                match self.beside(node) {
                    Ok(run) => drop(side.runs.insert(node.clone(), run)),
                    Err(e) => unheard.push((node.clone(), e.to_string())),
                }
            }
        }
        let of: Vec<Arc<Snapshot>> = std::iter::once(whole)
            .chain(side.runs.values().map(|run| run.live.snapshot()))
            .collect();
        if let Some((before, shown)) = &side.shown
            && before.len() == of.len()
            && before.iter().zip(&of).all(|(a, b)| Arc::ptr_eq(a, b))
        {
            return Arc::clone(shown);
        }
        for ((node, run), snap) in side.runs.iter_mut().zip(of.iter().skip(1)) {
            if let Some(clock) = self.clock(node) {
                run.compare(snap, (clock, found.apiserver));
            }
        }
        let by_node: BTreeMap<&Text, &Arc<Snapshot>> =
            side.runs.keys().zip(of.iter().skip(1)).collect();
        for lane in &mut lanes {
            let run = side.runs.get(&lane.pod.node);
            let told = run.and_then(|run| run.world.as_ref());
            let told = told.and_then(|(snap, (clock, _), world)| {
                Some((snap, world.pod(&lane.pod.uid)?, *clock))
            });
            *lane = match told {
                Some((snap, pod, clock)) => Lane {
                    pod: Pod::clone(pod),
                    clock: Clock::Node(clock),
                    now: snap.now.plus(clock.certain_ns()),
                },
                None => Lane {
                    clock: Clock::Apiserver(found.apiserver),
                    ..lane.clone()
                },
            };
        }
        for node in &nodes {
            let run = by_node.get(node).and_then(|snap| {
                let mut sources = snap.sources.iter();
                sources.find(|x| x.name == AGENT && !x.is_on())
            });
            let why = match (node.as_str(), run) {
                ("", _) => continue,
                (_, Some(agent)) => agent.detail().to_owned(),
                (_, None) if by_node.contains_key(node) => continue,
                _ => (self.unheard(node, &found))
                    .unwrap_or_else(|| "whether it has an agent is not known yet".to_owned()),
            };
            if unheard.iter().all(|(n, _)| n != node) {
                unheard.push((node.clone(), why));
            }
        }
        let shown = Arc::new(Abreast {
            owner: side.owner.clone(),
            lanes,
            unheard,
        });
        side.shown = Some((of, Arc::clone(&shown)));
        side.made += 1;
        shown
    }

    fn namespace(&self) -> &str {
        self.look.as_ref().map_or("", Look::namespace)
    }

    fn of_node(&mut self, node: &str) -> Result<Config, CannotOpen> {
        let base = self.base.as_ref().ok_or(CannotOpen::NoCluster)?;
        let agent = self.look.as_ref().map(|look| Agent {
            place: look.place(),
            earlier: None,
            mark: self.marks.entry(node.to_owned()).or_default().clone(),
        });
        of_node(base, node, agent).map_err(|source| CannotOpen::Scope {
            node: node.to_owned(),
            source,
        })
    }

    /// Returns the newest snapshot: the same `Arc` while nothing changed.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        let base = self.live().snapshot();
        if self.base.is_none() {
            return base;
        }
        let view = self.view(&base, clock::monotonic());
        if let Some((of, with, shown)) = &self.shown
            && Arc::ptr_eq(of, &base)
            && *with == view
        {
            return Arc::clone(shown);
        }
        let made = self.side.as_ref().map_or(0, |s| s.made);
        let shown = Arc::new(Snapshot {
            version: base.version ^ ((self.turn & 0xff) << 52) ^ ((made & 0xff) << 44),
            cluster: Some(Arc::new(view.clone())),
            ..Snapshot::clone(&base)
        });
        self.shown = Some((base, view, Arc::clone(&shown)));
        shown
    }

    fn view(&mut self, shown: &Arc<Snapshot>, now: Instant) -> ClusterView {
        let due = (self.nodes.as_ref())
            .is_none_or(|(at, _, _)| now.saturating_duration_since(*at) >= ROWS);
        if due {
            let whole = match self.open {
                Some(_) => self.main.snapshot(),
                None => Arc::clone(shown),
            };
            let same = (self.nodes.take()).filter(|(_, of, _)| Arc::ptr_eq(of, &whole));
            let rows = same.map_or_else(|| Arc::new(nodes::rows(&whole)), |(_, _, rows)| rows);
            self.nodes = Some((now, whole, rows));
        }
        ClusterView {
            nodes: (self.nodes.as_ref()).map_or_else(Arc::default, |(_, _, rows)| Arc::clone(rows)),
            agents: self.look.as_ref().map(Look::found),
            namespace: self.namespace().into(),
            abreast: self.abreast(),
            open: self.open.as_ref().map(|n| Open {
                node: n.name.as_str().into(),
                since: n.since,
                calls: (shown.world.calls().in_flight())
                    .filter(|c| !shown.world.is_own_call(c))
                    .count(),
            }),
        }
    }

    /// Stops all runs. Returns how the recording of the shown run ended, if there is one.
    pub fn stop(&mut self) -> Option<State> {
        let of_node = self.open.as_mut().and_then(|n| n.live.stop());
        drop(self.side.take());
        self.listened.clear();
        let of_all = self.main.stop();
        for l in self.leaving.drain(..) {
            // The panic hook has already reported a panic.
            l.join().ok();
        }
        of_node.or(of_all)
    }
}
