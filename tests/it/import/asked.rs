//! What people ask most often, in the forms in which it gets into a ticket. The texts are of public reports, whose addresses are in
//! `fixtures/reports.tsv`.

use super::fragments::{tells, told};
use super::{Desk, run, text};

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

/// Of a course on Kubernetes, which is not listed there. The node was started anew since: of the pod's two containers one runs again, and one
/// has done its work again.
#[test]
fn a_pod_is_well_since_its_containers_run_and_not_since_it_was_described() {
    let desk = Desk::new();
    let head = "Name:             myapp-pod-7d9b9c8bd5-5xpc7\nNamespace:        default\nPriority:         0\nNode:             microk8s/192.168.1.88\nStart Time:       Tue, 28 Mar 2023 14:35:09 +0300\nStatus:           Running\nIP:               10.1.128.247\nControlled By:  ReplicaSet/myapp-pod-7d9b9c8bd5\n";
    let init = "Init Containers:\n  init-myservice:\n    Container ID:  containerd://12f8\n    Image:         busybox:1.28\n    State:          Terminated\n      Reason:       Completed\n      Exit Code:    0\n      Started:      Wed, 29 Mar 2023 14:01:08 +0300\n      Finished:     Wed, 29 Mar 2023 14:02:11 +0300\n    Ready:          True\n    Restart Count:  1\n    Environment:    <none>\n";
    let main = "Containers:\n  network-multitool:\n    Container ID:   containerd://c276\n    Image:          wbitt/network-multitool\n    State:          Running\n      Started:      Wed, 29 Mar 2023 14:02:11 +0300\n    Last State:     Terminated\n      Reason:       Unknown\n      Exit Code:    255\n      Started:      Tue, 28 Mar 2023 14:35:10 +0300\n      Finished:     Wed, 29 Mar 2023 14:00:55 +0300\n    Ready:          True\n    Restart Count:  1\n";
    let tail = "Conditions:\n  Type              Status\n  Initialized       True\n  Ready             True\n  ContainersReady   True\n  PodScheduled      True\nEvents:                      <none>\n";
    let file = desk.file("ticket.txt", format!("{head}{init}{main}{tail}"));
    let out = desk.path("ticket.kflow");
    let o = run(&[
        "import",
        &file,
        "--taken",
        "2023-03-29T12:02:11Z",
        "-O",
        &out,
    ]);
    assert!(o.status.success(), "{}", text(&o.stderr));
    let o = run(&["why", "myapp-pod-7d9b9c8bd5-5xpc7", "-s", &out]);
    let said = crate::one_line(&text(&o.stdout));
    let expected = "The pod has been well for 1h00m; before, container network-multitool ended once (1h01m ago, with exit code 255)";
    assert!(said.contains(expected), "{said}");
    let o = run(&["why", "--all", "-s", &out]);
    assert_eq!(
        text(&o.stdout),
        "What was read shows 1 pod, and it is well.\n"
    );
}

/// cri-o/cri-o 7053: without Events.
#[test]
fn a_description_says_itself_that_its_pod_was_to_be_gone() {
    let desk = Desk::new();
    let head = "Name:                      fio-sts-local-7\nNamespace:                 default\nPriority:                  0\nNode:                      appserv51/172.16.6.151\nStart Time:                Wed, 14 Jun 2023 06:18:16 -0700\nStatus:                    Terminating (lasts 14h)\nTermination Grace Period:  30s\nIP:                        \nIPs:                       <none>\nControlled By:             StatefulSet/fio-sts-local\n";
    let runs = "Containers:\n  fio-sts-local:\n    Container ID:   cri-o://4bbb\n    Image:          diamanti/fio:v1.0\n    State:          Running\n      Started:      Wed, 14 Jun 2023 06:18:26 -0700\n    Ready:          True\n    Restart Count:  0\n";
    let said = tells(
        &desk,
        &format!("{head}{runs}"),
        "KF914",
        "ago and is still there: container fio-sts-local still runs; the kubelet of node appserv51 has to act next",
    );
    assert!(
        !said.contains("has not said") && !said.contains("status Pending"),
        "{said}"
    );
    // kubectl prints no finalizers, which may keep a pod whose containers have ended.
    for untold in [
        head.to_owned(),
        format!("{head}{}", runs.replace("Running", "Terminated")),
        format!("{}{runs}", head.replace("lasts 14h", "lasts 9s")),
    ] {
        let said = told(&desk, &untold);
        assert!(!said.contains("KF914"), "{said}");
    }
}

/// AndreiGavriliu/homelab 5498 and openshift/origin 6866.
#[test]
fn an_alert_and_a_status_name_the_container_that_waits() {
    let desk = Desk::new();
    for (paste, pod) in [
        (
            "<td>description</td>\n<td>Pod umami/umami-96556c76f-9qw2x (umami) is in waiting state (reason: \"CrashLoopBackOff\") on cluster .</td>\n",
            "umami/umami-96556c76f-9qw2x",
        ),
        (
            "$ oc status -v\nErrors:\n  * container \"gitlab-ce\" in pod/gitlab-ce-2-3nb01 is crash-looping\n\n    The container is starting and exiting repeatedly.\n",
            "gitlab-ce-2-3nb01",
        ),
    ] {
        let said = tells(&desk, paste, "KF708", "has ended at least once");
        assert!(said.contains(pod), "{said}");
    }
}

/// k3s-io/k3s 2370: the lines are of ten seconds, and say of how much longer they are true.
#[test]
fn a_runtime_has_not_answered_for_as_long_as_the_kubelet_says() {
    let desk = Desk::new();
    let line = |at: &str, ago: &str| {
        format!(
            "Oct  8 16:29:51 worker9 k3s[1636]: E1008 16:23:{at}    1636 kubelet.go:1846] skipping pod synchronization - PLEG is not healthy: pleg was last seen active {ago} ago; threshold is 3m0s\n"
        )
    };
    let first = line("19.140242", "4m56.763892694s");
    let paste = format!("{first}{}", line("29.140820", "5m6.764478598s"));
    tells(&desk, &paste, "KF302", "stuck in admit for 5m06s");
}

/// rancher/rke2 3749: `kubectl get events -A`, of an hour in which the pod was replaced.
#[test]
fn a_sandbox_that_nobody_kills_any_more_holds_up_nothing() {
    let desk = Desk::new();
    let row = |age: &str| {
        format!(
            "default       {age}         Warning   FailedKillPod             pod/akri-controller-deployment-78b9f74cc5-lrmr5   error killing pod: failed to \"KillPodSandbox\" for \"e702d8c8-ad7b-41ef-8424-3911f23568f5\" with KillPodSandboxError: \"rpc error: code = Unknown desc = failed to destroy network for sandbox \\\"c4848ed881a241dd2f8e1be6145ce5b3c8ea9fae224f28d257b2b1b60987504d\\\": cni plugin not initialized\"\n"
        )
    };
    tells(&desk, &row("3m"), "KF906", "lrmr5");
    let said = told(&desk, &row("58m"));
    assert!(!said.contains("KF906"), "{said}");
}
