//! Time that nothing explains.

use super::Build;
use crate::flow::Stage;
use crate::model::{Nanos, Source};
use crate::timeline::Outcome;

/// Finds what no span covers: from the first span to readiness (or the newest span), and from deletion to its end.
pub(crate) fn derive(b: &mut Build<'_>) {
    // Time in which something is known to have gone on; an open span covers all that follows.
    let mut covered: Vec<(Nanos, Option<Nanos>, Stage)> = b
        .spans()
        .iter()
        .map(|s| (s.start.at, s.end.map(|e| e.at), s.stage))
        .collect();
    covered.sort();
    let Some((first, _, _)) = covered.first().copied() else {
        if !b.view.node.is_empty() || b.facts.states.is_empty() {
            return;
        }
        b.gap(Stage::Api, b.view.created, None, "nothing was recorded");
        return;
    };
    let mut until = first;
    let mut open = false;
    let mut found = Vec::new();
    let mut last = Stage::Api;
    let end_of_all = b.view.gone;
    for (start, end, stage) in covered {
        // What garbage collection does later leaves nothing unexplained.
        if end_of_all.is_some_and(|e| start > e) {
            break;
        }
        if !open && start > until {
            found.push((stage, until, start));
        }
        match end {
            Some(e) => until = until.max(e),
            None => open = true,
        }
        last = stage;
    }
    for (stage, start, end) in found {
        let why = why(b, start, end);
        b.gap(stage, start, Some(end), why);
    }
    // A pod that is neither well nor over, and nobody says what it waits for.
    let over = b.view.gone.is_some()
        || matches!(b.view.phase.as_str(), "Succeeded" | "Failed")
        || b.spans()
            .iter()
            .any(|s| s.outcome == Outcome::InFlight && s.end.is_none());
    if !over {
        let next = Stage::ALL
            .get(last.index() + 1)
            .copied()
            .unwrap_or(Stage::Terminate);
        let why = why(b, until, b.view.changed.max(until));
        b.gap(next, until, None, why);
    }
}

fn why(b: &Build<'_>, start: Nanos, end: Nanos) -> &'static str {
    let node = [Source::Cri, Source::Kubelet, Source::Fs];
    if b.input.blind.iter().any(|(s, e)| *s <= end && *e >= start) {
        "the tap was blind"
    } else if !node.into_iter().any(|s| b.input.has(s)) {
        "no node source"
    } else if !b.watches_node() {
        "no source on this pod's node"
    } else if !b.input.has(Source::Kubelet) {
        "no kubelet log"
    } else if !b.input.has(Source::Cri) {
        "no tap on the runtime"
    } else {
        "nothing was recorded"
    }
}
