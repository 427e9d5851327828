//! `kflow why` of what is no pod: a node, a claim.

use std::path::Path;
use std::process::Command;

fn why(session: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("fixtures/sessions/{session}.kflow.zst"));
    let out = Command::new(env!("CARGO_BIN_EXE_kflow"))
        .arg("why")
        .args(args)
        .arg("-s")
        .arg(path)
        .output()
        .expect("kflow runs");
    let text = |b: Vec<u8>| String::from_utf8(b).expect("UTF-8");
    (out.status.code(), text(out.stdout), text(out.stderr))
}

/// The runtime of S4's node is stopped from 00:38:30 to 00:39:32 (fixtures/expected.json, s18a).
const DOWN: &str = "2026-11-21T00:38:50Z";

#[test]
fn a_node_is_asked_about_as_a_pod_is() {
    let (code, text, _) = why("S4-runtime", &["node/node1", "--at", DOWN]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("node/node1   stuck in admit"), "{text}");
    assert!(text.contains("KF302"), "{text}");
    // Its pods that are not well follow.
    assert!(text.contains("\ns18a/new-pod   "), "{text}");
    // What befell the node is told also where only a namespace without pods is looked at.
    let narrow = ["node/node1", "--at", DOWN, "-n", "s18a", "-l", "app=nobody"];
    let (code, text, _) = why("S4-runtime", &narrow);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("node/node1   "), "{text}");
    for spelling in ["nodes/node1", "Node/node1"] {
        let (_, same, _) = why("S4-runtime", &[spelling, "--at", DOWN]);
        assert!(same.starts_with("node/node1   stuck"), "{spelling}: {same}");
    }
}

#[test]
fn a_node_that_stands_well_is_told_with_its_pods() {
    let calm = ["node/node1", "--at", "2026-11-21T00:24:40Z"];
    let (code, text, error) = why("S1-basics", &calm);
    assert_eq!(code, Some(0), "{text}{error}");
    assert_eq!(
        text,
        "node/node1\nIt is well, and its pods are well or on their way.\n"
    );
}

#[test]
fn a_node_that_there_is_not_is_no_pod_and_no_namespace() {
    let (code, text, error) = why("S4-runtime", &["node/nod1", "--at", DOWN]);
    assert_eq!((code, text.as_str()), (Some(3), ""));
    assert_eq!(error, "kflow: no node nod1: did you mean node/node1?\n");
}

#[test]
fn a_claim_leads_to_the_pods_that_mount_it() {
    let at = "2026-11-21T00:28:30Z";
    let (code, text, error) = why("S2-stuck-early", &["pvc/data", "--at", at]);
    assert_eq!(code, Some(1), "{text}{error}");
    assert!(text.contains("s05/pvc-unbound   "), "{text}");
    // Claims of one name are of several namespaces.
    assert!(text.contains("s23a/"), "{text}");
    let (_, text, _) = why("S2-stuck-early", &["pvc/data", "-n", "s05", "--at", at]);
    assert!(!text.contains("s23a/"), "{text}");
    let (code, _, error) = why("S2-stuck-early", &["pvc/nobody-mounts-it", "--at", at]);
    assert_eq!(code, Some(3), "{error}");
}
