//! The views of one pod do not contradict each other, in every recording at a hundred moments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::correlate::{SESSIONS, session};
use contradictions::contradictions;
use kflow_core::correlate::{Call, Pod, PodView, World};
use kflow_core::diagnose::history::PodHistory;
use kflow_core::diagnose::pulls::Pulls;
use kflow_core::diagnose::{Diagnoser, State, Verdict, Verdicts};
use kflow_core::flow::Stage;
use kflow_core::timeline::{Span, summary};
use kflow_model::cri::CallKey;
use kflow_model::{Body, Evidence, Nanos, PodUid, Source};

mod contradictions;

mod exports;

mod pairs;

mod path;

mod states;

mod node;

/// Number of moments at which each recording is checked.
const MOMENTS: i64 = 100;

/// Returns the number of moments. `MOMENTS=677` checks more moments, and others, than the default.
fn moments() -> i64 {
    let wanted = std::env::var("MOMENTS").ok();
    wanted.map_or(MOMENTS, |n| n.parse().expect("MOMENTS is a number"))
}

/// What verdicts said about a pod while its view did not change: states and sentences, in order.
type Told = Vec<(Option<State>, String)>;

/// Calls `look` with the world of a recording at each moment.
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

/// Returns every committed recording, and those that `RECORDINGS=file:file` names, made by `kflow import`.
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

/// Names of subsets of the sources, to which the checks reduce a recording.
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

/// A pod at one moment, in each view.
struct Seen<'a> {
    world: &'a World,
    pod: &'a PodView,
    facts: &'a PodHistory<'a>,
    verdict: Option<&'a Verdict>,
    pulls: &'a Pulls,
    /// The pod's calls from the log of calls, which the Node pane shows; oldest first.
    calls: &'a [Arc<Call>],
}

impl Seen<'_> {
    fn spans(&self) -> impl Iterator<Item = &Span> {
        self.pod.timeline.spans.iter()
    }
    /// Returns the pod's calls in flight, from the log of calls.
    fn flying(&self) -> BTreeSet<CallKey> {
        let of_pod = self.calls.iter().filter(|c| c.end.is_none());
        of_pod.map(|c| c.key).collect()
    }
}

/// Checks a recording reduced to some of its sources. Collects each contradiction with its count and first place in
/// `wrong`; returns how many views were checked.
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
            // A view that did not change and has no verdict says what it said before.
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
    // `PART=tap` checks only that subset of the sources.
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

/// At the moment at which the kubelet tries again, no verdict says that it is backing off.
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
        // For each pod: its view, and what verdicts said about it since the view was made.
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
