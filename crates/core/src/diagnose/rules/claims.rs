//! Claims of pods that are not bound: who has to make their volumes, and what of it the scheduler waits for.

use super::{Context, heard, schedule::SILENT_NS};
use crate::diagnose::cause;
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::signal::Signal;
use crate::diagnose::text::{list, times};
use crate::diagnose::{Catalogue, Confidence};
use kflow_model::{Body, Text, pod::PodSeen};

/// Returns the names of the claims that a pod's volumes refer to.
pub(super) fn claims_of(pod: &PodSeen) -> Vec<Text> {
    let volumes = pod.spec.volumes.iter();
    volumes.filter_map(|v| v.claim(&pod.name)).collect()
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
    for claim in claims_of(pod) {
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
