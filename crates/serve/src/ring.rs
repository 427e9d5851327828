//! The last minutes of observations, as session lines, for any number of readers.
//!
//! The writer never waits. Every reader has a position of its own; one that is slower than the ring is long finds
//! that its position has gone, and is told how many lines it missed. There is no queue a reader, so memory does not
//! depend on how many there are.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prost::bytes::Bytes;
use tokio::sync::watch;

use kflow_model::session::format::{self, Line};
use kflow_model::{Body, Nanos, Observation};

/// Memory that a line takes besides its bytes.
const ENTRY: usize = 48;

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
    lines: VecDeque<(Instant, Bytes)>,
    /// Position of the oldest line.
    first: u64,
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
        // Made before the lock is taken: readers wait for the appending only.
        let lines: Vec<Bytes> = observations.iter().map(|o| line(o.borrow())).collect();
        let mut state = self.lock();
        for (o, line) in observations.drain(..).zip(lines) {
            let position = state.first + state.lines.len() as u64;
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
            state.bytes += line.len() + ENTRY;
            state.lines.push_back((now, line));
        }
        state.trim(self.max_bytes, self.max_age, now);
        let next = state.first + state.lines.len() as u64;
        drop(state);
        self.news.send_modify(|n| n.next = next);
    }

    /// Lines from a position on: at most `max_bytes`, at least one when there is one.
    pub fn read(&self, from: u64, max_bytes: usize) -> Batch {
        let state = self.lock();
        let first = from.max(state.first);
        let skip = usize::try_from(first - state.first).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let lines = state
            .lines
            .iter()
            .skip(skip)
            .map(|(_, line)| line)
            .take_while(|line| {
                let fits = bytes == 0 || bytes + line.len() <= max_bytes;
                bytes += line.len();
                fits
            })
            .cloned()
            .collect();
        Batch {
            first,
            lines,
            lost: first - from,
        }
    }

    /// Where a reader begins that wants all there is: the lines of what is still open but has left the ring, and the
    /// position of the oldest line.
    pub fn oldest(&self) -> (Vec<Bytes>, u64) {
        let state = self.lock();
        let mut open: Vec<_> = state
            .open
            .values()
            .filter(|(at, _)| *at < state.first)
            .collect();
        open.sort_by_key(|(at, _)| *at);
        let lines = open.into_iter().map(|(_, line)| line.clone()).collect();
        (lines, state.first)
    }

    /// Arrival of the oldest line; `None` when there is none.
    pub fn begin(&self) -> Option<Nanos> {
        let first = self.lock().lines.front().map(|(_, line)| line.clone())?;
        match format::decode(&first) {
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
            lines: state.lines.len() as u64,
            bytes: state.bytes as u64,
            age: state
                .lines
                .front()
                .map(|(came, _)| now.saturating_duration_since(*came)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn trim(&mut self, max_bytes: usize, max_age: Duration, now: Instant) {
        while let Some((came, line)) = self.lines.front() {
            if self.bytes <= max_bytes && now.saturating_duration_since(*came) <= max_age {
                return;
            }
            self.bytes -= line.len() + ENTRY;
            self.first += 1;
            self.lines.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
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
