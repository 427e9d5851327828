//! Marks: events at a moment, as opposed to spans.

use super::Build;
use super::span::edge;
use super::start::STATUS_NS;
use crate::flow::{Fact, Map, Stage, event};
use crate::timeline::{Mark, MarkKind, Outcome};
use kflow_model::cri::{ContainerEventKind, method};
use kflow_model::pod::PodPhase;
use kflow_model::{
    Body, ContainerId, Evidence, Nanos, Text,
    event::{AUTOSCALER_REASONS, EventSeen, SCHEDULER_REASONS},
    stamp::SECOND,
    units::seconds,
};

/// The stage that an Event belongs to.
pub(crate) fn stage_of_event(e: &EventSeen) -> Stage {
    let said = event(&e.reason, &e.message);
    match e.reason.as_str() {
        "BindingConditionsPending" => Stage::Schedule,
        reason if SCHEDULER_REASONS.contains(&reason) || AUTOSCALER_REASONS.contains(&reason) => {
            Stage::Schedule
        }
        "SuccessfulCreate" | "FailedCreate" => Stage::Api,
        "FailedMount"
        | "FailedAttachVolume"
        | "SuccessfulAttachVolume"
        | "FailedMapVolume"
        | "SuccessfulMountVolume"
        | "VolumePermissionChangeInProgress" => Stage::Volumes,
        "FailedCreatePodContainer" => Stage::Cgroup,
        "FailedCreatePodSandBox"
        | "SandboxChanged"
        | "NetworkNotReady"
        | "FailedPodSandBoxStatus" => Stage::Sandbox,
        "Pulling"
        | "Pulled"
        | "ErrImageNeverPull"
        | "InspectFailed"
        | "FailedToRetrieveImagePullSecret" => Stage::Image,
        "BackOff" if said == Some(Fact::PullBackedOff) => Stage::Image,
        "Failed"
            if said == Some(Fact::PullFailed)
                || e.message.ends_with("ErrImagePull")
                || e.message.ends_with("ImagePullBackOff")
                || e.message.ends_with("InvalidImageName")
                || e.message.ends_with("ErrImageNeverPull") =>
        {
            Stage::Image
        }
        "Created" => Stage::Create,
        "Failed" => Stage::Create,
        "Started" | "BackOff" | "FailedPostStartHook" => Stage::Start,
        "Unhealthy" | "ProbeWarning" | "ResizeStarted" | "ResizeCompleted" | "ResizeError"
        | "ResizeDeferred" | "ResizeInfeasible" => Stage::Ready,
        "Killing" if said != Some(Fact::StopKill) => Stage::Ready,
        "Killing"
        | "FailedPreStopHook"
        | "FailedKillPod"
        | "Evicted"
        | "DeadlineExceeded"
        | "ExceededGracePeriod"
        | "TaintManagerEviction"
        | "SuccessfulDelete"
        | "NodeNotReady"
        | "NodeControllerEviction"
        | "Preempting" => Stage::Terminate,
        _ => Stage::Admit,
    }
}

/// Adds all marks.
pub(crate) fn derive(b: &mut Build<'_>) {
    events(b);
    preemptions(b);
    conditions(b);
    restarts(b);
    runtime(b);
    requests(b);
    due(b);
    probes(b);
}

fn events(b: &mut Build<'_>) {
    for (o, e) in &b.seen.events {
        // The Event has only the preemptor's UID; the scheduler's log line has its name.
        let by = b.seen.preemptions.iter().find(|(_, l)| {
            e.reason == "Preempted"
                && l.more_pods
                    .iter()
                    .any(|v| v.name == e.object.name && v.namespace == e.object.namespace)
        });
        let named = by.map_or(String::new(), |(_, l)| {
            format!(" ({}/{})", l.pod.namespace, l.pod.name)
        });
        b.marks.push(Mark {
            at: b.seen.api_edge_of(o),
            kind: MarkKind::Event,
            stage: stage_of_event(e),
            container: e.container.clone(),
            text: Text::from(format!("{}: {}{named}", e.reason, e.message)),
            bad: e.warning,
            count: e.count.max(1),
            evidence: (*o).clone(),
        });
    }
}

/// Adds the pods that this pod preempts, from their Events, else from the scheduler's log.
fn preemptions(b: &mut Build<'_>) {
    let f = b.seen;
    let told = f.of_others.iter().filter_map(|(o, e)| {
        (e.reason == "Preempted").then_some(())?;
        let said = Map::active().event(&e.reason, &e.message);
        let node = said.and_then(|s| s.name("node"));
        Some((*o, &e.object.namespace, &e.object.name, node))
    });
    let logged = f.preemptions.iter().flat_map(|(o, l)| {
        l.more_pods
            .iter()
            .filter(|v| v.name != b.view.name || v.namespace != b.view.namespace)
            .map(|v| (*o, &v.namespace, &v.name, l.field("node")))
    });
    let mut known: Vec<(&Text, &Text)> = Vec::new();
    for (o, namespace, name, node) in told.chain(logged) {
        if known.contains(&(namespace, name)) {
            continue;
        }
        known.push((namespace, name));
        let place = node.map_or(String::new(), |n| format!(" on node {n}"));
        b.marks.push(Mark {
            at: f.api_edge(o.stamp.at, o.stamp.precision),
            kind: MarkKind::Event,
            stage: Stage::Schedule,
            container: Text::default(),
            text: format!("Preempting {namespace}/{name}{place}: its room is for this pod").into(),
            bad: false,
            count: 1,
            evidence: o.clone(),
        });
    }
}

/// Adds changes of conditions and of the phase, at the arrival of the state that shows them, which is more precise than
/// `lastTransitionTime`. A state that arrives later than the kubelet sends any was listed: its own time counts.
fn conditions(b: &mut Build<'_>) {
    let mut known: Vec<(Text, Text)> = Vec::new();
    let mut turned = |kind: &Text, status: &Text| {
        if let Some((_, s)) = known.iter_mut().find(|(k, _)| k == kind) {
            if s == status {
                return false;
            }
            s.clone_from(status);
        } else {
            known.push((kind.clone(), status.clone()));
        }
        true
    };
    let mut marks = Vec::new();
    for (o, p) in &b.seen.states {
        let mut mark = |at, kind, stage, text: String, bad| {
            marks.push(Mark {
                at,
                kind,
                stage,
                container: Text::default(),
                text: text.into(),
                bad,
                count: 1,
                evidence: (*o).clone(),
            });
        };
        if turned(&"phase".into(), &p.status.phase.clone().into()) && !p.status.phase.is_unset() {
            let reason = if p.status.reason.is_empty() {
                String::new()
            } else {
                format!(" ({})", p.status.reason)
            };
            mark(
                edge(o),
                MarkKind::Status,
                Stage::Api,
                format!("phase {}{reason}", p.status.phase),
                p.status.phase == PodPhase::Failed,
            );
        }
        for c in &p.status.conditions {
            if !turned(&c.kind, &c.status) {
                continue;
            }
            let stage = match c.kind.as_str() {
                "PodScheduled" => Stage::Schedule,
                "PodReadyToStartContainers" => Stage::Sandbox,
                "Initialized" => Stage::Start,
                "DisruptionTarget" => Stage::Terminate,
                _ => Stage::Ready,
            };
            let reason = if c.reason.is_empty() {
                String::new()
            } else {
                format!(" ({})", c.reason)
            };
            let turned = c.transition.map(|at| b.seen.api_edge(at, SECOND as u32));
            let late = turned.filter(|t| o.stamp.at.since(t.at) > STATUS_NS);
            mark(
                late.unwrap_or_else(|| edge(o)),
                MarkKind::Condition,
                stage,
                format!("{}={}{reason}", c.kind, c.status),
                false,
            );
        }
    }
    b.marks.extend(marks);
}

fn restarts(b: &mut Build<'_>) {
    for r in &b.runs {
        let (Some(at), Some(o)) = (r.end, r.evidence.last()) else {
            continue;
        };
        let code = r.exit_code.map_or(String::new(), |c| format!(" with {c}"));
        let reason = if r.reason.is_empty() {
            String::new()
        } else {
            format!(" ({})", r.reason)
        };
        b.marks.push(Mark {
            at,
            kind: MarkKind::Restart,
            stage: Stage::Start,
            container: r.container.clone(),
            text: format!("exited{code}{reason}").into(),
            bad: r.exit_code.is_some_and(|c| c != 0),
            count: 1,
            evidence: o.clone(),
        });
    }
}

/// Adds the runtime's events: OOM kills, root file systems, tasks.
fn runtime(b: &mut Build<'_>) {
    let f = b.seen;
    let name = |id: &ContainerId| {
        let run = b.runs.iter().find(|r| r.id == id.0);
        run.map(|r| r.container.clone()).unwrap_or_default()
    };
    let mut marks = Vec::new();
    let mut mark = |o: &Evidence, stage, id: &ContainerId, text: String, bad| {
        marks.push(Mark {
            at: edge(o),
            kind: MarkKind::Runtime,
            stage,
            container: name(id),
            text: text.into(),
            bad,
            count: 1,
            evidence: o.clone(),
        });
    };
    for (o, e) in &f.container_events {
        if e.kind == ContainerEventKind::Oom {
            let text = "OOM kill: the kernel killed a process of the container for lack of memory";
            mark(o, Stage::Start, &e.subject.container_id, text.into(), true);
        }
    }
    for (o, e) in &f.runtime_events {
        let id = &e.container_id;
        let with = |name: &str| {
            let value = e.field(name).unwrap_or_default();
            if value.is_empty() {
                String::new()
            } else {
                format!(" ({name} {value})")
            }
        };
        let (stage, text) = match e.topic.as_str() {
            "/snapshot/prepare" => (
                Stage::Create,
                format!("root file system prepared{}", with("snapshotter")),
            ),
            "/tasks/create" => (Stage::Start, format!("task created{}", with("pid"))),
            "/tasks/delete" => (Stage::Start, "task deleted".to_owned()),
            "/snapshot/remove" => (Stage::Terminate, "root file system removed".to_owned()),
            _ => continue,
        };
        mark(o, stage, id, text, false);
    }
    b.marks.append(&mut marks);
}

/// Adds the API requests about the pod that are not steps of their own.
fn requests(b: &mut Build<'_>) {
    for r in &b.seen.requests {
        let step = r.a.resource == "pods/binding"
            || r.a.resource == "pods"
                && matches!(r.a.verb.as_str(), "create" | "delete")
                && !r.came_too_late(b.view.gone);
        let Some(o) = r.evidence.first() else {
            continue;
        };
        if step {
            continue;
        }
        let stage = match r.a.resource.as_str() {
            "pods/eviction" => Stage::Terminate,
            "pods/status" if r.a.agent.starts_with("kube-scheduler") => Stage::Schedule,
            _ => Stage::Ready,
        };
        let code = if r.a.code == 0 {
            String::new()
        } else {
            format!(" {}", r.a.code)
        };
        b.marks.push(Mark {
            at: r.complete.unwrap_or(r.received),
            kind: MarkKind::Request,
            stage,
            container: Text::default(),
            text: format!("{} {}{code} by {}", r.a.verb, r.a.resource, r.a.user).into(),
            bad: r.a.code >= 400,
            count: 1,
            evidence: o.clone(),
        });
    }
}

/// Adds the time by which a deleted pod should be gone: `deletionTimestamp`, which is the request's time plus the
/// grace period. A further request with less grace makes it earlier. The final deletion of a pod that has ended has
/// no grace, so no mark.
fn due(b: &mut Build<'_>) {
    let f = b.seen;
    let told = f.states.iter().filter_map(|(o, p)| {
        let at = p.deletion.filter(|_| p.mirror_of.is_none())?;
        Some((at, p.deletion_grace_s?, *o))
    });
    // Without a watch, the response to the request has the time. For a mirror pod it says nothing about the static pod.
    let answered = f.requests.iter().filter_map(|r| {
        let asked = r.a.resource == "pods" && r.a.verb == "delete" && r.a.code < 300;
        let (at, _) = Nanos::parse_rfc3339(r.a.fact("deletionTimestamp").filter(|_| asked)?)?;
        let grace = r.a.fact("gracePeriodSeconds")?.parse().ok()?;
        Some((at, grace, r.evidence.first()?))
    });
    let mut due: Vec<(Nanos, i64, &Evidence)> = told.collect();
    if due.is_empty() && b.view.mirrors.is_empty() {
        due = answered.collect();
    }
    due.retain(|(_, grace, _)| *grace > 0);
    due.dedup_by_key(|(at, grace, _)| (*at, *grace));
    for (at, grace, o) in due {
        b.marks.push(Mark {
            at: f.api_edge(at, SECOND as u32),
            kind: MarkKind::Due,
            stage: Stage::Terminate,
            container: Text::default(),
            text: format!("deletion due, {} after it was asked for", seconds(grace)).into(),
            bad: false,
            count: 1,
            evidence: o.clone(),
        });
    }
}

/// Adds exec probes, one mark for as long as the result stays the same.
fn probes(b: &mut Build<'_>) {
    let mut last: Vec<(Text, bool, usize)> = Vec::new();
    let mut marks: Vec<Mark> = Vec::new();
    for w in &b.work {
        // Hooks have no deadline; a running command has no result.
        if w.method != method::EXEC_SYNC
            || w.deadline_ns.is_none()
            || w.outcome == Outcome::InFlight
        {
            continue;
        }
        let Some(o) = w.evidence.first() else {
            continue;
        };
        let exit = w
            .evidence
            .iter()
            .find_map(|e| match &e.body {
                Body::CallEnd(c) => c
                    .fields
                    .iter()
                    .find(|(k, _)| k == "exit_code")
                    .map(|(_, v)| v.clone()),
                _ => None,
            })
            .unwrap_or_default();
        let bad = !w.ok() || !(exit.is_empty() || exit == "0");
        if let Some((_, was, i)) = last.iter_mut().find(|(c, _, _)| *c == w.container) {
            if *was == bad {
                if let Some(m) = marks.get_mut(*i) {
                    m.count += 1;
                }
                continue;
            }
            *was = bad;
            *i = marks.len();
        } else {
            last.push((w.container.clone(), bad, marks.len()));
        }
        let text = if !w.ok() {
            format!("exec probe: {} {}", w.code, w.message)
        } else if bad {
            format!("exec probe: exit code {exit}")
        } else {
            "exec probe passes".into()
        };
        marks.push(Mark {
            at: w.end.unwrap_or(w.start),
            kind: MarkKind::Probe,
            stage: Stage::Ready,
            container: w.container.clone(),
            text: text.into(),
            bad,
            count: 1,
            evidence: o.clone(),
        });
    }
    b.marks.append(&mut marks);
}
