//! What concerns more than one pod: hanging calls of the kubelet's loops, running pulls, how the nodes are.

use kflow_model::pod::Condition;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use super::limits;
use super::pulls::Pulls;
use super::scheduler::Usage;
use super::signal::{is_starting, runtime_is_down};
use crate::correlate::{Call, NODE_LEASES, NodeState, Pod, Presence, World};
use crate::flow::{self, Fact};
use kflow_model::Evidence;
use kflow_model::cri::method;
use kflow_model::gap::WatchNote;
use kflow_model::{
    Body, Nanos, PodUid, Source, Text,
    log::{Component, LogLine},
};

/// A call of the kubelet's loops that is in flight longer than this shows a runtime that does not answer.
pub const LOOP_CALL_NS: i64 = limits::LOOP_CALL.ns;

/// The newest renewal of a node's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLease {
    /// Time of the newest renewal.
    pub renewed: Nanos,
    /// This long after it the kubelet counts as silent, ns.
    pub lasts: i64,
    /// Who told: the watch of leases, or the audit log.
    pub source: Source,
}

/// When observations of leases were last lost, if after `since`. A renewal may have been among them: a lease counts as not
/// renewed only from then on.
pub fn leases_lost(world: &World, source: Source, since: Nanos) -> Option<Nanos> {
    let lost = match source {
        Source::Kube => world.coverage().lost(&["leases"]).map(|l| l.at),
        other => world
            .source(other)
            .lost_last()
            .max(world.source(Source::Kflow).lost_last()),
    };
    lost.filter(|at| *at > since)
}

impl NodeLease {
    fn of(world: &World, node: &str) -> Option<Self> {
        let heeding = |renewed: Nanos, lasts: i64, source| Self {
            renewed,
            lasts: lasts
                + leases_lost(world, source, renewed).map_or(0, |lost| lost.since(renewed)),
            source,
        };
        let watched = world
            .lease(NODE_LEASES, node)
            .map(|l| heeding(l.renewed, l.lasts(limits::LEASE.ns), Source::Kube));
        let audited = world
            .renewal(node)
            .map(|renewed| heeding(renewed, limits::LEASE_MISSED.ns, Source::Audit));
        // The audit log tells every renewal; the watch passes on those that count.
        match (watched, audited) {
            (Some(w), Some(a)) if w.renewed > a.renewed.plus(limits::LEASE_MISSED.ns) => Some(w),
            (w, a) => a.or(w),
        }
    }
    /// It has run out.
    pub fn is_over(&self, now: Nanos) -> bool {
        now.since(self.renewed) >= self.lasts
    }
}

/// A node that does not exist.
#[derive(Clone, Debug)]
pub struct Missing {
    /// The deletion, or the end of the list that lacks it.
    pub evidence: Evidence,
    /// The watch broke since.
    pub stale: bool,
}

/// How a node is.
#[derive(Clone, Debug, Default)]
pub struct NodeHealth {
    /// Status, reason and message of its condition Ready.
    pub ready: Option<(Text, Text, Text)>,
    /// Since when it is so.
    pub ready_since: Option<Nanos>,
    pub evidence: Option<Evidence>,
    /// The kubelet says that it skips pods: when, why.
    pub skips: Option<(Nanos, Text, Evidence)>,
    /// The kubelet ended because of what it says here, and has said nothing else since.
    pub fatal: Option<(Nanos, Text, Evidence)>,
    /// Newest word of the runtime's network not being ready.
    pub network: Option<(Nanos, Evidence)>,
    /// What it is low on, by its conditions.
    pub pressures: Vec<Condition>,
    /// Newest line of its kubelet on getting a resource back: when, which.
    pub reclaims: Option<(Nanos, Text, Evidence)>,
    /// Newest line of the kubelet's log, and newest request of it, about the node as a whole.
    pub heard: Option<Nanos>,
    /// The kubelet's lease.
    pub lease: Option<NodeLease>,
    /// Whether the node exists, by a complete list of nodes: not, and what says so.
    pub missing: Option<Missing>,
    /// The node's own sources are among the evidence.
    pub local: bool,
}

impl NodeHealth {
    fn of(node: &NodeState) -> Self {
        let mut f = Self::default();
        if let Some(n) = &node.api {
            if let Some(c) = n.condition("Ready") {
                f.ready = Some((c.status.clone(), c.reason.clone(), c.message.clone()));
                f.ready_since = c.transition;
            }
            let pressures = n.conditions.iter();
            let pressures = pressures.filter(|c| c.is_true() && low_on(&c.kind).is_some());
            f.pressures = pressures.cloned().collect();
        }
        for o in node.evidence.iter().rev() {
            if o.source.is_node() {
                f.local = true;
            }
            match &o.body {
                Body::Node(_) if f.evidence.is_none() => f.evidence = Some(o.clone()),
                Body::Log(l) if l.component == Component::Kubelet => {
                    f.heard = f.heard.max(Some(o.stamp.at));
                    f.line(o, l);
                }
                Body::Audit(a)
                    if a.agent.starts_with("kubelet") || a.user.starts_with("system:node:") =>
                {
                    f.heard = f.heard.max(Some(o.stamp.at));
                }
                _ => {}
            }
        }
        f
    }
    fn line(&mut self, o: &Evidence, l: &LogLine) {
        let at = o.stamp.at;
        let Some(l) = flow::line(l) else { return };
        let why = || (at, Text::from(l.error()), o.clone());
        // Lines come newest first.
        match l.fact() {
            Fact::KubeletFailed => {
                self.fatal.get_or_insert_with(why);
            }
            Fact::SyncSkipped => {
                self.skips.get_or_insert_with(why);
            }
            Fact::NetworkNotReady => {
                self.network.get_or_insert_with(|| (at, o.clone()));
            }
            Fact::ReclaimBegan => {
                let resource = || Text::from(l.name("resourceName").unwrap_or_default());
                self.reclaims
                    .get_or_insert_with(|| (at, resource(), o.clone()));
            }
            _ => {}
        }
    }
    /// The node is low on something: by its conditions, or by what its kubelet said lately.
    pub fn is_low(&self, now: Nanos) -> bool {
        !self.pressures.is_empty() || self.reclaiming(now).is_some()
    }
    /// The kubelet said lately that it gets a resource back. While it has to, it says so every ten seconds.
    pub fn reclaiming(&self, now: Nanos) -> Option<&(Nanos, Text, Evidence)> {
        self.reclaims
            .as_ref()
            .filter(|(at, ..)| now.since(*at) < limits::RECLAIMING.ns)
    }
    /// The kubelet said lately that it skips all pods, and why. It says so every five seconds at most.
    pub fn skipping(&self, now: Nanos) -> Option<&(Nanos, Text, Evidence)> {
        self.skips.as_ref().filter(|(at, why, _)| {
            // A kubelet that starts says this for a second or two; that is no trouble.
            now.since(*at) < limits::SKIPPING.ns && !is_starting(why)
        })
    }
    /// The node says in its condition that the runtime is down.
    pub fn runtime_down(&self) -> bool {
        self.ready
            .as_ref()
            .is_some_and(|(status, _, message)| status != "True" && runtime_is_down(message))
    }
    /// Not Ready by the API.
    pub fn not_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|(s, _, _)| s != "True")
    }
}

/// What a node is low on by a condition of this type.
pub fn low_on(condition: &str) -> Option<&'static str> {
    Some(match condition {
        "MemoryPressure" => "memory",
        "DiskPressure" => "disk space",
        "PIDPressure" => "process IDs",
        _ => return None,
    })
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The moment that it was gathered for.
    now: Nanos,
    /// The kubelet's own calls that hang, oldest first.
    pub hanging: Vec<Arc<Call>>,
    /// Pulls in flight, oldest first.
    pub pulls: Vec<Arc<Call>>,
    /// Nodes by name.
    pub nodes: FxHashMap<Text, NodeHealth>,
    /// The node that the node's own sources run on; empty when it is not known.
    pub local: Text,
    /// Newest observation of the tap and of the kubelet's log.
    pub node_last: Option<Nanos>,
    /// Since when neither came, nor was any of them lost.
    pub node_quiet: Option<Nanos>,
    /// There are node sources, API sources.
    pub has_node: bool,
    /// There is the kubelet's log.
    pub has_log: bool,
    /// Newest record of the audit log.
    pub audited: Option<Nanos>,
    /// There are watches.
    pub has_api: bool,
    /// Pods are listed by the API, so that one which is not in the list is not there.
    pub has_pods: bool,
    usage: OnceLock<Usage>,
    victims: OnceLock<Vec<Victim>>,
    held: OnceLock<FxHashMap<Text, Vec<String>>>,
    queue: OnceLock<Pulls>,
    placed: OnceLock<FxHashMap<Text, (Nanos, String)>>,
    unready: OnceLock<FxHashMap<Text, Vec<Pod>>>,
}

/// A pod that was told to go so that another finds room, and has not gone.
#[derive(Clone, Debug)]
pub struct Victim {
    /// The pod that was told to make room.
    pub pod: Pod,
    /// Events that tell for which pods, newest first.
    told: Vec<Evidence>,
    /// Its condition says that a scheduler preempts it, and not for whom.
    marked: bool,
}

impl Victim {
    fn of(pod: &Pod) -> Option<Self> {
        let api = pod.api.as_deref();
        let disrupted = api.and_then(|a| a.condition("DisruptionTarget"));
        let leaves = pod.gone.is_none()
            && (pod.deletion_requested.is_some()
                || disrupted.is_some()
                || api.is_some_and(|a| a.deletion.is_some()));
        if !leaves {
            return None;
        }
        let preempted = |o: &&Evidence| matches!(&o.body, Body::Event(e) if e.reason == "Preempted" && !e.is_of_another_pod(&pod.uid, &pod.mirrors));
        let told: Vec<Evidence> = pod
            .evidence
            .iter()
            .rev()
            .filter(preempted)
            .cloned()
            .collect();
        let marked = disrupted.is_some_and(|c| c.reason == "PreemptionByScheduler");
        (marked || !told.is_empty()).then(|| Self {
            pod: Arc::clone(pod),
            told,
            marked,
        })
    }
    /// What says that it goes for a pod, which is nominated for a node or (empty) for none yet.
    pub fn proof(&self, of: &PodUid, nominated: &str) -> Option<&Evidence> {
        let names = |o: &&Evidence| match &o.body {
            Body::Event(e) => {
                e.message.contains(of.as_str())
                    || e.related.as_ref().is_some_and(|r| r.uid == of.as_str())
            }
            _ => false,
        };
        let marked = self.marked && (nominated.is_empty() || self.pod.node == nominated);
        self.told
            .iter()
            .find(names)
            .or_else(|| self.pod.evidence.last().filter(|_| marked))
    }
}

fn missing(world: &World, node: &str) -> Option<Missing> {
    match world.presence(node) {
        Presence::Missing { evidence, stale } => Some(Missing {
            evidence: evidence.clone(),
            stale,
        }),
        Presence::Exists | Presence::Unknown => None,
    }
}

impl Cluster {
    /// Reads the world once.
    pub fn gather(world: &World, now: Nanos) -> Self {
        let mut s = Self {
            now,
            ..Self::default()
        };
        for c in world.calls().in_flight() {
            if c.start > now {
                continue;
            }
            if c.method == method::PULL_IMAGE {
                s.pulls.push(c.clone());
            } else if c.is_noise() && now.since(c.start) >= LOOP_CALL_NS {
                s.hanging.push(c.clone());
            }
        }
        // Statistics hang with one shim that hangs; a runtime that stands still answers nothing. And while an agent is away, or tells
        // what it saw meanwhile, nobody knows which of its calls have ended.
        let behind = world.coverage().is_being_listed(WatchNote::CALLS);
        if behind || s.hanging.iter().all(|c| c.method.contains("Stats")) {
            s.hanging.clear();
        }
        for n in world.nodes() {
            let mut f = NodeHealth::of(n);
            f.lease = NodeLease::of(world, &n.name);
            f.missing = missing(world, &n.name);
            if f.local {
                s.local = n.name.clone();
            }
            s.nodes.insert(n.name.clone(), f);
        }
        let last = |source| world.source(source).last;
        s.node_last = last(Source::Kubelet).max(last(Source::Cri));
        let lost = |source| world.source(source).lost_last();
        s.node_quiet = s.node_last.map(|last| {
            let node = lost(Source::Kubelet).max(lost(Source::Cri));
            node.max(lost(Source::Kflow))
                .map_or(last, |at| at.max(last))
        });
        if behind {
            s.node_quiet = s.node_last.map(|_| now);
        }
        s.has_node = s.node_last.is_some();
        s.audited = last(Source::Audit);
        s.has_log = last(Source::Kubelet).is_some();
        s.has_api = last(Source::Kube).is_some();
        s.has_pods = world.every_pod().iter().any(|p| p.api.is_some());
        s
    }
    /// What the pods of each node ask for. Read when a pod first needs it, like the rest of these.
    pub fn usage(&self, world: &World) -> &Usage {
        self.usage.get_or_init(|| Usage::of(world))
    }
    /// Pods that were told to make room for others, and are not gone.
    pub fn victims(&self, world: &World) -> &[Victim] {
        self.victims
            .get_or_init(|| world.every_pod().iter().filter_map(Victim::of).collect())
    }
    /// Pods of a node that wait to be started or stopped.
    pub fn held_up(&self, world: &World, node: &str) -> &[String] {
        let all = self.held.get_or_init(|| {
            let mut all: FxHashMap<Text, Vec<String>> = FxHashMap::default();
            for p in world.every_pod().iter().filter(|p| p.gone.is_none()) {
                let unready = p.api.as_ref().is_some_and(|a| {
                    a.condition("Ready").is_none_or(|c| !c.is_true()) && !a.status.phase.is_over()
                });
                if p.deletion_requested.is_some() || unready {
                    all.entry(p.node.clone()).or_default().push(p.key());
                }
            }
            all
        });
        all.get(node).map_or(&[], Vec::as_slice)
    }
    /// Pods of a namespace that are to run and are not ready.
    pub fn unready_in(&self, world: &World, namespace: &str) -> &[Pod] {
        let all = self.unready.get_or_init(|| {
            let mut all: FxHashMap<Text, Vec<Pod>> = FxHashMap::default();
            for p in world.every_pod().iter().filter(|p| p.gone.is_none()) {
                let ready = p.api.as_ref().is_none_or(|a| {
                    a.condition("Ready").is_some_and(Condition::is_true) || a.status.phase.is_over()
                });
                if !ready {
                    all.entry(p.namespace.clone()).or_default().push(p.clone());
                }
            }
            all
        });
        all.get(namespace).map_or(&[], Vec::as_slice)
    }
    /// The newest pod that a scheduler placed, and when: such a scheduler is alive.
    pub fn placed(&self, world: &World, scheduler: &str) -> Option<&(Nanos, String)> {
        let all = self.placed.get_or_init(|| {
            let mut all: FxHashMap<Text, (Nanos, String)> = FxHashMap::default();
            for p in world.every_pod() {
                let Some(api) = p.api.as_deref() else {
                    continue;
                };
                // A pod that names its node itself is scheduled by nobody: only the event tells.
                let at = p.evidence.iter().find_map(|o| match &o.body {
                    Body::Event(e) if e.reason == "Scheduled" => Some(o.stamp.at),
                    _ => None,
                });
                let Some(at) = at else { continue };
                let newest = all
                    .entry(api.spec.scheduler.clone())
                    .or_insert_with(|| (at, p.key()));
                if at > newest.0 {
                    *newest = (at, p.key());
                }
            }
            all
        });
        all.get(scheduler)
    }
    /// Which container waits behind which pull.
    pub fn queue(&self, world: &World) -> &Pulls {
        self.queue.get_or_init(|| Pulls::of(world, self.now))
    }
    /// The node does not exist.
    pub fn missing(&self, world: &World, node: &str) -> Option<Missing> {
        match self.nodes.get(node) {
            Some(n) => n.missing.clone(),
            None if node.is_empty() => None,
            None => missing(world, node),
        }
    }
    /// The newest renewal of a node's lease, of nodes too that are not listed.
    pub fn lease(&self, world: &World, node: &str) -> Option<NodeLease> {
        match self.nodes.get(node) {
            Some(n) => n.lease,
            None => NodeLease::of(world, node),
        }
    }
    /// How the node of a pod is.
    pub fn node(&self, name: &str) -> Option<&NodeHealth> {
        self.nodes.get(name)
    }
    /// The node's own sources tell of this node.
    pub fn is_local(&self, node: &str) -> bool {
        self.has_node && (self.local.is_empty() || node.is_empty() || self.local == node)
    }
    /// How the local node is, under whatever name.
    pub fn local_node(&self) -> Option<&NodeHealth> {
        self.nodes
            .get(&self.local)
            .or_else(|| self.nodes.values().find(|n| n.local))
    }
    /// Changes with whatever the rules take from here, so that nothing is diagnosed anew without a reason.
    pub fn fingerprint(&self, now: Nanos) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut h = rustc_hash::FxHasher::default();
        // Verdicts name the calls.
        for calls in [&self.hanging, &self.pulls] {
            calls.len().hash(&mut h);
            for c in calls {
                c.key.hash(&mut h);
            }
        }
        let mut names: Vec<&Text> = self.nodes.keys().collect();
        names.sort_unstable();
        for n in names {
            let f = self.nodes.get(n);
            n.hash(&mut h);
            let late = f.and_then(|f| f.lease).map(|l| l.is_over(now));
            let missing = f.map(|f| f.missing.is_some());
            f.map(|f| (&f.ready, f.skipping(now).is_some(), late, missing))
                .hash(&mut h);
        }
        h.finish()
    }
}
