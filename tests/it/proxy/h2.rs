//! A gRPC client that shows headers, bytes and trailers, and a server that gives the answers that a test sets.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::bytes::Bytes;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response};

/// A call's whole answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) bytes: Bytes,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Answer {
    /// Returns the value of a trailer, or of a header where the answer has trailers only.
    pub(crate) fn trailer(&self, name: &str) -> Option<&str> {
        let both = self.trailers.iter().chain(&self.headers);
        both.into_iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_str())
    }
    /// Returns the first message, without its gRPC prefix.
    pub(crate) fn message(&self) -> &[u8] {
        self.bytes.get(5..).unwrap_or_default()
    }
}

/// Returns the headers sorted, without `date`, which changes with the server's clock.
fn listed(map: &HeaderMap) -> Vec<(String, String)> {
    let mut all: Vec<_> = map
        .iter()
        .filter(|(k, _)| *k != "date")
        .map(|(k, v)| {
            (
                k.to_string(),
                String::from_utf8_lossy(v.as_bytes()).into_owned(),
            )
        })
        .collect();
    all.sort();
    all
}

/// Returns a message with its gRPC prefix of five bytes.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut all = vec![0];
    all.extend_from_slice(&(message.len() as u32).to_be_bytes());
    all.extend_from_slice(message);
    Bytes::from(all)
}

/// A client's HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Raw {
    sender: SendRequest<Full<Bytes>>,
}

impl Raw {
    pub(crate) async fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path).await?;
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        // The windows of grpc-go for large answers, as on nodes with many pods.
        builder
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(8 << 20);
        let (sender, connection) = builder
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(async move {
            // The calls report the connection's end.
            connection.await.ok();
        });
        Ok(Self { sender })
    }
    /// Starts a call. Returns the head of the answer, whose body is not read yet.
    pub(crate) async fn start(
        &mut self,
        method: &str,
        message: &[u8],
        extra: &[(&str, &str)],
    ) -> Result<Response<Incoming>, hyper::Error> {
        let mut request = Request::post(format!("http://localhost{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(framed(message)))
            .unwrap();
        for (k, v) in extra {
            let name: tonic::codegen::http::HeaderName = k.parse().unwrap();
            request
                .headers_mut()
                .append(name, HeaderValue::from_str(v).unwrap());
        }
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }
    /// Makes a call and reads its whole answer.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        message: &[u8],
        extra: &[(&str, &str)],
    ) -> Result<Answer, hyper::Error> {
        let response = self.start(method, message, extra).await?;
        let headers = listed(response.headers());
        let body = response.into_body().collect().await?;
        let trailers = body.trailers().map(listed).unwrap_or_default();
        Ok(Answer {
            headers,
            bytes: body.to_bytes(),
            trailers,
        })
    }
}

/// The method that streams container events.
pub(crate) const EVENTS: &str = "/runtime.v1.RuntimeService/GetContainerEvents";

/// What the server saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) cancelled: AtomicU64,
    pub(crate) waiting: AtomicU64,
    /// The events that the next event stream sends, each as soon as it comes.
    pub(crate) events: Mutex<Option<UnboundedReceiver<Bytes>>>,
}

type Body = BoxBody<Bytes, io::Error>;

/// Whole messages to answer with, by path.
pub(crate) type Canned = Arc<HashMap<&'static str, Bytes>>;

/// Serves on a Unix socket until the async runtime ends.
pub(crate) fn serve(listener: UnixListener, seen: Arc<Seen>, canned: Canned) {
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (seen, canned) = (Arc::clone(&seen), Arc::clone(&canned));
            tokio::spawn(async move {
                let service = service_fn(move |r| {
                    let (seen, canned) = (Arc::clone(&seen), Arc::clone(&canned));
                    async move { Ok::<_, Infallible>(answer(r, seen, &canned).await) }
                });
                let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                builder.max_send_buf_size(1 << 20);
                builder
                    .serve_connection(TokioIo::new(stream), service)
                    .await
                    .ok();
            });
        }
    });
}

fn with_trailers(parts: Vec<Bytes>, code: &'static str) -> Body {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    trailers.insert("x-trailer-bin", HeaderValue::from_static("AAEC"));
    let frames = parts
        .into_iter()
        .map(|b| Ok(Frame::data(b)))
        .chain([Ok(Frame::trailers(trailers))]);
    BodyExt::boxed(StreamBody::new(tokio_stream::iter(
        frames.collect::<Vec<_>>(),
    )))
}

struct Cancelled(Arc<Seen>);

impl Drop for Cancelled {
    fn drop(&mut self) {
        self.0.cancelled.fetch_add(1, Ordering::SeqCst);
    }
}

async fn answer(request: Request<Incoming>, seen: Arc<Seen>, canned: &Canned) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let mut head = Response::builder().header("content-type", "application/grpc");
    for (k, v) in request
        .headers()
        .iter()
        .filter(|(k, _)| k.as_str().starts_with("x-") || *k == "grpc-timeout")
    {
        head = head.header(format!("x-got-{k}"), v);
    }
    let body = request
        .into_body()
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    if let Some(whole) = canned.get(path.as_str()) {
        return head.body(with_trailers(vec![whole.clone()], "0")).unwrap();
    }
    let body = match path.as_str() {
        "/t/Echo" => with_trailers(vec![body], "0"),
        "/t/Stream" => with_trailers(
            (0..2000_u32).map(|n| framed(&n.to_be_bytes())).collect(),
            "0",
        ),
        EVENTS => {
            let guard = Cancelled(Arc::clone(&seen));
            let mut events = seen.events.lock().unwrap().take().unwrap();
            let (to, from) = tokio::sync::mpsc::channel(1);
            tokio::spawn(async move {
                let _cancelled = guard;
                loop {
                    let event = tokio::select! {
                        e = events.recv() => e,
                        () = to.closed() => None,
                    };
                    let Some(event) = event else { return };
                    // The send fails when the client has gone, which the server notices next.
                    to.send(Ok(Frame::data(event))).await.ok();
                }
            });
            BodyExt::boxed(StreamBody::new(
                tokio_stream::wrappers::ReceiverStream::new(from),
            ))
        }
        "/t/Never" => {
            let guard = Cancelled(Arc::clone(&seen));
            seen.waiting.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
            drop(guard);
            with_trailers(vec![], "4")
        }
        _ => {
            return head
                .header("grpc-status", "12")
                .header("grpc-message", "unknown service t")
                .body(Full::new(Bytes::new()).map_err(|e| match e {}).boxed())
                .unwrap();
        }
    };
    head.body(body).unwrap()
}
