//! One direction of a connection. Each step makes one system call, so a test can inject a fault into every call and run
//! another thread between any two.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};

use crate::Counters;
use crate::tap::Tap;
use kflow_cri::Direction;
use kflow_model::clock;

/// Bytes that a pump reads at once. Larger pieces would save calls, which cost little beside the copying.
const PIECE: usize = 64 << 10;
/// Wait before a call is retried for which the kernel had no memory.
const PAUSE: Duration = Duration::from_millis(1);

/// The system calls on one end of a connection. Each method makes its call once and returns the kernel's error.
pub(super) trait Socket {
    fn read(&self, into: &mut [u8]) -> rustix::io::Result<usize>;
    fn send(&self, bytes: &[u8], flags: SendFlags) -> rustix::io::Result<usize>;
    fn shutdown(&self, how: Shutdown) -> rustix::io::Result<()>;
}

impl Socket for UnixStream {
    fn read(&self, into: &mut [u8]) -> rustix::io::Result<usize> {
        rustix::io::read(self, into)
    }
    fn send(&self, bytes: &[u8], flags: SendFlags) -> rustix::io::Result<usize> {
        rustix::net::send(self, bytes, flags)
    }
    fn shutdown(&self, how: Shutdown) -> rustix::io::Result<()> {
        rustix::net::shutdown(self, how)
    }
}

/// What the two pumps of a connection have in common.
pub(super) struct Wire<S> {
    pub(super) client: S,
    pub(super) upstream: S,
    /// Locked from before a piece is written until the tap has its copy, so the tap never sees an answer before its
    /// request. `None` once the connection has closed.
    pub(super) tap: Mutex<Option<Tap>>,
    pub(super) counters: Arc<Counters>,
}

impl<S> Wire<S> {
    pub(super) fn tap(&self) -> MutexGuard<'_, Option<Tap>> {
        self.tap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the socket that a direction reads from, and the one that it writes to.
    pub(super) fn ends(&self, direction: Direction) -> (&S, &S) {
        match direction {
            Direction::ClientToServer => (&self.client, &self.upstream),
            Direction::ServerToClient => (&self.upstream, &self.client),
        }
    }
}

/// Why a pump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The writing side closed and all of its bytes were passed on, or its socket broke.
    Closed,
    /// The reading side accepts no more bytes.
    Refused,
}

/// What to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Make the next step at once.
    Next,
    /// Repeat the call after [`PAUSE`]: the kernel had no memory, or a call on the socket would have blocked.
    Later,
    End(End),
}

/// The next step of a pump.
#[derive(Clone, Copy, Debug)]
enum At {
    Read,
    /// This many bytes were read; neither the reader nor the tap has them.
    Pass(usize),
    /// The first number of bytes is written, of the second number that was read.
    Rest(usize, usize),
}

/// Copies one direction of a connection.
#[derive(Debug)]
pub(super) struct Pump {
    direction: Direction,
    piece: Vec<u8>,
    at: At,
}

impl Pump {
    pub(super) fn new(direction: Direction) -> Self {
        Self::of(direction, PIECE)
    }

    pub(super) fn of(direction: Direction, piece: usize) -> Self {
        Self {
            direction,
            piece: vec![0; piece],
            at: At::Read,
        }
    }

    /// Copies until the direction ends. A closed connection ends it.
    pub(super) fn run<S: Socket>(mut self, wire: &Wire<S>) -> End {
        loop {
            match self.step(wire) {
                Step::Next => {}
                Step::Later => std::thread::sleep(PAUSE),
                Step::End(end) => return end,
            }
        }
    }

    pub(super) fn step<S: Socket>(&mut self, wire: &Wire<S>) -> Step {
        let (from, to) = wire.ends(self.direction);
        match self.at {
            At::Read => match from.read(&mut self.piece) {
                Ok(0) => return Step::End(End::Closed),
                Ok(n) => self.at = At::Pass(n),
                Err(e) => return again(e).unwrap_or(Step::End(End::Closed)),
            },
            At::Pass(n) => {
                let bytes = self.piece.get(..n).unwrap_or_default();
                let mut tap = wire.tap();
                let at = clock::now();
                // The bytes go out before everything else, but without blocking, because the tap is locked.
                let wrote = to.send(bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
                // `None` if the connection was closed after the read: the tap takes nothing.
                if let Some(tap) = tap.as_mut() {
                    Counters::add(&wire.counters.bytes, n as u64);
                    tap.chunk(self.direction, at, bytes);
                }
                drop(tap);
                self.at = match wrote {
                    Ok(sent) => At::Rest(sent, n),
                    // No pause here: the next step is a blocking call.
                    Err(e) if again(e).is_some() => At::Rest(0, n),
                    Err(_) => return Step::End(End::Refused),
                };
                self.settle();
            }
            At::Rest(sent, n) => {
                let rest = self.piece.get(sent..n).unwrap_or_default();
                match to.send(rest, SendFlags::NOSIGNAL) {
                    Ok(0) => return Step::End(End::Refused),
                    Ok(more) => self.at = At::Rest(sent + more, n),
                    Err(e) => return again(e).unwrap_or(Step::End(End::Refused)),
                }
                self.settle();
            }
        }
        Step::Next
    }

    fn settle(&mut self) {
        if matches!(self.at, At::Rest(sent, n) if sent >= n) {
            self.at = At::Read;
        }
    }
}

/// Returns when to repeat a failed call; `None` when the socket itself failed. Lack of memory (`unix(7)`: ENOMEM, and
/// ENOBUFS of the kernel's buffers) and interruptions are temporary: giving up would cut bytes out of the stream.
fn again(e: Errno) -> Option<Step> {
    match e {
        Errno::INTR => Some(Step::Next),
        Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => Some(Step::Later),
        _ => None,
    }
}

/// Which directions of a connection have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    up: bool,
    down: bool,
}

impl Ended {
    /// Propagates the end of a direction: an end of the stream forward, a refusal backward.
    pub(super) fn pass<S: Socket>(&mut self, wire: &Wire<S>, direction: Direction, how: End) {
        let (from, to) = wire.ends(direction);
        // A shutdown fails when that side is gone, which its pump notices by itself.
        match how {
            End::Closed => shutdown(to, Shutdown::Write),
            End::Refused => shutdown(from, Shutdown::Read),
        }
        match direction {
            Direction::ClientToServer => self.up = true,
            Direction::ServerToClient => self.down = true,
        }
    }

    pub(super) fn any(self) -> bool {
        self.up || self.down
    }

    /// True when no more bytes can pass. A peer that closed its whole socket reads nothing either, so the connection is
    /// over, and closing it tells the other side, as the kernel would.
    pub(super) fn over<S: Socket>(self, wire: &Wire<S>) -> bool {
        match (self.up, self.down) {
            (true, true) => true,
            (true, false) => is_gone(&wire.client),
            (false, true) => is_gone(&wire.upstream),
            (false, false) => false,
        }
    }
}

/// Shuts a socket down. An interrupted call is repeated, because nothing else would propagate the end.
pub(super) fn shutdown<S: Socket>(socket: &S, how: Shutdown) {
    rustix::io::retry_on_intr(|| socket.shutdown(how)).ok();
}

/// True when the peer has closed its socket, not only its sending side. An empty write to a stream socket sends nothing
/// and only returns the error.
fn is_gone<S: Socket>(socket: &S) -> bool {
    matches!(
        socket.send(&[], SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
        Err(Errno::PIPE | Errno::CONNRESET)
    )
}

/// True for an error that says nothing about the peer: this process or the machine lacks resources for the call.
pub(super) fn is_own(e: &io::Error) -> bool {
    e.raw_os_error()
        .map(Errno::from_raw_os_error)
        .is_some_and(|e| {
            matches!(
                e,
                Errno::INTR | Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM
            )
        })
}
