//! A recorded connection that is joined at a byte, and of which chunks are lost: nothing that is said of it may be other
//! than what is said of the whole. The input picks connection, place and losses; what is left of it is fed as bytes.
#![no_main]

#[path = "../../crates/cri/tests/shared/mod.rs"]
#[allow(dead_code)]
mod shared;

use std::sync::OnceLock;

use kflow_cri::{Decoder, Direction, Lost};
use kflow_model::Nanos;
use libfuzzer_sys::fuzz_target;
use shared::{Chunk, Said, compare, distorted, recordings, whole};

fn connections() -> &'static [(Vec<Chunk>, Said)] {
    static ALL: OnceLock<Vec<(Vec<Chunk>, Said)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let conns = recordings().into_iter().flat_map(|(_, conns)| conns);
        conns.map(|c| (whole(&c), c)).map(|(w, c)| (c, w)).collect()
    })
}

const BOTH: [Direction; 2] = [Direction::ClientToServer, Direction::ServerToClient];

fuzz_target!(|data: &[u8]| {
    let [conn, c0, c1, byte, rest @ ..] = data else {
        return;
    };
    let all = connections();
    let (chunks, whole) = &all[usize::from(*conn) % all.len()];
    let cut = usize::from(u16::from_le_bytes([*c0, *c1])) % chunks.len();
    let from = usize::from(*byte) % chunks[cut].bytes.len();
    compare(whole, &distorted(chunks, cut, from, rest), "fuzz");

    // The same input as bytes, to a decoder that comes in the middle: it says what it likes, and does not panic.
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
});
