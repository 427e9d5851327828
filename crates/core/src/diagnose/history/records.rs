//! The parts of a pod's history: calls, containers, exits, probes.

use kflow_model::pod::ContainerStatus;
use kflow_model::{ContainerId, Evidence, Nanos, Text, cri::CallStart, stamp::SECOND};

/// A call that was made for the pod.
#[derive(Clone, Debug)]
pub struct PodCall<'a> {
    /// The call's start, with the pod or container that the call is about.
    pub start: &'a CallStart,
    pub at: Nanos,
    /// When the call ended; `None` while it is in flight.
    pub end: Option<Nanos>,
    /// The container's name; empty when it is not known or the call is about the pod.
    pub container: Text,
    /// The observation of the call's start.
    pub evidence: &'a Evidence,
}

/// How a container ended.
#[derive(Clone, Debug)]
pub struct Exit<'a> {
    /// When it ended; with `was_before`, the time of the observation.
    pub at: Nanos,
    /// The observation shows that it had ended, and not when.
    pub was_before: bool,
    /// Exit code; `None` when no source gives it.
    pub code: Option<i32>,
    /// The termination reason: `Error`, `OOMKilled`, `Completed`, `StartError`, …
    pub reason: Text,
    /// The container's termination message.
    pub message: Text,
    pub id: ContainerId,
    pub evidence: &'a Evidence,
}

impl<'a> Exit<'a> {
    /// An exit that was not seen: the container had ended before this observation.
    pub(super) fn before(evidence: &'a Evidence) -> Self {
        Self {
            at: evidence.stamp.at,
            was_before: true,
            code: None,
            reason: Text::default(),
            message: Text::default(),
            id: ContainerId::default(),
            evidence,
        }
    }
}

/// A change of the pod's readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Time of the observation.
    pub at: Nanos,
    /// True when the pod became ready, false when it became not ready.
    pub ready: bool,
    /// The pod became not ready because a container ended, so that this change does not count as flapping readiness.
    pub ended: bool,
}

/// The failures of one of a container's probes.
#[derive(Clone, Debug)]
pub struct ProbeResult<'a> {
    /// Time of the newest failure.
    pub at: Nanos,
    /// The output of the newest failure.
    pub text: &'a str,
    /// The probe could not be run, which leaves the container as ready as it was before.
    pub errored: bool,
    /// Number of failures since the container started, as far as the sources count them.
    pub count: u32,
    pub evidence: &'a Evidence,
}

/// Why the kubelet killed a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillWhy {
    Liveness,
    Startup,
    /// Its postStart hook failed.
    PostStart,
    /// The pod is stopped, or for another reason.
    Stop,
}

/// What the evidence shows about one container.
#[derive(Clone, Debug, Default)]
pub struct ContainerHistory<'a> {
    pub name: Text,
    /// What the kubelet's log calls it: `container`, `init container`, `ephemeral container`; empty when it did not say.
    pub kind: &'a str,
    /// Time of the first sign of the container.
    pub first: Option<Nanos>,
    /// The newest `Pulling` Event or log line.
    pub pulling: Option<(Nanos, &'a Evidence)>,
    /// Since when the image is on the node.
    pub pulled: Option<Nanos>,
    /// Time of the newest creation.
    pub created: Option<Nanos>,
    /// Time of the newest start.
    pub started: Option<Nanos>,
    /// `started` is when the container was first seen to run, for example by a probe; its start was not.
    pub seen_running: bool,
    /// Exits, oldest first, one for each container id.
    pub exits: Vec<Exit<'a>>,
    /// The first back-off after each start: by then the container had ended.
    pub backed_off: Vec<&'a Evidence>,
    /// Number of restarts, by the API; without it by the Events of its starts.
    pub restarts: u32,
    /// Number of starts that one Event counts.
    pub starts: u32,
    /// Newest kill by the kubelet, and why.
    pub killed: Option<(Nanos, KillWhy, &'a Evidence)>,
    /// Number of kills because of a probe or a hook.
    pub kills: u32,
    /// Newest failure of the readiness probe.
    pub readiness: Option<ProbeResult<'a>>,
    /// Newest failure of the liveness probe.
    pub liveness: Option<ProbeResult<'a>>,
    /// Newest failure of the startup probe.
    pub startup: Option<ProbeResult<'a>>,
    /// The newest line of the kubelet's log about the container's readiness: when, and whether it is ready.
    pub ready_said: Option<(Nanos, bool)>,
    /// The container's status in the newest API state.
    pub status: Option<&'a ContainerStatus>,
    /// Since when a preStop hook runs.
    pub prestop: Option<(Nanos, &'a Evidence)>,
    /// End of the newest StopContainer.
    pub stopped: Option<Nanos>,
    /// Start of that StopContainer.
    pub stopping: Option<Nanos>,
    /// Id of the container that was started last.
    pub started_id: ContainerId,
    /// The end of the newest run in the timeline: the inner `None` while the run lasts, the outer `None` when there is
    /// no run.
    pub run: Option<Option<Nanos>>,
    /// Number of the newest attempt in the timeline that has ended.
    pub attempt: Option<u32>,
    /// Processes of the container that the kernel killed for lack of memory while the container itself ran on: how many, the time
    /// of the first, and the newest of the runtime's events.
    pub oom_kills: Option<(u32, Nanos, &'a Evidence)>,
    /// Number of attempts in the timeline that have ended, and the length of the longest, ns.
    pub ran: (u32, i64),
}

impl ContainerHistory<'_> {
    /// True for an init container, by the kubelet's log.
    pub fn is_init(&self) -> bool {
        self.kind == "init container"
    }
    /// True for an ephemeral container, by the kubelet's log.
    pub fn is_ephemeral(&self) -> bool {
        self.kind == "ephemeral container"
    }
    /// Returns why the kubelet killed the container, if it did since the container last started.
    pub fn killed_since_start(&self) -> Option<KillWhy> {
        let (at, why, _) = self.killed?;
        self.started
            .is_none_or(|started| started <= at)
            .then_some(why)
    }
    /// Returns when a probe of the container last failed: only a container that has started is probed.
    pub fn probed(&self) -> Option<Nanos> {
        let probes = [&self.readiness, &self.liveness, &self.startup];
        probes.into_iter().flatten().map(|p| p.at).max()
    }
    /// True when the kubelet waits before it starts the container again.
    pub fn backs_off(&self) -> bool {
        let waits = self.status.is_some_and(|s| s.state.backs_off());
        waits || (!self.backed_off.is_empty() && !self.runs())
    }
    /// True while the container runs: the timeline has a run that lasts, or the container started after it last ended.
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

/// True for the reason of an exit that means that the container's command could not be started.
pub fn never_ran(reason: &str) -> bool {
    matches!(reason, "StartError" | "ContainerCannotRun")
}
