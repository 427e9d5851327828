//! Watches cgroups and the kubelet's pod directories by inotify; [`mounts`] watches the mount table.
//!
//! inotify reports only on directories that are watched already, and a pod's directories appear quickly one below the
//! other. So a new directory is watched first and read second, and nothing is missed between the two; what both
//! report is passed on once ([`Changes`]). A rescan every 30 s, and after an overflow, finds what was lost.

#![allow(clippy::disallowed_methods, reason = "in a thread of its own")]

mod mounts;
mod scan;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval_at, sleep};

use super::{Changes, Roots, classify_path};

use crate::live::{Out, SLOW, Stopped, gap};
use kflow_model::Source;
use kflow_model::clock;
use kflow_model::fs::{FsAction, FsObject};
use kflow_model::units::wait;

pub use mounts::mounts;
use scan::{Scan, mount_points};

/// How often everything is read anew, in case an event was lost.
const RESCAN: Duration = Duration::from_secs(30);
/// How often it is checked whether the file system hangs.
const LOOK: Duration = Duration::from_secs(1);

/// The watched tree that a directory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tree {
    Cgroups,
    Pods,
}

/// The request to the file system that the watcher's thread waits for: since when, and for which path. `None` while
/// it waits for none.
type Asked = Arc<Mutex<Option<(Instant, PathBuf)>>>;

/// Watches directories until the receiver of observations is gone. A thread of its own does it, because a file system
/// that hangs must not hold up other sources; the source's status reports such a hang.
pub async fn directories(roots: Roots, out: Out) {
    scanned(roots, RESCAN, out).await;
}

/// Watches directories, and reads everything anew each `rescan`.
async fn scanned(roots: Roots, rescan: Duration, mut out: Out) {
    let asked = Asked::default();
    // Closed when this future is dropped, which ends the thread.
    let (alive, mut dropped) = oneshot::channel::<()>();
    let (ended, mut end) = oneshot::channel::<()>();
    let its = (out.share(), Arc::clone(&asked));
    let started = std::thread::Builder::new()
        .name("kflow-fs".into())
        .spawn(move || {
            let (out, asked) = its;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            match runtime {
                Ok(r) => r.block_on(async {
                    tokio::select! {
                        _ = &mut dropped => {}
                        () = watch(roots, rescan, out, asked) => {}
                    }
                }),
                Err(e) => out.off(format!("cannot watch directories: {e}")),
            }
            drop(ended);
        });
    if let Err(e) = started {
        out.off(format!("cannot watch directories: {e}"));
        return std::future::pending().await;
    }
    let mut told = false;
    loop {
        tokio::select! {
            _ = &mut end => break,
            () = sleep(LOOK) => {}
        }
        let slow = lock(&asked)
            .clone()
            .filter(|(since, _)| clock::monotonic().saturating_duration_since(*since) >= SLOW);
        if let Some((since, path)) = slow {
            let why = format!(
                "the file system of {} has not answered for {}",
                path.display(),
                wait(clock::monotonic().saturating_duration_since(since))
            );
            out.off(why.as_str());
            if !std::mem::replace(&mut told, true) {
                let now = clock::now();
                if out.offer(gap(Source::Fs, now, now, 0, &why)).is_err() {
                    break;
                }
            }
        } else {
            told = false;
        }
    }
    drop(alive);
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn watch(roots: Roots, rescan: Duration, out: Out, asked: Asked) {
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
        scan: Scan::default(),
        mounts: FxHashSet::default(),
        asked,
        changes: Changes::default(),
        full: false,
        out,
    };
    // Returns only when the receiver of observations is gone (`Stopped`).
    watcher.run(rescan).await.ok();
}

struct Watcher {
    inotify: AsyncFd<Inotify>,
    roots: Roots,
    paths: FxHashMap<WatchDescriptor, (PathBuf, Tree)>,
    watched: FxHashMap<PathBuf, WatchDescriptor>,
    /// Paths that were reported as existing, and not yet as gone.
    seen: FxHashSet<PathBuf>,
    scan: Scan,
    /// Mount points that are not touched, because their file system may hang.
    mounts: FxHashSet<PathBuf>,
    asked: Asked,
    changes: Changes,
    /// The kernel refused a watch: the user's limit of inotify watches is reached.
    full: bool,
    out: Out,
}

impl Watcher {
    async fn run(&mut self, rescan: Duration) -> Result<(), Stopped> {
        self.rescan()?;
        // One timer for all rounds: on a busy node events come all the time.
        let mut due = interval_at(tokio::time::Instant::now() + rescan, rescan);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let ready = tokio::select! {
                biased;
                _ = due.tick() => None,
                r = self.inotify.readable_mut() => Some(r),
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
            self.look_at_mounts();
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
            // Renamed over the old `..data`: an atomic writer is done.
            let action = if mask.contains(EventMask::MOVED_TO) && name == "..data" {
                FsAction::Changed
            } else {
                FsAction::Created
            };
            let watched = mask.contains(EventMask::ISDIR) && self.watch(&path, tree);
            self.tell(&path, action)?;
            if watched {
                self.read(&path, tree, FsAction::Created)?;
            }
        } else if mask.intersects(EventMask::DELETE | EventMask::MOVED_FROM) {
            self.gone(&path)?;
        }
        Ok(())
    }

    fn look_at_mounts(&mut self) {
        // Without the table, the known mount points stay in use.
        if let Ok(mounts) = mount_points() {
            self.mounts = mounts;
        }
    }

    /// Sends a request to the file system. Until it returns, `asked` says since when and for which path.
    fn ask<T>(&mut self, path: &Path, ask: impl FnOnce(&mut Self) -> T) -> T {
        *lock(&self.asked) = Some((clock::monotonic(), path.to_path_buf()));
        let answer = ask(self);
        *lock(&self.asked) = None;
        answer
    }

    /// Watches a directory if it is of interest; returns whether it is watched. The watch begins before the directory
    /// is reported and read, so that nothing is missed between.
    fn watch(&mut self, dir: &Path, tree: Tree) -> bool {
        if !self.wants(dir, tree) || (tree == Tree::Pods && self.is_foreign(dir)) {
            return false;
        }
        if !self.watched.contains_key(dir) {
            let mask = WatchMask::CREATE
                | WatchMask::DELETE
                | WatchMask::MOVED_TO
                | WatchMask::MOVED_FROM
                | WatchMask::ONLYDIR
                | WatchMask::EXCL_UNLINK;
            let added = self.ask(dir, |w| w.inotify.get_ref().watches().add(dir, mask));
            match added {
                Ok(wd) => {
                    self.paths.insert(wd.clone(), (dir.to_path_buf(), tree));
                    self.watched.insert(dir.to_path_buf(), wd);
                }
                Err(e) if e.raw_os_error() == Some(28) => self.full = true,
                // Gone again, or not readable for kflow: the parent's events or the source's status say so.
                Err(e) => {
                    if e.kind() == io::ErrorKind::NotFound {
                        self.scan.missing.insert(dir.to_path_buf());
                    }
                    return false;
                }
            }
        }
        true
    }

    /// Reads what is in a directory, and watches and reads what is of interest in it.
    fn read(&mut self, dir: &Path, tree: Tree, action: FsAction) -> Result<(), Stopped> {
        let entries: io::Result<Vec<(PathBuf, bool)>> = self.ask(dir, |_| {
            Ok(fs::read_dir(dir)?
                .flatten()
                // The kernel returns the type with the name: nothing is opened for it.
                .map(|e| (e.path(), e.file_type().is_ok_and(|t| t.is_dir())))
                .collect())
        });
        let entries = match entries {
            Ok(entries) => entries,
            Err(e) => {
                if e.kind() == io::ErrorKind::NotFound {
                    self.scan.missing.insert(dir.to_path_buf());
                }
                return Ok(());
            }
        };
        self.scan.read.insert(dir.to_path_buf());
        for (path, is_dir) in entries {
            if tree == Tree::Cgroups && !is_dir {
                continue;
            }
            self.scan.present.insert(path.clone());
            let watched = is_dir && self.watch(&path, tree);
            if !self.seen.contains(&path) {
                self.tell(&path, action)?;
            }
            if watched {
                self.read(&path, tree, action)?;
            }
        }
        Ok(())
    }

    /// Returns true where a volume's own file system is mounted, which may hang (an NFS server that is gone).
    fn is_foreign(&self, dir: &Path) -> bool {
        dir != self.roots.pods && dir.starts_with(&self.roots.pods) && self.mounts.contains(dir)
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
                    // What a container does inside its own cgroup is not reported.
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

    /// Reads everything. New paths are reported as `Present`, since it is unknown when they appeared; reported paths
    /// that no longer exist are reported as gone.
    fn rescan(&mut self) -> Result<(), Stopped> {
        let roots = self.roots.clone();
        self.full = false;
        self.look_at_mounts();
        self.scan = Scan::default();
        for (root, tree) in [(&roots.cgroups, Tree::Cgroups), (&roots.pods, Tree::Pods)] {
            if self.watch(root, tree) {
                self.read(root, tree, FsAction::Present)?;
            }
        }
        let scan = std::mem::take(&mut self.scan);
        let lost: Vec<PathBuf> = self
            .seen
            .iter()
            .filter(|p| scan.lacks(p))
            .cloned()
            .collect();
        for path in lost {
            self.gone(&path)?;
        }
        self.status();
        Ok(())
    }

    fn status(&mut self) {
        let roots = [self.roots.cgroups.clone(), self.roots.pods.clone()];
        let missing: Vec<String> = roots
            .iter()
            .filter_map(|root| {
                let e = self.ask(root, |_| fs::read_dir(root).err())?;
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

#[expect(
    deprecated,
    reason = "its successor is unsafe for types whose descriptor may change; an Inotify's does not"
)]
fn watched(inotify: Inotify) -> io::Result<AsyncFd<Inotify>> {
    AsyncFd::with_interest(inotify, Interest::READABLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Board;

    #[tokio::test]
    async fn directories_that_change_all_the_time_are_read_anew_too() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots {
            cgroups: dir.path().join("cgroup"),
            pods: dir.path().join("pods"),
            mountinfo: dir.path().join("mountinfo"),
        };
        for root in [&roots.cgroups, &roots.pods] {
            fs::create_dir(root).unwrap();
        }
        let pods = roots.pods.clone();
        let (board, mut from) = Board::new(64);
        let out = board.out(Source::Fs, "directories");
        // Much longer than what lies between two changes.
        let rescan = Duration::from_millis(200);
        let task = tokio::spawn(scanned(roots, rescan, out));
        let detail = || board.statuses().swap_remove(0).detail().to_owned();
        let (mut n, begun) = (0, clock::monotonic());
        // Only a scan counts the directories.
        while ["starting", "2 directories"].contains(&detail().as_str()) {
            n += 1;
            fs::create_dir(pods.join(format!("7d5b7bb1-6e0c-4b57-a0ff-{n:012}"))).unwrap();
            while from.try_recv().is_ok() {}
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", detail());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        task.abort();
    }
}
