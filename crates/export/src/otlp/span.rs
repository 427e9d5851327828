//! Makes one span: names and attributes follow OpenTelemetry's semantic conventions (1.45: rpc, http, k8s, container,
//! process); what they have no name for is under `kflow.`.

use crate::why::confidence_name;
use kflow_core::correlate::PodView;
use kflow_core::diagnose::Verdict;
use kflow_core::flow::{Map, Stage};
use kflow_core::timeline::{Mark, MarkKind, Outcome, Span};
use kflow_model::cri::{CallStart, Service, code_name};
use kflow_model::log::Component;
use kflow_model::{Body, Nanos, Source, SpanId, Text, TraceId};

use super::wire::{self, KeyValue, Status, attribute, kind};

/// A trace's id, the span's own id, and its parent's.
pub(super) type Id = (TraceId, SpanId, Option<SpanId>);

pub(super) fn new(
    (trace, id, parent): Id,
    name: &str,
    (from, to): (Nanos, Nanos),
    open: bool,
) -> wire::Span {
    let mut attributes = Vec::new();
    if open {
        attributes.push(attribute("kflow.in_flight", true));
    }
    wire::Span {
        trace_id: trace.0.to_be_bytes().to_vec(),
        span_id: id.0.to_be_bytes().to_vec(),
        parent_span_id: parent
            .map(|p| p.0.to_be_bytes().to_vec())
            .unwrap_or_default(),
        name: name.to_owned(),
        kind: kind::INTERNAL,
        start_time_unix_nano: unix(from),
        end_time_unix_nano: unix(to),
        attributes,
        ..wire::Span::default()
    }
}

/// Converts to ns since 1970; a time before 1970 becomes 0.
fn unix(at: Nanos) -> u64 {
    u64::try_from(at.0).unwrap_or_default()
}

pub(super) fn of_pod(pod: &PodView, attributes: &mut Vec<KeyValue>) {
    for (key, value) in [
        ("k8s.namespace.name", &*pod.namespace),
        ("k8s.pod.name", &*pod.name),
        ("k8s.pod.uid", pod.uid.as_str()),
    ] {
        if !value.is_empty() {
            attributes.push(attribute(key, value));
        }
    }
}

/// Adds the owners whose kinds have a name in the conventions.
pub(super) fn of_owners(pod: &PodView, attributes: &mut Vec<KeyValue>) {
    for owner in &pod.owners {
        let kind = match owner.kind.as_str() {
            "ReplicaSet" => "replicaset",
            "Deployment" => "deployment",
            "StatefulSet" => "statefulset",
            "DaemonSet" => "daemonset",
            "Job" => "job",
            "CronJob" => "cronjob",
            _ => continue,
        };
        attributes.push(attribute(&format!("k8s.{kind}.name"), &*owner.name));
    }
}

pub(super) fn of_container(name: &str, attempt: u32, attributes: &mut Vec<KeyValue>) {
    attributes.push(attribute("k8s.container.name", name));
    attributes.push(attribute("k8s.container.restart_count", i64::from(attempt)));
}

pub(super) fn link(trace: TraceId, span: SpanId, service: &str) -> wire::Link {
    wire::Link {
        trace_id: trace.0.to_be_bytes().to_vec(),
        span_id: span.0.to_be_bytes().to_vec(),
        attributes: vec![attribute("service.name", service)],
    }
}

/// Makes the span of a timeline's step.
pub(super) fn of_step(pod: &PodView, s: &Span, id: Id, times: (Nanos, Nanos)) -> wire::Span {
    // A wait may have a call among its evidence, but is no call itself.
    let call = s.evidence.iter().find_map(|e| match &e.body {
        Body::CallStart(c) if s.call == Some(c.key) => Some(&**c),
        _ => None,
    });
    let method = call.and_then(full_method);
    let mut span = new(
        id,
        method.as_deref().unwrap_or(&s.step),
        times,
        s.end.is_none(),
    );
    let a = &mut span.attributes;
    let sources: Vec<&str> = s.sources().iter().map(|s| s.name()).collect();
    a.extend([
        attribute("kflow.stage", s.stage.name()),
        attribute("kflow.step", &*s.step),
        attribute("kflow.sources", &*sources.join(",")),
        attribute("kflow.precision_ns", i64::from(s.start.precision)),
    ]);
    of_pod(pod, a);
    if s.container.is_empty() {
        a.push(attribute("kflow.attempt", i64::from(s.attempt)));
    } else {
        of_container(&s.container, s.attempt, a);
    }
    let code = code(s, call.is_some());
    if let Some(call) = call {
        span.kind = kind::CLIENT;
        of_call(call, method.as_deref(), a);
    }
    let failed = matches!(s.outcome, Outcome::Error | Outcome::Cancelled);
    match &code {
        Code::None => {}
        Code::Grpc(name) => a.push(attribute("rpc.response.status_code", *name)),
        Code::Http(n) => a.push(attribute("http.response.status_code", *n)),
        Code::Exit(n) => a.push(attribute("process.exit.code", *n)),
    }
    if failed {
        let kind = match &code {
            Code::Grpc(name) => (*name).to_owned(),
            Code::Http(n) => n.to_string(),
            Code::Exit(_) | Code::None => "_OTHER".to_owned(),
        };
        a.push(attribute("error.type", &*kind));
        // The status of a success stays unset, because only the application may set `Ok`.
        span.status = Some(Status {
            message: s.message.to_string(),
            code: Status::ERROR,
        });
    }
    span.links = links(s);
    span
}

/// Returns `runtime.v1.RuntimeService/RunPodSandbox`; `None` while the method is unknown.
fn full_method(call: &CallStart) -> Option<String> {
    let service = match call.service {
        Service::Runtime => "runtime.v1.RuntimeService",
        Service::Image => "runtime.v1.ImageService",
        Service::RuntimeV1Alpha2 => "runtime.v1alpha2.RuntimeService",
        Service::ImageV1Alpha2 => "runtime.v1alpha2.ImageService",
        Service::Other => return Some(call.method.trim_start_matches('/').to_owned()),
        Service::Unknown => return None,
    };
    Some(format!("{service}/{}", call.method))
}

fn of_call(call: &CallStart, method: Option<&str>, a: &mut Vec<KeyValue>) {
    a.push(attribute("rpc.system.name", "grpc"));
    a.extend(method.map(|m| attribute("rpc.method", m)));
    let subject = &call.subject;
    for (key, value) in [
        ("container.id", subject.container_id.as_str()),
        ("container.image.name", &*subject.image),
        ("kflow.sandbox.id", subject.sandbox_id.as_str()),
    ] {
        if !value.is_empty() {
            a.push(attribute(key, value));
        }
    }
}

/// The kind of a span's status code.
enum Code {
    None,
    /// In the spelling of the conventions: `DEADLINE_EXCEEDED`.
    Grpc(&'static str),
    Http(i64),
    Exit(i64),
}

fn code(s: &Span, is_call: bool) -> Code {
    let number = s.code.parse::<i64>().ok();
    if let Some(name) = grpc(&s.code) {
        return Code::Grpc(name);
    }
    let is_request = s.evidence.iter().any(|e| e.source == Source::Audit);
    match number {
        Some(n) if s.is_run() => Code::Exit(n),
        Some(n) if !is_call && is_request && (100..600).contains(&n) => Code::Http(n),
        _ if is_call && s.end.is_some() && s.outcome == Outcome::Ok => Code::Grpc("OK"),
        _ => Code::None,
    }
}

/// Converts Go's name of a gRPC status (`NotFound`) to the conventions' name.
fn grpc(name: &str) -> Option<&'static str> {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let mut numbered = (0_u32..).zip(NAMES);
    numbered
        .find(|(n, _)| code_name(*n) == name)
        .map(|(_, n)| n)
}

/// Returns links to the components' own spans of the step: the kubelet's span whose id the call carried, and spans
/// among the evidence.
fn links(s: &Span) -> Vec<wire::Link> {
    let is_call = |c: &CallStart| s.call == Some(c.key);
    let mut seen: Vec<(TraceId, SpanId, &str)> = Vec::new();
    for e in &s.evidence {
        let real = match &e.body {
            Body::CallStart(c) if is_call(c) => c.traceparent.map(|(t, s)| (t, s, "kubelet")),
            Body::Span(r) => Some((r.trace, r.span, r.service.as_str())),
            _ => None,
        };
        let known =
            |(t, s, _): &(TraceId, SpanId, &str)| seen.iter().any(|x| (x.0, x.1) == (*t, *s));
        if let Some(real) = real.filter(|r| !known(r)) {
            seen.push(real);
        }
    }
    seen.into_iter()
        .map(|(t, s, service)| link(t, s, service))
        .collect()
}

/// Returns the service that did a step's work, by its name in its own spans.
pub(super) fn service(s: &Span) -> Text {
    // Of a call the kubelet is the client; a step that only a component's own span shows is that component's.
    if s.call.is_some() {
        return "kubelet".into();
    }
    let only_spans = s.evidence.iter().all(|e| e.source == Source::Otlp);
    let told = s.evidence.iter().find_map(|e| match &e.body {
        Body::Span(r) if only_spans && !r.service.is_empty() => Some(r.service.clone()),
        _ => None,
    });
    told.unwrap_or_else(|| service_of_step(s).into())
}

fn service_of_step(s: &Span) -> &'static str {
    let map = Map::active();
    let step = map.step_by_function(&s.step).map(|(_, step)| step);
    let component = step.and_then(|step| Some(map.flows().get(step.flow)?.component));
    component.map_or_else(|| service_of_stage(s.stage), name)
}

/// The service's name in spans: that of its program, but for the apiserver, whose own spans have another.
const fn name(c: Component) -> &'static str {
    match c {
        Component::Apiserver => c.name(),
        _ => c.program(),
    }
}

/// Returns the service that leads a stage.
pub(super) const fn service_of_stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Api => name(Component::Apiserver),
        Stage::Schedule => name(Component::Scheduler),
        _ => name(Component::Kubelet),
    }
}

/// True for services on the pod's node; those of the control plane may be anywhere.
pub(super) fn is_of_node(service: &str) -> bool {
    !Component::CONTROL.map(name).contains(&service)
}

/// Makes an event of a verdict that held from `since`; `until` is `None` while it holds.
pub(super) fn of_verdict(v: &Verdict, since: Nanos, until: Option<Nanos>) -> wire::Event {
    let mut attributes = vec![
        attribute("kflow.state", v.state.name()),
        attribute("kflow.stage", v.stage.name()),
        attribute("kflow.confidence", confidence_name(v.confidence)),
        attribute("kflow.sentence", &*v.sentence),
    ];
    if !v.cause_id().is_empty() {
        attributes.push(attribute("kflow.cause.id", v.cause_id()));
        attributes.push(attribute("kflow.cause.title", &*v.title));
    }
    if !v.container.is_empty() {
        attributes.push(attribute("k8s.container.name", &*v.container));
    }
    if let Some(until) = until {
        attributes.push(attribute("kflow.lasted_ns", until.since(since).max(0)));
    }
    wire::Event {
        time_unix_nano: unix(since),
        name: "kflow.verdict".to_owned(),
        attributes,
    }
}

pub(super) fn of_mark(m: &Mark) -> wire::Event {
    let mut attributes = vec![attribute("kflow.text", &*m.text)];
    if !m.container.is_empty() {
        attributes.push(attribute("k8s.container.name", &*m.container));
    }
    if m.bad {
        attributes.push(attribute("kflow.bad", true));
    }
    if m.count > 1 {
        attributes.push(attribute("kflow.count", i64::from(m.count)));
    }
    wire::Event {
        time_unix_nano: unix(m.at.at),
        name: match m.kind {
            MarkKind::Event => "k8s.event",
            MarkKind::Probe => "k8s.probe",
            MarkKind::Restart => "k8s.container.exit",
            MarkKind::Condition => "k8s.pod.condition",
            MarkKind::Status => "k8s.pod.status",
            MarkKind::Request => "k8s.request",
            MarkKind::Runtime => "container.runtime",
            MarkKind::Due => "kflow.due",
            MarkKind::Note => "kflow.note",
        }
        .to_owned(),
        attributes,
    }
}
