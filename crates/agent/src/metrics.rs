//! What an agent counts of what it sees, for Prometheus.
//!
//! The counts need no world: calls, bytes, losses, and the state of the sources, the spool and the store. Pod starts
//! and verdicts are derived by viewers from the same observations. No label has values that come from outside: methods
//! are those of the CRI, codes those of gRPC, sources kflow's own.

use std::collections::{BTreeMap, HashMap};
use std::io;

use kflow_export::open_metrics::{Durations, Kind, Page, seconds};
use kflow_model::cri::{CallEnd, CallKey, CallOutcome, code_name, method};
use kflow_model::{Body, Evidence, Nanos, Source};
use kflow_sources::live::{SourceStatus, Status};

/// Upper bounds of the buckets of call durations, s: lists take milliseconds, pulls minutes.
const BOUNDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 240.0,
];
/// Number of calls in flight that are tracked at most. A kubelet has some hundreds.
const MOST: usize = 1 << 16;
/// Name of the histogram of call durations.
const LENGTH: &str = "kflow_cri_call_duration_seconds";
/// Label value for a method or code that this kflow does not know.
const OTHER: &str = "other";
/// Label value for a method or code that was not observed.
const UNKNOWN: &str = "unknown";

/// What was counted since the agent started.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Number of calls that ended, by method and code.
    ended: BTreeMap<(&'static str, &'static str), u64>,
    lengths: BTreeMap<&'static str, Durations>,
    /// Method and start of each call in flight.
    open: HashMap<CallKey, (&'static str, Nanos)>,
    untracked: u64,
    request_bytes: u64,
    response_bytes: u64,
    observations: BTreeMap<Source, u64>,
    gaps: BTreeMap<Source, u64>,
    lost: BTreeMap<Source, u64>,
}

fn method_of(name: &str) -> &'static str {
    if name == method::UNKNOWN {
        return UNKNOWN;
    }
    let known = method::ALL.iter().find(|m| **m == name);
    known.copied().unwrap_or(OTHER)
}

fn code_of(end: &CallEnd) -> &'static str {
    match (end.outcome, end.code) {
        (CallOutcome::Status, None) => UNKNOWN,
        (CallOutcome::Status, Some(code)) => match code_name(code) {
            "?" => OTHER,
            name => name,
        },
        (CallOutcome::ClientReset, _) => "reset by the kubelet",
        (CallOutcome::ServerReset, _) => "reset by the runtime",
        (CallOutcome::ConnectionClosed, _) => "connection closed",
        (CallOutcome::Lost, _) => "not seen",
    }
}

impl Counts {
    /// Counts an observation. Observations have to come in order of arrival.
    pub fn take(&mut self, o: &Evidence) {
        *self.observations.entry(o.source).or_default() += 1;
        match &o.body {
            Body::CallStart(c) => {
                if self.open.len() < MOST {
                    self.open.insert(c.key, (method_of(&c.method), o.stamp.at));
                } else {
                    self.untracked += 1;
                }
            }
            Body::CallEnd(c) => {
                let begun = self.open.remove(&c.key);
                let method = begun.map_or(UNKNOWN, |(method, _)| method);
                *self.ended.entry((method, code_of(c))).or_default() += 1;
                self.request_bytes = self.request_bytes.saturating_add(c.request_bytes);
                self.response_bytes = self.response_bytes.saturating_add(c.response_bytes);
                if let Some((_, at)) = begun
                    && c.outcome != CallOutcome::Lost
                {
                    self.lengths
                        .entry(method)
                        .or_insert_with(|| Durations::by(&BOUNDS))
                        .add(o.stamp.at.since(at).max(0));
                }
            }
            // The connection's calls have ended with it, each with a `CallEnd` of its own.
            Body::Conn(c) if !c.open => self.open.retain(|key, _| key.conn != c.conn),
            Body::Gap(g) => {
                *self.gaps.entry(g.of).or_default() += 1;
                *self.lost.entry(g.of).or_default() += g.lost;
            }
            _ => {}
        }
    }
}

/// State that the page shows besides the counts.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub sources: Vec<SourceStatus>,
    /// State of the spool, `None` when there is none.
    pub spool: Option<kflow_store::Status>,
    /// State of the upload into a store, `None` when there is none.
    pub store: Option<kflow_store::upload::Status>,
}

/// Writes the page of metrics.
pub fn write(out: &mut impl io::Write, counts: &Counts, state: &State) -> io::Result<()> {
    let mut page = Page::new(out);
    calls(&mut page, counts)?;
    for (name, help, counts) in [
        (
            "kflow_observations",
            "What sources saw.",
            &counts.observations,
        ),
        (
            "kflow_gaps",
            "Times of which a source does not know everything.",
            &counts.gaps,
        ),
        (
            "kflow_lost",
            "Lines, chunks or observations that are known to be lost, by source.",
            &counts.lost,
        ),
    ] {
        page.family(name, Kind::Counter, help)?;
        by_source(&mut page, &format!("{name}_total"), counts, state)?;
    }
    sources(&mut page, &state.sources)?;
    if let Some(kept) = &state.spool {
        spool(&mut page, kept)?;
        if let Some(sent) = &state.store {
            store(&mut page, sent, kept)?;
        }
    }
    page.end()
}

/// Writes a count for every source, also when it is 0: Prometheus sees no increase when a series first appears with its
/// first count.
fn by_source(
    page: &mut Page<impl io::Write>,
    name: &str,
    counts: &BTreeMap<Source, u64>,
    state: &State,
) -> io::Result<()> {
    let mut all: BTreeMap<Source, u64> = state.sources.iter().map(|s| (s.source, 0)).collect();
    all.extend(counts);
    for (source, n) in all {
        page.sample(name, &[("source", source.name())], n)?;
    }
    Ok(())
}

/// Writes the family `kflow_sources`.
pub fn sources(page: &mut Page<impl io::Write>, all: &[SourceStatus]) -> io::Result<()> {
    page.family(
        "kflow_sources",
        Kind::Gauge,
        "Sources by kind and state: starting, on, off.",
    )?;
    let mut sources: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for s in all {
        let is = match s.status {
            Status::Starting => "starting",
            Status::On(_) => "on",
            Status::Off(_) => "off",
        };
        *sources.entry((s.source.name(), is)).or_default() += 1;
    }
    for ((source, is), n) in sources {
        page.sample("kflow_sources", &[("source", source), ("state", is)], n)?;
    }
    Ok(())
}

fn calls(page: &mut Page<impl io::Write>, counts: &Counts) -> io::Result<()> {
    page.family(
        "kflow_cri_calls",
        Kind::Counter,
        "CRI calls that ended, by method and gRPC code.",
    )?;
    for ((method, code), n) in &counts.ended {
        page.sample(
            "kflow_cri_calls_total",
            &[("method", *method), ("code", *code)],
            n,
        )?;
    }
    page.family(
        LENGTH,
        Kind::Histogram,
        "Length of CRI calls whose begin and end were seen.",
    )?;
    for (method, lengths) in &counts.lengths {
        page.durations(LENGTH, &[("method", *method)], lengths)?;
    }
    page.family(
        "kflow_cri_calls_in_flight",
        Kind::Gauge,
        "CRI calls that began and have not ended.",
    )?;
    let mut open: BTreeMap<&str, u64> = BTreeMap::new();
    for (method, _) in counts.open.values() {
        *open.entry(*method).or_default() += 1;
    }
    for (method, n) in open {
        page.sample("kflow_cri_calls_in_flight", &[("method", method)], n)?;
    }
    page.single(
        "kflow_cri_calls_untracked",
        Kind::Counter,
        "CRI calls that were too many to be followed.",
        counts.untracked,
    )?;
    page.family(
        "kflow_cri_message_bytes",
        Kind::Counter,
        "Bytes of gRPC messages of CRI calls that ended.",
    )?;
    for (direction, n) in [
        ("request", counts.request_bytes),
        ("response", counts.response_bytes),
    ] {
        page.sample(
            "kflow_cri_message_bytes_total",
            &[("direction", direction)],
            n,
        )?;
    }
    Ok(())
}

fn spool(page: &mut Page<impl io::Write>, s: &kflow_store::Status) -> io::Result<()> {
    page.single(
        "kflow_spool_bytes",
        Kind::Gauge,
        "Bytes that are kept on this disk.",
        s.bytes,
    )?;
    page.single(
        "kflow_spool_failing",
        Kind::Gauge,
        "1 while nothing can be written on this disk.",
        u8::from(s.failing.is_some()),
    )?;
    page.single(
        "kflow_spool_lost",
        Kind::Counter,
        "Observations that were not written on this disk.",
        s.lost,
    )
}

fn store(
    page: &mut Page<impl io::Write>,
    sent: &kflow_store::upload::Status,
    spool: &kflow_store::Status,
) -> io::Result<()> {
    page.single(
        "kflow_store_segments_sent",
        Kind::Counter,
        "Segments that the store got.",
        sent.sent,
    )?;
    page.single(
        "kflow_store_sent_bytes",
        Kind::Counter,
        "Bytes of segments that the store got.",
        sent.bytes,
    )?;
    page.single(
        "kflow_store_segments_waiting",
        Kind::Gauge,
        "Segments that wait to be sent.",
        spool.waiting,
    )?;
    page.single(
        "kflow_store_segments_dropped",
        Kind::Counter,
        "Segments that had to go before the store had them.",
        spool.dropped.0,
    )?;
    if let Some(last) = sent.last {
        page.single(
            "kflow_store_last_sent_timestamp_seconds",
            Kind::Gauge,
            "When the store got the last segment.",
            seconds(last.0),
        )?;
    }
    if let Some(tidied) = &sent.tidied {
        page.single(
            "kflow_store_segments_removed",
            Kind::Counter,
            "Segments of the cluster that this agent removed because they were too old.",
            tidied.segments,
        )?;
    }
    page.single(
        "kflow_store_failing",
        Kind::Gauge,
        "1 while the store takes nothing.",
        u8::from(sent.failing.is_some()),
    )
}
