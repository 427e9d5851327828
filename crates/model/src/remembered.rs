//! The last values that a thread made, so that one that comes again shares the memory of the first.

use std::hash::{BuildHasher, BuildHasherDefault, Hash};

use rustc_hash::FxHasher;

/// A value a slot, each in the slot of its hash: bounded, and nothing to clean up.
#[derive(Debug)]
pub(crate) struct Remembered<T>(Vec<T>);

impl<T: Clone + Default> Remembered<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Forgets all, and has so many slots, a power of two.
    pub(crate) fn resize(&mut self, slots: usize) {
        self.0.clear();
        self.0.resize(slots, T::default());
    }

    /// The value that `is` this, if it is remembered, else the one that `made` makes of it. Before the first [`resize`](Self::resize)
    /// there are so many slots as are given.
    pub(crate) fn get<Q: Hash>(
        &mut self,
        slots: usize,
        of: Q,
        is: impl FnOnce(&T, &Q) -> bool,
        made: impl FnOnce(Q) -> T,
    ) -> T {
        if self.0.is_empty() {
            self.resize(slots);
        }
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one(&of);
        // The upper bits are the better mixed ones.
        let slot = (hash >> 32) as usize & (self.0.len().saturating_sub(1));
        match self.0.get_mut(slot) {
            Some(have) if is(have, &of) => have.clone(),
            Some(place) => {
                *place = made(of);
                place.clone()
            }
            None => made(of),
        }
    }
}
