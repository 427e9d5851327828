//! Pods of which nothing is left but what kubectl printed: `fixtures/kubectl`, printed by real kubectls of recorded objects.

use super::{Desk, fixture, run, text};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::time::{Duration, SystemTime};

/// A row of `fixtures/kubectl/expected.json`.
#[derive(Deserialize)]
struct Printed {
    file: String,
    /// When kubectl ran.
    ran_at: String,
    pod: String,
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
fn image_missing() -> Printed {
    let is = |p: &Printed| p.file == "s2-image-missing-1.36.txt";
    printed().into_iter().find(is).unwrap()
}

impl Printed {
    /// Copies the text to the desk, as of the moment at which it was printed.
    fn copy(&self, desk: &Desk) -> String {
        let path = desk.file(
            &self.file,
            std::fs::read(fixture("kubectl").join(&self.file)).unwrap(),
        );
        let (at, _) = kflow_model::Nanos::parse_rfc3339(&self.ran_at).unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(at.0 as u64);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(at)
            .unwrap();
        path
    }
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
    ] {
        let path = desk.file(name, ticket);
        let (session, _) = desk.import("ticket.kflow", &[&path, "--taken", &p.ran_at]);
        let o = run(&["why", &p.pod, "-s", &session, "-o", "name"]);
        assert_eq!(o.status.code(), Some(1), "{name}: {o:?}");
        let o = run(&["why", &p.pod, "-s", &session]);
        assert!(text(&o.stdout).contains("KF601"), "{name}: {o:?}");
    }
}

/// A table of Events has no UIDs.
#[test]
fn events_of_a_table_are_of_the_pod_of_that_name() {
    let desk = Desk::new();
    let events = desk.file(
        "events.txt",
        "NAMESPACE   LAST SEEN   TYPE      REASON      OBJECT              MESSAGE\n\
         s02         53s         Normal    Scheduled   pod/image-missing   Successfully assigned s02/image-missing to node1\n",
    );
    let log = desk.file(
        "kubelet.log",
        "I1127 00:34:09.334034    3731 kubelet.go:2724] \"SyncLoop UPDATE\" source=\"api\" pods=[\"s02/image-missing\"]\n\
         E1127 00:34:09.335034    3731 pod_workers.go:1301] \"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"c\\\" with ImagePullBackOff\" pod=\"s02/image-missing\" podUID=\"c3cc4508-dddb-4946-bb9c-13a558746751\"\n",
    );
    let taken = "2026-11-27T00:34:20Z";
    let args = ["--watch", &events, "--kubelet-log", &log, "--taken", taken];
    let (session, _) = desk.import("a.kflow", &args);
    let o = run(&["timeline", "s02/image-missing", "-s", &session]);
    let said = text(&o.stdout);
    assert_eq!(said.matches("uid ").count(), 1, "{said}");
    assert!(said.contains("uid c3cc4508"), "{said}");
}

/// A table that a real kubectl printed, and when.
struct Listed {
    file: &'static str,
    taken: &'static str,
    /// The recording that its pods are of.
    recording: &'static str,
    truth: &'static str,
}

const LISTED: [Listed; 3] = [
    Listed {
        file: "s2-pods-wide-1.36.txt",
        taken: "2026-11-21T00:30:07Z",
        recording: "S2-",
        truth: "expected.json",
    },
    Listed {
        file: "s3-pods-wide-1.36.txt",
        taken: "2026-11-21T00:33:28Z",
        recording: "S3-",
        truth: "expected.json",
    },
    Listed {
        file: "s15-pods-1.36.txt",
        taken: "2026-11-26T02:12:00Z",
        recording: "S15-",
        truth: "versions/expected.json",
    },
];

/// What a status says where a message would say more: the cause that it stands for, and the truer ones.
const LESS: [(&str, &[&str]); 5] = [
    ("KF613", &["KF601", "KF604"]),
    ("KF316", &["KF303"]),
    ("KF701", &["KF414"]),
    ("KF703", &["KF704"]),
    ("KF704", &["KF714"]),
];

impl Listed {
    fn text(&self) -> String {
        std::fs::read_to_string(fixture("kubectl").join(self.file)).unwrap()
    }
    /// The causes that are true of each pod, by `namespace/name`.
    fn truth(&self) -> std::collections::BTreeMap<String, Vec<String>> {
        let all = std::fs::read(fixture(self.truth)).unwrap();
        let all: Vec<serde_json::Value> = serde_json::from_slice(&all).unwrap();
        let mut out = std::collections::BTreeMap::<String, Vec<String>>::new();
        for row in all {
            if row["session"].as_str().unwrap().starts_with(self.recording) {
                let causes = row["causes"].as_array().unwrap().iter();
                let of_pod = out.entry(row["target"].as_str().unwrap().to_owned());
                of_pod
                    .or_default()
                    .extend(causes.map(|c| c.as_str().unwrap().to_owned()));
            }
        }
        out
    }
}

#[test]
fn a_table_of_pods_tells_their_statuses_and_no_cause_that_is_not_true() {
    let desk = Desk::new();
    let (mut told, mut wrong) = (0, Vec::new());
    for t in LISTED {
        let table = desk.file(t.file, t.text());
        let (session, said) =
            desk.import(&format!("{}.kflow", t.file), &[&table, "--taken", t.taken]);
        assert!(!said.contains("malformed"), "{said}");
        let truth = t.truth();
        for row in t.text().lines().skip(1) {
            let cells: Vec<&str> = row.split_whitespace().collect();
            let (pod, ready, status) = (format!("{}/{}", cells[0], cells[1]), cells[2], cells[3]);
            let o = run(&["why", &pod, "-s", &session, "-o", "json"]);
            let got: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap_or_default();
            let cause = got[0]["cause"].as_str().unwrap_or_default();
            let right = match o.status.code() {
                Some(0) => matches!((ready, status), ("1/1", "Running") | (_, "Completed")),
                Some(1) => {
                    told += 1;
                    let less = LESS
                        .iter()
                        .find(|(c, _)| *c == cause)
                        .map_or(&[][..], |l| l.1);
                    let of_pod = truth.get(&pod).unwrap_or_else(|| panic!("{pod}"));
                    of_pod
                        .iter()
                        .any(|c| c == cause || less.contains(&c.as_str()))
                }
                // What is not known is told with the status that is.
                _ => text(&o.stderr).contains(&format!("({status} when it was last seen)")),
            };
            if !right {
                let said = text(&o.stderr);
                wrong.push(format!("{pod}: {cause} {:?} {said}", o.status.code()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(told >= 20, "{told}");
    // Of all of them, those are named of which nothing tells why.
    let table = desk.file("pods.txt", LISTED[1].text());
    let (session, _) = desk.import("all.kflow", &[&table, "--taken", LISTED[1].taken]);
    let o = run(&["why", "--all", "-s", &session]);
    let said = text(&o.stderr);
    let names = "how s11/crash (Error), s12/liveness (CrashLoopBackOff) and 7 more are";
    assert!(said.contains(names), "{said}");
}

#[test]
fn a_table_says_nothing_of_pods_that_another_capture_tells_more_of() {
    let desk = Desk::new();
    let table = desk.file("pods.txt", LISTED[0].text());
    let p = image_missing();
    let described = desk.file(
        "describe.txt",
        std::fs::read(fixture("kubectl").join(&p.file)).unwrap(),
    );
    let taken = LISTED[0].taken;
    let (session, _) = desk.import("a.kflow", &[&table, &described, "--taken", taken]);
    let o = run(&["why", &p.pod, "-s", &session, "-o", "json"]);
    let got: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!(got.as_array().map(Vec::len), Some(1), "{got}");
    assert_eq!(got[0]["cause"], "KF601");
    // The kubelet's log says more of its pod than the word of a table.
    let log = desk.file(
        "kubelet.log",
        "E1121 00:30:06.335034    3731 pod_workers.go:1301] \"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"c\\\" with CreateContainerConfigError\" pod=\"s04/secret-missing\" podUID=\"c3cc4508-dddb-4946-bb9c-13a558746751\"\n",
    );
    let states = |files: &[&str]| {
        let (session, _) = desk.import("b.kflow", &[files, &["--taken", taken]].concat());
        let lines = std::fs::read_to_string(session).unwrap();
        let states = lines.lines().filter(|l| l.contains(r#""b":{"pod""#));
        states.filter(|l| l.contains("secret-missing")).count()
    };
    assert_eq!(states(&[&table]), 1);
    assert_eq!(states(&[&table, "--kubelet-log", &log]), 0);
}

/// A ticket has the command that printed a table, and other tables around it.
#[test]
fn a_pasted_table_of_pods_is_of_the_namespace_of_its_command() {
    let desk = Desk::new();
    let rows = "NAME             READY   STATUS             RESTARTS   AGE\n\
                pod/image-missing   0/1     ErrImageNeverPull   0          2m23s\n";
    let ticket = format!(
        "It hangs:\n\n$ kubectl get all -n shop\n{rows}\nNAME          TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\n\
         service/web   ClusterIP   10.0.0.1     <none>        80/TCP    3h\n\nThanks!\n"
    );
    let ticket = desk.file("ticket.md", ticket);
    let (session, _) = desk.import("a.kflow", &[&ticket, "--taken", "2026-11-21T00:30:07Z"]);
    let o = run(&["why", "shop/image-missing", "-s", &session, "-o", "json"]);
    let got: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap_or_default();
    assert_eq!(got[0]["cause"], "KF607", "{o:?}");
    // Without it nothing says whose pods they are.
    let bare = desk.file("pods.txt", rows);
    let said = desk.refused(&["--watch", &bare]);
    assert!(said.contains("with -A"), "{said}");
}
