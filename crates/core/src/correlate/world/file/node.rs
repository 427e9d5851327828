//! Filing of the node's observations: log lines, files, spans.

use smallvec::SmallVec;

use super::WaitKey;
use crate::correlate::world::World;
use crate::correlate::world::pods::{NOBODY, Slot};
use kflow_model::Evidence;
use kflow_model::{
    SpanId, Text,
    cri::is_noise,
    fs::{FsChange, FsObject},
    log::{Component, LogLine},
    span::{SpanKind, SpanRecord},
};

impl World {
    /// Files a line under the pods that it names, else under the pod of its container or sandbox.
    pub(super) fn file_log(&mut self, o: &Evidence, l: &LogLine) {
        let mut filed = self.put_ref(&l.pod, o);
        let named = (filed && !l.pod.uid.is_empty()).then(|| self.slot(&l.pod.uid.0));
        let sandbox = sandbox_of(l);
        let ids = [&l.container_id.0, &sandbox];
        let by_id = |w: &Self| ids.into_iter().find_map(|id| w.runtime_owner(id));
        let owner = named.or_else(|| by_id(self));
        if let Some(slot) = owner
            && (named.is_some() || !sandbox.is_empty())
        {
            self.learn_runtime(&sandbox, slot, &Text::default(), None, true);
            self.learn_runtime(&l.container_id.0, slot, &l.container, None, false);
            self.learn_sandbox(&l.container_id.0, &sandbox);
        }
        for pod in &l.more_pods {
            filed |= self.put_ref(pod, o);
        }
        if filed {
            return;
        }
        if let Some(slot) = owner {
            self.put(slot, o);
        } else if ids.iter().all(|id| id.is_empty()) {
            self.file_local(o);
        } else {
            self.wait(log_keys(l), o);
        }
    }
    pub(super) fn file_fs(&mut self, o: &Evidence, f: &FsChange) {
        if let Some(uid) = f.object.pod() {
            let slot = self.slot(&uid.0);
            if let FsObject::ContainerCgroup { id, .. } = &f.object {
                self.learn_runtime(&id.0, slot, &Text::default(), None, false);
            }
            self.put(slot, o);
        } else if let FsObject::RuntimeMount { id, .. } = &f.object {
            if let Some(slot) = self.runtime_owner(id.as_str()) {
                self.put(slot, o);
            } else {
                self.wait([WaitKey::Runtime(id.0.clone())], o);
            }
        }
    }
    /// Finds the pod of a span: by the span's own attributes, by the call that the tap saw, or by the parent span.
    ///
    /// Each rule always gives the same answer when it gives one, and a span waits for every rule that could answer,
    /// so the order of arrival does not matter. The trace id alone is no rule: it does not tell whether the parent is
    /// about no pod.
    pub(super) fn file_span(&mut self, o: &Evidence, s: &SpanRecord) {
        if is_cri_client(s) && s.name.rsplit_once('/').is_some_and(|(_, m)| is_noise(m)) {
            return self.learn_span(s.span, NOBODY);
        }
        let slot = match self.span_owner(s) {
            Ok(slot) => slot,
            Err(parent) => {
                let keys = span_keys(s, parent);
                let own = |k: &WaitKey| *k == WaitKey::Span(s.span);
                // The kubelet's client span of a call outside any sync waits: the tap may tell the call's pod.
                if keys.iter().all(own) && !is_cri_client(s) {
                    return self.learn_span(s.span, NOBODY);
                }
                return self.wait(keys, o);
            }
        };
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
    }
    /// Returns the pod of a span. When it is not known, returns the parent as the error, `None` if the parent is
    /// about no pod.
    fn span_owner(&mut self, s: &SpanRecord) -> Result<Slot, Option<SpanId>> {
        if let Some(uid) = (s.attributes.text("k8s.pod.uid")).filter(|u| !u.is_empty()) {
            let slot = self.slot(uid);
            if let Some((ns, name)) = s.attribute("k8s.pod").and_then(|p| p.split_once('/')) {
                self.learn_name(slot, ns, name);
            }
            return Ok(slot);
        }
        for id in runtime_ids(s) {
            if let Some(slot) = self.runtime_owner(id) {
                return Ok(slot);
            }
        }
        if let Some(audit) = audit_of(s)
            && let Some(slot) = self.by_audit.get(audit)
        {
            return Ok(*slot);
        }
        if let Some(slot) = self.by_span.get(&s.span) {
            return Ok(*slot);
        }
        let parent = s.parent.ok_or(None)?;
        match self.by_span.get(&parent) {
            None => Err(Some(parent)),
            // Garbage collection is about no single pod, but each of its calls is about one.
            Some(&NOBODY) if is_cri_client(s) || names_somebody(s) => Err(None),
            Some(slot) => Ok(*slot),
        }
    }
}

/// The sandbox that a line of the runtime's log names; empty when it names none.
fn sandbox_of(l: &LogLine) -> Text {
    let named = l.fields.iter().find(|(key, _)| key == "sandbox");
    match l.component {
        Component::Containerd | Component::Crio => named.map(|(_, id)| id.clone()),
        _ => None,
    }
    .unwrap_or_default()
}

/// The keys that a line waits for: its container, and its sandbox.
pub(super) fn log_keys(l: &LogLine) -> impl Iterator<Item = WaitKey> + use<> {
    [l.container_id.0.clone(), sandbox_of(l)]
        .into_iter()
        .filter(|id| !id.is_empty())
        .map(WaitKey::Runtime)
}

/// The keys that a span waits for: the call whose client side it is, as the tap may tell the call's pod; its ids; and
/// the parent span.
pub(super) fn span_keys(s: &SpanRecord, parent: Option<SpanId>) -> SmallVec<[WaitKey; 4]> {
    let call = is_call(s).then_some(WaitKey::Span(s.span));
    let runtime = runtime_ids(s).map(|id| WaitKey::Runtime(id.clone()));
    let audit = audit_of(s).map(|id| WaitKey::Audit(id.clone()));
    let keys = call.into_iter().chain(runtime).chain(audit);
    keys.chain(parent.map(WaitKey::Span)).collect()
}

/// The container and sandbox ids in a span's attributes.
fn runtime_ids(s: &SpanRecord) -> impl Iterator<Item = &Text> {
    ["container.id", "sandbox.id"]
        .into_iter()
        .filter_map(|key| s.attributes.text(key))
        .filter(|id| !id.is_empty())
}

/// True for a span with an id that may turn out to be a pod's.
fn names_somebody(s: &SpanRecord) -> bool {
    runtime_ids(s).next().is_some() || audit_of(s).is_some()
}

/// The audit id of the request that a span of the apiserver handles, if the request is about pods. Spans within it
/// have the id too, and are linked by their parent.
fn audit_of(s: &SpanRecord) -> Option<&Text> {
    let is_of_pods = s.name.contains("/pods");
    is_of_pods.then(|| s.attributes.text("audit-id")).flatten()
}

/// True for the client's side of a CRI call.
fn is_call(s: &SpanRecord) -> bool {
    s.kind == SpanKind::Client && s.name.starts_with("runtime.v1")
}

/// True for the kubelet's client span of a CRI call.
fn is_cri_client(s: &SpanRecord) -> bool {
    is_call(s) && s.service == "kubelet"
}
