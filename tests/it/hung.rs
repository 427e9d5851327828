//! A file system that hangs delays nothing but its own source: a pipe that nobody writes to stands in for each file
//! that kflow reads, as if it were on a mount whose server is gone.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kflow_engine::live::{Config, Control, KubeletLog, Live, LogPlace};
use kflow_model::Scope;
use kflow_model::log::Component;
use kflow_sources::kube::live::Pace;
use serde_json::{Value, json};

use crate::proxy::rig::eventually;

const LINE: &str = "I1121 00:24:31.844229    3731 prober.go:173] \"A line\" pod=\"a/b\"\n";

/// Named pipes without a writer.
struct Pipes {
    dir: tempfile::TempDir,
    all: Vec<PathBuf>,
}

impl Pipes {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            all: Vec::new(),
        }
    }
    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn pipe(&mut self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        self.all.push(path.clone());
        path
    }
    /// Writes a kubeconfig with this user and these fields of the cluster.
    fn kubeconfig(&self, cluster: Value, user: Value) -> PathBuf {
        let mut named = json!({"server": "https://127.0.0.1:1"});
        named
            .as_object_mut()
            .unwrap()
            .extend(cluster.as_object().unwrap().clone());
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "c", "cluster": named}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
        });
        let path = self.at("config");
        fs::write(&path, config.to_string()).unwrap();
        path
    }
}

impl Drop for Pipes {
    /// Readers that still wait for the pipes get an end of file.
    fn drop(&mut self) {
        for path in &self.all {
            let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            drop(
                OpenOptions::new()
                    .write(true)
                    .custom_flags(no_wait)
                    .open(path),
            );
        }
    }
}

fn impatient() -> Pace {
    Pace {
        answer: Duration::from_millis(100),
        backoff: (Duration::from_millis(10), Duration::from_millis(20)),
        ..Pace::default()
    }
}

/// Runs a live engine with this configuration and a log that grows: every line of the log arrives, the source called
/// `source` reports `wanted`, and the engine ends soon.
fn run(what: &str, mut config: Config, source: &str, wanted: &str) {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("scheduler.log");
    let mut grows = File::create(&log).unwrap();
    config
        .control
        .logs
        .push((Component::Scheduler, LogPlace::File(log)));
    config.pace = impatient();
    let live = Live::start(config).unwrap();
    let told = |name: &str, ask: &dyn Fn(&kflow_engine::snapshot::SourceStatus) -> bool| {
        live.snapshot()
            .sources
            .iter()
            .any(|s| s.name.contains(name) && ask(s))
    };
    for n in 1..=3 {
        grows.write_all(LINE.as_bytes()).unwrap();
        eventually(&format!("{what}: line {n}"), || {
            told("scheduler.log", &|s| s.count == n).then_some(())
        });
    }
    if !wanted.is_empty() {
        eventually(&format!("{what}: {wanted}"), || {
            told(source, &|s| !s.is_on() && s.detail().contains(wanted)).then_some(())
        });
    }
    let begun = kflow_model::clock::monotonic();
    drop(live);
    let took = begun.elapsed();
    assert!(
        took < Duration::from_secs(20),
        "{what}: the end took {took:?}"
    );
}

#[test]
fn a_kubeconfig_that_hangs_holds_up_no_other_source() {
    let mut pipes = Pipes::new();
    let pipe = pipes.pipe("pipe");
    let path = pipe.to_str().unwrap().to_owned();
    let hangs = "no answer within";
    let users = [
        ("the kubeconfig", pipe.clone()),
        (
            "a token",
            pipes.kubeconfig(json!({}), json!({"tokenFile": path})),
        ),
    ];
    let config = |kubeconfig: &Path| Config {
        scope: Some(Scope::default()),
        kubeconfig: Some(kubeconfig.into()),
        ..Config::nothing()
    };
    for (what, kubeconfig) in users {
        run(what, config(&kubeconfig), "kubeconfig", hangs);
    }
    for (what, cluster, user) in [
        (
            "an authority",
            json!({"certificate-authority": path}),
            json!({}),
        ),
        (
            "a certificate",
            json!({}),
            json!({"client-certificate": path, "client-key": path}),
        ),
        (
            "a plugin",
            json!({}),
            json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [path], "interactiveMode": "Never"}}),
        ),
    ] {
        let kubeconfig = pipes.kubeconfig(cluster, user);
        run(what, config(&kubeconfig), "kubeconfig", hangs);
    }
}

#[test]
fn a_kubelets_certificate_that_hangs_holds_up_no_other_source() {
    let mut pipes = Pipes::new();
    pipes.pipe("kubelet/pki/kubelet.crt");
    let config = Config {
        kubeconfig: Some(pipes.kubeconfig(json!({}), json!({}))),
        kubelet: Some("https://127.0.0.1:1".into()),
        kubelet_root: Some(pipes.at("kubelet")),
        control: Control {
            scrape: true,
            ..Control::default()
        },
        ..Config::nothing()
    };
    run("kubelet.crt", config, "kubelet", "no answer within");
}

#[test]
fn a_log_that_hangs_holds_up_no_other_source() {
    let mut pipes = Pipes::new();
    let config = Config {
        kubelet_log: KubeletLog::At(LogPlace::File(pipes.pipe("kubelet.log"))),
        control: Control {
            audit_logs: vec![pipes.pipe("audit.log")],
            logs: vec![(
                Component::Containerd,
                LogPlace::File(pipes.pipe("containerd.log")),
            )],
            ..Control::default()
        },
        ..Config::nothing()
    };
    // A hang of these files is reported after five seconds (`SLOW`), for which this test does not wait.
    run("logs", config, "", "");
}

/// Every command that opens a path ends by itself, and names the path that does not answer. `@` stands for the path.
#[test]
fn a_command_whose_file_hangs_says_so_and_ends() {
    let mut pipes = Pipes::new();
    let out = pipes.at("out.kflow").display().to_string();
    let log = pipes.at("kubelet.log").display().to_string();
    fs::write(&log, LINE).unwrap();
    let sessions = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sessions");
    let session = &format!("{sessions}/S2-stuck-early.kflow.zst");
    // The arguments, and the place of the pipe below `@`; when empty, `@` is the pipe itself.
    let commands: &[(&[&str], &str)] = &[
        (&["why", "--all", "-s", "@"], ""),
        (&["why", "--ever", "-s", "@"], ""),
        (&["timeline", "-s", "@"], ""),
        (&["calls", "-s", "@"], ""),
        (&["requests", "-s", "@"], ""),
        (&["stats", "-s", "@"], ""),
        (&["flow", "-s", "@"], ""),
        (&["flow", "--map", "@", "-s", session], ""),
        (&["export", "-o", "json", "-s", "@"], ""),
        (&["export", "-o", "json", "-s", session, "-O", "@"], ""),
        (&["replay", "@"], ""),
        (&["import", "--kubelet-log", "@", "-O", &out], ""),
        (&["import", "--kubelet-log", &log, "-O", "@"], ""),
        (&["causes", "--log", "@"], ""),
        (&["--log", "@", "causes"], ""),
        (&["man", "@"], "kflow-why.1"),
        (
            &["screenshots", "--sessions", sessions, "--out", "@"],
            "pods.svg",
        ),
        (
            &[
                "proxy",
                "--upstream",
                "/run/none.sock",
                "--listen",
                "@/cri.sock",
            ],
            "cri.sock.lock",
        ),
        (
            &["doctor", "--upstream", "--root", "@"],
            "var/lib/kubelet/config.yaml",
        ),
        (
            &["doctor", "--upstream", "--root", "@"],
            "etc/systemd/system/kubelet.service",
        ),
        (
            &["doctor", "--upstream", "--root", "@"],
            "etc/rancher/k3s/config.yaml",
        ),
        (&["doctor", "--no-api", "--root", "@"], "etc/os-release"),
        (
            &["doctor", "--no-api", "--root", "@"],
            "etc/kubernetes/manifests/kube-apiserver.yaml",
        ),
        (&["doctor", "--no-api", "--kubelet-log", "@"], ""),
        (&["doctor", "--no-api", "--audit-log", "@"], ""),
        (&["why", "--all", "--kubeconfig", "@", "--for", "300ms"], ""),
    ];
    // Each command has a pipe of its own: one that writes to its pipe would let the others read.
    let commands: Vec<(Vec<String>, PathBuf)> = commands
        .iter()
        .enumerate()
        .map(|(n, (args, below))| {
            let at = pipes.at(&n.to_string());
            let pipe = pipes.pipe(at.join(below).strip_prefix(pipes.dir.path()).unwrap());
            let at = at.display().to_string();
            let args = args.iter().map(|a| a.replace('@', &at)).collect();
            (args, pipe)
        })
        .collect();
    let own = fs::Permissions::from_mode(0o700);
    std::thread::scope(|scope| {
        for (args, pipe) in &commands {
            let own = own.clone();
            scope.spawn(move || {
                let is = |word: &str| args.iter().any(|a| a == word);
                if is("proxy") {
                    fs::set_permissions(pipe.parent().unwrap(), own).unwrap();
                }
                let begun = kflow_model::clock::monotonic();
                let ran = crate::program::command()
                    .args(args)
                    .env_remove("KFLOW_SESSION")
                    .stdin(std::process::Stdio::null())
                    .output()
                    .unwrap();
                let took = begun.elapsed();
                let mut said = String::from_utf8(ran.stderr).unwrap();
                assert!(took < Duration::from_secs(60), "{args:?} took {took:?}");
                let late = if is("--kubeconfig") {
                    // `--for` ends before the time-out of the kubeconfig.
                    "it, a file that it names, or its plugin has not answered"
                } else {
                    "has not answered for 5s"
                };
                // `doctor` reports what it finds as its answer, with exit code 0.
                let examines = is("doctor") && !is("--upstream");
                if examines {
                    said += &String::from_utf8(ran.stdout).unwrap();
                }
                let code = if examines { 0 } else { 2 };
                assert_eq!(ran.status.code(), Some(code), "{args:?}: {said}");
                // `doctor --root` prints paths as they are on the node, without the root.
                let named = pipe.to_str().unwrap();
                let root = args.last().filter(|_| is("--root"));
                let on_node = root.and_then(|root| named.strip_prefix(root.as_str()));
                let named = on_node.unwrap_or(named);
                // The lock file belongs to the socket, whose path the user gave.
                let named = named.strip_suffix(".lock").unwrap_or(named);
                assert!(said.contains(named), "{args:?}: {said}");
                assert!(examines || said.contains(late), "{args:?}: {said}");
            });
        }
    });
}

/// A theme file that hangs is reported like one that does not exist.
#[test]
fn a_theme_that_hangs_is_told() {
    let mut pipes = Pipes::new();
    let theme = pipes.pipe("kflow/themes/mine.toml");
    fs::write(pipes.at("kflow/config.toml"), "theme = \"mine\"\n").unwrap();
    let ran = crate::program::command()
        .arg("config")
        .env("XDG_CONFIG_HOME", pipes.dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.contains(theme.to_str().unwrap()), "{said}");
    assert!(said.contains("has not answered for 5s"), "{said}");
}

/// The command answers without the configuration file.
#[test]
fn a_configuration_that_hangs_is_left_out_with_a_word() {
    let mut pipes = Pipes::new();
    let config = pipes.pipe("kflow/config.toml");
    let ran = crate::program::command()
        .arg("keys")
        .env(
            "XDG_CONFIG_HOME",
            config.parent().unwrap().parent().unwrap(),
        )
        .output()
        .unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    let told = format!("cannot read {}: its file system", config.display());
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(said.contains(&told), "{said}");
    assert!(!ran.stdout.is_empty());
}
