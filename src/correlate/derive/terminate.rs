//! `terminate`: from the request to the last unmount, the cgroup's removal and the final delete.

use super::build::step;
use super::cri::{nested, of_work};
use super::facts::event_edge;
use super::volumes::{Said, said, volume_of};
use super::{Build, edge};
use crate::flow::Stage;
use crate::model::fs::{FsAction, FsObject};
use crate::model::stamp::SECOND;
use crate::model::{Nanos, Text};
use crate::timeline::{Certainty, Edge, Evidence, Outcome};

/// Adds `terminate`.
pub(crate) fn derive(b: &mut Build<'_>) {
    let asked = request(b);
    pairs(b);
    told(b);
    pre_stop(b, asked);
    calls(b, asked);
    unmounts(b);
    removals(b);
    final_delete(b);
    if b.of(Stage::Terminate).next().is_none()
        && let Some(at) = b.view.deletion_requested
        && let Some((o, p)) = b.facts.states.iter().find(|(_, p)| p.deletion.is_some())
    {
        // Asked for, and nobody saw more.
        let gone = b.view.gone.map(|at| Edge { at, precision: 1 });
        let mut s = step(
            Stage::Terminate,
            "Delete",
            Edge {
                at,
                precision: SECOND as u32,
            },
            gone,
            Certainty::Bounded,
            vec![(*o).clone()],
        );
        s.message = format!("grace {} s", p.deletion_grace_s.unwrap_or_default()).into();
        b.add(s);
    }
}

/// The deletion itself, as the apiserver was asked for it.
fn request(b: &mut Build<'_>) -> Option<Nanos> {
    let f = b.facts;
    for r in &f.requests {
        let eviction = r.a.resource == "pods/eviction";
        let delete = r.a.verb == "delete" && r.a.resource == "pods";
        // The kubelet's own comes last and is another step.
        if !(eviction || delete) || (delete && r.a.agent.starts_with("kubelet/")) {
            continue;
        }
        let mut s = step(
            Stage::Terminate,
            if eviction { "Evict" } else { "Delete" },
            r.received,
            r.complete,
            Certainty::Measured,
            r.evidence.clone(),
        );
        s.message.clone_from(&r.a.user);
        if r.a.code >= 400 {
            s.outcome = Outcome::Error;
            s.code = format!("{}", r.a.code).into();
            s.message.clone_from(&r.a.message);
        }
        b.add(s);
    }
    b.view.deletion_requested
}

/// From the request until the pod's worker turns to it: it may be busy with a call that nobody cancels.
fn told(b: &mut Build<'_>) {
    let f = b.facts;
    let Some(asked) = b.view.deletion_requested else {
        return;
    };
    // Nobody works on a pod that no node has.
    if b.view.node.is_empty() || !b.watched_at(asked) {
        return;
    }
    let Some(proof) = b
        .of(Stage::Terminate)
        .filter(|s| s.step == "Delete" || s.step == "Evict")
        .find_map(|s| s.evidence.first().cloned())
        .or_else(|| {
            f.states
                .iter()
                .find(|(_, p)| p.deletion.is_some())
                .map(|(o, _)| (*o).clone())
        })
    else {
        return;
    };
    let start = b
        .of(Stage::Terminate)
        .filter(|s| s.step == "Delete" && s.start.at == asked)
        .find_map(|s| s.end)
        .unwrap_or(Edge {
            at: asked,
            precision: if f.requests.is_empty() {
                SECOND as u32
            } else {
                1_000
            },
        });
    let turned = b
        .of(Stage::Terminate)
        .filter(|s| s.step == "SyncTerminatingPod")
        .map(|s| (s.start, s.evidence.first().cloned()))
        .chain(
            b.work
                .iter()
                .filter(|w| matches!(w.method.as_str(), "StopContainer" | "StopPodSandbox"))
                .map(|w| (w.start, w.evidence.first().cloned())),
        )
        // The worker may turn to it before the request is answered.
        .filter(|(e, _)| e.at >= asked)
        .min_by_key(|(e, _)| *e);
    let start = turned.as_ref().map_or(start, |(e, _)| start.min(*e));
    // Nothing to stop: the pod was over before, or never began.
    let over = f.states.iter().any(|(o, p)| {
        o.stamp.at <= start.at && matches!(p.status.phase.as_str(), "Succeeded" | "Failed")
    });
    if turned.is_none()
        && (over || b.view.gone.is_some() || !b.started_by_api() && b.work.is_empty())
    {
        return;
    }
    let mut evidence = vec![proof];
    let end = turned.as_ref().map(|(e, _)| *e);
    evidence.extend(turned.and_then(|(_, o)| o));
    b.add(step(
        Stage::Terminate,
        "UpdatePod",
        start,
        end,
        Certainty::Inferred,
        evidence,
    ));
}

/// `SyncTerminatingPod` and `SyncTerminatedPod`: the worker's lines, else its spans.
fn pairs(b: &mut Build<'_>) {
    let f = b.facts;
    for (name, span_name, enter, exit) in [
        (
            "SyncTerminatingPod",
            "syncTerminatingPod",
            "SyncTerminatingPod enter",
            "SyncTerminatingPod exit",
        ),
        (
            "SyncTerminatedPod",
            "syncTerminatedPod",
            "SyncTerminatedPod enter",
            "SyncTerminatedPod exit",
        ),
    ] {
        let spans: Vec<_> = f
            .spans
            .iter()
            .filter(|(_, s)| s.name == span_name)
            .collect();
        let mut attempt = 0;
        for (o, s) in &spans {
            let mut evidence = vec![(*o).clone()];
            evidence.extend(
                f.lines(&[enter, exit])
                    .filter(|(l, _)| {
                        l.stamp.at.plus(SECOND / 100) >= o.stamp.at
                            && l.stamp.at <= s.end.plus(SECOND / 100)
                    })
                    .map(|(l, _)| l.clone()),
            );
            let mut span = step(
                Stage::Terminate,
                name,
                edge(o),
                Some(Edge {
                    at: s.end,
                    precision: 1,
                }),
                Certainty::Measured,
                evidence,
            );
            span.attempt = attempt;
            if s.error {
                span.outcome = Outcome::Error;
                span.message.clone_from(&s.message);
            }
            attempt += 1;
            b.add(span);
        }
        let lines: Vec<_> = f.lines(&[enter, exit]).collect();
        for (i, (o, l)) in lines.iter().enumerate() {
            if l.message != enter
                || spans
                    .iter()
                    .any(|(x, _)| x.stamp.at.since(o.stamp.at).abs() < SECOND / 50)
            {
                continue;
            }
            let end = lines.get(i + 1).filter(|(_, n)| n.message == exit);
            // A span comes only when it ends, so what is open is known by its line alone.
            let mut evidence = vec![(*o).clone()];
            evidence.extend(end.map(|(o, _)| (*o).clone()));
            let mut s = step(
                Stage::Terminate,
                name,
                edge(o),
                end.map(|(o, _)| edge(o)),
                Certainty::Measured,
                evidence,
            );
            s.attempt = attempt;
            attempt += 1;
            b.add(s);
        }
    }
}

/// preStop hooks: the kubelet's lines, else commands without a deadline.
fn pre_stop(b: &mut Build<'_>, asked: Option<Nanos>) {
    const BEGIN: &str = "Running preStop hook";
    const ENDS: [&str; 2] = [
        "PreStop hook completed",
        "PreStop hook not completed in grace period",
    ];
    let f = b.facts;
    let mut by_log = false;
    for (o, l) in f.lines(&[BEGIN]) {
        by_log = true;
        let end = f
            .lines(&ENDS)
            .find(|(e, x)| e.stamp.at >= o.stamp.at && x.container == l.container);
        let mut evidence = vec![o.clone()];
        evidence.extend(end.map(|(o, _)| o.clone()));
        let exec = b.work.iter().find(|w| {
            w.method == "ExecSync"
                && w.deadline_ns.is_none()
                && w.container_id == l.container_id.0
                && w.start.at >= o.stamp.at
        });
        let mut s = step(
            Stage::Terminate,
            "PreStopHook",
            edge(o),
            end.map(|(o, _)| edge(o)),
            Certainty::Measured,
            evidence,
        );
        if let Some(w) = exec {
            s.call = w.key;
            s.evidence.extend(w.evidence.iter().cloned());
            if end.is_none() {
                s.end = w.end;
                s.outcome = w.outcome;
            }
            s.code.clone_from(&w.code);
            s.message.clone_from(&w.message);
        }
        s.container.clone_from(&l.container);
        if end.is_some_and(|(_, l)| l.message != ENDS[0]) {
            s.outcome = Outcome::Cancelled;
            s.message = "not completed in the grace period".into();
        }
        b.add(s);
    }
    if by_log {
        return;
    }
    let Some(asked) = asked else { return };
    let hooks: Vec<_> = b
        .work
        .iter()
        .filter(|w| {
            w.method == "ExecSync"
                && w.key.is_some()
                && w.deadline_ns.is_none()
                && w.start.at >= asked
        })
        .cloned()
        .collect();
    for w in &hooks {
        let mut s = of_work(Stage::Terminate, w);
        s.step = "PreStopHook".into();
        b.add(s);
    }
}

/// StopContainer, StopPodSandbox, and what garbage collection removes.
fn calls(b: &mut Build<'_>, asked: Option<Nanos>) {
    let ending = asked.or(b.view.gone);
    let ended = b
        .facts
        .states
        .iter()
        .find(|(_, p)| matches!(p.status.phase.as_str(), "Succeeded" | "Failed"))
        .map(|(o, _)| o.stamp.at);
    let work = std::mem::take(&mut b.work);
    let mut stops: u32 = 0;
    // Of a pod that the API does not know, the runtime's word is all there is.
    let unknown = b.facts.states.is_empty();
    let restarts = Restarts::of(b);
    for (i, w) in work.iter().enumerate() {
        let stage = match w.method.as_str() {
            // A container that is stopped to be started again is no end of the pod.
            "StopContainer" => {
                if restarts.are_why(w)
                    || work.iter().skip(i).any(|x| {
                        x.method == "CreateContainer"
                            && x.container == w.container
                            && !w.container.is_empty()
                    })
                {
                    Stage::Start
                } else {
                    Stage::Terminate
                }
            }
            // So is a sandbox that is stopped to be made anew.
            "StopPodSandbox" => {
                if work.iter().skip(i).any(|x| x.method == "RunPodSandbox") {
                    Stage::Sandbox
                } else {
                    Stage::Terminate
                }
            }
            "RemoveContainer" | "RemovePodSandbox"
                if ending.is_some_and(|e| w.start.at >= e)
                    || ended.is_some_and(|e| w.start.at >= e)
                    || unknown
                        && work.iter().take(i).any(|x| x.method == "StopPodSandbox")
                        && !work.iter().skip(i).any(|x| x.method == "RunPodSandbox") =>
            {
                Stage::Terminate
            }
            // Garbage of former attempts, while the pod lives.
            "RemoveContainer" => Stage::Start,
            "RemovePodSandbox" => Stage::Sandbox,
            _ => continue,
        };
        let mut s = of_work(stage, w);
        if w.method == "StopPodSandbox" {
            s.attempt = s.attempt.max(stops);
            stops += 1;
        }
        let index = b.add(s);
        nested(b, index, w);
    }
    b.work = work;
}

/// What tells a container that is stopped to be started again, after a failed probe or a change, from one that is
/// stopped because the pod ends. It may never be started: the pod may be deleted while it backs off.
struct Restarts {
    /// When the pod's worker began to end the pod.
    ending: Option<Nanos>,
    /// Containers, and when they were said to be killed for a restart: `[at, until)`.
    announced: Vec<(Text, Nanos, Nanos)>,
}

impl Restarts {
    /// The kubelet announces a kill, then makes the call at once.
    const SOON: i64 = SECOND;

    fn of(b: &Build<'_>) -> Self {
        let announced = b
            .facts
            .events_of(&["Killing"])
            .filter(|(_, e)| e.message.ends_with("will be restarted"))
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

    fn are_why(&self, stop: &super::work::Work) -> bool {
        self.ending.is_none_or(|e| stop.start.at < e)
            && self.announced.iter().any(|(c, at, until)| {
                *c == stop.container
                    && stop.start.at >= at.plus(-Self::SOON)
                    && stop.start.at < until.plus(Self::SOON)
            })
    }
}

/// Each volume's teardown.
fn unmounts(b: &mut Build<'_>) {
    let f = b.facts;
    let mut begun: Vec<(Text, Evidence)> = Vec::new();
    let mut by_log = false;
    for (o, l) in &f.logs {
        let Some(what) = said(l) else { continue };
        let name = match what {
            Said::UnmountStarted => volume_of(&l.message),
            Said::TornDown => volume_of(&l.message),
            _ => None,
        };
        let Some(name) = name else { continue };
        // These lines bear the unique name, `kubernetes.io/configmap/<uid>-cfg`; the pod's own follows the UID.
        let name = name
            .split_once(b.input.uid.as_str())
            .and_then(|(_, rest)| rest.strip_prefix('-'))
            .or_else(|| inner_name(&l.message))
            .unwrap_or(name);
        by_log = true;
        if what == Said::UnmountStarted {
            if !begun.iter().any(|(n, _)| n == name) {
                begun.push((name.into(), (*o).clone()));
            }
            continue;
        }
        let start = begun
            .iter()
            .position(|(n, _)| n == name)
            .map(|i| begun.swap_remove(i).1);
        let mut evidence = vec![(*o).clone()];
        let from = start.as_ref().map_or_else(|| edge(o), edge);
        let certainty = if start.is_some() {
            Certainty::Measured
        } else {
            Certainty::Inferred
        };
        evidence.extend(start);
        let mut s = step(
            Stage::Terminate,
            "UnmountVolume.TearDown",
            from.min(edge(o)),
            Some(edge(o)),
            certainty,
            evidence,
        );
        s.message = format!("volume {name}").into();
        b.add(s);
    }
    for (name, o) in begun {
        let mut s = step(
            Stage::Terminate,
            "UnmountVolume.TearDown",
            edge(&o),
            None,
            Certainty::Inferred,
            vec![o.clone()],
        );
        s.message = format!("volume {name}").into();
        b.add(s);
    }
    if by_log {
        return;
    }
    for (o, a, x) in &f.fs {
        if *a == FsAction::Removed
            && let FsObject::Volume { volume, inner, .. } = x
            && !volume.is_empty()
            && inner.is_empty()
        {
            let mut s = step(
                Stage::Terminate,
                "UnmountVolume.TearDown",
                edge(o),
                Some(edge(o)),
                Certainty::Inferred,
                vec![(*o).clone()],
            );
            s.message = format!("volume {volume}").into();
            b.add(s);
        }
    }
}

fn inner_name(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("InnerVolumeSpecName \"")?;
    rest.split_once('"').map(|(name, _)| name)
}

/// The cgroup and the directory go.
fn removals(b: &mut Build<'_>) {
    let f = b.facts;
    let removed =
        f.fs.iter()
            .rfind(|(_, a, x)| *a == FsAction::Removed && matches!(x, FsObject::PodCgroup { .. }));
    let line = f.line(&["Pod termination removed cgroups"]);
    if removed.is_some() || line.is_some() {
        let before = f
            .lines(&[
                "Pod termination cleaned up volume paths",
                "Pod termination unmounted volumes",
            ])
            .next_back();
        let ends: Vec<(Edge, Evidence)> = removed
            .map(|(o, _, _)| (edge(o), (*o).clone()))
            .into_iter()
            .chain(line.map(|(o, _)| (edge(o), o.clone())))
            .collect();
        if let Some((end, _)) = ends.first().cloned() {
            let mut evidence: Vec<Evidence> = ends.into_iter().map(|(_, o)| o).collect();
            let start = before
                .filter(|(o, _)| o.stamp.at <= end.at)
                .map_or(end, |(o, _)| {
                    evidence.push(o.clone());
                    edge(o)
                });
            b.add(step(
                Stage::Terminate,
                "Destroy",
                start,
                Some(end),
                Certainty::Inferred,
                evidence,
            ));
        }
    }
    if let Some((o, _, _)) =
        f.fs.iter()
            .rfind(|(_, a, x)| *a == FsAction::Removed && matches!(x, FsObject::PodDir { .. }))
    {
        let found = f.line(&["Orphaned pod found, removing"]).map(|(o, _)| o);
        let mut evidence = vec![(*o).clone()];
        let mut start = edge(o);
        if let Some(l) = found
            && l.stamp.at <= o.stamp.at
        {
            start = edge(l);
            evidence.push(l.clone());
        }
        b.add(step(
            Stage::Terminate,
            "cleanupOrphanedPodDirs",
            start,
            Some(edge(o)),
            Certainty::Inferred,
            evidence,
        ));
    }
}

/// The kubelet deletes the object, with grace 0, when nothing of the pod is left.
fn final_delete(b: &mut Build<'_>) {
    let f = b.facts;
    let last = f.requests.iter().rfind(|r| {
        r.a.verb == "delete" && r.a.resource == "pods" && r.a.agent.starts_with("kubelet/")
    });
    if let Some(r) = last {
        let mut s = step(
            Stage::Terminate,
            "syncPod.delete",
            r.received,
            r.complete,
            Certainty::Measured,
            r.evidence.clone(),
        );
        if r.a.code >= 400 {
            s.outcome = Outcome::Error;
            s.code = format!("{}", r.a.code).into();
            s.message.clone_from(&r.a.message);
        }
        b.add(s);
    }
    // Finalizers hold an object whose pod is long gone.
    let Some(p) = f.newest() else { return };
    if p.finalizers.is_empty() || p.deletion.is_none() {
        return;
    }
    let stopped = b.ends(Stage::Terminate).or_else(|| {
        b.view
            .deletion_requested
            .map(|at| Edge { at, precision: 1 })
    });
    let Some(start) = stopped else { return };
    let Some(o) = f.states.last().map(|(o, _)| (*o).clone()) else {
        return;
    };
    let mut s = step(
        Stage::Terminate,
        "finalizers",
        start,
        b.view.gone.map(|at| Edge { at, precision: 1 }),
        Certainty::Inferred,
        vec![o],
    );
    s.message = p.finalizers.join(", ").into();
    b.add(s);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inner_name_of_a_torn_down_volume_is_the_pods() {
        assert_eq!(
            inner_name(
                "UnmountVolume.TearDown succeeded for volume \"kubernetes.io/empty-dir/4ac3c3e9-1ad8-496b-869a-7687fcb13acf-mem\" pod \"4ac3c3e9-1ad8-496b-869a-7687fcb13acf\" (UID: \"4ac3c3e9-1ad8-496b-869a-7687fcb13acf\"). InnerVolumeSpecName \"mem\". PluginName \"kubernetes.io/empty-dir\", VolumeGIDValue \"\""
            ),
            Some("mem")
        );
    }
}
