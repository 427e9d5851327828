//! What the newest API state adds to a pod's history.

use std::sync::Arc;

use super::{PodHistory, Signal, never_ran};
use crate::diagnose::{limits, signal};
use crate::flow::Map;
use kflow_model::{
    Body, Nanos, Source,
    pod::{ContainerState, ContainerStatus, PodPhase, PodSeen, Terminated},
    stamp::SECOND,
};

impl PodHistory<'_> {
    /// Adds what the newest API state shows, once all evidence has been read.
    pub(super) fn finish(&mut self) {
        let Some(api) = self.api else { return };
        if !api.spec.node.is_empty() && self.bound.is_none() {
            self.bound = Some(api.created);
        }
        if let Some(t) = api.status.start_time {
            self.sign(t);
        }
        if let Some(d) = api.deletion {
            let grace = api.deletion_grace_s.unwrap_or(0);
            // A request that was seen itself is exact; the API gives whole seconds.
            self.deleted
                .get_or_insert(d.plus(grace.saturating_mul(-SECOND)));
            self.grace_s = Some(grace);
        }
        let Some(o) = self.api_evidence else { return };
        if let Some(c) = api.condition("PodReadyToStartContainers")
            && c.is_true()
            && let Some(t) = c.transition
        {
            self.sandbox = self.sandbox.max(Some(t));
        }
        for c in &api.status.conditions {
            let reason = c.reason.as_str();
            let stated = c.transition;
            match (c.kind.as_str(), c.status.as_str()) {
                ("PodScheduled", "False") => {
                    let reason = if reason == "Unschedulable" {
                        "FailedScheduling"
                    } else {
                        reason
                    };
                    self.push(reason, "", c.message.as_str(), o, 0);
                    self.state(reason, "", stated);
                }
                ("DisruptionTarget", "True") => {
                    self.push(reason, "", c.message.as_str(), o, 0);
                    self.state(reason, "", stated);
                }
                ("PodResizePending", "True") => {
                    self.push(
                        "PodResizePending",
                        "",
                        format!("{reason} {}", c.message),
                        o,
                        1,
                    );
                    self.state("PodResizePending", "", stated);
                }
                ("PodResizeInProgress", _) if reason == "Error" => {
                    self.push("PodResizeInProgress", "", c.message.as_str(), o, 0);
                    self.state("PodResizeInProgress", "", stated);
                }
                _ => {}
            }
        }
        // While a pod is Pending, only the agent of its node (kubelet or virtual kubelet) sets `status.reason`.
        if api.status.phase == PodPhase::Pending
            && !api.status.reason.is_empty()
            && !api.spec.node.is_empty()
        {
            self.sign(o.stamp.at);
            self.push(
                api.status.reason.as_str(),
                "",
                api.status.message.as_str(),
                o,
                0,
            );
            self.state(&api.status.reason, "", api.status.start_time);
        }
        if api.status.phase == PodPhase::Failed && !api.status.reason.is_empty() {
            let message = Map::active()
                .status(&api.status.message)
                .and_then(|s| s.name("message"))
                .unwrap_or(&api.status.message);
            self.push(api.status.reason.as_str(), "", message, o, 0);
            let ended = api.statuses().filter_map(ended).max();
            // A container of which the runtime no longer knows has no time at which it ended.
            let turned = |kind, status| {
                let condition = api.condition(kind).filter(|c| c.status == status);
                condition.and_then(|c| c.transition)
            };
            let stated = turned("DisruptionTarget", "True")
                .max(ended)
                .or_else(|| turned("Ready", "False"))
                .or(api.status.start_time);
            self.state(&api.status.reason, "", stated);
        }
        for s in api.statuses() {
            self.container(&s.name).status = Some(s);
            // Beside the reasons of a container that is being made, the kubelet gives no message; who does has an Event's.
            if let ContainerState::Waiting { reason, message } = &s.state
                && matches!(reason.as_str(), "ContainerCreating" | "PodInitializing")
                && let Some(told) = signal::of_wait(message)
            {
                self.push(told, "", message.as_str(), o, 0);
            }
            if let Some((reason, message)) = s.state.held_up_by() {
                // The kubelet alone says what holds up a container: it has begun with the pod. A row of a table has no time of that.
                if !api.spec.node.is_empty() {
                    self.sign(self.bound.unwrap_or(api.created));
                }
                // kubectl prints the reason without the message, which is in the Event of the failure.
                let of_event = |x: &Signal<'_>| {
                    message.is_empty()
                        && reason.ends_with("ContainerError")
                        && x.reason == "ContainerError"
                        && x.container == s.name
                };
                // The end of a start that failed has its message too.
                let of_start = s.last.as_ref().filter(|last| {
                    message.is_empty() && reason == "RunContainerError" && never_ran(&last.reason)
                });
                let text = of_start.map_or(message, |last| &last.message);
                match self.signals.iter_mut().find(|x| of_event(x)) {
                    Some(told) => told.reason = reason.as_str().into(),
                    None => self.push(reason.as_str(), &s.name, text.as_str(), o, 0),
                }
                if reason == "CrashLoopBackOff" {
                    self.state(reason, &s.name, ended(s));
                }
                self.shown_since(reason, &s.name);
            }
            // A container with an id has a sandbox and an image, and the sandbox was there while it ran.
            if !s.id.is_empty() {
                let ran = ran(s).unwrap_or(api.created);
                self.sandbox = self.sandbox.max(Some(ran.max(api.created)));
            }
            self.correct_start(s, o.stamp.at);
            // It has run, whatever kept it from that before.
            if let Some(began) = began(s) {
                let c = self.container(&s.name);
                c.started = c.started.max(Some(began));
            }
        }
    }

    /// Corrects the start of a container by its status, which was read at `read` and shows that the container has ended,
    /// where the start is later than that end: it is from an Event of which kubectl printed only the age.
    fn correct_start(&mut self, s: &ContainerStatus, read: Nanos) {
        let over = s.has_ended();
        let has_cri = self.has_cri;
        let c = self.container(&s.name);
        let late = c
            .started
            .is_some_and(|at| read.since(at) >= limits::STATUS.ns);
        if let Some((began, end)) = last_run(s).filter(|_| over && late && !has_cri) {
            c.started = c.started.map(|at| if at > end { began } else { at });
        }
    }

    /// Sets the begin of what a container waits for to the oldest state from which on all show it. The newest may have come for
    /// a change of something else.
    fn shown_since(&mut self, reason: &str, container: &str) {
        let shows = |p: &PodSeen| {
            let mut statuses = p.statuses().filter(|s| s.name == container);
            statuses.any(|s| s.state.held_up_by().is_some_and(|(r, _)| r == reason))
        };
        let states = self
            .view
            .evidence
            .telling()
            .rev()
            .filter_map(|o| match &o.body {
                Body::Pod(p) if o.source == Source::Kube => Some((o.stamp.at, p)),
                _ => None,
            });
        let Some((at, _)) = states.take_while(|(_, p)| shows(p)).last() else {
            return;
        };
        let mut signals = self.signals.iter_mut();
        if let Some(s) = signals.find(|s| s.reason == reason && s.container == container) {
            s.first = s.first.min(at);
        }
    }

    /// Adds the time that the newest API state has of what it was just read to say.
    fn state(&mut self, reason: &str, container: &str, at: Option<Nanos>) {
        let api = self.api_evidence;
        let said = |s: &&mut Signal<'_>| {
            s.reason == reason
                && s.container == container
                && api.is_some_and(|o| Arc::ptr_eq(s.evidence, o))
        };
        if let Some(s) = self.signals.iter_mut().find(said) {
            s.stated = at;
        }
    }
}

/// The last moment at which a container ran, as its status tells (1 s); `None` for one that has not.
fn ran(s: &ContainerStatus) -> Option<Nanos> {
    match &s.state {
        ContainerState::Running { started } => *started,
        _ => ended(s),
    }
}

/// When a container last ended, as its status tells (1 s).
fn ended(s: &ContainerStatus) -> Option<Nanos> {
    last_run(s).map(|(_, end)| end)
}

/// When a container's last run that ended began, as its status tells (1 s); `None` for one that could not be started.
fn began(s: &ContainerStatus) -> Option<Nanos> {
    let began = last_end(s)?.started.filter(|at| at.0 > 0)?;
    let (_, end) = last_run(s)?;
    (!never_ran(&last_end(s)?.reason) && began <= end).then_some(began)
}

fn last_end(s: &ContainerStatus) -> Option<&Terminated> {
    match &s.state {
        ContainerState::Terminated(t) => Some(t),
        _ => s.last.as_ref(),
    }
}

/// Begin and end of a container's last run that ended, as its status tells (1 s). One that could not be started has no
/// begin of its own.
fn last_run(s: &ContainerStatus) -> Option<(Nanos, Nanos)> {
    let t = last_end(s)?;
    let end = t.finished?;
    let began = t.started.filter(|at| at.0 > 0 && *at <= end);
    Some((began.unwrap_or(end), end))
}
