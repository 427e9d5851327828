//! Columns that fit a width: the important ones are kept, and the flexible ones share the remaining room.

use crate::canvas::Canvas;
use crate::shared::Ctx;

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a, C> {
    pub id: C,
    /// The heading.
    pub title: &'a str,
    /// The heading if the column is narrower than `title`.
    pub short: &'a str,
    /// Least width.
    pub min: u16,
    /// Greatest width.
    pub max: u16,
    /// Columns with a higher rank are dropped first.
    pub rank: u8,
    /// Whether the content is aligned right, as for numbers.
    pub right: bool,
}

impl<'a, C: Copy> Column<'a, C> {
    /// Returns a column of text with its heading, least and greatest width, and rank.
    pub const fn new(id: C, title: &'a str, min: u16, max: u16, rank: u8) -> Self {
        Self {
            id,
            title,
            short: title,
            min,
            max,
            rank,
            right: false,
        }
    }
    /// Returns the column with a short heading.
    #[must_use]
    pub const fn short(self, short: &'a str) -> Self {
        Self { short, ..self }
    }
    /// Returns the column aligned right, as for numbers.
    #[must_use]
    pub const fn right(self) -> Self {
        Self {
            right: true,
            ..self
        }
    }
}

impl<'a, C> Column<'a, C> {
    /// Returns the heading that fits into `w` columns, of which `more` are left free for the sign of the order.
    fn heading(&self, w: u16, more: usize) -> &'a str {
        if crate::text::width(self.title) + more <= usize::from(w) {
            self.title
        } else {
            self.short
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed<'a, C> {
    pub column: Column<'a, C>,
    /// First column on the canvas.
    pub x: u16,
    /// Width in cells.
    pub w: u16,
}

/// Places columns, one space apart, into `width`; columns that do not fit are dropped.
pub fn place<'a, C: Copy>(columns: &[Column<'a, C>], width: u16) -> Vec<Placed<'a, C>> {
    place_content(columns, width, |_| u16::MAX)
}

/// Like [`place`], for contents of a known width: no column is wider than its widest content or heading, and one
/// whose contents are narrower than its least width leaves the rest to the others.
pub fn place_content<'a, C: Copy>(
    columns: &[Column<'a, C>],
    width: u16,
    content: impl Fn(C) -> u16,
) -> Vec<Placed<'a, C>> {
    let columns: Vec<Column<'a, C>> = columns
        .iter()
        .map(|c| {
            let content = content(c.id);
            let heading = |t: &str| crate::text::width(t) as u16;
            Column {
                min: c.min.min(content.max(heading(c.short))),
                max: c
                    .max
                    .min(content.max(heading(c.title)))
                    .max(c.min.min(content)),
                ..*c
            }
        })
        .collect();
    let mut ranks: Vec<u8> = columns.iter().map(|c| c.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    // Keeps as many ranks as fit with their least widths.
    let mut limit = ranks.first().copied().unwrap_or(0);
    for r in ranks {
        let need: u16 = columns
            .iter()
            .filter(|c| c.rank <= r)
            .map(|c| c.min + 1)
            .sum::<u16>()
            .saturating_sub(1);
        if need <= width {
            limit = r;
        }
    }
    let chosen: Vec<Column<'a, C>> = columns
        .iter()
        .filter(|c| c.rank <= limit)
        .copied()
        .collect();
    let mut widths: Vec<u16> = chosen.iter().map(|c| c.min).collect();
    let used: u16 = widths.iter().sum::<u16>() + chosen.len().saturating_sub(1) as u16;
    let mut left = width.saturating_sub(used);
    // The column with the greatest maximum, usually the text at the end of a row, takes the rest after the others
    // have grown.
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    order.sort_by_key(|i| chosen.get(*i).map_or(0, |c| c.max));
    for i in order {
        if let (Some(w), Some(c)) = (widths.get_mut(i), chosen.get(i)) {
            let more = c.max.saturating_sub(*w).min(left);
            *w += more;
            left -= more;
        }
    }
    let mut x = 0;
    chosen
        .into_iter()
        .zip(widths)
        .map(|(column, w)| {
            let p = Placed { column, x, w };
            x += w + 1;
            p
        })
        .collect()
}

/// Draws the headings; `sorted` is the column of the order, and whether it ascends.
pub fn head<C: Copy + PartialEq>(
    ctx: &Ctx<'_>,
    canvas: &mut Canvas<'_>,
    x: u16,
    y: u16,
    columns: &[Placed<'_, C>],
    sorted: Option<(C, bool)>,
) {
    for p in columns {
        let (text, style) = match sorted {
            Some((c, ascending)) if c == p.column.id => {
                let arrow = if ascending {
                    ctx.glyphs.up
                } else {
                    ctx.glyphs.down
                };
                let title = p.column.heading(p.w, 1);
                let t = if p.column.right {
                    format!("{arrow}{title}")
                } else {
                    format!("{title}{arrow}")
                };
                (t, ctx.theme.head_on)
            }
            _ => (p.column.heading(p.w, 0).to_owned(), ctx.theme.head),
        };
        if p.column.right {
            canvas.text_right(x + p.x + p.w, y, p.w, &text, style);
        } else {
            canvas.text_in(x + p.x, y, p.w, &text, style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn c(id: u8, min: u16, max: u16, rank: u8) -> Column<'static, u8> {
        Column::new(id, "", min, max, rank)
    }

    #[test]
    fn the_least_important_columns_go_first_and_nothing_overflows() {
        let cols = [c(0, 10, 30, 0), c(1, 8, 8, 1), c(2, 10, 99, 2)];
        for w in 10..120 {
            let p = place(&cols, w);
            let end = p.last().map_or(0, |p| p.x + p.w);
            assert!(end <= w, "{w}: {p:?}");
        }
        assert_eq!(place(&cols, 12).len(), 1);
        assert_eq!(place(&cols, 20).len(), 2);
        assert_eq!(
            place(&cols, 120).iter().map(|p| p.w).collect::<Vec<_>>(),
            [30, 8, 80]
        );
    }
}
