//! The stages `api` and `schedule`: from the create request to the binding.

use super::Build;
use super::evidence::Request;
use super::span::{edge, narrow};
use crate::flow::Stage;
use crate::timeline::{Certainty, Edge, Outcome, Span};
use kflow_model::{Evidence, Nanos, Text, pod::WatchEvent, stamp::SECOND};

pub(super) fn of_request(stage: Stage, name: &str, r: &Request<'_>) -> Span {
    let mut s = Span::new(
        stage,
        name,
        r.received,
        r.complete,
        Certainty::Measured,
        r.evidence.clone(),
    );
    if r.a.code >= 400 {
        s.outcome = Outcome::Error;
        s.code = format!("{}", r.a.code).into();
        s.message.clone_from(&r.a.message);
    }
    s
}

/// Adds the spans of `api`. Later stages find them in the build.
pub(crate) fn api(b: &mut Build<'_>) {
    let f = b.seen;
    let mut any = false;
    for r in &f.requests {
        if r.a.verb == "create" && r.a.resource == "pods" {
            let mut s = of_request(Stage::Api, "Create", r);
            let i = {
                // The apiserver's own span is about the same request. It begins after the first filters and ends
                // after the audit record is written, so the audit record sets the edges.
                if let Some((o, span)) = f.server_span(r.a.audit_id.as_str()) {
                    s.end = s.end.or_else(|| Some(f.api_edge(span.end, 1)));
                    s.evidence.push(o.clone());
                }
                any = true;
                b.add(s)
            };
            children(b, i, r.a.audit_id.as_str());
        }
    }
    if any {
        return;
    }
    let Some((o, p)) = f.states.iter().find(|(_, p)| p.created.0 != 0) else {
        return;
    };
    let arrived = (p.event == WatchEvent::Added).then_some(o.stamp.at);
    let at = narrow(f.api_edge(p.created, SECOND as u32), None, arrived);
    b.add(Span::new(
        Stage::Api,
        "Create",
        at,
        Some(at),
        Certainty::Bounded,
        vec![(*o).clone()],
    ));
}

/// Adds webhook calls and the write to etcd as children of a request's span.
fn children(b: &mut Build<'_>, parent: u32, audit_id: &str) {
    let f = b.seen;
    let Some((_, server)) = f.server_span(audit_id) else {
        return;
    };
    for (o, s) in f.within_request(server.trace) {
        let mut span = Span::new(
            Stage::Api,
            &s.name,
            f.api_edge(o.stamp.at, o.stamp.precision),
            Some(f.api_edge(s.end, 1)),
            Certainty::Measured,
            vec![o.clone()],
        );
        span.parent = Some(parent);
        span.message = s
            .attribute("webhook")
            .map_or_else(|| Text::clone(&s.message), Text::from);
        if s.error {
            span.outcome = Outcome::Error;
            span.message.clone_from(&s.message);
        }
        b.add(span);
    }
}

/// When the pod was bound, and the evidence for it.
struct Bound {
    at: Edge,
    certainty: Certainty,
    evidence: Vec<Evidence>,
}

fn bound(b: &Build<'_>, created: Option<Nanos>) -> Option<Bound> {
    let f = b.seen;
    let seen = f
        .states
        .iter()
        .filter(|(_, p)| !p.spec.node.is_empty())
        .min_by_key(|(o, _)| o.stamp.at);
    if let Some((o, _)) = f.events_of(&["Scheduled"]).next() {
        let mut evidence = vec![o.clone()];
        evidence.extend(seen.map(|(o, _)| (*o).clone()));
        return Some(Bound {
            at: f.api_edge(o.stamp.at, o.stamp.precision),
            certainty: Certainty::Inferred,
            evidence,
        });
    }
    let (o, p) = seen?;
    // Bound when first seen, and no scheduler reported it: the creator chose the node.
    let scheduled = p.condition("PodScheduled").filter(|c| c.is_true());
    let second = f.api_edge(scheduled?.transition?, SECOND as u32);
    let at = narrow(second, created, Some(o.stamp.at));
    Some(Bound {
        at,
        certainty: Certainty::Bounded,
        evidence: vec![(*o).clone()],
    })
}

/// Adds the spans of `schedule`.
pub(crate) fn schedule(b: &mut Build<'_>) {
    let f = b.seen;
    if f.is_static(&b.view.uid) {
        // The kubelet itself sets the condition PodScheduled of a static pod.
        return;
    }
    let created = b.ends(Stage::Api).or_else(|| b.starts(Stage::Api));
    let bindings: Vec<&Request<'_>> = f
        .requests
        .iter()
        .filter(|r| r.a.resource == "pods/binding" && r.a.verb == "create")
        .collect();
    let bound = bound(b, created.map(|c| c.at));
    let first_evidence = f
        .states
        .first()
        .map(|(o, _)| (*o).clone())
        .or_else(|| f.requests.first().and_then(|r| r.evidence.first().cloned()));
    let mut since = created;
    let mut proof = first_evidence;

    // Scheduling gates hold a pod back before the scheduler considers it.
    if let Some((o, gated)) = f
        .states
        .iter()
        .find(|(_, p)| !p.spec.scheduling_gates.is_empty())
        && let Some(start) = since
    {
        let freed = f
            .states
            .iter()
            .find(|(_, p)| p.spec.scheduling_gates.is_empty())
            .filter(|(x, _)| x.stamp.at > o.stamp.at);
        let mut evidence = vec![(*o).clone()];
        evidence.extend(freed.map(|(o, _)| (*o).clone()));
        let mut s = Span::new(
            Stage::Schedule,
            "SchedulingGates",
            start,
            freed.map(|(o, _)| edge(o)),
            Certainty::Inferred,
            evidence,
        );
        s.message = gated.spec.scheduling_gates.join(", ").into();
        b.add(s);
        let Some((o, _)) = freed else { return };
        since = Some(edge(o));
        proof = Some((*o).clone());
    }

    let mut attempt = 0;
    let refused = f.events_of(&["FailedScheduling"]);
    for (o, e) in refused.filter(|(_, e)| !e.is_of_autoscaler()) {
        let at = f.api_edge(o.stamp.at, o.stamp.precision);
        // Of a pod that no list shows, the Event alone tells since when.
        let first = e.began().map(|first| f.api_edge(first, o.stamp.precision));
        let start = since.or(first).unwrap_or(at);
        let mut evidence = vec![o.clone()];
        evidence.extend(proof.clone());
        let mut s = Span::new(
            Stage::Schedule,
            "scheduleOnePod",
            start.min(at),
            Some(at),
            Certainty::Inferred,
            evidence,
        );
        s.outcome = Outcome::Error;
        s.attempt = attempt;
        s.message.clone_from(&e.message);
        b.add(s);
        attempt += 1;
        since = Some(at);
        proof = Some(o.clone());
    }
    let ok = bindings.iter().rfind(|r| r.a.code < 400);
    for r in &bindings {
        let mut s = of_request(Stage::Schedule, "Bind", r);
        s.attempt = attempt;
        b.add(s);
    }
    let end = ok
        .map(|r| (r.received, Certainty::Inferred, r.evidence.clone()))
        .or_else(|| bound.map(|x| (x.at, x.certainty, x.evidence)));
    match (since, end) {
        (start, Some((at, certainty, mut evidence))) => {
            let start = start.unwrap_or(at);
            evidence.extend(proof);
            evidence.dedup();
            let mut s = Span::new(
                Stage::Schedule,
                "scheduleOnePod",
                start.min(at),
                Some(at),
                certainty,
                evidence,
            );
            s.attempt = attempt;
            b.add(s);
        }
        (Some(start), None) => {
            // The pod was bound at creation, or never. A pod that ended unbound is no longer waiting.
            let on_node = || {
                !b.view.node.is_empty()
                    || b.input.evidence.iter().any(|o| o.source.is_node())
                    || f.events.iter().any(|(_, e)| e.node_agent().is_some())
            };
            let unbound = f
                .newest()
                .map_or_else(|| attempt > 0 && !on_node(), |p| !p.is_bound());
            if !unbound {
                return;
            }
            let end = b
                .view
                .gone
                .or(b.view.deletion_requested)
                .map(|at| Edge { at, precision: 1 });
            let mut s = Span::new(
                Stage::Schedule,
                "scheduleOnePod",
                start,
                end,
                Certainty::Bounded,
                proof.into_iter().collect(),
            );
            s.attempt = attempt;
            if end.is_some() {
                s.outcome = Outcome::Cancelled;
            }
            if let Some(c) = f.newest().and_then(|p| p.condition("PodScheduled")) {
                s.code.clone_from(&c.reason);
                s.message.clone_from(&c.message);
            }
            b.add(s);
        }
        (None, None) => {}
    }
}
