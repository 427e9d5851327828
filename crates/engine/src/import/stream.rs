//! Decodes streams. A stream is one file, or several that continue each other, and has one decoder.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::bundle::archive;
use super::bundle::nodes::same;
use super::moment::{self, MadeAt, is_names};
use super::open::{Closed, Open};
use super::{ImportError, Input, Kind, Only, Options, Summary, recognise, repeats, yaml, zone};
use kflow_model::gap::Gap;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, redact};
use kflow_sources::journal;
use kflow_sources::klog::full_date;
use kflow_sources::kube::decode::EMPTY_LIST;
use kflow_sources::{Fed, LineDecoder, TimeHint};

/// Longest line that is decoded, bytes. A list of 10,000 pods in one line has some 100 MB.
const MAX_LINE: u64 = 512 << 20;
/// Bytes kept of the start of an input, to recognise it if it gives no observation.
pub(super) const BEGIN: usize = 1 << 16;
/// Most lines that are shown of those that were left out.
const UNREAD: usize = 3;
/// Longest begin of such a line that is kept, bytes.
const LINE: usize = 400;
/// What lines say that are errors.
const ERRORS: [&str; 5] = ["error", "fatal", "fail", "panic", "refused"];
const HALF_A_YEAR: i64 = 183 * 86_400 * SECOND;

/// The files that go through one decoder.
pub(super) struct Stream {
    pub(super) kind: Kind,
    files: Vec<Closed>,
}

pub(super) struct Decoded {
    pub(super) observations: Vec<Observation>,
    pub(super) summaries: Vec<Summary>,
    /// True when the arrival of its documents is not known: it is the newest time in each.
    pub(super) guessed: bool,
    /// When the file was last written; of standard input, when it was read.
    pub(super) written: Option<Nanos>,
    /// The moment from which ages in it count back, where nothing in it tells one.
    pub(super) printed: Option<Nanos>,
    /// Seconds east of UTC of its host's local time, where a line tells it.
    pub(super) zone: Option<i32>,
    /// True if only the date in a name tells when it was written.
    pub(super) by_name: bool,
    /// The namespace of which it lists every pod.
    pub(super) lists_all_of: Option<String>,
}

impl Decoded {
    /// The bundle that it is of. Streams that are lists have one file.
    pub(super) fn bundle(&self) -> usize {
        self.summaries.first().map_or(0, |s| s.input.bundle)
    }

    /// Returns a time that this stream tells for certain, from its middle, so that one stray line does not set the
    /// year of other streams.
    pub(super) fn near(&self) -> Option<Nanos> {
        let half = self.observations.len() / 2;
        self.observations
            .iter()
            .skip(half)
            .map(|o| o.stamp.at)
            .find(|t| t.0 > 0)
    }
}

/// Groups files into streams. `files` is sorted by kind.
pub(super) fn of(files: Vec<Closed>) -> Vec<Stream> {
    let mut streams: Vec<Stream> = Vec::with_capacity(files.len());
    for file in files {
        let kind = file.input.kind;
        match streams.last_mut() {
            Some(s) if s.kind == kind && kind.component().is_some() => s.files.push(file),
            _ => streams.push(Stream {
                kind,
                files: vec![file],
            }),
        }
    }
    streams
}

impl Stream {
    /// Returns the size of its files on the disk, in bytes.
    fn size(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }

    /// Opens the files, and sorts them by their first time.
    fn open(self) -> Result<Vec<Open>, ImportError> {
        let kind = self.kind;
        let files = self.files.into_iter().map(Closed::open);
        let files: Vec<Open> = files.collect::<Result<_, _>>()?;
        if files.len() < 2 {
            return Ok(files);
        }
        let mut dated: Vec<(Nanos, Open)> = files
            .into_iter()
            .map(|mut f| (first(kind, f.peek()).unwrap_or_default(), f))
            .collect();
        if kind.klog() {
            around_new_year(&mut dated);
        }
        dated.sort_by_key(|(t, _)| *t);
        Ok(dated.into_iter().map(|(_, f)| f).collect())
    }

    fn decode(
        self,
        options: &Options,
        near: Option<Nanos>,
        zone: Option<i32>,
    ) -> Result<Decoded, ImportError> {
        let kind = self.kind;
        let mut files = self.open()?;
        let first = files.first();
        let made = first.and_then(|f| moment::made_of(&f.input, &options.made));
        let made = made.filter(|_| kind == Kind::Watch);
        let modified = first.and_then(|f| f.modified);
        let own = modified;
        let modified = made.map(|made| made.written(own)).or(own);
        let by_name = made.is_some_and(MadeAt::is_named) && modified != own;
        let is_stdin = first.is_some_and(|f| f.input.is_stdin());
        let written = modified.or(options.fallback.filter(|_| is_stdin));
        let taken = options.taken.filter(|_| kind == Kind::Watch);
        let zone = zone.or_else(|| files.iter_mut().find_map(|f| zone::of(f.peek())));
        let is_local = kind.klog() && files.iter_mut().all(|f| zone::is_local(f.peek()));
        let own_zone = zone.filter(|_| is_local && options.utc_offset_s == 0);
        let dated = || files.iter_mut().find_map(|f| full_date(f.peek()));
        let hint = TimeHint {
            near: near.or_else(dated),
            not_after: taken.or_else(|| [modified, options.fallback].into_iter().flatten().min()),
            grows: false,
            year: options.year,
            utc_offset_s: own_zone.unwrap_or(options.utc_offset_s),
        };
        let mut decoder = kind.decoder(hint);
        let mut observations = Vec::new();
        let mut summaries = Vec::with_capacity(files.len());
        let mut cuts = Vec::new();
        let mut pieces = Vec::with_capacity(files.len());
        for file in files {
            let before = observations.len();
            let mut summary = take(file, &mut *decoder, &mut observations);
            if let Some(why) = &summary.cut {
                let why = format!("{} is cut: {why}", summary.input.name);
                cuts.push((observations.len(), why));
            }
            summary.observations = (observations.len() - before) as u64;
            summaries.push(summary);
            pieces.push(before..observations.len());
        }
        let before = observations.len();
        let fed = decoder.finish(&mut observations);
        let gap_at = |(n, why): &(usize, String)| {
            let before = observations.get(..*n).and_then(<[_]>::last);
            // A table is decoded when it ends.
            let last = before.or_else(|| observations.last())?;
            Some(gap(kind.source(), last.stamp.seen, why))
        };
        let cuts: Vec<Observation> = cuts.iter().filter_map(gap_at).collect();
        if let Some(last) = summaries.last_mut() {
            if last.cut.is_some() {
                // The table of pods with which it ends may lack rows.
                let tail = observations.split_off(before);
                observations.extend(tail.into_iter().filter(|o| !is_names(o)));
            }
            last.count(fed);
            last.count_all(decoder.left());
            last.observations += (observations.len() - before + cuts.len()) as u64;
        }
        for summary in summaries.iter_mut().filter(|s| s.observations > 0) {
            // A table of Events is decoded when it ends.
            summary.misfit = None;
        }
        if kind.component().is_some() {
            repeats::leave(&mut observations, &pieces, &mut summaries);
        }
        observations.extend(cuts);
        observations.sort_by_key(|o| o.stamp.seen);
        let whole = summaries.first().filter(|s| s.is_whole());
        Ok(Decoded {
            zone: zone.filter(|_| kind.component().is_some()),
            by_name,
            lists_all_of: whole.and_then(|s| s.input.lists_all_of.clone()),
            observations,
            summaries,
            guessed: decoder.guesses_arrival(),
            written,
            printed: hint.not_after.filter(|_| decoder.counts_from_hint()),
        })
    }
}

/// Reads the next line, with its line feed, into `line`; a longer one than `most` is skipped to its end. Returns how many
/// bytes were read, and whether `line` is whole.
fn next_line(reader: &mut impl BufRead, most: u64, line: &mut Vec<u8>) -> io::Result<(u64, bool)> {
    let read = reader.by_ref().take(most + 1).read_until(b'\n', line)? as u64;
    if read <= most || line.ends_with(b"\n") {
        return Ok((read, true));
    }
    line.clear();
    Ok((read + reader.skip_until(b'\n')? as u64, false))
}

/// Feeds a file to the decoder, line by line.
pub(super) fn take(
    mut file: Open,
    decoder: &mut dyn LineDecoder,
    out: &mut Vec<Observation>,
) -> Summary {
    let mut summary = Summary::new(file.input.clone());
    let before = out.len();
    let mut begin = file.peek();
    begin = begin.get(..BEGIN).unwrap_or(begin);
    let begin = begin.to_vec();
    let is_yaml = file.input.kind == Kind::Watch && yaml::is(&begin);
    if is_yaml {
        file.reader = Box::new(BufReader::new(yaml::Documents::new(file.reader)));
    }
    let mut line = Vec::new();
    let input = file.input.clone();
    let mut passed = Passed::new(&input);
    loop {
        line.clear();
        let got = next_line(&mut file.reader, MAX_LINE, &mut line);
        match got {
            Ok((0, _)) => break,
            Ok((n, whole)) => {
                summary.lines += 1;
                summary.bytes += n;
                if !whole {
                    *summary.malformed.entry("line too long").or_default() += 1;
                    continue;
                }
                let text = line.strip_suffix(b"\n").unwrap_or(&line);
                let text = text.strip_suffix(b"\r").unwrap_or(text);
                let fed = match passed.over(text) {
                    Some(why) => Fed::Ignored(why),
                    None => decoder.line(text, out),
                };
                if out.len() == before {
                    summary.note(fed, text);
                }
                summary.count(fed);
                summary.count_all(decoder.left());
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                summary.cut = Some(match e.kind() {
                    io::ErrorKind::InvalidData if is_yaml => e.to_string(),
                    _ => archive::broken(&e),
                });
                break;
            }
        }
    }
    // A journal says who wrote it: a program that runs the component logs lines of its own.
    let writer = begin.split(|b| *b == b'\n').find_map(journal::writer);
    let own = writer.is_some_and(|w| Kind::of_writer(w.ident) == Some(summary.input.kind));
    if out.len() == before && !own && !summary.ignored.contains_key(EMPTY_LIST) {
        let most = summary.malformed.iter().chain(&summary.ignored);
        let why = most.max_by_key(|(_, n)| **n).map(|(why, _)| *why);
        let why = why.or(summary.cut.as_deref());
        summary.misfit = recognise::misfit(&summary.input.name, summary.input.kind, &begin, why);
    }
    summary
}

/// Tells the lines of a journal that are passed over: those of other hosts, and of other programs.
struct Passed<'a> {
    only: Option<&'a Only>,
    kind: Kind,
    /// Why the last entry is passed over; the lines that continue it are too.
    last: Option<&'static str>,
}

impl<'a> Passed<'a> {
    const fn new(input: &'a Input) -> Self {
        Self {
            only: input.only.as_ref(),
            kind: input.kind,
            last: None,
        }
    }

    fn over(&mut self, line: &[u8]) -> Option<&'static str> {
        let only = self.only?;
        if let Some(writer) = journal::writer(line) {
            let foreign = || Kind::of_writer(writer.ident).is_none_or(|k| k != self.kind);
            let is_own = |host: &String| {
                host == writer.host || !writer.host.contains('.') && same(host, writer.host)
            };
            self.last = if only.host.as_ref().is_some_and(|h| !is_own(h)) {
                Some("of another node")
            } else if only.of_all && foreign() {
                Some("of another program")
            } else {
                None
            };
        }
        self.last
    }
}

/// The observation that says that the end of an input is missing.
pub(super) fn gap(source: Source, at: Nanos, why: &str) -> Observation {
    Observation {
        stamp: Stamp::exact(at),
        source,
        body: Body::Gap(Box::new(Gap {
            of: source,
            since: at,
            lost: 0,
            conn: 0,
            resource: Gap::CAPTURE.into(),
            why: why.into(),
        })),
    }
}

impl Summary {
    fn new(input: Input) -> Self {
        Self {
            input,
            lines: 0,
            bytes: 0,
            observations: 0,
            ignored: BTreeMap::new(),
            malformed: BTreeMap::new(),
            unread: Vec::new(),
            cut: None,
            misfit: None,
        }
    }

    /// Keeps a line that was left out and looks like an error.
    fn note(&mut self, fed: Fed, line: &[u8]) {
        let is_left = matches!(fed, Fed::Ignored(_) | Fed::Malformed(_));
        if !is_left || self.unread.len() >= UNREAD {
            return;
        }
        let line = String::from_utf8_lossy(line.get(..LINE).unwrap_or(line));
        let lower = line.to_ascii_lowercase();
        if ERRORS.iter().any(|word| lower.contains(word)) {
            self.unread.push(redact::text(line.trim()).as_ref().into());
        }
    }

    /// True for lists of which nothing was left out.
    fn is_whole(&self) -> bool {
        let left = self.malformed.keys().chain(self.ignored.keys());
        self.cut.is_none() && left.copied().all(|why| why == EMPTY_LIST)
    }

    fn count_all(&mut self, left: Vec<Fed>) {
        for fed in left {
            self.count(fed);
        }
    }

    fn count(&mut self, fed: Fed) {
        match fed {
            Fed::Observed(_) | Fed::Partial => {}
            Fed::Ignored(why) => *self.ignored.entry(why).or_default() += 1,
            Fed::Malformed(why) => *self.malformed.entry(why).or_default() += 1,
        }
    }
}

/// Returns the first time in the start of a file. klog lines, which have no year, all get the same one here.
fn first(kind: Kind, begin: &[u8]) -> Option<Nanos> {
    let mut decoder = kind.decoder(TimeHint::default());
    let mut out = Vec::new();
    for line in begin.split(|b| *b == b'\n') {
        decoder.line(line, &mut out);
        if let Some(o) = out.first() {
            return Some(o.stamp.at);
        }
    }
    // The last record may not have ended.
    decoder.finish(&mut out);
    out.first().map(|o| o.stamp.at)
}

/// Files without a year that lie more than half a year apart span New Year: January follows December.
fn around_new_year(files: &mut [(Nanos, Open)]) {
    let times = || files.iter().map(|(t, _)| *t).filter(|t| t.0 > 0);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        return;
    };
    if last - first <= HALF_A_YEAR {
        return;
    }
    for (t, _) in files.iter_mut() {
        if last - *t > HALF_A_YEAR {
            *t = t.plus(2 * HALF_A_YEAR);
        }
    }
}

/// Decodes the streams of a round on as many threads as the machine has cores; results in the order of the streams.
pub(super) fn decode_all(
    streams: Vec<Stream>,
    options: &Options,
    near: Option<Nanos>,
    zone: Option<i32>,
) -> Result<Vec<Decoded>, ImportError> {
    let count = streams.len();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    // The largest first, so that no thread works on a large one at the end while the others wait.
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|n| Reverse(streams.get(*n).map_or(0, Stream::size)));
    let streams: Vec<std::sync::Mutex<Option<Stream>>> = streams
        .into_iter()
        .map(|s| std::sync::Mutex::new(Some(s)))
        .collect();
    let mut done: Vec<(usize, Result<Decoded, ImportError>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(count))
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    let n = || order.get(next.fetch_add(1, Ordering::Relaxed)).copied();
                    while let Some(n) = n() {
                        let slot = streams.get(n).and_then(|slot| slot.lock().ok());
                        if let Some(stream) = slot.and_then(|mut s| s.take()) {
                            mine.push((n, stream.decode(options, near, zone)));
                        }
                    }
                    mine
                })
            })
            .collect();
        workers
            .into_iter()
            // A decoder's panic is a bug: it is passed on, not swallowed with that thread's observations.
            .flat_map(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
            .collect()
    });
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, d)| d).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_line_that_is_too_long_nothing_is_a_line_of_its_own() {
        let mut text: &[u8] = b"12345678\n123456789 is too long\nnext\n123456789";
        let mut line = Vec::new();
        let mut lines = Vec::new();
        loop {
            line.clear();
            let (n, whole) = next_line(&mut text, 8, &mut line).unwrap();
            if n == 0 {
                break;
            }
            lines.push((n, whole, String::from_utf8(line.clone()).unwrap()));
        }
        let (skipped, whole) = (
            |n| (n, false, String::new()),
            |n, t: &str| (n, true, t.to_owned()),
        );
        let wanted = [
            whole(9, "12345678\n"),
            skipped(22),
            whole(5, "next\n"),
            skipped(9),
        ];
        assert_eq!(lines, wanted);
    }
}
