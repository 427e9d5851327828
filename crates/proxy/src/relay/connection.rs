//! One connection: two pumps, and what follows when one of them ends.

use std::os::unix::net::UnixStream as Stream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::net::Shutdown;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::pump::{End, Ended, Wire, shutdown};
use crate::tap::Tap;
use kflow_cri::Direction;
use kflow_model::clock;

/// How often a half-closed connection is checked for a peer that has closed its whole socket.
const HALF_CLOSED: Duration = Duration::from_millis(200);

const CLIENT_CLOSED: &str = "client closed";
pub(super) const UPSTREAM_CLOSED: &str = "runtime closed";
pub(super) const DRAINED: &str = "kflow stopped";

pub(super) struct Connection {
    pub(super) wire: Arc<Wire<Stream>>,
    pub(super) ends: mpsc::UnboundedReceiver<(Direction, End)>,
}

/// Closes the sockets and the tap when dropped, also when the connection's task is cancelled.
pub(super) struct Closing {
    pub(super) wire: Arc<Wire<Stream>>,
    pub(super) why: &'static str,
}

impl Drop for Closing {
    fn drop(&mut self) {
        // Wakes the pumps from any call. The shutdown fails for a socket whose peer is gone, which wakes them too.
        for socket in [&self.wire.client, &self.wire.upstream] {
            shutdown(socket, Shutdown::Both);
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
        let mut over = Ended::default();
        let mut first = None;
        loop {
            let ended = tokio::select! {
                biased;
                ended = self.ends.recv() => ended,
                () = sleep(HALF_CLOSED), if over.any() => None,
                () = idle(&mut drained, &wire) => return closing.why,
            };
            if let Some((direction, how)) = ended {
                // If the reading side refuses bytes, that side closed, not the writing one.
                first.get_or_insert(match (direction, how) {
                    (Direction::ClientToServer, End::Closed)
                    | (Direction::ServerToClient, End::Refused) => CLIENT_CLOSED,
                    (Direction::ServerToClient, End::Closed)
                    | (Direction::ClientToServer, End::Refused) => UPSTREAM_CLOSED,
                });
                over.pass(&wire, direction, how);
            }
            closing.why = first.unwrap_or(DRAINED);
            if over.over(&wire) {
                return closing.why;
            }
        }
    }
}

/// Waits for the order to drain, then until no call is in flight.
async fn idle(drained: &mut watch::Receiver<bool>, wire: &Wire<Stream>) {
    if drained.wait_for(|d| *d).await.is_err() {
        return;
    }
    // The tap lags behind the bytes and counts a call only once the request is complete: wait for 6 quiet looks.
    let mut quiet = 0;
    while quiet < 6 {
        sleep(Duration::from_millis(50)).await;
        let in_flight = wire.tap().as_ref().map_or(0, Tap::in_flight);
        quiet = if in_flight == 0 { quiet + 1 } else { 0 };
    }
}
