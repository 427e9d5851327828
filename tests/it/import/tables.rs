//! Tables that kubectl prints of pods, nodes and claims: what they tell, and what they do not.

use super::described::{image_missing, logged};
use super::statuses::LISTED;
use super::{Desk, fixture, run, text};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write as _;

/// What a ticket has of `s02`, printed at `TAKEN`: the Event of a pod that was deleted since, as kubectl 1.36 printed it for
/// `s02/image-missing`, and behind it a line of that pod's kubelet.
const OLD_EVENT: &str = "LAST SEEN   TYPE      REASON      OBJECT              MESSAGE\n\
     4m          Warning   Failed      pod/image-missing   Failed to pull image \"127.0.0.1:5000/nope:1\": rpc error: code = NotFound desc = failed to pull and unpack image \"127.0.0.1:5000/nope:1\": failed to resolve image: 127.0.0.1:5000/nope:1: not found\n";
const TAKEN: &str = "2026-11-27T00:38:00Z";

#[test]
fn a_pod_that_a_whole_table_lacks_is_gone() {
    /// What ends a gzip file.
    const CHECKSUM: usize = 8;
    const COLUMNS: &str = "NAME    READY   STATUS             RESTARTS   AGE\n";
    const ROW: &str = "other   0/1     ImagePullBackOff   0          12m\n";
    const ALL: &str = "NAMESPACE     NAME             READY   STATUS             RESTARTS   AGE   IP           NODE\n";
    const OTHER: &str = "s02           other            0/1     ImagePullBackOff   0          12m   10.244.2.2   node1\n";
    const SYSTEM: &str = "kube-system   kube-proxy-x4k   1/1     Running            0          3d    10.99.0.1    node1\n";
    let desk = Desk::new();
    // The kubelet's log tells of all pods in the table: its rows give way.
    let uid = "c3cc4508-dddb-4946-bb9c-13a558746751";
    let of_others = logged("00:37:30", "s02/other", uid)
        + &logged(
            "00:37:30",
            "kube-system/kube-proxy-x4k",
            &uid.replace("c3", "d3"),
        );
    let log = desk.file("kubelet.log", &of_others);
    let told_gone = |file: &str, log: &str| {
        let all = [file, "--kubelet-log", log, "--taken", TAKEN];
        let (session, _) = desk.import("a.kflow", &all);
        let o = run(&["why", "s02/image-missing", "-s", &session, "-o", "json"]);
        let said = text(&o.stdout);
        let states = (said.contains(r#""state":"gone""#), said.contains("KF601"));
        assert!(states.0 != states.1, "{said} {}", text(&o.stderr));
        states.0
    };
    let gone = |ticket: &str, log: &str| told_gone(&desk.file("ticket.md", ticket), log);
    let command = "$ kubectl get pods -n s02\n";
    let system = SYSTEM.replace("node1", "node2");
    let events = format!("$ kubectl get events -n s02\n{OLD_EVENT}");
    for (is_whole, table) in [
        (true, format!("{command}{COLUMNS}{ROW}")),
        (true, format!("```\n{command}{COLUMNS}{ROW}```\n")),
        (true, format!("{command}\n```\n{COLUMNS}{ROW}```\n")),
        (
            true,
            format!("{command}No resources found in s02 namespace.\n"),
        ),
        (true, "kubectl get pods -A\nNo resources found\n".to_owned()),
        (true, format!("$ kubectl get pods -A -o wide\n{ALL}{OTHER}")),
        // What may lack pods, and does have it.
        (
            false,
            format!("$ kubectl get pods -n s02 -l app=other\n{COLUMNS}{ROW}"),
        ),
        (
            false,
            format!("$ kubectl get pods -n s02 wide\n{COLUMNS}{ROW}"),
        ),
        (false, format!("$ kubectl get pods -n shop\n{COLUMNS}{ROW}")),
        (false, format!("$ kubectl get pods -n s02\n{ALL}{SYSTEM}")),
        (false, format!("{ALL}{system}{OTHER}")),
        (
            false,
            format!(
                "{command}{COLUMNS}{ROW}{}",
                ROW.replace("other", "image-missing")
            ),
        ),
        // Rows were cut out.
        (false, format!("{command}{COLUMNS}{ROW}[…]\n")),
        (
            false,
            format!("{command}{COLUMNS}{ROW}(rest of kubectl cut)\n"),
        ),
        (
            false,
            format!("{command}{COLUMNS}{ROW}... 40 k more rows\n"),
        ),
        (false, format!("{command}{COLUMNS}{ROW}[…]\n{COLUMNS}{ROW}")),
        // Of another command.
        (
            false,
            format!("{command}Error from server (Timeout)\n\nThese hang:\n{COLUMNS}{ROW}"),
        ),
        (
            false,
            format!(
                "{command}Error from server\n$ helm list -n s02\n\n$ flux get all\nNo resources found\n"
            ),
        ),
        (false, format!("{command}No resources found\n")),
        (
            false,
            format!("{command}No resources found in shop namespace.\n"),
        ),
    ] {
        for ticket in [format!("{table}\n{events}"), format!("{events}\n{table}")] {
            assert_eq!(gone(&ticket, &log), is_whole, "{ticket}");
        }
    }
    // The pod was there later: the table is older than its file.
    let whole = format!("{command}{COLUMNS}{ROW}\n{events}");
    let later = of_others + &logged("00:38:30", "s02/image-missing", &uid.replace("c3", "e3"));
    assert!(!gone(&whole, &desk.file("later.log", later)));
    // The file lacks its end, with the last row.
    let missing = ROW.replace("other", "image-missing");
    let mut packed = GzEncoder::new(Vec::new(), Compression::none());
    write!(packed, "{events}\n{command}{COLUMNS}{ROW}{missing}").unwrap();
    let mut packed = packed.finish().unwrap();
    packed.truncate(packed.len() - CHECKSUM - missing.len());
    assert!(!told_gone(&desk.file("ticket.md.gz", packed), &log));
    // What there is of the table is decoded where the file ends.
    let mut packed = GzEncoder::new(Vec::new(), Compression::none());
    write!(packed, "{command}{COLUMNS}{ROW}").unwrap();
    let mut packed = packed.finish().unwrap();
    packed.truncate(packed.len() - CHECKSUM);
    let cut = desk.file("cut.md.gz", packed);
    let (session, _) = desk.import("cut.kflow", &[&cut, "--taken", TAKEN]);
    let session = std::fs::read_to_string(session).unwrap();
    assert!(session.contains("cut.md.gz is cut"), "{session}");
    // An Event of the time in which the commands of a ticket are typed is of a pod that may be new.
    assert!(!gone(&whole.replace("4m ", "90s"), &log));
}

/// The file was copied the next day: when its table was printed is not known.
#[test]
fn a_table_that_gives_way_does_not_move_the_end_of_a_log() {
    let desk = Desk::new();
    let uid = "c3cc4508-dddb-4946-bb9c-13a558746751";
    let log = desk.file("kubelet.log", logged("00:37:30", "s02/other", uid));
    let table = "$ kubectl get pods -n s02\nNAME    READY   STATUS             RESTARTS   AGE\nother   0/1     ImagePullBackOff   0          12m\n";
    let table = desk.file("ticket.md", table);
    for (taken, notes) in [(TAKEN, 1), ("2026-11-27T02:38:00Z", 0)] {
        let all = [&*table, "--kubelet-log", &log, "--taken", taken];
        let (session, _) = desk.import("a.kflow", &all);
        let said = std::fs::read_to_string(session).unwrap();
        for what in ["names of pods", "lists were read later"] {
            assert_eq!(said.matches(what).count(), notes, "{said}");
        }
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

/// A description does not say why a pod was not scheduled, nor how old it is; the row of a table does, whichever of
/// the two was typed first.
#[test]
fn a_description_takes_from_a_table_what_it_does_not_print() {
    let desk = Desk::new();
    let read = |name: &str| std::fs::read_to_string(fixture("kubectl").join(name)).unwrap();
    let table = read("s2-pods-wide-1.36.txt");
    let created = kflow_model::Nanos::parse_rfc3339("2026-11-27T00:32:51Z").unwrap();
    for typed in [
        "2026-11-27T00:34:51Z",
        "2026-11-27T00:34:56Z",
        "2026-11-27T00:35:01Z",
    ] {
        let table = desk.file_of("pods.txt", &table, "2026-11-27T00:34:56Z");
        let described = desk.file_of("gated.txt", read("s2-gated-1.36.txt"), typed);
        for files in [[&*described, &table], [&table, &described]] {
            let (session, _) = desk.import("a.kflow", &files);
            let o = run(&["why", "s22/gated", "-s", &session, "-o", "json"]);
            let got: Value = serde_json::from_slice(&o.stdout).unwrap_or_default();
            assert_eq!(got[0]["cause"], "KF220", "{typed}: {o:?}");
            assert_eq!(got[0]["since_ns"].as_i64(), Some(created.0.0), "{typed}");
        }
    }
    // A StatefulSet makes pods of one name: the row is of the one before, or of the one after.
    let row = |cells: &str| {
        let titles = "NAMESPACE   NAME            READY   STATUS    RESTARTS   AGE";
        format!("{titles}\ns02         image-missing   {cells}\n")
    };
    for (cells, printed) in [
        ("1/1     Running   0          3d", "2026-11-27T00:24:11Z"),
        (
            "0/1     SchedulingGated   0          2m",
            "2026-11-27T00:44:11Z",
        ),
    ] {
        let table = desk.file_of("pods.txt", row(cells), printed);
        let described = image_missing().copy(&desk);
        let state = |files: &[&str]| {
            let (session, _) = desk.import("a.kflow", files);
            let lines = std::fs::read_to_string(session).unwrap();
            let states: Vec<Value> = lines
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap())
                .filter(|o| !o["b"]["pod"].is_null())
                .collect();
            let [state] = &states[..] else {
                panic!("{states:?}");
            };
            state["b"].clone()
        };
        assert_eq!(
            state(&[&described, &table]),
            state(&[&described]),
            "{cells}"
        );
    }
}

/// A file's time may be that of a copy: a row is later than a description if its age says so too.
#[test]
fn a_later_row_tells_that_a_pod_has_become_ready() {
    let desk = Desk::new();
    let described = image_missing().copy(&desk);
    for (cells, printed, wanted) in [
        (
            "1/1     Running            0          12m",
            "00:44:11",
            None,
        ),
        (
            "0/1     ImagePullBackOff   0          12m",
            "00:44:11",
            Some("KF601"),
        ),
        // Printed before, and copied.
        (
            "1/1     Running            0          1m",
            "00:44:11",
            Some("KF601"),
        ),
        (
            "1/1     Running            0          2m33s",
            "00:34:30",
            Some("KF601"),
        ),
    ] {
        let titles = "NAMESPACE   NAME            READY   STATUS             RESTARTS   AGE";
        let table = format!("{titles}\ns02         image-missing   {cells}\n");
        let table = desk.file_of("pods.txt", table, &format!("2026-11-27T{printed}Z"));
        let (session, _) = desk.import("a.kflow", &[&table, &described]);
        let o = run(&["why", "s02/image-missing", "-s", &session, "-o", "json"]);
        let got: Value = serde_json::from_slice(&o.stdout).unwrap_or_default();
        assert_eq!(got[0]["cause"].as_str(), wanted, "{cells}: {o:?}");
        let code = i32::from(wanted.is_some());
        assert_eq!(o.status.code(), Some(code), "{cells}: {o:?}");
    }
}

/// A table of nodes shows neither labels nor what the nodes have left.
#[test]
fn nothing_is_said_of_nodes_that_a_table_does_not_show() {
    let desk = Desk::new();
    let hog = std::fs::read_to_string(fixture("kubectl/s2-cpu-hog-1.36.txt")).unwrap();
    let selects = hog
        .replace(
            "Insufficient cpu",
            "node(s) didn't match Pod's node affinity/selector",
        )
        .replace(
            "Node-Selectors:              <none>",
            "Node-Selectors:              pool=fast",
        );
    let nodes = std::fs::read_to_string(fixture("kubectl/s4-nodes-wide-1.36.txt")).unwrap();
    let nodes = desk.file("nodes.txt", nodes.replace("NotReady", "Ready   "));
    let described = std::fs::read_to_string(fixture("kubectl/s4-node1-1.36.txt")).unwrap();
    // What the node can give was cut off. The row beside it says nothing of labels.
    let (head, _) = described.split_once("Capacity:").unwrap();
    let head = desk.file("head.txt", head);
    let described = desk.file("node.txt", &described);
    for (pod, cause, [of_row, of_node, of_head]) in [
        (
            hog,
            "KF201",
            [
                "the pod asks for 64.",
                "node1 has at most",
                "the pod asks for 64.",
            ],
        ),
        (
            selects,
            "KF205",
            [
                "it wants pool=fast.",
                "node1 has no label pool",
                "node1 has no label pool",
            ],
        ),
    ] {
        let pod = desk.file("pod.txt", pod);
        for (files, want) in [
            (&[&*nodes][..], of_row),
            (&[&described], of_node),
            (&[&head, &nodes], of_head),
        ] {
            let of_pod = [&*pod, "--taken", "2026-11-27T00:34:31Z"];
            let (session, _) = desk.import("a.kflow", &[&of_pod, files].concat());
            let o = run(&["why", "s06/cpu-hog", "-s", &session, "-o", "json"]);
            let got: Value = serde_json::from_slice(&o.stdout).unwrap_or_default();
            assert_eq!(got[0]["cause"], cause, "{o:?}");
            let sentence = got[0]["sentence"].as_str().unwrap_or_default();
            assert!(sentence.contains(want), "{sentence}");
        }
    }
}

/// The tables are of nodes whose runtime did not answer, and that was cordoned.
#[test]
fn a_table_of_nodes_tells_what_it_knows_of_them_and_no_cause() {
    let desk = Desk::new();
    let node = |files: &[&str], node: &str| {
        let args = [files, &["--taken", "2026-11-27T00:37:30Z"]].concat();
        let (session, said) = desk.import("a.kflow", &args);
        assert!(!said.contains("malformed"), "{said}");
        let o = run(&["why", node, "-s", &session, "-o", "json"]);
        let rows: Value = serde_json::from_slice(&o.stdout).unwrap_or_default();
        let cause = rows[0]["cause"].as_str().unwrap_or_default().to_owned();
        (o.status.code(), cause, text(&o.stderr))
    };
    let table = |name: &str| fixture("kubectl").join(name).display().to_string();
    let not_ready = table("s4-nodes-wide-1.36.txt");
    let (code, cause, said) = node(&[&not_ready], "node/node1");
    assert_eq!((code, &*cause), (Some(2), ""), "{said}");
    assert!(said.contains("NotReady when it was last seen"), "{said}");
    // A pod on it may be ready for the API alone.
    let pods = desk.file(
        "pods.txt",
        "NAMESPACE   NAME    READY   STATUS    RESTARTS   AGE   IP           NODE\n\
         s01         web-0   1/1     Running   0          12m   10.244.2.2   node1\n",
    );
    let (code, _, said) = node(&[&not_ready, &pods], "s01/web-0");
    assert_eq!(code, Some(2), "{said}");
    // A pod that waits on it: the node is where to look.
    let waiting = desk.file(
        "waiting.txt",
        "NAMESPACE   NAME    READY   STATUS              RESTARTS   AGE   IP       NODE\n\
         s01         web-0   0/1     ContainerCreating   0          12m   <none>   node1\n",
    );
    for what in ["s01/web-0", "--all"] {
        let (code, _, said) = node(&[&not_ready, &waiting], what);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("not Ready: node node1"), "{said}");
        assert!(said.contains("kubectl describe node node1"), "{said}");
    }
    let cordoned = table("s8-nodes-1.20.txt");
    let (code, _, said) = node(&[&cordoned, &pods], "s01/web-0");
    assert_eq!(code, Some(0), "{said}");
    // What describes the node says why, and the row gives way to it, whichever is read later.
    let described = table("s4-node1-1.36.txt");
    for files in [[&*not_ready, &described], [&described, &not_ready]] {
        let (_, _, said) = node(&files, "node/node1");
        assert!(!said.contains("NotReady"), "{said}");
        let session = std::fs::read_to_string(desk.path("a.kflow")).unwrap();
        let nodes = session.matches("\"b\":{\"node\"").count();
        assert_eq!(nodes, 1, "{session}");
    }
    // Of one that was cut before its conditions the row says that it is not ready.
    let whole = std::fs::read_to_string(&described).unwrap();
    let (head, _) = whole.split_once("Conditions:").unwrap();
    let head = desk.file("head.txt", head);
    for files in [[&*not_ready, &head], [&head, &not_ready]] {
        let (_, _, said) = node(&files, "node/node1");
        assert!(said.contains("NotReady when it was last seen"), "{said}");
    }
}

/// The pod's description names the claim, and nothing else says that it is bound by now.
#[test]
fn a_table_of_claims_says_which_are_bound() {
    let desk = Desk::new();
    let described = fixture("kubectl/s2-pvc-unbound-1.36.txt")
        .display()
        .to_string();
    let claims = std::fs::read_to_string(fixture("kubectl/synthetic-claims-all-1.20.txt")).unwrap();
    let claim = |claims: &str, more: &[&str]| {
        let file = desk.file("claims.txt", claims);
        let args = [
            &[&*described, &file, "--taken", "2026-11-27T00:37:30Z"],
            more,
        ]
        .concat();
        let (session, _) = desk.import("a.kflow", &args);
        let lines = std::fs::read_to_string(&session).unwrap();
        let claims = lines.lines().filter(|l| {
            l.contains("\"k\":\"PersistentVolumeClaim\",\"ns\":\"s05\",\"n\":\"data\"")
                && l.contains("\"b\":{\"object\"")
        });
        let claims: Vec<String> = claims.map(str::to_owned).collect();
        claims
    };
    let alone = claim(&claims, &[]);
    assert_eq!(alone.len(), 1);
    assert!(
        alone[0].contains(r#"["phase","Pending"]"#) && !alone[0].contains("row:"),
        "{alone:?}"
    );
    // JSON says more.
    let json = json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "s05", "uid": "u",
        "resourceVersion": "7", "creationTimestamp": "2026-11-27T00:30:00Z"}, "status": {"phase": "Bound"}});
    let json = desk.file("claim.json", json.to_string());
    let both = claim(&claims, &["--watch", &json]);
    assert_eq!(both.len(), 1, "{both:?}");
    assert!(both[0].contains(r#"["phase","Bound"]"#), "{both:?}");
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
    // Behind Events of another namespace.
    let ticket =
        format!("$ kubectl get events -n s02\n{OLD_EVENT}$ kubectl get all -n shop\n{rows}");
    let ticket = desk.file("ticket.md", ticket);
    let (session, _) = desk.import("b.kflow", &[&ticket, "--taken", "2026-11-21T00:30:07Z"]);
    let states = std::fs::read_to_string(session).unwrap();
    let mut states = states.lines().filter(|l| l.contains(r#""b":{"pod""#));
    let state = states.next().unwrap_or_default();
    assert!(state.contains(r#""ns":"shop""#), "{state}");
    // Without it nothing says whose pods they are.
    let bare = desk.file("pods.txt", rows);
    let (session, _) = desk.import("c.kflow", &["--watch", &bare]);
    let states = std::fs::read_to_string(session).unwrap();
    assert!(states.contains(r#""ns":"NAMESPACE""#), "{states}");
}

/// A row says that a container runs, and not since when.
#[test]
fn a_container_of_a_row_has_not_run_for_longer_than_its_pod() {
    let desk = Desk::new();
    let paste = "$ kubectl -n shop get pods\n\
                 NAME    READY   STATUS    RESTARTS   AGE\n\
                 web-0   0/1     Running   0          38m\n\
                 $ kubectl -n shop get events\n\
                 LAST SEEN   TYPE      REASON      OBJECT      MESSAGE\n\
                 40s         Warning   Unhealthy   pod/web-0   Readiness probe failed: HTTP probe failed with statuscode: 500\n";
    let input = desk.file("paste.txt", paste);
    let (session, _) = desk.import("a.kflow", &["--watch", &input]);
    let o = run(&["why", "shop/web-0", "-s", &session]);
    let said = text(&o.stdout);
    assert!(said.contains("stuck in ready for 38m"), "{said}");
}

#[test]
fn a_pod_whose_newest_event_is_of_no_known_cause_is_not_said_to_be_on_its_way() {
    let desk = Desk::new();
    let paste = |reason: &str| {
        format!(
            "$ kubectl -n shop get events\n\
             LAST SEEN   TYPE      REASON      OBJECT      MESSAGE\n\
             5m          Normal    Scheduled   pod/web-0   Successfully assigned shop/web-0 to n1\n\
             20s         Warning   {reason}    pod/web-0   Error: some words that nobody knows\n"
        )
    };
    for (reason, code, has) in [
        (
            "Failed",
            1,
            "cannot be started: some words that nobody knows",
        ),
        (
            "Unheard",
            2,
            "of no cause that kflow knows: Unheard \"Error: some words",
        ),
    ] {
        let input = desk.file("paste.txt", paste(reason));
        let (session, _) = desk.import("a.kflow", &["--watch", &input]);
        let o = run(&["why", "shop/web-0", "-s", &session]);
        let said = text(&o.stdout) + &text(&o.stderr);
        assert_eq!(o.status.code(), Some(code), "{said}");
        let said = crate::one_line(&said);
        assert!(said.contains(has), "{said}");
    }
}

/// Only who read the Events knows that the kubelet said nothing of the pod's volumes.
#[test]
fn nothing_follows_from_events_that_were_not_read() {
    let desk = Desk::new();
    let pod = |volumes: serde_json::Value| {
        serde_json::json!({"kind": "Pod", "metadata": {"name": "web-0", "namespace": "shop", "uid": "6b1f", "creationTimestamp": "2026-11-21T08:00:00Z"},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}], "volumes": volumes},
            "status": {"phase": "Pending", "startTime": "2026-11-21T08:00:00Z", "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T08:00:00Z"},
                {"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": "2026-11-21T08:00:00Z"}],
                "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]}})
    };
    let claim =
        serde_json::json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let read = "2026-11-21T08:20:00Z";
    for (volumes, cause) in [(claim, "KF401"), (serde_json::json!([]), "KF713")] {
        let input = desk.file("pod.json", pod(volumes).to_string());
        let (session, _) = desk.import("a.kflow", &["--watch", &input, "--taken", read]);
        let o = run(&["why", "shop/web-0", "-s", &session]);
        let said = text(&o.stdout) + &text(&o.stderr);
        assert!(said.contains(cause), "{said}");
    }
}

/// Rows of nodes have no taints, and say which nodes are not ready.
#[test]
fn the_nodes_behind_a_taint_are_named_from_their_rows() {
    let desk = Desk::new();
    let paste = "$ kubectl get nodes\n\
                 NAME   STATUS     ROLES    AGE   VERSION\n\
                 n1     NotReady   <none>   44m   v1.34.1\n\
                 $ kubectl -n shop get pods\n\
                 NAME    READY   STATUS    RESTARTS   AGE\n\
                 web-0   0/1     Pending   0          40m\n\
                 $ kubectl -n shop get events\n\
                 LAST SEEN   TYPE      REASON             OBJECT      MESSAGE\n\
                 20s         Warning   FailedScheduling   pod/web-0   0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.\n";
    let input = desk.file("paste.txt", paste);
    let (session, _) = desk.import("a.kflow", &["--watch", &input]);
    let said = text(&run(&["why", "shop/web-0", "-s", &session]).stdout);
    let said = crate::one_line(&said);
    assert!(said.contains("(n1 is NotReady)"), "{said}");
    assert!(said.contains("nodes that are not well"), "{said}");
}
