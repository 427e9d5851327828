//! A ring of segments on disk, each a session by itself.
//!
//! A spool is a folder of one process, which holds a lock on it. Observations go into the newest segment. A segment
//! is closed when it is old or large enough, and the next one begins with what is still valid: initial lists, calls
//! in flight. The oldest segments make room for new ones, first those that a store has too. A segment that has to be
//! dropped before a store has it is counted, and reported as a gap in the segment that is being written.
//!
//! Bytes are with the kernel half a second after they were observed, so `kill -9` costs at most that; the next
//! process closes a segment that was left open. When the disk is full or fails, the oldest segments make room. While
//! nothing can be written, writing is retried every few seconds, and observations that are not written are counted.
//! Ages count in recorded time, so that a clock that jumps drops nothing.

mod folder;
mod ring;
mod room;

use std::fs::File as FsFile;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kflow_model::clock::Reading;
use kflow_model::gap::Gap;
use kflow_model::session::format::Bound;
use kflow_model::session::{Carried, Header, Part, SessionError, Writer};
use kflow_model::units::{counted, size};
use kflow_model::{Body, Evidence, Nanos, Observation, Source, Stamp, Text};
use tracing::{info, warn};

use crate::name::File;
use folder::{files, order, recover, segment, take_folder};
use ring::State;
pub use ring::{Read, Ring, Segment, Status};
use room::is_full;

/// Longest time until bytes are handed to the kernel and free space is checked.
pub const FLUSH: Duration = Duration::from_millis(500);
/// Time after a failure until the disk is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// Longest time that a segment covers: a search for a time knows how much earlier a segment that reaches it can begin.
pub const LONGEST: Duration = Duration::from_secs(3600);

/// How much a spool keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Age at which a segment is closed, an hour at most.
    pub segment_age: Duration,
    /// Size at which a segment is closed, bytes of the file.
    pub segment_bytes: u64,
    /// Most bytes of all segments together.
    pub bytes: u64,
    /// Recorded time that is kept. Applies to segments that a store has, and to all if no store is to have them.
    pub age: Duration,
    /// Bytes of the file system that are left to others. With less free space nothing is written, and segments are
    /// dropped that a store has, or that no store is to have.
    pub free: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            segment_age: Duration::from_secs(300),
            segment_bytes: 16 << 20,
            bytes: 1 << 30,
            age: Duration::from_secs(24 * 3600),
            free: 256 << 20,
        }
    }
}

/// The node and the bounds of a spool.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The node, for the header of each segment; empty for a cluster.
    pub node: Text,
    pub bounds: Bounds,
    /// A store is to have every segment: one that is dropped before counts as a loss.
    pub owed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error("cannot {op} the spool {path}: {source}")]
    Io {
        /// The operation: `open`, `list`, `read`, `lock`, `rename`.
        op: &'static str,
        path: String,
        source: io::Error,
    },
    /// Another process writes the spool.
    #[error("the spool {path} is in use by another kflow: name another folder, or end that one")]
    Busy { path: String },
    /// The folder is readable for others.
    #[error(
        "the spool {path} can be read by others (mode {mode:o}), and what kflow sees is not for them: chmod 700 it, or name a folder that does not exist"
    )]
    Shared { path: String, mode: u32 },
    #[error(transparent)]
    Session(#[from] SessionError),
}

fn error(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SpoolError {
    let path = path.display().to_string();
    move |source| SpoolError::Io { op, path, source }
}
/// The segment that is being written.
#[derive(Debug)]
struct Current {
    writer: Writer,
    path: PathBuf,
    part: Part,
    opened: Instant,
    begin: Nanos,
    /// Arrival of the earliest and of the latest of its own observations.
    first: Nanos,
    last: Nanos,
    own: u64,
    /// The number of its own observations that are with the kernel, and the latest arrival among them.
    safe: (u64, Nanos),
    /// Bytes that it began with and that are about the time before it.
    began_with: u64,
    flushed: Instant,
}

/// The writing end of a spool. It blocks on the disk: run it on a thread of its own ([`Keeper`](crate::Keeper)).
#[derive(Debug)]
pub struct Spool {
    ring: Ring,
    options: Options,
    run: Text,
    n: u32,
    current: Option<Current>,
    carried: Carried,
    /// When to try the disk again, after a failure.
    retry: Option<Instant>,
    /// Losses to report: number of observations, and since when.
    unsaid: Option<(u64, Nanos)>,
    /// Dropped segments to report: how many, the observations in them, and the begin of the first.
    gone: Option<(u64, u64, Nanos)>,
    /// Held as long as the spool is open.
    _lock: FsFile,
}

impl Spool {
    /// Opens a spool: creates its folder if necessary, and closes a segment that was left open.
    pub fn open(dir: &Path, options: Options) -> Result<Self, SpoolError> {
        let run = format!("{:016x}", fastrand::u64(..));
        Self::open_as(dir, options, run.into())
    }

    /// The same, with a given name for its run.
    pub(crate) fn open_as(dir: &Path, options: Options, run: Text) -> Result<Self, SpoolError> {
        let lock = take_folder(dir)?;
        let mut state = State::default();
        for (path, file) in files(dir)? {
            let closed = match file {
                Some(File::Closed { .. }) => Some(path.clone()),
                Some(File::Open { begin, part }) => match recover(dir, &path, begin, part) {
                    Ok(closed) => {
                        state.status.empty += u64::from(closed.is_none());
                        closed
                    }
                    // One that a later kflow wrote, or that the disk does not give, costs no other.
                    Err(e) => {
                        warn!(path = %path.display(), why = %e, "a segment that was left open stays as it is");
                        state.status.unreadable += 1;
                        continue;
                    }
                },
                // Not a spool's file: left alone.
                None => continue,
            };
            state.segments.extend(closed.and_then(|p| segment(&p)));
        }
        order(&mut state.segments);
        state.status.bytes = state.segments.iter().map(|s| s.bytes).sum();
        let mut spool = Self {
            ring: Ring {
                dir: Arc::new(dir.to_owned()),
                state: Arc::new(Mutex::new(state)),
                queue: Arc::default(),
            },
            options,
            run,
            n: 0,
            current: None,
            carried: Carried::default(),
            retry: None,
            unsaid: None,
            gone: None,
            _lock: lock,
        };
        spool.make_room();
        Ok(spool)
    }

    /// The segments, for readers and uploaders.
    pub fn ring(&self) -> Ring {
        self.ring.clone()
    }

    /// Adds state from before the first observation, with which the first segment begins.
    pub(crate) fn carry(&mut self, o: &Evidence) {
        self.carried.take(Arc::clone(o));
    }

    /// Takes an observation. One that cannot be written is counted as lost.
    pub fn take(&mut self, o: &Evidence, now: Reading) {
        self.ring.lock().status.taken += 1;
        let by_another_clock = matches!(o.body, Body::ClockStep(_));
        if let Some(current) = &self.current
            && (by_another_clock || self.is_full(current, now.monotonic))
        {
            let until = if by_another_clock {
                current.last
            } else {
                now.wall
            };
            self.end(until, now);
        }
        self.begin(now);
        match &mut self.current {
            Some(current) => {
                let seen = o.stamp.seen;
                (current.first, current.last) = (current.first.min(seen), current.last.max(seen));
                current.own += 1;
                if let Err(e) = current.writer.write(o) {
                    self.fail(&e, now);
                }
            }
            None => self.lose(1, o.stamp.seen),
        }
        self.carried.take(Arc::clone(o));
        self.flush_when_due(now);
    }

    /// Flushes, closes, drops and retries what is due as time passes.
    pub fn tick(&mut self, now: Reading) {
        let full = |c: &Current| self.is_full(c, now.monotonic);
        if self.current.as_ref().is_some_and(full) {
            self.end(now.wall, now);
        }
        self.begin(now);
        self.flush_when_due(now);
    }

    /// Closes the segment that is being written, so that all observations so far are in closed ones.
    pub fn close(&mut self, now: Reading) {
        if self.unsaid.is_some() || self.gone.is_some() {
            self.begin(now);
        }
        self.end(now.wall, now);
    }

    fn is_full(&self, c: &Current, now: Instant) -> bool {
        let bounds = &self.options.bounds;
        let age = now.saturating_duration_since(c.opened);
        let old = age >= bounds.segment_age.min(LONGEST);
        // At least half of a segment is about its own time, however much state it begins with.
        let large = bounds.segment_bytes.max(c.began_with.saturating_mul(2));
        // Bytes that are not in a frame yet count uncompressed, so a segment may be closed before its file is that large.
        (old && c.own > 0) || age >= LONGEST || c.writer.bytes() >= large
    }

    fn lose(&mut self, n: u64, since: Nanos) {
        if n == 0 {
            return;
        }
        let unsaid = self.unsaid.get_or_insert((0, since));
        *unsaid = (unsaid.0 + n, unsaid.1.min(since));
        self.ring.lock().status.lost += n;
    }

    /// Opens a segment, if none is open and the disk may be tried.
    fn begin(&mut self, now: Reading) {
        let early = |at: Instant| at > now.monotonic;
        if self.current.is_some() || self.retry.is_some_and(early) {
            return;
        }
        self.make_room();
        if let Some(free) = self.space().filter(|free| *free < self.options.bounds.free) {
            let least = self.options.bounds.free;
            let why = format!(
                "its file system has {} left, and kflow leaves {} to others",
                size(free),
                size(least)
            );
            self.wait(why, now);
            return;
        }
        match self.opened(now) {
            Ok(current) => {
                let open = Some((current.path.clone(), current.begin));
                self.current = Some(current);
                let mut state = self.ring.lock();
                state.open = open;
                if state.status.failing.take().is_some() {
                    info!("the spool is written again");
                }
                drop(state);
                self.retry = None;
                self.tell(now);
            }
            Err(e) => self.refused(&e, now),
        }
    }

    fn opened(&mut self, now: Reading) -> Result<Current, SessionError> {
        let part = Part {
            run: self.run.clone(),
            n: self.n,
        };
        let begin = now.wall;
        let file = File::Open {
            begin,
            part: part.clone(),
        };
        let path = self.ring.dir.join(file.to_string());
        let mut header = Header::new(begin);
        header.node.clone_from(&self.options.node);
        header.segment = Some(part.clone());
        let write = || -> Result<Writer, SessionError> {
            let mut writer = Writer::record(&path, &header)?;
            // The first segment has nothing before it, unless the disk could not be written until now.
            if part.n > 0 || !self.carried.is_empty() {
                for o in self.carried.iter() {
                    writer.write(o)?;
                }
                writer.bound(Bound::From, begin);
            }
            writer.flush()?;
            Ok(writer)
        };
        let writer = write().inspect_err(|_| {
            // The file has no observation of its own.
            std::fs::remove_file(&path).ok();
        })?;
        self.n += 1;
        Ok(Current {
            began_with: writer.bytes(),
            writer,
            path,
            part,
            opened: now.monotonic,
            begin,
            first: Nanos(i64::MAX),
            last: Nanos(i64::MIN),
            own: 0,
            safe: (0, Nanos(i64::MIN)),
            flushed: now.monotonic,
        })
    }

    /// Writes gaps for what was lost.
    fn tell(&mut self, now: Reading) {
        let mut gaps = Vec::new();
        if let Some((lost, since)) = self.unsaid.take() {
            let why = "the disk of the spool could not be written".to_owned();
            gaps.push((lost, since, why));
        }
        if let Some((segments, lost, since)) = self.gone.take() {
            let why = format!("{} had to go unsent: no room", counted(segments, "segment"));
            gaps.push((lost, since, why));
        }
        let Some(current) = &mut self.current else {
            return;
        };
        for (lost, since, why) in gaps {
            let gap = Observation {
                stamp: Stamp::exact(now.wall.max(since)),
                source: Source::Kflow,
                body: Body::Gap(Box::new(Gap {
                    of: Source::Kflow,
                    since,
                    lost,
                    conn: 0,
                    resource: Text::new(Gap::SEGMENTS),
                    why: why.into(),
                })),
            };
            let seen = gap.stamp.seen;
            (current.first, current.last) = (current.first.min(seen), current.last.max(seen));
            current.own += 1;
            if let Err(e) = current.writer.write(&gap) {
                self.fail(&e, now);
                return;
            }
        }
    }

    fn flush_when_due(&mut self, now: Reading) {
        let Some(c) = &mut self.current else { return };
        if now.monotonic.saturating_duration_since(c.flushed) < FLUSH {
            return;
        }
        c.flushed = now.monotonic;
        if let Err(e) = c.writer.flush() {
            self.fail(&e, now);
            return;
        }
        c.safe = (c.own, c.last);
        self.make_room();
        if self.gone.is_some() {
            self.tell(now);
        }
        if let Some(free) = self.space()
            && free < self.options.bounds.free
        {
            self.end(now.wall, now);
            self.begin(now);
        }
    }

    /// Closes the segment that is being written.
    fn end(&mut self, until: Nanos, now: Reading) {
        let Some(mut c) = self.current.take() else {
            return;
        };
        let flushed = c.writer.flush();
        if let Err(e) = flushed {
            self.current = Some(c);
            self.fail(&e, now);
            return;
        }
        c.safe = (c.own, c.last);
        let until = until.max(c.last);
        c.writer.bound(Bound::Until, until);
        let (path, begin, part) = (c.path, c.begin.min(c.first), c.part);
        match c.writer.finish() {
            Ok(_) => self.closed(&path, begin, until.max(begin), part, c.own),
            // The end may or may not be on the disk: what was handed to the kernel counts as written until it is read.
            Err(e) => {
                warn!(why = %e, "a segment's end was not written");
                self.closed(&path, begin, c.last.max(begin), part, c.own);
            }
        }
    }

    /// After a failure of the disk: closes the segment where it is readable.
    fn fail(&mut self, e: &SessionError, now: Reading) {
        let Some(c) = self.current.take() else { return };
        let (safe, last) = c.safe;
        self.lose(c.own - safe, c.first.min(now.wall));
        // The next segment does not continue this one.
        self.n += 1;
        let (path, begin, part) = (c.path, c.begin.min(c.first), c.part);
        drop(c.writer);
        if safe > 0 {
            self.closed(&path, begin, last.max(begin), part, safe);
        } else {
            self.ring.lock().open = None;
            std::fs::remove_file(&path).ok();
        }
        self.refused(e, now);
    }

    /// After a failure of the disk. If it is full, the oldest segment makes room for new observations.
    fn refused(&mut self, e: &SessionError, now: Reading) {
        self.wait(e.to_string(), now);
        if is_full(e) && self.drop_one(true) {
            self.retry = None;
        }
    }

    fn wait(&mut self, why: String, now: Reading) {
        let mut state = self.ring.lock();
        if state.status.failing.as_ref() != Some(&why) {
            warn!(%why, "the spool is not written");
        }
        state.status.failing = Some(why);
        drop(state);
        self.retry = Some(now.monotonic + RETRY);
    }

    /// Renames a complete file to the name of a closed segment. Readers find it under one of its names at any time.
    fn closed(&mut self, path: &Path, begin: Nanos, end: Nanos, part: Part, observations: u64) {
        let file = File::Closed {
            begin,
            end,
            part: part.clone(),
            observations,
            sent: false,
        };
        let to = self.ring.dir.join(file.to_string());
        let mut state = self.ring.lock();
        state.open = None;
        let renamed = std::fs::rename(path, &to);
        if let Err(e) = renamed {
            // The next process closes it.
            warn!(path = %path.display(), why = %e, "a segment keeps its name");
            return;
        }
        state.segments.extend(segment(&to));
        state.status.bytes = state.segments.iter().map(|s| s.bytes).sum();
        drop(state);
        // It is seldom read soon, and its pages in the cache would count as this process's memory.
        #[cfg(target_os = "linux")]
        if let Ok(written) = FsFile::open(&to) {
            rustix::fs::fadvise(&written, 0, None, rustix::fs::Advice::DontNeed).ok();
        }
    }
}

#[cfg(test)]
mod tests;
