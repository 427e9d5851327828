//! The CRI proxy: a separate process that copies bytes between the kubelet and the runtime, and
//! serves what it observes.
//!
//! ```text
//! kubelet ──▶ --listen ══ relay ══ --upstream ──▶ containerd        the relay copies, stamps, never parses
//!                           │ copies of chunks, try_push
//!                         [tap: bounded queue] ──▶ decoder ──▶ [ring] ──▶ --serve ──▶ subscribers
//! ```
//!
//! Each of the three threads yields to the one before it: the relay never waits for the tap, the tap never waits for
//! the ring, the ring never waits for a subscriber. Whatever one of them cannot take is counted and reported as a
//! [`Gap`](kflow_model::gap::Gap).
//!
//! | module | owns |
//! |---|---|
//! | [`relay`] | the bytes: pumps, half-close, draining, mirroring an upstream that is down |
//! | [`tap`] | the queue of copies and the decoder's thread |
//! | [`notify`] | messages to systemd |
//!
//! Ring, sockets and service are [`kflow_serve`]'s. The crate is empty on what is not Linux: it stands in the path of a
//! node's calls, and nodes run Linux.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use kflow_model::{Nanos, clock};
use kflow_serve::Log;
use kflow_serve::ring::Ring;
use kflow_serve::service::{Host, Past, Server, Service};
use kflow_serve::socket::Socket;
use kflow_serve::wire::InfoResponse;

pub mod notify;
pub mod relay;
pub mod tap;

#[derive(Clone, Debug)]
pub struct Config {
    /// Socket that clients (the kubelet) connect to.
    pub listen: PathBuf,
    /// The runtime's own socket.
    pub upstream: PathBuf,
    /// Socket of the observation service; `None` for no service.
    pub serve: Option<PathBuf>,
    /// Bytes of tapped chunks that may wait for the decoder.
    pub tap_bytes: usize,
    /// Bytes of observations that the ring keeps.
    pub ring_bytes: usize,
    /// Age of observations that the ring keeps.
    pub ring_age: Duration,
    /// How long calls in flight may take to finish once the proxy is asked to stop.
    pub drain: Duration,
}

impl Config {
    /// The defaults: 16 MiB of waiting chunks, a ring of 8 MiB and ten minutes, ten seconds to drain.
    pub fn new(listen: impl Into<PathBuf>, upstream: impl Into<PathBuf>) -> Self {
        Self {
            listen: listen.into(),
            upstream: upstream.into(),
            serve: None,
            tap_bytes: 16 << 20,
            ring_bytes: 8 << 20,
            ring_age: Duration::from_secs(600),
            drain: Duration::from_secs(10),
        }
    }
}

/// Why the proxy could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A socket could not be bound or used.
    #[error(transparent)]
    Socket(#[from] kflow_serve::socket::Error),
    /// The observation service could not be started.
    #[error(transparent)]
    Serve(#[from] kflow_serve::Error),
    /// Listening on the upstream socket would connect the proxy to itself.
    #[error(
        "--listen and --upstream are both {0}: give the runtime's socket as --upstream and another path as --listen"
    )]
    Loop(PathBuf),
    /// A thread, or its tokio runtime, could not be started.
    #[error("cannot start the {thread} thread: {source}")]
    Thread {
        /// Name of the thread.
        thread: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Counters that the service reports and tests read. All but `connections`, `partial` and `queued_bytes` only rise.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted so far.
    pub accepted: AtomicU64,
    /// Connections open now.
    pub connections: AtomicU64,
    /// Connections refused because of the peer's user id.
    pub refused: AtomicU64,
    /// Bytes copied, both ways.
    pub bytes: AtomicU64,
    /// Chunks that the tap had no room for, or that belong to a connection it gave up.
    pub lost_chunks: AtomicU64,
    /// Bytes of those chunks.
    pub lost_bytes: AtomicU64,
    /// Open connections whose calls may be unknown: bytes of them were lost recently, or the decoder gave them up.
    pub partial: AtomicU64,
    /// Caught panics of the decoder.
    pub panics: AtomicU64,
    /// Bytes that wait for the decoder now.
    pub queued_bytes: AtomicU64,
    /// Observations made.
    pub observations: AtomicU64,
    /// True while connecting to the upstream fails.
    pub upstream_down: AtomicBool,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
    /// Reads a counter.
    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}

/// The source of `Info` answers: connections, bytes, losses.
#[derive(Debug)]
struct About {
    listen: PathBuf,
    upstream: PathBuf,
    counters: Arc<Counters>,
}

impl Host for About {
    fn info(&self) -> InfoResponse {
        let c = &self.counters;
        InfoResponse {
            listen: self.listen.display().to_string(),
            upstream: self.upstream.display().to_string(),
            upstream_up: !c.upstream_down.load(Ordering::Relaxed),
            connections: Counters::get(&c.connections),
            accepted: Counters::get(&c.accepted),
            partial: Counters::get(&c.partial),
            bytes: Counters::get(&c.bytes),
            lost_chunks: Counters::get(&c.lost_chunks),
            lost_bytes: Counters::get(&c.lost_bytes),
            panics: Counters::get(&c.panics),
            observations: Counters::get(&c.observations),
            queued_bytes: Counters::get(&c.queued_bytes),
            now: u64::try_from(clock::now().0).unwrap_or(0),
            ..InfoResponse::default()
        }
    }
    fn refused(&self) {
        Counters::add(&self.counters.refused, 1);
    }
    /// The proxy keeps nothing but the ring.
    fn past(&self, _: Nanos, _: Nanos, _: Past<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// A running proxy. Dropping it stops it as [`stop`](Self::stop) does, and waits too.
#[derive(Debug)]
pub struct Proxy {
    stop: watch::Sender<bool>,
    relay: Option<JoinHandle<()>>,
    serve: Option<JoinHandle<()>>,
    tap: Option<JoinHandle<()>>,
    queue: Arc<tap::Queue>,
    /// Connections, bytes and losses since the start.
    pub counters: Arc<Counters>,
    /// The last minutes of observations.
    pub ring: Arc<Ring>,
}

impl Proxy {
    /// Binds the sockets and starts the threads. When this returns, clients can connect, or are refused as the runtime
    /// itself would refuse them if the upstream is down.
    pub fn start(config: &Config, decoder: Box<dyn tap::Decode>, log: &Log) -> Result<Self, Error> {
        if config.listen == config.upstream {
            return Err(Error::Loop(config.listen.clone()));
        }
        let socket = Socket::claim(&config.listen)?;
        let serve_socket = config.serve.as_deref().map(Socket::claim).transpose()?;

        let counters = Arc::new(Counters::default());
        let ring = Arc::new(Ring::new(config.ring_bytes, config.ring_age));
        let queue = Arc::new(tap::Queue::new(config.tap_bytes, Arc::clone(&counters)));
        let (stop, stopped) = watch::channel(false);

        let tap = {
            let (queue, ring, log) = (Arc::clone(&queue), Arc::clone(&ring), Arc::clone(log));
            spawn("tap", move || tap::run(&queue, decoder, &ring, &log))?
        };
        let serve = match serve_socket {
            Some(socket) => {
                let about = About {
                    listen: config.listen.clone(),
                    upstream: config.upstream.clone(),
                    counters: Arc::clone(&counters),
                };
                let service = Service::new(Arc::clone(&ring), Arc::new(about));
                let log = Arc::clone(log);
                let ready = Server::bind(socket, None)?;
                Some(spawn("serve", move || ready.run(&service, &log))?)
            }
            None => None,
        };
        let relay = {
            let relay = relay::Relay::new(config, socket, Arc::clone(&queue), Arc::clone(log))?;
            let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
            let relay = spawn("relay", move || relay.run(stopped, &ready))?;
            // `recv` fails if the thread has ended; `finish` joins it.
            is_ready.recv().ok();
            relay
        };
        Ok(Self {
            stop,
            relay: Some(relay),
            serve,
            tap: Some(tap),
            queue,
            counters,
            ring,
        })
    }

    /// Stops accepting, lets calls in flight finish (for at most [`Config::drain`]), closes all connections and removes
    /// the sockets.
    pub fn stop(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        self.stop.send_replace(true);
        // In the order of the data's flow: each thread hands on its last items before the next one ends.
        join(&mut self.relay);
        self.queue.finish();
        join(&mut self.tap);
        self.ring.finish();
        join(&mut self.serve);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.finish();
    }
}

fn join(thread: &mut Option<JoinHandle<()>>) {
    if let Some(t) = thread.take() {
        // The panic hook has reported a panic of that thread; the other threads still have to be stopped.
        drop(t.join());
    }
}

fn spawn(name: &'static str, f: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(format!("kflow-{name}"))
        .spawn(f)
        .map_err(|source| Error::Thread {
            thread: name,
            source,
        })
}
