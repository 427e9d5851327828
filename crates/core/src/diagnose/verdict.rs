//! The verdict: what is said of one pod (or of an owner that has none).

use serde::{Deserialize, Serialize};

use super::CauseId;
use crate::flow::Stage;
use kflow_model::{Evidence, Nanos, ObjectRef, PodUid, Source, Text};

/// How the pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing moves and nothing will without somebody doing something, or a call does not return.
    Stuck,
    /// It moves, but slower than it should.
    Slow,
    /// It failed and will be tried again at a known time.
    BackingOff,
    /// A container ends again and again, and runs at this moment: see [`Recurrence`].
    CrashLooping,
    /// Its readiness (or its sandbox) comes and goes: see [`Recurrence`].
    Flapping,
    /// It waits for something else (another pull, an init container, a gate).
    Blocked,
    /// It is over and did not succeed.
    Failed,
    /// It is well now and was not before: what happened is over, see [`Recurrence`] for how often and until when.
    Recovered,
    /// It is well.
    Healthy,
    /// It is no more.
    Gone,
}

impl State {
    /// True for a pod that is well now, whatever it was before, and for one that is gone.
    pub const fn is_well(self) -> bool {
        matches!(self, Self::Recovered | Self::Healthy | Self::Gone)
    }
    /// Name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stuck => "stuck",
            Self::Slow => "slow",
            Self::BackingOff => "backing-off",
            Self::CrashLooping => "crash-looping",
            Self::Flapping => "flapping",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::Recovered => "recovered",
            Self::Healthy => "healthy",
            Self::Gone => "gone",
        }
    }
}

/// Something that happened more than once: a container ended, the pod became not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrence {
    pub times: u32,
    /// The first time.
    pub first: Nanos,
    /// The last time.
    pub last: Nanos,
    /// Since when the container runs, or the pod is ready, again; `None` while it does not.
    pub up: Option<Nanos>,
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The failing party itself said so.
    Certain,
    /// It follows from what was and was not seen.
    Likely,
    /// It fits, and other causes would too.
    Possible,
}

/// The call that a pod waits on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlightCall {
    /// CRI method.
    pub method: Text,
    pub since: Nanos,
    /// Deadline, ns from the start.
    pub deadline_ns: Option<i64>,
}

/// A piece of evidence. Its `Display` is one line: `Event FailedMount  "secret \"x\" not found"  (9 times)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Time of the observation.
    pub at: Nanos,
    /// Width of the interval, ns.
    pub precision: u32,
    /// Who saw it.
    pub source: Source,
    /// What was seen: `Event FailedMount`, `CRI PullImage  NotFound`, `node n1 was deleted`.
    pub what: String,
    /// The message that it carried, in its own words.
    pub words: Option<Text>,
    /// How often it was seen.
    pub times: u32,
    /// The observation, to jump to; `None` for negative evidence.
    pub evidence: Option<Evidence>,
}

impl Proof {
    /// The message that it carried, or else what was seen.
    pub fn said(&self) -> &str {
        self.words.as_ref().map_or(self.what.as_str(), Text::as_str)
    }
}

impl std::fmt::Display for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        if let Some(words) = &self.words {
            write!(f, "  \"{words}\"")?;
        }
        if self.times > 1 {
            write!(f, "  ({} times)", self.times)?;
        }
        Ok(())
    }
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    pub text: String,
    /// The command, with the pod's own names in it; empty when there is none.
    pub command: String,
}

/// What is said of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Pod; empty for an owner without pods.
    pub uid: PodUid,
    pub namespace: Text,
    /// Pod name; empty for an owner without pods.
    pub pod: Text,
    /// Owner: the controller of the pod, or the owner that the verdict is about.
    pub owner: Option<ObjectRef>,
    /// The topmost owner of the pod that is known.
    pub root: Option<ObjectRef>,
    /// The cause; `None` for a pod that is well, or that comes and goes for a reason that no rule knows.
    pub cause: Option<CauseId>,
    /// Title of the cause.
    pub title: Text,
    /// Stage in which the pod stands.
    pub stage: Stage,
    /// Container, empty for the pod.
    pub container: Text,
    /// How the pod stands: well, moving, waiting, stuck, …
    pub state: State,
    pub since: Nanos,
    /// The call that it waits on.
    pub in_flight: Option<InFlightCall>,
    /// Attempt of a retry loop, from 1; 0 when there is none.
    pub attempt: u32,
    /// When it is tried again.
    pub next_retry: Option<Nanos>,
    /// The pod or node whose trouble it follows from: once that is over, this goes on by itself.
    pub behind: Option<ObjectRef>,
    /// What happened more than once, of a verdict that is about that.
    pub recurrence: Option<Recurrence>,
    /// One true sentence with the names in it.
    pub sentence: String,
    /// What the sentence says apart from how long and how often: the same of several pods when the same is true of them.
    pub same: String,
    /// What proves it, best first.
    pub evidence: Vec<Proof>,
    /// Steps that were not reached.
    pub not_reached: Vec<Text>,
    /// What to do.
    pub next: Vec<NextStep>,
    /// How sure.
    pub confidence: Confidence,
    /// Other things that are true.
    pub also: Vec<Verdict>,
}

/// Whom a verdict is about, or whose trouble it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum About<'v> {
    /// By its UID.
    Pod(&'v str),
    /// By its name.
    Node(&'v str),
}

impl Verdict {
    /// The pod or node that it is about; `None` for another owner.
    pub fn about(&self) -> Option<About<'_>> {
        match &self.owner {
            _ if !self.uid.is_empty() => Some(About::Pod(self.uid.as_str())),
            Some(o) if o.kind == "Node" => Some(About::Node(o.name.as_str())),
            _ => None,
        }
    }
    /// The pod or node that it is [`Self::behind`].
    pub fn follows(&self) -> Option<About<'_>> {
        match self.behind.as_ref()? {
            o if o.kind == "Node" => Some(About::Node(o.name.as_str())),
            o if !o.uid.is_empty() => Some(About::Pod(o.uid.as_str())),
            _ => None,
        }
    }
    /// The same, told by a clock that is behind by so much, ns: since when it is so, and when it is tried again. Evidence keeps
    /// the times of who saw it.
    #[must_use]
    pub fn by_clock_behind(mut self, ns: i64) -> Self {
        let earlier = |t: &mut Nanos| *t = t.plus(ns.saturating_neg());
        earlier(&mut self.since);
        self.next_retry.iter_mut().for_each(earlier);
        self.in_flight
            .iter_mut()
            .for_each(|c| earlier(&mut c.since));
        if let Some(r) = &mut self.recurrence {
            earlier(&mut r.first);
            earlier(&mut r.last);
            r.up.iter_mut().for_each(earlier);
        }
        let also = std::mem::take(&mut self.also);
        self.also = also.into_iter().map(|v| v.by_clock_behind(ns)).collect();
        self
    }
    /// Id of the cause (`KF601`), empty when there is none.
    pub fn cause_id(&self) -> &'static str {
        self.cause.map_or("", CauseId::as_str)
    }
}
