//! What the box of keys lists: commands of the pane, of lists and of everywhere, and what the signs mean. Typing searches
//! it, and what is chosen runs.

use super::action::{Action, KeyScope};
use super::glyph::Glyphs;
use super::model::Model;
use super::pane::PaneId;

/// The box of keys: what was typed, and what is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Help {
    /// What the lines must contain, word by word.
    pub text: String,
    /// Which of the commands is chosen; `None` until the user moves or types.
    pub chosen: Option<usize>,
    /// Rows scrolled down, while nothing is chosen.
    pub top: usize,
}

/// A row of the box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    Head(&'static str),
    Command {
        action: Action,
        /// Its keys, or its name for the palette.
        keys: String,
    },
    /// A sign, and what it means.
    Sign(String, &'static str),
    Empty,
}

impl Help {
    /// All rows that fit what was typed.
    pub fn rows(&self, model: &Model, g: &Glyphs) -> Vec<Row> {
        let words: Vec<String> = self
            .text
            .split_whitespace()
            .map(str::to_lowercase)
            .collect();
        let fits = |parts: &[&str]| {
            let line = parts.join(" ").to_lowercase();
            words.iter().all(|w| line.contains(w.as_str()))
        };
        let mut rows: Vec<Row> = Vec::new();
        let mut section = |title: &'static str, part: Vec<Row>| {
            if part.is_empty() {
                return;
            }
            if !rows.is_empty() {
                rows.push(Row::Empty);
            }
            rows.push(Row::Head(title));
            rows.extend(part);
        };
        let commands = |scope: KeyScope| -> Vec<Row> {
            let all = Action::ALL.iter().filter(|a| a.scope() == scope);
            let fitting = all.filter_map(|a| {
                let keys = match model.keys.text(*a) {
                    keys if keys.is_empty() => format!(":{}", a.name()),
                    keys => keys,
                };
                fits(&[&keys, a.name(), a.help()]).then_some(Row::Command { action: *a, keys })
            });
            fitting.collect()
        };
        let meanings = |all: Vec<(String, &'static str)>| -> Vec<Row> {
            let fitting = all.into_iter().filter(|(sign, what)| fits(&[sign, what]));
            fitting.map(|(sign, what)| Row::Sign(sign, what)).collect()
        };
        section(model.focus.name(), commands(KeyScope::Pane(model.focus)));
        section("Signs here", meanings(signs(model.focus, g)));
        section("Lists", commands(KeyScope::List));
        section("Everywhere", commands(KeyScope::Global));
        section("Signs everywhere", meanings(everywhere(g)));
        rows
    }
    /// The chosen command.
    pub fn command(&self, rows: &[Row]) -> Option<Action> {
        let mut commands = rows.iter().filter_map(|r| match r {
            Row::Command { action, .. } => Some(*action),
            Row::Head(_) | Row::Sign(..) | Row::Empty => None,
        });
        commands.nth(self.chosen?)
    }
    /// Chooses the next or last but so many commands.
    pub fn step(&mut self, by: isize, rows: &[Row]) {
        let n = rows
            .iter()
            .filter(|r| matches!(r, Row::Command { .. }))
            .count();
        let last = n.saturating_sub(1);
        self.chosen = (n > 0).then(|| match self.chosen {
            None if by > 0 => (by as usize - 1).min(last),
            None => last,
            Some(at) => at.saturating_add_signed(by).min(last),
        });
    }
    /// Something else was typed: the first command that fits is chosen, unless it would leave kflow.
    pub fn searched(&mut self, model: &Model) {
        self.top = 0;
        self.chosen = (!self.text.trim().is_empty()).then_some(0);
        let first = self.command(&self.rows(model, model.look.glyphs));
        if first == Some(Action::Quit) && !Action::Quit.name().starts_with(self.text.trim()) {
            self.chosen = None;
        }
    }
    /// The row of the chosen command.
    pub fn row(&self, rows: &[Row]) -> Option<usize> {
        let commands = rows
            .iter()
            .enumerate()
            .filter(|(_, r)| matches!(r, Row::Command { .. }));
        commands.map(|(i, _)| i).nth(self.chosen?)
    }
}

/// What the signs of a pane mean.
pub fn signs(pane: PaneId, g: &Glyphs) -> Vec<(String, &'static str)> {
    let one = |sign: &str, what| (sign.to_owned(), what);
    let stages = || {
        vec![
            one(g.done, "a stage that is done"),
            one(g.running, "a stage that goes on"),
            one(g.failing, "a stage that failed"),
            one(g.waiting, "a stage that waits: back-off, queue, gate"),
            one(g.unseen, "a stage that passed, and that no source saw"),
            one(g.absent, "a stage that was not reached"),
        ]
    };
    let arrow = |shaft: &str, head: &str| format!("{shaft}{shaft}{head}");
    match pane {
        PaneId::Pods => {
            let mut all = stages();
            all.push(one(g.fresh, "the pod appeared a moment ago"));
            all.push(one(g.up, "sorted in ascending order"));
            all.push(one(g.down, "sorted in descending order"));
            all
        }
        PaneId::Timeline => vec![
            one(g.full, "work that was measured"),
            one(g.inferred, "work of which an edge was concluded"),
            one(
                g.bounded,
                "known within bounds; in the critical path: a wait",
            ),
            one(g.thin, "a stage or call whose steps stand below"),
            one(g.unknown, "time that nothing explains"),
            one(g.growing, "it goes on"),
            one(g.tick, "shorter than a column"),
            one(g.left, "it lies outside, at this side"),
            one(g.mark, "an event, a note"),
            one(g.bad_mark, "something that went wrong"),
            one(g.due, "when the grace period ends"),
            one(g.cursor, "the cursor of time"),
        ],
        PaneId::Sequence => vec![
            (arrow(g.shaft, g.right), "a request, or something told"),
            (
                format!("{}{}{}", g.left, g.dashed, g.dashed),
                "its answer: the code, and how long it took",
            ),
            (
                arrow(g.shaft, g.open_right),
                "a call in flight, and for how long",
            ),
            (arrow(g.dashed, g.open_right), "what the pod waits for now"),
            (g.active.to_owned(), "at work on a call"),
            (
                g.silent.to_owned(),
                "silent for a second or more: what went on",
            ),
            (
                format!("{}7", g.times),
                "neighbouring repeats, or a group of them",
            ),
        ],
        _ => Vec::new(),
    }
}

/// What the signs mean that stand in every pane.
pub fn everywhere(g: &Glyphs) -> Vec<(String, &'static str)> {
    let one = |sign: &str, what| (sign.to_owned(), what);
    vec![
        one(g.here, "the selected row"),
        (
            format!("{} {}", g.open, g.closed),
            "a branch that is open, closed",
        ),
        (
            format!("{} {}", g.on, g.off),
            "a source that works, that does not",
        ),
        (
            format!("{} {}", g.play, g.pause),
            "a replay that plays, that stands",
        ),
        one(g.record, "what is seen is being recorded"),
        (
            format!("{}{}{}", g.level(1), g.level(4), g.level(7)),
            "how much was observed; red: something was not well",
        ),
        one(g.thumb, "which part of a list is shown"),
        (
            format!("{} {}", g.checked, g.unchecked),
            "chosen in a menu, not chosen",
        ),
    ]
}
