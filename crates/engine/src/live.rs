//! Runs live sources and owns the one world while they run.
//!
//! Two threads: one for the sources (a tokio runtime), one for the world. Between them a bounded channel: sources that
//! can wait do, and what cannot is counted. Whoever draws reads the newest snapshot and never holds up either. The world's
//! thread waits for neither the disk nor the terminal: a recorder has its own thread, and a picture of a past moment is
//! made beside it from the log that the newest snapshot shares.

mod agent;
mod agents;
mod context;
mod control;
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
use kflow_sources::klog::live::Journal;
use kflow_sources::kube::live::{Pace, Scope};
use kflow_sources::live::Board;
use kflow_store::Keeper;
use past::Frozen;
pub use past::Sought;
pub use sources::{connect, kubelet};
use traces::Traces;
use world::WorldThread;

/// Name of the agent's stream among the sources.
pub const AGENT: &str = "agent";

/// Observations that may wait for the world.
const ROOM: usize = 16_384;
/// Observations that the log keeps; older ones live on in what the world made of them.
pub(crate) const KEEP: usize = 500_000;
/// How often a new picture is made at most.
const FRAME: Duration = Duration::from_millis(100);
/// Observations that are taken before it is looked whether a picture is due.
const BATCH: usize = 4096;
/// Age at which the newest picture is said to be old: one is made every second, and one that takes long is followed by a
/// pause as long.
const LATE: Duration = Duration::from_secs(5);
/// How long the world's thread may take to end when kflow ends.
const END: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeletLog {
    /// Not read.
    Off,
    File(PathBuf),
    /// A unit's journal, by `journalctl`.
    Journal(String),
    /// A unit's journal, by its files.
    JournalFiles(Journal),
    /// Standard input.
    Stdin,
    /// Asked for by way of the apiserver.
    Remote,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// What to ask the apiserver for; `None` asks none.
    pub scope: Option<Scope>,
    /// Which pods are looked at: other sources show more than what is asked for.
    pub selection: Arc<Selection>,
    /// Kubeconfig, `None` for `KUBECONFIG`, `~/.kube/config` or the pod's own account.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    pub context: Option<String>,
    /// The proxy's observation socket.
    pub proxy: Option<PathBuf>,
    /// The runtime's socket, whose clients the eBPF tap follows.
    pub ebpf: Option<PathBuf>,
    /// Set when clients of the runtime are to connect anew that the eBPF tap does not fully understand; it clears it.
    pub reconnect: Arc<AtomicBool>,
    /// Why the eBPF tap is not used, where that has to be said.
    pub untapped: Option<String>,
    /// The runtime's socket, asked once for what exists.
    pub runtime: Option<PathBuf>,
    pub kubelet_log: KubeletLog,
    /// The kubelet's own address, `http(s)://HOST:PORT`; `None` asks it by way of the apiserver.
    pub kubelet: Option<String>,
    /// The kubelet's root folder, when cgroups, volumes and mounts are to be watched.
    pub kubelet_root: Option<PathBuf>,
    /// Receivers, logs of the control plane, scrapes.
    pub control: Control,
    /// Where final spans are sent.
    pub traces: Option<Arc<Store>>,
    /// How patient watches are.
    pub pace: Pace,
    /// How much is kept of pods that are gone.
    pub keep: Retention,
    /// Observations that the log keeps.
    pub log: usize,
    /// Sources that no flag asked for, and that may be absent.
    pub guessed: Vec<Source>,
    /// The agent of the scope's node.
    pub agent: Option<Agent>,
    /// Which nodes of the cluster have an agent is looked for.
    pub agents: Option<Look>,
    /// Of the apiserver only the pods of the scope's node and the node itself are asked for: a process that runs on every node
    /// must not have each of them watch the cluster.
    pub of_node_only: bool,
    /// The apiserver is first asked after a random part of this time.
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

    /// What is watched, in a word.
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

/// A live run. Dropping it stops it; a recording is closed orderly.
#[derive(Debug)]
pub struct Live {
    config: Config,
    shared: Arc<Published>,
    commands: mpsc::Sender<Command>,
    world: Option<JoinHandle<()>>,
    /// Closed when the world's thread has ended.
    ended: Mutex<mpsc::Receiver<()>>,
    runtime: Option<tokio::runtime::Runtime>,
    tasks: Option<JoinSet<()>>,
    frozen: Option<Frozen>,
    recording: Mutex<Option<Recording>>,
    traces: Option<Traces>,
    /// The last picture of a world whose thread failed.
    last: OnceLock<Arc<Snapshot>>,
    /// The newest picture while it is too old, with a word that says so.
    late: Mutex<Option<Late>>,
}

/// How long a thread that asked a file system waits for the next question: longer than it is from one look at a log to the next, and
/// shorter than two of them, so that these looks keep one such thread, with its memory, and not all that there ever were.
const IDLE: Duration = Duration::from_millis(250);

/// Sources that run without a world: who has them takes what they see.
#[derive(Debug)]
pub struct Sources {
    board: Board,
    runtime: tokio::runtime::Runtime,
    tasks: JoinSet<()>,
}

impl Sources {
    /// Starts the sources of a configuration. Returns at once; what cannot be reached says so in its status.
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

    /// How they stand.
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    /// Ends them.
    pub fn stop(self) {
        drop(self.tasks);
        self.runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

/// A picture that is too old, as it is shown for a second.
#[derive(Debug)]
struct Late {
    seconds: u64,
    version: u64,
    shown: Arc<Snapshot>,
}

impl Live {
    /// Starts the sources. Returns at once; what cannot be reached says so in its status.
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
        // A runtime of its own: the world outlives the sources, to take what they gave last.
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

    /// The newest picture, or the one at which the view is frozen. After a failure of the world's thread the last one,
    /// with a source of kflow's own that says so.
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

    /// The newest picture; one that is too old says so.
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

    /// The newest picture, wherever the view stands, for somebody else to ask.
    pub fn watch(&self) -> impl Fn() -> Arc<Snapshot> + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || Arc::clone(&lock(&shared.snapshot).1)
    }

    fn newest(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.shared.snapshot).1)
    }

    /// Fails once the world's thread has ended by itself.
    pub fn check(&self) -> Result<(), EngineFailed> {
        let ended = self.world.as_ref().is_some_and(JoinHandle::is_finished);
        if ended && !self.shared.stop.load(Ordering::Relaxed) {
            return Err(EngineFailed);
        }
        Ok(())
    }

    /// True while the view follows.
    pub const fn follows(&self) -> bool {
        self.frozen.is_none()
    }

    /// Freezes the view where it is. Sources and recording go on.
    pub fn freeze(&mut self) {
        if self.frozen.is_none() {
            self.frozen = Some(Frozen::at(past::not_following(&self.newest())));
        }
    }

    /// Follows again.
    pub fn follow(&mut self) {
        self.frozen = None;
    }

    /// Freezes the view as of a moment. Making the picture is waited for a second at most; then the view stays where it
    /// is until the picture is there.
    pub fn seek(&mut self, to: Nanos) -> Sought {
        if self.frozen.as_ref().is_some_and(Frozen::is_coming) {
            return Sought::Busy;
        }
        let (frozen, sought) = past::seek(self.newest(), self.snapshot(), to);
        self.frozen = Some(frozen);
        sought
    }

    /// Freezes the view at the next (or previous) observation that is `wanted`. `None` when there is none.
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
        // The world's thread ends only with this value.
        self.commands.send(Command::Note(at, text.to_owned())).ok();
    }

    /// Asks the eBPF tap to make clients connect anew whose connections it does not fully understand. False when there is no
    /// tap; what becomes of it stands in its status.
    pub fn reconnect(&self) -> bool {
        self.config.reconnect.store(true, Ordering::Relaxed);
        self.config.ebpf.is_some()
    }

    /// Starts a recording that begins with what is known already.
    pub fn record(&self, mut options: Options) -> Result<(), kflow_model::session::SessionError> {
        options.node = self.config.node();
        let recorder = Recorder::start(options, Arc::clone(&self.config.selection))?;
        *lock(&self.recording) = Some(recorder.recording());
        self.commands.send(Command::Record(recorder)).ok();
        Ok(())
    }

    /// Keeps what is seen from now on in a spool, with what is known already: of one pod, if one is named. Until the end.
    pub fn keep(&self, keeper: Arc<Keeper>, pod: Option<&str>) {
        let kept = Kept::new(keeper, pod, Arc::clone(&self.config.selection));
        self.commands.send(Command::Keep(kept)).ok();
    }

    /// Ends the recording and waits for its file to be closed, `limit` at most: [`State::ended`] says whether it is.
    /// `None` when there was no recording.
    pub fn stop_recording(&self, limit: Duration) -> Option<State> {
        self.commands.send(Command::StopRecording).ok();
        let recording = lock(&self.recording).clone()?;
        Some(recording.wait(limit))
    }

    /// How the last recording stands.
    pub fn recording(&self) -> Option<State> {
        Some(lock(&self.recording).as_ref()?.state())
    }

    fn finish(&mut self) {
        if self.world.take().is_none() {
            return;
        }
        // First the sources: then what they gave is all there is, and the world's thread reads it to the end.
        self.tasks = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
        self.shared.stop.store(true, Ordering::Relaxed);
        // Nothing is ever sent: it is closed, or the time is over.
        let _closed = lock(&self.ended).recv_timeout(END);
        if let Some(traces) = &mut self.traces {
            traces.finish();
        }
        if let Some(recording) = &*lock(&self.recording) {
            recording.wait(CLOSE);
        }
    }

    /// How sending to a trace store stands, where there is one.
    pub fn traces(&self) -> Option<SourceStatus> {
        self.traces.as_ref().map(|t| t.post.status())
    }

    /// Stops everything; returns how the recording ended. One that is not closed within 30 s is left to the system. The
    /// [`snapshot`](Self::snapshot) is the last one from then on.
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

/// The last picture of a world whose thread failed, with a word that says so.
fn stands_still(newest: &Snapshot) -> Arc<Snapshot> {
    let mut s = with_engine(newest, FAILED, newest.now);
    s.version |= 1 << 62;
    Arc::new(s)
}

/// The newest picture that a world's thread has made, which has made no other for too long.
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

/// What is said while the world's thread makes no picture, and what helps.
const STUCK: (&str, &str) = (
    "kflow's engine is busy or hangs, and what is shown is what was known before",
    "wait, or start kflow anew",
);

/// What is said when the world's thread has failed, and what helps.
const FAILED: (&str, &str) = (
    "kflow's engine has failed (a bug): what is shown stands still, and nothing more is recorded",
    "start kflow anew, and report what it wrote on standard error",
);

/// The world's thread has ended by itself, which only a bug makes it do: no newer picture comes.
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
        // Once a second another picture.
        let again = live.followed(seven + Duration::from_millis(10));
        assert!(Arc::ptr_eq(&late, &again) || engine(&again) != engine(&late));
        assert!(live.followed(seven + Duration::from_secs(1)).version != late.version);
        drop(release);
        // It goes on, and says no more.
        while lock(&live.shared.snapshot).0 == made {
            std::thread::yield_now();
        }
        assert_eq!(engine(&live.snapshot()), None);
    }
}
