//! Where a Linux machine has cgroups, the kubelet's folders and the mount table.

#![allow(
    clippy::disallowed_methods,
    reason = "the kernel's own file system, which does not hang"
)]

use std::path::{Path, PathBuf};

/// The paths that are watched.
#[derive(Clone, Debug)]
pub struct Roots {
    /// A cgroup hierarchy.
    pub cgroups: PathBuf,
    /// The kubelet's `pods` folder.
    pub pods: PathBuf,
    /// The mount table of the host's mount namespace.
    pub mountinfo: PathBuf,
}

impl Roots {
    /// The usual places on this machine; `kubelet` is the kubelet's root folder.
    pub fn of_this_node(kubelet: &Path) -> Self {
        let base = Path::new("/sys/fs/cgroup");
        // cgroup v1 has a tree for each controller; any of them shows every pod.
        let cgroups = if base.join("cgroup.controllers").exists() {
            base.to_path_buf()
        } else {
            ["memory", "pids", "systemd", "cpu"]
                .iter()
                .map(|c| base.join(c))
                .find(|p| p.exists())
                .unwrap_or_else(|| base.to_path_buf())
        };
        Self {
            cgroups,
            pods: kubelet.join("pods"),
            // The mount table of process 1: a container with hostPID sees the host's.
            mountinfo: PathBuf::from("/proc/1/mountinfo"),
        }
    }
}
