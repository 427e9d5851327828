//! The speed of the tap's decoder on one core: `cargo bench --bench decoder`.
//!
//! Prints the throughput in bytes on the wire, and compares it with only copying them. An argument selects the rows
//! whose name contains it; `rounds=N` sets a fixed number of rounds (to count allocations from outside).

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints, and ends when its fixtures are not there"
)]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use kflow_cri::{Decoder, Direction};
use kflow_model::{Nanos, Observation};

type Chunk = (u32, Direction, Vec<u8>);
type Row = (&'static str, fn() -> Vec<Chunk>);

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures the time that passes"
)]
fn now() -> Instant {
    Instant::now()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments
        .iter()
        .find_map(|a| a.strip_prefix("rounds=")?.parse().ok());
    let filter = arguments
        .iter()
        .find(|a| !a.starts_with("--") && !a.starts_with("rounds="))
        .cloned()
        .unwrap_or_default();
    println!(
        "{:<34} {:>10} {:>10} {:>12} {:>12} {:>10}",
        "", "MB/s", "of a copy", "frames/s", "skipped", "obs/s"
    );
    let rows: [Row; 6] = [
        ("recorded bytes, 7 sessions", recorded),
        ("lists of 5000, unchanged", || lists(5000, false)),
        ("lists of 100, unchanged", || lists(100, false)),
        ("lists of 5000, always changed", || lists(5000, true)),
        ("answers that nobody reads", unread),
        ("frames that nobody needs", pings),
    ];
    for (name, chunks) in &rows {
        if name.contains(&filter) {
            let chunks = &chunks();
            let total: usize = chunks.iter().map(|(_, _, b)| b.len()).sum();
            let mut counters = (0, 0, 0);
            let speed = measure(total, rounds, || {
                counters = decode(chunks);
            });
            row(name, total, speed, copy(chunks), counters);
        }
    }
}

fn row(name: &str, total: usize, speed: f64, copy: f64, (frames, skipped, seen): (u64, u64, u64)) {
    let rounds = speed * 1e6 / total as f64;
    println!(
        "{name:<34} {speed:>10.0} {:>9.1}% {:>12.0} {:>11.1}% {:>10.0}",
        100.0 * speed / copy,
        frames as f64 * rounds,
        100.0 * skipped as f64 / frames as f64,
        seen as f64 * rounds,
    );
}

/// Returns MB/s for rounds of `total` bytes: the best of several stretches of at least 200 ms.
fn measure(total: usize, rounds: Option<u32>, mut round: impl FnMut()) -> f64 {
    if let Some(rounds) = rounds {
        let begin = now();
        (0..rounds).for_each(|_| round());
        return total as f64 * f64::from(rounds) / begin.elapsed().as_secs_f64() / 1e6;
    }
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let (begin, mut n) = (now(), 0);
        while begin.elapsed() < Duration::from_millis(200) {
            round();
            n += 1;
        }
        let speed = total as f64 * f64::from(n) / begin.elapsed().as_secs_f64() / 1e6;
        best = best.max(speed);
    }
    best
}

fn decode(chunks: &[Chunk]) -> (u64, u64, u64) {
    let mut decoder = Decoder::new();
    let mut out: Vec<Observation> = Vec::new();
    let mut seen = 0;
    for (at, (conn, direction, bytes)) in chunks.iter().enumerate() {
        decoder.feed(*conn, *direction, Nanos(at as i64), bytes, &mut out);
        seen += out.len() as u64;
        black_box(&mut out).clear();
    }
    let counters = decoder.counters();
    assert_eq!((counters.blind, counters.unread_chunks), (0, 0));
    (counters.frames, counters.skipped_frames, seen)
}

/// Returns the MB/s of copying the chunks into one buffer.
fn copy(chunks: &[Chunk]) -> f64 {
    let total: usize = chunks.iter().map(|(_, _, b)| b.len()).sum();
    let mut to = Vec::with_capacity(total);
    measure(total, None, || {
        to.clear();
        for (_, _, bytes) in chunks {
            to.extend_from_slice(bytes);
        }
        black_box(&mut to);
    })
}

/// Returns the chunks of all recorded sessions; each session has connections of its own.
fn recorded() -> Vec<Chunk> {
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        conn: u32,
        dir: &'a str,
        #[serde(default)]
        b64: &'a str,
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cri");
    let mut chunks = Vec::new();
    let mut base = 0;
    for entry in std::fs::read_dir(folder).expect("fixtures") {
        let path = entry.expect("entry").path();
        if !path.to_string_lossy().ends_with(".jsonl.zst") {
            continue;
        }
        let packed = std::fs::read(path).expect("read");
        let text = zstd::decode_all(packed.as_slice()).expect("zstd");
        base += 1000;
        for line in text.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            let line: Line<'_> = serde_json::from_slice(line).expect("line");
            let direction = match line.dir {
                "c2s" => Direction::ClientToServer,
                "s2c" => Direction::ServerToClient,
                _ => continue,
            };
            let engine = base64::engine::general_purpose::STANDARD;
            let bytes = base64::Engine::decode(&engine, line.b64).expect("base64");
            chunks.push((base + line.conn, direction, bytes));
        }
    }
    chunks
}

// ---- Synthetic traffic in the kubelet's form

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut out = vec![0];
    for text in [name, value] {
        out.push(text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    }
    out
}

fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut n = value.len();
    while n > 0x7f {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out.extend_from_slice(value);
    out
}

fn entry(number: u8, key: &str, value: &str) -> Vec<u8> {
    let pair = [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
    field(number, &pair)
}

/// Returns a container as containerd lists it, with the kubelet's labels and annotations.
fn container(i: usize) -> Vec<u8> {
    let id = format!("{i:064x}");
    let uid = format!("4ac3c3e9-1ad8-496b-869a-{i:012x}");
    [
        field(1, id.as_bytes()),
        field(2, format!("{:064x}", i / 2).as_bytes()),
        field(3, &field(1, b"main")),
        field(4, &field(1, b"registry.example.com/team/service:1.2.3")),
        vec![6 << 3, 1],
        entry(8, "io.kubernetes.container.name", "main"),
        entry(8, "io.kubernetes.pod.name", "service-69c5447696-2jbjw"),
        entry(8, "io.kubernetes.pod.namespace", "team"),
        entry(8, "io.kubernetes.pod.uid", &uid),
        entry(9, "io.kubernetes.container.hash", "8f1b2c3d"),
        entry(9, "io.kubernetes.container.restartCount", "0"),
        entry(
            9,
            "io.kubernetes.container.terminationMessagePath",
            "/dev/termination-log",
        ),
        entry(
            9,
            "io.kubernetes.container.terminationMessagePolicy",
            "File",
        ),
        entry(9, "io.kubernetes.pod.terminationGracePeriod", "30"),
    ]
    .concat()
}

/// Cuts bytes as reads of a socket do: chunks of up to 64 KiB that ignore frame boundaries.
fn cut(direction: Direction, bytes: &[u8], to: &mut Vec<Chunk>) {
    to.extend(bytes.chunks(65_536).map(|b| (1, direction, b.to_vec())));
}

fn begin() -> Vec<Chunk> {
    let preface = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &frame(4, 0, 0, &[]),
    ]
    .concat();
    vec![
        (1, Direction::ClientToServer, preface),
        (1, Direction::ServerToClient, frame(4, 0, 0, &[])),
    ]
}

fn call(stream: u32, path: &str, answer: &[u8], to: &mut Vec<Chunk>) {
    let mut headers = vec![0x83];
    headers.extend(literal(":path", path));
    let request = [frame(1, 4, stream, &headers), frame(0, 1, stream, &[0; 5])].concat();
    cut(Direction::ClientToServer, &request, to);
    let mut message = vec![0];
    message.extend((answer.len() as u32).to_be_bytes());
    message.extend_from_slice(answer);
    let mut bytes = frame(1, 4, stream, &[0x88]);
    for part in message.chunks(16_384) {
        bytes.extend(frame(0, 0, stream, part));
    }
    bytes.extend(frame(1, 5, stream, &literal("grpc-status", "0")));
    cut(Direction::ServerToClient, &bytes, to);
}

/// Returns forty answers of `ListContainers` with `size` containers.
fn lists(size: usize, change: bool) -> Vec<Chunk> {
    let mut chunks = begin();
    for nth in 0..40 {
        let list: Vec<u8> = (0..size)
            .flat_map(|i| field(1, &container(if change { i + nth } else { i })))
            .collect();
        let path = "/runtime.v1.RuntimeService/ListContainers";
        call(2 * nth as u32 + 1, path, &list, &mut chunks);
    }
    chunks
}

/// Returns forty answers of a method whose answers kflow does not show.
fn unread() -> Vec<Chunk> {
    let mut chunks = begin();
    for nth in 0..40 {
        let path = "/runtime.v1.RuntimeService/ListContainerStats";
        call(2 * nth + 1, path, &vec![0x5a; 1 << 20], &mut chunks);
    }
    chunks
}

/// Returns PING and WINDOW_UPDATE frames as they come with each call.
fn pings() -> Vec<Chunk> {
    let mut chunks = begin();
    let pair = [frame(6, 0, 0, &[7; 8]), frame(8, 0, 0, &[0, 0, 1, 0])].concat();
    let many = pair.repeat(20);
    for _ in 0..2000 {
        chunks.push((1, Direction::ClientToServer, many.clone()));
        chunks.push((1, Direction::ServerToClient, many.clone()));
    }
    chunks
}
