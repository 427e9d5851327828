//! The stages `sandbox`, `image` and `create`: runtime calls of the pod worker before a container starts.

mod image;

pub(crate) use image::image;

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::Build;
use super::runtime_calls::RuntimeCall;
use super::span::{edge, event_edge, narrow};
use super::start::last_attempt;
use crate::flow::{Fact, Stage, container_error_stage, span};
use crate::timeline::{Certainty, Edge, Outcome, Span, SpanIndex};
use kflow_model::Text;
use kflow_model::cri::method;
use kflow_model::log::Component;
use kflow_model::pod::{ContainerState, ContainerStatus, Terminated};
use kflow_model::stamp::SECOND;

pub(crate) fn of_work(stage: Stage, w: &RuntimeCall) -> Span {
    Span {
        container: w.container.clone(),
        attempt: w.attempt.unwrap_or(0),
        outcome: w.outcome,
        code: w.code.clone(),
        message: w.message.clone(),
        call: w.key,
        deadline_ns: w.deadline_ns,
        ..Span::new(
            stage,
            &w.method,
            w.start,
            w.end,
            w.certainty,
            w.evidence.clone(),
        )
    }
}

/// Adds the spans of `sandbox`.
pub(crate) fn sandbox(b: &mut Build<'_>) {
    let work = std::mem::take(&mut b.work);
    let mut fresh = false;
    let mut tries = 0;
    for w in &work {
        if w.method == method::RUN_POD_SANDBOX {
            // The attempt in the request counts the sandboxes that were created, without those that failed.
            let mut s = of_work(Stage::Sandbox, w);
            s.attempt = s.attempt.max(tries);
            tries = s.attempt + 1;
            let i = b.add(s);
            nested(b, i, w);
            fresh = w.ok();
        } else if w.method == method::POD_SANDBOX_STATUS && fresh {
            // The worker's own call follows immediately; PLEG's come later.
            b.add(of_work(Stage::Sandbox, w));
            fresh = false;
        }
    }
    b.work = work;
    if b.of(Stage::Sandbox).next().is_none() {
        sandbox_by_log(b);
    }
    if b.of(Stage::Sandbox).next().is_none() {
        sandbox_by_api(b);
    }
    // The kubelet checks the network before it calls the runtime.
    if let Some((o, e)) = b.seen.events_of(&["NetworkNotReady"]).next() {
        let sandbox = b
            .work
            .iter()
            .find(|w| w.method == method::RUN_POD_SANDBOX && w.start.at > o.stamp.at)
            .and_then(|w| Some((w.start, w.evidence.first()?.clone())));
        let newest = b
            .seen
            .events_of(&["NetworkNotReady"])
            .map(|(o, _)| o.stamp.at)
            .max();
        let volumes = b
            .seen
            .lines(&[Fact::VolumesAwaited])
            .find(|(l, _)| Some(l.stamp.at) > newest)
            .map(|(l, _)| (edge(l), l.clone()));
        let freed = volumes.or(sandbox);
        let mut evidence = vec![o.clone()];
        evidence.extend(freed.as_ref().map(|(_, o)| o.clone()));
        let mut s = Span::new(
            Stage::Sandbox,
            "networkErrors",
            edge(o),
            freed
                .map(|(at, _)| at)
                .or_else(|| b.view.gone.map(|at| Edge { at, precision: 1 })),
            Certainty::Inferred,
            evidence,
        );
        s.message.clone_from(&e.message);
        b.add(s);
    }
}

/// Derives sandboxes from the kubelet's log lines around the call, without the tap and spans.
fn sandbox_by_log(b: &mut Build<'_>) {
    let f = b.seen;
    let lines: Vec<_> = f
        .lines(&[
            Fact::SandboxBegan,
            Fact::SandboxCreated,
            Fact::SandboxFailed,
        ])
        .filter(|(_, l)| l.line().component == Component::Kubelet)
        .collect();
    let mut attempt = 0;
    for (i, (o, l)) in lines.iter().enumerate() {
        if l.fact() != Fact::SandboxBegan {
            continue;
        }
        let next = lines
            .get(i + 1)
            .filter(|(_, n)| n.fact() != Fact::SandboxBegan);
        let mut evidence = vec![(*o).clone()];
        evidence.extend(next.map(|(o, _)| (*o).clone()));
        let mut s = Span::new(
            Stage::Sandbox,
            method::RUN_POD_SANDBOX,
            edge(o),
            next.map(|(o, _)| edge(o)),
            Certainty::Measured,
            evidence,
        );
        s.attempt = attempt;
        if let Some((_, n)) = next
            && n.fact() == Fact::SandboxFailed
        {
            s.outcome = Outcome::Error;
            s.message = n.error().into();
        }
        attempt += 1;
        b.add(s);
    }
}

/// Derives sandboxes from the API alone: failures from Events, success from the condition.
fn sandbox_by_api(b: &mut Build<'_>) {
    let f = b.seen;
    let mut since = [Stage::Volumes, Stage::Admit, Stage::Schedule]
        .into_iter()
        .find_map(|s| b.ends(s));
    let failed = b.failures(
        Stage::Sandbox,
        method::RUN_POD_SANDBOX,
        &["FailedCreatePodSandBox"],
        since,
    );
    since = failed.map(|(end, _)| end).or(since);
    let ready = f.states.iter().find_map(|(o, p)| {
        let c = p
            .condition("PodReadyToStartContainers")
            .filter(|c| c.is_true())?;
        Some((*o, c.transition?))
    });
    if let Some((o, at)) = ready {
        // The kubelet sets the transition time by its own clock (`updateLastTransitionTime`, pkg/kubelet/status).
        let second = Edge {
            at,
            precision: SECOND as u32,
        };
        let end = narrow(second, since.map(|s| s.at), Some(o.stamp.at));
        let start = since.unwrap_or(end).min(end);
        b.add(Span::new(
            Stage::Sandbox,
            method::RUN_POD_SANDBOX,
            start,
            Some(end),
            Certainty::Bounded,
            vec![o.clone()],
        ));
    }
}

/// Adds the runtime's spans within a call as its children: network setup, and other work that is worth showing.
pub(crate) fn nested(b: &mut Build<'_>, parent: SpanIndex, w: &RuntimeCall) {
    let f = b.seen;
    let Some(client) = w.span else { return };
    let mut inside: Vec<(kflow_model::SpanId, SpanIndex)> = vec![(client, parent)];
    // Parents start before their children, so one pass in order of time finds the whole tree.
    let mut found = Vec::new();
    for (o, s) in &f.spans {
        if o.stamp.at < w.start.at.plus(-kflow_model::stamp::MILLI) {
            continue;
        }
        let Some(up) = s.parent else { continue };
        let Some((_, at)) = inside.iter().find(|(id, _)| *id == up).copied() else {
            continue;
        };
        let mut index = at;
        if span(s) == Some(Fact::RuntimeWork) {
            let mut inner = Span::new(
                b.spans()
                    .get(parent as usize)
                    .map_or(Stage::Sandbox, |p| p.stage),
                function(&s.name).as_ref(),
                edge(o),
                Some(Edge {
                    at: s.end,
                    precision: 1,
                }),
                Certainty::Measured,
                vec![(*o).clone()],
            );
            inner.parent = Some(at);
            inner.container.clone_from(&w.container);
            inner.attempt = w.attempt.unwrap_or(0);
            inner.message.clone_from(&s.message);
            if s.error {
                inner.outcome = Outcome::Error;
            }
            index = b.add(inner);
            found.push(index);
        }
        inside.push((s.span, index));
    }
}

/// Step name of a span. CRI-O names its spans by Go functions with path and receiver:
/// `github.com/cri-o/cri-o/server.(*Server).networkStart` becomes `Server.networkStart`.
fn function(name: &str) -> Cow<'_, str> {
    match name.rsplit_once(".(*") {
        Some((_, method)) => method.replacen(").", ".", 1).into(),
        None => name.into(),
    }
}

/// Adds the spans of `create`, and to `start` the CreateContainer calls that failed because the runtime could not
/// start the process.
pub(crate) fn create(b: &mut Build<'_>) {
    let work = std::mem::take(&mut b.work);
    // Stage in which the newest attempt of each container failed; an attempt in flight is put in the same stage.
    let mut failed: FxHashMap<&Text, Stage> = FxHashMap::default();
    for w in work.iter().filter(|w| w.method == method::CREATE_CONTAINER) {
        let stage = match w.outcome {
            Outcome::Ok => Stage::Create,
            Outcome::InFlight => failed.get(&w.container).copied().unwrap_or(Stage::Create),
            Outcome::Error | Outcome::Cancelled => {
                container_error_stage("CreateContainerError", &w.message)
            }
        };
        failed.insert(&w.container, stage);
        let i = b.add(of_work(stage, w));
        nested(b, i, w);
    }
    b.work = work;
    unmade(b);
    let is_call = |s: &Span| s.step == method::CREATE_CONTAINER;
    if b.of(Stage::Create).next().is_none() && !b.spans().iter().any(is_call) {
        b.successes(Stage::Create, method::CREATE_CONTAINER, "Created");
    }
}

/// The kubelet's step that reports a reason.
pub(crate) fn step_of(reason: &str) -> &'static str {
    match reason {
        "CreateContainerConfigError" => "generateContainerConfig",
        "CreateContainerError" => method::CREATE_CONTAINER,
        "RunContainerError" => method::START_CONTAINER,
        _ => "startContainer",
    }
}

/// Adds containers that were not created or started according to Events, where no call shows it: their configuration
/// could not be generated, which fails before the runtime is called, or there was no tap.
fn unmade(b: &mut Build<'_>) {
    let f = b.seen;
    let mut attempts: FxHashMap<&Text, u32> = FxHashMap::default();
    for (o, e) in f.events_of(&["Failed"]) {
        let Some(message) = e.message.strip_prefix("Error: ") else {
            continue;
        };
        // `Error: ErrImagePull` and the like are about images; what the runtime refused has a call of its own.
        let one_word = !message.contains(' ');
        let by_runtime = b.work.iter().any(|w| {
            matches!(
                w.method.as_str(),
                method::CREATE_CONTAINER | method::START_CONTAINER
            ) && !w.ok()
                && w.container == e.container
                && w.end.is_some_and(|x| o.stamp.at.since(x.at).abs() < SECOND)
        });
        if one_word || by_runtime {
            continue;
        }
        // The status gives the reason up to ten seconds later (status manager, syncBatch). Until then the tap implies
        // it, by the absence of a runtime call. The first status after the Event counts, else one before it.
        let statuses = f.states.iter().filter_map(|(s, p)| {
            let c = p.statuses().find(|c| c.name == e.container)?;
            let (reason, attempt) = reported(c, message)?;
            Some((s.stamp.seen.plus(SECOND) < o.stamp.at, reason, attempt))
        });
        let told = statuses.min_by_key(|t| t.0);
        let (reason, number) = match told {
            Some((_, reason, attempt)) => (reason, attempt),
            None if b.taps(o.stamp.at) => ("CreateContainerConfigError", None),
            None => ("", None),
        };
        let step = step_of(reason);
        let told_at = event_edge(o);
        let until = told_at.at.plus(i64::from(told_at.precision));
        let before = b
            .work
            .iter()
            .filter(|w| w.method == method::IMAGE_STATUS && w.start.at < until)
            .filter_map(|w| Some((w.end?, w.evidence.first()?)))
            .next_back();
        let mut evidence = vec![o.clone()];
        let mut end = told_at;
        let mut start = end;
        if let Some((at, x)) = before
            && end.at.since(at.at) < SECOND
        {
            end = narrow(end, Some(at.at), None);
            start = at;
            evidence.push(x.clone());
        }
        let attempt = attempts.entry(&e.container).or_default();
        if *attempt == 0 {
            start = start.min(f.first_edge_of(o));
        }
        let mut s = Span::new(
            container_error_stage(reason, message),
            step,
            start,
            Some(end),
            Certainty::Inferred,
            evidence,
        );
        s.container.clone_from(&e.container);
        // Each Event is about an attempt of its own.
        s.attempt = number.map_or(*attempt, |n| n.max(*attempt));
        *attempt = s.attempt + 1;
        s.outcome = Outcome::Error;
        s.code = reason.into();
        s.message = message.into();
        b.add(s);
    }
}

/// The reason in a container's status for an error, and the attempt that ended with the error, where the status tells.
fn reported<'c>(c: &'c ContainerStatus, error: &str) -> Option<(&'c str, Option<u32>)> {
    let start = |t: &'c Terminated, attempt: Option<u32>| {
        let never = matches!(t.reason.as_str(), "StartError" | "ContainerCannotRun");
        (never && same_error(&t.message, error)).then_some(("RunContainerError", attempt))
    };
    let of_last = || start(c.last.as_ref()?, last_attempt(c));
    match &c.state {
        ContainerState::Waiting { reason, message }
            if step_of(reason) != step_of("") && same_error(message, error) =>
        {
            // A container whose start failed was created, so it counts as a restart.
            let made = reason == "RunContainerError";
            Some((reason.as_str(), made.then_some(c.restarts)))
        }
        ContainerState::Terminated(t) => start(t, Some(c.restarts)).or_else(of_last),
        _ => of_last(),
    }
}

/// True when an Event and a status have the same error; either may be truncated.
fn same_error(a: &str, b: &str) -> bool {
    let (a, b) = (a.trim_end(), b.trim_end());
    a == b || a.is_empty() || a.starts_with(b.trim_end_matches("...")) || b.starts_with(a)
}
