//! Claims that were deleted and stay: by the pods that use them, or by a finalizer.

use crate::correlate::{ObjectState, World};
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::rules::{Context, newest_state, on_object, selected, without_pod};
use crate::diagnose::standing::there;
use crate::diagnose::target::pods_of;
use crate::diagnose::text::list;
use crate::diagnose::{Confidence, State, Verdict, cause, limits};
use kflow_model::kind::CLAIM;

/// The finalizer that holds a claim while pods use it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Returns the verdicts on the selected claims that were deleted and stay, by namespace and name.
pub(in crate::diagnose) fn deleted(cx: Context<'_>) -> Vec<Verdict> {
    let all = selected(cx, CLAIM).into_iter();
    all.filter_map(|o| stays(cx, o)).collect()
}

/// The pods that hold a claim: those that mount it and have a node, also those whose containers have all ended (Kubernetes 1.36
/// `pkg/controller/volume/pvcprotection/pvc_protection_controller.go`, `podUsesPVCForDeletion`).
fn users(world: &World, o: &ObjectState) -> (Vec<String>, Vec<String>) {
    let pods = pods_of(world, &o.object).into_iter();
    let using = pods.filter(|p| p.gone.is_none() && !p.node.is_empty());
    let (over, running): (Vec<_>, Vec<_>) = using.partition(|p| p.phase.is_over());
    let names = |pods: Vec<&crate::correlate::Pod>| -> Vec<String> {
        pods.iter().map(|p| p.name.to_string()).collect()
    };
    (names(over), names(running))
}

/// Says which pods hold a claim: `pod a exists`, `pods a and b exist`; `None` where none is known to.
pub(in crate::diagnose::rules) fn users_in_words(world: &World, o: &ObjectState) -> Option<String> {
    let (over, mut all) = users(world, o);
    all.extend(over);
    match all.as_slice() {
        [] => None,
        [one] => Some(format!("pod {one} exists")),
        many => Some(format!("pods {} exist", list(many))),
    }
}

/// Returns the verdict on a claim that was deleted and stays; `None` for every other one.
pub(in crate::diagnose) fn stays(cx: Context<'_>, o: &ObjectState) -> Option<Verdict> {
    let api = there(o).filter(|_| o.object.kind == CLAIM)?;
    let deleted = api.deletion?;
    let finalizers: Vec<&str> = api.fact("finalizers")?.split(',').collect();
    // The claim goes as soon as nothing holds it.
    if cx.now.since(deleted) < limits::CONTROLLER.ns {
        return None;
    }
    let view = without_pod(o, &o.object.namespace, deleted);
    let f = PodHistory::gather(&view, cx.now);
    let mut x = Finding::new(cause::KF916, &f)
        .since(deleted)
        .name("claim", &o.object.name);
    if let Some(e) = newest_state(o) {
        let what = format!("claim deleted, finalizers [{}]", finalizers.join(", "));
        x = x.proof_as(e, what);
    }
    let (over, running) = users(cx.world, o);
    let used = finalizers.contains(&PROTECTION);
    let users = users_in_words(cx.world, o).filter(|_| used);
    let others: Vec<&str> = finalizers
        .into_iter()
        .filter(|n| *n != PROTECTION)
        .collect();
    if let Some(users) = &users {
        x.names.set("users", users);
        x = x.state(State::Blocked);
    } else if used {
        x.names.set("unused", PROTECTION);
        x = x.at_most(Confidence::Likely);
    }
    if let Some(first) = running.first().filter(|_| users.is_some()) {
        x.names.set("user", first);
    }
    if let Some(first) = over.first().filter(|_| users.is_some()) {
        x.names.set("over", first);
    }
    if !others.is_empty() {
        x.names.set("finalizers", &list(&others));
    }
    Some(on_object(x, &f, o))
}
