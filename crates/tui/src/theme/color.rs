//! Reduction of colours to what a terminal can show.

use ratatui::style::{Color, Modifier, Style};

/// How many colours a terminal shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// No colours, only attributes.
    Mono,
    /// The 16 ANSI colours.
    Ansi16,
    /// The 256 colours of the xterm palette.
    Ansi256,
    /// 24-bit colours.
    #[default]
    True,
}

impl Depth {
    /// Determines the depth from `NO_COLOR`, `COLORTERM` and `TERM`, in this order.
    pub fn detect(no_color: Option<&str>, colorterm: Option<&str>, term: Option<&str>) -> Self {
        let term = term.unwrap_or_default();
        if no_color.is_some_and(|v| !v.is_empty()) || matches!(term, "dumb" | "vt100" | "vt220") {
            Self::Mono
        } else if colorterm.is_some_and(|c| c.contains("truecolor") || c.contains("24bit"))
            || term.contains("direct")
            || term.contains("kitty")
            || term.contains("alacritty")
            || term.contains("ghostty")
        {
            Self::True
        } else if term.contains("256") {
            Self::Ansi256
        } else {
            Self::Ansi16
        }
    }
}

/// Parses `#rrggbb`, `#rgb`, an ANSI name (`red`, `bright-red`), `0`–`255`, or `default`.
pub fn parse(s: &str) -> Option<Color> {
    if let Some(hex) = s.strip_prefix('#') {
        let n = u32::from_str_radix(hex, 16).ok()?;
        let [_, r, g, b] = n.to_be_bytes();
        return match hex.len() {
            6 => Some(Color::Rgb(r, g, b)),
            3 => {
                let nib = |shift: u32| ((n >> shift) & 15) as u8 * 17;
                Some(Color::Rgb(nib(8), nib(4), nib(0)))
            }
            _ => None,
        };
    }
    if let Ok(n) = s.parse::<u8>() {
        return Some(Color::Indexed(n));
    }
    Some(match s {
        "default" => Color::Reset,
        "black" => Color::Black,
        "red" => Color::Red,
        "green" => Color::Green,
        "yellow" => Color::Yellow,
        "blue" => Color::Blue,
        "magenta" => Color::Magenta,
        "cyan" => Color::Cyan,
        "white" => Color::Gray,
        "bright-black" => Color::DarkGray,
        "bright-red" => Color::LightRed,
        "bright-green" => Color::LightGreen,
        "bright-yellow" => Color::LightYellow,
        "bright-blue" => Color::LightBlue,
        "bright-magenta" => Color::LightMagenta,
        "bright-cyan" => Color::LightCyan,
        "bright-white" => Color::White,
        _ => return None,
    })
}

const ANSI: [(Color, (u8, u8, u8)); 16] = [
    (Color::Black, (0, 0, 0)),
    (Color::Red, (205, 49, 49)),
    (Color::Green, (13, 188, 121)),
    (Color::Yellow, (205, 173, 16)),
    (Color::Blue, (36, 114, 200)),
    (Color::Magenta, (188, 63, 188)),
    (Color::Cyan, (17, 168, 205)),
    (Color::Gray, (204, 204, 204)),
    (Color::DarkGray, (102, 102, 102)),
    (Color::LightRed, (241, 76, 76)),
    (Color::LightGreen, (35, 209, 139)),
    (Color::LightYellow, (245, 245, 67)),
    (Color::LightBlue, (59, 142, 234)),
    (Color::LightMagenta, (214, 112, 214)),
    (Color::LightCyan, (41, 184, 219)),
    (Color::White, (242, 242, 242)),
];

/// Returns red, green and blue of a colour; `None` for the terminal's default. Also used for SVG.
pub fn rgb(c: Color) -> Option<(u8, u8, u8)> {
    match c {
        Color::Rgb(r, g, b) => Some((r, g, b)),
        Color::Indexed(n) if n >= 232 => {
            let v = (n - 232) * 10 + 8;
            Some((v, v, v))
        }
        Color::Indexed(n) if n >= 16 => {
            let step = |i: u8| if i == 0 { 0 } else { i * 40 + 55 };
            let n = n - 16;
            Some((step(n / 36), step(n / 6 % 6), step(n % 6)))
        }
        Color::Indexed(n) => ANSI.get(usize::from(n)).map(|(_, v)| *v),
        Color::Reset => None,
        named => ANSI.iter().find(|(c, _)| *c == named).map(|(_, v)| *v),
    }
}

fn distance(a: (u8, u8, u8), b: (u8, u8, u8)) -> i32 {
    let d = |x: u8, y: u8| (i32::from(x) - i32::from(y)).pow(2);
    2 * d(a.0, b.0) + 4 * d(a.1, b.1) + 3 * d(a.2, b.2)
}

fn nearest256(v: (u8, u8, u8)) -> Color {
    (16..=255)
        .map(Color::Indexed)
        .min_by_key(|c| rgb(*c).map_or(i32::MAX, |x| distance(v, x)))
        .unwrap_or(Color::Reset)
}

fn nearest16(v: (u8, u8, u8)) -> Color {
    ANSI.iter()
        .min_by_key(|(_, x)| distance(v, *x))
        .map_or(Color::Reset, |(c, _)| *c)
}

fn convert(c: Color, depth: Depth) -> Color {
    match (depth, c) {
        (Depth::True, _) | (_, Color::Reset) => c,
        (Depth::Ansi256, Color::Rgb(r, g, b)) => nearest256((r, g, b)),
        (Depth::Ansi16, Color::Rgb(..) | Color::Indexed(_)) => rgb(c).map_or(c, nearest16),
        _ => c,
    }
}

/// Reduces a style to a terminal's colour depth; with [`Depth::Mono`], only attributes remain.
pub fn reduce(s: Style, depth: Depth) -> Style {
    let mut out = s;
    if depth == Depth::Mono {
        out.fg = None;
        out.bg = None;
        return out;
    }
    out.fg = s.fg.map(|c| convert(c, depth));
    out.bg = s.bg.map(|c| convert(c, depth));
    // If text and background are reduced to the same colour, the text would be invisible.
    if out.fg.is_some() && out.fg == out.bg && s.fg != s.bg {
        out.fg = None;
        out = out.add_modifier(Modifier::BOLD);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_follows_no_color_then_colorterm_then_term() {
        let d = Depth::detect;
        assert_eq!(d(Some("1"), Some("truecolor"), Some("xterm")), Depth::Mono);
        assert_eq!(d(Some(""), Some("truecolor"), None), Depth::True);
        assert_eq!(d(None, None, Some("xterm-256color")), Depth::Ansi256);
        assert_eq!(d(None, None, Some("xterm")), Depth::Ansi16);
        assert_eq!(d(None, None, Some("dumb")), Depth::Mono);
        assert_eq!(d(None, None, None), Depth::Ansi16);
    }
    #[test]
    fn colours_read_in_every_form_and_nonsense_does_not() {
        assert_eq!(parse("#ff8000"), Some(Color::Rgb(255, 128, 0)));
        assert_eq!(parse("#f80"), Some(Color::Rgb(255, 136, 0)));
        assert_eq!(parse("bright-red"), Some(Color::LightRed));
        assert_eq!(parse("208"), Some(Color::Indexed(208)));
        assert_eq!(parse("#ff80"), None);
        assert_eq!(parse("#zzzzzz"), None);
        assert_eq!(parse("reddish"), None);
    }
    #[test]
    fn reduction_takes_the_nearest_colour() {
        assert_eq!(
            convert(Color::Rgb(255, 0, 0), Depth::Ansi256),
            Color::Indexed(196)
        );
        assert_eq!(
            convert(Color::Rgb(240, 80, 80), Depth::Ansi16),
            Color::LightRed
        );
        assert_eq!(convert(Color::Reset, Depth::Ansi16), Color::Reset);
        assert_eq!(rgb(Color::Indexed(196)), Some((255, 0, 0)));
        assert_eq!(rgb(Color::Indexed(244)), Some((128, 128, 128)));
    }
    #[test]
    fn text_never_vanishes_into_its_background() {
        let s = Style::new()
            .fg(Color::Rgb(20, 20, 20))
            .bg(Color::Rgb(0, 0, 0));
        assert_ne!(reduce(s, Depth::Ansi16).fg, Some(Color::Black));
    }
}
