//! The health of a node, as its conditions, the log of its kubelet and runtime, and Events of it show.

use super::super::limits;
use super::super::signal::{is_starting, runtime_is_down};
use crate::correlate::{NODE_LEASES, NodeState, Presence, World};
use crate::flow::{self, Fact, Map};
use kflow_model::event::EventSeen;
use kflow_model::node::NodeSeen;
use kflow_model::pod::Condition;
use kflow_model::stamp::SECOND;
use kflow_model::{
    Body, Evidence, Nanos, Source, Text,
    log::{Component, LogLine, Severity},
};

/// How far apart the kubelet's lines about a runtime that it cannot ask may be, ns: it asks every five seconds, and waits for an answer as
/// long as for any call (pkg/kubelet/apis/config/v1beta1/defaults.go, RuntimeRequestTimeout 2 min).
const UNREACHED_NS: i64 = 130 * SECOND;

/// The newest renewal of a node's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLease {
    pub renewed: Nanos,
    /// Time after `renewed`, ns, at which the lease has run out and the kubelet counts as silent.
    pub lasts: i64,
    /// The source of the renewal: the watch of leases, or the audit log.
    pub source: Source,
}

/// Returns until when observations of leases were last lost, or the apiserver was away, if that was after `since`. A renewal may have
/// been among them, or was not possible, so a lease counts as not renewed only from that moment on.
pub fn leases_lost(world: &World, source: Source, since: Nanos) -> Option<Nanos> {
    let lost = match source {
        Source::Kube => {
            let coverage = world.coverage();
            let lost = coverage.lost(&["leases"]).map(|l| l.at);
            lost.max(coverage.away("leases"))
        }
        other => world
            .source(other)
            .lost_last()
            .max(world.source(Source::Kflow).lost_last()),
    };
    lost.filter(|at| *at > since)
}

impl NodeLease {
    pub(super) fn of(world: &World, node: &str) -> Option<Self> {
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

/// A manifest that the kubelet can make no static pod of, by its lines.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The first and the newest line.
    pub since: Nanos,
    last: Nanos,
    pub path: Text,
    pub why: Text,
    /// The newest line.
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
    /// The service manager's newest line about an end of the kubelet's process: when, and how.
    exited: Option<(Nanos, Text, Evidence)>,
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
    /// The kubelet's newest line that says that the runtime's network is not ready: when, and what the runtime says of it; and when it
    /// said so first.
    pub network: Option<(Nanos, Text, Evidence)>,
    network_since: Option<Nanos>,
    /// The kubelet's newest line that says that the apiserver does not have its node: when, and in which words; and when it said so first.
    pub unfound: Option<(Nanos, Text, Evidence)>,
    unfound_since: Option<Nanos>,
    /// The kubelet's newest line that says that it could not ask the runtime how it is: when, and why; and when it said so first.
    pub unreached: Option<(Nanos, Text, Evidence)>,
    unreached_since: Option<Nanos>,
    /// The node's pressure conditions that are true.
    pub pressures: Vec<Condition>,
    /// The kubelet's newest line or Event that says that it reclaims a resource: when, and which.
    pub reclaims: Option<(Nanos, Text, Evidence)>,
    /// The kubelet's newest line or Event that says that it found no more images to remove from a disk that is too full: when,
    /// and in which words.
    pub images_kept: Option<(Nanos, Text, Evidence)>,
    /// The manifests that the kubelet could make no static pod of.
    manifests: Vec<Manifest>,
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
    pub(super) fn of(node: &NodeState) -> Self {
        let mut f = Self::default();
        if let Some(n) = &node.api {
            if let Some(c) = n.condition("Ready") {
                f.ready = Some((c.status.clone(), c.reason.clone(), c.message.clone()));
                f.ready_since = c.transition;
                f.came_back = c.transition.filter(|_| c.is_true());
            } else if let Some((ready, since)) = by_taint(n) {
                (f.ready, f.ready_since) = (Some(ready), since);
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
            Fact::KubeletEnded => {
                self.exited.get_or_insert_with(why);
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
                let why = || Text::from(l.line().field("networkReady").unwrap_or(text));
                self.network.get_or_insert_with(|| (at, why(), o.clone()));
                goes_back(&mut self.network_since, at, limits::SKIPPING.ns);
            }
            Fact::RuntimeUnreached => {
                self.unreached.get_or_insert_with(why);
                goes_back(&mut self.unreached_since, at, UNREACHED_NS);
            }
            Fact::NodeNotFound => {
                self.unfound.get_or_insert_with(why);
                goes_back(&mut self.unfound_since, at, limits::NODE_STARTS.ns);
            }
            Fact::ReclaimBegan => {
                let resource = || Text::from(l.name("resourceName").unwrap_or_default());
                self.reclaims
                    .get_or_insert_with(|| (at, resource(), o.clone()));
            }
            Fact::ImagesNotFreed => {
                self.images_kept.get_or_insert_with(why);
            }
            Fact::ManifestRefused => {
                let path = Text::from(l.line().field("path").unwrap_or_default());
                let (last, why, evidence) = why();
                match self.manifests.iter_mut().find(|m| m.path == path) {
                    Some(m) => m.since = at,
                    None => self.manifests.push(Manifest {
                        since: at,
                        last,
                        path,
                        why,
                        evidence,
                    }),
                }
            }
            _ => {}
        }
    }
    /// Returns the manifests of static pods of which the kubelet said lately that it can make no pod of them.
    pub fn refused_manifests(&self, now: Nanos) -> impl Iterator<Item = &Manifest> {
        let is_recent = move |m: &&Manifest| now.since(m.last) < limits::MANIFESTS.ns;
        self.manifests.iter().filter(is_recent)
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
        let failed = self.fatal.as_ref();
        failed.filter(|(at, ..)| !self.works_since(*at, now))
    }
    /// Returns what the service manager says of the end of the kubelet's process, by an exit code or a signal, if nothing shows that the
    /// kubelet works since. A service that is stopped ends by SIGTERM, or without an error.
    pub fn exited(&self, now: Nanos) -> Option<&(Nanos, Text, Evidence)> {
        let is_orderly = |how: &str| how.contains("status=0/") || how.contains("/TERM");
        let exited = self.exited.as_ref();
        exited.filter(|(at, how, _)| !self.works_since(*at, now) && !is_orderly(how))
    }
    /// True for a kubelet that works, although it ended at that time.
    fn works_since(&self, at: Nanos, now: Nanos) -> bool {
        let is_long =
            |later: Nanos, earlier: Nanos| later.since(earlier) >= limits::KUBELET_RESTART.ns;
        self.heard.is_some_and(|h| is_long(h, at))
            || self.started.is_some_and(|s| s > at && is_long(now, s))
    }
    /// Returns the kubelet's newest line that says that it could not register its node, and why, if it has not done so
    /// since. It tries again after seven seconds at most.
    pub fn not_registered(&self) -> Option<&(Nanos, Text, Evidence)> {
        let is_over = |at: Nanos| self.registered.is_some_and(|r| r >= at);
        let failed = self.unregistered.as_ref();
        failed.filter(|(at, ..)| self.is_last(*at) && !is_over(*at))
    }
    /// Returns the kubelet's newest line that says that the runtime's network is not ready, what the runtime says of it, and since when
    /// that is. It repeats the line every five seconds (pkg/kubelet/kubelet.go, `updateRuntimeUp`).
    pub fn lacks_network(&self, now: Nanos) -> Option<(&Evidence, &str, Nanos)> {
        let (at, why, o) = self.network.as_ref()?;
        let since = self.network_since.unwrap_or(*at);
        let told = self.is_last(*at) && now.since(*at) < limits::SKIPPING.ns;
        let lasts = told && at.since(since) >= limits::NODE_STARTS.ns;
        (lasts && !self.starts(now) && !self.is_ready()).then_some((o, why.as_str(), since))
    }
    /// The same of the line that says that the apiserver does not have the kubelet's node. A kubelet that has just registered it has not
    /// heard of it yet.
    pub fn not_found(&self, now: Nanos) -> Option<(&Evidence, &str, Nanos)> {
        let (at, why, o) = self.unfound.as_ref()?;
        let since = self.unfound_since.unwrap_or(*at);
        let near = |r: Nanos| r >= *at || at.since(r) < limits::NODE_STARTS.ns;
        let is_new = self.registered.is_some_and(near);
        let told = self.is_last(*at) && now.since(*at) < limits::SKIPPING.ns;
        let lasts = told && !is_new;
        (lasts && !self.starts(now) && !self.is_ready()).then_some((o, why.as_str(), since))
    }
    /// Returns the kubelet's newest line that says that it could not ask the runtime, if that is recent: why, and since when it has said
    /// so. It asks every five seconds (pkg/kubelet/kubelet.go, `updateRuntimeUp`).
    pub fn unreached(&self, now: Nanos) -> Option<(&Evidence, &str, Nanos)> {
        let (at, why, o) = self.unreached.as_ref()?;
        let since = self.unreached_since.unwrap_or(*at);
        (now.since(*at) < limits::SKIPPING.ns).then_some((o, why.as_str(), since))
    }
    fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|(s, _, _)| s == "True")
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

/// Moves the begin of a trouble back to an earlier line about it, unless the lines are further apart than `apart` (ns): then the trouble
/// was over in between.
fn goes_back(since: &mut Option<Nanos>, at: Nanos, apart: i64) {
    if since.is_none_or(|later| later.since(at) <= apart) {
        *since = Some(at);
    }
}

/// Returns what the condition Ready of a node is of which no such condition is known, as of one whose description was cut: the
/// controller of nodes says the same by a taint, and where the node does not report by its other conditions
/// (pkg/controller/nodelifecycle/node_lifecycle_controller.go, `nodeConditionToTaintKeyStatusMap`, `tryUpdateNodeHealth`).
fn by_taint(n: &NodeSeen) -> Option<((Text, Text, Text), Option<Nanos>)> {
    const UNREACHABLE: [&str; 2] = [
        "node.kubernetes.io/unreachable",
        "node.alpha.kubernetes.io/unreachable",
    ];
    let mut taints = n.taints.iter();
    let is_silent = taints.any(|(key, ..)| UNREACHABLE.contains(&key.as_str()));
    is_silent.then(|| {
        let unknown = n.conditions.iter().find(|c| c.status == "Unknown");
        let (reason, message) =
            unknown.map_or_else(Default::default, |c| (c.reason.clone(), c.message.clone()));
        let since = unknown.and_then(|c| c.transition);
        (("Unknown".into(), reason, message), since)
    })
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

/// Returns the evidence that a node does not exist, if there is any.
pub(super) fn missing(world: &World, node: &str) -> Option<Missing> {
    match world.presence(node) {
        Presence::Missing { evidence, stale } => Some(Missing {
            evidence: evidence.clone(),
            stale,
        }),
        Presence::Exists | Presence::Unknown => None,
    }
}
