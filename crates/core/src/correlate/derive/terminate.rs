//! The stage `terminate`: from the deletion request to the last unmount, the cgroup's removal and the final delete.

mod calls;
mod unmount;

use super::Build;
use super::api::of_request;
use super::cri::of_work;
use super::span::edge;
use crate::flow::{Fact, Stage, span};
use crate::timeline::{Certainty, Edge, Outcome, Span};
use kflow_model::cri::method;
use kflow_model::fs::{FsAction, FsObject};
use kflow_model::stamp::SECOND;
use kflow_model::units::seconds;
use kflow_model::{Evidence, Nanos};

/// Adds the spans of `terminate`.
pub(crate) fn derive(b: &mut Build<'_>) {
    let asked = request(b);
    pairs(b);
    told(b);
    pre_stop(b, asked);
    calls::calls(b, asked);
    unmount::unmounts(b);
    removals(b);
    final_delete(b);
    if b.of(Stage::Terminate).next().is_none()
        && let Some(at) = b.view.deletion_requested
        && let Some((o, p)) = b.seen.states.iter().find(|(_, p)| p.deletion.is_some())
    {
        // Deletion was requested, and no source shows more.
        let gone = b.view.gone.map(|at| Edge { at, precision: 1 });
        let mut s = Span::new(
            Stage::Terminate,
            "Delete",
            Edge {
                at,
                precision: SECOND as u32,
            },
            gone,
            Certainty::Bounded,
            vec![(*o).clone()],
        );
        if let Some(grace) = p.deletion_grace_s {
            s.message = format!("grace {}", seconds(grace)).into();
        }
        b.add(s);
    }
}

/// Adds the deletion and eviction requests; returns when deletion was requested.
fn request(b: &mut Build<'_>) -> Option<Nanos> {
    let f = b.seen;
    for r in &f.requests {
        let eviction = r.a.resource == "pods/eviction";
        let delete = r.a.verb == "delete" && r.a.resource == "pods";
        // The kubelet's own delete request comes last and is another step.
        if !(eviction || delete) || (delete && r.a.agent.starts_with("kubelet/")) {
            continue;
        }
        if r.came_too_late(b.view.gone) {
            continue;
        }
        let mut s = Span::new(
            Stage::Terminate,
            if eviction { "Evict" } else { "Delete" },
            r.received,
            r.complete,
            Certainty::Measured,
            r.evidence.clone(),
        );
        s.message.clone_from(&r.a.user);
        if r.a.code >= 400 {
            s.outcome = Outcome::Error;
            s.code = format!("{}", r.a.code).into();
            s.message.clone_from(&r.a.message);
        }
        b.add(s);
    }
    b.view.deletion_requested
}

/// Adds the time from the request until the pod's worker begins to stop the pod: it may be busy with a call that
/// nothing cancels.
fn told(b: &mut Build<'_>) {
    let f = b.seen;
    let Some(asked) = b.view.deletion_requested else {
        return;
    };
    // No kubelet handles an unbound pod.
    if b.view.node.is_empty() || !b.watched_at(asked) {
        return;
    }
    let Some(proof) = b
        .of(Stage::Terminate)
        .filter(|s| s.step == "Delete" || s.step == "Evict")
        .find_map(|s| s.evidence.first().cloned())
        .or_else(|| {
            f.states
                .iter()
                .find(|(_, p)| p.deletion.is_some())
                .map(|(o, _)| (*o).clone())
        })
    else {
        return;
    };
    let start = b
        .of(Stage::Terminate)
        .filter(|s| s.step == "Delete" && s.start.at == asked)
        .find_map(|s| s.end)
        .unwrap_or(Edge {
            at: asked,
            precision: if f.requests.is_empty() {
                SECOND as u32
            } else {
                1_000
            },
        });
    let turned = b
        .of(Stage::Terminate)
        .filter(|s| s.step == "SyncTerminatingPod")
        .map(|s| (s.start, s.evidence.first().cloned()))
        .chain(
            b.work
                .iter()
                .filter(|w| {
                    matches!(
                        w.method.as_str(),
                        method::STOP_CONTAINER | method::STOP_POD_SANDBOX
                    )
                })
                .map(|w| (w.start, w.evidence.first().cloned())),
        )
        // The worker may begin before the request is answered.
        .filter(|(e, _)| e.at >= asked)
        .min_by_key(|(e, _)| *e);
    let start = turned.as_ref().map_or(start, |(e, _)| start.min(*e));
    // There is nothing to stop: the pod had ended, or never began.
    let over = f
        .states
        .iter()
        .any(|(o, p)| o.stamp.at <= start.at && p.status.phase.is_over());
    if turned.is_none()
        && (over || b.view.gone.is_some() || !b.started_by_api() && b.work.is_empty())
    {
        return;
    }
    let mut evidence = vec![proof];
    let end = turned.as_ref().map(|(e, _)| *e);
    evidence.extend(turned.and_then(|(_, o)| o));
    b.add(Span::new(
        Stage::Terminate,
        "UpdatePod",
        start,
        end,
        Certainty::Inferred,
        evidence,
    ));
}

/// Adds `SyncTerminatingPod` and `SyncTerminatedPod`, from the worker's spans and its log lines.
fn pairs(b: &mut Build<'_>) {
    let f = b.seen;
    for (name, enter, exit) in [
        (
            "SyncTerminatingPod",
            Fact::TerminatingBegan,
            Fact::TerminatingEnded,
        ),
        (
            "SyncTerminatedPod",
            Fact::TerminatedBegan,
            Fact::TerminatedEnded,
        ),
    ] {
        let spans: Vec<_> = f
            .spans
            .iter()
            .filter(|(_, s)| span(s) == Some(enter))
            .collect();
        let mut attempt = 0;
        for (o, s) in &spans {
            let mut evidence = vec![(*o).clone()];
            evidence.extend(
                f.lines(&[enter, exit])
                    .filter(|(l, _)| {
                        l.stamp.at.plus(SECOND / 100) >= o.stamp.at
                            && l.stamp.at <= s.end.plus(SECOND / 100)
                    })
                    .map(|(l, _)| l.clone()),
            );
            let mut span = Span::new(
                Stage::Terminate,
                name,
                edge(o),
                Some(Edge {
                    at: s.end,
                    precision: 1,
                }),
                Certainty::Measured,
                evidence,
            );
            span.attempt = attempt;
            if s.error {
                span.outcome = Outcome::Error;
                span.message.clone_from(&s.message);
            }
            attempt += 1;
            b.add(span);
        }
        let lines: Vec<_> = f.lines(&[enter, exit]).collect();
        for (i, (o, l)) in lines.iter().enumerate() {
            if l.fact() != enter
                || spans
                    .iter()
                    .any(|(x, _)| x.stamp.at.since(o.stamp.at).abs() < SECOND / 50)
            {
                continue;
            }
            let end = lines.get(i + 1).filter(|(_, n)| n.fact() == exit);
            // A span is exported only when it ends, so an open step is known only from its line.
            let mut evidence = vec![(*o).clone()];
            evidence.extend(end.map(|(o, _)| (*o).clone()));
            let mut s = Span::new(
                Stage::Terminate,
                name,
                edge(o),
                end.map(|(o, _)| edge(o)),
                Certainty::Measured,
                evidence,
            );
            s.attempt = attempt;
            attempt += 1;
            b.add(s);
        }
    }
}

/// Adds preStop hooks: from the kubelet's lines, else from ExecSync calls without a deadline.
fn pre_stop(b: &mut Build<'_>, asked: Option<Nanos>) {
    const ENDS: [Fact; 2] = [Fact::PreStopEnded, Fact::PreStopTimedOut];
    let f = b.seen;
    let mut by_log = false;
    for (o, l) in f.lines(&[Fact::PreStopBegan]) {
        by_log = true;
        let end = f
            .lines(&ENDS)
            .find(|(e, x)| e.stamp.at >= o.stamp.at && x.container == l.container);
        let mut evidence = vec![o.clone()];
        evidence.extend(end.map(|(o, _)| o.clone()));
        let exec = b.work.iter().find(|w| {
            w.method == method::EXEC_SYNC
                && w.deadline_ns.is_none()
                && w.container_id == l.container_id.0
                && w.start.at >= o.stamp.at
        });
        let mut s = Span::new(
            Stage::Terminate,
            "PreStopHook",
            edge(o),
            end.map(|(o, _)| edge(o)),
            Certainty::Measured,
            evidence,
        );
        if let Some(w) = exec {
            s.call = w.key;
            s.evidence.extend(w.evidence.iter().cloned());
            if end.is_none() {
                s.end = w.end;
                s.outcome = w.outcome;
            }
            s.code.clone_from(&w.code);
            s.message.clone_from(&w.message);
        }
        s.container.clone_from(&l.container);
        if end.is_some_and(|(_, l)| l.fact() == Fact::PreStopTimedOut) {
            s.outcome = Outcome::Cancelled;
            s.message = "not completed in the grace period".into();
        }
        b.add(s);
    }
    if by_log {
        return;
    }
    let Some(asked) = asked else { return };
    let hooks: Vec<_> = b
        .work
        .iter()
        .filter(|w| {
            w.method == method::EXEC_SYNC
                && w.key.is_some()
                && w.deadline_ns.is_none()
                && w.start.at >= asked
        })
        .cloned()
        .collect();
    for w in &hooks {
        let mut s = of_work(Stage::Terminate, w);
        s.step = "PreStopHook".into();
        b.add(s);
    }
}

/// Adds the removal of the pod's cgroup and directory.
fn removals(b: &mut Build<'_>) {
    let f = b.seen;
    let removed =
        f.fs.iter()
            .rfind(|(_, a, x)| *a == FsAction::Removed && matches!(x, FsObject::PodCgroup { .. }));
    let line = f.line(&[Fact::CgroupRemoved]);
    if removed.is_some() || line.is_some() {
        let before = f.lines(&[Fact::VolumesUnmounted]).next_back();
        let ends: Vec<(Edge, Evidence)> = removed
            .map(|(o, _, _)| (edge(o), (*o).clone()))
            .into_iter()
            .chain(line.map(|(o, _)| (edge(o), o.clone())))
            .collect();
        if let Some((end, _)) = ends.first().cloned() {
            let mut evidence: Vec<Evidence> = ends.into_iter().map(|(_, o)| o).collect();
            let start = before
                .filter(|(o, _)| o.stamp.at <= end.at)
                .map_or(end, |(o, _)| {
                    evidence.push(o.clone());
                    edge(o)
                });
            b.add(Span::new(
                Stage::Terminate,
                "Destroy",
                start,
                Some(end),
                Certainty::Inferred,
                evidence,
            ));
        }
    }
    if let Some((o, _, _)) =
        f.fs.iter()
            .rfind(|(_, a, x)| *a == FsAction::Removed && matches!(x, FsObject::PodDir { .. }))
    {
        let found = f.line(&[Fact::OrphanRemoved]).map(|(o, _)| o);
        let mut evidence = vec![(*o).clone()];
        let mut start = edge(o);
        if let Some(l) = found
            && l.stamp.at <= o.stamp.at
        {
            start = edge(l);
            evidence.push(l.clone());
        }
        b.add(Span::new(
            Stage::Terminate,
            "cleanupOrphanedPodDirs",
            start,
            Some(edge(o)),
            Certainty::Inferred,
            evidence,
        ));
    }
}

/// Adds the final delete request (grace 0), which the kubelet sends when nothing of the pod is left, and
/// the wait for finalizers.
fn final_delete(b: &mut Build<'_>) {
    let f = b.seen;
    let last = f.requests.iter().rfind(|r| {
        r.a.verb == "delete" && r.a.resource == "pods" && r.a.agent.starts_with("kubelet/")
    });
    if let Some(r) = last {
        b.add(of_request(Stage::Terminate, "syncPod.delete", r));
    }
    // Finalizers keep the object of a pod that has long ended.
    let Some(p) = f.newest() else { return };
    if p.finalizers.is_empty() || p.deletion.is_none() {
        return;
    }
    let stopped = b.ends(Stage::Terminate).or_else(|| {
        b.view
            .deletion_requested
            .map(|at| Edge { at, precision: 1 })
    });
    let Some(start) = stopped else { return };
    let Some(o) = f.states.last().map(|(o, _)| (*o).clone()) else {
        return;
    };
    let mut s = Span::new(
        Stage::Terminate,
        "finalizers",
        start,
        b.view.gone.map(|at| Edge { at, precision: 1 }),
        Certainty::Inferred,
        vec![o],
    );
    s.message = p.finalizers.join(", ").into();
    b.add(s);
}
