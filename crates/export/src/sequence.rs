//! The sequence diagram of a pod for Mermaid and PlantUML, with the same rows as the terminal's pane.
//!
//! Names and messages are untrusted. Each character that a language could read as syntax is written in that language's
//! own escape (`#59;`, `<U+003B>`), so that a text stays one text.

use std::io::{self, Write};

use super::text::{Times, clean};
use kflow_core::sequence::{Diagram, Message, Party, What};
use kflow_model::Nanos;
use kflow_model::units::duration;

/// What differs between the two languages.
struct Language {
    first: &'static str,
    last: &'static str,
    /// Escapes a character.
    escape: fn(char) -> String,
    /// Words that are syntax wherever they occur.
    words: &'static [&'static str],
    participant: fn(Party) -> String,
    call: &'static str,
    /// The arrow of a warning, which has no answer.
    bad: &'static str,
    open: &'static str,
    waits: &'static str,
    back: &'static str,
    failed: &'static str,
    /// What stands before and after the text of a delay.
    delay: (&'static str, &'static str),
}

const MERMAID: Language = Language {
    first: "sequenceDiagram",
    last: "",
    escape: |c| format!("#{};", u32::from(c)),
    // `end` closes a block; a line with a style and a colour loses its last semicolon before it is parsed.
    words: &["end", "style", "classdef"],
    participant: |p| format!("    participant {} as {}", p.id(), p.name()),
    call: "->>",
    bad: "-x",
    open: "-)",
    waits: "--)",
    back: "-->>",
    failed: "--x",
    delay: ("Note over user,images: ", ""),
};

const PLANTUML: Language = Language {
    first: "@startuml",
    last: "@enduml\n",
    escape: |c| format!("<U+{:04X}>", u32::from(c)),
    words: &[],
    participant: |p| format!("    participant \"{}\" as {}", p.name(), p.id()),
    call: " -> ",
    bad: " -[#red]> ",
    open: " ->> ",
    waits: " -->> ",
    back: " --> ",
    failed: " -[#red]-> ",
    delay: ("...", "..."),
};

/// Escapes an untrusted text for a language.
fn safe(l: &Language, text: &str) -> String {
    let text = clean(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(c) = rest.chars().next() {
        let special = |w: &&str| {
            let head = rest.get(..w.len());
            head.is_some_and(|h| h.eq_ignore_ascii_case(w))
        };
        let plain =
            c.is_alphanumeric() || c == ' ' || matches!(c, '.' | ',' | '(' | ')' | '+' | '×' | '…');
        // A single one of these is plain text; two in a row are a style, an arrow or a delay.
        let single = matches!(c, '-' | '/' | '_' | ':' | '=');
        let again = out.ends_with(c) && !c.is_alphanumeric() && c != ' ';
        if l.words.iter().any(special) || !(plain || single) || again {
            out.push_str(&(l.escape)(c));
        } else {
            out.push(c);
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    out
}

/// Returns the text on the arrow of a message.
fn said(m: &Message, times: Times, now: Nanos) -> String {
    let mut text = format!("{} {}", times.at(m.at, m.precision), m.text);
    if m.times > 1 {
        text.push_str(&format!(" ×{}", m.times));
    }
    if m.open {
        let word = if m.is_wait() { "for" } else { "in flight for" };
        let length = m.took(now).map(duration).unwrap_or_default();
        text.push_str(&format!(", {word} {length}"));
    }
    text
}

/// Returns the text on the arrow of an answer: the code and the length. With `apart`, the message's text comes first,
/// because its call is not the row above.
pub fn answered(m: &Message, apart: bool, now: Nanos) -> String {
    if apart {
        return format!("{}: {}", m.text, answered(m, false, now));
    }
    let length = m.took(now).map(duration).unwrap_or_default();
    let all = if m.times > 1 { " in all" } else { "" };
    format!("{} {length}{all}", m.code).trim_start().to_owned()
}

fn diagram(
    l: &Language,
    title: &str,
    d: &Diagram,
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "{}", l.first)?;
    writeln!(out, "    title {}", safe(l, title))?;
    for p in Party::ALL {
        writeln!(out, "{}", (l.participant)(p))?;
    }
    let times = Times::of(d.messages.iter().map(|m| m.at));
    let mut working: Vec<Party> = Vec::new();
    for row in &d.rows {
        let (m, goes) = match &row.what {
            What::Delay { until, text } => {
                let (before, after) = l.delay;
                let text = format!("{} {text}", duration(until.since(row.at)));
                writeln!(out, "    {before}{}{after}", safe(l, &text))?;
                continue;
            }
            What::Out(i) => (d.messages.get(*i), true),
            What::Back(i) => (d.messages.get(*i), false),
        };
        let Some(m) = m else { continue };
        if goes {
            let arrow = match (m.is_wait(), m.open) {
                (true, _) => l.waits,
                (_, true) => l.open,
                _ if m.bad && m.end.is_none() => l.bad,
                _ => l.call,
            };
            let text = safe(l, &said(m, times, now));
            writeln!(out, "    {}{arrow}{}: {text}", m.from.id(), m.to.id())?;
            if m.open || m.end.is_some() {
                writeln!(out, "    activate {}", m.to.id())?;
                working.push(m.to);
            }
        } else {
            let arrow = if m.bad { l.failed } else { l.back };
            let text = safe(l, &answered(m, row.apart, now));
            writeln!(out, "    {}{arrow}{}: {text}", m.to.id(), m.from.id())?;
            writeln!(out, "    deactivate {}", m.to.id())?;
            if let Some(at) = working.iter().rposition(|p| *p == m.to) {
                working.remove(at);
            }
        }
    }
    // Participants that are still active stay active to the last row.
    for p in working {
        writeln!(out, "    deactivate {}", p.id())?;
    }
    write!(out, "{}", l.last)
}

pub fn mermaid(title: &str, d: &Diagram, now: Nanos, out: &mut impl Write) -> io::Result<()> {
    diagram(&MERMAID, title, d, now, out)
}

pub fn plantuml(title: &str, d: &Diagram, now: Nanos, out: &mut impl Write) -> io::Result<()> {
    diagram(&PLANTUML, title, d, now, out)
}

#[cfg(test)]
mod tests;
