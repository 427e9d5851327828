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
    ] {
        for before in ["", start] {
            let file = desk.file("kubelet.log", format!("{before}{line}\n"));
            let o = run(&["why", "--all", "-s", &file]);
            let said = format!("{}{}", text(&o.stdout), text(&o.stderr));
            let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                words.starts_with("node stuck in admit, likely KF301"),
                "{line}\n{said}"
            );
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
