//! The runtime calls that stop and remove containers and sandboxes, and which of them end the pod.

use crate::correlate::derive::Build;
use crate::correlate::derive::cri::{nested, of_work};
use crate::correlate::derive::runtime_calls::RuntimeCall;
use crate::correlate::derive::span::event_edge;
use crate::flow::{Fact, Map, Stage};
use kflow_model::cri::method;
use kflow_model::stamp::SECOND;
use kflow_model::{Nanos, Text};

/// Adds StopContainer, StopPodSandbox and the removals by garbage collection.
pub(super) fn calls(b: &mut Build<'_>, asked: Option<Nanos>) {
    let ending = asked.or(b.view.gone);
    let ended = b
        .seen
        .states
        .iter()
        .find(|(_, p)| p.status.phase.is_over())
        .map(|(o, _)| o.stamp.at);
    let work = std::mem::take(&mut b.work);
    let mut stops: u32 = 0;
    // Of a pod that the API never showed, the runtime's data is all there is.
    let unknown = b.seen.states.is_empty();
    let restarts = Restarts::of(b);
    for (i, w) in work.iter().enumerate() {
        let stage = match w.method.as_str() {
            // A container that is stopped to be restarted does not end the pod.
            method::STOP_CONTAINER => {
                if restarts.are_why(w)
                    || work.iter().skip(i).any(|x| {
                        x.method == method::CREATE_CONTAINER
                            && x.container == w.container
                            && !w.container.is_empty()
                    })
                {
                    Stage::Start
                } else {
                    Stage::Terminate
                }
            }
            // Nor does a sandbox that is stopped to be recreated.
            method::STOP_POD_SANDBOX => {
                if work
                    .iter()
                    .skip(i)
                    .any(|x| x.method == method::RUN_POD_SANDBOX)
                {
                    Stage::Sandbox
                } else {
                    Stage::Terminate
                }
            }
            method::REMOVE_CONTAINER | method::REMOVE_POD_SANDBOX
                if ending.is_some_and(|e| w.start.at >= e)
                    || ended.is_some_and(|e| w.start.at >= e)
                    || unknown
                        && work
                            .iter()
                            .take(i)
                            .any(|x| x.method == method::STOP_POD_SANDBOX)
                        && !work
                            .iter()
                            .skip(i)
                            .any(|x| x.method == method::RUN_POD_SANDBOX) =>
            {
                Stage::Terminate
            }
            // Removal of earlier attempts, while the pod lives.
            method::REMOVE_CONTAINER => Stage::Start,
            method::REMOVE_POD_SANDBOX => Stage::Sandbox,
            _ => continue,
        };
        let mut s = of_work(stage, w);
        if w.method == method::STOP_POD_SANDBOX {
            s.attempt = s.attempt.max(stops);
            stops += 1;
        }
        let index = b.add(s);
        nested(b, index, w);
    }
    b.work = work;
}

/// Distinguishes containers that are stopped for a restart, after a failed probe or a change, from containers that
/// are stopped because the pod ends. The restart may never come: the pod may be deleted during the back-off.
struct Restarts {
    /// When the pod's worker began to terminate the pod.
    ending: Option<Nanos>,
    /// Containers that the kubelet announced to kill for a restart, and when: `[at, until)`.
    announced: Vec<(Text, Nanos, Nanos)>,
}

impl Restarts {
    /// Longest time between the announcement of a kill and the call, ns: the call follows at once.
    const SOON: i64 = SECOND;

    fn of(b: &Build<'_>) -> Self {
        let announced = b
            .seen
            .events_of(&["Killing"])
            .filter(|(_, e)| {
                let said = Map::active().event(&e.reason, &e.message);
                said.is_some_and(|s| s.name("next").is_some() || s.fact == Fact::PostStartKill)
            })
            .map(|(o, e)| {
                let edge = event_edge(o);
                let until = edge.at.plus(i64::from(edge.precision));
                (e.container.clone(), edge.at, until)
            })
            .collect();
        let ending = b
            .of(Stage::Terminate)
            .filter(|s| s.step == "SyncTerminatingPod")
            .map(|s| s.start.at)
            .min();
        Self { ending, announced }
    }

    fn are_why(&self, stop: &RuntimeCall) -> bool {
        self.ending.is_none_or(|e| stop.start.at < e)
            && self.announced.iter().any(|(c, at, until)| {
                *c == stop.container
                    && stop.start.at >= at.plus(-Self::SOON)
                    && stop.start.at < until.plus(Self::SOON)
            })
    }
}
