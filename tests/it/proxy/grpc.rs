//! gRPC through the proxy, with a tee on each side of it: both tees see the same bytes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;

use http_body_util::BodyExt;
use kflow_cri::Decoder;
use kflow_model::cri::CallOutcome;
use kflow_model::{Body, Observation};
use tokio::net::UnixListener;

use super::h2::{Answer, EVENTS, Raw, Seen, framed, serve};
use super::rig::{PATIENCE, Rig, connect, eventually, in_ring, noise};

/// The bytes that passed a tee: by connection, then by direction.
type Tape = Arc<Mutex<BTreeMap<usize, [Vec<u8>; 2]>>>;

/// Forwards between a listening socket and an upstream one, and records every byte.
fn tee(listen: &Path, upstream: &Path) -> Tape {
    let listener = StdListener::bind(listen).unwrap();
    let upstream = upstream.to_owned();
    let tape = Tape::default();
    let all = Arc::clone(&tape);
    thread::spawn(move || {
        for (n, client) in listener.incoming().enumerate() {
            let client = client.unwrap();
            let server = connect(&upstream);
            server.set_read_timeout(None).unwrap();
            for (way, from, to) in [
                (0, client.try_clone().unwrap(), server.try_clone().unwrap()),
                (1, server, client),
            ] {
                let tape = Arc::clone(&all);
                thread::spawn(move || copy(from, to, &tape, n, way));
            }
        }
    });
    tape
}

fn copy(mut from: StdStream, mut to: StdStream, tape: &Tape, n: usize, way: usize) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(len) = from.read(&mut buffer)
        && len > 0
    {
        tape.lock().unwrap().entry(n).or_default()[way].extend_from_slice(&buffer[..len]);
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Write).ok();
}

/// Runs `play` against the server behind tee, proxy and tee. Returns what the proxy observed, and what `play` returned.
fn scene<F: Future>(
    play: impl FnOnce(std::path::PathBuf, std::path::PathBuf, Arc<Seen>) -> F,
) -> (Vec<Observation>, F::Output) {
    let mut rig = Rig::new();
    let server_path = rig.path("server.sock");
    rig.config.upstream = rig.path("behind.sock");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let seen = Arc::new(Seen::default());
    {
        let _guard = runtime.enter();
        let listener = UnixListener::bind(&server_path).unwrap();
        let canned = [("/t/Big", framed(&noise(16, 16 << 20)))];
        serve(listener, Arc::clone(&seen), Arc::new(canned.into()));
    }
    let behind = tee(&rig.config.upstream, &server_path);
    let proxy = rig.start(Decoder::new());
    let before = tee(&rig.path("before.sock"), &rig.config.listen);
    let result = runtime.block_on(async {
        tokio::time::timeout(
            PATIENCE,
            play(rig.path("before.sock"), server_path, Arc::clone(&seen)),
        )
        .await
        .expect("nothing hangs")
    });
    drop(runtime);
    eventually("all connections end", || {
        (kflow_proxy::Counters::get(&proxy.counters.connections) == 0).then_some(())
    });
    // The proxy's own probes are connections without bytes.
    let of = |tape: &Tape| {
        tape.lock()
            .unwrap()
            .values()
            .filter(|t| !t[0].is_empty())
            .cloned()
            .collect::<Vec<_>>()
    };
    eventually("both sides of the proxy saw the same bytes", || {
        let (mut before, mut behind) = (of(&before), of(&behind));
        before.sort();
        behind.sort();
        (before == behind && !before.is_empty()).then_some(())
    });
    // A stopped proxy adds nothing to its ring.
    let ring = Arc::clone(&proxy.ring);
    proxy.stop();
    let observed = in_ring(&ring);
    let gaps = observed.iter().filter(|o| matches!(o.body, Body::Gap(_)));
    assert_eq!(gaps.count(), 0);
    (observed, result)
}

fn ends(all: &[Observation]) -> Vec<(Option<u32>, CallOutcome, u64)> {
    let mut ends: Vec<_> = all
        .iter()
        .filter_map(|o| match &o.body {
            Body::CallEnd(c) => Some((c.code, c.outcome, c.response_bytes)),
            _ => None,
        })
        .collect();
    ends.sort();
    ends
}

const ALL: [(&str, usize); 4] = [
    ("/t/Echo", 1000),
    ("/t/Big", 0),
    ("/t/Stream", 10),
    ("/other.Service/Method", 3),
];
const META: [(&str, &str); 3] = [
    ("x-text", "kept as it is"),
    ("x-some-bin", "AAECAw"),
    ("grpc-timeout", "120000m"),
];

#[test]
fn answers_headers_trailers_and_large_messages_are_those_of_a_direct_connection() {
    let (observed, (direct, proxied)) = scene(|before, server, _| async move {
        let mut answers: Vec<Vec<Answer>> = Vec::new();
        for path in [&server, &before] {
            let mut raw = Raw::connect(path).await.unwrap();
            let mut got = Vec::new();
            for (method, len) in ALL {
                got.push(raw.call(method, &noise(7, len), &META).await.unwrap());
            }
            answers.push(got);
        }
        (answers.remove(0), answers.remove(0))
    });
    assert!(direct == proxied, "the answers differ");
    assert_eq!(direct[1].bytes.len(), (16 << 20) + 5);
    assert_eq!(direct[2].bytes.len(), 2000 * 9);
    assert_eq!(direct[3].trailer("grpc-status"), Some("12"));
    assert!(
        direct[0]
            .headers
            .iter()
            .any(|(k, v)| k == "x-got-x-some-bin" && v == "AAECAw")
    );
    assert!(direct[0].trailers.iter().any(|(k, _)| k == "x-trailer-bin"));
    let codes: Vec<_> = ends(&observed).iter().map(|(code, ..)| *code).collect();
    assert_eq!(codes, [Some(0), Some(0), Some(0), Some(12)]);
    assert!(ends(&observed).iter().any(|(.., bytes)| *bytes == 16 << 20));
}

#[test]
fn cancellation_and_deadline_reach_the_server_as_they_would_without_the_proxy() {
    let (observed, ()) = scene(|before, _, seen| async move {
        let mut raw = Raw::connect(&before).await.unwrap();
        // A client that gives up a call resets its stream, for example when its deadline has passed.
        for n in 1..=3 {
            let mut giving_up = raw.clone();
            let call = tokio::spawn(async move {
                giving_up
                    .call("/t/Never", b"", &[("grpc-timeout", "50m")])
                    .await
            });
            while seen.waiting.load(Ordering::SeqCst) < n {
                tokio::task::yield_now().await;
            }
            call.abort();
            while seen.cancelled.load(Ordering::SeqCst) < n {
                tokio::task::yield_now().await;
            }
        }
        // The connection stays usable.
        let after = raw.call("/t/Echo", b"still here", &[]).await.unwrap();
        assert_eq!(after.message(), b"still here");
    });
    let resets = ends(&observed)
        .iter()
        .filter(|(_, how, _)| *how == CallOutcome::ClientReset)
        .count();
    assert_eq!(resets, 3);
}

/// Makes a call that is never answered, from a client with a deadline of its own. Returns the client's code, and the
/// status on the wire.
async fn overdue(path: std::path::PathBuf) -> (tonic::Code, String) {
    let channel = tonic::transport::Endpoint::from_static("http://localhost")
        .connect_with_connector(tower::service_fn(move |_: tonic::codegen::http::Uri| {
            let path = path.clone();
            async move {
                let stream = tokio::net::UnixStream::connect(path).await?;
                Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        }))
        .await
        .unwrap();
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let mut request = tonic::Request::new(());
    request.set_timeout(std::time::Duration::from_millis(20));
    let path = tonic::codegen::http::uri::PathAndQuery::from_static("/t/Never");
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let status = grpc.unary(request, path, codec).await.unwrap_err();
    (status.code(), status.message().to_owned())
}

#[test]
fn a_deadline_ends_a_call_as_on_a_direct_connection_and_the_server_hears_of_it() {
    let (observed, (direct, proxied)) = scene(|before, server, seen| async move {
        let direct = overdue(server).await;
        let proxied = overdue(before).await;
        while seen.cancelled.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        (direct, proxied)
    });
    assert_eq!(direct, proxied);
    let deadlines = observed.iter().filter_map(|o| match &o.body {
        Body::CallStart(c) => Some(c.timeout_ns),
        _ => None,
    });
    assert_eq!(deadlines.collect::<Vec<_>>(), [Some(20_000_000)]);
    assert_eq!(ends(&observed).len(), 1);
}

#[test]
fn each_event_of_a_stream_passes_as_it_is_sent() {
    use kflow_model::cri::ContainerEventKind as Kind;
    /// The fields of `ContainerEventResponse` that this test sends.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Event {
        #[prost(string, tag = "1")]
        id: String,
        #[prost(int32, tag = "2")]
        kind: i32,
        #[prost(int64, tag = "3")]
        created_at: i64,
    }
    let (observed, ()) = scene(|before, _, seen| async move {
        let (to, events) = tokio::sync::mpsc::unbounded_channel();
        *seen.events.lock().unwrap() = Some(events);
        let mut raw = Raw::connect(&before).await.unwrap();
        let mut body = raw.start(EVENTS, b"", &[]).await.unwrap().into_body();
        for n in 0..100 {
            let event = Event {
                id: format!("{n:064x}"),
                kind: n % 4,
                created_at: 1_795_225_509_000_000_000 + i64::from(n),
            };
            let sent = framed(&prost::Message::encode_to_vec(&event));
            // The test sends the next event only after this one has arrived: the proxy holds nothing back.
            to.send(sent.clone()).unwrap();
            let got = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(got, sent);
        }
        // The client closes the stream, and the server notices.
        drop(body);
        while seen.cancelled.load(Ordering::SeqCst) < 1 {
            tokio::task::yield_now().await;
        }
    });
    let kinds: Vec<_> = observed
        .iter()
        .filter_map(|o| match &o.body {
            Body::ContainerEvent(e) => Some(e.kind),
            _ => None,
        })
        .collect();
    assert_eq!(kinds.len(), 100);
    assert_eq!(
        &kinds[..4],
        [Kind::Created, Kind::Started, Kind::Stopped, Kind::Deleted]
    );
    assert!(
        ends(&observed)
            .iter()
            .any(|(_, how, _)| *how == CallOutcome::ClientReset)
    );
}

#[test]
fn two_hundred_calls_at_once_on_one_connection_and_fifty_connections() {
    let (observed, ()) = scene(|before, _, _| async move {
        let mut tasks = tokio::task::JoinSet::new();
        let one = Raw::connect(&before).await.unwrap();
        let mut raws = vec![one; 200];
        for _ in 0..49 {
            raws.push(Raw::connect(&before).await.unwrap());
        }
        for (n, mut raw) in raws.into_iter().enumerate() {
            tasks.spawn(async move {
                let message = noise(n as u64, 5000 + n * 100);
                let answer = raw.call("/t/Echo", &message, &[]).await.unwrap();
                assert!(answer.message() == message, "call {n} got another answer");
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    });
    assert_eq!(ends(&observed).len(), 249);
}

#[test]
fn a_client_that_reads_slowly_gets_every_message_of_a_stream() {
    scene(|before, _, _| async move {
        let mut raw = Raw::connect(&before).await.unwrap();
        let mut body = raw.start("/t/Big", b"", &[]).await.unwrap().into_body();
        let mut all = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.unwrap().into_data() {
                all.extend_from_slice(&data);
                // Other calls are served meanwhile, on the same connection too.
                let echo = raw.call("/t/Echo", b"meanwhile", &[]).await.unwrap();
                assert_eq!(echo.message(), b"meanwhile");
            }
        }
        assert!(all == framed(&noise(16, 16 << 20)));
    });
}
