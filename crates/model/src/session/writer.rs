//! Writes sessions. A `.zst` session is a sequence of independent zstd frames, so that a cut loses at
//! most the last frame.
//!
//! The writer never reads the clock: the recorder calls [`Writer::flush`] at least once a second, which ends the frame
//! and hands the bytes to the kernel. After `kill -9` the file holds everything up to the last flush.

use std::borrow::Cow;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{Batch, Header, Reader, SessionError, format};
use crate::Observation;
use crate::file::{self, Access, AtomicFile, FileError, Place};
use crate::patient::ask;

/// Uncompressed bytes after which a frame ends by itself. This bounds what a reader has to buffer and what
/// a crash can lose.
const FRAME: usize = 1 << 20;
/// Observations that one thread encodes at once: about 1 MB of lines.
const PART: usize = 2048;
/// Compression level of recordings: the fastest that still shrinks JSON lines about tenfold.
pub const LEVEL: i32 = 3;

#[derive(Debug)]
enum Out {
    /// A recording or a stream: bytes that are written can be read at once.
    Direct(BufWriter<File>),
    /// A session that appears at its path once it is complete.
    Whole(AtomicFile),
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Direct(out) => out.write(bytes),
            Self::Whole(out) => out.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Direct(out) => out.flush(),
            Self::Whole(out) => out.flush(),
        }
    }
}

/// A session that is being written.
#[derive(Debug)]
pub struct Writer {
    out: Out,
    /// Path or name for error messages.
    path: PathBuf,
    /// Compression level of zstd; `None` writes plain lines.
    level: Option<i32>,
    pending: Vec<u8>,
    written: u64,
    observations: u64,
    redacted: u64,
}

fn io_error(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SessionError {
    let path = path.display().to_string();
    move |source| SessionError::Io { op, path, source }
}

/// True for a path that ends in `.zst`.
fn wants_zstd(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "zst")
}

impl Writer {
    /// Starts a recording at `path`, where no file may exist: a recording is never overwritten. The file is locked
    /// while it is written, so that [`append`] refuses it.
    pub fn record(path: &Path, header: &Header) -> Result<Self, SessionError> {
        let file = file::create_new(path).map_err(|e| match e {
            FileError::Exists { path } => SessionError::Exists { path },
            e => e.into(),
        })?;
        // On a file system without locks `append` cannot find one either.
        file.try_lock().ok();
        Self::start(direct(file), path, LEVEL, header)
    }

    /// Writes a session that appears at `path` only when [`finish`](Self::finish) succeeds, and replaces the session
    /// that was there. `level` is the compression level of zstd, for paths that end in `.zst`. A pipe or a device is
    /// written to directly.
    pub fn replace(path: &Path, level: i32, header: &Header) -> Result<Self, SessionError> {
        replaceable(path)?;
        Self::rewrite(path, level, header)
    }

    fn rewrite(path: &Path, level: i32, header: &Header) -> Result<Self, SessionError> {
        let out = AtomicFile::create(path, Access::Private)?;
        Self::start(Out::Whole(out), path, level, header)
    }

    /// Writes a plain session to a file that is open already, such as standard output. `name` is for error messages.
    pub fn stream(file: File, name: &str, header: &Header) -> Result<Self, SessionError> {
        Self::start(direct(file), Path::new(name), LEVEL, header)
    }

    fn start(out: Out, path: &Path, level: i32, header: &Header) -> Result<Self, SessionError> {
        let level = wants_zstd(path).then_some(level);
        let mut w = Self {
            out,
            path: path.to_owned(),
            level,
            pending: Vec::with_capacity(FRAME + 4096),
            written: 0,
            observations: 0,
            redacted: 0,
        };
        header
            .write(&mut w.pending)
            .map_err(io_error("write", &w.path))?;
        w.flush()?;
        Ok(w)
    }

    /// Appends an observation, redacted.
    pub fn write(&mut self, o: &Observation) -> Result<(), SessionError> {
        self.redacted += format::encode(o, &mut self.pending);
        self.observations += 1;
        if self.pending.len() >= FRAME {
            self.end_frame()?;
        }
        Ok(())
    }

    /// Appends observations, redacted, with as many threads as the machine has cores. The bytes of the file do not depend
    /// on the number of threads.
    pub fn write_all(&mut self, all: &[Observation]) -> Result<(), SessionError> {
        self.end_frame()?;
        let level = self.level;
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        for wave in all.chunks(PART * threads) {
            std::thread::scope(|scope| {
                let parts: Vec<_> = wave
                    .chunks(PART)
                    .map(|part| scope.spawn(move || Part::of(part, level)))
                    .collect();
                parts.into_iter().try_for_each(|part| {
                    let made = part.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
                    made.and_then(|part| {
                        self.written += part.bytes.len() as u64;
                        self.redacted += part.redacted;
                        self.out.write_all(&part.bytes)
                    })
                })
            })
            .map_err(io_error("write", &self.path))?;
            self.observations += wave.len() as u64;
        }
        Ok(())
    }

    /// Writes the begin or the end of the time in which everything is recorded.
    pub fn bound(&mut self, bound: format::Bound, at: crate::Nanos) {
        format::encode_bound(bound, at, &mut self.pending);
    }

    fn end_frame(&mut self) -> Result<(), SessionError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let result = frame(&self.pending, self.level).and_then(|frame| {
            self.written += frame.len() as u64;
            self.out.write_all(&frame)
        });
        self.pending.clear();
        result.map_err(io_error("write", &self.path))
    }

    /// Ends the frame and hands all bytes to the kernel.
    pub fn flush(&mut self) -> Result<(), SessionError> {
        self.end_frame()?;
        self.out.flush().map_err(io_error("write", &self.path))
    }

    /// Returns the bytes in the file, plus those not yet in a frame (uncompressed): what a size limit is compared with.
    pub fn bytes(&self) -> u64 {
        self.written + self.pending.len() as u64
    }
    /// Returns how many observations were written.
    pub const fn observations(&self) -> u64 {
        self.observations
    }
    /// Returns how many strings were changed because they held something like a credential.
    pub const fn redacted(&self) -> u64 {
        self.redacted
    }
    /// Returns a second handle of the file that a recording is written to; an error of kind `Unsupported` for
    /// [`replace`](Self::replace).
    pub fn handle(&self) -> Result<File, SessionError> {
        let file = match &self.out {
            Out::Direct(out) => out.get_ref().try_clone(),
            Out::Whole(_) => Err(io::ErrorKind::Unsupported.into()),
        };
        file.map_err(io_error("open", &self.path))
    }

    /// Writes the rest, syncs it to disk and gives the file its name. Returns the size of the file in bytes.
    pub fn finish(mut self) -> Result<u64, SessionError> {
        self.flush()?;
        match self.out {
            Out::Direct(out) => {
                let file = out.get_ref();
                if file.metadata().is_ok_and(|m| m.is_file()) {
                    file.sync_all().map_err(io_error("write", &self.path))?;
                    // Another handle of the file may stay open, and would keep the lock.
                    file.unlock().ok();
                }
            }
            Out::Whole(out) => out.commit()?,
        }
        Ok(self.written)
    }
}

/// Returns lines as they are stored in the file: compressed at `level`, or as they are.
fn frame(lines: &[u8], level: Option<i32>) -> io::Result<Cow<'_, [u8]>> {
    match level {
        Some(level) => zstd::bulk::compress(lines, level).map(Cow::Owned),
        None => Ok(Cow::Borrowed(lines)),
    }
}

/// Up to [`PART`] observations as frames, encoded by one thread.
struct Part {
    bytes: Vec<u8>,
    redacted: u64,
}

impl Part {
    fn of(observations: &[Observation], level: Option<i32>) -> io::Result<Self> {
        let (mut bytes, mut lines, mut redacted) = (Vec::new(), Vec::with_capacity(FRAME), 0);
        let mut left = observations.iter().peekable();
        while let Some(o) = left.next() {
            redacted += format::encode(o, &mut lines);
            if lines.len() >= FRAME || left.peek().is_none() {
                bytes.extend_from_slice(&frame(&lines, level)?);
                lines.clear();
            }
        }
        Ok(Self { bytes, redacted })
    }
}

fn direct(file: File) -> Out {
    Out::Direct(BufWriter::with_capacity(1 << 16, file))
}

/// Returns an error when [`Writer::replace`] would refuse this path. A file that is not a session is never replaced,
/// nor is a recording, which cannot be made again. An imported session has sources in its header, a recording has none.
pub fn replaceable(path: &Path) -> Result<(), SessionError> {
    if file::place(path)? != Place::File || is_empty(path)? {
        return Ok(());
    }
    match super::Reader::open(path) {
        Ok(r) if r.header.sources.is_empty() => Err(SessionError::Recording {
            path: path.display().to_string(),
        }),
        Ok(_) => Ok(()),
        Err(SessionError::NotASession { path, .. }) => Err(SessionError::Foreign { path }),
        Err(e) => Err(e),
    }
}

fn is_empty(path: &Path) -> Result<bool, SessionError> {
    let its = path.to_owned();
    let meta = ask(path, move || std::fs::metadata(its)).map_err(io_error("open", path))?;
    Ok(meta.is_ok_and(|m| m.len() == 0))
}

/// Appends observations (notes) to an existing session. A session whose end is cut is written anew, and the original
/// file stays beside it as `NAME.cut`. A recording that is still being written is refused.
pub fn append(path: &Path, observations: &[Observation]) -> Result<(), SessionError> {
    let file = idle(path)?;
    let report = Reader::open(path)?.for_each(|_| true);
    if report.cut.is_none() {
        return append_to(file, path, report.compressed, observations);
    }
    let reader = Reader::open(path)?;
    let mut w = Writer::rewrite(path, LEVEL, &reader.header)?;
    let mut written = Ok(());
    reader.for_each(|batch| {
        written = copy(&batch, &mut w);
        written.is_ok()
    });
    written?;
    for o in observations {
        w.write(o)?;
    }
    keep_cut(path)?;
    w.finish().map(drop)
}

/// Writes what was read of a session, with the begin of its own time between the same observations: those before it are
/// carried over from earlier.
fn copy(batch: &Batch, w: &mut Writer) -> Result<(), SessionError> {
    let carried = batch.report.carried.min(batch.observations.len());
    let (before, own) = batch.observations.split_at(carried);
    for o in before {
        w.write(o)?;
    }
    if let Some(from) = batch.report.from {
        w.bound(format::Bound::From, from);
    }
    own.iter().try_for_each(|o| w.write(o))
}

/// Gives a session a second name, `NAME.cut`, `NAME.cut2`, …, under which it remains when its own name is given to
/// another file.
fn keep_cut(path: &Path) -> Result<(), SessionError> {
    let path = &path.canonicalize().map_err(io_error("open", path))?;
    let mut n = 1_u32;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(".cut");
        if n > 1 {
            name.push(n.to_string());
        }
        match std::fs::hard_link(path, &name) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && n < 1000 => n += 1,
            made => return made.map_err(io_error("keep", path)),
        }
    }
}

/// Appends to a session that is known not to be cut; `compressed` is what its [`Report`](super::Report) says.
pub fn append_whole(
    path: &Path,
    compressed: bool,
    observations: &[Observation],
) -> Result<(), SessionError> {
    append_to(idle(path)?, path, compressed, observations)
}

/// Opens a session to which no other process writes, and locks it until the file is closed.
fn idle(path: &Path) -> Result<File, SessionError> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .open(path)
        .map_err(io_error("write", path))?;
    if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        return Err(SessionError::Busy {
            path: path.display().to_string(),
        });
    }
    Ok(file)
}

fn append_to(
    mut file: File,
    path: &Path,
    compressed: bool,
    observations: &[Observation],
) -> Result<(), SessionError> {
    let mut bytes = Vec::new();
    for o in observations {
        format::encode(o, &mut bytes);
    }
    if compressed {
        bytes = zstd::bulk::compress(&bytes, LEVEL).map_err(io_error("write", path))?;
    }
    let before = file.metadata().map_err(io_error("write", path))?.len();
    let append = |file: &mut File| -> io::Result<()> {
        let mut last = [b'\n'];
        if !compressed && file.seek(SeekFrom::End(-1)).is_ok() {
            file.read_exact(&mut last)?;
        }
        if last != [b'\n'] {
            file.write_all(b"\n")?;
        }
        file.write_all(&bytes)?;
        file.sync_all()
    };
    append(&mut file).map_err(|e| {
        // Half a note would make the session a cut one.
        file.set_len(before).ok();
        io_error("write", path)(e)
    })
}
