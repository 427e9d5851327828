//! The observation service.

use std::time::Duration;

use kflow_model::gap::Note;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};
use kflow_serve::wire::{Batch, SubscribeRequest};
use kflow_sources::proxy::Client;
use tonic::Streaming;

use super::rig::{PATIENCE, Rig, Tape};

fn note(text: &str) -> Observation {
    Observation {
        stamp: Stamp::exact(Nanos(1)),
        source: Source::Kflow,
        body: Body::Note(Box::new(Note {
            text: Text::from(text),
        })),
    }
}

fn notes(batch: &Batch) -> Vec<String> {
    let bodies = batch
        .lines
        .iter()
        .map(|l| serde_json::from_slice::<Observation>(l).unwrap().body);
    bodies
        .map(|b| match b {
            Body::Note(n) => n.text.to_string(),
            Body::Gap(g) => format!("gap {}", g.lost),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Returns the next batch that has lines: the service reports an empty ring by a batch without lines.
async fn next(stream: &mut Streaming<Batch>) -> Option<Batch> {
    loop {
        let batch = tokio::time::timeout(PATIENCE, stream.message()).await;
        let batch = batch.expect("in time").unwrap();
        if batch.as_ref().is_none_or(|b| !b.lines.is_empty()) {
            return batch;
        }
    }
}

fn block_on<T>(f: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(f)
}

const ALL: SubscribeRequest = SubscribeRequest {
    from: 0,
    epoch: 0,
    only_new: false,
    since: 0,
};

#[test]
fn a_late_subscriber_gets_the_last_minutes_and_then_what_is_new() {
    let rig = Rig::new();
    let proxy = rig.start(Tape::default());
    proxy
        .ring
        .push(&mut vec![note("before")], kflow_model::clock::monotonic());
    block_on(async {
        let mut client = Client::connect(&rig.path("obs.sock")).await.unwrap();
        let mut all = client.subscribe(ALL).await.unwrap();
        let mut only_new = client
            .subscribe(SubscribeRequest {
                only_new: true,
                ..ALL
            })
            .await
            .unwrap();
        let first = next(&mut all).await.unwrap();
        assert_eq!(notes(&first), ["before"]);
        // The second subscriber has its position once the service counts both.
        while client.info().await.unwrap().subscribers < 2 {}
        tokio::time::timeout(Duration::from_millis(50), only_new.message())
            .await
            .unwrap_err();
        proxy
            .ring
            .push(&mut vec![note("after")], kflow_model::clock::monotonic());
        assert_eq!(notes(&next(&mut all).await.unwrap()), ["after"]);
        assert_eq!(notes(&next(&mut only_new).await.unwrap()), ["after"]);

        let again = SubscribeRequest {
            from: first.next,
            epoch: first.epoch,
            ..ALL
        };
        let mut resumed = client.subscribe(again).await.unwrap();
        assert_eq!(notes(&next(&mut resumed).await.unwrap()), ["after"]);
        let other_epoch = SubscribeRequest {
            epoch: first.epoch + 1,
            ..again
        };
        let mut restarted = client.subscribe(other_epoch).await.unwrap();
        assert_eq!(
            notes(&next(&mut restarted).await.unwrap()),
            ["before", "after"]
        );

        let info = client.info().await.unwrap();
        assert_eq!((info.ring_lines, info.upstream_up), (2, false));
        assert!(info.ring_age_ns > 0);
        assert_eq!(info.listen, rig.config.listen.display().to_string());
    });
}

#[test]
fn a_subscriber_that_does_not_read_loses_lines_and_is_told_while_others_lose_nothing() {
    let mut rig = Rig::new();
    rig.config.ring_bytes = 4 << 20;
    rig.config.serve = Some(rig.path("obs.sock"));
    let proxy = rig.start(Tape::default());
    block_on(async {
        let mut stopped_client = Client::connect(&rig.path("obs.sock")).await.unwrap();
        let mut stopped = stopped_client.subscribe(ALL).await.unwrap();
        let mut client = Client::connect(&rig.path("obs.sock")).await.unwrap();
        let mut reads = client.subscribe(ALL).await.unwrap();
        // 40 MiB in lines of 64 KiB that hardly compress, through a ring of 4 MiB.
        let mut seen = 0;
        let mut random = fastrand::Rng::with_seed(1);
        for n in 0..640 {
            let any: String = (0..64 << 10).map(|_| random.alphanumeric()).collect();
            let text = format!("{n} {any}");
            proxy
                .ring
                .push(&mut vec![note(&text)], kflow_model::clock::monotonic());
            while seen <= n {
                let batch = next(&mut reads).await.unwrap();
                assert_eq!(batch.lost, 0);
                for text in notes(&batch) {
                    assert!(text.starts_with(&format!("{seen} ")));
                    seen += 1;
                }
            }
        }
        let (mut got, mut lost, mut told) = (0, 0, 0);
        while got + lost < 640 {
            let batch = next(&mut stopped).await.unwrap();
            lost += batch.lost;
            for text in notes(&batch) {
                match text.strip_prefix("gap ") {
                    Some(n) => told += n.parse::<u64>().unwrap(),
                    None => got += 1,
                }
            }
        }
        assert!(
            lost > 0 && told == lost,
            "lost {lost}, told {told}, got {got}"
        );
    });
}

#[test]
fn subscribers_read_the_rest_when_the_proxy_stops() {
    let rig = Rig::new();
    let proxy = rig.start(Tape::default());
    block_on(async {
        let mut client = Client::connect(&rig.path("obs.sock")).await.unwrap();
        let mut stream = client.subscribe(ALL).await.unwrap();
        proxy.ring.push(
            &mut vec![note("last words")],
            kflow_model::clock::monotonic(),
        );
        let stopping = std::thread::spawn(|| proxy.stop());
        assert_eq!(notes(&next(&mut stream).await.unwrap()), ["last words"]);
        assert_eq!(next(&mut stream).await, None);
        drop((stream, client));
        stopping.join().unwrap();
    });
}
