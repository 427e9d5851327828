//! JSON logging (`--logging-format=json`), and the zap lines that the etcd client writes beside it.

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

use super::record::Record;
use kflow_model::Nanos;
use kflow_model::log::{Component, LogLine, Severity};
use kflow_model::stamp::MILLI;

/// Fields of an object in the order of the line: `serde_json::Map` would sort them.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut v = Vec::with_capacity(16);
                while let Some(entry) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    v.push((entry.0.0, entry.1));
                }
                Ok(Fields(v))
            }
        }
        d.deserialize_map(V)
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Why a JSON line is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It does not parse: cut, or not JSON.
    Broken,
    /// An object without `ts` and `msg`.
    NotALog,
    /// A line that says nothing that kflow uses, with the reason.
    Noise(&'static str),
}

/// Reads one JSON line: returns its time, the precision of the time in ns, and the log line.
pub(super) fn parse(
    line: &str,
    component: Component,
    noise: impl Fn(&str, &str) -> Option<&'static str>,
) -> Result<(Nanos, u32, LogLine), Refused> {
    let Fields(fields) = serde_json::from_str(line).map_err(|_| Refused::Broken)?;
    let find = |key: &str| fields.iter().find(|(k, _)| k == key).map(|(_, v)| v.get());
    let (at, precision) = find("ts").and_then(time).ok_or(Refused::NotALog)?;
    let message = text(find("msg").ok_or(Refused::NotALog)?);
    let caller = text(find("caller").unwrap_or_default());
    let location = caller.rsplit_once('/').map_or(caller.as_ref(), |(_, f)| f);
    if let Some(reason) = noise(location, &message) {
        return Err(Refused::Noise(reason));
    }
    let mut record = Record::new(component, Severity::Info, location);
    record.message(&message);
    let (mut verbosity, mut level, mut plain) = (false, None, true);
    for (key, value) in &fields {
        match key.as_ref() {
            "ts" | "msg" | "caller" => {}
            "v" => verbosity = true,
            "level" => {
                level = Some(match text(value.get()).as_ref() {
                    "warn" | "warning" => Severity::Warning,
                    "error" | "dpanic" | "panic" => Severity::Error,
                    "fatal" => Severity::Fatal,
                    _ => Severity::Info,
                });
            }
            key => {
                plain = false;
                record.put(key, reference(value.get()));
            }
        }
    }
    // JSON logging writes no severity: info lines have a verbosity, error lines have none.
    record.severity(level.unwrap_or(if verbosity {
        Severity::Info
    } else {
        Severity::Error
    }));
    if plain {
        record.prose();
    }
    Ok((at, precision, record.into_line()))
}

/// A JSON value as text: strings unquoted, the rest as it stands.
fn text(raw: &str) -> Cow<'_, str> {
    if raw.starts_with('"') {
        match serde_json::from_str::<Key<'_>>(raw) {
            Ok(Key(Cow::Borrowed(s))) => Cow::Borrowed(s),
            Ok(Key(Cow::Owned(s))) => Cow::Owned(s),
            Err(_) => Cow::Borrowed(raw),
        }
    } else {
        Cow::Borrowed(raw)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reference<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
}

/// Like [`text`], with object references in the form of text logs: `ns/name`.
fn reference(raw: &str) -> Cow<'_, str> {
    if raw.starts_with("{\"name\"")
        && let Ok(r) = serde_json::from_str::<Reference<'_>>(raw)
    {
        return if r.namespace.is_empty() {
            Cow::Owned(r.name.into_owned())
        } else {
            Cow::Owned(format!("{}/{}", r.namespace, r.name))
        };
    }
    text(raw)
}

/// `ts`: milliseconds since the epoch as a decimal number, or RFC 3339. The number went through a float of 64 bits,
/// so that digits below the microsecond are noise: the precision is one microsecond however many there are.
fn time(raw: &str) -> Option<(Nanos, u32)> {
    if raw.starts_with('"') {
        return Nanos::parse_rfc3339(&text(raw));
    }
    let (whole, frac) = raw.split_once('.').unwrap_or((raw, ""));
    let Ok(ms) = whole.parse::<i64>() else {
        return None;
    };
    if !frac.bytes().all(|b| b.is_ascii_digit()) {
        // `1.79e12`, as other tools rewrite it: no digits beyond those of a float are left.
        let ms: f64 = raw.parse().ok()?;
        return Some((Nanos((ms * 1e6) as i64), 1_000));
    }
    let mut sub = 0_i64;
    for i in 0..6 {
        let digit = frac.as_bytes().get(i).map_or(0, |b| i64::from(b - b'0'));
        sub = sub * 10 + digit;
    }
    Some((Nanos(ms.checked_mul(MILLI)?.checked_add(sub)?), 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<(Nanos, u32, LogLine), Refused> {
        parse(line, Component::Kubelet, |_, _| None)
    }

    #[test]
    fn a_real_line_keeps_its_microseconds_and_its_pod() {
        let (at, precision, l) = read(r#"{"ts":1795222037462.8926,"caller":"kuberuntime/kuberuntime_container.go:894","msg":"Killing container with a grace period override","v":3,"pod":{"name":"deleted-while-down","namespace":"s27"},"podUID":"30a066f5-bbae-458a-9a66-bddbeae60b73","containerName":"c","containerID":"containerd://8c8f598869befa74bbac7d11efa0b0917d43acf14bacdc655df32068d0c2067a","gracePeriod":2}"#).unwrap();
        assert_eq!((at.0, precision), (1_795_222_037_462_892_600, 1_000));
        assert_eq!(l.severity, Severity::Info);
        assert_eq!(l.location, "kuberuntime_container.go:894");
        assert_eq!(l.pod.name, "deleted-while-down");
        assert_eq!(l.pod.namespace, "s27");
        assert_eq!(l.pod.uid.as_str(), "30a066f5-bbae-458a-9a66-bddbeae60b73");
        assert_eq!(l.container, "c");
        assert_eq!(
            l.container_id.as_str(),
            "8c8f598869befa74bbac7d11efa0b0917d43acf14bacdc655df32068d0c2067a"
        );
        assert_eq!(l.fields, [("gracePeriod".into(), "2".into())]);
    }

    #[test]
    fn a_line_without_verbosity_is_an_error_unless_it_has_a_level() {
        assert_eq!(
            read(r#"{"ts":1.0,"msg":"m","err":"e"}"#)
                .unwrap()
                .2
                .severity,
            Severity::Error
        );
        let (at, precision, l) = read(r#"{"level":"warn","ts":"2026-11-21T01:01:04.894528Z","logger":"etcd-client","caller":"v3@v3.6.8/retry_interceptor.go:65","msg":"retrying of unary invoker failed"}"#).unwrap();
        assert_eq!(
            (l.severity, l.location.as_str()),
            (Severity::Warning, "retry_interceptor.go:65")
        );
        assert_eq!((at.0, precision), (1_795_222_864_894_528_000, 1_000));
    }

    #[test]
    fn objects_that_are_no_log_lines_are_refused() {
        assert_eq!(read("{}").unwrap_err(), Refused::NotALog);
        assert_eq!(read(r#"{"ts":1,"msg":"#).unwrap_err(), Refused::Broken);
        assert_eq!(
            read(r#"{"ts":1.5,"caller":"x"}"#).unwrap_err(),
            Refused::NotALog
        );
    }
}
