//! Folders of captures: one that a recorder filled, or the tree of a support bundle.

#![allow(
    clippy::disallowed_methods,
    reason = "an import has no sources beside it"
)]

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::{Input, Kind};
use kflow_model::patient;
use kflow_sources::journal::export;
use kflow_sources::journal::file::JournalFile;

/// Most levels of folders below the given one.
const DEEPEST: usize = 6;
/// Most files that are examined. A bundle of a large cluster has some ten thousand.
const MOST: usize = 100_000;

/// What a folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder {
    /// Files that kflow reads.
    pub inputs: Vec<Input>,
    /// Entries that kflow does not read: files of an unknown kind, and, with the reason in brackets, those that are
    /// not regular files, cannot be read, or lie too deep.
    pub unknown: Vec<String>,
    /// The folders of a bundle that have a node's own captures, if there is more than one. A session holds those of
    /// one node, so nothing is imported then.
    pub nodes: Vec<PathBuf>,
}

/// Finds the captures in a folder.
///
/// A folder that has no captures, or plain lists of objects only, is taken for a bundle, and the folders below it are
/// looked at too: the namespaces of `kubectl cluster-info dump`, the resources of Troubleshoot's `cluster-resources`.
pub fn scan(dir: &Path) -> io::Result<Folder> {
    let mut folder = Folder::default();
    let (files, below) = entries(dir, dir, &mut folder.unknown)?;
    for path in files {
        let name = below_of(dir, &path);
        match Kind::of_file(&name) {
            Some(kind) => folder.inputs.push(Input { kind, path, name }),
            None => {
                folder.take_other(path, name);
            }
        }
    }
    let lists = |i: &Input| i.kind == Kind::Watch && !i.name.starts_with("watch");
    if folder.inputs.iter().all(lists) {
        descend(dir, below, &mut folder);
    }
    folder.leave_what_is_there_twice();
    Ok(folder)
}

impl Folder {
    /// Takes a file whose name says no kind if it is a systemd journal, by the units in it. Returns true if it has
    /// logs of a node.
    fn take_other(&mut self, path: PathBuf, name: String) -> bool {
        if !is_journal(&path) {
            self.unknown.push(name);
            return false;
        }
        let at = path.clone();
        let units = patient::ask(&path, move || -> Result<Vec<String>, String> {
            let file = std::fs::File::open(&at).map_err(|e| e.to_string())?;
            let journal = JournalFile::open(file).map_err(|e| e.to_string())?;
            journal.units().map_err(|e| e.to_string())
        });
        let units = match units.map_err(|e| e.to_string()).flatten() {
            Ok(units) => units,
            Err(why) => {
                self.unknown.push(format!("{name} ({why})"));
                return false;
            }
        };
        let has = |kind: &Kind| {
            let its = kind.component().map_or(&[][..], export::units);
            its.iter().any(|u| units.iter().any(|have| have == u))
        };
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(has).collect();
        if kinds.is_empty() {
            self.unknown
                .push(format!("{name} (a journal without kubelet and runtime)"));
            return false;
        }
        for kind in kinds {
            self.inputs.push(Input {
                kind,
                path: path.clone(),
                name: name.clone(),
            });
        }
        true
    }

    /// Drops a journal as an input for those logs that are also there as a text file.
    fn leave_what_is_there_twice(&mut self) {
        let printed: BTreeSet<Kind> = (self.inputs.iter())
            .filter(|i| !is_journal(&i.path))
            .map(|i| i.kind)
            .collect();
        let (twice, once) = std::mem::take(&mut self.inputs)
            .into_iter()
            .partition(|i| is_journal(&i.path) && printed.contains(&i.kind));
        self.inputs = once;
        let twice: Vec<Input> = twice;
        self.unknown.extend(twice.into_iter().map(|i| {
            let noun = i.kind.noun();
            format!("{} ({noun} is there as a file of its own)", i.name)
        }));
    }
}

/// True for a file of the system journal: `system.journal`, an archived `system@….journal`, or one that was not
/// closed (`~`).
fn is_journal(path: &Path) -> bool {
    let name = name_of(path).unwrap_or_default();
    let name = name.strip_suffix('~').unwrap_or(&name);
    let stem = name.strip_suffix(".journal").unwrap_or_default();
    stem == "system" || stem.starts_with("system@")
}

/// Adds the captures of the folders below.
fn descend(dir: &Path, mut folders: Vec<PathBuf>, found: &mut Folder) {
    let mut of_nodes = BTreeSet::new();
    let mut seen = 0;
    for _ in 0..DEEPEST {
        let mut next = Vec::new();
        for folder in &folders {
            let parent = name_of(folder).unwrap_or_default();
            let (files, below) = match entries(folder, dir, &mut found.unknown) {
                Ok(entries) => entries,
                // A folder that cannot be read does not keep the others from being read.
                Err(e) => {
                    let name = below_of(dir, folder);
                    found.unknown.push(format!("{name} ({e})"));
                    continue;
                }
            };
            next.extend(below);
            let over = files.len().saturating_sub(MOST - seen);
            if over > 0 {
                let name = below_of(dir, folder);
                found.unknown.push(format!(
                    "{name} ({over} of its files: there are more than {MOST})"
                ));
            }
            for path in files.into_iter().take(MOST - seen) {
                seen += 1;
                let name = below_of(dir, &path);
                match name_of(&path).and_then(|n| Kind::of_bundled(&n, &parent)) {
                    Some(kind) => {
                        if kind.of_node() {
                            of_nodes.insert(folder.clone());
                        }
                        found.inputs.push(Input { kind, path, name });
                    }
                    None => {
                        if found.take_other(path, name) {
                            of_nodes.insert(folder.clone());
                        }
                    }
                }
            }
        }
        next.sort_unstable();
        folders = next;
    }
    for folder in folders {
        let name = below_of(dir, &folder);
        found
            .unknown
            .push(format!("{name} (more than {DEEPEST} folders deep)"));
    }
    if of_nodes.len() > 1 {
        found.inputs.clear();
        found.nodes = of_nodes.into_iter().collect();
    }
}

/// Returns the files and folders in a folder, sorted, without hidden folders. Adds everything else to `left`, with
/// its path below `dir` and the reason.
fn entries(
    folder: &Path,
    dir: &Path,
    left: &mut Vec<String>,
) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (at, top) = (folder.to_owned(), dir.to_owned());
    let (files, folders, others) = patient::ask(folder, move || sorted(&at, &top))??;
    left.extend(others);
    Ok((files, folders))
}

/// Files, folders, and the other entries with the reason.
type Sorted = (Vec<PathBuf>, Vec<PathBuf>, Vec<String>);

fn sorted(folder: &Path, dir: &Path) -> io::Result<Sorted> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        all.push(entry?.path());
    }
    all.sort_unstable();
    let mut left = Vec::new();
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for path in all {
        let link = path.is_symlink();
        let why = match (path.is_file(), path.is_dir()) {
            (true, _) => {
                files.push(path);
                continue;
            }
            // A link may lead in a circle.
            (_, true) if link => "a link to a folder",
            (_, true) => {
                if name_of(&path).is_some_and(|n| !n.starts_with('.')) {
                    folders.push(path);
                }
                continue;
            }
            _ if !link => "no regular file",
            _ if path.exists() => "a link to what is no regular file",
            _ => "a link to nothing",
        };
        left.push(format!("{} ({why})", below_of(dir, &path)));
    }
    Ok((files, folders, left))
}

/// Returns the path relative to `dir`.
fn below_of(dir: &Path, path: &Path) -> String {
    let name = path.strip_prefix(dir).unwrap_or(path);
    name.to_string_lossy().into_owned()
}

fn name_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}
