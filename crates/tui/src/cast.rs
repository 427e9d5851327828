//! Records the terminal as an asciicast (version 2, <https://docs.asciinema.org/manual/asciicast/v2/>): presses keys
//! on a session, and writes each change of the screen with its time.

use std::fmt::Write as _;
use std::time::Duration;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use serde::Serialize;

use super::backend::Backend;
use super::offscreen::played::Played;

/// Keys to press, and how long the resulting screen stays.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Keys in words, as for [`press`](super::offscreen::press).
    pub keys: &'static str,
    pub stands: Duration,
}

const fn step(keys: &'static str, millis: u64) -> Step {
    Step {
        keys,
        stands: Duration::from_millis(millis),
    }
}

/// Keys for the first minute of `kflow demo`: which pods hang, why one does, what its start waited for, and what was
/// ever wrong.
pub const FIRST_MINUTE: &[Step] = &[
    step("", 4000),
    step("j", 700),
    step("j", 700),
    step("j", 1500),
    step("5", 5000),
    step("2", 4000),
    step("p", 5000),
    step("p 7", 4000),
    step("8", 3500),
    step("1 t", 4000),
    step("t 0", 4000),
    step("j", 700),
    step("j", 700),
    step("j", 1500),
    step("enter", 4000),
    step("6", 4000),
    step("?", 2500),
    step("w", 400),
    step("a", 400),
    step("i", 400),
    step("t", 3000),
    step("esc esc 1", 3000),
];

#[derive(Serialize)]
struct Header<'a> {
    version: u8,
    width: u16,
    height: u16,
    title: &'a str,
}

/// Presses the keys of a script and returns the screen's changes as an asciicast.
pub fn record<B: Backend>(
    screen: &mut Played<B>,
    script: &[Step],
    title: &str,
) -> serde_json::Result<String> {
    let (width, height) = screen.model.size;
    let head = Header {
        version: 2,
        width,
        height,
        title,
    };
    let mut out = serde_json::to_string(&head)? + "\n";
    let mut shown: Option<Buffer> = None;
    let mut at = Duration::ZERO;
    for step in script {
        screen.press(step.keys);
        let frame = screen.frame();
        let text = changes(shown.as_ref(), &frame);
        if !text.is_empty() {
            out.push_str(&serde_json::to_string(&(at.as_secs_f64(), "o", text))?);
            out.push('\n');
        }
        shown = Some(frame);
        at += step.stands;
        screen.now += step.stands;
    }
    // A player stops at the last event, so an empty one lets the last screen stay too.
    out.push_str(&serde_json::to_string(&(at.as_secs_f64(), "o", ""))?);
    out.push('\n');
    Ok(out)
}

/// Returns the terminal output that turns the previous screen into the next one: each row that differs, written anew.
fn changes(before: Option<&Buffer>, after: &Buffer) -> String {
    let mut text = String::new();
    let area = after.area;
    for y in 0..area.height {
        let row = |b: &Buffer| -> Vec<Cell> {
            (0..area.width)
                .filter_map(|x| b.cell((x, y)).cloned())
                .collect()
        };
        let cells = row(after);
        if before.is_some_and(|b| row(b) == cells) {
            continue;
        }
        // Moves to the start of the row and resets the style.
        let _written = write!(text, "\u{1b}[{};1H\u{1b}[0m", y + 1);
        let mut style = (Color::Reset, Color::Reset, Modifier::empty());
        for c in &cells {
            let next = (c.fg, c.bg, c.modifier);
            if next != style {
                style = next;
                text.push_str(&sgr(c));
            }
            text.push_str(c.symbol());
        }
    }
    if !text.is_empty() && before.is_none() {
        text.insert_str(0, "\u{1b}[2J\u{1b}[?25l");
    }
    text
}

/// Returns the Select Graphic Rendition sequence (ECMA-48 8.3.117) that sets a cell's style from the reset state.
fn sgr(c: &Cell) -> String {
    let mut codes = vec!["0".to_owned()];
    for (modifier, code) in [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
        (Modifier::CROSSED_OUT, "9"),
    ] {
        if c.modifier.contains(modifier) {
            codes.push(code.to_owned());
        }
    }
    codes.extend(colour(c.fg, 38));
    codes.extend(colour(c.bg, 48));
    format!("\u{1b}[{}m", codes.join(";"))
}

/// Returns the SGR code of a colour, where `base` is 38 for the foreground and 48 for the background. Recorded themes
/// use true or indexed colours; any other colour gives `None`.
fn colour(c: Color, base: u8) -> Option<String> {
    match c {
        Color::Rgb(r, g, b) => Some(format!("{base};2;{r};{g};{b}")),
        Color::Indexed(n) => Some(format!("{base};5;{n}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn only_rows_that_changed_are_written() {
        let mut a = Buffer::empty(Rect::new(0, 0, 4, 2));
        a.set_string(0, 0, "ab", Style::new().fg(Color::Rgb(1, 2, 3)));
        let first = changes(None, &a);
        assert!(first.starts_with("\u{1b}[2J"), "{first:?}");
        assert!(first.contains("\u{1b}[0;38;2;1;2;3mab"), "{first:?}");
        assert_eq!(changes(Some(&a), &a), "");
        let mut b = a.clone();
        b.set_string(0, 1, "x", Style::new());
        assert_eq!(changes(Some(&a), &b), "\u{1b}[2;1H\u{1b}[0mx   ");
    }
}
