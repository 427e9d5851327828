//! The files of a spool.

use std::fs::{DirBuilder, File as FsFile, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use kflow_model::Nanos;
use kflow_model::session::{Part, Reader, SessionError};
use tracing::info;

use super::{Segment, SpoolError, error};
use crate::name::File;

/// Creates the folder if necessary, and locks it against other processes.
pub(super) fn take_folder(dir: &Path) -> Result<FsFile, SpoolError> {
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(error("open", dir))?;
    let mode = std::fs::metadata(dir)
        .map_err(error("open", dir))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        return Err(SpoolError::Shared {
            path: dir.display().to_string(),
            mode: mode & 0o777,
        });
    }
    let path = dir.join("lock");
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(error("open", &path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(SpoolError::Busy {
            path: dir.display().to_string(),
        }),
        Err(TryLockError::Error(e)) => Err(error("lock", &path)(e)),
    }
}

/// Returns every file in a folder, sorted by name, with what its name says.
pub(super) fn files(dir: &Path) -> Result<Vec<(PathBuf, Option<File>)>, SpoolError> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(error("list", dir))? {
        let entry = entry.map_err(error("list", dir))?;
        let file = entry.file_name().to_str().and_then(File::parse);
        all.push((entry.path(), file));
    }
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(all)
}

/// Returns the closed segment in a file; `None` if it is not one.
pub(super) fn segment(path: &Path) -> Option<Segment> {
    let name = path.file_name()?.to_str()?;
    let File::Closed {
        begin,
        end,
        part,
        observations,
        sent,
    } = File::parse(name)?
    else {
        return None;
    };
    Some(Segment {
        bytes: std::fs::metadata(path).ok()?.len(),
        path: path.to_owned(),
        begin,
        end,
        part,
        observations,
        sent,
    })
}

/// Sorts segments as they were recorded: runs by the begin of their first segment, segments of a run by number.
pub(super) fn order(segments: &mut Vec<Segment>) {
    segments.sort_by(|a, b| a.part.cmp(&b.part));
    let mut runs: Vec<Vec<Segment>> = Vec::new();
    for s in segments.drain(..) {
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|l| l.part.run == s.part.run) => run.push(s),
            _ => runs.push(vec![s]),
        }
    }
    runs.sort_by_key(|run| run.first().map(|s| s.begin));
    segments.extend(runs.into_iter().flatten());
}

/// Closes a segment that a process left open. If it has no observation of its own, removes it and returns `None`.
pub(super) fn recover(
    dir: &Path,
    path: &Path,
    begin: Nanos,
    part: Part,
) -> io::Result<Option<PathBuf>> {
    let reader = match Reader::open(path) {
        Ok(reader) => reader,
        // The header never reached the disk, or the file is not a segment: it has a segment's name and holds nothing.
        Err(SessionError::NotASession { .. }) => return std::fs::remove_file(path).map(|()| None),
        Err(e) => return Err(io::Error::other(e)),
    };
    let (mut own, mut first, mut last) = (0, Nanos(i64::MAX), begin);
    let mut began = part.n == 0;
    reader.in_turn(|batch| {
        let mut from = 0;
        if let Some(at) = batch.report.from {
            // The observations before this point were carried over.
            (own, first, last) = (0, at, begin);
            from = batch.report.carried;
            began = true;
        }
        if began {
            for o in batch.observations.iter().skip(from) {
                own += 1;
                (first, last) = (first.min(o.stamp.seen), last.max(o.stamp.seen));
            }
        }
        last = last.max(batch.report.until.unwrap_or(last));
        true
    });
    if own == 0 {
        return std::fs::remove_file(path).map(|()| None);
    }
    let closed = File::Closed {
        begin: begin.min(first),
        end: last,
        part,
        observations: own,
        sent: false,
    };
    let to = dir.join(closed.to_string());
    std::fs::rename(path, &to)?;
    info!(path = %to.display(), "a segment that was left open is closed");
    Ok(Some(to))
}
