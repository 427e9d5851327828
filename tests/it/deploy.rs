//! install.sh and uninstall.sh, on a copy of the files that they change, with a systemctl that
//! only records its arguments.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets what it does not expect has failed"
)]

use crate::pages::current;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const KUBELET: &str = "[Service]\nEnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\nEnvironmentFile=-/etc/default/kubelet\nExecStart=/usr/bin/kubelet $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n";

const CONFIG: &str = "var/lib/kubelet/config.yaml";
const SOCKETS: [&str; 3] = [
    "run/containerd/containerd.sock",
    "run/crio/crio.sock",
    "run/cri-dockerd.sock",
];

struct Node {
    root: tempfile::TempDir,
}

impl Node {
    fn new(kubelet_unit: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let node = Self { root };
        for socket in SOCKETS {
            node.write(socket, "");
        }
        // Folders that every system has.
        for dir in ["etc/systemd/system", "usr/local/lib"] {
            fs::create_dir_all(node.path(dir)).unwrap();
        }
        node.write(
            CONFIG,
            "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n",
        );
        node.write(
            "etc/default/kubelet",
            "KUBELET_EXTRA_ARGS=\"--v=4 --node-labels=a=b\"\n",
        );
        node.write("kubelet.service", kubelet_unit);
        // The stand-in for systemctl prints the unit with its drop-ins, as `systemctl cat` does, and records all other
        // commands in `did`.
        node.script(
            "systemctl",
            "case $1 in cat) cat \"$ROOT/kubelet.service\" $ROOT/etc/systemd/system/kubelet.service.d/*.conf 2>/dev/null; exit 0 ;; esac; echo \"$*\" >>\"$ROOT/did\"",
        );
        node.kflow("ok  CRI proxy  kflow 0.1.0 carries 2 connections");
        node
    }
    /// Writes a `kflow` that prints this text about the proxy, and runs the real program to find the kubelet's runtime.
    fn kflow(&self, of_the_proxy: &str) {
        let real = env!("CARGO_BIN_EXE_kflow");
        let body = format!(
            "case \"$*\" in *--upstream*) exec '{real}' \"$@\" ;; esac; echo '{of_the_proxy}'"
        );
        self.script("kflow", &body);
    }
    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }
    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }
    fn script(&self, name: &str, body: &str) {
        self.write(name, &format!("#!/bin/sh\n{body}\n"));
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fn run(&self, script: &Path, args: &[&str]) -> Output {
        self.command(script, args).output().unwrap()
    }
    fn command(&self, script: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command
            .arg(script)
            .args(args)
            .env("ROOT", self.root.path())
            .env("SYSTEMCTL", self.path("systemctl"))
            .env("KFLOW", self.path("kflow"))
            .env("WAIT", "0");
        command
    }
    fn install(&self) -> Output {
        self.install_before(&[])
    }
    fn install_before(&self, runtime: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/install.sh");
        self.run(&script, runtime)
    }
    fn upstream(&self) -> String {
        let text = fs::read_to_string(self.path("etc/kflow/proxy.env")).unwrap();
        let line = text.lines().find_map(|l| l.strip_prefix("KFLOW_UPSTREAM="));
        line.unwrap().to_owned()
    }
    /// Every folder, and every file with its content, except the record of the stand-in for systemctl.
    fn files(&self) -> Vec<(PathBuf, String)> {
        fn walk(dir: &Path, all: &mut Vec<(PathBuf, String)>) {
            for e in fs::read_dir(dir).unwrap().flatten() {
                if e.path().is_dir() {
                    all.push((e.path(), String::new()));
                    walk(&e.path(), all);
                } else if e.file_name() != "did" {
                    all.push((e.path(), fs::read_to_string(e.path()).unwrap()));
                }
            }
        }
        let mut all = Vec::new();
        walk(self.root.path(), &mut all);
        all.sort();
        all
    }
    fn did(&self) -> String {
        fs::read_to_string(self.path("did")).unwrap_or_default()
    }
}

fn text(o: &Output) -> String {
    String::from_utf8_lossy(&o.stderr).into_owned()
}

#[test]
fn installing_keeps_what_the_user_gave_the_kubelet_and_uninstalling_leaves_nothing() {
    let node = Node::new(KUBELET);
    let before = node.files();
    let o = node.install();
    assert!(o.status.success(), "{}", text(&o));
    assert_eq!(
        fs::read_to_string(node.path("etc/kflow/kubelet.env")).unwrap(),
        "# kflow: written by install.sh\nKUBELET_EXTRA_ARGS=\"--v=4 --node-labels=a=b --container-runtime-endpoint=unix:///run/kflow/cri.sock\"\n"
    );
    assert_eq!(node.upstream(), "/run/containerd/containerd.sock");
    // The proxy is started before the kubelet is pointed at it.
    let did = node.did();
    let at = |what: &str| {
        did.lines()
            .position(|l| l == what)
            .unwrap_or_else(|| panic!("{what}: {did}"))
    };
    assert!(at("restart kflow-proxy.service") < at("restart kubelet.service"));

    let installed = node.files();
    assert!(node.install().status.success());
    assert_eq!(
        node.files(),
        installed,
        "installing twice is installing once"
    );

    let uninstall = node.path("usr/local/lib/kflow/uninstall.sh");
    fs::remove_file(node.path("did")).unwrap();
    let o = node.run(&uninstall, &[]);
    assert!(o.status.success(), "{}", text(&o));
    assert_eq!(node.files(), before);
    // The kubelet is pointed back at its runtime before the proxy is stopped.
    let did = node.did();
    let at = |what: &str| {
        did.lines()
            .position(|l| l == what)
            .unwrap_or_else(|| panic!("{what}: {did}"))
    };
    assert!(at("restart kubelet.service") < at("disable --now kflow-proxy.service"));
    let again = node.run(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/uninstall.sh"),
        &[],
    );
    assert!(again.status.success(), "{}", text(&again));
    assert_eq!(
        node.did().matches("restart kubelet.service").count(),
        1,
        "an untapped kubelet is left alone"
    );
}

/// systemd removes a RuntimeDirectory with everything in it whenever the service stops, even for a restart.
#[test]
fn the_proxy_and_its_end_leave_an_agents_sockets_alone() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let unit = fs::read_to_string(deploy.join("kflow-proxy.service")).unwrap();
    let has = |line: &str| unit.lines().any(|l| l == line);
    assert!(has("RuntimeDirectory=kflow") && has("RuntimeDirectoryPreserve=yes"));

    let node = Node::new(KUBELET);
    let names = |with_agent: bool| {
        let own = [
            "cri.sock",
            "cri.sock.lock",
            "observations.sock",
            "observations.sock.lock",
        ];
        for name in own.into_iter().chain(with_agent.then_some("agent.sock")) {
            node.write(&format!("run/kflow/{name}"), "");
        }
        let o = node.run(&deploy.join("uninstall.sh"), &[]);
        assert!(o.status.success(), "{}", text(&o));
        let left = fs::read_dir(node.path("run/kflow")).ok()?;
        Some(left.map(|e| e.unwrap().file_name()).collect::<Vec<_>>())
    };
    assert_eq!(names(true), Some(vec!["agent.sock".into()]));
    fs::remove_file(node.path("run/kflow/agent.sock")).unwrap();
    assert_eq!(names(false), None);
}

#[test]
fn a_kubelet_that_does_not_come_by_way_of_the_proxy_gets_its_runtime_back() {
    let node = Node::new(KUBELET);
    let before = node.files();
    node.kflow("!   CRI proxy  kflow 0.1.0 listens, but nobody uses it");
    let o = node.install();
    assert!(!o.status.success());
    assert!(text(&o).contains("taking it away again"), "{}", text(&o));
    node.kflow("ok  CRI proxy  kflow 0.1.0 carries 2 connections");
    assert_eq!(node.files(), before);
}

#[test]
fn a_kubelet_that_cannot_be_tapped_by_a_drop_in_is_not_touched() {
    let node = Node::new("[Service]\nExecStart=/usr/bin/kubelet --config=/etc/kubelet.yaml\n");
    let before = node.files();
    let o = node.install();
    assert!(!o.status.success());
    assert!(
        text(&o).contains("containerRuntimeEndpoint: unix:///run/kflow/cri.sock"),
        "{}",
        text(&o)
    );
    assert_eq!((node.files(), node.did()), (before, String::new()));
}

#[test]
fn a_kubelet_keeps_its_runtime_whatever_other_runtimes_are_there() {
    for socket in SOCKETS {
        let node = Node::new(KUBELET);
        node.write(
            CONFIG,
            &format!("containerRuntimeEndpoint: unix:///{socket}\n"),
        );
        let before = node.files();
        let o = node.install();
        assert!(o.status.success(), "{}", text(&o));
        assert_eq!(node.upstream(), format!("/{socket}"));
        // The same again, while the kubelet runs through the proxy.
        node.write("proc/7/comm", "kubelet\n");
        node.write(
            "proc/7/cmdline",
            "kubelet\0--config=/var/lib/kubelet/config.yaml\0--container-runtime-endpoint=unix:///run/kflow/cri.sock\0",
        );
        let o = node.install();
        assert!(o.status.success(), "{}", text(&o));
        assert_eq!(node.upstream(), format!("/{socket}"));
        fs::remove_dir_all(node.path("proc")).unwrap();
        let o = node.run(&node.path("usr/local/lib/kflow/uninstall.sh"), &[]);
        assert!(o.status.success(), "{}", text(&o));
        assert_eq!(node.files(), before, "{socket}");
    }
}

#[test]
fn a_runtime_that_is_not_known_is_named_by_a_person_or_nothing_is_done() {
    for (config, says) in [
        ("containerRuntimeEndpoint: [", "cannot read"),
        (
            "containerRuntimeEndpoint: unix:///run/gone.sock\n",
            "there is no such socket",
        ),
        (
            "containerRuntimeEndpoint: unix:///run/kflow/cri.sock\n",
            "uses kflow's proxy already",
        ),
    ] {
        let node = Node::new(KUBELET);
        node.write(CONFIG, config);
        let before = node.files();
        let o = node.install();
        assert!(!o.status.success());
        assert!(text(&o).contains(says), "{}", text(&o));
        assert!(
            text(&o).contains("name it: deploy/install.sh"),
            "{}",
            text(&o)
        );
        for named in ["/run/none.sock", "/run/kflow/cri.sock", "crio.sock"] {
            let o = node.install_before(&[named]);
            assert!(!o.status.success(), "{named}");
        }
        assert_eq!((node.files(), node.did()), (before, String::new()));
        let o = node.install_before(&["/run/crio/crio.sock"]);
        assert!(o.status.success(), "{}", text(&o));
        assert_eq!(node.upstream(), "/run/crio/crio.sock");
    }
}

#[test]
fn what_was_there_before_is_there_after() {
    // A folder of drop-ins that is empty, and arguments that the unit itself sets.
    let unit = KUBELET.replace(
        "ExecStart",
        "Environment=\"KUBELET_EXTRA_ARGS=--from-unit --b=c\"\nExecStart",
    );
    let node = Node::new(&unit);
    fs::remove_file(node.path("etc/default/kubelet")).unwrap();
    fs::create_dir_all(node.path("etc/systemd/system/kubelet.service.d")).unwrap();
    let before = node.files();
    let o = node.install();
    assert!(o.status.success(), "{}", text(&o));
    let env = fs::read_to_string(node.path("etc/kflow/kubelet.env")).unwrap();
    assert!(env.contains("\"--from-unit --b=c --container"), "{env}");
    assert!(node.install().status.success());
    let o = node.run(&node.path("usr/local/lib/kflow/uninstall.sh"), &[]);
    assert!(o.status.success(), "{}", text(&o));
    assert_eq!(node.files(), before);

    // A unit of the same name that kflow did not write.
    node.write(
        "etc/systemd/system/kflow-proxy.service",
        "[Service]\nExecStart=/mine\n",
    );
    let before = node.files();
    let o = node.install();
    assert!(!o.status.success());
    assert!(text(&o).contains("is not of this kflow"), "{}", text(&o));
    assert_eq!(node.files(), before);
}

/// The manifest that the kustomization uses is what `install` applies. `KFLOW_UPDATE=1` writes it. Where there is a
/// kubectl (`$KUBECTL`, or in the path), it renders the kustomization.
#[test]
fn the_kustomization_is_what_is_installed() {
    let wanted = kflow_agent::manifest::Wanted {
        namespace: "kflow".to_owned(),
        image: "kflow".to_owned(),
        ..Default::default()
    };
    let text = kflow_agent::manifest::yaml(&wanted).unwrap();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/agent");
    current("deploy/agent/agent.yaml", &text);
    let kubectl = std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into());
    let rendered = match Command::new(kubectl).arg("kustomize").arg(&dir).output() {
        Ok(rendered) => rendered,
        Err(e) => {
            eprintln!("LEFT OUT: no kubectl here: {e}");
            return;
        }
    };
    assert!(rendered.status.success(), "{}", self::text(&rendered));
    let objects = |text: &str| {
        let mut all: Vec<String> = text
            .split("\n---\n")
            .map(|o| {
                serde_saphyr::from_str::<serde_json::Value>(o)
                    .unwrap()
                    .to_string()
            })
            .collect();
        all.sort();
        all
    };
    let rendered = String::from_utf8(rendered.stdout).unwrap();
    assert_eq!(objects(&rendered), objects(&text));
}

/// The chart installs what `install` does; what differs between installations is a value, one for each flag of
/// `install`. `KFLOW_UPDATE=1` writes its template; `tests/install/chart.sh` renders it with Helm.
#[test]
fn the_chart_is_what_is_installed() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart");
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    let text = kflow_agent::manifest::chart().unwrap();
    current("deploy/chart/templates/agent.yaml", &text);
    let version = env!("CARGO_PKG_VERSION");
    let chart = read("Chart.yaml");
    for line in [
        format!("version: {version}"),
        format!("appVersion: \"{version}\""),
    ] {
        assert!(chart.lines().any(|l| l == line), "{line}: {chart}");
    }
    let values: serde_json::Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let keys = |v: &serde_json::Value| -> Vec<String> {
        let mut keys: Vec<_> = v.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&values), keys(&schema["properties"]));
    // The fields of `kflow_agent::manifest::Wanted`; the namespace is the release's.
    assert_eq!(
        keys(&values),
        ["args", "envSecret", "image", "nodeSelector", "pullSecret"]
    );
}

/// The time that is said is the time that it takes, however long the program takes to answer.
#[test]
fn a_kubelet_is_waited_for_as_long_as_it_is_said() {
    let node = Node::new(KUBELET);
    node.kflow("!   CRI proxy  kflow 0.1.0 listens, but nobody uses it");
    let quick = fs::read_to_string(node.path("kflow")).unwrap();
    let slow = quick.replacen("echo ", "sleep 2; echo ", 1);
    assert_ne!(quick, slow);
    fs::write(node.path("kflow"), slow).unwrap();
    let began = kflow_model::clock::monotonic();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/install.sh");
    let o = node
        .command(&script, &[])
        .env("WAIT", "3")
        .output()
        .unwrap();
    assert!(!o.status.success());
    assert!(text(&o).contains("within 3 s"), "{}", text(&o));
    // Three turns of two seconds and a pause are nine.
    assert!(began.elapsed().as_secs() < 8, "{:?}", began.elapsed());
}

#[test]
fn a_release_replaces_only_files_of_a_release() {
    let sums = |name: &str| format!("{:064}  {name}\n", 0);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/release.sh");
    let run = |files: &[(&str, &str)]| {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let o = Command::new("bash")
            .arg(&script)
            .args(["--program", "/does/not/exist"])
            .arg(dir.path())
            .output()
            .unwrap();
        assert!(!o.status.success());
        let left = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, files.len(), "{}", text(&o));
        text(&o).contains("no release made")
    };
    let (ours, theirs) = ("kflow-0.1.0.tgz", "debian-12.iso");
    for (files, refused) in [
        (
            vec![(ours, String::new()), ("SHA256SUMS", sums(ours))],
            false,
        ),
        (
            vec![(theirs, String::new()), ("SHA256SUMS", sums(theirs))],
            true,
        ),
        (
            vec![
                (ours, String::new()),
                ("notes", String::new()),
                ("SHA256SUMS", sums(ours)),
            ],
            true,
        ),
        (vec![("SHA256SUMS", sums("../kflow-0.1.0.tgz"))], true),
        (vec![(ours, String::new())], true),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (*n, t.as_str())).collect();
        assert_eq!(run(&files), refused, "{files:?}");
    }
}

#[test]
fn a_purge_leaves_a_spool_that_an_agent_uses_and_what_is_not_kflows() {
    const SEGMENT: &str =
        "20261124T082000.000000007Z-20261124T082500.000000007Z.00000000000000ab-3.17.kflow.zst";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/package/postrm");
    let root = tempfile::tempdir().unwrap();
    let spool = root.path().join("var/lib/kflow/spool");
    let purge = || {
        let run = Command::new("sh")
            .arg(&script)
            .arg("purge")
            .env("DPKG_ROOT", root.path())
            .output();
        let o = run.unwrap();
        assert!(o.status.success(), "{}", text(&o));
        text(&o)
    };
    fs::create_dir_all(&spool).unwrap();
    for name in ["lock", SEGMENT] {
        fs::write(spool.join(name), "").unwrap();
    }
    let lock = fs::File::open(spool.join("lock")).unwrap();
    lock.try_lock().unwrap();
    assert!(purge().contains("an agent uses it"));
    assert!(spool.join(SEGMENT).exists());
    drop(lock);
    fs::write(spool.join("mine.kflow.zst"), "").unwrap();
    purge();
    let left: Vec<_> = fs::read_dir(&spool)
        .unwrap()
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert_eq!(left, ["mine.kflow.zst"]);
    fs::remove_file(spool.join("mine.kflow.zst")).unwrap();
    purge();
    assert!(!root.path().join("var/lib/kflow").exists());
}
