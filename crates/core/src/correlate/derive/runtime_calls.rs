//! Runtime calls of the pod worker, from the tap, else from the kubelet's spans; and the container runs that result
//! from them.

use super::evidence::{CallEvidence, PodEvidence};
use super::span::edge;
use crate::timeline::{Certainty, Edge, Outcome, is_timed_out};
use kflow_model::Evidence;
use kflow_model::cri::method;
use kflow_model::{
    Body, Nanos, SpanId, Text,
    cri::CallKey,
    pod::ContainerState,
    span::{SpanKind, SpanRecord},
};
use rustc_hash::FxHashMap;

/// A runtime call of the pod worker, from the tap or from a span.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeCall {
    pub(crate) method: Text,
    pub(crate) container: Text,
    pub(crate) attempt: Option<u32>,
    pub(crate) container_id: Text,
    pub(crate) sandbox_id: Text,
    pub(crate) image: Text,
    pub(crate) start: Edge,
    pub(crate) end: Option<Edge>,
    pub(crate) outcome: Outcome,
    pub(crate) code: Text,
    pub(crate) message: Text,
    pub(crate) certainty: Certainty,
    pub(crate) key: Option<CallKey>,
    pub(crate) deadline_ns: Option<i64>,
    /// Id of the kubelet's client span.
    pub(crate) span: Option<SpanId>,
    pub(crate) evidence: Vec<Evidence>,
}

impl RuntimeCall {
    pub(crate) fn ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }
    /// True for an error, and for a call that was given up at its deadline.
    pub(crate) fn failed(&self) -> bool {
        self.outcome == Outcome::Error || is_timed_out(self.outcome, &self.code)
    }
    /// The evidence of the end: the call's end, else the span.
    pub(crate) fn proof_of_end(&self) -> Option<&Evidence> {
        self.evidence
            .iter()
            .find(|o| matches!(o.body, Body::CallEnd(_)))
            .or_else(|| self.evidence.last())
    }
    pub(crate) fn ended(&self) -> Option<Nanos> {
        self.end.map(|e| e.at)
    }
}

/// A run of a container: one attempt, from start to exit.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) container: Text,
    pub(crate) attempt: Option<u32>,
    pub(crate) id: Text,
    pub(crate) start: Option<Edge>,
    pub(crate) end: Option<Edge>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) reason: Text,
    pub(crate) certainty: Certainty,
    pub(crate) evidence: Vec<Evidence>,
}

/// Methods that are steps of a pod's life; the loops' list and status calls are not.
const STEPS: [&str; 12] = [
    method::RUN_POD_SANDBOX,
    method::POD_SANDBOX_STATUS,
    method::IMAGE_STATUS,
    method::PULL_IMAGE,
    method::CREATE_CONTAINER,
    method::START_CONTAINER,
    method::EXEC_SYNC,
    method::STOP_CONTAINER,
    method::STOP_POD_SANDBOX,
    method::REMOVE_CONTAINER,
    method::REMOVE_POD_SANDBOX,
    method::UPDATE_CONTAINER_RESOURCES,
];

/// Returns all runtime calls of the pod worker, by start.
pub(crate) fn collect(f: &PodEvidence<'_>) -> Vec<RuntimeCall> {
    let mut all: Vec<RuntimeCall> = f
        .calls
        .iter()
        .filter(|c| STEPS.contains(&c.c.method.as_str()))
        .map(of_call)
        .collect();
    let tapped: rustc_hash::FxHashSet<SpanId> = all.iter().filter_map(|w| w.span).collect();
    let servers: FxHashMap<SpanId, &SpanRecord> = f
        .spans
        .iter()
        .filter(|(_, s)| s.kind == SpanKind::Server)
        .filter_map(|(_, s)| Some((s.parent?, *s)))
        .collect();
    for (o, s) in &f.spans {
        let Some((_, method)) = s.name.rsplit_once('/') else {
            continue;
        };
        if s.service == "kubelet"
            && s.kind == SpanKind::Client
            && s.name.starts_with("runtime.v1")
            && STEPS.contains(&method)
            && !tapped.contains(&s.span)
        {
            all.push(of_span(o, s, method, servers.get(&s.span).copied()));
        }
    }
    all.sort_by(|a, b| {
        (a.start, &a.method, a.key, a.span).cmp(&(b.start, &b.method, b.key, b.span))
    });
    name_containers(&mut all, f);
    all
}

fn of_call(c: &CallEvidence<'_>) -> RuntimeCall {
    let (outcome, code, message, certainty) = c.result();
    let mut evidence = vec![c.o.clone()];
    evidence.extend(c.end.map(|(o, _)| o.clone()));
    evidence.extend(c.span.cloned());
    let s = &c.c.subject;
    let sandbox_id = if s.sandbox_id.is_empty() {
        c.end
            .map(|(_, e)| e.subject.sandbox_id.0.clone())
            .unwrap_or_default()
    } else {
        s.sandbox_id.0.clone()
    };
    RuntimeCall {
        method: c.c.method.clone(),
        container: s.container.clone(),
        attempt: s.attempt,
        container_id: c.container_id().into(),
        sandbox_id,
        image: s.image.clone(),
        start: edge(c.o),
        end: c.ended(),
        outcome,
        code,
        message,
        certainty,
        key: Some(c.c.key),
        deadline_ns: c.c.timeout_ns,
        span: c.c.traceparent.map(|(_, s)| s),
        evidence,
    }
}

fn of_span(o: &Evidence, s: &SpanRecord, method: &str, server: Option<&SpanRecord>) -> RuntimeCall {
    let get = |key: &str| -> Text {
        server
            .and_then(|x| x.attribute(key))
            .or_else(|| s.attribute(key))
            .unwrap_or_default()
            .into()
    };
    let code = get("rpc.response.status_code");
    let outcome = match code.as_str() {
        "" | "OK" | "0" if !s.error => Outcome::Ok,
        "Canceled" | "CANCELLED" | "DeadlineExceeded" | "DEADLINE_EXCEEDED" => Outcome::Cancelled,
        _ => Outcome::Error,
    };
    // `<container>_<pod>_<namespace>_<uid>_<attempt>`; Kubernetes names contain no underscore.
    let name = get("container.name");
    let mut parts = name.split('_');
    let container: Text = parts.next().unwrap_or_default().into();
    let attempt = name.rsplit('_').next().and_then(|n| n.parse().ok());
    RuntimeCall {
        method: method.into(),
        container: if method == method::CREATE_CONTAINER {
            container
        } else {
            Text::default()
        },
        attempt,
        container_id: get("container.id"),
        sandbox_id: get("sandbox.id"),
        image: get("image.ref"),
        start: edge(o),
        end: Some(Edge {
            at: s.end,
            precision: 1,
        }),
        outcome,
        code: if outcome == Outcome::Ok {
            Text::default()
        } else {
            code
        },
        message: Text::clone(&s.message),
        certainty: Certainty::Measured,
        key: None,
        deadline_ns: None,
        span: Some(s.span),
        evidence: vec![o.clone()],
    }
}

/// Fills in name and attempt of the container in calls that have only its id.
fn name_containers(all: &mut [RuntimeCall], f: &PodEvidence<'_>) {
    let mut ids: FxHashMap<Text, (Text, Option<u32>)> = FxHashMap::default();
    let mut learn = |id: &str, name: &Text, attempt: Option<u32>| {
        if !id.is_empty() && !name.is_empty() {
            let known = ids
                .entry(id.into())
                .or_insert_with(|| (name.clone(), attempt));
            known.1 = known.1.or(attempt);
        }
    };
    for w in all.iter().filter(|w| w.method == method::CREATE_CONTAINER) {
        learn(&w.container_id, &w.container, w.attempt);
    }
    for (_, i) in &f.items {
        let s = &i.subject;
        learn(s.container_id.as_str(), &s.container, s.attempt);
    }
    for (_, c) in &f.container_events {
        let s = &c.subject;
        learn(s.container_id.as_str(), &s.container, s.attempt);
    }
    for (_, p) in &f.states {
        for c in p.statuses() {
            let running = !matches!(c.state, ContainerState::Waiting { .. });
            learn(c.id.as_str(), &c.name, running.then_some(c.restarts));
            if let Some(last) = &c.last {
                learn(last.id.as_str(), &c.name, None);
            }
        }
    }
    for (_, l) in &f.logs {
        learn(l.container_id.as_str(), &l.container, None);
    }
    for w in all {
        if let Some((name, attempt)) = ids.get(&w.container_id) {
            if w.container.is_empty() {
                w.container = name.clone();
            }
            w.attempt = w.attempt.or(*attempt);
        }
    }
}
