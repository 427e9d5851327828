//! The observation: one thing that one source saw at one time.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Stamp, audit::AuditRecord, cri, event::EventSeen, fs::FsChange, gap, log::LogLine,
    node::NodeSeen, object::ObjectSeen, pod::PodSeen, pull::PullSeen, runtime::RuntimeEvent,
    sample::Sample, span::SpanRecord,
};

/// What produces observations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The CRI tap.
    Cri,
    /// The kubelet's log.
    Kubelet,
    /// cgroups, volume directories, mounts.
    Fs,
    /// Watches of pods, events, nodes and owners.
    Kube,
    /// The apiserver's audit log or webhook.
    Audit,
    /// OpenTelemetry spans.
    Otlp,
    /// The container runtime's own log and events.
    Runtime,
    /// Logs of apiserver, scheduler, controller-manager.
    Control,
    /// The endpoints `/metrics`, `/healthz`, `/readyz`, `/pods`, `/configz`.
    Metrics,
    /// kflow itself: notes of the user, losses in kflow.
    Kflow,
}

impl Source {
    /// All sources, in order of rank.
    pub const ALL: [Self; 10] = [
        Self::Cri,
        Self::Kubelet,
        Self::Fs,
        Self::Kube,
        Self::Audit,
        Self::Otlp,
        Self::Runtime,
        Self::Control,
        Self::Metrics,
        Self::Kflow,
    ];
    /// Returns the name used in sessions, JSON and the status bar.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cri => "cri",
            Self::Kubelet => "kubelet",
            Self::Fs => "fs",
            Self::Kube => "kube",
            Self::Audit => "audit",
            Self::Otlp => "otlp",
            Self::Runtime => "runtime",
            Self::Control => "control",
            Self::Metrics => "metrics",
            Self::Kflow => "kflow",
        }
    }
    /// True for the sources whose data comes from the pod's node (tap, kubelet log, file system, runtime).
    pub const fn is_node(self) -> bool {
        matches!(self, Self::Cri | Self::Kubelet | Self::Fs | Self::Runtime)
    }
}

/// An observation that proves an edge, a mark or a verdict; the session, the pod and the timeline share one allocation.
pub type Evidence = Arc<Observation>;

/// One thing that one source saw at one time. Immutable; a session holds nothing else.
///
/// The order of observations (`Ord`) is by time, then source, then content. It is total and does not depend on the
/// order of arrival, so what is derived from a sorted set of observations does not depend on it either.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Observation {
    /// Time of the event, its precision, and the time of arrival.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// The source that saw it.
    #[serde(rename = "src")]
    pub source: Source,
    /// What was seen.
    #[serde(rename = "b")]
    pub body: Body,
}

impl Observation {
    /// True when both are the same thing that a source saw, read at two times perhaps: from a log that is read again
    /// from its beginning, or in two overlapping recordings.
    pub fn repeats(&self, other: &Self) -> bool {
        self.stamp.at == other.stamp.at && self.source == other.source && self.body == other.body
    }
}

/// What was seen. Bodies are boxed where they are large, so that an observation itself stays small.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// A pod in a list or watch, or in the kubelet's `/pods`.
    Pod(Box<PodSeen>),
    /// A Kubernetes Event.
    Event(Box<EventSeen>),
    /// A node in a list or watch.
    Node(Box<NodeSeen>),
    /// Any other API object: Deployment, ReplicaSet, Job, PersistentVolumeClaim and so on.
    Object(Box<ObjectSeen>),
    /// A list began or ended, or a watch broke.
    Watch(Box<gap::WatchNote>),
    /// A CRI call began.
    CallStart(Box<cri::CallStart>),
    /// A CRI call ended.
    CallEnd(Box<cri::CallEnd>),
    /// A change in a container's life: a message of `GetContainerEvents`, or one of containerd's own events.
    ContainerEvent(Box<cri::ContainerEvent>),
    /// A CRI connection opened or closed.
    Conn(Box<cri::ConnChange>),
    /// What the runtime says exists: from List answers and status answers.
    Inventory(Box<cri::Inventory>),
    /// How much of an image has been fetched.
    Pull(Box<PullSeen>),
    /// An event of the runtime about an image, a snapshot or a task.
    RuntimeEvent(Box<RuntimeEvent>),
    Log(Box<LogLine>),
    Audit(Box<AuditRecord>),
    /// A finished OpenTelemetry span.
    Span(Box<SpanRecord>),
    /// A change in cgroups, volume directories or mounts.
    Fs(Box<FsChange>),
    /// Metrics or health from an endpoint.
    Sample(Box<Sample>),
    /// Something was lost.
    Gap(Box<gap::Gap>),
    /// The recording machine's wall clock was set, or the machine slept.
    ClockStep(Box<gap::ClockStep>),
    /// A note that a user made at a moment.
    Note(Box<gap::Note>),
}

impl Body {
    /// Frees the capacity that vectors do not use: deserialising a list of one element allocates room for four.
    pub fn shrink(&mut self) {
        match self {
            Self::Pod(p) => {
                p.labels.shrink_to_fit();
                let spec = &mut p.spec;
                spec.requests.shrink_to_fit();
                spec.limits.shrink_to_fit();
                spec.volumes.shrink_to_fit();
                spec.init_containers.shrink_to_fit();
                spec.containers.shrink_to_fit();
                for c in spec.init_containers.iter_mut().chain(&mut spec.containers) {
                    c.requests.shrink_to_fit();
                    c.limits.shrink_to_fit();
                    c.probes.shrink_to_fit();
                }
                let status = &mut p.status;
                status.conditions.shrink_to_fit();
                status.init_containers.shrink_to_fit();
                status.containers.shrink_to_fit();
            }
            Self::Inventory(i) => i.items.shrink_to_fit(),
            Self::Pull(p) => {
                p.repositories.shrink_to_fit();
                p.layers.shrink_to_fit();
            }
            Self::Log(l) => l.more_pods.shrink_to_fit(),
            Self::Span(s) => {
                s.events.shrink_to_fit();
                s.links.shrink_to_fit();
            }
            Self::Sample(s) => {
                s.values.shrink_to_fit();
                s.lines.shrink_to_fit();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_is_small_whatever_it_tells() {
        // Sessions hold millions of observations, so rare and large parts are boxed.
        assert_eq!(size_of::<Body>(), 16);
        assert!(size_of::<Observation>() <= 48);
        // Half of a busy node's observations are spans, and a third are log lines. The limits are
        // size classes of allocators.
        assert!(size_of::<SpanRecord>() <= 128);
        assert!(size_of::<LogLine>() <= 96);
        assert!(size_of::<cri::CallStart>() <= 192);
        assert!(size_of::<cri::CallEnd>() <= 160);
        assert!(size_of::<cri::InventoryItem>() <= 160);
        assert!(size_of::<AuditRecord>() <= 224);
    }
}
