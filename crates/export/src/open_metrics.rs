//! The OpenMetrics text format 1.0.
//! <https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md>

use std::fmt::Display;
use std::io::{self, Write};

/// What Prometheus calls a page of it.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Types of metric families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its samples end in `_total`.
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// Writes families one after the other.
#[derive(Debug)]
pub struct Page<W> {
    out: W,
}

impl<W: Write> Page<W> {
    pub const fn new(out: W) -> Self {
        Self { out }
    }

    /// Begins a family. One whose name ends in `_seconds` or `_bytes` has that unit.
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

    /// A sample of the family that was begun last, by its whole name.
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

    /// Ends the page.
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
