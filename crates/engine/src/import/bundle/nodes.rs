//! Which node a capture is of. A session holds the captures of one node.
//!
//! A journal's lines name their host. Logs that name none are told apart by their folders, if a bundle has one for
//! each node, and by their bundles. Captures that tell neither are taken whichever node of their bundle is chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read};
use std::net::IpAddr;

use serde_json::Value;

use super::{Bundle, Candidate, Found, Left, Place};
use crate::import::{Kind, Only, yaml};

/// Puts the captures of the node into the bundle. If there are several nodes and none of them is asked for, their
/// captures are left out, and the bundle names them. `bundles` are the names of what was given.
pub(super) fn choose(mut found: Vec<Found>, bundles: &[String], want: &str, bundle: &mut Bundle) {
    for (n, name) in bundles.iter().enumerate() {
        let own = |f: &&mut Found| f.input.bundle == n;
        by_folder(&mut found.iter_mut().filter(own).collect::<Vec<_>>());
        by_bundle(&mut found, n, name);
    }
    leave_the_systems_own(&mut found, bundle);
    by_full_name(&mut found);
    let of_nodes = || found.iter().filter(|f| f.input.kind.of_node());
    let hosts: BTreeSet<(usize, String)> = of_nodes()
        .flat_map(|f| f.about.hosts.iter().map(|h| (f.input.bundle, h.clone())))
        .collect();
    let nodes: BTreeSet<&String> = hosts.iter().map(|(_, host)| host).collect();
    let names = match nodes.len() {
        0 => BTreeMap::new(),
        _ => names(&nodes, &found),
    };
    let named = |host: &String| {
        names
            .get(host)
            .is_some_and(|name| *name == want || same(name, want))
    };
    let chosen = match nodes.len() {
        0 | 1 => nodes.first(),
        _ => (nodes.get(&want.to_owned()))
            .or_else(|| nodes.iter().find(|n| named(n)))
            .or_else(|| nodes.iter().find(|n| same(n, want))),
    };
    let chosen: Option<String> = chosen.map(|host| (*host).clone());
    bundle.host = chosen.clone().unwrap_or_default();
    bundle.node = chosen.as_ref().and_then(|host| names.get(host).cloned());
    let several = nodes.len() > 1;
    let is_paste = several && chosen.is_none() && want.is_empty() && is_paste(&found);
    if is_paste {
        let names: Vec<&str> = nodes.iter().map(|node| node.as_str()).collect();
        let names = names.join(", ");
        bundle.joined.extend(found.iter().find(|f| f.input.kind.of_node()).map(|f| Left {
            name: f.input.name.clone(),
            why: format!("its lines name several nodes ({names}), and are read as those of one (--node reads one of them alone)"),
        }));
    }
    let several = several && !is_paste;
    if several {
        if chosen.is_none() {
            let name = |host: &&String| names.get(*host).unwrap_or(host).clone();
            bundle.nodes = nodes.iter().map(name).collect();
        }
        let is_silent = |f: &&Found| f.input.kind.of_node() && f.about.hosts.is_empty();
        if chosen.is_none() {
            bundle
                .left
                .extend(found.iter().filter(is_silent).map(|f| Left {
                    name: f.input.name.clone(),
                    why: "it names no node, and none of several is chosen (--node)".to_owned(),
                }));
        }
        found.retain(|f| {
            let own = &f.about.hosts;
            let of_bundle = || hosts.iter().filter(|(n, _)| *n == f.input.bundle);
            let has = |host: &String| {
                own.contains(host)
                    // Of any node of its bundle.
                    || own.is_empty()
                        && (of_bundle().next().is_none() || of_bundle().any(|(_, h)| h == host))
            };
            !f.input.kind.of_node() || chosen.as_ref().is_some_and(has)
        });
    }
    leave_what_is_there_twice(&mut found, bundle);
    for f in found {
        let mut input = f.input;
        let merged = several && f.about.hosts.len() > 1;
        if f.about.printed && (f.about.of_all || merged) {
            input.only = Some(Only {
                host: chosen.clone().filter(|_| merged),
                of_all: f.about.of_all,
            });
        }
        bundle.inputs.push(input);
    }
}

/// Calls hosts by their names with the domain where some lines have one without it. A name that two domains have stays.
fn by_full_name(found: &mut [Found]) {
    let hosts: BTreeSet<String> = (found.iter())
        .flat_map(|f| f.about.hosts.iter().cloned())
        .collect();
    let full = |host: &String| {
        let is_full = |other: &&String| other.contains('.') && same(host, other);
        let mut full = hosts.iter().filter(is_full);
        let first = full.next()?;
        (!host.contains('.') && full.next().is_none()).then(|| first.clone())
    };
    for f in found {
        let hosts = std::mem::take(&mut f.about.hosts);
        f.about.hosts = hosts
            .iter()
            .map(|h| full(h).unwrap_or_else(|| h.clone()))
            .collect();
    }
}

/// True if the captures of nodes are a few lines of one journal. Whoever pastes into a ticket replaces some of the names.
fn is_paste(found: &[Found]) -> bool {
    let mut of_nodes = found.iter().filter(|f| f.input.kind.of_node());
    let Some(first) = of_nodes.next() else {
        return false;
    };
    let is_small = first.about.printed && first.size <= FEW && first.input.bundle == 0;
    is_small && of_nodes.all(|f| f.input.name == first.input.name)
}

/// Sets the node of those captures of a bundle that name no host: the only one that others in it name. If none names
/// one, and another bundle has logs of the same kinds, the bundle is of a node of its own.
fn by_bundle(found: &mut [Found], n: usize, name: &str) {
    let of_nodes = || found.iter().filter(|f| f.input.kind.of_node());
    let (own, others): (Vec<&Found>, Vec<&Found>) = of_nodes().partition(|f| f.input.bundle == n);
    let hosts: BTreeSet<&String> = own.iter().flat_map(|f| &f.about.hosts).collect();
    let again = |f: &&Found| others.iter().any(|o| o.input.kind == f.input.kind);
    let host = match hosts.len() {
        1 => hosts.first().map(|host| (*host).clone()),
        0 if !name.is_empty() && own.iter().any(again) => Some(undated(name).to_owned()),
        _ => None,
    };
    for f in found
        .iter_mut()
        .filter(|f| f.input.bundle == n && f.input.kind.of_node())
    {
        if f.about.hosts.is_empty() {
            f.about.hosts.extend(host.clone());
        }
    }
}

/// The name of a bundle up to its date or its form: `node-1` of `node-1-2026-11-21_00_30_07.tar.gz`.
fn undated(name: &str) -> &str {
    let is_date = |at: &usize| {
        let date = name.as_bytes().get(*at..at + 9).unwrap_or_default();
        matches!(date, [b'-' | b'_', b'2', b'0', _, _, b'-', _, _, b'-'])
    };
    let form = || {
        [".tar", ".tgz", ".zip"]
            .iter()
            .find_map(|form| name.find(form))
    };
    let end = (0..name.len()).find(is_date).or_else(form);
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}

/// Size of a few lines of a journal, bytes.
const FEW: u64 = 8 << 10;
/// Longest list of Nodes that is looked into, bytes.
const LONGEST: u64 = 64 << 20;

/// Returns the names of the Nodes that hosts are, by the Node objects: the only one that has the host's name as its own
/// or as one of its addresses.
fn names(hosts: &BTreeSet<&String>, found: &[Found]) -> BTreeMap<String, String> {
    let lists = found.iter().filter(|f| {
        let mut last = f.input.name.rsplit('/').take(2);
        f.input.kind == Kind::Watch
            && last.any(|part| part.contains("node") || part.starts_with("cluster-info"))
    });
    let mut nodes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for list in lists {
        for object in objects(list).unwrap_or_default() {
            let items = object.get("items").and_then(Value::as_array);
            for node in items.into_iter().flatten().chain([&object]) {
                let addresses = node.pointer("/status/addresses").and_then(Value::as_array);
                let name = node.pointer("/metadata/name").and_then(Value::as_str);
                let (Some(name), Some(addresses)) = (name, addresses) else {
                    continue;
                };
                let text = |a: &Value| Some(a.get("address")?.as_str()?.to_owned());
                let its = nodes.entry(name.to_owned()).or_default();
                its.extend(addresses.iter().filter_map(text));
            }
        }
    }
    let name = |host: &&String| {
        let is = |(name, addresses): &(&String, &BTreeSet<String>)| {
            name == host || same(host, name) || addresses.contains(*host)
        };
        let mut fits = nodes.iter().filter(is);
        let first = fits.next()?.0;
        fits.next()
            .is_none()
            .then(|| ((*host).clone(), first.clone()))
    };
    hosts.iter().filter_map(name).collect()
}

/// The documents of a list, as far as they can be read.
fn objects(list: &Found) -> Option<Vec<Value>> {
    let candidate = Candidate {
        name: String::new(),
        at: match &list.input.part {
            Some(part) => Place::Part(part.clone()),
            None => Place::Path(list.input.path.clone()),
        },
        raw: Vec::new(),
        size: list.size,
    };
    let mut text = Vec::new();
    let mut raw = Vec::new();
    candidate.raw().ok()?.take(8).read_to_end(&mut raw).ok()?;
    let plain = super::archive::uncompressed(&raw, candidate.raw().ok()?).ok()?;
    plain.take(LONGEST).read_to_end(&mut text).ok();
    if yaml::is(&text) {
        let mut json = Vec::new();
        let documents = yaml::Documents::new(BufReader::new(text.as_slice()));
        { documents }.read_to_end(&mut json).ok();
        text = json;
    }
    let documents = serde_json::Deserializer::from_slice(&text).into_iter();
    Some(documents.map_while(Result::ok).collect())
}

/// True if a host is the node: hosts are told with and without their domain.
pub(in crate::import) fn same(host: &str, node: &str) -> bool {
    let first = |name: &str| match name.parse::<IpAddr>() {
        Ok(_) => None,
        Err(_) => name.split('.').next().map(str::to_owned),
    };
    !node.is_empty() && first(host).is_some_and(|h| first(node) == Some(h))
}

/// Files of the same name in several folders are of several nodes, if they tell no hosts: the folder that differs
/// names the node.
fn by_folder(found: &mut [&mut Found]) {
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

/// Drops the journals of all units for those logs that are there as files of their own, and all such journals but one. What
/// `systemctl status` prints of a log does not stand for it.
fn leave_what_is_there_twice(found: &mut Vec<Found>, bundle: &mut Bundle) {
    let whole: BTreeSet<(usize, Kind)> = (found.iter())
        .filter(|f| !f.about.is_excerpt)
        .map(|f| (f.input.bundle, f.input.kind))
        .collect();
    found.retain(|f| {
        let is_there = whole.contains(&(f.input.bundle, f.input.kind));
        let is_left = f.about.is_excerpt && is_there;
        if is_left {
            bundle.left.push(Left {
                name: f.input.name.clone(),
                why: "the last lines of a log that is there".to_owned(),
            });
        }
        !is_left
    });
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
