//! Every CRI call, joined from its start and end, with the pod that it is about.

use crate::model::{
    ContainerId, Nanos, PodUid, SandboxId, SpanId, Text, TraceId,
    cri::{CallKey, CallOutcome, Service},
};
use crate::timeline::Evidence;
use std::sync::Arc;

/// One CRI call, in flight or done, with ids resolved to names as far as known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Connection and stream.
    pub key: CallKey,
    /// Start, ns exact.
    pub start: Nanos,
    /// End, `None` in flight.
    pub end: Option<Nanos>,
    /// Service.
    pub service: Service,
    /// Method.
    pub method: Text,
    /// How it ended.
    pub outcome: Option<CallOutcome>,
    /// gRPC status code.
    pub code: Option<u32>,
    /// Status message.
    pub message: Text,
    /// Pod, when known.
    pub pod_uid: PodUid,
    /// Namespace, when known.
    pub namespace: Text,
    /// Pod name, when known.
    pub pod: Text,
    /// Container name, when known.
    pub container: Text,
    /// Sandbox or container attempt, when told.
    pub attempt: Option<u32>,
    /// Sandbox id.
    pub sandbox_id: SandboxId,
    /// Container id.
    pub container_id: ContainerId,
    /// Image.
    pub image: Text,
    /// Deadline, ns from the start.
    pub timeout_ns: Option<i64>,
    /// Request bytes.
    pub request_bytes: u64,
    /// Response bytes.
    pub response_bytes: u64,
    /// Trace and span of `traceparent`.
    pub traceparent: Option<(TraceId, SpanId)>,
    /// A list or status call with a filter or id.
    pub filtered: bool,
    /// The start's observation (holds the request's fields).
    pub started: Evidence,
    /// The end's observation (holds the answer's fields).
    pub ended: Option<Evidence>,
}

impl Call {
    /// True for the loops' own calls (`List*`, `Status`, …) without a filter.
    pub fn is_noise(&self) -> bool {
        !self.filtered && crate::model::cri::is_noise(&self.method)
    }
    /// True when it failed: a status other than OK, or no status at all.
    pub fn is_error(&self) -> bool {
        !matches!(
            (self.outcome, self.code),
            (None, _) | (Some(CallOutcome::Status), Some(0))
        )
    }
    /// Length, or age at `now`; ns.
    pub fn duration(&self, now: Nanos) -> i64 {
        self.end.unwrap_or(now).since(self.start).max(0)
    }
}

/// All calls by start. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CallLog {
    /// Chunks of calls by start; shared between clones until they change.
    pub(crate) chunks: Vec<Arc<Vec<Arc<Call>>>>,
}

impl CallLog {
    /// Calls by start.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Call>> {
        self.chunks.iter().flat_map(|c| c.iter())
    }
    /// Number of calls.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|c| c.len()).sum()
    }
    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.chunks.iter().all(|c| c.is_empty())
    }
    /// Calls in flight, oldest first.
    pub fn in_flight(&self) -> impl Iterator<Item = &Arc<Call>> {
        self.iter().filter(|c| c.end.is_none())
    }
}

/// Calls per chunk: a change after a snapshot copies this many pointers.
const CHUNK: usize = 1024;

impl CallLog {
    /// The order of the log: by start, then key; it does not depend on the order of arrival.
    const fn order(c: &Call) -> (Nanos, CallKey) {
        (c.start, c.key)
    }
    /// Adds a call in its place (nearly always the end).
    pub(crate) fn insert(&mut self, call: Arc<Call>) {
        let order = Self::order(&call);
        let after_all = self
            .chunks
            .last()
            .and_then(|c| c.last())
            .is_none_or(|c| Self::order(c) < order);
        if after_all {
            match self.chunks.last_mut() {
                Some(c) if c.len() < CHUNK => Arc::make_mut(c).push(call),
                _ => {
                    let mut v = Vec::with_capacity(CHUNK);
                    v.push(call);
                    self.chunks.push(Arc::new(v));
                }
            }
            return;
        }
        let at = self.chunk_of(order);
        let Some(chunk) = self.chunks.get_mut(at) else {
            return;
        };
        let chunk = Arc::make_mut(chunk);
        let i = chunk.partition_point(|c| Self::order(c) < order);
        chunk.insert(i, call);
        if chunk.len() > 2 * CHUNK {
            let tail = chunk.split_off(CHUNK);
            self.chunks.insert(at + 1, Arc::new(tail));
        }
    }
    /// The chunk that holds, or would hold, a call.
    fn chunk_of(&self, order: (Nanos, CallKey)) -> usize {
        self.chunks
            .partition_point(|c| c.first().is_some_and(|f| Self::order(f) <= order))
            .saturating_sub(1)
    }
    /// A call by start and key.
    pub(crate) fn get(&self, start: Nanos, key: CallKey) -> Option<&Arc<Call>> {
        let chunk = self.chunks.get(self.chunk_of((start, key)))?;
        let i = chunk
            .binary_search_by(|c| Self::order(c).cmp(&(start, key)))
            .ok()?;
        chunk.get(i)
    }
    /// Changes a call in place (never its start or key).
    pub(crate) fn change(&mut self, start: Nanos, key: CallKey, f: impl FnOnce(&mut Call)) {
        let at = self.chunk_of((start, key));
        let Some(chunk) = self.chunks.get_mut(at) else {
            return;
        };
        let Ok(i) = chunk.binary_search_by(|c| Self::order(c).cmp(&(start, key))) else {
            return;
        };
        if let Some(call) = Arc::make_mut(chunk).get_mut(i) {
            f(Arc::make_mut(call));
        }
    }
    /// Forgets the oldest chunk when there are more than `keep` calls; returns what went.
    pub(crate) fn shrink(&mut self, keep: usize) -> Option<Arc<Vec<Arc<Call>>>> {
        (self.chunks.len() > 1 && self.chunks.len().saturating_sub(1) * CHUNK > keep)
            .then(|| self.chunks.remove(0))
    }
}
