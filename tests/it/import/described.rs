//! Pods of which nothing is left but what kubectl printed: `fixtures/kubectl`, printed by real kubectls of recorded objects.

use super::{Desk, fixture, run, text};
use serde::Deserialize;
use serde_json::{Value, json};

/// A row of `fixtures/kubectl/expected.json`.
#[derive(Deserialize)]
pub(super) struct Printed {
    pub(super) file: String,
    /// When kubectl ran.
    ran_at: String,
    pub(super) pod: String,
    /// The causes that are true (`fixtures/expected.json`, `fixtures/versions`); none for a pod that is well.
    causes: Vec<String>,
    /// True when what shows the cause is not in the text.
    #[serde(default)]
    untold: bool,
}

fn printed() -> Vec<Printed> {
    let all = std::fs::read(fixture("kubectl/expected.json")).unwrap();
    serde_json::from_slice(&all).unwrap()
}

/// The description of a pod whose image does not exist.
pub(super) fn image_missing() -> Printed {
    let is = |p: &Printed| p.file == "s2-image-missing-1.36.txt";
    printed().into_iter().find(is).unwrap()
}

impl Printed {
    /// Copies the text to the desk, as of the moment at which it was printed.
    pub(super) fn copy(&self, desk: &Desk) -> String {
        let content = std::fs::read(fixture("kubectl").join(&self.file)).unwrap();
        desk.file_of(&self.file, content, &self.ran_at)
    }
}

/// A line of the kubelet's log about a pod whose image cannot be pulled.
pub(super) fn logged(time: &str, pod: &str, uid: &str) -> String {
    format!(
        "E1127 {time}.335034    3731 pod_workers.go:1301] \"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"c\\\" with ImagePullBackOff\" pod=\"{pod}\" podUID=\"{uid}\"\n"
    )
}

#[test]
fn a_printed_description_is_enough_to_tell_why() {
    let desk = Desk::new();
    let mut wrong = Vec::new();
    for p in printed() {
        let path = p.copy(&desk);
        let (session, _) = desk.import(&format!("{}.kflow", p.file), &["--watch", &path]);
        let o = run(&["why", &p.pod, "-s", &session, "-o", "json"]);
        if p.untold {
            let said = text(&o.stderr);
            if o.status.code() != Some(2) || !said.contains("unknown how pod") {
                wrong.push(format!(
                    "{}: {:?} {said}{}",
                    p.file,
                    o.status,
                    text(&o.stdout)
                ));
            }
            continue;
        }
        let got: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap_or_default();
        let first = got
            .get(0)
            .and_then(|v| v["cause"].as_str())
            .unwrap_or_default();
        let right = if p.causes.is_empty() {
            o.status.code() == Some(0) && first.is_empty()
        } else {
            p.causes.iter().any(|c| c == first)
        };
        if !right {
            let said = text(&o.stderr);
            wrong.push(format!("{}: {:?}, not {first} {said}", p.file, p.causes));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Another capture knows the UID that kubectl does not print.
#[test]
fn a_description_and_a_log_are_of_one_pod() {
    let desk = Desk::new();
    let p = image_missing();
    let path = p.copy(&desk);
    let log = desk.file(
        "kubelet.log",
        "I1127 00:34:09.334034    3731 kubelet.go:2724] \"SyncLoop UPDATE\" source=\"api\" pods=[\"s02/image-missing\"]\n\
         E1127 00:34:09.335034    3731 pod_workers.go:1301] \"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"c\\\" with ImagePullBackOff\" pod=\"s02/image-missing\" podUID=\"c3cc4508-dddb-4946-bb9c-13a558746751\"\n",
    );
    let (session, _) = desk.import("a.kflow", &["--watch", &path, "--kubelet-log", &log]);
    let o = run(&["why", "s02/image-missing", "-s", &session, "-o", "json"]);
    let got: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!(got.as_array().map(Vec::len), Some(1), "{got}");
    assert_eq!(got[0]["uid"], "c3cc4508-dddb-4946-bb9c-13a558746751");
    assert_eq!(got[0]["cause"], "KF601");
}

/// The JSON says more of the pod: when it was created, its gates.
#[test]
fn a_description_beside_the_json_of_its_pod_adds_no_state() {
    let desk = Desk::new();
    let is = |p: &Printed| p.file == "s1-healthy-1.36.txt";
    let described = printed().into_iter().find(is).unwrap();
    let text_file = described.copy(&desk);
    let json = Printed {
        file: "s1-healthy.json".to_owned(),
        ..described
    };
    let json = json.copy(&desk);
    let states = |files: &[&str]| {
        let args: Vec<&str> = files.iter().flat_map(|f| ["--watch", f]).collect();
        let (session, _) = desk.import("a.kflow", &args);
        let lines = std::fs::read_to_string(session).unwrap();
        lines
            .lines()
            .filter(|l| l.contains(r#""b":{"pod""#))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let alone = states(&[&json]);
    assert_eq!(alone.len(), 1);
    assert_eq!(states(&[&json, &text_file]), alone);
}

/// The Events of the description as JSON, with names and whole seconds as the API has them.
#[test]
fn an_event_that_a_description_and_json_hold_is_one() {
    let desk = Desk::new();
    let described = image_missing().copy(&desk);
    let marks = |name: &str, files: &[&str]| {
        let args: Vec<&str> = files.iter().flat_map(|f| ["--watch", f]).collect();
        let (session, _) = desk.import(name, &args);
        let o = run(&["timeline", "-s", &session, "-o", "json"]);
        let pods: Value = serde_json::from_slice(&o.stdout).unwrap();
        let marks = pods[0]["marks"].as_array().unwrap().clone();
        let events: Vec<Value> = marks.into_iter().filter(|m| m["kind"] == "event").collect();
        (session, events)
    };
    let (session, alone) = marks("a.kflow", &[&described]);
    assert_eq!(alone.len(), 6, "{alone:?}");
    let read = std::fs::read_to_string(session).unwrap();
    let events = read.lines().filter(|l| l.contains(r#""b":{"event""#));
    let items = events.zip(0..).map(|(line, n)| {
        let o: Value = serde_json::from_str(line).unwrap();
        let e = &o["b"]["event"];
        let at = kflow_model::Nanos(o["t"].as_i64().unwrap()).to_rfc3339();
        let part = e["c"].as_str().map(|c| format!("spec.containers{{{c}}}"));
        json!({"kind": "Event", "apiVersion": "v1", "type": "Normal",
            "metadata": {"name": format!("image-missing.18e9e7dd6f0df06{n}"), "namespace": "s02"},
            "involvedObject": {"kind": "Pod", "namespace": "s02", "name": "image-missing",
                "uid": "c3cc4508-dddb-4946-bb9c-13a558746751", "fieldPath": part},
            "reason": e["r"], "message": e["m"], "count": e["x"], "source": {"component": e["by"]},
            "firstTimestamp": at, "lastTimestamp": at})
    });
    let list = json!({"kind": "List", "apiVersion": "v1", "items": items.collect::<Vec<_>>()});
    let json = desk.file("events.json", list.to_string());
    let (_, both) = marks("b.kflow", &[&described, &json]);
    assert_eq!(both.len(), alone.len(), "{both:?}");
}

#[test]
fn a_folder_is_looked_through_for_descriptions() {
    let desk = Desk::new();
    let p = image_missing();
    let from = p.copy(&desk);
    std::fs::create_dir(desk.path("ticket")).unwrap();
    std::fs::copy(from, desk.path("ticket/describe-image-missing.txt")).unwrap();
    let (_, said) = desk.import("a.kflow", &[&desk.path("ticket")]);
    assert!(said.contains("describe-image-missing.txt"), "{said}");
}

/// `>` of Windows PowerShell writes UTF-16, and `Out-File -Encoding utf8` a mark at the begin.
#[test]
fn what_windows_writes_is_read() {
    let desk = Desk::new();
    let p = image_missing();
    let text = std::fs::read_to_string(fixture("kubectl").join(&p.file)).unwrap();
    let lines = text.replace('\n', "\r\n");
    let utf16 = format!("\u{feff}{lines}");
    let little: Vec<u8> = utf16.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = utf16.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for content in [little, big, utf16.into_bytes()] {
        std::fs::remove_dir_all(desk.path("ticket")).ok();
        std::fs::create_dir(desk.path("ticket")).unwrap();
        let file = desk.file_of("ticket/describe.txt", content, &p.ran_at);
        for given in [&["--watch", &file][..], &[&desk.path("ticket")]] {
            let (session, _) = desk.import("a.kflow", given);
            let o = run(&["why", &p.pod, "-s", &session, "-o", "json"]);
            assert!(super::text(&o.stdout).contains("KF601"), "{given:?}");
        }
    }
}

/// The rows are those of `s01/healthy`, which was deleted: kubectl 1.36 printed them with `-A`, `-o wide`.
#[test]
fn a_container_that_was_told_to_stop_does_not_fail_its_probe() {
    const EVENTS: &str = "\
NAMESPACE   LAST SEEN   TYPE      REASON      OBJECT        MESSAGE
s01         5m40s       Normal    Scheduled   pod/healthy   Successfully assigned s01/healthy to node1
s01         5m37s       Normal    Pulled      pod/healthy   Container image \"127.0.0.1:5000/busybox:1.36\" already present on machine and can be accessed by the pod
s01         5m37s       Normal    Created     pod/healthy   Container created
s01         5m37s       Normal    Started     pod/healthy   Container started
";
    const STOPPED: &str =
        "s01         4m59s       Normal    Killing     pod/healthy   Stopping container worker\n";
    const UNHEALTHY: &str = "s01         4m41s       Warning   Unhealthy   pod/healthy   Readiness probe errored and resulted in unknown state: rpc error: code = Unknown desc = failed to exec in container: container is in CONTAINER_EXITED state\n";
    let desk = Desk::new();
    let causes = |rows: &str| {
        let events = desk.file("events.txt", format!("{EVENTS}{rows}"));
        let (session, said) = desk.import("events.kflow", &[&events]);
        assert!(!said.contains("it is a table"), "{said}");
        let o = run(&["why", "s01/healthy", "-s", &session, "-o", "json"]);
        text(&o.stdout)
    };
    assert!(causes(UNHEALTHY).contains("KF801"));
    assert!(!causes(&format!("{STOPPED}{UNHEALTHY}")).contains("KF801"));
}

/// The row is that of `s01/healthy`, which was deleted before the log begins. An Event is kept for an hour: nothing says
/// that its pod still exists, and the kubelet's log would not tell of it.
#[test]
fn a_pod_that_only_old_events_tell_of_waits_for_nobody() {
    const EVENTS: &str = "\
NAMESPACE   LAST SEEN   TYPE      REASON      OBJECT        MESSAGE
s01         11m         Normal    Scheduled   pod/healthy   Successfully assigned s01/healthy to node1
";
    let desk = Desk::new();
    let events = desk.file("events.txt", EVENTS);
    let log = fixture("captures/kubelet.log.zst");
    let log = log.to_str().unwrap();
    let taken = "2026-11-21T01:03:50Z";
    let all = [&*events, "--kubelet-log", log, "--taken", taken];
    let (session, _) = desk.import("a.kflow", &all);
    let o = run(&["why", "s01/healthy", "-s", &session, "-o", "json"]);
    let said = text(&o.stdout);
    assert!(!said.contains("KF30"), "{said}");
}

/// The rows are of `s02/image-missing`, as kubectl 1.36 printed them.
#[test]
fn a_pod_of_which_only_old_events_tell_may_be_gone() {
    let desk = Desk::new();
    let told = |age: &str| {
        let rows = format!(
            "NAMESPACE   LAST SEEN   TYPE      REASON      OBJECT              MESSAGE\n\
             s02         {age}         Warning   Failed      pod/image-missing   Failed to pull image \"127.0.0.1:5000/nope:1\": rpc error: code = NotFound desc = failed to pull and unpack image \"127.0.0.1:5000/nope:1\": failed to resolve image: 127.0.0.1:5000/nope:1: not found\n"
        );
        let events = desk.file("events.txt", rows);
        let (session, _) = desk.import("a.kflow", &[&events]);
        let o = run(&["why", "s02/image-missing", "-s", &session, "-o", "json"]);
        (o.status.code(), text(&o.stdout))
    };
    let (code, said) = told("2m5s");
    assert!(code == Some(1) && said.contains("KF601"), "{said}");
    let (code, said) = told("12m");
    assert!(code == Some(2) && !said.contains("KF601"), "{said}");
}

/// A description shows a pod as it was when kubectl ran.
#[test]
fn a_description_says_nothing_of_what_followed() {
    let desk = Desk::new();
    let is = |p: &Printed| p.file == "s1-healthy-1.36.txt";
    let described = printed().into_iter().find(is).unwrap();
    let file = described.copy(&desk);
    let uid = "c3cc4508-dddb-4946-bb9c-13a558746751";
    let log = desk.file("later.log", logged("00:53:41", "s02/other", uid));
    let (session, _) = desk.import("a.kflow", &["--watch", &file, "--kubelet-log", &log]);
    let why = |args: &[&str]| {
        let o = run(&[&["why", "-s", &session], args].concat());
        (o.status.code(), text(&o.stdout) + &text(&o.stderr))
    };
    let (code, said) = why(&["s01/healthy"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no watch tells what followed"), "{said}");
    let (code, said) = why(&["s01/healthy", "--at", "2026-11-27T00:33:42Z"]);
    assert_eq!(code, Some(0), "{said}");
    // Nor does it say that there is nothing else.
    let (code, said) = why(&["--all"]);
    assert_eq!(code, Some(2), "{said}");
}

/// The description gives way to the JSON of that minute: the pod is still there.
#[test]
fn a_pod_whose_description_gives_way_is_not_gone() {
    let desk = Desk::new();
    let is = |p: &Printed| p.file == "s1-healthy-1.36.txt";
    let described = printed().into_iter().find(is).unwrap();
    let file = described.copy(&desk);
    let earlier = Printed {
        file: "s1-healthy.json".to_owned(),
        ran_at: "2026-11-27T00:33:11.616Z".to_owned(),
        ..described
    };
    let json = earlier.copy(&desk);
    let (session, _) = desk.import("a.kflow", &["--watch", &file, "--watch", &json]);
    let o = run(&["why", "s01/healthy", "-s", &session]);
    assert!(!text(&o.stdout).contains("gone"), "{o:?}");
}

#[test]
fn a_pasted_description_is_known_within_its_ticket() {
    let desk = Desk::new();
    let p = image_missing();
    let described = std::fs::read_to_string(fixture("kubectl").join(&p.file)).unwrap();
    let quoted: String = described
        .lines()
        .map(|l| format!("> {l}\n").replace("> \n", ">\n"))
        .collect();
    for (name, ticket) in [
        (
            "ticket.md",
            format!(
                "The shop hangs since noon.\n\n```\n$ kubectl describe pod image-missing\n{described}```\nThanks!\n"
            ),
        ),
        ("quoted.txt", format!("You wrote:\n\n{quoted}\nAnd now?\n")),
        (
            "more.txt",
            format!(
                "{described}\n$ journalctl -u containerd | tail -1\nNov 21 00:29:00 node1 containerd[7]: started\n"
            ),
        ),
        (
            "at once.txt",
            format!(
                "{described}[root@node1 ~]# journalctl -u containerd | tail -1\nNov 21 00:29:00 node1 containerd[7]: started\n"
            ),
        ),
    ] {
        let path = desk.file(name, ticket);
        let (session, _) = desk.import("ticket.kflow", &[&path, "--taken", &p.ran_at]);
        let kept = std::fs::read_to_string(&session).unwrap();
        assert!(!kept.contains("containerd[7]"), "{name}: {kept}");
        let o = run(&["why", &p.pod, "-s", &session, "-o", "name"]);
        assert_eq!(o.status.code(), Some(1), "{name}: {o:?}");
        let o = run(&["why", &p.pod, "-s", &session]);
        assert!(text(&o.stdout).contains("KF601"), "{name}: {o:?}");
        let o = run(&["why", "--all", "-s", &session]);
        let said = text(&o.stderr);
        assert!(
            said.contains("unknown how other pods are"),
            "{name}: {said}"
        );
    }
}

/// A description of a pod without Events does not say how old the pod is.
#[test]
fn how_long_is_not_told_where_nothing_says_how_old_the_pod_is() {
    let desk = Desk::new();
    let pod = std::fs::read_to_string(fixture("kubectl/s2-pvc-unbound-1.36.txt")).unwrap();
    let (pod, _) = pod.split_once("Events:").unwrap();
    let claim = "Name:          data\nNamespace:     s05\nStorageClass:  fast\nStatus:        Pending\nVolume:        \nLabels:        <none>\n\
                 Annotations:   volume.kubernetes.io/selected-node: node1\nFinalizers:    [kubernetes.io/pvc-protection]\nEvents:\n  \
                 Type     Reason              Age               From              Message\n  \
                 ----     ------              ----              ----              -------\n  \
                 Warning  ProvisioningFailed  9s (x6 over 3m)   example.com/fast  failed to provision volume with StorageClass \"fast\": no space\n";
    let ticket = desk.file("ticket.txt", format!("{pod}Events:  <none>\n\n\n{claim}"));
    let (session, _) = desk.import("a.kflow", &[&ticket, "--taken", "2026-11-27T00:37:30Z"]);
    let node = std::fs::read_to_string(&session).unwrap();
    assert!(node.contains(r#"["selectedNode","node1"]"#), "{node}");
    let o = run(&["why", "s05/pvc-unbound", "-s", &session]);
    let said = text(&o.stdout);
    let head = "s05/pvc-unbound   stuck in schedule   ";
    assert!(said.starts_with(head) && said.contains("KF214"), "{said}");
}

/// What stands beside a dated description was printed with it, whenever the ticket was saved.
#[test]
fn a_table_beside_an_old_description_does_not_make_it_last_until_today() {
    let desk = Desk::new();
    let described = "$ kubectl describe pod nginx
Name:           nginx
Namespace:      default
Node:           node1/10.0.0.1
Start Time:     Tue, 04 Sep 2018 10:00:00 +0000
Status:         Pending
Containers:
  nginx:
    Image:          mysql:5.7.14
    State:          Waiting
      Reason:       ContainerCreating
    Ready:          False
    Restart Count:  0
Conditions:
  Type           Status
  Initialized    True
  Ready          False
  PodScheduled   True
Events:
  Type    Reason     Age   From               Message
  ----    ------     ----  ----               -------
  Normal  Scheduled  7m    default-scheduler  Successfully assigned default/nginx to node1
  Normal  Pulling    5m    kubelet, node1     pulling image \"mysql:5.7.14\"
";
    let table = "$ kubectl get pods
NAME    READY   STATUS    RESTARTS   AGE
other   1/1     Running   0          3d
";
    for ticket in [
        format!("{described}\n{table}"),
        format!("{table}\n{described}"),
    ] {
        let file = desk.file_of("ticket.txt", &ticket, "2026-11-27T00:38:00Z");
        let o = run(&["why", "--all", "-s", &file]);
        let said = text(&o.stdout);
        let first = said.lines().next().unwrap_or_default();
        assert!(
            first.contains("KF609") && first.contains(" for 5m"),
            "{said}"
        );
        // Unless the user knows better.
        let all = [&*file, "--taken", "2018-09-05T10:00:00Z"];
        let (session, _) = desk.import("taken.kflow", &all);
        let o = run(&["why", "--all", "-s", &session]);
        assert!(!text(&o.stdout).contains(" for 5m"));
    }
}

/// A container that backs off is past its image and its volumes, whatever Events of these are the newest: that of the pull's end was
/// combined with others (HolmesGPT's fixture 19_detect_missing_app_details), and the kubelet mounts volumes anew in each sync.
#[test]
fn a_container_that_backs_off_waits_for_nothing_before() {
    let desk = Desk::new();
    let described = |events: &str| {
        format!(
            "Name:           auth-5c4sf
Namespace:      default
Node:           node1/10.0.0.1
Start Time:     Fri, 26 Sep 2025 07:10:00 +0200
Status:         Running
Containers:
  flask:
    Container ID:   containerd://2f1b
    Image:          devel/flask-app:latest
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       Error
      Exit Code:    1
      Started:      Fri, 26 Sep 2025 12:50:20 +0200
      Finished:     Fri, 26 Sep 2025 12:51:22 +0200
    Ready:          False
    Restart Count:  944
Events:
  Type     Reason       Age                     From     Message
  ----     ------       ----                    ----     -------
{events}"
        )
    };
    let pulls = "  Normal   Pulled       14m (x43 over 5h4m)     kubelet  (combined from similar events): Successfully pulled image \"devel/flask-app:latest\" in 1.042s (1.042s including waiting).
  Normal   Pulling      2m30s (x59 over 5h40m)  kubelet  Pulling image \"devel/flask-app:latest\"\n";
    let backs_off = "  Warning  BackOff      21s (x1277 over 5h39m)  kubelet  Back-off restarting failed container flask in pod auth-5c4sf_default(77ea5f53-aa55-4f77-9a1a-2f7fa3a38120)\n";
    let mounts = "  Warning  FailedMount  10s (x3 over 40s)       kubelet  MountVolume.SetUp failed for volume \"c\" : configmap \"app-config\" not found\n";
    for (events, others) in [
        (format!("{pulls}{backs_off}"), ["KF609", "KF610"]),
        (format!("{backs_off}{mounts}"), ["KF402", "not yet"]),
    ] {
        let file = desk.file_of("ticket.txt", described(&events), "2025-09-26T10:51:43Z");
        let o = run(&["why", "--all", "-s", &file]);
        let said = text(&o.stdout);
        assert!(said.contains("KF708"), "{said}");
        for other in others {
            assert!(!said.contains(other), "{said}");
        }
    }
}

/// A server that handles SIGTERM ends with 0, also where the kubelet kills it for a probe.
#[test]
fn a_kill_by_a_probe_is_told_whatever_the_exit_code() {
    let desk = Desk::new();
    let kill = "  Normal   Killing    39s                 kubelet            Container django failed liveness probe, will be restarted\n";
    for (reason, code, kill, told) in [
        ("Completed", 0, kill, true),
        ("Error", 137, kill, true),
        ("Error", 143, kill, true),
        ("Completed", 0, "", false),
    ] {
        let described = format!(
            "Name:             django-qqhtl
Namespace:        atena
Node:             pedro-pc/192.168.127.2
Start Time:       Tue, 06 Jan 2026 23:10:26 -0300
Status:           Running
Controlled By:    ReplicaSet/django
Containers:
  django:
    State:          Running
      Started:      Tue, 06 Jan 2026 23:11:52 -0300
    Last State:     Terminated
      Reason:       {reason}
      Exit Code:    {code}
      Started:      Tue, 06 Jan 2026 23:10:29 -0300
      Finished:     Tue, 06 Jan 2026 23:11:51 -0300
    Ready:          False
    Restart Count:  1
    Liveness:       http-get http://:8000/ delay=30s timeout=1s period=20s #success=1 #failure=3
Conditions:
  Type              Status
  Ready             False
  PodScheduled      True
Events:
  Type     Reason     Age                 From               Message
  ----     ------     ----                ----               -------
  Normal   Scheduled  2m                  default-scheduler  Successfully assigned atena/django-qqhtl to pedro-pc
  Warning  Unhealthy  39s (x3 over 79s)   kubelet            Liveness probe failed: Get \"http://10.42.0.158:8000/\": context deadline exceeded
{kill}  Normal   Started    35s (x2 over 118s)  kubelet            Started container django
"
        );
        let said = super::fragments::told(&desk, &described);
        assert_eq!(said.contains("KF803"), told, "{reason} {code}\n{said}");
    }
}

/// tektoncd/pipeline 4784: the pod has ended, and what stands above its containers is an init container.
#[test]
fn a_part_of_a_description_of_a_pod_that_has_ended_waits_for_nothing() {
    let desk = Desk::new();
    let state = |message: &str| {
        format!(
            "    State:          Terminated
      Reason:       Error
      Exit Code:    126
      Started:      Fri, 13 May 2022 23:34:24 +0300
      Finished:     Fri, 13 May 2022 23:34:24 +0300
    Ready:          False
    Restart Count:  0
Containers:
  step-echo:
    Image:         alpine
    State:          Terminated
      Reason:       ContainerStatusUnknown
      Message:      {message}
      Exit Code:    137
      Started:      Mon, 01 Jan 0001 00:00:00 +0000
      Finished:     Mon, 01 Jan 0001 00:00:00 +0000
    Ready:          False
    Restart Count:  0
"
        )
    };
    let ended = "The container could not be located when the pod was terminated";
    let said = super::fragments::told(&desk, &format!("```\n{}```\n", state(ended)));
    assert!(said.contains("failed in start"), "{said}");
    assert!(
        said.contains("KF707") && said.contains("step-echo"),
        "{said}"
    );
    assert!(!said.contains("KF708"), "{said}");
    // Whether the pod goes on is not told: its container is not started again, as it would have been at once.
    let said = super::fragments::told(&desk, &format!("```\n{}```\n", state("x")));
    assert!(said.contains("stuck in start"), "{said}");
    assert!(!said.contains("backing off"), "{said}");
}

/// Of a container that waits in CrashLoopBackOff the last end was at most five minutes before; without its time nothing is known of how
/// long it ran.
#[test]
fn a_description_of_a_crash_loop_claims_no_more_than_its_times() {
    let desk = Desk::new();
    let described = |finished: &str, events: &str| {
        format!(
            "Name:             iis-vscxm
Namespace:        default
Node:             knnode3w/10.244.2.2
Start Time:       Tue, 08 Jan 2019 15:10:33 -0500
Status:           Running
Containers:
  iis:
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       Error
      Exit Code:    1
{finished}    Ready:          False
    Restart Count:  21
{events}"
        )
    };
    let finished = "      Started:      Tue, 08 Jan 2019 15:53:00 -0500\n      Finished:     Tue, 08 Jan 2019 15:53:00 -0500\n";
    let events = "Events:
  Type     Reason     Age                    From               Message
  ----     ------     ----                   ----               -------
  Normal   Started    2m00s (x6 over 4m56s)  kubelet            Started container iis
  Warning  BackOff    11s (x22 over 4m45s)   kubelet            Back-off restarting failed container iis in pod iis-vscxm_default
";
    let said = super::fragments::told(&desk, &described(finished, ""));
    assert!(said.contains("KF708"), "{said}");
    assert!(!said.contains("0d"), "{said}");
    let said = super::fragments::told(&desk, &described("", events));
    assert!(
        said.contains("KF708") && said.contains("exit code 1"),
        "{said}"
    );
    assert!(!said.contains(" after "), "{said}");
}

/// kafka-docker-playground 8515: kubectl prints no message of a container that waits, but that of the start that failed.
#[test]
fn why_a_container_cannot_be_started_is_told_by_its_last_state() {
    let desk = Desk::new();
    let paste = "    State:          Waiting\n      Reason:       RunContainerError\n    Last State:     Terminated\n      Reason:       StartError\n      Message:      failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: \"\": executable file not found in $PATH\n      Exit Code:    128\n      Started:      Thu, 01 Jan 1970 00:00:00 +0000\n      Finished:     Tue, 21 Jul 2026 15:57:17 +0000\n    Ready:          False\n    Restart Count:  4\nConditions:\n  Type                        Status\n  PodReadyToStartContainers   True \n  Initialized                 True \n  Ready                       False \n  ContainersReady             False \n  PodScheduled                True \n";
    let said = super::fragments::told(&desk, paste);
    assert!(said.contains("KF704"), "{said}");
    let joined = crate::one_line(&said);
    let words = "executable file not found in $PATH";
    assert!(joined.contains(words), "{said}");
}

/// Certified-kubernetes-administrator-course 150: liveness and readiness probes are run only when the startup probe has passed.
#[test]
fn a_startup_probe_has_passed_where_another_probe_fails_later() {
    let desk = Desk::new();
    let row = |age: &str, what: &str| {
        format!(
            "  Warning  Unhealthy       {age}       kubelet  {what} probe failed: HTTP probe failed with statuscode: 500\n"
        )
    };
    let head = "  Normal   Created         21h                      kubelet  Created container kube-apiserver\n  Normal   Started         21h                      kubelet  Started container kube-apiserver\n";
    let startup = row("18h (x9 over 20h)", "Startup");
    let readiness = row("11h (x242 over 21h)", "Readiness");
    let passed = super::fragments::told(&desk, &format!("{head}{startup}{readiness}"));
    assert!(!passed.contains("KF802"), "{passed}");
    assert!(passed.contains("KF801"), "{passed}");
    let fails = super::fragments::told(&desk, &format!("{head}{startup}"));
    assert!(fails.contains("KF802"), "{fails}");
    let earlier = row("20h (x2 over 21h)", "Readiness");
    let again = super::fragments::told(&desk, &format!("{head}{earlier}{startup}"));
    assert!(again.contains("KF802"), "{again}");
}
