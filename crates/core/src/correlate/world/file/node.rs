//! Filing of what the node tells: log lines, files, spans.

use super::WaitKey;
use crate::correlate::world::World;
use crate::correlate::world::pods::{NOBODY, Slot};
use kflow_model::Evidence;
use kflow_model::{
    Text,
    cri::is_noise,
    fs::{FsChange, FsObject},
    log::LogLine,
    span::{SpanKind, SpanRecord},
};

impl World {
    pub(super) fn file_log(&mut self, o: &Evidence, l: &LogLine) {
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
    pub(super) fn file_fs(&mut self, o: &Evidence, f: &FsChange) {
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
    pub(super) fn file_span(&mut self, o: &Evidence, s: &SpanRecord) {
        self.learn_stored(s);
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

/// True for a span with an id that may turn out to be a pod's.
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

/// The kubelet's span of a CRI call.
fn is_cri_client(s: &SpanRecord) -> bool {
    s.kind == SpanKind::Client && s.service == "kubelet" && s.name.starts_with("runtime.v1")
}
