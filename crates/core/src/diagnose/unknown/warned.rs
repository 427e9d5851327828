//! Warnings that no cause explains: a pod whose newest Event is one is not said to be on its way.

use super::{Asked, Reason, Unknown};
use crate::correlate::PodView;
use crate::diagnose::history::PodHistory;
use crate::diagnose::rules::{Health, health};
use crate::diagnose::text::shorten;
use crate::diagnose::{Catalogue, signal};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, event::EventSeen};

/// pkg/controller/volume/attachdetach/attach_detach_controller.go, NewAttachDetachController.
const ATTACHER: &str = "attachdetach-controller";

/// Longest message that is quoted, bytes.
const QUOTED: usize = 200;

/// Returns that the newest Event of a pod that is not well is a warning of no cause that kflow knows.
pub(super) fn warned(asked: Asked<'_>, pod: &PodView, what: String) -> Option<Unknown> {
    let events = pod.evidence.telling().filter_map(|o| match &o.body {
        Body::Event(e) => Some((o.stamp.at, e)),
        _ => None,
    });
    // Of several in one second the warning is the last.
    let (at, e) = events
        .filter(|(_, e)| brings_up(e, pod))
        .max_by_key(|(at, e)| (at.0 / SECOND, e.warning))?;
    let (reason, text) = signal::of_event(&e.reason, &e.message).filter(|_| e.warning)?;
    let moved = (pod.api.as_deref()).is_some_and(|p| p.last_change() >= at.plus(SECOND));
    let over = moved || pod.gone.is_some();
    let knows = || Catalogue::get().best(&reason, &text, |_| true).is_some();
    let over = over || knows();
    if over || health(&PodHistory::gather(pod, asked.at)) == Health::Well {
        return None;
    }
    Some(Unknown {
        what,
        reason: Reason::NoCause,
        why: format!(
            "its newest Event is a warning of no cause that kflow knows: {} \"{}\"",
            e.reason,
            shorten(&text, QUOTED)
        ),
        help: format!(
            "see what is beside it: kubectl describe pod -n {} {}",
            pod.namespace, pod.name
        ),
    })
}

/// True for an Event of a component that a pod needs to run, or of one that is not named, as in a table that kubectl
/// prints. What others warn of (policies, endpoints, vertical scaling) keeps no pod from running.
fn brings_up(e: &EventSeen, pod: &PodView) -> bool {
    let scheduler = pod.api.as_deref().map(|p| p.spec.scheduler.as_str());
    e.component.is_empty()
        || e.node_agent().is_some()
        || e.is_of_scheduler()
        || scheduler == Some(e.component.as_str())
        || e.component == ATTACHER
}
