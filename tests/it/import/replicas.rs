//! Rows of pods that have a replica of which more is known, and rows without a namespace beside one that has one. The texts are of
//! public reports.

use super::fragments::{tells, told};
use super::{Desk, run, text};

/// kelseyhightower/kubernetes-the-hard-way 413: of two replicas one is described.
const TABLE: &str = "$ kubectl get pods -l k8s-app=kube-dns -n kube-system\nNAME                       READY   STATUS              RESTARTS   AGE\ncoredns-699f8ddd77-r2z5v   0/1     ContainerCreating   0          112s\ncoredns-699f8ddd77-r58wz   0/1     ContainerCreating   0          112s\n";
const DESCRIBED: &str = "$ kubectl describe pod coredns-699f8ddd77-r58wz   -n kube-system\nName:               coredns-699f8ddd77-r58wz\nNamespace:          kube-system\nNode:               worker-0/10.240.0.20\nStatus:             Pending\nControlled By:      ReplicaSet/coredns-699f8ddd77\nContainers:\n  coredns:\n    Image:         coredns/coredns:1.2.2\n    State:          Waiting\n      Reason:       ContainerCreating\n    Ready:          False\nEvents:\n  Type     Reason                  Age                From               Message\n  ----     ------                  ----               ----               -------\n  Normal   Scheduled               112s               default-scheduler  Successfully assigned kube-system/coredns-699f8ddd77-r58wz to worker-0\n  Warning  FailedCreatePodSandBox  1s (x8 over 108s)  kubelet, worker-0  (combined from similar events): Failed create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox\n";

/// What `kflow why POD` says of a text.
fn why(desk: &Desk, paste: &str, pod: &str) -> String {
    let file = desk.file("asked.txt", paste);
    let o = run(&["why", pod, "-s", &file]);
    crate::one_line(&format!("{}{}", text(&o.stdout), text(&o.stderr)))
}

#[test]
fn a_replica_most_likely_waits_for_the_same() {
    let desk = Desk::new();
    for paste in [[TABLE, DESCRIBED].concat(), [DESCRIBED, TABLE].concat()] {
        let said = crate::one_line(&told(&desk, &paste));
        assert!(!said.contains("unknown how kube-system/"), "{said}");
        // The pod that is described comes first.
        assert!(
            said.starts_with("kube-system/coredns-699f8ddd77-r58wz"),
            "{said}"
        );
        let same = "1 more: kube-system/coredns-699f8ddd77-r2z5v (likely)";
        assert!(said.contains(same), "{said}");
        let one = why(&desk, &paste, "coredns-699f8ddd77-r2z5v");
        assert!(one.contains("stuck in sandbox for 1m52s, likely"), "{one}");
        assert!(one.contains("status ContainerCreating"), "{one}");
        let of = "Event FailedCreatePodSandBox of coredns-699f8ddd77-r58wz";
        assert!(one.contains(of), "{one}");
    }
}

#[test]
fn a_row_that_shows_something_else_is_not_told_by_a_replica() {
    let desk = Desk::new();
    let waits = "coredns-699f8ddd77-r2z5v   0/1     ContainerCreating   0          112s";
    for other in [
        "coredns-699f8ddd77-r2z5v   1/1     Running             0          112s",
        // It may be starting as it should.
        "coredns-699f8ddd77-r2z5v   0/1     ContainerCreating   0          12s",
        "coredns-699f8ddd77-r2z5v   0/1     Pending             0          112s",
        // Another template.
        "coredns-5cc8b8d6f4-r2z5v   0/1     ContainerCreating   0          112s",
        "coredns-699f8ddd77-extra   0/1     ContainerCreating   0          112s",
    ] {
        let paste = [&TABLE.replace(waits, other), DESCRIBED].concat();
        let said = crate::one_line(&told(&desk, &paste));
        assert!(!said.contains("(likely)"), "{other}: {said}");
        assert!(
            said.starts_with("kube-system/coredns-699f8ddd77-r58wz"),
            "{said}"
        );
    }
}

/// testdrivenio/spark-kubernetes 2: the pods of the other ReplicaSet may wait for something else.
#[test]
fn pods_of_another_owner_stay_unknown() {
    let desk = Desk::new();
    let paste = "```\n$ kubectl describe po spark-master-7fcc5d88cc-24t57\n...\nTolerations:     node.kubernetes.io/not-ready:NoExecute for 300s\n                 node.kubernetes.io/unreachable:NoExecute for 300s\nEvents:\n  Type     Reason            Age                 From               Message\n  ----     ------            ----                ----               -------\n  Warning  FailedScheduling  84s (x20 over 28m)  default-scheduler  0/1 nodes are available: 1 node(s) had taints that the pod didn't tolerate.\n\n$ kubectl get po\nNAME                            READY   STATUS    RESTARTS   AGE\nspark-master-7fcc5d88cc-24t57   0/1     Pending   0          30m\nspark-worker-77fc45f84f-g9lkl   0/1     Pending   0          30m\nspark-worker-77fc45f84f-l8h8l   0/1     Pending   0          30m\n\n```\n";
    let said = crate::one_line(&told(&desk, paste));
    assert!(
        said.contains("spark-master-7fcc5d88cc-24t57 stuck in schedule"),
        "{said}"
    );
    assert!(
        said.contains("unknown how NAMESPACE/spark-worker-77fc45f84f-g9lkl"),
        "{said}"
    );
}

#[test]
fn rows_of_one_table_are_of_one_namespace() {
    let desk = Desk::new();
    let table = TABLE.replace(" -n kube-system", "");
    tells(
        &desk,
        &[&table, DESCRIBED].concat(),
        "KF517",
        "kube-system/coredns-699f8ddd77-r2z5v",
    );
    // Rows of a table that has none of it.
    let alone = table.replace("coredns", "other");
    let said = told(&desk, &[&alone, DESCRIBED].concat());
    assert!(said.contains("NAMESPACE/other-699f8ddd77-r2z5v"), "{said}");
}
