//! The live form of every source: servers, sockets, pipes and growing files, each with canaries in every field that
//! people put secrets in. Checked are the session, kflow's messages, its own log at level `trace`, the screens of the
//! run, and every command on the session.
//!
//! [`every_flag_that_names_a_source_carries_canaries`] fails for a flag of `kflow record` that no run here uses.

mod runtime;
mod server;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use kflow_engine::live::{Config, Control, KubeletLog, Live, LogPlace};
use kflow_engine::record::Options;
use kflow_model::log::Component;
use kflow_model::{Source, Text};

use super::carriers;
use super::{Canaries, flags_of, logs, outputs, screens_of};
use crate::proxy::rig::{came_true, eventually};
use crate::receive::{AS_JSON, POST, PROTOBUF, TRACES, client, export_with, http};
use runtime::{proxied, runtime, tapped};
use server::{Page, Pages, Server, apiserver, kubeconfig, scope};

/// The sources that run beside kflow, and the flags that name them.
struct Stage {
    dir: tempfile::TempDir,
    c: Canaries,
    args: Vec<String>,
    stdin: Option<String>,
    servers: Vec<Server>,
    /// Texts that the session must hold before the run may end, besides the marks.
    wanted: Vec<&'static str>,
    children: Vec<Child>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in &mut self.children {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Self {
            dir,
            c: Canaries::default(),
            args: Vec::new(),
            stdin: None,
            servers: Vec::new(),
            wanted: Vec::new(),
            children: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn args(&mut self, args: &[&str]) {
        self.args.extend(args.iter().map(|a| (*a).to_owned()));
    }

    /// Writes a file with this content and adds a flag that names it.
    fn file(&mut self, flag: &str, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        self.args(&[flag, &path]);
        path.into()
    }

    fn serve(&mut self, pages: Pages) -> String {
        let server = Server::start(pages);
        let address = server.address.clone();
        self.servers.push(server);
        address
    }

    /// Starts an apiserver with additional pages; returns the path of its kubeconfig.
    fn api(&mut self, more: impl FnOnce(&mut Canaries, &mut Pages)) -> PathBuf {
        let mut pages = apiserver(&mut self.c);
        more(&mut self.c, &mut pages);
        let address = self.serve(pages);
        let path = kubeconfig(&mut self.c, self.dir.path(), &address);
        self.args(&["--kubeconfig", path.to_str().unwrap(), "--node", "node1"]);
        path
    }

    fn command(&self) -> Command {
        let mut command = crate::program::command();
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .current_dir(self.dir.path())
            .env_remove("KUBECONFIG")
            .env_remove("KFLOW_SESSION")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env("HOME", self.dir.path())
            .env("PATH", format!("{}:{path}", self.path("bin")))
            .env("KFLOW_LOG", "trace");
        command
    }

    /// Waits until a growing session holds every mark and every text of `wanted`.
    fn wait(&self, what: &str, session: &Path) {
        let mut missing = Vec::new();
        let mut complete = || {
            let bytes = fs::read(session).unwrap_or_default();
            let marks = (0..self.c.marks).map(super::mark);
            missing = marks
                .chain(self.wanted.iter().map(|w| (*w).to_owned()))
                .filter(|w| memchr::memmem::find(&bytes, w.as_bytes()).is_none())
                .collect();
            missing.is_empty().then_some(())
        };
        let came = came_true(&mut complete);
        assert!(came, "{what}: not read: {missing:?}");
    }

    /// Runs `kflow record` until it has read everything; returns what it printed.
    fn record(&mut self) -> String {
        let mut child = self
            .command()
            .args(["--log", "debug.log", "record", "-O", "run.kflow"])
            .args(&self.args)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let stderr = child.stderr.take().unwrap();
        let into = Arc::clone(&said);
        let reader = thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                into.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let mut stdin = child.stdin.take().unwrap();
        if let Some(text) = &self.stdin {
            stdin.write_all(text.as_bytes()).unwrap();
        }
        self.children.push(child);
        if self.args.iter().any(|a| a == "--otlp") {
            post(&mut self.c, |name| listening(&said.lock().unwrap(), name));
        }
        let session = self.dir.path().join("run.kflow");
        self.wait(&format!("{:?}", self.args), &session);
        let mut child = self.children.pop().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
        drop(stdin);
        reader.join().unwrap();
        Arc::into_inner(said).unwrap().into_inner().unwrap()
    }

    /// Asserts that no canary is in the output, the session or the logs.
    fn check(&self, what: &str, said: &str) {
        self.c
            .absent(&format!("{what}: what was said"), said.as_bytes());
        for name in ["run.kflow", "debug.log", "proxy.log"] {
            if let Ok(bytes) = fs::read(self.dir.path().join(name)) {
                self.c.absent(&format!("{what}: {name}"), &bytes);
            }
        }
        let log = fs::read_to_string(self.dir.path().join("debug.log")).unwrap_or_default();
        assert!(said.is_empty() || log.contains("INFO"), "{what}: no log");
        for server in &self.servers {
            let unknown = server.unknown.lock().unwrap();
            assert!(
                unknown.is_empty(),
                "{what}: kflow asks for what carries no canaries: {unknown:?}"
            );
        }
    }
}

/// Returns the address that a receiver says it listens on.
fn listening(said: &str, name: &str) -> Option<SocketAddr> {
    let line = said
        .lines()
        .find(|l| l.contains(name) && l.contains("listening on "))?;
    let (_, rest) = line.split_once("listening on ")?;
    rest.split([';', ')']).next()?.trim().parse().ok()
}

/// Sends spans in each of their three forms, and a batch of audit records, to the receivers.
fn post(c: &mut Canaries, mut address: impl FnMut(&str) -> Option<SocketAddr>) {
    let otlp = eventually("the OTLP receiver listens", || address("otlp receiver"));
    let webhook = eventually("the webhook listens", || address("audit webhook"));
    let secret =
        |c: &mut Canaries| format!("authorization: Bearer {}", c.put("header of an export"));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let head = secret(c);
        let body = carriers::otlp::json(c);
        let (code, _) = http(otlp, &[POST, AS_JSON, &head], body.as_bytes()).await;
        assert_eq!(code, 200);
        let head = secret(c);
        let body = carriers::otlp::bytes(c);
        let (code, _) = http(otlp, &[POST, PROTOBUF, &head], &body).await;
        assert_eq!(code, 200);
        let body = carriers::otlp::bytes(c);
        let token = format!("Bearer {}", c.put("metadata of an export"));
        let mut grpc = client(otlp).await;
        export_with(&mut grpc, TRACES, body.into(), &token)
            .await
            .unwrap();
        let head = secret(c);
        let body = carriers::batch(c);
        let (code, _) = http(webhook, &["POST /", AS_JSON, &head], body.as_bytes()).await;
        assert_eq!(code, 200);
    });
}

/// Makes the kubelet's root folder, with a mounted Secret.
fn kubelet_root(stage: &mut Stage) -> PathBuf {
    let root = stage.dir.path().join("kubelet");
    let volume = root.join(
        "pods/4e4df844-2868-44f4-b348-afe965e789f5/volumes/kubernetes.io~secret/volume-of-keys",
    );
    fs::create_dir_all(&volume).unwrap();
    fs::write(
        volume.join(stage.c.put("name of a file of a Secret")),
        stage.c.put("a mounted Secret"),
    )
    .unwrap();
    stage.args(&["--local", "--kubelet-root", root.to_str().unwrap()]);
    root
}

/// Starts every source that can run beside the others.
fn everything(stage: &mut Stage) -> Config {
    let kubeconfig = stage.api(|_, _| {});
    let text = logs::kubelet_text(&mut stage.c);
    let kubelet_log = stage.file("--kubelet-log", "kubelet.log", &text);
    let mut all = Vec::new();
    for (flag, component) in [
        ("--apiserver-log", Component::Apiserver),
        ("--scheduler-log", Component::Scheduler),
        ("--controller-manager-log", Component::ControllerManager),
    ] {
        let text = logs::kubelet_text(&mut stage.c);
        all.push((
            component,
            LogPlace::File(stage.file(flag, &format!("{component:?}"), &text)),
        ));
    }
    for (flag, component) in [
        ("--containerd-log", Component::Containerd),
        ("--crio-log", Component::Crio),
    ] {
        let text = logs::runtime(&mut stage.c);
        all.push((
            component,
            LogPlace::File(stage.file(flag, &format!("{component:?}"), &text)),
        ));
    }
    let text = carriers::audit(&mut stage.c);
    let audit_log = stage.file("--audit-log", "audit.log", &text);
    let proxy = proxied(stage);
    let runtime = runtime(stage);
    let root = kubelet_root(stage);
    stage.args(&["--otlp", "127.0.0.1:0", "--audit-webhook", "127.0.0.1:0"]);
    stage.wanted = vec![
        "\"CreateContainer\"",
        "volume-of-keys",
        "\"ListContainers\"",
    ];
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    Config {
        scope: Some(scope()),
        kubeconfig: Some(kubeconfig),
        proxy: Some(proxy),
        runtime: Some(runtime),
        kubelet_log: KubeletLog::At(LogPlace::File(kubelet_log)),
        kubelet_root: Some(root),
        control: Control {
            otlp: vec![anywhere],
            audit_webhook: Some(anywhere),
            audit_logs: vec![audit_log],
            logs: all,
            scrape: true,
            ..Control::default()
        },
        ..Config::nothing()
    }
}

/// Prepares a stage for one form of a source.
type Set = fn(&mut Stage);

/// Other sources of a kubelet's log than a file of klog text, and a kubelet that kflow asks itself.
const FORMS: [(&str, Set); 6] = [
    ("a file of JSON", |s| {
        let text = logs::kubelet_json(&mut s.c);
        s.file("--kubelet-log", "kubelet.log", &text);
        s.args(&["--no-api"]);
    }),
    ("standard input", |s| {
        s.stdin = Some(logs::kubelet_text(&mut s.c));
        s.args(&["--no-api", "--kubelet-log", "-"]);
    }),
    ("the journal", |s| {
        let entries = logs::journal(&mut s.c, "kubelet.service");
        let complaint =
            s.c.fill("Failed to add match: token={C} https://u:{C}@host/");
        fs::create_dir(s.path("bin")).unwrap();
        fs::write(s.path("entries"), entries).unwrap();
        let script = format!(
            "#!/bin/sh\necho '{complaint}' >&2\ncat '{}'\nexec cat\n",
            s.path("entries")
        );
        let path = s.path("bin/journalctl");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        s.args(&["--no-api", "--kubelet-log", "journal:kubelet"]);
    }),
    ("the node's journal by way of the apiserver", |s| {
        s.api(|c, pages| {
            let text = logs::journal_short(c);
            let at = "/api/v1/nodes/node1/proxy/logs/?query=kubelet";
            pages.insert(at.into(), Page::Whole(200, text));
        });
        s.args(&["--kubelet-log", "remote"]);
    }),
    ("the node's file by way of the apiserver", |s| {
        s.api(|c, pages| {
            let at = "/api/v1/nodes/node1/proxy/logs/";
            let refused = c.fill("<!doctype html>{C}");
            pages.insert(format!("{at}?query=kubelet"), Page::Whole(200, refused));
            pages.insert(
                format!("{at}kubelet.log"),
                Page::File(logs::kubelet_text(c)),
            );
        });
        s.args(&["--kubelet-log", "remote"]);
    }),
    ("a kubelet that is asked itself", |s| {
        let pages = carriers::of_kubelet(&mut s.c)
            .into_iter()
            .map(|(_, path, body)| (format!("/{path}"), Page::Whole(200, body)))
            .collect();
        let address = s.serve(pages);
        s.args(&["--no-api", "--kubelet-log", "off", "--kubelet", &address]);
    }),
];

#[test]
fn no_live_form_lets_a_secret_out() {
    for (what, set) in FORMS {
        let mut stage = Stage::new();
        set(&mut stage);
        let said = stage.record();
        stage.check(what, &said);
    }
}

/// Runs the eBPF tap, where this machine and user may load it.
#[test]
fn no_tapped_run_lets_a_secret_out() {
    if let Err(e) = kflow_sources::tap::probe() {
        eprintln!("LEFT OUT: {e}");
        return;
    }
    let mut stage = Stage::new();
    tapped(&mut stage);
    let said = stage.record();
    stage.check("the eBPF tap", &said);
}

/// Runs all sources at once, and checks what kflow writes and what every command makes of the session.
#[test]
fn no_live_run_lets_a_secret_out() {
    let mut stage = Stage::new();
    everything(&mut stage);
    let said = stage.record();
    stage.check("record", &said);
    let bytes = fs::read_to_string(stage.dir.path().join("run.kflow")).unwrap();
    for source in Source::ALL.into_iter().filter(|s| *s != Source::Kflow) {
        let line = format!("\"src\":{}", serde_json::to_string(&source).unwrap());
        assert!(bytes.contains(&line), "no observation of {source:?}");
    }
    outputs(stage.dir.path(), "run.kflow", "canaries/carrier", &stage.c);
}

/// Checks the terminal of a run, which also shows the states of the sources; a session does not hold these.
#[test]
fn no_screen_of_a_live_run_shows_a_secret() {
    let mut stage = Stage::new();
    let config = everything(&mut stage);
    let live = Live::start(config).unwrap();
    let path = stage.dir.path().join("run.kflow");
    live.record(Options {
        path: path.clone(),
        max_size: None,
        pod: None,
        node: Text::default(),
    })
    .unwrap();
    let address = |name: &str| {
        let (kind, rest) = name.split_once(' ')?;
        let sources = live.snapshot().sources.clone();
        let found = sources
            .iter()
            .find(|s| s.source.name() == kind && s.name.starts_with(rest))?;
        listening(&format!("{name} {}", found.detail()), name)
    };
    post(&mut stage.c, address);
    stage.wait("a run", &path);
    screens_of(&live.snapshot(), &stage.c);
    drop(live);
    stage.check("a run", "");
}

/// The flags of `kflow record` that name no source, and what each is for.
const OTHERS: [(&str, &str); 27] = [
    ("--output-file", "the session"),
    ("--for", "when to stop"),
    ("--color", "colours"),
    ("--max-size", "rotation"),
    ("--pod", "what is written"),
    ("--log", "checked in every run"),
    ("--help", ""),
    ("--namespace", "scope"),
    ("--all-namespaces", "scope"),
    ("--selector", "scope"),
    ("--field-selector", "scope"),
    ("--context", "which of the kubeconfig"),
    ("--no-scrape", "fewer sources"),
    ("--reconnect", "what the tap does to its clients"),
    (
        "--otlp-to",
        "where traces go; what they hold is what `export` writes of the session",
    ),
    ("--listen-anywhere", "addresses"),
    ("--keep-gone", "retention"),
    ("--keep-gone-pods", "retention"),
    ("--agent-namespace", "where an agent is looked for"),
    ("--no-agent", "fewer sources"),
    ("--debug-pod", "an agent, which redacts what it serves"),
    ("--since", "of an agent, which redacts what it keeps"),
    ("--spool", "where segments wait, which are sessions"),
    ("--spool-size", "retention"),
    ("--segment", "rotation"),
    (
        "--store",
        "where segments go; that they hold no canary is a test of kflow-store",
    ),
    ("--cluster", "a name in the store"),
];

#[test]
fn every_flag_that_names_a_source_carries_canaries() {
    let mut used: BTreeSet<String> = OTHERS.iter().map(|(f, _)| (*f).to_owned()).collect();
    let mut stage = Stage::new();
    everything(&mut stage);
    used.extend(stage.args.iter().cloned());
    let set = FORMS.into_iter().map(|(_, set)| set);
    for set in set.chain([tapped as Set]) {
        let mut stage = Stage::new();
        set(&mut stage);
        used.extend(stage.args.iter().cloned());
    }
    let forgotten: Vec<String> = flags_of("record")
        .into_iter()
        .filter(|f| !used.contains(f))
        .collect();
    assert!(
        forgotten.is_empty(),
        "no canary goes through {forgotten:?}: add a form, or say in OTHERS why it carries nothing"
    );
}
