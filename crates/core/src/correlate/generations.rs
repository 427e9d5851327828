//! A map that forgets its oldest entries, and whose clones share nearly all entries.
//!
//! Entries are in runs by age, not by key. New entries go into the youngest run; older runs only lose entries, so
//! clones share them. Keys are random (ids of spans, traces, requests): in a map that is split by key, every piece
//! would change, and be copied, between two worlds that are kept.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};

/// Number of parts of a map; the oldest is dropped as a whole.
const PARTS: usize = 9;
/// Maximum number of entries of a run: the capacity of hashbrown's table of 4,096 buckets.
const MOST: usize = 4096 / 8 * 7;
/// Minimum length from which a run that a clone shares is sealed. A shorter one is copied, and added to.
const LEAST: usize = 1024;

/// A Bloom filter that rules out most keys that a run does not contain: every new id is looked up before it is
/// inserted, which would otherwise search every run. A key sets two bits in one word; one in
/// fifteen absent keys passes.
#[derive(Debug)]
struct Sieve {
    words: Box<[u64]>,
}

/// A key's hash for [`Sieve`]s.
#[derive(Clone, Copy)]
struct Mixed(u64);

impl Mixed {
    fn of<Q: Hash + ?Sized>(key: &Q) -> Self {
        // The hash maps use the same hash for their buckets, so its bits are mixed again.
        let hash = FxBuildHasher.hash_one(key) ^ 0x9e37_79b9_7f4a_7c15;
        Self(hash.wrapping_mul(0xff51_afd7_ed55_8ccd))
    }
}

impl Sieve {
    /// Number of keys per word.
    const LOAD: usize = 8;

    fn of<'k, K: Hash + 'k>(keys: impl Iterator<Item = &'k K>, count: usize) -> Self {
        let mut words = vec![0; (count / Self::LOAD).max(1)].into_boxed_slice();
        for key in keys {
            let (word, bits) = Self::place(words.len(), Mixed::of(key));
            if let Some(w) = words.get_mut(word) {
                *w |= bits;
            }
        }
        Self { words }
    }
    fn place(words: usize, Mixed(hash): Mixed) -> (usize, u64) {
        let word = ((u128::from(hash) * words as u128) >> 64) as usize;
        (word, (1 << (hash & 63)) | (1 << ((hash >> 6) & 63)))
    }
    fn may_hold(&self, key: Mixed) -> bool {
        let (word, bits) = Self::place(self.words.len(), key);
        self.words.get(word).is_none_or(|w| w & bits == bits)
    }
}

/// Entries that were inserted consecutively.
type Run<K, V> = Arc<FxHashMap<K, V>>;

/// A run that gets no further entries.
#[derive(Clone, Debug)]
struct Sealed<K, V> {
    run: Run<K, V>,
    sieve: Arc<Sieve>,
}

impl<K: Hash, V> Sealed<K, V> {
    fn of(run: Run<K, V>) -> Self {
        let sieve = Arc::new(Sieve::of(run.keys(), run.len()));
        Self { run, sieve }
    }
}

fn count<K, V>(runs: &[Sealed<K, V>]) -> usize {
    runs.iter().map(|s| s.run.len()).sum()
}

/// Runs that are dropped together.
#[derive(Clone, Debug)]
pub(crate) struct Part<K, V> {
    /// Newest first.
    runs: Vec<Sealed<K, V>>,
    /// Filter over the keys of all runs.
    sieve: Arc<Sieve>,
}

impl<K: Hash, V> Part<K, V> {
    fn of(runs: Vec<Sealed<K, V>>) -> Self {
        let count = count(&runs);
        let keys = runs.iter().flat_map(|r| r.run.keys());
        let sieve = Arc::new(Sieve::of(keys, count));
        Self { runs, sieve }
    }
    pub(crate) fn len(&self) -> usize {
        count(&self.runs)
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.runs.iter().rev().flat_map(|r| r.run.iter())
    }
}

/// A map that drops its oldest part when its newest part is full. [`insert`](Self::insert) returns the dropped part,
/// so that its entries can be counted.
#[derive(Clone, Debug)]
pub(crate) struct Generations<K, V> {
    young: Run<K, V>,
    /// The other runs of the newest part, newest first.
    sealed: Vec<Sealed<K, V>>,
    /// The other parts, newest first.
    old: Vec<Part<K, V>>,
    /// Number of entries per part.
    capacity: usize,
    /// Number of entries at which the youngest run is sealed.
    length: usize,
}

/// Number of entries of the next run of a part that has room for `room`. All runs of a part have about the same
/// length, so that the last is not much shorter.
fn next_length(room: usize) -> usize {
    room.div_ceil(room.div_ceil(MOST).max(1)).max(1)
}

/// Drops empty runs, and joins neighbours that are short together: entries that were removed leave short runs behind,
/// and every look-up asks each run.
fn tidy<K: Eq + Hash + Clone, V: Clone>(runs: &mut Vec<Sealed<K, V>>) {
    runs.retain(|s| !s.run.is_empty());
    let mut tidied: Vec<Sealed<K, V>> = Vec::with_capacity(runs.len());
    for next in runs.drain(..) {
        match tidied.last_mut() {
            Some(last) if last.run.len() + next.run.len() <= LEAST => {
                let mut run = std::mem::take(&mut last.run);
                let entries = next.run.iter().map(|(k, v)| (k.clone(), v.clone()));
                Arc::make_mut(&mut run).extend(entries);
                *last = Sealed::of(run);
            }
            _ => tidied.push(next),
        }
    }
    *runs = tidied;
}

impl<K: Eq + Hash + Clone, V: Clone> Generations<K, V> {
    /// A map that keeps the newest `keep` entries, and up to an eighth more.
    pub(crate) fn new(keep: usize) -> Self {
        let capacity = (keep / (PARTS - 1)).max(1);
        Self {
            young: Run::default(),
            sealed: Vec::new(),
            old: Vec::new(),
            capacity,
            length: next_length(capacity),
        }
    }
    /// The runs that may hold a key, newest first.
    fn sifted(&self, key: Mixed) -> impl Iterator<Item = &Run<K, V>> {
        let holds = move |s: &&Sealed<K, V>| s.sieve.may_hold(key);
        let old = self.old.iter().filter(move |p| p.sieve.may_hold(key));
        let sealed = self.sealed.iter().chain(old.flat_map(|p| &p.runs));
        std::iter::once(&self.young).chain(sealed.filter(holds).map(|s| &s.run))
    }
    fn sifted_mut(&mut self, key: Mixed) -> impl Iterator<Item = &mut Run<K, V>> {
        let holds = move |s: &&mut Sealed<K, V>| s.sieve.may_hold(key);
        let old = self.old.iter_mut().filter(move |p| p.sieve.may_hold(key));
        let sealed = (self.sealed.iter_mut()).chain(old.flat_map(|p| &mut p.runs));
        std::iter::once(&mut self.young).chain(sealed.filter(holds).map(|s| &mut s.run))
    }
    /// The run that holds a key; copied if it is shared.
    fn holder<Q>(&mut self, key: &Q) -> Option<&mut FxHashMap<K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.sifted_mut(Mixed::of(key))
            .find(|run| run.contains_key(key))
            .map(Arc::make_mut)
    }
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.sifted(Mixed::of(key)).find_map(|run| run.get(key))
    }
    pub(crate) fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.holder(key)?.get_mut(key)
    }
    /// Inserts an entry or replaces the value of its key. Returns the oldest part if it was dropped.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<Part<K, V>> {
        if let Some(there) = self.get_mut(&key) {
            *there = value;
            return None;
        }
        if self.young.len() >= LEAST && Arc::get_mut(&mut self.young).is_none() {
            self.seal();
        }
        Arc::make_mut(&mut self.young).insert(key, value);
        if self.young.len() < self.length {
            return None;
        }
        self.seal();
        if count(&self.sealed) < self.capacity {
            return None;
        }
        let full = Part::of(std::mem::take(&mut self.sealed));
        self.length = next_length(self.capacity);
        self.old.insert(0, full);
        (self.old.len() >= PARTS).then(|| self.old.pop()).flatten()
    }
    /// Ends the youngest run and begins a new one, which may get as many entries as the part has room for.
    fn seal(&mut self) {
        let run = std::mem::take(&mut self.young);
        self.sealed.insert(0, Sealed::of(run));
        tidy(&mut self.sealed);
        let room = self.capacity.saturating_sub(count(&self.sealed));
        self.length = next_length(room);
    }
    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.holder(key)?.remove(key)
    }
    /// Removes the entries for which `which` is true. Runs without such entries stay shared.
    pub(crate) fn remove_all(&mut self, which: impl Fn(&V) -> bool) {
        let old = self.old.iter_mut().flat_map(|p| &mut p.runs);
        let sealed = self.sealed.iter_mut().chain(old).map(|s| &mut s.run);
        for run in std::iter::once(&mut self.young).chain(sealed) {
            if run.values().any(&which) {
                Arc::make_mut(run).retain(|_, v| !which(v));
            }
        }
    }
    /// All entries by age, oldest run first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let sealed = self.sealed.iter().rev().flat_map(|s| s.run.iter());
        let newest = sealed.chain(self.young.iter());
        self.old.iter().rev().flat_map(Part::iter).chain(newest)
    }
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, v)| v)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn generations_tell_what_they_forget() {
        const KEEP: usize = 2 * (PARTS - 1);
        let mut g = Generations::new(KEEP);
        for n in 0..100 {
            let dropped = g.insert(n, n);
            let dropped: Option<Vec<usize>> = dropped.map(|d| d.iter().map(|(k, _)| *k).collect());
            // The newest `KEEP` entries are kept, and up to a part more.
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
    fn clones_share_what_was_there_before_them() {
        const KEPT: u64 = 100_000;
        let mut g: Generations<u64, u64> = Generations::new(KEPT as usize);
        let mut kept = Vec::new();
        for n in 0..KEPT {
            g.insert(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), n);
            if n % 5_000 == 4_999 {
                kept.push(g.clone());
            }
        }
        let runs = |g: &Generations<u64, u64>| -> Vec<(*const FxHashMap<u64, u64>, usize)> {
            let old = g.old.iter().flat_map(|p| &p.runs);
            let sealed = g.sealed.iter().chain(old).map(|s| &s.run);
            (std::iter::once(&g.young).chain(sealed))
                .map(|r| (Arc::as_ptr(r), r.len()))
                .collect()
        };
        let all: HashMap<_, _> = kept.iter().flat_map(runs).collect();
        let held: usize = all.values().sum();
        let room = KEPT as usize + kept.len() * LEAST;
        assert!(held <= room, "{held} entries are held for {KEPT}");
    }

    /// Number of entries, and of runs.
    fn sizes(g: &Generations<u64, u64>) -> (usize, usize) {
        let runs = 1 + g.sealed.len() + g.old.iter().map(|p| p.runs.len()).sum::<usize>();
        (g.iter().count(), runs)
    }

    #[test]
    fn a_map_that_is_cloned_often_forgets_as_well_and_stays_in_few_runs() {
        const KEEP: usize = 3 << 16;
        for every in [30, 100, 2_600] {
            let mut g: Generations<u64, u64> = Generations::new(KEEP);
            let mut forgotten = 0;
            let mut picture = g.clone();
            for n in 0..1_000_000 {
                forgotten += g.insert(n, n).map_or(0, |part| part.len());
                if n % every == 0 {
                    picture = g.clone();
                }
            }
            let (held, runs) = sizes(&g);
            assert_eq!(held + forgotten, 1_000_000, "a picture every {every}");
            assert!((KEEP..=KEEP / 8 * 9).contains(&held), "{held} are held");
            assert!(runs <= held / LEAST + PARTS, "{runs} runs");
            assert!(sizes(&picture).0 <= KEEP / 8 * 9);
        }
    }

    #[test]
    fn entries_that_are_removed_leave_no_runs_behind() {
        let mut g: Generations<u64, u64> = Generations::new(100_000);
        for n in 0..500_000 {
            g.insert(n, n);
            if n % 100 != 0 {
                g.remove(&n.saturating_sub(10_000));
            }
        }
        let (held, runs) = sizes(&g);
        assert!(held < 16_000, "{held} are held");
        assert!(runs <= 2 * held / LEAST + 3, "{runs} runs for {held}");
    }

    #[test]
    fn a_sieve_holds_back_nothing_that_is_there_and_most_of_what_is_not() {
        let keys: Vec<u64> = (0..20_000).map(|n| n * 7919).collect();
        let sieve = Sieve::of(keys.iter(), keys.len());
        assert!(keys.iter().all(|k| sieve.may_hold(Mixed::of(k))));
        let seem = keys.iter().filter(|k| sieve.may_hold(Mixed::of(&(*k + 1))));
        let seem = seem.count();
        assert!(
            seem < 2_000,
            "{seem} of 20,000 that are not there seem to be"
        );
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16, u32),
        Change(u16, u32),
        Remove(u16),
        RemoveAll(u32),
        Keep,
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = 0..6_000_u16;
        prop_oneof![
            400 => (key.clone(), any::<u32>()).prop_map(|(k, v)| Step::Insert(k, v)),
            20 => (key.clone(), any::<u32>()).prop_map(|(k, v)| Step::Change(k, v)),
            40 => key.prop_map(Step::Remove),
            1 => (0..50_u32).prop_map(Step::RemoveAll),
            2 => Just(Step::Keep),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// After any steps, a map holds the same as a plain map from which the dropped entries were removed; and so
        /// does every clone, whatever happens to the original afterwards.
        #[test]
        fn it_is_a_map_and_so_are_its_clones(keep in 1..9_000_usize, steps in prop::collection::vec(step(), 0..12_000)) {
            let mut g = Generations::new(keep);
            let mut plain: HashMap<u16, u32> = HashMap::new();
            let mut kept = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(k, v) => {
                        plain.insert(k, v);
                        for (k, v) in g.insert(k, v).iter().flat_map(Part::iter) {
                            prop_assert_eq!(plain.remove(k), Some(*v));
                        }
                    }
                    Step::Change(k, v) => {
                        if let Some(there) = g.get_mut(&k) {
                            *there = v;
                        }
                        plain.entry(k).and_modify(|there| *there = v);
                    }
                    Step::Remove(k) => prop_assert_eq!(g.remove(&k), plain.remove(&k)),
                    Step::RemoveAll(n) => {
                        g.remove_all(|v| v % 50 == n);
                        plain.retain(|_, v| *v % 50 != n);
                    }
                    Step::Keep => kept.push((g.clone(), plain.clone())),
                }
            }
            kept.push((g, plain));
            for (g, plain) in kept {
                let all: Vec<(u16, u32)> = g.iter().map(|(k, v)| (*k, *v)).collect();
                prop_assert_eq!(all.len(), plain.len());
                prop_assert_eq!(all.into_iter().collect::<HashMap<_, _>>(), plain.clone());
                for k in 0..6_000 {
                    prop_assert_eq!(g.get(&k), plain.get(&k));
                }
            }
        }
    }
}
