//! The receivers for OTLP over gRPC and HTTP and for the audit webhook, as exporters meet them: what they accept, and
//! what they refuse and how.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use kflow_export::otlp::wire::{self, ResourceSpans, ScopeSpans, Span};
use kflow_model::{Body, Observation, Source};
use kflow_sources::live::Board;
use kflow_sources::receive::Sink;
use kflow_sources::{audit, otlp};
use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};

/// Five exports of a real kubelet, apiserver and containerd, and the spans in them.
const EXPORTS: &str = include_str!("../../fixtures/otlp/exports.jsonl");
const DECODED: &str = include_str!("../../fixtures/otlp/decoded.jsonl");
pub(crate) const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

fn exports() -> Vec<Bytes> {
    EXPORTS
        .lines()
        .map(|l| {
            let v: serde_json::Value = serde_json::from_str(l).unwrap();
            base64::engine::general_purpose::STANDARD
                .decode(v["b64"].as_str().unwrap())
                .unwrap()
                .into()
        })
        .collect()
}

/// Returns an export of `n` spans, each with an attribute of `fat` bytes that the receiver keeps.
fn batch(n: u64, fat: usize) -> Bytes {
    let spans = (1..=n)
        .map(|n| Span {
            trace_id: u128::from(n).to_be_bytes().to_vec(),
            span_id: n.to_be_bytes().to_vec(),
            name: "x".repeat(fat),
            start_time_unix_nano: 1_795_220_640_000_000_000 + n,
            end_time_unix_nano: 1_795_220_640_000_000_500 + n,
            ..Span::default()
        })
        .collect();
    let scope_spans = vec![ScopeSpans {
        spans,
        ..ScopeSpans::default()
    }];
    wire::Request {
        resource_spans: vec![ResourceSpans {
            scope_spans,
            ..ResourceSpans::default()
        }],
    }
    .encode_to_vec()
    .into()
}

/// A running receiver, and the observations that it made.
struct Running {
    addr: SocketAddr,
    got: Arc<Mutex<Vec<Observation>>>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    fn got(&self) -> usize {
        self.got.lock().unwrap().len()
    }
}

async fn start() -> Running {
    let got = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&got);
    let (addr, task) = serve(Arc::new(move |all| {
        into.lock().unwrap().extend(all);
        0
    }))
    .await;
    Running { addr, got, task }
}

async fn serve(sink: Sink) -> (SocketAddr, JoinHandle<()>) {
    let listener = otlp::live::bind(SocketAddr::from(([127, 0, 0, 1], 0)), false)
        .await
        .unwrap();
    let addr = listener.local_addr().unwrap();
    let task = tokio::spawn(otlp::live::serve(listener, sink, std::future::pending()));
    (addr, task)
}

/// A gRPC codec that passes messages as bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;
    fn encoder(&mut self) -> Self {
        Self
    }
    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let n = from.remaining();
        Ok(Some(from.copy_to_bytes(n)))
    }
}

pub(crate) type Client = tonic::client::Grpc<tonic::transport::Channel>;

pub(crate) async fn client(addr: SocketAddr) -> Client {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{addr}"))
        .unwrap()
        .connect()
        .await
        .unwrap();
    tonic::client::Grpc::new(channel)
}

async fn export(to: &mut Client, path: &'static str, body: Bytes) -> Result<Bytes, Status> {
    export_with(to, path, body, "").await
}

/// Like `export`, with a token.
pub(crate) async fn export_with(
    to: &mut Client,
    path: &'static str,
    body: Bytes,
    token: &str,
) -> Result<Bytes, Status> {
    to.ready().await.unwrap();
    let path = tonic::codegen::http::uri::PathAndQuery::from_static(path);
    let mut request = Request::new(body);
    if !token.is_empty() {
        let token = token.parse().unwrap();
        request.metadata_mut().insert("authorization", token);
    }
    Ok(to.unary(request, path, Raw).await?.into_inner())
}

/// Returns the number of rejected spans (`ExportTraceServiceResponse.partial_success`).
fn rejected(answer: &[u8]) -> Option<i64> {
    #[derive(Clone, PartialEq, Message)]
    struct Answer {
        #[prost(message, optional, tag = "1")]
        partial: Option<Partial>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Partial {
        #[prost(int64, tag = "1")]
        rejected: i64,
        #[prost(string, tag = "2")]
        message: String,
    }
    let partial = Answer::decode(answer).unwrap().partial?;
    assert!(!partial.message.is_empty());
    Some(partial.rejected)
}

#[tokio::test]
async fn real_exports_arrive_by_grpc_plain_and_compressed() {
    for compressed in [false, true] {
        let r = start().await;
        let mut c = client(r.addr).await;
        if compressed {
            c = c.send_compressed(CompressionEncoding::Gzip);
        }
        for e in exports() {
            let answer = export(&mut c, TRACES, e).await.unwrap();
            assert_eq!(rejected(&answer), None, "a full success says nothing");
        }
        assert_eq!(r.got(), DECODED.lines().count(), "gzip: {compressed}");
        let got = r.got.lock().unwrap();
        assert!(got.iter().all(|o| o.stamp.seen >= o.stamp.at));
    }
}

#[tokio::test]
async fn what_is_no_trace_is_refused_by_grpc_and_the_connection_goes_on() {
    let r = start().await;
    let mut c = client(r.addr).await;
    let metrics = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    let refused = export(&mut c, metrics, Bytes::new()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    let nonsense = Bytes::from_static(b"\xff\xff\xff\xff");
    let refused = export(&mut c, TRACES, nonsense).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let huge = batch(17, 1 << 20);
    let refused = export(&mut c, TRACES, huge).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
    export(&mut c, TRACES, batch(1, 1)).await.unwrap();
    assert_eq!(r.got(), 1);
}

#[tokio::test]
async fn a_batch_larger_than_the_usual_limit_of_grpc_is_taken_whole() {
    let r = start().await;
    let mut c = client(r.addr).await;
    let body = batch(50_000, 200);
    assert!(body.len() > 8 << 20, "{}", body.len());
    export(&mut c, TRACES, body).await.unwrap();
    assert_eq!(r.got(), 50_000);
}

#[tokio::test]
async fn a_slow_engine_costs_spans_that_are_counted_told_and_not_sent_again() {
    let (board, mut from) = Board::new(100);
    let out = Mutex::new(board.out(Source::Otlp, "receiver"));
    let (addr, task) = serve(Arc::new(move |all| out.lock().unwrap().offer_all(all))).await;
    let mut c = client(addr).await;
    let answer = export(&mut c, TRACES, batch(1_000, 1)).await.unwrap();
    assert_eq!(rejected(&answer), Some(900));
    assert_eq!(board.statuses()[0].lost, 900, "what the status bar shows");
    let mut taken = 0;
    while from.try_recv().is_ok() {
        taken += 1;
    }
    assert_eq!(taken, 100, "the first are kept, the newest refused");
    let answer = export(&mut c, TRACES, batch(1, 1)).await.unwrap();
    assert_eq!(rejected(&answer), None);
    let told = from.recv().await.unwrap();
    assert!(
        matches!(&told.body, Body::Gap(g) if g.lost == 900 && g.of == Source::Otlp),
        "a recording knows of the loss: {told:?}"
    );
    task.abort();
}

/// One span as OTLP's JSON has it, over several lines.
const JSON: &str = r#"{
  "resourceSpans": [{
    "resource": { "attributes": [{ "key": "service.name", "value": { "stringValue": "containerd" } }] },
    "scopeSpans": [{ "spans": [{
      "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174",
      "name": "runtime.v1.RuntimeService/RunPodSandbox", "kind": 2,
      "startTimeUnixNano": "1795220660000000000", "endTimeUnixNano": "1795220660100000000"
    }]}]
  }]
}"#;

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    e.write_all(plain).unwrap();
    e.finish().unwrap()
}

/// Sends a request over HTTP/1.1 and returns status and body; `head` is `METHOD PATH`, then header lines.
pub(crate) async fn http(to: SocketAddr, head: &[&str], body: &[u8]) -> (u16, Vec<u8>) {
    let mut s = TcpStream::connect(to).await.unwrap();
    let (line, headers) = head.split_first().unwrap();
    let mut text = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    for h in headers {
        text.push_str(h);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    s.write_all(text.as_bytes()).await.unwrap();
    // The receiver may refuse before it has read the whole body.
    s.write_all(body).await.ok();
    let mut answer = Vec::new();
    s.read_to_end(&mut answer).await.ok();
    let end = answer
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("{head:?}: {}", String::from_utf8_lossy(&answer)));
    let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
    (status, answer.split_off(end + 4))
}

pub(crate) const PROTOBUF: &str = "content-type: application/x-protobuf";
pub(crate) const AS_JSON: &str = "content-type: application/json";
const PACKED: &str = "content-encoding: gzip";
pub(crate) const POST: &str = "POST /v1/traces";

#[tokio::test]
async fn spans_arrive_by_http_as_protobuf_and_json_packed_or_not() {
    let real = &exports()[0];
    let json = JSON.as_bytes();
    let spans = {
        let r = start().await;
        http(r.addr, &[POST, PROTOBUF], real).await;
        r.got()
    };
    assert!(spans > 1);
    let charset = "Content-Type: application/json; charset=utf-8";
    for (headers, body, want) in [
        (vec![POST, PROTOBUF], real.to_vec(), spans),
        (vec![POST, PROTOBUF, PACKED], gzip(real), spans),
        (vec![POST], real.to_vec(), spans),
        (vec![POST, AS_JSON], json.to_vec(), 1),
        (vec![POST, charset], json.to_vec(), 1),
        (vec![POST, AS_JSON, PACKED], gzip(json), 1),
        (vec![POST, PROTOBUF], Vec::new(), 0),
        (vec![POST, AS_JSON], b"{}".to_vec(), 0),
        (vec![POST, AS_JSON], br#"{"resourceSpans":[]}"#.to_vec(), 0),
    ] {
        let r = start().await;
        let (status, answer) = http(r.addr, &headers, &body).await;
        assert_eq!(status, 200, "{headers:?}");
        let want_answer: &[u8] = if headers.iter().any(|h| h.contains("json")) {
            b"{}"
        } else {
            b""
        };
        assert_eq!(answer, want_answer, "{headers:?}");
        assert_eq!(r.got(), want, "{headers:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_taken_by_http_is_refused_with_the_right_status() {
    let r = start().await;
    let small = &exports()[0][..];
    let huge = vec![0_u8; (16 << 20) + 1];
    // 16 MiB and one byte of zeros, compressed to 16 KiB.
    let bomb = gzip(&huge);
    assert!(bomb.len() < 64 << 10);
    let mut torn = gzip(small);
    torn.truncate(torn.len() / 2);
    for (head, body, want) in [
        (vec!["GET /v1/traces"], &b""[..], 405),
        (vec!["POST /v1/metrics", PROTOBUF], small, 404),
        (vec!["POST /v1/logs", PROTOBUF], small, 404),
        (vec!["POST /", PROTOBUF], small, 404),
        (vec![POST, "content-type: text/plain"], small, 415),
        (vec![POST, PROTOBUF, "content-encoding: zstd"], small, 415),
        (vec![POST, PROTOBUF, PACKED], small, 400),
        (vec![POST, PROTOBUF, PACKED], &torn, 400),
        (vec![POST, PROTOBUF, PACKED], &bomb, 413),
        (vec![POST, PROTOBUF], &huge, 413),
        (vec![POST, PROTOBUF], b"\xff\xff\xff", 400),
        (vec![POST, AS_JSON], b"{", 400),
        (vec![POST, AS_JSON], b"[]", 400),
    ] {
        let (status, answer) = http(r.addr, &head, body).await;
        assert_eq!(status, want, "{head:?}");
        if want == 400 && head.contains(&AS_JSON) {
            let told: serde_json::Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(told["code"], 3, "google.rpc.Status, INVALID_ARGUMENT");
            assert!(!told["message"].as_str().unwrap().is_empty());
        }
    }
    assert_eq!(r.got(), 0);
}

#[tokio::test]
async fn a_partial_success_is_told_in_the_words_of_the_request() {
    let (addr, task) = serve(Arc::new(|all| all.len())).await;
    let (status, answer) = http(addr, &[POST, AS_JSON], JSON.as_bytes()).await;
    let told: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(status, 200, "the exporter is not asked to send it again");
    assert_eq!(told["partialSuccess"]["rejectedSpans"], "1");
    let (_, answer) = http(addr, &[POST, PROTOBUF], &batch(7, 1)).await;
    assert_eq!(rejected(&answer), Some(7));
    task.abort();
}

#[tokio::test]
async fn the_audit_webhook_takes_lists_of_records_and_refuses_what_is_none() {
    let recorded = {
        let file = std::fs::File::open("fixtures/captures/audit.jsonl.zst").unwrap();
        let mut text = String::new();
        zstd::stream::read::Decoder::new(file)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    };
    let items: Vec<&str> = recorded.lines().take(400).collect();
    let list = format!(
        r#"{{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{{}},"items":[{}]}}"#,
        items.join(",")
    );
    let got = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&got);
    let sink: Sink = Arc::new(move |all| {
        into.lock().unwrap().extend(all);
        0
    });
    let listener = audit::live::bind(SocketAddr::from(([127, 0, 0, 1], 0)), false)
        .await
        .unwrap();
    let addr = listener.local_addr().unwrap();
    let task = tokio::spawn(audit::live::serve(listener, sink, std::future::pending()));
    let post = ["POST /audit?timeout=30s", AS_JSON];
    let (status, _) = http(addr, &post, list.as_bytes()).await;
    assert_eq!(status, 200);
    let taken = got.lock().unwrap().len();
    assert!(taken > 200, "{taken}");
    for (head, body, want) in [
        (vec!["GET /"], &b""[..], 405),
        (vec!["POST /", AS_JSON], b"{\"items\":[{", 400),
        (vec!["POST /", AS_JSON], b"hello", 400),
    ] {
        let (status, _) = http(addr, &head, body).await;
        assert_eq!(status, want, "{head:?}");
    }
    assert_eq!(got.lock().unwrap().len(), taken);
    task.abort();
}
