//! Which node a capture is of. A session holds the captures of one node.
//!
//! A journal's lines name their host. Logs that name none are told apart by their folders, if a bundle has one for
//! each node. Captures that tell neither are taken whichever node is chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Bundle, Found, Left};
use crate::import::{Kind, Only};

/// Puts the captures of the node into the bundle. If there are several nodes and none of them is asked for, their
/// captures are left out, and the bundle names them.
pub(super) fn choose(mut found: Vec<Found>, want: &str, bundle: &mut Bundle) {
    by_folder(&mut found);
    leave_the_systems_own(&mut found, bundle);
    let nodes: BTreeSet<String> = (found.iter())
        .filter(|f| f.input.kind.of_node())
        .flat_map(|f| f.about.hosts.iter().cloned())
        .collect();
    let chosen = match nodes.len() {
        0 | 1 => nodes.iter().next(),
        _ => (nodes.get(want)).or_else(|| nodes.iter().find(|n| same(n, want))),
    };
    bundle.host = chosen.cloned().unwrap_or_default();
    let several = nodes.len() > 1;
    if several {
        found.retain(|f| {
            !f.input.kind.of_node()
                || f.about.hosts.is_empty()
                || chosen.is_some_and(|node| f.about.hosts.contains(node))
        });
        if chosen.is_none() {
            bundle.nodes = nodes.iter().cloned().collect();
        }
    }
    leave_what_is_there_twice(&mut found, bundle);
    for f in found {
        let mut input = f.input;
        let merged = several && f.about.hosts.len() > 1;
        if f.about.printed && (f.about.of_all || merged) {
            input.only = Some(Only {
                host: chosen.filter(|_| merged).cloned(),
                of_all: f.about.of_all,
            });
        }
        bundle.inputs.push(input);
    }
}

/// True if a host is the node: hosts are told with and without their domain.
fn same(host: &str, node: &str) -> bool {
    let first = |name: &str| match name.parse::<IpAddr>() {
        Ok(_) => None,
        Err(_) => name.split('.').next().map(str::to_owned),
    };
    !node.is_empty() && first(host).is_some_and(|h| first(node) == Some(h))
}

/// Files of the same name in several folders are of several nodes, if they tell no hosts: the folder that differs
/// names the node.
fn by_folder(found: &mut [Found]) {
    let parts = |f: &Found| -> Vec<String> { f.input.name.split('/').map(str::to_owned).collect() };
    let silent = |f: &Found| f.input.kind.of_node() && f.about.hosts.is_empty();
    let mut like: BTreeMap<(Kind, String), Vec<Vec<String>>> = BTreeMap::new();
    for f in found.iter().filter(|f| silent(f)) {
        let mut path = parts(f);
        let name = path.pop().unwrap_or_default();
        like.entry((f.input.kind, name)).or_default().push(path);
    }
    // The first place at which the folders of any two such files differ.
    let differ = |paths: &Vec<Vec<String>>| {
        let (first, others) = paths.split_first()?;
        let at = |path: &Vec<String>| first.iter().zip(path).position(|(a, b)| a != b);
        others.iter().filter_map(at).min()
    };
    let Some(place) = like.values().filter_map(differ).min() else {
        return;
    };
    for f in found.iter_mut().filter(|f| silent(f)) {
        let path = parts(f);
        // The last part is the file itself.
        if place + 1 < path.len() {
            f.about.hosts.extend(path.get(place).cloned());
        }
    }
}

/// On Talos the containerd of pods writes `cri.log`, and `containerd.log` is of the one that runs the system.
fn leave_the_systems_own(found: &mut Vec<Found>, bundle: &mut Bundle) {
    let with = |name: &str| -> BTreeSet<String> {
        (found.iter())
            .filter_map(|f| f.input.name.strip_suffix(name))
            .map(str::to_owned)
            .collect()
    };
    let folders = with("/cri.log");
    found.retain(|f| {
        let folder = f.input.name.strip_suffix("/containerd.log");
        let system = folder.is_some_and(|folder| folders.contains(folder));
        if system {
            bundle.left.push(Left {
                name: f.input.name.clone(),
                why: "the system's own: cri.log is that of pods".to_owned(),
            });
        }
        !system
    });
}

/// Drops the journals of all units for those logs that are there as files of their own, and all such journals but one.
fn leave_what_is_there_twice(found: &mut Vec<Found>, bundle: &mut Bundle) {
    let own: BTreeSet<Kind> = (found.iter())
        .filter(|f| !f.about.of_all)
        .map(|f| f.input.kind)
        .collect();
    let mut sizes: BTreeMap<(Kind, String), u64> = BTreeMap::new();
    for f in found.iter().filter(|f| f.about.of_all) {
        *sizes.entry((f.input.kind, series(f))).or_default() += f.size;
    }
    let mut best: BTreeMap<Kind, (u64, String)> = BTreeMap::new();
    for ((kind, series), size) in sizes {
        let mine = best.entry(kind).or_default();
        if size > mine.0 || mine.1.is_empty() {
            *mine = (size, series);
        }
    }
    found.retain(|f| {
        if !f.about.of_all {
            return true;
        }
        let kind = f.input.kind;
        let where_else = if own.contains(&kind) {
            "there as a file of its own"
        } else if best.get(&kind).is_none_or(|(_, s)| *s != series(f)) {
            "in another journal too"
        } else {
            return true;
        };
        bundle.left.push(Left {
            name: f.input.name.clone(),
            why: format!("{} is {where_else}", kind.noun()),
        });
        false
    });
}

/// Names a journal that is in several files: `system.journal` and those that are archived, `messages` and those that
/// were rotated.
fn series(f: &Found) -> String {
    let name = &f.input.name;
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let end = file
        .find(|c: char| c.is_ascii_digit() || c == '@' || c == '.')
        .unwrap_or(file.len());
    let stem = file.get(..end).unwrap_or(file).trim_end_matches(['-', '_']);
    format!("{folder}/{stem}")
}
