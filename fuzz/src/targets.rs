//! What is fuzzed: functions of bytes that may panic for none, and seeds from the recordings. `tests/it/fuzz.rs` runs all of them
//! on the seeds and on `fuzz/corpus`; `fuzz/run.sh` gives them to libFuzzer.

#![allow(clippy::disallowed_methods, reason = "a test may wait for the disk")]

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_cri::{Decoder, Direction, Lost};
use kflow_engine::Pipeline;
use kflow_engine::import::Kind;
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_model::pod::WatchEvent;
use kflow_model::session::{Reader, format};
use kflow_model::{Evidence, Nanos, Stamp};
use kflow_sources::fs::{classify_mount, classify_path, parse_mountinfo_line};
use kflow_sources::journal::file::JournalFile;
use kflow_sources::kube::decode::{decode_object, decode_watch_event};
use kflow_sources::metrics::{Scrape, Scrapes};
use kflow_sources::{TimeHint, audit, otlp};
use kflow_store::index::Index;
use kflow_tui::filter::Filter;
use kflow_tui::keys::Key;
use kflow_tui::offscreen;

use shared::{Chunk, Said, compare, distorted, recordings, whole};

#[path = "../../crates/cri/tests/shared/mod.rs"]
#[allow(dead_code, reason = "for more tests than these")]
mod shared;

/// One of them.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]),
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
}

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds }
}

pub(crate) const ALL: &[Target] = &[
    target("text", text, texts),
    target("lines", lines, numbered_lines),
    target("cri", cri, connections),
    target("cri_joined", cri_joined, places),
    target("kube", kube, objects),
    target("audit", audit, audits),
    target("otlp", otlp, exports),
    target("session", session, sessions),
    target("index", index, indices),
    target("journal", journal, damages),
    target("correlate", correlate, orders),
    target("filter", filter, filters),
    target("scheduler", scheduler, sentences),
    target("terminal", terminal, keys),
    target("drawn", drawn, sessions),
];

fn fixtures() -> PathBuf {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = folders.find_map(|f| Some(f.join("fixtures")).filter(|f| f.is_dir()));
    found.expect("fixtures")
}

fn fixture(name: &str) -> Vec<u8> {
    let bytes = std::fs::read(fixtures().join(name)).expect("a fixture");
    if Path::new(name).extension().is_some_and(|e| e == "zst") {
        zstd::decode_all(&bytes[..]).expect("a fixture")
    } else {
        bytes
    }
}

/// Whole lines of a file, in pieces of some KiB, from all over it.
fn pieces(name: &str, count: usize) -> Vec<Vec<u8>> {
    let all = fixture(name);
    let lines: Vec<&[u8]> = all.split_inclusive(|b| *b == b'\n').collect();
    let step = (lines.len() / count).max(1);
    let mut out = Vec::new();
    for from in (0..lines.len()).step_by(step) {
        let mut piece = Vec::new();
        for line in &lines[from..(from + step).min(lines.len())] {
            if piece.len() + line.len() > 4 << 10 {
                break;
            }
            piece.extend_from_slice(line);
        }
        out.push(piece);
    }
    out
}

fn headed(head: u8, of: Vec<Vec<u8>>) -> impl Iterator<Item = Vec<u8>> {
    of.into_iter().map(move |mut piece| {
        piece.insert(0, head);
        piece
    })
}

/// Every form that is read line by line; the first byte says which.
fn text(data: &[u8]) {
    let Some((which, text)) = data.split_first() else {
        return;
    };
    let kind = Kind::ALL[usize::from(*which) % Kind::ALL.len()];
    let mut decoder = kind.decoder(TimeHint::default());
    let mut out = Vec::new();
    for line in text.split(|b| *b == b'\n') {
        decoder.line(line, &mut out);
    }
    decoder.finish(&mut out);
    survive(out.into_iter().map(Arc::new));
}

fn texts() -> Vec<Vec<u8>> {
    let files = [
        (Kind::Watch, "captures/watch.jsonl.zst"),
        (Kind::Watch, "kube/kubectl-get.json"),
        (Kind::Watch, "kube/kubectl-get.yaml"),
        (Kind::Audit, "captures/audit.jsonl.zst"),
        (Kind::Otlp, "otlp/exports.jsonl"),
        (Kind::Containerd, "captures/containerd.log.zst"),
        (Kind::Kubelet, "captures/kubelet.log.zst"),
        (Kind::Apiserver, "captures/apiserver.log.zst"),
        (Kind::Scheduler, "captures/scheduler.log.zst"),
        (
            Kind::ControllerManager,
            "captures/controller-manager.log.zst",
        ),
    ];
    let number = |kind| Kind::ALL.iter().position(|k| *k == kind).unwrap_or(0) as u8;
    let of = |(kind, name)| headed(number(kind), pieces(name, 12));
    files.into_iter().flat_map(of).collect()
}

/// What a decoder said can be written, and reads as it was.
fn survive(said: impl Iterator<Item = Evidence>) {
    for o in said {
        let once = format::redacted((*o).clone());
        let mut written = Vec::new();
        format::encode(&once, &mut written);
        let again = format::decode(written.trim_ascii_end());
        assert_eq!(again, format::Line::Observation(once));
    }
}

/// What is read from a node that is no log; the first byte says which.
fn lines(data: &[u8]) {
    let Some((which, text)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let what = [
        "kubelet-metrics",
        "kubelet-healthz",
        "kubelet-configz",
        "kubelet-pods",
    ];
    let Some(what) = what.get(usize::from(which % 5)) else {
        for line in text.lines() {
            drop(classify_path(line));
            drop(parse_mountinfo_line(line).and_then(|m| classify_mount(&m)));
        }
        return;
    };
    let scrape = Scrape {
        at: Nanos(1),
        took_ns: 1,
        what,
        code: 200,
        body: &text,
    };
    let mut out = Vec::new();
    Scrapes::default().take(scrape, &mut out).ok();
}

fn numbered_lines() -> Vec<Vec<u8>> {
    let pods = ["metrics/pods-pending.json", "metrics/pods-running.json"];
    let pods = pods
        .map(|f| vec![fixture(f)])
        .into_iter()
        .flatten()
        .collect();
    let mounts = "36 35 98:0 / /var/lib/kubelet/pods/6f1a3c52-0c51-4d7c-8a3e-2f7a1f0f6f10/volumes/kubernetes.io~projected/kube-api-access-x rw - tmpfs tmpfs rw\n";
    let metrics =
        "kubelet_running_pods 3\nkubelet_pleg_relist_duration_seconds_bucket{le=\"0.005\"} 12\n";
    headed(3, pods)
        .chain([
            [b"\x04", mounts.as_bytes()].concat(),
            [b"\0", metrics.as_bytes()].concat(),
        ])
        .collect()
}

const BOTH: [Direction; 2] = [Direction::ClientToServer, Direction::ServerToClient];

/// Bytes of a connection: the first byte of a chunk says its direction and, with the second, its length.
fn cri(data: &[u8]) {
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
    survive(out.into_iter().map(Arc::new));
}

fn connections() -> Vec<Vec<u8>> {
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
    static PICTURES: OnceCell<Vec<Snapshot>> = const { OnceCell::new() };
    static REAL: OnceCell<Vec<Evidence>> = const { OnceCell::new() };
}

/// A recorded connection that is joined at a byte, and of which chunks are lost: nothing that is said of it may be other
/// than what is said of the whole. The input picks connection, place and losses; what is left of it is fed as bytes.
fn cri_joined(data: &[u8]) {
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
}

fn places() -> Vec<Vec<u8>> {
    let conns: usize = recordings().iter().map(|(_, conns)| conns.len()).sum();
    (0..conns as u8)
        .map(|n| vec![n, n.wrapping_mul(37), n, 1, 0, 3, 0, 9])
        .collect()
}

/// One object of a list, and one event of a watch.
fn kube(data: &[u8]) {
    let stamp = Stamp::exact(Nanos(1));
    for kind in ["", "Pod", "Event", "Node", "ReplicaSet"] {
        drop(decode_object(data, kind, WatchEvent::Listed, stamp));
    }
    drop(decode_watch_event(data, "pods", stamp));
}

fn objects() -> Vec<Vec<u8>> {
    let all = fixture("kube/watch.jsonl");
    all.split(|b| *b == b'\n')
        .take(200)
        .map(<[u8]>::to_vec)
        .collect()
}

/// A batch of the audit webhook.
fn audit(data: &[u8]) {
    audit::decode::decode_batch(data, Nanos(1), &mut Vec::new());
}

fn audits() -> Vec<Vec<u8>> {
    let mut all = pieces("audit/audit.jsonl", 20);
    all.push(fixture("audit/webhook-batch.json"));
    all
}

/// A request to export spans.
fn otlp(data: &[u8]) {
    drop(otlp::decode::decode_request(data, Nanos(1)));
}

fn exports() -> Vec<Vec<u8>> {
    let text = pieces("otlp/exports.jsonl", 20);
    // A span of protobuf: a request, its resource's spans, its scope's spans, with a name.
    let span = b"\x0a\x10\x12\x0e\x12\x0c\x0a\x04\x01\x02\x03\x04\x2a\x04name".to_vec();
    text.into_iter().chain([span]).collect()
}

/// A session, whole or cut, plain or compressed; and that what a line says survives being written again.
fn session(data: &[u8]) {
    if let Ok(reader) = Reader::new("fuzz", Box::new(std::io::Cursor::new(data.to_vec())), 0) {
        reader.for_each(|_| true);
    }
    let lines = data.split(|b| *b == b'\n').map(format::decode);
    survive(lines.filter_map(|line| match line {
        format::Line::Observation(o) => Some(Arc::new(o)),
        _ => None,
    }));
}

fn sessions() -> Vec<Vec<u8>> {
    let name = "sessions/S13-crictl.kflow.zst";
    let all = fixture(name);
    let head: Vec<u8> = all
        .split_inclusive(|b| *b == b'\n')
        .take(1)
        .flatten()
        .copied()
        .collect();
    let with_head = |piece: Vec<u8>| [head.clone(), piece].concat();
    let mut seeds: Vec<_> = pieces(name, 60).into_iter().map(with_head).collect();
    seeds.extend(
        pieces("sessions/S2-stuck-early.kflow.zst", 60)
            .into_iter()
            .map(with_head),
    );
    let packed = zstd::encode_all(&seeds[0][..], 3).expect("a vector grows");
    seeds.push(packed);
    seeds
}

/// An object of the store's index, as bytes or as what they unpack to: what is read is written and read again as the same.
/// A journal file in which bytes were changed: three bytes say which, one what it is.
fn journal(data: &[u8]) {
    thread_local! {
        static FILE: Vec<u8> = {
            let mut file = fixture("journal/before.journal.zst");
            let used = file.iter().rposition(|b| *b != 0).map_or(0, |n| n + 1);
            file.truncate(used);
            file
        };
    }
    let mut file = FILE.with(Clone::clone);
    for change in data.chunks_exact(4) {
        let [a, b, c, value] = *change else { continue };
        let at = u32::from_le_bytes([a, b, c, 0]) as usize % file.len();
        file[at] = value;
    }
    let Ok(mut journal) = JournalFile::open(file.as_slice()) else {
        return;
    };
    journal.units().ok();
    let Ok(Some(mut place)) = journal.of_unit("kubelet.service") else {
        return;
    };
    let entries = journal.left(&place).unwrap_or(0);
    let mut read = 0;
    while let Ok(Some(_)) = journal.next(&mut place) {
        read += 1;
        assert!(read <= entries, "more than there are");
    }
}

fn damages() -> Vec<Vec<u8>> {
    // Of the header, of the table of fields, and of objects.
    let at = |n: u32, value: u8| [&n.to_le_bytes()[..3], &[value]].concat();
    let mut all: Vec<Vec<u8>> = (0..208).map(|n| at(n, 0xff)).collect();
    all.extend((0..400).map(|n| at(n * 997, (n % 256) as u8)));
    all.push(Vec::new());
    all
}

fn index(data: &[u8]) {
    let Some((packed, text)) = data.split_first() else {
        return;
    };
    let read = match packed & 1 {
        0 => Index::decode(text),
        _ => Index::decode(&zstd::bulk::compress(text, 1).expect("a vector grows")),
    };
    let Ok(mut index) = read else { return };
    index.damaged = 0;
    let (hash, bytes) = index.encode().expect("a vector grows");
    let again = Index::decode(&bytes).expect("it was just written");
    assert_eq!(again, index);
    let mut twice = again.clone();
    twice.merge(again);
    assert_eq!(
        twice.encode().expect("a vector grows").0,
        hash,
        "to merge what is there changes nothing"
    );
}

fn indices() -> Vec<Vec<u8>> {
    let of = |permille: usize| {
        let all = real();
        let some = &all[..all.len() * permille / 1000];
        Index::of(some, "node1", (Nanos(1), Nanos(2)))
            .encode()
            .expect("a vector grows")
            .1
    };
    let packed: Vec<_> = [0, 10, 100, 1000].map(of).into_iter().collect();
    let texts = packed
        .iter()
        .map(|p| zstd::decode_all(&p[..]).expect("just packed"))
        .collect();
    headed(1, texts).chain(headed(0, packed.clone())).collect()
}

fn real() -> Vec<Evidence> {
    let bytes = fixture("sessions/S13-crictl.kflow.zst");
    read(bytes)
}

fn read(bytes: Vec<u8>) -> Vec<Evidence> {
    let mut all = Vec::new();
    if let Ok(reader) = Reader::new("fuzz", Box::new(std::io::Cursor::new(bytes)), 0) {
        reader.for_each(|batch| {
            all.extend(batch.observations);
            true
        });
    }
    all
}

fn timelines(of: impl Iterator<Item = Evidence>) -> String {
    let mut world = World::new();
    of.for_each(|o| world.observe(&o));
    world.refresh();
    let mut out = Vec::new();
    kflow_export::timeline::rows(&mut out, world.pods(), kflow_export::rows::Rows::Json)
        .expect("a vector grows");
    String::from_utf8_lossy(&out).into_owned()
}

/// Real observations in any order: whatever it is, the same timelines follow. Two bytes choose the next one.
fn correlate(data: &[u8]) {
    REAL.with(|all| {
        let all = all.get_or_init(real);
        let place = |b: &[u8]| usize::from(u16::from_le_bytes([b[0], b[1]])) % all.len();
        let chosen: Vec<Evidence> = data
            .chunks_exact(2)
            .map(|b| Arc::clone(&all[place(b)]))
            .collect();
        let mut sorted = chosen.clone();
        sorted.sort();
        assert_eq!(timelines(chosen.into_iter()), timelines(sorted.into_iter()));
    });
}

fn orders() -> Vec<Vec<u8>> {
    let order = |n: u16| {
        (0..200_u16)
            .rev()
            .flat_map(|i| (i * 7 + n * 200).to_le_bytes())
            .collect()
    };
    (0..8).map(order).collect()
}

/// What a user types as a filter.
fn filter(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(filter) = Filter::parse(text) {
        assert!(Filter::parse(filter.text()).is_ok());
    }
}

fn filters() -> Vec<Vec<u8>> {
    let known = [
        "method:RunPodSandbox dur>2s !ok pod:web*",
        "stage:image (code:NotFound or code:Unavailable)",
        "source:kubelet \"Error syncing pod\"",
        "!(ns:kube-system) bytes>10MB",
        "cause:KF505",
    ];
    known.map(|f| f.as_bytes().to_vec()).to_vec()
}

/// The scheduler's sentence, clause by clause.
fn scheduler(data: &[u8]) {
    if let Ok(message) = std::str::from_utf8(data) {
        drop(kflow_core::diagnose::scheduler::parse(message));
    }
}

fn sentences() -> Vec<Vec<u8>> {
    let known = [
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {node.kubernetes.io/unreachable: }. preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
        "0/5 nodes are available: 3 node(s) didn't match Pod's node affinity/selector, 2 node(s) had volume node affinity conflict.",
        "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded",
    ];
    known.map(|s| s.as_bytes().to_vec()).to_vec()
}

/// A picture of what a session says up to a moment of it.
fn picture(all: &[Evidence], name: &str, permille: i64) -> Option<Snapshot> {
    let begin = all.iter().map(|o| o.stamp.seen).min()?;
    let end = all.iter().map(|o| o.stamp.seen).max()?;
    let now = begin.plus(end.since(begin) / 1000 * permille);
    let mut pipeline = Pipeline::selecting(Arc::default());
    for o in all
        .iter()
        .filter(|o| o.stamp.seen <= now || permille == 1000)
    {
        pipeline.observe(Arc::clone(o));
    }
    Some(pipeline.snapshot(now, Mode::paused(name), (begin, end), Vec::new()))
}

const NAMED: [&str; 16] = [
    "enter",
    "esc",
    "tab",
    "space",
    "up",
    "down",
    "left",
    "right",
    "home",
    "end",
    "pgup",
    "pgdn",
    "backspace",
    "delete",
    "backtab",
    "f1",
];

/// A key for a byte: letters are themselves, and above 127 those with names.
fn key(byte: u8) -> Option<Key> {
    match byte {
        0..=31 => Key::parse(&format!("ctrl-{}", char::from(b'a' + byte % 26))),
        32 => Key::parse("space"),
        33..=126 => Key::parse(char::from(byte).encode_utf8(&mut [0; 4])),
        _ => Key::parse(NAMED[usize::from(byte) % NAMED.len()]),
    }
}

/// A recorded session at a moment, a terminal of any size, any keys; 255 and two bytes are another size.
fn terminal(data: &[u8]) {
    let [which, width, height, keys @ ..] = data else {
        return;
    };
    PICTURES.with(|all| {
        let all = all.get_or_init(|| {
            ["S13-crictl", "S2-stuck-early", "S4-runtime"]
                .iter()
                .flat_map(|name| {
                    let all = read(fixture(&format!("sessions/{name}.kflow.zst")));
                    [100, 500, 1000].map(|permille| picture(&all, name, permille))
                })
                .flatten()
                .collect()
        });
        type_at(
            &all[usize::from(*which) % all.len()],
            (*width, *height),
            keys,
        );
    });
}

fn type_at(snapshot: &Snapshot, (width, height): (u8, u8), keys: &[u8]) {
    let Some(mut model) = offscreen::model((width.into(), height.into()), "dark") else {
        return;
    };
    offscreen::frame(&mut model, snapshot);
    let mut keys = keys.iter().take(80);
    while let Some(byte) = keys.next() {
        if *byte == 255 {
            let mut side = || u16::from(keys.next().copied().unwrap_or(80));
            model.size = (side(), side());
        } else if let Some(key) = key(*byte) {
            model.key(key, snapshot);
        }
        offscreen::frame(&mut model, snapshot);
    }
}

fn keys() -> Vec<Vec<u8>> {
    let typed = [
        "1jjj\r2d?q",
        "3/method:*Sandbox* !ok",
        "8jjj",
        "6K",
        "9Sp",
        "vv1t",
        "0gjjjj",
        "4d/",
        ":",
        "nNpcM",
    ];
    let at = |n: usize, t: &str| [&[n as u8, 140, 40], t.as_bytes()].concat();
    typed.iter().enumerate().map(|(n, t)| at(n, t)).collect()
}

/// Any session in every pane: what the lines of it say is drawn.
fn drawn(data: &[u8]) {
    let all = read(data.to_vec());
    for permille in [500, 1000] {
        if let Some(snapshot) = picture(&all, "fuzz", permille) {
            type_at(&snapshot, (120, 40), b"1j2d3d4d5d6789p0j");
        }
    }
}
