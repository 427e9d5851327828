//! What panes and exporters may see: one immutable value, taken once a frame at most.

use std::sync::Arc;

use crate::cluster::ClusterView;
use crate::overview::Overview;
use kflow_core::correlate::World;
use kflow_core::diagnose::unknown::Asked;
use kflow_core::diagnose::{About, Verdict};
use kflow_model::session::Carried;
use kflow_model::{Body, Evidence, Nanos, PodUid, Scope, Text};
pub use kflow_sources::live::{SourceStatus, Status};

/// Names of what kflow says of itself, as sources of the kind `kflow`; and of the apiserver before it has an address.
pub mod own {
    /// The world's thread.
    pub const ENGINE: &str = "engine";
    /// The file that is being written.
    pub const RECORDING: &str = "recording";
    /// The file that is being read.
    pub const SESSION: &str = "session";
    /// The moment that a recording was to be shown at.
    pub const MOMENT: &str = "moment";
    /// The trace store that spans are sent to.
    pub const TRACES: &str = "traces";
    /// The way to an apiserver, of the kind `kube`.
    pub const KUBECONFIG: &str = "kubeconfig";
}

/// Observations in order of arrival, in shared chunks: cheap to clone, bounded at the front when live. What of the dropped
/// front still stands (objects that exist, calls in flight) is carried along.
#[derive(Clone, Debug, Default)]
pub struct ObservationLog {
    chunks: Vec<Arc<Vec<Evidence>>>,
    len: usize,
    /// What stood when the front was dropped.
    before: Arc<Carried>,
    /// Earliest arrival.
    earliest: Option<Nanos>,
    /// The clock was set back meanwhile: `seen` does not only rise.
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
    /// Number of observations.
    pub const fn len(&self) -> usize {
        self.len
    }
    /// True when there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Observations in order of arrival.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Evidence> {
        self.chunks.iter().flat_map(|c| c.iter())
    }
    /// The observations, and before them what stood when the front was dropped: the newest state of all that existed, the
    /// newest lists, what was open. A world that is built from them knows what is quiet too.
    pub fn history(&self) -> impl Iterator<Item = &Evidence> {
        self.before
            .iter()
            .chain(self.chunks.iter().flat_map(|c| c.iter()))
    }
    /// How many observations of the time before are carried along.
    pub fn carried(&self) -> usize {
        self.before.len()
    }
    /// The n-th observation.
    pub fn get(&self, n: usize) -> Option<&Evidence> {
        // Only the last chunk is partial, unless the front was dropped as whole chunks.
        self.chunks.get(n / Self::CHUNK)?.get(n % Self::CHUNK)
    }
    /// Earliest arrival: that of the first observation, unless the clock was set back.
    pub const fn earliest(&self) -> Option<Nanos> {
        self.earliest
    }
    /// How many observations had arrived by `at`. Where the clock was set back and showed that time more than once, the
    /// last time counts.
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
    /// The first `n` observations: whole chunks are shared.
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
    /// A log with one more observation at place `at`.
    #[must_use]
    pub fn inserted(&self, at: usize, o: Evidence) -> Self {
        let mut log = self.prefix(at);
        log.push(o);
        for o in self.iter().skip(at) {
            log.push(Arc::clone(o));
        }
        log
    }
    /// Drops the oldest whole chunks until at most `keep` observations (rounded up to chunks) remain; returns how many went.
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

/// Where the observations come from and where the view stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A session: how fast it plays.
    Replay {
        /// Name of the session.
        name: Text,
        /// The session plays; false while it is paused.
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
        /// The view follows; false while it is paused or scrolled back.
        following: bool,
        /// File that is being recorded to, empty when none.
        recording: Text,
    },
}

impl Mode {
    /// A session that is read to its end, at real-time speed, and does not play.
    pub fn paused(name: &str) -> Self {
        Self::Replay {
            name: name.into(),
            playing: false,
            speed_permille: 1000,
            loading_permille: 1000,
        }
    }
    /// True while pictures follow each other by themselves.
    pub const fn moves(&self) -> bool {
        match self {
            Self::Replay { playing, .. } => *playing,
            Self::Live { following, .. } => *following,
        }
    }
}

/// Verdicts in between, at most, when the one is looked for that another follows from.
const LONGEST_CHAIN: usize = 16;

/// One immutable picture of everything.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Rises with every change; a frame with the same version need not be drawn again.
    pub version: u64,
    /// The world, its views up to date.
    pub world: Arc<World>,
    /// The moment that the snapshot shows: the clock when live, the cursor in replay. Ages count from it.
    pub now: Nanos,
    /// Verdict of each pod that is not well.
    pub verdicts: Arc<rustc_hash::FxHashMap<PodUid, Arc<Verdict>>>,
    /// Nodes that stand still, and owners that cannot create pods.
    pub owner_verdicts: Arc<Vec<Arc<Verdict>>>,
    /// What was ever not well: of a session from its begin to its end, whatever `now` is.
    pub overview: Arc<Overview>,
    /// Observations up to `now`.
    pub log: ObservationLog,
    /// Live or replay, and how it goes on.
    pub mode: Mode,
    /// First and last moment of the session, or of what is kept when live.
    pub range: (Nanos, Nanos),
    /// Status of each source.
    pub sources: Vec<SourceStatus>,
    /// What an apiserver is asked for; `None` for a session, and where none is asked.
    pub scope: Option<Arc<Scope>>,
    /// The cluster whose nodes can be opened; `None` for a session, and where a node is named.
    pub cluster: Option<Arc<ClusterView>>,
}

impl Snapshot {
    /// The verdict from whose trouble this one follows, through all that are in between; the verdict itself where it
    /// follows from none that is known, or, in a circle, from itself.
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
    /// What is asked, for who says what is not known.
    pub fn asked(&self) -> Asked<'_> {
        Asked {
            world: &self.world,
            at: self.now,
            scope: self.scope.as_deref(),
            recorded: matches!(self.mode, Mode::Replay { .. }).then_some(self.range.1),
        }
    }
}
