//! Which kubelets, nodes and controllers are alive, by leases and lists of nodes.
//!
//! Everything here is invented, in the form of the API's reference (`coordination.k8s.io/v1` Lease, `v1` Node, Pod and
//! Event): the recordings have no leases, only the requests that renew them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kflow_core::correlate::{Actor, NODE_LEASES, Presence, World};
use kflow_core::diagnose::{self, Confidence, Diagnoser, State, Verdict};
use kflow_core::stats::{Measure, measured};
use kflow_export::why::{groups, report};
use kflow_model::gap::WatchKind;
use kflow_model::pod::WatchEvent;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, stamp::SECOND};
use kflow_sources::audit::decode::AuditLines;
use kflow_sources::kube::decode::{KubeLines, Renewals, decode_object, note};
use kflow_sources::{LineDecoder, TimeHint};
use serde_json::{Value, json};

/// 2027-01-15T08:00:00Z.
const BEGIN: i64 = 1_800_000_000;

fn at(s: i64) -> Nanos {
    Nanos::from_secs(BEGIN + s)
}

/// A time in the API's MicroTime format.
fn micro(s: i64) -> String {
    at(s).to_rfc3339().replace("000Z", "Z")
}

/// A time in the API's Time format.
fn time(s: i64) -> String {
    at(s).to_rfc3339().replace(".000000000Z", "Z")
}

fn seen(v: &Value, event: WatchEvent, s: i64) -> Observation {
    decode_object(v.to_string().as_bytes(), "", event, Stamp::exact(at(s)))
        .unwrap_or_else(|e| panic!("{e:?}: {v}"))
}

fn lease(namespace: &str, name: &str, s: i64) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("lease-{name}"), "resourceVersion": format!("{}", 1000 + s)},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro(s)}})
}

fn node(name: &str, ready: &str, since: i64, taints: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("node-{name}"), "resourceVersion": format!("{}", 1000 + since)},
        "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": ready,
            "reason": if ready == "True" { "KubeletReady" } else { "NodeStatusUnknown" },
            "message": if ready == "True" { "kubelet is posting ready status" } else { "Kubelet stopped posting node status." },
            "lastTransitionTime": time(since)}]}})
}

fn pod(name: &str, node: &str, s: i64) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": format!("pod-{name}"), "resourceVersion": format!("{}", 1000 + s), "creationTimestamp": time(s)},
        "spec": {"nodeName": node, "schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "reg.example/app:1"}]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": time(s)}]}})
}

/// Observes a complete list of objects at a time, s.
fn list(world: &mut World, s: i64, kind: &str, objects: &[Value]) {
    let note = |what, version| Arc::new(note(kind, what, version, Stamp::exact(at(s))));
    world.observe(&note(WatchKind::ListBegin, ""));
    for o in objects {
        world.observe(&Arc::new(seen(o, WatchEvent::Listed, s)));
    }
    world.observe(&note(WatchKind::ListEnd, "1"));
}

/// Observes a complete list of nodes at a time, s.
fn nodes(world: &mut World, s: i64, names: &[&str]) {
    let all: Vec<Value> = names
        .iter()
        .map(|n| node(n, "True", s, &json!([])))
        .collect();
    list(world, s, "nodes", &all);
}

fn why(world: &mut World, name: &str, s: i64) -> Option<Verdict> {
    world.refresh();
    let pod = Arc::clone(world.find(&format!("ns/{name}")).first().expect("the pod"));
    diagnose::why(world, &pod, at(s))
}

#[test]
fn a_frozen_kubelet_is_told_when_its_lease_has_run_out() {
    let mut world = World::new();
    let mut renewals = Renewals::default();
    nodes(&mut world, 0, &["n1", "n2"]);
    let mut told = Vec::new();
    for s in 0..90 {
        // n2 stays alive; n1 stops after its renewal at second 20. The renewals go through the filter of the watch.
        let mut all = renewals.due(at(s));
        for (n, lives) in [("n1", s <= 20), ("n2", true)] {
            if lives && s % 10 == 0 {
                all.extend(renewals.take(seen(&lease(NODE_LEASES, n, s), WatchEvent::Modified, s)));
            }
        }
        if s == 25 {
            all.push(seen(&pod("p1", "n1", s), WatchEvent::Added, s));
            all.push(seen(&pod("p2", "n2", s), WatchEvent::Added, s));
        }
        for o in all {
            world.observe(&Arc::new(o));
        }
        if s >= 25 {
            told.push((s, why(&mut world, "p1", s), why(&mut world, "p2", s)));
        }
    }
    for (s, v, lives) in &told {
        match (s, v) {
            // A kubelet picks up a pod within a second; after half a minute without a sign the verdict says
            // who has to act.
            (..55, None) => {}
            (55..60, Some(v)) => {
                assert_eq!(
                    (v.cause_id(), v.confidence),
                    ("KF301", Confidence::Possible),
                    "{s}"
                );
                assert!(
                    v.sentence.contains("last heard at 08:00:20 UTC"),
                    "{}",
                    v.sentence
                );
            }
            (60.., Some(v)) => {
                assert_eq!(
                    (v.cause_id(), v.confidence),
                    ("KF301", Confidence::Likely),
                    "{s}"
                );
                let wanted = format!(
                    "it has not renewed its lease for {}",
                    diagnose::text::span((s - 20) * SECOND)
                );
                assert!(v.sentence.contains(&wanted), "{}", v.sentence);
                assert!(
                    v.sentence.contains("last heard at 08:00:20 UTC"),
                    "{}",
                    v.sentence
                );
            }
            other => panic!("{other:?}"),
        }
        // The kubelet of n2 is alive: a verdict on its pod has no more than `Confidence::Possible`.
        if let Some(v) = lives
            && v.confidence != Confidence::Possible
        {
            panic!("{s} {}", v.sentence);
        }
        // Its renewals pass the filter every half minute: by second 60 the kubelet was heard after the binding.
        if let Some(v) = lives.as_ref().filter(|_| *s >= 60) {
            assert_eq!(v.cause_id(), "KF302", "{s} {}", v.sentence);
            assert!(v.sentence.contains("the kubelet lives"), "{}", v.sentence);
        }
    }
    assert!(told.last().is_some_and(|(.., lives)| lives.is_some()));
}

#[test]
fn thousands_of_pods_on_nodes_that_do_not_exist_are_told_within_seconds() {
    const PODS: usize = 4000;
    let mut world = World::new();
    nodes(&mut world, 0, &["n1"]);
    for i in 0..PODS {
        let p = pod(&format!("p{i}"), &format!("gone-{}", i % 50), 10);
        world.observe(&Arc::new(seen(&p, WatchEvent::Added, 10)));
    }
    world.observe(&Arc::new(seen(
        &pod("fine", "n1", 10),
        WatchEvent::Added,
        10,
    )));
    world.refresh();
    let mut diagnoser = Diagnoser::new();
    let at_once = diagnoser.update(&world, at(10)).0;
    assert!(at_once.is_empty());
    let (told, _) = diagnoser.update(&world, at(13));
    assert_eq!(told.len(), PODS);
    for v in told.values() {
        assert_eq!(v.cause_id(), "KF317");
        assert!(
            v.sentence.contains("which does not exist") && v.sentence.contains("40 to 80 s"),
            "{}",
            v.sentence
        );
    }
    // The text has one full verdict for each node, with the number of the others.
    let all_groups = groups(told.values().map(AsRef::as_ref));
    let text = report(&all_groups, at(13), false);
    let more: usize = text
        .lines()
        .filter_map(|l| l.trim_start().strip_prefix("same"))
        .filter_map(|l| l.trim().split_once(" more: ")?.0.parse::<usize>().ok())
        .sum();
    let whole = text.lines().filter(|l| l.ends_with("  KF317")).count();
    assert_eq!((whole, whole + more), (50, PODS));
    assert!(text.lines().count() < 50 * 25, "{}", text.lines().count());
    // The garbage collector is late, and kube-controller-manager, which runs it, was last heard long ago.
    world.observe(&Arc::new(seen(
        &lease("kube-system", "kube-controller-manager", 20),
        WatchEvent::Listed,
        100,
    )));
    let late = why(&mut world, "p0", 200).expect("it waits");
    assert!(
        late.sentence
            .contains("kube-controller-manager was last heard at 08:00:20 UTC, 3m00s ago"),
        "{}",
        late.sentence
    );
    // The node appears.
    let new = node("gone-0", "True", 210, &json!([]));
    world.observe(&Arc::new(seen(&new, WatchEvent::Added, 210)));
    assert!(why(&mut world, "p0", 211).is_none_or(|v| v.cause_id() != "KF317"));
}

#[test]
fn without_a_complete_list_nothing_is_said_about_a_nodes_existence() {
    let mut world = World::new();
    world.observe(&Arc::new(seen(
        &node("n1", "True", 0, &json!([])),
        WatchEvent::Listed,
        0,
    )));
    world.observe(&Arc::new(seen(&pod("p", "n2", 1), WatchEvent::Added, 1)));
    assert_eq!(world.presence("n2"), Presence::Unknown);
    let v = why(&mut world, "p", 60).expect("half a minute has passed");
    assert_eq!(
        (v.cause_id(), v.confidence),
        ("KF301", Confidence::Possible)
    );
    assert!(
        v.sentence.contains("nothing shows whether it lives"),
        "{}",
        v.sentence
    );
}

/// Who asks once sees the pod as it has been for two hours; its Events are gone after one.
#[test]
fn a_state_that_a_list_shows_is_no_news() {
    let mut world = World::new();
    nodes(&mut world, 7200, &["n1"]);
    let mut p = pod("p", "n1", 0);
    p["status"]["startTime"] = json!(time(1));
    let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
    p["status"]["containerStatuses"] = json!([{"name": "c", "state": waiting}]);
    list(&mut world, 7200, "pods", &[p.clone()]);
    list(&mut world, 7200, "events", &[]);
    let v = why(&mut world, "p", 7201).expect("it has waited for two hours");
    assert_eq!((v.cause_id(), v.state), ("KF713", State::Stuck));
    // A pod that has just begun may only be slow.
    let mut world = World::new();
    nodes(&mut world, 3, &["n1"]);
    list(&mut world, 3, "pods", &[p]);
    assert!(why(&mut world, "p", 4).is_none());
}

#[test]
fn a_taint_that_keeps_a_pod_away_ends_at_the_kubelet_that_is_silent() {
    let mut world = World::new();
    nodes(&mut world, 0, &["n1"]);
    world.observe(&Arc::new(seen(
        &lease(NODE_LEASES, "n1", 10),
        WatchEvent::Modified,
        10,
    )));
    let taints = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]);
    world.observe(&Arc::new(seen(
        &node("n1", "Unknown", 60, &taints),
        WatchEvent::Modified,
        60,
    )));
    let mut p = pod("p", "", 70);
    p["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": time(70),
        "message": "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."}]);
    world.observe(&Arc::new(seen(&p, WatchEvent::Added, 70)));
    let v = why(&mut world, "p", 80).expect("it is Pending");
    assert_eq!(v.cause_id(), "KF203");
    assert_eq!(
        v.sentence,
        "n1's kubelet has not reported since 08:00:10 UTC, so its taint node.kubernetes.io/unreachable keeps the pod away."
    );
    // A second node has a custom taint: the pod could go there if it tolerated that taint.
    let own = json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
    world.observe(&Arc::new(seen(
        &node("n2", "True", 81, &own),
        WatchEvent::Added,
        81,
    )));
    let v = why(&mut world, "p", 90).expect("it is Pending");
    for part in [
        "does not tolerate",
        "team=a:NoSchedule on n2",
        "n1's kubelet has not reported since 08:00:10 UTC",
    ] {
        assert!(v.sentence.contains(part), "{}", v.sentence);
    }
}

/// A request on a ReplicaSet, as the audit log has it.
fn request(verb: &str, name: &str, s: i64) -> Observation {
    let uri = format!("/apis/apps/v1/namespaces/shop/replicasets/{name}");
    let time = micro(s);
    let record = json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
        "auditID": format!("{verb}-{s}"), "stage": "ResponseComplete", "requestURI": uri, "verb": verb,
        "user": {"username": "admin"}, "userAgent": "kubectl/v1.36.2",
        "objectRef": {"resource": "replicasets", "namespace": "shop", "name": name, "apiGroup": "apps", "apiVersion": "v1"},
        "responseStatus": {"code": 200}, "requestReceivedTimestamp": time, "stageTimestamp": time});
    let mut out = Vec::new();
    let mut lines = AuditLines::new();
    lines.line(record.to_string().as_bytes(), &mut out);
    lines.finish(&mut out);
    out.pop().unwrap_or_else(|| panic!("no record: {record}"))
}

#[test]
fn a_job_that_has_not_counted_a_pod_is_told_only_some_time_after_the_pod_ended() {
    let ended = |name: &str, s: i64| {
        json!({"name": name, "image": "reg.example/app:1", "imageID": "", "restartCount": 0, "ready": false,
            "containerID": format!("containerd://{name}"),
            "state": {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": time(1), "finishedAt": time(s)}}})
    };
    let mut p = pod("sum-x2k4d", "n1", 0);
    let finalizer = "batch.kubernetes.io/job-tracking";
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": "j", "controller": true});
    p["metadata"]["finalizers"] = json!([finalizer]);
    p["metadata"]["ownerReferences"] = json!([owner]);
    // Deleted a minute before it ends; its init container ended long before.
    p["metadata"]["deletionTimestamp"] = json!(time(570));
    p["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    p["spec"]["restartPolicy"] = json!("Never");
    p["spec"]["initContainers"] = json!([{"name": "i", "image": "reg.example/app:1"}]);
    p["status"]["phase"] = json!("Succeeded");
    p["status"]["initContainerStatuses"] = json!([ended("i", 2)]);
    p["status"]["containerStatuses"] = json!([ended("c", 600)]);
    let mut world = World::new();
    world.observe(&Arc::new(seen(&p, WatchEvent::Modified, 600)));
    assert!(why(&mut world, "sum-x2k4d", 602).is_none());
    let v = why(&mut world, "sum-x2k4d", 720).expect("a verdict");
    assert_eq!(v.cause_id(), "KF912");
}

#[test]
fn an_owner_that_is_made_anew_under_its_name_is_judged_by_its_own_refusals() {
    let set = |uid: &str, s: i64| {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": uid, "creationTimestamp": at(s).to_rfc3339(),
                "resourceVersion": format!("{}", 1000 + s), "generation": 1},
            "spec": {"replicas": 1}, "status": {"replicas": 0, "observedGeneration": 1}})
    };
    let refusal = |n: i64, s: i64| {
        let time = at(s).to_rfc3339();
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("web.{n}"), "namespace": "shop"},
            "involvedObject": {"kind": "ReplicaSet", "namespace": "shop", "name": "web", "apiVersion": "apps/v1"},
            "type": "Warning", "reason": "FailedCreate", "count": 1, "firstTimestamp": time, "lastTimestamp": time,
            "source": {"component": "replicaset-controller"},
            "message": "Error creating: pods \"web-x\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"})
    };
    let mut world = World::new();
    let mut told = |all: Vec<Observation>, s: i64| -> Option<Verdict> {
        for o in all {
            world.observe(&Arc::new(o));
        }
        world.refresh();
        let found = diagnose::find(&world, "shop/rs/web");
        found.first().and_then(|t| t.verdict(&world, at(s)))
    };
    let added = |v: &Value, s: i64| seen(v, WatchEvent::Added, s);
    let first = vec![added(&set("one", 10), 10), added(&refusal(1, 11), 11)];
    let v = told(first, 20).expect("it is refused");
    assert_eq!(v.since, at(11), "{}", v.sentence);
    assert!(told(vec![request("delete", "web", 21)], 22).is_none());
    // One of its Events arrives late: the ReplicaSet stays gone.
    assert!(told(vec![added(&refusal(2, 21), 22)], 23).is_none());
    assert!(told(vec![added(&set("two", 30), 30)], 31).is_none());
    let v = told(vec![added(&refusal(3, 32), 32)], 40).expect("it is refused");
    assert_eq!(v.since, at(32), "{}", v.sentence);
}

#[test]
fn a_refusal_is_not_over_when_a_pod_of_another_owner_with_a_longer_name_is_created() {
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "ns", "uid": "one", "creationTimestamp": time(10), "resourceVersion": "10", "generation": 1},
        "spec": {"replicas": 1}, "status": {"replicas": 0, "observedGeneration": 1}});
    // As a table of Events has it: not when it was first.
    let refusal = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "web.1", "namespace": "ns"},
        "involvedObject": {"kind": "ReplicaSet", "namespace": "ns", "name": "web", "apiVersion": "apps/v1"},
        "type": "Warning", "reason": "FailedCreate", "lastTimestamp": time(11),
        "source": {"component": "replicaset-controller"},
        "message": "Error creating: pods \"web-x\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"});
    let mut world = World::new();
    for o in [&set, &refusal] {
        world.observe(&Arc::new(seen(o, WatchEvent::Added, 11)));
    }
    let mut told = |pod_name: &str, s: i64| {
        let o = seen(&pod(pod_name, "n1", s), WatchEvent::Added, s);
        world.observe(&Arc::new(o));
        world.refresh();
        let found = diagnose::find(&world, "ns/rs/web");
        found.first().and_then(|t| t.verdict(&world, at(s + 1)))
    };
    assert!(told("web-api-x2k4d", 20).is_some());
    assert!(told("web-x2k4d", 30).is_none());
}

#[test]
fn leases_are_read_from_a_list_of_kubectl() {
    let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""},
        "items": [lease(NODE_LEASES, "n1", 7), lease("kube-system", "kube-scheduler", 8)]});
    let mut out = Vec::new();
    let mut lines = KubeLines::new(TimeHint::default());
    lines.line(list.to_string().as_bytes(), &mut out);
    lines.finish(&mut out);
    assert_eq!(out.len(), 2);
    let mut world = World::new();
    for o in out {
        assert!(matches!(&o.body, Body::Object(x) if x.object.kind == "Lease"));
        world.observe(&Arc::new(o));
    }
    let heard = |a: &Actor| world.heard(a).map(|s| s.at);
    assert_eq!(heard(&Actor::Kubelet("n1".into())), Some(at(7)));
    assert_eq!(
        heard(&Actor::Scheduler("default-scheduler".into())),
        Some(at(8))
    );
    assert_eq!(
        world.lease(NODE_LEASES, "n1").map(|l| l.duration_ns),
        Some(40 * SECOND)
    );
    // Leases are not among the objects that are searched for owners and claims, however often they are renewed.
    assert!(world.objects().is_empty());
}

/// S2 at half of its length, as two observers know it: one that watched from the begin, and one that starts then. The
/// late one gets the newest occurrence of each Event, with its count and its first time, and what an agent still has of
/// the node: the last `kept` seconds.
fn watched_and_late(kept: i64) -> (World, World, Nanos) {
    let session = kflow_model::session::load(&crate::fixture("sessions/S2-stuck-early.kflow.zst"));
    let session = session.expect("fixture");
    let (begin, end) = session.range().expect("not empty");
    let now = begin.plus(end.since(begin) / 2);
    let all = session.observations.iter();
    let seen: Vec<_> = all.filter(|o| o.stamp.seen <= now).collect();
    let mut listed: BTreeMap<(&str, &str), Observation> = BTreeMap::new();
    for o in seen.iter().filter(|o| o.source == Source::Kube) {
        let mut newest = Observation::clone(o);
        newest.stamp.seen = now;
        let name = match (&o.body, &mut newest.body) {
            (Body::Pod(p), Body::Pod(listed)) => {
                if p.event != WatchEvent::Deleted {
                    listed.event = WatchEvent::Listed;
                    newest.stamp = Stamp::exact(now);
                }
                ("pod", p.uid.as_str())
            }
            (Body::Event(e), Body::Event(listed)) => {
                listed.listed = true;
                ("event", e.name.as_str())
            }
            _ => continue,
        };
        listed.insert(name, newest);
    }
    let (mut watched, mut late) = (World::new(), World::new());
    for o in listed.into_values() {
        late.observe(&Arc::new(o));
    }
    for o in seen {
        let recent = o.stamp.seen > now.plus(-kept * SECOND);
        if o.source == Source::Kube || kept > 0 {
            watched.observe(o);
        }
        if o.source != Source::Kube && recent {
            late.observe(o);
        }
    }
    watched.refresh();
    late.refresh();
    (watched, late, now)
}

#[test]
fn what_is_measured_of_a_pod_is_the_same_for_who_looks_late_or_is_left_out() {
    let (mut compared, mut left_out) = (0, 0);
    // Most of the pods were created 60 to 90 s before.
    for kept in [30, 62, 66, 70, 80] {
        let (watched, late, _) = watched_and_late(kept);
        let (whole_from, late_from) = (watched.nodes_from(), late.nodes_from());
        for pod in watched.pods() {
            let stages = |of: Vec<(Measure, Option<i64>)>| -> BTreeMap<Measure, Option<i64>> {
                let is_stage = |m: &Measure| matches!(m, Measure::Stage(_));
                of.into_iter().filter(|(m, _)| is_stage(m)).collect()
            };
            let whole = stages(measured(pod, whole_from));
            let found = late.find(&pod.key());
            let of_it = found.iter().find(|p| p.uid == pod.uid);
            let late = of_it.map_or_else(BTreeMap::new, |p| stages(measured(p, late_from)));
            for (measure, ns) in &late {
                let near = match (whole.get(measure), ns) {
                    (Some(Some(told)), Some(ns)) => (told - ns).abs() < SECOND,
                    (told, ns) => told == Some(ns),
                };
                assert!(near, "{kept}: {} {measure} {ns:?} of {whole:?}", pod.key());
                compared += 1;
            }
            left_out += whole.len().saturating_sub(late.len());
        }
    }
    assert!(compared > 50 && left_out > 100, "{compared} {left_out}");
}

#[test]
fn how_long_a_pod_is_stuck_is_the_same_for_who_looks_late() {
    for kept in [0, 30] {
        let (watched, late, now) = watched_and_late(kept);
        let mut compared = 0;
        let mut wrong = Vec::new();
        for pod in watched.pods().iter().filter(|p| p.gone.is_none()) {
            let Some(told) = diagnose::why(&watched, pod, now) else {
                continue;
            };
            // The start of a final failure is not known to a late observer, and the verdict does not tell it.
            if told.state == State::Failed {
                continue;
            }
            let found = late.find(&pod.key());
            let asked = found.first().expect("it is listed");
            let late = diagnose::why(&late, asked, now).expect("it is stuck still");
            compared += 1;
            if late.since.since(told.since) > 5 * SECOND {
                let [late, watched] = [late.since, told.since].map(|at| now.since(at) / SECOND);
                wrong.push(format!("{} {late} s of {watched}", pod.key()));
            }
        }
        assert!(wrong.is_empty(), "{kept}: {wrong:#?}");
        assert!(compared > 12, "{compared}");
    }
}
