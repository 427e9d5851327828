//! Log lines of the kubelet, the control plane and the runtime, split into message and fields.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU16, Ordering};

use serde::{Deserialize, Serialize};

use super::{ContainerId, Pairs, PodRef, Seldom, Source, Text};

/// The program that wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    Kubelet,
    /// kube-apiserver
    Apiserver,
    /// kube-scheduler
    Scheduler,
    /// kube-controller-manager
    ControllerManager,
    Containerd,
    /// CRI-O
    Crio,
}

impl Component {
    pub const ALL: [Self; 6] = [
        Self::Kubelet,
        Self::Apiserver,
        Self::Scheduler,
        Self::ControllerManager,
        Self::Containerd,
        Self::Crio,
    ];
    /// Components of the control plane.
    pub const CONTROL: [Self; 3] = [Self::Apiserver, Self::Scheduler, Self::ControllerManager];

    /// The name in sessions, queries and the flow map.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::Apiserver => "apiserver",
            Self::Scheduler => "scheduler",
            Self::ControllerManager => "controller-manager",
            Self::Containerd => "containerd",
            Self::Crio => "crio",
        }
    }

    /// The name of the program, which for the control plane is also that of its container.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Apiserver => "kube-apiserver",
            Self::Scheduler => "kube-scheduler",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kubelet | Self::Containerd | Self::Crio => self.name(),
        }
    }

    pub fn of_program(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.program() == name)
    }

    /// The source of the observations in the component's log.
    pub const fn source(self) -> Source {
        match self {
            Self::Kubelet => Source::Kubelet,
            Self::Containerd | Self::Crio => Source::Runtime,
            Self::Apiserver | Self::Scheduler | Self::ControllerManager => Source::Control,
        }
    }
}

/// klog severities; logrus levels are mapped onto them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// `I`
    Info,
    /// `W`
    Warning,
    /// `E`
    Error,
    /// `F`
    Fatal,
}

/// One log line (or one multi-line record).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogLine {
    /// The program that wrote the line.
    #[serde(rename = "by")]
    pub component: Component,
    /// Severity that the program gave the line.
    #[serde(rename = "l")]
    pub severity: Severity,
    /// Source file and line, `kubelet.go:2724`; empty when the format has none.
    #[serde(rename = "at", default, skip_serializing_if = "Text::is_empty")]
    pub location: Text,
    /// The constant message of a structured line; the whole text of an unstructured one. Cut at 2 KiB.
    #[serde(rename = "m")]
    pub message: Text,
    /// The pod that the line names (`pod=`, `podUID=`, `podName=`, the UID in a volume message), empty when none.
    #[serde(rename = "pod", default, skip_serializing_if = "PodRef::says_nothing")]
    pub pod: PodRef,
    /// Further pods, for lines that name several (`SyncLoop ADD pods=[…]`).
    #[serde(rename = "pods", default, skip_serializing_if = "Seldom::is_empty")]
    pub more_pods: Seldom<Vec<PodRef>>,
    /// Container name (`containerName=`, `container=`).
    #[serde(rename = "c", default, skip_serializing_if = "Seldom::is_empty")]
    pub container: Seldom<Text>,
    /// Container id without the `containerd://` before it.
    #[serde(rename = "cid", default, skip_serializing_if = "Seldom::is_empty")]
    pub container_id: Seldom<ContainerId>,
    /// Error of the line (`err=`), empty when it has none.
    #[serde(rename = "e", default, skip_serializing_if = "Seldom::is_empty")]
    pub error: Seldom<Text>,
    /// The other fields in the order of the line, unquoted, each cut at 1 KiB.
    #[serde(rename = "kv", default, skip_serializing_if = "Pairs::is_empty")]
    pub fields: Pairs,
    /// A number that a reader of the line has stored with it, see [`Noted`].
    #[serde(skip)]
    pub noted: Noted,
}

impl LogLine {
    /// Returns a line that has a message and no fields.
    pub fn new(component: Component, severity: Severity, message: impl Into<Text>) -> Self {
        Self {
            component,
            severity,
            location: Text::default(),
            message: message.into(),
            pod: PodRef::default(),
            more_pods: Seldom::default(),
            container: Seldom::default(),
            container_id: Seldom::default(),
            error: Seldom::default(),
            fields: Pairs::default(),
            noted: Noted::default(),
        }
    }
}

/// A number that a reader of a line stores with it, so that it need not work it out again. It is not part of the line:
/// lines are equal whatever their numbers.
#[derive(Debug, Default)]
pub struct Noted(AtomicU16);

impl Noted {
    /// Returns the stored number; `None` before [`set`](Self::set).
    pub fn get(&self) -> Option<u16> {
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }
    /// Stores a number below `u16::MAX`. Readers in several threads may do so at once, because they
    /// store the same number.
    pub fn set(&self, number: u16) {
        self.0.store(number.saturating_add(1), Ordering::Relaxed);
    }
}
impl Clone for Noted {
    fn clone(&self) -> Self {
        Self(AtomicU16::new(self.0.load(Ordering::Relaxed)))
    }
}
impl PartialEq for Noted {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Noted {}
impl PartialOrd for Noted {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Noted {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}
impl Hash for Noted {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl LogLine {
    /// Returns the value of the field `key`.
    pub fn field(&self, key: &str) -> Option<&str> {
        self.fields.value(key)
    }
}
