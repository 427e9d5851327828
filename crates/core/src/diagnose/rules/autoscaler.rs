//! The autoscalers that add nodes (the cluster autoscaler and Karpenter), by their Events about the pod.

use super::Context;
use crate::diagnose::cause;
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::signal::Signal;
use crate::diagnose::text::span;
use crate::diagnose::{State, limits};
use kflow_model::{Body, Text};

/// Keeps the finding of the newest autoscaler Event only, because an autoscaler that found no node may add one later;
/// and adds the autoscaler's name.
pub(super) fn rules<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let newest = f
        .signals
        .iter()
        .filter(|s| is_of_autoscaler(s))
        .max_by_key(|s| s.at);
    let Some(newest) = newest else { return };
    let brings = newest.reason != "NotTriggerScaleUp" && newest.reason != "@autoscaler";
    found.retain(|x| match x.cause.id {
        cause::KF225 => !brings,
        cause::KF230 => brings,
        _ => true,
    });
    for x in found.iter_mut() {
        if !matches!(x.cause.id, cause::KF225 | cause::KF230) {
            continue;
        }
        x.names.set("autoscaler", autoscaler(newest));
        let what = x.names.get("what").map(plain);
        if let Some(what) = what {
            x.names.replace("what", &what);
        }
        if x.cause.id == cause::KF230 {
            x.names.vary("asked", &span(cx.now.since(newest.first)), "");
            if let Some((joined, proof)) = joined(cx, newest) {
                x.names.set("joined", &joined);
                x.proofs.extend(proof.map(crate::diagnose::finding::proof));
            }
            // By now the autoscaler has given the node up.
            if cx.now.since(newest.first) >= limits::NODE_JOINS.ns {
                x.state = State::Stuck;
            }
        }
    }
}

fn is_of_autoscaler(s: &Signal<'_>) -> bool {
    matches!(
        s.reason.as_ref(),
        "NotTriggerScaleUp" | "TriggeredScaleUp" | "Nominated" | "@autoscaler"
    )
}

/// Turns Go's notation of lists and maps (`[{workers-a 3->4 (max: 10)}]`, `resources={"cpu":"64"}`) into plain text
/// without braces.
fn plain(what: &str) -> String {
    let bare = what.trim_start_matches("[{").trim_end_matches("}]");
    bare.replace("} {", ", ")
        .replace('{', "(")
        .replace('}', ")")
}

/// The autoscaler's name, for the begin of a sentence.
fn autoscaler(s: &Signal<'_>) -> &'static str {
    match &s.evidence.body {
        Body::Event(e) if e.component == "karpenter" => "Karpenter",
        _ => "The cluster autoscaler",
    }
}

/// Returns what is known about the node that Karpenter named
/// (`nodeclaim/default-x7k2p, node/ip-10-0-1-7`), and the evidence.
fn joined<'a>(
    cx: Context<'a>,
    s: &Signal<'_>,
) -> Option<(String, Option<&'a kflow_model::Evidence>)> {
    let (_, after) = s.text.split_once("node/")?;
    let name = after.split([',', ' ']).next().filter(|n| !n.is_empty())?;
    let Some(node) = cx.world.node(name).filter(|n| n.api.is_some()) else {
        return Some((format!("node {name} was not seen"), None));
    };
    let ready = node
        .api
        .as_deref()?
        .conditions
        .iter()
        .find(|c| c.kind == "Ready")?;
    let why: &Text = if ready.message.is_empty() {
        &ready.reason
    } else {
        &ready.message
    };
    let text = match (ready.status.as_str(), why.as_str()) {
        ("True", _) => format!("node {name} is there and ready"),
        (_, "") => format!("node {name} is there and not ready"),
        (_, why) => format!(
            "node {name} is there and not ready: {}",
            why.trim_end_matches('.')
        ),
    };
    Some((text, node.evidence.last()))
}
