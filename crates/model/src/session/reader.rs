//! Reads sessions: plain or zstd, from a file or a stream, whole or cut.
//!
//! One thread decompresses and cuts blocks at line ends, up to four threads parse, and the caller gets the batches in
//! order: parsing is as fast as the machine allows, and the first batch is available at once. A caller that has to
//! save memory and is not in a hurry reads [in turn](Reader::in_turn).

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

use super::lines::Lines;
use super::{Header, SessionError, VERSION, format};
use crate::gap::Gap;
use crate::patient::PatientFile;
use crate::{Body, Evidence, Nanos, Observation, Source, Stamp};

/// Size of the block that one batch is parsed from, bytes (rounded up to a whole line).
const BLOCK: usize = 1 << 19;
/// The same for [`Reader::in_turn`].
const SMALL_BLOCK: usize = 1 << 16;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What was read, and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Observations read.
    pub observations: u64,
    /// Observations of a later kflow that were left out, by name of body or source.
    pub unknown: BTreeMap<String, u64>,
    /// Damaged lines that were left out.
    pub malformed: u64,
    /// Why the end of the session is missing; `None` when it is not.
    pub cut: Option<String>,
    /// True when the input is compressed.
    pub compressed: bool,
    /// Begin of the time in which everything was recorded. Observations that arrived before it are the newest states of
    /// what existed then. `None` when everything was recorded from the first observation on.
    pub from: Option<Nanos>,
    /// How many observations, from the first on, arrived before [`from`](Self::from).
    pub carried: usize,
    /// When the recording was closed. `None` when it was not closed: it ends with its last observation.
    pub until: Option<Nanos>,
}

impl Report {
    /// Returns the bounds of the time in which everything was recorded, given the bounds of the observations.
    pub fn bounds(&self, (first, last): (Nanos, Nanos)) -> (Nanos, Nanos) {
        let until = self.until.map_or(last, |u| u.max(last));
        (self.from.unwrap_or(first).min(until), until)
    }

    /// Returns a gap that says that the session is cut, `None` when it is not. `last` is the arrival
    /// of the last observation.
    pub fn cut_at(&self, last: Nanos) -> Option<Evidence> {
        let why = self.cut.as_ref()?;
        let why = format!("the recording is cut: {why}");
        Some(Arc::new(gap(last, 0, &why)))
    }

    fn add(&mut self, other: &Self) {
        self.observations += other.observations;
        self.malformed += other.malformed;
        for (k, n) in &other.unknown {
            *self.unknown.entry(k.clone()).or_default() += n;
        }
        if self.cut.is_none() {
            self.cut.clone_from(&other.cut);
        }
        self.from = other.from.or(self.from);
        self.until = other.until.or(self.until);
    }

    /// Returns a sentence for people about what is missing; empty when nothing is.
    pub fn sentence(&self) -> String {
        let mut parts = Vec::new();
        if let Some(why) = &self.cut {
            parts.push(format!("the recording is cut: {why}"));
        }
        if self.malformed > 0 {
            parts.push(format!("{} damaged lines left out", self.malformed));
        }
        for (kind, n) in &self.unknown {
            parts.push(format!(
                "{n} observations of a kind this kflow does not know ({kind}) left out"
            ));
        }
        parts.join("; ")
    }
}

/// Observations that were parsed together, in the order of the file.
#[derive(Debug, Default)]
pub struct Batch {
    /// The observations in order of arrival.
    pub observations: Vec<Evidence>,
    /// What was left out of this batch.
    pub report: Report,
    /// Where damaged lines were left out: index of the observation that follows them, and number of lines.
    damaged: Vec<(usize, u64)>,
}

impl Batch {
    /// Inserts a [`Gap`] where damaged lines were left out, because what they contained is unknown from there on.
    fn tell_damage(&mut self, before: Nanos) {
        for (at, lost) in std::mem::take(&mut self.damaged).into_iter().rev() {
            let seen = at
                .checked_sub(1)
                .and_then(|i| self.observations.get(i))
                .map_or(before, |o| o.stamp.seen);
            let why = "damaged lines of the recording were left out";
            let at = at.min(self.observations.len());
            self.observations.insert(at, Arc::new(gap(seen, lost, why)));
            // The inserted gap counts as arrived before `from`, which is in this batch.
            if at < self.report.carried {
                self.report.carried += 1;
            }
        }
    }
}

/// The state of reading a session: what was read so far.
struct Met {
    total: Report,
    /// Arrival of the latest observation.
    last: Nanos,
    given: usize,
}

impl Met {
    fn new(reader: &Reader) -> Self {
        Self {
            total: Report {
                compressed: reader.compressed,
                ..Report::default()
            },
            last: reader.header.created,
            given: 0,
        }
    }

    fn take(&mut self, batch: &mut Batch) {
        batch.tell_damage(self.last);
        self.total.add(&batch.report);
        if batch.report.from.is_some() {
            self.total.carried = self.given + batch.report.carried;
        }
        self.given += batch.observations.len();
        if let Some(o) = batch.observations.last() {
            self.last = self.last.max(o.stamp.seen);
        }
    }
}

/// A whole session in memory, in order of arrival.
#[derive(Clone, Debug)]
pub struct Session {
    pub header: Header,
    /// Observations by `seen`, equal ones in the order of the file. Each step of the clock begins a new order.
    pub observations: Vec<Evidence>,
    /// What was read, and what was left out.
    pub report: Report,
}

impl Session {
    /// Returns from when until when everything was recorded; `None` when there are no observations.
    pub fn range(&self) -> Option<(Nanos, Nanos)> {
        let arrivals = || self.observations.iter().map(|o| o.stamp.seen);
        Some(
            self.report
                .bounds((arrivals().min()?, arrivals().next_back()?)),
        )
    }
    /// Returns how many observations had arrived by `at`. When the clock was set back and showed that time more than
    /// once, the last time counts.
    pub fn arrived_by(&self, at: Nanos) -> usize {
        self.observations
            .iter()
            .rposition(|o| o.stamp.seen <= at)
            .map_or(0, |n| n + 1)
    }
}

/// A session that is being read.
pub struct Reader {
    pub header: Header,
    /// True when the input is compressed.
    pub compressed: bool,
    name: String,
    lines: Lines,
    progress: Progress,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("name", &self.name)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

/// How much of the input was read, in bytes of the file. Clones share the count, so that another thread can show it.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    taken: Arc<AtomicU64>,
    total: u64,
}

impl Progress {
    /// Returns the share that was read, 0 to 1000; 1000 when the total is not known.
    pub fn permille(&self) -> u32 {
        if self.total == 0 {
            return 1000;
        }
        let taken = self.taken.load(Ordering::Relaxed).min(self.total);
        (taken.saturating_mul(1000) / self.total) as u32
    }
}

struct Counted<R> {
    inner: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.taken.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// True if a session can begin with these bytes, of which there are as many as one read gives. Other compressed files begin
/// as compressed sessions do.
pub fn begins(first: &[u8]) -> bool {
    first.is_empty() || first.starts_with(&ZSTD_MAGIC) || first.starts_with(b"{\"kflow\"")
}

impl Reader {
    /// Opens a file; `-` is standard input. A file system that does not answer in time is an error.
    pub fn open(path: &Path) -> Result<Self, SessionError> {
        let name = path.display().to_string();
        if name == "-" {
            return Self::new("standard input", Box::new(io::stdin()), 0);
        }
        let open = || -> io::Result<(PatientFile, Metadata)> {
            let (f, m) = PatientFile::open(path)?;
            Ok((f, m))
        };
        let (file, meta) = open().map_err(|source| SessionError::Io {
            op: "open",
            path: name.clone(),
            source,
        })?;
        if meta.is_dir() {
            return Err(SessionError::NotASession {
                path: name,
                why: "it is a folder".to_owned(),
            });
        }
        Self::new(&name, Box::new(file), meta.len())
    }

    /// Reads a session from `input`; `name` is for messages, `total` is the size in bytes when it is known, else 0.
    pub fn new(name: &str, input: Box<dyn Read + Send>, total: u64) -> Result<Self, SessionError> {
        let io_error = |source| SessionError::Io {
            op: "read",
            path: name.to_owned(),
            source,
        };
        let progress = Progress {
            taken: Arc::default(),
            total,
        };
        let mut input = Counted {
            inner: input,
            taken: Arc::clone(&progress.taken),
        };
        let mut magic = Vec::with_capacity(4);
        (&mut input)
            .take(4)
            .read_to_end(&mut magic)
            .map_err(io_error)?;
        let compressed = magic == ZSTD_MAGIC;
        let whole = io::Cursor::new(magic).chain(input);
        let input: Box<dyn Read + Send> = if compressed {
            Box::new(zstd::stream::read::Decoder::new(whole).map_err(io_error)?)
        } else {
            Box::new(whole)
        };
        let mut lines = Lines::new(input, BLOCK);
        let first = lines.first_line();
        let not = |why: String| SessionError::NotASession {
            path: name.to_owned(),
            why,
        };
        let header = Header::parse(&first).map_err(|why| {
            not(match &lines.cut {
                Some(cut) => cut.clone(),
                None if first.is_empty() => "it is empty".to_owned(),
                None => why,
            })
        })?;
        if header.kflow > VERSION {
            return Err(SessionError::Newer {
                path: name.to_owned(),
                found: header.kflow,
                tool: if header.tool.is_empty() {
                    "?".to_owned()
                } else {
                    header.tool.to_string()
                },
            });
        }
        Ok(Self {
            header,
            compressed,
            name: name.to_owned(),
            lines,
            progress,
        })
    }

    /// Returns the progress of reading, which stays valid while [`for_each`](Self::for_each) runs in another thread.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Passes every batch in order to `take`, until it returns `false`. A cut session ends with a [`Gap`] that says so,
    /// and there is one wherever damaged lines were left out. Returns the report of the whole session.
    pub fn for_each(self, mut take: impl FnMut(Batch) -> bool) -> Report {
        let workers = std::thread::available_parallelism().map_or(1, |n| n.get().clamp(1, 4));
        let mut met = Met::new(&self);
        let mut lines = self.lines;
        std::thread::scope(|scope| {
            let mut to: Vec<SyncSender<Vec<u8>>> = Vec::with_capacity(workers);
            let mut from: Vec<Receiver<Batch>> = Vec::with_capacity(workers);
            // Parsed blocks are filled again: fresh memory costs more than decompressing, because the system clears it.
            let (spare_tx, spare_rx) = channel::<Vec<u8>>();
            for _ in 0..workers {
                let (block_tx, block_rx) = sync_channel::<Vec<u8>>(2);
                let (batch_tx, batch_rx) = sync_channel::<Batch>(2);
                let spare = spare_tx.clone();
                scope.spawn(move || {
                    crate::text::remember_many();
                    for block in block_rx {
                        let batch = parse(&block);
                        // Fails when the splitter has reached the end of the input.
                        let _gone = spare.send(block);
                        if batch_tx.send(batch).is_err() {
                            break;
                        }
                    }
                });
                to.push(block_tx);
                from.push(batch_rx);
            }
            let splitter = scope.spawn(move || {
                // Round robin: worker n gets block n, so the batches come back in order without being numbered.
                'all: loop {
                    for tx in &to {
                        let block = lines.block(spare_rx.try_recv().unwrap_or_default());
                        if block.is_empty() || tx.send(block).is_err() {
                            break 'all;
                        }
                    }
                }
                lines.cut
            });
            'all: loop {
                for rx in &from {
                    let Ok(mut batch) = rx.recv() else { break 'all };
                    met.take(&mut batch);
                    if !take(batch) {
                        break 'all;
                    }
                }
            }
            drop(from);
            met.total.cut = splitter.join().ok().flatten();
        });
        if let Some(gap) = met.total.cut_at(met.last) {
            take(Batch {
                observations: vec![gap],
                ..Batch::default()
            });
        }
        met.total
    }

    /// Does the same on the calling thread, in blocks of an eighth of the size: for a process that serves others and
    /// must not need memory in proportion to the session. Only the report says that a session is cut; no gap does.
    pub fn in_turn(mut self, mut take: impl FnMut(Batch) -> bool) -> Report {
        let mut met = Met::new(&self);
        self.lines.size = SMALL_BLOCK;
        let mut block = Vec::new();
        loop {
            block = self.lines.block(block);
            if block.is_empty() {
                break;
            }
            let mut batch = parse(&block);
            met.take(&mut batch);
            if !take(batch) {
                break;
            }
        }
        met.total.cut = self.lines.cut;
        met.total
    }

    /// Passes the rest of the session to `take` as blocks of whole lines, unparsed.
    pub(super) fn blocks(mut self, mut take: impl FnMut(&[u8])) {
        let mut block = Vec::new();
        loop {
            block = self.lines.block(block);
            if block.is_empty() {
                return;
            }
            take(&block);
        }
    }

    /// Reads the rest of the session into memory, in order of arrival.
    pub fn read(self) -> Session {
        let header = self.header.clone();
        let mut observations: Vec<Evidence> = Vec::new();
        let report = self.for_each(|batch| {
            observations.extend(batch.observations);
            true
        });
        sort_arrivals(&mut observations);
        Session {
            header,
            observations,
            report,
        }
    }
}

/// Sorts observations that arrived slightly out of order by arrival. A step of the recording machine's clock stays
/// where it is, between what arrived before and after it.
pub fn sort_arrivals(all: &mut [Evidence]) {
    let mut rest = all;
    while !rest.is_empty() {
        // The first observation may be the step that ended the previous stretch.
        let end = rest
            .iter()
            .skip(1)
            .position(|o| matches!(o.body, Body::ClockStep(_)))
            .map_or(rest.len(), |n| n + 1);
        let Some((stretch, after)) = rest.split_at_mut_checked(end) else {
            return;
        };
        let of_one_clock = match stretch {
            [first, later @ ..] if matches!(first.body, Body::ClockStep(_)) => later,
            all => all,
        };
        if !of_one_clock.is_sorted_by_key(|o| o.stamp.seen) {
            of_one_clock.sort_by_key(|o| o.stamp.seen);
        }
        rest = after;
    }
}

/// Reads a whole session into memory.
pub fn load(path: &Path) -> Result<Session, SessionError> {
    Ok(Reader::open(path)?.read())
}

fn gap(at: Nanos, lost: u64, why: &str) -> Observation {
    Observation {
        stamp: Stamp::exact(at),
        source: Source::Kflow,
        body: Body::Gap(Box::new(Gap {
            of: Source::Kflow,
            since: at,
            lost,
            conn: 0,
            resource: crate::Text::default(),
            why: why.into(),
        })),
    }
}

fn parse(block: &[u8]) -> Batch {
    let mut batch = Batch::default();
    batch.observations.reserve(block.len() / 256);
    let mut rest = block;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let (line, behind) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        rest = behind.get(1..).unwrap_or_default();
        match format::decode(line) {
            format::Line::Observation(o) => batch.observations.push(Arc::new(o)),
            format::Line::Bound(format::Bound::From, at) => {
                batch.report.from = Some(at);
                batch.report.carried = batch.observations.len();
            }
            format::Line::Bound(format::Bound::Until, at) => batch.report.until = Some(at),
            format::Line::Unknown(kind) => *batch.report.unknown.entry(kind).or_default() += 1,
            format::Line::Malformed => {
                batch.report.malformed += 1;
                let at = batch.observations.len();
                match batch.damaged.last_mut() {
                    Some((same, n)) if *same == at => *n += 1,
                    _ => batch.damaged.push((at, 1)),
                }
            }
            format::Line::Blank => {}
        }
    }
    batch.report.observations = batch.observations.len() as u64;
    batch
}
