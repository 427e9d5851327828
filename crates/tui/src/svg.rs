//! Renders a buffer as SVG, which is sharp at any size. Pure.

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use std::fmt::Write as _;

use super::text::width;
use super::theme::color::rgb;

/// Width and height of a cell, px.
const CELL: (f64, f64) = (8.4, 18.0);
const PAD: f64 = 12.0;

/// Text and background colour for cells that use the terminal's default.
const DEFAULT: ((u8, u8, u8), (u8, u8, u8)) = ((0xc9, 0xce, 0xd8), (0x16, 0x18, 0x1d));

fn colours(c: &Cell) -> ((u8, u8, u8), (u8, u8, u8)) {
    let pick = |x: Color, or| rgb(x).unwrap_or(or);
    let (mut fg, mut bg) = (pick(c.fg, DEFAULT.0), pick(c.bg, DEFAULT.1));
    if c.modifier.contains(Modifier::REVERSED) {
        std::mem::swap(&mut fg, &mut bg);
    }
    if c.modifier.contains(Modifier::DIM) {
        let mix = |a: u8, b: u8| u16::midpoint(u16::from(a), u16::from(b)) as u8;
        fg = (mix(fg.0, bg.0), mix(fg.1, bg.1), mix(fg.2, bg.2));
    }
    (fg, bg)
}

fn hex((r, g, b): (u8, u8, u8)) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// x, y, width and height in fractions of a cell, and opacity.
type Shape = (f64, f64, f64, f64, f64);

/// Returns the shape of a block or rule. Such symbols are drawn as shapes, so that neighbours meet without a gap.
fn shape(symbol: &str) -> Option<Shape> {
    let c = symbol.chars().next()?;
    Some(match c {
        '█' => (0.0, 0.0, 1.0, 1.0, 1.0),
        '▓' => (0.0, 0.0, 1.0, 1.0, 0.7),
        '▒' => (0.0, 0.0, 1.0, 1.0, 0.4),
        '░' => (0.0, 0.0, 1.0, 1.0, 0.2),
        '▉'..='▏' => (0.0, 0.0, f64::from(0x2590 - c as u32) / 8.0, 1.0, 1.0),
        '▁'..='▇' => {
            let h = f64::from(c as u32 - 0x2580) / 8.0;
            (0.0, 1.0 - h, 1.0, h, 1.0)
        }
        '─' => (0.0, 0.47, 1.0, 0.06, 1.0),
        '│' => (0.44, 0.0, 0.12, 1.0, 1.0),
        '┃' => (0.38, 0.0, 0.24, 1.0, 1.0),
        _ => return None,
    })
}

fn escape(out: &mut String, s: &str) {
    for c in s.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
}

/// Renders the buffer as an SVG document.
pub fn render(buf: &Buffer, title: &str) -> String {
    let a = *buf.area();
    let (w, h) = (
        f64::from(a.width) * CELL.0 + 2.0 * PAD,
        f64::from(a.height) * CELL.1 + 2.0 * PAD,
    );
    let base = buf.cell((a.x, a.y)).map_or(DEFAULT, colours).1;
    let base = buf
        .cell((a.x, a.bottom().saturating_sub(2)))
        .map_or(base, |c| colours(c).1);
    let mut back = String::new();
    let mut front = String::new();
    for y in a.top()..a.bottom() {
        let top = PAD + f64::from(y - a.y) * CELL.1;
        let mut x = a.left();
        while x < a.right() {
            let Some(first) = buf.cell((x, y)) else { break };
            let (fg, bg) = colours(first);
            // A run of cells with the same style.
            let mut end = x;
            let mut text = String::new();
            let mut blocks = Vec::new();
            while end < a.right() {
                let Some(c) = buf.cell((end, y)) else { break };
                if colours(c) != (fg, bg) || c.modifier != first.modifier {
                    break;
                }
                let columns = width(c.symbol()).max(1) as u16;
                if let Some(s) = shape(c.symbol()) {
                    blocks.push((end, s));
                    text.push(' ');
                } else {
                    text.push_str(c.symbol());
                }
                end += columns;
            }
            let left = PAD + f64::from(x - a.x) * CELL.0;
            let wide = f64::from(end - x) * CELL.0;
            // Writing to a String cannot fail.
            if bg != base {
                let _written = write!(
                    back,
                    "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{}\" fill=\"{}\"/>",
                    wide + 0.1,
                    CELL.1,
                    hex(bg)
                );
            }
            // Neighbours of the same shape are joined, because seams between them would be visible.
            let mut joined: Vec<(u16, u16, Shape)> = Vec::new();
            for (at, s) in blocks {
                match joined.last_mut() {
                    Some((from, n, last)) if *last == s && s.2 >= 1.0 && *from + *n == at => {
                        *n += 1;
                    }
                    _ => joined.push((at, 1, s)),
                }
            }
            for (at, n, (bx, by, bw, bh, opacity)) in joined {
                let bw = bw * f64::from(n);
                let bleft = PAD + (f64::from(at - a.x) + bx) * CELL.0;
                let opacity = if opacity < 1.0 {
                    format!(" opacity=\"{opacity}\"")
                } else {
                    String::new()
                };
                let _written = write!(
                    back,
                    "<rect x=\"{bleft:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"{opacity}/>",
                    top + by * CELL.1,
                    bw * CELL.0 + if bw >= 1.0 { 0.1 } else { 0.0 },
                    bh * CELL.1,
                    hex(fg)
                );
            }
            // Each word is placed by itself, so that the width of a font's glyphs does not shift the words after it.
            let mut column = 0_u16;
            for word in text.split_inclusive(' ') {
                let shown = word.trim_end_matches(' ');
                let columns = width(word) as u16;
                if !shown.is_empty() {
                    let wx = left + f64::from(column) * CELL.0;
                    let mut attributes = String::new();
                    for (m, a) in [
                        (Modifier::BOLD, " font-weight=\"bold\""),
                        (Modifier::ITALIC, " font-style=\"italic\""),
                        (Modifier::UNDERLINED, " text-decoration=\"underline\""),
                    ] {
                        if first.modifier.contains(m) {
                            attributes.push_str(a);
                        }
                    }
                    let _written = write!(
                        front,
                        "<text x=\"{wx:.1}\" y=\"{:.1}\" fill=\"{}\" textLength=\"{:.1}\"{attributes}>",
                        top + CELL.1 * 0.74,
                        hex(fg),
                        width(shown) as f64 * CELL.0,
                    );
                    escape(&mut front, shown);
                    front.push_str("</text>");
                }
                column += columns;
            }
            x = end.max(x + 1);
        }
        back.push('\n');
        front.push('\n');
    }
    let mut name = String::new();
    escape(&mut name, title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w:.0} {h:.0}\" width=\"{w:.0}\" height=\"{h:.0}\" \
         font-family=\"ui-monospace, 'JetBrains Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <title>{name}</title>\n<rect width=\"{w:.0}\" height=\"{h:.0}\" rx=\"8\" fill=\"{}\"/>\n{back}{front}</svg>\n",
        hex(base)
    )
}

/// Returns the buffer as plain text, without trailing spaces.
pub fn plain(buf: &Buffer) -> String {
    let a = *buf.area();
    let mut out = String::new();
    for y in a.top()..a.bottom() {
        let mut row = String::new();
        let mut x = a.left();
        while x < a.right() {
            let Some(c) = buf.cell((x, y)) else { break };
            row.push_str(c.symbol());
            x += width(c.symbol()).max(1) as u16;
        }
        out.push_str(row.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Canvas;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn names_are_escaped_and_blocks_become_shapes() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 20, 2));
        Canvas::new(&mut buf, Rect::new(0, 0, 20, 2)).text(
            0,
            0,
            "<b>&\"x\" ██▌",
            Style::new().fg(Color::Red),
        );
        let svg = render(&buf, "a & b");
        assert!(svg.contains("&lt;b&gt;&amp;&quot;x&quot;"));
        assert!(svg.contains("<title>a &amp; b</title>"));
        assert_eq!(svg.matches("fill=\"#cd3131\"/>").count(), 2);
        assert!(!svg.contains('█'));
        assert_eq!(plain(&buf), "<b>&\"x\" ██▌\n\n");
    }
}
