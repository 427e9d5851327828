//! What each step did, from evidence: when it was first seen, how often, and how long each run took.
//!
//! Several sources can show the same run (the call's bytes, its span, two log lines, an Event). Evidence is grouped by
//! [`SignatureKind`], and nothing is counted twice: a step's count is that of the signature that was seen most often,
//! and its runs are those of the best kind of evidence that has a begin and an end. For steps whose signatures are
//! alternatives, the counts of a kind's signatures are added.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::map::{Map, StepId};
use super::matcher::Hit;
use super::readyz::{ReadyzChecks, checks};
use super::signature::{EdgeKind, SignatureKind, What};
use kflow_model::{
    Body, Nanos, Observation, Stamp, Text,
    audit::AuditStage,
    cri::{CallEnd, CallKey, CallOutcome, failed},
    log::{Component, LogLine},
};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunEnd {
    /// The run ended without an error.
    Ok,
    /// The run ended with an error.
    Failed,
    /// The run has not ended.
    InFlight,
    /// No source saw the end: the next run began, or bytes of the run's call were lost.
    Unseen,
    /// The run was over when it was first observed: its start and its length are unknown.
    Before,
}

/// One run of a step, from its begin to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of the run in its step, from 0.
    pub attempt: u32,
    /// The subject of the run, where a step runs for several ones (the name of a post-start hook); else empty.
    pub what: Text,
    pub start: Nanos,
    /// `None` when no source saw the end.
    pub end: Option<Nanos>,
    pub how: RunEnd,
    /// The evidence of the begin.
    pub begin: Arc<Observation>,
    /// The evidence of the end; the same as `begin` for a span or a request.
    pub finish: Option<Arc<Observation>>,
}

impl Run {
    /// Returns the length, or the age at `now` while the run goes on, ns; `None` when its end was not seen.
    pub fn duration(&self, now: Nanos) -> Option<i64> {
        let end = match (self.end, self.how) {
            (Some(end), _) => end,
            (None, RunEnd::InFlight) => now,
            (None, _) => return None,
        };
        Some(end.since(self.start).max(0))
    }
}

/// A step with evidence, and what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRuns {
    pub step: StepId,
    /// The earliest evidence.
    pub first: Stamp,
    /// The latest evidence.
    pub last: Stamp,
    /// How often the step was seen, by the signature that was seen most often.
    pub count: u32,
    /// Runs with a begin, by start, from the best kind of evidence that has them.
    pub runs: Vec<Run>,
    /// The first observation of each kind of evidence, best kind first.
    pub evidence: Vec<(SignatureKind, Arc<Observation>)>,
}

/// Returns what each step did, by number, as of `now`: later evidence is not used. The evidence may be one pod's or a
/// node's, in any order.
pub fn lit(map: &Map, evidence: &[Arc<Observation>], now: Nanos) -> Vec<StepRuns> {
    lit_on(map, evidence, now, None)
}

/// Like [`lit`], on a node with this container runtime.
pub fn lit_on(
    map: &Map,
    evidence: &[Arc<Observation>],
    now: Nanos,
    runtime: Option<Component>,
) -> Vec<StepRuns> {
    let mut sorted: Vec<&Arc<Observation>> =
        evidence.iter().filter(|o| o.stamp.seen <= now).collect();
    sorted.sort();
    sorted.dedup();
    let mut build = Build::default();
    for o in sorted {
        build.take(map, o);
    }
    let mut steps = build.done(map);
    of_the_runtime(map, &mut steps, runtime);
    steps
}

/// Drops the steps of runtimes that were not at work. Network namespaces, mounts and container events look the same for
/// every runtime and light a step in each runtime's flow; spans, log lines and Events are of one runtime. Where neither
/// these nor `known` tell the runtime, the first one in the map is kept.
fn of_the_runtime(map: &Map, steps: &mut Vec<StepRuns>, known: Option<Component>) {
    let mut at_work: SmallVec<[Component; 2]> = known.into_iter().collect();
    if at_work.is_empty() {
        let own = |l: &StepRuns| l.evidence.iter().any(|(kind, _)| !kind.is_of_any_runtime());
        let telling = steps.iter().filter(|l| own(l));
        at_work.extend(telling.filter_map(|l| map.runtime_of(l.step)));
    }
    if at_work.is_empty() {
        at_work.extend(steps.iter().find_map(|l| map.runtime_of(l.step)));
    }
    steps.retain(|l| map.runtime_of(l.step).is_none_or(|r| at_work.contains(&r)));
}

/// Cuts evidence where a new pass of a flow begins (a new start of its component), oldest first. The first piece is the
/// evidence before the first begin. Pieces that light no step of the flow are left out.
pub fn passes(map: &Map, flow: usize, evidence: &[Arc<Observation>]) -> Vec<Vec<Arc<Observation>>> {
    let mut sorted = evidence.to_vec();
    sorted.sort();
    sorted.dedup();
    let anchor = map.flows().get(flow).and_then(|f| f.anchor);
    let mut pieces: Vec<Vec<Arc<Observation>>> = vec![Vec::new()];
    let mut newest = None;
    for o in sorted {
        let begins = anchor.is_some() && map.steps_of(&o).iter().any(|s| Some(*s) == anchor);
        // A component's first lines come together: they are one begin.
        if begins {
            let again = newest.is_some_and(|t| o.stamp.at.since(t) < kflow_model::stamp::SECOND);
            if !again {
                pieces.push(Vec::new());
            }
            newest = Some(o.stamp.at);
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(o);
        }
    }
    let lights = |piece: &[Arc<Observation>]| {
        piece
            .iter()
            .flat_map(|o| map.steps_of(o))
            .any(|s| map.get(s).is_some_and(|s| s.flow == flow))
    };
    pieces.retain(|p| lights(p));
    pieces
}

/// One step's evidence of one kind.
#[derive(Default)]
struct Kind {
    /// Number of observations by signature.
    counts: BTreeMap<u8, u32>,
    runs: Vec<Run>,
    first: Option<Arc<Observation>>,
}

/// All evidence of one step.
struct Gathered {
    first: Stamp,
    last: Stamp,
    kinds: BTreeMap<SignatureKind, Kind>,
}

impl From<Stamp> for Gathered {
    fn from(at: Stamp) -> Self {
        Self {
            first: at,
            last: at,
            kinds: BTreeMap::new(),
        }
    }
}

/// Tells log lines about different things apart: pod, container, and the first text in quotes of the message.
type Subject = (Text, Text, Text);

#[derive(Default)]
struct Build {
    steps: BTreeMap<StepId, Gathered>,
    /// Indices of the runs of each open call, by step.
    calls: FxHashMap<CallKey, Vec<(StepId, usize)>>,
    /// Index of the run of each open pair of log lines.
    pairs: FxHashMap<(StepId, Subject), usize>,
    requests: FxHashMap<(StepId, Text), usize>,
    /// Index of each health check's run.
    checks: FxHashMap<(StepId, Text), usize>,
    /// The steps that the newest state of each pod or node lights.
    held: FxHashMap<Text, FxHashSet<StepId>>,
}

impl Build {
    fn take(&mut self, map: &Map, o: &Arc<Observation>) {
        if let Body::CallEnd(end) = &o.body {
            self.call_ended(o, end);
            return;
        }
        if let Some(told) = checks(map, o) {
            self.checked(map, o, &told);
        }
        let hits = map.hits(o);
        let mut edges: SmallVec<[(StepId, SignatureKind); 4]> = SmallVec::new();
        for hit in &hits {
            let Some(signature) = map
                .get(hit.step)
                .and_then(|s| s.signatures.get(usize::from(hit.signature)))
            else {
                continue;
            };
            if matches!(signature.what, What::Health(_)) {
                continue;
            }
            let kind = signature.kind();
            let again = edges.contains(&(hit.step, kind));
            edges.push((hit.step, kind));
            self.hit(o, *hit, kind, again);
        }
        if let Some(subject) = state_of(o) {
            let now: FxHashSet<StepId> = hits.iter().map(|h| h.step).collect();
            self.held.insert(subject.clone(), now);
        }
    }

    /// Records a hit. `again` says that the same observation already gave an edge of this step by
    /// this kind of evidence.
    fn hit(&mut self, o: &Arc<Observation>, hit: Hit, kind: SignatureKind, again: bool) {
        let step = hit.step;
        let g = self
            .steps
            .entry(step)
            .or_insert_with(|| Gathered::from(o.stamp));
        g.last = g.last.max(o.stamp);
        let k = g.kinds.entry(kind).or_default();
        if k.first.is_none() {
            k.first = Some(Arc::clone(o));
        }
        if hit.edge == EdgeKind::Part {
            return;
        }
        let counts = match &o.body {
            // A state counts once for as long as it lasts, not with each update of the object.
            Body::Pod(_) | Body::Node(_) => !state_of(o)
                .and_then(|s| self.held.get(s))
                .is_some_and(|held| held.contains(&step)),
            // Their runs are counted instead, and a request has several records.
            Body::CallStart(_) | Body::Span(_) | Body::Audit(_) => false,
            _ => true,
        };
        if counts {
            let n = k.counts.entry(hit.signature).or_default();
            *n = n.saturating_add(1);
        }
        if again {
            return;
        }
        match &o.body {
            Body::CallStart(c) => {
                let at = k.begin(o, o.stamp.at);
                self.calls.entry(c.key).or_default().push((step, at));
            }
            Body::Span(s) => {
                let how = if s.error { RunEnd::Failed } else { RunEnd::Ok };
                let at = k.begin(o, o.stamp.at);
                k.end(at, o, s.end, how);
            }
            Body::Audit(a) => {
                let at = *self
                    .requests
                    .entry((step, a.audit_id.clone()))
                    .or_insert_with(|| k.begin(o, a.received));
                match a.stage {
                    AuditStage::ResponseComplete => {
                        let failed = a.code >= 400;
                        let how = if failed { RunEnd::Failed } else { RunEnd::Ok };
                        k.end(at, o, o.stamp.at, how);
                    }
                    AuditStage::Panic => k.end(at, o, o.stamp.at, RunEnd::Failed),
                    AuditStage::RequestReceived | AuditStage::ResponseStarted => {}
                }
            }
            Body::Log(line) => match hit.edge {
                EdgeKind::Begin => {
                    let at = k.begin(o, o.stamp.at);
                    if let Some(open) = self.pairs.insert((step, subject(line)), at) {
                        k.lost(open);
                    }
                }
                EdgeKind::End => {
                    if let Some(at) = self.pairs.remove(&(step, subject(line))) {
                        let failed = !line.error.is_empty();
                        let how = if failed { RunEnd::Failed } else { RunEnd::Ok };
                        k.end(at, o, o.stamp.at, how);
                    }
                }
                EdgeKind::Point | EdgeKind::Part => {}
            },
            _ => {}
        }
    }

    /// Records a health answer. A check's run lasts from the first answer in which the check fails until the first one
    /// that shows it as passed, or that does not name it among the failing ones.
    fn checked(&mut self, map: &Map, o: &Arc<Observation>, told: &ReadyzChecks<'_>) {
        for (step, names) in map.checked() {
            let tell = |this: &mut Self, name: &str, through: bool| {
                let known = this.checks.get(&(step, name.into())).copied();
                if known.is_none() && !names.fits(name) {
                    return;
                }
                let g = this
                    .steps
                    .entry(step)
                    .or_insert_with(|| Gathered::from(o.stamp));
                let by_log = matches!(o.body, Body::Log(_));
                let kind = if by_log {
                    SignatureKind::Log
                } else {
                    SignatureKind::Metric
                };
                let shown = g.kinds.entry(kind).or_default();
                shown.first.get_or_insert_with(|| Arc::clone(o));
                let k = g.kinds.entry(SignatureKind::Metric).or_default();
                let at = known.unwrap_or_else(|| {
                    let at = k.begin(o, o.stamp.at);
                    if let Some(run) = k.runs.get_mut(at) {
                        run.what = name.into();
                    }
                    this.checks.insert((step, name.into()), at);
                    at
                });
                let open = k
                    .runs
                    .get(at)
                    .is_some_and(|r| r.end.is_none() && r.how != RunEnd::Before);
                if open || known.is_none() {
                    g.last = g.last.max(o.stamp);
                }
                if through && known.is_none() {
                    if let Some(run) = k.runs.get_mut(at) {
                        run.how = RunEnd::Before;
                    }
                } else if through && open {
                    k.end(at, o, o.stamp.at, RunEnd::Ok);
                } else if let Some(run) = k.runs.get_mut(at)
                    && open
                {
                    // A log names the failing checks only when somebody asked, and is silent when all pass: the end may
                    // be missed.
                    run.how = if by_log {
                        RunEnd::Unseen
                    } else {
                        RunEnd::InFlight
                    };
                }
            };
            for name in &told.failing {
                tell(self, name, false);
            }
            for name in &told.passed {
                tell(self, name, true);
            }
            let gone: Vec<Text> = self
                .checks
                .keys()
                .filter(|(s, name)| *s == step && !told.failing.contains(&name.as_str()))
                .map(|(_, name)| name.clone())
                .collect();
            for name in gone {
                tell(self, &name, true);
            }
        }
    }

    fn call_ended(&mut self, o: &Arc<Observation>, end: &CallEnd) {
        let runs = if end.outcome == CallOutcome::Lost {
            // The bytes of the answer were lost, but a later observation may show how the call ended.
            self.calls.get(&end.key).cloned()
        } else {
            self.calls.remove(&end.key)
        };
        let how = match failed(end.outcome, end.code, &end.message) {
            Some(false) => RunEnd::Ok,
            Some(true) => RunEnd::Failed,
            None => RunEnd::Unseen,
        };
        for (step, at) in runs.unwrap_or_default() {
            let Some(g) = self.steps.get_mut(&step) else {
                continue;
            };
            g.last = g.last.max(o.stamp);
            if let Some(k) = g.kinds.get_mut(&SignatureKind::Call) {
                k.end(at, o, o.stamp.at, how);
            }
        }
    }

    fn done(self, map: &Map) -> Vec<StepRuns> {
        self.steps
            .into_iter()
            .map(|(step, g)| {
                let sum = map.get(step).is_some_and(|s| s.alternatives);
                let count = g.kinds.values().map(|k| k.count(sum)).max();
                // Evidence of parts of a run alone (`EdgeKind::Part`) still shows that there was a run.
                let count = count.unwrap_or(0).max(1);
                let evidence = g
                    .kinds
                    .iter()
                    .filter_map(|(kind, k)| Some((*kind, k.first.clone()?)))
                    .collect();
                let mut runs = g
                    .kinds
                    .into_values()
                    .map(|k| k.runs)
                    .find(|r| !r.is_empty())
                    .unwrap_or_default();
                runs.sort_by(|a, b| (a.start, &a.what).cmp(&(b.start, &b.what)));
                for (attempt, run) in (0_u32..).zip(&mut runs) {
                    run.attempt = attempt;
                }
                StepRuns {
                    step,
                    first: g.first,
                    last: g.last,
                    count,
                    runs,
                    evidence,
                }
            })
            .collect()
    }
}

fn subject(line: &LogLine) -> Subject {
    let pod = if line.pod.uid.is_empty() {
        &line.pod.name
    } else {
        &line.pod.uid.0
    };
    let container = if line.container.is_empty() {
        &line.container_id.0
    } else {
        &line.container
    };
    let named = line.message.split('"').nth(1).unwrap_or_default();
    (pod.clone(), container.clone(), named.into())
}

fn state_of(o: &Observation) -> Option<&Text> {
    match &o.body {
        Body::Pod(p) => Some(&p.uid.0),
        Body::Node(n) => Some(&n.name),
        _ => None,
    }
}

impl Kind {
    fn begin(&mut self, o: &Arc<Observation>, start: Nanos) -> usize {
        self.runs.push(Run {
            attempt: 0,
            what: Text::default(),
            start,
            end: None,
            how: RunEnd::InFlight,
            begin: Arc::clone(o),
            finish: None,
        });
        self.runs.len() - 1
    }
    fn end(&mut self, at: usize, o: &Arc<Observation>, end: Nanos, how: RunEnd) {
        if let Some(run) = self.runs.get_mut(at) {
            run.end = Some(end);
            run.how = how;
            run.finish = Some(Arc::clone(o));
        }
    }
    fn lost(&mut self, at: usize) {
        if let Some(run) = self.runs.get_mut(at) {
            run.how = RunEnd::Unseen;
        }
    }
    fn count(&self, sum: bool) -> u32 {
        let runs = u32::try_from(self.runs.len()).unwrap_or(u32::MAX);
        let counts = self.counts.values().copied();
        let told = if sum {
            counts.fold(0, u32::saturating_add)
        } else {
            counts.max().unwrap_or(0)
        };
        runs.max(told)
    }
}
