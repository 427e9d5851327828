//! The tap's byte log: one JSON object a line, `{"t":ns,"conn":n,"dir":"open|c2s|s2c|close","b64":"…"}`.
//!
//! `open` has the peer's `pid` when it is known, and its `peer`. `close` has `half` (`c2s`, `s2c`, or `backend` when
//! the runtime could not be reached) and `why`; a `close` without `half` is the connection's last line.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use kflow_cri::{Decoder, Direction, Lost};
use kflow_model::{Nanos, Observation};
use kflow_sources::{Fed, LineDecoder};

/// Reads a byte log.
#[derive(Default)]
pub(crate) struct ByteLog {
    decoder: Decoder,
    chunk: Vec<u8>,
}

#[derive(Deserialize)]
struct Line<'a> {
    t: i64,
    conn: u32,
    #[serde(borrow)]
    dir: Cow<'a, str>,
    #[serde(borrow, default)]
    b64: &'a str,
    #[serde(default)]
    pid: Option<u32>,
    #[serde(borrow, default)]
    peer: Cow<'a, str>,
    #[serde(borrow, default)]
    half: Cow<'a, str>,
    #[serde(borrow, default)]
    why: Cow<'a, str>,
}

impl LineDecoder for ByteLog {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else {
            return Fed::Malformed("not a line of a byte log");
        };
        let (at, conn) = (Nanos(line.t), line.conn);
        let before = out.len();
        let decoder = &mut self.decoder;
        match (&*line.dir, &*line.half) {
            ("open", _) => decoder.open(conn, at, line.pid.unwrap_or(0), &line.peer, out),
            ("c2s" | "s2c", _) => {
                let direction = if line.dir == "c2s" {
                    Direction::ClientToServer
                } else {
                    Direction::ServerToClient
                };
                self.chunk.clear();
                if STANDARD.decode_vec(line.b64, &mut self.chunk).is_err() {
                    let lost = Lost {
                        chunks: 1,
                        bytes: None,
                    };
                    let why = "a chunk of the byte log is damaged";
                    decoder.lose(conn, Some(direction), at, lost, why, out);
                    return Fed::Malformed("bad base64");
                }
                let unread = decoder.counters().unread_chunks;
                decoder.feed(conn, direction, at, &self.chunk, out);
                if decoder.counters().unread_chunks > unread && out.len() == before {
                    return Fed::Ignored("chunk of a connection that cannot be followed");
                }
            }
            ("close", "c2s") => {
                decoder.close(conn, Some(Direction::ClientToServer), at, &line.why, out);
            }
            ("close", "s2c") => {
                decoder.close(conn, Some(Direction::ServerToClient), at, &line.why, out);
            }
            ("close", "backend") => {
                let why = format!("the runtime cannot be reached: {}", line.why);
                decoder.close(conn, None, at, &why, out);
            }
            ("close", _) => decoder.close(conn, None, at, &line.why, out),
            _ => return Fed::Malformed("unknown dir"),
        }
        Fed::Observed(out.len() - before)
    }

    fn finish(&mut self, out: &mut Vec<Observation>) -> Fed {
        let before = out.len();
        self.decoder.finish(out);
        Fed::Observed(out.len() - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::Body;

    #[test]
    fn what_is_no_line_of_a_byte_log_is_malformed_and_a_damaged_chunk_is_told_as_a_gap() {
        let (mut log, mut out) = (ByteLog::default(), Vec::new());
        assert_eq!(
            log.line(b"{", &mut out),
            Fed::Malformed("not a line of a byte log")
        );
        assert_eq!(
            log.line(br#"{"t":1,"conn":1,"dir":"up"}"#, &mut out),
            Fed::Malformed("unknown dir")
        );
        log.line(br#"{"t":1,"conn":1,"dir":"open","pid":null}"#, &mut out);
        assert_eq!(
            log.line(br#"{"t":2,"conn":1,"dir":"c2s","b64":"?"}"#, &mut out),
            Fed::Malformed("bad base64")
        );
        assert!(
            out.iter()
                .any(|o| matches!(&o.body, Body::Gap(g) if g.conn == 1 && g.lost == 1))
        );
        assert_eq!(
            log.line(br#"{"t":3,"conn":1,"dir":"c2s","b64":"AAAA"}"#, &mut out),
            Fed::Observed(0),
            "what comes next is searched for a frame"
        );
    }

    #[test]
    fn a_runtime_that_cannot_be_reached_closes_the_connection() {
        let (mut log, mut out) = (ByteLog::default(), Vec::new());
        log.line(br#"{"t":1,"conn":9,"dir":"open","pid":3}"#, &mut out);
        log.line(
            br#"{"t":2,"conn":9,"dir":"close","half":"backend","why":"ConnectionRefusedError(111, 'x')"}"#,
            &mut out,
        );
        assert!(
            matches!(&out.last().expect("one").body, Body::Conn(c) if !c.open && c.why.contains("ConnectionRefused"))
        );
    }
}
