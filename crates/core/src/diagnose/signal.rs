//! Signals: what went wrong, from whatever source, under the reason that the kubelet or scheduler would report it by.

pub mod old;

use std::borrow::Cow;

use kflow_model::Evidence;
use kflow_model::{
    Nanos, Source, Text,
    cri::{CallEnd, CallOutcome, code_name},
    log::{Component, LogLine, Severity},
};

/// Something that went wrong.
#[derive(Clone, Debug)]
pub struct Signal<'a> {
    /// Canonical reason (see `catalogue.toml`).
    pub reason: Cow<'a, str>,
    /// Container, empty for the pod.
    pub container: Text,
    /// What was said.
    pub text: Cow<'a, str>,
    /// When.
    pub at: Nanos,
    /// First time in a row that it was said.
    pub first: Nanos,
    /// How often it happened, as far as the source counts.
    pub count: u32,
    /// Who saw it.
    pub source: Source,
    /// The observation.
    pub evidence: &'a Evidence,
}

/// Reason, container and text of an Event.
pub fn of_event<'a>(reason: &'a str, message: &'a str) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
    // A sender that folds several messages puts this before the newest one.
    let message = message
        .strip_prefix("(combined from similar events): ")
        .unwrap_or(message);
    let canonical: &'a str = match reason {
        "Failed" => {
            if message.starts_with("Failed to pull image") {
                "ErrImagePull"
            } else if message.starts_with("error making pod data directories") {
                "PodDataDirs"
            } else if message.starts_with("Internal PreCreateContainer") {
                "PreCreateHookError"
            } else if message.starts_with("Internal PreStartContainer") {
                "PreStartHookError"
            } else if let Some(rest) = message.strip_prefix("Error: ") {
                // `Error: ErrImagePull` repeats a reason and says nothing of its own.
                if rest.bytes().all(|b| b.is_ascii_alphanumeric()) {
                    return None;
                }
                "ContainerError"
            } else {
                "ContainerError"
            }
        }
        "BackOff" => {
            if message.starts_with("Back-off pulling") {
                "ImagePullBackOff"
            } else {
                "CrashLoopBackOff"
            }
        }
        "Pulling"
        | "Pulled"
        | "Created"
        | "Started"
        | "Scheduled"
        | "SuccessfulMountVolume"
        | "SuccessfulAttachVolume"
        | "ResizeStarted"
        | "ResizeCompleted" => return None,
        other => other,
    };
    Some((Cow::Borrowed(canonical), unescaped(message)))
}

/// A message that quotes another one escapes its quotes, once for each time.
fn unescaped(text: &str) -> Cow<'_, str> {
    if text.contains("\\\"") {
        Cow::Owned(text.replace("\\\\\\\"", "\"").replace("\\\"", "\""))
    } else {
        Cow::Borrowed(text)
    }
}

/// Container that an event's `fieldPath` names: `spec.containers{web}`.
pub fn container_of_path(path: &str) -> &str {
    path.split_once('{')
        .and_then(|(_, r)| r.split_once('}'))
        .map_or("", |(c, _)| c)
}

/// An Event that the kubelet wrote to its log: reason, message, `fieldPath`, warning.
pub fn logged_event(l: &LogLine) -> Option<(&str, &str, &str)> {
    if crate::flow::said(l) != "Event occurred" {
        return None;
    }
    Some((
        l.field("reason")?,
        l.field("message")?,
        l.field("fieldPath").unwrap_or(""),
    ))
}

/// The reason that a failed CRI call is reported under.
pub fn of_method(method: &str) -> Option<&'static str> {
    Some(match method {
        "RunPodSandbox" => "FailedCreatePodSandBox",
        "PullImage" => "ErrImagePull",
        "ImageStatus" => "ImageInspectError",
        "CreateContainer" => "CreateContainerError",
        "StartContainer" => "RunContainerError",
        "StopContainer" | "StopPodSandbox" | "RemovePodSandbox" => "@stop",
        "PodSandboxStatus" => "PodSandboxStatusError",
        _ => return None,
    })
}

/// A failed call's text, as the kubelet prints it.
pub fn call_error(end: &CallEnd) -> Option<String> {
    match (end.outcome, end.code) {
        (CallOutcome::Status, Some(0)) | (CallOutcome::Lost, _) => None,
        (CallOutcome::Status, Some(code)) => Some(format!(
            "rpc error: code = {} desc = {}",
            code_name(code),
            end.message
        )),
        (CallOutcome::ClientReset, _) => {
            Some("rpc error: code = DeadlineExceeded desc = context deadline exceeded".into())
        }
        (CallOutcome::ServerReset | CallOutcome::ConnectionClosed, _) | (_, None) => {
            Some("rpc error: code = Unavailable desc = the connection to the runtime closed".into())
        }
    }
}

/// Reason, container and text of a log line, when it tells of something that failed for one pod. Message and error
/// are in the words of the map, whoever wrote the line.
pub fn of_line<'l>(
    l: &'l LogLine,
    message: &'l str,
    error: &'l str,
) -> Option<(Cow<'l, str>, Text, Cow<'l, str>)> {
    if matches!(l.component, Component::Containerd | Component::Crio) {
        return of_runtime_log(l);
    }
    let own = |reason: &'static str, text| Some((Cow::Borrowed(reason), l.container.clone(), text));
    match message {
        "Error syncing pod, skipping" | "Error syncing pod" => of_sync_error(error),
        "Unable to make pod data directories for pod" => own(
            "PodDataDirs",
            Cow::Owned(format!("error making pod data directories: {error}")),
        ),
        "Failed to create sandbox for pod"
        | "CreatePodSandbox for pod failed"
        | "Failed to create pod sandbox" => own("FailedCreatePodSandBox", Cow::Borrowed(error)),
        "Container start failed in pod" => Some((
            Cow::Borrowed(error),
            l.container.clone(),
            Cow::Borrowed(l.field("containerMessage").unwrap_or("")),
        )),
        "Back-off restarting failed container" => own("CrashLoopBackOff", Cow::Borrowed(error)),
        "Failed to execute PostStartHook" => own("FailedPostStartHook", Cow::Borrowed(error)),
        "PreStop hook failed" => own("FailedPreStopHook", Cow::Borrowed(error)),
        "PreStop hook not completed in grace period" => {
            own("FailedPreStopHook", Cow::Borrowed(message))
        }
        "Pod is terminated, but some volumes have not been cleaned up" => own(
            "@unmount",
            Cow::Borrowed("some volumes have not been cleaned up"),
        ),
        "Failed to remove pod cgroup" | "Failed to delete cgroup paths" => own(
            "@cgroup",
            if error.is_empty() {
                Cow::Borrowed(message)
            } else {
                Cow::Borrowed(error)
            },
        ),
        "Unable to attach or mount volumes for pod; skipping pod" => {
            own("FailedMount", Cow::Borrowed(error))
        }
        "Failed to ensure that the pod container exists" => {
            own("FailedCreatePodContainer", Cow::Borrowed(error))
        }
        "Failed to admit pod" | "Pod admission denied" => Some((
            Cow::Borrowed(l.field("reason")?),
            Text::default(),
            Cow::Borrowed(l.field("message").unwrap_or(error)),
        )),
        m if m.starts_with("StopPodSandbox")
            || m.starts_with("StopContainer")
            || m.starts_with("Failed to stop sandbox") =>
        {
            own("@stop", Cow::Borrowed(error))
        }
        m => {
            if l.severity < Severity::Warning {
                return None;
            }
            // An old kubelet quotes the error of a volume's operation once more.
            let text = unescaped(if error.is_empty() { m } else { error });
            if text.contains("UnmountVolume") || text.contains("UnmountDevice") {
                own("@unmount", text)
            } else if text.contains("AttachVolume.Attach failed") || text.contains("Multi-Attach") {
                own("FailedAttachVolume", text)
            } else if text.contains("MountVolume") || text.contains("hostPath type check") {
                own("FailedMount", text)
            } else if text.contains("MapVolume") {
                own("FailedMapVolume", text)
            } else if text.contains("VerifyControllerAttachedVolume")
                || text.contains("VolumesInUse")
            {
                own("@volumes", text)
            } else if text.contains("orphaned pod") {
                own("@cgroup", text)
            } else {
                own("@log", text)
            }
        }
    }
}

/// containerd: `RunPodSandbox for &PodSandboxMetadata{…} failed, error`, with `error=`; CRI-O: its stages.
fn of_runtime_log(l: &LogLine) -> Option<(Cow<'_, str>, Text, Cow<'_, str>)> {
    let all = |reason: &'static str, text| Some((Cow::Borrowed(reason), l.container.clone(), text));
    if l.message.contains("urrently at stage") {
        return all("@crio", Cow::Borrowed(l.message.as_str()));
    }
    if l.message.contains("no progress in") || l.error.contains("no progress in") {
        return all("@log", Cow::Borrowed(l.message.as_str()));
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

/// `failed to "StartContainer" for "c" with ErrImagePull: "…"`, possibly in a list, or a text of its own.
fn of_sync_error(error: &str) -> Option<(Cow<'_, str>, Text, Cow<'_, str>)> {
    let owned = |r: &'static str| Some((Cow::Borrowed(r), Text::default(), Cow::Borrowed(error)));
    if let Some((_, rest)) = error.split_once("failed to \"") {
        let (action, rest) = rest.split_once('"')?;
        let (who, rest) = rest.split_once("for \"")?.1.split_once('"')?;
        let (reason, text) = rest.split_once("with ")?.1.split_once(": ")?;
        let reason = match reason {
            "CreatePodSandboxError" | "ConfigPodSandboxError" => "FailedCreatePodSandBox",
            "KillContainerError" | "KillPodSandboxError" => "FailedKillPod",
            r => r,
        };
        // The text is quoted once more: its own quotes are escaped.
        let text = unescaped(text.trim_end_matches(']').trim_matches('"')).into_owned();
        let text = if reason == "FailedKillPod" {
            format!("failed to \"{action}\" for \"{who}\": {text}")
        } else {
            text
        };
        let container = if action == "StartContainer" || action == "KillContainer" {
            who.into()
        } else {
            Text::default()
        };
        return Some((Cow::Owned(reason.to_owned()), container, Cow::Owned(text)));
    }
    if error.contains("network is not ready") {
        owned("NetworkNotReady")
    } else if error.contains("unmounted volumes=") {
        owned("FailedMount")
    } else if error.contains("unable to ensure pod container exists") {
        owned("FailedCreatePodContainer")
    } else if error.contains("error making pod data directories") {
        owned("PodDataDirs")
    } else if error.contains("dynamic resources") {
        owned("FailedPrepareDynamicResources")
    } else if error.contains("delete cgroup paths") {
        owned("@cgroup")
    } else if error.contains("error killing pod") {
        owned("FailedKillPod")
    } else {
        owned("@log")
    }
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
    fn a_sandbox_error_is_reported_as_its_event_would_be() {
        let e = r#"failed to "CreatePodSandbox" for "a_b(c)" with CreatePodSandboxError: "Failed to create sandbox for pod \"a_b(c)\": rpc error: code = Unknown desc = x""#;
        let (r, c, t) = of_sync_error(e).unwrap_or_else(|| panic!("no signal"));
        assert_eq!((r.as_ref(), c.as_str()), ("FailedCreatePodSandBox", ""));
        assert!(t.contains("desc = x"));
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
