//! Warnings that no cause explains: a pod whose newest Event is one is not said to be on its way.

use super::{Asked, Reason, Unknown};
use crate::correlate::PodView;
use crate::diagnose::history::PodHistory;
use crate::diagnose::rules::{Health, health};
use crate::diagnose::text::shorten;
use crate::diagnose::{Catalogue, signal};
use kflow_model::Body;
use kflow_model::stamp::SECOND;

/// Longest message that is quoted, bytes.
const QUOTED: usize = 200;

/// Returns that the newest Event of a pod that is not well is a warning of no cause that kflow knows.
pub(super) fn warned(asked: Asked<'_>, pod: &PodView, what: String) -> Option<Unknown> {
    let events = pod.evidence.iter().filter_map(|o| match &o.body {
        Body::Event(e) => Some((o.stamp.at, e)),
        _ => None,
    });
    // Of several in one second the warning is the last.
    let (_, e) = events.max_by_key(|(at, e)| (at.0 / SECOND, e.warning))?;
    let (reason, text) = signal::of_event(&e.reason, &e.message).filter(|_| e.warning)?;
    let knows = Catalogue::get().best(&reason, &text, |_| true).is_some();
    let over = knows || pod.gone.is_some();
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
