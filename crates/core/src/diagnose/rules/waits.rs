//! Findings for pods that wait when no other rule knows why: they name the component that has to act next, and its
//! newest sign of life. So every wait has a verdict.

use rustc_hash::FxHashSet;

use super::{Context, heard, sandbox};
use crate::diagnose::Confidence;
use crate::diagnose::cause;
use crate::diagnose::finding::{Finding, node_of};
use crate::diagnose::history::{ContainerHistory, PodHistory};
use crate::diagnose::limits;
use crate::diagnose::text::{list, span};
use crate::diagnose::unknown::may_be_listed;
use crate::flow::{self, Fact, Stage};
use kflow_model::cri::method;
use kflow_model::pod::{ContainerState, WatchEvent};
use kflow_model::{Body, Nanos, Source};

/// The same as of the moment up to which the pod was followed. Of a pod that a plain list shows nothing is heard after that list was
/// read, whatever has happened: another file of the same folder may be of hours later.
fn as_followed<'a>(cx: Context<'a>, f: &PodHistory<'_>) -> Context<'a> {
    if !is_plain(cx, f) || cx.shared.node_last.is_some() || cx.events_followed() {
        return cx;
    }
    let last = f.view.evidence.iter().map(|o| o.stamp.seen).max();
    Context {
        now: last.map_or(cx.now, |last| last.min(cx.now)),
        ..cx
    }
}

/// True for a pod that is known from a list alone, as kubectl prints one.
fn is_plain(cx: Context<'_>, f: &PodHistory<'_>) -> bool {
    f.api.is_some_and(|p| p.event == WatchEvent::Listed) && !may_be_listed(cx.world, f.view)
}

pub(super) fn rules<'a>(cx: Context<'a>, f: &'a PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let cx = as_followed(cx, f);
    if let Some(x) = goes_on(cx, f) {
        found.push(x);
        return;
    }
    // Nothing follows from the silence of what may not be read; the kubelet's log repeats its Events.
    if moved_lately(cx, f) || cx.events_unread() && !f.has_log {
        return;
    }
    let told = if f.deleted.is_some() {
        deleted(cx, f)
    } else if f.bound.is_none() && f.picked_up.is_none() {
        unbound(cx, f)
    } else if f.picked_up.is_none() {
        None
    } else if f.sandbox.is_none() {
        sandbox::unseen(cx, f).map(|x| on_node(cx, f, x))
    } else {
        container(cx, f)
            .or_else(|| empty(cx, f))
            .or_else(|| unready(cx, f))
    };
    found.extend(told.map(|x| x.at_most(Confidence::Possible)));
}

/// For a deleted pod of which is known who ended it, but not why it is still there.
pub(super) fn lingers<'a>(cx: Context<'a>, f: &'a PodHistory<'a>) -> Option<Finding<'a>> {
    let cx = as_followed(cx, f);
    let x = (!moved_lately(cx, f)).then(|| deleted(cx, f)).flatten();
    x.map(|x| x.at_most(Confidence::Possible))
}

/// CRI calls that make a pod progress; the others only read.
const STEPS: [&str; 8] = [
    method::RUN_POD_SANDBOX,
    method::PULL_IMAGE,
    method::CREATE_CONTAINER,
    method::START_CONTAINER,
    method::STOP_CONTAINER,
    method::REMOVE_CONTAINER,
    method::STOP_POD_SANDBOX,
    method::REMOVE_POD_SANDBOX,
];

/// True when something was done for the pod a moment ago, or its state changed: it does not stand still.
fn moved_lately(cx: Context<'_>, f: &PodHistory<'_>) -> bool {
    let fresh = |at: Nanos| cx.now.since(at) < limits::MOVES.ns;
    let steps: Vec<_> = f
        .view
        .evidence
        .telling()
        .filter_map(|o| match &o.body {
            Body::CallStart(c) if STEPS.contains(&c.method.as_str()) => Some(c.key),
            _ => None,
        })
        .collect();
    f.view
        .evidence
        .telling()
        .rev()
        .filter(|o| fresh(o.stamp.seen))
        .any(|o| match &o.body {
            Body::CallStart(c) => STEPS.contains(&c.method.as_str()),
            Body::CallEnd(c) => c.code == Some(0) && steps.contains(&c.key),
            Body::Event(e) => {
                !e.warning && !e.listed && e.component == "kubelet" && e.reason != "BackOff"
            }
            // The list of a watch shows states that may be old; a plain list is all that is known, and says nothing of
            // what came before it, but when the pod was to be gone.
            Body::Pod(p) => {
                let is_told = p.deletion.is_some() || may_be_listed(cx.world, f.view);
                let old = p.event == WatchEvent::Listed && is_told;
                o.source == Source::Kube && (!old || fresh(p.last_change()))
            }
            Body::Fs(_) => true,
            _ => false,
        })
}

/// Adds the newest sign of life of the kubelet, which has to act next.
fn on_node<'a>(cx: Context<'a>, f: &PodHistory<'a>, x: Finding<'a>) -> Finding<'a> {
    match heard::kubelet(cx, node_of(f.view, f.api)) {
        Some(h) => x
            .varying("heard", &h.in_words(cx.now))
            .proof_if(h.evidence.as_ref()),
        None => x,
    }
}

/// For a pod that is not bound when neither the scheduler nor the pod says why.
fn unbound<'a>(cx: Context<'a>, f: &PodHistory<'a>) -> Option<Finding<'a>> {
    let pod = f.api?;
    if cx.now.since(pod.created) < limits::UNBOUND.ns {
        return None;
    }
    let mut x =
        Finding::new(cause::KF223, f).name("unbound", "and nothing says why it is not bound");
    if let Some(h) = heard::scheduler(cx, &pod.spec.scheduler) {
        x = x
            .varying("heard", &h.in_words(cx.now))
            .proof_if(h.evidence.as_ref());
    }
    Some(x.proof_if(f.api_evidence))
}

/// Returns the next container that has not been started; init containers come first.
fn next<'f, 'a>(f: &'f PodHistory<'a>) -> Option<&'f ContainerHistory<'a>> {
    let waiting = |c: &&ContainerHistory<'a>| {
        c.started.is_none()
            && c.exits.is_empty()
            && !f.is_ephemeral(&c.name)
            && c.status
                .is_none_or(|s| matches!(s.state, ContainerState::Waiting { .. }))
    };
    let begun = |c: &&ContainerHistory<'a>| f.is_initial(&c.name) && waiting(c);
    // The other containers wait for an init container that runs, which has its own finding.
    if f.containers.iter().any(|c| f.is_init(&c.name) && c.runs()) {
        return None;
    }
    f.containers
        .iter()
        .find(begun)
        .or_else(|| f.containers.iter().find(waiting))
}

/// For a pod whose sandbox exists when a container has not started.
fn container<'a>(cx: Context<'a>, f: &PodHistory<'a>) -> Option<Finding<'a>> {
    let c = next(f).filter(|c| !c.name.is_empty())?;
    let since = moved(f)?;
    if cx.now.since(since) < limits::CREATE_BLIND.ns {
        return None;
    }
    let x = Finding::new(cause::KF713, f)
        .at(f
            .stage_among(Stage::Image..=Stage::Start)
            .unwrap_or(Stage::Create))
        .container(&c.name)
        .name("what", &format!("Container {} has not started", c.name))
        .since(since)
        .proof_if(f.api_evidence)
        .absence(
            since,
            if f.has_cri { Source::Cri } else { Source::Kube },
            format!("nothing of container {} since", c.name),
        );
    Some(on_node(cx, f, x))
}

/// For a pod whose sandbox exists when no source shows a container, not even in a spec.
fn empty<'a>(cx: Context<'a>, f: &PodHistory<'a>) -> Option<Finding<'a>> {
    let since = moved(f).filter(|_| f.containers.is_empty() && f.api.is_none())?;
    if shows_container(f) {
        return None;
    }
    if cx.now.since(since) < limits::CREATE_BLIND.ns || f.sandbox_stopped.is_some() {
        return None;
    }
    let x = Finding::new(cause::KF713, f)
        .at(f
            .stage_among(Stage::Image..=Stage::Create)
            .unwrap_or(Stage::Create))
        .name("what", "The pod has its sandbox and no container")
        .since(since)
        .absence(
            since,
            if f.has_cri {
                Source::Cri
            } else {
                Source::Kubelet
            },
            "no CreateContainer call since",
        );
    Some(on_node(cx, f, x))
}

/// True when a log shows that the pod has a container: the runtime names one, or the kubelet has found one that is not the sandbox,
/// or all to run.
fn shows_container(f: &PodHistory<'_>) -> bool {
    let logs = || {
        f.view.evidence.iter().filter_map(|o| match &o.body {
            Body::Log(l) => Some(l),
            _ => None,
        })
    };
    let sandboxes: FxHashSet<&str> = logs().filter_map(|l| l.field("sandbox")).collect();
    logs().any(|l| match flow::line(l).map(|said| said.fact()) {
        Some(Fact::StartObserved) => true,
        Some(Fact::PlegEvent) => {
            let id = l.container_id.as_str();
            !id.is_empty() && !sandboxes.is_empty() && !sandboxes.contains(id)
        }
        _ => !l.container.is_empty() && l.field("sandbox").is_some(),
    })
}

/// Returns when the node last made progress with the pod.
fn moved(f: &PodHistory<'_>) -> Option<Nanos> {
    let of = |c: &ContainerHistory<'_>| {
        let ended = c.exits.last().map(|e| e.at);
        [c.pulled, c.created, c.started, ended]
            .into_iter()
            .flatten()
            .max()
    };
    f.containers
        .iter()
        .filter_map(of)
        .chain(f.sandbox_since.or(f.sandbox))
        .chain(f.answered)
        .max()
}

/// For a pod whose containers all run, and that is not ready.
fn unready<'a>(cx: Context<'a>, f: &PodHistory<'a>) -> Option<Finding<'a>> {
    let pod = f.api?;
    let runs = |c: &&ContainerHistory<'a>| c.runs() && !f.is_ephemeral(&c.name);
    let started = f
        .containers
        .iter()
        .filter(runs)
        .filter_map(|c| c.started)
        .max()?;
    let mut delay = 0;
    for p in pod.spec.containers.iter().flat_map(|c| &c.probes) {
        // A startup probe may fail up to its failure threshold: until then the container is starting.
        let patience = match p.kind.as_str() {
            "startup" => {
                i64::from(p.initial_delay_s)
                    + i64::from(p.period_s.max(1)) * i64::from(p.failure_threshold.max(1))
            }
            "readiness" => i64::from(p.initial_delay_s),
            _ => 0,
        };
        delay = delay.max(patience);
    }
    let ready = pod.condition("Ready").filter(|c| !c.is_true());
    let since = ready
        .and_then(|c| c.transition)
        .unwrap_or(started)
        .max(started);
    if cx.now.since(since) < limits::READY_BLIND.ns + delay * kflow_model::stamp::SECOND {
        return None;
    }
    let what = ready
        .map(|c| format!("{} {}", c.reason, c.message))
        .unwrap_or_default();
    let x = Finding::new(cause::KF809, f)
        .since(since)
        .name("what", &what)
        .varying("running", &span(cx.now.since(started)))
        .proof_if(f.api_evidence);
    Some(on_node(cx, f, x))
}

/// For a pod in which a container has ended well for good while others run.
fn goes_on<'a>(cx: Context<'a>, f: &PodHistory<'a>) -> Option<Finding<'a>> {
    if f.deleted.is_some() {
        return None;
    }
    // kubectl says so of what this is about, and no more (`printPod`).
    if f.api.is_some_and(|p| p.status.reason == "NotReady") {
        let x = Finding::new(cause::KF810, f).seen_only(cx.now);
        return Some(x.proof_if(f.api_evidence));
    }
    if f.restarts_after_success()? {
        return None;
    }
    let mains = || {
        let all = f.containers.iter();
        all.filter(|c| !f.is_initial(&c.name) && !f.is_ephemeral(&c.name))
    };
    let ended = |c: &ContainerHistory<'a>| {
        let last = c.exits.last().filter(|_| !c.runs())?;
        (last.code == Some(0)).then_some(last.at)
    };
    let done: Vec<&str> = mains()
        .filter(|c| ended(c).is_some())
        .map(|c| c.name.as_str())
        .collect();
    let at = mains().filter_map(ended).max()?;
    let others: Vec<&str> = mains()
        .filter(|c| c.runs())
        .map(|c| c.name.as_str())
        .collect();
    let other = others.first()?;
    let all_began = mains().count() == done.len() + others.len();
    if !all_began || cx.now.since(at) < limits::READY_BLIND.ns {
        return None;
    }
    let job = f.api.and_then(|p| p.owner.as_ref());
    let mut x = Finding::new(cause::KF810, f)
        .since(at)
        .name("done", &list(&done))
        .name("others", &list(&others))
        .name("other", other)
        .varying("ago", &span(cx.now.since(at)))
        .proof_if(f.api_evidence);
    if let Some(job) = job.filter(|o| o.kind == "Job") {
        x = x.name("job", &format!("Job {}", job.name));
    }
    Some(x)
}

/// For a deleted pod that still exists when no other rule knows why.
fn deleted<'a>(cx: Context<'a>, f: &PodHistory<'a>) -> Option<Finding<'a>> {
    let deleted = f.deleted?;
    // Without the API it is not known whether the pod still exists there.
    f.api?;
    let grace = f.grace_s.unwrap_or(30) * kflow_model::stamp::SECOND;
    let running: Vec<&str> = f
        .containers
        .iter()
        .filter(|c| {
            !f.is_ephemeral(&c.name)
                && match c.status.map(|s| &s.state) {
                    Some(ContainerState::Running { .. }) => c.stopped.is_none(),
                    Some(ContainerState::Terminated(_)) => false,
                    // While its postStart hook runs, the status of a container that runs says that it is created.
                    Some(ContainerState::Waiting { .. }) | None => c.runs() && c.stopped.is_none(),
                }
        })
        .map(|c| c.name.as_str())
        .collect();
    // A kubelet that was away stops them later than the deletion asks for.
    let told = f.signals.iter().filter(|s| s.reason == "Killing");
    let killed = f.containers.iter().filter_map(|c| Some(c.killed?.0));
    let told = told.map(|s| s.at).chain(killed.filter(|t| *t >= deleted));
    let asked = told.max().map(|at| at.max(deleted));
    let ended = f
        .containers
        .iter()
        .filter_map(|c| c.exits.last().map(|e| e.at).max(c.stopped))
        .max()
        .unwrap_or(deleted)
        .max(deleted);
    let x = Finding::new(cause::KF914, f);
    // kubectl prints no finalizers: one of them may keep a pod whose containers have ended.
    if running.is_empty() && f.printed().is_some() {
        return None;
    }
    let (x, since, patience) = if running.is_empty() {
        let what = "its containers have ended, and the kubelet has not let it go: volumes to unmount, a cgroup to remove, or a status to report";
        (x.name("what", what), ended, limits::LET_GO.ns)
    } else if let Some(asked) = asked {
        let what = format!("container {} still runs", list(&running));
        (x.name("what", &what), asked, grace + limits::KILL.ns)
    } else {
        let mut evidence = f.view.evidence.iter();
        let has_events = evidence.any(|o| matches!(o.body, Body::Event(_)));
        let would_say = !is_plain(cx, f) || f.has_log || has_events;
        let quickly = limits::PICK_UP.ns.max(limits::LET_GO.ns);
        let (unsaid, patience) = if would_say {
            (", and the kubelet has not said that it stops it", quickly)
        } else {
            ("", grace + limits::LET_GO.ns)
        };
        let what = format!("container {} still runs{unsaid}", list(&running));
        (x.name("what", &what), deleted, patience)
    };
    // A kubelet that waits for the pod's volumes begins to stop the pod only when that wait ends (seen with 1.27):
    // answered calls then show progress. At a container that runs it looks all the time.
    let moved = if running.is_empty() {
        f.answered
    } else {
        let steps = f.view.timeline.spans.iter();
        let steps = steps.filter(|s| s.stage == Stage::Terminate);
        steps.filter_map(|s| s.end).map(|end| end.at).max()
    };
    let moves = moved.is_some_and(|at| cx.now.since(at) < limits::MOVES.ns);
    if cx.now.since(since) < patience || moves {
        return None;
    }
    let x = x
        .since(deleted)
        .proof_if(f.api_evidence)
        .proof_if(
            f.view
                .evidence
                .telling()
                .rfind(|o| matches!(&o.body, Body::Event(e) if e.reason == "Killing")),
        )
        .absence(since, Source::Kube, "nothing of the pod since");
    Some(on_node(cx, f, x))
}
