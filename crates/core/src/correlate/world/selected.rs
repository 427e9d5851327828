//! Which calls, requests and observations the selection admits: those about a selected pod or its namespace. An
//! observation about neither belongs to the node, and is admitted when pods are selected by node or not at all.

use super::{Pod, World};
use crate::correlate::{Call, Request};
use kflow_model::cri::Subject;
use kflow_model::{Body, ObjectRef, Observation, PodNames, PodRef, PodUid};

impl World {
    /// Returns true for a call that kflow itself made to the runtime: it tells nothing of what the node does.
    pub fn is_own_call(&self, call: &Call) -> bool {
        self.clients.is_own(call.key.conn)
    }
    /// Returns a number that changes when [`is_own_call`](Self::is_own_call) has changed for calls that were filed before.
    pub const fn own_calls_revised(&self) -> u32 {
        self.clients.late()
    }
    pub fn selects_call(&self, call: &Call) -> bool {
        self.selection.is_all()
            || self.admits_ref(&PodRef::from(PodNames {
                uid: call.pod_uid.clone(),
                namespace: call.namespace.clone(),
                name: call.pod.clone(),
            }))
    }

    pub fn selects_request(&self, request: &Request) -> bool {
        self.selection.is_all() || self.admits_object(&request.resource, &request.object)
    }

    pub fn selects_observation(&self, o: &Observation) -> bool {
        if self.selection.is_all() {
            return true;
        }
        let of = |uid: &PodUid, namespace: &kflow_model::Text, name: &kflow_model::Text| {
            self.admits_ref(&PodRef::from(PodNames {
                uid: uid.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
            }))
        };
        match &o.body {
            Body::Pod(p) => of(&p.uid, &p.namespace, &p.name),
            Body::Event(e) if e.object.kind == "Pod" => self.admits_object("pods", &e.object),
            Body::Event(e) => self.admits_object("", &e.object),
            Body::Object(x) => self.admits_object("", &x.object),
            Body::Audit(a) => self.admits_object(&a.resource, &a.object),
            Body::CallStart(c) => self.admits_subject(&c.subject),
            Body::CallEnd(c) => match self.by_call.get(c.key).and_then(|at| at.slot) {
                Some(slot) => self.at(slot).is_some_and(|p| self.selection.admits(p)),
                None => self.admits_subject(&c.subject),
            },
            Body::ContainerEvent(c) => self.admits_subject(&c.subject),
            Body::RuntimeEvent(e) => self.admits_subject(&e.subject()),
            Body::Inventory(i) => {
                self.selection.is_of_nodes()
                    || i.items.iter().any(|i| self.admits_subject(&i.subject))
            }
            Body::Log(l) => {
                self.admits_ref(&l.pod) || l.more_pods.iter().any(|p| self.admits_ref(p))
            }
            Body::Fs(f) => match f.object.pod() {
                Some(uid) => self.admits_ref(&PodRef::by_uid(uid.clone())),
                None => self.selection.is_of_nodes(),
            },
            // kflow's own notes concern every view.
            Body::Gap(_) | Body::ClockStep(_) | Body::Note(_) | Body::Watch(_) => true,
            Body::Node(_) | Body::Conn(_) | Body::Span(_) | Body::Sample(_) | Body::Pull(_) => {
                self.selection.is_of_nodes()
            }
        }
    }

    fn admits_subject(&self, subject: &Subject) -> bool {
        if !subject.pod.is_empty() {
            return self.admits_ref(&subject.pod);
        }
        let ids = [subject.container_id.as_str(), subject.sandbox_id.as_str()];
        let owner = ids.iter().find_map(|id| self.by_runtime.get(*id));
        match owner.and_then(|o| self.at(o.slot)) {
            Some(pod) => self.selection.admits(pod),
            None => self.selection.is_of_nodes(),
        }
    }

    fn admits_object(&self, resource: &str, object: &ObjectRef) -> bool {
        if resource.split('/').next() == Some("pods") && !object.name.is_empty() {
            return self.admits_ref(&PodRef::from(PodNames {
                uid: PodUid(object.uid.clone()),
                namespace: object.namespace.clone(),
                name: object.name.clone(),
            }));
        }
        self.selection.is_of_nodes() || self.selection.admits_owner(&object.namespace)
    }

    fn admits_ref(&self, pod: &PodRef) -> bool {
        if pod.is_empty() {
            return self.selection.is_of_nodes();
        }
        match self.meant(pod) {
            Some(pod) => self.selection.admits(pod),
            None => self.selection.admits_owner(&pod.namespace),
        }
    }

    /// The pod of a reference: by UID, else the newest of its name.
    fn meant(&self, pod: &PodRef) -> Option<&Pod> {
        if let Some(found) = self.pod(&pod.uid) {
            return Some(found);
        }
        let key = format!("{}/{}", pod.namespace, pod.name);
        let file = self.names.get(*self.by_name.get(key.as_str())?)?;
        file.pods.iter().rev().find_map(|slot| self.at(*slot))
    }

    /// The listed pod of a file; of a mirror's file, the static pod.
    fn at(&self, slot: super::Slot) -> Option<&Pod> {
        let file = self.files.get(slot)?;
        let file = match file.into {
            Some(into) => self.files.get(into)?,
            None => file,
        };
        self.pods.get(self.place(file.shown.as_ref()?)?)
    }
}
