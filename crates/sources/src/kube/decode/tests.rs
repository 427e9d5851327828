//! Real lines of recordings (`fixtures/kube`), and what may go wrong with them.

mod left;
mod lines;

use super::*;
use crate::{LineDecoder, TimeHint};
use kflow_model::Nanos;
use kflow_model::event::EventSeen;
use kflow_model::pod::{ContainerState, PodSeen};
use kflow_model::stamp::SECOND;
use proptest::prelude::*;

const WATCH: &str = include_str!("../../../../../fixtures/kube/watch.jsonl");
const GET: &str = include_str!("../../../../../fixtures/kube/kubectl-get.json");

fn feed(text: &str) -> (Vec<Observation>, Vec<Fed>) {
    let mut d = KubeLines::new(TimeHint::default());
    let mut out = Vec::new();
    let mut fed: Vec<Fed> = text
        .lines()
        .map(|l| d.line(l.as_bytes(), &mut out))
        .collect();
    fed.push(d.finish(&mut out));
    (out, fed)
}

/// The lists and watch events in [`WATCH`], whose lines are `{"t":ns,"stream":"pods","kind":"LIST|WATCH","line":…}`:
/// the time of arrival, the resource, and what the apiserver sent.
fn sent() -> impl Iterator<Item = (Stamp, String, serde_json::Value)> {
    WATCH.lines().map(|l| {
        let mut line: serde_json::Value = serde_json::from_str(l).unwrap();
        let stamp = Stamp::exact(Nanos(line["t"].as_i64().unwrap()));
        let resource = line["stream"].as_str().unwrap().to_owned();
        (stamp, resource, line["line"].take())
    })
}

/// The watch events alone, as text.
fn watch_events() -> Vec<String> {
    sent()
        .filter(|(_, _, json)| json["type"].is_string())
        .map(|(_, _, json)| json.to_string())
        .collect()
}

fn recorded() -> Vec<Observation> {
    let mut out = Vec::new();
    for (stamp, resource, json) in sent() {
        let Some(items) = json["items"].as_array() else {
            let json = json.to_string();
            out.push(decode_watch_event(json.as_bytes(), &resource, stamp).unwrap());
            continue;
        };
        let kind = json["kind"].as_str().unwrap().trim_end_matches("List");
        for item in items {
            let json = item.to_string();
            let listed = decode_object(json.as_bytes(), kind, WatchEvent::Listed, stamp);
            out.push(listed.unwrap());
        }
    }
    out
}

fn pods(out: &[Observation]) -> Vec<(&Stamp, &PodSeen)> {
    out.iter()
        .filter_map(|o| match &o.body {
            Body::Pod(p) => Some((&o.stamp, p.as_ref())),
            _ => None,
        })
        .collect()
}

fn events(out: &[Observation]) -> Vec<(&Stamp, &EventSeen)> {
    out.iter()
        .filter_map(|o| match &o.body {
            Body::Event(e) => Some((&o.stamp, e.as_ref())),
            _ => None,
        })
        .collect()
}

fn notes(out: &[Observation]) -> Vec<(&str, WatchKind, &str)> {
    out.iter()
        .filter_map(|o| match &o.body {
            Body::Watch(n) => Some((n.resource.as_str(), n.kind, n.detail.as_str())),
            _ => None,
        })
        .collect()
}

#[test]
fn a_pod_keeps_what_decides_how_it_starts_and_nothing_secret() {
    let out = recorded();
    let (stamp, p) = pods(&out)[0];
    assert_eq!(*stamp, Stamp::exact(Nanos(1_795_220_667_512_157_667)));
    assert_eq!(p.event, WatchEvent::Added);
    assert_eq!(p.uid.as_str(), "4ac3c3e9-1ad8-496b-869a-7687fcb13acf");
    assert_eq!((p.namespace.as_str(), p.name.as_str()), ("s01", "healthy"));
    assert_eq!(p.created, Nanos(1_795_220_667 * SECOND));
    assert_eq!(p.labels, [("app".into(), "healthy".into())]);
    assert_eq!(p.spec.service_account, "app");
    assert_eq!(p.spec.termination_grace_s, Some(20));
    assert!(p.spec.tolerations.is_empty(), "admission adds both of them");
    let volumes: Vec<String> = p
        .spec
        .volumes
        .iter()
        .map(|v| format!("{} {} {}", v.name, v.kind, v.refers))
        .collect();
    assert_eq!(
        volumes[..5],
        [
            "cfg configMap app-config",
            "sec secret app-secret",
            "scratch emptyDir ",
            "mem emptyDir ",
            "tok projected serviceAccountToken,downwardAPI",
        ]
    );
    let web = p.container("web").unwrap();
    assert_eq!(web.env_refs, ["secret/app-secret"]);
    assert_eq!(web.requests[0], ("cpu".into(), "50m".into()));
    assert_eq!(
        (web.post_start.as_str(), web.pre_stop.as_str()),
        ("exec", "exec")
    );
    let probes: Vec<String> = web
        .probes
        .iter()
        .map(|p| {
            format!(
                "{} {} {}/{}",
                p.kind, p.handler, p.period_s, p.failure_threshold
            )
        })
        .collect();
    assert_eq!(
        probes,
        [
            "startup httpGet :8080/healthz 1/20",
            "liveness httpGet :8080/healthz 5/3",
            "readiness httpGet :8080/healthz 3/3",
        ]
    );
    let all = serde_json::to_string(&out).unwrap();
    for secret in ["/tmp/started", "trap", "last-applied", "PW"] {
        assert!(WATCH.contains(secret));
        assert!(!all.contains(secret), "{secret}");
    }
}

#[test]
fn a_deleted_pod_has_a_deletion_time_in_its_future_and_a_last_state() {
    let out = recorded();
    let pods = pods(&out);
    let (stamp, p) = pods[1];
    assert!(p.deletion.unwrap() > stamp.at, "request plus grace");
    assert_eq!(p.deletion_grace_s, Some(20));
    let (_, gone) = pods[2];
    assert_eq!(gone.event, WatchEvent::Deleted);
    assert_eq!(gone.uid, p.uid);
    assert!(
        gone.statuses()
            .all(|s| matches!(&s.state, ContainerState::Terminated(_)))
    );
    assert!(
        gone.statuses().all(|s| s.id.as_str().len() == 64),
        "bare ids"
    );
}

#[test]
fn a_mirror_pod_names_the_static_pod_that_the_node_knows() {
    let out = recorded();
    let (_, p) = pods(&out)[3];
    assert_eq!(p.name, "static-web-node1");
    assert_eq!(
        p.mirror_of.as_ref().unwrap().as_str(),
        "ff4d934cf370b424f4877ca51ef195c7"
    );
    assert_eq!(p.owner.as_ref().unwrap().kind, "Node");
    assert_eq!(p.owner.as_ref().unwrap().namespace, "");
}

#[test]
fn waiting_and_terminated_states_keep_reason_and_code() {
    let out = recorded();
    let pods = pods(&out);
    let (_, image) = pods[4];
    assert!(matches!(
        &image.status.containers[0].state,
        ContainerState::Waiting { reason, message }
            if reason == "ImagePullBackOff" && message.contains("127.0.0.1:5000/nope:1")
    ));
    let (_, liveness) = pods[5];
    let last = liveness.status.containers[0].last.as_ref().unwrap();
    assert_eq!(last.exit_code, Some(137));
    assert!(last.finished > last.started);
}

/// Anybody who may create Events can make the apiserver list these; they must not count as a loss of what is known of
/// the pods.
#[test]
fn an_event_that_says_nothing_is_no_loss() {
    let decode = |json: &str| {
        decode_object(
            json.as_bytes(),
            "Event",
            WatchEvent::Listed,
            Stamp::exact(Nanos(SECOND)),
        )
    };
    let empty = decode(r#"{"metadata":{"name":"a","namespace":"shop"},"involvedObject":{}}"#);
    assert!(matches!(empty, Err(Fed::Ignored(_))), "{empty:?}");
    for count in [r#""count":-3"#, r#""series":{"count":-2147483648}"#] {
        let json = format!(
            r#"{{"metadata":{{"name":"a"}},"reason":"Failed","involvedObject":{{"name":"b"}},{count}}}"#
        );
        let Ok(Body::Event(e)) = decode(&json).map(|o| o.body) else {
            panic!("{json}")
        };
        assert_eq!(e.count, 1, "{json}");
    }
}

#[test]
fn an_event_is_stamped_by_its_name_first_and_by_its_last_second_after() {
    let out = recorded();
    let events = events(&out);
    let unhealthy: Vec<_> = events
        .iter()
        .filter(|(_, e)| e.name == "healthy.18e9e7ba8f409709")
        .collect();
    let facts: Vec<(i64, u32, u32)> = unhealthy
        .iter()
        .map(|(s, e)| (s.at.0, s.precision, e.count))
        .collect();
    assert_eq!(
        facts,
        [
            (1_795_220_714_937_161_481, 1, 1),
            (1_795_220_718 * SECOND, 1_000_000_000, 2),
            (1_795_220_722 * SECOND, 1_000_000_000, 3),
        ],
        "0x18e9e7ba8f409709 ns, then lastTimestamp"
    );
    for (s, e) in &unhealthy {
        assert!(s.seen >= s.at);
        assert_eq!(e.first, Some(Nanos(1_795_220_714_937_161_481)));
        assert_eq!((e.container.as_str(), e.warning), ("worker", true));
        assert_eq!(
            (e.component.as_str(), e.host.as_str()),
            ("kubelet", "node1")
        );
    }
    let (stamp, scheduled) = events
        .iter()
        .find(|(_, e)| e.reason == "Scheduled")
        .unwrap();
    assert_eq!(scheduled.component, "default-scheduler");
    assert_eq!(scheduled.host, "");
    assert_eq!(stamp.precision, 1);
    assert_eq!(
        scheduled.message,
        "Successfully assigned s01/healthy to node1"
    );
}

#[test]
fn combined_related_and_annotated_events_keep_what_they_mean() {
    let out = recorded();
    let events = events(&out);
    let find = |reason: &str| events.iter().find(|(_, e)| e.reason == reason).unwrap().1;
    let combined = find("FailedCreate");
    assert!(combined.aggregated);
    assert!(combined.message.starts_with("Error creating: pods"));
    assert_eq!(combined.object.kind, "ReplicaSet");
    assert_eq!(
        find("Preempted").related,
        None,
        "1.36 names the preemptor in the message only"
    );
    let evicted = find("Evicted");
    let keys: Vec<&str> = evicted
        .annotations
        .iter()
        .map(|(k, _)| k.as_str())
        .collect();
    assert!(keys.contains(&"starved_resource"), "{keys:?}");
}

#[test]
fn the_new_api_of_events_is_the_same_event() {
    let json = br#"{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{"name":"p.x","namespace":"n"},
        "eventTime":"2026-11-21T00:50:22.407608Z","reportingController":"default-scheduler","reportingInstance":"default-scheduler-vm",
        "action":"Scheduling","reason":"FailedScheduling","regarding":{"kind":"Pod","namespace":"n","name":"p","uid":"u"},
        "note":"0/1 nodes are available","type":"Warning",
        "related":{"kind":"Pod","namespace":"n","name":"high"},"series":{"count":3,"lastObservedTime":"2026-11-21T00:51:00.000001Z"},"deprecatedCount":null}"#;
    let o = decode_object(json, "", WatchEvent::Modified, Stamp::exact(Nanos(5))).unwrap();
    let Body::Event(e) = &o.body else { panic!() };
    assert_eq!(
        (e.count, e.message.as_str()),
        (3, "0/1 nodes are available")
    );
    assert_eq!(
        (e.object.uid.as_str(), e.component.as_str()),
        ("u", "default-scheduler")
    );
    assert_eq!(e.related.as_ref().unwrap().name, "high");
    let last = Nanos::parse_rfc3339("2026-11-21T00:51:00.000001Z")
        .unwrap()
        .0;
    assert_eq!(
        (o.stamp.at, o.stamp.precision, o.stamp.seen),
        (last, 1000, Nanos(5))
    );
}

#[test]
fn hex_digits_in_a_name_are_a_time_only_if_the_event_says_about_the_same() {
    for (name, stamp) in [
        ("web.18e9e7ba8f409709", 1_795_220_714_937_161_481),
        ("web.deadbeef", 1_795_220_714 * SECOND),
        ("18e9e7ba8f409709", 1_795_220_714 * SECOND),
    ] {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}"}},"reason":"R","involvedObject":{{"kind":"Pod","name":"web"}},
            "firstTimestamp":"2026-11-21T00:25:14Z","lastTimestamp":"2026-11-21T00:25:14Z","count":1}}"#
        );
        let o = decode_object(
            json.as_bytes(),
            "Event",
            WatchEvent::Added,
            Stamp::exact(Nanos(9)),
        );
        assert_eq!(o.unwrap().stamp.at, Nanos(stamp), "{name}");
    }
}

#[test]
fn an_event_that_was_only_seen_again_is_no_occurrence() {
    let line = watch_events()
        .into_iter()
        .find(|l| l.contains("healthy.18e9e7ba8f409709"))
        .unwrap();
    let mut d = KubeLines::default();
    let mut out = Vec::new();
    assert_eq!(d.line(line.as_bytes(), &mut out), Fed::Observed(1));
    let again = line.replacen("ADDED", "MODIFIED", 1);
    assert_eq!(
        d.line(again.as_bytes(), &mut out),
        Fed::Ignored("event seen before")
    );
    let expired = line.replacen("ADDED", "DELETED", 1);
    assert_eq!(
        d.line(expired.as_bytes(), &mut out),
        Fed::Ignored("event object expired")
    );
    assert_eq!(out.len(), 1);
}

#[test]
fn a_node_keeps_taints_conditions_and_what_it_can_hold() {
    let out = recorded();
    let nodes: Vec<_> = out
        .iter()
        .filter_map(|o| match &o.body {
            Body::Node(n) => Some(n),
            _ => None,
        })
        .collect();
    assert_eq!(nodes[0].event, WatchEvent::Listed);
    assert_eq!(nodes[0].condition("Ready").unwrap().reason, "KubeletReady");
    assert_eq!(nodes[0].kubelet_version, "v1.36.2");
    assert_eq!(nodes[0].runtime_version, "containerd://2.1.9+unknown");
    assert!(
        nodes[0]
            .allocatable
            .contains(&("pods".into(), "110".into()))
    );
    assert_eq!(
        nodes[1].taints,
        [("lab".into(), "yes".into(), "NoSchedule".into())]
    );
}

#[test]
fn other_objects_keep_the_facts_of_their_kind() {
    let cases = [
        (
            r#"{"kind":"Deployment","metadata":{"name":"web","namespace":"n","uid":"u","generation":3},"spec":{"replicas":2,"paused":false},
            "status":{"observedGeneration":2,"readyReplicas":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}}"#,
            "paused=false readyReplicas=1 replicas=2",
        ),
        (
            r#"{"kind":"PersistentVolumeClaim","metadata":{"name":"data","namespace":"n","annotations":{"volume.kubernetes.io/selected-node":"node1","secret":"x"}},
            "spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"fast","resources":{"requests":{"storage":"1Gi"}}},"status":{"phase":"Pending"}}"#,
            "accessModes=ReadWriteOnce phase=Pending request=1Gi selectedNode=node1 storageClass=fast",
        ),
        (
            r#"{"kind":"PersistentVolume","metadata":{"name":"ssd"},"spec":{"volumeMode":"Filesystem","nodeAffinity":{"required":{"nodeSelectorTerms":[
            {"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In","values":["node9"]}]},
            {"matchExpressions":[{"key":"zone","operator":"In","values":["a","b"]},{"key":"disk","operator":"Exists"}]}]}}},"status":{"phase":"Available"}}"#,
            "nodeAffinity=kubernetes.io/hostname=node9 or zone in (a,b),disk phase=Available volumeMode=Filesystem",
        ),
        // A requirement that a selector does not have: a part of the affinity would say something else.
        (
            r#"{"kind":"PersistentVolume","metadata":{"name":"ssd"},"spec":{"nodeAffinity":{"required":{"nodeSelectorTerms":[
            {"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]},{"matchExpressions":[{"key":"size","operator":"Gt","values":["4"]}]}]}}}}"#,
            "",
        ),
        (
            r#"{"kind":"ResourceQuota","metadata":{"name":"q","namespace":"n"},"status":{"hard":{"pods":"0"},"used":{"pods":"0"}}}"#,
            "hard.pods=0 used.pods=0",
        ),
        (
            r#"{"kind":"CSINode","metadata":{"name":"node1"},"spec":{"drivers":[{"name":"a.csi"},{"name":"b.csi"}]}}"#,
            "drivers=a.csi,b.csi",
        ),
        (
            r#"{"kind":"Secret","metadata":{"name":"s","namespace":"n"},"data":{"password":"aHVudGVyMg=="}}"#,
            "",
        ),
    ];
    for (json, facts) in cases {
        let o = decode_object(
            json.as_bytes(),
            "",
            WatchEvent::Added,
            Stamp::exact(Nanos(1)),
        );
        let Ok(Observation {
            body: Body::Object(x),
            ..
        }) = o
        else {
            panic!("{json}");
        };
        let told: Vec<String> = x.facts.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(told.join(" "), facts);
    }
}

#[test]
fn absent_null_and_unknown_fields_are_no_reason_to_drop_a_pod() {
    let json = r#"{"kind":"Pod","metadata":{"name":"p","uid":"u","labels":null,"ownerReferences":null,"managedFields":[1]},
        "spec":{"containers":[{"name":"c","livenessProbe":{"httpGet":{"port":"http","path":"/h?token=x"}},"ports":null,"new":{"a":[]}}],
        "volumes":[{"name":"v","emptyDir":null},{"name":"w","brandNew":{"x":1}}],"priority":null},"status":null,"extra":1}"#;
    let o = decode_object(
        json.as_bytes(),
        "",
        WatchEvent::Added,
        Stamp::exact(Nanos(1)),
    )
    .unwrap();
    let Body::Pod(p) = o.body else { panic!() };
    assert_eq!(p.spec.containers[0].probes[0].handler, "httpGet :http/h");
    assert_eq!(p.spec.volumes[1].kind, "brandNew");
    assert!(p.status.phase.is_unset());
}

#[test]
fn kinds_have_their_plural_resource() {
    for (kind, resource) in [
        ("Pod", "pods"),
        ("NetworkPolicy", "networkpolicies"),
        ("StorageClass", "storageclasses"),
        ("Endpoints", "endpointses"),
    ] {
        assert_eq!(plural(kind), resource);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_and_damaged_lines_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        line in 0_usize..16,
        at in 0_usize..4000,
        flip in any::<u8>(),
    ) {
        let mut d = KubeLines::default();
        let mut out = Vec::new();
        d.line(&bytes, &mut out);
        let mut damaged = watch_events().swap_remove(line).into_bytes();
        if let Some(b) = damaged.get_mut(at) {
            *b ^= flip;
        }
        d.line(&damaged, &mut out);
        d.finish(&mut out);
        for kind in ["", "Pod", "Event", "Node", "Deployment", "Odd"] {
            let stamp = Stamp::exact(Nanos(1));
            drop(decode_object(&bytes, kind, WatchEvent::Added, stamp));
            drop(decode_watch_event(&bytes, "pods", stamp));
        }
        let _ = newest_time(&bytes);
    }

    #[test]
    fn arbitrary_json_in_place_of_any_field_never_panics(value in json()) {
        for kind in ["Pod", "Event", "Node", "Job", "Other"] {
            for key in ["metadata", "spec", "status", "involvedObject", "series"] {
                let doc = serde_json::json!({
                    "kind": kind, "metadata": {"name": "n", "uid": "u"}, key: value
                }).to_string();
                drop(decode_object(doc.as_bytes(), "", WatchEvent::Listed, Stamp::exact(Nanos(1))));
            }
        }
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let keys = proptest::sample::select(vec![
        "name",
        "uid",
        "containers",
        "volumes",
        "conditions",
        "containerStatuses",
        "state",
        "taints",
        "labels",
        "lastTransitionTime",
        "count",
        "env",
        "valueFrom",
        "projected",
        "sources",
        "drivers",
    ]);
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        ".{0,8}".prop_map(Into::into),
        Just("2026-11-21T00:50:22.407608Z".into()),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::btree_map(keys.clone(), inner, 0..4).prop_map(|m| {
                serde_json::Value::Object(m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}
