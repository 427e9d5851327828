//! Export to a trace store that speaks gRPC, which the test serves itself.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::Output;
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
use tokio_rustls::TlsAcceptor;

use crate::fixture;
use crate::kubelet::{server, tls};
use crate::unknown::each;

/// gRPC status and message.
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
    /// Starts a store that gives these answers in turn, and then repeats the last one.
    fn answering(answers: &[Answer]) -> Self {
        Self::start(answers, None)
    }
    /// Like [`Self::answering`], but behind TLS, with a certificate for `localhost` that the authority in
    /// `fixtures/tls/cluster.crt` signed. A client that does not offer HTTP/2 in ALPN gets no answer: a real store may
    /// serve HTTP/1.1 on the same port.
    fn behind_tls(answers: &[Answer]) -> Self {
        let mut config = server("local");
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self::start(answers, Some(TlsAcceptor::from(Arc::new(config))))
    }
    fn start(answers: &[Answer], tls: Option<TlsAcceptor>) -> Self {
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
                let Some(tls) = tls.clone() else {
                    tokio::spawn(server.serve_connection(TokioIo::new(stream), serve));
                    continue;
                };
                tokio::spawn(async move {
                    // A client that does not trust the certificate ends the handshake.
                    let Ok(stream) = tls.accept(stream).await else {
                        return;
                    };
                    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                        let io = TokioIo::new(stream);
                        server.serve_connection(io, serve).await.ok();
                    }
                });
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

/// Builds the response: the status is a trailer behind the message, or a header where there is no message, as servers
/// send it.
fn said(
    (status, message): Answer,
) -> Response<Either<impl hyper::body::Body<Data = Bytes, Error = Infallible>, Empty<Bytes>>> {
    let mut told = HeaderMap::new();
    told.insert("grpc-status", HeaderValue::from_static(status));
    told.insert("grpc-message", HeaderValue::from_static(message));
    let answer = Response::builder().header("content-type", "application/grpc");
    if status == "0" {
        // An empty message: the store accepted all spans.
        let empty = Full::new(Bytes::from_static(&[0; 5]));
        let body = empty.with_trailers(async move { Some(Ok(told)) });
        return answer.body(Either::Left(body)).unwrap();
    }
    let mut answer = answer.body(Either::Right(Empty::new())).unwrap();
    answer.headers_mut().extend(told);
    answer
}

fn export(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = crate::program::command();
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
    // The first request was sent twice, with the same content.
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
    let file = crate::program::command()
        .args(["export", "-o", "otlp-protobuf", "-s"])
        .arg(fixture("sessions/S3-crashes.kflow.zst"))
        .output()
        .unwrap();
    let file = wire::Request::decode(file.stdout.as_slice()).unwrap();
    assert_eq!(taken, spans(&file));
    assert!(taken > 500, "{taken}");
}

/// Returns the environment of a client that speaks gRPC and trusts the authorities in a file.
fn environment(authorities: &str) -> [(&'static str, &str); 2] {
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("SSL_CERT_FILE", authorities),
    ]
}

#[test]
fn behind_tls_a_store_has_to_prove_who_it_is() {
    let store = Store::behind_tls(&[("0", "")]);
    let url = format!("https://localhost:{}", store.addr.port());
    let authorities = tls("cluster.crt").display().to_string();
    let out = export(&[&url], &environment(&authorities));
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("spans sent to {url}/")), "{said}");
    assert!(store.got().iter().any(|g| spans(&g.request) > 0));
    let sent = store.got().len();
    // An authority that did not sign the certificate, and a host name that the certificate does not have.
    let other = tls("own.crt").display().to_string();
    let by_address = format!("https://{}", store.addr);
    // kflow tries for half a minute, because the certificate may be replaced meanwhile.
    each(
        &[(&url, other), (&by_address, authorities)],
        |(url, file)| {
            let out = export(&[url], &environment(file));
            let said = String::from_utf8(out.stderr).unwrap();
            assert_eq!(out.status.code(), Some(2), "{url}: {said}");
            assert!(said.contains("certificate"), "{url}: {said}");
        },
    );
    assert_eq!(store.got().len(), sent);
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
