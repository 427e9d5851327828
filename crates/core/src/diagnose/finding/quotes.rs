//! Lines of evidence: how an observation is quoted, and how repetitions are left out.

use crate::diagnose::Proof;
use crate::diagnose::cluster::low_on;
use crate::diagnose::signal::{Signal, method_of};
use crate::diagnose::text::shorten;
use crate::flow::{self, Fact, Line};
use kflow_model::Evidence;
use kflow_model::object::ObjectSeen;
use kflow_model::units::size;
use kflow_model::{
    Body, Nanos, Source, Text,
    cri::{CallOutcome, code_name},
    fs::{FsAction, FsObject},
    log::{Component, LogLine},
    node::NodeSeen,
    pod::{Condition, ContainerState, PodPhase, PodSeen, WatchEvent},
    stamp::SECOND,
};

/// The largest number of lines of evidence: more of them would say the same.
const PROOFS: usize = 6;
/// The length of the longest quoted message, characters.
const MESSAGE: usize = 400;
/// The length of the longest quoted message of a condition, characters: the condition says more beside it.
const CONDITION: usize = 300;

/// Keeps one line of evidence for each fact. The kubelet also writes its Events to its log, and logs an error a second
/// time when it gives up the sync.
pub(super) fn tell_once(proofs: &mut Vec<Proof>) {
    if proofs.len() < 2 {
        return;
    }
    let gives_up = |p: &Proof| said(p).is_some_and(|l| l.fact() == Fact::SyncFailed);
    let told: Vec<Text> = proofs
        .iter()
        .filter_map(|p| match &p.evidence.as_deref()?.body {
            Body::Event(e) => Some(e.reason.clone()),
            _ => None,
        })
        .collect();
    let better = proofs.iter().any(|p| !gives_up(p));
    proofs.retain(|p| {
        let logged = said(p)
            .and_then(|l| l.event())
            .is_some_and(|e| told.iter().any(|t| t == e.reason));
        !(logged || better && gives_up(p))
    });
    let mut kept: Vec<Proof> = Vec::with_capacity(proofs.len().min(PROOFS));
    for p in proofs.drain(..) {
        if kept.len() < PROOFS && !kept.iter().any(|k| repeats(&p, k)) {
            kept.push(p);
        }
    }
    *proofs = kept;
}

/// True when two proofs of one source differ in digits only: amounts and times change from one repetition to the next.
fn repeats(p: &Proof, other: &Proof) -> bool {
    fn plain(text: &str) -> impl Iterator<Item = u8> {
        text.bytes().filter(|b| !b.is_ascii_digit())
    }
    let same = |a: &str, b: &str| plain(a).eq(plain(b));
    p.source == other.source
        && same(&p.what, &other.what)
        && match (&p.words, &other.words) {
            (Some(a), Some(b)) => same(a, b),
            (None, None) => true,
            _ => false,
        }
}

/// Returns what a proof's line of the kubelet's log says; `None` for other evidence.
fn said(p: &Proof) -> Option<Line<'_>> {
    match &p.evidence.as_deref()?.body {
        Body::Log(l) if l.component == Component::Kubelet => flow::line(l),
        _ => None,
    }
}

/// Returns a signal's observation as a line of evidence.
pub fn signal_proof(s: &Signal<'_>) -> Proof {
    let mut p = proof(s.evidence);
    match &s.evidence.body {
        Body::CallEnd(c) if s.source == Source::Cri => {
            // `@stop` stands for several methods.
            let method = method_of(&s.reason).unwrap_or("Stop");
            p.what = format!("CRI {method}  {}", c.code.map_or("no answer", code_name));
        }
        Body::Pod(_) if s.source != Source::Cri => {
            p.what = format!("status {}", s.reason);
            p.words = Some(shorten(&s.text, MESSAGE));
            state(&mut p, s.stated);
        }
        _ => {}
    }
    p.times = s.times();
    p
}

/// Returns an observation as a line of evidence.
pub fn proof(o: &Evidence) -> Proof {
    let (what, words) = quoted(o);
    let mut p = Proof {
        at: o.stamp.at,
        precision: o.stamp.precision,
        source: o.source,
        what,
        words,
        times: 1,
        evidence: Some(o.clone()),
    };
    let stated = match &o.body {
        Body::Pod(pod) if pod.event == WatchEvent::Listed => changed(pod),
        Body::Node(n) if n.event == WatchEvent::Listed => telling(n).and_then(|c| c.transition),
        Body::Object(o) if o.object.kind == "Lease" => {
            let renewed = o.fact("renewTime").and_then(Nanos::parse_rfc3339);
            renewed.map(|(at, _)| at)
        }
        Body::Object(o) if o.event == WatchEvent::Listed => written(o),
        _ => None,
    };
    state(&mut p, stated);
    p
}

/// Returns a condition of an object as evidence, as of when it turned.
pub(super) fn condition(o: &Evidence, c: &Condition) -> Proof {
    let mut p = Proof {
        at: o.stamp.at,
        precision: o.stamp.precision,
        what: format!("condition {}={}, {}", c.kind, c.status, c.reason),
        words: None,
        ..proof(o)
    };
    state(&mut p, c.transition);
    p
}

/// Sets the time that an object itself has for what it shows, which a list shows long after that. Within the second of
/// that time, the observation's own is as good, and finer.
fn state(p: &mut Proof, stated: Option<Nanos>) {
    if let Some(at) = stated.filter(|at| p.at.since(*at) >= SECOND) {
        p.at = at;
        p.precision = SECOND as u32;
    }
}

/// The newest time in a pod's state: nothing that has a time changed since.
fn changed(p: &PodSeen) -> Option<Nanos> {
    let conditions = p.status.conditions.iter().filter_map(|c| c.transition);
    let containers = p.statuses().filter_map(|s| match &s.state {
        ContainerState::Running { started } => *started,
        ContainerState::Terminated(t) => t.finished,
        ContainerState::Waiting { .. } => s.last.as_ref()?.finished,
    });
    let grace = p.deletion_grace_s.unwrap_or(0).saturating_mul(-SECOND);
    let asked = p.deletion.map(|at| at.plus(grace));
    let all = conditions.chain(containers).chain(asked);
    // Pods begin as Pending. What kubectl prints lacks most times.
    let new = p.resource_version > 0 && p.status.phase == PodPhase::Pending;
    let begun = p.status.start_time.into_iter();
    let begun = begun.chain(new.then_some(p.created));
    all.chain(begun).filter(|at| at.0 > 0).max()
}

/// When what an object shows was written: of a deleted one the time of the deletion, or of its newest condition; of one whose spec was never
/// changed the time of its creation.
fn written(o: &ObjectSeen) -> Option<Nanos> {
    let Some(deleted) = o.deletion else {
        return Some(o.created).filter(|at| o.generation == 1 && at.0 > 0);
    };
    let conditions = o.conditions.iter().filter_map(|c| c.transition);
    conditions.chain([deleted]).max()
}

/// Returns a message as a line of evidence quotes it.
pub fn quote(message: &str) -> Text {
    shorten(message.trim(), MESSAGE)
}

/// Returns what an observation is, and the message that it carries.
fn quoted(o: &Evidence) -> (String, Option<Text>) {
    let words = |text: &str| Some(shorten(text, MESSAGE));
    let what = match &o.body {
        Body::Event(e) => return (format!("Event {}", e.reason), words(&e.message)),
        Body::Log(l) => return logged(l),
        Body::CallStart(c) => format!("CRI {}", c.method),
        Body::CallEnd(c) => {
            let code = match (c.outcome, c.code) {
                (CallOutcome::Status, None) => "unknown",
                (_, None) => "none",
                (_, Some(code)) => code_name(code),
            };
            return (format!("CRI answer  {code}"), words(&c.message));
        }
        Body::Pod(p) if p.status.reason.is_empty() => format!("status {}", p.status.phase),
        Body::Pod(p) => format!("status {}/{}", p.status.phase, p.status.reason),
        Body::Node(n) => match telling(n) {
            None => format!("node {}", n.name),
            Some(c) => {
                let what = format!("node {} {}={} {}", n.name, c.kind, c.status, c.reason);
                return (what, Some(shorten(&c.message, CONDITION)));
            }
        },
        Body::Audit(a) => format!(
            "request {} {} by {}: {} {}",
            a.verb,
            a.resource,
            a.user,
            a.code,
            shorten(&a.message, CONDITION)
        ),
        Body::Inventory(_) => "CRI status".to_owned(),
        Body::Pull(p) => {
            let complete = p.layers.iter().filter(|l| l.is_complete()).count();
            format!(
                "layers fetched: {complete} of {}, {} of {}",
                p.layers.len(),
                size(p.fetched()),
                size(p.size())
            )
        }
        Body::Object(s) if s.object.kind == "Lease" => format!("Lease {} renewed", s.object.name),
        Body::Object(s) => format!("{} {}", s.object.kind, s.object.name),
        Body::Fs(c) => {
            let what = match c.object {
                FsObject::PodCgroup { .. } => "cgroup of the pod",
                FsObject::PodDir { .. } => "directory of the pod",
                _ => "file of the pod",
            };
            format!(
                "{what} {}",
                match c.action {
                    FsAction::Created => "made",
                    FsAction::Removed => "removed",
                    FsAction::Changed => "written",
                    FsAction::Present => "there",
                }
            )
        }
        _ => o.source.name().to_owned(),
    };
    (what, None)
}

/// Quotes a line of a component's log: the Event that the line repeats, or its message with its error.
fn logged(l: &LogLine) -> (String, Option<Text>) {
    let who = l.component.program();
    let event = flow::line(l);
    if let Some(e) = event.as_ref().and_then(flow::Line::event) {
        let what = format!("{who} log: Event {}", e.reason);
        return (what, Some(shorten(e.message, MESSAGE)));
    }
    let words = if l.error.is_empty() {
        let more = ["containerMessage", "networkReady", "output"]
            .iter()
            .find_map(|k| l.field(k))
            .map_or(String::new(), |v| format!(": {}", shorten(v, CONDITION)));
        format!("{}{more}", shorten(&l.message, CONDITION))
    } else {
        format!(
            "{}: {}",
            shorten(&l.message, 160),
            shorten(&l.error, MESSAGE)
        )
    };
    (format!("{who} log"), Some(words.into()))
}

/// Returns the condition that is not as it should be, else the condition Ready.
fn telling(n: &NodeSeen) -> Option<&Condition> {
    let ready = n.condition("Ready");
    let short = |c: &&Condition| {
        c.is_true() && (low_on(&c.kind).is_some() || c.kind == "NetworkUnavailable")
    };
    ready
        .filter(|c| !c.is_true())
        .or_else(|| n.conditions.iter().find(short))
        .or(ready)
}
