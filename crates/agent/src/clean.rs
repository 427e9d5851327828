//! Removes what an agent leaves on its node: its socket, its spool, and its folders where nothing else is in them.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use kflow_store::name::File;

/// The agent's sockets and the locks beside them, from the node's root.
const FILES: [&str; 4] = [
    "run/kflow/agent.sock",
    "run/kflow/agent.sock.lock",
    "run/kflow/otlp.sock",
    "run/kflow/otlp.sock.lock",
];
/// The spool's folder in the manifest, from the node's root. `LOCK` is the one file in a spool that is not a segment.
const SPOOL: &str = "var/lib/kflow/spool";
const LOCK: &str = "lock";
/// The agent's folders, inner ones before outer ones.
const FOLDERS: [&str; 3] = [SPOOL, "var/lib/kflow", "run/kflow"];

/// Something that could not be removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove {path}: {source}")]
pub struct Error {
    pub path: PathBuf,
    pub source: io::Error,
}

/// What was removed, and what was left.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Files that were removed.
    pub files: usize,
    /// Folders that stay because other files are in them.
    pub left: Vec<PathBuf>,
}

/// Removes the agent's files and folders below `root`. A missing file or folder is not an error.
pub fn clean(root: &Path) -> Result<Cleaned, Error> {
    let mut cleaned = Cleaned::default();
    let spool = root.join(SPOOL);
    let mut files: Vec<PathBuf> = FILES.iter().map(|f| root.join(f)).collect();
    match fs::read_dir(&spool) {
        Ok(entries) => files.extend(entries.flatten().filter_map(|e| {
            let name = e.file_name();
            let name = name.to_str()?;
            (name == LOCK || File::parse(name).is_some()).then(|| e.path())
        })),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(source) => {
            return Err(Error {
                path: spool,
                source,
            });
        }
    }
    for path in files {
        match fs::remove_file(&path) {
            Ok(()) => cleaned.files += 1,
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(Error { path, source }),
        }
    }
    for folder in FOLDERS {
        let path = root.join(folder);
        match fs::remove_dir(&path) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty => cleaned.left.push(path),
            Err(source) => return Err(Error { path, source }),
        }
    }
    Ok(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: &str =
        "20261124T082000.000000007Z-20261124T082500.000000007Z.00000000000000ab-3.17.kflow.zst";

    fn put(root: &Path, path: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn nothing_of_an_agent_is_left_and_nothing_else_goes() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(clean(root).unwrap(), Cleaned::default());
        for path in [FILES[0], FILES[1], "var/lib/kflow/spool/lock"] {
            put(root, path);
        }
        put(root, &format!("{SPOOL}/{SEGMENT}"));
        assert_eq!(clean(root).unwrap().files, 4);
        assert!(!root.join("run/kflow").exists() && !root.join("var/lib/kflow").exists());
        assert!(root.join("run").exists() && root.join("var/lib").exists());

        for path in [
            FILES[0],
            "run/kflow/cri.sock",
            "var/lib/kflow/spool/mine.txt",
        ] {
            put(root, path);
        }
        let cleaned = clean(root).unwrap();
        let left = FOLDERS.map(|f| root.join(f));
        assert_eq!((cleaned.files, cleaned.left), (1, left.to_vec()));
        assert!(root.join("var/lib/kflow/spool/mine.txt").exists());
    }
}
