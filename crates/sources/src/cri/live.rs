//! What a runtime says exists, asked once at attach, so that pods which were there before have their ids.
//!
//! The questions are empty messages, and the answers are read by the tap's own [`Decoder`] out of the bytes of this
//! connection: there is one decoding of CRI in kflow, with and without a proxy.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::codegen::http::Request;

use kflow_cri::{Decoder, Direction};
use kflow_model::clock;
use kflow_model::cri::CallKey;
use kflow_model::units::wait;
use kflow_model::{Body, Observation};

/// Calls whose answers say what exists.
const LISTS: [&str; 2] = [
    "/runtime.v1.RuntimeService/ListPodSandbox",
    "/runtime.v1.RuntimeService/ListContainers",
];
/// How long a runtime may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a runtime could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers on the socket.
    #[error("cannot connect to the runtime: {0}")]
    Connect(#[source] io::Error),
    /// It does not speak CRI v1 over HTTP/2, or broke off.
    #[error("the runtime did not answer {method}: {why}")]
    Answer {
        /// What was asked.
        method: String,
        /// What went wrong.
        why: String,
    },
}

/// A connection whose bytes are decoded as they pass.
#[derive(Debug)]
struct Tapped {
    stream: UnixStream,
    tape: Arc<Mutex<Tape>>,
}

#[derive(Default)]
struct Tape {
    decoder: Decoder,
    out: Vec<Observation>,
}

impl std::fmt::Debug for Tape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tape").finish_non_exhaustive()
    }
}

impl Tapped {
    fn feed(&self, direction: Direction, bytes: &[u8]) {
        let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        let Tape { decoder, out } = &mut *tape;
        decoder.feed(1, direction, clock::now(), bytes, out);
    }
}

impl AsyncRead for Tapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.feed(
            Direction::ServerToClient,
            buffer.filled().get(before..).unwrap_or_default(),
        );
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let n = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.feed(
            Direction::ClientToServer,
            bytes.get(..n).unwrap_or_default(),
        );
        Poll::Ready(Ok(n))
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Calls methods with empty requests, one after the other; returns what the decoder made of the connection.
async fn call(path: &Path, methods: &[&str]) -> Result<Vec<Observation>, Error> {
    let stream = UnixStream::connect(path).await.map_err(Error::Connect)?;
    let tape = Arc::new(Mutex::new(Tape::default()));
    let tapped = Tapped {
        stream,
        tape: Arc::clone(&tape),
    };
    let failed = |method: &str, why: String| Error::Answer {
        method: method.to_owned(),
        why,
    };
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .handshake(TokioIo::new(tapped))
        .await
        .map_err(|e| failed("a greeting", e.to_string()))?;
    let asking = async {
        for method in methods {
            // A gRPC message of no bytes: no flag, length 0.
            let request = Request::post(format!("http://localhost{method}"))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .header("user-agent", concat!("kflow/", env!("CARGO_PKG_VERSION")))
                .body(Full::new(Bytes::from_static(&[0; 5])))
                .map_err(|e| failed(method, e.to_string()))?;
            let answer = sender
                .send_request(request)
                .await
                .map_err(|e| failed(method, e.to_string()))?;
            answer
                .into_body()
                .collect()
                .await
                .map_err(|e| failed(method, e.to_string()))?;
        }
        Ok::<(), Error>(())
    };
    let mut connection = std::pin::pin!(connection);
    let done = async {
        tokio::select! {
            r = asking => r,
            _ = connection.as_mut() => Err(failed("anything", "it closed the connection".into())),
        }
    };
    timeout(PATIENCE, done)
        .await
        .map_err(|_| failed("in time", format!("{} went by", wait(PATIENCE))))??;
    let mut tape = tape.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut tape.out))
}

/// Sandboxes and containers that exist, as one observation for each list.
pub async fn inventory(path: &Path) -> Result<Vec<Observation>, Error> {
    let all = call(path, &LISTS).await?;
    // kflow's own calls are nobody's news.
    Ok(all
        .into_iter()
        .filter_map(|mut o| match &mut o.body {
            Body::Inventory(i) => {
                // Connection 0 is nobody's: the tap counts its own from 1.
                i.key = CallKey::default();
                Some(o)
            }
            _ => None,
        })
        .collect())
}

/// Name and version of the runtime, as its answer to `Version` tells: `containerd 2.1.4, CRI v1`.
pub async fn version(path: &Path) -> Result<String, Error> {
    let all = call(path, &["/runtime.v1.RuntimeService/Version"]).await?;
    let end = all.iter().find_map(|o| match &o.body {
        Body::CallEnd(end) => Some(end),
        _ => None,
    });
    let Some(end) = end else {
        return Err(Error::Answer {
            method: "Version".into(),
            why: "with nothing that kflow understands".into(),
        });
    };
    if end.code != Some(0) {
        return Err(Error::Answer {
            method: "Version".into(),
            why: format!("but with code {:?} {}", end.code, end.message),
        });
    }
    let field = |name: &str| {
        let found = end.fields.iter().find(|(k, _)| k == name);
        found.map_or("?", |(_, v)| v.as_str())
    };
    Ok(format!(
        "{} {}, CRI {}",
        field("runtime_name"),
        field("runtime_version"),
        field("runtime_api_version")
    ))
}
