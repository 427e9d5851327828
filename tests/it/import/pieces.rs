//! What people paste of containers: the lines of one container out of a description, the line that a log ends with, failed probes.
//! They are as components print them; the addresses of the reports are in `fixtures/reports.tsv`.

use super::Desk;
use super::fragments::{tells, told};

/// A description's lines from a container's state on, as indented as kubectl prints them, less, and not at all.
#[test]
fn the_lines_of_one_container_are_a_description() {
    let desk = Desk::new();
    let killed = "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n      Started:      Mon, 31 Aug 2020 16:32:42 -0500\n      Finished:     Mon, 31 Aug 2020 16:33:08 -0500\n    Ready:          True\n    Restart Count:  1\n    Limits:\n      cpu:     100m\n      memory:  90Mi\n";
    let loops = "    State:          Waiting\n      Reason:       CrashLoopBackOff\n    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    1\n      Started:      Thu, 27 Jul 2023 18:32:45 +0000\n      Finished:     Thu, 27 Jul 2023 18:32:49 +0000\n    Ready:          False\n    Restart Count:  5\n";
    let lines = |of: fn(&str) -> &str| {
        move |text: &str| {
            let all: Vec<&str> = text.lines().map(of).collect();
            format!("{}\n", all.join("\n"))
        }
    };
    let flat = lines(str::trim);
    let less = lines(|line| line.get(4..).unwrap_or(line));
    for (text, code, words) in [
        (killed, "KF709", "OOMKilled"),
        (loops, "KF708", "ended with exit code 1"),
    ] {
        for text in [text.to_owned(), less(text), flat(text)] {
            for paste in [
                format!("It restarts:\n\n{text}\nWhat now?\n"),
                format!("```\n...\n{text}```\n"),
            ] {
                let said = told(&desk, &paste);
                assert!(said.contains(code), "{code}: {paste}\n{said}");
                assert!(said.contains("NAMESPACE/POD"), "{paste}\n{said}");
                assert!(said.contains(words), "{paste}\n{said}");
            }
            // The command names it.
            let paste = format!("$ kubectl describe pod -n shop web-0\n...\n{text}");
            let said = told(&desk, &paste);
            assert!(said.contains("shop/web-0"), "{paste}\n{said}");
        }
    }
    // What begins alike, and is something else.
    for other in [
        "It says\nState: Running\nand that is all.\n",
        "Memory: 4G\nState: Running\nIPv4: 10.1.2.3\n",
    ] {
        let file = desk.file("other.txt", other);
        let out = desk.path("other.kflow");
        let o = super::run(&["import", &file, "-O", &out]);
        assert!(!o.status.success(), "{other}");
    }
}

/// Two of them show a pod before and after a change, or two pods: what the second shows is not said of the first.
#[test]
fn two_pieces_are_not_mixed() {
    let desk = Desk::new();
    let before = "    State:          Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n      Started:      Mon, 13 Dec 2021 18:02:32 -0800\n      Finished:     Mon, 13 Dec 2021 18:02:42 -0800\n    Ready:          False\n    Restart Count:  5\n    Limits:\n      memory:  300Mi\n";
    let after = "    State:          Running\n      Started:      Mon, 13 Dec 2021 19:45:38 -0800\n    Ready:          True\n    Restart Count:  0\n    Limits:\n      memory:  500Mi\n";
    let said = told(&desk, &format!("Before:\n{before}\nAfter:\n{after}"));
    assert!(said.contains("KF709") && said.contains("300Mi"), "{said}");
    assert!(!said.contains("500Mi"), "{said}");
}

/// A container that was killed for its memory runs again: somebody asks why it restarted.
#[test]
fn what_is_over_is_told_of_a_pod_that_is_described() {
    let desk = Desk::new();
    let paste = |ready: &str, reason: &str| {
        format!(
            "Name:         daily-score-x8qw9\nNamespace:    shop\nNode:         n1/10.128.0.4\nStart Time:   Fri, 28 May 2021 03:35:38 +0000\nStatus:       Running\nIP:           10.0.8.19\nContainers:\n  run-score:\n    Image:          gcr.io/openssf/cron:latest\n    State:          Running\n      Started:      Fri, 28 May 2021 12:43:38 +0000\n    Last State:     Terminated\n      Reason:       {reason}\n      Exit Code:    137\n      Started:      Fri, 28 May 2021 09:41:17 +0000\n      Finished:     Fri, 28 May 2021 12:43:37 +0000\n    Ready:          True\n    Restart Count:  3\n    Limits:\n      memory:  1Gi\n{ready}"
        )
    };
    for conditions in [
        "",
        "Conditions:\n  Type              Status\n  Ready             True \n  ContainersReady   True \n  PodScheduled      True \n",
    ] {
        let said = told(&desk, &paste(conditions, "OOMKilled"));
        let said = crate::one_line(&said);
        assert!(said.contains("KF709"), "{said}");
        assert!(said.contains("recovered"), "{said}");
        assert!(said.contains("its limit of 1Gi"), "{said}");
        assert!(said.contains("3 times so far; it runs again."), "{said}");
        assert!(!said.contains("stuck"), "{said}");
        // SIGKILL alone does not say that memory was short.
        let said = told(&desk, &paste(conditions, "Error"));
        assert!(!said.contains("KF709"), "{said}");
    }
}

/// What runc's init and shells print where a program cannot be run, in the log of a pod that a command names.
#[test]
fn the_last_line_of_a_log_tells_why_a_container_ends() {
    let desk = Desk::new();
    let row = "NAME    READY   STATUS             RESTARTS      AGE\nweb     1/1     Running            0             34s\nxwing   0/1     CrashLoopBackOff   1 (13s ago)   34s\n";
    for (line, code) in [
        ("exec /usr/bin/bash: exec format error", "KF606"),
        (
            "standard_init_linux.go:211: exec user process caused \"exec format error\"",
            "KF606",
        ),
        (
            "standard_init_linux.go:228: exec user process caused: exec format error",
            "KF606",
        ),
        (
            "/entrypoint.sh: line 3: ./app: cannot execute binary file: Exec format error",
            "KF606",
        ),
        ("exec /entrypoint.sh: no such file or directory", "KF704"),
        (
            "standard_init_linux.go:228: exec user process caused: no such file or directory",
            "KF704",
        ),
        ("exec /app/start.sh: permission denied", "KF704"),
    ] {
        for (paste, pod) in [
            (
                format!("```\n$ kubectl get pods\n{row}$ kubectl logs xwing\n{line}\n```\n"),
                "NAMESPACE/xwing",
            ),
            (
                format!("```\n{row}```\nlog:\n```\n{line}\n```\n"),
                "NAMESPACE/xwing",
            ),
            (
                format!("$kubectl -n shop logs -c app falcon --previous\n{line}\n"),
                "shop/falcon",
            ),
            (
                format!("kubectl logs -l app=web\n{line}\n"),
                "NAMESPACE/POD",
            ),
        ] {
            tells(&desk, &paste, code, pod);
        }
    }
    // Prose, and other programs' errors.
    for other in [
        "I think exec format error means another CPU\n",
        "bash: /etc/app.conf: no such file or directory\n",
    ] {
        let file = desk.file("other.txt", other);
        let o = super::run(&["import", &file, "-O", &desk.path("other.kflow")]);
        assert!(!o.status.success(), "{other}");
    }
}

/// Failed probes of which nothing else is known, and how long ago they may have failed last.
#[test]
fn a_probe_that_fails_is_told_without_its_container() {
    let desk = Desk::new();
    for (paste, code) in [
        (
            "Liveness probe failed: Get http://10.1.2.3:8080/healthz: dial tcp 10.1.2.3:8080: connect: connection refused\n",
            "KF803",
        ),
        (
            "  Warning  Unhealthy  9s (x20 over 3m)  kubelet  Readiness probe failed: HTTP probe failed with statuscode: 503\n",
            "KF801",
        ),
        (
            "  Warning  Unhealthy  9s (x20 over 3m)  kubelet  Startup probe failed: command \"x\" timed out\n",
            "KF802",
        ),
        // A row that loops, and why.
        (
            "NAME                                  READY   STATUS             RESTARTS   AGE\nmy-domain-exporter-774cd8596f-8fb7n   0/1     CrashLoopBackOff   7          7m37s\n\n  Warning  Unhealthy  4m7s (x6 over 4m57s)  kubelet            Liveness probe failed: Get \"http://10.88.1.106:80/\": dial tcp 10.88.1.106:80: connect: connection refused\n",
            "KF803",
        ),
    ] {
        let said = told(&desk, paste);
        assert!(said.contains(code), "{code}: {paste}\n{said}");
        assert!(!said.contains("KF708"), "{said}");
    }
    // A probe that fails still would have been told of again.
    let said = told(
        &desk,
        "**Warning  Unhealthy  49m (x4 over 49m)  kubelet            Readiness probe failed: HTTP probe failed with statuscode: 503**\n",
    );
    assert!(!said.contains("KF80"), "{said}");
}

/// Of several containers one has been started; the others cannot be made.
#[test]
fn a_container_that_was_started_is_not_the_one_that_fails() {
    let desk = Desk::new();
    for started in [
        "Started container dp-copy-datasafed",
        "Created container: dp-copy-datasafed",
    ] {
        let reason = started.split_once(' ').unwrap().0;
        let said = told(
            &desk,
            &format!(
                "```\n  Normal   {reason}    3m48s                  kubelet            {started}\n  Warning  Failed     2m56s (x5 over 3m48s)  kubelet            Error: secret \"mysql-account-kbadmin\" not found\n```\n"
            ),
        );
        assert!(said.contains("KF701"), "{said}");
    }
    // It has been started since.
    let said = told(
        &desk,
        "```\n  Warning  Failed     2m56s (x5 over 3m48s)  kubelet            Error: secret \"mysql-account-kbadmin\" not found\n  Normal   Pulled     9s (x6 over 3m48s)     kubelet            Container image \"x\" already present on machine\n  Normal   Started    9s                     kubelet            Started container mysql\n```\n",
    );
    assert!(!said.contains("KF701"), "{said}");
    // The only one that the rows name is the one that is killed, and started again.
    let said = told(
        &desk,
        "```\n  Normal   Started    6m10s (x5 over 7m49s)   kubelet  Started container seq\n  Warning  BackOff    2m43s (x23 over 7m32s)  kubelet  Back-off restarting failed container\n```\n",
    );
    assert!(said.contains("Container seq has ended"), "{said}");
}

/// `kubectl get events` of 1.12 and 1.13 names the kind alone.
#[test]
fn rows_of_old_lists_name_the_kind_alone() {
    let desk = Desk::new();
    for titles in [
        "",
        "LAST SEEN   TYPE      REASON              KIND   MESSAGE\n",
    ] {
        let said = told(
            &desk,
            &format!(
                "```\n{titles}2m          Warning   FailedPreStopHook   Pod    Exec lifecycle hook ([bash -c /usr/sbin/nginx -s quit ; sleep 29]) for Container \"nginx\" in Pod \"nginx-678cbdbf9b-9m994_default(78dd52bd-d2b0-11e8-9d2e-f8cab834928e)\" failed - error: command 'bash -c /usr/sbin/nginx -s quit ; sleep 29' exited with 137: 2018/10/18 08:36:03 [notice] 13#13: signal process started\n```\n"
            ),
        );
        assert!(said.contains("KF904"), "{said}");
        assert!(said.contains("default/nginx-678cbdbf9b-9m994"), "{said}");
        assert!(said.contains("exit code 137"), "{said}");
        assert!(!said.contains("OOM"), "{said}");
    }
}

#[test]
fn what_volcano_says_of_a_group_is_read() {
    let desk = Desk::new();
    for (paste, code) in [
        ("event:\nqueue resource quota insufficient\n", "KF232"),
        (
            "0/0 tasks in gang unschedulable: pod group is not ready, 1 minAvailable\n",
            "KF109",
        ),
        (
            "  Warning  PodGroupPending  7m43s  vc-controller-manager  PodGroup default:job-sample unschedule,reason: 1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable; Pending: 1 Unschedulable\n",
            "KF109",
        ),
    ] {
        let said = told(&desk, paste);
        assert!(said.contains(code), "{code}: {paste}\n{said}");
    }
}

/// The names of sandboxes and containers that CRI-O reserves; the id in these messages is that of the attempt that is refused.
#[test]
fn a_name_that_crio_has_given_is_taken() {
    let desk = Desk::new();
    for (line, code) in [
        (
            "level=warning msg=\"Error reserving pod name k8s_kube-apiserver-master1_kube-system_2abe36c990c315f116840d96b89eb8a2_0 for id 437508876cf392821439da52786df1f4ac3af41ca2501205e46478be5ec8d32f: name is reserved\"",
            "KF507",
        ),
        (
            "level=warning msg=\"error reserving ctr name k8s_app_kube-apiserver-master1_kube-system_2abe36c990c315f116840d96b89eb8a2_0 for id 437508876cf392821439da52786df1f4ac3af41ca2501205e46478be5ec8d32f: name is reserved\"",
            "KF702",
        ),
    ] {
        let said = told(
            &desk,
            &format!(
                "```\nApr 14 12:50:32 master1.corp.int crio[58767]: time=\"2020-04-14 12:50:32.759109234+02:00\" {line}\n```\n"
            ),
        );
        assert!(said.contains(code), "{code}: {line}\n{said}");
        assert!(
            said.contains("kube-system/kube-apiserver-master1"),
            "{said}"
        );
        assert!(!said.contains("rm -f"), "{said}");
        assert!(!said.contains("rmp -f"), "{said}");
    }
}

/// A host that was renamed: lines of other programs have its old name. rsyslog writes whole times.
#[test]
fn a_host_of_which_no_component_tells_is_none() {
    let desk = Desk::new();
    for (created, time) in [
        ("Dec 28 17:52:04", "Dec 28 20:39:07"),
        (
            "2022-12-28T17:52:04.147769+00:00",
            "2022-12-28T20:39:07.147769+00:00",
        ),
    ] {
        let said = told(
            &desk,
            &format!(
                "```\n{created} eben-amen systemd[1]: Created slice libcontainer container kubepods-burstable-pod14519993_ef2b_452f_8f35_0da3f186827e.slice.\n{time} k8s-ng-1 kubelet[723]: E1228 20:39:07.524213     723 kuberuntime_manager.go:1217] \"Failed to prepare dynamic resources\" err=\"pod pod1(8221078e-5853-49ba-969c-04bb67c23c90) is not allowed to use resource claim pve-interfaces(6c61e511-d23c-411d-8774-1ab087ba807c)\" pod=\"default/pod1\"\n```\n"
            ),
        );
        assert!(said.contains("KF415"), "{said}");
        assert!(said.contains("default/pod1"), "{said}");
    }
}

/// 1.17 and older call the kubelet's checks by the names of the scheduler's predicates.
#[test]
fn old_words_for_a_refused_pod_are_known() {
    let desk = Desk::new();
    for status in ["PodFitsHostPorts", "MatchNodeSelector", "HostName"] {
        let said = told(
            &desk,
            &format!(
                "NAME       READY   STATUS             RESTARTS   AGE\nweb-rmt65   0/1     {status}   0          35m\n"
            ),
        );
        assert!(said.contains("KF314"), "{said}");
        assert!(said.contains(status), "{said}");
    }
}

/// Rows of a description that is not there: two containers, of which one is started and the other is not.
#[test]
fn a_container_that_is_started_does_not_end_what_another_one_waits_for() {
    let desk = Desk::new();
    let sidecar = "  Normal   Pulled   2m31s  kubelet  Successfully pulled image \"agent:1\" in 380ms\n  Normal   Created  2m31s  kubelet  Created container agent\n  Normal   Started  2m31s  kubelet  Started container agent\n";
    for (rows, code, says) in [
        (
            "  Normal   Created  2m32s  kubelet  Created container pd\n  Warning  Failed   2m32s  kubelet  Error: failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: \"/scripts/pd_start.sh\": permission denied: unknown\n",
            "KF704",
            "Container pd cannot be started",
        ),
        (
            "  Normal   Pulling  2m33s  kubelet  Pulling image \"docker.io/library/pd:7\"\n  Warning  Failed   2m32s  kubelet  Failed to pull image \"docker.io/library/pd:7\": rpc error: code = NotFound desc = failed to pull and unpack image \"docker.io/library/pd:7\": failed to resolve reference \"docker.io/library/pd:7\": docker.io/library/pd:7: not found\n  Warning  Failed   2m32s  kubelet  Error: ErrImagePull\n",
            "KF601",
            "docker.io/library/pd:7",
        ),
        (
            "  Normal   Pulled   2m32s  kubelet  Container image \"pd:7\" already present on machine\n  Warning  Failed   2m32s  kubelet  Error: secret \"account\" not found\n",
            "KF701",
            "account",
        ),
    ] {
        let said = told(&desk, &format!("```\n{rows}{sidecar}```\n"));
        assert!(said.contains(code) && said.contains(says), "{said}");
        // The same image is there, and its container made, later.
        let image = if code == "KF601" {
            "docker.io/library/pd:7"
        } else {
            "pd:7"
        };
        let over = format!(
            "  Normal   Pulled   9s  kubelet  Container image \"{image}\" already present on machine\n  Normal   Created  9s  kubelet  Created container pd\n  Normal   Started  9s  kubelet  Started container pd\n"
        );
        let said = told(&desk, &format!("```\n{rows}{sidecar}{over}```\n"));
        assert!(!said.contains(code), "{said}");
    }
}

/// kubectl does not print the restart policy.
#[test]
fn a_container_that_ends_well_again_and_again_is_a_crash_loop() {
    let desk = Desk::new();
    let paste = |state: &str, restarts: u32| {
        format!(
            "Name:         web-0\nNamespace:    shop\nNode:         n1/10.128.0.4\nStart Time:   Fri, 28 May 2021 03:35:38 +0000\nStatus:       Running\nIP:           10.0.8.19\nContainers:\n  web:\n    Image:          web:1\n{state}    Ready:          False\n    Restart Count:  {restarts}\nConditions:\n  Type              Status\n  Ready             False \n  ContainersReady   False \n  PodScheduled      True \n"
        )
    };
    let ended = "      Reason:       Completed\n      Exit Code:    0\n      Started:      Fri, 28 May 2021 12:43:36 +0000\n      Finished:     Fri, 28 May 2021 12:43:37 +0000\n";
    let waits = format!(
        "    State:          Waiting\n      Reason:       CrashLoopBackOff\n    Last State:     Terminated\n{ended}"
    );
    for restarts in [1, 6] {
        let said = told(&desk, &paste(&waits, restarts));
        assert!(
            said.contains("KF708") && said.contains("exit code 0"),
            "{said}"
        );
    }
    // It has ended once, and may have done its work.
    let said = told(
        &desk,
        &paste(&format!("    State:          Terminated\n{ended}"), 0),
    );
    assert!(!said.contains("KF708"), "{said}");
}
