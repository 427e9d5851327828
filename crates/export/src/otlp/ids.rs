//! Stable ids: an id is made of what a span is, not of its position, so later evidence or a further source never
//! changes an id that was sent.
//!
//! The id of a start's trace is the pod's UID, so that the trace can be found by it. All other ids are SipHash-2-4 (key
//! of zeros) of the parts that are listed below.

use rustc_hash::FxHashMap;
use siphasher::sip::SipHasher24;
use siphasher::sip128::SipHasher24 as SipHasher24x128;
use std::hash::Hasher;

use super::episode::Episode;
use kflow_core::correlate::PodView;
use kflow_core::flow::Stage;
use kflow_core::timeline::Span;
use kflow_model::{Body, Source, SpanId, TraceId};

pub(super) struct Ids {
    uid: String,
    start: TraceId,
    steps: Vec<Option<SpanId>>,
}

impl Ids {
    pub(super) fn new(pod: &PodView, episodes: &[Option<Episode>]) -> Self {
        let uid = pod.uid.as_str();
        let digits: String = uid.chars().filter(|c| *c != '-').collect();
        let start = TraceId::parse(&digits)
            .filter(|id| digits.len() == 32 && id.is_valid())
            .unwrap_or_else(|| trace_id(&[uid, "start"]));
        let mut ids = Self {
            uid: uid.to_owned(),
            start,
            steps: Vec::with_capacity(episodes.len()),
        };
        // Counts spans with equal keys: the first one has number 0.
        let mut alike: FxHashMap<_, u32> = FxHashMap::default();
        for (span, episode) in pod.timeline.spans.iter().zip(episodes) {
            let id = episode.as_ref().map(|e| {
                let real = own(span);
                let key = (
                    e,
                    span.stage,
                    &span.step,
                    &span.container,
                    span.attempt,
                    real,
                );
                let nth = alike.entry(key).or_default();
                let id = ids.step_id(e, span, real, *nth);
                *nth += 1;
                id
            });
            ids.steps.push(id);
        }
        ids
    }

    pub(super) fn trace(&self, episode: &Episode) -> TraceId {
        match episode {
            Episode::Start => self.start,
            Episode::Restart { container, attempt } => {
                trace_id(&[&self.uid, "restart", container, &attempt.to_string()])
            }
            Episode::Termination => trace_id(&[&self.uid, "termination"]),
        }
    }

    pub(super) fn root(&self, episode: &Episode) -> SpanId {
        span_id(&[&self.trace(episode).to_string(), "root"])
    }

    pub(super) fn stage(&self, episode: &Episode, stage: Stage) -> SpanId {
        span_id(&[&self.trace(episode).to_string(), "stage", stage.name()])
    }

    /// Returns the id of a step by its index in the timeline.
    pub(super) fn step(&self, at: usize) -> Option<SpanId> {
        self.steps.get(at).copied().flatten()
    }

    fn step_id(&self, episode: &Episode, span: &Span, real: Option<SpanId>, nth: u32) -> SpanId {
        span_id(&[
            &self.trace(episode).to_string(),
            "step",
            span.stage.name(),
            &span.step,
            &span.container,
            &span.attempt.to_string(),
            &real.map(|id| id.to_string()).unwrap_or_default(),
            &nth.to_string(),
        ])
    }
}

/// Returns the id that a component itself gave to the work, if it is known from the span's first moment: for a call,
/// that of its `traceparent`; for a step that only a component's own span shows, that span's id.
fn own(span: &Span) -> Option<SpanId> {
    let only_spans = || span.evidence.iter().all(|e| e.source == Source::Otlp);
    span.evidence.iter().find_map(|e| match &e.body {
        Body::CallStart(c) if span.call == Some(c.key) => c.traceparent.map(|(_, span)| span),
        Body::Span(s) if span.call.is_none() && only_spans() => Some(s.span),
        _ => None,
    })
}

fn trace_id(parts: &[&str]) -> TraceId {
    let mut h = SipHasher24x128::new();
    write(&mut h, parts);
    let hash = siphasher::sip128::Hasher128::finish128(&h).as_u128();
    // An id of zeros is invalid.
    TraceId(hash.max(1))
}

fn span_id(parts: &[&str]) -> SpanId {
    let mut h = SipHasher24::new();
    write(&mut h, parts);
    SpanId(h.finish().max(1))
}

/// Hashes each part with its length before it, so that different lists never give the same bytes.
fn write(h: &mut impl Hasher, parts: &[&str]) {
    for p in parts {
        h.write(&(p.len() as u64).to_le_bytes());
        h.write(p.as_bytes());
    }
}
