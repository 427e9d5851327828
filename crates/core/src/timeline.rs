//! Spans, marks and gaps of one pod, with the evidence that proves them.
//!
//! `correlate` derives a [`Timeline`] from a pod's evidence; everything else only reads it. Its times are on the node's
//! clock (API times are shifted by the estimated skew, see `correlate`). An open span has no end: readers compute its
//! age as of their own moment, so a timeline does not change as time passes. Pure.

pub mod compare;
pub mod critical;
pub mod summary;

use serde::{Deserialize, Serialize};

use crate::flow::Stage;
use kflow_model::cri::{CallKey, method};
use kflow_model::{Body, Evidence, Nanos, Source, Text};

/// How a span ended, or that it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The span ended without an error.
    Ok,
    /// The span ended with an error.
    Error,
    /// The span has not ended.
    InFlight,
    /// The span was given up: a cancelled call, a missed deadline, or a pod deleted meanwhile.
    Cancelled,
}

impl Outcome {
    /// `ok`, `error`, `in-flight`, `cancelled`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::InFlight => "in-flight",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How the edges of a span are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// A source that measures times saw both edges (a call's bytes, a span).
    Measured,
    /// An edge follows from other evidence (the cgroup appeared, so `EnsureExists` ended).
    Inferred,
    /// An edge is only known to lie between two observations.
    Bounded,
}

/// An edge of a span: an interval in which the span began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// Earliest moment on the node's clock.
    pub at: Nanos,
    /// Width of the interval, ns, at least 1.
    pub precision: u32,
}

/// The step of the span that lasts from a container's start to its exit (stage `start`, one per container and attempt).
/// The span has no parent and does not count for the span of its stage.
pub const RUN: &str = "run";

/// Index of a span in [`Timeline::spans`].
pub type SpanIndex = u32;

/// An interval in a pod's life: a stage, a step of it, or an attempt of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub stage: Stage,
    /// The step: a function by its name in the flow map (`RunPodSandbox`, `WaitForAttachAndMount`), or the stage's name
    /// for the span of a whole stage.
    pub step: Text,
    /// The container, empty for the pod's own spans.
    pub container: Text,
    /// The attempt, from 0: a sandbox's attempt, a container's restart count, or a retry of a call.
    pub attempt: u32,
    pub start: Edge,
    /// `None` while the span is open.
    pub end: Option<Edge>,
    pub outcome: Outcome,
    /// gRPC or HTTP status by name (`NotFound`, `403`), empty when none.
    pub code: Text,
    /// The error message or another detail, empty when none.
    pub message: Text,
    /// How the edges are known.
    pub certainty: Certainty,
    /// The span that contains this one.
    pub parent: Option<SpanIndex>,
    /// The CRI call that the span shows, if any.
    pub call: Option<CallKey>,
    /// The deadline of the call, ns from its start.
    pub deadline_ns: Option<i64>,
    /// The evidence of the span, best first.
    pub evidence: Vec<Evidence>,
}

/// True for a call that was given up at its deadline. `code` is the name of the gRPC status; the kubelet's spans have the
/// upper-case one.
pub(crate) fn is_timed_out(outcome: Outcome, code: &str) -> bool {
    outcome == Outcome::Cancelled && matches!(code, "DeadlineExceeded" | "DEADLINE_EXCEEDED")
}

impl Span {
    /// Makes a step's span without container, code, message, parent and call. The outcome is `Ok` with an end, else
    /// `InFlight`.
    pub fn new(
        stage: Stage,
        step: &str,
        start: Edge,
        end: Option<Edge>,
        certainty: Certainty,
        evidence: Vec<Evidence>,
    ) -> Self {
        Self {
            stage,
            step: step.into(),
            container: Text::default(),
            attempt: 0,
            start,
            end,
            outcome: if end.is_some() {
                Outcome::Ok
            } else {
                Outcome::InFlight
            },
            code: Text::default(),
            message: Text::default(),
            certainty,
            parent: None,
            call: None,
            deadline_ns: None,
            evidence,
        }
    }
    /// Returns the length, or the age at `now` of an open span; never negative, ns.
    pub fn duration(&self, now: Nanos) -> i64 {
        self.end.map_or(now, |e| e.at).since(self.start.at).max(0)
    }
    /// True for the run of a container ([`RUN`]): the span is open while the container runs, but nothing
    /// waits for its end.
    pub fn is_run(&self) -> bool {
        self.step == RUN
    }
    /// True for a call that was given up at its deadline: the kubelet tries it again, like one that failed.
    pub fn is_timed_out(&self) -> bool {
        is_timed_out(self.outcome, &self.code)
    }
    /// True for garbage collection of the runtime or the kubelet, which comes minutes after an attempt or the end. It
    /// does not count for the span of its stage.
    pub fn is_garbage_collection(&self) -> bool {
        match self.stage {
            Stage::Start => self.step == method::REMOVE_CONTAINER,
            Stage::Sandbox => self.step == method::REMOVE_POD_SANDBOX,
            Stage::Terminate => {
                matches!(
                    self.step.as_str(),
                    method::REMOVE_CONTAINER
                        | method::REMOVE_POD_SANDBOX
                        | "cleanupOrphanedPodDirs"
                ) || self.step == method::STOP_POD_SANDBOX && self.attempt > 0
            }
            _ => false,
        }
    }
    /// True for the open wait of a container that is known from the container's status in the API alone. Its start is that of the
    /// first status read, which may be long after the wait began.
    pub fn is_by_status(&self) -> bool {
        let by_status = |e: &Evidence| matches!(e.body, Body::Pod(_));
        self.end.is_none()
            && self.call.is_none()
            && (Stage::Image..=Stage::Start).contains(&self.stage)
            && !self.is_stage()
            && !self.is_run()
            && self.evidence.iter().all(by_status)
    }
    pub fn is_stage(&self) -> bool {
        self.step == self.stage.name()
    }
    /// Returns the sources of the evidence, each once, in order of rank.
    pub fn sources(&self) -> Vec<Source> {
        let mut s: Vec<Source> = self.evidence.iter().map(|e| e.source).collect();
        s.sort_unstable();
        s.dedup();
        s
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// A Kubernetes Event.
    Event,
    /// A probe result.
    Probe,
    /// A container ended or was restarted.
    Restart,
    /// A condition of the pod changed.
    Condition,
    /// The status in the API changed.
    Status,
    /// An API request about the pod.
    Request,
    /// The runtime reported an OOM kill, a task or a root file system.
    Runtime,
    /// A deadline: the `deletionTimestamp`, which is the time of the delete request plus the grace period. It lies
    /// after its evidence. What happens by then, if anything, is another mark or span.
    Due,
    /// A user's note.
    Note,
}

/// An event in a pod's life at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub at: Edge,
    pub kind: MarkKind,
    pub stage: Stage,
    /// The container, empty for the pod's own marks.
    pub container: Text,
    /// One line: `Pulling: Pulling image "x"`, `Ready=True`.
    pub text: Text,
    /// True for a warning, a failure or an exit code other than 0.
    pub bad: bool,
    /// Number of occurrences that are folded into this mark (probes), at least 1.
    pub count: u32,
    pub evidence: Evidence,
}

/// A time of which no source shows anything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnknownGap {
    /// The stage that the gap lies in or before, when that is known.
    pub stage: Stage,
    pub start: Nanos,
    /// `None` while the gap lasts.
    pub end: Option<Nanos>,
    /// Why nothing is known: "no kubelet log", "the tap was blind", "nothing was recorded".
    pub why: Text,
}

/// All that is known of one pod's life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Spans, by start; a parent comes before its children.
    pub spans: Vec<Span>,
    /// Marks, by time.
    pub marks: Vec<Mark>,
    /// Gaps, by time.
    pub gaps: Vec<UnknownGap>,
}

impl Timeline {
    /// Returns the span of a whole stage; `None` when the pod did not reach the stage.
    pub fn stage(&self, stage: Stage) -> Option<&Span> {
        self.spans.iter().find(|s| s.stage == stage && s.is_stage())
    }
    /// Returns all spans but those of whole stages.
    pub fn steps(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(|s| !s.is_stage())
    }
    /// Returns the spans in flight, without the runs of containers.
    pub fn in_flight(&self) -> impl Iterator<Item = &Span> {
        self.spans
            .iter()
            .filter(|s| s.outcome == Outcome::InFlight && !s.is_run())
    }
    /// Returns the first and the last moment; an open span counts with its start. Marks of kind [`MarkKind::Due`] count
    /// only while a span is open, so that a pod which ends before its deadline has no empty tail.
    pub fn range(&self) -> Option<(Nanos, Nanos)> {
        let ending = self.spans.iter().any(|s| s.end.is_none());
        let marks = || {
            self.marks
                .iter()
                .filter(move |m| ending || m.kind != MarkKind::Due)
                .map(|m| m.at.at)
        };
        let starts = self.spans.iter().map(|s| s.start.at).chain(marks());
        let ends = self
            .spans
            .iter()
            .map(|s| s.end.map_or(s.start.at, |e| e.at))
            .chain(marks());
        Some((starts.min()?, ends.max()?))
    }
}

#[cfg(test)]
mod tests;
