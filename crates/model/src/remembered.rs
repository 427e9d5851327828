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
        let slot = slot(&of, self.0.len());
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

/// The last values that a thread read, each with the text that it was read from: one that is spelled as before is not read again.
#[derive(Debug)]
pub(crate) struct Spelled<T>(Vec<(String, T)>);

impl<T: Clone + Default> Spelled<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value that is spelled so, if it is remembered, else the one that is `read`. There are so many slots as are given, a power
    /// of two.
    pub(crate) fn get<E>(
        &mut self,
        slots: usize,
        spelling: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.0.is_empty() {
            self.0.resize(slots, Default::default());
        }
        let Some(place) = self.0.get_mut(slot(spelling, slots)) else {
            return read(spelling);
        };
        let (spelled, value) = place;
        if spelled != spelling {
            *value = read(spelling)?;
            spelled.clear();
            spelled.push_str(spelling);
        }
        Ok(value.clone())
    }
}

/// Where a value stands among so many slots, a power of two.
fn slot(of: impl Hash, slots: usize) -> usize {
    let hash = BuildHasherDefault::<FxHasher>::default().hash_one(of);
    // The upper bits are the better mixed ones.
    (hash >> 32) as usize & slots.saturating_sub(1)
}
