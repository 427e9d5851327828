//! The two connections to a container runtime: its calls by way of `kflow proxy`, and the lists that kflow asks it for.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use serde_json::Value;

use super::super::carriers::{self, otlp::field};
use super::Stage;
use crate::proxy::rig::eventually;

/// How long a new connection may take to send [`OPENING`] before it counts as another client's and is closed.
const SOON: Duration = Duration::from_secs(2);

/// Replays recorded bytes between a kubelet and a runtime through `kflow proxy`.
pub(super) fn proxied(stage: &mut Stage) -> PathBuf {
    let (listen, upstream, serve) = (
        stage.path("cri.sock"),
        stage.path("up.sock"),
        stage.path("observations.sock"),
    );
    let runtime = UnixListener::bind(&upstream).unwrap();
    let log = fs::File::create(stage.path("proxy.log")).unwrap();
    let child = stage
        .command()
        .args([
            "proxy",
            "--listen",
            &listen,
            "--upstream",
            &upstream,
            "--serve",
            &serve,
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    stage.children.push(child);
    let capture = carriers::cri_bytes(&mut stage.c);
    // The thread ends with the process, or when it has played everything.
    thread::spawn(move || {
        let ends = play(&capture, &listen, &runtime);
        // Connections stay open until the test ends.
        thread::park();
        drop(ends);
    });
    stage.args(&["--proxy", &serve]);
    serve.into()
}

/// Replays the bytes between a client and a runtime again and again: the tap sees a connection whole only when it
/// begins after the tap was loaded.
pub(super) fn tapped(stage: &mut Stage) {
    let path = stage.path("tapped.sock");
    let runtime = UnixListener::bind(&path).unwrap();
    let capture = carriers::cri_bytes(&mut stage.c);
    stage.args(&["--no-api", "--tap", "ebpf", "--runtime", &path]);
    stage.wanted.push("\"CreateContainer\"");
    // The thread ends with the process.
    thread::spawn(move || {
        loop {
            drop(play(&capture, &path, &runtime));
            thread::park_timeout(Duration::from_millis(200));
        }
    });
}

/// The first bytes of every client in the captures, in one write or in two: grpc-go's preface and empty SETTINGS.
/// kflow's own clients send the same preface but other SETTINGS.
const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Both ends of one connection of a capture.
struct Ends {
    client: UnixStream,
    server: UnixStream,
    /// How many bytes of [`OPENING`] the capture has sent so far.
    opened: usize,
}

/// Connects to `listen`. Closes other connections to the runtime behind it, such as kflow's own requests.
fn connect(listen: &str, runtime: &UnixListener) -> Ends {
    let client = eventually("somebody listens", || UnixStream::connect(listen).ok());
    (&client).write_all(OPENING).unwrap();
    loop {
        let (server, _) = runtime.accept().unwrap();
        server.set_read_timeout(Some(SOON)).unwrap();
        let mut first = vec![0; OPENING.len()];
        if (&server).read_exact(&mut first).is_ok() && first == OPENING {
            server.set_read_timeout(None).unwrap();
            return Ends {
                client,
                server,
                opened: 0,
            };
        }
    }
}

/// Replays a capture between a client that connects to `listen` and the runtime that listens behind it; returns the
/// connections by number.
fn play(capture: &[u8], listen: &str, runtime: &UnixListener) -> BTreeMap<u64, Ends> {
    let mut connections = BTreeMap::new();
    for line in capture.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let line: Value = serde_json::from_slice(line).unwrap();
        let Some(bytes) = line["b64"].as_str() else {
            continue;
        };
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(bytes)
            .unwrap();
        let ends = connections
            .entry(line["conn"].as_u64().unwrap())
            .or_insert_with(|| connect(listen, runtime));
        let (mut from, mut to, passed) = match line["dir"].as_str() {
            Some("c2s") => {
                let passed = bytes.len().min(OPENING.len() - ends.opened);
                let of_opening = &OPENING[ends.opened..ends.opened + passed];
                assert_eq!(&bytes[..passed], of_opening, "a client of another kind");
                ends.opened += passed;
                (&ends.client, &ends.server, passed)
            }
            _ => (&ends.server, &ends.client, 0),
        };
        from.write_all(&bytes[passed..]).unwrap();
        to.read_exact(&mut vec![0; bytes.len() - passed]).unwrap();
    }
    connections
}

/// Starts a runtime that lists what exists, with canaries in labels, annotations and images.
pub(super) fn runtime(stage: &mut Stage) -> PathBuf {
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use prost::bytes::Bytes;
    use tonic::codegen::http::{HeaderMap, Request, Response};

    let c = &mut stage.c;
    let pair =
        |key: &str, value: &str| [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
    let metadata = [
        field(1, b"carrier"),
        field(2, b"c0ffee00-0000-4000-8000-000000000007"),
        field(3, b"canaries"),
    ]
    .concat();
    let id = "5".repeat(64);
    let sandbox = [
        field(1, id.as_bytes()),
        field(2, &metadata),
        field(5, &pair("api-token", &c.put("label of a sandbox"))),
        field(6, &pair("note", &c.put("annotation of a sandbox"))),
        field(7, b"runc"),
    ]
    .concat();
    let image = format!(
        "user:{}@reg.example/app:1",
        c.put("image of a container of the runtime")
    );
    let container = [
        field(1, "6".repeat(64).as_bytes()),
        field(2, id.as_bytes()),
        field(3, &field(1, b"c")),
        field(
            4,
            &[
                field(1, image.as_bytes()),
                field(2, &pair("a", &c.put("annotation of an image"))),
            ]
            .concat(),
        ),
        field(5, image.as_bytes()),
        field(8, &pair("api-token", &c.put("label of a container"))),
        field(9, &pair("note", &c.put("annotation of a container"))),
    ]
    .concat();
    // containerd's events: an image with labels, the parent of a container's root file system.
    let event = |topic: &str, event: &[Vec<u8>]| {
        let any = [field(1, b"containerd.events.X"), field(2, &event.concat())];
        let parts = [
            field(1, &[1 << 3, 100]),
            field(2, b"k8s.io"),
            field(3, topic.as_bytes()),
            field(4, &any.concat()),
        ];
        parts.concat()
    };
    let named = format!("user:{}@reg.example/app:1", c.put("image of an event"));
    let label = pair("api-token", &c.put("label of an image of an event"));
    let environment = c.put("root file system of a task");
    let events = [
        event(
            "/images/create",
            &[field(1, named.as_bytes()), field(2, &label)],
        ),
        event(
            "/snapshot/prepare",
            &[
                field(
                    1,
                    format!("extract-1 token={}", c.put("key of a snapshot")).as_bytes(),
                ),
                field(5, b"native"),
            ],
        ),
        event(
            "/tasks/create",
            &[
                field(1, "6".repeat(64).as_bytes()),
                field(3, environment.as_bytes()),
            ],
        ),
        event("/tasks/start", &[field(1, "6".repeat(64).as_bytes())]),
    ];
    let answers = [
        ("ListPodSandbox", vec![field(1, &sandbox)]),
        ("ListContainers", vec![field(1, &container)]),
        ("Subscribe", events.into()),
    ];
    stage.wanted.push("\"runtime_event\"");
    let path = stage.path("runtime.sock");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    // The thread ends with the process.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::UnixListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let answers = answers.clone();
                let service =
                    hyper::service::service_fn(move |r: Request<hyper::body::Incoming>| {
                        let method = r.uri().path().rsplit('/').next().unwrap_or_default();
                        let found = answers.iter().find(|(m, _)| *m == method);
                        let messages = found.map_or_else(|| vec![vec![]], |(_, m)| m.clone());
                        let mut framed = Vec::new();
                        for message in messages {
                            framed.push(0);
                            framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
                            framed.extend(message);
                        }
                        let mut trailers = HeaderMap::new();
                        trailers.insert("grpc-status", "0".parse().unwrap());
                        let frames = [
                            Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(framed))),
                            Ok(Frame::trailers(trailers)),
                        ];
                        let response = Response::builder()
                            .header("content-type", "application/grpc")
                            .body(StreamBody::new(tokio_stream::iter(frames)))
                            .unwrap();
                        async move { Ok::<_, std::convert::Infallible>(response) }
                    });
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await
                    .ok();
            }
        });
    });
    stage.args(&["--runtime", &path]);
    path.into()
}
