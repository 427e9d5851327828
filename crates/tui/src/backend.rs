//! The interface between the terminal and the engine behind it: the player of a session, or a live engine.

use std::sync::Arc;
use std::time::Instant;

use super::writer::Job;
use kflow_engine::Snapshot;
use kflow_model::{Nanos, ObjectRef, PodUid};

/// A request to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drive {
    /// Replay: plays or pauses. Live: freezes the picture or follows the newest one.
    PlayPause,
    /// Live: keeps the picture as it is while the sources go on. Does nothing in a replay, which stays at the moment
    /// that the user chose.
    Freeze,
    /// Plays at this speed, in thousandths of real time; 0 is as fast as possible.
    Speed(u32),
    /// Shows the world as of this moment.
    Seek(Nanos),
    /// Moves one observation forward or back.
    Step {
        /// True for the next, false for the previous one.
        forward: bool,
    },
    /// Moves to the next or previous observation about this pod.
    StepPod {
        pod: PodUid,
        /// True for the next, false for the previous one.
        forward: bool,
    },
    /// Moves to the next or previous error, of one pod or of any.
    Error {
        /// The pod whose errors count; `None` for errors of any pod.
        pod: Option<PodUid>,
        /// True for the next, false for the previous one.
        forward: bool,
    },
    /// Moves to the next note.
    Mark,
    /// Moves to the end and follows what arrives.
    Follow,
    /// Saves a note about a moment.
    Note {
        /// Moment that the note is about.
        at: Nanos,
        /// Text of the note.
        text: String,
    },
    /// Starts or stops recording.
    Record,
    /// Replay of the tour: moves to one of its stops, slowly enough to watch.
    Stop {
        /// Index of the recording of the tour that has the stop.
        part: usize,
        at: Nanos,
    },
    /// Live: opens a node of the cluster and connects to its agent until the node is left.
    Open(String),
    /// Live: leaves the open node.
    Leave,
    /// Live: follows the agents of the nodes that run pods of this owner; `None` disconnects from them.
    Abreast(Option<ObjectRef>),
    /// Live: makes clients of the container runtime reconnect whose connections the eBPF tap cannot decode in full.
    Reconnect,
}

/// The result of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// A line to show in the footer; empty for none.
    pub said: String,
    /// The pod to select, if the request led to one.
    pub pod: Option<PodUid>,
}

impl From<String> for Done {
    fn from(said: String) -> Self {
        Self { said, pod: None }
    }
}

/// The engine's answer to a [`Drive`].
#[derive(Debug)]
pub enum Answer {
    Done(Done),
    /// Done, except for a file that the caller has to have written.
    Write(Job),
}

/// The engine, as the terminal uses it. Callers read `now` from the monotonic clock.
pub trait Backend {
    /// Returns the newest snapshot, and the same `Arc` while nothing has changed. Must not block.
    fn snapshot(&mut self, now: Instant) -> Arc<Snapshot>;
    /// Carries out a request and returns its result, or the reason why it is not possible. Does no file I/O.
    fn drive(&mut self, request: Drive, now: Instant) -> Result<Answer, String>;
}
