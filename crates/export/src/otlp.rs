//! Timelines as OTLP JSON (one `ExportTraceServiceRequest`): one trace a pod start, as trace viewers like it.
//!
//! Ids are derived from the pod's UID and the span's place, so the same session exports the same ids. Sending is the
//! shell's business: this only maps.
//!
//! Written by hand: `opentelemetry-proto` (0.33) has its trace messages only together with the SDK and an executor, twelve
//! packages that kflow does not have otherwise, and its JSON writes every field, as `"parentSpanId": ""` for a root.

use std::hash::{Hash, Hasher};
use std::io::{self, Write};

use rustc_hash::FxHasher;
use serde_json::{Value, json};

use kflow_core::correlate::Pod;
use kflow_core::timeline::{Outcome, Span, summary};
use kflow_model::{Nanos, SpanId, TraceId};

/// Writes all pods as one request, one resource a pod.
pub fn write(pods: &[Pod], now: Nanos, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"{\"resourceSpans\":[")?;
    for (n, pod) in pods.iter().enumerate() {
        if n > 0 {
            out.write_all(b",")?;
        }
        serde_json::to_writer(&mut *out, &resource(pod, now))?;
    }
    out.write_all(b"]}\n")
}

fn resource(pod: &Pod, now: Nanos) -> Value {
    let trace =
        TraceId((u128::from(hash(&(&pod.uid, 1))) << 64) | u128::from(hash(&(&pod.uid, 2))));
    let root = SpanId(hash(&(&pod.uid, "root")) | 1);
    let (start, end) = pod.timeline.range().unwrap_or((now, now));
    let open = pod.timeline.in_flight().next().is_some();
    let mut spans = vec![json!({
        "traceId": trace, "spanId": root, "name": pod.key(), "kind": 1,
        "startTimeUnixNano": start.0.to_string(),
        "endTimeUnixNano": (if open { now.max(end) } else { end }).0.to_string(),
        "attributes": [attribute("kflow.status", &pod.status)],
    })];
    // A stage is written once for each time in which it worked; its steps lie in the one that they are part of.
    let t = &pod.timeline;
    let parts: Vec<Vec<(Nanos, Nanos)>> =
        t.spans.iter().map(|s| summary::work(t, s, now)).collect();
    for (n, (s, times)) in t.spans.iter().zip(&parts).enumerate() {
        let parent = s.parent.map_or(root, |p| {
            let around = parts.get(p as usize).map_or(0, |times| {
                times
                    .iter()
                    .rposition(|(from, _)| *from <= s.start.at)
                    .unwrap_or(0)
            });
            span_id(pod, p as usize, around)
        });
        for (part, (from, to)) in times.iter().enumerate() {
            spans.push(span(s, trace, span_id(pod, n, part), parent, (*from, *to)));
        }
    }
    json!({
        "resource": {"attributes": [
            attribute("service.name", "kflow"),
            attribute("k8s.namespace.name", &pod.namespace),
            attribute("k8s.pod.name", &pod.name),
            attribute("k8s.pod.uid", pod.uid.as_str()),
            attribute("k8s.node.name", &pod.node),
        ]},
        "scopeSpans": [{"scope": {"name": "kflow", "version": env!("CARGO_PKG_VERSION")}, "spans": spans}],
    })
}

fn span(s: &Span, trace: TraceId, id: SpanId, parent: SpanId, (from, to): (Nanos, Nanos)) -> Value {
    let mut attributes = vec![
        attribute("kflow.stage", s.stage.name()),
        attribute(
            "kflow.sources",
            &s.sources()
                .iter()
                .map(|s| s.name())
                .collect::<Vec<_>>()
                .join(","),
        ),
        json!({"key": "kflow.attempt", "value": {"intValue": s.attempt.to_string()}}),
        json!({"key": "kflow.precision_ns", "value": {"intValue": s.start.precision.to_string()}}),
    ];
    if !s.container.is_empty() {
        attributes.push(attribute("k8s.container.name", &s.container));
    }
    if !s.code.is_empty() {
        attributes.push(attribute("rpc.response.status_code", &s.code));
    }
    if s.outcome == Outcome::InFlight {
        attributes.push(json!({"key": "kflow.in_flight", "value": {"boolValue": true}}));
    }
    // OTLP status codes: 0 unset, 1 ok, 2 error.
    let status = match s.outcome {
        Outcome::Ok => json!({"code": 1}),
        Outcome::Error | Outcome::Cancelled => json!({"code": 2, "message": s.message}),
        Outcome::InFlight => json!({}),
    };
    json!({
        "traceId": trace, "spanId": id, "parentSpanId": parent, "name": s.step,
        "kind": if s.call.is_some() { 3 } else { 1 },
        "startTimeUnixNano": from.0.to_string(),
        "endTimeUnixNano": to.0.to_string(),
        "attributes": attributes, "status": status,
    })
}

fn span_id(pod: &Pod, at: usize, part: usize) -> SpanId {
    // An id of zeros is invalid.
    SpanId(hash(&(&pod.uid, at, part)) | 1)
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn hash(of: &impl Hash) -> u64 {
    let mut h = FxHasher::default();
    of.hash(&mut h);
    h.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_core::correlate::PodView;
    use std::sync::Arc;

    #[test]
    fn a_pod_is_one_trace_with_one_root_and_stable_ids() {
        let pod: Pod = Arc::new(
            PodView {
                uid: "u1".into(),
                name: "web".into(),
                ..PodView::default()
            }
            .into(),
        );
        let render = || {
            let mut out = Vec::new();
            write(std::slice::from_ref(&pod), Nanos(5), &mut out).unwrap();
            serde_json::from_slice::<Value>(&out).unwrap()
        };
        let v = render();
        assert_eq!(v, render());
        let spans = &v["resourceSpans"][0]["scopeSpans"][0]["spans"];
        assert_eq!(spans.as_array().unwrap().len(), 1);
        assert_eq!(spans[0]["traceId"].as_str().unwrap().len(), 32);
        assert!(spans[0]["parentSpanId"].is_null());
    }
}
