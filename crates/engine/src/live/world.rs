//! The thread that owns the world.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Receiver;
use tracing::{info, info_span, warn};

use super::traces::Post;
use super::{BATCH, Command, Config, FRAME, Published, lock};
use crate::Pipeline;
use crate::record::{self, Ended, Kept, Recorder, Recording};
use crate::snapshot::{Mode, Snapshot, SourceStatus, Status, own};
use kflow_core::correlate::Retention;
use kflow_model::clock::{self, Reading, Steps};
use kflow_model::gap::{ClockStep, Note};
use kflow_model::session::format;
use kflow_model::turns::Turns;
use kflow_model::{Body, Evidence, Nanos, Observation, Scope, Source, Stamp, Text};
use kflow_sources::agent::Earlier;
use kflow_sources::live::Board;

/// Longest time between two pictures: ages grow while nothing happens.
const SLOWEST: Duration = Duration::from_secs(1);
/// Observations that are handled per turn; each is redacted and filed.
const TURN: usize = 8;
/// Time between two checks whether pods are to leave the world.
const RETIRE: Duration = Duration::from_secs(10);
/// How long after a clock step observations may still arrive that were stamped before it.
const LATE: Duration = Duration::from_secs(60);

pub(super) struct WorldThread {
    pipeline: Pipeline,
    board: Board,
    begun: Nanos,
    mode: Mode,
    recorder: Option<Recorder>,
    kept: Option<Kept>,
    /// The previous recording, until its file is closed.
    closing: Option<Recording>,
    shared: Arc<Published>,
    steps: Steps,
    /// The last clock step: when, and by how many ns.
    stepped: Option<(Instant, i64)>,
    /// The last clock step forward: when, and by how many ns.
    leapt: Option<(Instant, i64)>,
    log: usize,
    turns: Turns,
    keep: Retention,
    scope: Option<Arc<Scope>>,
    /// Sources that no flag asked for.
    guessed: Vec<Source>,
    post: Option<Post>,
    /// What the agent kept from before, if it was asked for.
    earlier: Option<Earlier>,
}

/// Reason in the gap for what an agent kept, when a run or its recording ends before all of it was read.
const CUT: &str = "kflow was ended before all of it was read";

impl WorldThread {
    pub(super) fn new(
        board: Board,
        begun: Nanos,
        mode: Mode,
        shared: Arc<Published>,
        post: Option<Post>,
        config: &Config,
    ) -> Self {
        let scope = config.scope.clone().map(Arc::new);
        Self {
            pipeline: Pipeline::selecting(Arc::clone(&config.selection)).remembering(scope.clone()),
            board,
            begun,
            mode,
            recorder: None,
            kept: None,
            closing: None,
            shared,
            steps: Steps::default(),
            stepped: None,
            leapt: None,
            keep: config.keep,
            log: config.log,
            turns: Turns::of(TURN),
            scope,
            guessed: config.guessed.clone(),
            post,
            earlier: config.agent.as_ref().and_then(|a| a.earlier.clone()),
        }
    }

    pub(super) fn run(
        mut self,
        waiting: &tokio::runtime::Runtime,
        mut from: Receiver<Observation>,
        asked: &mpsc::Receiver<Command>,
    ) {
        let _world = info_span!("world").entered();
        let mut got = Vec::with_capacity(BATCH);
        let mut pace = Pace::default();
        let mut retired: Option<Instant> = None;
        self.steps.look(clock::both());
        while !self.shared.stop.load(Ordering::Relaxed) {
            let n = waiting.block_on(async {
                tokio::time::timeout(FRAME, from.recv_many(&mut got, BATCH))
                    .await
                    .unwrap_or(0)
            });
            if n < BATCH {
                self.turns.waited();
            }
            self.take_all(&mut got, clock::both());
            while let Ok(command) = asked.try_recv() {
                self.command(command);
            }
            let now = clock::monotonic();
            pace.changed |= n > 0;
            if pace.due(now) {
                self.pipeline.shrink(self.log);
                if retired.is_none_or(|t| now.saturating_duration_since(t) >= RETIRE) {
                    self.pipeline
                        .retire(self.ages_end(clock::both()), &self.keep);
                    retired = Some(now);
                }
                self.publish(clock::now());
                pace.drawn(now, clock::monotonic());
            }
        }
        // Observations that were in the channel when the sources stopped.
        while let Ok(o) = from.try_recv() {
            got.push(o);
        }
        self.take_all(&mut got, clock::both());
        while let Ok(command) = asked.try_recv() {
            self.command(command);
        }
        let cut = self.earlier.as_ref().map(|e| e.cut(CUT));
        cut.into_iter().flatten().for_each(|o| self.take(o));
        self.recorder = None;
        self.kept = None;
        self.publish(clock::now());
        info!("ends");
    }

    /// Returns the time up to which ages of deleted pods count: the wall clock, except that a step forward makes no
    /// pod older for as long as such a pod is kept.
    fn ages_end(&self, now: Reading) -> Nanos {
        let kept = Duration::from_nanos(u64::try_from(self.keep.age_ns).unwrap_or(0));
        match self.leapt {
            Some((at, by)) if now.monotonic.saturating_duration_since(at) < kept => {
                now.wall.plus(by.saturating_neg())
            }
            _ => now.wall,
        }
    }

    /// Takes observations as of `now`. A clock step is inserted between those that arrived before and after it.
    fn take_all(&mut self, got: &mut Vec<Observation>, now: Reading) {
        if let Some(by) = self.steps.look(now) {
            warn!(by_ns = by, "the wall clock was set");
            self.stepped = Some((now.monotonic, by));
            if by > 0 {
                self.leapt = Some((now.monotonic, by));
            }
            let (before, after): (Vec<_>, Vec<_>) = got
                .drain(..)
                .partition(|o| is_before(o.stamp.seen, now.wall, by));
            for o in before {
                self.take(o);
            }
            self.take(Observation {
                stamp: Stamp::exact(now.wall),
                source: Source::Kflow,
                body: Body::ClockStep(Box::new(ClockStep { by })),
            });
            for o in after {
                self.take(o);
            }
            return;
        }
        if self
            .stepped
            .is_some_and(|(at, _)| now.monotonic.saturating_duration_since(at) > LATE)
        {
            self.stepped = None;
        }
        for mut o in got.drain(..) {
            // Stamped before the step, taken after it: `seen` is moved to the clock of its neighbours.
            if let Some((_, by)) = self.stepped
                && is_before(o.stamp.seen, now.wall, by)
            {
                o.stamp.seen = o.stamp.seen.plus(by);
            }
            self.take(o);
        }
    }

    fn take(&mut self, o: Observation) {
        // Redacted as in a session, so that a recording shows what was seen live.
        let o: Evidence = Arc::new(format::redacted(o));
        if let Some(r) = &self.recorder {
            r.take(&o);
        }
        if let Some(k) = &mut self.kept {
            k.take(&o);
        }
        self.pipeline.observe(o);
        self.turns.done();
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Record(recorder) => {
                recorder.take_history(self.pipeline.log().clone());
                self.recorder = Some(recorder);
            }
            Command::Keep(mut kept) => {
                for o in self.pipeline.log().history() {
                    kept.take(o);
                }
                self.kept = Some(kept);
            }
            Command::StopRecording => {
                if let Some(recorder) = self.recorder.take() {
                    let lack = self.earlier.as_ref().map(|e| e.lack(CUT));
                    for o in lack.into_iter().flatten() {
                        recorder.take(&Arc::new(o));
                    }
                    self.closing = Some(recorder.recording());
                }
            }
            Command::Note(at, text) => self.take(Observation {
                stamp: Stamp::new(at, 1, clock::now()),
                source: Source::Kflow,
                body: Body::Note(Box::new(Note {
                    text: Text::from(text),
                })),
            }),
            #[cfg(test)]
            Command::Panic => panic!("asked for by a test"),
            #[cfg(test)]
            Command::Hang(held) => {
                // The first message says that the hang has begun; no other is sent.
                while held.recv().is_ok() {}
            }
        }
    }

    fn publish(&mut self, now: Nanos) {
        let mut file = Text::default();
        if let Some(state) = self.recorder.as_ref().map(Recorder::state)
            && state.ended.is_none()
        {
            file = Text::from(state.path.to_string_lossy());
        }
        if let Mode::Live { recording, .. } = &mut self.mode {
            *recording = file;
        }
        let statuses = self.statuses();
        let range = (
            self.pipeline
                .log()
                .get(0)
                .map_or(self.begun, |o| o.stamp.seen),
            now,
        );
        let snapshot = Snapshot {
            scope: self.scope.clone(),
            ..self
                .pipeline
                .snapshot(now, self.mode.clone(), range, statuses)
        };
        *lock(&self.shared.snapshot) = (clock::monotonic(), Arc::new(snapshot));
    }

    fn statuses(&mut self) -> Vec<SourceStatus> {
        let mut all = self.board.statuses();
        for s in &mut all {
            s.guessed = self.guessed.contains(&s.source);
        }
        all.extend(self.post.as_ref().map(Post::status));
        if let Some(state) = self.closing.as_ref().map(Recording::state) {
            if state.ended == Some(Ended::Closed) {
                self.closing = None;
            } else {
                let closing = format!("closing {}", state.path.display());
                all.push(of_recording(state, closing));
            }
        }
        if let Some(state) = self.recorder.as_ref().map(Recorder::state)
            && (state.ended.is_some() || state.lost > 0)
        {
            all.push(of_recording(state, String::new()));
        }
        all
    }
}

/// The recording as a source; `going` is its text while it has not ended.
fn of_recording(state: record::State, going: String) -> SourceStatus {
    SourceStatus {
        lost: state.lost,
        count: state.observations,
        ..SourceStatus::new(
            Source::Kflow,
            own::RECORDING,
            match state.ended {
                None => Status::On(going.into()),
                Some(how) => Status::Off(how.to_string().into()),
            },
        )
    }
}

/// True when `seen` fits the clock before a step better than the clock after it. The step, by `by` ns, led to `now`.
fn is_before(seen: Nanos, now: Nanos, by: i64) -> bool {
    let off = |clock: Nanos| seen.since(clock).saturating_abs();
    off(now.plus(by.saturating_neg())) < off(now)
}

/// When pictures are due, by the monotonic clock.
#[derive(Debug, Default)]
struct Pace {
    drawn: Option<Instant>,
    /// Something was observed since the last picture.
    changed: bool,
    /// How long the last picture took: the pause after it is at least as long, so pictures take half of the thread's
    /// time at most. Under a flood there are fewer of them, and no observation is lost for them.
    pause: Duration,
}

impl Pace {
    fn due(&self, now: Instant) -> bool {
        let Some(drawn) = self.drawn else { return true };
        let since = now.saturating_duration_since(drawn);
        since >= SLOWEST.max(self.pause) || (self.changed && since >= self.pause.max(FRAME))
    }
    /// A picture was begun and done at these times.
    fn drawn(&mut self, begun: Instant, done: Instant) {
        self.drawn = Some(done);
        self.changed = false;
        self.pause = done.saturating_duration_since(begun);
    }
}

#[cfg(test)]
mod tests;
