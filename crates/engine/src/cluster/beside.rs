//! Runs that follow the agents of nodes beside the open one, one run per node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{CannotOpen, Cluster};
use crate::ask::{ApiTold, by_clock_ahead};
use crate::live::{AGENT, Agents, Config, Control, KEEP, KubeletLog, Live, Look};
use crate::snapshot::{Snapshot, SourceStatus};
use kflow_core::correlate::World;
use kflow_model::gap::WatchNote;
use kflow_model::offset::Offset;
use kflow_model::{Nanos, Source, Text, clock};
use kflow_sources::agent::Mark;

/// Most nodes beside the open one whose agents are followed at a time.
pub const BESIDE: usize = 16;
/// How long an agent is still followed that nobody asks about: pods change between healthy and unhealthy.
const LINGERS: Duration = Duration::from_secs(60);
/// [`Cluster::listen`] pauses for this many times as long as its last answer took to make.
const PAUSE: u32 = 4;

/// The run of a node beside the open one.
#[derive(Debug)]
pub(super) struct Beside {
    /// Asks the apiserver for the node's pods alone.
    pub(super) live: Live,
    /// The world by the node's clock, and the snapshot and clocks that it was made from.
    pub(super) world: Option<(Arc<Snapshot>, Clocks, World)>,
}

/// Offsets of the node's clock and of the apiserver's, each from this machine's.
type Clocks = (Offset, Option<Offset>);

impl Beside {
    pub(super) fn compare(&mut self, snap: &Arc<Snapshot>, clocks: Clocks) {
        let same = |(of, with, _): &(Arc<Snapshot>, Clocks, World)| {
            Arc::ptr_eq(of, snap) && *with == clocks
        };
        if self.world.as_ref().is_some_and(same) {
            return;
        }
        let mut world = World::clone(&snap.world);
        // Times that the apiserver set are moved to the node's clock.
        if let (node, Some(apiserver)) = clocks {
            world.compare_clocks(apiserver, node);
            world.refresh();
        }
        self.world = Some((Arc::clone(snap), clocks, world));
    }
}

/// Tells when the snapshots of a node include all that its agent observed before the connection.
#[derive(Debug, Default)]
pub struct Joined(Option<Nanos>);

impl Joined {
    /// Returns true when the newest snapshot includes it all. The first one never counts: it may lack both those
    /// observations and the note that they are still being sent.
    pub fn has_all(&mut self, snap: &Snapshot) -> bool {
        let first = *self.0.get_or_insert(snap.now);
        first != snap.now && !snap.world.coverage().is_being_listed(WatchNote::CALLS)
    }
}

/// A node that [`Cluster::listen`] follows.
#[derive(Debug)]
pub(super) struct Listened {
    live: Live,
    /// When the node was last asked about.
    wanted: Instant,
    /// The agent was connected once, and sent all that it had observed before.
    heard: bool,
    joined: Joined,
}

/// What is known of a node from its agent and from the apiserver.
#[derive(Debug)]
pub struct NodeHeard {
    pub world: World,
    /// By the node's clock.
    pub now: Nanos,
    pub offset: Offset,
    /// Number of the agent's observations that are known to be lost.
    pub lost: u64,
    /// Why the agent is not heard now; observations since then are the apiserver's alone.
    pub off: Option<String>,
}

/// What is known of one node.
#[derive(Debug)]
pub enum Hearing {
    /// It is not known yet whether its agent can be heard.
    Coming,
    Heard(Box<NodeHeard>),
    /// Its agent was never heard; the text says why.
    Silent(String),
}

impl Cluster {
    /// Follows the agents of these nodes, or of the first [`BESIDE`] of them, and returns what is known of each node.
    /// Returns `None` while it is too early to make a new answer.
    pub fn listen(&mut self, nodes: &[Text]) -> Option<Vec<(Text, Hearing)>> {
        let begun = clock::monotonic();
        if self.due.is_some_and(|due| begun < due) {
            return None;
        }
        let found = self.look.as_ref().map(Look::found).unwrap_or_default();
        self.listen_to(nodes, &found, begun);
        let whole = self.main.snapshot();
        let told = ApiTold::of(&whole.world, whole.log.iter(), nodes);
        let mut all = Vec::new();
        for node in nodes {
            let clocks = (self.clock(node).unwrap_or_default(), found.apiserver);
            let hearing = match self.listened.get_mut(node) {
                None => (self.unheard(node, &found)).map_or(Hearing::Coming, Hearing::Silent),
                Some(listened) => listened.hearing(node, &told, clocks),
            };
            all.push((node.clone(), hearing));
        }
        let now = clock::monotonic();
        self.due = Some(now + now.saturating_duration_since(begun) * PAUSE);
        Some(all)
    }

    /// Starts a run for each of these nodes that has a ready agent. Ends the runs of nodes that were not asked about
    /// for [`LINGERS`]; if there are [`BESIDE`], ends the one that was not asked about for the longest time.
    fn listen_to(&mut self, nodes: &[Text], found: &Agents, now: Instant) {
        for node in nodes {
            if let Some(listened) = self.listened.get_mut(node) {
                listened.wanted = now;
            }
        }
        let (stay, mut leave): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.listened)
                .into_iter()
                .partition(|(_, l)| now.saturating_duration_since(l.wanted) < LINGERS);
        self.listened = stay;
        for node in nodes.iter().filter(|n| is_ready(n, found)) {
            if self.listened.contains_key(node) {
                continue;
            }
            if self.listened.len() >= BESIDE {
                let unwanted = self.listened.iter().filter(|(_, l)| l.wanted != now);
                let longest = unwanted.min_by_key(|(_, l)| l.wanted);
                let Some(longest) = longest.map(|(n, _)| n.clone()) else {
                    break;
                };
                leave.extend(self.listened.remove_entry(&longest));
            }
            // A run that cannot be started is tried again by the next call.
            let Ok(Beside { live, .. }) = self.beside(node) else {
                continue;
            };
            let listened = Listened {
                live,
                wanted: now,
                heard: false,
                joined: Joined::default(),
            };
            self.listened.insert(node.clone(), listened);
        }
        if !leave.is_empty() {
            self.leaving.retain(|l| !l.is_finished());
            self.end(leave);
        }
    }

    /// Returns why a node that is not followed is not heard; `None` while that is not known.
    pub(super) fn unheard(&self, node: &Text, found: &Agents) -> Option<String> {
        if is_ready(node, found) {
            return Some(format!(
                "agents of {BESIDE} nodes are listened to at a time"
            ));
        }
        if !found.known {
            return found.failing.clone();
        }
        let namespace = self.namespace();
        let mut why = format!("no agent that is ready (namespace {namespace})");
        if let Some(said) = found.note(node) {
            why.push_str(&format!("; {said}"));
        }
        Some(why)
    }

    /// Returns a remark about a node's agent, if it is the one on this machine.
    pub fn note(&self, node: &str) -> Option<String> {
        let found = self.look.as_ref()?.found();
        found.of(node)?;
        found.note(node).map(str::to_owned)
    }

    /// Offset of a node's clock, as its agent reported it.
    pub(super) fn clock(&self, node: &Text) -> Option<Offset> {
        self.marks.get(node.as_str()).and_then(Mark::clock)
    }

    /// Starts a run for a node's pods alone: the cluster's run already watches everything else.
    pub(super) fn beside(&mut self, node: &str) -> Result<Beside, CannotOpen> {
        let config = Config {
            of_node_only: true,
            // All of these runs together keep as much as an open node's run.
            log: KEEP / BESIDE,
            kubelet_log: KubeletLog::Off,
            control: Control::default(),
            ..self.of_node(node)?
        };
        let live = Live::start(config).map_err(|source| CannotOpen::Start {
            node: node.to_owned(),
            source,
        })?;
        Ok(Beside { live, world: None })
    }
}

fn is_ready(node: &Text, found: &Agents) -> bool {
    found.of(node).is_some_and(|a| a.ready)
}

impl Listened {
    fn hearing(&mut self, node: &Text, told: &ApiTold, clocks: Clocks) -> Hearing {
        let snap = self.live.snapshot();
        let agent = snap.sources.iter().find(|s| s.name == AGENT);
        if agent.is_some_and(SourceStatus::is_on) {
            self.heard |= self.joined.has_all(&snap);
        }
        let off = agent.filter(|a| a.is_off()).map(|a| a.detail().to_owned());
        if !self.heard {
            return off.map_or(Hearing::Coming, Hearing::Silent);
        }
        let ahead = clocks.0.certain_ns();
        let mut world = match ahead {
            0 => World::clone(&snap.world),
            // A new world, of observations that are all moved to the node's clock.
            _ => {
                let mut world = World::selecting(Arc::clone(snap.world.selection()));
                let all = snap.log.iter().map(|o| by_clock_ahead(o, ahead));
                all.for_each(|o| world.observe(&o));
                world
            }
        };
        told.about(node, ahead).for_each(|o| world.observe(&o));
        if let (node, Some(apiserver)) = clocks {
            world.compare_clocks(apiserver, node);
        }
        world.refresh();
        let lost = Source::ALL.iter().map(|s| world.source(*s).lost).sum();
        Hearing::Heard(Box::new(NodeHeard {
            now: snap.now.plus(ahead),
            offset: clocks.0,
            lost,
            off,
            world,
        }))
    }
}
