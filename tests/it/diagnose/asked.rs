//! `kflow why` for what is no pod: nodes, claims, workloads.

use crate::program;

fn why(session: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let path = crate::recording(session);
    let mut command = program::command();
    command.arg("why").args(args).arg("-s").arg(path);
    program::run(&mut command).parts()
}

/// The runtime of S4's node is stopped from 00:38:30 to 00:39:32 (fixtures/expected.json, s18a).
const DOWN: &str = "2026-11-21T00:38:50Z";

#[test]
fn a_node_is_asked_about_as_a_pod_is() {
    let (code, text, _) = why("S4-runtime", &["node/node1", "--at", DOWN]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("node/node1   stuck in admit"), "{text}");
    assert!(text.contains("KF302"), "{text}");
    // The node's pods that are not well follow.
    assert!(
        text.contains("  holds up  s18a/already-running and 1 more"),
        "{text}"
    );
    assert!(text.contains("s18a/new-pod"), "{text}");
    let (_, each, _) = why("S4-runtime", &["node/node1", "--each", "--at", DOWN]);
    assert!(each.contains("\ns18a/new-pod   "), "{each}");
    // A verdict on the node is shown even with filters that select none of its pods.
    let narrow = ["node/node1", "--at", DOWN, "-n", "s18a", "-l", "app=nobody"];
    let (code, text, _) = why("S4-runtime", &narrow);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("node/node1   "), "{text}");
    for spelling in ["nodes/node1", "Node/node1"] {
        let (_, same, _) = why("S4-runtime", &[spelling, "--at", DOWN]);
        assert!(same.starts_with("node/node1   stuck"), "{spelling}: {same}");
    }
}

/// S8's node is low on memory from 00:51:20 on; the API has the condition from 00:51:23 to the end.
#[test]
fn a_node_under_pressure_is_not_well_and_has_ended_its_pods() {
    let (code, text, _) = why("S8-node", &["node/node1", "--at", "2026-11-21T00:51:21Z"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("KF318") && text.contains("low on memory"),
        "{text}"
    );
    let (_, text, _) = why("S8-node", &["-A", "--at", "2026-11-21T00:51:35Z"]);
    assert!(text.starts_with("node/node1   stuck in admit"), "{text}");
    for part in [
        "node node1 MemoryPressure=True",
        "  ended     s28/hog, failed in terminate",
        "            s28/late, failed in admit",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches("\n\n").count(), 0, "one paragraph: {text}");
    // Before the pressure began.
    let (code, text, _) = why("S8-node", &["node/node1", "--at", "2026-11-21T00:51:10Z"]);
    assert_eq!(code, Some(0), "{text}");
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
    // Claims of this name exist in several namespaces.
    assert!(text.contains("s23a/"), "{text}");
    let (_, text, _) = why("S2-stuck-early", &["pvc/data", "-n", "s05", "--at", at]);
    assert!(!text.contains("s23a/"), "{text}");
    let (code, _, error) = why("S2-stuck-early", &["pvc/nobody-mounts-it", "--at", at]);
    assert_eq!(code, Some(2), "no list of claims was recorded: {error}");
    assert!(
        error.contains("no list of persistentvolumeclaims"),
        "{error}"
    );
}

/// Every kind that `kflow why` takes, by its short and its long name, in a recording that has one.
#[test]
fn what_makes_pods_is_asked_about_as_a_pod_is() {
    let half = "50%";
    for (session, kinds, name, at, code, words) in [
        (
            "S2-stuck-early",
            ["deploy", "deployment"],
            "quota",
            half,
            1,
            "deployment/quota (s29)   stuck in api",
        ),
        (
            "S2-stuck-early",
            ["rs", "replicaset"],
            "quota-d79b678d5",
            half,
            1,
            "KF101",
        ),
        (
            "S2-stuck-early",
            ["job", "jobs"],
            "job",
            half,
            0,
            "job/job (s36)",
        ),
        (
            "S2-stuck-early",
            ["pvc", "persistentvolumeclaim"],
            "data",
            half,
            1,
            "s05/pvc-unbound   stuck in schedule",
        ),
        (
            "S5-burst",
            ["deploy", "deployments"],
            "burst",
            half,
            0,
            "deployment/burst (s19)\nIts 40 pods are well.",
        ),
        (
            "../causes/real/early",
            ["sts", "statefulset"],
            "ledger",
            half,
            1,
            "statefulset/ledger (pay)",
        ),
        (
            "../causes/real/early",
            ["ds", "daemonset"],
            "agent",
            half,
            1,
            "daemonset/agent (shop)",
        ),
        (
            "../causes/real/plugins",
            ["job", "jobs"],
            "track",
            half,
            0,
            "(fin)",
        ),
        (
            "../causes/real/plugins",
            ["sts", "statefulsets"],
            "db",
            half,
            1,
            "(stq)",
        ),
    ] {
        for kind in kinds {
            let asked = format!("{kind}/{name}");
            let (got, text, error) = why(session, &[&asked, "--at", at]);
            assert_eq!(got, Some(code), "{asked}: {text}{error}");
            assert!(text.contains(words), "{asked}: {text}");
        }
    }
}

#[test]
fn of_an_owner_that_there_is_not_it_is_said_only_where_its_kind_was_listed() {
    let (code, text, error) = why("../causes/real/early", &["sts/ledgr"]);
    assert_eq!((code, text.as_str()), (Some(3), ""), "{error}");
    assert_eq!(error, "kflow: no sts/ledgr: did you mean sts/ledger?\n");
    let (code, text, error) = why("../causes/real/early", &["pay/sts/nobody"]);
    assert_eq!((code, text.as_str()), (Some(3), ""), "{error}");
    let (code, _, error) = why("S2-stuck-early", &["sts/ledger"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("no list of statefulsets"), "{error}");
}
