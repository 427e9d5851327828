//! The events of a real containerd: exits, an OOM kill, root file systems, an image; and its restart.

use std::time::Duration;

use prost::Message;

use kflow_core::diagnose::cause;
use kflow_engine::Snapshot;
use kflow_engine::live::{Config, Live};
use kflow_engine::record::Options;
use kflow_model::cri::{ContainerEvent, ContainerEventKind as Kind, OOM_KILLED, method};
use kflow_model::runtime::RuntimeEvent;
use kflow_model::{Body, Nanos, Source, session};

use super::cri::{
    Image, Pod, Real, SECRET, call, end_pod, id, runtime, start_pod, start_pod_of, works,
};
use super::life::{answers, block_on, connect, waits};
use super::pulls::{PullImage, Registry};
use crate::proxy::rig::eventually;

/// Returns a container's events: kind, exit code and time.
fn life(s: &Snapshot, pod: &Pod) -> Vec<(Kind, Option<i32>, Nanos)> {
    let events = s.log.iter().filter_map(|o| match &o.body {
        Body::ContainerEvent(e) if e.subject.container_id.as_str() == pod.container => {
            Some((e.kind, e.exit_code, o.stamp.at))
        }
        _ => None,
    });
    events.collect()
}

fn told(s: &Snapshot, topic: &str, is: impl Fn(&RuntimeEvent) -> bool) -> bool {
    s.log
        .iter()
        .any(|o| matches!(&o.body, Body::RuntimeEvent(e) if e.topic == topic && is(e)))
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn exits_oom_kills_and_images_are_known_from_containerd_alone() {
    let real = Real::from_env();
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::with(folder.path(), "events.port", &[1, 10_000, 10_000_000]);
    // The only source is the runtime: no tap, no proxy, no API.
    let live = Live::start(Config {
        runtime: Some(real.socket()),
        ..Config::nothing()
    })
    .unwrap();
    let kept = std::env::var_os("KFLOW_KEEP_SESSION");
    let path = kept.map_or_else(|| folder.path().join("events.kflow.zst"), Into::into);
    live.record(Options {
        path: path.clone(),
        max_size: None,
        pod: None,
        node: "node1".into(),
    })
    .unwrap();
    let events_are = |on: bool| {
        eventually("the events are on, or off", || {
            let s = live.snapshot();
            let events = s.sources.iter().find(|c| c.name == "events")?;
            (events.is_on() == on && (on || events.is_off())).then_some(())
        });
    };
    events_are(true);
    let image = registry.image();
    let (three, killed, before) = block_on(async {
        let mut raw = connect(&real.socket()).await;
        let before = kflow_model::clock::now();
        let three = start_pod_of(&mut raw, "exits-three", &["3"], None).await;
        let killed = start_pod_of(&mut raw, "oom", &["oom"], Some(16 << 20)).await;
        let request = PullImage {
            image: Some(Image { image }),
            sandbox_config: None,
        };
        let pull = runtime(method::PULL_IMAGE).replace("RuntimeService", "ImageService");
        let pulled = raw
            .call(&pull, &request.encode_to_vec(), &[])
            .await
            .unwrap();
        assert_eq!(pulled.trailer("grpc-status"), Some("0"), "{pulled:?}");
        (three, killed, before)
    });
    let exited = eventually("an exit with 3", || {
        let all = life(&live.snapshot(), &three);
        all.iter().find(|(k, ..)| *k == Kind::Stopped).copied()
    });
    assert_eq!(exited.1, Some(3));
    let s = eventually("an OOM kill, and whose it is", || {
        let s = live.snapshot();
        let kinds: Vec<Kind> = life(&s, &killed).iter().map(|(k, ..)| *k).collect();
        let pod = s.world.pods().iter().find(|p| p.name == "oom")?;
        let known = pod.containers.iter().any(|c| c.last_exit == Some(137));
        (kinds.contains(&Kind::Oom) && kinds.contains(&Kind::Stopped) && known).then_some(s)
    });
    // The event's time equals the time in the runtime's container status, to the nanosecond.
    let finished = block_on(async {
        #[derive(Clone, PartialEq, Message)]
        struct Status {
            #[prost(int64, tag = "6")]
            finished: i64,
            #[prost(int32, tag = "7")]
            code: i32,
            #[prost(string, tag = "10")]
            reason: String,
        }
        #[derive(Clone, PartialEq, Message)]
        struct Answer {
            #[prost(message, tag = "1")]
            status: Option<Status>,
        }
        let mut raw = connect(&real.socket()).await;
        let mut all = Vec::new();
        for pod in [&three, &killed] {
            let answer = call(&mut raw, "ContainerStatus", &id(&pod.container)).await;
            let status = Answer::decode(answer.message()).unwrap().status.unwrap();
            all.push((status.finished, status.code, status.reason));
        }
        all
    });
    let stopped = |pod: &Pod| {
        let all = life(&s, pod);
        all.iter().find(|(k, ..)| *k == Kind::Stopped).unwrap().2
    };
    assert_eq!(
        finished,
        [
            (stopped(&three).0, 3, "Error".to_owned()),
            (stopped(&killed).0, 137, OOM_KILLED.to_owned()),
        ]
    );
    assert!(stopped(&three) > before);
    // The verdict and the timeline follow from the events alone.
    let pod = s.world.pods().iter().find(|p| p.name == "oom").unwrap();
    let run = pod.timeline.spans.iter().find(|s| s.is_run()).unwrap();
    assert_eq!(
        (run.code.as_str(), run.message.as_str()),
        ("137", OOM_KILLED)
    );
    assert_eq!(run.end.unwrap().at, stopped(&killed));
    let marks: Vec<&str> = pod.timeline.marks.iter().map(|m| m.text.as_str()).collect();
    for wanted in ["OOM kill", "root file system prepared", "task created (pid"] {
        assert!(
            marks.iter().any(|m| m.starts_with(wanted)),
            "{wanted}: {marks:?}"
        );
    }
    eventually("the verdict names the OOM kill", || {
        let s = live.snapshot();
        s.verdicts
            .values()
            .any(|v| v.cause == Some(cause::KF709))
            .then_some(())
    });
    eventually("the image is told", || {
        told(&live.snapshot(), "/images/create", |e| {
            e.name.contains("slow/app")
        })
        .then_some(())
    });
    assert!(told(&s, "/snapshot/prepare", |e| e.container_id.as_str()
        == killed.container));

    // A restart of the runtime is reported as a loss, and afterwards events come again.
    real.stop();
    events_are(false);
    real.start();
    events_are(true);
    block_on(async {
        let mut raw = answers(&real).await;
        let after = start_pod(&mut raw, "after-restart").await;
        waits("what starts after the restart is told", || {
            life(&live.snapshot(), &after)
                .iter()
                .any(|(k, ..)| *k == Kind::Started)
                .then_some(())
        });
        for pod in [&three, &killed, &after] {
            end_pod(&mut raw, pod).await;
        }
        works(&mut raw, "Version", &id("")).await;
        waits("its deletion is told", || {
            life(&live.snapshot(), &after)
                .iter()
                .any(|(k, ..)| *k == Kind::Deleted)
                .then_some(())
        });
    });
    live.stop_recording(Duration::from_secs(60)).unwrap();
    let recorded = session::load(&path).unwrap().observations;
    let gaps = recorded
        .iter()
        .filter(|o| matches!(&o.body, Body::Gap(g) if g.of == Source::Runtime));
    assert!(gaps.count() >= 2, "its end, and until when");
    let text = serde_json::to_string(&recorded).unwrap();
    assert!(
        !text.contains(SECRET),
        "environment values are never observed"
    );
    let own = |e: &ContainerEvent| e.key.conn == 0;
    assert!(
        recorded
            .iter()
            .all(|o| !matches!(&o.body, Body::ContainerEvent(e) if !own(e)))
    );
}
