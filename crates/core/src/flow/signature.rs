//! One kind of evidence of a step, as `map.toml` describes it.

use serde::Deserialize;
use std::fmt;

pub(super) mod raw;

use super::fact::Fact;
use super::needle::Needle;
use super::template::Template;
use kflow_model::{Text, cri::ContainerEventKind, fs::FsAction, log::Component};

/// A text pattern: anything, an exact text, a prefix or a suffix (`…` stands for the rest in the file).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    #[default]
    Any,
    Is(Text),
    Starts(Text),
    Ends(Text),
}

impl Pattern {
    /// Parses a pattern; an empty text and `…` alone match anything.
    pub fn parse(s: &str) -> Self {
        if let Some(end) = s.strip_prefix('…').filter(|end| !end.is_empty()) {
            return Self::Ends(end.into());
        }
        match s.strip_suffix('…') {
            None if s.is_empty() => Self::Any,
            None => Self::Is(s.into()),
            Some("") => Self::Any,
            Some(start) => Self::Starts(start.into()),
        }
    }
    pub fn fits(&self, s: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Is(t) => t == s,
            Self::Starts(t) => s.starts_with(t.as_str()),
            Self::Ends(t) => s.ends_with(t.as_str()),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("…"),
            Self::Is(t) => f.write_str(t),
            Self::Starts(t) => write!(f, "{t}…"),
            Self::Ends(t) => write!(f, "…{t}"),
        }
    }
}

/// The edge of a step's run that a signature marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgeKind {
    Begin,
    End,
    /// A moment within the run, or an effect of it.
    #[default]
    Point,
    /// Something that happens several times in one run: it lights the step but does not count a run.
    Part,
}

/// Kinds of signatures, best first: the earlier one measures a step better when there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignatureKind {
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
    /// The step leaves no trace.
    None,
}

impl SignatureKind {
    /// Returns the word for tables.
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
    /// True when this kind of evidence looks the same for every container runtime.
    pub const fn is_of_any_runtime(self) -> bool {
        matches!(self, Self::Fs | Self::ContainerEvent)
    }
}

/// A fact of a pod's spec, metadata or status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodFact {
    /// `status.phase`.
    Phase(Text),
    /// `status.reason`.
    Reason(Pattern),
    /// `status.message`.
    Message(Pattern),
    /// A container waits for this reason (`state.waiting.reason`).
    Waiting(Text),
    /// A container's current or last state is terminated for this reason.
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

/// A description of the observations that light a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A log line.
    Log {
        /// The component that writes the line; `None` for any, where the signature belongs to no step.
        component: Option<Component>,
        message: Pattern,
        /// A text that the message or the error has to contain, empty for none.
        contains: Needle,
        /// Fields that the line must have, and their values.
        fields: Vec<(Text, Pattern)>,
    },
    /// A Kubernetes Event.
    Event {
        reason: Pattern,
        message: Pattern,
        /// A text that the message has to contain, empty for none.
        contains: Needle,
        /// The kind of the involved object.
        about: Pattern,
        /// The reporting component.
        by: Pattern,
    },
    /// A CRI call.
    Call {
        /// Name of the gRPC method, without its service.
        method: Text,
        /// For List calls: `Some(true)` with a filter, `Some(false)` without, `None` for either.
        filtered: Option<bool>,
        /// `Some(true)` with a deadline, `Some(false)` without, `None` for either.
        deadline: Option<bool>,
    },
    Span {
        name: Pattern,
        /// `service.name`.
        service: Pattern,
    },
    /// An API request.
    Audit {
        /// Verb of the request: `create`, `patch`.
        verb: Text,
        /// The resource, with the subresource if any: `pods/binding`.
        resource: Text,
        /// The user name of the client.
        by: Pattern,
    },
    /// A condition of a pod or node.
    Condition {
        node: bool,
        /// Type of the condition.
        kind: Text,
        /// `True`, `False` or `Unknown`.
        status: Text,
        /// Reason of the condition.
        reason: Pattern,
    },
    Pod(PodFact),
    /// A change in the file system.
    Fs {
        /// The serialised name of a variant of [`FsObject`](kflow_model::fs::FsObject).
        object: Text,
        /// Any of these fits.
        actions: Vec<FsAction>,
        /// The path inside the object, or what is mounted.
        inner: Pattern,
    },
    /// A container event of the runtime (CRI `GetContainerEvents`).
    ContainerEvent(ContainerEventKind),
    /// A container event about a sandbox, which CRI reports as a container with the sandbox's id.
    SandboxEvent(ContainerEventKind),
    /// A metric family with a value that is not zero.
    Metric(Text),
    /// An answer to a scrape of this endpoint.
    Endpoint(Text),
    /// A check that an answer of a health endpoint names.
    Health(Pattern),
    /// The step leaves no trace, for this reason.
    None(Text),
}

/// A kind of evidence, the edge of the step that it marks, and the versions that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub what: What,
    pub edge: EdgeKind,
    /// The oldest version that has this evidence, empty for any.
    pub since: Text,
    /// The newest version that has this evidence, empty for any.
    pub until: Text,
    /// The fact that the evidence says, if timelines, loops or rules use it.
    pub fact: Option<Fact>,
    /// Templates that extract named values from the text.
    pub read: Vec<Template>,
    /// Named values that are the same for every text that fits.
    pub names: Vec<(Text, Text)>,
}

impl Signature {
    pub const fn kind(&self) -> SignatureKind {
        match self.what {
            What::Call { .. } => SignatureKind::Call,
            What::Span { .. } => SignatureKind::Span,
            What::Log { .. } => SignatureKind::Log,
            What::Audit { .. } => SignatureKind::Audit,
            What::Fs { .. } => SignatureKind::Fs,
            What::ContainerEvent(_) | What::SandboxEvent(_) => SignatureKind::ContainerEvent,
            What::Event { .. } => SignatureKind::Event,
            What::Condition { .. } | What::Pod(_) => SignatureKind::Status,
            What::Metric(_) | What::Endpoint(_) | What::Health(_) => SignatureKind::Metric,
            What::None(_) => SignatureKind::None,
        }
    }
}

impl fmt::Display for Signature {
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
                    write!(f, " with `{}`", contains.as_str())?;
                }
            }
            What::Event {
                reason,
                message,
                contains,
                ..
            } => {
                write!(f, "{kind} {reason}")?;
                if *message != Pattern::Any {
                    write!(f, " `{message}`")?;
                }
                if !contains.is_empty() {
                    write!(f, " with `{}`", contains.as_str())?;
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
                PodFact::Message(t) => write!(f, "status message={t}")?,
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
            What::SandboxEvent(k) => write!(f, "{kind} {k:?} of the sandbox")?,
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
