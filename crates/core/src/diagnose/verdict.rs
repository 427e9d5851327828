//! The verdict: what is said about one pod, owner or node.

use serde::{Deserialize, Serialize};

use super::CauseId;
use crate::flow::Stage;
use kflow_model::{Evidence, Nanos, ObjectRef, PodUid, Source, Text};

/// The state of a pod in a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The pod does not progress and will not without somebody's help, or a call does not return.
    Stuck,
    /// The pod progresses, but slower than it should.
    Slow,
    /// A step failed and will be tried again after a back-off.
    BackingOff,
    /// A container ends again and again, and runs now: see [`Recurrence`].
    CrashLooping,
    /// The pod's readiness (or its sandbox) comes and goes: see [`Recurrence`].
    Flapping,
    /// The pod waits for something else (another pull, an init container, a gate).
    Blocked,
    /// The pod has ended without success.
    Failed,
    /// The pod is well now and was not before: see [`Recurrence`] for how often and until when it was not.
    Recovered,
    Healthy,
    /// The pod no longer exists.
    Gone,
}

impl State {
    /// True for a pod that is well now, whatever it was before, and for one that is gone.
    pub const fn is_well(self) -> bool {
        matches!(self, Self::Recovered | Self::Healthy | Self::Gone)
    }
    /// The state's name in JSON.
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
    /// The failing component itself named the cause.
    Certain,
    /// The cause follows from what was and was not seen.
    Likely,
    /// The cause fits, and other causes would too.
    Possible,
}

/// The CRI call that a pod waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlightCall {
    /// CRI method.
    pub method: Text,
    pub since: Nanos,
    /// Deadline, ns from the start; `None` when the call has none.
    pub deadline_ns: Option<i64>,
}

/// A piece of evidence. Its `Display` is one line: `Event FailedMount  "secret \"x\" not found"  (9 times)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Time of the observation.
    pub at: Nanos,
    /// Precision of `at`, ns: the width of the interval that the time stands for.
    pub precision: u32,
    pub source: Source,
    /// What was seen: `Event FailedMount`, `CRI PullImage  NotFound`, `node n1 was deleted`.
    pub what: String,
    /// The message that the observation carries.
    pub words: Option<Text>,
    /// How often it was seen.
    pub times: u32,
    /// The observation itself, to jump to; `None` when the evidence is that something was not seen.
    pub evidence: Option<Evidence>,
}

impl Proof {
    /// Returns the message, or else what was seen.
    pub fn said(&self) -> &str {
        self.words.as_ref().map_or(self.what.as_str(), Text::as_str)
    }
}

impl std::fmt::Display for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        if let Some(words) = self.words.as_ref().filter(|w| !w.is_empty()) {
            write!(f, "  \"{words}\"")?;
        }
        if self.times > 1 {
            write!(f, "  ({} times)", self.times)?;
        }
        Ok(())
    }
}

/// Something to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    pub text: String,
    /// The command, with the pod's names filled in; empty when there is none.
    pub command: String,
}

impl NextStep {
    /// Returns the command; one of kflow with the flags that name the recording that the verdict is of, each with a space
    /// before it.
    pub fn of(&self, recording: &str) -> String {
        if self.command.starts_with("kflow ") {
            format!("{}{recording}", self.command)
        } else {
            self.command.clone()
        }
    }
}

/// What is said about one pod, owner or node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The pod's UID; empty for an owner or a node.
    pub uid: PodUid,
    pub namespace: Text,
    /// The pod's name; empty for an owner or a node.
    pub pod: Text,
    /// The controller of the pod, or else the owner or node that the verdict is about.
    pub owner: Option<ObjectRef>,
    /// The topmost known owner of the pod.
    pub root: Option<ObjectRef>,
    /// The cause; `None` for a pod that is well, or whose readiness comes and goes for a reason that no rule knows.
    pub cause: Option<CauseId>,
    /// Title of the cause, or of a state without a cause.
    pub title: Text,
    /// The stage that the pod is in, as far as this cause is concerned.
    pub stage: Stage,
    /// The container that the verdict is about; empty for the whole pod.
    pub container: Text,
    /// The pod's state: healthy, slow, blocked, stuck, …
    pub state: State,
    pub since: Nanos,
    /// The sources begin in the middle: it has been so since `since` at least.
    pub at_least: bool,
    /// The call that the pod waits for.
    pub in_flight: Option<InFlightCall>,
    /// Number of the attempt in a retry loop, from 1; 0 when there is no such loop.
    pub attempt: u32,
    /// When the kubelet tries again, if that is known.
    pub next_retry: Option<Nanos>,
    /// The pod or node whose trouble this one follows from: once that trouble is over, this pod goes on by itself.
    pub behind: Option<ObjectRef>,
    /// How often and when it happened, in a verdict about something that happened more than once.
    pub recurrence: Option<Recurrence>,
    /// The verdict in one sentence, with names filled in.
    pub sentence: String,
    /// The sentence without how long and how often: it is equal for pods with the same trouble.
    pub same: String,
    /// The evidence for the verdict, best first.
    pub evidence: Vec<Proof>,
    /// Steps of the pod's start that were not reached, as CRI methods or words.
    pub not_reached: Vec<Text>,
    /// How the pod's owner stands: `deployment/web: 1 of 3 pods is ready`; `None` where that is not known, and for a pod that
    /// is well.
    pub owner_state: Option<String>,
    /// Why the pod's node does nothing for it now, where that is not the verdict itself: what is said of the pod is of before.
    pub node_state: Option<String>,
    /// What to do next.
    pub next: Vec<NextStep>,
    /// How sure the cause is.
    pub confidence: Confidence,
    /// Other causes that are true too.
    pub also: Vec<Verdict>,
}

/// The pod or node that a verdict is about, or whose trouble it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum About<'v> {
    /// A pod by UID.
    Pod(&'v str),
    /// A node by name.
    Node(&'v str),
}

impl Verdict {
    /// The pod or node that the verdict is about; `None` for another owner.
    pub fn about(&self) -> Option<About<'_>> {
        match &self.owner {
            _ if !self.uid.is_empty() => Some(About::Pod(self.uid.as_str())),
            Some(o) if o.kind == "Node" => Some(About::Node(o.name.as_str())),
            _ => None,
        }
    }
    /// The pod or node whose trouble the verdict follows from ([`Self::behind`]).
    pub fn follows(&self) -> Option<About<'_>> {
        match self.behind.as_ref()? {
            o if o.kind == "Node" => Some(About::Node(o.name.as_str())),
            o if !o.uid.is_empty() => Some(About::Pod(o.uid.as_str())),
            _ => None,
        }
    }
    /// Returns the number of the attempt where it says something: a first one does only if another follows.
    pub fn told_attempt(&self) -> Option<u32> {
        let least = if self.next_retry.is_some() { 1 } else { 2 };
        Some(self.attempt).filter(|n| *n >= least)
    }
    /// Returns the verdict with its times (since when, next try) as a clock shows them that is behind by `ns`. The
    /// evidence keeps the times of its own sources.
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
    /// Id of the cause (`KF601`); empty when there is none.
    pub fn cause_id(&self) -> &'static str {
        self.cause.map_or("", CauseId::as_str)
    }
}
