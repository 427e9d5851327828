//! Boxes over the panes: help from the live key map, prompts with proposals, menus.

use ratatui::layout::Rect;

use super::middle;
use crate::action::{Action, KeyScope};
use crate::canvas::Canvas;
use crate::model::{Model, Prompt, PromptKind};
use crate::pane::Menu;
use crate::shared::Ctx;
use crate::text::width;
use crate::widget::scroll;

/// An empty box with a frame and a title; the inside.
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

pub(super) fn help(model: &Model, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, top: usize) {
    let t = ctx.theme;
    let mut rows: Vec<(String, &str, bool)> = Vec::new();
    for (scope, title) in [
        (KeyScope::Pane(model.focus), model.focus.name()),
        (KeyScope::List, "Lists"),
        (KeyScope::Global, "Everywhere"),
    ] {
        rows.push((title.to_owned(), "", true));
        for a in Action::ALL.iter().filter(|a| a.scope() == scope) {
            let keys = model.keys.text(*a);
            let keys = if keys.is_empty() {
                format!(":{}", a.name())
            } else {
                keys
            };
            rows.push((keys, a.help(), false));
        }
        if scope == KeyScope::Pane(model.focus) {
            let legend = model.focus.legend(ctx.glyphs).into_iter();
            rows.extend(legend.map(|(symbol, what)| (symbol, what, false)));
        }
        rows.push((String::new(), "", false));
    }
    rows.pop();
    let (cw, ch) = (canvas.width(), canvas.height());
    let two = cw >= 120;
    let per = if two {
        rows.len().div_ceil(2)
    } else {
        rows.len()
    };
    let w = if two { 116 } else { 64.min(cw) };
    let h = (per as u16 + 2).min(ch.saturating_sub(2));
    let a = middle(canvas, w, h);
    let mut c = frame(ctx, canvas, a, "Keys");
    let visible = usize::from(c.height());
    let top = top.min(per.saturating_sub(visible));
    let column = if two { c.width() / 2 } else { c.width() };
    for (i, (keys, text, head)) in rows.iter().enumerate() {
        let (x, y) = (if i >= per { column } else { 0 }, i % per.max(1));
        let Some(y) = y.checked_sub(top).filter(|y| *y < visible) else {
            continue;
        };
        if *head {
            c.text_in(x, y as u16, column, keys, t.popup.patch(t.strong));
        } else {
            c.text_in(x, y as u16, 16, keys, t.popup.patch(t.key));
            c.text_in(x + 17, y as u16, column.saturating_sub(18), text, t.popup);
        }
    }
    if per > visible {
        let more = format!(" {}/{per} ", (top + visible).min(per));
        let mut whole = canvas.part(a.x, a.y, a.width, a.height);
        whole.text_right(a.width - 2, a.height - 1, 20, &more, t.popup.patch(t.dim));
    }
}

pub(super) fn menu(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, m: &Menu) {
    let t = ctx.theme;
    let longest = m
        .items
        .iter()
        .map(|i| width(&i.label) + width(&i.help) + 8)
        .max()
        .unwrap_or(0)
        .max(width(&m.title) + 8) as u16;
    let h = (m.items.len() as u16 + 2).min(canvas.height().saturating_sub(2));
    let a = middle(canvas, longest + 4, h);
    let mut c = frame(ctx, canvas, a, &m.title);
    let visible = usize::from(c.height());
    let top = (m.at + 1).saturating_sub(visible);
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
    // Proposals above the line, the first one nearest to the top.
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
            // What was said of the row above need not be said again.
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
    let mut line = canvas.part(0, h - 1, w, 1);
    line.clear(t.popup);
    let mut x = 1 + line.text(1, 0, sign, t.popup.patch(t.prompt));
    let before: String = p.text.chars().take(p.at).collect();
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
    x += line.text(x, 0, &after, t.popup);
    let (hint, style) = match &p.hint {
        Ok(h) => (h, t.dim),
        Err(e) => (e, t.fail),
    };
    let room = w.saturating_sub(x + 3);
    line.text_right(w - 1, 0, room, hint, t.popup.patch(style));
}
