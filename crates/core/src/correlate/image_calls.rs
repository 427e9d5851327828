//! Whose a call about an image is, by its place between the calls of pods.
//!
//! The kubelet's worker of a pod makes one call at a time. To start a container it asks for the image (`ImageStatus`, with
//! the pod's annotations), pulls it if it has to (`PullImage`), asks again for the image's user and in later versions its
//! size (`ImageStatus`, which names no pod), and creates the container (`pkg/kubelet/kuberuntime/kuberuntime_container.go`,
//! startContainer; `pkg/kubelet/images/image_manager.go`, EnsureImageExists). A call without a pod therefore lies between
//! two calls of its pod. It is given to a pod only where no other can have made it.

use rustc_hash::FxHashMap;

use super::world::Slot;
use kflow_model::Nanos;
use kflow_model::cri::{CallKey, method};
use kflow_model::stamp::SECOND;

/// Longest time between two calls of a pod in which a call is looked for: the kubelet's longest back-off of a container that
/// ends is 5 min (`pkg/kubelet/kubelet.go`, MaxContainerBackOff).
pub(crate) const WINDOW_NS: i64 = 360 * SECOND;

/// Longest time from a named call to the one that follows it, where no container is created afterwards; measured: at most
/// 0.43 s (S20-kubelet-1.35, on a busy node).
const NEXT_NS: i64 = 10 * SECOND;

/// Kind of a call that the order is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sandbox,
    Look,
    Pull,
    Create,
}

impl Kind {
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            method::RUN_POD_SANDBOX => Self::Sandbox,
            method::IMAGE_STATUS => Self::Look,
            method::PULL_IMAGE => Self::Pull,
            method::CREATE_CONTAINER => Self::Create,
            _ => return None,
        })
    }
}

/// A call, as far as the order needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered<'a> {
    pub(crate) key: CallKey,
    pub(crate) start: Nanos,
    /// `None` while it is in flight.
    pub(crate) end: Option<Nanos>,
    /// True when nothing follows it in this sync: an error, or a look that found no image.
    pub(crate) in_vain: bool,
    pub(crate) kind: Kind,
    pub(crate) pod: Option<Slot>,
    /// True when the request itself leads to its pod.
    pub(crate) names_pod: bool,
    pub(crate) image: &'a str,
    /// The image's id in the answer of a look; empty without one. Kubelet 1.27 creates a container of the id.
    pub(crate) id: &'a str,
}

impl Ordered<'_> {
    /// True for a call at which the worker of a known pod certainly was.
    fn is_bound(&self) -> bool {
        self.pod.is_some() && (self.names_pod || self.kind != Kind::Look)
    }
    fn is_bare(&self) -> bool {
        !self.names_pod && matches!(self.kind, Kind::Look | Kind::Pull) && !self.image.is_empty()
    }
    fn same_image(&self, other: &Self) -> bool {
        let by_id = |a: &Self, b: &Self| !a.id.is_empty() && a.id == b.image;
        self.image == other.image || by_id(self, other) || by_id(other, self)
    }
    /// True when the pod of this call goes on with its image: another look, or the container.
    fn leads_to(&self, next: &Self) -> bool {
        matches!(self.kind, Kind::Look | Kind::Pull) && !self.in_vain && self.same_image(next)
    }
}

/// The time between two successive calls of a pod, in which its worker may have made calls that name no pod.
#[derive(Clone, Copy)]
struct Between<'s, 'a> {
    pod: Slot,
    /// The call before `after`.
    earlier: Option<&'s Ordered<'a>>,
    after: Option<&'s Ordered<'a>>,
    before: Option<&'s Ordered<'a>>,
    from: Nanos,
    to: Nanos,
}

impl<'s, 'a> Between<'s, 'a> {
    /// `None` when `after` has not ended.
    fn of(
        pod: Slot,
        [earlier, after]: [Option<&'s Ordered<'a>>; 2],
        before: Option<&'s Ordered<'a>>,
    ) -> Option<Self> {
        let begun = before.map(|b| b.start);
        let earliest = begun.map(|at| at.plus(-WINDOW_NS));
        let ended = after.map_or(earliest, |a| a.end)?;
        let latest = ended.plus(WINDOW_NS);
        Some(Self {
            pod,
            earlier,
            after,
            before,
            from: earliest.map_or(ended, |at| at.max(ended)),
            to: begun.map_or(latest, |at| at.min(latest)),
        })
    }
    /// True when both calls are known, and near enough.
    fn is_closed(&self) -> bool {
        let from = self.after.and_then(|a| a.end);
        self.before.map(|b| b.start) == Some(self.to) && from == Some(self.from)
    }
    fn holds(&self, x: &Ordered<'_>) -> bool {
        x.start >= self.from && x.start < self.to && x.end.is_none_or(|end| end <= self.to)
    }
    /// The call before, if it is about the image of `x` and on its connection.
    fn opening(&self, x: &Ordered<'_>) -> Option<&'s Ordered<'a>> {
        self.after
            .filter(|a| a.leads_to(x) && a.key.conn == x.key.conn)
    }
    /// True when the call before is known to follow a look that names the pod, so that every first look does.
    fn begins_with_a_look(&self) -> bool {
        let is_look = |s: &Ordered<'_>| s.kind == Kind::Look;
        self.after.is_some_and(|a| {
            is_look(a)
                || a.kind == Kind::Pull
                    && (self.earlier).is_some_and(|e| is_look(e) && e.same_image(a))
        })
    }
}

/// Which pods can have made a call.
#[derive(Clone, Copy, Default)]
enum Makers {
    #[default]
    Nobody,
    One(Slot),
    Several,
}

/// The pods of the calls that name none, in the order of `calls`; `None` for every other call, and where it is not certain.
/// `calls` are sorted by start, and nothing is concluded across `losses`.
pub(crate) fn pods_by_order(calls: &[Ordered<'_>], losses: &[(Nanos, Nanos)]) -> Vec<Option<Slot>> {
    let mut found: Vec<Option<Slot>> = vec![None; calls.len()];
    let bare: Vec<(usize, &Ordered<'_>)> = (calls.iter().enumerate())
        .filter(|(_, s)| s.is_bare())
        .collect();
    let all = between(calls);
    let whole =
        |from: Nanos, to: Nanos| !(losses.iter()).any(|(since, at)| *since <= to && *at >= from);
    created(&all, &bare, &whole, &mut found);
    alone(&all, &bare, &whole, &mut found);
    found
}

fn between<'s, 'a>(calls: &'s [Ordered<'a>]) -> Vec<Between<'s, 'a>> {
    let mut last: FxHashMap<Slot, [Option<&Ordered<'_>>; 2]> = FxHashMap::default();
    let mut all = Vec::new();
    for step in calls.iter().filter(|s| s.is_bound()) {
        let Some(pod) = step.pod else { continue };
        let before = last.entry(pod).or_default();
        all.extend(Between::of(pod, *before, Some(step)));
        *before = [before[1], Some(step)];
    }
    let mut open: Vec<_> = last.into_iter().collect();
    open.sort_unstable_by_key(|(pod, _)| *pod);
    all.extend((open.into_iter()).filter_map(|(pod, before)| Between::of(pod, before, None)));
    all
}

/// The calls without a pod that lie in an interval.
fn within<'b, 's, 'a>(
    bare: &'b [(usize, &'s Ordered<'a>)],
    of: &'b Between<'_, '_>,
) -> impl Iterator<Item = (usize, &'s Ordered<'a>)> + 'b {
    let first = bare.partition_point(|(_, x)| x.start < of.from);
    (bare.iter().skip(first).copied())
        .take_while(|(_, x)| x.start < of.to)
        .filter(|(_, x)| of.holds(x))
}

/// Before it creates a container, a worker has asked at least once more after a look that names the pod, or after the pull,
/// and at least twice without. If there are just as many looks, they are the pod's, whatever other pods do.
fn created(
    all: &[Between<'_, '_>],
    bare: &[(usize, &Ordered<'_>)],
    whole: &impl Fn(Nanos, Nanos) -> bool,
    found: &mut [Option<Slot>],
) {
    let created: Vec<_> = (all.iter())
        .filter_map(|b| Some((b, b.before.filter(|n| n.kind == Kind::Create)?)))
        .filter(|(b, _)| b.is_closed() && whole(b.from, b.to))
        .collect();
    loop {
        let mut more = false;
        for (b, create) in &created {
            let opening = b.after.filter(|a| a.leads_to(create));
            let least = if opening.is_some() { 1 } else { 2 };
            let mine: Vec<_> = within(bare, b)
                .filter(|(_, x)| x.kind == Kind::Look && x.same_image(create))
                .filter(|(_, x)| opening.is_none_or(|a| a.key.conn == x.key.conn))
                .filter(|(i, x)| {
                    let known = x.pod.or(found.get(*i).copied().flatten());
                    known.is_none_or(|pod| pod == b.pod)
                })
                .collect();
            let one_client = mine.is_sorted_by(|(_, a), (_, b)| a.key.conn == b.key.conn);
            if mine.len() != least || !one_client {
                continue;
            }
            for (i, x) in mine {
                if let Some(to) = found.get_mut(i)
                    && x.pod.is_none()
                    && to.is_none()
                {
                    *to = Some(b.pod);
                    more = true;
                }
            }
        }
        if !more {
            return;
        }
    }
}

/// A call that only one pod can have made.
fn alone(
    all: &[Between<'_, '_>],
    bare: &[(usize, &Ordered<'_>)],
    whole: &impl Fn(Nanos, Nanos) -> bool,
    found: &mut [Option<Slot>],
) {
    let mut makers = vec![Makers::Nobody; found.len()];
    for b in all {
        for (i, x) in within(bare, b) {
            let maker = match b.opening(x) {
                Some(a) => {
                    let next = a.end.is_some_and(|end| x.start.since(end) <= NEXT_NS);
                    if next && b.begins_with_a_look() && whole(b.from, x.start) {
                        Makers::One(b.pod)
                    } else {
                        Makers::Several
                    }
                }
                // The look before it may have come before the tap.
                None if b.before.is_some_and(|n| {
                    matches!(n.kind, Kind::Create | Kind::Pull) && n.same_image(x)
                }) =>
                {
                    Makers::Several
                }
                None => continue,
            };
            if let Some(known) = makers.get_mut(i) {
                *known = match known {
                    Makers::Nobody => maker,
                    Makers::One(_) | Makers::Several => Makers::Several,
                };
            }
        }
    }
    for (i, x) in bare {
        if let Some(Makers::One(pod)) = makers.get(*i)
            && let Some(to) = found.get_mut(*i)
            && x.pod.is_none()
            && to.is_none()
        {
            *to = Some(*pod);
        }
    }
}

#[cfg(test)]
mod tests;
