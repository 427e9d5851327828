//! The tree of a support bundle: `fixtures/bundle` is what `kubectl cluster-info dump -A --output-directory` wrote.

use super::{Desk, capture, fixture, run, text};
use std::path::Path;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(from, to).unwrap();
}

#[test]
fn a_dump_of_a_cluster_tells_why_its_pods_are_stuck() {
    let desk = Desk::new();
    let dump = fixture("bundle");
    let (session, said) = desk.import("dump.kflow", &[dump.to_str().unwrap()]);
    assert!(said.contains("handy/pods.json"), "{said}");
    assert!(said.contains("1 empty list"), "{said}");
    assert!(
        said.contains("not read, of another kind: app107/services.json, handy/needs/logs.txt"),
        "{said}"
    );
    let why = run(&["why", "--all", "-s", &session]);
    assert_eq!(why.status.code(), Some(1));
    let why = text(&why.stdout);
    for told in [
        "handy/sts-0   stuck in schedule",
        "Volume v waits for configmap later",
        "does not exist in its registry",
    ] {
        assert!(why.contains(told), "{told}: {why}");
    }
}

/// The lists of a dump, as `kubectl cluster-info dump` prints them into one file, each item without its kind (kubectl:
/// pkg/cmd/clusterinfo/clusterinfo_dump.go, `Run`).
fn lists_of_a_dump() -> Vec<String> {
    let dump = fixture("bundle");
    let list = |name: &str| {
        let text = std::fs::read_to_string(dump.join(name)).unwrap();
        let mut list: serde_json::Value = serde_json::from_str(&text).unwrap();
        for item in list["items"].as_array_mut().into_iter().flatten() {
            for key in ["kind", "apiVersion"] {
                item.as_object_mut().unwrap().remove(key);
            }
        }
        serde_json::to_string_pretty(&list).unwrap() + "\n"
    };
    let all = ["nodes.json", "handy/events.json", "handy/pods.json"];
    let mut lists: Vec<String> = all.map(list).into();
    lists.push("==== START logs for container a of pod handy/a ====\n{\"level\":\"info\"}\nE1012 15\n==== END logs for container a of pod handy/a ====\n".to_owned());
    lists
}

/// What stands around the lists is not read, and they are: in a file of any size, by itself and in a folder.
#[test]
fn text_around_the_lists_of_a_dump_costs_none_of_them() {
    let desk = Desk::new();
    let lists = lists_of_a_dump();
    // Longer than what is looked through as a paste.
    let long = format!(
        "==== START logs for container b of pod handy/b ====\n{}==== END logs for container b of pod handy/b ====\n",
        "a line of its log\n".repeat(70_000)
    );
    let written = "2026-11-21T08:45:09Z";
    let answers = |name: &str, said: &str, session: &str| {
        assert!(said.contains(name), "{said}");
        let all = run(&["why", "--all", "-s", session, "-o", "json"]);
        let node = run(&["why", "node/kflow", "-s", session, "-o", "json"]);
        (text(&all.stdout), text(&node.stdout))
    };
    let (session, said) = desk.import(
        "whole.kflow",
        &[&desk.file_of("cluster-info-dump", lists.concat(), written)],
    );
    let want = answers("cluster-info-dump", &said, &session);
    assert!(want.0.contains("\"KF"), "{}", want.0);
    for (n, (before, between, behind)) in [
        ("# generated with kubectl cluster-info dump \n\n", "", ""),
        ("$ kubectl cluster-info dump\n", "", ""),
        ("It is so since this morning.\n", "", long.as_str()),
        ("# dump\n", "\n# more\n", ""),
        ("# dump\n", "\n# more\n", long.as_str()),
        ("", "and then\n", "the end\n"),
        ("", "and then\n", long.as_str()),
    ]
    .into_iter()
    .enumerate()
    {
        let dump = format!("{before}{}{behind}", lists.join(between));
        for name in [format!("{n}/cluster-info-dump"), format!("{n}/note.txt")] {
            std::fs::create_dir_all(desk.dir.path().join(n.to_string())).unwrap();
            let file = desk.file_of(&name, &dump, written);
            let (session, said) = desk.import(&format!("{n}.kflow"), &[&file]);
            let name = name.rsplit('/').next().unwrap();
            assert_eq!(answers(name, &said, &session), want, "{name} {n}: {said}");
            // What begins with text is a capture by its name, or by a command in it.
            if name.starts_with("cluster") {
                let folder = desk.path(&n.to_string());
                let (session, said) = desk.import(&format!("{n}-in.kflow"), &[&folder]);
                assert_eq!(answers(name, &said, &session), want, "{n}: {said}");
            }
            std::fs::remove_file(&file).unwrap();
        }
    }
}

#[test]
fn lists_by_resource_and_namespace_are_the_same_bundle() {
    let desk = Desk::new();
    let root = desk.dir.path().join("support-bundle/cluster-resources");
    let dump = fixture("bundle");
    for kind in ["pods", "events", "deployments"] {
        let list = dump.join(format!("handy/{kind}.json"));
        copy(&list, &root.join(format!("{kind}/handy.json")));
        std::fs::write(root.join(format!("{kind}-errors.json")), "null").unwrap();
    }
    copy(&dump.join("nodes.json"), &root.join("nodes.json"));
    let (a, _) = desk.import("a.kflow", &[&desk.path("support-bundle")]);
    let (b, _) = desk.import("b.kflow", &[dump.to_str().unwrap()]);
    assert_eq!(Desk::timelines(&a), Desk::timelines(&b));
}

#[test]
fn a_session_has_one_nodes_captures() {
    let desk = Desk::new();
    for node in ["a", "b"] {
        let folder = desk.dir.path().join("nodes").join(node);
        std::fs::create_dir_all(&folder).unwrap();
        // The same file twice would be read once.
        let log = [capture("kubelet.log"), node.into()].concat();
        std::fs::write(folder.join("kubelet.log"), log).unwrap();
    }
    let said = desk.refused(&[&desk.path("nodes")]);
    assert!(said.contains("several nodes"), "{said}");
    assert!(said.contains("--node: a, b"), "{said}");
    desk.import("a.kflow", &[&desk.path("nodes/a")]);
    std::fs::remove_dir_all(desk.path("nodes/b")).unwrap();
    desk.import("b.kflow", &[&desk.path("nodes")]);
}

#[test]
fn a_list_of_nothing_is_a_list() {
    let desk = Desk::new();
    let dump = fixture("bundle");
    let list = |name: &str| dump.join(name).display().to_string();
    let (_, said) = desk.import(
        "a.kflow",
        &[
            "--watch",
            &list("app107/pods.json"),
            "--watch",
            &list("handy/pods.json"),
        ],
    );
    assert!(said.contains("1 empty list"), "{said}");
}

/// Files without the name of their host are of the node of their bundle.
#[test]
fn two_bundles_are_of_two_nodes() {
    let desk = Desk::new();
    let log = text(&capture("kubelet.log"));
    let journal: Vec<String> = log
        .lines()
        .filter(|l| l.starts_with(['I', 'E', 'W']))
        .map(|l| format!("Nov 21 {} one kubelet[7]: {l}\n", &l[6..21]))
        .collect();
    for (folder, name, content) in [
        ("a", "kubelet.log", journal.concat()),
        ("two-2026-11-21_00_30_07", "kubelet", log.clone()),
    ] {
        let folder = desk.dir.path().join(folder);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(name), content).unwrap();
    }
    let both = [desk.path("a"), desk.path("two-2026-11-21_00_30_07")];
    let args = |node: &'static str| {
        let mut args = vec!["--year", "2026", &both[0], &both[1]];
        if !node.is_empty() {
            args.extend(["--node", node]);
        }
        args
    };
    let said = desk.refused(&args(""));
    assert!(said.contains("--node: one, two"), "{said}");
    for (node, own, other) in [
        ("one", "kubelet.log ", "kubelet  "),
        ("two", "kubelet  ", "kubelet.log "),
    ] {
        let (_, said) = desk.import(&format!("{node}.kflow"), &args(node));
        assert!(said.contains(&format!("\n{own}")), "{said}");
        assert!(!said.contains(&format!("\n{other}")), "{said}");
    }
    // A file that was given by itself is of whichever node is chosen.
    let alone = desk.file("kubelet.log", log);
    let (_, said) = desk.import("alone.kflow", &["--year", "2026", &both[0], &alone]);
    assert!(said.contains("in another file too"), "{said}");
}

#[test]
fn a_node_that_nothing_names_is_an_error() {
    let desk = Desk::new();
    let log = text(&capture("kubelet.log"));
    let line = log.lines().find(|l| l.contains("SyncLoop ADD")).unwrap();
    let path = desk.file(
        "kubelet.log",
        format!("Nov 21 {} node1 kubelet[7]: {line}\n", &line[6..21]),
    );
    let said = desk.refused(&[&path, "--year", "2026", "--node", "other"]);
    assert!(said.contains("are of host node1"), "{said}");
    // A Node object may have another name than its host.
    let mut nodes: serde_json::Value =
        serde_json::from_slice(&std::fs::read(fixture("bundle/nodes.json")).unwrap()).unwrap();
    nodes["items"][0]["metadata"]["name"] = "other".into();
    nodes["items"][0]["status"]["addresses"] =
        serde_json::json!([{"type": "Hostname", "address": "node1"}]);
    let nodes = desk.file("nodes.json", nodes.to_string());
    for named in [&["--node", "other"][..], &["--node", "node1"], &[]] {
        let args = [&[path.as_str(), &nodes, "--year", "2026"], named].concat();
        let (session, _) = desk.import("a.kflow", &args);
        let head = std::fs::read_to_string(session).unwrap();
        assert!(
            head.lines().next().unwrap().contains(r#""node":"other""#),
            "{named:?}: {head:.200}"
        );
    }
}

#[test]
fn logs_of_containers_in_a_dump_are_no_damage() {
    let desk = Desk::new();
    let list = std::fs::read_to_string(fixture("bundle/handy/pods.json")).unwrap();
    // As `kubectl cluster-info dump` writes it to standard output.
    let dump = format!(
        "{list}\n==== START logs for container c of pod handy/needs ====\n{{\"level\":\"info\"}}\n\
         ==== END logs for container c of pod handy/needs ====\n{list}\n"
    );
    let (_, said) = desk.import("a.kflow", &[&desk.file("cluster-info_dump", dump)]);
    assert!(said.contains("3 log of a container"), "{said}");
    assert!(!said.contains("malformed"), "{said}");
}

#[test]
fn empty_files_are_one_number() {
    let desk = Desk::new();
    let folder = desk.dir.path().join("bundle/namespaces/handy");
    std::fs::create_dir_all(&folder).unwrap();
    for n in 0..30 {
        std::fs::write(folder.join(format!("{n}.log")), "").unwrap();
    }
    std::fs::copy(fixture("bundle/handy/pods.json"), folder.join("pods.json")).unwrap();
    let (_, said) = desk.import("a.kflow", &[&desk.path("bundle")]);
    assert!(said.contains("not read, empty: 30 files\n"), "{said}");
    assert!(!said.contains("7.log"), "{said}");
}

/// A pod a file below a folder of its namespace, without its kind, is read as it is when it is named. The tree is that of OpenShift's
/// Insights operator (`config/pod/NAMESPACE/NAME.json`); the objects beside it are of APIs that are not read.
#[test]
fn an_object_a_file_is_read_in_any_folder() {
    let desk = Desk::new();
    let root = desk.dir.path().join("insights");
    let put = |path: &str, content: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    let list = std::fs::read(fixture("kube/exercises.json")).unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
    let mut pods = 0;
    for (n, object) in list["items"].as_array().unwrap().iter().enumerate() {
        let kind = object["kind"].as_str().unwrap();
        if !["Pod", "Event", "Node"].contains(&kind) {
            continue;
        }
        pods += usize::from(kind == "Pod");
        let mut object = object.clone();
        for key in ["kind", "apiVersion"] {
            object.as_object_mut().unwrap().remove(key);
        }
        put(&format!("config/some/{kind}/{n}.json"), &object.to_string());
    }
    assert!(pods > 3);
    put(
        "cluster/node.yaml",
        "apiVersion: config.openshift.io/v1\nkind: Node\nmetadata:\n  name: cluster\n",
    );
    let settings =
        r#"{"metadata":{"name":"a","ownerReferences":[{"kind":"Node"}]},"data":{"a":"b"}}"#;
    put("config/configmaps/a.json", settings);
    let (a, said) = desk.import("a.kflow", &[&desk.path("insights")]);
    assert!(
        said.contains("of another kind: cluster/node.yaml, config/configmaps/a.json"),
        "{said}"
    );
    let why = text(&run(&["why", "--all", "-s", &a]).stdout);
    let of_list = fixture("kube/exercises.json");
    let (b, _) = desk.import("b.kflow", &[of_list.to_str().unwrap()]);
    let want = text(&run(&["why", "--all", "-s", &b]).stdout);
    let told = |why: &str| why.matches("KF").count();
    assert!(told(&want) > 2 && told(&why) > 2, "{why}\n{want}");
}

/// `oc adm inspect` writes each pod into a folder of its own too.
#[test]
fn a_pod_that_is_in_the_list_of_its_namespace_is_read_once() {
    let desk = Desk::new();
    let pod = std::fs::read_to_string(fixture("kube/kubectl-get.yaml")).unwrap();
    let folder = desk.dir.path().join("must-gather/namespaces/s17");
    let alone = folder.join("pods/static-web-node1/static-web-node1.yaml");
    std::fs::create_dir_all(alone.parent().unwrap()).unwrap();
    std::fs::write(&alone, &pod).unwrap();
    let path = desk.path("must-gather");
    let (without, said) = desk.import("a.kflow", &[&path]);
    assert!(!said.contains("not read"), "{said}");
    let list = pod.replace('\n', "\n  ");
    let list = format!(
        "apiVersion: v1\nkind: PodList\nitems:\n- {}\n",
        list.trim_end()
    );
    std::fs::create_dir_all(folder.join("core")).unwrap();
    std::fs::write(folder.join("core/pods.yaml"), list).unwrap();
    let (with, said) = desk.import("b.kflow", &[&path]);
    assert!(
        said.contains("static-web-node1.yaml (in the list of its namespace)"),
        "{said}"
    );
    assert_eq!(Desk::timelines(&without), Desk::timelines(&with));
}

/// The tree in `fixtures/bundle`, with the file that a dump has for each namespace whatever is in it.
fn dump(desk: &Desk) -> std::path::PathBuf {
    let tree = desk.dir.path().join("dump");
    for namespace in ["app107", "handy"] {
        let folder = tree.join(namespace);
        std::fs::create_dir_all(&folder).unwrap();
        for kind in ["pods", "events"] {
            let name = format!("{namespace}/{kind}.json");
            std::fs::copy(fixture("bundle").join(&name), tree.join(&name)).unwrap();
        }
        let empty = r#"{"kind": "ReplicationControllerList", "apiVersion": "v1", "metadata": {}, "items": []}"#;
        std::fs::write(folder.join("replication-controllers.json"), empty).unwrap();
    }
    tree
}

/// A dump asks for all pods of a namespace: what its list lacks is not there.
#[test]
fn a_pod_that_a_dump_lacks_does_not_exist() {
    let desk = Desk::new();
    let tree = dump(&desk);
    let code = |query: &str, of: &std::path::Path| {
        let o = run(&["why", query, "-s", of.to_str().unwrap()]);
        (o.status.code(), text(&o.stdout) + &text(&o.stderr))
    };
    for (query, want) in [
        ("handy/nobody", 3),
        // Its list is empty.
        ("app107/nobody", 3),
        // The dump has no such namespace.
        ("shop/nobody", 2),
        ("nobody", 2),
    ] {
        let (got, said) = code(query, &tree);
        assert_eq!(got, Some(want), "{query}: {said}");
    }
    // Somebody's list of a namespace may have been chosen by labels.
    let alone = tree.join("handy/pods.json");
    assert_eq!(code("handy/nobody", &alone).0, Some(2));
    let list = std::fs::read_to_string(&alone).unwrap();
    for (whole, part) in [
        // The first of several pages.
        (
            r#""resourceVersion": "19874""#,
            r#""resourceVersion": "19874", "continue": "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ""#,
        ),
        // An item that cannot be read.
        (r#""name": "fine""#, r#""name": """#),
    ] {
        assert!(list.contains(whole), "{whole}");
        std::fs::write(&alone, list.replace(whole, part)).unwrap();
        let (got, said) = code("handy/nobody", &tree);
        assert_eq!(got, Some(2), "{part}: {said}");
    }
    let (_, said) = desk.import("d.kflow", &[tree.to_str().unwrap()]);
    assert!(
        said.contains("1 malformed (pod without name or uid)"),
        "{said}"
    );
}

/// The kubelet's Events outlive their pod by an hour.
#[test]
fn a_pod_of_events_that_a_dump_lacks_is_gone() {
    let desk = Desk::new();
    let tree = dump(&desk);
    let all =
        |tree: &std::path::Path| text(&run(&["why", "--all", "-s", tree.to_str().unwrap()]).stdout);
    assert!(all(&tree).contains("handy/failing-nppg2"));
    let path = tree.join("handy/pods.json");
    let mut list: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let items = list["items"].as_array_mut().unwrap();
    items.retain(|pod| pod["metadata"]["name"] != "failing-nppg2");
    std::fs::write(&path, list.to_string()).unwrap();
    let said = all(&tree);
    assert!(!said.contains("handy/failing-nppg2"), "{said}");
}
