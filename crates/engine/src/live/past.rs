//! A view that does not follow the run: frozen where it was, or as of a moment in the past.

use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use crate::Pipeline;
use crate::snapshot::{Mode, Snapshot};
use kflow_core::correlate::Hindsight;
use kflow_model::Nanos;

/// Longest wait for a picture of the past; then the view is shown as it was.
const WAIT: Duration = Duration::from_secs(1);

/// The result of asking for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    Shown,
    /// The picture takes more than 1 s to make, and is shown when it is ready.
    Coming,
    /// Another picture is being made: this request is dropped.
    Busy,
}

#[derive(Debug)]
pub(super) struct Frozen {
    shown: Arc<Snapshot>,
    /// The picture that replaces `shown` when it is ready.
    coming: Option<Arc<OnceLock<Arc<Snapshot>>>>,
}

impl Frozen {
    /// Frozen at this picture.
    pub(super) const fn at(shown: Arc<Snapshot>) -> Self {
        Self {
            shown,
            coming: None,
        }
    }
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        let made = self.coming.as_ref().and_then(|c| c.get());
        Arc::clone(made.unwrap_or(&self.shown))
    }
    /// True while a picture is being made.
    pub(super) fn is_coming(&self) -> bool {
        self.coming.as_ref().is_some_and(|c| c.get().is_none())
    }
}

/// Starts to make the picture as of `to` on a thread of its own; `shown` stays until the picture is ready.
pub(super) fn seek(newest: Arc<Snapshot>, shown: Arc<Snapshot>, to: Nanos) -> (Frozen, Sought) {
    let slot = Arc::new(OnceLock::new());
    let frozen = Frozen {
        shown: not_following(&shown),
        coming: Some(Arc::clone(&slot)),
    };
    let (done, wait) = mpsc::sync_channel::<()>(1);
    let make = move || {
        // Nothing else sets the slot.
        slot.set(not_following(&as_of(&newest, to))).ok();
        drop(done);
    };
    let started = std::thread::Builder::new()
        .name("kflow-past".into())
        .spawn(make);
    if started.is_err() {
        return (Frozen::at(not_following(&shown)), Sought::Busy);
    }
    // Nothing is ever sent: the channel disconnects, or the time is over.
    match wait.recv_timeout(WAIT) {
        Err(mpsc::RecvTimeoutError::Timeout) => (frozen, Sought::Coming),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => (frozen, Sought::Shown),
    }
}

/// The picture as of a moment: the world of the observations that had arrived by then.
fn as_of(newest: &Snapshot, at: Nanos) -> Snapshot {
    let mut pipeline = Pipeline::selecting(Arc::clone(newest.world.selection()));
    let log = &newest.log;
    for o in log.history().take(log.carried() + log.arrived_by(at)) {
        pipeline.observe(Arc::clone(o));
    }
    pipeline.look_back(Arc::new(Hindsight::of(log.history())));
    Snapshot {
        scope: newest.scope.clone(),
        overview: Arc::clone(&newest.overview),
        ..pipeline.snapshot(
            at,
            newest.mode.clone(),
            newest.range,
            newest.sources.clone(),
        )
    }
}

pub(super) fn not_following(s: &Snapshot) -> Arc<Snapshot> {
    let mut s = s.clone();
    if let Mode::Live { following, .. } = &mut s.mode {
        *following = false;
    }
    // The version has to differ from that of a following picture with the same observations.
    s.version |= 1 << 63;
    Arc::new(s)
}
