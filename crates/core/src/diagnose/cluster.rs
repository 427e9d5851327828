//! Facts that concern more than one pod: hanging calls of the kubelet's loops, pulls in flight, the health of nodes.

use kflow_model::pod::Condition;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use super::pulls::Pulls;
use super::rules::scale::AtMost;
use super::rules::{self, Attachments, ClaimWaits, Context, Storage, Workloads};
use super::scheduler::Usage;
use super::{CauseId, Verdict, cause, limits};
use crate::correlate::{Call, Pod, PodView, World};
use kflow_model::Evidence;
use kflow_model::cri::method;
use kflow_model::gap::WatchNote;
use kflow_model::{Body, Nanos, Source, Text};

mod node;

use node::missing;
pub use node::{Missing, NoCredentials, NodeHealth, NodeLease, Unlisted, leases_lost, low_on};

/// A call of the kubelet's loops that is in flight for longer than this, ns, shows that the runtime does not answer.
pub const LOOP_CALL_NS: i64 = limits::LOOP_CALL.ns;

/// What rules need to know about more than one pod, as of a moment; see the module.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The moment as of which this was gathered.
    now: Nanos,
    /// Until when the sources on nodes and of the control plane were followed: `now`, unless a recording of them ended
    /// before. Their silence is measured up to this moment.
    followed: Nanos,
    /// The kubelet's own calls that hang, oldest first.
    pub hanging: Vec<Arc<Call>>,
    /// Pulls in flight, oldest first.
    pub pulls: Vec<Arc<Call>>,
    /// Health of the nodes, by name.
    pub nodes: FxHashMap<Text, NodeHealth>,
    /// The node that the sources of the node (log, tap, cgroups) run on; empty when it is not known.
    pub local: Text,
    /// Time of the newest call that the tap saw, or of the newest line of the kubelet's log; `None` where they are of several nodes.
    pub node_last: Option<Nanos>,
    /// The newest time that the kubelet's lines and calls have themselves, which may be long before they arrived.
    pub node_spoke: Option<Nanos>,
    /// Since when no observation of the tap or of the kubelet's log came or was lost.
    pub node_quiet: Option<Nanos>,
    /// The tap or the kubelet's log has been read.
    pub has_node: bool,
    /// They are of several nodes.
    several: bool,
    /// The kubelet's log has been read.
    pub has_log: bool,
    /// Time of the newest record of the audit log.
    pub audited: Option<Nanos>,
    /// The API lists pods, so that a pod which the list does not contain does not exist.
    pub has_pods: bool,
    /// Pods were read as objects of the API, not from what kubectl prints, which may be some pods only.
    pub has_objects: bool,
    usage: OnceLock<Usage>,
    victims: OnceLock<Vec<Victim>>,
    held: OnceLock<FxHashMap<Text, Vec<String>>>,
    /// The pods that have a port of their node (`ns/name`), by node and port.
    host_ports: OnceLock<FxHashMap<(Text, i32), Vec<String>>>,
    queue: OnceLock<Pulls>,
    placed: OnceLock<FxHashMap<Text, (Nanos, String)>>,
    unready: OnceLock<FxHashMap<Text, Vec<Pod>>>,
    on_node: OnceLock<FxHashMap<Text, Vec<Pod>>>,
    /// The pods that hold a claim, by its namespace and name.
    holding: OnceLock<FxHashMap<(Text, Text), Vec<Pod>>>,
    /// When a pod of each scheduler was last bound.
    bound: OnceLock<FxHashMap<Text, Nanos>>,
    attachments: OnceLock<Attachments>,
    claims: OnceLock<ClaimWaits>,
    storage: OnceLock<Storage>,
    workloads: OnceLock<Workloads>,
    at_most: OnceLock<AtMost>,
    /// The verdicts on nodes that are not well, by name.
    told: OnceLock<Vec<(Text, Verdict)>>,
}

/// A pod that is preempted or deleted to make room for another one, and that still exists.
#[derive(Clone, Debug)]
pub struct Victim {
    /// The pod that has to make room.
    pub pod: Pod,
    /// Its `Preempted` Events, which name the pods that need the room, newest first.
    told: Vec<Evidence>,
    /// Its condition says that a scheduler preempts it, which does not name the pod that needs the room.
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
            .telling()
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
    /// Returns the evidence that it makes room for the pod `of`. `nominated` is the node that the scheduler has
    /// nominated for that pod, empty for none yet. An Event that names another pod shows that it does not.
    pub fn proof(&self, of: &PodView, nominated: &str) -> Option<&Evidence> {
        let uid = of.uid.as_str();
        let key = of.key();
        let names = |o: &&Evidence| match &o.body {
            // Before Kubernetes 1.26 the message has namespace and name.
            Body::Event(e) => {
                e.message.contains(uid)
                    || e.message.contains(&key)
                    || e.related.as_ref().is_some_and(|r| r.uid == uid)
            }
            _ => false,
        };
        let may_be_for = || {
            let priority = |p: &PodView| p.api.as_ref().map(|p| p.spec.priority);
            self.marked
                && self.told.is_empty()
                && if nominated.is_empty() {
                    priority(of) > priority(&self.pod)
                } else {
                    self.pod.node == nominated
                }
        };
        let told = self.told.iter().find(names);
        told.or_else(|| self.pod.evidence.last().filter(|_| may_be_for()))
    }
}

impl Cluster {
    /// Gathers the facts from the world as of `now`.
    pub fn gather(world: &World, now: Nanos) -> Self {
        let mut s = Self {
            now,
            followed: world.followed(now),
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
        // Calls for statistics hang when a single shim hangs; a runtime that stands still answers no call at all. And
        // while an agent is disconnected, or sends what it saw meanwhile, it is not known which of
        // its calls have ended.
        let behind = world.coverage().is_being_listed(WatchNote::CALLS);
        if behind || s.hanging.iter().all(|c| c.method.contains("Stats")) {
            s.hanging.clear();
        }
        let mut locals = 0;
        for n in world.nodes() {
            let mut f = NodeHealth::of(n);
            f.lease = NodeLease::of(world, &n.name);
            f.missing = missing(world, &n.name);
            if f.local {
                s.local = n.name.clone();
                locals += 1;
            }
            s.nodes.insert(n.name.clone(), f);
        }
        let last = |source| world.source(source).last;
        s.node_last = last(Source::Kubelet).max(world.source(Source::Cri).called);
        let spoke = |source| world.source(source).spoke;
        s.node_spoke = spoke(Source::Kubelet).max(spoke(Source::Cri));
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
        s.several = locals > 1;
        if s.several {
            // Which of the nodes was heard is not kept.
            (s.node_last, s.node_spoke, s.node_quiet) = (None, None, None);
        }
        s.audited = last(Source::Audit);
        s.has_log = last(Source::Kubelet).is_some();
        let mut objects = world.every_pod().iter().filter_map(|p| p.api.as_ref());
        s.has_pods = objects.clone().next().is_some();
        s.has_objects = objects.any(|p| p.resource_version > 0);
        s
    }
    /// Returns the verdicts on nodes that are not well, by name.
    pub fn told(&self, cx: Context<'_>) -> &[(Text, Verdict)] {
        self.told.get_or_init(|| {
            let mut names: Vec<&Text> = self.nodes.keys().collect();
            names.sort_unstable();
            let told = names.into_iter();
            told.filter_map(|name| Some((name.clone(), rules::node(cx, name)?)))
                .collect()
        })
    }
    /// Returns why a node does nothing for its pods, in a sentence: its kubelet or its runtime stands still.
    pub fn idle(&self, cx: Context<'_>, node: &str) -> Option<&str> {
        const STANDS: [CauseId; 4] = [cause::KF301, cause::KF302, cause::KF515, cause::KF523];
        let all = self.told(cx);
        let place = all.binary_search_by(|(name, _)| name.as_str().cmp(node));
        let (_, v) = all.get(place.ok()?)?;
        let stands = v.cause.is_some_and(|c| STANDS.contains(&c));
        stands.then_some(v.sentence.as_str())
    }
    /// Returns the resources that the pods of each node request. Like the following facts, it is computed when it is
    /// first needed.
    pub fn usage(&self, world: &World) -> &Usage {
        self.usage.get_or_init(|| Usage::of(world))
    }
    /// Returns the pods that have to make room for others, and that still exist.
    pub fn victims(&self, world: &World) -> &[Victim] {
        self.victims
            .get_or_init(|| world.every_pod().iter().filter_map(Victim::of).collect())
    }
    /// Returns the pods (`ns/name`) of a node that wait to be started or stopped.
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
    /// Returns the pods (`ns/name`) that have this port of the node.
    pub fn holders(&self, world: &World, node: &Text, port: i32) -> &[String] {
        let all = self.host_ports.get_or_init(|| {
            let mut all: FxHashMap<(Text, i32), Vec<String>> = FxHashMap::default();
            for p in world.every_pod().iter().filter(|p| p.gone.is_none()) {
                let api = p.api.as_ref().filter(|a| !a.status.phase.is_over());
                let Some(api) = api.filter(|_| !p.node.is_empty()) else {
                    continue;
                };
                let containers = api.spec.containers.iter().chain(&api.spec.init_containers);
                for port in containers.flat_map(|c| &c.host_ports) {
                    all.entry((p.node.clone(), *port))
                        .or_default()
                        .push(p.key());
                }
            }
            all
        });
        all.get(&(node.clone(), port)).map_or(&[], Vec::as_slice)
    }
    /// Returns the pods of a namespace that should run and are not ready.
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
    /// Returns the pods that are bound to a node and exist.
    pub fn on_node(&self, world: &World, node: &str) -> &[Pod] {
        let all = self.on_node.get_or_init(|| {
            let mut all: FxHashMap<Text, Vec<Pod>> = FxHashMap::default();
            for p in world.every_pod().iter().filter(|p| p.gone.is_none()) {
                all.entry(p.node.clone()).or_default().push(p.clone());
            }
            all
        });
        all.get(node).map_or(&[], Vec::as_slice)
    }
    /// Returns the pods that have a node, have not ended and mount a claim.
    pub fn holding(&self, world: &World, namespace: &Text, claim: &Text) -> &[Pod] {
        let all = self.holding.get_or_init(|| {
            let mut all: FxHashMap<(Text, Text), Vec<Pod>> = FxHashMap::default();
            for p in world.every_pod().iter().filter(|p| p.gone.is_none()) {
                let api = p.api.as_ref().filter(|a| !a.status.phase.is_over());
                let Some(api) = api.filter(|_| !p.node.is_empty()) else {
                    continue;
                };
                for claim in rules::claims_of(api) {
                    let its = all.entry((p.namespace.clone(), claim)).or_default();
                    its.push(p.clone());
                }
            }
            all
        });
        all.get(&(namespace.clone(), claim.clone()))
            .map_or(&[], Vec::as_slice)
    }
    /// Returns to which nodes volumes are attached.
    pub fn attachments(&self, world: &World) -> &Attachments {
        self.attachments.get_or_init(|| Attachments::of(world))
    }
    /// Returns the claims of which it is said that they wait for a pod.
    pub fn claims(&self, world: &World) -> &ClaimWaits {
        self.claims.get_or_init(|| ClaimWaits::of(world))
    }
    /// Returns the volumes that a claim may get, and the storage classes.
    pub fn storage(&self, world: &World) -> &Storage {
        self.storage.get_or_init(|| Storage::of(world))
    }
    /// Returns Kueue's Workloads by what they stand for.
    pub fn workloads(&self, world: &World) -> &Workloads {
        self.workloads.get_or_init(|| Workloads::of(world))
    }
    /// Returns what autoscalers say that are at their most.
    pub fn at_most(&self, world: &World) -> &AtMost {
        self.at_most.get_or_init(|| AtMost::of(world))
    }
    /// Returns the pod (`ns/name`) that a scheduler placed last, and when: it shows that the scheduler is alive.
    pub fn placed(&self, world: &World, scheduler: &str) -> Option<&(Nanos, String)> {
        let all = self.placed.get_or_init(|| {
            let mut all: FxHashMap<Text, (Nanos, String)> = FxHashMap::default();
            for p in world.every_pod() {
                let Some(api) = p.api.as_deref() else {
                    continue;
                };
                // No scheduler places a pod that names its node itself (`spec.nodeName`), so only the Event counts.
                let at = p.evidence.telling().find_map(|o| match &o.body {
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
    /// Returns when a pod was last bound that names this scheduler, by its condition, which a list without Events has too.
    /// The kubelet sets the same condition on a pod that was given its node otherwise, so that this shows no more than
    /// that the scheduler may be alive.
    pub fn last_bound(&self, world: &World, scheduler: &str) -> Option<Nanos> {
        let all = self.bound.get_or_init(|| {
            let mut all: FxHashMap<Text, Nanos> = FxHashMap::default();
            for p in world.every_pod().iter().filter_map(|p| p.api.as_deref()) {
                let own = p.owner.as_ref().is_some_and(|o| o.kind == "Node");
                let bound = p.condition("PodScheduled").filter(|c| c.is_true());
                let Some(at) = bound.and_then(|c| c.transition) else {
                    continue;
                };
                if p.mirror_of.is_none() && !own {
                    let newest = all.entry(p.spec.scheduler.clone()).or_insert(at);
                    *newest = at.max(*newest);
                }
            }
            all
        });
        all.get(scheduler).copied()
    }
    /// Returns which container waits behind which pull.
    pub fn queue(&self, world: &World) -> &Pulls {
        self.queue.get_or_init(|| Pulls::of(world, self.now))
    }
    #[cfg(test)]
    pub fn has_queue(&self) -> bool {
        self.queue.get().is_some()
    }
    /// Returns the evidence that a node does not exist; `None` when it exists or that is not known.
    pub fn missing(&self, world: &World, node: &str) -> Option<Missing> {
        match self.nodes.get(node) {
            Some(n) => n.missing.clone(),
            None if node.is_empty() => None,
            None => missing(world, node),
        }
    }
    /// Returns the newest renewal of a node's lease, also for a node that is in no list.
    pub fn lease(&self, world: &World, node: &str) -> Option<NodeLease> {
        match self.nodes.get(node) {
            Some(n) => n.lease,
            None => NodeLease::of(world, node),
        }
    }
    /// Returns the health of a node by name; `None` for a node that is not known.
    pub fn node(&self, name: &str) -> Option<&NodeHealth> {
        self.nodes.get(name)
    }
    /// True when the node sources run on this node, or may do so because a name is not known.
    pub fn is_local(&self, node: &str) -> bool {
        if self.several {
            return self.nodes.get(node).is_some_and(|n| n.local);
        }
        self.has_node && (self.local.is_empty() || node.is_empty() || self.local == node)
    }
    /// Returns for how long there has been no sign of life after `last`, ns, as far as its sources were followed.
    pub fn silence(&self, last: Nanos, now: Nanos) -> i64 {
        self.followed(now).since(last)
    }
    /// Returns until when the sources on nodes and of the control plane were followed, at most `now`.
    pub fn followed(&self, now: Nanos) -> Nanos {
        if self.followed < self.now {
            self.followed
        } else {
            now
        }
    }
    /// Returns the health of the node that the node sources run on.
    pub fn local_node(&self) -> Option<&NodeHealth> {
        self.nodes
            .get(&self.local)
            .or_else(|| self.nodes.values().find(|n| n.local))
    }
    /// Returns a hash that changes when something changes that the rules read from here. While it is the same,
    /// verdicts need not be made again.
    pub fn fingerprint(&self, now: Nanos) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut h = rustc_hash::FxHasher::default();
        // The calls themselves count, and not only their number, because verdicts name them.
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
            let late = f
                .and_then(|f| f.lease)
                .map(|l| l.is_over(self.followed(now)));
            let missing = f.map(|f| f.missing.is_some());
            let expired = f.map(|f| f.expired.is_some());
            f.map(|f| (&f.ready, f.skipping(now).is_some(), late, missing, expired))
                .hash(&mut h);
        }
        h.finish()
    }
}
