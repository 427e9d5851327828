//! The decoder: all connections of a tap.

use rustc_hash::{FxHashMap, FxHashSet};

use super::call::observe;
use super::conn::Conn;
use super::grpc::Buffers;
use super::{Direction, limits};
use kflow_model::cri::Sight;
use kflow_model::gap::Gap;
use kflow_model::stamp::MILLI;
use kflow_model::{Body, Nanos, Observation, Source, Stamp};

/// The start of a call whose request is still incomplete after this long, ns, is given out with what is known.
const START_AFTER: i64 = 200 * MILLI;
/// Number of closed connections that are remembered, so that their late bytes are not taken for a new connection.
const CLOSED_REMEMBERED: usize = 1 << 16;

/// Decodes the bytes of any number of connections into observations: [`CallStart`], [`CallEnd`],
/// [`ContainerEvent`], [`Inventory`], [`ConnChange`], and [`Gap`] where a connection cannot be followed.
///
/// The chunks of each direction of a connection have to come in the order in which they passed the tap, and a chunk of
/// an answer after the chunk of the request that it answers. Memory is bounded by [`limits`].
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
    /// Number of chunks; 0 when it is not known.
    pub chunks: u64,
    /// Exact number of bytes; `None` when it is not known.
    pub bytes: Option<u64>,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How much of the connection is understood.
    pub sight: Sight,
    /// Frame borders are known in both directions, and no call is known to be open.
    pub idle: bool,
}

/// Counts of what a [`Decoder`] has taken so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that were fed.
    pub bytes: u64,
    /// Chunks that were fed.
    pub chunks: u64,
    /// Chunks of connections that were given up or closed, which were not decoded.
    pub unread_chunks: u64,
    /// HTTP/2 frames.
    pub frames: u64,
    /// HTTP/2 frames that were skipped without reading them (PING, WINDOW_UPDATE, PRIORITY, unknown ones).
    pub skipped_frames: u64,
    /// Connections that were given up.
    pub blind: u64,
}

impl Decoder {
    /// A decoder that knows no connection yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes that a connection was accepted. `pid` is 0 and `peer` empty when unknown.
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

    /// Follows a connection that was accepted earlier, from here on. Where frames begin, which calls are open and what
    /// the header tables hold is not known in either direction until the bytes show it. `pid` is 0 and `peer` empty
    /// when unknown. When the first byte turns out to be the connection's first, the effect is that of
    /// [`open`](Self::open).
    pub fn join(&mut self, conn: u32, at: Nanos, pid: u32, peer: &str, out: &mut Vec<Observation>) {
        self.begin(conn, at, out, |out| Conn::join(conn, at, pid, peer, out));
    }

    /// Discards the state of a connection on which the decoder itself failed: open calls end as
    /// [`Lost`](kflow_model::cri::CallOutcome::Lost), and the connection is [joined](Self::join) anew from here on.
    pub fn restart(&mut self, conn: u32, at: Nanos, why: &str, out: &mut Vec<Observation>) {
        // The connection leaves the table first, because reporting its losses may fail too.
        let Some(mut failed) = self.conns.remove(&conn) else {
            return;
        };
        let (pid, peer) = failed.client();
        let fresh = Conn::join(conn, at, pid, &peer, out);
        self.conns.insert(conn, fresh);
        failed.lose(None, at, Lost::default(), why, &mut self.buffers, out);
    }

    /// Takes a chunk of one direction. A connection that was not opened opens with its first chunk.
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

    /// Takes that bytes of a connection were lost before they came here (a queue was full), in one direction or, with
    /// `None`, in both. Open calls end as [`Lost`](kflow_model::cri::CallOutcome::Lost), the following bytes are
    /// searched for the begin of a frame, and headers that were sent before can be unknown for a while. When the
    /// number of lost bytes is known, and all of them belong to one message, only that message is lost.
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

    /// Takes that a connection closed, or one half of it. `why` is empty or `eof` for an orderly end.
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

    /// Gives out the start of calls whose request has not completed for 200 ms. A live tap calls this now and then.
    pub fn advance(&mut self, now: Nanos, out: &mut Vec<Observation>) {
        if now < self.last.plus(-START_AFTER) {
            // The clock was set back, so that it is not known how long a call has waited.
            self.last = now;
            self.advance_until(Nanos(i64::MAX), out);
            return;
        }
        self.last = self.last.max(now);
        self.advance_until(now.plus(-START_AFTER), out);
    }

    /// Takes that the input ended: gives out every start that is still held back. Open calls stay open.
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

    /// Returns how much of a connection is understood, and whether a call is known to be open on it; `None` for a
    /// connection that is not followed. A call that began before the connection was joined is not known until bytes of
    /// it pass.
    pub fn standing(&self, conn: u32) -> Option<Standing> {
        self.conns.get(&conn).map(Conn::standing)
    }

    /// Returns the counts so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes held for incomplete messages, and number of empty buffers kept.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        self.buffers.measure()
    }
}
