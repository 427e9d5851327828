//! Verdicts on nodes: a container runtime that does not answer, a kubelet that does nothing, a node that is
//! low on a resource.
//!
//! `admit` uses the same evidence for a pod that waits. The verdicts here are on the node itself, also
//! while no pod waits.

use super::Context;
use super::heard::{self, Heard};
use crate::correlate::PodView;
use crate::diagnose::cluster::{NodeHealth, NodeLease, low_on};
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::signal::{self, network_missing};
use crate::diagnose::text::{list, shorten, span};
use crate::diagnose::{Catalogue, Cause, Confidence, InFlightCall, Verdict, cause, limits};
use kflow_model::{Nanos, ObjectRef, Source, stamp::SECOND};

/// A kubelet that is alive calls the runtime or logs a line every second.
const SILENT_NS: i64 = limits::KUBELET_SILENT.ns;
/// While no pod waits for it, a silent kubelet is reported no sooner than the control plane would report it: a kubelet
/// that is restarted is back by then.
const UNMISSED_NS: i64 = limits::LEASE.ns;
/// The kubelet checks its client certificate every ten seconds, and logs each time that it has expired
/// (pkg/kubelet/certificate/transport.go, `UpdateTransport`). Some lines may be lost.
const EXPIRED_NS: i64 = 60 * SECOND;
const EXPIRED: &str = "its client certificate has expired";

/// Returns the verdicts on nodes that are not well, by name. The owner of such a verdict is the node, its pod is empty.
pub(in crate::diagnose) fn nodes(cx: Context<'_>) -> Vec<Verdict> {
    if !cx.world.selection().admits_owner("") {
        return Vec::new();
    }
    cx.shared.told(cx).iter().map(|(_, v)| v.clone()).collect()
}

/// Returns the verdict on a node; `None` when it is well, does not exist or is not known.
pub(in crate::diagnose) fn node(cx: Context<'_>, name: &str) -> Option<Verdict> {
    let (name, health) = cx.shared.nodes.get_key_value(name)?;
    if health.missing.is_some() {
        return None;
    }
    // A finding needs a pod's history: that of a pod that does not exist, with nothing but its node.
    let view = PodView {
        node: name.clone(),
        created: cx.now,
        ..PodView::default()
    };
    let f = PodHistory::gather(&view, cx.now);
    let (x, since) = ended_runtime(cx, &f, health)
        .or_else(|| refused_by_proxy(cx, &f, health))
        .or_else(|| runtime(cx, Finding::new(cause::KF302, &f), name, Some(health)))
        .map(|(x, since)| (holding(cx, x, name), since))
        .or_else(|| ended(cx.now, &f, health))
        .or_else(|| kubelet(cx, Finding::new(cause::KF301, &f), name, health))
        .or_else(|| reported(cx, &f, health))
        .or_else(|| pressure(cx, Finding::new(cause::KF318, &f), health))
        .or_else(|| manifests(cx, Finding::new(cause::KF320, &f), health))?;
    // Where nothing tells since when, it is so now at least.
    let x = if cx.now.since(since) >= SECOND {
        x.since(since)
    } else {
        x.seen_only(cx.now)
    };
    let mut v = x.verdict(&f);
    v.owner = Some(ObjectRef {
        kind: "Node".into(),
        name: name.clone(),
        ..ObjectRef::default()
    });
    v.not_reached = Vec::new();
    // Commands with a name that is not filled in are for pods.
    v.next.retain(|n| !n.command.contains('<'));
    Some(v)
}

/// Adds the evidence that a node's runtime does not answer, and returns since when: the kubelet's own calls hang, or
/// its log or the node's condition says so. `None` without such evidence.
pub(super) fn runtime<'a>(
    cx: Context<'a>,
    mut x: Finding<'a>,
    node: &str,
    health: Option<&NodeHealth>,
) -> Option<(Finding<'a>, Nanos)> {
    let mut since = None;
    let hanging = &cx.shared.hanging;
    if let Some(oldest) = hanging.first().filter(|_| cx.shared.is_local(node)) {
        let mut methods: Vec<&str> = hanging.iter().map(|c| c.method.as_str()).collect();
        methods.dedup();
        let running = span(cx.now.since(oldest.start));
        let what = format!("{} in flight for {running}", list(&methods));
        x = x.varying("what", &what);
        for c in hanging.iter().take(3) {
            let running = span(cx.now.since(c.start));
            let what = format!("CRI {}  in flight for {running}", c.method);
            x = x.proof_as(&c.started, what);
        }
        x.waits_on = Some(InFlightCall {
            method: oldest.method.clone(),
            since: oldest.start,
            deadline_ns: oldest.timeout_ns,
        });
        since = Some(oldest.start);
    }
    if let Some((at, why, o)) = health.and_then(|n| n.skipping(cx.now)) {
        let what = format!("it skips all pods: {}", shorten(why, 160));
        x = x.name("what", &what).proof(o);
        since = since.or(Some(at.plus(signal::unheard_ns(why).saturating_neg())));
    }
    if let Some(n) = health.filter(|n| n.runtime_down()) {
        if let Some((_, _, message)) = &n.ready {
            x = x.name("what", message);
        }
        if since.is_none() {
            x = x.at_most(Confidence::Likely);
        }
        x = x.proof_if(n.evidence.as_ref());
        since = since.or(n.ready_since);
    }
    Some((x, since?))
}

/// Returns a finding for a runtime that has ended by an error of its own, by its last line, and when it wrote that.
pub(super) fn ended_runtime<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    health: &NodeHealth,
) -> Option<(Finding<'a>, Nanos)> {
    let last = |source| cx.world.source(source).last;
    let heard = last(Source::Runtime).max(last(Source::Cri));
    let (at, what, o) = health.ended_runtime(heard)?;
    let what = what.trim_end_matches(['.', ':', ' ']);
    let x = Finding::new(cause::KF515, f).name("what", &shorten(what, 160));
    Some((x.proof(o), *at))
}

/// Returns a finding for a kubelet that reaches no runtime because nobody accepts connections on the socket of kflow's proxy, and since
/// when it says so.
pub(super) fn refused_by_proxy<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    health: &NodeHealth,
) -> Option<(Finding<'a>, Nanos)> {
    let (o, why, since) = health.unreached(cx.now)?;
    let (cause, names) = Catalogue::get().best("@log", why, |c| c.id == cause::KF523)?;
    let mut x = Finding::of(cause, f);
    x.names = names;
    Some((x.proof(o), since))
}

/// Returns a finding for a kubelet that exits as soon as it is started, by its last line, and when it wrote that.
pub(super) fn ended<'a>(
    now: Nanos,
    f: &PodHistory<'a>,
    health: &NodeHealth,
) -> Option<(Finding<'a>, Nanos)> {
    // Its own last words say more than its exit code.
    let Some((at, why, o)) = health.ended(now) else {
        let (at, how, o) = health.exited(now)?;
        let x = kubelet_error(Finding::new(cause::KF301, f), "has ended", how);
        return Some((x.proof(o), *at));
    };
    let of_runtime = |c: &Cause| matches!(c.id, cause::KF516 | cause::KF523);
    let told = Catalogue::get().best("@log", why, of_runtime);
    let x = match told {
        Some((cause, names)) => {
            let mut x = Finding::of(cause, f);
            x.names = names;
            x
        }
        None => kubelet_error(
            Finding::new(cause::KF301, f),
            "ends as soon as it is started",
            why,
        ),
    };
    // The kubelet looks for the file that it was to join with only once its own certificate is of no use
    // (pkg/kubelet/certificate/bootstrap/bootstrap.go, `LoadClientCert`).
    let expired = health.expired.as_ref();
    let x = match expired.filter(|(e, _)| at.since(*e).abs() < EXPIRED_NS) {
        Some((_, of)) => {
            let mut x = x.name("certificate", EXPIRED).proof(of);
            x.names.remove("unjoined");
            x
        }
        None => x,
    };
    Some((x.proof(o), *at))
}

/// Adds an error of the kubelet about itself, and what its words tell to do.
fn kubelet_error<'a>(mut x: Finding<'a>, still: &str, why: &str) -> Finding<'a> {
    let told = Catalogue::get().best("@kubelet", why, |c| c.id == cause::KF301);
    if let Some((_, names)) = told {
        x.names = names;
    }
    let why = why.trim_end_matches(['.', '!', ' ']);
    x.name("still", still).name("what", &shorten(why, 160))
}

/// Returns a finding for a node that the kubelet cannot register or reports as not ready, and since when that is.
fn reported<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    health: &NodeHealth,
) -> Option<(Finding<'a>, Nanos)> {
    let x = Finding::new(cause::KF301, f);
    if let Some((at, why, o)) = health.not_registered() {
        let x = kubelet_error(x, "cannot register its node with the apiserver", why);
        return Some((x.proof(o), *at));
    }
    if let Some((o, why, since)) = health.lacks_network(cx.now) {
        let of_network = |c: &Cause| c.id == cause::KF310;
        let told = Catalogue::get().best("NetworkNotReady", why, of_network);
        // A line that was cut at the screen does not say what the runtime does.
        let mut x = Finding::new(cause::KF310, f).at_most(Confidence::Likely);
        if let Some((_, names)) = told {
            x = Finding::new(cause::KF310, f);
            x.names = names;
        }
        return Some((x.proof(o), since));
    }
    if let Some((o, why, since)) = health.not_found(cx.now) {
        let x = kubelet_error(x, "does not find its node at the apiserver", why);
        return Some((x.proof(o), since));
    }
    let (_, reason, message) = health.ready.as_ref().filter(|_| health.not_ready())?;
    // A row of a table of nodes does not say why.
    let why = Some(message).filter(|m| !m.is_empty()).unwrap_or(reason);
    if why.is_empty() || health.starts(cx.now) {
        return None;
    }
    let of_network = || Catalogue::get().best("NetworkNotReady", why, |c| c.id == cause::KF310);
    let x = match network_missing(why).and_then(|_| of_network()) {
        Some((cause, names)) => {
            let mut x = Finding::of(cause, f);
            x.names = names;
            x
        }
        None => x
            .name("still", "says that the node is not ready")
            .name("what", &shorten(why, 160)),
    };
    let since = health.ready_since.unwrap_or(cx.now);
    Some((x.proof_if(health.evidence.as_ref()), since))
}

/// Adds the pods that the trouble of a node holds up. A verdict on one of them does not name them.
fn holding<'a>(cx: Context<'a>, x: Finding<'a>, node: &str) -> Finding<'a> {
    match cx.shared.held_up(cx.world, node) {
        [] => x,
        held => x.name("held", &list(held)),
    }
}

/// Adds the evidence that a node is low on a resource, and returns since when: its conditions, or a line of its
/// kubelet. `None` without such evidence.
fn pressure<'a>(
    cx: Context<'a>,
    x: Finding<'a>,
    health: &NodeHealth,
) -> Option<(Finding<'a>, Nanos)> {
    let said = health.reclaiming(cx.now);
    let lacks: Vec<&str> = health
        .pressures
        .iter()
        .filter_map(|c| low_on(&c.kind))
        .collect();
    if lacks.is_empty() {
        // The kubelet sets the condition only with its next status report.
        if let Some((at, resource, o)) = said {
            return Some((x.name("what", resource).proof(o), *at));
        }
        let (at, message, o) = health.keeps_images(cx.now)?;
        let message = message.trim_end_matches(['.', ' ']);
        let x = x
            .name("what", "disk space")
            .name("message", &shorten(message, 160));
        return Some((x.proof(o), *at));
    }
    let since = health.pressures.iter().filter_map(|c| c.transition).min();
    let messages: Vec<&str> = health
        .pressures
        .iter()
        .map(|c| c.message.as_str())
        .filter(|m| !m.is_empty())
        .collect();
    let mut x = x
        .name("what", &list(&lacks))
        .proof_if(health.evidence.as_ref())
        .proof_if(said.map(|(.., o)| o));
    if !messages.is_empty() {
        x = x.name("message", &shorten(&list(&messages), 160));
    }
    Some((x, since.unwrap_or(cx.now)))
}

/// Adds the manifests that the kubelet can make no static pod of, and returns since when. `None` without such a manifest.
fn manifests<'a>(
    cx: Context<'a>,
    mut x: Finding<'a>,
    health: &NodeHealth,
) -> Option<(Finding<'a>, Nanos)> {
    let mut all: Vec<_> = health.refused_manifests(cx.now).collect();
    all.sort_by_key(|m| &m.path);
    let first = all.first()?;
    x.names.set("path", &first.path);
    let why = first.why.trim_end_matches(['.', ':', ' ']);
    let why = why.strip_prefix(first.path.as_str()).unwrap_or(why);
    let why = why.trim_start_matches([':', ' ']);
    x.names.set("what", &shorten(why, 160));
    let others: Vec<&str> = all.iter().skip(1).map(|m| m.path.as_str()).collect();
    if !others.is_empty() {
        x.names.set("others", &list(&others));
    }
    Some((x.proof(&first.evidence), first.since))
}

/// Adds the evidence that a node's kubelet does nothing, and returns since when: the node's condition Ready is
/// Unknown, the lease has run out, or neither log lines nor calls come. `None` without such evidence.
fn kubelet<'a>(
    cx: Context<'a>,
    x: Finding<'a>,
    node: &str,
    health: &NodeHealth,
) -> Option<(Finding<'a>, Nanos)> {
    let x = x.name("still", still(cx, node, health));
    let local = cx.shared.is_local(node);
    let unknown = health.ready.as_ref().is_some_and(|(s, ..)| s == "Unknown");
    // A kubelet with a low log verbosity logs nothing for long, so its silence counts only where its
    // calls are seen too.
    let calls = cx.world.source(Source::Cri).last.is_some();
    let waits = !cx.shared.held_up(cx.world, node).is_empty();
    let patience = if waits { SILENT_NS } else { UNMISSED_NS };
    let last = cx.shared.node_quiet;
    let quiet = last.filter(|t| local && calls && cx.shared.silence(*t, cx.now) >= patience);
    let (x, since) = if unknown {
        let since = health.ready_since.unwrap_or(cx.now);
        (not_ready(x, node, health), since)
    } else if let Some(last) = quiet {
        (silent(cx, x, last), last)
    } else {
        let lease = health
            .lease
            .filter(|l| !local && l.is_over(cx.shared.followed(cx.now)))?;
        // A kubelet that reaches the apiserver renews its lease too: the lease was read before that.
        let heard = heard::kubelet(cx, node);
        let lives = heard.is_some_and(|h| cx.now.since(h.at) < lease.lasts);
        if lives || !is_sure(cx, &lease) {
            return None;
        }
        (lease_over(cx, x, &lease), lease.renewed)
    };
    Some((last_heard(cx, x, heard::kubelet(cx, node).as_ref()), since))
}

/// Says what a kubelet does that the control plane has not heard in time. After an apiserver was away the mark stays until the kubelet's
/// next report of its status, although its lease is renewed before that.
pub(super) fn still(cx: Context<'_>, node: &str, health: &NodeHealth) -> &'static str {
    let since = health.ready_since.filter(|_| health.not_ready());
    let lives = |h: &Heard| {
        let later = since.is_some_and(|since| h.at > since.plus(SECOND));
        later && cx.now.since(h.at) < limits::LEASE.ns
    };
    match heard::kubelet(cx, node).filter(lives) {
        None => "stands still",
        Some(h) if h.evidence.is_some() => "is heard again, and its node is still marked",
        Some(_) => "runs, but the apiserver has not heard of it",
    }
}

/// Adds the condition by which the control plane marks a node as not Ready.
pub(super) fn not_ready<'a>(mut x: Finding<'a>, node: &str, health: &NodeHealth) -> Finding<'a> {
    x.confidence = Confidence::Certain;
    if let Some((status, reason, message)) = &health.ready {
        let what = if reason.is_empty() {
            // A row of a table of nodes.
            x = x.at_most(Confidence::Likely);
            format!("node {node} is not Ready")
        } else {
            let why = [reason.as_str(), message.as_str()].map(|s| s.trim_end_matches('.'));
            let why: Vec<&str> = why.into_iter().filter(|s| !s.is_empty()).collect();
            format!("node {node} is Ready={status}, {}", why.join(": "))
        };
        x = x.name("what", &what);
    }
    x = x.proof_if(health.evidence.as_ref());
    // The kubelet repeats this with each certificate check; what it logged long before it fell silent is another trouble.
    let last = |at: Nanos| health.heard.is_none_or(|h| h.since(at) < EXPIRED_NS);
    if let Some((_, o)) = health.expired.as_ref().filter(|(at, _)| last(*at)) {
        x = x.name("certificate", EXPIRED).proof(o);
    }
    x
}

/// Adds that the kubelet of this node has neither logged nor called the runtime since a moment.
pub(super) fn silent<'a>(cx: Context<'a>, x: Finding<'a>, last: Nanos) -> Finding<'a> {
    let quiet = span(cx.shared.silence(last, cx.now));
    let what = format!("it has neither logged nor called the runtime for {quiet}");
    x.varying("what", &what).absence(
        last,
        Source::Kubelet,
        "last line of the kubelet's log, or call of it",
    )
}

/// Adds that the kubelet has stopped renewing its lease.
pub(super) fn lease_over<'a>(cx: Context<'a>, x: Finding<'a>, l: &NodeLease) -> Finding<'a> {
    let quiet = span(cx.shared.silence(l.renewed, cx.now));
    let what = format!("it has not renewed its lease for {quiet}");
    x.varying("what", &what).absence(
        l.renewed,
        l.source,
        "the kubelet's lease was renewed, as every ten seconds, and not since",
    )
}

/// False when the watch that shows the lease may hang itself, because it has delivered nothing since.
pub(super) fn is_sure(cx: Context<'_>, l: &NodeLease) -> bool {
    l.source == Source::Audit || heard::watches_live(cx, l.renewed.plus(l.lasts / 2))
}

/// Adds the kubelet's newest sign of life.
pub(super) fn last_heard<'a>(cx: Context<'a>, x: Finding<'a>, last: Option<&Heard>) -> Finding<'a> {
    let Some(last) = last else { return x };
    x.varying("heard", &last.in_words(cx.now))
        .proof_if(last.evidence.as_ref())
}
