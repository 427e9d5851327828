//! Requests to the apiserver, joined from audit records and spans by audit id, so that a request that several sources
//! tell of is one request.
//!
//! An audit record names its request (`auditID`); the apiserver's server span bears the same id as its `audit-id`
//! attribute, and the spans of filters, webhooks, storage and etcd hang below it in the same trace. Spans come in
//! batches seconds later, children before parents: they wait by trace until their server span is known. What a
//! [`Request`] says is a function of its sorted evidence, so the order of arrival does not matter.

use std::sync::Arc;

use super::store::Generations;
use crate::model::{
    Body, Nanos, ObjectRef, SpanId, Text, TraceId,
    audit::{AuditRecord, AuditStage},
    span::{SpanKind, SpanRecord},
    stamp::parse_go_duration,
};
use crate::timeline::Evidence;

/// How many requests, and how many waiting traces, are kept in each of two generations. A kubelet of a busy node makes
/// some 30 requests a second, so this is at least half an hour of one node, or half a minute of 5,000 a second.
const KEPT: usize = 1 << 16;
/// Spans kept of one request: enough for a create with a dozen webhooks, and a bound for a watch that hoards children.
const SPANS: usize = 256;

/// An admission webhook that a request went through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Name of the webhook.
    pub name: Text,
    /// Name of its configuration, empty when not told.
    pub configuration: Text,
    /// True for a mutating one.
    pub mutating: bool,
    /// It changed the object.
    pub mutated: bool,
    /// It failed and was ignored (`failurePolicy: Ignore`).
    pub failed_open: bool,
}

/// A step inside a request, from a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestStep {
    /// Span name: `authorization`, `Create`, `Create etcd3`, `Call validating webhook`.
    pub name: Text,
    /// Service that did it.
    pub service: Text,
    /// Start.
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

/// One request to the apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Audit id.
    pub audit_id: Text,
    /// When it was received, by the apiserver's clock.
    pub received: Nanos,
    /// Width of that, ns: 1,000 from audit, 1 from a span.
    pub precision: u32,
    /// When it was answered; `None` while it goes on (or while nobody told).
    pub ended: Option<Nanos>,
    /// `create`, `patch`, `watch`, …
    pub verb: Text,
    /// Resource and subresource (`pods/binding`), or the path.
    pub resource: Text,
    /// The object.
    pub object: ObjectRef,
    /// User name, empty without audit.
    pub user: Text,
    /// Client: the user agent's program.
    pub agent: Text,
    /// HTTP status, 0 while unknown.
    pub code: u16,
    /// Reason and message of a failure.
    pub message: Text,
    /// `allow` or `forbid`, empty when not told.
    pub decision: Text,
    /// Query, empty when none.
    pub query: Text,
    /// Latency parts from audit annotations (only present over 500 ms): part and ns.
    pub latency: Vec<(Text, i64)>,
    /// Webhooks in the order they were called.
    pub webhooks: Vec<Webhook>,
    /// The server span.
    pub span: Option<(TraceId, SpanId)>,
    /// The client's span, by parent or link.
    pub client_span: Option<(TraceId, SpanId)>,
    /// Audit stages and spans, sorted.
    pub evidence: Vec<Evidence>,
}

impl Request {
    /// Length, or age at `now`; ns.
    pub fn duration(&self, now: Nanos) -> i64 {
        self.ended.unwrap_or(now).since(self.received).max(0)
    }
    /// True when the answer is an error (4xx, 5xx).
    pub const fn is_error(&self) -> bool {
        self.code >= 400
    }
    /// Watches, exec, attach, port-forward and followed logs last as long as their client wants.
    pub fn is_long_running(&self) -> bool {
        self.verb == "watch"
            || ["/exec", "/attach", "/portforward", "/proxy"]
                .iter()
                .any(|s| self.resource.ends_with(s))
            || (self.resource == "pods/log" && self.query.contains("follow=true"))
    }
    /// The request's waterfall: steps in order of start, parents before children. Empty without spans.
    pub fn steps(&self) -> Vec<RequestStep> {
        waterfall(&self.evidence, self.span)
    }
}

/// Requests of one client, verb and resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestGroup {
    /// Client.
    pub agent: Text,
    /// Verb.
    pub verb: Text,
    /// Resource.
    pub resource: Text,
    /// How many.
    pub count: u64,
    /// How many failed.
    pub errors: u64,
    /// How many have no answer yet.
    pub open: u64,
    /// Median of the answered ones, ns; 0 when there are none.
    pub p50_ns: i64,
    /// 95th percentile, ns.
    pub p95_ns: i64,
    /// 99th percentile, ns.
    pub p99_ns: i64,
    /// Slowest, ns.
    pub max_ns: i64,
}

/// All requests that are kept. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RequestLog {
    requests: Generations<Text, Arc<Request>>,
    by_trace: Generations<TraceId, Vec<Text>>,
    waiting: Generations<TraceId, Vec<Evidence>>,
    forgotten: u64,
    orphans: u64,
}

impl Default for RequestLog {
    fn default() -> Self {
        Self {
            requests: Generations::new(KEPT),
            by_trace: Generations::new(KEPT),
            waiting: Generations::new(KEPT / 4),
            forgotten: 0,
            orphans: 0,
        }
    }
}

impl RequestLog {
    /// Files an audit record or a span; everything else is none of its business.
    pub fn observe(&mut self, o: &Evidence) {
        match &o.body {
            Body::Audit(a) if !a.audit_id.is_empty() => self.file(&a.audit_id, o),
            Body::Span(s)
                if matches!(s.service.as_str(), "apiserver" | "kube-apiserver" | "etcd") =>
            {
                self.span(s, o);
            }
            _ => {}
        }
    }

    fn span(&mut self, s: &SpanRecord, o: &Evidence) {
        if s.kind == SpanKind::Server
            && s.service != "etcd"
            && let Some(id) = s.attribute("audit-id").filter(|id| !id.is_empty())
        {
            let id = Text::from(id);
            self.file(&id, o);
            match self.by_trace.get_mut(&s.trace) {
                Some(ids) if !ids.contains(&id) => ids.push(id.clone()),
                Some(_) => {}
                None => {
                    self.by_trace.insert(s.trace, vec![id.clone()]);
                }
            }
            for early in self.waiting.get(&s.trace).cloned().unwrap_or_default() {
                self.file(&id, &early);
            }
            return;
        }
        // A trace of a trusted client can hold several requests: each keeps the spans of the trace and shows only those
        // below its own server span.
        if let Some(ids) = self.by_trace.get(&s.trace).cloned() {
            for id in ids {
                self.file(&id, o);
            }
        }
        match self.waiting.get_mut(&s.trace) {
            Some(w) if w.len() < SPANS => w.push(o.clone()),
            Some(_) => self.orphans += 1,
            None => {
                if let Some(gone) = self.waiting.insert(s.trace, vec![o.clone()]) {
                    self.orphans += gone.len() as u64;
                }
            }
        }
    }

    fn file(&mut self, id: &Text, o: &Evidence) {
        if let Some(r) = self.requests.get_mut(id) {
            let Err(at) = r.evidence.binary_search(o) else {
                return;
            };
            if r.evidence.len() >= SPANS {
                self.orphans += 1;
                return;
            }
            let r = Arc::make_mut(r);
            r.evidence.insert(at, o.clone());
            let evidence = std::mem::take(&mut r.evidence);
            *r = derive(id, evidence);
        } else if let Some(gone) = self
            .requests
            .insert(id.clone(), Arc::new(derive(id, vec![o.clone()])))
        {
            self.forgotten += gone.len() as u64;
        }
    }

    /// Number of requests kept.
    pub fn len(&self) -> usize {
        self.requests.values().count()
    }
    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.requests.values().next().is_none()
    }
    /// Requests forgotten because newer ones came, and spans that were left out of full requests or never found one.
    pub const fn forgotten(&self) -> (u64, u64) {
        (self.forgotten, self.orphans)
    }
    /// A request by its audit id.
    pub fn get(&self, audit_id: &str) -> Option<&Arc<Request>> {
        self.requests.get(&Text::from(audit_id))
    }
    /// All requests, oldest first.
    pub fn list(&self) -> Vec<&Arc<Request>> {
        let mut all: Vec<_> = self.requests.values().collect();
        all.sort_unstable_by(|a, b| (a.received, &a.audit_id).cmp(&(b.received, &b.audit_id)));
        all
    }
    /// Requests grouped by client, verb and resource, the most frequent first.
    pub fn groups(&self) -> Vec<RequestGroup> {
        let mut by: std::collections::BTreeMap<(&str, &str, &str), Vec<&Arc<Request>>> =
            std::collections::BTreeMap::new();
        for r in self.requests.values() {
            by.entry((r.agent.as_str(), r.verb.as_str(), r.resource.as_str()))
                .or_default()
                .push(r);
        }
        let mut groups: Vec<_> = by
            .into_iter()
            .map(|((agent, verb, resource), all)| {
                let mut took: Vec<i64> = all
                    .iter()
                    .filter_map(|r| Some(r.ended?.since(r.received).max(0)))
                    .collect();
                took.sort_unstable();
                let at = |permille: usize| {
                    let n = (took.len().saturating_sub(1) * permille).div_ceil(1000);
                    took.get(n).copied().unwrap_or_default()
                };
                RequestGroup {
                    agent: agent.into(),
                    verb: verb.into(),
                    resource: resource.into(),
                    count: all.len() as u64,
                    errors: all.iter().filter(|r| r.is_error()).count() as u64,
                    open: all.iter().filter(|r| r.ended.is_none()).count() as u64,
                    p50_ns: at(500),
                    p95_ns: at(950),
                    p99_ns: at(990),
                    max_ns: at(1000),
                }
            })
            .collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count));
        groups
    }
}

/// What a request's sorted evidence says.
fn derive(id: &Text, evidence: Vec<Evidence>) -> Request {
    let mut r = Request {
        audit_id: id.clone(),
        received: Nanos(i64::MAX),
        precision: 1,
        ended: None,
        verb: Text::default(),
        resource: Text::default(),
        object: ObjectRef::default(),
        user: Text::default(),
        agent: Text::default(),
        code: 0,
        message: Text::default(),
        decision: Text::default(),
        query: Text::default(),
        latency: Vec::new(),
        webhooks: Vec::new(),
        span: None,
        client_span: None,
        evidence: Vec::new(),
    };
    for e in &evidence {
        match &e.body {
            Body::Audit(a) => from_audit(&mut r, a, e),
            Body::Span(s) if s.kind == SpanKind::Server && s.attribute("audit-id") == Some(id) => {
                from_server_span(&mut r, s, e);
            }
            _ => {}
        }
    }
    // What audit did not tell, the handler's span does.
    if let Some((trace, server)) = r.span {
        for e in &evidence {
            let Body::Span(s) = &e.body else { continue };
            if s.trace == trace && s.span != server {
                from_handler_span(&mut r, s);
            }
        }
    }
    if r.received.0 == i64::MAX {
        r.received = evidence.first().map_or(Nanos::default(), |e| e.stamp.at);
    }
    r.evidence = evidence;
    r
}

fn from_audit(r: &mut Request, a: &AuditRecord, e: &Evidence) {
    // Audit rounds the same clock reading down to µs that the span's start has in ns.
    if r.span.is_none() && a.received < r.received {
        r.received = a.received;
        r.precision = 1000;
    }
    r.verb.clone_from(&a.verb);
    r.resource.clone_from(&a.resource);
    fill(&mut r.object.kind, &a.object.kind);
    fill(&mut r.object.namespace, &a.object.namespace);
    fill(&mut r.object.name, &a.object.name);
    fill(&mut r.object.uid, &a.object.uid);
    r.user.clone_from(&a.user);
    r.agent.clone_from(&a.agent);
    r.query.clone_from(&a.query);
    if a.code != 0 {
        r.code = a.code;
    }
    if !a.message.is_empty() {
        r.message.clone_from(&a.message);
    }
    if matches!(a.stage, AuditStage::ResponseComplete | AuditStage::Panic) {
        r.ended = Some(r.ended.map_or(e.stamp.at, |end| end.max(e.stamp.at)));
    }
    for (key, value) in &a.annotations {
        if key == "authorization.k8s.io/decision" {
            r.decision.clone_from(value);
        } else if let Some(part) = key.strip_prefix("apiserver.latency.k8s.io/") {
            if let Some(ns) = parse_go_duration(value)
                && !r.latency.iter().any(|(p, _)| p == part)
            {
                r.latency.push((part.into(), ns));
            }
        } else {
            webhook_annotation(&mut r.webhooks, key, value);
        }
    }
}

fn webhook_annotation(webhooks: &mut Vec<Webhook>, key: &str, value: &str) {
    if key.starts_with("mutation.webhook.admission.k8s.io/") {
        #[derive(serde::Deserialize)]
        struct Mutation {
            #[serde(default)]
            configuration: Text,
            webhook: Text,
            #[serde(default)]
            mutated: bool,
        }
        if let Ok(m) = serde_json::from_str::<Mutation>(value) {
            let hook = webhook(webhooks, &m.webhook, true);
            hook.configuration = m.configuration;
            hook.mutated |= m.mutated;
        }
    } else if key.starts_with("failed-open.mutation.webhook.admission.k8s.io/") {
        webhook(webhooks, value, true).failed_open = true;
    } else if key.starts_with("failed-open.validating.webhook.admission.k8s.io/") {
        webhook(webhooks, value, false).failed_open = true;
    }
}

fn webhook<'a>(webhooks: &'a mut Vec<Webhook>, name: &str, mutating: bool) -> &'a mut Webhook {
    let at = webhooks
        .iter()
        .position(|w| w.name == name)
        .unwrap_or_else(|| {
            webhooks.push(Webhook {
                name: name.into(),
                configuration: Text::default(),
                mutating,
                mutated: false,
                failed_open: false,
            });
            webhooks.len() - 1
        });
    #[expect(clippy::indexing_slicing, reason = "found, or pushed, just above")]
    &mut webhooks[at]
}

fn from_server_span(r: &mut Request, s: &SpanRecord, e: &Evidence) {
    r.span = Some((s.trace, s.span));
    r.received = e.stamp.at;
    r.precision = 1;
    // Both tell the end; the audit stage is written before the last byte is sent.
    r.ended = Some(r.ended.map_or(s.end, |end| end.max(s.end)));
    r.client_span = match s.parent {
        Some(p) => Some((s.trace, p)),
        None => s.links.first().copied(),
    };
    if r.code == 0 {
        r.code = s
            .attribute("http.response.status_code")
            .or_else(|| s.attribute("http.status_code"))
            .and_then(|c| c.parse().ok())
            .unwrap_or(0);
    }
    if r.agent.is_empty()
        && let Some(ua) = s.attribute("user_agent.original")
    {
        r.agent = ua.split(' ').next().unwrap_or(ua).into();
    }
    if r.verb.is_empty()
        && let Some(method) = s.attribute("http.request.method")
    {
        r.verb = method.to_ascii_lowercase().into();
    }
    if r.resource.is_empty() {
        r.resource = s
            .name
            .split_once(' ')
            .map_or(s.name.as_str(), |(_, path)| path)
            .into();
    }
}

fn from_handler_span(r: &mut Request, s: &SpanRecord) {
    match s.name.as_str() {
        "Create" | "Update" | "Patch" | "Delete" | "Get" | "List" | "WatchList" => {
            for (to, key) in [
                (&mut r.object.namespace, "namespace"),
                (&mut r.object.name, "name"),
                (&mut r.object.kind, "resource"),
            ] {
                if let Some(v) = s.attribute(key) {
                    fill(to, &v.into());
                }
            }
            if r.user.is_empty()
                && let Some(resource) = s.attribute("resource").filter(|v| !v.is_empty())
            {
                r.resource = match s.attribute("subresource").filter(|v| !v.is_empty()) {
                    Some(sub) => format!("{resource}/{sub}").into(),
                    None => resource.into(),
                };
                if let Some(verb) = s.attribute("verb") {
                    r.verb = verb.to_ascii_lowercase().into();
                }
            }
        }
        "Call mutating webhook" | "Call validating webhook" => {
            if let Some(name) = s.attribute("webhook") {
                let hook = webhook(&mut r.webhooks, name, s.name == "Call mutating webhook");
                if let Some(c) = s.attribute("configuration") {
                    fill(&mut hook.configuration, &c.into());
                }
            }
        }
        _ => {}
    }
}

fn fill(to: &mut Text, from: &Text) {
    if to.is_empty() && !from.is_empty() {
        to.clone_from(from);
    }
}

/// Steps below the server span, by start. Each filter's span wraps all that comes after it, so what a step itself cost
/// is its length less that of the steps directly inside it.
fn waterfall(evidence: &[Evidence], root: Option<(TraceId, SpanId)>) -> Vec<RequestStep> {
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
        let inside: i64 = union(children.iter().map(|(c, at)| (*at, c.end)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Observation, Source, Stamp, audit};

    fn at(us: i64) -> Nanos {
        Nanos(1_795_220_667_504_984_993 + us * 1000)
    }

    fn audit(id: &str, stage: AuditStage, us: i64) -> Evidence {
        Arc::new(Observation {
            stamp: Stamp::new(at(us), 1000, at(us)),
            source: Source::Audit,
            body: Body::Audit(Box::new(audit::AuditRecord {
                audit_id: id.into(),
                stage,
                verb: "create".into(),
                resource: "pods".into(),
                object: ObjectRef {
                    namespace: "s01".into(),
                    name: "healthy".into(),
                    ..ObjectRef::default()
                },
                user: "kubernetes-admin".into(),
                agent: "kubectl/v1.36.4".into(),
                received: at(0),
                code: if stage == AuditStage::ResponseComplete {
                    201
                } else {
                    0
                },
                message: Text::default(),
                query: Text::default(),
                annotations: vec![
                    (
                        "apiserver.latency.k8s.io/validating-webhook".into(),
                        "4.001s".into(),
                    ),
                    (
                        "failed-open.validating.webhook.admission.k8s.io/round_0_index_1".into(),
                        "nobody.lab".into(),
                    ),
                ],
                facts: Vec::new(),
            })),
        })
    }

    fn span(name: &str, id: u64, parent: Option<u64>, from_us: i64, to_us: i64) -> Evidence {
        let server = name.starts_with("POST");
        Arc::new(Observation {
            stamp: Stamp::new(at(from_us), 1, at(5_000_000)),
            source: Source::Otlp,
            body: Body::Span(Box::new(SpanRecord {
                service: "apiserver".into(),
                name: name.into(),
                kind: if server {
                    SpanKind::Server
                } else {
                    SpanKind::Internal
                },
                trace: TraceId(7),
                span: SpanId(id),
                parent: parent.map(SpanId),
                end: at(to_us),
                attributes: if server {
                    vec![("audit-id".into(), "cc27".into())]
                } else {
                    Vec::new()
                },
                ..SpanRecord::default()
            })),
        })
    }

    fn all() -> Vec<Evidence> {
        vec![
            audit("cc27", AuditStage::RequestReceived, 6),
            audit("cc27", AuditStage::ResponseComplete, 7600),
            span(
                "POST /api/v1/namespaces/{:namespace}/pods",
                1,
                Some(99),
                0,
                7685,
            ),
            span("audit", 2, Some(1), 6, 7676),
            span("authorization", 3, Some(2), 98, 7495),
            span("Create", 4, Some(3), 189, 6529),
            span("Create etcd3", 5, Some(4), 5146, 6238),
        ]
    }

    #[test]
    fn audit_and_spans_of_one_request_are_one_request_in_any_order() {
        let mut forward = RequestLog::default();
        let mut backward = RequestLog::default();
        all().iter().for_each(|o| forward.observe(o));
        all().iter().rev().for_each(|o| backward.observe(o));
        all().iter().for_each(|o| backward.observe(o));
        assert_eq!((forward.len(), backward.len()), (1, 1));
        assert_eq!(forward.get("cc27"), backward.get("cc27"));
        let r = forward.get("cc27").unwrap();
        assert_eq!((r.code, r.received, r.ended), (201, at(0), Some(at(7685))));
        assert_eq!(r.client_span, Some((TraceId(7), SpanId(99))));
        assert_eq!(r.latency, [("validating-webhook".into(), 4_001_000_000)]);
        assert!(
            r.webhooks
                .iter()
                .any(|w| w.name == "nobody.lab" && w.failed_open && !w.mutating)
        );
    }

    #[test]
    fn a_filters_own_time_leaves_out_what_it_wraps() {
        let mut log = RequestLog::default();
        all().iter().for_each(|o| log.observe(o));
        let steps = log.get("cc27").unwrap().steps();
        let own = |name: &str| {
            steps
                .iter()
                .find(|s| s.name == name)
                .map(|s| s.own_ns / 1000)
        };
        assert_eq!(
            steps.iter().map(|s| s.depth).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4]
        );
        assert_eq!(own("authorization"), Some(7397 - 6340));
        assert_eq!(own("Create"), Some(6340 - 1092));
        assert_eq!(own("Create etcd3"), Some(1092));
        assert_eq!(steps.iter().map(|s| s.own_ns).sum::<i64>(), 7_685_000);
    }

    #[test]
    fn spans_whose_parent_never_comes_are_no_request() {
        let mut log = RequestLog::default();
        log.observe(&span("authorization", 3, Some(2), 98, 7495));
        assert!(log.is_empty());
    }

    #[test]
    fn a_span_that_is_its_own_ancestor_ends() {
        let mut log = RequestLog::default();
        log.observe(&span("POST x", 1, Some(2), 0, 10));
        log.observe(&span("audit", 2, Some(1), 0, 10));
        assert_eq!(log.get("cc27").unwrap().steps().len(), 2);
    }

    #[test]
    fn groups_count_and_rank() {
        let mut log = RequestLog::default();
        for n in 0..100 {
            let id = format!("id{n}");
            log.observe(&audit(&id, AuditStage::RequestReceived, 0));
            if n > 0 {
                log.observe(&audit(&id, AuditStage::ResponseComplete, n * 1000));
            }
        }
        let g = log.groups();
        assert_eq!(g.len(), 1);
        assert_eq!((g[0].count, g[0].open, g[0].errors), (100, 1, 0));
        assert_eq!((g[0].p50_ns, g[0].max_ns), (50_000_000, 99_000_000));
    }
}
