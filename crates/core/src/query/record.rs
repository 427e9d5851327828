//! What expressions are matched against: calls, observations, pods, owners.

use std::fmt::Write as _;

use super::{Field, Flag, Number};
use crate::correlate::{Call, PodView};
use crate::diagnose::Verdict;
use kflow_model::cri::{CallOutcome, ContainerEventKind, code_name, failed, is_noise};
use kflow_model::log::Severity;
use kflow_model::{Body, Nanos, ObjectRef, Observation, PodRef};

/// A thing that an expression can match.
pub trait Record {
    /// Calls `f` with each value of the field until `f` returns true, and returns whether it did.
    fn text(&self, field: Field, f: &mut dyn FnMut(&str) -> bool) -> bool;
    /// Calls `f` like [`Self::text`], with the reasons of the Events about the record. Only `reason:` searches them: a
    /// word would find what the record does not show.
    fn reasons(&self, _: &mut dyn FnMut(&str) -> bool) -> bool {
        false
    }
    /// Returns the number; `None` when the record has none.
    fn number(&self, n: Number) -> Option<i64>;
    fn flag(&self, flag: Flag) -> bool;
}

fn some(v: &str, f: &mut dyn FnMut(&str) -> bool) -> bool {
    !v.is_empty() && f(v)
}

fn key(ns: &str, name: &str, f: &mut dyn FnMut(&str) -> bool) -> bool {
    if name.is_empty() {
        return false;
    }
    f(name) || {
        let mut s = String::with_capacity(ns.len() + name.len() + 1);
        s.push_str(ns);
        s.push('/');
        s.push_str(name);
        f(&s)
    }
}

/// A call as of a moment, which the age of a call in flight depends on.
#[derive(Clone, Copy, Debug)]
pub struct CallRecord<'a> {
    pub call: &'a Call,
    pub now: Nanos,
    /// Whether kflow itself made the call.
    pub own: bool,
}

impl CallRecord<'_> {
    /// The fields that a call has.
    pub const FIELDS: &'static [Field] = &[
        Field::Method,
        Field::Pod,
        Field::Namespace,
        Field::Container,
        Field::Image,
        Field::Code,
        Field::Message,
        Field::Source,
        Field::Kind,
        Field::Id,
    ];
    pub const NUMBERS: &'static [Number] = &[Number::Duration, Number::Size, Number::Conn];
}

impl Record for CallRecord<'_> {
    fn text(&self, field: Field, f: &mut dyn FnMut(&str) -> bool) -> bool {
        let c = self.call;
        match field {
            Field::Method => some(&c.method, f),
            Field::Pod => key(&c.namespace, &c.pod, f),
            Field::Namespace => some(&c.namespace, f),
            Field::Container => some(&c.container, f),
            Field::Image => some(&c.image, f),
            Field::Code => match (c.outcome, c.code) {
                (_, Some(code)) => f(code_name(code)) || f(&code.to_string()),
                (Some(CallOutcome::ClientReset), _) => f("ClientReset"),
                (Some(CallOutcome::ServerReset), _) => f("ServerReset"),
                (Some(CallOutcome::ConnectionClosed), _) => f("ConnectionClosed"),
                (Some(CallOutcome::Lost), _) => f("Lost"),
                _ => false,
            },
            Field::Message => some(&c.message, f),
            Field::Source => f("cri"),
            Field::Kind => f("call"),
            Field::Id => {
                some(c.pod_uid.as_str(), f)
                    || some(c.sandbox_id.as_str(), f)
                    || some(c.container_id.as_str(), f)
            }
            Field::Reason
            | Field::Component
            | Field::Node
            | Field::Status
            | Field::Stage
            | Field::Owner => false,
        }
    }
    fn number(&self, n: Number) -> Option<i64> {
        match n {
            Number::Duration => Some(self.call.duration(self.now)),
            Number::Size => i64::try_from(
                self.call
                    .request_bytes
                    .saturating_add(self.call.response_bytes),
            )
            .ok(),
            Number::Conn => Some(i64::from(self.call.key.conn)),
            Number::Restarts | Number::Age => None,
        }
    }
    fn flag(&self, flag: Flag) -> bool {
        match flag {
            Flag::Ok => self.call.failed() == Some(false),
            Flag::Error | Flag::Warning => self.call.is_error(),
            Flag::InFlight => self.call.end.is_none(),
            Flag::Noise => self.call.is_noise(),
            Flag::Own => self.own,
            Flag::Gone | Flag::Ready => false,
        }
    }
}

fn pod_ref(p: &PodRef, field: Field, f: &mut dyn FnMut(&str) -> bool) -> bool {
    match field {
        Field::Pod => key(&p.namespace, &p.name, f),
        Field::Namespace => some(&p.namespace, f),
        Field::Id => some(p.uid.as_str(), f),
        _ => false,
    }
}

/// Returns the name of an observation's kind, as `kind:` takes it.
pub(crate) const fn kind(b: &Body) -> &'static str {
    match b {
        Body::Pod(_) => "pod",
        Body::Event(_) => "event",
        Body::Node(_) => "node",
        Body::Object(_) => "object",
        Body::Watch(_) => "watch",
        Body::CallStart(_) | Body::CallEnd(_) => "call",
        Body::ContainerEvent(_) => "container-event",
        Body::Conn(_) => "conn",
        Body::Inventory(_) => "inventory",
        Body::Pull(_) => "pull",
        Body::RuntimeEvent(_) => "runtime-event",
        Body::Log(_) => "log",
        Body::Audit(_) => "audit",
        Body::Span(_) => "span",
        Body::Fs(_) => "fs",
        Body::Sample(_) => "sample",
        Body::Gap(_) => "gap",
        Body::ClockStep(_) => "clock",
        Body::Note(_) => "note",
    }
}

impl Record for Observation {
    fn text(&self, field: Field, f: &mut dyn FnMut(&str) -> bool) -> bool {
        match field {
            Field::Source => return f(self.source.name()),
            Field::Kind => return f(kind(&self.body)),
            _ => {}
        }
        match &self.body {
            Body::Pod(p) => match field {
                Field::Pod => key(&p.namespace, &p.name, f),
                Field::Namespace => some(&p.namespace, f),
                Field::Node => some(&p.spec.node, f),
                Field::Status => some(p.status.phase.as_str(), f),
                Field::Reason => some(&p.status.reason, f),
                Field::Message => some(&p.status.message, f),
                Field::Id => some(p.uid.as_str(), f),
                Field::Owner => p.owner.as_ref().is_some_and(|o| f(&o.name)),
                _ => false,
            },
            Body::Event(e) => match field {
                Field::Pod if e.object.kind == "Pod" => key(&e.object.namespace, &e.object.name, f),
                Field::Namespace => some(&e.object.namespace, f),
                Field::Container => some(&e.container, f),
                Field::Reason => some(&e.reason, f),
                Field::Message => some(&e.message, f),
                Field::Component => some(&e.component, f),
                Field::Node => some(&e.host, f),
                Field::Owner => f(&e.object.name),
                Field::Id => some(&e.object.uid, f),
                _ => false,
            },
            Body::Node(n) => field == Field::Node && f(&n.name),
            Body::Object(o) => match field {
                Field::Owner => {
                    f(&o.object.name) || f(&format!("{}/{}", o.object.kind, o.object.name))
                }
                Field::Namespace => some(&o.object.namespace, f),
                _ => false,
            },
            Body::Watch(w) => field == Field::Message && (f(&w.resource) || some(&w.detail, f)),
            Body::CallStart(c) => match field {
                Field::Method => f(&c.method),
                Field::Container => some(&c.subject.container, f),
                Field::Image => some(&c.subject.image, f),
                Field::Id
                    if f(c.subject.sandbox_id.as_str()) || f(c.subject.container_id.as_str()) =>
                {
                    true
                }
                Field::Message => c.fields.iter().any(|(_, v)| f(v)),
                _ => pod_ref(&c.subject.pod, field, f),
            },
            Body::CallEnd(c) => match field {
                Field::Code => c.code.is_some_and(|c| f(code_name(c)) || f(&c.to_string())),
                Field::Message => some(&c.message, f) || c.fields.iter().any(|(_, v)| f(v)),
                Field::Container => some(&c.subject.container, f),
                Field::Id
                    if f(c.subject.sandbox_id.as_str()) || f(c.subject.container_id.as_str()) =>
                {
                    true
                }
                _ => pod_ref(&c.subject.pod, field, f),
            },
            Body::ContainerEvent(c) => match field {
                Field::Code => c.exit_code.is_some_and(|c| f(&c.to_string())),
                Field::Reason => some(&c.reason, f),
                Field::Container => some(&c.subject.container, f),
                Field::Id
                    if f(c.subject.sandbox_id.as_str()) || f(c.subject.container_id.as_str()) =>
                {
                    true
                }
                _ => pod_ref(&c.subject.pod, field, f),
            },
            Body::Conn(c) => match field {
                Field::Component => some(&c.peer, f),
                Field::Message => some(&c.why, f),
                _ => false,
            },
            Body::Inventory(i) => i.items.iter().any(|x| match field {
                Field::Container => some(&x.subject.container, f),
                Field::Id => {
                    some(x.subject.sandbox_id.as_str(), f)
                        || some(x.subject.container_id.as_str(), f)
                }
                _ => pod_ref(&x.subject.pod, field, f),
            }),
            Body::Pull(p) => match field {
                Field::Message => p.repositories.iter().any(|r| f(r)),
                Field::Id => f(&p.manifest),
                _ => false,
            },
            Body::RuntimeEvent(e) => match field {
                Field::Method => f(&e.topic),
                Field::Message => some(&e.name, f) || e.fields.iter().any(|(_, v)| f(v)),
                Field::Id => some(e.container_id.as_str(), f),
                _ => false,
            },
            Body::Log(l) => match field {
                Field::Message => {
                    some(&l.message, f) || some(&l.error, f) || l.fields.iter().any(|(_, v)| f(v))
                }
                Field::Component => f(l.component.name()),
                Field::Container => some(&l.container, f),
                Field::Reason => some(&l.location, f),
                _ => pod_ref(&l.pod, field, f) || l.more_pods.iter().any(|p| pod_ref(p, field, f)),
            },
            Body::Audit(a) => match field {
                Field::Pod if a.resource.starts_with("pods") => {
                    key(&a.object.namespace, &a.object.name, f)
                }
                Field::Namespace => some(&a.object.namespace, f),
                Field::Method => f(&a.verb),
                Field::Code => a.code != 0 && f(&a.code.to_string()),
                Field::Message => some(&a.message, f) || f(&a.resource),
                Field::Component => some(&a.agent, f) || f(&a.user),
                Field::Id => some(&a.object.uid, f) || f(&a.audit_id),
                _ => false,
            },
            Body::Span(s) => match field {
                Field::Method => f(&s.name),
                Field::Component => f(&s.service),
                Field::Message => some(&s.message, f) || s.attributes.iter().any(|(_, v)| f(v)),
                Field::Id => f(&s.trace.to_string()),
                _ => false,
            },
            Body::Fs(c) => match field {
                Field::Id => c.object.pod().is_some_and(|u| f(u.as_str())),
                Field::Message => {
                    let mut s = String::new();
                    write!(s, "{:?} {:?}", c.action, c.object).is_ok() && f(&s)
                }
                _ => false,
            },
            Body::Sample(s) => field == Field::Message && f(&s.what),
            Body::Gap(g) => field == Field::Message && f(&g.why),
            Body::ClockStep(_) => false,
            Body::Note(n) => field == Field::Message && f(&n.text),
        }
    }
    fn number(&self, n: Number) -> Option<i64> {
        match (&self.body, n) {
            (Body::CallEnd(c), Number::Size) => {
                i64::try_from(c.request_bytes.saturating_add(c.response_bytes)).ok()
            }
            (Body::CallStart(c), Number::Conn) => Some(i64::from(c.key.conn)),
            (Body::CallEnd(c), Number::Conn) => Some(i64::from(c.key.conn)),
            (Body::Conn(c), Number::Conn) => Some(i64::from(c.conn)),
            (Body::Span(s), Number::Duration) => Some(s.end.since(self.stamp.at)),
            (Body::Audit(a), Number::Duration) => Some(self.stamp.at.since(a.received)),
            (Body::Sample(s), Number::Duration) => i64::try_from(s.took_ns).ok(),
            _ => None,
        }
    }
    fn flag(&self, flag: Flag) -> bool {
        let bad = match &self.body {
            Body::Event(e) => e.warning,
            Body::CallEnd(c) => failed(c.outcome, c.code, &c.message) == Some(true),
            Body::Log(l) => l.severity > Severity::Info,
            Body::Audit(a) => a.code >= 400,
            Body::Span(s) => s.error,
            Body::ContainerEvent(c) => {
                c.kind == ContainerEventKind::Oom || c.exit_code.is_some_and(|c| c != 0)
            }
            Body::Gap(g) => g.is_loss(),
            Body::ClockStep(_) => true,
            _ => false,
        };
        match flag {
            Flag::Error => match &self.body {
                Body::Log(l) => l.severity > Severity::Warning,
                _ => bad,
            },
            Flag::Warning => bad,
            Flag::Ok => {
                !bad && matches!(self.body, Body::CallEnd(_) | Body::Span(_) | Body::Audit(_))
            }
            Flag::Noise => match &self.body {
                Body::CallStart(c) => !c.filtered && is_noise(&c.method),
                Body::Watch(_) | Body::Inventory(_) | Body::Pull(_) | Body::RuntimeEvent(_) => true,
                _ => false,
            },
            Flag::InFlight | Flag::Own | Flag::Gone | Flag::Ready => false,
        }
    }
}

/// A pod as of a moment, with its verdict.
#[derive(Clone, Copy, Debug)]
pub struct PodRecord<'a> {
    pub pod: &'a PodView,
    /// Cause and sentence of the pod's verdict, empty when the pod is well.
    pub verdict: (&'a str, &'a str),
    pub now: Nanos,
}

impl<'a> PodRecord<'a> {
    pub fn new(pod: &'a PodView, verdict: Option<&'a Verdict>, now: Nanos) -> Self {
        Self {
            pod,
            verdict: verdict.map_or(("", ""), |v| (v.cause_id(), v.sentence.as_str())),
            now,
        }
    }
    /// The fields that a pod has.
    pub const FIELDS: &'static [Field] = &[
        Field::Pod,
        Field::Namespace,
        Field::Node,
        Field::Status,
        Field::Stage,
        Field::Owner,
        Field::Container,
        Field::Image,
        Field::Id,
        Field::Reason,
        Field::Message,
    ];
    pub const NUMBERS: &'static [Number] = &[Number::Restarts, Number::Age, Number::Duration];
}

impl Record for PodRecord<'_> {
    fn text(&self, field: Field, f: &mut dyn FnMut(&str) -> bool) -> bool {
        let p = self.pod;
        match field {
            Field::Pod => key(&p.namespace, &p.name, f),
            Field::Namespace => some(&p.namespace, f),
            Field::Node => some(&p.node, f),
            Field::Status => some(&p.status, f),
            Field::Stage => p.current.is_some_and(|(s, _)| f(s.name())),
            Field::Owner => p
                .owners
                .iter()
                .any(|o| f(&o.name) || f(&format!("{}/{}", o.kind, o.name))),
            Field::Container => p.containers.iter().any(|c| f(&c.name)),
            Field::Image => p.containers.iter().any(|c| some(&c.image, f)),
            Field::Id => some(p.uid.as_str(), f),
            Field::Reason => some(self.verdict.0, f),
            Field::Message => some(self.verdict.1, f),
            Field::Method | Field::Code | Field::Source | Field::Kind | Field::Component => false,
        }
    }
    fn reasons(&self, f: &mut dyn FnMut(&str) -> bool) -> bool {
        self.pod.evidence.iter().any(|o| match &o.body {
            Body::Event(e) => some(&e.reason, f),
            _ => false,
        })
    }
    fn number(&self, n: Number) -> Option<i64> {
        match n {
            Number::Restarts => Some(i64::from(self.pod.restarts)),
            Number::Age => Some(self.now.since(self.pod.created)),
            Number::Duration => self.pod.current.map(|(_, since)| self.now.since(since)),
            Number::Size | Number::Conn => None,
        }
    }
    fn flag(&self, flag: Flag) -> bool {
        let p = self.pod;
        let ready = p.ready.1 > 0 && p.ready.0 == p.ready.1;
        match flag {
            Flag::Ready => ready,
            Flag::Ok => p.current.is_none(),
            Flag::Error | Flag::Warning => !self.verdict.0.is_empty(),
            Flag::InFlight => p.timeline.in_flight().next().is_some(),
            Flag::Gone => p.gone.is_some(),
            Flag::Noise | Flag::Own => false,
        }
    }
}

/// An owner that cannot create its pods, as of a moment.
#[derive(Clone, Copy, Debug)]
pub struct OwnerRecord<'a> {
    pub owner: &'a ObjectRef,
    /// Cause and sentence of the owner's verdict.
    pub verdict: (&'a str, &'a str),
    /// When the owner began to fail.
    pub since: Nanos,
    pub now: Nanos,
}

impl Record for OwnerRecord<'_> {
    fn text(&self, field: Field, f: &mut dyn FnMut(&str) -> bool) -> bool {
        let o = self.owner;
        match field {
            Field::Owner => f(&o.name) || f(&format!("{}/{}", o.kind, o.name)),
            Field::Namespace => some(&o.namespace, f),
            Field::Kind => some(&o.kind, f),
            Field::Id => some(&o.uid, f),
            Field::Reason => some(self.verdict.0, f),
            Field::Message => some(self.verdict.1, f),
            _ => false,
        }
    }
    fn number(&self, n: Number) -> Option<i64> {
        (n == Number::Duration).then(|| self.now.since(self.since))
    }
    fn flag(&self, flag: Flag) -> bool {
        matches!(flag, Flag::Error | Flag::Warning)
    }
}
