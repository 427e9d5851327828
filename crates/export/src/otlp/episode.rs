//! Divides a pod's life into episodes, each a trace: the start, each restart of a container, the termination. One trace
//! of the whole life would last for weeks, and trace stores cut or lose such traces.

use kflow_core::correlate::PodView;
use kflow_core::flow::Stage;
use kflow_core::timeline::{RUN, Span};
use kflow_model::cri::method;
use kflow_model::{Nanos, Text};

/// The part of a pod's life that a trace covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Episode {
    /// From the pod's creation until it is Ready.
    Start,
    /// From the end of a container's attempt until the start of the next attempt, which is number `attempt`, from 1.
    Restart { container: Text, attempt: u32 },
    /// From the request to delete the pod until the pod is gone.
    Termination,
}

impl Episode {
    /// Returns the name of the episode's root span. A container that ended and did not start again has not restarted.
    pub(super) fn name(&self, pod: &PodView) -> &'static str {
        match self {
            Self::Start => "pod start",
            Self::Restart { container, attempt }
                if starts(pod, container, *attempt).next().is_none() =>
            {
                "container exit"
            }
            Self::Restart { .. } => "container restart",
            Self::Termination => "pod termination",
        }
    }
}

/// Steps that end an attempt of a container, and so belong to the episode after it.
const ENDINGS: [&str; 4] = [
    method::STOP_CONTAINER,
    method::REMOVE_CONTAINER,
    "CrashLoopBackOff",
    "PreStopHook",
];

/// Returns the episode of each span of a pod, in the timeline's order. `None` for the span of a whole stage, which may
/// belong to several episodes, and for the run of a container, during which nothing works on the pod. The run of an
/// init container has an episode, because the pod waits for its end.
pub(super) fn of_spans(pod: &PodView) -> Vec<Option<Episode>> {
    let spans = &pod.timeline.spans;
    let mut all: Vec<Option<Episode>> = Vec::with_capacity(spans.len());
    for span in spans {
        let around = span.parent.and_then(|p| all.get(p as usize)).cloned();
        let is_step = !span.is_stage() && (!span.is_run() || is_waited_for(pod, span));
        let episode = is_step.then(|| around.flatten().unwrap_or_else(|| of(spans, span)));
        all.push(episode);
    }
    all
}

fn is_waited_for(pod: &PodView, run: &Span) -> bool {
    let same = |name: &Text| *name == run.container;
    pod.containers
        .iter()
        .any(|c| c.init && !c.sidecar && same(&c.name))
}

fn of(spans: &[Span], span: &Span) -> Episode {
    if span.stage == Stage::Terminate {
        return Episode::Termination;
    }
    if span.container.is_empty() {
        return Episode::Start;
    }
    let is_ending =
        ENDINGS.contains(&span.step.as_str()) || span.step == "Relist" && saw_end(spans, span);
    match span.attempt.saturating_add(u32::from(is_ending)) {
        0 => Episode::Start,
        attempt => Episode::Restart {
            container: span.container.clone(),
            attempt,
        },
    }
}

/// True for a relist that ended after the container's attempt: the relist saw the attempt's end, not its start.
fn saw_end(spans: &[Span], relist: &Span) -> bool {
    let same =
        |s: &&Span| s.step == RUN && s.container == relist.container && s.attempt == relist.attempt;
    let over = |s: &Span| s.end.map(|e| e.at);
    spans
        .iter()
        .find(same)
        .and_then(over)
        .is_some_and(|ended| relist.end.is_none_or(|e| e.at >= ended))
}

/// Returns the end of an episode; `None` while it goes on. `done` is the last end of its spans but for garbage
/// collection, and `last` of all; `open` says whether one of them goes on.
pub(super) fn end(
    pod: &PodView,
    episode: &Episode,
    (done, last): (Option<Nanos>, Nanos),
    open: bool,
) -> Option<Nanos> {
    let gone = pod.gone;
    let last = done.unwrap_or(last);
    let t = &pod.timeline;
    // Where no API shows that the pod is gone, the runtime may show that nothing of it is left.
    let is_gone = gone.is_some() || pod.is_remnant();
    let is_over = is_gone || pod.phase.is_over();
    match episode {
        Episode::Start => {
            let told = t.stage(Stage::Ready).and_then(|s| s.end).map(|e| e.at);
            let ready = pod.became_ready.map(|e| told.unwrap_or(e.at));
            let given_up = || t.stage(Stage::Terminate).map(|s| s.start.at.max(last));
            ready.or_else(|| is_over.then_some(last)).or_else(given_up)
        }
        Episode::Restart { container, attempt } => {
            let started = starts(pod, container, *attempt).find_map(|s| s.end);
            started.map(|e| e.at).or_else(|| is_over.then_some(last))
        }
        Episode::Termination => {
            let at = gone.map_or(last, |gone| done.map_or(gone, |done| gone.max(done)));
            (is_gone && !open).then_some(at)
        }
    }
}

/// Returns the starts of an attempt of a container.
fn starts<'p>(
    pod: &'p PodView,
    container: &'p Text,
    attempt: u32,
) -> impl Iterator<Item = &'p Span> {
    pod.timeline.spans.iter().filter(move |s| {
        s.step == method::START_CONTAINER && s.container == *container && s.attempt == attempt
    })
}
