//! The lines of a session file.
//!
//! Within one version a reader skips what it does not know: an observation whose body or source has a name of a later
//! kflow is counted and left out, and an unknown field is ignored. A change that would make old readers *wrong* rather
//! than incomplete raises [`VERSION`].

use serde::{Deserialize, Serialize};
use std::io;

use super::redact::Redactor;
use crate::gap::Gap;
use crate::{Body, Nanos, Observation, Source, Stamp, Text};

/// The version of the format that this kflow writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// The first line of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format, at least 1.
    pub kflow: u32,
    /// Version of the kflow that wrote it.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub tool: Text,
    /// When the recording began; for an imported session the arrival of its first observation.
    #[serde(default)]
    pub created: Nanos,
    /// The node that was recorded, empty when it was a cluster or is not known.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub node: Text,
    /// Sources of an imported session; empty for a recording.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceInfo>,
    /// Remarks for people: how the session was made, and what is missing from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Text>,
    /// Position of the session in a run that was cut into segments; `None` when it is not a segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<Part>,
}

/// Position of a segment in its run. What follows the bound `from` in segment `n` + 1 arrived right after the last
/// observation of segment `n`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Part {
    /// Identifies the run: 16 hexadecimal digits, random except for a recording that was put into a store.
    pub run: Text,
    /// Rises by one from segment to segment, from 0. Where it rises by more, the segments in between are lost.
    pub n: u32,
}

/// A source as the header lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceInfo {
    /// Name of the source (`cri`, `kubelet`, …). It is text because a later kflow may have other sources.
    pub source: Text,
    /// What was read: the file name of an import; the socket or resource of a live source.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub name: Text,
    /// Number of observations from this source; of an import, also those that gave way to what other files say. `None` when the
    /// writer did not close the session with a count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observations: Option<u64>,
}

impl Header {
    /// Returns a header of this version without a node, sources and notes.
    pub fn new(created: Nanos) -> Self {
        Self {
            kflow: VERSION,
            tool: env!("CARGO_PKG_VERSION").into(),
            created,
            node: Text::default(),
            sources: Vec::new(),
            notes: Vec::new(),
            segment: None,
        }
    }

    /// Parses the first line. The error completes the sentence "not a kflow session: …".
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            kflow: u32,
            #[serde(default)]
            tool: Text,
        }
        let v: Version = serde_json::from_slice(line)
            .map_err(|_| "its first line has no \"kflow\" version".to_owned())?;
        if v.kflow > VERSION {
            // A later header may have another form: only the two fields that every version has are read.
            return Ok(Self {
                kflow: v.kflow,
                tool: v.tool,
                ..Self::new(Nanos::default())
            });
        }
        if v.kflow == 0 {
            return Err("version 0 does not exist".to_owned());
        }
        serde_json::from_slice(line).map_err(|e| format!("its header is damaged ({e})"))
    }

    /// Writes the first line with its line feed.
    pub fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

/// Begin or end of the time in which everything was recorded. A reader that does not know it skips it as an observation
/// of an unknown kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The observations before this line are the newest states of what existed when recording began.
    From,
    /// The recording was closed: nothing arrived between the last observation and this line.
    Until,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Observation(Observation),
    /// A begin or end of the recorded time, and when it was.
    Bound(Bound, Nanos),
    /// An observation of a kind or source that this kflow does not know, with the name of that kind or source.
    Unknown(String),
    /// Not a line of a session: it is damaged or cut.
    Malformed,
    /// An empty line.
    Blank,
}

/// The JSON of [`Observation`] as a struct that serde reads directly: a flattened struct is first read into a tree,
/// which costs more than the parsing.
#[derive(Deserialize)]
struct Wire {
    #[serde(rename = "t")]
    at: Nanos,
    #[serde(rename = "p", default = "one")]
    precision: u32,
    #[serde(rename = "s")]
    seen: Nanos,
    #[serde(rename = "src")]
    source: Source,
    #[serde(rename = "b")]
    body: Body,
}

const fn one() -> u32 {
    1
}

/// Decodes one line without its line feed.
pub fn decode(line: &[u8]) -> Line {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Line::Blank;
    }
    // Validates UTF-8 once for the whole line, and not for each string in it.
    let Ok(line) = std::str::from_utf8(line) else {
        return Line::Malformed;
    };
    match serde_json::from_str::<Wire>(line) {
        Ok(mut w) => {
            w.body.shrink();
            Line::Observation(Observation {
                stamp: Stamp::new(w.at, w.precision.max(1), w.seen),
                source: w.source,
                body: w.body,
            })
        }
        Err(_) => bound(line)
            .or_else(|| unknown_kind(line).map(Line::Unknown))
            .unwrap_or(Line::Malformed),
    }
}

#[derive(Serialize, Deserialize)]
struct BoundLine {
    t: Nanos,
    s: Nanos,
    src: Source,
    b: BoundBody,
}

#[derive(Serialize, Deserialize)]
struct BoundBody {
    recorded: Bound,
}

fn bound(line: &str) -> Option<Line> {
    let l: BoundLine = serde_json::from_str(line).ok()?;
    Some(Line::Bound(l.b.recorded, l.s))
}

/// Appends a bound and its line feed to `out`.
pub fn encode_bound(recorded: Bound, at: Nanos, out: &mut Vec<u8>) {
    let line = BoundLine {
        t: at,
        s: at,
        src: Source::Kflow,
        b: BoundBody { recorded },
    };
    let before = out.len();
    if serde_json::to_writer(&mut *out, &line).is_err() {
        out.truncate(before);
        return;
    }
    out.push(b'\n');
}

/// Returns the name of the line's body or source when this kflow does not know it; `None` when both are known or the
/// line is damaged.
fn unknown_kind(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Outer<'a> {
        src: Text,
        #[serde(borrow)]
        b: std::collections::BTreeMap<Text, &'a serde_json::value::RawValue>,
    }
    let o: Outer<'_> = serde_json::from_str(line).ok()?;
    let body = o.b.keys().next()?;
    if !KINDS.contains(&body.as_str()) {
        return Some(body.to_string());
    }
    let known = Source::ALL.iter().any(|s| s.name() == o.src);
    (!known).then(|| o.src.to_string())
}

/// Names of the bodies that this kflow knows (a test compares them with [`Body`]).
pub const KINDS: [&str; 20] = [
    "pod",
    "event",
    "node",
    "object",
    "watch",
    "call_start",
    "call_end",
    "container_event",
    "conn",
    "inventory",
    "pull",
    "runtime_event",
    "log",
    "audit",
    "span",
    "fs",
    "sample",
    "gap",
    "clock_step",
    "note",
];

/// Returns the name of a body in a session.
pub const fn kind(body: &Body) -> &'static str {
    match body {
        Body::Pod(_) => "pod",
        Body::Event(_) => "event",
        Body::Node(_) => "node",
        Body::Object(_) => "object",
        Body::Watch(_) => "watch",
        Body::CallStart(_) => "call_start",
        Body::CallEnd(_) => "call_end",
        Body::ContainerEvent(_) => "container_event",
        Body::Conn(_) => "conn",
        Body::Inventory(_) => "inventory",
        Body::Pull(_) => "pull",
        Body::RuntimeEvent(_) => "runtime_event",
        Body::Log(_) => "log",
        Body::Audit(_) => "audit",
        Body::Span(_) => "span",
        Body::Fs(_) => "fs",
        Body::Sample(_) => "sample",
        Body::Gap(_) => "gap",
        Body::ClockStep(_) => "clock_step",
        Body::Note(_) => "note",
    }
}

/// Appends an observation, redacted, and its line feed to `out`. Returns how many strings were changed by redaction. If
/// the observation cannot be serialised, or cannot be read back after redaction, a [`Gap`] is written in its place.
pub fn encode(o: &Observation, out: &mut Vec<u8>) -> u64 {
    let before = out.len();
    match write(o, out) {
        Some(0) => 0,
        Some(changed) if is_read(out.get(before..).unwrap_or_default()) => changed,
        _ => {
            out.truncate(before);
            write(&left_out(o), out).unwrap_or(0) + 1
        }
    }
}

fn write(o: &Observation, out: &mut Vec<u8>) -> Option<u64> {
    let before = out.len();
    let mut redactor = Redactor::default();
    let mut ser = serde_json::Serializer::with_formatter(&mut *out, &mut redactor);
    if o.serialize(&mut ser).is_err() {
        out.truncate(before);
        return None;
    }
    out.push(b'\n');
    Some(redactor.changed())
}

fn is_read(line: &[u8]) -> bool {
    matches!(decode(line.trim_ascii_end()), Line::Observation(_))
}

/// Returns the gap that replaces an observation that cannot be redacted.
fn left_out(o: &Observation) -> Observation {
    Observation {
        stamp: o.stamp,
        source: o.source,
        body: Body::Gap(Box::new(Gap {
            of: o.source,
            since: o.stamp.at,
            lost: 1,
            conn: 0,
            resource: crate::Text::default(),
            why: format!(
                "an observation ({}) could not be redacted, so it was left out",
                kind(&o.body)
            )
            .into(),
        })),
    }
}

/// Returns the observation as a session would hold it: unchanged when nothing in it looks like a credential. An
/// observation that cannot be read back is replaced by a [`Gap`].
///
/// An observation passes through here before it enters the world, so that a recording shows what was seen live.
pub fn redacted(o: Observation) -> Observation {
    let mut buf = Vec::with_capacity(512);
    if encode(&o, &mut buf) == 0 {
        return o;
    }
    match decode(buf.trim_ascii_end()) {
        Line::Observation(clean) => clean,
        Line::Bound(..) | Line::Unknown(_) | Line::Malformed | Line::Blank => left_out(&o),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gap::Note;

    fn note(text: &str) -> Observation {
        Observation {
            stamp: Stamp::exact(Nanos(7)),
            source: Source::Kflow,
            body: Body::Note(Box::new(Note { text: text.into() })),
        }
    }

    #[test]
    fn an_observation_survives_its_line() {
        let o = note("a \"quoted\" \u{1b}[31m text\nwith lines");
        let mut line = Vec::new();
        assert_eq!(encode(&o, &mut line), 0);
        assert_eq!(line.last(), Some(&b'\n'));
        assert_eq!(memchr::memchr_iter(b'\n', &line).count(), 1);
        assert_eq!(decode(line.trim_ascii_end()), Line::Observation(o));
    }

    #[test]
    fn lines_equal_the_models_own_serialisation() {
        let o = note("x");
        let mut line = Vec::new();
        encode(&o, &mut line);
        assert_eq!(line.trim_ascii_end(), serde_json::to_vec(&o).unwrap());
    }

    #[test]
    fn a_bound_survives_its_line_and_is_an_unknown_kind_for_who_does_not_know_it() {
        for b in [Bound::From, Bound::Until] {
            let mut line = Vec::new();
            encode_bound(b, Nanos(7), &mut line);
            assert_eq!(decode(line.trim_ascii_end()), Line::Bound(b, Nanos(7)));
            let line = std::str::from_utf8(&line).unwrap();
            assert_eq!(unknown_kind(line), Some("recorded".to_owned()));
        }
    }

    #[test]
    fn an_unknown_body_is_skipped_by_name() {
        let l = br#"{"t":1,"s":1,"src":"cri","b":{"hologram":{"x":1}}}"#;
        assert_eq!(decode(l), Line::Unknown("hologram".into()));
    }

    #[test]
    fn an_unknown_source_is_skipped_by_name() {
        let l = br#"{"t":1,"s":1,"src":"ebpf","b":{"note":{"text":"x"}}}"#;
        assert_eq!(decode(l), Line::Unknown("ebpf".into()));
    }

    #[test]
    fn a_known_body_with_a_wrong_content_is_malformed() {
        let l = br#"{"t":1,"s":1,"src":"cri","b":{"note":{"text":5}}}"#;
        assert_eq!(decode(l), Line::Malformed);
        assert_eq!(decode(br#"{"t":1,"s":1,"src":"cr"#), Line::Malformed);
        assert_eq!(decode(b"  "), Line::Blank);
    }

    #[test]
    fn an_unknown_field_is_ignored() {
        let l = br#"{"t":1,"s":1,"src":"kflow","colour":"red","b":{"note":{"text":"x"}}}"#;
        assert!(matches!(decode(l), Line::Observation(_)));
    }

    #[test]
    fn a_newer_header_is_read_only_as_far_as_needed_to_refuse_it() {
        let h = Header::parse(br#"{"kflow":9,"tool":"4.0.0","sources":"somewhere"}"#).unwrap();
        assert_eq!((h.kflow, h.tool.as_str()), (9, "4.0.0"));
        assert!(Header::parse(b"{}").is_err());
        assert!(Header::parse(br#"{"kflow":0}"#).is_err());
        assert!(Header::parse(b"I1121 00:24:19").is_err());
    }

    #[test]
    fn a_header_of_version_1_needs_nothing_but_the_version() {
        assert_eq!(Header::parse(br#"{"kflow":1}"#).unwrap().kflow, 1);
    }

    #[test]
    fn every_known_kind_is_named_as_serde_names_it() {
        let o = note("x");
        let v = serde_json::to_value(&o.body).unwrap();
        assert!(v.get(kind(&o.body)).is_some());
        // For a tag that serde knows the error differs from that for an unknown tag.
        for k in KINDS {
            let e = serde_json::from_str::<Body>(&format!("{{\"{k}\":null}}"))
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default();
            assert!(!e.contains("unknown variant"), "{k}: {e}");
        }
    }
}
