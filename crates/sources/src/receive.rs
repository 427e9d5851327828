//! Receives what other programs send: one small HTTP server for the OTLP and audit receivers.
//!
//! The server listens on loopback unless the user explicitly allows another address, or on a unix socket that root
//! and its own user may use. It takes bounded bodies from a bounded number of connections, and never blocks a sender:
//! observations for which the engine has no room are counted and reported.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response, StatusCode};

use kflow_model::Observation;
use kflow_serve::socket::{self, Socket};

/// Largest body that is accepted, bytes; a batch of an exporter or of the audit webhook stays well below.
pub const MAX_BODY: usize = 16 << 20;
/// Connections served at once; more wait in the listener's queue.
const CONNECTIONS: usize = 64;
/// How long a connection may carry no request before it is closed, so that others are served. Exporters connect again.
const IDLE: Duration = Duration::from_secs(120);

/// Passes observations to the engine, and returns how many the engine had no room for.
pub type Sink = Arc<dyn Fn(Vec<Observation>) -> usize + Send + Sync>;

/// Responds to one request.
pub type Handler = Arc<dyn Fn(Request<Incoming>) -> Answer + Send + Sync>;
/// The response to come.
pub type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Why a receiver does not listen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not on this machine's loopback.
    #[error(
        "{what} would listen on {addr}, which other machines can reach; name a loopback address (127.0.0.1:{port}), or allow it with --listen-anywhere",
        port = addr.port()
    )]
    NotLoopback {
        /// Which receiver.
        what: &'static str,
        /// Address to listen on.
        addr: SocketAddr,
    },
    /// The address cannot be bound.
    #[error(
        "{what} cannot listen on {addr}: {source}; is another collector running there? choose another port, or switch it off"
    )]
    Bind {
        /// Which receiver.
        what: &'static str,
        /// Address to listen on.
        addr: SocketAddr,
        source: io::Error,
    },
    /// The unix socket cannot be created.
    #[error("{what} cannot listen: {source}")]
    Socket {
        /// Which receiver.
        what: &'static str,
        source: socket::Error,
    },
}

/// What a receiver listens on.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    /// The socket with its path, which exists as long as the receiver listens.
    Unix(UnixListener, Socket),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Listener {
    /// Returns the address or path that the receiver listens on, for messages.
    pub fn place(&self) -> String {
        match self {
            Self::Tcp(tcp) => tcp
                .local_addr()
                .map_or_else(|_| String::new(), |addr| addr.to_string()),
            Self::Unix(_, socket) => socket.path().display().to_string(),
        }
    }

    /// Accepts the next connection; an error when the peer is a user who may not connect.
    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Tcp(tcp) => Ok(Box::new(tcp.accept().await?.0)),
            Self::Unix(unix, _) => {
                let (stream, _) = unix.accept().await?;
                if socket::may_use(stream.peer_cred()?.uid()) {
                    Ok(Box::new(stream))
                } else {
                    Err(io::ErrorKind::PermissionDenied.into())
                }
            }
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(tcp: TcpListener) -> Self {
        Self::Tcp(tcp)
    }
}

/// Listens on a unix socket that root and the process's own user can reach: mode 0600, in a folder of mode 0700.
pub fn bind_unix(what: &'static str, path: &Path) -> Result<Listener, Error> {
    let failed = |source| Error::Socket { what, source };
    let socket = Socket::claim(path).map_err(failed)?;
    let listener = socket.listen().map_err(failed)?;
    let listener = UnixListener::from_std(listener).map_err(|source| {
        failed(socket::Error::Io {
            what: "listen on",
            path: path.to_path_buf(),
            source,
        })
    })?;
    Ok(Listener::Unix(listener, socket))
}

/// Binds a receiver's address.
pub async fn bind(
    what: &'static str,
    addr: SocketAddr,
    anywhere: bool,
) -> Result<TcpListener, Error> {
    if !addr.ip().is_loopback() && !anywhere {
        return Err(Error::NotLoopback { what, addr });
    }
    TcpListener::bind(addr)
        .await
        .map_err(|source| Error::Bind { what, addr, source })
}

/// Serves HTTP/1.1 and HTTP/2 without TLS, as exporters on the same machine speak it, until `stop` is done.
pub async fn serve(
    listener: impl Into<Listener>,
    handler: Handler,
    stop: impl Future<Output = ()> + Send,
) {
    serve_patiently(listener, handler, stop, IDLE).await;
}

/// Serves, and closes connections that carry no request for `idle`.
async fn serve_patiently(
    listener: impl Into<Listener>,
    handler: Handler,
    stop: impl Future<Output = ()> + Send,
    idle: Duration,
) {
    let listener = listener.into();
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    tokio::pin!(stop);
    let mut running = tokio::task::JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let stream = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => {
                let Ok(stream) = accepted else {
                    // No file descriptor is left, or the peer is gone already or may not connect: none of these ends
                    // the receiver.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                stream
            }
        };
        while running.try_join_next().is_some() {}
        let handler = Arc::clone(&handler);
        running.spawn(async move {
            one(stream, handler, idle).await;
            drop(permit);
        });
    }
}

/// Serves a connection until its peer closes it, or it carries no request for `idle`.
async fn one(stream: Box<dyn Stream>, handler: Handler, idle: Duration) {
    // Requests that have come, and those of them that are answered.
    let (come, answered) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (Arc::clone(&come), Arc::clone(&answered));
    let service = service_fn(move |request| {
        come.fetch_add(1, Ordering::Relaxed);
        let answered = Arc::clone(&answered);
        let answer = handler(request);
        async move {
            let answer = answer.await;
            answered.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(answer)
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut before = 0;
    loop {
        // An error on one connection is for its peer to retry.
        if timeout(idle, connection.as_mut()).await.is_ok() {
            return;
        }
        let (come, answered) = &counts;
        let now = come.load(Ordering::Relaxed);
        if now == before && answered.load(Ordering::Relaxed) == now {
            break;
        }
        before = now;
    }
    // The peer is told, where the protocol can, and is given as long again to take note.
    connection.as_mut().graceful_shutdown();
    timeout(idle, connection).await.ok();
}

/// Reads a body of at most [`MAX_BODY`] bytes, and decompresses gzip. The error is the response
/// that refuses the request.
pub async fn body(request: Request<Incoming>) -> Result<prost::bytes::Bytes, Response<Body>> {
    use http_body_util::{BodyExt, LengthLimitError, Limited};
    let too_large = || {
        answer(
            StatusCode::PAYLOAD_TOO_LARGE,
            "text/plain",
            "body over 16 MiB",
        )
    };
    let packed = match header(&request, "content-encoding") {
        "" | "identity" => false,
        "gzip" => true,
        _ => {
            return Err(answer(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "text/plain",
                "compress it with gzip, or not at all",
            ));
        }
    };
    let body = match Limited::new(request.into_body(), MAX_BODY).collect().await {
        Ok(b) => b.to_bytes(),
        Err(e) if e.downcast_ref::<LengthLimitError>().is_some() => return Err(too_large()),
        Err(_) => {
            return Err(answer(
                StatusCode::BAD_REQUEST,
                "text/plain",
                "the body broke off",
            ));
        }
    };
    if !packed {
        return Ok(body);
    }
    match unpack(&body) {
        Ok(Some(plain)) => Ok(plain.into()),
        Ok(None) => Err(too_large()),
        Err(_) => Err(answer(
            StatusCode::BAD_REQUEST,
            "text/plain",
            "the body is not gzip as its header says",
        )),
    }
}

/// Decompresses gzip, at most [`MAX_BODY`] bytes of it; `None` when it holds more.
fn unpack(packed: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut plain = Vec::with_capacity(packed.len().saturating_mul(4).min(MAX_BODY));
    flate2::read::MultiGzDecoder::new(packed)
        .take(MAX_BODY as u64 + 1)
        .read_to_end(&mut plain)?;
    Ok((plain.len() <= MAX_BODY).then_some(plain))
}

/// Returns a header's value; empty when it is absent or not text.
pub fn header<'a>(request: &'a Request<Incoming>, name: &str) -> &'a str {
    request
        .headers()
        .get(name)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default()
}

/// Returns a response with a short text.
pub fn answer(
    status: StatusCode,
    content_type: &'static str,
    text: impl Into<prost::bytes::Bytes>,
) -> Response<Body> {
    let mut r = Response::new(Body::new(http_body_util::Full::new(text.into())));
    *r.status_mut() = status;
    r.headers_mut().insert(
        "content-type",
        tonic::codegen::http::HeaderValue::from_static(content_type),
    );
    r
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_without_a_request_do_not_keep_others_out() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let handler: Handler =
            Arc::new(|_| Box::pin(async { answer(StatusCode::OK, "text/plain", "here") }));
        let never = std::future::pending();
        let idle = Duration::from_millis(20);
        let serving = tokio::spawn(serve_patiently(listener, handler, never, idle));
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS {
            silent.push(tokio::net::TcpStream::connect(at).await.unwrap());
        }
        let mut one = tokio::net::TcpStream::connect(at).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: kflow\r\nConnection: close\r\n\r\n";
        one.write_all(request).await.unwrap();
        let mut said = String::new();
        let read = one.read_to_string(&mut said);
        timeout(Duration::from_secs(30), read)
            .await
            .unwrap()
            .unwrap();
        assert!(said.ends_with("here"), "{said}");
        serving.abort();
    }
}
