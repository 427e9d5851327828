//! Extended resources (`nvidia.com/gpu`), which a device plugin registers with the kubelet of each node.

use crate::correlate::World;
use crate::diagnose::text::list;
use kflow_model::pod::{Condition, PodSeen};

/// Returns why no node offers an extended resource, by the status of nodes and pods: `; node1 knows it and has none
/// that is healthy; gpu/nvidia-device-plugin-x7k2p is not ready`.
pub(super) fn unoffered(world: &World, resource: &str) -> Option<String> {
    if !is_extended(resource) {
        return None;
    }
    // A resource whose plugin is gone, or that has no healthy device, stays in the node's status with 0 (Kubernetes 1.36
    // pkg/kubelet/cm/devicemanager/manager.go, GetCapacity; pkg/kubelet/nodestatus/setters.go, MachineInfo).
    let known: Vec<String> = world
        .nodes()
        .iter()
        .filter(|n| {
            let listed = |api: &kflow_model::node::NodeSeen| {
                api.allocatable.iter().any(|(k, _)| k == resource)
            };
            n.api.as_deref().is_some_and(listed)
        })
        .map(|n| n.name.to_string())
        .collect();
    let mut text = match known.as_slice() {
        [] => "; no device plugin has registered it with a kubelet".to_owned(),
        [one] => format!(
            "; {one} knows it and has none that is healthy: its device plugin has stopped, or its devices are ill"
        ),
        many => format!(
            "; {} know it and have none that is healthy: their device plugins have stopped, or the devices are ill",
            list(many)
        ),
    };
    let ready = |api: &PodSeen| api.condition("Ready").is_some_and(Condition::is_true);
    let ill: Vec<String> = world
        .every_pod()
        .iter()
        .filter(|p| p.gone.is_none() && !p.phase.is_over() && offers(&p.name, resource))
        .filter(|p| p.api.as_deref().is_some_and(|api| !ready(api)))
        .map(|p| p.key())
        .collect();
    match ill.as_slice() {
        [] => {}
        [one] => text.push_str(&format!("; {one} is not ready")),
        many => text.push_str(&format!("; {} are not ready", list(many))),
    }
    Some(text)
}

/// Pods without which a resource is not offered, and that are not called device plugins: lines of the resource's domain and the begin of
/// the pod's name.
const PODS: &str = include_str!("devices.tsv");

/// True for the name of a pod that offers the resource, or that such a pod waits for.
fn offers(pod: &str, resource: &str) -> bool {
    let domain = resource.split('/').next().unwrap_or_default();
    let mut named = PODS.lines().filter_map(|line| line.split_once('\t'));
    pod.contains("device-plugin") || named.any(|(of, begin)| of == domain && pod.starts_with(begin))
}

/// True for a resource of a domain that is not Kubernetes' own (pkg/apis/core/v1/helper/helpers.go,
/// `IsExtendedResourceName`).
fn is_extended(resource: &str) -> bool {
    resource.contains('/')
        && !resource.contains("kubernetes.io/")
        && !resource.starts_with("requests.")
        && !resource.starts_with("hugepages-")
}
