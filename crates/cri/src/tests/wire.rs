//! What HTTP/2 and gRPC allow for a call: padded and continued frames, all kinds of ends, messages in pieces.

use super::*;

#[test]
fn headers_may_be_padded_prioritised_and_continued() {
    let headers = path_block(RUN);
    let (one, rest) = headers.split_at(3);
    let (two, three) = rest.split_at(5);
    let first = [&[4, 0, 0, 0, 0, 16], one, &[0; 4]].concat();
    let mut tap = Tap::new();
    tap.c2s(&frame(HEADERS, PADDED | PRIORITY, 1, &first))
        .c2s(&frame(CONTINUATION, 0, 1, two))
        .c2s(&frame(CONTINUATION, END_HEADERS, 1, three));
    let body = message(&run_pod_sandbox());
    let padded = [&[3], &body[..9], &[0; 3]].concat();
    tap.c2s(&frame(DATA, PADDED, 1, &padded))
        .c2s(&frame(DATA, END_STREAM, 1, &body[9..]));
    assert_eq!(tap.gaps(), [""; 0]);
    assert_eq!(tap.starts()[0].method, "RunPodSandbox");
    assert_eq!(tap.starts()[0].subject.pod.name, "web");
}

#[test]
fn streams_interleave_and_frames_that_nobody_needs_are_stepped_over() {
    let mut tap = Tap::new();
    let (a, b) = (message(&run_pod_sandbox()), message(&[]));
    let noise = [
        frame(2, 0, 1, &[0; 5]),
        frame(6, 0, 0, &[0; 8]),
        frame(8, 0, 1, &[0, 0, 1, 0]),
        frame(0xbe, 0xff, 77, b"a frame of a later standard"),
        frame(SETTINGS, 1, 0, &[]),
    ]
    .concat();
    tap.c2s(&frame(HEADERS, END_HEADERS, 1, &path_block(RUN)))
        .c2s(&frame(DATA, 0, 1, &a[..20]))
        .c2s(&noise)
        .c2s(&frame(HEADERS, END_HEADERS, 3, &path_block(LIST)))
        .c2s(&frame(DATA, END_STREAM, 3, &b))
        .c2s(&noise)
        .c2s(&frame(DATA, END_STREAM, 1, &a[20..]))
        .s2c(&noise)
        .reply(3, &[])
        .reply(1, &len(1, b"abc"));
    let order: Vec<_> = tap.starts().iter().map(|s| s.key.stream).collect();
    assert_eq!(order, [3, 1]);
    let order: Vec<_> = tap.ends().iter().map(|e| e.key.stream).collect();
    assert_eq!(order, [3, 1]);
    let counters = tap.decoder.counters();
    assert_eq!((counters.frames, counters.skipped_frames), (28, 15));
}

#[test]
fn an_answer_may_be_trailers_only_with_a_message_in_percent_code() {
    let mut tap = Tap::new();
    tap.ask(1, RUN, &[]);
    let headers = block(&[
        (":status", "200"),
        ("grpc-status", "2"),
        ("grpc-message", "no%20network%3A %E2%82%AC"),
    ]);
    tap.s2c(&frame(HEADERS, BOTH, 1, &headers));
    let end = tap.ends()[0];
    assert_eq!((end.outcome, end.code), (CallOutcome::Status, Some(2)));
    assert_eq!(end.message, "no network: €");
    assert_eq!(end.messages, 0);
}

#[test]
fn an_answer_without_grpc_status_has_the_code_that_clients_derive() {
    let mut tap = Tap::new();
    tap.ask(1, RUN, &[])
        .ask(3, RUN, &[])
        .s2c(&frame(HEADERS, BOTH, 1, &block(&[(":status", "503")])))
        .s2c(&frame(HEADERS, END_HEADERS, 3, &[0x88]))
        .s2c(&frame(DATA, END_STREAM, 3, &[]));
    let codes: Vec<_> = tap.ends().iter().map(|e| e.code).collect();
    assert_eq!(codes, [Some(14), Some(2)]);
    assert!(tap.ends()[0].message.contains("HTTP status 503"));
}

#[test]
fn a_reset_ends_the_call_and_says_who_did_it() {
    let mut tap = Tap::new();
    tap.ask(1, RUN, &[]).ask(3, RUN, &[]);
    tap.c2s(&frame(RST, 0, 1, &8u32.to_be_bytes()))
        .s2c(&frame(RST, 0, 3, &7u32.to_be_bytes()))
        // An answer that was on its way changes nothing.
        .reply(1, &len(1, b"late"));
    let ends: Vec<_> = tap
        .ends()
        .iter()
        .map(|e| (e.outcome, e.code, e.fields[0].1.as_str()))
        .collect();
    assert_eq!(
        ends,
        [
            (CallOutcome::ClientReset, None, "CANCEL"),
            (CallOutcome::ServerReset, None, "REFUSED_STREAM")
        ]
    );
}

#[test]
fn goaway_ends_the_calls_above_its_last_stream_and_is_named_at_the_close() {
    let mut tap = Tap::new();
    tap.ask(1, RUN, &[]).ask(3, RUN, &[]);
    let payload = [&1u32.to_be_bytes()[..], &0u32.to_be_bytes(), b"shutdown"].concat();
    tap.s2c(&frame(GOAWAY, 0, 0, &payload));
    assert_eq!(tap.ends().len(), 1);
    assert_eq!(tap.ends()[0].key.stream, 3);
    assert_eq!(tap.ends()[0].outcome, CallOutcome::ServerReset);
    tap.reply(1, &len(1, b"abc"));
    assert_eq!(tap.ends()[1].code, Some(0));
    tap.decoder.close(1, None, Nanos(99), "", &mut tap.out);
    let Body::Conn(closed) = &tap.out.last().expect("close").body else {
        panic!("a close");
    };
    assert_eq!(closed.why, "runtime said GOAWAY NO_ERROR shutdown");
}

#[test]
fn a_closed_half_ends_its_calls_and_a_start_that_waited_comes_first() {
    let mut tap = Tap::new();
    tap.c2s(&frame(HEADERS, END_HEADERS, 1, &path_block(RUN)));
    assert!(tap.starts().is_empty());
    let half = Some(Direction::ServerToClient);
    tap.decoder.close(1, half, Nanos(50), "eof", &mut tap.out);
    assert_eq!(tap.starts().len(), 1);
    assert_eq!(tap.ends()[0].outcome, CallOutcome::ConnectionClosed);
    tap.decoder.close(1, None, Nanos(51), "", &mut tap.out);
    let Body::Conn(closed) = &tap.out.last().expect("close").body else {
        panic!("a close");
    };
    assert_eq!((closed.pid, closed.why.as_str()), (7, "the runtime closed"));
    // Late bytes do not open a connection.
    let before = tap.out.len();
    tap.c2s(b"late");
    assert_eq!(tap.out.len(), before);
    assert_eq!(tap.decoder.counters().unread_chunks, 1);
}

#[test]
fn headers_that_come_again_open_no_second_call() {
    let mut tap = Tap::new();
    let again = frame(HEADERS, BOTH, 1, &path_block(RUN));
    tap.ask(1, RUN, &[]).c2s(&again);
    assert_eq!(tap.starts().len(), 1, "trailers of a request");
    tap.reply(1, &len(1, b"abc")).c2s(&again);
    assert_eq!((tap.starts().len(), tap.ends().len()), (1, 1));
    assert!(tap.gaps().is_empty());
}

#[test]
fn a_request_that_does_not_complete_is_shown_after_a_while() {
    let mut tap = Tap::new();
    tap.c2s(&frame(HEADERS, END_HEADERS, 1, &path_block(RUN)));
    let began = tap.now;
    tap.decoder.advance(Nanos(began + 1000), &mut tap.out);
    assert!(tap.starts().is_empty(), "a moment is nothing");
    tap.decoder
        .advance(Nanos(began + 200_000_000), &mut tap.out);
    assert_eq!(tap.starts().len(), 1);
    tap.decoder.finish(&mut tap.out);
    assert_eq!(tap.starts().len(), 1);
    assert!(tap.ends().is_empty(), "it is still open");
}

#[test]
fn settings_resize_the_table_of_the_other_direction() {
    let bigger = frame(SETTINGS, 0, 0, &[0, 1, 0, 1, 0, 0]);
    // A size update to 65536 in front of the block.
    let resized = [&[0x3f, 0xe1, 0xff, 0x03][..], &path_block(RUN)].concat();
    let mut tap = Tap::new();
    tap.s2c(&bigger).c2s(&frame(HEADERS, BOTH, 1, &resized));
    assert_eq!(tap.starts().len(), 1, "the server allowed the client so");
    let mut tap = Tap::new();
    tap.c2s(&bigger).c2s(&frame(HEADERS, BOTH, 1, &resized));
    assert_eq!(
        tap.gaps(),
        ["HPACK table size 65536 is above what was agreed on"],
        "the client allowed the server, not itself"
    );
}

#[test]
fn a_compressed_message_is_counted_and_not_decoded() {
    let mut tap = Tap::new();
    let mut body = message(&run_pod_sandbox());
    body[0] = 1;
    tap.c2s(&frame(HEADERS, END_HEADERS, 1, &path_block(RUN)))
        .c2s(&frame(DATA, END_STREAM, 1, &body));
    let start = tap.starts()[0];
    assert!(start.subject.is_empty());
    assert_eq!(start.request_bytes, run_pod_sandbox().len() as u64);
    assert_eq!(start.fields, [("not_decoded".into(), "compressed".into())]);
}

#[test]
fn a_malformed_message_gives_nothing_rather_than_a_part() {
    let mut tap = Tap::new();
    let mut body = run_pod_sandbox();
    body.extend([0x0a, 0xff]);
    tap.ask(1, RUN, &body).reply(1, &[0x0a]);
    let start = tap.starts()[0];
    assert!(start.subject.is_empty());
    let note = [("not_decoded".into(), "malformed".into())];
    assert_eq!(start.fields, note);
    assert_eq!(tap.ends()[0].fields, note);
    // A list whose request was not read does not count as complete.
    tap.ask(3, LIST, &[0x0a]).reply(3, &[]);
    assert!(!tap.inventories()[0].complete);
}

#[test]
fn a_message_beyond_the_limit_is_skipped_without_being_held() {
    let mut tap = Tap::new();
    tap.ask(1, LIST, &[]);
    let size = limits::MESSAGE + 1;
    let mut prefix = vec![0];
    prefix.extend((size as u32).to_be_bytes());
    tap.s2c(&frame(DATA, 0, 1, &prefix));
    let piece = frame(DATA, 0, 1, &[0; 16_384]);
    for _ in 0..size / 16_384 {
        tap.s2c(&piece);
        assert_eq!(tap.decoder.held(), (0, 0));
    }
    tap.s2c(&frame(DATA, 0, 1, &[0]));
    tap.s2c(&trailers(1, "0"));
    let end = tap.ends()[0];
    assert_eq!((end.messages, end.response_bytes), (1, size as u64));
    assert_eq!(end.fields, [("not_decoded".into(), "too large".into())]);
}

#[test]
fn pieces_of_a_message_are_held_until_it_is_complete_or_its_call_over() {
    let mut tap = Tap::new();
    tap.ask(1, LIST, &[]).ask(3, LIST, &[]);
    let body = message(&len(1, &[0x22; 0]).repeat(20_000));
    for stream in [1, 3] {
        tap.s2c(&frame(DATA, 0, stream, &body[..16_000]));
    }
    assert_eq!(tap.decoder.held(), (2 * 15_995, 0));
    tap.s2c(&frame(DATA, 0, 1, &body[16_000..30_000]))
        .s2c(&frame(DATA, 0, 1, &body[30_000..]));
    assert_eq!(tap.decoder.held(), (15_995, 1));
    tap.c2s(&frame(RST, 0, 3, &8u32.to_be_bytes()));
    assert_eq!(tap.decoder.held(), (0, 2));
    assert_eq!(tap.inventories()[0].items.len(), 20_000);
}

#[test]
fn answers_that_nobody_reads_are_neither_held_nor_copied() {
    let mut tap = Tap::new();
    tap.ask(1, "/runtime.v1.RuntimeService/ListContainerStats", &[]);
    let body = message(&vec![0x5a; 40_000]);
    for piece in body.chunks(10_000) {
        tap.s2c(&frame(DATA, 0, 1, piece));
        assert_eq!(tap.decoder.held(), (0, 0));
    }
    tap.s2c(&trailers(1, "0"));
    assert_eq!(tap.ends()[0].response_bytes, 40_000);
}
