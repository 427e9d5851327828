//! The gRPC service on a unix socket, with several subscribers, none of which can delay the process.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body as GrpcBody;
use tonic::codegen::http;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::ring::Ring;
use super::socket::{self, Socket};
use super::wire::{self, Batch, InfoRequest, InfoResponse, SubscribeRequest};
use super::{Error, Log};
use kflow_model::clock;
use kflow_model::gap::Gap;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};

/// Size of the lines in one message, bytes.
const BATCH: usize = 256 << 10;
/// How long lines are collected before a subscriber gets them: a message for each call would cost more than the call.
const GATHER: Duration = Duration::from_millis(20);
/// How long subscribers have to read the rest when the service stops.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The process that hosts the service. It supplies what the service itself does not know.
pub trait Host: Send + Sync {
    /// Returns the state of the process and its clock (`now`). The service itself sets `version`, `epoch`,
    /// `subscribers` and the fields about the ring.
    fn info(&self) -> InfoResponse;
    /// Counts a subscriber that was refused because of its user id, if the process counts them. The service logs it.
    fn refused(&self) {}
    /// Passes the lines that arrived from `since` to `until`, in order of arrival, to `give`, as far as they are kept
    /// outside the ring. Called on a thread that may wait for a disk. The error says why the lines cannot be read.
    fn past(&self, since: Nanos, until: Nanos, give: Past<'_>) -> Result<(), String>;
}

/// Takes lines of the past, in order. Returns `false` when the subscriber has disconnected, which ends the reading.
pub type Past<'a> = &'a mut dyn FnMut(Vec<Bytes>) -> bool;

/// The service: cheap to clone.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a service with {} subscribers", self.subscribers())
    }
}

struct Inner {
    ring: Arc<Ring>,
    host: Arc<dyn Host>,
    epoch: Nanos,
    subscribers: AtomicU64,
}

impl Service {
    /// Returns a service that streams from `ring`. Its epoch is the current time.
    pub fn new(ring: Arc<Ring>, host: Arc<dyn Host>) -> Self {
        Self {
            inner: Arc::new(Inner {
                ring,
                host,
                epoch: clock::now(),
                subscribers: AtomicU64::new(0),
            }),
        }
    }
    /// Returns the number of subscribers that are being served.
    pub fn subscribers(&self) -> u64 {
        self.inner.subscribers.load(Ordering::Relaxed)
    }
}

impl Inner {
    fn epoch(&self) -> u64 {
        self.epoch.0.cast_unsigned()
    }

    fn info(&self) -> InfoResponse {
        let fill = self.ring.fill(clock::monotonic());
        InfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch: self.epoch(),
            ring_lines: fill.lines,
            ring_bytes: fill.bytes,
            ring_age_ns: fill
                .age
                .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)),
            subscribers: self.subscribers.load(Ordering::Relaxed),
            next: self.ring.next(),
            ..self.host.info()
        }
    }

    async fn feed(
        self: Arc<Self>,
        wants: SubscribeRequest,
        to: mpsc::Sender<Result<Batch, Status>>,
    ) {
        let mut news = self.ring.news();
        let resumes = wants.from > 0 && wants.epoch == self.epoch();
        let mut position = if wants.only_new {
            self.ring.next()
        } else if resumes {
            wants.from
        } else if wants.since > 0 {
            let since = Nanos(i64::try_from(wants.since).unwrap_or(i64::MAX));
            match self.past(since, &to).await {
                Some(first) => first,
                None => return,
            }
        } else {
            let (open, first) = self.ring.oldest();
            // An empty ring sends an empty batch as well, so that the subscriber does not wait for lines
            // that do not exist.
            let tells = !open.is_empty() || first == self.ring.next();
            if tells && to.send(Ok(self.batch(first, open, 0))).await.is_err() {
                return;
            }
            first
        };
        let mut reached = clock::now();
        loop {
            let finished = news.borrow_and_update().finished;
            let mut got = self.ring.read(position, BATCH);
            if got.lines.is_empty() {
                // The ring is finished, the subscriber disconnects, or lines come.
                if finished
                    || tokio::select! {
                        () = to.closed() => true,
                        changed = news.changed() => changed.is_err(),
                    }
                {
                    return;
                }
                // Once the service stops, there is nothing more to collect.
                if !news.borrow().finished {
                    tokio::time::sleep(GATHER).await;
                }
                continue;
            }
            position = got.first + got.lines.len() as u64;
            if got.lost > 0 {
                got.lines.insert(0, missed(reached, got.lost));
            }
            reached = clock::now();
            let batch = self.batch(position, got.lines, got.lost);
            if to.send(Ok(batch)).await.is_err() {
                return;
            }
        }
    }

    /// Sends what the host keeps of the time before the ring; this includes what is still open. Returns the position
    /// where the ring begins; `None` when the subscriber has disconnected.
    async fn past(
        self: &Arc<Self>,
        since: Nanos,
        to: &mpsc::Sender<Result<Batch, Status>>,
    ) -> Option<u64> {
        let (open, first) = self.ring.oldest();
        let until = self.ring.begin().unwrap_or_else(clock::now);
        let (its, sender) = (Arc::clone(self), to.clone());
        let read = tokio::task::spawn_blocking(move || {
            let mut give = |mut lines: Vec<Bytes>| {
                while !lines.is_empty() {
                    let mut bytes = 0;
                    let fits = lines.iter().take_while(|l| {
                        bytes += l.len();
                        bytes <= BATCH
                    });
                    let n = fits.count().max(1);
                    let rest = lines.split_off(n);
                    let batch = Batch {
                        past: true,
                        ..its.batch(0, std::mem::replace(&mut lines, rest), 0)
                    };
                    if sender.blocking_send(Ok(batch)).is_err() {
                        return false;
                    }
                }
                true
            };
            its.host.past(since, until, &mut give)
        });
        let why = match read.await {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(why),
            Err(_) => Some("reading what is kept on disk failed".to_owned()),
        };
        // What is open where the ring begins is in what the host keeps. Without that the ring's own note of it has to do.
        let lines = why.map_or_else(Vec::new, |why| {
            let why = format!("what was kept from before cannot be had: {why}");
            std::iter::once(gap(since, 0, &why)).chain(open).collect()
        });
        let rest = self.batch(first, lines, 0);
        to.send(Ok(rest)).await.ok().map(|()| first)
    }

    fn batch(&self, next: u64, lines: Vec<Bytes>, lost: u64) -> Batch {
        Batch {
            epoch: self.epoch(),
            next,
            lines,
            lost,
            past: false,
        }
    }
}

/// Returns the gap that tells a subscriber that it was too slow.
fn missed(since: Nanos, lost: u64) -> Bytes {
    gap(
        since,
        lost,
        "this subscriber was slower than the ring is long",
    )
}

fn gap(since: Nanos, lost: u64, why: &str) -> Bytes {
    let gap = Observation {
        stamp: Stamp::exact(clock::now()),
        source: Source::Kflow,
        body: Body::Gap(Box::new(Gap {
            of: Source::Cri,
            since,
            lost,
            conn: 0,
            resource: Text::default(),
            why: why.into(),
        })),
    };
    serde_json::to_vec(&gap).unwrap_or_default().into()
}

struct Subscribe(Arc<Inner>);

/// Counts a subscriber for as long as it is served.
struct Subscriber(Arc<Inner>);

impl Subscriber {
    fn new(inner: Arc<Inner>) -> Self {
        inner.subscribers.fetch_add(1, Ordering::Relaxed);
        Self(inner)
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.0.subscribers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServerStreamingService<SubscribeRequest> for Subscribe {
    type Response = Batch;
    type ResponseStream = ReceiverStream<Result<Batch, Status>>;
    type Future = std::future::Ready<Result<Response<Self::ResponseStream>, Status>>;
    fn call(&mut self, request: Request<SubscribeRequest>) -> Self::Future {
        // Two batches may be under way; everything else stays in the ring.
        let (to, stream) = mpsc::channel(2);
        let subscriber = Subscriber::new(Arc::clone(&self.0));
        tokio::spawn(async move {
            let inner = Arc::clone(&subscriber.0);
            inner.feed(request.into_inner(), to).await;
        });
        std::future::ready(Ok(Response::new(ReceiverStream::new(stream))))
    }
}

struct Info(Arc<Inner>);

impl UnaryService<InfoRequest> for Info {
    type Response = InfoResponse;
    type Future = std::future::Ready<Result<Response<InfoResponse>, Status>>;
    fn call(&mut self, _request: Request<InfoRequest>) -> Self::Future {
        std::future::ready(Ok(Response::new(self.0.info())))
    }
}

impl Service {
    async fn call(
        self,
        request: http::Request<GrpcBody>,
    ) -> Result<http::Response<GrpcBody>, Infallible> {
        let inner = self.inner;
        Ok(match request.uri().path() {
            wire::SUBSCRIBE => {
                Grpc::new(ProstCodec::default())
                    .server_streaming(Subscribe(inner), request)
                    .await
            }
            wire::INFO => {
                Grpc::new(ProstCodec::default())
                    .unary(Info(inner), request)
                    .await
            }
            path => Status::unimplemented(format!("kflow has no method {path}")).into_http(),
        })
    }
}

/// A bound server, ready to run on a thread of its own.
#[derive(Debug)]
pub struct Server {
    runtime: tokio::runtime::Runtime,
    listener: std::os::unix::net::UnixListener,
    tcp: Option<std::net::TcpListener>,
    socket: Socket,
}

impl Server {
    /// Accepts subscribers on a unix socket, and on `tcp` when there is one. Nothing is known about a client of `tcp`,
    /// so it has to be a loopback address that only permitted clients can reach.
    pub fn bind(socket: Socket, tcp: Option<std::net::TcpListener>) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::Thread)?;
        let listener = socket.listen()?;
        if let Some(tcp) = &tcp {
            tcp.set_nonblocking(true).map_err(Error::Thread)?;
        }
        Ok(Self {
            runtime,
            listener,
            tcp,
            socket,
        })
    }

    /// Serves until the ring is finished and subscribers have had `LAST_WORDS` to read the rest.
    pub fn run(self, service: &Service, log: &Log) {
        let Self {
            runtime,
            listener,
            tcp,
            socket,
        } = self;
        // The kubelet and the decoder get the CPU before subscribers do.
        rustix::process::nice(10).ok();
        let ended = runtime.block_on(async {
            let listener = UnixListener::from_std(listener)?;
            let tcp = tcp.map(TcpListener::from_std).transpose()?;
            let forwarded = async || match &tcp {
                Some(tcp) => tcp.accept().await,
                None => std::future::pending().await,
            };
            let mut news = service.inner.ring.news();
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    _ = news.wait_for(|n| n.finished) => break,
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) if may_subscribe(&stream) => {
                            connections.spawn(carry(stream, service.clone()));
                        }
                        Ok(_) => {
                            service.inner.host.refused();
                            log("refused a subscriber: it is neither root nor the user that kflow runs as");
                        }
                        Err(e) => {
                            log(&format!("cannot accept a subscriber: {e}; trying again"));
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                    },
                    accepted = forwarded() => match accepted {
                        Ok((stream, _)) => {
                            connections.spawn(carry(stream, service.clone()));
                        }
                        Err(e) => {
                            log(&format!("cannot accept a forwarded subscriber: {e}; trying again"));
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                    },
                    Some(_) = connections.join_next() => {}
                }
            }
            drop((listener, tcp));
            let rest = async { while connections.join_next().await.is_some() {} };
            drop(tokio::time::timeout(LAST_WORDS, rest).await);
            Ok::<(), std::io::Error>(())
        });
        if let Err(e) = ended {
            log(&format!(
                "the observation service on {} ended: {e}",
                socket.path().display()
            ));
        }
    }
}

fn may_subscribe(stream: &UnixStream) -> bool {
    stream
        .peer_cred()
        .is_ok_and(|cred| socket::may_use(cred.uid()))
}

/// Serves one connection. When the ring is finished, the connection ends once its streams have ended.
async fn carry<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: S, service: Service) {
    let mut news = service.inner.ring.news();
    let service = service_fn(move |request: http::Request<Incoming>| {
        service.clone().call(request.map(GrpcBody::new))
    });
    let mut connection = std::pin::pin!(
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        // An error of the connection is not logged: the subscriber sees the same error.
        _ = connection.as_mut() => return,
        _ = news.wait_for(|n| n.finished) => connection.as_mut().graceful_shutdown(),
    }
    drop(connection.await);
}
