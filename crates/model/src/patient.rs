//! File systems that may not answer (NFS whose server is gone): a thread of its own waits for each question, and whoever
//! asks waits for a limit.
//!
//! | asked | by | how long it may take |
//! |---|---|---|
//! | one question | [`ask`] | [`SLOW`]; [`AGAIN`] while an earlier one has no answer |
//! | a file that is read | [`PatientFile`] | [`SLOW`] to be opened, and for each piece |
//! | a file that is written | `file::AtomicFile` | [`SLOW`] to be opened, [`WRITE`] for each piece and for its end |

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::units::wait;

/// How long a file system may take to answer.
pub const SLOW: Duration = Duration::from_secs(5);
/// How long it may take while an earlier question has no answer: a command asks about a dozen files.
pub const AGAIN: Duration = Duration::from_millis(500);
/// How long a file system may take to write a piece to the disk: as long as the end of a recording may take.
pub const WRITE: Duration = Duration::from_secs(30);

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;
/// Pieces that may wait for the reader.
const ROOM: usize = 4;

/// What was not answered in time, and how many questions of it have no answer yet.
static LATE: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

fn all_late() -> MutexGuard<'static, BTreeMap<PathBuf, usize>> {
    LATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every path of this process whose file system did not answer in time: what is said without it may lack something.
pub fn late() -> Vec<PathBuf> {
    all_late().keys().cloned().collect()
}

/// The error for a file system that did not answer.
pub(crate) fn not_answered(limit: Duration) -> io::Error {
    let text = format!("its file system has not answered for {}", wait(limit));
    io::Error::new(ErrorKind::TimedOut, text)
}

/// Asks the file system of `path` something. An error of kind `TimedOut` says that it has not answered: the question goes
/// on waiting, and its answer is dropped.
pub fn ask<T: Send + 'static>(
    path: &Path,
    question: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let limit = if all_late().values().any(|open| *open > 0) {
        AGAIN
    } else {
        SLOW
    };
    ask_within(path, limit, question)
}

/// The same with a limit.
pub fn ask_within<T: Send + 'static>(
    path: &Path,
    limit: Duration,
    question: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (tell, told) = sync_channel(1);
    let of = path.to_owned();
    std::thread::Builder::new()
        .name("kflow-file".into())
        .spawn(move || {
            let answer = question();
            // Under the lock of who gives up: an answer was in time, or its question is no longer open.
            let mut late = all_late();
            if tell.send(answer).is_err()
                && let Some(open) = late.get_mut(&of)
            {
                *open = open.saturating_sub(1);
            }
        })?;
    match told.recv_timeout(limit) {
        Ok(answer) => Ok(answer),
        Err(RecvTimeoutError::Disconnected) => Err(failed()),
        Err(RecvTimeoutError::Timeout) => {
            let mut late = all_late();
            if let Ok(answer) = told.try_recv() {
                return Ok(answer);
            }
            *late.entry(path.to_owned()).or_default() += 1;
            // Before the lock is given back.
            drop(told);
            drop(late);
            Err(not_answered(limit))
        }
    }
}

/// A file that is read from its begin. A file that is not regular (a pipe) has to be opened in time, and may then be as
/// slow as its writer.
#[derive(Debug)]
pub struct PatientFile {
    /// An empty piece is the end.
    from: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    /// Bytes of the piece that were given out.
    given: usize,
    ended: bool,
    limit: Option<Duration>,
}

impl PatientFile {
    /// Opens a file; what the system knows of it comes with it.
    pub fn open(path: &Path) -> io::Result<(Self, Metadata)> {
        Self::open_within(path, SLOW)
    }

    fn open_within(path: &Path, limit: Duration) -> io::Result<(Self, Metadata)> {
        let (to, from) = sync_channel(ROOM);
        let its = path.to_owned();
        let open = move || {
            let file = File::open(its)?;
            let meta = file.metadata()?;
            std::thread::Builder::new()
                .name("kflow-read".into())
                .spawn(move || give(file, &to))?;
            Ok::<_, io::Error>(meta)
        };
        let meta = ask_within(path, limit, open)??;
        let file = Self {
            from,
            piece: Vec::new(),
            given: 0,
            ended: false,
            limit: meta.is_file().then_some(limit),
        };
        Ok((file, meta))
    }
}

fn failed() -> io::Error {
    io::Error::other("the thread that asks its file system failed")
}

fn give(mut file: File, to: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut piece = vec![0; PIECE];
        let read = match file.read(&mut piece) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            read => read,
        };
        let read = read.map(|n| {
            piece.truncate(n);
            piece
        });
        let more = read.as_ref().is_ok_and(|piece| !piece.is_empty());
        // The reader may be gone.
        if to.send(read).is_err() || !more {
            return;
        }
    }
}

impl Read for PatientFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.given == self.piece.len() && !self.ended {
            let next = match self.limit {
                Some(limit) => self.from.recv_timeout(limit).map_err(|e| match e {
                    RecvTimeoutError::Timeout => not_answered(limit),
                    RecvTimeoutError::Disconnected => failed(),
                })?,
                None => self.from.recv().map_err(|_| failed())?,
            };
            self.piece = next?;
            self.given = 0;
            self.ended = self.piece.is_empty();
        }
        let mut rest = self.piece.get(self.given..).unwrap_or_default();
        let n = rest.read(buf)?;
        self.given += n;
        Ok(n)
    }
}

/// Reads a whole text.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    PatientFile::open(path)?.0.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_whatever_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for size in [0, 1, PIECE - 1, PIECE, PIECE + 1, 9 * PIECE + 7] {
            let text: String = (0..size)
                .map(|n| ['a', 'b', 'c', 'd', 'e'][n % 5])
                .collect();
            std::fs::write(&path, &text).unwrap();
            assert!(read_to_string(&path).unwrap() == text, "{size}");
            let (mut file, meta) = PatientFile::open(&path).unwrap();
            assert_eq!(meta.len(), size as u64);
            let mut begin = Vec::new();
            (&mut file).take(3).read_to_end(&mut begin).unwrap();
            assert_eq!(begin, &text.as_bytes()[..size.min(3)]);
        }
        let missing = read_to_string(&dir.path().join("none")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    /// A pipe without a writer is a file system that does not answer.
    #[test]
    fn what_does_not_answer_is_not_waited_for_and_is_known_as_late() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let open = || all_late().get(&path).copied();
        let error = PatientFile::open_within(&path, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(open(), Some(1));
        assert!(late().contains(&path));
        // The thread ends.
        std::fs::write(&path, "").unwrap();
        while open() != Some(0) {
            std::thread::yield_now();
        }
        assert!(late().contains(&path));
    }
}
