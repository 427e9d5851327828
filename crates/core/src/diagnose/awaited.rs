//! What a pod's start waited for outside of the pod: a CRI call, or another pod, that had to end first.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::target;
use crate::correlate::{Call, CallLog, Pod, PodView, World};
use crate::flow::Stage;
use crate::timeline::critical::{self, Blocker, Critical, Piece, Reached};
use kflow_model::cri::{CallKey, method};
use kflow_model::stamp::SECOND;
use kflow_model::units::duration;
use kflow_model::{Nanos, PodUid, Text};

/// The CRI call or the pod that had to end first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A CRI call for another pod, or a call of the kubelet's loops, which is for no pod.
    Call(Arc<Call>),
    /// Another pod that holds something which the pod needs.
    Pod {
        uid: PodUid,
        /// `ns/name`.
        key: String,
        /// How the other pod is in the way: `which has the claim data on node2`.
        which: String,
        /// Since when the other pod is in the way.
        since: Nanos,
        /// When the other pod was gone; `None` while it still exists.
        until: Option<Nanos>,
    },
}

impl Awaited {
    /// UID of the other pod; `None` when it is not known.
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
    /// The time during which it was in the way; it ends at `now` while it still is.
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

/// Finds what a pod's start waited for among other pods and their calls.
#[derive(Debug)]
pub struct Waits<'w> {
    world: &'w World,
    pod: &'w PodView,
    now: Nanos,
    /// Pods that may have been in the way. They are searched for once, because the search goes through all
    /// pods of the world.
    others: OnceCell<Others<'w>>,
}

/// Pods that may be in the way of the pod's start.
#[derive(Debug, Default)]
struct Others<'w> {
    /// Pods on another node that mount a claim which the pod mounts too, and that claim.
    holders: Vec<(&'w Pod, Text)>,
    /// Pods that are deleted from the node that the scheduler has nominated for the pod.
    victims: Vec<&'w Pod>,
    /// Older pods of the same namespace and name whose deletion was requested, for example
    /// a StatefulSet's previous pod.
    namesakes: Vec<&'w Pod>,
}

impl<'w> Waits<'w> {
    /// Prepares the search for a pod of this world, as of `now`.
    pub const fn of(world: &'w World, pod: &'w PodView, now: Nanos) -> Self {
        Self {
            world,
            pod,
            now,
            others: OnceCell::new(),
        }
    }

    /// Returns what the pod waits for now, or else what it waited for in the longest wait that others caused.
    pub fn longest(&self) -> Vec<Awaited> {
        let Some(Critical {
            mut pieces,
            reached,
        }) = critical::path(self.pod, self.now)
        else {
            return Vec::new();
        };
        let last = pieces
            .last()
            .filter(|_| reached == Reached::NotYet)
            .copied();
        pieces.sort_by_key(|p| (Some(*p) != last, std::cmp::Reverse(p.ns())));
        let mut waits = pieces.iter().map(|p| self.in_piece(p));
        waits.find(|w| !w.is_empty()).unwrap_or_default()
    }

    /// Returns what the pod waited for during a piece of its start; the one that lasted longest within
    /// the piece comes first.
    pub fn in_piece(&self, piece: &Piece) -> Vec<Awaited> {
        let stage = piece
            .span
            .and_then(|i| Some(self.pod.timeline.spans.get(i as usize)?.stage));
        let mut all = match (piece.blocker, stage) {
            (Blocker::Queue, _) => self.pulls(piece),
            (_, Some(Stage::Volumes)) => self.holders(),
            (_, Some(Stage::Schedule)) => self.victims(),
            (_, Some(Stage::Admit)) => {
                let mut all = self.namesakes();
                all.extend(self.loops(piece));
                all
            }
            (_, None | Some(Stage::Cgroup | Stage::Sandbox)) => self.namesakes(),
            _ => Vec::new(),
        };
        let within = |a: &Awaited| {
            let (from, to) = a.interval(self.now);
            to.min(piece.end).since(from.max(piece.start))
        };
        all.retain(|a| within(a) > 0);
        all.sort_by_key(|a| std::cmp::Reverse(within(a)));
        all
    }

    /// Pulls of other pods on the node.
    fn pulls(&self, piece: &Piece) -> Vec<Awaited> {
        let (world, pod) = (self.world, self.pod);
        let here = |c: &Call| {
            let other = world.pod(&c.pod_uid);
            other.is_none_or(|p| p.node.is_empty() || pod.node.is_empty() || p.node == pod.node)
        };
        world
            .calls()
            .overlapping((piece.start, piece.end), None)
            .filter(|c| c.method == method::PULL_IMAGE && c.pod_uid != pod.uid && here(c))
            .map(|c| Awaited::Call(Arc::clone(c)))
            .collect()
    }

    /// The kubelet's own calls that were in flight for most of a piece: while the runtime does not answer them, the
    /// kubelet hands no pod to a worker (syncLoop, kubelet.go: "skipping pod synchronization").
    fn loops(&self, piece: &Piece) -> Vec<Awaited> {
        let most = |c: &&Arc<Call>| {
            let end = c.end.unwrap_or(self.now).min(piece.end);
            let within = end.since(c.start.max(piece.start));
            within > SECOND && within.saturating_mul(2) >= piece.ns()
        };
        self.world
            .calls()
            .lasting((piece.start, piece.end), SECOND)
            .filter(|c| c.is_noise())
            .filter(most)
            .map(|c| Awaited::Call(Arc::clone(c)))
            .collect()
    }

    fn others(&self) -> &Others<'w> {
        self.others.get_or_init(|| {
            let nominated = self.nominated();
            let claims = self.claims();
            let mut others = Others::default();
            for p in self.world.every_pod() {
                let created = p.created < self.now && p.uid != self.pod.uid;
                if !created {
                    continue;
                }
                let near = p.namespace == self.pod.namespace;
                if near && !claims.is_empty() && !p.node.is_empty() && p.node != self.pod.node {
                    let claim = claims.iter().find(|c| target::mounts(p, c));
                    others.holders.extend(claim.map(|c| (p, c.clone())));
                }
                if p.deletion_requested.is_none() {
                    continue;
                }
                if near
                    && p.name == self.pod.name
                    && !self.pod.mirrors.contains(&p.uid)
                    && p.created < self.pod.created
                {
                    others.namesakes.push(p);
                }
                if nominated.is_some_and(|n| p.node == *n) {
                    others.victims.push(p);
                }
            }
            others
        })
    }

    /// The claims that the pod mounts; empty while the pod is not bound to a node.
    fn claims(&self) -> Vec<Text> {
        let api = self.pod.api.as_ref().filter(|_| !self.pod.node.is_empty());
        let volumes = api.into_iter().flat_map(|api| &api.spec.volumes);
        volumes.filter_map(|v| v.claim(&self.pod.name)).collect()
    }

    /// The node that the scheduler has nominated for the pod (`nominatedNodeName`).
    fn nominated(&self) -> Option<&'w Text> {
        self.pod.evidence.telling().find_map(|e| match &e.body {
            kflow_model::Body::Pod(p) if !p.status.nominated_node.is_empty() => {
                Some(&p.status.nominated_node)
            }
            _ => None,
        })
    }

    fn holders(&self) -> Vec<Awaited> {
        let which = |(p, claim): &(&Pod, Text)| {
            let which = format!("which has the claim {claim} on {}", p.node);
            other(p, which, p.created)
        };
        self.others().holders.iter().map(which).collect()
    }

    fn victims(&self) -> Vec<Awaited> {
        let which = |p: &&Pod| {
            let which = format!("which is removed from {} for it", p.node);
            Some(other(p, which, p.deletion_requested?))
        };
        self.others().victims.iter().filter_map(which).collect()
    }

    /// Earlier pods of the same name: the kubelet starts a pod only after the earlier one of its name has ended.
    fn namesakes(&self) -> Vec<Awaited> {
        let which = |p: &&Pod| {
            let which = "the pod of that name before it, which ends".to_owned();
            Some(other(p, which, p.deletion_requested?))
        };
        self.others().namesakes.iter().filter_map(which).collect()
    }
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

/// `waits for s24a/slow PullImage 34.9s and 2 more`; `None` when nothing was waited for.
pub fn sentence(all: &[Awaited], now: Nanos) -> Option<String> {
    let first = all.first()?.words(now);
    Some(match all.len() {
        1 => format!("waits for {first}"),
        n => format!("waits for {first} and {} more", n - 1),
    })
}

/// Counts, by method, the other calls that were in flight during a call, without the kubelet's polling. It counts in
/// portions, because a million others may have been in flight beside one call.
#[derive(Clone, Debug)]
pub struct Beside {
    of: CallKey,
    /// The end of the call that the count was made for; `None` while it was in flight.
    end: Option<Nanos>,
    /// The moment of the last count.
    now: Nanos,
    /// Start and key of the last call that was looked at; counting goes on after it.
    upto: Option<(Nanos, CallKey)>,
    by_method: BTreeMap<Text, usize>,
}

impl Beside {
    /// Starts a count for a call, with nothing counted yet.
    pub const fn of(call: &Call) -> Self {
        Self {
            of: call.key,
            end: call.end,
            now: Nanos(i64::MIN),
            upto: None,
            by_method: BTreeMap::new(),
        }
    }
    /// True when the count so far can be continued: it is for this call with the same end, and `now` is not before the
    /// last count.
    pub fn is_of(&self, call: &Call, now: Nanos) -> bool {
        (self.of, self.end) == (call.key, call.end) && now >= self.now
    }
    /// Looks at up to `at_most` more calls.
    pub fn go_on(&mut self, world: &World, call: &Call, now: Nanos, at_most: usize) {
        self.now = now;
        let during = (call.start, call.end.unwrap_or(now));
        let others = world.calls().overlapping(during, self.upto);
        for c in others.take(at_most) {
            self.upto = Some(CallLog::order(c));
            if c.key == call.key || kflow_model::cri::is_noise(&c.method) || world.is_own_call(c) {
                continue;
            }
            match self.by_method.get_mut(&c.method) {
                Some(n) => *n += 1,
                None => {
                    self.by_method.insert(c.method.clone(), 1);
                }
            }
        }
    }
    /// Number of calls by method, the largest first.
    pub fn counts(&self) -> Vec<(&Text, usize)> {
        let mut all: Vec<_> = self.by_method.iter().map(|(m, n)| (m, *n)).collect();
        all.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        all
    }
}
