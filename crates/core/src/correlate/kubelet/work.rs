//! Kinds of the kubelet's work, and the facts that show them.

use crate::flow::Fact;

/// A kind of work of the kubelet. A closed set, in the order of the Node pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// `syncLoopIteration`: configCh ADD.
    ConfigAdd,
    /// configCh UPDATE.
    ConfigUpdate,
    /// configCh REMOVE.
    ConfigRemove,
    /// configCh DELETE.
    ConfigDelete,
    /// configCh RECONCILE.
    ConfigReconcile,
    /// A container changed its state (`plegCh`).
    PlegEvent,
    /// Pods were due for a periodic sync (`syncCh`).
    Sync,
    /// A probe manager reported a changed result.
    ProbeUpdate,
    /// Cleanup after pods that are gone (`housekeepingCh`).
    Housekeeping,
    /// The sync loop skipped all pods, because the runtime or PLEG was not healthy.
    Skipped,
    /// A pod worker began to process an update.
    WorkerBegan,
    /// A pod worker finished processing an update.
    WorkerEnded,
    /// A pod worker failed to sync its pod.
    WorkerError,
    /// A PLEG relist found a changed container state.
    PlegChange,
    /// An unfiltered ListPodSandbox: PLEG relist, housekeeping or GC.
    Relist,
    /// A ListPodSandbox that is filtered by a pod's label: PLEG's on-demand relist (1.36).
    RelistOnDemand,
    ProbePassed,
    /// A probe that failed, or could not be run.
    ProbeFailed,
    /// A status patch was sent.
    StatusPatch,
    /// Container garbage collection.
    ContainerGc,
    /// Image garbage collection.
    ImageGc,
    /// The eviction manager checked its signals.
    EvictionCheck,
    /// A signal had been beyond its threshold for its grace period.
    Threshold,
    Eviction,
    Oom,
    Lease,
    NodeStatus,
}

impl Work {
    pub const ALL: [Self; 27] = [
        Self::ConfigAdd,
        Self::ConfigUpdate,
        Self::ConfigRemove,
        Self::ConfigDelete,
        Self::ConfigReconcile,
        Self::PlegEvent,
        Self::Sync,
        Self::ProbeUpdate,
        Self::Housekeeping,
        Self::Skipped,
        Self::WorkerBegan,
        Self::WorkerEnded,
        Self::WorkerError,
        Self::PlegChange,
        Self::Relist,
        Self::RelistOnDemand,
        Self::ProbePassed,
        Self::ProbeFailed,
        Self::StatusPatch,
        Self::ContainerGc,
        Self::ImageGc,
        Self::EvictionCheck,
        Self::Threshold,
        Self::Eviction,
        Self::Oom,
        Self::Lease,
        Self::NodeStatus,
    ];
    /// A short display name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConfigAdd => "config ADD",
            Self::ConfigUpdate => "config UPDATE",
            Self::ConfigRemove => "config REMOVE",
            Self::ConfigDelete => "config DELETE",
            Self::ConfigReconcile => "config RECONCILE",
            Self::PlegEvent => "PLEG event",
            Self::Sync => "sync (1 s)",
            Self::ProbeUpdate => "probe update",
            Self::Housekeeping => "housekeeping",
            Self::Skipped => "skipped sync",
            Self::WorkerBegan => "worker began",
            Self::WorkerEnded => "worker ended",
            Self::WorkerError => "worker error",
            Self::PlegChange => "PLEG change",
            Self::Relist => "runtime relist",
            Self::RelistOnDemand => "on-demand relist",
            Self::ProbePassed => "probe passed",
            Self::ProbeFailed => "probe failed",
            Self::StatusPatch => "status patch",
            Self::ContainerGc => "container GC",
            Self::ImageGc => "image GC",
            Self::EvictionCheck => "eviction check",
            Self::Threshold => "threshold met",
            Self::Eviction => "eviction",
            Self::Oom => "OOM kill",
            Self::Lease => "lease",
            Self::NodeStatus => "node status",
        }
    }
    /// True for failures, as opposed to regular work.
    pub const fn is_trouble(self) -> bool {
        matches!(
            self,
            Self::Skipped
                | Self::WorkerError
                | Self::ProbeFailed
                | Self::Threshold
                | Self::Eviction
                | Self::Oom
        )
    }
    /// True when the lines have details beyond the fact itself: what changed, which signal, whose probe.
    pub const fn says_what(self) -> bool {
        matches!(
            self,
            Self::PlegChange | Self::ProbeFailed | Self::Threshold | Self::Eviction | Self::Oom
        )
    }
    /// The kind of work that a fact in a log line or span of the kubelet shows.
    pub(super) const fn of(fact: Fact) -> Option<Self> {
        Some(match fact {
            Fact::PodAdded => Self::ConfigAdd,
            Fact::PodUpdated => Self::ConfigUpdate,
            Fact::PodRemoved => Self::ConfigRemove,
            Fact::PodDeleted => Self::ConfigDelete,
            Fact::PodReconciled => Self::ConfigReconcile,
            Fact::PlegEvent => Self::PlegEvent,
            Fact::PodsSynced => Self::Sync,
            Fact::ProbeTurned => Self::ProbeUpdate,
            Fact::HousekeepingEnded => Self::Housekeeping,
            Fact::SyncSkipped => Self::Skipped,
            Fact::WorkerBegan => Self::WorkerBegan,
            Fact::WorkerEnded => Self::WorkerEnded,
            Fact::SyncFailed => Self::WorkerError,
            Fact::PlegChange => Self::PlegChange,
            Fact::ProbePassed => Self::ProbePassed,
            Fact::ProbeFailed | Fact::ProbeErrored => Self::ProbeFailed,
            Fact::StatusPatched => Self::StatusPatch,
            Fact::ContainersCollected => Self::ContainerGc,
            Fact::ImagesCollected => Self::ImageGc,
            Fact::EvictionChecked => Self::EvictionCheck,
            Fact::ThresholdMet => Self::Threshold,
            Fact::PodEvicted => Self::Eviction,
            Fact::SystemOom => Self::Oom,
            _ => return None,
        })
    }
}
