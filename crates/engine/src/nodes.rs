//! The nodes of a cluster, one row each: their state, their verdict and their pods.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::snapshot::Snapshot;
use kflow_core::correlate::Presence;
use kflow_core::diagnose::Verdict;
use kflow_model::Text;

/// The state of a node, by its own report and the node controller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Its condition Ready is Unknown: its kubelet has fallen silent.
    Silent,
    NotReady,
    /// Pods name it, but a complete list of nodes does not have it.
    Missing,
    /// Pods are bound to it, but the list of nodes was not or could not be read.
    Unseen,
    Ready,
}

impl Standing {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::NotReady => "not ready",
            Self::Missing => "missing",
            Self::Unseen => "not read",
            Self::Ready => "ready",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    pub name: Text,
    pub standing: Standing,
    pub cordoned: bool,
    /// Verdict about the node, if something is wrong with it.
    pub verdict: Option<Arc<Verdict>>,
    /// Version of its kubelet; empty while it is not known.
    pub kubelet: Text,
    /// `containerd://2.1.9`
    pub runtime: Text,
    /// Pods of the scope that exist.
    pub pods: usize,
    /// Those of `pods` that are not well.
    pub unwell: usize,
}

/// Counts of a node's pods.
#[derive(Clone, Copy, Default)]
struct Pods {
    all: usize,
    unwell: usize,
}

/// Returns every node that the API or a pod names: those with something wrong first, then by name.
pub fn rows(snap: &Snapshot) -> Vec<NodeRow> {
    let world = &snap.world;
    let mut pods: FxHashMap<&str, Pods> = FxHashMap::default();
    let there = world.pods().iter().filter(|p| p.gone.is_none() && !p.past);
    for p in there.filter(|p| !p.node.is_empty()) {
        let of = pods.entry(p.node.as_str()).or_default();
        of.all += 1;
        let well = snap.verdicts.get(&p.uid).is_none_or(|v| v.state.is_well());
        of.unwell += usize::from(!well);
    }
    // A node's first verdict is its worst: the reverse order lets it win.
    let of_nodes = snap.owner_verdicts.iter().rev().filter_map(|v| {
        let owner = v.owner.as_ref().filter(|o| o.kind == "Node")?;
        (!v.state.is_well()).then_some((owner.name.as_str(), v))
    });
    let of_nodes: FxHashMap<&str, &Arc<Verdict>> = of_nodes.collect();
    let verdict = |name: &str| of_nodes.get(name).map(|v| Arc::clone(v));
    let mut rows = Vec::new();
    for n in world.nodes() {
        if n.name.is_empty() {
            continue;
        }
        let Pods { all, unwell } = pods.remove(n.name.as_str()).unwrap_or_default();
        let missing = matches!(world.presence(&n.name), Presence::Missing { .. });
        // A node that was removed together with all its pods has no row.
        if missing && all == 0 {
            continue;
        }
        let api = n.api.as_deref();
        let ready = api.and_then(|a| a.condition("Ready"));
        let standing = match (missing, ready) {
            (true, _) => Standing::Missing,
            (_, None) => Standing::Unseen,
            (_, Some(c)) if c.is_true() => Standing::Ready,
            (_, Some(c)) if c.status == "Unknown" => Standing::Silent,
            (_, Some(_)) => Standing::NotReady,
        };
        rows.push(NodeRow {
            standing,
            cordoned: api.is_some_and(|a| a.unschedulable),
            verdict: verdict(&n.name),
            kubelet: api.map(|a| a.kubelet_version.clone()).unwrap_or_default(),
            runtime: api.map(|a| a.runtime_version.clone()).unwrap_or_default(),
            pods: all,
            unwell,
            name: n.name.clone(),
        });
    }
    rows.extend(pods.into_iter().map(|(name, Pods { all, unwell })| {
        let missing = matches!(world.presence(name), Presence::Missing { .. });
        NodeRow {
            name: name.into(),
            standing: if missing {
                Standing::Missing
            } else {
                Standing::Unseen
            },
            cordoned: false,
            verdict: verdict(name),
            kubelet: Text::default(),
            runtime: Text::default(),
            pods: all,
            unwell,
        }
    }));
    rows.sort_by(|a, b| {
        let key = |r: &NodeRow| (r.verdict.is_none(), r.standing, r.unwell == 0);
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    rows
}
