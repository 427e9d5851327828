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
            line(&mut out, format_args!("  {}", place(on)));
        }
    }
    if c.rule {
        line(
            &mut out,
            format_args!("\ntold by a rule that joins several observations"),
        );
    }
    line(&mut out, format_args!("\nwhat to do"));
    let steps = c.all_steps().map(|(text, command)| (shown(text), command));
    let steps: Vec<_> = steps.collect();
    if steps.iter().any(|(text, _)| text.contains('{')) {
        for l in crate::why::wrap(&format!("({BRACES})"), 78) {
            line(&mut out, format_args!("  {l}"));
        }
    }
    for (text, command) in steps {
        line(&mut out, format_args!("  {text}\n    {command}"));
    }
    line(
        &mut out,
        format_args!("\ndocs    {}\nsource  {}", c.docs, source(&c.source)),
    );
    out
}

/// What braces in a step mean to a reader.
pub const BRACES: &str = "names in {braces} come from the evidence; a step whose sentence has one that is not known is left out";

/// Returns a step's text for readers: without the brackets that mark it as optional, and without names in parentheses, which
/// are words of the error.
pub fn shown(text: &str) -> String {
    let inside = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let text = inside.unwrap_or(text).replace('|', ", or ");
    let mut parts = text.split(" ({");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once("})") {
            Some((name, rest)) if !name.contains('}') => out.push_str(rest),
            _ => {
                out.push_str(" ({");
                out.push_str(part);
            }
        }
    }
    out
}

/// Names what a cause is looked for in: a canonical reason, as the head of the catalogue lists them.
fn place(on: &str) -> String {
    let (kind, reason) = on.split_once('/').unwrap_or((on, ""));
    match kind {
        "@clause" => "a clause of the scheduler's message".to_owned(),
        "@claim" => format!("Event {reason} of a claim of the pod"),
        "@group" => format!("{reason} of the pod's group"),
        "@rejected" => format!("{reason}, by which the kubelet rejects a pod"),
        "@hpa" => "a condition of a HorizontalPodAutoscaler".to_owned(),
        "@node" => "a condition or an Event of the node".to_owned(),
        "@kubelet" => "an error with which a kubelet ends, or cannot register its node".to_owned(),
        "@stop" => "an error of a call that stops something".to_owned(),
        "@autoscaler" => "what an autoscaler says of the pod".to_owned(),
        "@cgroup" => "an error of the pod's cgroup".to_owned(),
        "@crio" => "an error of CRI-O's log".to_owned(),
        "@delete" => "an answer to the deletion of the pod".to_owned(),
        "@evict" => "an answer to an eviction of the pod".to_owned(),
        "@unmount" => "an error of an unmount".to_owned(),
        "@volumes" => "an error of the pod's volumes".to_owned(),
        "@log" => "any other error in a log".to_owned(),
        _ => on.to_owned(),
    }
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
    text: String,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing of the catalogue's own notation stays in what is read.
    #[test]
    fn a_cause_is_told_in_words() {
        let all = Catalogue::get();
        for c in all.iter() {
            assert!(
                c.on.iter().all(|on| !place(on).starts_with('@')),
                "{}",
                c.id
            );
            let told = entry(c);
            let steps = c.all_steps().map(|(text, _)| shown(text));
            let steps: Vec<String> = steps.collect();
            assert!(steps.iter().all(|s| !s.contains(['[', '|'])), "{steps:?}");
            let in_braces = steps.iter().any(|s| s.contains('{'));
            assert_eq!(told.contains("names in {braces}"), in_braces, "{told}");
        }
        assert_eq!(shown("[a ({late}): b ({c} d)]"), "a: b ({c} d)");
    }
}
