//! Folders of captures: one that a recorder filled, or the tree of a support bundle.

#![allow(
    clippy::disallowed_methods,
    reason = "an import has no sources beside it"
)]

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::{Input, Kind};

/// Folders below the one that was given.
const DEEPEST: usize = 6;
/// Files that are looked at. A bundle of a large cluster has some ten thousand.
const MOST: usize = 100_000;

/// What a folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder {
    /// Files that kflow reads.
    pub inputs: Vec<Input>,
    /// What it does not read: files that it does not know; and, with the reason in brackets, what is no file, cannot be read,
    /// or lies too deep.
    pub unknown: Vec<String>,
    /// More than one folder of a bundle has a node's own captures: these, below the one that was given. A session has one
    /// node's, so nothing is taken.
    pub nodes: Vec<PathBuf>,
}

/// Finds the captures in a folder.
///
/// Where it has none of its own but plain lists of objects, it is taken for a bundle, and the folders below it are
/// looked at too: the namespaces of `kubectl cluster-info dump`, the resources of Troubleshoot's `cluster-resources`.
pub fn scan(dir: &Path) -> io::Result<Folder> {
    let mut folder = Folder::default();
    let mut below = Vec::new();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let Some(name) = name_of(&path) else { continue };
        match special(&path) {
            _ if path.is_file() => names.push(name),
            _ if is_folder(&path) => below.push(path),
            Some(why) => folder.unknown.push(format!("{name} ({why})")),
            None => {}
        }
    }
    names.sort_unstable();
    folder.unknown.sort_unstable();
    for name in names {
        match Kind::of_file(&name) {
            Some(kind) => folder.inputs.push(Input::new(kind, &dir.join(name))),
            None => folder.unknown.push(name),
        }
    }
    let lists = |i: &Input| i.kind == Kind::Watch && !i.name.starts_with("watch");
    if folder.inputs.iter().all(lists) {
        descend(dir, below, &mut folder);
    }
    Ok(folder)
}

/// Takes what the folders below have.
fn descend(dir: &Path, mut folders: Vec<PathBuf>, found: &mut Folder) {
    let mut of_nodes = BTreeSet::new();
    let mut seen = 0;
    for _ in 0..DEEPEST {
        let mut below = Vec::new();
        folders.sort_unstable();
        for folder in &folders {
            let parent = name_of(folder).unwrap_or_default();
            let named = |path: &Path| {
                let name = path.strip_prefix(dir).unwrap_or(path);
                name.to_string_lossy().into_owned()
            };
            let mut files = Vec::new();
            // One folder that cannot be read is no reason to take nothing of the others.
            let entries = match std::fs::read_dir(folder) {
                Ok(entries) => entries,
                Err(e) => {
                    found.unknown.push(format!("{} ({e})", named(folder)));
                    continue;
                }
            };
            for entry in entries {
                let path = match entry {
                    Ok(entry) => entry.path(),
                    Err(e) => {
                        found.unknown.push(format!("{} ({e})", named(folder)));
                        break;
                    }
                };
                match special(&path) {
                    _ if path.is_file() => files.push(path),
                    _ if is_folder(&path) => below.push(path),
                    Some(why) => found.unknown.push(format!("{} ({why})", named(&path))),
                    None => {}
                }
            }
            files.sort_unstable();
            if files.len() > MOST - seen {
                let over = files.len() - (MOST - seen);
                found.unknown.push(format!(
                    "{} ({over} files: the folder has more than {MOST})",
                    named(folder)
                ));
            }
            for path in files.into_iter().take(MOST - seen) {
                seen += 1;
                let name = named(&path);
                match name_of(&path).and_then(|n| Kind::of_bundled(&n, &parent)) {
                    Some(kind) => {
                        if kind.of_node() {
                            of_nodes.insert(folder.clone());
                        }
                        found.inputs.push(Input { kind, path, name });
                    }
                    None => found.unknown.push(name),
                }
            }
        }
        folders = below;
    }
    for folder in folders {
        let name = folder.strip_prefix(dir).unwrap_or(&folder);
        found.unknown.push(format!(
            "{} (more than {DEEPEST} folders deep)",
            name.display()
        ));
    }
    if of_nodes.len() > 1 {
        found.inputs.clear();
        found.nodes = of_nodes.into_iter().collect();
    }
}

/// Why an entry is not read that is neither a file nor a folder of its own. `None` for a hidden folder.
fn special(path: &Path) -> Option<&'static str> {
    let kind = path.symlink_metadata().ok()?.file_type();
    if kind.is_dir() {
        None
    } else if !kind.is_symlink() {
        Some("no regular file")
    } else if path.is_dir() {
        Some("a link to a folder")
    } else if path.exists() {
        Some("a link to what is no regular file")
    } else {
        Some("a link to nothing")
    }
}

fn name_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

/// A folder that is no link, which may lead in a circle, and not hidden.
fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|m| m.is_dir())
        && name_of(path).is_some_and(|n| !n.starts_with('.'))
}
