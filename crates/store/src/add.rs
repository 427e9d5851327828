//! Adds a recording to a store, cut into segments as a recorder would have cut it.
//!
//! The segments belong to a run whose name derives from the beginning of the recording, and they are cut by the times
//! in it. Adding the recording again therefore gives the same objects; if the recording has grown since, only the
//! last segment is a different object, and the longer one counts.

use std::path::Path;
use std::time::Duration;

use kflow_model::clock::{self, Reading};
use kflow_model::session::{Reader, SessionError, format};
use kflow_model::units::DAY;
use kflow_model::{Body, Nanos, Text};
use siphasher::sip::SipHasher13;

use crate::layout::{BadName, Cluster, folder_of};
use crate::merge::Piece;
use crate::object::Store;
use crate::spool::{Bounds, Options, Spool, SpoolError};
use crate::upload::{self, Unsent};

/// If no observation arrives for longer than this, no segment covers the pause, ns.
const QUIET: i64 = DAY;

/// Why a recording was not added to a store, or not as a whole.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("{path} has no observation")]
    Empty { path: String },
    #[error(
        "{path} is of {its}, and would be asked for as {asked}'s: leave --node out; a node of another cluster goes into another --cluster"
    )]
    OtherNode {
        path: String,
        its: Text,
        asked: String,
    },
    #[error("cannot cut {path} into segments in {scratch}: {why}")]
    Scratch {
        path: String,
        scratch: String,
        why: String,
    },
    #[error(transparent)]
    Name(#[from] BadName),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error(transparent)]
    Send(#[from] Unsent),
}

/// The result of adding a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The node of the recording; empty for a cluster.
    pub node: Text,
    pub segments: u64,
    pub bytes: u64,
    pub observations: u64,
    /// Begin and end of the recording's time.
    pub begin: Nanos,
    pub end: Nanos,
    /// Why the end of the recording is missing, if it is.
    pub cut: Option<String>,
}

/// Adds a recording to a store. `node` names the node of a recording that names none. `scratch` is a folder to
/// create, for segments until they are sent.
pub async fn add(
    store: &Store,
    cluster: &Cluster,
    recording: &Path,
    node: Option<&str>,
    scratch: &Path,
) -> Result<Added, AddError> {
    let piece = Piece::read(Reader::open(recording)?);
    let path = || recording.display().to_string();
    let failed = |why: String| AddError::Scratch {
        path: path(),
        scratch: scratch.display().to_string(),
        why,
    };
    if piece.carried.is_empty() && piece.own.is_empty() {
        return Err(AddError::Empty { path: path() });
    }
    let its = piece.header.node.clone();
    let node = match node {
        Some(asked) if its.is_empty() || its == asked => Text::new(asked),
        Some(asked) => {
            return Err(AddError::OtherNode {
                path: path(),
                its,
                asked: asked.to_owned(),
            });
        }
        None => its,
    };
    folder_of(&node)?;
    let (begin, end) = (piece.begin(), piece.end());
    let options = Options {
        node: node.clone(),
        bounds: Bounds {
            bytes: u64::MAX,
            free: 0,
            ..Bounds::default()
        },
        owed: true,
    };
    let mut spool = Spool::open_as(scratch, options, run(&piece, &node))?;
    cut(&mut spool, &piece);
    let ring = spool.ring();
    if let Some(why) = ring.status().failing {
        return Err(failed(why));
    }
    let sent = upload::send_all(ring, store.clone(), cluster.clone()).await?;
    if sent.unsendable > 0 {
        return Err(failed("a segment cannot be read again".to_owned()));
    }
    Ok(Added {
        node,
        segments: sent.sent,
        bytes: sent.bytes,
        observations: piece.own.len() as u64,
        begin,
        end,
        cut: piece.report.cut,
    })
}

/// Returns the name of the run, a hash of the node and of the recording's beginning.
fn run(piece: &Piece, node: &Text) -> Text {
    let mut begin = piece.header.created.0.to_le_bytes().to_vec();
    begin.extend(node.as_bytes());
    for o in piece.carried.iter().chain(&piece.own).take(1) {
        format::encode(o, &mut begin);
    }
    format!("{:016x}", SipHasher13::new().hash(&begin)).into()
}

/// Gives the observations of a recording to a spool at the times in them.
fn cut(spool: &mut Spool, piece: &Piece) {
    let age = Bounds::default().segment_age;
    let step = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
    for o in &piece.carried {
        spool.carry(o);
    }
    let mut now = Reading {
        wall: piece.begin(),
        monotonic: clock::monotonic(),
        apart: Duration::ZERO,
    };
    // The first segment begins when the recording does, not at the first observation.
    spool.tick(now);
    let mut due = now.wall.plus(step);
    for o in &piece.own {
        let seen = o.stamp.seen;
        if matches!(o.body, Body::ClockStep(_)) {
            // What follows is by another clock.
            due = seen.plus(step);
        } else if seen.since(due) > QUIET {
            now.wall = due;
            spool.close(now);
            due = seen.plus(step);
        }
        while due <= seen {
            now.wall = due;
            now.monotonic += age;
            spool.tick(now);
            due = due.plus(step);
        }
        now.wall = seen;
        spool.take(o, now);
    }
    now.wall = piece.end();
    spool.close(now);
}
