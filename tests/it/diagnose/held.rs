//! What is not well although its pods are: what was deleted and does not go, evictions that wait, rollouts that a strategy holds,
//! autoscalers that cannot scale, processes that are killed, manifests that are no pods. Recordings of a real cluster
//! (fixtures/correlate/README.md).

use std::path::Path;

use kflow_model::kind::BUDGET;
use kflow_model::object::ObjectSeen;
use kflow_model::session::{self, Header, Writer};
use kflow_model::{Body, Nanos, Observation, PodUid, Stamp};

use super::owners::{recording, why};
use crate::program::{Said, kflow};

/// Recording, query, and what is said of it.
const TOLD: [(&str, &str, &str); 15] = [
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
        "taint-left",
        "left/web",
        "node1 is well (Ready=True since 21:54:47 UTC), and kube-controller-manager has not taken its taint away, so its taint node.kubernetes.io/not-ready keeps the pod away.",
    ),
    (
        "taint-left",
        "left/web",
        "the trouble behind taint node.kubernetes.io/not-ready is over, and kube-controller-manager takes it away: does it run: kubectl -n kube-system get pods,leases | grep controller-manager",
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

/// Writes a recording anew, and after each of its observations what `more` makes of it.
fn with(
    name: &str,
    more: impl Fn(&Observation) -> Vec<Observation>,
) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("more.kflow");
    let mut to = Writer::record(&file, &Header::new(Nanos(1))).unwrap();
    let recorded = session::load(Path::new(&recording(name))).unwrap();
    for o in &recorded.observations {
        to.write(o).unwrap();
        for o in more(o) {
            to.write(&o).unwrap();
        }
    }
    to.finish().unwrap();
    (folder, file.display().to_string())
}

/// Made from the recording of the deleted claims: its pod `user` under further names.
#[test]
fn of_many_pods_that_keep_a_claim_two_are_named_and_the_others_counted() {
    let (_folder, file) = with("deleted-claims", |o| {
        let Body::Pod(user) = &o.body else {
            return Vec::new();
        };
        let names = ["user2", "user3", "user4", "user5"].iter();
        let names = names.filter(|_| user.name == "user");
        let named = names.map(|more| {
            let mut p = user.clone();
            (p.name, p.uid) = ((*more).into(), PodUid((*more).into()));
            let body = Body::Pod(p);
            Observation { body, ..o.clone() }
        });
        named.collect()
    });
    let said = kflow(["why", "shop/pvc/data", "-s", &file]).out;
    let expected = "it stays as long as pods user, user2 and 3 more exist.";
    assert!(crate::one_line(&said).contains(expected), "{said}");
}

/// Made from the recording of the cordoned node: its budget under a further name.
#[test]
fn a_pod_that_two_budgets_select_is_evicted_by_none() {
    let (_folder, file) = with("cordoned", |o| match &o.body {
        Body::Object(budget) if budget.object.kind == BUDGET => {
            let mut budget = budget.clone();
            (budget.object.name, budget.object.uid) = ("web-2".into(), "web-2".into());
            let body = Body::Object(budget);
            vec![Observation { body, ..o.clone() }]
        }
        _ => Vec::new(),
    });
    let said = kflow(["why", "node/node1", "-s", &file]).out;
    let expected =
        "(budgets web and web-2 select it, and the apiserver evicts no pod that has more than one)";
    assert!(crate::one_line(&said).contains(expected), "{said}");
}

/// Made from the recording of the cordoned node: its Deployment, changed.
fn with_deployment(change: impl Fn(&mut ObjectSeen)) -> Said {
    let (_folder, file) = with("cordoned", |o| match &o.body {
        Body::Object(web) if web.object.kind == "Deployment" => {
            let mut web = web.clone();
            change(&mut web);
            web.facts.sort();
            web.resource_version += 1;
            let stamp = Stamp::exact(o.stamp.at.plus(1));
            let body = Body::Object(web);
            vec![Observation {
                stamp,
                body,
                ..o.clone()
            }]
        }
        _ => Vec::new(),
    });
    kflow(["why", "budget/deploy/web", "-s", &file])
}

#[test]
fn a_deployment_that_is_paused_keeps_the_pods_of_its_former_template() {
    let said = with_deployment(|web| {
        web.facts
            .retain(|(k, _)| !["paused", "updatedReplicas"].contains(&&**k));
        web.facts.push(("paused".into(), "true".into()));
    });
    let expected = "Its 2 pods are well. 2 pods are of a former template until somebody resumes the rollout (spec.paused).";
    assert!(
        crate::one_line(&said.out).contains(expected),
        "{}",
        said.out
    );
    assert_eq!(said.code, Some(0));
}

#[test]
fn an_owner_whose_change_no_controller_has_seen_is_not_well() {
    let said = with_deployment(|web| {
        web.facts.retain(|(k, _)| &**k != "replicas");
        web.facts.push(("replicas".into(), "5".into()));
        web.generation += 1;
    });
    let expected = "Its controller has not taken up its newest form, which wants 5 pods (generation 2; its status is of generation 1). Its 2 pods are well.";
    assert!(
        crate::one_line(&said.out).contains(expected),
        "{}",
        said.out
    );
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
