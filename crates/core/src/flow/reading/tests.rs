use super::*;
use kflow_model::log::{Component, Severity};

fn written(message: &str, error: &str) -> LogLine {
    LogLine {
        error: error.into(),
        ..LogLine::new(Component::Kubelet, Severity::Info, message)
    }
}

/// Message, error, expected fact, and names with their expected values.
type Case<'a> = (
    &'a str,
    &'a str,
    Option<Fact>,
    &'a [(&'a str, Option<&'a str>)],
);

fn check(cases: &[Case<'_>]) {
    for (message, error, fact, names) in cases {
        let line = written(message, error);
        let said = Map::embedded().line(&line);
        assert_eq!(said.map(|s| s.fact()), *fact, "{message}");
        for (key, value) in *names {
            assert_eq!(said.and_then(|s| s.name(key)), *value, "{message}: {key}");
        }
    }
}

#[test]
fn a_volume_is_named_where_the_map_says() {
    check(&[
        (
            r#"MountVolume.SetUp succeeded for volume "cfg" (UniqueName: "kubernetes.io/configmap/4ac3c3e9-cfg") pod "healthy" (UID: "4ac3c3e9") "#,
            "",
            Some(Fact::VolumeSetUp),
            &[("volume", Some("cfg"))],
        ),
        ("Setting up volume cfg for pod x", "", None, &[]),
        (
            r#"operationExecutor.MountVolume started for volume "v" (UniqueName: "u") pod "p" (UID: "i") Volume is already mounted to pod, but remount was requested."#,
            "",
            Some(Fact::RemountStarted),
            &[],
        ),
        (
            r#"operationExecutor.MountVolume started for volume "v" (UniqueName: "u") pod "p" (UID: "i") "#,
            "",
            Some(Fact::MountStarted),
            &[("volume", Some("v"))],
        ),
        (
            r#"UnmountVolume.TearDown succeeded for volume "kubernetes.io/empty-dir/4ac3c3e9-1ad8-496b-869a-7687fcb13acf-mem" pod "4ac3c3e9-1ad8-496b-869a-7687fcb13acf" (UID: "4ac3c3e9-1ad8-496b-869a-7687fcb13acf"). InnerVolumeSpecName "mem". PluginName "kubernetes.io/empty-dir", VolumeGIDValue """#,
            "",
            Some(Fact::VolumeTornDown),
            &[("inner", Some("mem"))],
        ),
        (
            r#"UnmountVolume.TearDown succeeded for volume "kubernetes.io/csi/d^1" (OuterVolumeSpecName: "www") pod "4ac3" (UID: "4ac3"). InnerVolumeSpecName "pvc-1c0a". PluginName "kubernetes.io/csi", VolumeGIDValue """#,
            "",
            Some(Fact::VolumeTornDown),
            &[("outer", Some("www")), ("inner", Some("pvc-1c0a"))],
        ),
        (
            r#"Operation for "{volumeName:kubernetes.io/secret/x}" failed. No retries permitted until 2026-11-21 (durationBeforeRetry 500ms). Error: MountVolume.SetUp failed for volume "s" : secret "y" not found"#,
            "",
            Some(Fact::MountFailed),
            &[
                ("volume", Some("s")),
                (
                    "error",
                    Some(r#"MountVolume.SetUp failed for volume "s" : secret "y" not found"#),
                ),
            ],
        ),
    ]);
}

#[test]
fn what_fails_while_a_device_is_unmounted_is_no_failed_mount() {
    for (error, fact) in [
        (
            r#"GetDeviceMountRefs check failed for volume "pvc-1" (UniqueName: "u") on node "n" : the device mount path "/g" is still mounted by other references [/r]"#,
            Fact::UnmountFailed,
        ),
        (
            r#"GetDeviceMountPath failed for volume "pvc-1" (UniqueName: "u") on node "n" : x"#,
            Fact::UnmountFailed,
        ),
        (
            r#"MountVolume.GetDeviceMountPath failed for volume "pvc-1" (UniqueName: "u") pod "p" (UID: "4ac3") : x"#,
            Fact::MountFailed,
        ),
    ] {
        let line = format!(
            r#"Operation for "{{volumeName:u podName: nodeName:}}" failed. No retries permitted until 2026-11-21 (durationBeforeRetry 500ms). Error: {error}"#
        );
        check(&[(&line, "", Some(fact), &[])]);
    }
}

#[test]
fn the_prose_of_a_kubelet_before_structured_logging_says_what_the_fields_of_a_new_one_do() {
    check(&[
        (
            r#"SyncLoop (ADD, "api"): "web_default(4ac3)""#,
            "",
            Some(Fact::PodAdded),
            &[],
        ),
        (
            r#"SyncLoop (PLEG): "web_default(4ac3)", event: x"#,
            "",
            Some(Fact::PlegEvent),
            &[("event", Some("x"))],
        ),
        (
            r#"Unable to register node "localhost" with API server: nodes is forbidden: User "kubelet-client" cannot create resource "nodes" in API group "" at the cluster scope"#,
            "",
            Some(Fact::RegistrationFailed),
            &[(
                "error",
                Some(
                    r#"nodes is forbidden: User "kubelet-client" cannot create resource "nodes" in API group "" at the cluster scope"#,
                ),
            )],
        ),
        (
            "Error syncing pod, skipping",
            "x",
            Some(Fact::SyncFailed),
            &[("error", Some("x"))],
        ),
        (
            r#"Error syncing pod 4ac3 ("web_default(4ac3)"), skipping: failed to "StartContainer" for "c" with ErrImagePull: "x""#,
            "",
            Some(Fact::SyncFailed),
            &[(
                "error",
                Some(r#"failed to "StartContainer" for "c" with ErrImagePull: "x""#),
            )],
        ),
        (
            r#"CreatePodSandbox for pod "web_default(4ac3)" failed: rpc error: code = Unknown desc = x"#,
            "",
            Some(Fact::SandboxFailed),
            &[("error", Some("rpc error: code = Unknown desc = x"))],
        ),
        (
            r#"Unable to attach or mount volumes for pod "web_default(4ac3)": unmounted volumes=[v], unattached volumes=[v t]: timed out waiting for the condition; skipping pod"#,
            "",
            Some(Fact::VolumesTimedOut),
            &[(
                "error",
                Some(
                    "unmounted volumes=[v], unattached volumes=[v t]: timed out waiting for the condition",
                ),
            )],
        ),
        (
            r#"Event(v1.ObjectReference{Kind:"Pod", Namespace:"default", Name:"web", UID:"4ac3", APIVersion:"v1", ResourceVersion:"1", FieldPath:"spec.containers{c}"}): type: 'Warning' reason: 'BackOff' Back-off restarting failed container"#,
            "",
            Some(Fact::EventLogged),
            &[
                ("type", Some("Warning")),
                ("reason", Some("BackOff")),
                ("message", Some("Back-off restarting failed container")),
                ("fieldPath", Some("spec.containers{c}")),
            ],
        ),
        (
            r#"Event(v1.ObjectReference{Kind:"Node", Namespace:"", Name:"n"}): type: 'Normal' reason: 'Starting' x"#,
            "",
            None,
            &[],
        ),
        (
            r#"Readiness probe for "web_default(4ac3):c" failed (failure): HTTP probe failed with statuscode: 503"#,
            "",
            Some(Fact::ProbeFailed),
            &[
                ("probeType", Some("Readiness")),
                ("container", Some("c")),
                ("output", Some("HTTP probe failed with statuscode: 503")),
            ],
        ),
        (
            r#"Liveness probe for "web_default(4ac3):c" errored: rpc error: code = Unknown desc = x"#,
            "",
            Some(Fact::ProbeErrored),
            &[
                ("probeType", Some("Liveness")),
                ("output", Some("rpc error: code = Unknown desc = x")),
            ],
        ),
    ]);
}

#[test]
fn of_the_signatures_that_fit_the_one_that_compares_most_counts() {
    let said = |message| {
        Map::embedded()
            .event("Killing", message)
            .map(|s| (s.fact, s.name("next")))
    };
    assert_eq!(
        said("Container c failed liveness probe, will be restarted"),
        Some((Fact::LivenessKill, Some("restarted")))
    );
    assert_eq!(
        said("Container c definition changed, will be restarted"),
        Some((Fact::RestartKill, Some("restarted")))
    );
    assert_eq!(
        said("Container c failed startup probe"),
        Some((Fact::StartupKill, None))
    );
    assert_eq!(said("Stopping container c"), Some((Fact::StopKill, None)));
}

#[test]
fn a_failure_has_a_reason_and_the_first_text_whose_names_are_known() {
    let failure = |message, error| {
        let line = written(message, error);
        let told = Map::embedded().line(&line)?.failure();
        told.map(|(reason, text)| (reason.into_owned(), text.into_owned()))
    };
    let some = |reason: &str, text: &str| Some((reason.to_owned(), text.to_owned()));
    assert_eq!(
        failure("Failed to remove pod cgroup", "busy"),
        some("@cgroup", "busy")
    );
    assert_eq!(
        failure("Failed to remove pod cgroup", ""),
        some("@cgroup", "Failed to remove pod cgroup")
    );
    assert_eq!(
        failure("Unable to make pod data directories for pod", "no space"),
        some("PodDataDirs", "error making pod data directories: no space")
    );
    // Without the field that holds the reason there is no failure.
    assert_eq!(failure("Pod admission denied", ""), None);
    assert_eq!(failure("SyncLoop ADD", ""), None);
}

proptest::proptest! {
    #[test]
    fn no_line_makes_it_panic(s in "(SyncLoop \\(|Event\\(|Readiness probe for \"|Operation for )?[ -~é]{0,60}") {
        let line = written(&s, &s);
        if let Some(said) = Map::embedded().line(&line) {
            for key in ["volume", "error", "container", "output", "message"] {
                let _ = said.name(key);
            }
            let _ = said.failure();
        }
        let _ = Map::embedded().event("Killing", &s);
    }
}
