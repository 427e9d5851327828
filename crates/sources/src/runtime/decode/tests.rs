//! Tests of the runtime's log.

use super::*;
use kflow_model::PodNames;
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

/// Lines of containerd 2.3.4 at a pod's start, with one space between the fields of its metadata and with two, against
/// those of 2.1.9.
#[test]
fn metadata_is_read_in_the_form_of_each_containerd() {
    let lines = |sandbox: &str, container: &str| {
        [
            format!("RunPodSandbox for {sandbox}"),
            format!(r#"RunPodSandbox for {sandbox} returns sandbox id "{A}""#),
            format!("RunPodSandbox for {sandbox} failed, error"),
            format!(r#"CreateContainer within sandbox "{A}" for container {container}"#),
            format!(
                r#"CreateContainer within sandbox "{A}" for {container} returns container id "{B}""#
            ),
            format!(r#"CreateContainer within sandbox "{A}" for {container} failed"#),
        ]
    };
    for attempt in ["0", "1"] {
        let told = match attempt {
            "0" => "",
            _ => "  attempt:1",
        };
        let sandbox = format!(
            r#"name:"healthy"  uid:"b3324c6d-8faf-488e-8598-5b1ba76fd6b2"  namespace:"sv2301"{told}"#
        );
        let container = format!(r#"name:"web"{told}"#);
        let two_one = lines(
            &format!(
                "&PodSandboxMetadata{{Name:healthy,Uid:b3324c6d-8faf-488e-8598-5b1ba76fd6b2,Namespace:sv2301,Attempt:{attempt},}}"
            ),
            &format!("&ContainerMetadata{{Name:web,Attempt:{attempt},}}"),
        );
        let of = |text: &String| {
            let l = message(text);
            (l.pod, l.container, l.container_id, l.fields)
        };
        let two_one: Vec<_> = two_one.iter().map(of).collect();
        assert!(two_one.iter().all(|(.., fields)| !fields.is_empty()));
        for text in [
            lines(&sandbox, &container),
            lines(&sandbox.replace("  ", " "), &container.replace("  ", " ")),
        ] {
            assert_eq!(text.iter().map(of).collect::<Vec<_>>(), two_one, "{text:?}");
        }
    }
}

#[test]
fn messages_give_up_pod_sandbox_and_container() {
    let pod = PodRef::from(PodNames {
        uid: "4ac3c3e9-1ad8-496b-869a-7687fcb13acf".into(),
        namespace: "s01".into(),
        name: "healthy".into(),
    });
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
            format!(r#"received sandbox exit event container_id:"{A}" id:"{A}" exit_status:137"#),
            &none,
            A,
            "",
            "",
        ),
        (
            format!(r#"received sandbox container exit event sandbox_id:"{A}" exit_status:137"#),
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
        (
            format!("Stopping container {B} with stop signal(15) timed out. Killing..."),
            &none,
            "",
            "",
            B,
        ),
        (
            format!(
                "Detected process (77) blocked in uninterruptible sleep for more than 60 seconds for container {B}"
            ),
            &none,
            "",
            "",
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

/// cri-o/cri-o: server/utils.go, getResourceOrWait; server/sandbox_network.go, waitForCNIPlugin; server/container_create.go,
/// CreateContainer, and the errors of naming.go.
#[test]
fn a_name_that_crio_reserves_names_its_pod() {
    const UID: &str = "9fa66802-c68f-4924-a480-e45811a348ba";
    for (text, container, attempt) in [
        (
            format!(
                "Creation of sandbox k8s_web-0_shop_{UID}_2 not yet finished. Currently at stage sandbox network creation. Waiting up to 5m59.9s for it to finish"
            ),
            "",
            "2",
        ),
        (
            format!(
                "Creation of container k8s_app_web-0_shop_{UID}_0 not yet finished. Currently at stage container storage creation. Waiting up to 4m0s for it to finish"
            ),
            "app",
            "0",
        ),
        (
            format!("CNI plugin not ready. Waiting to create k8s_web-0_shop_{UID}_0"),
            "",
            "0",
        ),
        (
            format!("createCtr: releasing container name k8s_POD_web-0_shop_{UID}_1"),
            "",
            "1",
        ),
        (
            format!("error reserving pod name k8s_web-0_shop_{UID}_0 for id {A}: name is reserved"),
            "",
            "0",
        ),
    ] {
        let l = message(&text);
        assert_eq!(
            (&*l.pod.namespace, &*l.pod.name, l.pod.uid.as_str()),
            ("shop", "web-0", UID),
            "{text}"
        );
        assert_eq!(l.container, container, "{text}");
        assert_eq!(l.field("attempt"), Some(attempt), "{text}");
    }
    for text in [
        "k8s_",
        "k8s_a_b_c",
        "k8s_a_b_c_d_e_f_0",
        "k8s_a_b__0",
        "the folder k8s_a_b_c_x",
    ] {
        assert!(message(text).pod.is_empty(), "{text}");
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
    let (stamp, l) =
        one(r#"{"level":"info","msg":"StopPodSandbox","time":"2026-11-21T00:24:21.225605096Z"}"#);
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

/// What CRI-O's and containerd's journals show of their ends (cri-o/cri-o#2903; a panic of bbolt; cmd/containerd/main.go).
#[test]
fn the_words_with_which_a_runtime_ends_are_read() {
    let mut d = RuntimeDecoder::new(Component::Containerd);
    let mut out = Vec::new();
    let panic = b"containerd[9186]: panic: runtime error: invalid memory address or nil pointer dereference";
    let head = b"Jul 23 11:20:11 k8s-m1 ";
    let line = [head.as_slice(), panic].concat();
    assert_eq!(d.line(&line, &mut out), Fed::Ignored("not a logrus line"));
    d.line(
        br#"time="2020-07-23T11:20:11.482404139+08:00" level=info msg="containerd successfully booted in 0.003611s""#,
        &mut out,
    );
    assert_eq!(d.line(&line, &mut out), Fed::Observed(1));
    d.line(
        b"2020-07-23T03:20:12.482404+00:00 k8s-m1 containerd[9190]: containerd: failed to load TOML: /etc/containerd/config.toml",
        &mut out,
    );
    d.line(
        b"time=\"2019-10-20 05:25:01.955432575Z\" level=fatal msg=\"library config validation: invalid conmon path: ",
        &mut out,
    );
    let words: Vec<_> = out
        .iter()
        .map(|o| match &o.body {
            Body::Log(l) => (l.severity, l.message.to_string()),
            other => panic!("{other:?}"),
        })
        .collect();
    let fatal = |text: &str| (Severity::Fatal, text.to_owned());
    assert_eq!(
        words[1..],
        [
            fatal("panic: runtime error: invalid memory address or nil pointer dereference"),
            fatal("failed to load TOML: /etc/containerd/config.toml"),
            fatal("library config validation: invalid conmon path:"),
        ]
    );
    assert_eq!(out[1].stamp.at, out[0].stamp.at);
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
