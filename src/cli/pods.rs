//! The pods that a command is asked about, and what it says on standard error when there are none, or when not all is known.

use std::collections::BTreeSet;

use super::out::{conclude, tell};
use super::{ERROR, NO_SUCH, OK};
use kflow_core::correlate::{Pod, World};
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_core::diagnose::{self, Target, Unknown, namespace_of, node_asked, owner_asked};
use kflow_core::suggest::suggest;
use kflow_model::scope::pod_asked;
use kflow_model::{PodUid, Text};

/// The exit status of a result that may not be whole; says what is missing.
pub(super) fn whole(missing: Option<&Unknown>) -> u8 {
    let Some(unknown) = missing else { return OK };
    conclude(&unknown.to_string());
    ERROR
}

/// Says that all was read, and there is nothing.
pub(super) fn tell_of_none(what: &str, asked: Asked<'_>) {
    let place = asked.scope.map(|s| format!(" in {}", s.name()));
    let place = place.unwrap_or_default();
    tell(&format!("there are no {what}{place}"));
}

/// Says that a filter left nothing of what the scope holds.
pub(super) fn tell_of_no_match(what: &str, of: usize, asked: Asked<'_>) {
    match of {
        0 => tell_of_none(what, asked),
        of => tell(&format!("no match among {of} {what}")),
    }
}

/// Says that the scope holds no pods, where it was named.
pub(super) fn tell_of_empty_scope(asked: Asked<'_>) {
    if !asked.world.selection().is_all() && asked.world.pods().is_empty() {
        tell_of_none("pods", asked);
    }
}

/// Pods by `ns/name`, `name`, `pod/name` or UID (a mirror pod's UID leads to its static pod), oldest first.
pub(super) fn find(world: &World, query: &str) -> Vec<Pod> {
    let mut pods: Vec<Pod> = world.find(query).into_iter().cloned().collect();
    if pods.is_empty() {
        pods.extend(world.pod(&PodUid::from(pod_asked(query))).cloned());
    }
    pods.reverse();
    pods
}

/// The pods that were asked for, oldest first, and how many pods of the past were left out: those only when nobody
/// named them, or when others bear the name.
pub(super) fn chosen(world: &World, query: Option<&str>, past: bool) -> (Vec<Pod>, usize) {
    let mut pods = match query {
        Some(query) => find(world, query),
        None => world.pods().to_vec(),
    };
    let all = pods.len();
    if !past && (query.is_none() || pods.iter().any(|p| !p.past)) {
        pods.retain(|p| !p.past);
    }
    let left_out = all - pods.len();
    (pods, left_out)
}

/// The same, and of an owner or a node its pods.
pub(super) fn of_targets(world: &World, query: &str) -> Vec<Pod> {
    if owner_asked(query).is_none() && node_asked(query).is_none() {
        return find(world, query);
    }
    let mut pods = Vec::new();
    for target in diagnose::find(world, query) {
        match target {
            Target::Pod(p) => pods.push(p.clone()),
            other => pods.extend(other.pods().iter().map(|p| (*p).clone())),
        }
    }
    pods
}

/// The nodes of those that exist.
pub(super) fn nodes(world: &World, query: Option<&str>) -> BTreeSet<Text> {
    let pods = query.map_or_else(|| world.pods().to_vec(), |q| of_targets(world, q));
    let there = pods.iter().filter(|p| p.gone.is_none() && !p.past);
    let nodes = there.map(|p| &p.node).filter(|n| !n.is_empty());
    nodes.cloned().collect()
}

/// The namespace that a name may leave out: the one that -n names or that the kubeconfig's context has, where kubectl looks
/// too, and none that only the query names.
pub(super) fn within<'a>(asked: Asked<'a>, query: Option<&str>) -> Option<&'a str> {
    let scope = asked
        .scope
        .filter(|_| query.and_then(namespace_of).is_none());
    scope.and_then(|s| s.namespace.as_deref())
}

/// Says how many pods were left out.
pub(super) fn tell_of_past(left_out: usize) {
    if left_out > 0 {
        tell(&format!(
            "pods of the past, known by Events alone, that are left out: {left_out} (--past shows them)"
        ));
    }
}

/// Says on standard error what of a long session is kept no more.
pub(super) fn tell_of_loss(world: &World) {
    let u = world.unfiled();
    for (n, what) in [
        (
            u.folded,
            "observations of pods that have very many are kept no more (their timelines have a gap there)",
        ),
        (u.calls_forgotten, "older calls were forgotten"),
        (
            u.given_up,
            "observations name ids that nothing led to a pod, and were given up",
        ),
    ] {
        if n > 0 {
            tell(&format!("{n} {what}"));
        }
    }
}

/// Says so, and names what comes near; an error when it is not known.
pub(super) fn no_such_pod(query: &str, asked: Asked<'_>) -> anyhow::Result<u8> {
    begins_one(query, asked.world)?;
    if let Some(unknown) = unknown::absent(asked, query) {
        return Err(unknown.into());
    }
    Ok(tell_of_no_such_pod(query, asked.world))
}

/// An error when it is how the UIDs of several pods begin.
pub(super) fn begins_one(query: &str, world: &World) -> anyhow::Result<()> {
    let several = world.of_uid_begin(pod_asked(query)).count();
    anyhow::ensure!(
        several < 2,
        "the UIDs of {several} pods begin with {query}: write more of it"
    );
    Ok(())
}

pub(super) fn tell_of_no_such_pod(query: &str, world: &World) -> u8 {
    let asked = query;
    let query = pod_asked(query);
    let selection = world.selection();
    let place = if selection.is_all() {
        String::new()
    } else {
        format!(" in {}", selection.scope().name())
    };
    if let Some((_, kind, name)) = owner_asked(query) {
        let known = world
            .objects()
            .into_iter()
            .filter(|o| o.object.kind == kind);
        let known: Vec<String> = known.map(|o| o.object.name.to_string()).collect();
        let near = suggest(name, known.iter().map(String::as_str), |n| n);
        if known.iter().any(|k| k == name) {
            tell(&format!("{query}{place} has no pods"));
            return NO_SUCH;
        }
        let (word, _) = query.rsplit_once('/').unwrap_or_default();
        let hint = match near.as_slice() {
            [] => format!("{} of the kind are known", known.len()),
            near => format!("did you mean {word}/{}?", near.join(&format!(", {word}/"))),
        };
        tell(&format!("no {query}{place}: {hint}"));
        return NO_SUCH;
    }
    let near = suggest(query, world.pods().iter().map(|p| p.key()), name_of);
    let bears = |p: &&Pod| p.key() == query || p.name == query || p.uid.as_str() == query;
    let hint = if let Some(p) = world.every_pod().iter().find(bears) {
        format!("there is {}, which is not of it", p.key())
    } else if near.is_empty() {
        format!("{} pods are known", world.pods().len())
    } else {
        format!("did you mean {}?", near.join(", "))
    };
    tell(&format!("no pod {asked}{place}: {hint}"));
    NO_SUCH
}

/// Says that all nodes were listed and none has the name, and names what comes near.
pub(super) fn tell_of_no_such_node(node: &str, world: &World) -> u8 {
    let known = world.nodes().into_iter().map(|n| n.name.to_string());
    let near = suggest(node, known, |n: &str| n);
    let hint = if near.is_empty() {
        format!("nodes that are known: {}", world.nodes().len())
    } else {
        format!("did you mean node/{}?", near.join(", node/"))
    };
    tell(&format!("no node {node}: {hint}"));
    NO_SUCH
}

fn name_of(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}
