//! Draws the boxes over the panes: help from the current key map, prompts with completions, menus.

use ratatui::layout::Rect;

use super::{footer, middle};
use crate::canvas::Canvas;
use crate::help::{Help, Row};
use crate::model::{Model, Prompt, PromptKind};
use crate::pane::Menu;
use crate::shared::Ctx;
use crate::text::{cut_start, width, wrap};
use crate::widget::scroll;

/// Draws an empty box with a frame and a title; returns its inside.
fn frame<'a>(ctx: &Ctx<'_>, canvas: &'a mut Canvas<'_>, a: Rect, title: &str) -> Canvas<'a> {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let mut c = canvas.part(a.x, a.y, a.width, a.height);
    c.clear(t.popup);
    let (r, b) = (a.width.saturating_sub(1), a.height.saturating_sub(1));
    c.line(1, 0, r.saturating_sub(1), g.rule, t.popup_rule);
    c.line(1, b, r.saturating_sub(1), g.rule, t.popup_rule);
    c.column(0, 1, b.saturating_sub(1), g.wall, t.popup_rule);
    c.column(r, 1, b.saturating_sub(1), g.wall, t.popup_rule);
    for (x, y, s) in [
        (0, 0, g.top_left),
        (r, 0, g.top_right),
        (0, b, g.bottom_left),
        (r, b, g.bottom_right),
    ] {
        c.symbol(x, y, s, t.popup_rule);
    }
    c.text_in(
        2,
        0,
        r.saturating_sub(3),
        &format!(" {title} "),
        t.popup_rule.patch(t.accent),
    );
    canvas.part(
        a.x + 2,
        a.y + 1,
        a.width.saturating_sub(4),
        a.height.saturating_sub(2),
    )
}

/// Place of the help box, and the layout of its rows.
struct HelpPlace {
    area: Rect,
    /// Number of rows in a column, visible or not.
    per: usize,
    /// Width of a column.
    column: u16,
    /// The first visible row of each column.
    top: usize,
}

fn help_place(rows: usize, chosen: Option<usize>, top: usize, size: (u16, u16)) -> HelpPlace {
    let two = size.0 >= 120;
    let per = if two { rows.div_ceil(2) } else { rows };
    let w = if two { 116 } else { 64.min(size.0) };
    // The box keeps its size while the search text changes.
    let h = (per as u16 + 2)
        .max(size.1.saturating_sub(4).min(24))
        .min(size.1.saturating_sub(2));
    let area = middle(size, w, h);
    let visible = usize::from(area.height.saturating_sub(2));
    let last = per.saturating_sub(visible);
    let at = chosen.map(|row| row % per.max(1));
    let top = match at {
        Some(at) => at.saturating_sub(visible.saturating_sub(2)),
        None => top,
    };
    let inner = area.width.saturating_sub(4);
    HelpPlace {
        area,
        per,
        column: if two { inner / 2 } else { inner },
        top: top.min(last),
    }
}

pub(super) fn help(model: &Model, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, help: &Help) {
    let t = ctx.theme;
    let rows = help.rows(model, ctx.glyphs);
    let chosen = help.row(&rows);
    let size = (canvas.width(), canvas.height());
    let place = help_place(rows.len(), chosen, help.top, size);
    let a = place.area;
    let title = if help.text.is_empty() {
        "Keys: type to search, enter runs what is chosen".to_owned()
    } else {
        format!("Keys with {}", help.text)
    };
    let mut c = frame(ctx, canvas, a, &title);
    let visible = usize::from(c.height());
    let (per, column) = (place.per, place.column);
    let mut whole_row = None;
    for (i, row) in rows.iter().enumerate() {
        let (x, y) = (if i >= per { column } else { 0 }, i % per.max(1));
        let Some(y) = y.checked_sub(place.top).filter(|y| *y < visible) else {
            continue;
        };
        let y = y as u16;
        let (keys, text) = match row {
            Row::Head(title) => {
                c.text_in(x, y, column, title, t.popup.patch(t.strong));
                continue;
            }
            Row::Empty => continue,
            Row::Command { action, keys } => (keys, action.help()),
            Row::Sign(sign, what) => (sign, *what),
        };
        c.text_in(x, y, 16, keys, t.popup.patch(t.key));
        c.text_in(x + 17, y, column.saturating_sub(18), text, t.popup);
        if Some(i) == chosen {
            let mut s = ratatui::style::Style::new().add_modifier(t.selection.add_modifier);
            s.bg = t.selection.bg;
            c.style(x, y, column.saturating_sub(1), 1, s);
            let is_cut = width(keys) > 16 || width(text) > usize::from(column.saturating_sub(18));
            whole_row = is_cut.then(|| format!("{keys}  {text}"));
        }
    }
    if rows.is_empty() {
        c.text(
            0,
            0,
            "no key, command or sign has this",
            t.popup.patch(t.dim),
        );
    }
    if per > visible {
        let more = format!(" {}/{per} ", (place.top + visible).min(per));
        let mut whole = canvas.part(a.x, a.y, a.width, a.height);
        whole.text_right(a.width - 2, a.height - 1, 20, &more, t.popup.patch(t.dim));
    }
    if let Some(text) = whole_row {
        footer::said(ctx, canvas, &text, t.bar.patch(t.strong));
    }
}

/// Returns the index of the row of the help box at a place of the screen.
pub(crate) fn help_at(
    rows: usize,
    help: &Help,
    chosen: Option<usize>,
    size: (u16, u16),
    at: (u16, u16),
) -> Option<usize> {
    let place = help_place(rows, chosen, help.top, size);
    let x = at.0.checked_sub(place.area.x + 2)?;
    let y = usize::from(at.1.checked_sub(place.area.y + 1)?);
    if x >= place.area.width.saturating_sub(4)
        || y >= usize::from(place.area.height.saturating_sub(2))
    {
        return None;
    }
    let column = usize::from(x / place.column.max(1));
    let row = place.top + y;
    (row < place.per && column < 2).then_some(column * place.per + row)
}

/// Returns the place of a menu, and its first visible item.
fn menu_place(m: &Menu, size: (u16, u16)) -> (Rect, usize) {
    let longest = m
        .items
        .iter()
        .map(|i| width(&i.label) + width(&i.help) + 8)
        .max()
        .unwrap_or(0)
        .max(width(&m.title) + 8) as u16;
    let h = (m.items.len() as u16 + 2).min(size.1.saturating_sub(2));
    let a = middle(size, longest + 4, h);
    let visible = usize::from(a.height.saturating_sub(2));
    (a, (m.at + 1).saturating_sub(visible))
}

/// Returns the index of the menu item at a place of the screen.
pub(crate) fn menu_at(m: &Menu, size: (u16, u16), at: (u16, u16)) -> Option<usize> {
    let (a, top) = menu_place(m, size);
    let inside = at.0 > a.x && at.0 + 1 < a.x + a.width && at.1 + 1 < a.y + a.height;
    let row = usize::from(at.1.checked_sub(a.y + 1)?);
    (inside && top + row < m.items.len()).then_some(top + row)
}

pub(super) fn menu(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, m: &Menu) {
    let t = ctx.theme;
    let (a, top) = menu_place(m, (canvas.width(), canvas.height()));
    let mut c = frame(ctx, canvas, a, &m.title);
    let visible = usize::from(c.height());
    let label = m.items.iter().map(|i| width(&i.label)).max().unwrap_or(0) as u16;
    for (y, (n, item)) in m
        .items
        .iter()
        .enumerate()
        .skip(top)
        .take(visible)
        .enumerate()
    {
        let y = y as u16;
        let mut x = 0;
        if let Some(on) = item.checked {
            let s = if on {
                ctx.glyphs.checked
            } else {
                ctx.glyphs.unchecked
            };
            c.symbol(0, y, s, t.popup.patch(if on { t.ok } else { t.dim }));
            x = 2;
        }
        let style = t.popup.patch(if n == m.at { t.strong } else { t.text });
        let mut style = style;
        style.bg = t.popup.bg;
        c.text(x, y, &item.label, style);
        c.text(x + label + 2, y, &item.help, t.popup.patch(t.dim));
        if n == m.at {
            let w = c.width();
            let mut s = ratatui::style::Style::new().add_modifier(t.selection.add_modifier);
            s.bg = t.selection.bg;
            c.style(0, y, w, 1, s);
        }
    }
    let below = m.items.len().saturating_sub(top + visible);
    let mut edge = canvas.part(a.x, a.y, a.width.saturating_sub(2), a.height);
    scroll::draw_more(ctx, &mut edge, a.height.saturating_sub(1), top, below);
}

pub(super) fn prompt(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, p: &Prompt) {
    let t = ctx.theme;
    let (w, h) = (canvas.width(), canvas.height());
    let sign = match p.kind {
        PromptKind::Palette => ":",
        PromptKind::Filter => "/",
        PromptKind::Seek => "@",
        PromptKind::Note => "note ",
    };
    // Completions are above the line, the best one at the top.
    let room = usize::from(h / 3).max(3);
    let at = p.chosen.unwrap_or(0);
    let top = (at + 1).saturating_sub(room);
    let shown: Vec<_> = p
        .candidates
        .iter()
        .enumerate()
        .skip(top)
        .take(room)
        .collect();
    if !shown.is_empty() {
        let y = h.saturating_sub(1 + shown.len() as u16);
        let mut c = canvas.part(0, y, w, shown.len() as u16);
        c.clear(t.popup);
        let label = shown
            .iter()
            .map(|(_, c)| width(&c.label))
            .max()
            .unwrap_or(0) as u16;
        for (row, (n, cand)) in shown.iter().enumerate() {
            let on = p.chosen == Some(*n);
            let style = if on { t.popup.patch(t.accent) } else { t.popup };
            c.text(2, row as u16, &cand.label, style);
            // Help is not repeated if the row above has the same.
            let above = row.checked_sub(1).and_then(|r| shown.get(r));
            if above.is_none_or(|(_, a)| a.help != cand.help) {
                c.text(label + 4, row as u16, &cand.help, t.popup.patch(t.dim));
            }
            if on {
                c.symbol(0, row as u16, ctx.glyphs.here, t.popup.patch(t.accent));
            }
        }
        let below = p.candidates.len() - (top + shown.len());
        scroll::draw_more(ctx, &mut c, shown.len() as u16 - 1, top, below);
    }
    let (hint, style) = match &p.hint {
        Ok(h) => (h, t.dim),
        Err(e) => (e, t.fail),
    };
    let room = w.saturating_sub((width(sign) + width(&p.text) + 5) as u16);
    // What is wrong is told in full, in lines of its own if need be.
    let apart = p.hint.is_err() && width(hint) > usize::from(room);
    if apart {
        let lines = wrap(hint, usize::from(w.saturating_sub(2)));
        let above = 1 + shown.len() + lines.len();
        for (y, text) in (h.saturating_sub(above as u16)..).zip(&lines) {
            let mut line = canvas.part(0, y, w, 1);
            line.clear(t.popup);
            line.text(1, 0, text, t.popup.patch(style));
        }
    }
    let mut line = canvas.part(0, h - 1, w, 1);
    line.clear(t.popup);
    let mut x = 1 + line.text(1, 0, sign, t.popup.patch(t.prompt));
    let before: String = p.text.chars().take(p.at).collect();
    // Of a long line, the part before the cursor is shown.
    let before = cut_start(&before, usize::from(w.saturating_sub(x + 2)));
    let under: String = p.text.chars().skip(p.at).take(1).collect();
    let after: String = p.text.chars().skip(p.at + 1).collect();
    x += line.text(x, 0, &before, t.popup);
    let under = if under.is_empty() {
        " ".to_owned()
    } else {
        under
    };
    let block = t.popup.add_modifier(ratatui::style::Modifier::REVERSED);
    x += line.text(x, 0, &under, block);
    line.text(x, 0, &after, t.popup);
    if !apart {
        line.text_right(w - 1, 0, room, hint, t.popup.patch(style));
    }
}
