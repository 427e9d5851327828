//! Verdicts as Markdown for a ticket or a chat, short enough to be pasted.

use super::evidence::{clock, precision, source_name, told_once};
use super::{Group, alike, confidence_name, held_up, leads, push, standing, subject};
use crate::text::clean;
use kflow_core::diagnose::{Catalogue, Verdict};
use kflow_model::Nanos;

/// Most pieces of evidence per section, best first. Chosen: a section fits on a screen.
const EVIDENCE: usize = 6;

/// Returns a section per group.
pub fn markdown(groups: &[Group<'_>], now: Nanos) -> String {
    let sections: Vec<String> = groups.iter().filter_map(|g| section(g, now)).collect();
    sections.join("\n")
}

fn section(group: &Group<'_>, now: Nanos) -> Option<String> {
    let (v, others) = group.told.split_first()?;
    let mut out = String::new();
    let who = match others.len() {
        0 => subject(v),
        n => format!("{} and {n} more", subject(v)),
    };
    let title = match v.cause {
        None => format!("### {}", escaped(&who)),
        Some(id) => format!("### {}: {} ({id})", escaped(&who), escaped(&v.title)),
    };
    push(&mut out, &title);
    push(&mut out, "");
    push(
        &mut out,
        &format!(
            "**{}.** {}",
            escaped(&standing(v, now)),
            escaped(&v.sentence)
        ),
    );
    push(&mut out, "");
    items(v, others, now, &mut out);
    for behind in &group.behind {
        let line = format!("- {} {}", leads(behind), escaped(&held_up(behind, now)));
        push(&mut out, &line);
    }
    let (shown, more) = told_once(&v.evidence, EVIDENCE);
    if !shown.is_empty() {
        push(
            &mut out,
            "\n| time (UTC) | source | evidence |\n|---|---|---|",
        );
    }
    for (p, also) in shown {
        let mut from = format!("{}, {}", source_name(p.source), precision(p));
        if !also.is_empty() {
            from = format!("{from}; also {}", also.join(", "));
        }
        let row = [clock(p, now), escaped(&from), escaped(&p.to_string())];
        push(&mut out, &format!("| {} |", row.join(" | ")));
    }
    if more > 0 {
        push(&mut out, &format!("\nAnd {more} more."));
    }
    if !v.next.is_empty() {
        push(&mut out, "");
    }
    for n in &v.next {
        push(&mut out, &format!("- {}", escaped(&n.text)));
        if !n.command.is_empty() {
            let command = clean(&n.command);
            // The fence has to be longer than any run of backticks in the command.
            let longest = command.split(|c| c != '`').map(str::len).max();
            let fence = "`".repeat(longest.map_or(3, |l| (l + 1).max(3)));
            push(&mut out, &format!("\n  {fence}sh\n  {command}\n  {fence}"));
        }
    }
    Some(out)
}

/// Appends the facts of a verdict as a list.
fn items(v: &Verdict, others: &[&Verdict], now: Nanos, out: &mut String) {
    push(out, &format!("- since {}", v.since));
    push(out, &format!("- {}", confidence_name(v.confidence)));
    if let Some(n) = v.told_attempt() {
        let next = v.next_retry.filter(|t| *t > now);
        let next = next.map_or(String::new(), |t| format!(", next at {t}"));
        push(out, &format!("- attempt {n}{next}"));
    }
    if !v.not_reached.is_empty() {
        let steps = v.not_reached.join(", ");
        push(out, &format!("- not reached: {}", escaped(&steps)));
    }
    for (label, state) in [("owner", &v.owner_state), ("node", &v.node_state)] {
        if let Some(state) = state {
            push(out, &format!("- {label}: {}", escaped(state)));
        }
    }
    if !others.is_empty() {
        push(out, &format!("- the same: {}", escaped(&alike(v, others))));
    }
    for a in &v.also {
        let line = format!(
            "- also {} ({}): {}",
            a.cause_id(),
            a.stage,
            escaped(&a.sentence)
        );
        push(out, &line);
    }
    if let Some(id) = v.cause {
        push(out, &format!("- <{}>", Catalogue::get().cause(id).docs));
    }
}

/// Escapes a text for Markdown, on one line.
pub fn escaped(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    for c in clean(s).chars() {
        if "\\`*_{}[]<>|#~$&@".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
