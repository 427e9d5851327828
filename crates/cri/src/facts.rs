//! From messages to what kflow shows: the pod and container that a call is about, the fields worth reading, the
//! sandboxes and containers that exist.

pub(super) mod answers;
pub(super) mod inventory;
pub(super) mod requests;

use super::limits;
use super::messages::{Annotations, Owner, Resources, SandboxConfig, SandboxMetadata};
use super::proto::Malformed;
use super::text::text;
use kflow_model::cri::{RuntimeState, Subject};
use kflow_model::redact;
use kflow_model::{PodNames, PodRef, Text};

/// The result of reading a message: an error when the bytes are not what its definition says.
type Decoded = Result<(), Malformed>;

/// What a message says.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) subject: Subject,
    /// The request has a filter or an id.
    pub(super) filtered: bool,
    pub(super) fields: Vec<(Text, Text)>,
}

impl Facts {
    /// Adds a text field, unless the text is empty.
    fn text(&mut self, name: &'static str, value: &str) {
        if !value.is_empty() && self.fields.len() < limits::FIELDS {
            self.fields.push((Text::new(name), cut(value)));
        }
    }
    /// Adds a number field, unless it is 0, which is protobuf's "not set".
    fn number(&mut self, name: &'static str, value: impl Into<i128>) {
        let value = value.into();
        if value != 0 {
            self.shown(name, value);
        }
    }
    fn shown(&mut self, name: &'static str, value: impl std::fmt::Display) {
        if self.fields.len() < limits::FIELDS {
            self.fields.push((Text::new(name), cut(&value.to_string())));
        }
    }
    fn flag(&mut self, name: &'static str, value: bool) {
        if value {
            self.text(name, "true");
        }
    }
    fn list(&mut self, name: &'static str, values: &[&str]) {
        self.text(name, &values.join(","));
    }
    fn annotations(&mut self, annotations: &Annotations<'_>) {
        for (key, value) in &annotations.entries {
            self.text(key, value);
        }
    }
    fn resources(&mut self, resources: Option<&Resources<'_>>) {
        let Some(r) = resources else { return };
        self.number("cpu_shares", r.cpu_shares);
        self.number("cpu_quota", r.cpu_quota);
        self.number("cpu_period", r.cpu_period);
        self.number("memory_limit_in_bytes", r.memory_limit);
        self.number("memory_swap_limit_in_bytes", r.memory_swap_limit);
        self.number("oom_score_adj", r.oom_score_adj);
        self.text("cpuset_cpus", r.cpuset_cpus);
        self.text("cpuset_mems", r.cpuset_mems);
    }
    fn sandbox_metadata(&mut self, m: &SandboxMetadata<'_>) {
        self.subject.pod = pod(m.uid, m.namespace, m.name);
        if !m.name.is_empty() {
            self.subject.attempt = Some(m.attempt);
        }
    }
    fn sandbox_config(&mut self, config: &SandboxConfig<'_>) {
        self.text("hostname", config.hostname);
        self.text("log_directory", config.log_directory);
        self.text("cgroup_parent", config.linux.cgroup_parent);
        self.list("dns_servers", &config.dns.servers.items);
        self.list("dns_searches", &config.dns.searches.items);
        for port in &config.ports.items {
            let protocol = match port.protocol {
                0 => "TCP",
                1 => "UDP",
                2 => "SCTP",
                _ => "?",
            };
            let (host, inner) = (port.host_port, port.container_port);
            if host != 0 {
                self.shown("host_port", format_args!("{host}:{inner}/{protocol}"));
            }
        }
        let namespaces = &config.linux.security.namespaces;
        for (name, mode) in [
            ("network", namespaces.network),
            ("pid", namespaces.pid),
            ("ipc", namespaces.ipc),
        ] {
            // Only NODE (2) is shown: POD, CONTAINER and TARGET are the usual modes.
            if mode == 2 {
                self.text(name, "host");
            }
        }
        self.flag("privileged", config.linux.security.privileged);
        self.resources(config.linux.resources.as_ref());
        self.annotations(&config.annotations);
    }
}

fn cut(value: &str) -> Text {
    if value.len() <= limits::TEXT {
        return Text::new(value);
    }
    // Redaction comes before the cut, because half of a secret would not be recognised.
    text(redact::text(value).as_bytes(), limits::TEXT)
}

fn pod(uid: &str, namespace: &str, name: &str) -> PodRef {
    PodRef::from(PodNames {
        uid: cut(uid).into(),
        namespace: cut(namespace),
        name: cut(name),
    })
}

fn owner(labels: &Owner<'_>) -> PodRef {
    pod(
        labels.get("io.kubernetes.pod.uid"),
        labels.get("io.kubernetes.pod.namespace"),
        labels.get("io.kubernetes.pod.name"),
    )
}

fn sandbox_state(state: i32) -> (RuntimeState, &'static str) {
    match state {
        0 => (RuntimeState::Ready, "READY"),
        1 => (RuntimeState::NotReady, "NOTREADY"),
        _ => (RuntimeState::Unknown, "?"),
    }
}

fn container_state(state: i32) -> (RuntimeState, &'static str) {
    match state {
        0 => (RuntimeState::Created, "CREATED"),
        1 => (RuntimeState::Running, "RUNNING"),
        2 => (RuntimeState::Exited, "EXITED"),
        _ => (RuntimeState::Unknown, "UNKNOWN"),
    }
}
