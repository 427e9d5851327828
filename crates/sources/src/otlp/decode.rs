//! Decodes trace exports into [`SpanRecord`] observations.

use prost::Message as _;
use thiserror::Error;

use super::attributes::{clean, is_kept};
use super::{json, wire};
use crate::logtext::{FIELD_MAX, cut};
use crate::{Fed, LineDecoder};
use kflow_model::span::{OWN_SCOPE, SpanKind, SpanRecord};
use kflow_model::{Body, Nanos, Observation, Source, SpanId, Stamp, Text, TraceId};

/// Longest span or event name, bytes.
const NAME_MAX: usize = 256;
/// Most attributes, events and links of one span that are kept. The SDK's own limit is 128 of each.
const LIST_MAX: usize = 128;

/// A request that is not an `ExportTraceServiceRequest`.
#[derive(Debug, Error)]
#[error("decoding an OTLP trace export failed: {0}. Is the sender set to OTLP with protobuf?")]
pub struct BadRequest(#[from] prost::DecodeError);

/// Decodes the body of a trace export (`ExportTraceServiceRequest`, protobuf), that arrived at `seen`. Spans without
/// valid ids are dropped: nothing could refer to them.
pub fn decode_request(bytes: &[u8], seen: Nanos) -> Result<Vec<Observation>, BadRequest> {
    let mut out = Vec::new();
    spans(
        wire::Request::decode(bytes)?,
        Some(seen),
        &mut out,
        &mut Vec::new(),
    );
    Ok(out)
}

/// Decodes OTLP JSON lines (`{"resourceSpans":[…]}`), as the collector's file exporter writes them.
#[derive(Debug, Default)]
pub struct OtlpDecoder {
    left: Vec<Fed>,
}

impl LineDecoder for OtlpDecoder {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        if line.trim_ascii().is_empty() {
            return Fed::Ignored("empty line");
        }
        let Ok(root) = serde_json::from_slice::<serde_json::Value>(line) else {
            return Fed::Malformed("JSON that does not parse");
        };
        let before = out.len();
        match json::request(&root) {
            Some(request) => spans(request, None, out, &mut self.left),
            None if root.get("resourceMetrics").is_some() => {
                return Fed::Ignored("metrics export");
            }
            None if root.get("resourceLogs").is_some() => return Fed::Ignored("logs export"),
            None => return Fed::Malformed("not OTLP JSON"),
        }
        match out.len() - before {
            0 if self.left.is_empty() => Fed::Ignored("export without spans"),
            n => Fed::Observed(n),
        }
    }

    fn left(&mut self) -> Vec<Fed> {
        std::mem::take(&mut self.left)
    }
}

/// Appends every valid span of a request, except those of kflow itself; the others go into `left`. `seen` is when the batch
/// arrived; where that is unknown, a span is seen when it ended, which is the earliest possible moment.
fn spans(
    request: wire::Request,
    seen: Option<Nanos>,
    out: &mut Vec<Observation>,
    left: &mut Vec<Fed>,
) {
    for rs in request.resource_spans {
        let service = rs
            .resource
            .iter()
            .flat_map(|r| &r.attributes)
            .find(|a| a.key == "service.name")
            .and_then(|a| a.value.as_ref())
            .map(|v| cut(&v.text(), NAME_MAX))
            .unwrap_or_default();
        for scope in rs.scope_spans {
            // A collector may send back what kflow sent to it.
            let is_own = scope.scope.as_ref().is_some_and(|s| s.name == OWN_SCOPE);
            for span in scope.spans {
                let start = nanos(span.start);
                let record = if is_own {
                    Err(Fed::Ignored("span of kflow itself"))
                } else {
                    record(&service, span).ok_or(Fed::Malformed("span without valid ids"))
                };
                match record {
                    Ok(record) => {
                        let seen = seen.unwrap_or(record.end).max(start);
                        out.push(Observation {
                            stamp: Stamp::new(start, 1, seen),
                            source: Source::Otlp,
                            body: Body::Span(Box::new(record)),
                        });
                    }
                    Err(fed) => left.push(fed),
                }
            }
        }
    }
}

fn record(service: &Text, span: wire::Span) -> Option<SpanRecord> {
    let (trace, id) = (trace_id(&span.trace_id)?, span_id(&span.span_id)?);
    let status = span.status.unwrap_or_default();
    let mut attributes: Vec<(Text, Text)> = span
        .attributes
        .iter()
        .filter(|a| is_kept(&a.key))
        .filter_map(|a| Some((a, a.value.as_ref()?.text())))
        // Kubernetes sets every attribute of a kind, empty or not.
        .filter(|(_, v)| !v.is_empty())
        .take(LIST_MAX)
        .map(|(a, v)| (a.key.as_str().into(), clean(&a.key, &v)))
        .collect();
    attributes.sort();
    let mut message = status.message;
    if message.is_empty() {
        message = span
            .events
            .iter()
            .filter(|e| e.name == "exception")
            .flat_map(|e| &e.attributes)
            .find(|a| a.key == "exception.message")
            .and_then(|a| a.value.as_ref())
            .map(wire::AnyValue::text)
            .unwrap_or_default();
    }
    Some(SpanRecord {
        service: service.clone(),
        name: cut(&span.name, NAME_MAX),
        kind: match span.kind {
            2 => SpanKind::Server,
            3 => SpanKind::Client,
            4 => SpanKind::Producer,
            5 => SpanKind::Consumer,
            _ => SpanKind::Internal,
        },
        trace,
        span: id,
        parent: span_id(&span.parent_span_id),
        end: nanos(span.end),
        error: status.code == 2,
        message: cut(&message, FIELD_MAX).into(),
        attributes: attributes.into(),
        events: span
            .events
            .iter()
            // otelgrpc adds an event for every message of a call: the tap sees those with their bytes.
            .filter(|e| e.name != "message")
            .take(LIST_MAX)
            .map(|e| (nanos(e.time), cut(&e.name, NAME_MAX)))
            .collect(),
        links: span
            .links
            .iter()
            .filter_map(|l| Some((trace_id(&l.trace_id)?, span_id(&l.span_id)?)))
            .take(LIST_MAX)
            .collect(),
    })
}

fn nanos(n: u64) -> Nanos {
    Nanos(i64::try_from(n).unwrap_or(i64::MAX))
}

fn trace_id(b: &[u8]) -> Option<TraceId> {
    Some(TraceId(u128::from_be_bytes(b.try_into().ok()?))).filter(|t| t.is_valid())
}

fn span_id(b: &[u8]) -> Option<SpanId> {
    Some(SpanId(u64::from_be_bytes(b.try_into().ok()?))).filter(|s| s.is_valid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use proptest::prelude::*;
    use serde_json::Value as Json;

    /// Five exports of a real kubelet, apiserver and containerd, and the same spans as an independent decoder saw them.
    const EXPORTS: &str = include_str!("../../../../fixtures/otlp/exports.jsonl");
    const DECODED: &str = include_str!("../../../../fixtures/otlp/decoded.jsonl");

    /// Returns the time of arrival and the bytes of each of [`EXPORTS`].
    fn exports() -> Vec<(Nanos, Vec<u8>)> {
        EXPORTS
            .lines()
            .map(|l| {
                let line: Json = serde_json::from_str(l).unwrap();
                let engine = base64::engine::general_purpose::STANDARD;
                let bytes = engine.decode(line["b64"].as_str().unwrap()).unwrap();
                (Nanos(line["t"].as_i64().unwrap()), bytes)
            })
            .collect()
    }
    fn decode(text: &str) -> (Vec<Observation>, Vec<Fed>) {
        let mut out = Vec::new();
        let fed = text
            .lines()
            .map(|l| OtlpDecoder::default().line(l.as_bytes(), &mut out))
            .collect();
        (out, fed)
    }
    fn span(o: &Observation) -> &SpanRecord {
        match &o.body {
            Body::Span(s) => s,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn real_exports_decode_to_what_an_independent_decoder_saw() {
        let exports = exports();
        assert_eq!(exports.len(), 5);
        let out: Vec<Observation> = exports
            .iter()
            .flat_map(|(seen, bytes)| decode_request(bytes, *seen).unwrap())
            .collect();
        let want: Vec<Json> = DECODED
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(out.len(), want.len());
        let text = |v: &Json, k: &str| v[k].as_str().unwrap_or_default().to_owned();
        for w in &want {
            let o = out
                .iter()
                .find(|o| span(o).span.to_string() == text(w, "span"))
                .unwrap_or_else(|| panic!("no span {}", w["span"]));
            let s = span(o);
            assert_eq!(
                o.stamp,
                Stamp::new(
                    Nanos(w["start"].as_i64().unwrap()),
                    1,
                    Nanos(w["recv"].as_i64().unwrap())
                )
            );
            assert_eq!(s.end.0, w["end"].as_i64().unwrap());
            assert_eq!(s.service, text(w, "service"));
            assert_eq!(s.name, text(w, "name"));
            assert_eq!(s.trace.to_string(), text(w, "trace"));
            assert_eq!(
                s.parent.map(|p| p.to_string()).unwrap_or_default(),
                text(w, "parent")
            );
            let kind = match s.kind {
                SpanKind::Internal => 1,
                SpanKind::Server => 2,
                SpanKind::Client => 3,
                SpanKind::Producer => 4,
                SpanKind::Consumer => 5,
            };
            assert_eq!(kind, w["kind"].as_i64().unwrap());
            assert_eq!(s.error, w["status"]["code"] == 2);
            if s.error && !text(&w["status"], "msg").is_empty() {
                assert_eq!(*s.message, text(&w["status"], "msg"));
            }
            assert_eq!(s.links.len(), w["links"].as_array().unwrap().len());
            let events = w["events"].as_array().unwrap();
            assert_eq!(
                s.events.len(),
                events.iter().filter(|e| e["name"] != "message").count()
            );
            for (key, value) in &s.attributes {
                let raw = match &w["attrs"][key.as_str()] {
                    Json::String(t) => t.clone(),
                    other => other.to_string(),
                };
                assert!(
                    raw.starts_with(value.trim_end_matches('…')) || raw.contains('?'),
                    "{key}: {raw} != {value}"
                );
            }
            for key in [
                "k8s.pod.uid",
                "sandbox.id",
                "audit-id",
                "rpc.method",
                "container.id",
            ] {
                assert_eq!(
                    s.attribute(key).unwrap_or_default(),
                    text(&w["attrs"], key),
                    "{key}"
                );
            }
        }
        assert!(
            want.iter()
                .any(|w| w["links"].as_array().is_some_and(|l| !l.is_empty()))
        );
    }

    #[test]
    fn otlp_json_of_the_collector_is_read() {
        let (out, fed) = decode(
            r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"kubelet"}}]},"scopeSpans":[{"scope":{},"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"eee19b7ec3c1b173","name":"syncPod","kind":1,"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000","attributes":[{"key":"k8s.pod.uid","value":{"stringValue":"u"}},{"key":"server.port","value":{"intValue":"6443"}}],"links":[{"traceId":"5b8efff798038103d269b633813fc60d","spanId":"eee19b7ec3c1b175"}],"events":[{"timeUnixNano":"1544712660500000000","name":"exception","attributes":[{"key":"exception.message","value":{"stringValue":"boom"}}]}],"status":{"code":"STATUS_CODE_ERROR"}},{"traceId":"","spanId":"","name":"invalid"}]}]}]}"#,
        );
        assert_eq!(fed, [Fed::Observed(1)]);
        assert_eq!(
            out[0].stamp,
            Stamp::new(
                Nanos(1_544_712_660_000_000_000),
                1,
                Nanos(1_544_712_661_000_000_000)
            )
        );
        let s = span(&out[0]);
        assert_eq!(
            (
                s.service.as_str(),
                s.name.as_str(),
                s.error,
                s.message.as_str()
            ),
            ("kubelet", "syncPod", true, "boom")
        );
        assert_eq!(s.parent, SpanId::parse("eee19b7ec3c1b173"));
        assert_eq!(s.attribute("server.port"), Some("6443"));
        assert_eq!(
            *s.links,
            [(
                TraceId::parse("5b8efff798038103d269b633813fc60d").unwrap(),
                SpanId::parse("eee19b7ec3c1b175").unwrap()
            )]
        );
    }

    #[test]
    fn what_is_no_trace_export_says_so() {
        for (line, want) in [
            (r#"{"resourceMetrics":[]}"#, Fed::Ignored("metrics export")),
            (
                r#"{"resourceSpans":[]}"#,
                Fed::Ignored("export without spans"),
            ),
            ("[]", Fed::Malformed("not OTLP JSON")),
            ("{", Fed::Malformed("JSON that does not parse")),
        ] {
            assert_eq!(decode(line).1, [want], "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            drop(decode_request(&bytes, Nanos(0)));
            OtlpDecoder::default().line(&bytes, &mut Vec::new());
        }
        #[test]
        fn a_mutated_export_does_not_panic(at in 0_usize..8000, byte in any::<u8>()) {
            let (seen, mut bytes) = exports().swap_remove(0);
            let at = at % bytes.len();
            bytes[at] = byte;
            drop(decode_request(&bytes, seen));
        }
    }
}
