//! Timelines and verdicts as one HTML page: no script, no outside resource, so it can be attached to a ticket.

use std::fmt;
use std::io::{self, Write};

use kflow_core::correlate::{Pod, PodView};
use kflow_core::diagnose::Verdict;
use kflow_core::timeline::{Certainty, Span, summary};
use kflow_model::Nanos;
use kflow_model::units::duration;

/// Width of the waterfall, in SVG units.
const WIDTH: i64 = 760;
const LABEL: i64 = 300;
const ROW: i64 = 18;

/// A pod with its verdict, if it has one.
pub type Entry<'a> = (&'a Pod, Option<&'a Verdict>);

/// Writes a page about these pods as of `now`.
pub fn write(
    title: &str,
    entries: &[Entry<'_>],
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>{STYLE}</style></head>\n<body><h1>{0}</h1><p class=\"dim\">as of {1}</p>\n",
        Escaped(title),
        now
    )?;
    for (pod, verdict) in entries {
        section(pod, *verdict, now, out)?;
    }
    out.write_all(b"</body></html>\n")
}

const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#1d2430;--bg:#fff;--dim:#68707d;--ok:#2f8f5b;--err:#c8382e;--run:#2d6cc8;--can:#a06a00;--gap:#c9ced6}\
@media(prefers-color-scheme:dark){:root{--fg:#d8dee9;--bg:#14181f;--dim:#8b95a5;--ok:#4fb57c;--err:#ee6a5f;--run:#6aa2f0;--can:#d9a441;--gap:#3a424f}}\
body{font:14px/1.45 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:1100px;margin:2em auto;padding:0 1em}\
svg text{font:12px ui-monospace,monospace;fill:var(--fg)}svg .dim{fill:var(--dim)}\
.dim{color:var(--dim)}.ok{fill:var(--ok)}.error{fill:var(--err)}.in-flight{fill:var(--run)}.cancelled{fill:var(--can)}.gap{fill:var(--gap)}\
.envelope{fill-opacity:.4}.inferred{fill-opacity:.65}.bounded{fill-opacity:.35}\
.verdict{border-left:4px solid var(--err);padding:.2em 1em;margin:1em 0}pre{white-space:pre-wrap}";

fn section(
    pod: &PodView,
    verdict: Option<&Verdict>,
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(
        out,
        "<h2>{}</h2><p class=\"dim\">{} · node {} · uid {}</p>",
        Escaped(&pod.key()),
        Escaped(&pod.status),
        Escaped(if pod.node.is_empty() {
            "none"
        } else {
            &pod.node
        }),
        Escaped(pod.uid.as_str())
    )?;
    if let Some(v) = verdict {
        writeln!(
            out,
            "<div class=\"verdict\"><b>{}</b> {}<p>{}</p><pre>",
            Escaped(v.cause_id()),
            Escaped(&v.title),
            Escaped(&v.sentence)
        )?;
        for p in &v.evidence {
            writeln!(
                out,
                "{}  {}  {}",
                p.at,
                p.source.name(),
                Escaped(&p.to_string())
            )?;
        }
        for n in &v.next {
            writeln!(out, "→ {}  {}", Escaped(&n.text), Escaped(&n.command))?;
        }
        out.write_all(b"</pre></div>\n")?;
    }
    waterfall(pod, now, out)
}

fn waterfall(pod: &PodView, now: Nanos, out: &mut impl Write) -> io::Result<()> {
    let Some((first, last)) = pod.timeline.range() else {
        return out.write_all(b"<p>No timeline.</p>\n");
    };
    let last = if pod.timeline.in_flight().next().is_some() {
        last.max(now)
    } else {
        last
    };
    let scale = Scale {
        first,
        length: last.since(first).max(1),
    };
    let rows: Vec<&Span> = pod.timeline.spans.iter().collect();
    let height = (rows.len() as i64 + 1) * ROW + 4;
    writeln!(
        out,
        "<svg viewBox=\"0 0 {} {height}\" width=\"100%\" role=\"img\" aria-label=\"timeline\">",
        LABEL + WIDTH
    )?;
    for g in &pod.timeline.gaps {
        let (x, w) = scale.bar(g.start, g.end.unwrap_or(last));
        writeln!(
            out,
            "<rect class=\"gap\" x=\"{x}\" y=\"0\" width=\"{w}\" height=\"{height}\" fill-opacity=\".3\"><title>unknown: {}</title></rect>",
            Escaped(&g.why)
        )?;
    }
    for (n, s) in rows.iter().enumerate() {
        row(pod, s, n as i64 * ROW + 2, &scale, now, out)?;
    }
    writeln!(
        out,
        "<text class=\"dim\" x=\"{LABEL}\" y=\"{0}\">{first}</text><text class=\"dim\" x=\"{1}\" y=\"{0}\" text-anchor=\"end\">+{2}</text></svg>",
        height - 6,
        LABEL + WIDTH,
        duration(scale.length)
    )
}

/// A span's name, how long it worked, and a bar for each time in which it did. A stage is the envelope of its steps: a
/// thin line joins them.
fn row(
    pod: &PodView,
    s: &Span,
    y: i64,
    scale: &Scale,
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    let attempt = if s.attempt > 0 {
        format!(" #{}", s.attempt)
    } else {
        String::new()
    };
    let (work, whole) = (summary::work_ns(&pod.timeline, s, now), s.duration(now));
    let took = if work == whole {
        duration(whole)
    } else {
        format!("{} of {}", duration(work), duration(whole))
    };
    write!(
        out,
        "<text x=\"{}\" y=\"{}\"{}>{} {}{attempt}</text><text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{took}</text>",
        if s.is_stage() { 0 } else { 14 },
        y + 12,
        if s.is_stage() { "" } else { " class=\"dim\"" },
        Escaped(&s.step),
        Escaped(&s.container),
        LABEL - 8,
        y + 12,
    )?;
    let title = format!(
        "{} +{} for {took} (within {}) {} {}",
        s.step,
        duration(s.start.at.since(scale.first)),
        duration(s.start.precision.into()),
        s.code,
        s.message,
    );
    if work != whole {
        let (x, w) = scale.bar(s.start.at, s.end.map_or(now, |e| e.at));
        write!(
            out,
            "<rect class=\"{} envelope\" x=\"{x}\" y=\"{}\" width=\"{w}\" height=\"2\"/>",
            s.outcome.name(),
            y + (ROW - 5) / 2 - 1,
        )?;
    }
    for (from, to) in summary::work(&pod.timeline, s, now) {
        let (x, w) = scale.bar(from, to);
        write!(
            out,
            "<rect class=\"{} {}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{}\" rx=\"2\"><title>{}</title></rect>",
            s.outcome.name(),
            certainty(s.certainty),
            ROW - 5,
            Escaped(&title),
        )?;
    }
    writeln!(out)
}

struct Scale {
    first: Nanos,
    length: i64,
}

impl Scale {
    /// Left edge and width; at least one unit wide, so that nothing vanishes.
    fn bar(&self, from: Nanos, to: Nanos) -> (i64, i64) {
        let x = |at: Nanos| {
            let share = at.since(self.first).clamp(0, self.length) as f64 / self.length as f64;
            LABEL + (share * WIDTH as f64) as i64
        };
        (x(from), (x(to) - x(from)).max(1))
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
        write("report", &[(&pod, None)], Nanos(0), &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(
            !page.contains("<script") && !page.contains('\u{1b}') && !page.contains('\u{202e}')
        );
        assert!(page.contains("&lt;script&gt;"));
    }
}
