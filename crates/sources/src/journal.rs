//! Removes what wraps a log line: the output forms of journalctl, and the container logs of CRI and docker.
//!
//! `Unwrap` recognises the form line by line, so that mixed input works. It returns the text that the program wrote,
//! with the wrapper's time where it has one. Forms: `journalctl -o short`, `short-precise`, `short-iso`,
//! `short-iso-precise`, `short-unix`, `short-full`, `json`, `export` (binary-safe), `cat` (nothing to remove);
//! `/var/log/pods` lines (`<time> stderr F <text>`); docker's `json-file`. Pure.

pub mod export;
pub mod file;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

use crate::logtext::{FIELDS_MAX, Pairs, Value};
use kflow_model::Nanos;
use kflow_model::stamp::MICRO;

/// Longest record that is assembled from parts, bytes; a longer one is cut.
const RECORD_MAX: usize = 1 << 20;

/// Longest name of a month or a day of the week in front of a line, bytes.
const MONTH: usize = 16;

/// Reason for lines of journalctl itself: `-- Boot … --`, `-- No entries --`.
const MARKER: &str = "journal marker";
/// Reason for a `null` text: `-o json` shows fields of more than 4 KiB as `null`.
const TOO_LONG: &str = "longer than journalctl shows without --all";
/// Reason for `[57B blob data]`, which the short forms show for a text with control characters or one
/// that is not UTF-8.
const BLOB: &str = "not printable: journalctl shows it with --all";

/// A line as the program wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The text; it has line feeds when a journal record has.
    pub(crate) text: Cow<'a, [u8]>,
    /// When journald or the container runtime received the line.
    pub(crate) received: Option<Nanos>,
    /// The writer: `SYSLOG_IDENTIFIER` and PID, or the stream of a container log; empty when the line is not wrapped.
    pub(crate) origin: Cow<'a, str>,
}

/// The result of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// A complete entry.
    Entry(Entry<'a>),
    /// Part of an entry that is not complete yet.
    Partial,
    /// A line of the wrapper itself, without an entry; holds its kind, a constant.
    Marker(&'static str),
}

/// State that spans lines: a record of `-o export`, a partial container log line.
#[derive(Debug, Default)]
pub(crate) struct Unwrap {
    export: Option<Export>,
    /// Pieces of a CRI log line that were marked `P`.
    pieces: Vec<u8>,
}

#[derive(Debug, Default)]
struct Export {
    message: Option<Vec<u8>>,
    received: Option<Nanos>,
    ident: String,
    pid: String,
    /// An incomplete binary field: its name, and the bytes so far with the length prefix.
    binary: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Unwrap {
    /// Takes one line without its line feed.
    pub(crate) fn line<'a>(&mut self, line: &'a [u8]) -> Step<'a> {
        match self.outer(line) {
            Step::Entry(e) => match supervised(&e.text) {
                Some((component, text)) => Step::Entry(Entry {
                    text: Cow::Owned(text.into_bytes()),
                    received: e.received,
                    origin: Cow::Owned(component.to_owned()),
                }),
                None => Step::Entry(e),
            },
            other => other,
        }
    }

    fn outer<'a>(&mut self, line: &'a [u8]) -> Step<'a> {
        if let Some(export) = &mut self.export {
            if line.is_empty() && export.binary.is_none() {
                return self.export_end();
            }
            export.line(line);
            return Step::Partial;
        }
        match line.first() {
            Some(b'{') => json(line),
            Some(b'_') if line.starts_with(b"__CURSOR=") => {
                self.export = Some(Export::default());
                Step::Partial
            }
            Some(b'-') if line.starts_with(b"-- ") => Step::Marker(MARKER),
            Some(c) if c.is_ascii_digit() => self.container_log(line),
            _ => syslog(line).unwrap_or_else(|| plain(line)),
        }
    }

    /// Ends the input and returns an incomplete entry: an export record need not be closed by an empty line.
    pub(crate) fn finish(&mut self) -> Step<'static> {
        if self.export.is_some() {
            return self.export_end();
        }
        if self.pieces.is_empty() {
            return Step::Marker(MARKER);
        }
        Step::Entry(Entry {
            text: Cow::Owned(std::mem::take(&mut self.pieces)),
            received: None,
            origin: Cow::Borrowed(""),
        })
    }

    fn export_end(&mut self) -> Step<'static> {
        let Some(e) = self.export.take() else {
            return Step::Marker(MARKER);
        };
        match e.message {
            None => Step::Marker("journal record without a message"),
            Some(message) => Step::Entry(Entry {
                text: Cow::Owned(message),
                received: e.received,
                origin: Cow::Owned(format!("{}[{}]", e.ident, e.pid)),
            }),
        }
    }

    /// Reads lines that begin with a digit: `<RFC 3339> stdout F text`, or `-o short-iso`, `short-unix`.
    fn container_log<'a>(&mut self, line: &'a [u8]) -> Step<'a> {
        let Some((time, rest)) = split(line) else {
            return plain(line);
        };
        let received = std::str::from_utf8(time).ok().and_then(wrapper_time);
        if received.is_none() {
            return syslog(line).unwrap_or_else(|| plain(line));
        }
        let Some((stream @ (b"stdout" | b"stderr"), tagged)) = split(rest) else {
            return after_time(rest, received).unwrap_or_else(|| {
                // `kubectl logs --timestamps`: the time, then the text itself.
                entry(rest, received, "")
            });
        };
        let origin = if stream == b"stdout" {
            "stdout"
        } else {
            "stderr"
        };
        let (tag, text) = split(tagged).unwrap_or((tagged, b""));
        if tag.starts_with(b"P") {
            if self.pieces.len() < RECORD_MAX {
                self.pieces.extend_from_slice(text);
            }
            return Step::Partial;
        }
        if self.pieces.is_empty() {
            return entry(text, received, origin);
        }
        let mut whole = std::mem::take(&mut self.pieces);
        whole.extend_from_slice(text);
        Step::Entry(Entry {
            text: Cow::Owned(whole),
            received,
            origin: Cow::Borrowed(origin),
        })
    }
}

impl Export {
    fn line(&mut self, line: &[u8]) {
        if let Some((name, data)) = self.binary.take() {
            // Line feeds inside the data, and inside the length itself, were taken for line ends: restores them.
            let mut data = match data {
                None => Vec::new(),
                Some(mut d) => {
                    d.push(b'\n');
                    d
                }
            };
            data.extend_from_slice(line);
            let done = match data.first_chunk::<8>() {
                None => data.len() > RECORD_MAX,
                Some(len) => {
                    let want = usize::try_from(u64::from_le_bytes(*len)).unwrap_or(RECORD_MAX);
                    data.len().saturating_sub(8) >= want.min(RECORD_MAX)
                }
            };
            if done {
                let value = data.get(8..).unwrap_or_default();
                self.field(&name, value);
            } else {
                self.binary = Some((name, Some(data)));
            }
            return;
        }
        match memchr::memchr(b'=', line) {
            Some(n) => {
                let (name, value) = line.split_at(n);
                self.field(name, value.get(1..).unwrap_or_default());
            }
            None => self.binary = Some((line.to_vec(), None)),
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let text = || String::from_utf8_lossy(value.get(..64).unwrap_or(value)).into_owned();
        match name {
            b"MESSAGE" if self.message.is_none() => self.message = Some(value.to_vec()),
            b"__REALTIME_TIMESTAMP" => self.received = micros(&text()),
            b"SYSLOG_IDENTIFIER" => self.ident = text(),
            b"_PID" => self.pid = text(),
            _ => {}
        }
    }
}

fn micros(s: &str) -> Option<Nanos> {
    s.parse::<i64>().ok()?.checked_mul(MICRO).map(Nanos)
}

fn plain(line: &[u8]) -> Step<'_> {
    entry(line, None, "")
}

fn entry<'a>(text: &'a [u8], received: Option<Nanos>, origin: &'a str) -> Step<'a> {
    Step::Entry(Entry {
        text: Cow::Borrowed(text),
        received,
        origin: Cow::Borrowed(origin),
    })
}

fn split(s: &[u8]) -> Option<(&[u8], &[u8])> {
    let n = memchr::memchr(b' ', s)?;
    let (a, b) = s.split_at(n);
    Some((a, b.get(1..)?))
}

/// Parses RFC 3339 (also with `+0000`), or seconds since the epoch with a fraction.
fn wrapper_time(s: &str) -> Option<Nanos> {
    if s.len() < 15 || s.len() > 40 {
        return None;
    }
    if let Some((secs, frac)) = s.split_once('.')
        && frac.len() <= 9
        && let (Ok(secs), Ok(frac_n)) = (secs.parse::<i64>(), frac.parse::<i64>())
    {
        let scale = 10_i64.checked_pow(9 - u32::try_from(frac.len()).ok()?)?;
        return Some(Nanos::from_secs(secs).plus(frac_n * scale));
    }
    Nanos::parse_rfc3339(s).map(|(t, _)| t).or_else(|| {
        // `+0000`, as systemd before v255 writes it
        let n = s.len().checked_sub(2)?;
        Nanos::parse_rfc3339(&format!("{}:{}", s.get(..n)?, s.get(n..)?)).map(|(t, _)| t)
    })
}

/// Who wrote a line of a journal that is printed in a short form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer<'a> {
    /// The host's name; empty with `--no-hostname`.
    pub host: &'a str,
    /// `SYSLOG_IDENTIFIER`, mostly the program's name; the component for a line that k0s wrote for one.
    pub ident: &'a str,
}

/// Returns who wrote a line; `None` for a line that is in no short form, such as one that continues an entry.
pub fn writer(line: &[u8]) -> Option<Writer<'_>> {
    parts(line).map(|(writer, _)| writer)
}

/// Returns who wrote a line in a short form, and what.
pub fn parts(line: &[u8]) -> Option<(Writer<'_>, &[u8])> {
    let dated = || {
        let (time, rest) = split(line)?;
        wrapper_time(std::str::from_utf8(time).ok()?)?;
        Some(rest)
    };
    let is_digit = line.first().is_some_and(u8::is_ascii_digit);
    let rest = is_digit.then(dated).flatten();
    let rest = rest.or_else(|| short(line).map(|(rest, _)| rest))?;
    let (host, origin, text) = written_by(rest)?;
    let ident = supervised(text).map(|(component, _)| component);
    let writer = Writer {
        host: std::str::from_utf8(host).ok()?,
        ident: ident.or_else(|| origin.split('[').next())?,
    };
    Some((writer, text))
}

/// Takes the line of a component out of that of k0s, which writes what its components write as a message with the
/// fields `component` and `stream` (k0s: `pkg/supervisor/supervisor.go`, `Supervise`). Returns the component and its line.
fn supervised(text: &[u8]) -> Option<(&str, String)> {
    if !text.starts_with(b"time=") {
        return None;
    }
    memchr::memmem::rfind(text, b" component=")?;
    let text = std::str::from_utf8(text).ok()?;
    let (mut message, mut component, mut stream) = (None, None, false);
    for (key, value) in Pairs(text).take(FIELDS_MAX) {
        match (key, value) {
            ("msg", Value::Text(v)) => message = Some(v.into_owned()),
            ("component", Value::Text(Cow::Borrowed(v))) => component = Some(v),
            ("stream", _) => stream = true,
            _ => {}
        }
    }
    Some((component?, message.filter(|_| stream)?))
}

/// Splits `host ident[pid]: text`, which follows the time in every short form; `--no-hostname` omits the host.
fn written_by(rest: &[u8]) -> Option<(&[u8], &str, &[u8])> {
    let (first, after) = split(rest)?;
    let (host, origin, text) = match first.strip_suffix(b":") {
        Some(origin) => (&b""[..], origin, after),
        None => {
            let (origin, text) = split(after).unwrap_or((after, b""));
            (first, origin.strip_suffix(b":")?, text)
        }
    };
    let plausible = origin
        .iter()
        .all(|c| c.is_ascii_alphanumeric() || b"-_.@/()[]\\".contains(c));
    if !plausible || origin.is_empty() {
        return None;
    }
    Some((host, std::str::from_utf8(origin).ok()?, text))
}

fn after_time(rest: &[u8], received: Option<Nanos>) -> Option<Step<'_>> {
    let (_, origin, text) = written_by(rest)?;
    if text.starts_with(b"[") && text.ends_with(b"B blob data]") {
        return Some(Step::Marker(BLOB));
    }
    Some(entry(text, received, origin))
}

/// Reads `Nov 21 00:24:19 host kubelet[3731]: text` (also with a fraction), and `Sat 2026-11-21 00:24:19 UTC host …`.
fn syslog(line: &[u8]) -> Option<Step<'_>> {
    let (rest, received) = short(line)?;
    after_time(rest, received)
}

/// Takes off the time in front of such a line. The name of the month is of any language: `ноя 21`, `11月 21`; `Thg 11 21`.
fn short(line: &[u8]) -> Option<(&[u8], Option<Nanos>)> {
    let (month, rest) = split(line)?;
    let of_name = |c: &u8| c.is_ascii_alphanumeric() || !c.is_ascii() || *c == b'.';
    let is_name = month.len() <= MONTH && month.iter().all(of_name);
    if !is_name || is_number(month) {
        return None;
    }
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let (day, rest) = split(rest)?;
    let (time, rest) = split(rest)?;
    let (day, time, rest) = if is_number(day) && is_number(time) {
        let (clock, rest) = split(rest)?;
        (time, clock, rest)
    } else {
        (day, time, rest)
    };
    if !is_clock(time) {
        return None;
    }
    if day.len() <= 2 {
        return Some((rest, None));
    }
    // short-full: date, time, zone name. Only a time in UTC can be used.
    let (zone, rest) = split(rest)?;
    let received = (zone == b"UTC")
        .then(|| {
            let text = format!(
                "{}T{}Z",
                std::str::from_utf8(day).ok()?,
                std::str::from_utf8(time).ok()?
            );
            Nanos::parse_rfc3339(&text).map(|(t, _)| t)
        })
        .flatten();
    Some((rest, received))
}

fn is_number(s: &[u8]) -> bool {
    !s.is_empty() && s.iter().all(u8::is_ascii_digit)
}

/// `00:24:19` with any fraction.
fn is_clock(s: &[u8]) -> bool {
    matches!(s, [a, b, b':', c, d, b':', e, f, ..] if [a, b, c, d, e, f].iter().all(|x| x.is_ascii_digit()))
}

#[derive(Deserialize)]
struct JournalJson<'a> {
    #[serde(borrow, rename = "MESSAGE")]
    message: &'a RawValue,
    #[serde(borrow, rename = "__REALTIME_TIMESTAMP", default)]
    received: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "SYSLOG_IDENTIFIER", default)]
    ident: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "_PID", default)]
    pid: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct DockerJson<'a> {
    #[serde(borrow)]
    log: Cow<'a, str>,
    #[serde(borrow)]
    stream: Cow<'a, str>,
    #[serde(borrow)]
    time: Cow<'a, str>,
}

/// Reads a JSON object: a journal record, a docker record, or what the program itself wrote.
fn json(line: &[u8]) -> Step<'_> {
    if memchr::memmem::find(line, b"\"MESSAGE\"").is_some()
        && let Ok(j) = serde_json::from_slice::<JournalJson<'_>>(line)
    {
        let raw = j.message.get();
        let text: Cow<'_, [u8]> = if let Ok(s) = serde_json::from_str::<String>(raw) {
            Cow::Owned(s.into_bytes())
        } else if let Ok(bytes) = serde_json::from_str::<Vec<u8>>(raw) {
            Cow::Owned(bytes)
        } else if let Some(first) = serde_json::from_str::<Vec<String>>(raw)
            .ok()
            .and_then(|v| v.into_iter().next())
        {
            // The field was set more than once: the first value counts.
            Cow::Owned(first.into_bytes())
        } else {
            // `null`
            return Step::Marker(TOO_LONG);
        };
        return Step::Entry(Entry {
            text,
            received: j.received.as_deref().and_then(micros),
            origin: Cow::Owned(format!(
                "{}[{}]",
                j.ident.as_deref().unwrap_or_default(),
                j.pid.as_deref().unwrap_or_default()
            )),
        });
    }
    if line.starts_with(b"{\"log\":")
        && let Ok(d) = serde_json::from_slice::<DockerJson<'_>>(line)
    {
        let text = d
            .log
            .strip_suffix('\n')
            .unwrap_or(&d.log)
            .as_bytes()
            .to_vec();
        return Step::Entry(Entry {
            text: Cow::Owned(text),
            received: wrapper_time(&d.time),
            origin: Cow::Owned(d.stream.into_owned()),
        });
    }
    plain(line)
}
