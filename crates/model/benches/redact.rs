//! What redaction costs a recording: the log lines of recorded kubelets at -v=4 and of their runtimes, written as session
//! lines with redaction and without it, in turns, in one process.
//!
//! `cargo bench -p kflow-model --bench redact` prints bytes a second of both and ends with an error when redaction takes
//! more than [`LIMIT`] times the time of writing alone.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints, and may give up when its fixture is broken"
)]

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use kflow_model::session::{self, format};
use kflow_model::{Body, Evidence, clock};

/// Half as much again as was measured (docs/benchmarks.md).
const LIMIT: f64 = 8.0;
const ROUNDS: usize = 9;
const SESSIONS: [&str; 3] = ["S1-basics", "S3-crashes", "S8-node"];

fn lines() -> Vec<Evidence> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sessions");
    let mut all = Vec::new();
    for name in SESSIONS {
        let path = folder.join(format!("{name}.kflow.zst"));
        let session = session::load(&path).expect("a recorded session");
        let logs = session.observations.iter();
        all.extend(logs.filter(|o| matches!(o.body, Body::Log(_))).cloned());
    }
    all
}

/// Bytes that were written, and how long that took.
fn timed(all: &[Evidence], write: impl Fn(&Evidence, &mut Vec<u8>)) -> (usize, Duration) {
    let mut out = Vec::with_capacity(64 << 20);
    let begun = clock::monotonic();
    for o in all {
        write(o, &mut out);
    }
    let took = begun.elapsed();
    (black_box(out).len(), took)
}

fn main() {
    let all = lines();
    let plain = |o: &Evidence, out: &mut Vec<u8>| {
        serde_json::to_writer(&mut *out, &**o).expect("an observation serialises");
        out.push(b'\n');
    };
    let redacted = |o: &Evidence, out: &mut Vec<u8>| {
        format::encode(o, out);
    };
    let (mut without, mut with) = (Duration::MAX, Duration::MAX);
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let (n, took) = timed(&all, plain);
        without = without.min(took);
        bytes = n;
        let (_, took) = timed(&all, redacted);
        with = with.min(took);
    }
    let rate = |took: Duration| bytes as f64 / took.as_secs_f64() / 1e6;
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    println!(
        "{} log lines, {bytes} bytes: {:.1} MB/s without redaction, {:.1} MB/s with it, ratio {ratio:.1} (limit {LIMIT})",
        all.len(),
        rate(without),
        rate(with)
    );
    assert!(ratio <= LIMIT, "redaction takes {ratio:.1} times as long");
}
