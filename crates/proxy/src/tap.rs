//! Copies of what passed, in a queue of bounded bytes, and the thread that decodes them.
//!
//! A connection of which a chunk was lost cannot be decoded any further (its header compression depends on every
//! byte): it goes blind for the rest of its life, says so once, and tells how much it missed when it closes.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::ring::Ring;
use super::{Counters, Log};
use kflow_cri::{Decoder, Direction, Lost};
use kflow_model::clock;
use kflow_model::cri::method;
use kflow_model::gap::Gap;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};

/// The pure half of the tap: bytes in, observations out. One value serves all connections of a proxy.
///
/// A [`Gap`] that names a connection says that the decoder cannot follow it any more: it gets no more of its bytes.
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
    /// Bytes were lost: calls of this connection that are open end as lost.
    fn lose(&mut self, conn: u32, at: Nanos, why: &str, out: &mut Vec<Observation>);
    /// A connection closed.
    fn close(&mut self, conn: u32, at: Nanos, why: &str, out: &mut Vec<Observation>);
    /// Called a few times a second: gives out what was held back too long.
    fn settle(&mut self, now: Nanos, out: &mut Vec<Observation>);
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
    fn lose(&mut self, conn: u32, at: Nanos, why: &str, out: &mut Vec<Observation>) {
        Self::lose(self, conn, None, at, Lost::default(), why, out);
    }
    fn close(&mut self, conn: u32, at: Nanos, why: &str, out: &mut Vec<Observation>) {
        Self::close(self, conn, None, at, why, out);
    }
    fn settle(&mut self, now: Nanos, out: &mut Vec<Observation>) {
        Self::settle(self, now, out);
    }
}

/// How long the decoder lets chunks gather after it was woken: fewer wake-ups, each of which costs the relay a call,
/// beat a fresher view, and stamps are taken by the relay.
const GATHER: Duration = Duration::from_millis(20);
/// How often the decoder is asked for what it held back.
const SETTLE: Duration = Duration::from_millis(250);
/// Waiting bytes from which on the decoder does not wait for more.
const ENOUGH: usize = 512 << 10;
/// Bytes that are decoded (in some 10 µs) before whoever waits for this core may have it. A scheduler lets a thread that it
/// has started run for a millisecond whatever its nice value: the pumps, and both ends of the connection, would wait.
const TURN: usize = 32 << 10;
/// Memory that a queued item takes besides its bytes.
const ITEM: usize = 96;

#[derive(Debug)]
enum Item {
    Open {
        pid: u32,
        peer: String,
        flags: Arc<Flags>,
    },
    Chunk {
        direction: Direction,
        bytes: Box<[u8]>,
    },
    Blind,
    Close {
        why: &'static str,
        lost_since: Option<Nanos>,
        lost_chunks: u64,
        lost_bytes: u64,
    },
}

/// What the decoder tells the relay about a connection.
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
    items: VecDeque<(u32, Nanos, Item)>,
    waiting: bool,
    finished: bool,
}

/// The queue between relay and decoder.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    more: Condvar,
    limit: usize,
    /// The proxy's counters.
    pub counters: Arc<Counters>,
}

impl Queue {
    /// A queue that holds at most `limit` bytes of chunks, bookkeeping included.
    pub fn new(limit: usize, counters: Arc<Counters>) -> Self {
        Self {
            state: Mutex::default(),
            more: Condvar::new(),
            limit,
            counters,
        }
    }

    /// Takes an item, or gives it back when there is no room. Small items that come at most three times in a
    /// connection's life (`forced`) are always taken.
    fn push(&self, conn: u32, at: Nanos, item: Item, forced: bool) -> bool {
        let size = ITEM
            + match &item {
                Item::Chunk { bytes, .. } => bytes.len(),
                _ => 0,
            };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !forced && self.bytes() + size > self.limit {
            return false;
        }
        Counters::add(&self.counters.queued_bytes, size as u64);
        state.items.push_back((conn, at, item));
        // One wake-up for a batch: the decoder says when it waits for the first item, or for many bytes.
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

    /// Nothing more will come.
    pub fn finish(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .finished = true;
        self.more.notify_one();
    }

    /// Waits a moment for items and takes them all, which may be none; false after the end.
    fn take(&self, into: &mut VecDeque<(u32, Nanos, Item)>) -> bool {
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

    fn wait<'s>(&self, mut state: MutexGuard<'s, State>, time: Duration) -> MutexGuard<'s, State> {
        state.waiting = true;
        let (mut state, _) = self
            .more
            .wait_timeout(state, time)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting = false;
        state
    }

    /// Bytes that are in memory: waiting, or taken and not decoded yet. Rises only under the lock.
    fn bytes(&self) -> usize {
        usize::try_from(Counters::get(&self.counters.queued_bytes)).unwrap_or(usize::MAX)
    }

    /// True while what waits is little: then the decoder may be slow.
    fn is_calm(&self) -> bool {
        self.bytes() < self.limit / 4
    }

    /// Room for this many bytes again: called as chunks are decoded, so that the limit holds for what is in memory.
    /// Without the lock, for which the relay would have to wait.
    fn release(&self, size: usize) {
        self.counters
            .queued_bytes
            .fetch_sub(size as u64, Ordering::Relaxed);
    }
}

/// The relay's end of the tap for one connection. Never blocks, never fails.
#[derive(Debug)]
pub struct Tap {
    queue: Arc<Queue>,
    conn: u32,
    flags: Arc<Flags>,
    lost_since: Option<Nanos>,
    lost_chunks: u64,
    lost_bytes: u64,
}

impl Tap {
    /// Begins a connection.
    pub fn open(queue: &Arc<Queue>, conn: u32, at: Nanos, pid: u32, peer: &str) -> Self {
        let flags = Arc::new(Flags::default());
        let item = Item::Open {
            pid,
            peer: peer.to_owned(),
            flags: Arc::clone(&flags),
        };
        queue.push(conn, at, item, true);
        Self {
            queue: Arc::clone(queue),
            conn,
            flags,
            lost_since: None,
            lost_chunks: 0,
            lost_bytes: 0,
        }
    }

    /// Hands over a copy of bytes that passed.
    pub fn chunk(&mut self, direction: Direction, at: Nanos, bytes: &[u8]) {
        if self.lost_since.is_none() && !self.flags.is_deaf() {
            let item = Item::Chunk {
                direction,
                bytes: bytes.into(),
            };
            if self.queue.push(self.conn, at, item, false) {
                return;
            }
            Counters::add(&self.queue.counters.blind, 1);
            self.queue.push(self.conn, at, Item::Blind, true);
        }
        self.lost_since.get_or_insert(at);
        self.lost_chunks += 1;
        self.lost_bytes += bytes.len() as u64;
        Counters::add(&self.queue.counters.lost_chunks, 1);
        Counters::add(&self.queue.counters.lost_bytes, bytes.len() as u64);
    }

    /// Unary calls in flight, as far as the decoder has got; 0 for a blind connection.
    pub fn in_flight(&self) -> u32 {
        self.flags.in_flight.load(Ordering::Relaxed)
    }

    /// Ends a connection.
    pub fn close(&self, at: Nanos, why: &'static str) {
        let item = Item::Close {
            why,
            lost_since: self.lost_since,
            lost_chunks: self.lost_chunks,
            lost_bytes: self.lost_bytes,
        };
        self.queue.push(self.conn, at, item, true);
    }
}

/// The connections, as the decoder's thread knows them.
type Conns = FxHashMap<u32, Arc<Flags>>;

/// Decodes until the queue is finished.
pub fn run(queue: &Queue, mut decoder: Box<dyn Decode>, ring: &Ring, log: &Log) {
    // Not with a higher nice value: on two busy cores it would not keep up, and what it loses makes a connection blind.
    let mut conns = Conns::default();
    let mut items = VecDeque::new();
    let mut out = Vec::new();
    let mut turn = 0;
    while queue.take(&mut items) {
        for (conn, at, item) in items.drain(..) {
            let size = ITEM
                + match &item {
                    Item::Chunk { bytes, .. } => bytes.len(),
                    _ => 0,
                };
            let from = out.len();
            // A panic of the decoder is a bug, but never the kubelet's problem.
            let step = catch_unwind(AssertUnwindSafe(|| {
                one(decoder.as_mut(), &mut conns, conn, at, item, &mut out);
            }));
            if step.is_err() {
                log(&format!(
                    "the decoder panicked on connection {conn}: bytes go on, this connection is no longer decoded"
                ));
                // What it thought of this connection is worth nothing now; it may panic again.
                let lost = catch_unwind(AssertUnwindSafe(|| {
                    decoder.lose(conn, at, PANICKED, &mut out);
                }));
                if lost.is_err() {
                    out.push(gap(at, at, conn, 0, PANICKED));
                }
            }
            follow(&conns, out.get(from..).unwrap_or_default(), &queue.counters);
            Counters::add(&queue.counters.panics, step.is_err().into());
            queue.release(size);
            turn += size;
            if turn >= TURN {
                turn = 0;
                give(&mut out, queue, ring);
                // Losing bytes is worse than being in the way.
                if queue.is_calm() {
                    std::thread::yield_now();
                }
            }
        }
        let settled = catch_unwind(AssertUnwindSafe(|| decoder.settle(clock::now(), &mut out)));
        if settled.is_err() {
            Counters::add(&queue.counters.panics, 1);
        }
        give(&mut out, queue, ring);
    }
}

fn give(out: &mut Vec<Observation>, queue: &Queue, ring: &Ring) {
    Counters::add(&queue.counters.observations, out.len() as u64);
    let panics = deliver(out, |batch| ring.push(batch, clock::monotonic()));
    Counters::add(&queue.counters.panics, panics);
}

/// Gives a batch to `push`, which encodes and redacts it. Where that panics, each is given alone, and in the place of one
/// that makes it panic stands a gap. Returns how often it panicked.
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
            // What cannot even be told is counted.
            tried(&mut vec![lost]);
        }
    }
    panics
}

/// The connection that an observation of the tap is about.
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

fn one(
    decoder: &mut dyn Decode,
    conns: &mut Conns,
    conn: u32,
    at: Nanos,
    item: Item,
    out: &mut Vec<Observation>,
) {
    match item {
        Item::Open { pid, peer, flags } => {
            conns.insert(conn, flags);
            decoder.open(conn, at, pid, &peer, out);
        }
        Item::Chunk { direction, bytes } => {
            // What came before the relay knew that this connection is blind.
            if conns.get(&conn).is_some_and(|f| !f.is_deaf()) {
                decoder.feed(conn, direction, at, &bytes, out);
            }
        }
        Item::Blind => {
            if let Some(flags) = conns.get(&conn) {
                flags.deaf.store(true, Ordering::Relaxed);
                decoder.lose(conn, at, "the tap's queue was full", out);
            }
        }
        Item::Close {
            why,
            lost_since,
            lost_chunks,
            lost_bytes,
        } => {
            if let Some(since) = lost_since {
                let why = format!("{lost_chunks} chunks, {lost_bytes} bytes not decoded");
                out.push(gap(at, since, conn, lost_chunks, &why));
            }
            conns.remove(&conn);
            decoder.close(conn, at, why, out);
        }
    }
}

/// Keeps the number of calls in flight that draining waits for (streams that never end are none of them), and notices
/// which connections the decoder gave up.
fn follow(conns: &Conns, out: &[Observation], counters: &Counters) {
    for o in out {
        match &o.body {
            Body::CallStart(c) if c.method != method::GET_CONTAINER_EVENTS => {
                if let Some(flags) = conns.get(&c.key.conn) {
                    flags.in_flight.fetch_add(1, Ordering::Relaxed);
                }
            }
            // An end without its start (an event stream, a call from before) must not wrap around.
            Body::CallEnd(c) => {
                if let Some(flags) = conns.get(&c.key.conn) {
                    let n = flags.in_flight.load(Ordering::Relaxed);
                    flags
                        .in_flight
                        .store(n.saturating_sub(1), Ordering::Relaxed);
                }
            }
            Body::Gap(g) if g.of == Source::Cri => {
                if let Some(flags) = conns.get(&g.conn)
                    && !flags.deaf.swap(true, Ordering::Relaxed)
                {
                    Counters::add(&counters.blind, 1);
                    flags.in_flight.store(0, Ordering::Relaxed);
                }
            }
            _ => {}
        }
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
