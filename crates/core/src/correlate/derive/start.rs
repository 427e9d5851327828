//! The stage `start`: containers start, run, exit, and wait in back-off.

use super::Build;
use super::cri::{nested, of_work};
use super::runtime_calls::Run;
use super::span::{edge, event_edge, narrow};
use crate::flow::{Fact, Stage, event};
use crate::timeline::{Certainty, Edge, Outcome, RUN, Span};
use kflow_model::cri::{ContainerEventKind, OOM_KILLED, method};
use kflow_model::pod::{ContainerState, ContainerStatus};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos, Text};

/// Adds the spans of `start`.
pub(crate) fn derive(b: &mut Build<'_>) {
    let work = std::mem::take(&mut b.work);
    for (i, w) in work.iter().enumerate() {
        match w.method.as_str() {
            method::START_CONTAINER => {
                let at = b.add(of_work(Stage::Start, w));
                nested(b, at, w);
            }
            // Hooks have no deadline; an ExecSync right after a container's start is its postStart hook.
            method::EXEC_SYNC
                if w.deadline_ns.is_none()
                    && w.key.is_some()
                    && b.view.deletion_requested.is_none_or(|d| w.start.at < d)
                    && work.iter().take(i).rev().any(|x| {
                        x.method == method::START_CONTAINER
                            && x.container_id == w.container_id
                            && x.ended().is_some_and(|e| w.start.at.since(e) < SECOND / 4)
                    }) =>
            {
                let mut s = of_work(Stage::Start, w);
                s.step = "PostStartHook".into();
                b.add(s);
            }
            _ => {}
        }
    }
    b.work = work;
    let runs = runs(b);
    for r in &runs {
        let Some(start) = r.start else { continue };
        let mut s = Span::new(
            Stage::Start,
            RUN,
            start,
            r.end,
            r.certainty,
            r.evidence.clone(),
        );
        s.container.clone_from(&r.container);
        s.attempt = r.attempt.unwrap_or(0);
        if let Some(code) = r.exit_code {
            s.code = format!("{code}").into();
            if code != 0 {
                s.outcome = Outcome::Error;
            }
        }
        s.message.clone_from(&r.reason);
        b.add(s);
    }
    relists(b, &runs);
    if !shows_starts(b) {
        by_api(b, &runs);
    }
    back_off(b, &runs);
    b.runs = runs;
}

/// Adds the time from an exit until PLEG's next relist finds the exit: the kubelet reacts only then.
fn relists(b: &mut Build<'_>, runs: &[Run]) {
    let f = b.seen;
    for r in runs {
        let Some(end) = r.end.filter(|e| e.precision <= 1_000) else {
            continue;
        };
        if b.view.deletion_requested.is_some_and(|d| end.at >= d) {
            continue;
        }
        let found = f
            .lines(&[Fact::ExitFound])
            .find(|(o, l)| l.container_id.as_str() == r.id.as_str() && o.stamp.at > end.at);
        if let Some((o, _)) = found {
            let mut evidence = vec![o.clone()];
            evidence.extend(r.evidence.last().filter(|e| *e != o).cloned());
            let mut s = Span::new(
                Stage::Start,
                "Relist",
                end,
                Some(edge(o)),
                Certainty::Inferred,
                evidence,
            );
            s.container.clone_from(&r.container);
            s.attempt = r.attempt.unwrap_or(0);
            b.add(s);
        }
    }
}

/// All known runs, sorted by container and start.
fn runs(b: &Build<'_>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    by_calls(b, &mut runs);
    by_items(b, &mut runs);
    by_container_events(b, &mut runs);
    by_relist(b, &mut runs);
    by_status(b, &mut runs);
    by_events(b, &mut runs);
    by_stops(b, &mut runs);
    for r in &mut runs {
        if let (Some(s), Some(e)) = (r.start, r.end)
            && e.at < s.at
        {
            // A process may exit before the call that started it returns.
            r.start = Some(Edge {
                at: e.at,
                precision: u32::try_from(s.at.since(e.at)).unwrap_or(u32::MAX).max(1),
            });
            r.certainty = r.certainty.max(Certainty::Inferred);
        }
    }
    runs.retain(|r| !r.container.is_empty());
    runs.sort_by(|a, b| {
        (&a.container, a.start, a.attempt, &a.id).cmp(&(&b.container, b.start, b.attempt, &b.id))
    });
    runs
}

/// Adds the runs that StartContainer began.
fn by_calls(b: &Build<'_>, runs: &mut Vec<Run>) {
    let started = (b.work.iter())
        .filter(|w| w.method == method::START_CONTAINER && w.ok() && !w.container_id.is_empty());
    for w in started {
        if runs.iter().any(|r| r.id == w.container_id) {
            continue;
        }
        runs.push(Run {
            container: w.container.clone(),
            attempt: w.attempt,
            id: w.container_id.clone(),
            start: w.end,
            end: None,
            exit_code: None,
            reason: Text::default(),
            certainty: Certainty::Measured,
            evidence: w.proof_of_end().cloned().into_iter().collect(),
        });
    }
}

/// Adds starts and exits from the runtime's status, exact to the nanosecond.
fn by_items(b: &Build<'_>, runs: &mut Vec<Run>) {
    let sandbox = |id: &str| {
        b.work
            .iter()
            .any(|w| w.method == method::RUN_POD_SANDBOX && w.sandbox_id == id)
    };
    for (o, i) in &b.seen.items {
        let s = &i.subject;
        if s.container_id.is_empty() || sandbox(s.container_id.as_str()) {
            continue;
        }
        let r = of_id(runs, &s.container_id.0, &s.container, s.attempt);
        if r.start.is_none() && i.started.0 > 0 {
            r.start = Some(Edge {
                at: i.started,
                precision: 1,
            });
            r.evidence.push((*o).clone());
        }
        if i.finished.0 > 0 {
            let at = Edge {
                at: i.finished,
                precision: 1,
            };
            if r.end.is_none_or(|e| e.precision > 1) {
                r.end = Some(at);
                r.evidence.push((*o).clone());
            }
            r.exit_code = i.exit_code.or(r.exit_code);
            if !i.reason.is_empty() {
                r.reason.clone_from(&i.reason);
            }
        }
    }
}

/// Adds starts and exits that the runtime reported as they happened.
fn by_container_events(b: &Build<'_>, runs: &mut Vec<Run>) {
    for (o, e) in &b.seen.container_events {
        let s = &e.subject;
        if s.container_id.0 == s.sandbox_id.0 {
            continue;
        }
        let r = of_id(runs, &s.container_id.0, &s.container, s.attempt);
        match e.kind {
            ContainerEventKind::Started if r.start.is_none() => {
                r.start = Some(edge(o));
                r.evidence.push((*o).clone());
            }
            ContainerEventKind::Stopped => {
                if r.end.is_none() {
                    r.end = Some(edge(o));
                    r.evidence.push((*o).clone());
                }
                r.exit_code = r.exit_code.or(e.exit_code);
                if r.reason.is_empty() {
                    r.reason.clone_from(&e.reason);
                }
            }
            // The runtime's status, and then the kubelet's, have this reason from now on.
            ContainerEventKind::Oom if r.reason.is_empty() => {
                r.reason = OOM_KILLED.into();
                r.evidence.push((*o).clone());
            }
            _ => {}
        }
    }
}

/// Adds exits that PLEG found at its next relist: an upper bound.
fn by_relist(b: &Build<'_>, runs: &mut [Run]) {
    for (o, l) in b.seen.lines(&[Fact::ExitFound]) {
        if l.container_id.is_empty() {
            continue;
        }
        let Some(r) = runs.iter_mut().find(|r| r.id == l.container_id.0) else {
            continue;
        };
        if r.exit_code.is_none() {
            r.exit_code = l.field("exitCode").and_then(|c| c.parse().ok());
        }
        if r.end.is_none() {
            r.end = Some(edge(o));
            r.certainty = Certainty::Inferred;
        }
        r.evidence.push(o.clone());
    }
}

/// Ends runs that nothing else ends: a container that was stopped with success does not run.
fn by_stops(b: &Build<'_>, runs: &mut [Run]) {
    let stopped = (b.work.iter()).filter(|w| w.method == method::STOP_CONTAINER && w.ok());
    for w in stopped {
        let mut open = runs.iter_mut();
        if let Some(r) = open.find(|r| r.id == w.container_id && r.end.is_none()) {
            r.end = w.end;
            r.certainty = Certainty::Inferred;
            r.evidence.extend(w.proof_of_end().cloned());
        }
    }
}

fn of_id<'r>(
    runs: &'r mut Vec<Run>,
    id: &Text,
    container: &Text,
    attempt: Option<u32>,
) -> &'r mut Run {
    let i = runs.iter().position(|r| r.id == *id).unwrap_or_else(|| {
        runs.push(Run {
            container: container.clone(),
            attempt,
            id: id.clone(),
            start: None,
            end: None,
            exit_code: None,
            reason: Text::default(),
            certainty: Certainty::Measured,
            evidence: Vec::new(),
        });
        runs.len() - 1
    });
    #[expect(clippy::indexing_slicing, reason = "found or pushed just above")]
    let r = &mut runs[i];
    if r.container.is_empty() {
        r.container.clone_from(container);
    }
    r.attempt = r.attempt.or(attempt);
    r
}

/// The attempt that ended last: the newest of a container that waits for a restart, else the one before it.
pub(super) fn last_attempt(c: &ContainerStatus) -> Option<u32> {
    match c.state {
        ContainerState::Waiting { .. } => Some(c.restarts),
        _ => c.restarts.checked_sub(1),
    }
}

/// Adds starts and exits from the API's status, with a precision of a second, where no finer evidence exists.
fn by_status(b: &Build<'_>, runs: &mut Vec<Run>) {
    let f = b.seen;
    let second = |at: Nanos| Edge {
        // `startedAt` and `finishedAt` are from the node's clock, truncated.
        at,
        precision: SECOND as u32,
    };
    for (o, p) in &f.states {
        for c in p.statuses() {
            if !c.id.is_empty()
                && let ContainerState::Running {
                    started: Some(started),
                } = &c.state
            {
                let r = of_id(runs, &c.id.0, &c.name, Some(c.restarts));
                if r.start.is_none() {
                    r.start = Some(narrow(second(*started), None, Some(o.stamp.at)));
                    r.certainty = Certainty::Bounded;
                    r.evidence.push((*o).clone());
                }
            }
            let now = match &c.state {
                ContainerState::Terminated(t) => Some(t),
                _ => None,
            };
            for (t, attempt) in now
                .map(|t| (t, Some(c.restarts)))
                .into_iter()
                .chain(c.last.as_ref().map(|t| (t, last_attempt(c))))
            {
                if t.id.is_empty() {
                    continue;
                }
                let r = of_id(runs, &t.id.0, &c.name, attempt);
                if r.start.is_none()
                    && let Some(at) = t.started.filter(|s| s.0 > 0)
                {
                    r.start = Some(second(at));
                    r.certainty = Certainty::Bounded;
                }
                if r.end.is_none()
                    && let Some(at) = t.finished
                {
                    r.end = Some(narrow(
                        second(at),
                        r.start.filter(|s| s.precision == 1).map(|s| s.at),
                        Some(o.stamp.at),
                    ));
                    r.certainty = Certainty::Bounded;
                    r.evidence.push((*o).clone());
                }
                r.exit_code = r.exit_code.or(t.exit_code);
                if r.reason.is_empty() {
                    r.reason.clone_from(&t.reason);
                }
            }
        }
    }
}

/// True when the stage shows anything besides failed starts.
fn shows_starts(b: &Build<'_>) -> bool {
    b.of(Stage::Start).any(|s| {
        let by_event = s
            .evidence
            .first()
            .is_some_and(|o| matches!(&o.body, Body::Event(_)));
        s.outcome == Outcome::Ok || !by_event && s.step != method::CREATE_CONTAINER
    })
}

/// The kubelet sends the status of every pod at least this often (pkg/kubelet/status/status_manager.go, `syncPeriod`).
pub(super) const STATUS_NS: i64 = 10 * SECOND;

/// Adds a run for the kubelet's Event `Started` where no status shows the run yet: the kubelet sends the Event at
/// once, and the status up to ten seconds later.
fn by_events(b: &Build<'_>, runs: &mut Vec<Run>) {
    for (o, e) in b.seen.events_of(&["Started"]) {
        let at = event_edge(o);
        let of_it = |r: &&Run| r.container == e.container;
        let known = runs.iter().filter(of_it).any(|r| {
            [r.start, r.end]
                .into_iter()
                .flatten()
                .any(|x| x.at.plus(SECOND) >= at.at)
        });
        // A status that was read well after the Event, and shows that the container has ended, knows better: what kubectl
        // prints of Events is how long ago they were.
        let ended = b.seen.states.last().is_some_and(|(o, p)| {
            let mut statuses = p.statuses().filter(|s| s.name == e.container);
            o.stamp.at.since(at.at) >= STATUS_NS && statuses.any(ContainerStatus::has_ended)
        });
        let hidden = e.container.is_empty() || b.view.gone.is_some() || b.seen.states.is_empty();
        if known || ended || hidden {
            continue;
        }
        let before = runs.iter().filter(of_it).filter_map(|r| r.attempt).max();
        runs.push(Run {
            container: e.container.clone(),
            attempt: Some(before.map_or(0, |n| n + 1)),
            id: Text::default(),
            start: Some(at),
            end: None,
            exit_code: None,
            reason: Text::default(),
            certainty: Certainty::Bounded,
            evidence: vec![o.clone()],
        });
    }
}

/// Adds starts from the API alone.
fn by_api(b: &mut Build<'_>, runs: &[Run]) {
    b.successes(Stage::Start, method::START_CONTAINER, "Started");
    if shows_starts(b) {
        return;
    }
    for r in runs {
        let (Some(at), Some(o)) = (r.start, r.evidence.first()) else {
            continue;
        };
        let mut s = Span::new(
            Stage::Start,
            method::START_CONTAINER,
            at,
            Some(at),
            Certainty::Bounded,
            vec![o.clone()],
        );
        s.container.clone_from(&r.container);
        s.attempt = r.attempt.unwrap_or(0);
        b.add(s);
    }
}

/// Adds the waits between an exit and the next attempt.
fn back_off(b: &mut Build<'_>, runs: &[Run]) {
    let f = b.seen;
    let ending = b.view.deletion_requested.or(b.view.gone);
    // Ends of attempts: exits, and failed starts.
    let mut ends: Vec<(Text, Edge, Option<u32>, Evidence)> = runs
        .iter()
        .filter_map(|r| {
            Some((
                r.container.clone(),
                r.end?,
                r.attempt,
                r.evidence.last()?.clone(),
            ))
        })
        .collect();
    for w in &b.work {
        if matches!(w.method.as_str(), method::START_CONTAINER)
            && w.failed()
            && let (Some(end), Some(o)) = (w.end, w.evidence.first())
        {
            ends.push((w.container.clone(), end, w.attempt, o.clone()));
        }
    }
    ends.sort();
    // The runtime may report an exit for a failed start as well.
    ends.dedup_by(|b, a| a.0 == b.0 && a.2.is_some() && a.2 == b.2);
    for (i, (container, at, attempt, o)) in ends.iter().enumerate() {
        if ending.is_some_and(|d| at.at >= d) {
            continue;
        }
        let next = b
            .work
            .iter()
            .find(|w| {
                w.method == method::CREATE_CONTAINER
                    && w.container == *container
                    && w.start.at > at.at
            })
            .map(|w| (w.start, w.evidence.first().cloned()))
            .or_else(|| {
                runs.iter()
                    .filter(|r| r.container == *container)
                    .filter_map(|r| Some((r.start?, r.evidence.first().cloned())))
                    .find(|(s, _)| s.at > at.at)
            });
        let until = next.as_ref().map(|(e, _)| e.at).or_else(|| {
            ends.get(i + 1)
                .filter(|x| x.0 == *container)
                .map(|x| x.1.at)
        });
        let within =
            |t: Nanos| t.plus(SECOND) >= at.at && until.is_none_or(|u| t.plus(-SECOND) <= u);
        let told = f
            .events_of(&["BackOff"])
            .find(|(x, e)| {
                e.container == *container
                    && event(&e.reason, &e.message) == Some(Fact::RestartBackedOff)
                    && within(x.stamp.at)
            })
            .map(|(x, e)| (x.clone(), e.message.clone()))
            .or_else(|| {
                f.states
                    .iter()
                    .find(|(x, p)| {
                        x.stamp.at >= at.at
                            && within(x.stamp.at)
                            && p.statuses().any(|c| {
                                c.name == *container
                                    && matches!(&c.state, ContainerState::Waiting { reason, .. }
                                        if reason == "CrashLoopBackOff")
                            })
                    })
                    .map(|(x, _)| ((*x).clone(), Text::from("CrashLoopBackOff")))
            })
            .or_else(|| {
                f.lines(&[Fact::RestartBackedOff])
                    .find(|(x, l)| {
                        within(x.stamp.at)
                            && x.stamp.at >= at.at
                            && l.name("container") == Some(container.as_str())
                    })
                    .map(|(x, l)| (x.clone(), l.error().into()))
            });
        let Some((proof, message)) = told else {
            continue;
        };
        // A restart that followed immediately did not wait.
        if until.is_some_and(|u| u.since(at.at) < SECOND) {
            continue;
        }
        let mut evidence = vec![o.clone(), proof];
        let mut cancelled = false;
        let end = next.as_ref().map(|(e, _)| *e).or_else(|| {
            ending.map(|at| {
                cancelled = true;
                Edge { at, precision: 1 }
            })
        });
        if let Some((_, Some(x))) = next {
            evidence.push(x);
        }
        evidence.dedup();
        let mut s = Span::new(
            Stage::Start,
            "CrashLoopBackOff",
            *at,
            end,
            Certainty::Inferred,
            evidence,
        );
        s.container.clone_from(container);
        s.attempt = attempt.unwrap_or(0);
        s.message = message;
        if cancelled {
            s.outcome = Outcome::Cancelled;
        }
        b.add(s);
    }
}
