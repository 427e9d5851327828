//! Nodes by the rows of their conditions, or by what the rows of their pods say. The lines are of public reports, whose addresses are
//! in `fixtures/reports.tsv`.

use super::{Desk, run, text};

fn told(desk: &Desk, paste: &str) -> String {
    let file = desk.file("ticket.txt", paste);
    let out = desk.path("ticket.kflow");
    std::fs::remove_file(&out).ok();
    let o = run(&["import", &file, "-O", &out]);
    assert!(o.status.success(), "{paste}\n{}", text(&o.stderr));
    let o = run(&["why", "--all", "-s", &out]);
    format!("{}{}", text(&o.stdout), text(&o.stderr))
}

#[test]
fn a_node_is_told_by_the_rows_of_its_conditions() {
    let desk = Desk::new();
    let head = "  Type             Status  LastHeartbeatTime                 LastTransitionTime                Reason                       Message\n  ----             ------  -----------------                 ------------------                ------                       -------\n";
    let well = "  MemoryPressure   False   Mon, 03 Jun 2019 13:54:18 +0000   Wed, 20 Mar 2019 22:00:39 +0000   KubeletHasSufficientMemory   kubelet has sufficient memory available\n";
    for (row, code) in [
        (
            "  Ready            False   Mon, 03 Jun 2019 13:54:18 +0000   Sun, 02 Jun 2019 21:39:37 +0000   KubeletNotReady              PLEG is not healthy: pleg was last seen active 16h17m50.791825508s ago; threshold is 3m0s\n",
            "KF302",
        ),
        (
            "  Ready            Unknown Mon, 03 Jun 2019 13:54:18 +0000   Sun, 02 Jun 2019 21:39:37 +0000   NodeStatusUnknown            Kubelet stopped posting node status.\n",
            "KF301",
        ),
        (
            "  MemoryPressure \tTrue \tWed, 13 Sep 2017 12:54:10 +0800 \tWed, 13 Sep 2017 11:54:03 +0800 \tKubeletHasInsufficientMemory \tkubelet has insufficient memory available\n",
            "KF318",
        ),
        (
            "  DiskPressure     True    Mon, 03 Jun 2019 13:54:18 +0000   Sun, 02 Jun 2019 21:39:37 +0000   KubeletHasDiskPressure       kubelet has disk pressure\n",
            "KF318",
        ),
    ] {
        for (paste, node) in [
            (
                format!(
                    "$ kubectl describe nodes\n[...]\nName:               etkhub\nRoles:              master\n{head}{well}{row}"
                ),
                "node/etkhub",
            ),
            (
                format!("$ kubectl describe node etkhub\n{head}{well}{row}"),
                "node/etkhub",
            ),
            (
                format!("It shows:\n```\n{}```\nand more\n", row.trim_start()),
                "node/NODE",
            ),
            (format!("Conditions:\n{head}{row}"), "node/NODE"),
        ] {
            let said = told(&desk, &paste);
            assert!(said.starts_with(node), "{paste}\n{said}");
            assert!(said.contains(code), "{code}: {paste}\n{said}");
        }
    }
    let said = told(&desk, &format!("{head}{well}"));
    assert!(!said.contains("KF"), "{said}");
    // A node that reports was described at its newest report.
    let said = told(
        &desk,
        &format!(
            "Name:   etkhub\nRoles:  master\n{head}  Ready            False   Mon, 03 Jun 2019 13:54:18 +0000   Sun, 02 Jun 2019 21:39:37 +0000   KubeletNotReady              PLEG is not healthy: x\n"
        ),
    );
    assert!(said.contains("16h"), "{said}");
}

/// Kubernetes 77981, the condition `Ready` is behind the cut; the taint's name of 1.6 is of 42733.
#[test]
fn a_node_is_told_by_its_taint_where_its_description_is_cut() {
    let desk = Desk::new();
    let cut = "[root@k8s-master ~]# kubectl describe node k8s-worker2\nName:               k8s-worker2\nRoles:              <none>\nCreationTimestamp:  Tue, 14 May 2019 15:26:39 -0400\nTaints:             node.kubernetes.io/unreachable:NoSchedule\nUnschedulable:      false\n";
    let conditions = "Conditions:\n  Type             Status    LastHeartbeatTime                 LastTransitionTime                Reason              Message\n  ----             ------    -----------------                 ------------------                ------              -------\n  MemoryPressure   Unknown   Thu, 16 May 2019 11:20:20 -0400   Thu, 16 May 2019 11:21:41 -0400   NodeStatusUnknown   Kubelet stopped posting node status.\n";
    let old = cut.replace(
        "node.kubernetes.io/unreachable:NoSchedule",
        "node.alpha.kubernetes.io/unreachable:NoExecute",
    );
    for (paste, node, words) in [
        (
            format!("{cut}{conditions}"),
            "node/k8s-worker2",
            "NodeStatusUnknown: Kubelet stopped posting node status",
        ),
        (cut.to_owned(), "node/k8s-worker2", "is not Ready"),
        (old, "node/k8s-worker2", "is not Ready"),
    ] {
        let said = told(&desk, &paste);
        assert!(said.starts_with(node), "{paste}\n{said}");
        assert!(said.contains("KF301"), "{paste}\n{said}");
        let joined = crate::one_line(&said);
        assert!(joined.contains(words), "{words}: {paste}\n{said}");
    }
    // Other taints say nothing of it, nor does this one beside the condition.
    for paste in [
        cut.replace("unreachable", "disk-pressure"),
        format!("{cut}{conditions}")
            .replace("MemoryPressure   Unknown", "Ready            True   "),
    ] {
        let said = told(&desk, &paste);
        assert!(!said.contains("KF301"), "{paste}\n{said}");
    }
}

/// Kubernetes 101674.
#[test]
fn all_nodes_of_a_table_that_are_not_ready_are_named() {
    let desk = Desk::new();
    let paste = "NAME                STATUS     ROLES                  AGE   VERSION\nk8s-caas-infra01    NotReady   infra                  72d   v1.20.6\nk8s-caas-master01   Ready      control-plane,master   72d   v1.20.6\nk8s-caas-worker01   NotReady   worker                 72d   v1.20.6\n";
    let said = told(&desk, paste);
    assert!(
        said.contains("nodes k8s-caas-infra01 and k8s-caas-worker01 are (NotReady"),
        "{said}"
    );
    let said = told(
        &desk,
        &paste.replace("worker01   NotReady", "worker01   Ready   "),
    );
    assert!(
        said.contains("node k8s-caas-infra01 is (NotReady"),
        "{said}"
    );
}

/// kubectl prints `Unknown` for a deleted pod whose node does not report.
#[test]
fn a_pod_that_is_unknown_is_on_a_node_that_does_not_report() {
    let desk = Desk::new();
    let paste = "NAME         STATUS     AGE       VERSION\n10.6.0.187   Ready      10d       v1.7.2\n10.6.0.188   NotReady   10d       v1.7.2\n\nNAME                        READY     STATUS    RESTARTS   AGE       IP              NODE\nnginx-dm-2214564181-0gz59   1/1       Running   0          20m       10.233.182.91   10.6.0.187\nnginx-dm-2214564181-677db   1/1       Unknown   1          1h        10.233.109.89   10.6.0.188\n";
    let said = told(&desk, paste);
    assert!(
        said.contains("KF902") && said.contains("nginx-dm-2214564181-677db"),
        "{said}"
    );
    assert!(
        said.contains("10.6.0.188") && !said.contains("0gz59"),
        "{said}"
    );
}

/// pkg/kubelet/eviction/eviction_manager.go, `Admit`: before 1.20, and 1.36.
#[test]
fn a_kubelet_that_refuses_a_pod_under_pressure_logs_it() {
    let desk = Desk::new();
    for line in [
        "W0120 00:20:07.544864   32406 eviction_manager.go:142] Failed to admit pod kube-proxy-bbrr6_kube-system(860629c4-fd5e-11e7-880c-6c626d3ed96f) - node has conditions: [MemoryPressure]",
        "I0120 00:20:07.544864   32406 eviction_manager.go:170] \"Failed to admit pod to node\" pod=\"kube-system/kube-proxy-bbrr6\" nodeCondition=[\"MemoryPressure\"]",
    ] {
        let paste = format!(
            "**What happened**:\n```\nJan 20 00:20:07 o1.home kubelet[32406]: {line}\n```\n"
        );
        let said = told(&desk, &paste);
        assert!(said.contains("KF308"), "{line}\n{said}");
        assert!(said.contains("kube-system/kube-proxy-bbrr6"), "{said}");
        assert!(said.contains("MemoryPressure"), "{said}");
    }
}

/// The lines are those of kubelets in public reports and in the documentation of EKS and RKE2.
#[test]
fn a_kubelet_that_ends_or_is_not_taken_is_told() {
    let desk = Desk::new();
    let start = "I1127 13:54:10.000000    4191 server.go:440] \"Kubelet version\" kubeletVersion=\"v1.30.1\"\n";
    for (line, wanted, step) in [
        (
            r#"E1127 13:54:18.123456    4191 run.go:74] "command failed" err="failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false. /proc/swaps contained: [Filename\t\t\t\tType]""#,
            "ends as soon as it is started: failed to run Kubelet: running with swap on is not supported",
            "swapoff -a",
        ),
        (
            r#"E1127 13:54:18.123456    4191 kubelet.go:1444] "Failed to start ContainerManager" err="failed to get rootfs info: failed to get mount point for device \"/dev/nvme0n1p2\": no partition info found for device \"/dev/nvme0n1p2\"""#,
            "failed to get mount point for device",
            "systemctl status kubelet",
        ),
        (
            r#"F1127 13:54:18.123456    4191 server.go:233] failed to run Kubelet: could not init cloud provider "aws": error finding instance i-0123456789: "error listing AWS instances: RequestError: send request failed""#,
            "error listing AWS instances",
            "systemctl status kubelet",
        ),
        (
            r#"E1127 13:54:18.123456    4191 kubelet_node_status.go:96] "Unable to register node with API server" err="Unauthorized" node="ip-10-0-2-142.ec2.internal""#,
            "cannot register its node with the apiserver: Unauthorized",
            "aws-auth",
        ),
        (
            r#"E1127 13:54:18.123456    4191 kubelet_node_status.go:96] "Unable to register node with API server" err="nodes \"node-2\" is forbidden: node \"node-1\" is not allowed to modify node \"node-2\"" node="node-2""#,
            "cannot register its node with the apiserver: nodes \"node-2\" is forbidden",
            "hostname; openssl",
        ),
        (
            r#"E1127 13:54:18.123456    4191 run.go:74] "command failed" err="failed to run Kubelet: unable to load bootstrap kubeconfig: stat /etc/kubernetes/bootstrap-kubelet.conf: no such file or directory""#,
            "unable to load bootstrap kubeconfig",
            "with kubeadm by init or join",
        ),
        (
            r#"E1127 13:54:18.123456    4191 run.go:74] "command failed" err="failed to load kubelet config file, path: /var/lib/kubelet/config.yaml, error: failed to load Kubelet config file /var/lib/kubelet/config.yaml, error failed to read kubelet config file \"/var/lib/kubelet/config.yaml\", error: open /var/lib/kubelet/config.yaml: no such file or directory""#,
            "failed to load kubelet config file",
            "with kubeadm by init or join",
        ),
        (
            r#"F1127 13:54:18.123456    4191 server.go:274] failed to run Kubelet: misconfiguration: kubelet cgroup driver: "systemd" is different from docker cgroup driver: "cgroupfs""#,
            "is different from docker cgroup driver",
            "docker info",
        ),
        // 1.21 to 1.23.
        (
            r#"E1127 13:54:18.123456    4191 server.go:294] "Failed to run kubelet" err="failed to run Kubelet: the total amount \"16548Mi\" of type \"memory\" is not equal to the value \"16484Mi\" determined by Node Allocatable feature""#,
            "ends as soon as it is started: failed to run Kubelet: the total amount",
            "systemctl status kubelet",
        ),
        (
            r#"E1127 13:54:18.123456    4191 server.go:158] "Failed to parse kubelet flag" err="invalid argument \"plural.sh/sysbox=true:NO_SCHEDULE\" for \"--register-with-taints\" flag: invalid taint effect: NO_SCHEDULE""#,
            "ends as soon as it is started: invalid argument",
            "systemctl status kubelet",
        ),
        (
            r#"E1127 13:54:18.123456    4191 server.go:205] "Failed to load kubelet config file" err="failed to load Kubelet config file /var/lib/kubelet/config.yaml, error failed to read kubelet config file \"/var/lib/kubelet/config.yaml\", error: open /var/lib/kubelet/config.yaml: no such file or directory" path="/var/lib/kubelet/config.yaml""#,
            "ends as soon as it is started: failed to load Kubelet config file",
            "with kubeadm by init or join",
        ),
        (
            r#"E1127 13:54:18.123456    4191 kubelet.go:1632] "Failed to start cAdvisor" err="inotify_init: too many open files""#,
            "ends as soon as it is started: inotify_init: too many open files",
            "fs.inotify.max_user_instances",
        ),
        // Before, each is a line of klog.Fatal.
        (
            r#"F1127 13:54:18.123456    4191 server.go:190] failed to load Kubelet config file /var/lib/kubelet/config.yaml, error failed to read kubelet config file "/var/lib/kubelet/config.yaml", error: open /var/lib/kubelet/config.yaml: no such file or directory"#,
            "ends as soon as it is started: failed to load Kubelet config file",
            "with kubeadm by init or join",
        ),
        (
            "F1127 13:54:18.123456    4191 server.go:269] failed to run Kubelet: inotify_init: too many open files",
            "ends as soon as it is started: inotify_init: too many open files",
            "fs.inotify.max_user_instances",
        ),
    ] {
        for before in ["", start] {
            let file = desk.file("kubelet.log", format!("{before}{line}\n"));
            let o = run(&["why", "--all", "-s", &file]);
            let said = format!("{}{}", text(&o.stdout), text(&o.stderr));
            let words = crate::one_line(&said);
            let named = line.rsplit_once(" node=\"");
            let node = named.map_or_else(String::new, |(_, n)| {
                format!("/{}", n.trim_end_matches('"'))
            });
            let head = format!("node{node} stuck in admit, likely KF301");
            assert!(words.starts_with(&head), "{line}\n{said}");
            assert!(words.contains(wanted), "{line}\n{said}");
            assert!(words.contains(step), "{line}\n{said}");
        }
    }
    // One that has come up since.
    let up = "I1127 13:54:19.000000    4191 kubelet_node_status.go:79] \"Successfully registered node\" node=\"n1\"\n";
    let failed = r#"E1127 13:54:18.123456    4191 kubelet_node_status.go:96] "Unable to register node with API server" err="Unauthorized" node="n1""#;
    let file = desk.file("kubelet.log", format!("{start}{failed}\n{up}"));
    let o = run(&["why", "--all", "-s", &file]);
    assert!(!text(&o.stdout).contains("KF"), "{}", text(&o.stdout));
}

/// What systemd says of the kubelet's unit, in reports where the kubelet itself said nothing (kubernetes/minikube 5690 and 6166,
/// easzlab/kubeasz 319, of systemd before and after 235).
#[test]
fn a_kubelet_of_which_systemd_alone_says_that_it_ended_is_told() {
    let desk = Desk::new();
    let status = "● kubelet.service - Kubernetes Kubelet\n   Loaded: loaded (/etc/systemd/system/kubelet.service; enabled; vendor preset: disabled)\n   Active: activating (auto-restart) (Result: exit-code) since Mon 2018-09-10 17:13:17 CST; 2s ago\n Main PID: 19247 (code=exited, status=255)\n\n";
    for (lines, wanted, step) in [
        (
            "Oct 22 05:17:19 localhost.localdomain systemd[1]: Started kubelet: The Kubernetes Node Agent.\nOct 22 05:17:19 localhost.localdomain systemd[1]: kubelet.service: Main process exited, code=exited, status=203/EXEC\nOct 22 05:17:19 localhost.localdomain systemd[1]: kubelet.service: Failed with result 'exit-code'.\nOct 22 05:17:19 localhost.localdomain systemd[1]: kubelet.service: Service RestartSec=600ms expired, scheduling restart.\nOct 22 05:17:19 localhost.localdomain systemd[1]: kubelet.service: Scheduled restart job, restart counter is at 558.\n".to_owned(),
            "has ended: code=exited, status=203/EXEC",
            "systemctl cat kubelet",
        ),
        (
            "Dec 27 10:55:24 localhost.localdomain systemd[1]: Started kubelet: The Kubernetes Node Agent.\nDec 27 10:55:24 localhost.localdomain systemd[1]: kubelet.service: main process exited, code=exited, status=255/n/a\nDec 27 10:55:24 localhost.localdomain systemd[1]: Unit kubelet.service entered failed state.\nDec 27 10:55:24 localhost.localdomain systemd[1]: kubelet.service failed.\n".to_owned(),
            "has ended: code=exited, status=255/n/a",
            "journalctl -u kubelet -n 50",
        ),
        (
            format!("{status}Sep 10 17:13:17 master systemd[1]: kubelet.service: main process exited, code=exited, status=255/n/a\nSep 10 17:13:17 master systemd[1]: Unit kubelet.service entered failed state.\nSep 10 17:13:17 master systemd[1]: kubelet.service failed.\n"),
            "has ended: code=exited, status=255/n/a",
            "journalctl -u kubelet -n 50",
        ),
    ] {
        for lines in [lines.clone(), format!("# systemctl status kubelet\n{lines}")] {
            let said = told(&desk, &lines);
            let words = crate::one_line(&said);
            assert!(words.contains("stuck in admit, likely KF301"), "{lines}\n{said}");
            assert!(words.contains(wanted), "{lines}\n{said}");
            assert!(words.contains(step), "{lines}\n{said}");
        }
    }
    // What the kubelet itself said counts for more; a unit that was stopped has not failed.
    let failed = "Mar 31 05:03:28 k8s-1 kubelet[68720]: E0331 05:03:28.171634   68720 run.go:72] \"command failed\" err=\"failed to run Kubelet: inotify_init: too many open files\"\nMar 31 05:03:28 k8s-1 systemd[1]: kubelet.service: main process exited, code=exited, status=1/FAILURE\n";
    let said = crate::one_line(&told(&desk, failed));
    assert!(said.contains("inotify_init: too many open files"), "{said}");
    let stopped = "Mar 31 05:03:28 k8s-1 systemd[1]: kubelet.service: Main process exited, code=killed, status=15/TERM\n";
    assert!(!told(&desk, stopped).contains("KF301"));
}

/// The kubelet's certificate is looked at before the file that it would join with.
#[test]
fn a_certificate_that_has_expired_is_why_a_kubelet_would_join_again() {
    let desk = Desk::new();
    let said = told(
        &desk,
        "Jan 25 15:49:46 cp kubelet[963737]: E0125 15:49:46.694476  963737 bootstrap.go:265] part of the existing bootstrap client certificate in /etc/kubernetes/kubelet.conf is expired: 2023-11-15 15:14:17 +0000 UTC\nJan 25 15:49:46 cp kubelet[963737]: E0125 15:49:46.694534  963737 run.go:74] \"command failed\" err=\"failed to run Kubelet: unable to load bootstrap kubeconfig: stat /etc/kubernetes/bootstrap-kubelet.conf: no such file or directory\"\n",
    );
    assert!(said.contains("KF301"), "{said}");
    assert!(
        said.contains("client certificate has expired") && said.contains("openssl x509"),
        "{said}"
    );
    assert!(!said.contains("by init or join"), "{said}");
}

/// What k3s logs itself, from 1.17 to now.
#[test]
fn an_agent_of_k3s_that_the_server_does_not_take_is_told() {
    let desk = Desk::new();
    for said_so in [
        "level=error msg=\"Node password rejected, duplicate hostname or contents of '/etc/rancher/node/password' may not match server node-passwd entry, try enabling a unique node name with the --with-node-id flag\"",
        "level=error msg=\"Failed to retrieve agent config: Node password rejected, duplicate hostname or contents of '/etc/rancher/node/password' may not match server node-passwd entry, try enabling a unique node name with the --with-node-id flag\"",
        "level=info msg=\"Waiting to retrieve agent configuration; server is not ready: Node password rejected, duplicate hostname or contents of '/etc/rancher/node/password' may not match server node-passwd entry, try enabling a unique node name with the --with-node-id flag\"",
    ] {
        let said = told(
            &desk,
            &format!(
                "Jan 16 08:04:10 agent1 k3s[1561]: time=\"2020-01-16T08:04:10.073863274Z\" level=info msg=\"Starting k3s agent v1.17.0+k3s.1 (0f644650)\"\nJan 16 08:04:11 agent1 k3s[1561]: time=\"2020-01-16T08:04:11.984848590Z\" {said_so}\n"
            ),
        );
        let words = crate::one_line(&said);
        assert!(words.contains("KF301"), "{said_so}\n{said}");
        assert!(
            words.contains("cannot register its node with the apiserver: Node password rejected"),
            "{said}"
        );
        assert!(words.contains("grep node-password"), "{said}");
    }
}

#[test]
fn a_runtime_that_ends_by_an_error_of_its_own_is_told() {
    let desk = Desk::new();
    for (lines, wanted) in [
        (
            "Oct 20 05:25:01 n1 crio[2899]: time=\"2019-10-20 05:25:01.955432575Z\" level=fatal msg=\"library config validation: runtime config: invalid conmon path: stat /usr/libexec/crio/conmon: no such file or directory\"\nOct 20 05:25:01 n1 systemd[1]: crio.service: Main process exited, code=exited, status=1/FAILURE\n",
            "invalid conmon path: stat /usr/libexec/crio/conmon",
        ),
        (
            "Jul 23 11:20:11 n1 containerd[9186]: time=\"2020-07-23T11:20:11.482404139+08:00\" level=info msg=\"containerd successfully booted in 0.003611s\"\nJul 23 11:20:11 n1 containerd[9186]: panic: runtime error: invalid memory address or nil pointer dereference\nJul 23 11:20:11 n1 containerd[9186]: [signal SIGSEGV: segmentation violation code=0x1 addr=0x8 pc=0x5626b983c259]\nJul 23 11:20:11 n1 containerd[9186]: goroutine 55 [running]:\nJul 23 11:20:11 n1 systemd[1]: containerd.service: Main process exited, code=exited, status=2/INVALIDARGUMENT\n",
            "panic: runtime error: invalid memory address",
        ),
        (
            "2020-07-23T11:20:11.482404+0800 n1 containerd[9186]: containerd: failed to load TOML: /etc/containerd/config.toml: (1, 2): unexpected token\n2020-07-23T11:20:11.490404+0800 n1 containerd[9190]: time=\"2020-07-23T11:20:11.489404139+08:00\" level=warning msg=\"x\"\n",
            "failed to load TOML: /etc/containerd/config.toml",
        ),
    ] {
        let said = told(&desk, lines);
        let words = crate::one_line(&said);
        assert!(words.contains("KF515"), "{lines}\n{said}");
        assert!(words.contains(wanted), "{lines}\n{said}");
    }
    // One that its supervisor has started again, and that works.
    let said = told(
        &desk,
        "Jul 23 11:20:11 n1 containerd[9186]: time=\"2020-07-23T11:20:11.482404139+08:00\" level=fatal msg=\"x\"\nJul 23 11:20:51 n1 containerd[9199]: time=\"2020-07-23T11:20:51.482404139+08:00\" level=warning msg=\"cleaning up after shim disconnected\"\n",
    );
    assert!(!said.contains("KF515"), "{said}");
}

/// Events alone: those of a container that runs, after a volume that could not be mounted again; and one of the kernel's.
#[test]
fn a_pod_whose_container_was_probed_does_not_wait_for_a_volume() {
    let desk = Desk::new();
    let head = "LAST SEEN   TYPE      REASON        OBJECT              MESSAGE\n";
    let mount = "10s         Warning   FailedMount   pod/crashloop-pod   MountVolume.SetUp failed for volume \"config-vol\" : configmap \"app-config\" not found\n";
    let said = told(&desk, &format!("{head}{mount}"));
    assert!(said.contains("KF402"), "{said}");
    let said = told(
        &desk,
        &format!(
            "{head}90s         Warning   BackOff       pod/crashloop-pod   Back-off restarting failed container app in pod crashloop-pod\n2m          Warning   Unhealthy     pod/crashloop-pod   Liveness probe failed: HTTP probe failed with statuscode: 503\n{mount}"
        ),
    );
    assert!(said.contains("KF803") && !said.contains("KF402"), "{said}");
    let said = told(
        &desk,
        &format!(
            "{head}10s         Warning   OOMKilling    pod/oom-pod         Memory cgroup out of memory: Killed process 12345 (java) total-vm:524288kB, anon-rss:262144kB\n"
        ),
    );
    assert!(said.contains("KF709"), "{said}");
}

/// pkg/kubelet/kuberuntime/kuberuntime_manager.go, `podSandboxChanged`; pkg/kubelet/dockershim/docker_sandbox.go, `getIP`: 1.15.
#[test]
fn a_sandbox_whose_address_cannot_be_read_is_told() {
    let desk = Desk::new();
    let unread = "Jul 12 17:13:31 n1 kubelet[761]: W0712 17:13:31.398508     761 docker_sandbox.go:384] failed to read pod IP from plugin/docker: NetworkPlugin cni failed on the status hook for pod \"zookeeper-1_default\": Unexpected command output nsenter: failed to execute ip: No such file or directory\nJul 12 17:13:31 n1 kubelet[761]: with error: exit status 1\n";
    let anew = |second: u32| {
        format!(
            "Jul 12 17:13:{second} n1 kubelet[761]: I0712 17:13:{second}.419167     761 kuberuntime_manager.go:434] Sandbox for pod \"zookeeper-1_default(9ede2a23-52bf-8cd0-cf86-767166391721)\" has no IP address.  Need to start a new one\n"
        )
    };
    let said = told(&desk, &format!("{}{}{}", anew(31), anew(34), anew(37)));
    assert!(
        said.contains("default/zookeeper-1") && said.contains("KF513"),
        "{said}"
    );
    assert!(said.contains("it has no IP address"), "{said}");
    let said = told(&desk, &format!("{}{unread}", anew(31)));
    assert!(
        said.contains("default/zookeeper-1") && said.contains("KF501"),
        "{said}"
    );
    assert!(said.contains("command -v ip"), "{said}");
}

/// Of a bundle that a tool wrote: the kubelet gives no message beside this reason.
#[test]
fn the_message_of_a_container_that_is_being_made_is_read() {
    let desk = Desk::new();
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"db-pod","namespace":"default","creationTimestamp":"2024-01-10T08:00:00Z"},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}],"containerStatuses":[{"name":"postgres","restartCount":0,"state":{"waiting":{"reason":"ContainerCreating","message":"MountVolume.SetUp failed for volume \"data-vol\" : configmap \"db-config\" not found"}},"lastState":{}}]}}"#;
    let file = desk.file("pod.json", pod);
    let o = run(&["why", "--all", "-s", &file]);
    let said = format!("{}{}", text(&o.stdout), text(&o.stderr));
    assert!(
        said.contains("default/db-pod") && said.contains("KF402"),
        "{said}"
    );
}

/// pkg/kubelet/eviction/eviction_manager.go, `synchronize`; pkg/kubelet/kubelet.go, `StartGarbageCollection`: 1.17, and 1.36.
#[test]
fn a_node_that_is_low_on_disk_is_told_by_its_log_or_its_events_alone() {
    let desk = Desk::new();
    for (paste, wanted) in [
        (
            "Dec 25 21:16:28 office k3s[794]: W1225 13:16:28.214032     794 eviction_manager.go:344] eviction manager: attempting to reclaim ephemeral-storage\n",
            "low on ephemeral-storage",
        ),
        (
            "Dec 25 21:21:55 office k3s[794]: E1225 13:21:55.025140     794 kubelet.go:1292] Image garbage collection failed multiple times in a row: failed to garbage collect required amount of images. Wanted to free 1825361100 bytes, but freed 0 bytes\n",
            "Wanted to free 1825361100 bytes",
        ),
        (
            "E1225 13:21:55.025140     794 kubelet.go:1542] \"Image garbage collection failed multiple times in a row\" err=\"Failed to garbage collect required amount of images. Attempted to free 1825361100 bytes, but only found 0 bytes eligible to free.\"\n",
            "only found 0 bytes eligible to free",
        ),
        (
            "$ kubectl describe node 10.0.112.135\nEvents:\n  Type     Reason                   Age                      From                   Message\n  ----     ------                   ----                     ----                   -------\n  Normal   NodeHasNoDiskPressure    37s (x2 over 37s)        kubelet, 10.0.112.135  Node 10.0.112.135 status is now: NodeHasNoDiskPressure\n  Normal   NodeHasDiskPressure      27s                      kubelet, 10.0.112.135  Node 10.0.112.135 status is now: NodeHasDiskPressure\n  Warning  EvictionThresholdMet     7s (x4 over 37s)         kubelet, 10.0.112.135  Attempting to reclaim ephemeral-storage\n",
            "low on disk space",
        ),
        (
            "LAST SEEN   TYPE      REASON                 OBJECT              MESSAGE\n2m          Warning   EvictionThresholdMet   node/10.0.112.135   Attempting to reclaim ephemeral-storage\n",
            "low on ephemeral-storage",
        ),
        (
            "LAST SEEN   TYPE      REASON                OBJECT              MESSAGE\n2m          Warning   FreeDiskSpaceFailed   node/10.0.112.135   Failed to garbage collect required amount of images. Attempted to free 1825361100 bytes, but only found 0 bytes eligible to free.\n",
            "only found 0 bytes eligible to free",
        ),
    ] {
        let said = told(&desk, paste);
        let words = crate::one_line(&said);
        assert!(words.contains("KF318"), "{paste}\n{said}");
        assert!(words.contains(wanted), "{paste}\n{said}");
    }
    let over = "LAST SEEN   TYPE     REASON                  OBJECT              MESSAGE\n2m          Normal   NodeHasDiskPressure     node/10.0.112.135   Node 10.0.112.135 status is now: NodeHasDiskPressure\n1m          Normal   NodeHasNoDiskPressure   node/10.0.112.135   Node 10.0.112.135 status is now: NodeHasNoDiskPressure\n";
    let said = told(&desk, over);
    assert!(!said.contains("KF318"), "{said}");
}

#[test]
fn a_node_that_is_not_ready_is_told_without_a_pod() {
    let desk = Desk::new();
    let rows = "NAME   STATUS                     ROLES    AGE   VERSION\nn1     Ready,SchedulingDisabled   <none>   10d   v1.30.1\n";
    let said = told(&desk, rows);
    assert!(!said.contains("KF"), "{said}");
    let said = told(
        &desk,
        &format!("{rows}n2     NotReady                   <none>   10d   v1.30.1\n"),
    );
    assert!(said.contains("unknown how node n2 is (NotReady"), "{said}");
    assert!(said.contains("kubectl describe node n2"), "{said}");
    let described = |message: &str, since: &str| {
        let desk = Desk::new();
        told(
            &desk,
            &format!(
                "Name:               n1\nRoles:              <none>\nConditions:\n  Type   Status  LastHeartbeatTime                 LastTransitionTime                Reason            Message\n  ----   ------  -----------------                 ------------------                ------            -------\n  Ready  False   Fri, 27 Nov 2026 13:54:18 +0000   Fri, 27 Nov 2026 {since} +0000   KubeletNotReady   {message}\n"
            ),
        )
    };
    let network = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized";
    let said = described(network, "12:39:37");
    assert!(
        said.contains("KF310") && said.contains("cni plugin not initialized"),
        "{said}"
    );
    assert!(!said.contains("unknown how node"), "{said}");
    let said = described("node is shutting down", "12:39:37");
    assert!(
        said.contains("KF301")
            && said.contains("says that the node is not ready: node is shutting"),
        "{said}"
    );
    // One that has come a moment ago becomes ready yet.
    let said = described(network, "13:53:50");
    assert!(!said.contains("KF"), "{said}");
}

/// What a kubelet repeats of itself while its node is not ready: of its network every five seconds, of its node more often.
#[test]
fn what_a_kubelet_repeats_of_its_node_is_told_of_the_node() {
    let desk = Desk::new();
    let line = |at: &str, message: &str| {
        format!(
            "Sep 15 17:{at} instance kubelet[6443]: E0915 17:{at}.631091    6443 kubelet.go:2448] {message}\n"
        )
    };
    let network = |field: &str| {
        let all = (0..9).map(|n| {
            let at = format!("29:{:02}", 5 * n);
            line(
                &at,
                &format!("\"Container runtime network not ready\" networkReady={field}"),
            )
        });
        all.collect::<String>()
    };
    let whole = network(
        "\"NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized\"",
    );
    let cut = network("\"N>");
    let node = line(
        "29:35",
        "\"Error getting node\" err=\"node \\\"instance\\\" not found\"",
    );
    let unread = "\"Error getting node\" err=\"nodes have not yet been read at least once, cannot construct node object\"";
    let before = line(
        "29:33",
        "\"Successfully registered node\" node=\"instance\"",
    );
    let registered = line(
        "29:46",
        "\"Successfully registered node\" node=\"instance\"",
    );
    let start = line("29:10", "\"Kubelet version\" kubeletVersion=\"v1.30.1\"");
    let later = line(
        "30:20",
        "\"SyncLoop ADD\" source=\"api\" pods=[\"default/other\"]",
    );
    let short = whole.lines().take(3).collect::<Vec<_>>().join("\n");
    for (paste, code, said) in [
        (whole.clone(), "KF310", "cni plugin not initialized"),
        (cut, "KF310", "is not ready"),
        (node.clone(), "KF301", "node \"instance\" not found"),
        // A kubelet that starts, that has registered its node or does not say it any more.
        (short, "", ""),
        (format!("{start}{node}"), "", ""),
        (line("29:35", unread), "", ""),
        (format!("{node}{registered}"), "", ""),
        (format!("{before}{node}"), "", ""),
        (format!("{whole}{later}"), "", ""),
    ] {
        let told = told(&desk, &format!("```\n{paste}```\n"));
        let told = crate::one_line(&told);
        if code.is_empty() {
            assert!(
                !told.contains("KF310") && !told.contains("KF301"),
                "{paste}\n{told}"
            );
        } else {
            assert!(told.starts_with("node"), "{paste}\n{told}");
            assert!(
                told.contains(code) && told.contains(said),
                "{paste}\n{told}"
            );
        }
    }
}

/// Kubernetes 1.10 and 1.11 had no taints for the conditions of nodes (pkg/scheduler/algorithm/predicates/error.go); an identity that the
/// machine does not have (Azure's instance metadata service) is refused, whatever the code of the answer.
#[test]
fn what_an_event_says_of_a_node_is_its_cause() {
    let desk = Desk::new();
    let head = "Events:\n  Type     Reason            Age                From               Message\n  ----     ------            ----               ----               -------\n";
    for (row, code, says) in [
        (
            "  Warning  FailedScheduling  5s (x701 over 3h)  default-scheduler  0/2 nodes are available: 2 node(s) were not ready.\n",
            "KF203",
            "with this condition: not ready",
        ),
        (
            "  Warning  FailedScheduling  5s (x701 over 3h)  default-scheduler  0/2 nodes are available: 2 node(s) were out of disk space.\n",
            "KF203",
            "with this condition: out of disk space",
        ),
        (
            "  Warning  FailedMount       5s (x16 over 18m)  kubelet            MountVolume.SetUp failed for volume \"secrets-store-inline\" : rpc error: code = Unknown desc = failed to mount secrets store objects for pod default/backend, err: rpc error: code = Unknown desc = failed to mount objects, error: failed to get objectType:secret, objectName:db-url, objectVersion:: ManagedIdentityCredential authentication failed. the requested identity isn't assigned to this resource\n",
            "KF418",
            "the requested identity isn't assigned to this resource",
        ),
    ] {
        let said = told(&desk, &format!("{head}{row}"));
        let said = crate::one_line(&said);
        assert!(said.contains(code) && said.contains(says), "{row}\n{said}");
    }
}
