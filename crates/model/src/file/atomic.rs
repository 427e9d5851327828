//! A document that takes its name once it is complete. A thread of its own writes it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use tempfile::{Builder, NamedTempFile};

use super::{Access, FileError, Place, error, folder, look};
use crate::patient::{self, SLOW, WRITE, not_answered};

/// Size of a buffer that is handed to the thread, bytes.
const PIECE: usize = 1 << 16;
/// How many buffers may wait for the file system.
const ROOM: usize = 4;
/// Bytes after which the file is synced to disk, so that the last sync does not take longer the larger the file is.
const SYNC: usize = 8 << 20;

/// A file that takes its name once it is complete. Dropped before that, it leaves everything as it was.
///
/// Only a thread of its own touches the file; the caller waits for that thread with a time limit. A target that is not
/// a regular file (a pipe, a device) has to be opened within the limit, and may then be as slow as its reader.
#[derive(Debug)]
pub struct AtomicFile {
    /// Channel to the thread; `None` once everything was handed over.
    to: Option<SyncSender<Given>>,
    /// Buffers that were written and can be filled again, or the error of one that was not. Disconnected when the
    /// thread ends.
    from: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    target: PathBuf,
    limit: Option<Duration>,
}

/// What the caller hands to the thread.
#[derive(Debug)]
enum Given {
    Piece(Vec<u8>),
    /// Everything was handed over: the name that the file gets, and where to send the result.
    Whole(Name, SyncSender<Result<PathBuf, FileError>>),
}

/// Which name the file gets.
#[derive(Debug)]
pub(super) enum Name {
    /// The target's name; a file that has it is replaced.
    Target,
    /// The first of these names that is free.
    Free(Vec<PathBuf>),
}

impl AtomicFile {
    /// Begins a file for `path`. A file of that name stays until [`commit`](Self::commit). When `path` is a symbolic
    /// link, the file behind it is replaced; a pipe or a device is written to directly.
    pub fn create(path: &Path, access: Access) -> Result<Self, FileError> {
        let its = path.to_owned();
        Self::start(path, move || Out::create(&its, access))
    }

    pub(super) fn beside(target: PathBuf, access: Access) -> Result<Self, FileError> {
        let path = target.clone();
        Self::start(&path, move || Out::beside(target, access))
    }

    fn start(
        path: &Path,
        open: impl FnOnce() -> Result<Out, FileError> + Send + 'static,
    ) -> Result<Self, FileError> {
        let (to, given) = sync_channel(ROOM);
        let (written, from) = sync_channel(ROOM);
        for _ in 1..ROOM {
            written.send(Ok(Vec::with_capacity(PIECE))).ok();
        }
        let thread = std::thread::Builder::new().name("kflow-write".into());
        let begin = move || -> Result<_, FileError> {
            let out = open()?;
            let (target, is_special) = (out.target.clone(), out.is_special());
            thread
                .spawn(move || serve(out, &given, &written))
                .map_err(error("create", &target))?;
            Ok((target, is_special))
        };
        let (target, is_special) =
            patient::ask_within(path, SLOW, begin).map_err(error("create", path))??;
        Ok(Self {
            to: Some(to),
            from,
            piece: Vec::with_capacity(PIECE),
            target,
            limit: (!is_special).then_some(WRITE),
        })
    }

    /// Hands the current buffer to the thread, and takes a written one to fill next.
    fn give(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let next = match self.limit {
            Some(limit) => self.from.recv_timeout(limit).map_err(|e| match e {
                RecvTimeoutError::Timeout => not_answered(limit),
                RecvTimeoutError::Disconnected => ended(),
            }),
            None => self.from.recv().map_err(|_| ended()),
        };
        let full = std::mem::replace(&mut self.piece, next??);
        // The channel has room for all buffers that exist, so that this send never blocks.
        let to = self.to.as_ref().ok_or_else(ended)?;
        to.send(Given::Piece(full)).map_err(|_| self.why())
    }

    /// Returns the error with which the thread ended.
    fn why(&self) -> io::Error {
        let failed = self.from.try_iter().find_map(Result::err);
        failed.unwrap_or_else(ended)
    }

    /// Syncs the rest to disk and gives the file its name; a file of that name is replaced.
    pub fn commit(self) -> Result<(), FileError> {
        self.whole(Name::Target).map(drop)
    }

    pub(super) fn whole(mut self, name: Name) -> Result<PathBuf, FileError> {
        let target = self.target.clone();
        self.give().map_err(error("write", &target))?;
        let (tell, told) = sync_channel(1);
        let given = self.to.take().map(|to| to.send(Given::Whole(name, tell)));
        if !matches!(given, Some(Ok(()))) {
            return Err(error("write", &target)(self.why()));
        }
        let answer = match self.limit {
            Some(limit) => told.recv_timeout(limit),
            None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        answer.unwrap_or_else(|e| {
            let source = match e {
                RecvTimeoutError::Timeout => not_answered(WRITE),
                RecvTimeoutError::Disconnected => self.why(),
            };
            Err(error("write", &target)(source))
        })
    }
}

fn ended() -> io::Error {
    io::Error::other("the thread that writes it failed")
}

impl Drop for AtomicFile {
    /// Waits until the thread has removed the temporary file, for [`SLOW`] at most, so that the
    /// program cannot end before.
    fn drop(&mut self) {
        drop(self.to.take());
        let until = crate::clock::monotonic() + SLOW;
        let left = || until.saturating_duration_since(crate::clock::monotonic());
        while self.limit.is_some() && self.from.recv_timeout(left()).is_ok() {}
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() >= PIECE {
            self.give()?;
        }
        let n = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend(bytes.iter().take(n));
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.give()
    }
}

/// Writes the buffers that arrive, and sends each back through `written`.
fn serve(mut out: Out, given: &Receiver<Given>, written: &SyncSender<io::Result<Vec<u8>>>) {
    let mut unsynced = 0;
    while let Ok(given) = given.recv() {
        match given {
            Given::Piece(mut piece) => {
                unsynced += piece.len();
                let mut wrote = out.file().write_all(&piece);
                if unsynced >= SYNC && !out.is_special() {
                    wrote = wrote.and_then(|()| out.file().sync_data());
                    unsynced = 0;
                }
                let failed = wrote.is_err();
                piece.clear();
                // The caller may be gone. It otherwise sees the error before it hands over more.
                if written.send(wrote.map(|()| piece)).is_err() || failed {
                    return;
                }
            }
            Given::Whole(name, tell) => {
                tell.send(out.end(name)).ok();
                return;
            }
        }
    }
}

/// A file that is being written.
#[derive(Debug)]
struct Out {
    file: Kept,
    target: PathBuf,
}

#[derive(Debug)]
enum Kept {
    /// A temporary file beside the target.
    Beside(NamedTempFile),
    /// The target itself, which is not a regular file.
    Special(File),
}

impl Out {
    fn create(path: &Path, access: Access) -> Result<Self, FileError> {
        let open = |path: &Path| OpenOptions::new().write(true).open(path);
        let target = match look(path)? {
            Place::Special => {
                let file = open(path).map_err(error("open", path))?;
                return Ok(Self {
                    file: Kept::Special(file),
                    target: path.to_owned(),
                });
            }
            Place::File => {
                // Opening it checks that the user may write to the file: without that right it must not be replaced
                // either. Symbolic links that the kernel refuses to follow (fs.protected_symlinks)
                // are refused here too.
                open(path).map_err(error("write", path))?;
                path.canonicalize().map_err(error("write", path))?
            }
            Place::Free => path.to_owned(),
        };
        Self::beside(target, access)
    }

    fn beside(target: PathBuf, access: Access) -> Result<Self, FileError> {
        let mut prefix = OsString::from(".");
        prefix.push(target.file_name().unwrap_or_default());
        prefix.push(".");
        let file = Builder::new()
            .prefix(&prefix)
            .suffix(".part")
            .permissions(Permissions::from_mode(access.mode()))
            .tempfile_in(folder(&target))
            .map_err(error("create", &target))?;
        Ok(Self {
            file: Kept::Beside(file),
            target,
        })
    }

    const fn is_special(&self) -> bool {
        matches!(self.file, Kept::Special(_))
    }

    fn file(&mut self) -> &mut File {
        match &mut self.file {
            Kept::Beside(file) => file.as_file_mut(),
            Kept::Special(file) => file,
        }
    }

    /// Syncs everything to disk, gives the file its name, and returns the path.
    fn end(self, name: Name) -> Result<PathBuf, FileError> {
        let target = self.target;
        let Kept::Beside(mut file) = self.file else {
            return Ok(target);
        };
        file.as_file().sync_all().map_err(error("write", &target))?;
        let free = match name {
            Name::Target => {
                file.persist(&target)
                    .map_err(|e| error("create", &target)(e.error))?;
                sync_folder(&target);
                return Ok(target);
            }
            Name::Free(names) => names,
        };
        for path in free {
            match file.persist_noclobber(&path) {
                Ok(_) => {
                    sync_folder(&path);
                    return Ok(path);
                }
                Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => file = e.file,
                Err(e) => return Err(error("create", &path)(e.error)),
            }
        }
        Err(FileError::Exists {
            path: target.display().to_string(),
        })
    }
}

/// Syncs the folder of `path`, so that the new name is on disk. Errors are ignored: the content is on disk already, and
/// some file systems cannot sync folders.
fn sync_folder(path: &Path) {
    if let Ok(folder) = File::open(folder(path)) {
        folder.sync_all().ok();
    }
}
