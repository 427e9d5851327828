//! The catalogue of causes as text for a terminal, as rows (documented in `docs/json.md`) and as Markdown for
//! `docs/causes.md`.

use std::fmt::Write as _;
use std::io;

use serde::Serialize;

use super::rows::{self, Rows};
use kflow_core::diagnose::catalogue::{Catalogue, Cause};

/// Returns one line per cause: id, stage, title.
pub fn table(all: &Catalogue) -> String {
    let mut out = String::from("ID      STAGE      TITLE\n");
    for c in all.iter() {
        line(
            &mut out,
            format_args!("{:<7} {:<10} {}", c.id, c.stage.name(), c.title),
        );
    }
    out
}

/// Describes one cause in full.
pub fn entry(c: &Cause) -> String {
    let mut out = String::new();
    line(
        &mut out,
        format_args!("{}  {}  (stage {})", c.id, c.title, c.stage),
    );
    for l in crate::why::wrap(&c.about, 80) {
        line(&mut out, format_args!("{l}"));
    }
    if !c.on.is_empty() {
        line(&mut out, format_args!("\nlooked for in"));
        for on in &c.on {
            line(&mut out, format_args!("  {on}"));
        }
    }
    if c.rule {
        line(
            &mut out,
            format_args!("\ntold by a rule that joins several observations"),
        );
    }
    line(&mut out, format_args!("\nwhat to do"));
    for (text, command) in c.all_steps() {
        line(&mut out, format_args!("  {}\n    {command}", shown(text)));
    }
    line(
        &mut out,
        format_args!("\ndocs    {}\nsource  {}", c.docs, source(&c.source)),
    );
    out
}

/// Strips the brackets that mark a step as optional.
pub fn shown(text: &str) -> &str {
    let inside = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    inside.unwrap_or(text)
}

#[derive(Serialize)]
struct Row<'a> {
    cause: &'static str,
    stage: &'static str,
    title: &'a str,
    about: &'a str,
    /// The texts that the cause is looked for in; empty when a rule joins several observations.
    looked_for_in: &'a [String],
    joins: bool,
    next: Vec<Step<'a>>,
    docs: &'a str,
    source: String,
}

#[derive(Serialize)]
struct Step<'a> {
    text: &'a str,
    command: &'a str,
}

/// Writes causes as rows.
pub fn rows(out: &mut impl io::Write, form: Rows, causes: Vec<&Cause>) -> io::Result<()> {
    let all = causes.into_iter().map(|c| Row {
        cause: c.id.as_str(),
        stage: c.stage.name(),
        title: &c.title,
        about: &c.about,
        looked_for_in: &c.on,
        joins: c.rule,
        next: (c.all_steps())
            .map(|(text, command)| Step {
                text: shown(text),
                command,
            })
            .collect(),
        docs: &c.docs,
        source: source(&c.source),
    });
    rows::values(out, form, all)
}

/// Returns where a cause's facts come from, in words.
pub fn source(letters: &str) -> String {
    let words: Vec<&str> = letters
        .split(',')
        .map(|l| match l.trim() {
            "K" => "Kubernetes 1.36 source",
            "C" => "containerd source",
            "R" => "other tools",
            "I" => "issue threads",
            "X" => "general knowledge",
            "rec" => "a recording",
            other => other,
        })
        .collect();
    words.join(", ")
}

fn line(out: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a `String` never fails.
    if out.write_fmt(args).is_ok() {
        out.push('\n');
    }
}
