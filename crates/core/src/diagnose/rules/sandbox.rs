//! Volumes and sandbox: a RunPodSandbox that does not return, a name that an earlier attempt holds, a sandbox that
//! keeps dying.

use super::Context;
use super::admit::joins_runtime;
use crate::backoff;
use crate::diagnose::cause;
use crate::diagnose::finding::Finding;
use crate::diagnose::history::{ContainerHistory, PodHistory};
use crate::diagnose::limits;
use crate::diagnose::text::{list, span, times as words};
use crate::diagnose::{Confidence, Proof, State};
use crate::flow::Stage;
use kflow_model::cri::method;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Source};

/// RunPodSandbox takes a second or two; forty pods at once take seven seconds (recording 19).
const SLOW_NS: i64 = limits::SANDBOX.ns;
/// Volumes are polled three times a second; the kubelet itself complains only after 123 s.
const VOLUMES_NS: i64 = limits::VOLUMES.ns;
/// With the API alone: the kubelet reports a missing ConfigMap or Secret at once, so a pod without any Event for this
/// long waits for its sandbox, or for a volume that has to be attached, which is reported after 123 s.
const BLIND_NS: i64 = limits::SANDBOX_BLIND.ns;

/// After this long the kubelet has said which volumes it waits for.
const VOLUMES_TOLD_NS: i64 = limits::VOLUMES_TOLD.ns;

/// True while the node's network can be what the pod waits for: the node has not turned Ready since it was said, and the pod
/// has no container that runs. The kubelet skips pods that run as well, and says no more of them once the network is back.
fn lacks_network(cx: Context<'_>, f: &PodHistory<'_>, x: &Finding<'_>) -> bool {
    let said = x.proofs.iter().map(|p| p.at).max();
    let ready = cx.shared.node(&f.view.node).filter(|n| !n.not_ready());
    let turned = ready.and_then(|n| n.ready_since);
    let is_over = said
        .zip(turned)
        .is_some_and(|(said, at)| at.plus(SECOND) > said);
    !is_over && !f.containers.iter().any(ContainerHistory::runs)
}

pub(super) fn rules<'a>(cx: Context<'a>, f: &'a PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    if let Some(call) = f.in_flight(method::RUN_POD_SANDBOX) {
        let age = cx.now.since(call.at);
        if age >= SLOW_NS && !joins_runtime(found, call, cx.now) {
            // Earlier failures do not explain a call that hangs now. The runtime's own log lines since the call began
            // do, above all the line that says what it waits for; that line may be an earlier call's, which waits for
            // the same.
            let waits =
                |p: &Proof| (f.network_wait).is_some_and(|(o, _)| p.evidence.as_ref() == Some(o));
            let said = |p: &Proof| p.source == Source::Runtime && p.at >= call.at;
            let proved = |by: &dyn Fn(&Proof) -> bool| {
                let mut all = found.iter();
                all.position(|k| k.proofs.iter().any(by))
            };
            let x = match proved(&waits).or_else(|| proved(&said)) {
                Some(i) => found.remove(i).at(Stage::Sandbox),
                None => Finding::new(cause::KF506, f),
            };
            let over = call.start.timeout_ns.is_some_and(|d| age * 2 >= d);
            let state = if over { State::Stuck } else { State::Slow };
            let mut x = x.call(call, cx.now).state(state).since(call.at);
            x.attempt = f.sandbox_attempts;
            found.retain(|k| k.stage != Stage::Sandbox || k.cause.id == cause::KF310);
            found.push(x);
        }
        return;
    }
    found.retain(|x| x.cause.id != cause::KF310 || lacks_network(cx, f, x));
    if f.containers.iter().any(|c| !c.exits.is_empty()) {
        for x in found.iter_mut().filter(|x| x.cause.id == cause::KF310) {
            x.names.set("again", "again");
        }
    }
    flapping(f, found);
    if !found.is_empty() || f.sandbox.is_some() {
        return;
    }
    let Some(began) = f.picked_up else { return };
    let waited = cx.now.since(began);
    if cx.lost_calls_since(began) {
        // RunPodSandbox may be among the lost calls: nothing follows from its absence.
        return;
    }
    if let (None, Some((_, o)), true) = (f.volumes, f.volumes_wait, waited >= VOLUMES_NS) {
        let x = Finding::new(cause::KF401, f);
        found.push(
            x.varying(
                "detail",
                &format!("no sandbox was asked for in {}", span(waited)),
            )
            .name("volumes", &list(&attached(f)))
            .proof(o)
            .absence(
                began,
                Source::Cri,
                "no RunPodSandbox yet: the last step seen is WaitForAttachAndMount",
            ),
        );
    } else if f.node_seen.is_none() && f.api.is_some() && waited >= BLIND_NS {
        let waiting = f
            .api
            .and_then(|p| p.condition("PodReadyToStartContainers"))
            .is_some_and(|c| c.status == "False");
        let volumes = attached(f);
        let silence = "PodReadyToStartContainers=False, and no event of volumes or sandbox";
        if !waiting {
            return;
        }
        let is_event = |o: &Evidence| matches!(o.body, Body::Event(_));
        let has_events = cx.world.coverage().newest_list("events").is_some()
            || f.view.evidence.telling().any(is_event);
        if !has_events {
            // Nothing follows from the silence of what was not read.
            if cx.events_unread() {
                return;
            }
            found.extend(unseen(cx, f).map(|x| x.at_most(Confidence::Possible)));
        } else if !volumes.is_empty() && waited < VOLUMES_TOLD_NS {
            let x = Finding::new(cause::KF401, f);
            found.push(
                x.name("volumes", &list(&volumes))
                    .varying("detail", &format!("nothing was said for {}", span(waited)))
                    .at_most(Confidence::Possible)
                    .absence(began, Source::Kube, silence),
            );
        } else {
            let x = Finding::new(cause::KF506, f).at(stands_in(f));
            found.push(
                x.varying("blind", &span(waited))
                    .at_most(Confidence::Possible)
                    .absence(began, Source::Kube, silence),
            );
        }
    }
}

/// Returns a finding for a pod that has no sandbox, when no source says whether volumes or the sandbox hold it up: an
/// older API has no such condition, or calls were lost.
pub(super) fn unseen<'a>(cx: Context<'a>, f: &PodHistory<'a>) -> Option<Finding<'a>> {
    let began = f.picked_up?;
    let waited = cx.now.since(began);
    if waited < BLIND_NS || f.api.is_none() {
        return None;
    }
    let volumes = attached(f);
    let x = if volumes.is_empty() {
        Finding::new(cause::KF713, f)
            .at(stands_in(f))
            .since(began)
            .name("what", "The pod has no sandbox")
    } else {
        Finding::new(cause::KF401, f)
            .name("volumes", &list(&volumes))
            .varying("detail", &format!("nothing was said for {}", span(waited)))
    };
    let x = x.proof_if(f.api_evidence);
    let read = cx.world.coverage().newest_list("events").is_some();
    let silence = if read {
        "the kubelet has begun with the pod, and no event of volumes or sandbox since"
    } else {
        "the kubelet has begun with the pod; Events were not read"
    };
    Some(x.absence(began, Source::Kube, silence))
}

/// Returns the stage that the pod list shows for a pod that may wait for volumes or for its sandbox.
fn stands_in(f: &PodHistory<'_>) -> Stage {
    f.stage_among(Stage::Volumes..=Stage::Sandbox)
        .unwrap_or(Stage::Sandbox)
}

/// Returns the volumes that are not local and have to be attached or mounted from elsewhere: `data (claim db-0)`.
fn attached(f: &PodHistory<'_>) -> Vec<String> {
    let Some(pod) = f.api else { return Vec::new() };
    let remote = pod.spec.volumes.iter().filter(|v| !v.is_local());
    remote
        .map(|v| match v.claim(&pod.name) {
            Some(claim) => format!("{} (claim {claim})", v.name),
            None => format!("{} ({})", v.name, v.kind),
        })
        .collect()
}

/// Returns how often Events say that the sandbox was changed, without those of long ago: each restart of a node changes the
/// sandboxes of all its pods.
fn changed_of_late(f: &PodHistory<'_>) -> u32 {
    let counts = f.view.evidence.telling().filter_map(|o| match &o.body {
        Body::Event(e) if e.reason == "SandboxChanged" => {
            (f.now.since(o.stamp.at) <= backoff::FORGOTTEN_NS).then(|| e.count.max(1))
        }
        _ => None,
    });
    counts.fold(0, u32::saturating_add)
}

/// Adds a finding for a sandbox that is created again and again.
pub(super) fn flapping<'a>(f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let changed = f.signals.iter().find(|s| s.reason == "SandboxChanged");
    let told = changed.map_or(0, |s| match s.evidence.body {
        Body::Event(_) => s.count.min(changed_of_late(f)),
        _ => s.count,
    });
    let made = f.sandboxes.saturating_sub(1);
    let times = told.max(made);
    // A sandbox that cannot be created, or not be stopped, has a cause of its own; these were created, and ended. By
    // the Event alone that is not known: it is sent before the old sandbox is stopped.
    if times < 2 || found.iter().any(|k| k.stage <= Stage::Sandbox) {
        return;
    }
    // A pull that fails needs no sandbox, and is no consequence of one that ends.
    let pulls = |k: &Finding<'_>| k.stage == Stage::Image && k.confidence == Confidence::Certain;
    if made < told && found.iter().any(pulls) {
        return;
    }
    let mut x = Finding::new(cause::KF513, f);
    x = if made >= told {
        x.name("times", &(times + 1).to_string())
    } else {
        x.name("changed", &words(told))
    };
    // The Event says no more than that it was changed.
    if let Some(s) = changed.filter(|s| matches!(s.evidence.body, Body::Log(_))) {
        x = x.name("what", &s.text);
    }
    x = x.proof_if(changed.map(|s| s.evidence));
    if let Some(last) = changed
        && f.now.since(last.at) > backoff::FORGOTTEN_NS
    {
        return;
    }
    x.attempt = times + 1;
    if f.is_ready() == Some(true) {
        x.state = State::Flapping;
    }
    found.push(x);
}

/// Adds to a finding the earlier call that timed out and now holds the name of the sandbox or container.
pub(super) fn earlier<'a>(x: &mut Finding<'a>, f: &PodHistory<'a>) {
    let method = if x.cause.id == cause::KF507 {
        method::RUN_POD_SANDBOX
    } else {
        method::CREATE_CONTAINER
    };
    let first = f.timed_out.iter().find(|c| {
        c.start.method == method && (x.container.is_empty() || c.container == x.container)
    });
    if let Some(c) = first {
        let lasted = c.end.map_or(0, |e| e.since(c.at));
        x.names.set(
            "earlier",
            &format!("after {method} timed out after {}", span(lasted)),
        );
        let what = format!("CRI {method}  ran out of time after {}", span(lasted));
        *x = x.clone().proof_as(c.evidence, what);
        return;
    }
    let told = f
        .signals
        .iter()
        .find(|s| crate::diagnose::signal::timed_out(&s.text) && s.at <= f.now);
    match told {
        Some(s) => {
            x.names.set("earlier", &format!("after {method} timed out"));
            x.proofs.push(crate::diagnose::finding::signal_proof(s));
        }
        None => x.names.set("earlier", "by a call that was not recorded"),
    }
}
