//! Lines in, [`LogLine`] observations out.

use serde_json::Value as Json;
use std::borrow::Cow;

use crate::model::log::{Component, LogLine, Severity};
use crate::model::{Body, ContainerId, Nanos, Observation, PodRef, Source, Stamp, Text};
use crate::source::journal::{Step, Unwrap};
use crate::source::logtext::{
    FIELD_MAX, FIELDS_MAX, MESSAGE_MAX, Pairs, Value, bare_id, cut, is_hex_id, is_secret_key,
    redact,
};
use crate::source::{Fed, LineDecoder};

/// Decodes the log of a container runtime.
///
/// Sandbox ids go into the field `sandbox`, container ids into `container_id`: a message names one or both, and what
/// it says (`StopPodSandbox for "…"`) tells which. `RunPodSandbox … returns sandbox id` is where pod and sandbox meet.
#[derive(Debug)]
pub struct RuntimeDecoder {
    component: Component,
    unwrap: Unwrap,
}

impl RuntimeDecoder {
    /// A decoder for the log of `component`: `Containerd` or `Crio`.
    pub fn new(component: Component) -> Self {
        Self {
            component,
            unwrap: Unwrap::default(),
        }
    }

    fn text(&self, line: &[u8], received: Option<Nanos>, out: &mut Vec<Observation>) -> Fed {
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
            // klog lines of libraries inside containerd say nothing that the CRI answers do not.
            return Fed::Ignored("not a logrus line");
        };
        let Some((at, precision)) = field(&fields, "time").and_then(time) else {
            return Fed::Malformed("no time");
        };
        let Some(message) = field(&fields, "msg") else {
            return Fed::Malformed("no message");
        };
        if message.starts_with("container event discarded") {
            // Written for every event while nobody listens on GetContainerEvents, so for all of them on most nodes;
            // after a restart of containerd for all containers there ever were.
            return Fed::Ignored("container event without a listener");
        }
        let log = self.record(message, &fields);
        out.push(Observation {
            stamp: Stamp::new(at, precision, received.map_or(at, |r| r.max(at))),
            source: Source::Runtime,
            body: Body::Log(Box::new(log)),
        });
        Fed::Observed(1)
    }

    fn record(&self, message: &str, fields: &[(Cow<'_, str>, Cow<'_, str>)]) -> LogLine {
        let level = field(fields, "level").unwrap_or("info");
        let mut line = LogLine {
            component: self.component,
            severity: match level {
                "warning" | "warn" => Severity::Warning,
                "error" => Severity::Error,
                "fatal" | "panic" => Severity::Fatal,
                _ => Severity::Info,
            },
            location: Text::default(),
            message: cut(redact(message).as_ref(), MESSAGE_MAX),
            pod: PodRef::default(),
            more_pods: Vec::new(),
            container: Text::default(),
            container_id: ContainerId::default(),
            error: Text::default(),
            fields: Vec::new(),
        };
        let ids = ids(message);
        line.pod = ids.pod;
        line.container = ids.container.into();
        if let Some(id) = ids.container_id {
            line.container_id = id.into();
        }
        if let Some(id) = ids.sandbox {
            line.fields.push((Text::new("sandbox"), id.into()));
        }
        if let Some(n) = ids.attempt {
            line.fields.push((Text::new("attempt"), n.into()));
        }
        for (key, value) in fields {
            match key.as_ref() {
                "time" | "level" | "msg" => {}
                "error" | "err" => line.error = cut(redact(value).as_ref(), FIELD_MAX),
                "container" | "containerID" | "container_id" if line.container_id.is_empty() => {
                    match bare_id(value) {
                        Some(id) => line.container_id = id.into(),
                        None => push(&mut line, key, value),
                    }
                }
                _ => push(&mut line, key, value),
            }
        }
        line
    }
}

fn push(line: &mut LogLine, key: &str, value: &str) {
    let value = if is_secret_key(key) {
        Text::new("<redacted>")
    } else {
        cut(redact(value).as_ref(), FIELD_MAX)
    };
    if line.fields.len() < FIELDS_MAX {
        line.fields.push((cut(key, 128), value));
    }
}

fn field<'a>(fields: &'a [(Cow<'_, str>, Cow<'_, str>)], key: &str) -> Option<&'a str> {
    fields
        .iter()
        .find(|(k, _)| k == key)
        .map(|(_, v)| v.as_ref())
}

/// RFC 3339; CRI-O writes a space for the `T`. Trailing zeros are not written: nanoseconds whatever the digits.
fn time(s: &str) -> Option<(Nanos, u32)> {
    let parsed = Nanos::parse_rfc3339(s).or_else(|| Nanos::parse_rfc3339(&s.replacen(' ', "T", 1)));
    parsed.map(|(t, p)| (t, if p < 1_000_000_000 { 1 } else { p }))
}

/// What a message names.
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
    if let Some(meta) = between(m, "&PodSandboxMetadata{", "}") {
        for part in meta.split(',') {
            match part.split_once(':') {
                Some(("Name", v)) => ids.pod.name = v.into(),
                Some(("Namespace", v)) => ids.pod.namespace = v.into(),
                Some(("Uid", v)) => ids.pod.uid = v.into(),
                Some(("Attempt", v)) => ids.attempt = Some(v),
                _ => {}
            }
        }
    }
    if let Some(meta) = between(m, "&ContainerMetadata{", "}") {
        for part in meta.split(',') {
            match part.split_once(':') {
                Some(("Name", v)) => ids.container = v,
                Some(("Attempt", v)) => ids.attempt = Some(v),
                _ => {}
            }
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
    // `Verb for "id"` and `Verb "id" returns`: the verb says what the id is of.
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

/// CRI-O: `Running pod sandbox: ns/pod/POD`, `Ran pod sandbox <id> with infra container: ns/pod/POD`,
/// `Creating container: ns/pod/container`, `Created container <id>: ns/pod/container`.
fn crio<'a>(m: &'a str, ids: &mut Ids<'a>) {
    let known = [
        "Running pod sandbox",
        "Ran pod sandbox",
        "Creating container: ",
        "Created container ",
        "Started container",
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
    let id = m.split([' ', ':']).find(|w| w.len() == 64 && is_hex_id(w));
    if m.contains("pod sandbox") {
        ids.sandbox = ids.sandbox.or(id);
    } else {
        ids.container_id = ids.container_id.or(id);
    }
}

fn between<'a>(s: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, after) = s.split_once(open)?;
    after.split_once(close).map(|(inner, _)| inner)
}

impl LineDecoder for RuntimeDecoder {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // logrus lines begin like no wrapper does: the common case is not looked at twice.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: &str = "2c93681428e261bbf96c9c70c7653ad2db3b26a1657b6ee3bfebb88bd36208a9";
    const B: &str = "028f66a30f94b666bfca4bf2459fcbca807056e958aea0dd1f6b952252d5fefb";

    fn one(line: &str) -> (Stamp, LogLine) {
        let mut out = Vec::new();
        let fed = RuntimeDecoder::new(Component::Containerd).line(line.as_bytes(), &mut out);
        assert_eq!(fed, Fed::Observed(1), "{line}");
        let o = out.remove(0);
        match o.body {
            Body::Log(l) => (o.stamp, *l),
            other => panic!("{other:?}"),
        }
    }
    fn message(m: &str) -> LogLine {
        let quoted = m.replace('\\', "\\\\").replace('"', "\\\"");
        one(&format!(
            r#"time="2026-11-21T00:24:27.843640571Z" level=info msg="{quoted}""#
        ))
        .1
    }

    #[test]
    fn a_real_line_keeps_its_nanoseconds() {
        let (stamp, l) = one(
            r#"time="2026-11-21T00:24:21.2256050Z" level=error msg="ContainerStatus for \"2c93681428e261bbf96c9c70c7653ad2db3b26a1657b6ee3bfebb88bd36208a9\" failed" error="rpc error: code = NotFound desc = an error occurred when try to find container \"2c93681428e261bbf96c9c70c7653ad2db3b26a1657b6ee3bfebb88bd36208a9\": not found""#,
        );
        assert_eq!(stamp, Stamp::exact(Nanos(1_795_220_661_225_605_000)));
        assert_eq!(l.severity, Severity::Error);
        assert_eq!(l.container_id.as_str(), A);
        assert!(l.error.ends_with("not found"));
    }

    #[test]
    fn messages_give_up_pod_sandbox_and_container() {
        let pod = PodRef {
            uid: "4ac3c3e9-1ad8-496b-869a-7687fcb13acf".into(),
            ..PodRef::by_name("s01", "healthy")
        };
        let meta = "&PodSandboxMetadata{Name:healthy,Uid:4ac3c3e9-1ad8-496b-869a-7687fcb13acf,Namespace:s01,Attempt:0,}";
        let none = PodRef::default();
        for (text, want_pod, sandbox, container, id) in [
            (format!("RunPodSandbox for {meta}"), &pod, "", "", ""),
            (
                format!(r#"RunPodSandbox for {meta} returns sandbox id "{A}""#),
                &pod,
                A,
                "",
                "",
            ),
            (
                format!(
                    r#"CreateContainer within sandbox "{A}" for container &ContainerMetadata{{Name:setup,Attempt:0,}}"#
                ),
                &none,
                A,
                "setup",
                "",
            ),
            (
                format!(
                    r#"CreateContainer within sandbox "{A}" for &ContainerMetadata{{Name:setup,Attempt:0,}} returns container id "{B}""#
                ),
                &none,
                A,
                "setup",
                B,
            ),
            (
                format!(r#"StartContainer for "{B}" returns successfully"#),
                &none,
                "",
                "",
                B,
            ),
            (
                format!(r#"StopContainer for "{B}" with timeout 30 (s)"#),
                &none,
                "",
                "",
                B,
            ),
            (
                format!(r#"Stop container "{B}" with signal terminated"#),
                &none,
                "",
                "",
                B,
            ),
            (
                format!(r#"StopPodSandbox for "{A}" returns successfully"#),
                &none,
                A,
                "",
                "",
            ),
            (
                format!(r#"RemovePodSandbox "{A}" returns successfully"#),
                &none,
                A,
                "",
                "",
            ),
            (
                format!(r#"TearDown network for sandbox "{A}" successfully"#),
                &none,
                A,
                "",
                "",
            ),
            (
                format!(
                    r#"received container exit event container_id:"{B}" id:"{B}" pid:7 exited_at:{{seconds:1}}"#
                ),
                &none,
                "",
                "",
                B,
            ),
            (
                format!(
                    r#"received sandbox exit event container_id:"{A}" id:"{A}" exit_status:137"#
                ),
                &none,
                A,
                "",
                "",
            ),
            (
                format!(
                    r#"received sandbox container exit event sandbox_id:"{A}" exit_status:137"#
                ),
                &none,
                A,
                "",
                "",
            ),
            (
                format!(
                    r#"Container to stop "{B}" must be in running or unknown state, current state "CONTAINER_EXITED""#
                ),
                &none,
                "",
                "",
                B,
            ),
            (
                r#"PullImage "127.0.0.1:5000/busybox:1.36""#.into(),
                &none,
                "",
                "",
                "",
            ),
            (
                format!("Ran pod sandbox {A} with infra container: default/web/POD"),
                &PodRef::by_name("default", "web"),
                A,
                "",
                "",
            ),
            (
                format!("Created container {B}: default/web/nginx"),
                &PodRef::by_name("default", "web"),
                "",
                "nginx",
                B,
            ),
        ] {
            let l = message(&text);
            assert_eq!(&l.pod, want_pod, "{text}");
            assert_eq!(l.field("sandbox").unwrap_or(""), sandbox, "{text}");
            assert_eq!(l.container, container, "{text}");
            assert_eq!(l.container_id.as_str(), id, "{text}");
        }
    }

    #[test]
    fn crio_times_json_lines_and_the_journal_are_read() {
        let (stamp, _) = one(r#"time="2026-11-21 00:24:21.225605096Z" level=info msg="x""#);
        assert_eq!(stamp.at, Nanos(1_795_220_661_225_605_096));
        let (stamp, l) = one(&format!(
            r#"Nov 21 00:24:21 node1 containerd[311]: time="2026-11-21T00:24:21.225605096Z" level=warning msg="cleaning up" id={A}"#
        ));
        assert_eq!(stamp.at, Nanos(1_795_220_661_225_605_096));
        assert_eq!((l.severity, l.field("id")), (Severity::Warning, Some(A)));
        let (stamp, l) = one(
            r#"{"level":"info","msg":"StopPodSandbox","time":"2026-11-21T00:24:21.225605096Z"}"#,
        );
        assert_eq!(stamp.at, Nanos(1_795_220_661_225_605_096));
        assert_eq!(l.message, "StopPodSandbox");
    }

    #[test]
    fn lines_without_use_are_ignored_and_cut_ones_malformed() {
        for (line, want) in [
            (
                r#"time="2026-11-21T00:24:21.225605096Z" level=info msg="container event discarded" container=ef type=CONTAINER_STOPPED_EVENT"#,
                Fed::Ignored("container event without a listener"),
            ),
            (
                "E1121 00:24:21.2    1 exec.go:1] \"Unhandled Error\"",
                Fed::Ignored("not a logrus line"),
            ),
            (
                r#"time="2026-11-21T00:24:21Z" level=info msg="cut"#,
                Fed::Malformed("line cut inside its message"),
            ),
            ("time=x level=info msg=y", Fed::Malformed("no time")),
            ("", Fed::Ignored("empty line")),
        ] {
            assert_eq!(
                RuntimeDecoder::new(Component::Containerd).line(line.as_bytes(), &mut Vec::new()),
                want,
                "{line}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut d = RuntimeDecoder::new(Component::Crio);
            d.line(&bytes, &mut Vec::new());
            let mut line = b"time=\"2026-11-21T00:24:21Z\" msg=".to_vec();
            line.extend(&bytes);
            d.line(&line, &mut Vec::new());
            d.finish(&mut Vec::new());
        }
    }
}
