//! Which metric families and which kubelet settings kflow shows.

/// Families that are kept whole, with the buckets of histograms.
const WHOLE: &[&str] = &[
    // pod start
    "kubelet_pod_start_duration_seconds",
    "kubelet_pod_start_sli_duration_seconds",
    "kubelet_pod_start_total_duration_seconds",
    "kubelet_first_network_pod_start_sli_duration_seconds",
    "kubelet_pod_worker_start_duration_seconds",
    "kubelet_run_podsandbox_errors_total",
    "kubelet_image_pull_duration_seconds",
    "kubelet_image_manager_ensure_image_requests_total",
    "kubelet_started_pods_total",
    "kubelet_started_pods_errors_total",
    "kubelet_started_containers_total",
    "kubelet_started_containers_errors_total",
    "kubelet_terminated_containers_total",
    "kubelet_restarted_pods_total",
    "kubelet_admission_rejections_total",
    "kubelet_pod_resize_duration_milliseconds",
    "kubelet_pod_pending_resizes",
    "kubelet_pod_in_progress_resizes",
    // numbers of pods and containers
    "kubelet_desired_pods",
    "kubelet_active_pods",
    "kubelet_mirror_pods",
    "kubelet_working_pods",
    "kubelet_running_pods",
    "kubelet_running_containers",
    "kubelet_orphaned_runtime_pods_total",
    // runtime, PLEG, probes
    "kubelet_runtime_operations_total",
    "kubelet_runtime_operations_errors_total",
    "kubelet_pleg_relist_duration_seconds",
    "kubelet_pleg_last_seen_seconds",
    "kubelet_pleg_discard_events",
    "kubelet_evented_pleg_connection_success_count",
    "kubelet_evented_pleg_connection_error_count",
    "prober_probe_total",
    // volumes, eviction, node
    "volume_manager_total_volumes",
    "reconstruct_volume_operations_errors_total",
    "kubelet_evictions",
    "kubelet_preemptions",
    "kubelet_image_garbage_collected_total",
    "kubelet_topology_manager_admission_requests_total",
    "kubelet_topology_manager_admission_errors_total",
    "kubelet_node_startup_duration_seconds",
    "kubelet_node_startup_pre_kubelet_duration_seconds",
    "kubelet_node_startup_pre_registration_duration_seconds",
    "kubelet_node_startup_registration_duration_seconds",
    "kubelet_node_startup_post_registration_duration_seconds",
    "kubelet_graceful_shutdown_start_time_seconds",
    "kubelet_graceful_shutdown_end_time_seconds",
    "kubelet_cgroup_version",
    "kubernetes_build_info",
    "process_start_time_seconds",
    // scheduler
    "scheduler_pending_pods",
    "scheduler_unschedulable_pods",
    "scheduler_queue_incoming_pods_total",
    "scheduler_preemption_attempts_total",
    "scheduler_schedule_attempts_total",
    "scheduler_pod_scheduling_attempts",
    "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_scheduling_attempt_duration_seconds",
    // apiserver
    "apiserver_current_inflight_requests",
    "apiserver_current_inqueue_requests",
    "apiserver_flowcontrol_current_inqueue_requests",
    "apiserver_flowcontrol_rejected_requests_total",
    "apiserver_request_terminations_total",
    "apiserver_request_aborts_total",
    "apiserver_admission_webhook_rejection_count",
    "apiserver_admission_webhook_fail_open_count",
];

/// Histograms of which only `_sum` and `_count` are kept, so that means can be shown: with a label for each operation
/// they have hundreds of buckets, the apiserver's thousands.
const SUMS: &[&str] = &[
    "kubelet_pod_status_sync_duration_seconds",
    "kubelet_pleg_pod_relist_duration_seconds",
    "kubelet_pleg_relist_interval_seconds",
    "csi_operations_seconds",
    "storage_operation_duration_seconds",
    "kubelet_runtime_operations_duration_seconds",
    "kubelet_run_podsandbox_duration_seconds",
    "kubelet_cgroup_manager_duration_seconds",
    "kubelet_pod_worker_duration_seconds",
    "dra_operations_duration_seconds",
    "apiserver_request_duration_seconds",
    "apiserver_request_filter_duration_seconds",
    "apiserver_admission_step_admission_duration_seconds",
    "apiserver_admission_webhook_admission_duration_seconds",
    "apiserver_flowcontrol_request_wait_duration_seconds",
    "etcd_request_duration_seconds",
    "rest_client_request_duration_seconds",
    "rest_client_rate_limiter_duration_seconds",
    "scheduler_framework_extension_point_duration_seconds",
];

/// Families with a series for each resource, of which only those of [`RESOURCES`] are kept.
const BY_RESOURCE: &[&str] = &[
    "apiserver_request_total",
    "apiserver_watch_cache_events_dispatched_total",
    "apiserver_watch_cache_initializations_total",
    "apiserver_watch_events_total",
];

/// The resources that matter to a pod's start and end: those kept of [`BY_RESOURCE`] and of the apiserver's [`SUMS`].
const RESOURCES: &[&str] = &[
    "resource=\"pods\"",
    "resource=\"events\"",
    "resource=\"nodes\"",
    "resource=\"leases\"",
    "resource=\"bindings\"",
];

/// Returns true when the series `name{labels}` is kept.
pub(super) fn is_kept(name: &str, labels: &str) -> bool {
    let base = name
        .strip_suffix("_bucket")
        .or_else(|| name.strip_suffix("_sum"))
        .or_else(|| name.strip_suffix("_count"))
        .unwrap_or(name);
    if WHOLE.contains(&name) || WHOLE.contains(&base) {
        return true;
    }
    let of_a_pod =
        || !labels.contains("resource=\"") || RESOURCES.iter().any(|r| labels.contains(r));
    if SUMS.contains(&base) {
        return base != name && !name.ends_with("_bucket") && of_a_pod();
    }
    BY_RESOURCE.contains(&name) && of_a_pod()
}

/// Fields of `KubeletConfiguration` that explain what the kubelet does to pods.
pub(super) const SETTINGS: &[&str] = &[
    "allowedUnsafeSysctls",
    "cgroupDriver",
    "cgroupRoot",
    "cgroupsPerQOS",
    "containerRuntimeEndpoint",
    "cpuManagerPolicy",
    "crashLoopBackOff",
    "enableControllerAttachDetach",
    "eventBurst",
    "eventRecordQPS",
    "evictionHard",
    "evictionMinimumReclaim",
    "evictionPressureTransitionPeriod",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "failSwapOn",
    "featureGates",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "imageServiceEndpoint",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "kubeReserved",
    "localStorageCapacityIsolation",
    "maxParallelImagePulls",
    "maxPods",
    "memoryManagerPolicy",
    "nodeLeaseDurationSeconds",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "podPidsLimit",
    "podsPerCore",
    "registryBurst",
    "registryPullQPS",
    "runtimeRequestTimeout",
    "serializeImagePulls",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
    "staticPodPath",
    "syncFrequency",
    "systemReserved",
    "topologyManagerPolicy",
    "topologyManagerScope",
];
