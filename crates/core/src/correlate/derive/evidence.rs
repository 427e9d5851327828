//! A pod's evidence by kind.

mod logged;

pub(crate) use logged::Logged;

use std::sync::Arc;

use crate::flow::{self, Fact, Line};
use crate::timeline::{Certainty, Edge, Outcome};
use kflow_model::Evidence;
use kflow_model::{
    Body, Nanos, PodUid, SpanId, Text, TraceId,
    audit::{AuditRecord, AuditStage},
    cri::{
        CallEnd, CallKey, CallOutcome, CallStart, ContainerEvent, InventoryItem, RuntimeState,
        code_name, method,
    },
    event::EventSeen,
    fs::{FsAction, FsObject},
    log::{Component, LogLine},
    pod::PodSeen,
    runtime::RuntimeEvent,
    span::{SpanKind, SpanRecord},
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::span::{edge, event_edge};

/// A CRI call: its start, and its end where that was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallEvidence<'a> {
    pub(crate) o: &'a Evidence,
    pub(crate) c: &'a CallStart,
    pub(crate) end: Option<(&'a Evidence, &'a CallEnd)>,
    /// The kubelet's client span of the call.
    pub(crate) span: Option<&'a Evidence>,
}

impl CallEvidence<'_> {
    /// Container id in the request or the response.
    pub(crate) fn container_id(&self) -> &str {
        let id = self.c.subject.container_id.as_str();
        if id.is_empty() {
            self.end
                .map_or("", |(_, e)| e.subject.container_id.as_str())
        } else {
            id
        }
    }
    /// The edge of the end; not before the start, also when the clock was set back between the two.
    pub(crate) fn ended(&self) -> Option<Edge> {
        self.end.map(|(o, _)| edge(o).max(edge(self.o)))
    }
    /// Returns outcome, status name, message and certainty.
    pub(crate) fn result(&self) -> (Outcome, Text, Text, Certainty) {
        let Some((o, e)) = self.end else {
            return (
                Outcome::InFlight,
                Text::default(),
                Text::default(),
                Certainty::Measured,
            );
        };
        let ran = o.stamp.at.since(self.o.stamp.at);
        let (outcome, code) = match (e.outcome, e.code) {
            (CallOutcome::Status, Some(0)) => (Outcome::Ok, ""),
            (CallOutcome::Status, Some(code @ (1 | 4))) => (Outcome::Cancelled, code_name(code)),
            (CallOutcome::Status, Some(code)) => (Outcome::Error, code_name(code)),
            (CallOutcome::Status, None) if e.message.is_empty() => {
                return (
                    Outcome::Cancelled,
                    method::UNKNOWN.into(),
                    "its status is not known: the tap joined the connection in the middle".into(),
                    Certainty::Bounded,
                );
            }
            (CallOutcome::Status, None) => (Outcome::Error, method::UNKNOWN),
            // The kubelet resets the stream at its deadline, a few ms early or late.
            (CallOutcome::ClientReset, _)
                if self
                    .c
                    .timeout_ns
                    .is_some_and(|d| ran.saturating_add(d / 50) >= d) =>
            {
                (Outcome::Cancelled, "DeadlineExceeded")
            }
            (CallOutcome::ClientReset, _) => (Outcome::Cancelled, "Canceled"),
            (CallOutcome::ServerReset, _) => (Outcome::Error, "Internal"),
            (CallOutcome::ConnectionClosed, _) => (Outcome::Error, "Unavailable"),
            (CallOutcome::Lost, _) => {
                return (
                    Outcome::Cancelled,
                    "Lost".into(),
                    "the tap lost sight of this call".into(),
                    Certainty::Bounded,
                );
            }
        };
        let certainty = if e.inferred {
            Certainty::Inferred
        } else {
            Certainty::Measured
        };
        (outcome, code.into(), e.message.clone(), certainty)
    }
}

/// An API request about the pod, from its audit records.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) a: &'a AuditRecord,
    pub(crate) received: Edge,
    pub(crate) complete: Option<Edge>,
    pub(crate) evidence: Vec<Evidence>,
}

impl Request<'_> {
    /// True for a deletion that found no pod because the pod was already gone.
    pub(crate) fn came_too_late(&self, gone: Option<Nanos>) -> bool {
        self.a.verb == "delete"
            && self.a.code == 404
            && gone.is_some_and(|at| self.received.at >= at)
    }
}

/// A pod's evidence by kind, each kind sorted by time.
#[derive(Debug, Default)]
pub(crate) struct PodEvidence<'a> {
    pub(crate) states: Vec<(&'a Evidence, &'a PodSeen)>,
    pub(crate) events: Vec<(&'a Evidence, &'a EventSeen)>,
    /// Events of other pods that this pod preempts.
    pub(crate) of_others: Vec<(&'a Evidence, &'a EventSeen)>,
    /// Lines of the scheduler that name a preemptor and its victims.
    pub(crate) preemptions: Vec<(&'a Evidence, &'a LogLine)>,
    pub(crate) calls: Vec<CallEvidence<'a>>,
    pub(crate) container_events: Vec<(&'a Evidence, &'a ContainerEvent)>,
    /// containerd's events of tasks and snapshots.
    pub(crate) runtime_events: Vec<(&'a Evidence, &'a RuntimeEvent)>,
    pub(crate) items: Vec<(&'a Evidence, &'a InventoryItem)>,
    /// Log lines of the kubelet and the runtime.
    pub(crate) logs: Vec<(&'a Evidence, &'a LogLine)>,
    /// The lines in `logs` that state a fact.
    lines: Vec<(&'a Evidence, Line<'a>)>,
    /// Indexes in `lines` by fact.
    by_fact: FxHashMap<Fact, Vec<u32>>,
    pub(crate) requests: Vec<Request<'a>>,
    pub(crate) spans: Vec<(&'a Evidence, &'a SpanRecord)>,
    /// Index in `spans` of the apiserver's server span of a request, by audit id.
    by_audit: FxHashMap<&'a str, u32>,
    /// Indexes in `spans` of webhook calls and etcd writes, by the trace of their request.
    in_request: FxHashMap<TraceId, Vec<u32>>,
    pub(crate) fs: Vec<(&'a Evidence, FsAction, &'a FsObject)>,
    /// The apiserver's clock minus the node's, ns: subtracted from API times.
    pub(crate) shift_ns: i64,
}

impl<'a> PodEvidence<'a> {
    pub(crate) fn new(
        (uid, mirrors): (&PodUid, &[PodUid]),
        evidence: &'a [Evidence],
        lines: Vec<(&'a Evidence, Line<'a>)>,
        logged: &'a Logged<'a>,
        listed: &'a [(Text, RuntimeState, Evidence)],
        shift_ns: i64,
    ) -> Self {
        let mut f = Self {
            lines,
            shift_ns,
            ..Self::default()
        };
        let (mut events, mut audits) = (Vec::new(), Vec::new());
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for o in evidence {
            match &o.body {
                Body::Pod(p) => f.states.push((o, p)),
                Body::Event(e) if e.is_of_another_pod(uid, mirrors) => f.of_others.push((o, e)),
                Body::Event(e) => events.push((o, &**e)),
                Body::CallStart(c) => starts.push((o, &**c)),
                Body::CallEnd(c) => ends.push((o, &**c)),
                Body::ContainerEvent(c) => f.container_events.push((o, c)),
                Body::RuntimeEvent(e) => f.runtime_events.push((o, e)),
                Body::Inventory(i) => f.items.extend(i.items.iter().map(|item| (o, item))),
                Body::Log(l) if is_of_node(l) => f.logs.push((o, l)),
                Body::Log(l) if flow::line(l).is_some_and(|l| l.fact() == Fact::PodPreempted) => {
                    f.preemptions.push((o, l));
                }
                Body::Audit(a) => audits.push((o, &**a)),
                Body::Span(s) => f.spans.push((o, s)),
                Body::Fs(x) => f.fs.push((o, x.action, &x.object)),
                _ => {}
            }
        }
        f.events = logged.with(events);
        f.requests = f.requests_of(audits);
        f.calls = calls(starts, ends, &f.spans);
        f.list(listed);
        // Resource versions order states better than arrival does.
        f.states
            .sort_by_key(|(o, p)| (p.resource_version, o.stamp.at));
        f.index();
        f
    }
    /// API requests from their audit records, of which each stage has one.
    fn requests_of(&self, audits: Vec<(&'a Evidence, &'a AuditRecord)>) -> Vec<Request<'a>> {
        let mut places: FxHashMap<&str, usize> = FxHashMap::default();
        let mut requests: Vec<Request<'_>> = Vec::new();
        for (o, a) in audits {
            let at = self.api_edge(o.stamp.at, o.stamp.precision);
            let complete = match a.stage {
                AuditStage::RequestReceived => None,
                _ => Some(at),
            };
            match places.get(a.audit_id.as_str()).copied() {
                Some(i) if !a.audit_id.is_empty() => {
                    if let Some(r) = requests.get_mut(i) {
                        if complete.is_some() {
                            r.complete = complete;
                            r.a = a;
                            r.evidence.insert(0, o.clone());
                        } else {
                            r.evidence.push(o.clone());
                        }
                    }
                }
                _ => {
                    places.insert(a.audit_id.as_str(), requests.len());
                    requests.push(Request {
                        a,
                        received: self.api_edge(a.received, 1_000),
                        complete,
                        evidence: vec![o.clone()],
                    });
                }
            }
        }
        requests.sort_by_key(|r| r.received.at);
        requests
    }
    /// Adds the states of lists of the runtime, each from the earliest list that shows it.
    fn list(&mut self, listed: &'a [(Text, RuntimeState, Evidence)]) {
        for (id, state, o) in listed {
            let Body::Inventory(i) = &o.body else {
                continue;
            };
            let shown = i.items.iter().filter(|item| {
                let of_it = [&item.subject.container_id.0, &item.subject.sandbox_id.0];
                item.state == *state && of_it.contains(&id)
            });
            self.items.extend(shown.map(|item| (o, item)));
        }
        self.items.sort_by(|a, b| a.0.cmp(b.0).then(a.1.cmp(b.1)));
    }
    /// Indexes lines by fact, and spans by request.
    fn index(&mut self) {
        for (i, (_, l)) in (0..).zip(&self.lines) {
            self.by_fact.entry(l.fact()).or_default().push(i);
        }
        for (i, (_, s)) in (0..).zip(&self.spans) {
            if s.kind == SpanKind::Server
                && let Some(id) = s.attribute("audit-id")
            {
                // Handlers repeat the audit id on their own spans: the first span is the request's.
                self.by_audit.entry(id).or_insert(i);
            } else if matches!(
                flow::span(s),
                Some(
                    Fact::ObjectStored
                        | Fact::MutatingWebhookCalled
                        | Fact::ValidatingWebhookCalled
                )
            ) {
                self.in_request.entry(s.trace).or_default().push(i);
            }
        }
    }
    /// Converts a time of the apiserver to an edge on the node's clock.
    pub(crate) fn api_edge(&self, at: Nanos, precision: u32) -> Edge {
        Edge {
            at: at.plus(-self.shift_ns),
            precision: precision.max(1),
        }
    }
    /// The edge of an Event: the kubelet's Events are on the node's clock, all others on the control plane's.
    pub(crate) fn api_edge_of(&self, o: &Evidence) -> Edge {
        match &o.body {
            Body::Event(e) if e.component == "kubelet" => event_edge(o),
            _ => self.api_edge(o.stamp.at, o.stamp.precision),
        }
    }
    /// The edge of the first occurrence of an Event that counts several, of which a list has the last.
    pub(crate) fn first_edge_of(&self, o: &Evidence) -> Edge {
        let last = self.api_edge_of(o);
        let Some(at) = self.began(o) else { return last };
        let of_kubelet = matches!(&o.body, Body::Event(e) if e.component == "kubelet");
        let precision = at.likely_precision();
        let first = if of_kubelet {
            Edge { at, precision }
        } else {
            self.api_edge(at, precision)
        };
        first.min(last)
    }
    /// Lines that state one of these facts, in order of time.
    pub(crate) fn lines(
        &self,
        facts: &[Fact],
    ) -> impl DoubleEndedIterator<Item = (&'a Evidence, Line<'a>)> + use<'a> {
        let mut at: Vec<u32> = facts
            .iter()
            .filter_map(|f| self.by_fact.get(f))
            .flatten()
            .copied()
            .collect();
        if facts.len() > 1 {
            at.sort_unstable();
        }
        let found: Vec<_> = at
            .into_iter()
            .filter_map(|i| self.lines.get(i as usize).copied())
            .collect();
        found.into_iter()
    }
    /// The first line that states one of these facts.
    pub(crate) fn line(&self, facts: &[Fact]) -> Option<(&'a Evidence, Line<'a>)> {
        self.lines(facts).next()
    }
    /// The apiserver's server span of a request.
    pub(crate) fn server_span(&self, audit_id: &str) -> Option<(&'a Evidence, &'a SpanRecord)> {
        self.spans
            .get(*self.by_audit.get(audit_id)? as usize)
            .copied()
    }
    /// Spans of webhook calls and etcd writes in a request's trace, in order of time.
    pub(crate) fn within_request(
        &self,
        trace: TraceId,
    ) -> impl Iterator<Item = (&'a Evidence, &'a SpanRecord)> {
        let at = self.in_request.get(&trace).map_or(&[][..], Vec::as_slice);
        at.iter()
            .filter_map(|i| self.spans.get(*i as usize).copied())
    }
    /// When the Event of a failure first occurred, which an Event of the API and its repetition in the log both tell.
    pub(crate) fn began(&self, o: &Evidence) -> Option<Nanos> {
        match &o.body {
            Body::Event(e) => e.began(),
            Body::Log(_) => {
                let mut events = self.events.iter().filter(|(_, e)| e.count > 1);
                events.find(|(x, _)| Arc::ptr_eq(x, o))?.1.began()
            }
            _ => None,
        }
    }
    pub(crate) fn events_of<'s>(
        &'s self,
        reasons: &'s [&'s str],
    ) -> impl DoubleEndedIterator<Item = (&'a Evidence, &'a EventSeen)> + 's {
        self.events
            .iter()
            .filter(|(_, e)| reasons.contains(&e.reason.as_str()))
            .copied()
    }
    /// True for a static pod, which the kubelet has from a file, without a scheduler.
    pub(crate) fn is_static(&self, uid: &PodUid) -> bool {
        has_static_uid(uid) || self.states.iter().any(|(_, p)| p.mirror_of.is_some())
    }
    pub(crate) fn newest(&self) -> Option<&'a PodSeen> {
        self.states.last().map(|(_, p)| *p)
    }
}

/// Calls with their ends, and with the kubelet's client spans.
fn calls<'a>(
    starts: Vec<(&'a Evidence, &'a CallStart)>,
    ends: Vec<(&'a Evidence, &'a CallEnd)>,
    spans: &[(&'a Evidence, &'a SpanRecord)],
) -> Vec<CallEvidence<'a>> {
    let mut by_call: FxHashMap<CallKey, (&Evidence, &CallEnd)> = FxHashMap::default();
    for (o, c) in ends {
        let end = by_call.entry(c.key).or_insert((o, c));
        if end.1.outcome == CallOutcome::Lost && c.outcome != CallOutcome::Lost {
            *end = (o, c);
        }
    }
    let by_kubelet = spans.iter().filter(|(_, s)| s.service == "kubelet");
    let by_span: FxHashMap<SpanId, &Evidence> = by_kubelet.map(|(o, s)| (s.span, *o)).collect();
    let mut seen: FxHashSet<CallKey> = FxHashSet::default();
    let once = starts.into_iter().filter(|(_, c)| seen.insert(c.key));
    let calls = once.map(|(o, c)| CallEvidence {
        o,
        c,
        end: by_call.get(&c.key).copied(),
        span: c
            .traceparent
            .and_then(|(_, span)| by_span.get(&span).copied()),
    });
    calls.collect()
}

/// Lines of the kubelet and the runtime that state a fact.
pub(crate) fn lines(evidence: &[Evidence]) -> Vec<(&Evidence, Line<'_>)> {
    let of_node = evidence.iter().filter_map(|o| match &o.body {
        Body::Log(l) if is_of_node(l) => Some((o, flow::line(l)?)),
        _ => None,
    });
    of_node.collect()
}

fn is_of_node(l: &LogLine) -> bool {
    use Component::{Containerd, Crio, Kubelet};
    matches!(l.component, Kubelet | Containerd | Crio)
}

/// A static pod's UID is the hash of its manifest: 32 hexadecimal digits without dashes.
pub(crate) fn has_static_uid(uid: &PodUid) -> bool {
    let uid = uid.as_str();
    uid.len() == 32 && uid.bytes().all(|b| b.is_ascii_hexdigit())
}
