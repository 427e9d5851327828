//! Pods of plain lists (`kubectl get -o json`, a support bundle's lists). The selectors of such a list are unknown, so it
//! says nothing about pods that it lacks; but a pod that it shows was so when it was read.

use super::nodes::without_ready;
use super::{Asked, Reason, Unknown, lost_or_unseen, may_be_listed};
use crate::correlate::{BLINK, Pod, PodView, Presence, RunState, World};
use crate::diagnose::Verdict;
use crate::diagnose::finding::proof;
use crate::diagnose::history::{ContainerHistory, PodHistory};
use crate::diagnose::limits;
use crate::diagnose::rules::{Health, health};
use crate::diagnose::text::list;
use kflow_model::pod::{PodPhase, PodSeen, WatchEvent};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos, PodUid, Source};
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Reasons of signals after which a pod does not stay: its object may be older than they are.
const ENDING: [&str; 8] = [
    "DeadlineExceeded",
    "Evicted",
    "NodeLost",
    "NodeNotReady",
    "NodeShutdown",
    "Preempted",
    "Preempting",
    "TaintManagerEviction",
];

/// Returns the state in which a plain list shows the pod, if it is the newest one from the API. `None` where anything
/// is recorded of a list or watch that may show it: that says more of how they were, and until when.
fn listed<'a>(world: &World, pod: &'a PodView) -> Option<&'a Evidence> {
    let api = pod.api.as_deref()?;
    if api.event != WatchEvent::Listed || may_be_listed(world, pod) {
        return None;
    }
    let is_it =
        |o: &&Evidence| o.source == Source::Kube && matches!(&o.body, Body::Pod(p) if **p == *api);
    let all = pod.evidence.telling().filter(is_it);
    all.max_by_key(|o| o.stamp.seen)
}

/// Returns the state of a plain list that shows the pod as well, where nothing else says otherwise.
fn shown_well<'a>(world: &World, f: &PodHistory<'a>) -> Option<&'a Evidence> {
    let (pod, api) = (f.view, f.api?);
    let o = listed(world, pod)?;
    let goes = pod.gone.is_some()
        || pod.deletion_requested.is_some()
        || api.deletion.is_some()
        || health(f) != Health::Well;
    let stays = match api.status.phase {
        PodPhase::Succeeded => true,
        PodPhase::Running => is_ready(f) && !is_ending(f) && has_node(world, pod),
        _ => false,
    };
    (!goes && stays).then_some(o)
}

/// True when the pod is Ready, and so is each of its containers that should be.
fn is_ready(f: &PodHistory<'_>) -> bool {
    let mut to_run = f.view.containers.iter();
    f.is_ready() == Some(true)
        && to_run.all(|c| {
            let other = c.ephemeral || (c.init && !c.sidecar);
            other || (c.ready && c.state == RunState::Running)
        })
}

/// True when something says that the pod is about to end, or that the kubelet stops one of its containers.
fn is_ending(f: &PodHistory<'_>) -> bool {
    let stopped = |c: &ContainerHistory<'_>| c.killed_since_start().is_some();
    let since = f.well_since().unwrap_or_default();
    let disrupted = f.api.and_then(|p| p.condition("DisruptionTarget"));
    disrupted.is_some_and(kflow_model::pod::Condition::is_true)
        || f.containers.iter().any(stopped)
        || f.signals
            .iter()
            .any(|s| s.at >= since && ENDING.contains(&s.reason.as_ref()))
}

/// False when the pod's node is not Ready or does not exist. The control plane makes the pods of such a node not ready
/// only after a grace period.
fn has_node(world: &World, pod: &PodView) -> bool {
    let not_ready = world
        .node(&pod.node)
        .and_then(|n| n.api.as_deref()?.condition("Ready"))
        .is_some_and(|c| !c.is_true());
    !not_ready && !matches!(world.presence(&pod.node), Presence::Missing { .. })
}

/// Returns whether it can be said that a pod is well that a plain list shows so: not after the list was read, and not
/// when something was lost. `None` when no list shows the pod as well.
pub(super) fn known(
    asked: Asked<'_>,
    pod: &PodView,
    what: impl Fn() -> String,
) -> Option<Result<(), Unknown>> {
    asked.recorded?;
    listed(asked.world, pod)?;
    let f = PodHistory::gather(pod, asked.at);
    let stamp = shown_well(asked.world, &f)?.stamp;
    if let Some(lost) = lost_or_unseen(asked, what()) {
        return Some(Err(lost));
    }
    // As of a watch that broke, nothing is missed in so short a time.
    if asked.at.since(stamp.seen) <= BLINK {
        return Some(Ok(()));
    }
    Some(Err(Unknown {
        what: what(),
        reason: Reason::NotRecorded,
        why: format!(
            "the newest list that shows it was read at {}, and no watch tells what followed",
            exact(stamp.at)
        ),
        help: format!("ask as of then (--at {})", exact(stamp.seen)),
    }))
}

/// Says of a pod that a plain list shows in trouble, or about to be, that nothing tells why.
pub(super) fn unexplained(asked: Asked<'_>, pod: &PodView, what: String) -> Option<Unknown> {
    asked.recorded?;
    let read = listed(asked.world, pod)?.stamp.at;
    Some(unknown_why(asked.world, what, read, &[pod]))
}

/// Says of the pods that plain lists show in trouble, or about to be, and on which there is no verdict, that nothing
/// tells why; `None` without such pods.
pub fn all_unexplained(asked: Asked<'_>, verdicts: &[Arc<Verdict>]) -> Option<Unknown> {
    asked.recorded?;
    let told: FxHashSet<&PodUid> = verdicts.iter().map(|v| &v.uid).collect();
    let pods = asked.world.pods().iter();
    let mut left: Vec<(&Pod, Nanos)> = pods
        .filter(|p| p.gone.is_none() && !p.past && !told.contains(&p.uid))
        .filter_map(|p| Some((p, listed(asked.world, p)?.stamp.at)))
        .filter(|(p, _)| shown_well(asked.world, &PodHistory::gather(p, asked.at)).is_none())
        .collect();
    left.sort_by_key(|(p, _)| (&p.namespace, &p.name));
    let read = left.iter().map(|(_, read)| *read).max()?;
    let each = left
        .iter()
        .map(|(p, _)| format!("{} ({})", p.key(), p.status));
    let are = if left.len() == 1 { "is" } else { "are" };
    let what = format!("how {} {are}", list(&each.collect::<Vec<_>>()));
    let pods: Vec<&PodView> = left.iter().map(|(p, _)| -> &PodView { p }).collect();
    Some(unknown_why(asked.world, what, read, &pods))
}

/// `read`: when the list was read. Suggests to describe a node of these pods that is not Ready, or else the pod that is worst.
fn unknown_why(world: &World, what: String, read: Nanos, pods: &[&PodView]) -> Unknown {
    let mut why = format!(
        "the list that was read at {} does not say why, nor does anything else that was read",
        exact(read)
    );
    let lame: BTreeSet<&str> = pods
        .iter()
        .map(|p| p.node.as_str())
        .filter(|node| without_ready(world, node).is_some())
        .collect();
    let mut help = if let Some(first) = lame.first() {
        let names: Vec<&str> = lame.iter().copied().collect();
        let were = if names.len() == 1 { "node" } else { "nodes" };
        why.push_str(&format!("; not Ready: {were} {}", list(&names)));
        format!("add more: kubectl describe node {first}, or the log of its kubelet")
    } else {
        // Others may wait for one that is started again and again, or that runs and does not get ready.
        let worst = |p: &&&PodView| Reverse((p.restarts, p.phase == PodPhase::Running));
        let example = pods.iter().min_by_key(worst).map_or_else(String::new, |p| {
            format!("kubectl describe pod -n {} {}, or ", p.namespace, p.name)
        });
        format!("add more: {example}the log of its node's kubelet")
    };
    let newest = pods.iter().filter_map(|p| p.api.as_deref());
    let newest = newest.map(PodSeen::last_change).max();
    // What waits is told only some time after its last change.
    if newest.is_some_and(|at| read.since(at) < limits::MOVES.ns) {
        help.push_str("; the list's own newest time is taken for that at which it was read: `kflow import --taken TIME` takes another");
    }
    Unknown {
        what,
        reason: Reason::NotRecorded,
        why,
        help,
    }
}

/// Adds to the verdict on a pod that is well that this rests on a plain list.
pub(in crate::diagnose) fn resting(world: &World, f: &PodHistory<'_>, mut v: Verdict) -> Verdict {
    let Some(o) = shown_well(world, f) else {
        return v;
    };
    let shown = match f.view.phase {
        PodPhase::Succeeded => "as Succeeded",
        _ => "as Running and Ready",
    };
    let read = exact(o.stamp.at);
    v.sentence = format!(
        "{} The list that was read at {read} shows it {shown}.",
        v.sentence
    );
    v.evidence.push(proof(o));
    v
}

/// A moment in RFC 3339, with a fraction only where it has one.
fn exact(at: Nanos) -> String {
    if at.0.rem_euclid(SECOND) == 0 {
        at.to_rfc3339_seconds()
    } else {
        at.to_rfc3339()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::unknown;
    use kflow_model::event::EventSeen;
    use kflow_model::gap::{Gap, WatchKind, WatchNote};
    use kflow_model::node::NodeSeen;
    use kflow_model::pod::{Condition, ContainerSpec, ContainerState, ContainerStatus, PodSeen};
    use kflow_model::{Observation, Stamp, Text};
    use std::sync::Arc;

    /// When the list was read, in seconds; the pod has been ready since 100.
    const READ: i64 = 1000;

    fn at(s: i64, body: Body) -> Evidence {
        Arc::new(Observation {
            stamp: Stamp::exact(Nanos::from_secs(s)),
            source: Source::Kube,
            body,
        })
    }
    fn condition(kind: &str, status: &str) -> Condition {
        Condition {
            kind: kind.into(),
            status: status.into(),
            transition: Some(Nanos::from_secs(100)),
            ..Condition::default()
        }
    }
    fn container(name: &str) -> (ContainerSpec, ContainerStatus) {
        let spec = ContainerSpec {
            name: name.into(),
            ..ContainerSpec::default()
        };
        let status = ContainerStatus {
            name: name.into(),
            ready: true,
            state: ContainerState::Running {
                started: Some(Nanos::from_secs(90)),
            },
            ..ContainerStatus::default()
        };
        (spec, status)
    }
    fn ready() -> PodSeen {
        let (spec, status) = container("c");
        let mut pod = PodSeen {
            uid: "u".into(),
            namespace: "shop".into(),
            name: "web-0".into(),
            resource_version: 7,
            created: Nanos::from_secs(80),
            ..PodSeen::default()
        };
        pod.spec.node = "n1".into();
        pod.spec.containers = vec![spec];
        pod.status.phase = PodPhase::Running;
        pod.status.conditions = vec![condition("Ready", "True")];
        pod.status.containers = vec![status];
        pod
    }
    fn pod(change: impl FnOnce(&mut PodSeen)) -> Evidence {
        let mut pod = ready();
        change(&mut pod);
        at(READ, Body::Pod(Box::new(pod)))
    }
    fn node(ready: &str) -> Evidence {
        let node = NodeSeen {
            name: "n1".into(),
            conditions: vec![condition("Ready", ready)],
            ..NodeSeen::default()
        };
        at(READ, Body::Node(Box::new(node)))
    }
    fn event(s: i64, reason: &str, message: &str) -> Evidence {
        let mut event = EventSeen {
            reason: reason.into(),
            message: message.into(),
            ..EventSeen::default()
        };
        event.object.kind = "Pod".into();
        event.object.namespace = "shop".into();
        event.object.name = "web-0".into();
        event.object.uid = "u".into();
        event.container = "c".into();
        at(s, Body::Event(Box::new(event)))
    }
    fn note(s: i64, kind: WatchKind, scope: &str) -> Evidence {
        let note = WatchNote {
            resource: "pods".into(),
            kind,
            scope: scope.into(),
            detail: Text::default(),
            failure: None,
        };
        at(s, Body::Watch(Box::new(note)))
    }

    /// Returns whether the pod is known to be well `s` seconds after the list was read.
    fn after(s: i64, recorded: bool, all: &[Evidence]) -> Result<String, Unknown> {
        let mut world = World::new();
        for o in all {
            world.observe(o);
        }
        world.refresh();
        let at = Nanos::from_secs(READ + s);
        let asked = Asked {
            world: &world,
            at,
            scope: None,
            recorded: recorded.then_some(at),
        };
        let pod = world.pods().iter().find(|p| p.name == "web-0").unwrap();
        if let Some(u) = unknown::known(asked, pod) {
            return Err(u);
        }
        let verdict = crate::diagnose::why(&world, pod, at).unwrap();
        assert!(verdict.state.is_well(), "{verdict:?}");
        Ok(verdict.sentence)
    }
    fn well(all: &[Evidence]) -> Result<String, Unknown> {
        after(0, true, all)
    }

    #[test]
    fn what_a_plain_list_shows_as_well_is_well_when_it_was_read() {
        let shown = "The list that was read at 1970-01-01T00:16:40Z shows it as";
        let said = well(&[pod(|_| ())]).unwrap();
        assert_eq!(said, format!("The pod is well. {shown} Running and Ready."));
        let done = pod(|p| {
            p.status.phase = PodPhase::Succeeded;
            p.status.conditions = vec![condition("Ready", "False")];
        });
        let said = well(&[done]).unwrap();
        assert_eq!(said, format!("The pod has completed. {shown} Succeeded."));
        // Others of the lists, and what was before.
        for other in [
            node("True"),
            event(
                95,
                "Unhealthy",
                "Readiness probe failed: HTTP probe failed with statuscode: 503",
            ),
            event(60, "NodeNotReady", "Node is not ready"),
            event(50, "Killing", "Stopping container c"),
        ] {
            assert!(well(&[pod(|_| ()), other.clone()]).is_ok(), "{other:?}");
        }
    }

    #[test]
    fn it_says_nothing_of_later() {
        assert!(after(3, true, &[pod(|_| ())]).is_ok());
        let later = after(4, true, &[pod(|_| ())]).unwrap_err();
        assert_eq!(later.help, "ask as of then (--at 1970-01-01T00:16:40Z)");
        // What runs has watches: a state without one is none of a list.
        assert!(after(0, false, &[pod(|_| ())]).is_err());
        // A newer list shows it otherwise.
        let newer = |p: &mut PodSeen| {
            p.resource_version = 9;
            p.status.conditions = vec![condition("Ready", "False")];
        };
        let mut second = Observation::clone(&pod(newer));
        second.stamp = Stamp::exact(Nanos::from_secs(READ + 1));
        assert!(after(1, true, &[pod(|_| ()), Arc::new(second)]).is_err());
    }

    #[test]
    fn what_is_not_ready_or_about_to_end_is_not_well() {
        let waiting = ContainerState::Waiting {
            reason: "CrashLoopBackOff".into(),
            message: Text::default(),
        };
        let sidecar = |p: &mut PodSeen| {
            let (mut spec, mut status) = container("s");
            spec.sidecar = true;
            status.ready = false;
            p.spec.init_containers = vec![spec];
            p.status.init_containers = vec![status];
        };
        let changed: [(&str, Evidence); 10] = [
            (
                "unready",
                pod(|p| p.status.conditions = vec![condition("Ready", "False")]),
            ),
            ("no condition", pod(|p| p.status.conditions = Vec::new())),
            ("pending", pod(|p| p.status.phase = PodPhase::Pending)),
            ("unknown", pod(|p| p.status.phase = PodPhase::Unknown)),
            (
                "deleted",
                pod(|p| p.deletion = Some(Nanos::from_secs(READ + 20))),
            ),
            (
                "container unready",
                pod(|p| p.status.containers[0].ready = false),
            ),
            (
                "container waits",
                pod(|p| p.status.containers[0].state = waiting),
            ),
            ("sidecar unready", pod(sidecar)),
            ("watched", pod(|p| p.event = WatchEvent::Modified)),
            (
                "disrupted",
                pod(|p| {
                    p.status
                        .conditions
                        .push(condition("DisruptionTarget", "True"));
                }),
            ),
        ];
        for (what, o) in changed {
            assert!(is_not_well(&[o]), "{what}");
        }
        for o in [
            node("False"),
            node("Unknown"),
            event(READ - 5, "Killing", "Stopping container c"),
            event(READ - 5, "NodeNotReady", "Node is not ready"),
            event(
                READ - 5,
                "TaintManagerEviction",
                "Marking for deletion Pod shop/web-0",
            ),
            note(READ, WatchKind::Broken, ""),
            note(READ, WatchKind::ListBegin, ""),
            note(READ, WatchKind::Bookmark, ""),
            at(
                READ,
                Body::Gap(Box::new(Gap {
                    of: Source::Kube,
                    since: Nanos::from_secs(READ),
                    lost: 1,
                    resource: "pods".into(),
                    why: "cut".into(),
                    conn: 0,
                })),
            ),
        ] {
            assert!(is_not_well(&[pod(|_| ()), o.clone()]), "{o:?}");
        }
    }

    /// True when the pod is unknown, or has a verdict that is not well.
    fn is_not_well(all: &[Evidence]) -> bool {
        let mut world = World::new();
        for o in all {
            world.observe(o);
        }
        world.refresh();
        let at = Nanos::from_secs(READ);
        let pod = world.pods().iter().find(|p| p.name == "web-0").unwrap();
        let verdict = crate::diagnose::why(&world, pod, at);
        verdict.is_some_and(|v| !v.state.is_well()) || well(all).is_err()
    }
}
