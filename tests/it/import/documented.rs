//! Messages of the troubleshooting articles of Karpenter, AKS, Longhorn, Rook, NVIDIA's GPU operator, the Secrets Store CSI
//! driver, OpenEBS, Kueue, kind, OpenShift and Ondat: what is advised is what the articles say.

use super::Desk;
use super::fragments::told;

/// What is said of a text, on one line.
fn said(desk: &Desk, paste: &str) -> String {
    let said = told(desk, paste).replace("\\\n", " ");
    crate::one_line(&said)
}

#[test]
fn what_the_articles_advise_is_advised() {
    let desk = Desk::new();
    for (paste, code, has, lacks) in [
        (
            "Failed to pull image \"mcr.microsoft.com/windows/servercore:xxx\": rpc error: code = NotFound desc = failed to pull and unpack image \"mcr.microsoft.com/windows/servercore:xxx\": no match for platform in manifest: not found",
            "KF606",
            "node.kubernetes.io/windows-build",
            "is not built for the processor",
        ),
        (
            "MountVolume.WaitForAttach failed for volume \"pvc-293d3560-a5c3-41d5-8911-67f33115b8ee\" : executable file not found in $PATH",
            "KF420",
            "open-iscsi",
            "volumeattachments",
        ),
        (
            "  Warning  FailedMount  8s (x2 over 17s)  kubelet, node0  MountVolume.MountDevice failed for volume \"pvc-a036d681-8fd4-11e8-ad96-de1a202c9007\" : executable file not found in $PATH",
            "KF420",
            "xfsprogs",
            "driver",
        ),
        (
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\": plugin type=\"vpc-bridge\" name=\"vpc\" failed (add): failed to parse Kubernetes args: pod does not have label vpc.amazonaws.com/PrivateIPv4Address",
            "KF501",
            "enable-windows-ipam",
            "journalctl",
        ),
        (
            "Warning   FailedAttachVolume    pod/example-pod                      AttachVolume.Attach failed for volume \"***\" : rpc error: code = Internal desc = Could not attach volume \"***\" to node \"***\": attachment of disk \"***\" failed, expected device to be attached but was attaching",
            "KF406",
            "allocatable.count",
            "?",
        ),
        (
            "Multi-Attach error for volume \"pvc-8837384d-69d7-40b2-b2e6-5df86943eef9\" Volume is already used by pod(s) sso-mysql-1-ns6b4",
            "KF405",
            "get pod sso-mysql-1-ns6b4",
            "?",
        ),
        (
            "Failed to pull image \"example.azurecr.io/app:1\": [rpc error: code = Unknown desc = failed to pull and unpack image \"example.azurecr.io/app:1\": failed to resolve reference \"example.azurecr.io/app:1\": failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized",
            "KF602",
            "AcrPull",
            "network rules",
        ),
        (
            "Failed to pull image \"example.azurecr.io/app:1\": rpc error: code = Unknown desc = failed to pull and unpack image \"example.azurecr.io/app:1\": failed to resolve reference \"example.azurecr.io/app:1\": failed to authorize: failed to fetch anonymous token: unexpected status: 403 Forbidden",
            "KF602",
            "network rules",
            "AcrPull",
        ),
        (
            "Failed to pull image \"docker.io/my-custom-image:tag\": rpc error: code = Unknown desc = failed to resolve image \"docker.io/library/my-custom-image:tag\": no available registry endpoint: pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed",
            "KF602",
            "crictl inspecti docker.io/my-custom-image:tag",
            "AcrPull",
        ),
        (
            "Warning  FailedCreatePodSandBox  2m37s (x94 over 22m)  kubelet            Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for \"nvidia\" is configured",
            "KF508",
            "lsmod | grep -e nouveau",
            "?",
        ),
        (
            "Warning  FailedMount  3s (x4 over 6s)  kubelet, kind-control-plane  MountVolume.SetUp failed for volume \"secrets-store-inline\" : rpc error: code = Unknown desc = failed to get secretproviderclass default/azure, error: secretproviderclasses.secrets-store.csi.x-k8s.io \"azure\" not found",
            "KF409",
            "SecretProviderClass azure in namespace default",
            "journalctl",
        ),
        (
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to mount container 2f1c: error recreating the missing symlinks: error reading name of symlink for 2f1c: open /var/lib/containers/storage/overlay/2f1c/link: no such file or directory",
            "KF517",
            "crio wipe -f",
            "?",
        ),
        (
            "  Normal   Scheduled         11s                default-scheduler  Successfully assigned default/d1 to node3\n  Warning  FailedMount       4s (x4 over 9s)    kubelet, node3     MountVolume.SetUp failed for volume \"pvc-f2a49198-c00c-11e8-ba01-0800278dc04d\" : stat /var/lib/storageos/volumes/d9df3549-26c0-4cfc-62b4-724b443069a1: no such file or directory",
            "KF409",
            "mountPropagation Bidirectional",
            "?",
        ),
        (
            "kubectl describe pvc $PVC\nEvents:\n  Type     Reason              Age                From                         Message\n  ----     ------              ----               ----                         -------\n  Warning  ProvisioningFailed  13s (x2 over 28s)  persistentvolume-controller  Failed to provision volume with StorageClass \"storageos\": failed to get secret from [\"storageos\"/\"storageos-api\"]",
            "KF214",
            "kubectl -n storageos get secret storageos-api",
            "?",
        ),
        (
            "E0324 04:21:58.987894    1232 nestedpendingoperations.go:301] Operation for \"{volumeName:kubernetes.io/csi/driver.longhorn.io^pvc-417a59df-2c2b-44a1-9350-07b108bf96ec podName:7c5b2ecb-cda5-4e72-95db-4e133ba3a563 nodeName:}\" failed. No retries permitted until 2022-03-24 04:21:59.487840694 +0000 UTC m=+1184606.200514039 (durationBeforeRetry 500ms). Error: \"UnmapVolume.UnmapBlockVolume failed for volume \\\"test-bv-volume\\\" (UniqueName: \\\"kubernetes.io/csi/driver.longhorn.io^pvc-417a59df-2c2b-44a1-9350-07b108bf96ec\\\") pod \\\"7c5b2ecb-cda5-4e72-95db-4e133ba3a563\\\" (UID: \\\"7c5b2ecb-cda5-4e72-95db-4e133ba3a563\\\") : blkUtil.DetachFileDevice failed. globalUnmapPath:/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pvc-417a59df-2c2b-44a1-9350-07b108bf96ec/dev, podUID: 7c5b2ecb-cda5-4e72-95db-4e133ba3a563, bindMount: true: failed to unmount linkPath /dev/7c5b: unmount failed: exit status 32\\nUnmounting arguments: /dev/7c5b\\nOutput: umount: /dev/7c5b: target is busy.\\n\"",
            "KF908",
            "volume test-bv-volume cannot be unmounted: umount: /dev/7c5b: target is busy. ",
            "<POD>",
        ),
        (
            "Jun 28 20:40:37 node-1 k3s[753]: E0628 20:40:37.391968     753 nestedpendingoperations.go:348] Operation for \"{volumeName:kubernetes.io/csi/driver.longhorn.io^pvc-b23fce3b podName:942ef69b-2e06-47f3-8bac-cc738c8baa00 nodeName:}\" failed. No retries permitted until 2024-06-28 20:42:39.391919153 +0000 UTC m=+10744.364754873 (durationBeforeRetry 2m2s). Error: UnmountVolume.TearDown failed for volume \"mysql-volume\" (UniqueName: \"kubernetes.io/csi/driver.longhorn.io^pvc-b23fce3b\") pod \"942ef69b-2e06-47f3-8bac-cc738c8baa00\" (UID: \"942ef69b-2e06-47f3-8bac-cc738c8baa00\") : kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: driver name driver.longhorn.io not found in the list of registered CSI drivers",
            "KF908",
            "a taint with NoExecute",
            "<POD>",
        ),
        (
            "E0324 04:21:58.987894    1232 kubelet_volumes.go:245] \"There were many similar errors. Turn up verbosity to see them.\" err=\"orphaned pod \\\"4778d900-4bec-40ac-95ce-7578e6345677\\\" found, but error not a directory occurred when trying to remove the volumes dir\" numErrs=3",
            "KF908",
            "vol_data.json",
            "cgroup",
        ),
        (
            "Events:\n  Type     Reason              Age   From                  Message\n  ----     ------              ----  ----                  -------\n  Warning  ErrWorkloadCompose  14s   pod-kueue-controller  'my-pod-group' group has fewer runnable pods than expected\n",
            "KF231",
            "kueue.x-k8s.io/pod-group-name=my-pod-group",
            "?",
        ),
        (
            "MountVolume.SetUp failed for volume \"pvc-1f2e\" : applyFSGroup failed for vol /subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/pvc-1f2e: […]: input/output error",
            "KF409",
            "fsGroupChangePolicy: OnRootMismatch",
            "?",
        ),
        (
            "MountVolume.MountDevice failed for volume \"pvc-13538170\" : rpc error: code = Internal desc = mount failed: exit status 32 Mounting command: /usr/local/sbin/nsmounter Mounting arguments: mount -t nfs -o vers=4.1,noresvport,intr,hard 10.43.207.185:/pvc-13538170 /globalmount Output: mount.nfs: Protocol not supported for 10.43.207.185:/pvc-13538170 on /globalmount",
            "KF409",
            "rpcinfo -p 10.43.207.185",
            "?",
        ),
    ] {
        let said = said(&desk, paste);
        let right = said.contains(code) && said.contains(has) && !said.contains(lacks);
        assert!(right, "{code}, {has}, not {lacks}: {paste}\n{said}");
    }
}

/// fsck begins with its version, and says last what is wrong.
#[test]
fn what_fsck_found_is_told() {
    let desk = Desk::new();
    let row = |output: &str| {
        format!(
            "  Warning  FailedMount             30s (x7 over 63s)  kubelet                  MountVolume.SetUp failed for volume \"pvc-bb8582d5\" : rpc error: code = Internal desc = 'fsck' found errors on device /dev/longhorn/pvc-bb8582d5 but could not correct them: {output}"
        )
    };
    let whole = said(
        &desk,
        &row(
            "fsck from util-linux 2.31.1 ext2fs_check_if_mount: Can't check if filesystem is mounted due to missing mtab file while determining whether /dev/longhorn/pvc-bb8582d5 is mounted. /dev/longhorn/pvc-bb8582d5 contains a file system with errors, check forced. /dev/longhorn/pvc-bb8582d5: Inodes that were part of a corrupted orphan linked list found. /dev/longhorn/pvc-bb8582d5: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.",
        ),
    );
    assert!(
        whole.contains("cannot be mounted: Inodes that were part"),
        "{whole}"
    );
    let cut = said(&desk, &row("fsck from util-linux 2.31.1"));
    assert!(cut.contains("cannot be mounted. evidence"), "{cut}");
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
