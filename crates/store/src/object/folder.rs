//! Lists a store that is a folder. What is no object by its name or kind is left out; `object_store` gives no list at
//! all then.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::path::{Path as FsPath, PathBuf};

use object_store::ObjectMeta;
use object_store::path::Path;
use rustix::io::Errno;

/// Returns all files below `folder` of the store at `root`.
pub(super) fn list(root: &FsPath, folder: &Path) -> io::Result<Vec<ObjectMeta>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.clone()];
    while let Some(folder) = folders.pop() {
        for (path, meta) in entries(root, &folder)? {
            if meta.is_dir() {
                folders.push(path);
            } else if meta.is_file() && !is_unfinished(path.filename().unwrap_or_default()) {
                found.push(ObjectMeta {
                    location: path,
                    last_modified: meta.modified()?.into(),
                    size: meta.len(),
                    e_tag: None,
                    version: None,
                });
            }
        }
    }
    Ok(found)
}

/// Returns the folders right in `folder`.
pub(super) fn folders(root: &FsPath, folder: &Path) -> io::Result<Vec<Path>> {
    let all = entries(root, folder)?.into_iter();
    Ok(all.filter(|(_, m)| m.is_dir()).map(|(p, _)| p).collect())
}

/// True for a name of a file that is being written: `object_store` writes files as `NAME#N`, and renames them when they
/// are complete (`local.rs`).
pub(super) fn is_unfinished(name: &str) -> bool {
    let number = name.rsplit_once('#').map(|(_, n)| n);
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn entries(root: &FsPath, folder: &Path) -> io::Result<Vec<(Path, Metadata)>> {
    let here = root.join(folder.as_ref());
    let named =
        |e: io::Error, path: &FsPath| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let entries = match std::fs::read_dir(&here) {
        // It may be removed at the same time, and a file has nothing below it.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(|e| named(e, &here))?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| named(e, &here))?;
        let name = entry.file_name();
        let part = name.to_str().and_then(|n| Path::parse(n).ok());
        let Some(part) = part.filter(|p| p.parts_count() == 1) else {
            continue;
        };
        let is_link = entry.file_type().is_ok_and(|t| t.is_symlink());
        if is_link && leads_up(&entry.path(), &here) {
            continue;
        }
        let meta = match std::fs::metadata(entry.path()) {
            Ok(meta) => meta,
            // A link that leads nowhere or in a circle, or what another process removes at the same time.
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(e) if Errno::from_io_error(&e) == Some(Errno::LOOP) => continue,
            Err(e) => return Err(named(e, &entry.path())),
        };
        all.push((folder.clone().join(part.as_ref()), meta));
    }
    Ok(all)
}

/// True for a link to the folder that it is in, or to one above it.
fn leads_up(link: &FsPath, folder: &FsPath) -> bool {
    let real = |p: &FsPath| -> Option<PathBuf> { p.canonicalize().ok() };
    real(link)
        .zip(real(folder))
        .is_some_and(|(to, from)| from.starts_with(to))
}
