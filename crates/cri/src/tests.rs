//! Tests of the whole decoder on bytes made here: cases that the recordings do not have, and faulty bytes.

mod facts;
mod faults;
mod joined;
mod wire;

use super::hpack::huffman_encode;
use super::testkit::{block, frame, int, len, map, message};
use super::{Decoder, Direction, Lost, limits};
use kflow_model::cri::{CallEnd, CallOutcome, CallStart, ContainerEventKind, Inventory, Service};
use kflow_model::{Body, Nanos, Observation};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
const BOTH: u8 = END_STREAM | END_HEADERS;

const RUN: &str = "/runtime.v1.RuntimeService/RunPodSandbox";
const LIST: &str = "/runtime.v1.RuntimeService/ListContainers";

/// A decoder with one connection; the time is the number of chunks so far.
struct Tap {
    decoder: Decoder,
    now: i64,
    out: Vec<Observation>,
}

impl Tap {
    /// A connection after the prefaces of both peers.
    fn new() -> Self {
        let mut tap = Self::silent();
        tap.c2s(&preface());
        tap.s2c(&frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0x40, 0]));
        tap
    }
    fn silent() -> Self {
        let mut tap = Self {
            decoder: Decoder::new(),
            now: 0,
            out: Vec::new(),
        };
        tap.decoder.open(1, Nanos(0), 7, "", &mut tap.out);
        tap
    }
    fn feed(&mut self, direction: Direction, bytes: &[u8]) -> &mut Self {
        self.now += 1;
        self.decoder
            .feed(1, direction, Nanos(self.now), bytes, &mut self.out);
        self
    }
    fn c2s(&mut self, bytes: &[u8]) -> &mut Self {
        self.feed(Direction::ClientToServer, bytes)
    }
    fn s2c(&mut self, bytes: &[u8]) -> &mut Self {
        self.feed(Direction::ServerToClient, bytes)
    }
    fn lose(&mut self, direction: Option<Direction>, lost: Lost) -> &mut Self {
        self.now += 1;
        let at = Nanos(self.now);
        self.decoder
            .lose(1, direction, at, lost, "queue full", &mut self.out);
        self
    }
    /// A whole unary request.
    fn ask(&mut self, stream: u32, path: &str, body: &[u8]) -> &mut Self {
        self.c2s(&request(stream, path, body))
    }
    /// A whole unary answer.
    fn reply(&mut self, stream: u32, body: &[u8]) -> &mut Self {
        self.s2c(&answer(stream, body))
    }
    fn starts(&self) -> Vec<&CallStart> {
        self.out
            .iter()
            .filter_map(|o| match &o.body {
                Body::CallStart(s) => Some(&**s),
                _ => None,
            })
            .collect()
    }
    fn ends(&self) -> Vec<&CallEnd> {
        self.out
            .iter()
            .filter_map(|o| match &o.body {
                Body::CallEnd(e) => Some(&**e),
                _ => None,
            })
            .collect()
    }
    fn inventories(&self) -> Vec<&Inventory> {
        self.out
            .iter()
            .filter_map(|o| match &o.body {
                Body::Inventory(i) => Some(&**i),
                _ => None,
            })
            .collect()
    }
    /// Checks that each call has one start, and at most one known end; and, when the connection is closed, that each
    /// has ended.
    fn check_ends(&self, closed: bool) {
        let mut starts: Vec<_> = self.starts().iter().map(|s| s.key).collect();
        starts.sort();
        assert!(
            starts.is_sorted_by(|a, b| a < b),
            "started twice: {starts:?}"
        );
        let mut known: Vec<_> = self
            .ends()
            .iter()
            .filter(|e| e.outcome != CallOutcome::Lost)
            .map(|e| e.key)
            .collect();
        known.sort();
        assert!(known.is_sorted_by(|a, b| a < b), "ended twice: {known:?}");
        let ended = |key| self.ends().iter().any(|e| e.key == key);
        for end in self.ends() {
            let started = starts.binary_search(&end.key).is_ok();
            assert_eq!(started, !end.began_unseen, "{end:?}");
        }
        assert!(!closed || starts.into_iter().all(ended));
    }
    fn gaps(&self) -> Vec<&str> {
        self.out
            .iter()
            .filter_map(|o| match &o.body {
                Body::Gap(g) => Some(g.why.as_str()),
                _ => None,
            })
            .collect()
    }
}

fn preface() -> Vec<u8> {
    [&super::h2::PREFACE[..], &frame(SETTINGS, 0, 0, &[])].concat()
}

fn path_block(path: &str) -> Vec<u8> {
    // `:path` by its static index, the value as a literal, Huffman coded.
    let coded = huffman_encode(path.as_bytes());
    let mut out = vec![0x83, 0x04, 0x80 | coded.len() as u8];
    out.extend(coded);
    out.extend(block(&[("grpc-timeout", "2S")]));
    out
}

fn request(stream: u32, path: &str, body: &[u8]) -> Vec<u8> {
    [
        frame(HEADERS, END_HEADERS, stream, &path_block(path)),
        frame(DATA, END_STREAM, stream, &message(body)),
    ]
    .concat()
}

fn trailers(stream: u32, status: &str) -> Vec<u8> {
    frame(HEADERS, BOTH, stream, &block(&[("grpc-status", status)]))
}

fn answer(stream: u32, body: &[u8]) -> Vec<u8> {
    [
        frame(HEADERS, END_HEADERS, stream, &[0x88]),
        frame(DATA, 0, stream, &message(body)),
        trailers(stream, "0"),
    ]
    .concat()
}

fn metadata() -> Vec<u8> {
    [
        len(1, b"web"),
        len(2, b"uid-1"),
        len(3, b"default"),
        int(4, 2),
    ]
    .concat()
}

fn run_pod_sandbox() -> Vec<u8> {
    let annotations = [
        map(7, "kubernetes.io/config.source", "api"),
        map(7, "secret.example.com/token", "hunter2"),
    ]
    .concat();
    let config = [
        len(1, &metadata()),
        len(2, b"web"),
        map(6, "password", "hunter2"),
        annotations,
    ]
    .concat();
    [len(1, &config), len(2, b"kata")].concat()
}

fn container(id: &str, state: u64) -> Vec<u8> {
    [
        len(1, id.as_bytes()),
        len(2, b"sandbox"),
        len(3, &len(1, b"main")),
        int(6, state),
        map(8, "io.kubernetes.pod.uid", "uid-1"),
        map(8, "team", "hunter2"),
    ]
    .concat()
}

#[test]
fn a_unary_call_becomes_a_start_and_an_end() {
    let mut tap = Tap::new();
    tap.ask(1, RUN, &run_pod_sandbox())
        .reply(1, &len(1, b"abc"));
    let (starts, ends) = (tap.starts(), tap.ends());
    let start = starts[0];
    assert_eq!((start.key.conn, start.key.stream), (1, 1));
    assert_eq!(start.service, Service::Runtime);
    assert_eq!(start.method, "RunPodSandbox");
    assert_eq!(start.subject.pod.uid.as_str(), "uid-1");
    assert_eq!(start.subject.pod.namespace, "default");
    assert_eq!(start.subject.attempt, Some(2));
    assert_eq!(start.timeout_ns, Some(2_000_000_000));
    assert_eq!(start.request_bytes, run_pod_sandbox().len() as u64);
    assert_eq!(
        start.fields,
        [
            ("runtime_handler".into(), "kata".into()),
            ("hostname".into(), "web".into()),
            ("kubernetes.io/config.source".into(), "api".into()),
        ]
    );
    assert_eq!(ends[0].code, Some(0));
    assert_eq!(ends[0].subject.sandbox_id.as_str(), "abc");
    assert_eq!((ends[0].messages, ends[0].response_bytes), (1, 5));
    assert!(tap.gaps().is_empty());
}

#[test]
fn a_start_is_stamped_with_the_first_byte_of_its_headers_and_given_out_when_the_request_is_complete()
 {
    let mut tap = Tap::new();
    let bytes = request(1, RUN, &run_pod_sandbox());
    let begin = tap.now + 1;
    for byte in &bytes {
        assert!(tap.starts().is_empty());
        tap.c2s(std::slice::from_ref(byte));
    }
    assert_eq!(tap.starts().len(), 1);
    let stamp = tap.out.last().expect("start").stamp;
    assert_eq!((stamp.at, stamp.seen), (Nanos(begin), Nanos(tap.now)));
}

#[test]
fn secrets_reach_no_observation() {
    let config = [
        len(1, &len(1, b"main")),
        len(2, &[len(1, b"sha256:1"), len(18, b"nginx:1")].concat()),
        len(3, b"sh"),
        len(3, b"--password=hunter2"),
        len(4, b"hunter2"),
        len(6, &[len(1, b"TOKEN"), len(2, b"hunter2")].concat()),
        map(9, "label", "hunter2"),
        map(10, "annotation", "hunter2"),
        map(10, "io.kubernetes.container.restartCount", "3"),
    ]
    .concat();
    let create = [
        len(1, b"sandbox"),
        len(2, &config),
        len(3, &len(1, &metadata())),
    ]
    .concat();
    let auth = [len(1, b"hunter2"), len(2, b"hunter2"), len(5, b"hunter2")].concat();
    let pull = [
        len(1, &len(1, b"nginx:1")),
        len(2, &auth),
        len(3, &len(1, &metadata())),
    ]
    .concat();
    let exec = [
        len(1, b"id"),
        len(2, b"cat"),
        len(2, b"/hunter2"),
        int(3, 5),
    ]
    .concat();
    let output = [len(1, b"hunter2"), len(2, b"hunter2"), int(3, 1)].concat();
    let mut tap = Tap::new();
    tap.ask(1, "/runtime.v1.RuntimeService/CreateContainer", &create);
    tap.ask(3, "/runtime.v1.ImageService/PullImage", &pull);
    tap.ask(5, "/runtime.v1.RuntimeService/ExecSync", &exec);
    tap.ask(7, "/runtime.v1.RuntimeService/Exec", &exec);
    tap.ask(9, LIST, &[]).ask(11, RUN, &run_pod_sandbox());
    tap.reply(5, &output)
        .reply(7, &len(1, b"http://127.0.0.1/exec/hunter2"))
        .reply(9, &len(1, &container("c", 1)));
    let text = serde_json::to_string(&tap.out).expect("json");
    assert!(!text.contains("hunter2"), "{text}");
    // The fields that kflow shows are there.
    for shown in [
        r#"["command","sh"]"#,
        r#"["io.kubernetes.container.restartCount","3"]"#,
        r#""img":"nginx:1""#,
        r#"["credentials","given"]"#,
        r#"["command","cat"]"#,
        r#"["exit_code","1"]"#,
        r#"["stdout_bytes","7"]"#,
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
}
