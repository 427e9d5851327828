//! What lines of the kubelet's and the runtime's log show about a pod.

use super::{ContainerHistory, PodHistory, Turn};
use crate::diagnose::limits;
use crate::diagnose::signal::{self, Signal};
use crate::flow::{self, Fact, Line};
use kflow_model::{
    Evidence, Nanos, Text,
    cri::method,
    log::{Component, LogLine},
};

impl<'a> PodHistory<'a> {
    pub(super) fn log(&mut self, o: &'a Evidence, l: &'a LogLine) {
        // Most lines of a runtime have an id only; those that create a container have its name too.
        if !l.container.is_empty() {
            self.learn(&l.container_id, &l.container);
        }
        // The runtime names a pod and its sandbox together when it has made the sandbox.
        let of_runtime = matches!(l.component, Component::Containerd | Component::Crio);
        if of_runtime && !l.pod.is_empty() && l.field("sandbox").is_some() {
            self.begun = true;
        }
        match flow::line(l) {
            Some(said) => self.line(o, &said),
            None => self.failure(o, l, None),
        }
    }

    fn line(&mut self, o: &'a Evidence, l: &Line<'a>) {
        let at = o.stamp.at;
        match l.fact() {
            Fact::EventLogged => {
                if let Some(e) = l.event() {
                    self.sign(at);
                    self.happened(o, e.reason, e.message, e.container, 1);
                }
            }
            Fact::VolumesAwaited => self.volumes_wait = Some((at, o)),
            Fact::PodAdded => {
                self.begun = true;
                self.sign(at);
            }
            Fact::SyncBegan => self.sign(at),
            Fact::SandboxWithoutAddress => {
                self.sign(at);
                self.failure(o, l.line(), Some(l));
            }
            Fact::VolumesMounted => self.volumes = self.volumes.max(Some(at)),
            Fact::NetworkAwaited => self.network_wait = Some((o, l.line())),
            Fact::NetworkArrived => self.network_wait = None,
            Fact::SandboxCreated => {
                self.begun = true;
                self.sandbox = self.sandbox.max(Some(at));
                // A call tells it more exactly.
                if !self.has_cri {
                    self.sandbox_since = self.sandbox;
                    self.sandbox_trying = None;
                }
            }
            Fact::PlegEvent => {
                if l.name("event")
                    .is_some_and(|e| e.contains("ContainerStarted"))
                {
                    self.begun = true;
                    self.sign(at);
                    self.some_started = self.some_started.max(Some(at));
                }
            }
            Fact::StartObserved => self.all_started(at),
            Fact::ContainerBegan => {
                if let Some(kind) = l.name("containerType").filter(|_| !l.container.is_empty()) {
                    self.container(&l.container).kind = kind;
                }
            }
            Fact::PodRemoved => self.removed = Some(at),
            Fact::PodDeleted | Fact::TeardownBegan => {
                if self.deleted.is_none() {
                    self.deleted = Some(at);
                }
            }
            Fact::PreStopBegan => {
                let name = self.log_container(l);
                self.container(&name).prestop = Some((at, o));
            }
            Fact::PreStopEnded => {
                let name = self.log_container(l);
                self.container(&name).prestop = None;
            }
            Fact::ProbeTurned => {
                let ready = l.name("status") == Some("ready");
                if l.name("probe") == Some("readiness") {
                    self.readiness_turned = Some((at, ready));
                }
                if l.name("probe") == Some("readiness")
                    && let Some(name) = self.probed(l)
                {
                    self.container(&name).ready_said = Some((at, ready));
                    if self.api.is_none() {
                        let ended = !ready && !self.container(&name).runs();
                        self.turn(Turn { at, ready, ended });
                    }
                }
            }
            Fact::ProbePassed => {
                let readiness = l.name("probeType") == Some("Readiness");
                self.runs_at(&l.container, at);
                let c = self.container(&l.container);
                if readiness {
                    c.ready_said = Some((at, true));
                }
            }
            fact @ (Fact::ProbeFailed | Fact::ProbeErrored) => {
                let kind = l.name("probeType").unwrap_or("Readiness");
                let text = l.name("output").unwrap_or(l.error());
                let container = l.name("container").unwrap_or_default();
                self.runs_at(container, at);
                self.probe(o, kind, text, container, fact == Fact::ProbeErrored);
            }
            Fact::KillExplained => {
                if let Some(m) = l.name("containerMessage") {
                    self.killing(o, m, &l.container);
                }
            }
            Fact::StopBegan => {
                // What is stopped was there.
                let name = self.log_container(l);
                if !name.is_empty() {
                    self.container(&name).first.get_or_insert(at);
                }
                if let Some(g) = l.name("gracePeriod").and_then(|g| g.parse().ok()) {
                    self.grace_s.get_or_insert(g);
                }
            }
            _ => self.failure(o, l.line(), Some(l)),
        }
    }

    /// Notes that all containers of the pod have started, as the kubelet reports
    /// (pkg/kubelet/util/pod_startup_latency_tracker.go, `hasPodStartedSLO`).
    fn all_started(&mut self, at: Nanos) {
        self.all_started = self.all_started.max(Some(at));
        let main = |c: &&ContainerHistory<'_>| !c.kind.starts_with("init");
        let names = self.containers.iter().filter(main).map(|c| c.name.clone());
        for name in names.collect::<Vec<_>>() {
            self.runs_at(&name, at);
        }
    }

    /// Notes that containers have been started again whose back-off is not reported any more.
    pub(super) fn started_silently(&mut self) {
        let back_off =
            |s: &&Signal<'_>| s.reason == "CrashLoopBackOff" && self.has_fallen_silent(s);
        let silent = self.signals.iter().filter(back_off);
        let silent: Vec<_> = silent.map(|s| (s.container.clone(), s.at)).collect();
        for (container, at) in silent {
            self.runs_at(&container, at.plus(limits::LOG_RETRY.ns));
        }
    }

    /// Notes that a container runs, where neither the runtime nor the API tells when it started: only a container that runs
    /// is probed (pkg/kubelet/prober/worker.go, `doProbe`).
    fn runs_at(&mut self, container: &str, at: Nanos) {
        if container.is_empty() || self.api.is_some() || self.has_cri {
            return;
        }
        let c = self.container(container);
        let backed_off = c.backed_off.last().map(|o| o.stamp.at);
        let ended = c.exits.last().map(|e| e.at).max(backed_off);
        if c.started.is_none_or(|started| Some(started) < ended) {
            c.started = Some(at);
            c.seen_running = true;
        }
    }

    fn failure(&mut self, o: &'a Evidence, l: &'a LogLine, said: Option<&Line<'a>>) {
        let Some((reason, container, text)) = signal::of_line(l, said) else {
            return;
        };
        if reason == "FailedPreStopHook" {
            self.container(&container).prestop = None;
        }
        // The runtime's log has container ids and no names.
        let container = if container.is_empty() {
            self.name_of(&l.container_id)
        } else {
            container
        };
        // A pod that had a sandbox waits for the next one since the first attempt failed.
        let is_of_sandbox = Some(reason.as_ref()) == signal::of_method(method::RUN_POD_SANDBOX);
        if is_of_sandbox && !self.has_cri && self.sandbox_since.is_some() {
            self.sandbox_trying.get_or_insert(o.stamp.at);
        }
        self.push(reason, &container, text, o, 1);
    }

    /// Returns the container whose readiness changed. A kubelet 1.31 does not name it (the recording S16): then it is
    /// known only when a single container has failed readiness probes, or the pod has a single container.
    fn probed(&self, l: &LogLine) -> Option<Text> {
        if !l.container.is_empty() {
            return Some(Text::clone(&l.container));
        }
        let mut probed = self.containers.iter().filter(|c| c.readiness.is_some());
        match (probed.next(), probed.next(), self.containers.as_slice()) {
            (Some(one), None, _) | (None, _, [one]) => Some(one.name.clone()),
            _ => None,
        }
    }

    fn log_container(&self, l: &LogLine) -> Text {
        if l.container.is_empty() {
            self.name_of(&l.container_id)
        } else {
            Text::clone(&l.container)
        }
    }
}
