//! What is not known, for programs.

use std::io::{self, Write};

use serde::Serialize;

use kflow_core::diagnose::Unknown;

#[derive(Serialize)]
struct Row<'a> {
    state: &'static str,
    what: &'a str,
    reason: &'a str,
    why: &'a str,
    help: &'a str,
    sentence: String,
}

/// An array of one row with the state `unknown`, in the place of what was asked for.
pub fn json(out: &mut impl Write, u: &Unknown) -> io::Result<()> {
    let row = Row {
        state: "unknown",
        what: &u.what,
        reason: u.reason.name(),
        why: &u.why,
        help: &u.help,
        sentence: u.to_string(),
    };
    super::json_array(out, std::iter::once(row))
}
