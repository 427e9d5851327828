//! Opens inputs: plain or compressed (zstd, gzip, xz), recognised by their first bytes, or standard input.

#![allow(
    clippy::disallowed_methods,
    reason = "an import has no sources beside it"
)]

use std::fs::Metadata;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use super::bundle::archive;
use super::{ImportError, Input};
use kflow_model::Nanos;
use kflow_model::patient::{self, PatientFile};
use kflow_sources::journal::export;
use kflow_sources::journal::file::{self, JournalFile, MAGIC};

/// Most bytes read of a journal file. journald begins a new file at 128 MiB at the latest, unless configured otherwise.
pub(super) const JOURNAL_MAX: u64 = 1 << 30;
/// Size of the buffer, bytes: how much is read at once, and how far an input can be peeked into.
const BUFFER: usize = 1 << 18;

/// Bytes read of all files so far, and their total. Shared with the progress display.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes read.
    pub taken: AtomicU64,
    /// Size of all files, bytes.
    pub total: AtomicU64,
}

/// An input that is not open yet: a bundle may have more files than a process may open, and each that is open has a buffer.
pub(super) struct Closed {
    pub(super) input: Input,
    /// Size on the disk in bytes; 0 for standard input.
    pub(super) size: u64,
    progress: Arc<Progress>,
}

impl Closed {
    pub(super) fn new(input: &Input, progress: &Arc<Progress>) -> Result<Self, ImportError> {
        let size = match &input.part {
            Some(part) => part.len(),
            None if input.is_stdin() => 0,
            None => {
                let path = input.path.clone();
                let asked = patient::ask(&input.path, move || std::fs::metadata(path));
                let meta = asked.flatten().map_err(|source| error(input, source))?;
                if meta.is_dir() {
                    return Err(error(
                        input,
                        io::Error::other("it is a folder: give it without a flag"),
                    ));
                }
                meta.len()
            }
        };
        progress.total.fetch_add(size, Ordering::Relaxed);
        Ok(Self {
            input: input.clone(),
            size,
            progress: Arc::clone(progress),
        })
    }

    pub(super) fn open(self) -> Result<Open, ImportError> {
        Open::new(&self.input, &self.progress)
    }
}

fn error(input: &Input, source: io::Error) -> ImportError {
    ImportError::Open {
        path: input.path.display().to_string(),
        source,
    }
}

pub(super) struct Open {
    pub(super) input: Input,
    /// Its content, uncompressed.
    pub(super) reader: Box<dyn BufRead + Send>,
    /// When the file was last written.
    pub(super) modified: Option<Nanos>,
}

impl Open {
    pub(super) fn new(input: &Input, progress: &Arc<Progress>) -> Result<Self, ImportError> {
        let error = |source| error(input, source);
        let (raw, modified): (Box<dyn Read + Send>, _) = if let Some(part) = &input.part {
            (Box::new(part.clone().into_reader()), part.modified)
        } else if input.is_stdin() {
            (Box::new(io::stdin()), None)
        } else {
            let (file, meta) = PatientFile::open(&input.path).map_err(error)?;
            (Box::new(file), modified(&meta))
        };
        let mut counted = Counted {
            inner: raw,
            progress: Arc::clone(progress),
        };
        let mut begin = Vec::with_capacity(8);
        (&mut counted)
            .take(8)
            .read_to_end(&mut begin)
            .map_err(error)?;
        let whole = io::Cursor::new(begin.clone()).chain(counted);
        let mut reader = buffered(archive::uncompressed(&begin, whole).map_err(error)?);
        if reader.fill_buf().is_ok_and(|b| b.starts_with(MAGIC)) {
            return Self::journal(input, reader, modified).map_err(error);
        }
        Ok(Self {
            input: input.clone(),
            reader: Box::new(reader),
            modified,
        })
    }

    /// Opens a journal file, reduced to the entries of the units that write this kind of log.
    fn journal(input: &Input, from: impl Read, modified: Option<Nanos>) -> io::Result<Self> {
        let mut bytes = Vec::new();
        from.take(JOURNAL_MAX).read_to_end(&mut bytes)?;
        let of = |e: file::Error| io::Error::other(e);
        let mut journal = JournalFile::open(bytes.as_slice()).map_err(of)?;
        let units = input.kind.component().map_or(&[][..], export::units);
        let Some(told) = export::of(&mut journal, units).map_err(of)? else {
            let there = match journal.units().map_err(of)?.as_slice() {
                [] => "no unit".to_owned(),
                units => units.join(", "),
            };
            let noun = input.kind.noun();
            let noun = noun.trim_start_matches("a ").trim_start_matches("an ");
            return Err(io::Error::other(format!(
                "it is a journal file with entries of {there}: there is no {noun} in it"
            )));
        };
        Ok(Self {
            input: input.clone(),
            reader: Box::new(buffered(told.stream())),
            modified,
        })
    }

    /// Returns the first bytes, up to `BUFFER`, without consuming them. Empty on an error, which the next read reports.
    pub(super) fn peek(&mut self) -> &[u8] {
        self.reader.fill_buf().unwrap_or_default()
    }
}

/// Returns when a file was last written.
pub(super) fn modified(meta: &Metadata) -> Option<Nanos> {
    let since = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok().map(Nanos)
}

fn buffered<R: Read>(inner: R) -> BufReader<Whole<R>> {
    BufReader::with_capacity(
        BUFFER,
        Whole {
            inner,
            failed: None,
        },
    )
}

/// Fills the whole buffer while there is input, so that peeking sees more than the first short read.
struct Whole<R> {
    inner: R,
    /// The error that ended the last read after some bytes; the next read returns it.
    failed: Option<io::Error>,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        let mut filled = 0;
        while let Some(free) = buf.get_mut(filled..).filter(|free| !free.is_empty()) {
            match self.inner.read(free) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if filled == 0 => return Err(e),
                Err(e) => {
                    self.failed = Some(e);
                    break;
                }
            }
        }
        Ok(filled)
    }
}

struct Counted<R> {
    inner: R,
    progress: Arc<Progress>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.progress.taken.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
