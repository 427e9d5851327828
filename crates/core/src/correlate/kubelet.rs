//! The kubelet's activity on the whole, as opposed to that on one pod: its loops, PLEG, workers, probes, garbage
//! collection, evictions, leases.
//!
//! Kept as counters, the newest time, and a count per second for sparklines. All of them are sums and maxima, so the
//! order of arrival does not matter, and all are bounded, however long kflow runs. [`Work`] maps facts
//! to kinds of work.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

mod series;
mod start;
mod work;

pub use series::{Activity, SERIES_SECONDS, Series};
pub use start::ObservedStart;
pub use work::Work;

use crate::flow::{self, Fact, Map, StepId};
use kflow_model::Evidence;
use kflow_model::cri::method;
use kflow_model::{
    Body, Nanos, Observation, Text,
    audit::{AuditRecord, AuditStage},
    log::{Component, LogLine, Severity},
    sample::Sample,
    units::parse_go_duration,
};

/// Number of observations of trouble kept, the newest.
const TROUBLE: usize = 64;
/// Number of `Observed pod startup duration` lines kept, the newest.
const STARTS: usize = 1024;
/// Number of lines kept of each kind of work whose lines have details, the newest.
const NEWEST: usize = 8;
/// Name of the flow whose steps [`KubeletActivity::startup`] covers.
pub const STARTUP: &str = "kubelet-startup";
/// Number of observations kept of each step of the kubelet's own start, the newest.
const STARTUP_KEEP: usize = 32;

/// The two newest values of a metric series, for its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Time of the newest scrape.
    pub at: Nanos,
    pub value: f64,
    /// Time and value of the scrape before.
    pub before: Option<(Nanos, f64)>,
}

impl Reading {
    /// The value at a time, which is that of the last change before; `None` when older values would have to be known.
    fn at(&self, time: Nanos) -> Option<f64> {
        let known = [Some((self.at, self.value)), self.before];
        known
            .into_iter()
            .flatten()
            .find_map(|(at, value)| (at <= time).then_some(value))
    }
}

/// The kubelet's activity on the whole. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct KubeletActivity {
    work: BTreeMap<Work, Activity>,
    newest: BTreeMap<Work, VecDeque<Evidence>>,
    readings: BTreeMap<Text, Reading>,
    health: BTreeMap<Text, Evidence>,
    trouble: VecDeque<Evidence>,
    starts: VecDeque<Arc<ObservedStart>>,
    startup: BTreeMap<StepId, VecDeque<Evidence>>,
}

impl KubeletActivity {
    /// Takes one observation; ignores those that do not concern the kubelet's own work.
    pub fn observe(&mut self, o: &Evidence) {
        match &o.body {
            Body::Log(l) if l.component == Component::Kubelet => self.log(l, o),
            Body::CallStart(c) if c.method == method::LIST_POD_SANDBOX => {
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
                // Log lines are counted; spans add only the duration.
                if let Some(fact @ (Fact::ContainersCollected | Fact::ImagesCollected)) =
                    flow::span(s)
                    && let Some(work) = Work::of(fact)
                {
                    self.time(work, s.end.since(o.stamp.at).max(0));
                }
            }
            Body::Event(e) if e.component == "kubelet" && e.object.kind == "Node" => {
                if e.warning {
                    self.trouble(o);
                }
                // The Events that a list begins with are of the past hour.
                if !e.listed {
                    self.startup_step(o);
                }
            }
            Body::Sample(s) => self.sample(s, o),
            _ => {}
        }
    }

    /// Keeps an observation that shows a step of the kubelet's own start.
    fn startup_step(&mut self, o: &Evidence) {
        let map = Map::active();
        for id in map.steps_of(o) {
            let starts = map
                .get(id)
                .and_then(|s| map.flows().get(s.flow))
                .is_some_and(|f| f.name == STARTUP);
            if !starts {
                continue;
            }
            keep(self.startup.entry(id).or_default(), o, STARTUP_KEEP);
        }
    }

    fn log(&mut self, l: &LogLine, o: &Evidence) {
        if l.pod.is_empty() {
            self.startup_step(o);
        }
        let fact = flow::line(l).map(|l| l.fact());
        if fact == Some(Fact::StartObserved) {
            self.start(l, o.stamp.at);
            return;
        }
        if let Some(work) = fact.and_then(Work::of) {
            if work == Work::PlegChange && l.severity == Severity::Error {
                self.trouble(o);
                return;
            }
            if work.says_what() {
                keep(self.newest.entry(work).or_default(), o, NEWEST);
            }
            let took = match work {
                Work::Housekeeping => l.field("duration").and_then(parse_go_duration),
                _ => None,
            };
            self.add(work, o, took);
            if work == Work::Skipped || work == Work::Eviction || work == Work::Oom {
                self.trouble(o);
            }
        } else if l.severity >= Severity::Error && l.pod.is_empty() {
            self.trouble(o);
        }
    }

    fn request(&mut self, a: &AuditRecord, o: &Evidence) {
        if a.kubelet_of().is_none() {
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
        if let Err(at) = self.starts.binary_search_by(|s| s.as_ref().cmp(&start)) {
            self.starts.insert(at, Arc::new(start));
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
        keep(&mut self.trouble, o, TROUBLE);
    }

    /// Counts and durations of a kind of work; `None` when it was not seen.
    pub fn work(&self, work: Work) -> Option<&Activity> {
        self.work.get(&work)
    }
    /// The newest lines of a kind of work whose lines [have details](Work::says_what), oldest first.
    pub fn newest(&self, work: Work) -> impl DoubleEndedIterator<Item = &Evidence> {
        self.newest.get(&work).into_iter().flatten()
    }
    /// Number of pod workers that are processing an update, by the log at `-v=4`; `None` at a lower verbosity.
    pub fn busy_workers(&self) -> Option<u64> {
        let began = self.work(Work::WorkerBegan)?.count;
        Some(began.saturating_sub(self.work(Work::WorkerEnded).map_or(0, |w| w.count)))
    }
    /// The newest values of a metric series.
    pub fn reading(&self, series: &str) -> Option<&Reading> {
        self.readings.get(series)
    }
    /// Mean of a histogram between its two newest scrapes, in the metric's unit (seconds); over all time with one
    /// scrape only.
    pub fn histogram_mean(&self, family: &str) -> Option<f64> {
        let sum = self.reading(&format!("{family}_sum"))?;
        let count = self.reading(&format!("{family}_count"))?;
        let (mut n, mut total) = (count.value, sum.value);
        // A scrape reports only what changed: observations of 0 s change the count alone.
        if let Some((before, c)) = count.before
            && let Some(s) = sum.at(before)
            && n > c
        {
            n -= c;
            total -= s;
        }
        (n > 0.0).then(|| total / n)
    }
    /// The newest answer of each health or configuration endpoint, by endpoint name.
    pub fn health(&self) -> impl Iterator<Item = &Evidence> {
        self.health.values()
    }
    /// Errors of the kubelet that concern no single pod, oldest first.
    pub fn troubles(&self) -> impl DoubleEndedIterator<Item = &Evidence> {
        self.trouble.iter()
    }
    /// Log lines and Events that show steps of the kubelet's own starts, oldest first; `flow::runs::passes` separates
    /// the starts.
    pub fn startup(&self) -> Vec<Evidence> {
        let mut all: Vec<Evidence> = self.startup.values().flatten().cloned().collect();
        all.sort();
        all.dedup();
        all
    }
    /// Number of observations in [`startup`](Self::startup), and the newest time: changes when the observations change.
    pub fn startup_mark(&self) -> (usize, Option<Nanos>) {
        let newest = self.startup.values().filter_map(|v| v.back()).max();
        (
            self.startup.values().map(VecDeque::len).sum(),
            newest.map(|o| o.stamp.at),
        )
    }
    /// Pod starts as measured by the kubelet, oldest first.
    pub fn starts(&self) -> impl DoubleEndedIterator<Item = &ObservedStart> {
        self.starts.iter().map(AsRef::as_ref)
    }
}

/// Inserts an observation, without duplicates and in order of time; keeps the newest `most`.
fn keep(kept: &mut VecDeque<Evidence>, o: &Evidence, most: usize) {
    let from = kept.partition_point(|e| e.stamp.at < o.stamp.at);
    let mut at_once = kept.range(from..).take_while(|e| e.stamp.at == o.stamp.at);
    if at_once.any(|e| e.repeats(o)) {
        return;
    }
    let at = kept.partition_point(|e| e < o);
    kept.insert(at, o.clone());
    if kept.len() > most {
        kept.pop_front();
    }
}

#[cfg(test)]
mod tests;
