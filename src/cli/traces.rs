//! Traces to a trace store: where, with which headers, and all of a recording at once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use super::args::live::TracesArgs;
use kflow_core::correlate::Pod;
use kflow_engine::Snapshot;
use kflow_engine::live::Live;
use kflow_engine::post::{Refused, Store};
use kflow_export::otlp::{Findings, requests, traces};
use kflow_model::redact;

/// How long each request of a recording is tried: somebody waits for it.
const LIMIT: Duration = Duration::from_secs(30);

/// The trace store that the arguments name. Credentials come from the environment, as those of every OpenTelemetry exporter.
pub(super) fn store(args: &TracesArgs) -> anyhow::Result<Option<Arc<Store>>> {
    let Some(url) = &args.otlp_to else {
        return Ok(None);
    };
    let named = |name| std::env::var(name).ok();
    let headers = named("OTEL_EXPORTER_OTLP_TRACES_HEADERS")
        .or_else(|| named("OTEL_EXPORTER_OTLP_HEADERS"))
        .unwrap_or_default();
    let store = Store::at(url, &headers).context("--otlp-to")?;
    Ok(Some(Arc::new(store)))
}

/// Says what became of the traces of a run that has ended.
pub(super) fn conclude(live: &Live) {
    if let Some(traces) = live.traces() {
        super::out::tell(&redact::text(&format!("traces: {}", traces.detail())));
    }
}

/// Sends all traces of these pods, what is in flight too; returns how many spans were taken.
pub(super) fn send(store: &Store, pods: &[Pod], snap: &Snapshot) -> anyhow::Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot send")?;
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
