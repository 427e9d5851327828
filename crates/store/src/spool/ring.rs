//! The segments of a spool, as readers and uploaders see them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kflow_model::session::reader::sort_arrivals;
use kflow_model::session::{Part, Reader};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos};

use super::{LONGEST, SpoolError, error};
use crate::merge::{Hole, Merge, told};
use crate::name::File;

/// A segment in a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub path: PathBuf,
    /// Begin of its time.
    pub begin: Nanos,
    /// End of its time.
    pub end: Nanos,
    pub part: Part,
    /// Bytes of the file.
    pub bytes: u64,
    /// Number of its own observations, without those carried over from before it.
    pub observations: u64,
    /// True when a store has it.
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
    /// Length of the recorded time, ns.
    pub(super) fn length(&self) -> i64 {
        let most = i64::try_from(LONGEST.as_nanos()).unwrap_or(i64::MAX);
        self.end.since(self.begin).clamp(0, most)
    }
}

/// State of a spool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Number of closed segments.
    pub segments: usize,
    /// Number of closed segments that the store does not have yet.
    pub waiting: usize,
    /// Bytes of all segments, including the one that is being written.
    pub bytes: u64,
    /// Observations taken since the spool was opened.
    pub taken: u64,
    /// Observations that were not written, or found no room on the way to the spool.
    pub lost: u64,
    /// Segments, and observations in them, that were dropped before the store had them.
    pub dropped: (u64, u64),
    /// Files that a crash left without a readable observation of their own.
    pub empty: u64,
    /// Files that another process left open and that cannot be read; they stay as they are.
    pub unreadable: u64,
    /// Why nothing is written at the moment, if so.
    pub failing: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Closed segments, in the order in which they were recorded.
    pub(super) segments: Vec<Segment>,
    /// The segment that is being written, and its begin.
    pub(super) open: Option<(PathBuf, Nanos)>,
    pub(super) status: Status,
}

/// The segments of a spool, for readers and uploaders while it is being written. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ring {
    pub(super) dir: Arc<PathBuf>,
    pub(super) state: Arc<Mutex<State>>,
    /// Observations lost on the way to the spool, whose thread was too slow.
    pub(crate) queue: Arc<AtomicU64>,
}

/// The result of reading a time range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    pub segments: usize,
    pub observations: u64,
    /// Times within the range that no segment covers.
    pub holes: Vec<Hole>,
    /// Segments that could not be read: path and reason.
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

    pub fn status(&self) -> Status {
        let state = self.lock();
        let mut status = state.status.clone();
        status.segments = state.segments.len();
        status.waiting = state.segments.iter().filter(|s| !s.sent).count();
        status.lost += self.queue.load(Ordering::Relaxed);
        status
    }

    /// Marks a segment as sent: the store has it. Returns false when the segment no longer exists.
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

    /// Gives `take` what arrived from `from` to `to`, in order of arrival, until it returns `false`; of the first
    /// segment also what was still valid at its begin. The segment that is being written is read up to
    /// half a second ago. A segment that cannot be read is a gap.
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
        let closed = segments.iter().map(|s| (s.path.clone(), s.begin, s.end));
        let written = open.map(|(path, begin)| (path, begin, to));
        let is_written = |path: &Path| segments.iter().all(|s| s.path != path);
        // Times of unreadable segments since the last readable one.
        let mut unread: Option<Hole> = None;
        let mut wanted = true;
        let mut give = |mut batch: Vec<Evidence>| {
            batch.retain(|o| o.stamp.seen <= to);
            read.observations += batch.len() as u64;
            wanted = wanted && (batch.is_empty() || take(batch));
            wanted
        };
        for (path, begin, end) in closed.chain(written) {
            let reader = match self.reader(&path) {
                Ok(reader) => reader,
                Err(e) => {
                    read.unreadable.push((path, e.to_string()));
                    let hole = unread.get_or_insert(Hole {
                        from: begin,
                        to: end,
                        lost: true,
                    });
                    hole.to = hole.to.max(end);
                    continue;
                }
            };
            read.segments += 1;
            // Between two segments that are read, the numbers of their runs tell it.
            if let Some(hole) = unread.take().filter(|_| read.segments == 1) {
                read.holes.push(hole);
                give(vec![told(hole)]);
            }
            let is_open = is_written(&path);
            if !in_parts(reader, &mut merge, is_open, &mut give) {
                break;
            }
        }
        read.holes.extend_from_slice(merge.holes());
        if let Some(mut hole) = unread {
            hole.to = hole.to.min(to).max(hole.from);
            read.holes.push(hole);
            give(vec![told(hole)]);
        }
        Ok(read)
    }

    /// Opens a segment that may be renamed at the same time.
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

/// How far observations in a segment may be out of order, ns: sources stamp them on threads of their own.
const UNSORTED: i64 = 2 * SECOND;

/// Returns how many of these sorted observations no later one can precede.
fn ripe(waiting: &[Evidence]) -> usize {
    let newest = waiting.last().map_or(Nanos(0), |o| o.stamp.seen);
    let is_ripe = |o: &Evidence| newest.since(o.stamp.seen) >= UNSORTED;
    let old = waiting.iter().rposition(is_ripe).map_or(0, |n| n + 1);
    let is_step = |o: &Evidence| matches!(o.body, Body::ClockStep(_));
    old.max(waiting.iter().rposition(is_step).unwrap_or(0))
}

/// Gives `give` what a segment adds, in order of arrival and in parts. Only the state from the segment's begin and
/// the newest observations, of [`UNSORTED`], are in memory at a time. Returns false when `give` wants no more.
fn in_parts(
    reader: Reader,
    merge: &mut Merge,
    is_open: bool,
    mut give: impl FnMut(Vec<Evidence>) -> bool,
) -> bool {
    let (part, begin) = (reader.header.segment.clone(), reader.header.created);
    // If nothing was written before it, it may not say when its own time begins.
    let is_first = part.as_ref().is_none_or(|p| p.n == 0);
    // The carried state is taken when the segment's own time begins.
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
        // The segment was cut before its own time began.
        wanted = give(merge.begin(part, begin, stood));
    }
    wanted = wanted && give(merge.own(waiting));
    // A segment that is being written is always cut: that is not a loss.
    if wanted
        && !is_open
        && let Some(gap) = report.cut_at(last)
    {
        wanted = give(vec![gap]);
    }
    merge.end(report.until.map_or(last, |until| until.max(last)));
    wanted
}
