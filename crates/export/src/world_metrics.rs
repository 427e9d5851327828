//! What a world tells Prometheus: how long pods took to start, and what is wrong now.
//!
//! No label has values that others choose: causes are those of the catalogue.

use std::collections::BTreeMap;
use std::io::{self, Write};

use kflow_core::correlate::{World, startup_latency};
use kflow_core::diagnose::Verdict;
use kflow_model::PodUid;
use rustc_hash::FxHashSet;

use crate::open_metrics::{Kind, Page};

/// The kubelet's own bounds of `kubelet_pod_start_sli_duration_seconds`, s (kubernetes, `pkg/kubelet/metrics/metrics.go`).
const BOUNDS: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0,
    300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];
/// The family of starts.
const START: &str = "kflow_pod_start_sli_duration_seconds";
/// In the place of a cause where a verdict names none.
const UNKNOWN: &str = "unknown";

/// Starts of pods that were counted.
#[derive(Clone, Debug, Default)]
pub struct Starts {
    /// Those that are still in the world.
    counted: FxHashSet<PodUid>,
    /// By the first bound that is not exceeded; the last has none.
    buckets: [u64; BOUNDS.len() + 1],
    sum_ns: i64,
}

impl Starts {
    /// Counts what has started since the last look. A pod leaves the world some time after it is gone, so that looks as far apart as
    /// those of a collector miss none.
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

/// Writes the families: starts, and what these verdicts name.
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
