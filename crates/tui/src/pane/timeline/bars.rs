//! Names, bars, gaps, marks and cursors.

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

/// The tree at the left.
pub(super) fn name(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, r: &Row, s: &Span) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let mut x = 1;
    if r.depth > 0 {
        x += (r.depth - 1) * 2 + 1;
        canvas.symbol(x, 0, if r.last { g.last } else { g.branch }, t.faint);
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
    x += canvas.text(x, 0, &s.step, style) + 1;
    if !s.container.is_empty() {
        x += canvas.text(x, 0, &s.container, t.accent) + 1;
    }
    if s.attempt > 0 {
        x += canvas.text(x, 0, &format!("#{}", s.attempt), t.warn) + 1;
    }
    // Which volume, which image: steps of one name are told apart. What is long stands below.
    if !s.is_stage() && s.outcome != Outcome::Error && s.message.len() <= 64 {
        let what = s.message.strip_prefix("volume ").unwrap_or(&s.message);
        canvas.text(x, 0, what, t.dim);
    }
}

/// A bar: solid for measured, lighter for inferred and bounded; the last cell in eighths; an arrow while it grows.
pub(super) fn bar(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, s: &Span, window: Window, thin: bool) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let w = canvas.width();
    let open = s.end.is_none();
    let end = s.end.map_or(ctx.snap.now, |e| e.at).max(s.start.at);
    if end < window.from || s.start.at >= window.to {
        // Outside: an arrow says where.
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
    // What is spread out below is thin: its parts are the bars.
    let fill = if thin { g.thin } else { fill };
    canvas.line(first, 0, last.saturating_sub(first), fill, style);
    let rest = ((z - f64::from(last)) * 8.0) as usize;
    let cap = g.eighth(rest);
    if open && end < window.to {
        canvas.symbol(last.min(w.saturating_sub(1)), 0, g.growing, style);
    } else if thin {
        // Half a cell high: its end has no eighths.
    } else if !cap.is_empty() && last < w && s.certainty == Certainty::Measured {
        canvas.symbol(last, 0, cap, style);
    }
    // How wide the edges are, where it can be seen: an API second is no moment.
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

/// Hatches the time of a stage that nothing explains.
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

/// When the grace period ends: a deletion's timestamp lies ahead of its request by it.
pub(super) fn due(p: &PodView) -> Option<Nanos> {
    let api = p.api.as_ref().filter(|a| a.deletion.is_some())?;
    let grace = api.deletion_grace_s.unwrap_or(0).saturating_mul(SECOND);
    Some(p.deletion_requested?.plus(grace))
}

/// What of a grace period is still to come, as a thin line that leads to its end.
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

/// `due in 12s`, `was due 3s ago`.
pub(super) fn until(due: Nanos, now: Nanos) -> String {
    match due.since(now) {
        ns if ns > 0 => format!("due in {}", age(ns)),
        ns => format!("was due {} ago", age(-ns)),
    }
}

/// The lane of marks: what is bad wins a cell, then the later one.
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
        // On the side where there is room, and only while it is of interest.
        let len = text.len() as u16;
        if p.gone.is_none() && x + len < w {
            canvas.text(x + 1, 0, &text, t.wait);
        } else if p.gone.is_none() {
            canvas.text_right(x.saturating_sub(1), 0, x, text.trim(), t.wait);
        }
    }
}

/// The time cursor and the two marks of a delta, over the tree where nothing is drawn.
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
