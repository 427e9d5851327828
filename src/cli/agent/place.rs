//! The agent's place: the node's root file system, and whether the network is the pod's own.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::doctor::kubelet;
use kflow_model::patient;
use kflow_sources::agent::PORT;
use kflow_sources::tap::network;

/// The path of the node's root directory.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    /// Keeps the root of a process that may exit usable: the descriptor holds its mount namespace's root.
    _held: Option<OwnedFd>,
}

impl Root {
    /// A root that the arguments name.
    pub(super) const fn named(path: PathBuf) -> Self {
        Self { path, _held: None }
    }

    /// `/`; in a pod that sees the node's processes, the root of process 1, or the kubelet's when process
    /// 1's is not accessible.
    pub(super) fn of_node() -> Self {
        let own = identity(Path::new("/"));
        let first = PathBuf::from("/proc/1/root");
        match identity(&first) {
            Some(its) if Some(its) != own && has_files(&first) => return Self::named(first),
            Some(_) => return Self::named(PathBuf::from("/")),
            None => {}
        }
        kubelet::process(Path::new("/"))
            .map(|folder| folder.join("root"))
            .filter(|root| identity(root).is_some_and(|i| Some(i) != own) && has_files(root))
            .and_then(|root| held(&root))
            .unwrap_or_else(|| Self::named(PathBuf::from("/")))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn held(root: &Path) -> Option<Root> {
    let its = root.to_owned();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = patient::ask(root, move || rustix::fs::open(&its, flags, Mode::empty()));
    let held = open.ok()?.ok()?;
    Some(Root {
        path: PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd())),
        _held: Some(held),
    })
}

/// Device and inode of a folder; `None` when it is not accessible.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let its = path.to_owned();
    let meta = patient::ask(path, move || std::fs::metadata(its));
    meta.ok()?.ok().map(|m| (m.dev(), m.ino()))
}

/// True for a node's root, which has an `etc`; a pod's sandbox has none.
fn has_files(root: &Path) -> bool {
    let etc = root.join("etc");
    matches!(patient::ask(root, move || etc.try_exists()), Ok(Ok(true)))
}

/// The default address of an agent in a pod without the host's network: its loopback, which no other pod reaches.
/// `None` in the host's network.
pub(super) fn own_loopback() -> Option<SocketAddr> {
    let apart = network("1").is_some_and(|n| Some(n) != network("self"));
    apart.then(|| SocketAddr::from(([127, 0, 0, 1], PORT)))
}

/// Restricts `/run/kflow` to its owner: the kubelet creates a volume's folder owned by root and open to all.
pub(super) fn own_folder(socket: &Path) {
    let Some(dir) = socket.parent().filter(|d| *d == Path::new("/run/kflow")) else {
        return;
    };
    let its = dir.to_owned();
    // An error shows when the socket is created there.
    drop(patient::ask(dir, move || {
        let meta = std::fs::metadata(&its)?;
        let me = rustix::process::geteuid().as_raw();
        if meta.uid() == me && meta.mode() & 0o077 != 0 {
            std::fs::set_permissions(&its, std::fs::Permissions::from_mode(0o700))?;
        }
        Ok::<(), std::io::Error>(())
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_held_by_a_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        std::fs::write(dir.path().join("etc/os-release"), "ID=x\n").unwrap();
        let root = held(dir.path()).unwrap();
        let text = std::fs::read_to_string(root.path().join("etc/os-release"));
        assert_eq!(text.unwrap(), "ID=x\n");
        assert!(has_files(root.path()));
        assert_eq!(identity(dir.path()), identity(root.path()));
        assert!(!has_files(&dir.path().join("etc")));
    }
}
