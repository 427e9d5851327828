//! Lines of pieces with styles: the node pane is a page that scrolls, made of them.

use ratatui::style::Style;

use crate::canvas::Canvas;
use crate::glyph::Glyphs;
use crate::shared::Ctx;
use crate::text::{count, cut, width};

pub(super) type Line = Vec<(String, Style)>;

pub(super) fn line(pieces: &[(&str, Style)]) -> Line {
    pieces.iter().map(|(t, s)| ((*t).to_owned(), *s)).collect()
}

pub(super) fn head(ctx: &Ctx<'_>, title: &str) -> Line {
    line(&[(title, ctx.theme.head)])
}

/// A heading with what is said about it.
pub(super) fn heading(ctx: &Ctx<'_>, title: &str, about: &str) -> Line {
    line(&[
        (title, ctx.theme.head),
        ("  ", ctx.theme.text),
        (about, ctx.theme.faint),
    ])
}

/// Pads or cuts to a width, so that pieces of a line stand in columns.
pub(super) fn column(t: &str, w: usize) -> String {
    let c = cut(t, w);
    let pad = w.saturating_sub(width(&c));
    format!("{c}{}", " ".repeat(pad))
}

/// The same, at the right.
pub(super) fn right(t: &str, w: usize) -> String {
    let c = cut(t, w);
    format!("{}{c}", " ".repeat(w.saturating_sub(width(&c))))
}

/// The first `most` items as lines, and how many there are besides.
pub(super) fn list<T>(
    ctx: &Ctx<'_>,
    items: impl IntoIterator<Item = T>,
    most: usize,
    out: &mut Vec<Line>,
    mut draw: impl FnMut(T) -> Line,
) {
    let mut items = items.into_iter();
    out.extend(items.by_ref().take(most).map(&mut draw));
    let more = items.count();
    if more > 0 {
        let text = format!("  {} {} more", ctx.glyphs.down, count(more));
        out.push(line(&[(&text, ctx.theme.faint)]));
    }
}

/// A sparkline: a column a count, the highest is full.
pub(super) fn spark(g: &Glyphs, series: &[u64]) -> String {
    let top = series.iter().copied().max().unwrap_or(0).max(1);
    series
        .iter()
        .map(|n| g.level((*n * 8).div_ceil(top) as usize))
        .collect()
}

/// Lays pieces (each kept whole, two spaces apart) into lines of at most `w` columns.
pub(super) fn flow(ctx: &Ctx<'_>, pieces: Vec<Line>, w: u16, out: &mut Vec<Line>) {
    let mut now = Line::new();
    let mut used = 0;
    for p in pieces {
        let long: usize = p.iter().map(|(t, _)| width(t)).sum();
        if used > 0 && used + 2 + long > usize::from(w) {
            out.push(std::mem::take(&mut now));
            used = 0;
        }
        if used > 0 {
            now.push(("  ".to_owned(), ctx.theme.text));
            used += 2;
        }
        used += long;
        now.extend(p);
    }
    if !now.is_empty() {
        out.push(now);
    }
}

/// An empty line between two parts; none at the top, never two.
pub(super) fn gap(out: &mut Vec<Line>) {
    if out.last().is_some_and(|l| !l.is_empty()) {
        out.push(Line::new());
    }
}

pub(super) fn draw(canvas: &mut Canvas<'_>, lines: &[Line], top: usize) {
    for (y, l) in lines
        .iter()
        .skip(top)
        .take(usize::from(canvas.height()))
        .enumerate()
    {
        let mut x = 0;
        for (text, style) in l {
            x += canvas.text(x, y as u16, text, *style);
        }
    }
}
