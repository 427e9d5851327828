//! The last minutes of observations, as session lines, for any number of readers.
//!
//! The writer never waits. Every reader has a position of its own; when a reader is so slow that its position has left
//! the ring, it is told how many lines it missed. Readers have no queues, so the memory does not depend on their
//! number. Older lines are compressed in blocks: a block of log lines takes a sixth to a tenth of their bytes, and only
//! a reader that lags behind has to decompress one.

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

/// Memory that an uncompressed line takes besides its bytes, bytes.
const ENTRY: usize = 48;
/// Size of the lines of one block before compression, bytes.
const BLOCK: usize = 128 << 10;
/// Maximum time between the first and the last line of a block. A line is kept longer than `max_age` by at most this.
const SPAN: Duration = Duration::from_secs(10);

/// A ring of session lines. See the [module](self).
#[derive(Debug)]
pub struct Ring {
    state: Mutex<State>,
    max_bytes: usize,
    max_age: Duration,
    news: watch::Sender<News>,
}

/// The state of the ring that readers wait to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Position after the newest line.
    pub next: u64,
    /// True when no line will come any more.
    pub finished: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Older lines, compressed.
    blocks: VecDeque<Block>,
    /// Newest lines, each with its arrival.
    lines: VecDeque<(Instant, Bytes)>,
    /// Position of the first of the newest lines; the blocks end before it.
    unpacked: u64,
    /// Memory of the newest lines, bytes.
    unpacked_bytes: usize,
    /// Memory of all lines, compressed or not, bytes.
    bytes: usize,
    /// Lines that began something that has not ended, by connection and stream: open connections (stream 0) and calls
    /// in flight. A new reader gets them even when they have left the ring.
    open: BTreeMap<(u32, u32), (u64, Bytes)>,
}

/// Consecutive lines of the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Position of the first line.
    pub first: u64,
    /// The lines, without line feeds.
    pub lines: Vec<Bytes>,
    /// How many lines left the ring between the position that was asked for and `first`.
    pub lost: u64,
}

/// How full the ring is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Observations in the ring.
    pub lines: u64,
    /// Memory of the ring in bytes, bookkeeping included.
    pub bytes: u64,
    /// Age of the oldest line, `None` when the ring is empty.
    pub age: Option<Duration>,
}

/// Returns an observation as the line that the service sends, without a line feed. It is redacted as in a session,
/// because a subscriber may write it to a file.
pub fn line(o: &Observation) -> Bytes {
    let mut line = Vec::with_capacity(256);
    format::encode(o, &mut line);
    // Without spare capacity, as the line stays in the ring for minutes.
    Bytes::copy_from_slice(line.trim_ascii_end())
}

impl Ring {
    /// Returns a ring that keeps at most `max_bytes` and no line that is older than `max_age`.
    pub fn new(max_bytes: usize, max_age: Duration) -> Self {
        Self {
            state: Mutex::default(),
            max_bytes,
            max_age,
            news: watch::channel(News::default()).0,
        }
    }

    /// Appends observations, in order, with the arrival `now` by the monotonic clock.
    pub fn push<O: Borrow<Observation>>(&self, observations: &mut Vec<O>, now: Instant) {
        if observations.is_empty() {
            return;
        }
        // Encoded before the lock is taken: readers wait only for the appending, and now and then for a
        // block to be compressed.
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

    /// Returns the lines from position `from` on: at most `max_bytes`, but at least one line when there is one. More
    /// lines may follow.
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
            // Decompressed without the lock, so that the writer does not wait for a reader.
            drop(state);
            let lines = block.lines(first);
            if !lines.is_empty() {
                return Batch {
                    first,
                    lines: at_most(max_bytes, lines.into_iter()),
                    lost: first - from,
                };
            }
            // A block that cannot be decompressed is lost, as if it had left the ring.
            first = block.end();
        }
    }

    /// Returns where a reader begins that wants everything: the lines in `open` that have left the ring, and the
    /// position of the oldest line in the ring.
    pub fn oldest(&self) -> (Vec<Bytes>, u64) {
        let state = self.lock();
        let first = state.first();
        let mut open: Vec<_> = state.open.values().filter(|(at, _)| *at < first).collect();
        open.sort_by_key(|(at, _)| *at);
        let lines = open.into_iter().map(|(_, line)| line.clone()).collect();
        (lines, first)
    }

    /// Returns the arrival of the oldest line; `None` when there is none.
    pub fn begin(&self) -> Option<Nanos> {
        match format::decode(self.read(0, 1).lines.first()?) {
            Line::Observation(o) => Some(o.stamp.seen),
            _ => None,
        }
    }

    /// Returns the position after the newest line.
    pub fn next(&self) -> u64 {
        self.news.borrow().next
    }

    /// Returns a receiver that wakes its owner when lines come or the ring is finished.
    pub fn news(&self) -> watch::Receiver<News> {
        self.news.subscribe()
    }

    /// Marks the ring as finished: no line will come any more, and readers end when they have read the rest.
    pub fn finish(&self) {
        self.news.send_modify(|n| n.finished = true);
    }

    /// Returns how full the ring is, as of `now`.
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

/// Returns the first of the lines, as many as have at most `max_bytes` together, but at least one.
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
    /// Returns the position of the oldest line.
    fn first(&self) -> u64 {
        self.blocks.front().map_or(self.unpacked, Block::first)
    }

    /// Returns the position after the newest line.
    fn next(&self) -> u64 {
        self.unpacked + self.lines.len() as u64
    }

    /// Returns the arrival of the oldest line.
    fn began(&self) -> Option<Instant> {
        let line = || self.lines.front().map(|(came, _)| *came);
        self.blocks.front().map(Block::began).or_else(line)
    }

    /// Returns the block that contains the line at `position`; `None` when the line is not in a block.
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

    /// Compresses the newest lines into a block.
    fn pack(&mut self) {
        // Lines that cannot be compressed stay as they are; the limits of the ring hold all the same.
        let Some(block) = Block::of(self.unpacked, self.lines.iter()) else {
            return;
        };
        self.bytes = self.bytes - self.unpacked_bytes + block.bytes();
        self.unpacked = block.end();
        self.unpacked_bytes = 0;
        self.blocks.push_back(block);
        // The capacity is kept for the next lines.
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
    use kflow_model::cri::{CallEnd, CallKey, CallOutcome, CallStart, Service};
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
            body: Body::CallStart(Box::new(CallStart::new(
                CallKey { conn: 1, stream },
                Service::Runtime,
                "RunPodSandbox",
            ))),
        }
    }

    fn end(stream: u32) -> Observation {
        Observation {
            stamp: Stamp::exact(Nanos(2)),
            source: Source::Cri,
            body: Body::CallEnd(Box::new(CallEnd {
                code: Some(0),
                ..CallEnd::new(CallKey { conn: 1, stream }, CallOutcome::Status)
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

    /// A line of at least `bytes` bytes that no other line resembles.
    fn long(n: usize, bytes: usize) -> Observation {
        let word = format!("{n} {:x} ", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut o = note(n);
        o.body = Body::Note(Box::new(Note {
            text: Text::from(word.repeat(bytes / word.len() + 1)),
        }));
        o
    }

    proptest! {
        /// What a reader gets does not depend on which lines are compressed.
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
                // No line leaves the ring that fits and is not too old.
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
