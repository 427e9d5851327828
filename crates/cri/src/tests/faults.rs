//! Bytes that are faulty, too many, or cut anywhere.

use proptest::prelude::*;

use super::*;

#[test]
fn nonsense_is_told_once_and_what_comes_next_is_understood() {
    for (client, bytes, why) in [
        (
            true,
            frame(HEADERS, BOTH, 3, &[0xff, 0x0a]),
            "bad HPACK index 137",
        ),
        (true, frame(HEADERS, BOTH, 2, &path_block(RUN)), "stream 2"),
        (true, frame(HEADERS, END_STREAM, 3, &[]), ""),
        (true, frame(DATA, 0, 0, &[]), "malformed"),
        (true, frame(CONTINUATION, 0, 1, &[]), "CONTINUATION"),
        (true, frame(RST, 0, 1, &[0; 3]), "malformed"),
        (true, frame(SETTINGS, 0, 0, &[0; 5]), "malformed"),
        (true, frame(GOAWAY, 0, 0, &[0; 7]), "malformed"),
        (true, frame(DATA, PADDED, 1, &[9, 0]), "malformed"),
        (
            true,
            frame(HEADERS, PADDED | END_HEADERS, 3, &[9, 0]),
            "malformed",
        ),
        (true, frame(DATA, 0, 1, &vec![0; 16_385]), "longer than"),
        (false, trailers(9, "0"), "never opened"),
        (true, b"GET /healthz HTTP/1.1\r\n".to_vec(), "longer than"),
    ] {
        let mut tap = Tap::new();
        tap.ask(1, RUN, &[]);
        let direction = if client {
            Direction::ClientToServer
        } else {
            Direction::ServerToClient
        };
        tap.feed(direction, &bytes);
        if why.is_empty() {
            // A header block stays open: the next frame is not its continuation.
            tap.c2s(&frame(6, 0, 0, &[0; 8]));
        }
        let gaps = tap.gaps();
        assert_eq!(gaps.len(), 1, "{bytes:x?}");
        assert!(gaps[0].contains(why), "{gaps:?} {why}");
        assert_eq!(tap.ends()[0].outcome, CallOutcome::Lost);
        // The following bytes are decoded again.
        tap.ask(5, RUN, &[]).reply(5, &len(1, b"abc"));
        assert_eq!(tap.starts().last().expect("start").key.stream, 5, "{why}");
        assert_eq!(tap.ends().last().expect("end").code, Some(0), "{why}");
        // Another connection of the same decoder is not affected.
        tap.decoder.feed(
            2,
            Direction::ClientToServer,
            Nanos(100),
            &[preface(), request(1, RUN, &[])].concat(),
            &mut tap.out,
        );
        assert_eq!(tap.starts().last().expect("start").key.conn, 2);
    }
}

#[test]
fn a_connection_whose_beginning_is_missing_says_so() {
    let mut tap = Tap::silent();
    tap.c2s(&request(1, RUN, &[]));
    assert!(tap.gaps()[0].contains("no HTTP/2 preface"));
    let mut tap = Tap::silent();
    tap.s2c(&answer(1, &[]));
    assert!(tap.gaps()[0].contains("not SETTINGS"));
    let mut tap = Tap::new();
    tap.ask(1, RUN, &[]);
    tap.lose(None, Lost::default());
    assert_eq!(tap.gaps(), ["queue full"]);
    assert_eq!(tap.ends()[0].outcome, CallOutcome::Lost);
}

#[test]
fn a_flood_of_calls_or_headers_is_bounded_and_said() {
    let mut tap = Tap::new();
    for i in 0..=limits::OPEN_CALLS as u32 + 10 {
        tap.ask(2 * i + 1, RUN, &[]);
    }
    assert_eq!(tap.starts().len(), limits::OPEN_CALLS);
    assert_eq!(tap.gaps(), ["more than 4096 calls open"]);

    let mut tap = Tap::new();
    tap.c2s(&frame(HEADERS, 0, 1, &[0x82; 16_000]));
    for _ in 0..=limits::HEADER_BLOCK / 16_000 {
        tap.c2s(&frame(CONTINUATION, 0, 1, &[0x82; 16_000]));
    }
    assert_eq!(tap.gaps(), ["a header block of more than 262144 bytes"]);
}

/// Both directions of a small conversation, in order.
fn conversation() -> Vec<(Direction, Vec<u8>)> {
    use Direction::{ClientToServer as C, ServerToClient as S};
    let list = len(1, &container("a", 1)).repeat(30);
    vec![
        (C, preface()),
        (S, frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0x40, 0])),
        (C, request(1, RUN, &run_pod_sandbox())),
        (C, request(3, LIST, &[])),
        (S, answer(3, &list)),
        (C, frame(6, 0, 0, &[0; 8])),
        (S, answer(1, &len(1, b"abc"))),
        (C, request(5, RUN, &[0x0a])),
        (C, frame(RST, 0, 5, &8u32.to_be_bytes())),
        (C, request(7, "/x.Y/Z", b"abc")),
        (S, trailers(7, "12")),
    ]
}

fn bodies(chunks: &[(Direction, Vec<u8>)]) -> Vec<Body> {
    let mut tap = Tap::silent();
    for (direction, bytes) in chunks {
        tap.feed(*direction, bytes);
    }
    tap.decoder.finish(&mut tap.out);
    assert_eq!(tap.decoder.held().0, 0);
    tap.out.into_iter().map(|o| o.body).collect()
}

proptest! {
    #[test]
    fn however_the_bytes_are_cut_the_observations_are_the_same(sizes in prop::collection::vec(1usize..40, 1..50)) {
        let whole = conversation();
        let mut sizes = sizes.into_iter().cycle();
        let mut cut = Vec::new();
        for (direction, bytes) in &whole {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let n = sizes.next().unwrap_or(1).min(rest.len());
                cut.push((*direction, rest[..n].to_vec()));
                rest = &rest[n..];
            }
        }
        prop_assert_eq!(bodies(&cut), bodies(&whole));
    }

    #[test]
    fn bytes_with_faults_never_panic_and_each_start_ends_at_most_once(
        faults in prop::collection::vec((0usize..4000, any::<u8>()), 1..6),
        cut in prop::option::of(0usize..12),
    ) {
        let mut chunks = conversation();
        if let Some(cut) = cut {
            chunks.truncate(cut);
        }
        let total: usize = chunks.iter().map(|(_, b)| b.len()).sum();
        for (at, byte) in faults {
            let mut at = at % total.max(1);
            for (_, bytes) in &mut chunks {
                if at < bytes.len() {
                    bytes[at] = byte;
                    break;
                }
                at -= bytes.len();
            }
        }
        let mut tap = Tap::silent();
        for (direction, bytes) in &chunks {
            tap.feed(*direction, bytes);
        }
        tap.decoder.close(1, None, Nanos(999), "", &mut tap.out);
        prop_assert_eq!(tap.decoder.held().0, 0);
        tap.check_ends(true);
    }

    #[test]
    fn random_frames_after_a_good_beginning_never_panic(
        frames in prop::collection::vec((any::<bool>(), 0u8..11, any::<u8>(), 0u32..8, prop::collection::vec(any::<u8>(), 0..40)), 0..30)
    ) {
        let mut tap = Tap::new();
        for (client, kind, flags, stream, payload) in frames {
            let direction = if client { Direction::ClientToServer } else { Direction::ServerToClient };
            tap.feed(direction, &frame(kind, flags, stream, &payload));
        }
        tap.check_ends(false);
    }
}
