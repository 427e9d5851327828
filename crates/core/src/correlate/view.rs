//! What the world knows of one pod: a value derived from its evidence.

use kflow_model::pod::PodPhase;
use std::sync::Arc;

use super::lazy::Lazy;
use crate::flow::Stage;
use crate::timeline::{Edge, Timeline};
use kflow_model::stamp::{MICRO, SECOND};
use kflow_model::{ContainerId, Evidence, Nanos, ObjectRef, PodUid, Text, pod::PodSeen};

/// How a stage of a pod stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StageState {
    /// Nothing of it was seen, and nothing after it; or it never comes, as scheduling for a static pod.
    #[default]
    NotReached,
    /// A later stage was reached, so this one passed, but no source saw it.
    Unseen,
    /// It goes on.
    Running,
    /// It waits: back-off, queue, gate, or for somebody else.
    Waiting,
    /// Its last attempt failed.
    Failing,
    /// Its last attempt succeeded.
    Done,
}

/// A container of a pod, joined from spec, status and runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts, not a state"
)]
pub struct ContainerView {
    /// Name in the spec.
    pub name: Text,
    /// Init container (sidecars are init containers too).
    pub init: bool,
    /// Restartable init container.
    pub sidecar: bool,
    /// Ephemeral container.
    pub ephemeral: bool,
    /// Newest container id, empty before the first creation.
    pub id: ContainerId,
    /// Image of the spec.
    pub image: Text,
    /// Newest attempt (= restarts).
    pub attempt: u32,
    /// The newest of API and runtime.
    pub state: RunState,
    /// Ready, by the API.
    pub ready: bool,
    /// Exit code of the last termination.
    pub last_exit: Option<i32>,
}

/// How a container is, by the API or the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// No source has shown it.
    #[default]
    Unseen,
    /// The runtime has it, and the API has not shown it yet.
    Created,
    /// With the API's reason, where it gives one: `ImagePullBackOff`.
    Waiting(Text),
    Running,
    /// With the reason, where one is given: `Error`.
    Terminated(Text),
}

impl RunState {
    /// True for a container that is there and has not ended.
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

/// Status of a pod of which no source but the runtime tells, when all that the runtime holds of it has ended.
pub const EXITED: &str = "Exited";

/// What the world knows of one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    /// UID. For a static pod with a mirror: the static UID (the one that CRI and the kubelet use).
    pub uid: PodUid,
    /// UIDs of mirror pods that tell the same story, oldest first.
    pub mirrors: Vec<PodUid>,
    /// Namespace, empty while unknown.
    pub namespace: Text,
    /// Name, empty while unknown.
    pub name: Text,
    /// Node, empty while unbound.
    pub node: Text,
    /// Owners from the controller upwards (`ReplicaSet`, `Deployment`), as far as known.
    pub owners: Vec<ObjectRef>,
    /// API phase, empty when the API was not seen.
    pub phase: PodPhase,
    /// The string that `kubectl get pods` shows under STATUS. Of a pod that the API never showed: [`GONE`], [`EXITED`],
    /// `Running` when a container runs, else empty.
    pub status: Text,
    /// Ready containers and all containers, as under READY.
    pub ready: (u32, u32),
    /// Restarts, as under RESTARTS.
    pub restarts: u32,
    /// Creation by the API (1 s), on the node's clock, or the first evidence.
    pub created: Nanos,
    /// When the apiserver received the request that created it, where that was seen (1 µs).
    pub create_requested: Option<Nanos>,
    /// When deletion was asked for, if it was.
    pub deletion_requested: Option<Nanos>,
    /// When the object was gone from the API, if it is.
    pub gone: Option<Nanos>,
    /// True for a pod of the past: nothing tells of it but Events from before the first list of pods, and the API no
    /// longer had it. A cluster keeps Events for an hour; lists leave such pods out unless they are asked for.
    pub past: bool,
    /// State of each stage, by [`Stage::index`].
    pub stages: [StageState; 11],
    /// When it became Ready first; `None` while it has not, and where no source told.
    pub became_ready: Option<Edge>,
    /// See [`took`](Self::took); by [`Stage::index`].
    pub took: [i64; 11],
    /// The first unfinished stage and since when; `None` for a pod that runs and is Ready, completed, or is gone.
    pub current: Option<(Stage, Nanos)>,
    /// The kubelet announced a pull (`Pulling`), over or not, by an Event or by the line of its log that repeats it.
    pub pull_announced: bool,
    /// Containers: init, main, ephemeral.
    pub containers: Vec<ContainerView>,
    /// The newest state from the API.
    pub api: Option<Arc<PodSeen>>,
    /// Newest evidence, when.
    pub changed: Nanos,
    pub timeline: Lazy<Timeline>,
    /// Evidence in order of time; the timeline's evidence is among it.
    pub evidence: Lazy<Vec<Evidence>>,
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
    /// Zero of its timeline: the request that created it, else the creation, which the API truncates to a second.
    pub fn zero(&self) -> Nanos {
        self.create_requested.unwrap_or(self.created)
    }
    /// How long it took from its creation until it was Ready, ns, and how exactly that is known.
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
    /// How long a stage worked, ns: until the newest evidence while it lasts, 0 when it was not seen.
    pub fn took(&self, stage: Stage) -> i64 {
        self.took.get(stage.index()).copied().unwrap_or(0)
    }
    pub fn stage(&self, stage: Stage) -> StageState {
        self.stages.get(stage.index()).copied().unwrap_or_default()
    }
    /// True for what is left in the runtime of a pod that no other source shows: nothing of it lives.
    pub fn is_remnant(&self) -> bool {
        self.api.is_none() && self.status == EXITED
    }
}
