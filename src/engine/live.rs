//! Runs live sources and owns the one world while they run.
//!
//! Two threads: one for the sources (a tokio runtime), one for the world. Between them a bounded channel: sources that
//! can wait do, and what cannot is counted. Whoever draws reads the newest snapshot and never holds up either.

mod control;
mod sources;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use super::record::{Options, Recorder, State};
use super::snapshot::{Mode, Snapshot, SourceStatus};
use super::{Core, ObservationLog};
use crate::clock;
use crate::model::gap::Note;
use crate::model::{Body, Nanos, Observation, Source, Stamp, Text};
use crate::session::format;
use crate::source::kube::live::{Pace, Scope};
use crate::source::live::Board;
use crate::timeline::Evidence;
pub use control::Control;
pub use sources::{connect, kubelet};

/// Observations that may wait for the world.
const ROOM: usize = 16_384;
/// Observations that the log keeps; older ones live on in what the world made of them.
const KEEP: usize = 500_000;
/// How often a new picture is made at most.
const FRAME: Duration = Duration::from_millis(100);
/// Observations that are taken before it is looked whether a picture is due.
const BATCH: usize = 4096;

/// Where the kubelet's log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeletLog {
    /// Not read.
    Off,
    /// A file.
    File(PathBuf),
    /// A unit's journal.
    Journal(String),
    /// Standard input.
    Stdin,
    /// Asked for by way of the apiserver.
    Remote,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// What to watch; `None` asks no apiserver.
    pub scope: Option<Scope>,
    /// Kubeconfig, `None` for `KUBECONFIG`, `~/.kube/config` or the pod's own account.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    pub context: Option<String>,
    /// The proxy's observation socket.
    pub proxy: Option<PathBuf>,
    /// The runtime's socket, asked once for what exists.
    pub runtime: Option<PathBuf>,
    /// The kubelet's log.
    pub kubelet_log: KubeletLog,
    /// The kubelet's own address, `http(s)://HOST:PORT`; `None` asks it by way of the apiserver.
    pub kubelet: Option<String>,
    /// The kubelet's root folder, when cgroups, volumes and mounts are to be watched.
    pub kubelet_root: Option<PathBuf>,
    /// Receivers, logs of the control plane, scrapes.
    pub control: Control,
    /// How patient watches are.
    pub pace: Pace,
}

impl Config {
    /// Nothing.
    pub fn nothing() -> Self {
        Self {
            scope: None,
            kubeconfig: None,
            context: None,
            proxy: None,
            runtime: None,
            kubelet_log: KubeletLog::Off,
            kubelet: None,
            kubelet_root: None,
            control: Control::default(),
            pace: Pace::default(),
        }
    }

    /// What is watched, in a word.
    fn name(&self) -> Text {
        match &self.scope {
            Some(Scope { node: Some(n), .. }) => Text::from(n),
            Some(Scope {
                namespace: Some(ns),
                ..
            }) => Text::from(ns),
            Some(_) => Text::new("all"),
            None => Text::new("this node"),
        }
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
    StopRecording(mpsc::SyncSender<Option<State>>),
    Note(Nanos, String),
    AsOf(Nanos, mpsc::SyncSender<Arc<Snapshot>>),
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    snapshot: Mutex<Arc<Snapshot>>,
    recording: Mutex<Option<State>>,
    stop: AtomicBool,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A live run. Dropping it stops it; a recording is closed orderly.
#[derive(Debug)]
pub struct Live {
    config: Config,
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    world: Option<JoinHandle<()>>,
    runtime: Option<tokio::runtime::Runtime>,
    tasks: Option<JoinSet<()>>,
    frozen: Option<Arc<Snapshot>>,
}

impl Live {
    /// Starts the sources. Returns at once; what cannot be reached says so in its status.
    pub fn start(config: Config) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("kflow-sources")
            .enable_all()
            .build()?;
        let (board, from) = Board::new(ROOM);
        let mut tasks = JoinSet::new();
        {
            let _guard = runtime.enter();
            sources::spawn(&config, &board, &mut tasks);
        }
        Self::run(config, board, from, runtime, tasks)
    }

    /// Runs the world on what comes out of a board; the caller has its sources.
    fn run(
        config: Config,
        board: Board,
        from: Receiver<Observation>,
        runtime: tokio::runtime::Runtime,
        tasks: JoinSet<()>,
    ) -> Result<Self, Error> {
        let now = clock::now();
        let mode = Mode::Live {
            scope: config.name(),
            following: true,
            recording: Text::default(),
        };
        let first = Core::new().snapshot(now, mode.clone(), (now, now), Vec::new());
        let shared = Arc::new(Shared {
            snapshot: Mutex::new(Arc::new(first)),
            recording: Mutex::new(None),
            stop: AtomicBool::new(false),
        });
        let (commands, asked) = mpsc::channel();
        let world = World {
            core: Core::new(),
            board,
            begun: now,
            mode,
            recorder: None,
            shared: Arc::clone(&shared),
        };
        // A runtime of its own: the world outlives the sources, to take what they gave last.
        let waiting = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let world = std::thread::Builder::new()
            .name("kflow-world".into())
            .spawn(move || world.run(&waiting, from, &asked))?;
        Ok(Self {
            config,
            shared,
            commands,
            world: Some(world),
            runtime: Some(runtime),
            tasks: Some(tasks),
            frozen: None,
        })
    }

    /// The newest picture, or the one at which the view is frozen.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        if let Some(frozen) = &self.frozen {
            return Arc::clone(frozen);
        }
        Arc::clone(&lock(&self.shared.snapshot))
    }

    /// True while the view follows.
    pub const fn follows(&self) -> bool {
        self.frozen.is_none()
    }

    /// Freezes the view where it is. Sources and recording go on.
    pub fn freeze(&mut self) {
        if self.frozen.is_none() {
            let newest = Arc::clone(&lock(&self.shared.snapshot));
            self.frozen = Some(not_following(&newest));
        }
    }

    /// Follows again.
    pub fn follow(&mut self) {
        self.frozen = None;
    }

    /// Freezes the view as of a moment.
    pub fn seek(&mut self, to: Nanos) {
        let (answer, got) = mpsc::sync_channel(1);
        if self.commands.send(Command::AsOf(to, answer)).is_ok()
            && let Ok(snapshot) = got.recv_timeout(Duration::from_secs(5))
        {
            self.frozen = Some(not_following(&snapshot));
        } else {
            self.freeze();
        }
    }

    /// Freezes the view at the next (or previous) observation that is `wanted`. False when there is none.
    pub fn step(&mut self, forward: bool, wanted: impl Fn(&Observation) -> bool) -> bool {
        let shown = self.snapshot();
        let newest = Arc::clone(&lock(&self.shared.snapshot));
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
        let Some(to) = to else { return false };
        self.seek(to);
        true
    }

    /// Adds a user's note.
    pub fn note(&self, at: Nanos, text: &str) {
        // The world's thread ends only with this value.
        self.commands.send(Command::Note(at, text.to_owned())).ok();
    }

    /// Starts a recording that begins with what is known already.
    pub fn record(&self, mut options: Options) -> Result<(), crate::session::SessionError> {
        options.node = self.config.node();
        let recorder = Recorder::start(options)?;
        *lock(&self.shared.recording) = Some(recorder.state());
        self.commands.send(Command::Record(recorder)).ok();
        Ok(())
    }

    /// Ends the recording; returns how it ended, `None` when there was none.
    pub fn stop_recording(&self) -> Option<State> {
        let (answer, got) = mpsc::sync_channel(1);
        self.commands.send(Command::StopRecording(answer)).ok()?;
        got.recv().ok().flatten()
    }

    /// How the recording stands.
    pub fn recording(&self) -> Option<State> {
        lock(&self.shared.recording).clone()
    }

    fn finish(&mut self) {
        // First the sources: then what they gave is all there is, and the world's thread reads it to the end.
        self.tasks = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(world) = self.world.take() {
            // Its panic, if any, was told by the panic hook.
            drop(world.join());
        }
    }

    /// Stops everything; returns how the recording ended.
    pub fn stop(mut self) -> Option<State> {
        let ended = self.stop_recording();
        self.finish();
        ended
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.finish();
    }
}

fn not_following(s: &Snapshot) -> Arc<Snapshot> {
    let mut s = s.clone();
    if let Mode::Live { following, .. } = &mut s.mode {
        *following = false;
    }
    // Another picture than any that follows, though it has the same observations.
    s.version |= 1 << 63;
    Arc::new(s)
}

/// The world's thread.
struct World {
    core: Core,
    board: Board,
    begun: Nanos,
    mode: Mode,
    recorder: Option<Recorder>,
    shared: Arc<Shared>,
}

impl World {
    fn run(
        mut self,
        waiting: &tokio::runtime::Runtime,
        mut from: Receiver<Observation>,
        asked: &mpsc::Receiver<Command>,
    ) {
        let mut got = Vec::with_capacity(BATCH);
        let mut drawn = Nanos::default();
        // A picture takes half of the thread's time at most: under a flood there are fewer of them, and none is lost.
        let mut pause = FRAME.as_nanos() as i64;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let n = waiting.block_on(async {
                tokio::time::timeout(FRAME, from.recv_many(&mut got, BATCH))
                    .await
                    .unwrap_or(0)
            });
            let new = n > 0;
            for o in got.drain(..) {
                self.take(o);
            }
            while let Ok(command) = asked.try_recv() {
                self.command(command);
            }
            let now = clock::now();
            let since = now.since(drawn);
            // Ages grow while nothing happens.
            if since >= 1_000_000_000 || (new && since >= pause) {
                self.core.shrink(KEEP);
                self.publish(now);
                drawn = clock::now();
                pause = drawn.since(now).max(FRAME.as_nanos() as i64);
            }
        }
        // What was on its way when the sources stopped.
        while let Ok(o) = from.try_recv() {
            self.take(o);
        }
        while let Ok(command) = asked.try_recv() {
            self.command(command);
        }
        self.publish(clock::now());
        self.recorder = None;
    }

    fn take(&mut self, o: Observation) {
        // As a session would hold it, so that a recording shows what was seen live.
        let o: Evidence = Arc::new(format::redacted(o));
        if let Some(r) = &mut self.recorder {
            r.take(&o);
        }
        self.core.observe(o);
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Record(mut recorder) => {
                recorder.take_history(self.core.log().iter());
                self.recorder = Some(recorder);
            }
            Command::StopRecording(answer) => {
                let ended = self.recorder.take().map(Recorder::stop);
                *lock(&self.shared.recording) = None;
                // Who asked may have gone.
                answer.send(ended).ok();
            }
            Command::Note(at, text) => self.take(Observation {
                stamp: Stamp::new(at, 1, clock::now()),
                source: Source::Kflow,
                body: Body::Note(Box::new(Note {
                    text: Text::from(text),
                })),
            }),
            Command::AsOf(at, answer) => {
                answer.send(Arc::new(self.as_of(at))).ok();
            }
        }
    }

    /// What was known at a moment: the world of the observations that had arrived by then.
    fn as_of(&self, at: Nanos) -> Snapshot {
        let log: &ObservationLog = self.core.log();
        let mut core = Core::new();
        for o in log.iter().take_while(|o| o.stamp.seen <= at) {
            core.observe(Arc::clone(o));
        }
        core.snapshot(
            at,
            self.mode.clone(),
            (self.begun, clock::now()),
            self.statuses(),
        )
    }

    fn publish(&mut self, now: Nanos) {
        let mut file = Text::default();
        if let Some(r) = &self.recorder {
            let state = r.state();
            if state.stopped.is_none() {
                file = Text::from(state.path.to_string_lossy());
            }
            *lock(&self.shared.recording) = Some(state);
        }
        if let Mode::Live { recording, .. } = &mut self.mode {
            *recording = file;
        }
        let statuses = self.statuses();
        let range = (
            self.core.log().get(0).map_or(self.begun, |o| o.stamp.seen),
            now,
        );
        let snapshot = self.core.snapshot(now, self.mode.clone(), range, statuses);
        *lock(&self.shared.snapshot) = Arc::new(snapshot);
    }

    fn statuses(&self) -> Vec<SourceStatus> {
        let mut all: Vec<SourceStatus> = self
            .board
            .statuses()
            .into_iter()
            .map(|s| SourceStatus {
                source: s.source,
                name: s.name,
                on: s.on,
                detail: s.detail,
                lag_ns: s.lag_ns,
                lost: s.lost,
                count: s.count,
            })
            .collect();
        if let Some(state) = self.recorder.as_ref().map(Recorder::state)
            && (state.stopped.is_some() || state.lost > 0)
        {
            all.push(SourceStatus {
                source: Source::Kflow,
                name: Text::new("recording"),
                on: state.stopped.is_none(),
                detail: Text::from(state.stopped.unwrap_or_default()),
                lag_ns: None,
                lost: state.lost,
                count: state.observations,
            });
        }
        all
    }
}
