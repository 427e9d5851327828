//! What the facts of a pod are made of: calls, containers, exits, probes.

use kflow_model::{
    ContainerId, Evidence, Nanos, Text, cri::CallStart, pod::ContainerStatus, stamp::SECOND,
};

/// A call that was made for the pod.
#[derive(Clone, Debug)]
pub struct PodCall<'a> {
    /// Start and who it is about.
    pub start: &'a CallStart,
    /// When it began.
    pub at: Nanos,
    /// When it ended.
    pub end: Option<Nanos>,
    /// Container, as far as known.
    pub container: Text,
    /// The start's observation.
    pub evidence: &'a Evidence,
}

/// How a container ended.
#[derive(Clone, Debug)]
pub struct Exit<'a> {
    /// Time of the observation.
    pub at: Nanos,
    /// Exit code, where it is known.
    pub code: Option<i32>,
    /// `Error`, `OOMKilled`, `Completed`, `StartError`, …
    pub reason: Text,
    /// Its own message.
    pub message: Text,
    pub id: ContainerId,
    pub evidence: &'a Evidence,
}

/// The pod became ready, or not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Time of the observation.
    pub at: Nanos,
    /// What it became.
    pub ready: bool,
    /// It became not ready because a container ended: that is the container's story, not one of readiness.
    pub ended: bool,
}

/// A failing probe.
#[derive(Clone, Debug)]
pub struct ProbeResult<'a> {
    /// Newest failure.
    pub at: Nanos,
    /// What it said.
    pub text: &'a str,
    /// It could not be run, which leaves the container as ready as it was.
    pub errored: bool,
    /// Failures since the container started, as far as they were counted.
    pub count: u32,
    pub evidence: &'a Evidence,
}

/// Why the kubelet killed a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillWhy {
    /// Liveness probe.
    Liveness,
    /// Startup probe.
    Startup,
    /// postStart hook.
    PostStart,
    /// The pod is stopped, or something else.
    Stop,
}

/// What a container did.
#[derive(Clone, Debug, Default)]
pub struct ContainerHistory<'a> {
    pub name: Text,
    /// What the kubelet's log calls it: `container`, `init container`, `ephemeral container`; empty when it did not say.
    pub kind: &'a str,
    /// First sign of it.
    pub first: Option<Nanos>,
    /// `Pulling` was said.
    pub pulling: Option<(Nanos, &'a Evidence)>,
    /// The image is there.
    pub pulled: Option<Nanos>,
    /// Time of the newest creation.
    pub created: Option<Nanos>,
    /// Time of the newest start.
    pub started: Option<Nanos>,
    /// Ends, oldest first, each container id once.
    pub exits: Vec<Exit<'a>>,
    /// First back-off after each start: by then it had ended.
    pub backed_off: Vec<&'a Evidence>,
    /// Restarts by the API.
    pub restarts: u32,
    /// Newest kill by the kubelet, and why.
    pub killed: Option<(Nanos, KillWhy, &'a Evidence)>,
    /// Kills because of a probe or hook.
    pub kills: u32,
    /// Newest failure of the readiness probe.
    pub readiness: Option<ProbeResult<'a>>,
    /// Newest failure of the liveness probe.
    pub liveness: Option<ProbeResult<'a>>,
    /// Newest failure of the startup probe.
    pub startup: Option<ProbeResult<'a>>,
    /// Newest word of the kubelet about readiness.
    pub ready_said: Option<(Nanos, bool)>,
    /// Newest status of the API.
    pub status: Option<&'a ContainerStatus>,
    /// A preStop hook runs since.
    pub prestop: Option<(Nanos, &'a Evidence)>,
    /// Newest end of a StopContainer.
    pub stopped: Option<Nanos>,
    /// When that call began.
    pub stopping: Option<Nanos>,
    /// The container that was started last.
    pub started_id: ContainerId,
    /// The newest run of the timeline: its end, `None` while it lasts.
    pub run: Option<Option<Nanos>>,
    /// The newest attempt of the timeline that has ended.
    pub attempt: Option<u32>,
    /// Attempts of the timeline that have ended, and the longest of them, ns.
    pub ran: (u32, i64),
}

impl ContainerHistory<'_> {
    /// An init container, by the kubelet's log.
    pub fn is_init(&self) -> bool {
        self.kind == "init container"
    }
    /// An ephemeral container, by the kubelet's log.
    pub fn is_ephemeral(&self) -> bool {
        self.kind == "ephemeral container"
    }
    /// It runs: the timeline has a run that lasts, or it started after it last ended.
    pub fn runs(&self) -> bool {
        match (self.run, self.started) {
            (Some(None), _) => true,
            // A process may end before the call that starts it has returned, and before the Event that says so.
            (Some(Some(ended)), started) => started.is_some_and(|s| s > ended.plus(SECOND)),
            (None, None) => false,
            (None, Some(started)) => self.exits.last().is_none_or(|e| {
                // A process may end before the call that starts it has returned.
                started > e.at && (e.id.is_empty() || e.id != self.started_id)
            }),
        }
    }
}
