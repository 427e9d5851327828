//! How long a rule waits before it reports something: one table, with the source of each time.
//!
//! "Measured" is the longest time in those recordings of `fixtures/sessions` and `fixtures/causes/real` in which the
//! measured step had no trouble; S5-burst starts 40 pods at once on two cores. Files, functions and constants are
//! those of Kubernetes 1.36.2. "Chosen" is our own choice, with its reason. A chosen time is at most 30 s, unless it
//! is the time for which a past message still counts and not a wait before a verdict.

use kflow_model::stamp::SECOND;

/// A time that a rule waits.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Stage and condition in which the time is used, for people.
    pub name: &'static str,
    /// The time, ns.
    pub ns: i64,
    /// Where the time comes from.
    pub source: &'static str,
}

const fn limit(name: &'static str, seconds: i64, source: &'static str) -> Limit {
    Limit {
        name,
        ns: seconds * SECOND,
        source,
    }
}

/// Declares a constant for each limit, and the table [`ALL`].
macro_rules! limits {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $seconds:literal, $source:literal;)*) => {
        $($(#[$doc])* pub const $id: Limit = limit($name, $seconds, $source);)*
        /// All limits, in the order of a pod's life.
        pub const ALL: &[Limit] = &[$($id),*];
    };
}

limits! {
    /// For an owner that no controller reacts to.
    CONTROLLER = "api: no controller has touched the owner", 10, "measured: the next object of an owner is created at most 0.02 s after it (S5-burst, S2-stuck-early)";
    /// The longest pause between two tries of a failing controller: it pauses for as long as it has tried so far, at
    /// most this long.
    CONTROLLER_RETRY = "api: longest pause between two tries of a controller", 1000, "client-go util/workqueue/default_rate_limiters.go, DefaultTypedControllerRateLimiter: NewTypedItemExponentialFailureRateLimiter(5 ms, 1000 s)";
    /// Leeway on top of [`CONTROLLER_RETRY`].
    CONTROLLER_LATE = "api: a controller's next try is late", 60, "chosen: on top of the pause above, the wait in the queue, whose token bucket holds 100 and gives 10 a second (the same function)";
    /// For a pod that no scheduler has looked at.
    SCHEDULER = "schedule: no scheduler has looked at the pod", 10, "measured: PodScheduled after at most 0.10 s (S5-burst)";
    /// How long a scheduler waits for the volumes of a pod that it has a node for, without a word about the pod.
    BIND_VOLUMES = "schedule: the scheduler waits for the pod's volumes", 660, "pkg/scheduler/apis/config/v1/defaults.go, SetDefaults_VolumeBindingArgs: BindTimeoutSeconds 600; chosen: a minute for the time that the pod is in the queue before";
    /// For a pod whose state does not tell why it is not bound.
    UNBOUND = "schedule: not bound, and nothing says why", 30, "measured: bound after at most 0.10 s (S5-burst); leaves room for a scheduler that restarts (component-base/config/v1alpha1/defaults.go, RecommendedDefaultLeaderElectionConfiguration: LeaseDuration 15 s)";
    /// For a node that an autoscaler has requested.
    NODE_JOINS = "schedule: a node that was asked for has not joined", 900, "kubernetes-sigs/karpenter pkg/controllers/nodeclaim/lifecycle/liveness.go: registrationTimeout 15 min; kubernetes/autoscaler cluster-autoscaler/config/flags/flags.go: max-node-provision-time 15 min. Each gives the node up then";
    /// The apiserver lets a kubelet have what the pods on its node need, once it has heard itself that they are there.
    AUTHORIZER = "volumes: the apiserver does not know yet that the pod is on the node", 5, "plugin/pkg/auth/authorizer/node/graph_populator.go, AddGraphEventHandlers: it hears of pods by a watch of its own; chosen: by then the kubelet has tried four times (pkg/volume/util/nestedpendingoperations, 0.5, 1 and 2 s apart)";
    /// Watches of pods and nodes are two streams: a pod on a new node may appear before the node.
    NODE_APPEARS = "admit: bound to a node that no list has", 3, "pods and nodes come by two watches, which nothing orders; measured: what one write causes arrives within 0.03 s (Events and CRI calls, S1-basics)";
    /// The pod garbage collector deletes pods of nodes that do not exist.
    POD_GC = "admit: the pod garbage collector deletes pods of a node that does not exist", 80, "pkg/controller/podgc/gc_controller.go, gcOrphaned: quarantineTime 40 s, and gcCheckPeriod 20 s before it and after it";
    /// For a pod that its kubelet does not pick up.
    PICK_UP = "admit: the kubelet has not begun with the pod", 10, "measured: status.startTime shown at most 0.89 s after the binding (S5-burst)";
    /// As [`PICK_UP`], when nothing else is known about the kubelet.
    PICK_UP_BLIND = "admit: the same, and nothing shows whether the kubelet lives", 30, "measured as above; by then a kubelet that lives has renewed its lease three times (LEASE_MISSED)";
    /// How long the kubelet's line counts that says that a manifest is no pod.
    MANIFESTS = "admit: the kubelet said that it can make no pod of a manifest", 50, "pkg/kubelet/apis/config/v1beta1/defaults.go, SetDefaults_KubeletConfiguration: FileCheckFrequency 20 s, at each of which it says so; two of them, and chosen: ten seconds for the line to come";
    /// How long the kubelet's line counts that says that it reclaims a resource.
    RECLAIMING = "admit: the kubelet said that it gets a resource back", 30, "pkg/kubelet/kubelet.go: evictionMonitoringPeriod 10 s; pkg/kubelet/eviction/eviction_manager.go, synchronize: each turn says so while a threshold is met, and waits up to 30 s (podCleanupTimeout) for a pod that it ended";
    /// How long the kubelet's word counts that it found no more images to remove.
    IMAGES_KEPT = "admit: the kubelet found no more images to remove from a full disk", 600, "pkg/kubelet/kubelet.go: ImageGCPeriod 5 min; two of them";
    /// For a node that has just come, or come back.
    NODE_STARTS = "admit: a node that is not ready since it started", 30, "chosen: three reports of the kubelet (pkg/kubelet/apis/config/v1beta1/defaults.go, NodeStatusUpdateFrequency 10 s), in which the network's own pods are started";
    /// For a kubelet that neither logs nor calls the runtime.
    KUBELET_SILENT = "admit: no line of the kubelet's log and no call of it", 10, "pkg/kubelet/kubelet.go: genericPlegRelistPeriod 1 s; pkg/kubelet/pleg/generic.go, Relist: each begins with GetPods, a ListPodSandbox. Ten have not come";
    /// For a kubelet that is alive and does not begin with a pod.
    KUBELET_IDLE = "admit: the kubelet renews its lease and does not begin with the pod", 20, "measured as above (PICK_UP); a lease is renewed every 10 s (LEASE_MISSED), so that one renewal lies within";
    /// For renewals of a kubelet's lease that are missing from the audit log.
    LEASE_MISSED = "admit: renewals that the audit log lacks", 25, "pkg/kubelet/kubelet.go, NewMainKubelet: renewInterval = NodeLeaseDurationSeconds (40 s) × nodeLeaseRenewIntervalFraction (0.25); two have not come (measured: 10.0 to 10.4 s apart, S11-control-plane)";
    /// `nodeLeaseDurationSeconds`, for a lease that does not hold its own duration.
    LEASE = "admit: the node's lease has run out", 40, "pkg/kubelet/apis/config/v1beta1/defaults.go, SetDefaults_KubeletConfiguration: NodeLeaseDurationSeconds 40";
    /// For a leader's lease that does not hold its own duration.
    LEADER = "api, schedule: a leader's lease has run out", 15, "component-base/config/v1alpha1/defaults.go, RecommendedDefaultLeaderElectionConfiguration: LeaseDuration 15 s; kubernetes-csi/csi-lib-utils leaderelection/leader_election.go: defaultLeaseDuration 15 s";
    /// A kubelet that logs this long after its exit works again: its supervisor restarts it sooner.
    KUBELET_RESTART = "admit: a kubelet that works after it had ended", 20, "kubernetes/release cmd/krel/templates/latest/kubelet/kubelet.service (v0.16.2): RestartSec=10; as long again, chosen: for its start on a busy node";
    /// How long the kubelet's line counts that says that it skips pods.
    SKIPPING = "admit: the kubelet's newest word that it skips all pods", 12, "pkg/kubelet/kubelet.go, syncLoop: it says so, and sleeps base 100 ms, × factor 2, up to max 5 s; two of the longest, and two seconds to be read";
    /// For a call of the kubelet's loops.
    LOOP_CALL = "admit: a call of the kubelet's loops is in flight", 10, "measured: ListPodSandbox at most 0.16 s, Status at most 0.01 s (S5-burst)";
    /// A node whose runtime does not answer is not ready after this long.
    RUNTIME_DOWN = "admit: a node that is ready although its runtime did not answer once: it answers again", 60, "pkg/kubelet/kubelet.go, NewMainKubelet: newRuntimeState(maxWaitForContainerRuntime 30 s), after which ReadyCondition (pkg/kubelet/nodestatus/setters.go) says that it is down; pkg/kubelet/apis/config/v1beta1/defaults.go: NodeStatusUpdateFrequency 10 s; chosen: as long again for the status to come";
    /// For volumes that are not mounted.
    VOLUMES = "volumes: no sandbox was asked for", 20, "measured: 0.3 s with local volumes (S1-basics); pkg/kubelet/volumemanager/volume_manager.go, WaitForAttachAndMount: polls every podAttachAndMountRetryInterval 300 ms, and itself complains only after podAttachAndMountTimeout 2m3s. Chosen: long enough for a local disk, and far less than that";
    /// For volumes or the sandbox, with the API alone.
    SANDBOX_BLIND = "volumes, sandbox: no sandbox is ready, by the API alone", 25, "measured: PodReadyToStartContainers at most 4.87 s after startTime (S5-burst)";
    /// By this time the kubelet has named the volumes that are missing.
    VOLUMES_TOLD = "volumes: the kubelet has said which are missing", 150, "pkg/kubelet/volumemanager/volume_manager.go, WaitForAttachAndMount: podAttachAndMountTimeout 2m3s; chosen: on top of it the wait for the next sync of the pod (backOffPeriod 10 s, pkg/kubelet/kubelet.go) and the way of its Event";
    /// For RunPodSandbox.
    SANDBOX = "sandbox: RunPodSandbox is in flight", 10, "measured: at most 4.63 s (S5-burst)";
    /// For ImageStatus, by which the kubelet asks whether the node has an image.
    LOOK_UP = "image: ImageStatus is in flight", 10, "measured: at most 1.27 s (S17-kubelet-1.27, on a busy node), at kubelet 1.36 at most 0.12 s (S5-burst)";
    /// For PullImage.
    PULL = "image: a pull runs", 10, "PullImage has no deadline; measured: 17.9 s and 53.3 s for images over a slow line (S6-slowpull), 0.33 s otherwise";
    /// For a pull that was announced and has not begun.
    PULL_QUEUED = "image: announced, and no PullImage", 3, "measured: Pulling is shown at most 0.03 s after PullImage (S1-basics)";
    /// For a layer of a pull after its first bytes.
    PULL_STILL = "image: nothing more comes of a layer of which some came", 20, "chosen: or three times as long as its pieces of 1 MiB took so far, if that is longer. containerd cancels a pull of which nothing comes for 5 minutes (docs/cri/config.md, image_pull_progress_timeout), which is long to wait in silence";
    /// For the first bytes of a layer of a pull.
    PULL_FIRST_PIECE = "image: nothing comes of a layer of which nothing has come", 30, "chosen: a line that brings less than 1 MiB (containerd's piece, content/helpers.go) in this time would need more than half an hour for 60 MiB";
    /// For CreateContainer, StartContainer and postStart hooks.
    CREATE = "create, start: CreateContainer, StartContainer or a postStart hook runs", 15, "measured: at most 2.57 s and 1.11 s (S5-burst)";
    /// For telling the call of a postStart hook from that of a preStop hook, which looks the same.
    POST_START = "start: a postStart hook is called after the container's start", 2, "pkg/kubelet/kuberuntime/kuberuntime_container.go, startContainer: the hook follows StartContainer at once; measured: 1 to 2.2 ms (S1-basics, S3-crashes)";
    /// For the time between the sandbox and a running container, when nothing says what happens.
    CREATE_BLIND = "image, create, start: nothing was heard of the container", 30, "measured: Ready at most 3.49 s after the sandbox (S5-burst)";
    /// For a container that a list shows as ended for the first time, which is started again at once or not at all.
    RESTART = "start: a container that has ended for the first time, and is not started again", 30, "pkg/kubelet/kuberuntime/kuberuntime_manager.go, doBackOff: no back-off before the first restart; pkg/kubelet/pod_workers.go, completeWork: a worker is called again after at most 15 s (backOffPeriod 10 s, jitter 0.5); chosen: twice that";
    /// For an init container that runs.
    INIT = "start: an init container runs", 30, "chosen: what is usual for an init container is not known, so the longest that nobody may wait without a sentence";
    /// For a sidecar without a startup probe that does not count as started.
    SIDECAR = "start: a sidecar does not count as started", 10, "pkg/kubelet/prober/prober_manager.go, isContainerStarted: without a startup probe a container that runs counts as started; that it runs the next relist tells (genericPlegRelistPeriod 1 s). Chosen: ten of them";
    /// For a running container that is not ready.
    READY = "ready: a container runs and is not ready, besides its probe's initialDelaySeconds", 10, "pkg/apis/core/v1/defaults.go, SetDefaults_Probe: PeriodSeconds 10, so that one probe has been made";
    /// As [`READY`], when no failure of a probe was seen.
    READY_BLIND = "ready: the same, and no probe was heard to fail", 30, "pkg/apis/core/v1/defaults.go, SetDefaults_Probe: PeriodSeconds 10 × FailureThreshold 3; Events may be dropped: client-go tools/record/events_cache.go, defaultSpamBurst 25, defaultSpamQPS 1/300";
    /// For the status of a running container to reach the API.
    STATUS = "ready: the API does not show what runs on the node", 10, "pkg/kubelet/status/status_manager.go, Start: syncBatch(all) every syncPeriod 10 s";
    /// For a readiness gate.
    GATES = "ready: a readiness gate is not met", 5, "chosen: a condition that is set by a controller, which reacts at once (measured above: 0.02 s)";
    /// For a resize that is pending.
    RESIZE = "ready: a resize is pending", 5, "measured: granted within 0.1 s (S1-basics, 37-resize)";
    /// For an operation on a volume, which the kubelet tries again.
    VOLUME_RETRY = "terminate: a volume that could not be unmounted is tried again", 150, "pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go, maxDurationBeforeRetry 2 min 2 s; chosen: on top of it, the time that the operation takes";
    /// For a deleted pod that one of its own calls holds up.
    HELD = "terminate: a call of the pod holds up its deletion", 3, "pkg/kubelet/kubelet.go, syncLoop: housekeepingPeriod 2 s, and the first call after it";
    /// For a preStop hook.
    HOOK = "terminate: a preStop hook runs", 6, "chosen: a preStop hook of 5 s, as load balancers want it, is nothing to tell";
    /// For a container that was asked to stop.
    STOP = "terminate: a container got its signal and runs", 10, "chosen: a third of what a pod is given when it does not say (core/v1 types.go, DefaultTerminationGracePeriodSeconds 30): a process that obeys its signal has ended by then";
    /// For the kill after the grace period.
    KILL = "terminate: the kill after the grace period", 5, "measured: StopContainer returns at most 1.34 s after its timeout, StopPodSandbox after at most 2.99 s (S5-burst)";
    /// For a deleted pod whose containers have all ended.
    LET_GO = "terminate: all has ended, and the pod is still there", 20, "measured: gone at most 9.35 s after its containers were shown as ended (S5-burst)";
    /// For a namespace that is emptied.
    NAMESPACE = "terminate: a deleted namespace is still there", 30, "core/v1 types.go, DefaultTerminationGracePeriodSeconds 30: by then the pods in it that do not say otherwise have stopped";
    /// For an autoscaler that has no metrics of pods that have just started.
    METRICS = "api: an autoscaler has no metrics", 60, "cmd/kube-controller-manager/app/options/hpacontroller.go: HorizontalPodAutoscalerSyncPeriod 15 s; kubernetes-sigs/metrics-server cmd/metrics-server/app/options/options.go, MetricResolution 60 s";
    /// For a failure after which the kubelet tries again at once, and a back-off, which it reports in each sync of the pod.
    LOG_RETRY = "any stage: the kubelet's log does not tell any more of what each sync of the pod would report: it is over", 120, "pkg/kubelet/pod_workers.go, completeWork: a worker that failed is called again after at most 15 s (backOffPeriod 10 s, jitter 0.5), and logs it; chosen: a worker that has to wait for its turn";
    /// For any other failure of which only the kubelet's log tells.
    LOG_REPEAT = "any stage: only the kubelet's log tells of the failure, and no longer: it is over", 360, "pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go, maxDurationBeforeRetry: 2m02s; chosen: the time that a mount or a RunPodSandbox takes until it fails";
    /// For a pod of which nothing but Events is known.
    EVENTS_REPEAT = "any stage: the pod is known from Events alone, and none is recent: it may be gone", 600, "client-go tools/record/events_cache.go: defaultSpamBurst 25, defaultSpamQPS 1/300: who fails again and again writes an Event about it at least every 5 min; twice that";
    /// For a pod whose state changed a moment ago.
    MOVES = "any stage: nothing is concluded from silence this soon after the pod moved", 10, "pkg/kubelet/status/status_manager.go, Start: syncBatch(all) every syncPeriod 10 s; by then what was done shows";
    /// For a kubelet that has come back, to work off what it missed.
    BACKLOG = "terminate: a kubelet that has come back works off what it missed", 20, "pkg/kubelet/status/status_manager.go, Start: syncBatch(all) every syncPeriod 10 s; two of them";
    /// For an eviction that the apiserver refuses.
    EVICTION = "terminate: an eviction that is refused is tried again", 60, "kubectl, pkg/drain/drain.go, evictPods: every 5 s; cluster-autoscaler, core/scaledown/actuation/drain.go, DefaultEvictionRetryTime: every 10 s; who has not for so long has given up";
    /// How long a refused deletion or creation is reported.
    REFUSED = "terminate: a refused deletion is news", 300, "chosen: as long as a refusal is news; nothing follows from it";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_says_where_it_comes_from() {
        for l in ALL {
            assert!(l.ns > 0, "{}", l.name);
            let source = l.source;
            // A source cites a constant or function of a file, says what was measured, or says why the time was chosen.
            let cited = (source.contains(".go") || source.contains(".service"))
                && source.contains(|c: char| c.is_ascii_uppercase());
            let measured = source.contains("measured");
            let chosen = source.to_lowercase().contains("chosen: ");
            assert!(cited || measured || chosen, "{}: {source}", l.name);
        }
    }

    #[test]
    fn no_time_of_our_own_choice_is_a_long_wait() {
        // These are no waits: they say how long a past message counts.
        let believed = [REFUSED.name, CONTROLLER_LATE.name];
        for l in ALL.iter().filter(|l| l.source.starts_with("chosen")) {
            assert!(
                l.ns <= 30 * SECOND || believed.contains(&l.name),
                "{}",
                l.name
            );
        }
    }
}
