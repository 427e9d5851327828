//! API objects as kubectl prints them.

use super::{Desk, fixture, run, text};
use serde_json::{Value, json};

/// The watch events of a recording, with the resource of each.
fn watched() -> Vec<(&'static str, Value)> {
    text(&super::capture("watch.jsonl"))
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["type"] != "BOOKMARK")
        .map(|event| {
            let resource = match event["object"]["kind"].as_str() {
                Some("Pod") => "pods",
                Some("Event") => "events",
                _ => "nodes",
            };
            (resource, event)
        })
        .collect()
}

/// JSON documents as kubectl prints them: indented, one after the other.
fn printed<'a>(documents: impl IntoIterator<Item = &'a Value>) -> String {
    documents
        .into_iter()
        .map(|d| serde_json::to_string_pretty(d).unwrap() + "\n")
        .collect()
}

/// The newest state of every object of a resource.
fn listed(stream: &str) -> Vec<Value> {
    let mut last: Vec<Value> = Vec::new();
    for (_, event) in watched().iter().filter(|(s, _)| *s == stream) {
        let object = event["object"].clone();
        let uid = object["metadata"]["uid"].clone();
        match last.iter_mut().find(|o| o["metadata"]["uid"] == uid) {
            Some(o) => *o = object,
            None => last.push(object),
        }
    }
    last
}

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
}

/// `namespace/name status` of the pods that the API shows.
fn statuses(session: &str) -> Vec<String> {
    let pods: Vec<Value> = serde_json::from_str(&Desk::timelines(session)).unwrap();
    let mut all: Vec<String> = pods
        .iter()
        .filter(|p| p["phase"] != "")
        .map(|p| {
            format!(
                "{}/{} {}",
                p["namespace"].as_str().unwrap(),
                p["name"].as_str().unwrap(),
                p["status"].as_str().unwrap()
            )
        })
        .collect();
    all.sort();
    all
}

#[test]
fn watch_events_are_read_from_one_file_or_from_one_per_resource() {
    let desk = Desk::new();
    let all = watched();
    let one = desk.file("all.json", printed(all.iter().map(|(_, e)| e)));
    let of = |stream: &str| {
        let events = all.iter().filter(|(s, _)| *s == stream).map(|(_, e)| e);
        desk.file(&format!("{stream}.json"), printed(events))
    };
    let (pods, events, nodes) = (of("pods"), of("events"), of("nodes"));
    let (a, said) = desk.import("a.kflow", &["--watch", &one]);
    assert!(!said.contains("malformed"), "{said}");
    let (b, said) = desk.import(
        "b.kflow",
        &["--watch", &nodes, "--watch", &events, "--watch", &pods],
    );
    assert!(!said.contains("malformed"), "{said}");
    // The session of that recording has the same watches, with the arrival time of each line.
    let recorded = fixture("sessions/S13-crictl.kflow.zst");
    let want = statuses(&recorded.display().to_string());
    assert!(!want.is_empty());
    assert_eq!(statuses(&a), want);
    assert_eq!(statuses(&b), want);
    let calls = run(&["calls", "-s", &a]);
    // Without the CRI source the calls are unknown.
    assert_eq!(calls.status.code(), Some(2), "{}", text(&calls.stderr));
    assert!(
        text(&calls.stderr).contains("unknown"),
        "{}",
        text(&calls.stderr)
    );
}

#[test]
fn plain_lists_are_read_one_per_resource_or_all_in_one() {
    let desk = Desk::new();
    let file = |name: &str, items: &[Value]| desk.file(name, printed([&list(items)]));
    let (pods, events, nodes) = (listed("pods"), listed("events"), listed("nodes"));
    let (p, e, n) = (
        file("p.json", &pods),
        file("e.json", &events),
        file("n.json", &nodes),
    );
    let everything: Vec<Value> = [pods, events, nodes].concat();
    let all = file("all.json", &everything);
    let (a, said) = desk.import("a.kflow", &["--watch", &p, "--watch", &e, "--watch", &n]);
    assert!(!said.contains("malformed"), "{said}");
    let (b, _) = desk.import("b.kflow", &["--watch", &all]);
    assert!(statuses(&a).iter().any(|s| s.starts_with("s62/steady")));
    assert_eq!(statuses(&a), statuses(&b));
    // The same files in a folder, under names that a user would give them.
    let folder = desk.path("folder");
    std::fs::create_dir(&folder).unwrap();
    for (from, to) in [(&p, "pods.json"), (&e, "events.json"), (&n, "nodes.json")] {
        std::fs::copy(from, format!("{folder}/{to}")).unwrap();
    }
    let (c, _) = desk.import("c.kflow", &[&folder]);
    assert_eq!(statuses(&a), statuses(&c));
}

#[test]
fn yaml_is_read_as_json_is() {
    let desk = Desk::new();
    // The first object of the list, as kubectl prints it with -o yaml.
    let list = std::fs::read(fixture("kube/kubectl-get.json")).unwrap();
    let list: Value = serde_json::from_slice(&list).unwrap();
    let json = desk.file("pod.json", printed([&list["items"][0]]));
    let yaml = fixture("kube/kubectl-get.yaml").display().to_string();
    let (a, _) = desk.import("a.kflow", &["--watch", &json]);
    let (b, _) = desk.import("b.kflow", &["--watch", &yaml]);
    assert!(Desk::timelines(&a).contains("static-web-node1"));
    assert_eq!(Desk::timelines(&a), Desk::timelines(&b));
    // Two documents, the second of which is cut in the middle of a word.
    let two = std::fs::read_to_string(&yaml).unwrap();
    let cut = desk.file(
        "cut.yaml",
        format!("{two}---\nkind: Pod\nmetadata: {{name: \"x"),
    );
    let (c, said) = desk.import("c.kflow", &["--watch", &cut]);
    assert!(said.contains("CUT: cut.yaml: not YAML"), "{said}");
    let (timelines, said) = Desk::partial(&c);
    assert_eq!(Desk::timelines(&a), timelines);
    assert!(said.contains("unknown what else there was"), "{said}");
}

#[test]
fn what_kubectl_prints_for_people_is_refused_with_what_to_ask_for() {
    let desk = Desk::new();
    let path = desk.file(
        "pods.txt",
        "NAMESPACE   NAME   READY   STATUS\ns62   steady   1/1   Running\n",
    );
    let said = desk.refused(&["--watch", &path]);
    assert!(
        said.contains("-o json") && said.contains("pods.txt"),
        "{said}"
    );
}
