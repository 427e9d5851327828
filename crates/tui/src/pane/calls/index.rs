//! Which calls are listed, chunk by chunk: a chunk of the log that did not change is not looked at again.

use std::sync::Arc;

use crate::filter::Filter;
use kflow_core::correlate::Call;
use kflow_core::query::CallRecord;
use kflow_engine::Snapshot;
use kflow_model::cri::CallKey;
use kflow_model::{Nanos, PodUid};

/// Place of a call: chunk and position.
pub(super) type At = (u32, u32);

/// What is kept, besides the filter.
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
    /// True for a call that is shown, folded or not.
    pub(super) fn keeps(&self, call: &Call, filter: &Filter, snap: &Snapshot) -> bool {
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
                        &CallRecord { call, now },
                    )
                    .is_some())
    }
}

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
}

/// The rows, in flight first, then newest first.
#[derive(Debug, Default)]
pub(super) struct Index {
    cached: Vec<Cached>,
    flying: Vec<At>,
    /// Rows before each chunk, counted from the newest.
    starts: Vec<usize>,
    done: usize,
    calls: usize,
    epoch: u64,
}

fn derive(n: u32, chunk: &Chunk, keep: &Keep, filter: &Filter, snap: &Snapshot) -> Cached {
    let mut c = Cached {
        chunk: Arc::clone(chunk),
        rows: Vec::new(),
        flying: Vec::new(),
        calls: 0,
    };
    let mut fold: Option<(At, u32)> = None;
    let flush = |rows: &mut Vec<Row>, fold: &mut Option<(At, u32)>| {
        if let Some((from, calls)) = fold.take() {
            // One alone takes the same row as itself.
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
        if !keep.keeps(call, filter, snap) {
            continue;
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

impl Index {
    /// Brings the rows up to date; `all` looks at every chunk again.
    pub(super) fn update(&mut self, snap: &Snapshot, keep: &Keep, filter: &Filter, all: bool) {
        let chunks = snap.world.calls().chunks();
        self.epoch += 1;
        self.cached.truncate(chunks.len());
        let aging = filter.depends_on_time();
        for (n, chunk) in chunks.iter().enumerate() {
            let same = !all
                && self.cached.get(n).is_some_and(|c| {
                    Arc::ptr_eq(&c.chunk, chunk)
                        && !(aging && chunk.iter().any(|c| c.end.is_none()))
                });
            if same {
                continue;
            }
            let new = derive(n as u32, chunk, keep, filter, snap);
            match self.cached.get_mut(n) {
                Some(slot) => *slot = new,
                None => self.cached.push(new),
            }
        }
        self.flying = self
            .cached
            .iter()
            .flat_map(|c| c.flying.iter().copied())
            .collect();
        self.calls = self.cached.iter().map(|c| c.calls).sum();
        self.starts.clear();
        let mut sum = 0;
        for c in self.cached.iter().rev() {
            self.starts.push(sum);
            sum += c.rows.len();
        }
        self.done = sum;
    }
    /// Rows.
    pub(super) fn len(&self) -> usize {
        self.flying.len() + self.done
    }
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Calls, folded ones too.
    pub(super) const fn calls(&self) -> usize {
        self.calls
    }
    pub(super) fn in_flight(&self) -> usize {
        self.flying.len()
    }
    /// Rises with every update.
    pub(super) const fn epoch(&self) -> u64 {
        self.epoch
    }
    pub(super) fn row(&self, n: usize) -> Option<Row> {
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
    /// The call of a place.
    pub(super) fn at(snap: &Snapshot, at: At) -> Option<&Arc<Call>> {
        snap.world
            .calls()
            .chunks()
            .get(at.0 as usize)?
            .get(at.1 as usize)
    }
    /// The call of a row, `None` for a fold.
    pub(super) fn call<'a>(&self, snap: &'a Snapshot, row: usize) -> Option<&'a Arc<Call>> {
        match self.row(row)? {
            Row::Call(at) => Self::at(snap, at),
            Row::Fold { .. } => None,
        }
    }
    /// When the call of a row began; of a fold, its first.
    pub(super) fn start(&self, snap: &Snapshot, row: usize) -> Option<Nanos> {
        match self.row(row)? {
            Row::Call(at) | Row::Fold { from: at, .. } => Self::at(snap, at).map(|c| c.start),
        }
    }
    /// The row of the newest call that had begun at a moment, in flight or not. Rows that are done stand newest first.
    pub(super) fn nearest(&self, snap: &Snapshot, at: Nanos) -> usize {
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
    /// The row of a call that began at a known time: found by halves.
    pub(super) fn find_at(&self, snap: &Snapshot, key: CallKey, start: Nanos) -> Option<usize> {
        let is = |at: At| Self::at(snap, at).is_some_and(|c| c.key == key);
        if let Some(n) = self.flying.iter().position(|at| is(*at)) {
            return Some(n);
        }
        let from = self.nearest(snap, start);
        (from..self.len())
            .take_while(|n| self.start(snap, *n) == Some(start))
            .find(|n| matches!(self.row(*n), Some(Row::Call(at)) if is(at)))
    }
    /// The row of a call.
    pub(super) fn find(&self, snap: &Snapshot, key: CallKey) -> Option<usize> {
        let is = |at: At| Self::at(snap, at).is_some_and(|c| c.key == key);
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
