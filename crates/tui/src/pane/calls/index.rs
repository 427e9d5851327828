//! The rows of the list of calls. Rows are kept for each chunk of the call log, so that an unchanged chunk is not
//! looked through again.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use crate::filter::Filter;
use kflow_core::correlate::Call;
use kflow_core::query::{CallRecord, Flag};
use kflow_engine::Snapshot;
use kflow_model::cri::CallKey;
use kflow_model::{Nanos, PodUid};

/// Place of a call in the log: index of the chunk, index in the chunk.
pub(super) type At = (u32, u32);

/// The switches that decide which calls are listed, besides the filter.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of the user"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keep {
    pub(super) fold: bool,
    pub(super) errors: bool,
    pub(super) flight: bool,
    pub(super) scoped: bool,
    pub(super) pod: Option<PodUid>,
}

impl Keep {
    /// Returns true if a call passes all switches and the filter, whether it is folded or not.
    pub(super) fn keeps(&self, call: &Call, filter: &Filter, snap: &Snapshot) -> bool {
        self.passes(call, filter, snap) == Some(true)
    }
    /// Returns `Some(false)` for a call that passes but for being kflow's own: such calls are listed only by a filter
    /// with the word `own`.
    fn passes(&self, call: &Call, filter: &Filter, snap: &Snapshot) -> Option<bool> {
        let own = snap.world.is_own_call(call);
        self.matches(call, filter, snap, own)
            .then(|| !own || filter.has(Flag::Own))
    }
    fn matches(&self, call: &Call, filter: &Filter, snap: &Snapshot, own: bool) -> bool {
        let now = snap.now;
        self.pod.as_ref().is_none_or(|p| &call.pod_uid == p)
            && snap.world.selects_call(call)
            && (!self.errors || call.is_error())
            && (!self.flight || call.end.is_none())
            && (filter.is_all()
                || filter
                    .score(
                        &format!(
                            "{} {}/{} {}",
                            call.method, call.namespace, call.pod, call.container
                        ),
                        None,
                        &CallRecord { call, now, own },
                    )
                    .is_some())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// In flight first, then newest first, with runs of List and Status calls folded.
    #[default]
    Start,
    Method,
    /// Namespace, name and container.
    Pod,
    /// Longest first.
    Time,
    Code,
    /// Request and answer, largest first.
    Size,
}

impl Sort {
    /// Every order, as the menu lists them: the most used ones first.
    pub(super) const ALL: [Self; 6] = [
        Self::Time,
        Self::Start,
        Self::Method,
        Self::Pod,
        Self::Code,
        Self::Size,
    ];
    /// Returns the name that the palette uses.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Method => "method",
            Self::Pod => "pod",
            Self::Time => "time",
            Self::Code => "code",
            Self::Size => "size",
        }
    }
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }
    /// Returns the sort key of a call. Calls with equal keys are listed newest first.
    fn key(self, c: &Call, at: At, now: Nanos) -> Key {
        let (number, text) = match self {
            Self::Start => (-c.start.0, String::new()),
            Self::Method => (0, c.method.to_string()),
            Self::Pod if c.pod.is_empty() => (1, String::new()),
            Self::Pod => (0, format!("{}/{} {}", c.namespace, c.pod, c.container)),
            Self::Time => (-c.duration(now), String::new()),
            Self::Code => (i64::from(!c.is_error()), c.ending()),
            Self::Size => {
                let bytes = c.request_bytes.saturating_add(c.response_bytes);
                (-i64::try_from(bytes).unwrap_or(i64::MAX), String::new())
            }
        };
        (number, text, Reverse(at))
    }
}

/// Number, text, and place of a call; compared in this order.
type Key = (i64, String, Reverse<At>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) sort: Sort,
    pub(super) reverse: bool,
}

/// Limit on the rows of a list that is not sorted by start. The other direction or a filter shows the calls beyond it.
const MOST: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Call(At),
    /// A run of List and Status calls.
    Fold {
        from: At,
        calls: u32,
    },
}

type Chunk = Arc<Vec<Arc<Call>>>;

#[derive(Debug)]
struct Cached {
    chunk: Chunk,
    rows: Vec<Row>,
    flying: Vec<At>,
    calls: usize,
    /// Number of calls that are not listed only because they are kflow's own.
    own: usize,
    /// Sort keys of the finished calls in the order of the list; empty while the list is sorted by start.
    sorted: Vec<Key>,
}

/// The rows: calls in flight first, then newest first, unless another order is chosen.
#[derive(Debug, Default)]
pub(super) struct Index {
    cached: Vec<Cached>,
    flying: Vec<At>,
    order: Order,
    /// The rows if an order other than the default is chosen.
    ordered: Option<Vec<At>>,
    /// Number of rows before each chunk, counted from the newest chunk.
    starts: Vec<usize>,
    done: usize,
    calls: usize,
    own: usize,
    epoch: u64,
    /// Number of changed chunks that no update has looked through yet.
    behind: usize,
}

fn empty(chunk: Chunk) -> Cached {
    Cached {
        chunk,
        rows: Vec::new(),
        flying: Vec::new(),
        calls: 0,
        own: 0,
        sorted: Vec::new(),
    }
}

fn derive(n: u32, chunk: &Chunk, keep: &Keep, filter: &Filter, snap: &Snapshot) -> Cached {
    let mut c = empty(Arc::clone(chunk));
    let mut fold: Option<(At, u32)> = None;
    let flush = |rows: &mut Vec<Row>, fold: &mut Option<(At, u32)>| {
        if let Some((from, calls)) = fold.take() {
            // A run of a single call is shown as the call itself.
            rows.push(if calls == 1 {
                Row::Call(from)
            } else {
                Row::Fold { from, calls }
            });
        }
    };
    for (i, call) in chunk.iter().enumerate() {
        let at = (n, i as u32);
        let live = call.end.is_none();
        match keep.passes(call, filter, snap) {
            Some(true) => {}
            Some(false) => {
                c.own += 1;
                continue;
            }
            None => continue,
        }
        c.calls += 1;
        if live {
            c.flying.push(at);
        } else if keep.fold && call.is_noise() && !call.is_error() {
            match &mut fold {
                Some((_, n)) => *n += 1,
                None => fold = Some((at, 1)),
            }
        } else {
            flush(&mut c.rows, &mut fold);
            c.rows.push(Row::Call(at));
        }
    }
    flush(&mut c.rows, &mut fold);
    c
}

/// Returns the sort keys of the finished calls of a chunk, in the order of the list. Folded calls are left out.
fn sorted(c: &Cached, Order { sort, reverse }: Order, now: Nanos) -> Vec<Key> {
    let calls = c.rows.iter().filter_map(|r| match r {
        Row::Call(at) => Some((c.chunk.get(at.1 as usize)?, *at)),
        Row::Fold { .. } => None,
    });
    let mut keys: Vec<Key> = calls.map(|(call, at)| sort.key(call, at, now)).collect();
    put_in_order(&mut keys, reverse);
    keys
}

fn put_in_order(keys: &mut [Key], reverse: bool) {
    keys.sort_unstable();
    if reverse {
        keys.reverse();
    }
}

/// The remaining keys of one sorted part of the list, for a merge. The part whose first key is
/// listed first compares greatest.
#[derive(PartialEq, Eq)]
struct Head<'k> {
    keys: &'k [Key],
    reverse: bool,
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.keys.first(), other.keys.first()) {
            (Some(a), Some(b)) if self.reverse => a.cmp(b),
            (Some(a), Some(b)) => b.cmp(a),
            // An empty part compares greatest, so that the heap yields it first and it is removed.
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Index {
    /// Brings the rows up to date, newest chunk first, and looks through `at_most` chunks; `all` discards what
    /// earlier updates found.
    pub(super) fn update(
        &mut self,
        snap: &Snapshot,
        (keep, filter): (&Keep, &Filter),
        order: Order,
        all: bool,
        mut at_most: usize,
    ) {
        if all || order != self.order {
            self.cached.clear();
        }
        self.order = order;
        let chunks = snap.world.calls().chunks();
        self.epoch += 1;
        // A new slot has a chunk of its own, which differs from every chunk of the log.
        self.cached
            .resize_with(chunks.len(), || empty(Arc::default()));
        self.behind = 0;
        let aging = filter.depends_on_time();
        for ((n, chunk), slot) in chunks.iter().enumerate().zip(&mut self.cached).rev() {
            let same = Arc::ptr_eq(&slot.chunk, chunk)
                && !(aging && chunk.iter().any(|c| c.end.is_none()));
            if same {
                continue;
            }
            if at_most == 0 {
                self.behind += 1;
                continue;
            }
            at_most -= 1;
            *slot = derive(n as u32, chunk, keep, filter, snap);
            if order != Order::default() {
                slot.sorted = sorted(slot, order, snap.now);
            }
        }
        self.flying = self
            .cached
            .iter()
            .flat_map(|c| c.flying.iter().copied())
            .collect();
        self.calls = self.cached.iter().map(|c| c.calls).sum();
        self.own = self.cached.iter().map(|c| c.own).sum();
        self.starts.clear();
        let mut sum = 0;
        for c in self.cached.iter().rev() {
            self.starts.push(sum);
            sum += c.rows.len();
        }
        self.done = sum;
        self.ordered = (order != Order::default()).then(|| self.merged(snap));
    }
    /// Merges the sorted parts of all chunks and the calls in flight, up to [`MOST`] rows.
    fn merged(&self, snap: &Snapshot) -> Vec<At> {
        let Order { sort, reverse } = self.order;
        let flying = self.flying.iter().filter_map(|at| {
            let call = Self::at(snap, *at)?;
            Some(sort.key(call, *at, snap.now))
        });
        let mut flying: Vec<Key> = flying.collect();
        put_in_order(&mut flying, reverse);
        let parts = self.cached.iter().map(|c| c.sorted.as_slice());
        let mut heads: Vec<&[Key]> = parts.chain([flying.as_slice()]).collect();
        heads.retain(|h| !h.is_empty());
        // The part whose first key is listed first is at the top of the heap.
        let mut heap: BinaryHeap<Head<'_>> = heads
            .into_iter()
            .map(|keys| Head { keys, reverse })
            .collect();
        let mut out = Vec::new();
        while out.len() < MOST
            && let Some(mut head) = heap.peek_mut()
        {
            match head.keys.split_first() {
                Some(((_, _, Reverse(at)), rest)) => {
                    out.push(*at);
                    head.keys = rest;
                }
                None => {
                    PeekMut::pop(head);
                }
            }
        }
        out
    }
    /// Returns how many calls a sorted list leaves out because it has too few rows.
    pub(super) fn left_out(&self) -> usize {
        let kept = || {
            let done: usize = self.cached.iter().map(|c| c.sorted.len()).sum();
            done + self.flying.len()
        };
        let ordered = self.ordered.as_ref();
        ordered.map_or(0, |o| kept().saturating_sub(o.len()))
    }
    /// Returns how much of the log has been looked through, in percent of its chunks; `None` for all of it.
    pub(super) fn looked_through(&self) -> Option<usize> {
        let all = self.cached.len();
        (self.behind > 0).then(|| (all - self.behind) * 100 / all)
    }
    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        match &self.ordered {
            Some(ordered) => ordered.len(),
            None => self.flying.len() + self.done,
        }
    }
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the number of listed calls, including folded ones.
    pub(super) const fn calls(&self) -> usize {
        self.calls
    }
    /// Returns the number of calls that are not listed only because they are kflow's own.
    pub(super) const fn own(&self) -> usize {
        self.own
    }
    pub(super) fn in_flight(&self) -> usize {
        self.flying.len()
    }
    /// Returns a number that increases with every update.
    pub(super) const fn epoch(&self) -> u64 {
        self.epoch
    }
    pub(super) fn row(&self, n: usize) -> Option<Row> {
        if let Some(ordered) = &self.ordered {
            return ordered.get(n).copied().map(Row::Call);
        }
        if let Some(at) = self.flying.get(n) {
            return Some(Row::Call(*at));
        }
        let n = n - self.flying.len();
        let k = self.starts.partition_point(|s| *s <= n).checked_sub(1)?;
        let chunk = self.cached.get(self.cached.len().checked_sub(k + 1)?)?;
        let inside = n - self.starts.get(k)?;
        chunk
            .rows
            .get(chunk.rows.len().checked_sub(inside + 1)?)
            .copied()
    }
    /// Returns the call at a place in the log.
    pub(super) fn at(snap: &Snapshot, at: At) -> Option<&Arc<Call>> {
        snap.world
            .calls()
            .chunks()
            .get(at.0 as usize)?
            .get(at.1 as usize)
    }
    /// Returns the call of a row; `None` for a fold.
    pub(super) fn call<'a>(&self, snap: &'a Snapshot, row: usize) -> Option<&'a Arc<Call>> {
        match self.row(row)? {
            Row::Call(at) => Self::at(snap, at),
            Row::Fold { .. } => None,
        }
    }
    /// Returns the start of a row's call; for a fold, of its first call.
    pub(super) fn start(&self, snap: &Snapshot, row: usize) -> Option<Nanos> {
        match self.row(row)? {
            Row::Call(at) | Row::Fold { from: at, .. } => Self::at(snap, at).map(|c| c.start),
        }
    }
    /// Returns the row of the newest call that started at or before a moment, in flight or finished. Finished rows
    /// are newest first, so a binary search finds it; other orders are searched for the call whose start is nearest.
    pub(super) fn nearest(&self, snap: &Snapshot, at: Nanos) -> usize {
        if self.ordered.is_some() {
            let apart = |n: &usize| self.start(snap, *n).map(|s| s.since(at).abs());
            return (0..self.len()).min_by_key(apart).unwrap_or(0);
        }
        let exact = |n: &usize| self.start(snap, *n) == Some(at);
        if let Some(n) = (0..self.flying.len()).find(exact) {
            return n;
        }
        let (mut low, mut high) = (self.flying.len(), self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.start(snap, middle).is_some_and(|s| s > at) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.min(self.len().saturating_sub(1))
    }
    /// Returns the row of a call whose start is known, which allows a binary search while the list is sorted by start.
    pub(super) fn find_at(&self, snap: &Snapshot, key: CallKey, start: Nanos) -> Option<usize> {
        let is = |at: At| Self::at(snap, at).is_some_and(|c| c.key == key);
        if let Some(ordered) = &self.ordered {
            return ordered.iter().position(|at| is(*at));
        }
        if let Some(n) = self.flying.iter().position(|at| is(*at)) {
            return Some(n);
        }
        let from = self.nearest(snap, start);
        (from..self.len())
            .take_while(|n| self.start(snap, *n) == Some(start))
            .find(|n| matches!(self.row(*n), Some(Row::Call(at)) if is(at)))
    }
    /// Returns the row of a call; `None` if the call is not listed.
    pub(super) fn find(&self, snap: &Snapshot, key: CallKey) -> Option<usize> {
        let is = |at: At| Self::at(snap, at).is_some_and(|c| c.key == key);
        if let Some(ordered) = &self.ordered {
            return ordered.iter().position(|at| is(*at));
        }
        if let Some(n) = self.flying.iter().position(|at| is(*at)) {
            return Some(n);
        }
        let mut before = self.flying.len();
        for c in self.cached.iter().rev() {
            let found = c
                .rows
                .iter()
                .rposition(|r| matches!(r, Row::Call(at) if is(*at)));
            if let Some(i) = found {
                return Some(before + c.rows.len() - 1 - i);
            }
            before += c.rows.len();
        }
        None
    }
}
