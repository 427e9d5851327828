//! Reads the node's files. A file system that does not answer is an error, and is listed by [`late`].

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use kflow_model::patient;

use super::{Check, Health};

/// Runs `question` on a path; an error when its file system does not answer in time.
pub(super) fn ask<T: Send + 'static>(
    path: &Path,
    question: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let its = path.to_owned();
    patient::ask(path, move || question(&its))?
}

pub(super) fn text(path: &Path) -> io::Result<String> {
    ask(path, |p| fs::read_to_string(p))
}

/// The text of a file; `None` when it does not exist.
pub(super) fn text_if_any(path: &Path) -> io::Result<Option<String>> {
    if_any(text(path))
}

/// The paths in a folder, sorted; empty when it does not exist.
pub(super) fn entries_if_any(path: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(if_any(entries(path))?.unwrap_or_default())
}

/// The paths in a folder, sorted.
pub(super) fn entries(path: &Path) -> io::Result<Vec<PathBuf>> {
    ask(path, |p| {
        let all: io::Result<Vec<PathBuf>> = fs::read_dir(p)?.map(|e| Ok(e?.path())).collect();
        all.map(|mut all| {
            all.sort_unstable();
            all
        })
    })
}

/// True when the path exists; an error when that is unknown.
pub(super) fn exists(path: &Path) -> io::Result<bool> {
    ask(path, Path::try_exists)
}

fn if_any<T>(got: io::Result<T>) -> io::Result<Option<T>> {
    match got {
        Ok(got) => Ok(Some(got)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(e),
    }
}

/// A check with the paths whose file systems did not answer in time; `None` when all did.
pub(super) fn late() -> Option<Check> {
    let all = patient::late();
    let named: Vec<String> = all.iter().map(|p| p.display().to_string()).collect();
    (!named.is_empty()).then(|| {
        Check::new(
            "file systems",
            Health::Off,
            format!("no answer in time about {}", named.join(", ")),
        )
        .todo("what lies there is not known: see whether its mount still has a server (findmnt -T PATH)")
    })
}
