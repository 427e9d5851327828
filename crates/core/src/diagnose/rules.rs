//! The rules: which causes are true of a pod. Causes that need more than one observation have a file for their stage;
//! all others are matched from the catalogue in `matched`.

mod admit;
mod attached;
mod autoscaler;
pub(in crate::diagnose) mod budget;
mod claims;
mod cni;
mod containers;
mod heard;
mod image;
mod jobs;
mod kueue;
mod matched;
mod namespace;
pub(in crate::diagnose) mod no_node;
mod node;
mod owner;
mod ready;
mod refused;
mod sandbox;
pub(in crate::diagnose) mod scale;
mod schedule;
mod spec;
mod taints;
mod terminate;
mod waits;
mod webhook;

pub use attached::Attachments;
pub use claims::{ClaimWaits, Storage};
pub(in crate::diagnose) use claims::{
    alone as claims_alone, claims, claims_of, deleted as claims_deleted, own as claim,
};
pub(in crate::diagnose) use containers::killed_before;
pub use kueue::Workloads;
pub(super) use kueue::is_suspended_set;
pub(super) use matched::of_ephemeral;
pub(in crate::diagnose) use namespace::namespaces;
pub(in crate::diagnose) use node::{node, nodes};
pub use owner::{below, owner, owners};
pub(in crate::diagnose) use owner::{cannot_create, events_alone, gone};
pub(in crate::diagnose) use terminate::{disruptor, takes_eviction_back};

use super::cluster::Cluster;
use super::finding::Finding;
use super::history::{self, PodHistory};
use super::signal::Signal;
use super::target::place;
use super::text::span;
use super::told::Texts;
use super::{Catalogue, State, Verdict, cause, limits};
use crate::backoff;
use crate::correlate::{ObjectState, PodView, World};
use crate::flow::{Fact, Map, Stage};
use kflow_model::cri::method;
use kflow_model::pod::{PodPhase, WatchEvent};
use kflow_model::{Body, Evidence, Nanos, Source};

/// The reason of a line of a container's own log that says why it ended.
const CONTAINER_LOG: &str = "ContainerLog";

/// What rules may look at besides the pod.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The world as of `now`.
    pub world: &'a World,
    /// Facts that concern several pods.
    pub shared: &'a Cluster,
    /// Causes that were already found in texts of other pods.
    pub texts: &'a Texts,
    /// The moment as of which pods are diagnosed.
    pub now: Nanos,
}

impl Context<'_> {
    /// True when Events come by a watch, and not as kubectl lists them.
    fn events_followed(&self) -> bool {
        self.world.coverage().newest_list("events").is_some()
    }
    /// True when Events were asked for and have never been read, for example because the apiserver does not allow it.
    fn events_unread(&self) -> bool {
        let coverage = self.world.coverage();
        coverage.newest_list("events").is_none() && coverage.unread("events", self.now).is_some()
    }
    /// True when the tap has lost observations since `at`, so that an unseen call proves nothing.
    fn lost_calls_since(&self, at: Nanos) -> bool {
        let gaps = &self.world.source(Source::Cri).gaps;
        gaps.iter().any(|g| g.stamp.at >= at)
    }
}

/// Returns a pod that does not exist, with nothing but a namespace and an owner: findings are made of a pod's history, and one
/// about an object alone has none.
fn without_pod(o: &ObjectState, namespace: &str, since: Nanos) -> PodView {
    PodView {
        namespace: namespace.into(),
        created: since,
        owners: vec![o.object.clone()],
        ..PodView::default()
    }
}

/// Returns the objects of a kind that the selection admits, by namespace and name.
fn selected<'a>(cx: Context<'a>, kind: &str) -> Vec<&'a ObjectState> {
    let mut all = cx.world.objects();
    all.retain(|o| o.object.kind == kind && cx.world.selection().admits_owner(place(&o.object)));
    all.sort_by_key(|o| (&o.object.namespace, &o.object.name));
    all
}

/// Returns a finding as the verdict on an object itself. Of commands those go that need the name of a pod.
fn on_object(x: Finding<'_>, f: &PodHistory<'_>, o: &ObjectState) -> Verdict {
    let mut v = x.verdict(f);
    v.owner = Some(o.object.clone());
    v.not_reached = Vec::new();
    v.next.retain(|n| !n.command.contains('<'));
    v
}

/// Returns the newest state of an object among its evidence.
fn newest_state(o: &ObjectState) -> Option<&Evidence> {
    let is_state = |e: &&Evidence| matches!(e.body, Body::Object(_));
    o.evidence.iter().rev().find(is_state)
}

/// The health of a pod, before any cause is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Well, or ended as it should, or gone.
    Well,
    /// Well now, but its containers end, or its readiness is lost, again and again.
    Flapping,
    /// Not well, or not well yet.
    Unwell,
}

/// Returns the health of a pod.
pub fn health(f: &PodHistory<'_>) -> Health {
    // The tap cannot tell a deleted pod from a failed one; the kubelet's log can.
    let remnant = f.view.is_remnant() && !(f.is_ours() && f.has_log);
    // The runtime holds nothing of the pod any more, but the kubelet may: volumes or a cgroup.
    let left = |t: Nanos| {
        f.signals
            .iter()
            .any(|s| matches!(s.reason.as_ref(), "@unmount" | "@cgroup") && s.at > t)
    };
    let never = f.creation_forgotten();
    let removed = f.api.is_none() && f.removed.is_some_and(|t| !left(t));
    if f.view.gone.is_some() || removed || never || remnant {
        return Health::Well;
    }
    let succeeded = match f.api {
        Some(api) => api.status.phase == PodPhase::Succeeded,
        None => f.view.phase == PodPhase::Succeeded,
    };
    let ended_by_another = f.api.is_some() && f.deleted.is_some() || f.ended_by_kubelet();
    if succeeded && !ended_by_another {
        return Health::Well;
    }
    if f.api.is_some_and(|p| p.status.phase.is_over()) {
        return Health::Unwell;
    }
    // Deleting a mirror pod does not stop its static pod.
    let is_static = !f.view.mirrors.is_empty() || f.api.is_some_and(|p| p.mirror_of.is_some());
    if f.deleted.is_some() && !is_static {
        return Health::Unwell;
    }
    if f.deletion_refused() || f.eviction_refused() {
        return Health::Unwell;
    }
    let mains: Vec<_> = f
        .containers
        .iter()
        .filter(|c| !f.is_initial(&c.name) && !f.is_ephemeral(&c.name))
        .collect();
    let done = |c: &&history::ContainerHistory<'_>| {
        c.exits.last().is_some_and(|e| e.code == Some(0)) && !c.runs()
    };
    // Where the restart policy is not known, a container that exited with 0, once, counts as done.
    let once = mains
        .iter()
        .all(|c| c.exits.len() == 1 && c.restarts == 0 && !c.backs_off());
    let may_end = f.restarts_after_success().map_or(once, |again| !again);
    if !mains.is_empty() && may_end && mains.iter().all(done) {
        return Health::Well;
    }
    // What its output says ends it was written after it had started.
    if f.signals.iter().any(|s| {
        s.reason == CONTAINER_LOG && !mains.iter().any(|c| c.started.is_some_and(|t| t > s.at))
    }) {
        return Health::Unwell;
    }
    // A pending resize is a trouble of now: the pod was given other resources and has not got them.
    let resizing = match f.api {
        Some(p) => p.condition("PodResizePending").is_some_and(|c| {
            c.is_true()
                && c.transition
                    .is_none_or(|t| f.now.since(t) >= limits::RESIZE.ns)
        }),
        None => resize_waits(f),
    };
    if resizing {
        return Health::Unwell;
    }
    // The API shows later than the runtime that a container has ended: such a pod is not well, although Ready.
    let policy = f.api.map_or("", |p| p.spec.restart_policy.as_str());
    let down = |c: &&history::ContainerHistory<'_>| {
        matches!(c.run, Some(Some(_))) && !c.runs() && policy != "Never" && !done(c)
    };
    let well = match f.is_ready() {
        Some(ready) => ready && !mains.iter().any(down),
        // A description of which only a part is there has no conditions.
        None if f.api.is_some() => {
            f.view.uid.is_described()
                && !mains.is_empty()
                && mains.iter().all(|c| c.runs() && ready::is_ready(c))
        }
        // Without the API, a pod that runs and that nothing shows as unready counts as well.
        None => {
            !mains.is_empty()
                && mains.iter().any(|c| c.runs())
                && mains.iter().all(|c| c.runs() || ended_before_others(f, c))
                && !mains.iter().any(|c| ready::unready_by_node(f, c))
                && containers::hook_in_flight(f).is_none()
                && !evicted_since(f)
        }
    };
    let fails = |c: &&history::ContainerHistory<'_>| ready::fails_liveness(f, c).is_some();
    if !well {
        Health::Unwell
    } else if flaps(f) {
        Health::Flapping
    } else if mains
        .iter()
        .any(|c| fails(c) || containers::loses_processes(f, c))
    {
        Health::Unwell
    } else {
        Health::Well
    }
}

/// True when the kubelet said that it evicts the pod, and no container was started since.
fn evicted_since(f: &PodHistory<'_>) -> bool {
    let started = f.containers.iter().filter_map(|c| c.started).max();
    f.signals
        .iter()
        .any(|s| s.reason == "Evicted" && started.is_none_or(|t| t <= s.at))
}

/// True when the kubelet's newest message about a resize says that it is infeasible or deferred.
fn resize_waits(f: &PodHistory<'_>) -> bool {
    let waits = |reason: &str| matches!(reason, "ResizeDeferred" | "ResizeInfeasible");
    let mut reasons = f.view.evidence.iter().rev().filter_map(|o| match &o.body {
        Body::Event(e) => Some(e.reason.as_str()),
        Body::Log(l) => l.field("reason"),
        _ => None,
    });
    f.signals.iter().any(|s| waits(&s.reason))
        && reasons.find(|r| r.starts_with("Resize")).is_some_and(waits)
}

/// True for a container that behaves like an init container, where no spec is known: it exited with 0, once, before
/// others were begun.
fn ended_before_others(f: &PodHistory<'_>, c: &history::ContainerHistory<'_>) -> bool {
    let [end] = c.exits.as_slice() else {
        return false;
    };
    let begun = |o: &history::ContainerHistory<'_>| o.created.max(o.started);
    end.code == Some(0)
        && f.containers
            .iter()
            .any(|o| o.name != c.name && begun(o).is_some_and(|t| t >= end.at))
}

/// True when containers end, or readiness is lost, again and again.
fn flaps(f: &PodHistory<'_>) -> bool {
    f.containers.iter().any(|c| f.crash_loop(c).is_some()) || f.flapping().is_some()
}

/// Sets the state of the findings of a pod that is Ready now: it is neither stuck nor waiting,
/// but crash-looping or flapping.
fn comes_and_goes(f: &PodHistory<'_>, found: &mut [Finding<'_>]) {
    for x in found.iter_mut().filter(|x| x.state != State::Failed) {
        let of_it = f.known(&x.container).and_then(|c| f.crash_loop(c));
        let of_any = || f.containers.iter().find_map(|c| f.crash_loop(c));
        let ends = of_it.or_else(|| of_any().filter(|_| x.container.is_empty()));
        x.next_retry = None;
        match ends.filter(|_| x.state != State::Flapping) {
            Some(r) => {
                x.state = State::CrashLooping;
                x.recurrence = Some(r);
            }
            None => {
                x.state = State::Flapping;
                x.recurrence = x.recurrence.or_else(|| f.flapping());
            }
        }
    }
}

/// Returns all findings about a pod that is not well, the most important first.
pub fn diagnose<'a>(cx: Context<'a>, f: &'a PodHistory<'a>, health: Health) -> Vec<Finding<'a>> {
    let mut found = Vec::new();
    let deleting = f.deleted.is_some();
    // A pod that succeeded is looked at only when it was ended by another, or deleted.
    let failed = f.api.map_or_else(|| ended(f), |p| p.status.phase.is_over());
    matched::matched(cx, f, deleting, failed, &mut found);
    if health == Health::Flapping {
        found.retain(|x: &Finding<'_>| x.stage >= Stage::Start);
        containers::crashes(f, &mut found);
        sandbox::flapping(f, &mut found);
        ready::rules(cx, f, &mut found);
    } else if deleting && !failed {
        terminate::rules(cx, f, &mut found);
    } else if failed {
        // Containers that end while the pod is being deleted end because of that.
        if deleting {
            terminate::rules(cx, f, &mut found);
        } else if !found
            .iter()
            .any(|x| x.stage == Stage::Admit || x.stage == Stage::Terminate)
        {
            match rejected(f) {
                Some(x) => found.push(x),
                None => containers::crashes(f, &mut found),
            }
        }
    } else {
        // The row of a table may show a container's end and no node.
        let ran = |c: &history::ContainerHistory<'_>| !c.exits.is_empty();
        let bound = f.bound.is_some() || f.picked_up.is_some() || f.containers.iter().any(ran);
        if bound {
            admit::rules(cx, f, &mut found);
            sandbox::rules(cx, f, &mut found);
            image::rules(cx, f, &mut found);
            containers::rules(cx, f, &mut found);
            ready::rules(cx, f, &mut found);
        } else {
            schedule::rules(cx, f, &mut found);
        }
    }
    if failed && found.is_empty() {
        refused(f, &mut found);
    }
    if (!failed || deleting) && health == Health::Unwell {
        no_node::rules(cx, f, &mut found);
        if found.is_empty() {
            waits::rules(cx, f, &mut found);
        }
    }
    attached::elsewhere(cx, f, &mut found);
    back_off(f, &mut found);
    tries_again(f, &mut found);
    if health == Health::Flapping {
        comes_and_goes(f, &mut found);
    }
    order(&mut found);
    found
}

/// Returns a finding for a pod that the kubelet rejected, by its own words, for a reason that the catalogue does not have.
/// A kubelet that restarts admits its running pods again, so the pod's containers may have run and ended.
fn rejected<'a>(f: &PodHistory<'a>) -> Option<Finding<'a>> {
    let status = f.api.map(|p| &p.status)?;
    let said = Map::active().status(&status.message)?;
    let what = said.name("message").unwrap_or(&status.message);
    (said.fact == Fact::PodRejected).then(|| other_refusal(f, &status.reason, what))
}

/// Adds a finding for a pod that failed before it had a sandbox, for a reason that the catalogue does not have.
fn refused<'a>(f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let Some(status) = f.api.map(|p| &p.status).filter(|s| !s.reason.is_empty()) else {
        return;
    };
    if f.sandbox.is_none() {
        found.push(other_refusal(f, &status.reason, &status.message));
    }
}

fn other_refusal<'a>(f: &PodHistory<'a>, reason: &str, what: &str) -> Finding<'a> {
    let x = Finding::new(cause::KF316, f);
    x.name("reason", reason)
        .name("what", what)
        .proof_if(f.api_evidence)
}

/// True when the kubelet itself said that it refused or ended the pod; for pods without an API state.
fn ended(f: &PodHistory<'_>) -> bool {
    f.signals.iter().any(|s| {
        matches!(
            s.reason.as_ref(),
            "Evicted" | "DeadlineExceeded" | "Preempting" | "NodeShutdown"
        ) || (!f.is_over(Stage::Admit, s)
            && Catalogue::get()
                .under(&s.reason)
                .any(|c| c.stage == Stage::Admit && c.state == State::Failed))
    })
}

/// Sorts findings by stage, in each stage by rank, highest first; joins findings of one cause, and drops those that
/// say less.
fn order(found: &mut Vec<Finding<'_>>) {
    found.sort_by(|a, b| {
        (
            a.stage,
            std::cmp::Reverse(a.rank),
            &a.cause.id,
            &a.container,
        )
            .cmp(&(
                b.stage,
                std::cmp::Reverse(b.rank),
                &b.cause.id,
                &b.container,
            ))
    });
    // Generic findings go when there is a specific one for the same stage.
    for (stage, id) in [
        (Stage::Image, cause::KF613),
        (Stage::Volumes, cause::KF401),
        (Stage::Sandbox, cause::KF517),
    ] {
        if found.iter().any(|x| x.stage == stage && x.cause.id != id) {
            found.retain(|x| x.cause.id != id);
        }
    }
    let special: Vec<(Stage, kflow_model::Text)> = found
        .iter()
        .filter(|x| !x.alone)
        .map(|x| (x.stage, x.container.clone()))
        .collect();
    found.retain(|x| !x.alone || !special.contains(&(x.stage, x.container.clone())));
    let mut kept: Vec<Finding<'_>> = Vec::with_capacity(found.len());
    for x in found.drain(..) {
        let same = kept.iter_mut().find(|k| {
            k.cause.id == x.cause.id
                && (k.container == x.container || k.container.is_empty() || x.container.is_empty())
        });
        match same {
            Some(k) => {
                if k.container.is_empty() {
                    k.container = x.container;
                }
                // Several sources report one failure: each adds its names and its evidence.
                for (key, value) in x.names.iter() {
                    k.names.set(key, value);
                }
                k.proofs.extend(x.proofs);
                // A source that was followed for longer tells since when.
                if k.stage == x.stage && x.since < k.since {
                    (k.since, k.at_least) = (x.since, x.at_least);
                }
                k.confidence = k.confidence.min(x.confidence);
                k.alone &= x.alone;
                if k.in_flight.is_none() {
                    k.in_flight = x.in_flight;
                }
            }
            None => kept.push(x),
        }
    }
    // KF404 (the kubelet has not got an object yet) goes last: it passes by itself, or follows from the other causes.
    if kept.len() > 1 && kept.first().is_some_and(|k| k.cause.id == cause::KF404) {
        kept.rotate_left(1);
    }
    *found = kept;
}

/// Sets attempt and next try, by the kubelet's own back-off.
fn back_off(f: &PodHistory<'_>, found: &mut [Finding<'_>]) {
    for x in found.iter_mut() {
        match x.stage {
            Stage::Image
                if !matches!(
                    x.cause.id,
                    cause::KF607 | cause::KF608 | cause::KF609 | cause::KF610
                ) =>
            {
                let pulls =
                    |s: &&Signal<'_>| s.reason == "ErrImagePull" && s.container == x.container;
                let newest = f.signals.iter().filter(pulls).map(|s| s.at).max();
                // A message alone, or the state in a list, says neither how often nor when.
                let is_counted = |s: &&Signal<'_>| match &s.evidence.body {
                    _ if s.count > 1 => true,
                    Body::Event(e) => e.first.is_some(),
                    Body::Pod(p) => p.event != WatchEvent::Listed,
                    _ => true,
                };
                let count = |source| {
                    f.signals
                        .iter()
                        .filter(pulls)
                        .filter(|s| s.source == source)
                        .filter(is_counted)
                        .map(|s| s.count)
                        .max()
                };
                // The tap counts every failure; an Event's count may lag, and its sender may drop Events.
                let attempt = if f.pull_failures > 0 {
                    f.pull_failures
                } else {
                    count(Source::Kube).or(count(Source::Kubelet)).unwrap_or(0)
                };
                if let (Some(at), true) = (newest, attempt > 0) {
                    x.attempt = attempt;
                    x.next_retry = Some(backoff::next_pull(attempt, at));
                    x.state = State::BackingOff;
                } else if newest.is_some()
                    || f.signals
                        .iter()
                        .any(|s| s.reason == "ImagePullBackOff" && s.container == x.container)
                {
                    x.state = State::BackingOff;
                }
            }
            _ => {}
        }
    }
}

/// Changes the state of findings whose step is tried again right now: that is no back-off.
fn tries_again(f: &PodHistory<'_>, found: &mut [Finding<'_>]) {
    let tried = |x: &Finding<'_>| {
        f.open.iter().find(|c| {
            let of_stage = match c.start.method.as_str() {
                method::PULL_IMAGE => x.stage == Stage::Image,
                method::CREATE_CONTAINER | method::START_CONTAINER => x.stage > Stage::Image,
                _ => false,
            };
            of_stage && !x.container.is_empty() && c.container == x.container
        })
    };
    for x in found.iter_mut() {
        if x.state != State::BackingOff {
            continue;
        }
        let Some(call) = tried(x) else { continue };
        x.state = State::Stuck;
        x.next_retry = None;
        if x.stage < Stage::Ready {
            x.stage = f.stage_of(call).unwrap_or(x.stage);
        }
    }
}

/// Returns the containers that wait for an init container or a sidecar.
fn held_up(f: &PodHistory<'_>, by: &str) -> Vec<String> {
    let mut after = false;
    let mut out = Vec::new();
    for v in &f.view.containers {
        if v.name == by {
            after = true;
        } else if after
            && !v.ephemeral
            && (f.known(&v.name).is_none_or(|c| c.started.is_none())
                || (!v.init && f.initializes()))
        {
            out.push(v.name.to_string());
        }
    }
    out
}

/// How long ago a moment was, in words.
fn ago(f: &PodHistory<'_>, t: Nanos) -> String {
    span(f.now.since(t))
}
