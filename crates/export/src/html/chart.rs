//! A pod's timeline: an axis with ticks, a row with marks, and a row per step with all its attempts.

use std::io::{self, Write};

use super::{Escaped, counted};
use crate::life::{Axis, Line, lengths, lines, tick};
use kflow_core::correlate::PodView;
use kflow_core::timeline::{Certainty, Mark, Span, summary};
use kflow_model::Nanos;
use kflow_model::units::{date_and_clock, duration, time_of_day};

const TOOLS: &str = "<div class=\"tools\" hidden>\
<button data-do=\"in\" title=\"zoom in (+)\">+</button><button data-do=\"out\" title=\"zoom out (-)\">−</button>\
<button data-do=\"all\" title=\"the whole (0)\">all</button><button data-do=\"left\" title=\"earlier (Left)\">←</button>\
<button data-do=\"right\" title=\"later (Right)\">→</button>\
<span class=\"dim\">drag or + − 0 zoom, arrows move</span></div>";

/// Distance of ticks, as a share of the axis. Chosen: labels have room on a page of 700 px.
const TICKS: f64 = 1.0 / 9.0;
/// Least width of a folded time with room for its length, as a share of the axis.
const LABEL: f64 = 0.04;

/// Writes a pod's timeline, as of `now`.
pub(super) fn write(pod: &PodView, now: Nanos, out: &mut impl Write) -> io::Result<()> {
    let t = &pod.timeline;
    let Some(axis) = Axis::of(t, now) else {
        return writeln!(out, "<p>No timeline.</p>");
    };
    let scale = Scale { axis: &axis };
    let folded = match axis.folds().next() {
        Some(_) => "; shaded: nothing began or ended, drawn shorter than it was",
        None => "",
    };
    writeln!(
        out,
        "<p class=\"dim\">{} from {} UTC{folded}</p>{TOOLS}\n<div class=\"chart\" tabindex=\"0\" role=\"group\" \
         aria-label=\"timeline of {}\" data-axis=\"{}\"><div class=\"over\">",
        duration(axis.length()),
        date_and_clock(axis.first, 3, 0),
        Escaped(&pod.key()),
        scale.ends(),
    )?;
    for (at, x) in axis.ticks(TICKS) {
        let x = x * 100.0;
        let class = if x > 90.0 { "tick last" } else { "tick" };
        let plus = if at == 0 { "" } else { "+" };
        let label = format!("{plus}{}", tick(at));
        write!(
            out,
            "<div class=\"{class}\" style=\"--x:{x:.4}\"><span>{label}</span></div>"
        )?;
    }
    for p in axis.folds() {
        let (x, width) = (p.x * 100.0, p.width * 100.0);
        write!(
            out,
            "<div class=\"folded\" style=\"--x:{x:.4};--w:{width:.4}\">"
        )?;
        if p.width > LABEL {
            write!(out, "<span>{}</span>", duration(p.to - p.from))?;
        }
        out.write_all(b"</div>")?;
    }
    for g in &t.gaps {
        let place = scale.place(g.start, g.end.unwrap_or(axis.last()));
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
                duration(m.at.at.since(axis.first)),
                Escaped(&mark(m)),
            )?;
        }
        writeln!(out, "</div></div>")?;
    }
    for line in lines(t) {
        row(pod, &line, &scale, now, out)?;
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

/// Describes a span in one line.
fn told(pod: &PodView, s: &Span, first: Nanos, now: Nanos) -> String {
    let (work, whole) = (summary::work_ns(&pod.timeline, s, now), s.duration(now));
    let mut say = format!(
        "{}{}: +{} for {}, {}, {} (within {})",
        name(s),
        match s.attempt {
            0 => String::new(),
            n => format!(" #{n}"),
        },
        duration(s.start.at.since(first)),
        of(work, whole),
        s.outcome.name(),
        certainty(s.certainty),
        duration(s.start.precision.into()),
    );
    for more in [&s.code, &s.message] {
        if !more.is_empty() {
            say.push_str(&format!(" · {more}"));
        }
    }
    say
}

fn name(s: &Span) -> String {
    if s.container.is_empty() {
        s.step.to_string()
    } else {
        format!("{} {}", s.step, s.container)
    }
}

/// Formats how long something worked in the time that it spanned. Lengths that are equal in three digits are written once.
fn of(work: i64, whole: i64) -> String {
    let (worked, lasted) = (duration(work), duration(whole));
    if worked == lasted {
        lasted
    } else {
        format!("{worked} of {lasted}")
    }
}

/// Writes a row: a step's name, how long it worked, and a bar for each interval in which an attempt of it worked. A thin
/// line joins the bars of a stage, which spans all its steps.
fn row(
    pod: &PodView,
    line: &Line,
    scale: &Scale<'_>,
    now: Nanos,
    out: &mut impl Write,
) -> io::Result<()> {
    let t = &pod.timeline;
    let mut spans = line.spans(t).peekable();
    let Some(s) = spans.peek() else {
        return Ok(());
    };
    let mut name = name(s);
    let (say, took) = match line.spans.len() {
        1 => {
            if s.attempt > 0 {
                name.push_str(&format!(" #{}", s.attempt));
            }
            let took = of(summary::work_ns(t, s, now), s.duration(now));
            (told(pod, s, scale.axis.first, now), took)
        }
        n => {
            let took = lengths(t, line, now);
            let say = format!("{name}: {n} times, {took}");
            name.push_str(&format!(" ×{n}"));
            (say, took)
        }
    };
    write!(
        out,
        "<div class=\"row{} {}\" title=\"{}\"><div class=\"l\"><span class=\"n\" style=\"--d:{}\">{}</span><span class=\"d\">{took}</span></div><div class=\"t\">",
        if s.is_stage() { " stage" } else { "" },
        line.outcome(t).name(),
        Escaped(&say),
        line.depth,
        Escaped(&name),
    )?;
    let one = line.spans.len() == 1;
    for s in spans {
        if summary::work_ns(t, s, now) != s.duration(now) {
            let place = scale.place(s.start.at, s.end.map_or(now, |e| e.at));
            write!(
                out,
                "<i class=\"whole {}\" style=\"{place}\"></i>",
                s.outcome.name()
            )?;
        }
        let title = if one {
            String::new()
        } else {
            let say = told(pod, s, scale.axis.first, now);
            format!(" title=\"{}\"", Escaped(&say))
        };
        for (from, to) in summary::work(t, s, now) {
            write!(
                out,
                "<i class=\"{} {}\" style=\"{}\"{title}></i>",
                certainty(s.certainty),
                s.outcome.name(),
                scale.place(from, to)
            )?;
        }
    }
    writeln!(out, "</div></div>")
}

struct Scale<'a> {
    axis: &'a Axis,
}

impl Scale<'_> {
    /// Returns a moment as a percentage of the whole.
    fn percent(&self, at: Nanos) -> f64 {
        self.axis.place(at) * 100.0
    }
    /// Returns the left edge and the width for the style sheet, which keeps narrow bars visible.
    fn place(&self, from: Nanos, to: Nanos) -> String {
        let x = self.percent(from);
        format!("--x:{x:.4};--w:{:.4}", (self.percent(to) - x).max(0.0))
    }
    /// Returns the ends of the axis' pieces for the script: `ns percent`, separated by commas.
    fn ends(&self) -> String {
        let ends = self.axis.pieces().iter();
        let ends: Vec<String> = ends
            .map(|p| format!("{} {:.6}", p.to, (p.x + p.width) * 100.0))
            .collect();
        ends.join(",")
    }
}

const fn certainty(c: Certainty) -> &'static str {
    match c {
        Certainty::Measured => "measured",
        Certainty::Inferred => "inferred",
        Certainty::Bounded => "bounded",
    }
}
