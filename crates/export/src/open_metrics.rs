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
