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
