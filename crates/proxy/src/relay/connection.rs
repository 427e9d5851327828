//! One connection: its two pumps, and what follows from their ends.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as Stream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::{SendFlags, Shutdown};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::Counters;
use crate::tap::Tap;
use kflow_cri::Direction;
use kflow_model::clock;

/// What a pump reads at once, bytes. Larger pieces save calls that cost little beside copying.
const PIECE: usize = 64 << 10;
/// How often a half-closed connection is looked at for a peer that is gone altogether.
const HALF_CLOSED: Duration = Duration::from_millis(200);

const CLIENT_CLOSED: &str = "client closed";
pub(super) const UPSTREAM_CLOSED: &str = "runtime closed";
pub(super) const DRAINED: &str = "kflow stopped";

/// What the two pumps of a connection share.
pub(super) struct Wire {
    pub(super) client: Stream,
    pub(super) upstream: Stream,
    /// Held from before a piece is written until the tap has it: so an answer never gets to the tap before what it
    /// answers. `None` once the connection has closed.
    pub(super) tap: Mutex<Option<Tap>>,
    pub(super) counters: Arc<Counters>,
}

pub(super) struct Connection {
    pub(super) wire: Arc<Wire>,
    pub(super) ends: mpsc::UnboundedReceiver<(Direction, End)>,
}

/// Tells pumps and tap that the connection closed, also when its task is dropped.
pub(super) struct Closing {
    pub(super) wire: Arc<Wire>,
    pub(super) why: &'static str,
}

impl Drop for Closing {
    fn drop(&mut self) {
        // Wakes the pumps wherever they wait. It fails for a socket whose peer is gone, which wakes them too.
        for socket in [&self.wire.client, &self.wire.upstream] {
            rustix::net::shutdown(socket, Shutdown::Both).ok();
        }
        if let Some(tap) = self.wire.tap().take() {
            tap.close(clock::now(), self.why);
        }
        self.wire
            .counters
            .connections
            .fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    pub(super) async fn carry(
        mut self,
        mut drained: watch::Receiver<bool>,
        mut closing: Closing,
    ) -> &'static str {
        let wire = Arc::clone(&self.wire);
        let (client, upstream) = (&wire.client, &wire.upstream);
        let (mut up_ended, mut down_ended) = (false, false);
        let mut first = None;
        loop {
            let ended = tokio::select! {
                biased;
                ended = self.ends.recv() => ended,
                () = sleep(HALF_CLOSED), if up_ended || down_ended => None,
                () = idle(&mut drained, &wire) => return closing.why,
            };
            if let Some((direction, how)) = ended {
                let (from, to, who, other) = match direction {
                    Direction::ClientToServer => (client, upstream, CLIENT_CLOSED, UPSTREAM_CLOSED),
                    Direction::ServerToClient => (upstream, client, UPSTREAM_CLOSED, CLIENT_CLOSED),
                };
                // A reader that went away: it is the other one who closed.
                first.get_or_insert(if how == End::Closed { who } else { other });
                // "No more bytes" and "I take no more bytes" are passed on each in its own direction.
                // It fails when that side is gone, which the other pump sees for itself.
                match how {
                    End::Closed => rustix::net::shutdown(to, Shutdown::Write),
                    End::Refused => rustix::net::shutdown(from, Shutdown::Read),
                }
                .ok();
                match direction {
                    Direction::ClientToServer => up_ended = true,
                    Direction::ServerToClient => down_ended = true,
                }
            }
            closing.why = first.unwrap_or(DRAINED);
            // Who closed altogether takes nothing more: the other side is told by closing, as the system would.
            let gone = (up_ended && is_gone(client)) || (down_ended && is_gone(upstream));
            if (up_ended && down_ended) || gone {
                return closing.why;
            }
        }
    }
}

/// Waits for the order to drain, then for the calls in flight.
async fn idle(drained: &mut watch::Receiver<bool>, wire: &Wire) {
    if drained.wait_for(|d| *d).await.is_err() {
        return;
    }
    // The tap is a little behind the bytes, and tells of a call only once its request is complete.
    let mut quiet = 0;
    while quiet < 6 {
        sleep(Duration::from_millis(50)).await;
        let in_flight = wire.tap().as_ref().map_or(0, Tap::in_flight);
        quiet = if in_flight == 0 { quiet + 1 } else { 0 };
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
pub(super) enum End {
    /// The writer said that there is no more, and all of it was passed on; or its socket broke.
    Closed,
    /// The reader takes no more.
    Refused,
}

impl Wire {
    fn tap(&self) -> MutexGuard<'_, Option<Tap>> {
        self.tap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries one direction until it ends.
    pub(super) fn pump(&self, direction: Direction) -> End {
        let (mut from, mut to) = match direction {
            Direction::ClientToServer => (&self.client, &self.upstream),
            Direction::ServerToClient => (&self.upstream, &self.client),
        };
        let mut piece = vec![0; PIECE];
        loop {
            let n = match from.read(&mut piece) {
                Ok(0) => return End::Closed,
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return End::Closed,
            };
            let bytes = piece.get(..n).unwrap_or_default();
            let mut tap = self.tap();
            let at = clock::now();
            // Bytes first, everything else after: but without waiting, because the tap is held.
            let wrote = rustix::net::send(to, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            Counters::add(&self.counters.bytes, n as u64);
            if let Some(tap) = tap.as_mut() {
                tap.chunk(direction, at, bytes);
            }
            drop(tap);
            let rest = match wrote {
                Ok(sent) => bytes.get(sent..).unwrap_or_default(),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => bytes,
                Err(_) => return End::Refused,
            };
            if !rest.is_empty() && to.write_all(rest).is_err() {
                return End::Refused;
            }
        }
    }
}
