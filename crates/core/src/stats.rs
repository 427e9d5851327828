//! How long starts, stages and CRI calls took over many pods, summed up by node, namespace, owner or image, and
//! compared with another set. Pure.
//!
//! | measure | from | to |
//! |---|---|---|
//! | `start` | `creationTimestamp` (1 s) | a watch first shows every regular container running: the kubelet's `podStartE2EDuration` |
//! | `start-sli` | the same | the same, less the pulling of images and the run of init containers: the kubelet's `podStartSLOduration` |
//! | `ready` | the create request, else `creationTimestamp` | the pod is Ready for the first time |
//! | `condition/TYPE` | the same | a watch first shows the condition true |
//! | `stage/NAME` | | time in which a step of the stage went on, over all its attempts |
//! | `call/METHOD` | the request's first byte | the answer's last byte |

pub mod ranks;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kflow_model::cri::method;
use kflow_model::pod::Condition;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, PodUid, Text};
use rustc_hash::FxHashMap;

use crate::correlate::world::Pod;
use crate::correlate::{PodView, World, startup_latency};
use crate::diagnose::{Diagnoser, Verdict};
use crate::flow::Stage;
use crate::query::{PodRecord, Query};
use crate::timeline::Certainty;

/// A pod condition that turns true during a start, before Ready
/// (kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle, "Pod conditions").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    PodScheduled,
    PodReadyToStartContainers,
    Initialized,
    ContainersReady,
}

impl Turn {
    const ALL: [Self; 4] = [
        Self::PodScheduled,
        Self::PodReadyToStartContainers,
        Self::Initialized,
        Self::ContainersReady,
    ];
    /// Returns the condition's type in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PodScheduled => "PodScheduled",
            Self::PodReadyToStartContainers => "PodReadyToStartContainers",
            Self::Initialized => "Initialized",
            Self::ContainersReady => "ContainersReady",
        }
    }
}

/// Number of slowest pods that a row names.
const EXAMPLES: usize = 3;

/// What is measured. The order is that of the output.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    Start,
    StartSli,
    Ready,
    Condition(Turn),
    Stage(Stage),
    /// Calls of this CRI method.
    Call(Text),
}

impl Measure {
    /// Returns the whole that the measure has a share of: all stages of a start, or all calls. `None` for the others.
    const fn whole(&self) -> Option<Whole> {
        match self {
            Self::Start
            | Self::StartSli
            | Self::Ready
            | Self::Condition(_)
            | Self::Stage(Stage::Terminate) => None,
            Self::Stage(_) => Some(Whole::Stages),
            Self::Call(_) => Some(Whole::Calls),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.pad("start"),
            Self::StartSli => f.pad("start-sli"),
            Self::Ready => f.pad("ready"),
            Self::Condition(turn) => f.pad(&format!("condition/{}", turn.name())),
            Self::Stage(stage) => f.pad(&format!("stage/{}", stage.name())),
            Self::Call(method) => f.pad(&format!("call/{method}")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whole {
    Stages,
    Calls,
}

/// What a row stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// One row per measure.
    #[default]
    All,
    Node,
    Namespace,
    /// The topmost known owner: a Deployment rather than its ReplicaSet.
    Owner,
    /// A pod counts once for each of its images, a call for the image that it is about.
    Image,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sample {
    measure: Measure,
    group: Text,
    /// Length, ns; `None` while it goes on.
    ns: Option<i64>,
    failed: bool,
    /// `ns/name` of the pod; empty for a call that is about no pod.
    pod: Text,
}

/// One measure of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub measure: Measure,
    /// Empty when rows are not grouped, and for calls that are about no pod.
    pub group: Text,
    /// Lengths of those that have ended, shortest first, ns.
    pub lengths: Vec<i64>,
    /// Number of those that have begun and not ended.
    pub open: usize,
    /// Number of calls that failed.
    pub errors: usize,
    /// Sum of the lengths, ns.
    pub total_ns: i64,
    /// This measure's part of the group's time in all stages of starts, or in all calls, per mille.
    pub share_permille: Option<u16>,
    /// The slowest pods with their lengths in ns, longest first. Calls that are about no pod are left out.
    pub slowest: Vec<(Text, i64)>,
}

impl Row {
    /// Returns the smallest length that at least this share of the lengths does not exceed (nearest rank), ns; 0
    /// without any.
    pub fn percentile(&self, permille: usize) -> i64 {
        percentile(&self.lengths, permille)
    }
    pub fn max_ns(&self) -> i64 {
        self.lengths.last().copied().unwrap_or(0)
    }
}

/// Returns the names of all possible measures, and the prefixes that select several of them (`stage`, `call`).
pub fn names() -> Vec<String> {
    let whole = ["start", "start-sli", "ready", "condition", "stage", "call"];
    let conditions = Turn::ALL.map(Measure::Condition);
    let stages = Stage::ALL.map(Measure::Stage);
    let calls = method::ALL.iter().map(|m| Measure::Call((*m).into()));
    let each = conditions.into_iter().chain(stages).chain(calls);
    let whole = whole.into_iter().map(str::to_owned);
    whole.chain(each.map(|m| m.to_string())).collect()
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Chosen<'q> {
    /// Only pods that match, and the calls about them.
    pub query: Option<&'q Query>,
    /// Only pods created, and calls begun, from the first moment (inclusive) to the second (exclusive).
    pub range: Option<(Nanos, Nanos)>,
}

impl Chosen<'_> {
    fn is_in_range(&self, at: Nanos) -> bool {
        self.range.is_none_or(|(from, to)| from <= at && at < to)
    }
}

/// Returns the verdicts on a world's pods that an expression asks for; none where it asks for none.
pub fn verdicts(
    world: &World,
    now: Nanos,
    query: Option<&Query>,
) -> Arc<FxHashMap<PodUid, Arc<Verdict>>> {
    if query.is_some_and(Query::asks_for_verdicts) {
        Diagnoser::new().update(world, now).0
    } else {
        Arc::default()
    }
}

/// Measures the chosen pods of a world and the calls about them. Without a query, calls that are about no pod are
/// measured too, but for kflow's own.
pub fn rows(world: &World, now: Nanos, by: GroupBy, chosen: Chosen<'_>) -> Vec<Row> {
    let mut samples = Vec::new();
    let watched = world.nodes_from();
    let verdicts = verdicts(world, now, chosen.query);
    let admits = |pod: &Pod| {
        let verdict = verdicts.get(&pod.uid).map(|v| &**v);
        (chosen.query).is_none_or(|q| q.matches(&PodRecord::new(pod, verdict, now)))
    };
    for pod in world.pods().iter().filter(|p| !p.past) {
        if chosen.is_in_range(pod.zero()) && admits(pod) {
            of_pod(pod, by, watched, &mut samples);
        }
    }
    for call in world.calls().iter() {
        if !chosen.is_in_range(call.start) || !world.selects_call(call) || world.is_own_call(call) {
            continue;
        }
        let pod = world.pod(&call.pod_uid);
        if chosen.query.is_some() && !pod.is_some_and(&admits) {
            continue;
        }
        let group = match (by, pod) {
            (GroupBy::All, _) => Text::default(),
            (GroupBy::Image, _) => call.image.clone(),
            (_, Some(pod)) => groups(pod, by).into_iter().next().unwrap_or_default(),
            (GroupBy::Namespace, None) => call.namespace.clone(),
            (_, None) => Text::default(),
        };
        samples.push(Sample {
            measure: Measure::Call(call.method.clone()),
            group,
            ns: call.end.map(|_| call.duration(now)),
            failed: call.is_error(),
            pod: pod.map(|p| p.key().into()).unwrap_or_default(),
        });
    }
    summed(samples)
}

/// Returns the groups that a pod belongs to.
fn groups(pod: &PodView, by: GroupBy) -> Vec<Text> {
    match by {
        GroupBy::All => vec![Text::default()],
        GroupBy::Node => vec![pod.node.clone()],
        GroupBy::Namespace => vec![pod.namespace.clone()],
        GroupBy::Owner => {
            let owner = pod.owners.last();
            let name = owner.map(|o| format!("{}/{}/{}", pod.namespace, o.kind, o.name));
            vec![name.map(Text::from).unwrap_or_default()]
        }
        GroupBy::Image => images(pod),
    }
}

/// Returns the images of the pod's containers, each once, sorted.
pub fn images(pod: &PodView) -> Vec<Text> {
    let mut images: Vec<Text> = pod.containers.iter().map(|c| c.image.clone()).collect();
    images.sort_unstable();
    images.dedup();
    images
}

/// Returns what is measured of a pod, with the length in ns; `None` as a length while it goes on. `watched` is from
/// [`World::nodes_from`]. The stages of a pod created before `watched` are left out, because earlier attempts may have been
/// missed; its termination is measured if it began later.
pub fn measured(pod: &PodView, watched: Option<Nanos>) -> Vec<(Measure, Option<i64>)> {
    let mut measured: Vec<(Measure, Option<i64>)> = Vec::new();
    let waits = pod.gone.is_none() && pod.current.is_some() && !was_ready(pod);
    match startup_latency::start(pod) {
        Some(start) => {
            measured.push((Measure::Start, Some(start.total_ns)));
            measured.push((Measure::StartSli, Some(start.sli_ns)));
        }
        None if waits && pod.mirrors.is_empty() => {
            measured.push((Measure::Start, None));
            measured.push((Measure::StartSli, None));
        }
        None => {}
    }
    match pod.start().filter(|_| !was_ready(pod)) {
        Some((ns, _)) => measured.push((Measure::Ready, Some(ns))),
        None if waits => measured.push((Measure::Ready, None)),
        None => {}
    }
    for turn in Turn::ALL {
        match turned(pod, turn.name()) {
            Turned::At(at) => {
                let ns = at.since(pod.zero()).max(0);
                measured.push((Measure::Condition(turn), Some(ns)));
            }
            Turned::NotYet if waits => measured.push((Measure::Condition(turn), None)),
            Turned::NotYet | Turned::Unseen => {}
        }
    }
    for stage in Stage::ALL {
        if let Some(whole) = pod.timeline.stage(stage) {
            if !is_seen_whole(pod, stage, watched) {
                continue;
            }
            let ended = whole.end.map(|_| pod.took(stage));
            // Both ends are of the same second: nothing was measured.
            if ended == Some(0) && whole.certainty == Certainty::Bounded {
                continue;
            }
            measured.push((Measure::Stage(stage), ended));
        }
    }
    measured
}

/// Returns false for a stage of which earlier attempts may have been missed, because the pod is older than what sources on nodes
/// tell. A termination is missed in part only if it began before that.
pub fn is_seen_whole(pod: &PodView, stage: Stage, watched: Option<Nanos>) -> bool {
    let begun = match pod.timeline.stage(stage) {
        Some(whole) if stage == Stage::Terminate => whole.start.at,
        // The API truncates the time of creation to the second.
        _ => pod.zero().plus(SECOND),
    };
    watched.is_none_or(|from| begun >= from)
}

fn of_pod(pod: &PodView, by: GroupBy, watched: Option<Nanos>, out: &mut Vec<Sample>) {
    let key = Text::from(pod.key());
    let measured = measured(pod, watched);
    for group in groups(pod, by) {
        out.extend(measured.iter().map(|(measure, ns)| Sample {
            measure: measure.clone(),
            group: group.clone(),
            ns: *ns,
            failed: false,
            pod: key.clone(),
        }));
    }
}

enum Turned {
    /// When a watch first showed the condition as true.
    At(Nanos),
    NotYet,
    /// The condition was true when a watch first showed the pod, or no watch showed the pod.
    Unseen,
}

fn turned(pod: &PodView, kind: &str) -> Turned {
    // The kubelet creates the mirror pod when the static pod already runs.
    if !pod.mirrors.is_empty() {
        return Turned::Unseen;
    }
    let mut turn = Turned::Unseen;
    for e in pod.evidence.iter() {
        let Body::Pod(p) = &e.body else { continue };
        if p.condition(kind).is_some_and(Condition::is_true) {
            return match turn {
                Turned::NotYet => Turned::At(e.stamp.seen),
                other => other,
            };
        }
        turn = Turned::NotYet;
    }
    turn
}

/// True for a pod that was Ready in its first observed state: when it became Ready is unknown.
fn was_ready(pod: &PodView) -> bool {
    let first = pod.evidence.iter().find_map(|e| match &e.body {
        Body::Pod(p) => Some(p),
        _ => None,
    });
    first.is_some_and(|p| p.condition("Ready").is_some_and(Condition::is_true))
}

/// Returns the smallest value that at least this share of the sorted values does not exceed (nearest rank); 0 for none.
pub fn percentile(sorted: &[i64], permille: usize) -> i64 {
    let rank = (sorted.len() * permille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

fn summed(samples: Vec<Sample>) -> Vec<Row> {
    let mut by: BTreeMap<(Measure, Text), Vec<Sample>> = BTreeMap::new();
    let mut wholes: BTreeMap<(Whole, Text), i64> = BTreeMap::new();
    for s in samples {
        if let (Some(whole), Some(ns)) = (s.measure.whole(), s.ns) {
            *wholes.entry((whole, s.group.clone())).or_default() += ns;
        }
        by.entry((s.measure.clone(), s.group.clone()))
            .or_default()
            .push(s);
    }
    let row = |((measure, group), mut samples): ((Measure, Text), Vec<Sample>)| {
        samples.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.pod.cmp(&b.pod)));
        let named = samples.iter().filter(|s| !s.pod.is_empty());
        let slowest = named
            .filter_map(|s| Some((s.pod.clone(), s.ns?)))
            .take(EXAMPLES)
            .collect();
        let mut lengths: Vec<i64> = samples.iter().filter_map(|s| s.ns).collect();
        lengths.reverse();
        let total_ns = lengths.iter().sum();
        let whole = measure
            .whole()
            .and_then(|w| wholes.get(&(w, group.clone())))
            .filter(|sum| **sum > 0);
        Row {
            open: samples.len() - lengths.len(),
            errors: samples.iter().filter(|s| s.failed).count(),
            share_permille: whole
                .map(|sum| (i128::from(total_ns) * 1000 / i128::from(*sum)) as u16),
            measure,
            group,
            lengths,
            total_ns,
            slowest,
        }
    };
    by.into_iter().map(row).collect()
}

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// The second set takes longer, by more than chance alone gives in one of a hundred comparisons.
    Slower,
    Faster,
    /// The difference may be chance.
    Chance,
    /// Too few values: even the largest difference could be chance.
    TooFew,
}

impl Judgement {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Chance => "may be chance",
            Self::TooFew => "too few to say",
        }
    }
}

/// One measure of one group in two sets; one of the sets may lack it.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub measure: Measure,
    pub group: Text,
    pub before: Option<Row>,
    pub after: Option<Row>,
    /// Median of `after` minus median of `before`, ns.
    pub p50_ns: Option<i64>,
    /// Probability of ranks at least as far apart as these if both sets were drawn from one distribution.
    pub chance: Option<f64>,
    pub judgement: Judgement,
}

/// At this probability or above, a difference may be chance.
const CHANCE: f64 = 0.01;

/// Compares two sets row by row. Significant differences come first, and the largest difference of
/// medians first among them.
pub fn compare(before: Vec<Row>, after: Vec<Row>) -> Vec<Difference> {
    let mut pairs: BTreeMap<(Measure, Text), (Option<Row>, Option<Row>)> = BTreeMap::new();
    for row in before {
        let key = (row.measure.clone(), row.group.clone());
        pairs.entry(key).or_default().0 = Some(row);
    }
    for row in after {
        let key = (row.measure.clone(), row.group.clone());
        pairs.entry(key).or_default().1 = Some(row);
    }
    let mut all: Vec<Difference> = pairs
        .into_iter()
        .map(|((measure, group), (before, after))| difference(measure, group, before, after))
        .collect();
    all.sort_by_key(|d| {
        let sure = matches!(d.judgement, Judgement::Slower | Judgement::Faster);
        (!sure, -d.p50_ns.unwrap_or(0).abs())
    });
    all
}

fn difference(
    measure: Measure,
    group: Text,
    before: Option<Row>,
    after: Option<Row>,
) -> Difference {
    let lengths = |row: &Option<Row>| row.as_ref().map_or(Vec::new(), |r| r.lengths.clone());
    let (a, b) = (lengths(&before), lengths(&after));
    let p50_ns =
        (!a.is_empty() && !b.is_empty()).then(|| percentile(&b, 500) - percentile(&a, 500));
    let ranks = ranks::compare(&a, &b);
    let judgement = match &ranks {
        None => Judgement::TooFew,
        Some(r) if r.least >= CHANCE => Judgement::TooFew,
        Some(r) if r.chance >= CHANCE => Judgement::Chance,
        Some(r) if r.second_is_longer => Judgement::Slower,
        Some(_) => Judgement::Faster,
    };
    Difference {
        measure,
        group,
        before,
        after,
        p50_ns,
        chance: ranks.map(|r| r.chance),
        judgement,
    }
}
