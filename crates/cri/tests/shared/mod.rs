//! The recorded connections, and what a decoder says of one: as a whole, joined in the middle, or with losses.
//!
//! For the tests beside it, `benches/joined.rs` and the fuzz target `cri_joined`.
#![allow(clippy::disallowed_methods, reason = "a test may wait for the disk")]

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kflow_cri::{Decoder, Direction, Lost};
use kflow_model::cri::{CallEnd, CallOutcome, CallStart, Service, Sight, Subject, method};
use kflow_model::{Body, Nanos, Observation, Stamp};

/// Chunks that are fed after a cut: more than any of these connections needs until it is understood.
pub(crate) const WINDOW: usize = 4000;

pub(crate) struct Chunk {
    pub(crate) at: Nanos,
    pub(crate) direction: Direction,
    pub(crate) bytes: Vec<u8>,
}

/// The connections of each recorded session.
pub(crate) fn recordings() -> Vec<(String, Vec<Vec<Chunk>>)> {
    #[derive(serde::Deserialize)]
    struct Line {
        t: i64,
        conn: u32,
        dir: String,
        #[serde(default)]
        b64: String,
    }
    // The fuzz target lies less deep than the crate.
    let own = || {
        let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let found = folders.find_map(|f| Some(f.join("fixtures/cri")).filter(|f| f.is_dir()));
        found.expect("fixtures/cri")
    };
    let folder = std::env::var_os("KFLOW_CRI_FIXTURES").map_or_else(own, PathBuf::from);
    let mut all = Vec::new();
    // Those without tracing: nobody else has counted what is in them.
    let untraced = std::fs::read_dir(folder.join("untraced"));
    let entries = std::fs::read_dir(folder).expect("fixtures");
    for entry in entries.chain(untraced.into_iter().flatten()) {
        let path = entry.expect("entry").path();
        let name = path
            .file_name()
            .expect("name")
            .to_string_lossy()
            .into_owned();
        let Some(session) = name.strip_suffix(".jsonl.zst") else {
            continue;
        };
        let packed = std::fs::read(&path).expect("read");
        let text = zstd::decode_all(packed.as_slice()).expect("zstd");
        let mut conns: BTreeMap<u32, Vec<Chunk>> = BTreeMap::new();
        for line in text.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            let line: Line = serde_json::from_slice(line).expect("line");
            let direction = match line.dir.as_str() {
                "c2s" => Direction::ClientToServer,
                "s2c" => Direction::ServerToClient,
                _ => continue,
            };
            let bytes = STANDARD.decode(line.b64).expect("base64");
            let at = Nanos(line.t);
            let chunk = Chunk {
                at,
                direction,
                bytes,
            };
            conns.entry(line.conn).or_default().push(chunk);
        }
        all.push((session.to_owned(), conns.into_values().collect()));
    }
    assert!(!all.is_empty());
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// What a decoder said of one connection.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) starts: BTreeMap<u32, (Stamp, CallStart)>,
    pub(crate) ends: BTreeMap<u32, (Stamp, CallEnd)>,
    /// Ends of streams without a start.
    pub(crate) unseen: Vec<CallEnd>,
    pub(crate) gaps: Vec<String>,
    /// Starts before the one from which on every request is understood.
    pub(crate) before: Option<HashSet<u32>>,
    pub(crate) healed: Option<Nanos>,
}

fn said(out: Vec<Observation>) -> Said {
    let mut said = Said::default();
    for o in out {
        match o.body {
            Body::CallStart(start) => {
                let was = said.starts.insert(start.key.stream, (o.stamp, *start));
                assert!(was.is_none(), "started twice: {was:?}");
            }
            Body::CallEnd(end) if end.began_unseen => {
                assert!(
                    !said.starts.contains_key(&end.key.stream),
                    "it has a start: {end:?}"
                );
                assert!(
                    said.unseen.iter().all(|e| e.key != end.key),
                    "ended twice: {end:?}"
                );
                said.unseen.push(*end);
            }
            Body::CallEnd(end) => {
                assert!(
                    said.starts.contains_key(&end.key.stream),
                    "no start: {end:?}"
                );
                let was = said.ends.insert(end.key.stream, (o.stamp, *end));
                if let Some((_, was)) = was {
                    assert_eq!(was.outcome, CallOutcome::Lost, "ended twice: {was:?}");
                }
            }
            Body::Gap(gap) => said.gaps.push(gap.why.as_str().to_owned()),
            Body::Conn(conn) if conn.open => match conn.sight {
                Sight::Whole => {
                    said.before = Some(said.starts.keys().copied().collect());
                    said.healed = Some(o.stamp.at);
                }
                Sight::Partial => (said.before, said.healed) = (None, None),
                Sight::Blind => panic!("given up: {conn:?}"),
            },
            _ => {}
        }
    }
    said
}

pub(crate) fn whole(chunks: &[Chunk]) -> Said {
    let (mut decoder, mut out) = (Decoder::new(), Vec::new());
    for chunk in chunks {
        decoder.feed(1, chunk.direction, chunk.at, &chunk.bytes, &mut out);
    }
    let said = said(out);
    assert_eq!(said.gaps, [""; 0]);
    said
}

/// What is said when somebody comes at a byte of a chunk.
pub(crate) fn joined(chunks: &[Chunk], cut: usize, byte: usize) -> Said {
    let (mut decoder, mut out) = (Decoder::new(), Vec::new());
    for (i, chunk) in chunks.iter().enumerate().skip(cut).take(WINDOW) {
        let from = if i == cut {
            decoder.join(1, chunk.at, 0, "", &mut out);
            byte
        } else {
            0
        };
        decoder.feed(1, chunk.direction, chunk.at, &chunk.bytes[from..], &mut out);
    }
    said(out)
}

/// What is said when some chunks of one direction, or of both, are lost.
pub(crate) fn lossy(
    chunks: &[Chunk],
    lost: std::ops::Range<usize>,
    way: Option<Direction>,
    exact: bool,
) -> Said {
    let (mut decoder, mut out) = (Decoder::new(), Vec::new());
    let is_lost = |i: usize, c: &Chunk| lost.contains(&i) && way.is_none_or(|w| w == c.direction);
    let mut told = false;
    let to = chunks.len().min(lost.end + WINDOW);
    for (i, chunk) in chunks.iter().enumerate().take(to) {
        if is_lost(i, chunk) {
            if !std::mem::replace(&mut told, true) {
                let all = chunks.iter().enumerate().filter(|(i, c)| is_lost(*i, c));
                let bytes = all.map(|(_, c)| c.bytes.len() as u64).sum();
                let lost = Lost {
                    chunks: 1,
                    bytes: exact.then_some(bytes),
                };
                decoder.lose(1, way, chunk.at, lost, "a test", &mut out);
            }
        } else {
            decoder.feed(1, chunk.direction, chunk.at, &chunk.bytes, &mut out);
        }
    }
    said(out)
}

/// What is said when somebody comes at a byte of a chunk and then loses the end of some of the chunks. Of every chunk
/// one byte of `losses` says how much is lost: nothing, from 16 on.
pub(crate) fn distorted(chunks: &[Chunk], cut: usize, byte: usize, losses: &[u8]) -> Said {
    let (mut decoder, mut out) = (Decoder::new(), Vec::new());
    decoder.join(1, chunks[cut].at, 0, "", &mut out);
    let mut losses = losses.iter();
    for (i, chunk) in chunks.iter().enumerate().skip(cut).take(600) {
        let bytes = &chunk.bytes[if i == cut { byte } else { 0 }..];
        let how = losses.next().copied().filter(|how| *how < 16);
        let kept = how.map_or(bytes.len(), |how| bytes.len() * usize::from(how) / 16);
        decoder.feed(1, chunk.direction, chunk.at, &bytes[..kept], &mut out);
        if let Some(how) = how {
            let lost = Lost {
                chunks: 1,
                bytes: (how % 2 == 0).then_some((bytes.len() - kept) as u64),
            };
            decoder.lose(1, Some(chunk.direction), chunk.at, lost, "a test", &mut out);
        }
    }
    said(out)
}

/// Nothing that `part` says is wrong; what it says since it understands everything is what the whole says.
/// Gives the calls whose method was not known, and the ends whose code was not.
pub(crate) fn compare(whole: &Said, part: &Said, about: &str) -> (usize, usize) {
    let (mut nameless, mut codeless) = (0, 0);
    for (stream, (stamp, start)) in &part.starts {
        let about = format!("{about}, stream {stream}");
        let (same_stamp, same) = whole.starts.get(stream).expect(&about);
        assert_eq!(stamp.at, same_stamp.at, "{about}");
        // Given out when bytes were lost, with what of the request had come.
        let early = stamp.seen != same_stamp.seen;
        assert!(
            stamp == same_stamp || (early && !part.gaps.is_empty()),
            "{about}"
        );
        let mut like = start.clone();
        if start.partial {
            let healed = part.before.as_ref().is_some_and(|b| !b.contains(stream));
            assert!(!healed, "{about}: every request is understood: {start:?}");
            like.partial = false;
            like.timeout_ns = start.timeout_ns.or(same.timeout_ns);
            like.traceparent = start.traceparent.or(same.traceparent);
        }
        if start.service == Service::Unknown {
            nameless += 1;
            assert!(
                start.partial && start.method == method::UNKNOWN,
                "{about}: {start:?}"
            );
            assert_eq!(start.subject, Subject::default(), "{about}");
            assert!(start.fields.iter().all(|(k, _)| k == "not_decoded"));
            like.service = same.service;
            like.method = same.method.clone();
            like.subject = same.subject.clone();
            like.fields.clone_from(&same.fields);
            like.filtered = same.filtered;
            if !part.gaps.is_empty() && !start.fields.is_empty() || early {
                like.request_bytes = same.request_bytes;
            }
        } else if early || like.fields.iter().any(|(k, _)| k == "not_decoded") {
            assert!(!part.gaps.is_empty(), "{about}: {start:?}");
            assert_eq!(start.subject, Subject::default(), "{about}");
            like.subject = same.subject.clone();
            like.fields.clone_from(&same.fields);
            like.filtered = same.filtered;
            like.request_bytes = same.request_bytes;
        }
        assert_eq!(&like, same, "{about}");
    }
    for (stream, (stamp, end)) in &part.ends {
        if end.outcome == CallOutcome::Lost {
            assert!(!part.gaps.is_empty(), "nothing was lost: {end:?}");
            continue;
        }
        let about = format!("{about}, stream {stream}");
        let (same_stamp, same) = whole.ends.get(stream).expect(&about);
        assert_eq!(stamp, same_stamp, "{about}");
        codeless += usize::from(end.code.is_none() && same.code.is_some());
        let (begun, start) = &part.starts[stream];
        if end.request_bytes != same.request_bytes {
            // A start that was given out at a loss does not know what of the request is lost after it: the gap tells.
            let early = begun.seen != whole.starts[stream].0.seen && part.gaps.len() > 1;
            let missed = early || start.fields.iter().any(|(k, _)| k == "not_decoded");
            assert!(missed, "{about}: {start:?} {end:?}");
            assert!(end.request_bytes < same.request_bytes, "{about}: {end:?}");
        }
        agrees(end, same, start.service == Service::Unknown, &about);
    }
    for end in &part.unseen {
        let about = format!("{about}, unseen stream {}", end.key.stream);
        let (_, same) = whole.ends.get(&end.key.stream).expect(&about);
        agrees(end, same, true, &about);
    }
    // Whatever began after everything was understood is there.
    if let Some(healed) = part.healed {
        let last = part.starts.last_key_value().map_or(0, |(s, _)| *s);
        for (stream, (stamp, start)) in whole.starts.range(..=last) {
            if stamp.at > healed {
                assert!(
                    part.starts.contains_key(stream),
                    "{about}: missing {start:?}"
                );
            }
        }
    }
    (nameless, codeless)
}

/// An end says nothing else than the whole's.
fn agrees(end: &CallEnd, same: &CallEnd, nameless: bool, about: &str) {
    assert_eq!(end.outcome, same.outcome, "{about}");
    assert!(
        end.code.is_none() || end.code == same.code,
        "{about}: {end:?} {same:?}"
    );
    assert!(!end.inferred || end.code.is_some(), "{about}");
    let message = end.message.is_empty() || end.message == same.message;
    assert!(message, "{about}: {end:?} {same:?}");
    let partial = nameless || end.fields.iter().any(|(k, _)| k == "not_decoded");
    if partial {
        assert!(end.subject == Subject::default(), "{about}: {end:?}");
    } else {
        assert_eq!(end.subject, same.subject, "{about}");
        // A list that is streamed is counted when its status was read.
        assert!(
            end.fields == same.fields || end.code.is_none() || end.inferred,
            "{about}"
        );
        let sizes = (end.response_bytes, same.response_bytes);
        assert_eq!(sizes.0, sizes.1, "{about}: {end:?}");
    }
}
