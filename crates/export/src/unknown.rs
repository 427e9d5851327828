//! A question that cannot be answered, as rows for programs.

use std::io::{self, Write};

use serde::Serialize;

use super::rows::{self, Rows};

use kflow_core::diagnose::Unknown;

#[derive(Default, Serialize)]
struct Row<'a> {
    state: &'static str,
    what: &'a str,
    reason: &'a str,
    why: &'a str,
    help: &'a str,
    sentence: String,
}

/// Writes one row with the state `unknown` instead of an answer. Nothing in CSV, whose columns are those of the answer.
pub fn rows(out: &mut impl Write, u: &Unknown, form: Rows) -> io::Result<()> {
    if form == Rows::Csv {
        return Ok(());
    }
    let row = Row {
        state: "unknown",
        what: &u.what,
        reason: u.reason.name(),
        why: &u.why,
        help: &u.help,
        sentence: u.to_string(),
    };
    rows::write(out, form, std::iter::once(row))
}
