//! Metrics of a world for Prometheus: how long pods took to start, and what is wrong now.
//!
//! No label takes its values from users, so their number is limited: causes are those of the catalogue.

use std::collections::BTreeMap;
use std::io::{self, Write};

use kflow_core::correlate::{World, startup_latency};
use kflow_core::diagnose::Verdict;
use kflow_model::PodUid;
use rustc_hash::FxHashSet;

use crate::open_metrics::{Durations, Kind, Page};

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
#[derive(Clone, Debug)]
pub struct Starts {
    /// The counted pods that are still in the world.
    counted: FxHashSet<PodUid>,
    durations: Durations,
}

impl Default for Starts {
    fn default() -> Self {
        Self {
            counted: FxHashSet::default(),
            durations: Durations::by(&BOUNDS),
        }
    }
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
                self.durations.add(start.sli_ns.max(0));
                there.insert(pod.uid.clone());
            }
        }
        self.counted = there;
    }
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
    page.durations(START, &[], &starts.durations)?;
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
