//! The OTLP receiver: takes spans of kubelet, apiserver, containerd, CRI-O and etcd, by gRPC and by HTTP.
//!
//! kflow takes the collector's place, on loopback: gRPC `TraceService/Export` (Kubernetes components), and `POST
//! /v1/traces` with protobuf or JSON (containerd's default). Both answer at once. Spans for which the engine has no
//! room are reported to the exporter as rejected (`partial_success`), which does not make it send them again.

use std::future::{Future, Ready, ready};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use tokio::net::TcpListener;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::{Method, StatusCode};
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};

use crate::otlp::decode::{OtlpDecoder, decode_request};
use crate::receive::{self, Error, Listener, MAX_BODY, Sink};
use crate::{Fed, LineDecoder};
use kflow_model::clock;

/// Path of the gRPC method.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Path of the HTTP endpoint.
const TRACES: &str = "/v1/traces";

/// Binds an address of the receiver; both protocols are served on each.
pub async fn bind(addr: SocketAddr, anywhere: bool) -> Result<TcpListener, Error> {
    receive::bind("the OTLP receiver", addr, anywhere).await
}

/// Listens on a unix socket of the receiver; both protocols are served there too.
pub fn bind_unix(path: &Path) -> Result<Listener, Error> {
    receive::bind_unix("the OTLP receiver", path)
}

/// Receives spans until `stop` is done.
pub async fn serve(
    listener: impl Into<Listener>,
    sink: Sink,
    stop: impl Future<Output = ()> + Send,
) {
    let handler: receive::Handler = Arc::new(move |request| {
        let sink = Arc::clone(&sink);
        Box::pin(async move {
            let grpc = request
                .headers()
                .get("content-type")
                .is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"));
            if grpc && request.uri().path() == EXPORT {
                let mut server = Grpc::new(Raw)
                    .apply_max_message_size_config(Some(MAX_BODY), None)
                    .accept_compressed(CompressionEncoding::Gzip);
                return server.unary(Export(sink), request).await;
            }
            if grpc {
                return Status::unimplemented("only traces are received here").into_http();
            }
            http(request, &sink).await
        })
    });
    receive::serve(listener, handler, stop).await;
}

async fn http(
    request: tonic::codegen::http::Request<hyper::body::Incoming>,
    sink: &Sink,
) -> tonic::codegen::http::Response<tonic::body::Body> {
    if request.uri().path() != TRACES {
        return receive::answer(
            StatusCode::NOT_FOUND,
            "text/plain",
            "only traces are received here: post them to /v1/traces",
        );
    }
    if request.method() != Method::POST {
        return receive::answer(
            StatusCode::METHOD_NOT_ALLOWED,
            "text/plain",
            "traces are posted",
        );
    }
    let content_type = receive::header(&request, "content-type");
    let format = content_type.split(';').next().unwrap_or_default().trim();
    let json = match format {
        "application/json" => true,
        "application/x-protobuf" | "application/protobuf" | "" => false,
        _ => {
            return receive::answer(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "text/plain",
                "send application/x-protobuf or application/json",
            );
        }
    };
    let body = match receive::body(request).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let (status, told) = match take(&body, json, sink) {
        Ok(answer) if json => (StatusCode::OK, answer.json().into_bytes()),
        Ok(answer) => (StatusCode::OK, answer.encode_to_vec()),
        Err(why) => {
            let why = RpcStatus {
                code: tonic::Code::InvalidArgument as i32,
                message: why,
            };
            let told = if json {
                why.json().into_bytes()
            } else {
                why.encode_to_vec()
            };
            (StatusCode::BAD_REQUEST, told)
        }
    };
    let format = if json {
        "application/json"
    } else {
        "application/x-protobuf"
    };
    receive::answer(status, format, told)
}

fn take(body: &[u8], json: bool, sink: &Sink) -> Result<ExportResponse, String> {
    let now = clock::now();
    let spans = if json && body.trim_ascii() == b"{}" {
        // An empty request, in protobuf's JSON form.
        Vec::new()
    } else if json {
        let mut out = Vec::new();
        if let Fed::Malformed(why) = OtlpDecoder::default().line(body, &mut out) {
            return Err(why.to_owned());
        }
        for o in &mut out {
            o.stamp.seen = now;
        }
        out
    } else {
        decode_request(body, now).map_err(|e| e.to_string())?
    };
    let rejected = sink(spans);
    Ok(ExportResponse {
        partial: (rejected > 0).then(|| PartialSuccess {
            rejected: i64::try_from(rejected).unwrap_or(i64::MAX),
            message: "kflow had no room for them".to_owned(),
        }),
    })
}

/// `ExportTraceServiceResponse`.
#[derive(Clone, PartialEq, Eq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial: Option<PartialSuccess>,
}

impl ExportResponse {
    /// Returns the response as OTLP JSON, in which 64-bit numbers are strings.
    fn json(&self) -> String {
        let Some(p) = &self.partial else {
            return "{}".to_owned();
        };
        serde_json::json!({
            "partialSuccess": { "rejectedSpans": p.rejected.to_string(), "errorMessage": p.message }
        })
        .to_string()
    }
}

/// `google.rpc.Status`: the body of an error response by HTTP.
#[derive(Clone, PartialEq, Eq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

impl RpcStatus {
    fn json(&self) -> String {
        serde_json::json!({ "code": self.code, "message": self.message }).to_string()
    }
}

/// `ExportTracePartialSuccess`.
#[derive(Clone, PartialEq, Eq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    message: String,
}

struct Export(Sink);

impl UnaryService<Bytes> for Export {
    type Response = ExportResponse;
    type Future = Ready<Result<Response<ExportResponse>, Status>>;
    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(
            take(&request.into_inner(), false, &self.0)
                .map(Response::new)
                .map_err(Status::invalid_argument),
        )
    }
}

/// Passes requests on as bytes, which the source's own decoder reads, and encodes responses as protobuf.
#[derive(Clone, Copy, Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = ExportResponse;
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
    type Item = ExportResponse;
    type Error = Status;
    fn encode(&mut self, item: ExportResponse, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item.encode_to_vec());
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use tokio::sync::oneshot;

    /// One span `a` of trace 1, as an exporter sends it.
    fn request() -> Vec<u8> {
        // ExportTraceServiceRequest{resource_spans{scope_spans{spans{trace_id, span_id, name, start, end}}}}
        let mut span = vec![0x0a, 16];
        span.extend([0; 15]);
        span.extend([1, 0x12, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0x2a, 1, b'a', 0x39]);
        span.extend(5_u64.to_le_bytes());
        span.push(0x41);
        span.extend(9_u64.to_le_bytes());
        [0x12_u8, 0x12, 0x0a].iter().fold(span, |inner, tag| {
            let mut outer = vec![*tag, u8::try_from(inner.len()).unwrap()];
            outer.extend(inner);
            outer
        })
    }

    async fn post(
        mut s: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
        head: &str,
        body: &[u8],
    ) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let head = format!(
            "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        s.write_all(head.as_bytes()).await.unwrap();
        s.write_all(body).await.unwrap();
        let mut answer = Vec::new();
        s.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn spans_come_by_a_unix_socket_that_is_its_owners_alone_and_goes_with_the_receiver() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own/otlp.sock");
        let listener = bind_unix(&path).unwrap();
        assert_eq!(listener.place(), path.display().to_string());
        assert!(bind_unix(&path).is_err(), "it is taken");
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let got = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&got);
        let sink: Sink = Arc::new(move |all| {
            into.lock().unwrap().extend(all);
            0
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(serve(listener, sink, async move {
            drop(stopped.await);
        }));
        let stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        let said = post(stream, "POST /v1/traces", &request()).await;
        assert!(said.starts_with("HTTP/1.1 200 OK"), "{said}");
        drop(stop);
        task.await.unwrap();
        assert_eq!(got.lock().unwrap().len(), 1);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn other_machines_are_not_let_in_unless_told() {
        let anywhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let refused = bind(anywhere, false).await.unwrap_err().to_string();
        assert!(refused.contains("--listen-anywhere"), "{refused}");
    }
}
