//! The prose of kubelets before structured logging (1.21), read as what newer ones say.
//!
//! Forms from Kubernetes 1.16 to 1.20: `kubelet.go`, `pod_workers.go`, `kuberuntime_manager.go`, `prober.go`,
//! client-go's `event.go`.

/// What an old line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old<'a> {
    /// A line that newer kubelets write with this message and error.
    Line {
        /// Message of the structured line.
        message: &'static str,
        /// Its `err`.
        error: &'a str,
    },
    /// An Event.
    Event {
        /// Reason.
        reason: &'a str,
        /// Message.
        message: &'a str,
        /// `spec.containers{web}`.
        path: &'a str,
    },
    /// A probe that failed.
    Probe {
        /// `Readiness`, `Liveness`, `Startup`.
        kind: &'a str,
        /// Container.
        container: &'a str,
        /// What it said.
        text: &'a str,
        /// It could not be run.
        errored: bool,
    },
}

/// Reads a line without fields; `None` for what is no old line, or says nothing that rules ask for.
pub fn read(line: &str) -> Option<Old<'_>> {
    let as_line = |message, error| Some(Old::Line { message, error });
    if let Some(rest) = line.strip_prefix("SyncLoop (") {
        return match rest.split([',', ')', ':']).next()? {
            "ADD" => as_line("SyncLoop ADD", ""),
            "DELETE" => as_line("SyncLoop DELETE", ""),
            "REMOVE" => as_line("SyncLoop REMOVE", ""),
            _ => None,
        };
    }
    if line.starts_with("Error syncing pod ") {
        let (_, error) = line.split_once("), skipping: ")?;
        return as_line("Error syncing pod, skipping", error);
    }
    if let Some(rest) = line
        .strip_prefix("CreatePodSandbox for pod \"")
        .or_else(|| line.strip_prefix("createPodSandbox for pod \""))
    {
        let (_, error) = rest.split_once("\" failed: ")?;
        return as_line("CreatePodSandbox for pod failed", error);
    }
    if let Some(rest) = line.strip_prefix("Unable to attach or mount volumes for pod \"") {
        let (_, error) = rest.split_once("\": ")?;
        let error = error.strip_suffix("; skipping pod").unwrap_or(error);
        return as_line(
            "Unable to attach or mount volumes for pod; skipping pod",
            error,
        );
    }
    if line.starts_with("Waiting for volumes to attach and mount for pod \"") {
        return as_line("Waiting for volumes to attach and mount for pod", "");
    }
    if line.starts_with("All volumes are attached and mounted for pod \"") {
        return as_line("All volumes are attached and mounted for pod", "");
    }
    if line.starts_with("Created PodSandbox \"") {
        return as_line("Created PodSandbox for pod", "");
    }
    if line.starts_with("Pod \"") && line.contains("some volumes have not been cleaned up") {
        return as_line(
            "Pod is terminated, but some volumes have not been cleaned up",
            "",
        );
    }
    if let Some(rest) = line.strip_prefix("Event(") {
        let (object, rest) = rest.split_once("): type: '")?;
        let (_, rest) = rest.split_once("' reason: '")?;
        let (reason, message) = rest.split_once("' ")?;
        let path = object
            .split_once("FieldPath:\"")
            .and_then(|(_, p)| p.split('"').next())
            .unwrap_or("");
        // Events of other objects are theirs.
        return object.contains("Kind:\"Pod\"").then_some(Old::Event {
            reason,
            message,
            path,
        });
    }
    // By its begin: nearly every line of a verbose log gets here, and none is worth a search.
    let kind = ["Readiness", "Liveness", "Startup"]
        .into_iter()
        .find(|kind| line.starts_with(kind))?;
    let rest = line.strip_prefix(kind)?.strip_prefix(" probe for \"")?;
    let (who, rest) = rest.split_once("\" ")?;
    let (_, container) = who.rsplit_once(':')?;
    let (errored, rest) = match rest.strip_prefix("errored") {
        Some(rest) => (true, rest),
        None => (false, rest.strip_prefix("failed")?),
    };
    let (_, text) = rest.split_once(": ")?;
    Some(Old::Probe {
        kind,
        container,
        text,
        errored,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prose_of_an_old_kubelet_says_what_the_fields_of_a_new_one_do() {
        let line = |message, error| Some(Old::Line { message, error });
        for (text, want) in [
            (
                r#"SyncLoop (ADD, "api"): "web_default(4ac3)""#,
                line("SyncLoop ADD", ""),
            ),
            (r#"SyncLoop (PLEG): "web_default(4ac3)", event: x"#, None),
            (
                r#"Error syncing pod 4ac3 ("web_default(4ac3)"), skipping: failed to "StartContainer" for "c" with ErrImagePull: "x""#,
                line(
                    "Error syncing pod, skipping",
                    r#"failed to "StartContainer" for "c" with ErrImagePull: "x""#,
                ),
            ),
            (
                r#"CreatePodSandbox for pod "web_default(4ac3)" failed: rpc error: code = Unknown desc = x"#,
                line(
                    "CreatePodSandbox for pod failed",
                    "rpc error: code = Unknown desc = x",
                ),
            ),
            (
                r#"Unable to attach or mount volumes for pod "web_default(4ac3)": unmounted volumes=[v], unattached volumes=[v t]: timed out waiting for the condition; skipping pod"#,
                line(
                    "Unable to attach or mount volumes for pod; skipping pod",
                    "unmounted volumes=[v], unattached volumes=[v t]: timed out waiting for the condition",
                ),
            ),
            (
                r#"Event(v1.ObjectReference{Kind:"Pod", Namespace:"default", Name:"web", UID:"4ac3", APIVersion:"v1", ResourceVersion:"1", FieldPath:"spec.containers{c}"}): type: 'Warning' reason: 'BackOff' Back-off restarting failed container"#,
                Some(Old::Event {
                    reason: "BackOff",
                    message: "Back-off restarting failed container",
                    path: "spec.containers{c}",
                }),
            ),
            (
                r#"Event(v1.ObjectReference{Kind:"Node", Namespace:"", Name:"n"}): type: 'Normal' reason: 'Starting' x"#,
                None,
            ),
            (
                r#"Readiness probe for "web_default(4ac3):c" failed (failure): HTTP probe failed with statuscode: 503"#,
                Some(Old::Probe {
                    kind: "Readiness",
                    container: "c",
                    text: "HTTP probe failed with statuscode: 503",
                    errored: false,
                }),
            ),
            (
                r#"Liveness probe for "web_default(4ac3):c" errored: rpc error: code = Unknown desc = x"#,
                Some(Old::Probe {
                    kind: "Liveness",
                    container: "c",
                    text: "rpc error: code = Unknown desc = x",
                    errored: true,
                }),
            ),
        ] {
            assert_eq!(read(text), want, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(s in "(SyncLoop \\(|Event\\(|Readiness probe for \")?[ -~é]{0,60}") {
            let _ = read(&s);
        }
    }
}
