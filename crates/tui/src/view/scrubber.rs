//! Draws the scrubber of a replay: the position in the session, the density of observations, and when something was
//! not well.

use crate::canvas::Canvas;
use crate::glyph::Glyphs;
use crate::shared::Ctx;
use crate::time::{Clock, TimeFormat};
use crate::widget::ruler::Window;
use kflow_engine::{Overview, Snapshot};

/// Returns the first column and the width of the bar, for a screen of width `w`.
pub const fn scrub_bar(w: u16) -> (u16, u16) {
    (10, w.saturating_sub(22))
}

pub(super) fn draw(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let (t, g, snap) = (ctx.theme, ctx.glyphs, ctx.snap);
    let w = canvas.width();
    let (x, bar) = scrub_bar(w);
    let wall = TimeFormat {
        clock: Clock::Absolute,
        ..ctx.time()
    };
    let [from, to] = [snap.range.0, snap.range.1].map(|at| wall.within(at, 1, 0, 8));
    canvas.text(1, 0, &from, t.dim);
    canvas.text_right(w.saturating_sub(1), 0, 9, &to, t.dim);
    let length = snap.range.1.since(snap.range.0).max(1) as f64;
    let place = |at: kflow_model::Nanos| {
        let share = at.since(snap.range.0) as f64 / length;
        (share.clamp(0.0, 1.0) * f64::from(bar.saturating_sub(1))) as u16
    };
    let here = place(snap.now);
    canvas.line(x, 0, bar, g.rule, t.rule);
    canvas.line(x, 0, here, g.rule, t.accent);
    // The height shows the number of observations; red shows incidents.
    let dense = density(&snap.overview, bar);
    let most = dense.iter().copied().max().unwrap_or(0);
    let ill = ill(snap, bar);
    for (n, (count, ill)) in (0..bar).zip(dense.into_iter().zip(ill)) {
        let style = match (ill, n < here) {
            (true, _) => t.fail,
            (false, true) => t.accent,
            (false, false) => t.faint,
        };
        if let Some(symbol) = level(g, count, most) {
            canvas.symbol(x + n, 0, symbol, style);
        } else if ill {
            canvas.symbol(x + n, 0, g.rule, style);
        }
    }
    for at in snap.overview.notes.iter() {
        canvas.symbol(x + place(*at), 0, g.mark, t.delta);
    }
    for m in &ctx.shared.marks {
        canvas.symbol(x + place(*m), 0, g.mark, t.delta);
    }
    canvas.symbol(x + here, 0, g.on, t.accent);
}

/// Returns the number of observations in each cell of the bar.
fn density(overview: &Overview, cells: u16) -> Vec<u32> {
    let (cells, parts) = (usize::from(cells), overview.density.len());
    (0..cells)
        .map(|n| {
            let from = n * parts / cells.max(1);
            let to = ((n + 1) * parts / cells.max(1)).max(from + 1).min(parts);
            overview.density.get(from..to).unwrap_or(&[]).iter().sum()
        })
        .collect()
}

/// Returns the symbol for a number of observations; `None` for 0. The scale is logarithmic, so that a burst does not
/// hide the rest.
fn level(g: &Glyphs, count: u32, most: u32) -> Option<&'static str> {
    if count == 0 {
        return None;
    }
    let bits = |n: u32| f64::from(n).ln_1p();
    let share = bits(count) / bits(most).max(f64::MIN_POSITIVE);
    Some(g.level(((share * 6.0) as usize + 1).min(7)))
}

/// Returns for each cell of the bar whether an incident overlaps it.
fn ill(snap: &Snapshot, cells: u16) -> Vec<bool> {
    let overview = &snap.overview;
    let window = Window::new(snap.range.0, snap.range.1);
    let end = overview.upto.unwrap_or(snap.range.1);
    let mut out = vec![false; usize::from(cells)];
    for i in overview.incidents.iter() {
        let a = window.place(i.begin, cells).max(0.0) as usize;
        let z = window.place(i.end.unwrap_or(end), cells).max(0.0).ceil() as usize;
        for cell in out.iter_mut().take(z.max(a + 1)).skip(a) {
            *cell = true;
        }
    }
    out
}
