use super::*;
use kflow_model::cri::{CallEnd, CallKey, CallOutcome, CallStart, Service, Subject};
use kflow_model::event::EventSeen;
use kflow_model::log::{Component, LogLine, Severity};
use kflow_model::pod::PodSeen;
use kflow_model::stamp::MILLI;
use kflow_model::{
    ContainerId, ObjectRef, Observation, PodNames, PodRef, SandboxId, Source, SpanId, Stamp,
    TraceId,
};

fn o(ms: i64, source: Source, body: Body) -> Evidence {
    Arc::new(Observation {
        stamp: Stamp::exact(Nanos::from_secs(1_790_000_000).plus(ms * MILLI)),
        source,
        body,
    })
}

fn now(ms: i64) -> Nanos {
    Nanos::from_secs(1_790_000_000).plus(ms * MILLI)
}

fn uid(n: u32) -> PodUid {
    PodUid::from(format!("{n:08x}-0000-4000-8000-000000000000"))
}

fn state(n: u32, name: &str, ms: i64, event: WatchEvent) -> Evidence {
    let mut p = PodSeen {
        event,
        uid: uid(n),
        namespace: "ns".into(),
        name: name.into(),
        resource_version: u64::from(n) * 10 + u64::from(event == WatchEvent::Deleted),
        created: now(i64::from(n) * 1000),
        owner: Some(ObjectRef {
            kind: "Job".into(),
            namespace: "ns".into(),
            name: format!("job-{n}").into(),
            uid: Text::default(),
        }),
        ..PodSeen::default()
    };
    p.spec.node = "node1".into();
    p.status.phase = "Running".into();
    o(ms, Source::Kube, Body::Pod(Box::new(p)))
}

fn event(name: &str, uid: &str, ms: i64) -> Evidence {
    let e = EventSeen {
        object: ObjectRef {
            kind: "Pod".into(),
            namespace: "ns".into(),
            name: name.into(),
            uid: uid.into(),
        },
        reason: "Started".into(),
        component: "kubelet".into(),
        host: "node1".into(),
        ..EventSeen::default()
    };
    o(ms, Source::Kube, Body::Event(Box::new(e)))
}

/// A pod's life of a second: API states, two calls, an Event with and one without a UID, the deletion.
fn life(n: u32, name: &str) -> Vec<Evidence> {
    let ms = i64::from(n) * 1000;
    let of = Subject {
        pod: PodRef::from(PodNames {
            uid: uid(n),
            namespace: "ns".into(),
            name: name.into(),
        }),
        ..Subject::default()
    };
    let mut all = vec![state(n, name, ms, WatchEvent::Added)];
    for (stream, method) in [(1, "RunPodSandbox"), (2, "CreateContainer")] {
        let key = CallKey { conn: n, stream };
        let start = CallStart {
            subject: of.clone(),
            traceparent: Some((
                TraceId(u128::from(n) + 1),
                SpanId(u64::from(n * 2 + stream)),
            )),
            request_bytes: 1,
            ..CallStart::new(key, Service::Runtime, method)
        };
        let end = CallEnd {
            code: Some(0),
            subject: Subject {
                sandbox_id: SandboxId::from(format!("{n:032x}{:032x}", 1)),
                container_id: ContainerId::from(if stream == 2 {
                    format!("{n:032x}{:032x}", 2)
                } else {
                    String::new()
                }),
                ..Subject::default()
            },
            request_bytes: 1,
            response_bytes: 1,
            ..CallEnd::new(key, CallOutcome::Status)
        };
        let at = ms + 100 * i64::from(stream);
        all.push(o(at, Source::Cri, Body::CallStart(Box::new(start))));
        all.push(o(at + 50, Source::Cri, Body::CallEnd(Box::new(end))));
    }
    all.push(event(name, uid(n).as_str(), ms + 400));
    all.push(event(name, "", ms + 450));
    all.push(state(n, name, ms + 900, WatchEvent::Deleted));
    all
}

#[test]
fn the_indexes_of_a_world_that_runs_for_long_stay_bounded() {
    const KEEP: Retention = Retention {
        age_ns: 3600 * SECOND,
        pods: 100,
        calls: 2048,
        rows: 300,
    };
    let mut world = World::new();
    let mut most = Sizes::default();
    for n in 1..=6000 {
        for e in life(n, &format!("p-{n}")) {
            world.observe(&e);
        }
        if n % 50 == 0 {
            world.retire(now(i64::from(n) * 1000 + 999), &KEEP);
            let s = world.sizes();
            if n == 3000 {
                most = s;
            }
            if n > 3000 {
                assert!(s.pods == 100 && s.rows == 300, "{s:?}");
                assert!(
                    s.files <= 100 && s.names <= 100 && s.by_name <= 100,
                    "{s:?}"
                );
                assert!(s.evidence <= most.evidence && s.uids <= 400, "{s:?}");
                assert!(s.runtime_ids <= 200 && s.joins <= most.joins, "{s:?}");
                assert!(
                    s.calls.0 <= 2048 + 2 * 1024 && s.calls.0 == s.calls.1,
                    "{s:?}"
                );
                // Owners that no watch showed are removed with their pods.
                assert!(s.objects <= 100 && s.nodes <= 1, "{s:?}");
            }
        }
    }
    let told = world.unfiled();
    assert_eq!(told.left, 5900);
    assert_eq!(told.left_evidence, 5900 * 8);
    let newest = world.retired().next_back().unwrap();
    assert_eq!(
        (newest.name.as_str(), newest.node.as_str()),
        ("p-5900", "node1")
    );
    assert!(world.pod(&uid(5900)).is_none() && world.pod(&uid(5901)).is_some());
    assert!(world.find("ns/p-5900").is_empty());
    // Whole chunks of files released their memory, and files that were added later are found.
    assert_eq!(world.find("ns/p-6000")[0].evidence.len(), 8);
}

#[test]
fn an_age_has_pods_leave_too_and_what_exists_stays() {
    let keep = Retention {
        age_ns: 60 * SECOND,
        ..Retention::default()
    };
    let mut world = World::new();
    for e in life(1, "gone").iter().chain(&life(2, "stays")[..7]) {
        world.observe(e);
    }
    assert_eq!(world.retire(now(1900 + 60_000), &keep), 0);
    assert_eq!(world.retire(now(1901 + 60_000), &keep), 1);
    assert_eq!(world.pods().len(), 1);
    assert_eq!(world.retire(now(100_000_000), &keep), 0, "it exists");
    assert_eq!(world.pods()[0].name, "stays");
}

#[test]
fn trailing_events_bring_no_pod_back_and_its_return_does() {
    let keep = Retention {
        pods: 0,
        ..Retention::default()
    };
    let mut world = World::new();
    for e in life(1, "static") {
        world.observe(&e);
    }
    assert_eq!(world.retire(now(3000), &keep), 1);
    let after = [
        event("static", uid(1).as_str(), 4000),
        state(1, "static", 4001, WatchEvent::Deleted),
    ];
    for e in &after {
        world.observe(e);
    }
    world.refresh();
    assert!(world.pods().is_empty());
    // A static pod keeps its UID.
    world.observe(&state(1, "static", 5000, WatchEvent::Added));
    world.refresh();
    assert_eq!(world.find("ns/static").len(), 1);
    assert_eq!(world.sizes().rows, 1);
}

#[test]
fn a_name_that_is_borne_again_keeps_what_its_bearer_did() {
    let mut world = World::new();
    for e in life(1, "web-0").iter().chain(&life(100, "web-0")[..7]) {
        world.observe(e);
    }
    world.refresh();
    let before = world.pod(&uid(100)).unwrap().evidence.len();
    let keep = Retention {
        pods: 0,
        ..Retention::default()
    };
    assert_eq!(world.retire(now(101_000), &keep), 1);
    // Evidence of the name is assigned again when a life changes: none of the first pod's goes to the second one, or
    // to a pod that is known by its name only.
    world.observe(&state(100, "web-0", 100_900, WatchEvent::Deleted));
    world.refresh();
    assert_eq!(world.pods().len(), 1);
    assert_eq!(world.pods()[0].evidence.len(), before + 1);
    assert_eq!(world.sizes().names, 1);
}

#[test]
fn a_call_that_outlasts_the_calls_of_its_time_ends_in_its_pod() {
    let keep = Retention {
        calls: 1024,
        ..Retention::default()
    };
    let mut world = World::new();
    let long = life(1, "long");
    // All but the end of `CreateContainer`, and without the deletion.
    for e in &long[..4] {
        world.observe(e);
    }
    for n in 2..3000 {
        for e in &life(n, &format!("p-{n}"))[..5] {
            world.observe(e);
        }
        if n % 100 == 0 {
            world.retire(now(i64::from(n) * 1000 + 999), &keep);
        }
    }
    assert!(world.unfiled().calls_forgotten > 3000);
    let waits = |world: &World| {
        let of_it = |c: &&Arc<crate::correlate::Call>| c.pod_uid == uid(1);
        world.calls().in_flight().filter(of_it).count()
    };
    assert_eq!(waits(&world), 1, "it is in flight");
    let Body::CallEnd(end) = &long[4].body else {
        panic!("{:?}", long[4]);
    };
    world.observe(&o(3_000_000, Source::Cri, Body::CallEnd(end.clone())));
    world.retire(now(3_000_000), &keep);
    assert_eq!(waits(&world), 0);
    let pod = world.pod(&uid(1)).unwrap();
    let last = pod.evidence.iter().map(|o| o.stamp.at).max();
    assert_eq!(last, Some(now(3_000_000)), "the pod has the end");
    let sizes = world.sizes();
    assert_eq!(sizes.calls.0, sizes.calls.1);
}

/// A line of the kubelet's log about a pod that no other source shows.
fn line(n: u32, message: &str, ms: i64) -> Evidence {
    let pod = PodRef::from(PodNames {
        uid: uid(n),
        namespace: "ns".into(),
        name: format!("logged-{n}").into(),
    });
    let line = LogLine {
        pod,
        ..LogLine::new(Component::Kubelet, Severity::Info, message)
    };
    o(ms, Source::Kubelet, Body::Log(Box::new(line)))
}

#[test]
fn pods_that_only_a_log_shows_leave_when_it_says_so_or_is_silent_for_a_day() {
    const HOUR: i64 = 3_600_000;
    let mut world = World::new();
    for n in 1..=3 {
        world.observe(&line(n, "SyncLoop ADD", 0));
    }
    world.observe(&line(1, "SyncLoop REMOVE", 1000));
    world.observe(&line(2, "SyncLoop DELETE", 1000));
    let keep = Retention::default();
    let mut left = |ms| world.retire(now(ms), &keep);
    assert_eq!(left(HOUR + 900), 0);
    assert_eq!(left(HOUR + 1100), 2, "REMOVE and DELETE");
    assert_eq!(left(23 * HOUR), 0, "a log says little of a quiet pod");
    assert_eq!(left(24 * HOUR + 1), 1);
    // It comes back with the next line.
    world.observe(&line(3, "SyncLoop UPDATE", 25 * HOUR));
    world.refresh();
    assert_eq!(world.pods().len(), 1);
}
