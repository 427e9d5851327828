//! What the kubelet does besides pods: its loops, PLEG, workers, probes, garbage collection, evictions, leases.
//!
//! Counters, the newest moment, and a count per second for sparklines: all of them sums and maxima, so the order of
//! arrival does not matter, and bounded, however long kflow runs. Which message means what is a table.

use std::collections::{BTreeMap, VecDeque};

use crate::model::{
    Body, Nanos, Observation, Text,
    audit::{AuditRecord, AuditStage},
    log::{Component, LogLine, Severity},
    sample::Sample,
    stamp::{SECOND, parse_go_duration},
};
use crate::timeline::Evidence;

/// Seconds that a [`Series`] remembers.
pub const SERIES_SECONDS: usize = 600;
/// Lines of trouble that are remembered (newest).
const TROUBLE: usize = 64;
/// `Observed pod startup duration` lines that are remembered (newest).
const STARTS: usize = 1024;

/// A kind of work of the kubelet. A closed set, in the order that the Node pane shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// `syncLoopIteration`: configCh ADD.
    ConfigAdd,
    /// configCh UPDATE.
    ConfigUpdate,
    /// configCh REMOVE.
    ConfigRemove,
    /// configCh DELETE.
    ConfigDelete,
    /// configCh RECONCILE.
    ConfigReconcile,
    /// plegCh.
    PlegEvent,
    /// syncCh.
    Sync,
    /// A probe manager's update.
    ProbeUpdate,
    /// housekeepingCh.
    Housekeeping,
    /// `Skipping pod synchronization`: the runtime or PLEG is not healthy.
    Skipped,
    /// A pod worker began to process an update.
    WorkerBegan,
    /// A pod worker finished one.
    WorkerEnded,
    /// `Error syncing pod, skipping`.
    WorkerError,
    /// A state change that a PLEG relist found.
    PlegChange,
    /// An unfiltered ListPodSandbox: PLEG relist, housekeeping or GC.
    Relist,
    /// A list filtered by a pod's label: PLEG's on-demand relist (1.36).
    RelistOnDemand,
    /// A probe that passed.
    ProbePassed,
    /// A probe that failed, or could not be run.
    ProbeFailed,
    /// A status patch was sent.
    StatusPatch,
    /// Container garbage collection.
    ContainerGc,
    /// Image garbage collection.
    ImageGc,
    /// A look of the eviction manager at its signals.
    EvictionCheck,
    /// A pod was evicted.
    Eviction,
    /// An OOM kill.
    Oom,
    /// The node's lease was renewed.
    Lease,
    /// The node's status was patched.
    NodeStatus,
}

impl Work {
    /// All kinds.
    pub const ALL: [Self; 26] = [
        Self::ConfigAdd,
        Self::ConfigUpdate,
        Self::ConfigRemove,
        Self::ConfigDelete,
        Self::ConfigReconcile,
        Self::PlegEvent,
        Self::Sync,
        Self::ProbeUpdate,
        Self::Housekeeping,
        Self::Skipped,
        Self::WorkerBegan,
        Self::WorkerEnded,
        Self::WorkerError,
        Self::PlegChange,
        Self::Relist,
        Self::RelistOnDemand,
        Self::ProbePassed,
        Self::ProbeFailed,
        Self::StatusPatch,
        Self::ContainerGc,
        Self::ImageGc,
        Self::EvictionCheck,
        Self::Eviction,
        Self::Oom,
        Self::Lease,
        Self::NodeStatus,
    ];
    /// A short name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConfigAdd => "config ADD",
            Self::ConfigUpdate => "config UPDATE",
            Self::ConfigRemove => "config REMOVE",
            Self::ConfigDelete => "config DELETE",
            Self::ConfigReconcile => "config RECONCILE",
            Self::PlegEvent => "PLEG event",
            Self::Sync => "sync (1 s)",
            Self::ProbeUpdate => "probe update",
            Self::Housekeeping => "housekeeping",
            Self::Skipped => "skipped sync",
            Self::WorkerBegan => "worker began",
            Self::WorkerEnded => "worker ended",
            Self::WorkerError => "worker error",
            Self::PlegChange => "PLEG change",
            Self::Relist => "runtime relist",
            Self::RelistOnDemand => "on-demand relist",
            Self::ProbePassed => "probe passed",
            Self::ProbeFailed => "probe failed",
            Self::StatusPatch => "status patch",
            Self::ContainerGc => "container GC",
            Self::ImageGc => "image GC",
            Self::EvictionCheck => "eviction check",
            Self::Eviction => "eviction",
            Self::Oom => "OOM kill",
            Self::Lease => "lease",
            Self::NodeStatus => "node status",
        }
    }
    /// True when it is trouble rather than work.
    pub const fn is_trouble(self) -> bool {
        matches!(
            self,
            Self::Skipped | Self::WorkerError | Self::ProbeFailed | Self::Eviction | Self::Oom
        )
    }
}

/// Kubelet messages that count as work. Longest prefix first where one begins another; all are constant messages of
/// structured lines (kubernetes 1.36.2), or the beginnings of unstructured ones.
const MESSAGES: &[(&str, Work)] = &[
    ("SyncLoop ADD", Work::ConfigAdd),
    ("SyncLoop UPDATE", Work::ConfigUpdate),
    ("SyncLoop REMOVE", Work::ConfigRemove),
    ("SyncLoop DELETE", Work::ConfigDelete),
    ("SyncLoop RECONCILE", Work::ConfigReconcile),
    ("SyncLoop (PLEG): event for pod", Work::PlegEvent),
    ("SyncLoop (SYNC) pods", Work::Sync),
    ("SyncLoop (probe)", Work::ProbeUpdate),
    ("SyncLoop (housekeeping) end", Work::Housekeeping),
    ("Skipping pod synchronization", Work::Skipped),
    ("Processing pod event done", Work::WorkerEnded),
    ("Processing pod event", Work::WorkerBegan),
    ("Error syncing pod, skipping", Work::WorkerError),
    ("GenericPLEG", Work::PlegChange),
    ("Probe succeeded", Work::ProbePassed),
    ("Probe failed", Work::ProbeFailed),
    ("Probe errored", Work::ProbeFailed),
    ("Patch status for pod", Work::StatusPatch),
    ("Container garbage collection succeeded", Work::ContainerGc),
    ("Image garbage collection succeeded", Work::ImageGc),
    (
        "Eviction manager: synchronize housekeeping",
        Work::EvictionCheck,
    ),
    (
        "Eviction manager: pod is evicted successfully",
        Work::Eviction,
    ),
    ("Got sys oom event", Work::Oom),
];

/// Counts per second of the newest [`SERIES_SECONDS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    first_s: i64,
    counts: VecDeque<u32>,
}

impl Series {
    fn add(&mut self, at: Nanos) {
        let s = at.0.div_euclid(SECOND);
        if self.counts.is_empty() {
            self.first_s = s;
        }
        while s < self.first_s {
            if self.counts.len() >= SERIES_SECONDS {
                return;
            }
            self.counts.push_front(0);
            self.first_s -= 1;
        }
        let ahead = s - self.first_s;
        if ahead - self.counts.len() as i64 > SERIES_SECONDS as i64 {
            self.counts.clear();
            self.first_s = s;
        }
        while self.first_s + self.counts.len() as i64 <= s {
            self.counts.push_back(0);
        }
        while self.counts.len() > SERIES_SECONDS {
            self.counts.pop_front();
            self.first_s += 1;
        }
        if let Some(c) = self.counts.get_mut((s - self.first_s) as usize) {
            *c = c.saturating_add(1);
        }
    }
    /// Counts of the `n` seconds before `now` (and its own), oldest first; zeros where nothing is known.
    pub fn last(&self, now: Nanos, n: usize) -> Vec<u64> {
        let end = now.0.div_euclid(SECOND);
        (0..n as i64)
            .rev()
            .map(|back| {
                usize::try_from(end - back - self.first_s)
                    .ok()
                    .and_then(|at| self.counts.get(at))
                    .map_or(0, |c| u64::from(*c))
            })
            .collect()
    }
}

/// What is known of one kind of work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// How often.
    pub count: u64,
    /// Newest.
    pub last: Option<Nanos>,
    /// How often its length was told.
    pub timed: u64,
    /// Sum of the lengths told, ns.
    pub total_ns: i64,
    /// Longest told, ns.
    pub worst_ns: i64,
    /// Per second.
    pub series: Series,
}

impl Activity {
    fn add(&mut self, at: Nanos, took_ns: Option<i64>) {
        self.count += 1;
        self.last = self.last.max(Some(at));
        self.series.add(at);
        if let Some(ns) = took_ns {
            self.timed += 1;
            self.total_ns = self.total_ns.saturating_add(ns);
            self.worst_ns = self.worst_ns.max(ns);
        }
    }
    /// Mean of the lengths told, ns.
    pub fn mean_ns(&self) -> Option<i64> {
        self.total_ns.checked_div(i64::try_from(self.timed).ok()?)
    }
}

/// A series of a metric: the newest value and the one before, so that a rate can be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// When the newest was scraped.
    pub at: Nanos,
    /// The newest value.
    pub value: f64,
    /// The scrape before.
    pub before: Option<(Nanos, f64)>,
}

/// What the kubelet logged of a pod's start (`Observed pod startup duration`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservedStart {
    /// When it was logged.
    pub at: Nanos,
    /// `ns/name`.
    pub pod: Text,
    /// `podStartSLOduration`, ns.
    pub sli_ns: i64,
    /// `podStartE2EDuration`, ns.
    pub total_ns: i64,
    /// `totalImagesPullingTime`, ns.
    pub pulling_ns: i64,
    /// `totalInitContainerRuntime`, ns.
    pub init_ns: i64,
}

impl ObservedStart {
    /// Reads the line; `None` for any other.
    pub(crate) fn read(l: &LogLine, at: Nanos) -> Option<Self> {
        if l.message != "Observed pod startup duration" {
            return None;
        }
        let ns = |key: &str| {
            let text = l.field(key)?;
            // `podStartSLOduration` is a bare number of seconds, the others are Go durations.
            parse_go_duration(text).or_else(|| Some((text.parse::<f64>().ok()? * 1e9) as i64))
        };
        Some(Self {
            at,
            pod: format!("{}/{}", l.pod.namespace, l.pod.name).into(),
            sli_ns: ns("podStartSLOduration")?,
            total_ns: ns("podStartE2EDuration")?,
            pulling_ns: ns("totalImagesPullingTime").unwrap_or(0),
            init_ns: ns("totalInitContainerRuntime").unwrap_or(0),
        })
    }
}

/// What the kubelet does besides pods.
#[derive(Clone, Debug, Default)]
pub struct Machinery {
    work: BTreeMap<Work, Activity>,
    readings: BTreeMap<Text, Reading>,
    health: BTreeMap<Text, Evidence>,
    trouble: VecDeque<Evidence>,
    starts: VecDeque<ObservedStart>,
}

impl Machinery {
    /// Takes one observation; what does not concern the kubelet's machinery is passed over.
    pub fn observe(&mut self, o: &Evidence) {
        match &o.body {
            Body::Log(l) if l.component == Component::Kubelet => self.log(l, o),
            Body::CallStart(c) if c.method == "ListPodSandbox" => {
                self.add(
                    if c.filtered {
                        Work::RelistOnDemand
                    } else {
                        Work::Relist
                    },
                    o,
                    None,
                );
            }
            Body::Audit(a) if a.stage == AuditStage::ResponseComplete => self.request(a, o),
            Body::Span(s) if s.service == "kubelet" => {
                let work = match s.name.as_str() {
                    "Containers/GarbageCollect" => Work::ContainerGc,
                    "Images/GarbageCollect" => Work::ImageGc,
                    _ => return,
                };
                // The log counts them; spans bring the length.
                self.time(work, s.end.since(o.stamp.at).max(0));
            }
            Body::Event(e) if e.component == "kubelet" && e.object.kind == "Node" && e.warning => {
                self.trouble(o);
            }
            Body::Sample(s) => self.sample(s, o),
            _ => {}
        }
    }

    fn log(&mut self, l: &LogLine, o: &Evidence) {
        if l.message == "Observed pod startup duration" {
            self.start(l, o.stamp.at);
            return;
        }
        if let Some((_, work)) = MESSAGES.iter().find(|(m, _)| l.message.starts_with(m)) {
            if *work == Work::PlegChange && l.severity == Severity::Error {
                self.trouble(o);
                return;
            }
            let took = match work {
                Work::Housekeeping => l.field("duration").and_then(parse_go_duration),
                _ => None,
            };
            self.add(*work, o, took);
            if *work == Work::Skipped || *work == Work::Eviction || *work == Work::Oom {
                self.trouble(o);
            }
        } else if l.severity >= Severity::Error && l.pod.is_empty() {
            self.trouble(o);
        }
    }

    fn request(&mut self, a: &AuditRecord, o: &Evidence) {
        if !a.user.starts_with("system:node:") {
            return;
        }
        let work = match (a.verb.as_str(), a.resource.as_str()) {
            ("update" | "patch" | "create", "leases") => Work::Lease,
            ("patch" | "update", "nodes/status") => Work::NodeStatus,
            ("patch", "pods/status") => {
                return self.time(Work::StatusPatch, o.stamp.at.since(a.received).max(0));
            }
            _ => return,
        };
        self.add(work, o, Some(o.stamp.at.since(a.received).max(0)));
    }

    fn sample(&mut self, s: &Sample, o: &Evidence) {
        let at = o.stamp.at;
        for (series, value) in &s.values {
            let new = Reading {
                at,
                value: value.0,
                before: None,
            };
            match self.readings.get_mut(series) {
                None => {
                    self.readings.insert(series.clone(), new);
                }
                Some(r) if at > r.at => {
                    *r = Reading {
                        before: Some((r.at, r.value)),
                        ..new
                    }
                }
                Some(r) if at < r.at && r.before.is_none_or(|(b, _)| at > b) => {
                    r.before = Some((at, value.0));
                }
                Some(_) => {}
            }
        }
        if !s.lines.is_empty() || s.values.is_empty() {
            let newest = self
                .health
                .entry(s.what.clone())
                .or_insert_with(|| o.clone());
            if o > newest {
                *newest = o.clone();
            }
        }
    }

    fn start(&mut self, l: &LogLine, at: Nanos) {
        let Some(start) = ObservedStart::read(l, at) else {
            return;
        };
        if let Err(at) = self.starts.binary_search(&start) {
            self.starts.insert(at, start);
        }
        if self.starts.len() > STARTS {
            self.starts.pop_front();
        }
    }

    fn add(&mut self, work: Work, o: &Observation, took_ns: Option<i64>) {
        self.work.entry(work).or_default().add(o.stamp.at, took_ns);
    }

    fn time(&mut self, work: Work, ns: i64) {
        let a = self.work.entry(work).or_default();
        a.timed += 1;
        a.total_ns = a.total_ns.saturating_add(ns);
        a.worst_ns = a.worst_ns.max(ns);
    }

    fn trouble(&mut self, o: &Evidence) {
        if let Err(at) = self.trouble.binary_search(o) {
            self.trouble.insert(at, o.clone());
        }
        if self.trouble.len() > TROUBLE {
            self.trouble.pop_front();
        }
    }

    /// What is known of a kind of work.
    pub fn work(&self, work: Work) -> Option<&Activity> {
        self.work.get(&work)
    }
    /// Pod workers that process an update right now, as the log tells at `-v=4`; `None` at a lower verbosity.
    pub fn busy_workers(&self) -> Option<u64> {
        let began = self.work(Work::WorkerBegan)?.count;
        Some(began.saturating_sub(self.work(Work::WorkerEnded).map_or(0, |w| w.count)))
    }
    /// The newest value of a metric series.
    pub fn reading(&self, series: &str) -> Option<&Reading> {
        self.readings.get(series)
    }
    /// Mean of a histogram between its two newest scrapes, seconds; over all time when there is one scrape only.
    pub fn histogram_mean(&self, family: &str) -> Option<f64> {
        let sum = self.reading(&format!("{family}_sum"))?;
        let count = self.reading(&format!("{family}_count"))?;
        let (mut n, mut total) = (count.value, sum.value);
        if let (Some((_, s)), Some((_, c))) = (sum.before, count.before)
            && n > c
        {
            n -= c;
            total -= s;
        }
        (n > 0.0).then(|| total / n)
    }
    /// The newest answer of each health or settings endpoint, by name.
    pub fn health(&self) -> impl Iterator<Item = &Evidence> {
        self.health.values()
    }
    /// Errors of the kubelet that no pod is to blame for, oldest first.
    pub fn troubles(&self) -> impl DoubleEndedIterator<Item = &Evidence> {
        self.trouble.iter()
    }
    /// Starts of pods as the kubelet measured them, oldest first.
    pub fn starts(&self) -> impl DoubleEndedIterator<Item = &ObservedStart> {
        self.starts.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PodRef, Source, Stamp, sample::Value};
    use std::sync::Arc;

    fn line(message: &str, at_ms: i64, fields: &[(&str, &str)]) -> Evidence {
        let at = Nanos(1_795_220_659_000_000_000 + at_ms * 1_000_000);
        Arc::new(Observation {
            stamp: Stamp::new(at, 1000, at),
            source: Source::Kubelet,
            body: Body::Log(Box::new(LogLine {
                component: Component::Kubelet,
                severity: Severity::Info,
                location: Text::default(),
                message: message.into(),
                pod: PodRef::by_name("s01", "healthy"),
                more_pods: Vec::new(),
                container: Text::default(),
                container_id: crate::model::ContainerId::default(),
                error: Text::default(),
                fields: fields
                    .iter()
                    .map(|(k, v)| ((*k).into(), (*v).into()))
                    .collect(),
            })),
        })
    }

    #[test]
    fn loops_are_counted_timed_and_spread_over_seconds() {
        let mut m = Machinery::default();
        for n in 0..5 {
            m.observe(&line("SyncLoop (housekeeping)", n * 2000, &[]));
            m.observe(&line(
                "SyncLoop (housekeeping) end",
                n * 2000 + 3,
                &[("duration", "3ms")],
            ));
        }
        let h = m.work(Work::Housekeeping).unwrap();
        assert_eq!(
            (h.count, h.mean_ns(), h.worst_ns),
            (5, Some(3_000_000), 3_000_000)
        );
        let now = h.last.unwrap();
        assert_eq!(h.series.last(now, 4), [0, 1, 0, 1]);
        assert_eq!(h.series.last(now, 20).iter().sum::<u64>(), 5);
    }

    #[test]
    fn a_pod_workers_two_messages_are_told_apart() {
        let mut m = Machinery::default();
        m.observe(&line("Processing pod event", 0, &[]));
        m.observe(&line("Processing pod event", 1, &[]));
        m.observe(&line("Processing pod event done", 2, &[]));
        assert_eq!(m.busy_workers(), Some(1));
        assert_eq!(Machinery::default().busy_workers(), None);
    }

    #[test]
    fn the_kubelets_own_measure_of_a_start_is_kept() {
        let mut m = Machinery::default();
        let l = line(
            "Observed pod startup duration",
            0,
            &[
                ("podStartSLOduration", "1.948909655"),
                ("podStartE2EDuration", "4.012289846s"),
                ("totalImagesPullingTime", "62.66673ms"),
                ("totalInitContainerRuntime", "2.000713461s"),
            ],
        );
        m.observe(&l);
        m.observe(&l);
        let s = m.starts().next().unwrap();
        assert_eq!(m.starts().count(), 1);
        assert_eq!((s.sli_ns, s.total_ns), (1_948_909_655, 4_012_289_846));
        assert_eq!(s.total_ns - s.pulling_ns - s.init_ns, 1_948_909_655);
    }

    #[test]
    fn series_forget_the_oldest_and_survive_jumps() {
        let mut s = Series::default();
        for n in 0..2000 {
            s.add(Nanos(n * SECOND));
        }
        assert_eq!(s.counts.len(), SERIES_SECONDS);
        s.add(Nanos(5 * SECOND));
        s.add(Nanos(i64::MAX / 2));
        s.add(Nanos(0));
        assert!(s.counts.len() <= SERIES_SECONDS);
        assert_eq!(s.last(Nanos(i64::MAX / 2), 1), [1]);
    }

    #[test]
    fn metric_means_are_of_the_time_between_scrapes() {
        let mut m = Machinery::default();
        let scrape = |s: i64, sum: f64, count: f64| {
            Arc::new(Observation {
                stamp: Stamp::exact(Nanos(s * SECOND)),
                source: Source::Metrics,
                body: Body::Sample(Box::new(Sample {
                    what: "kubelet-metrics".into(),
                    code: 200,
                    took_ns: 0,
                    values: vec![
                        (
                            "kubelet_pleg_relist_duration_seconds_sum".into(),
                            Value(sum),
                        ),
                        (
                            "kubelet_pleg_relist_duration_seconds_count".into(),
                            Value(count),
                        ),
                    ],
                    lines: Vec::new(),
                })),
            })
        };
        m.observe(&scrape(20, 1.2, 30.0));
        m.observe(&scrape(10, 1.0, 20.0));
        let mean = m
            .histogram_mean("kubelet_pleg_relist_duration_seconds")
            .unwrap();
        assert!((mean - 0.02).abs() < 1e-9);
    }
}
