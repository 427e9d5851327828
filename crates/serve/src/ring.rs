//! The last minutes of observations, as session lines, for any number of readers.
//!
//! The writer never waits. Every reader has a position of its own; one that is slower than the ring is long finds
//! that its position has gone, and is told how many lines it missed. There is no queue a reader, so memory does not
//! depend on how many there are. Lines that have stood for a while are packed by the block, as a session's are: a block of
//! log lines takes a sixth to a tenth of their bytes, and only a reader that lags behind has to unpack one.

mod block;

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prost::bytes::Bytes;
use tokio::sync::watch;

use kflow_model::session::format::{self, Line};
use kflow_model::{Body, Nanos, Observation};

use block::Block;

/// Memory that a line takes besides its bytes, as long as it is not packed.
const ENTRY: usize = 48;
/// Lines of one block, bytes before they are packed.
const BLOCK: usize = 128 << 10;
/// Time that the lines of one block may lie apart: so much longer than asked for a line can be kept.
const SPAN: Duration = Duration::from_secs(10);

/// See the [module](self).
#[derive(Debug)]
pub struct Ring {
    state: Mutex<State>,
    max_bytes: usize,
    max_age: Duration,
    news: watch::Sender<News>,
}

/// What readers wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Position after the newest line.
    pub next: u64,
    /// No line will come any more.
    pub finished: bool,
}

#[derive(Debug, Default)]
struct State {
    /// The older lines.
    blocks: VecDeque<Block>,
    /// The newest lines, with their arrival.
    lines: VecDeque<(Instant, Bytes)>,
    /// Position of the oldest of the newest lines: blocks end before it.
    unpacked: u64,
    /// Memory of the newest lines.
    unpacked_bytes: usize,
    /// Memory of all.
    bytes: usize,
    /// Starts of what has not ended, so that a late reader knows of it however old it is: open connections
    /// (stream 0) and calls in flight.
    open: BTreeMap<(u32, u32), (u64, Bytes)>,
}

/// Some lines of the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Position of the first line.
    pub first: u64,
    /// The lines, without line feeds.
    pub lines: Vec<Bytes>,
    /// Lines that were dropped before `first` and after the position that was asked for.
    pub lost: u64,
}

/// How full the ring is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Observations in the ring.
    pub lines: u64,
    /// Bytes, bookkeeping included.
    pub bytes: u64,
    /// Age of the oldest line, `None` when empty.
    pub age: Option<Duration>,
}

/// An observation as the service gives it, without a line feed. Redacted, as in a session: what a subscriber gets may end in a
/// file.
pub fn line(o: &Observation) -> Bytes {
    let mut line = Vec::with_capacity(256);
    format::encode(o, &mut line);
    // As long as it is: it waits in the ring.
    Bytes::copy_from_slice(line.trim_ascii_end())
}

impl Ring {
    /// A ring that keeps at most this many bytes and nothing that is older.
    pub fn new(max_bytes: usize, max_age: Duration) -> Self {
        Self {
            state: Mutex::default(),
            max_bytes,
            max_age,
            news: watch::channel(News::default()).0,
        }
    }

    /// Takes observations, in order, as of `now` by the monotonic clock.
    pub fn push<O: Borrow<Observation>>(&self, observations: &mut Vec<O>, now: Instant) {
        if observations.is_empty() {
            return;
        }
        // Made before the lock is taken: readers wait for the appending only, and now and then for a block to be packed.
        let lines: Vec<Bytes> = observations.iter().map(|o| line(o.borrow())).collect();
        let mut state = self.lock();
        for (o, line) in observations.drain(..).zip(lines) {
            let position = state.next();
            match &o.borrow().body {
                Body::Conn(c) if c.open => {
                    state.open.insert((c.conn, 0), (position, line.clone()));
                }
                Body::Conn(c) => state.open.retain(|(conn, _), _| *conn != c.conn),
                Body::CallStart(c) => {
                    let key = (c.key.conn, c.key.stream);
                    state.open.insert(key, (position, line.clone()));
                }
                Body::CallEnd(c) => {
                    state.open.remove(&(c.key.conn, c.key.stream));
                }
                _ => {}
            }
            state.append(now, line);
        }
        state.trim(self.max_bytes, self.max_age, now);
        let next = state.next();
        drop(state);
        self.news.send_modify(|n| n.next = next);
    }

    /// Lines from a position on: at most `max_bytes`, at least one when there is one. There can be more behind them.
    pub fn read(&self, from: u64, max_bytes: usize) -> Batch {
        let mut first = from;
        loop {
            let state = self.lock();
            first = first.max(state.first());
            let Some(block) = state.block(first) else {
                let skip = usize::try_from(first - state.unpacked).unwrap_or(usize::MAX);
                let lines = state.lines.iter().skip(skip).map(|(_, line)| line.clone());
                return Batch {
                    first,
                    lines: at_most(max_bytes, lines),
                    lost: first - from,
                };
            };
            // Unpacked without the lock: who writes does not wait for a reader.
            drop(state);
            let lines = block.lines(first);
            if !lines.is_empty() {
                return Batch {
                    first,
                    lines: at_most(max_bytes, lines.into_iter()),
                    lost: first - from,
                };
            }
            // What cannot be unpacked is lost, as if it had left the ring.
            first = block.end();
        }
    }

    /// Where a reader begins that wants all there is: the lines of what is still open but has left the ring, and the
    /// position of the oldest line.
    pub fn oldest(&self) -> (Vec<Bytes>, u64) {
        let state = self.lock();
        let first = state.first();
        let mut open: Vec<_> = state.open.values().filter(|(at, _)| *at < first).collect();
        open.sort_by_key(|(at, _)| *at);
        let lines = open.into_iter().map(|(_, line)| line.clone()).collect();
        (lines, first)
    }

    /// Arrival of the oldest line; `None` when there is none.
    pub fn begin(&self) -> Option<Nanos> {
        match format::decode(self.read(0, 1).lines.first()?) {
            Line::Observation(o) => Some(o.stamp.seen),
            _ => None,
        }
    }

    /// Position after the newest line.
    pub fn next(&self) -> u64 {
        self.news.borrow().next
    }

    /// For waiting.
    pub fn news(&self) -> watch::Receiver<News> {
        self.news.subscribe()
    }

    /// No line will come any more: readers end when they have read the rest.
    pub fn finish(&self) {
        self.news.send_modify(|n| n.finished = true);
    }

    /// How full it is, as of `now`.
    pub fn fill(&self, now: Instant) -> Fill {
        let mut state = self.lock();
        state.trim(self.max_bytes, self.max_age, now);
        Fill {
            lines: state.next() - state.first(),
            bytes: state.bytes as u64,
            age: state
                .began()
                .map(|came| now.saturating_duration_since(came)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first lines that have at most so many bytes, at least one.
fn at_most(max_bytes: usize, lines: impl Iterator<Item = Bytes>) -> Vec<Bytes> {
    let mut bytes = 0;
    let fits = |line: &Bytes| {
        let fits = bytes == 0 || bytes + line.len() <= max_bytes;
        bytes += line.len();
        fits
    };
    lines.take_while(fits).collect()
}

impl State {
    /// Position of the oldest line.
    fn first(&self) -> u64 {
        self.blocks.front().map_or(self.unpacked, Block::first)
    }

    /// Position after the newest line.
    fn next(&self) -> u64 {
        self.unpacked + self.lines.len() as u64
    }

    /// Arrival of the oldest line.
    fn began(&self) -> Option<Instant> {
        let line = || self.lines.front().map(|(came, _)| *came);
        self.blocks.front().map(Block::began).or_else(line)
    }

    /// The block that has the line at a position, when it is in one.
    fn block(&self, position: u64) -> Option<Block> {
        let at = self.blocks.partition_point(|b| b.end() <= position);
        self.blocks.get(at).cloned()
    }

    fn append(&mut self, now: Instant, line: Bytes) {
        let full = self.unpacked_bytes + line.len() > BLOCK;
        let old = |(came, _): &(Instant, Bytes)| now.saturating_duration_since(*came) > SPAN;
        if full || self.lines.front().is_some_and(old) {
            self.pack();
        }
        self.unpacked_bytes += line.len() + ENTRY;
        self.bytes += line.len() + ENTRY;
        self.lines.push_back((now, line));
    }

    /// Makes a block of the newest lines.
    fn pack(&mut self) {
        // What cannot be packed stays as it is: the bounds hold all the same.
        let Some(block) = Block::of(self.unpacked, self.lines.iter()) else {
            return;
        };
        self.bytes = self.bytes - self.unpacked_bytes + block.bytes();
        self.unpacked = block.end();
        self.unpacked_bytes = 0;
        self.blocks.push_back(block);
        // With its room: the next lines need it.
        self.lines.clear();
    }

    fn trim(&mut self, max_bytes: usize, max_age: Duration, now: Instant) {
        let fits =
            |bytes, newest| bytes <= max_bytes && now.saturating_duration_since(newest) <= max_age;
        while let Some(block) = self.blocks.front() {
            if fits(self.bytes, block.ended()) {
                return;
            }
            self.bytes -= block.bytes();
            self.blocks.pop_front();
        }
        while let Some((came, line)) = self.lines.front() {
            if fits(self.bytes, *came) {
                return;
            }
            let bytes = line.len() + ENTRY;
            self.bytes -= bytes;
            self.unpacked_bytes -= bytes;
            self.unpacked += 1;
            self.lines.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use kflow_model::clock;
    use kflow_model::cri::{CallEnd, CallKey, CallOutcome, CallStart, Service, Subject};
    use kflow_model::gap::Note;
    use kflow_model::{Nanos, Source, Stamp, Text};

    fn note(n: usize) -> Observation {
        Observation {
            stamp: Stamp::exact(Nanos(1)),
            source: Source::Kflow,
            body: Body::Note(Box::new(Note {
                text: Text::from(n.to_string()),
            })),
        }
    }

    fn start(stream: u32) -> Observation {
        Observation {
            stamp: Stamp::exact(Nanos(1)),
            source: Source::Cri,
            body: Body::CallStart(Box::new(CallStart {
                key: CallKey { conn: 1, stream },
                service: Service::Runtime,
                method: Text::from("RunPodSandbox"),
                subject: Subject::default(),
                partial: false,
                timeout_ns: None,
                traceparent: None,
                request_bytes: 0,
                filtered: false,
                fields: kflow_model::Pairs::default(),
            })),
        }
    }

    fn end(stream: u32) -> Observation {
        Observation {
            stamp: Stamp::exact(Nanos(2)),
            source: Source::Cri,
            body: Body::CallEnd(Box::new(CallEnd {
                key: CallKey { conn: 1, stream },
                outcome: CallOutcome::Status,
                code: Some(0),
                inferred: false,
                began_unseen: false,
                message: Text::default(),
                subject: Subject::default(),
                request_bytes: 0,
                response_bytes: 0,
                messages: 1,
                fields: kflow_model::Pairs::default(),
            })),
        }
    }

    #[test]
    fn a_reader_gets_every_line_once_and_in_order() {
        let ring = Ring::new(1 << 20, Duration::from_secs(60));
        ring.push(&mut (0..10).map(note).collect(), clock::monotonic());
        let one = ring.read(0, 1);
        assert_eq!((one.first, one.lost, one.lines.len()), (0, 0, 1));
        let rest = ring.read(1, usize::MAX);
        assert_eq!(
            rest.lines,
            (1..10).map(|n| line(&note(n))).collect::<Vec<_>>()
        );
        assert!(ring.read(10, usize::MAX).lines.is_empty());
    }

    #[test]
    fn a_slow_reader_is_told_how_much_it_missed() {
        let size = line(&note(10)).len() + ENTRY;
        let ring = Ring::new(size * 5, Duration::from_secs(60));
        ring.push(&mut (10..30).map(note).collect(), clock::monotonic());
        let got = ring.read(3, usize::MAX);
        assert_eq!((got.first, got.lost, got.lines.len()), (15, 12, 5));
        assert!(ring.fill(clock::monotonic()).bytes <= (size * 5) as u64);
    }

    /// A line of so many bytes and more, that no other is like.
    fn long(n: usize, bytes: usize) -> Observation {
        let word = format!("{n} {:x} ", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut o = note(n);
        o.body = Body::Note(Box::new(Note {
            text: Text::from(word.repeat(bytes / word.len() + 1)),
        }));
        o
    }

    proptest! {
        /// What a reader gets does not depend on what is packed.
        #[test]
        fn lines_are_the_same_packed_or_not(
            pushes in vec((1_usize..300, 1_usize..3_000, 0_u64..20), 1..12),
            reads in vec((0.0..1.2_f64, 1_usize..400_000), 1..12),
            room in 0_usize..2_000_000,
        ) {
            let ring = Ring::new(room, Duration::from_secs(60));
            let mut now = clock::monotonic();
            let mut given: Vec<(Instant, Bytes)> = Vec::new();
            for (lines, bytes, pause) in pushes {
                now += Duration::from_secs(pause);
                let mut all: Vec<_> = (0..lines).map(|n| long(given.len() + n, bytes)).collect();
                given.extend(all.iter().map(|o| (now, line(o))));
                ring.push(&mut all, now);
                let fill = ring.fill(now);
                prop_assert!(fill.bytes <= room as u64);
                prop_assert!(fill.age <= Some(Duration::from_secs(60) + SPAN));
                let (open, oldest) = ring.oldest();
                prop_assert_eq!((open, oldest + fill.lines), (Vec::new(), given.len() as u64));
                // Nothing leaves that had room and was not old.
                let bytes: usize = given.iter().map(|(_, l)| l.len() + ENTRY).sum();
                let young = given.iter().all(|(came, _)| now - *came <= Duration::from_secs(60));
                prop_assert!(bytes > room || !young || oldest == 0);
            }
            for (at, most) in reads {
                let from = (given.len() as f64 * at) as u64;
                let got = ring.read(from, most);
                prop_assert_eq!(got.first, from.max(ring.oldest().1));
                prop_assert_eq!(got.lost, got.first - from);
                let there = given.iter().map(|(_, line)| line).skip(got.first as usize);
                prop_assert!(there.clone().zip(&got.lines).all(|(a, b)| a == b));
                prop_assert_eq!(got.lines.is_empty(), there.clone().next().is_none());
                prop_assert!(got.lines.len() < 2 || got.lines.iter().map(Bytes::len).sum::<usize>() <= most);
            }
        }
    }

    #[test]
    fn older_lines_take_a_part_of_their_bytes() {
        let ring = Ring::new(256 << 10, Duration::from_secs(60));
        let mut calls = (0..50_000).map(|n| vec![start(n), end(n)]);
        let full = |lines| ring.fill(clock::monotonic()).lines < lines;
        let n = calls.position(|mut call| {
            ring.push(&mut call, clock::monotonic());
            full(ring.next())
        });
        let bytes = n.unwrap() * (line(&start(0)).len() + line(&end(0)).len());
        assert!(bytes > 1 << 20, "full after {bytes} bytes");
    }

    #[test]
    fn lines_go_when_they_are_old() {
        let ring = Ring::new(1 << 20, Duration::from_secs(60));
        let begun = clock::monotonic();
        let at = |s| begun + Duration::from_secs(s);
        ring.push(&mut vec![note(1)], at(100));
        ring.push(&mut vec![note(2)], at(159));
        assert_eq!(ring.fill(at(160)).lines, 2);
        assert_eq!(ring.fill(at(161)).age, Some(Duration::from_secs(2)));
    }

    #[test]
    fn what_is_still_open_is_told_to_a_late_reader_however_old_it_is() {
        let ring = Ring::new(1, Duration::from_secs(60));
        ring.push(
            &mut vec![start(1), start(3), end(1), note(1)],
            clock::monotonic(),
        );
        let (open, first) = ring.oldest();
        assert_eq!(open, [line(&start(3))]);
        assert_eq!(first, 4);
    }
}
