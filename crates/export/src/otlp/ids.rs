//! Ids that stay: they are made of what a span is, not of where it stands, so that what is seen later, or seen by one more
//! source, changes no id that was given.
//!
//! A start's trace has the pod's UID as its id, so that it can be found by it. Other ids are SipHash-2-4 of what is named
//! below, with a key of zeros.

use rustc_hash::FxHashMap;
use siphasher::sip::SipHasher24;
use siphasher::sip128::SipHasher24 as SipHasher24x128;
use std::hash::Hasher;

use super::episode::Episode;
use kflow_core::correlate::PodView;
use kflow_core::flow::Stage;
use kflow_core::timeline::Span;
use kflow_model::{Body, Source, SpanId, TraceId};

/// The ids of one pod's spans.
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
        // Of what is alike in all else, the first is 0.
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

    /// Id of a step by its place in the timeline.
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

/// The id that a component gave to what a span tells, where it is known from the span's first moment on: of a call, by its
/// `traceparent`; of what nothing but a component's own span tells, that span's.
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
    // Zeros mean none.
    TraceId(hash.max(1))
}

fn span_id(parts: &[&str]) -> SpanId {
    let mut h = SipHasher24::new();
    write(&mut h, parts);
    SpanId(h.finish().max(1))
}

/// Each part with its length before it: no two lists are the same bytes.
fn write(h: &mut impl Hasher, parts: &[&str]) {
    for p in parts {
        h.write(&(p.len() as u64).to_le_bytes());
        h.write(p.as_bytes());
    }
}
