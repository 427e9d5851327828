//! Timelines and verdicts as one HTML page that holds all that it needs, so it can be attached to a ticket.
//!
//! Its script zooms and tells what is pointed at; without it the page says the same. The page's policy lets nothing else
//! run and nothing load, should a text from outside ever get past `Escaped`.

use std::fmt;
use std::io::{self, Write};

use super::timeline::depth;
use super::why::{groups, subject};
use kflow_core::correlate::{Pod, PodView};
use kflow_core::diagnose::{State, Verdict};
use kflow_core::timeline::{Certainty, Mark, Span, summary};
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;
use kflow_model::units::{duration, time_of_day};

/// A pod with its verdict, if it has one.
pub type Entry<'a> = (&'a Pod, Option<&'a Verdict>);

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
/// SHA-256 of the script in base64: a test tells the new one when it changed.
const SCRIPT_HASH: &str = "jewZvTRVDaERr4MwpfjXmmOphbEnEG1WIdIPwfNuRNA=";

/// As many pods are named of those of which the same is said; the others are folded.
const NAMED: usize = 20;

/// Writes a page about these pods, and what is said of their nodes and owners, as of `now`.
pub fn write(
    title: &str,
    entries: &[Entry<'_>],
    others: &[&Verdict],
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         img-src data:; script-src 'sha256-{SCRIPT_HASH}'\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>{0}</title>\n<style>\n{STYLE}</style></head>\n\
         <body><h1>{0}</h1><p class=\"dim\">{1}, as of {now}, by kflow {2}</p>\n",
        Escaped(title),
        counted(entries.len(), "pod"),
        env!("CARGO_PKG_VERSION"),
    )?;
    verdicts(entries, others, out)?;
    writeln!(
        out,
        "<h2 id=\"timelines\">Timelines</h2>\n<ul class=\"legend\">{LEGEND}</ul>"
    )?;
    for (n, (pod, verdict)) in entries.iter().enumerate() {
        section(n, pod, *verdict, now, out)?;
    }
    writeln!(out, "<script>{SCRIPT}</script></body></html>")
}

const LEGEND: &str = "<li><i></i>done</li><li><i class=\"error\"></i>failed ✗</li><li><i class=\"in-flight\"></i>in flight …</li>\
<li><i class=\"cancelled\"></i>cancelled ∅</li><li><i class=\"inferred\"></i>an edge is inferred</li><li><i class=\"bounded\"></i>only bounded</li>\
<li><i class=\"unknown\"></i>unknown</li><li><i class=\"mark\"></i>mark</li><li><i class=\"mark bad\"></i>bad mark</li>";

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// What is said of the pods, and of others, each verdict once.
fn verdicts(entries: &[Entry<'_>], others: &[&Verdict], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<h2 id=\"verdicts\">Verdicts</h2>")?;
    let told = others
        .iter()
        .copied()
        .chain(entries.iter().filter_map(|(_, v)| *v));
    let mut groups = groups(told);
    groups.sort_by_key(|g| g.first().is_some_and(|v| v.state.is_well()));
    if groups.is_empty() {
        return writeln!(out, "<p>No verdict on any of these pods.</p>");
    }
    for group in groups {
        let Some(v) = group.first() else { continue };
        let class = match v.state {
            s if s.is_well() => "well",
            State::Slow | State::Blocked => "moves",
            _ => "ill",
        };
        write!(
            out,
            "<article class=\"{class}\"><p><span class=\"cause\">{} {}</span> <span class=\"state\">{}</span> \
             <span class=\"dim\">in {} since {}</span></p><p>",
            v.cause_id(),
            Escaped(&v.title),
            v.state.name(),
            v.stage,
            v.since,
        )?;
        let places = entries
            .iter()
            .enumerate()
            .filter(|(_, (_, of))| of.is_some_and(|of| group.iter().any(|v| std::ptr::eq(*v, of))));
        let links =
            places.map(|(n, (pod, _))| format!("<a href=\"#p{n}\">{}</a>", Escaped(&pod.key())));
        // Nodes and owners have no timeline to lead to.
        let is_other = |v: &&&Verdict| others.iter().any(|o| std::ptr::eq(*o, **v));
        let named = group
            .iter()
            .filter(is_other)
            .map(|v| Escaped(&subject(v)).to_string());
        let links: Vec<String> = named.chain(links).collect();
        let (named, others) = links.split_at(links.len().min(NAMED));
        write!(out, "{}", named.join(", "))?;
        if !others.is_empty() {
            let (n, all) = (others.len(), others.join(", "));
            write!(
                out,
                "<details><summary>and {n} more</summary>{all}</details>"
            )?;
        }
        writeln!(out, "</p><p>{}</p>", Escaped(&v.sentence))?;
        list("Evidence", v.evidence.len(), out, |out| {
            v.evidence.iter().try_for_each(|p| {
                write!(
                    out,
                    "<li><span class=\"mono\">{}</span> <span class=\"dim\">{}</span> {}</li>",
                    time_of_day(p.at, p.precision),
                    p.source.name(),
                    Escaped(&p.to_string())
                )
            })
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

fn section(
    n: usize,
    pod: &PodView,
    verdict: Option<&Verdict>,
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    let node = if pod.node.is_empty() {
        "none"
    } else {
        &pod.node
    };
    write!(
        out,
        "<section class=\"pod\" id=\"p{n}\"><h3>{}</h3><p class=\"dim\">{} · {}/{} ready · node {} · uid {}",
        Escaped(&pod.key()),
        Escaped(&pod.status),
        pod.ready.0,
        pod.ready.1,
        Escaped(node),
        Escaped(pod.uid.as_str())
    )?;
    if let Some(v) = verdict {
        let (id, title) = (v.cause_id(), Escaped(&v.title));
        write!(out, " · <a href=\"#verdicts\">{id} {title}</a>")?;
    }
    writeln!(out, "</p>")?;
    chart(pod, now, out)?;
    writeln!(out, "</section>")
}

const TOOLS: &str = "<div class=\"tools\" hidden>\
<button data-do=\"in\" title=\"zoom in (+)\">+</button><button data-do=\"out\" title=\"zoom out (-)\">−</button>\
<button data-do=\"all\" title=\"the whole (0)\">all</button><button data-do=\"left\" title=\"earlier (Left)\">←</button>\
<button data-do=\"right\" title=\"later (Right)\">→</button>\
<span class=\"dim\">drag or + − 0 zoom, arrows move</span></div>";

fn chart(pod: &PodView, now: Nanos, out: &mut impl Write) -> io::Result<()> {
    let t = &pod.timeline;
    let Some((first, last)) = t.range() else {
        return writeln!(out, "<p>No timeline.</p>");
    };
    let open = t.spans.iter().any(|s| s.end.is_none());
    let last = if open { last.max(now) } else { last };
    let scale = Scale {
        first,
        length: last.since(first).max(1),
    };
    writeln!(
        out,
        "<p class=\"dim\">{} from {first}</p>{TOOLS}\n<div class=\"chart\" tabindex=\"0\" role=\"group\" \
         aria-label=\"timeline of {}\" data-ns=\"{}\"><div class=\"over\">",
        duration(scale.length),
        Escaped(&pod.key()),
        scale.length,
    )?;
    for at in ticks(scale.length) {
        let x = scale.percent(first.plus(at));
        let class = if x > 90.0 { "tick last" } else { "tick" };
        let label = if at == 0 {
            "0".to_owned()
        } else {
            format!("+{}", duration(at))
        };
        write!(
            out,
            "<div class=\"{class}\" style=\"--x:{x:.4}\"><span>{label}</span></div>"
        )?;
    }
    for g in &t.gaps {
        let place = scale.place(g.start, g.end.unwrap_or(last));
        write!(out, "<div class=\"unknown\" style=\"{place}\"></div>")?;
    }
    writeln!(out, "</div><div class=\"axis\"></div>")?;
    if !t.marks.is_empty() {
        write!(
            out,
            "<div class=\"row marks\" title=\"{}\"><div class=\"l\"><span class=\"n\">marks</span><span class=\"d\">{}</span></div><div class=\"t\">",
            counted(t.marks.len(), "mark"),
            t.marks.len()
        )?;
        for m in &t.marks {
            write!(
                out,
                "<i class=\"mark{}\" style=\"--x:{:.4}\" title=\"+{} {}\"></i>",
                if m.bad { " bad" } else { "" },
                scale.percent(m.at.at),
                duration(m.at.at.since(first)),
                Escaped(&mark(m)),
            )?;
        }
        writeln!(out, "</div></div>")?;
    }
    for s in &t.spans {
        row(pod, s, &scale, now, out)?;
    }
    writeln!(
        out,
        "</div><p class=\"say\" aria-live=\"polite\" hidden></p>"
    )?;
    list_of_marks(pod, out)
}

/// What a mark says, on one line.
fn mark(m: &Mark) -> String {
    let container = if m.container.is_empty() {
        String::new()
    } else {
        format!("[{}] ", m.container)
    };
    let times = if m.count > 1 {
        format!(" ×{}", m.count)
    } else {
        String::new()
    };
    format!("{container}{}{times}", m.text)
}

/// Marks and unknown times as a table: on paper nothing can be pointed at.
fn list_of_marks(pod: &PodView, out: &mut impl Write) -> io::Result<()> {
    let t = &pod.timeline;
    let mut rows: Vec<(Nanos, u32, bool, String)> = t
        .marks
        .iter()
        .map(|m| (m.at.at, m.at.precision, m.bad, mark(m)))
        .collect();
    rows.extend(t.gaps.iter().map(|g| {
        let length = g.end.map_or_else(
            || "until now".to_owned(),
            |e| format!("for {}", duration(e.since(g.start))),
        );
        let text = format!("{} unknown {length}: {}", g.stage, g.why);
        (g.start, 1_000_000, false, text)
    }));
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort();
    write!(
        out,
        "<details open><summary>Marks and unknown times</summary><table>"
    )?;
    for (at, precision, bad, text) in rows {
        let class = if bad { " class=\"bad\"" } else { "" };
        let (at, text) = (time_of_day(at, precision), Escaped(&text));
        write!(out, "<tr{class}><td>{at}</td><td>{text}</td></tr>")?;
    }
    writeln!(out, "</table></details>")
}

/// A span's name, how long it worked, and a bar for each time in which it did. A stage is the envelope of its steps: a
/// thin line joins them.
fn row(pod: &PodView, s: &Span, scale: &Scale, now: Nanos, out: &mut impl Write) -> io::Result<()> {
    let (work, whole) = (summary::work_ns(&pod.timeline, s, now), s.duration(now));
    let took = if work == whole {
        duration(whole)
    } else {
        format!("{} of {}", duration(work), duration(whole))
    };
    let mut name = s.step.to_string();
    if !s.container.is_empty() {
        name.push_str(&format!(" {}", s.container));
    }
    if s.attempt > 0 {
        name.push_str(&format!(" #{}", s.attempt));
    }
    let mut say = format!(
        "{name}: +{} for {took}, {}, {} (within {})",
        duration(s.start.at.since(scale.first)),
        s.outcome.name(),
        certainty(s.certainty),
        duration(s.start.precision.into()),
    );
    for more in [&s.code, &s.message] {
        if !more.is_empty() {
            say.push_str(&format!(" · {more}"));
        }
    }
    write!(
        out,
        "<div class=\"row{} {}\" title=\"{}\"><div class=\"l\"><span class=\"n\" style=\"--d:{}\">{}</span><span class=\"d\">{took}</span></div><div class=\"t\">",
        if s.is_stage() { " stage" } else { "" },
        s.outcome.name(),
        Escaped(&say),
        depth(s, &pod.timeline.spans),
        Escaped(&name),
    )?;
    if work != whole {
        let place = scale.place(s.start.at, s.end.map_or(now, |e| e.at));
        write!(out, "<i class=\"whole\" style=\"{place}\"></i>")?;
    }
    for (from, to) in summary::work(&pod.timeline, s, now) {
        write!(
            out,
            "<i class=\"{}\" style=\"{}\"></i>",
            certainty(s.certainty),
            scale.place(from, to)
        )?;
    }
    writeln!(out, "</div></div>")
}

/// At most six moments, ns from the begin: by ten up to ten seconds, then as clocks and calendars do.
fn ticks(length: i64) -> impl Iterator<Item = i64> {
    let tens = (0..11).flat_map(|n| [1, 2, 5].map(|by| by * 10_i64.pow(n)));
    let clock = [
        10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400,
    ];
    let days = (0..).map_while(|n| 43_200_i64.checked_shl(n));
    let seconds = clock.into_iter().chain(days);
    let step = tens
        .take_while(|step| *step < 10 * SECOND)
        .chain(seconds.map_while(|s| s.checked_mul(SECOND)))
        .find(|step| length / step <= 5)
        .unwrap_or(i64::MAX);
    (0..=length / step).map(move |n| n * step)
}

struct Scale {
    first: Nanos,
    length: i64,
}

impl Scale {
    /// Share of the whole, in percent.
    fn percent(&self, at: Nanos) -> f64 {
        at.since(self.first).clamp(0, self.length) as f64 / self.length as f64 * 100.0
    }
    /// Left edge and width as the style sheet takes them; it sees to it that nothing vanishes.
    fn place(&self, from: Nanos, to: Nanos) -> String {
        let x = self.percent(from);
        format!("--x:{x:.4};--w:{:.4}", (self.percent(to) - x).max(0.0))
    }
}

const fn certainty(c: Certainty) -> &'static str {
    match c {
        Certainty::Measured => "measured",
        Certainty::Inferred => "inferred",
        Certainty::Bounded => "bounded",
    }
}

/// Text from outside, made harmless in element content and in quoted attributes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Controls are not allowed in HTML, and marks that turn text around could hide what it says.
                c if (c.is_control() && c != '\n')
                    || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
                {
                    f.write_str("\u{fffd}")?;
                }
                c => fmt::Write::write_char(f, c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn ticks_are_round_and_few_whatever_the_length() {
        let all = |length| ticks(length).collect::<Vec<_>>();
        assert_eq!(all(1), [0, 1]);
        assert_eq!(all(6), [0, 2, 4, 6]);
        assert_eq!(all(44), [0, 10, 20, 30, 40]);
        assert_eq!(all(11 * SECOND), [0, 2, 4, 6, 8, 10].map(|n| n * SECOND));
        assert_eq!(all(200 * SECOND), [0, 60, 120, 180].map(|n| n * SECOND));
        assert_eq!(
            all(7200 * SECOND),
            [0, 1800, 3600, 5400, 7200].map(|n| n * SECOND)
        );
        for n in 0..63 {
            for length in [(1_i64 << n) - 1, 1 << n, 3_i64.saturating_mul(1 << n)] {
                let found = all(length.max(1));
                assert!((2..=6).contains(&found.len()), "{length}: {found:?}");
            }
        }
    }

    #[test]
    fn a_hostile_name_stays_text() {
        let pod: Pod = Arc::new(
            PodView {
                namespace: "default".into(),
                name: "</h2><script>alert('x')</script>\u{202e}\u{1b}[2J".into(),
                ..PodView::default()
            }
            .into(),
        );
        let mut out = Vec::new();
        write("report", &[(&pod, None)], &[], Nanos(0), &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert_eq!(page.matches("<script").count(), 1);
        assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
        assert!(page.contains("&lt;script&gt;"));
    }
}
