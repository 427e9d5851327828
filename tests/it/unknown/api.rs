//! A stand-in for an apiserver that can fail in many ways: real HTTP on loopback, one thread for each connection.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use kflow_sources::kube::live::OBJECTS;
use serde_json::{Value, json};

/// What the server does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Answers as an apiserver does.
    Serve,
    /// Answers with this status.
    Refuse(u16),
    /// Never answers.
    Hang,
    /// Ends the connection in the middle of the answer.
    Half,
    /// Begins the answer and then sends nothing more, without closing.
    Stall,
    /// Answers with 200 and a login page.
    Login,
    /// Redirects to a login page.
    Redirect,
    /// Answers with a list in which one item is no object of its kind.
    OddItem,
    /// Answers with a list of objects whose fields have other types than the API's.
    OddFields,
    /// Sends the body byte by byte.
    Drip,
    /// Answers with a list in which every page names a next one: with a new continue token each time, or
    /// with the same one.
    Pages { same: bool },
    /// Answers with a compressed body that expands to a thousand times its size.
    Packed,
    /// Announces a body of this many bytes, and sends none.
    Declared(u64),
    /// Sends a body without end.
    Endless,
    /// Sends a header of this many bytes, and otherwise answers as an apiserver does.
    Header(usize),
    /// Answers plain HTTP as a TLS server does: with an HTTP error like Go's server, or with a TLS alert.
    WantsTls { in_http: bool },
    /// Redirects to the requested URL itself.
    Loop,
    /// Redirects to another port.
    Elsewhere(u16),
    /// Answers with 429 and a `Retry-After` of this many seconds.
    Later(u64),
    /// Answers lists as an apiserver does, but in a watch begins a line that never ends.
    LongLine,
    /// Answers with 200 and JSON that is no list.
    OtherJson,
    /// Closes the connection without an answer.
    Close,
    /// Answers a list with these objects, JSON.
    Items(&'static str),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) resource: String,
    pub(super) namespace: Option<String>,
    pub(super) watch: bool,
    /// The label and field selectors.
    pub(super) query: String,
    pub(super) agent: String,
    pub(super) authorization: String,
}

/// The token in the kubeconfig.
pub(super) const TOKEN: &str = "a-token-of-the-test";

type Rule = dyn Fn(&Asked) -> Act + Send + Sync;

/// The server, and a kubeconfig that names it.
pub(super) struct Api {
    pub(super) address: String,
    pub(super) asked: Arc<Mutex<Vec<Asked>>>,
    dir: tempfile::TempDir,
}

impl Api {
    /// Starts a server that decides by `rule` what it does with each request.
    pub(super) fn start(rule: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let api = Self::at(&format!("http://{}", listener.local_addr().unwrap()));
        let (asked, rule): (_, Arc<Rule>) = (Arc::clone(&api.asked), Arc::new(rule));
        // The thread ends with the process.
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

    /// Writes a kubeconfig that names this address, without a server.
    pub(super) fn at(address: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
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

    /// Writes a kubeconfig that names an address on which nobody listens.
    pub(super) fn nobody() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::at(&format!("http://{}", listener.local_addr().unwrap()))
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("config")
    }
}

/// The URI of a request, and its headers with names in lower case.
type Head = (String, Vec<(String, String)>);

/// Reads the head of a connection's next request; returns `None` at the end of the connection.
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
        let (uri, headers) = match head(&mut reader) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(()),
            // Bytes that are no text: the client speaks TLS.
            Err(e) if e.kind() == ErrorKind::InvalidData => {
                return answer(&mut to, 400, "text/plain", "this is plain HTTP");
            }
            Err(e) => return Err(e),
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
            ..Asked::default()
        };
        let mut length = 0;
        for (name, value) in headers {
            match name.as_str() {
                "content-length" => length = value.parse().unwrap(),
                "user-agent" => asked.agent = value,
                "authorization" => asked.authorization = value,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let act = rule(&asked);
        all.lock().unwrap().push(asked.clone());
        let page = "<html><form>Sign in</form></html>";
        match act {
            Act::Serve | Act::Header(_) if asked.watch => {
                to.write_all(CHUNKED)?;
                // Sends nothing until the client closes.
                reader.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            Act::LongLine if asked.watch => {
                to.write_all(CHUNKED)?;
                let piece = [&b"100000\r\n"[..], &vec![b'x'; 1 << 20], b"\r\n"].concat();
                for _ in 0..17 {
                    to.write_all(&piece)?;
                }
                reader.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            Act::Serve | Act::LongLine => answer(
                &mut to,
                200,
                "application/json",
                &content(&asked, &body, rule),
            )?,
            Act::OddItem | Act::OddFields if asked.watch => {
                reader.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            Act::OddItem => {
                let mut list: Value = serde_json::from_str(&content(&asked, &body, rule)).unwrap();
                if let Some(items) = list["items"].as_array_mut() {
                    items.push(json!([["no object"]]));
                }
                answer(&mut to, 200, "application/json", &list.to_string())?;
            }
            Act::OddFields => {
                let mut list: Value = serde_json::from_str(&content(&asked, &body, rule)).unwrap();
                if let Some(items) = list["items"].as_array_mut() {
                    items.extend(odd());
                }
                answer(&mut to, 200, "application/json", &list.to_string())?;
            }
            Act::Drip => {
                to.write_all(CHUNKED)?;
                // Sends one byte whenever the client has been silent for 20 ms, until the client closes.
                to.set_read_timeout(Some(Duration::from_millis(20)))?;
                loop {
                    match reader.read(&mut [0]) {
                        Ok(_) => return Ok(()),
                        Err(e) if e.kind() == ErrorKind::WouldBlock => {
                            to.write_all(b"1\r\n \r\n")?;
                        }
                        Err(e) => return Err(e),
                    }
                }
            }
            Act::Pages { same } => {
                let mut list: Value = serde_json::from_str(&content(&asked, &body, rule)).unwrap();
                let page = query.split('&').find_map(|q| q.strip_prefix("continue="));
                let page: u64 = page.and_then(|p| p.parse().ok()).unwrap_or_default();
                let next = if same { 1 } else { page + 1 };
                list["metadata"]["continue"] = next.to_string().into();
                answer(&mut to, 200, "application/json", &list.to_string())?;
            }
            Act::Packed => {
                let mut packed = GzEncoder::new(Vec::new(), Compression::best());
                packed.write_all(&vec![b' '; 4 << 20])?;
                let packed = packed.finish()?;
                write!(
                    to,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
                    packed.len()
                )?;
                to.write_all(&packed)?;
            }
            Act::Declared(bytes) => {
                write!(
                    to,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n"
                )?;
                reader.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            Act::Endless => {
                to.write_all(CHUNKED)?;
                let piece = [&b"100000\r\n"[..], &vec![b' '; 1 << 20], b"\r\n"].concat();
                loop {
                    to.write_all(&piece)?;
                }
            }
            Act::Header(bytes) => {
                let body = content(&asked, &body, rule);
                write!(
                    to,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Long: {}\r\nContent-Length: {}\r\n\r\n{body}",
                    "x".repeat(bytes),
                    body.len()
                )?;
            }
            // The text is that of `serve` in Go's net/http/server.go; the alert is `unexpected_message` of RFC 8446.
            Act::WantsTls { in_http: true } => {
                to.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")?;
                return Ok(());
            }
            Act::WantsTls { in_http: false } => {
                to.write_all(&[21, 3, 3, 0, 2, 2, 10])?;
                return Ok(());
            }
            Act::Loop => write!(
                to,
                "HTTP/1.1 302 Found\r\nLocation: {uri}\r\nContent-Length: 0\r\n\r\n"
            )?,
            Act::Elsewhere(port) => write!(
                to,
                "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:{port}{uri}\r\nContent-Length: 0\r\n\r\n"
            )?,
            Act::Later(seconds) => write!(
                to,
                "HTTP/1.1 429 Too Many Requests\r\nRetry-After: {seconds}\r\nContent-Length: 0\r\n\r\n"
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
            Act::Items(_) if asked.watch => {
                to.write_all(CHUNKED)?;
                reader.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            Act::Items(items) => {
                let mut list: Value = serde_json::from_str(&content(&asked, &body, rule)).unwrap();
                list["items"] = serde_json::from_str(items).unwrap();
                answer(&mut to, 200, "application/json", &list.to_string())?;
            }
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

/// The head of an answer with chunked body, whose length is not announced.
const CHUNKED: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

fn answer(to: &mut TcpStream, code: u16, kind: &str, body: &str) -> std::io::Result<()> {
    write!(
        to,
        "HTTP/1.1 {code} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    to.flush()
}

/// Returns the answer of an apiserver with one pod and its node.
fn content(asked: &Asked, body: &[u8], rule: &Rule) -> String {
    let object = OBJECTS.iter().find(|o| o.resource == asked.resource);
    let kind = match asked.resource.as_str() {
        "pods" => "Pod",
        "events" => "Event",
        "nodes" => "Node",
        "leases" => "Lease",
        "selfsubjectaccessreviews" => {
            // An access review says no to what the rule would refuse.
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
            let allowed = matches!(rule(&wanted), Act::Serve | Act::Header(_));
            return json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}})
                .to_string();
        }
        group if group.contains('.') => {
            return json!({"kind": "APIGroup", "name": group, "preferredVersion": {"version": "v1"}})
                .to_string();
        }
        _ => match object {
            Some(o) => o.kind,
            None => return "{}".to_owned(),
        },
    };
    let items = match kind {
        "Pod" if asked.namespace.as_deref().is_none_or(|n| n == "shop") => vec![pod()],
        "Node" => vec![node()],
        _ => Vec::new(),
    };
    json!({
        "kind": format!("{kind}List"), "apiVersion": "v1",
        "metadata": {"resourceVersion": "1000"}, "items": items,
    })
    .to_string()
}

/// Returns items that stand in a list of pods but are no valid pods.
pub(super) fn odd() -> Vec<Value> {
    let with = |pointer: &str, value: Value| {
        let mut pod = pod();
        *pod.pointer_mut(pointer).unwrap() = value;
        pod
    };
    let mut deep = json!(0);
    for _ in 0..1000 {
        deep = json!([deep]);
    }
    vec![
        Value::Null,
        json!("web-1"),
        json!({}),
        with("/metadata", json!(5)),
        with("/metadata/name", json!({"a": 1})),
        with("/metadata/uid", Value::Null),
        with("/metadata/labels", json!([1, 2])),
        with("/spec", json!("none")),
        with("/spec/containers", json!({"web": {}})),
        with("/spec/nodeName", deep),
        with("/status/phase", json!(1)),
        with("/status/containerStatuses/0/ready", json!("yes")),
        with("/status/containerStatuses/0/restartCount", json!(-1)),
        with("/status/containerStatuses/0/restartCount", json!(1e300)),
    ]
}

/// Returns the node of `shop/web-0`.
fn node() -> Value {
    let since = "2026-01-01T00:00:00Z";
    json!({
        "metadata": {"name": "played", "uid": "00000000-0000-0000-0000-000000000002", "resourceVersion": "901", "creationTimestamp": since},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]},
    })
}

/// Returns `shop/web-0`, which runs and has been ready for long.
fn pod() -> Value {
    let since = "2026-01-01T00:00:00Z";
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": since});
    json!({
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "00000000-0000-0000-0000-000000000001",
            "resourceVersion": "900", "creationTimestamp": since, "labels": {"app": "web"},
        },
        "spec": {"nodeName": "played", "containers": [{"name": "web", "image": "web:1"}]},
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
