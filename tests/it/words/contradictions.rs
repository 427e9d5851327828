//! Compares the views of one pod at one moment with each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Seen, pairs, path};
use kflow_core::correlate::Call;
use kflow_core::correlate::steps::steps;
use kflow_core::diagnose::cause;
use kflow_core::diagnose::limits;
use kflow_core::diagnose::pulls::{Ahead, Standing};
use kflow_core::diagnose::{Confidence, State};
use kflow_core::flow::Stage;
use kflow_core::flow::map::Map;
use kflow_core::flow::runs::{Run, RunEnd};
use kflow_core::timeline::{Outcome, Span, summary};
use kflow_model::cri::CallKey;
use kflow_model::{Body, stamp::SECOND};

/// Returns the contradictions between the views.
pub(super) fn contradictions(s: &Seen<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for check in [
        runs,
        calls,
        flow,
        lengths,
        verdict,
        attempts,
        last_error,
        queued,
        zero,
        pairs::node_and_flow,
        pairs::node_and_timeline,
        pairs::timeline_in_flow,
        pairs::verdict_in_flow,
        pairs::strip,
        pairs::exits,
        pairs::cited,
        pairs::unexplained,
        pairs::images,
        path::partition,
        path::queue,
    ] {
        check(s, &mut wrong);
    }
    wrong
}

/// Verdict, timeline and list agree on which containers run.
fn runs(s: &Seen<'_>, wrong: &mut Vec<String>) {
    for c in s.pod.containers.iter().filter(|_| s.pod.gone.is_none()) {
        let facts = s
            .facts
            .known(&c.name)
            .is_some_and(kflow_core::diagnose::history::ContainerHistory::runs);
        let timeline = s
            .spans()
            .any(|x| x.is_run() && x.container == c.name && x.end.is_none());
        let list = c.state == kflow_core::correlate::RunState::Running;
        if facts != timeline || list != timeline {
            wrong.push(format!(
                "{} runs: by the verdict {facts}, the timeline {timeline}, the list {list}",
                c.name
            ));
        }
    }
}

/// The calls in flight on the timeline and for the verdict are in flight on the node too.
fn calls(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let node = s.flying();
    let facts: BTreeSet<CallKey> = s.facts.open.iter().map(|c| c.start.key).collect();
    if facts != node {
        wrong.push(format!("in flight: verdict {facts:?}, node {node:?}"));
    }
    for x in s.spans().filter(|x| x.end.is_none()) {
        if x.call.is_some_and(|k| !node.contains(&k)) {
            wrong.push(format!("{} is in flight on the timeline alone", x.step));
        }
    }
    let Some(call) = s.verdict.and_then(|v| v.in_flight.as_ref()) else {
        return;
    };
    let same = |c: &&Arc<Call>| c.method == call.method && c.start == call.since;
    if !s.world.calls().in_flight().any(|c| same(&c)) {
        wrong.push(format!(
            "the verdict waits on {}, which is over",
            call.method
        ));
    }
}

/// Flow and timeline agree on when attempts of a step began and ended, and with what result; the flow has
/// at least as many.
fn flow(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let map = Map::embedded();
    for l in steps(map, s.world, s.pod) {
        let Some(step) = map.get(l.step) else {
            continue;
        };
        let spans: Vec<&Span> = s
            .spans()
            .filter(|x| x.step == step.function && !x.is_stage() && !x.evidence.is_empty())
            .collect();
        for x in &spans {
            let how = match x.outcome {
                Outcome::Ok => RunEnd::Ok,
                Outcome::Error | Outcome::Cancelled => RunEnd::Failed,
                Outcome::InFlight => RunEnd::InFlight,
            };
            let end = x.end.map(|e| e.at);
            let same = |r: &Run| (r.start, r.end, r.how) == (x.start.at, end, how);
            if !l.runs.iter().any(same) {
                wrong.push(format!("flow and timeline differ on {}", step.function));
            }
        }
        if (l.count as usize) < spans.len() {
            wrong.push(format!(
                "{}: flow ×{}, timeline ×{}",
                step.function,
                l.count,
                spans.len()
            ));
        }
        // A run that is open only in the flow has not ended on the timeline.
        let open = |r: &Run| {
            spans
                .iter()
                .any(|x| x.end.is_none() && x.start.at == r.start)
        };
        let ended = |r: &Run| {
            spans.iter().any(|x| {
                x.end
                    .is_some_and(|e| x.start.at <= r.start && r.start <= e.at)
            })
        };
        if l.runs
            .iter()
            .any(|r| r.how == RunEnd::InFlight && !open(r) && ended(r))
        {
            wrong.push(format!("{} is in flight in the flow alone", step.function));
        }
    }
}

/// A stage works no longer than it lasts, and at least as long as each of its steps. Garbage collection minutes later
/// is not part of a stage.
fn lengths(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let (t, now) = (&s.pod.timeline, s.facts.now);
    for stage in t.spans.iter().filter(|x| x.is_stage()) {
        let work = summary::work_ns(t, stage, now);
        let steps = t.spans.iter().filter(|x| {
            x.stage == stage.stage
                && !x.is_stage()
                && !x.is_run()
                && !summary::is_garbage_collection(t, x)
        });
        let longest = steps.map(|x| x.duration(now)).max().unwrap_or(0);
        if work < longest {
            wrong.push(format!(
                "{} works {work} ns, its step {longest}",
                stage.step
            ));
        }
        let lasts = stage.duration(now);
        if work > lasts {
            wrong.push(format!("{} works {work} ns of {lasts}", stage.step));
        }
    }
}

/// The verdict agrees with the status, and with the list on the pod's stage and since when it is there.
fn verdict(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let p = s.pod;
    let Some(v) = s.verdict else { return };
    // All containers that should run do, and the API says that the pod is ready.
    let up = p.current.is_none()
        && p.gone.is_none()
        && p.ready.0 == p.ready.1
        && p.ready.0 > 0
        && p.containers
            .iter()
            .all(|c| c.init || c.state == kflow_core::correlate::RunState::Running);
    let fits = matches!(
        v.state,
        State::CrashLooping | State::Flapping | State::Recovered
    );
    // When the pod's node is gone, that is the verdict even for a pod that is ready.
    // A container whose liveness probe fails is ready until it is killed for it.
    let killed_soon = v.cause_id() == "KF803" && v.state == State::Slow;
    if up && !fits && !killed_soon && v.cause_id() != "KF317" {
        wrong.push(format!(
            "{} {:?} of a pod that is ready",
            v.cause_id(),
            v.state
        ));
    }
    if v.state == State::BackingOff
        && let Some(c) = p.containers.iter().find(|c| c.name == v.container)
        && c.state == kflow_core::correlate::RunState::Running
    {
        wrong.push(format!("{} backs off, and {} runs", v.cause_id(), c.name));
    }
    let Some((stage, since)) = p.current.filter(|_| !v.state.is_well()) else {
        return;
    };
    if stage != v.stage {
        wrong.push(format!(
            "{} is in {}, the pod in {stage}",
            v.cause_id(),
            v.stage
        ));
    }
    let differs = if v.at_least {
        v.since > since
    } else {
        v.since != since
    };
    if stage == v.stage && differs {
        wrong.push(format!(
            "{} since {}, the pod in {stage} since {since}",
            v.cause_id(),
            v.since
        ));
    }
}

/// The verdict counts the attempts that the timeline has.
fn attempts(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let Some(v) = s.verdict.filter(|v| v.attempt > 0) else {
        return;
    };
    let of = |step: &'static str| {
        s.spans()
            .filter(move |x| x.step == step && x.container == v.container)
    };
    let failed = |x: &&Span| x.outcome == Outcome::Error;
    let n = match v.stage {
        Stage::Sandbox => s.spans().filter(|x| x.step == "RunPodSandbox").count(),
        Stage::Image => of("PullImage")
            .filter(failed)
            .count()
            .max(of("EnsureImageExists").filter(failed).count()),
        Stage::Start | Stage::Ready => {
            let ended = s
                .spans()
                .filter(|x| x.is_run() && x.end.is_some() && x.container == v.container);
            let all: BTreeSet<u32> = ended
                .chain(of("StartContainer").filter(failed))
                .map(|x| x.attempt)
                .collect();
            // Between two API states a container may end more than once, so the number of the newest
            // attempt counts as well.
            let newest = all.iter().max().map_or(0, |n| *n as usize + 1);
            all.len().max(newest)
        }
        _ => return,
    };
    if n != v.attempt as usize {
        wrong.push(format!(
            "{} attempt {}, on the timeline {n}",
            v.cause_id(),
            v.attempt
        ));
    }
}

/// The log of calls, the timeline, the flow and the verdict agree on the last failure.
fn last_error(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let now = s.facts.now;
    let failed = |x: &Span| matches!(x.outcome, Outcome::Error | Outcome::Cancelled);
    // Calls and timeline.
    let calls: BTreeMap<CallKey, _> = s.calls.iter().map(|c| (c.key, c)).collect();
    for x in s.spans().filter(|x| x.end.is_some()) {
        let Some(c) = x.call.and_then(|k| calls.get(&k)) else {
            continue;
        };
        // A lifecycle hook is given up before the call that runs it returns.
        if x.step != c.method {
            continue;
        }
        if c.is_error() != failed(x) || (failed(x) && c.end != x.end.map(|e| e.at)) {
            wrong.push(format!(
                "{} failed: by its call {}, by the timeline {:?}",
                x.step,
                c.is_error(),
                x.outcome
            ));
        }
    }
    // Flow and timeline: the last failure of a step.
    let map = Map::embedded();
    for l in steps(map, s.world, s.pod) {
        let Some(step) = map.get(l.step) else {
            continue;
        };
        // Other functions that the step stands for: the timeline may assign these to another step.
        let others = |x: &Span| step.also.iter().chain(&step.timeline).any(|n| *n == x.step);
        let own = |x: &Span| x.step == step.function;
        let of_step = || s.spans().filter(|x| (own(x) || others(x)) && !x.is_stage());
        if of_step().all(|x| x.evidence.is_empty()) {
            continue;
        }
        let ends = |all: bool| {
            of_step()
                .filter(move |x| failed(x) && (all || own(x)))
                .filter_map(|x| Some(x.end?.at))
        };
        let timeline = ends(false).max();
        let flow = l
            .runs
            .iter()
            // Requests are marks of the timeline, not spans.
            .filter(|r| r.how == RunEnd::Failed && !matches!(r.begin.body, Body::Audit(_)))
            .filter_map(|r| r.end)
            .max();
        if flow < timeline || flow.is_some_and(|at| !ends(true).any(|e| e == at)) {
            wrong.push(format!(
                "{} failed last at {flow:?} by the flow, {timeline:?} by the timeline",
                step.function
            ));
        }
    }
    // Verdict and timeline: the failure in the verdict is not older than the newest one of its stage and container.
    let Some(v) = s.verdict.filter(|v| v.state == State::BackingOff) else {
        return;
    };
    let newest = s
        .spans()
        .filter(|x| x.stage == v.stage && !x.is_stage() && x.outcome == Outcome::Error)
        .filter(|x| v.container.is_empty() || x.container == v.container)
        .filter_map(|x| Some((x.end?, x)))
        .max_by_key(|(e, _)| e.at);
    let cited = v.evidence.iter().map(|p| p.at).max();
    if let Some((end, x)) = newest
        && cited.is_none_or(|at| at.plus(SECOND) < end.at)
        && now.since(end.at) > SECOND
    {
        wrong.push(format!(
            "{} cites {cited:?}, and {} failed at {}: {}",
            v.cause_id(),
            x.step,
            end.at,
            x.message
        ));
    }
}

/// Verdict, Node pane and timeline name the same pull as the first in the queue, since the same moment.
fn queued(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let now = s.facts.now;
    let wanted = s.pulls.of_pod(s.pod, now);
    for w in &wanted {
        let on_timeline = s.spans().find(|x| {
            let step = match w.standing {
                Standing::BackOff => "ImagePullBackOff",
                Standing::Pulling | Standing::Queued(_) => "EnsureImageExists",
            };
            x.step == step && x.container == w.container && x.outcome == Outcome::InFlight
        });
        if on_timeline.is_none_or(|x| x.start.at > w.since) {
            wrong.push(format!(
                "{} waits for its image since {}, by the timeline since {:?}",
                w.container,
                w.since,
                on_timeline.map(|x| x.start.at)
            ));
        }
    }
    for x in s.spans() {
        if let Some(a) = s.pulls.ahead(s.pod, x, now)
            && !wanted.iter().any(|w| {
                matches!(&w.standing, Standing::Queued(b) if b.since() == a.since() && b.image() == a.image())
            })
        {
            wrong.push(format!("{} is queued on the timeline alone", x.container));
        }
    }
    let told = s
        .verdict
        .into_iter()
        .flat_map(|v| std::iter::once(v).chain(&v.also))
        .find(|v| v.cause == Some(cause::KF610));
    let ahead = wanted.iter().find_map(|w| match &w.standing {
        Standing::Queued(Ahead::Call(c)) => Some((w.since, c)),
        _ => None,
    });
    match (told, ahead) {
        (None, Some((since, c)))
            if now.since(since) > limits::PULL_QUEUED.ns + SECOND && s.verdict.is_some() =>
        {
            wrong.push(format!(
                "queued behind {}, and the verdict names none",
                c.image
            ));
        }
        (Some(v), Some((_, c))) if v.in_flight.as_ref().map(|i| i.since) != Some(c.start) => {
            wrong.push(format!("queued behind {}: {}", c.image, v.sentence));
        }
        (Some(v), None) if v.confidence != Confidence::Possible => {
            wrong.push(format!("not queued: {}", v.sentence));
        }
        _ => {}
    }
}

/// Nothing of a pod begins before the request that created it, where that was observed.
fn zero(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let Some(zero) = s.pod.create_requested else {
        return;
    };
    let created = s.pod.timeline.stage(Stage::Api).map(|x| x.start.at);
    if created.is_some_and(|at| at != zero) {
        wrong.push(format!("zero is {zero}, the creation began {created:?}"));
    }
}
