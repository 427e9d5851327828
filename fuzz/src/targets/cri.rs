//! The connection between kubelet and runtime.

use kflow_cri::{Decoder, Direction, Lost};
use kflow_model::Nanos;
use std::cell::OnceCell;

use super::survive;
use shared::{Chunk, Said, compare, distorted, recordings, whole};

#[path = "../../../crates/cri/tests/shared/mod.rs"]
#[allow(dead_code, reason = "for more tests than these")]
mod shared;

const BOTH: [Direction; 2] = [Direction::ClientToServer, Direction::ServerToClient];

/// Decodes a connection made of any bytes: the first byte of a chunk gives its direction and, with
/// the second, its length.
pub(super) fn cri(data: &[u8]) {
    let mut decoder = Decoder::new();
    let (mut out, mut rest, mut at) = (Vec::new(), data, Nanos(0));
    decoder.open(1, at, 0, "", &mut out);
    while let [way, len, tail @ ..] = rest {
        let n = (usize::from(way >> 1) << 8 | usize::from(*len)).min(tail.len());
        let (chunk, next) = tail.split_at(n);
        at = at.plus(1000);
        decoder.feed(1, BOTH[usize::from(way & 1)], at, chunk, &mut out);
        rest = next;
    }
    decoder.finish(&mut out);
    survive(out);
}

pub(super) fn connections() -> Vec<Vec<u8>> {
    let seed = |chunks: &Vec<Chunk>| {
        let mut seed = Vec::new();
        for chunk in chunks {
            for piece in chunk.bytes.chunks(0x7fff) {
                seed.push(((piece.len() >> 8) << 1) as u8 | u8::from(chunk.direction == BOTH[1]));
                seed.push(piece.len() as u8);
                seed.extend_from_slice(piece);
            }
            if seed.len() > 6 << 10 {
                break;
            }
        }
        seed
    };
    recordings()
        .iter()
        .flat_map(|(_, conns)| conns)
        .map(seed)
        .collect()
}

thread_local! {
    static RECORDED: OnceCell<Vec<(Vec<Chunk>, Said)>> = const { OnceCell::new() };
}

/// Joins a recorded connection at some byte and loses some of its chunks: what the decoder then reports must not differ
/// from what it reports of the whole connection. The input picks connection, place and losses.
pub(super) fn cri_joined(data: &[u8]) {
    let [conn, c0, c1, byte, rest @ ..] = data else {
        return;
    };
    RECORDED.with(|all| {
        let all = all.get_or_init(|| {
            let conns = recordings().into_iter().flat_map(|(_, conns)| conns);
            conns.map(|c| (whole(&c), c)).map(|(w, c)| (c, w)).collect()
        });
        let (chunks, whole) = &all[usize::from(*conn) % all.len()];
        let cut = usize::from(u16::from_le_bytes([*c0, *c1])) % chunks.len();
        let from = usize::from(*byte) % chunks[cut].bytes.len();
        compare(whole, &distorted(chunks, cut, from, rest), "fuzz");
    });

    // The same input as the connection's bytes, with a decoder that joins in the middle: its observations may be
    // anything, but it must not panic.
    let (mut decoder, mut out, mut at) = (Decoder::new(), Vec::new(), Nanos(0));
    decoder.join(1, at, 0, "", &mut out);
    for piece in data.chunks(29) {
        at = at.plus(1000);
        let direction = BOTH[usize::from(piece[0] & 1)];
        match piece[0] >> 4 {
            0 => decoder.lose(1, Some(direction), at, Lost::default(), "lost", &mut out),
            _ => decoder.feed(1, direction, at, &piece[1..], &mut out),
        }
    }
    decoder.close(1, None, at, "", &mut out);
}

pub(super) fn places() -> Vec<Vec<u8>> {
    let conns: usize = recordings().iter().map(|(_, conns)| conns.len()).sum();
    (0..conns as u8)
        .map(|n| vec![n, n.wrapping_mul(37), n, 1, 0, 3, 0, 9])
        .collect()
}
