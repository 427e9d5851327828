//! What the sources of a node cannot tell about a pod while no source reads the API.

use super::{Asked, Reason, Unknown};
use crate::correlate::PodView;
use crate::diagnose::history::{ContainerHistory, PodHistory};
use crate::diagnose::limits;
use crate::diagnose::rules::{Health, health};
use crate::diagnose::text::span;

/// The advice for a run that asks no apiserver.
pub(super) const ASK: &str = "let an apiserver be asked (without --no-api)";

/// For a pod that has been in one stage for long and that only its node's sources show: they do not tell whether it
/// waits, and for what.
pub(super) fn unheard(
    asked: Asked<'_>,
    pod: &PodView,
    what: impl Fn() -> String,
) -> Option<Unknown> {
    let waits = asked
        .at
        .since(pod.current.map_or(pod.zero(), |(_, since)| since));
    if waits < limits::SANDBOX_BLIND.ns
        || crate::diagnose::why(asked.world, pod, asked.at).is_some()
    {
        return None;
    }
    let beyond = match pod.current {
        Some((stage, _)) => format!(" beyond {stage}"),
        None => String::new(),
    };
    let why = format!(
        "no source of the API shows it, and those of the node have shown nothing of it{beyond} for {}",
        span(waits)
    );
    Some(without_api(asked, what(), why))
}

/// For a pod that looks well, without any source of the API. Only the API and the kubelet's lines about probes tell
/// whether it is ready, and only the API tells whether a pod that is gone from the node was deleted or has failed.
pub(super) fn unready(
    asked: Asked<'_>,
    pod: &PodView,
    what: impl Fn() -> String,
) -> Option<Unknown> {
    let f = PodHistory::gather(pod, asked.at);
    let mains = || f.containers.iter().filter(|c| !f.is_initial(&c.name));
    let ended = |c: &ContainerHistory<'_>| c.exits.last().is_some_and(|e| e.code == Some(0));
    let ready = |c: &ContainerHistory<'_>| matches!(c.ready_said, Some((_, true)));
    let runs = mains().any(ContainerHistory::runs);
    let over = pod.gone.is_some() || f.creation_forgotten();
    // To the tap the end of an init container looks like the end of the pod. When the pod has ended, the kubelet stops
    // the sandbox (SyncTerminatingPod, kubelet.go: killPod).
    let complete = runs || f.sandbox_stopped.is_some();
    let all = mains().all(if runs { ready } else { ended });
    let seen = complete && mains().next().is_some() && all;
    if over || seen || health(&f) != Health::Well {
        return None;
    }
    let open = if runs {
        "that it is ready"
    } else {
        "whether it was deleted or has failed"
    };
    let why = format!(
        "no source of the API shows it, and those of the node show nothing wrong, but not {open}"
    );
    Some(without_api(asked, what(), why))
}

fn without_api(asked: Asked<'_>, what: String, why: String) -> Unknown {
    let help = if asked.recorded.is_some() {
        "record with an apiserver to ask"
    } else {
        ASK
    };
    Unknown {
        what,
        reason: Reason::NotAsked,
        why,
        help: help.to_owned(),
    }
}
