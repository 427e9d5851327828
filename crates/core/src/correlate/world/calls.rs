//! Index from a call's key to its place in the log.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::pods::Slot;
use crate::correlate::shards::ShardMap;
use kflow_model::Nanos;
use kflow_model::cri::CallKey;

/// A call's start, which finds it in the log, and its pod where that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallAt {
    pub(super) start: Nanos,
    pub(super) slot: Option<Slot>,
}

/// Number of consecutive streams of a connection that share a piece of the index.
const NEAR: u32 = 1 << 9;

/// Index of calls by key. A connection numbers its streams in the order of its calls, so the calls added between two
/// clones of the world lie in a few pieces, and only these are copied.
#[derive(Clone, Debug, Default)]
pub(super) struct CallIndex {
    pieces: ShardMap<(u32, u32), Arc<FxHashMap<u32, CallAt>>>,
    len: usize,
}

impl CallIndex {
    const fn piece(key: CallKey) -> (u32, u32) {
        (key.conn, key.stream / NEAR)
    }
    pub(super) fn get(&self, key: CallKey) -> Option<&CallAt> {
        self.pieces.get(&Self::piece(key))?.get(&key.stream)
    }
    pub(super) fn get_mut(&mut self, key: CallKey) -> Option<&mut CallAt> {
        // Checks first, so that a missing key copies nothing.
        self.get(key)?;
        let piece = self.pieces.get_mut(&Self::piece(key))?;
        Arc::make_mut(piece).get_mut(&key.stream)
    }
    pub(super) fn insert(&mut self, key: CallKey, at: CallAt) {
        let before = match self.pieces.get_mut(&Self::piece(key)) {
            Some(piece) => Arc::make_mut(piece).insert(key.stream, at),
            None => {
                let piece = FxHashMap::from_iter([(key.stream, at)]);
                self.pieces.insert(Self::piece(key), Arc::new(piece));
                None
            }
        };
        self.len += usize::from(before.is_none());
    }
    pub(super) fn remove(&mut self, key: CallKey) {
        if self.get(key).is_none() {
            return;
        }
        self.len -= 1;
        let Some(piece) = self.pieces.get_mut(&Self::piece(key)).map(Arc::make_mut) else {
            return;
        };
        piece.remove(&key.stream);
        if piece.is_empty() {
            self.pieces.remove(&Self::piece(key));
        }
    }
    pub(super) const fn len(&self) -> usize {
        self.len
    }
}
