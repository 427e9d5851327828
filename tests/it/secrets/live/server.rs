//! Stand-ins on loopback for an apiserver and a kubelet, whose every answer carries canaries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use kflow_model::Scope;
use kflow_sources::kube::live::watches;
use serde_json::{Value, json};

use super::super::{Canaries, carriers};
use crate::unknown::api::head;

/// The answer to a request.
#[derive(Clone)]
pub(super) enum Page {
    Whole(u16, String),
    /// This body for exactly this path, and not for paths that begin with it.
    Exact(String),
    /// A file, of which the client requests a range.
    File(String),
    /// These lines, and then nothing until the client goes.
    Watch(String),
}

/// Answers by path, with a part of the query; the longest matching prefix counts.
pub(super) type Pages = BTreeMap<String, Page>;

/// A server on loopback, and the requested paths that it does not know.
pub(super) struct Server {
    pub(super) address: String,
    pub(super) unknown: Arc<Mutex<BTreeSet<String>>>,
}

impl Server {
    pub(super) fn start(pages: Pages) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let unknown = Arc::<Mutex<BTreeSet<String>>>::default();
        let (to, pages) = (Arc::clone(&unknown), Arc::new(pages));
        // The thread ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (to, pages) = (Arc::clone(&to), Arc::clone(&pages));
                // A client that goes away ends its connection.
                thread::spawn(move || serve(stream, &pages, &to).ok());
            }
        });
        Self { address, unknown }
    }
}

fn serve(
    stream: TcpStream,
    pages: &Pages,
    unknown: &Mutex<BTreeSet<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut to = stream;
    loop {
        let Some((uri, headers)) = head(&mut reader)? else {
            return Ok(());
        };
        let range = headers
            .iter()
            .find(|(name, _)| name == "range")
            .and_then(|(_, value)| value.strip_prefix("bytes=").map(str::to_owned));
        let known = pages
            .iter()
            .filter(|(path, page)| match page {
                Page::Exact(_) => uri == **path,
                _ => uri.starts_with(path.as_str()),
            })
            .max_by_key(|(path, _)| path.len());
        let (code, more, body) = match known.map(|(_, page)| page) {
            None => {
                unknown.lock().unwrap().insert(uri);
                (404, String::new(), String::new())
            }
            Some(Page::Whole(code, body)) => (*code, String::new(), body.clone()),
            Some(Page::Exact(body)) => (200, String::new(), body.clone()),
            Some(Page::File(text)) => {
                let range = range.unwrap_or_default();
                let (from, last) = range.split_once('-').unwrap_or_default();
                let from = from.parse().unwrap_or_else(|_| {
                    text.len() - last.parse::<usize>().unwrap_or(0).min(text.len())
                });
                match text.get(from..).filter(|part| !part.is_empty()) {
                    Some(part) => {
                        let range = format!("bytes {from}-{}/{}", text.len() - 1, text.len());
                        (206, format!("Content-Range: {range}\r\n"), part.to_owned())
                    }
                    None => (
                        416,
                        format!("Content-Range: bytes */{}\r\n", text.len()),
                        String::new(),
                    ),
                }
            }
            Some(Page::Watch(lines)) => {
                write!(
                    to,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{lines}\r\n",
                    lines.len()
                )?;
                to.flush()?;
                reader.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
        };
        write!(
            to,
            "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\n{more}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        to.flush()?;
    }
}

pub(super) fn scope() -> Scope {
    Scope {
        node: Some("node1".into()),
        ..Scope::default()
    }
}

/// Returns the pages of an apiserver: every resource that kflow watches, as list and watch, and the kubelet by way of
/// the apiserver's proxy.
pub(super) fn apiserver(c: &mut Canaries) -> Pages {
    let mut pages = Pages::new();
    // The node has another boot ID than this machine, so that what runs here does not count as part of the cluster.
    let node = r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"node1"},"status":{"nodeInfo":{"bootID":"another"}}}"#;
    pages.insert("/api/v1/nodes/node1".into(), Page::Exact(node.into()));
    // No agent runs on the node.
    let none =
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#;
    pages.insert(
        "/api/v1/namespaces/kflow/pods".into(),
        Page::Whole(200, none.into()),
    );
    let mut listed = carriers::watched(c, "carrier");
    let mut later = carriers::watched(c, "carrier");
    for (_, watch) in watches(&scope()) {
        let place = watch
            .namespace
            .as_ref()
            .map_or(String::new(), |ns| format!("namespaces/{ns}/"));
        let api = match watch.groups.first() {
            None => watch.api.to_string(),
            Some(group) => {
                let served = json!({"kind": "APIGroup", "name": c.fill("{C}"), "preferredVersion": {"version": "v1"}});
                pages.insert(format!("/apis/{group}"), Page::Exact(served.to_string()));
                format!("apis/{group}/v1")
            }
        };
        let path = format!("/{api}/{place}{}", watch.resource);
        let mut of = |all: &mut Value, version: &str| {
            let mut items: Vec<Value> = match watch.kind {
                // The second watch of pods selects those without a node.
                "Pod" | "Event" => all["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|i| i["kind"] == watch.kind && watch.fields != "spec.nodeName=")
                    .cloned()
                    .collect(),
                kind => vec![carriers::object(c, kind, watch.namespace.as_deref())],
            };
            for item in &mut items {
                item["metadata"]["resourceVersion"] = json!(version);
                if version != "900" && watch.kind == "Event" {
                    item["count"] = json!(2);
                    item["lastTimestamp"] = json!("2026-11-21T00:24:40Z");
                }
            }
            items
        };
        let items = of(&mut listed, "900");
        let list = json!({"kind": format!("{}List", watch.kind), "apiVersion": "v1", "metadata": {"resourceVersion": "1000"}, "items": items});
        let mut lines = String::new();
        for item in of(&mut later, "1001") {
            let line = json!({"type": if watch.kind == "Event" { "ADDED" } else { "MODIFIED" }, "object": item});
            lines.push_str(&format!("{line}\n"));
        }
        let message = c.fill("etcdserver: https://u:{C}@etcd:2379 password={C}");
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "reason": "InternalError", "message": message});
        lines.push_str(&format!("{}\n", json!({"type": "ERROR", "object": status})));
        let fields = if watch.fields == "spec.nodeName=" {
            "&fieldSelector=spec.nodeName%3D"
        } else {
            ""
        };
        let _first = pages
            .entry(format!("{path}?limit=500{fields}"))
            .or_insert(Page::Whole(200, list.to_string()));
        pages
            .entry(format!("{path}?"))
            .or_insert(Page::Watch(lines));
    }
    let node = "/api/v1/nodes/node1/proxy/";
    for (_, path, body) in carriers::of_kubelet(c) {
        pages.insert(format!("{node}{path}"), Page::Whole(200, body));
    }
    for (_, path, body) in carriers::of_apiserver(c) {
        pages.insert(format!("/{path}"), Page::Whole(200, body));
    }
    pages
}

pub(super) fn kubeconfig(c: &mut Canaries, dir: &Path, server: &str) -> PathBuf {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": c.put("token of the kubeconfig")}}],
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
    });
    let path = dir.join("kubeconfig");
    fs::write(&path, config.to_string()).unwrap();
    path
}
