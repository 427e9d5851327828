//! Claims of pods that are not bound: who has to make their volumes, and what of it the scheduler waits for.

use super::{Context, heard, schedule::SILENT_NS};
use crate::correlate::ObjectState;
use crate::diagnose::cause;
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::limits;
use crate::diagnose::signal::Signal;
use crate::diagnose::text::{list, times};
use crate::diagnose::{Catalogue, Confidence};
use kflow_model::{
    Body, Text,
    pod::{PodSeen, WatchEvent},
};

/// Returns the names of the claims that a pod's volumes refer to.
pub(super) fn claims_of(pod: &PodSeen) -> Vec<Text> {
    let volumes = pod.spec.volumes.iter();
    volumes.filter_map(|v| v.claim(&pod.name)).collect()
}

/// Returns the names of a pod's claims, as far as is known: those of its volumes, and, of a pod whose spec is not known
/// because kubectl printed only a row of it, those that are said to wait for it.
fn claims_told(cx: Context<'_>, f: &PodHistory<'_>, pod: &PodSeen) -> Vec<Text> {
    let known = claims_of(pod);
    if !pod.spec.containers.is_empty() {
        return known;
    }
    // pkg/controller/volume/persistentvolume/pv_controller.go, syncUnboundClaim: WaitForPodScheduled.
    let waits = format!("waiting for pod {} to be scheduled", pod.name);
    let is_its = |o: &&ObjectState| {
        let told = o.evidence.iter().any(|e| match &e.body {
            Body::Event(e) => e.message == waits.as_str(),
            _ => false,
        });
        let named = || {
            let quoted = format!("\"{}\"", o.object.name);
            let mut said = f.signals.iter().filter(|s| s.reason == "FailedScheduling");
            said.any(|s| s.text.contains(&quoted))
        };
        o.object.kind == "PersistentVolumeClaim"
            && o.object.namespace == pod.namespace
            && (told || named())
    };
    let mut objects = cx.world.objects();
    objects.retain(is_its);
    objects.into_iter().map(|o| o.object.name.clone()).collect()
}

/// True when the scheduler missed a claim that has come since: what it said of it is over.
pub(super) fn came(cx: Context<'_>, f: &PodHistory<'_>, s: &Signal<'_>, text: &str) -> bool {
    let claim = text.split_once("persistentvolumeclaim \"");
    let Some((claim, then)) = claim.and_then(|(_, t)| t.split_once('"')) else {
        return false;
    };
    let missed = text.contains("waiting for ephemeral volume controller to create")
        || then.starts_with(" not found");
    let object = cx
        .world
        .object("PersistentVolumeClaim", &f.view.namespace, claim);
    let is_there = |o: &ObjectState| match &o.api {
        Some(api) => api.event != WatchEvent::Deleted,
        None => o
            .evidence
            .iter()
            .any(|e| matches!(e.body, Body::Event(_)) && e.stamp.at > s.at),
    };
    missed && object.is_some_and(is_there)
}

/// Returns the claims of a pod of which no scheduler has said anything, if one that has chosen a node may wait for them
/// without a word: those that are not known to be bound (`pkg/scheduler/framework/plugins/volumebinding/binder.go`,
/// `BindPodVolumes`). It does not get as far with a claim that binds at once.
pub(super) fn may_be_waited_for(
    cx: Context<'_>,
    f: &PodHistory<'_>,
    pod: &PodSeen,
) -> Option<Vec<Text>> {
    let at_once = |claim: &Text| {
        let claim = cx
            .world
            .object("PersistentVolumeClaim", &f.view.namespace, claim)?;
        let class = claim.api.as_ref()?.fact("storageClass")?;
        let class = cx.world.object("StorageClass", "", class)?;
        let mode = class.api.as_ref()?.fact("volumeBindingMode")?;
        Some(mode == "Immediate")
    };
    let claims = waiting(cx, &f.view.namespace, &claims_told(cx, f, pod));
    let in_time = cx.now.since(pod.created) < limits::BIND_VOLUMES.ns;
    let any_at_once = claims.iter().any(|c| at_once(c) == Some(true));
    (in_time && !claims.is_empty() && !any_at_once).then_some(claims)
}

/// Says which PersistentVolumes of the pod the kubelet takes for one: it tells a driver's volumes apart by their handle
/// (`pkg/volume/csi/csi_plugin.go`, `GetVolumeName`).
pub(super) fn same_handle(cx: Context<'_>, f: &PodHistory<'_>, x: &mut Finding<'_>) {
    let Some(pod) = f.api else { return };
    let mut known: Vec<(&str, &str, &ObjectState)> = Vec::new();
    for claim in claims_of(pod) {
        let claim = cx
            .world
            .object("PersistentVolumeClaim", &f.view.namespace, &claim);
        let api = claim.and_then(|c| c.api.as_ref());
        let volume = api
            .and_then(|a| a.fact("volumeName"))
            .and_then(|name| cx.world.object("PersistentVolume", "", name));
        let facts = volume.and_then(|v| {
            let api = v.api.as_ref()?;
            Some((api.fact("driver")?, api.fact("volumeHandle")?, v))
        });
        let Some((driver, handle, volume)) = facts else {
            continue;
        };
        let same = |(d, h, v): &&(&str, &str, &ObjectState)| {
            *d == driver && *h == handle && v.object.name != volume.object.name
        };
        if let Some((_, _, other)) = known.iter().find(same) {
            let both = [&other.object.name, &volume.object.name];
            x.names.set("same", &list(&both));
            x.names.set("handle", handle);
            x.proofs.extend(
                [other, &volume]
                    .iter()
                    .filter_map(|o| o.evidence.last())
                    .map(crate::diagnose::finding::proof),
            );
            return;
        }
        known.push((driver, handle, volume));
    }
}

/// Names the claims that a finding is about; a command can take one of them.
pub(super) fn name(claims: &[Text], x: &mut Finding<'_>) {
    if claims.len() > 1 && x.names.get("claim").is_none() {
        x.names.set("claims", &list(claims));
    }
    if let Some(first) = claims.first() {
        x.names.set("claim", first);
    }
}

/// Returns whether a claim is bound; `None` when kflow has not read it.
fn is_bound(cx: Context<'_>, namespace: &str, claim: &str) -> Option<bool> {
    let object = cx.world.object("PersistentVolumeClaim", namespace, claim)?;
    Some(object.api.as_ref()?.fact("phase") == Some("Bound"))
}

/// Returns the claims of these that are not bound, as far as is known.
pub(super) fn waiting(cx: Context<'_>, namespace: &str, claims: &[Text]) -> Vec<Text> {
    let waits = |c: &&Text| is_bound(cx, namespace, c) != Some(true);
    claims.iter().filter(waits).cloned().collect()
}

/// Says which claim the scheduler waited for after it had chosen a node, and who has to make its volume.
pub(super) fn gave_up(cx: Context<'_>, f: &PodHistory<'_>, s: &Signal<'_>, x: &mut Finding<'_>) {
    let claims = f.api.map(claims_of).unwrap_or_default();
    let waiting = waiting(cx, &f.view.namespace, &claims);
    let over = waiting.is_empty() && !claims.is_empty();
    if x.names.get("late").is_none() {
        x.names
            .set("late", "could not be provisioned on the chosen node");
        return;
    }
    name(if over { &claims } else { &waiting }, x);
    let provisioner = waiting.iter().find_map(|claim| {
        let claim = cx
            .world
            .object("PersistentVolumeClaim", &f.view.namespace, claim)?;
        let class = claim.api.as_ref()?.fact("storageClass")?;
        let class = cx.world.object("StorageClass", "", class)?;
        class.api.as_ref()?.fact("provisioner")
    });
    x.names.remove("late");
    match provisioner {
        Some(p) => made_by(cx, p, x),
        None if over => x.names.set("late", "is there by now"),
        None => x.names.set("late", "was not there in time"),
    }
    // The Event counts, and the condition has the same text.
    let same = f.signals.iter().filter(|o| o.text == s.text);
    let count = same.map(|o| o.count).max().unwrap_or(s.count);
    let waited = "the scheduler had chosen a node, and gave up waiting for it";
    x.names
        .vary("waited", &format!("{waited} {}", times(count)), waited);
}

/// Returns the pod's claims that are not bound and for which the scheduler has chosen a node, and that node. The
/// scheduler looked at the pod before that, and waits for the volume before it binds the pod (Kubernetes 1.36
/// `pkg/scheduler/framework/plugins/volumebinding/binder.go`, `BindPodVolumes`).
pub(super) fn chosen(
    cx: Context<'_>,
    f: &PodHistory<'_>,
    pod: &PodSeen,
) -> (Vec<Text>, Option<Text>) {
    let mut selected = None;
    let mut claims = claims_of(pod);
    claims.retain(|claim| {
        let object = cx
            .world
            .object("PersistentVolumeClaim", &f.view.namespace, claim);
        let Some(object) = object.filter(|_| is_bound(cx, &f.view.namespace, claim) != Some(true))
        else {
            return false;
        };
        let node = object.api.as_ref().and_then(|a| a.fact("selectedNode"));
        if let Some(node) = node.filter(|n| !n.is_empty()) {
            selected.get_or_insert_with(|| Text::from(node));
            return true;
        }
        // A claim that binds with its first pod is given to its provisioner once a node is chosen.
        let events = object.evidence.iter().filter_map(|o| match &o.body {
            Body::Event(e) => Some((o.stamp.at, e.reason.as_str())),
            _ => None,
        });
        let newest = |wanted: &[&str]| {
            let of_it = events.clone().filter(|(_, r)| wanted.contains(r));
            of_it.map(|(at, _)| at).max()
        };
        let waited = newest(&["WaitForFirstConsumer", "WaitForPodScheduled"]);
        let asked = newest(&["Provisioning", "ExternalProvisioning", "ProvisioningFailed"]);
        waited.is_some_and(|waited| asked.is_some_and(|asked| asked >= waited))
    });
    (claims, selected)
}

/// Names the provisioner that has to make a volume, and when it was last heard.
fn made_by(cx: Context<'_>, provisioner: &str, x: &mut Finding<'_>) {
    x.names.set("provisioner", provisioner);
    if let Some(l) = heard::driver(cx, "", provisioner) {
        x.names.vary("heard", &heard::driver_in_words(cx, l), "");
        x.proofs.push(crate::diagnose::finding::proof(&l.evidence));
    }
}

/// Adds findings from the Events of the pod's claims that are not bound.
pub(super) fn rules<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let Some(pod) = f.api else { return };
    let mut told: Vec<Finding<'a>> = Vec::new();
    for claim in claims_told(cx, f, pod) {
        let Some(object) = cx
            .world
            .object("PersistentVolumeClaim", &f.view.namespace, &claim)
        else {
            continue;
        };
        if is_bound(cx, &f.view.namespace, &claim) == Some(true) {
            continue;
        }
        let mut seen: Vec<&str> = Vec::new();
        for o in object.evidence.iter().rev() {
            let Body::Event(e) = &o.body else { continue };
            if seen.contains(&e.reason.as_str()) {
                continue;
            }
            seen.push(&e.reason);
            if e.reason == "ProvisioningSucceeded" {
                break;
            }
            let reason = format!("@claim/{}", e.reason);
            let best = Catalogue::get().best(&reason, &e.message, |_| true);
            if let Some((cause, names)) = best {
                let mut x = Finding::of(cause, f).proof(o);
                x.names = names;
                x.names.set("claim", &claim);
                match x.names.get("provisioner").map(Text::from) {
                    Some(p) => made_by(cx, &p, &mut x),
                    None if cause.id == cause::KF214 => {
                        x.names.set("what", e.message.trim_end_matches(['.', ' ']));
                    }
                    None => {}
                }
                told.push(x);
            }
        }
    }
    // What the claims' own Events say is more than that the scheduler waits for them.
    if let Some(own) = told.iter_mut().find(|x| x.cause.id == cause::KF214) {
        for waits in found.extract_if(.., |x| x.cause.id == cause::KF214) {
            if let Some(waited) = waits.names.get("waited") {
                own.names.vary("waited", waited, "");
            }
            own.proofs.extend(waits.proofs);
        }
    }
    // A node was chosen for the pod when its volume was asked for, so the node that an autoscaler brought is there.
    let asked = told.iter().filter(|x| x.cause.id == cause::KF214);
    let asked = asked.flat_map(|x| &x.proofs).map(|p| p.at).max();
    let brought = |x: &Finding<'_>| x.proofs.iter().all(|p| Some(p.at) < asked);
    found.retain(|x| x.cause.id != cause::KF230 || !brought(x));
    found.extend(told);
}

/// True when the scheduler has found a node and is about to bind the pod, so that no pod has to make room: since 1.35
/// it sets `nominatedNodeName` whenever a Permit or PreBind plugin waits, for example for a volume. Adds a finding
/// when that takes long.
pub(super) fn binds<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    pod: &PodSeen,
    found: &mut Vec<Finding<'a>>,
) -> bool {
    let claims = claims_of(pod);
    let bound = |claim: &Text| is_bound(cx, &f.view.namespace, claim);
    let is = |known: Option<bool>| claims.iter().filter(move |c| bound(c) == known).cloned();
    let unbound: Vec<Text> = is(Some(false)).collect();
    // Whether a claim is bound is not known when kflow has not read it.
    let unread: Vec<Text> = is(None).collect();
    // What kubectl prints of a condition has no reason.
    let said = || f.signals.iter().any(|s| s.reason == "FailedScheduling");
    let refused = pod.condition("PodScheduled").is_some_and(|c| {
        c.status == "False" && (c.reason == "Unschedulable" || (c.reason.is_empty() && said()))
    });
    if refused && unbound.is_empty() && unread.is_empty() {
        return false;
    }
    if found.iter().any(|k| k.cause.id == cause::KF214) || f.now.since(f.view.zero()) < SILENT_NS {
        return true;
    }
    let mut x = Finding::new(cause::KF229, f)
        .name("chosen", &format!("node {}", pod.status.nominated_node))
        .proof_if(f.api_evidence);
    name(&unbound, &mut x);
    let x = if unread.is_empty() || !unbound.is_empty() {
        x
    } else {
        let what = match unread.as_slice() {
            [one] => format!("claim {one} was not read"),
            many => format!("claims {} were not read", list(many)),
        };
        x.name("unread", &what).at_most(Confidence::Possible)
    };
    found.push(x);
    true
}
