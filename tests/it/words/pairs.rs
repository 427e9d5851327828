//! Comparisons of two views each: calls in flight, counts, beginnings, durations and last failures, in the log of calls
//! (the Node pane), the Flow pane, the timeline, the list and the verdict.

use std::collections::BTreeMap;

use kflow_core::correlate::steps::steps;
use kflow_core::correlate::{Call, RunState, StageState};
use kflow_core::diagnose::pulls::Standing;
use kflow_core::diagnose::{Confidence, State};
use kflow_core::flow::Stage;
use kflow_core::flow::map::Map;
use kflow_core::flow::runs::{Run, RunEnd};
use kflow_core::timeline::Outcome;
use kflow_model::cri::{CallKey, method};
use kflow_model::{Body, stamp::SECOND};

use super::Seen;

/// Returns the runs of the flow that are calls, by call.
fn runs_by_call(s: &Seen<'_>) -> BTreeMap<CallKey, (&'static str, Run)> {
    let map = Map::embedded();
    let mut all = BTreeMap::new();
    for l in steps(map, s.world, s.pod) {
        let Some(step) = map.get(l.step) else {
            continue;
        };
        for r in l.runs {
            if let Body::CallStart(c) = &r.begin.body
                && c.method == step.function.as_str()
            {
                all.insert(c.key, (step.function.as_str(), r.clone()));
            }
        }
    }
    all
}

/// Calls that are steps of a pod itself, in the order of its life.
const OWN: [&str; 6] = [
    method::RUN_POD_SANDBOX,
    method::PULL_IMAGE,
    method::CREATE_CONTAINER,
    method::START_CONTAINER,
    method::STOP_CONTAINER,
    method::STOP_POD_SANDBOX,
];

fn is_own(c: &Call) -> bool {
    OWN.contains(&c.method.as_str())
}

/// Node and flow agree on which calls are in flight, when each began and ended, and whether it failed.
pub(super) fn node_and_flow(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let flow = runs_by_call(s);
    for c in s.calls.iter().filter(|c| is_own(c)) {
        let Some((step, r)) = flow.get(&c.key) else {
            if c.end.is_none() {
                wrong.push(format!("{} is in flight on the node alone", c.method));
            }
            continue;
        };
        let how = match (c.end, c.failed()) {
            (None, _) => RunEnd::InFlight,
            (Some(_), Some(true)) => RunEnd::Failed,
            (Some(_), Some(false)) => RunEnd::Ok,
            (Some(_), None) => r.how,
        };
        if (c.start, how) != (r.start, r.how) || (how != RunEnd::Unseen && c.end != r.end) {
            wrong.push(format!(
                "{step}: on the node {}..{:?} {how:?}, by the flow {}..{:?} {:?}",
                c.start, c.end, r.start, r.end, r.how
            ));
        }
    }
    for (key, (step, r)) in &flow {
        let known = s.calls.iter().find(|c| c.key == *key);
        if r.how == RunEnd::InFlight && known.is_some_and(|c| c.end.is_some()) {
            wrong.push(format!(
                "{step} is in flight in the flow, and over on the node"
            ));
        }
    }
}

/// Node and timeline agree on the duration of a call that is a step, and each of the pod's own calls is a step.
pub(super) fn node_and_timeline(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let now = s.facts.now;
    for c in s.calls.iter().filter(|c| is_own(c)) {
        let span = s
            .spans()
            .find(|x| x.call == Some(c.key) && x.step == c.method);
        match span {
            Some(x) if x.start.at != c.start || x.duration(now) != c.duration(now) => {
                wrong.push(format!(
                    "{} lasts {} on the node and {} on the timeline",
                    c.method,
                    c.duration(now),
                    x.duration(now)
                ));
            }
            Some(_) => {}
            None => wrong.push(format!("{} is on the node alone", c.method)),
        }
    }
}

/// Every step of the map that the timeline has is lit in the flow.
pub(super) fn timeline_in_flow(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let map = Map::embedded();
    let lit = steps(map, s.world, s.pod);
    for x in s
        .spans()
        .filter(|x| !x.is_stage() && !x.evidence.is_empty())
    {
        let known = map.steps().iter().any(|step| step.function == *x.step);
        let is_lit = lit
            .iter()
            .filter_map(|l| map.get(l.step))
            .any(|step| step.function == *x.step);
        if known && !is_lit {
            wrong.push(format!(
                "{} is on the timeline, and dark in the flow",
                x.step
            ));
        }
    }
}

/// The pod's own call that the verdict waits for is in flight in the flow, since the same moment.
pub(super) fn verdict_in_flow(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let Some(waits) = s.verdict.and_then(|v| v.in_flight.as_ref()) else {
        return;
    };
    let own = s
        .calls
        .iter()
        .any(|c| is_own(c) && c.method == waits.method && c.start == waits.since);
    let flow = runs_by_call(s);
    let same = flow
        .values()
        .any(|(step, r)| *step == waits.method && r.start == waits.since && r.end.is_none());
    if own && !same {
        wrong.push(format!(
            "the verdict waits on {}, the flow does not",
            waits.method
        ));
    }
}

/// The list's strip of stages agrees with the timeline's stages.
pub(super) fn strip(s: &Seen<'_>, wrong: &mut Vec<String>) {
    for stage in Stage::ALL {
        // For these two stages the list adds what it knows itself: containers that are not all up, or that a failed
        // probe killed.
        if matches!(stage, Stage::Start | Stage::Ready) {
            continue;
        }
        let span = s.pod.timeline.stage(stage).map(|x| x.outcome);
        let fits = match s.pod.stage(stage) {
            StageState::NotReached | StageState::Unseen => span.is_none(),
            StageState::Running | StageState::Waiting => span == Some(Outcome::InFlight),
            StageState::Failing => matches!(span, Some(Outcome::Error | Outcome::Cancelled)),
            StageState::Done => span == Some(Outcome::Ok),
        };
        if !fits {
            wrong.push(format!(
                "{stage} is {:?} in the list and {span:?} on the timeline",
                s.pod.stage(stage)
            ));
        }
    }
    // When the verdict names a stage, the list has the pod in that stage.
    let told = s.verdict.filter(|v| {
        let ends = matches!(
            v.state,
            State::CrashLooping | State::Flapping | State::Recovered | State::Failed
        );
        // A container whose liveness probe fails is ready until it is killed for it.
        let killed_soon = v.cause_id() == "KF803" && v.state == State::Slow;
        let of_it = !ends && !killed_soon && !v.state.is_well();
        of_it && v.cause_id() != "KF317" && v.stage != Stage::Terminate
    });
    if let Some(v) = told
        && s.pod.current.is_none()
        && s.pod.gone.is_none()
        && !s.pod.phase.is_over()
    {
        wrong.push(format!(
            "{} is in {}, and the list says nothing",
            v.cause_id(),
            v.stage
        ));
    }
}

/// List, timeline and verdict agree on the last exit and on the number of restarts.
pub(super) fn exits(s: &Seen<'_>, wrong: &mut Vec<String>) {
    for c in &s.pod.containers {
        let runs = || s.spans().filter(|x| x.is_run() && x.container == c.name);
        let newest = runs().map(|x| x.attempt).max();
        if newest.is_some_and(|n| n > c.attempt) {
            wrong.push(format!(
                "{} attempt {} in the list, {newest:?} on the timeline",
                c.name, c.attempt
            ));
        }
        let last = runs()
            .filter(|x| x.end.is_some() && !x.code.is_empty())
            .max_by_key(|x| x.end);
        if let (Some(x), Some(code)) = (last, c.last_exit)
            && x.attempt == c.attempt
            && x.code != code.to_string()
        {
            wrong.push(format!(
                "{} ended with {code} by the list, with {} by the timeline",
                c.name, x.code
            ));
        }
        if let Some(v) = s.verdict.filter(|v| v.container == c.name)
            && let Some(r) = v.recurrence.filter(|_| v.state == State::CrashLooping)
        {
            let ended = runs().filter(|x| x.end.is_some()).count() as u32;
            if r.times > ended.max(c.attempt) {
                wrong.push(format!(
                    "{} ended {} times by the verdict, {ended} by the timeline, {} by the list",
                    c.name, r.times, c.attempt
                ));
            }
        }
    }
}

/// The failed call that the verdict cites is the newest of its kind on the node.
pub(super) fn cited(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let Some(v) = s.verdict.filter(|v| !v.state.is_well()) else {
        return;
    };
    for p in &v.evidence {
        let Some(Body::CallEnd(end)) = p.evidence.as_deref().map(|o| &o.body) else {
            continue;
        };
        let Some(c) = s.calls.iter().find(|c| c.key == end.key) else {
            continue;
        };
        let newer = s.calls.iter().any(|n| {
            n.method == c.method
                && n.container == c.container
                && n.is_error()
                && n.end > c.end.map(|e| e.plus(SECOND))
        });
        if newer {
            wrong.push(format!(
                "{} cites {} of {}, and it failed again since",
                v.cause_id(),
                c.method,
                c.start
            ));
        }
    }
}

/// A stage about which a verdict is certain is not an unexplained gap on the timeline.
pub(super) fn unexplained(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let Some(v) = s
        .verdict
        .filter(|v| !v.state.is_well() && v.confidence == Confidence::Certain)
    else {
        return;
    };
    for g in &s.pod.timeline.gaps {
        if g.end.is_none() && s.facts.now.since(g.start) > SECOND {
            wrong.push(format!(
                "{} is told for certain, and the timeline says {}: unknown, {}",
                v.cause_id(),
                g.stage,
                g.why
            ));
        }
    }
}

/// A container that waits for its image, according to the Node pane, does not run according to the list.
pub(super) fn images(s: &Seen<'_>, wrong: &mut Vec<String>) {
    for w in s.pulls.of_pod(s.pod, s.facts.now) {
        let word = match w.standing {
            Standing::BackOff => "backs off from its pull",
            Standing::Pulling => "is being pulled for",
            Standing::Queued(_) => "is queued",
        };
        let c = s.pod.containers.iter().find(|c| c.name == w.container);
        if c.is_some_and(|c| c.state == RunState::Running) {
            wrong.push(format!("{} {word} on the node, and runs", w.container));
        }
    }
}
