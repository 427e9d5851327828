//! Pods of plain lists, which show that a pod is well, but not that all are: `fixtures/bundle`.

use super::{Desk, fixture, run, text};
use serde_json::{Value, json};

fn read(name: &str) -> Value {
    let list = std::fs::read(fixture("bundle").join(name)).unwrap();
    serde_json::from_slice(&list).unwrap()
}

/// A list with only this pod of the bundle, changed.
fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let list = read("handy/pods.json");
    let mut items = list["items"].as_array().unwrap().iter();
    let mut pod = items
        .find(|p| p["metadata"]["name"] == name)
        .unwrap()
        .clone();
    pod["kind"] = json!("Pod");
    change(&mut pod);
    json!({"kind": "List", "items": [pod]})
}

/// Exit code and texts of `kflow why`.
fn why(session: &str, args: &[&str]) -> (Option<i32>, String) {
    let o = run(&[&["why", "-s", session], args].concat());
    (o.status.code(), text(&o.stdout) + &text(&o.stderr))
}

const READ: &str = "2026-11-21T08:45:00Z";

#[test]
fn a_ready_pod_is_well_and_says_by_which_list() {
    let desk = Desk::new();
    let bundle = fixture("bundle").display().to_string();
    let (session, _) = desk.import("a.kflow", &[&bundle, "--taken", READ]);
    let (code, said) = why(&session, &["handy/fine", "-o", "json"]);
    assert_eq!(code, Some(0), "{said}");
    let rows: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        rows[0]["sentence"],
        "The pod is well. The list that was read at 2026-11-21T08:45:00Z shows it as Running and Ready."
    );
    assert_eq!(rows[0]["evidence"][0]["text"], "status Running");
    // That list may lack pods: nothing follows for all, for an owner, or for a pod that is not in it.
    let own = desk.file_of("fine.json", pod("fine", |_| ()).to_string(), READ);
    let (session, _) = desk.import("b.kflow", &["--watch", &own]);
    assert_eq!(why(&session, &["handy/fine"]).0, Some(0));
    for args in [&["--all"][..], &["-n", "handy"], &["handy/nobody"]] {
        let (code, said) = why(&session, args);
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(said.contains("pods may be missing"), "{args:?}: {said}");
    }
}

#[test]
fn a_pod_that_its_list_does_not_show_as_well_stays_unknown() {
    let desk = Desk::new();
    let unready = |p: &mut Value| {
        for c in p["status"]["conditions"].as_array_mut().unwrap() {
            if c["type"] == "Ready" || c["type"] == "ContainersReady" {
                c["status"] = json!("False");
            }
        }
    };
    let mut nodes = read("nodes.json");
    for node in nodes["items"].as_array_mut().unwrap() {
        for c in node["status"]["conditions"].as_array_mut().unwrap() {
            if c["type"] == "Ready" {
                c["status"] = json!("Unknown");
            }
        }
    }
    let asked = |name: &str, lists: &[(&Value, &str)]| {
        let mut args = Vec::new();
        for (n, (list, at)) in lists.iter().enumerate() {
            args.push("--watch".to_owned());
            args.push(desk.file_of(&format!("{name}-{n}.json"), list.to_string(), at));
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (session, _) = desk.import(&format!("{name}.kflow"), &args);
        (why(&session, &["handy/fine"]), session)
    };
    let fine = pod("fine", |_| ());
    assert_eq!(asked("fine", &[(&fine, READ)]).0.0, Some(0));
    let nodes_ready = read("nodes.json");
    let known = asked("ready", &[(&fine, READ), (&nodes_ready, READ)]);
    assert_eq!(known.0.0, Some(0), "{}", known.0.1);
    for (name, lists) in [
        ("unready", &[(&pod("fine", unready), READ)][..]),
        ("node", &[(&fine, READ), (&nodes, READ)]),
    ] {
        let ((code, said), _) = asked(name, lists);
        assert_eq!(code, Some(2), "{name}: {said}");
    }
    // The Events were read half a minute later.
    let events = read("handy/events.json");
    let later = [(&fine, READ), (&events, "2026-11-21T08:45:30Z")];
    let ((code, said), session) = asked("later", &later);
    assert_eq!(code, Some(2), "{said}");
    let at = "2026-11-21T08:45:01Z";
    assert!(said.contains(&format!("(--at {at})")), "{said}");
    assert_eq!(why(&session, &["handy/fine", "--at", at]).0, Some(0));
}

/// A file that was written long after the newest time in its list does not say when that was read.
#[test]
fn what_waits_is_told_once_the_user_says_when_its_list_was_read() {
    let desk = Desk::new();
    let waits = pod("fine", |p| {
        let started = p["status"]["startTime"].clone();
        for c in p["status"]["conditions"].as_array_mut().unwrap() {
            c["lastTransitionTime"] = started.clone();
            if c["type"] != "PodScheduled" {
                c["status"] = json!("False");
            }
        }
        p["status"]["phase"] = json!("Pending");
        p["spec"]["initContainers"] = json!([{"name": "first", "image": "i"}]);
        p["status"]["initContainerStatuses"] = json!([{
            "name": "first", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"running": {"startedAt": started}}
        }]);
        let waiting = json!({"waiting": {"reason": "PodInitializing"}});
        p["status"]["containerStatuses"][0]["state"] = waiting;
    });
    let list = desk.file_of("waits.json", waits.to_string(), "2026-11-28T00:00:00Z");
    let (session, _) = desk.import("a.kflow", &[&list]);
    let (code, said) = why(&session, &["handy/fine"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("`kflow import --taken TIME` takes another"),
        "{said}"
    );
    let (session, _) = desk.import("b.kflow", &[&list, "--taken", "2026-11-28T00:00:00Z"]);
    let (code, said) = why(&session, &["handy/fine"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("Init container first has been running for"),
        "{said}"
    );
}

/// A description is a list of one pod, and says nothing of others.
#[test]
fn a_description_of_one_pod_does_not_vouch_for_another() {
    let desk = Desk::new();
    let described = fixture("kubectl/s1-healthy-1.36.txt").display().to_string();
    let list = desk.file_of("fine.json", pod("fine", |_| ()).to_string(), READ);
    // It is days younger than the list.
    let (session, _) = desk.import("a.kflow", &[&list, &described]);
    assert_eq!(why(&session, &["s01/healthy"]).0, Some(0));
    let (code, said) = why(&session, &["handy/fine"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no watch tells what followed"), "{said}");
    let (code, said) = why(&session, &["handy/fine", "--at", "2026-11-21T08:45:01Z"]);
    assert_eq!(code, Some(0), "{said}");
}

/// A list is read long after what it shows: the evidence has the time that the pod's state itself tells.
#[test]
fn evidence_of_a_listed_state_has_the_time_of_that_state() {
    let desk = Desk::new();
    let began = "2026-11-21T08:10:00Z";
    let unschedulable = pod("fine", |p| {
        p["spec"].as_object_mut().unwrap().remove("nodeName");
        p["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu.",
            "lastTransitionTime": began}]});
    });
    let crashing = pod("fine", |p| {
        p["status"]["conditions"] = json!([]);
        let status = &mut p["status"]["containerStatuses"][0];
        status["ready"] = json!(false);
        status["restartCount"] = json!(3);
        status["state"] = json!({"waiting": {"reason": "CrashLoopBackOff",
            "message": "back-off 40s restarting failed container=c"}});
        status["lastState"] = json!({"terminated": {"exitCode": 1, "reason": "Error",
            "startedAt": "2026-11-21T08:09:59Z", "finishedAt": began}});
    });
    let began = kflow_model::Nanos::parse_rfc3339(began).unwrap().0.0;
    for (n, list, said) in [
        (0, unschedulable, "status FailedScheduling"),
        (1, crashing, "status CrashLoopBackOff"),
    ] {
        let file = desk.file_of(&format!("{n}.json"), list.to_string(), READ);
        let out = format!("{n}.kflow");
        let (session, _) = desk.import(&out, &["--watch", &file, "--taken", READ]);
        let (_, rows) = why(&session, &["handy/fine", "-o", "json"]);
        let rows: Value = serde_json::from_str(&rows).unwrap();
        let proofs = rows[0]["evidence"].as_array().unwrap();
        let is_it = |p: &&Value| p["text"].as_str().unwrap().starts_with(said);
        let proof = proofs.iter().find(is_it).unwrap();
        let time = (proof["at_ns"].as_i64(), proof["precision_ns"].as_i64());
        assert_eq!(time, (Some(began), Some(1_000_000_000)), "{rows}");
        let read = kflow_model::Nanos::parse_rfc3339(READ).unwrap().0.0;
        let late = |p: &&Value| p["at_ns"].as_i64() == Some(read);
        assert_eq!(proofs.iter().find(late), None, "{rows}");
    }
}

#[test]
fn evidence_of_a_listed_node_has_the_time_of_its_condition() {
    let desk = Desk::new();
    let began = "2026-11-21T08:10:00Z";
    let mut nodes = read("nodes.json");
    let node = &mut nodes["items"][0];
    node["status"]["conditions"] = json!([
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready",
            "lastTransitionTime": "2026-11-21T07:00:00Z"},
        {"type": "MemoryPressure", "status": "True", "reason": "KubeletHasInsufficientMemory",
            "message": "kubelet has insufficient memory available", "lastTransitionTime": began},
    ]);
    let name = format!("node/{}", node["metadata"]["name"].as_str().unwrap());
    let file = desk.file_of("nodes.json", nodes.to_string(), READ);
    let (session, _) = desk.import("a.kflow", &["--watch", &file, "--taken", READ]);
    let (_, rows) = why(&session, &[&name, "-o", "json"]);
    let rows: Value = serde_json::from_str(&rows).unwrap();
    assert_eq!(rows[0]["cause"], "KF318", "{rows}");
    let began = kflow_model::Nanos::parse_rfc3339(began).unwrap().0.0;
    assert_eq!(rows[0]["evidence"][0]["at_ns"], began, "{rows}");
}
