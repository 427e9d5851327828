//! Collects spans and assembles the timeline from them.

use super::runtime_calls::{Run, RuntimeCall};
use super::{Input, PodEvidence};
use crate::correlate::view::PodView;
use crate::flow::Stage;
use crate::timeline::{Certainty, Edge, Mark, Outcome, Span, SpanIndex, Timeline, UnknownGap};
use kflow_model::cri::method;
use kflow_model::pod::ContainerStatus;
use kflow_model::stamp::SECOND;
use kflow_model::{Evidence, Nanos};

/// Longest time (ns) without evidence that is not reported as a gap.
const EXPLAINED: i64 = 250 * kflow_model::stamp::MILLI;

/// A timeline under construction.
pub(crate) struct Build<'a> {
    pub(crate) input: &'a Input<'a>,
    pub(crate) seen: &'a PodEvidence<'a>,
    pub(crate) view: &'a PodView,
    /// Runtime calls of the pod worker, by start.
    pub(crate) work: Vec<RuntimeCall>,
    /// Runs of containers; filled by the module `start`.
    pub(crate) runs: Vec<Run>,
    spans: Vec<Span>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) gaps: Vec<UnknownGap>,
}

/// True for a span that the stage's span includes.
fn in_stage(s: &Span) -> bool {
    !s.is_run() && !s.is_garbage_collection()
}

impl<'a> Build<'a> {
    pub(crate) fn new(input: &'a Input<'a>, seen: &'a PodEvidence<'a>, view: &'a PodView) -> Self {
        Self {
            input,
            seen,
            view,
            work: super::runtime_calls::collect(seen),
            runs: Vec::new(),
            spans: Vec::new(),
            marks: Vec::new(),
            gaps: Vec::new(),
        }
    }
    /// True when the sources on the pod's node are recorded, so that their silence is meaningful.
    pub(crate) fn watches_node(&self) -> bool {
        use kflow_model::Source;
        [Source::Cri, Source::Kubelet, Source::Fs]
            .into_iter()
            .any(|s| self.input.context.has(s))
            && (self.input.context.local.is_empty() || self.input.context.local == self.view.node)
    }
    /// True when the node's sources were being recorded at a moment. Before, their silence means nothing.
    pub(crate) fn watched_at(&self, at: Nanos) -> bool {
        self.watches_node() && self.input.context.began.is_some_and(|b| b <= at)
    }
    /// True when the tap saw every runtime call of the pod's node at a moment.
    pub(crate) fn taps(&self, at: Nanos) -> bool {
        use kflow_model::Source;
        let context = &self.input.context;
        let blind =
            |(since, until): &(Nanos, Nanos)| since.plus(-SECOND) <= at && at <= until.plus(SECOND);
        context.has(Source::Cri) && self.watched_at(at) && !context.blind.iter().any(blind)
    }
    /// True when the API shows that the kubelet has taken the pod: it has set `status.startTime`.
    pub(crate) fn started_by_api(&self) -> bool {
        self.seen
            .states
            .iter()
            .any(|(_, p)| p.status.start_time.is_some())
    }
    /// The first sign that the runtime worked for the pod: a call, or when its sandbox was created or a container started,
    /// by the runtime's lists and the API.
    pub(crate) fn first_work(&self) -> Option<Nanos> {
        let statuses = self.seen.states.iter().flat_map(|(_, p)| p.statuses());
        let started = statuses.flat_map(ContainerStatus::starts);
        let created = self.seen.items.iter().map(|(_, i)| i.created);
        let calls = self.work.iter().map(|w| w.start.at);
        let all = calls.chain(started).chain(created);
        all.filter(|at| at.0 > 0).min()
    }
    /// Adds a failed attempt for each Event with one of the reasons. Each attempt starts at the end of the previous
    /// one, the first at `since`, else at the first occurrence of its Event. Returns the end of the last attempt, and its Event.
    pub(crate) fn failures(
        &mut self,
        stage: Stage,
        step: &str,
        reasons: &[&str],
        mut since: Option<Edge>,
    ) -> Option<(Edge, Evidence)> {
        let seen = self.seen;
        let mut last = None;
        for (n, (o, e)) in (0..).zip(seen.events_of(reasons)) {
            let end = seen.api_edge_of(o);
            let start = since.unwrap_or_else(|| seen.first_edge_of(o)).min(end);
            let evidence = vec![o.clone()];
            self.add(Span {
                attempt: n,
                outcome: Outcome::Error,
                message: e.message.clone(),
                ..Span::new(stage, step, start, Some(end), Certainty::Bounded, evidence)
            });
            since = Some(end);
            last = Some((end, o.clone()));
        }
        last
    }
    /// Adds a span without duration for each Event with the reason, which reports that a container's step succeeded.
    pub(crate) fn successes(&mut self, stage: Stage, step: &str, reason: &str) {
        let seen = self.seen;
        for (o, e) in seen.events_of(&[reason]) {
            let at = seen.api_edge_of(o);
            let evidence = vec![o.clone()];
            self.add(Span {
                container: e.container.clone(),
                ..Span::new(stage, step, at, Some(at), Certainty::Inferred, evidence)
            });
        }
    }
    /// Adds a span; the returned index is valid until [`finish`](Self::finish). A span never ends before it starts:
    /// where two sources contradict each other within their precision, the end is moved to the start.
    pub(crate) fn add(&mut self, mut span: Span) -> SpanIndex {
        if let Some(end) = &mut span.end
            && end.at < span.start.at
        {
            end.precision = end
                .precision
                .max(u32::try_from(span.start.at.since(end.at)).unwrap_or(u32::MAX));
            end.at = span.start.at;
        }
        self.spans.push(span);
        (self.spans.len() - 1) as SpanIndex
    }
    /// The spans added so far.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }
    pub(crate) fn span_mut(&mut self, i: SpanIndex) -> Option<&mut Span> {
        self.spans.get_mut(i as usize)
    }
    /// Start of the first step of a stage.
    pub(crate) fn starts(&self, stage: Stage) -> Option<Edge> {
        self.of(stage).map(|s| s.start).min()
    }
    /// End of the last step of a stage; `None` when the stage has no steps, or one that has not ended.
    pub(crate) fn ends(&self, stage: Stage) -> Option<Edge> {
        self.of(stage)
            .map(|s| s.end)
            .try_fold(None, |max: Option<Edge>, end| Some(max.max(Some(end?))))?
    }
    pub(crate) fn of(&self, stage: Stage) -> impl Iterator<Item = &Span> {
        self.spans
            .iter()
            .filter(move |s| s.stage == stage && in_stage(s))
    }

    /// Adds the spans of whole stages, sorts all, and returns the timeline.
    pub(crate) fn finish(mut self) -> Timeline {
        let steps = self.spans.len();
        self.close();
        for stage in Stage::ALL {
            self.wrap(stage, steps);
        }
        let mut order: Vec<usize> = (0..self.spans.len()).collect();
        let depth = |mut i: usize| {
            let mut d = 0;
            while let Some(p) = self.spans.get(i).and_then(|s| s.parent) {
                d += 1;
                i = p as usize;
                if d > 16 {
                    break;
                }
            }
            d
        };
        order.sort_by_key(|i| {
            let s = self.spans.get(*i);
            (
                s.map(|s| (s.start.at, s.stage)),
                depth(*i),
                s.map(|s| {
                    (
                        s.end.map(|e| std::cmp::Reverse(e.at)),
                        s.container.clone(),
                        s.step.clone(),
                        s.attempt,
                    )
                }),
                *i,
            )
        });
        let mut place = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            if let Some(p) = place.get_mut(*old) {
                *p = new as SpanIndex;
            }
        }
        let mut spans: Vec<Span> = order
            .iter()
            .filter_map(|i| self.spans.get(*i).cloned())
            .collect();
        for s in &mut spans {
            s.parent = s.parent.and_then(|p| place.get(p as usize).copied());
        }
        self.marks
            .sort_by(|a, b| (a.at, &a.evidence, &a.text).cmp(&(b.at, &b.evidence, &b.text)));
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.sort();
        gaps.dedup();
        Timeline {
            spans,
            marks: self.marks,
            gaps,
        }
    }

    /// Ends every open wait where the pod's worker began to stop the pod: the worker does one after the other
    /// (pkg/kubelet/pod_workers.go, `podWorkerLoop`), and a pod that is being stopped needs nothing that others prepared for it.
    fn close_before_stop(&mut self) {
        let of_worker =
            |s: &&Span| matches!(s.step.as_str(), "SyncTerminatingPod" | "SyncTerminatedPod");
        let stops = self.of(Stage::Terminate).filter(of_worker);
        let stops: Vec<(Edge, Option<Evidence>)> = stops
            .map(|s| (s.start, s.evidence.first().cloned()))
            .collect();
        for s in &mut self.spans {
            let stop = stops.iter().filter(|(e, _)| e.at >= s.start.at);
            if let Some((end, proof)) = stop.min_by_key(|(e, _)| *e)
                && Self::waits(s)
                && s.stage != Stage::Terminate
            {
                s.end = Some(*end);
                s.certainty = s.certainty.max(Certainty::Inferred);
                s.evidence.extend(proof.clone());
                s.outcome = Outcome::Cancelled;
            }
        }
    }

    /// True for an open wait. Calls end by themselves.
    fn waits(s: &Span) -> bool {
        s.end.is_none() && s.call.is_none() && !s.is_run()
    }

    /// Ends the open waits of a pod that is gone or is being stopped. Nobody saw the end of
    /// what a pod of the past waited for: the end is set to the list that does not contain the pod, as the upper bound.
    fn close(&mut self) {
        let past = self.view.past;
        let over = self.view.gone;
        let listed = || super::first_list(self.input).filter(|_| past);
        let Some(at) = over.or_else(listed) else {
            return self.close_before_stop();
        };
        for s in &mut self.spans {
            if Self::waits(s) {
                let end = at.max(s.start.at);
                let unseen = u32::try_from(end.since(s.start.at)).unwrap_or(u32::MAX);
                s.end = Some(Edge {
                    at: end,
                    precision: if past { unseen.max(1) } else { 1 },
                });
                s.outcome = Outcome::Cancelled;
                if past {
                    s.message = match s.message.as_str() {
                        "" => "not seen to end".into(),
                        said => format!("{said}; not seen to end").into(),
                    };
                }
            }
        }
    }

    /// Adds the span of a whole stage around its steps.
    fn wrap(&mut self, stage: Stage, steps: usize) {
        let index = self.spans.len() as SpanIndex;
        let mut whole: Option<Span> = None;
        // A span within a step that is not part of the stage is not part of it either.
        let counts: Vec<bool> = (0..steps)
            .map(|i| {
                std::iter::successors(self.spans.get(i), |s| self.spans.get(s.parent? as usize))
                    .take(16)
                    .all(|s| s.is_stage() || s.stage == stage && in_stage(s))
            })
            .collect();
        for (s, _) in self
            .spans
            .iter_mut()
            .zip(&counts)
            .filter(|(s, counts)| **counts && s.stage == stage)
        {
            let top = s.parent.is_none();
            if top {
                s.parent = Some(index);
            }
            let w = whole.get_or_insert_with(|| Span {
                certainty: s.certainty,
                ..Span::new(stage, stage.name(), s.start, s.end, s.certainty, Vec::new())
            });
            w.start = w.start.min(s.start);
            w.end = match (w.end, s.end) {
                (Some(a), Some(b)) => Some(a.max(b)),
                _ => None,
            };
            w.certainty = w.certainty.max(s.certainty);
        }
        let Some(mut whole) = whole else { return };
        // The stage's outcome is that of its last attempt; the evidence is that of its first and last steps.
        let newest = |of: &dyn Fn(&Span) -> bool| {
            let all = self.spans.iter().take(steps);
            all.filter(|s| s.stage == stage && in_stage(s) && s.parent == Some(index) && of(s))
                .max_by_key(|s| (s.end.is_none(), s.end, s.start))
        };
        let last = newest(&|_| true);
        // The end of a wait says nothing about the outcome; nor does an image lookup without a container created
        // after it.
        let made = |after: &Span| {
            let mut made = self
                .spans
                .iter()
                .filter(|s| s.step == method::CREATE_CONTAINER);
            made.any(|s| s.container == after.container && s.start.at >= after.start.at)
        };
        let tried = newest(&|s| match s.step.as_str() {
            "completeWork" | "ImagePullBackOff" => false,
            method::IMAGE_STATUS => made(s),
            _ => true,
        });
        let how = if whole.end.is_none() {
            last
        } else {
            tried.or(last)
        };
        if let Some(how) = how {
            whole.outcome = if whole.end.is_none() {
                Outcome::InFlight
            } else {
                how.outcome
            };
            if whole.outcome != Outcome::Ok {
                whole.code.clone_from(&how.code);
                whole.message.clone_from(&how.message);
            }
        }
        let first = self
            .spans
            .iter()
            .take(steps)
            .filter(|s| s.stage == stage && in_stage(s))
            .min_by_key(|s| s.start);
        for s in first.into_iter().chain(last) {
            for e in &s.evidence {
                if !whole.evidence.contains(e) {
                    whole.evidence.push(e.clone());
                }
            }
        }
        self.spans.push(whole);
    }

    /// Adds a gap for a time without evidence, if it is long enough to matter.
    pub(crate) fn gap(&mut self, stage: Stage, start: Nanos, end: Option<Nanos>, why: &str) {
        if end.is_none_or(|e| e.since(start) > EXPLAINED) {
            self.gaps.push(UnknownGap {
                stage,
                start,
                end,
                why: why.into(),
            });
        }
    }
}
