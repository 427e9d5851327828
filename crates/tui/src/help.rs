//! The rows of the help box: the commands of the pane, of lists and of every pane, and the meaning of the symbols.
//! Typing searches the rows, and the chosen command can be run.

use super::action::{Action, KeyScope};
use super::glyph::Glyphs;
use super::model::Model;
use super::pane::PaneId;

/// State of the help box: the search text and the chosen command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Help {
    /// Words that a row has to contain, each of them, separated by spaces.
    pub text: String,
    /// Index of the chosen row among commands and symbols; `None` until the user moves or types.
    pub chosen: Option<usize>,
    /// Rows scrolled down, while nothing is chosen.
    pub top: usize,
}

/// A row of the help box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    Head(&'static str),
    Command {
        action: Action,
        /// The command's keys, or its palette name if it has none.
        keys: String,
    },
    /// A symbol and its meaning.
    Sign(String, &'static str),
    Empty,
}

impl Help {
    /// Returns all rows that match the search text.
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
        let pane = model.pane(model.focus);
        let commands = |scope: KeyScope| -> Vec<Row> {
            let all = Action::ALL.iter().filter(|a| {
                let own = matches!(scope, KeyScope::Pane(_));
                a.scope() == scope && (!own || pane.is_none_or(|p| p.takes(**a)))
            });
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
        if model.tour.is_some() {
            let keys = |a: &[Action]| -> String {
                let keys: Vec<String> = a.iter().map(|a| model.keys.first(*a)).collect();
                keys.join(" ")
            };
            section(
                "Tour",
                meanings(vec![
                    (
                        keys(&[Action::PlayPause, Action::StepForward]),
                        "on: to the step that is played, or the next",
                    ),
                    (keys(&[Action::StepBack]), "back to the step before"),
                    (keys(&[Action::NextPane]), "the next of the three panes"),
                    (
                        keys(&[Action::Back]),
                        "leave the tour; :tour goes back to it",
                    ),
                ]),
            );
        }
        section(model.focus.name(), commands(KeyScope::Pane(model.focus)));
        let here = pane.and_then(|p| p.signs(g));
        let here = here.unwrap_or_else(|| signs(model.focus, g));
        section("Signs here", meanings(here));
        section("Lists", commands(KeyScope::List));
        section("Everywhere", commands(KeyScope::Global));
        section("Signs everywhere", meanings(everywhere(g)));
        rows
    }
    /// Returns the chosen command; `None` if a symbol is chosen.
    pub fn command(&self, rows: &[Row]) -> Option<Action> {
        match rows.get(self.row(rows)?)? {
            Row::Command { action, .. } => Some(*action),
            Row::Head(_) | Row::Sign(..) | Row::Empty => None,
        }
    }
    /// Moves the choice by this many commands and symbols, within the list.
    pub fn step(&mut self, by: isize, rows: &[Row]) {
        let n = rows.iter().filter(|r| r.is_entry()).count();
        let last = n.saturating_sub(1);
        self.chosen = (n > 0).then(|| match self.chosen {
            None if by > 0 => (by as usize - 1).min(last),
            None => last,
            Some(at) => at.saturating_add_signed(by).min(last),
        });
    }
    /// Updates the choice after the search text has changed: chooses the first match, unless that is to quit and was
    /// found by its description only.
    pub fn searched(&mut self, model: &Model) {
        self.top = 0;
        self.chosen = (!self.text.trim().is_empty()).then_some(0);
        let first = self.command(&self.rows(model, model.look.glyphs));
        if first == Some(Action::Quit) && !Action::Quit.name().starts_with(self.text.trim()) {
            self.chosen = None;
        }
    }
    /// Returns the index of the chosen row.
    pub fn row(&self, rows: &[Row]) -> Option<usize> {
        let entries = rows.iter().enumerate().filter(|(_, r)| r.is_entry());
        entries.map(|(i, _)| i).nth(self.chosen?)
    }
}

impl Row {
    /// Returns true for a row that can be chosen.
    const fn is_entry(&self) -> bool {
        matches!(self, Self::Command { .. } | Self::Sign(..))
    }
}

/// Returns the symbols of a pane with their meanings.
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
            all.push(one(g.fresh, "the pod appeared less than 10 s ago"));
            all.push(one(g.dot, "the pod changed less than 3 s ago"));
            all.push(one(g.full, "lanes: a stage; its colour stands below"));
            all.push(one(g.rule, "lanes: it lives, and is in no stage"));
            all.push(one(g.growing, "lanes: a stage goes on"));
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
        PaneId::Flow => vec![
            one(g.on, "the pod ran the step; dim: the node did"),
            one(g.running, "the pod is in the step now"),
            one(g.failing, "the step's newest run failed"),
            one(g.off, "not seen of this pod, though a source could"),
            one(g.absent, "no source can show the step"),
            (
                format!("{}7", g.times),
                "how often; LONGEST is the longest of them",
            ),
        ],
        PaneId::Node => vec![(
            format!("{} {}", g.on, g.off),
            "a source that works, that does not",
        )],
        PaneId::Incidents => vec![
            one(g.full, "something was not well, and told so"),
            one(g.bounded, "it was so already, and nothing told it yet"),
            one(g.growing, "it lasts"),
            one(g.not_after, "it was so then; it may have begun before"),
        ],
        _ => Vec::new(),
    }
}

/// Returns the symbols that every pane uses, with their meanings.
pub fn everywhere(g: &Glyphs) -> Vec<(String, &'static str)> {
    let one = |sign: &str, what| (sign.to_owned(), what);
    vec![
        one(g.here, "the selected row"),
        (
            format!("{} {}", g.open, g.closed),
            "a branch that is open, closed",
        ),
        (
            format!("{} {}", g.play, g.pause),
            "in the title: a replay that plays, that stands",
        ),
        (
            format!("{} {}", g.on, g.off),
            "in the title: a source that works, that does not",
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
