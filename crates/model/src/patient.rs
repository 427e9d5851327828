//! Files that are read and whose file system may not answer (NFS whose server is gone): a thread of its own waits for it,
//! and whoever reads waits for [`SLOW`] at most.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::units::wait;

/// How long a file system may take to answer.
pub const SLOW: Duration = Duration::from_secs(5);

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;
/// Pieces that may wait for the reader.
const ROOM: usize = 4;

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

fn late(limit: Duration) -> io::Error {
    let text = format!("its file system has not answered for {}", wait(limit));
    io::Error::new(ErrorKind::TimedOut, text)
}

impl PatientFile {
    /// Opens a file; what the system knows of it comes with it.
    pub fn open(path: &Path) -> io::Result<(Self, Metadata)> {
        Self::open_within(path, SLOW)
    }

    fn open_within(path: &Path, limit: Duration) -> io::Result<(Self, Metadata)> {
        let path = path.to_owned();
        let (opened, open_told) = sync_channel(1);
        let (to, from) = sync_channel(ROOM);
        std::thread::Builder::new()
            .name("kflow-file".into())
            .spawn(move || {
                let file = File::open(path).and_then(|f| f.metadata().map(|m| (f, m)));
                match file {
                    // Whoever asked may have waited long enough.
                    Err(e) => drop(opened.send(Err(e))),
                    Ok((file, meta)) => {
                        if opened.send(Ok(meta)).is_ok() {
                            give(file, &to);
                        }
                    }
                }
            })?;
        let meta = open_told.recv_timeout(limit).map_err(|e| match e {
            RecvTimeoutError::Timeout => late(limit),
            RecvTimeoutError::Disconnected => failed(),
        })??;
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
    io::Error::other("the thread that reads it failed")
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
                    RecvTimeoutError::Timeout => late(limit),
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
    fn what_does_not_answer_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let late = PatientFile::open_within(&path, Duration::from_millis(20)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        // The thread ends.
        std::fs::write(&path, "").ok();
    }
}
