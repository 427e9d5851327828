//! Requests to the apiserver. Audit records and spans are joined by audit id, so that a request that several sources
//! show is one request.
//!
//! An audit record names its request (`auditID`). The apiserver's server span has the same id in its `audit-id`
//! attribute, and the spans of filters, webhooks, storage and etcd are below it in the same trace. Spans arrive in
//! batches seconds later, children before parents: they wait by trace until their server span is known. A [`Request`]
//! is a function of its sorted evidence, so the order of arrival does not matter.

use std::sync::{Arc, OnceLock};

mod about;
mod target;
mod waterfall;

pub use about::About;
pub use waterfall::RequestStep;

use smallvec::SmallVec;

use super::generations::Generations;
use super::world::insert_once;
use crate::flow::{self, Fact};
use crate::parallel;
use crate::stats::percentile;
use kflow_model::Evidence;
use kflow_model::{
    Body, Nanos, ObjectRef, SpanId, Text, TraceId,
    audit::{AuditRecord, AuditStage},
    span::{SpanKind, SpanRecord},
    units::parse_go_duration,
};

/// Number of requests kept (98,304), at least, and four times the number of traces that wait. The kubelet of a busy
/// node sends some 30 requests a second, so this is 55 minutes of one node, or 20 s of 5,000 a second.
const KEPT: usize = 3 << 15;
/// Number of observations kept of one request: enough for a create with a dozen webhooks, and a bound for a watch
/// that accumulates children. Of more, the shortest children go.
const SPANS: usize = 256;

/// An admission webhook that the apiserver called for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub name: Text,
    /// Name of its webhook configuration, empty when unknown.
    pub configuration: Text,
    /// True for a mutating webhook.
    pub mutating: bool,
    /// True when it changed the object.
    pub mutated: bool,
    /// True when it failed and was ignored (`failurePolicy: Ignore`).
    pub failed_open: bool,
}

/// One request to the apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub audit_id: Text,
    /// When the apiserver received the request, by its own clock. The audit record is the better source: the server
    /// span begins after the filters for panics, timeouts and authentication, usually 0.3 ms later and tens of ms on
    /// a busy machine.
    pub received: Nanos,
    /// Precision of `received`, ns: 1,000 from audit, 1 from a span.
    pub precision: u32,
    /// When the request was answered; `None` while it lasts, and when its end was not observed. From the audit
    /// record, else from the server span, which ends after the record is written.
    pub ended: Option<Nanos>,
    /// `create`, `patch`, `watch`, …
    pub verb: Text,
    /// Resource and subresource (`pods/binding`); the path for a request without a resource.
    pub resource: Text,
    pub object: ObjectRef,
    /// User name, empty without an audit record.
    pub user: Text,
    /// Program of the client's user agent.
    pub agent: Text,
    /// HTTP status, 0 while unknown.
    pub code: u16,
    /// Reason and message of a failure, empty otherwise.
    pub message: Text,
    /// `allow` or `forbid`, empty when unknown.
    pub decision: Text,
    /// Query string, empty when there is none.
    pub query: Text,
    /// Parts of the latency from audit annotations (only present over 500 ms): name and ns.
    pub latency: Vec<(Text, i64)>,
    /// Webhooks in the order of their calls.
    pub webhooks: Vec<Webhook>,
    pub span: Option<(TraceId, SpanId)>,
    /// Audit records of all stages, and spans; sorted.
    pub evidence: Vec<Evidence>,
}

impl Request {
    /// Returns the request's duration, or its age at `now` while it lasts; ns, never negative.
    pub fn duration(&self, now: Nanos) -> i64 {
        self.ended.unwrap_or(now).since(self.received).max(0)
    }
    /// True when the response is an error (4xx, 5xx).
    pub const fn is_error(&self) -> bool {
        self.code >= 400
    }
    /// True for requests that last as long as their client wants: watch, exec, attach, port-forward, proxy and
    /// followed logs.
    pub fn is_long_running(&self) -> bool {
        self.verb == "watch"
            || ["/exec", "/attach", "/portforward", "/proxy"]
                .iter()
                .any(|s| self.resource.ends_with(s))
            || (self.resource == "pods/log" && self.query.contains("follow=true"))
    }
    /// The request's waterfall: steps by start, parents before children. Empty without spans.
    pub fn steps(&self) -> Vec<RequestStep> {
        waterfall::steps(&self.evidence, self.span)
    }
}

/// Statistics of the requests of one client, verb and resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestGroup {
    /// Program of the client's user agent.
    pub agent: Text,
    /// Kubernetes verb: `get`, `list`, `watch`, `create`, …
    pub verb: Text,
    /// Resource (plural) and subresource: `pods/binding`.
    pub resource: Text,
    pub count: u64,
    /// Number of requests that failed.
    pub errors: u64,
    /// Number of requests without a response yet.
    pub open: u64,
    /// Median duration of the answered requests, ns; 0 when there are none.
    pub p50_ns: i64,
    /// 95th percentile of their durations, ns.
    pub p95_ns: i64,
    /// 99th percentile of their durations, ns.
    pub p99_ns: i64,
    /// Longest of their durations, ns.
    pub max_ns: i64,
}

/// The evidence of one request, and the [`Request`] derived from it at the first read after a change. Few requests of
/// a recording are ever read, and each receives a dozen spans.
#[derive(Debug, Default)]
struct Filed {
    /// Sorted, without duplicates.
    evidence: Vec<Evidence>,
    said: OnceLock<Arc<Request>>,
}

impl Clone for Filed {
    /// A copy is made to be changed, so it does not keep the derived request.
    fn clone(&self) -> Self {
        Self {
            evidence: self.evidence.clone(),
            said: OnceLock::new(),
        }
    }
}

impl Filed {
    fn said(&self, id: &Text) -> &Arc<Request> {
        self.said
            .get_or_init(|| Arc::new(derive(id, self.evidence.clone())))
    }
    /// Adds new evidence. Returns the number of observations that found no room.
    fn take(&mut self, evidence: impl IntoIterator<Item = Evidence>) -> u64 {
        let mut without_room = 0;
        for o in evidence {
            if insert_once(&mut self.evidence, &o) {
                without_room += make_room(&mut self.evidence);
                self.said.take();
            }
        }
        without_room
    }
}

/// Drops the least important observation of a request that has too many. Which ones stay does not depend on the order
/// of arrival. Returns the number of dropped ones.
fn make_room(evidence: &mut Vec<Evidence>) -> u64 {
    if evidence.len() <= SPANS {
        return 0;
    }
    // Audit records and server spans say what the request was; of the rest, the longest spans say most.
    let rank = |o: &Evidence| match &o.body {
        Body::Span(s) if served(s).is_none() => (false, s.end.since(o.stamp.at)),
        _ => (true, 0),
    };
    let ranks = evidence.iter().enumerate().map(|(i, o)| (rank(o), o, i));
    if let Some((_, _, least)) = ranks.min() {
        evidence.remove(least);
    }
    1
}

/// All requests that are kept. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RequestLog {
    requests: Generations<Text, Arc<Filed>>,
    /// The audit ids of the requests of a trace; a trusted client can have several in one trace.
    by_trace: Generations<TraceId, SmallVec<[Text; 1]>>,
    /// Spans of traces without a known request.
    waiting: Generations<TraceId, Arc<Vec<Evidence>>>,
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
    /// Files an audit record or a span; ignores all else.
    pub fn observe(&mut self, o: &Evidence) {
        match &o.body {
            Body::Audit(a) if !a.audit_id.is_empty() => self.file(&a.audit_id, [Arc::clone(o)]),
            Body::Span(s)
                if matches!(s.service.as_str(), "apiserver" | "kube-apiserver" | "etcd") =>
            {
                match served(s) {
                    Some(id) => self.served(id, s.trace, o),
                    None => self.within(s.trace, o),
                }
            }
            _ => {}
        }
    }

    /// Files the server span of a request, with the spans of its trace that arrived before it.
    fn served(&mut self, id: &Text, trace: TraceId, o: &Evidence) {
        self.file(id, [Arc::clone(o)]);
        let siblings = match self.by_trace.get(&trace) {
            Some(ids) if ids.contains(id) => return,
            Some(ids) => ids.clone(),
            None => SmallVec::new(),
        };
        for sibling in &siblings {
            let of_trace = |e: &&Evidence| matches!(&e.body, Body::Span(s) if s.trace == trace && served(s).is_none());
            let told: Vec<Evidence> = (self.requests.get(sibling).into_iter())
                .flat_map(|r| r.evidence.iter().filter(of_trace).cloned())
                .collect();
            self.file(id, told);
        }
        if let Some(early) = self.waiting.remove(&trace) {
            self.file(id, early.iter().cloned());
        }
        match self.by_trace.get_mut(&trace) {
            Some(ids) => ids.push(id.clone()),
            None => {
                self.by_trace.insert(trace, [id.clone()].into());
            }
        }
    }

    /// Files a span below a server span. Every request of the trace keeps the span, and shows it if it
    /// is below its own.
    fn within(&mut self, trace: TraceId, o: &Evidence) {
        if let Some(ids) = self.by_trace.get(&trace).cloned() {
            for id in &ids {
                self.file(id, [Arc::clone(o)]);
            }
            return;
        }
        match self.waiting.get_mut(&trace) {
            Some(w) => {
                let w = Arc::make_mut(w);
                w.push(Arc::clone(o));
                self.orphans += make_room(w);
            }
            None => {
                if let Some(gone) = self.waiting.insert(trace, Arc::new(vec![Arc::clone(o)])) {
                    let spans = gone.iter().map(|(_, w)| w.len() as u64);
                    self.orphans += spans.sum::<u64>();
                }
            }
        }
    }

    fn file(&mut self, id: &Text, evidence: impl IntoIterator<Item = Evidence>) {
        if let Some(r) = self.requests.get_mut(id) {
            self.orphans += Arc::make_mut(r).take(evidence);
            return;
        }
        let mut r = Filed::default();
        self.orphans += r.take(evidence);
        if !r.evidence.is_empty()
            && let Some(gone) = self.requests.insert(id.clone(), Arc::new(r))
        {
            self.forgotten += gone.len() as u64;
        }
    }

    pub fn len(&self) -> usize {
        self.requests.values().count()
    }
    pub fn is_empty(&self) -> bool {
        self.requests.values().next().is_none()
    }
    /// Number of requests that were dropped for newer ones, and of observations that found no room or no request.
    pub const fn forgotten(&self) -> (u64, u64) {
        (self.forgotten, self.orphans)
    }
    pub fn get(&self, audit_id: &str) -> Option<&Arc<Request>> {
        let id = Text::from(audit_id);
        Some(self.requests.get(&id)?.said(&id))
    }
    /// All requests, derived.
    fn all(&self) -> Vec<&Arc<Request>> {
        let filed: Vec<(&Text, &Arc<Filed>)> = self.requests.iter().collect();
        parallel::map(&filed, |(id, r)| r.said(id))
    }
    /// All requests, oldest first.
    pub fn list(&self) -> Vec<&Arc<Request>> {
        let mut all = self.all();
        all.sort_unstable_by(|a, b| (a.received, &a.audit_id).cmp(&(b.received, &b.audit_id)));
        all
    }
    /// Statistics by client, verb and resource; groups with the most requests first.
    pub fn groups(&self) -> Vec<RequestGroup> {
        self.groups_of(|_| true)
    }
    /// Like [`groups`](Self::groups), restricted to the requests for which `keep` is true.
    pub fn groups_of(&self, keep: impl Fn(&Request) -> bool) -> Vec<RequestGroup> {
        let mut by: std::collections::BTreeMap<(&str, &str, &str), Vec<&Arc<Request>>> =
            std::collections::BTreeMap::new();
        for r in self.all().into_iter().filter(|r| keep(r)) {
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
                let at = |permille: usize| percentile(&took, permille);
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
        groups.sort_by_key(|g| std::cmp::Reverse(g.count));
        groups
    }
}

/// The audit id in the apiserver's server span of a request; `None` for any other span.
fn served(s: &SpanRecord) -> Option<&Text> {
    let is_server = s.kind == SpanKind::Server && s.service != "etcd";
    let id = is_server.then(|| s.attributes.text("audit-id")).flatten();
    id.filter(|id| !id.is_empty())
}

/// Derives a request from its sorted evidence.
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
        evidence: Vec::new(),
    };
    let mut server = None;
    for e in &evidence {
        match &e.body {
            Body::Audit(a) => from_audit(&mut r, a, e),
            Body::Span(s) if s.kind == SpanKind::Server && s.attribute("audit-id") == Some(id) => {
                from_server_span(&mut r, s);
                server = Some((e.stamp.at, s.end));
            }
            _ => {}
        }
    }
    if let Some((start, end)) = server {
        if r.received.0 == i64::MAX {
            r.received = start;
        }
        r.ended = r.ended.or(Some(end));
    }
    // Fields that no audit record filled come from the handler's spans.
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
    if a.received < r.received {
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

fn from_server_span(r: &mut Request, s: &SpanRecord) {
    r.span = Some((s.trace, s.span));
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
    if r.verb.is_empty() {
        // The span name has both too, as method and route.
        let (method, route) = s.name.split_once(' ').unwrap_or_default();
        let told = |keys: &[&str]| keys.iter().find_map(|k| s.attribute(k));
        let t = target::read(
            told(&["http.request.method"]).unwrap_or(method),
            told(&["http.target", "url.path"]).unwrap_or(route),
        );
        r.verb = t.verb.into();
        r.resource = t.resource;
        r.query = t.query;
        fill(&mut r.object.namespace, &t.namespace);
        fill(&mut r.object.name, &t.name);
    }
}

fn from_handler_span(r: &mut Request, s: &SpanRecord) {
    let said = flow::span(s);
    match s.name.as_str() {
        "Create" | "Update" | "Patch" | "Delete" | "Get" | "List" | "WatchList" => {
            for (to, key) in [
                (&mut r.object.namespace, "namespace"),
                (&mut r.object.name, "name"),
            ] {
                if let Some(v) = s.attribute(key) {
                    fill(to, &v.into());
                }
            }
        }
        // Of a `generateName` create at audit level Metadata, only the etcd key contains the generated name.
        _ if said == Some(Fact::ObjectStored) => {
            if let Some((place, name)) = s.attribute("key").and_then(|k| k.rsplit_once('/'))
                && (r.object.namespace.is_empty() || place.ends_with(r.object.namespace.as_str()))
            {
                fill(&mut r.object.name, &name.into());
            }
        }
        _ => {
            let mutating = said == Some(Fact::MutatingWebhookCalled);
            if (mutating || said == Some(Fact::ValidatingWebhookCalled))
                && let Some(name) = s.attribute("webhook")
            {
                let hook = webhook(&mut r.webhooks, name, mutating);
                if let Some(c) = s.attribute("configuration") {
                    fill(&mut hook.configuration, &c.into());
                }
            }
        }
    }
}

fn fill(to: &mut Text, from: &Text) {
    if to.is_empty() && !from.is_empty() {
        to.clone_from(from);
    }
}

#[cfg(test)]
mod tests;
