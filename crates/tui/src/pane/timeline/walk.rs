//! Moves the selection between spans: to the one that the pod hangs on, to the next error, to the next slowest.

use super::{TimelinePane, rows};
use crate::pane::Reply;
use crate::shared::Shared;
use crate::widget::ruler::Window;
use kflow_core::timeline::{Outcome, Timeline};
use kflow_model::Nanos;
use kflow_model::units::duration;

/// Returns the span that an unfinished pod hangs on: the newest step in flight, or else the newest that failed.
pub(super) fn hanging(t: &Timeline) -> Option<u32> {
    let newest = |outcome: Outcome| {
        t.spans
            .iter()
            .enumerate()
            .filter(|(_, s)| s.outcome == outcome && !s.is_stage() && !s.is_run())
            .max_by_key(|(i, s)| (s.start.at, *i))
            .map(|(i, _)| i as u32)
    };
    newest(Outcome::InFlight).or_else(|| newest(Outcome::Error))
}

impl TimelinePane {
    /// Selects a span and opens the rows that contain it.
    pub(super) fn reveal(&mut self, t: &Timeline, span: u32) {
        let mut up = t.spans.get(span as usize).and_then(|s| s.parent);
        while let Some(i) = up {
            let Some(s) = t.spans.get(i as usize) else {
                break;
            };
            let id = rows::id(s);
            let default = rows::open_by_default(t, i, self.all);
            let open = default != self.turned.contains(&id);
            if !open && !self.turned.remove(&id) {
                self.turned.insert(id);
            }
            up = s.parent;
        }
        self.rows = rows::tree(t, &self.turned, self.all);
        if let Some(n) = self.rows.iter().position(|r| r.span == span) {
            self.scroll
                .fit(self.rows.len(), self.scroll.visible().len().max(1));
            self.scroll.select(n);
        }
    }
    /// Moves the window so that it contains the time cursor.
    pub(super) fn follow_cursor(&mut self, at: Nanos) {
        if let Some(w) = self.window
            && (at < w.from || at >= w.to)
        {
            let half = w.length() / 2;
            self.show(Window::new(at.plus(-half), at.plus(half)));
        }
    }
    pub(super) fn next_error(&mut self, t: &Timeline, shared: &mut Shared) -> Reply {
        let here = self.rows.get(self.scroll.at).map_or(0, |r| r.span);
        let bad = |i: &u32| {
            t.spans
                .get(*i as usize)
                .is_some_and(|s| s.outcome == Outcome::Error && !s.is_stage())
        };
        let n = t.spans.len() as u32;
        let Some(found) = (here + 1..n)
            .chain(0..=here.min(n.saturating_sub(1)))
            .find(bad)
        else {
            return Reply::Say("nothing failed".to_owned());
        };
        self.reveal(t, found);
        if let Some(s) = t.spans.get(found as usize) {
            shared.cursor = Some(s.start.at);
            self.follow_cursor(s.start.at);
        }
        Reply::Done
    }
    pub(super) fn slowest(&mut self, t: &Timeline, now: Nanos, shared: &mut Shared) -> Reply {
        let mut leaves: Vec<u32> = (0..t.spans.len() as u32)
            .filter(|i| {
                t.spans
                    .get(*i as usize)
                    .is_some_and(|s| !s.is_stage() && !s.is_run())
            })
            .collect();
        leaves.sort_by_key(|i| {
            std::cmp::Reverse(t.spans.get(*i as usize).map_or(0, |s| s.duration(now)))
        });
        let here = self.rows.get(self.scroll.at).map(|r| r.span);
        let place = leaves.iter().position(|i| Some(*i) == here);
        let next = place.map_or(0, |p| p + 1);
        let Some(found) = leaves.get(next).or_else(|| leaves.first()).copied() else {
            return Reply::Say("no step has been seen".to_owned());
        };
        self.reveal(t, found);
        if let Some(s) = t.spans.get(found as usize) {
            shared.cursor = Some(s.start.at);
            self.follow_cursor(s.start.at);
            return Reply::Say(format!(
                "{} {} of {}: {}",
                next % leaves.len().max(1) + 1,
                "slowest",
                leaves.len(),
                duration(s.duration(now))
            ));
        }
        Reply::Done
    }
}
