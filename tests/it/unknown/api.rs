//! A stand-in for an apiserver that fails in every way that one can: real HTTP on loopback, a thread a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// It is answered as by an apiserver.
    Serve,
    /// It is answered with this status.
    Refuse(u16),
    /// It is never answered.
    Hang,
    /// The answer ends half-way.
    Half,
    /// The answer begins, and stops without an end.
    Stall,
    /// 200 and a page to log in.
    Login,
    /// A redirect to such a page.
    Redirect,
    /// 200 and JSON that is no list.
    OtherJson,
    /// The connection is closed without an answer.
    Close,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) resource: String,
    pub(super) namespace: Option<String>,
    pub(super) watch: bool,
    /// The label and field selectors.
    pub(super) query: String,
    pub(super) agent: String,
}

type Rule = dyn Fn(&Asked) -> Act + Send + Sync;

/// The server, and a kubeconfig for it.
pub(super) struct Api {
    pub(super) address: String,
    pub(super) asked: Arc<Mutex<Vec<Asked>>>,
    dir: tempfile::TempDir,
}

impl Api {
    /// Starts a server that does with each request what the rule says.
    pub(super) fn start(rule: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let api = Self::at(&format!("http://{}", listener.local_addr().unwrap()));
        let (asked, rule): (_, Arc<Rule>) = (Arc::clone(&api.asked), Arc::new(rule));
        // It ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, rule) = (Arc::clone(&asked), Arc::clone(&rule));
                thread::spawn(move || {
                    // A client that goes away ends its connection.
                    serve(stream, &asked, rule.as_ref()).ok();
                });
            }
        });
        api
    }

    /// No server, only a kubeconfig that names this address.
    pub(super) fn at(address: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [
                {"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "shop"}},
                {"name": "bare", "context": {"cluster": "c", "user": "u"}},
            ],
        });
        std::fs::write(dir.path().join("config"), config.to_string()).unwrap();
        Self {
            address: address.to_owned(),
            asked: Arc::default(),
            dir,
        }
    }

    /// An address that nobody listens on.
    pub(super) fn nobody() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::at(&format!("http://{}", listener.local_addr().unwrap()))
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("config")
    }
}

/// The URI of a request, and its headers with names in small letters.
type Head = (String, Vec<(String, String)>);

/// The next request of a connection; `None` at its end.
pub(crate) fn head(reader: &mut impl BufRead) -> std::io::Result<Option<Head>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let uri = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(':') else {
            return Ok(Some((uri, headers)));
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn serve(stream: TcpStream, all: &Mutex<Vec<Asked>>, rule: &Rule) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut to = stream;
    loop {
        let Some((uri, headers)) = head(&mut reader)? else {
            return Ok(());
        };
        let (path, query) = uri.split_once('?').unwrap_or((&uri, ""));
        let parts: Vec<&str> = path.split('/').collect();
        let namespace = parts
            .iter()
            .position(|p| *p == "namespaces")
            .and_then(|i| parts.get(i + 1))
            .map(|n| (*n).to_owned());
        let mut asked = Asked {
            resource: parts.last().copied().unwrap_or_default().to_owned(),
            namespace,
            watch: query.contains("watch=1"),
            query: query.to_owned(),
            agent: String::new(),
        };
        let mut length = 0;
        for (name, value) in headers {
            match name.as_str() {
                "content-length" => length = value.parse().unwrap(),
                "user-agent" => asked.agent = value,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let act = rule(&asked);
        all.lock().unwrap().push(asked.clone());
        let page = "<html><form>Sign in</form></html>";
        match act {
            Act::Serve if asked.watch => {
                write!(
                    to,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                )?;
                to.flush()?;
                // Nothing happens until the client goes.
                reader.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            Act::Serve => answer(
                &mut to,
                200,
                "application/json",
                &content(&asked, &body, rule),
            )?,
            Act::Refuse(code) => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code});
                answer(&mut to, code, "application/json", &status.to_string())?;
            }
            Act::Login => answer(&mut to, 200, "text/html; charset=utf-8", page)?,
            Act::Redirect => {
                write!(
                    to,
                    "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n"
                )?;
            }
            Act::OtherJson => answer(&mut to, 200, "application/json", "{\"hello\":\"world\"}")?,
            Act::Close => return Ok(()),
            Act::Hang => {
                reader.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            Act::Half | Act::Stall => {
                let whole = content(&asked, &body, rule);
                let (half, _) = whole.split_at(whole.len() / 2);
                write!(
                    to,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{half}",
                    whole.len()
                )?;
                to.flush()?;
                if act == Act::Stall {
                    reader.read_to_end(&mut Vec::new())?;
                }
                return Ok(());
            }
        }
    }
}

fn answer(to: &mut TcpStream, code: u16, kind: &str, body: &str) -> std::io::Result<()> {
    write!(
        to,
        "HTTP/1.1 {code} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    to.flush()
}

/// What an apiserver with one pod answers.
fn content(asked: &Asked, body: &[u8], rule: &Rule) -> String {
    let kind = match asked.resource.as_str() {
        "pods" => "Pod",
        "events" => "Event",
        "nodes" => "Node",
        "deployments" => "Deployment",
        "replicasets" => "ReplicaSet",
        "daemonsets" => "DaemonSet",
        "statefulsets" => "StatefulSet",
        "jobs" => "Job",
        "leases" => "Lease",
        "persistentvolumeclaims" => "PersistentVolumeClaim",
        "selfsubjectaccessreviews" => {
            // Who would be refused is told so.
            let review: Value = serde_json::from_slice(body).unwrap();
            let of = &review["spec"]["resourceAttributes"];
            let wanted = Asked {
                resource: of["resource"].as_str().unwrap().to_owned(),
                namespace: of["namespace"]
                    .as_str()
                    .filter(|n| !n.is_empty())
                    .map(str::to_owned),
                ..Asked::default()
            };
            let allowed = rule(&wanted) == Act::Serve;
            return json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}})
                .to_string();
        }
        _ => return "{}".to_owned(),
    };
    let items = if kind == "Pod" && asked.namespace.as_deref().is_none_or(|n| n == "shop") {
        vec![pod()]
    } else {
        Vec::new()
    };
    json!({
        "kind": format!("{kind}List"), "apiVersion": "v1",
        "metadata": {"resourceVersion": "1000"}, "items": items,
    })
    .to_string()
}

/// `shop/web-0`: it runs, and is ready since long.
fn pod() -> Value {
    let since = "2026-01-01T00:00:00Z";
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": since});
    json!({
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "00000000-0000-0000-0000-000000000001",
            "resourceVersion": "900", "creationTimestamp": since, "labels": {"app": "web"},
        },
        "spec": {"nodeName": "node1", "containers": [{"name": "web", "image": "web:1"}]},
        "status": {
            "phase": "Running",
            "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
            "containerStatuses": [{
                "name": "web", "image": "web:1", "imageID": "", "ready": true, "started": true, "restartCount": 0,
                "containerID": "containerd://1", "state": {"running": {"startedAt": since}},
            }],
        },
    })
}
