//! One pass over a pod's evidence: what the pod did last, what failed since, and what is in flight.

mod calls;
mod events;
mod log;
mod records;
mod recurrence;
mod roles;
mod status;

pub use records::{ContainerHistory, Exit, KillWhy, PodCall, ProbeResult, Turn, never_ran};

use rustc_hash::FxHashMap;

use super::limits;
use super::signal::{self, Signal, Tally, same_subject};
use crate::correlate::PodView;
use crate::flow::{self, Fact, Stage};
use crate::timeline::Outcome;
use kflow_model::Evidence;
use kflow_model::{
    Body, ContainerId, Nanos, Source, Text,
    audit::AuditRecord,
    cri::{CallKey, ContainerEventKind, RuntimeState, method},
    fs::{FsAction, FsObject},
    log::LogLine,
    pod::{ContainerState, PodPhase, PodSeen, WatchEvent},
    stamp::SECOND,
};

/// What is known about a pod, in the form that rules ask for.
#[derive(Clone, Debug)]
pub struct PodHistory<'a> {
    pub view: &'a PodView,
    /// The newest API state; `None` when the API showed none.
    pub api: Option<&'a PodSeen>,
    /// The observation of the newest API state.
    pub api_evidence: Option<&'a Evidence>,
    /// The moment as of which the history is gathered.
    pub now: Nanos,
    /// The evidence holds CRI calls for this pod, seen by a tap.
    pub has_cri: bool,
    /// The evidence holds lines of the kubelet's log about this pod.
    pub has_log: bool,
    /// Since when the pod is bound to a node.
    pub bound: Option<Nanos>,
    /// Time of the first sign that the kubelet works on the pod.
    pub picked_up: Option<Nanos>,
    /// When the kubelet began to wait for the volumes, and what shows that: its log line, or the pod's cgroup, which
    /// it makes just before.
    pub volumes_wait: Option<(Nanos, &'a Evidence)>,
    /// When all volumes were mounted.
    pub volumes: Option<Nanos>,
    /// The volumes of which an Event says that they were attached, or mounted, each with when it last did.
    volumes_had: Vec<(&'a str, Fact, Nanos)>,
    /// The runtime's line that says that the sandbox waits for the network plugin; `None` once the runtime has said
    /// that it goes on.
    pub network_wait: Option<(&'a Evidence, &'a LogLine)>,
    /// Time by which a sandbox existed, by the newest evidence.
    pub sandbox: Option<Nanos>,
    /// When the newest sandbox was created.
    pub sandbox_since: Option<Nanos>,
    /// First RunPodSandbox since the last one that succeeded.
    pub sandbox_trying: Option<Nanos>,
    /// Number of RunPodSandbox calls.
    pub sandbox_attempts: u32,
    /// Number of RunPodSandbox calls that succeeded.
    pub sandboxes: u32,
    /// Calls in flight, oldest first.
    pub open: Vec<PodCall<'a>>,
    /// Calls that ran out of time, oldest first.
    pub timed_out: Vec<PodCall<'a>>,
    /// Failures: the newest one of each reason, container and source.
    pub signals: Vec<Signal<'a>>,
    pub containers: Vec<ContainerHistory<'a>>,
    /// When the pod's deletion was requested.
    pub deleted: Option<Nanos>,
    /// The deletion's grace period, s.
    pub grace_s: Option<i64>,
    /// Changes of the pod's readiness, oldest first.
    pub turns: Vec<Turn>,
    /// The newest change of a readiness probe's result in the kubelet's log: when, and whether to ready. It may be any
    /// container's, because old kubelets name none.
    pub readiness_turned: Option<(Nanos, bool)>,
    /// Number of PullImage calls of the pod that failed since the last one that succeeded.
    pub pull_failures: u32,
    /// Time of the newest observation of any source of the node.
    pub node_seen: Option<Nanos>,
    /// When the kubelet last found that the pod's sandbox or a container in it had started; it does not say which.
    some_started: Option<Nanos>,
    /// When the kubelet last found that all containers of the pod had started.
    all_started: Option<Nanos>,
    /// When the runtime last answered a call for the pod with success.
    pub answered: Option<Nanos>,
    /// When the sandbox was stopped; `None` once it is made again.
    pub sandbox_stopped: Option<Nanos>,
    /// When the kubelet or the runtime removed the pod.
    pub removed: Option<Nanos>,
    /// The evidence shows how the pod began, or its sandbox.
    begun: bool,
    ids: Vec<(ContainerId, Text)>,
    /// The evidence holds the runtime's own events about containers.
    told: bool,
}

/// The largest number of signals kept for one pod: the causes that matter are among the newest of each kind.
const SIGNALS: usize = 48;

/// True for a request to delete a pod that was refused, for example by a webhook. 404 and 409 do not count: the pod is
/// gone already, or has changed.
pub fn refused_delete(a: &AuditRecord) -> bool {
    a.verb == "delete" && a.resource == "pods" && a.code >= 400 && a.code != 404 && a.code != 409
}

/// True for a request to evict a pod that was refused, for example by a disruption budget (429).
pub fn refused_eviction(a: &AuditRecord) -> bool {
    a.verb == "create"
        && a.resource == "pods/eviction"
        && a.code >= 400
        && !matches!(a.code, 404 | 409)
}

/// True for a request to create a pod that was refused. 409 does not count: the pod exists already.
pub fn refused_create(a: &AuditRecord) -> bool {
    a.verb == "create" && a.resource == "pods" && a.code >= 400 && a.code != 409
}

/// True for a line of the kubelet with words that it also writes when it refuses to resize a running pod in place: it does not
/// mean that the pod was not admitted.
fn may_be_resize(s: &Signal<'_>) -> bool {
    let Body::Log(l) = &s.evidence.body else {
        return false;
    };
    let fact = flow::line(l).map(|l| l.fact());
    matches!(fact, Some(Fact::ResourceLacked | Fact::AdmissionDenied))
        && l.field("operation").is_none_or(|o| o == "resize")
}

/// A refused deletion is reported for this long, ns, unless a later one is let through.
const REFUSED_NS: i64 = limits::REFUSED.ns;

impl<'a> PodHistory<'a> {
    /// Returns the stage that the pod list shows for the pod, if it is one of `stages`.
    pub fn stage_among(&self, stages: std::ops::RangeInclusive<Stage>) -> Option<Stage> {
        let (stage, _) = self.view.current?;
        stages.contains(&stage).then_some(stage)
    }
    /// Returns the stage under which the timeline shows a call; `None` when the timeline does not show it.
    pub fn stage_of(&self, call: &PodCall<'_>) -> Option<Stage> {
        let mut spans = self.view.timeline.spans.iter();
        let step = spans.find(|s| s.call == Some(call.start.key));
        step.map(|s| s.stage)
    }
    /// True when a request to delete the pod was refused lately, and none has been let through.
    pub fn deletion_refused(&self) -> bool {
        self.deleted.is_none()
            && self
                .signals
                .iter()
                .any(|s| s.reason == "@delete" && self.now.since(s.at) < REFUSED_NS)
    }
    /// True when a request to evict the pod was refused lately.
    pub fn eviction_refused(&self) -> bool {
        self.deleted.is_none()
            && self
                .signals
                .iter()
                .any(|s| s.reason == "@evict" && self.now.since(s.at) < limits::EVICTION.ns)
    }
    /// True for a pod that was never created: all that is known about it is that its creation was refused, longer ago
    /// than such a refusal is reported.
    pub fn creation_forgotten(&self) -> bool {
        let refused =
            |o: &Evidence| matches!(&o.body, Body::Audit(a) if refused_create(a) || a.code == 0);
        self.api.is_none()
            && self
                .signals
                .iter()
                .any(|s| s.reason == "FailedCreate" && self.now.since(s.at) >= REFUSED_NS)
            && self.view.evidence.iter().all(refused)
    }
    /// True while the container's status may lag because of its postStart hook: the kubelet does not report a
    /// container as started while that hook runs.
    pub fn awaits_hook(&self, c: &ContainerHistory<'_>) -> bool {
        let waiting = c
            .status
            .is_none_or(|s| matches!(s.state, ContainerState::Waiting { .. }));
        waiting
            && self
                .api
                .and_then(|p| p.container(&c.name))
                .is_some_and(|s| !s.post_start.is_empty())
    }

    /// Returns whether a main container that exits with 0 is started again, by the pod's restart policy; `None` where that is
    /// not known. A description does not print it, and the template of a Job may not have Always (pkg/apis/batch/validation,
    /// `validateJobSpec`).
    pub fn restarts_after_success(&self) -> Option<bool> {
        let pod = self.api?;
        let of_job = || pod.owner.as_ref().is_some_and(|o| o.kind == "Job");
        match pod.spec.restart_policy.as_str() {
            "" => of_job().then_some(false),
            policy => Some(policy == "Always"),
        }
    }

    /// Gathers a pod's history from its evidence, in one pass.
    pub fn gather(view: &'a PodView, now: Nanos) -> Self {
        let mut f = Self {
            view,
            api: view.api.as_deref(),
            api_evidence: None,
            now,
            has_cri: false,
            has_log: view.evidence.has_kubelet_log(),
            bound: None,
            picked_up: None,
            volumes_wait: None,
            volumes: None,
            volumes_had: Vec::new(),
            network_wait: None,
            sandbox: None,
            sandbox_since: None,
            sandbox_trying: None,
            sandbox_attempts: 0,
            sandboxes: 0,
            open: Vec::new(),
            timed_out: Vec::new(),
            signals: Vec::new(),
            containers: Vec::new(),
            deleted: view.deletion_requested,
            grace_s: None,
            turns: Vec::new(),
            readiness_turned: None,
            pull_failures: 0,
            node_seen: view.evidence.node_seen(),
            some_started: None,
            all_started: None,
            answered: None,
            sandbox_stopped: None,
            removed: None,
            begun: false,
            ids: Vec::new(),
            told: false,
        };
        for c in &view.containers {
            f.container(&c.name);
            if !c.id.is_empty() {
                f.ids.push((c.id.clone(), c.name.clone()));
            }
        }
        let mut open: FxHashMap<CallKey, PodCall<'a>> = FxHashMap::default();
        view.evidence.each_telling(|o| f.read(o, &mut open));
        if f.told {
            f.told_exits();
        }
        if let Some((o, l)) = f.network_wait {
            f.push("@crio", "", l.message.as_str(), o, 1);
        }
        f.open = open.into_values().filter(|c| c.end.is_none()).collect();
        f.open.sort_by_key(|c| (c.at, c.start.key));
        f.finish();
        f.ends_of_runs();
        f.started_silently();
        f.backed_off();
        f
    }

    /// Reads one observation of the pod.
    fn read(&mut self, o: &'a Evidence, open: &mut FxHashMap<CallKey, PodCall<'a>>) {
        let at = o.stamp.at;
        match &o.body {
            Body::Event(e) => self.event(o, e),
            Body::Pod(p) if o.source == Source::Kube => {
                self.api_evidence = Some(o);
                self.turn_of(at, p);
                if p.spec.node.is_empty() {
                    self.bound = None;
                } else if self.bound.is_none() {
                    self.bound = Some(at);
                }
                self.exits_of(o, p);
            }
            Body::CallStart(c) => {
                self.has_cri = true;
                self.call_start(o, c, open);
            }
            Body::CallEnd(c) => self.call_end(o, c, open),
            Body::Inventory(i) => {
                for item in &i.items {
                    let s = &item.subject;
                    if s.container.is_empty() {
                        continue;
                    }
                    self.learn(&s.container_id, &s.container);
                    if item.state == RuntimeState::Exited {
                        let code = item.exit_code.unwrap_or(0);
                        let known = item.exit_code.is_some();
                        if known {
                            let finished = if item.finished.0 > 0 {
                                item.finished
                            } else {
                                at
                            };
                            self.exit(
                                &s.container,
                                Exit {
                                    at: finished,
                                    was_before: item.finished.0 <= 0,
                                    code: Some(code),
                                    reason: item.reason.clone(),
                                    message: Text::default(),
                                    id: s.container_id.clone(),
                                    evidence: o,
                                },
                            );
                        }
                    } else if item.state == RuntimeState::Running && item.started.0 > 0 {
                        let c = self.container(&s.container);
                        c.started = c.started.max(Some(item.started));
                    }
                }
            }
            Body::ContainerEvent(c) => {
                self.told = true;
                // A pod with a container in the runtime has been picked up by the kubelet.
                if c.kind != ContainerEventKind::Deleted {
                    self.sign(at);
                }
            }
            Body::Log(l) => self.log(o, l),
            Body::Fs(c) => {
                if matches!(
                    c.object,
                    FsObject::PodCgroup { .. } | FsObject::PodDir { .. }
                ) {
                    self.sign(at);
                    if c.action == FsAction::Created {
                        self.begun = true;
                        self.volumes_wait.get_or_insert((at, o));
                    }
                }
            }
            Body::Audit(a) => {
                // A kubelet asks for what a pod needs, or reports its status, once it has begun with it.
                if a.kubelet_of().is_some() {
                    self.sign(at);
                }
                if a.resource == "pods/binding" && a.code == 201 {
                    self.bound.get_or_insert(at);
                } else if refused_delete(a) {
                    self.push("@delete", "", a.message.as_str(), o, 1);
                } else if refused_eviction(a) {
                    self.push("@evict", "", a.message.as_str(), o, 1);
                } else if refused_create(a) && self.view.api.is_none() {
                    self.push("FailedCreate", "", a.message.as_str(), o, 1);
                }
            }
            _ => {}
        }
    }

    /// Returns the container with this name, and adds it when it is new.
    pub fn container(&mut self, name: &str) -> &mut ContainerHistory<'a> {
        let i = self
            .containers
            .iter()
            .position(|c| c.name == name)
            .unwrap_or_else(|| {
                self.containers.push(ContainerHistory {
                    name: name.into(),
                    ..ContainerHistory::default()
                });
                self.containers.len() - 1
            });
        // The position was found or added just now, so that `min` never changes it.
        let i = i.min(self.containers.len().saturating_sub(1));
        #[expect(
            clippy::indexing_slicing,
            reason = "the list has at least the one just pushed"
        )]
        &mut self.containers[i]
    }
    pub fn known(&self, name: &str) -> Option<&ContainerHistory<'a>> {
        self.containers.iter().find(|c| c.name == name)
    }
    fn sign(&mut self, at: Nanos) {
        if self.picked_up.is_none() {
            self.picked_up = Some(at);
        }
    }
    fn name_of(&self, id: &ContainerId) -> Text {
        if id.is_empty() {
            return Text::default();
        }
        self.ids
            .iter()
            .rev()
            .find(|(i, _)| i == id)
            .map(|(_, n)| n.clone())
            // Its CreateContainer was not seen, but the pod has only one container.
            .or_else(
                || match (self.api.is_some(), self.view.containers.as_slice()) {
                    (true, [only]) => Some(only.name.clone()),
                    _ => None,
                },
            )
            .unwrap_or_default()
    }

    /// Returns when the row of failures began of which an Event tells that counts them: a list has the last one only. An Event counts on
    /// after the container has run, which begins a new row.
    fn began(&self, o: &Evidence, container: &str) -> Nanos {
        let at = o.stamp.at;
        let Body::Event(e) = &o.body else { return at };
        let Some(first) = e.began().filter(|first| *first < at) else {
            return at;
        };
        let of_it = |c: &&ContainerHistory<'_>| container.is_empty() || c.name == container;
        let mut containers = self.containers.iter().filter(of_it);
        let ran = containers.any(|c| c.started.is_some_and(|t| t.plus(SECOND) >= first));
        if ran { at } else { first }
    }
    fn push(
        &mut self,
        reason: impl Into<std::borrow::Cow<'a, str>>,
        container: &str,
        text: impl Into<std::borrow::Cow<'a, str>>,
        o: &'a Evidence,
        count: u32,
    ) {
        let (reason, text) = (reason.into(), text.into());
        if !container.is_empty() {
            // A container is the pod's also when nothing but a failure is known about it.
            self.container(container);
        }
        // An error of another container than those that Events name.
        let is_unmade = matches!(
            reason.as_ref(),
            "ContainerError"
                | "CreateContainerConfigError"
                | "CreateContainerError"
                | "RunContainerError"
        );
        if self.api.is_none() && is_unmade && matches!(o.body, Body::Event(_)) {
            self.container(container);
        }
        // Without the pod's specification, an Event may not tell of which container it is.
        let is_only = || {
            matches!(o.body, Body::Event(_)) && self.containers.iter().all(|c| c.name.is_empty())
        };
        if reason == "CrashLoopBackOff" && (!container.is_empty() || is_only()) {
            let c = self.container(container);
            let last = c.backed_off.last().map(|o| o.stamp.at);
            if last.is_none_or(|at| c.started.is_some_and(|s| s > at)) {
                c.backed_off.push(o);
            }
        }
        let at = o.stamp.at;
        let first = self.began(o, container);
        let same = |s: &Signal<'_>| {
            s.source == o.source
                && s.reason == reason
                && s.container == container
                // A pod may have several volumes and claims: what the text is about tells their failures apart.
                && (!matches!(s.reason.as_ref(), "FailedMount" | "@log" | "@unmount") || same_subject(&s.text, &text))
        };
        if let Some(i) = self.signals.iter().position(same) {
            if let Some(old) = self.signals.get_mut(i) {
                // A source often reports one failure twice in the same moment: as a log line and as an Event.
                let again = count > 0 && at.since(old.at) > SECOND / 2;
                let more = old.tally.add(o, text.clone(), count);
                old.count = old.count.saturating_add(match o.body {
                    Body::Event(_) => more,
                    _ => u32::from(again),
                });
                // A state comes after all Events here, and the one in a list has an older time.
                old.at = old.at.max(at);
                old.first = old.first.min(first);
                // A state without a message says only that the failure holds.
                if !text.is_empty() || old.text.is_empty() {
                    old.text = text;
                    old.evidence = o;
                }
            }
            return;
        }
        if self.signals.len() >= SIGNALS {
            self.signals.remove(0);
        }
        let mut tally = Tally::default();
        tally.add(o, text.clone(), count);
        self.signals.push(Signal {
            reason,
            container: container.into(),
            text,
            at,
            first,
            stated: None,
            count: count.max(1),
            tally,
            source: o.source,
            evidence: o,
        });
    }

    /// True when the pod was started within what was observed, and not found as an earlier time had left it.
    pub fn is_ours(&self) -> bool {
        self.sandbox_attempts > 0 || self.bound.is_some() || self.volumes_wait.is_some()
    }
    /// True when the verdict's state has lasted longer than the evidence shows: it is of sources on the node alone, and the
    /// first of it is later than the pod's creation; or a description does not say when the pod was created, or an Event since
    /// when it occurs.
    pub fn began_before(&self) -> bool {
        let is_description = |p: &PodSeen| p.event == WatchEvent::Listed && p.resource_version == 0;
        if let Some((p, o)) = self
            .api
            .zip(self.api_evidence)
            .filter(|(p, _)| is_description(p))
        {
            return p.created.plus(SECOND) > o.stamp.seen;
        }
        let begun = self.begun || self.bound.is_some() || self.sandbox_attempts > 0;
        let mut evidence = self.view.evidence.iter();
        let undated = |o: &Evidence| matches!(&o.body, Body::Event(e) if e.first.is_none());
        if !begun && self.api.is_none() && evidence.clone().next().is_some_and(undated) {
            return true;
        }
        !begun && !self.view.uid.is_empty() && evidence.all(|o| o.source.is_node())
    }
    /// Returns when the output of kubectl was read that shows the pod; it lacks most timestamps. `None` for an object of the API.
    pub fn printed(&self) -> Option<Nanos> {
        let (p, o) = self.api.zip(self.api_evidence)?;
        (p.resource_version == 0).then_some(o.stamp.seen)
    }
    /// True when the pod's state says that it has failed for this reason.
    fn ended_with(&self, reason: &str) -> bool {
        let status = self.api.map(|p| &p.status);
        status.is_some_and(|s| s.phase == PodPhase::Failed && s.reason == reason)
    }
    /// True when the kubelet ended the pod, by its condition or its Event. The containers of such a pod may end with 0 when they are
    /// asked to, and a later status then says that it succeeded, without the reason
    /// (`pkg/kubelet/status/generate.go`, `generatePodReadyConditionForTerminalPhase`; kubelet_pods.go, `getPhase`).
    pub fn ended_by_kubelet(&self) -> bool {
        let condition = self.api.and_then(|p| p.condition("DisruptionTarget"));
        condition.is_some_and(|c| c.is_true() && c.reason == "TerminationByKubelet")
            || self.signals.iter().any(|s| s.reason == "Evicted")
    }
    /// True when the pod has ended, by the node's own sources alone.
    pub fn is_over_on_node(&self) -> bool {
        self.api.is_none()
            && self.sandbox_stopped.is_some()
            && !self.containers.iter().any(ContainerHistory::runs)
    }
    /// True when a signal is overtaken: something that follows its stage has happened after it.
    pub fn is_over(&self, stage: Stage, s: &Signal<'_>) -> bool {
        let after = |t: Option<Nanos>| t.is_some_and(|t| t > s.at);
        let c = self.known(&s.container);
        match s.reason.as_ref() {
            // The kubelet checks the network before it waits for volumes, so it has got past that check.
            "NetworkNotReady" if after(self.volumes_wait.map(|(t, _)| t)) => return true,
            "@delete" => return after(self.deleted.map(|d| d.plus(SECOND))),
            "@stop" | "FailedKillPod" => {
                return after(self.sandbox_stopped)
                    || c.is_some_and(|c| after(c.stopped))
                    || (signal::unanswered(&s.text)
                        && (after(self.answered) || self.is_no_longer_told(s)));
            }
            // A pod that runs already shows no other progress.
            "FailedSync" | "FailedPodSandBoxStatus" if self.is_no_longer_told(s) => return true,
            _ => {}
        }
        if (Stage::Cgroup..=Stage::Start).contains(&stage) && self.has_fallen_silent(s) {
            return true;
        }
        if (Stage::Admit..=Stage::Start).contains(&stage) && after(self.all_started)
            || (Stage::Admit..=Stage::Sandbox).contains(&stage) && after(self.some_started)
        {
            return true;
        }
        let begun = c.is_some_and(|c| after(c.created) || after(c.started));
        match stage {
            Stage::Api => false,
            Stage::Schedule => self.bound.is_some(),
            // A kubelet admits each of its pods again after a restart of its own or of the node: a pod that ran may be
            // refused later.
            Stage::Admit if self.api.is_some() => {
                let runs = self.containers.iter().any(|c| after(c.started));
                (self.sandbox.is_some() || runs) && !self.ended_with(&s.reason)
            }
            Stage::Admit => after(self.sandbox) || (self.sandbox.is_some() && may_be_resize(s)),
            Stage::Cgroup | Stage::Volumes => {
                // Events alone may tell nothing of the volumes but what follows them.
                let follows = |o: &Signal<'_>| {
                    signal::follows_volumes(&o.reason) && !matches!(o.evidence.body, Body::Pod(_))
                };
                let probed = |c: &ContainerHistory<'_>| after(c.probed());
                // A container that runs keeps its volumes where one of them cannot be mounted once more, as it is in each of its
                // pod's syncs (pkg/kubelet/volumemanager/reconciler, `mountOrAttachVolumes`). Events say late that it ran.
                let lately = |t: Nanos| t.plus(limits::EVENTS_REPEAT.ns) > s.first;
                let ran = |c: &ContainerHistory<'_>| {
                    let killed = c.killed.map(|(at, ..)| at);
                    let backed_off = c.backed_off.last().map(|o| o.stamp.at);
                    let signs = [c.probed(), killed, backed_off];
                    // A sync comes to a container's back-off only after the volumes (pkg/kubelet/kubelet.go, `SyncPod`).
                    let backs_off = c.status.is_some_and(|s| s.state.backs_off());
                    let told = self.api.is_none() || backs_off;
                    told && signs.into_iter().flatten().any(lately)
                };
                self.has_volume_of(s)
                    || self.containers.iter().any(ran)
                    || after(self.volumes.filter(|_| self.sandbox_attempts > 0))
                    || after(self.sandbox)
                    || self.containers.iter().any(probed)
                    || self.signals.iter().any(|o| o.at > s.at && follows(o))
            }
            Stage::Sandbox => {
                let runs = |c: &ContainerHistory<'_>| after(c.started);
                after(self.sandbox) || self.containers.iter().any(runs)
            }
            Stage::Image => begun || c.is_some_and(|c| after(c.pulled)),
            Stage::Create => begun,
            Stage::Start => c.is_some_and(|c| after(c.started)),
            Stage::Ready | Stage::Terminate => false,
        }
    }
    /// True for a failure to attach a volume that was attached later, or to mount one that was mounted later. An Event has whole seconds,
    /// and its age in what kubectl prints whole minutes: of two that are of the same time the success is the later one.
    fn has_volume_of(&self, s: &Signal<'_>) -> bool {
        let by: &[Fact] = match s.reason.as_ref() {
            "FailedAttachVolume" => &[Fact::VolumeAttached, Fact::VolumeSetUp],
            "FailedMapVolume" | "FailedMount" => &[Fact::VolumeSetUp],
            _ => return false,
        };
        // The first name in quotation marks: `… failed for volume "pvc-1" : …`.
        let volume = s.text.split('"').nth(1);
        let has = |(name, fact, at): &(&str, Fact, Nanos)| {
            Some(*name) == volume && by.contains(fact) && *at >= s.at
        };
        self.volumes_had.iter().any(has)
    }
    /// True for a failure that the kubelet would have reported again by now if it lasted.
    fn is_no_longer_told(&self, s: &Signal<'_>) -> bool {
        let again = match (&s.evidence.body, s.reason.as_ref()) {
            (Body::Event(_), _) if !self.has_log => limits::EVENTS_REPEAT,
            (_, "@stop" | "FailedKillPod" | "FailedSync" | "FailedPodSandBoxStatus") => {
                limits::LOG_RETRY
            }
            (_, reason) if reason.ends_with("BackOff") => limits::LOG_RETRY,
            _ => limits::LOG_REPEAT,
        };
        self.now.since(s.at) > again.ns
    }
    /// True for a failure that only the kubelet's log has reported, and that it does not report any more.
    fn has_fallen_silent(&self, s: &Signal<'_>) -> bool {
        let by_log = matches!(s.evidence.body, Body::Log(_)) && s.source == Source::Kubelet;
        by_log && self.api.is_none() && !self.has_cri && self.is_no_longer_told(s)
    }
    /// Returns the oldest call of this method in flight.
    pub fn in_flight(&self, method: &str) -> Option<&PodCall<'a>> {
        self.open.iter().find(|c| c.start.method == method)
    }
    /// Returns the containers whose pull was announced and has not ended, and for which no PullImage is in flight,
    /// each with the announcement and its time.
    pub fn pulling(&self) -> impl Iterator<Item = (&ContainerHistory<'a>, Nanos, &'a Evidence)> {
        self.containers.iter().filter_map(|c| {
            let (at, o) = c.pulling?;
            let over = c.pulled.max(c.created).max(c.started) >= Some(at);
            // A kubelet with many Events drops some: a back-off that it reports tells of the failure too. A status keeps
            // that of the last try.
            let failed = |s: &Signal<'_>| {
                let tells = s.reason == "ErrImagePull"
                    || s.reason == "ImagePullBackOff" && !matches!(s.evidence.body, Body::Pod(_));
                tells && s.container == c.name && s.at >= at
            };
            let called = |x: &PodCall<'_>| {
                x.start.method == method::PULL_IMAGE
                    && (x.container == c.name || x.container.is_empty())
            };
            // Of a kubelet that drops Events a status may have told it.
            let ended = self.view.timeline.spans.iter().any(|s| {
                let announced = s.evidence.first().is_some_and(|e| e.stamp == o.stamp);
                s.step == "EnsureImageExists"
                    && s.container == c.name
                    && announced
                    && s.outcome != Outcome::InFlight
            });
            let waits = !over
                && !ended
                && !self.signals.iter().any(failed)
                && !self.open.iter().any(called);
            waits.then_some((c, at, o))
        })
    }
    /// Whether the API shows the pod as ready; `None` without an API state or a condition Ready.
    pub fn is_ready(&self) -> Option<bool> {
        let c = self.api?.condition("Ready")?;
        Some(c.is_true())
    }
    /// When the pod was bound: as it was seen, or as its state tells, which a list shows long after that.
    fn bound(&self) -> Option<Nanos> {
        let pod = self.api.filter(|p| !p.spec.node.is_empty());
        let told = pod.and_then(|p| {
            let scheduled = p.condition("PodScheduled").filter(|c| c.is_true());
            let times = [scheduled.and_then(|c| c.transition), p.status.start_time];
            // The kubelet of a pod that it refused writes the condition anew when the pod has ended.
            times.into_iter().flatten().min()
        });
        // A watch shows the binding within the second that the state has.
        let near = |at: &Nanos| self.bound.is_some_and(|bound| bound.since(*at) < SECOND);
        told.filter(|at| !near(at)).or(self.bound)
    }
    /// Returns the moment since which a stage can have been going on.
    pub fn since(&self, stage: Stage) -> Nanos {
        let created = self.view.zero();
        let at = match stage {
            Stage::Api | Stage::Schedule => None,
            Stage::Admit => self.bound(),
            Stage::Cgroup | Stage::Volumes => self.picked_up.or(self.bound),
            Stage::Sandbox => self.sandbox_trying.or(self.picked_up),
            Stage::Image | Stage::Create => self
                .sandbox_since
                .or_else(|| self.containers.iter().filter_map(|c| c.first).min())
                .or(self.picked_up),
            Stage::Start => self.containers.iter().filter_map(|c| c.created).max(),
            Stage::Ready => self.containers.iter().filter_map(|c| c.started).max(),
            Stage::Terminate => self.deleted,
        };
        at.unwrap_or(created)
    }
}
