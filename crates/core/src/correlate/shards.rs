//! Containers whose clones are cheap: shared in pieces, copied piece by piece when one changes.
//!
//! A snapshot of the world is taken up to ten times a second and a checkpoint every few thousand observations, while
//! the world goes on changing. So every index is split into pieces behind `Arc`s: a clone copies the pointers of the
//! pieces, and the first change to a piece after a clone copies that piece alone.

use rustc_hash::{FxBuildHasher, FxHashMap};
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Few entries to a shard: the first change after a snapshot copies one shard.
const SHARDS: usize = 1024;

/// A hash map in shared shards. The list of shards is shared as well: the clone of a map that does not change afterwards
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
        // hashbrown takes its bucket from the low bits and its tag from the top seven.
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
    /// Removes what `which` says; shards that lose nothing stay shared.
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

/// Parts of a map that forgets.
const PARTS: usize = 9;

/// Tells of most keys that are not in a part that they are not: every new id is looked up before it is told, and would be
/// looked for in every part. A key has two bits in one word; one in fifteen that is not there seems to be.
#[derive(Debug)]
struct Sieve {
    words: Box<[u64]>,
}

impl Sieve {
    /// Keys to a word.
    const LOAD: usize = 8;

    fn of<K: Hash + Eq + Clone, V: Clone>(part: &ShardMap<K, V>) -> Self {
        let mut words = vec![0; (part.len() / Self::LOAD).max(1)].into_boxed_slice();
        for (key, _) in part.iter() {
            let (word, bits) = Self::place(words.len(), key);
            if let Some(w) = words.get_mut(word) {
                *w |= bits;
            }
        }
        Self { words }
    }
    fn place<Q: Hash + ?Sized>(words: usize, key: &Q) -> (usize, u64) {
        // Shards take their share of the upper bits of the same hash: these are mixed anew.
        let hash = (FxBuildHasher.hash_one(key) ^ 0x9e37_79b9_7f4a_7c15)
            .wrapping_mul(0xff51_afd7_ed55_8ccd);
        let word = ((u128::from(hash) * words as u128) >> 64) as usize;
        (word, (1 << (hash & 63)) | (1 << ((hash >> 6) & 63)))
    }
    fn may_hold<Q: Hash + ?Sized>(&self, key: &Q) -> bool {
        let (word, bits) = Self::place(self.words.len(), key);
        self.words.get(word).is_none_or(|w| w & bits == bits)
    }
}

/// A part of a map that forgets to which nothing is added any more.
#[derive(Clone, Debug)]
struct Old<K, V> {
    map: ShardMap<K, V>,
    sieve: Arc<Sieve>,
}

/// A map that forgets: when its newest part is full, the oldest of its parts is dropped and a new one begun. What was
/// dropped is told, so that nothing is lost without being counted. Old parts hardly change: clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Generations<K, V> {
    young: ShardMap<K, V>,
    /// The newest first.
    old: Vec<Old<K, V>>,
    /// Entries to a part.
    capacity: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Generations<K, V> {
    /// A map of the newest `keep` entries, and up to an eighth more.
    pub(crate) fn new(keep: usize) -> Self {
        Self {
            young: ShardMap::default(),
            old: Vec::new(),
            capacity: (keep / (PARTS - 1)).max(1),
        }
    }
    fn parts(&self) -> impl DoubleEndedIterator<Item = &ShardMap<K, V>> {
        std::iter::once(&self.young).chain(self.old.iter().map(|o| &o.map))
    }
    /// The parts that may hold a key.
    fn sifted<Q>(&mut self, key: &Q) -> impl Iterator<Item = &mut ShardMap<K, V>>
    where
        Q: Hash + ?Sized,
    {
        let old = self.old.iter_mut().filter(|o| o.sieve.may_hold(key));
        std::iter::once(&mut self.young).chain(old.map(|o| &mut o.map))
    }
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.young.get(key).or_else(|| {
            let old = self.old.iter().filter(|o| o.sieve.may_hold(key));
            old.map(|o| &o.map).find_map(|p| p.get(key))
        })
    }
    pub(crate) fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.sifted(key).find_map(|p| p.get_mut(key))
    }
    /// Inserts; returns the part that fell out, if one did.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<ShardMap<K, V>> {
        self.young.insert(key, value);
        if self.young.len() < self.capacity {
            return None;
        }
        let map = std::mem::take(&mut self.young);
        let sieve = Arc::new(Sieve::of(&map));
        self.old.insert(0, Old { map, sieve });
        (self.old.len() >= PARTS)
            .then(|| self.old.pop())
            .flatten()
            .map(|o| o.map)
    }
    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.sifted(key).find_map(|p| p.remove(key))
    }
    /// Removes what `which` says.
    pub(crate) fn remove_all(&mut self, which: impl Fn(&V) -> bool) {
        let old = self.old.iter_mut().map(|o| &mut o.map);
        for part in std::iter::once(&mut self.young).chain(old) {
            part.remove_all(&which);
        }
    }
    /// The oldest part first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts().rev().flat_map(ShardMap::iter)
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
            // A last chunk that was given back is not begun again.
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
    /// With their indexes.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, &T)> {
        self.chunks.iter().enumerate().flat_map(|(c, chunk)| {
            chunk
                .iter()
                .enumerate()
                .map(move |(i, t)| ((c * N + i) as u32, t))
        })
    }
    /// Puts `nothing` in the place of an entry, whose index is never given again. A whole chunk of which nothing is left
    /// gives its memory back: its entries are `None` from then on.
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
    fn generations_tell_what_they_forget() {
        const KEEP: usize = 2 * (PARTS - 1);
        let mut g = Generations::new(KEEP);
        for n in 0..100 {
            let dropped = g.insert(n, n);
            let dropped: Option<Vec<usize>> = dropped.map(|d| d.iter().map(|(k, _)| *k).collect());
            // The newest are kept whatever comes, and up to a part more.
            let full = n >= KEEP && n % 2 == 1;
            let oldest = (n + 1).saturating_sub(KEEP + 2);
            assert_eq!(dropped.is_some(), full, "{n}");
            if let Some(mut dropped) = dropped {
                dropped.sort_unstable();
                assert_eq!(dropped, [oldest, oldest + 1], "{n}");
            }
            for kept in (n + 1).saturating_sub(KEEP)..=n {
                assert_eq!(g.get(&kept), Some(&kept), "{n}");
            }
        }
        assert_eq!((g.get(&83), g.get(&84)), (None, Some(&84)));
        assert_eq!((g.remove(&90), g.get(&90)), (Some(90), None));
    }

    #[test]
    fn a_sieve_holds_back_nothing_that_is_there_and_most_of_what_is_not() {
        let mut part = ShardMap::default();
        for n in 0..20_000_u64 {
            part.insert(n * 7919, ());
        }
        let sieve = Sieve::of(&part);
        assert!((0..20_000_u64).all(|n| sieve.may_hold(&(n * 7919))));
        let seem = (0..20_000_u64).filter(|n| sieve.may_hold(&(n * 7919 + 1)));
        let seem = seem.count();
        assert!(
            seem < 2_000,
            "{seem} of 20,000 that are not there seem to be"
        );
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
