//! `kflow agent` as a process: what it finds on a node, serves and keeps, also over `kill -9`; and its remote clients.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kflow_model::{Body, Observation, Source, clock};
use kflow_serve::wire::{Batch, InfoResponse, SubscribeRequest};
use kflow_sources::agent::{Reached, Way, reach};

use crate::program::{command, kflow};
use crate::proxy::rig::{PATIENCE, eventually};

mod debug;
pub(crate) mod forward;
mod install;
mod journal;
mod metrics;
mod past;
pub(crate) mod serving;
mod versions;

/// A line of the scheduler's container log, in the CRI log format.
const SCHEDULER: &str = "2026-11-21T00:24:27.528600Z stderr F I1121 00:24:27.528595   29662 schedule_one.go:481] \"Successfully bound pod to node\" pod=\"s01/healthy\" node=\"node1\"\n";
/// A line of the kubelet's log.
const KUBELET: &str = "I1121 00:24:19.659000   29662 kubelet.go:2724] \"SyncLoop ADD\" source=\"api\" pods=[\"s01/healthy\"]\n";
/// A record of an apiserver's audit log. Its `requestURI` holds a token that the agent must not pass on.
const AUDIT: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/s01/pods/p?token=eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl","verb":"get","user":{"username":"u"},"objectRef":{"resource":"pods","namespace":"s01","name":"p","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-21T00:24:27.504775Z","stageTimestamp":"2026-11-21T00:24:27.512507Z"}"#;

/// A node's file system under `root`, and beside it the agent's own files (socket, spool).
struct Node {
    dir: tempfile::TempDir,
}

/// A child process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Node {
    /// A control-plane node whose files lie where kubeadm puts them.
    fn new() -> Self {
        let node = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        node.put(
            "root/etc/kubernetes/manifests/kube-apiserver.yaml",
            "spec:\n  containers:\n  - name: kube-apiserver\n    command: [kube-apiserver, --audit-log-path=/var/log/kubernetes/audit.log]\n    volumeMounts: [{name: a, mountPath: /var/log/kubernetes}]\n  volumes: [{name: a, hostPath: {path: /srv/audit}}]\n",
        );
        node.put("root/srv/audit/audit.log", &format!("{AUDIT}\n"));
        node.put(
            "root/var/lib/kubelet/config.yaml",
            "kind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///no/such.sock\n",
        );
        node.put("root/var/lib/kubelet/pods/.keep", "");
        node.put("root/var/log/kubelet.log", KUBELET);
        node.put(&format!("root/var/log/pods/{}/0.log", Self::POD), SCHEDULER);
        node
    }

    const POD: &str =
        "kube-system_kube-scheduler-node1_3f4d5e9d1f0a44c5a6b31b6dfd6a0a33/kube-scheduler";

    fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn append(&self, path: &str, text: &str) {
        let mut file = fs::File::options()
            .append(true)
            .open(self.path(path))
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn socket(&self) -> PathBuf {
        self.path("run/agent.sock")
    }

    /// The command `kflow agent run` for this node, with more arguments.
    fn command(&self, more: &[&str]) -> Command {
        let mut command = command();
        command
            .args([
                "agent", "run", "--node", "node1", "--no-api", "--tap", "off",
            ])
            .arg("--root")
            .arg(self.path("root"))
            .arg("--serve")
            .arg(self.socket())
            .args(more);
        command
    }

    fn start(&self, more: &[&str]) -> Running {
        let mut command = self.command(more);
        Running(command.stderr(Stdio::null()).spawn().unwrap())
    }

    fn kept(&self) -> Running {
        let spool = self.path("spool");
        self.start(&["--spool", spool.to_str().unwrap()])
    }
}

pub(crate) fn block_on<T>(f: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(f)
}

/// Connects to the agent, as soon as it serves; fails after [`PATIENCE`].
async fn connected(socket: &Path) -> Reached {
    let begun = clock::monotonic();
    loop {
        match reach(&Way::Socket(socket.to_owned())).await {
            Ok(reached) => return reached,
            Err(e) => assert!(begun.elapsed() < PATIENCE, "{e}"),
        }
        tokio::task::yield_now().await;
    }
}

fn decoded(batch: &Batch) -> Vec<Observation> {
    let all = batch.lines.iter();
    all.map(|l| serde_json::from_slice(l).unwrap()).collect()
}

/// The observations that the agent serves, until `enough` holds. The flag is true for the past.
async fn served(
    reached: &mut Reached,
    wants: SubscribeRequest,
    enough: impl Fn(&[(bool, Observation)]) -> bool,
) -> Vec<(bool, Observation)> {
    let mut stream = reached.client.subscribe(wants).await.unwrap();
    let mut all = Vec::new();
    while !enough(&all) {
        let batch = tokio::time::timeout(PATIENCE, stream.message()).await;
        let batch = batch.expect("in time").unwrap().expect("more");
        all.extend(decoded(&batch).into_iter().map(|o| (batch.past, o)));
    }
    all
}

fn has(all: &[(bool, Observation)], source: Source) -> bool {
    all.iter().any(|(_, o)| o.source == source)
}

fn lines_of(all: &[(bool, Observation)], past: bool) -> Vec<String> {
    let logs = all.iter().filter(|(p, _)| *p == past);
    logs.filter_map(|(_, o)| match &o.body {
        Body::Log(l) => Some(l.message.to_string()),
        _ => None,
    })
    .collect()
}

async fn info(socket: &Path) -> InfoResponse {
    connected(socket).await.client.info().await.unwrap()
}

#[test]
fn it_finds_and_serves_what_a_node_of_the_control_plane_has_and_nothing_is_configured() {
    let node = Node::new();
    let _agent = node.start(&["--no-spool"]);
    block_on(async {
        let mut reached = connected(&node.socket()).await;
        let all = served(&mut reached, SubscribeRequest::default(), |all| {
            [Source::Kubelet, Source::Control, Source::Audit]
                .iter()
                .all(|s| has(all, *s))
        })
        .await;
        let said = lines_of(&all, false);
        assert!(said.iter().any(|l| l == "SyncLoop ADD"), "{said:?}");
        assert!(
            said.iter().any(|l| l == "Successfully bound pod to node"),
            "{said:?}"
        );
        let text: String = all
            .iter()
            .map(|(_, o)| serde_json::to_string(o).unwrap())
            .collect();
        assert!(!text.contains("c2lnbmF0dXJl"), "{text}");
        // A container that restarts writes to another file.
        node.put(
            &format!("root/var/log/pods/{}/1.log", Node::POD),
            &SCHEDULER.replace("Successfully bound", "Again bound"),
        );
        served(&mut reached, SubscribeRequest::default(), |all| {
            lines_of(all, false)
                .iter()
                .any(|l| l.starts_with("Again bound"))
        })
        .await;
        let info = info(&node.socket()).await;
        let agent = info.agent.unwrap();
        assert_eq!((agent.node.as_str(), agent.spool), ("node1", None));
        let there = |what: &str| {
            agent
                .findings
                .iter()
                .find(|f| f.what == what)
                .map(|f| f.there)
        };
        assert_eq!(there("scheduler log"), Some(true));
        assert_eq!(there("audit log"), Some(true));
        assert_eq!(there("apiserver log"), Some(false));
        assert_eq!(there("kubelet spans"), Some(false));
        assert_eq!(there("runtime"), Some(false));
    });
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&node.socket()), 0o600);
    assert_eq!(mode(node.socket().parent().unwrap()), 0o700);
}

#[test]
fn an_agent_that_is_killed_gives_what_it_had_seen_when_it_runs_again() {
    let node = Node::new();
    let mut first = node.kept();
    let begun = clock::now();
    let since = SubscribeRequest {
        since: u64::try_from(begun.plus(-60_000_000_000).0).unwrap(),
        ..SubscribeRequest::default()
    };
    block_on(async {
        // The line is on disk when the agent serves it as part of the past, or when a segment of the spool holds it.
        let on_disk =
            |all: &[(bool, Observation)]| lines_of(all, true).iter().any(|l| l == "SyncLoop ADD");
        eventually_async("the line is on disk", async || {
            let mut reached = connected(&node.socket()).await;
            let mut stream = reached.client.subscribe(since).await.unwrap();
            let mut all = Vec::new();
            loop {
                let batch = stream.message().await.unwrap().unwrap();
                all.extend(decoded(&batch).into_iter().map(|o| (batch.past, o)));
                if !batch.past {
                    break;
                }
            }
            on_disk(&all) || is_kept(&node.path("spool"))
        })
        .await;
        first.0.kill().unwrap();
        first.0.wait().unwrap();
        fs::write(node.path("root/var/log/kubelet.log"), "").unwrap();
        let _again = node.kept();
        let mut reached = connected(&node.socket()).await;
        let all = served(&mut reached, since, |all| {
            lines_of(all, true).iter().any(|l| l == "SyncLoop ADD")
        })
        .await;
        // The observations of the past have the times at which they were first seen, and are in that order.
        let past: Vec<_> = all.iter().filter(|(past, _)| *past).collect();
        assert!(past.iter().any(|(_, o)| o.stamp.seen >= begun));
        assert!(past.is_sorted_by_key(|(_, o)| o.stamp.seen));
        node.append(
            "root/var/log/kubelet.log",
            &KUBELET.replace("SyncLoop ADD", "SyncLoop UPDATE"),
        );
        let new = served(&mut reached, SubscribeRequest::default(), |all| {
            lines_of(all, false).iter().any(|l| l == "SyncLoop UPDATE")
        });
        new.await;
    });
}

/// True when a segment of the spool holds the kubelet's line: what was flushed survives the process that wrote it.
fn is_kept(spool: &Path) -> bool {
    let files = fs::read_dir(spool).into_iter().flatten().flatten();
    files.into_iter().any(|f| {
        kflow_model::session::load(&f.path()).is_ok_and(|s| {
            s.observations
                .iter()
                .any(|o| matches!(&o.body, Body::Log(l) if l.message == "SyncLoop ADD"))
        })
    })
}

async fn eventually_async(what: &str, ask: impl AsyncFn() -> bool) {
    let begun = clock::monotonic();
    while !ask().await {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_spool_that_cannot_be_had_is_told_and_the_agent_serves_all_the_same() {
    let node = Node::new();
    // The spool cannot be made: its path is that of a file.
    node.put("spool", "");
    let _agent = node.kept();
    block_on(async {
        let spool = info(&node.socket()).await.agent.unwrap().spool.unwrap();
        assert!(spool.failing.contains("spool"), "{spool:?}");
        let mut reached = connected(&node.socket()).await;
        let since = SubscribeRequest {
            since: 1,
            ..SubscribeRequest::default()
        };
        let all = served(&mut reached, since, |all| {
            has(all, Source::Kubelet) && has(all, Source::Kflow)
        });
        let all = all.await;
        assert!(
            all.iter()
                .any(|(_, o)| matches!(&o.body, Body::Gap(g) if g.why.contains("no spool")))
        );
    });
    let status = kflow([
        "agent",
        "status",
        "--socket",
        node.socket().to_str().unwrap(),
    ]);
    assert_eq!(status.code, Some(0), "{}", status.err);
    for line in [
        "scheduler log",
        "kubelet spans",
        "the kubelet sends none",
        "tracing: {endpoint: \"unix:///run/kflow/otlp.sock\", samplingRatePerMillion: 1000000}",
    ] {
        assert!(status.out.contains(line), "{line}: {}", status.out);
    }
}

#[test]
fn it_listens_on_loopback_only_and_a_second_one_is_refused() {
    let node = Node::new();
    let run = |more: &[&str]| {
        let socket = node.socket();
        let args = ["agent", "run", "--no-api", "--no-spool", "--tap", "off"];
        let mut all: Vec<&str> = args.to_vec();
        let root = node.path("root");
        all.extend([
            "--root",
            root.to_str().unwrap(),
            "--serve",
            socket.to_str().unwrap(),
        ]);
        all.extend(more);
        kflow(all)
    };
    let anywhere = run(&["--listen", "0.0.0.0:0"]);
    assert_eq!(anywhere.code, Some(2));
    assert!(
        anywhere.err.contains("by way of the apiserver"),
        "{}",
        anywhere.err
    );
    let _agent = node.start(&["--no-spool"]);
    eventually("it serves", || node.socket().exists().then_some(()));
    let second = run(&[]);
    assert_eq!(second.code, Some(2));
    assert!(
        second.err.contains("another kflow serves"),
        "{}",
        second.err
    );
    let nobody = node.path("run/nobody.sock");
    let none = kflow(["agent", "status", "--socket", nobody.to_str().unwrap()]);
    assert_eq!(none.code, Some(2));
    assert!(none.err.contains("no agent"), "{}", none.err);
}
