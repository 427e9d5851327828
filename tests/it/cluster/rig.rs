//! A simulated cluster: an apiserver with nodes, and on each an agent's real service that serves a recording. Nodes are
//! called `simulated-N`; those beyond the recordings have invented pods.

mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kflow_engine::live::{Config, connect};
use kflow_model::pod::PodSeen;
use kflow_model::{Body, Nanos, Observation, clock};
use kflow_serve::ring::Ring;
use kflow_serve::service::{Host, Past};
use kflow_serve::wire::{Agent, Finding, InfoResponse, SourceState};
use kflow_sources::kube::live::{OBJECTS, Of};
use prost::bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::WatchStream;
use tonic::codegen::http::{Request, Response, StatusCode};

use crate::agent::forward;
use crate::agent::serving::Serving;
use crate::program::{Said, command, run};
pub(super) use objects::ended_call;
pub(super) use objects::name;
use objects::{call_of, invented, invented_call, node_json, owners_json, pod_json, stuck_of};

/// The recordings that agents serve, in turn, and up to where, permille: pods are stuck at that time. The API has the
/// pods of these recordings on the first nodes.
const SESSIONS: [(&str, i64); 3] = [
    ("S2-stuck-early", 450),
    ("S6-slowpull", 300),
    ("S10-pleg", 450),
];

/// A Deployment that starts many pods. It was recorded on one node; the rig spreads the pods over several.
const SPREAD: (&str, i64) = ("S5-burst", 300);

/// The shape of a cluster.
#[derive(Default)]
pub(super) struct Shape {
    pub(super) nodes: usize,
    /// How many nodes have an agent: the first ones.
    pub(super) agents: usize,
    /// The first invented pod of each node waits for an invented call. So does an additional pod of the Deployment of
    /// [`SPREAD`] on each of its nodes.
    pub(super) sick: bool,
    /// Agents beyond the first 8 serve a whole recording too.
    pub(super) whole: bool,
    /// On how many nodes the Deployment of [`SPREAD`] has its pods, in turn: the first ones. These have no other pods
    /// then, and agents serve the recording of this Deployment.
    pub(super) spread: usize,
    /// Nodes whose agents never answer.
    pub(super) mute: BTreeSet<usize>,
    /// Nodes whose clocks are ahead by so much, ns.
    pub(super) ahead: BTreeMap<usize, i64>,
}

/// The path of one node.
pub(super) const NODE: &str = "/api/v1/nodes/";
/// The resourceVersion of a list before any change.
const LISTED: usize = 1000;

/// Returns the kind of a resource that can be listed. The cluster has no add-ons.
fn kind_of(resource: &str) -> Option<&'static str> {
    const OTHERS: [(&str, &str); 4] = [
        ("pods", "Pod"),
        ("nodes", "Node"),
        ("events", "Event"),
        ("leases", "Lease"),
    ];
    let own = OBJECTS.iter().filter(|o| matches!(o.of, Of::Kubernetes(_)));
    let own = own.map(|o| (o.resource, o.kind));
    let mut all = own.chain(OTHERS);
    all.find_map(|(of, kind)| (of == resource).then_some(kind))
}

/// An agent's service on a socket.
pub(super) struct Served {
    pub(super) socket: PathBuf,
    pub(super) serving: Serving,
    asked: Arc<Mutex<Vec<Nanos>>>,
}

impl Served {
    fn start(
        socket: &Path,
        node: &str,
        ahead: i64,
        mut lines: Vec<Observation>,
        kept: Kept,
    ) -> Self {
        let ring = Ring::new(8 << 20, Duration::from_secs(600));
        for o in &mut lines {
            o.stamp.at = o.stamp.at.plus(ahead);
        }
        ring.push(&mut lines, clock::monotonic());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let about = About(node.to_owned(), ahead, kept, Arc::clone(&asked));
        Self {
            socket: socket.to_owned(),
            serving: Serving::start(socket, ring, about),
            asked,
        }
    }
    /// The starts of the ranges of the past that were asked for, by the agent's clock.
    pub(super) fn asked(&self) -> Vec<Nanos> {
        self.asked.lock().unwrap().clone()
    }
    /// Adds observations to the agent's ring.
    pub(super) fn see(&self, mut more: Vec<Observation>) {
        self.serving.ring.push(&mut more, clock::monotonic());
    }
}

/// All observations of a recording, including the apiserver's.
type Kept = Arc<Vec<Observation>>;

/// The agent's node, how far its clock is ahead, ns, what it keeps of the past, and the starts of the ranges that were
/// asked for.
struct About(String, i64, Kept, Arc<Mutex<Vec<Nanos>>>);

impl Host for About {
    fn info(&self) -> InfoResponse {
        let on = |kind: &str| SourceState {
            kind: kind.to_owned(),
            state: 1,
            detail: "a recording".to_owned(),
            ..SourceState::default()
        };
        InfoResponse {
            agent: Some(Agent {
                node: self.0.clone(),
                sources: vec![on("cri"), on("kubelet"), on("fs")],
                findings: vec![Finding {
                    what: "audit log".to_owned(),
                    found: "of no file".to_owned(),
                    ..Finding::default()
                }],
                ..Agent::default()
            }),
            now: clock::now().plus(self.1).0.cast_unsigned(),
            ..InfoResponse::default()
        }
    }
    fn past(&self, since: Nanos, _until: Nanos, give: Past<'_>) -> Result<(), String> {
        self.3.lock().unwrap().push(since);
        if self.2.is_empty() {
            return Err("nothing is kept".to_owned());
        }
        for some in self.2.chunks(100) {
            let lines = some.iter().map(|o| {
                let mut o = o.clone();
                o.stamp.at = o.stamp.at.plus(self.1);
                o.stamp.seen = o.stamp.seen.plus(self.1);
                match &mut o.body {
                    Body::Pod(p) if !p.spec.node.is_empty() => p.spec.node = self.0.as_str().into(),
                    Body::Node(n) => n.name = self.0.as_str().into(),
                    _ => {}
                }
                kflow_serve::ring::line(&o)
            });
            if !give(lines.collect()) {
                break;
            }
        }
        Ok(())
    }
}

/// A recording up to a moment: the pods that exist then, the observations of the node's own
/// sources, and all observations.
struct Recorded {
    pods: Vec<PodSeen>,
    of_node: Vec<Observation>,
    all: Kept,
}

impl Recorded {
    fn load((name, permille): (&str, i64)) -> Self {
        let path = crate::recording(name);
        let session = kflow_model::session::load(&path).expect("fixture");
        let (begin, end) = session.range().expect("observations");
        let upto = session.arrived_by(begin.plus(end.since(begin) / 1000 * permille));
        let (mut pods, mut of_node) = (BTreeMap::new(), Vec::new());
        for o in session.observations.iter().take(upto) {
            match &o.body {
                Body::Pod(p) if p.event == kflow_model::pod::WatchEvent::Deleted => {
                    pods.remove(&p.uid);
                }
                Body::Pod(p) => {
                    pods.insert(p.uid.clone(), (**p).clone());
                }
                _ if o.source.is_node() => of_node.push(Observation::clone(o)),
                _ => {}
            }
        }
        let all = session.observations.iter().take(upto);
        Self {
            pods: pods.into_values().collect(),
            of_node,
            all: Arc::new(all.map(|o| Observation::clone(o)).collect()),
        }
    }
}

/// The simulated apiserver and its agents.
pub(super) struct Played {
    dir: tempfile::TempDir,
    pods: Vec<Value>,
    /// Owners of pods, each with its kind.
    owners: Vec<(&'static str, Value)>,
    nodes: Mutex<Vec<Value>>,
    /// By node; `None`: the agent was killed.
    agents: Mutex<BTreeMap<String, Option<Served>>>,
    mute: BTreeSet<usize>,
    pub(super) other_version: Mutex<Option<String>>,
    /// Watch events with their resource: the n-th, from 0, has the resourceVersion 1001 + n.
    changes: watch::Sender<Vec<(String, String)>>,
    /// Breaks every forwarded connection, when it changes.
    pub(super) cut: watch::Sender<usize>,
    /// Every request is refused, and every watch ends.
    down: AtomicBool,
    restart: watch::Sender<usize>,
    /// What is forbidden: `/pods` in the agents' namespace, `/portforward`, or a [`NODE`].
    pub(super) forbidden: Mutex<Option<&'static str>>,
    pub(super) requests: AtomicUsize,
    /// When each request came, and its URI.
    pub(super) times: Mutex<Vec<(Instant, String)>>,
    pub(super) forwards: AtomicUsize,
    pub(super) url: String,
}

impl Played {
    /// A cluster of so many nodes, with agents on the first ones.
    pub(super) async fn start(nodes: usize, agents: usize) -> Arc<Self> {
        Self::of(Shape {
            nodes,
            agents,
            ..Shape::default()
        })
        .await
    }

    pub(super) async fn of(shape: Shape) -> Arc<Self> {
        let nodes = shape.nodes;
        let ahead = |n: usize| shape.ahead.get(&n).copied().unwrap_or(0);
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let recorded: Vec<Recorded> = SESSIONS.map(Recorded::load).into();
        let mut pods = Vec::new();
        for n in 0..nodes {
            match recorded.get(n) {
                Some(r) => pods.extend(r.pods.iter().map(|p| pod_json(p, &name(n), ahead(n)))),
                None => pods.extend((0..3).map(|i| invented(n, i, shape.sick && i == 0))),
            }
        }
        let spread = (shape.spread > 0).then(|| Recorded::load(SPREAD));
        let mut stuck = Vec::new();
        if let Some(r) = &spread {
            let on = |n: usize| n % shape.spread;
            let others: Vec<Value> = (shape.spread..nodes).map(|n| name(n).into()).collect();
            pods.retain(|p| others.contains(&p["spec"]["nodeName"]));
            pods.extend(
                r.pods
                    .iter()
                    .enumerate()
                    .map(|(n, p)| pod_json(p, &name(on(n)), ahead(on(n)))),
            );
            let set = r.pods.iter().find_map(|p| Some((p, p.owner.as_ref()?)));
            let of = (0..shape.spread).filter(|_| shape.sick);
            let (pod, set) = set.unwrap();
            stuck.extend(of.map(|n| stuck_of(n, &pod.namespace, set)));
            pods.extend(stuck.iter().cloned());
        }
        let owners = spread.as_ref().map(|r| owners_json(&r.pods));
        let owners = owners.unwrap_or_default();
        let served = (0..shape.agents).map(|n| {
            let of = spread.as_ref().unwrap_or(&recorded[n % recorded.len()]);
            let kept = Arc::clone(&of.all);
            let of = &of.of_node;
            // The first agents serve all of a recording, the others only the newest part, so that two hundred fit into
            // a test.
            let from = if n < 8 || shape.whole {
                0
            } else {
                of.len().saturating_sub(200)
            };
            let mut lines = of[from..].to_vec();
            match stuck.get(n) {
                Some(pod) => lines.push(call_of(pod)),
                None if shape.sick && n >= recorded.len() => lines.push(invented_call(n)),
                None => {}
            }
            let served = Served::start(&socket(dir.path(), n), &name(n), ahead(n), lines, kept);
            (name(n), Some(served))
        });
        let agents = Mutex::new(served.collect());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let this = Arc::new(Self {
            pods,
            owners,
            nodes: Mutex::new((0..nodes).map(node_json).collect()),
            agents,
            mute: shape.mute,
            other_version: Mutex::default(),
            changes: watch::channel(Vec::new()).0,
            cut: watch::channel(0).0,
            down: AtomicBool::new(false),
            restart: watch::channel(0).0,
            forbidden: Mutex::default(),
            requests: AtomicUsize::new(0),
            times: Mutex::default(),
            forwards: AtomicUsize::new(0),
            url: format!("http://{}", listener.local_addr().unwrap()),
            dir,
        });
        let server = Arc::clone(&this);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    let mut restart = server.restart.subscribe();
                    let answer = service_fn(move |r| {
                        let answer = Arc::clone(&server).answer(r);
                        async move { answer }
                    });
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answer)
                        .with_upgrades();
                    tokio::select! {
                        _ = connection => {}
                        _ = restart.changed() => {}
                    }
                });
            }
        });
        this
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        let path = self.dir.path().join("kubeconfig");
        let url = &self.url;
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: c, cluster: {{server: \"{url}\"}}}}]\nusers: [{{name: u, user: {{}}}}]\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n"
        );
        fs::write(&path, text).unwrap();
        path
    }

    pub(super) async fn client(&self) -> kube::Client {
        let config = Config {
            kubeconfig: Some(self.kubeconfig()),
            ..Config::nothing()
        };
        connect(&config).await.unwrap().0
    }

    /// Kills the agent of a node, which sends no word to its subscribers.
    pub(super) fn kill(&self, n: usize) {
        let gone = self.agents.lock().unwrap().insert(name(n), None);
        drop(gone);
    }
    /// Starts another agent on the node.
    pub(super) fn revive(&self, n: usize) {
        let of = Recorded::load(SESSIONS[n % SESSIONS.len()]).of_node;
        let socket = socket(self.dir.path(), n);
        let served = Served::start(&socket, &name(n), 0, of, Kept::default());
        self.agents.lock().unwrap().insert(name(n), Some(served));
    }
    /// The program, with a kubeconfig for this cluster.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = command();
        command
            .args(args)
            .arg("--kubeconfig")
            .arg(self.kubeconfig());
        command
    }
    /// Runs the program, and returns its output.
    pub(super) async fn kflow(&self, args: &[&str]) -> Said {
        let mut command = self.command(args);
        tokio::task::spawn_blocking(move || run(&mut command))
            .await
            .unwrap()
    }
    /// An agent that was started by hand on the node, outside of any pod. It saw one call.
    pub(super) fn by_hand(&self, n: usize) -> Served {
        let socket = self.dir.path().join(name(n)).join("by-hand.sock");
        Served::start(
            &socket,
            &name(n),
            0,
            vec![invented_call(n)],
            Kept::default(),
        )
    }
    /// Looks at the agent of a node; `None` when there is none.
    pub(super) fn with_agent<T>(&self, n: usize, look: impl FnOnce(&Served) -> T) -> Option<T> {
        let all = self.agents.lock().unwrap();
        all.get(&name(n))?.as_ref().map(look)
    }
    /// Gives the node of this name another machine's boot ID.
    pub(super) fn on_another_machine(&self, node: &str) {
        let mut nodes = self.nodes.lock().unwrap();
        if nodes.iter().all(|x| x["metadata"]["name"] != node) {
            let mut object = node_json(0);
            object["metadata"]["name"] = node.into();
            nodes.push(object);
        }
        let of = nodes.iter_mut().find(|x| x["metadata"]["name"] == node);
        of.unwrap()["status"]["nodeInfo"]["bootID"] = "another".into();
    }
    /// Deletes a node and its agent.
    pub(super) fn delete(&self, n: usize) {
        self.kill(n);
        self.agents.lock().unwrap().remove(&name(n));
        let mut nodes = self.nodes.lock().unwrap();
        let at = nodes.iter().position(|x| x["metadata"]["name"] == name(n));
        let mut object = nodes.remove(at.unwrap());
        object["kind"] = "Node".into();
        object["apiVersion"] = "v1".into();
        // The event gets its version under the lock that lists take: a list has every change up to its version.
        self.changes.send_modify(|all| {
            object["metadata"]["resourceVersion"] = (LISTED + 1 + all.len()).to_string().into();
            let line = format!("{}\n", json!({"type": "DELETED", "object": object}));
            all.push(("nodes".to_owned(), line));
        });
    }
    /// Takes the apiserver down, or brings it back.
    pub(super) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
        self.restart.send_modify(|n| *n += 1);
        if down {
            self.cut.send_modify(|n| *n += 1);
        }
    }

    fn agent_pods(&self, of_node: Option<&str>) -> Vec<Value> {
        let version = self.other_version.lock().unwrap().clone();
        let all = self.agents.lock().unwrap();
        let wanted = all.keys().filter(|n| of_node.is_none_or(|of| of == *n));
        wanted
            .map(|node| {
                json!({
                    "metadata": {
                        "name": format!("kflow-agent-{node}"),
                        "labels": {"app.kubernetes.io/version": version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION"))},
                    },
                    "spec": {"nodeName": node},
                    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
                })
            })
            .collect()
    }

    fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Answer, io::Error> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let asked = (clock::monotonic(), request.uri().to_string());
        self.times.lock().unwrap().push(asked);
        if self.down.load(Ordering::SeqCst) {
            return Err(io::Error::other("down"));
        }
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let value = |key: &str| {
            let mut pairs = query.split('&').filter_map(|p| p.split_once('='));
            pairs.find(|(k, _)| *k == key).map(|(_, v)| {
                v.replace("%3D", "=")
                    .replace("%2F", "/")
                    .replace("%2C", ",")
            })
        };
        let of_agents = path.starts_with("/api/v1/namespaces/kflow/");
        let forbidden = *self.forbidden.lock().unwrap();
        let refused = of_agents && forbidden.is_some_and(|end| path.ends_with(end));
        let node = path.strip_prefix(NODE);
        if refused || (node.is_some() && forbidden == Some(NODE)) {
            return Ok(status(StatusCode::FORBIDDEN));
        }
        if let Some(node) = node.filter(|n| !n.contains('/')) {
            let nodes = self.nodes.lock().unwrap();
            let object = nodes.iter().find(|x| x["metadata"]["name"] == node);
            let json = object.map(|x| Response::new(whole(x.to_string())));
            return Ok(json.unwrap_or_else(|| status(StatusCode::NOT_FOUND)));
        }
        let fields = value("fieldSelector").unwrap_or_default();
        let resource = path.rsplit('/').next().unwrap_or_default().to_owned();
        if let Some(pod) = path
            .strip_prefix("/api/v1/namespaces/kflow/pods/")
            .and_then(|p| p.strip_suffix("/portforward"))
        {
            let node = pod.strip_prefix("kflow-agent-").unwrap_or_default();
            return Ok(self.forward(node, request));
        }
        if path.contains("/proxy/") || !path.starts_with("/api") {
            return Ok(status(StatusCode::NOT_FOUND));
        }
        if value("watch").is_some() {
            let since = value("resourceVersion").and_then(|v| v.parse().ok());
            return Ok(self.watch(resource, since.unwrap_or(LISTED)));
        }
        let mut version = LISTED;
        let Some(kind) = kind_of(&resource) else {
            return Ok(status(StatusCode::NOT_FOUND));
        };
        let items: Vec<Value> = match path.as_str() {
            "/api/v1/nodes" => {
                let all = self.nodes.lock().unwrap();
                version += self.changes.borrow().len();
                let name = fields.strip_prefix("metadata.name=");
                let wanted = |n: &&Value| name.is_none_or(|w| n["metadata"]["name"] == w);
                all.iter().filter(wanted).cloned().collect()
            }
            "/api/v1/namespaces/kflow/pods" => {
                self.agent_pods(fields.strip_prefix("spec.nodeName="))
            }
            path if resource == "pods" => {
                let namespace = path.split('/').rev().nth(1).filter(|n| *n != "v1");
                let node = fields.strip_prefix("spec.nodeName=");
                let wanted = |p: &&Value| {
                    node.is_none_or(|w| p["spec"]["nodeName"] == w)
                        && namespace.is_none_or(|w| p["metadata"]["namespace"] == w)
                };
                self.pods.iter().filter(wanted).cloned().collect()
            }
            _ => {
                let of = self.owners.iter().filter(|(of, _)| *of == kind);
                of.map(|(_, x)| x.clone()).collect()
            }
        };
        let list = json!({
            "kind": format!("{kind}List"), "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()}, "items": items,
        });
        Ok(Response::builder()
            .header("Content-Type", "application/json")
            .body(whole(list.to_string()))
            .unwrap())
    }

    /// Streams the changes after a version: like an apiserver's, a watch loses no change that came
    /// between list and watch.
    fn watch(&self, resource: String, since: usize) -> Answer {
        let mut told = since.saturating_sub(LISTED);
        let lines = WatchStream::new(self.changes.subscribe()).filter_map(move |all| {
            let new = all.get(told..).unwrap_or_default().iter();
            let text: String = new
                .filter(|(of, _)| *of == resource)
                .map(|(_, line)| line.as_str())
                .collect();
            told = all.len();
            (!text.is_empty()).then(|| Ok::<_, io::Error>(Frame::data(Bytes::from(text))))
        });
        Response::new(StreamBody::new(lines).boxed())
    }

    fn forward(self: Arc<Self>, node: &str, request: Request<Incoming>) -> Answer {
        self.forwards.fetch_add(1, Ordering::Relaxed);
        let number: usize = node.strip_prefix("simulated-").unwrap().parse().unwrap();
        let key = request.headers()["Sec-WebSocket-Key"].as_bytes().to_vec();
        let socket = socket(self.dir.path(), number);
        let cut = self.cut.subscribe();
        let mute = self.mute.contains(&number);
        tokio::spawn(async move {
            if let Ok(upgraded) = hyper::upgrade::on(request).await {
                if mute {
                    return forward::held(upgraded, cut).await;
                }
                forward::forwarded(upgraded, socket, cut).await.ok();
            }
        });
        forward::switching(&key).map(|b| b.map_err(|e| match e {}).boxed())
    }
}

fn socket(dir: &Path, n: usize) -> PathBuf {
    dir.join(format!("{n}.sock"))
}

type Answer = Response<BoxBody<Bytes, io::Error>>;

fn whole(text: String) -> BoxBody<Bytes, io::Error> {
    Full::new(Bytes::from(text)).map_err(|e| match e {}).boxed()
}

fn status(code: StatusCode) -> Answer {
    let text = json!({"kind": "Status", "status": "Failure", "code": code.as_u16()}).to_string();
    Response::builder().status(code).body(whole(text)).unwrap()
}
