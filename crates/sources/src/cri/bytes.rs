//! The tap's byte log: one JSON object a line, `{"t":ns,"conn":n,"dir":"open|c2s|s2c|close","b64":"…"}`.
//!
//! `open` has the peer's `pid` when it is known, and its `peer`. `close` has `half` (`c2s`, `s2c`, or `backend` when
//! the runtime could not be reached) and `why`; a `close` without `half` is the connection's last line.

use std::borrow::Cow;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::{Fed, LineDecoder};
use kflow_cri::{Counters, Decoder, Direction};
use kflow_model::{Nanos, Observation};

/// One line of the log.
#[derive(Debug, Deserialize, Serialize)]
struct Line<'a> {
    t: i64,
    conn: u32,
    #[serde(borrow)]
    dir: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    b64: &'a str,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    peer: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    half: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    why: Cow<'a, str>,
}

/// Decodes a byte log.
#[derive(Default)]
pub struct ByteLog {
    decoder: Decoder,
    chunk: Vec<u8>,
}

impl ByteLog {
    /// At the beginning of a log.
    pub fn new() -> Self {
        Self::default()
    }

    /// What went through so far.
    pub fn counters(&self) -> Counters {
        self.decoder.counters()
    }
}

impl LineDecoder for ByteLog {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        if line.trim_ascii().is_empty() {
            return Fed::Ignored("empty line");
        }
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else {
            return Fed::Malformed("not a line of a byte log");
        };
        let (at, conn) = (Nanos(line.t), line.conn);
        let before = out.len();
        let decoder = &mut self.decoder;
        match (&*line.dir, &*line.half) {
            ("open", _) => decoder.open(conn, at, line.pid.unwrap_or(0), &line.peer, out),
            ("c2s" | "s2c", _) => {
                self.chunk.clear();
                if STANDARD.decode_vec(line.b64, &mut self.chunk).is_err() {
                    // Later bytes cannot be understood without these.
                    decoder.lose(conn, at, 1, "a chunk of the byte log is damaged", out);
                    return Fed::Malformed("bad base64");
                }
                let direction = if line.dir == "c2s" {
                    Direction::ClientToServer
                } else {
                    Direction::ServerToClient
                };
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

/// What a tap records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A connection was accepted; `pid` is 0 and `peer` empty when unknown.
    Open {
        /// Peer's process id.
        pid: u32,
        /// Peer's program.
        peer: &'a str,
    },
    /// A chunk passed.
    Chunk(Direction, &'a [u8]),
    /// The connection, or one half of it, closed.
    Close {
        /// The half, `None` for all of it.
        half: Option<Direction>,
        /// Why, empty for an orderly end.
        why: &'a str,
    },
}

/// Appends a line, with its line feed, of the log that [`ByteLog`] reads.
pub fn write_record(conn: u32, at: Nanos, record: Record<'_>, out: &mut Vec<u8>) {
    let name = |d| match d {
        Direction::ClientToServer => "c2s",
        Direction::ServerToClient => "s2c",
    };
    let mut line = Line {
        t: at.0,
        conn,
        dir: "".into(),
        b64: "",
        pid: None,
        peer: "".into(),
        half: "".into(),
        why: "".into(),
    };
    let coded;
    match record {
        Record::Open { pid, peer } => {
            line.dir = "open".into();
            line.pid = (pid != 0).then_some(pid);
            line.peer = peer.into();
        }
        Record::Chunk(direction, bytes) => {
            line.dir = name(direction).into();
            coded = STANDARD.encode(bytes);
            line.b64 = &coded;
        }
        Record::Close { half, why } => {
            line.dir = "close".into();
            line.half = half.map_or("", name).into();
            line.why = why.into();
        }
    }
    // Neither can fail: the map has text keys, and a vector takes everything.
    if serde_json::to_writer(&mut *out, &line).is_ok() {
        out.write_all(b"\n").ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::Body;

    #[test]
    fn what_is_written_is_read_again() {
        let mut log = Vec::new();
        write_record(
            7,
            Nanos(1),
            Record::Open {
                pid: 42,
                peer: "kube\"let",
            },
            &mut log,
        );
        let chunk = Record::Chunk(Direction::ClientToServer, b"PRI * HTTP/2.0\r\n");
        write_record(7, Nanos(2), chunk, &mut log);
        let half = Record::Close {
            half: Some(Direction::ClientToServer),
            why: "eof",
        };
        write_record(7, Nanos(3), half, &mut log);
        let end = Record::Close {
            half: None,
            why: "",
        };
        write_record(7, Nanos(4), end, &mut log);
        let (mut decoder, mut out) = (ByteLog::new(), Vec::new());
        for line in log.split(|b| *b == b'\n') {
            let fed = decoder.line(line, &mut out);
            assert!(!matches!(fed, Fed::Malformed(_)), "{fed:?}");
        }
        let conns: Vec<_> = out
            .iter()
            .map(|o| match &o.body {
                Body::Conn(c) => (o.stamp.at.0, c.open, c.pid, c.peer.as_str(), c.why.as_str()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            conns,
            [
                (1, true, 42, "kube\"let", ""),
                (4, false, 42, "kube\"let", "the client closed")
            ]
        );
    }

    #[test]
    fn what_is_no_line_of_a_byte_log_is_malformed_and_a_damaged_chunk_blinds_its_connection() {
        let (mut log, mut out) = (ByteLog::new(), Vec::new());
        assert_eq!(
            log.line(b"{", &mut out),
            Fed::Malformed("not a line of a byte log")
        );
        assert_eq!(log.line(b"", &mut out), Fed::Ignored("empty line"));
        assert_eq!(
            log.line(br#"{"t":1,"conn":1,"dir":"up"}"#, &mut out),
            Fed::Malformed("unknown dir")
        );
        log.line(br#"{"t":1,"conn":1,"dir":"open","pid":null}"#, &mut out);
        assert_eq!(
            log.line(br#"{"t":2,"conn":1,"dir":"c2s","b64":"?"}"#, &mut out),
            Fed::Malformed("bad base64")
        );
        assert!(matches!(&out.last().expect("one").body, Body::Gap(g) if g.conn == 1));
        assert_eq!(
            log.line(br#"{"t":3,"conn":1,"dir":"c2s","b64":"AAAA"}"#, &mut out),
            Fed::Ignored("chunk of a connection that cannot be followed")
        );
    }

    #[test]
    fn a_runtime_that_cannot_be_reached_closes_the_connection() {
        let (mut log, mut out) = (ByteLog::new(), Vec::new());
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
