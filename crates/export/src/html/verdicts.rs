//! The verdicts on pods, nodes and owners, each once, and past incidents.

use std::io::{self, Write};

use super::{Entry, Escaped, NAMED};
use crate::incidents::subject as befallen;
use crate::why::evidence::{clock, source_name, told_once};
use crate::why::{Group, groups, standing, subject};
use kflow_core::diagnose::{Incident, State, Subject, Verdict};
use kflow_model::Nanos;
use kflow_model::units::{self, date_and_clock};

/// Most pieces of evidence per verdict.
const EVIDENCE: usize = 6;

/// Writes the present verdicts on the pods and on others, each once.
pub(super) fn now(
    entries: &[Entry<'_>],
    others: &[&Verdict],
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "<h2 id=\"verdicts\">Verdicts</h2>")?;
    let told = others
        .iter()
        .copied()
        .chain(entries.iter().filter_map(|(_, v)| *v));
    let mut groups = groups(told);
    groups.sort_by_key(|g| g.told.first().is_some_and(|v| v.state.is_well()));
    if groups.is_empty() {
        return writeln!(out, "<p>No verdict on any of these pods.</p>");
    }
    for Group { told, behind } in groups {
        let Some(v) = told.first() else { continue };
        let class = match v.state {
            s if s.is_well() => "well",
            State::Slow | State::Blocked => "moves",
            _ => "ill",
        };
        write!(
            out,
            "<article class=\"{class}\"><p><span class=\"cause\">{} {}</span> \
             · {} <span class=\"dim\">since {} UTC</span></p><p>",
            v.cause_id(),
            Escaped(&v.title),
            standing(v, now),
            units::clock(v.since, 0, 0),
        )?;
        names(whom(&told, entries), out)?;
        writeln!(out, "</p><p>{}</p>", Escaped(&v.sentence))?;
        list("Holds up", behind.len(), out, |out| {
            for group in &behind {
                let Some(v) = group.first() else { continue };
                out.write_all(b"<li class=\"behind\">")?;
                names(whom(group, entries), out)?;
                let (id, sentence) = (v.cause_id(), Escaped(&v.sentence));
                write!(
                    out,
                    " <span class=\"dim\">{} ({id})</span>: {sentence}</li>",
                    standing(v, now)
                )?;
            }
            Ok(())
        })?;
        let (shown, more) = told_once(&v.evidence, EVIDENCE);
        list("Evidence", shown.len(), out, |out| {
            for (p, also) in shown {
                let mut from = source_name(p.source).to_owned();
                if !also.is_empty() {
                    from.push_str(&format!(", also {}", also.join(", ")));
                }
                let (at, text) = (clock(p, now), Escaped(&p.to_string()).to_string());
                write!(
                    out,
                    "<li><span class=\"mono\">{at}</span> <span class=\"dim\">{from}</span> {text}</li>"
                )?;
            }
            if more > 0 {
                write!(out, "<li class=\"dim\">and {more} more</li>")?;
            }
            Ok(())
        })?;
        list("What to do", v.next.len(), out, |out| {
            v.next.iter().try_for_each(|n| {
                let (text, command) = (Escaped(&n.text), Escaped(&n.command));
                write!(out, "<li>{text}")?;
                if !n.command.is_empty() {
                    write!(out, ": <code>{command}</code>")?;
                }
                write!(out, "</li>")
            })
        })?;
        list("Also", v.also.len(), out, |out| {
            v.also.iter().try_for_each(|a| {
                let (id, sentence) = (a.cause_id(), Escaped(&a.sentence));
                write!(out, "<li>{id} {sentence}</li>")
            })
        })?;
        writeln!(out, "</article>")?;
    }
    Ok(())
}

/// Returns the subjects of verdicts: nodes and owners, which have no timeline, and links to pods.
fn whom(told: &[&Verdict], entries: &[Entry<'_>]) -> Vec<String> {
    let of = |v: &Verdict| {
        let pod = |(_, (_, of)): &(usize, &Entry<'_>)| of.is_some_and(|of| std::ptr::eq(of, v));
        entries.iter().enumerate().find(pod)
    };
    let each = told.iter().map(|v| match of(v) {
        Some((n, (pod, _))) => format!("<a href=\"#p{n}\">{}</a>", Escaped(&pod.key())),
        None => Escaped(&subject(v)).to_string(),
    });
    each.collect()
}

/// Writes a list of names, of which many are folded.
fn names(all: Vec<String>, out: &mut impl Write) -> io::Result<()> {
    let (named, others) = all.split_at(all.len().min(NAMED));
    write!(out, "{}", named.join(", "))?;
    if others.is_empty() {
        return Ok(());
    }
    let (n, all) = (others.len(), others.join(", "));
    write!(
        out,
        "<details><summary>and {n} more</summary>{all}</details>"
    )
}

/// Writes the incidents that are over, which no present verdict mentions.
pub(super) fn before(
    entries: &[Entry<'_>],
    incidents: &[&Incident],
    out: &mut impl Write,
) -> io::Result<()> {
    let over = || incidents.iter().filter_map(|i| Some((*i, i.end?)));
    if over().next().is_none() {
        return Ok(());
    }
    writeln!(out, "<h2 id=\"before\">Over by then</h2>")?;
    for (i, end) in over() {
        let v = &i.verdict;
        write!(
            out,
            "<article class=\"past\"><p><span class=\"cause\">{} {}</span> <span class=\"dim\">{} UTC, for {}</span></p><p>",
            v.cause_id(),
            Escaped(&v.title),
            date_and_clock(i.begin, 0, 0),
            units::age(i.length(end)),
        )?;
        let links = entries
            .iter()
            .enumerate()
            .filter(|(_, (pod, _))| i.parts.iter().any(|p| p.verdict.uid == pod.uid));
        let links =
            links.map(|(n, (pod, _))| format!("<a href=\"#p{n}\">{}</a>", Escaped(&pod.key())));
        let whole = match i.subject {
            // A pod of this page is a link instead.
            Subject::Pod { ref uid, .. } if entries.iter().any(|(p, _)| p.uid == *uid) => None,
            _ => Some(Escaped(&befallen(i)).to_string()),
        };
        names(whole.into_iter().chain(links).collect(), out)?;
        writeln!(out, "</p><p>{}</p></article>", Escaped(&v.sentence))?;
    }
    Ok(())
}

fn list<W: Write>(
    title: &str,
    len: usize,
    out: &mut W,
    items: impl FnOnce(&mut W) -> io::Result<()>,
) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    write!(out, "<details open><summary>{title}</summary><ul>")?;
    items(out)?;
    writeln!(out, "</ul></details>")
}
