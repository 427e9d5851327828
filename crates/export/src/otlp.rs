//! Maps timelines to OpenTelemetry traces (OTLP): one trace for each [`Episode`] of a pod's life.
//!
//! A trace has a root span of the service `kflow`, a span for each stage, and in it the timeline's steps, each of the
//! service that did the work. The steps link to the kubelet's and the runtime's own spans of the same work. This module
//! only maps; its caller sends.

mod episode;
mod ids;
mod outbox;
mod span;
pub mod wire;

use std::collections::BTreeMap;
use std::io::{self, Write};

use prost::Message as _;

use kflow_core::correlate::PodView;
use kflow_core::diagnose::{Incident, Verdict};
use kflow_core::flow::Stage;
use kflow_core::timeline::{MarkKind, Span, critical, summary};
use kflow_model::span::OWN_SCOPE;
use kflow_model::stamp::SECOND;
use kflow_model::{Nanos, SpanId, Text, TraceId};

pub use episode::Episode;
use ids::Ids;
pub use outbox::Outbox;
use wire::attribute;

/// Version of the semantic conventions whose attribute names are used.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.45.0";
/// The service of spans that kflow concludes itself.
const KFLOW: &str = "kflow";
/// Most events of one span; `OTEL_SPAN_EVENT_COUNT_LIMIT` has the same default.
const EVENTS: usize = 128;

#[derive(Clone, Debug)]
pub struct Trace {
    pub episode: Episode,
    pub id: TraceId,
    /// The end of the episode; `None` while it goes on.
    pub over: Option<Nanos>,
    /// The root first; each parent before its children.
    pub spans: Vec<Made>,
}

/// Time after its end from which a trace or a span counts as final, ns. Chosen: components export their own spans every
/// 5 s (`OTEL_BSP_SCHEDULE_DELAY`), and all other evidence arrives sooner.
const SETTLED_NS: i64 = 10 * SECOND;

impl Trace {
    /// Returns the spans that are final, of an episode that is over. Only these may be sent, because a trace store
    /// cannot replace a span. Empty while the episode goes on.
    pub fn settled(&self, now: Nanos) -> impl Iterator<Item = &Made> {
        let is_past = move |at: Nanos| now.since(at) >= SETTLED_NS;
        let over = self.over.is_some_and(is_past);
        let ended = |m: &Made| i64::try_from(m.span.end_time_unix_nano).map(Nanos);
        let of_it = self.spans.iter().filter(move |_| over);
        of_it.filter(move |m| !m.open && ended(m).is_ok_and(is_past))
    }
}

/// A span, and the service that did its work.
#[derive(Clone, Debug)]
pub struct Made {
    pub id: SpanId,
    /// The service's own name: `kubelet`, `containerd`, `apiserver`.
    pub service: Text,
    /// The node that the service runs on; empty for the control plane's services, and while it is unknown.
    pub node: Text,
    /// The span has not ended: `span.end_time_unix_nano` is the moment that it was made as of.
    pub open: bool,
    pub span: wire::Span,
}

/// What was found wrong with a pod, for events of its spans.
#[derive(Clone, Copy, Debug, Default)]
pub struct Findings<'a> {
    /// All incidents up to now, as far as the evidence was searched for them.
    pub incidents: &'a [Incident],
    /// The present verdict on the pod.
    pub verdict: Option<&'a Verdict>,
}

/// Returns the traces of a pod's life so far, in order of time.
pub fn traces(pod: &PodView, found: Findings<'_>, now: Nanos) -> Vec<Trace> {
    let episodes = episode::of_spans(pod);
    let mut all: Vec<&Episode> = episodes.iter().flatten().collect();
    // A start without steps still has a trace if its end is known, or if nothing else is known of the pod.
    if all.is_empty() || pod.became_ready.is_some() {
        all.push(&Episode::Start);
    }
    all.sort();
    all.dedup();
    let ids = Ids::new(pod, &episodes);
    let mut traces: Vec<Trace> = all
        .into_iter()
        .map(|e| trace(pod, e, &episodes, &ids, now))
        .collect();
    traces.sort_by_key(|t| t.spans.first().map(|s| s.span.start_time_unix_nano));
    events(pod, found, now, &mut traces);
    traces
}

fn trace(
    pod: &PodView,
    episode: &Episode,
    episodes: &[Option<Episode>],
    ids: &Ids,
    now: Nanos,
) -> Trace {
    let t = &pod.timeline;
    let steps: Vec<(usize, &Span)> = t
        .spans
        .iter()
        .enumerate()
        .filter(|(i, _)| episodes.get(*i).and_then(Option::as_ref) == Some(episode))
        .collect();
    let end_of = |s: &Span| s.end.map_or(now, |e| e.at).max(s.start.at);
    let is_garbage = |s: &Span| summary::is_garbage_collection(t, s);
    let first = steps.iter().map(|(_, s)| s.start.at).min().unwrap_or(now);
    let last = steps.iter().map(|(_, s)| end_of(s)).max().unwrap_or(first);
    // Garbage collection comes minutes later, and an episode does not wait for it.
    let work = || steps.iter().filter(|(_, s)| !is_garbage(s));
    let done = work().map(|(_, s)| end_of(s)).max();
    let open = work().any(|(_, s)| s.end.is_none());
    let over = episode::end(pod, episode, (done, last), open);

    let begin = match episode {
        Episode::Start => first.min(pod.zero()),
        Episode::Termination => pod.deletion_requested.map_or(first, |at| at.min(first)),
        Episode::Restart { .. } => first,
    };
    let end = over.unwrap_or_else(|| now.max(last)).max(begin);
    let trace_id = ids.trace(episode);
    let mut spans = vec![root(pod, episode, ids, (begin, end), over.is_none(), now)];
    for stage in Stage::ALL {
        let all = || steps.iter().filter(move |(_, s)| s.stage == stage);
        // A stage with any other step ends before garbage collection.
        let is_only = all().all(|(_, s)| is_garbage(s));
        let of_stage = || all().filter(move |(_, s)| is_only || !is_garbage(s));
        let Some(from) = of_stage().map(|(_, s)| s.start.at).min() else {
            continue;
        };
        let to = of_stage().map(|(_, s)| end_of(s)).max().unwrap_or(from);
        let is_open = of_stage().any(|(_, s)| s.end.is_none());
        let mut made = span::new(
            (trace_id, ids.stage(episode, stage), Some(ids.root(episode))),
            stage.name(),
            (from, to),
            is_open,
        );
        // The run of a container is no work of the stage.
        let works = of_stage().filter(|(_, s)| !s.is_run());
        let work = works.map(|(_, s)| (s.start.at, end_of(s))).collect();
        let service = span::service_of_stage(stage);
        made.attributes.extend([
            attribute("kflow.stage", stage.name()),
            attribute("kflow.work_ns", summary::total(work)),
        ]);
        span::of_pod(pod, &mut made.attributes);
        spans.push(put(pod, service.into(), is_open, made));
    }
    for (i, s) in &steps {
        let parent = s
            .parent
            .filter(|p| {
                let around = episodes.get(*p as usize).and_then(Option::as_ref);
                around == Some(episode)
            })
            .map_or_else(
                || ids.stage(episode, s.stage),
                |p| ids.step(p as usize).unwrap_or_default(),
            );
        let id = ids.step(*i).unwrap_or_default();
        let mut made = span::of_step(
            pod,
            s,
            (trace_id, id, Some(parent)),
            (s.start.at, end_of(s)),
        );
        if is_garbage(s) {
            made.attributes
                .push(attribute("kflow.garbage_collection", true));
        }
        spans.push(put(pod, span::service(s), s.end.is_none(), made));
    }
    Trace {
        episode: episode.clone(),
        id: trace_id,
        over,
        spans,
    }
}

fn root(
    pod: &PodView,
    episode: &Episode,
    ids: &Ids,
    times: (Nanos, Nanos),
    open: bool,
    now: Nanos,
) -> Made {
    let id = (ids.trace(episode), ids.root(episode), None);
    let mut made = span::new(id, episode.name(pod), times, open);
    span::of_pod(pod, &mut made.attributes);
    span::of_owners(pod, &mut made.attributes);
    match episode {
        Episode::Start => {
            made.attributes
                .push(attribute("kflow.status", &*pod.status));
            if let Some(path) = critical::path(pod, now) {
                let words = path.headline(&pod.timeline);
                made.attributes
                    .push(attribute("kflow.critical_path", &*words));
            }
        }
        Episode::Restart { container, attempt } => {
            span::of_container(container, *attempt, &mut made.attributes);
            made.links.push(span::link(
                ids.trace(&Episode::Start),
                ids.root(&Episode::Start),
                KFLOW,
            ));
        }
        Episode::Termination => {
            made.links.push(span::link(
                ids.trace(&Episode::Start),
                ids.root(&Episode::Start),
                KFLOW,
            ));
        }
    }
    put(pod, KFLOW.into(), open, made)
}

fn put(pod: &PodView, service: Text, open: bool, span: wire::Span) -> Made {
    let node = if span::is_of_node(&service) {
        pod.node.clone()
    } else {
        Text::default()
    };
    Made {
        id: SpanId(be(&span.span_id)),
        service,
        node,
        open,
        span,
    }
}

fn be(id: &[u8]) -> u64 {
    id.try_into().map(u64::from_be_bytes).unwrap_or_default()
}

/// Adds marks and verdicts as events to the root span of the episode that they belong to.
fn events(pod: &PodView, found: Findings<'_>, now: Nanos, traces: &mut [Trace]) {
    let parts = || found.incidents.iter().flat_map(|i| &i.parts);
    let of_pod = parts().filter(|p| p.verdict.uid == pod.uid && !p.is_passing());
    let mut all: Vec<(Stage, wire::Event)> = of_pod
        .map(|p| {
            (
                p.verdict.stage,
                span::of_verdict(&p.verdict, p.begin, p.end),
            )
        })
        .collect();
    let is_told = |v: &Verdict| {
        parts().any(|p| p.verdict.uid == v.uid && p.verdict.cause == v.cause && p.end.is_none())
    };
    if let Some(v) = found.verdict.filter(|v| !v.state.is_well() && !is_told(v)) {
        all.push((v.stage, span::of_verdict(v, v.since.min(now), None)));
    }
    let marks = pod.timeline.marks.iter();
    let happened = marks.filter(|m| m.kind != MarkKind::Due);
    all.extend(happened.map(|m| (m.stage, span::of_mark(m))));
    for (stage, event) in all {
        let ending = |t: &Trace| stage == Stage::Terminate && t.episode == Episode::Termination;
        let begun = |t: &Trace| {
            let root = t.spans.first().map(|s| s.span.start_time_unix_nano);
            root.is_some_and(|from| from <= event.time_unix_nano)
        };
        let at = traces
            .iter()
            .position(ending)
            .or_else(|| traces.iter().rposition(begun))
            .unwrap_or_default();
        if let Some(root) = traces.get_mut(at).and_then(|t| t.spans.first_mut()) {
            if root.span.events.len() < EVENTS {
                root.span.events.push(event);
            } else {
                root.span.dropped_events_count += 1;
            }
        }
    }
    for root in traces.iter_mut().filter_map(|t| t.spans.first_mut()) {
        root.span.events.sort_by_key(|e| e.time_unix_nano);
    }
}

/// Groups spans into resources, one per service and node.
fn resources(spans: impl IntoIterator<Item = Made>) -> Vec<wire::ResourceSpans> {
    let mut by: BTreeMap<(Text, Text), Vec<wire::Span>> = BTreeMap::new();
    for m in spans {
        by.entry((m.service, m.node)).or_default().push(m.span);
    }
    by.into_iter()
        .map(|((service, node), spans)| {
            let mut attributes = vec![attribute("service.name", &*service)];
            if !node.is_empty() {
                attributes.push(attribute("k8s.node.name", &*node));
            }
            wire::ResourceSpans {
                resource: Some(wire::Resource { attributes }),
                scope_spans: vec![wire::ScopeSpans {
                    scope: Some(wire::Scope {
                        name: OWN_SCOPE.to_owned(),
                        version: env!("CARGO_PKG_VERSION").to_owned(),
                    }),
                    spans,
                    schema_url: SCHEMA.to_owned(),
                }],
                schema_url: SCHEMA.to_owned(),
            }
        })
        .collect()
}

/// Spans per request: the default of `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.
const BATCH: usize = 512;

/// Returns requests to a trace store in protobuf, each with its number of spans.
pub fn requests(spans: impl IntoIterator<Item = Made>) -> impl Iterator<Item = (Vec<u8>, u64)> {
    let mut left = spans.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<Made> = left.by_ref().take(BATCH).collect();
        let n = batch.len() as u64;
        let resource_spans = resources(batch);
        (n > 0).then(|| (wire::Request { resource_spans }.encode_to_vec(), n))
    })
}

fn of_pod((pod, found): (&PodView, Findings<'_>), now: Nanos) -> Vec<wire::ResourceSpans> {
    resources(traces(pod, found, now).into_iter().flat_map(|t| t.spans))
}

/// Writes pods as one `ExportTraceServiceRequest` in OTLP's JSON encoding.
pub fn json<'a>(
    pods: impl IntoIterator<Item = (&'a PodView, Findings<'a>)>,
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    out.write_all(b"{\"resourceSpans\":[")?;
    let mut first = true;
    for pod in pods {
        for resource in of_pod(pod, now) {
            if !std::mem::take(&mut first) {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut *out, &resource)?;
        }
    }
    out.write_all(b"]}\n")
}

/// Writes pods as one `ExportTraceServiceRequest` in protobuf.
pub fn protobuf<'a>(
    pods: impl IntoIterator<Item = (&'a PodView, Findings<'a>)>,
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    for pod in pods {
        // Concatenated protobuf messages merge into one: its repeated field continues.
        let resource_spans = of_pod(pod, now);
        out.write_all(&wire::Request { resource_spans }.encode_to_vec())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
