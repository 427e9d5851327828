//! The tap: a queue of copied chunks with a limit in bytes, and the thread that decodes them.
//!
//! A chunk without room in the queue is lost. The connection's next chunk that has room tells the decoder how much it
//! missed, and the decoder resynchronises. After a panic the decoder starts anew in the middle of that
//! connection, a few times.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Counters;
use kflow_cri::{Decoder, Direction, Lost};
use kflow_model::clock;
use kflow_model::cri::{Sight, method};
use kflow_model::gap::Gap;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};
use kflow_serve::Log;
use kflow_serve::ring::Ring;

/// The pure half of the tap: bytes in, observations out. One decoder serves all connections of a proxy.
///
/// A [`ConnChange`](kflow_model::cri::ConnChange) with [`Sight::Blind`] means that the decoder gave the connection up
/// and gets no more of its bytes.
pub trait Decode: Send {
    /// A connection opened.
    fn open(&mut self, conn: u32, at: Nanos, pid: u32, peer: &str, out: &mut Vec<Observation>);
    /// Bytes passed.
    fn feed(
        &mut self,
        conn: u32,
        direction: Direction,
        at: Nanos,
        bytes: &[u8],
        out: &mut Vec<Observation>,
    );
    /// Bytes were lost, in one direction or, with `None`, in both: the open calls of this connection end as lost.
    fn lose(
        &mut self,
        conn: u32,
        direction: Option<Direction>,
        at: Nanos,
        lost: Lost,
        why: &str,
        out: &mut Vec<Observation>,
    );
    /// The decoder panicked on this connection and starts anew in the middle of it.
    fn restart(&mut self, conn: u32, at: Nanos, why: &str, out: &mut Vec<Observation>);
    /// A connection closed.
    fn close(&mut self, conn: u32, at: Nanos, why: &str, out: &mut Vec<Observation>);
    /// Called a few times a second: emits what was held back for too long.
    fn advance(&mut self, now: Nanos, out: &mut Vec<Observation>);
}

impl Decode for Decoder {
    fn open(&mut self, conn: u32, at: Nanos, pid: u32, peer: &str, out: &mut Vec<Observation>) {
        Self::open(self, conn, at, pid, peer, out);
    }
    fn feed(
        &mut self,
        conn: u32,
        direction: Direction,
        at: Nanos,
        bytes: &[u8],
        out: &mut Vec<Observation>,
    ) {
        Self::feed(self, conn, direction, at, bytes, out);
    }
    fn lose(
        &mut self,
        conn: u32,
        direction: Option<Direction>,
        at: Nanos,
        lost: Lost,
        why: &str,
        out: &mut Vec<Observation>,
    ) {
        Self::lose(self, conn, direction, at, lost, why, out);
    }
    fn restart(&mut self, conn: u32, at: Nanos, why: &str, out: &mut Vec<Observation>) {
        Self::restart(self, conn, at, why, out);
    }
    fn close(&mut self, conn: u32, at: Nanos, why: &str, out: &mut Vec<Observation>) {
        Self::close(self, conn, None, at, why, out);
    }
    fn advance(&mut self, now: Nanos, out: &mut Vec<Observation>) {
        Self::advance(self, now, out);
    }
}

/// How long the decoder lets chunks gather after it was woken. Each wake-up costs the relay a system call, so few of
/// them matter more than a fresh view; the relay takes the stamps anyway.
const GATHER: Duration = Duration::from_millis(20);
/// How often the decoder emits what it holds back.
const SETTLE: Duration = Duration::from_millis(250);
/// Queued bytes from which on the decoder does not wait for more.
const ENOUGH: usize = 512 << 10;
/// Bytes that are decoded (in some 10 µs) before the thread yields its core. A scheduler lets a thread that it has
/// started run for a millisecond whatever its nice value: the pumps and both ends of the connection
/// would wait that long.
const TURN: usize = 32 << 10;
/// Cost of an item itself, as the number of bytes that could be decoded in that time: small calls come by the hundred.
const ITEM_TURN: usize = 2 << 10;
/// Memory of a queued item besides its bytes.
const ITEM: usize = 96;

/// A connection, the time at which its item was queued, and the item.
pub(crate) type Queued = (u32, Nanos, Item);

#[derive(Debug)]
pub(crate) enum Item {
    Open {
        pid: u32,
        peer: String,
        flags: Arc<Flags>,
    },
    Chunk {
        direction: Direction,
        /// Bytes of this direction that were lost just before.
        lost: Option<Loss>,
        bytes: Box<[u8]>,
    },
    Close {
        why: &'static str,
        /// Bytes that were lost after the last chunks.
        lost: Option<Loss>,
    },
}

impl Item {
    #[cfg(test)]
    pub(crate) fn untimed(&self) -> String {
        match self {
            Self::Open { .. } => "open".to_owned(),
            Self::Chunk {
                direction,
                lost,
                bytes,
            } => format!("{direction:?} {:?} {bytes:?}", lost.map(|l| l.bytes)),
            Self::Close { why, lost } => format!("{why} {:?}", lost.map(|l| l.bytes)),
        }
    }

    /// Returns the room that the item takes in the queue, bytes.
    fn size(&self) -> usize {
        ITEM + match self {
            Self::Chunk { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }
}

/// Chunks that found no room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    since: Nanos,
    chunks: u64,
    bytes: u64,
}

impl Loss {
    /// Returns the sum of this loss and an earlier one.
    fn and(self, before: Option<Self>) -> Self {
        before.map_or(self, |b| Self {
            since: b.since.min(self.since),
            chunks: b.chunks + self.chunks,
            bytes: b.bytes + self.bytes,
        })
    }
}

/// What the decoder's thread tells the relay about a connection.
#[derive(Debug, Default)]
pub struct Flags {
    deaf: AtomicBool,
    in_flight: AtomicU32,
}

impl Flags {
    fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Queued>,
    waiting: bool,
    finished: bool,
}

/// The queue from the relay to the decoder's thread.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    more: Condvar,
    limit: usize,
    /// The proxy's counters.
    pub counters: Arc<Counters>,
}

impl Queue {
    /// Makes a queue of at most `limit` bytes of chunks, bookkeeping included.
    pub fn new(limit: usize, counters: Arc<Counters>) -> Self {
        Self {
            state: Mutex::default(),
            more: Condvar::new(),
            limit,
            counters,
        }
    }

    /// Queues an item and returns whether it had room. Opens and closes, which are small, always have room. A chunk
    /// after a loss has room only while half of the queue is free, so that losses do not follow one another.
    fn push(&self, conn: u32, at: Nanos, item: Item) -> bool {
        let size = item.size();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = match &item {
            Item::Chunk { lost: None, .. } => self.limit,
            Item::Chunk { .. } => self.limit / 2,
            _ => usize::MAX,
        };
        if self.bytes().saturating_add(size) > limit {
            return false;
        }
        Counters::add(&self.counters.queued_bytes, size as u64);
        state.items.push_back((conn, at, item));
        // One wake-up per batch: the decoder waits for a first item, or for many bytes.
        let wake = state.waiting && (state.items.len() == 1 || self.bytes() >= ENOUGH);
        if wake {
            state.waiting = false;
        }
        drop(state);
        if wake {
            self.more.notify_one();
        }
        true
    }

    /// Ends the queue: no more items come.
    pub fn finish(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .finished = true;
        self.more.notify_one();
    }

    /// Waits briefly for items and takes all of them, maybe none. Returns false once the queue has ended and is empty.
    fn take(&self, into: &mut VecDeque<Queued>) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.items.is_empty() && !state.finished {
            state = self.wait(state, SETTLE);
        }
        if !state.items.is_empty() && self.bytes() < ENOUGH && !state.finished {
            state = self.wait(state, GATHER);
        }
        std::mem::swap(&mut state.items, into);
        !(into.is_empty() && state.finished)
    }

    /// Takes all items without waiting.
    #[cfg(test)]
    pub(crate) fn take_now(&self) -> VecDeque<Queued> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.items)
    }

    /// Returns the queued items without their times, to compare states.
    #[cfg(test)]
    pub(crate) fn waits(&self) -> Vec<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state
            .items
            .iter()
            .map(|(_, _, item)| item.untimed())
            .collect()
    }

    fn wait<'s>(&self, mut state: MutexGuard<'s, State>, time: Duration) -> MutexGuard<'s, State> {
        state.waiting = true;
        let (mut state, _) = self
            .more
            .wait_timeout(state, time)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting = false;
        state
    }

    /// Returns the bytes in memory: queued, or taken and not yet decoded. They rise only under the lock.
    fn bytes(&self) -> usize {
        usize::try_from(Counters::get(&self.counters.queued_bytes)).unwrap_or(usize::MAX)
    }

    /// True while little is queued, so that the decoder may take its time.
    fn is_calm(&self) -> bool {
        self.bytes() < self.limit / 4
    }

    /// Frees the room of a decoded item: the limit is for all bytes in memory. It takes no lock, as the relay would
    /// have to wait for it.
    fn release(&self, size: usize) {
        self.counters
            .queued_bytes
            .fetch_sub(size as u64, Ordering::Relaxed);
    }
}

/// The relay's side of the tap for one connection. Its calls never block and never fail.
#[derive(Debug)]
pub struct Tap {
    queue: Arc<Queue>,
    conn: u32,
    flags: Arc<Flags>,
    /// Losses of each direction since its last queued chunk.
    from_client: Option<Loss>,
    from_server: Option<Loss>,
}

impl Tap {
    /// Queues the opening of a connection.
    pub fn open(queue: &Arc<Queue>, conn: u32, at: Nanos, pid: u32, peer: &str) -> Self {
        let flags = Arc::new(Flags::default());
        let item = Item::Open {
            pid,
            peer: peer.to_owned(),
            flags: Arc::clone(&flags),
        };
        queue.push(conn, at, item);
        Self {
            queue: Arc::clone(queue),
            conn,
            flags,
            from_client: None,
            from_server: None,
        }
    }

    fn lost(&mut self, direction: Direction) -> &mut Option<Loss> {
        match direction {
            Direction::ClientToServer => &mut self.from_client,
            Direction::ServerToClient => &mut self.from_server,
        }
    }

    /// Queues a copy of bytes that passed, or counts them as lost.
    pub fn chunk(&mut self, direction: Direction, at: Nanos, bytes: &[u8]) {
        let before = *self.lost(direction);
        if !self.flags.is_deaf() {
            let item = Item::Chunk {
                direction,
                lost: before,
                bytes: bytes.into(),
            };
            if self.queue.push(self.conn, at, item) {
                *self.lost(direction) = None;
                return;
            }
        }
        let loss = Loss {
            since: at,
            chunks: 1,
            bytes: bytes.len() as u64,
        };
        *self.lost(direction) = Some(loss.and(before));
        Counters::add(&self.queue.counters.lost_chunks, loss.chunks);
        Counters::add(&self.queue.counters.lost_bytes, loss.bytes);
    }

    /// Returns the number of unary calls in flight that the decoder knows of so far.
    pub fn in_flight(&self) -> u32 {
        self.flags.in_flight.load(Ordering::Relaxed)
    }

    /// Returns the bytes lost of each direction since its last queued chunk.
    #[cfg(test)]
    pub(crate) fn losing(&self) -> [u64; 2] {
        [self.from_client, self.from_server].map(|l| l.map_or(0, |l| l.bytes))
    }

    /// Queues the close of a connection.
    pub fn close(&self, at: Nanos, why: &'static str) {
        let lost = match (self.from_client, self.from_server) {
            (Some(loss), before) | (before, Some(loss)) => Some(loss.and(before)),
            (None, None) => None,
        };
        self.queue.push(self.conn, at, Item::Close { why, lost });
    }
}

/// All open connections in the decoder's thread.
type Conns = FxHashMap<u32, Known>;

/// The state of a connection in the decoder's thread.
#[derive(Debug, Default)]
struct Known {
    flags: Arc<Flags>,
    /// Streams of unary calls in flight.
    open: FxHashSet<u32>,
    /// The connection is not fully understood, and counted in [`Counters::partial`].
    partial: bool,
    /// Panics of the decoder on this connection.
    panics: u32,
    /// Chunks that were queued when the decoder gave the connection up.
    missed: Option<Loss>,
}

impl Known {
    fn sees(&mut self, sight: Sight, counters: &Counters) {
        let partial = sight != Sight::Whole;
        if partial != std::mem::replace(&mut self.partial, partial) {
            if partial {
                Counters::add(&counters.partial, 1);
            } else {
                counters.partial.fetch_sub(1, Ordering::Relaxed);
            }
        }
        if sight == Sight::Blind {
            self.flags.deaf.store(true, Ordering::Relaxed);
        }
    }
}

/// Decodes until the queue is finished.
pub fn run(queue: &Queue, decoder: Box<dyn Decode>, ring: &Ring, log: &Log) {
    // Not with a higher nice value: on two busy cores the thread would not keep up, and what it loses is not seen.
    let mut decoding = Decoding::new(decoder);
    let mut items = VecDeque::new();
    while queue.take(&mut items) {
        for item in items.drain(..) {
            decoding.item(item, queue, ring, log);
        }
        decoding.pause(queue, ring);
    }
}

/// The decoder, its connections, and the observations for the ring.
pub(crate) struct Decoding {
    decoder: Box<dyn Decode>,
    conns: Conns,
    out: Vec<Observation>,
    /// Cost of the items since the last yield, in bytes.
    turn: usize,
}

impl Decoding {
    pub(crate) fn new(decoder: Box<dyn Decode>) -> Self {
        Self {
            decoder,
            conns: Conns::default(),
            out: Vec::new(),
            turn: 0,
        }
    }

    pub(crate) fn item(&mut self, (conn, at, item): Queued, queue: &Queue, ring: &Ring, log: &Log) {
        let size = item.size();
        let from = self.out.len();
        let mut given_up = false;
        // A panic of the decoder is a bug, but must not reach the kubelet.
        let step = catch_unwind(AssertUnwindSafe(|| {
            one(
                self.decoder.as_mut(),
                &mut self.conns,
                &queue.counters,
                conn,
                at,
                item,
                &mut self.out,
            );
        }));
        if step.is_err() {
            let panics = self.conns.get_mut(&conn).map_or(RESTARTS, |known| {
                known.panics += 1;
                known.panics
            });
            let then = if panics < RESTARTS {
                "it is decoded from here on as one that is joined in the middle"
            } else {
                "this connection is no longer decoded"
            };
            log(&format!(
                "the decoder panicked on connection {conn}: bytes go on, {then}"
            ));
            // The decoder's state of this connection is worthless now. The restart may panic too.
            let lost = catch_unwind(AssertUnwindSafe(|| {
                self.decoder.restart(conn, at, PANICKED, &mut self.out);
            }));
            if lost.is_err() {
                self.out.push(gap(at, at, conn, 0, PANICKED));
            }
            given_up = panics >= RESTARTS;
        }
        let new = self.out.get(from..).unwrap_or_default();
        follow(&mut self.conns, new, &queue.counters);
        if given_up && let Some(known) = self.conns.get_mut(&conn) {
            known.sees(Sight::Blind, &queue.counters);
        }
        Counters::add(&queue.counters.panics, step.is_err().into());
        queue.release(size);
        self.turn += size + ITEM_TURN;
        if self.turn >= TURN {
            self.turn = 0;
            give(&mut self.out, queue, ring);
            // Losing bytes is worse than delaying other threads.
            if queue.is_calm() {
                std::thread::yield_now();
            }
        }
    }

    /// Emits what the decoder held back for too long, and pushes all observations to the ring.
    pub(crate) fn pause(&mut self, queue: &Queue, ring: &Ring) {
        let advanced = catch_unwind(AssertUnwindSafe(|| {
            self.decoder.advance(clock::now(), &mut self.out);
        }));
        if advanced.is_err() {
            Counters::add(&queue.counters.panics, 1);
        }
        give(&mut self.out, queue, ring);
    }
}

fn give(out: &mut Vec<Observation>, queue: &Queue, ring: &Ring) {
    Counters::add(&queue.counters.observations, out.len() as u64);
    let panics = deliver(out, |batch| ring.push(batch, clock::monotonic()));
    Counters::add(&queue.counters.panics, panics);
}

/// Hands a batch to `push`, which encodes and redacts it. If that panics, each observation is pushed alone, and one
/// that panics again is replaced by a gap. Returns the number of panics.
fn deliver(out: &mut Vec<Observation>, push: impl Fn(&mut Vec<Observation>)) -> u64 {
    let tried =
        |batch: &mut Vec<Observation>| catch_unwind(AssertUnwindSafe(|| push(batch))).is_err();
    if !tried(out) {
        return 0;
    }
    let mut panics = 1;
    for o in std::mem::take(out) {
        let (at, conn) = (o.stamp.seen, conn_of(&o.body));
        if tried(&mut vec![o]) {
            panics += 1;
            let lost = gap(at, at, conn, 1, "an observation could not be encoded");
            // If the gap cannot be encoded either, it is only counted.
            tried(&mut vec![lost]);
        }
    }
    panics
}

/// Returns the connection that an observation of the tap is about, 0 for none.
fn conn_of(body: &Body) -> u32 {
    match body {
        Body::CallStart(c) => c.key.conn,
        Body::CallEnd(c) => c.key.conn,
        Body::Conn(c) => c.conn,
        Body::Gap(g) => g.conn,
        _ => 0,
    }
}

const PANICKED: &str = "the decoder panicked";
/// Panics of the decoder on one connection until the decoder gives it up: each prints a stack trace.
const RESTARTS: u32 = 8;
const FULL: &str = "the tap's queue was full";

fn one(
    decoder: &mut dyn Decode,
    conns: &mut Conns,
    counters: &Counters,
    conn: u32,
    at: Nanos,
    item: Item,
    out: &mut Vec<Observation>,
) {
    match item {
        Item::Open { pid, peer, flags } => {
            let known = Known {
                flags,
                ..Known::default()
            };
            conns.insert(conn, known);
            decoder.open(conn, at, pid, &peer, out);
        }
        Item::Chunk {
            direction,
            lost,
            bytes,
        } => {
            let Some(known) = conns.get_mut(&conn) else {
                return;
            };
            // A chunk that was queued before the relay knew that the decoder gave the connection up.
            if known.flags.is_deaf() {
                let size = bytes.len() as u64;
                Counters::add(&counters.lost_chunks, 1);
                Counters::add(&counters.lost_bytes, size);
                let missed = Loss {
                    since: at,
                    chunks: 1,
                    bytes: size,
                };
                known.missed = Some(missed.and(lost).and(known.missed));
                return;
            }
            if let Some(Loss {
                since,
                chunks,
                bytes,
            }) = lost
            {
                let lost = Lost {
                    chunks,
                    bytes: Some(bytes),
                };
                decoder.lose(conn, Some(direction), since, lost, FULL, out);
            }
            decoder.feed(conn, direction, at, &bytes, out);
        }
        Item::Close { why, lost } => {
            let mut known = conns.remove(&conn);
            let missed = known.as_ref().and_then(|k| k.missed);
            if let Some(lost) = lost.map_or(missed, |l| Some(l.and(missed))) {
                let why = format!("{} chunks, {} bytes not decoded", lost.chunks, lost.bytes);
                out.push(gap(at, lost.since, conn, lost.chunks, &why));
            }
            if let Some(known) = &mut known {
                known.sees(Sight::Whole, counters);
            }
            decoder.close(conn, at, why, out);
        }
    }
}

/// Updates, from new observations, the calls in flight that draining waits for (without streams that never end), and
/// how much of each connection the decoder understands.
fn follow(conns: &mut Conns, out: &[Observation], counters: &Counters) {
    for o in out {
        let Some(known) = conns.get_mut(&conn_of(&o.body)) else {
            continue;
        };
        match &o.body {
            Body::CallStart(c) if c.method != method::GET_CONTAINER_EVENTS => {
                known.open.insert(c.key.stream);
            }
            // An end may come without a start (an event stream, a call that began before the tap), and twice.
            Body::CallEnd(c) => {
                known.open.remove(&c.key.stream);
            }
            Body::Conn(c) if c.open => known.sees(c.sight, counters),
            _ => continue,
        }
        let open = u32::try_from(known.open.len()).unwrap_or(u32::MAX);
        known.flags.in_flight.store(open, Ordering::Relaxed);
    }
}

fn gap(at: Nanos, since: Nanos, conn: u32, lost: u64, why: &str) -> Observation {
    Observation {
        stamp: Stamp::exact(at),
        source: Source::Cri,
        body: Body::Gap(Box::new(Gap {
            of: Source::Cri,
            since,
            lost,
            conn,
            resource: Text::default(),
            why: Text::from(why),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn an_observation_that_cannot_be_encoded_costs_no_other() {
        let note = |n: u32| gap(Nanos(i64::from(n)), Nanos(0), n, 0, "x");
        let got = RefCell::new(Vec::new());
        let push = |batch: &mut Vec<Observation>| {
            assert!(
                batch.iter().all(|o| *o != note(2)),
                "it panics on the second"
            );
            got.borrow_mut().append(batch);
        };
        let mut batch: Vec<_> = (1..=3).map(note).collect();
        assert_eq!(deliver(&mut batch, push), 2);
        let lost = gap(
            Nanos(2),
            Nanos(2),
            2,
            1,
            "an observation could not be encoded",
        );
        assert_eq!(got.into_inner(), [note(1), lost, note(3)]);
        assert!(batch.is_empty());
        assert_eq!(deliver(&mut vec![note(1)], |_| {}), 0);
    }
}
