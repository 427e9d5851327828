//! Filing of observations from the API: pods, Events, requests.

use std::sync::Arc;

use super::WaitKey;
use crate::correlate::world::World;
use crate::correlate::world::pods::{NOBODY, Pile, Slot};
use crate::flow::{self, Fact, Map};
use kflow_model::{
    Evidence, ObjectRef, PodNames, PodRef, PodUid, Text,
    audit::AuditRecord,
    event::EventSeen,
    pod::{PodSeen, WatchEvent},
    span::SpanRecord,
};

impl World {
    pub(super) fn file_pod(&mut self, o: &Evidence, p: &PodSeen) {
        if p.event == WatchEvent::Deleted && self.has_left(&p.uid.0) {
            return;
        }
        let slot = match &p.mirror_of {
            Some(real) => self.alias(&p.uid, real),
            None => self.slot(&p.uid.0),
        };
        self.learn_name(slot, &p.namespace, &p.name);
        for c in p.statuses() {
            self.learn_runtime(&c.id.0, slot, &c.name, Some(c.restarts), false);
            if let Some(last) = &c.last {
                self.learn_runtime(&last.id.0, slot, &c.name, None, false);
            }
        }
        if p.created.0 != 0 && o.source == kflow_model::Source::Kube {
            self.offset.api_before_node(p.created, o.stamp.seen);
        }
        if let Some(owner) = &p.owner {
            self.learn_controlled(owner, &p.namespace, slot);
        }
        self.put(slot, o);
    }
    /// Makes a mirror pod's UID lead to the static pod's file, and moves the evidence filed under the mirror there.
    fn alias(&mut self, mirror: &PodUid, real: &PodUid) -> Slot {
        let slot = self.slot(&real.0);
        match self.by_uid.get(mirror.as_str()).copied() {
            None | Some(NOBODY) => {
                self.by_uid.insert(Arc::from(mirror.as_str()), slot);
            }
            Some(old) if old != slot => {
                let moved = self.files.get_mut(old).map(|f| {
                    let f = Arc::make_mut(f);
                    f.into = Some(slot);
                    f.dirty = true;
                    f.named = Pile::default();
                    (std::mem::take(&mut f.evidence), f.name.take())
                });
                self.dirty.push(old);
                if let Some((evidence, name)) = moved {
                    if let Some(n) = name
                        && let Some(f) = self.names.get_mut(n)
                    {
                        Arc::make_mut(f).pods.retain(|s| *s != old);
                        self.mark_name(n);
                    }
                    for e in evidence.iter() {
                        self.put(slot, e);
                    }
                }
            }
            Some(_) => {}
        }
        if mirror != real
            && let Some(f) = self.files.get_mut(slot)
        {
            let f = Arc::make_mut(f);
            if let Err(at) = f.mirrors.binary_search(mirror) {
                f.mirrors.insert(at, mirror.clone());
            }
        }
        slot
    }
    pub(super) fn file_event(&mut self, o: &Evidence, e: &EventSeen) {
        if let Some(related) = &e.related
            && related.kind == "Pod"
        {
            self.put_ref(&pod_of(related), o);
        } else if let Some(preemptor) = preemptor(e) {
            self.put_ref(&preemptor, o);
        }
        if e.object.kind == "Pod" {
            if e.component == "kubelet" {
                self.local.hear_host(&e.host);
            }
            self.put_ref(&pod_of(&e.object), o);
        } else if e.object.kind == "Node" {
            self.put_node(&e.object.name, o);
        } else {
            // A controller names the pod only in the message: `Created pod: web-5d8f-abcde`.
            if let Some(name) = Map::active()
                .event(&e.reason, &e.message)
                .filter(|s| s.fact == Fact::OwnerActed)
                .and_then(|s| s.name("pod"))
            {
                self.put_name(&e.object.namespace, name.trim(), o);
            }
            self.put_object(&e.object, o);
        }
    }
    pub(super) fn file_audit(&mut self, o: &Evidence, a: &AuditRecord) {
        if o.source == kflow_model::Source::Audit && o.stamp.seen != o.stamp.at {
            // An imported record has its own time as time of arrival, so it does not bound the clocks.
            self.offset.api_before_node(o.stamp.at, o.stamp.seen);
        }
        let Some(rest) = a.resource.strip_prefix("pods") else {
            return self.file_audit_object(o, a);
        };
        if !(rest.is_empty() || rest.starts_with('/')) {
            return self.file_audit_object(o, a);
        }
        if matches!(a.verb.as_str(), "get" | "list" | "watch") {
            // A request has a record for each of its stages.
            if a.audit_id.is_empty() || self.by_audit.get(&a.audit_id).is_none() {
                self.unfiled.reads += 1;
            }
            self.learn_audit(&a.audit_id, NOBODY);
            return;
        }
        if !a.object.uid.is_empty() && self.has_left(&a.object.uid) {
            return;
        }
        if !a.object.uid.is_empty() {
            let slot = self.slot(&a.object.uid);
            self.learn_name(slot, &a.object.namespace, &a.object.name);
            self.learn_audit(&a.audit_id, slot);
            self.put(slot, o);
        } else if a.object.name.is_empty() || (a.verb == "create" && rest.is_empty() && a.code == 0)
        {
            if let Some(slot) = self.by_audit.get(&a.audit_id).copied() {
                self.put(slot, o);
            } else if a.code >= 400 {
                // No pod was created: the failure concerns the owner.
                self.file_audit_object(o, a);
            } else if let Some((namespace, name)) = self.stored.get(&a.audit_id).cloned() {
                self.put_name(&namespace, &name, o);
            } else {
                self.wait([WaitKey::Audit(a.audit_id.clone())], o);
            }
        } else {
            self.put_name(&a.object.namespace, &a.object.name, o);
            if a.code >= 400 && a.verb == "create" {
                self.file_audit_object(o, a);
            }
        }
    }
    /// Learns the name of a pod that was created with `generateName`. An audit record at level Metadata does not
    /// contain the name; the etcd key in the apiserver's span does.
    pub(super) fn learn_stored(&mut self, s: &SpanRecord) {
        if flow::span(s) != Some(Fact::ObjectStored) {
            return;
        }
        let (Some(id), Some(key)) = (s.attributes.text("audit-id"), s.attribute("key")) else {
            return;
        };
        let mut parts = key.rsplit('/');
        let (Some(name), Some(namespace), Some("pods")) =
            (parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        if self.stored.get(id).is_none() {
            self.stored
                .insert(id.clone(), (namespace.into(), name.into()));
            self.release(&WaitKey::Audit(id.clone()));
        }
    }
    fn learn_audit(&mut self, id: &Text, slot: Slot) {
        if !id.is_empty() && self.by_audit.get(id).is_none() {
            self.by_audit.insert(id.clone(), slot);
            self.release(&WaitKey::Audit(id.clone()));
        }
    }
}

/// The pod that preempts this Event's pod: the related object, or the pod in the message (which lacks the UID before
/// 1.26).
fn preemptor(e: &EventSeen) -> Option<PodRef> {
    if let Some(pod) = e.related.as_ref().filter(|r| r.kind == "Pod") {
        return (e.reason == "Preempted").then(|| pod_of(pod));
    }
    let said = Map::active()
        .event(&e.reason, &e.message)
        .filter(|s| s.fact == Fact::PodPreempted)?;
    match said.name("uid") {
        Some(uid) => (uid.len() == 36).then(|| PodRef::by_uid(uid)),
        None => Some(PodRef::by_name(said.name("namespace")?, said.name("name")?)),
    }
}

fn pod_of(o: &ObjectRef) -> PodRef {
    PodRef::from(PodNames {
        uid: PodUid(o.uid.clone()),
        namespace: o.namespace.clone(),
        name: o.name.clone(),
    })
}
