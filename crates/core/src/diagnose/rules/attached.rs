//! Volumes that another node has. The attach controller says so of a claim that only one node may use (the Event
//! `Multi-Attach error`); when that Event is gone or was not read, the VolumeAttachments show it.

use super::Context;
use super::claims::claim;
use super::spec::bound_to;
use crate::correlate::{ObjectState, World};
use crate::diagnose::Confidence;
use crate::diagnose::cause;
use crate::diagnose::finding::{Finding, proof};
use crate::diagnose::history::PodHistory;
use crate::diagnose::text::list;
use kflow_model::{
    Body, Evidence, Nanos, Text,
    pod::{PodSeen, VolumeSpec, WatchEvent},
};
use rustc_hash::FxHashMap;

/// The nodes to which PersistentVolumes are attached, by the volume's name.
#[derive(Clone, Debug, Default)]
pub struct Attachments(FxHashMap<Text, Vec<Attachment>>);

#[derive(Clone, Debug)]
struct Attachment {
    node: Text,
    /// Neither asked for only, nor in the making.
    is_made: bool,
    /// It is to be undone; with the error when that fails.
    undone: Option<Text>,
    evidence: Option<Evidence>,
}

impl Attachments {
    pub(in crate::diagnose) fn of(world: &World) -> Self {
        let mut all = Self::default();
        let attachments = world.objects().into_iter();
        let listed = listed(world);
        // A list after which a watch goes on tells of no deletion before it: what it lacks is gone.
        let is_left = |o: &&ObjectState| listed.is_none_or(|begin| seen(o) >= Some(begin));
        for o in attachments
            .filter(|o| o.object.kind == "VolumeAttachment")
            .filter(is_left)
        {
            let api = o.api.as_ref().filter(|a| a.event != WatchEvent::Deleted);
            let facts = api.and_then(|a| Some((a.fact("volumeName")?, a.fact("node")?)));
            let (Some(api), Some((volume, node))) = (api, facts) else {
                continue;
            };
            all.0.entry(volume.into()).or_default().push(Attachment {
                node: node.into(),
                is_made: api.fact("attached") == Some("true"),
                undone: (api.deletion).map(|_| api.fact("detachError").unwrap_or_default().into()),
                evidence: o.evidence.last().cloned(),
            });
        }
        all
    }
}

/// Returns when the newest complete list of VolumeAttachments began.
fn listed(world: &World) -> Option<Nanos> {
    let lists = world.coverage().watches();
    lists
        .filter(|(resource, ..)| *resource == "volumeattachments")
        .filter_map(|(_, _, w)| Some(w.list()?.begin))
        .max()
}

/// Returns when the newest state of an object arrived.
fn seen(o: &ObjectState) -> Option<Nanos> {
    let states = o.evidence.iter().rev();
    let mut states = states.filter(|e| matches!(e.body, Body::Object(_)));
    states.next().map(|e| e.stamp.seen)
}

/// Puts the volume that another node has in the place of a finding that only says that the pod waits for its volumes.
pub(super) fn elsewhere<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut [Finding<'a>]) {
    let waits = |x: &&mut Finding<'a>| x.cause.id == cause::KF401 && x.names.get("same").is_none();
    let (Some(x), Some(pod)) = (found.iter_mut().find(waits), f.api) else {
        return;
    };
    // The kubelet names the volumes that it still waits for: it has all others.
    let waits_for = x.names.get("volumes").map(str::to_owned);
    let is_awaited = |volume: &VolumeSpec| {
        let Some(names) = &waits_for else { return true };
        names.split([' ', ',']).any(|name| volume.name == name)
    };
    let volumes = pod.spec.volumes.iter().filter(|v| is_awaited(v));
    let mut claims = volumes.filter_map(|v| v.claim(&pod.name));
    if let Some(told) = claims.find_map(|name| held(cx, f, pod, &name)) {
        let proofs = std::mem::take(&mut x.proofs);
        let (since, stage) = (x.since, x.stage);
        *x = told.at(stage).since(since);
        x.proofs.extend(proofs);
    }
}

/// Names the pod of another node that uses the volume, where the controller's message does not.
pub(super) fn named(cx: Context<'_>, x: &mut Finding<'_>, f: &PodHistory<'_>) {
    let (Some(volume), Some(pod), None) = (x.names.get("volume"), f.api, x.names.get("holder"))
    else {
        return;
    };
    let Some(claim) = bound_to(cx, pod, volume) else {
        return;
    };
    let mut users = cx.shared.holding(cx.world, &pod.namespace, &claim).iter();
    if let Some(user) = users.find(|p| p.node != f.view.node) {
        x.names.set("holder", &user.name);
        x.names.set("user", &user.name);
        x.names.set("there", &user.node);
    }
}

/// Returns a finding for a claim that one node at a time may use, and that another node than the pod's has.
fn held<'a>(
    cx: Context<'a>,
    f: &PodHistory<'a>,
    pod: &PodSeen,
    name: &Text,
) -> Option<Finding<'a>> {
    let api = claim(cx, &pod.namespace, name)?.api.as_ref()?;
    let is_single = |modes: &str| !modes.contains("Many");
    api.fact("accessModes").filter(|modes| is_single(modes))?;
    let volume = api.fact("volumeName")?;
    let nodes = cx.shared.attachments(cx.world).0.get(volume)?;
    // The controller asks for an attachment to the pod's node only when no other node has the volume
    // (pkg/controller/volume/attachdetach/reconciler/reconciler.go, attachDesiredVolumes).
    if f.view.node.is_empty() || nodes.iter().any(|a| a.node == f.view.node) {
        return None;
    }
    let at = nodes.iter().find(|a| a.is_made)?;
    let pods = cx.shared.holding(cx.world, &pod.namespace, name).iter();
    let holders: Vec<&Text> = pods
        .filter(|p| p.node == at.node)
        .map(|p| &p.name)
        .collect();
    let by = match holders.as_slice() {
        [] => String::new(),
        [one] => format!(", where pod {one} uses it"),
        several => format!(", where pods {} use it", list(several)),
    };
    let missing = cx.shared.missing(cx.world, &at.node);
    let gone = if missing.is_some() {
        ", which does not exist"
    } else {
        ""
    };
    let undone = match at.undone.as_deref() {
        None => String::new(),
        Some("") => "; it is being detached from there".to_owned(),
        Some(error) => {
            let error = error.trim_end_matches('.');
            format!("; it is to be detached from there, which fails: {error}")
        }
    };
    let what = format!("it is attached to node {}{gone}{by}{undone}", at.node);
    let mut x = Finding::new(cause::KF405, f)
        .name("volume", volume)
        .name("of_claim", name)
        .name("what", &what)
        .at_most(Confidence::Likely);
    x.proofs.extend(missing.map(|m| proof(&m.evidence)));
    if let Some(one) = holders.first() {
        x = x.name("holder", one);
    }
    x.proofs.extend(at.evidence.as_ref().map(proof));
    Some(x)
}
