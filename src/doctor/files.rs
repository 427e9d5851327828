//! Files of the node that is looked at. A file system that does not answer is an error, and a line of its own among what
//! was found ([`late`]).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use kflow_model::patient;

use super::{Check, Health};

/// Asks the file system of a path.
pub(super) fn ask<T: Send + 'static>(
    path: &Path,
    question: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let its = path.to_owned();
    patient::ask(path, move || question(&its))?
}

/// The text of a file.
pub(super) fn text(path: &Path) -> io::Result<String> {
    ask(path, |p| fs::read_to_string(p))
}

/// The text of a file; `None` where there is none.
pub(super) fn text_if_any(path: &Path) -> io::Result<Option<String>> {
    if_any(text(path))
}

/// What a folder holds, sorted; nothing where there is no folder.
pub(super) fn entries_if_any(path: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(if_any(entries(path))?.unwrap_or_default())
}

/// What a folder holds, sorted.
pub(super) fn entries(path: &Path) -> io::Result<Vec<PathBuf>> {
    ask(path, |p| {
        let all: io::Result<Vec<PathBuf>> = fs::read_dir(p)?.map(|e| Ok(e?.path())).collect();
        all.map(|mut all| {
            all.sort_unstable();
            all
        })
    })
}

/// True when there is something at a path; an error when that is not known.
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

/// What was asked for and not answered in time.
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
