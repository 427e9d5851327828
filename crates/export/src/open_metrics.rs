//! The OpenMetrics text format 1.0.
//! <https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md>

use std::fmt::Display;
use std::io::{self, Write};

/// The content type of a page, by which Prometheus recognises the format.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Types of metric families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The samples' names end in `_total`.
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// A histogram of durations.
#[derive(Clone, Debug)]
pub struct Durations {
    /// Upper bounds of the buckets, s, in ascending order.
    bounds: &'static [f64],
    /// Counts by the first bound that is not exceeded; the last one counts what is beyond all bounds.
    buckets: Vec<u64>,
    sum_ns: i64,
}

impl Durations {
    /// An empty histogram with these upper bounds, s, in ascending order.
    pub fn by(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            buckets: vec![0; bounds.len() + 1],
            sum_ns: 0,
        }
    }

    /// Counts a duration, ns.
    pub fn add(&mut self, ns: i64) {
        let place = self.bounds.iter().position(|b| seconds(ns) <= *b);
        if let Some(n) = self.buckets.get_mut(place.unwrap_or(self.bounds.len())) {
            *n += 1;
        }
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }
}

/// Returns nanoseconds as seconds.
pub fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Writes metric families one after another.
#[derive(Debug)]
pub struct Page<W> {
    out: W,
}

impl<W: Write> Page<W> {
    pub const fn new(out: W) -> Self {
        Self { out }
    }

    /// Begins a family. The suffix `_seconds` or `_bytes` of its name sets its unit.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) -> io::Result<()> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        };
        writeln!(self.out, "# TYPE {name} {kind}")?;
        let unit = name
            .rsplit('_')
            .next()
            .filter(|u| matches!(*u, "seconds" | "bytes"));
        if let Some(unit) = unit {
            writeln!(self.out, "# UNIT {name} {unit}")?;
        }
        writeln!(self.out, "# HELP {name} {help}")
    }

    /// Writes a sample of the current family, by its full name.
    pub fn sample(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) -> io::Result<()> {
        write!(self.out, "{name}")?;
        for (n, (label, value)) in labels.iter().enumerate() {
            let before = if n == 0 { '{' } else { ',' };
            write!(self.out, "{before}{label}=\"{}\"", escaped(value))?;
        }
        let end = if labels.is_empty() { "" } else { "}" };
        writeln!(self.out, "{end} {value}")
    }

    /// Writes a family of one sample without labels.
    pub fn single(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        value: impl Display,
    ) -> io::Result<()> {
        self.family(name, kind, help)?;
        let total = if kind == Kind::Counter { "_total" } else { "" };
        self.sample(&format!("{name}{total}"), &[], value)
    }

    /// Writes the samples of a histogram of the current family.
    pub fn durations(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        of: &Durations,
    ) -> io::Result<()> {
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        let bounds = of.bounds.iter().map(Some).chain([None]);
        for (n, bound) in of.buckets.iter().zip(bounds) {
            below += n;
            let bound = bound.map_or("+Inf".to_owned(), |b| format!("{b:?}"));
            let labels = [labels, &[("le", bound.as_str())]].concat();
            self.sample(&bucket, &labels, below)?;
        }
        self.sample(&format!("{name}_count"), labels, below)?;
        self.sample(&format!("{name}_sum"), labels, seconds(of.sum_ns))
    }

    /// Writes the end marker.
    pub fn end(mut self) -> io::Result<()> {
        writeln!(self.out, "# EOF")
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
