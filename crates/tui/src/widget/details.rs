//! Details under headings: lines of a label and a value, where the value may take several lines.

use ratatui::style::Style;

use crate::action::Action;
use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::text::{width, wrap};
use crate::widget::scroll;

/// Default width of the labels, in columns.
const LABEL: u16 = 16;

/// A line, before it is wrapped to the width of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A heading for the facts below.
    Head(String, Style),
    /// A label and a value.
    Fact(String, String, Style),
}

#[derive(Clone, Debug)]
pub struct Details {
    lines: Vec<Line>,
    label: u16,
}

impl Default for Details {
    fn default() -> Self {
        Self::labelled(LABEL)
    }
}

impl Details {
    /// Returns empty details whose labels have this many columns, but at most a third of the canvas.
    pub const fn labelled(label: u16) -> Self {
        Self {
            lines: Vec::new(),
            label,
        }
    }
    /// Adds a heading.
    pub fn head(&mut self, text: impl Into<String>, style: Style) {
        self.lines.push(Line::Head(text.into(), style));
    }
    /// Adds a fact, unless its value is empty.
    pub fn fact(&mut self, label: &str, value: impl ToString, style: Style) {
        let value = value.to_string();
        if !value.is_empty() {
            let label = label.to_owned();
            self.lines.push(Line::Fact(label, value, style));
        }
    }
    /// Adds facts under a heading, which is left out if no fact has a value.
    pub fn group<K: AsRef<str>, V: ToString>(
        &mut self,
        head: (&str, Style),
        facts: impl IntoIterator<Item = (K, V)>,
        style: Style,
    ) {
        let at = self.lines.len();
        for (k, v) in facts {
            self.fact(k.as_ref(), v, style);
        }
        if self.lines.len() > at {
            self.lines.insert(at, Line::Head(head.0.to_owned(), head.1));
        }
    }
    /// Returns the details as plain text, for the clipboard.
    pub fn text(&self) -> String {
        (self.lines.iter())
            .map(|l| match l {
                Line::Head(h, _) => format!("{h}\n"),
                Line::Fact(k, v, _) if k.is_empty() => format!("  {v}\n"),
                Line::Fact(k, v, _) => format!("  {k}: {v}\n"),
            })
            .collect()
    }
    /// Draws as many lines as fit, scrolled down by `top` lines, at most to the last screen.
    pub fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, top: usize) {
        let t = ctx.theme;
        let label = self.label.min(canvas.width() / 3);
        let room = usize::from(canvas.width().saturating_sub(label));
        // Label, value, style, and whether the value is in the column of values.
        let mut rows: Vec<(&str, String, Style, bool)> = Vec::new();
        for line in &self.lines {
            match line {
                Line::Head(h, style) => {
                    if !rows.is_empty() {
                        rows.push(("", String::new(), t.text, false));
                    }
                    for part in wrap(h, usize::from(canvas.width())) {
                        rows.push(("", part, *style, false));
                    }
                }
                Line::Fact(k, v, style) => {
                    // A label that is wider than its column is on a line above its value.
                    let mut k = k.as_str();
                    if width(k) >= usize::from(label) {
                        rows.push(("", k.to_owned(), t.dim, false));
                        k = "";
                    }
                    for part in wrap(v, room) {
                        rows.push((std::mem::take(&mut k), part, *style, true));
                    }
                }
            }
        }
        let h = usize::from(canvas.height());
        let top = top.min(rows.len().saturating_sub(h));
        for (y, (k, v, style, aside)) in (0..).zip(rows.iter().skip(top).take(h)) {
            canvas.text_in(0, y, label.saturating_sub(1), k, t.dim);
            canvas.text(if *aside { label } else { 0 }, y, v, *style);
        }
        let below = rows.len().saturating_sub(top + h);
        let y = canvas.height().saturating_sub(1);
        let more = scroll::more(ctx.glyphs, top, below);
        if !more.is_empty() {
            // The keys move the list beside the details, except these.
            let (up, down) = (ctx.keys.first(Action::Left), ctx.keys.first(Action::Right));
            let w = canvas.width();
            let text = format!(" {more}: {up} {down} ");
            canvas.text_right(w, y, w, &text, ctx.theme.key_text);
        }
    }
}
