//! Remote clients: an apiserver that knows an agent's pod and forwards its port over a websocket, as a real one does.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kflow_model::{Observation, Source};
use kflow_sources::agent::{Follow, Gives, LABEL, Mark, PORT, Way, follow};
use kflow_sources::live::Board;
use prost::bytes::Bytes;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};
use tonic::codegen::http::{Request, Response, StatusCode};

use super::{Node, PATIENCE, SubscribeRequest, block_on, command, connected, fs, served};
use crate::program::{Said, run};
use crate::schema::fits;

/// A stand-in for the apiserver: it knows at most one pod of an agent, and makes a pod for each Job.
pub(super) struct Apiserver {
    /// The socket to which the pod's port leads; `None`: there is no pod.
    agent: Mutex<Option<PathBuf>>,
    /// Port-forward is forbidden.
    forbidden: bool,
    pub(super) forwards: AtomicUsize,
    /// Jobs that exist.
    pub(super) jobs: Mutex<Vec<serde_json::Value>>,
    /// Jobs that were created and deleted, in order.
    pub(super) did: Mutex<Vec<String>>,
    /// Why the Job controller makes no pod, as the message of its Event; `None`: it makes one.
    pub(super) refuses: Mutex<Option<String>>,
    /// Breaks every forwarded connection that is open, when it changes.
    pub(super) cut: watch::Sender<usize>,
}

impl Apiserver {
    pub(super) async fn start(agent: Option<PathBuf>, forbidden: bool) -> (Arc<Self>, String) {
        let this = Arc::new(Self {
            agent: Mutex::new(agent),
            forbidden,
            forwards: AtomicUsize::new(0),
            jobs: Mutex::default(),
            did: Mutex::default(),
            refuses: Mutex::default(),
            cut: watch::channel(0).0,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Arc::clone(&this);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    let answer = service_fn(move |r| {
                        let server = Arc::clone(&server);
                        async move { Ok::<_, Infallible>(server.answer(r).await) }
                    });
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answer)
                        .with_upgrades()
                        .await
                        .ok();
                });
            }
        });
        (this, url)
    }

    /// Answers requests about Jobs in namespace `default`, and about their pods and Events.
    async fn job(&self, request: Request<Incoming>) -> (StatusCode, serde_json::Value) {
        let (head, body) = request.into_parts();
        let list = |kind: &str, items: Vec<serde_json::Value>| {
            let list = json!({"kind": kind, "apiVersion": "v1", "metadata": {}, "items": items});
            (StatusCode::OK, list)
        };
        let path = head.uri.path();
        let query = head.uri.query().unwrap_or_default();
        let body = body.collect().await.unwrap().to_bytes();
        let mut jobs = self.jobs.lock().unwrap();
        match (head.method.as_str(), path.rsplit('/').next().unwrap()) {
            ("POST", "jobs") => {
                let job: serde_json::Value = serde_json::from_slice(&body).unwrap();
                let name = job["metadata"]["name"].as_str().unwrap();
                self.did.lock().unwrap().push(format!("create {name}"));
                jobs.push(job.clone());
                (StatusCode::CREATED, job)
            }
            ("DELETE", name) => {
                self.did.lock().unwrap().push(format!("delete {name}"));
                jobs.retain(|j| j["metadata"]["name"] != name);
                (
                    StatusCode::OK,
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
                )
            }
            ("GET", "pods") => {
                let of = |j: &&serde_json::Value| {
                    let name = j["metadata"]["name"].as_str().unwrap();
                    query.contains(&format!(
                        "labelSelector=app.kubernetes.io%2Finstance%3D{name}"
                    ))
                };
                let pod = |j: &serde_json::Value| {
                    let template = &j["spec"]["template"];
                    json!({
                        "metadata": {"name": "kflow-debug-x", "labels": template["metadata"]["labels"]},
                        "spec": template["spec"],
                        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
                    })
                };
                let made = self.refuses.lock().unwrap().is_none();
                list(
                    "PodList",
                    jobs.iter().filter(of).filter(|_| made).map(pod).collect(),
                )
            }
            ("GET", "events") => {
                let why = self.refuses.lock().unwrap().clone();
                let event = |why| json!({"metadata": {"name": "e"}, "reason": "FailedCreate", "message": why});
                list("EventList", why.into_iter().map(event).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let agent = self.agent.lock().unwrap().clone();
        let json = |status: StatusCode, value: serde_json::Value| {
            Response::builder()
                .status(status)
                .header("Content-Type", "application/json")
                .body(Full::from(value.to_string()))
                .unwrap()
        };
        let path = request.uri().path().to_owned();
        match path.as_str() {
            path if path.contains("/namespaces/default/") && !path.ends_with("/portforward") => {
                let (status, value) = self.job(request).await;
                json(status, value)
            }
            "/api/v1/nodes/node1" => json(
                StatusCode::OK,
                // The boot ID differs from this machine's: an agent that runs here is not one of this cluster.
                json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "node1"}, "status": {"nodeInfo": {"bootID": "another"}}}),
            ),
            "/api/v1/namespaces/kflow/pods" => {
                let query = request.uri().query().unwrap();
                assert!(
                    query.contains("labelSelector=app.kubernetes.io%2Fname%3Dkflow-agent"),
                    "{query}"
                );
                let of_node = query.contains("fieldSelector=spec.nodeName%3Dnode1");
                assert!(of_node || !query.contains("fieldSelector"), "{query}");
                let pod = json!({
                    "metadata": {"name": "kflow-agent-x"},
                    "spec": {"nodeName": "node1"},
                    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
                });
                let items: Vec<_> = agent.iter().map(|_| &pod).collect();
                json(
                    StatusCode::OK,
                    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}),
                )
            }
            "/api/v1/nodes" => {
                let node = |name| json!({"metadata": {"name": name}});
                json(
                    StatusCode::OK,
                    json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [node("node1"), node("node2")]}),
                )
            }
            "/api/v1/namespaces/kflow/pods/kflow-agent-x/portforward" if self.forbidden => json(
                StatusCode::FORBIDDEN,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403}),
            ),
            "/api/v1/namespaces/kflow/pods/kflow-agent-x/portforward"
            | "/api/v1/namespaces/default/pods/kflow-debug-x/portforward" => {
                assert!(request.uri().query().unwrap().contains("ports=9777"));
                let key = request.headers()["Sec-WebSocket-Key"].as_bytes().to_vec();
                self.forwards.fetch_add(1, Ordering::Relaxed);
                let cut = self.cut.subscribe();
                tokio::spawn(async move {
                    let upgraded = hyper::upgrade::on(request).await.unwrap();
                    forwarded(upgraded, agent.unwrap(), cut).await.ok();
                });
                switching(&key)
            }
            _ => json(
                StatusCode::NOT_FOUND,
                json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}),
            ),
        }
    }
}

/// The response that switches a port-forward to the websocket protocol.
pub(crate) fn switching(key: &[u8]) -> Response<Full<Bytes>> {
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Accept", derive_accept_key(key))
        .header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
        .body(Full::default())
        .unwrap()
}

/// Carries a forwarded port to an agent's socket, until the connection is cut.
pub(crate) async fn forwarded(
    upgraded: hyper::upgrade::Upgraded,
    agent: PathBuf,
    cut: watch::Receiver<usize>,
) -> io::Result<()> {
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None);
    forward(socket.await, agent, cut).await
}

/// Keeps a forwarded connection open without sending anything, until it is cut.
pub(crate) async fn held(upgraded: hyper::upgrade::Upgraded, mut cut: watch::Receiver<usize>) {
    // The forwards end with the test.
    cut.changed().await.ok();
    drop(upgraded);
}

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// Channel 0 carries the port's bytes, channel 1 its errors; each begins with the port's number.
async fn forward(
    socket: Socket,
    agent: PathBuf,
    mut cut: watch::Receiver<usize>,
) -> io::Result<()> {
    let (mut to, mut from) = socket.split();
    let [low, high] = PORT.to_le_bytes();
    for channel in [0, 1] {
        let begin = Message::binary(vec![channel, low, high]);
        to.send(begin).await.map_err(io::Error::other)?;
    }
    let (mut read, mut write) = UnixStream::connect(agent).await?.into_split();
    let up = async {
        while let Some(Ok(message)) = from.next().await {
            if let Message::Binary(data) = message
                && let Some((0, data)) = data.split_first()
            {
                write.write_all(data).await?;
            }
        }
        Ok::<_, io::Error>(())
    };
    let down = async {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let n = read.read(&mut buffer).await?;
            if n == 0 {
                return Ok(());
            }
            let mut data = vec![0];
            data.extend(&buffer[..n]);
            to.send(Message::binary(data))
                .await
                .map_err(io::Error::other)?;
        }
    };
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
        _ = cut.changed() => Ok(()),
    }
}

pub(super) fn client(url: &str) -> kube::Client {
    kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap()
}

/// Starts a source that follows the agent of node1 through an apiserver.
fn following(url: &str) -> (Board, mpsc::Receiver<Observation>, watch::Receiver<Gives>) {
    let (board, from) = Board::new(1024);
    let (gives, given) = watch::channel(Gives::default());
    let wanted = Follow {
        way: Way::Pod {
            here: None,
            client: client(url),
            namespace: "kflow".to_owned(),
            labels: LABEL.to_owned(),
            node: "node1".to_owned(),
        },
        earlier: None,
        mark: Mark::default(),
        all: false,
        gives,
    };
    tokio::spawn(follow(wanted, board.out(Source::Cri, "agent")));
    (board, from, given)
}

async fn until(from: &mut mpsc::Receiver<Observation>, wanted: impl Fn(&Observation) -> bool) {
    let found = async { while !wanted(&from.recv().await.unwrap()) {} };
    tokio::time::timeout(PATIENCE, found)
        .await
        .expect("in time");
}

fn says(o: &Observation, message: &str) -> bool {
    matches!(&o.body, kflow_model::Body::Log(l) if l.message == message)
}

#[test]
fn an_agent_is_reached_through_the_apiserver_and_again_when_the_forward_breaks() {
    let node = Node::new();
    let _agent = node.start(&["--no-spool"]);
    block_on(async {
        connected(&node.socket()).await;
        let (server, url) = Apiserver::start(Some(node.socket()), false).await;
        let (board, mut from, mut given) = following(&url);
        until(&mut from, |o| says(o, "SyncLoop ADD")).await;
        let gives = given.wait_for(|g| g.kubelet_log).await.unwrap();
        assert!(gives.known && !gives.metrics);
        drop(gives);
        server.cut.send_modify(|n| *n += 1);
        // What was not seen while the forward was broken is reported as a gap, and no line comes twice.
        let mut doubled = false;
        let gap = async {
            loop {
                let o = from.recv().await.unwrap();
                doubled |= says(&o, "SyncLoop ADD");
                if matches!(&o.body, kflow_model::Body::Gap(g) if g.of == Source::Kubelet) {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, gap).await.expect("in time");
        node.append(
            "root/var/log/kubelet.log",
            &super::KUBELET.replace("SyncLoop ADD", "SyncLoop UPDATE"),
        );
        until(&mut from, |o| {
            assert!(!says(o, "SyncLoop ADD"), "twice");
            says(o, "SyncLoop UPDATE")
        })
        .await;
        assert!(!doubled);
        assert!(server.forwards.load(Ordering::Relaxed) >= 2);
        let status = &board.statuses()[0];
        assert!(status.is_on(), "{status:?}");
        assert!(
            status
                .detail()
                .starts_with(concat!("kflow ", env!("CARGO_PKG_VERSION"), ", ")),
            "{status:?}"
        );
    });
}

#[test]
fn without_an_agent_or_the_right_to_reach_it_a_sentence_says_what_would_help() {
    block_on(async {
        for (there, forbidden, want) in [
            (
                false,
                false,
                "no agent of kflow on node1 (namespace kflow): with one",
            ),
            (
                true,
                true,
                "needs get and create on pods/portforward in namespace kflow",
            ),
        ] {
            let agent = there.then(|| PathBuf::from("/no/such"));
            let (_, url) = Apiserver::start(agent, forbidden).await;
            let (board, _from, mut given) = following(&url);
            given.wait_for(|g| g.known).await.unwrap();
            let told = async {
                while !board.statuses()[0].is_off() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(PATIENCE, told).await.expect("in time");
            let status = &board.statuses()[0];
            assert!(status.detail().contains(want), "{status:?}");
        }
    });
}

/// Writes a kubeconfig for the stand-in at this URL.
pub(super) fn kubeconfig(node: &Node, url: &str) -> PathBuf {
    node.put(
        "kubeconfig",
        &format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: c, cluster: {{server: \"{url}\"}}}}]\nusers: [{{name: u, user: {{}}}}]\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n"
        ),
    );
    node.path("kubeconfig")
}

#[test]
fn what_an_agent_kept_is_in_a_recording_that_is_made_from_afar() {
    let node = Node::new();
    let _agent = node.kept();
    block_on(async {
        let mut reached = connected(&node.socket()).await;
        served(&mut reached, SubscribeRequest::default(), |all| {
            super::has(all, Source::Kubelet)
        })
        .await;
        let (_server, url) = Apiserver::start(Some(node.socket()), false).await;
        let config = kubeconfig(&node, &url);
        let file = node.path("r.kflow");
        let said = tokio::task::spawn_blocking({
            let file = file.clone();
            move || {
                run(command()
                    .args([
                        // Less than connecting takes: the time counts once the past is read.
                        "record", "--node", "node1", "--since", "-10m", "--for", "1ms",
                    ])
                    .arg("--kubeconfig")
                    .arg(config)
                    .arg("-O")
                    .arg(file))
            }
        });
        let said = said.await.unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("SyncLoop ADD"), "{}", said.err);
        for part in ["cri agent: on (kflow ", " is read\n"] {
            assert!(said.err.contains(part), "{part}: {}", said.err);
        }
        assert!(!text.contains("\"gap\""), "{text}");
    });
}

#[test]
fn since_needs_the_agent_of_a_node() {
    let args = ["record", "--since", "-10m", "--for", "1s"];
    for (more, want) in [
        (["-O", "/dev/null"], "--node"),
        (["--store", "file:///no/such"], "kflow store add"),
    ] {
        let said = crate::program::kflow(args.into_iter().chain(more));
        assert_eq!(said.code, Some(2));
        assert!(said.err.contains(want), "{}", said.err);
    }
}

/// Runs a command against an apiserver that knows the agent of node1, and returns its output.
pub(super) async fn said(node: &Node, url: &str, args: &[&str]) -> Said {
    let mut command = command();
    command
        .args(args)
        .arg("--kubeconfig")
        .arg(kubeconfig(node, url));
    tokio::task::spawn_blocking(move || run(&mut command))
        .await
        .unwrap()
}

#[test]
fn every_node_is_told_with_what_its_agent_lacks_and_doctor_tells_it_of_one() {
    let node = Node::new();
    let _agent = node.start(&["--no-spool"]);
    block_on(async {
        connected(&node.socket()).await;
        let (_server, url) = Apiserver::start(Some(node.socket()), false).await;
        let all = said(&node, &url, &["agent", "status"]).await;
        assert_eq!(all.code, Some(2), "one has none: {}", all.err);
        for part in [
            "node1  ready      kflow-agent-x  kflow ",
            "  missing  kubelet spans: the kubelet sends none",
            "node2  no agent\n",
        ] {
            assert!(all.out.contains(part), "{part}: {}", all.out);
        }
        let one = said(
            &node,
            &url,
            &["agent", "status", "--node", "node1", "-o", "json"],
        )
        .await;
        assert_eq!(one.code, Some(0), "{}", one.err);
        let one: serde_json::Value = serde_json::from_str(&one.out).unwrap();
        fits("agent", &one);
        let all = said(&node, &url, &["agent", "status", "-o", "json"]).await;
        fits("agent", &serde_json::from_str(&all.out).unwrap());
        let socket = node.socket().display().to_string();
        let mut asks = command();
        asks.args(["agent", "status", "--socket", &socket, "-o", "json"]);
        let own = tokio::task::spawn_blocking(move || run(&mut asks))
            .await
            .unwrap();
        let own: serde_json::Value = serde_json::from_str(&own.out).unwrap();
        fits("agent", &own);
        assert_eq!(own[0]["node"], "node1", "the same by its socket: {own}");
        assert_eq!(
            (&one[0]["node"], &one[0]["state"]),
            (&json!("node1"), &json!("ready"))
        );
        let rows = one[0]["rows"].as_array().unwrap();
        assert!(
            rows.iter()
                .any(|r| r["what"] == "scheduler log" && r["state"] == "found")
        );

        let root = node.path("root").display().to_string();
        let doctor = said(&node, &url, &["doctor", "--node", "node1", "--root", &root]).await;
        let rows: Vec<&str> = doctor.out.lines().filter(|l| l.contains("agent")).collect();
        assert!(
            rows.iter().any(|r| r.contains(" sources")),
            "{}",
            doctor.out
        );
        assert!(
            rows.iter().any(|r| r.contains("kubelet spans: ")),
            "{}",
            doctor.out
        );
    });
}
