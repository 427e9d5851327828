//! From records to connections: what the decoder receives, in which order, and what was lost.
//!
//! A write's record comes when the call ends, and its thread may be delayed before that; then the answer, read by
//! another thread, has its record first. So the record of a read says how many writes had begun and how many are in the
//! ring. It waits until the writes that had begun have their records, for at most [`HOLD`].

mod stream;

use kflow_cri::decoder::Lost;
use kflow_cri::{Decoder, Direction};
use kflow_model::cri::Sight;
use kflow_model::gap::Gap;
use kflow_model::{Body, Nanos, Observation, Source, Stamp};
use rustc_hash::{FxHashMap, FxHashSet};

use super::node::Holder;
use super::time::Offset;
use crate::record::{Kind, Record};
use stream::{HELD, Held, Stream, Waiting};

/// How long a read waits for an earlier write, ns. A write that takes longer is blocked because the runtime does not
/// read it, and what the runtime sends meanwhile answers something else.
pub(crate) const HOLD: i64 = 20_000_000;
/// Time without bytes after which a connection counts as quiet, ns. Chosen: twice the time in which records gather, so
/// that all calls that have begun are known.
pub(crate) const QUIET: i64 = 20_000_000;

/// The node as the follower sees it: its descriptors, and the maps of the kernel's program.
pub(crate) trait Node {
    /// Returns the inode of the socket that a descriptor leads to.
    fn inode(&self, process: u32, descriptor: u32) -> Option<u64>;
    /// Returns the name of a process's program.
    fn name(&self, process: u32) -> String;
    /// Returns the processes that this one created.
    fn children(&self, process: u32) -> Vec<u32>;
    /// Watches a descriptor from now on. Returns false when another stream has it, or when it cannot be watched.
    fn watch(&mut self, process: u32, descriptor: u32, stream: u64) -> bool;
    /// Stops watching a descriptor, if it is watched as this stream.
    fn unwatch(&mut self, process: u32, descriptor: u32, stream: u64);
    /// Returns what has passed on a stream so far; `None` when the kernel's program does not know it.
    fn passed(&self, stream: u64) -> Option<Passed>;
    /// Drops what the maps hold of a stream that is over.
    fn forget(&mut self, stream: u64);
}

/// What has passed on a stream, as the kernel's program counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Bytes by direction. They are counted before their records come.
    pub(crate) bytes: [u64; 2],
    /// Writes that have begun.
    pub(crate) begun: u32,
    /// Writes of which everything that was copied is in the ring.
    pub(crate) done: u32,
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Connections that existed before they were found.
    pub(crate) joined: u64,
    /// Bytes that were not copied.
    pub(crate) lost: u64,
    /// Records of unknown connections: closed meanwhile, or never reported.
    pub(crate) strays: u64,
}

/// A connection that is not fully understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unclear {
    pub(crate) stream: u64,
    /// Name of the client's program.
    pub(crate) peer: String,
    /// A descriptor that leads to the connection.
    pub(crate) holder: Holder,
    /// No call is known to be open on the connection, and no bytes have passed for [`QUIET`].
    pub(crate) idle: bool,
}

/// All connections of a tap.
#[derive(Default)]
pub(crate) struct Follower {
    decoder: Decoder,
    streams: FxHashMap<u64, Stream>,
    /// The stream that each descriptor (process, number) leads to.
    descriptors: FxHashMap<(u32, u32), u64>,
    /// Descriptors that the last check found gone, with the stream that they led to. Records from before the check may
    /// still be in the ring.
    gone: Vec<((u32, u32), u64)>,
    conns: u32,
    numbers: u64,
    counters: Counters,
}

impl Follower {
    /// Handles a record. Records have to come in the order of the ring.
    pub(crate) fn record(
        &mut self,
        r: &Record<'_>,
        clock: Offset,
        node: &mut impl Node,
        out: &mut Vec<Observation>,
    ) {
        let at = clock.wall(r.time);
        match r.kind {
            Kind::Sent => self.sent(r, at, out),
            Kind::Received => {
                let bytes = r.bytes.into();
                let offset = r.offset;
                self.read(r, at, Waiting::Bytes { offset, bytes }, out);
            }
            Kind::Ended(error) => self.read(r, at, Waiting::End { error }, out),
            Kind::Opened => self.opened(r, at, node, out),
            Kind::Closed => self.unlink((r.process, r.descriptor), at, node, out),
            Kind::Duplicated(second) => {
                if self.streams.contains_key(&r.stream) {
                    self.link((r.process, second), r.stream, at, node, out);
                }
            }
            Kind::Forked => self.forked(r.process, at, node, out),
            Kind::Changed => self.changed(r.process, at, node, out),
            Kind::Exited => {
                for d in self.of_process(r.process) {
                    self.unlink(d, at, node, out);
                }
            }
        }
        // What was awaited of a connection without descriptors may have come.
        self.close_if_read(r.stream, node, out);
    }

    fn of_process(&self, process: u32) -> Vec<(u32, u32)> {
        let all = self.descriptors.keys().filter(|(p, _)| *p == process);
        let mut all: Vec<_> = all.copied().collect();
        all.sort_unstable();
        all
    }

    /// Returns the connections that a descriptor leads to.
    fn open(&self) -> impl Iterator<Item = (u64, &Stream)> {
        let open = self.streams.iter().filter(|(_, s)| s.closed.is_none());
        open.map(|(number, s)| (*number, s))
    }

    fn next_conn(&mut self) -> u32 {
        self.conns = self.conns.saturating_add(1);
        self.conns
    }

    fn opened(
        &mut self,
        r: &Record<'_>,
        at: Nanos,
        node: &mut impl Node,
        out: &mut Vec<Observation>,
    ) {
        let name = r.bytes.split(|b| *b == 0).next().unwrap_or_default();
        let peer = String::from_utf8_lossy(name).into_owned();
        let inode = node.inode(r.process, r.descriptor);
        let stream = match self.take_early(inode) {
            Some((number, early)) => {
                self.descriptors.retain(|_, s| *s != number);
                node.forget(number);
                early
            }
            None => {
                let conn = self.next_conn();
                self.decoder.open(conn, at, r.process, &peer, out);
                Stream::new(conn, peer, inode)
            }
        };
        self.streams.insert(r.stream, stream);
        self.link((r.process, r.descriptor), r.stream, at, node, out);
    }

    /// Takes out a stream that was joined on this socket and has had no bytes yet: a search can find a socket after the
    /// kernel connected it and before the program reports it. For the decoder it remains one connection, whose first
    /// bytes show that it is whole.
    fn take_early(&mut self, inode: Option<u64>) -> Option<(u64, Stream)> {
        let inode = inode?;
        let is_early = |s: &Stream| s.inode == Some(inode) && s.next == [0, 0] && s.held.is_empty();
        let (number, _) = self.open().find(|(_, s)| is_early(s))?;
        let early = self.streams.remove(&number)?;
        self.counters.joined = self.counters.joined.saturating_sub(1);
        Some((number, early))
    }

    /// Records that a descriptor leads to a stream, and no longer to the one before.
    fn link(
        &mut self,
        descriptor: (u32, u32),
        stream: u64,
        at: Nanos,
        node: &mut impl Node,
        out: &mut Vec<Observation>,
    ) {
        // A thread can have duplicated the descriptor that another one closed.
        if let Some(s) = self.streams.get_mut(&stream) {
            s.closed = None;
        }
        if let Some(before) = self.descriptors.insert(descriptor, stream)
            && before != stream
        {
            self.release_unused(before, at, node, out);
        }
    }

    /// Records that a descriptor is closed. Closing the last descriptor closes the connection.
    fn unlink(
        &mut self,
        descriptor: (u32, u32),
        at: Nanos,
        node: &mut impl Node,
        out: &mut Vec<Observation>,
    ) {
        if let Some(stream) = self.descriptors.remove(&descriptor) {
            node.unwatch(descriptor.0, descriptor.1, stream);
            self.release_unused(stream, at, node, out);
        }
    }

    fn release_unused(
        &mut self,
        stream: u64,
        at: Nanos,
        node: &mut impl Node,
        out: &mut Vec<Observation>,
    ) {
        if self.descriptors.values().any(|s| *s == stream) {
            return;
        }
        if let Some(s) = self.streams.get_mut(&stream) {
            s.closed = Some(at);
            self.close_if_read(stream, node, out);
        }
    }

    /// Closes a connection that no descriptor leads to, once all of it has been read. A thread can still be in a write
    /// when another one closes the descriptor or ends the process; the write's record comes after that of the end.
    /// [`tally`](Self::tally) closes a connection of which a record is lost.
    fn close_if_read(&mut self, stream: u64, node: &mut impl Node, out: &mut Vec<Observation>) {
        let Some(s) = self.streams.get(&stream) else {
            return;
        };
        let is_read = || node.passed(stream).is_none_or(|p| s.has_read(&p));
        if s.closed.is_some() && is_read() {
            self.close(stream, node, out);
        }
    }

    fn close(&mut self, stream: u64, node: &mut impl Node, out: &mut Vec<Observation>) {
        if let Some(mut s) = self.streams.remove(&stream) {
            s.release(None, &mut self.decoder, &mut self.counters, out);
            let at = s.ended().unwrap_or(s.last);
            self.decoder.close(s.conn, None, at, "", out);
            node.forget(stream);
        }
    }

    fn sent(&mut self, r: &Record<'_>, at: Nanos, out: &mut Vec<Observation>) {
        let Some(s) = self.streams.get_mut(&r.stream) else {
            self.counters.strays += 1;
            return;
        };
        s.told(r, at, &mut self.decoder, out);
        s.bytes(
            Direction::ClientToServer,
            (at, r.offset, r.bytes),
            &mut self.decoder,
            &mut self.counters,
            out,
        );
        s.done = r.done;
        s.release(Some(r.done), &mut self.decoder, &mut self.counters, out);
    }

    fn read(&mut self, r: &Record<'_>, at: Nanos, what: Waiting, out: &mut Vec<Observation>) {
        let Some(s) = self.streams.get_mut(&r.stream) else {
            self.counters.strays += 1;
            return;
        };
        let mut begun = r.begun;
        if let Waiting::Bytes { bytes, .. } = &what {
            s.told(r, at, &mut self.decoder, out);
            s.held_bytes += bytes.len();
            s.done = r.done;
        } else {
            // The end follows the reads before it and carries no number of writes itself.
            begun = s.held.back().map_or(s.done, |h| h.begun);
        }
        s.held.push_back(Held { at, begun, what });
        let until = (s.held_bytes <= HELD).then_some(s.done);
        s.release(until, &mut self.decoder, &mut self.counters, out);
    }

    /// A process executed another program, or closed a range of descriptors. Descriptors that still lead to their
    /// stream are watched again; the bytes in between are lost.
    fn changed(
        &mut self,
        process: u32,
        at: Nanos,
        node: &mut impl Node,
        out: &mut Vec<Observation>,
    ) {
        for d in self.of_process(process) {
            let Some(stream) = self.descriptors.get(&d).copied() else {
                continue;
            };
            let Some(s) = self.streams.get(&stream) else {
                continue;
            };
            let (conn, inode) = (s.conn, s.inode);
            if inode.is_some() && watched(node, d, stream, inode) {
                let why = "the client ran another program, or closed a range of descriptors";
                self.decoder.lose(conn, None, at, Lost::default(), why, out);
            } else {
                self.unlink(d, at, node, out);
            }
        }
    }

    /// Returns the inodes of the known sockets.
    pub(crate) fn inodes(&self) -> FxHashSet<u64> {
        self.open().filter_map(|(_, s)| s.inode).collect()
    }

    /// Handles a descriptor that a search found: joins its connection in the middle, unless the connection is known.
    pub(crate) fn join(
        &mut self,
        found: Holder,
        at: Nanos,
        node: &mut impl Node,
        out: &mut Vec<Observation>,
    ) {
        let (process, descriptor, inode) = found;
        let known = self.open().find(|(_, s)| s.inode == Some(inode));
        let known = known.map(|(stream, _)| stream);
        let stream = known.unwrap_or_else(|| {
            self.numbers += 1;
            self.numbers
        });
        if !watched(node, (process, descriptor), stream, Some(inode)) {
            return;
        }
        if known.is_none() {
            let peer = node.name(process);
            let conn = self.next_conn();
            self.counters.joined += 1;
            self.decoder.join(conn, at, process, &peer, out);
            self.streams
                .insert(stream, Stream::new(conn, peer, Some(inode)));
        }
        self.link((process, descriptor), stream, at, node, out);
    }

    /// Checks which descriptors lead to their streams no more, because records of closing can be lost. They count as
    /// closed after [`settle`](Self::settle).
    pub(crate) fn look(&mut self, node: &impl Node) {
        let leads_elsewhere = |d: (u32, u32), stream: u64| {
            let inode = self.streams.get(&stream).and_then(|s| s.inode);
            inode.is_some() && node.inode(d.0, d.1) != inode
        };
        let all = self.descriptors.iter().map(|(d, stream)| (*d, *stream));
        self.gone = all
            .filter(|(d, stream)| leads_elsewhere(*d, *stream))
            .collect();
        self.gone.sort_unstable();
    }

    /// Takes the descriptors that the last check found gone as closed, unless a record has said so. Called when the ring
    /// is empty: all that passed before the check has been read.
    pub(crate) fn settle(&mut self, at: Nanos, node: &mut impl Node, out: &mut Vec<Observation>) {
        for (d, stream) in std::mem::take(&mut self.gone) {
            if self.descriptors.get(&d) == Some(&stream) {
                self.unlink(d, at, node, out);
            }
        }
    }

    /// A process created others: the children that keep its connections are followed too. This happens at once, before
    /// the parent's closing of a descriptor is read.
    fn forked(&mut self, parent: u32, at: Nanos, node: &mut impl Node, out: &mut Vec<Observation>) {
        let of_parent = self.of_process(parent);
        if of_parent.is_empty() {
            return;
        }
        for child in node.children(parent) {
            for d in &of_parent {
                self.inherit(*d, child, at, node, out);
            }
        }
    }

    fn inherit(
        &mut self,
        of: (u32, u32),
        child: u32,
        at: Nanos,
        node: &mut impl Node,
        out: &mut Vec<Observation>,
    ) {
        let Some(stream) = self.descriptors.get(&of).copied() else {
            return;
        };
        let inode = self.streams.get(&stream).and_then(|s| s.inode);
        let shared = inode.is_some() && node.inode(child, of.1) == inode;
        if shared && watched(node, (child, of.1), stream, inode) {
            self.link((child, of.1), stream, at, node, out);
        }
    }

    /// Counts bytes that passed and that no record will bring, and closes the connections without descriptors of which nothing more
    /// will come. Called when the ring is empty, a few times a second at most: bytes that were missing at the last call too, with
    /// nothing new since, are lost.
    pub(crate) fn tally(&mut self, at: Nanos, node: &mut impl Node, out: &mut Vec<Observation>) {
        let mut over = Vec::new();
        for (id, s) in &mut self.streams {
            let passed = node.passed(*id);
            match passed.filter(|p| !s.has_read(p)) {
                // The read stops waiting before the next look.
                _ if !s.held.is_empty() => {
                    s.ahead = None;
                    continue;
                }
                None => s.ahead = None,
                Some(theirs) => {
                    if s.ahead.replace((theirs, s.next)) != Some((theirs, s.next)) {
                        continue;
                    }
                    let at = s.ended().unwrap_or(at);
                    s.catch_up(theirs.bytes, at, &mut self.decoder, &mut self.counters, out);
                }
            }
            if s.closed.is_some() {
                over.push(*id);
            }
        }
        over.sort_unstable();
        for stream in over {
            self.close(stream, node, out);
        }
    }

    /// Records without bytes had no room in the ring, so connections may have come and gone unseen: reports a gap.
    pub(crate) fn unseen(&self, records: u64, since: Nanos, at: Nanos, out: &mut Vec<Observation>) {
        let why = "no room in the tap's ring: connections may have come and gone unseen";
        out.push(Observation {
            stamp: Stamp::exact(at),
            source: Source::Cri,
            body: Body::Gap(Box::new(Gap {
                of: Source::Cri,
                since,
                lost: records,
                conn: 0,
                resource: kflow_model::Text::default(),
                why: why.into(),
            })),
        });
    }

    /// True while a read waits for a write.
    pub(crate) fn holds(&self) -> bool {
        self.streams.values().any(|s| !s.held.is_empty())
    }

    /// Lets time pass: emits what was held back for too long.
    pub(crate) fn advance(&mut self, now: Nanos, out: &mut Vec<Observation>) {
        for s in self.streams.values_mut() {
            let late = |h: &Held| now.since(h.at) > HOLD || now < h.at;
            if s.held.front().is_some_and(late) {
                s.release(None, &mut self.decoder, &mut self.counters, out);
            }
        }
        self.decoder.advance(now, out);
    }

    /// Returns the connections on which calls may lack a method, because they were joined in the middle or lost bytes.
    pub(crate) fn unclear(&self, now: Nanos) -> Vec<Unclear> {
        let mut all: Vec<Unclear> = self
            .descriptors
            .iter()
            .filter_map(|(&(process, descriptor), stream)| {
                let s = self.streams.get(stream)?;
                let standing = self.decoder.standing(s.conn)?;
                (standing.sight == Sight::Partial).then_some(Unclear {
                    stream: *stream,
                    peer: s.peer.clone(),
                    holder: (process, descriptor, s.inode?),
                    idle: standing.idle && s.held.is_empty() && now.since(s.last) >= QUIET,
                })
            })
            .collect();
        all.sort_unstable_by_key(|u| (u.stream, u.holder));
        all.dedup_by_key(|u| u.stream);
        all
    }

    /// Returns a summary: `2 connections of kubelet, 1 of crictl; 1 joined in the middle`.
    pub(crate) fn status(&self) -> String {
        let mut by: Vec<(&str, usize)> = Vec::new();
        for (_, s) in self.open() {
            match by.iter_mut().find(|(name, _)| *name == s.peer) {
                Some((_, n)) => *n += 1,
                None => by.push((&s.peer, 1)),
            }
        }
        by.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        let named: Vec<String> = by
            .iter()
            .enumerate()
            .map(|(i, (name, n))| {
                let name = if name.is_empty() {
                    "an unknown program"
                } else {
                    name
                };
                match (i, n) {
                    (0, 1) => format!("1 connection of {name}"),
                    (0, n) => format!("{n} connections of {name}"),
                    (_, n) => format!("{n} of {name}"),
                }
            })
            .collect();
        let mut text = if named.is_empty() {
            "no client is connected".to_owned()
        } else {
            named.join(", ")
        };
        if self.counters.joined > 0 {
            text.push_str(&format!("; {} joined in the middle", self.counters.joined));
        }
        if self.counters.lost > 0 {
            text.push_str(&format!("; {} bytes lost", self.counters.lost));
        }
        if self.counters.strays > 0 {
            let strays = self.counters.strays;
            text.push_str(&format!(
                "; {strays} copies of connections that are not known"
            ));
        }
        text
    }

    #[cfg(test)]
    pub(crate) const fn counters(&self) -> Counters {
        self.counters
    }
}

/// Watches a descriptor, then checks that it still leads to the expected socket: it may have been closed, and its
/// number reused, before it was watched.
fn watched(node: &mut impl Node, descriptor: (u32, u32), stream: u64, inode: Option<u64>) -> bool {
    let (process, number) = descriptor;
    if !node.watch(process, number, stream) {
        return false;
    }
    let same = node.inode(process, number) == inode;
    if !same {
        node.unwatch(process, number, stream);
    }
    same
}

#[cfg(test)]
mod tests;
