//! One kind of evidence of a step, as the map's file writes it.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

use crate::model::{Text, cri::ContainerEventKind, fs::FsAction, log::Component};

/// A text to compare with: anything, one text, or what begins with one (`…` at its end in the file).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// Anything.
    #[default]
    Any,
    /// Equal.
    Is(Text),
    /// Begins with.
    Starts(Text),
}

impl Pattern {
    /// Reads a pattern; an empty text and `…` alone are anything.
    pub fn parse(s: &str) -> Self {
        match s.strip_suffix('…') {
            None if s.is_empty() => Self::Any,
            None => Self::Is(s.into()),
            Some("") => Self::Any,
            Some(start) => Self::Starts(start.into()),
        }
    }
    /// True when the text fits.
    pub fn fits(&self, s: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Is(t) => t == s,
            Self::Starts(t) => s.starts_with(t.as_str()),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("…"),
            Self::Is(t) => f.write_str(t),
            Self::Starts(t) => write!(f, "{t}…"),
        }
    }
}

/// Which edge of a step a clue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgeKind {
    /// It begins.
    Begin,
    /// It ends.
    End,
    /// It is somewhere in it, or an effect of it.
    #[default]
    Point,
}

/// Kinds of clues, best first: which one measures a step best when several tell of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClueKind {
    /// A CRI call.
    Call,
    /// An OpenTelemetry span.
    Span,
    /// A log line.
    Log,
    /// An API request.
    Audit,
    /// A change in cgroups, directories, mounts.
    Fs,
    /// A message of GetContainerEvents.
    ContainerEvent,
    /// A Kubernetes Event.
    Event,
    /// A condition or field of an object's status.
    Status,
    /// A metric or health endpoint.
    Metric,
    /// Nothing can be seen.
    None,
}

impl ClueKind {
    /// A word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "CRI",
            Self::Span => "span",
            Self::Log => "log",
            Self::Audit => "audit",
            Self::Fs => "fs",
            Self::ContainerEvent => "container event",
            Self::Event => "event",
            Self::Status => "status",
            Self::Metric => "metric",
            Self::None => "–",
        }
    }
}

/// A fact of a pod's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodFact {
    /// `status.phase`.
    Phase(Text),
    /// `status.reason`.
    Reason(Pattern),
    /// A container waits for this reason.
    Waiting(Text),
    /// A container ended, now or the last time, for this reason.
    Terminated(Text),
    /// `metadata.deletionTimestamp` is set.
    Deletion,
    /// `status.startTime` is set.
    StartTime,
    /// `spec.nodeName` is set.
    Node,
    /// `status.nominatedNodeName` is set.
    NominatedNode,
    /// `status.podIP` is set.
    Ip,
}

/// What lights a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A log line.
    Log {
        /// Who writes it.
        component: Component,
        /// Its message.
        message: Pattern,
        /// A text inside the message or the error, empty for none.
        contains: Text,
        /// Fields and their values.
        fields: Vec<(Text, Pattern)>,
    },
    /// A Kubernetes Event.
    Event {
        /// Its reason.
        reason: Pattern,
        /// Its message.
        message: Pattern,
        /// A text inside the message, empty for none.
        contains: Text,
        /// Kind of the object.
        about: Pattern,
        /// Reporting component.
        by: Pattern,
    },
    /// A CRI call.
    Call {
        /// Method.
        method: Text,
        /// List calls: with a filter, without, or either.
        filtered: Option<bool>,
        /// With a deadline, without, or either.
        deadline: Option<bool>,
    },
    /// A span.
    Span {
        /// Its name.
        name: Pattern,
        /// `service.name`.
        service: Pattern,
    },
    /// An API request.
    Audit {
        /// Verb.
        verb: Text,
        /// Resource with subresource.
        resource: Text,
        /// User.
        by: Pattern,
    },
    /// A condition of a pod or node.
    Condition {
        /// Of a node.
        node: bool,
        /// Type.
        kind: Text,
        /// Status.
        status: Text,
        /// Reason.
        reason: Pattern,
    },
    /// A fact of a pod.
    Pod(PodFact),
    /// A change in the file system.
    Fs {
        /// Name of the variant of [`FsObject`](crate::model::fs::FsObject) in its serialised form.
        object: Text,
        /// What happened, any of these.
        actions: Vec<FsAction>,
        /// Path inside, or what is mounted.
        inner: Pattern,
    },
    /// A container event of the runtime.
    ContainerEvent(ContainerEventKind),
    /// A family of metrics with a value that is not zero.
    Metric(Text),
    /// A scrape of an endpoint.
    Endpoint(Text),
    /// A check that a health endpoint names.
    Health(Pattern),
    /// Nothing can be seen, for this reason.
    None(Text),
}

/// What lights a step, which edge of it, and in which versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clue {
    /// What.
    pub what: What,
    /// Which edge.
    pub edge: EdgeKind,
    /// Oldest version with it, empty for any.
    pub since: Text,
    /// Newest version with it, empty for any.
    pub until: Text,
}

impl Clue {
    /// Its kind.
    pub const fn kind(&self) -> ClueKind {
        match self.what {
            What::Call { .. } => ClueKind::Call,
            What::Span { .. } => ClueKind::Span,
            What::Log { .. } => ClueKind::Log,
            What::Audit { .. } => ClueKind::Audit,
            What::Fs { .. } => ClueKind::Fs,
            What::ContainerEvent(_) => ClueKind::ContainerEvent,
            What::Event { .. } => ClueKind::Event,
            What::Condition { .. } | What::Pod(_) => ClueKind::Status,
            What::Metric(_) | What::Endpoint(_) | What::Health(_) => ClueKind::Metric,
            What::None(_) => ClueKind::None,
        }
    }
}

impl fmt::Display for Clue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, kind) = (&self.what, self.kind().name());
        match what {
            What::Log {
                message,
                contains,
                fields,
                ..
            } => {
                write!(f, "{kind} `{message}`")?;
                for (k, v) in fields {
                    write!(f, " {k}={v}")?;
                }
                if !contains.is_empty() {
                    write!(f, " with `{contains}`")?;
                }
            }
            What::Event {
                reason, message, ..
            } => {
                write!(f, "{kind} {reason}")?;
                if *message != Pattern::Any {
                    write!(f, " `{message}`")?;
                }
            }
            What::Call {
                method,
                filtered,
                deadline,
            } => {
                write!(f, "{kind} {method}")?;
                match (filtered, deadline) {
                    (Some(true), _) => f.write_str(" (with filter)")?,
                    (Some(false), _) => f.write_str(" (without filter)")?,
                    (_, Some(true)) => f.write_str(" (with deadline)")?,
                    (_, Some(false)) => f.write_str(" (without deadline)")?,
                    _ => {}
                }
            }
            What::Span { name, service } => write!(f, "{kind} {name} of {service}")?,
            What::Audit { verb, resource, by } => {
                write!(f, "{kind} {verb} {resource}")?;
                if *by != Pattern::Any {
                    write!(f, " by {by}")?;
                }
            }
            What::Condition {
                node,
                kind: condition,
                status,
                reason,
            } => {
                let of = if *node { "node condition" } else { "condition" };
                write!(f, "{of} {condition}={status}")?;
                if *reason != Pattern::Any {
                    write!(f, "/{reason}")?;
                }
            }
            What::Pod(fact) => match fact {
                PodFact::Phase(t) => write!(f, "status phase={t}")?,
                PodFact::Reason(t) => write!(f, "status reason={t}")?,
                PodFact::Waiting(t) => write!(f, "status waiting={t}")?,
                PodFact::Terminated(t) => write!(f, "status terminated={t}")?,
                PodFact::Deletion => f.write_str("deletionTimestamp")?,
                PodFact::StartTime => f.write_str("status startTime")?,
                PodFact::Node => f.write_str("spec nodeName")?,
                PodFact::NominatedNode => f.write_str("status nominatedNodeName")?,
                PodFact::Ip => f.write_str("status podIP")?,
            },
            What::Fs {
                object,
                actions,
                inner,
            } => {
                write!(f, "{kind} {object}")?;
                if *inner != Pattern::Any {
                    write!(f, " {inner}")?;
                }
                for (i, a) in actions.iter().enumerate() {
                    let sep = if i == 0 { ' ' } else { '|' };
                    write!(f, "{sep}{}", action(*a))?;
                }
            }
            What::ContainerEvent(k) => write!(f, "{kind} {k:?}")?,
            What::Metric(name) => write!(f, "{kind} {name}")?,
            What::Endpoint(name) => write!(f, "endpoint {name}")?,
            What::Health(name) => write!(f, "health {name}")?,
            What::None(why) => write!(f, "none: {why}")?,
        }
        match (self.since.as_str(), self.until.as_str()) {
            ("", "") => Ok(()),
            (since, "") => write!(f, " (since {since})"),
            ("", until) => write!(f, " (until {until})"),
            (since, until) => write!(f, " ({since} to {until})"),
        }
    }
}

const fn action(a: FsAction) -> &'static str {
    match a {
        FsAction::Created => "created",
        FsAction::Removed => "removed",
        FsAction::Changed => "changed",
        FsAction::Present => "present",
    }
}

/// A clue as the file writes it: exactly one of the first keys, and those that go with it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawClue {
    log: Option<String>,
    event: Option<String>,
    cri: Option<String>,
    span: Option<String>,
    audit: Option<String>,
    condition: Option<String>,
    pod: Option<String>,
    fs: Option<String>,
    container_event: Option<ContainerEventKind>,
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
    edge: EdgeKind,
    filtered: Option<bool>,
    deadline: Option<bool>,
    node: Option<bool>,
    action: Vec<FsAction>,
    inner: Option<String>,
    since: Option<String>,
    until: Option<String>,
}

/// Names of the objects of the file system that a clue may name.
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

/// Shortest text of a prefix: shorter ones would fit too much, and the matcher sorts prefixes by their first bytes.
pub(super) const PREFIX_LEAST: usize = 4;

impl RawClue {
    /// The clue, or what is wrong with it.
    pub(super) fn build(self, component: Component) -> Result<Clue, String> {
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
            self.metric.is_some(),
            self.endpoint.is_some(),
            self.health.is_some(),
            self.none.is_some(),
        ];
        if kinds.iter().filter(|k| **k).count() != 1 {
            return Err("an entry of `evidence` needs exactly one of log, event, cri, span, audit, condition, pod, fs, container_event, metric, endpoint, health, none".into());
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
                    Some(by) => parse_component(by)?,
                    None => component,
                },
                message,
                contains: text(&self.contains),
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
                contains: text(&self.contains),
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
        } else if let Some(name) = &self.metric {
            What::Metric(name.into())
        } else if let Some(name) = &self.endpoint {
            What::Endpoint(name.into())
        } else if let Some(name) = &self.health {
            What::Health(Pattern::parse(name))
        } else {
            What::None(text(&self.none))
        };
        Ok(Clue {
            what,
            edge: self.edge,
            since: text(&self.since),
            until: text(&self.until),
        })
    }
}

pub(super) fn parse_component(name: &str) -> Result<Component, String> {
    Ok(match name {
        "kubelet" => Component::Kubelet,
        "apiserver" => Component::Apiserver,
        "scheduler" => Component::Scheduler,
        "controller-manager" => Component::ControllerManager,
        "containerd" => Component::Containerd,
        "crio" => Component::Crio,
        _ => {
            return Err(format!(
                "`{name}` is none of kubelet, apiserver, scheduler, controller-manager, containerd, crio"
            ));
        }
    })
}

fn parse_pod(fact: &str) -> Result<PodFact, String> {
    let (key, value) = fact.split_once('=').unwrap_or((fact, ""));
    Ok(match (key, value) {
        ("phase", v) if !v.is_empty() => PodFact::Phase(v.into()),
        ("reason", v) if !v.is_empty() => PodFact::Reason(Pattern::parse(v)),
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
