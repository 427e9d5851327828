//! Pieces of what kubectl printed, as people paste them: a few rows of Events, a line, a message. They are of public reports,
//! whose addresses are in `fixtures/reports.tsv`.

use super::{Desk, run, text};

/// Checks that `kflow why --all` tells a cause of a text, with these words, on however many lines. Returns what it says.
pub(super) fn tells(desk: &Desk, paste: &str, code: &str, words: &str) -> String {
    let said = told(desk, paste);
    assert!(said.contains(code), "{code}: {paste}\n{said}");
    let joined = crate::one_line(&said);
    assert!(joined.contains(words), "{words}: {paste}\n{said}");
    said
}

/// What `kflow why --all` says of a text.
pub(super) fn told(desk: &Desk, paste: &str) -> String {
    let file = desk.file("ticket.txt", paste);
    let out = desk.path("ticket.kflow");
    std::fs::remove_file(&out).ok();
    let o = run(&["import", &file, "-O", &out]);
    assert!(o.status.success(), "{paste}\n{}", text(&o.stderr));
    let summary = text(&o.stderr);
    let o = run(&["why", "--all", "-s", &out]);
    let said = format!("{}{}", text(&o.stdout), text(&o.stderr));
    let stands = "NAMESPACE, POD and the like stand for names";
    assert!(
        !said.contains("NAMESPACE/") || summary.contains(stands),
        "{summary}\n{said}"
    );
    said
}

#[test]
fn a_few_rows_of_events_are_enough() {
    let desk = Desk::new();
    for (paste, code, object) in [
        (
            "The new pod never gets out of `ContainerCreating`.\n\nError:\n\n```\n  Warning  FailedAttachVolume  54s   attachdetach-controller  Multi-Attach error for volume \"pvc-bca43bf8\" Volume is already used by pod(s) vm-import-7f4bf5l9ln9\n```\n",
            "KF405",
            "NAMESPACE/POD",
        ),
        (
            "Events:\n  Type     Reason        Age    From            Message\n  ----     ------        ----   ----            -------\n  Warning  FailedCreate  3m37s  job-controller  Error creating: pods \"trace-d9c10bfa-pktmb\" is forbidden: failed quota: q: must specify limits.cpu,limits.memory\n",
            "KF102",
            "job/trace-d9c10bfa",
        ),
        (
            "**What happened**:\nIt always reports events: `Warning  FailedCreate  12m (x21 over 46m)  daemonset-controller  Error creating: Timeout: request did not complete within requested timeout\n`\n\n**Environment**:\nlinux\n",
            "KF105",
            "daemonset/DAEMONSET",
        ),
        // The table is whole: the pod that its Event names is gone.
        (
            "```\n$ kubectl get pods -n monitoring\nNAME                        READY   STATUS                       RESTARTS   AGE\nautotune-655d8878cc-f2c9c   0/1     CreateContainerConfigError   0          16s\n```\n```\nType     Reason     Age                  From               Message\n  ----     ------     ----                 ----               -------\n  Normal   Scheduled  36m                  default-scheduler  Successfully assigned monitoring/autotune-655d8878cc-zz78v to minikube\n  Warning  Failed     34m (x12 over 36m)   kubelet, minikube  Error: configmap \"autotune-config-key\" not found\n```\n",
            "KF701",
            "monitoring/autotune-655d8878cc-f2c9c",
        ),
        // The only pod of the table that is not well.
        (
            "```\nNAME                                   READY   STATUS                       RESTARTS   AGE\naegis-demo-54744f95f7-2zm7d            2/2     Running                      0          104s\naegis-demo-76f5f7dc46-vfldl            0/1     CreateContainerConfigError   0          62s\n```\n\nPossibly this\n\n```\n  Warning  Failed     2s (x5 over 54s)  kubelet            Error: couldn't find key VALUE in Secret default/aegis-secret\n```\n",
            "KF701",
            "NAMESPACE/aegis-demo-76f5f7dc46-vfldl",
        ),
        // A container that a probe kills, without its status.
        (
            "pod describe\n```\n  Warning  Unhealthy  4m7s (x6 over 4m57s)  kubelet  Liveness probe failed: Get \"http://10.88.1.106:80/\": dial tcp 10.88.1.106:80: connect: connection refused\n  Warning  BackOff    15s (x7 over 1m)      kubelet  Back-off restarting failed container\n```\n",
            "KF803",
            "NAMESPACE/POD",
        ),
        (
            "Events:\n  Type     Reason     Age               From               Message\n  ----     ------     ----              ----               -------\n  Normal   Scheduled  9m                default-scheduler  Successfully assigned javatest/hello-v2-1-fjchl to csswn001d\n  Normal   Started    46s (x4 over 1m)  kubelet, csswn001d  Started container\n  Warning  BackOff    15s (x7 over 1m)  kubelet, csswn001d  Back-off restarting failed container\n",
            "KF708",
            "javatest/hello-v2-1-fjchl",
        ),
        // A description's Event is of a pod that was there, however old it is.
        (
            "Events:\n  Type     Reason                  Age  From           Message\n  ----     ------                  ---- ----           -------\n  Warning  FailedCreatePodSandBox  18m  kubelet, evan  Failed create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox container for pod \"nginx-fq7wk\": Error response from daemon: OCI runtime create failed: exec: \"docker-runc\": executable file not found in $PATH: unknown\n",
            "KF509",
            "NAMESPACE/nginx-fq7wk",
        ),
        // The name is in the command.
        (
            " kubectl describe pod dash-5f48f6b647-cbhzz -n kube-system\n---------------------------------\nEvents:\n  Type     Reason     Age                 From           Message\n  ----     ------     ----                ----           -------\n  Warning  BackOff    2m (x373 over 1h)   kubelet, dk03  Back-off restarting failed container\n",
            "KF708",
            "kube-system/dash-5f48f6b647-cbhzz",
        ),
        // Rows of a list that names no namespace.
        (
            "0s          Warning   FailedScheduling          pod/testapp-5f8b56c8fc-6xcjp        0/20 nodes are available: 20 node(s) didn't match pod topology spread constraints.\n",
            "KF208",
            "NAMESPACE/testapp-5f8b56c8fc-6xcjp",
        ),
        // A ruler is no begin of YAML.
        (
            "  ----     ------        ----                ----                   -------\n  Warning  FailedCreate  2m6s                replicaset-controller  Error creating: pods \"nodejs-app-8665bd77fb-2dd4n\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true (pod or container \"runtime\" must set securityContext.runAsNonRoot=true)\n",
            "KF104",
            "replicaset/nodejs-app-8665bd77fb",
        ),
        // Its containers started and were evicted in one minute.
        (
            "Events:\n  Type     Reason          Age                From               Message\n  ----     ------          ----               ----               -------\n  Normal   Started         18m (x2 over 18m)  kubelet, mgt04     Started container calico-node\n  Warning  Evicted         18m                kubelet, mgt04     The node was low on resource: ephemeral-storage. Container calico-node was using 92Ki, which exceeds its request of 0.\n",
            "KF911",
            "NAMESPACE/POD",
        ),
        // A row without a node, of a container that has run.
        (
            "NAME                                             READY   STATUS      RESTARTS      AGE\ntax-application-base-74464f6b98-2kj6g            0/1     OOMKilled   4 (57s ago)   2m40s\n",
            "KF709",
            "A container was killed (OOMKilled)",
        ),
        // Old Events have the number behind the object's name; they name it nowhere else.
        (
            "LAST SEEN   FIRST SEEN   COUNT     NAME                                  KIND         SUBOBJECT   TYPE      REASON         SOURCE                  MESSAGE\n13m         13m          1         my-service-8c567f849.159c87245ec30f53   ReplicaSet               Warning   FailedCreate   replicaset-controller   Error creating: Internal error occurred: failed calling admission webhook \"sidecar-injector.istio.io\": Post https://x:443/inject?timeout=30s: net/http: request canceled\n",
            "KF105",
            "replicaset/my-service-8c567f849",
        ),
        // Rows of old releases without titles: two ages and a count before all else.
        (
            "```\n  2h\t\t48m\t\t7\tdefault-scheduler\t\t\tWarning\t\tFailedScheduling\tNo nodes are available that match all of the following predicates:: Insufficient cpu (9), Insufficient memory (15), MatchNodeSelector (18).\n  34m\t\t34m\t\t1\tdefault-scheduler\t\t\tWarning\t\tFailedScheduling\tNo nodes are available that match all of the following predicates:: Insufficient cpu (9), Insufficient memory (13), MatchNodeSelector (18).\n```\n",
            "KF205",
            "NAMESPACE/POD",
        ),
        (
            "  14m\t\t39s\t\t7\t{kubelet gke-1}\t\t\tWarning\t\tFailedMount\tMountVolume.SetUp failed for volume \"cf-secrets\" : secrets \"s\" not found\n",
            "cf-secrets",
            "NAMESPACE/POD",
        ),
        (
            "13m         13m          1         my-service-8c567f849.159c87245ec30f53   ReplicaSet               Warning   FailedCreate   replicaset-controller   Error creating: Internal error occurred: failed calling admission webhook \"sidecar-injector.istio.io\": Post https://x:443/inject?timeout=30s: net/http: request canceled\n",
            "KF105",
            "replicaset/my-service-8c567f849",
        ),
        // 1.8 and 1.9 (plugin/pkg/scheduler/core/generic_scheduler.go, `NoNodeAvailableMsg`).
        (
            "FailedScheduling: No nodes are available that match all of the predicates: PodToleratesNodeTaints (1).\n",
            "KF203",
            "NAMESPACE/POD",
        ),
        (
            "Warning  FailedScheduling  2s (x5 over 9s)  default-scheduler  0/3 nodes are available: 1 PodToleratesNodeTaints, 2 MatchInterPodAffinity.\n",
            "KF207",
            "NAMESPACE/POD",
        ),
        // The paste ends within the newest row: the one before says it all.
        (
            "Events:\n  Type     Reason            Age                 From               Message\n  ----     ------            ----                ----               -------\n  Warning  FailedScheduling  36m (x6 over 36m)   default-scheduler  0/3 nodes are available: 1 node(s) didn't match pod affinity/anti-affinity, 1 node(s) had taints that the pod didn't tolerate, 1 node(s) had volume node affinity conflict.\n  Warning  FailedScheduling  95s (x44 over 36m)  default-scheduler  0/3 nodes are avai",
            "KF216",
            "KF203",
        ),
    ] {
        tells(&desk, paste, code, object);
    }
}

#[test]
fn a_message_alone_is_enough() {
    let desk = Desk::new();
    for (paste, code, object) in [
        // dockershim (1.23: pkg/kubelet/dockershim/docker_sandbox.go, `ensureSandboxImageExists`), cut within a sentence.
        (
            "提示unable to pull sandbox image \\\"registry.access.redhat.com/rhel7/pod-infrastr，请问楼主\n",
            "KF505",
            "NAMESPACE/POD",
        ),
        (
            "NotTriggerScaleUp 85s (x232 over 51m)\ncluster-autoscaler pod didn't trigger scale-up: 15 node(s) didn't match Pod's node affinity/selector, 1 node(s) had volume node affinity conflict\nthen we deleted it\n",
            "KF225",
            "NAMESPACE/POD",
        ),
        (
            "I0330 04:09:57.883677       1 event.go:278] Event(v1.ObjectReference{Kind:\"DaemonSet\", Namespace:\"kube-system\", Name:\"kube-proxy\", UID:\"a0b4a679\"}): type: 'Warning' reason: 'FailedCreate' Error creating: pods \"kube-proxy-\" is forbidden: no providers available to validate pod request\n",
            "KF114",
            "daemonset/kube-proxy",
        ),
        // Words of what the kubelet calls, without its own (rancher/rke2-docs, kind, rook/rook, longhorn/website, projectcalico/calico).
        (
            "plugin type=\"portmap\" failed (add): failed to open iptables: exec: \"iptables\": executable file not found in $PATH\n",
            "KF520",
            "NAMESPACE/POD",
        ),
        (
            "failed to allocate for range 0: no IP addresses available in range set\n",
            "KF502",
            "NAMESPACE/POD",
        ),
        (
            "Error: calico/node is not ready: BIRD is not ready: BGP not established with 10.0.0.1\n",
            "KF801",
            "NAMESPACE/POD",
        ),
        (
            "GRPC error: rpc error: code = Aborted desc = an operation with the given Volume ID\n0001-0009-rook-ceph-0000000000000001-8d0ba728-0e17-11eb-a680-ce6eecc894de already exists.\n",
            "KF416",
            "NAMESPACE/POD",
        ),
        (
            "wrong fs type, bad option, bad superblock on /dev/longhorn/<volume> missing codepage or helper program ...\n\n[766396.293089] XFS (sdf): Superblock has unknown read-only compatible features (0x6) enabled.\n[766396.293546] XFS (sdf): Attempted to mount read-only compatible filesystem read-write.\n",
            "KF409",
            "VOLUME",
        ),
        (
            "Oct 11 07:42:23 dev-worker-1 k3s[1294]: Mounting command: /usr/local/sbin/nsmounter\nOct 11 07:42:23 dev-worker-1 k3s[1294]: Mounting arguments: mount -t nfs -o vers=4.1 10.43.207.185:/pvc-13538170-4278-4467-b2b0-1f1ba6f54a4c /var/lib/kubelet/plugins/kubernetes.io/csi/driver.longhorn.io/185c/globalmount\nOct 11 07:42:23 dev-worker-1-autoscaled-small-19baf778f50efd8c k3s[1294]: Output: mount.nfs: Protocol not supported for 10.43.207.185:/pvc-13538170-4278-4467-b2b0-1f1ba6f54a4c\n",
            "KF409",
            "Volume pvc-13538170-4278-4467-b2b0-1f1ba6f54a4c",
        ),
        (
            "2022-01-19T18:22:23.366Z ERROR controller.provisioning Could not launch node, launching instances, with fleet error(s), InvalidBlockDeviceMapping: Invalid device name /dev/xvda; ...\n",
            "KF225",
            "NAMESPACE/POD",
        ),
        // Messages of several lines (MicrosoftDocs/SupportArticles-docs).
        (
            "AttachVolume.Attach failed for volume \"pv-azuredisk\": \nrpc error: code = NotFound \ndesc = Volume not found, failed with error: Retriable: false, RetryAfter: 0s, HTTPStatusCode: 403, \nRawError: \n{\n\"error\":\n{\"code\":\"AuthorizationFailed\",\n\"message\":\"The client '<client-ID>' does not have authorization to perform action 'Microsoft.Compute/disks/read' over scope 'x' or the scope is invalid.\"\n}\n}\n",
            "KF418",
            "NAMESPACE/POD",
        ),
        (
            "MountVolume.MountDevice failed for volume \"\\<pv-fileshare-name>\"\nrpc error: code = Internal desc =\nvolume(\\<group>#\\<account>#) > mount \"//\\<account>.file.core.windows.net/x\" on \"/var/lib/kubelet/plugins/x/globalmount\" failed with\nmount failed: exit status 32\nMounting command: mount\nMounting arguments: -t cifs -o dir_mode=0777 //x /var/lib/kubelet/plugins/x/globalmount\nOutput: mount error(13): Permission denied\nRefer to the mount.cifs(8) manual page (e.g. man mount.cifs) and kernel log messages (dmesg)\n",
            "mount error(13)",
            "Volume <pv-fileshare-name>",
        ),
        (
            "Complete error: (combined from similar events): Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox \"d8\": failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: x\n",
            "KF509",
            "NAMESPACE/POD",
        ),
    ] {
        let said = tells(&desk, paste, code, object);
        // Since when is not known.
        assert!(!said.contains(" for 0s"), "{said}");
        assert!(!said.contains("deleted it"), "{said}");
    }
}

/// The log of an end-to-end test begins its lines like a journal.
#[test]
fn the_next_line_of_a_log_is_no_part_of_a_message() {
    let desk = Desk::new();
    let line = |what: &str| {
        format!(
            "Apr 28 09:35:34.104: INFO: At 2021-04-28 09:30:27 +0100 BST - event for pod-eb165813: {{kubelet minikube}} {what}\n"
        )
    };
    let paste = format!(
        "It fails:\n```\n{}{}```\n",
        line(
            "Failed: Failed to pull image \"docker.io/library/busybox:1.29\": rpc error: code = Unknown desc = Error response from daemon: toomanyrequests: You have reached your pull rate limit."
        ),
        line("Failed: Error: ErrImagePull"),
    );
    let said = told(&desk, &paste);
    assert!(said.contains("KF603"), "{said}");
    assert!(!said.contains("INFO"), "{said}");
}

/// The pod was scheduled after the scheduler had found no node for it.
#[test]
fn what_is_over_by_the_next_line_is_not_told() {
    let desk = Desk::new();
    let said = told(
        &desk,
        "```\n2022-05-02T00:33:47Z [Warning] 0/13 nodes are available: 2 node(s) were unschedulable, 11 node(s) didn't match Pod's node affinity/selector.\n2022-05-02T00:33:59Z [Normal] Successfully assigned odh/jupyterhub-nb to ip-10-0-252-130.ec2.internal\n```\n",
    );
    assert!(!said.contains("KF20"), "{said}");
}

/// A table that names no namespace, and a line of a log that does.
#[test]
fn a_namespace_is_taken_from_the_rest_of_the_text() {
    let desk = Desk::new();
    let said = told(
        &desk,
        "```\n[root@ose3-master ~]# oc get pods\nNAME           READY     STATUS              RESTARTS   AGE\ngogs-2-91275   0/1       ContainerCreating   0          5m\n```\n\n```\nMay 24 16:07:17 node2 atomic-openshift-node[2474]: E0524 16:07:17.915440    2474 kubelet.go:1796] Unable to mount volumes for pod \"gogs-2-91275_infra(3c2d0709-2204-11e6-843d-525400daa840)\": configmaps \"config-volume\" not found; skipping pod\n```\n",
    );
    assert!(said.contains("infra/gogs-2-91275"), "{said}");
    assert!(!said.contains("NAMESPACE/"), "{said}");
}

/// Lines of logs have decoders of their own; which is theirs, each line says.
#[test]
fn lines_of_logs_in_prose_are_read() {
    let desk = Desk::new();
    let said = told(
        &desk,
        "The crio logs show as follows:\n\n```\nAug 25 15:57:08 node1 crio[38052]: time=\"2023-08-25 15:57:08.444043998+08:00\" level=info msg=\"Creation of container k8s_calico-node_calico-node-s47rq_ccos-calico_9935d65d-53be-4c36-a6b6-452ec903deaf_0 not yet finished. Currently at stage container spec configuration. Waiting up to 5m59.999402061s for it to finish\" id=df6c1c99\n```\nBut then we restart the cri-o\n",
    );
    assert!(said.contains("ccos-calico/calico-node-s47rq"), "{said}");
    assert!(said.contains("KF702b"), "{said}");
}

/// Lines of a kubelet that does not start, without the header of the line or a part of it (aws/karpenter-provider-aws,
/// awsdocs/amazon-eks-user-guide, kubernetes-sigs/kind).
#[test]
fn lines_of_a_kubelet_without_their_header_are_its_own() {
    let desk = Desk::new();
    for line in [
        "\"command failed\" err=\"failed to run Kubelet: running with swap on is not supported, please disable swap!...\"",
        "Unable to register node with API server\" err=\"Unauthorized\" node=\"ip-192-168-67-130.ec2.internal\"",
        "4191 kubelet_node_status.go:106] Unable to register node \"ip-10-40-175-122.ec2.internal\" with API server: Unauthorized",
        "server.go:233] failed to run Kubelet: could not init cloud provider \"aws\": error finding instance i-1",
        "E1127 00:34:11.000001     233 server.go:233] failed to run Kubelet: could not init cloud provider \"aws\": error finding instance i-1",
        "\"Failed to start ContainerManager\" err=\"failed to get rootfs info: failed to get device for dir\"",
    ] {
        let file = desk.file("ticket.txt", format!("{line}\n"));
        let out = desk.path("kubelet.kflow");
        std::fs::remove_file(&out).ok();
        let o = run(&["import", &file, "-O", &out]);
        let said = format!("{}{}", text(&o.stdout), text(&o.stderr));
        assert!(o.status.success(), "{line}\n{said}");
        assert!(said.contains(": 1 observations"), "{line}\n{said}");
    }
    let said = desk.refused(&[&desk.file("ticket.txt", "The kubelet does not start.\n")]);
    assert!(said.contains("nothing that kflow knows"), "{said}");
}

/// Whoever asks in public replaces the names of nodes, not always all of them (longhorn/website, docsy/content/kb).
#[test]
fn a_few_lines_of_a_journal_are_of_one_node_whatever_they_name() {
    let desk = Desk::new();
    let line = |host: &str, name: &str| {
        format!(
            "Oct 11 07:42:23 {host} k3s[1294]: I1011 07:42:23.334034    1294 kubelet.go:2724] \"SyncLoop ADD\" source=\"api\" pods=[\"shop/{name}\"]\n"
        )
    };
    let paste = line("dev-worker-1", "web-0") + &line("dev-worker-1-autoscaled", "web-1");
    let file = desk.file("ticket.txt", &paste);
    let import = |out: &str, more: &[&str]| {
        let o = run(&[&["import", &file, "-O", out][..], more].concat());
        let said = format!("{}{}", text(&o.stdout), text(&o.stderr));
        assert!(o.status.success(), "{said}");
        said
    };
    let said = import(&desk.path("a.kflow"), &[]);
    assert!(said.contains("2 observations"), "{said}");
    assert!(
        said.contains("several nodes (dev-worker-1, dev-worker-1-autoscaled)"),
        "{said}"
    );
    let said = import(&desk.path("b.kflow"), &["--node", "dev-worker-1"]);
    assert!(said.contains(": 1 observations"), "{said}");
}

/// As people paste it into a chat; of the troubleshooting pages of AKS and of Kubernetes' handbook.
#[test]
fn a_description_without_its_middle_is_of_its_pod() {
    let desk = Desk::new();
    for (head, rows, code) in [
        (
            "Name:           mydb-mysql-dfc999888-hbw5d\nNamespace:      default\nNode:           <none>\n",
            "  Warning  FailedScheduling  2m (x37 over 12m)  default-scheduler  pod has unbound PersistentVolumeClaims (repeated 2 times)\n",
            "KF213",
        ),
        (
            "Name:         mydb-mysql-dfc999888-hbw5d\nNamespace:    default\nPriority:     0\n",
            "  Normal   Pulling  17s (x2 over 33s)  kubelet  pulling image \"a1pine\"\n  Warning  Failed   14s (x2 over 29s)  kubelet  Failed to pull image \"a1pine\": rpc error: code = Unknown desc = Error response from daemon: repository a1pine not found: does not exist or no pull access\n",
            "KF601",
        ),
    ] {
        for middle in ["...\n", "[...]\n", "\n", "Status:         ...\n...\n"] {
            let paste = format!(
                "$ kubectl describe pod mydb-mysql-dfc999888-hbw5d\n{head}{middle}Events:\n  Type     Reason            Age                From               Message\n  ----     ------            ----               ----               -------\n{rows}"
            );
            let said = told(&desk, &paste);
            assert!(
                said.starts_with("default/mydb-mysql-dfc999888-hbw5d"),
                "{paste}\n{said}"
            );
            assert!(said.contains(code), "{paste}\n{said}");
        }
    }
    // Of another kind, whose controller reports.
    let claim = "Name:          data\nNamespace:     default\n...\nEvents:\n  Type     Reason              Age   From                         Message\n  ----     ------              ----  ----                         -------\n  Warning  ProvisioningFailed  2m    persistentvolume-controller  storageclass.storage.k8s.io \"nosuch\" not found\n";
    let o = run(&["why", "--all", "-s", &desk.file("claim.txt", claim)]);
    assert!(!text(&o.stdout).contains("POD"), "{}", text(&o.stdout));
}

#[test]
fn what_kubectl_says_when_it_has_nothing_is_told_as_that() {
    let empty = r#"{"kind": "List", "apiVersion": "v1", "items": []}"#;
    for (given, told) in [
        (empty, "a list in it is empty"),
        (
            "No resources found in default namespace.\n",
            "kubectl found nothing there",
        ),
        (
            "NAME READY STATUS RESTARTS AGE\n",
            "a table of kubectl without a row",
        ),
        (
            "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?\n",
            "kubectl did not reach the cluster",
        ),
        (
            "Error from server (Forbidden): pods is forbidden: User \"dev\" cannot list resource \"pods\"\n",
            "the apiserver's refusal",
        ),
    ] {
        let desk = Desk::new();
        let o = run(&["why", "--all", "-s", &desk.file("asked.txt", given)]);
        assert_eq!(o.status.code(), Some(2));
        let said = text(&o.stderr);
        assert!(said.contains(told), "{given}: {said}");
    }
}

/// The kubelet's log and a container's status say it so, also where another tool quotes them.
#[test]
fn a_back_off_in_the_words_of_a_log_names_its_pod() {
    let desk = Desk::new();
    for (paste, code, object) in [
        // k8sgpt-ai/k8sgpt 792.
        (
            "3 opa/opa-849dcb7499-9chrt(Deployment/opa)\n\n- Error: back-off 5m0s restarting failed container=kube-mgmt pod=opa-849dcb7499-9chrt_opa(7f8061d3-3603-49d6-8e03-77cb4b1bbed4)\n\n- Error: back-off 5m0s restarting failed container=opa pod=opa-849dcb7499-9chrt_opa(7f8061d3-3603-49d6-8e03-77cb4b1bbed4)\n",
            "KF708",
            "opa/opa-849dcb7499-9chrt",
        ),
        // Kubernetes 62594, the end of which an index of public issues does not show.
        (
            "```\nBack-off restarting failed container\nError syncing pod, skipping: failed to \"StartContainer\" for \"web\" with CrashLoopBackOff: \"Back-off 5m0s restarting failed container=web pod=web-controller-3987916996-qtfg7_micro-services(a913f25b-400a-11e8-8a2a-0252b8c4655e)\"\nLiveness probe failed: Get http://100.96.11.194:5000/: dial tcp 100.96.11.194:5000: getsockopt: connection refused\n```\n",
            "KF803",
            "micro-services/web-controller-3987916996-qtfg7",
        ),
    ] {
        let said = told(&desk, paste);
        assert!(said.contains(code), "{code}: {paste}\n{said}");
        assert!(said.starts_with(object), "{object}: {paste}\n{said}");
        assert!(!said.contains("/POD"), "{said}");
    }
}

#[test]
fn what_karpenter_says_stands_alone_and_in_its_log() {
    let desk = Desk::new();
    for (paste, object, words) in [
        // Karpenter-provider-aws 5156.
        (
            "**Events**\n`incompatible with provisioner \"dev-ops\", daemonset overhead={\"cpu\":\"180m\",\"memory\":\"120Mi\",\"pods\":\"3\"}, no instance type satisfied resources {\"cpu\":\"530m\",\"vpc.amazonaws.com/pod-eni\":\"1\"} and requirements env In [dev] (no instance type has enough resources);`\n",
            "NAMESPACE/POD",
            "incompatible with provisioner \"dev-ops\"",
        ),
        // Karpenter 1162.
        (
            " \"{\"level\":\"ERROR\",\"time\":\"2024-04-03T06:40:04.552Z\",\"logger\":\"controller.provisioner\",\"message\":\"Could not schedule pod, incompatible with nodepool \\\"default\\\", daemonset overhead={\\\"cpu\\\":\\\"675m\\\",\\\"memory\\\":\\\"390Mi\\\",\\\"pods\\\":\\\"6\\\"}, incompatible requirements, label \\\"nodegroup\\\" does not have known values\",\"commit\":\"17d6c05\",\"pod\":\"com-dtv-dcp-dpd/beamacctgetprofilems-green-746d677b76-lghl4\"}\"\n",
            "com-dtv-dcp-dpd/beamacctgetprofilems-green-746d677b76-lghl4",
            "Could not schedule pod, incompatible with nodepool \"default\"",
        ),
    ] {
        let said = told(&desk, paste);
        assert!(said.contains("KF225"), "{paste}\n{said}");
        assert!(said.starts_with(object), "{object}: {paste}\n{said}");
        let joined = crate::one_line(&said);
        assert!(joined.contains(words), "{words}: {paste}\n{said}");
    }
}

/// K3s 2370 and containerd 2744: lines of kubelets of 1.18 and 1.12, without the pod's deletion.
#[test]
fn a_kill_of_a_pod_that_fails_is_told_without_its_deletion() {
    let desk = Desk::new();
    let host = "Oct  8 16:43:11 worker9 k3s[1636]: ";
    let killed = |error: &str| {
        format!(
            "{host}E1008 16:43:11.974254    1636 pod_workers.go:191] Error syncing pod 572a81cb-8924-4858-bf87-4b534117d377 (\"lil-upload-87f9547cf-htvnl_europrod(572a81cb-8924-4858-bf87-4b534117d377)\"), skipping: {error}\n"
        )
    };
    for error in [
        "error killing pod: failed to \"KillContainer\" for \"lil-upload\" with KillContainerError: \"rpc error: code = DeadlineExceeded desc = context deadline exceeded\"",
        "error killing pod: [failed to \"KillContainer\" for \"lil-upload\" with KillContainerError: \"rpc error: code = Unknown desc = an error occurs during waiting for container \\\"25feb03c\\\" init process to be killed: wait container \\\"25feb03c\\\" stop timeout\"",
    ] {
        let said = told(&desk, &killed(error));
        assert!(said.contains("KF905"), "{error}\n{said}");
        assert!(
            said.starts_with("europrod/lil-upload-87f9547cf-htvnl"),
            "{error}\n{said}"
        );
    }
    // A container that is killed to be started again is no end of the pod, and a pod that is gone was killed in the end.
    let restarted = killed(
        "failed to \"KillContainer\" for \"lil-upload\" with KillContainerError: \"rpc error: code = DeadlineExceeded desc = context deadline exceeded\"",
    );
    let said = told(&desk, &restarted);
    assert!(!said.contains("KF905"), "{said}");
    let gone = format!(
        "{}{host}I1008 16:43:15.974254    1636 kubelet.go:1913] SyncLoop (REMOVE, \"api\"): \"lil-upload-87f9547cf-htvnl_europrod(572a81cb-8924-4858-bf87-4b534117d377)\"\n",
        killed(
            "error killing pod: failed to \"KillContainer\" for \"lil-upload\" with KillContainerError: \"rpc error: code = DeadlineExceeded desc = context deadline exceeded\""
        )
    );
    let said = told(&desk, &gone);
    assert!(!said.contains("KF905"), "{said}");
}

/// Kubernetes 55924.
#[test]
fn the_command_before_events_names_their_owner() {
    let desk = Desk::new();
    let events = "......\nEvents:\n  Type     Reason        Age                From                   Message\n  ----     ------        ----               ----                   -------\n  Warning  FailedCreate  7s (x13 over 28s)  replicaset-controller  Error creating: \n";
    for (command, owner) in [
        (
            "$ kubectl describe rs toolbox-84b4c6f7f6\n",
            "replicaset/toolbox-84b4c6f7f6 (NAMESPACE)",
        ),
        (
            "$ kubectl -n shop describe replicaset/toolbox-84b4c6f7f6\n",
            "replicaset/toolbox-84b4c6f7f6 (shop)",
        ),
        // Of another kind.
        (
            "$ kubectl describe deploy toolbox\n",
            "replicaset/REPLICASET (NAMESPACE)",
        ),
    ] {
        let said = told(&desk, &format!("{command}{events}"));
        assert!(said.starts_with(owner), "{owner}: {command}\n{said}");
        assert!(said.contains("KF111"), "{said}");
        let why = crate::one_line(&said);
        assert!(why.contains("its Event ends before it says why"), "{said}");
    }
}

/// Kubernetes 49896 and 107194: up to 1.18 the scheduler said all reasons of a node.
#[test]
fn a_reason_that_holds_of_all_nodes_comes_first() {
    let desk = Desk::new();
    for (message, code, also) in [
        (
            "0/10 nodes are available: 10 node(s) didn't match node selector, 4 Insufficient cpu.",
            "KF205",
            "KF201",
        ),
        (
            "0/10 nodes are available: 4 node(s) didn't match node selector, 10 Insufficient cpu.",
            "KF201",
            "KF205",
        ),
        (
            "0/5 nodes are available: 2 node(s) were unschedulable, 3 Insufficient pods.",
            "KF202",
            "KF204",
        ),
    ] {
        let said = told(
            &desk,
            &format!("  Warning  FailedScheduling  9m  default-scheduler  {message}\n"),
        );
        let first = said.lines().next().unwrap_or_default();
        assert!(first.contains(code), "{code}: {message}\n{said}");
        assert!(
            said.contains(&format!("also      {also}")),
            "{also}: {said}"
        );
    }
}

/// Containarium 1469: somebody gave each reason of the scheduler a line of its own.
#[test]
fn reasons_of_the_scheduler_in_lines_of_their_own_are_one_message() {
    let desk = Desk::new();
    let paste = "```\nFailedScheduling Pod/overflow-869c5856b9-t6slm: 0/2 nodes are available:\n  1 Insufficient cpu,\n  1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }\n```\n\nThe `small` group has room.\n";
    let said = told(&desk, paste);
    assert!(
        said.starts_with("NAMESPACE/overflow-869c5856b9-t6slm"),
        "{said}"
    );
    for words in [
        "1 of the 2 nodes does not have enough cpu",
        "also      KF203",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// Kubernetes 50150: the Event, and the line beside it that names the volume alone.
#[test]
fn an_error_of_a_volume_is_of_the_pod_that_its_event_names() {
    let desk = Desk::new();
    let paste = "I1024 10:53:32.832702       1 event.go:218] Event(v1.ObjectReference{Kind:\"Pod\", Namespace:\"smblab-system\", Name:\"righteous-chimp-smblab-4105893582-ts2mq\", UID:\"89203cf6-b8a9-11e7-8160-000d3ab035ee\", APIVersion:\"v1\", ResourceVersion:\"346815\", FieldPath:\"\"}): type: 'Warning' reason: 'FailedAttachVolume' Multi-Attach error for volume \"pvc-734b583d-b7e3-11e7-a957-000d3ab03706\" Volume is already exclusively attached to one node and can't be attached to another\nW1024 10:53:32.932899       1 reconciler.go:267] Multi-Attach error for volume \"pvc-734b583d-b7e3-11e7-a957-000d3ab03706\" (UniqueName: \"kubernetes.io/azure-disk//subscriptions/5ddf\") from node \"smblab-ne-worker-1\" Volume is already exclusively attached to one node and can't be attached to another\n";
    let said = told(&desk, paste);
    assert!(
        said.starts_with("smblab-system/righteous-chimp-smblab-4105893582-ts2mq"),
        "{said}"
    );
    assert!(said.contains("KF405") && !said.contains("/POD"), "{said}");
    let joined = crate::one_line(&said);
    let words = "to the node: Volume is already exclusively attached to one node";
    assert!(joined.contains(words), "{said}");
}

/// Karpenter (aws) 7535: since 1.0 the line says that, and a member of it why.
#[test]
fn why_karpenter_adds_no_node_is_a_member_of_its_line() {
    let desk = Desk::new();
    let head = r#"{"level":"ERROR","time":"2024-12-16T21:48:24.279Z","logger":"controller","message":"could not schedule pod","commit":"6174c75","controller":"provisioner","namespace":"","name":"","reconcileID":"8f62e2d4-ad75-47dc-9b95-a3cc56c6bfaf","Pod":{"name":"inflate-5c97b884d6-rp2fk","namespace":"default"},"error":""#;
    for (error, said_so) in [
        (
            r#"incompatible with nodepool \"default\", daemonset overhead={\"cpu\":\"180m\",\"memory\":\"120Mi\",\"pods\":\"5\"}, incompatible requirements, label \"workload\" does not have known values"}"#,
            "label \"workload\" does not have known values",
        ),
        // sigs.k8s.io/karpenter 2441.
        (
            r#"did not tolerate taint (taint=msp.stripe.io/availability-tier=A400:NoSchedule)"}"#,
            "did not tolerate taint",
        ),
    ] {
        let said = told(
            &desk,
            &format!("5 Pods are in pending status.\n\n**Events**:\n`{head}{error}`\n"),
        );
        assert!(
            said.starts_with("default/inflate-5c97b884d6-rp2fk"),
            "{said}"
        );
        let joined = crate::one_line(&said);
        for words in ["KF225", "Karpenter adds no node for the pod", said_so] {
            assert!(joined.contains(words), "{words}: {said}");
        }
    }
}

/// trivy-dojo-report-operator 24 and kube-arangodb 336: Events do not tell how a probe is configured.
#[test]
fn events_of_a_liveness_probe_are_enough_for_it() {
    let desk = Desk::new();
    for (paste, words) in [
        (
            "```sh\nEvents:\n  Type     Reason     Age                From               Message\n  ----     ------     ----               ----               -------\n  Normal   Scheduled  41s                default-scheduler  Successfully assigned default/operator-57c9f5c84-qzjh7 to minikube\n  Normal   Created    41s                kubelet            Created container trivy-dojo-report-operator\n  Normal   Started    41s                kubelet            Started container trivy-dojo-report-operator\n  Warning  Unhealthy  11s (x3 over 31s)  kubelet            Liveness probe failed: Get \"http://10.244.0.36:8080/healthzzzzz\": dial tcp 10.244.0.36:8080: connect: connection refused\n  Normal   Killing    11s                kubelet            Container trivy-dojo-report-operator failed liveness probe, will be restarted\n```\n",
            "Container trivy-dojo-report-operator fails its liveness probe",
        ),
        (
            "Events:\n  Type     Reason     Age                From               Message\n  ----     ------     ----               ----               -------\n  Normal   Scheduled  100s               default-scheduler  Successfully assigned default/arango-deployment-operator-65f969fc84-jctgl to olelo\n  Normal   Created    36s (x3 over 96s)  kubelet, olelo     Created container\n  Normal   Started    36s (x3 over 96s)  kubelet, olelo     Started container\n  Normal   Killing    36s (x2 over 66s)  kubelet, olelo     Killing container with id docker://operator:Container failed liveness probe.. Container will be killed and recreated.\n  Warning  Unhealthy  17s (x8 over 87s)  kubelet, olelo     Liveness probe failed: Get https://192.0.0.8:8528/health: dial tcp 192.0.0.8:8528: connect: connection refused\n  Warning  Unhealthy  12s (x6 over 82s)  kubelet, olelo     Readiness probe failed: Get https://192.0.0.8:8528/ready/deployment: dial tcp 192.0.0.8:8528: connect: connection refused\n",
            "fails its liveness probe",
        ),
    ] {
        let said = told(&desk, paste);
        let joined = crate::one_line(&said);
        assert!(said.contains("KF803"), "{said}");
        assert!(joined.contains(words), "{words}: {said}");
    }
    // One failure is none, and one of long ago is over.
    for row in ["11s", "9m (x3 over 10m)"] {
        let paste = format!(
            "  Normal   Started    41m                kubelet            Started container web\n  Warning  Unhealthy  {row}  kubelet            Liveness probe failed: connection refused\n"
        );
        let said = told(&desk, &paste);
        assert!(!said.contains("KF803"), "{said}");
    }
}

/// Skaffold 6011: a remark of who pasted it is no part of the message before it.
#[test]
fn a_remark_in_brackets_ends_a_message() {
    let desk = Desk::new();
    let paste = "```\n    - pod/leeroy-web-99d978f66-9dr2j: 0/3 nodes are available: 1 Insufficient memory, 2 Insufficient cpu.\n[large pause]\n - deployment/leeroy-app is ready.\n```\n";
    let said = told(&desk, paste);
    assert!(!said.contains("pause") && !said.contains("KF226"), "{said}");
    assert!(said.contains("KF201"), "{said}");
}

/// AKS 491: rows of pods do not hide that their node is not ready.
#[test]
fn a_node_that_is_not_ready_is_named_beside_pods() {
    let desk = Desk::new();
    let paste = "$ kubectl get nodes\nNAME                       STATUS     ROLES     AGE       VERSION\naks-nodepool1-79365606-0   NotReady   agent     4d        v1.9.6\n$ kubectl get pods\nNAME                                                     READY     STATUS      RESTARTS   AGE\nalertmanager-kube-prometheus-0                           2/2       Running     0          4d\n";
    let said = told(&desk, paste);
    let words = "how node aks-nodepool1-79365606-0 is (NotReady when it was last seen)";
    assert!(said.contains(words), "{said}");
}

/// Longhorn 7313, Kube-OVN 218, containerd 6009, sig-windows-tools 76, Volcano 519.
#[test]
fn what_plugins_and_drivers_say_is_known() {
    let desk = Desk::new();
    let sandbox = "Warning  FailedCreatePodSandBox  9s  kubelet, n1  Failed to create pod sandbox: rpc error: code = Unknown desc = failed to set up sandbox container \"52ff\" network for pod \"web-0\": networkPlugin cni failed to set up pod \"web-0_shop\" network: ";
    for (row, code) in [
        (
            "Warning  FailedAttachVolume  75s  attachdetach-controller  AttachVolume.Attach failed for volume \"pvc-b9\" : rpc error: code = Internal desc = volume pvc-b9 failed to attach to node node03 with attachmentID csi-a7: the volume is currently attached to different node node04".to_owned(),
            "KF405",
        ),
        (
            format!("{sandbox}request ip return 500 no available ip for pod shop/web-0"),
            "KF502",
        ),
        (
            format!("{sandbox}open /run/flannel/subnet.env: no such file or directory"),
            "KF518",
        ),
        (
            format!("{sandbox}open /run/flannel/subnet.env: The system cannot find the path specified."),
            "KF518",
        ),
        (
            "Warning  FailedScheduling  66s  volcano  10/30 tasks in gang unschedulable: job is not ready, 10 minAvailable, 30 Pending.".to_owned(),
            "KF109",
        ),
    ] {
        let said = told(&desk, &format!("  {row}\n"));
        let first = said.lines().next().unwrap_or_default();
        assert!(first.contains(code), "{code}: {said}");
    }
}

/// containerd 11901: the runtime knows the sandbox by its id.
#[test]
fn lines_that_name_no_pod_are_of_one_without_a_name() {
    let desk = Desk::new();
    let of_runtime = "May 27 10:43:31 criu-kubernetes containerd[33067]: time=\"2025-05-27T10:43:31.345127374Z\" level=error msg=\"CreateContainer within sandbox \\\"ce2ac6f03fc3b599a8293d5530cb4ed34fe0e33889c16fb6aa2d818cf5fcb75b\\\" for &ContainerMetadata{Name:looper,Attempt:0,} failed\" error=\"rpc error: code = Unknown desc = failed to pull checkpoint base image registry.gitlab.com//glooper: failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://gitlab.com/jwt/auth: 403 Forbidden\"\n";
    let said = told(&desk, of_runtime);
    assert!(said.starts_with("NAMESPACE/POD"), "{said}");
    assert!(said.contains("looper"), "{said}");
    // A line of a kubelet that tells of its node is of no pod.
    let of_node = "Oct 23 23:02:25 k8s-controller-01 kubelet[2199]: E1023 23:02:25.001623    2199 kubelet_node_status.go:92] \"Unable to register node with API server\" err=\"Post \\\"https://10.0.0.1:6443/api/v1/nodes\\\": dial tcp 10.0.0.1:6443: connect: connection refused\" node=\"controller\"\n";
    let said = told(&desk, of_node);
    assert!(!said.contains("POD"), "{said}");
}

/// Koordinator 2389: the scheduler's log alone.
#[test]
fn the_log_of_a_scheduler_tells_why_no_node_fits() {
    let desk = Desk::new();
    let paste = "```sh\nI0401 18:01:19.066381 1 schedule_one.go:93] \"Attempting to schedule pod\" pod=\"quota/pod-a\"\nI0401 18:01:19.067314 1 schedule_one.go:988] \"Unable to schedule pod; no fit; waiting\" pod=\"quota/pod-a\" err=\"0/xx nodes are available: Insufficient quotas [[nvidia.com/gpu]], quotaName: quota, runtime: cpu:xx,memory:xx,nvidia.com/gpu:xx, used: cpu:xx,memory:xx,nvidia.com/gpu:xx, pod's request: cpu:2,memory:xx,nvidia.com/gpu:1, exceedDimensions: [nvidia.com/gpu]. preemption: not eligible due to preemptionPolicy=Never..\"\n```\n";
    let said = told(&desk, paste);
    assert!(said.starts_with("quota/pod-a"), "{said}");
    assert!(said.contains("KF232"), "{said}");
}
