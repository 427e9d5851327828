//! Records of a real run: `ctr version` and `ctr images ls` against containerd 1.6.20, recorded by the example `tap`.

use rustc_hash::{FxHashMap, FxHashSet};

use kflow_model::{Body, Observation};

use super::*;
use crate::record::{HEAD, parse};

const TAPE: &[u8] = include_bytes!("ctr.tape");

fn records(tape: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut all) = (tape, Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (record, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        all.push(record.to_vec());
        rest = after;
    }
    all
}

/// A node with prepared answers.
#[derive(Default)]
struct Played {
    inodes: FxHashMap<(u32, u32), u64>,
    children: FxHashMap<u32, Vec<u32>>,
    watched: FxHashMap<(u32, u32), u64>,
    passed: FxHashMap<u64, Passed>,
    forgotten: FxHashSet<u64>,
    /// Descriptors that are closed, and their numbers reused, at the moment in which they are watched.
    slippery: FxHashSet<(u32, u32)>,
}

impl Node for Played {
    fn inode(&self, process: u32, descriptor: u32) -> Option<u64> {
        self.inodes.get(&(process, descriptor)).copied()
    }
    fn name(&self, process: u32) -> String {
        format!("program {process}")
    }
    fn children(&self, process: u32) -> Vec<u32> {
        self.children.get(&process).cloned().unwrap_or_default()
    }
    fn watch(&mut self, process: u32, descriptor: u32, stream: u64) -> bool {
        let at = (process, descriptor);
        if self.slippery.contains(&at) {
            self.inodes.insert(at, 999);
        }
        *self.watched.entry(at).or_insert(stream) == stream
    }
    fn unwatch(&mut self, process: u32, descriptor: u32, stream: u64) {
        let at = (process, descriptor);
        if self.watched.get(&at) == Some(&stream) {
            self.watched.remove(&at);
        }
    }
    fn passed(&self, stream: u64) -> Option<Passed> {
        self.passed.get(&stream).copied()
    }
    fn forget(&mut self, stream: u64) {
        self.forgotten.insert(stream);
    }
}

/// A follower, its node, and the observations.
struct Stage {
    follower: Follower,
    node: Played,
    out: Vec<Observation>,
    clock: Offset,
}

impl Stage {
    fn new() -> Self {
        Self {
            follower: Follower::default(),
            node: Played::default(),
            out: Vec::new(),
            clock: Offset::between(0, Nanos(0), 0),
        }
    }
    fn record(&mut self, bytes: &[u8]) {
        let r = parse(bytes).expect("a record");
        let Self {
            follower,
            node,
            out,
            clock,
        } = self;
        follower.record(&r, *clock, node, out);
    }
    /// The same of the tape's: each connection has a socket.
    fn record_of_tape(&mut self, bytes: &[u8]) {
        let r = parse(bytes).unwrap();
        if r.kind == Kind::Opened {
            let descriptor = (r.process, r.descriptor);
            self.node.inodes.insert(descriptor, r.stream);
        }
        self.record(bytes);
    }
    fn play(records: &[Vec<u8>]) -> Self {
        let mut stage = Self::new();
        for r in records {
            stage.record_of_tape(r);
        }
        stage
    }
    /// Finds that all descriptors are closed, and the ring empty.
    fn check(&mut self) {
        self.node.inodes.clear();
        self.follower.look(&self.node);
        let Self {
            follower,
            node,
            out,
            ..
        } = self;
        follower.settle(Nanos(0), node, out);
    }
    /// Counts as the program's thread does when the ring is empty.
    fn tally(&mut self) {
        self.follower
            .tally(Nanos(i64::MAX), &mut self.node, &mut self.out);
    }
    /// Connections: number, whether it opened, the client's program.
    fn connections(&self) -> Vec<(u32, bool, &str)> {
        let all = self.out.iter().filter_map(|o| match &o.body {
            Body::Conn(c) => Some((c.conn, c.open, c.peer.as_str())),
            _ => None,
        });
        all.collect()
    }
    fn calls(&self) -> Vec<(u32, &str, u64, Option<u32>)> {
        let mut all = Vec::new();
        for o in &self.out {
            let Body::CallStart(start) = &o.body else {
                continue;
            };
            let end = self.out.iter().find_map(|o| match &o.body {
                Body::CallEnd(e) if e.key == start.key => Some(e),
                _ => None,
            });
            let (size, code) = end.map_or((0, None), |e| (e.response_bytes, e.code));
            all.push((start.key.conn, start.method.as_str(), size, code));
        }
        all
    }
    fn gaps(&self) -> Vec<&str> {
        let all = self.out.iter().filter_map(|o| match &o.body {
            Body::Gap(g) => Some(g.why.as_str()),
            _ => None,
        });
        all.collect()
    }
}

/// Makes a record as the program lays it out. Records of a conversation's bytes are not made but taken from the tape.
fn made(kind: u32, stream: u64, process: u32, descriptor: u32, more: u32) -> Vec<u8> {
    let mut r = Vec::new();
    for n in [1_000, stream, 0] {
        r.extend(n.to_ne_bytes());
    }
    for n in [kind, process, process, descriptor, 0, 0, 0, 0, more, 0] {
        r.extend(n.to_ne_bytes());
    }
    assert_eq!(r.len(), HEAD);
    r
}

const SENT: u32 = 1;
const OPENED: u32 = 4;
const CLOSED: u32 = 5;
const DUPLICATED: u32 = 6;
const FORKED: u32 = 7;
const CHANGED: u32 = 8;
const EXITED: u32 = 9;

/// Counts what passed on a stream by its records.
fn passed(records: &[Vec<u8>], stream: u64) -> Passed {
    let mut passed = Passed::default();
    for r in records.iter().map(|r| parse(r).unwrap()) {
        let way = match r.kind {
            Kind::Sent if r.stream == stream => 0,
            Kind::Received if r.stream == stream => 1,
            _ => continue,
        };
        passed.bytes[way] = r.offset + r.bytes.len() as u64;
        (passed.begun, passed.done) = (r.begun, r.done);
    }
    passed
}

fn put(record: &mut [u8], at: usize, n: u32) {
    record[at..at + 4].copy_from_slice(&n.to_ne_bytes());
}

const CALLS: [(u32, &str, u64, Option<u32>); 3] = [
    (
        1,
        "/containerd.services.version.v1.Version/Version",
        34,
        Some(0),
    ),
    (
        1,
        "/containerd.services.introspection.v1.Introspection/Server",
        38,
        Some(0),
    ),
    (
        2,
        "/containerd.services.images.v1.Images/List",
        642,
        Some(0),
    ),
];

#[test]
fn a_real_run_is_read_whole() {
    let stage = Stage::play(&records(TAPE));
    assert_eq!(stage.calls(), CALLS);
    assert_eq!(
        stage.connections(),
        [
            (1, true, "ctr"),
            (1, false, "ctr"),
            (2, true, "ctr"),
            (2, false, "ctr")
        ]
    );
    assert_eq!(stage.gaps(), Vec::<&str>::new());
    assert_eq!(stage.follower.counters(), Counters::default());
    assert_eq!(stage.follower.streams.len(), 0);
    assert_eq!(stage.node.forgotten.len(), 2);
    assert_eq!(stage.follower.status(), "no client is connected");
}

#[test]
fn a_record_that_is_cut_anywhere_is_none() {
    for r in records(TAPE) {
        for n in 0..r.len() {
            assert_eq!(parse(&r[..n]), None, "{n} bytes");
        }
        let mut unknown = r.clone();
        put(&mut unknown, 24, 77);
        assert_eq!(parse(&unknown), None);
    }
}

/// Leaves out one piece of a conversation: the next piece, or the kernel's own count, shows exactly how
/// many bytes were lost.
#[test]
fn every_piece_that_is_lost_is_told() {
    let all = records(TAPE);
    let mut tried = 0;
    for lost in 0..all.len() {
        let piece = parse(&all[lost]).unwrap();
        if !matches!(piece.kind, Kind::Sent | Kind::Received) {
            continue;
        }
        let mut stage = Stage::new();
        for (i, bytes) in all.iter().enumerate() {
            let r = parse(bytes).unwrap();
            if r.kind == Kind::Exited && r.process == piece.process {
                stage
                    .node
                    .passed
                    .insert(piece.stream, passed(&all, piece.stream));
                // The read stops waiting, and the second look confirms what the first one saw.
                stage.follower.advance(Nanos(i64::MAX), &mut stage.out);
                stage.tally();
                stage.tally();
            }
            if i != lost {
                stage.record(bytes);
            }
        }
        tried += 1;
        let counted = stage.follower.counters().lost;
        assert_eq!(counted, piece.bytes.len() as u64, "piece {lost}: {piece:?}");
        // An answer may come before the loss of its request is known: then the decoder reports that as well.
        let gaps = stage.gaps();
        let told = gaps.iter().filter(|why| why.contains("no room")).count();
        assert_eq!(told, 1, "piece {lost}: {gaps:?}");
    }
    assert_eq!(tried, 20);
}

const SOME: Passed = Passed {
    bytes: [700, 0],
    begun: 1,
    done: 1,
};

#[test]
fn what_a_connection_lost_before_it_was_closed_is_told() {
    let mut stage = Stage::new();
    stage.node.inodes.insert((7, 3), 50);
    stage.record(&made(OPENED, 1 << 40, 7, 3, 0));
    stage.node.passed.insert(1 << 40, SOME);
    stage.record(&made(CLOSED, 1 << 40, 7, 3, 0));
    // The record may be late.
    assert_eq!(stage.follower.status(), "no client is connected");
    stage.tally();
    assert_eq!(stage.gaps(), Vec::<&str>::new());
    stage.tally();
    assert_eq!(
        stage.gaps(),
        ["no room in the tap's ring: 700 bytes to the runtime"]
    );
    assert_eq!(stage.follower.counters().lost, 700);
    assert_eq!(stage.connections().last().map(|c| c.1), Some(false));
    assert!(stage.node.forgotten.contains(&(1 << 40)));
}

/// The check of descriptors runs beside the ring: the records of what passed before it may be unread.
#[test]
fn what_passed_before_a_check_found_the_connection_closed_is_not_lost() {
    let all = records(TAPE);
    // Plays the tape; where a number is given, the check runs before that record, and by then all connections are closed.
    let play = |checked: Option<usize>| {
        let mut stage = Stage::new();
        let mut gone = 0;
        for (at, bytes) in all.iter().enumerate() {
            if checked == Some(at) {
                stage.node.inodes.clear();
                stage.follower.look(&stage.node);
                gone = stage.follower.gone.len();
            }
            stage.record_of_tape(bytes);
        }
        (stage, gone)
    };
    let (whole, _) = play(None);
    let mut found = 0;
    for checked in 0..all.len() {
        let (mut stage, gone) = play(Some(checked));
        let Stage {
            follower,
            node,
            out,
            ..
        } = &mut stage;
        follower.settle(Nanos(i64::MAX), node, out);
        assert_eq!(stage.out, whole.out, "checked before record {checked}");
        found += gone;
    }
    assert!(found > 20, "{found}");
}

/// A connection ends while a thread is still in a write or a read, before or after the kernel has counted the bytes: their record
/// comes after that of the end. Each piece of a conversation is the last one in turn.
#[test]
fn what_is_moved_while_a_connection_ends_is_not_lost() {
    let all = records(TAPE);
    let mut tried = 0;
    for (piece, bytes) in all.iter().enumerate() {
        let r = parse(bytes).unwrap();
        if !matches!(r.kind, Kind::Sent | Kind::Received) {
            continue;
        }
        let of = |kind: Kind, process: u32, bytes: &[u8]| {
            let r = parse(bytes).unwrap();
            (r.kind, r.process) == (kind, process)
        };
        let exit = all.iter().position(|e| of(Kind::Exited, r.process, e));
        let exit = exit.unwrap();
        let opened = all.iter().map(|o| parse(o).unwrap());
        let mut opened = opened.filter(|o| o.kind == Kind::Opened && o.stream == r.stream);
        let descriptor = opened.next().unwrap().descriptor;
        let closed = made(CLOSED, r.stream, r.process, descriptor, 0);
        let ends: [&dyn Fn(&mut Stage); 3] = [
            &|stage| stage.record(&all[exit]),
            &|stage| stage.record(&closed),
            &|stage| stage.check(),
        ];
        let counted = passed(&all[..=piece], r.stream);
        let before = passed(&all[..piece], r.stream);
        let begun = Passed {
            begun: counted.begun,
            ..before
        };
        for end in ends {
            let mut whole = Stage::play(&all[..=piece]);
            end(&mut whole);
            // Of a read that is not counted the kernel knows nothing.
            for when in [counted, begun] {
                if when != counted && r.kind == Kind::Received {
                    continue;
                }
                let mut late = Stage::play(&all[..piece]);
                let open = late.follower.streams.len();
                late.node.passed.insert(r.stream, when);
                end(&mut late);
                assert_eq!(late.follower.streams.len(), open, "piece {piece}");
                late.node.passed.insert(r.stream, counted);
                late.record(bytes);
                assert_eq!(late.follower.streams.len(), open - 1, "piece {piece}");
                assert_eq!(late.out, whole.out, "piece {piece}: {r:?}");
                assert_eq!(late.follower.counters(), Counters::default());
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 3 * (20 + sent_pieces(&all)));
}

fn sent_pieces(records: &[Vec<u8>]) -> usize {
    let kinds = records.iter().map(|r| parse(r).unwrap().kind);
    kinds.filter(|kind| *kind == Kind::Sent).count()
}

#[test]
fn memory_that_cannot_be_read_is_told_as_that() {
    let mut stage = Stage::new();
    stage.node.inodes.insert((7, 3), 50);
    stage.record(&made(OPENED, 1 << 40, 7, 3, 0));
    // A header alone.
    stage.record(&made(SENT, 1 << 40, 7, 3, 0));
    stage.node.passed.insert(1 << 40, SOME);
    stage.record(&made(CLOSED, 1 << 40, 7, 3, 0));
    stage.tally();
    stage.tally();
    assert_eq!(
        stage.gaps(),
        ["the client's memory could not be read: 700 bytes to the runtime"]
    );
}

#[test]
fn that_connections_may_have_come_and_gone_is_told_once_for_all_of_them() {
    let mut out = Vec::new();
    Follower::default().unseen(3, Nanos(5), Nanos(9), &mut out);
    let [
        Observation {
            stamp,
            body: Body::Gap(gap),
            ..
        },
    ] = out.as_slice()
    else {
        unreachable!("a gap: {out:?}");
    };
    assert_eq!(
        (stamp.at, gap.since, gap.lost, gap.conn),
        (Nanos(9), Nanos(5), 3, 0)
    );
}

/// A thread is delayed at the end of a write, so the record of the answer comes first; its counts of writes show that.
#[test]
fn an_answer_that_comes_before_its_request_waits_for_it() {
    let all = records(TAPE);
    let whole = Stage::play(&all).out;
    let mut tried = 0;
    for i in 1..all.len() {
        let (before, after) = (parse(&all[i - 1]).unwrap(), parse(&all[i]).unwrap());
        if (before.kind, after.kind) != (Kind::Sent, Kind::Received) {
            continue;
        }
        let mut swapped = all.clone();
        swapped.swap(i - 1, i);
        // When the read ended, the write had begun and was not done.
        put(&mut swapped[i - 1], 44, before.done);
        put(&mut swapped[i - 1], 48, before.done - 1);
        let stage = Stage::play(&swapped);
        assert_eq!(stage.out, whole, "{i}");
        tried += 1;
        // Without the write's record the read waits for it, until `HOLD` has passed.
        let mut stage = Stage::play(&swapped[..i]);
        assert!(stage.follower.holds());
        let at = stage.clock.wall(after.time);
        stage.follower.advance(at.plus(HOLD), &mut stage.out);
        assert!(stage.follower.holds());
        stage.follower.advance(at.plus(HOLD + 1), &mut stage.out);
        assert!(!stage.follower.holds());
    }
    assert!(tried > 3, "{tried}");
}

#[test]
fn a_connection_lives_as_long_as_one_of_its_descriptors() {
    let mut stage = Stage::new();
    stage.node.inodes.insert((7, 3), 50);
    stage.record(&made(OPENED, 1 << 40, 7, 3, 0));
    stage.record(&made(DUPLICATED, 1 << 40, 7, 3, 9));
    stage.record(&made(CLOSED, 1 << 40, 7, 3, 0));
    assert_eq!(stage.connections(), [(1, true, "")]);
    // The number is reused for something else, which is not watched; a second closing has no effect either.
    stage.record(&made(CLOSED, 1 << 40, 7, 3, 0));
    stage.record(&made(CLOSED, 1 << 40, 7, 9, 0));
    assert_eq!(stage.connections(), [(1, true, ""), (1, false, "")]);
    assert!(stage.node.forgotten.contains(&(1 << 40)));
    // A descriptor is connected again, but the record of its closing was lost.
    stage.record(&made(OPENED, 2 << 40, 7, 4, 0));
    stage.record(&made(OPENED, 3 << 40, 7, 4, 0));
    let last = &stage.connections()[2..];
    assert_eq!(last, [(2, true, ""), (3, true, ""), (2, false, "")]);
}

#[test]
fn a_child_that_keeps_a_connection_is_followed_too() {
    let mut stage = Stage::new();
    stage.node.inodes.insert((7, 3), 50);
    stage.record(&made(OPENED, 1 << 40, 7, 3, 0));
    // Process 8 shares the connection; process 9 executed another program and has something else at this number.
    stage.node.children.insert(7, vec![8, 9]);
    stage.node.inodes.extend([((8, 3), 50), ((9, 3), 51)]);
    stage.record(&made(FORKED, 0, 7, 0, 0));
    let node = &stage.node;
    assert_eq!(node.watched.get(&(8, 3)), Some(&(1 << 40)));
    assert_eq!(node.watched.get(&(9, 3)), None);
    stage.record(&made(CLOSED, 1 << 40, 7, 3, 0));
    stage.record(&made(EXITED, 0, 7, 0, 0));
    assert_eq!(stage.connections().len(), 1);
    stage.record(&made(EXITED, 0, 8, 0, 0));
    assert_eq!(stage.connections().len(), 2);
}

#[test]
fn what_a_process_keeps_when_it_runs_another_program_is_watched_again() {
    let mut stage = Stage::new();
    stage.node.inodes.extend([((7, 3), 50), ((7, 4), 51)]);
    stage.record(&made(OPENED, 1 << 40, 7, 3, 0));
    stage.record(&made(OPENED, 2 << 40, 7, 4, 0));
    // Descriptor 4 was opened with close-on-exec.
    stage.node.inodes.remove(&(7, 4));
    stage.record(&made(CHANGED, 0, 7, 0, 0));
    assert_eq!(stage.node.watched.get(&(7, 3)), Some(&(1 << 40)));
    // Connection 1 is reported again, as partially understood.
    let last = &stage.connections()[2..];
    assert_eq!(last, [(1, true, ""), (2, false, "")]);
    assert_eq!(stage.gaps().len(), 1, "what passed meanwhile is not known");
}

#[test]
fn a_connection_that_was_there_before_is_joined_once() {
    let mut stage = Stage::new();
    stage
        .node
        .inodes
        .extend([((7, 3), 50), ((7, 5), 50), ((8, 3), 60)]);
    stage.node.slippery.insert((8, 3));
    let Stage {
        follower,
        node,
        out,
        ..
    } = &mut stage;
    for found in [(7, 3, 50), (7, 5, 50), (8, 3, 60)] {
        follower.join(found, Nanos(5), node, out);
    }
    assert_eq!(follower.inodes(), FxHashSet::from_iter([50]));
    assert_eq!(
        node.watched.len(),
        2,
        "what is not the runtime's any more is let go"
    );
    assert_eq!(
        follower.status(),
        "1 connection of program 7; 1 joined in the middle"
    );
    // The kernel's program watches this descriptor as another stream, whose record is on its way.
    node.inodes.insert((9, 3), 70);
    node.watched.insert((9, 3), 1 << 40);
    follower.join((9, 3, 70), Nanos(5), node, out);
    assert_eq!(follower.inodes(), FxHashSet::from_iter([50]));
    // The connections close without a record.
    node.inodes.remove(&(7, 3));
    node.inodes.insert((7, 5), 80);
    follower.look(node);
    assert_eq!(follower.streams.len(), 1, "the ring may hold more of it");
    follower.settle(Nanos(6), node, out);
    assert_eq!(follower.streams.len(), 0);
    assert_eq!(
        stage.connections(),
        [(1, true, "program 7"), (1, false, "program 7")]
    );
}

#[test]
fn a_connection_that_is_found_before_its_beginning_is_told_is_one() {
    let mut stage = Stage::new();
    for bytes in records(TAPE) {
        let r = parse(&bytes).unwrap();
        if r.kind == Kind::Opened {
            let (process, descriptor) = (r.process, r.descriptor);
            let inode = r.stream;
            let Stage {
                follower,
                node,
                out,
                ..
            } = &mut stage;
            node.inodes.insert((process, descriptor), inode);
            follower.join((process, descriptor, inode), Nanos(5), node, out);
            // The kernel's program overwrites the entry.
            node.watched.insert((process, descriptor), r.stream);
        }
        stage.record(&bytes);
    }
    assert_eq!(stage.calls(), CALLS);
    let connections = stage.connections();
    let mut ends: Vec<_> = connections.iter().map(|(n, o, _)| (*n, *o)).collect();
    // A connection is reported as whole once its first bytes show it.
    ends.dedup();
    assert_eq!(ends, [(1, true), (1, false), (2, true), (2, false)]);
    assert_eq!(stage.gaps(), Vec::<&str>::new());
    assert_eq!(stage.follower.counters(), Counters::default());
    // Two stream numbers per connection.
    assert_eq!(stage.node.forgotten.len(), 4);
    assert_eq!(stage.follower.streams.len(), 0);
}

#[test]
fn bytes_of_connections_that_are_not_known_are_counted() {
    let mut all = records(TAPE);
    all.retain(|r| parse(r).is_some_and(|r| r.kind != Kind::Opened));
    let stage = Stage::play(&all);
    assert_eq!(stage.out, vec![]);
    assert_eq!(
        stage.follower.status(),
        "no client is connected; 20 copies of connections that are not known"
    );
}
