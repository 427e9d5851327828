//! What the CRI calls of a pod show: calls in flight, failures, successes.

use rustc_hash::FxHashMap;

use super::{PodCall, PodHistory};
use crate::diagnose::{pulls, signal};
use kflow_model::Evidence;
use kflow_model::cri::method;
use kflow_model::{
    Nanos, Text,
    cri::{CallEnd, CallKey, CallOutcome, CallStart, failed},
};

impl<'a> PodHistory<'a> {
    pub(super) fn call_start(
        &mut self,
        o: &'a Evidence,
        c: &'a CallStart,
        open: &mut FxHashMap<CallKey, PodCall<'a>>,
    ) {
        let at = o.stamp.at;
        self.sign(at);
        let mut container = if c.subject.container.is_empty() {
            self.name_of(&c.subject.container_id)
        } else {
            c.subject.container.clone()
        };
        match c.method.as_str() {
            method::RUN_POD_SANDBOX => {
                self.sandbox_attempts += 1;
                self.sandbox_trying.get_or_insert(at);
                self.volumes = self.volumes.max(Some(at));
            }
            method::PULL_IMAGE if container.is_empty() => {
                container = self.by_image(&c.subject.image);
            }
            method::CREATE_CONTAINER => {
                let k = self.container(&container);
                k.pulled = k.pulled.max(Some(at));
            }
            _ => {}
        }
        if c.method == method::STOP_CONTAINER
            && let Some(t) = c
                .fields
                .iter()
                .find(|(k, _)| k == "timeout")
                .and_then(|(_, v)| v.parse().ok())
        {
            self.grace_s.get_or_insert(t);
        }
        open.insert(
            c.key,
            PodCall {
                start: c,
                at,
                end: None,
                container,
                evidence: o,
            },
        );
    }

    /// Returns the container that an image is pulled for: the first one with that image that has not started.
    pub(super) fn by_image(&self, image: &str) -> Text {
        let spec = |c: &&crate::correlate::ContainerView| c.image == image;
        self.view
            .containers
            .iter()
            .filter(spec)
            .find(|c| self.known(&c.name).is_none_or(|k| k.started.is_none()))
            .or_else(|| self.view.containers.iter().find(spec))
            .map(|c| c.name.clone())
            .or_else(|| {
                // Without the API: the container for which the kubelet said that it pulls the image.
                let said = |c: &&super::ContainerHistory<'_>| {
                    c.pulling
                        .and_then(|(_, o)| pulls::image_of(o))
                        .is_some_and(|i| i == image)
                };
                self.containers
                    .iter()
                    .rev()
                    .find(said)
                    .map(|c| c.name.clone())
            })
            .unwrap_or_default()
    }

    pub(super) fn call_end(
        &mut self,
        o: &'a Evidence,
        c: &'a CallEnd,
        open: &mut FxHashMap<CallKey, PodCall<'a>>,
    ) {
        let Some(mut call) = open.remove(&c.key) else {
            return;
        };
        let at = o.stamp.at;
        call.end = Some(at);
        let method = call.start.method.as_str();
        let Some(error) = signal::call_error(c) else {
            if failed(c.outcome, c.code, &c.message).is_some() {
                self.succeeded(at, method, &call, c);
            } else if c.outcome == CallOutcome::Lost {
                // A later observation may still tell how the call ended.
                open.insert(c.key, call);
            }
            return;
        };
        let deadline = c.outcome == CallOutcome::ClientReset || c.code == Some(4);
        if deadline {
            self.timed_out.push(call.clone());
        }
        if let Some(reason) = signal::of_method(method) {
            if method == method::PULL_IMAGE {
                self.pull_failures += 1;
            }
            self.push(reason, &call.container, error, o, 1);
        }
    }

    pub(super) fn succeeded(&mut self, at: Nanos, method: &str, call: &PodCall<'a>, end: &CallEnd) {
        self.answered = Some(at);
        match method {
            method::RUN_POD_SANDBOX => {
                self.sandbox_stopped = None;
                self.sandbox = self.sandbox.max(Some(at));
                self.sandbox_since = Some(at);
                self.sandbox_trying = None;
                self.sandboxes += 1;
            }
            method::PULL_IMAGE => {
                self.pull_failures = 0;
                let c = self.container(&call.container);
                c.pulled = c.pulled.max(Some(at));
            }
            method::CREATE_CONTAINER => {
                if !end.subject.container_id.is_empty() {
                    self.ids
                        .push((end.subject.container_id.clone(), call.container.clone()));
                }
                let c = self.container(&call.container);
                c.created = c.created.max(Some(at));
            }
            method::START_CONTAINER => {
                let c = self.container(&call.container);
                c.started = c.started.max(Some(at));
                c.started_id = call.start.subject.container_id.clone();
            }
            method::STOP_POD_SANDBOX => self.sandbox_stopped = Some(at),
            method::REMOVE_POD_SANDBOX if self.sandbox_stopped.is_some() => self.removed = Some(at),
            method::STOP_CONTAINER => {
                let c = self.container(&call.container);
                c.stopped = Some(at);
                c.stopping = Some(call.at);
            }
            _ => {}
        }
    }
}
