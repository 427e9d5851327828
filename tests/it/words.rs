//! The words fit the facts: every recording at a hundred moments, each view of a pod beside the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::correlate::{SESSIONS, session};
use kflow_core::correlate::steps::steps;
use kflow_core::correlate::{Call, Pod, PodView, World};
use kflow_core::diagnose::cause;
use kflow_core::diagnose::history::PodHistory;
use kflow_core::diagnose::limits;
use kflow_core::diagnose::pulls::{Ahead, Pulls, Standing};
use kflow_core::diagnose::{Confidence, Diagnoser, State, Verdict, Verdicts};
use kflow_core::flow::Stage;
use kflow_core::flow::map::Map;
use kflow_core::flow::runs::{Run, RunEnd};
use kflow_core::timeline::{Outcome, Span, summary};
use kflow_model::cri::CallKey;
use kflow_model::{Body, Evidence, Nanos, PodUid, Source, stamp::SECOND};

mod exports;

mod pairs;

mod path;

mod states;

mod node;

/// Moments at which each recording is looked at.
const MOMENTS: i64 = 100;

/// `MOMENTS=677` looks at others than a plain run, and at more.
fn moments() -> i64 {
    let wanted = std::env::var("MOMENTS").ok();
    wanted.map_or(MOMENTS, |n| n.parse().expect("MOMENTS is a number"))
}

/// What was said of a pod while its view stood: states and sentences, in order.
type Told = Vec<(Option<State>, String)>;

/// Looks at a recording at each moment.
fn sample(observations: &[Evidence], mut look: impl FnMut(&World, &Verdicts, Nanos)) {
    let seen = || observations.iter().map(|o| o.stamp.seen);
    let (Some(from), Some(to)) = (seen().min(), seen().max()) else {
        return;
    };
    let mut rest = observations.iter().peekable();
    let mut world = World::new();
    let mut diagnoser = Diagnoser::new();
    let moments = moments();
    for i in 1..=moments {
        let now = from.plus(to.since(from) / moments * i);
        while let Some(o) = rest.next_if(|o| o.stamp.seen <= now) {
            world.observe(o);
        }
        world.refresh();
        let verdicts = diagnoser.update(&world, now);
        look(&world, &verdicts, now);
    }
}

/// Every committed recording, and those that `RECORDINGS=file:file` names, which `kflow import` makes.
fn recordings() -> impl Iterator<Item = (String, Vec<Evidence>)> {
    let only = std::env::var("ONLY").unwrap_or_default();
    let more = std::env::var("RECORDINGS").unwrap_or_default();
    let more: Vec<String> = more
        .split(':')
        .filter(|f| !f.is_empty())
        .map(str::to_owned)
        .collect();
    let committed = SESSIONS
        .into_iter()
        .filter(move |name| name.starts_with(&only))
        .map(|name| (name.to_owned(), session(name)));
    committed.chain(more.into_iter().map(|path| {
        let read = kflow_model::session::load(std::path::Path::new(&path));
        let read = read.unwrap_or_else(|e| panic!("{path}: {e}"));
        (path, read.observations)
    }))
}

/// Which part of the sources is left of a recording.
pub(crate) const PARTS: [(&str, &[Source]); 6] = [
    ("all", &Source::ALL),
    ("API", &[Source::Kube, Source::Audit]),
    (
        "node",
        &[
            Source::Cri,
            Source::Kubelet,
            Source::Fs,
            Source::Runtime,
            Source::Otlp,
            Source::Metrics,
        ],
    ),
    ("API and kubelet's log", &[Source::Kube, Source::Kubelet]),
    ("tap", &[Source::Cri]),
    ("kubelet's log", &[Source::Kubelet]),
];

/// A pod at a moment, as each view has it.
struct Seen<'a> {
    world: &'a World,
    pod: &'a PodView,
    facts: &'a PodHistory<'a>,
    verdict: Option<&'a Verdict>,
    pulls: &'a Pulls,
    /// Calls of the pod by the log of calls, which the node pane shows, oldest first.
    calls: &'a [Arc<Call>],
}

impl Seen<'_> {
    fn spans(&self) -> impl Iterator<Item = &Span> {
        self.pod.timeline.spans.iter()
    }
    /// Calls of the pod in flight: the log of calls, which the node pane shows.
    fn flying(&self) -> BTreeSet<CallKey> {
        let of_pod = self.calls.iter().filter(|c| c.end.is_none());
        of_pod.map(|c| c.key).collect()
    }
}

/// Pairs of views that say different things.
fn contradictions(s: &Seen<'_>) -> Vec<String> {
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

/// What is in flight by the timeline, and for the verdict, is in flight on the node.
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

/// Flow and timeline agree on when attempts of a step began and ended, and how; and the flow has no fewer.
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
        // A run that goes on by the flow alone is not one that the timeline saw end.
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

/// A stage works no longer than it lasts, and as long as any of its steps; what garbage collection does minutes later is
/// no part of it.
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

/// The verdict agrees with the status, and with where the list says that the pod stands and since when.
fn verdict(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let p = s.pod;
    let Some(v) = s.verdict else { return };
    // All that is to run runs, and the API says that it is ready.
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
    // Of a pod whose node is gone nothing is news but that.
    if up && !fits && v.cause_id() != "KF317" {
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
    if stage == v.stage && since != v.since {
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
            // Between two states of the API a container may end more than once: the newest attempt's number tells.
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

/// What failed last is the same by the log of calls, the timeline, the flow and the verdict.
fn last_error(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let now = s.facts.now;
    let failed = |x: &Span| matches!(x.outcome, Outcome::Error | Outcome::Cancelled);
    // Calls and timeline.
    let calls: BTreeMap<CallKey, _> = s.calls.iter().map(|c| (c.key, c)).collect();
    for x in s.spans().filter(|x| x.end.is_some()) {
        let Some(c) = x.call.and_then(|k| calls.get(&k)) else {
            continue;
        };
        // A hook is given up before the call that runs it returns.
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
        // Functions that the step stands for: what they are by the timeline may be another step's.
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
    // Verdict and timeline: what it says of a failure is not older than the newest one of its stage and container.
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

/// Verdict, node pane and timeline have the same pull first, since the same moment.
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

/// Nothing of a pod begins before the request that created it, where that was seen.
fn zero(s: &Seen<'_>, wrong: &mut Vec<String>) {
    let Some(zero) = s.pod.create_requested else {
        return;
    };
    let created = s.pod.timeline.stage(Stage::Api).map(|x| x.start.at);
    if created.is_some_and(|at| at != zero) {
        wrong.push(format!("zero is {zero}, the creation began {created:?}"));
    }
}

/// Looks at a recording with some of its sources: what is wrong, how often and from when, and how many pods were looked at.
fn views(observations: &[Evidence], wrong: &mut BTreeMap<String, (u32, String)>, of: &str) -> u32 {
    let mut looked = 0;
    let mut before: BTreeMap<String, Pod> = BTreeMap::new();
    sample(observations, |world, verdicts, now| {
        let pulls = Pulls::of(world, now);
        let mut calls: BTreeMap<PodUid, Vec<Arc<Call>>> = BTreeMap::new();
        for c in world.calls().iter() {
            calls.entry(c.pod_uid.clone()).or_default().push(c.clone());
        }
        for pod in world.pods() {
            // What did not change and has no verdict says what it said.
            let last = before.insert(pod.uid.to_string(), pod.clone());
            let same = last.is_some_and(|p| Arc::ptr_eq(&p, pod));
            let verdict = verdicts.0.get(&pod.uid).map(|v| &**v);
            if same && verdict.is_none() {
                continue;
            }
            looked += 1;
            let facts = PodHistory::gather(pod, now);
            let seen = Seen {
                world,
                pod,
                facts: &facts,
                verdict,
                pulls: &pulls,
                calls: calls.get(&pod.uid).map_or(&[], Vec::as_slice),
            };
            for text in contradictions(&seen) {
                let key = format!("{of} {}: {text}", pod.key());
                wrong.entry(key).or_insert((0, now.to_rfc3339())).0 += 1;
            }
        }
    });
    looked
}

#[test]
fn no_view_of_a_pod_contradicts_another() {
    let mut wrong: BTreeMap<String, (u32, String)> = BTreeMap::new();
    let mut looked = 0;
    // `PART=tap` looks at another part of the sources.
    let only = std::env::var("PART").ok();
    for (name, all) in recordings() {
        for (part, sources) in PARTS {
            let wanted = match &only {
                Some(only) => only == part,
                None => ["all", "API"].contains(&part),
            };
            if !wanted {
                continue;
            }
            let left: Vec<Evidence> = all
                .iter()
                .filter(|o| o.source == Source::Kflow || sources.contains(&o.source))
                .cloned()
                .collect();
            looked += views(&left, &mut wrong, &format!("{name}, {part}:"));
        }
    }
    assert!(looked > 1000 || only.is_some(), "{looked}");
    let told: Vec<String> = wrong
        .iter()
        .map(|(k, (n, at))| format!("{n:4} from {at} {k}"))
        .collect();
    assert!(
        told.is_empty(),
        "{} of {looked}:\n{}",
        told.len(),
        told.join("\n")
    );
}

/// At the moment at which the kubelet tries again: what is tried is not backed off from.
#[test]
fn what_is_tried_again_does_not_back_off() {
    let mut wrong = Vec::new();
    let mut asked = 0;
    for (name, all) in recordings() {
        let mut world = World::new();
        for o in &all {
            world.observe(o);
            let Body::CallStart(call) = &o.body else {
                continue;
            };
            let trial = ["PullImage", "CreateContainer", "StartContainer"];
            if !trial.contains(&call.method.as_str()) {
                continue;
            }
            world.refresh();
            let now = o.stamp.seen;
            let calls = world.calls();
            let Some(call) = calls.in_flight().find(|c| c.key == call.key) else {
                continue;
            };
            let Some(pod) = world.pod(&call.pod_uid) else {
                continue;
            };
            let Some(v) = kflow_core::diagnose::why(&world, pod, now) else {
                continue;
            };
            asked += usize::from(v.container == call.container && !call.container.is_empty());
            if v.state == State::BackingOff
                && v.container == call.container
                && (v.stage == Stage::Image) == (call.method == "PullImage")
            {
                wrong.push(format!(
                    "{name} {} at {now}: {} backs off in {}, and {} is in flight",
                    pod.key(),
                    v.cause_id(),
                    v.stage,
                    call.method
                ));
            }
        }
    }
    assert!(asked > 30, "{asked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_verdict_changes_back_only_with_new_evidence() {
    let mut wrong = Vec::new();
    for (name, all) in recordings() {
        // Of each pod: its view, and what was said of it since that came.
        let mut said: BTreeMap<String, (Pod, Told)> = BTreeMap::new();
        sample(&all, |world, verdicts, now| {
            for pod in world.pods() {
                let v = verdicts.0.get(&pod.uid);
                let word = (
                    v.map(|v| v.state),
                    v.map_or(String::new(), |v| v.cause_id().to_owned()),
                );
                let (view, words) = said
                    .entry(pod.uid.to_string())
                    .or_insert_with(|| (pod.clone(), Vec::new()));
                if !std::sync::Arc::ptr_eq(view, pod) {
                    *view = pod.clone();
                    words.clear();
                }
                if words.last() == Some(&word) {
                    continue;
                }
                if words.contains(&word) {
                    wrong.push(format!("{name} {} at {now}: {words:?} {word:?}", pod.key()));
                }
                words.push(word);
            }
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_pod_counts_from_the_request_that_created_it() {
    let w = crate::correlate::world(&session("S1-basics"));
    let p = *w.find("s01/healthy").first().expect("it was recorded");
    let received = p.evidence.iter().find_map(|o| match &o.body {
        Body::Audit(a) if a.verb == "create" && a.resource == "pods" => Some(a.received),
        _ => None,
    });
    assert_eq!(p.create_requested, received);
    assert!(p.zero() > p.created, "the API's creation is truncated");
    assert_eq!(p.timeline.spans.first().map(|s| s.start.at), Some(p.zero()));
    // The init container ran two seconds between the two pulls.
    let image = p.timeline.stage(Stage::Image).expect("it has the stage");
    let now = Nanos(i64::MAX);
    let (work, whole) = (
        summary::work_ns(&p.timeline, image, now),
        image.duration(now),
    );
    assert!(work * 10 < whole, "{work} {whole}");
}
