//! Pods that start and end, restarts of the runtime and the proxy, and load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use kflow_cri::Decoder;
use kflow_engine::live::{Config, Live};
use kflow_engine::record::Options;
use kflow_model::cri::CallOutcome;
use kflow_model::session;
use kflow_model::{Body, Source};
use kflow_proxy::Proxy;

use super::cri::{
    IMAGE, Image, ImageRequest, Real, SECRET, call, end_pod, id, runtime, start_pod, works,
};
use crate::proxy::h2::{Answer, Raw};
use crate::proxy::rig::{Rig, eventually, gaps, in_ring, observations};

pub(super) fn block_on<T>(f: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(240), f)
            .await
            .expect("nothing hangs")
    })
}

/// The real runtime behind a proxy.
pub(super) fn rig() -> (Real, Rig) {
    let real = Real::from_env();
    let mut rig = Rig::new();
    rig.config.upstream = real.socket();
    (real, rig)
}

pub(super) async fn connect(path: &std::path::Path) -> Raw {
    // No limit here: the callers have one.
    loop {
        if let Ok(raw) = Raw::connect(path).await {
            return raw;
        }
        tokio::task::block_in_place(|| drop(crate::proxy::rig::connect(path)));
    }
}

/// Waits inside a task without blocking the other tasks of the async runtime.
pub(super) fn waits<T>(what: &str, is: impl FnMut() -> Option<T>) -> T {
    tokio::task::block_in_place(|| eventually(what, is))
}

/// Connects to the runtime, and waits until it answers after a restart.
pub(super) async fn answers(real: &Real) -> Raw {
    loop {
        let mut raw = connect(&real.socket()).await;
        let version = call(&mut raw, "Version", &id("")).await;
        if version.trailer("grpc-status") == Some("0") {
            return raw;
        }
    }
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn a_pods_whole_life_passes_and_every_answer_is_that_of_a_direct_connection() {
    let (real, rig) = rig();
    let proxy = rig.start(Decoder::new());
    block_on(async {
        let mut proxied = connect(&rig.config.listen).await;
        let mut direct = connect(&real.socket()).await;
        let pod = start_pod(&mut proxied, "whole-life").await;
        // The same question directly and through the proxy, while nothing changes.
        let image = ImageRequest {
            image: Some(Image {
                image: IMAGE.into(),
            }),
        };
        let verbose = super::cri::Id {
            id: pod.container.clone(),
            timeout: 1,
        };
        let mut both: Vec<(&str, Answer, Answer)> = Vec::new();
        for method in [
            "Version",
            "Status",
            "ListPodSandbox",
            "ListContainers",
            "NoSuchMethod",
        ] {
            let a = call(&mut direct, method, &id("")).await;
            both.push((method, a, call(&mut proxied, method, &id("")).await));
        }
        for (method, request) in [
            ("ContainerStatus", &verbose),
            ("ContainerStatus", &id("nobody")),
            ("StopContainer", &id("nobody")),
        ] {
            let a = call(&mut direct, method, request).await;
            both.push((method, a, call(&mut proxied, method, request).await));
        }
        for method in [
            "/runtime.v1.ImageService/ImageStatus",
            "/runtime.v1.ImageService/ListImages",
            "/no.such.Service/Method",
        ] {
            let a = call(&mut direct, method, &image).await;
            both.push((method, a, call(&mut proxied, method, &image).await));
        }
        // Labels and the verbose part are maps, which Go writes in any order, so the test compares the sorted bytes.
        // The tees in proxy::grpc check that the proxy changes no byte.
        for (method, mut direct, mut proxied) in both {
            for answer in [&mut direct, &mut proxied] {
                let mut bytes = answer.bytes.to_vec();
                bytes.sort_unstable();
                answer.bytes = bytes.into();
            }
            assert_eq!(direct, proxied, "{method}");
        }
        end_pod(&mut proxied, &pod).await;
        let gone = call(&mut direct, "ContainerStatus", &id(&pod.container)).await;
        assert_eq!(
            gone.trailer("grpc-status"),
            Some("5"),
            "the container is gone for all"
        );
    });
    let all = eventually("everything was decoded", || {
        let all = observations(&proxy);
        let count = |is: fn(&Body) -> bool| all.iter().filter(|o| is(&o.body)).count();
        let last = count(|b| matches!(b, Body::CallStart(c) if c.method == "RemovePodSandbox"));
        let begun = count(|b| matches!(b, Body::CallStart(_)));
        (last > 0 && begun == count(|b| matches!(b, Body::CallEnd(_)))).then_some(all)
    });
    assert_eq!(gaps(&proxy), vec![]);
    let methods: Vec<String> = all
        .iter()
        .filter_map(|o| match &o.body {
            Body::CallStart(c) => Some(c.method.to_string()),
            _ => None,
        })
        .collect();
    for wanted in [
        "RunPodSandbox",
        "CreateContainer",
        "StartContainer",
        "StopContainer",
        "RemovePodSandbox",
        "/no.such.Service/Method",
    ] {
        assert!(
            methods.iter().any(|m| m == wanted),
            "{wanted} was seen: {methods:?}"
        );
    }
    let text = serde_json::to_string(&all).unwrap();
    assert!(
        !text.contains(SECRET),
        "environment values are never observed"
    );
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn what_was_seen_live_is_what_the_recording_shows() {
    let (real, rig) = rig();
    let proxy = rig.start(Decoder::new());
    let file = rig.path("run.kflow.zst");
    let config = Config {
        proxy: rig.config.serve.clone(),
        runtime: Some(real.socket()),
        ..Config::nothing()
    };
    let live = Live::start(config).unwrap();
    let options = Options {
        path: file.clone(),
        max_size: None,
        pod: None,
        node: "node".into(),
    };
    live.record(options).unwrap();
    block_on(async {
        let mut raw = connect(&rig.config.listen).await;
        for name in ["one", "two", "three"] {
            let pod = start_pod(&mut raw, name).await;
            works(&mut raw, "ListContainers", &id("")).await;
            end_pod(&mut raw, &pod).await;
            assert_eq!(pod.name, name);
        }
        works(&mut raw, "Version", &id("")).await;
    });
    let seen = eventually("the engine has seen the end", || {
        let snapshot = live.snapshot();
        let removed = snapshot
            .log
            .iter()
            .filter(|o| matches!(&o.body, Body::CallEnd(_)))
            .count();
        (removed >= 28).then_some(snapshot)
    });
    assert_eq!(seen.world.pods().len(), 3);
    let inventory = seen
        .sources
        .iter()
        .find(|s| s.source == Source::Runtime)
        .unwrap();
    assert!(inventory.is_on(), "{inventory:?}");
    // A stopped proxy sends no more observations.
    proxy.stop();
    eventually("the proxy's end was noticed", || {
        live.snapshot()
            .sources
            .iter()
            .any(|s| s.name == "proxy" && s.is_off())
            .then_some(())
    });
    live.stop_recording(Duration::from_secs(60)).unwrap();
    let live_world = Arc::clone(&live.snapshot().world);
    let recorded = session::load(&file).unwrap();
    let mut world = kflow_core::correlate::World::new();
    for o in &recorded.observations {
        world.observe(o);
    }
    world.refresh();
    assert_eq!(world.pods().len(), live_world.pods().len());
    for (a, b) in live_world.pods().iter().zip(world.pods()) {
        assert_eq!((&a.uid, &a.stages), (&b.uid, &b.stages));
        assert_eq!(a.timeline, b.timeline, "timeline of {}", a.key());
        assert!(a.timeline.spans.len() > 5, "{:?}", a.timeline.spans.len());
    }
}

/// How many of one client's calls worked and failed.
#[derive(Clone, Copy, Default)]
struct Calls {
    worked: usize,
    failed: usize,
}

/// Waits until `is` holds for each client.
async fn all(clients: &[watch::Sender<Calls>], is: impl Fn(&Calls) -> bool) {
    for c in clients {
        c.subscribe().wait_for(&is).await.unwrap();
    }
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn a_runtime_that_is_killed_under_load_fails_calls_and_hangs_none() {
    let (real, mut rig) = rig();
    // Twenty clients call without a pause: the ring has no limit, so that it keeps everything on a
    // machine of any speed.
    rig.config.ring_bytes = usize::MAX;
    let proxy = rig.start(Decoder::new());
    block_on(async {
        let clients: Vec<watch::Sender<Calls>> =
            (0..20).map(|_| watch::Sender::default()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = tokio::task::JoinSet::new();
        for client in &clients {
            let (path, client) = (rig.config.listen.clone(), client.clone());
            let stop = Arc::clone(&stop);
            tasks.spawn(async move {
                let mut raw = connect(&path).await;
                while !stop.load(Ordering::Relaxed) {
                    if raw.call(&runtime("ListContainers"), b"", &[]).await.is_ok() {
                        client.send_modify(|c| c.worked += 1);
                    } else {
                        client.send_modify(|c| c.failed += 1);
                        raw = connect(&path).await;
                    }
                }
            });
        }
        all(&clients, |c| c.worked > 1).await;
        tokio::task::block_in_place(|| real.stop());
        let refused = Raw::connect(&rig.config.listen).await;
        real.start();
        // A client that connects just before the proxy notices the runtime's end is cut off,
        // and tries again (docs/proxy.md).
        loop {
            let mut raw = connect(&rig.config.listen).await;
            if raw.call(&runtime("Version"), b"", &[]).await.is_ok() {
                break;
            }
        }
        all(&clients, |c| c.failed > 0).await;
        stop.store(true, Ordering::Relaxed);
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        drop(refused);
    });
    // Stopping the proxy lets the decoder finish its queue.
    let ring = Arc::clone(&proxy.ring);
    proxy.stop();
    let lost = in_ring(&ring).iter().any(|o| {
        matches!(&o.body, Body::CallEnd(c) if c.outcome == CallOutcome::ConnectionClosed)
            || matches!(&o.body, Body::Conn(c) if !c.open)
    });
    assert!(lost, "the broken connections are told");
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn a_proxy_that_is_restarted_costs_one_reconnection() {
    let (_real, rig) = rig();
    let proxy = rig.start(Decoder::new());
    block_on(async {
        let mut raw = connect(&rig.config.listen).await;
        let pod = start_pod(&mut raw, "survivor").await;
        tokio::task::block_in_place(|| proxy.stop());
        assert!(raw.call(&runtime("Version"), b"", &[]).await.is_err());
        let _proxy: Proxy = rig.start(Decoder::new());
        let mut raw = connect(&rig.config.listen).await;
        end_pod(&mut raw, &pod).await;
    });
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn two_hundred_calls_at_once_and_fifty_connections() {
    let (_real, rig) = rig();
    let proxy = rig.start(Decoder::new());
    block_on(async {
        let mut raws = vec![connect(&rig.config.listen).await; 200];
        for _ in 0..49 {
            raws.push(connect(&rig.config.listen).await);
        }
        let mut tasks = tokio::task::JoinSet::new();
        for mut raw in raws {
            tasks.spawn(async move { works(&mut raw, "ListPodSandbox", &id("")).await });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    });
    eventually("every call was decoded", || {
        let ends = observations(&proxy)
            .iter()
            .filter(|o| matches!(&o.body, Body::CallEnd(c) if c.code == Some(0)))
            .count();
        (ends == 249).then_some(())
    });
    assert_eq!(gaps(&proxy), vec![]);
}
