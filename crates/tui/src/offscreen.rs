//! Frames without a terminal, for `kflow screenshots`, exports and tests. Scripts press the keys of
//! the default key map.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::keys::Key;
use super::model::{Effect, Look, Model};
use super::theme::Depth;
use super::{svg, view};
use kflow_engine::Snapshot;

pub mod played;

/// A screenshot to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shot {
    /// Name of the file, without its extension.
    pub name: &'static str,
    /// Name of the session, without `.kflow.zst`.
    pub session: &'static str,
    /// Moment to show, in thousandths of the session's length.
    pub at_permille: u16,
    /// Pod to select, as `namespace/name`; empty for the first.
    pub pod: &'static str,
    /// Keys to press, as for [`press`].
    pub keys: &'static str,
    pub theme: &'static str,
    /// Columns, rows.
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

/// The screenshots of `screenshots/`: every pane, on recorded sessions.
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

/// Returns a theme with all colours that it uses; `None` for an unknown one.
pub fn look(theme: &str) -> Option<Look> {
    let depth = match theme {
        "mono" => Depth::Mono,
        "ansi" => Depth::Ansi16,
        _ => Depth::True,
    };
    Look::new(theme, depth, true)
}

/// Returns a model of this size (columns, rows) with all colours that the theme uses; `None` for an unknown theme.
pub fn model(size: (u16, u16), theme: &str) -> Option<Model> {
    let mut m = Model::new(size, look(theme)?, super::keys::Keymap::default());
    m.shared.utc = true;
    Some(m)
}

/// Presses keys (names separated by spaces; a word that names no key is typed letter by letter)
/// and returns the effects.
pub fn press(model: &mut Model, snap: &Snapshot, keys: &str) -> Vec<Effect> {
    let keys = self::keys(keys).into_iter();
    keys.flat_map(|k| model.key(k, snap)).collect()
}

/// Parses the keys that [`press`] presses.
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
    // A first pass may have one pane jump to another; the second pass brings that one up to date.
    model.sync(snap);
    let mut buf = Buffer::empty(Rect::new(0, 0, model.size.0, model.size.1));
    view::draw(model, snap, &mut buf);
    buf
}

/// Selects a pod by `namespace/name`.
pub fn select(model: &mut Model, snap: &Snapshot, pod: &str) {
    if let Some(p) = snap.world.find(pod).first() {
        model.shared.pod = Some(p.uid.clone());
    }
}

/// Returns the SVG of a screenshot of a snapshot; `None` for an unknown theme.
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
