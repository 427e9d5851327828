//! Writes sessions. A `.zst` session is a sequence of independent zstd frames, so that a cut costs at most the last.
//!
//! The writer never asks for the time: whoever records calls [`Writer::flush`] at least once a second, which ends the
//! frame and hands the bytes to the kernel. After `kill -9` everything up to the last flush is there.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{Header, SessionError, format, load};
use crate::model::Observation;

/// Uncompressed bytes after which a frame ends by itself: bounds what a reader buffers and what a crash can take.
const FRAME: usize = 1 << 20;
/// Compression level of recordings: the fastest that still shrinks JSON lines about tenfold.
pub const LEVEL: i32 = 3;

/// A session that is being written.
#[derive(Debug)]
pub struct Writer {
    file: BufWriter<File>,
    /// Where the bytes go now.
    path: PathBuf,
    /// Where they belong when all are there; equal to `path` for a recording.
    target: PathBuf,
    /// zstd level; `None` writes plain lines.
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

fn private(new: bool, path: &Path) -> io::Result<File> {
    let mut o = OpenOptions::new();
    o.write(true).mode(0o600);
    if new {
        o.create_new(true);
    } else {
        o.create(true).truncate(true);
    }
    o.open(path)
}

/// True for `x.kflow.zst`.
fn wants_zstd(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "zst")
}

impl Writer {
    /// Starts a recording at `path`, which must not exist: an incident's recording is never overwritten.
    pub fn record(path: &Path, header: &Header) -> Result<Self, SessionError> {
        let file = private(true, path).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => SessionError::Exists {
                path: path.display().to_string(),
            },
            _ => io_error("create", path)(e),
        })?;
        Self::start(file, path.to_owned(), path.to_owned(), LEVEL, header)
    }

    /// Writes a whole session that appears at `path` only when [`finish`](Self::finish) succeeds, in place of the
    /// session that was there. `level` is zstd's, for paths that end in `.zst`. What is not a file (a pipe, a device)
    /// is written to as it is.
    pub fn replace(path: &Path, level: i32, header: &Header) -> Result<Self, SessionError> {
        if replaceable(path)? == Place::Special {
            let file = OpenOptions::new()
                .write(true)
                .open(path)
                .map_err(io_error("open", path))?;
            return Self::start(file, path.to_owned(), path.to_owned(), level, header);
        }
        // A link stays a link.
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let part = path.with_file_name(name);
        let file = private(false, &part).map_err(io_error("create", path))?;
        Self::start(file, part, path.to_owned(), level, header)
    }

    /// Writes a session, plain, to what is open already, such as standard output. `name` is for errors.
    pub fn stream(file: File, name: &str, header: &Header) -> Result<Self, SessionError> {
        let path = PathBuf::from(name);
        Self::start(file, path.clone(), path, LEVEL, header)
    }

    fn start(
        file: File,
        path: PathBuf,
        target: PathBuf,
        level: i32,
        header: &Header,
    ) -> Result<Self, SessionError> {
        let level = wants_zstd(&target).then_some(level);
        let mut w = Self {
            file: BufWriter::with_capacity(1 << 16, file),
            path,
            target,
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

    fn end_frame(&mut self) -> Result<(), SessionError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let result = match self.level {
            Some(level) => zstd::bulk::compress(&self.pending, level).and_then(|frame| {
                self.written += frame.len() as u64;
                self.file.write_all(&frame)
            }),
            None => {
                self.written += self.pending.len() as u64;
                self.file.write_all(&self.pending)
            }
        };
        self.pending.clear();
        result.map_err(io_error("write", &self.path))
    }

    /// Ends the frame and hands everything to the kernel.
    pub fn flush(&mut self) -> Result<(), SessionError> {
        self.end_frame()?;
        self.file.flush().map_err(io_error("write", &self.path))
    }

    /// Bytes in the file, plus those not yet in a frame (uncompressed): what a size limit compares.
    pub fn bytes(&self) -> u64 {
        self.written + self.pending.len() as u64
    }
    /// Observations written.
    pub const fn observations(&self) -> u64 {
        self.observations
    }
    /// Texts that held something like a credential.
    pub const fn redacted(&self) -> u64 {
        self.redacted
    }
    /// The file that it becomes.
    #[expect(
        clippy::misnamed_getters,
        reason = "its own path is a temporary one until it is finished"
    )]
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// Writes the rest to the disk and gives the file its name. Returns its size in bytes.
    pub fn finish(mut self) -> Result<u64, SessionError> {
        self.flush()?;
        let file = self.file.get_ref();
        if file.metadata().is_ok_and(|m| m.is_file()) {
            file.sync_all().map_err(io_error("write", &self.path))?;
        }
        if self.path != self.target {
            std::fs::rename(&self.path, &self.target).map_err(io_error("create", &self.target))?;
            self.path.clone_from(&self.target);
        }
        Ok(self.written)
    }
}

impl Drop for Writer {
    /// What was to appear whole and did not is no use to anyone, least of all on a full disk.
    fn drop(&mut self) {
        if self.path != self.target && std::fs::remove_file(&self.path).is_err() {
            // It stays, under a name that says what it is.
        }
    }
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing yet, or a session, or an empty file.
    Free,
    /// No file: a pipe, a device.
    Special,
}

/// Says whether [`Writer::replace`] would take this path: what is there and is no session is never replaced.
pub fn replaceable(path: &Path) -> Result<Place, SessionError> {
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
            if let Some(Err(e)) = folder.map(std::fs::metadata) {
                return Err(io_error("create", path)(e));
            }
            return Ok(Place::Free);
        }
        Err(e) => return Err(io_error("create", path)(e)),
    };
    if meta.is_dir() {
        let e = io::Error::other("it is a folder: name a file in it");
        return Err(io_error("create", path)(e));
    }
    if !meta.is_file() {
        return Ok(Place::Special);
    }
    if meta.len() == 0 {
        return Ok(Place::Free);
    }
    match super::Reader::open(path) {
        // A newer kflow's is one, too.
        Ok(_) | Err(SessionError::Newer { .. }) => Ok(Place::Free),
        Err(SessionError::NotASession { path, .. }) => Err(SessionError::Foreign { path }),
        Err(e) => Err(e),
    }
}

/// Appends observations (notes) to a session that exists. One whose tail is cut is written anew, whole.
pub fn append(path: &Path, observations: &[Observation]) -> Result<(), SessionError> {
    let session = load(path)?;
    if session.report.cut.is_none() {
        return append_to(path, session.report.compressed, observations);
    }
    let mut w = Writer::replace(path, LEVEL, &session.header)?;
    for o in &session.observations {
        w.write(o)?;
    }
    for o in observations {
        w.write(o)?;
    }
    w.finish().map(drop)
}

/// Appends to a session that is known to be whole: `compressed` as its [`Report`](super::Report) says.
pub fn append_to(
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
    let append = || -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).append(true).open(path)?;
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
    append().map_err(io_error("write", path))
}
