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
