//! Filing: finds the pod, node or object that an observation belongs to.

mod api;
mod calls;
mod node;

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::pods::{NOBODY, PodFile, Slot};
use super::{CallAt, Owner, WaitKey, Waiting, World};
use kflow_model::cri::{CONFIG_SEEN, CallKey, CallStart, Subject, is_noise, method};
use kflow_model::{Body, Evidence, PodRef, SpanId, Text};

/// Number of observations that may wait for one id; the first are kept.
const WAIT_FOR_ONE: usize = 4096;

/// Number of calls that any world keeps, also that of a session that is read. A live world keeps fewer
/// ([`Retention`](super::Retention)).
const CALLS: usize = 1 << 20;

impl World {
    /// Files one observation. Views are out of date until [`refresh`](Self::refresh).
    pub fn observe(&mut self, o: &Evidence) {
        self.now = self.now.max(o.stamp.seen);
        let is_own = |conn| self.clients.is_own(conn);
        let own = matches!(&o.body, Body::CallStart(c) if is_own(c.key.conn));
        self.sources.observe(o, own);
        if matches!(o.body, Body::Watch(_) | Body::Gap(_)) {
            Arc::make_mut(&mut self.coverage).observe(o);
        }
        if let Body::Gap(gap) = &o.body {
            self.image_calls.observe_gap(gap, o.stamp.at);
        }
        self.heard.observe(o);
        match &o.body {
            Body::Pod(p) => self.file_pod(o, p),
            Body::Event(e) => {
                if e.object.kind == "Node" {
                    Arc::make_mut(&mut self.kubelet).observe(o);
                }
                self.file_event(o, e);
            }
            Body::Node(n) => self.file_node(o, n),
            // Leases are renewed for ever: `heard` keeps only the newest renewal.
            Body::Object(x) if x.object.kind == "Lease" => {}
            Body::Object(x) => self.file_object(o, x),
            Body::Watch(_) => {
                if self.lists.observe(o) {
                    self.lists_changed = true;
                }
                self.node_lists.observe(o);
                self.file_local(o);
            }
            Body::CallStart(c) => {
                // kflow's own look is no relist of the kubelet.
                if c.method == method::LIST_POD_SANDBOX && !self.clients.is_own(c.key.conn) {
                    Arc::make_mut(&mut self.kubelet).observe(o);
                }
                self.file_call(o, c);
                if self.image_calls.are_many() {
                    self.settle_image_calls();
                }
            }
            Body::CallEnd(c) => self.file_call_end(o, c),
            Body::ContainerEvent(c) => {
                self.file_subject(o, &c.subject);
            }
            Body::RuntimeEvent(e) => self.file_runtime_event(o, e),
            Body::Inventory(i) => self.file_inventory(o, i),
            Body::Pull(_) => {
                Arc::make_mut(&mut self.pulls).observe(o);
                self.file_local(o);
            }
            Body::Log(l) => {
                Arc::make_mut(&mut self.kubelet).observe(o);
                self.file_log(o, l);
            }
            Body::Audit(a) => {
                if !self.without_requests {
                    self.requests.observe(o);
                }
                Arc::make_mut(&mut self.kubelet).observe(o);
                self.file_audit(o, a);
            }
            Body::Span(s) => {
                self.links.observe(s, o.stamp.at, &mut self.offset);
                if !self.without_requests {
                    self.requests.observe(o);
                }
                Arc::make_mut(&mut self.kubelet).observe(o);
                self.learn_stored(s);
                self.file_span(o, s);
            }
            Body::Fs(f) => self.file_fs(o, f),
            Body::Sample(_) => {
                Arc::make_mut(&mut self.kubelet).observe(o);
                self.file_local(o);
            }
            Body::Conn(c) => {
                // A client's first stream is 1 (RFC 9113, 5.1.1).
                let first = CallKey {
                    conn: c.conn,
                    stream: 1,
                };
                let called = self.by_call.get(first).is_some();
                self.clients.observe_conn(c, called);
                self.file_local(o);
            }
            Body::Gap(_) | Body::ClockStep(_) | Body::Note(_) => self.file_local(o),
        }
    }

    // ---- slots -------------------------------------------------------------------------------------------------

    /// The file of a UID; created when there is none.
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
    /// The file of a name; created when there is none.
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
    pub(super) fn put(&mut self, slot: Slot, o: &Evidence) {
        if slot == NOBODY {
            return;
        }
        // Evidence that an id linked to a mirror, before it was known as one, goes to the static pod.
        let slot = self.merged(slot);
        if self.files.get(slot).is_none_or(|f| f.retired) {
            return;
        }
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
    /// Records the name of a pod.
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
    /// Files an observation under the pod that a reference names; false when the reference is empty.
    fn put_ref(&mut self, pod: &PodRef, o: &Evidence) -> bool {
        if !pod.uid.is_empty() {
            // Events arrive late, and again with every list of Events: they do not bring a removed pod back.
            if matches!(o.body, Body::Event(_)) && self.has_left(&pod.uid.0) {
                return true;
            }
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

    /// Keeps an observation until one of the keys is linked to a pod. Each key may release it once: filing it twice
    /// is harmless.
    fn wait(&mut self, keys: impl IntoIterator<Item = WaitKey>, o: &Evidence) {
        for key in keys {
            if let Some(v) = self.waiting.get_mut(&key) {
                if v.len() < WAIT_FOR_ONE {
                    v.push(Arc::clone(o));
                } else {
                    let one: Waiting = smallvec![Arc::clone(o)];
                    self.unfiled.given_up += self.count_waiting([(&key, &one)]);
                }
            } else if let Some(forgotten) = self.waiting.insert(key, smallvec![Arc::clone(o)]) {
                self.unfiled.given_up += self.count_waiting(forgotten.iter());
            }
        }
    }
    /// Number of observations that wait under these keys, each counted once.
    pub(super) fn count_waiting<'w>(
        &self,
        waiting: impl IntoIterator<Item = (&'w WaitKey, &'w Waiting)>,
    ) -> u64 {
        waiting
            .into_iter()
            .flat_map(|(key, v)| v.iter().map(move |o| (key, o)))
            .filter(|(key, o)| match &o.body {
                Body::Span(s) => {
                    node::span_keys(s, s.parent).first() == Some(*key)
                        && self.by_span.get(&s.span).is_none()
                }
                Body::CallStart(c) => {
                    call_keys(c).first() == Some(*key)
                        && self.by_call.get(c.key).is_some_and(|a| a.slot.is_none())
                }
                Body::Inventory(i) => i
                    .items
                    .first()
                    .is_some_and(|x| runtime_keys(&x.subject).next().as_ref() == Some(*key)),
                Body::ContainerEvent(c) => runtime_keys(&c.subject).next().as_ref() == Some(*key),
                Body::RuntimeEvent(e) => runtime_keys(&e.subject()).next().as_ref() == Some(*key),
                Body::Log(l) => node::log_keys(l).next().as_ref() == Some(*key),
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
                    Body::RuntimeEvent(e) => self.file_runtime_event(&o, e),
                    Body::Log(l) => self.file_log(&o, l),
                    Body::Fs(f) => self.file_fs(&o, f),
                    Body::Inventory(i) => self.file_inventory(&o, i),
                    _ => {}
                }
            }
        }
    }
    /// Records the pod and container of a runtime id.
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
    /// Records the sandbox of a container, which never changes.
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
    fn runtime_owner(&self, id: &str) -> Option<Slot> {
        if id.is_empty() {
            return None;
        }
        let slot = self.by_runtime.get(id)?.slot;
        Some(self.merged(slot))
    }
}

/// The ids that can link a subject to its pod.
fn runtime_keys(s: &Subject) -> impl Iterator<Item = WaitKey> + use<> {
    [s.container_id.0.clone(), s.sandbox_id.0.clone()]
        .into_iter()
        .filter(|id| !id.is_empty())
        .map(WaitKey::Runtime)
}

/// The keys under which a call waits that names no pod: its sandbox and container, its pod's [`CONFIG_SEEN`], and its
/// trace, unless the call belongs to a loop over all pods.
fn call_keys(c: &CallStart) -> SmallVec<[WaitKey; 4]> {
    let first_seen = c.fields.value(CONFIG_SEEN);
    let mut keys: SmallVec<[WaitKey; 4]> = runtime_keys(&c.subject)
        .chain(first_seen.map(|at| WaitKey::FirstSeen(at.into())))
        .collect();
    if let Some((trace, span)) = c.traceparent
        && runtime_keys(&c.subject).next().is_none()
        && !is_noise(&c.method)
    {
        keys.extend([WaitKey::Trace(trace), WaitKey::Span(span)]);
    }
    keys
}
