//! One connection: its bytes in order, the reads that wait for a write, and what was lost.

use std::collections::VecDeque;

use kflow_cri::decoder::Lost;
use kflow_cri::{Decoder, Direction};
use kflow_model::{Nanos, Observation};

use super::{Counters, Passed};
use crate::record::Record;

/// Most bytes of reads that may wait for a write on one connection.
pub(super) const HELD: usize = 4 << 20;

/// A read that waits for a write.
#[derive(Debug)]
pub(super) enum Waiting {
    Bytes { offset: u64, bytes: Box<[u8]> },
    End { error: u32 },
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) at: Nanos,
    pub(super) begun: u32,
    pub(super) what: Waiting,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) conn: u32,
    pub(super) peer: String,
    pub(super) inode: Option<u64>,
    /// Offset of the next byte, by direction.
    pub(super) next: [u64; 2],
    pub(super) done: u32,
    pub(super) missed: u32,
    /// When bytes last passed.
    pub(super) last: Nanos,
    pub(super) held: VecDeque<Held>,
    pub(super) held_bytes: usize,
    /// Offset of a piece of which only the header came, because its memory could not be read, by direction.
    unread: [Option<u64>; 2],
    /// What the kernel had counted, and `next`, at the last look, if the kernel was ahead.
    pub(super) ahead: Option<(Passed, [u64; 2])>,
    /// When its last descriptor was closed.
    pub(super) closed: Option<Nanos>,
}

const fn index(direction: Direction) -> usize {
    match direction {
        Direction::ClientToServer => 0,
        Direction::ServerToClient => 1,
    }
}

const BOTH: [Direction; 2] = [Direction::ClientToServer, Direction::ServerToClient];

/// Says why bytes are missing: `no room in the tap's ring: 8192 bytes from the runtime`.
fn missing(bytes: u64, direction: Direction, is_unread: bool) -> String {
    let why = if is_unread {
        "the client's memory could not be read"
    } else {
        "no room in the tap's ring"
    };
    let way = match direction {
        Direction::ClientToServer => "to",
        Direction::ServerToClient => "from",
    };
    format!("{why}: {bytes} bytes {way} the runtime")
}

impl Stream {
    pub(super) fn new(conn: u32, peer: String, inode: Option<u64>) -> Self {
        Self {
            conn,
            peer,
            inode,
            next: [0; 2],
            done: 0,
            missed: 0,
            last: Nanos(0),
            held: VecDeque::new(),
            held_bytes: 0,
            unread: [None; 2],
            ahead: None,
            closed: None,
        }
    }

    /// When it ended, if no descriptor leads to it any more: what was still moved then may be later.
    pub(super) fn ended(&self) -> Option<Nanos> {
        self.closed.map(|closed| closed.max(self.last))
    }

    /// True when no record of what has passed is still to come. Of a connection that is open, writes that have begun
    /// do not count: the runtime may not have read them yet.
    pub(super) fn has_read(&self, passed: &Passed) -> bool {
        let is_written = self.closed.is_none() || passed.begun == passed.done;
        self.held.is_empty() && self.next == passed.bytes && is_written
    }

    /// Handles what every record with bytes says of the stream: calls of which nothing was copied.
    pub(super) fn told(
        &mut self,
        r: &Record<'_>,
        at: Nanos,
        decoder: &mut Decoder,
        out: &mut Vec<Observation>,
    ) {
        if r.missed != self.missed {
            let chunks = u64::from(r.missed.wrapping_sub(self.missed));
            self.missed = r.missed;
            let lost = Lost {
                chunks,
                bytes: None,
            };
            let why = "too many calls at a time for the tap";
            decoder.lose(self.conn, None, at, lost, why, out);
        }
    }

    pub(super) fn bytes(
        &mut self,
        direction: Direction,
        (at, offset, bytes): (Nanos, u64, &[u8]),
        decoder: &mut Decoder,
        counters: &mut Counters,
        out: &mut Vec<Observation>,
    ) {
        let (Some(next), Some(unread)) = (
            self.next.get_mut(index(direction)),
            self.unread.get_mut(index(direction)),
        ) else {
            return;
        };
        // A piece that could not be read comes as a header alone: the next offset shows its length.
        if bytes.is_empty() {
            *unread = Some(offset);
            return;
        }
        if offset != *next {
            let bytes = offset.saturating_sub(*next);
            counters.lost += bytes;
            let why = if bytes > 0 {
                missing(bytes, direction, unread.take() == Some(*next))
            } else {
                "two calls at a time moved bytes the same way".to_owned()
            };
            let lost = Lost {
                chunks: 0,
                bytes: (bytes > 0).then_some(bytes),
            };
            decoder.lose(self.conn, Some(direction), at, lost, &why, out);
        }
        *next = offset.saturating_add(bytes.len() as u64);
        self.last = at;
        decoder.feed(self.conn, direction, at, bytes, out);
    }

    /// Reports the bytes up to the kernel's offsets, `theirs`, as lost: no record of them will come.
    pub(super) fn catch_up(
        &mut self,
        theirs: [u64; 2],
        at: Nanos,
        decoder: &mut Decoder,
        counters: &mut Counters,
        out: &mut Vec<Observation>,
    ) {
        let ours = self.next.iter_mut().zip(&mut self.unread);
        for (direction, (theirs, (ours, unread))) in
            BOTH.into_iter().zip(theirs.into_iter().zip(ours))
        {
            let bytes = theirs.saturating_sub(*ours);
            if bytes == 0 {
                continue;
            }
            let why = missing(bytes, direction, unread.take() == Some(*ours));
            *ours = theirs;
            counters.lost += bytes;
            let lost = Lost {
                chunks: 0,
                bytes: Some(bytes),
            };
            decoder.lose(self.conn, Some(direction), at, lost, &why, out);
        }
    }

    /// Emits the reads that waited for writes up to number `done`; with `None`, all of them.
    pub(super) fn release(
        &mut self,
        done: Option<u32>,
        decoder: &mut Decoder,
        counters: &mut Counters,
        out: &mut Vec<Observation>,
    ) {
        while let Some(first) = self.held.front() {
            let waits = done.is_some_and(|done| first.begun.wrapping_sub(done).cast_signed() > 0);
            if waits {
                return;
            }
            let Some(Held { at, what, .. }) = self.held.pop_front() else {
                return;
            };
            match what {
                Waiting::Bytes { offset, bytes } => {
                    self.held_bytes = self.held_bytes.saturating_sub(bytes.len());
                    let read = (at, offset, &*bytes);
                    self.bytes(Direction::ServerToClient, read, decoder, counters, out);
                }
                Waiting::End { error } => {
                    let why = if error == 0 {
                        "eof".to_owned()
                    } else {
                        std::io::Error::from_raw_os_error(error.cast_signed()).to_string()
                    };
                    let half = Some(Direction::ServerToClient);
                    decoder.close(self.conn, half, at, &why, out);
                }
            }
        }
    }
}
