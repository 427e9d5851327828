//! Handles clicks, the wheel and drags.

use ratatui::layout::{Position, Rect};

use crate::action::Action;
use crate::backend::Drive;
use crate::help::Row;
use crate::model::{Effect, Model, Overlay};
use crate::pane::PaneId;
use crate::view::overlay;
use kflow_engine::Snapshot;
use kflow_engine::snapshot::Mode;

/// An event of the mouse, at a column and a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mouse {
    /// A button was pressed.
    Down(u16, u16),
    /// The button was released.
    Up(u16, u16),
    /// The wheel was turned: down if `true`.
    Wheel(u16, u16, bool),
}

impl Model {
    /// Handles an event of the mouse.
    pub fn mouse(&mut self, mouse: Mouse, snap: &Snapshot) -> Vec<Effect> {
        self.message = None;
        self.shared.touched = true;
        let (Mouse::Down(x, y) | Mouse::Up(x, y) | Mouse::Wheel(x, y, _)) = mouse;
        if !self.overlays.is_empty() {
            return self.overlaid(mouse, snap);
        }
        if let Mouse::Down(..) = mouse
            && y + 1 == self.size.1
            && let Some(action) = crate::view::hint_at(self, x)
        {
            return self.run(&action.into(), snap);
        }
        if let (Mouse::Down(..), 1) = (mouse, y)
            && let Some(p) = crate::view::tab_at(self, x)
        {
            self.show(p);
            self.sync(snap);
            return Vec::new();
        }
        let slots = self.slots(snap);
        let scrub = self.size.1.saturating_sub(2);
        if let Mode::Replay { .. } = snap.mode
            && crate::layout::has_scrubber(self.size, true)
            && y == scrub
            && matches!(mouse, Mouse::Down(..))
        {
            let (bar, w) = crate::view::scrub_bar(self.size.0);
            let share = f64::from(x.saturating_sub(bar).min(w)) / f64::from(w.max(1));
            let length = snap.range.1.since(snap.range.0) as f64;
            self.shared.cursor = None;
            let to = snap.range.0.plus((length * share) as i64);
            let effects = vec![Effect::Drive(Drive::Seek(to))];
            self.depart(&effects);
            return effects;
        }
        let Some(slot) = slots.iter().find(|s| s.area.contains(Position::new(x, y))) else {
            self.pressed = None;
            return Vec::new();
        };
        let before = self.shared.cursor;
        let inner: Rect = slot.inner();
        let id = slot.pane;
        let inside = |x: u16, y: u16| (x.saturating_sub(inner.x), y.saturating_sub(inner.y));
        let Some(pane) = self.panes.iter_mut().find(|p| p.id() == id) else {
            return Vec::new();
        };
        match mouse {
            Mouse::Wheel(_, _, down) => {
                for _ in 0..3 {
                    let a = if down { Action::Down } else { Action::Up };
                    pane.handle(&a.into(), snap, &mut self.shared);
                }
            }
            Mouse::Down(..) => {
                self.pressed = Some((x, y));
                if y >= inner.y {
                    let (px, py) = inside(x, y);
                    pane.click(px, py, snap, &mut self.shared);
                }
                self.focus = id;
                if id != PaneId::Pods {
                    self.other = id;
                }
            }
            Mouse::Up(..) => {
                if let Some(from) = self.pressed.take()
                    && inner.contains(Position::new(from.0, from.1))
                    && from.0.abs_diff(x) > 1
                {
                    pane.drag(inside(from.0, from.1), inside(x, y), snap, &mut self.shared);
                }
            }
        }
        self.sync(snap);
        let mut effects = self.frozen(before, snap, Vec::new());
        effects.extend(self.listened(snap));
        effects
    }
    /// Handles the mouse in a box over the panes: the wheel moves, a click chooses and runs, a click outside closes
    /// the box.
    fn overlaid(&mut self, mouse: Mouse, snap: &Snapshot) -> Vec<Effect> {
        let (size, glyphs) = (self.size, self.look.glyphs);
        let Some(top) = self.overlays.pop() else {
            return Vec::new();
        };
        match (top, mouse) {
            (Overlay::Help(mut help), Mouse::Wheel(_, _, down)) => {
                help.chosen = None;
                help.top = if down {
                    help.top + 3
                } else {
                    help.top.saturating_sub(3)
                };
                let rows = help.rows(self, glyphs).len();
                help.top = help.top.min(rows.saturating_sub(1));
                self.overlays.push(Overlay::Help(help));
            }
            (Overlay::Help(help), Mouse::Down(x, y)) => {
                let rows = help.rows(self, glyphs);
                let chosen = help.row(&rows);
                let at = overlay::help_at(rows.len(), &help, chosen, size, (x, y));
                return match at.map(|row| rows.get(row)) {
                    Some(Some(Row::Command { action, .. })) => self.run(&(*action).into(), snap),
                    Some(_) => {
                        self.overlays.push(Overlay::Help(help));
                        Vec::new()
                    }
                    None => Vec::new(),
                };
            }
            (Overlay::Menu(mut m), Mouse::Wheel(_, _, down)) => {
                m.at = if down {
                    (m.at + 1).min(m.items.len().saturating_sub(1))
                } else {
                    m.at.saturating_sub(1)
                };
                self.overlays.push(Overlay::Menu(m));
            }
            (Overlay::Menu(mut m), Mouse::Down(x, y)) => {
                if let Some(item) = overlay::menu_at(&m, size, (x, y)) {
                    m.at = item;
                    self.overlays.push(Overlay::Menu(m));
                    return self.choose(snap);
                }
            }
            (other, _) => self.overlays.push(other),
        }
        Vec::new()
    }
}
