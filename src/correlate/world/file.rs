//! Filing: which pod, node or object an observation belongs to.

mod calls;

use std::sync::Arc;

use super::pods::{NOBODY, Pile, PodFile, Slot};
use super::{CallAt, Owner, WaitKey, World};
use crate::model::{
    Body, ObjectRef, PodRef, PodUid, SpanId, Text,
    audit::AuditRecord,
    cri::{Subject, is_noise},
    event::EventSeen,
    fs::{FsChange, FsObject},
    log::LogLine,
    pod::PodSeen,
    span::{SpanKind, SpanRecord},
};
use crate::timeline::Evidence;

/// Calls kept in a long run.
const CALLS: usize = 1 << 20;

impl World {
    /// Files one observation. Views are stale until [`settle`](Self::settle).
    pub fn observe(&mut self, o: &Evidence) {
        self.now = self.now.max(o.stamp.seen);
        self.sources.observe(o);
        match &o.body {
            Body::Pod(p) => self.file_pod(o, p),
            Body::Event(e) => {
                if e.object.kind == "Node" {
                    Arc::make_mut(&mut self.machinery).observe(o);
                }
                self.file_event(o, e);
            }
            Body::Node(n) => self.file_node(o, n),
            Body::Object(x) => self.file_object(o, x),
            Body::Watch(_) => {
                if self.lists.observe(o) {
                    self.lists_changed = true;
                }
                self.file_local(o);
            }
            Body::CallStart(c) => {
                if c.method == "ListPodSandbox" {
                    Arc::make_mut(&mut self.machinery).observe(o);
                }
                self.file_call(o, c);
            }
            Body::CallEnd(c) => self.file_call_end(o, c),
            Body::ContainerEvent(c) => {
                self.file_subject(o, &c.subject);
            }
            Body::Inventory(i) => self.file_inventory(o, i),
            Body::Log(l) => {
                Arc::make_mut(&mut self.machinery).observe(o);
                self.file_log(o, l);
            }
            Body::Audit(a) => {
                self.requests.observe(o);
                Arc::make_mut(&mut self.machinery).observe(o);
                self.file_audit(o, a);
            }
            Body::Span(s) => {
                self.links.observe(s, o.stamp.at, &mut self.offset);
                self.requests.observe(o);
                Arc::make_mut(&mut self.machinery).observe(o);
                self.file_span(o, s);
            }
            Body::Fs(f) => self.file_fs(o, f),
            Body::Sample(_) => {
                Arc::make_mut(&mut self.machinery).observe(o);
                self.file_local(o);
            }
            Body::Conn(_) | Body::Gap(_) | Body::Note(_) => self.file_local(o),
        }
    }

    // ---- slots -------------------------------------------------------------------------------------------------

    /// The file of a UID, made when there is none.
    pub(super) fn slot(&mut self, uid: &Text) -> Slot {
        if let Some(slot) = self.slot_of(uid) {
            return slot;
        }
        let slot = self.files.push(Arc::new(PodFile {
            uid: uid.clone(),
            ..PodFile::default()
        }));
        self.by_uid.insert(Arc::from(uid.as_str()), slot);
        slot
    }
    /// The file under one name.
    pub(super) fn name_slot(&mut self, namespace: &str, name: &str) -> u32 {
        let mut key = Text::default();
        key.push_str(namespace);
        key.push('/');
        key.push_str(name);
        if let Some(n) = self.by_name.get(key.as_str()) {
            return *n;
        }
        let n = self.names.push(Arc::new(super::NameFile {
            namespace: namespace.into(),
            name: name.into(),
            ..super::NameFile::default()
        }));
        self.by_name.insert(Arc::from(key.as_str()), n);
        n
    }
    pub(super) fn mark(&mut self, slot: Slot) {
        if let Some(f) = self.files.get(slot)
            && !f.dirty
            && let Some(f) = self.files.get_mut(slot)
        {
            Arc::make_mut(f).dirty = true;
            self.dirty.push(slot);
        }
    }
    pub(super) fn mark_name(&mut self, n: u32) {
        if let Some(f) = self.names.get(n)
            && !f.dirty
            && let Some(f) = self.names.get_mut(n)
        {
            Arc::make_mut(f).dirty = true;
            self.dirty_names.push(n);
        }
    }
    /// Files an observation under a pod.
    fn put(&mut self, slot: Slot, o: &Evidence) {
        if slot == NOBODY {
            return;
        }
        // What was learnt before a mirror turned out to be one leads to the static pod.
        let slot = self.files.get(slot).and_then(|f| f.into).unwrap_or(slot);
        let Some(file) = self.files.get_mut(slot) else {
            return;
        };
        let file = Arc::make_mut(file);
        let life_changed = file.push(o);
        let name = file.name;
        if !file.dirty {
            file.dirty = true;
            self.dirty.push(slot);
        }
        if life_changed && let Some(n) = name {
            self.mark_name(n);
        }
    }
    /// Files an observation under a name.
    fn put_name(&mut self, namespace: &str, name: &str, o: &Evidence) {
        let n = self.name_slot(namespace, name);
        if let Some(f) = self.names.get_mut(n) {
            Arc::make_mut(f).evidence.push(Arc::clone(o));
        }
        self.mark_name(n);
    }
    /// A pod bears a name.
    fn learn_name(&mut self, slot: Slot, namespace: &str, name: &str) {
        if name.is_empty() || namespace.is_empty() {
            return;
        }
        if self.files.get(slot).is_none_or(|f| f.name.is_some()) {
            return;
        }
        let n = self.name_slot(namespace, name);
        if let Some(f) = self.files.get_mut(slot) {
            Arc::make_mut(f).name = Some(n);
        }
        if let Some(f) = self.names.get_mut(n) {
            Arc::make_mut(f).pods.push(slot);
        }
        self.mark_name(n);
    }
    /// Files under the pod that a reference names; false when it names none.
    fn put_ref(&mut self, pod: &PodRef, o: &Evidence) -> bool {
        if !pod.uid.is_empty() {
            let slot = self.slot(&pod.uid.0);
            self.learn_name(slot, &pod.namespace, &pod.name);
            self.put(slot, o);
            true
        } else if !pod.name.is_empty() && !pod.namespace.is_empty() {
            self.put_name(&pod.namespace, &pod.name, o);
            true
        } else {
            false
        }
    }

    // ---- waiting -----------------------------------------------------------------------------------------------

    /// Keeps an observation until one of the keys is known. It may come out once for each: filing it again is no harm.
    fn wait(&mut self, keys: impl IntoIterator<Item = WaitKey>, o: &Evidence) {
        for key in keys {
            if let Some(v) = self.waiting.get_mut(&key) {
                v.push(Arc::clone(o));
            } else if let Some(forgotten) = self.waiting.insert(key, vec![Arc::clone(o)]) {
                self.unfiled.given_up += self.count_waiting(forgotten.iter());
            }
        }
    }
    /// How many observations wait under these keys, each once.
    pub(super) fn count_waiting<'w>(
        &self,
        waiting: impl IntoIterator<Item = (&'w WaitKey, &'w Vec<Evidence>)>,
    ) -> u64 {
        waiting
            .into_iter()
            .flat_map(|(key, v)| v.iter().map(move |o| (key, o)))
            .filter(|(key, o)| match &o.body {
                // A span waits under its own id besides others.
                Body::Span(s) => {
                    **key == WaitKey::Span(s.span) && self.by_span.get(&s.span).is_none()
                }
                Body::CallStart(c) => {
                    **key == call_key(c)
                        && self.by_call.get(&c.key).is_some_and(|a| a.slot.is_none())
                }
                Body::Inventory(i) => i
                    .items
                    .first()
                    .is_some_and(|x| runtime_keys(&x.subject).next().as_ref() == Some(*key)),
                Body::ContainerEvent(c) => runtime_keys(&c.subject).next().as_ref() == Some(*key),
                _ => true,
            })
            .count() as u64
    }
    fn release(&mut self, key: &WaitKey) {
        if let Some(v) = self.waiting.remove(key) {
            for o in v {
                match &o.body {
                    Body::CallStart(c) => self.join_call(&o, c),
                    Body::CallEnd(c) => self.file_call_end(&o, c),
                    Body::Span(s) => self.file_span(&o, s),
                    Body::Audit(a) => self.file_audit(&o, a),
                    Body::ContainerEvent(c) => {
                        self.file_subject(&o, &c.subject);
                    }
                    Body::Log(l) => self.file_log(&o, l),
                    Body::Fs(f) => self.file_fs(&o, f),
                    Body::Inventory(i) => self.file_inventory(&o, i),
                    _ => {}
                }
            }
        }
    }
    /// A runtime id belongs to a pod.
    fn learn_runtime(
        &mut self,
        id: &Text,
        slot: Slot,
        container: &Text,
        attempt: Option<u32>,
        sandbox: bool,
    ) {
        if id.is_empty() {
            return;
        }
        match self.by_runtime.get(id.as_str()) {
            Some(known)
                if (known.container.is_empty() && !container.is_empty())
                    || (known.attempt.is_none() && attempt.is_some())
                    || (!known.sandbox && sandbox) =>
            {
                if let Some(known) = self.by_runtime.get_mut(id.as_str()) {
                    if known.container.is_empty() {
                        known.container.clone_from(container);
                    }
                    known.attempt = known.attempt.or(attempt);
                    known.sandbox |= sandbox;
                }
            }
            Some(_) => {}
            None => {
                self.by_runtime.insert(
                    Arc::from(id.as_str()),
                    Owner {
                        slot,
                        container: container.clone(),
                        attempt,
                        sandbox,
                        within: None,
                    },
                );
                self.release(&WaitKey::Runtime(id.clone()));
            }
        }
    }
    fn learn_subject(&mut self, slot: Slot, s: &Subject) {
        self.learn_runtime(&s.sandbox_id.0, slot, &Text::default(), None, true);
        if s.container_id.0 != s.sandbox_id.0 {
            self.learn_runtime(&s.container_id.0, slot, &s.container, s.attempt, false);
            self.learn_sandbox(&s.container_id.0, &s.sandbox_id.0);
        }
    }
    /// The sandbox that a container is in: it never changes.
    fn learn_sandbox(&mut self, container: &Text, sandbox: &Text) {
        if container.is_empty()
            || sandbox.is_empty()
            || self
                .by_runtime
                .get(container.as_str())
                .is_none_or(|o| o.within.is_some())
        {
            return;
        }
        if let Some(known) = self.by_runtime.get_mut(container.as_str()) {
            known.within = Some(Arc::from(sandbox.as_str()));
        }
    }
    fn learn_span(&mut self, span: SpanId, slot: Slot) {
        if span.is_valid() && self.by_span.get(&span).is_none() {
            self.by_span.insert(span, slot);
            self.release(&WaitKey::Span(span));
        }
    }
    fn runtime_owner(&self, id: &Text) -> Option<Slot> {
        if id.is_empty() {
            return None;
        }
        let slot = self.by_runtime.get(id.as_str())?.slot;
        Some(self.files.get(slot).and_then(|f| f.into).unwrap_or(slot))
    }

    // ---- API ---------------------------------------------------------------------------------------------------

    fn file_pod(&mut self, o: &Evidence, p: &PodSeen) {
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
        if p.created.0 != 0 && o.source == crate::model::Source::Kube {
            self.offset.api_before_node(p.created, o.stamp.seen);
        }
        if let Some(owner) = &p.owner {
            self.learn_controlled(owner, &p.namespace, slot);
        }
        self.put(slot, o);
    }
    /// A mirror pod's UID leads to the static pod's file from now on, with all that was filed under it before.
    fn alias(&mut self, mirror: &PodUid, real: &PodUid) -> Slot {
        let slot = self.slot(&real.0);
        match self.by_uid.get(mirror.as_str()).copied() {
            None => {
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
        if let Some(f) = self.files.get_mut(slot) {
            let f = Arc::make_mut(f);
            if let Err(at) = f.mirrors.binary_search(mirror) {
                f.mirrors.insert(at, mirror.clone());
            }
        }
        slot
    }
    fn file_event(&mut self, o: &Evidence, e: &EventSeen) {
        if let Some(related) = &e.related
            && related.kind == "Pod"
        {
            self.put_ref(&pod_of(related), o);
        }
        if e.object.kind == "Pod" {
            if e.component == "kubelet" {
                self.local.hear_host(&e.host);
            }
            self.put_ref(&pod_of(&e.object), o);
        } else if e.object.kind == "Node" {
            self.put_node(&e.object.name, o);
        } else {
            // A controller names its pod in the text only: `Created pod: web-5d8f-abcde`.
            if let Some(name) = e
                .message
                .strip_prefix("Created pod: ")
                .or_else(|| e.message.strip_prefix("Deleted pod: "))
            {
                self.put_name(&e.object.namespace, name.trim(), o);
            }
            self.put_object(&e.object, o);
        }
    }
    fn file_audit(&mut self, o: &Evidence, a: &AuditRecord) {
        if o.source == crate::model::Source::Audit && o.stamp.seen != o.stamp.at {
            // An imported record bears its own time as that of arrival and says nothing.
            self.offset.api_before_node(o.stamp.at, o.stamp.seen);
        }
        let Some(rest) = a.resource.strip_prefix("pods") else {
            return self.file_audit_object(o, a);
        };
        if !(rest.is_empty() || rest.starts_with('/')) {
            return self.file_audit_object(o, a);
        }
        if matches!(a.verb.as_str(), "get" | "list" | "watch") {
            self.unfiled.reads += 1;
            self.learn_audit(&a.audit_id, NOBODY);
            return;
        }
        if !a.object.uid.is_empty() {
            let slot = self.slot(&a.object.uid);
            self.learn_name(slot, &a.object.namespace, &a.object.name);
            self.learn_audit(&a.audit_id, slot);
            self.put(slot, o);
        } else if a.object.name.is_empty() || (a.verb == "create" && rest.is_empty() && a.code == 0)
        {
            if let Some(slot) = self.by_audit.get(a.audit_id.as_str()).copied() {
                self.put(slot, o);
            } else if a.code >= 400 {
                // Nothing was created: it is the owner's trouble.
                self.file_audit_object(o, a);
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
    fn learn_audit(&mut self, id: &Text, slot: Slot) {
        if !id.is_empty() && self.by_audit.get(id.as_str()).is_none() {
            self.by_audit.insert(Arc::from(id.as_str()), slot);
            self.release(&WaitKey::Audit(id.clone()));
        }
    }

    // ---- node --------------------------------------------------------------------------------------------------

    fn file_log(&mut self, o: &Evidence, l: &LogLine) {
        let mut filed = self.put_ref(&l.pod, o);
        if filed && !l.pod.uid.is_empty() && !l.container_id.is_empty() {
            let slot = self.slot(&l.pod.uid.0);
            self.learn_runtime(&l.container_id.0, slot, &l.container, None, false);
        }
        for pod in &l.more_pods {
            filed |= self.put_ref(pod, o);
        }
        if filed {
            return;
        }
        if l.container_id.is_empty() {
            self.file_local(o);
        } else if let Some(slot) = self.runtime_owner(&l.container_id.0) {
            self.put(slot, o);
        } else {
            self.wait([WaitKey::Runtime(l.container_id.0.clone())], o);
        }
    }
    fn file_fs(&mut self, o: &Evidence, f: &FsChange) {
        if let Some(uid) = f.object.pod() {
            let slot = self.slot(&uid.0);
            if let FsObject::ContainerCgroup { id, .. } = &f.object {
                self.learn_runtime(&id.0, slot, &Text::default(), None, false);
            }
            self.put(slot, o);
        } else if let FsObject::RuntimeMount { id, .. } = &f.object {
            if let Some(slot) = self.runtime_owner(&id.0) {
                self.put(slot, o);
            } else {
                self.wait([WaitKey::Runtime(id.0.clone())], o);
            }
        }
    }
    /// Finds the pod of a span: by what it says itself, by the call that the tap saw, or by the span that it lies in.
    ///
    /// Each rule gives one answer whenever it gives any, and a span waits for all that could speak: so it does not
    /// matter what comes first. The trace alone is no rule: whether the parent is about nobody is known with it only.
    fn file_span(&mut self, o: &Evidence, s: &SpanRecord) {
        let call = is_cri_client(s);
        if call && s.name.rsplit_once('/').is_some_and(|(_, m)| is_noise(m)) {
            return self.learn_span(s.span, NOBODY);
        }
        if let Some(slot) = self.span_owner(s) {
            self.learn_span(s.span, slot);
            if s.parent.is_none()
                && s.name.starts_with("sync")
                && slot != NOBODY
                && self.by_trace.get(&s.trace).is_none()
            {
                self.by_trace.insert(s.trace, slot);
                self.release(&WaitKey::Trace(s.trace));
            }
            self.put(slot, o);
            return;
        }
        let runtime = ["container.id", "sandbox.id"]
            .into_iter()
            .filter_map(|key| s.attribute(key))
            .filter(|id| !id.is_empty())
            .map(|id| WaitKey::Runtime(id.into()));
        let audit = audit_of(s).map(|id| WaitKey::Audit(id.into()));
        let parent = s
            .parent
            .filter(|p| self.by_span.get(p).is_none())
            .map(WaitKey::Span);
        let keys: smallvec::SmallVec<[WaitKey; 4]> = runtime.chain(audit).chain(parent).collect();
        if keys.is_empty() && !call {
            return self.learn_span(s.span, NOBODY);
        }
        // The kubelet's side of a call that no sync made: the tap may tell whose it is.
        self.wait(keys.into_iter().chain([WaitKey::Span(s.span)]), o);
    }
    fn span_owner(&mut self, s: &SpanRecord) -> Option<Slot> {
        if let Some(uid) = s.attribute("k8s.pod.uid").filter(|u| !u.is_empty()) {
            let slot = self.slot(&uid.into());
            if let Some((ns, name)) = s.attribute("k8s.pod").and_then(|p| p.split_once('/')) {
                self.learn_name(slot, ns, name);
            }
            return Some(slot);
        }
        for key in ["container.id", "sandbox.id"] {
            if let Some(slot) = s
                .attribute(key)
                .and_then(|id| self.runtime_owner(&id.into()))
            {
                return Some(slot);
            }
        }
        if let Some(audit) = audit_of(s)
            && let Some(slot) = self.by_audit.get(audit)
        {
            return Some(*slot);
        }
        if let Some(slot) = self.by_span.get(&s.span) {
            return Some(*slot);
        }
        // Garbage collection is about nobody, and its calls are about somebody.
        let slot = s.parent.and_then(|p| self.by_span.get(&p)).copied()?;
        (slot != NOBODY || !is_cri_client(s) && !names_somebody(s)).then_some(slot)
    }
}

/// True for a span that tells of an id that may turn out to be a pod's.
fn names_somebody(s: &SpanRecord) -> bool {
    ["container.id", "sandbox.id"]
        .into_iter()
        .any(|key| s.attribute(key).is_some_and(|id| !id.is_empty()))
        || audit_of(s).is_some()
}

/// The request that a span of the apiserver handles, when it is one about pods. What lies in it bears the id too, and
/// is found by its parent.
fn audit_of(s: &SpanRecord) -> Option<&str> {
    s.attribute("audit-id").filter(|_| s.name.contains("/pods"))
}

/// The ids that lead from a subject to its pod.
fn runtime_keys(s: &Subject) -> impl Iterator<Item = WaitKey> + use<> {
    [s.container_id.0.clone(), s.sandbox_id.0.clone()]
        .into_iter()
        .filter(|id| !id.is_empty())
        .map(WaitKey::Runtime)
}

/// The first of the keys that a call waits under.
fn call_key(c: &crate::model::cri::CallStart) -> WaitKey {
    runtime_keys(&c.subject).next().unwrap_or_else(|| {
        WaitKey::Trace(c.traceparent.map(|(trace, _)| trace).unwrap_or_default())
    })
}

/// The kubelet's span of a CRI call.
fn is_cri_client(s: &SpanRecord) -> bool {
    s.kind == SpanKind::Client && s.service == "kubelet" && s.name.starts_with("runtime.v1")
}

fn pod_of(o: &ObjectRef) -> PodRef {
    PodRef {
        uid: PodUid(o.uid.clone()),
        namespace: o.namespace.clone(),
        name: o.name.clone(),
    }
}
