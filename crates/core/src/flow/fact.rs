//! What a line, an Event or a span of a component says, whatever its words: the names that timelines, the kubelet's loops and
//! rules know evidence by. The words are in `map.toml` (`fact = "…"` beside them), and nowhere else.

use serde::Deserialize;

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a piece of evidence says. `map.toml` writes the names in kebab case: `fact = "pod-added"`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Fact {
            $($(#[$doc])* $name,)*
        }
        impl Fact {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

facts! {
    /// The kubelet's source of pods has a pod that it did not have before.
    PodReceived,
    /// configCh ADD.
    PodAdded,
    /// configCh UPDATE.
    PodUpdated,
    /// configCh REMOVE.
    PodRemoved,
    /// configCh DELETE: the pod has a deletionTimestamp.
    PodDeleted,
    /// configCh RECONCILE.
    PodReconciled,
    /// The sync loop took a change of a container (`plegCh`).
    PlegEvent,
    /// The sync loop took pods that are due for a periodic sync (`syncCh`).
    PodsSynced,
    /// A probe's result turned.
    ProbeTurned,
    /// housekeepingCh, its end.
    HousekeepingEnded,
    /// The sync loop skips all pods; its error says why.
    SyncSkipped,
    /// The pod was refused; `reason` and `message` say why.
    AdmissionDenied,
    /// The pod was refused for want of the name `resource`: all that a kubelet before 1.31 logs of it.
    ResourceLacked,
    /// The kubelet let the pod fail at its admission, by its status; the name `message` says why.
    PodRejected,
    /// The pod was let in or not.
    Admitted,
    /// A pod's worker is handed its first update.
    WorkerFirst,
    /// A pod's worker is handed an update.
    WorkerNotified,
    /// A pod's worker begins to process an update.
    WorkerBegan,
    /// It has processed it.
    WorkerEnded,
    /// SyncPod begins.
    SyncBegan,
    /// SyncPod failed; the error says why.
    SyncFailed,
    /// SyncPod computed the phase.
    PhaseComputed,
    /// The pod's directories could not be made.
    PodDirsFailed,
    /// The pod's cgroup could not be made.
    PodCgroupFailed,
    /// The worker waits for the volumes.
    VolumesAwaited,
    /// They are attached and mounted.
    VolumesMounted,
    /// The worker does not wait any longer.
    VolumesTimedOut,
    /// What is mounted is mounted again, with new contents.
    RemountStarted,
    /// A volume's mount begins.
    MountStarted,
    /// A volume's device is mounted.
    DeviceMounted,
    /// A volume is mounted.
    VolumeSetUp,
    /// The controller's attach of a volume is waited for.
    AttachAwaited,
    VolumeAttached,
    /// A volume could not be unmounted.
    UnmountFailed,
    /// A volume's device could not be mounted.
    DeviceMountFailed,
    /// A volume was not attached.
    AttachFailed,
    /// A volume could not be mounted: any other failure of an operation on volumes.
    MountFailed,
    /// A volume's unmount begins.
    UnmountStarted,
    /// A volume is unmounted.
    VolumeTornDown,
    /// No volume of a terminated pod is mounted.
    VolumesUnmounted,
    /// Volumes of a terminated pod are still mounted.
    VolumesLeft,
    /// The sandbox is about to be made.
    SandboxBegan,
    /// The runtime does not begin a sandbox before its network plugin is ready.
    NetworkAwaited,
    /// The network plugin is ready: the sandbox is begun.
    NetworkArrived,
    /// It was made.
    SandboxCreated,
    /// It was not.
    SandboxFailed,
    /// The runtime did not make the sandbox.
    SandboxRefused,
    /// Work of the runtime inside a call, which timelines show below it.
    RuntimeWork,
    /// An image was not pulled.
    PullFailed,
    ImagePulled,
    /// A pull is not tried yet.
    PullBackedOff,
    /// A container is about to be made; `containerType` says of which kind.
    ContainerBegan,
    /// A container was not made or started; the error says why.
    ContainerError,
    /// The same, of a container whose process the OCI runtime was to make or start: it does not start.
    ProcessNotMade,
    /// A container was not started: the error is a reason, `containerMessage` the text.
    ContainerFailed,
    /// A container is not started again yet.
    RestartBackedOff,
    /// A postStart hook failed.
    PostStartFailed,
    /// The hook before a container is made failed.
    PreCreateFailed,
    /// The hook before a container is started failed.
    PreStartFailed,
    /// PLEG found that a container has ended.
    ExitFound,
    /// PLEG found a change.
    PlegChange,
    ProbePassed,
    ProbeFailed,
    /// A probe could not be run.
    ProbeErrored,
    /// Why a container is killed; `containerMessage` says it.
    KillExplained,
    /// A container is killed because its liveness probe failed.
    LivenessKill,
    /// A container is killed because its startup probe failed.
    StartupKill,
    /// A container is killed because its postStart hook failed.
    PostStartKill,
    /// A container is killed to be started again, for another reason.
    RestartKill,
    /// A container is stopped because its pod ends.
    StopKill,
    /// A container is about to be stopped; `gracePeriod` says how long it has, s.
    StopBegan,
    /// The runtime did not stop a container or a sandbox.
    StopFailed,
    /// The worker is told to end the pod.
    TeardownBegan,
    /// SyncTerminatingPod begins.
    TerminatingBegan,
    /// It ends.
    TerminatingEnded,
    /// SyncTerminatedPod begins.
    TerminatedBegan,
    /// It ends.
    TerminatedEnded,
    /// A preStop hook begins.
    PreStopBegan,
    PreStopEnded,
    /// It has not ended in the grace period.
    PreStopTimedOut,
    PreStopFailed,
    /// The pod's cgroup is gone.
    CgroupRemoved,
    /// The pod's cgroup could not be removed.
    CgroupLeft,
    /// The directory of a pod that is gone is removed.
    OrphanRemoved,
    /// A status was sent to the apiserver.
    StatusPatched,
    /// The kubelet's own measure of a pod's start.
    StartObserved,
    /// Dead containers were removed.
    ContainersCollected,
    /// Unused images were removed.
    ImagesCollected,
    /// The eviction manager looks at its signals.
    EvictionChecked,
    /// A signal is beyond its threshold.
    ThresholdMet,
    /// The eviction manager tries to free what is scarce.
    ReclaimBegan,
    PodEvicted,
    /// The kernel killed a process for want of memory, outside of any container.
    SystemOom,
    /// The kubelet's banner.
    KubeletStarting,
    /// The kubelet's main loop begins.
    LoopStarted,
    /// The kubelet serves.
    KubeletStarted,
    /// The kubelet ended; the error says why.
    KubeletFailed,
    /// The runtime answered the kubelet.
    RuntimeReady,
    /// The runtime says that it is not ready.
    RuntimeNotReady,
    /// The runtime says that its network is not ready.
    NetworkNotReady,
    /// The cgroup driver, by the runtime.
    CgroupDriverKnown,
    /// The node is about to be registered.
    NodeRegistering,
    NodeRegistered,
    /// The node became ready.
    NodeReady,
    /// The node became not ready.
    NodeNotReady,
    /// An Event in the log of who reports it; `reason`, `message`, `fieldPath` are its own.
    EventLogged,
    /// The scheduler preempts a pod for another: `uid`, or `namespace` and `name` of that one, `node`.
    PodPreempted,
    /// A controller created or deleted the pod that `pod` names.
    OwnerActed,
    /// ReadyzChecks of /readyz that have not passed: `checks`.
    ReadyzFailed,
    /// The apiserver stores a new object.
    ObjectStored,
    /// The apiserver asks a webhook that may change an object.
    MutatingWebhookCalled,
    /// The apiserver asks a webhook that may refuse an object.
    ValidatingWebhookCalled,
}
