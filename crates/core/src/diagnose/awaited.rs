//! What a pod waited for that is not its own: a call or a pod that had to end first.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::target;
use crate::correlate::{Call, Pod, PodView, World};
use crate::flow::Stage;
use crate::timeline::critical::{self, Blocker, Critical, Piece, Reached};
use kflow_model::cri::{CallKey, method};
use kflow_model::stamp::SECOND;
use kflow_model::units::duration;
use kflow_model::{Nanos, PodUid, Text};

/// What had to end first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A call for another pod, or of the kubelet's loops for none.
    Call(Arc<Call>),
    /// Another pod, and what it has or does.
    Pod {
        uid: PodUid,
        /// `ns/name`.
        key: String,
        /// `which has the claim data on node2`
        which: String,
        /// Since when.
        since: Nanos,
        /// When it had gone; `None` while it has not.
        until: Option<Nanos>,
    },
}

impl Awaited {
    /// The pod to go to, where it is known.
    pub fn pod(&self) -> Option<&PodUid> {
        let uid = match self {
            Self::Call(c) => &c.pod_uid,
            Self::Pod { uid, .. } => uid,
        };
        (!uid.is_empty()).then_some(uid)
    }
    pub fn call(&self) -> Option<CallKey> {
        match self {
            Self::Call(c) => Some(c.key),
            Self::Pod { .. } => None,
        }
    }
    /// From when until when.
    pub fn interval(&self, now: Nanos) -> (Nanos, Nanos) {
        match self {
            Self::Call(c) => (c.start, c.end.unwrap_or(now)),
            Self::Pod { since, until, .. } => (*since, until.unwrap_or(now)),
        }
    }
    /// `s24a/slow PullImage 34.9s`, `shop/db-0, which has the claim data on node2, for 12.0s`
    pub fn words(&self, now: Nanos) -> String {
        let (from, to) = self.interval(now);
        let took = duration(to.since(from).max(0));
        match self {
            Self::Call(c) if c.pod.is_empty() && c.image.is_empty() => {
                format!("{} {took}", c.method)
            }
            Self::Call(c) if c.pod.is_empty() => format!("{} of {} {took}", c.method, c.image),
            Self::Call(c) => format!("{}/{} {} {took}", c.namespace, c.pod, c.method),
            Self::Pod { key, which, .. } => format!("{key}, {which}, for {took}"),
        }
    }
}

/// What a piece of a pod's start waited for, what lasted longest in it first.
pub fn of(world: &World, pod: &PodView, piece: &Piece, now: Nanos) -> Vec<Awaited> {
    let stage = piece
        .span
        .and_then(|i| Some(pod.timeline.spans.get(i as usize)?.stage));
    let mut all = match (piece.blocker, stage) {
        (Blocker::Queue, _) => pulls(world, pod, piece, now),
        (_, Some(Stage::Volumes)) => holders(world, pod, piece, now),
        (_, Some(Stage::Schedule)) => victims(world, pod, piece, now),
        (_, Some(Stage::Admit)) => {
            let mut all = namesakes(world, pod, piece, now);
            all.extend(loops(world, piece, now));
            all
        }
        (_, None | Some(Stage::Cgroup | Stage::Sandbox)) => namesakes(world, pod, piece, now),
        _ => Vec::new(),
    };
    let within = |a: &Awaited| {
        let (from, to) = a.interval(now);
        to.min(piece.end).since(from.max(piece.start))
    };
    all.retain(|a| within(a) > 0);
    all.sort_by_key(|a| std::cmp::Reverse(within(a)));
    all
}

/// `waits for s24a/slow PullImage 34.9s and 2 more`; `None` for no wait.
pub fn sentence(all: &[Awaited], now: Nanos) -> Option<String> {
    let first = all.first()?.words(now);
    Some(match all.len() {
        1 => format!("waits for {first}"),
        n => format!("waits for {first} and {} more", n - 1),
    })
}

/// What a pod waits for now, or else the longest of its waits that others were the reason of.
pub fn by(world: &World, pod: &PodView, now: Nanos) -> Vec<Awaited> {
    let Some(Critical {
        mut pieces,
        reached,
    }) = critical::path(pod, now)
    else {
        return Vec::new();
    };
    let last = pieces
        .last()
        .filter(|_| reached == Reached::NotYet)
        .copied();
    pieces.sort_by_key(|p| (Some(*p) != last, std::cmp::Reverse(p.ns())));
    let mut waits = pieces.iter().map(|p| of(world, pod, p, now));
    waits.find(|w| !w.is_empty()).unwrap_or_default()
}

/// Pulls of other pods on the node.
fn pulls(world: &World, pod: &PodView, piece: &Piece, now: Nanos) -> Vec<Awaited> {
    let here = |c: &Call| {
        let other = world.pod(&c.pod_uid);
        other.is_none_or(|p| p.node.is_empty() || pod.node.is_empty() || p.node == pod.node)
    };
    overlapping(world, (piece.start, piece.end), now)
        .filter(|c| c.method == method::PULL_IMAGE && c.pod_uid != pod.uid && here(c))
        .map(|c| Awaited::Call(Arc::clone(c)))
        .collect()
}

/// The kubelet's own calls that went on for most of a piece: while the runtime does not answer them, it hands pods to no
/// worker (syncLoop, kubelet.go: "skipping pod synchronization").
fn loops(world: &World, piece: &Piece, now: Nanos) -> Vec<Awaited> {
    let most = |c: &&Arc<Call>| {
        let end = c.end.unwrap_or(now).min(piece.end);
        let within = end.since(c.start.max(piece.start));
        within > SECOND && within.saturating_mul(2) >= piece.ns()
    };
    overlapping(world, (piece.start, piece.end), now)
        .filter(|c| c.is_noise())
        .filter(most)
        .map(|c| Awaited::Call(Arc::clone(c)))
        .collect()
}

fn overlapping(
    world: &World,
    (from, to): (Nanos, Nanos),
    now: Nanos,
) -> impl Iterator<Item = &Arc<Call>> {
    world
        .calls()
        .iter()
        .take_while(move |c| c.start < to)
        .filter(move |c| c.end.unwrap_or(now) > from)
}

/// Other pods that have a claim of this pod on another node.
fn holders(world: &World, pod: &PodView, piece: &Piece, now: Nanos) -> Vec<Awaited> {
    let Some(api) = pod.api.as_ref().filter(|_| !pod.node.is_empty()) else {
        return Vec::new();
    };
    let claims: Vec<Text> = api
        .spec
        .volumes
        .iter()
        .filter_map(|v| v.claim(&pod.name))
        .collect();
    let elsewhere = |p: &&Pod| {
        p.namespace == pod.namespace && !p.node.is_empty() && p.node != pod.node && p.uid != pod.uid
    };
    living(world, piece, now)
        .filter(elsewhere)
        .filter_map(|p| {
            let claim = claims.iter().find(|c| target::mounts(p, c))?;
            let which = format!("which has the claim {claim} on {}", p.node);
            Some(other(p, which, p.created))
        })
        .collect()
}

/// Pods that are removed from the node that the scheduler has nominated for this one.
fn victims(world: &World, pod: &PodView, piece: &Piece, now: Nanos) -> Vec<Awaited> {
    let nominated = pod.evidence.iter().find_map(|e| match &e.body {
        kflow_model::Body::Pod(p) if !p.status.nominated_node.is_empty() => {
            Some(p.status.nominated_node.clone())
        }
        _ => None,
    });
    let Some(node) = nominated else {
        return Vec::new();
    };
    living(world, piece, now)
        .filter(|p| p.node == node && p.uid != pod.uid)
        .filter_map(|p| {
            let since = p.deletion_requested?;
            Some(other(
                p,
                format!("which is removed from {node} for it"),
                since,
            ))
        })
        .collect()
}

/// Pods of its name from before it: the kubelet starts none before the one before has ended.
fn namesakes(world: &World, pod: &PodView, piece: &Piece, now: Nanos) -> Vec<Awaited> {
    living(world, piece, now)
        .filter(|p| {
            p.namespace == pod.namespace
                && p.name == pod.name
                && p.uid != pod.uid
                && !pod.mirrors.contains(&p.uid)
                && p.created < pod.created
        })
        .filter_map(|p| {
            let since = p.deletion_requested?;
            Some(other(
                p,
                "the pod of that name before it, which ends".to_owned(),
                since,
            ))
        })
        .collect()
}

/// Pods that were there in a piece.
fn living<'w>(world: &'w World, piece: &Piece, now: Nanos) -> impl Iterator<Item = &'w Pod> {
    let (from, to) = (piece.start, piece.end.min(now));
    world
        .every_pod()
        .iter()
        .filter(move |p| p.created < to && p.gone.is_none_or(|g| g > from))
}

fn other(p: &PodView, which: String, since: Nanos) -> Awaited {
    Awaited::Pod {
        uid: p.uid.clone(),
        key: p.key(),
        which,
        since,
        until: p.gone,
    }
}

/// How many other calls that do something were in flight during a call, by method: the most first.
pub fn beside(world: &World, call: &Call, now: Nanos) -> Vec<(Text, usize)> {
    let mut by_method: BTreeMap<&Text, usize> = BTreeMap::new();
    let during = (call.start, call.end.unwrap_or(now));
    for c in overlapping(world, during, now) {
        if c.key != call.key && !kflow_model::cri::is_noise(&c.method) {
            *by_method.entry(&c.method).or_default() += 1;
        }
    }
    let mut all: Vec<(Text, usize)> = by_method.into_iter().map(|(m, n)| (m.clone(), n)).collect();
    all.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    all
}
