//! Namespaces that were deleted and are still there, by the conditions that their controller writes (Kubernetes 1.36
//! `pkg/controller/namespace/deletion/status_condition_utils.go`).

use super::{Context, heard, newest_state, on_object, selected, without_pod};
use crate::correlate::ObjectState;
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::standing::there;
use crate::diagnose::text::list;
use crate::diagnose::{Confidence, State, Verdict, cause, limits};
use kflow_model::kind::NAMESPACE;
use kflow_model::object::ObjectSeen;

/// The finalizer that each namespace has; the namespace controller takes it off once the namespace is empty.
const OF_ALL: &str = "kubernetes";

/// Returns the verdicts on the selected namespaces that do not go, by name.
pub(in crate::diagnose) fn namespaces(cx: Context<'_>) -> Vec<Verdict> {
    let all = selected(cx, NAMESPACE).into_iter();
    all.filter_map(|o| namespace(cx, o)).collect()
}

/// Returns the verdict on a namespace; `None` for one that was not deleted, or a moment ago.
pub(in crate::diagnose) fn namespace(cx: Context<'_>, o: &ObjectState) -> Option<Verdict> {
    let api = there(o)?;
    let deleted = api.deletion?;
    if cx.now.since(deleted) < limits::NAMESPACE.ns {
        return None;
    }
    let view = without_pod(o, &o.object.name, deleted);
    let f = PodHistory::gather(&view, cx.now);
    let x = Finding::new(cause::KF915, &f)
        .since(deleted)
        .name("name", &o.object.name);
    let x = match newest_state(o) {
        Some(e) => x.proof_as(e, shown(api)),
        None => x,
    };
    let x = held(cx, o, told(cx, api, x));
    let mut v = on_object(x, &f, o);
    v.namespace = o.object.namespace.clone();
    Some(v)
}

/// What the namespace's object shows: `namespace deleted, SomeResourcesRemain, SomeFinalizersRemain`.
fn shown(api: &ObjectSeen) -> String {
    let conditions = api.conditions.iter().filter(|c| c.is_true());
    let reasons = conditions.map(|c| c.reason.as_str());
    let all: Vec<&str> = std::iter::once("namespace deleted")
        .chain(reasons)
        .collect();
    all.join(", ")
}

/// Says what the namespace's conditions and finalizers tell.
fn told<'a>(cx: Context<'_>, api: &ObjectSeen, x: Finding<'a>) -> Finding<'a> {
    let said = |kind: &str| {
        let c = api.condition(kind).filter(|c| c.is_true())?;
        Some(c.message.trim_end_matches(['.', ' ']))
    };
    let rest = |message: &'_ str| match message.split_once(": ") {
        Some((_, rest)) => rest.to_owned(),
        None => message.to_owned(),
    };
    if api.conditions.is_empty() {
        let mut x = x.name("untouched", "no controller has begun to empty it");
        if let Some(h) = heard::controllers(cx) {
            x = x
                .varying("heard", &h.in_words(cx.now))
                .proof_if(h.evidence.as_ref());
        }
        return x.at_most(Confidence::Likely);
    }
    let unknown = said("NamespaceDeletionDiscoveryFailure")
        .or_else(|| said("NamespaceDeletionGroupVersionParsingFailure"));
    let failure = said("NamespaceDeletionContentFailure");
    let left = said("NamespaceContentRemaining").map(|m| counts(&rest(m), " has "));
    let finalizers = said("NamespaceFinalizersRemaining").map(|m| counts(&rest(m), " in "));
    let mut x = x;
    if let Some(message) = unknown {
        // Before the errors, client-go says that the list is not complete (discovery/discovery_client.go,
        // `ErrGroupDiscoveryFailed`).
        let errors = message
            .split_once("server APIs: ")
            .map(|(_, errors)| errors);
        let api = errors.and_then(|errors| Some(errors.split_once(": ")?.0));
        x.names.set("undiscovered", errors.unwrap_or(message));
        x.names.set("api", api.unwrap_or_default());
    }
    if let Some(message) = failure {
        x.names.set("failure", &rest(message));
    }
    if let Some(left) = &left {
        x.names.set("left", &list(&in_words(left)));
        let kinds: Vec<&str> = left.iter().map(|(of, _)| of.as_str()).collect();
        x.names.set("kinds", &kinds.join(","));
    }
    if let Some(of) = &finalizers {
        let names: Vec<&str> = of.iter().map(|(of, _)| of.as_str()).collect();
        x.names.set("finalizers", &list(&names));
    }
    let stopping = unknown.is_none() && failure.is_none() && finalizers.is_none();
    if stopping && left.is_some() {
        // What has no finalizer is being stopped.
        return x.state(State::Slow);
    }
    let mut own: Vec<&str> = ["finalizers", "ownFinalizers"]
        .into_iter()
        .filter_map(|key| api.fact(key))
        .flat_map(|all| all.split(','))
        .collect();
    own.retain(|name| !name.is_empty() && *name != OF_ALL);
    if !own.is_empty() {
        x.names.set("own", &list(&own));
    }
    x
}

/// Reads `pods. has 2 resource instances, widgets.example.com has 1 resource instances`, or the same of finalizers with
/// ` in `: what, and how many.
fn counts(message: &str, between: &str) -> Vec<(String, String)> {
    let each = message.split(", ").filter_map(|part| {
        let (of, rest) = part.split_once(between)?;
        let number = rest.split(' ').next()?;
        Some((of.trim_end_matches('.').to_owned(), number.to_owned()))
    });
    each.collect()
}

fn in_words(left: &[(String, String)]) -> Vec<String> {
    left.iter().map(|(of, n)| format!("{n} of {of}")).collect()
}

/// Names the objects of the namespace that kflow knows and that finalizers hold, and its pods that are left.
fn held<'a>(cx: Context<'_>, o: &ObjectState, mut x: Finding<'a>) -> Finding<'a> {
    let name = o.object.name.as_str();
    let pods = cx.world.every_pod().iter();
    let pods = pods.filter(|p| p.gone.is_none() && p.namespace == name);
    let left: Vec<&str> = pods.clone().map(|p| p.name.as_str()).collect();
    if !left.is_empty() {
        x.names.set("pods", &list(&left));
    }
    let mut all: Vec<String> = pods
        .filter_map(|p| {
            let finalizers = &p.api.as_deref()?.finalizers;
            let held = !finalizers.is_empty();
            held.then(|| format!("pod {} has finalizer {}", p.name, list(finalizers)))
        })
        .collect();
    let objects = cx.world.objects().into_iter();
    let objects = objects.filter(|c| c.object.namespace == name);
    all.extend(objects.filter_map(|c| {
        let finalizers = there(c)?.fact("finalizers")?.replace(',', ", ");
        let what = crate::diagnose::finding::owner_arg(&c.object);
        Some(format!("{what} has finalizer {finalizers}"))
    }));
    all.sort_unstable();
    if !all.is_empty() {
        x.names.set("held", &list(&all));
    }
    x
}

#[cfg(test)]
mod tests {
    use super::{counts, in_words};

    /// The messages are those of the recording fixtures/correlate/terminating.kflow.zst.
    #[test]
    fn what_is_left_is_counted() {
        let left = counts(
            "configmaps. has 1 resource instances, widgets.example.com has 2 resource instances",
            " has ",
        );
        assert_eq!(
            in_words(&left),
            ["1 of configmaps", "2 of widgets.example.com"]
        );
        let finalizers = counts("example.com/hold in 1 resource instances", " in ");
        assert_eq!(finalizers[0].0, "example.com/hold");
    }
}
