//! Joins the segments that were fetched into one session: those of each node, and then the nodes.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash as _, Hasher as _};
use std::path::Path as FsPath;

use kflow_model::pod::WatchEvent;
use kflow_model::session::format::Bound;
use kflow_model::session::writer::LEVEL;
use kflow_model::session::{Header, Part, Writer};
use kflow_model::{Body, Evidence, Nanos, Text};

use super::{FetchError, Fetched};
use crate::layout::{NO_NODE, Object};
use crate::merge::{Hole, Merge, Piece, arrange, told};

/// Joins the segments of each node, and then the nodes.
pub(super) fn write(
    by_node: BTreeMap<Text, Vec<Piece>>,
    unread: &[Object],
    until: Nanos,
    path: &FsPath,
    done: &mut Fetched,
) -> Result<(), FetchError> {
    let mut nodes = Vec::new();
    let mut connections = 0;
    for (node, pieces) in by_node {
        let mut merge = Merge::after(connections);
        let its = unread.iter().filter(|o| o.node == node);
        let stream = Stream::of(&node, arrange(pieces), its, &mut merge);
        connections = merge.connections();
        let Some(stream) = stream else { continue };
        let holes = stream.ends.iter().chain(merge.holes());
        done.holes.extend(holes.map(|h| (node.clone(), *h)));
        nodes.push(stream);
    }
    once_told(&mut nodes);
    let Some(first) = nodes.iter().min_by_key(|s| s.header.created) else {
        // All segments were removed or are damaged.
        return Ok(());
    };
    let mut header = first.header.clone();
    header.segment = None::<Part>;
    let several = nodes.len() > 1;
    if several {
        header.node = Text::default();
    }
    let from = begin(&nodes);
    let end = nodes.iter().map(|s| s.until).min().flatten();
    for stream in nodes.iter_mut().filter(|_| several) {
        stream.part_of(from);
    }
    let mut writer = Writer::replace(path, LEVEL, &header)?;
    let mut bound = from;
    let carried: usize = nodes.iter().map(|s| s.carried).sum();
    for (n, o) in joined(nodes).into_iter().enumerate() {
        if n >= carried
            && let Some(from) = bound.take()
        {
            writer.bound(Bound::From, from);
        }
        if o.stamp.seen <= until {
            writer.write(&o)?;
        }
    }
    if let Some(from) = bound {
        writer.bound(Bound::From, from);
    }
    if let Some(end) = end {
        writer.bound(Bound::Until, end.min(until));
    }
    done.observations = writer.observations();
    writer.finish()?;
    Ok(())
}

/// Returns the begin of the time in which everything was recorded: of several nodes that of the last, or that of the
/// cluster's recording, which has the pods of all nodes.
fn begin(nodes: &[Stream]) -> Option<Nanos> {
    let (cluster, nodes): (Vec<&Stream>, Vec<&Stream>) =
        nodes.iter().partition(|s| s.node == NO_NODE);
    let all = nodes.iter().filter_map(|s| s.from).max();
    let Some(cluster) = cluster.first() else {
        return all;
    };
    let its = cluster.from.unwrap_or(cluster.header.created);
    if nodes.is_empty() {
        cluster.from
    } else {
        Some(all.map_or(its, |all| all.min(its)))
    }
}

/// Leaves out of the cluster's recording what a node's recording tells too.
fn once_told(nodes: &mut [Stream]) {
    let (cluster, nodes): (Vec<&mut Stream>, Vec<&mut Stream>) =
        nodes.iter_mut().partition(|s| s.node == NO_NODE);
    let told: HashSet<u64> = nodes
        .iter()
        .flat_map(|s| s.all.iter().filter_map(told_as))
        .collect();
    for stream in cluster.into_iter().filter(|_| !told.is_empty()) {
        let mut n = 0;
        let carried = stream.carried;
        stream.all.retain(|o| {
            n += 1;
            // What is carried over stands for a list.
            n <= carried || told_as(o).is_none_or(|key| !told.contains(&key))
        });
    }
}

/// A hash of what is the same to every recorder that sees it. `None` for what is a recorder's own, and for the objects of
/// a list, whose end says that the others are gone.
fn told_as(o: &Evidence) -> Option<u64> {
    let mut hash = DefaultHasher::new();
    match &o.body {
        Body::Pod(p) if p.event != WatchEvent::Listed => {
            // To the watch of a node a pod is added that is bound to it; to that of the cluster it is changed.
            let gone = p.event == WatchEvent::Deleted;
            (&p.uid, p.resource_version, gone).hash(&mut hash);
        }
        Body::Event(e) if !e.listed => (o.stamp.at, e).hash(&mut hash),
        Body::Log(_) | Body::Audit(_) | Body::Span(_) => {
            (o.stamp.at, o.source, &o.body).hash(&mut hash);
        }
        _ => return None,
    }
    Some(hash.finish())
}

/// The recording of one node.
struct Stream {
    node: Text,
    header: Header,
    /// In order of arrival, after the `carried` observations of what was still valid at the begin.
    all: Vec<Evidence>,
    carried: usize,
    from: Option<Nanos>,
    until: Option<Nanos>,
    /// Unreadable segments before the first readable one and after the last.
    ends: Vec<Hole>,
}

impl Stream {
    /// `None` without segments.
    fn of<'a>(
        node: &Text,
        pieces: Vec<Piece>,
        unread: impl Iterator<Item = &'a Object>,
        merge: &mut Merge,
    ) -> Option<Self> {
        let (first, last) = (pieces.first()?, pieces.last()?);
        let (begin, end) = (first.begin(), last.end());
        let mut stream = Self {
            node: node.clone(),
            header: first.header.clone(),
            all: Vec::new(),
            carried: first.carried.len(),
            from: first.report.from,
            until: None,
            ends: Vec::new(),
        };
        for piece in pieces {
            stream.until = piece.report.until;
            stream.all.extend(merge.next(piece));
        }
        let (mut before, mut after) = (begin, end);
        // Between two segments that are read, the numbers of their runs tell what is missing.
        for object in unread {
            if object.begin < begin {
                before = before.min(object.begin);
            } else if object.end > end {
                after = after.max(object.end);
            }
        }
        let hole = |from, to| Hole {
            from,
            to,
            lost: true,
        };
        if before < begin {
            stream.ends.push(hole(before, begin));
            stream.all.insert(stream.carried, told(hole(before, begin)));
        }
        if after > end {
            stream.ends.push(hole(end, after));
            stream.all.push(told(hole(end, after)));
            stream.until = Some(after);
        }
        Some(stream)
    }

    /// What was still valid when a node's recording began is news to one of several nodes that began before.
    fn part_of(&mut self, from: Option<Nanos>) {
        let Some(from) = from else { return };
        let carried = self.carried.min(self.all.len());
        let (before, after): (Vec<Evidence>, Vec<Evidence>) = self
            .all
            .drain(..carried)
            .partition(|o| o.stamp.seen <= from);
        self.carried = before.len();
        self.all.splice(0..0, before.into_iter().chain(after));
    }
}

/// Returns the observations of several nodes in order of arrival, after those that each node carried over.
fn joined(mut nodes: Vec<Stream>) -> Vec<Evidence> {
    if let [one] = nodes.as_mut_slice() {
        return std::mem::take(&mut one.all);
    }
    let mut all = Vec::new();
    let mut rest = Vec::new();
    for node in nodes {
        let mut its = node.all;
        rest.extend(its.split_off(node.carried.min(its.len())));
        all.extend(its);
    }
    all.sort_by_key(|o| o.stamp.seen);
    // The sort is stable: observations of one node keep their order, except across steps of its clock.
    rest.sort_by_key(|o| o.stamp.seen);
    all.append(&mut rest);
    all
}
