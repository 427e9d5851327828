//! Reads and writes the terminal UI's own files in a thread of its own, so that a home directory on a file system
//! that does not answer does not keep kflow from starting.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use super::config::{Folder, Watched};
use super::layout::Layout;
use kflow_model::file::{self as files, Access};

/// How often the configuration is checked for changes.
const EVERY: Duration = Duration::from_secs(2);
/// How long kflow waits for its files: at its start, before it starts without them, and at its end.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the thread has read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// The configuration, if it was read for the first time or has changed; or why it cannot be read.
    pub(crate) folder: Option<Result<Folder, String>>,
    /// The layout of the previous run; sent once.
    pub(crate) layout: Option<Layout>,
}

/// Handle of the thread.
#[derive(Debug)]
pub(crate) struct Settings {
    found: Receiver<Found>,
    layouts: SyncSender<Layout>,
}

impl Settings {
    /// Starts the thread, which reads the configuration file, and the layout in the folder `state`.
    pub(crate) fn start(config: Option<PathBuf>, state: Option<PathBuf>) -> Self {
        let (tell, found) = mpsc::sync_channel(1);
        let (layouts, to_keep) = mpsc::sync_channel(16);
        let serve = move || {
            let mut watched = config.map(Watched::new);
            let mut first = Some(remembered(state.as_deref()));
            loop {
                let folder = watched.as_mut().and_then(Watched::poll);
                let news = folder.is_some() || first.is_some();
                let layout = first.take().flatten();
                if news && tell.send(Found { folder, layout }).is_err() {
                    return;
                }
                match to_keep.recv_timeout(EVERY) {
                    Ok(l) => remember(state.as_deref(), l),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        // If the thread cannot be started, it finds nothing, as if there were no files.
        std::thread::Builder::new()
            .name("kflow-settings".into())
            .spawn(serve)
            .ok();
        Self { found, layouts }
    }

    /// Returns what is read within 1 s; `None` if the file system has not answered by then.
    pub(crate) fn first(&self) -> Option<Found> {
        match self.found.recv_timeout(PATIENCE) {
            Ok(found) => Some(found),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Found::default()),
        }
    }

    /// Returns what has been read since the last call. Does not block.
    pub(crate) fn news(&self) -> Option<Found> {
        self.found.try_recv().ok()
    }

    /// Saves a layout for the next run. Does not block.
    pub(crate) fn keep(&self, layout: Layout) {
        // A lost preference is not worth a message.
        self.layouts.try_send(layout).ok();
    }

    /// Waits until what is to be saved is written, at most for 1 s.
    pub(crate) fn end(self) {
        let Self { found, layouts } = self;
        drop(layouts);
        while found.recv_timeout(PATIENCE).is_ok() {}
    }
}

fn remembered(state: Option<&Path>) -> Option<Layout> {
    Layout::parse(std::fs::read_to_string(state?.join("layout")).ok()?.trim())
}

fn remember(state: Option<&Path>, layout: Layout) {
    if let Some(dir) = state {
        let path = dir.join("layout");
        let _kept = std::fs::create_dir_all(dir).is_ok()
            && files::write(&path, Access::Private, layout.name().as_bytes()).is_ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe without a writer stands for a file system that does not answer.
    #[test]
    fn a_configuration_that_cannot_be_read_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("config.toml");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo").success());
        let settings = Settings::start(Some(path.clone()), None);
        assert!(settings.first().is_none());
        assert!(settings.news().is_none());
        settings.keep(Layout::Split);
        // Now the file system answers.
        std::fs::write(&path, "utc = true").expect("written");
        let folder = settings.first().and_then(|f| f.folder).expect("read");
        assert_eq!(folder.map(|f| f.text).as_deref(), Ok("utc = true"));
    }

    /// A folder in the place of the file is an error for every user, also for one who may read everything.
    #[test]
    fn a_configuration_that_cannot_be_read_is_told_once_and_read_as_soon_as_it_can_be() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("config.toml");
        std::fs::create_dir(&path).expect("made");
        let mut watched = Watched::new(path.clone());
        let why = watched.poll().expect("news").expect_err("an error");
        assert!(
            why.starts_with(&format!("cannot read {}: ", path.display())),
            "{why}"
        );
        assert_eq!(watched.poll(), None);
        std::fs::remove_dir(&path).expect("removed");
        std::fs::write(&path, "utc = true").expect("written");
        let folder = watched.poll().expect("news").expect("read");
        assert_eq!(folder.text, "utc = true");
        assert_eq!(watched.poll(), None);
    }

    #[test]
    fn a_layout_is_kept_for_the_next_time() {
        let dir = tempfile::tempdir().expect("folder");
        let state = dir.path().join("state");
        let config = dir.path().join("config.toml");
        let start = || Settings::start(Some(config.clone()), Some(state.clone()));
        let settings = start();
        let found = settings.first().expect("read");
        assert_eq!(
            (found.layout, found.folder),
            (None, Some(Ok(Folder::default())))
        );
        settings.keep(Layout::Dashboard);
        settings.end();
        let found = start().first().expect("read");
        assert_eq!(found.layout, Some(Layout::Dashboard));
    }
}
