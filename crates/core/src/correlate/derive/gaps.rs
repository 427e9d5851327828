//! Times that no evidence explains.

use super::Build;
use crate::flow::{Fact, Stage};
use crate::timeline::{Certainty, Edge, Outcome, Span, UnknownGap};
use kflow_model::cri::method;
use kflow_model::stamp::SECOND;
use kflow_model::{Nanos, Source, Text};

/// Adds the gap of evidence that was dropped from a pod that lives for weeks.
fn folded(b: &mut Build<'_>) {
    let f = b.input.folded;
    if f.count > 0 {
        b.gaps.push(UnknownGap {
            stage: Stage::Ready,
            start: f.since,
            end: Some(f.until),
            why: format!(
                "{} observations of this time are kept no more: too many of one pod",
                f.count
            )
            .into(),
        });
    }
}

/// True for a step of the pod worker: of the volume manager's work only the wait for it.
fn by_worker(s: &Span) -> bool {
    s.stage != Stage::Volumes || s.step == "WaitForAttachAndMount"
}

/// Adds the pod worker's back-off: a failed step is tried again at the next sync.
fn retries(b: &mut Build<'_>) {
    // Failed steps; each is followed by a wait until the next step begins.
    let failed: Vec<Span> = b
        .spans()
        .iter()
        .filter(|s| {
            (s.outcome == Outcome::Error || s.is_timed_out())
                && s.parent.is_none()
                && matches!(
                    s.step.as_str(),
                    method::RUN_POD_SANDBOX
                        | method::PULL_IMAGE
                        | method::CREATE_CONTAINER
                        | method::START_CONTAINER
                        | "generateContainerConfig"
                        | "startContainer"
                        | "EnsureImageExists"
                        | "WaitForAttachAndMount"
                )
        })
        .cloned()
        .collect();
    // Nobody saw when a pod of the past stopped waiting: its `gone` is only the first list without the pod.
    let over = b
        .view
        .deletion_requested
        .or(b.view.gone.filter(|_| !b.view.past))
        .map(|at| Edge { at, precision: 1 });
    let terminal = b.view.phase.is_over();
    for s in failed {
        let Some(end) = s.end else { continue };
        if over.is_some_and(|o| end.at >= o.at) {
            continue;
        }
        let goes_on = b.spans().iter().any(|x| {
            x.start.at <= end.at
                && x.end.is_none_or(|e| e.at > end.at)
                && !x.is_run()
                && x.stage.index() > 1
        });
        if goes_on {
            continue;
        }
        let next = b
            .spans()
            .iter()
            .filter(|x| x.start.at > end.at && !x.is_run() && by_worker(x))
            // After a failed pull, each sync looks the image up before it finds that it has to wait.
            .filter(|x| s.step != method::PULL_IMAGE || x.step != method::IMAGE_STATUS)
            .min_by_key(|x| x.start)
            .map(|x| (x.start, x.evidence.first().cloned()));
        // The sync continues with another container, or a wait with a name of its own begins.
        if next
            .as_ref()
            .is_some_and(|(n, _)| n.at.since(end.at) < SECOND)
            || next.is_none() && terminal
        {
            continue;
        }
        let line = b.seen.lines(&[Fact::SyncFailed]).find(|(o, _)| {
            o.stamp.at >= end.at.plus(-SECOND)
                && next.as_ref().is_none_or(|(n, _)| o.stamp.at <= n.at)
        });
        let mut evidence: Vec<_> = s.evidence.last().cloned().into_iter().collect();
        evidence.extend(line.map(|(o, _)| o.clone()));
        let until = next.as_ref().map(|(e, _)| *e);
        evidence.extend(next.and_then(|(_, o)| o));
        evidence.dedup();
        let mut wait = Span::new(
            s.stage,
            "completeWork",
            end,
            match (until, over) {
                (Some(u), Some(o)) => Some(u.min(o)),
                (u, o) => u.or(o),
            },
            Certainty::Inferred,
            evidence,
        );
        wait.container.clone_from(&s.container);
        wait.attempt = s.attempt;
        wait.message = line.map_or_else(|| s.message.clone(), |(_, l)| l.error().into());
        if until.is_none() && over.is_some() {
            wait.outcome = Outcome::Cancelled;
        }
        b.add(wait);
    }
}

/// Adds gaps where no span covers the time: from the first span to readiness (or the newest span), and from the
/// deletion request to the end.
pub(crate) fn derive(b: &mut Build<'_>) {
    retries(b);
    folded(b);
    // Intervals with known activity; an open span covers everything after it.
    let mut covered: Vec<(Nanos, Option<Nanos>, Stage)> = b
        .spans()
        .iter()
        .filter(|s| !s.is_garbage_collection())
        .map(|s| (s.start.at, s.end.map(|e| e.at), s.stage))
        .collect();
    // A pod that has ended waits only for its deletion.
    if let Some((o, _)) = b.seen.states.iter().find(|(_, p)| p.status.phase.is_over()) {
        let asked = b.view.deletion_requested.or(b.view.gone);
        covered.push((o.stamp.at, asked.map(|a| a.max(o.stamp.at)), Stage::Ready));
    }
    covered.sort();
    let Some((first, _, _)) = covered.first().copied() else {
        if !b.view.node.is_empty() || b.seen.states.is_empty() {
            return;
        }
        b.gap(Stage::Api, b.view.created, None, "nothing was recorded");
        return;
    };
    let mut until = first;
    let mut open = false;
    let mut found = Vec::new();
    let mut last = Stage::Api;
    let end_of_all = b.view.gone;
    for (start, end, stage) in covered {
        // Later garbage collection leaves no gap.
        if end_of_all.is_some_and(|e| start > e) {
            break;
        }
        if !open && start > until {
            found.push((stage, until, start));
        }
        match end {
            Some(e) => until = until.max(e),
            None => open = true,
        }
        last = stage;
    }
    for (stage, start, end) in found {
        let why = why(b, start, end);
        b.gap(stage, start, Some(end), why);
    }
    // A pod that is neither Ready nor over, without a stated reason.
    let over = b.view.gone.is_some()
        || b.view.phase.is_over()
        || b.spans()
            .iter()
            .any(|s| s.outcome == Outcome::InFlight && s.end.is_none())
        || told(b)
        || nothing_follows(b);
    if !over {
        let next = Stage::ALL
            .get(last.index() + 1)
            .copied()
            .unwrap_or(Stage::Terminate);
        let why = why(b, until, b.view.changed.max(until));
        b.gap(next, until, None, why);
    }
}

/// True when the newest status states what a container waits for, when the newest run of a container failed (it is
/// started again), or when the newest mount failed.
fn told(b: &Build<'_>) -> bool {
    let waits = b
        .seen
        .newest()
        .is_some_and(|p| p.statuses().any(|c| c.state.held_up_by().is_some()));
    let failed = |container: &Text| {
        let newest = b.runs.iter().rfind(|r| r.container == *container);
        newest.is_some_and(|r| r.end.is_some() && r.exit_code.is_some_and(|code| code != 0))
    };
    // A failed mount is tried again.
    let mount = b.of(Stage::Volumes).max_by_key(|s| s.end);
    let mounts =
        mount.is_some_and(|s| s.outcome == Outcome::Error) && b.of(Stage::Sandbox).next().is_none();
    waits || mounts || b.runs.iter().any(|r| failed(&r.container))
}

/// True for a pod that the API never showed and that ended early: its creation was refused, or the runtime removed it.
fn nothing_follows(b: &Build<'_>) -> bool {
    let refused = b
        .spans()
        .iter()
        .all(|s| s.stage == Stage::Api && s.outcome == Outcome::Error);
    let removed = b
        .spans()
        .iter()
        .filter(|s| s.stage != Stage::Terminate || s.step == method::REMOVE_POD_SANDBOX)
        .max_by_key(|s| s.start)
        .is_some_and(|s| s.step == method::REMOVE_POD_SANDBOX && s.outcome == Outcome::Ok);
    b.seen.states.is_empty() && (refused || removed)
}

fn why(b: &Build<'_>, start: Nanos, end: Nanos) -> &'static str {
    let node = [Source::Cri, Source::Kubelet, Source::Fs];
    if b.input.context.began.is_some_and(|began| end <= began) {
        "before the recording began"
    } else if b
        .input
        .context
        .blind
        .iter()
        .any(|(s, e)| *s <= end && *e >= start)
    {
        "the tap was blind"
    } else if !node.into_iter().any(|s| b.input.context.has(s)) {
        "no node source"
    } else if b.view.node.is_empty() && !b.input.evidence.iter().any(|o| node.contains(&o.source)) {
        "not known where the pod ran"
    } else if !b.view.node.is_empty() && !b.watches_node() {
        "no source on this pod's node"
    } else if !b.input.context.has(Source::Kubelet) {
        "no kubelet log"
    } else if !b.input.context.has(Source::Cri) {
        "no tap on the runtime"
    } else {
        "nothing was recorded"
    }
}
