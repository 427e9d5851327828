//! Copies the bytes. A connection has two pumps; a pump reads what there is, writes it at once, and only then hands a
//! copy to the tap. The relay parses nothing, holds nothing back, and reads no more before the last piece is written: a
//! slow reader slows the writer exactly as it would without kflow.
//!
//! A pump is a thread with blocking calls: one read and one write for each piece. An event loop would need a third call
//! for each piece and its own bookkeeping, which costs more than the bytes. What happens once per connection
//! (accepting, half-closes, draining) is left to an event loop.
//!
//! When the runtime is down, the relay stops listening until the runtime listens again. A client then gets the same
//! `connection refused` or `no such file` that it would get from the runtime's own path.

use std::io;
use std::os::unix::net::UnixStream as Stream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify as Wake, mpsc, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::notify::Notify;
use super::tap::{Queue, Tap};
use super::{Config, Counters, Error};
use kflow_cri::Direction;
use kflow_model::clock;
use kflow_model::units::wait;
use kflow_serve::Log;
use kflow_serve::socket::{self, Socket};

mod connection;
#[cfg(test)]
mod model;
mod pump;

use connection::{Closing, Connection, DRAINED, UPSTREAM_CLOSED};
use pump::{Pump, Wire, is_own};

/// Stack of a pump's thread, bytes; its calls are not nested deeply.
const STACK: usize = 128 << 10;
/// How often the relay tries to connect to a runtime that is down.
const RETRY: Duration = Duration::from_millis(50);

/// The relay before it runs.
#[derive(Debug)]
pub struct Relay {
    runtime: tokio::runtime::Runtime,
    shared: RelayState,
    socket: Socket,
    drain: Duration,
}

#[derive(Clone)]
struct RelayState {
    upstream: PathBuf,
    queue: Arc<Queue>,
    log: Log,
}

impl std::fmt::Debug for RelayState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayState")
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}

impl Relay {
    /// Prepares the relay. If the upstream accepts connections, the relay listens when this returns.
    pub fn new(
        config: &Config,
        socket: Socket,
        queue: Arc<Queue>,
        log: Log,
    ) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| Error::Thread {
                thread: "relay",
                source,
            })?;
        Ok(Self {
            runtime,
            shared: RelayState {
                upstream: config.upstream.clone(),
                queue,
                log,
            },
            socket,
            drain: config.drain,
        })
    }

    /// Runs until `stopped` turns true and the connections are drained. Sends to `ready` once the relay listens, or
    /// knows that the upstream does not.
    pub fn run(self, mut stopped: watch::Receiver<bool>, ready: &SyncSender<()>) {
        let Self {
            runtime,
            shared,
            socket,
            drain,
        } = self;
        let set = LocalSet::new();
        set.block_on(&runtime, async {
            let notify = Notify::from_env();
            let mut doors = Doors {
                shared,
                socket,
                listener: None,
                conns: JoinSet::new(),
                // One permit is enough for any number of closed connections: it only triggers a look at the upstream.
                upstream_closed: Rc::new(Wake::new()),
                next_conn: 1,
                complaint: String::new(),
                drained: watch::channel(false).0,
            };
            doors.look().await;
            notify.send("READY=1");
            ready.send(()).ok();
            doors.serve(&mut stopped, &notify).await;
            notify.send("STOPPING=1");
            doors.close(drain).await;
        });
    }
}

struct Doors {
    shared: RelayState,
    socket: Socket,
    listener: Option<UnixListener>,
    conns: JoinSet<()>,
    upstream_closed: Rc<Wake>,
    next_conn: u32,
    /// The last logged complaint about a lack of resources: the relay retries every 50 ms but logs a complaint once.
    complaint: String,
    drained: watch::Sender<bool>,
}

impl Doors {
    async fn serve(&mut self, stopped: &mut watch::Receiver<bool>, notify: &Notify) {
        let watchdog = notify.watchdog();
        let mut alive = Instant::now();
        loop {
            let upstream_closed = Rc::clone(&self.upstream_closed);
            tokio::select! {
                biased;
                _ = stopped.wait_for(|s| *s) => return,
                // The watchdog is fed from this loop, because a hung relay hangs here.
                () = sleep_until(alive), if watchdog.is_some() => {
                    notify.send("WATCHDOG=1");
                    alive = Instant::now() + watchdog.unwrap_or(RETRY);
                }
                accepted = accept(self.listener.as_ref()) => match accepted {
                    Ok(client) => self.begin(client).await,
                    Err(e) => {
                        self.complain(format!("cannot accept a connection: {e}; trying again"));
                        sleep(RETRY).await;
                    }
                },
                () = upstream_closed.notified(), if self.listener.is_some() => self.look().await,
                () = sleep(RETRY), if self.listener.is_none() => self.look().await,
                Some(_) = self.conns.join_next() => {}
            }
        }
    }

    /// Starts to listen when the upstream accepts connections, and stops when it does not.
    async fn look(&mut self) {
        match connect(&self.shared.upstream).await {
            Ok(probe) => {
                drop(probe);
                if self.listener.is_none() {
                    self.open();
                }
            }
            Err(e) if is_own(&e) => {
                self.complain(format!(
                    "cannot ask whether upstream {} listens: {e}; trying again",
                    self.shared.upstream.display()
                ));
                sleep(RETRY).await;
                self.upstream_closed.notify_one();
            }
            Err(e) => self.mirror_down(&e),
        }
    }

    /// Logs which resource this process lacks: open files, or the kernel's memory.
    fn complain(&mut self, line: String) {
        if line != self.complaint {
            (self.shared.log)(&line);
            self.complaint = line;
        }
    }

    fn open(&mut self) {
        let listener = self.socket.listen().and_then(|l| {
            UnixListener::from_std(l).map_err(|source| socket::Error::Io {
                what: "listen on",
                path: self.socket.path().to_path_buf(),
                source,
            })
        });
        match listener {
            Ok(l) => {
                self.listener = Some(l);
                self.counters()
                    .upstream_down
                    .store(false, Ordering::Relaxed);
                (self.shared.log)(&format!(
                    "listening on {}, upstream {}",
                    self.socket.path().display(),
                    self.shared.upstream.display()
                ));
            }
            Err(e) => self.complain(format!("{e}; trying again")),
        }
    }

    fn mirror_down(&mut self, e: &io::Error) {
        let first = !self.counters().upstream_down.swap(true, Ordering::Relaxed);
        if first {
            (self.shared.log)(&format!(
                "upstream {} does not answer ({e}): clients are refused as it would refuse them, until it does",
                self.shared.upstream.display()
            ));
        }
        self.listener = None;
        if e.kind() == io::ErrorKind::NotFound {
            self.socket.unlink();
        }
    }

    async fn begin(&mut self, client: UnixStream) {
        let (pid, uid) = match client.peer_cred() {
            Ok(c) => (c.pid().unwrap_or(0).cast_unsigned(), c.uid()),
            Err(_) => (0, u32::MAX),
        };
        if !socket::may_use(uid) {
            Counters::add(&self.counters().refused, 1);
            (self.shared.log)(&format!(
                "refused a connection of user {uid}, process {pid}"
            ));
            return;
        }
        let upstream = match connect(&self.shared.upstream).await {
            Ok(u) => u,
            // The error says nothing about the runtime: close this client, and let the next one in.
            Err(e) if is_own(&e) => {
                return self.complain(format!(
                    "closing a connection: cannot connect to upstream {}: {e}",
                    self.shared.upstream.display()
                ));
            }
            Err(e) => return self.mirror_down(&e),
        };
        let (client, upstream) = match (blocking(client), blocking(upstream)) {
            (Ok(c), Ok(u)) => (c, u),
            (Err(e), _) | (_, Err(e)) => {
                (self.shared.log)(&format!("cannot carry a connection: {e}"));
                return;
            }
        };
        self.complaint.clear();
        let conn = self.next_conn;
        self.next_conn = self.next_conn.wrapping_add(1).max(1);
        Counters::add(&self.counters().accepted, 1);
        let tap = Tap::open(&self.shared.queue, conn, clock::now(), pid, &comm(pid));
        let (ended, ends) = mpsc::unbounded_channel();
        let connection = Connection {
            wire: Arc::new(Wire {
                client,
                upstream,
                tap: Mutex::new(Some(tap)),
                counters: Arc::clone(&self.shared.queue.counters),
            }),
            ends,
        };
        Counters::add(&self.counters().connections, 1);
        let closing = Closing {
            wire: Arc::clone(&connection.wire),
            why: DRAINED,
        };
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            let (wire, ended) = (Arc::clone(&connection.wire), ended.clone());
            let started = std::thread::Builder::new()
                .name(format!("kflow-{conn}"))
                .stack_size(STACK)
                .spawn(move || {
                    let how = Pump::new(direction).run(&wire);
                    // Sending fails if the connection was closed meanwhile.
                    ended.send((direction, how)).ok();
                });
            if let Err(e) = started {
                (self.shared.log)(&format!("closing a connection: cannot start a thread: {e}"));
                return;
            }
        }
        let upstream_closed = Rc::clone(&self.upstream_closed);
        let drained = self.drained.subscribe();
        self.conns.spawn_local(async move {
            let why = connection.carry(drained, closing).await;
            if why == UPSTREAM_CLOSED {
                upstream_closed.notify_one();
            }
        });
    }

    async fn close(mut self, drain: Duration) {
        self.listener = None;
        self.socket.unlink();
        // Connections without calls in flight close now, the others when their calls have ended.
        self.drained.send_replace(true);
        let deadline = Instant::now() + drain;
        loop {
            tokio::select! {
                biased;
                ended = self.conns.join_next() => if ended.is_none() { return },
                () = sleep_until(deadline) => {
                    (self.shared.log)(&format!(
                        "{} connections had calls in flight after {}: closed",
                        self.conns.len(), wait(drain)
                    ));
                    self.conns.shutdown().await;
                    return;
                }
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.shared.queue.counters
    }
}

async fn accept(listener: Option<&UnixListener>) -> io::Result<UnixStream> {
    match listener {
        Some(l) => l.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

/// Connects to the runtime. Waits while its backlog is full, as a blocking client would, and
/// retries after an interruption.
async fn connect(path: &Path) -> io::Result<UnixStream> {
    let mut pause = Duration::from_millis(1);
    loop {
        match UnixStream::connect(path).await {
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) && pause < Duration::from_secs(2) =>
            {
                sleep(pause).await;
                pause *= 2;
            }
            other => return other,
        }
    }
}

/// Returns the name of a peer's program, empty when it is gone or hidden.
fn comm(pid: u32) -> String {
    let mut name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.truncate(name.trim_end().len());
    name
}

/// Makes the calls on a stream blocking.
fn blocking(stream: UnixStream) -> io::Result<Stream> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}
