//! The key map: defaults from the table of actions, overrides from the configuration, and a report of conflicts.
//!
//! Keys are spelled `j`, `G`, `ctrl-d`, `alt-x`, `shift-up`, `space`, `enter`, `esc`, `tab`, `backtab`, `f1`.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::BTreeMap;
use std::fmt;

use rustc_hash::FxHashMap;

use super::action::{Action, KeyScope};
use super::pane::PaneId;

/// A key with its modifiers. The letter itself has the case (`g`, `G`), so `shift` is set only for keys without case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub code: KeyCode,
    pub ctrl: bool,
    pub alt: bool,
    pub shift: bool,
}

const NAMED: [(&str, KeyCode); 16] = [
    ("space", KeyCode::Char(' ')),
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backtab", KeyCode::BackTab),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
];

impl Key {
    /// Converts a key event of the terminal.
    pub fn from_event(e: KeyEvent) -> Self {
        let has_case = matches!(e.code, KeyCode::Char(_) | KeyCode::BackTab);
        Self {
            code: e.code,
            ctrl: e.modifiers.contains(KeyModifiers::CONTROL),
            alt: e.modifiers.contains(KeyModifiers::ALT),
            shift: !has_case && e.modifiers.contains(KeyModifiers::SHIFT),
        }
    }
    /// Parses a key as the configuration spells it.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text;
        let (mut ctrl, mut alt, mut shift) = (false, false, false);
        loop {
            let (flag, tail) = if let Some(t) = rest.strip_prefix("ctrl-") {
                (&mut ctrl, t)
            } else if let Some(t) = rest.strip_prefix("alt-") {
                (&mut alt, t)
            } else if let Some(t) = rest.strip_prefix("shift-") {
                (&mut shift, t)
            } else {
                break;
            };
            if tail.is_empty() || *flag {
                return None;
            }
            *flag = true;
            rest = tail;
        }
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next()) {
            (Some(c), None) if !c.is_control() && c != ' ' => KeyCode::Char(c),
            _ => NAMED
                .iter()
                .find(|(n, _)| *n == rest)
                .map(|(_, c)| *c)
                .or_else(|| {
                    let n = rest.strip_prefix('f')?.parse::<u8>().ok()?;
                    (1..=12).contains(&n).then_some(KeyCode::F(n))
                })?,
        };
        if shift && matches!(code, KeyCode::Char(_) | KeyCode::BackTab) {
            return None;
        }
        Some(Self {
            code,
            ctrl,
            alt,
            shift,
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (on, name) in [
            (self.ctrl, "ctrl-"),
            (self.alt, "alt-"),
            (self.shift, "shift-"),
        ] {
            if on {
                f.write_str(name)?;
            }
        }
        if let Some((n, _)) = NAMED.iter().find(|(_, c)| *c == self.code) {
            return f.write_str(n);
        }
        match self.code {
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::F(n) => write!(f, "f{n}"),
            other => write!(f, "{other}"),
        }
    }
}

/// Which key runs which action, by scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap {
    map: FxHashMap<(KeyScope, Key), Action>,
    keys: BTreeMap<Action, Vec<Key>>,
}

impl Default for Keymap {
    fn default() -> Self {
        Self::with(&BTreeMap::new(), "").0
    }
}

impl Keymap {
    /// Builds the map from the defaults and overrides (action → keys; an empty list removes the keys). Returns
    /// warnings: unknown actions, unreadable keys, and conflicts (a later action in the table then
    /// keeps its default keys).
    pub fn with(overrides: &BTreeMap<String, Vec<String>>, file: &str) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        for name in overrides.keys() {
            if Action::parse(name).is_none() {
                warnings.push(format!("{file}: keys.{name}: there is no such action"));
            }
        }
        let mut map: FxHashMap<(KeyScope, Key), Action> = FxHashMap::default();
        let mut keys: BTreeMap<Action, Vec<Key>> = BTreeMap::new();
        // The user's keys are assigned first, so that no default takes one of them.
        let (chosen, rest): (Vec<Action>, Vec<Action>) = Action::ALL
            .iter()
            .copied()
            .partition(|a| overrides.contains_key(a.name()));
        for (actions, from_user) in [(chosen, true), (rest, false)] {
            for a in actions {
                let texts: Vec<&str> = if from_user {
                    overrides
                        .get(a.name())
                        .map(|v| v.iter().map(String::as_str).collect())
                        .unwrap_or_default()
                } else {
                    a.default_keys().to_vec()
                };
                let mine = keys.entry(a).or_default();
                for t in texts {
                    let Some(k) = Key::parse(t) else {
                        warnings.push(format!("{file}: keys.{a}: \"{t}\" is not a key"));
                        continue;
                    };
                    if let Some(other) = conflict(&map, a.scope(), k) {
                        warnings.push(format!(
                            "{file}: keys.{a}: \"{k}\" is already {other} ({})",
                            other.scope()
                        ));
                        continue;
                    }
                    map.insert((a.scope(), k), a);
                    mine.push(k);
                }
            }
        }
        (Self { map, keys }, warnings)
    }
    /// Returns the action of a key in a pane. The pane's own keys come first, then those of lists,
    /// then the global ones.
    pub fn action(&self, pane: PaneId, key: Key) -> Option<Action> {
        [KeyScope::Pane(pane), KeyScope::List, KeyScope::Global]
            .into_iter()
            .find_map(|s| self.map.get(&(s, key)).copied())
    }
    pub fn keys(&self, action: Action) -> &[Key] {
        self.keys.get(&action).map_or(&[], Vec::as_slice)
    }
    /// Returns the keys of an action, separated by spaces; empty if it has none.
    pub fn text(&self, action: Action) -> String {
        let v: Vec<String> = self.keys(action).iter().map(Key::to_string).collect();
        v.join(" ")
    }
    /// Returns the first key of an action; empty if it has none.
    pub fn first(&self, action: Action) -> String {
        self.keys(action)
            .first()
            .map(Key::to_string)
            .unwrap_or_default()
    }
}

/// Returns the action that already uses the key where `scope` would: in the same scope, or in two of which at least
/// one works in every pane.
fn conflict(map: &FxHashMap<(KeyScope, Key), Action>, scope: KeyScope, key: Key) -> Option<Action> {
    let everywhere = |s: KeyScope| matches!(s, KeyScope::Global | KeyScope::List);
    map.iter()
        .find(|((s, k), _)| *k == key && (*s == scope || everywhere(*s) || everywhere(scope)))
        .map(|(_, a)| *a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_map_has_no_conflict_and_every_key_is_written_as_it_is_read() {
        let (map, warnings) = Keymap::with(&BTreeMap::new(), "default");
        assert_eq!(warnings, Vec::<String>::new());
        for a in Action::ALL {
            for t in a.default_keys() {
                let k = Key::parse(t).expect(t);
                assert_eq!(k.to_string(), *t);
                let pane = match a.scope() {
                    KeyScope::Pane(pane) => pane,
                    KeyScope::Global | KeyScope::List => PaneId::Pods,
                };
                assert_eq!(map.action(pane, k), Some(*a), "{t}");
            }
        }
    }
    #[test]
    fn keys_are_read_with_modifiers_and_nonsense_is_not() {
        let k = Key::parse("ctrl-alt-x").expect("key");
        assert!(k.ctrl && k.alt && !k.shift);
        assert_eq!(Key::parse("-").map(|k| k.code), Some(KeyCode::Char('-')));
        assert_eq!(Key::parse("f12").map(|k| k.code), Some(KeyCode::F(12)));
        for bad in ["", "ctrl-", "ctrl-ctrl-x", "hello", "f13", "shift-a", " "] {
            assert_eq!(Key::parse(bad), None, "{bad}");
        }
    }
    #[test]
    fn a_terminal_that_reports_shift_with_capitals_means_the_same_key() {
        let e = KeyEvent::new(KeyCode::Char('G'), KeyModifiers::SHIFT);
        assert_eq!(Some(Key::from_event(e)), Key::parse("G"));
    }
    #[test]
    fn an_override_moves_an_action_and_a_conflict_is_said() {
        let o = BTreeMap::from([
            ("quit".to_owned(), vec!["ctrl-q".to_owned()]),
            ("help".to_owned(), vec!["j".to_owned(), "boo".to_owned()]),
            ("bogus".to_owned(), vec![]),
        ]);
        let (map, w) = Keymap::with(&o, "config.toml");
        assert_eq!(map.text(Action::Quit), "ctrl-q");
        let q = Key::parse("q").expect("q");
        assert_eq!(map.action(PaneId::Pods, q), None);
        assert_eq!(
            w,
            [
                "config.toml: keys.bogus: there is no such action",
                "config.toml: keys.help: \"boo\" is not a key",
                "config.toml: keys.down: \"j\" is already help (global)",
            ]
        );
    }
}
