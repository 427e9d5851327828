//! Frames without a terminal: for `kflow screenshots`, for exports and for tests. Scripted with the keys of the live map.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::keys::Key;
use super::model::{Effect, Look, Model};
use super::theme::Depth;
use super::{svg, view};
use kflow_engine::Snapshot;

pub mod played;

/// A picture to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shot {
    /// Name of the file, without its ending.
    pub name: &'static str,
    /// Session, without `.kflow.zst`.
    pub session: &'static str,
    /// Moment, thousandths of the session.
    pub at_permille: u16,
    /// Pod that is selected: `ns/name`, empty for the first.
    pub pod: &'static str,
    /// Keys that are pressed, in words.
    pub keys: &'static str,
    /// Name of the theme.
    pub theme: &'static str,
    /// Columns and rows.
    pub size: (u16, u16),
}

const fn shot(
    name: &'static str,
    session: &'static str,
    at_permille: u16,
    pod: &'static str,
    keys: &'static str,
) -> Shot {
    Shot {
        name,
        session,
        at_permille,
        pod,
        keys,
        theme: "dark",
        size: (140, 40),
    }
}

const fn in_theme(theme: &'static str, of: Shot, name: &'static str) -> Shot {
    Shot { name, theme, ..of }
}

const PODS: Shot = shot("pods", "S2-stuck-early", 450, "s10/rc", "1");
const TIMELINE: Shot = shot("timeline", "S1-basics", 900, "s01/healthy", "2");

const INCIDENTS: Shot = Shot {
    size: (200, 40),
    ..shot("incidents", "S4-runtime", 550, "", "0 g j j j j")
};

const LANES: Shot = Shot {
    size: (200, 60),
    ..shot("lanes", "S5-burst", 600, "", "1 t")
};

/// The pictures of `screenshots/`: every pane, on recorded sessions.
pub const SHOTS: &[Shot] = &[
    INCIDENTS,
    LANES,
    PODS,
    TIMELINE,
    shot("critical", "S6-slowpull", 300, "s24a/queued", "2 p"),
    shot("compare", "S5-burst", 600, "", "1 M j j j M"),
    shot("timeline-stuck", "S2-stuck-early", 450, "s10/rc", "2 d"),
    shot("calls", "S1-basics", 300, "s01/healthy", "3 d"),
    shot("percentiles", "S1-basics", 900, "s01/healthy", "3 p"),
    shot("log", "S2-stuck-early", 450, "s03/cm-missing", "4 d"),
    shot("why", "S2-stuck-early", 450, "s03/cm-missing", "5"),
    Shot {
        size: (200, 60),
        ..shot("node", "S7-restart-json", 900, "", "6")
    },
    shot(
        "sequence",
        "S11-control-plane",
        890,
        "s57/dep-75dcc5f874-t9cmk",
        "7",
    ),
    shot("flow", "S2-stuck-early", 450, "s10/rc", "8 enter"),
    shot("requests", "S1-basics", 600, "s01/healthy", "9"),
    shot("request", "S7-restart-json", 900, "", "9 S p"),
    shot("help", "S1-basics", 600, "s01/healthy", "2 ?"),
    shot(
        "filter",
        "S2-stuck-early",
        450,
        "s10/rc",
        "3 / method:*Sandbox* space !ok",
    ),
    Shot {
        size: (200, 60),
        ..shot("dashboard", "S2-stuck-early", 450, "s10/rc", "3 1 v v")
    },
    in_theme("light", INCIDENTS, "incidents-light"),
    in_theme("light", PODS, "pods-light"),
    in_theme("light", TIMELINE, "timeline-light"),
    in_theme("mono", PODS, "pods-mono"),
    in_theme("mono", TIMELINE, "timeline-mono"),
    in_theme("colour-blind", PODS, "pods-colour-blind"),
    in_theme("high-contrast", PODS, "pods-high-contrast"),
];

/// A model of this size in this theme with all colours; `None` for a theme that does not exist.
pub fn model(size: (u16, u16), theme: &str) -> Option<Model> {
    let depth = match theme {
        "mono" => Depth::Mono,
        "ansi" => Depth::Ansi16,
        _ => Depth::True,
    };
    let mut m = Model::new(
        size,
        Look::new(theme, depth, true)?,
        super::keys::Keymap::default(),
    );
    m.shared.utc = true;
    Some(m)
}

/// Presses keys (names apart by spaces; words that are no key are typed letter by letter) and gives the effects.
pub fn press(model: &mut Model, snap: &Snapshot, keys: &str) -> Vec<Effect> {
    let keys = self::keys(keys).into_iter();
    keys.flat_map(|k| model.key(k, snap)).collect()
}

/// The keys that [`press`] presses.
pub fn keys(text: &str) -> Vec<Key> {
    let letters = |word: &str| -> Vec<Key> {
        let key = |c: char| Key::parse(c.encode_utf8(&mut [0; 4]));
        word.chars().filter_map(key).collect()
    };
    let words = text.split(' ').filter(|w| !w.is_empty());
    words
        .flat_map(|w| Key::parse(w).map_or_else(|| letters(w), |k| vec![k]))
        .collect()
}

/// Draws one frame.
pub fn frame(model: &mut Model, snap: &Snapshot) -> Buffer {
    model.sync(snap);
    // A jump from one pane to another is taken in one round and shown in the next.
    model.sync(snap);
    let mut buf = Buffer::empty(Rect::new(0, 0, model.size.0, model.size.1));
    view::draw(model, snap, &mut buf);
    buf
}

/// Selects a pod by `ns/name`.
pub fn select(model: &mut Model, snap: &Snapshot, pod: &str) {
    if let Some(p) = snap.world.find(pod).first() {
        model.shared.pod = Some(p.uid.clone());
    }
}

/// Columns of an exported timeline: wide enough to read.
const WIDE: u16 = 160;
/// At least as many rows as a screen has around a pane.
const HEAD_AND_FOOT: u16 = 10;
/// Most rows of one.
const TALL: u16 = 1000;

/// A pod's timeline alone, whole and no higher than what is in it, as SVG; `None` for a theme that does not exist.
pub fn timeline(snap: &Snapshot, pod: &kflow_core::correlate::Pod, theme: &str) -> Option<String> {
    let drawn = |rows: u16| {
        // The pane lists as many rows as a screen of this size leaves it beside head and foot, which are not drawn.
        let mut m = model((WIDE, rows + HEAD_AND_FOOT), theme)?;
        m.shared.pod = Some(pod.uid.clone());
        m.show(super::pane::PaneId::Timeline);
        m.sync(snap);
        let mut buf = Buffer::empty(Rect::new(0, 0, WIDE, rows));
        view::draw_pane(&m, snap, super::pane::PaneId::Timeline, &mut buf);
        Some(buf)
    };
    // What is below the last bar up to the pane's own last rows is empty, and taken out.
    let empty = drawn(TALL).map(|buf| {
        let frame = |s: &str| s.chars().all(|c| c == ' ' || ('─'..='╿').contains(&c));
        let in_it = |x: u16, y: u16| buf.cell((x, y)).is_some_and(|c| !frame(c.symbol()));
        let (mut longest, mut run) = (0, 0);
        for y in 0..TALL {
            let filled = (0..WIDE).any(|x| in_it(x, y));
            run = if filled { 0 } else { run + 1 };
            longest = run.max(longest);
        }
        longest
    })?;
    // The rule above the detail is not empty, and a row of room stays.
    let buf = drawn((TALL - empty + 2).max(12))?;
    let title = format!("kflow: timeline of {}", pod.key());
    Some(svg::render(&buf, &title))
}

/// Makes a picture of a snapshot; `None` for a theme that does not exist.
pub fn render(shot: &Shot, snap: &Snapshot) -> Option<String> {
    let mut m = model(shot.size, shot.theme)?;
    m.sync(snap);
    select(&mut m, snap, shot.pod);
    press(&mut m, snap, shot.keys);
    select(&mut m, snap, shot.pod);
    m.message = None;
    let buf = frame(&mut m, snap);
    Some(svg::render(&buf, &format!("kflow: {}", shot.name)))
}
