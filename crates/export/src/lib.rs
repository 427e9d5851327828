//! Timelines, calls and verdicts in other people's formats: pure mappings onto an `impl Write`.
//!
//! | module | writes |
//! |---|---|
//! | [`text`] | texts from outside, harmless and cut; durations and times for people |
//! | [`timeline`] | timelines as text and JSON |
//! | [`calls`] | CRI calls as text and JSON |
//! | [`owner`] | what makes pods, and what became of it, as text and JSON |
//! | [`flow`] | the flow map, and what its steps did, as text and JSON |
//! | [`requests`] | requests to the apiserver as text and JSON |
//! | [`stats`] | how long things took, and what got slower, as text, JSON, CSV and OpenMetrics |
//! | [`perfetto`], [`otlp`] | timelines for trace viewers |
//! | [`html`] | timelines and verdicts as one page for a ticket |
//! | [`mod@file`] | timelines in the format that is chosen |
//! | [`causes`] | the catalogue of causes as text and Markdown |
//! | [`unknown`] | what is not known, as JSON |
//! | [`incidents`] | incidents as text and JSON |
//! | [`why`] | verdicts as text, JSON and Markdown |

pub mod calls;
pub mod causes;
pub mod file;
pub mod flow;
pub mod html;
pub mod incidents;
pub mod otlp;
pub mod owner;
pub mod perfetto;
pub mod requests;
pub mod stats;
pub mod text;
pub mod timeline;
pub mod unknown;
pub mod why;

use serde::Serialize;
use std::io::{self, Write};

/// Rows as one JSON array, a row a line: `jq` reads it whole, `grep` line by line.
fn json_array<T: Serialize>(out: &mut impl Write, rows: impl Iterator<Item = T>) -> io::Result<()> {
    let mut first = true;
    for row in rows {
        out.write_all(if first { b"[\n" } else { b",\n" })?;
        first = false;
        serde_json::to_writer(&mut *out, &row)?;
    }
    out.write_all(if first { b"[]\n" } else { b"\n]\n" })
}
