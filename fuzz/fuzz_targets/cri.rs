//! Bytes of a connection: the first byte of a chunk says its direction and, with the second, its length.
#![no_main]

use kflow_model::Nanos;
use kflow_cri::{Decoder, Direction};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut decoder = Decoder::new();
    let (mut out, mut rest, mut at) = (Vec::new(), data, Nanos(0));
    decoder.open(1, at, 0, "", &mut out);
    while let [way, len, tail @ ..] = rest {
        let n = (usize::from(way >> 1) << 8 | usize::from(*len)).min(tail.len());
        let (chunk, next) = tail.split_at(n);
        let direction = if way & 1 == 0 {
            Direction::ClientToServer
        } else {
            Direction::ServerToClient
        };
        at = at.plus(1000);
        decoder.feed(1, direction, at, chunk, &mut out);
        rest = next;
    }
    decoder.finish(&mut out);
});
