//! What older releases, other programs and cut lines say, and of which pod. They are of public reports, whose addresses are in
//! `fixtures/reports.tsv`.

use super::Desk;
use super::fragments::{tells, told};

#[test]
fn older_words_mean_the_same() {
    let desk = Desk::new();
    for (paste, cause, words) in [
        // kubernetes 40905.
        (
            "```\n  1h  1h  9  {kubelet 10.1.2.2}  Warning  FailedMount  MountVolume.SetUp failed for volume \"kubernetes.io/configmap/39e819a4-e9ad-11e6-addf-080027893417-config-volume\" (spec.Name: \"config-volume\") pod \"39e819a4-e9ad-11e6-addf-080027893417\" (UID: \"39e819a4-e9ad-11e6-addf-080027893417\") with: configmaps \"prometheus\" not found\n```\n",
            "KF402",
            "Volume config-volume waits for configmap prometheus",
        ),
        // openshift-ansible 4763: CRI-O 1.0.
        (
            "```\nJul 20 13:15:42 localhost.localdomain origin-node[20259]: E0720 13:15:42.842547   20259 kuberuntime_manager.go:618] createPodSandbox for pod \"docker-registry-1-deploy_default(d7c65bda-6d6d-11e7-96ff-525400b88b0e)\" failed: rpc error: code = 2 desc = failed to create network for container default-docker-registry-1-deploy-0-infra in sandbox 0f5060b27eea3f4768981700ac0bcf32b1117e057a78a92627606e3ba4b1711a: cni config uninitialized\n```\n",
            "KF503",
            "The CNI plugin or its configuration is missing",
        ),
        // kubernetes 9534: Docker 1.x.
        (
            "```\nW1127 10:42:16.169000    3395 manager.go:1897] Failed to pull image \"gcr.io/google_containers/kube-ui:v2\" from pod \"kube-ui-v2-ojp6m_kube-system\" and container \"kube-ui\": Error: Status 429 trying to pull repository google_containers/kube-ui: \"<!DOCTYPE html>\\n<html lang=en>\\n  <title>Error 429 (Too Many Requests)!!1</title>\n```\n",
            "KF603",
            "because it was asked too often",
        ),
    ] {
        tells(&desk, paste, cause, words);
    }
}

#[test]
fn a_message_names_its_pod_in_many_ways() {
    let desk = Desk::new();
    for (paste, pod) in [
        // openshift-azure 711: the name that CRI-O gives a sandbox.
        (
            "```\n  Warning  FailedCreatePodSandBox  2m (x46 over 12m)  kubelet, infra-000001  Failed create pod sandbox: rpc error: code = Unknown desc = error creating pod sandbox with name \"k8s_sync-d8bdg_openshift-node_58eb0a26-e36b-11e8-b05f-000d3a4fa604_0\": image not known\n```\n",
            "openshift-node/sync-d8bdg",
        ),
        // kubernetes 9207: the scheduler before 1.5.
        (
            "```\n  FirstSeen\tLastSeen\tCount\tFrom\t\t\tSubobjectPath\tType\t\tReason\t\t\tMessage\n  ---------\t--------\t-----\t----\t\t\t-------------\t--------\t------\t\t\t-------\n  51m\t\t37m\t\t50\t{default-scheduler }\t\t\tWarning\t\tFailedScheduling\tpod (loudmail-deployment-1671311517-s1nb9) failed to fit in any node\n```\n",
            "NAMESPACE/loudmail-deployment-1671311517-s1nb9",
        ),
        // pipelines-as-code 1003.
        (
            "```\nWarning  Failed     7m33s (x8 over 9m4s)   kubelet            Error: container has runAsNonRoot and image will run as root (pod: \"pipelines-as-code-controller-5dbd46fcf5-zsbn4_pipelines-as-code(d5a40aa3-e8d8-468c-bd9a-f2ac98136058)\", container: pac-controller)\n```\n",
            "pipelines-as-code/pipelines-as-code-controller-5dbd46fcf5-zsbn4",
        ),
    ] {
        let said = told(&desk, paste);
        assert!(said.starts_with(pod), "{pod}: {said}");
    }
}

#[test]
fn logs_of_other_programs_tell_of_pods_and_volumes() {
    let desk = Desk::new();
    for (paste, cause, words) in [
        // sigs.k8s.io/karpenter 2123: a file of its log alone, with the last line cut.
        (
            "{\"level\":\"DEBUG\",\"time\":\"2025-04-04T10:15:40.103Z\",\"logger\":\"controller\",\"caller\":\"scheduling/scheduler.go:248\",\"message\":\"relaxing soft constraints for pod since it previously failed to schedule, removing: x\",\"controller\":\"provisioner\",\"namespace\":\"\",\"name\":\"\",\"reconcileID\":\"9aec5d56-039d-4b85-bcbd-78e58bfef269\",\"Pod\":{\"name\":\"nginx-565d69d9cd-g5fkp\",\"namespace\":\"default\"}}\n{\"level\":\"ERROR\",\"time\":\"2025-04-04T10:15:40.110Z\",\"logger\":\"controller\",\"caller\":\"provisioning/provisioner.go:350\",\"message\":\"could not schedule pod\",\"controller\":\"provisioner\",\"namespace\":\"\",\"name\":\"\",\"reconcileID\":\"9aec5d56-039d-4b85-bcbd-78e58bfef269\",\"Pod\":{\"name\":\"nginx-565d69d9cd-g5fkp\",\"namespace\":\"default\"},\"error\":\"incompatible with nodepool \\\"worker-multi-az-xxlarge\\\", daemonset overhead={\\\"cpu\\\":\\\"681m\\\",\\\"memory\\\":\\\"652Mi\\\",\\\"pods\\\":\\\"11\\\"}, incompatible requirements, label \\\"node-role.kaas.acquia.io/stable\\\" does not have known values (typo of \\\"acquia.io/stage\\\"?); incompa",
            "KF225",
            "default/nginx-565d69d9cd-g5fkp",
        ),
        // longhorn 3040: the external-attacher's log.
        (
            "I get the issue that volume can't be attached to Job pod,\n\n```\nI0922 13:11:43.290987       1 csi_handler.go:228] Error processing \"csi-09a40cd0a81468ea236d74be6a478588e681694601fc4e9ebd018460ef73018d\": failed to attach: rpc error: code = DeadlineExceeded desc = volume pvc-42c7631c-1d8a-41e1-aadb-cfbcc54eb4cf failed to attach to node k8s-stage-fra1-worker-pool-8rz8k\n```\n",
            "KF406",
            "Volume pvc-42c7631c-1d8a-41e1-aadb-cfbcc54eb4cf cannot be attached",
        ),
        // longhorn 7710: the end of a line of the kubelet's log.
        (
            "and in the kubelet log:\n`or syncing pod, skipping\" err=\"unmounted volumes=[volv], unattached volumes=[volv], failed to process volumes=[]: context deadline exceeded\" pod=\"default/volume-test\" podUID=\"e771f640-c49b-4ba9-a1cd-20be1f5d1d21\"`\n",
            "KF406",
            "default/volume-test",
        ),
    ] {
        tells(&desk, paste, cause, words);
    }
}

#[test]
fn a_text_that_is_cut_tells_what_stands_before() {
    let desk = Desk::new();
    // karpenter (aws) 3262: in the last row of a table of Markdown.
    let said = told(
        &desk,
        "|Type|Reason|Age|From|Message|\n|---|---|---|---|---|\n|Warning|FailedScheduling|5m11s (x352 over 119m)|default-scheduler|0/31 nodes are av",
    );
    assert!(said.contains("stuck in schedule for 1h59m"), "{said}");
    // kubernetes-101 6: in a description, before the state that the table above it has.
    let said = told(
        &desk,
        "me@nb1:~$ kubectl get pods\nNAME                     READY     STATUS             RESTARTS   AGE\nmy-web-5f796bf89-c495j   0/1       ImagePullBackOff   0          1d\nredis                    1/1       Running            0          15m\n\nI check the pods status by describe\nme@nb1:~$ kubectl describe pods my-web-5f796bf89-c495j\nName:           my-web-5f796bf89-c495j\nNamespace:      default\nNode:           minikube/192.168.99.100\nStart Time:     Wed, 03 Jan 2018 22:52:14 +0800\nStatus:         Running\nIP:             172.17.0.2\nControlled By:  ReplicaSet/my-web-5f796bf89\nContainers:\n  my-web:\n    Container ID:   docker://4a69f9aea721506c3f1fe60f1b7e7d171217182cf60f2955fdc7a41f8",
    );
    assert!(said.starts_with("default/my-web-5f796bf89-c495j"), "{said}");
    assert!(said.contains("KF613"), "{said}");
    // The pod was made a day before, and so 2018 is when the table was printed.
    assert!(said.contains("stuck in image for 1d00h"), "{said}");
}
