//! A whole cluster, and of its nodes the one that is open.
//!
//! The cluster is one run over the apiserver's watches, which connects to no agent. A node that is opened is a run of its own,
//! as if it had been named on the command line: only then its agent is connected to, and when it is left that run and its
//! world go. So memory and connections follow what is looked at and not the size of the cluster, and a world knows one
//! node's sources, whose clock and whose kubelet it can take for those of its pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::live::{Agent, Agents, Config, Control, Error, KubeletLog, Live, Look, Place};
use crate::nodes::{self, NodeRow};
use crate::record::State;
use crate::snapshot::Snapshot;
use kflow_core::selection::{Selection, SelectionError};
use kflow_model::clock;
use kflow_model::{Nanos, Scope, Text};
use kflow_sources::agent::Mark;

/// How often nodes are looked through at most.
const ROWS: Duration = Duration::from_secs(1);
/// Nodes that were left and whose recordings may still be closing, at most.
const LEAVING: usize = 4;

/// The cluster around what a snapshot shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterView {
    pub nodes: Arc<Vec<NodeRow>>,
    /// Which nodes have an agent; `None` where none is looked for.
    pub agents: Option<Arc<Agents>>,
    /// Namespace of the agents.
    pub namespace: Text,
    /// The node that is open, whose world the snapshot shows.
    pub open: Option<Open>,
}

/// A node that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    pub node: Text,
    pub since: Nanos,
    /// CRI calls in flight there.
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

/// The run of one node of a cluster: what naming the node on the command line asks for.
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
        // Receivers and logs of the control plane go on in the cluster's run.
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

/// See the [module](self). Dropping it stops everything.
#[derive(Debug)]
pub struct Cluster {
    main: Live,
    open: Option<Node>,
    /// What a node's run is made of; `None` where no node can be opened.
    base: Option<Config>,
    look: Option<Look>,
    /// How far agents were followed.
    marks: BTreeMap<String, Mark>,
    leaving: Vec<JoinHandle<()>>,
    /// Opened and left so often: pictures of different runs are told apart by it.
    turn: u64,
    nodes: Option<(Instant, Arc<Snapshot>, Arc<Vec<NodeRow>>)>,
    /// The newest picture, and of what it was made.
    shown: Option<(Arc<Snapshot>, ClusterView, Arc<Snapshot>)>,
}

impl Cluster {
    /// Starts the run of the configuration. Nodes can be opened where it asks an apiserver and names no node.
    pub fn start(config: Config) -> Result<Self, Error> {
        let whole = config.scope.as_ref().is_some_and(|s| s.node.is_none());
        let base = whole.then(|| config.clone());
        Ok(Self {
            look: config.agents.clone(),
            main: Live::start(config)?,
            open: None,
            base,
            marks: BTreeMap::new(),
            leaving: Vec::new(),
            turn: 0,
            nodes: None,
            shown: None,
        })
    }

    /// The run that is shown: that of the open node, else the cluster's.
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
    /// The open node.
    pub fn node(&self) -> Option<&str> {
        self.open.as_ref().map(|n| n.name.as_str())
    }

    /// Opens a node: leaves the one that is open.
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

    /// Leaves the node that is open; its name. Its sources end at once, a recording of it is closed meanwhile.
    pub fn leave(&mut self) -> Option<String> {
        let Node { name, live, .. } = self.open.take()?;
        self.turn += 1;
        let end = std::thread::Builder::new()
            .name("kflow-leave".into())
            .spawn(move || drop(live));
        // Without a thread it is dropped here, and waited for.
        self.leaving.extend(end.ok());
        Some(name)
    }

    fn of_node(&mut self, node: &str) -> Result<Config, CannotOpen> {
        let base = self.base.as_ref().ok_or(CannotOpen::NoCluster)?;
        let agent = self.look.as_ref().map(|look| Agent {
            place: Place::installed(look.namespace()),
            since: None,
            mark: self.marks.entry(node.to_owned()).or_default().clone(),
        });
        of_node(base, node, agent).map_err(|source| CannotOpen::Scope {
            node: node.to_owned(),
            source,
        })
    }

    /// The newest picture; the same `Arc` while nothing changed.
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
        let shown = Arc::new(Snapshot {
            version: base.version ^ ((self.turn & 0xff) << 52),
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
            namespace: self.look.as_ref().map_or("", Look::namespace).into(),
            open: self.open.as_ref().map(|n| Open {
                node: n.name.as_str().into(),
                since: n.since,
                calls: shown.world.calls().in_flight().count(),
            }),
        }
    }

    /// Stops everything; returns how the recording of what is shown ended, if there is one.
    pub fn stop(&mut self) -> Option<State> {
        let of_node = self.open.as_mut().and_then(|n| n.live.stop());
        let of_all = self.main.stop();
        for l in self.leaving.drain(..) {
            // It was told by the panic hook.
            l.join().ok();
        }
        of_node.or(of_all)
    }
}
