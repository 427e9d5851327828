//! The view of one pod: a value derived from its evidence.

use kflow_model::pod::PodPhase;
use std::sync::Arc;

use super::lazy::Lazy;
use super::observed::Observed;
use crate::flow::Stage;
use crate::timeline::{Edge, Timeline};
use kflow_model::stamp::{MICRO, SECOND};
use kflow_model::{ContainerId, Nanos, ObjectRef, PodUid, Text, pod::PodSeen};

/// State of a stage of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StageState {
    /// No evidence of it or of a later stage; or the stage never comes, like scheduling for a static pod.
    #[default]
    NotReached,
    /// A later stage was reached, so this one is over, but no source saw it.
    Unseen,
    Running,
    /// Waiting: in back-off, in a queue, for a gate, or for another component.
    Waiting,
    /// Its last attempt failed.
    Failing,
    /// Its last attempt succeeded.
    Done,
}

/// A container of a pod, joined from spec, status and the runtime's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts, not a state"
)]
pub struct ContainerView {
    /// Name in the spec.
    pub name: Text,
    /// True for an init container, sidecars included.
    pub init: bool,
    /// True for an init container with `restartPolicy: Always`.
    pub sidecar: bool,
    pub ephemeral: bool,
    /// Newest container id, empty before the container was first created.
    pub id: ContainerId,
    /// Image in the spec.
    pub image: Text,
    /// Newest attempt, which is the number of restarts.
    pub attempt: u32,
    /// The newer of the API's and the runtime's state.
    pub state: RunState,
    /// `ready` of the container status in the API.
    pub ready: bool,
    /// Exit code of the last termination.
    pub last_exit: Option<i32>,
}

/// State of a container, by the API or the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// No source has shown it.
    #[default]
    Unseen,
    /// The runtime has it, and the API has not shown it yet.
    Created,
    /// With the API's reason, such as `ImagePullBackOff`; empty where none is given.
    Waiting(Text),
    Running,
    /// With the reason, such as `Error`; empty where none is given.
    Terminated(Text),
}

impl RunState {
    /// True for a container that exists and has not ended.
    pub const fn is_up(&self) -> bool {
        matches!(self, Self::Created | Self::Running)
    }
    pub const fn is_terminated(&self) -> bool {
        matches!(self, Self::Terminated(_))
    }
}

impl std::fmt::Display for RunState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (word, reason) = match self {
            Self::Unseen => ("", None),
            Self::Created => ("created", None),
            Self::Waiting(reason) => ("waiting", Some(reason)),
            Self::Running => ("running", None),
            Self::Terminated(reason) => ("terminated", Some(reason)),
        };
        match reason.filter(|r| !r.is_empty()) {
            Some(reason) => f.pad(&format!("{word}/{reason}")),
            None => f.pad(word),
        }
    }
}

/// Status of a pod that the API never showed and whose object is known to be gone.
pub const GONE: &str = "Gone";

/// Status of a pod that only the runtime reports, when all its sandboxes and containers have ended.
pub const EXITED: &str = "Exited";

/// Everything that the world knows about one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    /// UID. Of a static pod with a mirror: the static UID, which CRI and the kubelet use.
    pub uid: PodUid,
    /// UIDs of the mirror pods of this static pod, oldest first.
    pub mirrors: Vec<PodUid>,
    pub namespace: Text,
    pub name: Text,
    pub node: Text,
    /// Owners from the controller upwards (`ReplicaSet`, `Deployment`), as far as known.
    pub owners: Vec<ObjectRef>,
    /// `status.phase`, empty when the API never showed the pod.
    pub phase: PodPhase,
    /// Column STATUS of `kubectl get pods`. Of a pod that the API never showed: [`GONE`], [`EXITED`], `Running` when
    /// a container runs, else empty.
    pub status: Text,
    /// Column READY: number of ready containers, and of all.
    pub ready: (u32, u32),
    /// Column RESTARTS.
    pub restarts: u32,
    /// `creationTimestamp` (1 s), converted to the node's clock; without it, the time of the first evidence.
    pub created: Nanos,
    /// When the apiserver received the request that created the pod, where that was seen (1 µs).
    pub create_requested: Option<Nanos>,
    /// When deletion was requested; `None` when it was not.
    pub deletion_requested: Option<Nanos>,
    /// When the object was gone from the API; `None` when it is not.
    pub gone: Option<Nanos>,
    /// True for a pod of the past: only Events from before the first list of pods tell of it, and the API no longer
    /// had the pod. A cluster keeps Events for an hour. Lists leave such pods out unless they are requested.
    pub past: bool,
    /// By [`Stage::index`].
    pub stages: [StageState; 11],
    /// When the pod first became Ready; `None` while it has not, and where no source saw it.
    pub became_ready: Option<Edge>,
    /// See [`took`](Self::took); by [`Stage::index`].
    pub took: [i64; 11],
    /// The first unfinished stage, and its begin; `None` for a pod that runs and is Ready, completed, or is gone.
    pub current: Option<(Stage, Nanos)>,
    /// True when the kubelet announced an image pull (`Pulling`) by an Event, or by the log line that repeats the
    /// Event. The pull may be over.
    pub pull_announced: bool,
    /// When a probe of a container last failed, by an Event.
    pub probe_failed: Option<Nanos>,
    /// When the kernel last killed a process of the pod for lack of memory, by the runtime's event.
    pub oom_killed: Option<Nanos>,
    /// Init containers, then main, then ephemeral containers.
    pub containers: Vec<ContainerView>,
    /// The newest state from the API.
    pub api: Option<Arc<PodSeen>>,
    /// Time of the newest evidence.
    pub changed: Nanos,
    pub timeline: Lazy<Timeline>,
    /// What was seen of the pod; contains the timeline's evidence.
    pub evidence: Lazy<Observed>,
}

impl PodView {
    /// `ns/name`, or the UID while the name is unknown.
    pub fn key(&self) -> String {
        if self.name.is_empty() {
            self.uid.to_string()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
    /// Zero of the pod's timeline: the create request, else `creationTimestamp`, which the API truncates to a second.
    pub fn zero(&self) -> Nanos {
        self.create_requested.unwrap_or(self.created)
    }
    /// Time from the creation until the pod was Ready, and its precision; both ns.
    pub fn start(&self) -> Option<(i64, u32)> {
        let ready = self.became_ready?;
        let zero = if self.create_requested.is_some() {
            MICRO as u32
        } else {
            SECOND as u32
        };
        Some((
            ready.at.since(self.zero()).max(0),
            ready.precision.max(zero),
        ))
    }
    /// How long a stage was at work, ns; until the newest evidence while it lasts, 0 when it was not seen.
    pub fn took(&self, stage: Stage) -> i64 {
        self.took.get(stage.index()).copied().unwrap_or(0)
    }
    pub fn stage(&self, stage: Stage) -> StageState {
        self.stages.get(stage.index()).copied().unwrap_or_default()
    }
    /// True for a pod that only the runtime still shows, and of which all has ended.
    pub fn is_remnant(&self) -> bool {
        self.api.is_none() && self.status == EXITED
    }
}
