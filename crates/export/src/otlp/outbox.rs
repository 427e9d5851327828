//! Decides what is sent to a trace store and when: each span once, as soon as it is final.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Findings, Made, SETTLED_NS, traces};
use kflow_core::correlate::{Pod, PodView};
use kflow_model::stamp::SECOND;
use kflow_model::{Nanos, PodUid, SpanId};

/// Interval of looks at a pod that changes all the time, ns. Chosen: two looks a minute cost nothing.
const RESTLESS_NS: i64 = 30 * SECOND;

/// The spans that were handed out, by pod.
#[derive(Debug)]
pub struct Outbox {
    /// Episodes that ended before this moment are not sent: they belong to another run, or nobody saw them.
    since: Nanos,
    pods: FxHashMap<PodUid, Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// The time of the newest evidence at the last look, and the time of that look.
    looked: Option<(Nanos, Nanos)>,
    /// Everything known at the last look has been handed out.
    is_done: bool,
    spans: FxHashSet<SpanId>,
}

impl Told {
    fn is_due(&self, pod: &PodView, now: Nanos) -> bool {
        let is_quiet = now.since(pod.changed) >= SETTLED_NS;
        match self.looked {
            Some((changed, _)) if self.is_done && changed == pod.changed => false,
            Some((_, at)) => is_quiet || now.since(at) >= RESTLESS_NS || now < at,
            None => is_quiet || now.since(pod.zero()) >= RESTLESS_NS,
        }
    }
}

/// True for a pod that was Ready before `since` and unchanged after. That is most pods, and their timelines
/// need not be derived.
fn is_of_before(pod: &PodView, since: Nanos) -> bool {
    let was_ready = pod.became_ready.is_some_and(|e| e.at < since);
    let first = pod.restarts == 0 && pod.containers.iter().all(|c| c.attempt == 0);
    let goes_on = pod.deletion_requested.is_none() && pod.gone.is_none() && !pod.phase.is_over();
    was_ready && first && goes_on
}

impl Outbox {
    pub fn new(since: Nanos) -> Self {
        Self {
            since,
            pods: FxHashMap::default(),
        }
    }

    /// Returns the spans that have become final since the last call. Forgets pods that are no longer in `pods`.
    pub fn take<'a>(
        &mut self,
        pods: &[Pod],
        found: impl Fn(&PodView) -> Findings<'a>,
        now: Nanos,
    ) -> Vec<Made> {
        let mut out = Vec::new();
        for pod in pods {
            if is_of_before(pod, self.since) {
                continue;
            }
            let told = self.pods.entry(pod.uid.clone()).or_default();
            if !told.is_due(pod, now) {
                continue;
            }
            let mut is_done = true;
            for trace in traces(pod, found(pod), now) {
                let Some(over) = trace.over.filter(|at| *at >= self.since) else {
                    continue;
                };
                let settled: FxHashSet<SpanId> = trace.settled(now).map(|m| m.id).collect();
                is_done &= now.since(over) >= SETTLED_NS && settled.len() == trace.spans.len();
                for made in trace.spans {
                    if settled.contains(&made.id) && told.spans.insert(made.id) {
                        out.push(made);
                    }
                }
            }
            told.is_done = is_done;
            told.looked = Some((pod.changed, now));
        }
        if self.pods.len() > pods.len() {
            let there: FxHashSet<&PodUid> = pods.iter().map(|p| &p.uid).collect();
            self.pods.retain(|uid, _| there.contains(uid));
        }
        out
    }
}
