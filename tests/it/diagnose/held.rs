//! What is not well although its pods are: what was deleted and does not go, evictions that wait, rollouts that a strategy holds,
//! autoscalers that cannot scale, processes that are killed, manifests that are no pods. Recordings of a real cluster
//! (fixtures/correlate/README.md).

use std::path::Path;

use kflow_model::session::{self, Header, Writer};
use kflow_model::{Body, Nanos, Observation, PodUid};

use super::owners::{recording, why};
use crate::program::kflow;

/// Recording, query, and what is said of it.
const TOLD: [(&str, &str, &str); 13] = [
    (
        "terminating",
        "ns/leaving",
        "and is still there: left in it: 1 of configmaps, kept by finalizer example.com/hold.",
    ),
    (
        "terminating",
        "--all",
        "which of the configmaps have finalizer example.com/hold: whoever set it has to take it off: kubectl -n leaving get configmaps -o",
    ),
    (
        "discovery",
        "ns/blind",
        "the controller-manager cannot find out all that is in it: metrics.k8s.io/v1beta1: stale GroupVersion discovery",
    ),
    (
        "deleted-claims",
        "shop/pvc/data",
        "Claim data was deleted 14m50s ago and is still there: it stays as long as pod user exists.",
    ),
    // A pod that has completed keeps its claim too.
    (
        "deleted-claims",
        "shop/pvc/report",
        "pod done has ended, and keeps the claim until it is deleted too: kubectl -n shop delete pod done",
    ),
    (
        "deleted-claims",
        "shop/late",
        "claim data is being deleted, so no other pod can use it; it stays as long as pod user exists.",
    ),
    // What is in a namespace is told of it.
    ("deleted-claims", "ns/shop", "Claim report was deleted"),
    (
        "autoscalers",
        "scale/hpa/web",
        "Autoscaler web cannot scale deployment/web, which stays at 2: FailedGetResourceMetric: the HPA was unable to compute the replica count",
    ),
    (
        "autoscalers",
        "scale/deploy/web",
        "does anything serve the metrics (unable to fetch metrics from resource metrics API)",
    ),
    (
        "autoscalers",
        "--all",
        "Autoscaler lost cannot scale deployment/nothere: FailedGetScale",
    ),
    (
        "controllers-away",
        "scale/deploy/web",
        "No controller has touched deployment/web for 26s: replicaset/web-54c49d5885 still counts 2 pods, and 0 of them are there",
    ),
    (
        "manifest",
        "node/node1",
        "makes no pod of manifest /tmp/lab/etc/manifests/broken.yaml: couldn't parse as pod(yaml: line 5: mapping values are not allowed in this context)",
    ),
    (
        "processes-killed",
        "misc/child",
        "A process of container c was killed (OOMKilled) because it used more memory than its limit of 20Mi, 4 times",
    ),
];

#[test]
fn what_is_held_is_told() {
    for (name, asked, expected) in TOLD {
        let (said, status) = why(name, &[asked]);
        assert!(said.contains(expected), "{name} {asked}: {said}");
        assert_eq!(status, Some(1), "{name} {asked}");
    }
}

/// What is no trouble of the pods themselves, and is told where somebody asks.
const WELL: [(&str, &str, &str); 6] = [
    (
        "strategies",
        "rolls/sts/ondelete",
        "Its 2 pods are well. 2 pods are of a former template until somebody deletes them (updateStrategy OnDelete).",
    ),
    (
        "strategies",
        "rolls/ds/agent",
        "Its pod is well. 1 pod is of a former template until somebody deletes it (updateStrategy OnDelete).",
    ),
    (
        "strategies",
        "rolls/sts/partition",
        "2 pods are of a former template, as pods below the partition 2 are not replaced (updateStrategy.rollingUpdate.partition).",
    ),
    (
        "ephemeral",
        "misc/dbg",
        "its ephemeral container debugger does not start.",
    ),
    (
        "ephemeral",
        "misc/dbg2",
        "The pod is well; its ephemeral container broken could not be started (StartError): ",
    ),
    (
        "cordoned",
        "budget/pdb/web",
        "It lets no pod be evicted now: it needs 2 healthy pods and has 2; a drain of a node of its pods waits until it does.",
    ),
];

#[test]
fn what_is_well_says_what_it_waits_for() {
    for (name, asked, expected) in WELL {
        let (said, status) = why(name, &[asked]);
        assert!(said.contains(expected), "{name} {asked}: {said}");
        assert_eq!(status, Some(0), "{name} {asked}");
    }
}

/// Made from the recording of the deleted claims: its pod `user` under further names.
#[test]
fn of_many_pods_that_keep_a_claim_two_are_named_and_the_others_counted() {
    let recorded = session::load(Path::new(&recording("deleted-claims"))).unwrap();
    let mut all: Vec<Observation> = Vec::new();
    for o in &recorded.observations {
        all.push((**o).clone());
        let Body::Pod(p) = &o.body else { continue };
        if p.name != "user" {
            continue;
        }
        for more in ["user2", "user3", "user4", "user5"] {
            let mut p = p.clone();
            (p.name, p.uid) = (more.into(), PodUid(more.into()));
            let body = Body::Pod(p);
            all.push(Observation {
                body,
                ..(**o).clone()
            });
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("many.kflow");
    let mut to = Writer::record(&file, &Header::new(Nanos(1))).unwrap();
    for o in &all {
        to.write(o).unwrap();
    }
    to.finish().unwrap();
    let said = kflow(["why", "shop/pvc/data", "-s", &file.display().to_string()]).out;
    let expected = "it stays as long as pods user, user2 and 3 more exist.";
    assert!(crate::one_line(&said).contains(expected), "{said}");
}

/// By the audit log the apiserver refuses an eviction; without it, what the budget says is told of a cordoned node.
#[test]
fn an_eviction_that_a_budget_refuses_names_the_budget() {
    let (said, status) = why("drain", &["--all"]);
    let why_not = "The pod cannot be evicted: budget web lets no pod go now, as it needs 2 healthy pods and has 2.";
    assert!(said.contains(why_not), "{said}");
    assert_eq!(status, Some(1));
    let (said, _) = why("cordoned", &["node/node1"]);
    let held = "A drain of it would wait, as disruption budgets let these pods not be evicted now: budget/web-";
    assert!(said.contains(held), "{said}");
}

#[test]
fn a_namespace_that_does_not_exist_is_told_with_a_similar_one() {
    for asked in [&["--all", "-n", "leavin"][..], &["-n", "leavin", "web"]] {
        let (said, status) = why("terminating", asked);
        let expected = "the cluster has no namespace leavin; did you mean leaving?";
        assert!(said.contains(expected), "{said}");
        assert_eq!(status, Some(2));
    }
    let (said, status) = why("terminating", &["ns/leavin"]);
    assert!(said.contains("did you mean ns/leaving?"), "{said}");
    assert_eq!(status, Some(3));
}
