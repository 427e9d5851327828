//! Sending traces to a trace store: its address and headers, and all traces of a recording at once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use super::args::live::TracesArgs;
use kflow_core::correlate::Pod;
use kflow_engine::Snapshot;
use kflow_engine::live::Live;
use kflow_engine::post::{Place, Protocol, Refused, Store};
use kflow_export::otlp::{Findings, requests, traces};
use kflow_model::redact;

/// Time limit of each request, during which the user waits.
const LIMIT: Duration = Duration::from_secs(30);

/// The trace store that the arguments name; with an empty URL, the one in the environment. Credentials come from the
/// environment, as for every OpenTelemetry exporter. The environment alone sends nothing: `--otlp-to` is required.
pub(super) fn store(args: &TracesArgs) -> anyhow::Result<Option<Arc<Store>>> {
    let Some(named) = args.otlp_to.as_deref() else {
        return Ok(None);
    };
    let named = Some(named).filter(|url| !url.is_empty());
    let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let of_traces = |name: &str| variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
    let of_all = |name: &str| variable(&format!("OTEL_EXPORTER_OTLP_{name}"));
    let whole = of_traces("ENDPOINT").filter(|_| named.is_none());
    let is_whole = whole.is_some();
    let url = named
        .map(str::to_owned)
        .or(whole)
        .or_else(|| of_all("ENDPOINT"));
    let url = url.context(
        "--otlp-to names no URL, and OTEL_EXPORTER_OTLP_ENDPOINT is not set: write --otlp-to http://127.0.0.1:4318",
    )?;
    let either = |name| of_traces(name).or_else(|| of_all(name));
    let protocol = match either("PROTOCOL") {
        None => None,
        Some(name) => Some(Protocol::parse(&name).with_context(|| {
            format!("OTEL_EXPORTER_OTLP_PROTOCOL is {name}, and kflow has grpc and http/protobuf")
        })?),
    };
    let store = Store::at(Place {
        url: &url,
        is_whole,
        headers: &either("HEADERS").unwrap_or_default(),
        protocol,
    });
    Ok(Some(Arc::new(store.context("--otlp-to")?)))
}

/// Reports the result of sending the traces of a run that has ended.
pub(super) fn conclude(live: &Live) {
    if let Some(traces) = live.traces() {
        super::out::tell(&redact::text(&format!("traces: {}", traces.detail())));
    }
}

/// Sends all traces of these pods, open spans included; returns the number of spans that the store accepted.
pub(super) fn send(store: &Store, pods: &[Pod], snap: &Snapshot) -> anyhow::Result<u64> {
    let runtime = super::runtime()?;
    let found = |pod: &Pod| Findings {
        incidents: &snap.overview.incidents,
        verdict: snap.verdicts.get(&pod.uid).map(AsRef::as_ref),
    };
    let of = |pod: &Pod| traces(pod, found(pod), snap.now);
    let mut sent = 0;
    for (body, spans) in requests(pods.iter().flat_map(of).flat_map(|t| t.spans)) {
        let again = |refused: &Refused, wait: Duration| {
            let wait = kflow_model::units::wait(wait);
            super::out::tell(&format!("{refused}; again in {wait}"));
        };
        let taken = runtime.block_on(store.send(body.into(), again, LIMIT));
        let to = store.uri();
        let taken = taken.with_context(|| format!("{to} took {sent} spans and then no more"))?;
        sent += spans - taken.rejected.min(spans);
        anyhow::ensure!(
            taken.rejected == 0,
            "{to} took {sent} spans, and rejected {}: {}",
            taken.rejected,
            taken.why
        );
    }
    Ok(sent)
}
