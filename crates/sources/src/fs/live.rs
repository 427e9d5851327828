//! Watches cgroups and the kubelet's pod directories by inotify, and mounts by the kernel's own signal.
//!
//! The kernel tells of directories only that are watched already, and pods make trees quickly: whatever appears is
//! watched first and read second, so nothing falls between; what both tell is given out once
//! ([`Changes`]). A rescan now and then, and after an overflow, finds what was lost.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

use super::{Changes, Mount, classify_mount, classify_path, parse_mountinfo_line};
use crate::live::{Out, Stopped, gap};
use kflow_model::Source;
use kflow_model::clock;
use kflow_model::fs::{FsAction, FsObject};

/// How often everything is read anew, in case an event was lost.
const RESCAN: Duration = Duration::from_secs(30);

/// Where to look.
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
        // v1 has a tree for each controller; any of them shows every pod.
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

/// What of a tree is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tree {
    Cgroups,
    Pods,
}

/// Watches directories until nobody takes observations.
pub async fn directories(roots: Roots, out: Out) {
    let inotify = match Inotify::init().and_then(watched) {
        Ok(i) => i,
        Err(e) => {
            out.off(format!("cannot use inotify: {e}"));
            return std::future::pending().await;
        }
    };
    let mut watcher = Watcher {
        inotify,
        roots,
        paths: FxHashMap::default(),
        watched: FxHashMap::default(),
        seen: FxHashSet::default(),
        changes: Changes::default(),
        full: false,
        out,
    };
    // Stopped is the only way to end.
    watcher.run().await.ok();
}

struct Watcher {
    inotify: AsyncFd<Inotify>,
    roots: Roots,
    paths: FxHashMap<WatchDescriptor, (PathBuf, Tree)>,
    watched: FxHashMap<PathBuf, WatchDescriptor>,
    /// Paths that were told and not yet told to be gone.
    seen: FxHashSet<PathBuf>,
    changes: Changes,
    /// The kernel refused a watch.
    full: bool,
    out: Out,
}

impl Watcher {
    async fn run(&mut self) -> Result<(), Stopped> {
        self.rescan()?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let ready = tokio::select! {
                r = self.inotify.readable_mut() => Some(r),
                () = sleep(RESCAN) => None,
            };
            let events: Vec<_> = match ready {
                None => {
                    self.rescan()?;
                    continue;
                }
                Some(Err(e)) => {
                    self.out.off(format!("inotify failed: {e}"));
                    return std::future::pending().await;
                }
                Some(Ok(mut guard)) => {
                    match guard.try_io(|i| {
                        let events = i.get_mut().read_events(&mut buffer)?;
                        Ok(events.map(|e| e.to_owned()).collect())
                    }) {
                        Ok(Ok(events)) => events,
                        Ok(Err(_)) | Err(_) => continue,
                    }
                }
            };
            let mut overflow = false;
            for e in events {
                if e.mask.contains(EventMask::Q_OVERFLOW) {
                    overflow = true;
                } else if e.mask.contains(EventMask::IGNORED) {
                    if let Some((path, _)) = self.paths.remove(&e.wd) {
                        self.watched.remove(&path);
                    }
                } else if let Some(name) = e.name {
                    self.event(&e.wd, e.mask, &name)?;
                }
            }
            if overflow {
                let now = clock::now();
                self.out
                    .offer(gap(Source::Fs, now, now, 0, "inotify's queue was full"))?;
                self.rescan()?;
            }
        }
    }

    fn event(
        &mut self,
        wd: &WatchDescriptor,
        mask: EventMask,
        name: &OsStr,
    ) -> Result<(), Stopped> {
        let Some((dir, tree)) = self.paths.get(wd) else {
            return Ok(());
        };
        let (path, tree) = (dir.join(name), *tree);
        if mask.intersects(EventMask::CREATE | EventMask::MOVED_TO) {
            // Renamed onto what was there: an atomic writer is done.
            let action = if mask.contains(EventMask::MOVED_TO) && name == "..data" {
                FsAction::Changed
            } else {
                FsAction::Created
            };
            self.tell(&path, action)?;
            if mask.contains(EventMask::ISDIR) {
                self.enter(&path, tree, FsAction::Created)?;
            }
        } else if mask.intersects(EventMask::DELETE | EventMask::MOVED_FROM) {
            self.gone(&path)?;
        }
        Ok(())
    }

    /// Watches a directory if it is of interest, then reads what is in it.
    fn enter(&mut self, dir: &Path, tree: Tree, action: FsAction) -> Result<(), Stopped> {
        if !self.wants(dir, tree) {
            return Ok(());
        }
        if !self.watched.contains_key(dir) {
            let mask = WatchMask::CREATE
                | WatchMask::DELETE
                | WatchMask::MOVED_TO
                | WatchMask::MOVED_FROM
                | WatchMask::ONLYDIR
                | WatchMask::EXCL_UNLINK;
            match self.inotify.get_ref().watches().add(dir, mask) {
                Ok(wd) => {
                    self.paths.insert(wd.clone(), (dir.to_path_buf(), tree));
                    self.watched.insert(dir.to_path_buf(), wd);
                }
                Err(e) if e.raw_os_error() == Some(28) => self.full = true,
                // Gone again, or not ours to read: the parent's events tell, or the status does.
                Err(_) => return Ok(()),
            }
        }
        let Ok(entries) = fs::read_dir(dir) else {
            return Ok(());
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
            if tree == Tree::Cgroups && !is_dir {
                continue;
            }
            if !self.seen.contains(&path) {
                self.tell(&path, action)?;
            }
            if is_dir {
                self.enter(&path, tree, action)?;
            }
        }
        Ok(())
    }

    /// True for directories in which something of a pod can appear.
    fn wants(&self, dir: &Path, tree: Tree) -> bool {
        match tree {
            Tree::Cgroups => {
                let Ok(below) = dir.strip_prefix(&self.roots.cgroups) else {
                    return false;
                };
                let text = below.to_string_lossy();
                match classify_path(&text) {
                    Some(FsObject::PodCgroup { .. }) => true,
                    // What a container does inside its own cgroup is its own business.
                    Some(_) => false,
                    // On the way down: the root, nested kubelets (kind, k3s), QoS levels.
                    None => text.contains("kubepods") || below.components().count() < 2,
                }
            }
            Tree::Pods => {
                let Ok(below) = dir.strip_prefix(&self.roots.pods) else {
                    return false;
                };
                let parts: Vec<_> = below
                    .components()
                    .map(|c| c.as_os_str().to_string_lossy())
                    .collect();
                let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
                match parts.as_slice() {
                    [] | [_] | [_, "volumes" | "containers" | "volume-subpaths"] => true,
                    [_, "volumes", _] => true,
                    // Volumes whose content the kubelet writes. An emptyDir's content is the workload's.
                    [_, "volumes", plugin, _] => matches!(
                        *plugin,
                        "kubernetes.io~secret"
                            | "kubernetes.io~configmap"
                            | "kubernetes.io~projected"
                            | "kubernetes.io~downward-api"
                            | "kubernetes.io~csi"
                    ),
                    _ => false,
                }
            }
        }
    }

    fn tell(&mut self, path: &Path, action: FsAction) -> Result<(), Stopped> {
        let Some(object) = classify_path(&path.to_string_lossy()) else {
            return Ok(());
        };
        self.seen.insert(path.to_path_buf());
        match self.changes.change(clock::now(), action, object) {
            Ok(o) => self.out.offer(o),
            Err(_) => Ok(()),
        }
    }

    fn gone(&mut self, path: &Path) -> Result<(), Stopped> {
        self.seen.remove(path);
        let Some(object) = classify_path(&path.to_string_lossy()) else {
            return Ok(());
        };
        match self.changes.change(clock::now(), FsAction::Removed, object) {
            Ok(o) => self.out.offer(o),
            Err(_) => Ok(()),
        }
    }

    /// Reads everything: new things are there since some time, and what is not there any more is gone.
    fn rescan(&mut self) -> Result<(), Stopped> {
        let lost: Vec<PathBuf> = self
            .seen
            .iter()
            .filter(|p| fs::symlink_metadata(p).is_err_and(|e| e.kind() == io::ErrorKind::NotFound))
            .cloned()
            .collect();
        for path in lost {
            self.gone(&path)?;
        }
        let roots = self.roots.clone();
        self.full = false;
        self.enter(&roots.cgroups, Tree::Cgroups, FsAction::Present)?;
        self.enter(&roots.pods, Tree::Pods, FsAction::Present)?;
        self.status();
        Ok(())
    }

    fn status(&self) {
        let missing: Vec<String> = [&self.roots.cgroups, &self.roots.pods]
            .into_iter()
            .filter_map(|root| {
                let e = fs::read_dir(root).err()?;
                Some(format!("{}: {e}", root.display()))
            })
            .collect();
        if self.full {
            self.out.off(
                "the kernel allows no more watches: raise fs.inotify.max_user_watches (sysctl)",
            );
        } else if missing.len() == 2 {
            self.out.off(missing.join("; "));
        } else if let [one] = missing.as_slice() {
            self.out
                .on(format!("{} directories; not {one}", self.watched.len()));
        } else {
            self.out.on(format!("{} directories", self.watched.len()));
        }
    }
}

/// Watches the mount table until nobody takes observations.
pub async fn mounts(path: PathBuf, mut out: Out) {
    let file = match fs::File::open(&path).and_then(signalled) {
        Ok(f) => f,
        Err(e) => {
            out.off(format!("cannot watch {}: {e}", path.display()));
            return std::future::pending().await;
        }
    };
    let mut changes = Changes::default();
    let mut known: FxHashMap<String, Mount> = FxHashMap::default();
    let mut first = true;
    loop {
        let text = match read_again(&file) {
            Ok(t) => t,
            Err(e) => {
                out.off(format!("cannot read {}: {e}", path.display()));
                return std::future::pending().await;
            }
        };
        out.on(format!("{} mounts", text.lines().count()));
        let action = if first {
            FsAction::Present
        } else {
            FsAction::Created
        };
        first = false;
        if tell_mounts(&text, &mut known, action, &mut changes, &mut out).is_err() {
            return;
        }
        // The kernel signals a change of the table as an exceptional condition. A look every half a minute costs
        // nothing and does not depend on it.
        tokio::select! {
            r = file.ready(Interest::PRIORITY | Interest::ERROR) => {
                if let Ok(mut guard) = r {
                    guard.clear_ready();
                }
            }
            () = sleep(RESCAN) => {}
        }
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for types whose descriptor may change; an Inotify's does not"
)]
fn watched(inotify: Inotify) -> io::Result<AsyncFd<Inotify>> {
    AsyncFd::with_interest(inotify, Interest::READABLE)
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for types whose descriptor may change; a File's does not"
)]
fn signalled(file: fs::File) -> io::Result<AsyncFd<fs::File>> {
    AsyncFd::with_interest(file, Interest::PRIORITY | Interest::ERROR)
}

fn read_again(file: &AsyncFd<fs::File>) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut part = vec![0; 64 << 10];
    loop {
        let n = rustix::io::pread(file.get_ref().as_fd(), &mut part, bytes.len() as u64)?;
        if n == 0 {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        bytes.extend_from_slice(part.get(..n).unwrap_or_default());
    }
}

fn tell_mounts(
    text: &str,
    known: &mut FxHashMap<String, Mount>,
    action: FsAction,
    changes: &mut Changes,
    out: &mut Out,
) -> Result<(), Stopped> {
    let now: FxHashMap<String, Mount> = text
        .lines()
        .filter_map(parse_mountinfo_line)
        .filter(|m| classify_mount(m).is_some())
        .map(|m| (m.point.clone(), m))
        .collect();
    let at = clock::now();
    let gone = known.values().filter(|m| !now.contains_key(&m.point));
    let new = now.values().filter(|m| !known.contains_key(&m.point));
    for (mount, action) in gone
        .map(|m| (m, FsAction::Removed))
        .chain(new.map(|m| (m, action)))
    {
        if let Some(object) = classify_mount(mount)
            && let Ok(o) = changes.change(at, action, object)
        {
            out.offer(o)?;
        }
    }
    *known = now;
    Ok(())
}
