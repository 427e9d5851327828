//! A terminal without a screen: keys go to the model, and the model's requests go to a backend.

use std::sync::Arc;
use std::time::Instant;

use ratatui::buffer::Buffer;

use crate::backend::Backend;
use crate::model::{Effect, Model};
use kflow_engine::Snapshot;

/// A model with its backend.
#[derive(Debug)]
pub struct Played<B> {
    pub model: Model,
    pub backend: B,
    /// Time that the backend is given; it changes only when the caller sets it.
    pub now: Instant,
}

impl<B: Backend> Played<B> {
    /// Presses keys as [`press`](super::press) does. Effects other than requests to the engine are dropped: no file
    /// is written and nothing is copied.
    pub fn press(&mut self, keys: &str) {
        for key in super::keys(keys) {
            let snap = self.snapshot();
            self.model.sync(&snap);
            for effect in self.model.key(key, &snap) {
                if let Effect::Drive(d) = effect {
                    let answer = self.backend.drive(d, self.now);
                    let _unwritten = self.model.answered(answer);
                }
            }
            let snap = self.snapshot();
            self.model.sync(&snap);
        }
    }
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        self.backend.snapshot(self.now)
    }
    /// Draws one frame.
    pub fn frame(&mut self) -> Buffer {
        let snap = self.snapshot();
        super::frame(&mut self.model, &snap)
    }
}
