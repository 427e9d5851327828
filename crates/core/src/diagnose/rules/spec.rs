//! What the pod's spec and its node say of a volume, where a message does not: of which object it is made, and whose path it is.

use super::{Context, claims};
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::signal::Signal;
use crate::diagnose::text::list;
use kflow_model::{Text, pod::PodSeen};

/// Names the Secret or ConfigMap that a failure is about, which the kubelet calls by its kind only: what the volume is made of, or
/// the container's environment.
pub(super) fn source(x: &mut Finding<'_>, s: &Signal<'_>, f: &PodHistory<'_>) {
    let (Some(kind), Some(pod), None) = (x.names.get("kind"), f.api, x.names.get("name")) else {
        return;
    };
    // `configMap/x`, as the spec's references are kept.
    let of_kind = |reference: &str| {
        let (its, name) = reference.split_once('/')?;
        its.eq_ignore_ascii_case(kind).then(|| name.to_owned())
    };
    let mut found: Vec<String> = match x.names.get("volume") {
        Some(volume) => {
            let volume = pod.spec.volumes.iter().find(|v| v.name == volume);
            let Some(volume) = volume else { return };
            if volume.kind.eq_ignore_ascii_case(kind) {
                vec![volume.refers.to_string()]
            } else {
                volume.refers.split(',').filter_map(of_kind).collect()
            }
        }
        None => {
            let container = pod.container(&s.container);
            let references = container.into_iter().flat_map(|c| &c.env_refs);
            references.filter_map(|r| of_kind(r)).collect()
        }
    };
    found.dedup();
    match found.as_slice() {
        [] => {}
        [one] => x.names.set("name", one),
        many => x.names.set("several", &list(many)),
    }
}

/// Names the pod's claim whose PersistentVolume a message names.
pub(super) fn claim(cx: Context<'_>, x: &mut Finding<'_>, f: &PodHistory<'_>) {
    let bound = x.names.get("volume").zip(f.api);
    let claim = bound.and_then(|(volume, pod)| bound_to(cx, pod, volume));
    if let Some(claim) = claim {
        x.names.set("of_claim", &claim);
    }
}

/// Returns the claim of a pod that is bound to a volume.
pub(super) fn bound_to(cx: Context<'_>, pod: &PodSeen, volume: &str) -> Option<Text> {
    let is_its = |name: &Text| {
        let claim = claims::claim(cx, &pod.namespace, name);
        let api = claim.and_then(|c| c.api.as_deref());
        api.is_some_and(|c| c.fact("volumeName") == Some(volume))
    };
    claims::claims_of(pod).into_iter().find(is_its)
}

/// Names the node's runtime where the pod wants the socket of another one.
pub(super) fn other_runtime(cx: Context<'_>, x: &mut Finding<'_>, f: &PodHistory<'_>) {
    /// What the sockets of runtimes are called, and these in `nodeInfo.containerRuntimeVersion`.
    const SOCKETS: [(&str, &str); 3] = [
        ("docker.sock", "docker"),
        ("containerd.sock", "containerd"),
        ("crio.sock", "cri-o"),
    ];
    let node = cx.world.node(&f.view.node).and_then(|n| n.api.as_deref());
    let (Some(path), Some(node)) = (x.names.get("path"), node) else {
        return;
    };
    let wanted = SOCKETS.iter().find(|(file, _)| path.ends_with(file));
    let runtime = node.runtime_version.split_once("://").map(|(name, _)| name);
    if let Some(runtime) = runtime.filter(|r| wanted.is_some_and(|(_, name)| name != r)) {
        let runtime = runtime.to_owned();
        x.names.set("runtime", &runtime);
    }
}
