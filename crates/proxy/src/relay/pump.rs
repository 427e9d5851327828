//! One direction of a connection, a system call a step, so that a test can put a fault at every call and another thread
//! between any two.

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

/// What a pump reads at once, bytes. Larger pieces save calls that cost little beside copying.
const PIECE: usize = 64 << 10;
/// Until a call is tried again for which the kernel had no memory.
const PAUSE: Duration = Duration::from_millis(1);

/// The system calls on one end of a connection, each made once; an error is the kernel's.
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

/// What the two pumps of a connection share.
pub(super) struct Wire<S> {
    pub(super) client: S,
    pub(super) upstream: S,
    /// Held from before a piece is written until the tap has it: so an answer never gets to the tap before what it
    /// answers. `None` once the connection has closed.
    pub(super) tap: Mutex<Option<Tap>>,
    pub(super) counters: Arc<Counters>,
}

impl<S> Wire<S> {
    pub(super) fn tap(&self) -> MutexGuard<'_, Option<Tap>> {
        self.tap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a direction comes from, and where it goes.
    pub(super) fn ends(&self, direction: Direction) -> (&S, &S) {
        match direction {
            Direction::ClientToServer => (&self.client, &self.upstream),
            Direction::ServerToClient => (&self.upstream, &self.client),
        }
    }
}

/// How a pump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The writer said that there is no more, and all of it was passed on; or its socket broke.
    Closed,
    /// The reader takes no more.
    Refused,
}

/// What comes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The next one, at once.
    Next,
    /// The same call after a moment: the kernel has no memory for it now, or the socket turned out not to wait.
    Later,
    End(End),
}

/// What the next step of a pump is.
#[derive(Clone, Copy, Debug)]
enum At {
    Read,
    /// This many bytes were read, and neither the reader nor the tap has them.
    Pass(usize),
    /// These bytes of the piece are left to write.
    Rest(usize, usize),
}

/// Carries one direction.
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

    /// Carries until the direction ends, which a closed connection makes it do.
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
                // Bytes first, everything else after: but without waiting, because the tap is held.
                let wrote = to.send(bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
                // None: the connection was closed since this was read, and takes nothing.
                if let Some(tap) = tap.as_mut() {
                    Counters::add(&wire.counters.bytes, n as u64);
                    tap.chunk(self.direction, at, bytes);
                }
                drop(tap);
                self.at = match wrote {
                    Ok(sent) => At::Rest(sent, n),
                    // Here without a pause: the call that waits is the next one.
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

/// When to repeat a call that failed; `None` when it is the socket that failed. No memory (`unix(7)`: ENOMEM, and ENOBUFS of
/// the kernel's buffers) and an interruption pass; to give up for one would take a stream's middle out.
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
    /// Passes an end on: "no more bytes" and "I take no more bytes", each in its own direction.
    pub(super) fn pass<S: Socket>(&mut self, wire: &Wire<S>, direction: Direction, how: End) {
        let (from, to) = wire.ends(direction);
        // It fails when that side is gone, which the other pump sees for itself.
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

    /// True when nothing can pass any more. Who closed altogether takes nothing more: the other side is told by closing, as
    /// the system would.
    pub(super) fn over<S: Socket>(self, wire: &Wire<S>) -> bool {
        match (self.up, self.down) {
            (true, true) => true,
            (true, false) => is_gone(&wire.client),
            (false, true) => is_gone(&wire.upstream),
            (false, false) => false,
        }
    }
}

/// An end's last call; one that is interrupted is made again, because nothing else would pass the end on.
pub(super) fn shutdown<S: Socket>(socket: &S, how: Shutdown) {
    rustix::io::retry_on_intr(|| socket.shutdown(how)).ok();
}

/// True when the peer has closed its socket (not only its sending side). Sends nothing: an empty write to a stream
/// socket only asks whether one could write.
fn is_gone<S: Socket>(socket: &S) -> bool {
    matches!(
        socket.send(&[], SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
        Err(Errno::PIPE | Errno::CONNRESET)
    )
}

/// True of an error that says nothing of the peer: this process, or the machine, has no room for the call now.
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
