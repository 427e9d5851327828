//! The segments of a spool as others see them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kflow_model::session::reader::sort_arrivals;
use kflow_model::session::{Part, Reader};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos};

use super::{LONGEST, SpoolError, error};
use crate::merge::{Hole, Merge};
use crate::name::File;

/// A segment in a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub path: PathBuf,
    /// The first moment that it tells of.
    pub begin: Nanos,
    /// The last.
    pub end: Nanos,
    pub part: Part,
    /// Bytes of the file.
    pub bytes: u64,
    /// Its own, without those that are carried over.
    pub observations: u64,
    /// A store has it.
    pub sent: bool,
}

impl Segment {
    pub(super) fn file(&self) -> File {
        File::Closed {
            begin: self.begin,
            end: self.end,
            part: self.part.clone(),
            observations: self.observations,
            sent: self.sent,
        }
    }
    /// Recorded time in it, ns.
    pub(super) fn length(&self) -> i64 {
        let most = i64::try_from(LONGEST.as_nanos()).unwrap_or(i64::MAX);
        self.end.since(self.begin).clamp(0, most)
    }
}

/// How a spool stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Closed segments.
    pub segments: usize,
    /// Of these, what waits for the store.
    pub waiting: usize,
    /// Bytes of all, with the one that is being written.
    pub bytes: u64,
    /// Observations taken since the spool was opened.
    pub taken: u64,
    /// Observations that were not written.
    pub lost: u64,
    /// Segments, and observations in them, that had to go before the store had them.
    pub dropped: (u64, u64),
    /// Files that a crash left without a readable observation of their own.
    pub empty: u64,
    /// Why nothing is written, while it is so.
    pub failing: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Closed, in the order in which they were recorded.
    pub(super) segments: Vec<Segment>,
    /// The one that is being written, and its begin.
    pub(super) open: Option<(PathBuf, Nanos)>,
    pub(super) status: Status,
}

/// The segments of a spool, for who reads or sends them while it is written. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ring {
    pub(super) dir: Arc<PathBuf>,
    pub(super) state: Arc<Mutex<State>>,
}

/// What reading a time range met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    pub segments: usize,
    pub observations: u64,
    /// Times within the range of which nothing is kept.
    pub holes: Vec<Hole>,
    /// Segments that could not be read: path and why.
    pub unreadable: Vec<(PathBuf, String)>,
}

impl Ring {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The closed segments, in the order in which they were recorded.
    pub fn segments(&self) -> Vec<Segment> {
        self.lock().segments.clone()
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        let state = self.lock();
        let mut status = state.status.clone();
        status.segments = state.segments.len();
        status.waiting = state.segments.iter().filter(|s| !s.sent).count();
        status
    }

    /// The store has a segment. False when it is no longer there.
    pub fn sent(&self, segment: &Segment) -> Result<bool, SpoolError> {
        let mut state = self.lock();
        let its = |s: &&mut Segment| s.part == segment.part;
        let Some(s) = state.segments.iter_mut().find(its) else {
            return Ok(false);
        };
        if s.sent {
            return Ok(true);
        }
        let mut now = s.clone();
        now.sent = true;
        now.path = self.dir.join(now.file().to_string());
        std::fs::rename(&s.path, &now.path).map_err(error("rename", &s.path))?;
        *s = now;
        Ok(true)
    }

    /// Gives what arrived from `from` to `to`, in order of arrival, until `take` returns `false`: of the first segment also
    /// what still stood then. The segment that is being written is read up to half a second ago.
    pub fn read(
        &self,
        from: Nanos,
        to: Nanos,
        mut take: impl FnMut(Vec<Evidence>) -> bool,
    ) -> Result<Read, SpoolError> {
        let (segments, open) = {
            let state = self.lock();
            let within = |s: &&Segment| s.end >= from && s.begin <= to;
            let all: Vec<Segment> = state.segments.iter().filter(within).cloned().collect();
            (all, state.open.clone().filter(|(_, begin)| *begin <= to))
        };
        let mut read = Read::default();
        let mut merge = Merge::default();
        let paths = segments.iter().map(|s| (s.path.clone(), false));
        for (path, is_open) in paths.chain(open.map(|(path, _)| (path, true))) {
            let reader = match self.reader(&path) {
                Ok(reader) => reader,
                Err(e) => {
                    read.unreadable.push((path, e.to_string()));
                    continue;
                }
            };
            read.segments += 1;
            let mut wanted = true;
            let give = |mut batch: Vec<Evidence>| {
                batch.retain(|o| o.stamp.seen <= to);
                read.observations += batch.len() as u64;
                wanted = batch.is_empty() || take(batch);
                wanted
            };
            in_parts(reader, &mut merge, is_open, give);
            if !wanted {
                break;
            }
        }
        read.holes = merge.holes().to_vec();
        Ok(read)
    }

    /// Opens a segment that may get another name meanwhile.
    fn reader(&self, path: &Path) -> Result<Reader, SpoolError> {
        let first = Reader::open(path);
        match first {
            Ok(reader) => Ok(reader),
            Err(e) => {
                let name = |p: &Path| p.file_name().map(|n| n.to_string_lossy().into_owned());
                let was = name(path).and_then(|n| File::parse(&n));
                let Some(File::Open { part, .. } | File::Closed { part, .. }) = was else {
                    return Err(e.into());
                };
                let now = self
                    .lock()
                    .segments
                    .iter()
                    .find(|s| s.part == part)
                    .cloned();
                Ok(Reader::open(&now.ok_or(e)?.path)?)
            }
        }
    }
}

/// Sources stamp what they see in threads of their own: it is written in order but for less than this, ns.
const UNSORTED: i64 = 2 * SECOND;

/// How many of these, which are sorted, nothing that follows comes before.
fn ripe(waiting: &[Evidence]) -> usize {
    let newest = waiting.last().map_or(Nanos(0), |o| o.stamp.seen);
    let is_ripe = |o: &Evidence| newest.since(o.stamp.seen) >= UNSORTED;
    let old = waiting.iter().rposition(is_ripe).map_or(0, |n| n + 1);
    let is_step = |o: &Evidence| matches!(o.body, Body::ClockStep(_));
    old.max(waiting.iter().rposition(is_step).unwrap_or(0))
}

/// Gives what a segment adds, in order of arrival and part by part. At a time only what stood when it began and the newest observations,
/// of [`UNSORTED`], are in memory.
fn in_parts(
    reader: Reader,
    merge: &mut Merge,
    is_open: bool,
    mut give: impl FnMut(Vec<Evidence>) -> bool,
) {
    let (part, begin) = (reader.header.segment.clone(), reader.header.created);
    // Where nothing was written before it, it may not say from when on it tells.
    let is_first = part.as_ref().is_none_or(|p| p.n == 0);
    // Until its own time begins.
    let mut carried = Some(Vec::new());
    let mut waiting = Vec::new();
    let (mut last, mut wanted) = (begin, true);
    let report = reader.in_turn(|batch| {
        let mut own = batch.observations;
        if let Some(mut stood) = carried.take() {
            let before = match batch.report.from {
                Some(_) => batch.report.carried.min(own.len()),
                None if is_first => 0,
                None => own.len(),
            };
            let rest = own.split_off(before);
            stood.append(&mut own);
            if batch.report.from.is_none() && !is_first {
                carried = Some(stood);
                return true;
            }
            own = rest;
            wanted = give(merge.begin(part.clone(), begin, stood));
        }
        let newest = own.iter().map(|o| o.stamp.seen).max();
        last = last.max(newest.unwrap_or(last));
        waiting.append(&mut own);
        sort_arrivals(&mut waiting);
        let rest = waiting.split_off(ripe(&waiting));
        let own = std::mem::replace(&mut waiting, rest);
        wanted = wanted && give(merge.own(own));
        wanted
    });
    if let Some(stood) = carried {
        // Cut before its own time began.
        wanted = give(merge.begin(part, begin, stood));
    }
    wanted = wanted && give(merge.own(waiting));
    // One that is being written is always cut: that is no loss.
    if wanted
        && !is_open
        && let Some(gap) = report.cut_at(last)
    {
        give(vec![gap]);
    }
    merge.end(report.until.map_or(last, |until| until.max(last)));
}
