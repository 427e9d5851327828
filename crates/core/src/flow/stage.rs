//! The eleven stages of a pod's life. A closed set: names and order are part of every format that kflow writes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A stage of a pod's life, in causal order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The apiserver admits and stores the pod.
    Api,
    /// The scheduler finds a node and binds the pod.
    Schedule,
    /// The kubelet sees the pod, admits it and hands it to a worker.
    Admit,
    /// The pod's cgroup is made.
    Cgroup,
    /// Volumes are attached and mounted.
    Volumes,
    /// The runtime makes the sandbox and its network.
    Sandbox,
    /// Images are found or pulled.
    Image,
    /// Containers are created.
    Create,
    /// Containers are started (and restarted).
    Start,
    /// Probes and gates: the pod becomes Ready.
    Ready,
    /// The pod is stopped and removed.
    Terminate,
}

impl Stage {
    /// All stages in causal order.
    pub const ALL: [Self; 11] = [
        Self::Api,
        Self::Schedule,
        Self::Admit,
        Self::Cgroup,
        Self::Volumes,
        Self::Sandbox,
        Self::Image,
        Self::Create,
        Self::Start,
        Self::Ready,
        Self::Terminate,
    ];

    /// The name used in every format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Schedule => "schedule",
            Self::Admit => "admit",
            Self::Cgroup => "cgroup",
            Self::Volumes => "volumes",
            Self::Sandbox => "sandbox",
            Self::Image => "image",
            Self::Create => "create",
            Self::Start => "start",
            Self::Ready => "ready",
            Self::Terminate => "terminate",
        }
    }

    /// Position in causal order, 0 to 10.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the stage with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
