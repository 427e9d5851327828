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
        said.contains("not read: app107/services.json, handy/needs/logs.txt"),
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
