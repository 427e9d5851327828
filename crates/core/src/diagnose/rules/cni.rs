//! The network agent of a node, which its CNI plugin calls for every sandbox.

use super::Context;
use crate::correlate::PodView;
use crate::diagnose::cause;
use crate::diagnose::finding::{Finding, proof};
use crate::diagnose::history::PodHistory;
use crate::diagnose::signal;
use kflow_model::pod::{Condition, ContainerState, PodSeen};

/// Sets names for the network whose agent failed, and for the health of the agent's pod on the node.
pub(super) fn agent<'a>(cx: Context<'_>, x: &mut Finding<'a>, text: &str, f: &PodHistory<'a>) {
    if x.cause.id != cause::KF518 {
        return;
    }
    let Some(agent) = signal::network_agent(text) else {
        return;
    };
    x.names.set("network", &agent.network);
    let node = &f.view.node;
    let mut of_node = cx.shared.on_node(cx.world, node).iter().filter(|p| {
        let daemon = p.owners.first().is_some_and(|o| o.kind == "DaemonSet");
        daemon && p.name.starts_with(&agent.pods)
    });
    // Of several pods with such a name, the one that is not ready.
    let first = of_node.next();
    let pod = of_node.fold(first, |best, p| match best {
        Some(b) if is_ready(b) && !is_ready(p) => Some(p),
        _ => best,
    });
    let Some(pod) = pod else { return };
    x.names
        .set("agent", &format!("its pod {} {}", pod.key(), how(pod)));
    x.proofs.extend(pod.evidence.last().map(proof));
}

fn is_ready(p: &PodView) -> bool {
    let ready = |api: &PodSeen| api.condition("Ready").is_some_and(Condition::is_true);
    p.api.as_deref().is_some_and(ready)
}

fn how(p: &PodView) -> String {
    if is_ready(p) {
        return "is ready".to_owned();
    }
    let waits = p.api.as_deref().and_then(|api| {
        api.statuses().find_map(|s| match &s.state {
            ContainerState::Waiting { reason, .. } if !reason.is_empty() => Some(reason.clone()),
            _ => None,
        })
    });
    match waits {
        Some(reason) => format!("is unready: {reason}"),
        None => "is unready".to_owned(),
    }
}
