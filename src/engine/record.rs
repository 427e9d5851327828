//! The recorder: a tee with a thread of its own. The engine never waits for the disk.
//!
//! What finds no room is counted and recorded as a gap. Everything is with the kernel a second after it was seen, so
//! `kill -9` costs at most that. When the disk refuses, the recording ends where it is readable, and says so.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock;
use crate::model::gap::Gap;
use crate::model::stamp::SECOND;
use crate::model::{Body, Nanos, Observation, Source, Stamp, Text};
use crate::session::{Header, SessionError, Writer};
use crate::timeline::Evidence;

mod files;
mod only;

use files::Files;
pub use files::{KEEP, numbered};
use only::Only;

/// Observations that may wait for the disk.
const ROOM: usize = 1 << 16;
/// How often at least bytes go to the kernel.
const FLUSH: Duration = Duration::from_millis(500);

/// What to record, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file, which must not exist.
    pub path: PathBuf,
    /// Size at which a new file begins, bytes.
    pub max_size: Option<u64>,
    /// Only this pod: `ns/name` or a uid.
    pub pod: Option<String>,
    /// The node, for the header.
    pub node: Text,
}

/// How a recording stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The file that is being written.
    pub path: PathBuf,
    /// Observations written, over all files.
    pub observations: u64,
    /// Bytes written, over all files.
    pub bytes: u64,
    /// Observations that found no room.
    pub lost: u64,
    /// Of a recording of one pod: observations about other pods, which are not in it, and observations that name no
    /// pod, which are.
    pub only: Option<(u64, u64)>,
    /// Why it has stopped, when it has.
    pub stopped: Option<String>,
}

/// A recording that runs. Dropping it ends it orderly.
#[derive(Debug)]
pub struct Recorder {
    to: Option<SyncSender<Evidence>>,
    thread: Option<JoinHandle<()>>,
    state: Arc<Mutex<State>>,
    lost: Arc<AtomicU64>,
    filter: Option<Only>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Creates the file and starts the thread.
    pub fn start(options: Options) -> Result<Self, SessionError> {
        let writer = open(&options)?;
        let state = Arc::new(Mutex::new(State {
            path: options.path.clone(),
            observations: 0,
            bytes: 0,
            lost: 0,
            only: None,
            stopped: None,
        }));
        let lost = Arc::new(AtomicU64::new(0));
        let (to, from) = sync_channel(ROOM);
        let filter = options.pod.as_deref().map(Only::new);
        let path = options.path.clone();
        let tape = Tape {
            writer,
            files: Files::new(&options.path),
            before: (0, 0),
            told: 0,
            carried: BTreeMap::new(),
            state: Arc::clone(&state),
            lost: Arc::clone(&lost),
            options,
        };
        let thread = std::thread::Builder::new()
            .name("kflow-record".into())
            .spawn(move || tape.run(&from))
            .map_err(|source| SessionError::Io {
                op: "write",
                path: path.display().to_string(),
                source,
            })?;
        Ok(Self {
            to: Some(to),
            thread: Some(thread),
            state,
            lost,
            filter,
        })
    }

    /// Takes an observation, or counts it as lost. Never waits.
    pub fn take(&mut self, o: &Evidence) {
        let Some(o) = self.kept(o) else { return };
        let Some(to) = &self.to else { return };
        // A thread that has ended has said why, and what it did not take is not a loss of the recording's middle.
        if let Err(TrySendError::Full(_)) = to.try_send(o) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes what was seen before the recording began, waiting for room.
    pub fn take_history<'a>(&mut self, all: impl Iterator<Item = &'a Evidence>) {
        for o in all {
            if let Some(o) = self.kept(o)
                && let Some(to) = &self.to
                && to.send(o).is_err()
            {
                return;
            }
        }
    }

    fn kept(&mut self, o: &Evidence) -> Option<Evidence> {
        match &mut self.filter {
            Some(only) => only.keep(o),
            None => Some(Arc::clone(o)),
        }
    }

    /// How it stands.
    pub fn state(&self) -> State {
        let mut state = lock(&self.state).clone();
        state.only = self.filter.as_ref().map(|f| (f.left_out, f.unnamed));
        state
    }

    /// Writes what is left and closes the file.
    pub fn stop(mut self) -> State {
        self.finish();
        self.state()
    }

    fn finish(&mut self) {
        self.to = None;
        if let Some(t) = self.thread.take() {
            // Its panic, if any, was told by the panic hook.
            drop(t.join());
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.finish();
    }
}

fn open(options: &Options) -> Result<Writer, SessionError> {
    let mut header = Header::new(clock::now());
    header.node.clone_from(&options.node);
    if let Some(pod) = &options.pod {
        header.notes.push(Text::from(format!("only pod {pod}")));
    }
    Writer::record(&options.path, &header)
}

/// What a later file of a rotated recording needs of the time before it: the newest state of what exists, and the
/// beginnings of what has not ended.
type Carried = BTreeMap<Carry, Evidence>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Carry {
    Node(Text),
    Object(Text, Text, Text),
    Pod(Text),
    Conn(u32),
    Call(u32, u32),
    Inventory(bool),
}

struct Tape {
    writer: Writer,
    options: Options,
    files: Files,
    /// Observations and bytes of the files before this one.
    before: (u64, u64),
    /// Losses that were recorded.
    told: u64,
    carried: Carried,
    state: Arc<Mutex<State>>,
    lost: Arc<AtomicU64>,
}

impl Tape {
    fn run(mut self, from: &Receiver<Evidence>) {
        let ended = self.record(from);
        let ended = ended.and_then(|()| self.writer.flush());
        self.publish();
        let ended = match ended {
            Ok(()) => self.writer.finish().map(|_| ()),
            Err(e) => Err(e),
        };
        lock(&self.state).stopped = Some(match ended {
            Ok(()) => "stopped".to_owned(),
            Err(e) => format!("{e}; the file is readable up to its last second"),
        });
    }

    fn record(&mut self, from: &Receiver<Evidence>) -> Result<(), SessionError> {
        let mut flushed = clock::now();
        loop {
            let next = match from.recv_timeout(FLUSH) {
                Ok(o) => Some(o),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            if let Some(o) = next {
                self.tell_losses(o.stamp.seen)?;
                self.writer.write(&o)?;
                if self.options.max_size.is_some() {
                    carry(&mut self.carried, o);
                }
            }
            let now = clock::now();
            if now.since(flushed) >= SECOND / 2 {
                self.writer.flush()?;
                flushed = now;
                self.publish();
            }
            if self
                .options
                .max_size
                .is_some_and(|max| self.writer.bytes() >= max)
            {
                self.writer.flush()?;
                // Compressed it may be far from full.
                if self
                    .options
                    .max_size
                    .is_some_and(|max| self.writer.bytes() >= max)
                {
                    self.rotate()?;
                }
            }
        }
    }

    fn tell_losses(&mut self, at: Nanos) -> Result<(), SessionError> {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost == self.told {
            return Ok(());
        }
        let gap = Observation {
            stamp: Stamp::exact(at),
            source: Source::Kflow,
            body: Body::Gap(Box::new(Gap {
                of: Source::Kflow,
                since: at,
                lost: lost - self.told,
                conn: 0,
                why: Text::new("the disk was too slow for the recording"),
            })),
        };
        self.told = lost;
        self.writer.write(&gap)
    }

    /// The current file gets a number, and a new one takes its name.
    fn rotate(&mut self) -> Result<(), SessionError> {
        self.before.0 += self.writer.observations();
        self.before.1 += self.writer.bytes();
        let file = self.writer.handle()?;
        self.files.aside(file)?;
        let full = std::mem::replace(&mut self.writer, open(&self.options)?);
        // It is still the same file, whatever its name is now.
        full.finish()?;
        let mut carried: Vec<&Evidence> = self.carried.values().collect();
        carried.sort_by_key(|o| o.stamp.seen);
        for o in carried {
            self.writer.write(o)?;
        }
        self.writer.flush()
    }

    fn publish(&self) {
        let mut state = lock(&self.state);
        state.observations = self.before.0 + self.writer.observations();
        state.bytes = self.before.1 + self.writer.bytes();
        state.lost = self.lost.load(Ordering::Relaxed);
    }
}

fn carry(carried: &mut Carried, o: Evidence) {
    use crate::model::pod::WatchEvent::Deleted;
    let (key, ended) = match &o.body {
        Body::Pod(p) => (Carry::Pod(p.uid.0.clone()), p.event == Deleted),
        Body::Node(n) => (Carry::Node(n.name.clone()), n.event == Deleted),
        Body::Object(b) => (
            Carry::Object(
                b.object.kind.clone(),
                b.object.namespace.clone(),
                b.object.name.clone(),
            ),
            b.event == Deleted,
        ),
        Body::Conn(c) if !c.open => {
            carried.retain(|k, _| !matches!(k, Carry::Call(conn, _) if *conn == c.conn));
            (Carry::Conn(c.conn), true)
        }
        Body::Conn(c) => (Carry::Conn(c.conn), false),
        Body::CallStart(c) => (Carry::Call(c.key.conn, c.key.stream), false),
        Body::CallEnd(c) => (Carry::Call(c.key.conn, c.key.stream), true),
        Body::Inventory(i) if i.complete => (Carry::Inventory(i.sandboxes), false),
        _ => return,
    };
    if ended {
        carried.remove(&key);
    } else {
        carried.insert(key, o);
    }
}
