//! The messages of `runtime.v1` and `runtime.v1alpha2` (the same fields under the same numbers), with only the fields
//! that kflow shows. Fields that are not here are never read: `envs`, `AuthConfig`, pod labels, annotations that are
//! not listed below, the output of commands, streaming URLs.

use super::proto::{Chosen, First, Keys, Many, Present, Size, message};

/// Labels that name the pod and container of a sandbox or container (`pkg/kubelet/kuberuntime/labels.go`).
#[derive(Clone, Debug, Default)]
pub(super) struct OwnerKeys;
impl Keys for OwnerKeys {
    const KEYS: &'static [&'static str] = &[
        "io.kubernetes.pod.name",
        "io.kubernetes.pod.namespace",
        "io.kubernetes.pod.uid",
        "io.kubernetes.container.name",
    ];
}

/// The annotations that are read: useful ones that the kubelet itself writes. All others may
/// hold anything, secrets too.
#[derive(Clone, Debug, Default)]
pub(super) struct AnnotationKeys;
impl Keys for AnnotationKeys {
    const KEYS: &'static [&'static str] = &[
        "kubernetes.io/config.seen",
        "kubernetes.io/config.source",
        "kubernetes.io/config.hash",
        "io.kubernetes.container.hash",
        "io.kubernetes.container.restartCount",
        "io.kubernetes.container.terminationMessagePath",
        "io.kubernetes.container.terminationMessagePolicy",
        "io.kubernetes.pod.terminationGracePeriod",
        "io.kubernetes.pod.deletionGracePeriod",
    ];
}

pub(super) type Owner<'a> = Chosen<'a, OwnerKeys>;
pub(super) type Annotations<'a> = Chosen<'a, AnnotationKeys>;

// Parts
message! {
    SandboxMetadata { 1 => name: &'a str, 2 => uid: &'a str, 3 => namespace: &'a str, 4 => attempt: u32 }
    ContainerMetadata { 1 => name: &'a str, 2 => attempt: u32 }
    /// An image reference. The kubelet sends the pod's annotations with it (`EnsureImageExists`,
    /// `pkg/kubelet/images/image_manager.go`).
    ImageSpec { 1 => image: &'a str, 2 => annotations: Annotations<'a>, 18 => user_specified_image: &'a str, 19 => runtime_handler: &'a str }
    DnsConfig { 1 => servers: Many<&'a str, 8>, 2 => searches: Many<&'a str, 8> }
    PortMapping { 1 => protocol: i32, 2 => container_port: i32, 3 => host_port: i32 }
    Mount { 1 => container_path: &'a str, 2 => host_path: &'a str, 3 => readonly: bool, 5 => propagation: i32 }
    NamespaceOption { 1 => network: i32, 2 => pid: i32, 3 => ipc: i32 }
    SandboxSecurity { 1 => namespaces: NamespaceOption<'a>, 6 => privileged: bool }
    LinuxSandbox {
        1 => cgroup_parent: &'a str,
        2 => security: SandboxSecurity<'a>,
        4 => overhead: Option<Resources<'a>>,
        5 => resources: Option<Resources<'a>>,
    }
    Resources {
        1 => cpu_period: i64,
        2 => cpu_quota: i64,
        3 => cpu_shares: i64,
        4 => memory_limit: i64,
        5 => oom_score_adj: i64,
        6 => cpuset_cpus: &'a str,
        7 => cpuset_mems: &'a str,
        10 => memory_swap_limit: i64,
    }
    Int64Value { 1 => value: i64 }
    ContainerSecurity {
        2 => privileged: bool,
        5 => run_as_user: Option<Int64Value<'a>>,
        6 => run_as_username: &'a str,
        7 => readonly_rootfs: bool,
    }
    LinuxContainer { 1 => resources: Option<Resources<'a>>, 2 => security: ContainerSecurity<'a> }
    SandboxConfig {
        1 => metadata: SandboxMetadata<'a>,
        2 => hostname: &'a str,
        3 => log_directory: &'a str,
        4 => dns: DnsConfig<'a>,
        5 => ports: Many<PortMapping<'a>, 16>,
        7 => annotations: Annotations<'a>,
        8 => linux: LinuxSandbox<'a>,
    }
    ContainerConfig {
        1 => metadata: ContainerMetadata<'a>,
        2 => image: ImageSpec<'a>,
        3 => command: First<'a>,
        5 => working_dir: &'a str,
        7 => mounts: Many<Mount<'a>, 32>,
        10 => annotations: Annotations<'a>,
        11 => log_path: &'a str,
        15 => linux: LinuxContainer<'a>,
    }
}

// Requests
message! {
    RunPodSandboxRequest { 1 => config: SandboxConfig<'a>, 2 => runtime_handler: &'a str }
    /// Requests that name a sandbox: Stop, Remove, Status, Stats, PortForward.
    SandboxIdRequest { 1 => id: &'a str, 2 => verbose: bool }
    PortForwardRequest { 1 => id: &'a str, 2 => ports: Many<i32, 16> }
    /// Requests that name a container: Start, Remove, Status, Stats, Attach, ReopenContainerLog.
    ContainerIdRequest { 1 => id: &'a str }
    ContainerStatusRequest { 1 => id: &'a str, 2 => verbose: bool }
    CreateContainerRequest { 1 => sandbox_id: &'a str, 2 => config: ContainerConfig<'a>, 3 => sandbox: SandboxConfig<'a> }
    StopContainerRequest { 1 => id: &'a str, 2 => timeout: i64 }
    ExecSyncRequest { 1 => id: &'a str, 2 => command: First<'a>, 3 => timeout: i64 }
    ExecRequest { 1 => id: &'a str, 2 => command: First<'a>, 3 => tty: bool, 4 => stdin: bool }
    StateValue { 1 => state: i32 }
    SandboxFilter { 1 => id: &'a str, 2 => state: Option<StateValue<'a>>, 3 => labels: Owner<'a> }
    ListPodSandboxRequest { 1 => filter: SandboxFilter<'a> }
    ContainerFilter { 1 => id: &'a str, 2 => state: Option<StateValue<'a>>, 3 => sandbox_id: &'a str, 4 => labels: Owner<'a> }
    ListContainersRequest { 1 => filter: ContainerFilter<'a> }
    ContainerStatsFilter { 1 => id: &'a str, 2 => sandbox_id: &'a str, 3 => labels: Owner<'a> }
    ListContainerStatsRequest { 1 => filter: ContainerStatsFilter<'a> }
    SandboxStatsFilter { 1 => id: &'a str, 2 => labels: Owner<'a> }
    ListPodSandboxStatsRequest { 1 => filter: SandboxStatsFilter<'a> }
    UpdateContainerResourcesRequest { 1 => id: &'a str, 2 => linux: Resources<'a> }
    UpdatePodSandboxResourcesRequest { 1 => id: &'a str, 2 => overhead: Option<Resources<'a>>, 3 => resources: Option<Resources<'a>> }
    NetworkConfig { 1 => pod_cidr: &'a str }
    RuntimeConfigValue { 1 => network: NetworkConfig<'a> }
    UpdateRuntimeConfigRequest { 1 => config: RuntimeConfigValue<'a> }
    VerboseRequest { 1 => verbose: bool }
    VersionRequest { 1 => version: &'a str }
    CheckpointContainerRequest { 1 => id: &'a str, 2 => location: &'a str, 3 => timeout: i64 }
    ImageRequest { 1 => image: ImageSpec<'a>, 2 => verbose: bool }
    PullImageRequest { 1 => image: ImageSpec<'a>, 2 => credentials: Present, 3 => sandbox: SandboxConfig<'a> }
}

// Answers
message! {
    VersionResponse { 2 => runtime_name: &'a str, 3 => runtime_version: &'a str, 4 => runtime_api_version: &'a str }
    /// Answers that give an id or a reference: RunPodSandbox, CreateContainer, PullImage.
    IdResponse { 1 => id: &'a str }
    PodIp { 1 => ip: &'a str }
    SandboxNetwork { 1 => ip: &'a str, 2 => additional: Many<PodIp<'a>, 8> }
    SandboxStatus {
        1 => id: &'a str,
        2 => metadata: SandboxMetadata<'a>,
        3 => state: i32,
        4 => created_at: i64,
        5 => network: SandboxNetwork<'a>,
        9 => runtime_handler: &'a str,
    }
    PodSandboxStatusResponse { 1 => status: SandboxStatus<'a>, 3 => containers: Many<ContainerStatus<'a>, 256> }
    ContainerStatus {
        1 => id: &'a str,
        2 => metadata: ContainerMetadata<'a>,
        3 => state: i32,
        4 => created_at: i64,
        5 => started_at: i64,
        6 => finished_at: i64,
        7 => exit_code: i32,
        8 => image: ImageSpec<'a>,
        9 => image_ref: &'a str,
        10 => reason: &'a str,
        11 => message: &'a str,
        12 => labels: Owner<'a>,
        13 => annotations: Annotations<'a>,
        15 => log_path: &'a str,
    }
    ContainerStatusResponse { 1 => status: ContainerStatus<'a> }
    /// An item in the answer of ListPodSandbox.
    Sandbox {
        1 => id: &'a str,
        2 => metadata: SandboxMetadata<'a>,
        3 => state: i32,
        4 => created_at: i64,
        7 => runtime_handler: &'a str,
    }
    /// An item in the answer of ListContainers.
    Container {
        1 => id: &'a str,
        2 => sandbox_id: &'a str,
        3 => metadata: ContainerMetadata<'a>,
        4 => image: ImageSpec<'a>,
        6 => state: i32,
        7 => created_at: i64,
        8 => labels: Owner<'a>,
    }
    ExecSyncResponse { 1 => stdout: Size, 2 => stderr: Size, 3 => exit_code: i32 }
    Condition { 1 => kind: &'a str, 2 => status: bool, 3 => reason: &'a str, 4 => message: &'a str }
    RuntimeStatus { 1 => conditions: Many<Condition<'a>, 16> }
    StatusResponse { 1 => status: RuntimeStatus<'a> }
    Image { 1 => id: &'a str, 2 => tags: Many<&'a str, 4>, 4 => size: u64, 5 => uid: Option<Int64Value<'a>>, 6 => username: &'a str }
    ImageStatusResponse { 1 => image: Option<Image<'a>> }
    Mountpoint { 1 => mountpoint: &'a str }
    UInt64Value { 1 => value: u64 }
    FilesystemUsage { 2 => fs: Mountpoint<'a>, 3 => used: UInt64Value<'a>, 4 => inodes: UInt64Value<'a> }
    ImageFsInfoResponse { 1 => images: Many<FilesystemUsage<'a>, 8>, 2 => containers: Many<FilesystemUsage<'a>, 8> }
    LinuxRuntimeConfig { 1 => cgroup_driver: i32 }
    RuntimeConfigResponse { 1 => linux: Option<LinuxRuntimeConfig<'a>> }
    ContainerEventResponse {
        1 => container_id: &'a str,
        2 => kind: i32,
        3 => created_at: i64,
        4 => sandbox: SandboxStatus<'a>,
        5 => containers: Many<ContainerStatus<'a>, 256>,
    }
}
