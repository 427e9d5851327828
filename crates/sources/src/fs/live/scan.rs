//! What one scan of the directories found, and the mount points that a scan does not touch.

#![allow(
    clippy::disallowed_methods,
    reason = "in the thread of the directories"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;

use crate::fs::parse_mountinfo_line;

/// File systems in memory, which cannot hang; a mount of any other type is never touched.
const MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// What a rescan found.
#[derive(Default)]
pub(super) struct Scan {
    /// Entries of the directories that were read.
    pub(super) present: FxHashSet<PathBuf>,
    pub(super) read: FxHashSet<PathBuf>,
    /// Directories that do not exist.
    pub(super) missing: FxHashSet<PathBuf>,
}

impl Scan {
    /// Returns true for a path that no longer exists. A mount point is known by the directory that contains it, and
    /// is not touched. A path below a directory that could not be read is not known to be gone.
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

/// Returns the mount points, as this process sees them, of file systems that are not in memory.
pub(super) fn mount_points() -> io::Result<FxHashSet<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(table
        .lines()
        .filter_map(parse_mountinfo_line)
        .filter(|m| !MEMORY.contains(&m.fstype.as_str()))
        .map(|m| PathBuf::from(m.point))
        .collect())
}
