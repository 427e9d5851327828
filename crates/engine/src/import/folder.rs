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
    /// Files that it does not know.
    pub unknown: Vec<String>,
    /// More than one folder of a bundle has a node's own captures: these, below the one that was given. A session has one
    /// node's, so nothing is taken.
    pub nodes: Vec<PathBuf>,
}

/// Finds the captures in a folder.
///
/// Where it has none of its own but plain lists of objects, it is taken for a bundle, and the folders below it are
/// looked at too: the namespaces of `kubectl cluster-info dump`, the resources of Troubleshoot's `cluster-resources`. When
/// the raw OTLP is there, its decoded form is left.
pub fn scan(dir: &Path) -> io::Result<Folder> {
    let mut folder = Folder::default();
    let mut below = Vec::new();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        match name_of(&path) {
            Some(name) if path.is_file() => names.push(name),
            Some(_) if is_folder(&path) => below.push(path),
            _ => {}
        }
    }
    names.sort_unstable();
    let raw_otlp = names
        .iter()
        .any(|n| super::kind::plain_name(n) == "otlp.jsonl");
    for name in names {
        match Kind::of_file(&name) {
            Some(Kind::Otlp) if raw_otlp && name.starts_with("otlp-decoded") => {}
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

/// Takes what the folders below have. One that cannot be read is left out: it is not the one that was asked for.
fn descend(dir: &Path, mut folders: Vec<PathBuf>, found: &mut Folder) {
    let mut of_nodes = BTreeSet::new();
    let mut seen = 0;
    for _ in 0..DEEPEST {
        let mut below = Vec::new();
        folders.sort_unstable();
        for folder in &folders {
            let parent = name_of(folder).unwrap_or_default();
            let mut files = Vec::new();
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_file() {
                    files.push(path);
                } else if is_folder(&path) {
                    below.push(path);
                }
            }
            files.sort_unstable();
            for path in files.into_iter().take(MOST - seen) {
                seen += 1;
                let name = path.strip_prefix(dir).unwrap_or(&path);
                let name = name.to_string_lossy().into_owned();
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
    if of_nodes.len() > 1 {
        found.inputs.clear();
        found.nodes = of_nodes.into_iter().collect();
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
