//! A stand-in for the apiserver: real HTTP on loopback, one resource, a history to replay, and faults on demand.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prost::bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::http::{Request, Response};

/// A fault of one watch or list.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// This many events, then half of the next line, then the connection breaks.
    CutInLine(usize),
    /// This many events, then an orderly end of the body in the middle of a line.
    EndInLine(usize),
    /// This many events, then nothing more on an open connection.
    Stall(usize),
    /// This many events, each with a bookmark before and two after it.
    Bookmarks(usize),
    /// This many events, then an ERROR event with code 410.
    GoneInStream(usize),
    /// Status 410 instead of a watch.
    Gone,
    /// Status 429 with `Retry-After: 0`; the list or watch after it works.
    Busy,
    /// Status 500.
    Broken,
    /// A line that is not JSON, after this many events.
    Nonsense(usize),
    /// Leaves out this many events: they happen, but only the next list shows their result. Then 410.
    Missed(usize),
}

/// A resource, and the events that happen to its objects.
pub(super) struct History {
    pub(super) kind: &'static str,
    /// The initial list.
    pub(super) listed: Vec<Value>,
    /// `{"type":…,"object":…}` in order.
    pub(super) events: Vec<Value>,
}

impl History {
    /// Returns the objects that exist after the first `n` events.
    fn after(&self, n: usize) -> Vec<Value> {
        let mut all = self.listed.clone();
        let uid = |o: &Value| o["metadata"]["uid"].clone();
        for (i, e) in self.events[..n].iter().enumerate() {
            let object = &e["object"];
            all.retain(|o| uid(o) != uid(object));
            if e["type"] != "DELETED" {
                let mut o = object.clone();
                // Items of a list have no `kind`.
                o.as_object_mut().unwrap().remove("kind");
                o["metadata"]["resourceVersion"] = version(i + 1);
                all.push(o);
            }
        }
        all
    }
}

/// Counts of the requests that the server got.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) lists: usize,
    pub(super) pages: usize,
    pub(super) watches: usize,
    pub(super) paths: Vec<String>,
}

struct State {
    history: History,
    faults: Vec<Fault>,
    /// Events that happened so far. The resource version is this plus 1000.
    reached: usize,
    asked: Asked,
}

#[derive(Clone)]
pub(super) struct Server {
    state: Arc<Mutex<State>>,
}

type Answer = Response<BoxBody<Bytes, io::Error>>;

impl Server {
    /// Starts the server; each fault is used once, in order, by one request.
    pub(super) async fn start(history: History, faults: Vec<Fault>) -> (Self, kube::Client) {
        let state = State {
            history,
            faults,
            reached: 0,
            asked: Asked::default(),
        };
        let server = Self {
            state: Arc::new(Mutex::new(state)),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = server.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = service.clone();
                tokio::spawn(async move {
                    let serve = service_fn(move |r| {
                        let answer = service.answer(&r);
                        async move { Ok::<_, Infallible>(answer) }
                    });
                    // A connection that a fault breaks ends with an error, as intended.
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), serve)
                        .await
                        .ok();
                });
            }
        });
        let config = kube::Config::new(url.parse().unwrap());
        (server, kube::Client::try_from(config).unwrap())
    }

    pub(super) fn asked<T>(&self, look: impl FnOnce(&Asked) -> T) -> T {
        look(&self.state.lock().unwrap().asked)
    }

    /// Whether every event has happened and every fault was used.
    pub(super) fn done(&self) -> bool {
        let s = self.state.lock().unwrap();
        s.reached == s.history.events.len() && s.faults.is_empty()
    }

    fn answer(&self, request: &Request<Incoming>) -> Answer {
        let uri = request.uri().clone();
        let mut s = self.state.lock().unwrap();
        s.asked.paths.push(uri.to_string());
        let query: Vec<(String, String)> = uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|p| p.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect();
        let value = |name: &str| {
            query
                .iter()
                .find(|(k, _)| k == name)
                .map(|(_, v)| v.clone())
        };
        if value("watch").is_some() {
            s.asked.watches += 1;
            let from: usize = value("resourceVersion").unwrap().parse().unwrap();
            s.watch(from - 1000)
        } else {
            let limit = value("limit").unwrap().parse().unwrap();
            let from = value("continue").map_or(0, |c| c.parse().unwrap());
            s.list(from, limit)
        }
    }
}

impl State {
    fn list(&mut self, from: usize, limit: usize) -> Answer {
        if let Some(Fault::Busy | Fault::Broken) = self.faults.first() {
            return refuse(&self.faults.remove(0));
        }
        self.asked.lists += usize::from(from == 0);
        self.asked.pages += 1;
        let all = self.history.after(self.reached);
        let items: Vec<&Value> = all.iter().skip(from).take(limit).collect();
        let next = from + items.len();
        let token = if next < all.len() {
            next.to_string()
        } else {
            String::new()
        };
        let list = json!({
            "kind": format!("{}List", self.history.kind),
            "apiVersion": "v1",
            "metadata": {"resourceVersion": version(self.reached), "continue": token},
            "items": items,
        });
        Response::new(whole(list.to_string()))
    }

    fn watch(&mut self, from: usize) -> Answer {
        let fault = if self.faults.is_empty() {
            None
        } else {
            Some(self.faults.remove(0))
        };
        let rest = self.history.events.len() - from;
        let mut steps: Vec<Result<String, io::Error>> = Vec::new();
        let mut hang = true;
        let deliver = |steps: &mut Vec<_>, n: usize| {
            for i in from..from + n.min(rest) {
                steps.push(Ok(self.line(i)));
            }
            from + n.min(rest)
        };
        let half = |i: usize| {
            let line = self.line(i.min(self.history.events.len() - 1));
            line[..line.len() / 2].to_owned()
        };
        let reached = match fault {
            None => {
                let to = deliver(&mut steps, rest);
                steps.push(Ok(bookmark(self.history.kind, to)));
                to
            }
            Some(Fault::CutInLine(n)) => {
                let to = deliver(&mut steps, n);
                steps.push(Ok(half(to)));
                steps.push(Err(io::Error::other("cut")));
                to
            }
            Some(Fault::EndInLine(n)) => {
                let to = deliver(&mut steps, n);
                steps.push(Ok(half(to)));
                hang = false;
                to
            }
            Some(Fault::Stall(n)) => deliver(&mut steps, n),
            Some(Fault::Bookmarks(n)) => {
                let to = from + n.min(rest);
                for i in from..to {
                    steps.push(Ok(bookmark(self.history.kind, i)));
                    steps.push(Ok(self.line(i)));
                    steps.push(Ok(bookmark(self.history.kind, i + 1)));
                    steps.push(Ok(bookmark(self.history.kind, i + 1)));
                }
                hang = false;
                to
            }
            Some(Fault::GoneInStream(n)) => {
                let to = deliver(&mut steps, n);
                let status = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"});
                steps.push(Ok(format!(
                    "{}\n",
                    json!({"type": "ERROR", "object": status})
                )));
                hang = false;
                to
            }
            Some(Fault::Nonsense(n)) => {
                let to = deliver(&mut steps, n);
                steps.push(Ok("<html>502 Bad Gateway</html>\n".into()));
                hang = false;
                to
            }
            Some(Fault::Missed(n)) => {
                self.reached = from + n.min(rest);
                return refuse(&Fault::Gone);
            }
            Some(fault @ (Fault::Gone | Fault::Busy | Fault::Broken)) => return refuse(&fault),
        };
        self.reached = self.reached.max(reached);
        let (to, body) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            for step in steps {
                if to.send(step).await.is_err() {
                    return;
                }
            }
            if hang {
                to.closed().await;
            }
        });
        let frames =
            ReceiverStream::new(body).map(|s| s.map(|text| Frame::data(Bytes::from(text))));
        Response::new(BodyExt::boxed(StreamBody::new(frames)))
    }

    fn line(&self, i: usize) -> String {
        let mut event = self.history.events[i].clone();
        event["object"]["metadata"]["resourceVersion"] = version(i + 1);
        format!("{event}\n")
    }
}

/// Returns the resource version after this many events.
fn version(reached: usize) -> Value {
    json!((1000 + reached).to_string())
}

fn bookmark(kind: &str, reached: usize) -> String {
    let meta = json!({"resourceVersion": version(reached)});
    format!(
        "{}\n",
        json!({"type": "BOOKMARK", "object": {"kind": kind, "metadata": meta}})
    )
}

fn refuse(fault: &Fault) -> Answer {
    let code = match fault {
        Fault::Gone => 410,
        Fault::Busy => 429,
        _ => 500,
    };
    Response::builder()
        .status(code)
        .header("Retry-After", "0")
        .body(whole("{}".into()))
        .unwrap()
}

fn whole(text: String) -> BoxBody<Bytes, io::Error> {
    Full::new(Bytes::from(text)).map_err(|e| match e {}).boxed()
}
