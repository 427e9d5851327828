//! Spans, marks and gaps of one pod, with the evidence that proves them.
//!
//! A [`Timeline`] is a value: `correlate` derives it from a pod's evidence, everybody else reads it. Times inside it
//! are on the node's clock (API times are shifted by the estimated skew, see `correlate`). An open span has no end: its age is the
//! reader's business, so a timeline does not change because time goes by. Pure.

pub mod compare;
pub mod critical;
pub mod summary;

use serde::{Deserialize, Serialize};

use crate::flow::Stage;
use kflow_model::cri::{CallKey, method};
use kflow_model::{Evidence, Nanos, Source, Text};

/// How a span stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It ended well.
    Ok,
    /// It ended with an error.
    Error,
    /// It has not ended.
    InFlight,
    /// It was given up: cancelled, deadline, pod deleted meanwhile.
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

/// How sure an interval is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Both edges were seen by a source that measures them (a call's bytes, a span).
    Measured,
    /// An edge follows from evidence of something next to it (the cgroup appeared, so `EnsureExists` ended).
    Inferred,
    /// Only limits are known: it happened between two observations.
    Bounded,
}

/// An edge of a span: when, and within what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// Earliest moment on the node's clock.
    pub at: Nanos,
    /// Width of the interval, ns, at least 1.
    pub precision: u32,
}

/// Step of the span that lasts from the start of a container to its exit (stage `start`, one per container and
/// attempt). It lies in no other span and is no part of its stage's span.
pub const RUN: &str = "run";

/// Index of a span in its timeline.
pub type SpanIndex = u32;

/// An interval: a stage, a step of it, or an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Stage of the pod's life that it belongs to.
    pub stage: Stage,
    /// Step: a function of the call flow as the flow map names it (`RunPodSandbox`, `WaitForAttachAndMount`);
    /// equal to the stage's name for the span of a whole stage.
    pub step: Text,
    /// Container, empty for the pod's own spans.
    pub container: Text,
    /// Attempt, from 0: sandbox attempt, container restart count, retry of a call.
    pub attempt: u32,
    /// Begin, with its precision and evidence.
    pub start: Edge,
    /// End, `None` while it lasts.
    pub end: Option<Edge>,
    /// How it ended, or that it has not.
    pub outcome: Outcome,
    /// gRPC or HTTP status by name (`NotFound`, `403`), empty when none.
    pub code: Text,
    /// Error message or other detail, empty when none.
    pub message: Text,
    /// How sure it is.
    pub certainty: Certainty,
    /// The span that it lies in.
    pub parent: Option<SpanIndex>,
    /// The CRI call, when it is one.
    pub call: Option<CallKey>,
    /// Deadline of the call, ns from the start.
    pub deadline_ns: Option<i64>,
    /// What proves it, best first.
    pub evidence: Vec<Evidence>,
}

impl Span {
    /// A span of a step; everything that is not given is empty.
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
    /// Length, or age at `now` while it lasts; never negative. ns.
    pub fn duration(&self, now: Nanos) -> i64 {
        self.end.map_or(now, |e| e.at).since(self.start.at).max(0)
    }
    /// True for the run of a container ([`RUN`]): it is open for as long as the container runs, which is no wait.
    pub fn is_run(&self) -> bool {
        self.step == RUN
    }
    /// True for what the runtime's or the kubelet's garbage collection does, minutes after an attempt or the end: it is no
    /// part of the stage's span.
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
    /// True for the span of a whole stage.
    pub fn is_stage(&self) -> bool {
        self.step == self.stage.name()
    }
    /// Sources of the evidence, each once, in order of rank.
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
    /// A condition of the pod turned.
    Condition,
    /// The API status changed.
    Status,
    /// An API request about the pod.
    Request,
    /// What the runtime told of itself: an OOM kill, a task, a root file system.
    Runtime,
    /// When something is to have happened by: the `deletionTimestamp`, the request and its grace. It lies in the
    /// future of what proves it, and what happens by then, if anything, is another mark or span.
    Due,
    /// A user's note.
    Note,
}

/// Something that happened at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Time, with its precision and evidence.
    pub at: Edge,
    pub kind: MarkKind,
    /// Stage that it belongs to.
    pub stage: Stage,
    /// Container, empty for the pod.
    pub container: Text,
    /// One line: `Pulling: Pulling image "x"`, `Ready=True`.
    pub text: Text,
    /// True for warnings, failures, non-zero exits.
    pub bad: bool,
    /// How often it was repeated, folded into this mark (probes), at least 1.
    pub count: u32,
    /// What proves it.
    pub evidence: Evidence,
}

/// Time that nothing explains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnknownGap {
    /// Stage that it lies in or before, when that is known.
    pub stage: Stage,
    /// Begin of the gap.
    pub start: Nanos,
    /// End, `None` while it lasts.
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
    /// The span of a whole stage, if the stage was reached.
    pub fn stage(&self, stage: Stage) -> Option<&Span> {
        self.spans.iter().find(|s| s.stage == stage && s.is_stage())
    }
    /// Spans without the whole-stage ones.
    pub fn steps(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(|s| !s.is_stage())
    }
    /// Spans that have not ended; running containers are not among them.
    pub fn in_flight(&self) -> impl Iterator<Item = &Span> {
        self.spans
            .iter()
            .filter(|s| s.outcome == Outcome::InFlight && !s.is_run())
    }
    /// First and last moment (open spans count with their start). What is due counts for as long as the pod has not
    /// ended: a pod that ends before its time has no empty tail.
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
