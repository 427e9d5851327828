//! A trace store that speaks gRPC, as a server of the test's own.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Either, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kflow_export::otlp::wire;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::fixture;

/// Status and message.
type Answer = (&'static str, &'static str);

#[derive(Clone, Debug)]
struct Got {
    path: String,
    headers: HeaderMap,
    request: wire::Request,
}

struct Store {
    addr: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
    _runtime: Runtime,
}

impl Store {
    /// Answers as told, and then always the last.
    fn answering(answers: &[Answer]) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let addr = listener.local_addr().unwrap();
        let got: Arc<Mutex<Vec<Got>>> = Arc::default();
        let answers = Arc::new(Mutex::new(VecDeque::from(answers.to_vec())));
        let to = Arc::clone(&got);
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (to, answers) = (Arc::clone(&to), Arc::clone(&answers));
                let serve = service_fn(move |asked: Request<Incoming>| {
                    let (to, answers) = (Arc::clone(&to), Arc::clone(&answers));
                    async move {
                        let got = read(asked).await;
                        to.lock().unwrap().push(got);
                        let mut left = answers.lock().unwrap();
                        let answer = *left.front().unwrap();
                        if left.len() > 1 {
                            left.pop_front();
                        }
                        Ok::<_, Infallible>(said(answer))
                    }
                });
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(server.serve_connection(TokioIo::new(stream), serve));
            }
        });
        Self {
            addr,
            got,
            _runtime: runtime,
        }
    }
    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
    fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

async fn read(asked: Request<Incoming>) -> Got {
    let (head, body) = asked.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let (prefix, message) = bytes.split_at(5);
    assert_eq!(prefix[0], 0, "not compressed");
    let length = u32::from_be_bytes(prefix[1..].try_into().unwrap());
    assert_eq!(length as usize, message.len());
    Got {
        path: head.uri.path().to_owned(),
        headers: head.headers,
        request: wire::Request::decode(message).expect("an export request"),
    }
}

/// The status stands behind the message; where there is none it comes with the headers, as servers send it.
fn said(
    (status, message): Answer,
) -> Response<Either<impl hyper::body::Body<Data = Bytes, Error = Infallible>, Empty<Bytes>>> {
    let mut told = HeaderMap::new();
    told.insert("grpc-status", HeaderValue::from_static(status));
    told.insert("grpc-message", HeaderValue::from_static(message));
    let answer = Response::builder().header("content-type", "application/grpc");
    if status == "0" {
        // An empty message: all was taken.
        let empty = Full::new(Bytes::from_static(&[0; 5]));
        let body = empty.with_trailers(async move { Some(Ok(told)) });
        return answer.body(Either::Left(body)).unwrap();
    }
    let mut answer = answer.body(Either::Right(Empty::new())).unwrap();
    answer.headers_mut().extend(told);
    answer
}

fn export(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kflow"));
    for name in ["ENDPOINT", "HEADERS", "PROTOCOL"] {
        command.env_remove(format!("OTEL_EXPORTER_OTLP_{name}"));
        command.env_remove(format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
    }
    command
        .args(["export", "--otlp-to"])
        .args(args)
        .arg("-s")
        .arg(fixture("sessions/S3-crashes.kflow.zst"))
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn spans(request: &wire::Request) -> usize {
    let scopes = request.resource_spans.iter().flat_map(|r| &r.scope_spans);
    scopes.map(|s| s.spans.len()).sum()
}

#[test]
fn a_recording_is_sent_whole_to_the_store_that_the_environment_names() {
    let store = Store::answering(&[("14", "busy"), ("0", "")]);
    let url = store.url();
    let out = export(
        &[],
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "authorization=Bearer%20t0ps3cret",
            ),
        ],
    );
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(
        said.contains("it answered Unavailable: busy; again in"),
        "{said}"
    );
    assert!(!said.contains("t0ps3cret"), "{said}");
    let got = store.got();
    // The first was sent twice, the same each time.
    assert_eq!(got[0].request, got[1].request);
    for g in &got {
        assert_eq!(
            g.path,
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
        );
        assert_eq!(g.headers["content-type"], "application/grpc+proto");
        assert_eq!(g.headers["te"], "trailers");
        assert_eq!(g.headers["authorization"], "Bearer t0ps3cret");
    }
    let taken: usize = got[1..].iter().map(|g| spans(&g.request)).sum();
    assert!(
        said.contains(&format!("{taken} spans sent to {url}/")),
        "{said}"
    );
    let file = Command::new(env!("CARGO_BIN_EXE_kflow"))
        .args(["export", "-o", "otlp-protobuf", "-s"])
        .arg(fixture("sessions/S3-crashes.kflow.zst"))
        .output()
        .unwrap();
    let file = wire::Request::decode(file.stdout.as_slice()).unwrap();
    assert_eq!(taken, spans(&file));
    assert!(taken > 500, "{taken}");
}

#[test]
fn what_a_grpc_store_refuses_is_not_sent_again() {
    let store = Store::answering(&[("16", "no%20token%1b[31m")]);
    let environment = [("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")];
    let out = export(&[&store.url()], &environment);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(
        said.contains("it answered Unauthenticated: no token"),
        "{said}"
    );
    assert!(
        !said.contains('\x1b') && !said.contains("spans sent to"),
        "{said}"
    );
    assert_eq!(store.got().len(), 1);
}

#[test]
fn a_store_is_named_or_nothing_is_sent() {
    for (environment, said) in [
        (&[][..], "OTEL_EXPORTER_OTLP_ENDPOINT is not set"),
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")], "is not set"),
        (
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ],
            "kflow has grpc and http/protobuf",
        ),
    ] {
        let out = export(&[], environment);
        let told = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{told}");
        assert!(told.contains(said), "{told}");
    }
}
