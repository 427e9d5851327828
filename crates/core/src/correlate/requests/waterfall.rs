//! What a request spent its time on: the spans below its server span, each with its own share.

use kflow_model::{Body, Evidence, Nanos, SpanId, Text, TraceId, span::SpanRecord};

/// A step inside a request, from a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestStep {
    /// Span name: `authorization`, `Create`, `Create etcd3`, `Call validating webhook`.
    pub name: Text,
    /// Service that did it.
    pub service: Text,
    /// Begin, by the clock of the process that measured it.
    pub start: Nanos,
    /// End. Of a filter it is the end of all that it wraps: see `own_ns`.
    pub end: Nanos,
    /// Time that no step inside it accounts for, ns: what the step itself cost.
    pub own_ns: i64,
    /// Depth below the request, from 0.
    pub depth: u16,
    /// Webhook and configuration, key, or address: what it was about.
    pub detail: Text,
    /// It failed.
    pub error: bool,
}

/// Steps below the server span, by start. Each filter's span wraps all that comes after it, so what a step itself cost
/// is its length less that of the steps directly inside it.
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
    // `authentication` ends its own work before the server span begins, yet wraps it: it is shown beside it, not above.
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
        // A child may stick out of its parent: a span's length is by another clock than its begin.
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

/// Length of the union of intervals that come by start, ns.
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
