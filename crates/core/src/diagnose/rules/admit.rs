//! Pods that are bound to a node and do not begin there: a kubelet that does not run, a runtime that does not answer.

use super::Context;
use super::heard::{self, Heard};
use super::node;
use crate::diagnose::Confidence;
use crate::diagnose::cause;
use crate::diagnose::cluster::LOOP_CALL_NS;
use crate::diagnose::finding::{Finding, node_of};
use crate::diagnose::history::{PodCall, PodHistory};
use crate::diagnose::limits;
use crate::diagnose::signal::timed_out;
use crate::diagnose::unknown::may_be_listed;
use crate::flow::Stage;
use kflow_model::cri::method;
use kflow_model::event::{AUTOSCALER_REASONS, SCHEDULER_REASONS};
use kflow_model::pod::WatchEvent;
use kflow_model::{Body, Evidence, Nanos, Source, stamp::SECOND};

/// A kubelet that works picks a pod up within a second.
const PICK_UP_NS: i64 = limits::PICK_UP.ns;
/// A kubelet logs something or calls the runtime every second: after this long without either, it stands still.
pub(super) const SILENT_NS: i64 = limits::KUBELET_SILENT.ns;
/// A kubelet that is alive begins with a pod within a second, unless a hundred came at once.
const IDLE_NS: i64 = limits::KUBELET_IDLE.ns;

pub(super) fn rules<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let Some(bound) = f.bound.or(f.picked_up) else {
        return;
    };
    let waiting = cx.now.since(bound);
    let stage = if f.picked_up.is_none() {
        Stage::Admit
    } else if f.sandbox.is_none() {
        f.stage_among(Stage::Cgroup..=Stage::Sandbox)
            .unwrap_or(Stage::Sandbox)
    } else {
        f.stage_among(Stage::Image..=Stage::Start)
            .unwrap_or(Stage::Create)
    };
    // A failure of the pod's own is a better answer than a hanging runtime, so the runtime is the
    // answer only without one.
    if waiting >= PICK_UP_NS
        && (found.iter().all(is_unanswered) || f.picked_up.is_none())
        && (!started(f) || hangs(cx, f))
        && runtime(cx, f, stage, found)
    {
        found.retain(|x| !is_unanswered(x));
        return;
    }
    if f.picked_up.is_none() && waiting >= PICK_UP_NS && would_be_seen(cx, f, bound) {
        if dies(cx, f, bound, found) {
            return;
        }
        kubelet(cx, f, bound, found);
    } else if found.is_empty() && !started(f) {
        found.extend(stopped_reporting(cx, f, stage));
    }
}

/// Returns a finding for a pod that its kubelet has begun with, when the control plane has not heard of the kubelet since.
fn stopped_reporting<'a>(cx: Context<'a>, f: &PodHistory<'a>, stage: Stage) -> Option<Finding<'a>> {
    let name = node_of(f.view, f.api);
    let node = cx.shared.node(name)?;
    let status = node.ready.as_ref().map(|(status, ..)| status.as_str());
    (status == Some("Unknown")).then(|| {
        let x = Finding::new(cause::KF301, f)
            .at(stage)
            .since(f.since(stage));
        let x = node::not_ready(x.name("still", node::still(cx, name, node)), name, node);
        node::last_heard(cx, x, heard::kubelet(cx, name).as_ref())
    })
}

/// True for a finding that says no more than that the runtime did not answer a call of the pod in time. Why it does not is
/// told by what it does for the whole node.
fn is_unanswered(x: &Finding<'_>) -> bool {
    let late = || x.names.get("what").is_some_and(timed_out);
    match x.cause.id {
        cause::KF506 => true,
        cause::KF615 | cause::KF702 => late(),
        _ => false,
    }
}

/// True when a call that makes or starts a container of the pod is in flight for longer than a call of the kubelet's loops may be.
fn hangs(cx: Context<'_>, f: &PodHistory<'_>) -> bool {
    let methods = [method::CREATE_CONTAINER, method::START_CONTAINER];
    let mut calls = methods.into_iter().filter_map(|m| f.in_flight(m));
    calls.any(|call| cx.now.since(call.at) >= LOOP_CALL_NS)
}

/// Adds a call of the pod that is in flight to the finding that its runtime answers nobody. Returns false when there is no
/// such finding, so that the call has to be explained by itself.
pub(super) fn joins_runtime<'a>(
    found: &mut [Finding<'a>],
    call: &'a PodCall<'a>,
    now: Nanos,
) -> bool {
    let of_node = found.iter_mut().find(|x| x.cause.id == cause::KF302);
    let Some(x) = of_node else { return false };
    *x = x.clone().container(&call.container).call(call, now);
    true
}

fn started(f: &PodHistory<'_>) -> bool {
    f.view
        .containers
        .iter()
        .filter(|c| !c.init && !c.ephemeral)
        .any(|c| f.known(&c.name).is_some_and(|k| k.started.is_some()))
}

/// Adds a finding when the runtime has ended or does not answer: its own log says so, the kubelet's calls hang, or the kubelet's log or
/// its node's condition says so. Returns true when it added one.
pub(super) fn runtime<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    stage: Stage,
    found: &mut Vec<Finding<'a>>,
) -> bool {
    let name = node_of(f.view, f.api);
    let local = cx.shared.local_node().filter(|_| cx.shared.is_local(name));
    let facts = local.or_else(|| cx.shared.node(name));
    let told = facts.and_then(|n| {
        let refused = || node::refused_by_proxy(cx, f, n);
        node::ended_runtime(cx, f, n).or_else(refused)
    });
    if let Some((x, _)) = told {
        found.push(x.at(stage).since(f.since(stage)));
        return true;
    }
    let x = Finding::new(cause::KF302, f)
        .at(stage)
        .since(f.since(stage));
    let Some((mut x, _)) = node::runtime(cx, x, name, facts) else {
        return false;
    };
    if f.picked_up.is_none() {
        x = x.absence(
            f.bound.unwrap_or(f.view.created),
            Source::Kubelet,
            "the kubelet has not begun with the pod: the last step seen is its binding",
        );
    }
    x.rank = 95;
    found.push(x);
    true
}

/// Adds a finding when the kubelet exits as soon as it is started; its last log line says why. Returns true when it
/// added one.
fn dies<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    bound: Nanos,
    found: &mut Vec<Finding<'a>>,
) -> bool {
    let node = node_of(f.view, f.api);
    let facts = if cx.shared.is_local(node) {
        cx.shared.local_node().or_else(|| cx.shared.node(node))
    } else {
        None
    };
    let Some((x, at)) = facts.and_then(|n| node::ended(cx.now, f, n)) else {
        return false;
    };
    found.push(x.at(Stage::Admit).since(bound).absence(
        at,
        Source::Cri,
        "no call of the kubelet to the runtime for a pod since",
    ));
    true
}

/// Returns a finding for a kubelet that is alive and does not begin with the pod.
fn idle<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    bound: Nanos,
    last: &Heard,
) -> Option<Finding<'a>> {
    let absence = "bound, and no sign of the kubelet since: no status, no event";
    let last = last.in_words(cx.now);
    let calls = cx.world.source(Source::Cri).spoke;
    let answers = cx.shared.is_local(node_of(f.view, f.api))
        && cx.shared.hanging.is_empty()
        && calls.is_some_and(|t| cx.now.since(t) < SILENT_NS);
    let x = if answers {
        Finding::new(cause::KF301, f).name(
            "what",
            "it lives, and its runtime answers it, so it may not be told of the pod by the apiserver",
        ).varying("heard", &last)
    } else {
        let what =
            format!("the kubelet lives (it was last heard {last}) and does not begin with the pod");
        Finding::new(cause::KF302, f)
            .at(Stage::Admit)
            .varying("what", &what)
    };
    Some(
        x.since(bound)
            .at_most(Confidence::Possible)
            .absence(bound, Source::Kube, absence),
    )
}

/// True when a source would have shown that the kubelet began with the pod. Events alone show no such thing: they are
/// deleted after an hour, and the pod that they are about may be gone.
fn would_be_seen(cx: Context<'_>, f: &PodHistory<'_>, bound: Nanos) -> bool {
    let since = |source| {
        let first = cx.world.source(source).first;
        first.is_some_and(|first| first <= bound)
    };
    let local = cx.shared.is_local(node_of(f.view, f.api));
    let watched = f.api.is_some_and(|p| p.event != WatchEvent::Listed);
    let shown = |o: &Evidence| o.stamp.seen >= bound.plus(PICK_UP_NS);
    watched
        || may_be_listed(cx.world, f.view)
        || f.api_evidence.is_some_and(shown)
        || since(Source::Audit)
        || (local && (since(Source::Kubelet) || since(Source::Cri)))
}

/// True when an Event of the pod was seen since it was bound of which nothing says who reports it, as in a table that
/// kubectl prints, and whose reason is none of a scheduler's or an autoscaler's.
fn has_event_of_unknown_sender(f: &PodHistory<'_>, bound: Nanos) -> bool {
    f.view.evidence.telling().any(|o| match &o.body {
        Body::Event(e) => {
            e.component.is_empty()
                && o.stamp.at.plus(SECOND) > bound
                && !SCHEDULER_REASONS.contains(&e.reason.as_str())
                && !AUTOSCALER_REASONS.contains(&e.reason.as_str())
                && !e.is_of_another_pod(&f.view.uid, &f.view.mirrors)
        }
        _ => false,
    })
}

/// Adds a finding for a kubelet that does nothing about the pod.
fn kubelet<'a>(cx: Context<'a>, f: &PodHistory<'a>, bound: Nanos, found: &mut Vec<Finding<'a>>) {
    let name = node_of(f.view, f.api);
    let facts = cx.shared.node(name);
    let waiting = cx.now.since(bound);
    let mut x = Finding::new(cause::KF301, f);
    x = x.since(bound);
    let last = heard::kubelet(cx, name);
    let local = cx.shared.is_local(name);
    let silent = cx
        .shared
        .node_quiet
        .filter(|t| local && cx.shared.silence(*t, cx.now) >= SILENT_NS);
    let lease = cx.shared.lease(cx.world, name).filter(|l| {
        // While the audit log is written, a renewal that it does not have was not made.
        let written = |t: Nanos| cx.now.since(t) < SILENT_NS;
        !local && (l.source == Source::Kube || cx.shared.audited.is_some_and(written))
    });
    if let Some(n) = facts.filter(|n| n.not_ready()) {
        x = node::not_ready(x, name, n);
    } else if let Some(last) = silent {
        x = node::silent(cx, x, last);
    } else if let Some(l) = lease.filter(|l| l.is_over(cx.shared.followed(cx.now))) {
        let sure = if node::is_sure(cx, &l) {
            Confidence::Likely
        } else {
            Confidence::Possible
        };
        x = node::lease_over(cx, x.at_most(sure), &l);
    } else if let Some(last) = last.as_ref().filter(|h| h.at >= bound.plus(PICK_UP_NS)) {
        if waiting >= IDLE_NS {
            found.extend(idle(cx, f, bound, last));
        }
        return;
    } else if waiting < limits::PICK_UP_BLIND.ns {
        // The kubelet is alive, or nothing is known about it: it may only be slow.
        return;
    } else if has_event_of_unknown_sender(f, bound) {
        // An Event of which it is not known who reports it may be the kubelet's.
        return;
    } else {
        x = x.at_most(Confidence::Possible);
        if last.is_none() {
            x = x.name(
                "what",
                "nothing shows whether it lives: no lease, no request and no Event of it was seen",
            );
        }
    }
    x = node::last_heard(cx, x, last.as_ref()).absence(
        bound,
        Source::Kube,
        "bound, and no sign of the kubelet since: no status, no event, no call",
    );
    found.push(x);
}
