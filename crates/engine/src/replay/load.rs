//! Loading: a thread reads the session and runs a world over it once, keeping clones as checkpoints on the way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::listed::Lists;
use crate::snapshot::ObservationLog;
use kflow_core::correlate::{Hindsight, World};
use kflow_core::selection::Selection;
use kflow_model::session::reader::{Progress, sort_arrivals};
use kflow_model::session::{Reader, Report};
use kflow_model::{Body, Evidence, Nanos};

/// How far arrivals may be out of order in a recording of several live sources, ns.
const DISORDER: i64 = 2_000_000_000;
/// Fewest observations between checkpoints, a power of two.
const EVERY: usize = 4096;
/// Most checkpoints; when there are more, every second one is dropped.
const CHECKPOINTS: usize = 64;
/// A saved world to start from.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    /// Number of observations that the world has seen.
    pub(super) position: usize,
    pub(super) world: World,
}

/// What the loader has read so far. It is replaced as a whole: every part is cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Loaded {
    pub(super) log: ObservationLog,
    pub(super) checkpoints: Arc<Vec<Checkpoint>>,
    /// What the log says about losses before the moment at which it says so.
    pub(super) hindsight: Arc<Hindsight>,
    /// The lists that it begins with.
    pub(super) lists: Lists,
    /// The result of reading, once it is finished.
    pub(super) report: Option<Report>,
    /// Rises when earlier observations have changed, because late ones were put in their place.
    pub(super) reordered: u64,
}

impl Loaded {
    /// Puts a note in its place, unless it is there: it was read from the file.
    pub(super) fn put(&mut self, note: &Evidence) {
        let at = self.log.arrived_by(note.stamp.seen);
        let beside = (0..at).rev().map_while(|n| self.log.get(n));
        if beside
            .take_while(|o| o.stamp.seen == note.stamp.seen)
            .any(|o| o == note)
        {
            return;
        }
        self.log = self.log.inserted(at, Arc::clone(note));
        // Evidence may come in any order: later checkpoints just observe the note too.
        for c in Arc::make_mut(&mut self.checkpoints) {
            if c.position >= at && c.position > 0 {
                c.world.observe(note);
                c.world.refresh();
                c.world.summarise();
                c.position += 1;
            }
        }
    }
}

/// Reads and sorts the observations, and runs a world over all of them once.
#[derive(Default)]
pub(super) struct Loader {
    inbox: Arc<Mutex<Option<Loaded>>>,
    stop: Arc<AtomicBool>,
    loaded: Loaded,
    world: World,
    hindsight: Hindsight,
    /// Read, but not in the log yet: an older observation may follow.
    pending: Vec<Evidence>,
    /// Observations that came when their place in the log was closed already.
    late: Vec<Evidence>,
    newest: Nanos,
    progress: Progress,
    /// Distance between checkpoints, observations.
    every: usize,
    /// Length of the log when it was last published.
    published: usize,
}

impl Loader {
    pub(super) fn new(
        inbox: Arc<Mutex<Option<Loaded>>>,
        stop: Arc<AtomicBool>,
        selection: Arc<Selection>,
        progress: Progress,
    ) -> Self {
        Self {
            inbox,
            stop,
            progress,
            world: World::selecting(selection),
            every: EVERY,
            ..Self::default()
        }
    }

    pub(super) fn run(mut self, reader: Reader) {
        let report = reader.for_each(|batch| {
            self.take(batch.observations);
            !self.stop.load(Ordering::Relaxed)
        });
        self.close(Nanos(i64::MAX));
        self.put_late();
        self.loaded.report = Some(report);
        self.publish();
        // Derives what pictures need of the checkpoints once all observations can be looked at. A jump that comes
        // earlier derives it for itself; all later ones share this result.
        for c in self.loaded.checkpoints.iter() {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            c.world.summarise();
        }
    }

    fn take(&mut self, observations: Vec<Evidence>) {
        let mut closed = self
            .loaded
            .log
            .iter()
            .next_back()
            .map_or(Nanos(i64::MIN), |o| o.stamp.seen);
        for o in observations {
            if matches!(o.body, Body::ClockStep(_)) {
                // What follows is by another clock than what came before.
                self.close(Nanos(i64::MAX));
                self.newest = o.stamp.seen;
                closed = o.stamp.seen;
                self.add(o);
                continue;
            }
            self.newest = self.newest.max(o.stamp.seen);
            if o.stamp.seen < closed {
                self.late.push(o);
            } else {
                self.pending.push(o);
            }
        }
        self.close(self.newest.plus(-DISORDER));
        // A shared log copies its last chunk when it grows: publish often while the log is short, seldom
        // when it is long.
        let len = self.loaded.log.len();
        if len >= self.published + self.published / 32 {
            self.published = len.max(1);
            self.publish();
        }
    }

    /// Moves the observations up to `upto`, which are certainly in order, into the log.
    fn close(&mut self, upto: Nanos) {
        if !self.pending.is_sorted_by_key(|o| o.stamp.seen) {
            self.pending.sort_by_key(|o| o.stamp.seen);
        }
        let n = self.pending.partition_point(|o| o.stamp.seen <= upto);
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.into_iter();
        for o in rest.by_ref().take(n) {
            self.add(o);
        }
        self.pending = rest.collect();
    }

    fn add(&mut self, o: Evidence) {
        self.world.observe(&o);
        self.hindsight.observe(&o);
        self.loaded.lists.observe(&o);
        self.loaded.log.push(o);
        let len = self.loaded.log.len();
        if len.is_multiple_of(EVERY) {
            self.every = self.every.max(self.apart());
            if len.is_multiple_of(self.every) {
                self.keep();
            }
        }
    }

    /// Returns the least distance between the final checkpoints, a power of two, estimated from how much was read so
    /// far. Checkpoints in between would be dropped again, and each costs the derivation of views.
    fn apart(&self) -> usize {
        let read = self.progress.permille().clamp(1, 1000) as usize;
        let expected = self.loaded.log.len().saturating_mul(1000) / read;
        (1 << (expected / CHECKPOINTS).max(1).ilog2()).max(EVERY)
    }

    fn keep(&mut self) {
        self.world.refresh();
        let checkpoints = Arc::make_mut(&mut self.loaded.checkpoints);
        checkpoints.push(Checkpoint {
            position: self.loaded.log.len(),
            world: self.world.clone(),
        });
        if checkpoints.len() > CHECKPOINTS {
            self.every *= 2;
            let every = self.every;
            checkpoints.retain(|c| c.position.is_multiple_of(every));
        }
    }

    /// Puts late observations (mostly notes) in their place, and remakes the checkpoints behind them.
    fn put_late(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let late = std::mem::take(&mut self.late);
        let mut all: Vec<Evidence> = self.loaded.log.iter().cloned().collect();
        all.extend(late);
        sort_arrivals(&mut all);
        let from = all
            .iter()
            .zip(self.loaded.log.iter())
            .take_while(|(new, old)| Arc::ptr_eq(new, old))
            .count();
        let checkpoints = Arc::make_mut(&mut self.loaded.checkpoints);
        checkpoints.retain(|c| c.position <= from);
        let (position, world) = match checkpoints.last() {
            Some(c) => (c.position, c.world.clone()),
            None => (0, World::selecting(Arc::clone(self.world.selection()))),
        };
        self.world = world;
        self.loaded.log = all.iter().take(position).cloned().collect();
        self.hindsight = Hindsight::of(self.loaded.log.iter());
        for o in all.into_iter().skip(position) {
            self.add(o);
        }
        self.loaded.reordered += 1;
    }

    fn publish(&mut self) {
        if *self.loaded.hindsight != self.hindsight {
            self.loaded.hindsight = Arc::new(self.hindsight.clone());
        }
        *self.inbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.loaded.clone());
    }
}
