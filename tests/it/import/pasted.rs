//! What a text went through on its way into a ticket: lines that a terminal or a mail program cut, colours, marks of Markdown and HTML.

use super::archive::gz;
use super::{Desk, fixture, run, text};
use kflow_sources::kube::decode::joined;
use std::path::{Path, PathBuf};

/// Columns of terminals that people use, whole screens and halves of them.
const TERMINALS: [usize; 6] = [80, 93, 100, 120, 132, 160];
/// Columns after which mail programs cut.
const MAILS: [usize; 3] = [72, 76, 80];

/// Cuts lines as a terminal of that width does.
fn by_terminal(text: &str, width: usize) -> String {
    let line = |line: &str| {
        let chars: Vec<char> = line.chars().collect();
        let pieces = chars.chunks(width).map(|c| c.iter().collect::<String>());
        pieces.collect::<Vec<_>>().join("\n")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Cuts lines as a mail program does: behind the last word that has room.
fn by_mail(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut at = 0;
        for word in line.split_inclusive(' ') {
            let length = word.trim_end().chars().count();
            if at > 0 && at + length > width {
                let end = out.trim_end_matches(' ').len();
                out.truncate(end);
                out.push('\n');
                at = 0;
            }
            out.push_str(word);
            at += word.chars().count();
        }
        out.push('\n');
    }
    out
}

fn texts(folder: &Path, out: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts(&path, out);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            out.push((path, text));
        }
    }
}

#[test]
fn what_nobody_cut_stays_as_it_is() {
    let mut all = Vec::new();
    texts(&fixture(""), &mut all);
    // Certificates and prose have such lines.
    all.retain(|(path, _)| {
        let ext = path.extension().and_then(|e| e.to_str());
        !matches!(ext, Some("md" | "crt" | "key"))
    });
    assert!(all.len() > 200, "{}", all.len());
    let changed = all.iter().filter_map(|(path, text)| {
        let joined = joined(text)?;
        Some(format!(
            "{}: {} lines at {}",
            path.display(),
            joined.lines,
            joined.width
        ))
    });
    let changed: Vec<String> = changed.collect();
    assert!(changed.is_empty(), "{changed:#?}");
}

/// Texts that tell causes of several kinds.
const TOLD: [&str; 4] = [
    "s2-image-missing-1.36",
    "s4-cni-fails-1.36",
    "s2-events-events-1.36",
    "s2-cm-missing-1.36",
];

/// Returns what `why --all` says of a pasted text, and what was said of its import.
fn told(desk: &Desk, content: &str) -> (String, String) {
    told_of(desk, desk.file("paste.txt", content))
}

fn told_of(desk: &Desk, file: String) -> (String, String) {
    let all = [&*file, "--taken", "2026-11-27T00:38:00Z"];
    let (session, said) = desk.import("a.kflow", &all);
    let why = run(&["why", "--all", "-s", &session, "-o", "json"]);
    (text(&why.stdout), said)
}

#[test]
fn what_was_cut_tells_what_the_whole_tells() {
    let desk = Desk::new();
    for name in TOLD {
        let whole = std::fs::read_to_string(fixture(&format!("kubectl/{name}.txt"))).unwrap();
        let want = told(&desk, &whole).0;
        assert!(want.contains("\"KF"), "{want}");
        let terminals = TERMINALS.map(|width| by_terminal(&whole, width));
        let mails = MAILS.map(|width| by_mail(&whole, width));
        for cut in terminals.into_iter().chain(mails) {
            let is_cut = cut.lines().count() > whole.lines().count();
            let (got, said) = told(&desk, &cut);
            assert_eq!(got, want, "{name}:\n{cut}\n{said}");
            let is_told = said.contains("columns are put together");
            assert_eq!(is_told, is_cut, "{name}:\n{cut}\n{said}");
        }
    }
}

#[test]
fn marks_of_others_change_nothing() {
    type Change = fn(&str) -> String;
    fn each(text: &str, line: impl FnMut((usize, &str)) -> String) -> String {
        text.lines()
            .enumerate()
            .map(line)
            .collect::<Vec<_>>()
            .join("\n")
            + "\n"
    }
    let html = |t: &str| {
        t.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('"', "&quot;")
            .replace('\'', "&#x27;")
    };
    let changes: [(&str, Change); 15] = [
        ("colours", |t| {
            t.replace("Warning", "\u{1b}[33mWarning\u{1b}[0m")
                .replace("Failed", "\u{1b}[1;31mFailed\u{1b}[m")
        }),
        ("colours without the escape", |t| {
            t.replace("Warning", "[33mWarning[0m")
        }),
        ("bold", |t| {
            t.replace("Warning", "**Warning**")
                .replace("Pending", "**Pending**")
        }),
        ("quotation marks", |t| {
            t.replace(" \"", " \u{201c}")
                .replace('"', "\u{201d}")
                .replace('\'', "\u{2019}")
        }),
        ("blanks", |t| t.replace("  ", "\u{a0} ")),
        ("a byte order mark", |t| format!("\u{feff}{t}")),
        ("carriage returns", |t| t.replace('\n', "\r\n")),
        ("numbers", |t| each(t, |(n, l)| format!("{:5}  {l}", n + 1))),
        ("grep -n", |t| {
            each(t, |(n, l)| format!("out.txt:{}:{l}", n + 1))
        }),
        ("bars", |t| each(t, |(_, l)| format!("| {l}"))),
        ("code", |t| {
            each(t, |(_, l)| {
                if l.is_empty() {
                    String::new()
                } else {
                    format!("`{l}`")
                }
            })
        }),
        ("quotation", |t| each(t, |(_, l)| format!("> {l}"))),
        ("a code block in prose", |t| {
            format!("Any ideas?\n\n```\n{t}```\n\nThanks\n")
        }),
        ("a code block of Jira", |t| {
            format!("Any ideas?\n\n{{code:bash}}\n{t}{{code}}\nThanks\n")
        }),
        ("a code block of a forum", |t| {
            format!("Any ideas?\n\n[code]{t}[/code]\nThanks\n")
        }),
    ];
    let desk = Desk::new();
    for name in TOLD {
        let whole = std::fs::read_to_string(fixture(&format!("kubectl/{name}.txt"))).unwrap();
        let want = told(&desk, &whole).0;
        for (what, change) in changes {
            let (got, said) = told(&desk, &change(&whole));
            assert_eq!(got, want, "{name}, {what}: {said}");
        }
        let (got, said) = told(
            &desk,
            &format!("<pre><code>{}</code></pre>\n", html(&whole)),
        );
        assert_eq!(got, want, "{name}, HTML: {said}");
    }
}

#[test]
fn a_large_text_is_read_to_its_end() {
    let row = "5m  Normal  Pulled  pod/web  Container image \"a:1\" already present on machine\n";
    let last =
        "1m  Warning  FailedScheduling  pod/last  0/3 nodes are available: 3 Insufficient cpu.\n";
    let text = format!(
        "\u{200b}LAST SEEN  TYPE  REASON  OBJECT  MESSAGE\n{}{last}",
        row.repeat(20_000)
    );
    let (small, desk) = (gz(text.as_bytes()), Desk::new());
    assert!(small.len() < 1 << 20 && text.len() > 1 << 20);
    let (why, said) = told_of(&desk, desk.file("paste.txt.gz", small));
    assert!(
        why.contains("NAMESPACE/last") || why.contains("\"last\""),
        "{why}{said}"
    );
    assert!(why.contains("KF201"), "{why}{said}");
}

/// Short pieces of public reports, whose addresses are in `fixtures/reports.tsv`: a tool's outputs, and a support bundle with an
/// object in a file.
const IN_FOLDERS: [(&str, &str, &str); 9] = [
    (
        "raw_data/k8s_states.json",
        "{\n  \"kubectl get daemonsets -n boutique\": \"\",\n  \"kubectl get configmaps istio-ca-crl -n boutique -o wide\": \"NAME           DATA   AGE\\nistio-ca-crl   1      31d\\n\",\n  \"kubectl get events -n boutique\": \"LAST SEEN   TYPE      REASON    OBJECT      MESSAGE\\n21s         Warning   BackOff   pod/web-0   Back-off restarting failed container flask\\n\"\n}\n",
        "boutique/web-0 KF708",
    ),
    (
        "kubectl_describe.txt",
        "{\"toolset_name\": \"kubernetes/core\", \"tool_name\": \"kubectl_describe\"}\n{\"schema_version\": \"robusta:v1.0.0\", \"status\": \"success\"}\nstdout:\nName:             user-profile-import\nNamespace:        default\nPriority:         0\nNode:             <none>\nStatus:           Pending\nNode-Selectors:              label=someLabel\nEvents:\n  Type     Reason            Age   From               Message\n  ----     ------            ----  ----               -------\n  Warning  FailedScheduling  38s   default-scheduler  0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.\n\nstderr:\n",
        "default/user-profile-import KF205",
    ),
    (
        "quoted.txt",
        "{\"toolset_name\": \"kubernetes/core\"}\nstdout:\n \"NAME                          READY   STATUS             RESTARTS      AGE\ncrashpod-9688789bc-lgjzj      0/1     CrashLoopBackOff   7 (32s ago)   11m\n\"\n\nstderr:\n",
        "NAMESPACE/crashpod-9688789bc-lgjzj KF708",
    ),
    (
        "events.out",
        "{\"tool_name\":\"kubectl_events\",\"params\":{\"command\": \"kubectl get events -n app-02\"}}\nLAST SEEN   TYPE      REASON    OBJECT      MESSAGE\n21s         Warning   BackOff   pod/web-0   Back-off restarting failed container flask\n",
        "app-02/web-0 KF708",
    ),
    (
        "bash.txt",
        "kubectl describe pod logging-agent -n default\nName:             logging-agent\nNamespace:        default\nPriority:         0\nEvents:\n  Type     Reason     Age                From               Message\n  ----     ------     ----               ----               -------\n  Warning  FailedScheduling  38s   default-scheduler  0/3 nodes are available: 3 Insufficient cpu.\n",
        "default/logging-agent KF201",
    ),
    (
        "list.txt",
        "    name: planespotter-frontend-7c578ffd8b-qwjhc\n    namespace: default\n    ownerReferences:\n    - apiVersion: extensions/v1beta1\n      kind: ReplicaSet\n      name: planespotter-frontend-7c578ffd8b\n  spec:\n    containers:\n    - image: afewell/planespotter:planespotter-frontend\n      name: planespotter-fe\n    nodeName: worker-906ccfc2\n  status:\n    containerStatuses:\n    - image: afewell/planespotter:planespotter-frontend\n      imageID: \"\"\n      lastState: {}\n      name: planespotter-fe\n      ready: false\n      restartCount: 0\n      state:\n        waiting:\n          message: Back-off pulling image \"afewell/planespotter:planespotter-frontend\"\n          reason: ImagePullBackOff\n    phase: Pending\n    qosClass: BestEffort\n",
        "default/planespotter-frontend-7c578ffd8b-qwjhc KF613",
    ),
    (
        "lineage.txt",
        "NAME                                                      READY   STATUS    AGE\n├── Event/web-659d4dd659-cq4kq.181d9e265085dc4b   -       FailedScheduling: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.   4m59s\n",
        "NAMESPACE/web-659d4dd659-cq4kq KF201",
    ),
    (
        "pods/default/pending-pod.json",
        "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Pod\",\n  \"metadata\": {\"name\": \"pending-pod\", \"namespace\": \"default\", \"creationTimestamp\": \"2024-01-10T08:00:00Z\"},\n  \"status\": {\"phase\": \"Pending\", \"conditions\": [{\"type\": \"PodScheduled\", \"status\": \"False\", \"reason\": \"Unschedulable\", \"message\": \"0/3 nodes are available: 3 Insufficient cpu.\"}]}\n}\n",
        "default/pending-pod KF201",
    ),
    (
        "events/default.json",
        "[\n  {\n    \"apiVersion\": \"v1\", \"kind\": \"Event\",\n    \"metadata\": {\"name\": \"pending-pod.17a1b2c3d4e5f6\", \"namespace\": \"default\"},\n    \"involvedObject\": {\"kind\": \"Pod\", \"name\": \"pending-pod\", \"namespace\": \"default\"},\n    \"reason\": \"FailedScheduling\", \"message\": \"0/3 nodes are available: 3 Insufficient cpu.\",\n    \"type\": \"Warning\", \"firstTimestamp\": \"2024-01-10T08:00:00Z\", \"lastTimestamp\": \"2024-01-15T12:00:00Z\", \"count\": 42\n  }\n]\n",
        "default/pending-pod KF201",
    ),
];

#[test]
fn a_file_in_a_folder_is_read_as_it_is_when_it_is_named() {
    for (name, content, want) in IN_FOLDERS {
        let desk = Desk::new();
        let folder = desk.dir.path().join("folder");
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, content).unwrap();
        for path in [file, folder] {
            let path = path.display().to_string();
            let o = run(&["why", "--all", "-o", "json", "-s", &path]);
            let rows: Vec<serde_json::Value> = serde_json::Deserializer::from_slice(&o.stdout)
                .into_iter()
                .map(|v| v.unwrap_or_else(|e| panic!("{path}: {e}: {}", text(&o.stderr))))
                .collect();
            let rows = rows.iter().flat_map(|v| match v {
                serde_json::Value::Array(rows) => rows.clone(),
                other => vec![other.clone()],
            });
            let told: Vec<String> = rows
                .map(|v| {
                    let of = |key: &str| v[key].as_str().unwrap_or_default().to_owned();
                    format!("{}/{} {}", of("namespace"), of("pod"), of("cause"))
                })
                .collect();
            assert_eq!(told, [want], "{path}: {}", text(&o.stderr));
        }
    }
}

/// Lines of a public report (kubeadm with containerd), with a sentence between them.
#[test]
fn every_line_is_read_or_counted() {
    const TEXT: &str = "Nov 22 16:53:37 k8s-master-01 kubelet: E1122 16:53:37.438501   22530 reflector.go:153] k8s.io/kubernetes/pkg/kubelet/kubelet.go:458: Failed to list *v1.Node: Get https://kube-apiserver:6443/api/v1/nodes: dial tcp 172.16.91.10:6443: connect: connection refused
Nov 22 16:53:37 k8s-master-01 kubelet: E1122 16:53:37.513866   22530 kubelet.go:2263] node \"k8s-master-01\" not found
";
    const RUNTIME: &str = "Nov 22 16:42:12 k8s-master-01 containerd: time=\"2024-11-22T16:42:12.359539679+08:00\" level=error msg=\"RunPodSandbox for &PodSandboxMetadata{Name:kube-apiserver-k8s-master-01,Uid:af685e7d4585dfcacbcd21ee025739b6,Namespace:kube-system,Attempt:0,} failed, error\" error=\"failed to create containerd task\"\n";
    // Observations of all rows of the summary; each has as many lines as observations and what was left out.
    let observed = |said: &str| -> u64 {
        let rows = said.lines().filter(|l| l.starts_with("node.txt"));
        let numbers = rows.map(|row| {
            let numbers = row.split([' ', ',']).filter_map(|n| n.parse().ok());
            let numbers: Vec<u64> = numbers.collect();
            let [lines, observations, left @ ..] = &numbers[..] else {
                panic!("{said}");
            };
            assert_eq!(*lines, observations + left.iter().sum::<u64>(), "{said}");
            *observations
        });
        numbers.sum()
    };
    let desk = Desk::new();
    let whole = desk.file("node.txt", format!("{TEXT}\n{RUNTIME}"));
    let (_, said) = desk.import("a.kflow", &[&whole]);
    assert_eq!(observed(&said), 3, "{said}");
    // Without what syslog puts before them, they are lines in a ticket.
    let front = |line: &str| line.split_once(": ").unwrap().1.to_owned() + "\n";
    let lines: String = TEXT
        .lines()
        .skip(1)
        .chain(RUNTIME.lines())
        .map(front)
        .collect();
    let prose = "It does not start, and I do not know why.\n";
    let ticket = desk.file("node.txt", format!("{prose}{lines}{prose}"));
    let (_, said) = desk.import("b.kflow", &[&ticket]);
    assert_eq!(observed(&said), 2, "{said}");
    assert!(said.contains("not read: node.txt (2 lines, "), "{said}");
}

#[test]
fn a_table_of_which_nothing_is_read_does_not_hide_the_rest() {
    // k8s-worker: a line below `Taints:` and a table of services.
    const NODES: &str = "NAME         STATUS     ROLES           AGE   VERSION\nk8s-cp       Ready      control-plane   98s   v1.37.1\nk8s-worker   NotReady   worker          62s   v1.37.1\n\n";
    const TAINTS: &str = "Taints:             node.kubernetes.io/unreachable:NoExecute\n                    node.kubernetes.io/unreachable:NoSchedule\nUnschedulable:      false\n\n";
    const SERVICES: &str = "NAME         TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nkubernetes   ClusterIP   10.96.0.1    <none>        443/TCP   98s\n\n";
    for content in [
        format!("{NODES}{TAINTS}"),
        format!("{SERVICES}{NODES}"),
        format!("{SERVICES}{}{TAINTS}{NODES}", SERVICES.repeat(3)),
    ] {
        let desk = Desk::new();
        let file = desk.file("report.txt", &content);
        let (_, said) = desk.import("a.kflow", &[&file]);
        assert!(said.contains(": 2 observations"), "{content}{said}");
    }
}

#[test]
fn an_import_of_nothing_shows_lines_that_it_left_out() {
    // A line of k3s at the level info, of which nothing is read.
    let line = "Jan 16 08:04:11 k3s-agent k3s[1561]: time=\"2020-01-16T08:04:11.984848590Z\" level=info msg=\"Cluster-Http-Server 2020/01/16 08:04:11 http: TLS handshake error from 10.0.2.15:34326: remote error: tls: bad certificate\"\n";
    let desk = Desk::new();
    let file = desk.file("agent.txt", line);
    let said = desk.refused(&[&file]);
    assert!(said.contains("left out of agent.txt: "), "{said}");
    assert!(
        said.contains("remote error: tls: bad certificate"),
        "{said}"
    );
}

/// minikube's list of the problems that it finds in the kubelet's log (kubernetes/minikube 11105).
#[test]
fn a_list_of_lines_of_a_log_is_read() {
    let desk = Desk::new();
    let line = "Apr 15 17:20:59 minikube kubelet[46838]: E0415 17:20:59.573652   46838 pod_workers.go:191] Error syncing pod e9e9e53797e35b959b763a2796bbb4b4 (\"etcd-minikube_kube-system(e9e9e53797e35b959b763a2796bbb4b4)\"), skipping: failed to \"StartContainer\" for \"etcd\" with CrashLoopBackOff: \"back-off 1m20s restarting failed container=etcd pod=etcd-minikube_kube-system(e9e9e53797e35b959b763a2796bbb4b4)\"";
    for mark in ["", "- ", "  - ", "* ", "    * "] {
        let paste = format!("X Problems detected in kubelet:\n{mark}{line}\n");
        let o = run(&["why", "--all", "-s", &desk.file("issue.md", &paste)]);
        let said = text(&o.stdout);
        assert!(said.contains("KF708"), "{mark:?}\n{said}");
        assert!(said.contains("etcd-minikube"), "{mark:?}\n{said}");
    }
}

/// Ansible's `k8s_info` prints whole objects as a member of its own result.
#[test]
fn objects_within_another_are_read() {
    let desk = Desk::new();
    let pod = |kind: &str| {
        format!(
            r#"{{{kind}"metadata": {{"name": "filebeat-xl5n4", "namespace": "filebeat", "uid": "b759e5db", "creationTimestamp": "2022-07-13T21:58:20Z"}}, "spec": {{"containers": [{{"name": "filebeat", "image": "filebeat"}}]}}, "status": {{"phase": "Pending", "containerStatuses": [{{"name": "filebeat", "ready": false, "restartCount": 0, "image": "filebeat", "imageID": "", "state": {{"waiting": {{"reason": "ErrImagePull", "message": "not found"}}}}}}]}}}}"#
        )
    };
    let named = pod(r#""apiVersion": "v1", "kind": "Pod", "#);
    for (result, is_read) in [
        (
            format!(r#"{{"changed": false, "resources": [{named}], "failed": false}}"#),
            true,
        ),
        (format!(r#"{{"resources": [], "result": [{named}]}}"#), true),
        (
            r#"{"changed": false, "resources": [{"metadata": {"name": "x"}}]}"#.to_owned(),
            false,
        ),
    ] {
        let o = run(&["why", "--all", "-s", &desk.file("pod_info.txt", &result)]);
        let said = text(&o.stdout);
        assert_eq!(
            said.contains("filebeat/filebeat-xl5n4"),
            is_read,
            "{result}\n{said}"
        );
    }
}
