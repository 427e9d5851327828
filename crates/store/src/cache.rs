//! A cache of fetched segments: a folder that only its owner may read, with a bound. What was not used for the
//! longest time is removed.

use std::fs::DirBuilder;
use std::hash::Hasher as _;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kflow_model::clock;
use kflow_model::file::{self, Access};
use siphasher::sip::SipHasher13;
use tracing::warn;

use crate::layout::{Object, last};

/// A folder of segments. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
    /// Most bytes in the folder.
    bound: u64,
}

impl Cache {
    /// Opens the folder, and creates it if necessary. A folder that others may read is an error.
    pub fn open(dir: &Path, bound: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let mode = std::fs::metadata(dir)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(io::Error::other(format!(
                "it can be read by others (mode {:o}): chmod 700 it",
                mode & 0o777
            )));
        }
        Ok(Self {
            dir: dir.to_owned(),
            bound,
        })
    }

    /// Returns the file of an object: a hash of the store's URL and the object's full path, and the object's name.
    fn file(&self, url: &str, object: &Object) -> PathBuf {
        let mut hash = SipHasher13::new();
        hash.write(url.as_bytes());
        hash.write_u8(0);
        hash.write(object.path.as_ref().as_bytes());
        let name = format!("{:016x}.{}", hash.finish(), last(&object.path));
        self.dir.join(name)
    }

    /// Returns the bytes of an object, if they are cached.
    pub fn get(&self, url: &str, object: &Object) -> Option<Vec<u8>> {
        let path = self.file(url, object);
        let bytes = std::fs::read(&path).ok()?;
        // A file of another size is not this store's object.
        if bytes.len() as u64 != object.bytes {
            return None;
        }
        if let Ok(file) = std::fs::File::options().append(true).open(&path) {
            let now = Duration::from_nanos(u64::try_from(clock::now().0).unwrap_or(0));
            file.set_modified(SystemTime::UNIX_EPOCH + now).ok();
        }
        Some(bytes)
    }

    /// Caches the bytes of an object. A failure only means that they are fetched again.
    pub fn put(&self, url: &str, object: &Object, bytes: &[u8]) {
        let path = self.file(url, object);
        if let Err(e) = file::write(&path, Access::Private, bytes) {
            warn!(why = %e, "a segment is not kept for the next time");
        }
    }

    /// Removes the least recently used files beyond the bound.
    pub fn shrink(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else {
            return;
        };
        let mut all: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|e| {
                let e = e.ok()?;
                let meta = e.metadata().ok().filter(std::fs::Metadata::is_file)?;
                Some((meta.modified().ok()?, meta.len(), e.path()))
            })
            .collect();
        all.sort();
        let mut bytes: u64 = all.iter().map(|(_, len, _)| len).sum();
        for (_, len, path) in all {
            if bytes <= self.bound {
                return;
            }
            // Another kflow may have removed it already.
            std::fs::remove_file(&path).ok();
            bytes = bytes.saturating_sub(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(n: u8, bytes: u64) -> Object {
        let path = format!(
            "c/segments/2026-11-24/08/n/20261124T082000.00000000{n}Z-20261124T082500.000000007Z.ab-{n}.17.kflow.zst"
        );
        Object::parse(&object_store::path::Path::from(path), bytes).unwrap()
    }

    #[test]
    fn what_was_fetched_is_there_again_within_the_bound_and_for_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("cache");
        let cache = Cache::open(&dir, 250).unwrap();
        let keep = |n: u8| cache.put("file:///a", &object(n, 100), &[n; 100]);
        (0..3).for_each(keep);
        for n in 0..3 {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(n) + 1);
            let path = cache.file("file:///a", &object(n, 100));
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let file = std::fs::File::options().append(true).open(path).unwrap();
            file.set_modified(time).unwrap();
        }
        // The oldest is used, so that another one is removed.
        assert_eq!(cache.get("file:///a", &object(0, 100)), Some(vec![0; 100]));
        cache.shrink();
        let there = |n: u8| cache.get("file:///a", &object(n, 100)).is_some();
        assert_eq!([there(0), there(1), there(2)], [true, false, true]);
        // An object of another store or of another size is not cached.
        assert_eq!(cache.get("file:///b", &object(0, 100)), None);
        assert_eq!(cache.get("file:///a", &object(0, 99)), None);
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Cache::open(&dir, 250).is_err());
    }
}
