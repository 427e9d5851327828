//! Prints the calls in a log of tapped bytes: lines of `{"t":ns,"conn":n,"dir":"open|c2s|s2c|close","b64":"…"}`.
//!
//!     zstdcat fixtures/cri/S13-crictl.jsonl.zst | cargo run -p kflow-cri --example calls

use std::collections::HashMap;
use std::io::{self, BufRead as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kflow_cri::{Decoder, Direction};
use kflow_model::{Body, Nanos};

#[derive(serde::Deserialize)]
struct Line {
    t: i64,
    conn: u32,
    dir: String,
    #[serde(default)]
    b64: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut decoder, mut seen) = (Decoder::new(), Vec::new());
    let mut begun = HashMap::new();
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Line { t, conn, dir, b64 } = serde_json::from_str(&line?)?;
        let (at, bytes) = (Nanos(t), STANDARD.decode(b64)?);
        match dir.as_str() {
            "c2s" => {
                decoder.feed(conn, Direction::ClientToServer, at, &bytes, &mut seen);
            }
            "s2c" => {
                decoder.feed(conn, Direction::ServerToClient, at, &bytes, &mut seen);
            }
            "close" => decoder.close(conn, None, at, "", &mut seen),
            _ => {}
        }
        for o in seen.drain(..) {
            match o.body {
                Body::CallStart(call) => {
                    begun.insert(call.key, (o.stamp.at, call.method));
                }
                Body::CallEnd(call) => {
                    if let Some((start, method)) = begun.remove(&call.key) {
                        let took = o.stamp.at.since(start) / 1_000;
                        let status = call.code.map_or_else(
                            || format!("{:?}", call.outcome),
                            |code| format!("grpc-status {code}"),
                        );
                        // Whoever reads has read enough: `| head` is no error.
                        if writeln!(out, "{took:>10} µs  {method}  {status}").is_err() {
                            return Ok(());
                        }
                    }
                }
                Body::Gap(gap) => writeln!(out, "not seen: {}", gap.why)?,
                _ => {}
            }
        }
    }
    Ok(())
}
