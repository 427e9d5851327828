//! What each step of the map did for one pod: by the pod's evidence, and by its timeline where that contains the step.
//!
//! A timeline joins what several sources report about one attempt: the log line that begins it, the error that ends
//! it, the Event. So where the timeline contains an attempt of a step, begin and outcome are taken from the timeline,
//! and both displays agree. Steps that only the map knows (a sync of the pod worker, a log line of the runtime) are
//! read from the evidence alone.

use super::{PodView, World};
use crate::flow::map::{Map, StepId};
use crate::flow::runs::{Run, RunEnd, StepRuns, lit_on};
use crate::flow::signature::SignatureKind;
use crate::timeline::{Outcome, Span};
use kflow_model::{Body, Nanos, Text, log::Component, stamp::MILLI};

/// How much earlier than the timeline's attempt a run of the same step may start, ns: the kubelet stamps an Event
/// before or after the operation that it reports.
const BESIDE_NS: i64 = 50 * MILLI;

/// The container runtime of a pod's node, by the Node object; `None` where no Node was seen, or the map has no flow
/// of that runtime.
pub fn runtime_of(world: &World, pod: &PodView) -> Option<Component> {
    let version = &world.node(&pod.node)?.api.as_ref()?.runtime_version;
    match version.split_once("://")?.0 {
        "containerd" => Some(Component::Containerd),
        "cri-o" => Some(Component::Crio),
        _ => None,
    }
}

/// The runs of each step for a pod of a world, sorted by step number. All evidence of the view counts: a view has
/// none that is later than its moment.
pub fn steps(map: &Map, world: &World, pod: &PodView) -> Vec<StepRuns> {
    let runtime = runtime_of(world, pod);
    let mut all = lit_on(map, &pod.evidence, Nanos(i64::MAX), runtime);
    for (i, step) in map.steps().iter().enumerate() {
        let attempts: Vec<&Span> = pod
            .timeline
            .spans
            .iter()
            .filter(|s| s.step == step.function && !s.is_stage() && !s.evidence.is_empty())
            .collect();
        if attempts.is_empty() {
            continue;
        }
        let id = StepId(i as u16);
        let at = all.iter().position(|l| l.step == id);
        // An attempt of the timeline lights a step that no signature of the map lights.
        let l = match at.and_then(|at| all.get_mut(at)) {
            Some(l) => l,
            None => {
                let Some(dark) = concluded(id, &attempts) else {
                    continue;
                };
                let at = all.partition_point(|l| l.step < id);
                all.insert(at, dark);
                let Some(l) = all.get_mut(at) else { continue };
                l
            }
        };
        join(l, &attempts);
    }
    all
}

/// A step that only the evidence of the timeline's attempts lights.
fn concluded(step: StepId, attempts: &[&Span]) -> Option<StepRuns> {
    let all = || attempts.iter().flat_map(|s| &s.evidence);
    let mut evidence: Vec<_> = all().filter_map(|o| Some((kind_of(&o.body)?, o))).collect();
    evidence.sort();
    evidence.dedup_by_key(|(kind, _)| *kind);
    Some(StepRuns {
        step,
        first: all().map(|o| o.stamp).min()?,
        last: all().map(|o| o.stamp).max()?,
        count: 0,
        runs: Vec::new(),
        evidence: evidence
            .into_iter()
            .map(|(kind, o)| (kind, o.clone()))
            .collect(),
    })
}

/// The kind of signature that an observation can match.
const fn kind_of(body: &Body) -> Option<SignatureKind> {
    Some(match body {
        Body::CallStart(_) | Body::CallEnd(_) => SignatureKind::Call,
        Body::Span(_) => SignatureKind::Span,
        Body::Log(_) => SignatureKind::Log,
        Body::Audit(_) => SignatureKind::Audit,
        Body::Fs(_) => SignatureKind::Fs,
        Body::ContainerEvent(_) => SignatureKind::ContainerEvent,
        Body::Event(_) => SignatureKind::Event,
        Body::Pod(_) | Body::Node(_) | Body::Object(_) => SignatureKind::Status,
        _ => return None,
    })
}

/// Replaces the runs that overlap the timeline's attempts by these attempts.
fn join(l: &mut StepRuns, attempts: &[&Span]) {
    let told = |r: &Run| {
        attempts
            .iter()
            .any(|s| r.start.plus(BESIDE_NS) >= s.start.at && s.end.is_none_or(|e| r.start <= e.at))
    };
    l.runs.retain(|r| !told(r));
    l.runs.extend(attempts.iter().filter_map(|s| run(s)));
    l.runs
        .sort_by(|a, b| (a.start, &a.what).cmp(&(b.start, &b.what)));
    let last = l.runs.len();
    for (n, r) in (1..).zip(&mut l.runs) {
        r.attempt = n as u32 - 1;
        // A worker does one thing at a time: a run without an end that has a successor must have ended.
        let over = n < last
            && r.how == RunEnd::InFlight
            && !attempts.iter().any(|s| s.start.at == r.start);
        if over {
            r.how = RunEnd::Unseen;
        }
    }
    l.count = l.count.max(u32::try_from(last).unwrap_or(u32::MAX));
}

fn run(s: &Span) -> Option<Run> {
    Some(Run {
        attempt: 0,
        what: Text::default(),
        start: s.start.at,
        end: s.end.map(|e| e.at),
        how: match s.outcome {
            Outcome::Ok => RunEnd::Ok,
            Outcome::Error | Outcome::Cancelled => RunEnd::Failed,
            Outcome::InFlight => RunEnd::InFlight,
        },
        begin: s.evidence.first()?.clone(),
        finish: s.end.and_then(|_| s.evidence.get(1).cloned()),
    })
}
