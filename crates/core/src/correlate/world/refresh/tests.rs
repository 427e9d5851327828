//! Which evidence a run that never ends keeps.

use super::*;
use crate::correlate::Presence;
use crate::timeline::MarkKind;
use kflow_model::Evidence;
use kflow_model::stamp::SECOND;
use kflow_model::{
    ObjectRef, Observation, PodNames, PodRef, Source, Stamp,
    audit::{AuditRecord, AuditStage},
    event::EventSeen,
    gap::{WatchKind, WatchNote},
    log::{Component, LogLine, Severity},
    node::NodeSeen,
    pod::PodSeen,
};

fn seen(at: i64, source: Source, body: Body) -> Evidence {
    Arc::new(Observation {
        stamp: Stamp::exact(Nanos(at)),
        source,
        body,
    })
}

fn log(message: &str, uid: &str, container_id: &str) -> Body {
    Body::Log(Box::new(LogLine {
        pod: PodRef::from(PodNames {
            uid: uid.into(),
            namespace: "ns".into(),
            name: "web-0".into(),
        }),
        container_id: container_id.into(),
        ..LogLine::new(Component::Kubelet, Severity::Info, message)
    }))
}

fn pod(at: i64, uid: &str) -> Evidence {
    let pod = PodSeen {
        uid: uid.into(),
        namespace: "ns".into(),
        name: "web-0".into(),
        created: Nanos(at),
        resource_version: 1,
        ..PodSeen::default()
    };
    seen(at, Source::Kube, Body::Pod(Box::new(pod)))
}

/// A log line of the kubelet; with an empty `uid` it names the pod only.
fn line(at: i64, uid: &str) -> Evidence {
    seen(at, Source::Kubelet, log("Probe failed", uid, ""))
}

#[test]
fn of_evidence_that_never_ends_the_first_and_the_newest_stay_and_the_rest_is_a_gap() {
    const SECOND: i64 = 1_000_000_000;
    let lines = 5 * KEEP as i64;
    for uid in ["", "a"] {
        let mut w = World::new();
        w.observe(&pod(SECOND, "a"));
        for n in 0..lines {
            w.observe(&line((n + 2) * SECOND, uid));
            if n % 5_000 == 0 {
                w.refresh();
            }
        }
        w.refresh();
        let p = w.pod(&"a".into()).expect("the pod");
        assert!(p.evidence.len() <= 2 * KEEP + 1, "{}", p.evidence.len());
        let told = p.evidence.len() as u64 + w.unfiled().folded;
        assert_eq!(told, lines as u64 + 1, "nothing goes uncounted");
        let times: Vec<i64> = p.evidence.iter().map(|o| o.stamp.at.0).collect();
        assert_eq!(times.first(), Some(&SECOND));
        assert_eq!(times.last(), Some(&((lines + 1) * SECOND)));
        let gap = p
            .timeline
            .gaps
            .iter()
            .find(|g| g.why.contains("kept no more"));
        let gap = gap.expect("the timeline tells of it");
        assert!(
            gap.why.starts_with(&w.unfiled().folded.to_string()),
            "{gap:?}"
        );
        assert!(
            times
                .iter()
                .all(|t| *t < gap.start.0 || gap.end.is_some_and(|e| *t > e.0)),
            "nothing is known of the gap"
        );
    }
}

#[test]
fn what_is_folded_of_a_name_was_lost_by_the_pod_that_bore_it_then() {
    const SECOND: i64 = 1_000_000_000;
    let each = 2 * KEEP as i64;
    let mut w = World::new();
    for (n, uid) in ["a", "b"].into_iter().enumerate() {
        let birth = (n as i64 * (each + 100) + 1) * SECOND;
        w.observe(&pod(birth, uid));
        for l in 1..=each {
            w.observe(&line(birth + l * SECOND, ""));
        }
    }
    w.refresh();
    let all: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|uid| w.pod(&uid.into()).expect("the pod"))
        .collect();
    for p in &all {
        assert_eq!(p.evidence.len(), KEEP / 2 + 1);
        assert_eq!(
            p.timeline
                .gaps
                .iter()
                .filter(|g| g.why.starts_with("30000 "))
                .count(),
            1,
            "{:?}",
            p.timeline.gaps
        );
    }
    assert_eq!(w.unfiled().folded, 60_000);
}

#[test]
fn what_waits_for_an_id_that_never_comes_is_bounded_and_counted() {
    let mut w = World::new();
    for n in 0..10_000 {
        let mut body = log("StopContainer", "", "0123456789abcdef");
        if let Body::Log(l) = &mut body {
            l.pod = PodRef::default();
        }
        w.observe(&seen(n, Source::Kubelet, body));
    }
    let u = w.unfiled();
    assert_eq!((u.waiting, u.given_up), (4096, 5_904));
}

/// An Event of the kubelet about a pod.
fn backoff() -> EventSeen {
    EventSeen {
        object: ObjectRef {
            kind: "Pod".into(),
            namespace: "ns".into(),
            name: "web-0".into(),
            uid: "a".into(),
        },
        reason: "BackOff".into(),
        component: "kubelet".into(),
        ..EventSeen::default()
    }
}

/// A run for one node lists the node's pods, and the pods that have no node yet.
#[test]
fn a_pod_of_which_another_nodes_kubelet_tells_is_not_gone_by_lists_without_it() {
    for (host, gone) in [("node1", false), ("node2", true)] {
        let mut w = World::new();
        let event = EventSeen {
            host: host.into(),
            ..backoff()
        };
        let told = |at| seen(at, Source::Kube, Body::Event(Box::new(event.clone())));
        w.observe(&told(1));
        for bounds in ["spec.nodeName=", "spec.nodeName=node2"] {
            for kind in [WatchKind::ListBegin, WatchKind::ListEnd] {
                let note = WatchNote {
                    resource: "pods".into(),
                    kind,
                    scope: bounds.into(),
                    detail: Text::default(),
                    failure: None,
                };
                w.observe(&seen(2, Source::Kube, Body::Watch(Box::new(note))));
            }
        }
        w.observe(&told(3));
        w.refresh();
        let p = w.pod(&"a".into()).expect("the pod");
        assert_eq!(p.gone.is_some(), gone, "{host}");
    }
}

/// A recorder that was restarted lists the Events of the last hour again.
#[test]
fn an_event_that_is_listed_again_is_one_mark() {
    let event = |count, listed| EventSeen {
        name: "web-0.18e9".into(),
        count,
        listed,
        ..backoff()
    };
    let told = |at: i64, seen: i64, count, listed| {
        Arc::new(Observation {
            stamp: Stamp {
                at: Nanos(at * SECOND),
                seen: Nanos(seen * SECOND),
                ..Stamp::exact(Nanos(0))
            },
            source: Source::Kube,
            body: Body::Event(Box::new(event(count, listed))),
        })
    };
    let mut w = World::new();
    for o in [
        told(1, 3, 1, true),
        told(1, 1, 1, false),
        told(1, 9, 1, true),
        told(5, 5, 2, false),
    ] {
        w.observe(&o);
    }
    w.refresh();
    let p = w.pod(&"a".into()).expect("the pod");
    let marks = p.timeline.marks.iter();
    let marks: Vec<_> = marks.filter(|m| m.kind == MarkKind::Event).collect();
    let told: Vec<_> = marks
        .iter()
        .map(|m| (m.count, m.evidence.stamp.seen))
        .collect();
    assert_eq!(told, [(1, Nanos(SECOND)), (2, Nanos(5 * SECOND))]);
}

#[test]
fn a_node_exists_however_much_was_told_of_it_since_its_object_was_seen() {
    let note = |at, kind| {
        let note = WatchNote {
            resource: "nodes".into(),
            kind,
            scope: Text::default(),
            detail: Text::default(),
            failure: None,
        };
        seen(at, Source::Kube, Body::Watch(Box::new(note)))
    };
    let node = NodeSeen {
        name: "n1".into(),
        resource_version: 7,
        ..NodeSeen::default()
    };
    let event = |at: i64| {
        let event = EventSeen {
            object: ObjectRef {
                kind: "Node".into(),
                name: "n1".into(),
                ..ObjectRef::default()
            },
            reason: "ContainerGCFailed".into(),
            component: "kubelet".into(),
            host: "n1".into(),
            warning: true,
            ..EventSeen::default()
        };
        seen(at, Source::Kube, Body::Event(Box::new(event)))
    };
    for local in [false, true] {
        let mut w = World::new();
        w.observe(&note(1, WatchKind::ListBegin));
        w.observe(&seen(2, Source::Kube, Body::Node(Box::new(node.clone()))));
        w.observe(&note(3, WatchKind::ListEnd));
        for at in 4..20_000 {
            if local {
                let mut body = log("Failed to garbage collect", "", "");
                if let Body::Log(l) = &mut body {
                    l.pod = PodRef::default();
                    l.severity = Severity::Error;
                }
                w.observe(&seen(at, Source::Kubelet, body));
                if at % 1000 == 0 {
                    w.refresh();
                }
            } else {
                w.observe(&event(at));
            }
        }
        w.refresh();
        assert_eq!(w.presence("n1"), Presence::Exists, "local: {local}");
        let n1 = w.node("n1").expect("the node");
        assert!(n1.evidence.len() <= 8192 && n1.evidence.is_sorted());
    }
}

#[test]
fn a_request_that_reads_counts_once_whatever_stages_its_policy_logs() {
    let mut w = World::new();
    for (at, id, stage) in [
        (1, "a", AuditStage::RequestReceived),
        (2, "a", AuditStage::ResponseStarted),
        (3, "a", AuditStage::ResponseComplete),
        (4, "b", AuditStage::ResponseComplete),
    ] {
        let record = AuditRecord {
            audit_id: id.into(),
            stage,
            verb: "watch".into(),
            resource: "pods".into(),
            object: ObjectRef::default(),
            user: Text::default(),
            agent: Text::default(),
            received: Nanos(at),
            code: 200,
            message: Text::default(),
            query: Text::default(),
            annotations: kflow_model::Pairs::default(),
            facts: kflow_model::Pairs::default(),
        };
        w.observe(&seen(at, Source::Audit, Body::Audit(Box::new(record))));
    }
    assert_eq!(w.unfiled().reads, 2);
}
