//! Nodes that stand still: a container runtime that does not answer, a kubelet that does nothing.
//!
//! The same evidence that keeps a single pod waiting (`admit`), told of the node itself, also while no pod waits.

use super::{Context, heard};
use crate::correlate::PodView;
use crate::diagnose::cluster::NodeHealth;
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::text::{list, shorten, span};
use crate::diagnose::{Confidence, InFlightCall, Verdict, cause, limits};
use kflow_model::{ObjectRef, Source, Text};

/// A kubelet that lives makes a call or logs a line every second.
const SILENT_NS: i64 = limits::KUBELET_SILENT.ns;
/// While no pod waits for it, it is not told of sooner than the control plane would: a kubelet that is restarted is back.
const UNMISSED_NS: i64 = limits::LEASE.ns;

/// Verdicts on nodes that stand still, by name. The owner of such a verdict is the node, its pod is empty.
pub(in crate::diagnose) fn nodes(cx: Context<'_>) -> Vec<Verdict> {
    let mut names: Vec<&Text> = cx.shared.nodes.keys().collect();
    names.sort_unstable();
    let mut out = Vec::new();
    for name in names {
        let Some(health) = cx.shared.nodes.get(name) else {
            continue;
        };
        if health.missing.is_some() || !cx.world.selection().admits_owner("") {
            continue;
        }
        out.extend(node(cx, name, health));
    }
    out
}

fn node(cx: Context<'_>, name: &Text, health: &NodeHealth) -> Option<Verdict> {
    // The facts of a pod that does not exist: only its node is known.
    let view = PodView {
        node: name.clone(),
        created: cx.now,
        ..PodView::default()
    };
    let f = PodHistory::gather(&view, cx.now);
    let x = runtime(cx, &f, name, health).or_else(|| kubelet(cx, &f, name, health))?;
    let mut v = x.verdict(&f);
    v.owner = Some(ObjectRef {
        kind: "Node".into(),
        name: name.clone(),
        ..ObjectRef::default()
    });
    v.not_reached = Vec::new();
    // What is to be done with a pod is not to be done with a node.
    v.next.retain(|n| !n.command.contains('<'));
    Some(v)
}

/// The runtime does not answer, by the kubelet's own calls, its log, or the node's condition.
fn runtime<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    name: &str,
    health: &NodeHealth,
) -> Option<Finding<'a>> {
    let local = cx.shared.is_local(name);
    let mut x = Finding::new(cause::KF302, f);
    let mut since = None;
    let hanging = cx.shared.hanging.first().filter(|_| local);
    if let Some(oldest) = hanging {
        let mut methods: Vec<&str> = cx
            .shared
            .hanging
            .iter()
            .map(|c| c.method.as_str())
            .collect();
        methods.dedup();
        let running = span(cx.now.since(oldest.start));
        x = x.varying(
            "what",
            &format!("{} in flight for {running}", list(&methods)),
        );
        for c in cx.shared.hanging.iter().take(3) {
            let running = span(cx.now.since(c.start));
            x = x.proof_as(
                &c.started,
                format!("CRI {}  in flight for {running}", c.method),
            );
        }
        x.waits_on = Some(InFlightCall {
            method: oldest.method.clone(),
            since: oldest.start,
            deadline_ns: oldest.timeout_ns,
        });
        since = Some(oldest.start);
    }
    let skips = health.skipping(cx.now);
    if let Some((at, why, o)) = skips {
        x = x
            .name("what", &format!("it skips all pods: {}", shorten(why, 160)))
            .proof(o);
        since = since.or(Some(*at));
    }
    if health.runtime_down() {
        if let Some((_, _, message)) = &health.ready {
            x = x.name("what", message);
        }
        if hanging.is_none() && skips.is_none() {
            x = x.at_most(Confidence::Likely);
        }
        x = x.proof_if(health.evidence.as_ref());
        since = since.or(health.ready_since);
    }
    let held = cx.shared.held_up(cx.world, name);
    if held.len() > 1 {
        x = x.name("held", &list(held));
    }
    Some(x.since(since?))
}

/// The kubelet does nothing: its node is unknown to the control plane, its lease has run out, or neither its log nor its
/// calls go on.
fn kubelet<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    name: &str,
    health: &NodeHealth,
) -> Option<Finding<'a>> {
    let x = Finding::new(cause::KF301, f).name("still", "stands still");
    let local = cx.shared.is_local(name);
    let unknown = health.ready.as_ref().filter(|(s, ..)| s == "Unknown");
    // A kubelet at a low verbosity is quiet for long; one that works calls its runtime all the time.
    let calls = cx.world.source(Source::Cri).last.is_some();
    let waits = !cx.shared.held_up(cx.world, name).is_empty();
    let patience = if waits { SILENT_NS } else { UNMISSED_NS };
    let silent = cx
        .shared
        .node_last
        .filter(|t| local && calls && cx.now.since(*t) >= patience);
    let lease = health.lease.filter(|l| !local && l.is_over(cx.now));
    let mut x = if let Some((status, reason, message)) = unknown {
        let x = x
            .name(
                "what",
                &format!("node {name} is Ready={status}, {reason}: {message}"),
            )
            .proof_if(health.evidence.as_ref())
            .since(health.ready_since.unwrap_or(cx.now));
        Finding {
            confidence: Confidence::Certain,
            ..x
        }
    } else if let Some(last) = silent {
        let quiet = span(cx.now.since(last));
        x.varying(
            "what",
            &format!("it has neither logged nor called the runtime for {quiet}"),
        )
        .absence(
            last,
            Source::Kubelet,
            "last line of the kubelet's log, or call of it",
        )
        .since(last)
    } else {
        let l = lease.filter(|l| {
            l.source == Source::Audit || heard::watches_live(cx, l.renewed.plus(l.lasts / 2))
        })?;
        let quiet = span(cx.now.since(l.renewed));
        x.varying("what", &format!("it has not renewed its lease for {quiet}"))
            .absence(
                l.renewed,
                l.source,
                "the kubelet's lease was renewed, as every ten seconds, and not since",
            )
            .since(l.renewed)
    };
    if let Some(last) = heard::kubelet(cx, name) {
        x = x
            .varying("heard", &last.in_words(cx.now))
            .proof_if(last.evidence.as_ref());
    }
    Some(x)
}
