//! Draws the parts of a timeline: names, bars, gaps, marks and cursors.

use ratatui::style::Style;

use super::rows::Row;
use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::widget::ruler::Window;
use kflow_core::correlate::PodView;
use kflow_core::flow::Stage;
use kflow_core::timeline::{Certainty, MarkKind, Outcome, Span};
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;
use kflow_model::units::age;

/// Draws the name of a span with its branches of the tree.
pub(super) fn name(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, r: &Row, s: &Span) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let mut x = 1;
    if r.depth > 0 {
        x += (r.depth - 1) * 2 + 1;
        canvas.symbol(x, 0, if r.last { g.last } else { g.branch }, t.rule);
        x += 1;
    }
    let arrow = match (r.children, r.open) {
        (true, true) => g.open,
        (true, false) => g.closed,
        _ => " ",
    };
    canvas.symbol(x, 0, arrow, t.dim);
    x += 2;
    let style = if s.outcome == Outcome::Error {
        t.fail
    } else if s.outcome == Outcome::InFlight && !s.is_run() {
        t.run
    } else if s.is_stage() {
        t.stage(s.stage)
    } else {
        t.text
    };
    // Attempts of one step differ in their number only, so it is never cut.
    let attempt = Some(s.attempt).filter(|n| *n > 0).map(|n| format!("#{n}"));
    let kept = attempt.as_ref().map_or(0, |a| a.len() as u16 + 1);
    let end = canvas.width().saturating_sub(kept);
    x += canvas.text_in(x, 0, end.saturating_sub(x), &s.step, style) + 1;
    if !s.container.is_empty() && x < end {
        x += canvas.text_in(x, 0, end - x, &s.container, t.accent) + 1;
    }
    if let Some(attempt) = attempt {
        x += canvas.text(x, 0, &attempt, t.warn) + 1;
    }
    // Steps of the same name are told apart by their volume or image. A long message is in the detail only.
    if !s.is_stage() && s.outcome != Outcome::Error && s.message.len() <= 64 {
        let what = s.message.strip_prefix("volume ").unwrap_or(&s.message);
        canvas.text(x, 0, what, t.dim);
    }
}

/// Draws a bar: solid if measured, lighter if inferred or bounded. The last cell is drawn in eighths, or as an arrow
/// while the span is in flight.
pub(super) fn bar(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, s: &Span, window: Window, thin: bool) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let w = canvas.width();
    let open = s.end.is_none();
    let end = s.end.map_or(ctx.snap.now, |e| e.at).max(s.start.at);
    if end < window.from || s.start.at >= window.to {
        // The span is outside the window; an arrow shows on which side.
        let (x, symbol) = if end < window.from {
            (0, g.left)
        } else {
            (w.saturating_sub(1), g.right)
        };
        canvas.symbol(x, 0, symbol, t.faint);
        return;
    }
    let style = match s.outcome {
        Outcome::Error => t.fail,
        Outcome::Cancelled => t.wait,
        Outcome::InFlight if s.is_run() => t.stage(s.stage),
        Outcome::InFlight => t.run,
        Outcome::Ok => t.stage(s.stage),
    };
    let fill = match s.certainty {
        Certainty::Measured => g.full,
        Certainty::Inferred => g.inferred,
        Certainty::Bounded => g.bounded,
    };
    let a = window.place(s.start.at, w).max(0.0);
    let z = window.place(end, w).min(f64::from(w));
    let (first, last) = (a as u16, z as u16);
    if z - a < 0.5 {
        canvas.symbol(
            first.min(w.saturating_sub(1)),
            0,
            if open { g.growing } else { g.tick },
            style,
        );
        return;
    }
    // A bar whose steps have rows of their own is thin.
    let fill = if thin { g.thin } else { fill };
    canvas.line(first, 0, last.saturating_sub(first), fill, style);
    let rest = ((z - f64::from(last)) * 8.0) as usize;
    let cap = g.eighth(rest);
    if open && end < window.to {
        canvas.symbol(last.min(w.saturating_sub(1)), 0, g.growing, style);
    } else if thin {
        // A thin bar is half a cell high, and its end cannot be drawn in eighths.
    } else if !cap.is_empty() && last < w && s.certainty == Certainty::Measured {
        canvas.symbol(last, 0, cap, style);
    }
    // Shows the uncertainty of the edges if it is at least a cell wide: an API timestamp is precise to 1 s only.
    for (e, into) in [(Some(s.start), 1.0), (s.end, -1.0)] {
        let Some(e) = e else { continue };
        let cells = f64::from(e.precision) / window.length() as f64 * f64::from(w);
        if cells < 1.0 {
            continue;
        }
        let from = window.place(e.at, w);
        let (lo, hi) = if into > 0.0 {
            (from, from + cells)
        } else {
            (from, (from + cells).min(f64::from(w)))
        };
        for x in lo.max(0.0) as u16..(hi.max(0.0) as u16).min(w) {
            canvas.symbol(x, 0, g.bounded, style);
        }
    }
}

/// Hatches the parts of a stage that no evidence explains.
pub(super) fn gaps(
    ctx: &Ctx<'_>,
    canvas: &mut Canvas<'_>,
    p: &PodView,
    stage: Stage,
    window: Window,
) {
    let w = canvas.width();
    for gap in p.timeline.gaps.iter().filter(|g| g.stage == stage) {
        let end = gap.end.unwrap_or(ctx.snap.now);
        if end < window.from || gap.start >= window.to {
            continue;
        }
        let a = window.place(gap.start, w).max(0.0) as u16;
        let z = (window.place(end, w).min(f64::from(w)).ceil() as u16).max(a + 1);
        canvas.line(a, 0, z - a, ctx.glyphs.unknown, ctx.theme.unknown);
    }
}

/// Returns the end of the grace period: the deletion timestamp of the API is the time of the request
/// plus the grace period.
pub(super) fn due(p: &PodView) -> Option<Nanos> {
    let api = p.api.as_ref().filter(|a| a.deletion.is_some())?;
    let grace = api.deletion_grace_s.unwrap_or(0).saturating_mul(SECOND);
    Some(p.deletion_requested?.plus(grace))
}

/// Draws the rest of a grace period as a thin line up to its end.
pub(super) fn grace(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, p: &PodView, window: Window) {
    let (w, now) = (canvas.width(), ctx.snap.now);
    let Some(due) = due(p).filter(|d| p.gone.is_none() && *d > now && now < window.to) else {
        return;
    };
    let a = window.place(now.max(window.from), w).max(0.0) as u16 + 1;
    let z = window.place(due, w).min(f64::from(w)) as u16;
    canvas.line(a, 0, z.saturating_sub(a), ctx.glyphs.rule, ctx.theme.wait);
    if let Some(x) = window.column(due, w) {
        canvas.symbol(x, 0, ctx.glyphs.due, ctx.theme.wait);
    }
}

/// Formats the end of a grace period: `due in 12s`, or `was due 3s ago`.
pub(super) fn until(due: Nanos, now: Nanos) -> String {
    match due.since(now) {
        ns if ns > 0 => format!("due in {}", age(ns)),
        ns => format!("was due {} ago", age(-ns)),
    }
}

/// Draws the lane of marks. In the same cell, a bad mark hides others, and a later one hides an earlier one.
pub(super) fn marks(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, p: &PodView, window: Window) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let w = canvas.width();
    let draw = |bad: bool, canvas: &mut Canvas<'_>| {
        for m in p.timeline.marks.iter().filter(|m| m.bad == bad) {
            let Some(x) = window.column(m.at.at, w) else {
                continue;
            };
            let (symbol, style): (&str, Style) = match (m.bad, m.kind) {
                (_, MarkKind::Note) => (g.mark, t.delta),
                (true, _) => (g.bad_mark, t.fail),
                (false, MarkKind::Restart) => (g.mark, t.warn),
                (false, MarkKind::Event) => (g.mark, t.source_kube),
                (false, _) => (g.dot, t.dim),
            };
            canvas.symbol(x, 0, symbol, style);
        }
    };
    draw(false, canvas);
    draw(true, canvas);
    if let Some(at) = due(p)
        && let Some(x) = window.column(at, w)
    {
        canvas.symbol(x, 0, g.due, t.wait);
        let text = format!(" {}", until(at, ctx.snap.now));
        // The text is on the side that has room, and only while the pod exists.
        let len = text.len() as u16;
        if p.gone.is_none() && x + len < w {
            canvas.text(x + 1, 0, &text, t.wait);
        } else if p.gone.is_none() {
            canvas.text_right(x.saturating_sub(1), 0, x, text.trim(), t.wait);
        }
    }
}

/// Draws the time cursor and the two marks of a delta over the tree, in empty cells only.
pub(super) fn cursors(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, window: Window) {
    let (w, h) = (canvas.width(), canvas.height());
    let here = ctx.shared.at(ctx.snap);
    let lines = ctx
        .shared
        .marks
        .iter()
        .map(|m| (*m, ctx.theme.delta))
        .chain([(here, ctx.theme.cursor)]);
    for (at, style) in lines {
        if let Some(x) = window.column(at, w) {
            canvas.overlay_column(x, 0, h, ctx.glyphs.cursor, style, ctx.glyphs.grid);
        }
    }
}
