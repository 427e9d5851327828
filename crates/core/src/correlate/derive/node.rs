//! The stages `admit` and `cgroup`: the kubelet takes the pod.

use super::Build;
use super::span::{edge, event_edge};
use crate::flow::{Fact, Map, Stage, span};
use crate::timeline::{Certainty, Edge, Outcome, Span};
use kflow_model::Evidence;
use kflow_model::cri::method;
use kflow_model::fs::{FsAction, FsObject};
use kflow_model::pod::PodPhase;
use kflow_model::stamp::SECOND;

const RECEIVED: [Fact; 2] = [Fact::PodReceived, Fact::PodAdded];
/// Step name: the pod waits for the sync loop, which handles one event at a time. A hung runtime blocks
/// the loop in housekeeping.
const WAITS: &str = "syncLoopIteration";
/// A wait shorter than this (ns) is part of the hand-over and no step of its own. An idle loop takes a
/// pod within a millisecond.
const BUSY: i64 = 100 * kflow_model::stamp::MILLI;
const HANDED: [Fact; 3] = [Fact::WorkerFirst, Fact::WorkerNotified, Fact::SyncBegan];

/// Start of the first sync: from the log line, else the span.
pub(crate) fn first_sync(b: &Build<'_>) -> Option<(Edge, Evidence)> {
    let f = b.seen;
    let line = f
        .line(&[Fact::SyncBegan])
        .map(|(o, _)| (edge(o), o.clone()));
    let span = f
        .spans
        .iter()
        .find(|(_, s)| span(s) == Some(Fact::SyncBegan))
        .map(|(o, _)| (edge(o), (*o).clone()));
    // For the same moment, the span is more precise.
    match (line, span) {
        (Some(l), Some(s)) if l.0.at.since(s.0.at).abs() > 20 * kflow_model::stamp::MILLI => {
            Some(if l.0 <= s.0 { l } else { s })
        }
        (_, Some(s)) => Some(s),
        (l, None) => l,
    }
}

/// Adds the spans of `admit`.
pub(crate) fn admit(b: &mut Build<'_>) {
    let bound = b.ends(Stage::Schedule).or_else(|| b.ends(Stage::Api));
    if let Some(refusal) = rejection(b).filter(|r| !is_of_a_running_pod(b, r)) {
        refused(b, refusal, bound);
        return;
    }
    let received = b.seen.line(&RECEIVED).map(|(o, _)| o);
    // The earliest action of the pod's worker that any source shows.
    let handed = b.seen.line(&HANDED);
    // A kubelet that is started anew logs the hand-over of pods that run, and may log more than the one before it.
    let begun = first_work(b).into_iter().chain(first_mount(b));
    let begun = begun.map(|(at, _)| at.at).min();
    let handed = handed.filter(|(o, _)| begun.is_none_or(|at| o.stamp.at <= at.plus(SECOND)));
    let worked = handed
        .map(|(o, _)| (edge(o), o.clone()))
        .or_else(|| first_sync(b))
        .or_else(|| first_work(b))
        .or_else(|| first_mount(b));
    match (received, worked) {
        (Some(r), Some(worked)) if worked.0.at >= r.stamp.at => handed_over(b, r, worked),
        (Some(r), None) => waiting(b, r),
        (_, Some(worked)) => bounded(b, bound, worked),
        (None, None) => not_taken(b, bound),
    }
}

/// Adds the refusal of a pod that had run: a kubelet that is started anew admits the pods of its node again
/// (kubelet.go, `HandlePodAdditions`). It is not part of the pod's start.
pub(crate) fn readmit(b: &mut Build<'_>) {
    if let Some(refusal) = rejection(b).filter(|r| is_of_a_running_pod(b, r)) {
        refused(b, refusal, None);
    }
}

/// True when the pod had its sandbox before the kubelet refused it.
fn is_of_a_running_pod(b: &Build<'_>, (denied, _, _): &Refusal) -> bool {
    let mut sandboxes = b
        .work
        .iter()
        .filter(|w| w.method == method::RUN_POD_SANDBOX);
    sandboxes.any(|w| w.start.at < denied.stamp.at)
}

/// Adds an admission that the kubelet refused, from the line with which it took the pod, else from `bound`.
fn refused(b: &mut Build<'_>, (denied, reason, message): Refusal, bound: Option<Edge>) {
    let mut additions = b.seen.lines(&[Fact::PodAdded]);
    let add = additions.rfind(|(o, _)| o.stamp.at <= denied.stamp.at);
    let start = add
        .map(|(o, _)| edge(o))
        .or(bound)
        .unwrap_or_else(|| edge(&denied));
    let mut evidence = vec![denied.clone()];
    evidence.extend(add.map(|(o, _)| o.clone()));
    let certainty = if add.is_some() {
        Certainty::Inferred
    } else {
        Certainty::Bounded
    };
    let end = edge(&denied);
    b.add(Span {
        outcome: Outcome::Error,
        code: reason.into(),
        message: message.into(),
        ..Span::new(
            Stage::Admit,
            "canAdmitPod",
            start.min(end),
            Some(end),
            certainty,
            evidence,
        )
    });
}

/// Adds the way of a pod from the kubelet's first line about it to the first action of its worker.
fn handed_over(b: &mut Build<'_>, received: &Evidence, (at, worked): (Edge, Evidence)) {
    let f = b.seen;
    let add = f.line(&[Fact::PodAdded]).map(|(o, _)| o);
    let busy = add.filter(|a| (received.stamp.at.plus(BUSY)..=at.at).contains(&a.stamp.at));
    if let Some(a) = busy {
        b.add(Span::new(
            Stage::Admit,
            WAITS,
            edge(received),
            Some(edge(a)),
            Certainty::Measured,
            vec![received.clone(), a.clone()],
        ));
    }
    let taken = busy.unwrap_or(received);
    let whole = b.add(Span::new(
        Stage::Admit,
        "HandlePodAdditions",
        edge(taken),
        Some(at),
        Certainty::Measured,
        vec![taken.clone(), worked],
    ));
    let handed = f.line(&HANDED).filter(|(o, _)| o.stamp.at <= at.at);
    let (Some(a), Some((h, _))) = (add, handed) else {
        return;
    };
    let admitted = f
        .line(&[Fact::Admitted])
        .filter(|(o, _)| o.stamp.at >= a.stamp.at && o.stamp.at <= h.stamp.at)
        .map_or(h, |(o, _)| o);
    b.add(Span {
        parent: Some(whole),
        ..Span::new(
            Stage::Admit,
            "canAdmitPod",
            edge(a),
            Some(edge(admitted)),
            Certainty::Inferred,
            vec![admitted.clone(), a.clone()],
        )
    });
    if let Some((at, o)) = first_sync(b).filter(|(at, _)| at.at >= h.stamp.at) {
        b.add(Span::new(
            Stage::Admit,
            "UpdatePod",
            edge(h),
            Some(at),
            Certainty::Measured,
            vec![h.clone(), o],
        ));
    }
}

/// Adds the wait of a pod that the kubelet saw and has not handed to a worker: the sync loop is busy.
fn waiting(b: &mut Build<'_>, received: &Evidence) {
    let step_name = if b.seen.line(&[Fact::PodAdded]).is_some() {
        "HandlePodAdditions"
    } else {
        WAITS
    };
    let mut s = Span::new(
        Stage::Admit,
        step_name,
        edge(received),
        None,
        Certainty::Inferred,
        vec![received.clone()],
    );
    give_up(b, &mut s);
    b.add(s);
}

/// Adds the hand-over that no line shows. The worker acted, so it was between the binding and that action.
fn bounded(b: &mut Build<'_>, bound: Option<Edge>, worked: (Edge, Evidence)) {
    // The worker may have acted before its first log line.
    let earlier = first_work(b).into_iter().chain(told_work(b));
    let (at, w) = earlier
        .filter(|(at, _)| at.at < worked.0.at)
        .min_by_key(|(at, _)| *at)
        .unwrap_or(worked);
    let start = bound.filter(|start| start.at <= at.at).unwrap_or(at);
    b.add(Span::new(
        Stage::Admit,
        "HandlePodAdditions",
        start,
        Some(at),
        Certainty::Bounded,
        vec![w],
    ));
}

/// Adds the wait of a bound pod whose kubelet shows nothing of it.
fn not_taken(b: &mut Build<'_>, bound: Option<Edge>) {
    let Some(start) = bound.filter(|start| b.watched_at(start.at)) else {
        return;
    };
    let last = b.of(Stage::Schedule).last();
    let last = last.or_else(|| b.of(Stage::Api).last());
    let Some(proof) = last.and_then(|s| s.evidence.first().cloned()) else {
        return;
    };
    if b.view.node.is_empty() || b.started_by_api() {
        return;
    }
    let mut s = Span::new(
        Stage::Admit,
        "HandlePodAdditions",
        start,
        None,
        Certainty::Bounded,
        vec![proof],
    );
    give_up(b, &mut s);
    b.add(s);
}

/// Ends an open step of a pod that was deleted in the meantime.
fn give_up(b: &Build<'_>, s: &mut crate::timeline::Span) {
    if let Some(at) = b.view.gone {
        s.end = Some(Edge { at, precision: 1 });
        s.outcome = Outcome::Cancelled;
    }
}

/// The first trace of the worker: pod cgroup, pod directory or sandbox call.
fn first_work(b: &Build<'_>) -> Option<(Edge, Evidence)> {
    let fs = b
        .seen
        .fs
        .iter()
        .find(|(_, a, o)| {
            *a == FsAction::Created
                && matches!(o, FsObject::PodCgroup { .. } | FsObject::PodDir { .. })
        })
        .map(|(o, _, _)| (edge(o), (*o).clone()));
    let call = b
        .work
        .iter()
        .find(|w| w.method == method::RUN_POD_SANDBOX)
        .and_then(|w| Some((w.start, w.evidence.first()?.clone())));
    match (fs, call) {
        (Some(a), Some(c)) => Some(if a.0 <= c.0 { a } else { c }),
        (a, c) => a.or(c),
    }
}

/// The first Event of the worker, at its first occurrence. When the recording begins long after the pod was admitted,
/// no other evidence is from that time.
fn told_work(b: &Build<'_>) -> Option<(Edge, Evidence)> {
    const WORKS: [&str; 9] = [
        "Pulling",
        "Pulled",
        "Created",
        "Started",
        "Failed",
        "InspectFailed",
        "BackOff",
        "FailedMount",
        "FailedCreatePodSandBox",
    ];
    let all = b.seen.events_of(&WORKS).map(|(o, e)| {
        let newest = event_edge(o);
        let edge = e.began().map_or(newest, |at| Edge { at, ..newest });
        (edge, o.clone())
    });
    all.min_by_key(|(at, _)| *at)
}

/// The first attempt to mount a volume: the volume manager takes only pods that their workers know
/// (desired_state_of_world_populator.go, `findAndAddNewPods`).
fn first_mount(b: &Build<'_>) -> Option<(Edge, Evidence)> {
    const MOUNTS: [Fact; 4] = [
        Fact::MountStarted,
        Fact::VolumeSetUp,
        Fact::MountFailed,
        Fact::VolumesAwaited,
    ];
    let (o, _) = b.seen.lines(&MOUNTS).min_by_key(|(o, _)| o.stamp)?;
    Some((edge(o), o.clone()))
}

/// The kubelet's refusal of a pod: what shows it, its reason and its message.
type Refusal = (Evidence, String, String);

/// The kubelet's refusal of the pod: from the log line, else from the status.
fn rejection(b: &Build<'_>) -> Option<Refusal> {
    let f = b.seen;
    if let Some((o, l)) = f.line(&[Fact::AdmissionDenied]) {
        return Some((
            o.clone(),
            l.field("reason").unwrap_or_default().into(),
            l.field("message").unwrap_or_default().into(),
        ));
    }
    let lacked = f.line(&[Fact::ResourceLacked]);
    if let Some((o, (reason, text))) = lacked.and_then(|(o, l)| Some((o, l.failure()?))) {
        return Some((o.clone(), reason.into_owned(), text.into_owned()));
    }
    let (o, p) = f.states.iter().find(|(_, p)| {
        p.status.phase == PodPhase::Failed
            && !p.status.reason.is_empty()
            && p.status.containers.is_empty()
            && (Map::active().status(&p.status.message).is_some() || b.work.is_empty())
    })?;
    if b.work.iter().any(|w| w.method == method::RUN_POD_SANDBOX) {
        return None;
    }
    let event = f
        .events
        .iter()
        .find(|(_, e)| e.reason == p.status.reason)
        .map(|(o, _)| (*o).clone());
    Some((
        event.unwrap_or_else(|| (*o).clone()),
        p.status.reason.to_string(),
        p.status.message.to_string(),
    ))
}

/// Adds the spans of `cgroup`.
pub(crate) fn cgroup(b: &mut Build<'_>) {
    let f = b.seen;
    for (n, (o, e)) in (0..).zip(f.events_of(&["FailedCreatePodContainer"])) {
        let start = b.ends(Stage::Admit).unwrap_or_else(|| edge(o)).min(edge(o));
        let mut s = Span::new(
            Stage::Cgroup,
            "EnsureExists",
            start,
            Some(edge(o)),
            Certainty::Inferred,
            vec![o.clone()],
        );
        s.outcome = Outcome::Error;
        s.message.clone_from(&e.message);
        s.attempt = n;
        b.add(s);
    }
    let made = f.fs.iter().find(|(_, a, x)| {
        matches!(a, FsAction::Created | FsAction::Present)
            && matches!(x, FsObject::PodCgroup { .. })
    });
    let sync = first_sync(b);
    // A cgroup that existed when the watch began was created at some time before. What needs the cgroup may
    // give an earlier upper bound.
    let needs_it = f.line(&[Fact::VolumesAwaited]).map(|(o, _)| o.stamp.at);
    let needs_it = needs_it.into_iter().chain(b.first_work()).min();
    let made = made.filter(|(o, action, _)| {
        *action == FsAction::Created || needs_it.is_none_or(|t| o.stamp.at <= t)
    });
    if let Some((o, action, _)) = made {
        let before = f
            .lines(&[Fact::PhaseComputed, Fact::SyncBegan])
            .map(|(l, _)| (edge(l), l.clone()))
            .chain(sync)
            .filter(|(e, _)| e.at <= o.stamp.at)
            .max_by_key(|(e, _)| *e)
            .or_else(|| {
                let s = b.of(Stage::Admit).last()?;
                Some((
                    s.end.filter(|e| e.at <= o.stamp.at)?,
                    s.evidence.first()?.clone(),
                ))
            });
        let mut evidence = vec![(*o).clone()];
        let start = before.map_or_else(
            || edge(o),
            |(e, l)| {
                evidence.push(l);
                e
            },
        );
        let certainty = if *action == FsAction::Created {
            Certainty::Inferred
        } else {
            Certainty::Bounded
        };
        b.add(Span::new(
            Stage::Cgroup,
            "EnsureExists",
            start,
            Some(edge(o)),
            certainty,
            evidence,
        ));
        return;
    }
    // The wait for volumes comes after the cgroup's creation, whether or not the cgroup was watched.
    let after = f.line(&[Fact::VolumesAwaited]).map(|(o, _)| o);
    if let (Some((start, l)), Some(o)) = (sync, after)
        && o.stamp.at >= start.at
    {
        b.add(Span::new(
            Stage::Cgroup,
            "EnsureExists",
            start,
            Some(edge(o)),
            Certainty::Bounded,
            vec![o.clone(), l],
        ));
    }
}
