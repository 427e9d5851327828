//! How long a pod took to start, by the kubelet's own definition (`pod_startup_latency_tracker.go`, 1.36).
//!
//! The total runs from `creationTimestamp` (whole seconds) to the time at which a watch shows every regular container
//! running. The SLI excludes what a cluster cannot promise: image pulls (from the first request to the end, with the
//! wait in the queue, overlapping pulls counted once) and the run time of init containers.
//!
//! The kubelet checks for that time only after its status manager has recorded the status that it sent. When the
//! watch is faster than this record, the kubelet finds the pod running only at the next change of *any* pod of the
//! node, which may be a minute later. This was so for two in five starts of the recordings, each found at the first
//! change after the record. The kubelet then logs the time of that change, which says nothing about the pod.
//! [`start`] uses the first watch event with running containers. [`PodStart::logged`] has the kubelet's own result,
//! with the times of its record and of its next check.
//!
//! Mirror pods are excluded: they are created when the static pod already runs, so their "start" would only measure
//! the mirror's creation.

use super::PodView;
use super::kubelet::ObservedStart;
use crate::flow::Stage;
use crate::timeline::Span;
use kflow_model::cri::method;
use kflow_model::pod::{ContainerState, PodSeen, WatchEvent};
use kflow_model::{Body, Nanos};

/// A pod's start. All durations are in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStart {
    /// `creationTimestamp`, in whole seconds.
    pub created: Nanos,
    /// When a watch first showed every regular container running.
    pub observed: Nanos,
    /// From `created` to `observed`: too long by up to a second, as `created` is truncated to a second.
    pub total_ns: i64,
    /// Time of image pulls, with the wait in the queue; overlaps count once.
    pub pulling_ns: i64,
    /// Run time of init containers without sidecars.
    pub init_ns: i64,
    /// `total_ns` minus `pulling_ns` and `init_ns`.
    pub sli_ns: i64,
    /// The kubelet's log line about this start (`Observed pod startup duration`), if it was seen.
    pub logged: Option<ObservedStart>,
}

/// Returns a pod's start; `None` while it has not started, when no watch saw it start, and for static pods.
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
        // A pod whose containers had run when it was first seen started unobserved.
        if !waited && p.ran_before() {
            return None;
        }
        if runs(p) {
            observed = Some(e.stamp.seen);
            break;
        }
        waited = true;
    }
    // A pod that was running when it was first seen started unobserved.
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

/// True when every regular container runs, like the kubelet's `hasPodStartedSLO`.
fn runs(p: &PodSeen) -> bool {
    !p.status.containers.is_empty()
        && p.status
            .containers
            .iter()
            .all(|c| matches!(c.state, ContainerState::Running { .. }))
}

/// Length of the union of the spans, each cut at `end`, ns.
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
