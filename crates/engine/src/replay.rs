//! A player of sessions: cursor, speed, steps, seeking.
//!
//! A loader thread reads the session and runs a world over it once, keeping clones as checkpoints on the way. The
//! player has a position in the log; it moves forward by observing, and back or far by starting from a checkpoint.
//! "As of TIME" means: of the observations whose `seen` is not after TIME ([`ObservationLog::arrived_by`]).
//!
//! The player never reads a clock: [`Player::tick`] is given the time of the monotonic clock.

mod listed;
mod load;
mod step;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Pipeline;
use super::overview::{Looking, Overview};
use super::snapshot::{Mode, ObservationLog, Snapshot, SourceStatus, Status, own};
use kflow_core::correlate::World;
use kflow_core::diagnose::unknown::{Unknown, outside};
use kflow_core::query::Moment;
use kflow_core::selection::Selection;
use kflow_model::gap::Note;
use kflow_model::session::reader::Progress;
use kflow_model::session::{self, Header, Reader, Report, SessionError, format};
use kflow_model::{Body, Evidence, Nanos, Observation, Source, Stamp, Text};
use load::{Checkpoint, Loaded, Loader};

/// Most observations taken in one tick when the speed is "as fast as it goes".
const FASTEST: usize = 10_000;

/// A note that has yet to be saved into its session.
#[derive(Debug)]
pub struct Append {
    path: PathBuf,
    /// The session is known not to be cut at its end.
    whole: bool,
    compressed: bool,
    note: Observation,
}

impl Append {
    /// Appends the note to the file. Blocks on the disk.
    pub fn save(self) -> Result<(), SessionError> {
        let notes = std::slice::from_ref(&self.note);
        if self.whole {
            session::writer::append_whole(&self.path, self.compressed, notes)
        } else {
            session::append(&self.path, notes)
        }
    }
}

/// A session that can be walked through.
#[derive(Debug)]
pub struct Player {
    name: Text,
    path: Option<PathBuf>,
    header: Header,
    compressed: bool,
    progress: Progress,
    inbox: Arc<Mutex<Option<Loaded>>>,
    stop: Arc<AtomicBool>,
    loaded: Loaded,

    pipeline: Pipeline,
    /// Number of observations that the world has seen.
    position: usize,
    cursor: Nanos,
    start: Option<Moment>,
    /// The begin is passed over until it is known what there is.
    once_listed: bool,
    /// If the moment to begin at is not in the session: why, and the cursor that is shown instead.
    outside: Option<(Unknown, Nanos)>,
    playing: bool,
    speed_permille: u32,
    ticked: Option<Instant>,
    /// Playing advances the cursor by less than 1 ns a tick at very low speeds: the remainder, ns × 1000.
    remainder: i64,

    /// The thread that looks for incidents, once everything is read. Its last result is in `overview`.
    looking: Option<Looking>,
    overview: Arc<Overview>,
    /// Notes that were made since the session was opened.
    notes: Vec<Evidence>,

    version: u64,
    shown: Option<Arc<Snapshot>>,
}

impl Drop for Player {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Player {
    /// Opens a session and starts to load it. The player is paused, at real-time speed.
    pub fn open(
        path: &Path,
        start: Moment,
        selection: Arc<Selection>,
    ) -> Result<Self, SessionError> {
        let reader = Reader::open(path)?;
        let name = path.file_name().map_or_else(
            || path.display().to_string(),
            |n| n.to_string_lossy().into_owned(),
        );
        let mut p = Self::new(reader, &name, start, selection);
        p.path = (path.as_os_str() != "-").then(|| path.to_owned());
        Ok(p)
    }

    /// A player of what a reader gives.
    pub fn new(reader: Reader, name: &str, start: Moment, selection: Arc<Selection>) -> Self {
        let header = reader.header.clone();
        let (compressed, progress) = (reader.compressed, reader.progress());
        let inbox = Arc::new(Mutex::new(None));
        let stop = Arc::new(AtomicBool::new(false));
        let loader = Loader::new(
            Arc::clone(&inbox),
            Arc::clone(&stop),
            Arc::clone(&selection),
            progress.clone(),
        );
        std::thread::spawn(move || loader.run(reader));
        Self {
            name: name.into(),
            path: None,
            cursor: header.created,
            header,
            compressed,
            progress,
            inbox,
            stop,
            loaded: Loaded::default(),
            pipeline: Pipeline::selecting(selection),
            position: 0,
            start: Some(start),
            once_listed: false,
            outside: None,
            playing: false,
            speed_permille: 1000,
            ticked: None,
            remainder: 0,
            looking: None,
            overview: Arc::default(),
            notes: Vec::new(),
            version: 1,
            shown: None,
        }
    }

    /// Opens the session where its first lists have been read, if it was to be opened at its begin.
    #[must_use]
    pub const fn once_listed(mut self) -> Self {
        self.once_listed = true;
        self
    }

    /// The session's header.
    pub const fn header(&self) -> &Header {
        &self.header
    }
    /// The result of reading; `None` while reading goes on.
    pub const fn report(&self) -> Option<&Report> {
        self.loaded.report.as_ref()
    }
    /// Observations read so far.
    pub const fn len(&self) -> usize {
        self.loaded.log.len()
    }
    /// True when nothing was read yet.
    pub const fn is_empty(&self) -> bool {
        self.loaded.log.is_empty()
    }
    /// Everything read so far, including what is after the cursor: for searching ahead.
    pub const fn all(&self) -> &ObservationLog {
        &self.loaded.log
    }
    pub const fn cursor(&self) -> Nanos {
        self.cursor
    }
    /// Number of observations up to the cursor.
    pub const fn position(&self) -> usize {
        self.position
    }
    /// True while it plays.
    pub const fn playing(&self) -> bool {
        self.playing
    }
    /// Begin and end of what was recorded, as far as it was read.
    pub fn range(&self) -> (Nanos, Nanos) {
        let log = &self.loaded.log;
        let of_observations = match (
            log.get(0),
            log.len().checked_sub(1).and_then(|n| log.get(n)),
        ) {
            (Some(_), Some(b)) => (log.earliest().unwrap_or(b.stamp.seen), b.stamp.seen),
            _ => return (self.header.created, self.header.created),
        };
        let report = self.loaded.report.as_ref();
        report.map_or(of_observations, |r| r.bounds(of_observations))
    }

    /// Plays or pauses. Playing at the end starts again from the beginning.
    pub fn set_playing(&mut self, playing: bool) {
        if playing && self.loaded.report.is_some() && self.cursor >= self.range().1 {
            self.seek(self.range().0);
        }
        if self.playing != playing {
            self.playing = playing;
            self.ticked = None;
            self.version += 1;
        }
        if playing && !matches!(self.start, Some(Moment::At(_))) && self.position > 0 {
            self.start = None;
        }
    }

    /// Sets the speed in thousandths of real time; 0 is as fast as it goes.
    pub fn set_speed(&mut self, permille: u32) {
        self.speed_permille = permille;
        self.remainder = 0;
        self.version += 1;
    }

    /// Takes what was loaded since the last call, and moves the cursor by the time that has passed. Returns true when
    /// a new [`snapshot`](Self::snapshot) shows something else.
    pub fn tick(&mut self, now: Instant) -> bool {
        let before = self.version;
        self.take_loaded();
        self.take_overview();
        let elapsed = self
            .ticked
            .map_or(Duration::ZERO, |t| now.saturating_duration_since(t));
        self.ticked = Some(now);
        if self.playing && self.start.is_none() {
            self.advance(i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX));
        }
        self.version != before
    }

    fn advance(&mut self, elapsed: i64) {
        let (_, end) = self.range();
        let to = if self.speed_permille == 0 {
            let next = (self.position + FASTEST).min(self.len());
            next.checked_sub(1)
                .and_then(|n| self.loaded.log.get(n))
                .map_or(self.cursor, |o| o.stamp.seen)
        } else {
            let thousandths =
                i128::from(elapsed) * i128::from(self.speed_permille) + i128::from(self.remainder);
            self.remainder = (thousandths % 1000) as i64;
            let ns = i64::try_from(thousandths / 1000).unwrap_or(i64::MAX);
            self.cursor.plus(ns).min(end.max(self.cursor))
        };
        self.go(to);
        if self.cursor >= end && self.loaded.report.is_some() {
            self.playing = false;
            self.version += 1;
        }
    }

    /// Starts to look for incidents as soon as everything is read, and takes what was found.
    fn take_overview(&mut self) {
        if self.looking.is_none() && self.loaded.report.is_some() {
            let selection = Arc::clone(self.pipeline.world().selection());
            self.looking = Looking::begin(self.loaded.log.clone(), selection, self.range());
        }
        if let Some(mut overview) = self.looking.as_ref().and_then(Looking::news) {
            for note in &self.notes {
                overview = overview.noted(note.stamp.seen);
            }
            self.overview = Arc::new(overview);
            self.version += 1;
        }
    }

    /// The incidents of the session, as far as they are known.
    pub const fn overview(&self) -> &Arc<Overview> {
        &self.overview
    }

    fn take_loaded(&mut self) {
        let news = self
            .inbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(news) = news else { return };
        let reordered = news.reordered != self.loaded.reordered;
        self.loaded = news;
        self.version += 1;
        // The loader knows the notes only that it read from the file.
        for note in &self.notes {
            self.loaded.put(note);
        }
        if reordered || !self.notes.is_empty() {
            // Earlier observations have changed, or notes lie elsewhere among them: the state at the cursor is built
            // anew.
            self.jump(self.loaded.log.arrived_by(self.cursor));
        }
        if let Some(start) = self.start
            && !self.is_empty()
        {
            let (begin, end) = self.range();
            let whole = self.loaded.report.is_some();
            let listed = match start {
                Moment::Begin if self.once_listed => self.loaded.lists.opening(whole),
                _ => Ok(None),
            };
            let wanted = match listed {
                Ok(Some(at)) => at,
                Ok(None) | Err(()) => start.within((begin, end), None, |_| 0),
            };
            let to = wanted.clamp(begin, end);
            let within = match start {
                Moment::Begin => listed.is_ok(),
                Moment::At(_) | Moment::Local(_) | Moment::Clock(_) | Moment::Later(_) => to < end,
                Moment::End | Moment::Share(_) | Moment::Earlier(_) => false,
            };
            if within || self.loaded.report.is_some() {
                self.start = None;
                self.outside = outside(Some((begin, end)), wanted).map(|why| (why, to));
            }
            self.go(to);
        } else if !self.playing && self.position < self.len() {
            // What lies before the cursor may only have been read now.
            self.go(self.cursor);
        }
    }

    /// Moves the cursor to a moment, clamped to the session.
    pub fn seek(&mut self, to: Nanos) {
        self.start = None;
        let (begin, end) = self.range();
        self.go(to.max(begin).min(end.max(begin)));
    }

    /// Moves the cursor to the end, and keeps it there while loading goes on.
    pub fn seek_end(&mut self) {
        let end = self.range().1;
        self.seek(end);
        if self.loaded.report.is_none() {
            self.start = Some(Moment::End);
        }
    }

    fn go(&mut self, to: Nanos) {
        let target = self.loaded.log.arrived_by(to);
        self.place(target);
        if self.cursor != to {
            self.cursor = to;
            self.version += 1;
        }
    }

    /// Brings the world to a position, by the shorter way: from here, or from a checkpoint.
    fn place(&mut self, target: usize) {
        let best = self.checkpoint(target);
        let from_here = target >= self.position
            && best.is_none_or(|c| target - self.position <= target - c.position);
        if from_here {
            self.run_to(target);
        } else {
            self.jump(target);
        }
    }

    /// A world that has seen nothing.
    fn empty(&self) -> World {
        World::selecting(Arc::clone(self.pipeline.world().selection()))
    }

    /// Builds the state at a position from the nearest checkpoint before it.
    fn jump(&mut self, target: usize) {
        let (position, world) = self.before(target);
        // Frees what was derived for the last picture before more is derived for the next.
        self.shown = None;
        self.pipeline = Pipeline::resume(world, self.loaded.log.prefix(position), 0);
        self.position = position;
        self.version += 1;
        self.run_to(target);
    }

    fn run_to(&mut self, target: usize) {
        while self.position < target {
            let Some(o) = self.loaded.log.get(self.position) else {
                break;
            };
            self.pipeline.observe(Arc::clone(o));
            self.position += 1;
            self.version += 1;
        }
    }

    /// Returns the nearest world that is not after a position, and the number of observations that it has seen.
    fn before(&self, upto: usize) -> (usize, World) {
        match self.checkpoint(upto) {
            Some(c) => {
                c.world.summarise();
                (c.position, c.world.afresh())
            }
            None => (0, self.empty()),
        }
    }

    fn checkpoint(&self, upto: usize) -> Option<&Checkpoint> {
        let n = self
            .loaded
            .checkpoints
            .partition_point(|c| c.position <= upto);
        self.loaded.checkpoints.get(n.checked_sub(1)?)
    }

    /// Makes a note at the cursor. Returns what saves it into the session's file; `None` where there is no file
    /// (standard input, the demo).
    pub fn note(&mut self, text: &str) -> Option<Append> {
        let note = format::redacted(Observation {
            stamp: Stamp::exact(self.cursor),
            source: Source::Kflow,
            body: Body::Note(Box::new(Note { text: text.into() })),
        });
        let append = self.path.clone().map(|path| Append {
            path,
            // While a session is being read, it is not known whether its end is cut.
            whole: matches!(&self.loaded.report, Some(r) if r.cut.is_none()),
            compressed: self.compressed,
            note: note.clone(),
        });
        let note = Arc::new(note);
        self.loaded.put(&note);
        self.notes.push(note);
        self.overview = Arc::new(self.overview.noted(self.cursor));
        self.place(self.loaded.log.arrived_by(self.cursor));
        self.version += 1;
        append
    }

    /// What of the session could not be read, as a source's status.
    fn incomplete(&self) -> Option<SourceStatus> {
        let report = self.loaded.report.as_ref()?;
        let sentence = report.sentence();
        (!sentence.is_empty()).then(|| SourceStatus {
            lost: report.malformed,
            count: report.observations,
            ..SourceStatus::new(Source::Kflow, own::SESSION, Status::Off(sentence.into()))
        })
    }

    /// Why another moment is shown than the one asked for, as a source's status.
    fn elsewhere(&self) -> Option<SourceStatus> {
        let (why, shown) = self.outside.as_ref()?;
        (*shown == self.cursor && !self.playing).then(|| own::elsewhere(why))
    }

    /// Returns the picture at the cursor; the same `Arc` while nothing has changed.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        if let Some(s) = &self.shown
            && s.version == self.version
        {
            return Arc::clone(s);
        }
        let mode = Mode::Replay {
            name: self.name.clone(),
            playing: self.playing,
            speed_permille: self.speed_permille,
            loading_permille: if self.loaded.report.is_some() {
                1000
            } else {
                self.progress.permille().min(999)
            },
        };
        let range = self.range();
        self.pipeline.look_back(Arc::clone(&self.loaded.hindsight));
        let mut s = self.pipeline.snapshot(self.cursor, mode, range, Vec::new());
        s.version = self.version;
        s.overview = Arc::clone(&self.overview);
        s.sources.extend(self.incomplete());
        s.sources.extend(self.elsewhere());
        let s = Arc::new(s);
        self.shown = Some(Arc::clone(&s));
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_is_made_while_the_session_is_read_stays_and_hides_nothing() {
        let all: Vec<Evidence> = (1..=9)
            .map(|n| {
                Arc::new(Observation {
                    stamp: Stamp::exact(Nanos(n)),
                    source: Source::Kflow,
                    body: Body::Note(Box::new(Note {
                        text: n.to_string().into(),
                    })),
                })
            })
            .collect();
        let read = |n: usize| Loaded {
            log: all.iter().take(n).cloned().collect(),
            ..Loaded::default()
        };
        let header = serde_json::to_string(&Header::new(Nanos(0))).unwrap();
        let reader = Reader::new("session", Box::new(std::io::Cursor::new(header)), 0).unwrap();
        let mut p = Player::new(reader, "session", Moment::Begin, Arc::default());
        // What the loader would publish is given by hand from here on.
        while p.report().is_none() {
            p.take_loaded();
            std::thread::yield_now();
        }
        let publish = |p: &mut Player, n: usize| {
            *p.inbox.lock().unwrap() = Some(read(n));
            p.take_loaded();
        };
        publish(&mut p, 5);
        p.seek(Nanos(3));
        p.note("look here");
        assert_eq!((p.position(), p.len()), (4, 6));
        publish(&mut p, 9);
        assert_eq!((p.position(), p.len()), (4, 10));
        p.seek(Nanos(9));
        let seen: Vec<String> = p
            .pipeline
            .log()
            .iter()
            .map(|o| match &o.body {
                Body::Note(n) => n.text.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(seen.join(" "), "1 2 3 look here 4 5 6 7 8 9");
        // A note that was read from the file is there once.
        let note = p.notes.clone();
        let mut loaded = read(9);
        loaded.put(&note[0]);
        loaded.put(&note[0]);
        assert_eq!(loaded.log.len(), 10);
    }
}
