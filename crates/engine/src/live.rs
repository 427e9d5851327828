//! Runs live sources and owns the one world while they run.
//!
//! Two threads: one for the sources (a tokio runtime), one for the world. A bounded channel connects them: sources
//! that can wait for it do, and the losses of the others are counted. Readers take the newest snapshot and never hold
//! up either thread. The world's thread waits for neither the disk nor the terminal: a recorder has its own thread,
//! and a picture of a past moment is made on another one from the log that the newest snapshot shares.

mod agent;
mod agents;
mod context;
mod control;
mod kubeconfig;
mod later;
mod log;
mod past;
mod sources;
mod traces;
mod world;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use super::Pipeline;
use super::post::Store;
use super::record::{CLOSE, Kept, Options, Recorder, Recording, State};
use super::snapshot::{Mode, Snapshot, SourceStatus, Status, own};
pub use agent::{Agent, Place};
pub use agents::{Agents, Look};
pub use context::context_namespace;
pub use control::Control;
use kflow_core::correlate::Retention;
use kflow_core::selection::Selection;
use kflow_model::clock;
use kflow_model::{Nanos, Observation, Source, Text};
pub use kflow_sources::agent::{Earlier, Reading};
use kflow_sources::kube::live::{Pace, Scope};
use kflow_sources::live::Board;
use kflow_store::Keeper;
pub use later::{Found, SEARCH, Search};
pub use log::LogPlace;
use past::Frozen;
pub use past::Sought;
pub use sources::{connect, kubelet};
use traces::Traces;
use world::WorldThread;

/// Name of the agent's stream among the sources.
pub const AGENT: &str = "agent";

/// Most observations that wait for the world.
const ROOM: usize = 16_384;
/// Most observations in the log; older ones live on in what the world derived from them.
pub(crate) const KEEP: usize = 500_000;
/// Shortest time between two pictures.
const FRAME: Duration = Duration::from_millis(100);
/// Most observations taken between two checks whether a picture is due.
const BATCH: usize = 4096;
/// Age at which the newest picture counts as old. A picture is made every second; one that takes long is followed by
/// a pause of the same length.
const LATE: Duration = Duration::from_secs(5);
/// Longest wait for the world's thread to end when kflow ends.
const END: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeletLog {
    /// Not read.
    Off,
    At(LogPlace),
    /// Standard input.
    Stdin,
    /// Fetched through the apiserver.
    Remote,
}

/// Configuration of a live run.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the apiserver is asked for; `None` if it is not asked.
    pub scope: Option<Scope>,
    /// Which pods are shown: the other sources report more pods than the scope asks for.
    pub selection: Arc<Selection>,
    /// Kubeconfig, `None` for `KUBECONFIG`, `~/.kube/config` or the pod's own account.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    pub context: Option<String>,
    /// The proxy's observation socket.
    pub proxy: Option<PathBuf>,
    /// The runtime's socket, whose clients the eBPF tap follows.
    pub ebpf: Option<PathBuf>,
    /// Setting it asks the eBPF tap to make those clients of the runtime reconnect whose connections it does not
    /// fully understand. The tap clears it.
    pub reconnect: Arc<AtomicBool>,
    /// Why the eBPF tap is not used, if users have to be told.
    pub untapped: Option<String>,
    /// The runtime's socket, asked once for what exists.
    pub runtime: Option<PathBuf>,
    pub kubelet_log: KubeletLog,
    /// The kubelet's own address, `http(s)://HOST:PORT`; `None` to reach the kubelet through the apiserver.
    pub kubelet: Option<String>,
    /// What looks for sources of this node that are not there yet.
    pub search: Option<Search>,
    /// The kubelet's root folder, when cgroups, volumes and mounts are to be watched.
    pub kubelet_root: Option<PathBuf>,
    /// Receivers, logs of the control plane, scrapes.
    pub control: Control,
    /// Where final spans are sent.
    pub traces: Option<Arc<Store>>,
    /// Time limits and pauses of the watches.
    pub pace: Pace,
    /// How long, and how many, deleted pods are kept.
    pub keep: Retention,
    /// Most observations in the log.
    pub log: usize,
    /// Sources that no flag asked for, and that may be absent.
    pub guessed: Vec<Source>,
    /// The agent of the scope's node.
    pub agent: Option<Agent>,
    /// How to find out which nodes of the cluster have an agent; `None` not to.
    pub agents: Option<Look>,
    /// Asks the apiserver only for the scope's node and its pods: a process that runs on every node must not watch
    /// the whole cluster from each.
    pub of_node_only: bool,
    /// The first request to the apiserver is delayed by a random part of this time.
    pub api_spread: Duration,
}

impl Config {
    /// A configuration that starts no source.
    pub fn nothing() -> Self {
        Self {
            scope: None,
            selection: Arc::default(),
            kubeconfig: None,
            context: None,
            proxy: None,
            ebpf: None,
            reconnect: Arc::default(),
            untapped: None,
            runtime: None,
            kubelet_log: KubeletLog::Off,
            kubelet: None,
            search: None,
            kubelet_root: None,
            control: Control::default(),
            traces: None,
            pace: Pace::default(),
            keep: Retention::default(),
            log: KEEP,
            guessed: Vec::new(),
            agent: None,
            agents: None,
            of_node_only: false,
            api_spread: Duration::ZERO,
        }
    }

    /// Returns a short name for what is watched.
    fn name(&self) -> Text {
        let all = if self.scope.is_some() {
            "all"
        } else {
            "this node"
        };
        let named = self.selection.scope().short();
        Text::from(if named.is_empty() { all } else { &named })
    }

    fn node(&self) -> Text {
        let node = self.scope.as_ref().and_then(|s| s.node.as_deref());
        Text::from(node.unwrap_or_default())
    }
}

/// Why a live run could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A thread could not be started.
    #[error("cannot start the engine: {0}")]
    Thread(#[from] std::io::Error),
}

/// Requests to the world's thread.
enum Command {
    Record(Recorder),
    StopRecording,
    Keep(Kept),
    Note(Nanos, String),
    #[cfg(test)]
    Panic,
    /// Waits until the other end is closed.
    #[cfg(test)]
    Hang(mpsc::Receiver<()>),
}

/// What the threads share.
#[derive(Debug)]
struct Published {
    /// The newest picture, and when it was made.
    snapshot: Mutex<(Instant, Arc<Snapshot>)>,
    stop: AtomicBool,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A live run. Dropping it stops the run and closes its recording properly.
#[derive(Debug)]
pub struct Live {
    config: Config,
    shared: Arc<Published>,
    commands: mpsc::Sender<Command>,
    world: Option<JoinHandle<()>>,
    /// Disconnects when the world's thread has ended.
    ended: Mutex<mpsc::Receiver<()>>,
    runtime: Option<tokio::runtime::Runtime>,
    tasks: Option<JoinSet<()>>,
    frozen: Option<Frozen>,
    recording: Mutex<Option<Recording>>,
    traces: Option<Traces>,
    /// The last picture, if the world's thread has failed.
    last: OnceLock<Arc<Snapshot>>,
    /// The newest picture with a note that it is too old, while it is.
    late: Mutex<Option<Late>>,
}

/// How long an idle thread that asked a file system waits for the next question. It is longer than the time between
/// two looks at a log, and shorter than twice that, so that these looks keep one such thread with its memory, and not
/// all that ever ran.
const IDLE: Duration = Duration::from_millis(250);

/// Sources that run without a world: the caller takes their observations.
#[derive(Debug)]
pub struct Sources {
    board: Board,
    runtime: tokio::runtime::Runtime,
    tasks: JoinSet<()>,
}

impl Sources {
    /// Starts the sources of a configuration. Returns at once; a source that cannot be reached says so in its status.
    pub fn start(config: &Config) -> Result<(Self, Receiver<Observation>), Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_keep_alive(IDLE)
            .thread_name("kflow-sources")
            .enable_all()
            .build()?;
        let (board, from) = Board::new(ROOM);
        let mut tasks = JoinSet::new();
        {
            let _guard = runtime.enter();
            sources::spawn(config, &board, &mut tasks);
        }
        let sources = Self {
            board,
            runtime,
            tasks,
        };
        Ok((sources, from))
    }

    /// The statuses of the sources.
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    /// Stops the sources; waits for at most 1 s.
    pub fn stop(self) {
        drop(self.tasks);
        self.runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

/// A picture with a note that it is too old, which is shown for a second.
#[derive(Debug)]
struct Late {
    seconds: u64,
    version: u64,
    shown: Arc<Snapshot>,
}

impl Live {
    /// Starts the sources. Returns at once; a source that cannot be reached says so in its status.
    pub fn start(config: Config) -> Result<Self, Error> {
        let (sources, from) = Sources::start(&config)?;
        let Sources {
            board,
            runtime,
            tasks,
        } = sources;
        let now = clock::now();
        let mode = Mode::Live {
            scope: config.name(),
            following: true,
            recording: Text::default(),
        };
        let first = Pipeline::selecting(Arc::clone(&config.selection)).snapshot(
            now,
            mode.clone(),
            (now, now),
            Vec::new(),
        );
        let shared = Arc::new(Published {
            snapshot: Mutex::new((clock::monotonic(), Arc::new(first))),
            stop: AtomicBool::new(false),
        });
        let (commands, asked) = mpsc::channel();
        let (ending, ended) = mpsc::channel();
        let store = config.traces.clone();
        let traces = store
            .map(|store| Traces::start(store, now, Arc::clone(&shared)))
            .transpose()?;
        let post = traces.as_ref().map(|t| t.post.clone());
        let world = WorldThread::new(board, now, mode, Arc::clone(&shared), post, &config);
        // A runtime of its own: the world's thread outlives the sources, to take their last observations.
        let waiting = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let world = std::thread::Builder::new()
            .name("kflow-world".into())
            .spawn(move || {
                let _ending: mpsc::Sender<()> = ending;
                world.run(&waiting, from, &asked);
            })?;
        Ok(Self {
            config,
            shared,
            commands,
            world: Some(world),
            ended: Mutex::new(ended),
            runtime: Some(runtime),
            tasks: Some(tasks),
            frozen: None,
            recording: Mutex::new(None),
            traces,
            last: OnceLock::new(),
            late: Mutex::default(),
        })
    }

    /// Returns the newest picture, or the one at which the view is frozen. After a failure of the world's thread: its
    /// last picture, with a source of kflow's own that reports the failure.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        if self.check().is_err() {
            let last = self.last.get_or_init(|| stands_still(&self.newest()));
            return Arc::clone(last);
        }
        match &self.frozen {
            Some(frozen) => frozen.snapshot(),
            None => self.followed(clock::monotonic()),
        }
    }

    /// Returns the newest picture, with a note if it is too old.
    fn followed(&self, now: Instant) -> Arc<Snapshot> {
        let (made, newest) = &*lock(&self.shared.snapshot);
        let age = now.saturating_duration_since(*made);
        if age < LATE || self.world.is_none() {
            return Arc::clone(newest);
        }
        let mut shown = lock(&self.late);
        let late = shown
            .take()
            .filter(|l| l.seconds == age.as_secs() && l.version == newest.version)
            .unwrap_or_else(|| Late {
                seconds: age.as_secs(),
                version: newest.version,
                shown: is_late(newest, age),
            });
        let picture = Arc::clone(&late.shown);
        *shown = Some(late);
        picture
    }

    /// Returns a function that gives the newest picture, even while this view is frozen.
    pub fn watch(&self) -> impl Fn() -> Arc<Snapshot> + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || Arc::clone(&lock(&shared.snapshot).1)
    }

    fn newest(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.shared.snapshot).1)
    }

    /// Returns an error once the world's thread has ended by itself.
    pub fn check(&self) -> Result<(), EngineFailed> {
        let ended = self.world.as_ref().is_some_and(JoinHandle::is_finished);
        if ended && !self.shared.stop.load(Ordering::Relaxed) {
            return Err(EngineFailed);
        }
        Ok(())
    }

    /// True while the view shows the newest picture.
    pub const fn follows(&self) -> bool {
        self.frozen.is_none()
    }

    /// Freezes the view where it is. Sources and recording go on.
    pub fn freeze(&mut self) {
        if self.frozen.is_none() {
            self.frozen = Some(Frozen::at(past::not_following(&self.newest())));
        }
    }

    /// Shows the newest picture again.
    pub fn follow(&mut self) {
        self.frozen = None;
    }

    /// Freezes the view as of a moment. Waits up to 1 s for that picture; after that the view stays where it is until
    /// the picture is ready.
    pub fn seek(&mut self, to: Nanos) -> Sought {
        if self.frozen.as_ref().is_some_and(Frozen::is_coming) {
            return Sought::Busy;
        }
        let (frozen, sought) = past::seek(self.newest(), self.snapshot(), to);
        self.frozen = Some(frozen);
        sought
    }

    /// Freezes the view at the next (or previous) observation for which `wanted` is true. `None` when there is none.
    pub fn step(&mut self, forward: bool, wanted: impl Fn(&Observation) -> bool) -> Option<Sought> {
        let shown = self.snapshot();
        let newest = self.newest();
        let mut found = newest
            .log
            .iter()
            .filter(|o| wanted(o))
            .map(|o| o.stamp.seen);
        let to = if forward {
            found.find(|t| *t > shown.now)
        } else {
            found.rfind(|t| *t < shown.now)
        };
        to.map(|to| self.seek(to))
    }

    /// Adds a user's note.
    pub fn note(&self, at: Nanos, text: &str) {
        // The world's thread ends before this value only if it fails.
        self.commands.send(Command::Note(at, text.to_owned())).ok();
    }

    /// Asks the eBPF tap to make clients reconnect whose connections it does not fully understand. Returns false when
    /// there is no tap; the tap's status says how far it got.
    pub fn reconnect(&self) -> bool {
        self.config.reconnect.store(true, Ordering::Relaxed);
        self.config.ebpf.is_some()
    }

    /// Starts a recording, which begins with what is known already.
    pub fn record(&self, mut options: Options) -> Result<(), kflow_model::session::SessionError> {
        options.node = self.config.node();
        let recorder = Recorder::start(options, Arc::clone(&self.config.selection))?;
        *lock(&self.recording) = Some(recorder.recording());
        self.commands.send(Command::Record(recorder)).ok();
        Ok(())
    }

    /// Keeps observations in a spool from now until the end of the run, and what is known already. If a pod is named,
    /// only that pod's.
    pub fn keep(&self, keeper: Arc<Keeper>, pod: Option<&str>) {
        let kept = Kept::new(keeper, pod, Arc::clone(&self.config.selection));
        self.commands.send(Command::Keep(kept)).ok();
    }

    /// Ends the recording and waits, for `limit` at most, until its file is closed: [`State::ended`] says whether it
    /// is. `None` when there was no recording.
    pub fn stop_recording(&self, limit: Duration) -> Option<State> {
        self.commands.send(Command::StopRecording).ok();
        let recording = lock(&self.recording).clone()?;
        Some(recording.wait(limit))
    }

    /// State of the last recording; `None` when there was none.
    pub fn recording(&self) -> Option<State> {
        Some(lock(&self.recording).as_ref()?.state())
    }

    fn finish(&mut self) {
        if self.world.take().is_none() {
            return;
        }
        // The sources end first: the world's thread then reads to the end of what they gave.
        self.tasks = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
        self.shared.stop.store(true, Ordering::Relaxed);
        // Nothing is ever sent: the channel disconnects, or the time is over.
        let _closed = lock(&self.ended).recv_timeout(END);
        if let Some(traces) = &mut self.traces {
            traces.finish();
        }
        if let Some(recording) = &*lock(&self.recording) {
            recording.wait(CLOSE);
        }
    }

    /// Status of sending to the trace store; `None` without one.
    pub fn traces(&self) -> Option<SourceStatus> {
        self.traces.as_ref().map(|t| t.post.status())
    }

    /// Stops everything, and returns how the recording ended. A recording that is not closed within 30 s is left to
    /// the operating system. From then on [`snapshot`](Self::snapshot) returns the last picture.
    pub fn stop(&mut self) -> Option<State> {
        self.finish();
        self.recording()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The last picture of a world whose thread failed, with a source that says so.
fn stands_still(newest: &Snapshot) -> Arc<Snapshot> {
    let mut s = with_engine(newest, FAILED, newest.now);
    s.version |= 1 << 62;
    Arc::new(s)
}

/// The newest picture with a source that says how old it is: the world's thread has made no other for too long.
fn is_late(newest: &Snapshot, age: Duration) -> Arc<Snapshot> {
    let ns = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
    let mut s = with_engine(newest, STUCK, newest.now.plus(ns.saturating_neg()));
    s.version |= 1 << 61 | age.as_secs() << 40;
    Arc::new(s)
}

fn with_engine(newest: &Snapshot, (why, help): (&str, &str), since: Nanos) -> Snapshot {
    let mut s = newest.clone();
    s.sources.push(SourceStatus {
        since: Some(since),
        help: help.into(),
        ..SourceStatus::new(Source::Kflow, own::ENGINE, Status::Off(why.into()))
    });
    s
}

/// Text and advice while the world's thread makes no picture.
const STUCK: (&str, &str) = (
    "kflow's engine is busy or hangs, and what is shown is what was known before",
    "wait, or start kflow anew",
);

/// Text and advice once the world's thread has failed.
const FAILED: (&str, &str) = (
    "kflow's engine has failed (a bug): what is shown stands still, and nothing more is recorded",
    "start kflow anew, and report what it wrote on standard error",
);

/// The world's thread has ended by itself, which only a bug makes it do: there will be no newer picture.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{}; {}", FAILED.0, FAILED.1)]
pub struct EngineFailed;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Ended;

    #[test]
    fn a_world_whose_thread_failed_says_so_and_its_recording_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let live = Live::start(Config::nothing()).unwrap();
        live.record(Options {
            path: dir.path().join("run.kflow"),
            max_size: None,
            pod: None,
            node: Text::default(),
        })
        .unwrap();
        live.check().unwrap();
        live.commands.send(Command::Panic).unwrap();
        let ended = lock(&live.ended).recv_timeout(Duration::from_secs(60));
        assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected));
        let recording = lock(&live.recording).clone().unwrap();
        let closed = recording.wait(Duration::from_secs(60));
        assert_eq!(closed.ended, Some(Ended::Closed));
        // The thread is gone a moment after it has closed its channel.
        while live.check().is_ok() {
            std::thread::yield_now();
        }
        let shown = live.snapshot();
        let engine = shown
            .sources
            .iter()
            .find(|s| s.name == own::ENGINE)
            .unwrap();
        assert!(engine.is_off() && engine.detail() == FAILED.0);
        assert!(Arc::ptr_eq(&shown, &live.snapshot()));
    }

    #[test]
    fn a_world_whose_thread_hangs_is_not_waited_for_and_its_picture_says_how_old_it_is() {
        let live = Live::start(Config::nothing()).unwrap();
        let (release, held) = mpsc::sync_channel(0);
        live.commands.send(Command::Hang(held)).unwrap();
        release.send(()).unwrap();
        let (made, newest) = lock(&live.shared.snapshot).clone();
        let engine = |s: &Snapshot| s.sources.iter().find(|s| s.name == own::ENGINE).cloned();
        assert_eq!(engine(&live.followed(made)), None);
        let seven = made + Duration::from_secs(7);
        let late = live.followed(seven);
        let told = engine(&late).unwrap();
        assert!(told.is_off() && told.detail() == STUCK.0 && live.check().is_ok());
        assert_eq!(late.now.since(told.since.unwrap()), 7_000_000_000);
        assert!(late.version != newest.version);
        // The picture is made anew once a second.
        let again = live.followed(seven + Duration::from_millis(10));
        assert!(Arc::ptr_eq(&late, &again) || engine(&again) != engine(&late));
        assert!(live.followed(seven + Duration::from_secs(1)).version != late.version);
        drop(release);
        // The thread goes on, and the note disappears.
        while lock(&live.shared.snapshot).0 == made {
            std::thread::yield_now();
        }
        assert_eq!(engine(&live.snapshot()), None);
    }
}
