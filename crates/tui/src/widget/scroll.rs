//! A position in a list that may be longer than the screen.

use crate::action::Action;
use crate::canvas::Canvas;
use crate::glyph::Glyphs;
use crate::shared::Ctx;
use crate::text::count;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scroll {
    /// Selected row.
    pub at: usize,
    /// First visible row.
    pub top: usize,
    len: usize,
    height: usize,
}

impl Scroll {
    /// Takes the current number of rows and the height; keeps the selection visible.
    pub fn fit(&mut self, len: usize, height: usize) {
        self.len = len;
        self.height = height.max(1);
        self.at = self.at.min(len.saturating_sub(1));
        // A row of context above and below, if there is room.
        let margin = usize::from(self.height > 4);
        if self.at < self.top + margin {
            self.top = self.at.saturating_sub(margin);
        }
        if self.at + margin >= self.top + self.height {
            self.top = (self.at + margin + 1).saturating_sub(self.height);
        }
        self.top = self.top.min(len.saturating_sub(self.height));
    }
    /// Number of rows.
    pub const fn len(&self) -> usize {
        self.len
    }
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the visible rows.
    pub fn visible(&self) -> std::ops::Range<usize> {
        self.top..(self.top + self.height).min(self.len)
    }
    /// Returns the number of rows above and below the visible ones.
    pub fn hidden(&self) -> (usize, usize) {
        let shown = self.visible();
        (shown.start, self.len.saturating_sub(shown.end))
    }
    /// Returns true if the last row is selected.
    pub const fn at_end(&self) -> bool {
        self.at + 1 >= self.len
    }
    pub fn select(&mut self, row: usize) {
        self.at = row;
        self.fit(self.len.max(row + 1), self.height);
    }
    /// Moves the selection; returns false if the action is not a movement.
    pub fn handle(&mut self, action: Action) -> bool {
        let page = self.height.saturating_sub(2).max(1);
        let last = self.len.saturating_sub(1);
        self.at = match action {
            Action::Down => (self.at + 1).min(last),
            Action::Up => self.at.saturating_sub(1),
            Action::PageDown => (self.at + page).min(last),
            Action::PageUp => self.at.saturating_sub(page),
            Action::Top => 0,
            Action::Bottom => last,
            _ => return false,
        };
        self.fit(self.len, self.height);
        true
    }
    /// Draws a scroll bar at the right edge, if there is something to scroll.
    pub fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, y: u16) {
        let h = usize::from(canvas.height().saturating_sub(y)).min(self.height);
        if self.len <= h || h < 3 {
            return;
        }
        let x = canvas.width().saturating_sub(1);
        let size = (h * h / self.len).max(1);
        let top = self.top * (h - size) / self.len.saturating_sub(h).max(1);
        for i in 0..h {
            let on = (top..top + size).contains(&i);
            let (symbol, style) = if on {
                (ctx.glyphs.thumb, ctx.theme.dim)
            } else {
                (ctx.glyphs.track, ctx.theme.rule)
            };
            canvas.symbol(x, y + i as u16, symbol, style);
        }
    }
}

/// Returns the text about hidden rows: `↑ 3 ↓ 18 more`; empty if there are none.
pub fn more(g: &Glyphs, above: usize, below: usize) -> String {
    match (above, below) {
        (0, 0) => String::new(),
        (0, n) => format!("{} {} more", g.down, count(n)),
        (n, 0) => format!("{} {} more", g.up, count(n)),
        (up, down) => format!("{} {} {} {} more", g.up, count(up), g.down, count(down)),
    }
}

/// Writes [`more`] at the right end of a row.
pub fn draw_more(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, y: u16, above: usize, below: usize) {
    let text = more(ctx.glyphs, above, below);
    if !text.is_empty() {
        let w = canvas.width();
        canvas.text_right(w, y, w, &format!(" {text} "), ctx.theme.key_text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_selection_is_always_visible(
            moves in prop::collection::vec((0_usize..6, 0_usize..50, 1_usize..20), 1..40)
        ) {
            let mut s = Scroll::default();
            for (m, len, height) in moves {
                s.fit(len, height);
                let a = [Action::Down, Action::Up, Action::PageDown, Action::PageUp, Action::Top, Action::Bottom][m];
                s.handle(a);
                prop_assert!(len == 0 || s.visible().contains(&s.at));
                prop_assert!(s.visible().len() == len.min(height));
            }
        }
    }
}
