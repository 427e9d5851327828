//! Filing of the runtime's observations: calls, their responses, and lists.

use std::sync::Arc;

use super::{CALLS, CallAt, WaitKey, World};
use super::{call_keys, runtime_keys};
use crate::correlate::Call;
use crate::correlate::world::pods::Slot;
use kflow_model::Evidence;
use kflow_model::cri::{CONFIG_SEEN, method};
use kflow_model::{
    Body, Text,
    cri::{CallEnd, CallKey, CallOutcome, CallStart, Inventory, Subject, is_noise},
    runtime::RuntimeEvent,
};

impl World {
    pub(super) fn file_call(&mut self, o: &Evidence, c: &CallStart) {
        if self.by_call.get(c.key).is_some() {
            return;
        }
        self.clients.observe_call(c);
        self.by_call.insert(
            c.key,
            CallAt {
                start: o.stamp.at,
                slot: None,
            },
        );
        let s = &c.subject;
        self.calls.insert(Arc::new(Call {
            key: c.key,
            start: o.stamp.at,
            end: None,
            service: c.service,
            method: c.method.clone(),
            outcome: None,
            code: None,
            inferred: false,
            partial: c.partial,
            message: Text::default(),
            pod_uid: s.pod.uid.clone(),
            pod_inferred: false,
            namespace: s.pod.namespace.clone(),
            pod: s.pod.name.clone(),
            container: s.container.clone(),
            attempt: s.attempt,
            sandbox_id: s.sandbox_id.clone(),
            container_id: s.container_id.clone(),
            image: s.image.clone(),
            timeout_ns: c.timeout_ns,
            request_bytes: c.request_bytes,
            response_bytes: 0,
            traceparent: c.traceparent,
            filtered: c.filtered,
            started: Arc::clone(o),
            ended: None,
        }));
        self.image_calls.observe_call(o.stamp.at, c);
        if let Some(gone) = self.calls.shrink(CALLS) {
            self.unfiled.calls_forgotten += gone.len() as u64;
            for call in gone {
                self.by_call.remove(call.key);
            }
            self.clients.shrink(&self.calls);
        }
        self.join_call(o, c);
        if let Some(end) = self.ends.remove(&c.key)
            && let Body::CallEnd(e) = &end.body
        {
            self.file_call_end(&end, e);
        }
    }
    /// Files a call under its pod, or lets it wait until its pod is known.
    pub(super) fn join_call(&mut self, o: &Evidence, c: &CallStart) {
        let s = &c.subject;
        let first_seen = c.fields.value(CONFIG_SEEN).map(Text::from);
        let slot = if s.pod.uid.is_empty() {
            self.runtime_owner(s.container_id.as_str())
                .or_else(|| self.runtime_owner(s.sandbox_id.as_str()))
                .or_else(|| Some(*self.by_first_seen.get(first_seen.as_ref()?)?))
                .or_else(|| {
                    let (trace, span) = c.traceparent?;
                    // A call without an id of its own belongs to the pod sync whose trace it is in.
                    (s.container_id.is_empty() && s.sandbox_id.is_empty() && !is_noise(&c.method))
                        .then(|| {
                            self.by_span
                                .get(&span)
                                .or_else(|| self.by_trace.get(&trace))
                                .copied()
                        })
                        .flatten()
                })
        } else {
            let slot = self.slot(&s.pod.uid.0);
            self.learn_name(slot, &s.pod.namespace, &s.pod.name);
            Some(slot)
        };
        if let Some(slot) = slot {
            self.prefer_told(slot, c.key);
            self.learn_subject(slot, s);
            if let Some(at) = first_seen {
                self.learn_first_seen(at, slot);
            }
            if let Some((trace, span)) = c.traceparent
                && !is_noise(&c.method)
            {
                self.learn_span(span, slot);
                // A trace with one of these calls is one sync of one pod; a trace of garbage
                // collection contains many pods.
                if matches!(
                    c.method.as_str(),
                    method::RUN_POD_SANDBOX | method::CREATE_CONTAINER | method::PULL_IMAGE
                ) && self.by_trace.get(&trace).is_none()
                {
                    self.by_trace.insert(trace, slot);
                    self.release(&WaitKey::Trace(trace));
                }
            }
            self.put_call(slot, c.key, o);
            // The response may have arrived before the pod was known.
            if let Some(end) = self.calls_end(c.key)
                && let Body::CallEnd(e) = &end.body
            {
                self.put(slot, &end);
                self.learn_subject(slot, &e.subject);
            }
        } else {
            self.wait(call_keys(c), o);
        }
    }
    /// Files the start of a call under its pod.
    pub(in crate::correlate::world) fn put_call(&mut self, slot: Slot, key: CallKey, o: &Evidence) {
        if let Some(at) = self.by_call.get_mut(key) {
            at.slot = Some(slot);
        }
        self.put(slot, o);
        if let Some(f) = self.files.get_mut(slot)
            && !f.retired
        {
            Arc::make_mut(f).unnamed.push(key);
        }
    }
    /// Links a [`CONFIG_SEEN`] time to a pod: all calls with this time are about that pod.
    fn learn_first_seen(&mut self, at: Text, slot: Slot) {
        if self.by_first_seen.get(&at).is_none() {
            self.by_first_seen.insert(at.clone(), slot);
            self.release(&WaitKey::FirstSeen(at));
        }
    }
    fn calls_end(&self, key: CallKey) -> Option<Evidence> {
        let at = self.by_call.get(key)?;
        self.calls.get(at.start, key)?.ended.clone()
    }
    pub(super) fn file_call_end(&mut self, o: &Evidence, c: &CallEnd) {
        if c.began_unseen {
            return;
        }
        let Some(at) = self.by_call.get(c.key).copied() else {
            // The end waits for its start. A lost end does not replace one with a known outcome.
            let known = |e: &Evidence| matches!(&e.body, Body::CallEnd(e) if e.outcome != CallOutcome::Lost);
            if c.outcome == CallOutcome::Lost && self.ends.get(&c.key).is_some_and(known) {
                return;
            }
            if let Some(forgotten) = self.ends.insert(c.key, Arc::clone(o)) {
                self.unfiled.given_up += forgotten.len() as u64;
            }
            return;
        };
        self.calls.change(at.start, c.key, |call| {
            // Of two ends, one with a known outcome wins, then the earlier one.
            let was_lost = call.outcome == Some(CallOutcome::Lost);
            let lost = c.outcome == CallOutcome::Lost;
            let earlier = call.ended.as_ref().is_some_and(|e| e <= o);
            if call.ended.is_some() && (if lost == was_lost { earlier } else { lost }) {
                return;
            }
            // The clock may have been set back between the two.
            call.end = Some(o.stamp.at.max(call.start));
            call.outcome = Some(c.outcome);
            call.code = c.code;
            call.inferred = c.inferred;
            call.message.clone_from(&c.message);
            call.request_bytes = call.request_bytes.max(c.request_bytes);
            call.response_bytes = c.response_bytes;
            if call.sandbox_id.is_empty() {
                call.sandbox_id = c.subject.sandbox_id.clone();
            }
            if call.container_id.is_empty() {
                call.container_id = c.subject.container_id.clone();
            }
            call.ended = Some(Arc::clone(o));
        });
        self.image_calls.touch(at.start, c.key);
        if let Some(slot) = at.slot {
            let slot = self.merged(slot);
            self.learn_answer(slot, at, c);
            self.put(slot, o);
        } else if !c.subject.pod.uid.is_empty() {
            // The response to a status call names the pod that the request did not name.
            let slot = self.slot(&c.subject.pod.uid.0);
            self.learn_subject(slot, &c.subject);
        }
    }
    /// Links the ids in a response to the pod and container of the request.
    fn learn_answer(&mut self, slot: Slot, at: CallAt, c: &CallEnd) {
        if c.subject.sandbox_id.is_empty() && c.subject.container_id.is_empty() {
            return;
        }
        let told = self.calls.get(at.start, c.key).map(|call| {
            let container = if c.subject.container.is_empty() {
                call.container.clone()
            } else {
                c.subject.container.clone()
            };
            let sandbox_id = if c.subject.sandbox_id.is_empty() {
                call.sandbox_id.clone()
            } else {
                c.subject.sandbox_id.clone()
            };
            Subject {
                container,
                sandbox_id,
                attempt: c.subject.attempt.or(call.attempt),
                ..c.subject.clone()
            }
        });
        self.learn_subject(slot, told.as_ref().unwrap_or(&c.subject));
    }
    pub(super) fn file_subject(&mut self, o: &Evidence, s: &Subject) -> Option<Slot> {
        let slot = if s.pod.uid.is_empty() {
            self.runtime_owner(s.container_id.as_str())
                .or_else(|| self.runtime_owner(s.sandbox_id.as_str()))
        } else {
            let slot = self.slot(&s.pod.uid.0);
            self.learn_name(slot, &s.pod.namespace, &s.pod.name);
            Some(slot)
        };
        if let Some(slot) = slot {
            self.learn_subject(slot, s);
            self.put(slot, o);
        } else {
            self.wait(runtime_keys(s), o);
        }
        slot
    }
    /// Files an event of a container under its pod, and an event of an image under the node.
    pub(super) fn file_runtime_event(&mut self, o: &Evidence, e: &RuntimeEvent) {
        if !e.container_id.is_empty() {
            self.file_subject(o, &e.subject());
        } else if e.topic.starts_with("/images/") {
            self.file_local(o);
        }
    }
    pub(super) fn file_inventory(&mut self, o: &Evidence, i: &Inventory) {
        let single = i.items.len() == 1 && !i.complete;
        for item in &i.items {
            let s = &item.subject;
            if single {
                self.file_subject(o, s);
                continue;
            }
            if s.pod.uid.is_empty() {
                continue;
            }
            let slot = self.slot(&s.pod.uid.0);
            self.learn_name(slot, &s.pod.namespace, &s.pod.name);
            self.learn_subject(slot, s);
            let id = if i.sandboxes {
                &s.sandbox_id.0
            } else {
                &s.container_id.0
            };
            // Checks first, so that nothing is copied: nearly every list repeats known states.
            let known = self.files.get(slot).is_none_or(|f| {
                f.listed_items
                    .iter()
                    .any(|(i, st, e)| i == id && *st == item.state && *e <= *o)
            });
            if known {
                continue;
            }
            let Some(f) = self.files.get_mut(slot).map(Arc::make_mut) else {
                continue;
            };
            let before = f.birth();
            f.first = Some(f.first.map_or(o.stamp.at, |t| t.min(o.stamp.at)));
            f.push_listed(id, item.state, o);
            if before != f.birth()
                && let Some(n) = f.name
            {
                self.mark_name(n);
            }
            self.mark(slot);
        }
    }
}
