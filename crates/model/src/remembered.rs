//! The values that a thread made last, so that an equal value shares the memory of the first.

use std::hash::{BuildHasher, BuildHasherDefault, Hash};

use rustc_hash::FxHasher;

/// A hash table with one value in each slot, replaced by the next value of that slot: its size is bounded, and nothing
/// has to be evicted.
#[derive(Debug)]
pub(crate) struct Remembered<T>(Vec<T>);

impl<T: Clone + Default> Remembered<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Forgets all values, and sets the number of slots to `slots`, a power of two.
    pub(crate) fn resize(&mut self, slots: usize) {
        self.0.clear();
        self.0.resize(slots, T::default());
    }

    /// Returns the remembered value for which `is` is true of `of`, else the value that `made` makes of it. Creates
    /// `slots` slots unless [`resize`](Self::resize) was called before.
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
        // The upper bits are mixed better than the lower ones.
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
