//! What one reading of the directories found, and the mount points that are not touched by it.

#![allow(
    clippy::disallowed_methods,
    reason = "in the thread of the directories"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;

use crate::fs::parse_mountinfo_line;

/// File systems in memory, which cannot hang: a mount of another kind is never touched.
const MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// What a rescan found.
#[derive(Default)]
pub(super) struct Scan {
    /// Entries of directories.
    pub(super) present: FxHashSet<PathBuf>,
    /// Directories that were read.
    pub(super) read: FxHashSet<PathBuf>,
    /// Directories that are not there.
    pub(super) missing: FxHashSet<PathBuf>,
}

impl Scan {
    /// True for what is there no more. A mount point is known by the directory that it lies in and is not touched; what
    /// lies in a directory that could not be read is not known to be gone.
    pub(super) fn lacks(&self, path: &Path) -> bool {
        if self.present.contains(path) {
            return false;
        }
        let mut up = path.parent();
        while let Some(dir) = up {
            if self.read.contains(dir) || self.missing.contains(dir) {
                return true;
            }
            if self.present.contains(dir) {
                return false;
            }
            up = dir.parent();
        }
        false
    }
}

/// Where a file system is mounted that is not in memory, as this process sees it.
pub(super) fn mount_points() -> io::Result<FxHashSet<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(table
        .lines()
        .filter_map(parse_mountinfo_line)
        .filter(|m| !MEMORY.contains(&m.fstype.as_str()))
        .map(|m| PathBuf::from(m.point))
        .collect())
}
