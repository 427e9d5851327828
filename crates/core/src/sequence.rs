//! The calls and requests about a pod, derived from its evidence. The terminal and every export draw
//! the same ones. Pure.

mod rows;

pub use rows::{Diagram, Row, What};

use crate::correlate::{PodView, World};
use crate::flow::{self, Fact, Stage};
use crate::timeline::Outcome;
use kflow_model::audit::{AuditRecord, AuditStage};
use kflow_model::cri::CallKey;
use kflow_model::cri::method;
use kflow_model::log::LogLine;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos, Source};

/// A participant of the diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    User,
    Apiserver,
    Scheduler,
    Kubelet,
    Runtime,
    Image,
}

impl Party {
    pub const ALL: [Self; 6] = [
        Self::User,
        Self::Apiserver,
        Self::Scheduler,
        Self::Kubelet,
        Self::Runtime,
        Self::Image,
    ];
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user/controller",
            Self::Apiserver => "apiserver",
            Self::Scheduler => "scheduler",
            Self::Kubelet => "kubelet",
            Self::Runtime => "runtime",
            Self::Image => "CNI / images",
        }
    }
    pub const fn short(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Apiserver => "api",
            Self::Scheduler => "sched",
            Self::Kubelet => "kubelet",
            Self::Runtime => "CRI",
            Self::Image => "image",
        }
    }
    pub const fn id(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Apiserver => "apiserver",
            Self::Scheduler => "scheduler",
            Self::Kubelet => "kubelet",
            Self::Runtime => "runtime",
            Self::Image => "images",
        }
    }
}

/// An arrow of the diagram.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub at: Nanos,
    pub precision: u32,
    /// When the answer came.
    pub end: Option<Nanos>,
    /// Start of the newest repeat that is folded into this message.
    pub last: Nanos,
    /// End of the newest repeat.
    pub until: Nanos,
    /// Sum of the lengths of the folded repeats, ns.
    pub more: i64,
    pub open: bool,
    pub bad: bool,
    pub from: Party,
    pub to: Party,
    pub text: String,
    pub code: String,
    pub times: u32,
    /// How many different messages repeat together as a group, this one included.
    pub group: usize,
    pub source: Source,
    pub call: Option<CallKey>,
    pub evidence: Option<Evidence>,
    /// The message changes something. Such messages are never folded: two equal ones are two changes.
    pub changes: bool,
}

impl Message {
    /// Returns the length of the request and its repeats together, or the age while it is in flight, ns; `None` for a
    /// message without an answer.
    pub fn took(&self, now: Nanos) -> Option<i64> {
        match (self.end, self.open) {
            (Some(e), _) => Some(e.since(self.at).max(0).saturating_add(self.more)),
            (None, true) => Some(now.since(self.at).max(0)),
            (None, false) => None,
        }
    }
    /// True when the pod waits and no call is in flight: the arrow leads from a participant to itself.
    pub fn is_wait(&self) -> bool {
        self.open && self.from == self.to
    }
    fn folds_into(&self, last: &Self) -> bool {
        self.from == last.from
            && self.to == last.to
            && self.text == last.text
            && self.code == last.code
            && !self.open
            && !last.open
            && !self.changes
    }
}

fn who(agent: &str, user: &str) -> Party {
    if agent.starts_with("kubelet") || user.starts_with("system:node:") {
        Party::Kubelet
    } else if agent.contains("scheduler") || user.contains("kube-scheduler") {
        Party::Scheduler
    } else {
        Party::User
    }
}

/// Returns the short name of a client that the diagram has no column for: a controller, a user. Empty for the others.
fn name_of(party: Party, user: &str) -> &str {
    match party {
        Party::User => user
            .rsplit(':')
            .next()
            .filter(|n| !n.is_empty())
            .unwrap_or(user),
        _ => "",
    }
}

/// Makes an arrow of a request.
fn request(e: &Evidence, a: &AuditRecord, what: &str) -> Message {
    let from = who(&a.agent, &a.user);
    let name = name_of(from, &a.user);
    Message {
        at: a.received,
        last: a.received,
        until: e.stamp.at.max(a.received),
        more: 0,
        precision: e.stamp.precision,
        end: Some(e.stamp.at),
        open: false,
        bad: a.code >= 400,
        from,
        to: Party::Apiserver,
        text: if name.is_empty() {
            format!("{} {what}", a.verb)
        } else {
            format!("{} {what} by {name}", a.verb)
        },
        code: match a.code {
            0 => String::new(),
            code => code.to_string(),
        },
        times: 1,
        group: 1,
        source: e.source,
        call: None,
        evidence: Some(e.clone()),
        changes: !matches!(a.verb.as_str(), "get" | "list" | "watch"),
    }
}

/// Appends the requests that created and deleted the pod's owners.
fn owners(p: &PodView, world: &World, out: &mut Vec<Message>) {
    for o in &p.owners {
        let Some(object) = world.object(&o.kind, &p.namespace, &o.name) else {
            continue;
        };
        for e in &object.evidence {
            if let Body::Audit(a) = &e.body
                && a.stage == AuditStage::ResponseComplete
                && matches!(a.verb.as_str(), "create" | "delete")
                && !a.resource.contains('/')
            {
                out.push(request(e, a, &format!("{} {}", o.kind, o.name)));
            }
        }
    }
}

/// Returns the arrow for a line of the kubelet's log that shows what no call or request shows.
fn log_arrow(line: &LogLine) -> Option<(Party, Party, &str)> {
    let said = flow::line(line)?;
    Some(match said.fact() {
        Fact::PodAdded | Fact::PodUpdated | Fact::PodDeleted | Fact::PodRemoved => {
            (Party::Apiserver, Party::Kubelet, line.message.as_str())
        }
        Fact::PlegEvent => (Party::Runtime, Party::Kubelet, "PLEG event"),
        _ => return None,
    })
}

/// Returns all messages by time, and last, whenever it began, what the pod waits for. With `fold`, GET requests are left out.
fn derive(p: &PodView, world: &World, fold: bool) -> Vec<Message> {
    let mut out = Vec::new();
    owners(p, world, &mut out);
    for e in p.evidence.iter() {
        let m = match &e.body {
            Body::Audit(a)
                if a.stage == AuditStage::ResponseComplete && a.resource.starts_with("pods") =>
            {
                if matches!(a.verb.as_str(), "watch" | "list") || (fold && a.verb == "get") {
                    continue;
                }
                let sub = a.resource.strip_prefix("pods").unwrap_or_default();
                request(e, a, &format!("pod{sub}"))
            }
            Body::Log(l) => {
                let Some((from, to, text)) = log_arrow(l) else {
                    continue;
                };
                let text = match (text, l.field("event")) {
                    ("PLEG event", Some(ev)) => match ev
                        .split("\"Type\":\"")
                        .nth(1)
                        .and_then(|t| t.split('"').next())
                    {
                        Some(kind) => format!("PLEG {kind}"),
                        None => text.to_owned(),
                    },
                    _ => text.to_owned(),
                };
                point(e, from, to, text, false)
            }
            Body::Event(ev) if ev.warning && !ev.listed => {
                let from = if ev.component.contains("scheduler") {
                    Party::Scheduler
                } else {
                    Party::Kubelet
                };
                point(
                    e,
                    from,
                    Party::Apiserver,
                    format!("event {}", ev.reason),
                    true,
                )
            }
            _ => continue,
        };
        out.push(m);
    }
    // The starts of the pod's calls are among its evidence, so the other pods' calls need no look.
    let calls = p.evidence.iter().filter_map(|e| match &e.body {
        Body::CallStart(c) => world.calls().get(e.stamp.at, c.key),
        _ => None,
    });
    // kflow's own look at a container is no arrow of the kubelet.
    for c in calls.filter(|c| c.pod_uid == p.uid && !world.is_own_call(c)) {
        let image = c.method == method::PULL_IMAGE;
        out.push(Message {
            at: c.start,
            last: c.start,
            until: c.end.unwrap_or(c.start),
            more: 0,
            precision: 1,
            end: c.end,
            open: c.end.is_none(),
            bad: c.is_error(),
            from: Party::Kubelet,
            to: if image { Party::Image } else { Party::Runtime },
            text: if c.container.is_empty() {
                c.method.to_string()
            } else {
                format!("{} {}", c.method, c.container)
            },
            code: if c.end.is_some() {
                c.ending()
            } else {
                String::new()
            },
            times: 1,
            group: 1,
            source: Source::Cri,
            call: Some(c.key),
            evidence: Some(c.started.clone()),
            changes: false,
        });
    }
    for s in &p.timeline.spans {
        let network = s.step.contains("etwork") || s.step.contains("CNI") || s.step.contains("cni");
        if network && s.call.is_none() && !s.is_stage() {
            out.push(Message {
                at: s.start.at,
                last: s.start.at,
                until: s.end.map_or(s.start.at, |e| e.at),
                more: 0,
                precision: s.start.precision,
                end: s.end.map(|e| e.at),
                open: s.end.is_none(),
                bad: s.outcome == Outcome::Error,
                from: Party::Runtime,
                to: Party::Image,
                text: s.step.to_string(),
                code: match s.end {
                    Some(_) if s.code.is_empty() => s.outcome.name().to_owned(),
                    _ => s.code.to_string(),
                },
                times: 1,
                group: 1,
                source: Source::Runtime,
                call: None,
                evidence: s.evidence.first().cloned(),
                changes: false,
            });
        }
    }
    out.extend(ready(p));
    out.sort_by_key(|m| m.at);
    let waits = waits(p, &out);
    out.extend(waits);
    out
}

/// Returns the moment at which the pod became Ready, where its start ends.
fn ready(p: &PodView) -> Option<Message> {
    let mut spans = p.timeline.spans.iter();
    let stage =
        spans.rfind(|s| s.stage == Stage::Ready && s.is_stage() && s.outcome == Outcome::Ok)?;
    let end = stage.end?;
    let e = stage.evidence.last()?;
    let text = "status: Ready".to_owned();
    let mut m = point(e, Party::Kubelet, Party::Apiserver, text, false);
    (m.at, m.last, m.until) = (end.at, end.at, end.at);
    (m.precision, m.changes) = (end.precision, true);
    Some(m)
}

/// Returns what a pod that is not Ready waits for: the open step of its current stage. `None` when an
/// open call shows it.
fn waits(p: &PodView, messages: &[Message]) -> Option<Message> {
    let (stage, since) = p.current.filter(|_| p.gone.is_none())?;
    if messages.iter().any(|m| m.open) {
        return None;
    }
    let who = match stage {
        Stage::Api => Party::Apiserver,
        Stage::Schedule => Party::Scheduler,
        Stage::Image => Party::Image,
        _ => Party::Kubelet,
    };
    let step = p
        .timeline
        .spans
        .iter()
        .filter(|s| s.stage == stage && !s.is_stage() && s.outcome == Outcome::InFlight)
        .max_by_key(|s| s.start.at);
    let text = match step {
        Some(s) => format!("waits in {}: {} {}", stage.name(), s.step, s.container),
        None => format!("waits in {}", stage.name()),
    };
    // A status tells of a wait, and not since when.
    let timed = step.filter(|s| !s.is_by_status());
    let at = timed.map_or(since, |s| s.start.at);
    let precision = timed.map_or(SECOND as u32, |s| s.start.precision);
    Some(Message {
        at,
        precision,
        end: None,
        last: at,
        until: at,
        more: 0,
        open: true,
        bad: false,
        from: who,
        to: who,
        text: text.trim_end().to_owned(),
        code: String::new(),
        times: 1,
        group: 1,
        source: Source::Kflow,
        call: None,
        evidence: step.and_then(|s| s.evidence.last().cloned()),
        changes: false,
    })
}

fn point(e: &Evidence, from: Party, to: Party, text: String, bad: bool) -> Message {
    Message {
        at: e.stamp.at,
        last: e.stamp.at,
        until: e.stamp.at,
        more: 0,
        precision: e.stamp.precision,
        end: None,
        open: false,
        bad,
        from,
        to,
        text,
        code: String::new(),
        times: 1,
        group: 1,
        source: e.source,
        call: None,
        evidence: Some(e.clone()),
        changes: false,
    }
}
