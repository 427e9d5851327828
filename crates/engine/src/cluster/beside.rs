//! Nodes whose agents are listened to beside the one that is open, each by a run of its own.

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

/// Nodes whose agents are listened to at a time beside the one that is open, at most.
pub const BESIDE: usize = 16;
/// How long an agent is listened to that is not asked for any more: pods are well and not well by turns.
const LINGERS: Duration = Duration::from_secs(60);
/// After what is heard was made it is not made anew for so many times as long.
const PAUSE: u32 = 4;

/// A node beside the one that is open.
#[derive(Debug)]
pub(super) struct Beside {
    /// It asks the apiserver for the node's pods alone.
    pub(super) live: Live,
    /// Its world by the node's clock, and of what that was made.
    pub(super) world: Option<(Arc<Snapshot>, Clocks, World)>,
}

/// The node's clock, and the apiserver's, each against this machine's.
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
        // What the API tells is put on the node's clock.
        if let (node, Some(apiserver)) = clocks {
            world.compare_clocks(apiserver, node);
            world.refresh();
        }
        self.world = Some((Arc::clone(snap), clocks, world));
    }
}

/// Whether a picture of a node has all that its agent saw before it was connected to.
#[derive(Debug, Default)]
pub struct Joined(Option<Nanos>);

impl Joined {
    /// Looks at the newest picture: the first one may lack that, and that it does.
    pub fn has_all(&mut self, snap: &Snapshot) -> bool {
        let first = *self.0.get_or_insert(snap.now);
        first != snap.now && !snap.world.coverage().is_being_listed(WatchNote::CALLS)
    }
}

/// A node that is listened to for who judges its pods.
#[derive(Debug)]
pub(super) struct Listened {
    live: Live,
    /// When it was asked for last.
    wanted: Instant,
    /// Its agent was heard once, up to what it saw then.
    heard: bool,
    joined: Joined,
}

/// What is known of a node by its agent and by the apiserver.
#[derive(Debug)]
pub struct NodeHeard {
    pub world: World,
    /// By the node's clock.
    pub now: Nanos,
    pub offset: Offset,
    /// What is known to be lost of what its agent saw, observations.
    pub lost: u64,
    /// Why its agent is not heard now: what came since is by the apiserver alone.
    pub off: Option<String>,
}

/// What is heard of a node.
#[derive(Debug)]
pub enum Hearing {
    /// It is not known yet whether anything is.
    Coming,
    Heard(Box<NodeHeard>),
    /// Nothing ever was, and why.
    Silent(String),
}

impl Cluster {
    /// Listens to the agents of these nodes, of the first ones where there are more than [`BESIDE`], and tells what is known of each.
    /// `None` while it is too early to make that anew.
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

    /// Starts a run for each of these nodes that has a ready agent. Runs of nodes that were not asked for within [`LINGERS`] end, and
    /// where there are [`BESIDE`], that of the node that was not asked for the longest.
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
            // Where it cannot be started it is tried again.
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

    /// Why nothing is heard of a node that is not listened to; `None` while that is not known.
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

    /// What there is to say of the agent of a node that is the one on this machine.
    pub fn note(&self, node: &str) -> Option<String> {
        let found = self.look.as_ref()?.found();
        found.of(node)?;
        found.note(node).map(str::to_owned)
    }

    /// How far the clock of a node is off, as its agent told.
    pub(super) fn clock(&self, node: &Text) -> Option<Offset> {
        self.marks.get(node.as_str()).and_then(Mark::clock)
    }

    /// A run of a node for its pods alone: the cluster's run watches all else already.
    pub(super) fn beside(&mut self, node: &str) -> Result<Beside, CannotOpen> {
        let config = Config {
            of_node_only: true,
            // All of them together keep as much as one that is open.
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
            // Nothing of it is by another clock then.
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
