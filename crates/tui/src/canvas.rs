//! A clipped drawing area. Coordinates start at its own corner, cells outside are never changed, and every text is
//! cleaned and cut to its display width.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_segmentation::UnicodeSegmentation as _;

use super::text::{cut, width};
use kflow_export::text::clean;

/// A part of the screen.
#[derive(Debug)]
pub struct Canvas<'a> {
    buf: &'a mut Buffer,
    area: Rect,
}

impl<'a> Canvas<'a> {
    /// Returns the part of `buf` that lies inside `area`.
    pub fn new(buf: &'a mut Buffer, area: Rect) -> Self {
        let area = area.intersection(*buf.area());
        Self { buf, area }
    }
    /// Returns the area on the screen, in cells.
    pub const fn area(&self) -> Rect {
        self.area
    }
    /// Returns the width in cells.
    pub const fn width(&self) -> u16 {
        self.area.width
    }
    /// Returns the height in cells.
    pub const fn height(&self) -> u16 {
        self.area.height
    }
    /// Returns a part of this area, clipped to it.
    pub fn part(&mut self, x: u16, y: u16, w: u16, h: u16) -> Canvas<'_> {
        let area = Rect::new(
            self.area.x.saturating_add(x),
            self.area.y.saturating_add(y),
            w,
            h,
        )
        .intersection(self.area);
        Canvas {
            buf: self.buf,
            area,
        }
    }
    /// Writes a text, at most `max` columns, with `…` where it was cut. Returns the columns used.
    pub fn text_in(&mut self, x: u16, y: u16, max: u16, text: &str, style: Style) -> u16 {
        let room = self.area.width.saturating_sub(x).min(max);
        if y >= self.area.height || room == 0 {
            return 0;
        }
        let cleaned = clean(text);
        let shown = cut(&cleaned, usize::from(room));
        let (x0, y0) = (self.area.x + x, self.area.y + y);
        let mut used = 0_u16;
        for g in shown.graphemes(true) {
            let w = width(g) as u16;
            if w == 0 || used + w > room {
                continue;
            }
            if let Some(cell) = self.buf.cell_mut((x0 + used, y0)) {
                cell.modifier &= Modifier::REVERSED;
                cell.set_symbol(g).set_style(style);
            }
            // A wide glyph occupies the cells after its first one too.
            for more in 1..w {
                if let Some(cell) = self.buf.cell_mut((x0 + used + more, y0)) {
                    cell.reset();
                    cell.set_style(style);
                }
            }
            used += w;
        }
        used
    }
    /// Writes a text up to the right edge. Returns the columns used.
    pub fn text(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        self.text_in(x, y, u16::MAX, text, style)
    }
    /// Writes pieces one after the other; returns the column after the last one.
    pub fn spans(&mut self, x: u16, y: u16, pieces: &[(&str, Style)]) -> u16 {
        let mut at = x;
        for (t, s) in pieces {
            at = at.saturating_add(self.text(at, y, t, *s));
        }
        at
    }
    /// Writes a text that ends at column `end` (exclusive), at most `max` columns. Returns the columns used.
    pub fn text_right(&mut self, end: u16, y: u16, max: u16, text: &str, style: Style) -> u16 {
        let cleaned = clean(text);
        let shown = cut(&cleaned, usize::from(max.min(end)));
        let w = width(&shown) as u16;
        self.text(end.saturating_sub(w), y, &shown, style)
    }
    /// Writes one symbol that is one column wide.
    pub fn symbol(&mut self, x: u16, y: u16, symbol: &str, style: Style) {
        if x < self.area.width
            && y < self.area.height
            && let Some(cell) = self.buf.cell_mut((self.area.x + x, self.area.y + y))
        {
            // How the covered symbol was drawn is over with it; reversed is the background of themes without colours.
            cell.modifier &= Modifier::REVERSED;
            cell.set_symbol(symbol).set_style(style);
        }
    }
    /// Styles cells without touching what they show.
    pub fn style(&mut self, x: u16, y: u16, w: u16, h: u16, style: Style) {
        let area = self.part(x, y, w, h).area;
        self.buf.set_style(area, style);
    }
    /// Gives the cells of a row that have one foreground another one. Does nothing if either is not set.
    pub fn recolour(&mut self, y: u16, from: Option<Color>, to: Option<Color>) {
        let (Some(from), Some(to)) = (from, to) else {
            return;
        };
        let row = self.part(0, y, u16::MAX, 1).area;
        for at in row.positions() {
            if let Some(cell) = self.buf.cell_mut(at)
                && cell.fg == from
            {
                cell.fg = to;
            }
        }
    }
    /// Empties all cells and gives them a style.
    pub fn clear(&mut self, style: Style) {
        for y in self.area.top()..self.area.bottom() {
            for x in self.area.left()..self.area.right() {
                if let Some(cell) = self.buf.cell_mut((x, y)) {
                    cell.reset();
                    cell.set_style(style);
                }
            }
        }
    }
    /// Draws a horizontal line of one symbol.
    pub fn line(&mut self, x: u16, y: u16, w: u16, symbol: &str, style: Style) {
        for i in 0..w {
            self.symbol(x.saturating_add(i), y, symbol, style);
        }
    }
    /// Draws a vertical line behind what is already drawn: only empty cells and cells that show `grid` are replaced.
    pub fn overlay_column(
        &mut self,
        x: u16,
        y: u16,
        h: u16,
        symbol: &str,
        style: Style,
        grid: &str,
    ) {
        if x >= self.area.width {
            return;
        }
        for i in y..h.min(self.area.height) {
            if let Some(cell) = self.buf.cell_mut((self.area.x + x, self.area.y + i))
                && (cell.symbol() == " " || cell.symbol() == grid)
            {
                cell.set_symbol(symbol).set_style(style);
            }
        }
    }
    /// Draws a vertical line of one symbol.
    pub fn column(&mut self, x: u16, y: u16, h: u16, symbol: &str, style: Style) {
        for i in 0..h {
            self.symbol(x, y.saturating_add(i), symbol, style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_over_the_grid_is_as_bright_as_beside_it() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 3, 1));
        let mut c = Canvas::new(&mut buf, Rect::new(0, 0, 3, 1));
        c.clear(Style::new().add_modifier(Modifier::REVERSED));
        c.symbol(1, 0, "┊", Style::new().add_modifier(Modifier::DIM));
        c.line(0, 0, 2, "█", Style::new());
        c.symbol(2, 0, "┊", Style::new().add_modifier(Modifier::DIM));
        c.text(2, 0, "x", Style::new());
        assert!(
            buf.content()
                .iter()
                .all(|c| c.modifier == Modifier::REVERSED)
        );
    }

    #[test]
    fn nothing_is_drawn_outside_and_wide_glyphs_are_never_halved() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 10, 2));
        let mut c = Canvas::new(&mut buf, Rect::new(2, 0, 5, 1));
        assert_eq!(c.text(0, 0, "世界你", Style::new()), 5);
        assert_eq!(c.text(9, 9, "no", Style::new()), 0);
        c.symbol(7, 0, "x", Style::new());
        let row: String = (0..10)
            .map(|x| buf.cell((x, 0)).map_or("", |c| c.symbol()).to_owned())
            .collect();
        assert_eq!(row, "  世 界 …   ");
    }
    #[test]
    fn an_escape_code_in_a_name_does_not_reach_a_cell() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 30, 1));
        Canvas::new(&mut buf, Rect::new(0, 0, 30, 1)).text(
            0,
            0,
            "a\u{1b}]52;c;x\u{7}",
            Style::new(),
        );
        assert!(
            buf.content()
                .iter()
                .all(|c| !c.symbol().chars().any(char::is_control))
        );
    }
}
