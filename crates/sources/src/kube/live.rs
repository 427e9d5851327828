//! Lists and watches of a running apiserver: complete, resumed where they broke, listed anew when they must be.
//!
//! The client library's own watcher gives typed objects; kflow wants the bytes that the apiserver sent, for the same
//! decoders that read recordings. What a watch owes: a list in pages between `ListBegin` and `ListEnd`, then every
//! change after its resource version; a connection that breaks in the middle of a line is resumed from the last whole
//! one; 410 leads to a new list; 429 is obeyed; a watch that says nothing is not trusted for long.

use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::{Body as HttpBody, Client};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tonic::codegen::http::{Request, Response, StatusCode};

use super::decode::{Occurrences, Renewals, decode_object, decode_watch_event, note};
use crate::live::{Backoff, Lines, Out, Stopped, root};
use kflow_model::clock;
use kflow_model::gap::WatchKind;
use kflow_model::pod::WatchEvent;
use kflow_model::{Body, Observation, Source, Stamp, Text};

mod scope;

pub use scope::{Filter, Pods, Scope, Watch, escape, watches};

/// Objects of one page of a list.
const PAGE: u32 = 500;
/// Largest page that is read, bytes.
const PAGE_MAX: usize = 256 << 20;
/// How often renewals of leases that were held back are looked at.
const RENEWALS: Duration = Duration::from_secs(2);

/// How patient a watch is.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// First and longest pause between attempts that fail.
    pub backoff: (Duration, Duration),
    /// Pause after a refusal that only an administrator can change.
    pub forbidden: Duration,
    /// How long a watch may say nothing; bookmarks come about once a minute.
    pub stall: Duration,
    /// How long the apiserver is asked to keep a watch open.
    pub watch: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            backoff: (Duration::from_millis(500), Duration::from_secs(30)),
            forbidden: Duration::from_secs(60),
            stall: Duration::from_secs(150),
            watch: Duration::from_secs(290),
        }
    }
}

/// Why a list or watch ended before its time.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The resource version is too old.
    #[error("resource version too old")]
    Gone,
    /// "Not now": how long to wait.
    #[error("the apiserver asks to wait {} s", .0.as_secs())]
    Wait(Duration),
    /// Only an administrator can change this.
    #[error("{0}")]
    Denied(String),
    /// It may work next time.
    #[error("{0}")]
    Broken(String),
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    resource_version: String,
    r#continue: String,
}

/// What of a watch line decides how the watch goes on.
#[derive(Deserialize)]
struct Head {
    r#type: String,
    object: HeadObject,
}

#[derive(Deserialize)]
struct HeadObject {
    #[serde(default)]
    metadata: HeadMeta,
    code: Option<u16>,
    details: Option<HeadDetails>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct HeadMeta {
    resource_version: String,
    namespace: String,
    name: String,
    uid: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadDetails {
    retry_after_seconds: Option<u64>,
}

/// Runs a list and watch until nobody takes its observations.
pub async fn run(client: Client, watch: Watch, pace: Pace, out: Out) {
    let (leavers, to_ask) = mpsc::channel(1024);
    let mut w = Watching {
        client,
        scope: watch.scope(),
        watch,
        pace,
        out,
        version: None,
        leavers,
        occurrences: Occurrences::default(),
        renewals: Renewals::default(),
        buffer: Vec::new(),
    };
    let asking = ask(w.client.clone(), w.watch.clone(), to_ask, w.out.share());
    tokio::select! {
        () = w.run() => {}
        () = asking => {}
    }
}

struct Watching {
    client: Client,
    watch: Watch,
    scope: Text,
    pace: Pace,
    out: Out,
    /// Where to go on; `None` when a list is due.
    version: Option<String>,
    leavers: mpsc::Sender<Leaver>,
    /// Events that were given out: a list brings them again.
    occurrences: Occurrences,
    /// Renewals of leases that were not given out yet.
    renewals: Renewals,
    buffer: Vec<Observation>,
}

/// An object that was deleted or left the selector.
struct Leaver {
    namespace: String,
    name: String,
    uid: String,
    deleted: Observation,
}

impl Watching {
    async fn run(&mut self) {
        let mut backoff = Backoff::new(self.pace.backoff.0, self.pace.backoff.1);
        loop {
            let result = match self.version.clone() {
                None => self.list().await,
                Some(version) => self.follow(version).await,
            };
            let trouble = match result {
                Ok(()) => {
                    backoff.reset();
                    self.out.on(format!("watching {}", self.watch.resource));
                    continue;
                }
                Err(t) => t,
            };
            let pause = match &trouble {
                Trouble::Stopped(_) => return,
                Trouble::Gone => {
                    self.version = None;
                    Duration::ZERO
                }
                Trouble::Wait(d) => *d,
                Trouble::Denied(_) => self.pace.forbidden,
                Trouble::Broken(_) => backoff.pause(),
            };
            let text = trouble.to_string();
            if !matches!(trouble, Trouble::Gone) {
                self.out.off(text.as_str());
            }
            if self.tell(WatchKind::Broken, &text).await.is_err() {
                return;
            }
            if pause == Duration::ZERO {
                // A server that answers 410 to every list must not be asked in a tight loop.
                sleep(self.pace.backoff.0).await;
            } else {
                sleep(pause).await;
            }
        }
    }

    fn passes(&mut self, o: &Observation) -> bool {
        let news = match &o.body {
            Body::Event(e) => self.occurrences.is_news(e, o.stamp),
            _ => true,
        };
        news && self.watch.filter.passes(o)
    }

    async fn tell(&mut self, kind: WatchKind, detail: &str) -> Result<(), Stopped> {
        let mut o = note(
            self.watch.resource,
            kind,
            detail,
            Stamp::exact(clock::now()),
        );
        if let Body::Watch(n) = &mut o.body {
            n.scope.clone_from(&self.scope);
        }
        self.out.send(o).await
    }

    async fn get(&self, uri: &str, verb: &str) -> Result<Response<HttpBody>, Trouble> {
        let request = Request::get(uri)
            .header("Accept", "application/json")
            .body(HttpBody::empty())
            .map_err(|e| Trouble::Denied(format!("cannot ask for {uri}: {e}")))?;
        let response = match timeout(self.pace.stall, self.client.send(request)).await {
            Err(_) => return Err(Trouble::Broken("the apiserver does not answer".into())),
            Ok(Err(e)) => {
                return Err(Trouble::Broken(format!(
                    "cannot reach the apiserver: {}",
                    root(&e)
                )));
            }
            Ok(Ok(r)) => r,
        };
        let wait = response
            .headers()
            .get("Retry-After")
            .and_then(|v| v.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        match (response.status(), wait) {
            (StatusCode::OK, _) => Ok(response),
            (StatusCode::GONE, _) => Err(Trouble::Gone),
            (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(d)) => {
                Err(Trouble::Wait(d))
            }
            (StatusCode::TOO_MANY_REQUESTS, None) => Err(Trouble::Wait(Duration::from_secs(1))),
            (StatusCode::FORBIDDEN, _) => Err(Trouble::Denied(self.watch.needs(verb))),
            (StatusCode::UNAUTHORIZED, _) => Err(Trouble::Denied(
                "unauthorized: the kubeconfig's credentials are not accepted".into(),
            )),
            (StatusCode::NOT_FOUND, _) => Err(Trouble::Denied(format!(
                "this cluster has no {}",
                self.watch.resource
            ))),
            (status, _) => Err(Trouble::Broken(format!("the apiserver answers {status}"))),
        }
    }

    /// Lists in pages; afterwards `version` tells where to watch from.
    async fn list(&mut self) -> Result<(), Trouble> {
        let mut token = String::new();
        let mut begun = false;
        loop {
            let mut query = format!("limit={PAGE}");
            if !token.is_empty() {
                query.extend(["&continue=", &escape(&token)]);
            }
            let uri = self.watch.uri(&query);
            let response = self.get(&uri, "list").await?;
            let body = http_body_util::Limited::new(response.into_body(), PAGE_MAX);
            let bytes = timeout(self.pace.stall, body.collect())
                .await
                .map_err(|_| Trouble::Broken("a list stalled".into()))?
                .map_err(|e| Trouble::Broken(format!("a list broke: {e}")))?
                .to_bytes();
            let page: Page<'_> = serde_json::from_slice(&bytes)
                .map_err(|e| Trouble::Broken(format!("not a list: {e}")))?;
            if !begun {
                // Begun only now: a list that failed at once says nothing about what exists.
                self.tell(WatchKind::ListBegin, "").await?;
                begun = true;
            }
            let stamp = Stamp::exact(clock::now());
            for item in page.items {
                // What kflow cannot use is counted by nobody on purpose: the decoder has no reason to refuse a pod.
                if let Ok(o) = decode_object(
                    item.get().as_bytes(),
                    self.watch.kind,
                    WatchEvent::Listed,
                    stamp,
                ) && self.passes(&o)
                    && let Some(o) = self.renewals.take(o)
                {
                    self.out.send(o).await?;
                }
            }
            token = page.metadata.r#continue;
            if token.is_empty() {
                let version = page.metadata.resource_version;
                self.tell(WatchKind::ListEnd, &version).await?;
                self.version = Some(version);
                return Ok(());
            }
        }
    }

    /// Watches from a version until the apiserver ends the watch, which it does every few minutes.
    async fn follow(&mut self, version: String) -> Result<(), Trouble> {
        let uri = self.watch.uri(&format!(
            "watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
            escape(&version),
            self.lasts().as_secs()
        ));
        let mut body = self.get(&uri, "watch").await?.into_body();
        self.out.on(format!("watching {}", self.watch.resource));
        let mut lines = Lines::default();
        let begun = tokio::time::Instant::now();
        let (mut heard, mut looked) = (begun, begun);
        // Who falls silent sends no frame: renewals that were held back are looked at in between.
        let step = if self.watch.kind == "Lease" {
            self.pace.stall.min(RENEWALS)
        } else {
            self.pace.stall
        };
        loop {
            let next = timeout(step, body.frame()).await;
            if self.watch.kind == "Lease" && looked.elapsed() >= step {
                looked = tokio::time::Instant::now();
                let mut due = self.renewals.due(clock::now());
                self.out.send_all(&mut due).await?;
            }
            let frame = match next {
                Err(_) if heard.elapsed() < self.pace.stall => continue,
                Err(_) => {
                    return Err(Trouble::Broken(format!(
                        "the watch said nothing for {} s",
                        self.pace.stall.as_secs()
                    )));
                }
                Ok(None) if lines.cut() => {
                    return Err(Trouble::Broken("the watch ended within a line".into()));
                }
                // Something between here and the apiserver may end every watch; that must not become a tight loop.
                Ok(None) if begun.elapsed() < self.pace.backoff.0 => {
                    return Err(Trouble::Broken("the watch ended at once".into()));
                }
                Ok(None) => return Ok(()),
                Ok(Some(Err(e))) => return Err(Trouble::Broken(format!("the watch broke: {e}"))),
                Ok(Some(Ok(frame))) => frame,
            };
            heard = tokio::time::Instant::now();
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let mut ended = None;
            let mut got = std::mem::take(&mut self.buffer);
            lines.push(&data, |line| {
                if ended.is_none() {
                    ended = self.line(line, &mut got).err();
                }
            });
            let sent = self.out.send_all(&mut got).await;
            self.buffer = got;
            sent?;
            if let Some(trouble) = ended {
                return Err(trouble);
            }
        }
    }

    /// How long the apiserver is asked to keep the watch open. Events come without bookmarks, because the apiserver
    /// does not cache them: a quiet watch ends before its silence is taken for a broken connection.
    fn lasts(&self) -> Duration {
        if self.watch.resource == "events" {
            self.pace.watch.min(self.pace.stall * 4 / 5)
        } else {
            self.pace.watch
        }
    }

    fn line(&mut self, line: &[u8], got: &mut Vec<Observation>) -> Result<(), Trouble> {
        if line.is_empty() {
            return Ok(());
        }
        let head: Head = serde_json::from_slice(line)
            .map_err(|e| Trouble::Broken(format!("not a watch event: {e}")))?;
        if head.r#type == "ERROR" {
            let wait = head.object.details.and_then(|d| d.retry_after_seconds);
            return Err(match (head.object.code, wait) {
                (Some(410), _) => Trouble::Gone,
                (_, Some(s)) => Trouble::Wait(Duration::from_secs(s)),
                (code, None) => Trouble::Broken(format!(
                    "the watch ended with error {}",
                    code.unwrap_or_default()
                )),
            });
        }
        let meta = head.object.metadata;
        let stamp = Stamp::exact(clock::now());
        if let Ok(mut o) = decode_watch_event(line, self.watch.resource, stamp)
            && self.passes(&o)
        {
            if let Body::Watch(n) = &mut o.body {
                n.scope.clone_from(&self.scope);
            }
            if head.r#type == "DELETED" && self.watch.can_leave() {
                let leaver = Leaver {
                    namespace: meta.namespace,
                    name: meta.name,
                    uid: meta.uid,
                    deleted: o,
                };
                // Too many at a time: better not known than wrong. The next list tells who is gone.
                drop(self.leavers.try_send(leaver));
            } else {
                got.extend(self.renewals.take(o));
            }
        }
        if !meta.resource_version.is_empty() {
            self.version = Some(meta.resource_version);
        }
        Ok(())
    }
}

/// Asks of each object that left a selector whether it is gone, or only elsewhere.
async fn ask(client: Client, watch: Watch, mut leavers: mpsc::Receiver<Leaver>, mut out: Out) {
    #[derive(Deserialize)]
    struct Uid {
        metadata: HeadMeta,
    }
    while let Some(l) = leavers.recv().await {
        let uri = format!(
            "/{}/namespaces/{}/{}/{}",
            watch.api,
            escape(&l.namespace),
            watch.resource,
            escape(&l.name)
        );
        let Ok(request) = Request::get(uri).body(HttpBody::empty()) else {
            continue;
        };
        let Ok(Ok(response)) = timeout(Duration::from_secs(10), client.send(request)).await else {
            continue;
        };
        let status = response.status();
        let Ok(body) = http_body_util::Limited::new(response.into_body(), PAGE_MAX)
            .collect()
            .await
        else {
            continue;
        };
        let bytes = body.to_bytes();
        let same = serde_json::from_slice::<Uid>(&bytes).is_ok_and(|o| o.metadata.uid == l.uid);
        let o = match status {
            StatusCode::OK if same => {
                let stamp = Stamp::exact(clock::now());
                match decode_object(&bytes, watch.kind, WatchEvent::Modified, stamp) {
                    Ok(o) => o,
                    Err(_) => continue,
                }
            }
            // Another one has its name by now, or nobody has.
            StatusCode::OK | StatusCode::NOT_FOUND => l.deleted,
            // Not known; the next list tells.
            _ => continue,
        };
        if out.send(o).await.is_err() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Runs the watches of a scope.
pub fn start(
    client: &Client,
    scope: &Scope,
    pace: Pace,
    board: &crate::live::Board,
    tasks: &mut tokio::task::JoinSet<()>,
) {
    for (name, watch) in watches(scope) {
        let out = board.out(Source::Kube, name);
        tasks.spawn(run(client.clone(), watch, pace, out));
    }
}
