//! Containers whose clones are cheap: shared in pieces, copied piece by piece when one changes.
//!
//! A snapshot of the world is taken up to thirty times a second and a checkpoint every few thousand observations, while
//! the world goes on changing. So every index is split into pieces behind `Arc`s: a clone copies the pointers of the
//! pieces, and the first change to a piece after a clone copies that piece alone.

use rustc_hash::{FxBuildHasher, FxHashMap};
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Few entries to a shard: the first change after a snapshot copies one shard.
const SHARDS: usize = 1024;

/// A hash map in shared shards.
#[derive(Clone, Debug)]
pub(crate) struct ShardMap<K, V> {
    shards: Vec<Arc<FxHashMap<K, V>>>,
    len: usize,
}

impl<K, V> Default for ShardMap<K, V> {
    fn default() -> Self {
        let empty: Arc<FxHashMap<K, V>> = Arc::default();
        Self {
            shards: vec![empty; SHARDS],
            len: 0,
        }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> ShardMap<K, V> {
    fn shard<Q: Hash + ?Sized>(key: &Q) -> usize {
        // hashbrown takes its bucket from the low bits and its tag from the top seven.
        (FxBuildHasher.hash_one(key) >> 40) as usize % SHARDS
    }
    fn shard_mut<Q: Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut FxHashMap<K, V>> {
        self.shards.get_mut(Self::shard(key)).map(Arc::make_mut)
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
        // Looked up first, so that asking for what is not there copies no shard.
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
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.shards.iter().flat_map(|s| s.iter())
    }
}

/// A map that forgets: when the young half is full, the old half is dropped and the young one becomes old. What was
/// dropped is told, so that nothing is lost without being counted.
#[derive(Clone, Debug)]
pub(crate) struct Generations<K, V> {
    young: ShardMap<K, V>,
    old: ShardMap<K, V>,
    capacity: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Generations<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            young: ShardMap::default(),
            old: ShardMap::default(),
            capacity,
        }
    }
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.young.get(key).or_else(|| self.old.get(key))
    }
    pub(crate) fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if self.young.get(key).is_some() {
            self.young.get_mut(key)
        } else {
            self.old.get_mut(key)
        }
    }
    /// Inserts; returns the generation that fell out, if one did.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<ShardMap<K, V>> {
        self.young.insert(key, value);
        (self.young.len() >= self.capacity)
            .then(|| std::mem::replace(&mut self.old, std::mem::take(&mut self.young)))
    }
    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.old.iter().chain(self.young.iter())
    }
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, v)| v)
    }
}

/// Entries to a chunk of a list of files: the first change after a clone copies one chunk.
const CHUNK: usize = 256;

/// A growing list in shared chunks of `N`.
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
    /// Appends and returns the index.
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let at = self.len;
        match self.chunks.last_mut() {
            Some(c) if c.len() < N => Arc::make_mut(c).push(value),
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
    fn generations_tell_what_they_forget() {
        let mut g = Generations::new(2);
        assert!(g.insert(1, 'a').is_none());
        assert_eq!(g.insert(2, 'b').map(|d| d.len()), Some(0));
        assert!(g.insert(3, 'c').is_none());
        assert_eq!(g.get(&1), Some(&'a'));
        assert_eq!(g.insert(4, 'd').map(|d| d.len()), Some(2));
        assert_eq!((g.get(&1), g.get(&3)), (None, Some(&'c')));
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
