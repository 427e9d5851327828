//! The rules: which causes are true of a pod. One file for the stages whose causes need more than one observation;
//! everything else is matched from the catalogue in `matched`.

mod admit;
mod containers;
mod heard;
mod image;
mod no_node;
mod owner;
mod ready;
mod sandbox;
mod schedule;
mod taints;
mod terminate;
mod waits;

pub use owner::{owner, owners};

use super::facts::Facts;
use super::found::Found;
use super::shared::Shared;
use super::signal::Signal;
use super::text::span;
use super::{Catalogue, Cause, Confidence, State, backoff, limits};
use crate::correlate::World;
use crate::flow::Stage;
use kflow_model::{Nanos, Source, pod::ContainerState};

/// What rules may look at besides the pod.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Everything.
    pub world: &'a World,
    /// What concerns several pods.
    pub shared: &'a Shared,
    /// The moment that is asked about.
    pub now: Nanos,
}

impl Context<'_> {
    /// Something of the tap was lost since: that a call was not seen proves nothing.
    fn lost_calls_since(&self, at: Nanos) -> bool {
        let gaps = &self.world.source(Source::Cri).gaps;
        gaps.iter().any(|g| g.stamp.at >= at)
    }
}

/// How a pod is, before any cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Well, or over as it should be, or gone.
    Well,
    /// Well now, but it comes and goes.
    Flapping,
    /// Not (yet) well.
    Unwell,
}

/// How the pod is.
pub fn health(f: &Facts<'_>) -> Health {
    // The tap does not tell a pod that was deleted from one that failed; the kubelet's log does.
    let remnant = f.view.is_remnant() && !(f.is_ours() && f.has_log);
    // The runtime holds nothing of it any more, but the kubelet may.
    let left = |t: Nanos| {
        f.signals
            .iter()
            .any(|s| matches!(s.reason.as_ref(), "@unmount" | "@cgroup") && s.at > t)
    };
    let never = f.creation_forgotten();
    let removed = f.api.is_none() && f.removed.is_some_and(|t| !left(t));
    if f.view.gone.is_some() || removed || never || remnant || f.view.phase == "Succeeded" {
        return Health::Well;
    }
    if let Some(api) = f.api {
        if api.status.phase == "Succeeded" {
            return Health::Well;
        }
        if api.status.phase == "Failed" {
            return Health::Unwell;
        }
    }
    // A mirror pod may be deleted as often as one likes: its static pod goes on.
    let is_static = !f.view.mirrors.is_empty() || f.api.is_some_and(|p| p.mirror_of.is_some());
    if f.deleted.is_some() && !is_static {
        return Health::Unwell;
    }
    if f.deletion_refused() {
        return Health::Unwell;
    }
    let policy = f.api.map_or("", |p| p.spec.restart_policy.as_str());
    let mains: Vec<_> = f
        .containers
        .iter()
        .filter(|c| !f.is_initial(&c.name) && !f.is_ephemeral(&c.name))
        .collect();
    let done = |c: &&super::facts::ContainerFacts<'_>| {
        c.exits.last().is_some_and(|e| e.code == 0) && !c.runs()
    };
    // Without the API the policy is not known: a container that ended well once is taken as done.
    let once = mains.iter().all(|c| c.exits.len() == 1);
    let may_end = if policy.is_empty() {
        once
    } else {
        policy != "Always"
    };
    if !mains.is_empty() && may_end && mains.iter().all(done) {
        return Health::Well;
    }
    // Not its past but its present: it asked for other resources and has not got them.
    let resizing = f.api.is_some_and(|p| {
        p.condition("PodResizePending").is_some_and(|c| {
            c.status == "True"
                && c.transition
                    .is_none_or(|t| f.now.since(t) >= limits::RESIZE.ns)
        })
    });
    if resizing {
        return Health::Unwell;
    }
    let well = match f.is_ready() {
        Some(ready) => ready,
        None if f.api.is_some() => false,
        // No API: what runs and is not said to be unready is taken as well.
        None => {
            !mains.is_empty()
                && mains.iter().all(|c| c.runs())
                && !mains.iter().any(|c| ready::unready_by_node(c))
                && containers::hook_in_flight(f).is_none()
        }
    };
    if !well {
        return Health::Unwell;
    }
    if flaps(f) {
        Health::Flapping
    } else {
        Health::Well
    }
}

/// Restarts that go on, or readiness that comes and goes.
fn flaps(f: &Facts<'_>) -> bool {
    let recent = |t: Nanos| f.now.since(t) < backoff::FORGOTTEN_NS;
    let crashes = f.containers.iter().any(|c| {
        c.exits.iter().filter(|e| recent(e.at)).count() >= 2
            || (c.restarts >= 2 && c.exits.last().is_some_and(|e| recent(e.at)))
    });
    crashes
        || f.unready
            .iter()
            .filter(|t| f.now.since(**t) < limits::FLAPS.ns)
            .count()
            >= 3
}

/// All that is true of a pod that is not well, most important first.
pub fn diagnose<'a>(cx: Context<'a>, f: &'a Facts<'a>, health: Health) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    let deleting = f.deleted.is_some();
    let failed = f
        .api
        .map_or_else(|| ended(f), |p| p.status.phase == "Failed");
    matched(cx, f, deleting, failed, &mut found);
    if health == Health::Flapping {
        found.retain(|x: &Found<'_>| x.stage >= Stage::Start);
        containers::crashes(f, &mut found);
        sandbox::flapping(f, &mut found);
        ready::rules(cx, f, &mut found);
    } else if deleting && !failed {
        terminate::rules(cx, f, &mut found);
    } else if failed {
        // What ends while the pod is deleted ends because of that.
        if deleting {
            terminate::rules(cx, f, &mut found);
        } else if !found
            .iter()
            .any(|x| x.stage == Stage::Admit || x.stage == Stage::Terminate)
        {
            containers::crashes(f, &mut found);
        }
    } else {
        let bound = f.bound.is_some() || f.picked_up.is_some();
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
    back_off(f, &mut found);
    order(&mut found);
    found
}

/// The kubelet refused the pod for a reason that no entry of the catalogue knows.
fn refused<'a>(f: &Facts<'a>, found: &mut Vec<Found<'a>>) {
    let Some(status) = f.api.map(|p| &p.status).filter(|s| !s.reason.is_empty()) else {
        return;
    };
    if f.sandbox.is_none()
        && let Some(x) = Found::new("KF316", f)
    {
        found.push(
            x.name("reason", &status.reason)
                .name("what", &status.message)
                .proof_if(f.api_evidence),
        );
    }
}

/// Without an API status: the kubelet itself said that it refused or ended the pod.
fn ended(f: &Facts<'_>) -> bool {
    f.signals.iter().any(|s| {
        matches!(
            s.reason.as_ref(),
            "Evicted" | "DeadlineExceeded" | "Preempting" | "NodeShutdown"
        ) || (f.sandbox.is_none()
            && Catalogue::get()
                .under(&s.reason)
                .any(|c| c.stage == Stage::Admit && c.state == State::Failed))
    })
}

/// First unfinished stage first; in it the highest rank; then the newest.
fn order(found: &mut Vec<Found<'_>>) {
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
    // A wait says nothing beside what it waits for, and nothing special beside what is.
    for (stage, id) in [
        (Stage::Image, "KF613"),
        (Stage::Volumes, "KF401"),
        (Stage::Sandbox, "KF517"),
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
    let mut kept: Vec<Found<'_>> = Vec::with_capacity(found.len());
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
                // Several sources of one failure: each adds what it knows and its evidence.
                for (key, value) in x.names.iter() {
                    k.names.set(key, value);
                }
                k.proofs.extend(x.proofs);
                k.confidence = k.confidence.min(x.confidence);
                k.alone &= x.alone;
                if k.in_flight.is_none() {
                    k.in_flight = x.in_flight;
                }
            }
            None => kept.push(x),
        }
    }
    // The kubelet has not got an object yet: that passes by itself, or follows from what else is wrong.
    if kept.len() > 1 && kept.first().is_some_and(|k| k.cause.id == "KF404") {
        kept.rotate_left(1);
    }
    *found = kept;
}

/// Causes of the catalogue whose text stands in something that failed and has not been overtaken.
fn matched<'a>(
    cx: Context<'_>,
    f: &Facts<'a>,
    deleting: bool,
    failed: bool,
    found: &mut Vec<Found<'a>>,
) {
    let catalogue = Catalogue::get();
    for s in &f.signals {
        let allow = |cause: &Cause| {
            let by_code = cause.rule
                && (cause.stage == Stage::Ready || cause.id == "KF902" || cause.id == "KF513");
            let stage = stands_in(cause, &s.reason);
            let ending = stage == Stage::Terminate;
            let in_time = match (failed, deleting) {
                (true, _) => ending || cause.stage == Stage::Admit,
                (false, true) => ending,
                (false, false) => !ending || (cause.id == "KF910" && f.deletion_refused()),
            };
            !by_code && in_time && !f.is_ephemeral(&s.container) && !f.is_over(stage, s)
        };
        if let Some((cause, names)) = catalogue.best(&s.reason, &s.text, allow) {
            let stage = stands_in(cause, &s.reason);
            let alone = names.iter().next().is_none() && cause.matches(&s.reason, "").is_some();
            let mut x = Found::of_signal(cause, names, s, f)
                .at(stage)
                .since(f.since(stage));
            if alone {
                x.alone = true;
                let text = s.text.strip_prefix("Error: ").unwrap_or(&s.text);
                x.names.set("what", text.trim_end_matches('.'));
            }
            found.push(polish(cx, x, s, f));
        }
    }
    // Evicted before anything of it was there: it was refused, not ended.
    if failed
        && f.sandbox.is_none()
        && f.containers.iter().all(|c| c.started.is_none())
        && let Some(s) = f.signals.iter().find(|s| s.reason == "Evicted")
        && let Some(cause) = catalogue.cause("KF308")
        && let Some(names) = cause.matches("@rejected/Evicted", &s.text)
    {
        found.retain(|k| k.cause.id != "KF911");
        found.push(Found::of_signal(cause, names, s, f));
    }
}

/// Where the pod stands still: a runtime that fails as a whole fails whatever is asked of it.
fn stands_in(cause: &Cause, reason: &str) -> Stage {
    if cause.stage != Stage::Sandbox {
        return cause.stage;
    }
    match reason {
        "ErrImagePull" | "ImagePullBackOff" | "InspectFailed" | "ImageInspectError" => Stage::Image,
        "CreateContainerError" | "ContainerError" => Stage::Create,
        "RunContainerError" => Stage::Start,
        "@stop" | "FailedKillPod" => Stage::Terminate,
        _ => cause.stage,
    }
}

/// What the text alone does not say.
fn polish<'a>(cx: Context<'_>, mut x: Found<'a>, s: &Signal<'a>, f: &Facts<'a>) -> Found<'a> {
    match x.cause.id.as_str() {
        "KF507" | "KF702" => sandbox::earlier(&mut x, f),
        "KF303" => {
            x.names
                .set("resource", s.reason.trim_start_matches("OutOf"));
            amounts(&mut x);
        }
        "KF602" => {
            let unread = f
                .signals
                .iter()
                .find(|s| s.reason == "FailedToRetrieveImagePullSecret");
            if let Some(u) = unread {
                let names = u.text.split(['(', ')']).nth(1).unwrap_or_default();
                x.names.set("missing", names);
                x.proofs.push(super::found::signal_proof(u));
            }
        }
        "KF314" => {
            if let Some(api) = f.api {
                let wants: Vec<String> = super::scheduler::wanted_labels(&api.spec)
                    .into_iter()
                    .map(|(_, w)| w)
                    .collect();
                if !wants.is_empty() {
                    x.names.set(
                        "detail",
                        &format!("the pod wants {}", super::text::list(&wants)),
                    );
                }
            }
        }
        "KF911" => terminate::who(&mut x, s, f),
        "KF220" => {
            if let Some(api) = f.api {
                let gates = &api.spec.scheduling_gates;
                x.names.replace("gates", &super::text::list(gates));
                if gates.len() > 1 {
                    x.names.set("many", &super::text::list(gates));
                    x.names.remove("gates");
                }
            }
            if x.names.get("gates").is_none() && x.names.get("many").is_none() {
                x.names.set("many", "of the pod");
            }
        }
        "KF406" => attacher(cx, &mut x),
        _ => {}
    }
    match x.cause.id.as_str() {
        // The sum of what is missing says less than a message about one volume.
        "KF406" if x.names.get("what").is_none() => x = x.at_most(Confidence::Likely),
        _ => {}
    }
    if s.source == Source::Kube
        && f.node_seen.is_none()
        && x.confidence == Confidence::Certain
        && s.text.is_empty()
    {
        x = x.at_most(Confidence::Likely);
    }
    x
}

/// When the driver's attacher was last heard.
fn attacher(cx: Context<'_>, x: &mut Found<'_>) {
    let Some(driver) = x.names.get("driver") else {
        return;
    };
    if let Some(l) = heard::driver(cx, "external-attacher-leader-", driver) {
        x.names.set("heard", &heard::driver_in_words(cx, l));
        x.proofs.push(super::found::proof(&l.evidence));
    }
}

/// The amounts of a refusal, as people write them: the kubelet tells bytes, and CPUs in thousandths.
fn amounts(x: &mut Found<'_>) {
    use super::quantity::Quantity;
    let resource = x.names.get("resource").unwrap_or_default().to_owned();
    let suffix = if resource == "cpu" { "m" } else { "" };
    for key in ["requested", "used", "capacity"] {
        let amount = x
            .names
            .get(key)
            .and_then(|v| Quantity::parse(&format!("{v}{suffix}")));
        if let Some(q) = amount {
            x.names.replace(key, &q.show(&resource));
        }
    }
}

/// Attempt and next try, by the kubelet's own rules.
fn back_off(f: &Facts<'_>, found: &mut [Found<'_>]) {
    for x in found.iter_mut() {
        match x.stage {
            Stage::Image
                if !matches!(x.cause.id.as_str(), "KF607" | "KF608" | "KF609" | "KF610") =>
            {
                let pulls =
                    |s: &&Signal<'_>| s.reason == "ErrImagePull" && s.container == x.container;
                let newest = f.signals.iter().filter(pulls).map(|s| s.at).max();
                let count = |source| {
                    f.signals
                        .iter()
                        .filter(pulls)
                        .filter(|s| s.source == source)
                        .map(|s| s.count)
                        .max()
                };
                // The tap counts every one; an Event's count may lag, and its sender may drop some.
                let attempt = if f.pull_failures > 0 {
                    f.pull_failures
                } else {
                    count(Source::Kube).or(count(Source::Kubelet)).unwrap_or(0)
                };
                if let (Some(at), true) = (newest, attempt > 0) {
                    x.attempt = attempt;
                    x.next_retry = Some(backoff::next_pull(attempt, at));
                    x.state = State::BackingOff;
                } else if f
                    .signals
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

/// Containers that an init container or a sidecar holds up.
fn held_up(f: &Facts<'_>, by: &str) -> Vec<String> {
    let mut after = false;
    let mut out = Vec::new();
    for v in &f.view.containers {
        if v.name == by {
            after = true;
        } else if after && !v.ephemeral && f.known(&v.name).is_none_or(|c| c.started.is_none()) {
            out.push(v.name.to_string());
        }
    }
    out
}

/// The container waits with this reason, by the API.
fn waits(c: &super::facts::ContainerFacts<'_>, reason: &str) -> bool {
    matches!(c.status.map(|s| &s.state), Some(ContainerState::Waiting { reason: r, .. }) if r == reason)
}

/// `12 s`.
fn ago(f: &Facts<'_>, t: Nanos) -> String {
    span(f.now.since(t))
}
