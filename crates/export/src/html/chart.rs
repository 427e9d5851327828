//! A pod's timeline: an axis with ticks, a row with marks, and a row per span.

use std::io::{self, Write};

use super::{Escaped, counted};
use crate::timeline::depth;
use kflow_core::correlate::PodView;
use kflow_core::timeline::{Certainty, Mark, Span, summary};
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;
use kflow_model::units::{date_and_clock, duration, time_of_day};

const TOOLS: &str = "<div class=\"tools\" hidden>\
<button data-do=\"in\" title=\"zoom in (+)\">+</button><button data-do=\"out\" title=\"zoom out (-)\">−</button>\
<button data-do=\"all\" title=\"the whole (0)\">all</button><button data-do=\"left\" title=\"earlier (Left)\">←</button>\
<button data-do=\"right\" title=\"later (Right)\">→</button>\
<span class=\"dim\">drag or + − 0 zoom, arrows move</span></div>";

/// Writes a pod's timeline, as of `now`.
pub(super) fn write(pod: &PodView, now: Nanos, out: &mut impl Write) -> io::Result<()> {
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
        "<p class=\"dim\">{} from {} UTC</p>{TOOLS}\n<div class=\"chart\" tabindex=\"0\" role=\"group\" \
         aria-label=\"timeline of {}\" data-ns=\"{}\"><div class=\"over\">",
        duration(scale.length),
        date_and_clock(first, 3, 0),
        Escaped(&pod.key()),
        scale.length,
    )?;
    for at in ticks(scale.length) {
        let x = scale.percent(first.plus(at));
        let class = if x > 90.0 { "tick last" } else { "tick" };
        let label = if at == 0 {
            "0".to_owned()
        } else {
            format!("+{}", tick(at))
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
            counted(t.marks.len() as u64, "mark"),
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

/// Describes a mark in one line.
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

/// Writes marks and gaps as a table too, because paper has no pointer.
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

/// Writes a row: a span's name, how long it worked, and a bar for each interval in which it worked. A thin line joins
/// the bars of a stage, which spans all its steps.
fn row(pod: &PodView, s: &Span, scale: &Scale, now: Nanos, out: &mut impl Write) -> io::Result<()> {
    let (work, whole) = (summary::work_ns(&pod.timeline, s, now), s.duration(now));
    let (worked, lasted) = (duration(work), duration(whole));
    // Lengths that are equal in three digits are written once.
    let took = if worked == lasted {
        lasted
    } else {
        format!("{worked} of {lasted}")
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

/// Returns at most six ticks, ns from the begin: powers of ten up to ten seconds, then units of clocks and calendars.
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

/// Formats a tick's time without trailing zeros: `30s`, `2m`, `1.5s`.
fn tick(at: i64) -> String {
    let text = duration(at);
    let (number, unit) = match text.find(|c: char| c.is_alphabetic()) {
        Some(i) if text.contains('.') => text.split_at(i),
        _ => return text.trim_end_matches("00s").to_owned(),
    };
    let number = number.trim_end_matches('0').trim_end_matches('.');
    format!("{number}{unit}")
}

struct Scale {
    first: Nanos,
    length: i64,
}

impl Scale {
    /// Returns a moment as a percentage of the whole.
    fn percent(&self, at: Nanos) -> f64 {
        at.since(self.first).clamp(0, self.length) as f64 / self.length as f64 * 100.0
    }
    /// Returns the left edge and the width for the style sheet, which keeps narrow bars visible.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_has_the_digits_that_it_needs() {
        let said =
            [10, 1500, 200_000, 30_000, 60_000, 90_000, 7_200_000].map(|ms| tick(ms * 1_000_000));
        assert_eq!(
            said,
            ["10ms", "1.5s", "3m20s", "30s", "1m", "1m30s", "2h00m"]
        );
    }

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
}
