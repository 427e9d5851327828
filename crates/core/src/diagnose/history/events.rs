//! What Events and API states show about a pod: kills, probes, exits.

use super::{Exit, KillWhy, PodHistory, ProbeResult};
use crate::diagnose::signal;
use crate::flow::{self, Fact, Map};
use kflow_model::Evidence;
use kflow_model::{
    Body, ContainerId, Nanos, Text,
    cri::{ContainerEventKind, OOM_KILLED},
    event::EventSeen,
    pod::{ContainerSpec, ContainerState, ContainerStatus, PodSeen},
    stamp::SECOND,
};

impl<'a> PodHistory<'a> {
    pub(super) fn event(&mut self, o: &'a Evidence, e: &'a EventSeen) {
        if e.object.kind != "Pod" && !e.object.kind.is_empty() {
            return;
        }
        // An Event of a pod that this one preempts.
        if e.is_of_another_pod(&self.view.uid, &self.view.mirrors) {
            return;
        }
        // virtual-kubelet `node/pod.go`, podEventCreateFailed and its like; a table of Events may not say whose they are.
        let of_provider = e.component.is_empty() && e.reason.starts_with("Provider");
        if e.node_agent().is_some() || of_provider {
            // A list has the last of the occurrences that an Event counts.
            let began = e.began().unwrap_or(o.stamp.at);
            if self.picked_up.is_some_and(|at| began.plus(SECOND) < at) {
                self.picked_up = Some(began);
            }
            self.sign(began);
        }
        // An autoscaler uses the scheduler's reason, and speaks of nodes that do not exist yet.
        let reason = match e.reason.as_str() {
            "FailedScheduling" if e.is_of_autoscaler() => "@autoscaler",
            reason => reason,
        };
        self.happened(o, reason, &e.message, &e.container, e.count);
    }

    /// Reads an Event, from the API or from the kubelet's log.
    pub(super) fn happened(
        &mut self,
        o: &'a Evidence,
        reason: &'a str,
        message: &'a str,
        container: &str,
        count: u32,
    ) {
        let at = o.stamp.at;
        match reason {
            "Scheduled" => {
                self.bound.get_or_insert(at);
            }
            "Pulling" => {
                self.sandbox = self.sandbox.max(Some(at));
                let c = self.container(container);
                c.first.get_or_insert(at);
                c.pulling = Some((at, o));
            }
            "Pulled" => {
                self.sandbox = self.sandbox.max(Some(at));
                let c = self.container(container);
                c.pulled = c.pulled.max(Some(at));
            }
            "Created" => {
                self.sandbox = self.sandbox.max(Some(at));
                let c = self.container(container);
                c.created = c.created.max(Some(at));
            }
            "Started" => {
                let c = self.container(container);
                c.started = c.started.max(Some(at));
                c.starts = c.starts.max(count);
            }
            "Killing" => self.killing(o, message, container),
            "SuccessfulAttachVolume" | "SuccessfulMountVolume" => {
                let said = Map::active().event(reason, message);
                if let Some((said, name)) = said.and_then(|s| Some((s.fact, s.name("volume")?))) {
                    self.volumes_had
                        .retain(|(of, fact, _)| (*of, *fact) != (name, said));
                    self.volumes_had.push((name, said, at));
                }
            }
            // Of a pod, as agents report it that read the kernel's log; of a node it is node-problem-detector's.
            "OOMKilling" => {
                let exit = Exit {
                    reason: OOM_KILLED.into(),
                    was_before: false,
                    ..Exit::before(o)
                };
                self.exit(container, exit);
            }
            "Unhealthy" | "ProbeError" => {
                let said = Map::active().event(reason, message);
                let errored = said.is_some_and(|s| s.fact == Fact::ProbeErrored);
                let text = said.and_then(|s| s.name("output")).unwrap_or(message);
                self.probe(o, message, text, container, errored);
                return;
            }
            _ => {}
        }
        if let Some((reason, text)) = signal::of_event(reason, message) {
            self.push(reason, container, text, o, count);
        }
    }

    pub(super) fn killing(&mut self, o: &'a Evidence, message: &str, container: &str) {
        let why = match flow::event("Killing", message) {
            Some(Fact::LivenessKill) => KillWhy::Liveness,
            Some(Fact::StartupKill) => KillWhy::Startup,
            Some(Fact::PostStartKill) => KillWhy::PostStart,
            _ => KillWhy::Stop,
        };
        let at = o.stamp.at;
        let c = self.container(container);
        // The Event and the log line of one kill are milliseconds apart.
        let again = c
            .killed
            .is_some_and(|(t, w, _)| w == why && at.since(t) < SECOND);
        if why != KillWhy::Stop && !again {
            c.kills += 1;
        }
        if !again {
            c.killed = Some((at, why, o));
        }
    }

    pub(super) fn probe(
        &mut self,
        o: &'a Evidence,
        kind: &str,
        text: &'a str,
        container: &str,
        errored: bool,
    ) {
        let at = o.stamp.at;
        // The kubelet has three kinds (pkg/kubelet/prober/prober_manager.go, `probeType`). Words of another form tell none of them.
        let kinds = ["Readiness", "Liveness", "Startup"];
        if !kinds.iter().any(|known| kind.starts_with(known)) {
            return;
        }
        let ready = self.readiness_turned.filter(|(_, ready)| *ready);
        let container = match container {
            "" => self.failed_probe_of(kind).unwrap_or_default(),
            name => name,
        };
        let c = self.container(container);
        let mut since = c.started;
        let slot = if kind.starts_with("Readiness") {
            since = since.max(ready.map(|(t, _)| t));
            &mut c.readiness
        } else if kind.starts_with("Liveness") {
            &mut c.liveness
        } else {
            &mut c.startup
        };
        let before = slot
            .as_ref()
            .filter(|p| since.is_none_or(|s| p.at >= s))
            .map_or((0, Nanos(0)), |p| (p.count, p.at));
        let again = at.since(before.1) < SECOND / 2;
        *slot = Some(ProbeResult {
            at,
            text,
            errored,
            count: before.0 + u32::from(!again),
            evidence: o,
        });
    }

    /// Returns the container of which a failed probe must be, by the pod's specification and status: what kubectl prints
    /// of an Event names no container before 1.35. `None` when it may be of several.
    fn failed_probe_of(&self, kind: &str) -> Option<&'a str> {
        let api = self.api?;
        let kind = kind.split(' ').next()?;
        let all = || api.spec.containers.iter().chain(&api.spec.init_containers);
        let told = all().any(|c| !c.probes.is_empty());
        let may = |c: &&'a ContainerSpec| {
            let mut probes = c.probes.iter();
            !told || probes.any(|p| p.kind.eq_ignore_ascii_case(kind))
        };
        // A container that is ready passes its readiness probe, and one that has started its startup probe.
        let fails = |c: &&'a ContainerSpec| {
            let status = api.statuses().find(|s| s.name == c.name);
            status.is_none_or(|s| match kind {
                "Readiness" => !s.ready,
                "Startup" => !s.ready && s.started != Some(true),
                _ => true,
            })
        };
        let only = |of: Vec<&'a ContainerSpec>| match *of {
            [one] => Some(one.name.as_str()),
            _ => None,
        };
        only(all().filter(may).collect())
            .or_else(|| only(all().filter(may).filter(fails).collect()))
    }

    pub(super) fn exits_of(&mut self, o: &'a Evidence, p: &'a PodSeen) {
        for s in p.statuses() {
            self.learn(&s.id, &s.name);
            let ended = [
                s.last.as_ref(),
                match &s.state {
                    ContainerState::Terminated(t) => Some(t),
                    _ => None,
                },
            ];
            for t in ended.into_iter().flatten() {
                self.exit(
                    &s.name,
                    Exit {
                        at: t.finished.unwrap_or(o.stamp.at),
                        was_before: t.finished.is_none(),
                        code: t.exit_code,
                        reason: t.reason.clone(),
                        message: t.message.clone(),
                        id: t.id.clone(),
                        evidence: o,
                    },
                );
            }
            let c = self.container(&s.name);
            c.restarts = c.restarts.max(s.restarts);
            if let ContainerState::Running { started } = s.state {
                // A container that never ended has run at most since its pod was made; any other at least since now.
                let unknown = if s.restarts == 0 {
                    p.created
                } else {
                    o.stamp.at
                };
                c.started = c.started.max(Some(started.unwrap_or(unknown)));
            }
        }
    }

    /// Remembers the name of the container with this id.
    pub(super) fn learn(&mut self, id: &ContainerId, name: &Text) {
        if !id.is_empty() && !self.ids.iter().any(|(i, _)| i == id) {
            self.ids.push((id.clone(), name.clone()));
        }
    }

    /// Reads the exits that the runtime reported as they happened. This comes after everything else, because the
    /// observation that gives an id's name may come later.
    pub(super) fn told_exits(&mut self) {
        let mut killed: Vec<&ContainerId> = Vec::new();
        let mut kills: Vec<(&ContainerId, u32, Nanos, &'a Evidence)> = Vec::new();
        for o in self.view.evidence.telling() {
            let Body::ContainerEvent(c) = &o.body else {
                continue;
            };
            let id = &c.subject.container_id;
            if c.kind == ContainerEventKind::Oom {
                killed.push(id);
                match kills.iter_mut().find(|(of, ..)| *of == id) {
                    Some((_, count, _, last)) => (*count, *last) = (*count + 1, o),
                    None => kills.push((id, 1, o.stamp.at, o)),
                }
            }
            let (ContainerEventKind::Stopped, Some(code)) = (c.kind, c.exit_code) else {
                continue;
            };
            // An id without a name may be the sandbox's own container.
            let Some((_, name)) = self.ids.iter().find(|(i, _)| i == id).cloned() else {
                continue;
            };
            let reason = if c.reason.is_empty() && killed.contains(&id) {
                OOM_KILLED.into()
            } else {
                c.reason.clone()
            };
            let exit = Exit {
                at: o.stamp.at,
                was_before: false,
                code: Some(code),
                reason,
                message: Text::default(),
                id: id.clone(),
                evidence: o,
            };
            self.exit(&name, exit);
        }
        for (id, count, first, last) in kills {
            let Some((_, name)) = self.ids.iter().find(|(i, _)| i == id).cloned() else {
                continue;
            };
            let c = self.container(&name);
            if c.runs() && c.exits.iter().all(|e| e.id != *id) {
                c.oom_kills = Some((count, first, last));
            }
        }
    }

    /// Concludes exits from the kubelet's back-off, for containers of which no exit was seen because only the
    /// kubelet's log, Events, or the row of a table was read.
    pub(super) fn backed_off(&mut self) {
        let is_listed = self.api.is_some();
        let api = self.api_evidence;
        let loops = |s: &ContainerStatus| s.state.backs_off();
        // The row of a table does not say of which container it is.
        let row_loops = self
            .containers
            .iter()
            .any(|c| c.name.is_empty() && c.status.is_some_and(loops));
        for c in &mut self.containers {
            if !is_listed {
                c.restarts = c.restarts.max(c.starts.saturating_sub(1));
            }
            let waits = |s: &ContainerStatus| matches!(s.state, ContainerState::Waiting { .. });
            if c.exits.is_empty() && c.run.is_none() && c.status.is_none_or(waits) {
                c.exits = c.backed_off.iter().map(|o| Exit::before(o)).collect();
                // The row of a table shows no exit. Its word is of the nameless container, or of one that is known by a failed probe.
                let is_looping = c.status.map_or(row_loops && c.liveness.is_some(), loops);
                if let Some(o) = api.filter(|_| c.exits.is_empty() && is_looping) {
                    c.exits.push(Exit::before(o));
                }
            }
        }
    }

    pub(super) fn exit(&mut self, container: &str, e: Exit<'a>) {
        let c = self.container(container);
        let known = c
            .exits
            .iter_mut()
            .rev()
            .find(|x| (!e.id.is_empty() && x.id == e.id) || (e.id.is_empty() && x.at == e.at));
        match known {
            Some(old) => {
                if old.reason.is_empty() {
                    old.reason = e.reason;
                }
                if old.message.is_empty() {
                    old.message = e.message;
                }
                // The runtime's times have nanoseconds, the API's whole seconds: keep the finer one.
                if old.at.0 % SECOND == 0 {
                    old.at = e.at;
                }
            }
            None => {
                let at = c.exits.partition_point(|x| x.at <= e.at);
                c.exits.insert(at, e);
            }
        }
    }
}
