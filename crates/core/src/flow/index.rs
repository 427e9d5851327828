//! Indexes the signatures of a map, so that an observation finds its candidates fast.
//!
//! Compiled once from the map: constant texts are found by hash, prefixes by the hash of their first bytes, so the cost
//! of an observation does not grow with the map.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::signature::raw::PREFIX_LEAST;
use super::signature::{EdgeKind, Pattern, Signature, What};
use super::step::{Step, StepId};
use kflow_model::Text;

/// A match: an observation lights a step by one of the step's signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    pub step: StepId,
    /// Index into [`Step::signatures`].
    pub signature: u8,
    /// The edge that the signature marks. The end of a CRI call does not name its method: see [`runs`](super::runs).
    pub edge: EdgeKind,
}

/// The steps that one observation lights.
pub type Hits = SmallVec<[Hit; 4]>;

/// Signatures under one key.
pub(super) type Bucket = SmallVec<[Hit; 2]>;

/// Signatures of one kind, by a constant text or by the first bytes of a prefix.
#[derive(Clone, Debug)]
pub(super) struct Texts<T> {
    exact: FxHashMap<Text, SmallVec<[T; 2]>>,
    prefix: FxHashMap<[u8; PREFIX_LEAST], SmallVec<[T; 2]>>,
    rest: SmallVec<[T; 2]>,
    /// For each ASCII first byte, the lengths of the exact texts as a bit set (127 and more share a bit). Most texts
    /// match nothing, and this rules them out without a hash.
    shapes: Vec<u128>,
}

/// Returns the row and bit of a text in `shapes`; `None` for an empty text and one that begins with a non-ASCII byte.
fn shape(text: &str) -> Option<(usize, u128)> {
    let first = usize::from(*text.as_bytes().first()?);
    (first < 128).then(|| (first, 1 << text.len().min(127)))
}

impl<T> Default for Texts<T> {
    fn default() -> Self {
        Self {
            exact: FxHashMap::default(),
            prefix: FxHashMap::default(),
            rest: SmallVec::new(),
            shapes: vec![0; 128],
        }
    }
}

impl<T> Texts<T> {
    pub(super) fn add(&mut self, pattern: &Pattern, hit: T) {
        match pattern {
            Pattern::Is(t) => {
                match shape(t).and_then(|(row, bit)| Some((self.shapes.get_mut(row)?, bit))) {
                    Some((row, bit)) => *row |= bit,
                    None => return self.rest.push(hit),
                }
                self.exact.entry(t.clone()).or_default().push(hit);
            }
            Pattern::Starts(t) => match t.as_bytes().first_chunk() {
                Some(key) => self.prefix.entry(*key).or_default().push(hit),
                None => self.rest.push(hit),
            },
            Pattern::Any | Pattern::Ends(_) => self.rest.push(hit),
        }
    }
    /// Returns the signatures that may fit `text`. The caller compares those of a prefix in full.
    pub(super) fn find(&self, text: &str) -> impl Iterator<Item = &T> {
        let known = shape(text)
            .is_some_and(|(row, bit)| self.shapes.get(row).is_some_and(|r| r & bit != 0));
        let exact = known.then(|| self.exact.get(text)).flatten();
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

/// All signatures, by kind and text.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    pub(super) logs: Texts<Hit>,
    pub(super) events: Texts<Hit>,
    pub(super) spans: Texts<Hit>,
    pub(super) calls: FxHashMap<Text, Bucket>,
    pub(super) audits: FxHashMap<Text, Bucket>,
    pub(super) pod_conditions: FxHashMap<Text, Bucket>,
    pub(super) node_conditions: FxHashMap<Text, Bucket>,
    pub(super) pods: Bucket,
    pub(super) fs: FxHashMap<Text, Bucket>,
    pub(super) container_events: Bucket,
    pub(super) metrics: FxHashMap<Text, Bucket>,
    pub(super) endpoints: FxHashMap<Text, Bucket>,
    pub(super) health: Bucket,
}

impl Index {
    pub(super) fn compile(steps: &[Step]) -> Self {
        let mut m = Self::default();
        for (s, step) in steps.iter().enumerate() {
            for (c, signature) in step.signatures.iter().enumerate() {
                let hit = Hit {
                    step: StepId(s as u16),
                    signature: c as u8,
                    edge: signature.edge,
                };
                m.add(signature, hit);
            }
        }
        m
    }

    fn add(&mut self, signature: &Signature, hit: Hit) {
        let put = |map: &mut FxHashMap<Text, Bucket>, key: &Text, hit| {
            map.entry(key.clone()).or_default().push(hit);
        };
        match &signature.what {
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
            What::ContainerEvent(_) | What::SandboxEvent(_) => self.container_events.push(hit),
            What::Metric(name) => put(&mut self.metrics, name, hit),
            What::Endpoint(name) => put(&mut self.endpoints, name, hit),
            What::Health(_) => self.health.push(hit),
            What::None(_) => {}
        }
    }
}
