//! Derives a pod's view from its evidence: a pure function.
//!
//! Evidence is sorted and without duplicates. The module of each stage looks for evidence of its steps and adds spans
//! to a [`Build`]. At the end the spans of whole stages are put around their steps, times that no evidence explains
//! become gaps, and the states of the stages are read from the timeline.

#![expect(
    clippy::many_single_char_names,
    reason = "everywhere in this room b is the build, f what was seen, o an observation, s a span, w a call, n a number"
)]

mod api;
mod build;
mod cri;
mod evidence;
mod gaps;
mod marks;
mod node;
mod ready;
mod runtime_calls;
mod span;
mod start;
mod state;
mod terminate;
mod volumes;
mod waits;

pub(crate) use build::Build;
pub(crate) use evidence::PodEvidence;

use std::sync::Arc;

use super::context::{Folded, ListWindow, PodContext};
use super::observed::Observed;
use super::status::print_pod;
use super::view::PodView;
use crate::flow::{Fact, Stage};
use crate::timeline::{Certainty, Edge, Outcome, Timeline, summary};
use kflow_model::{
    Body, Evidence, Nanos, PodUid, Source, Text,
    cri::{ContainerEventKind, RuntimeState},
    pod::{PodSeen, WatchEvent},
    stamp::SECOND,
};

/// What a view is derived from.
pub(crate) struct Input<'a> {
    pub(crate) uid: PodUid,
    pub(crate) mirrors: Vec<PodUid>,
    pub(crate) namespace: Text,
    pub(crate) name: Text,
    /// Since when, at the latest, a younger pod has the name.
    pub(crate) followed: Option<Nanos>,
    pub(crate) evidence: Arc<Observed>,
    /// States from lists of the runtime: sandbox or container id, state, and the earliest list that shows this state.
    pub(crate) listed: &'a [(Text, RuntimeState, Evidence)],
    pub(crate) context: &'a PodContext,
    /// Summary of the evidence that was dropped.
    pub(crate) folded: Folded,
}

/// Derives the view of a pod.
pub(crate) fn view(input: &Input<'_>) -> PodView {
    let lines = evidence::lines(&input.evidence);
    let logged = evidence::Logged::of(&lines, &input.evidence);
    let seen = PodEvidence::new(
        (&input.uid, &input.mirrors),
        &input.evidence,
        lines,
        &logged,
        input.listed,
        input.context.shift,
    );
    let api = seen.newest();
    let first = input
        .evidence
        .iter()
        .chain(input.listed.iter().map(|(_, _, o)| o))
        .map(|o| o.stamp.at)
        .min()
        .unwrap_or_default();
    let created = seen
        .states
        .iter()
        .filter(|(_, p)| p.created.0 != 0)
        .map(|(_, p)| p.created.plus(-input.context.shift))
        .min();
    let mut v = PodView {
        uid: input.uid.clone(),
        mirrors: input.mirrors.clone(),
        namespace: input.namespace.clone(),
        name: input.name.clone(),
        created: created.unwrap_or(first),
        changed: input.evidence.last().map_or(first, |o| o.stamp.at),
        ..PodView::default()
    };
    if let Some(p) = api {
        let printed = print_pod(p);
        v.status = printed.status;
        v.ready = printed.ready;
        v.restarts = printed.restarts;
        v.phase.clone_from(&p.status.phase);
        v.node.clone_from(&p.spec.node);
        v.api = Some(Arc::new(p.clone()));
    }
    v.create_requested = create_requested(&seen, created);
    v.deletion_requested = deletion_requested(&seen);
    v.gone = gone(input, &seen);
    v.past = v.api.is_none() && past(input);
    if v.node.is_empty() {
        v.node = seen
            .requests
            .iter()
            .find_map(|r| r.a.fact("node"))
            .or_else(|| {
                // Only the kubelet that runs the pod emits Events about it.
                seen.events
                    .iter()
                    .find(|(_, e)| e.component == "kubelet" && !e.host.is_empty())
                    .map(|(_, e)| e.host.as_str())
            })
            .unwrap_or_default()
            .into();
    }
    let mut build = Build::new(input, &seen, &v);
    api::api(&mut build);
    api::schedule(&mut build);
    node::admit(&mut build);
    node::cgroup(&mut build);
    volumes::derive(&mut build);
    cri::sandbox(&mut build);
    cri::image(&mut build);
    cri::create(&mut build);
    start::derive(&mut build);
    waits::derive(&mut build);
    ready::derive(&mut build);
    terminate::derive(&mut build);
    node::readmit(&mut build);
    marks::derive(&mut build);
    gaps::derive(&mut build);
    let (work, runs) = (
        std::mem::take(&mut build.work),
        std::mem::take(&mut build.runs),
    );
    let timeline = build.finish();
    let failed = seen.events_of(&["Unhealthy"]).next_back();
    v.probe_failed = failed.map(|(o, _)| o.stamp.at);
    let killed = seen.container_events.iter().rev();
    let mut killed = killed.filter(|(_, e)| e.kind == ContainerEventKind::Oom);
    v.oom_killed = killed.next().map(|(o, _)| o.stamp.at);
    state::containers(&mut v, &seen, &work);
    state::exits(&mut v, &runs);
    if v.api.is_none() {
        state::without_api(&mut v, &seen, &work, &runs);
    }
    state::stages(&mut v, &seen, &timeline);
    let first = seen.states.first();
    v.became_ready =
        became_ready(&timeline).filter(|_| !first.is_some_and(|(_, p)| p.ran_before()));
    v.pull_announced = seen.events_of(&["Pulling"]).next().is_some();
    for stage in Stage::ALL {
        if let (Some(span), Some(took)) = (timeline.stage(stage), v.took.get_mut(stage.index())) {
            *took = summary::work_ns(&timeline, span, v.changed);
        }
    }
    v.timeline = Arc::new(timeline).into();
    v.evidence = Arc::clone(&input.evidence).into();
    v
}

/// When the pod became Ready, as far as it was seen. The stage of a pod that completed without becoming Ready ends
/// too, with other certainty.
fn became_ready(t: &Timeline) -> Option<Edge> {
    t.steps()
        .filter(|s| s.stage == Stage::Ready && s.step == "SetPodStatus")
        .find(|s| s.outcome == Outcome::Ok && s.certainty == Certainty::Inferred)?
        .end
}

/// When the apiserver received the request that created the pod (1 µs). The apiserver sets `creationTimestamp` (1 s)
/// later, after the mutating webhooks have answered.
fn create_requested(f: &PodEvidence<'_>, created: Option<Nanos>) -> Option<Nanos> {
    let before = |at: Nanos| created.is_none_or(|c| at <= c.plus(SECOND));
    f.requests
        .iter()
        .filter(|r| r.a.verb == "create" && r.a.resource == "pods" && r.a.code < 300)
        .map(|r| r.received.at)
        .rfind(|at| before(*at))
}

/// When deletion was requested: `deletionTimestamp` minus the grace period (1 s), or the arrival of the request (1 µs).
fn deletion_requested(f: &PodEvidence<'_>) -> Option<Nanos> {
    let by_request = f
        .requests
        .iter()
        .find(|r| r.a.verb == "delete" && r.a.resource == "pods" && r.a.code < 300)
        .map(|r| r.received.at);
    let by_state = f
        .states
        .iter()
        .filter(|(_, p)| p.mirror_of.is_none())
        .find_map(|(_, p)| {
            let grace = p.deletion_grace_s.unwrap_or(0);
            Some(
                f.api_edge(p.deletion?, 1)
                    .at
                    .plus(grace.saturating_mul(-SECOND)),
            )
        });
    match (by_request, by_state) {
        // The request is more precise; of several requests the one counts that `deletionTimestamp` agrees with.
        (Some(r), Some(s)) if r.since(s).abs() <= 2 * SECOND => Some(r),
        (r, s) => s.or(r),
    }
}

/// When the object was gone from the API: a DELETED event, or the end of a complete list without it.
fn gone(input: &Input<'_>, f: &PodEvidence<'_>) -> Option<Nanos> {
    let absent = |after: Nanos, p: &PodSeen| {
        let mut windows = input.context.windows.iter();
        let missing = windows.find(|w| w.begin > after && w.shows(p) && !outdated(input, w))?;
        Some(missing.end)
    };
    match f.states.last() {
        Some((o, p)) if p.event == WatchEvent::Deleted => {
            // The deletion of a mirror pod ends the pod only when the kubelet stopped the pod itself. A pod that left
            // the kubelet's own list was stopped.
            let left = |(seen, p): &(&Evidence, &PodSeen)| {
                p.event == WatchEvent::Deleted
                    && seen.source != Source::Kube
                    && seen.stamp.at >= o.stamp.at
            };
            (p.mirror_of.is_none()
                || f.states.iter().any(left)
                || f.line(&[Fact::TerminatedBegan]).is_some())
            .then_some(o.stamp.at)
        }
        // A static pod exists without an API object.
        Some((o, _)) if o.source != Source::Kube => None,
        Some((o, p)) => absent(o.stamp.at, p),
        None => never_listed(input, f)
            .or_else(|| deleted_by_owner(input, f))
            .or_else(|| replaced(input)),
    }
}

/// When a pod that the API never showed was gone: other sources knew it before a complete list of pods began, and the
/// list does not contain it. It was deleted earlier, at an unknown time; the returned end of the list
/// is the upper bound.
///
/// `None` for a static pod, which exists without an API object: its mirror may be created later, or never.
fn never_listed(input: &Input<'_>, f: &PodEvidence<'_>) -> Option<Nanos> {
    if evidence::has_static_uid(&input.uid) {
        return None;
    }
    let known = input
        .evidence
        .iter()
        .map(|o| o.stamp.at)
        .chain(f.items.iter().map(|(o, i)| {
            // The runtime's list states when the sandbox or container was created.
            [i.created, i.started, i.finished]
                .into_iter()
                .filter(|t| t.0 > 0)
                .min()
                .map_or(o.stamp.at, |t| t.min(o.stamp.at))
        }))
        .min()?;
    let on_node = !f.items.is_empty()
        || input
            .evidence
            .iter()
            .any(|o| matches!(o.source, Source::Cri | Source::Fs | Source::Kubelet));
    let node = if on_node {
        input.context.local.as_str()
    } else {
        // A pod that a kubelet elsewhere reports is bound, so a list of pods without a node does not contain it.
        let host = input.evidence.iter().rev().find_map(|o| match &o.body {
            Body::Event(e) if e.component == "kubelet" => Some(e.host.as_str()),
            _ => None,
        });
        host.unwrap_or_default()
    };
    let window = input.context.windows.iter().find(|w| {
        let lacks = known < w.begin && w.covers(&input.namespace, node, &input.name);
        lacks && !outdated(input, w)
    })?;
    // A later successful request found the object: the list is wrong.
    let denied = f.requests.iter().any(|r| {
        r.a.verb != "delete" && (200..300).contains(&r.a.code) && r.received.at > window.end
    });
    (!denied).then_some(window.end)
}

/// An Event of a pod that comes later than this, ns, after its owner deleted it shows that the pod is still being stopped: a grace
/// period is seldom as long.
const STOPPED: i64 = 120 * SECOND;

/// When a pod was gone, at the latest, that its owner has deleted and of which only Events tell: with the last of them.
fn deleted_by_owner(input: &Input<'_>, f: &PodEvidence<'_>) -> Option<Nanos> {
    let (deletion, _) = f.events_of(&["SuccessfulDelete"]).next_back()?;
    if input.evidence.iter().any(|o| o.source.is_node()) {
        return None;
    }
    let last = input.evidence.iter().map(|o| o.stamp.at).max()?;
    (last.since(deletion.stamp.at) < STOPPED).then_some(last)
}

/// When a pod was gone, at the latest, of which only Events tell, and whose name a younger pod has.
fn replaced(input: &Input<'_>) -> Option<Nanos> {
    let by_events = |o: &Evidence| matches!(o.body, Body::Event(_));
    let followed = input.followed?;
    input.evidence.iter().all(by_events).then_some(followed)
}

/// True when the list is a table that kubectl printed, and the pod was seen after it. The table has the time of its file,
/// which may be too early.
fn outdated(input: &Input<'_>, list: &ListWindow) -> bool {
    let after = |w: &ListWindow| w.end > list.end && w.has_name(&input.namespace, &input.name);
    list.names.is_some()
        && (input.evidence.iter().any(|o| o.stamp.at > list.end)
            || input.context.windows.iter().any(after))
}

/// Begin of the first list of pods whose scope includes the pod.
pub(crate) fn first_list(input: &Input<'_>) -> Option<Nanos> {
    let windows = input.context.windows.iter();
    windows
        .filter(|w| w.covers(&input.namespace, "", &input.name))
        .map(|w| w.begin)
        .min()
}

/// True when only Events tell of the pod, and all of them are older than the first list of pods. That list would
/// contain the pod (a static pod by its mirror) if the pod still existed.
fn past(input: &Input<'_>) -> bool {
    first_list(input).is_some_and(|begin| {
        input.evidence.iter().all(|o| match &o.body {
            Body::Event(_) => o.stamp.at < begin,
            // cAdvisor reads the kernel's old messages when it starts, and reports OOM kills of long ago.
            Body::Log(l) => {
                l.location.starts_with("handler.go:") || l.location.starts_with("manager.go:")
            }
            _ => false,
        })
    })
}
