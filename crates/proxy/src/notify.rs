//! Messages to systemd (`sd_notify(3)`): a datagram to the socket named by `NOTIFY_SOCKET`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Sends states to systemd, or nothing without systemd. A failure to send is ignored.
#[derive(Debug, Default)]
pub struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Reads the environment: `NOTIFY_SOCKET` (a path, or `@name` in the abstract namespace) and `WATCHDOG_USEC`.
    pub fn from_env() -> Self {
        let to = std::env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let addr = match name.as_bytes().strip_prefix(b"@") {
                Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
                None => SocketAddr::from_pathname(&name),
            };
            Some((UnixDatagram::unbound().ok()?, addr.ok()?))
        });
        let watchdog = std::env::var("WATCHDOG_USEC")
            .ok()
            .and_then(|us| us.parse().ok())
            .map(|us: u64| Duration::from_micros(us / 2).max(Duration::from_millis(100)));
        Self { to, watchdog }
    }
    /// Sends a state: `READY=1`, `STOPPING=1`, `STATUS=…`, `WATCHDOG=1`.
    pub fn send(&self, state: &str) {
        if let Some((socket, addr)) = &self.to {
            drop(socket.send_to_addr(state.as_bytes(), addr));
        }
    }
    /// Returns the interval for `WATCHDOG=1`: half of what systemd allows, at least 100 ms. `None` when systemd does
    /// not watch.
    pub const fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }
}
