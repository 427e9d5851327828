//! Claims of pods that are not bound: who has to make their volumes, and what of it the scheduler waits for.

mod deleted;
mod own;
mod place;
mod storage;

use deleted::users_in_words;
pub(in crate::diagnose) use deleted::{deleted, stays};
pub(in crate::diagnose) use own::{alone, claim as own, claims};
pub(super) use place::{Nodes, explain};
pub use storage::Storage;

use super::{Context, heard, schedule::SILENT_NS};
use crate::correlate::{ObjectState, World};
use crate::diagnose::cause;
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::limits;
use crate::diagnose::signal::{self, Signal};
use crate::diagnose::text::{Names, list, times};
use crate::diagnose::{Catalogue, Confidence};
use kflow_model::kind::CLAIM;
use kflow_model::{
    Body, Text,
    object::ObjectSeen,
    pod::{PodSeen, WatchEvent},
};
use rustc_hash::FxHashMap;

/// Returns the names of the claims that a pod's volumes refer to.
pub(in crate::diagnose) fn claims_of(pod: &PodSeen) -> Vec<Text> {
    let volumes = pod.spec.volumes.iter();
    volumes.filter_map(|v| v.claim(&pod.name)).collect()
}

/// Claims that wait for a pod to be scheduled, by the pod's namespace and name, as the claims' Events say it.
#[derive(Clone, Debug, Default)]
pub struct ClaimWaits(FxHashMap<(Text, Text), Vec<Text>>);

impl ClaimWaits {
    pub(in crate::diagnose) fn of(world: &World) -> Self {
        let mut all = Self::default();
        let claims = world.objects().into_iter();
        for o in claims.filter(|o| o.object.kind == CLAIM) {
            for e in &o.evidence {
                let Body::Event(e) = &e.body else { continue };
                let Some(pod) = signal::awaited_by_claim(&e.message) else {
                    continue;
                };
                let key = (o.object.namespace.clone(), Text::from(pod));
                let its = all.0.entry(key).or_default();
                if !its.contains(&o.object.name) {
                    its.push(o.object.name.clone());
                }
            }
        }
        all
    }
    fn get(&self, namespace: &Text, pod: &Text) -> &[Text] {
        let its = self.0.get(&(namespace.clone(), pod.clone()));
        its.map_or(&[], Vec::as_slice)
    }
}

/// Returns a claim that kflow has read, or of which there are Events.
pub(super) fn claim<'w>(cx: Context<'w>, namespace: &str, name: &str) -> Option<&'w ObjectState> {
    cx.world.object(CLAIM, namespace, name)
}

/// Returns the volume that a claim is bound to.
fn volume_of<'w>(cx: Context<'w>, namespace: &str, name: &str) -> Option<&'w ObjectState> {
    let volume = claim(cx, namespace, name)?
        .api
        .as_ref()?
        .fact("volumeName")?;
    cx.world.object("PersistentVolume", "", volume)
}

/// Returns the storage class of a claim.
fn class_of<'w>(cx: Context<'w>, namespace: &str, name: &str) -> Option<&'w ObjectSeen> {
    let class = claim(cx, namespace, name)?.api.as_ref()?;
    let class = class.fact("storageClass")?;
    cx.world.object("StorageClass", "", class)?.api.as_deref()
}

/// Returns the names of a pod's claims, as far as is known: those of its volumes, and, of a pod whose spec is not known
/// because kubectl printed only a row of it, those that are said to wait for it.
fn claims_told(cx: Context<'_>, f: &PodHistory<'_>, pod: &PodSeen) -> Vec<Text> {
    if !pod.spec.containers.is_empty() {
        return claims_of(pod);
    }
    let waits = cx.shared.claims(cx.world).get(&pod.namespace, &pod.name);
    let mut all = waits.to_vec();
    let said = f.signals.iter().filter(|s| s.reason == "FailedScheduling");
    let quoted = said.flat_map(|s| s.text.split('"').skip(1).step_by(2));
    all.extend(
        quoted.filter_map(|name| Some(claim(cx, &pod.namespace, name)?.object.name.clone())),
    );
    all.sort_unstable();
    all.dedup();
    all
}

/// True when the scheduler missed a claim (its names are `claim`, and `absent`) that has come since: what it said of it
/// is over.
pub(super) fn exists_by_now(
    cx: Context<'_>,
    f: &PodHistory<'_>,
    s: &Signal<'_>,
    names: &Names,
) -> bool {
    let (Some(name), Some(_)) = (names.get("claim"), names.get("absent")) else {
        return false;
    };
    let is_there = |o: &ObjectState| match &o.api {
        Some(api) => api.event != WatchEvent::Deleted,
        None => o
            .evidence
            .iter()
            .any(|e| matches!(e.body, Body::Event(_)) && e.stamp.at > s.at),
    };
    claim(cx, &f.view.namespace, name).is_some_and(is_there)
}

/// Returns the claims of a pod of which no scheduler has said anything, if one that has chosen a node may wait for them
/// without a word: those that are not known to be bound (`pkg/scheduler/framework/plugins/volumebinding/binder.go`,
/// `BindPodVolumes`). It does not get as far with a claim that binds at once.
pub(super) fn may_be_waited_for(
    cx: Context<'_>,
    f: &PodHistory<'_>,
    pod: &PodSeen,
) -> Option<Vec<Text>> {
    let at_once = |name: &Text| {
        let mode = class_of(cx, &f.view.namespace, name)?.fact("volumeBindingMode")?;
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
    let mut known: Vec<Handle<'_>> = Vec::new();
    for name in claims_of(pod) {
        let volume = volume_of(cx, &f.view.namespace, &name);
        let Some(handle) = volume.and_then(Handle::of) else {
            continue;
        };
        if let Some(other) = known.iter().find(|h| h.is_same(&handle)) {
            let both = [other.volume, handle.volume];
            x.names.set("same", &list(&both.map(|v| &v.object.name)));
            x.names.set("handle", handle.handle);
            let newest = both.iter().filter_map(|v| v.evidence.last());
            x.proofs.extend(newest.map(crate::diagnose::finding::proof));
            return;
        }
        known.push(handle);
    }
}

/// What a driver knows a PersistentVolume by.
struct Handle<'w> {
    driver: &'w str,
    handle: &'w str,
    volume: &'w ObjectState,
}

impl<'w> Handle<'w> {
    fn of(volume: &'w ObjectState) -> Option<Self> {
        let api = volume.api.as_ref()?;
        Some(Self {
            driver: api.fact("driver")?,
            handle: api.fact("volumeHandle")?,
            volume,
        })
    }
    /// True for another volume with the same handle.
    fn is_same(&self, other: &Self) -> bool {
        self.driver == other.driver
            && self.handle == other.handle
            && self.volume.object.name != other.volume.object.name
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
fn is_bound(cx: Context<'_>, namespace: &str, name: &str) -> Option<bool> {
    let object = claim(cx, namespace, name)?;
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
    let of_class = |name: &Text| class_of(cx, &f.view.namespace, name)?.fact("provisioner");
    let provisioner = waiting.iter().find_map(of_class);
    x.names.remove("late");
    match provisioner {
        Some(p) => made_by(cx, p, x),
        None if over => x.names.set("late", "is there by now"),
        None => x.names.set("late", "was not there in time"),
    }
    // The Event counts, and the condition has the same text.
    let same = f.signals.iter().filter(|o| o.text == s.text);
    let count = same.map(Signal::times).max().unwrap_or(s.times());
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
    claims.retain(|name| {
        let object = claim(cx, &f.view.namespace, name);
        let Some(object) = object.filter(|_| is_bound(cx, &f.view.namespace, name) != Some(true))
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
    // What was said of a claim that is not there was said of an earlier one.
    let absent = |name: &Text| {
        let missed = found.iter().filter(|x| x.names.get("absent").is_some());
        let mut missed = missed.filter_map(|x| x.names.get("claim"));
        missed.any(|claim| name == claim)
    };
    for name in claims_told(cx, f, pod) {
        if let Some(object) = claim(cx, &f.view.namespace, &name)
            && is_bound(cx, &f.view.namespace, &name) != Some(true)
            && !absent(&name)
        {
            said_of(cx, f, object, &mut told);
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
    // That the scheduler waits for a claim is nothing beside the reason why that has no volume.
    let of_claim = |x: &Finding<'_>| x.names.get("claim").map(str::to_owned);
    let explained: Vec<Option<String>> = told
        .iter()
        .filter(|x| x.cause.id == cause::KF214)
        .map(of_claim)
        .collect();
    found.retain(|x| {
        let is_one = x.cause.id == cause::KF213 && x.names.get("claims").is_none();
        !is_one || !explained.contains(&of_claim(x))
    });
    // A node was chosen for the pod when its volume was asked for, so the node that an autoscaler brought is there.
    let asked = told.iter().filter(|x| x.cause.id == cause::KF214);
    let asked = asked.flat_map(|x| &x.proofs).map(|p| p.at).max();
    let brought = |x: &Finding<'_>| x.proofs.iter().all(|p| Some(p.at) < asked);
    found.retain(|x| x.cause.id != cause::KF230 || !brought(x));
    found.extend(told);
}

/// Adds findings from the newest Events of a claim, one for each reason.
fn said_of<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    object: &ObjectState,
    told: &mut Vec<Finding<'a>>,
) {
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
            // A class that was missing then, and is there by now.
            let class = names.get("class").filter(|_| cause.id == cause::KF214);
            let class = class.and_then(|class| cx.world.object("StorageClass", "", class));
            if class.and_then(crate::diagnose::standing::there).is_some() {
                continue;
            }
            let mut x = Finding::of(cause, f).proof(o);
            x.names = names;
            x.names.set("claim", &object.object.name);
            match x.names.get("provisioner").map(Text::from) {
                Some(p) => made_by(cx, &p, &mut x),
                None if cause.id == cause::KF214 => {
                    x.names.set("what", e.message.trim_end_matches(['.', ' ']));
                }
                None => {}
            }
            let storage = cx.shared.storage(cx.world);
            let api = object.api.as_deref();
            let class = api.and_then(|c| c.fact("storageClass"));
            let near = match cause.id {
                cause::KF213 => api.and_then(|c| storage.nearly_fits(c)),
                // A class that is only a name, which volumes made by hand have.
                cause::KF214 if x.names.get("class").is_some() => {
                    if let Some(class) = class.filter(|c| storage.has_volumes(c)) {
                        x.names.set("label", class);
                    }
                    let of_class = api.and_then(|c| storage.of_its_class(c, |_| None));
                    of_class.or_else(|| storage.classes())
                }
                cause::KF214 => {
                    let by_hand = api.filter(|c| storage.by_hand(c).is_some());
                    if let Some(class) = class.filter(|_| by_hand.is_some()) {
                        x.names.set("by_hand", class);
                    }
                    by_hand.and_then(|c| storage.of_its_class(c, |_| None))
                }
                _ => None,
            };
            if let Some(near) = near {
                x.names.set("near", &near);
            }
            told.push(x);
        }
    }
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
