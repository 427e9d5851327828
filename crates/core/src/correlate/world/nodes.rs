//! Nodes, objects that are not pods, and evidence about the node as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pods::{Slot, insert_once, sort_evidence};
use super::{NodeState, ObjectState, World};
use crate::correlate::owners::{self, chain, deployment_of};
use crate::flow::{self, Fact};
use kflow_model::Evidence;
use kflow_model::{
    Body, ObjectRef, Text,
    audit::AuditRecord,
    log::{Component, Severity},
    node::NodeSeen,
    object::ObjectSeen,
};

/// Number of observations kept for the node as a whole, and for one object.
const KEEP: usize = 8192;

/// Facts whose Info lines about the node are kept. Lines above Info are always kept.
const TELLING: [Fact; 14] = [
    Fact::KubeletStarting,
    Fact::LoopStarted,
    Fact::KubeletStarted,
    Fact::RuntimeReady,
    Fact::NetworkNotReady,
    Fact::RuntimeNotReady,
    Fact::NodeNotReady,
    Fact::NodeReady,
    Fact::NodeRegistered,
    Fact::RegistrationFailed,
    Fact::SystemOom,
    Fact::NodeRegistering,
    Fact::ReclaimBegan,
    Fact::CgroupDriverKnown,
];

/// Evidence about the node that the sources run on. The sources do not state its name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Local {
    pub(crate) evidence: Arc<Vec<Evidence>>,
    /// Names of the node in the kubelet's Events, and in its lines about the registration, each with how often.
    hosts: BTreeMap<Text, u64>,
    /// Nodes of the pods that the node's sources saw, with the number of pods.
    votes: BTreeMap<Text, u64>,
    pub(crate) dirty: bool,
    /// Name of the node that the evidence was last filed under.
    pub(crate) filed: Option<Text>,
}

impl Local {
    pub(crate) fn hear_host(&mut self, host: &Text) {
        if !host.is_empty() {
            if let Some(n) = self.hosts.get_mut(host) {
                *n += 1;
            } else {
                self.hosts.insert(host.clone(), 1);
                self.dirty = true;
            }
        }
    }
    pub(crate) fn vote(&mut self, node: &Text) {
        if !node.is_empty() {
            *self.votes.entry(node.clone()).or_default() += 1;
            self.dirty = true;
        }
    }
    /// Name of the local node: the node of most pods that the node's own sources saw, else the only Node object, else
    /// the host in most of the kubelet's Events and lines.
    fn name(&self, nodes: &BTreeMap<Text, Arc<NodeState>>) -> Text {
        let most = |m: &BTreeMap<Text, u64>| {
            m.iter()
                .max_by(|(a, x), (b, y)| x.cmp(y).then(b.cmp(a)))
                .map(|(n, _)| n.clone())
        };
        most(&self.votes)
            .or_else(|| {
                let mut named = nodes.values().filter(|n| n.api.is_some());
                match (named.next(), named.next()) {
                    (Some(only), None) => Some(only.name.clone()),
                    _ => None,
                }
            })
            .or_else(|| most(&self.hosts))
            .unwrap_or_default()
    }
}

/// Drops the oldest evidence when there is too much of it. The newest state of the node or object stays: it shows that
/// the node exists.
fn trim(v: &mut Vec<Evidence>) {
    let Some(excess) = (v.len() > KEEP).then(|| v.len() - KEEP / 2) else {
        return;
    };
    let is_state = |o: &Evidence| matches!(o.body, Body::Node(_) | Body::Object(_));
    let newest = v.iter().rposition(is_state).filter(|i| *i < excess);
    let state = newest.and_then(|i| v.get(i)).cloned();
    v.splice(..excess, state);
}

/// Returns the name by which a kubelet registers its node, or tries to.
fn registered(o: &Evidence) -> Option<Text> {
    let Body::Log(l) = &o.body else { return None };
    let line = flow::line(l)?;
    let of_it = [
        Fact::NodeRegistering,
        Fact::RegistrationFailed,
        Fact::NodeRegistered,
    ];
    let name = line.name("node").filter(|_| of_it.contains(&line.fact()));
    name.filter(|name| !name.is_empty()).map(Text::from)
}

/// Inserts evidence in order of time; false when it is already there.
fn insert(v: &mut Vec<Evidence>, o: &Evidence) -> bool {
    let is_new = insert_once(v, o);
    trim(v);
    is_new
}

impl World {
    /// Name of the node that the node's sources run on, empty while unknown.
    pub(super) fn local_name(&self) -> Text {
        self.local.name(&self.nodes)
    }
    /// Files evidence about the node as a whole. Info lines without a telling fact are dropped.
    pub(super) fn file_local(&mut self, o: &Evidence) {
        if let Body::Log(l) = &o.body
            && (!matches!(
                l.component,
                Component::Kubelet | Component::Containerd | Component::Crio
            ) || l.severity == Severity::Info)
            && l.severity < Severity::Warning
            && !flow::line(l).is_some_and(|l| TELLING.contains(&l.fact()))
        {
            return;
        }
        if let Some(node) = registered(o) {
            self.local.hear_host(&node);
        }
        Arc::make_mut(&mut self.local.evidence).push(Arc::clone(o));
        self.local.dirty = true;
    }
    pub(super) fn refresh_local(&mut self) {
        if !self.local.dirty {
            return;
        }
        self.local.dirty = false;
        let evidence = Arc::make_mut(&mut self.local.evidence);
        sort_evidence(evidence);
        trim(evidence);
        let evidence = Arc::clone(&self.local.evidence);
        let name = self.local.name(&self.nodes);
        if let Some(before) = self.local.filed.replace(name.clone())
            && before != name
            && let Some(n) = self.nodes.get_mut(&before)
        {
            let n = Arc::make_mut(n);
            n.evidence.retain(|e| evidence.binary_search(e).is_err());
            if n.evidence.is_empty() && n.api.is_none() {
                self.nodes.remove(&before);
            }
        }
        if evidence.is_empty() {
            return;
        }
        let node = self.node_mut(&name);
        node.evidence.extend(evidence.iter().cloned());
        sort_evidence(&mut node.evidence);
        trim(&mut node.evidence);
    }
    fn node_mut(&mut self, name: &Text) -> &mut NodeState {
        Arc::make_mut(self.nodes.entry(name.clone()).or_insert_with(|| {
            Arc::new(NodeState {
                name: name.clone(),
                ..NodeState::default()
            })
        }))
    }
    pub(super) fn put_node(&mut self, name: &Text, o: &Evidence) {
        insert(&mut self.node_mut(name).evidence, o);
    }
    pub(super) fn file_node(&mut self, o: &Evidence, n: &NodeSeen) {
        let node = self.node_mut(&n.name);
        if insert(&mut node.evidence, o) {
            let newest = node
                .evidence
                .iter()
                .filter_map(|e| match &e.body {
                    Body::Node(n) => Some((n.resource_version, e.stamp.at, n)),
                    _ => None,
                })
                .max();
            node.api = newest.map(|(_, _, n)| Arc::new((**n).clone()));
        }
        self.local.dirty = true;
    }

    fn object_mut(&mut self, o: &ObjectRef) -> &mut ObjectState {
        let key = (o.kind.clone(), o.namespace.clone(), o.name.clone());
        let state = Arc::make_mut(self.objects.entry(key).or_insert_with(|| {
            Arc::new(ObjectState {
                object: o.clone(),
                ..ObjectState::default()
            })
        }));
        if state.object.uid.is_empty() && !o.uid.is_empty() {
            state.object.uid.clone_from(&o.uid);
        }
        state
    }
    pub(super) fn put_object(&mut self, object: &ObjectRef, o: &Evidence) {
        if !object.name.is_empty() {
            insert(&mut self.object_mut(object).evidence, o);
        }
    }
    pub(super) fn file_object(&mut self, o: &Evidence, x: &ObjectSeen) {
        let state = self.object_mut(&x.object);
        if insert(&mut state.evidence, o) {
            let newest = state
                .evidence
                .iter()
                .filter_map(|e| match &e.body {
                    Body::Object(x) => Some((x.resource_version, e.stamp.at, x)),
                    _ => None,
                })
                .max();
            state.api = newest.map(|(_, _, x)| Arc::new((**x).clone()));
            // The owners of this object's pods are derived through it.
            let pods = state.pods.clone();
            for uid in pods {
                if let Some(slot) = self.slot_of(&uid.0) {
                    self.mark(slot);
                }
            }
        }
    }
    /// Records the controller of a pod.
    pub(super) fn learn_controlled(&mut self, owner: &ObjectRef, namespace: &Text, slot: Slot) {
        let Some(uid) = self.files.get(slot).map(|f| f.uid.clone()) else {
            return;
        };
        let mut owner = owner.clone();
        if owner.namespace.is_empty() && owner.kind != "Node" {
            owner.namespace.clone_from(namespace);
        }
        if owner.kind == "Node" {
            return;
        }
        let key = (
            owner.kind.clone(),
            owner.namespace.clone(),
            owner.name.clone(),
        );
        let known = |s: &Arc<ObjectState>| s.pods.binary_search(&uid.clone().into()).is_ok();
        if self.objects.get(&key).is_some_and(known) {
            return;
        }
        let state = self.object_mut(&owner);
        if let Err(at) = state.pods.binary_search(&uid.clone().into()) {
            state.pods.insert(at, uid.into());
        }
    }
    /// Files an audit record that is not about an existing pod: under its object, or under the owner of a refused pod.
    pub(super) fn file_audit_object(&mut self, o: &Evidence, a: &AuditRecord) {
        if matches!(a.verb.as_str(), "get" | "list" | "watch") && a.code < 400 {
            return;
        }
        if a.resource == "pods" {
            if let (Some(kind), Some(name)) = (a.fact("ownerKind"), a.fact("ownerName")) {
                let owner = ObjectRef {
                    kind: kind.into(),
                    namespace: a.object.namespace.clone(),
                    name: name.into(),
                    uid: a.fact("ownerUid").unwrap_or_default().into(),
                };
                self.put_object(&owner, o);
            }
            return;
        }
        // The creation of a kubelet's Event bounds the clocks: the hex suffix of its name is the time of naming,
        // which is before the request was sent.
        if a.resource == "events" && a.verb == "create" && a.agent.starts_with("kubelet/") {
            if let Some((_, hex)) = a.object.name.rsplit_once('.')
                && let Ok(at) = i64::from_str_radix(hex, 16)
            {
                self.offset
                    .node_before_api(kflow_model::Nanos(at), a.received);
            }
            return;
        }
        if let Some(kind) = kind_of(&a.resource) {
            let object = ObjectRef {
                kind: kind.into(),
                ..a.object.clone()
            };
            self.put_object(&object, o);
        }
    }
    /// The chain of owners from a controller upwards, as far as known.
    pub(super) fn owners(&self, controller: Option<&ObjectRef>, namespace: &str) -> Vec<ObjectRef> {
        let above = |o: &ObjectRef| {
            let state = self.object(&o.kind, &o.namespace, &o.name);
            let api = state.and_then(|s| s.api.as_ref());
            let told = api.and_then(|x| x.owner.clone());
            told.or_else(|| {
                let of = deployment_of(o)?;
                let known = || self.object("Deployment", &of.namespace, &of.name).is_some();
                (api.is_none() || known()).then_some(of)
            })
        };
        controller.map_or_else(Vec::new, |c| chain(c, namespace, above))
    }
}

/// Kind of an audit record's plural resource, for the kinds of objects that concern pods.
fn kind_of(resource: &str) -> Option<&'static str> {
    let plural = resource.split_once('/').map_or(resource, |(r, _)| r);
    match plural {
        "persistentvolumes" => Some("PersistentVolume"),
        "volumeattachments" => Some("VolumeAttachment"),
        "resourcequotas" => Some("ResourceQuota"),
        "resourceclaims" => Some("ResourceClaim"),
        _ => owners::kind_of(plural),
    }
}
