//! Timelines and verdicts as one self-contained HTML page, to be attached to a ticket.
//!
//! The script zooms and describes what the pointer is on; without it the page shows the same data. The page's
//! Content-Security-Policy forbids all other scripts and all loading, in case a text from outside ever gets past
//! `Escaped`.

mod chart;
mod verdicts;

use std::fmt;
use std::io::{self, Write};

use kflow_core::correlate::{Pod, PodView};
use kflow_core::diagnose::{Incident, Verdict};
use kflow_model::Nanos;
use kflow_model::units::{counted, date_and_clock, duration};

/// A pod with its verdict, if it has one.
pub type Entry<'a> = (&'a Pod, Option<&'a Verdict>);

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
/// SHA-256 of the script in base64. A test prints the new value after a change.
const SCRIPT_HASH: &str = "rkgbYjZVksisWpNgfZBOFjC08DS9art53HE4dZdhRgU=";

/// Most pods that are named per verdict; the others are folded.
const NAMED: usize = 20;
/// On a page with more pods than this, timelines are folded, except the first ones of pods that are not well. Chosen:
/// three timelines fit on a few screens.
const UNFOLDED: usize = 3;

/// Writes the begin of a page, up to its heading. `script` is the hash of the only script that may run.
fn begin(title: &str, script: Option<&str>, out: &mut impl Write) -> io::Result<()> {
    let scripts = script.map(|hash| format!("; script-src 'sha256-{hash}'"));
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         img-src data:{1}\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>{0}</title>\n<style>\n{STYLE}</style></head>\n\
         <body><h1>{0}</h1>",
        Escaped(title),
        scripts.unwrap_or_default(),
    )
}

/// Writes a page in the same style without a script. `body` is HTML whose texts have to be [`Escaped`].
pub fn page(title: &str, body: &str, out: &mut impl Write) -> io::Result<()> {
    begin(title, None, out)?;
    writeln!(out, "{body}</body></html>")
}

/// Writes a page about these pods and the verdicts on their nodes and owners, as of `now`. `incidents` are their past
/// and present incidents.
pub fn write(
    title: &str,
    entries: &[Entry<'_>],
    others: &[&Verdict],
    incidents: &[&Incident],
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    begin(title, Some(SCRIPT_HASH), out)?;
    writeln!(
        out,
        "<p class=\"dim\">{}, as of {} UTC, by kflow {}</p>",
        counted(entries.len() as u64, "pod"),
        date_and_clock(now, 0, 0),
        env!("CARGO_PKG_VERSION"),
    )?;
    verdicts::now(entries, others, now, out)?;
    verdicts::before(entries, incidents, out)?;
    writeln!(
        out,
        "<h2 id=\"timelines\">Timelines</h2>\n<ul class=\"legend\">{LEGEND}</ul>"
    )?;
    // Pods that are not well come first.
    let is_well = |v: Option<&Verdict>| v.is_none_or(|v| v.state.is_well());
    let mut sorted: Vec<(usize, &Entry<'_>)> = entries.iter().enumerate().collect();
    sorted.sort_by_key(|(_, (_, v))| is_well(*v));
    for (shown, (n, (pod, verdict))) in sorted.into_iter().enumerate() {
        let fold = match entries.len() {
            0..=UNFOLDED => Fold::None,
            _ if shown < UNFOLDED && !is_well(*verdict) => Fold::Open,
            _ => Fold::Closed,
        };
        section(n, pod, *verdict, fold, now, out)?;
    }
    writeln!(out, "<script>{SCRIPT}</script></body></html>")
}

const LEGEND: &str = "<li><i></i>done</li><li><i class=\"error\"></i>failed ✗</li><li><i class=\"in-flight\"></i>in flight …</li>\
<li><i class=\"cancelled\"></i>cancelled ∅</li><li><i class=\"inferred\"></i>an edge is inferred</li><li><i class=\"bounded\"></i>only bounded</li>\
<li><i class=\"unknown\"></i>unknown</li><li><i class=\"mark\"></i>mark</li><li><i class=\"mark bad\"></i>bad mark</li>";

/// Whether a timeline can be folded, and whether it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fold {
    None,
    Open,
    Closed,
}

fn section(
    n: usize,
    pod: &PodView,
    verdict: Option<&Verdict>,
    fold: Fold,
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    let (key, status) = (pod.key(), Escaped(&pod.status));
    let mut told = String::new();
    if let Some((ns, _)) = pod.start() {
        told.push_str(&format!(" · Ready after {}", duration(ns)));
    }
    if let Some(v) = verdict {
        let (id, title) = (v.cause_id(), Escaped(&v.title));
        told.push_str(&format!(" · <a href=\"#verdicts\">{id} {title}</a>"));
    }
    let (ready, all) = pod.ready;
    let head = format!(
        "<h3>{}</h3> <span class=\"dim\">{status} · {ready}/{all} ready{told}</span>",
        Escaped(&key)
    );
    match fold {
        Fold::None => write!(out, "<section class=\"pod\" id=\"p{n}\">{head}")?,
        Fold::Open | Fold::Closed => {
            let open = if fold == Fold::Open { " open" } else { "" };
            write!(
                out,
                "<details class=\"fold\"{open}><summary>{head}</summary><section class=\"pod\" id=\"p{n}\">"
            )?;
        }
    }
    let node = if pod.node.is_empty() {
        "none"
    } else {
        &pod.node
    };
    writeln!(
        out,
        "<p class=\"dim\">node {} · uid {}</p>",
        Escaped(node),
        Escaped(pod.uid.as_str())
    )?;
    chart::write(pod, now, out)?;
    out.write_all(b"</section>")?;
    if fold != Fold::None {
        out.write_all(b"</details>")?;
    }
    writeln!(out)
}

/// An untrusted text, escaped for element content and quoted attributes.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // HTML allows no control characters, and bidirectional overrides could hide what the text says.
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
        write("report", &[(&pod, None)], &[], &[], Nanos(0), &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert_eq!(page.matches("<script").count(), 1);
        assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
        assert!(page.contains("&lt;script&gt;"));
    }
}
