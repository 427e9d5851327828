//! What panes and exporters may see: one immutable value, made at most once a frame.

use std::sync::Arc;

use crate::cluster::ClusterView;
use crate::overview::Overview;
use kflow_core::correlate::World;
use kflow_core::diagnose::unknown::Asked;
use kflow_core::diagnose::{About, Verdict};
use kflow_model::session::Carried;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos, PodUid, Scope, Text};
pub use kflow_sources::live::{SourceStatus, Status};

/// Names of the sources of kind `kflow`, which report on kflow itself, and of the apiserver's source before its
/// address is known.
pub mod own {
    use super::{SourceStatus, Status};
    use kflow_core::diagnose::unknown::Unknown;
    use kflow_model::Source;

    /// The world's thread.
    pub const ENGINE: &str = "engine";
    /// The file that is being written.
    pub const RECORDING: &str = "recording";
    /// The file that is being read.
    pub const SESSION: &str = "session";
    /// The moment at which a recording was to be shown.
    pub const MOMENT: &str = "moment";
    /// The trace store that receives spans.
    pub const TRACES: &str = "traces";
    /// The kubelet at an address of its own, as a source of kind `metrics`.
    pub const KUBELET: &str = "kubelet";
    /// Reading the kubeconfig, as a source of kind `kube`.
    pub const KUBECONFIG: &str = "kubeconfig";

    /// Why another moment is shown than the one that was asked for, as a source's status.
    pub(crate) fn elsewhere(why: &Unknown) -> SourceStatus {
        SourceStatus {
            help: why.help.as_str().into(),
            ..SourceStatus::new(Source::Kflow, MOMENT, Status::Off(why.why.as_str().into()))
        }
    }
}

/// Observations in order of arrival, in shared chunks: cheap to clone, and bounded at the front in a live run. What
/// the dropped front says about things that still exist (objects, calls in flight) is carried along.
#[derive(Clone, Debug, Default)]
pub struct ObservationLog {
    chunks: Vec<Arc<Vec<Evidence>>>,
    len: usize,
    /// What was still valid when the front was dropped.
    before: Arc<Carried>,
    /// Earliest arrival.
    earliest: Option<Nanos>,
    /// The clock was set back at some point: `seen` does not only rise.
    set_back: bool,
}

impl ObservationLog {
    const CHUNK: usize = 4096;

    /// Appends one observation.
    pub fn push(&mut self, o: Evidence) {
        self.len += 1;
        let seen = o.stamp.seen;
        self.earliest = Some(self.earliest.map_or(seen, |e| e.min(seen)));
        self.set_back |= matches!(&o.body, Body::ClockStep(c) if c.by < 0);
        match self.chunks.last_mut() {
            Some(c) if c.len() < Self::CHUNK => Arc::make_mut(c).push(o),
            _ => {
                let mut v = Vec::with_capacity(Self::CHUNK);
                v.push(o);
                self.chunks.push(Arc::new(v));
            }
        }
    }
    pub const fn len(&self) -> usize {
        self.len
    }
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Observations in order of arrival.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Evidence> {
        self.chunks.iter().flat_map(|c| c.iter())
    }
    /// The observations, preceded by what was still valid when the front was dropped: the newest state of every
    /// existing object, the newest lists, open calls. A world built from them also knows the objects that are quiet.
    pub fn history(&self) -> impl Iterator<Item = &Evidence> {
        self.before
            .iter()
            .chain(self.chunks.iter().flat_map(|c| c.iter()))
    }
    /// Number of observations from the dropped front that are carried along.
    pub fn carried(&self) -> usize {
        self.before.len()
    }
    pub fn get(&self, n: usize) -> Option<&Evidence> {
        // Only the last chunk is partial, unless the front was dropped as whole chunks.
        self.chunks.get(n / Self::CHUNK)?.get(n % Self::CHUNK)
    }
    /// Earliest arrival: that of the first observation, unless the clock was set back.
    pub const fn earliest(&self) -> Option<Nanos> {
        self.earliest
    }
    /// Returns how many observations had arrived by `at`. If the clock was set back and showed that time more than
    /// once, the last time counts.
    pub fn arrived_by(&self, at: Nanos) -> usize {
        if self.set_back {
            let later = self.iter().rev().take_while(|o| o.stamp.seen > at);
            return self.len - later.count();
        }
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let mid = low + (high - low) / 2;
            if self.get(mid).is_some_and(|o| o.stamp.seen <= at) {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        low
    }
    /// Returns a log of the first `n` observations, which shares whole chunks.
    #[must_use]
    pub fn prefix(&self, n: usize) -> Self {
        let n = n.min(self.len);
        let mut chunks: Vec<_> = self.chunks.iter().take(n / Self::CHUNK).cloned().collect();
        let rest = n % Self::CHUNK;
        if rest > 0
            && let Some(part) = self.chunks.get(n / Self::CHUNK)
        {
            chunks.push(Arc::new(part.iter().take(rest).cloned().collect()));
        }
        Self {
            chunks,
            len: n,
            before: Arc::clone(&self.before),
            earliest: self.earliest,
            set_back: self.set_back,
        }
    }
    /// Returns a log with one more observation at index `at`.
    #[must_use]
    pub fn inserted(&self, at: usize, o: Evidence) -> Self {
        let mut log = self.prefix(at);
        log.push(o);
        for o in self.iter().skip(at) {
            log.push(Arc::clone(o));
        }
        log
    }
    /// Drops the oldest whole chunks until at most `keep` observations (rounded up to chunks) remain. Returns how
    /// many were dropped.
    pub fn shrink(&mut self, keep: usize) -> usize {
        let mut gone = 0;
        while let Some(first) = self.chunks.first().map(|c| c.len())
            && self.chunks.len() > 1
            && self.len - first >= keep
        {
            let before = Arc::make_mut(&mut self.before);
            for o in self.chunks.remove(0).iter() {
                before.take(Arc::clone(o));
            }
            gone += first;
            self.len -= first;
        }
        gone
    }
}

impl FromIterator<Evidence> for ObservationLog {
    fn from_iter<T: IntoIterator<Item = Evidence>>(iter: T) -> Self {
        let mut log = Self::default();
        iter.into_iter().for_each(|o| log.push(o));
        log
    }
}

/// Live or replay, and whether the view moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A session: how fast it plays.
    Replay {
        /// Name of the session.
        name: Text,
        /// False while the session is paused.
        playing: bool,
        /// Speed in thousandths: 1000 is real time, 0 is as fast as it goes.
        speed_permille: u32,
        /// Still being read: share done, 0 to 1000.
        loading_permille: u32,
    },
    /// A running node or cluster.
    Live {
        /// What is watched: `node1`, `all`, a namespace.
        scope: Text,
        /// The view shows the newest picture; false while it is paused or scrolled back.
        following: bool,
        /// File that is being recorded to; empty when there is none.
        recording: Text,
    },
}

impl Mode {
    /// A session that is fully read, at real-time speed, and paused.
    pub fn paused(name: &str) -> Self {
        Self::Replay {
            name: name.into(),
            playing: false,
            speed_permille: 1000,
            loading_permille: 1000,
        }
    }
    /// True while a new picture comes without the user's doing.
    pub const fn moves(&self) -> bool {
        match self {
            Self::Replay { playing, .. } => *playing,
            Self::Live { following, .. } => *following,
        }
    }
}

/// Most links that are followed from a verdict to the verdict that it follows from.
const LONGEST_CHAIN: usize = 16;

/// One immutable picture of everything.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Rises with every change; a frame with the same version need not be drawn again.
    pub version: u64,
    /// The world, with its views up to date.
    pub world: Arc<World>,
    /// The moment that the snapshot shows: the clock when live, the cursor in replay. Ages count from it.
    pub now: Nanos,
    /// Verdicts of the pods that are not well.
    pub verdicts: Arc<rustc_hash::FxHashMap<PodUid, Arc<Verdict>>>,
    /// Verdicts of nodes that do not work, and of owners that cannot create pods.
    pub owner_verdicts: Arc<Vec<Arc<Verdict>>>,
    /// The incidents, past ones too. In replay, those of the whole session, whatever `now` is.
    pub overview: Arc<Overview>,
    /// Observations up to `now`.
    pub log: ObservationLog,
    /// Live or replay, and whether the view moves.
    pub mode: Mode,
    /// First and last moment of the session, or in a live run of what is kept.
    pub range: (Nanos, Nanos),
    /// Status of each source.
    pub sources: Vec<SourceStatus>,
    /// What the apiserver is asked for; `None` in replay, and where none is asked.
    pub scope: Option<Arc<Scope>>,
    /// The cluster whose nodes can be opened; `None` in replay, and where the run names a node.
    pub cluster: Option<Arc<ClusterView>>,
}

impl Snapshot {
    /// Returns the verdict of the trouble that this one finally follows from. Returns the verdict itself if it
    /// follows from no known one, or, in a circle, from itself.
    pub fn root<'s>(&'s self, verdict: &'s Verdict) -> &'s Verdict {
        let mut at = verdict;
        // Chains are short: a pod that waits for a node, or for a pull of a pod that waits for a node.
        for _ in 0..LONGEST_CHAIN {
            let ahead = match at.follows() {
                Some(About::Pod(uid)) => self.verdicts.get(&PodUid::from(uid)),
                Some(node) => (self.owner_verdicts.iter()).find(|v| v.about() == Some(node)),
                None => None,
            };
            match ahead {
                Some(v) => at = v,
                None => return at,
            }
        }
        verdict
    }
    /// Returns true for a recording, read whole, all of which was seen within a second: it shows how everything is at one
    /// moment, and no time that passes.
    pub const fn is_of_one_moment(&self) -> bool {
        let read = matches!(
            self.mode,
            Mode::Replay {
                loading_permille: 1000,
                ..
            }
        );
        read && self.range.1.since(self.range.0) < SECOND
    }
    /// Input for reporting what is not known.
    pub fn asked(&self) -> Asked<'_> {
        Asked {
            world: &self.world,
            at: self.now,
            scope: self.scope.as_deref(),
            recorded: matches!(self.mode, Mode::Replay { .. }).then_some(self.range.1),
        }
    }
}
