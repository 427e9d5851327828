//! The stage `volumes`: the pod worker's wait, and the volume manager's work during it.

use super::Build;
use super::span::edge;
use crate::flow::{Fact, Stage};
use crate::timeline::{Certainty, Edge, Outcome, Span, SpanIndex};
use kflow_model::cri::method;
use kflow_model::fs::{FsAction, FsObject};
use kflow_model::pod::Condition;
use kflow_model::{Evidence, Text};

/// Waits shorter than this (ns) are left out once the volumes were mounted: every later sync waits again.
const MOMENT: i64 = 100 * kflow_model::stamp::MILLI;

/// Adds the spans of `volumes`.
pub(crate) fn derive(b: &mut Build<'_>) {
    let waits = waits(b);
    if !by_log(b, &waits) {
        by_fs(b, &waits);
    }
    if b.of(Stage::Volumes).next().is_none() {
        by_events(b);
    }
}

/// Adds the worker's waits, from its log, or from the creation of the pod's directory to the sandbox.
fn waits(b: &mut Build<'_>) -> Vec<SpanIndex> {
    let f = b.seen;
    let lines: Vec<_> = f
        .lines(&[
            Fact::VolumesAwaited,
            Fact::VolumesMounted,
            Fact::VolumesTimedOut,
        ])
        .collect();
    let mut out = Vec::new();
    let mut attempt = 0;
    let mut mounted = false;
    for (i, (o, l)) in lines.iter().enumerate() {
        if l.fact() != Fact::VolumesAwaited {
            continue;
        }
        let next = lines
            .get(i + 1)
            .filter(|(_, n)| n.fact() != Fact::VolumesAwaited);
        let closed_by_sandbox = b
            .work
            .iter()
            .find(|w| w.method == method::RUN_POD_SANDBOX && w.start.at >= o.stamp.at)
            .map(|w| (w.start, w.evidence.first().cloned()));
        let (end, proof) = match next {
            Some((n, _)) => (Some(edge(n)), Some((*n).clone())),
            // The line of its end is an error's, or of a higher verbosity; the sandbox is created after it.
            None => closed_by_sandbox.map_or((None, None), |(e, p)| (Some(e), p)),
        };
        let short = end.is_some_and(|e| e.at.since(o.stamp.at) < MOMENT);
        // Without that line, the worker's next error shows that the wait was given up.
        let again = lines
            .get(i + 1)
            .filter(|(_, n)| n.fact() == Fact::VolumesAwaited);
        let error = f.lines(&[Fact::SyncFailed]).find(|(e, _)| {
            e.stamp.at >= o.stamp.at && again.is_none_or(|(n, _)| e.stamp.at <= n.stamp.at)
        });
        let (end, proof, error) = match (end, error, again) {
            (None, Some((e, l)), _) => (Some(edge(e)), Some(e.clone()), Some(l)),
            (_, Some((e, l)), _) if next.is_none() && end.is_some_and(|x| x.at > e.stamp.at) => {
                (Some(edge(e)), Some(e.clone()), Some(l))
            }
            (_, None, Some((n, l))) if next.is_none() => {
                (Some(edge(n)), Some((*n).clone()), Some(*l))
            }
            (end, _, _) => (end, proof, None),
        };
        let failed = next
            .filter(|(_, n)| n.fact() == Fact::VolumesTimedOut)
            .map(|(_, l)| *l)
            .or(error);
        if mounted && short && failed.is_none() {
            continue;
        }
        let mut evidence = vec![(*o).clone()];
        evidence.extend(proof);
        let mut s = Span::new(
            Stage::Volumes,
            "WaitForAttachAndMount",
            edge(o),
            end,
            Certainty::Measured,
            evidence,
        );
        s.attempt = attempt;
        if let Some(n) = failed {
            s.outcome = Outcome::Error;
            s.message = n.error().into();
        } else if end.is_some() {
            mounted = true;
        } else if let Some(at) = b.view.deletion_requested.or(b.view.gone) {
            // Deletion cancels the sync.
            if at >= o.stamp.at {
                s.end = Some(Edge { at, precision: 1 });
                s.outcome = Outcome::Cancelled;
                s.certainty = Certainty::Inferred;
            }
        }
        attempt += 1;
        out.push(b.add(s));
    }
    if out.is_empty() {
        let dir =
            f.fs.iter()
                .find(|(_, a, x)| *a == FsAction::Created && matches!(x, FsObject::PodDir { .. }));
        let sandbox = b.work.iter().find(|w| w.method == method::RUN_POD_SANDBOX);
        if let Some((o, _, _)) = dir {
            let mut evidence = vec![(*o).clone()];
            evidence.extend(sandbox.and_then(|w| w.evidence.first().cloned()));
            let end = sandbox.map(|w| w.start).filter(|e| e.at >= o.stamp.at);
            if end.is_some() || b.view.gone.is_none() {
                out.push(b.add(Span::new(
                    Stage::Volumes,
                    "WaitForAttachAndMount",
                    edge(o),
                    end,
                    Certainty::Inferred,
                    evidence,
                )));
            }
        }
    }
    out
}

/// The wait that a time is in.
fn wait_at(b: &Build<'_>, waits: &[SpanIndex], at: Edge) -> Option<SpanIndex> {
    waits.iter().rev().copied().find(|i| {
        b.spans()
            .get(*i as usize)
            .is_some_and(|w| w.start.at <= at.at && w.end.is_none_or(|e| e.at >= at.at))
    })
}

/// Facts about the volume manager's work on one volume.
const OPERATIONS: [Fact; 10] = [
    Fact::MountStarted,
    Fact::DeviceMounted,
    Fact::VolumeSetUp,
    Fact::AttachAwaited,
    Fact::VolumeAttached,
    Fact::DeviceMountFailed,
    Fact::AttachFailed,
    Fact::MountFailed,
    Fact::UnmountStarted,
    Fact::VolumeTornDown,
];

/// Adds the volume manager's operations on each volume, from its log lines; false when there are none.
fn by_log(b: &mut Build<'_>, waits: &[SpanIndex]) -> bool {
    struct Volume {
        name: Text,
        mount: Option<Evidence>,
        attach: Option<Evidence>,
        attempt: u32,
        done: bool,
    }
    let f = b.seen;
    let mut volumes: Vec<Volume> = Vec::new();
    let mut any = false;
    for (o, l) in f.lines(&OPERATIONS) {
        let Some(name) = l.name("volume") else {
            continue;
        };
        let i = volumes
            .iter()
            .position(|v| v.name == name)
            .unwrap_or_else(|| {
                volumes.push(Volume {
                    name: name.into(),
                    mount: None,
                    attach: None,
                    attempt: 0,
                    done: false,
                });
                volumes.len() - 1
            });
        let Some(v) = volumes.get_mut(i) else {
            continue;
        };
        let (what, start, outcome) = match l.fact() {
            Fact::AttachAwaited => {
                v.attach.get_or_insert_with(|| o.clone());
                continue;
            }
            Fact::MountStarted => {
                v.mount.get_or_insert_with(|| o.clone());
                continue;
            }
            Fact::VolumeAttached => (
                "VerifyControllerAttachedVolume",
                v.attach.take(),
                Outcome::Ok,
            ),
            Fact::DeviceMounted => ("MountVolume.MountDevice", v.mount.clone(), Outcome::Ok),
            Fact::VolumeSetUp => {
                v.attach = None;
                let mount = v.mount.take();
                // Volumes whose content may change are set up again at later syncs.
                if std::mem::replace(&mut v.done, true) {
                    continue;
                }
                ("MountVolume.SetUp", mount, Outcome::Ok)
            }
            Fact::UnmountStarted | Fact::VolumeTornDown => {
                v.done = true;
                continue;
            }
            failed => (
                match failed {
                    Fact::DeviceMountFailed => "MountVolume.MountDevice",
                    Fact::AttachFailed => "VerifyControllerAttachedVolume",
                    _ => "MountVolume.SetUp",
                },
                v.mount.take().or_else(|| v.attach.take()),
                Outcome::Error,
            ),
        };
        any = true;
        let certainty = if start.is_some() {
            Certainty::Measured
        } else {
            Certainty::Inferred
        };
        let begin = start.as_ref().map_or_else(|| edge(o), edge);
        let mut evidence = vec![o.clone()];
        evidence.extend(start);
        let mut s = Span::new(
            Stage::Volumes,
            what,
            begin.min(edge(o)),
            Some(edge(o)),
            certainty,
            evidence,
        );
        s.outcome = outcome;
        s.attempt = v.attempt;
        s.message = if outcome == Outcome::Error {
            v.attempt += 1;
            // `Operation for "…" failed. No retries permitted until … Error: MountVolume.SetUp failed …`.
            l.name("error").unwrap_or(&l.line().message).into()
        } else {
            format!("volume {name}").into()
        };
        s.parent = wait_at(b, waits, begin);
        b.add(s);
    }
    for v in volumes {
        // A mount that began and is not finished hangs. An open attach is ignored: a later mount
        // implies that it succeeded.
        if let Some(o) = v.mount.filter(|_| !v.done)
            && b.view.gone.is_none()
        {
            let mut s = Span::new(
                Stage::Volumes,
                "MountVolume.SetUp",
                edge(&o),
                None,
                Certainty::Inferred,
                vec![o.clone()],
            );
            s.attempt = v.attempt;
            s.message = format!("volume {}", v.name).into();
            s.parent = wait_at(b, waits, edge(&o));
            b.add(s);
            any = true;
        }
    }
    any
}

/// Adds the setup of each volume, from its directory and mount point.
fn by_fs(b: &mut Build<'_>, waits: &[SpanIndex]) {
    let f = b.seen;
    let worked = b.first_work();
    let mut begun: Vec<(&Text, &Evidence)> = Vec::new();
    for (o, action, x) in &f.fs {
        // What was there when the watch began was made before the sandbox.
        if *action == FsAction::Present && worked.is_some_and(|at| at < o.stamp.at) {
            continue;
        }
        let (volume, finished) = match x {
            FsObject::Volume { volume, inner, .. } if !volume.is_empty() => {
                (volume, inner == "..data" || inner == "mount")
            }
            FsObject::VolumeMount { volume, .. } => (volume, true),
            _ => continue,
        };
        match action {
            FsAction::Created | FsAction::Present
                if !finished && !begun.iter().any(|(v, _)| *v == volume) =>
            {
                begun.push((volume, *o));
            }
            FsAction::Created | FsAction::Changed | FsAction::Present if finished => {
                if let Some(i) = begun.iter().position(|(v, _)| *v == volume) {
                    let (_, start) = begun.swap_remove(i);
                    let mut s = Span::new(
                        Stage::Volumes,
                        "MountVolume.SetUp",
                        edge(start),
                        Some(edge(o)),
                        Certainty::Inferred,
                        vec![(*o).clone(), start.clone()],
                    );
                    s.message = format!("volume {volume}").into();
                    s.parent = wait_at(b, waits, edge(start));
                    b.add(s);
                }
            }
            _ => {}
        }
    }
}

/// Adds failures from the Events of the API alone, and the wait after them.
fn by_events(b: &mut Build<'_>) {
    let f = b.seen;
    let since = b.ends(Stage::Admit).or_else(|| b.ends(Stage::Schedule));
    let reasons = ["FailedMount", "FailedAttachVolume", "FailedMapVolume"];
    let failed = b.failures(Stage::Volumes, "WaitForAttachAndMount", &reasons, since);
    let Some((start, proof)) = failed else {
        return;
    };
    let ready = f.states.iter().find(|(o, p)| {
        o.stamp.at >= start.at
            && p.condition("PodReadyToStartContainers")
                .is_some_and(Condition::is_true)
    });
    if let Some((o, _)) = ready {
        b.add(Span::new(
            Stage::Volumes,
            "WaitForAttachAndMount",
            start,
            Some(edge(o)),
            Certainty::Bounded,
            vec![(*o).clone(), proof],
        ));
    }
}
