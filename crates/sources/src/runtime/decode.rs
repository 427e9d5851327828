//! Decodes lines of a log into [`LogLine`] observations.

#[cfg(test)]
mod tests;

use serde_json::Value as Json;
use std::borrow::Cow;

use crate::journal::{Step, Unwrap};
use crate::logtext::{
    self, FIELD_MAX, FIELDS_MAX, MESSAGE_MAX, Pairs, Value, bare_id, cut, cut_error, is_hex_id,
};
use crate::{Fed, LineDecoder};
use kflow_model::log::{Component, LogLine, Severity};
use kflow_model::stamp::{MICRO, SECOND};
use kflow_model::{Body, Nanos, Observation, PodRef, Source, Stamp, Text};

/// Reason for ignoring an event that containerd drops: no client listens to events.
pub const UNHEARD: &str = "container event without a listener";

/// Decodes the log of a container runtime.
///
/// Sandbox ids go into the field `sandbox`, container ids into `container_id`: a message has one or both, and its
/// words (`StopPodSandbox for "…"`) say which. `RunPodSandbox … returns sandbox id` is the line that joins a pod and
/// a sandbox.
#[derive(Debug)]
pub struct RuntimeDecoder {
    component: Component,
    unwrap: Unwrap,
    /// The time of the newest line that has one.
    last: Option<Nanos>,
}

impl RuntimeDecoder {
    /// A decoder for the log of `component`: `Containerd` or `Crio`.
    pub fn new(component: Component) -> Self {
        Self {
            component,
            unwrap: Unwrap::default(),
            last: None,
        }
    }

    fn text(&mut self, line: &[u8], received: Option<Nanos>, out: &mut Vec<Observation>) -> Fed {
        let ends = received.or(self.last).zip(last_words(line, self.component));
        let Some((at, words)) = ends else {
            let before = out.len();
            let fed = logrus(self.component, line, received, out);
            let read = out.get(before..).unwrap_or_default();
            self.last = read.last().map(|o| o.stamp.at).or(self.last);
            return fed;
        };
        let words = cut(&String::from_utf8_lossy(words), MESSAGE_MAX);
        let log = LogLine::new(self.component, Severity::Fatal, words);
        out.push(Observation {
            stamp: Stamp::new(at, received.map_or(SECOND, |_| MICRO) as u32, at),
            source: Source::Runtime,
            body: Body::Log(Box::new(log)),
        });
        Fed::Observed(1)
    }
}

/// The words with which a runtime ends, where they are none of logrus's: a panic of Go's (runtime/panic.go, `printpanics`, `throw`), or
/// the error with which its `main` returns (containerd/containerd cmd/containerd/main.go).
fn last_words(line: &[u8], component: Component) -> Option<&[u8]> {
    let of_main = || {
        let rest = line.strip_prefix(component.program().as_bytes())?;
        rest.strip_prefix(b": ").filter(|e| !e.is_empty())
    };
    let panics = line.starts_with(b"panic: ") || line.starts_with(b"fatal error: ");
    if panics { Some(line) } else { of_main() }
}

/// Decodes one line of logrus, text or JSON, that `component` wrote.
pub(crate) fn logrus(
    component: Component,
    line: &[u8],
    received: Option<Nanos>,
    out: &mut Vec<Observation>,
) -> Fed {
    let line = String::from_utf8_lossy(line);
    let fields: Vec<(Cow<'_, str>, Cow<'_, str>)> = if line.starts_with('{') {
        let Ok(Json::Object(map)) = serde_json::from_str::<Json>(&line) else {
            return Fed::Malformed("JSON that does not parse");
        };
        map.into_iter()
            .map(|(k, v)| match v {
                Json::String(s) => (Cow::Owned(k), Cow::Owned(s)),
                other => (Cow::Owned(k), Cow::Owned(other.to_string())),
            })
            .collect()
    } else if line.starts_with("time=") {
        let mut fields = Vec::new();
        for (key, value) in Pairs(&line).take(FIELDS_MAX) {
            match value {
                Value::Text(v) => fields.push((Cow::Borrowed(key), v)),
                Value::Nested(v) => fields.push((Cow::Borrowed(key), Cow::Borrowed(v))),
                Value::Block => {}
                // What a program ends with is worth its beginning.
                Value::Cut if key == "msg" && field(&fields, "level").is_some_and(is_fatal) => {
                    let (_, words) = line.split_once(" msg=\"").unwrap_or_default();
                    fields.push((Cow::Borrowed(key), Cow::Borrowed(words.trim_end())));
                }
                Value::Cut if key == "msg" || key == "time" => {
                    return Fed::Malformed("line cut inside its message");
                }
                Value::Cut => {}
            }
        }
        fields
    } else if line.trim().is_empty() {
        return Fed::Ignored("empty line");
    } else {
        // klog lines of libraries inside containerd say nothing that the CRI responses do not.
        return Fed::Ignored("not a logrus line");
    };
    let Some((at, precision)) = field(&fields, "time").and_then(time) else {
        return Fed::Malformed("no time");
    };
    let Some(message) = field(&fields, "msg") else {
        return Fed::Malformed("no message");
    };
    if message.starts_with("container event discarded") {
        // Written for every event while no client calls GetContainerEvents, so for all events on most nodes;
        // after a restart of containerd, for all containers that ever existed.
        return Fed::Ignored(UNHEARD);
    }
    let log = record(component, message, &fields);
    out.push(Observation {
        stamp: Stamp::new(at, precision, received.map_or(at, |r| r.max(at))),
        source: component.source(),
        body: Body::Log(Box::new(log)),
    });
    Fed::Observed(1)
}

fn is_fatal(level: &str) -> bool {
    matches!(level, "fatal" | "panic")
}

fn record(component: Component, message: &str, fields: &[(Cow<'_, str>, Cow<'_, str>)]) -> LogLine {
    let level = field(fields, "level").unwrap_or("info");
    let severity = match level {
        "warning" | "warn" => Severity::Warning,
        "error" => Severity::Error,
        level if is_fatal(level) => Severity::Fatal,
        _ => Severity::Info,
    };
    let mut line = LogLine::new(component, severity, cut(message, MESSAGE_MAX));
    let mut kept = Vec::new();
    let ids = ids(message);
    line.pod = ids.pod;
    line.container = ids.container.into();
    if let Some(id) = ids.container_id {
        line.container_id = id.into();
    }
    if let Some(id) = ids.sandbox {
        kept.push((Text::new("sandbox"), id.into()));
    }
    if let Some(n) = ids.attempt {
        kept.push((Text::new("attempt"), n.into()));
    }
    for (key, value) in fields {
        match key.as_ref() {
            "time" | "level" | "msg" => {}
            "error" | "err" => line.error = cut_error(value).into(),
            "container" | "containerID" | "container_id" if line.container_id.is_empty() => {
                match bare_id(value) {
                    Some(id) => line.container_id = id.into(),
                    None => push(&mut kept, key, value),
                }
            }
            _ => push(&mut kept, key, value),
        }
    }
    line.fields = kept.into();
    line
}

fn push(fields: &mut Vec<(Text, Text)>, key: &str, value: &str) {
    let value = logtext::field(key, value, FIELD_MAX);
    if fields.len() < FIELDS_MAX {
        fields.push((cut(key, 128), value));
    }
}

fn field<'a>(fields: &'a [(Cow<'_, str>, Cow<'_, str>)], key: &str) -> Option<&'a str> {
    fields
        .iter()
        .find(|(k, _)| k == key)
        .map(|(_, v)| v.as_ref())
}

/// Parses RFC 3339; CRI-O writes a space for the `T`. Trailing zeros are not written, so a time with a fraction is
/// exact to the nanosecond, whatever the number of its digits.
fn time(s: &str) -> Option<(Nanos, u32)> {
    let parsed = Nanos::parse_rfc3339(s).or_else(|| Nanos::parse_rfc3339(&s.replacen(' ', "T", 1)));
    parsed.map(|(t, p)| (t, if p < 1_000_000_000 { 1 } else { p }))
}

/// The pod, sandbox and container that a message names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ids<'a> {
    pod: PodRef,
    sandbox: Option<&'a str>,
    container: &'a str,
    container_id: Option<&'a str>,
    attempt: Option<&'a str>,
}

/// Reads the ids out of the messages of containerd's CRI plugin and of CRI-O.
fn ids(m: &str) -> Ids<'_> {
    let mut ids = Ids::default();
    let (of_container, fields) = metadata(m);
    for (key, value) in fields {
        match key {
            "Name" | "name" if of_container => ids.container = value,
            "Name" | "name" => ids.pod.name = value.into(),
            "Namespace" | "namespace" => ids.pod.namespace = value.into(),
            "Uid" | "uid" => ids.pod.uid = value.into(),
            "Attempt" | "attempt" => ids.attempt = Some(value),
            _ => {}
        }
    }
    let hex = |open: &str| between(m, open, "\"").filter(|id| is_hex_id(id));
    ids.sandbox = hex("returns sandbox id \"")
        .or_else(|| hex("within sandbox \""))
        .or_else(|| hex("sandbox_id:\""))
        .or_else(|| hex("for sandbox \""))
        .or_else(|| hex("Forcibly stopping sandbox \""));
    ids.container_id = hex("returns container id \"")
        .or_else(|| hex("container_id:\""))
        .or_else(|| hex("ontainer \""))
        .or_else(|| hex("ontainer to stop \""));
    // `Verb for "id"` and `Verb "id" returns`: the verb says to what the id belongs.
    let (verb, rest) = m.split_once(' ').unwrap_or((m, ""));
    let id = rest
        .strip_prefix("for ")
        .unwrap_or(rest)
        .strip_prefix('"')
        .and_then(|r| r.split_once('"'))
        .map(|(id, _)| id)
        .filter(|id| is_hex_id(id));
    if verb.ends_with("PodSandbox") || verb == "PodSandboxStatus" || verb == "Portforward" {
        ids.sandbox = ids.sandbox.or(id);
    } else if verb != "CreateContainer" && !verb.starts_with("Forcibly") {
        ids.container_id = ids.container_id.or(id);
    }
    // `received sandbox exit event container_id:"x" id:"x"`: the sandbox's own pause container.
    if m.starts_with("received sandbox") && ids.sandbox.is_none() {
        ids.sandbox = ids.container_id.take();
    }
    if ids.pod.is_empty() {
        crio(m, &mut ids);
    }
    ids
}

/// Returns the fields of the sandbox's or the container's metadata in a message of containerd, and whether they are a
/// container's: `RunPodSandbox for METADATA…`, `CreateContainer within sandbox "id" for METADATA…`, once `for container
/// METADATA`. Until containerd 2.1 it is `&PodSandboxMetadata{Name:web-0,Uid:…,Namespace:shop,Attempt:0,}`. From 2.2 on
/// it is protobuf's text, `name:"web-0" uid:"…" namespace:"shop" attempt:1`: one space between fields or two, as the
/// program was built (google.golang.org/protobuf: internal/detrand), and no attempt where it is the first, 0.
fn metadata(m: &str) -> (bool, Vec<(&str, &str)>) {
    let of_container = m.starts_with("CreateContainer within sandbox ");
    let meta = match m.split_once(" for ") {
        Some((call, meta)) if of_container || call.starts_with("RunPod") => meta,
        _ => return (false, Vec::new()),
    };
    let meta = meta.strip_prefix("container ").unwrap_or(meta);
    if let Some(meta) = meta.strip_prefix('&') {
        let meta = between(meta, "Metadata{", "}").unwrap_or_default();
        let fields = meta.split(',').filter_map(|part| part.split_once(':'));
        return (of_container, fields.collect());
    }
    let mut fields = vec![("attempt", "0")];
    let mut rest = meta;
    while let Some((key, after)) = rest.trim_start().split_once(':')
        && matches!(key, "name" | "uid" | "namespace" | "attempt")
    {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or_default(),
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        fields.push((key, value));
        rest = after;
    }
    (of_container, fields)
}

/// Reads the messages of CRI-O: `Running pod sandbox: ns/pod/POD`, `Ran pod sandbox <id> with infra container:
/// ns/pod/POD`, `Creating container: ns/pod/container`, `Created container <id>: ns/pod/container`, `Stopping pod
/// sandbox: <id>`; and of its network library: `Adding pod ns_pod to CNI network "net" (type=bridge)`, `Deleting pod
/// ns_pod from CNI network …`. Until a sandbox or container has an id, messages call it by a name made of the
/// kubelet's metadata: `Creation of sandbox k8s_pod_ns_uid_0 not yet finished.`
fn crio<'a>(m: &'a str, ids: &mut Ids<'a>) {
    if let Some(name) = Reserved::of(m) {
        ids.pod = PodRef::by_name(name.namespace, name.pod);
        ids.pod.uid = name.uid.into();
        ids.container = name.container;
        ids.attempt = Some(name.attempt);
        return;
    }
    if m.contains(" CNI network ")
        && let Some(name) = between(m, " pod ", " ")
        && let Some((ns, pod)) = name.split_once('_')
    {
        ids.pod = PodRef::by_name(ns, pod);
        return;
    }
    let known = [
        "Running pod sandbox",
        "Ran pod sandbox",
        "Stopping pod sandbox: ",
        "Stopped pod sandbox",
        "Removing pod sandbox: ",
        "Removed pod sandbox",
        "Creating container: ",
        "Created container ",
        "Starting container: ",
        "Started container",
        "Stopping container: ",
        "Stopping container ",
        "Killing container ",
        "Detected process ",
        "Stopped container ",
        "Removing container: ",
        "Removed container ",
    ];
    if !known.iter().any(|k| m.starts_with(k)) {
        return;
    }
    if let Some((_, path)) = m.rsplit_once(": ") {
        let mut parts = path.split('/');
        if let (Some(ns), Some(pod), Some(container), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        {
            ids.pod = PodRef::by_name(ns, pod);
            if container != "POD" {
                ids.container = container;
            }
        }
    }
    let id = m
        .split([' ', ':', '.'])
        .find(|w| w.len() == 64 && is_hex_id(w));
    if m.contains("pod sandbox") {
        ids.sandbox = ids.sandbox.or(id);
    } else {
        ids.container_id = ids.container_id.or(id);
    }
}

/// The name that CRI-O reserves for a sandbox or a container.
/// cri-o/cri-o: internal/lib/sandbox/builder.go, `GenerateNameAndID`; internal/factory/container/container.go, `SetNameAndID`.
pub(crate) struct Reserved<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    uid: &'a str,
    /// Empty for a sandbox.
    container: &'a str,
    attempt: &'a str,
}

impl<'a> Reserved<'a> {
    /// Reads `k8s_<pod>_<namespace>_<uid>_<attempt>` of a sandbox, and `k8s_<container>_<pod>_…` of a container. `None` where the
    /// message has no such name. No part of the name can hold a `_`.
    pub(crate) fn of(message: &'a str) -> Option<Self> {
        let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        let name = message
            .split(ends)
            .find_map(|word| word.trim_end_matches('.').strip_prefix("k8s_"))?;
        let parts: Vec<&str> = name.split('_').collect();
        let (container, [pod, namespace, uid, attempt]) = match parts[..] {
            [pod, ns, uid, attempt] => ("", [pod, ns, uid, attempt]),
            [container, pod, ns, uid, attempt] => (container, [pod, ns, uid, attempt]),
            _ => return None,
        };
        let is_named = ![pod, namespace, uid].iter().any(|part| part.is_empty());
        let is_one = is_named && attempt.parse::<u32>().is_ok();
        is_one.then_some(Self {
            namespace,
            pod,
            uid,
            container: if container == "POD" { "" } else { container },
            attempt,
        })
    }
}

fn between<'a>(s: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, after) = s.split_once(open)?;
    after.split_once(close).map(|(inner, _)| inner)
}

impl LineDecoder for RuntimeDecoder {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // logrus lines begin like no wrapper does: the common case skips the check for wrappers.
        if line.starts_with(b"time=") {
            return self.text(line, None, out);
        }
        match self.unwrap.line(line) {
            Step::Entry(e) => {
                let (text, received) = (e.text.into_owned(), e.received);
                self.text(&text, received, out)
            }
            Step::Partial => Fed::Partial,
            Step::Marker(what) => Fed::Ignored(what),
        }
    }

    fn finish(&mut self, out: &mut Vec<Observation>) -> Fed {
        match self.unwrap.finish() {
            Step::Entry(e) => self.text(&e.text, e.received, out),
            _ => Fed::Observed(0),
        }
    }
}
