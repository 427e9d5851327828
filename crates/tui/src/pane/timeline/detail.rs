//! The detail of the selected span, and the line about the time cursor.

use super::bars;
use kflow_core::correlate::PodView;

use crate::action::Action;
use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::text::wrap;
use crate::time::{TimeFormat, precision};
use crate::widget::ruler::Window;
use crate::widget::scroll;
use kflow_core::diagnose::pulls::{Fate, Progress, Pulls};
use kflow_core::flow::Stage;
use kflow_core::timeline::{Certainty, Outcome, Span, summary};
use kflow_model::Nanos;
use kflow_model::units::duration;

/// Returns the word for an outcome.
pub(super) const fn outcome(o: Outcome) -> &'static str {
    match o {
        Outcome::Ok => "ok",
        Outcome::Error => "failed",
        Outcome::InFlight => "in flight",
        Outcome::Cancelled => "given up",
    }
}

const fn certainty(c: Certainty) -> &'static str {
    match c {
        Certainty::Measured => "measured",
        Certainty::Inferred => "inferred",
        Certainty::Bounded => "within bounds",
    }
}

fn head(s: &Span) -> String {
    let mut t = if s.is_stage() {
        s.step.to_string()
    } else {
        format!("{} {}", s.stage, s.step)
    };
    if !s.container.is_empty() {
        t.push_str(&format!(" {}", s.container));
    }
    if s.attempt > 0 {
        t.push_str(&format!(" attempt {}", s.attempt + 1));
    }
    t
}

/// Formats the duration of a span: `60ms`, or `60ms of work in 2.78s` for a stage that lasts longer than
/// the work in it.
fn took(s: &Span, p: &PodView, now: Nanos) -> String {
    let (work, whole) = (summary::work_ns(&p.timeline, s, now), s.duration(now));
    if duration(work) == duration(whole) {
        duration(whole)
    } else {
        format!("{} of work in {}", duration(work), duration(whole))
    }
}

fn sources(s: &Span) -> String {
    let v: Vec<&str> = s.sources().iter().map(|s| s.name()).collect();
    v.join(", ")
}

fn when(s: &Span, time: &TimeFormat) -> String {
    let end = s.end.map_or_else(
        || "still open".to_owned(),
        |e| {
            format!(
                "{} ({})",
                time.at(e.at, e.precision, 9),
                precision(e.precision)
            )
        },
    );
    format!(
        "{} ({}) to {end}",
        time.at(s.start.at, s.start.precision, 9),
        precision(s.start.precision)
    )
}

pub(super) fn draw(
    ctx: &Ctx<'_>,
    canvas: &mut Canvas<'_>,
    p: &PodView,
    (told, s, pulls): (Option<(String, String)>, Option<&Span>, &Pulls),
    window: Window,
) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let time = ctx.time();
    let (w, h) = (canvas.width(), canvas.height());
    let mut y = 0;
    if let Some((told, waits)) = told {
        canvas.text(0, y, &told, t.strong);
        y += 1;
        if !waits.is_empty() && y + 1 < h {
            let key = ctx.keys.first(Action::WaitsFor);
            canvas.text(0, y, &format!("{waits}; {key} goes there"), t.wait);
            y += 1;
        }
    }
    if let Some(s) = s.filter(|_| y + 1 < h) {
        let style = match s.outcome {
            Outcome::Ok => t.ok,
            Outcome::Error => t.fail,
            Outcome::InFlight => t.run,
            Outcome::Cancelled => t.wait,
        };
        let mut x = canvas.spans(
            0,
            y,
            &[
                (&head(s), t.strong),
                ("  ", t.text),
                (outcome(s.outcome), style),
            ],
        );
        if !s.code.is_empty() {
            x = canvas.spans(x, y, &[(" ", t.text), (&s.code, style)]);
        }
        x = canvas.spans(x, y, &[("  ", t.text), (&took(s, p, ctx.snap.now), t.text)]);
        if let Some(d) = s.deadline_ns {
            x = canvas.spans(x, y, &[(" of ", t.dim), (&duration(d), t.dim)]);
        }
        canvas.spans(
            x,
            y,
            &[
                ("  ", t.text),
                (certainty(s.certainty), t.dim),
                ("  ", t.text),
                (&sources(s), t.dim),
            ],
        );
        y += 1;
        if y + 1 < h {
            let x = canvas.text(0, y, &when(s, &time), t.dim);
            if s.stage == Stage::Terminate
                && p.gone.is_none()
                && let Some(due) = bars::due(p)
            {
                let text = format!(
                    "  {}, {}",
                    bars::until(due, ctx.snap.now),
                    time.at(due, 1, 3)
                );
                canvas.text(x, y, &text, t.wait);
            }
            y += 1;
        }
        if y + 1 < h
            && let Some(ahead) = pulls.ahead(p, s, ctx.snap.now)
        {
            let text = format!("queued {}", ahead.text(ctx.snap.now));
            canvas.text(0, y, &text, t.wait);
            y += 1;
        }
        if y + 1 < h
            && let Some(progress) = Progress::of_step(&ctx.snap.world, s, ctx.snap.now)
        {
            let style = if progress.still.is_some() {
                t.fail
            } else {
                t.run
            };
            canvas.text(0, y, &progress.whole(ctx.snap.now), style);
            y += 1;
            for (layer, number, text) in progress.fetching(ctx.snap.now) {
                if y + 1 >= h {
                    break;
                }
                let style = match layer.fate {
                    Fate::Still(_) => t.fail,
                    _ => t.text,
                };
                let number = format!("  layer {number}  ");
                canvas.spans(0, y, &[(&number, t.dim), (&text, style)]);
                y += 1;
            }
        }
        if !s.message.is_empty() && y + 1 < h {
            let room = usize::from(h - 1 - y).min(if h > 5 { 6 } else { 1 });
            for line in wrap(&s.message, usize::from(w)).into_iter().take(room) {
                canvas.text(
                    0,
                    y,
                    &line,
                    if s.outcome == Outcome::Error {
                        t.fail
                    } else {
                        t.text
                    },
                );
                y += 1;
            }
        }
        if h > 5 {
            let more = s
                .evidence
                .len()
                .saturating_sub(usize::from(h.saturating_sub(y + 1)));
            for e in &s.evidence {
                if y + 1 >= h {
                    break;
                }
                let (what, _) = crate::describe::line(e);
                let at = time.at(e.stamp.at, e.stamp.precision, 6);
                let x = canvas.spans(
                    0,
                    y,
                    &[
                        (&at, t.dim),
                        ("  ", t.text),
                        (e.source.name(), t.source(e.source)),
                        ("  ", t.text),
                    ],
                );
                canvas.text(x, y, &what, t.text);
                y += 1;
            }
            scroll::draw_more(ctx, canvas, y.saturating_sub(1), 0, more);
        }
    }
    // The last line is about the time cursor.
    let y = h.saturating_sub(1);
    let at = ctx.shared.at(ctx.snap);
    let mut x = canvas.spans(
        0,
        y,
        &[
            (g.cursor, t.cursor),
            (" ", t.text),
            (&time.at(at, 1, 9), t.cursor),
        ],
    );
    x = canvas.spans(
        x,
        y,
        &[(
            &format!("  {} after creation", duration(at.since(p.zero()))),
            t.dim,
        )],
    );
    let near = window.length() / 100;
    let mark = p
        .timeline
        .marks
        .iter()
        .min_by_key(|m| m.at.at.since(at).saturating_abs())
        .filter(|m| m.at.at.since(at).abs() <= near);
    if let [a, b] = ctx.shared.marks.as_slice() {
        x = canvas.spans(
            x,
            y,
            &[("  delta ", t.dim), (&duration(b.since(*a).abs()), t.delta)],
        );
    }
    if let Some(m) = mark {
        let style = if m.bad { t.fail } else { t.text };
        let times = if m.count > 1 {
            format!(" {}{}", g.times, m.count)
        } else {
            String::new()
        };
        canvas.spans(
            x,
            y,
            &[
                ("  ", t.text),
                (g.mark, style),
                (" ", t.text),
                (&m.text, style),
                (&times, t.dim),
            ],
        );
    } else if let Some(gap) = p
        .timeline
        .gaps
        .iter()
        .find(|x| x.start <= at && x.end.is_none_or(|e| at < e))
    {
        canvas.spans(
            x,
            y,
            &[
                ("  ", t.text),
                (g.unknown, t.unknown),
                (" unknown: ", t.dim),
                (&gap.why, t.dim),
            ],
        );
    }
}

/// Returns the span as plain text, for the clipboard.
pub(super) fn text(s: &Span, now: Nanos, time: &TimeFormat) -> String {
    format!(
        "{} {} {} {}\n{}\n{}\n",
        head(s),
        outcome(s.outcome),
        s.code,
        duration(s.duration(now)),
        when(s, time),
        s.message
    )
}
