//! Containers whose clones are cheap: they share pieces, and a change copies one piece.
//!
//! A snapshot of the world is taken up to ten times a second and a checkpoint every few thousand observations, while
//! the world keeps changing. So every index is split into pieces behind `Arc`s: a clone copies the pointers to the
//! pieces, and the first change to a piece after a clone copies only that piece.

use rustc_hash::{FxBuildHasher, FxHashMap};
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Many shards with few entries each: the first change after a snapshot copies one shard.
const SHARDS: usize = 1024;

/// A hash map in shared shards. The list of shards is shared as well: cloning a map that does not change afterwards
/// costs one pointer.
#[derive(Clone, Debug)]
pub(crate) struct ShardMap<K, V> {
    shards: Arc<Vec<Arc<FxHashMap<K, V>>>>,
    len: usize,
}

impl<K, V> Default for ShardMap<K, V> {
    fn default() -> Self {
        let empty: Arc<FxHashMap<K, V>> = Arc::default();
        Self {
            shards: Arc::new(vec![empty; SHARDS]),
            len: 0,
        }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> ShardMap<K, V> {
    fn shard<Q: Hash + ?Sized>(key: &Q) -> usize {
        // hashbrown takes the bucket from the low bits and the tag from the top seven.
        (FxBuildHasher.hash_one(key) >> 40) as usize % SHARDS
    }
    fn shard_mut<Q: Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut FxHashMap<K, V>> {
        Arc::make_mut(&mut self.shards)
            .get_mut(Self::shard(key))
            .map(Arc::make_mut)
    }
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.shards.get(Self::shard(key))?.get(key)
    }
    pub(crate) fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // Checks first, so that a missing key copies no shard.
        self.get(key)?;
        self.shard_mut(key)?.get_mut(key)
    }
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = self.shard_mut(&key)?.insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }
    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get(key)?;
        let old = self.shard_mut(key)?.remove(key);
        self.len -= usize::from(old.is_some());
        old
    }
    /// Removes the entries for which `which` is true. Shards without such entries stay shared.
    pub(crate) fn remove_all(&mut self, which: impl Fn(&V) -> bool) {
        let gone: Vec<K> = self
            .iter()
            .filter(|(_, v)| which(v))
            .map(|(k, _)| k.clone())
            .collect();
        for key in gone {
            if let Some(shard) = self.shard_mut(&key)
                && shard.remove(&key).is_some()
            {
                self.len -= 1;
            }
        }
    }
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.shards.iter().flat_map(|s| s.iter())
    }
}

/// Default number of entries per chunk: the first change after a clone copies one chunk.
const CHUNK: usize = 256;

/// A growing list in shared chunks of `N` entries.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<T, const N: usize = CHUNK> {
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T, const N: usize> Default for Chunked<T, N> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
        }
    }
}

impl<T: Clone, const N: usize> Chunked<T, N> {
    /// Appends an entry and returns its index.
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let at = self.len;
        match self.chunks.last_mut() {
            // A last chunk whose memory was released gets no further entries.
            Some(c) if c.len() < N && !at.is_multiple_of(N) => Arc::make_mut(c).push(value),
            _ => self.chunks.push(Arc::new(vec![value])),
        }
        self.len += 1;
        at as u32
    }
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.chunks.get(at as usize / N)?.get(at as usize % N)
    }
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(at as usize / N)?;
        Arc::make_mut(chunk).get_mut(at as usize % N)
    }
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.chunks.iter().flat_map(|c| c.iter())
    }
    /// The entries with their indexes.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, &T)> {
        self.chunks.iter().enumerate().flat_map(|(c, chunk)| {
            chunk
                .iter()
                .enumerate()
                .map(move |(i, t)| ((c * N + i) as u32, t))
        })
    }
    /// Replaces an entry by `nothing`; its index is never reused. A full chunk with no other entry left releases its
    /// memory: `get` returns `None` for its entries from then on.
    pub(crate) fn forget(&mut self, at: u32, nothing: T, is_nothing: impl Fn(&T) -> bool) {
        if let Some(entry) = self.get_mut(at) {
            *entry = nothing;
        }
        if let Some(chunk) = self.chunks.get_mut(at as usize / N)
            && chunk.len() == N
            && chunk.iter().all(is_nothing)
        {
            *chunk = Arc::default();
        }
    }
    /// The entries from `from` on.
    pub(crate) fn since(&self, from: usize) -> impl Iterator<Item = &T> {
        self.chunks
            .get(from / N..)
            .unwrap_or_default()
            .iter()
            .flat_map(|c| c.iter())
            .skip(from % N)
    }
}

impl<T: Clone, const N: usize> FromIterator<T> for Chunked<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(iter: I) -> Self {
        let mut list = Self::default();
        for value in iter {
            list.push(value);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_after_a_clone_is_not_seen_by_the_clone() {
        let mut a = ShardMap::default();
        for n in 0..1000_u32 {
            a.insert(n, n);
        }
        let b = a.clone();
        a.insert(7, 70);
        a.remove(&8);
        assert_eq!((a.get(&7), b.get(&7)), (Some(&70), Some(&7)));
        assert_eq!((a.get(&8), b.get(&8)), (None, Some(&8)));
        assert_eq!((a.len(), b.len()), (999, 1000));
    }

    #[test]
    fn chunks_grow_and_change_in_place() {
        let mut c: Chunked<u32> = Chunked::default();
        for n in 0..600_u32 {
            assert_eq!(c.push(n), n);
        }
        if let Some(v) = c.get_mut(599) {
            *v = 1;
        }
        assert_eq!(
            (c.get(599), c.get(255), c.get(600)),
            (Some(&1), Some(&255), None)
        );
    }
}
