//! Namespaces and nodes of which a recording or a cluster has nothing.

use super::{Asked, Reason, Unknown};
use crate::correlate::{Presence, World};
use crate::diagnose::standing::there;
use crate::diagnose::target::{has_no_pods, near_kind};
use crate::diagnose::text::list;
use crate::suggest::suggest;
use kflow_model::Source;
use kflow_model::kind::NAMESPACE;

/// Returns why nothing can be said about the scope: the recording holds nothing of its namespace or node, or the
/// cluster has no such node.
pub fn elsewhere(asked: Asked<'_>) -> Option<Unknown> {
    let (world, scope) = (asked.world, asked.world.selection().scope());
    let what = || format!("what there is {}", scope.place());
    if let Some(node) = scope.node.as_deref()
        && let Some(why) = without_node(asked, node)
    {
        return Some(Unknown {
            what: what(),
            reason: if asked.recorded.is_some() {
                Reason::NotRecorded
            } else {
                Reason::NoSuchNode
            },
            why,
            help: if asked.recorded.is_some() {
                MEANT.to_owned()
            } else {
                "`kubectl get nodes` names those that there are".to_owned()
            },
        });
    }
    let namespace = scope.namespace.as_deref()?;
    if let Some(near) = without_namespace(asked, namespace) {
        return Some(Unknown {
            what: what(),
            reason: Reason::NoSuchNamespace,
            why: of_kind(
                namespace,
                format!("the cluster has no namespace {namespace}"),
            ),
            help: if has_no_pods(namespace) {
                WITH_PODS.to_owned()
            } else {
                near
            },
        });
    }
    asked.recorded?;
    let held = namespaces(world);
    (!held.is_empty() && !held.contains(&namespace)).then(|| Unknown {
        what: what(),
        reason: Reason::NotRecorded,
        why: of_kind(
            namespace,
            format!(
                "nothing that was read{} is of namespace {namespace}; it holds {}",
                asked.so_far(),
                list(&held)
            ),
        ),
        help: meant(namespace, &held),
    })
}

/// Puts what a word is before a sentence on the namespace that it is taken for: of `svc/web` the first part may be either.
fn of_kind(word: &str, sentence: String) -> String {
    if has_no_pods(word) {
        return format!("{word} is a kind that has no pods; taken for a namespace, {sentence}");
    }
    sentence
}

const WITH_PODS: &str = "name a pod, or what has pods";

/// Returns what may have been meant by a namespace that a complete list does not have; `None` for one that is there, and
/// where that is not known.
pub fn without_namespace(asked: Asked<'_>, namespace: &str) -> Option<String> {
    let world = asked.world;
    let listed = world
        .coverage()
        .incomplete("namespaces", None, asked.at)
        .is_none();
    let pods = world.every_pod().iter();
    let mut in_it = pods.filter(|p| p.gone.is_none() && p.namespace == namespace);
    if !listed || in_it.next().is_some() {
        return None;
    }
    let objects = world.objects().into_iter();
    let all = objects.filter(|o| o.object.kind == NAMESPACE && there(o).is_some());
    let all: Vec<&str> = all.map(|o| o.object.name.as_str()).collect();
    if all.contains(&namespace) {
        return None;
    }
    let near = suggest(namespace, all, |n| n);
    Some(if near.is_empty() {
        "`kubectl get namespaces` names those that there are".to_owned()
    } else {
        format!("did you mean {}?", near.join(", "))
    })
}

/// Returns what may have been meant by an unknown namespace, which may be the first part of `NAMESPACE/NAME`: a
/// similar namespace, or a kind.
fn meant(namespace: &str, held: &[&str]) -> String {
    let near = suggest(namespace, held.iter().copied(), |n| n);
    if !near.is_empty() {
        return format!("did you mean {}?", near.join(", "));
    }
    if has_no_pods(namespace) {
        return WITH_PODS.to_owned();
    }
    near_kind(namespace).map_or_else(
        || MEANT.to_owned(),
        |kind| format!("did you mean {kind}/NAME?"),
    )
}

const MEANT: &str = "check that it is of the cluster that is meant";

/// Returns a sentence when nothing is known about a node.
fn without_node(asked: Asked<'_>, node: &str) -> Option<String> {
    let world = asked.world;
    let pods = world.every_pod().iter().map(|p| p.node.as_str());
    if pods.clone().any(|n| n == node) {
        return None;
    }
    if asked.recorded.is_none() {
        // On the node itself, a node that is not registered may be just what the user looks into.
        let local = Source::ALL
            .into_iter()
            .any(|s| s.is_node() && world.source(s).count > 0);
        let missing = matches!(world.presence(node), Presence::Missing { .. });
        return (missing && !local).then(|| format!("the cluster has no node {node}"));
    }
    let mut held: Vec<&str> = world.nodes().iter().map(|n| n.name.as_str()).collect();
    held.extend(pods);
    held.retain(|n| !n.is_empty());
    held.sort_unstable();
    held.dedup();
    (!held.is_empty() && !held.contains(&node)).then(|| {
        format!(
            "nothing that was read{} is of node {node}; it holds {}",
            asked.so_far(),
            list(&held)
        )
    })
}

/// Returns the namespaces of the known pods and objects, sorted.
fn namespaces(world: &World) -> Vec<&str> {
    let pods = world.every_pod().iter().map(|p| p.namespace.as_str());
    let objects = world.objects().into_iter();
    let mut all: Vec<&str> = pods
        .chain(objects.map(|o| o.object.namespace.as_str()))
        .filter(|ns| !ns.is_empty())
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}
