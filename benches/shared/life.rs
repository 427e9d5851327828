//! The life of one recorded pod, copied under other names; the benchmarks with churn use it.

use std::collections::HashSet;
use std::path::Path;

use kflow_model::{Body, Observation};

/// The recorded pod `s01/healthy`: its UID, and the ids of its sandbox and its containers.
const UID: &str = "4ac3c3e9-1ad8-496b-869a-7687fcb13acf";
const IDS: [&str; 4] = [
    "dec0b9510d18f5911a2a3b8957c3865ac71bae2d03678960fda2552959abe52b",
    "541c6ef7fdc0193eafab33d019dc777f1a109e534e0ab45b8e24bffcb1cabe0a",
    "54a2e6fa34bedcd7d07f9cf463146ebfd97e8985005a7f82d68d58a58945c862",
    "028f66a30f94b666bfca4bf2459fcbca807056e958aea0dd1f6b952252d5fefb",
];

/// Returns the observations of `s01/healthy` in the recording S1, in the session format. Lists of several objects are
/// left out.
pub(super) fn recorded() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions/S1-basics.kflow.zst");
    let session = kflow_model::session::load(&path).expect("the recorded session");
    let mut keys = HashSet::new();
    let mut lines = Vec::new();
    for o in &session.observations {
        let text = serde_json::to_string(&**o).expect("an observation serialises");
        let named = text.contains(UID)
            || IDS.iter().any(|id| text.contains(id))
            || text.contains("s01/healthy");
        let keep = match &o.body {
            Body::Inventory(i) => named && i.items.len() == 1,
            Body::CallStart(c) => {
                if named {
                    keys.insert(c.key);
                }
                named
            }
            Body::CallEnd(c) => keys.contains(&c.key),
            _ => named || text.contains("\"ns\":\"s01\",\"n\":\"healthy\""),
        };
        if keep {
            lines.push(text);
        }
    }
    lines
}

/// Parses a line of [`recorded`].
pub(super) fn observation(line: &str) -> Observation {
    serde_json::from_str(line).expect("a recorded line parses")
}

/// Returns the life of the n-th pod, `later` nanoseconds after the recorded one, with a UID, name, ids, connections,
/// traces and resource versions of its own.
pub(super) fn copy(lines: &[String], n: u64, later: i64) -> Vec<Observation> {
    let uid = format!("{n:08x}-1ad8-496b-869a-7687fcb13acf");
    let name = format!("healthy-{n}");
    let conn = 10 + n as u32;
    lines
        .iter()
        .map(|line| {
            let mut text = line
                .replace(UID, &uid)
                .replace("s01/healthy", &format!("s01/{name}"))
                .replace("\"healthy\"", &format!("\"{name}\""));
            for id in IDS {
                text = text.replace(id, &format!("{n:016x}{}", &id[16..]));
            }
            let mut o = observation(&text);
            o.stamp.at = o.stamp.at + later;
            o.stamp.seen = o.stamp.seen + later;
            match &mut o.body {
                Body::CallStart(c) => {
                    c.key.conn = conn;
                    if let Some((trace, span)) = &mut c.traceparent {
                        trace.0 ^= u128::from(n) << 64;
                        span.0 ^= n << 32;
                    }
                }
                Body::CallEnd(c) => c.key.conn = conn,
                Body::Inventory(i) => i.key.conn = conn,
                Body::Pod(p) => {
                    p.created = p.created + later;
                    p.resource_version += n * 1000;
                }
                Body::Audit(a) => a.audit_id = format!("{n}-{}", a.audit_id).into(),
                _ => {}
            }
            o
        })
        .collect()
}
