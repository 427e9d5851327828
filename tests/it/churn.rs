//! Synthetic observations shaped like the recordings: pods that are created, scheduled and run, with their calls and
//! log lines.
//! Used by the terminal's tests and by benches/draw.rs.

use std::sync::Arc;

use kflow_engine::Pipeline;
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_model::cri::{CallEnd, CallKey, CallOutcome, CallStart, Service, Subject};
use kflow_model::log::{Component, LogLine, Severity};
use kflow_model::pod::{ContainerSpec, ContainerState, ContainerStatus, PodSeen, WatchEvent};
use kflow_model::{
    Body, ContainerId, Nanos, Observation, PodNames, PodRef, PodUid, Source, Stamp, Text,
};

/// 2026-09-21T14:13:20Z.
pub(crate) const BEGIN: Nanos = Nanos(1_790_000_000_000_000_000);

fn at(ms: i64) -> Nanos {
    BEGIN.plus(ms * 1_000_000)
}

pub(crate) fn observation(ms: i64, source: Source, body: Body) -> Arc<Observation> {
    Arc::new(Observation {
        stamp: Stamp::exact(at(ms)),
        source,
        body,
    })
}

/// A pod as the API shows it: running, or still pending.
pub(crate) fn pod(n: usize, name: &str, running: bool) -> PodSeen {
    let mut p = PodSeen {
        event: WatchEvent::Modified,
        uid: PodUid::from(format!("{n:08x}-0000-4000-8000-000000000000")),
        namespace: Text::from(format!("team-{}", n % 20)),
        name: name.into(),
        resource_version: n as u64 + 1,
        created: BEGIN.plus(n as i64 % 1000 * 1_000_000_000),
        labels: vec![("app".into(), Text::from(format!("app-{}", n % 50)))],
        ..PodSeen::default()
    };
    p.spec.node = if running {
        "node1".into()
    } else {
        Text::default()
    };
    p.spec.containers.push(ContainerSpec {
        name: "main".into(),
        image: "registry.example/app:1".into(),
        ..ContainerSpec::default()
    });
    p.status.phase = if running { "Running" } else { "Pending" }.into();
    if running {
        p.status.containers.push(ContainerStatus {
            name: "main".into(),
            id: ContainerId::from(format!("{n:064x}")),
            image: "registry.example/app:1".into(),
            restarts: n.is_multiple_of(7).into(),
            ready: true,
            started: Some(true),
            state: ContainerState::Running {
                started: Some(p.created),
            },
            last: None,
        });
    }
    p
}

/// The start and the end of a call.
pub(crate) fn call(
    ms: i64,
    key: CallKey,
    method: &str,
    of: &PodSeen,
    code: u32,
) -> [Arc<Observation>; 2] {
    let subject = Subject {
        pod: PodRef::from(PodNames {
            uid: of.uid.clone(),
            namespace: of.namespace.clone(),
            name: of.name.clone(),
        }),
        container: "main".into(),
        ..Subject::default()
    };
    let start = CallStart {
        subject,
        timeout_ns: Some(120_000_000_000),
        request_bytes: 400,
        ..CallStart::new(key, Service::Runtime, method)
    };
    let end = CallEnd {
        code: Some(code),
        message: if code == 0 {
            Text::default()
        } else {
            "it did not work".into()
        },
        request_bytes: 400,
        response_bytes: 80,
        ..CallEnd::new(key, CallOutcome::Status)
    };
    [
        observation(ms, Source::Cri, Body::CallStart(Box::new(start))),
        observation(
            ms + 3 + i64::from(key.stream) % 90,
            Source::Cri,
            Body::CallEnd(Box::new(end)),
        ),
    ]
}

/// A line of the kubelet's log about a pod.
pub(crate) fn line(ms: i64, message: &str, of: &PodSeen) -> Arc<Observation> {
    let l = LogLine {
        location: "kubelet.go:2724".into(),
        pod: PodRef::from(PodNames {
            uid: of.uid.clone(),
            namespace: of.namespace.clone(),
            name: of.name.clone(),
        }),
        ..LogLine::new(Component::Kubelet, Severity::Info, message)
    };
    observation(ms, Source::Kubelet, Body::Log(Box::new(l)))
}

/// A pipeline that has seen so many pods and about so many observations.
pub(crate) fn pipeline(pods: usize, observations: usize) -> Pipeline {
    let mut pipeline = Pipeline::new();
    let rounds = (observations / pods.max(1)).max(1);
    let mut stream = 1;
    let seen: Vec<PodSeen> = (0..pods)
        .map(|n| {
            pod(
                n,
                &format!("app-{}-{:05x}", n % 50, n * 7919 % 0xf_ffff),
                n % 9 != 0,
            )
        })
        .collect();
    for r in 0..rounds {
        for (n, p) in seen.iter().enumerate() {
            let ms = (r * pods + n) as i64;
            match r % 5 {
                0 if r == 0 => pipeline.observe(observation(
                    ms,
                    Source::Kube,
                    Body::Pod(Box::new(p.clone())),
                )),
                0 | 3 => pipeline.observe(line(ms, "SyncLoop (PLEG): event for pod", p)),
                _ => {
                    let method = [
                        "ListContainers",
                        "ContainerStatus",
                        "CreateContainer",
                        "ListPodSandbox",
                    ][n % 4];
                    let key = CallKey { conn: 1, stream };
                    stream += 2;
                    let [a, b] = call(ms, key, method, p, u32::from(n % 97 == 0) * 5);
                    pipeline.observe(a);
                    // One call in ten thousand stays in flight.
                    if n % 9973 != 1 {
                        pipeline.observe(b);
                    }
                }
            }
        }
    }
    pipeline
}

/// The snapshot of a pipeline that the terminal would draw.
pub(crate) fn snapshot(pipeline: &mut Pipeline, now: Nanos) -> Snapshot {
    let mode = Mode::paused("churn");
    pipeline.snapshot(now, mode, (BEGIN, now), Vec::new())
}
