//! The recorder: a tee with a thread of its own, the only one that touches the disk: it opens, writes, rotates, syncs
//! and closes files. The engine hands it observations and never waits for it; callers that wait for a recording to
//! open or to close do so through a [`Recording`], with a limit.
//!
//! An observation that finds the channel full is counted and recorded as a gap. Everything is with the kernel a
//! second after it was seen, so `kill -9` costs at most that. When the disk fails, the recording ends in a readable
//! state and says so.

use std::collections::VecDeque;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::{info, info_span, warn};

use crate::ObservationLog;
use kflow_core::selection::Selection;
use kflow_model::Evidence;
use kflow_model::clock;
use kflow_model::gap::Gap;
use kflow_model::session::Carried;
use kflow_model::session::format::Bound;
use kflow_model::session::{Header, SessionError, Writer};
use kflow_model::turns::Turns;
use kflow_model::units::wait;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};

mod family;
mod files;
mod kept;
mod pods;

use files::Files;
pub use files::{KEEP, numbered};
pub use kept::Kept;
use pods::PodFilter;

/// Most observations that wait for the disk.
const ROOM: usize = 1 << 16;
/// How long a file system may take to create the file.
const OPEN: Duration = Duration::from_secs(5);
/// Longest wait for a recording to end when kflow ends.
pub const CLOSE: Duration = Duration::from_secs(30);
/// Longest time until bytes are handed to the kernel.
const FLUSH: Duration = Duration::from_millis(500);
/// Observations that are handled per turn; each is redacted and written.
const TURN: usize = 8;

/// What to record, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file, which must not exist; `-` is standard output.
    pub path: PathBuf,
    /// Size at which a new file begins, bytes.
    pub max_size: Option<u64>,
    /// Records only this pod: `ns/name`, `name`, `pod/name`, a UID or the start of one; or the pods of `kind/name`,
    /// `ns/kind/name`, `node/name`.
    pub pod: Option<String>,
    /// Name of the node, for the header.
    pub node: Text,
}

/// State of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The file that is being written.
    pub path: PathBuf,
    /// Observations written, over all files.
    pub observations: u64,
    /// Of the observations, those in files that were removed because newer ones took their place.
    pub removed: u64,
    /// Bytes written, over all files.
    pub bytes: u64,
    /// Observations lost because the channel was full.
    pub lost: u64,
    /// If only some pods are recorded: the number of observations about other pods, which are not in the recording,
    /// and of observations that name no pod, which are.
    pub only: Option<(u64, u64)>,
    /// How it has ended; `None` while it goes on.
    pub ended: Option<Ended>,
}

/// How a recording ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As requested: the file is complete.
    Closed,
    /// By itself: says why, and how far the file can be read.
    Failed(String),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Closed => "stopped",
            Self::Failed(why) => why,
        })
    }
}

/// What the recorder's thread receives.
enum Given {
    /// Observations from before the recording began.
    History(Box<ObservationLog>),
    One(Evidence),
}

/// The sending end of a recording. When it is dropped, the rest is written and the file closed; nothing waits for that.
#[derive(Debug)]
pub struct Recorder {
    to: SyncSender<Given>,
    recording: Recording,
    lost: Arc<AtomicU64>,
}

/// The state of a recording, to read or to wait for. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recording {
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Recording {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn state(&self) -> State {
        self.lock().clone()
    }
    /// Waits for at most `limit` until the recording has ended: [`State::ended`] says whether it has.
    pub fn wait(&self, limit: Duration) -> State {
        let waited = self
            .shared
            .1
            .wait_timeout_while(self.lock(), limit, |s| s.ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
    fn ended(&self, how: Ended) {
        self.lock().ended = Some(how);
        self.shared.1.notify_all();
    }
}

/// On drop, marks the recording as ended if the thread has not, as after a panic.
struct Ending(Recording);

impl Drop for Ending {
    fn drop(&mut self) {
        if self.0.state().ended.is_none() {
            let why = "the recorder failed (a bug in kflow)".to_owned();
            self.0.ended(Ended::Failed(why));
        }
    }
}

impl Recorder {
    /// Creates the file. A file system that does not answer within 5 s is an error.
    pub fn start(options: Options, selection: Arc<Selection>) -> Result<Self, SessionError> {
        let recording = Recording {
            shared: Arc::new((
                Mutex::new(State {
                    path: options.path.clone(),
                    observations: 0,
                    removed: 0,
                    bytes: 0,
                    lost: 0,
                    only: None,
                    ended: None,
                }),
                Condvar::new(),
            )),
        };
        let lost = Arc::new(AtomicU64::new(0));
        let (to, from) = sync_channel(ROOM);
        let (opened, open_told) = sync_channel(1);
        let path = options.path.clone();
        let failed = |source| SessionError::Io {
            op: "create",
            path: path.display().to_string(),
            source,
        };
        let (its, losses) = (recording.clone(), Arc::clone(&lost));
        std::thread::Builder::new()
            .name("kflow-record".into())
            .spawn(move || {
                let _ending = Ending(its.clone());
                let writer = match open(&options, &selection) {
                    Ok(w) => w,
                    Err(e) => {
                        its.ended(Ended::Failed(e.to_string()));
                        // The caller may have stopped waiting.
                        opened.send(Err(e)).ok();
                        return;
                    }
                };
                if opened.send(Ok(())).is_err() {
                    return;
                }
                Tape {
                    writer,
                    files: Files::new(&options.path),
                    before: (0, 0),
                    kept: VecDeque::new(),
                    removed: 0,
                    told: 0,
                    carried: Carried::default(),
                    began_with: 0,
                    filter: PodFilter::new(options.pod.as_deref(), Arc::clone(&selection)),
                    selection,
                    recording: its,
                    lost: losses,
                    options,
                }
                .run(&from);
            })
            .map_err(failed)?;
        match open_told.recv_timeout(OPEN) {
            Ok(opened) => opened?,
            Err(RecvTimeoutError::Timeout) => {
                return Err(failed(std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    format!("its file system has not answered for {}", wait(OPEN)),
                )));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed(std::io::Error::other("the recorder failed")));
            }
        }
        Ok(Self {
            to,
            recording,
            lost,
        })
    }

    /// Takes an observation, or counts it as lost. Never blocks.
    pub fn take(&self, o: &Evidence) {
        self.give(Given::One(Arc::clone(o)), 1);
    }

    /// Takes the observations from before the recording began. Never blocks: the log is shared, not copied.
    pub fn take_history(&self, all: ObservationLog) {
        let n = (all.carried() + all.len()) as u64;
        self.give(Given::History(Box::new(all)), n);
    }

    fn give(&self, what: Given, n: u64) {
        // A thread that has ended has said why; what it did not take is not a gap inside the recording.
        if let Err(TrySendError::Full(_)) = self.to.try_send(what) {
            self.lost.fetch_add(n, Ordering::Relaxed);
        }
    }

    pub fn state(&self) -> State {
        self.recording.state()
    }

    /// Returns a handle with which the end can be waited for.
    pub fn recording(&self) -> Recording {
        self.recording.clone()
    }

    /// Has the rest written and the file closed; waits for that for at most 30 s.
    pub fn stop(self) -> State {
        let recording = self.recording();
        drop(self);
        recording.wait(CLOSE)
    }
}

fn open(options: &Options, selection: &Selection) -> Result<Writer, SessionError> {
    let mut header = Header::new(clock::now());
    header.node.clone_from(&options.node);
    if let Some(pod) = &options.pod {
        header.notes.push(Text::from(format!("only pod {pod}")));
    }
    if !selection.is_all() {
        let scope = selection.scope().name();
        header.notes.push(Text::from(format!("only {scope}")));
    }
    if options.path.as_os_str() == "-" {
        let file = std::io::stdout().as_fd().try_clone_to_owned();
        let file = file.map_err(|source| SessionError::Io {
            op: "open",
            path: "standard output".to_owned(),
            source,
        })?;
        return Writer::stream(file.into(), "on standard output", &header);
    }
    Writer::record(&options.path, &header)
}

struct Tape {
    writer: Writer,
    options: Options,
    files: Files,
    /// Observations and bytes of the files before this one.
    before: (u64, u64),
    /// Observations of each of those files that is kept, the oldest first.
    kept: VecDeque<u64>,
    removed: u64,
    /// Losses that are recorded already.
    told: u64,
    carried: Carried,
    /// Bytes that the file begins with and that are about the time before it.
    began_with: u64,
    filter: Option<PodFilter>,
    selection: Arc<Selection>,
    recording: Recording,
    lost: Arc<AtomicU64>,
}

impl Tape {
    fn run(mut self, from: &Receiver<Given>) {
        let _recording = info_span!("recorder", path = %self.options.path.display()).entered();
        info!("begins");
        let ended = self.record(from);
        let ended = ended.and_then(|()| self.writer.flush());
        self.publish();
        let ended = match ended {
            Ok(()) => {
                self.writer.bound(Bound::Until, clock::now());
                self.writer.finish().map(|_| ())
            }
            Err(e) => Err(e),
        };
        let ended = match ended {
            Ok(()) => Ended::Closed,
            Err(e) => Ended::Failed(format!("{e}; the file is readable up to its last second")),
        };
        info!(why = %ended, "ends");
        self.recording.ended(ended);
    }

    fn record(&mut self, from: &Receiver<Given>) -> Result<(), SessionError> {
        let mut flushed = clock::monotonic();
        let mut turns = Turns::of(TURN);
        loop {
            let given = from.try_recv().or_else(|_| {
                turns.waited();
                from.recv_timeout(FLUSH)
            });
            match given {
                Ok(Given::One(o)) => {
                    self.take(&o, &mut flushed)?;
                    turns.done();
                }
                Ok(Given::History(all)) => {
                    for (n, o) in all.history().enumerate() {
                        if n > 0 && n == all.carried() {
                            self.writer.bound(Bound::From, o.stamp.seen);
                        }
                        self.take(o, &mut flushed)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.flush_when_due(&mut flushed)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn take(&mut self, o: &Evidence, flushed: &mut Instant) -> Result<(), SessionError> {
        let kept = match &mut self.filter {
            Some(only) => only.keep(o),
            None => Some(Arc::clone(o)),
        };
        if let Some(o) = kept {
            self.tell_losses(o.stamp.seen)?;
            self.writer.write(&o)?;
            if self.options.max_size.is_some() {
                self.carried.take(o);
            }
        }
        self.flush_when_due(flushed)?;
        if self.is_full() {
            self.writer.flush()?;
            // The bytes flushed just now counted uncompressed before: the file may be far from full.
            if self.is_full() {
                self.rotate()?;
            }
        }
        Ok(())
    }

    /// At least half of a file is about its own time, however much state it begins with.
    fn is_full(&self) -> bool {
        let bytes = self.writer.bytes();
        let max = self.options.max_size;
        max.is_some_and(|max| bytes >= max.max(self.began_with.saturating_mul(2)))
    }

    fn flush_when_due(&mut self, flushed: &mut Instant) -> Result<(), SessionError> {
        let now = clock::monotonic();
        if now.saturating_duration_since(*flushed) >= FLUSH {
            self.writer.flush()?;
            *flushed = now;
            self.publish();
        }
        Ok(())
    }

    /// Records losses as a gap. They came after `since`, the arrival of the next observation written: no more fitted
    /// behind that one.
    fn tell_losses(&mut self, since: Nanos) -> Result<(), SessionError> {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost == self.told {
            return Ok(());
        }
        warn!(lost = lost - self.told, "the disk is too slow");
        let gap = Observation {
            stamp: Stamp::exact(clock::now().max(since)),
            source: Source::Kflow,
            body: Body::Gap(Box::new(Gap {
                of: Source::Kflow,
                since,
                lost: lost - self.told,
                conn: 0,
                resource: Text::default(),
                why: Text::new("the disk was too slow for the recording"),
            })),
        };
        self.told = lost;
        self.writer.write(&gap)
    }

    /// Gives the current file a number, and starts a new one under its name.
    fn rotate(&mut self) -> Result<(), SessionError> {
        info!(bytes = self.writer.bytes(), "rotates");
        self.before.0 += self.writer.observations();
        self.before.1 += self.writer.bytes();
        let file = self.writer.handle()?;
        self.kept.push_back(self.writer.observations());
        for _ in 0..self.files.aside(file)? {
            self.removed += self.kept.pop_front().unwrap_or(0);
        }
        let now = clock::now();
        let mut full = std::mem::replace(&mut self.writer, open(&self.options, &self.selection)?);
        // The writer still has the renamed file open.
        full.bound(Bound::Until, now);
        full.finish()?;
        for o in self.carried.iter() {
            self.writer.write(o)?;
        }
        self.writer.bound(Bound::From, now);
        self.writer.flush()?;
        self.began_with = self.writer.bytes();
        Ok(())
    }

    fn publish(&self) {
        let mut state = self.recording.lock();
        state.observations = self.before.0 + self.writer.observations();
        state.removed = self.removed;
        state.bytes = self.before.1 + self.writer.bytes();
        state.lost = self.lost.load(Ordering::Relaxed);
        state.only = self.filter.as_ref().map(|f| (f.left_out, f.unnamed));
    }
}
