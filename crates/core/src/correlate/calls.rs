//! Every CRI call, joined from its start and end, with the pod that it is about.

use kflow_model::Evidence;
use kflow_model::{
    ContainerId, Nanos, PodUid, SandboxId, SpanId, Text, TraceId,
    cri::{CallKey, CallOutcome, Service, code_name},
};
use std::sync::Arc;

/// A CRI call, in flight or finished, with its ids resolved to names where these are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub key: CallKey,
    /// Start, exact to the nanosecond.
    pub start: Nanos,
    /// End; `None` while the call is in flight.
    pub end: Option<Nanos>,
    pub service: Service,
    /// CRI method, for example `RunPodSandbox`.
    pub method: Text,
    /// How the call ended; `None` while it is in flight.
    pub outcome: Option<CallOutcome>,
    /// gRPC status code, where one is known.
    pub code: Option<u32>,
    /// True when `code` is inferred instead of read: see [`CallEnd::inferred`](kflow_model::cri::CallEnd::inferred).
    pub inferred: bool,
    /// True when some of the call's headers are unknown: see
    /// [`CallStart::partial`](kflow_model::cri::CallStart::partial).
    pub partial: bool,
    /// gRPC status message.
    pub message: Text,
    /// UID of the pod, empty while unknown.
    pub pod_uid: PodUid,
    /// True when the request does not lead to the pod, and the order of the calls or the trace does.
    pub pod_inferred: bool,
    /// Empty while unknown.
    pub namespace: Text,
    /// Name of the pod, empty while unknown.
    pub pod: Text,
    /// Name of the container, empty while unknown.
    pub container: Text,
    /// Attempt of the sandbox or container, where the request states it.
    pub attempt: Option<u32>,
    pub sandbox_id: SandboxId,
    pub container_id: ContainerId,
    /// Image reference, empty when the call is not about an image.
    pub image: Text,
    /// Deadline in ns after the start, where the client set one.
    pub timeout_ns: Option<i64>,
    pub request_bytes: u64,
    pub response_bytes: u64,
    /// Trace and span id of the request's `traceparent` header.
    pub traceparent: Option<(TraceId, SpanId)>,
    /// True for a list or status call that is restricted by a filter or an id.
    pub filtered: bool,
    /// Observation of the start; it holds the fields of the request.
    pub started: Evidence,
    /// Observation of the end; it holds the fields of the response.
    pub ended: Option<Evidence>,
}

impl Call {
    /// True for the periodic calls of the kubelet's loops (`List*`, `Status`, …) when they have no filter.
    pub fn is_noise(&self) -> bool {
        !self.filtered && kflow_model::cri::is_noise(&self.method)
    }
    /// Returns whether the call failed; `None` while it is in flight, and when its outcome is unknown.
    pub fn failed(&self) -> Option<bool> {
        kflow_model::cri::failed(self.outcome?, self.code, &self.message)
    }
    /// True when the call is known to have failed: a status other than OK, or a broken-off stream.
    pub fn is_error(&self) -> bool {
        self.failed() == Some(true)
    }
    /// Returns a word for the call's outcome: its status code, how it was broken off, or `in flight`.
    pub fn ending(&self) -> String {
        match (self.outcome, self.code) {
            (Some(CallOutcome::Status), Some(code)) if self.inferred => {
                format!("{}?", code_name(code))
            }
            (Some(CallOutcome::Status), Some(code)) => code_name(code).to_owned(),
            (Some(CallOutcome::ClientReset), _) => "cancelled".to_owned(),
            (Some(CallOutcome::ServerReset), _) => "reset by runtime".to_owned(),
            (Some(CallOutcome::ConnectionClosed), _) => "connection closed".to_owned(),
            (Some(CallOutcome::Lost), _) => "end not seen".to_owned(),
            (Some(CallOutcome::Status), None) => "status unknown".to_owned(),
            (None, _) => "in flight".to_owned(),
        }
    }
    /// Returns the call's duration, or its age at `now` while it is in flight; ns, never negative.
    pub fn duration(&self, now: Nanos) -> i64 {
        self.end.unwrap_or(now).since(self.start).max(0)
    }
}

/// All calls, sorted by start. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CallLog {
    /// Chunks of calls, sorted by start; clones share a chunk until it changes.
    chunks: Vec<Arc<Vec<Arc<Call>>>>,
    /// A summary of each chunk, by the same index, so that most chunks need not be scanned.
    sums: Vec<Sum>,
}

/// Summary of a chunk of calls.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    /// Number of calls in flight.
    open: u32,
    /// Latest end of the finished calls.
    until: Nanos,
    /// Duration of the longest finished call, ns.
    longest: i64,
}

impl Sum {
    fn of(calls: &[Arc<Call>]) -> Self {
        let mut sum = Self::default();
        for c in calls {
            sum.add(c);
        }
        sum
    }
    fn add(&mut self, call: &Call) {
        match call.end {
            None => self.open += 1,
            Some(end) => {
                self.until = self.until.max(end);
                self.longest = self.longest.max(end.since(call.start));
            }
        }
    }
}

impl CallLog {
    /// Iterates over all calls by start.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Call>> {
        self.chunks.iter().flat_map(|c| c.iter())
    }
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|c| c.len()).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.chunks.iter().all(|c| c.is_empty())
    }
    /// Calls in flight, oldest first.
    pub fn in_flight(&self) -> impl Iterator<Item = &Arc<Call>> {
        self.chunks
            .iter()
            .zip(&self.sums)
            .filter(|(_, sum)| sum.open > 0)
            .flat_map(|(c, _)| c.iter())
            .filter(|c| c.end.is_none())
    }
    /// Calls that were in flight at some moment between `from` and `to`, by start. With `after`, only those that the
    /// log lists after that call.
    pub fn overlapping(
        &self,
        (from, to): (Nanos, Nanos),
        after: Option<(Nanos, CallKey)>,
    ) -> impl Iterator<Item = &Arc<Call>> {
        self.within((from, to), after, i64::MIN)
    }
    /// Calls that were in flight in the interval and either have not ended or lasted longer than `ns`.
    pub fn lasting(&self, interval: (Nanos, Nanos), ns: i64) -> impl Iterator<Item = &Arc<Call>> {
        self.within(interval, None, ns)
            .filter(move |c| c.end.is_none_or(|end| end.since(c.start) > ns))
    }
    /// Calls of an interval. A chunk is skipped as a whole when it has no call in flight and none longer than `ns`.
    fn within(
        &self,
        (from, to): (Nanos, Nanos),
        after: Option<(Nanos, CallKey)>,
        ns: i64,
    ) -> impl Iterator<Item = &Arc<Call>> {
        let first = after.map_or(0, |order| self.chunk_of(order));
        self.chunks
            .iter()
            .zip(&self.sums)
            .skip(first)
            .take_while(move |(c, _)| c.first().is_some_and(|c| c.start < to))
            .filter(move |(_, sum)| sum.open > 0 || sum.until > from && sum.longest > ns)
            .flat_map(|(c, _)| c.iter())
            .filter(move |c| after.is_none_or(|order| Self::order(c) > order))
            .filter(move |c| c.start < to && c.end.is_none_or(|end| end > from))
    }
}

/// Calls per chunk: a change after a snapshot copies this many pointers.
const CHUNK: usize = 1024;
/// Number of calls in flight that outlast the calls of their time. A runtime has some dozens in flight; besides
/// these, calls whose end the tap lost accumulate.
const OPEN: usize = 4096;

impl CallLog {
    /// Sort key of the log: start, then key. It does not depend on the order of arrival.
    pub const fn order(c: &Call) -> (Nanos, CallKey) {
        (c.start, c.key)
    }
    /// Inserts a call at its place in the order, which is nearly always the end.
    pub(crate) fn insert(&mut self, call: Arc<Call>) {
        let order = Self::order(&call);
        let after_all = self
            .chunks
            .last()
            .and_then(|c| c.last())
            .is_none_or(|c| Self::order(c) < order);
        if after_all {
            match (self.chunks.last_mut(), self.sums.last_mut()) {
                (Some(c), Some(sum)) if c.len() < CHUNK => {
                    sum.add(&call);
                    Arc::make_mut(c).push(call);
                }
                _ => {
                    let mut v = Vec::with_capacity(CHUNK);
                    v.push(call);
                    self.sums.push(Sum::of(&v));
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
        let mut sum = self.sums.get(at).copied().unwrap_or_default();
        sum.add(&call);
        chunk.insert(i, call);
        if chunk.len() > 2 * CHUNK {
            let tail = chunk.split_off(CHUNK);
            sum = Sum::of(chunk);
            self.sums.insert(at + 1, Sum::of(&tail));
            self.chunks.insert(at + 1, Arc::new(tail));
        }
        if let Some(known) = self.sums.get_mut(at) {
            *known = sum;
        }
    }
    /// The chunks of calls, in the order of their start. A chunk that did not change keeps its `Arc`, so an index
    /// that was built over the chunk stays valid.
    pub fn chunks(&self) -> &[Arc<Vec<Arc<Call>>>] {
        &self.chunks
    }
    /// Index of the chunk that holds, or would hold, a call.
    fn chunk_of(&self, order: (Nanos, CallKey)) -> usize {
        self.chunks
            .partition_point(|c| c.first().is_some_and(|f| Self::order(f) <= order))
            .saturating_sub(1)
    }
    /// Returns the call with this start and key.
    pub fn get(&self, start: Nanos, key: CallKey) -> Option<&Arc<Call>> {
        let chunk = self.chunks.get(self.chunk_of((start, key)))?;
        let i = chunk
            .binary_search_by(|c| Self::order(c).cmp(&(start, key)))
            .ok()?;
        chunk.get(i)
    }
    /// Changes a call in place. `f` must not change the call's start or key.
    pub(crate) fn change(&mut self, start: Nanos, key: CallKey, f: impl FnOnce(&mut Call)) {
        let at = self.chunk_of((start, key));
        let Some(chunk) = self.chunks.get_mut(at) else {
            return;
        };
        let Ok(i) = chunk.binary_search_by(|c| Self::order(c).cmp(&(start, key))) else {
            return;
        };
        if let Some(call) = Arc::make_mut(chunk).get_mut(i) {
            let call = Arc::make_mut(call);
            let was_open = call.end.is_none();
            f(call);
            if let Some(sum) = self.sums.get_mut(at) {
                // When an end is corrected to an earlier one, the sum stays too high: the chunk is
                // then scanned in vain.
                sum.open -= u32::from(was_open);
                sum.add(call);
            }
        }
    }
    /// Drops the oldest chunk when there are more than `keep` calls, counted in whole chunks, and returns its calls.
    /// Its calls in flight stay, but for the oldest when they are more than [`OPEN`].
    pub(crate) fn shrink(&mut self, keep: usize) -> Option<Vec<Arc<Call>>> {
        if self.chunks.len().saturating_sub(1) * CHUNK <= keep {
            return None;
        }
        self.sums.remove(0);
        let oldest = Arc::unwrap_or_clone(self.chunks.remove(0));
        let (mut open, mut gone): (Vec<_>, Vec<_>) =
            oldest.into_iter().partition(|c| c.end.is_none());
        gone.extend(open.drain(..open.len().saturating_sub(OPEN)));
        if let (Some(next), Some(sum)) = (self.chunks.first_mut(), self.sums.first_mut())
            && !open.is_empty()
        {
            for call in &open {
                sum.add(call);
            }
            Arc::make_mut(next).splice(0..0, open);
        }
        Some(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::{Body, Observation, Source, Stamp, gap::Note};

    fn call(n: i64, open: bool) -> Arc<Call> {
        let key = CallKey {
            conn: 1,
            stream: n as u32,
        };
        Arc::new(Call {
            key,
            start: Nanos(n),
            end: (!open).then_some(Nanos(n + 1)),
            service: Service::Runtime,
            method: "Version".into(),
            outcome: None,
            code: None,
            inferred: false,
            partial: false,
            message: Text::default(),
            pod_uid: PodUid::default(),
            pod_inferred: false,
            namespace: Text::default(),
            pod: Text::default(),
            container: Text::default(),
            attempt: None,
            sandbox_id: SandboxId::default(),
            container_id: ContainerId::default(),
            image: Text::default(),
            timeout_ns: None,
            request_bytes: 0,
            response_bytes: 0,
            traceparent: None,
            filtered: false,
            started: Arc::new(Observation {
                stamp: Stamp::exact(Nanos(n)),
                source: Source::Cri,
                body: Body::Note(Box::new(Note {
                    text: Text::default(),
                })),
            }),
            ended: None,
        })
    }

    #[test]
    fn calls_in_flight_and_at_a_time_are_found_whatever_came_late_ended_or_was_forgotten() {
        let mut log = CallLog::default();
        let check = |log: &CallLog| {
            let scanned: Vec<Nanos> = log
                .iter()
                .filter(|c| c.end.is_none())
                .map(|c| c.start)
                .collect();
            let told: Vec<Nanos> = log.in_flight().map(|c| c.start).collect();
            assert_eq!(scanned, told);
            let during =
                |c: &&Arc<Call>| c.start < Nanos(2100) && c.end.is_none_or(|end| end > Nanos(1900));
            let slow: Vec<_> = log.iter().filter(during).map(|c| c.key).collect();
            let within = (Nanos(1900), Nanos(2100));
            let fast: Vec<_> = log.overlapping(within, None).map(|c| c.key).collect();
            assert_eq!(slow, fast);
            let long = |c: &&Arc<Call>| c.end.is_none_or(|end| end.since(c.start) > 1);
            let slow: Vec<_> = log
                .iter()
                .filter(during)
                .filter(long)
                .map(|c| c.key)
                .collect();
            let lasting: Vec<_> = log.lasting(within, 1).map(|c| c.key).collect();
            assert_eq!(slow, lasting);
            // Continuing after one of the calls gives the rest.
            let half = log.overlapping(within, None).nth(fast.len() / 2);
            let after = half.map(|c| CallLog::order(c));
            let rest = log.overlapping(within, after).map(|c| c.key);
            let rest: Vec<_> = rest.collect();
            assert_eq!(fast.get(fast.len() / 2 + 1..).unwrap_or_default(), rest);
            told.len()
        };
        // Inserts out of order of time, so that chunks are inserted into and split.
        let n = 6 * CHUNK as i64;
        for i in 0..n {
            let at = i * 7919 % n;
            log.insert(call(at, at % 3 == 0));
        }
        assert_eq!(check(&log), n as usize / 3);
        for at in (0..n).step_by(6) {
            let key = call(at, true).key;
            log.change(Nanos(at), key, |c| c.end = Some(Nanos(at + 5)));
        }
        assert_eq!(check(&log), n as usize / 6);
        while log.shrink(CHUNK).is_some() {
            assert_eq!(check(&log), n as usize / 6, "calls in flight stay");
        }
        assert!(log.len() < 4 * CHUNK);
        // Calls whose end is lost do not accumulate without end.
        for at in n..n + 10 * OPEN as i64 {
            log.insert(call(at, true));
        }
        while log.shrink(CHUNK).is_some() {}
        check(&log);
        assert!(log.len() <= OPEN + 4 * CHUNK);
    }
}
