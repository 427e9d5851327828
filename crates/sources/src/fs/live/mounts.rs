//! Watches the mount table by the kernel's own signal.

#![allow(
    clippy::disallowed_methods,
    reason = "the kernel's own table, which is in no file system that hangs"
)]

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustc_hash::FxHashMap;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

use super::RESCAN;
use crate::fs::{Changes, Mount, classify_mount, parse_mountinfo_line};
use crate::live::{Out, Stopped};
use kflow_model::clock;
use kflow_model::fs::FsAction;

/// Watches the mount table until the receiver of observations is gone.
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
        // The kernel signals a change of the table as an exceptional condition. A look every 30 s costs little and
        // does not depend on the signal.
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
