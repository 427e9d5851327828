//! States of containers and stages, and the stage that the pod is in.

use super::PodEvidence;
use super::marks::stage_of_event;
use super::runtime_calls::{Run, RuntimeCall};
use crate::backoff::{FORGOTTEN_NS, KILLED_NS};
use crate::correlate::RunState;
use crate::correlate::view::{EXITED, GONE};
use crate::correlate::{ContainerView, PodView, StageState};
use crate::flow::{Fact, Stage, event};
use crate::timeline::{Outcome, Span, SpanIndex, Timeline};
use kflow_model::cri::method;
use kflow_model::{
    Evidence, Nanos, Text,
    cri::{InventoryItem, RuntimeState},
    event::EventSeen,
    pod::{Condition, ContainerSpec, ContainerState, ContainerStatus, PodPhase},
    stamp::SECOND,
};

fn run_state(s: &ContainerState) -> RunState {
    match s {
        ContainerState::Waiting { reason, .. } => RunState::Waiting(reason.clone()),
        ContainerState::Running { .. } => RunState::Running,
        ContainerState::Terminated(t) => RunState::Terminated(t.reason.clone()),
    }
}

fn by_status(c: &mut ContainerView, s: &ContainerStatus) {
    c.id = s.id.clone();
    c.attempt = s.restarts;
    c.state = run_state(&s.state);
    c.ready = s.ready;
    c.last_exit = match &s.state {
        ContainerState::Terminated(t) => t.exit_code,
        _ => s.last.as_ref().and_then(|t| t.exit_code),
    };
}

/// Builds the containers from spec, status and successful runtime calls.
pub(crate) fn containers(v: &mut PodView, f: &PodEvidence<'_>, work: &[RuntimeCall]) {
    if let Some(p) = f.newest() {
        let spec = |c: &ContainerSpec, init: bool| ContainerView {
            name: c.name.clone(),
            init,
            sidecar: c.sidecar,
            image: c.image.clone(),
            ..ContainerView::default()
        };
        v.containers
            .extend(p.spec.init_containers.iter().map(|c| spec(c, true)));
        v.containers
            .extend(p.spec.containers.iter().map(|c| spec(c, false)));
        v.containers.extend(
            p.spec
                .ephemeral_containers
                .iter()
                .map(|name| ContainerView {
                    name: name.clone(),
                    ephemeral: true,
                    ..ContainerView::default()
                }),
        );
        for s in p.statuses() {
            if let Some(c) = v.containers.iter_mut().find(|c| c.name == s.name) {
                by_status(c, s);
                if c.image.is_empty() {
                    c.image.clone_from(&s.image);
                }
            }
        }
    }
    // The runtime is ahead of the API: a container counts as created or started from the call on.
    for w in work {
        if w.container.is_empty() || !w.ok() {
            continue;
        }
        let state = match w.method.as_str() {
            method::CREATE_CONTAINER => RunState::Created,
            method::START_CONTAINER => RunState::Running,
            _ => continue,
        };
        if !v.containers.iter().any(|c| c.name == w.container) {
            v.containers.push(ContainerView {
                name: w.container.clone(),
                image: w.image.clone(),
                ..ContainerView::default()
            });
        }
        if let Some(c) = v.containers.iter_mut().find(|c| c.name == w.container) {
            let newer = c.id.is_empty() || w.attempt.is_some_and(|n| n > c.attempt);
            let same = c.id.as_str() == w.container_id.as_str();
            if newer && w.method == method::CREATE_CONTAINER {
                c.id = w.container_id.as_str().into();
                c.attempt = w.attempt.unwrap_or(c.attempt);
                c.state = state;
                c.ready = false;
            } else if same && matches!(c.state, RunState::Unseen | RunState::Created) {
                c.state = state;
            }
        }
    }
}

/// Applies starts and exits from the runs that the API does not show yet.
pub(crate) fn exits(v: &mut PodView, runs: &[Run]) {
    for r in runs {
        let Some(c) = v.containers.iter_mut().find(|c| c.name == r.container) else {
            continue;
        };
        // The status comes later than the Event of a start, and a new mirror of a static pod has none.
        let unseen = c.id.is_empty() && !c.state.is_terminated();
        if r.start.is_some() && r.end.is_none() && (r.id.is_empty() || unseen) {
            c.state = RunState::Running;
            c.attempt = c.attempt.max(r.attempt.unwrap_or(0));
            continue;
        }
        if r.end.is_none() || c.id.as_str() != r.id.as_str() {
            continue;
        }
        c.last_exit = r.exit_code.or(c.last_exit);
        if c.state.is_up() {
            c.ready = false;
            c.state = RunState::Terminated(r.reason.clone());
        }
    }
}

/// Sets containers and status of a pod that the API never showed, from the runtime's data alone.
pub(crate) fn without_api(
    v: &mut PodView,
    f: &PodEvidence<'_>,
    work: &[RuntimeCall],
    runs: &[Run],
) {
    for r in runs {
        let attempt = r.attempt.unwrap_or(0);
        let known = v.containers.iter().position(|c| c.name == r.container);
        if known.is_some_and(|i| v.containers.get(i).is_some_and(|c| c.attempt >= attempt)) {
            continue;
        }
        let state = match (r.end, r.start) {
            (Some(_), _) => RunState::Terminated(r.reason.clone()),
            (None, Some(_)) => RunState::Running,
            // A list shows it as running, without its start.
            (None, None) if is_listed_as_running(f, r.id.as_str()) => RunState::Running,
            (None, None) => RunState::Created,
        };
        let c = ContainerView {
            name: r.container.clone(),
            id: r.id.as_str().into(),
            attempt,
            state,
            last_exit: r.exit_code,
            ..ContainerView::default()
        };
        match known.and_then(|i| v.containers.get_mut(i)) {
            Some(old) => *old = c,
            None => v.containers.push(c),
        }
    }
    v.status = if v.gone.is_some() {
        GONE.into()
    } else if v.containers.iter().any(|c| c.state == RunState::Running) {
        "Running".into()
    } else if over(v, f, work) {
        EXITED.into()
    } else {
        Text::default()
    };
}

/// True when the runtime's newest list shows the container as running.
fn is_listed_as_running(f: &PodEvidence<'_>, id: &str) -> bool {
    let mut of_it = f.items.iter().rev().map(|(_, i)| i);
    let newest = of_it.find(|i| i.subject.container_id.as_str() == id);
    newest.is_some_and(|i| i.state == RuntimeState::Running)
}

/// True when the runtime has a live sandbox or container of the pod, and no source showed its creation: it is older
/// than the recording, and only the API can tell whether the pod waits for anything.
fn was_there_before(f: &PodEvidence<'_>, t: &Timeline) -> bool {
    let is_up = |i: &InventoryItem| matches!(i.state, RuntimeState::Ready | RuntimeState::Running);
    let made = [Stage::Sandbox, Stage::Image, Stage::Create, Stage::Start];
    f.items.iter().any(|(_, i)| is_up(i)) && made.iter().all(|s| t.stage(*s).is_none())
}

/// True when nothing of the pod lives in the runtime: at least one sandbox or container is known, and all known ones
/// have ended.
fn over(v: &PodView, f: &PodEvidence<'_>, work: &[RuntimeCall]) -> bool {
    // Sandboxes, and whether they are ready; a sandbox that is not never becomes ready again.
    let mut sandboxes: Vec<(&str, bool)> = Vec::new();
    let items = f.items.iter().filter_map(|(_, i)| {
        let sandbox = i.subject.container_id.is_empty();
        sandbox.then(|| {
            (
                i.subject.sandbox_id.as_str(),
                i.state == RuntimeState::Ready,
            )
        })
    });
    let calls = work.iter().filter(|w| w.ok()).filter_map(|w| {
        let up = match w.method.as_str() {
            method::RUN_POD_SANDBOX => true,
            method::STOP_POD_SANDBOX | method::REMOVE_POD_SANDBOX => false,
            _ => return None,
        };
        Some((w.sandbox_id.as_str(), up))
    });
    for (id, up) in items.chain(calls).filter(|(id, _)| !id.is_empty()) {
        match sandboxes.iter_mut().find(|s| s.0 == id) {
            Some(s) => s.1 &= up,
            None => sandboxes.push((id, up)),
        }
    }
    let ended = |c: &ContainerView| c.state.is_terminated();
    (!sandboxes.is_empty() || !v.containers.is_empty())
        && !sandboxes.iter().any(|(_, up)| *up)
        && v.containers.iter().all(ended)
}

/// Steps that wait for another component, or for time to pass.
const WAITS: [&str; 7] = [
    "completeWork",
    "SchedulingGates",
    "ImagePullBackOff",
    "CrashLoopBackOff",
    "readinessGates",
    "finalizers",
    "networkErrors",
];

/// Calls that only query a state: their success is no progress.
const ASKS: [&str; 3] = [
    method::IMAGE_STATUS,
    method::POD_SANDBOX_STATUS,
    method::CONTAINER_STATUS,
];

/// The direct steps of a stage, without what happened inside of them.
fn steps(t: &Timeline, stage: Stage) -> impl Iterator<Item = &Span> {
    let whole = t
        .spans
        .iter()
        .position(|s| s.stage == stage && s.is_stage())
        .map(|i| i as SpanIndex);
    t.spans
        .iter()
        .filter(move |s| s.stage == stage && whole.is_some() && s.parent == whole)
}

/// State of a stage, from its span and its open steps; `None` when it was not seen.
fn state_of(t: &Timeline, stage: Stage) -> Option<StageState> {
    let span = t.stage(stage)?;
    Some(match span.outcome {
        Outcome::Ok => StageState::Done,
        Outcome::Error | Outcome::Cancelled => StageState::Failing,
        Outcome::InFlight => {
            let open = || steps(t, stage).filter(|s| s.end.is_none());
            // An unschedulable pod waits in a queue between attempts.
            let waits = |s: &Span| {
                WAITS.contains(&s.step.as_str()) || s.step == "scheduleOnePod" && s.attempt > 0
            };
            if open().all(waits) {
                StageState::Waiting
            } else {
                StageState::Running
            }
        }
    })
}

/// Stage of a pod that its kubelet has taken, according to `status.startTime` or the state of a container, and about which
/// the node's sources show nothing: the next stage that can take long is `volumes` if a volume is remote, else `sandbox`;
/// once containers have run, `ready`. Otherwise returns `next` and `since`.
fn begun(v: &PodView, f: &PodEvidence<'_>, next: Stage, since: Nanos) -> (Stage, Nanos) {
    let on_node = !f.calls.is_empty() || !f.logs.is_empty() || !f.fs.is_empty();
    let Some(api) = v.api.as_deref().filter(|_| !on_node) else {
        return (next, since);
    };
    // The creator of the pod named the node, or its binding was not seen.
    let next = if next == Stage::Schedule && api.is_bound() {
        Stage::Admit
    } else {
        next
    };
    if api.status.phase == PodPhase::Running {
        // When one that does not run has ended is not told.
        let runs = |s: &ContainerStatus| matches!(s.state, ContainerState::Running { .. });
        let all_run = api.statuses().all(runs);
        return (Stage::Ready, if all_run { since } else { v.changed });
    }
    let taken = api.status.start_time;
    match taken.or_else(|| api.statuses().next().map(|_| since)) {
        Some(at) if (Stage::Admit..=Stage::Volumes).contains(&next) => {
            let remote = api.spec.volumes.iter().any(|volume| !volume.is_local());
            let stage = if remote {
                Stage::Volumes
            } else {
                Stage::Sandbox
            };
            (stage, since.max(at))
        }
        _ => (next, since),
    }
}

/// True when a step of a later stage began after this stage had ended, so that its failure is of the past.
fn passed(t: &Timeline, stage: Stage) -> bool {
    let Some(end) = t.stage(stage).and_then(|s| s.end) else {
        return false;
    };
    t.spans.iter().any(|s| {
        s.stage > stage && s.stage != Stage::Terminate && !s.is_stage() && s.start.at > end.at
    })
}

/// True for a main container that does not run, and that the kubelet will start again.
fn is_down(v: &PodView, c: &ContainerView) -> bool {
    let policy = v
        .api
        .as_deref()
        .map_or("", |p| p.spec.restart_policy.as_str());
    let main = !c.init && !c.ephemeral;
    let ended = match c.state {
        RunState::Running | RunState::Unseen => false,
        RunState::Terminated(_) => c.last_exit != Some(0),
        RunState::Created | RunState::Waiting(_) => true,
    };
    main && ended && policy != "Never"
}

/// Sets the states of the stages and the current stage, from the timeline.
pub(crate) fn stages(v: &mut PodView, f: &PodEvidence<'_>, t: &Timeline) {
    // Without the API, a stop by the kubelet shows that the pod ends, unless it kills a container to restart it.
    let restarts = |since: Nanos| {
        let mut killed = v.containers.iter().flat_map(|c| probe_kills(f, &c.name));
        killed.any(|at| at.plus(SECOND) >= since)
    };
    let stops = t
        .stage(Stage::Terminate)
        .is_some_and(|s| s.end.is_none() && !restarts(s.start.at));
    let deleting = v.deletion_requested.is_some() || v.gone.is_some() || v.api.is_none() && stops;
    let reached = t
        .spans
        .iter()
        .filter(|s| s.stage != Stage::Terminate)
        .map(|s| s.stage.index())
        .max();
    let never =
        |stage| stage == Stage::Terminate || stage == Stage::Schedule && f.is_static(&v.uid);
    for stage in Stage::ALL {
        let i = stage.index();
        let state =
            state_of(t, stage).unwrap_or(if !never(stage) && reached.is_some_and(|r| i < r) {
                StageState::Unseen
            } else {
                StageState::NotReached
            });
        if let Some(s) = v.stages.get_mut(i) {
            *s = state;
        }
    }
    let ready = f
        .newest()
        .and_then(|p| p.condition("Ready"))
        .is_some_and(Condition::is_true);
    let over = v.phase.is_over();
    // The API learns of an exit later than the runtime: such a pod is not Ready.
    let ready = ready && !v.containers.iter().any(|c| is_down(v, c));
    v.current = None;
    if v.gone.is_some() || v.past || v.is_remnant() || (ready || over) && !deleting {
        return;
    }
    if v.api.is_none() && !deleting && was_there_before(f, t) {
        return;
    }
    v.current = if deleting {
        let since = v
            .deletion_requested
            .or_else(|| Some(t.stage(Stage::Terminate)?.start.at));
        Some((Stage::Terminate, since.unwrap_or(v.changed)))
    } else {
        // The first unfinished stage; when all that were seen are finished, the one after the last. Mounts that the
        // pod worker does not wait for yet hold nothing up, unless one failed and no later step followed.
        let awaited = t.spans.iter().any(|s| s.step == "WaitForAttachAndMount")
            || v.stage(Stage::Volumes) == StageState::Failing;
        // The kubelet checks the network before it waits for volumes (pkg/kubelet/kubelet.go, SyncPod).
        let network = t
            .spans
            .iter()
            .any(|s| s.step == "networkErrors" && s.end.is_none());
        let unfinished = Stage::ALL
            .into_iter()
            .filter(|s| *s != Stage::Terminate && (*s != Stage::Volumes || awaited && !network))
            .filter(|s| v.stage(*s) != StageState::Failing || !passed(t, *s))
            .find(|s| {
                matches!(
                    v.stage(*s),
                    StageState::Running | StageState::Waiting | StageState::Failing
                )
            });
        if let Some(stage) = unfinished {
            let since = since(f, t, stage).unwrap_or_else(|| v.zero());
            Some((stage, since_gap(t, stage, since)))
        } else {
            let last = t
                .spans
                .iter()
                .filter(|s| s.is_stage() && s.stage != Stage::Terminate)
                .max_by_key(|s| s.stage);
            match last {
                None => Some((Stage::Api, v.zero())),
                Some(s) => {
                    let next = Stage::ALL
                        .get((s.stage.index() + 1).min(Stage::Ready.index()))
                        .copied()
                        .unwrap_or(s.stage);
                    let since = s.end.map_or(s.start.at, |e| e.at);
                    Some(begun(v, f, next, since))
                }
            }
        }
    };
    if let Some((stage, since)) = &mut v.current
        && let Some(first) = failing_since(f, *stage)
    {
        *since = first.min(*since);
    }
    not_all_up(v, f, t);
    if let Some((Stage::Start, since)) = &mut v.current
        && let Some(first) = backed_off_since(f, t)
    {
        *since = first.min(*since);
    }
    if let Some((Stage::Ready, since)) = &mut v.current
        && let Some(lost) = lost_readiness(f)
    {
        *since = lost.max(*since);
    }
    killed_by_probe(v, f, t);
}

/// Returns when a pod that is not Ready stopped being Ready. The condition Ready is False from the pod's start on, so a later transition
/// means that it was True in between.
fn lost_readiness(f: &PodEvidence<'_>) -> Option<Nanos> {
    let pod = f.newest()?;
    let ready = pod.condition("Ready").filter(|c| !c.is_true())?;
    let begun = pod.status.start_time?;
    let at = ready.transition.filter(|at| *at > begun.plus(SECOND))?;
    // Where a main container has ended, the pod is not ready because of that, and the container's own times are finer. An init
    // container has always ended, and the end of an ephemeral one changes nothing.
    let ends = |s: &ContainerStatus| {
        s.last.is_some() || !matches!(s.state, ContainerState::Running { .. })
    };
    (!pod.status.containers.iter().any(ends)).then_some(at)
}

/// Since when the kubelet has waited again and again before it starts containers, by the Events that count these waits: a
/// list has the last run only. A run that was long enough for the kubelet to forget the earlier ones begins it anew.
fn backed_off_since(f: &PodEvidence<'_>, t: &Timeline) -> Option<Nanos> {
    let waits = f
        .events_of(&["BackOff"])
        .filter(|(_, e)| event(&e.reason, &e.message) == Some(Fact::RestartBackedOff));
    let first = waits.filter_map(|(_, e)| {
        let began = e.began()?;
        let forgotten = runs(t, &e.container)
            .into_iter()
            .filter_map(|(start, end)| Some((start, end?)))
            .filter(|(start, end)| end.since(*start) >= FORGOTTEN_NS && *end > began)
            .map(|(_, end)| end);
        Some(forgotten.max().unwrap_or(began))
    });
    first.min()
}

/// Since when volumes, a sandbox or the creation of a container have failed, by the first occurrence of the Events
/// about it; only the newest Event may have been kept. `None` when the container (for Events of the pod itself: any
/// container) started since.
fn failing_since(f: &PodEvidence<'_>, stage: Stage) -> Option<Nanos> {
    if ![Stage::Volumes, Stage::Sandbox, Stage::Create].contains(&stage) {
        return None;
    }
    let failures = || {
        let all = f.events.iter();
        all.filter(|(_, e)| e.warning && stage_of_event(e) == stage)
    };
    let mut containers: Vec<&str> = failures().map(|(_, e)| e.container.as_str()).collect();
    containers.sort_unstable();
    containers.dedup();
    let since = |container: &str| {
        let is_it = |e: &EventSeen| container.is_empty() || e.container == container;
        let starts = f.events_of(&["Started"]).filter(|(_, e)| is_it(e));
        let started = starts.map(|(o, _)| o.stamp.at).max();
        failures()
            .filter(|(_, e)| e.container == container)
            .map(|(o, e)| e.began().unwrap_or(o.stamp.at))
            .filter(|first| started.is_none_or(|at| at <= *first))
            .min()
    };
    containers.into_iter().filter_map(since).min()
}

/// Events of kills of a container because its liveness or startup probe had failed.
fn probe_kill_events<'f>(
    f: &'f PodEvidence<'_>,
    container: &'f str,
) -> impl Iterator<Item = (&'f Evidence, &'f EventSeen)> + 'f {
    let events = f.events_of(&["Killing"]);
    events.filter(move |(_, e)| e.container == container && is_probe_kill(&e.message))
}

fn is_probe_kill(message: &str) -> bool {
    let said = event("Killing", message);
    matches!(said, Some(Fact::LivenessKill | Fact::StartupKill))
}

/// Times at which the kubelet killed a container because its liveness or startup probe had failed, from Events (1 s)
/// and log.
fn probe_kills<'f>(f: &'f PodEvidence<'_>, container: &'f str) -> impl Iterator<Item = Nanos> + 'f {
    let by_probe = is_probe_kill;
    let events = probe_kill_events(f, container).map(|(o, _)| o.stamp.at);
    let lines = f
        .lines(&[Fact::KillExplained])
        .filter(move |(_, l)| {
            l.container == container && l.name("containerMessage").is_some_and(by_probe)
        })
        .map(|(o, _)| o.stamp.at);
    events.chain(lines)
}

/// Start and end of each run of a container, oldest first.
fn runs(t: &Timeline, container: &str) -> Vec<(Nanos, Option<Nanos>)> {
    let of_it = |s: &&Span| s.is_run() && s.container == container;
    let mut runs: Vec<_> = t
        .spans
        .iter()
        .filter(of_it)
        .map(|s| (s.start.at, s.end.map(|e| e.at)))
        .collect();
    runs.sort_unstable();
    runs
}

/// Sets the current stage to `ready` when containers are down only because a probe failed: their start does not fail.
fn killed_by_probe(v: &mut PodView, f: &PodEvidence<'_>, t: &Timeline) {
    let again = Stage::Image..=Stage::Start;
    if v.current.is_none_or(|(stage, _)| !again.contains(&stage)) {
        return;
    }
    let killed = |c: &ContainerView| {
        runs(t, &c.name).last().is_some_and(|(start, end)| {
            // Start and end of a run in the API are truncated to seconds.
            probe_kills(f, &c.name).any(|at| match end {
                // When there are many Events of kills, some are dropped: the newest one also stands for the kills
                // after it.
                Some(end) => at <= end.plus(SECOND) && end.since(at) < KILLED_NS,
                None => at.plus(SECOND) > *start,
            })
        })
    };
    let mains = || v.containers.iter().filter(|c| !c.init && !c.ephemeral);
    if !mains().any(killed) || !mains().all(|c| c.state == RunState::Running || killed(c)) {
        return;
    }
    // Failing since the end of the newest run that was long enough for the kubelet to forget earlier failures; else
    // of the first.
    let trouble = |c: &ContainerView| {
        let ended: Vec<(Nanos, Nanos)> = runs(t, &c.name)
            .into_iter()
            .filter_map(|(start, end)| Some((start, end?)))
            .collect();
        let lasted = |(start, end): &(Nanos, Nanos)| end.since(*start) >= FORGOTTEN_NS;
        let forgotten = ended.iter().rposition(lasted);
        let end = ended.get(forgotten.unwrap_or(0)).map(|(_, end)| *end)?;
        // A list has the last run only; the Event of the kills has the first of them.
        let unseen = usize::try_from(c.attempt).is_ok_and(|n| n > ended.len());
        let firsts = probe_kill_events(f, &c.name).filter_map(|(_, e)| e.began());
        let first = firsts.min().filter(|_| unseen && forgotten.is_none());
        Some(first.map_or(end, |at| at.min(end)))
    };
    let first = mains().filter(|c| killed(c)).filter_map(trouble).min();
    if let Some(at) = first.or_else(|| since(f, t, Stage::Ready)) {
        v.current = Some((Stage::Ready, at));
        if let Some(s) = v.stages.get_mut(Stage::Ready.index()) {
            *s = StageState::Failing;
        }
    }
}

/// Sets the current stage to `start` instead of `ready` when containers are not all up: init containers run, a
/// container has ended, or a hook failed.
fn not_all_up(v: &mut PodView, f: &PodEvidence<'_>, t: &Timeline) {
    // While a postStart hook runs, and after it failed, the API shows the container as waiting.
    let hook = |c: &ContainerView| {
        let Some(api) = v.api.as_deref() else {
            return false;
        };
        let status = api.statuses().find(|s| s.name == c.name);
        api.container(&c.name)
            .is_some_and(|s| !s.post_start.is_empty())
            && status.is_none_or(|s| matches!(s.state, ContainerState::Waiting { .. }))
    };
    let waits = |c: &ContainerView| {
        let done = c.state.is_terminated() && c.last_exit == Some(0);
        !c.init && !c.ephemeral && (c.state != RunState::Running || hook(c)) && !done
    };
    let in_ready = v.current.is_some_and(|(stage, _)| stage == Stage::Ready);
    if !in_ready || !v.containers.iter().any(waits) {
        return;
    }
    let begun = t.stage(Stage::Start).map(|s| s.start.at);
    let since = since(f, t, Stage::Start).or(begun);
    v.current = v.current.map(|(_, at)| (Stage::Start, since.unwrap_or(at)));
    for (stage, state) in [
        (Stage::Start, StageState::Running),
        (Stage::Ready, StageState::NotReached),
    ] {
        if let Some(s) = v.stages.get_mut(stage.index()) {
            *s = state;
        }
    }
}

/// Returns the end of the last known step instead of `since`, when the stage is known by a container's status alone and the first
/// status read, at `since`, shows it already. A container that has never run has waited from that end on; one that has run may wait
/// for something new.
fn since_gap(t: &Timeline, stage: Stage, since: Nanos) -> Nanos {
    let is_first = |s: &Span| s.attempt == 0 && s.step != "CrashLoopBackOff" && s.is_by_status();
    let by_status = |s: &Span| s.stage == stage && s.start.at == since && is_first(s);
    let gap = t.gaps.iter().find(|g| g.end == Some(since));
    let gap = gap.filter(|_| t.steps().any(by_status));
    gap.map_or(since, |g| g.start)
}

/// Since when a stage has been in its state: start of its open step, else of the first of its consecutive failures.
fn since(f: &PodEvidence<'_>, t: &Timeline, stage: Stage) -> Option<Nanos> {
    let mut since: Option<Nanos> = None;
    let mut done: Option<Nanos> = None;
    for s in steps(t, stage).filter(|s| !s.is_run()) {
        let step = s.step.as_str();
        match s.outcome {
            Outcome::Ok if ASKS.contains(&step) => {}
            Outcome::Ok if !WAITS.contains(&step) => {
                since = None;
                done = done.max(s.end.map(|end| end.at));
            }
            _ => {
                let at = tried(f, s, done);
                since = Some(since.map_or(at, |earlier| earlier.min(at)));
            }
        }
    }
    since.or_else(|| Some(t.stage(stage)?.start.at))
}

/// Since when a step has been attempted. A recording that begins late has only the newest attempt; its Event has the
/// time of the first failure. Failures before `done`, the last success in the stage, do not count.
fn tried(f: &PodEvidence<'_>, s: &Span, done: Option<Nanos>) -> Nanos {
    let first = s.evidence.iter().filter_map(|o| f.began(o)).min();
    let first = first.map(|at| done.map_or(at, |done| at.max(done)));
    first.map_or(s.start.at, |at| at.min(s.start.at))
}
