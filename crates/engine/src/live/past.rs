//! A view that does not follow the run: frozen where it was, or as of a moment in the past.

use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use crate::Pipeline;
use crate::snapshot::{Mode, Snapshot, own};
use kflow_core::correlate::Hindsight;
use kflow_core::diagnose::unknown::outside;
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

/// The picture as of a moment: the world of the observations that had arrived by then. Of a moment before the log
/// begins, what was so cannot be told: the begin is shown, and a source's status says so.
fn as_of(newest: &Snapshot, asked: Nanos) -> Snapshot {
    let at = asked.max(newest.range.0);
    let mut sources = newest.sources.clone();
    if at != asked {
        sources.extend(
            outside(Some(newest.range), asked)
                .as_ref()
                .map(own::elsewhere),
        );
    }
    let mut pipeline = Pipeline::selecting(Arc::clone(newest.world.selection()));
    let log = &newest.log;
    for o in log.history().take(log.carried() + log.arrived_by(at)) {
        pipeline.observe(Arc::clone(o));
    }
    pipeline.look_back(Arc::new(Hindsight::of(log.history())));
    Snapshot {
        scope: newest.scope.clone(),
        overview: Arc::clone(&newest.overview),
        ..pipeline.snapshot(at, newest.mode.clone(), newest.range, sources)
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

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::gap::Note;
    use kflow_model::pod::PodSeen;
    use kflow_model::{Body, Observation, PodUid, Source, Stamp};

    #[test]
    fn of_a_moment_before_the_log_begins_its_begin_is_shown() {
        let mut pipeline = Pipeline::new();
        let mut observe = |at: i64, body: Body| {
            pipeline.observe(Arc::new(Observation {
                stamp: Stamp::exact(Nanos(at)),
                source: Source::Kube,
                body,
            }));
        };
        observe(
            5,
            Body::Pod(Box::new(PodSeen {
                namespace: "shop".into(),
                name: "web".into(),
                uid: PodUid::from("u"),
                ..PodSeen::default()
            })),
        );
        for at in 6..10_000 {
            let text = "tick".into();
            observe(at, Body::Note(Box::new(Note { text })));
        }
        pipeline.shrink(1);
        let begin = pipeline.log().get(0).unwrap().stamp.seen;
        assert!(pipeline.log().carried() > 0 && begin > Nanos(5));
        let range = (begin, Nanos(10_000));
        let newest = pipeline.snapshot(range.1, Mode::paused(""), range, Vec::new());
        let moment = |s: &Snapshot| {
            s.sources
                .iter()
                .any(|s| s.name == own::MOMENT && s.is_off())
        };
        // The pod did not exist then, but nothing that is kept says so.
        let shown = as_of(&newest, Nanos(1));
        assert_eq!(shown.now, begin);
        assert!(moment(&shown));
        let shown = as_of(&newest, begin.plus(1));
        assert_eq!(shown.now, begin.plus(1));
        assert!(!moment(&shown));
    }
}
