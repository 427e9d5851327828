//! OTLP JSON, as the collector's file exporter writes it: hex ids, nanoseconds as strings, enums as numbers or names.

use serde_json::Value as Json;

use super::wire;

/// Reads `{"resourceSpans":[…]}`; `None` when there is no such list.
pub(super) fn request(root: &Json) -> Option<wire::Request> {
    let resource_spans = root
        .get("resourceSpans")?
        .as_array()?
        .iter()
        .map(|rs| wire::ResourceSpans {
            resource: rs.get("resource").map(|r| wire::Resource {
                attributes: attributes(r),
            }),
            scope_spans: list(rs, "scopeSpans")
                // The field's name before OTLP 0.19.
                .chain(list(rs, "instrumentationLibrarySpans"))
                .map(|ss| wire::ScopeSpans {
                    scope: ss.get("scope").map(|s| wire::Scope {
                        name: text(s, "name"),
                    }),
                    spans: list(ss, "spans").map(span).collect(),
                })
                .collect(),
        })
        .collect();
    Some(wire::Request { resource_spans })
}

fn list<'a>(v: &'a Json, key: &str) -> impl Iterator<Item = &'a Json> {
    v.get(key).and_then(Json::as_array).into_iter().flatten()
}

fn span(s: &Json) -> wire::Span {
    wire::Span {
        trace_id: bytes(s, "traceId"),
        span_id: bytes(s, "spanId"),
        parent_span_id: bytes(s, "parentSpanId"),
        name: text(s, "name"),
        kind: constant(
            s.get("kind"),
            &[
                "SPAN_KIND_UNSPECIFIED",
                "SPAN_KIND_INTERNAL",
                "SPAN_KIND_SERVER",
                "SPAN_KIND_CLIENT",
                "SPAN_KIND_PRODUCER",
                "SPAN_KIND_CONSUMER",
            ],
        ),
        start: number(s, "startTimeUnixNano"),
        end: number(s, "endTimeUnixNano"),
        attributes: attributes(s),
        events: list(s, "events")
            .map(|e| wire::Event {
                time: number(e, "timeUnixNano"),
                name: text(e, "name"),
                attributes: attributes(e),
            })
            .collect(),
        links: list(s, "links")
            .map(|l| wire::Link {
                trace_id: bytes(l, "traceId"),
                span_id: bytes(l, "spanId"),
            })
            .collect(),
        status: s.get("status").map(|st| wire::Status {
            message: text(st, "message"),
            code: constant(
                st.get("code"),
                &["STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"],
            ),
        }),
    }
}

fn attributes(v: &Json) -> Vec<wire::KeyValue> {
    list(v, "attributes")
        .map(|a| wire::KeyValue {
            key: text(a, "key"),
            value: a.get("value").map(|v| any(v, 0)),
        })
        .collect()
}

fn any(v: &Json, depth: u8) -> wire::AnyValue {
    let value = if let Some(s) = v.get("stringValue").and_then(Json::as_str) {
        Some(wire::Value::String(s.to_owned()))
    } else if let Some(n) = v.get("intValue") {
        n.as_i64()
            .or_else(|| n.as_str()?.parse().ok())
            .map(wire::Value::Int)
    } else if let Some(b) = v.get("boolValue").and_then(Json::as_bool) {
        Some(wire::Value::Bool(b))
    } else if let Some(d) = v.get("doubleValue").and_then(Json::as_f64) {
        Some(wire::Value::Double(d))
    } else {
        v.get("arrayValue").filter(|_| depth == 0).map(|a| {
            wire::Value::Array(wire::Array {
                values: list(a, "values").map(|v| any(v, depth + 1)).collect(),
            })
        })
    };
    wire::AnyValue { value }
}

fn text(v: &Json, key: &str) -> String {
    v.get(key)
        .and_then(Json::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn number(v: &Json, key: &str) -> u64 {
    match v.get(key) {
        Some(Json::String(s)) => s.parse().unwrap_or(0),
        Some(n) => n.as_u64().unwrap_or(0),
        None => 0,
    }
}

fn constant(v: Option<&Json>, names: &[&str]) -> i32 {
    match v {
        Some(Json::String(s)) => names
            .iter()
            .position(|n| n == s)
            .and_then(|i| i32::try_from(i).ok())
            .unwrap_or(0),
        Some(n) => n.as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or(0),
        None => 0,
    }
}

/// Decodes hex digits; empty when the text has anything else.
fn bytes(v: &Json, key: &str) -> Vec<u8> {
    let Some(s) = v.get(key).and_then(Json::as_str).filter(|s| s.len() <= 64) else {
        return Vec::new();
    };
    s.as_bytes()
        .chunks(2)
        .map(|c| u8::from_str_radix(std::str::from_utf8(c).ok()?, 16).ok())
        .collect::<Option<Vec<u8>>>()
        .unwrap_or_default()
}
