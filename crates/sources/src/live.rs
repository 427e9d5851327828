//! What a live source works with (a channel, pauses), and the status that it reports.
//!
//! A source is an `async fn` that runs until it is dropped. It sends observations to an [`Out`], and reports through
//! it whether it is on, or why it is off. A source that can wait (a watch, a file) waits when the engine is busy. One
//! that cannot (an event of the kernel) offers its observations; those that find no room are counted and reported as
//! a gap.

pub mod offload;
#[cfg(test)]
pub(crate) mod silent;
pub mod unix;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};
use tracing::{Span, info, info_span, warn};

use super::LineDecoder;
use kflow_model::clock;
use kflow_model::gap::Gap;
use kflow_model::redact;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};

/// How long a file system may take to answer before the source's status says that it hangs.
pub const SLOW: Duration = Duration::from_secs(5);

/// How far behind its arrival a line is that shows that a log is still read from before, ns.
const BEHIND: i64 = 10 * SECOND;
/// How long after its newest line a log is still expected to bring more of the past, ns: the node's is asked for every two seconds.
const STILL_COMES: i64 = 3 * SECOND;
/// How often it is looked at how fast a log comes, ns.
const PACE: i64 = SECOND / 2;

/// Whether a source works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The source has not tried anything yet.
    Starting,
    /// The source works. The text says what it delivers: `containerd 2.1.9, 2 connections`.
    On(Text),
    /// The source does not work. The text says what is missing, and what would help.
    Off(Text),
}

impl Status {
    /// Returns the status with its text redacted: an error can quote a URL, a header, or what a server answered.
    fn redacted(self) -> Self {
        let clean = |text: Text| redact::text(&text).as_ref().into();
        match self {
            Self::Starting => Self::Starting,
            Self::On(gives) => Self::On(clean(gives)),
            Self::Off(why) => Self::Off(clean(why)),
        }
    }
}

/// The status of a source, and how much it has delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStatus {
    pub source: Source,
    /// A name when there are several of a kind: `pods`, `events`, a path.
    pub name: Text,
    pub status: Status,
    /// What a user can do about the status, where that is known.
    pub help: Text,
    /// When the source was last turned on or off, by the wall clock; `None` where that is not known.
    pub since: Option<Nanos>,
    /// When the source tries again, while it pauses.
    pub next: Option<Nanos>,
    /// Arrival of the newest observation; `None` where only that of its kind of source is known, or where there is none.
    pub last: Option<Nanos>,
    /// Arrival of the newest observation minus its own time, ns.
    pub lag_ns: Option<i64>,
    /// For a log that is read from before: how far it has been read, and when that was.
    pub read_to: Option<Stamp>,
    /// Observations that were lost because the engine had no room.
    pub lost: u64,
    /// Observations delivered so far.
    pub count: u64,
    /// No argument named the source: kflow itself looked whether it exists.
    pub guessed: bool,
}

impl SourceStatus {
    /// The status of a source that has delivered nothing yet.
    pub fn new(source: Source, name: impl Into<Text>, status: Status) -> Self {
        Self {
            source,
            name: name.into(),
            status,
            help: Text::default(),
            since: None,
            next: None,
            last: None,
            lag_ns: None,
            read_to: None,
            lost: 0,
            count: 0,
            guessed: false,
        }
    }
    /// Returns true for a source that works.
    pub const fn is_on(&self) -> bool {
        matches!(self.status, Status::On(_))
    }
    /// Returns true for a source that tried and could not.
    pub const fn is_off(&self) -> bool {
        matches!(self.status, Status::Off(_))
    }
    /// Returns the time in a log up to which it has been read, while lines of the past still come; `None` once it has caught up.
    pub fn catches_up(&self, now: Nanos) -> Option<Nanos> {
        let read = self.read_to?;
        (self.is_on() && now.since(read.seen) < STILL_COMES).then_some(read.at)
    }
    /// Returns in words what the source delivers, or why it does not.
    pub fn detail(&self) -> &str {
        match &self.status {
            Status::Starting => "starting",
            Status::On(text) | Status::Off(text) => text,
        }
    }
}

/// All sources of a run: their common channel, and the status of each.
#[derive(Clone, Debug)]
pub struct Board {
    to: Sender<Observation>,
    cards: Arc<Mutex<Vec<Card>>>,
}

type Card = Arc<Mutex<SourceStatus>>;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    /// Returns a board, and the receiver of the observations of all sources, in which at most `room` of them wait.
    pub fn new(room: usize) -> (Self, Receiver<Observation>) {
        let (to, from) = channel(room);
        let cards = Arc::default();
        (Self { to, cards }, from)
    }
    /// Adds a source to the board, and returns its output.
    pub fn out(&self, source: Source, name: &str) -> Out {
        // The name can be a URL.
        let clean = redact::text(name);
        let card = Arc::new(Mutex::new(SourceStatus {
            since: Some(clock::now()),
            ..SourceStatus::new(source, clean.as_ref(), Status::Starting)
        }));
        lock(&self.cards).push(Arc::clone(&card));
        let span = info_span!("source", kind = source.name(), name);
        Out {
            to: self.to.clone(),
            card,
            dropped: None,
            paced: None,
            span,
        }
    }
    /// Returns the statuses of the sources, in the order in which they were added.
    pub fn statuses(&self) -> Vec<SourceStatus> {
        lock(&self.cards).iter().map(|c| lock(c).clone()).collect()
    }
}

/// Nobody takes observations any more: the run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the engine has stopped")]
pub struct Stopped;

/// A source's output: takes its observations to the engine, and its status to the board.
#[derive(Debug)]
pub struct Out {
    to: Sender<Observation>,
    card: Card,
    dropped: Option<(Nanos, u64)>,
    /// The observation from which the pace is measured.
    paced: Option<Stamp>,
    /// Lives as long as the source, and holds what the source logs about itself.
    span: Span,
}

impl Out {
    /// Sends an observation, waiting for room.
    pub async fn send(&mut self, o: Observation) -> Result<(), Stopped> {
        if let Some(gap) = self.gap(o.stamp.seen) {
            self.to.send(gap).await.map_err(|_| Stopped)?;
            self.dropped = None;
        }
        let stamp = o.stamp;
        self.to.send(o).await.map_err(|_| Stopped)?;
        self.counted(stamp);
        Ok(())
    }

    /// Sends several observations, waiting for room.
    pub async fn send_all(&mut self, all: &mut Vec<Observation>) -> Result<(), Stopped> {
        for o in all.drain(..) {
            self.send(o).await?;
        }
        Ok(())
    }

    /// Sends an observation if there is room; counts it as lost if there is none.
    pub fn offer(&mut self, o: Observation) -> Result<(), Stopped> {
        if let Some(gap) = self.gap(o.stamp.seen) {
            match self.to.try_send(gap) {
                Ok(()) => self.dropped = None,
                Err(TrySendError::Full(_)) => {
                    self.lose(o.stamp.seen);
                    return Ok(());
                }
                Err(TrySendError::Closed(_)) => return Err(Stopped),
            }
        }
        let stamp = o.stamp;
        match self.to.try_send(o) {
            Ok(()) => self.counted(stamp),
            Err(TrySendError::Full(_)) => self.lose(stamp.seen),
            Err(TrySendError::Closed(_)) => return Err(Stopped),
        }
        Ok(())
    }

    /// Sends as many observations as there is room for; returns how many there was no room for. These are the newest,
    /// and are counted as lost.
    pub fn offer_all(&mut self, all: Vec<Observation>) -> usize {
        let before = lock(&self.card).lost;
        for o in all {
            if self.offer(o).is_err() {
                break;
            }
        }
        usize::try_from(lock(&self.card).lost.saturating_sub(before)).unwrap_or(usize::MAX)
    }

    fn lose(&mut self, at: Nanos) {
        let (since, n) = self.dropped.unwrap_or((at, 0));
        self.dropped = Some((since, n + 1));
        lock(&self.card).lost += 1;
    }

    fn gap(&self, at: Nanos) -> Option<Observation> {
        let (since, lost) = self.dropped?;
        let of = lock(&self.card).source;
        warn!(parent: &self.span, lost, "no room for observations");
        Some(gap(
            of,
            since,
            at,
            lost,
            "kflow was too slow: no room for observations",
        ))
    }

    fn counted(&mut self, stamp: Stamp) {
        let card = Arc::clone(&self.card);
        let mut card = lock(&card);
        card.count += 1;
        card.last = Some(stamp.seen);
        card.lag_ns = Some(stamp.seen.since(stamp.at).max(0));
        // What other sources tell may be of long ago at any time: a list of Events, what an agent kept.
        if !matches!(
            card.source,
            Source::Kubelet | Source::Runtime | Source::Audit
        ) {
            return;
        }
        // Lines that are late because the node's clock is come at the pace of the time in them.
        let passed = |since: Stamp| (stamp.seen.since(since.seen), stamp.at.since(since.at));
        let fast = match self.paced.map(passed) {
            None => true,
            Some((took, _)) if took < PACE => card.read_to.is_some(),
            Some((took, told)) => told > took.saturating_mul(2),
        };
        if self.paced.is_none_or(|p| stamp.seen.since(p.seen) >= PACE) {
            self.paced = Some(stamp);
        }
        let behind = stamp.seen.since(stamp.at) >= BEHIND;
        card.read_to = (behind && fast).then_some(stamp);
    }

    /// Reports that the source works; `detail` says what it delivers.
    pub fn on(&self, detail: impl Into<Text>) {
        self.say(Status::On(detail.into()));
    }
    /// Reports that the source does not work; `why` says what is missing.
    pub fn off(&self, why: impl Into<Text>) {
        self.say(Status::Off(why.into()));
    }
    fn say(&self, status: Status) {
        let status = status.redacted();
        let mut card = lock(&self.card);
        card.next = None;
        if card.status == status {
            return;
        }
        let was_on = card.is_on();
        card.status = status;
        if card.is_on() != was_on {
            card.since = Some(clock::now());
        }
        let detail = card.detail();
        if card.is_on() {
            info!(parent: &self.span, detail, "on");
        } else {
            warn!(parent: &self.span, detail, "off");
        }
    }
    /// Waits before the next attempt, and reports when that is.
    pub async fn pause(&self, pause: Duration) {
        let ns = i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX);
        lock(&self.card).next = Some(clock::now().plus(ns));
        tokio::time::sleep(pause).await;
    }
    /// Returns the tracing span that lives as long as the source, for what the source logs.
    pub const fn span(&self) -> &Span {
        &self.span
    }
    /// Returns another output of the same source, counted together with this one.
    #[must_use]
    pub fn share(&self) -> Self {
        Self {
            to: self.to.clone(),
            card: Arc::clone(&self.card),
            dropped: None,
            paced: None,
            span: self.span.clone(),
        }
    }
}

/// Returns a gap for objects of a kind (`pods`) that the apiserver sent and that cannot be read.
pub fn unread(resource: &str, at: Nanos, lost: u64, why: &str) -> Observation {
    let mut o = gap(Source::Kube, at, at, lost, why);
    if let Body::Gap(gap) = &mut o.body {
        gap.resource = resource.into();
    }
    o
}

/// Returns a loss as an observation.
pub fn gap(of: Source, since: Nanos, at: Nanos, lost: u64, why: &str) -> Observation {
    Observation {
        stamp: Stamp::exact(at),
        source: of,
        body: Body::Gap(Box::new(Gap {
            of,
            since,
            lost,
            conn: 0,
            resource: Text::default(),
            why: Text::from(why),
        })),
    }
}

/// Longest line that is assembled, bytes: what a watch sends of one object is bounded by etcd's 1.5 MiB.
const LINE_MAX: usize = 16 << 20;

/// Assembles lines from chunks. A line longer than 16 MiB is dropped and counted ([`Lines::dropped`]).
#[derive(Debug, Default)]
pub struct Lines {
    part: Vec<u8>,
    skipping: bool,
    /// Lines that were dropped and not yet returned by [`dropped`](Self::dropped).
    too_long: u64,
}

impl Lines {
    /// Takes a chunk; calls `each` with the lines that the chunk completes, without their line feeds.
    pub fn push(&mut self, chunk: &[u8], mut each: impl FnMut(&[u8])) {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end);
            if self.skipping {
                self.skipping = false;
            } else if self.part.is_empty() {
                each(line);
            } else {
                self.part.extend_from_slice(line);
                each(&self.part);
            }
            self.part.clear();
            rest = after.get(1..).unwrap_or_default();
        }
        if self.skipping {
            return;
        }
        if self.part.len() + rest.len() > LINE_MAX {
            self.part = Vec::new();
            self.skipping = true;
            self.too_long += 1;
        } else {
            self.part.extend_from_slice(rest);
        }
    }
    /// Returns the lines that were dropped since the last call as a gap; `None` when there are none.
    pub fn dropped(&mut self, of: Source) -> Option<Observation> {
        let lost = std::mem::take(&mut self.too_long);
        let now = clock::now();
        (lost > 0).then(|| gap(of, now, now, lost, "a line was longer than 16 MiB"))
    }
    /// Forgets an incomplete line; returns true when there was one.
    pub fn cut(&mut self) -> bool {
        let begun = !self.part.is_empty() || self.skipping;
        self.part.clear();
        self.skipping = false;
        begun
    }
}

/// Decodes one line of a live log; its time of arrival is now, whatever the decoder sets.
pub fn decode_now(decoder: &mut dyn LineDecoder, line: &[u8], out: &mut Vec<Observation>) {
    let from = out.len();
    let now = clock::now();
    decoder.reads_at(now);
    decoder.line(line, out);
    // What is left out of a live log is not counted.
    drop(decoder.left());
    for o in out.iter_mut().skip(from) {
        o.stamp.seen = now;
    }
}

/// Pauses that double from `first` to `most`, and begin again after a success. Each is drawn between half and all of
/// its length, so that many kflows that lost the same server do not reconnect in step.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    /// Starts with a pause of `first`.
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self {
            first,
            most,
            next: first,
        }
    }
    /// Returns the next pause.
    pub fn pause(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.most);
        whole.mul_f64(1.0 - fastrand::f64() / 2.0)
    }
    /// Starts again with the first pause, after a success.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Returns the last cause of an error: what the system or the peer said, without the layers that passed it on.
pub fn root(e: &dyn std::error::Error) -> String {
    let mut last = e;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::gap::Note;

    fn note(n: i64) -> Observation {
        Observation {
            stamp: Stamp::exact(Nanos(n)),
            source: Source::Fs,
            body: Body::Note(Box::new(Note {
                text: Text::default(),
            })),
        }
    }

    /// A log is read from before, then it has caught up; lines whose clock is behind come at the pace of their own time.
    #[test]
    fn a_log_that_is_read_from_before_says_how_far_it_has_been_read() {
        let line = |at: i64, seen: i64| {
            let mut o = note(0);
            (o.stamp.at, o.stamp.seen) = (Nanos(at * SECOND / 10), Nanos(seen * SECOND / 10));
            o
        };
        // Tenths of a second: the time in the line, its arrival, and whether it shows that more of the past comes.
        let read = |of: Source, lines: &[(i64, i64, bool)]| {
            let (board, _from) = Board::new(64);
            let mut out = board.out(of, "journal");
            out.on("following");
            for (at, seen, comes) in lines {
                out.offer(line(*at, *seen)).unwrap();
                let s = board.statuses().remove(0);
                let told = s.catches_up(Nanos(seen * SECOND / 10));
                assert_eq!(
                    told,
                    comes.then_some(Nanos(at * SECOND / 10)),
                    "{at} {seen}"
                );
            }
            board.statuses().remove(0)
        };
        let past = [
            (0, 6000, true),
            (900, 6002, true),
            (3000, 6006, true),
            (5990, 6012, false),
        ];
        read(Source::Kubelet, &past);
        let quiet = read(Source::Kubelet, &past[..3]);
        assert_eq!(
            quiet.catches_up(Nanos(6006 * SECOND / 10 + STILL_COMES)),
            None
        );
        let skewed = [
            (0, 600, true),
            (6, 606, false),
            (12, 612, false),
            (15, 615, false),
        ];
        read(Source::Kubelet, &skewed);
        read(Source::Kube, &[(0, 6000, false)]);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told_once_there_is_room() {
        let (board, mut from) = Board::new(2);
        let mut out = board.out(Source::Fs, "cgroups");
        for n in 1..=5 {
            out.offer(note(n)).unwrap();
        }
        assert_eq!(board.statuses()[0].lost, 3);
        for _ in 0..2 {
            from.try_recv().unwrap();
        }
        out.offer(note(6)).unwrap();
        let Body::Gap(g) = from.try_recv().unwrap().body else {
            panic!("the gap comes first")
        };
        assert_eq!((g.since, g.lost, g.of), (Nanos(3), 3, Source::Fs));
        assert_eq!(from.try_recv().unwrap(), note(6));
        assert_eq!(board.statuses()[0].count, 3);
    }

    #[test]
    fn lines_are_put_together_from_any_pieces() {
        let text = b"one\n\ntwo and a half\nthree\ncut";
        for size in 1..text.len() {
            let (mut lines, mut got) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.push(piece, |l| got.push(String::from_utf8(l.to_vec()).unwrap()));
            }
            assert_eq!(
                got,
                ["one", "", "two and a half", "three"],
                "pieces of {size}"
            );
            assert!(lines.cut());
            lines.push(b"next\n", |l| assert_eq!(l, b"next"));
        }
    }

    #[test]
    fn a_line_without_end_takes_bounded_memory() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..40 {
            lines.push(&chunk, |_| panic!("no line ended"));
            assert!(lines.part.capacity() <= 2 * LINE_MAX);
        }
        let mut got = 0;
        lines.push(b"end of it\nnext\n", |l| {
            assert_eq!(l, b"next");
            got += 1;
        });
        assert_eq!(got, 1);
        let told = lines.dropped(Source::Kubelet);
        assert!(matches!(told.map(|o| o.body), Some(Body::Gap(g)) if g.lost == 1));
        assert_eq!(lines.dropped(Source::Kubelet), None);
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_begin_anew() {
        let s = Duration::from_secs;
        let mut b = Backoff::new(s(1), s(5));
        for most in [1, 2, 4, 5, 5] {
            let pause = b.pause();
            assert!(s(most) / 2 <= pause && pause <= s(most), "{pause:?}");
        }
        b.reset();
        assert!(b.pause() <= s(1));
    }

    #[test]
    fn many_that_fail_at_once_do_not_come_back_at_once() {
        let third = |_| {
            let mut b = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
            (b.pause(), b.pause(), b.pause()).2.as_millis() / 100
        };
        // 2 to 4 s in tenths: were the draws equal, one tenth would hold all thousand.
        let mut tenths = std::collections::BTreeMap::new();
        for tenth in (0..1000).map(third) {
            *tenths.entry(tenth).or_insert(0) += 1;
        }
        assert!(tenths.values().all(|n| *n < 200), "{tenths:?}");
    }
}
