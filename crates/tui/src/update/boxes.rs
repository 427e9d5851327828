//! Handles keys in the boxes over the panes: help and menus.

use crossterm::event::KeyCode;

use crate::action::Action;
use crate::help::Help;
use crate::keys::Key;
use crate::model::{Effect, Model, Overlay};
use kflow_engine::Snapshot;

impl Model {
    /// Handles a key in the help box: text searches, the arrows choose, Enter runs the chosen command.
    pub(super) fn help_key(&mut self, key: Key, snap: &Snapshot) -> Vec<Effect> {
        let Some(Overlay::Help(mut help)) = self.overlays.pop() else {
            return Vec::new();
        };
        let rows = help.rows(self, self.look.glyphs);
        match key.code {
            KeyCode::Char('c') if key.ctrl => return vec![Effect::Quit],
            KeyCode::Esc if help.text.is_empty() => return Vec::new(),
            KeyCode::Esc => help = Help::default(),
            KeyCode::F(1) => return Vec::new(),
            KeyCode::Char('?') if help.text.is_empty() => return Vec::new(),
            KeyCode::Enter => {
                if let Some(action) = help.command(&rows) {
                    return self.run(&action.into(), snap);
                }
                // A symbol leads nowhere.
                if help.chosen.is_none() {
                    return Vec::new();
                }
            }
            KeyCode::Down => help.step(1, &rows),
            KeyCode::Up => help.step(-1, &rows),
            KeyCode::PageDown => help.step(10, &rows),
            KeyCode::PageUp => help.step(-10, &rows),
            KeyCode::Backspace => {
                help.text.pop();
                help.searched(self);
            }
            KeyCode::Char(c) if !key.ctrl && !key.alt && help.text.chars().count() < 60 => {
                help.text.push(c);
                help.searched(self);
            }
            _ => {}
        }
        self.overlays.push(Overlay::Help(help));
        Vec::new()
    }
    pub(super) fn menu_key(&mut self, key: Key, snap: &Snapshot) -> Vec<Effect> {
        let action = self.keys.action(self.focus, key);
        let Some(Overlay::Menu(m)) = self.overlays.last_mut() else {
            return Vec::new();
        };
        let last = m.items.len().saturating_sub(1);
        match action {
            Some(Action::Down | Action::NextPane) => m.at = (m.at + 1).min(last),
            Some(Action::Up | Action::PreviousPane) => m.at = m.at.saturating_sub(1),
            Some(Action::Top) => m.at = 0,
            Some(Action::Bottom) => m.at = last,
            Some(Action::Open | Action::PlayPause | Action::Right) => return self.choose(snap),
            Some(Action::Quit) if key.ctrl => return vec![Effect::Quit],
            _ => {
                self.overlays.pop();
            }
        }
        Vec::new()
    }
    /// Runs the selected item of the menu.
    pub(super) fn choose(&mut self, snap: &Snapshot) -> Vec<Effect> {
        let Some(Overlay::Menu(m)) = self.overlays.last_mut() else {
            return Vec::new();
        };
        let Some(item) = m.items.get_mut(m.at) else {
            return Vec::new();
        };
        if let Some(c) = &mut item.checked {
            *c = !*c;
        }
        let command = item.command.clone();
        if !m.keep {
            self.overlays.pop();
        }
        self.run(&command, snap)
    }
}
