//! Everything that was ever not well, as intervals: each has one cause, and the pod, owner or node that it befell.
//!
//! A verdict is as of a moment. [`Incidents::look`] takes the verdicts of one moment after the other, and remembers
//! from when until when each was given ([`Part`]). [`Incidents::list`] joins parts: those of one pod when little time
//! lies between them, and those of one owner's pods when they have the cause at the same time. [`Walk`] chooses the
//! moments and makes the verdicts, from a session's observations in order of arrival.

mod knowledge;
mod walk;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::finding::owner_arg;
use super::text::alike;
use super::{CauseId, State, Verdict, Verdicts, cause};
use crate::correlate::World;
use crate::flow::Stage;
use crate::timeline::Span;
use kflow_model::stamp::SECOND;
use kflow_model::{Nanos, ObjectRef, PodUid, Text};
pub use knowledge::Knowledge;
pub use walk::{Walk, is_telling};

/// Parts with the same cause and subject that lie no further apart than this, ns, are one incident. Chosen: the
/// kubelet's first back-off (`backoff`) is as long, so that a container that runs between two failures
/// begins no new incident.
const TOGETHER_NS: i64 = 10 * SECOND;

/// A mild trouble of a starting pod that passes by itself within this time, ns, is no incident. Chosen: the kubelet
/// asks again for an object that it could not get after 0.5, 1 and 2 s (pkg/volume/util/nestedpendingoperations,
/// initialDurationBeforeRetry 500 ms, doubled).
const PASSING_NS: i64 = 5 * SECOND;

/// The largest number of closed parts that are kept; beyond it the oldest are dropped. Chosen: enough for a day of a
/// pod that fails every nine seconds.
const MOST: usize = 10_000;

/// The pod, owner or node that an incident befell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    Pod {
        uid: PodUid,
        namespace: Text,
        /// Empty when nothing but CRI calls named the pod.
        name: Text,
    },
    /// An owner that cannot create pods, or several of whose pods have the cause.
    Owner(ObjectRef),
    /// A node by name.
    Node(Text),
}

impl Subject {
    /// The kind of the subject: `pod`, `owner` or `node`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Pod { .. } => "pod",
            Self::Owner(_) => "owner",
            Self::Node(_) => "node",
        }
    }
}

impl std::fmt::Display for Subject {
    /// `shop/web-0`, `shop/deployment/web`, `node/node1`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pod {
                uid,
                namespace,
                name,
            } => {
                if name.is_empty() {
                    write!(f, "{uid}")
                } else {
                    write!(f, "{namespace}/{name}")
                }
            }
            // A namespace is in none.
            Self::Owner(o) if o.namespace.is_empty() => f.write_str(&owner_arg(o)),
            Self::Owner(o) => write!(f, "{}/{}", o.namespace, owner_arg(o)),
            Self::Node(name) if name.is_empty() => f.write_str("node"),
            Self::Node(name) => write!(f, "node/{name}"),
        }
    }
}

/// An interval through which the verdicts on one pod, owner or node had the same cause.
#[derive(Clone, Debug)]
pub struct Part {
    /// Since when the cause held, by the first verdict: not before the end of the subject's previous part, and at most
    /// `told`.
    pub begin: Nanos,
    /// The first moment of the look that found it.
    pub told: Nanos,
    /// The first look without the verdict; earlier, when that look shows since when the trouble is over. `None` while it lasts.
    pub end: Option<Nanos>,
    /// The newest verdict of the interval.
    pub verdict: Arc<Verdict>,
    /// The topmost owner of the pod; `None` when the pod has none or is not known.
    root: Option<ObjectRef>,
}

impl Part {
    /// True when the verdict held at this moment.
    pub fn is_told_at(&self, at: Nanos) -> bool {
        self.told <= at && self.end.is_none_or(|e| at < e)
    }
    /// True for the noise of a pod's start: over within 5 s, and no lasting failure.
    pub fn is_passing(&self) -> bool {
        let v = &self.verdict;
        let mild = matches!(v.state, State::Slow | State::Blocked) || v.cause == Some(cause::KF404);
        mild && self.end.is_some_and(|e| e.since(self.told) < PASSING_NS)
    }
    fn subject(&self) -> Subject {
        let v = &self.verdict;
        match &v.owner {
            _ if !v.pod.is_empty() || !v.uid.is_empty() => Subject::Pod {
                uid: v.uid.clone(),
                namespace: v.namespace.clone(),
                name: v.pod.clone(),
            },
            Some(o) if o.kind == "Node" => Subject::Node(o.name.clone()),
            Some(o) => Subject::Owner(o.clone()),
            None => Subject::Owner(ObjectRef::default()),
        }
    }
}

/// Something that was not well: a cause, the subject that it befell, and the time.
#[derive(Clone, Debug)]
pub struct Incident {
    pub subject: Subject,
    /// The earliest begin of the parts.
    pub begin: Nanos,
    /// The latest end of the parts; `None` while a part lasts.
    pub end: Option<Nanos>,
    /// The verdict that most of the pods had, in these words; of as many, the newest.
    pub verdict: Arc<Verdict>,
    /// The intervals that make up the incident, in the order in which they were found; of several pods when the
    /// subject is their owner.
    pub parts: Vec<Part>,
}

impl Incident {
    /// The cause; `None` for readiness that comes and goes for a reason that no rule knows.
    pub fn cause(&self) -> Option<CauseId> {
        self.verdict.cause
    }
    /// How long the incident lasted, or has lasted until `now`, ns.
    pub fn length(&self, now: Nanos) -> i64 {
        self.end.unwrap_or(now).since(self.begin).max(0)
    }
    /// True when nothing tells since when: the incident was there at the first look.
    pub fn is_undated(&self, now: Nanos) -> bool {
        self.verdict.at_least && self.length(now) < SECOND
    }
    /// Returns the moment in the middle of the longest part, and that part's verdict.
    pub fn middle(&self, now: Nanos) -> (Nanos, &Verdict) {
        let longest = |p: &&Part| p.end.unwrap_or(now).since(p.told);
        let Some(part) = self.parts.iter().max_by_key(longest) else {
            return (self.begin, &self.verdict);
        };
        let half = longest(&part).max(0) / 2;
        (part.told.plus(half), &part.verdict)
    }
    /// Number of pods that the incident befell.
    pub fn pods(&self) -> usize {
        let mut pods: Vec<&PodUid> = self
            .parts
            .iter()
            .map(|p| &p.verdict.uid)
            .filter(|u| !u.is_empty())
            .collect();
        pods.sort_unstable();
        pods.dedup();
        pods.len()
    }
    /// Returns what else was said of the pods: each verdict with other words than [`verdict`](Self::verdict) once, with the number of pods
    /// that had it, most first.
    pub fn others(&self) -> Vec<(usize, &Verdict)> {
        let mut all = by_words(&self.parts);
        let own = alike(&self.verdict.same);
        all.retain(|(_, p)| alike(&p.verdict.same) != own);
        all.into_iter().map(|(n, p)| (n, &*p.verdict)).collect()
    }
    /// The subject's namespace, or its name when it is a node.
    pub fn place(&self) -> &str {
        match &self.subject {
            Subject::Pod { namespace, .. } => namespace,
            Subject::Owner(o) => &o.namespace,
            Subject::Node(name) => name,
        }
    }
}

/// Subject and cause: at most one part is open for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    uid: PodUid,
    owner: Option<ObjectRef>,
    cause: Option<CauseId>,
}

impl Key {
    fn of(v: &Verdict) -> Self {
        Self {
            uid: v.uid.clone(),
            // A pod's owner is left out, because it may become known later than the pod.
            owner: v.owner.clone().filter(|_| v.uid.is_empty()),
            cause: v.cause,
        }
    }
    /// The subject, whatever the cause.
    fn who(&self) -> (PodUid, Option<ObjectRef>) {
        (self.uid.clone(), self.owner.clone())
    }
}

/// The verdicts so far, as intervals.
#[derive(Clone, Debug, Default)]
pub struct Incidents {
    open: FxHashMap<Key, Part>,
    /// When the last part of a pod, owner or node ended, whatever its cause.
    ended: FxHashMap<(PodUid, Option<ObjectRef>), Nanos>,
    closed: Vec<Part>,
    forgotten: usize,
    upto: Option<Nanos>,
    changed: bool,
}

impl Incidents {
    /// Takes the verdicts of a moment, which should not be earlier than the last one. A clock that was set back counts
    /// as one that stood still.
    pub fn look(&mut self, world: &World, (pods, owners): &Verdicts, now: Nanos) {
        let now = self.upto.map_or(now, |u| u.max(now));
        self.upto = Some(now);
        let mut told: FxHashMap<Key, &Arc<Verdict>> = FxHashMap::default();
        for v in pods.values().chain(owners.iter()) {
            if !v.state.is_well() {
                told.insert(Key::of(v), v);
            }
        }
        let mut ended: Vec<Part> = self
            .open
            .extract_if(|key, _| !told.contains_key(key))
            .map(|(_, part)| Part {
                end: Some(over(world, &part, now)),
                ..part
            })
            .collect();
        self.changed |= !ended.is_empty();
        ended.sort_by(order);
        for part in &ended {
            let end = part.end.unwrap_or(now);
            self.ended.insert(Key::of(&part.verdict).who(), end);
        }
        self.closed.append(&mut ended);
        for (key, v) in told {
            if let Some(part) = self.open.get_mut(&key) {
                if !Arc::ptr_eq(&part.verdict, v) {
                    part.verdict = Arc::clone(v);
                    self.changed = true;
                }
                continue;
            }
            let root = world.pod(&key.uid).and_then(|p| root(&p.owners));
            // Of a Job that makes no pod, its CronJob.
            let root = root.or_else(|| v.root.clone().filter(|_| v.uid.is_empty()));
            let before = self.ended.get(&key.who()).copied();
            self.changed = true;
            self.open.insert(
                key,
                Part {
                    begin: before.map_or(v.since, |b| v.since.max(b)).min(now),
                    told: now,
                    end: None,
                    verdict: Arc::clone(v),
                    root,
                },
            );
        }
        let most = self.closed.len().saturating_sub(MOST);
        if most > 0 {
            self.closed.drain(..most);
            self.forgotten += most;
            if let Some(oldest) = self.closed.first().map(|p| p.told) {
                self.ended.retain(|_, end| *end >= oldest);
            }
        }
    }

    /// The newest moment that was looked at.
    pub const fn upto(&self) -> Option<Nanos> {
        self.upto
    }
    /// Number of parts that were dropped because there were too many.
    pub const fn forgotten(&self) -> usize {
        self.forgotten
    }
    /// Number of pods, owners and nodes that are not well now.
    pub fn open(&self) -> usize {
        self.open.len()
    }
    /// Whether something changed since the last call of this function.
    pub const fn take_changed(&mut self) -> bool {
        std::mem::replace(&mut self.changed, false)
    }
    /// All parts, the closed ones first.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.closed.iter().chain(self.open.values())
    }

    /// Returns the incidents, by begin, without the noise of starts ([`Part::is_passing`]).
    pub fn list(&self) -> Vec<Incident> {
        // Parts are first grouped by pod, owner or node.
        let mut by_key: FxHashMap<Key, Vec<Part>> = FxHashMap::default();
        for part in self.parts().filter(|p| !p.is_passing()) {
            by_key
                .entry(Key::of(&part.verdict))
                .or_default()
                .push(part.clone());
        }
        let mut all: Vec<Incident> = Vec::new();
        let mut of_roots: FxHashMap<(ObjectRef, Option<CauseId>), Vec<Part>> = FxHashMap::default();
        for parts in by_key.into_values() {
            let root = parts.iter().rev().find_map(|p| p.root.clone());
            match root {
                Some(root) => {
                    let cause = parts.first().and_then(|p| p.verdict.cause);
                    of_roots.entry((root, cause)).or_default().extend(parts);
                }
                None => together(parts, None, &mut all),
            }
        }
        for ((root, _), parts) in of_roots {
            together(parts, Some(&root), &mut all);
        }
        all.sort_by(|a, b| {
            (a.begin, &a.subject, a.cause().map(CauseId::as_str)).cmp(&(
                b.begin,
                &b.subject,
                b.cause().map(CauseId::as_str),
            ))
        });
        all
    }
}

/// Returns when a part ended whose verdict is gone at `now`. What kept a container from its start was over when the container
/// started, which a list of pods may show only much later.
fn over(world: &World, part: &Part, now: Nanos) -> Nanos {
    let v = &part.verdict;
    if !(Stage::Admit..Stage::Start).contains(&v.stage) {
        return now;
    }
    let Some(pod) = world.pod(&v.uid) else {
        return now;
    };
    let of_it = |s: &&Span| s.is_run() && (v.container.is_empty() || s.container == v.container);
    // The API truncates times to the second.
    let started = pod.timeline.spans.iter().filter(of_it);
    let started = started.map(|s| s.start.at.plus(SECOND));
    let first = started.filter(|at| *at > part.begin).min();
    first.map_or(now, |at| at.max(part.told).min(now))
}

/// Returns the topmost owner. A node, which owns the mirrors of static pods, is no workload and does not count.
pub(super) fn root(owners: &[ObjectRef]) -> Option<ObjectRef> {
    owners.last().filter(|o| o.kind != "Node").cloned()
}

fn order(a: &Part, b: &Part) -> std::cmp::Ordering {
    (
        a.told,
        a.begin,
        &a.verdict.namespace,
        &a.verdict.pod,
        &a.verdict.uid,
    )
        .cmp(&(
            b.told,
            b.begin,
            &b.verdict.namespace,
            &b.verdict.pod,
            &b.verdict.uid,
        ))
}

/// Splits parts of one cause where they are further apart than [`TOGETHER_NS`]; each run of parts is an incident.
fn together(mut parts: Vec<Part>, root: Option<&ObjectRef>, out: &mut Vec<Incident>) {
    parts.sort_by(order);
    let mut run: Vec<Part> = Vec::new();
    let mut until: Option<Nanos> = None;
    for part in parts {
        let apart = until.is_some_and(|u| part.told.since(u) > TOGETHER_NS);
        if apart && !run.is_empty() {
            out.extend(incident(std::mem::take(&mut run), root));
            until = None;
        }
        let end = part.end.unwrap_or(Nanos(i64::MAX));
        until = Some(until.map_or(end, |u| u.max(end)));
        run.push(part);
    }
    out.extend(incident(run, root));
}

/// Returns the newest part of those whose verdicts have the same words, with the number of pods that had them: most pods first; of as many,
/// the newest.
fn by_words(parts: &[Part]) -> Vec<(usize, &Part)> {
    let ends = |p: &Part| (p.end.unwrap_or(Nanos(i64::MAX)), p.told);
    let mut by_words: FxHashMap<String, (FxHashSet<_>, &Part)> = FxHashMap::default();
    // Most parts of a long incident are told in the very same words.
    let mut words: FxHashMap<&str, String> = FxHashMap::default();
    for part in parts {
        let same = part.verdict.same.as_str();
        let words = words.entry(same).or_insert_with(|| alike(same));
        let (pods, newest) = by_words
            .entry(words.clone())
            .or_insert_with(|| (FxHashSet::default(), part));
        pods.insert(Key::of(&part.verdict).who());
        if ends(part) >= ends(newest) {
            *newest = part;
        }
    }
    let all = by_words.into_values().map(|(pods, p)| (pods.len(), p));
    let mut all: Vec<(usize, &Part)> = all.collect();
    all.sort_by(|(n, a), (m, b)| {
        let key = |p: &Part| (ends(p), p.verdict.uid.clone(), p.verdict.same.clone());
        m.cmp(n).then_with(|| key(b).cmp(&key(a)))
    });
    all
}

fn incident(parts: Vec<Part>, root: Option<&ObjectRef>) -> Option<Incident> {
    let (_, told) = by_words(&parts).into_iter().next()?;
    let verdict = Arc::clone(&told.verdict);
    let who = Key::of(&verdict).who();
    let one = parts.iter().all(|p| Key::of(&p.verdict).who() == who);
    let subject = match root {
        Some(root) if !one => Subject::Owner(root.clone()),
        _ => told.subject(),
    };
    Some(Incident {
        subject,
        begin: parts.iter().map(|p| p.begin).min()?,
        end: parts
            .iter()
            .map(|p| p.end)
            .collect::<Option<Vec<_>>>()
            .and_then(|e| e.into_iter().max()),
        verdict,
        parts,
    })
}

/// Rank of an incident by how much it needs attention: 0 is the worst.
pub const fn weight(state: State) -> u8 {
    match state {
        State::Stuck => 0,
        State::Failed => 1,
        State::BackingOff | State::CrashLooping => 2,
        State::Flapping | State::Slow => 3,
        State::Blocked => 4,
        State::Recovered | State::Healthy | State::Gone => 5,
    }
}
