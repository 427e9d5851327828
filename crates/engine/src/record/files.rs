//! The files of a recording that rotates. Only files that this run made are moved or removed.

#![allow(clippy::disallowed_methods, reason = "in the recorder's thread")]

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use kflow_model::file::{Identity, rename_new};
use kflow_model::session::SessionError;

/// Most files kept of a recording that rotates, including the current one.
pub const KEEP: usize = 5;
/// Highest number that a file is given.
const MOST: u32 = 1_000_000;

/// A full file, renamed with a number.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    /// Kept open, so that its inode is not reused for another file.
    file: File,
}

/// The full files of this run, oldest first.
#[derive(Debug)]
pub(super) struct Files {
    current: PathBuf,
    kept: VecDeque<Kept>,
    /// Number for the next full file, unless a file has that number already.
    next: u32,
}

impl Files {
    /// The files of a recording whose newest file is always at `current`.
    pub(super) fn new(current: &Path) -> Self {
        Self {
            current: current.to_owned(),
            kept: VecDeque::new(),
            next: 1,
        }
    }

    /// Renames the full file, which is open as `file`, with the next free number, and removes the oldest files of
    /// this run beyond [`KEEP`]; returns how many it let go. If another file is at the current name by now, nothing is moved.
    pub(super) fn aside(&mut self, file: File) -> Result<usize, SessionError> {
        let error = |source| SessionError::Io {
            op: "rename",
            path: self.current.display().to_string(),
            source,
        };
        if !Identity::of(&file).map_err(error)?.is_at(&self.current) {
            // Somebody moved or removed the file: it is not ours any more.
            return Ok(0);
        }
        let path = loop {
            let path = numbered(&self.current, self.next);
            self.next += 1;
            match rename_new(&self.current, &path) {
                Ok(()) => break path,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && self.next < MOST => {}
                Err(e) => return Err(error(e)),
            }
        };
        self.kept.push_back(Kept { path, file });
        let mut gone = 0;
        while self.kept.len() >= KEEP
            && let Some(old) = self.kept.pop_front()
        {
            if Identity::of(&old.file).is_ok_and(|i| i.is_at(&old.path)) {
                // A file that cannot be removed stays: the recording goes on.
                std::fs::remove_file(&old.path).ok();
            }
            gone += 1;
        }
        Ok(gone)
    }
}

/// Returns the path with a number: `incident.kflow.zst` and 2 give `incident.2.kflow.zst`.
pub fn numbered(path: &Path, n: u32) -> PathBuf {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let (stem, ext) = name.split_once('.').unwrap_or((&name, ""));
    let dot = if ext.is_empty() { "" } else { "." };
    path.with_file_name(format!("{stem}.{n}{dot}{ext}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn full(path: &Path, text: &str) -> File {
        fs::write(path, text).unwrap();
        File::open(path).unwrap()
    }

    #[test]
    fn names_that_are_taken_are_left_alone_and_so_is_what_took_the_place_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let current = dir.path().join("run.kflow.zst");
        let at = |n| numbered(&current, n);
        let read = |n| fs::read_to_string(at(n)).ok();
        fs::write(at(1), "older").unwrap();
        std::os::unix::fs::symlink("/nowhere", at(3)).unwrap();
        let mut files = Files::new(&current);
        for n in 0..6 {
            files.aside(full(&current, &format!("ours {n}"))).unwrap();
            assert!(!current.exists());
            if n == 2 {
                // Somebody else puts a file where the first of this run was.
                assert_eq!(read(2).as_deref(), Some("ours 0"));
                fs::remove_file(at(2)).unwrap();
                fs::write(at(2), "theirs").unwrap();
            }
        }
        assert_eq!(read(1).as_deref(), Some("older"));
        assert_eq!(read(2).as_deref(), Some("theirs"));
        assert!(at(3).is_symlink());
        assert_eq!(read(4), None, "ours 1 is the oldest but four");
        let left: Vec<_> = (5..10).map(read).collect();
        let ours = |n| Some(format!("ours {n}"));
        assert_eq!(left, [ours(2), ours(3), ours(4), ours(5), None]);
    }

    #[test]
    fn a_file_that_is_not_ours_is_not_moved() {
        let dir = tempfile::tempdir().unwrap();
        let current = dir.path().join("run.kflow.zst");
        let file = full(&current, "ours");
        fs::rename(&current, dir.path().join("saved")).unwrap();
        fs::write(&current, "theirs").unwrap();
        Files::new(&current).aside(file).unwrap();
        assert_eq!(fs::read_to_string(&current).unwrap(), "theirs");
        assert!(!numbered(&current, 1).exists());
    }
}
