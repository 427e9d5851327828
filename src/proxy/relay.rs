//! The bytes. A connection is two pumps; a pump reads what there is, writes it on at once, and only then hands a copy
//! to the tap. Nothing is parsed, nothing is held back, nothing is read before what was read has been written, so a
//! slow reader slows the writer exactly as it would without kflow.
//!
//! When the runtime is down the relay does not accept either: it stops listening until the runtime listens again, so
//! that a client gets the same `connection refused` or `no such file` that it would get from the runtime's own path.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{SendFlags, Shutdown};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify as Wake, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::notify::Notify;
use super::socket::{self, Socket};
use super::tap::{Queue, Tap};
use super::{Config, Counters, Error, Log};
use crate::clock;
use crate::source::cri::Direction;

/// More than a unix socket's buffer holds by default (208 KiB), so that one read empties it.
const SCRATCH: usize = 256 << 10;
/// What a pump keeps of its memory for held-up bytes once they are written.
const KEEP: usize = 64 << 10;
/// How often a half-closed connection is looked at for a peer that is gone altogether.
const HALF_CLOSED: Duration = Duration::from_millis(200);
/// How often a runtime that is down is tried.
const RETRY: Duration = Duration::from_millis(50);

/// The relay, ready to run on a thread of its own.
#[derive(Debug)]
pub struct Relay {
    runtime: tokio::runtime::Runtime,
    shared: Shared,
    socket: Socket,
    drain: Duration,
}

#[derive(Clone)]
struct Shared {
    upstream: PathBuf,
    queue: Arc<Queue>,
    log: Log,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}

impl Relay {
    /// Prepares the relay. If the upstream answers, it listens when this returns.
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
            shared: Shared {
                upstream: config.upstream.clone(),
                queue,
                log,
            },
            socket,
            drain: config.drain,
        })
    }

    /// Runs until `stopped` turns true and the connections are drained. Says `ready` once it listens, or knows that
    /// the upstream does not.
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
                // Only a hint to look: one permit is enough for any number of closed connections.
                upstream_closed: Rc::new(Wake::new()),
                scratch: Rc::new(RefCell::new(vec![0; SCRATCH].into_boxed_slice())),
                next_conn: 1,
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
    shared: Shared,
    socket: Socket,
    listener: Option<UnixListener>,
    conns: JoinSet<()>,
    upstream_closed: Rc<Wake>,
    scratch: Rc<RefCell<Box<[u8]>>>,
    next_conn: u32,
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
                // Sent from here, because here is where a hung relay would hang.
                () = sleep_until(alive), if watchdog.is_some() => {
                    notify.send("WATCHDOG=1");
                    alive = Instant::now() + watchdog.unwrap_or(RETRY);
                }
                accepted = accept(self.listener.as_ref()) => match accepted {
                    Ok(client) => self.begin(client).await,
                    Err(e) => {
                        (self.shared.log)(&format!("cannot accept a connection: {e}; trying again"));
                        sleep(RETRY).await;
                    }
                },
                () = upstream_closed.notified(), if self.listener.is_some() => self.look().await,
                () = sleep(RETRY), if self.listener.is_none() => self.look().await,
                Some(_) = self.conns.join_next() => {}
            }
        }
    }

    /// Listens when the upstream does, and not when it does not.
    async fn look(&mut self) {
        match connect(&self.shared.upstream).await {
            Ok(probe) => {
                drop(probe);
                if self.listener.is_none() {
                    self.open();
                }
            }
            Err(e) => self.mirror_down(&e),
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
            Err(e) => (self.shared.log)(&format!("{e}; trying again")),
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
            Err(e) => return self.mirror_down(&e),
        };
        let conn = self.next_conn;
        self.next_conn = self.next_conn.wrapping_add(1).max(1);
        Counters::add(&self.counters().accepted, 1);
        let tap = Tap::open(&self.shared.queue, conn, clock::now(), pid, &comm(pid));
        let connection = Connection {
            client,
            upstream,
            tap: Rc::new(RefCell::new(tap)),
            scratch: Rc::clone(&self.scratch),
            counters: Arc::clone(&self.shared.queue.counters),
        };
        let upstream_closed = Rc::clone(&self.upstream_closed);
        let drained = self.drained.subscribe();
        self.conns.spawn_local(async move {
            let why = connection.carry(drained).await;
            if why == UPSTREAM_CLOSED {
                upstream_closed.notify_one();
            }
        });
    }

    async fn close(mut self, drain: Duration) {
        self.listener = None;
        self.socket.unlink();
        // Connections with no call in flight close now, the others when their calls have ended.
        self.drained.send_replace(true);
        let deadline = Instant::now() + drain;
        loop {
            tokio::select! {
                biased;
                ended = self.conns.join_next() => if ended.is_none() { return },
                () = sleep_until(deadline) => {
                    (self.shared.log)(&format!(
                        "{} connections had calls in flight after {} s: closed",
                        self.conns.len(), drain.as_secs()
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

/// Connects to the runtime. A full backlog is waited for as a blocking client would.
async fn connect(path: &Path) -> io::Result<UnixStream> {
    let mut pause = Duration::from_millis(1);
    loop {
        match UnixStream::connect(path).await {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && pause < Duration::from_secs(2) => {
                sleep(pause).await;
                pause *= 2;
            }
            other => return other,
        }
    }
}

/// Name of a peer's program, empty when it is gone or hidden.
fn comm(pid: u32) -> String {
    let mut name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.truncate(name.trim_end().len());
    name
}

const CLIENT_CLOSED: &str = "client closed";
const UPSTREAM_CLOSED: &str = "runtime closed";
const DRAINED: &str = "kflow stopped";

struct Connection {
    client: UnixStream,
    upstream: UnixStream,
    tap: Rc<RefCell<Tap>>,
    scratch: Rc<RefCell<Box<[u8]>>>,
    counters: Arc<Counters>,
}

/// Tells the tap that the connection closed, also when its task is dropped.
struct Closing {
    tap: Rc<RefCell<Tap>>,
    counters: Arc<Counters>,
    why: &'static str,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.tap.borrow().close(clock::now(), self.why);
        self.counters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    async fn carry(self, mut drained: watch::Receiver<bool>) -> &'static str {
        let Self {
            mut client,
            mut upstream,
            tap,
            scratch,
            counters,
        } = self;
        Counters::add(&counters.connections, 1);
        let mut closing = Closing {
            tap: Rc::clone(&tap),
            counters: Arc::clone(&counters),
            why: DRAINED,
        };
        let (client_read, client_write) = client.split();
        let (upstream_read, upstream_write) = upstream.split();
        let pump = |from, to, direction| Pump {
            from,
            to,
            direction,
            held: Vec::new(),
            written: 0,
            tap: Rc::clone(&tap),
            scratch: Rc::clone(&scratch),
            counters: Arc::clone(&counters),
        };
        let mut up = pump(client_read, upstream_write, Direction::ClientToServer);
        let mut down = pump(upstream_read, client_write, Direction::ServerToClient);
        let (mut up_end, mut down_end) = (None, None);
        let mut first = None;
        loop {
            let quiet = tokio::select! {
                biased;
                () = poll_fn(|cx| both(cx, (&mut up, &mut up_end), (&mut down, &mut down_end))) => false,
                () = sleep(HALF_CLOSED), if up_end.is_some() || down_end.is_some() => true,
                () = idle(&mut drained, &tap) => return closing.why,
            };
            let (client, upstream): (&UnixStream, &UnixStream) =
                (up.from.as_ref(), down.from.as_ref());
            if !quiet {
                for (end, from, to, who) in [
                    (&mut up_end, client, upstream, CLIENT_CLOSED),
                    (&mut down_end, upstream, client, UPSTREAM_CLOSED),
                ] {
                    if let Some(How::Fresh(end_kind)) = *end {
                        first.get_or_insert(match end_kind {
                            End::Closed => who,
                            // The reader went away: it is the other one who closed.
                            End::Refused if who == CLIENT_CLOSED => UPSTREAM_CLOSED,
                            End::Refused => CLIENT_CLOSED,
                        });
                        // "No more bytes" and "I take no more bytes" are passed on each in its own direction.
                        // It fails when that side is gone, which the other pump sees for itself.
                        match end_kind {
                            End::Closed => rustix::net::shutdown(to, Shutdown::Write),
                            End::Refused => rustix::net::shutdown(from, Shutdown::Read),
                        }
                        .ok();
                        *end = Some(How::Told);
                    }
                }
            }
            closing.why = first.unwrap_or(DRAINED);
            let both_ended = up_end.is_some() && down_end.is_some();
            // Who closed altogether takes nothing more: the other side is told by closing, as the system would.
            let gone =
                (up_end.is_some() && is_gone(client)) || (down_end.is_some() && is_gone(upstream));
            if both_ended || gone {
                return closing.why;
            }
        }
    }
}

/// Waits for the order to drain, then for the calls in flight.
async fn idle(drained: &mut watch::Receiver<bool>, tap: &RefCell<Tap>) {
    if drained.wait_for(|d| *d).await.is_err() {
        return;
    }
    // The tap is a little behind the bytes, and tells of a call only once its request is complete.
    let mut quiet = 0;
    while quiet < 6 {
        sleep(Duration::from_millis(50)).await;
        quiet = if tap.borrow().in_flight() == 0 {
            quiet + 1
        } else {
            0
        };
    }
}

/// True when the peer has closed its socket (not only its sending side). Sends nothing: an empty write to a stream
/// socket only asks whether one could write.
fn is_gone(fd: impl AsFd) -> bool {
    matches!(
        rustix::net::send(fd, &[], SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
        Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET)
    )
}

/// How a pump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The writer said that there is no more, and all of it was passed on; or its socket broke.
    Closed,
    /// The reader takes no more.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Fresh(End),
    Told,
}

type Half<'p, 'h, 's> = (&'p mut Pump<'h>, &'s mut Option<How>);

/// Runs the pumps that have not ended, until one of them ends.
fn both<'h>(cx: &mut Context<'_>, up: Half<'_, 'h, '_>, down: Half<'_, 'h, '_>) -> Poll<()> {
    let mut ended = false;
    for (pump, end) in [up, down] {
        if end.is_none()
            && let Poll::Ready(how) = pump.poll(cx)
        {
            *end = Some(How::Fresh(how));
            ended = true;
        }
    }
    if ended {
        Poll::Ready(())
    } else {
        Poll::Pending
    }
}

struct Pump<'s> {
    from: ReadHalf<'s>,
    to: WriteHalf<'s>,
    direction: Direction,
    /// What was read and could not be written yet.
    held: Vec<u8>,
    written: usize,
    tap: Rc<RefCell<Tap>>,
    /// Shared by all pumps: between two polls it holds nothing.
    scratch: Rc<RefCell<Box<[u8]>>>,
    counters: Arc<Counters>,
}

impl Pump<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            while let Some(rest) = self.held.get(self.written..).filter(|r| !r.is_empty()) {
                match ready!(Pin::new(&mut self.to).poll_write(cx, rest)) {
                    Ok(n) => self.written += n,
                    Err(_) => return Poll::Ready(End::Refused),
                }
            }
            self.written = 0;
            self.held.clear();
            self.held.shrink_to(KEEP);

            let mut scratch = self.scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.from).poll_read(cx, &mut buffer)) {
                Ok(()) if buffer.filled().is_empty() => return Poll::Ready(End::Closed),
                Ok(()) => {}
                Err(_) => return Poll::Ready(End::Closed),
            }
            let at = clock::now();
            let bytes = buffer.filled();
            // Bytes first, everything else after.
            let wrote = Pin::new(&mut self.to).poll_write(cx, bytes);
            Counters::add(&self.counters.bytes, bytes.len() as u64);
            self.tap.borrow_mut().chunk(self.direction, at, bytes);
            match wrote {
                Poll::Ready(Ok(n)) => self
                    .held
                    .extend_from_slice(bytes.get(n..).unwrap_or_default()),
                Poll::Ready(Err(_)) => return Poll::Ready(End::Refused),
                Poll::Pending => self.held.extend_from_slice(bytes),
            }
        }
    }
}
