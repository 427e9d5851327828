//! Pods that are bound to a node that does not exist.

use super::{Context, heard};
use crate::diagnose::cause;
use crate::diagnose::cluster::Missing;
use crate::diagnose::finding::{Finding, node_of};
use crate::diagnose::history::PodHistory;
use crate::diagnose::limits;
use crate::diagnose::text::span;
use crate::diagnose::{Confidence, State};
use crate::flow::Stage;
use kflow_model::pod::WatchEvent;
use kflow_model::{Body, Nanos};

/// Returns when a pod was bound, and the evidence that its node does not exist; `None` when the node may exist.
pub(in crate::diagnose) fn missing(
    cx: Context<'_>,
    f: &PodHistory<'_>,
) -> Option<(Nanos, Missing)> {
    let node = node_of(f.view, f.api);
    // Static pods exist before their node does, and observations of a node's own sources show that the node exists.
    let runs = f.node_seen.is_some() || f.api.is_none_or(|p| p.mirror_of.is_some());
    let bound = f.bound.filter(|_| !node.is_empty() && !runs)?;
    if cx.now.since(bound) < limits::NODE_APPEARS.ns {
        return None;
    }
    Some((bound, cx.shared.missing(cx.world, node)?))
}

pub(super) fn rules<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let node = node_of(f.view, f.api);
    let Some((bound, missing)) = missing(cx, f) else {
        return;
    };
    let mut x = Finding::new(cause::KF317, f);
    let gone_since = bound.max(missing.evidence.stamp.at);
    let (stage, since) = if f.deleted.is_some() {
        (Stage::Terminate, bound)
    } else if f.is_ready() == Some(true) {
        // The status is the last one that the kubelet wrote, while the node existed.
        x = x.name("ready", "Ready");
        (Stage::Ready, gone_since)
    } else {
        (Stage::Admit, bound)
    };
    let gone = matches!(&missing.evidence.body, Body::Node(n) if n.event == WatchEvent::Deleted);
    let what = if gone {
        format!("node {node} was deleted")
    } else {
        format!("a complete list of nodes, without {node}")
    };
    x = x.at(stage).since(since).proof_as(&missing.evidence, what);
    // When a list was read does not tell since when the node is gone.
    x.at_least = stage == Stage::Ready && !gone;
    if missing.stale {
        x = x.at_most(Confidence::Likely);
    }
    let known = cx.now.since(gone_since);
    if known > limits::POD_GC.ns {
        x = x.state(State::Stuck);
        x = match heard::controllers(cx) {
            Some(h) => x
                .varying(
                    "late",
                    &format!(
                        "{}, although kube-controller-manager was last heard {}",
                        span(known),
                        h.in_words(cx.now)
                    ),
                )
                .proof_if(h.evidence.as_ref()),
            None => x.varying(
                "late",
                &format!("{}: is kube-controller-manager running?", span(known)),
            ),
        };
    } else {
        x = x.name("soon", "40 to 80 s");
    }
    x = x.proof_if(f.api_evidence);
    // Later troubles are left out: without a node nobody acts on them.
    found.retain(|k| k.stage < stage.min(Stage::Admit) || f.deleted.is_some() && k.stage < stage);
    found.push(x);
}
