//! The agent's process: it takes what the sources see, keeps it in a ring and in a spool, and serves both.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;

use kflow_engine::live::{Config, Sources};
use kflow_model::clock::{self, Steps};
use kflow_model::gap::ClockStep;
use kflow_model::session::format;
use kflow_model::turns::Turns;
use kflow_model::{Body, Evidence, Nanos, Observation, Source, Stamp};
use kflow_serve::Log;
use kflow_serve::ring::{self, Ring};
use kflow_serve::service::{Host, Past, Server, Service};
use kflow_serve::socket::Socket;
use kflow_serve::wire;
use kflow_sources::live::{Board, Status};
use kflow_store::{Bounds, Cluster, Keeper, Store, Tidy, Uploader, upload};

use crate::find::Finding;
use crate::metrics::{self, Counts, State};
use crate::scrape::{self, Page};

/// How many observations are taken at once.
const BATCH: usize = 4096;
/// Number of observations in a turn, each of which has to be redacted.
const TURN: usize = 8;
/// Longest pause between two readings of the clock and of the flag to stop.
const LOOK: Duration = Duration::from_millis(100);
/// How long the agent sends the segments that were closed last when it ends: less than a pod's default
/// grace period (30 s).
const LAST: Duration = Duration::from_secs(15);

/// How an agent keeps and serves what it sees.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the node.
    pub node: String,
    /// Socket of the observation service.
    pub serve: PathBuf,
    /// Loopback address of the same service, for a port-forward.
    pub listen: Option<SocketAddr>,
    /// Folder and bounds of the spool; `None` keeps nothing on disk.
    pub spool: Option<(PathBuf, Bounds)>,
    /// Store to which the spool's segments are sent.
    pub store: Option<(Store, Cluster)>,
    /// Maintenance of that store by this agent: removing old segments and compacting the index.
    pub tidy: Tidy,
    /// Loopback address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// Bytes of observations that the ring keeps.
    pub ring_bytes: usize,
    /// Age of observations that the ring keeps.
    pub ring_age: Duration,
    /// What was found on the node, and what is missing.
    pub findings: Vec<Finding>,
    /// Folder in which this process sees the node's root, removed from the paths that the agent reports; empty when it
    /// is `/`.
    pub root: String,
}

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The observation service cannot start.
    #[error(transparent)]
    Serve(#[from] kflow_serve::Error),
    /// The sources cannot start.
    #[error(transparent)]
    Sources(#[from] kflow_engine::live::Error),
    /// Other machines could reach the address.
    #[error(
        "{0} can be reached from other machines: an agent listens on loopback only, and who looks comes by way of the apiserver; name 127.0.0.1:{port}", port = .0.port()
    )]
    NotLoopback(SocketAddr),
    /// The agent cannot listen on the address.
    #[error(
        "cannot listen on {addr}: {source}; is another agent running in this network namespace?"
    )]
    Listen {
        addr: SocketAddr,
        source: std::io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start the agent's thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    stop: Arc<AtomicBool>,
    sources: Option<Sources>,
    take: Option<JoinHandle<Option<Keeper>>>,
    serve: Option<JoinHandle<()>>,
    ring: Arc<Ring>,
    service: Service,
    kept: Option<kflow_store::Ring>,
    upload: Option<Uploader>,
}

/// How an agent ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// True when the spool was closed in time, or there is none.
    pub closed: bool,
    /// Number of segments that the store does not have.
    pub waiting: usize,
    /// Why the store accepts nothing; `None` when it does.
    pub failing: Option<String>,
}

type Sent = Box<dyn Fn() -> upload::Status + Send + Sync>;

/// What `Info` reports about the agent: sources, findings, spool, store.
struct About {
    options: Options,
    board: Board,
    spool: Option<kflow_store::Ring>,
    /// Returns the state of the upload into the store; `None` when there is no store.
    sent: Option<Sent>,
    /// Why there is no spool although one was asked for.
    unkept: Mutex<Option<String>>,
}

impl About {
    fn store(&self) -> Option<wire::Store> {
        let (store, _) = self.options.store.as_ref()?;
        let kept = self.spool.as_ref()?.status();
        let sent = self.sent.as_ref()?();
        let tidied = sent.tidied.unwrap_or_default();
        Some(wire::Store {
            url: store.url().to_owned(),
            sent: sent.sent,
            bytes: sent.bytes,
            last: sent.last.map_or(0, |at| u64::try_from(at.0).unwrap_or(0)),
            waiting: kept.waiting as u64,
            dropped: kept.dropped.0,
            dropped_observations: kept.dropped.1,
            unsendable: sent.unsendable,
            failing: sent.failing.unwrap_or_default(),
            removed: tidied.segments,
            untidy: tidied.failing.unwrap_or_default(),
        })
    }
}

impl Host for About {
    fn info(&self) -> wire::InfoResponse {
        let sources = self.board.statuses();
        let observations = sources.iter().map(|s| s.count).sum();
        let root = self.options.root.as_str();
        let of_node = |text: &str| match root {
            "" => text.to_owned(),
            root => text.replace(root, ""),
        };
        let sources = sources.into_iter().map(|s| wire::SourceState {
            kind: s.source.name().to_owned(),
            name: of_node(&s.name),
            state: match s.status {
                Status::Starting => 0,
                Status::On(_) => 1,
                Status::Off(_) => 2,
            },
            detail: of_node(s.detail()),
            observations: s.count,
            lost: s.lost,
        });
        let findings = self.options.findings.iter().map(|f| wire::Finding {
            what: f.what.clone(),
            there: f.there,
            found: f.found.clone(),
            todo: f.todo.clone(),
        });
        let unkept = self.unkept.lock().unwrap_or_else(PoisonError::into_inner);
        let spool = match (&self.spool, &*unkept) {
            (Some(ring), _) => {
                let s = ring.status();
                let oldest = ring.segments().first().map_or(Nanos(0), |s| s.begin);
                Some(wire::Spool {
                    since: u64::try_from(oldest.0).unwrap_or(0),
                    segments: s.segments as u64,
                    bytes: s.bytes,
                    lost: s.lost,
                    failing: s.failing.unwrap_or_default(),
                })
            }
            (None, Some(why)) => Some(wire::Spool {
                failing: why.clone(),
                ..wire::Spool::default()
            }),
            (None, None) => None,
        };
        wire::InfoResponse {
            upstream_up: true,
            observations,
            agent: Some(wire::Agent {
                node: self.options.node.clone(),
                sources: sources.collect(),
                findings: findings.collect(),
                spool,
                store: self.store(),
            }),
            now: u64::try_from(clock::now().0).unwrap_or(0),
            ..wire::InfoResponse::default()
        }
    }

    fn past(&self, since: Nanos, until: Nanos, give: Past<'_>) -> Result<(), String> {
        let Some(spool) = &self.spool else {
            return Err("this agent keeps no spool".to_owned());
        };
        let read = spool.read(since, until, |batch| {
            give(batch.iter().map(|o| ring::line(o)).collect())
        });
        read.map(|_| ()).map_err(|e| e.to_string())
    }
}

impl Agent {
    /// Starts the sources, the spool and the service. When this returns, viewers can connect. A spool that cannot be
    /// opened is reported, and the agent runs without it.
    pub fn start(config: &Config, options: Options, log: &Log) -> Result<Self, Error> {
        let socket = Socket::claim(&options.serve).map_err(kflow_serve::Error::from)?;
        let tcp = options.listen.map(listen).transpose()?;
        let scraped = options.metrics.map(listen).transpose()?;
        let mut unkept = None;
        let keeper = options.spool.clone().and_then(|(dir, bounds)| {
            let kept = kflow_store::Options {
                node: options.node.as_str().into(),
                bounds,
                owed: options.store.is_some(),
            };
            Keeper::start(dir, kept)
                .inspect_err(|e| {
                    log(&format!("nothing is kept on disk: {e}"));
                    unkept = Some(e.to_string());
                })
                .ok()
        });
        let kept = keeper.as_ref().map(Keeper::ring);
        let upload = match (&kept, options.store.clone()) {
            (Some(kept), Some((store, cluster))) => {
                let upload = Uploader::start(kept.clone(), store, cluster, Some(options.tidy));
                Some(upload.map_err(Error::Thread)?)
            }
            _ => None,
        };
        let ring = Arc::new(Ring::new(options.ring_bytes, options.ring_age));
        let (sources, from) = Sources::start(config)?;
        let about = About {
            options,
            board: sources.board(),
            spool: kept.clone(),
            sent: upload.as_ref().map(|u| Box::new(u.watch()) as Sent),
            unkept: Mutex::new(unkept),
        };
        let service = Service::new(Arc::clone(&ring), Arc::new(about));
        let server = Server::bind(socket, tcp)?;
        let said = Arc::clone(log);
        let serve = {
            let service = service.clone();
            spawn("kflow-serve", move || server.run(&service, &said))?
        };
        let counts = scraped.is_some().then(Arc::<Mutex<Counts>>::default);
        if let (Some(listener), Some(counts)) = (scraped, &counts) {
            let (counts, board, kept) = (Arc::clone(counts), sources.board(), kept.clone());
            let sent = upload.as_ref().map(Uploader::watch);
            let page: Page = Arc::new(move || {
                let state = State {
                    sources: board.statuses(),
                    spool: kept.as_ref().map(kflow_store::Ring::status),
                    store: sent.as_ref().map(|sent| sent()),
                };
                let counts = counts
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                let mut page = Vec::new();
                metrics::write(&mut page, &counts, &state).map(|()| page)
            });
            let said = Arc::clone(log);
            spawn("kflow-metrics", move || {
                if let Err(e) = scrape::serve(listener, &page) {
                    said(&format!("metrics are not served: {e}"));
                }
            })?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let take = {
            let (stop, ring) = (Arc::clone(&stop), Arc::clone(&ring));
            spawn("kflow-agent", move || {
                take(from, keeper, &ring, counts.as_deref(), &stop)
            })?
        };
        Ok(Self {
            stop,
            sources: Some(sources),
            take: Some(take),
            serve: Some(serve),
            ring,
            service,
            kept,
            upload,
        })
    }

    /// Returns the state of the upload into the store; `None` when there is no store.
    pub fn upload(&self) -> Option<upload::Status> {
        self.upload.as_ref().map(Uploader::status)
    }

    /// Returns how many subscribers are connected.
    pub fn subscribers(&self) -> u64 {
        self.service.subscribers()
    }

    /// False when the agent's thread has ended, which only a bug causes.
    pub fn works(&self) -> bool {
        self.take.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// Ends the sources, closes the spool and sends it, lets viewers read the rest, and removes the socket.
    pub fn stop(mut self) -> Ended {
        // The sources end first, so that nothing arrives after what they have sent.
        if let Some(sources) = self.sources.take() {
            sources.stop();
        }
        self.stop.store(true, Ordering::Relaxed);
        let keeper = self.take.take().and_then(|t| t.join().ok()).flatten();
        let closed = keeper.is_none_or(Keeper::stop);
        self.ring.finish();
        if let Some(serve) = self.serve.take() {
            // The panic hook has reported a panic of that thread.
            drop(serve.join());
        }
        let sent = self.upload.take().map(|upload| upload.stop(LAST));
        let waiting = match (&sent, &self.kept) {
            (Some(_), Some(kept)) => kept.status().waiting,
            _ => 0,
        };
        Ended {
            closed,
            waiting,
            failing: sent.and_then(|s| s.failing),
        }
    }
}

fn listen(addr: SocketAddr) -> Result<TcpListener, Error> {
    if !addr.ip().is_loopback() {
        return Err(Error::NotLoopback(addr));
    }
    TcpListener::bind(addr).map_err(|source| Error::Listen { addr, source })
}

fn spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(f)
        .map_err(Error::Thread)
}

/// Takes observations until `stop` is set, and then those that are left. Returns the spool's keeper.
fn take(
    mut from: Receiver<Observation>,
    keeper: Option<Keeper>,
    ring: &Ring,
    counts: Option<&Mutex<Counts>>,
    stop: &AtomicBool,
) -> Option<Keeper> {
    let waiting = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .ok()?;
    let mut got = Vec::with_capacity(BATCH);
    let mut steps = Steps::default();
    steps.look(clock::both());
    let mut turns = Turns::of(TURN);
    loop {
        let stopping = stop.load(Ordering::Relaxed);
        // A time-out is not the end of the channel: nothing has arrived.
        let n = waiting
            .block_on(async { tokio::time::timeout(LOOK, from.recv_many(&mut got, BATCH)).await })
            .unwrap_or(usize::MAX);
        if let Some(by) = steps.look(clock::both()) {
            got.push(Observation {
                stamp: Stamp::exact(clock::now()),
                source: Source::Kflow,
                body: Body::ClockStep(Box::new(ClockStep { by })),
            });
        }
        if n < BATCH {
            turns.waited();
        }
        // Redacted as in a session, because a subscriber may write to a file what it gets.
        let mut all: Vec<Evidence> = Vec::with_capacity(got.len());
        for o in got.drain(..) {
            all.push(Arc::new(format::redacted(o)));
            turns.done();
        }
        if let Some(keeper) = &keeper {
            for o in &all {
                keeper.take(o);
            }
        }
        if let Some(counts) = counts {
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            for o in &all {
                counts.take(o);
            }
        }
        ring.push(&mut all, clock::monotonic());
        if n == 0 || (stopping && n == usize::MAX) {
            return keeper;
        }
    }
}
