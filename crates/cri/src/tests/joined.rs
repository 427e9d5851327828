//! Connections that are joined in the middle or of which bytes are lost, which the recordings do not have.

use super::*;
use kflow_model::cri::{Sight, method};

impl Tap {
    fn joined() -> Self {
        let mut tap = Self {
            decoder: Decoder::new(),
            now: 0,
            out: Vec::new(),
        };
        tap.decoder.join(1, Nanos(0), 7, "kubelet", &mut tap.out);
        tap
    }
    fn sights(&self) -> Vec<Sight> {
        self.out
            .iter()
            .filter_map(|o| match &o.body {
                Body::Conn(c) if c.open => Some(c.sight),
                _ => None,
            })
            .collect()
    }
}

/// A request whose `:path` is an old entry of the table.
fn nameless(stream: u32, body: &[u8]) -> Vec<u8> {
    [
        frame(HEADERS, END_HEADERS, stream, &[0x83, 0xc0]),
        frame(DATA, END_STREAM, stream, &message(body)),
    ]
    .concat()
}

#[test]
fn a_method_that_was_sent_before_is_unknown_and_its_messages_are_not_read() {
    let mut tap = Tap::joined();
    tap.c2s(&nameless(9, &run_pod_sandbox()))
        .s2c(&answer(9, &len(1, b"abc")));
    let (starts, ends) = (tap.starts(), tap.ends());
    assert_eq!(starts[0].service, Service::Unknown);
    assert_eq!(starts[0].method, method::UNKNOWN);
    assert!(starts[0].partial && starts[0].subject.is_empty() && starts[0].fields.is_empty());
    assert_eq!(starts[0].request_bytes, run_pod_sandbox().len() as u64);
    assert!(ends[0].subject.is_empty());
    assert_eq!((ends[0].code, ends[0].inferred), (Some(0), false));
    // The next request has its path as a literal.
    tap.ask(11, RUN, &run_pod_sandbox());
    assert_eq!(tap.starts()[1].subject.pod.name, "web");
    assert_eq!(tap.sights(), [Sight::Partial]);
    assert!(tap.gaps().is_empty());
}

#[test]
fn a_connection_that_is_joined_at_its_first_byte_is_as_if_it_had_been_opened() {
    for cut in [1, 10, 24, 30] {
        let bytes = [preface(), request(1, RUN, &run_pod_sandbox())].concat();
        let mut tap = Tap::joined();
        tap.c2s(&bytes[..cut]).c2s(&bytes[cut..]);
        tap.s2c(&frame(SETTINGS, 0, 0, &[]));
        tap.reply(1, &len(1, b"abc"));
        assert_eq!(tap.sights(), [Sight::Partial, Sight::Whole], "{cut}");
        assert_eq!(tap.starts()[0].subject.pod.name, "web");
        assert_eq!(tap.ends()[0].subject.sandbox_id.as_str(), "abc");
    }
}

#[test]
fn an_answer_to_a_request_that_was_not_seen_ends_without_a_start() {
    let mut tap = Tap::joined();
    tap.reply(7, &len(1, b"abc")).reply(5, &[]);
    tap.ask(9, RUN, &[]).reply(9, &[]);
    // One call is cancelled, and one never ends.
    tap.c2s(&frame(RST, 0, 3, &8u32.to_be_bytes()));
    tap.s2c(&frame(HEADERS, END_HEADERS, 1, &[0x88]));
    tap.decoder.close(1, None, Nanos(99), "", &mut tap.out);
    let unseen: Vec<_> = tap
        .ends()
        .iter()
        .map(|e| (e.key.stream, e.began_unseen))
        .collect();
    assert_eq!(unseen, [(7, true), (5, true), (9, false), (3, true)]);
    assert!(tap.ends()[0].subject.is_empty(), "whose it is is not known");
    tap.check_ends(true);
}

#[test]
fn a_loss_inside_of_a_message_costs_that_message_alone() {
    let mut tap = Tap::new();
    tap.ask(1, LIST, &[]).ask(3, RUN, &[]);
    let list = len(1, &container("a", 1)).repeat(30);
    let bytes = answer(1, &list);
    let bytes_of = |n: usize| Lost {
        chunks: 1,
        bytes: Some(n as u64),
    };
    tap.s2c(&bytes[..100]);
    tap.lose(Some(Direction::ServerToClient), bytes_of(900));
    tap.s2c(&bytes[1000..]).reply(3, &len(1, b"abc"));
    assert_eq!(tap.sights(), [Sight::Whole]);
    let ends = tap.ends();
    assert_eq!(ends.len(), 2);
    assert_eq!((ends[0].code, ends[0].messages), (Some(0), 1));
    assert_eq!(ends[0].response_bytes, list.len() as u64);
    let note = [("not_decoded".into(), "bytes were missed".into())];
    assert_eq!(ends[0].fields, note);
    assert_eq!(ends[1].subject.sandbox_id.as_str(), "abc");
    // More is lost than the rest of the frame: the begin of the next one has to be searched.
    tap.ask(5, LIST, &[]).s2c(&answer(5, &list)[..100]);
    tap.lose(Some(Direction::ServerToClient), bytes_of(bytes.len()));
    assert_eq!(tap.sights().last(), Some(&Sight::Partial));
    assert_eq!(tap.ends()[2].outcome, CallOutcome::Lost);
}

#[test]
fn a_call_that_was_open_at_a_loss_ends_as_lost_and_again_when_its_end_shows() {
    let mut tap = Tap::new();
    tap.ask(1, RUN, &[]).ask(3, RUN, &[]);
    tap.lose(Some(Direction::ServerToClient), Lost::default());
    tap.ask(5, RUN, &[])
        .reply(5, &len(1, b"abc"))
        .reply(1, &len(1, b"abc"));
    let ends: Vec<_> = tap
        .ends()
        .iter()
        .map(|e| (e.key.stream, e.outcome, e.subject.sandbox_id.as_str()))
        .collect();
    assert_eq!(
        ends,
        [
            (1, CallOutcome::Lost, ""),
            (3, CallOutcome::Lost, ""),
            (5, CallOutcome::Status, "abc"),
            (1, CallOutcome::Status, "abc"),
        ]
    );
    assert_eq!(tap.sights(), [Sight::Whole, Sight::Partial, Sight::Whole]);
    tap.check_ends(true);
}

#[test]
fn events_go_on_after_a_loss() {
    let path = "/runtime.v1.RuntimeService/GetContainerEvents";
    let event = |id: &[u8]| frame(DATA, 0, 1, &message(&[len(1, id), int(2, 1)].concat()));
    let mut tap = Tap::new();
    tap.ask(1, path, &[]);
    tap.s2c(&[frame(HEADERS, END_HEADERS, 1, &[0x88]), event(b"one")].concat());
    tap.lose(Some(Direction::ServerToClient), Lost::default());
    tap.s2c(&[event(b"two"), event(b"three")].concat());
    let events: Vec<_> = tap
        .out
        .iter()
        .filter_map(|o| match &o.body {
            Body::ContainerEvent(e) => Some(e.subject.container_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(events, ["one", "two", "three"]);
}

#[test]
fn a_connection_that_is_nonsense_again_and_again_is_given_up() {
    let mut tap = Tap::new();
    for nth in 0..40 {
        let stream = 2 * nth + 1;
        // Two good frames, so that the search accepts them, and a block that refers to a missing entry.
        tap.ask(stream, RUN, &[]);
        tap.c2s(&frame(HEADERS, BOTH, stream + 2, &[0xff, 0xff, 0xff, 0x7f]));
    }
    assert_eq!(tap.sights().last(), Some(&Sight::Blind));
    assert_eq!(
        tap.gaps().iter().filter(|g| g.contains("HPACK")).count(),
        33
    );
    let before = tap.out.len();
    tap.ask(99, RUN, &[]);
    assert_eq!(tap.out.len(), before);
    assert_eq!(tap.decoder.counters().blind, 1);
    assert_eq!(tap.decoder.held().0, 0);
}

/// A request as grpc-go writes it, of which all but `:method` and `:scheme` are old entries of the table.
fn old_entries(stream: u32, path: u8, body: &[u8]) -> Vec<u8> {
    [
        frame(HEADERS, END_HEADERS, stream, &[0x83, 0x86, path, 0xd0]),
        frame(DATA, END_STREAM, stream, &message(body)),
    ]
    .concat()
}

#[test]
fn a_method_that_a_call_showed_names_those_that_refer_to_the_same_entry() {
    let mut tap = Tap::joined();
    // A call of another method shows which header is the path.
    tap.c2s(&old_entries(1, 0xc4, &[])).reply(1, &[]);
    tap.c2s(&old_entries(3, 0xc5, &[])).reply(3, &[]);
    tap.c2s(&old_entries(5, 0xc6, &run_pod_sandbox()))
        .reply(5, &len(1, b"abc"));
    tap.c2s(&old_entries(7, 0xc6, &run_pod_sandbox()));
    // An answer shows the method, which names the later calls.
    let id = [b'a'; 64];
    let metadata = [len(1, b"web"), len(2, b"uid"), len(3, b"shop")].concat();
    let sandbox = len(1, &[len(1, &id), len(2, &metadata), int(4, 9)].concat());
    tap.c2s(&old_entries(9, 0xc7, &len(1, &id)))
        .reply(9, &sandbox);
    tap.c2s(&old_entries(11, 0xc7, &len(1, &id)))
        .reply(11, &sandbox);
    // An inserted entry moves all others by one index.
    let path = [
        &[0x83, 0x86, 0x44, LIST.len() as u8],
        LIST.as_bytes(),
        &[0xd1],
    ]
    .concat();
    tap.c2s(&frame(HEADERS, BOTH, 13, &path));
    tap.c2s(&old_entries(15, 0xc8, &len(1, &id)));
    let named = |tap: &Tap| -> Vec<String> {
        let starts = tap.starts();
        starts.iter().map(|s| s.method.to_string()).collect()
    };
    let want = [
        "?",
        "?",
        "RunPodSandbox",
        "RunPodSandbox",
        "?",
        "PodSandboxStatus",
        "ListContainers",
        "PodSandboxStatus",
    ];
    assert_eq!(named(&tap), want);
    assert_eq!(tap.starts()[3].subject.pod.name, "web");
    assert!(tap.starts()[3].partial, "its other headers are not known");
    assert_eq!(tap.ends()[2].subject.sandbox_id.as_str(), "abc");
    // After lost bytes it is no longer known which entry is which.
    tap.lose(None, Lost::default());
    tap.c2s(&old_entries(17, 0xc8, &len(1, &id)));
    tap.c2s(&old_entries(19, 0xc8, &len(1, &id)));
    assert_eq!(named(&tap).last().map(String::as_str), Some("?"));
}

#[test]
fn a_connection_that_is_begun_again_says_what_it_lost_and_goes_on() {
    let mut tap = Tap::new();
    tap.ask(1, "/runtime.v1.RuntimeService/ListContainers", &[]);
    let mut out = Vec::new();
    tap.decoder.restart(1, Nanos(50), "it panicked", &mut out);
    let lost =
        |o: &&Observation| matches!(&o.body, Body::CallEnd(e) if e.outcome == CallOutcome::Lost);
    assert_eq!(out.iter().filter(lost).count(), 1, "the open call");
    let joined =
        |o: &&Observation| matches!(&o.body, Body::Conn(c) if c.open && c.sight == Sight::Partial);
    assert!(out.iter().filter(joined).count() >= 1);
    let mut none = Vec::new();
    tap.decoder.restart(7, Nanos(60), "it panicked", &mut none);
    assert_eq!(none, [], "of a connection that is not known");
    // The following requests are read.
    for stream in [3, 5, 7] {
        tap.ask(stream, "/runtime.v1.RuntimeService/Version", &[]);
    }
    let named = |o: &&Observation| matches!(&o.body, Body::CallStart(c) if c.key.stream > 1);
    assert!(tap.out.iter().filter(named).count() >= 1, "{:?}", tap.out);
}
