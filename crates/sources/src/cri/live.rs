//! Asks a runtime once, at attach, what exists, so that pods which existed before have their ids; asks to which pod a
//! container belongs that starts; and reads the stream of container events.
//!
//! Requests are empty messages or an id. The tap's own [`Decoder`] reads the responses from the bytes of this
//! connection: kflow has one decoding of CRI, with and without a proxy.

use std::collections::BTreeSet;
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
use tokio::sync::Notify;
use tokio::time::timeout;
use tonic::codegen::http::Request;

use kflow_cri::{Decoder, Direction};
use kflow_model::clock;
use kflow_model::cri::CallKey;
use kflow_model::units::wait;
use kflow_model::{Body, ContainerId, Observation};

/// Methods whose responses list what exists.
const LISTS: [&str; 2] = [
    "/runtime.v1.RuntimeService/ListPodSandbox",
    "/runtime.v1.RuntimeService/ListContainers",
];
/// Method that streams container events.
const EVENTS: &str = "/runtime.v1.RuntimeService/GetContainerEvents";
/// How long a runtime may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a runtime could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket accepts no connection.
    #[error("cannot connect to the runtime: {0}")]
    Connect(#[source] io::Error),
    /// The runtime does not speak CRI v1 over HTTP/2, or broke off.
    #[error("the runtime did not answer {method}: {why}")]
    Answer {
        /// The gRPC method that was called.
        method: String,
        why: String,
    },
}

/// A connection whose bytes are decoded as they pass.
#[derive(Debug)]
struct Tapped {
    stream: UnixStream,
    tape: Arc<Mutex<Tape>>,
    /// Notified when bytes were read.
    told: Arc<Notify>,
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
        self.told.notify_one();
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

/// A gRPC method and its encoded request.
type Ask = (&'static str, Vec<u8>);

/// A connection to a runtime, of which the decoder reads every byte.
struct Asking {
    sender: http2::SendRequest<Full<Bytes>>,
    connection: http2::Connection<TokioIo<Tapped>, Full<Bytes>, TokioExecutor>,
    tape: Arc<Mutex<Tape>>,
    told: Arc<Notify>,
}

impl Asking {
    async fn connect(path: &Path) -> Result<Self, Error> {
        let stream = UnixStream::connect(path).await.map_err(Error::Connect)?;
        let (tape, told) = (Arc::new(Mutex::new(Tape::default())), Arc::default());
        let tapped = Tapped {
            stream,
            tape: Arc::clone(&tape),
            told: Arc::clone(&told),
        };
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .handshake(TokioIo::new(tapped))
            .await
            .map_err(|e| failed("a greeting", e.to_string()))?;
        Ok(Self {
            sender,
            connection,
            tape,
            told,
        })
    }
}

fn failed(method: &str, why: String) -> Error {
    Error::Answer {
        method: method.to_owned(),
        why,
    }
}

/// Takes what the decoder has made of the connection since the last call.
fn take(tape: &Mutex<Tape>) -> Vec<Observation> {
    let mut tape = tape.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut tape.out)
}

/// Calls a method, and reads the response to its end.
async fn ask(
    sender: &mut http2::SendRequest<Full<Bytes>>,
    method: &str,
    message: &[u8],
) -> Result<(), Error> {
    // The prefix of a gRPC message: no compression flag, and the message's length.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut body = vec![0];
    body.extend_from_slice(&length.to_be_bytes());
    body.extend_from_slice(message);
    let request = Request::post(format!("http://localhost{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", concat!("kflow/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(Bytes::from(body)))
        .map_err(|e| failed(method, e.to_string()))?;
    let answer = sender
        .send_request(request)
        .await
        .map_err(|e| failed(method, e.to_string()))?;
    let mut answer = answer.into_body();
    while let Some(frame) = answer.frame().await {
        frame.map_err(|e| failed(method, e.to_string()))?;
    }
    Ok(())
}

/// Makes the calls one after the other; returns what the decoder made of the connection.
async fn call(path: &Path, asks: &[Ask]) -> Result<Vec<Observation>, Error> {
    let Asking {
        mut sender,
        connection,
        tape,
        ..
    } = Asking::connect(path).await?;
    let asking = async {
        for (method, message) in asks {
            ask(&mut sender, method, message).await?;
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
    Ok(take(&tape))
}

/// Returns the lists in the responses, with the key of no call: the tap counts its own connections from 1.
fn lists(all: Vec<Observation>) -> impl Iterator<Item = Observation> {
    all.into_iter().filter_map(|mut o| match &mut o.body {
        Body::Inventory(i) => {
            i.key = CallKey::default();
            Some(o)
        }
        _ => None,
    })
}

/// Returns the sandboxes and containers that exist, as one observation for each list.
pub async fn inventory(path: &Path) -> Result<Vec<Observation>, Error> {
    let all = call(path, &LISTS.map(|method| (method, Vec::new()))).await?;
    Ok(lists(all).collect())
}

/// Returns the containers with these ids and their sandboxes, and the sandboxes with these ids; one observation for
/// each that exists.
pub async fn identify(path: &Path, ids: &[ContainerId]) -> Result<Vec<Observation>, Error> {
    let [sandboxes, containers] = LISTS;
    let asks: Vec<Ask> = ids
        .iter()
        .map(|id| (containers, filter(id.as_str())))
        .collect();
    let mut found: Vec<Observation> = lists(call(path, &asks).await?).filter(is_found).collect();
    let items = || {
        found.iter().flat_map(|o| match &o.body {
            Body::Inventory(i) => i.items.as_slice(),
            _ => &[],
        })
    };
    let of_containers = items().map(|i| i.subject.sandbox_id.as_str());
    let is_container = |id: &ContainerId| items().any(|i| i.subject.container_id == *id);
    let others = ids.iter().filter(|id| !is_container(id));
    let wanted: BTreeSet<&str> = of_containers
        .chain(others.map(ContainerId::as_str))
        .filter(|id| !id.is_empty())
        .collect();
    let asks: Vec<Ask> = wanted.iter().map(|id| (sandboxes, filter(id))).collect();
    let more = call(path, &asks).await?;
    found.extend(lists(more).filter(is_found));
    Ok(found)
}

/// True for a list with something in it.
fn is_found(o: &Observation) -> bool {
    matches!(&o.body, Body::Inventory(i) if !i.items.is_empty())
}

/// `ListPodSandboxRequest` and `ListContainersRequest` with a filter by id: field 1 of field 1 of both.
fn filter(id: &str) -> Vec<u8> {
    let field = |bytes: &[u8]| {
        // A CRI id has 64 bytes; a length of 128 or more would need another byte.
        let length = u8::try_from(bytes.len()).ok().filter(|n| *n < 0x80)?;
        Some([&[1 << 3 | 2, length], bytes].concat())
    };
    let id = field(id.as_bytes());
    id.and_then(|id| field(&id)).unwrap_or_default()
}

/// A call in progress.
type Running = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// The stream of CRI's container events.
pub struct Events {
    /// `None` once the call has ended.
    asking: Option<Running>,
    tape: Arc<Mutex<Tape>>,
    told: Arc<Notify>,
    /// gRPC status and message of the call's end, when it had one.
    ended: (Option<u32>, String),
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// What the stream of container events delivered.
#[derive(Debug)]
pub enum Came {
    Events(Vec<Observation>),
    /// The stream ended.
    End {
        /// gRPC status, if the runtime sent one.
        code: Option<u32>,
        /// The reason, in words.
        why: String,
    },
}

impl Events {
    /// Connects, and subscribes to container events.
    pub async fn connect(path: &Path) -> Result<Self, Error> {
        let Asking {
            mut sender,
            connection,
            tape,
            told,
        } = Asking::connect(path).await?;
        let asking = Box::pin(async move {
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                r = ask(&mut sender, EVENTS, &[]) => r,
                _ = connection.as_mut() => Err(failed("container events", "it closed the connection".into())),
            }
        });
        Ok(Self {
            asking: Some(asking),
            tape,
            told,
            ended: (None, "the runtime ended its container events".to_owned()),
        })
    }

    /// Waits for the next events, or for the end of the stream.
    pub async fn next(&mut self) -> Came {
        loop {
            let mut events = Vec::new();
            for o in take(&self.tape) {
                match &o.body {
                    Body::ContainerEvent(_) => events.push(o),
                    Body::CallEnd(e) => {
                        let why = format!("{}: {} ({:?})", self.ended.1, e.message, e.code);
                        self.ended = (e.code, why);
                    }
                    _ => {}
                }
            }
            if !events.is_empty() {
                return Came::Events(events);
            }
            let Some(asking) = &mut self.asking else {
                let (code, why) = self.ended.clone();
                return Came::End { code, why };
            };
            tokio::select! {
                r = asking.as_mut() => {
                    self.asking = None;
                    if let Err(e) = r {
                        self.ended.1 = e.to_string();
                    }
                }
                () = self.told.notified() => {}
            }
        }
    }
}

/// Returns the runtime's name and version from its answer to `Version`: `containerd 2.1.4, CRI v1`.
pub async fn version(path: &Path) -> Result<String, Error> {
    let all = call(path, &[("/runtime.v1.RuntimeService/Version", Vec::new())]).await?;
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
