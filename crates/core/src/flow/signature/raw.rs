//! Signatures as `map.toml` writes them, and their translation.

use serde::Deserialize;
use std::collections::BTreeMap;

use super::{EdgeKind, Fact, Pattern, PodFact, Signature, Template, What};
use kflow_model::{Text, cri::ContainerEventKind, fs::FsAction, log::Component};

/// A signature as the file writes it: exactly one key of the first group, and the further keys that belong to it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::flow) struct RawSignature {
    log: Option<String>,
    event: Option<String>,
    cri: Option<String>,
    span: Option<String>,
    audit: Option<String>,
    condition: Option<String>,
    pod: Option<String>,
    fs: Option<String>,
    container_event: Option<ContainerEventKind>,
    sandbox_event: Option<ContainerEventKind>,
    metric: Option<String>,
    endpoint: Option<String>,
    health: Option<String>,
    none: Option<String>,

    by: Option<String>,
    message: Option<String>,
    contains: Option<String>,
    about: Option<String>,
    service: Option<String>,
    #[serde(rename = "where")]
    fields: BTreeMap<String, String>,
    pub(in crate::flow) fact: Option<Fact>,
    read: Vec<Template>,
    names: BTreeMap<String, String>,
    edge: EdgeKind,
    filtered: Option<bool>,
    deadline: Option<bool>,
    node: Option<bool>,
    action: Vec<FsAction>,
    inner: Option<String>,
    since: Option<String>,
    until: Option<String>,
}

/// Names of the objects of the file system that a signature may name.
const FS_OBJECTS: [&str; 8] = [
    "container_cgroup",
    "net_ns",
    "pod_cgroup",
    "pod_dir",
    "pod_file",
    "runtime_mount",
    "volume",
    "volume_mount",
];

/// Fewest bytes of a prefix: shorter ones would fit too many texts, and the index finds prefixes by their first bytes.
pub(in crate::flow) const PREFIX_LEAST: usize = 4;

impl RawSignature {
    /// Returns the signature. The error says what is wrong with it. `component` writes the log lines, unless the
    /// signature names another.
    pub(in crate::flow) fn build(self, component: Option<Component>) -> Result<Signature, String> {
        let kinds = [
            self.log.is_some(),
            self.event.is_some(),
            self.cri.is_some(),
            self.span.is_some(),
            self.audit.is_some(),
            self.condition.is_some(),
            self.pod.is_some(),
            self.fs.is_some(),
            self.container_event.is_some(),
            self.sandbox_event.is_some(),
            self.metric.is_some(),
            self.endpoint.is_some(),
            self.health.is_some(),
            self.none.is_some(),
        ];
        if kinds.iter().filter(|k| **k).count() != 1 {
            return Err("an entry of `evidence` needs exactly one of log, event, cri, span, audit, condition, pod, fs, container_event, sandbox_event, metric, endpoint, health, none".into());
        }
        if self.fact.is_some()
            && self.log.is_none()
            && self.event.is_none()
            && self.span.is_none()
            && !self.pod.as_ref().is_some_and(|p| p.starts_with("message="))
        {
            return Err("`fact` goes with log, event, span or the message of a pod".into());
        }
        let pattern = |s: &Option<String>| Pattern::parse(s.as_deref().unwrap_or_default());
        let text = |s: &Option<String>| Text::from(s.as_deref().unwrap_or_default());
        let what = if let Some(message) = &self.log {
            let message = Pattern::parse(message);
            match &message {
                Pattern::Any => return Err("`log` needs a message".into()),
                Pattern::Starts(t) if t.len() < PREFIX_LEAST => {
                    return Err(format!("the prefix `{t}…` is too short"));
                }
                _ => {}
            }
            What::Log {
                component: match &self.by {
                    Some(by) => Some(parse_component(by)?),
                    None => component,
                },
                message,
                contains: self.contains.as_deref().unwrap_or_default().into(),
                fields: self
                    .fields
                    .iter()
                    .map(|(k, v)| (k.into(), Pattern::parse(v)))
                    .collect(),
            }
        } else if let Some(reason) = &self.event {
            What::Event {
                reason: Pattern::parse(reason),
                message: pattern(&self.message),
                contains: self.contains.as_deref().unwrap_or_default().into(),
                about: Pattern::parse(self.about.as_deref().unwrap_or("Pod")),
                by: pattern(&self.by),
            }
        } else if let Some(method) = &self.cri {
            What::Call {
                method: method.into(),
                filtered: self.filtered,
                deadline: self.deadline,
            }
        } else if let Some(name) = &self.span {
            What::Span {
                name: Pattern::parse(name),
                service: pattern(&self.service),
            }
        } else if let Some(request) = &self.audit {
            let (verb, resource) = request
                .split_once(' ')
                .ok_or("`audit` is a verb and a resource: `create pods/binding`")?;
            What::Audit {
                verb: verb.into(),
                resource: resource.into(),
                by: pattern(&self.by),
            }
        } else if let Some(condition) = &self.condition {
            let (kind, rest) = condition
                .split_once('=')
                .ok_or("`condition` is `Type=Status` or `Type=Status/Reason`")?;
            let (status, reason) = rest.split_once('/').unwrap_or((rest, ""));
            What::Condition {
                node: self.node.unwrap_or(false),
                kind: kind.into(),
                status: status.into(),
                reason: Pattern::parse(reason),
            }
        } else if let Some(fact) = &self.pod {
            What::Pod(parse_pod(fact)?)
        } else if let Some(object) = &self.fs {
            if !FS_OBJECTS.contains(&object.as_str()) {
                return Err(format!("`fs` is one of {}", FS_OBJECTS.join(", ")));
            }
            What::Fs {
                object: object.into(),
                actions: if self.action.is_empty() {
                    vec![FsAction::Created]
                } else {
                    self.action.clone()
                },
                inner: pattern(&self.inner),
            }
        } else if let Some(kind) = self.container_event {
            What::ContainerEvent(kind)
        } else if let Some(kind) = self.sandbox_event {
            What::SandboxEvent(kind)
        } else if let Some(name) = &self.metric {
            What::Metric(name.into())
        } else if let Some(name) = &self.endpoint {
            What::Endpoint(name.into())
        } else if let Some(name) = &self.health {
            What::Health(Pattern::parse(name))
        } else {
            What::None(text(&self.none))
        };
        Ok(Signature {
            what,
            edge: self.edge,
            since: text(&self.since),
            until: text(&self.until),
            fact: self.fact,
            read: self.read,
            names: self
                .names
                .iter()
                .map(|(k, v)| (k.into(), v.into()))
                .collect(),
        })
    }
}

pub(in crate::flow) fn parse_component(name: &str) -> Result<Component, String> {
    let named = Component::ALL.into_iter().find(|c| c.name() == name);
    named.ok_or_else(|| {
        let names = Component::ALL.map(Component::name).join(", ");
        format!("`{name}` is none of {names}")
    })
}

fn parse_pod(fact: &str) -> Result<PodFact, String> {
    let (key, value) = fact.split_once('=').unwrap_or((fact, ""));
    Ok(match (key, value) {
        ("phase", v) if !v.is_empty() => PodFact::Phase(v.into()),
        ("reason", v) if !v.is_empty() => PodFact::Reason(Pattern::parse(v)),
        ("message", v) if !v.is_empty() => PodFact::Message(Pattern::parse(v)),
        ("waiting", v) if !v.is_empty() => PodFact::Waiting(v.into()),
        ("terminated", v) if !v.is_empty() => PodFact::Terminated(v.into()),
        ("deletion", "") => PodFact::Deletion,
        ("startTime", "") => PodFact::StartTime,
        ("node", "") => PodFact::Node,
        ("nominatedNode", "") => PodFact::NominatedNode,
        ("ip", "") => PodFact::Ip,
        _ => return Err(format!("`pod = \"{fact}\"` is no fact that kflow knows")),
    })
}
