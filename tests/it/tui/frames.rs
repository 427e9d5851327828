//! Exact frames of every pane, of help and of the palette, at four sizes: an empty node, one pod, stuck pods, and 5,000
//! pods; with their styles in three themes and in sixteen colours, and in ASCII.
//!
//! A file holds one pane at one size. Each frame has its text, then for each row runs of equally styled cells by letter
//! (`a12 b4`), then what each letter means in dark, light, monochrome and sixteen colours: text and runs are the same
//! in all four. After an intended change: `INSTA_UPDATE=always cargo test --test it tui`.

use std::fmt::Write as _;

use kflow_engine::snapshot::Snapshot;
use kflow_tui::glyph::Glyphs;
use kflow_tui::model::Model;
use kflow_tui::offscreen::{frame, model, press, select};
use kflow_tui::svg;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::{SIZES, churn, empty, session};

const THEMES: [&str; 4] = ["dark", "light", "mono", "ansi"];

/// Name of a view, and the keys that open it.
const VIEWS: [(&str, &str); 16] = [
    ("pods", "1"),
    ("lanes", "1 t"),
    ("timeline", "2"),
    ("critical", "2 p"),
    ("compare", "1 M j M"),
    ("calls", "3 d"),
    ("log", "4 d"),
    ("why", "5"),
    ("node", "6"),
    ("sequence", "7"),
    ("flow", "8"),
    ("flow-explained", "8 enter"),
    ("requests", "9"),
    ("incidents", "0"),
    ("help", "2 ?"),
    ("palette", ": s e"),
];

fn colour(c: Color) -> String {
    match c {
        Color::Reset => "-".to_owned(),
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        other => format!("{other:?}"),
    }
}

fn style(c: &Cell) -> String {
    let mut s = format!("{} on {}", colour(c.fg), colour(c.bg));
    if c.modifier != Modifier::empty() {
        let _written = write!(s, " {:?}", c.modifier);
    }
    s
}

/// Appends a frame's text and its styles in every theme.
pub(super) fn in_every_theme(
    what: &str,
    size: (u16, u16),
    out: &mut String,
    look: impl Fn(&mut Model) -> Buffer,
) {
    let frames: Vec<Buffer> = (THEMES.iter())
        .map(|theme| look(&mut model(size, theme).expect("theme")))
        .collect();
    let _written = writeln!(out, "== {what}");
    describe(&frames, out);
}

/// Appends text, runs and legend of one frame, given in each theme.
fn describe(frames: &[Buffer], out: &mut String) {
    let Some(first) = frames.first() else { return };
    let text = svg::plain(first);
    assert!(
        frames.iter().all(|f| svg::plain(f) == text),
        "a theme changes what is said:\n{text}"
    );
    out.push_str(&text);
    let mut legend: Vec<String> = Vec::new();
    let area = *first.area();
    for y in 0..area.height {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for x in 0..area.width {
            let styles: Vec<String> = frames
                .iter()
                .filter_map(|f| f.cell((x, y)))
                .map(style)
                .collect();
            let key = styles.join(" | ");
            let id = legend.iter().position(|l| *l == key).unwrap_or_else(|| {
                legend.push(key);
                legend.len() - 1
            });
            match runs.last_mut() {
                Some((last, n)) if *last == id => *n += 1,
                _ => runs.push((id, 1)),
            }
        }
        let row: Vec<String> = runs
            .iter()
            .map(|(id, n)| format!("{}{n}", letter(*id)))
            .collect();
        let _written = writeln!(out, "{y}: {}", row.join(" "));
    }
    for (id, styles) in legend.iter().enumerate() {
        let _written = writeln!(out, "{} = {styles}", letter(id));
    }
}

fn letter(id: usize) -> String {
    let one = |n: usize| char::from(b'a' + u8::try_from(n % 26).unwrap_or(0));
    if id < 26 {
        one(id).to_string()
    } else {
        format!("{}{}", one(id / 26 - 1), one(id))
    }
}

#[test]
fn frames_are_what_they_were() {
    let mut big = churn::pipeline(5000, 30_000);
    let mut single = churn::pipeline(1, 12);
    let situations: [(&str, Snapshot, &str); 4] = [
        ("empty", empty(), ""),
        (
            "one pod",
            churn::snapshot(&mut single, churn::BEGIN.plus(2_000_000_000)),
            "",
        ),
        ("stuck", session("S2-stuck-early", 450), "s10/rc"),
        (
            "5000 pods",
            churn::snapshot(&mut big, churn::BEGIN.plus(40_000_000_000)),
            "",
        ),
    ];
    for (view, keys) in VIEWS {
        for size in SIZES {
            let mut out = String::new();
            for (name, snap, pod) in &situations {
                in_every_theme(name, size, &mut out, |m| {
                    frame(m, snap);
                    select(m, snap, pod);
                    press(m, snap, keys);
                    frame(m, snap)
                });
            }
            insta::assert_snapshot!(format!("tui-{view}-{}x{}", size.0, size.1), out);
        }
    }
}

#[test]
fn without_unicode_frames_say_the_same_in_ascii() {
    let mut big = churn::pipeline(5000, 30_000);
    let situations: [(&str, Snapshot, &str); 3] = [
        ("empty", empty(), ""),
        ("stuck", session("S2-stuck-early", 450), "s10/rc"),
        (
            "5000 pods",
            churn::snapshot(&mut big, churn::BEGIN.plus(40_000_000_000)),
            "",
        ),
    ];
    for (view, keys) in VIEWS {
        for size in SIZES {
            let mut out = String::new();
            for (name, snap, pod) in &situations {
                let mut m = model(size, "ansi").expect("theme");
                m.look.glyphs = Glyphs::new(false);
                frame(&mut m, snap);
                select(&mut m, snap, pod);
                press(&mut m, snap, keys);
                let text = svg::plain(&frame(&mut m, snap));
                let strange: String = text.chars().filter(|c| !c.is_ascii()).collect();
                assert!(
                    strange.is_empty(),
                    "{view} {size:?} {name}: {strange}: {text}"
                );
                let _written = writeln!(out, "== {name}\n{text}");
            }
            insta::assert_snapshot!(format!("ascii-{view}-{}x{}", size.0, size.1), out);
        }
    }
}
