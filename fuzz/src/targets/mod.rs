//! Fuzz targets: functions of bytes that must never panic, with seeds from the recordings. `tests/it/fuzz.rs` runs all
//! of them on the seeds and on `fuzz/corpus`; `fuzz/run.sh` gives them to libFuzzer.

#![allow(clippy::disallowed_methods, reason = "a test may wait for the disk")]

use std::path::{Path, PathBuf};

use kflow_model::session::{Reader, format};
use kflow_model::{Evidence, Observation};

mod bundle;
mod cri;
mod kept;
mod lines;
mod screen;

/// A fuzz target.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]),
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
}

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds }
}

pub(crate) const ALL: &[Target] = &[
    target("text", lines::text, lines::texts),
    target("lines", lines::lines, lines::numbered_lines),
    target("cri", cri::cri, cri::connections),
    target("cri_joined", cri::cri_joined, cri::places),
    target("kube", lines::kube, lines::objects),
    target("audit", lines::audit, lines::audits),
    target("otlp", lines::otlp, lines::exports),
    target("bundle", bundle::bundle, bundle::bundles),
    target("session", kept::session, kept::sessions),
    target("index", kept::index, kept::indices),
    target("journal", kept::journal, kept::damages),
    target("correlate", kept::correlate, kept::orders),
    target("filter", screen::filter, screen::filters),
    target("scheduler", lines::scheduler, lines::sentences),
    target("terminal", screen::terminal, screen::keys),
    target("drawn", screen::drawn, kept::sessions),
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

/// Returns pieces of a file, spread over all of it: each has whole lines of up to 4 KiB together, or one
/// line of any length.
fn pieces(name: &str, count: usize) -> Vec<Vec<u8>> {
    let all = fixture(name);
    let lines: Vec<&[u8]> = all.split_inclusive(|b| *b == b'\n').collect();
    let step = (lines.len() / count).max(1);
    let mut out = Vec::new();
    for from in (0..lines.len()).step_by(step) {
        let mut piece = Vec::new();
        for line in &lines[from..(from + step).min(lines.len())] {
            if !piece.is_empty() && piece.len() + line.len() > 4 << 10 {
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

/// Asserts that a decoder's observations can be written, and read back equal.
fn survive(said: impl IntoIterator<Item = Observation>) {
    for o in said {
        let once = format::redacted(o);
        let mut written = Vec::new();
        format::encode(&once, &mut written);
        let again = format::decode(written.trim_ascii_end());
        assert_eq!(again, format::Line::Observation(once));
    }
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
