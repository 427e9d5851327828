//! Lists that have every pod of their namespace, of tools that are known to ask for all of them. What such a list lacks is not there,
//! as with a whole table of `kubectl get pods` ([`WatchNote::NAMES`]).

use super::stream::Decoded;
use kflow_model::gap::{WatchKind, WatchNote};
use kflow_model::{Body, Nanos, Observation, Stamp};
use kflow_sources::kube::decode::note;

/// Adds to each such list the names of its pods, as of when it was read. An empty one tells no moment: it is taken to be read with the
/// first of its bundle.
pub(super) fn put_names(streams: &mut [Decoded]) {
    let read: Vec<Option<Nanos>> = streams.iter().map(read).collect();
    let all = streams.iter().zip(&read);
    let all: Vec<(usize, Nanos)> = all
        .filter_map(|(d, read)| Some((d.bundle(), (*read)?)))
        .collect();
    for (decoded, read) in streams.iter_mut().zip(read) {
        let bundle = decoded.bundle();
        let others = all.iter().filter(|(of, _)| *of == bundle);
        let read = read.or_else(|| others.map(|(_, read)| *read).min());
        let names = decoded.lists_all_of.as_ref().zip(read);
        let names = names.and_then(|(ns, read)| names_of(ns, decoded, read));
        if let (Some(names), Some(summary)) = (names, decoded.summaries.last_mut()) {
            summary.observations += 1;
            decoded.observations.push(names);
        }
    }
}

/// Returns when a list that has every pod of its namespace was read.
fn read(decoded: &Decoded) -> Option<Nanos> {
    decoded.lists_all_of.as_ref()?;
    decoded.observations.iter().map(|o| o.stamp.seen).max()
}

/// `None` where a pod is of another namespace: the path does not say what it is of.
fn names_of(namespace: &str, decoded: &Decoded, read: Nanos) -> Option<Observation> {
    let pods = decoded.observations.iter().filter_map(|o| match &o.body {
        Body::Pod(p) => Some(p),
        _ => None,
    });
    let mut names = Vec::new();
    for p in pods {
        if p.namespace != namespace {
            return None;
        }
        names.push(format!("{namespace}/{}", p.name));
    }
    let mut o = note(WatchNote::NAMES, WatchKind::ListEnd, "", Stamp::exact(read));
    if let Body::Watch(n) = &mut o.body {
        n.scope = namespace.into();
        n.detail = names.join(" ").into();
    }
    Some(o)
}
