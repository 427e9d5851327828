//! All connections of a tap.

use rustc_hash::{FxHashMap, FxHashSet};

use super::call::observe;
use super::conn::Conn;
use super::grpc::Buffers;
use super::{Direction, limits};
use kflow_model::cri::Sight;
use kflow_model::gap::Gap;
use kflow_model::stamp::MILLI;
use kflow_model::{Body, Nanos, Observation, Source, Stamp};

/// A call whose request is still incomplete after this long is shown with what is known, ns.
const START_AFTER: i64 = 200 * MILLI;
/// Closed connections that are remembered, so that bytes which come late are not taken for a new connection.
const CLOSED_REMEMBERED: usize = 1 << 16;

/// Decodes the bytes of any number of connections into observations: [`CallStart`], [`CallEnd`],
/// [`ContainerEvent`], [`Inventory`], [`ConnChange`], and [`Gap`] where a connection cannot be followed.
///
/// Per connection, chunks come in the order in which they passed the tap, each way; a chunk of an answer never before
/// the chunk of the request that it answers. Memory is bounded by [`limits`].
///
/// [`CallStart`]: kflow_model::cri::CallStart
/// [`CallEnd`]: kflow_model::cri::CallEnd
/// [`ContainerEvent`]: kflow_model::cri::ContainerEvent
/// [`Inventory`]: kflow_model::cri::Inventory
/// [`ConnChange`]: kflow_model::cri::ConnChange
///
/// ```
/// use kflow_model::Nanos;
/// use kflow_cri::{Decoder, Direction};
///
/// let (mut decoder, mut out) = (Decoder::new(), Vec::new());
/// decoder.open(1, Nanos(10), 4242, "kubelet", &mut out);
/// decoder.feed(1, Direction::ClientToServer, Nanos(20), b"GET / HTTP/1.1\r\n", &mut out);
/// decoder.close(1, None, Nanos(30), "", &mut out);
/// assert_eq!(out.len(), 4, "it opened, it was not understood (a gap, and how much is), it closed");
/// ```
#[derive(Default)]
pub struct Decoder {
    conns: FxHashMap<u32, Conn>,
    closed: FxHashSet<u32>,
    buffers: Buffers,
    last: Nanos,
    counters: Counters,
}

/// How much of a connection was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Chunks; 0 when unknown.
    pub chunks: u64,
    /// Exactly so many bytes; `None` when that is not known.
    pub bytes: Option<u64>,
}

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How much of it is understood.
    pub sight: Sight,
    /// Frames are found both ways, and no call is known to be open.
    pub idle: bool,
}

/// What went through a [`Decoder`] so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes given in.
    pub bytes: u64,
    /// Chunks given in.
    pub chunks: u64,
    /// Chunks of connections that were given up or closed, which were not decoded.
    pub unread_chunks: u64,
    /// HTTP/2 frames.
    pub frames: u64,
    /// Of these, frames that were skipped without a look (PING, WINDOW_UPDATE, PRIORITY, unknown ones).
    pub skipped_frames: u64,
    /// Connections that were given up.
    pub blind: u64,
}

impl Decoder {
    /// A decoder that knows of no connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// A connection was accepted. `pid` is 0 and `peer` empty when unknown.
    pub fn open(&mut self, conn: u32, at: Nanos, pid: u32, peer: &str, out: &mut Vec<Observation>) {
        self.begin(conn, at, out, |out| Conn::open(conn, at, pid, peer, out));
    }

    fn begin(
        &mut self,
        conn: u32,
        at: Nanos,
        out: &mut Vec<Observation>,
        new: impl FnOnce(&mut Vec<Observation>) -> Conn,
    ) {
        self.last = self.last.max(at);
        if self.conns.contains_key(&conn) {
            return;
        }
        if self.conns.len() >= limits::CONNECTIONS {
            self.forget(conn);
            self.counters.blind += 1;
            let gap = Gap {
                of: Source::Cri,
                since: at,
                lost: 0,
                conn,
                resource: kflow_model::Text::default(),
                why: format!("more than {} connections open", limits::CONNECTIONS).into(),
            };
            observe(out, Stamp::exact(at), Body::Gap(Box::new(gap)));
            return;
        }
        self.closed.remove(&conn);
        self.conns.insert(conn, new(out));
    }

    /// A connection that was accepted earlier is followed from here on: where frames begin, which calls are open and what
    /// the header tables hold is not known, either way, until it shows. `pid` is 0 and `peer` empty when unknown. When the
    /// first byte turns out to be the connection's first, it is as if it had been [opened](Self::open).
    pub fn join(&mut self, conn: u32, at: Nanos, pid: u32, peer: &str, out: &mut Vec<Observation>) {
        self.begin(conn, at, out, |out| Conn::join(conn, at, pid, peer, out));
    }

    /// What is thought of a connection is worth nothing any more, because the decoder itself failed on it: calls that are open
    /// end as [`Lost`](kflow_model::cri::CallOutcome::Lost), and it is [joined](Self::join) anew from here on.
    pub fn restart(&mut self, conn: u32, at: Nanos, why: &str, out: &mut Vec<Observation>) {
        // Out of the table first: to say what was lost of it may fail too.
        let Some(mut failed) = self.conns.remove(&conn) else {
            return;
        };
        let (pid, peer) = failed.client();
        let fresh = Conn::join(conn, at, pid, &peer, out);
        self.conns.insert(conn, fresh);
        failed.lose(None, at, Lost::default(), why, &mut self.buffers, out);
    }

    /// A chunk passed. A connection that was not opened opens with its first chunk.
    pub fn feed(
        &mut self,
        conn: u32,
        direction: Direction,
        at: Nanos,
        bytes: &[u8],
        out: &mut Vec<Observation>,
    ) {
        self.last = self.last.max(at);
        self.counters.bytes += bytes.len() as u64;
        self.counters.chunks += 1;
        if !self.conns.contains_key(&conn) && !self.closed.contains(&conn) {
            self.open(conn, at, 0, "", out);
        }
        let Some(known) = self.conns.get_mut(&conn) else {
            self.counters.unread_chunks += 1;
            return;
        };
        let before = known.frames();
        let followed = known.feed(direction, at, bytes, &mut self.buffers, out);
        let after = known.frames();
        self.counters.blind += u64::from(!followed && before != (0, 0) && after == (0, 0));
        self.counters.frames += after.0.saturating_sub(before.0);
        self.counters.skipped_frames += after.1.saturating_sub(before.1);
        if !followed {
            self.counters.unread_chunks += 1;
        }
    }

    /// Bytes of a connection were lost before they came here (a queue was full), in one direction or, with `None`, in both.
    /// Calls that are open end as [`Lost`](kflow_model::cri::CallOutcome::Lost), what comes next is searched for the begin
    /// of a frame, and headers that were sent before can be unknown for a while. When it is known how many bytes were lost,
    /// and all of them belong to one message, nothing else is lost with them.
    pub fn lose(
        &mut self,
        conn: u32,
        direction: Option<Direction>,
        at: Nanos,
        lost: Lost,
        why: &str,
        out: &mut Vec<Observation>,
    ) {
        self.last = self.last.max(at);
        if let Some(known) = self.conns.get_mut(&conn) {
            known.lose(direction, at, lost, why, &mut self.buffers, out);
        }
    }

    /// A connection closed, or one half of it. `why` is empty or `eof` for an orderly end.
    pub fn close(
        &mut self,
        conn: u32,
        half: Option<Direction>,
        at: Nanos,
        why: &str,
        out: &mut Vec<Observation>,
    ) {
        self.last = self.last.max(at);
        if let Some(direction) = half {
            if let Some(known) = self.conns.get_mut(&conn) {
                known.close_half(direction, at, why, &mut self.buffers, out);
            }
        } else if let Some(known) = self.conns.remove(&conn) {
            known.close(at, why, &mut self.buffers, out);
            self.forget(conn);
        }
    }

    /// Gives out the start of calls whose request did not complete for a while. Called now and then when live.
    pub fn advance(&mut self, now: Nanos, out: &mut Vec<Observation>) {
        if now < self.last.plus(-START_AFTER) {
            // The clock was set back: how long a call has waited is not known.
            self.last = now;
            self.advance_until(Nanos(i64::MAX), out);
            return;
        }
        self.last = self.last.max(now);
        self.advance_until(now.plus(-START_AFTER), out);
    }

    /// The input ended: gives out every start that is still held back. Calls that are open stay open.
    pub fn finish(&mut self, out: &mut Vec<Observation>) {
        self.advance_until(self.last, out);
    }

    fn advance_until(&mut self, until: Nanos, out: &mut Vec<Observation>) {
        let mut ids: Vec<u32> = self.conns.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            if let Some(conn) = self.conns.get_mut(&id) {
                conn.advance(until, self.last, out);
            }
        }
    }

    fn forget(&mut self, conn: u32) {
        if self.closed.len() >= CLOSED_REMEMBERED {
            self.closed.clear();
        }
        self.closed.insert(conn);
    }

    /// How much of a connection is understood, and whether a call is known to be open on it; `None` for one that is not
    /// followed. Calls that began before it was joined are not known until something of theirs passes.
    pub fn standing(&self, conn: u32) -> Option<Standing> {
        self.conns.get(&conn).map(Conn::standing)
    }

    /// What went through so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes held of messages that are not complete, and empty buffers kept.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        self.buffers.measure()
    }
}
