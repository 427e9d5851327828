//! How long a pod took to start, by the kubelet's own definition (`pod_startup_latency_tracker.go`, 1.36).
//!
//! The total runs from `creationTimestamp` (whole seconds) to the moment at which a watch shows every regular container
//! running. The SLI leaves out what a cluster cannot promise: pulling images (from the first request to the end, waiting in
//! the queue included, overlapping pulls once) and the run time of init containers.
//!
//! The kubelet looks for that moment only once its status manager has noted the status that it sent. When the watch is
//! faster than the note, it finds the pod running only when *any* pod of the node changes next, which may be a minute
//! later: so it was for two in five starts of the recordings, each of them at the first change after the note. What it
//! logs then is the time of that change, which tells nothing of the pod. [`start`] takes the first sight, and
//! [`PodStart::logged`] has what the kubelet made of it, with the times of its note and of its next look.
//!
//! Mirror pods are left out: they are made when the static pod already runs, so their "start" says how long the mirror
//! took.

use super::PodView;
use super::kubelet::ObservedStart;
use crate::flow::Stage;
use crate::timeline::Span;
use kflow_model::cri::method;
use kflow_model::pod::{ContainerState, PodSeen, WatchEvent};
use kflow_model::{Body, Nanos};

/// A pod's start. All lengths in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStart {
    /// `creationTimestamp`: whole seconds.
    pub created: Nanos,
    /// When a watch first showed every regular container running.
    pub observed: Nanos,
    /// From creation to that: too long by up to a second, as the creation is known to the second.
    pub total_ns: i64,
    /// Pulling images, waiting included, overlaps once.
    pub pulling_ns: i64,
    /// Run time of init containers, sidecars apart.
    pub init_ns: i64,
    /// Total less the two.
    pub sli_ns: i64,
    /// What the kubelet logged of this start (`Observed pod startup duration`), if its log was seen.
    pub logged: Option<ObservedStart>,
}

/// A pod's start; `None` while it has not started, when its start was not watched, and for static pods.
pub fn start(pod: &PodView) -> Option<PodStart> {
    if !pod.mirrors.is_empty() {
        return None;
    }
    let mut waited = false;
    let mut created = None;
    let mut observed = None;
    for e in pod.evidence.iter() {
        let Body::Pod(p) = &e.body else { continue };
        if p.mirror_of.is_some() {
            return None;
        }
        if p.status.phase.is_over() || p.event == WatchEvent::Deleted {
            return None;
        }
        if p.created.0 != 0 {
            created = Some(p.created);
        }
        if runs(p) {
            observed = Some(e.stamp.seen);
            break;
        }
        waited = true;
    }
    // A pod that ran when it was first seen started before anybody looked.
    let (created, observed) = (created?, observed.filter(|_| waited)?);
    let total_ns = observed.since(created);
    let spans = || pod.timeline.spans.iter().filter(|s| s.start.at < observed);
    let asked = || spans().filter(|s| s.stage == Stage::Image && s.step == "EnsureImageExists");
    let pulling_ns = if asked().next().is_some() {
        union(asked(), observed)
    } else {
        union(spans().filter(|s| s.step == method::PULL_IMAGE), observed)
    };
    let init_ns = union(
        spans().filter(|s| {
            s.is_run()
                && pod
                    .containers
                    .iter()
                    .any(|c| c.init && !c.sidecar && c.name == s.container)
        }),
        observed,
    );
    Some(PodStart {
        created,
        observed,
        total_ns,
        pulling_ns,
        init_ns,
        sli_ns: total_ns - pulling_ns - init_ns,
        logged: pod.evidence.iter().find_map(|e| match &e.body {
            Body::Log(l) => ObservedStart::read(l, e.stamp.at),
            _ => None,
        }),
    })
}

/// Every regular container runs, as the kubelet's `hasPodStartedSLO` asks.
fn runs(p: &PodSeen) -> bool {
    !p.status.containers.is_empty()
        && p.status
            .containers
            .iter()
            .all(|c| matches!(c.state, ContainerState::Running { .. }))
}

/// Length of the union of spans, each at most until `end`.
fn union<'a>(spans: impl Iterator<Item = &'a Span>, end: Nanos) -> i64 {
    let mut all: Vec<(Nanos, Nanos)> = spans
        .map(|s| (s.start.at, s.end.map_or(end, |e| e.at).min(end)))
        .collect();
    all.sort_unstable();
    let mut total = 0;
    let mut until = Nanos(i64::MIN);
    for (from, to) in all {
        let from = from.max(until);
        if to > from {
            total += to.since(from);
            until = to;
        }
    }
    total
}
