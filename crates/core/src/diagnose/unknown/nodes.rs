//! What cannot be said about nodes.

use super::{Asked, Reason, Unknown};
use crate::correlate::{Incomplete, Presence, World};
use crate::diagnose::text::list;
use crate::diagnose::verdict::Verdict;
use kflow_model::ObjectRef;
use kflow_model::kind::NODE;
use kflow_model::pod::Condition;
use std::sync::Arc;

/// Returns why it cannot be said that no node has this name.
pub(super) fn absent_node(asked: Asked<'_>, node: &str) -> Option<Unknown> {
    let missing = matches!(asked.world.presence(node), Presence::Missing { .. });
    without_nodes(asked, format!("whether there is a node {node}")).filter(|_| !missing)
}

/// Returns why it cannot be said that a node is well about which nothing bad is known.
pub fn known_node(asked: Asked<'_>, node: &str) -> Option<Unknown> {
    let what = || format!("how node {node} is");
    let coverage = asked.world.coverage();
    if !matches!(asked.world.presence(node), Presence::Exists) {
        return without_nodes(asked, what());
    }
    if let Some(unknown) = not_ready(asked, node) {
        return Some(unknown);
    }
    let why = coverage.unread("nodes", asked.at)?;
    Some(asked.because(what(), "nodes", &why))
}

/// Returns the condition Ready of a node that is not Ready.
pub(super) fn without_ready(world: &World, node: &str) -> Option<Condition> {
    let state = world.node(node)?;
    let ready = state.api.as_deref()?.condition("Ready")?;
    (!ready.is_true()).then(|| ready.clone())
}

/// Says of a node that is not Ready that nothing tells why.
fn not_ready(asked: Asked<'_>, node: &str) -> Option<Unknown> {
    let ready = without_ready(asked.world, node)?;
    let why = if ready.reason.is_empty() {
        "nothing that was read says why".to_owned()
    } else {
        format!("{}: {}", ready.reason, ready.message)
    };
    Some(Unknown {
        what: format!("how node {node} is (NotReady when it was last seen)"),
        reason: Reason::NotRecorded,
        why,
        help: format!("see kubectl describe node {node}, and the log of its kubelet"),
    })
}

/// Says of a node that is not Ready that nothing tells why, where no pod is known: it is all that was read.
pub fn nodes_alone(asked: Asked<'_>) -> Option<Unknown> {
    let no_pod = asked.world.every_pod().is_empty();
    no_pod.then(|| unready_nodes(asked, &[])).flatten()
}

/// Says of the nodes of a recording that are not Ready, and of which there is no verdict, that nothing tells why.
pub fn nodes_unexplained(asked: Asked<'_>, verdicts: &[Arc<Verdict>]) -> Option<Unknown> {
    let is_recorded = asked.recorded.is_some() && !asked.world.every_pod().is_empty();
    is_recorded
        .then(|| unready_nodes(asked, verdicts))
        .flatten()
}

fn unready_nodes(asked: Asked<'_>, verdicts: &[Arc<Verdict>]) -> Option<Unknown> {
    let is_told = |node: &str| {
        let about = |o: &ObjectRef| o.kind == NODE && o.name == node;
        let objects = |v: &Arc<Verdict>| {
            let own = v.owner.iter().filter(|_| v.uid.is_empty());
            own.chain(&v.behind).any(about)
        };
        verdicts.iter().any(objects)
    };
    let nodes = asked.world.nodes().into_iter();
    let unready = nodes
        .filter(|n| !is_told(&n.name))
        .filter_map(|n| not_ready(asked, &n.name).map(|unknown| (&n.name, unknown)));
    let (names, all): (Vec<_>, Vec<_>) = unready.unzip();
    let mut first = all.into_iter().next()?;
    if names.len() > 1 {
        first.what = format!(
            "how nodes {} are (NotReady when they were last seen)",
            list(&names)
        );
    }
    Some(first)
}

fn without_nodes(asked: Asked<'_>, what: String) -> Option<Unknown> {
    let why = asked.world.coverage().incomplete("nodes", None, asked.at);
    Some(asked.because(what, "nodes", &why.unwrap_or(Incomplete::NotAsked)))
}
