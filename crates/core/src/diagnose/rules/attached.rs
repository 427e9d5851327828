//! Volumes that another node has. The attach controller says so of a claim that only one node may use (the Event
//! `Multi-Attach error`); when that Event is gone or was not read, the VolumeAttachments show it.

use super::Context;
use super::claims::{claim, claims_of};
use crate::correlate::{ObjectState, World};
use crate::diagnose::Confidence;
use crate::diagnose::cause;
use crate::diagnose::finding::{Finding, proof};
use crate::diagnose::history::PodHistory;
use crate::diagnose::text::list;
use kflow_model::{Evidence, Text, pod::PodSeen, pod::WatchEvent};
use rustc_hash::FxHashMap;

/// The nodes to which PersistentVolumes are attached, by the volume's name.
#[derive(Clone, Debug, Default)]
pub struct Attachments(FxHashMap<Text, Vec<Attachment>>);

#[derive(Clone, Debug)]
struct Attachment {
    node: Text,
    evidence: Option<Evidence>,
}

impl Attachments {
    pub(in crate::diagnose) fn of(world: &World) -> Self {
        let mut all = Self::default();
        let attachments = world.objects().into_iter();
        for o in attachments.filter(|o| o.object.kind == "VolumeAttachment") {
            let api = o.api.as_ref().filter(|a| a.event != WatchEvent::Deleted);
            let facts = api.and_then(|a| Some((a.fact("volumeName")?, a.fact("node")?)));
            let Some((volume, node)) = facts.filter(|_| is_attached(o)) else {
                continue;
            };
            all.0.entry(volume.into()).or_default().push(Attachment {
                node: node.into(),
                evidence: o.evidence.last().cloned(),
            });
        }
        all
    }
}

fn is_attached(o: &ObjectState) -> bool {
    let api = o.api.as_ref();
    api.is_some_and(|a| a.fact("attached") == Some("true"))
}

/// Puts the volume that another node has in the place of a finding that only says that the pod waits for its volumes.
pub(super) fn elsewhere<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut [Finding<'a>]) {
    let waits = |x: &&mut Finding<'a>| x.cause.id == cause::KF401 && x.names.get("same").is_none();
    let (Some(x), Some(pod)) = (found.iter_mut().find(waits), f.api) else {
        return;
    };
    if let Some(told) = claims_of(pod)
        .iter()
        .find_map(|name| held(cx, f, pod, name))
    {
        let proofs = std::mem::take(&mut x.proofs);
        let (since, stage) = (x.since, x.stage);
        *x = told.at(stage).since(since);
        x.proofs.extend(proofs);
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
    if f.view.node.is_empty() || nodes.iter().any(|a| a.node == f.view.node) {
        return None;
    }
    let at = nodes.first()?;
    let pods = cx.shared.on_node(cx.world, &at.node).iter();
    let uses = |p: &&crate::correlate::Pod| {
        p.namespace == pod.namespace
            && p.api
                .as_deref()
                .is_some_and(|p| claims_of(p).contains(name))
    };
    let holders: Vec<&Text> = pods.filter(uses).map(|p| &p.name).collect();
    let by = match holders.as_slice() {
        [] => String::new(),
        [one] => format!(", where pod {one} uses it"),
        several => format!(", where pods {} use it", list(several)),
    };
    let mut x = Finding::new(cause::KF405, f)
        .name("volume", volume)
        .name("what", &format!("it is attached to node {}{by}", at.node))
        .at_most(Confidence::Likely);
    if let Some(one) = holders.first() {
        x = x.name("holder", one);
    }
    x.proofs.extend(at.evidence.as_ref().map(proof));
    Some(x)
}
