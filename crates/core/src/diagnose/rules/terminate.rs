//! Pods that were deleted and still exist.

use super::matched::failed_at;
use super::{Context, admit, image, waits};
use crate::diagnose::cause;
use crate::diagnose::finding::{Finding, node_of};
use crate::diagnose::history::{ContainerHistory, KillWhy, PodCall, PodHistory};
use crate::diagnose::limits;
use crate::diagnose::pulls::{Standing, image_of};
use crate::diagnose::signal::Signal;
use crate::diagnose::text::{list, span};
use crate::diagnose::{Confidence, State};
use crate::flow::Stage;
use kflow_model::cri::method;
use kflow_model::pod::{PodPhase, PodSeen, WatchEvent};
use kflow_model::scope::is_uid;
use kflow_model::{
    Body, Nanos, PodUid, Source, pod::ContainerState, stamp::SECOND, units::seconds,
};

/// A kubelet that works asks the runtime to stop the containers within a second.
const HELD_NS: i64 = limits::HELD.ns;
/// A preStop hook that runs for longer is reported; most are a short sleep.
const HOOK_NS: i64 = limits::HOOK.ns;
/// Many applications take some seconds to stop.
const STOP_NS: i64 = limits::STOP.ns;
/// After the grace period the kill takes a second or two.
const KILL_NS: i64 = limits::KILL.ns;
/// A kubelet that has come back has worked off what it missed after this long.
const BACK_NS: i64 = limits::BACKLOG.ns;
/// Name of the job controller's finalizer.
const JOB: &str = "batch.kubernetes.io/job-tracking";

/// Rank of who ended the pod where something else holds it up.
const ENDED_BY: u8 = 30;

pub(super) fn rules<'a>(cx: Context<'a>, f: &'a PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let Some(deleted) = f.deleted else { return };
    let age = cx.now.since(deleted);
    let grace = grace(f);
    found.retain(|k| !matches!(k.cause.id, cause::KF908 | cause::KF909) || age >= KILL_NS);
    for k in found.iter_mut() {
        k.since = deleted;
        if k.cause.id == cause::KF911 && age > grace + KILL_NS {
            // By now it matters less who ended the pod than what holds it up.
            k.rank = ENDED_BY;
        }
    }
    let node = node_of(f.view, f.api);
    unreported(cx, f, node, age > grace, found);
    let stopping = f
        .in_flight(method::STOP_CONTAINER)
        .or_else(|| f.in_flight(method::STOP_POD_SANDBOX));
    let held_up = match stopping {
        Some(call) => cx.now >= due(f, call),
        None => running(f),
    };
    if held_up && age >= grace.max(KILL_NS) {
        admit::runtime(cx, f, Stage::Terminate, found);
    }
    held(cx, f, age, found);
    pull(cx, f, age, found);
    hook(cx, f, age, found);
    stop(cx, f, found);
    finalizers(f, age, found);
    if !sees_the_stop(cx, f) && found.iter().all(|k| k.cause.id == cause::KF911) {
        // A kubelet that has just come back has to work off its backlog first.
        let caught_up = cx
            .shared
            .node(node)
            .and_then(|n| n.ready_since)
            .is_none_or(|t| cx.now.since(t) >= BACK_NS);
        if caught_up {
            blind(f, age, grace, found);
        }
    }
    // Who ended the pod does not say why it is still there.
    if found.iter().all(|k| k.cause.id == cause::KF911) && age > grace + KILL_NS {
        found.extend(waits::lingers(cx, f).map(|x| Finding {
            rank: ENDED_BY + 1,
            ..x
        }));
    }
    if let Some(next) = next_of_name(f) {
        for k in found.iter_mut() {
            k.names.set("next_pod", &next);
        }
    }
    // What holds the pod up matters more than who ended it, because it can be changed.
    if found.iter().any(|k| k.cause.id != cause::KF911) {
        for k in found.iter_mut().filter(|k| k.cause.id == cause::KF911) {
            k.rank = ENDED_BY;
        }
    }
}

/// The grace period of the pod's deletion, ns.
fn grace(f: &PodHistory<'_>) -> i64 {
    f.grace_s.unwrap_or(30) * SECOND
}

/// True while a deleted pod may take its time to stop.
pub(super) fn is_within_grace(f: &PodHistory<'_>) -> bool {
    f.deleted
        .is_some_and(|deleted| f.now.since(deleted) <= grace(f) + KILL_NS)
}

/// True when the tap would have shown a StopContainer of the pod: it was there when the kubelet began to stop the containers, and has
/// lost no call since then.
fn sees_the_stop(cx: Context<'_>, f: &PodHistory<'_>) -> bool {
    let kills = f.containers.iter().filter_map(|c| c.killed);
    let stops = kills.filter(|(_, why, _)| *why == KillWhy::Stop);
    let begun = stops.map(|(at, ..)| at).max();
    let first = cx.world.source(Source::Cri).first;
    let before = |at: Nanos| first.is_none_or(|first| at < first) || cx.lost_calls_since(at);
    f.has_cri && (f.in_flight(method::STOP_CONTAINER).is_some() || !begun.is_some_and(before))
}

/// Adds a finding without the tap: for a deleted pod that still runs, by Events, its status and the hooks in its spec.
fn blind<'a>(f: &PodHistory<'a>, age: i64, grace: i64, found: &mut Vec<Finding<'a>>) {
    let told = |c: &&ContainerHistory<'_>| {
        c.killed.is_some_and(|(_, why, _)| why == KillWhy::Stop)
            && matches!(
                c.status.map(|s| &s.state),
                Some(ContainerState::Running { .. })
            )
    };
    let Some(c) = f.containers.iter().find(told) else {
        return;
    };
    let Some((at, _, o)) = c.killed else { return };
    let hook = f
        .api
        .and_then(|p| p.container(&c.name))
        .is_some_and(|s| !s.pre_stop.is_empty());
    // A kubelet that is started anew stops it anew, with the whole grace period.
    let stopping = f.now.since(at).min(age);
    let late = stopping > grace + 2 * KILL_NS;
    // The API sets a restart policy in every pod. What kubectl prints has neither that nor the hooks.
    let printed = f.api.is_some_and(|p| p.spec.restart_policy.is_empty());
    if printed && !late {
        return;
    }
    let (id, patience) = match (late, hook) {
        (true, _) => (cause::KF905, 0),
        (false, true) => (cause::KF904, HOOK_NS),
        (false, false) => (cause::KF903, STOP_NS),
    };
    if age < patience {
        return;
    }
    let x = Finding::new(id, f);
    let x = if late {
        let over = span(stopping - grace);
        let what = format!("it still runs {over} after its grace period");
        x.varying("what", &what)
    } else {
        x.varying("running", &span(f.now.since(at)))
    };
    found.push(
        x.container(&c.name)
            .at_most(if late {
                Confidence::Possible
            } else {
                Confidence::Likely
            })
            .proof(o)
            .proof_if(f.api_evidence),
    );
}

/// Adds a finding when nothing can report that the pod has stopped: the control plane marks its node as Unknown, or
/// its kubelet is silent.
fn unreported<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    node: &str,
    late: bool,
    found: &mut Vec<Finding<'a>>,
) {
    let x = Finding::new(cause::KF902, f);
    // The control plane says so on the pod where its node does not report (until 1.17 that is all it says: pkg/util/node/node.go,
    // `SetPodTerminationReason`).
    if let Some(api) = f.api.filter(|p| p.status.reason == "NodeLost") {
        let message = api.status.message.trim_end_matches(['.', ' ']);
        found.push(
            x.name("silent", node)
                .name("what", message)
                .proof_if(f.api_evidence),
        );
        return;
    }
    // The kubelet has said that the pod's containers have ended, and that is all that it has to do: others keep the object.
    let confirmed = |p: &PodSeen| p.status.phase.is_over() && !p.finalizers.is_empty();
    if !late || f.api.is_some_and(confirmed) {
        return;
    }
    let marked = cx
        .shared
        .node(node)
        .and_then(|n| Some((n, n.ready.as_ref()?)))
        .filter(|(_, (status, ..))| status == "Unknown");
    if let Some((n, (status, reason, _))) = marked {
        found.push(
            x.name("silent", node)
                .name("what", &format!("Ready={status} {reason}"))
                .proof_if(n.evidence.as_ref()),
        );
        return;
    }
    // A list that kubectl printed does not say what it was asked for, so it may lack nodes.
    let read = cx.world.nodes().iter().filter(|n| n.api.is_some()).count();
    let unread = !node.is_empty()
        && cx
            .shared
            .node(node)
            .is_none_or(|n| n.evidence.is_none() && !n.local);
    let has_own = f.has_cri || f.has_log;
    // A single node was asked for by its name.
    if unread && read > 1 && !has_own && cx.shared.missing(cx.world, node).is_none() {
        let x = x
            .name("unread", node)
            .name("what", &format!("{read} others were"));
        found.push(x.at_most(Confidence::Likely));
        return;
    }
    // A kubelet of a low verbosity logs nothing for long.
    let calls = cx.world.source(Source::Cri).last.is_some();
    let silent = cx.shared.node_quiet.filter(|t| {
        calls
            && cx.shared.is_local(node)
            && cx.shared.silence(*t, cx.now) >= admit::SILENT_NS
            && f.open.is_empty()
            && running(f)
    });
    if let Some(last) = silent {
        let what = format!(
            "it has neither logged nor called the runtime for {}",
            span(cx.shared.silence(last, cx.now))
        );
        found.push(
            x.name("silent", node)
                .varying("what", &what)
                .at_most(Confidence::Likely)
                .absence(
                    last,
                    Source::Kubelet,
                    "last line of the kubelet's log, or call of it",
                ),
        );
    }
}

/// Returns what waits for the name of a deleted pod: a StatefulSet gives it to the next pod (Kubernetes 1.36
/// `pkg/controller/statefulset/stateful_set_control.go`, `processReplica`).
fn next_of_name(f: &PodHistory<'_>) -> Option<String> {
    let owner = f.view.owners.first().or_else(|| f.api?.owner.as_ref())?;
    (owner.kind == "StatefulSet").then(|| {
        format!(
            "StatefulSet {} cannot make its new pod of this name",
            owner.name
        )
    })
}

fn running(f: &PodHistory<'_>) -> bool {
    f.containers
        .iter()
        .any(|c| match c.status.map(|s| &s.state) {
            Some(ContainerState::Running { .. }) => c.stopped.is_none(),
            Some(_) => false,
            None => c.runs() && c.stopped.is_none(),
        })
}

/// Adds a finding for a call of the pod itself that its pod worker waits for.
fn held<'a>(cx: Context<'a>, f: &'a PodHistory<'a>, age: i64, found: &mut Vec<Finding<'a>>) {
    let deleted = f.deleted.unwrap_or(f.now);
    // The worker runs a hook by an ExecSync without a deadline: a postStart hook before the deletion, a preStop hook
    // from then on.
    let hook = |c: &PodCall<'_>| {
        c.start.method == method::EXEC_SYNC
            && c.start.timeout_ns.is_none()
            && c.at.plus(2 * SECOND) < deleted
    };
    let Some(call) = f.open.iter().find(|c| {
        hook(c)
            || matches!(
                c.start.method.as_str(),
                method::PULL_IMAGE
                    | method::RUN_POD_SANDBOX
                    | method::CREATE_CONTAINER
                    | method::START_CONTAINER
            )
    }) else {
        return;
    };
    if age < HELD_NS {
        return;
    }
    let x = Finding::new(cause::KF913, f);
    let x = match call.start.method.as_str() {
        _ if hook(call) => x.name("method", "ExecSync of a postStart hook"),
        method::PULL_IMAGE => {
            let image = call.start.subject.image.as_str();
            let progress = image::progress(cx, f, image, call.at);
            let x = x.name("pull", image).name("called", image);
            match &progress {
                Some(p) => x.varying("progress", &p.whole(cx.now)).proof(&p.evidence),
                None => x,
            }
        }
        _ => x,
    };
    let mut x = x
        .name("image", &call.start.subject.image)
        .container(&call.container)
        .call(call, cx.now);
    if x.names.get("pull").is_none() {
        let call = x.names.get("method").unwrap_or_default().to_owned();
        x.names.set("call", &call);
    }
    found.push(x);
}

/// Adds a finding for a pull of the pod that was announced, has not ended, and of which no call is seen: its pod worker
/// waits for it all the same (pkg/kubelet/kubelet.go, `SyncPod`: the runtime is called with `context.WithoutCancel`).
fn pull<'a>(cx: Context<'a>, f: &'a PodHistory<'a>, age: i64, found: &mut Vec<Finding<'a>>) {
    if age < HELD_NS || found.iter().any(|k| k.cause.id == cause::KF913) {
        return;
    }
    for (w, o) in image::waiting(cx, f) {
        let image = image_of(o).unwrap_or_default();
        let x = Finding::new(cause::KF913, f).proof(o);
        let x = match &w.standing {
            Standing::BackOff => continue,
            Standing::Queued(ahead) => {
                image::behind(x.name("queued", &image), cx, f, ahead, w.since)
            }
            Standing::Pulling => {
                let x = x.absence(w.since, Source::Kube, "no Pulled event since");
                match image::progress(cx, f, &image, w.since) {
                    Some(p) => x
                        .name("pull", &image)
                        .name("coming", &image)
                        .varying("running", &span(f.now.since(w.since)))
                        .varying("progress", &p.whole(cx.now))
                        .proof(&p.evidence),
                    None => image::announced(x, cx, f, &image, w.since),
                }
            }
        };
        found.push(x.container(&w.container));
        return;
    }
}

/// Adds a finding for a preStop hook that runs: the kubelet says so, or an ExecSync without a deadline is in flight.
fn hook<'a>(cx: Context<'a>, f: &'a PodHistory<'a>, age: i64, found: &mut Vec<Finding<'a>>) {
    let deleted = f.deleted.unwrap_or(f.now);
    let asked = |c: &str| {
        f.open
            .iter()
            .any(|o| o.start.method == method::STOP_CONTAINER && o.container == c)
    };
    let exec = f.open.iter().find(|c| {
        c.start.method == method::EXEC_SYNC
            && c.start.timeout_ns.is_none()
            && c.at.plus(2 * SECOND) >= deleted
    });
    let logged = f
        .containers
        .iter()
        .find_map(|c| c.prestop.map(|(t, o)| (c, t, o)))
        .filter(|(c, t, _)| c.stopped.is_none_or(|s| s < *t) && !asked(&c.name));
    if age < HOOK_NS || (exec.is_none() && logged.is_none()) {
        return;
    }
    let x = Finding::new(cause::KF904, f);
    let x = match (exec, logged) {
        (Some(call), _) => x.container(&call.container).call(call, cx.now),
        (None, Some((c, t, o))) => x
            .container(&c.name)
            .varying("running", &span(cx.now.since(t)))
            .proof(o),
        (None, None) => return,
    };
    let x = match (exec, logged) {
        (Some(_), Some((_, _, o))) => x.proof(o),
        _ => x,
    };
    found.push(x.absence(cx.now, Source::Cri, "no StopContainer yet"));
}

/// Returns how long StopContainer gives the container to end by itself, ns.
fn timeout(f: &PodHistory<'_>, call: &PodCall<'_>) -> i64 {
    let mut fields = call.start.fields.iter();
    let given = fields.find(|(k, _)| k == "timeout");
    let given = given.and_then(|(_, v)| v.parse::<i64>().ok());
    given.or(f.grace_s).unwrap_or(30).saturating_mul(SECOND)
}

/// Returns when a call that stops a container or the sandbox should have returned, at the latest.
fn due(f: &PodHistory<'_>, call: &PodCall<'_>) -> Nanos {
    let lasts = if call.start.method == method::STOP_CONTAINER {
        timeout(f, call).saturating_add(KILL_NS)
    } else {
        2 * KILL_NS
    };
    call.at.plus(lasts)
}

/// Adds a finding for a StopContainer or StopPodSandbox that does not return.
fn stop<'a>(cx: Context<'a>, f: &'a PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    if let Some(call) = f.in_flight(method::STOP_CONTAINER) {
        let age = cx.now.since(call.at);
        let timeout = timeout(f, call);
        if cx.now >= due(f, call) {
            if admit::joins_runtime(found, call, cx.now) {
                return;
            }
            let x = Finding::new(cause::KF905, f);
            found.push(
                x.container(&call.container)
                    .varying("over", &span(age - timeout))
                    .call(call, cx.now),
            );
        } else if age >= STOP_NS.min(timeout / 2).max(HOOK_NS) {
            let x = Finding::new(cause::KF903, f);
            found.push(
                x.container(&call.container)
                    .name("grace", &seconds(timeout / SECOND))
                    .call(call, cx.now),
            );
        }
    } else if let Some(call) = f.in_flight(method::STOP_POD_SANDBOX)
        && cx.now >= due(f, call)
        && !admit::joins_runtime(found, call, cx.now)
    {
        let x = Finding::new(cause::KF907, f);
        found.push(x.call(call, cx.now));
    }
}

fn finalizers<'a>(f: &PodHistory<'a>, age: i64, found: &mut Vec<Finding<'a>>) {
    let (Some(pod), Some(o)) = (f.api, f.api_evidence) else {
        return;
    };
    let over = pod.status.phase.is_over()
        || pod
            .status
            .containers
            .iter()
            .all(|c| matches!(c.state, ContainerState::Terminated(_)))
        || !pod.is_bound();
    if pod.finalizers.is_empty() || !over {
        return;
    }
    let others: Vec<_> = pod.finalizers.iter().filter(|n| *n != JOB).collect();
    // Each pod of a Job has it, and the job controller takes it off as soon as the pod has ended: with the last of its
    // containers.
    let ended = f.containers.iter().filter_map(|c| c.exits.last());
    let waited = ended.map(|e| f.now.since(e.at)).min().unwrap_or(age);
    if others.is_empty() && waited < limits::CONTROLLER.ns {
        return;
    }
    let x = if others.is_empty() {
        Finding::new(cause::KF912, f).name("finalizers", JOB)
    } else {
        Finding::new(cause::KF901, f).name("finalizers", &list(&others))
    };
    let what = format!(
        "deleted, phase {}, finalizers [{}]",
        pod.status.phase,
        pod.finalizers.join(", ")
    );
    let x = if pod.is_bound() {
        x
    } else {
        x.name("never", "Nothing of the pod ever ran")
    };
    found.push(x.state(State::Stuck).proof_as(o, what));
}

fn named(node: &str) -> String {
    if node.is_empty() {
        "the node".to_owned()
    } else {
        format!("node {node}")
    }
}

/// Names the pod of which a message has the UID alone, as that of a preemption has, with its priority.
fn name_pod(cx: Context<'_>, what: &str) -> Option<String> {
    let uid = what.split(' ').find(|word| is_uid(word))?;
    let pod = cx.world.pod(&PodUid::from(uid))?;
    let priority = pod.api.as_ref().map(|p| p.spec.priority);
    let priority = priority.map_or_else(String::new, |n| format!(" (priority {n})"));
    Some(what.replace(uid, &format!("{}{priority}", pod.key())))
}

/// The reason of the Events by which the taint manager says that it deletes a pod, and that it does not after all.
const TAINT_EVICTION: &str = "TaintManagerEviction";

/// True for the latter (Kubernetes 1.36 pkg/controller/tainteviction/taint_eviction.go, `emitCancelPodDeletionEvent`).
pub(in crate::diagnose) fn takes_eviction_back(reason: &str, message: &str) -> bool {
    reason == TAINT_EVICTION && message.starts_with("Cancelling deletion")
}

/// Returns the component that ends a pod before its time, and what for, by the reason and the message of the pod's condition
/// `DisruptionTarget`, of its status or of an Event about it. `None` for another reason.
pub(in crate::diagnose) fn disruptor(reason: &str, message: &str, node: &str) -> Option<String> {
    // pkg/kubelet/nodeshutdown, `nodeShutdownReason` and `nodeShutdownMessage`; pkg/kubelet/preemption/preemption.go,
    // `message`. The condition has one reason for all, and the status may have lost its own.
    let shuts_down = reason == "Terminated" || message.contains("node shutdown");
    let for_critical = message.contains("accommodate a critical pod");
    Some(match reason {
        "TerminationByKubelet" if for_critical => {
            format!("the kubelet of {}, for a critical pod", named(node))
        }
        "Terminated" | "TerminationByKubelet" if shuts_down => {
            format!("the kubelet of {}, which shuts down", named(node))
        }
        "Evicted" | "TerminationByKubelet" => format!("the kubelet of {} (eviction)", named(node)),
        "Preempting" => format!("the kubelet of {}, for a critical pod", named(node)),
        "Preempted" | "PreemptionByScheduler" => {
            "the scheduler, for a pod with a higher priority (preemption)".to_owned()
        }
        "EvictionByEvictionAPI" => "the eviction API, for example a drain".to_owned(),
        _ if takes_eviction_back(reason, message) => return None,
        TAINT_EVICTION | "DeletionByTaintManager" => {
            format!("the taint manager, because of a taint of {}", named(node))
        }
        "DeletionByDeviceTaintManager" => "the device taint manager".to_owned(),
        "DeletionByPodGC" => "the pod garbage collector, because its node is gone".to_owned(),
        _ => return None,
    })
}

/// Sets the name `who` to the component that ended the pod.
pub(super) fn who(cx: Context<'_>, x: &mut Finding<'_>, s: &Signal<'_>, f: &PodHistory<'_>) {
    if let Some(what) = x.names.get("what").and_then(|what| name_pod(cx, what)) {
        x.names.replace("what", &what);
    }
    let node = node_of(f.view, f.api);
    let shuts_down = f.api.is_some_and(|p| p.status.reason == "Terminated");
    let who = match s.reason.as_ref() {
        "TerminationByKubelet" if shuts_down => disruptor("Terminated", &s.text, node),
        reason => disruptor(reason, &s.text, node),
    };
    let who = who.unwrap_or_else(|| "the system".to_owned());
    x.names.set("who", &who);
    match s.reason.as_ref() {
        "Preempted" | "PreemptionByScheduler" => x.names.set("preemptor", "the scheduler"),
        "Preempting" => x.names.set("preemptor", "the kubelet"),
        "EvictionByEvictionAPI" => x.names.set("evictor", "the eviction API"),
        _ => {}
    }
    // An eviction ends the pod for good; in the other cases the pod is deleted, which takes time.
    let over = f
        .api
        .map_or(s.reason == "Evicted", |p| p.status.phase.is_over());
    if f.api.is_some_and(|p| p.status.phase == PodPhase::Succeeded) {
        x.names.set("phase", PodPhase::Succeeded.as_str());
    }
    if !over {
        x.state = State::Slow;
    }
    // A list may be much newer than what it shows.
    let listed = matches!(&s.evidence.body, Body::Pod(p) if p.event == WatchEvent::Listed);
    let told = Some(s.at).filter(|_| !listed);
    if !over || f.deleted.is_some() {
        return;
    }
    let ended = || {
        let exits = f.containers.iter().filter_map(|c| c.exits.last());
        exits.filter(|e| !e.was_before).map(|e| e.at).max()
    };
    match failed_at(f, s).or(s.stated).or(told).or_else(ended) {
        Some(at) => x.since = at,
        None => (x.since, x.at_least) = (s.at, true),
    }
}
