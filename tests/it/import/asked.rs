//! What people ask most often, in the forms in which it gets into a ticket. The texts are of public reports, whose addresses are in
//! `fixtures/reports.tsv`.

use super::Desk;
use super::fragments::{tells, told};

/// caronc/apprise-api 262: `kubectl get events -o wide`, as chart-testing prints it, without its titles.
#[test]
fn rows_of_a_wide_list_are_read_without_their_titles() {
    let desk = Desk::new();
    let row = "24s         Warning   Unhealthy               pod/apprise-64df64699-q94pm     spec.containers{apprise}   kubelet, chart-testing-control-plane        Readiness probe failed: Get \"http://10.244.0.6:8000/status\": dial tcp 10.244.0.6:8000: connect: connection refused          24s          3       apprise-64df64699-q94pm.186fd5339090f256\n";
    let made = "20s         Warning   FailedCreate            replicaset/web                   replicaset-controller        Error creating: pods \"web-\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2          24s          1       web.186fd5339090f257\n";
    for front in ["", "apprise-ns   "] {
        let line = |row: &str| format!("```log\n{front}{row}```\n");
        let said = tells(
            &desk,
            &line(row),
            "KF801",
            "Container apprise runs, but its readiness probe fails: Get \"http://10.244.0.6:8000/status\": dial tcp 10.244.0.6:8000: connect: connection refused.",
        );
        assert!(!said.contains("186fd5339090f256"), "{said}");
        tells(&desk, &line(made), "KF101", "replicaset/web");
        // It is cut in the message.
        let cut = row.split_once("refused").map_or("", |(front, _)| front);
        tells(&desk, &line(&format!("{cut}\n")), "KF801", "apprise");
    }
}

/// kubernetes/kubernetes 93826: as a page of HTML shows it.
#[test]
fn a_description_that_has_lost_its_indent_is_read() {
    let desk = Desk::new();
    let head = "Name: wordpress-5bbd7fd785-p4s9r\nNamespace: default\nPriority: 0\nNode: nb1/192.168.43.166\nStart Time: Sat, 08 Aug 2020 14:20:27 +0530\nLabels: app=wordpress\npod-template-hash=5bbd7fd785\nStatus: Running\nIP: 192.168.62.234\nControlled By: ReplicaSet/wordpress-5bbd7fd785\nContainers:\nwordpress:\nContainer ID: docker://e5554cdd33621c05341ca5b6bd05c526ad9187e3b5afc7253d06d0c305c53aa9\nImage: wordpress:4.8-apache\nPort: 80/TCP\n";
    let last = "Last State: Terminated\nReason: Error\nExit Code: 1\nStarted: Sun, 09 Aug 2020 12:12:19 +0530\nFinished: Sun, 09 Aug 2020 12:16:06 +0530\n";
    let tail = "Environment:\nWORDPRESS_DB_HOST: wordpress-mysql\nMounts:\n/var/www/html from data (rw)\nConditions:\nType Status\nInitialized True\nPodScheduled True\nVolumes:\ndata:\nType: EmptyDir (a temporary directory)\nQoS Class: BestEffort\n";
    let ready = format!(
        "{head}State: Running\nStarted: Sun, 09 Aug 2020 12:17:29 +0530\n{last}Ready: True\nRestart Count: 19\n{tail}"
    );
    let said = told(
        &desk,
        &format!("**What happened**:\nBack-off restarting failed container\n\n{ready}"),
    );
    assert!(!said.contains("KF") && !said.contains("stuck"), "{said}");
    let waits = format!(
        "{head}State: Waiting\nReason: CrashLoopBackOff\n{last}Ready: False\nRestart Count: 19\n{tail}"
    );
    tells(
        &desk,
        &waits,
        "KF708",
        "Container wordpress ended with exit code 1",
    );
}

/// Azure/AKS 1672: whoever copied it began behind the blanks of the first line.
#[test]
fn the_first_field_of_a_container_may_have_lost_its_blanks() {
    let desk = Desk::new();
    let rest = "          Waiting\n      Reason:       CrashLoopBackOff\n    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    3\n      Started:      Mon, 15 Jun 2020 12:14:36 +0530\n      Finished:     Mon, 15 Jun 2020 12:14:36 +0530\n    Ready:          False\n    Restart Count:  4\n";
    for blanks in ["", " ", "    "] {
        let paste = format!("### Actual Result:\n{blanks}State:{rest}");
        tells(&desk, &paste, "KF708", "exit code 3");
    }
}

/// kubevirt/kubevirt 478, kubernetes/kubernetes 50373: the error of the command has no header.
#[test]
fn a_kubelet_says_why_it_ends_without_a_header() {
    let desk = Desk::new();
    let why = "failed to run Kubelet: Running with swap on is not supported, please disable swap! or set --fail-swap-on fla";
    for paste in [
        format!(
            "`kubelet.service` failed to start with swap enabled\n```\nOct 01 11:15:21 master kubelet[16173]: error: {why}\nOct 01 11:15:21 master systemd[1]: kubelet.service: main process exited, code=exited, status=1/FAILURE\n```\n"
        ),
        format!(
            "It fails with the following error:\n\nI0809 10:01:57.021623   25297 server.go:348] Sending events to api server.\nError: {why}\n"
        ),
        format!("error: {why}\n"),
    ] {
        tells(&desk, &paste, "KF301", "Running with swap on");
    }
}

#[test]
fn a_message_alone_is_enough() {
    let desk = Desk::new();
    for (paste, code, words) in [
        // hetznercloud/csi-driver 306.
        (
            "otherwise pods go into `CreateContainerConfigError` due to `Error:secret \"hcloud-csi\" not found`\n",
            "KF701",
            "secret \"hcloud-csi\" not found",
        ),
        // Draymonders/Code-Life 8.
        (
            "## 起因\n创建`pod`, 然后`describe`看到如下信息\nnetwork: open /run/flannel/subnet.env: no such file or directory\n\n先创建目录\n`sudo mkdir /run/flannel/`\n",
            "KF518",
            "The Flannel agent of the node's network does not answer",
        ),
        (
            "calico: stat /var/lib/calico/nodename: no such file or directory: check that the calico/node container is running\n",
            "KF518",
            "stat /var/lib/calico/nodename",
        ),
        // Yolean/kubernetes-kafka 213: the scheduler before 1.11, by somebody who typed it.
        (
            "I am seeing the following error 'pzoo-0: pod has unbound PersistanceVolumeClaims.\n",
            "KF213",
            "is not bound to a volume",
        ),
        // kubernetes/website 14257, fixwikihub.com.
        (
            "Failed to pull image \"rmeuser:latest\": rpc error: code = Unknown desc = Error response from daemon: pull access denied for rmeuser, repository does not exist or may require 'docker login'\n",
            "KF602",
            "may require 'docker login'",
        ),
        (
            "  Warning  Failed     4m                 kubelet            Failed to pull image \"myregistry.io/my-app:v1\": rpc error: code = Unknown desc = Error response from daemon: pull access denied\n",
            "KF602",
            "pull access denied",
        ),
    ] {
        tells(&desk, paste, code, words);
    }
}

/// kubernetes/kubernetes 10324, 116133.
#[test]
fn what_stands_around_a_message_is_no_part_of_it() {
    let desk = Desk::new();
    let said = tells(
        &desk,
        "and the output is \" Warning  FailedScheduling  61s (x2 over 6m23s)  default-scheduler  0/1 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling..\"\n",
        "KF203",
        "node-role.kubernetes.io/control-plane",
    );
    assert!(!said.contains("..\"\""), "{said}");
    // kubectl 1.0 does not print the namespace.
    let said = told(
        &desk,
        "```\nName:\t\t\t\tfoo\nImage(s):\t\t\tubuntu,ubuntu\nNode:\t\t\t\tminion-y38q/\nLabels:\t\t\t\t<none>\nStatus:\t\t\t\tFailed\nIP:\t\t\t\t\nReplication Controllers:\t<none>\nContainers:\n```\n",
    );
    assert!(said.contains("NAMESPACE/foo"), "{said}");
    assert!(!said.contains("described:"), "{said}");
}

/// As in the description of a change (kubernetes/website 2620); the row is of fixwikihub.com.
#[test]
fn lines_that_a_change_adds_have_a_sign() {
    let desk = Desk::new();
    let plain = "```\n  Warning  Failed     4m                 kubelet            Failed to pull image \"myregistry.io/my-app:v1\": rpc error: code = Unknown desc = Error response from daemon: pull access denied\n```\n\n";
    let added = format!("+{}", plain.trim_end().replace('\n', "\n+"));
    for paste in [plain, &added] {
        let said = tells(&desk, paste, "KF602", "pull access denied");
        assert!(!said.contains("\n+"), "{said}");
    }
    // Two lines may be a list.
    let few = "+ one\n+ two\n";
    tells(
        &desk,
        &format!("{few}\n{plain}"),
        "KF602",
        "pull access denied",
    );
}
