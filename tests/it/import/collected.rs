//! Bundles as tools collect them: the paths are theirs, the content is that of `fixtures/captures`, printed as their
//! `journalctl` does. Which tool has which paths was read in its source: docs/sources.md.

use super::{Desk, capture, fixture, run, text};
use std::collections::BTreeMap;
use std::path::Path;

/// The lines of a log as `journalctl` prints them, without its first line.
fn printed(log: &str, host: &str, ident: &str, offset: i64) -> String {
    let mut out = String::new();
    let mut clock = "Nov 21 01:00:00.000000".to_owned();
    for line in text(&capture(log)).lines().filter(|l| !l.trim().is_empty()) {
        let at = match line.as_bytes() {
            // klog: I1121 01:03:20.100000
            [_, b'1', b'1', b'2', b'1', b' ', ..] => line.get(6..21),
            // logrus: time="2026-11-21T01:03:20.123456789Z"
            _ => line
                .strip_prefix("time=\"2026-11-21T")
                .and_then(|l| l.get(..15)),
        };
        if let Some(at) = at {
            clock = format!("Nov 21 {at}");
        }
        out.push_str(&format!(
            "{clock} {host} {ident}[{}]: {line}\n",
            700 + offset
        ));
    }
    out
}

const HEADER: &str = "-- Journal begins at Sat 2026-11-21 00:00:00 UTC. --\n";

fn kubelet(host: &str) -> String {
    format!("{HEADER}{}", printed("kubelet.log", host, "kubelet", 0))
}

fn containerd(host: &str) -> String {
    format!(
        "{HEADER}{}",
        printed("containerd.log", host, "containerd", 1)
    )
}

/// Both logs as one journal, in order of time, with lines of other programs.
fn of_all(hosts: &[&str]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for host in hosts {
        for text in [
            printed("kubelet.log", host, "kubelet", 0),
            printed("containerd.log", host, "containerd", 1),
        ] {
            lines.extend(text.lines().map(str::to_owned));
        }
        lines.push(format!(
            "Nov 21 01:03:20.000000 {host} dockerd[9]: time=\"2026-11-21T01:03:20Z\" level=info msg=\"not of containerd\""
        ));
        lines.push(format!(
            "Nov 21 01:03:21.000000 {host} kernel: eth0: link becomes ready"
        ));
    }
    lines.sort_by(|a, b| a.get(..22).cmp(&b.get(..22)));
    lines.join("\n") + "\n"
}

struct Tree<'a>(&'a Desk, &'a str);

impl Tree<'_> {
    fn put(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.0.dir.path().join(self.1).join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }
    fn path(&self) -> String {
        self.0.path(self.1)
    }
}

/// The number of observations of each source, and the pods, of a session.
fn observed(session: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in text(&super::unpacked(session)).lines().skip(1) {
        let o: serde_json::Value = serde_json::from_str(line).unwrap();
        *counts
            .entry(o["src"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    counts
}

fn node_of(session: &str) -> String {
    let first = text(&super::unpacked(session));
    let header: serde_json::Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    header["node"].as_str().unwrap_or_default().to_owned()
}

/// What the two logs give by themselves.
fn alone(desk: &Desk) -> BTreeMap<String, usize> {
    let log = |name: &str| {
        fixture(&format!("captures/{name}.zst"))
            .display()
            .to_string()
    };
    let (session, _) = desk.import(
        "alone.kflow",
        &[
            "--kubelet-log",
            &log("kubelet.log"),
            "--containerd-log",
            &log("containerd.log"),
        ],
    );
    observed(&session)
}

fn import(desk: &Desk, tree: &Tree<'_>, more: &[&str]) -> (String, String) {
    let path = tree.path();
    let args = [&[path.as_str(), "--year", "2026"], more].concat();
    desk.import("tree.kflow", &args)
}

#[test]
fn the_logs_of_a_node_are_found_under_the_names_of_every_collector() {
    let desk = Desk::new();
    let want = alone(&desk);
    let host = "ip-10-0-1-2.eu-central-1.compute.internal";
    for (n, (kubelet_at, containerd_at)) in [
        // Amazon's log collector for EKS.
        ("kubelet/kubelet.log", "containerd/containerd-log.txt"),
        // sos.
        (
            "sosreport-a/sos_commands/kubernetes/journalctl_--no-pager_--unit_kubelet",
            "sosreport-a/sos_commands/containerd/journalctl_--no-pager_--unit_containerd",
        ),
        // Rancher's collector.
        ("a-2026/journald/kubelet", "a-2026/journald/containerd"),
        // Troubleshoot's host collectors.
        (
            "support-bundle/host-collectors/run-host/journalctl-kubelet.txt",
            "support-bundle/host-collectors/run-host/some-name.txt",
        ),
        // A log of each unit, as many scripts write it.
        ("node/kubelet_service.log", "node/containerd_service.log"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("tree-{n}");
        let tree = Tree(&desk, &name);
        tree.put(kubelet_at, kubelet(host))
            .put(containerd_at, containerd(host));
        // What has the name of a component, and is no log of it.
        tree.put(
            "containerd/containerd-config.txt",
            "version = 2\n[plugins]\n",
        )
        .put(
            "containerd/containerd.400.stacks.log",
            "goroutine 1 [running]:\n",
        )
        .put(
            "kubelet/kubelet_service.txt",
            "[Unit]\nDescription=kubelet\n",
        )
        .put(
            "kubelet/kubelet-config.json",
            "{\"kind\":\"KubeletConfiguration\"}",
        )
        .put("ipamd/pods.json", "{\"10.0.0.1\":{\"namespace\":\"a\"}}")
        .put(
            "systemlogs/audit.log",
            "type=DAEMON_START msg=audit(1795: 1): op=start\n",
        );
        let (session, said) = import(&desk, &tree, &[]);
        assert_eq!(observed(&session), want, "{kubelet_at}: {said}");
        assert_eq!(node_of(&session), host, "{kubelet_at}");
        for promised in [
            "ipamd/pods.json (not",
            "systemlogs/audit.log (not",
            "not a log of containerd: containerd/containerd-config.txt, containerd/containerd.400.stacks.log",
        ] {
            assert!(said.contains(promised), "{promised}: {said}");
        }
    }
}

#[test]
fn a_journal_of_all_units_has_the_logs_of_each() {
    let desk = Desk::new();
    let want = alone(&desk);
    let tree = Tree(&desk, "minikube");
    tree.put("logs.txt", of_all(&["minikube"]));
    let (session, said) = import(&desk, &tree, &[]);
    assert_eq!(observed(&session), want, "{said}");
    assert!(said.contains("of another program"), "{said}");

    // Where a log is there by itself too, it is not read twice.
    let tree = Tree(&desk, "kind");
    tree.put("kind-worker/journal.log", of_all(&["kind-worker"]))
        .put("kind-worker/kubelet.log", kubelet("kind-worker"));
    let (session, said) = import(&desk, &tree, &[]);
    assert_eq!(observed(&session), want, "{said}");
    assert!(
        said.contains("journal.log (a log of the kubelet is there as a file of its own)"),
        "{said}"
    );

    // Of two journals with the same lines one is read, with what was rotated off it.
    let tree = Tree(&desk, "messages");
    let whole = of_all(&["a"]);
    let half = whole.lines().count() / 2;
    let part = |lines: Vec<&str>| lines.join("\n") + "\n";
    tree.put(
        "var/log/messages-20261121",
        part(whole.lines().take(half).collect()),
    )
    .put("var/log/messages", part(whole.lines().skip(half).collect()))
    .put(
        "logs/journalctl_--boot",
        part(whole.lines().skip(half + 9).collect()),
    );
    let (session, said) = import(&desk, &tree, &[]);
    assert_eq!(observed(&session), want, "{said}");
    assert!(
        said.contains("journalctl_--boot (a log of containerd is in another journal too)"),
        "{said}"
    );
}

#[test]
fn lines_that_are_in_several_files_count_once() {
    let desk = Desk::new();
    let want = alone(&desk);
    let tree = Tree(&desk, "rancher");
    let host = "a";
    let (kubelet, containerd) = (kubelet(host), containerd(host));
    let late = |journal: &str| {
        let lines: Vec<&str> = journal.lines().collect();
        lines[lines.len() / 3..].join("\n") + "\n"
    };
    let early = |journal: &str| {
        let lines: Vec<&str> = journal.lines().collect();
        lines[..lines.len() / 2].join("\n") + "\n"
    };
    tree.put("journald/kubelet", late(&kubelet))
        .put("systemlogs/syslog", early(&kubelet))
        // As the kubelet wrote it, without the journal's time.
        .put("kubelet.log", capture("kubelet.log"))
        .put("journald/containerd", late(&containerd))
        .put("containerd/containerd.log", early(&containerd));
    let (session, said) = import(&desk, &tree, &[]);
    assert_eq!(observed(&session), want, "{said}");
    assert!(said.contains("in another file too"), "{said}");
}

#[test]
fn of_several_nodes_one_is_taken_and_the_others_are_named() {
    let desk = Desk::new();
    let want = alone(&desk);
    let lists = |tree: &Tree<'_>| {
        let pods = fixture("bundle/handy/pods.json");
        tree.put(
            "namespaces/handy/core/pods.json",
            std::fs::read(pods).unwrap(),
        );
    };
    // A folder for each node; Talos names it by the address, and its logs name no host.
    let by_folder = Tree(&desk, "talos");
    for node in ["10.5.0.2", "10.5.0.3"] {
        by_folder
            .put(
                &format!("{node}/service-logs/kubelet.log"),
                capture("kubelet.log"),
            )
            .put(
                &format!("{node}/service-logs/cri.log"),
                capture("containerd.log"),
            )
            .put(
                &format!("{node}/service-logs/containerd.log"),
                "time=\"2026-11-21T01:03:20Z\" level=info msg=\"the system's\"\n",
            );
    }
    // Content that differs, so that it is not taken for the same file.
    by_folder.put(
        "10.5.0.3/service-logs/kubelet.log",
        [capture("kubelet.log"), b"\n".to_vec()].concat(),
    );
    by_folder.put(
        "10.5.0.3/service-logs/cri.log",
        [capture("containerd.log"), b"\n".to_vec()].concat(),
    );
    // The journals of all masters in one file, as `oc adm must-gather` merges them.
    let merged = Tree(&desk, "must-gather");
    let of_both = |log: &str, ident: &str| {
        let mut lines: Vec<String> = Vec::new();
        for (n, host) in ["master-0", "master-1"].into_iter().enumerate() {
            let text = printed(log, host, ident, n as i64);
            lines.extend(text.lines().map(str::to_owned));
        }
        lines.sort();
        lines.join("\n") + "\n"
    };
    merged
        .put(
            "host_service_logs/masters/kubelet_service.log",
            of_both("kubelet.log", "kubenswrapper"),
        )
        .put(
            "host_service_logs/masters/containerd_service.log",
            of_both("containerd.log", "containerd"),
        );
    // A folder for each node, and the host in each line.
    let by_both = Tree(&desk, "kind");
    for node in ["kind-control-plane", "kind-worker"] {
        by_both
            .put(&format!("{node}/kubelet.log"), kubelet(node))
            .put(&format!("{node}/containerd.log"), containerd(node));
    }
    for (tree, nodes) in [
        (by_folder, ["10.5.0.2", "10.5.0.3"]),
        (merged, ["master-0", "master-1"]),
        (by_both, ["kind-control-plane", "kind-worker"]),
    ] {
        let said = desk.refused(&[&tree.path(), "--year", "2026"]);
        assert!(said.contains("--node"), "{said}");
        assert!(nodes.iter().all(|n| said.contains(n)), "{said}");
        let alike = format!("{}.7", nodes[0]);
        assert!(
            tree.1 != "talos"
                || desk
                    .refused(&[&tree.path(), "--node", &alike])
                    .contains("no captures of node")
        );
        let said = desk.refused(&[&tree.path(), "--node", "no-such"]);
        assert!(said.contains("no captures of node no-such"), "{said}");
        for node in nodes {
            let (session, said) = import(&desk, &tree, &["--node", node]);
            assert_eq!(observed(&session), want, "{node}: {said}");
            assert_eq!(node_of(&session), node);
            // The summary has a row for each file that was read.
            for other in nodes.iter().filter(|n| **n != node) {
                let (_, read) = said.split_once("input ").unwrap();
                assert!(!read.contains(*other), "{node}: {said}");
            }
            // The host's name may have its domain, or the node's may.
            if !node.starts_with("10.") {
                let with_domain = format!("{node}.example.com");
                let (session, said) = import(&desk, &tree, &["--node", &with_domain]);
                assert_eq!(observed(&session), want, "{with_domain}: {said}");
            }
        }
        // With lists of objects the rest is worth a session.
        lists(&tree);
        let (session, said) = import(&desk, &tree, &[]);
        assert!(
            said.contains("The captures of nodes were left out"),
            "{said}"
        );
        assert!(observed(&session).keys().eq(["kube"]), "{said}");
        // A log that names no host may be of any of them.
        if !nodes[0].starts_with("10.") {
            let log = [capture("kubelet.log"), b"\n\n".to_vec()].concat();
            tree.put("kubelet.log", log);
            let (session, said) = import(&desk, &tree, &[]);
            assert!(said.contains("it names no node"), "{said}");
            assert!(observed(&session).keys().eq(["kube"]), "{said}");
        }
    }
}

#[test]
fn lists_are_found_as_commands_and_types_name_them() {
    let desk = Desk::new();
    let list = |name: &str| std::fs::read(fixture(&format!("bundle/handy/{name}.json"))).unwrap();
    let known = Tree(&desk, "dump");
    known
        .put("handy/pods.json", list("pods"))
        .put("handy/events.json", list("events"));
    let (want, _) = desk.import("dump.kflow", &[&known.path()]);
    let want = observed(&want);
    let sos = Tree(&desk, "sos");
    let command = |kind: &str| {
        format!(
            "sos_commands/kubernetes/cluster-info/handy/kubectl_--kubeconfig_.etc.kubernetes.admin.conf_get_-o_json_--namespace_handy_{kind}"
        )
    };
    sos.put(&command("pods"), list("pods"))
        .put(&command("events"), list("events"))
        .put(
            &command("secrets"),
            "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[]}",
        );
    let one_file = Tree(&desk, "microk8s");
    let stream = [
        &list("events")[..],
        b"==== START logs for container a of pod handy/web ====\nhello\n==== END logs for container a of pod handy/web ====\n",
        &list("pods"),
    ]
    .concat();
    one_file.put("k8s/cluster-info-dump", stream);
    // Lists of the API's own types without their kinds, as `talosctl support` writes them.
    let talos = Tree(&desk, "talos");
    let untyped = |name: &str| {
        let mut list: serde_json::Value = serde_json::from_slice(&list(name)).unwrap();
        let object = list.as_object_mut().unwrap();
        object.remove("kind");
        object.remove("apiVersion");
        for item in object["items"].as_array_mut().unwrap() {
            item.as_object_mut().unwrap().remove("kind");
            item.as_object_mut().unwrap().remove("apiVersion");
        }
        list.to_string()
    };
    talos
        .put("kubernetesResources/systemPods.json", untyped("pods"))
        .put("kubernetesResources/events.json", untyped("events"));
    for tree in [sos, one_file, talos] {
        let (got, said) = desk.import("tree.kflow", &[&tree.path()]);
        assert_eq!(observed(&got), want, "{}: {said}", tree.1);
    }
}

#[test]
fn what_kubectl_printed_is_found_by_its_content() {
    let desk = Desk::new();
    let described = std::fs::read(fixture("kubectl/s1-healthy-1.36.txt")).unwrap();
    let known = Tree(&desk, "known");
    known.put("describe.txt", &described);
    let (want, _) = desk.import("known.kflow", &[&known.path()]);
    let other = Tree(&desk, "rancher");
    other.put("kubectl/poddescribe/handy", &described);
    let (got, said) = desk.import("other.kflow", &[&other.path()]);
    assert_eq!(observed(&got), observed(&want), "{said}");
}

#[test]
fn a_file_that_says_nothing_about_itself_says_what_to_do() {
    let desk = Desk::new();
    let klog = desk.file("some.txt", capture("kubelet.log"));
    for (path, want) in [
        (klog, "--kubelet-log"),
        (
            desk.file("b.txt", capture("containerd.log")),
            "--containerd-log",
        ),
        (desk.file("d.txt", "NAME   READY   STATUS\n"), "-o json"),
        (
            desk.file("e.kflow", "{\"kflow\":1,\"tool\":\"0.1.0\"}\n"),
            "kflow replay",
        ),
        (desk.file("f.txt", "hello\n"), "the flag of their kind"),
        (desk.file("g.bz2", "BZh91AY&SY"), "bzip2"),
    ] {
        let said = desk.refused(&[&path]);
        assert!(said.contains(want), "{path}: {said}");
        // Nor is it passed over beside others.
        let said = desk.refused(&[&path, &desk.file("kubelet.log", capture("kubelet.log"))]);
        assert!(said.contains(want), "{path}: {said}");
    }
    // What names itself needs no name.
    for (flag, capture) in [
        ("--audit", capture("audit.jsonl")),
        ("--watch", capture("watch.jsonl")),
        (
            "--watch",
            std::fs::read(fixture("bundle/handy/pods.json")).unwrap(),
        ),
        (
            "--watch",
            std::fs::read(fixture("kube/kubectl-get.yaml")).unwrap(),
        ),
    ] {
        let path = desk.file("attachment", capture);
        let (a, _) = desk.import("a.kflow", &[&path]);
        let (b, _) = desk.import("b.kflow", &[flag, &path]);
        assert!(super::unpacked(&a) == super::unpacked(&b), "{flag}");
    }
    let o = run(&["import", "-O", &desk.path("x.kflow")]);
    assert!(
        text(&o.stderr).contains("name at least one capture"),
        "{}",
        text(&o.stderr)
    );
    assert!(!Path::new(&desk.path("x.kflow")).exists());
}

/// The kubelet's flags and cAdvisor's lines can fill the whole begin of a log.
#[test]
fn a_log_that_begins_with_nothing_of_use_is_a_log() {
    let desk = Desk::new();
    let log = text(&capture("kubelet.log"));
    let flag = log.lines().find(|l| l.contains("FLAG: ")).unwrap();
    let begin = format!("{flag}\n").repeat((1 << 18) / flag.len() + 2_100);
    let path = desk.file("kubelet.log", format!("{begin}{log}"));
    let (session, _) = desk.import("a.kflow", &["--year", "2026", &path]);
    let (want, _) = desk.import("b.kflow", &["--year", "2026", "--kubelet-log", &path]);
    assert!(super::unpacked(&session) == super::unpacked(&want));
    assert!(observed(&session)["kubelet"] > 1_000);
    // A list of settings has lines of that kind neither.
    let path = desk.file("kubelet-config.txt", "a = 1\n\n\tb = 2\n".repeat(99));
    let said = desk.refused(&[&path]);
    assert!(said.contains("(not a log of the kubelet)"), "{said}");
}

/// Short lines of `minikube logs` of public reports (addresses in `fixtures/reports.tsv`): its sections are of many programs that write
/// klog, and only those that kflow knows by their heading are read, each by its own reader.
#[test]
fn the_sections_of_minikube_logs_are_told_apart() {
    const BACK_OFF: &str = r#"Sep 09 02:20:50 minikube kubelet[2142]: E0909 02:20:50.489480    2142 pod_workers.go:1298] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"product-service\" with ImagePullBackOff: \"Back-off pulling image \\\"localhost:5000/product-service\\\"\"" pod="default/product-service" podUID="7b13d9fa-886a-42dd-91d4-ebefdaff6212""#;
    const OTHERS: &str = "\
==> Audit <==
|---------|------|----------|------|---------|---------------------|---------------------|
| Command | Args | Profile  | User | Version |     Start Time      |      End Time       |
|---------|------|----------|------|---------|---------------------|---------------------|

==> Last Start <==
Log file created at: 2024/09/09 10:05:04
Log line format: [IWEF]mmdd hh:mm:ss.uuuuuu threadid file:line] msg
I0909 10:05:04.504496   34556 out.go:345] Setting OutFile to fd 1 ...
I0909 10:05:04.505255   34556 out.go:392] TERM=xterm,COLORTERM=, which probably does not support color

==> Docker <==
Sep 09 02:10:48 minikube dockerd[1154]: time=\"2024-09-09T02:10:48.217443022Z\" level=info msg=\"API listen on /var/run/docker.sock\"

==> container status <==
CONTAINER           IMAGE               CREATED             STATE               NAME                      ATTEMPT             POD ID              POD
ed0c9a3de53a1       a0bf559e280cf       11 minutes ago      Running             kube-proxy                0                   a1e16e9787775       kube-proxy-272fw

";
    const STORAGE: &str = "\
==> storage-provisioner [7c0ae6f32828] <==
I0909 02:11:13.502106       1 storage_provisioner.go:116] Initializing the minikube storage provisioner...
F0909 02:11:34.567814       1 main.go:39] error getting server version: Get \"https://10.96.0.1:443/version?timeout=32s\": dial tcp 10.96.0.1:443: connect: connection refused
";
    const CONTROLLER: &str = "\
==> kube-controller-manager [85ee59c9d7b1] <==
I0909 02:11:12.666628       1 replica_set.go:676] \"Finished syncing\" logger=\"replicaset-controller\" kind=\"ReplicaSet\" key=\"kube-system/coredns-7db6d8ff4d\" duration=\"441.99397ms\"

";
    let desk = Desk::new();
    let whole = format!("\n{OTHERS}{CONTROLLER}==> kubelet <==\n{BACK_OFF}\n{STORAGE}");
    // Releases of 2020 to 2022 put a sign before headings; PowerShell writes UTF-16 with carriage returns.
    let signed = whole.replace("==> ", "* ==> ").replace("\n\n", "\n* \n");
    let windows = signed.replace('\n', "\r\n");
    let wide: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain(windows.encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    for (n, text_of) in [whole.clone().into_bytes(), signed.into_bytes(), wide]
        .into_iter()
        .enumerate()
    {
        let path = desk.file(&format!("minikube-{n}.txt"), text_of);
        let (session, said) = desk.import(&format!("{n}.kflow"), &["--year", "2024", &path]);
        for told in [
            ": kubelet ",
            "ontroller-manager [85ee59c9d7b1]",
            "of its sections Audit, Docker, Last Start, storage-provisioner)",
        ] {
            assert!(said.contains(told), "{told}: {said}");
        }
        assert_eq!(node_of(&session), "minikube");
        let sources = ["control", "kubelet", "runtime"].map(|s| (s.to_owned(), 1));
        let sources = BTreeMap::from(sources);
        assert_eq!(observed(&session), sources, "{said}");
        let why = text(&run(&["why", "--all", "-s", &session]).stdout);
        assert!(why.contains("default/product-service"), "{why}");
        assert!(!why.contains("KF301") && !why.contains("<=="), "{why}");
    }
    // In a folder as well.
    let tree = Tree(&desk, "report");
    tree.put("a/minikube_logs.txt", &whole);
    let (_, said) = import(&desk, &tree, &[]);
    assert!(said.contains("minikube_logs.txt: kubelet"), "{said}");
}

/// Lines of MicroK8s' inspection report (github.com/Sheshma515/React-To-do-list): journals in the host's zone, in which only containerd says
/// which that is, and beside each what `systemctl status` prints of its unit.
#[test]
fn a_journal_is_in_the_zone_that_a_line_of_its_host_tells() {
    const SUDO: &str = "Oct 29 17:22:59 microk8s-vm sudo[3043]:     root : PWD=/var/snap/microk8s/7231 ; USER=root ; COMMAND=/snap/microk8s/7231/bin/sed\n";
    const KUBELET: &str = r#"Oct 29 17:23:22 microk8s-vm microk8s.daemon-kubelite[2978]: I1029 17:23:22.351344    2978 reconciler_common.go:258] "operationExecutor.VerifyControllerAttachedVolume started for volume \"var-run-calico\" (UniqueName: \"kubernetes.io/host-path/69b9a2cd-3b81-471b-87cc-dc71c33a5732-var-run-calico\") pod \"calico-node-kwv84\" (UID: \"69b9a2cd-3b81-471b-87cc-dc71c33a5732\") " pod="kube-system/calico-node-kwv84"
"#;
    const CONTAINERD: &str = "Oct 29 17:23:22 microk8s-vm microk8s.daemon-containerd[2842]: time=\"2024-10-29T17:23:22.585026663+05:30\" level=info msg=\"RunPodSandbox for &PodSandboxMetadata{Name:calico-node-kwv84,Uid:69b9a2cd-3b81-471b-87cc-dc71c33a5732,Namespace:kube-system,Attempt:0,}\"\n";
    let status = |log: &str| {
        format!(
            "● x.service - Service\n     Loaded: loaded (/etc/systemd/system/x.service; enabled)\n     Active: active (running) since Tue 2024-10-29 17:22:17 IST; 40min ago\n   Main PID: 2978\n\n{}",
            log.repeat(10)
        )
    };
    let desk = Desk::new();
    let times = |session: &str, source: &str| -> Vec<String> {
        let all = text(&super::unpacked(session));
        let lines = all.lines().skip(1);
        let of = lines.map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        let of = of.filter(|o| o["src"] == source);
        of.map(|o| kflow_model::Nanos(o["t"].as_i64().unwrap()).to_rfc3339_seconds())
            .collect()
    };
    let tree = Tree(&desk, "inspection-report");
    tree.put("kubelite/journal.log", format!("{SUDO}{KUBELET}{KUBELET}"))
        .put("kubelite/systemctl.log", status(KUBELET))
        .put("containerd/journal.log", CONTAINERD)
        .put("containerd/systemctl.log", status(CONTAINERD));
    let (session, said) = desk.import("a.kflow", &[&tree.path()]);
    assert!(
        said.contains("the last lines of a log that is there"),
        "{said}"
    );
    assert!(said.contains("kubelite/journal.log  "), "{said}");
    assert_eq!(
        times(&session, "runtime"),
        ["2024-10-29T11:53:22Z"],
        "{said}"
    );
    assert_eq!(
        times(&session, "kubelet"),
        ["2024-10-29T11:53:22Z"; 2],
        "{said}"
    );
    // What the user says holds.
    let (session, _) = desk.import("b.kflow", &["--utc-offset", "+01:00", &tree.path()]);
    assert_eq!(times(&session, "kubelet"), ["2024-10-29T16:23:22Z"; 2]);
    // Nothing else tells of the kubelet.
    std::fs::remove_file(desk.path("inspection-report/kubelite/journal.log")).unwrap();
    let (session, said) = desk.import("c.kflow", &[&tree.path()]);
    assert_eq!(
        times(&session, "kubelet"),
        ["2024-10-29T11:53:22Z"; 10],
        "{said}"
    );
}

/// What crictl lists is of the pods that other captures name, under the whole ids that they tell. The line and the rows are of
/// github.com/ChatchawanSama/poc-minikube (minikube-logs.txt), the line of the runtime is as dockershim and CRI plugins write it.
#[test]
fn what_crictl_lists_is_of_the_pods_that_the_node_names() {
    const KUBELET: &str = r#"Sep 17 09:30:41 minikube kubelet[2334]: E0917 09:30:41.230875    2334 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"service-b\" with CreateContainerConfigError: \"secret \\\"my-secret\\\" not found\"" pod="default/service-b-8587c97ccf-tnl8s" podUID="c736a676-97d9-462b-ab31-8b955b42cc71"
Sep 17 09:32:50 minikube kubelet[2334]: I0917 09:32:50.894820    2334 kubelet.go:2453] "SyncLoop (PLEG): event for pod" pod="default/service-b-8587c97ccf-tnl8s" event={"ID":"c736a676-97d9-462b-ab31-8b955b42cc71","Type":"ContainerStarted","Data":"2e755bb8077e3aa5b23a1d3c2f6a7e8d9c0b1a2f3e4d5c6b7a8f9e0d1c2b3a4f"}
"#;
    const PS: &str = "\
CONTAINER           IMAGE               CREATED             STATE               NAME                      ATTEMPT             POD ID              POD
2e755bb8077e3       412128b1415a1       4 minutes ago       Running             service-b                 0                   0c70707160cb7       service-b-8587c97ccf-tnl8s
eebe487fcbe31       4414052a8544c       About a minute ago   Running             service-a                 0                   872d79c051c02       service-a-76bb7cff64-qmmlq
";
    // As cri-tools 1.33 prints it.
    let of_pods = "\
POD ID              CREATED             STATE               NAME                         NAMESPACE           ATTEMPT             RUNTIME
0c70707160cb7       4 minutes ago       Ready               service-b-8587c97ccf-tnl8s   default             0                   (default)
";
    let with_namespace = PS
        .replace("POD\n", "POD                          NAMESPACE\n")
        .replace("tnl8s\n", "tnl8s   default\n")
        .replace("qmmlq\n", "qmmlq   default\n");
    let sections =
        |table: &str| format!("==> kubelet <==\n{KUBELET}\n\n==> container status <==\n{table}\n");
    let desk = Desk::new();
    let written = "2024-09-17T09:37:18Z";
    let listed = |session: &str| -> Vec<serde_json::Value> {
        let all = text(&super::unpacked(session));
        let lines = all.lines().filter_map(|l| serde_json::from_str(l).ok());
        let tables = lines.filter_map(|o: serde_json::Value| o.pointer("/b/inventory/it").cloned());
        tables
            .flat_map(|t| t.as_array().cloned().unwrap_or_default())
            .collect()
    };
    let check = |session: &str, said: &str| {
        let items = listed(session);
        let of_b: Vec<_> = items
            .iter()
            .filter(|i| i["sub"]["pod"]["n"] == "service-b-8587c97ccf-tnl8s")
            .collect();
        assert!(!of_b.is_empty(), "{said}");
        for item in of_b {
            let uid = &item["sub"]["pod"]["u"];
            assert_eq!(uid, "c736a676-97d9-462b-ab31-8b955b42cc71", "{said}");
            let id = item["sub"]["cid"].as_str().unwrap_or_default();
            assert!(id.is_empty() || id.len() == 64, "{item}");
            assert_eq!(item["ct"], 1_726_565_598_000_000_000_i64, "{item}");
        }
        // Nothing else names its pod.
        let mut of_a = items.iter().filter(|i| i["sub"]["c"] == "service-a");
        assert!(
            of_a.all(|i| i["sub"]["pod"].get("u").is_none()),
            "{items:?}"
        );
        let pod = "default/service-b-8587c97ccf-tnl8s";
        let timeline = run(&["timeline", pod, "-s", session]);
        text(&timeline.stdout)
    };
    for (n, (table, runs)) in [
        (PS.to_owned(), true),
        (format!("* {PS}"), true),
        (with_namespace, true),
        (of_pods.to_owned(), false),
    ]
    .into_iter()
    .enumerate()
    {
        let minikube = desk.file_of(&format!("{n}.txt"), sections(&table), written);
        let (session, said) = desk.import(&format!("{n}.kflow"), &["--year", "2024", &minikube]);
        let timeline = check(&session, &said);
        assert_eq!(timeline.contains("Running"), runs, "{timeline}");
        // Beside a log, in a folder, and in a ticket.
        let tree = Tree(&desk, "rke2");
        tree.put("rke2/crictl/psa", &table);
        tree.put("journald/kubelet.log", KUBELET);
        let taken = ["--year", "2024", "--taken", written];
        let (session, said) = desk.import("tree.kflow", &[&[&*tree.path()], &taken[..]].concat());
        check(&session, &said);
        let ticket = format!("Why?\n\n```\n$ sudo crictl ps -a\n{table}```\n");
        let ticket = desk.file_of("ticket.md", ticket, written);
        let log = desk.file("kubelet.log", KUBELET);
        let (session, said) = desk.import("t.kflow", &["--year", "2024", &ticket, &log]);
        check(&session, &said);
    }
}

/// Rows of Rancher's collector (`rke2/kubectl/pods`), which writes when it ran into `systeminfo/date`, and into its name. The files have the
/// time of a copy.
#[test]
fn tables_are_as_old_as_their_bundle_says() {
    let desk = Desk::new();
    let tree = Tree(&desk, "w-guard-2025-12-04_09_15_57");
    let pods = "NAMESPACE       NAME                                        READY   STATUS             RESTARTS        AGE\n\
        calico-system   calico-kube-controllers-8889b866f-jtlsb     1/1     Running            0               14d\n\
        default         test-oom                                    0/1     CrashLoopBackOff   8 (3m21s ago)   19m\n";
    tree.put("rke2/kubectl/pods", pods);
    let (_, said) = import(&desk, &tree, &[]);
    let by_name = "count as printed at 2025-12-04T09:15:57Z, by the date in the name";
    assert!(said.contains(by_name), "{said}");
    for (date, told) in [
        ("Thu Dec  4 09:15:58 UTC 2025\n", true),
        ("Thu Dec  4 09:15:58 AEDT 2025\n", false),
    ] {
        tree.put("systeminfo/date", date);
        let (session, said) = import(&desk, &tree, &[]);
        let line = "tables and descriptions count as printed at 2025-12-04T09:15:58Z";
        assert_eq!(said.contains(line), told, "{said}");
        assert_ne!(said.contains(by_name), told, "{said}");
        if told {
            let last = text(&super::unpacked(&session));
            // 19 minutes before.
            assert!(last.contains("\"ct\":1764838618000000000"), "{last}");
        }
    }
}

/// A journal names its host with the domain or without.
#[test]
fn a_host_with_and_without_its_domain_is_one() {
    let desk = Desk::new();
    let tree = Tree(&desk, "logs");
    tree.put("kubelet.log", kubelet("node1.example.com"));
    tree.put("containerd.log", containerd("node1"));
    let (session, said) = import(&desk, &tree, &[]);
    assert!(!said.contains("--node"), "{said}");
    assert_eq!(observed(&session), alone(&desk));
    // Two of one name.
    tree.put("other/kubelet.log", kubelet("node1.example.org"));
    let said = desk.refused(&[&tree.path(), "--year", "2026"]);
    assert!(said.contains("choose one with --node"), "{said}");
}
