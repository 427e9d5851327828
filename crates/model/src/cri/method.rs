//! Names of the CRI's methods (`api.proto` of k8s.io/cri-api). A call's method is kept as text, because other versions
//! of the CRI have other methods.

/// The method of a call whose method is not known (`Service::Unknown`). No method's path looks like it.
pub const UNKNOWN: &str = "?";

macro_rules! methods {
    ($($name:ident = $text:literal;)+) => {
        $(
            #[doc = concat!("`", $text, "`")]
            pub const $name: &str = $text;
        )+

        /// Every method: those of `RuntimeService` in alphabetical order, then those of `ImageService`.
        pub const ALL: &[&str] = &[$($name),+];
    };
}

methods! {
    ATTACH = "Attach";
    CHECKPOINT_CONTAINER = "CheckpointContainer";
    CONTAINER_STATS = "ContainerStats";
    CONTAINER_STATUS = "ContainerStatus";
    CREATE_CONTAINER = "CreateContainer";
    EXEC = "Exec";
    EXEC_SYNC = "ExecSync";
    GET_CONTAINER_EVENTS = "GetContainerEvents";
    LIST_CONTAINER_STATS = "ListContainerStats";
    LIST_CONTAINERS = "ListContainers";
    LIST_METRIC_DESCRIPTORS = "ListMetricDescriptors";
    LIST_POD_SANDBOX = "ListPodSandbox";
    LIST_POD_SANDBOX_METRICS = "ListPodSandboxMetrics";
    LIST_POD_SANDBOX_STATS = "ListPodSandboxStats";
    POD_SANDBOX_STATS = "PodSandboxStats";
    POD_SANDBOX_STATUS = "PodSandboxStatus";
    PORT_FORWARD = "PortForward";
    REMOVE_CONTAINER = "RemoveContainer";
    REMOVE_POD_SANDBOX = "RemovePodSandbox";
    REOPEN_CONTAINER_LOG = "ReopenContainerLog";
    RUN_POD_SANDBOX = "RunPodSandbox";
    RUNTIME_CONFIG = "RuntimeConfig";
    START_CONTAINER = "StartContainer";
    STATUS = "Status";
    STOP_CONTAINER = "StopContainer";
    STOP_POD_SANDBOX = "StopPodSandbox";
    STREAM_CONTAINER_STATS = "StreamContainerStats";
    STREAM_CONTAINERS = "StreamContainers";
    STREAM_POD_SANDBOX_METRICS = "StreamPodSandboxMetrics";
    STREAM_POD_SANDBOX_STATS = "StreamPodSandboxStats";
    STREAM_POD_SANDBOXES = "StreamPodSandboxes";
    UPDATE_CONTAINER_RESOURCES = "UpdateContainerResources";
    UPDATE_POD_SANDBOX_RESOURCES = "UpdatePodSandboxResources";
    UPDATE_RUNTIME_CONFIG = "UpdateRuntimeConfig";
    VERSION = "Version";
    IMAGE_FS_INFO = "ImageFsInfo";
    IMAGE_STATUS = "ImageStatus";
    LIST_IMAGES = "ListImages";
    PULL_IMAGE = "PullImage";
    REMOVE_IMAGE = "RemoveImage";
    STREAM_IMAGES = "StreamImages";
}
