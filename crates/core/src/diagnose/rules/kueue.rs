//! Pods that Kueue holds: its scheduling gates, and what it says of the Workload that stands for the pod.

use super::Context;
use crate::diagnose::Confidence;
use crate::diagnose::cause;
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use kflow_model::{Body, Evidence, Text, event::EventSeen, pod::PodSeen};

/// Prefix of Kueue's scheduling gates: `kueue.x-k8s.io/admission` (kubernetes-sigs/kueue
/// `pkg/controller/jobs/pod/constants/constants.go`, `SchedulingGateName`), `kueue.x-k8s.io/topology`
/// (`apis/kueue/v1beta2/topology_types.go`, `TopologySchedulingGate`).
const GATES: &str = "kueue.x-k8s.io/";
/// Label with the LocalQueue that the pod waits in (`pkg/controller/constants/constants.go`, `QueueLabel`).
const QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Label with the group that the pod is in; the group's Workload has the same name
/// (`pkg/controller/jobs/pod/constants/constants.go`, `GroupNameLabel`).
const GROUP: &str = "kueue.x-k8s.io/pod-group-name";
/// Begin of Kueue's Event message on the object that a Workload was created for
/// (`pkg/controller/jobframework/reconciler.go`).
const CREATED: &str = "Created Workload: ";

pub(super) fn rules<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let Some(pod) = f.api else { return };
    let gates = &pod.spec.scheduling_gates;
    let held = gates.iter().filter(|g| g.starts_with(GATES)).count();
    if held == 0 {
        return;
    }
    let mut x = Finding::new(cause::KF231, f).proof_if(f.api_evidence);
    if held == gates.len() {
        found.retain(|k| k.cause.id != cause::KF220);
    } else {
        // Other gates hold the pod as well. They come first, because Kueue does not remove them.
        x.rank = 79;
        for k in found.iter_mut().filter(|k| k.cause.id == cause::KF220) {
            k.alone = false;
        }
    }
    if let Some(queue) = label(pod, QUEUE) {
        x.names.set("queue", queue);
    }
    let workload = workload(cx, f, pod);
    let said = workload.as_ref().and_then(|w| newest(cx, f, w));
    match (&workload, said) {
        (Some(w), Some((o, e))) => {
            x.names.set("workload", w);
            x.names.set("what", e.message.trim_end_matches(['.', ' ']));
            x = x.proof(o);
        }
        (Some(w), None) => {
            x.names.set("workload", w);
            x.names.set("unheard", "no Event of the Workload was seen");
        }
        (None, _) => {
            x.names.set("unheard", "no Workload of it was heard of");
            x = x.at_most(Confidence::Likely);
        }
    }
    found.push(x);
}

fn label<'p>(pod: &'p PodSeen, key: &str) -> Option<&'p str> {
    let found = pod.labels.iter().find(|(k, _)| k == key)?;
    Some(found.1.as_str()).filter(|v| !v.is_empty())
}

/// Returns the name of the Workload that stands for the pod: the one in Kueue's Event on the pod or one of its owners,
/// that of the pod's group, or the one that is named after the pod (`pkg/controller/jobframework/workload_names.go`:
/// kind, name and a hash).
fn workload(cx: Context<'_>, f: &PodHistory<'_>, pod: &PodSeen) -> Option<Text> {
    let told = |o: &Evidence| match &o.body {
        Body::Event(e) => {
            let key = e.message.strip_prefix(CREATED)?;
            Some(Text::from(key.rsplit('/').next()?.trim()))
        }
        _ => None,
    };
    if let Some(name) = f.view.evidence.iter().rev().find_map(&told) {
        return Some(name);
    }
    for owner in &f.view.owners {
        let state = cx.world.object(&owner.kind, &owner.namespace, &owner.name);
        if let Some(name) = state.and_then(|s| s.evidence.iter().rev().find_map(&told)) {
            return Some(name);
        }
    }
    if let Some(group) = label(pod, GROUP) {
        return Some(group.into());
    }
    let prefix = format!("pod-{}-", pod.name);
    let named = |o: &&crate::correlate::ObjectState| {
        let o = &o.object;
        let hash = o.name.strip_prefix(prefix.as_str());
        o.kind == "Workload"
            && o.namespace == f.view.namespace
            && hash.is_some_and(|h| !h.is_empty() && !h.contains('-'))
    };
    let object = cx.world.objects().into_iter().find(named)?;
    Some(object.object.name.clone())
}

/// Returns the newest Event on a Workload.
fn newest<'a>(
    cx: Context<'a>,
    f: &PodHistory<'_>,
    workload: &str,
) -> Option<(&'a Evidence, &'a EventSeen)> {
    let object = cx.world.object("Workload", &f.view.namespace, workload)?;
    let events = object.evidence.iter().filter_map(|o| match &o.body {
        Body::Event(e) => Some((o, e.as_ref())),
        _ => None,
    });
    events.max_by_key(|(o, _)| o.stamp.at)
}
