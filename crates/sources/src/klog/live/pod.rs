//! Follows the log of a static pod below `/var/log/pods`: it continues in another file when the container restarts,
//! and in another folder when the manifest changes.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::{sleep, timeout};

use super::{BEFORE, Feed, NewDecoder, follow_file};
use crate::klog::pods::{component_of, newest};
use crate::live::{Out, SLOW};
use kflow_model::Source;
use kflow_model::log::Component;

/// How often a newer file is looked for.
const LOOK: Duration = Duration::from_secs(2);

/// Follows the log of a component's static pod below a folder, beginning a little before its end.
pub async fn pod(
    root: PathBuf,
    component: Component,
    source: Source,
    decoder: NewDecoder,
    out: Out,
) {
    let mut feed = Feed::new(source, decoder(), out);
    let mut before = BEFORE;
    loop {
        let Some(path) = current(&root, component).await else {
            feed.out
                .off(format!("no log of it below {}", root.display()));
            before = u64::MAX;
            sleep(LOOK).await;
            continue;
        };
        tokio::select! {
            // Nobody takes observations any more.
            _stopped = follow_file(&path, &mut feed, before) => return,
            () = another(&root, component, &path) => {}
        }
        if feed.end().await.is_err() {
            return;
        }
        // The log of a container that has started since is read from its beginning.
        before = u64::MAX;
    }
}

/// Returns when another file than `path` is the current one in two looks in a row. The end of `path` has
/// been read by then.
async fn another(root: &Path, component: Component, path: &Path) {
    let mut seen = false;
    loop {
        sleep(LOOK).await;
        let now = current(root, component).await;
        if now.is_none_or(|p| p == path) {
            seen = false;
        } else if std::mem::replace(&mut seen, true) {
            return;
        }
    }
}

/// Returns the log file that was written last; `None` if there is none, or while the file system does not answer.
async fn current(root: &Path, component: Component) -> Option<PathBuf> {
    timeout(SLOW, found(root, component)).await.ok()?
}

async fn found(root: &Path, component: Component) -> Option<PathBuf> {
    let mut latest: Option<(SystemTime, PathBuf)> = None;
    for folder in names(root).await {
        if component_of(&folder) != Some(component) {
            continue;
        }
        let dir = root.join(&folder).join(component.program());
        let files = names(&dir).await;
        let Some(name) = newest(files.iter().map(String::as_str)) else {
            continue;
        };
        let path = dir.join(name);
        let written = tokio::fs::metadata(&path).await.and_then(|m| m.modified());
        if let Ok(at) = written
            && latest.as_ref().is_none_or(|(t, _)| *t < at)
        {
            latest = Some((at, path));
        }
    }
    latest.map(|(_, path)| path)
}

async fn names(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    if let Ok(mut entries) = tokio::fs::read_dir(dir).await {
        while let Ok(Some(entry)) = entries.next_entry().await {
            all.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    all
}
