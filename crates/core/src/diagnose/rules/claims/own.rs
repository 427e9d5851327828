//! Verdicts on claims themselves: those that wait for a volume and that no known pod mounts. The verdict on a pod that
//! waits for a claim tells what the claim lacks.

use super::{said_of, signal};
use crate::correlate::{ObjectState, World};
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::rules::{Context, on_object, owner, without_pod};
use crate::diagnose::{Confidence, State, Verdict, cause, limits};
use kflow_model::kind::CLAIM;
use kflow_model::pod::WatchEvent;
use kflow_model::{Body, Evidence, Nanos};
use rustc_hash::FxHashSet;

/// The claims that pods mount, by namespace and name.
type Mounted<'w> = FxHashSet<(&'w str, String)>;

/// Returns the verdicts on the selected claims that no pod mounts and that wait for more than their first pod, by
/// namespace and name.
pub(in crate::diagnose) fn claims(cx: Context<'_>) -> Vec<Verdict> {
    let told = alone(cx.world, cx.now)
        .into_iter()
        .filter_map(|o| claim(cx, o));
    told.filter(|v| !v.state.is_well()).collect()
}

/// Returns the selected claims that wait and that no pod mounts, by namespace and name.
pub(in crate::diagnose) fn alone(world: &World, now: Nanos) -> Vec<&ObjectState> {
    let mut objects = world.objects();
    objects.retain(|o| {
        o.object.kind == CLAIM
            && world.selection().admits_owner(&o.object.namespace)
            && waits(world, o, now)
    });
    if objects.is_empty() {
        return objects;
    }
    let mounted = mounted(world);
    let is_mounted = |o: &ObjectState| {
        let key = (o.object.namespace.as_str(), o.object.name.to_string());
        mounted.contains(&key)
    };
    objects.retain(|o| !is_mounted(o) && awaits(o).is_none_or(|pod| !is_there(world, o, pod)));
    objects.sort_by_key(|o| (&o.object.namespace, &o.object.name));
    objects
}

fn mounted(world: &World) -> Mounted<'_> {
    let pods = world.pods().iter().filter(|p| p.gone.is_none());
    let api = pods.filter_map(|p| Some((p.namespace.as_str(), p.api.as_deref()?)));
    api.flat_map(|(ns, pod)| {
        let claims = super::claims_of(pod).into_iter();
        claims.map(move |c| (ns, c.to_string()))
    })
    .collect()
}

/// Returns the pod that the claim's controller says it waits for.
fn awaits(o: &ObjectState) -> Option<&str> {
    o.evidence.iter().rev().find_map(|e| match &e.body {
        Body::Event(e) => signal::awaited_by_claim(&e.message),
        _ => None,
    })
}

fn is_there(world: &World, o: &ObjectState, pod: &str) -> bool {
    let mut pods = world.pods().iter();
    pods.any(|p| p.gone.is_none() && p.namespace == o.object.namespace && p.name == pod)
}

/// True for a claim that is not bound, or has lost its volume, as far as is known.
fn waits(world: &World, o: &ObjectState, now: Nanos) -> bool {
    match o.api.as_deref() {
        _ if owner::gone(o) => false,
        Some(api) => matches!(api.fact("phase"), Some("Pending" | "Lost")),
        // Only its Events are known: a list of claims would show it, and who fails tells it again.
        None => {
            let at = o.evidence.iter().map(|e| e.stamp.at).max();
            let listed = |kind| world.coverage().newest_list(kind).is_some();
            let old = at.is_none_or(|at| now.since(at) >= limits::EVENTS_REPEAT.ns);
            !(listed("persistentvolumeclaims") || old && listed("pods"))
        }
    }
}

/// Returns the verdict on a claim; `None` when it is bound, or nothing says what it waits for.
pub(in crate::diagnose) fn claim(cx: Context<'_>, o: &ObjectState) -> Option<Verdict> {
    if !waits(cx.world, o, cx.now) {
        return None;
    }
    let events = o.evidence.iter().filter_map(event);
    let said = events.clone().map(|(at, first)| first.unwrap_or(at)).min();
    let api = o.api.as_deref();
    // A description does not say when the claim was made.
    let made = api.map(|a| a.created).filter(|t| *t > Nanos::default());
    let since = made.or(said).unwrap_or(cx.now);
    let view = without_pod(o, &o.object.namespace, since);
    let f = PodHistory::gather(&view, cx.now);
    let mut found = Vec::new();
    said_of(cx, &f, o, &mut found);
    found.extend(shown(cx, &f, o));
    found.sort_by_key(|x| std::cmp::Reverse(x.rank));
    let mut found = found.into_iter().map(|x| named(x, o, since));
    let x = found.next()?;
    let undated = made.is_none() && events.clone().all(|(_, first)| first.is_none());
    // Who follows a claim sees it before its controller and a provisioner had any time for it.
    let is_followed = api.is_some_and(|a| a.event != WatchEvent::Listed);
    if is_followed && cx.now.since(since) < limits::SCHEDULER.ns {
        return None;
    }
    let mut v = finish(x, &f, o);
    v.also = found
        .filter(|x| x.cause.id != cause::KF215 && Some(x.cause.id) != v.cause)
        .map(|x| finish(x, &f, o))
        .collect();
    // A table of Events, or a message alone, may not say since when.
    v.at_least |= undated;
    Some(v)
}

/// Returns the time of an Event, and of its first occurrence.
fn event(e: &Evidence) -> Option<(Nanos, Option<Nanos>)> {
    match &e.body {
        Body::Event(said) => Some((e.stamp.at, said.first)),
        _ => None,
    }
}

/// Returns what the claim itself shows: that its volume is lost, or who was asked for one. The controller writes the
/// provisioner's name on the claim when it asks for a volume, not before (pkg/controller/volume/persistentvolume/pv_controller.go,
/// `provisionClaim`, `setClaimProvisioner`).
fn shown<'a>(cx: Context<'a>, f: &PodHistory<'a>, o: &ObjectState) -> Option<Finding<'a>> {
    let api = o.api.as_deref()?;
    let newest = |e: &&Evidence| matches!(e.body, Body::Object(_));
    let proof = o.evidence.iter().rev().find(newest);
    if api.fact("phase") == Some("Lost") {
        let x = Finding::new(cause::KF212, f).proof_if(proof);
        return Some(x.name(
            "what",
            "it is Lost: the volume that it was bound to is not there",
        ));
    }
    let provisioner = api.fact("provisioner").filter(|p| !p.is_empty())?;
    let mut x = Finding::new(cause::KF214, f).at_most(Confidence::Likely);
    // What an Event says goes before.
    x.rank = x.rank.saturating_sub(1);
    super::made_by(cx, provisioner, &mut x);
    Some(x.proof_if(proof))
}

/// Names the claim in a finding about it.
fn named<'a>(x: Finding<'a>, o: &ObjectState, since: Nanos) -> Finding<'a> {
    let name = &o.object.name;
    let mut x = x.name("claim", name).name("own", name).since(since);
    if x.cause.id == cause::KF215 {
        let pod = awaits(o).map(|pod| format!("pod {pod}"));
        x.names
            .set("user", pod.as_deref().unwrap_or("a pod that uses it"));
        x.names.set("unused", "look for that pod");
    }
    x
}

fn finish(x: Finding<'_>, f: &PodHistory<'_>, o: &ObjectState) -> Verdict {
    let mut v = on_object(x, f, o);
    v.not_reached = vec!["bind to a volume".into()];
    if v.cause == Some(cause::KF215) {
        v.state = State::Healthy;
    }
    v
}
