//! What a request spent its time on: the spans below its server span, each with its own share.

use kflow_model::{Body, Evidence, Nanos, SpanId, Text, TraceId, span::SpanRecord};

/// A step of a request, from a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestStep {
    /// Span name: `authorization`, `Create`, `Create etcd3`, `Call validating webhook`.
    pub name: Text,
    /// Service that the span is from.
    pub service: Text,
    /// Begin, by the clock of the process that recorded the span.
    pub start: Nanos,
    /// End. A filter's span ends after everything that the filter wraps: see `own_ns`.
    pub end: Nanos,
    /// Time of the step that none of its children covers, ns.
    pub own_ns: i64,
    /// Depth below the server span, which has 0.
    pub depth: u16,
    /// Webhook and configuration, etcd key, URL, address or method.
    pub detail: Text,
    pub error: bool,
}

/// Steps from the server span downwards, parents before children, siblings by start. Each filter's span wraps
/// everything after it, so a step's own time is its duration without that of its direct children.
pub(super) fn steps(evidence: &[Evidence], root: Option<(TraceId, SpanId)>) -> Vec<RequestStep> {
    let Some((trace, server)) = root else {
        return Vec::new();
    };
    let spans: Vec<(&SpanRecord, Nanos)> = evidence
        .iter()
        .filter_map(|e| match &e.body {
            Body::Span(s) if s.trace == trace => Some((&**s, e.stamp.at)),
            _ => None,
        })
        .collect();
    let mut steps = Vec::with_capacity(spans.len());
    // The span of `authentication` ends its own work before the server span begins, yet wraps it: it is not shown
    // above it.
    let mut open = vec![(server, 0_u16)];
    let mut met = Vec::new();
    while let Some((id, depth)) = open.pop() {
        if met.contains(&id) {
            continue;
        }
        met.push(id);
        let Some((s, start)) = spans.iter().find(|(s, _)| s.span == id) else {
            continue;
        };
        let mut children: Vec<_> = spans.iter().filter(|(c, _)| c.parent == Some(id)).collect();
        children.sort_by_key(|(c, at)| (*at, c.span));
        // A child may extend beyond its parent: a span's duration is from another clock than its start.
        let inside: i64 = union(
            children
                .iter()
                .map(|(c, at)| ((*at).max(*start), c.end.min(s.end))),
        );
        steps.push(RequestStep {
            name: s.name.clone(),
            service: s.service.clone(),
            start: *start,
            end: s.end,
            own_ns: (s.end.since(*start) - inside).max(0),
            depth,
            detail: detail(s),
            error: s.error,
        });
        open.extend(
            children
                .iter()
                .rev()
                .map(|(c, _)| (c.span, depth.saturating_add(1))),
        );
    }
    steps
}

/// Length of the union of intervals that are sorted by start, ns.
fn union(intervals: impl Iterator<Item = (Nanos, Nanos)>) -> i64 {
    let mut total = 0;
    let mut until = Nanos(i64::MIN);
    for (start, end) in intervals {
        let from = start.max(until);
        if end > from {
            total += end.since(from);
            until = end;
        }
    }
    total
}

fn detail(s: &SpanRecord) -> Text {
    if let Some(hook) = s.attribute("webhook") {
        return match s.attribute("configuration") {
            Some(c) => format!("{hook} ({c})").into(),
            None => hook.into(),
        };
    }
    ["key", "url", "server.address", "rpc.method"]
        .iter()
        .find_map(|k| s.attribute(k))
        .map_or_else(Text::default, Into::into)
}
