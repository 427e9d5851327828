//! Facts that concern more than one pod: hanging calls of the kubelet's loops, pulls in flight, the health of nodes.

use kflow_model::pod::Condition;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use super::limits;
use super::pulls::Pulls;
use super::rules::{Attachments, ClaimWaits, Workloads};
use super::scheduler::Usage;
use super::signal::{is_starting, runtime_is_down};
use crate::correlate::{Call, NODE_LEASES, NodeState, Pod, Presence, World};
use crate::flow::{self, Fact, Map};
use kflow_model::Evidence;
use kflow_model::cri::method;
use kflow_model::event::EventSeen;
use kflow_model::gap::WatchNote;
use kflow_model::{
    Body, Nanos, PodUid, Source, Text,
    log::{Component, LogLine, Severity},
};

/// A call of the kubelet's loops that is in flight for longer than this, ns, shows that the runtime does not answer.
pub const LOOP_CALL_NS: i64 = limits::LOOP_CALL.ns;

/// The newest renewal of a node's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLease {
    pub renewed: Nanos,
    /// Time after `renewed`, ns, at which the lease has run out and the kubelet counts as silent.
    pub lasts: i64,
    /// The source of the renewal: the watch of leases, or the audit log.
    pub source: Source,
}

/// Returns when observations of leases were last lost, if that was after `since`. A renewal may have been among them,
/// so a lease counts as not renewed only from that moment on.
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
        // The audit log has every renewal; the watch passes on only some of them.
        match (watched, audited) {
            (Some(w), Some(a)) if w.renewed > a.renewed.plus(limits::LEASE_MISSED.ns) => Some(w),
            (w, a) => a.or(w),
        }
    }
    /// True when the lease has run out at `now`, which is a moment at which its source was still followed.
    pub fn is_over(&self, now: Nanos) -> bool {
        now.since(self.renewed) >= self.lasts
    }
}

/// Evidence that a node does not exist.
#[derive(Clone, Debug)]
pub struct Missing {
    /// The node's deletion, or the end of a list of nodes that does not contain it.
    pub evidence: Evidence,
    /// The watch of nodes has broken since that evidence, so that it may be out of date.
    pub stale: bool,
}

/// A line of the kubelet that says why it cannot list objects of a kind.
#[derive(Clone, Debug)]
pub struct Unlisted {
    pub kind: Text,
    pub why: Text,
    pub evidence: Evidence,
}

/// A line of the kubelet that says why one of its credential providers gives none for an image.
#[derive(Clone, Debug)]
pub struct NoCredentials {
    pub provider: Text,
    pub image: Text,
    pub why: Text,
    pub evidence: Evidence,
}

/// The health of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeHealth {
    /// Status, reason and message of the node's condition Ready.
    pub ready: Option<(Text, Text, Text)>,
    /// Since when the condition Ready has this status.
    pub ready_since: Option<Nanos>,
    /// When the node became ready the last time, by that condition or by the kubelet's Event.
    pub came_back: Option<Nanos>,
    pub evidence: Option<Evidence>,
    /// The kubelet's newest line that says that it skips pods: when, and why.
    pub skips: Option<(Nanos, Text, Evidence)>,
    /// The kubelet's newest line that says why it exits: when, and why. [`NodeHealth::heard`] shows whether it has
    /// logged since.
    pub fatal: Option<(Nanos, Text, Evidence)>,
    /// The kubelet's newest line that says that it could not register its node: when, and why.
    pub unregistered: Option<(Nanos, Text, Evidence)>,
    /// When the kubelet began the last time, by its log.
    pub started: Option<Nanos>,
    /// When the kubelet said the last time that it has registered its node.
    pub registered: Option<Nanos>,
    /// The kubelet's newest line that says that its client certificate has expired.
    pub expired: Option<(Nanos, Evidence)>,
    /// The kubelet's newest line of each kind of object that it cannot list.
    pub unlisted: Vec<Unlisted>,
    /// The newest failure of each of the kubelet's credential providers for an image.
    pub credentials: Vec<NoCredentials>,
    /// The kubelet's newest line that says that the runtime's network is not ready.
    pub network: Option<(Nanos, Evidence)>,
    /// The node's pressure conditions that are true.
    pub pressures: Vec<Condition>,
    /// The kubelet's newest line or Event that says that it reclaims a resource: when, and which.
    pub reclaims: Option<(Nanos, Text, Evidence)>,
    /// The kubelet's newest line or Event that says that it found no more images to remove from a disk that is too full: when,
    /// and in which words.
    pub images_kept: Option<(Nanos, Text, Evidence)>,
    /// The line with which the runtime ended the last time: when, and which.
    pub runtime_ended: Option<(Nanos, Text, Evidence)>,
    /// Time of the kubelet's newest log line or request to the apiserver that is about the node as a whole.
    pub heard: Option<Nanos>,
    /// The lease that the kubelet renews in `kube-node-lease`.
    pub lease: Option<NodeLease>,
    /// The evidence that the node does not exist; `None` while it exists, or while no complete list of nodes is known.
    pub missing: Option<Missing>,
    /// The evidence holds observations of sources that run on the node.
    pub local: bool,
}

impl NodeHealth {
    fn of(node: &NodeState) -> Self {
        let mut f = Self::default();
        if let Some(n) = &node.api {
            if let Some(c) = n.condition("Ready") {
                f.ready = Some((c.status.clone(), c.reason.clone(), c.message.clone()));
                f.ready_since = c.transition;
                f.came_back = c.transition.filter(|_| c.is_true());
            }
            let pressures = n.conditions.iter();
            let pressures = pressures.filter(|c| c.is_true() && low_on(&c.kind).is_some());
            f.pressures = pressures.cloned().collect();
        }
        // An Event of a change tells the condition where no object of the node is known. The newest of each kind comes first.
        let mut turned: Vec<&'static str> = Vec::new();
        for o in node.evidence.iter().rev() {
            if o.source.is_node() {
                f.local = true;
            }
            match &o.body {
                Body::Event(e) => {
                    // The node's conditions, and a later Event of them, say more than that it was low once.
                    let is_told = node.api.is_some() || !turned.is_empty();
                    f.event(o, e, is_told);
                    if let Some((kind, low)) = turn(&e.reason).filter(|_| node.api.is_none())
                        && !turned.contains(&kind)
                    {
                        turned.push(kind);
                        if low {
                            f.pressures.push(Condition {
                                kind: kind.into(),
                                status: "True".into(),
                                transition: Some(o.stamp.at),
                                message: e.message.clone(),
                                ..Condition::default()
                            });
                            f.evidence.get_or_insert_with(|| o.clone());
                        }
                    }
                }
                Body::Node(_) if f.evidence.is_none() => f.evidence = Some(o.clone()),
                Body::Log(l) if l.component == Component::Kubelet => {
                    f.heard = f.heard.max(Some(o.stamp.at));
                    f.line(o, l);
                }
                // logrus exits after a line of the level fatal, and Go after the words of a panic.
                Body::Log(l) if l.severity == Severity::Fatal && is_of_runtime(l) => {
                    let ended = || (o.stamp.at, l.message.clone(), o.clone());
                    f.runtime_ended.get_or_insert_with(ended);
                }
                Body::Audit(a) if a.agent.starts_with("kubelet") || a.kubelet_of().is_some() => {
                    f.heard = f.heard.max(Some(o.stamp.at));
                }
                _ => {}
            }
        }
        f
    }
    /// `is_told`: it is known otherwise whether the node is low on a resource.
    fn event(&mut self, o: &Evidence, e: &EventSeen, is_told: bool) {
        let at = o.stamp.at;
        if e.reason == "NodeReady" {
            self.came_back = self.came_back.max(Some(at));
        }
        if is_told {
            return;
        }
        let Some(said) = Map::active().event(&e.reason, &e.message) else {
            return;
        };
        match said.fact {
            Fact::ReclaimBegan => {
                let resource = || Text::from(said.name("resourceName").unwrap_or_default());
                self.reclaims
                    .get_or_insert_with(|| (at, resource(), o.clone()));
            }
            Fact::ImagesNotFreed => {
                self.images_kept
                    .get_or_insert_with(|| (at, e.message.clone(), o.clone()));
            }
            _ => {}
        }
    }
    /// klog exits after a line of the severity Fatal (k8s.io/klog/v2, klog.go, `output`).
    fn line(&mut self, o: &Evidence, l: &LogLine) {
        let at = o.stamp.at;
        let ends = l.severity == Severity::Fatal;
        let text = &l.message;
        let Some(l) = flow::line(l) else {
            if ends {
                self.fatal
                    .get_or_insert_with(|| (at, text.clone(), o.clone()));
            }
            return;
        };
        let why = || {
            let error = Some(l.error()).filter(|e| !e.is_empty());
            (at, Text::from(error.unwrap_or(text)), o.clone())
        };
        // Lines come newest first, so that the first one of a kind stays.
        match l.fact() {
            Fact::KubeletFailed => {
                self.fatal.get_or_insert_with(why);
            }
            Fact::KubeletStarting => {
                self.started.get_or_insert(at);
            }
            Fact::RegistrationFailed => {
                self.unregistered.get_or_insert_with(why);
            }
            Fact::NodeRegistered => {
                self.registered.get_or_insert(at);
            }
            Fact::SyncSkipped => {
                self.skips.get_or_insert_with(why);
            }
            Fact::CertificateExpired => {
                self.expired.get_or_insert_with(|| (at, o.clone()));
            }
            Fact::ListFailed => {
                let kind = Text::from(l.name("kind").unwrap_or_default());
                if !self.unlisted.iter().any(|u| u.kind == kind) {
                    self.unlisted.push(Unlisted {
                        kind,
                        why: l.name("why").unwrap_or_default().into(),
                        evidence: o.clone(),
                    });
                }
            }
            Fact::CredentialsFailed => {
                let [provider, image, why] =
                    ["provider", "image", "why"].map(|n| Text::from(l.name(n).unwrap_or_default()));
                let mut known = self.credentials.iter();
                if !known.any(|c| c.provider == provider && c.image == image) {
                    self.credentials.push(NoCredentials {
                        provider,
                        image,
                        why,
                        evidence: o.clone(),
                    });
                }
            }
            Fact::NetworkNotReady => {
                self.network.get_or_insert_with(|| (at, o.clone()));
            }
            Fact::ReclaimBegan => {
                let resource = || Text::from(l.name("resourceName").unwrap_or_default());
                self.reclaims
                    .get_or_insert_with(|| (at, resource(), o.clone()));
            }
            Fact::ImagesNotFreed => {
                self.images_kept.get_or_insert_with(why);
            }
            _ => {}
        }
    }
    /// True when the node is low on a resource, by its conditions or by a recent line of its kubelet.
    pub fn is_low(&self, now: Nanos) -> bool {
        !self.pressures.is_empty() || self.reclaiming(now).is_some()
    }
    /// Returns the kubelet's newest line or Event that says that it reclaims a resource, if it is recent. The kubelet repeats
    /// the line every ten seconds while it has to; of its Events fewer are written.
    pub fn reclaiming(&self, now: Nanos) -> Option<&(Nanos, Text, Evidence)> {
        let counts = |o: &Evidence| match o.body {
            Body::Event(_) => limits::EVENTS_REPEAT.ns,
            _ => limits::RECLAIMING.ns,
        };
        self.reclaims
            .as_ref()
            .filter(|(at, _, o)| now.since(*at) < counts(o))
    }
    /// Returns the kubelet's newest word that it found no more images to remove from a disk that is too full, if it is recent.
    pub fn keeps_images(&self, now: Nanos) -> Option<&(Nanos, Text, Evidence)> {
        self.images_kept
            .as_ref()
            .filter(|(at, ..)| now.since(*at) < limits::IMAGES_KEPT.ns)
    }
    /// Returns the line with which the runtime ended, if it was its last word. `heard` is when the runtime was last heard.
    pub fn ended_runtime(&self, heard: Option<Nanos>) -> Option<&(Nanos, Text, Evidence)> {
        let works = |at: Nanos| {
            heard.is_some_and(|h| h.since(at) >= limits::KUBELET_RESTART.ns)
                || self.came_back.is_some_and(|b| b > at)
        };
        self.runtime_ended.as_ref().filter(|(at, ..)| !works(*at))
    }
    /// Returns the kubelet's newest line that says that it skips all pods, and why, if it is recent. The kubelet
    /// repeats the line at least every five seconds.
    pub fn skipping(&self, now: Nanos) -> Option<&(Nanos, Text, Evidence)> {
        self.skips.as_ref().filter(|(at, why, _)| {
            // A kubelet that has just started says this for a second or two, which is no trouble.
            now.since(*at) < limits::SKIPPING.ns && !is_starting(why)
        })
    }
    /// Returns the kubelet's newest line that says why it exits, if that was its last word. A kubelet that its supervisor
    /// restarts again and again repeats it; one that still logs long after it works, and so does one that has begun after it
    /// long ago.
    pub fn ended(&self, now: Nanos) -> Option<&(Nanos, Text, Evidence)> {
        let is_long =
            |later: Nanos, earlier: Nanos| later.since(earlier) >= limits::KUBELET_RESTART.ns;
        let works = |at: Nanos| {
            self.heard.is_some_and(|h| is_long(h, at))
                || self.started.is_some_and(|s| s > at && is_long(now, s))
        };
        self.fatal.as_ref().filter(|(at, ..)| !works(*at))
    }
    /// Returns the kubelet's newest line that says that it could not register its node, and why, if it has not done so
    /// since. It tries again after seven seconds at most.
    pub fn not_registered(&self) -> Option<&(Nanos, Text, Evidence)> {
        let is_over = |at: Nanos| self.registered.is_some_and(|r| r >= at);
        let failed = self.unregistered.as_ref();
        failed.filter(|(at, ..)| self.is_last(*at) && !is_over(*at))
    }
    /// True for a line that the kubelet repeats every few seconds, if it has logged nothing for long after it.
    fn is_last(&self, at: Nanos) -> bool {
        self.heard.is_none_or(|h| h.since(at) < limits::SKIPPING.ns)
    }
    /// True for a node that has not been there for long, or whose kubelet has begun a moment ago: it becomes ready yet.
    pub fn starts(&self, now: Nanos) -> bool {
        let is_new = |at: Nanos| now.since(at) < limits::NODE_STARTS.ns;
        let not_ready_yet = self.ready_since.filter(|_| self.not_ready());
        not_ready_yet.is_some_and(is_new) || self.started.is_some_and(is_new)
    }
    /// True when the node's condition Ready says that the runtime is down.
    pub fn runtime_down(&self) -> bool {
        self.ready
            .as_ref()
            .is_some_and(|(status, _, message)| status != "True" && runtime_is_down(message))
    }
    /// True when the API shows the node as not Ready.
    pub fn not_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|(s, _, _)| s != "True")
    }
}

fn is_of_runtime(l: &LogLine) -> bool {
    matches!(l.component, Component::Containerd | Component::Crio)
}

/// Returns the condition of which the kubelet reports by an Event that it has changed, and whether the node is low by it
/// (pkg/kubelet/nodestatus/setters.go, `MemoryPressureCondition`, `PIDPressureCondition`, `DiskPressureCondition`).
fn turn(reason: &str) -> Option<(&'static str, bool)> {
    Some(match reason {
        "NodeHasInsufficientMemory" => ("MemoryPressure", true),
        "NodeHasSufficientMemory" => ("MemoryPressure", false),
        "NodeHasDiskPressure" => ("DiskPressure", true),
        "NodeHasNoDiskPressure" => ("DiskPressure", false),
        "NodeHasInsufficientPID" => ("PIDPressure", true),
        "NodeHasSufficientPID" => ("PIDPressure", false),
        _ => return None,
    })
}

/// Returns the resource that a node with this condition is low on; `None` for a condition of another type.
pub fn low_on(condition: &str) -> Option<&'static str> {
    Some(match condition {
        "MemoryPressure" => "memory",
        "DiskPressure" => "disk space",
        "PIDPressure" => "process IDs",
        _ => return None,
    })
}

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
    /// When a pod of each scheduler was last bound.
    bound: OnceLock<FxHashMap<Text, Nanos>>,
    attachments: OnceLock<Attachments>,
    claims: OnceLock<ClaimWaits>,
    workloads: OnceLock<Workloads>,
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
    /// Returns the evidence that it makes room for the pod `of`. `nominated` is the node that the scheduler has
    /// nominated for that pod, empty for none yet.
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
            (s.node_last, s.node_quiet) = (None, None);
        }
        s.audited = last(Source::Audit);
        s.has_log = last(Source::Kubelet).is_some();
        let mut objects = world.every_pod().iter().filter_map(|p| p.api.as_ref());
        s.has_pods = objects.clone().next().is_some();
        s.has_objects = objects.any(|p| p.resource_version > 0);
        s
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
    /// Returns to which nodes volumes are attached.
    pub fn attachments(&self, world: &World) -> &Attachments {
        self.attachments.get_or_init(|| Attachments::of(world))
    }
    /// Returns the claims of which it is said that they wait for a pod.
    pub fn claims(&self, world: &World) -> &ClaimWaits {
        self.claims.get_or_init(|| ClaimWaits::of(world))
    }
    /// Returns Kueue's Workloads by what they stand for.
    pub fn workloads(&self, world: &World) -> &Workloads {
        self.workloads.get_or_init(|| Workloads::of(world))
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
