//! A temporary folder for what is made of segments, with mode 0700. It is removed on drop; a folder that a killed
//! process left is removed when the next one is created in the same place.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;

/// Prefix of the folders' names. It has to be unique, since they may lie in a folder that all programs use.
const PREFIX: &str = "kflow-segments-";

/// A temporary folder.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    /// Held as long as the folder is used.
    _lock: File,
}

impl Scratch {
    /// Creates a folder below `parent`.
    pub fn new(parent: &Path) -> io::Result<Self> {
        remove_left(parent);
        loop {
            let dir = tempfile::Builder::new()
                .prefix(PREFIX)
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(parent)?;
            // Until it is locked, another process may take it for a folder that was left behind.
            match File::open(dir.path()) {
                Ok(lock) => {
                    if lock.try_lock().is_ok() && dir.path().is_dir() {
                        return Ok(Self { dir, _lock: lock });
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes the folders of ended processes, whose locks are free. Another user's folder cannot be opened, and stays.
fn remove_left(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_one = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
        if is_one
            && is_folder
            && let Ok(lock) = File::open(entry.path())
            && lock.try_lock().is_ok()
        {
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_who_used_it_and_one_that_was_left_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("kflow-segments-of-a-killed-one");
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("x.kflow.zst"), "x").unwrap();
        let other = parent.path().join("segments-of-another");
        std::fs::create_dir(&other).unwrap();
        let one = Scratch::new(parent.path()).unwrap();
        std::fs::write(one.path().join("x.kflow.zst"), "x").unwrap();
        let two = Scratch::new(parent.path()).unwrap();
        assert!(!left.exists() && other.exists());
        assert!(one.path().join("x.kflow.zst").exists() && two.path().is_dir());
        let (a, b) = (one.path().to_owned(), two.path().to_owned());
        drop((one, two));
        assert!(!a.exists() && !b.exists());
    }
}
