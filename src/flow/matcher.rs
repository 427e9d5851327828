//! From an observation to the steps that it lights.
//!
//! Compiled once from the map: constant texts are found by hash, prefixes by the hash of their first bytes, so the cost
//! of an observation does not grow with the map.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::checks::checks;
use super::clue::raw::PREFIX_LEAST;
use super::clue::{Clue, EdgeKind, Pattern, PodFact, What};
use super::map::{Map, Step, StepId};
use crate::model::{
    Body, Observation, Text,
    fs::{FsChange, FsObject},
    log::LogLine,
    pod::{Condition, ContainerState, PodSeen},
};

/// An observation lights a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The step.
    pub step: StepId,
    /// Which of its clues, an index of [`Step::clues`].
    pub clue: u8,
    /// Which edge it is. Ends of CRI calls do not name their method: see [`lit`](super::lit).
    pub edge: EdgeKind,
}

/// The steps that one observation lights.
pub type Hits = SmallVec<[Hit; 4]>;

/// Clues under one key.
type Bucket = SmallVec<[Hit; 2]>;

/// Clues of one kind, by a constant text or by the first bytes of a prefix.
#[derive(Clone, Debug, Default)]
struct Texts {
    exact: FxHashMap<Text, Bucket>,
    prefix: FxHashMap<[u8; PREFIX_LEAST], Bucket>,
    rest: Bucket,
    longest: usize,
}

impl Texts {
    fn add(&mut self, pattern: &Pattern, hit: Hit) {
        match pattern {
            Pattern::Is(t) => {
                self.longest = self.longest.max(t.len());
                self.exact.entry(t.clone()).or_default().push(hit);
            }
            Pattern::Starts(t) => match t.as_bytes().first_chunk() {
                Some(key) => self.prefix.entry(*key).or_default().push(hit),
                None => self.rest.push(hit),
            },
            Pattern::Any => self.rest.push(hit),
        }
    }
    /// Clues that may fit. Those of a prefix have yet to be compared.
    fn find(&self, text: &str) -> impl Iterator<Item = &Hit> {
        let exact = (text.len() <= self.longest)
            .then(|| self.exact.get(text))
            .flatten();
        let prefix = text
            .as_bytes()
            .first_chunk()
            .and_then(|key: &[u8; PREFIX_LEAST]| self.prefix.get(key));
        exact
            .into_iter()
            .chain(prefix)
            .chain(std::iter::once(&self.rest))
            .flatten()
    }
}

/// All clues, by kind and text.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    logs: Texts,
    events: Texts,
    spans: Texts,
    calls: FxHashMap<Text, Bucket>,
    audits: FxHashMap<Text, Bucket>,
    pod_conditions: FxHashMap<Text, Bucket>,
    node_conditions: FxHashMap<Text, Bucket>,
    pods: Bucket,
    fs: FxHashMap<Text, Bucket>,
    container_events: Bucket,
    metrics: FxHashMap<Text, Bucket>,
    endpoints: FxHashMap<Text, Bucket>,
    health: Bucket,
}

impl Matcher {
    pub(super) fn compile(steps: &[Step]) -> Self {
        let mut m = Self::default();
        for (s, step) in steps.iter().enumerate() {
            for (c, clue) in step.clues.iter().enumerate() {
                let hit = Hit {
                    step: StepId(s as u16),
                    clue: c as u8,
                    edge: clue.edge,
                };
                m.add(clue, hit);
            }
        }
        m
    }

    fn add(&mut self, clue: &Clue, hit: Hit) {
        let put = |map: &mut FxHashMap<Text, Bucket>, key: &Text, hit| {
            map.entry(key.clone()).or_default().push(hit);
        };
        match &clue.what {
            What::Log { message, .. } => self.logs.add(message, hit),
            What::Event { reason, .. } => self.events.add(reason, hit),
            What::Span { name, .. } => self.spans.add(name, hit),
            What::Call { method, .. } => {
                let edge = EdgeKind::Begin;
                put(&mut self.calls, method, Hit { edge, ..hit });
            }
            What::Audit { resource, .. } => put(&mut self.audits, resource, hit),
            What::Condition {
                node: false, kind, ..
            } => put(&mut self.pod_conditions, kind, hit),
            What::Condition { kind, .. } => put(&mut self.node_conditions, kind, hit),
            What::Pod(_) => self.pods.push(hit),
            What::Fs { object, .. } => put(&mut self.fs, object, hit),
            What::ContainerEvent(_) => self.container_events.push(hit),
            What::Metric(name) => put(&mut self.metrics, name, hit),
            What::Endpoint(name) => put(&mut self.endpoints, name, hit),
            What::Health(_) => self.health.push(hit),
            What::None(_) => {}
        }
    }
}

impl Map {
    /// The steps that an observation lights, each once, by number.
    pub fn steps_of(&self, o: &Observation) -> SmallVec<[StepId; 2]> {
        let mut steps: SmallVec<[StepId; 2]> = self.hits(o).iter().map(|h| h.step).collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// The steps that checks of a health endpoint show, and the names of those checks.
    pub(super) fn checked(&self) -> impl Iterator<Item = (StepId, &Pattern)> {
        self.matcher.health.iter().filter_map(|h| {
            match &self.get(h.step)?.clues.get(usize::from(h.clue))?.what {
                What::Health(name) => Some((h.step, name)),
                _ => None,
            }
        })
    }

    /// The clues that an observation fits.
    pub fn hits(&self, o: &Observation) -> Hits {
        let m = &self.matcher;
        let mut out = Hits::new();
        match &o.body {
            Body::Log(line) => self.keep(m.logs.find(&line.message), &mut out, |w| log(w, line)),
            Body::Event(e) => self.keep(m.events.find(&e.reason), &mut out, |w| {
                matches!(w, What::Event { reason, message, contains, about, by }
                    if reason.fits(&e.reason)
                        && message.fits(&e.message)
                        && (contains.is_empty() || e.message.contains(contains.as_str()))
                        && about.fits(&e.object.kind)
                        && by.fits(&e.component))
            }),
            Body::CallStart(c) => self.keep(bucket(&m.calls, &c.method), &mut out, |w| {
                matches!(w, What::Call { filtered, deadline, .. }
                    if filtered.is_none_or(|f| f == c.filtered)
                        && deadline.is_none_or(|d| d == c.timeout_ns.is_some()))
            }),
            Body::Span(s) => self.keep(m.spans.find(&s.name), &mut out, |w| {
                matches!(w, What::Span { name, service }
                    if name.fits(&s.name) && service.fits(&s.service))
            }),
            Body::Audit(a) => self.keep(bucket(&m.audits, &a.resource), &mut out, |w| {
                matches!(w, What::Audit { verb, by, .. } if *verb == a.verb && by.fits(&a.user))
            }),
            Body::Fs(change) => {
                let (object, inner) = fs_name(change);
                self.keep(bucket(&m.fs, object), &mut out, |w| {
                    matches!(w, What::Fs { actions, inner: pattern, .. }
                        if actions.contains(&change.action) && pattern.fits(inner))
                });
            }
            Body::Pod(p) => {
                for c in &p.status.conditions {
                    self.keep(bucket(&m.pod_conditions, &c.kind), &mut out, |w| {
                        condition(w, c)
                    });
                }
                self.keep(&m.pods, &mut out, |w| pod(w, p));
            }
            Body::Node(n) => {
                for c in &n.conditions {
                    self.keep(bucket(&m.node_conditions, &c.kind), &mut out, |w| {
                        condition(w, c)
                    });
                }
            }
            Body::ContainerEvent(e) => self.keep(
                &m.container_events,
                &mut out,
                |w| matches!(w, What::ContainerEvent(k) if *k == e.kind),
            ),
            Body::Sample(s) => {
                // An endpoint that answers not at all shows nothing.
                if s.code != 0 {
                    out.extend(bucket(&m.endpoints, &s.what).iter().copied());
                }
                for (series, value) in &s.values {
                    if value.0 > 0.0 {
                        out.extend(bucket(&m.metrics, family(series)).iter().copied());
                    }
                }
                out.sort_unstable_by_key(|h| (h.step, h.clue));
                out.dedup();
            }
            _ => {}
        }
        if let Some(told) = checks(o) {
            self.keep(&m.health, &mut out, |w| {
                matches!(w, What::Health(p)
                    if told.failing.iter().chain(&told.passed).any(|check| p.fits(check)))
            });
        }
        out
    }

    fn keep<'a>(
        &self,
        candidates: impl IntoIterator<Item = &'a Hit>,
        out: &mut Hits,
        fits: impl Fn(&What) -> bool,
    ) {
        for hit in candidates {
            let clue = self
                .get(hit.step)
                .and_then(|s| s.clues.get(usize::from(hit.clue)));
            if clue.is_some_and(|c| fits(&c.what)) {
                out.push(*hit);
            }
        }
    }
}

fn bucket<'a>(map: &'a FxHashMap<Text, Bucket>, key: &str) -> &'a [Hit] {
    map.get(key).map_or(&[], |b| b.as_slice())
}

fn log(what: &What, line: &LogLine) -> bool {
    let What::Log {
        component,
        message,
        contains,
        fields,
    } = what
    else {
        return false;
    };
    *component == line.component
        && message.fits(&line.message)
        && (contains.is_empty()
            || line.message.contains(contains.as_str())
            || line.error.contains(contains.as_str()))
        && fields
            .iter()
            .all(|(k, v)| line.field(k).is_some_and(|told| v.fits(told)))
}

fn condition(what: &What, c: &Condition) -> bool {
    matches!(what, What::Condition { status, reason, .. } if *status == c.status && reason.fits(&c.reason))
}

fn pod(what: &What, p: &PodSeen) -> bool {
    let What::Pod(fact) = what else {
        return false;
    };
    match fact {
        PodFact::Phase(t) => p.status.phase == *t,
        PodFact::Reason(t) => !p.status.reason.is_empty() && t.fits(&p.status.reason),
        PodFact::Waiting(t) => p
            .statuses()
            .any(|c| matches!(&c.state, ContainerState::Waiting { reason, .. } if reason == t)),
        PodFact::Terminated(t) => p.statuses().any(|c| {
            matches!(&c.state, ContainerState::Terminated(x) if x.reason == *t)
                || c.last.as_ref().is_some_and(|x| x.reason == *t)
        }),
        PodFact::Deletion => p.deletion.is_some(),
        PodFact::StartTime => p.status.start_time.is_some(),
        PodFact::Node => !p.spec.node.is_empty(),
        PodFact::NominatedNode => !p.status.nominated_node.is_empty(),
        PodFact::Ip => !p.status.pod_ip.is_empty(),
    }
}

/// The name of the object in the map's file, and the text that `inner` is compared with.
fn fs_name(change: &FsChange) -> (&'static str, &str) {
    match &change.object {
        FsObject::PodCgroup { .. } => ("pod_cgroup", ""),
        FsObject::ContainerCgroup { .. } => ("container_cgroup", ""),
        FsObject::PodDir { .. } => ("pod_dir", ""),
        FsObject::Volume { inner, .. } => ("volume", inner.as_str()),
        FsObject::PodFile { inner, .. } => ("pod_file", inner.as_str()),
        FsObject::VolumeMount { .. } => ("volume_mount", ""),
        FsObject::NetNs { .. } => ("net_ns", ""),
        FsObject::RuntimeMount { what, .. } => ("runtime_mount", what.as_str()),
    }
}

/// The family of a series: its name without labels and without the suffix of a histogram's part.
fn family(series: &str) -> &str {
    let name = series.split('{').next().unwrap_or_default();
    ["_bucket", "_count", "_sum"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name)
}
