//! A terminal without a screen over a backend: keys go to the model, and what it asks the engine for is done.

use std::sync::Arc;
use std::time::Instant;

use ratatui::buffer::Buffer;

use crate::backend::Backend;
use crate::model::{Effect, Model};
use kflow_engine::Snapshot;

/// A model with what stands behind it.
#[derive(Debug)]
pub struct Played<B> {
    pub model: Model,
    pub backend: B,
    /// The time of the backend; it stands still unless somebody moves it.
    pub now: Instant,
}

impl<B: Backend> Played<B> {
    /// Presses keys as [`press`](super::press) does. Files that are asked for are not written, and nothing is copied.
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
