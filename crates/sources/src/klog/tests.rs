//! The decoder on real lines, on every wrapping, and on [`nonsense`].

mod nonsense;

use std::fmt::Write as _;

use super::KlogDecoder;
use crate::{Fed, LineDecoder, TimeHint};
use kflow_model::log::{Component, LogLine, Severity};
use kflow_model::{Body, Nanos, Observation, PodNames, PodRef, Source, Stamp};

/// One real line of every kubelet message (1.36, `-v=4`, text and JSON), with the keys, the pod and the UID that an
/// independent parser found in it.
const MESSAGES: &str = include_str!("../../../../fixtures/klog/messages.tsv");

/// 2026-11-21T00:24:00Z
const NEAR: Nanos = Nanos(1_795_220_640_000_000_000);

fn decoder() -> KlogDecoder {
    KlogDecoder::new(
        Component::Kubelet,
        TimeHint {
            near: Some(NEAR),
            ..TimeHint::default()
        },
    )
}

fn decode(text: impl AsRef<[u8]>) -> (Vec<Observation>, Vec<Fed>) {
    let (mut d, mut out) = (decoder(), Vec::new());
    let mut fed: Vec<Fed> = text
        .as_ref()
        .split(|b| *b == b'\n')
        .map(|l| d.line(l, &mut out))
        .collect();
    fed.push(d.finish(&mut out));
    (out, fed)
}

fn log(o: &Observation) -> &LogLine {
    match &o.body {
        Body::Log(l) => l,
        other => panic!("{other:?}"),
    }
}

fn one(line: &str) -> LogLine {
    let (out, _) = decode(line);
    assert_eq!(out.len(), 1, "{line}");
    log(&out[0]).clone()
}

#[test]
fn every_message_of_a_real_kubelet_gives_its_keys_and_its_pod() {
    let mut checked = 0;
    for row in MESSAGES.lines() {
        let mut columns = row.splitn(4, '\t');
        let mut next = || columns.next().unwrap();
        let (keys, pod, uid, line) = (next(), next(), next(), next());
        let l = one(line);
        for key in keys
            .split(' ')
            .filter(|k| !k.is_empty() && *k != "(unstructured)")
        {
            let there = match key {
                "pod" => !pod.is_empty() && !l.pod.name.is_empty() || pod.is_empty(),
                "podUID" | "podID" => l.pod.uid.as_str() == uid || uid.is_empty(),
                "podName" => !l.pod.is_empty() || l.field(key).is_some(),
                "pods" => {
                    !l.pod.name.is_empty()
                        || l.field(key).is_some()
                        || line.contains("[]")
                        || line.contains("pods=null")
                }
                "containerName" | "container" | "initContainerName" => {
                    !l.container.is_empty()
                        || l.field(key).is_some()
                        || line.contains("containerName=\"\"")
                }
                "containerID" | "containerId" | "containerStatusID" => {
                    !l.container_id.is_empty() || l.field(key).is_some()
                }
                "err" => !l.error.is_empty() || line.contains("err=null"),
                key => l.field(key).is_some(),
            };
            assert!(there, "{key} is missing in {l:?} of {line}");
        }
        if let Some((ns, name)) = pod.split_once('/') {
            assert_eq!(
                (l.pod.namespace.as_str(), l.pod.name.as_str()),
                (ns, name),
                "{line}"
            );
        }
        checked += 1;
    }
    assert!(checked > 480, "the fixture has {checked} lines");
}

#[test]
fn a_text_line_is_exact_to_the_microsecond_and_seen_when_it_was_written() {
    let (out, _) = decode(
        r#"I1121 00:24:27.664586    3731 operation_generator.go:617] "MountVolume.SetUp succeeded for volume \"cfg\" (UniqueName: \"kubernetes.io/configmap/4ac3c3e9-1ad8-496b-869a-7687fcb13acf-cfg\") pod \"healthy\" (UID: \"4ac3c3e9-1ad8-496b-869a-7687fcb13acf\") " pod="s01/healthy""#,
    );
    let at = Nanos(1_795_220_667_664_586_000);
    assert_eq!(out[0].stamp, Stamp::new(at, 1_000, at));
    assert_eq!(out[0].source, Source::Kubelet);
    let l = log(&out[0]);
    assert_eq!(l.pod.uid.as_str(), "4ac3c3e9-1ad8-496b-869a-7687fcb13acf");
    assert_eq!(l.pod.namespace, "s01");
    assert!(
        l.message
            .starts_with("MountVolume.SetUp succeeded for volume \"cfg\"")
    );
}

#[test]
fn a_pleg_event_gives_pod_and_container() {
    let l = one(
        r#"I1121 00:24:28.237443    3731 kubelet.go:2752] "SyncLoop (PLEG): event for pod" pod="s01/healthy" event={"ID":"4ac3c3e9-1ad8-496b-869a-7687fcb13acf","Type":"ContainerStarted","Data":"541c6ef7fdc0193eafab33d019dc777f1a109e534e0ab45b8e24bffcb1cabe0a"}"#,
    );
    assert_eq!(l.pod.uid.as_str(), "4ac3c3e9-1ad8-496b-869a-7687fcb13acf");
    assert_eq!(
        l.container_id.as_str(),
        "541c6ef7fdc0193eafab33d019dc777f1a109e534e0ab45b8e24bffcb1cabe0a"
    );
    assert!(l.field("event").unwrap().contains("ContainerStarted"));
}

#[test]
fn old_kubelets_print_prose_and_name_their_pods_too() {
    let uid = "4ac3c3e9-1ad8-496b-869a-7687fcb13acf";
    let web = PodRef::from(PodNames {
        uid: uid.into(),
        namespace: "default".into(),
        name: "web".into(),
    });
    for text in [
        format!(r#"SyncLoop (ADD, "api"): "web_default({uid})""#),
        format!(
            r#"SyncLoop (PLEG): "web_default({uid})", event: &pleg.PodLifecycleEvent{{ID:"{uid}", Type:"ContainerStarted", Data:"541c6ef7fdc0193eafab33d019dc777f1a109e534e0ab45b8e24bffcb1cabe0a"}}"#
        ),
        format!(
            r#"Error syncing pod {uid} ("web_default({uid})"), skipping: failed to "StartContainer" for "c""#
        ),
    ] {
        let l = one(&format!(
            "I1121 00:24:28.237443    3731 kubelet.go:1932] {text}"
        ));
        assert_eq!(l.pod, web, "{text}");
        assert_eq!(l.message, text);
    }
}

#[test]
fn a_list_of_pods_gives_the_first_and_the_others() {
    let l = one(
        r#"I1121 00:24:27.533176    3731 kubelet.go:2724] "SyncLoop ADD" source="api" pods=["a/x","b/y","c/z"]"#,
    );
    assert_eq!(l.pod, PodRef::by_name("a", "x"));
    assert_eq!(
        *l.more_pods,
        [PodRef::by_name("b", "y"), PodRef::by_name("c", "z")]
    );
    assert_eq!(l.fields, [("source".into(), "api".into())]);
}

#[test]
fn an_event_names_its_pod_only_when_its_object_is_one() {
    let event = |object: &str, kind: &str| {
        one(&format!(r#"I1121 00:24:27.533176    3731 event.go:389] "Event occurred" object="{object}" fieldPath="" kind="{kind}" apiVersion="v1" type="Normal" reason="Started" message="m""#)).pod
    };
    assert_eq!(
        event("s01/healthy", "Pod"),
        PodRef::by_name("s01", "healthy")
    );
    assert_eq!(event("s01/healthy", "Job"), PodRef::default());
    assert_eq!(event("node1", "Node"), PodRef::default());
}

#[test]
fn a_block_value_is_joined_and_what_follows_it_is_read() {
    let (out, fed) = decode(
        "I1121 00:31:51.584294   16018 prober.go:122] \"Probe failed\" probeType=\"Liveness\" pod=\"s12/liveness\" output=<\n\
         \tcat: can't open '/tmp/ok': No such file or directory\n\
         \tsecond line\n \
         > containerName=\"c\"\n\
         I1121 00:31:52.584294   16018 a.go:1] \"next\"",
    );
    assert_eq!(
        fed,
        [
            Fed::Partial,
            Fed::Partial,
            Fed::Partial,
            Fed::Observed(1),
            Fed::Observed(1),
            Fed::Observed(0)
        ]
    );
    let l = log(&out[0]);
    assert_eq!(
        l.field("output"),
        Some("cat: can't open '/tmp/ok': No such file or directory\nsecond line")
    );
    assert_eq!(l.container, "c");
}

#[test]
fn a_block_that_never_ends_is_given_out_with_the_next_record_or_the_end() {
    let head = "I1121 00:31:51.584294   16018 prober.go:122] \"Probe failed\" pod=\"a/b\" output=<\n\thalf";
    let (out, fed) = decode(format!(
        "{head}\nI1121 00:31:52.584294   16018 a.go:1] \"next\""
    ));
    assert_eq!(
        fed,
        [
            Fed::Partial,
            Fed::Partial,
            Fed::Observed(2),
            Fed::Observed(0)
        ]
    );
    assert_eq!(log(&out[0]).field("output"), Some("half"));
    let (out, fed) = decode(head);
    assert_eq!(fed, [Fed::Partial, Fed::Partial, Fed::Observed(1)]);
    assert_eq!(log(&out[0]).field("output"), Some("half"));
}

#[test]
fn an_apiserver_trace_is_one_record() {
    let (out, fed) = decode(
        "I1121 00:26:54.287358   29258 trace.go:236] Trace[102456443]: \"Get\" accept:application/json,name:web,subresource:log,namespace:s26,url:/api/v1/namespaces/s26/pods/web/log,verb:GET (21-Nov-2026 00:26:48.337) (total time: 5950ms):\n\
         Trace[102456443]: ---\"Writing http response done\" 5946ms (00:26:54.287)\n\
         Trace[102456443]: [5.95012275s] [5.95012275s] END",
    );
    assert_eq!(
        fed,
        [
            Fed::Partial,
            Fed::Partial,
            Fed::Observed(1),
            Fed::Observed(0)
        ]
    );
    let l = log(&out[0]);
    assert_eq!(l.pod, PodRef::by_name("s26", "web"));
    assert!(l.message.ends_with("END"));
}

#[test]
fn a_fatal_error_keeps_its_goroutines() {
    let (out, _) = decode(
        "F1121 00:24:27.533176    3731 server.go:1] failed to run Kubelet\ngoroutine 1 [running]:\nmain.main()\n\t/go/main.go:1 +0x1\nI1121 00:24:28.533176    3731 a.go:1] \"next\"",
    );
    assert_eq!(out.len(), 2);
    assert_eq!(log(&out[0]).severity, Severity::Fatal);
    assert!(log(&out[0]).message.contains("goroutine 1 [running]:"));
}

#[test]
fn the_same_line_in_every_wrapping_gives_the_same_record() {
    let line = r#"E1121 00:24:19.658833    3731 kubelet.go:2661] "Skipping pod synchronization" err="a \"b\"" pod="s01/healthy""#;
    let escaped = line.replace('\\', "\\\\").replace('"', "\\\"");
    let bytes: Vec<String> = line.bytes().map(|b| b.to_string()).collect();
    let mut export = b"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1795220659659000\n_PID=3731\nSYSLOG_IDENTIFIER=kubelet\nMESSAGE\n".to_vec();
    export.extend((line.len() as u64).to_le_bytes());
    export.extend(line.as_bytes());
    export.extend(b"\n\n");
    let want = one(line);
    let received = Nanos(1_795_220_659_659_000_000);
    for (text, seen) in [
        (
            format!("Nov 21 00:24:19 node1 kubelet[3731]: {line}").into_bytes(),
            None,
        ),
        (
            format!("2026-11-21T00:24:19+0000 node1 kubelet[3731]: {line}").into_bytes(),
            None,
        ),
        (
            format!("2026-11-21T00:24:19.659000+0000 node1 kubelet[3731]: {line}").into_bytes(),
            Some(received),
        ),
        (
            format!("2026-11-21T00:24:19.659000Z stderr F {line}").into_bytes(),
            Some(received),
        ),
        (format!("kubelet {line}").into_bytes(), None),
        (
            format!("Nov 21 00:24:19 node1 microshift[1]: kubelet {line}").into_bytes(),
            None,
        ),
        (
            format!(
                r#"{{"MESSAGE":"{escaped}","__REALTIME_TIMESTAMP":"1795220659659000","_PID":"1"}}"#
            )
            .into_bytes(),
            Some(received),
        ),
        (
            format!(
                r#"{{"__REALTIME_TIMESTAMP":"1795220659659000","MESSAGE":[{}]}}"#,
                bytes.join(",")
            )
            .into_bytes(),
            Some(received),
        ),
        (export, Some(received)),
        (format!("{line}\r").into_bytes(), None),
    ] {
        let (out, _) = decode(&text);
        let name = String::from_utf8_lossy(&text);
        assert_eq!(out.len(), 1, "{name}");
        assert_eq!(log(&out[0]), &want, "{name}");
        let at = Nanos(1_795_220_659_658_833_000);
        assert_eq!(
            out[0].stamp,
            Stamp::new(at, 1_000, seen.unwrap_or(at)),
            "{name}"
        );
    }
}

#[test]
fn in_a_mixed_journal_only_the_same_program_continues_a_record() {
    let (out, fed) = decode(
        "Nov 21 00:24:19 node1 kubelet[3731]: I1121 00:24:19.658833    3731 a.go:1] \"x\" output=<\n\
         Nov 21 00:24:19 node1 sshd[9]: accepted\n\
         Nov 21 00:24:19 node1 kubelet[3731]: \tone\n\
         Nov 21 00:24:19 node1 kubelet[3731]:  >",
    );
    assert_eq!(fed[1], Fed::Ignored("no klog header"));
    assert_eq!(log(&out[0]).field("output"), Some("one"));
}

#[test]
fn components_of_a_combined_process_are_told_apart() {
    let (out, fed) = decode(
        "kube-scheduler I1121 00:24:27.528595   29662 schedule_one.go:481] \"Successfully bound pod to node\" pod=\"s01/healthy\" node=\"node1\"\n\
         route-controller-manager I1121 00:24:27.528595   29662 a.go:1] \"x\"\n\
         ??? I1121 00:24:27.528596   29662 kubelet.go:2724] \"SyncLoop ADD\"",
    );
    assert_eq!(log(&out[1]).component, Component::Kubelet);
    assert_eq!(log(&out[0]).component, Component::Scheduler);
    assert_eq!(fed[1], Fed::Ignored("log line of another component"));
}

#[test]
fn secrets_and_exec_arguments_do_not_leave_the_decoder() {
    let l = one(
        r#"I1121 00:24:27.528595   29662 a.go:1] "x" bootstrapToken="abcdef.0123456789abcdef" execCommand=["mysql","-psecret"] err="Get \"https://u:pw@r/v2\": Authorization: Bearer eyJhbGciOiJSUzI1NiJ9.abc""#,
    );
    let text = format!("{l:?}");
    for secret in ["abcdef", "psecret", "u:pw", "eyJ"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert_eq!(l.field("execCommand"), Some("mysql"));
}

#[test]
fn lines_without_use_are_counted_by_reason() {
    for (line, want) in [
        ("", Fed::Ignored("empty line")),
        (
            "Flag --logging-format has been deprecated",
            Fed::Ignored("no klog header"),
        ),
        (
            "\tgithub.com/emicklei/go-restful/v3@v3.13.0/filter.go:21 +0x42",
            Fed::Ignored("continuation of a line that was given out already"),
        ),
        ("-- Boot 0123 --", Fed::Ignored("journal marker")),
        (
            r#"I1121 00:24:19.334034    3731 flags.go:64] FLAG: --cluster-domain="""#,
            Fed::Ignored("command line flag"),
        ),
        (
            r#"I1121 00:24:19.643834    3731 handler.go:291] error while reading "/proc/1/fd/0" link: readlink /proc/1/fd/0: permission denied"#,
            Fed::Ignored("cAdvisor reading file descriptors"),
        ),
        (
            "I1121 00:24:19.643834    3731 a.go:1] \"cut mess",
            Fed::Malformed("line cut inside its message"),
        ),
        (
            "I1121 00:24:19.643834    37",
            Fed::Malformed("klog header that is cut or makes no time"),
        ),
        (
            "I0230 00:24:19.643834    3731 a.go:1] \"x\"",
            Fed::Malformed("date that its year does not have"),
        ),
        (
            r#"{"ts":1795222007153.226,"caller":"fl"#,
            Fed::Malformed("JSON that does not parse"),
        ),
        (
            r#"{"kind":"Pod"}"#,
            Fed::Ignored("JSON that is no log line"),
        ),
    ] {
        assert_eq!(decode(line).1[0], want, "{line}");
    }
    assert_eq!(
        one(
            r#"I1121 00:24:19.334034    3731 flags.go:64] FLAG: --feature-gates="EventedPLEG=true""#
        )
        .location,
        "flags.go:64"
    );
}

#[test]
fn a_line_cut_inside_a_field_keeps_what_came_before_it() {
    let l = one(
        r#"I1121 00:24:27.533176    3731 pod_workers.go:984] "Notifying pod of pending update" pod="s01/healthy" podUID="4ac3c"#,
    );
    assert_eq!(l.pod, PodRef::by_name("s01", "healthy"));
    assert_eq!(l.fields, []);
}

#[test]
fn new_year_in_a_log_moves_the_year_on() {
    let mut d = KlogDecoder::new(
        Component::Kubelet,
        TimeHint {
            year: Some(2026),
            ..TimeHint::default()
        },
    );
    let mut out = Vec::new();
    d.line(b"I1231 23:59:59.999999       1 a.go:1] \"old\"", &mut out);
    d.line(b"I0101 00:00:00.000000       1 a.go:1] \"new\"", &mut out);
    assert_eq!(out[1].stamp.at.since(out[0].stamp.at), 1_000);
}

#[test]
fn cadvisors_housekeeping_is_kept_where_it_is_of_a_pods_cgroup() {
    let line = |path: &str| {
        format!(
            "I1121 00:24:27.539827    3731 container.go:547] Start housekeeping for container \"{path}\""
        )
    };
    let uid = "4ac3c3e9-1ad8-496b-869a-7687fcb13acf";
    for path in ["/", "/kubepods/besteffort", "/system.slice/ssh.service"] {
        assert_eq!(decode(line(path)).0, [], "{path}");
    }
    for path in [
        format!("/kubepods/burstable/pod{uid}"),
        format!(
            "/kubepods.slice/kubepods-pod{}.slice/cri-containerd-1e26.scope",
            uid.replace('-', "_")
        ),
    ] {
        let (out, _) = decode(line(&path));
        assert_eq!(out.len(), 1, "{path}");
        assert_eq!(log(&out[0]).pod.uid.as_str(), uid, "{path}");
    }
}
