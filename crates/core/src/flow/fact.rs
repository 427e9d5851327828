//! What a log line, an Event or a span says, whatever its wording. Timelines, rules and the view of the kubelet's loops
//! match evidence by these names. The wordings are in `map.toml` (`fact = "…"` beside each), and nowhere else.

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
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

facts! {
    /// The kubelet's pod source received a pod that it did not have before.
    PodReceived,
    /// The sync loop took an ADD from `configCh`.
    PodAdded,
    /// The sync loop took an UPDATE from `configCh`.
    PodUpdated,
    /// The sync loop took a REMOVE from `configCh`.
    PodRemoved,
    /// The sync loop took a DELETE from `configCh`: the pod has a deletionTimestamp.
    PodDeleted,
    /// The sync loop took a RECONCILE from `configCh`.
    PodReconciled,
    /// The sync loop took a container's change from `plegCh`.
    PlegEvent,
    /// The sync loop took pods that are due for a periodic sync from `syncCh`.
    PodsSynced,
    /// The result of a probe changed.
    ProbeTurned,
    /// A run of the housekeeping (`housekeepingCh`) ended.
    HousekeepingEnded,
    /// The sync loop skips all pods; the line's error says why.
    SyncSkipped,
    /// The kubelet rejected the pod at admission; `reason` and `message` say why.
    AdmissionDenied,
    /// The kubelet rejected the pod for lack of the resource `resource`. A kubelet before 1.31 logs nothing else of it.
    ResourceLacked,
    /// The pod's status says that the kubelet rejected the pod at admission; the name `message` says why.
    PodRejected,
    /// The kubelet decided whether to admit the pod.
    Admitted,
    /// A pod's worker receives its first update.
    WorkerFirst,
    /// A pod's worker receives an update.
    WorkerNotified,
    /// A pod's worker begins to process an update.
    WorkerBegan,
    /// A pod's worker has processed an update.
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
    /// The pod's worker waits for the volumes.
    VolumesAwaited,
    /// The pod's volumes are attached and mounted.
    VolumesMounted,
    /// The pod's worker stopped waiting for the volumes.
    VolumesTimedOut,
    /// A mounted volume is mounted again to refresh its contents (a remount).
    RemountStarted,
    /// A volume's mount begins.
    MountStarted,
    /// A volume's device is mounted.
    DeviceMounted,
    /// A volume is mounted.
    VolumeSetUp,
    /// The kubelet waits until the attach/detach controller has attached a volume.
    AttachAwaited,
    VolumeAttached,
    /// A volume could not be unmounted.
    UnmountFailed,
    /// A volume's device could not be mounted.
    DeviceMountFailed,
    /// A volume was not attached.
    AttachFailed,
    /// A volume could not be mounted, or another operation on volumes failed.
    MountFailed,
    /// A volume's unmount begins.
    UnmountStarted,
    /// A volume is unmounted.
    VolumeTornDown,
    /// No volume of a terminated pod is mounted.
    VolumesUnmounted,
    /// Volumes of a terminated pod are still mounted.
    VolumesLeft,
    /// The kubelet is about to create the sandbox.
    SandboxBegan,
    /// The runtime waits for its network plugin before it begins a sandbox.
    NetworkAwaited,
    /// The network plugin is ready, and the runtime begins the sandbox.
    NetworkArrived,
    /// The sandbox has no IP address, and another is to be made.
    SandboxWithoutAddress,
    /// The sandbox was created.
    SandboxCreated,
    /// The sandbox was not created.
    SandboxFailed,
    /// The runtime refused or failed to make the sandbox.
    SandboxRefused,
    /// Work of the runtime inside a CRI call. Timelines show it below the call.
    RuntimeWork,
    /// An image was not pulled.
    PullFailed,
    ImagePulled,
    /// The kubelet delays a pull because of its back-off.
    PullBackedOff,
    /// The kubelet is about to make a container; `containerType` says of which kind.
    ContainerBegan,
    /// A container could not be created or started; the error says why.
    ContainerError,
    /// As [`Fact::ContainerError`], because the OCI runtime could not make or start the process: the container does
    /// not start.
    ProcessNotMade,
    /// A container could not be started: the line's error is a reason (`ErrImagePull`), `containerMessage` the text.
    ContainerFailed,
    /// The kubelet delays a container's restart because of its back-off.
    RestartBackedOff,
    /// A postStart hook failed.
    PostStartFailed,
    /// The kubelet's internal PreCreateContainer hook failed.
    PreCreateFailed,
    /// The kubelet's internal PreStartContainer hook failed.
    PreStartFailed,
    /// PLEG found that a container has exited.
    ExitFound,
    /// PLEG found a change of a container or a sandbox.
    PlegChange,
    ProbePassed,
    ProbeFailed,
    /// A probe could not be run.
    ProbeErrored,
    /// A container is killed for the reason in `containerMessage`.
    KillExplained,
    /// A container is killed because its liveness probe failed.
    LivenessKill,
    /// A container is killed because its startup probe failed.
    StartupKill,
    /// A container is killed because its postStart hook failed.
    PostStartKill,
    /// A container is killed to be restarted, for none of the reasons above.
    RestartKill,
    /// A container is stopped because its pod ends.
    StopKill,
    /// A container is about to be stopped; `gracePeriod` says how long it has, s.
    StopBegan,
    /// The runtime could not stop a container or a sandbox.
    StopFailed,
    /// The kubelet tells the pod's worker to terminate the pod.
    TeardownBegan,
    /// SyncTerminatingPod begins.
    TerminatingBegan,
    /// SyncTerminatingPod ends.
    TerminatingEnded,
    /// SyncTerminatedPod begins.
    TerminatedBegan,
    /// SyncTerminatedPod ends.
    TerminatedEnded,
    /// A preStop hook begins.
    PreStopBegan,
    PreStopEnded,
    /// A preStop hook did not end within the grace period.
    PreStopTimedOut,
    PreStopFailed,
    /// The pod's cgroup is gone.
    CgroupRemoved,
    /// The pod's cgroup could not be removed.
    CgroupLeft,
    /// The kubelet removed the directory of a pod that no longer exists.
    OrphanRemoved,
    /// The kubelet patched the pod's status in the apiserver.
    StatusPatched,
    /// The kubelet could not write the pod's status to the apiserver; the line's error says why.
    StatusRefused,
    /// The kubelet's own measurement of how long a pod's start took.
    StartObserved,
    /// Dead containers were removed.
    ContainersCollected,
    /// Unused images were removed.
    ImagesCollected,
    /// No unused images were left to remove, and the disk is still too full; the error or message says how much was to go.
    ImagesNotFreed,
    /// The eviction manager reads its signals.
    EvictionChecked,
    /// An eviction signal is beyond its threshold.
    ThresholdMet,
    /// The eviction manager tries to reclaim the scarce resource.
    ReclaimBegan,
    PodEvicted,
    /// The kernel's OOM killer killed a process outside of all containers.
    SystemOom,
    /// The kubelet logs its version as it starts.
    KubeletStarting,
    /// The kubelet's main loop begins.
    LoopStarted,
    /// The kubelet logs that it has started.
    KubeletStarted,
    /// The kubelet's command failed; the error says why.
    KubeletFailed,
    /// The kubelet's process ended, as its service manager says; the error is its exit code or its signal.
    KubeletEnded,
    /// The kubelet could not register its node, or the agent that is to start it could not join; the error says why.
    RegistrationFailed,
    /// The kubelet's client certificate has expired.
    CertificateExpired,
    /// The kubelet cannot list the objects of a kind that it watches.
    ListFailed,
    /// A credential provider of the kubelet failed.
    CredentialsFailed,
    /// The container runtime answered the kubelet.
    RuntimeReady,
    /// The container runtime reports that it is not ready.
    RuntimeNotReady,
    /// The kubelet's loop could not ask the container runtime how it is.
    RuntimeUnreached,
    /// The container runtime reports that its network is not ready.
    NetworkNotReady,
    /// The apiserver does not have the kubelet's node, or the kubelet has not heard of it.
    NodeNotFound,
    /// The kubelet learned its cgroup driver from the container runtime.
    CgroupDriverKnown,
    /// The kubelet can make no static pod of a manifest; `path` is the manifest's.
    ManifestRefused,
    /// The kubelet is about to register its node.
    NodeRegistering,
    NodeRegistered,
    /// The node became ready.
    NodeReady,
    /// The node became not ready.
    NodeNotReady,
    /// An Event in the log of the component that reports it. `reason`, `message` and `fieldPath` are the Event's.
    EventLogged,
    /// The scheduler finds no node for the pod; its error says why.
    Unschedulable,
    /// The scheduler preempts a pod in favour of another: `uid`, or `namespace` and `name`, of the other pod, and
    /// `node`.
    PodPreempted,
    /// A controller created or deleted the pod that `pod` names.
    OwnerActed,
    /// Checks of `/readyz` that have not passed, in `checks`.
    ReadyzFailed,
    /// The apiserver stores a new object.
    ObjectStored,
    /// The apiserver calls a mutating webhook.
    MutatingWebhookCalled,
    /// The apiserver calls a validating webhook.
    ValidatingWebhookCalled,
}

impl Fact {
    /// True for what the kubelet says at each turn of its loops, of pods that are well and of those that are not: by itself it shows
    /// nothing of what keeps a pod.
    pub const fn is_routine(self) -> bool {
        matches!(
            self,
            Self::PhaseComputed
                | Self::PlegChange
                | Self::PodReconciled
                | Self::PodsSynced
                | Self::StatusPatched
                | Self::VolumeSetUp
                | Self::WorkerBegan
                | Self::WorkerEnded
                | Self::WorkerNotified
        )
    }
}
