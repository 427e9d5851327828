//! Limits for file systems that may not answer (NFS whose server is gone). Each question runs on a thread of its own,
//! and the caller waits for the answer with a time limit.
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

/// How long a file system may take to answer a question.
pub const SLOW: Duration = Duration::from_secs(5);
/// How long it may take while an earlier question has no answer. It is shorter because a command asks
/// about a dozen files.
pub const AGAIN: Duration = Duration::from_millis(500);
/// How long a file system may take to write a buffer to disk: as long as the end of a recording may take.
pub const WRITE: Duration = Duration::from_secs(30);

/// Bytes read by one call.
const PIECE: usize = 256 << 10;
/// How many buffers may wait for the reader.
const ROOM: usize = 4;

/// The paths whose file system did not answer in time, with the number of questions that are still unanswered.
static LATE: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

fn all_late() -> MutexGuard<'static, BTreeMap<PathBuf, usize>> {
    LATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns every path whose file system did not answer this process in time. Output without these
/// files may be incomplete.
pub fn late() -> Vec<PathBuf> {
    all_late().keys().cloned().collect()
}

/// Returns the error for a file system that did not answer within `limit`.
pub(crate) fn not_answered(limit: Duration) -> io::Error {
    let text = format!("its file system has not answered for {}", wait(limit));
    io::Error::new(ErrorKind::TimedOut, text)
}

/// Runs `question` about the file system of `path` on a thread of its own. When no answer comes in time, the error is
/// of kind `TimedOut`; the thread goes on waiting, and its answer is dropped.
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

/// Does the same as [`ask`], with the given limit.
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
            // The caller gives up under the same lock, so the answer either was in time or its question
            // is counted as unanswered.
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
            // Dropped before the lock is released, so that the thread's send fails from then on.
            drop(told);
            drop(late);
            Err(not_answered(limit))
        }
    }
}

/// Reads a file from its beginning. A file that is not regular (a pipe) has to be opened within the limit, and may then
/// be as slow as its writer.
#[derive(Debug)]
pub struct PatientFile {
    /// Buffers from the thread; an empty one marks the end of the file.
    from: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    /// How many bytes of `piece` the reader has taken.
    given: usize,
    ended: bool,
    limit: Option<Duration>,
}

impl PatientFile {
    /// Opens a file and returns it with its metadata.
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
        // Fails when the reader is gone.
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

/// Reads a whole file as UTF-8 text.
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

    /// A pipe without a writer stands for a file system that does not answer.
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
        // A writer opens the pipe, so that the thread ends.
        std::fs::write(&path, "").unwrap();
        while open() != Some(0) {
            std::thread::yield_now();
        }
        assert!(late().contains(&path));
    }
}
