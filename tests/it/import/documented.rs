//! Messages of the troubleshooting articles of Karpenter, AKS, Longhorn, Rook, NVIDIA's GPU operator, the Secrets Store CSI
//! driver, OpenEBS, Kueue, kind, OpenShift and Ondat: what is advised is what the articles say.

use super::Desk;
use super::fragments::told;

/// What is said of a text, on one line.
fn said(desk: &Desk, paste: &str) -> String {
    let said = told(desk, paste).replace("\\\n", " ");
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An Event counts its own message, and not that of another Event with its reason.
#[test]
fn an_event_is_told_as_often_as_it_occurred() {
    let desk = Desk::new();
    let rows = |all: &[(&str, &str, &str)]| {
        let rows = all.iter().map(|(ages, reason, message)| {
            format!("  Warning  {reason}  {ages}  kubelet, node0  {message}\n")
        });
        let head = "Events:\n  Type     Reason                  Age                From                     Message\n  ----     ------                  ----               ----                     -------\n";
        head.to_owned() + &rows.collect::<String>()
    };
    let waits = "MountVolume.WaitForAttach failed for volume \"pvc-a036d681\" : failed to get any path for iscsi disk, last err seen: iscsiadm: No portals found";
    let lacks = "MountVolume.MountDevice failed for volume \"pvc-a036d681\" : executable file not found in $PATH";
    let network = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"5e1f\": plugin type=\"calico\" failed (add): error getting ClusterInformation: connection is unauthorized: Unauthorized";
    for (newest, before, times) in [
        (
            ("8s (x2 over 17s)", "FailedMount", lacks),
            ("24s (x4 over 43s)", "FailedMount", waits),
            "(2 times)",
        ),
        (
            ("1s (x2 over 17s)", "FailedMount", lacks),
            ("24s (x7 over 43s)", "FailedMount", waits),
            "(2 times)",
        ),
        (
            ("24s (x7 over 43s)", "FailedMount", lacks),
            ("26s (x2 over 47s)", "FailedMount", waits),
            "(7 times)",
        ),
        // Each sandbox has an id, so that its failure is an Event of its own.
        (
            ("8s (x2 over 17s)", "FailedCreatePodSandBox", network),
            (
                "24s (x3 over 43s)",
                "FailedCreatePodSandBox",
                &network.replace("5e1f", "a77c01"),
            ),
            "(5 times)",
        ),
    ] {
        let said = said(&desk, &rows(&[before, newest]));
        assert!(said.contains(times), "{newest:?} {before:?}\n{said}");
        assert_eq!(said.matches(" times)").count(), 1, "{said}");
    }
}

/// What a container leaves as its termination message is often why it ended.
#[test]
fn a_termination_message_is_told() {
    let desk = Desk::new();
    let paste = "$ kubectl -n rook-ceph describe pod -l mon=rook-ceph-mon0\n...\n    Last State:    Terminated\n      Reason:    Error\n      Message:    The keyring does not match the existing keyring in /var/lib/rook/rook-ceph-mon0/data/keyring.\n                    You may need to delete the contents of dataDirHostPath on the host from a previous deployment.\n...\n";
    let said = said(&desk, paste);
    assert!(said.contains("KF708"), "{said}");
    let message = "The keyring does not match the existing keyring in /var/lib/rook/rook-ceph-mon0/data/keyring.";
    assert!(
        said.contains(&format!("its termination message: {message}")),
        "{said}"
    );
    assert!(said.contains(&format!("(Error) \"{message}")), "{said}");
}

/// Kueue makes the Workload once it has seen all pods of the group, and its warning stays.
#[test]
fn a_group_that_is_complete_by_now_is_not_told() {
    let desk = Desk::new();
    let said = said(
        &desk,
        "Events:\n  Type     Reason              Age   From                  Message\n  ----     ------              ----  ----                  -------\n  Warning  ErrWorkloadCompose  14s   pod-kueue-controller  'my-pod-group' group has fewer runnable pods than expected\n  Normal   CreatedWorkload     13s   pod-kueue-controller  Created Workload: my-namespace/my-pod-group\n",
    );
    assert!(!said.contains("KF231"), "{said}");
}

/// The other pods wait for the driver, which is the one that was started again.
#[test]
fn the_worst_pod_of_a_list_is_the_one_to_describe() {
    let desk = Desk::new();
    let said = said(
        &desk,
        "$ kubectl get pods -n gpu-operator\nNAME                                               READY STATUS    RESTARTS  AGE\ngpu-feature-discovery-tmblp                        0/1   Init:0/1  0         11m\nnvidia-container-toolkit-daemonset-mqzwq           0/1   Init:0/1  0         2m\nnvidia-driver-daemonset-4rtiu                      0/2   Running   3         12m\n",
    );
    assert!(
        said.contains("describe pod -n gpu-operator nvidia-driver-daemonset-4rtiu"),
        "{said}"
    );
}

/// The Job of the Workload is not in the paste.
#[test]
fn a_workload_is_told_without_what_it_stands_for() {
    let desk = Desk::new();
    let workload = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Workload\nmetadata:\n  name: job-my-job-19797\n  namespace: my-namespace\n  creationTimestamp: \"2024-03-21T13:42:00Z\"\nspec:\n  active: true\n  queueName: user-queue\nstatus:\n  conditions:\n  - lastTransitionTime: \"2024-03-21T13:43:00Z\"\n    message: 'couldn''t assign flavors to pod set main: insufficient quota for cpu\n      in flavor default-flavor in ClusterQueue'\n    reason: Pending\n    status: \"False\"\n    type: QuotaReserved\n";
    let pending = said(&desk, workload);
    assert!(
        pending.contains("KF231") && pending.contains("insufficient quota for cpu in flavor"),
        "{pending}"
    );
    let admitted = said(&desk, &workload.replace("\"False\"", "\"True\""));
    assert!(!admitted.contains("KF231"), "{admitted}");
}
