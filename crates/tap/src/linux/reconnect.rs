//! Makes clients reconnect, when a person asks for it. A connection that was joined in the middle has unknown bytes
//! before that, and its calls have no method name until the header tables have turned over; of a new connection every
//! byte is known.
//!
//! A client's descriptor is borrowed (`pidfd_getfd`) and its socket shut down: the client reads the end of the
//! connection and opens another, as grpc-go does within milliseconds. A call that is open at that moment would end with
//! Unavailable, and the kubelet would retry it. So a connection is shut down only while no call is known to be open and
//! no bytes pass; a connection without such a moment is left alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::follow::{Follower, Unclear};
use super::node::{Holder, borrowed};
use kflow_model::{Nanos, units};

/// How long to wait for a moment without open calls. A kubelet lists its containers every second; a call that is open
/// for longer than this is one that somebody waits for. Chosen: ten such rounds.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request to reconnect, and its results.
#[derive(Debug)]
pub(crate) struct Reconnect {
    wanted: Arc<AtomicBool>,
    /// The deadline, while the request is being carried out.
    until: Option<Instant>,
    /// Connections that were shut down. `failed` has those that could not be.
    done: BTreeSet<u64>,
    failed: BTreeSet<u64>,
    /// The results for the clients of both, in words.
    said: Vec<String>,
}

impl Reconnect {
    pub(crate) fn new(wanted: Arc<AtomicBool>) -> Self {
        Self {
            wanted,
            until: None,
            done: BTreeSet::new(),
            failed: BTreeSet::new(),
            said: Vec::new(),
        }
    }

    /// True while connections wait for a quiet moment.
    pub(crate) fn waits(&self) -> bool {
        self.until.is_some() || self.wanted.load(Ordering::Relaxed)
    }

    /// Shuts down the connections that are quiet now. Call it when all records have been read.
    pub(crate) fn turn(&mut self, follower: &Follower, at: Nanos, now: Instant) {
        if self.waits() {
            self.turn_with(follower.unclear(at), now, shut_down);
        }
    }

    fn turn_with(
        &mut self,
        mut unclear: Vec<Unclear>,
        now: Instant,
        mut shut_down: impl FnMut(Holder) -> rustix::io::Result<()>,
    ) {
        if self.wanted.swap(false, Ordering::Relaxed) {
            *self = Self {
                until: Some(now + PATIENCE),
                ..Self::new(Arc::clone(&self.wanted))
            };
        }
        let Some(until) = self.until else { return };
        unclear.retain(|u| !self.done.contains(&u.stream) && !self.failed.contains(&u.stream));
        if unclear.is_empty() {
            self.until = None;
            if self.said.is_empty() {
                self.said
                    .push("every connection is understood, none was made anew".into());
            }
            return;
        }
        for u in unclear.iter().filter(|u| u.idle) {
            let peer = if u.peer.is_empty() {
                "a client"
            } else {
                &u.peer
            };
            match shut_down(u.holder) {
                Ok(()) => {
                    self.done.insert(u.stream);
                    self.said.push(format!("{peer} was made to connect anew"));
                }
                Err(e) => {
                    self.failed.insert(u.stream);
                    self.said
                        .push(format!("{peer} could not be made to connect anew: {e}"));
                }
            }
        }
        if now >= until {
            self.until = None;
            for u in unclear.iter().filter(|u| !self.done.contains(&u.stream)) {
                let peer = if u.peer.is_empty() {
                    "a client"
                } else {
                    &u.peer
                };
                self.said.push(format!(
                    "{peer} was not made to connect anew: no moment in {} was known to be without an open call",
                    units::wait(PATIENCE)
                ));
            }
        }
    }

    /// Returns the results in words, equal ones once with their number; empty when nothing was requested.
    pub(crate) fn status(&self) -> String {
        let mut told: Vec<(&str, usize)> = Vec::new();
        for said in &self.said {
            match told.iter_mut().find(|(t, _)| t == said) {
                Some((_, times)) => *times += 1,
                None => told.push((said, 1)),
            }
        }
        let told = told.into_iter().map(|(said, times)| match times {
            1 => said.to_owned(),
            _ => format!("{said} (×{times})"),
        });
        told.collect::<Vec<_>>().join("; ")
    }
}

/// Shuts down a client's socket, if the descriptor still leads to it.
fn shut_down(holder: Holder) -> rustix::io::Result<()> {
    let socket = borrowed(holder)?;
    rustix::net::shutdown(&socket, rustix::net::Shutdown::Both)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    fn unclear(stream: u64, idle: bool) -> Unclear {
        Unclear {
            stream,
            peer: format!("client{stream}"),
            holder: (1, 2, stream),
            idle,
        }
    }

    fn asked() -> Reconnect {
        Reconnect::new(Arc::new(AtomicBool::new(true)))
    }

    #[test]
    fn nothing_is_shut_down_that_nobody_asked_for() {
        let mut r = Reconnect::new(Arc::default());
        let now = kflow_model::clock::monotonic();
        r.turn_with(vec![unclear(1, true)], now, |_| panic!("shut down"));
        assert!(!r.waits());
        assert_eq!(r.status(), "");
    }

    #[test]
    fn a_connection_is_shut_down_once_and_only_when_it_is_idle() {
        let mut r = asked();
        let now = kflow_model::clock::monotonic();
        let mut down = Vec::new();
        let mut shut = |h: Holder| {
            down.push(h.2);
            Ok(())
        };
        r.turn_with(vec![unclear(1, false), unclear(2, false)], now, &mut shut);
        r.turn_with(vec![unclear(1, false), unclear(2, true)], now, &mut shut);
        r.turn_with(vec![unclear(1, false), unclear(2, true)], now, &mut shut);
        assert!(r.waits());
        r.turn_with(vec![unclear(1, true)], now, &mut shut);
        r.turn_with(Vec::new(), now, &mut shut);
        assert_eq!(down, [2, 1]);
        assert!(!r.waits());
        assert_eq!(
            r.status(),
            "client2 was made to connect anew; client1 was made to connect anew"
        );
    }

    #[test]
    fn several_connections_of_a_client_are_told_once() {
        let mut r = asked();
        let of = |stream, idle| Unclear {
            peer: "kubelet".to_owned(),
            ..unclear(stream, idle)
        };
        let all = vec![of(1, true), of(2, true), unclear(3, true), of(4, true)];
        r.turn_with(all, kflow_model::clock::monotonic(), |_| Ok(()));
        assert_eq!(
            r.status(),
            "kubelet was made to connect anew (×3); client3 was made to connect anew"
        );
    }

    #[test]
    fn one_that_is_never_idle_is_left_alone_and_told() {
        let mut r = asked();
        let now = kflow_model::clock::monotonic();
        let busy = || vec![unclear(1, false)];
        r.turn_with(busy(), now, |_| panic!("shut down"));
        r.turn_with(busy(), now + PATIENCE, |_| panic!("shut down"));
        assert!(!r.waits());
        assert!(
            r.status()
                .contains("no moment in 10s was known to be without an open call")
        );
    }

    #[test]
    fn what_could_not_be_shut_down_is_told_and_not_tried_again() {
        let mut r = asked();
        let now = kflow_model::clock::monotonic();
        let mut tries = 0;
        for _ in 0..2 {
            r.turn_with(vec![unclear(1, true)], now, |_| {
                tries += 1;
                Err(Errno::PERM)
            });
        }
        assert_eq!(tries, 1);
        assert!(
            r.status()
                .starts_with("client1 could not be made to connect anew: ")
        );
    }

    #[test]
    fn only_the_socket_that_was_meant_is_shut_down() {
        use std::io::Read as _;
        let (mut a, b) = UnixStream::pair().unwrap();
        let me = std::process::id();
        let number = u32::try_from(b.as_raw_fd()).unwrap();
        let inode = rustix::fs::fstat(&b).unwrap().st_ino;
        assert_eq!(shut_down((me, number, inode + 1)), Err(Errno::STALE));
        assert_eq!(shut_down((me, number, inode)), Ok(()));
        assert_eq!(a.read(&mut [0]).unwrap(), 0, "the other end reads the end");
    }
}
