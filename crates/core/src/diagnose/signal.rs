//! Signals: failures from any source, under the reason by which the kubelet or the scheduler would report them.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::text::uncoded;
use crate::flow::{Fact, Line, Map, Needle};
use kflow_model::cri::method;
use kflow_model::{
    Evidence, Nanos, Source, Text,
    cri::{CallEnd, CallOutcome, code_name, failed},
    event::COMBINED,
    log::{Component, LogLine, Severity},
};

mod tally;
mod words;

pub use tally::Tally;
use words::{ERRORS, reason_of};
pub(super) use words::{
    awaited_by_claim, ends_pod, is_creating_pod, network_agent, objects_of, refuses_pod, remover,
    scheduler, scheduler_words, speaker, unnamed_port,
};
pub use words::{
    cause_in, image_in, is_starting, network_missing, refuses_list, runtime_is_down, timed_out,
    unanswered, unheard_ns, wait_in,
};

/// A failure that a source reported.
#[derive(Clone, Debug)]
pub struct Signal<'a> {
    /// Canonical reason (see `catalogue.toml`).
    pub reason: Cow<'a, str>,
    /// The container that failed; empty for the whole pod.
    pub container: Text,
    /// The message of the newest occurrence.
    pub text: Cow<'a, str>,
    /// Time of the newest occurrence.
    pub at: Nanos,
    /// Time of the first occurrence in an unbroken row.
    pub first: Nanos,
    /// When the pod's state says that it began (1 s); `None` for other evidence, and where the state has no time of it.
    pub stated: Option<Nanos>,
    /// Number of failures, whatever their messages, as far as the source counts them.
    pub count: u32,
    pub tally: Tally<'a>,
    pub source: Source,
    pub evidence: &'a Evidence,
}

impl Signal<'_> {
    /// How many of the failures have the words of `text`.
    pub fn times(&self) -> u32 {
        self.tally.of(&self.text).max(1)
    }
}

/// Returns the reason and text of an Event, when it tells of a failure.
pub fn of_event<'a>(reason: &'a str, message: &'a str) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
    let message = message.strip_prefix(COMBINED).unwrap_or(message);
    let said = Map::active().event(reason, message);
    // `Error: ErrImagePull` repeats a reason and adds nothing.
    if said.is_some_and(|s| {
        let error = s
            .name("error")
            .filter(|_| matches!(s.fact, Fact::ContainerError | Fact::ProcessNotMade));
        error.is_some_and(|e| e.bytes().all(|b| b.is_ascii_alphanumeric()))
    }) {
        return None;
    }
    let canonical = match (said.and_then(|s| s.reason()), reason) {
        (Some(reason), _) => reason,
        (None, "Failed") => "ContainerError".into(),
        (None, "BackOff") => "CrashLoopBackOff".into(),
        (
            None,
            "Pulling"
            | "Pulled"
            | "Created"
            | "Started"
            | "Scheduled"
            | "SuccessfulMountVolume"
            | "SuccessfulAttachVolume"
            | "ResizeStarted"
            | "ResizeCompleted",
        ) => return None,
        (None, other) => other.into(),
    };
    Some((canonical, unescaped(first_action(message))))
}

/// Returns the first of a list of failed actions (`[failed to "KillContainer" …, failed to "KillPodSandbox" …]`,
/// k8s.io/apimachinery `pkg/util/errors`, `aggregate.Error`), and any other message as it is: the later ones follow from
/// the first. Quotes in an action's own error are escaped, so that a bare one ends it.
fn first_action(text: &str) -> &str {
    let first = || {
        let (_, list) = text.split_at_checked(ERRORS.sync.list.find(text)?)?;
        let first = list.strip_prefix('[')?;
        let next = first.match_indices(&ERRORS.sync.next).map(|(at, _)| at);
        let is_escaped = |at: &usize| first.get(..*at).is_some_and(|t| t.ends_with('\\'));
        first.get(..=next.into_iter().find(|at| !is_escaped(at))?)
    };
    first().unwrap_or(text)
}

/// Removes the escaping of quotes (`\"`) that a message gets when another message quotes it, also when
/// it was quoted twice.
fn unescaped(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let escaped = |i: usize| bytes.get(i + 1) == Some(&b'"');
    if !memchr::memchr_iter(b'\\', bytes).any(escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('"') {
        let bare = before.trim_end_matches('\\');
        out.push_str(bare);
        // A quote that was escaped twice (`\\\"`) becomes a quote, like one that was escaped once (`\"`).
        let slashes = before.len() - bare.len();
        let slashes = if slashes < 3 { slashes } else { slashes - 3 };
        out.extend(std::iter::repeat_n('\\', slashes.saturating_sub(1)));
        out.push('"');
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Returns the error that decides, of two that are joined in one.
fn unjoined(text: &str) -> Cow<'_, str> {
    let joined = &ERRORS.runtime.joined;
    let decides = || {
        let (both, artifact) = joined.artifact.split(text)?;
        let (before, image) = joined.image.split(both)?;
        let one = if joined.is_artifact.is_in(image) {
            artifact
        } else {
            image
        };
        Some(format!("{before}{one}"))
    };
    decides().map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Returns the message in another program's error, without the frame of its logger (logrus: `time="…" level=error
/// msg="…"`): runc and conmon write such lines to their standard error, and CRI-O passes them on unchanged.
fn unframed(text: &str) -> Cow<'_, str> {
    static FRAME: LazyLock<Needle> = LazyLock::new(|| "time=\"".into());
    let framed = || {
        let (before, frame) = FRAME.split(text)?;
        let (head, said) = frame.split_once(" msg=\"")?;
        let said = said.trim_end().trim_end_matches("\\n");
        let said = said.strip_suffix('"').unwrap_or(said);
        head.contains("\" level=")
            .then(|| format!("{before}{}", unescaped(said)))
    };
    framed().map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Returns the message as the catalogue's patterns see it: without its frame ([`unframed`]), on one line, because
/// errors of mount(8), fsck, hooks and CSI drivers have several, with empty ones among them, of two joined errors
/// the one that decides ([`unjoined`]), and without `: unknown` behind the cause ([`uncoded`]).
pub(super) fn searched(text: &str) -> Cow<'_, str> {
    let breaks = ['\n', '\r', '\t'];
    let one_line = |text: &str| {
        let lines = text.split(breaks).map(str::trim);
        let lines: Vec<&str> = lines.filter(|l| !l.is_empty()).collect();
        lines.join(" ")
    };
    let plain = |text: &str| uncoded(&unjoined(text)).into_owned();
    let text = unframed(text);
    if text.contains(breaks) {
        return Cow::Owned(plain(&one_line(&text)));
    }
    match text {
        Cow::Borrowed(text) => match unjoined(text.trim_end()) {
            Cow::Borrowed(text) => uncoded(text),
            Cow::Owned(text) => Cow::Owned(uncoded(&text).into_owned()),
        },
        Cow::Owned(text) => Cow::Owned(plain(&text)),
    }
}

/// CRI methods, and the reason under which a failure of each is reported.
const REPORTED: [(&str, &str); 9] = [
    (method::RUN_POD_SANDBOX, "FailedCreatePodSandBox"),
    (method::PULL_IMAGE, "ErrImagePull"),
    (method::IMAGE_STATUS, "ImageInspectError"),
    (method::CREATE_CONTAINER, "CreateContainerError"),
    (method::START_CONTAINER, "RunContainerError"),
    (method::POD_SANDBOX_STATUS, "PodSandboxStatusError"),
    (method::STOP_CONTAINER, "@stop"),
    (method::STOP_POD_SANDBOX, "@stop"),
    (method::REMOVE_POD_SANDBOX, "@stop"),
];

/// Returns the reason under which a failed call of a CRI method is reported.
pub fn of_method(method: &str) -> Option<&'static str> {
    REPORTED.iter().find(|r| r.0 == method).map(|r| r.1)
}

/// True for the reason of a step that the kubelet takes only once all volumes of the pod are mounted
/// (pkg/kubelet/kubelet.go, `SyncPod`).
pub fn follows_volumes(reason: &str) -> bool {
    let called = REPORTED
        .iter()
        .any(|(_, r)| *r == reason && !matches!(reason, "@stop" | "PodSandboxStatusError"));
    called
        || matches!(
            reason,
            "ImagePullBackOff"
                | "CreateContainerConfigError"
                | "ContainerError"
                | "CrashLoopBackOff"
        )
}

/// Returns the CRI method whose failures are reported under a reason; `None` when there are several.
pub fn method_of(reason: &str) -> Option<&'static str> {
    let mut of = REPORTED.iter().filter(|r| r.1 == reason);
    of.next().filter(|_| of.next().is_none()).map(|r| r.0)
}

/// Returns a failed call's error as the kubelet prints it; `None` for a call that did not fail.
pub fn call_error(end: &CallEnd) -> Option<String> {
    let error = |code: &str, message: &str| {
        let text = ERRORS.runtime.call.fill(|key| match key {
            "code" => Some(code),
            _ => Some(message),
        });
        text.map(Cow::into_owned)
    };
    if failed(end.outcome, end.code, &end.message) != Some(true) {
        return None;
    }
    match (end.outcome, end.code) {
        (CallOutcome::Status, Some(code)) => error(code_name(code), &end.message),
        (CallOutcome::Status, None) => error(method::UNKNOWN, &end.message),
        (CallOutcome::ClientReset, _) => error("DeadlineExceeded", &ERRORS.runtime.deadline),
        (CallOutcome::ServerReset | CallOutcome::ConnectionClosed | CallOutcome::Lost, _) => {
            error("Unavailable", "the connection to the runtime closed")
        }
    }
}

/// Returns the reason of what keeps a container from being made, by the message of its state.
pub fn of_wait(message: &str) -> Option<&'static str> {
    reason_of(&ERRORS.kubelet.errors, message)
}

/// Returns reason, container and text of a log line, when it tells of a failure of one pod.
pub fn of_line<'l>(
    l: &'l LogLine,
    said: Option<&Line<'l>>,
) -> Option<(Cow<'l, str>, Text, Cow<'l, str>)> {
    if matches!(l.component, Component::Containerd | Component::Crio) {
        return of_runtime_log(l);
    }
    if let Some(said) = said {
        if said.fact() == Fact::SyncFailed {
            return of_sync_error(said.error());
        }
        if let Some((reason, text)) = said.failure() {
            return Some((reason, Text::clone(&l.container), text));
        }
    }
    if l.severity < Severity::Warning {
        return None;
    }
    // An old kubelet quotes the error of a volume's operation, so that its own quotes are escaped.
    let text = unescaped(if l.error.is_empty() {
        l.message.as_str()
    } else {
        l.error.as_str()
    });
    let reason = reason_of(&ERRORS.kubelet.errors, &text).unwrap_or("@log");
    Some((reason.into(), Text::clone(&l.container), text))
}

/// Reads a failure from a line of the runtime's log. containerd: `RunPodSandbox for METADATA failed,
/// error`, with `error=`; CRI-O: messages on the stages of a call.
fn of_runtime_log(l: &LogLine) -> Option<(Cow<'_, str>, Text, Cow<'_, str>)> {
    let all =
        |reason: &'static str, text| Some((Cow::Borrowed(reason), Text::clone(&l.container), text));
    let errors = &ERRORS.runtime.errors;
    if let Some(reason) = reason_of(errors, &l.message).or_else(|| reason_of(errors, &l.error)) {
        return all(reason, Cow::Borrowed(l.message.as_str()));
    }
    if l.severity < Severity::Warning || l.error.is_empty() {
        return None;
    }
    let method = l
        .message
        .split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .unwrap_or("");
    all(of_method(method)?, Cow::Borrowed(l.error.as_str()))
}

/// Reads a failure from an error of the pod's sync: `failed to "StartContainer" for "c" with ErrImagePull: "…"`,
/// possibly in a list, or a text of another form.
fn of_sync_error(error: &str) -> Option<(Cow<'_, str>, Text, Cow<'_, str>)> {
    let error = first_action(error);
    let all = &ERRORS.sync;
    let names = all.action.names(error).unwrap_or_default();
    let name = |key: &str| names.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
    let (Some(action), Some(who), Some(reason), Some(text)) =
        (name("action"), name("who"), name("reason"), name("text"))
    else {
        let reason = reason_of(&all.errors, error).unwrap_or("@log");
        return Some((reason.into(), Text::default(), error.into()));
    };
    let reason = all.renamed.get(reason).map_or(reason, String::as_str);
    // The text is quoted: its own quotes are escaped, and it may end with one.
    let text = text.trim_end_matches(']');
    let text = text.strip_prefix('"').unwrap_or(text);
    let text = unescaped(text.strip_suffix('"').unwrap_or(text));
    let text = match all.told.get(reason) {
        Some(told) => told.fill(|key| {
            if key == "text" {
                Some(text.as_ref())
            } else {
                name(key)
            }
        })?,
        None => text,
    };
    let container = if all.containers.iter().any(|a| a == action) {
        who.into()
    } else {
        Text::default()
    };
    let text = text.into_owned();
    Some((reason.into(), container, text.into()))
}

/// True when two messages of one reason are about the same thing: they quote the same names, or, where neither quotes
/// any, they are equal but for their numbers.
pub(super) fn same_subject(a: &str, b: &str) -> bool {
    if a.contains('"') || b.contains('"') {
        let quoted = |s| str::split(s, '"').skip(1).step_by(2);
        quoted(a).eq(quoted(b))
    } else {
        let words = |s| str::split(s, |c: char| c.is_ascii_digit()).filter(|w| !w.is_empty());
        words(a).eq(words(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_two_volumes_are_two_however_long_they_are() {
        let of = |volume: &str, name: &str| {
            format!(
                "MountVolume.SetUp failed for volume \"{volume}\" : configmap \"{name}\" not found"
            )
        };
        assert!(same_subject(&of("a", "x"), &of("a", "x")));
        assert!(!same_subject(&of("a", "x"), &of("b", "x")));
        assert!(!same_subject(&of("a", "x"), &of("a", "y")));
        assert!(same_subject("no answer in 500ms", "no answer in 2000ms"));
        assert!(!same_subject(
            "unmounted volumes=[a]",
            "unmounted volumes=[b]"
        ));
        assert!(!same_subject("volume \"a\"", "volume a"));
    }

    #[test]
    fn a_reason_leads_back_to_its_method_where_there_is_only_one() {
        assert_eq!(method_of("ErrImagePull"), Some(method::PULL_IMAGE));
        assert_eq!(of_method(method::REMOVE_POD_SANDBOX), Some("@stop"));
        assert_eq!((method_of("@stop"), method_of("Killing")), (None, None));
    }

    proptest::proptest! {
        #[test]
        fn a_quote_that_was_escaped_twice_is_as_one_that_was_once(text in r#"[a\\"]{0,16}"#) {
            let twice = text.replace("\\\\\\\"", "\"").replace("\\\"", "\"");
            proptest::prop_assert_eq!(unescaped(&text), twice);
        }
    }

    #[test]
    fn a_sync_error_is_taken_apart_to_reason_container_and_text() {
        let e = r#"failed to "StartContainer" for "c" with ErrImagePull: "rpc error: code = NotFound desc = failed to pull and unpack image \"127.0.0.1:5000/nope:1\": not found""#;
        let (r, c, t) = of_sync_error(e).unwrap_or_else(|| panic!("no signal"));
        assert_eq!((r.as_ref(), c.as_str()), ("ErrImagePull", "c"));
        assert!(
            t.ends_with("image \"127.0.0.1:5000/nope:1\": not found"),
            "{t}"
        );
    }

    #[test]
    fn a_text_that_ends_with_a_quote_of_its_own_keeps_it() {
        let e = r#"failed to "StartContainer" for "c" with CreateContainerConfigError: "failed to prepare subPath for volumeMount \"v\" of container \"c\"""#;
        let (_, _, t) = of_sync_error(e).unwrap_or_else(|| panic!("no signal"));
        let told = r#"failed to prepare subPath for volumeMount "v" of container "c""#;
        assert_eq!(t, told);
    }

    #[test]
    fn a_sandbox_error_is_reported_as_its_event_would_be() {
        let e = r#"failed to "CreatePodSandbox" for "a_b(c)" with CreatePodSandboxError: "Failed to create sandbox for pod \"a_b(c)\": rpc error: code = Unknown desc = x""#;
        let (r, c, t) = of_sync_error(e).unwrap_or_else(|| panic!("no signal"));
        assert_eq!((r.as_ref(), c.as_str()), ("FailedCreatePodSandBox", ""));
        assert!(t.contains("desc = x"));
    }

    #[test]
    fn of_a_list_of_failed_actions_the_first_is_told() {
        let list = r#"[failed to "KillContainer" for "web" with KillContainerError: "an error occurs during waiting for container \"9a\", failed to be killed: late", failed to "KillPodSandbox" for "u" with KillPodSandboxError: "late"]"#;
        let (reason, container, text) = of_sync_error(list).unwrap_or_else(|| panic!("no signal"));
        assert_eq!(
            (reason.as_ref(), container.as_str()),
            ("FailedKillPod", "web")
        );
        let told = r#"failed to "KillContainer" for "web": an error occurs during waiting for container "9a", failed to be killed: late"#;
        assert_eq!(text, told);
        let error = format!("error killing pod: {list}");
        let said = of_event("FailedKillPod", &error);
        let (_, text) = said.unwrap_or_else(|| panic!("no signal"));
        assert!(text.starts_with("failed to \"KillContainer\""), "{text}");
        assert!(
            text.ends_with("late\"") && !text.contains("KillPodSandbox"),
            "{text}"
        );
    }

    #[test]
    fn an_event_that_only_repeats_a_reason_says_nothing() {
        assert!(of_event("Failed", "Error: ErrImagePull").is_none());
        assert_eq!(
            of_event("Failed", "Error: secret \"x\" not found").map(|r| r.0),
            Some(Cow::Borrowed("ContainerError"))
        );
        assert_eq!(
            of_event("BackOff", "Back-off pulling image \"x\"").map(|r| r.0),
            Some(Cow::Borrowed("ImagePullBackOff"))
        );
    }
}
