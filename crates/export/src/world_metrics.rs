//! Metrics of a world for Prometheus: how long pods took to start, and what is wrong now.
//!
//! No label takes its values from users, so their number is limited: causes are those of the catalogue.

use std::collections::BTreeMap;
use std::io::{self, Write};

use kflow_core::correlate::{World, startup_latency};
use kflow_core::diagnose::Verdict;
use kflow_model::PodUid;
use rustc_hash::FxHashSet;

use crate::open_metrics::{Kind, Page};

/// Buckets of the kubelet's `kubelet_pod_start_sli_duration_seconds`, s (kubernetes, `pkg/kubelet/metrics/metrics.go`).
const BOUNDS: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0,
    300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];
/// Name of the family of starts.
const START: &str = "kflow_pod_start_sli_duration_seconds";
/// The label's value for a verdict without a cause.
const UNKNOWN: &str = "unknown";

/// A histogram of the starts of pods.
#[derive(Clone, Debug, Default)]
pub struct Starts {
    /// The counted pods that are still in the world.
    counted: FxHashSet<PodUid>,
    /// Counts by the first bound that is not exceeded; the last one counts starts beyond all bounds.
    buckets: [u64; BOUNDS.len() + 1],
    sum_ns: i64,
}

impl Starts {
    /// Counts the starts since the last look. A gone pod stays in the world for some time, so looks as far apart as a
    /// collector's scrapes miss none.
    pub fn look(&mut self, world: &World) {
        let mut there = FxHashSet::default();
        for pod in world.pods() {
            if self.counted.contains(&pod.uid) {
                there.insert(pod.uid.clone());
            } else if let Some(start) = startup_latency::start(pod) {
                self.add(start.sli_ns.max(0));
                there.insert(pod.uid.clone());
            }
        }
        self.counted = there;
    }

    fn add(&mut self, ns: i64) {
        let place = BOUNDS.iter().position(|b| seconds(ns) <= *b);
        if let Some(n) = self.buckets.get_mut(place.unwrap_or(BOUNDS.len())) {
            *n += 1;
        }
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Writes the families: the starts, and the causes of these verdicts.
pub fn write<'a>(
    page: &mut Page<impl Write>,
    starts: &Starts,
    verdicts: impl IntoIterator<Item = &'a Verdict>,
) -> io::Result<()> {
    page.family(
        START,
        Kind::Histogram,
        "How long pods took to start by the kubelet's SLI, without pulls and init containers.",
    )?;
    let bucket = format!("{START}_bucket");
    let bounds = BOUNDS.iter().map(Some).chain([None]);
    let mut below = 0;
    for (n, bound) in starts.buckets.iter().zip(bounds) {
        below += n;
        let bound = bound.map_or("+Inf".to_owned(), |b| format!("{b:?}"));
        page.sample(&bucket, &[("le", bound.as_str())], below)?;
    }
    page.sample(&format!("{START}_count"), &[], below)?;
    page.sample(&format!("{START}_sum"), &[], seconds(starts.sum_ns))?;
    page.family(
        "kflow_verdicts",
        Kind::Gauge,
        "Pods, nodes and owners that are not well now, by cause.",
    )?;
    let mut by_cause: BTreeMap<&str, u64> = BTreeMap::new();
    for verdict in verdicts.into_iter().filter(|v| !v.state.is_well()) {
        let cause = Some(verdict.cause_id()).filter(|id| !id.is_empty());
        *by_cause.entry(cause.unwrap_or(UNKNOWN)).or_default() += 1;
    }
    for (cause, n) in by_cause {
        page.sample("kflow_verdicts", &[("cause", cause)], n)?;
    }
    Ok(())
}
