//! Connections that are joined in the middle, and of which bytes are lost, beside the same connections as a whole.
//!
//! Every recorded connection is cut at many places. What the decoder then says must be what it says of the whole, or be
//! said to be unknown; and when it says that every request is understood again, it must be so.
//! `KFLOW_CRI_FIXTURES` names another folder of byte logs.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test ends when it fails"
)]

mod shared;

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use kflow_cri::Direction;
use kflow_model::Nanos;
use kflow_model::cri::{Service, method};
use kflow_model::stamp::SECOND;
use kflow_model::units::duration;
use shared::{Chunk, Said, compare, distorted, joined, lossy, recordings, whole};

/// Places of a connection: every `step`th chunk, and in it the first byte, the last and some between.
fn places(chunks: &[Chunk], step: usize, bytes: usize) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    for cut in (0..chunks.len()).step_by(step.max(1)) {
        let len = chunks[cut].bytes.len();
        let mut offsets: Vec<usize> = (0..bytes).map(|i| i * len / bytes).collect();
        offsets.extend([1, 9, len.saturating_sub(1)]);
        offsets.retain(|b| *b < len);
        offsets.sort_unstable();
        offsets.dedup();
        places.extend(offsets.into_iter().map(|byte| (cut, byte)));
    }
    places
}

/// Numbers that are the same in every run (xorshift).
fn generator() -> impl FnMut() -> usize {
    let mut state = 0x9e37_79b9_u32;
    move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as usize
    }
}

/// Each connection, with its name and what is said of the whole.
fn connections() -> &'static [(String, Vec<Chunk>, Said)] {
    static ALL: OnceLock<Vec<(String, Vec<Chunk>, Said)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Vec::new();
        for (session, conns) in recordings() {
            for (i, chunks) in conns.into_iter().enumerate() {
                let said = whole(&chunks);
                all.push((format!("{session}, connection {i}"), chunks, said));
            }
        }
        all
    })
}

fn try_cuts(cuts: usize, bytes: usize) {
    for (name, chunks, whole) in connections() {
        let step = chunks.len() / cuts + 1;
        try_at(name, chunks, whole, places(chunks, step, bytes));
    }
}

fn try_at(
    name: &str,
    chunks: &[Chunk],
    whole: &Said,
    places: impl IntoIterator<Item = (usize, usize)>,
) {
    let (mut all, mut healed, mut nameless, mut codeless) = (0, 0, 0, 0);
    for (cut, byte) in places {
        let about = format!("{name}, cut at chunk {cut}, byte {byte}");
        let part = joined(chunks, cut, byte);
        assert_eq!(part.gaps, [""; 0], "{about}");
        let (n, c) = compare(whole, &part, &about);
        all += 1;
        healed += usize::from(part.healed.is_some());
        nameless += n;
        codeless += c;
    }
    println!(
        "{name}: {all} cuts, {healed} healed; a cut has {} calls without a name, {} without a code",
        nameless / all.max(1),
        codeless / all.max(1)
    );
}

/// Every byte of the connections that have at most so many.
fn try_every_byte(most: usize) {
    let (mut tried, mut bytes) = (0, 0);
    for (name, chunks, whole) in connections() {
        let size: usize = chunks.iter().map(|c| c.bytes.len()).sum();
        if size > most {
            continue;
        }
        let of_chunk = |(cut, c): (usize, &Chunk)| (0..c.bytes.len()).map(move |byte| (cut, byte));
        try_at(
            name,
            chunks,
            whole,
            chunks.iter().enumerate().flat_map(of_chunk),
        );
        tried += 1;
        bytes += size;
    }
    println!("{tried} connections, {bytes} cuts");
    assert!(tried > 0, "no connection is that small");
}

#[test]
fn joined_anywhere_nothing_is_wrong_and_after_the_turn_over_all_is_known() {
    try_cuts(5, 2);
}

#[test]
#[ignore = "minutes: every chunk of every recording"]
fn joined_at_every_chunk() {
    try_cuts(usize::MAX, 4);
}

/// Those of a crictl, of a call or two each.
#[test]
fn joined_at_every_byte_of_short_connections() {
    try_every_byte(2048);
}

/// A kubelet's too: those with its image service.
#[test]
#[ignore = "minutes: every byte of the connections of up to 64 KiB"]
fn joined_at_every_byte() {
    try_every_byte(64 << 10);
}

/// The long ones: a byte that a generator picks, as each of all would take hours.
#[test]
fn joined_at_any_byte_of_long_connections() {
    let mut random = generator();
    for (name, chunks, whole) in connections().iter().filter(|c| c.1.len() > 100) {
        let places: Vec<_> = (0..20)
            .map(|_| {
                let cut = random() % chunks.len();
                (cut, random() % chunks[cut].bytes.len())
            })
            .collect();
        try_at(name, chunks, whole, places);
    }
}

#[test]
fn whatever_is_lost_nothing_is_wrong_and_it_heals() {
    for (name, chunks, whole) in connections() {
        let mut healed = HashMap::new();
        for nth in 1..4 {
            let from = chunks.len() * nth / 5;
            for (len, way, exact) in [
                (1, None, false),
                (1, Some(Direction::ClientToServer), false),
                (2, Some(Direction::ServerToClient), true),
                (40, None, false),
                (40, Some(Direction::ServerToClient), false),
            ] {
                let about = format!("{name}, {len} chunks from {from} lost {way:?}");
                let part = lossy(chunks, from..from + len, way, exact);
                compare(whole, &part, &about);
                let n = healed.entry((len, way, exact)).or_insert((0, 0));
                n.0 += usize::from(!part.gaps.is_empty());
                n.1 += usize::from(part.healed.is_some());
            }
        }
        println!("{name}: lost, healed: {healed:?}");
    }
}

/// What the fuzz target `cri_joined` does, with numbers of a generator in the place of a fuzzer's input.
#[test]
fn whatever_is_lost_again_and_again_nothing_is_wrong() {
    let mut random = generator();
    for (name, chunks, whole) in connections().iter().filter(|c| c.1.len() > 100) {
        for nth in 0..3 {
            let cut = random() % chunks.len();
            let byte = random() % chunks[cut].bytes.len();
            // One chunk in four, in sixteen, in sixty-four.
            let rare = 4 << (2 * (nth % 3));
            let losses: Vec<u8> = (0..600)
                .map(|_| if random().is_multiple_of(rare) { random() % 16 } else { 16 } as u8)
                .collect();
            let about = format!("{name}, {nth}: chunk {cut}, byte {byte}");
            compare(whole, &distorted(chunks, cut, byte, &losses), &about);
        }
    }
}

/// Prints when a connection that is joined at a chunk is understood: the figures of docs/benchmarks.md.
#[test]
#[ignore = "prints figures"]
fn figures() {
    /// Calls and ns from the join on.
    type Until = (usize, i64);
    #[derive(Default)]
    struct Kind {
        joins: usize,
        /// Until the last call without a method, and until it is said that every request is understood.
        named: Vec<Until>,
        said: Vec<Until>,
        /// Calls by when they began after the join, and those of them that have a method, whether or not all is understood later.
        within: [(usize, usize); WITHIN.len()],
    }
    /// From the join on, ns.
    const WITHIN: [(i64, i64); 5] = [
        (0, 2 * SECOND),
        (2 * SECOND, 5 * SECOND),
        (5 * SECOND, 10 * SECOND),
        (10 * SECOND, 30 * SECOND),
        (30 * SECOND, 60 * SECOND),
    ];
    let mut kinds: BTreeMap<(Service, bool, bool), Kind> = BTreeMap::new();
    for (name, chunks, whole) in connections() {
        let starts = || whole.starts.values().map(|(_, start)| start);
        let Some(service) = starts().next().map(|s| s.service) else {
            continue;
        };
        // A kubelet's connection; crictl's have a call or two.
        if starts().count() < 20 {
            continue;
        }
        let traced = starts().filter(|s| s.traceparent.is_some()).count() * 2 > starts().count();
        let evented = starts().any(|s| s.method == method::GET_CONTAINER_EVENTS);
        let kind = kinds.entry((service, traced, evented)).or_default();
        for cut in (0..chunks.len()).step_by(chunks.len() / 60 + 1).skip(1) {
            let begin = chunks[cut].at;
            let part = joined(chunks, cut, 0);
            kind.joins += 1;
            let since = |at: Nanos| at.since(begin);
            for (stamp, start) in part.starts.values() {
                let slots = WITHIN.iter().zip(&mut kind.within);
                for (_, n) in slots.filter(|((a, z), _)| (*a..*z).contains(&since(stamp.at))) {
                    n.0 += 1;
                    n.1 += usize::from(start.service != Service::Unknown);
                }
            }
            let Some(healed) = part.healed else { continue };
            let last = part
                .starts
                .values()
                .filter(|(_, s)| s.service == Service::Unknown);
            let last = last.map(|(stamp, _)| stamp.at).max().unwrap_or(begin);
            let until = |at: Nanos| part.starts.values().filter(|(s, _)| s.at <= at).count();
            kind.named.push((until(last), since(last)));
            kind.said.push((until(healed), since(healed)));
        }
        println!(
            "{name}: {service:?}, traced {traced}, {} calls",
            starts().count()
        );
    }
    for (kind, of_kind) in &mut kinds {
        let Kind {
            joins,
            named,
            said,
            within,
        } = of_kind;
        println!(
            "{kind:?}: {joins} joins, {} understood before the end",
            said.len()
        );
        for ((a, z), (all, named)) in WITHIN.iter().zip(*within) {
            let share = 100 * named / all.max(1);
            println!(
                "  of {all} calls {} to {} after the join {share} % have a method",
                duration(*a),
                duration(*z)
            );
        }
        for (what, all) in [("last call without a method", named), ("said", said)] {
            let mut calls: Vec<usize> = all.iter().map(|u| u.0).collect();
            let mut lengths: Vec<i64> = all.iter().map(|u| u.1).collect();
            calls.sort_unstable();
            lengths.sort_unstable();
            let (Some(most), Some(longest)) = (calls.last(), lengths.last()) else {
                continue;
            };
            let half = calls.len() / 2;
            println!(
                "  {what}: {} calls and {} at the median, {most} and {} at most",
                calls[half],
                duration(lengths[half]),
                duration(*longest)
            );
        }
    }
}
