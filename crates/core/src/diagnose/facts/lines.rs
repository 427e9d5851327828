//! What lines of the kubelet's and the runtime's log say of a pod.

use super::{Facts, Turn};
use crate::diagnose::signal::{self, old, old::Old};
use crate::flow::said;
use kflow_model::Evidence;
use kflow_model::{
    Text,
    log::{Component, LogLine},
};

impl<'a> Facts<'a> {
    pub(super) fn log(&mut self, o: &'a Evidence, l: &'a LogLine) {
        let at = o.stamp.at;
        if l.component == Component::Kubelet {
            self.has_log = true;
        }
        if let Some((reason, message, path)) = signal::logged_event(l) {
            self.sign(at);
            self.happened(o, reason, message, signal::container_of_path(path), 1);
            return;
        }
        let plain = l.error.is_empty() && l.fields.is_empty();
        match Some(l.message.as_str())
            .filter(|_| plain)
            .and_then(old::read)
        {
            Some(Old::Event {
                reason,
                message,
                path,
            }) => {
                self.sign(at);
                self.happened(o, reason, message, signal::container_of_path(path), 1);
            }
            Some(Old::Probe {
                kind,
                container,
                text,
                errored,
            }) => {
                self.probe(o, kind, text, container);
                self.container(container).mark_errored(kind, errored);
            }
            Some(Old::Line { message, error }) => self.line(o, l, message, error),
            None => self.line(o, l, said(l), &l.error),
        }
    }

    fn line(&mut self, o: &'a Evidence, l: &'a LogLine, message: &'a str, error: &'a str) {
        let at = o.stamp.at;
        match message {
            "Waiting for volumes to attach and mount for pod" => self.volumes_wait = Some((at, o)),
            "SyncLoop ADD" | "SyncPod enter" => self.sign(at),
            "All volumes are attached and mounted for pod" => {
                self.volumes = self.volumes.max(Some(at));
            }
            "Created PodSandbox for pod" => self.sandbox = self.sandbox.max(Some(at)),
            "Creating container in pod" => {
                if let Some(kind) = l.field("containerType").filter(|_| !l.container.is_empty()) {
                    self.container(&l.container).kind = kind;
                }
            }
            "SyncLoop REMOVE" => self.removed = Some(at),
            "SyncLoop DELETE" | "Pod is marked for graceful deletion, begin teardown" => {
                if self.deleted.is_none() {
                    self.deleted = Some(at);
                }
            }
            "Running preStop hook" => {
                let name = self.log_container(l);
                self.container(&name).prestop = Some((at, o));
            }
            "PreStop hook completed" => {
                let name = self.log_container(l);
                self.container(&name).prestop = None;
            }
            "SyncLoop (probe)" => {
                let ready = l.field("status") == Some("ready");
                if l.field("probe") == Some("readiness") && !l.container.is_empty() {
                    self.container(&l.container).ready_said = Some((at, ready));
                    if self.api.is_none() {
                        let ended = !ready && !self.container(&l.container).runs();
                        self.turn(Turn { at, ready, ended });
                    }
                }
            }
            "Probe succeeded" => {
                let readiness = l.field("probeType") == Some("Readiness");
                let name = l.container.clone();
                let c = self.container(&name);
                if readiness {
                    c.ready_said = Some((at, true));
                }
            }
            "Probe failed" | "Probe errored" => {
                self.has_log = true;
                let kind = l.field("probeType").unwrap_or("Readiness");
                let said = l.field("output").unwrap_or(&l.error);
                self.probe(o, kind, said, &l.container);
            }
            "Message for Container of pod" => {
                if let Some(m) = l.field("containerMessage") {
                    let name = l.container.clone();
                    self.killing(o, m, &name);
                }
            }
            "Killing container with a grace period" => {
                if let Some(g) = l.field("gracePeriod").and_then(|g| g.parse().ok()) {
                    self.grace_s.get_or_insert(g);
                }
            }
            _ => {
                if let Some((reason, container, text)) = signal::of_line(l, message, error) {
                    if reason == "FailedPreStopHook" {
                        self.container(&container).prestop = None;
                    }
                    // The runtime's log has ids, and no names.
                    let container = if container.is_empty() {
                        self.name_of(&l.container_id)
                    } else {
                        container
                    };
                    self.push(reason, &container, text, o, 1);
                }
            }
        }
    }

    fn log_container(&self, l: &LogLine) -> Text {
        if l.container.is_empty() {
            self.name_of(&l.container_id)
        } else {
            l.container.clone()
        }
    }
}
