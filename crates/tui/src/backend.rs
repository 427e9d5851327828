//! What the terminal asks of whatever stands behind it: a session that is played, or a live engine.

use std::sync::Arc;
use std::time::Instant;

use super::writer::Job;
use kflow_engine::Snapshot;
use kflow_model::{Nanos, ObjectRef, PodUid};

/// A request to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drive {
    /// Play or pause; live: freeze or follow.
    PlayPause,
    /// Live: let the picture stand still, sources go on. A replay needs nothing: it stands where its user puts it.
    Freeze,
    /// Play this many thousandths of real time per second; 0 is as fast as it goes.
    Speed(u32),
    /// Show this moment.
    Seek(Nanos),
    /// One observation further or back.
    Step {
        /// True for the next, false for the previous one.
        forward: bool,
    },
    /// To the next or last observation about this pod.
    StepPod {
        pod: PodUid,
        /// True for the next, false for the previous one.
        forward: bool,
    },
    /// To the next or last error, of this pod or of any.
    Error {
        /// The pod, `None` for any.
        pod: Option<PodUid>,
        /// True for the next, false for the previous one.
        forward: bool,
    },
    /// To the next note.
    Mark,
    /// To the end, and follow.
    Follow,
    /// Saves a note at a moment.
    Note {
        /// Moment that the note is about.
        at: Nanos,
        /// Text of the note.
        text: String,
    },
    /// Starts or stops recording.
    Record,
    /// To a stop of the tour, so slowly that one can follow.
    Stop {
        /// Which of its recordings.
        part: usize,
        at: Nanos,
    },
    /// Live: opens a node of the cluster, whose agent is connected to while it is open.
    Open(String),
    /// Live: leaves the node that is open.
    Leave,
    /// Live: listens to the agents of the nodes that have pods of this owner; `None` leaves them.
    Abreast(Option<ObjectRef>),
    /// Live: makes clients of the runtime connect anew that the eBPF tap does not fully understand.
    Reconnect,
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// A line to show, empty for none.
    pub said: String,
    /// The pod that it led to, to be selected.
    pub pod: Option<PodUid>,
}

impl From<String> for Done {
    fn from(said: String) -> Self {
        Self { said, pod: None }
    }
}

/// What a request comes to.
#[derive(Debug)]
pub enum Answer {
    Done(Done),
    /// It is done but for a file that has to be written.
    Write(Job),
}

/// The engine as the terminal sees it. `now` is read from the monotonic clock and handed in.
pub trait Backend {
    /// The newest picture; the same `Arc` while nothing changed. Must return at once.
    fn snapshot(&mut self, now: Instant) -> Arc<Snapshot>;
    /// Does what the user asked; answers with what became of it, or with why it cannot. Waits for no file.
    fn drive(&mut self, request: Drive, now: Instant) -> Result<Answer, String>;
}
