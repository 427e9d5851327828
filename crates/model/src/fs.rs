//! Changes in cgroups, the kubelet's pod directories, and mounts.

use serde::{Deserialize, Serialize};

use super::{ContainerId, PodUid, Text};

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FsAction {
    /// It was created now.
    Created,
    /// It was removed now.
    Removed,
    /// It was written, or renamed into place, now.
    Changed,
    /// It existed when the watch began or a scan found it: it was created at or before the stamp.
    Present,
}

/// What a path stands for. Paths of no other kind become an observation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FsObject {
    /// Cgroup of a pod, with its QoS level (`guaranteed`, `burstable`, `besteffort`).
    PodCgroup {
        uid: PodUid,
        /// QoS level, from the path.
        qos: Text,
    },
    /// Cgroup of a container or sandbox inside the pod's cgroup.
    ContainerCgroup {
        uid: PodUid,
        /// Container or sandbox id.
        id: ContainerId,
    },
    /// `/var/lib/kubelet/pods/<uid>`.
    PodDir { uid: PodUid },
    /// `/var/lib/kubelet/pods/<uid>/volumes/<plugin>/<volume>`, or a path below it.
    Volume {
        uid: PodUid,
        /// Volume plugin, with `/` in place of the folder's `~`: `kubernetes.io/secret`.
        plugin: Text,
        /// Volume or PV name; empty for the plugin's own folder.
        volume: Text,
        /// Path below the volume (`..data` when an atomic writer has finished), empty for the volume's own folder.
        inner: Text,
    },
    /// Another path below the pod's directory: `etc-hosts`, `containers/web/…`, `volume-subpaths/…`.
    PodFile {
        uid: PodUid,
        /// Path below the pod's directory.
        inner: Text,
    },
    /// Mount of a volume of a pod.
    VolumeMount {
        uid: PodUid,
        /// Volume plugin, with `/` in place of the folder's `~`: `kubernetes.io/configmap`.
        plugin: Text,
        /// Name of the volume in the pod, or of the PersistentVolume.
        volume: Text,
        /// File system type (`tmpfs`, `ext4`, …).
        fstype: Text,
    },
    /// Mount of a network namespace, `/run/netns/cni-…`.
    NetNs {
        /// Name of the namespace file.
        name: Text,
    },
    /// A mount that the runtime makes for a sandbox or container: shm, rootfs.
    RuntimeMount {
        /// Sandbox or container id.
        id: ContainerId,
        /// `shm` or `rootfs`.
        what: Text,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FsChange {
    /// What happened to the path.
    #[serde(rename = "a")]
    pub action: FsAction,
    #[serde(rename = "o")]
    pub object: FsObject,
}

impl FsObject {
    /// Returns the UID of the pod that the path names; `None` for mounts that name no pod.
    pub const fn pod(&self) -> Option<&PodUid> {
        match self {
            Self::PodCgroup { uid, .. }
            | Self::ContainerCgroup { uid, .. }
            | Self::PodDir { uid }
            | Self::Volume { uid, .. }
            | Self::PodFile { uid, .. }
            | Self::VolumeMount { uid, .. } => Some(uid),
            Self::NetNs { .. } | Self::RuntimeMount { .. } => None,
        }
    }
}
