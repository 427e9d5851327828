//! StatefulSets whose pods are made one after the other: each waits until those before it are ready.

use crate::correlate::{PodView, World};
use kflow_model::pod::WatchEvent;

/// Says which pods of its StatefulSet are not made while this one is not ready; `None` when none is missing. With the policy
/// `OrderedReady` the controller makes the next pod only when all before it are running and ready (Kubernetes 1.36
/// `pkg/controller/statefulset/stateful_set_control.go`, `processReplica`).
pub(super) fn waiting_for(world: &World, pod: &PodView) -> Option<String> {
    let owner = pod.owners.first().filter(|o| o.kind == "StatefulSet")?;
    let set = world.object(&owner.kind, &pod.namespace, &owner.name)?;
    let api = set
        .api
        .as_ref()
        .filter(|a| a.event != WatchEvent::Deleted)?;
    if api.fact("podManagementPolicy")? != "OrderedReady" {
        return None;
    }
    let count = |key: &str| api.fact(key).and_then(|n| n.parse::<u32>().ok());
    let missing = count("replicas")?.checked_sub(count("statusReplicas").unwrap_or(0))?;
    let others = match missing {
        0 => return None,
        1 => "The last pod".to_owned(),
        n => format!("The next {n} pods"),
    };
    let made = if missing == 1 { "is" } else { "are" };
    Some(format!(
        "{others} of StatefulSet {} {made} not made until this one is ready (podManagementPolicy OrderedReady).",
        owner.name
    ))
}
