//! Lists and watches of a running apiserver: complete, resumed where they broke, listed again where necessary.
//!
//! The client library's own watcher returns typed objects; kflow wants the bytes that the apiserver sent, for the
//! same decoders that read recordings. A watch therefore lists in pages between `ListBegin` and `ListEnd`, and then
//! reports every change after the list's resource version. It resumes a connection that breaks in the middle of a
//! line from the last whole line, lists again after a 410, obeys a 429, and does not trust a
//! silent connection for long.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::{Body as HttpBody, Client};
use serde::Deserialize;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tonic::codegen::http::{Request, Response, StatusCode};
use tracing::debug;

use super::decode::{Occurrences, Renewals, decode_object, decode_watch_event, note};
use crate::Fed;
use crate::live::{Backoff, Lines, Out, Stopped, root, unread};
use kflow_model::clock;
use kflow_model::gap::{Failure, WatchKind};
use kflow_model::kind::AUTOSCALER;
use kflow_model::object::ObjectSeen;
use kflow_model::pod::WatchEvent;
use kflow_model::units::wait;
use kflow_model::{Body, Observation, Source, Stamp, Text};

mod addon;
mod answer;
mod list;
mod scope;
mod token;
mod why;

use answer::{Head, HeadMeta, Trouble, collect};
pub use kflow_model::Scope;
pub use scope::{Filter, OBJECTS, Of, Pods, Watch, escape, watches};
pub use token::{NoClient, client};
pub(crate) use why::explain;

/// Most of an apiserver's message that is told, characters.
const SAID: usize = 300;
/// How often renewals of Leases that were held back are checked.
const RENEWALS: Duration = Duration::from_secs(2);

/// Pauses and time-outs of a watch.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// First and longest pause between failing attempts.
    pub backoff: (Duration, Duration),
    /// Pause after an answer that only an administrator can change: a refusal, or that the cluster lacks an add-on.
    pub forbidden: Duration,
    /// How long the head of a response may take, and each further piece of a list.
    pub answer: Duration,
    /// How long a watch may send nothing; bookmarks come about once a minute.
    pub stall: Duration,
    /// How long the apiserver is asked to keep a watch open.
    pub watch: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            backoff: (Duration::from_millis(500), Duration::from_secs(30)),
            forbidden: Duration::from_secs(60),
            answer: Duration::from_secs(10),
            stall: Duration::from_secs(150),
            watch: Duration::from_secs(290),
        }
    }
}

/// An apiserver: the client that reaches it, and its address for messages.
#[derive(Clone)]
pub struct Server {
    pub client: Client,
    /// `https://10.0.0.1:6443`; empty when it is not known.
    pub address: Text,
    /// Why it is asked without credentials, although the kubeconfig means to have some; else empty.
    pub anonymous: Text,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.address).finish()
    }
}

impl From<Client> for Server {
    fn from(client: Client) -> Self {
        Self {
            client,
            address: Text::default(),
            anonymous: Text::default(),
        }
    }
}

impl Server {
    /// Returns the apiserver's name for messages: `the apiserver at https://10.0.0.1:6443`.
    fn name(&self) -> String {
        if self.address.is_empty() {
            "the apiserver".to_owned()
        } else {
            format!("the apiserver at {}", self.address)
        }
    }
}

/// Runs a list and watch until the receiver of its observations is gone.
pub async fn run(server: impl Into<Server>, watch: Watch, pace: Pace, out: Out) {
    let (leavers, to_ask) = mpsc::channel(1024);
    let mut w = Watching {
        server: server.into(),
        failing: false,
        absent: false,
        scope: watch.scope(),
        watch,
        pace,
        out,
        version: None,
        leavers,
        unclear: Arc::default(),
        occurrences: Occurrences::default(),
        renewals: Renewals::default(),
        newest: HashMap::new(),
        buffer: Vec::new(),
    };
    let asking = ask(
        w.server.client.clone(),
        w.watch.clone(),
        pace.answer,
        to_ask,
        Arc::clone(&w.unclear),
        w.out.share(),
    );
    tokio::select! {
        () = w.run() => {}
        () = asking => {}
    }
}

struct Watching {
    server: Server,
    /// A failure was reported, and no success since.
    failing: bool,
    /// It was reported that the cluster lacks the add-on, and it was not found since.
    absent: bool,
    watch: Watch,
    scope: Text,
    pace: Pace,
    out: Out,
    /// The resource version to watch from; `None` when a list is due.
    version: Option<String>,
    leavers: mpsc::Sender<Leaver>,
    /// It is not known of an object that left whether it was deleted: a list is due.
    unclear: Arc<Notify>,
    /// Events that were passed on: a list returns them again.
    occurrences: Occurrences,
    /// Renewals of Leases that are held back.
    renewals: Renewals,
    /// The newest state of each object whose status is written anew every few seconds, by UID.
    newest: HashMap<Text, ObjectSeen>,
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
                Some(version) => {
                    let ended = self.follow(version).await;
                    ended.map_err(|t| self.or_looked_for(t))
                }
                None if self.watch.groups.is_empty() => self.list().await,
                None => self.list_served().await,
            };
            let trouble = match result {
                Ok(()) => {
                    backoff.reset();
                    if !self.absent {
                        self.out.on(format!("watching {}", self.watch.resource));
                    }
                    continue;
                }
                Err(t) => t,
            };
            if matches!(trouble, Trouble::Stopped(_)) {
                return;
            }
            let pause = match &trouble {
                Trouble::Stopped(_) | Trouble::Gone => Duration::ZERO,
                Trouble::Wait(d, _) => *d,
                _ if trouble.is_denied() => self.pace.forbidden,
                Trouble::Failed(..) => backoff.pause(),
            };
            if matches!(trouble, Trouble::Gone) || trouble.is_denied() {
                // A user who may list but not watch lists again and again.
                self.version = None;
            }
            let text = trouble.to_string();
            debug!(parent: self.out.span(), why = text, ?pause, "asking again");
            if !matches!(trouble, Trouble::Gone) {
                self.out.off(text.as_str());
            }
            self.failing = true;
            let told = self.tell(WatchKind::Broken, &text, Some(trouble.failure()));
            if told.await.is_err() {
                return;
            }
            // A server that answers 410 to every list must not be asked in a tight loop.
            self.out.pause(pause.max(self.pace.backoff.0)).await;
        }
    }

    fn passes(&mut self, o: &Observation) -> bool {
        let news = match &o.body {
            Body::Event(e) => self.occurrences.is_news(e, o.stamp),
            Body::Object(x) if self.watch.kind == AUTOSCALER => self.is_news(x),
            _ => true,
        };
        news && self.watch.filter.passes(o)
    }

    /// False for a change of which nothing is kept: an autoscaler writes the newest metrics into its status every 15 s.
    fn is_news(&mut self, x: &ObjectSeen) -> bool {
        let uid = x.object.uid.clone();
        if x.event == WatchEvent::Deleted {
            self.newest.remove(&uid);
            return true;
        }
        let kept = ObjectSeen {
            event: WatchEvent::default(),
            resource_version: 0,
            ..x.clone()
        };
        let known = self.newest.insert(uid, kept.clone());
        x.event != WatchEvent::Modified || known != Some(kept)
    }

    async fn tell(
        &mut self,
        kind: WatchKind,
        detail: &str,
        failure: Option<Failure>,
    ) -> Result<(), Stopped> {
        let mut o = note(
            self.watch.resource,
            kind,
            detail,
            Stamp::exact(clock::now()),
        );
        if let Body::Watch(n) = &mut o.body {
            n.scope.clone_from(&self.scope);
            n.failure = failure;
        }
        self.out.send(o).await
    }

    async fn get(&self, uri: &str, verb: &str) -> Result<Response<HttpBody>, Trouble> {
        let failed = |failure, why: String| Err(Trouble::Failed(failure, why));
        let server = self.server.name();
        let request = match Request::get(uri)
            .header("Accept", "application/json")
            .body(HttpBody::empty())
        {
            Ok(r) => r,
            Err(e) => return failed(Failure::Refused, format!("cannot ask for {uri}: {e}")),
        };
        debug!(parent: self.out.span(), uri, "request");
        let response = match timeout(self.pace.answer, self.server.client.send(request)).await {
            Err(_) => {
                let why = format!(
                    "{server} has not answered within {}",
                    wait(self.pace.answer)
                );
                return failed(Failure::TimedOut, why);
            }
            Ok(Err(e)) => {
                let (failure, why) = explain(&server, &e);
                return failed(failure, why);
            }
            Ok(Ok(r)) => r,
        };
        let status = response.status();
        debug!(parent: self.out.span(), uri, status = status.as_u16(), "answer");
        let [wait, kind, packed] =
            ["Retry-After", "Content-Type", "Content-Encoding"].map(|name| {
                let value = response.headers().get(name)?;
                value.to_str().ok().map(str::to_owned)
            });
        let wait = wait.and_then(|v| v.parse().ok()).map(Duration::from_secs);
        let kind = kind.unwrap_or_default();
        let packed = packed.filter(|e| !e.eq_ignore_ascii_case("identity"));
        match (status, wait) {
            // Compression is never asked for, and never undone: the size of the result would have no bound.
            (StatusCode::OK, _) if packed.is_some() => failed(
                Failure::NotKubernetes,
                format!(
                    "{server} answers packed ({}), which it was not asked for",
                    packed.unwrap_or_default()
                ),
            ),
            (StatusCode::OK, _) if kind.is_empty() || kind.contains("json") => Ok(response),
            (StatusCode::OK, _) => failed(
                Failure::NotKubernetes,
                format!("{server} answers with {kind}, not as a Kubernetes API does"),
            ),
            (StatusCode::GONE, _) => Err(Trouble::Gone),
            (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(d)) => {
                Err(Trouble::later(d, self.said(response).await))
            }
            (StatusCode::TOO_MANY_REQUESTS, None) => {
                let d = Duration::from_secs(1);
                Err(Trouble::later(d, self.said(response).await))
            }
            (StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED, _)
                if !self.server.anonymous.is_empty() =>
            {
                failed(
                    Failure::Unauthorized,
                    format!(
                        "{server} was asked without credentials: {}",
                        self.server.anonymous
                    ),
                )
            }
            (StatusCode::FORBIDDEN, _) => failed(Failure::Forbidden, self.watch.needs(verb)),
            (StatusCode::UNAUTHORIZED, _) => failed(
                Failure::Unauthorized,
                format!("{server} does not accept the credentials of the kubeconfig (401)"),
            ),
            (StatusCode::NOT_FOUND, _) => failed(
                Failure::NotFound,
                format!("{server} does not serve what was asked for (404)"),
            ),
            (status, _) if status.is_redirection() || status.is_success() => failed(
                Failure::NotKubernetes,
                format!("{server} answers {status}, not as a Kubernetes API does"),
            ),
            (_, _) => failed(Failure::Refused, self.said(response).await),
        }
    }

    /// What the apiserver answers with a status of 400 and above: `500 Internal Server Error: etcdserver: request
    /// timed out`.
    async fn said(&self, response: Response<HttpBody>) -> String {
        #[derive(Deserialize)]
        struct Said {
            message: String,
        }
        let mut text = format!("{} answers {}", self.server.name(), response.status());
        if let Ok(bytes) = collect(response.into_body(), self.pace.answer).await
            && let Ok(said) = serde_json::from_slice::<Said>(&bytes)
            && !said.message.is_empty()
        {
            text.push_str(": ");
            text.extend(said.message.chars().take(SAID));
        }
        text
    }

    /// Watches from a version until the apiserver ends the watch, which it does every few minutes.
    async fn follow(&mut self, version: String) -> Result<(), Trouble> {
        let uri = self.watch.uri(&format!(
            "watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
            escape(&version),
            self.lasts().as_secs()
        ));
        let mut body = self.get(&uri, "watch").await?.into_body();
        if std::mem::take(&mut self.failing) {
            // The watch goes on from where it was left.
            self.tell(WatchKind::Bookmark, &version, None).await?;
        }
        self.out.on(format!("watching {}", self.watch.resource));
        let mut lines = Lines::default();
        let begun = tokio::time::Instant::now();
        let (mut heard, mut looked) = (begun, begun);
        // A holder that falls silent sends no frame: renewals that were held back are checked in between.
        let step = if self.watch.kind == "Lease" {
            self.pace.stall.min(RENEWALS)
        } else {
            self.pace.stall
        };
        let unclear = Arc::clone(&self.unclear);
        loop {
            let next = tokio::select! {
                next = timeout(step, body.frame()) => next,
                () = unclear.notified() => return Err(self.list_again()),
            };
            if self.watch.kind == "Lease" && looked.elapsed() >= step {
                looked = tokio::time::Instant::now();
                let mut due = self.renewals.due(clock::now());
                self.out.send_all(&mut due).await?;
            }
            let frame = match next {
                Err(_) if heard.elapsed() < self.pace.stall => continue,
                Err(_) => {
                    return Err(Trouble::Failed(
                        Failure::TimedOut,
                        format!("the watch said nothing for {}", wait(self.pace.stall)),
                    ));
                }
                Ok(None) if lines.cut() => {
                    return Err(Trouble::Failed(
                        Failure::Interrupted,
                        "the watch ended within a line".into(),
                    ));
                }
                // Something between here and the apiserver may end every watch; that must not become a tight loop.
                Ok(None) if begun.elapsed() < self.pace.backoff.0 => {
                    return Err(Trouble::Failed(
                        Failure::Interrupted,
                        "the watch ended at once".into(),
                    ));
                }
                Ok(None) => return Ok(()),
                Ok(Some(Err(e))) => {
                    return Err(Trouble::Failed(
                        Failure::Interrupted,
                        format!("the watch broke: {}", root(&e)),
                    ));
                }
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
            got.extend(lines.dropped(Source::Kube));
            let sent = self.out.send_all(&mut got).await;
            self.buffer = got;
            sent?;
            if let Some(trouble) = ended {
                return Err(trouble);
            }
        }
    }

    /// Makes a list due, after a pause: an apiserver that could not say what became of one object is not to be asked at
    /// once for all of them.
    fn list_again(&mut self) -> Trouble {
        self.version = None;
        let why = format!("{LEFT}: {} are listed again", self.watch.resource);
        Trouble::Wait(self.pace.answer, why)
    }

    /// Returns how long the apiserver is asked to keep the watch open. Watches of Events have no bookmarks, because
    /// the apiserver does not cache Events: a quiet watch ends before its silence is taken for a broken connection.
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
        let head: Head = serde_json::from_slice(line).map_err(|e| {
            Trouble::Failed(Failure::NotKubernetes, format!("not a watch event: {e}"))
        })?;
        if head.r#type == "ERROR" {
            let wait = head.object.details.and_then(|d| d.retry_after_seconds);
            return Err(match (head.object.code, wait) {
                (Some(410), _) => Trouble::Gone,
                (code, Some(s)) => Trouble::later(
                    Duration::from_secs(s),
                    format!("the watch ended with error {}", code.unwrap_or_default()),
                ),
                (code, None) => Trouble::Failed(
                    Failure::Refused,
                    format!("the watch ended with error {}", code.unwrap_or_default()),
                ),
            });
        }
        let meta = head.object.metadata;
        let stamp = Stamp::exact(clock::now());
        let decoded = decode_watch_event(line, self.watch.resource, stamp);
        if let Err(Fed::Malformed(_)) = decoded {
            let resource = self.watch.resource;
            let why = format!("a change of {resource} could not be read");
            got.push(unread(resource, stamp.at, 1, &why));
        }
        if let Ok(mut o) = decoded
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
                // With too many at a time it is left to a list which of them are gone.
                if self.leavers.try_send(leaver).is_err() {
                    got.push(unread(self.watch.resource, stamp.at, 1, LEFT));
                    return Err(self.list_again());
                }
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

/// What is lost when nothing says what became of an object that left a selector.
const LEFT: &str = "it is not known whether an object that left was deleted";

/// Asks for each object that left a selector whether it was deleted, or only no longer matches. Where the answer does not
/// say it, that is a loss, and a list of all objects is due. The list answers for those too that wait to be asked for.
async fn ask(
    client: Client,
    watch: Watch,
    patience: Duration,
    mut leavers: mpsc::Receiver<Leaver>,
    unclear: Arc<Notify>,
    mut out: Out,
) {
    while let Some(l) = leavers.recv().await {
        let o = match became(&client, &watch, patience, l).await {
            Some(o) => o,
            None => {
                let mut lost = 1;
                while leavers.try_recv().is_ok() {
                    lost += 1;
                }
                unclear.notify_one();
                unread(watch.resource, clock::now(), lost, LEFT)
            }
        };
        if out.send(o).await.is_err() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Asks what became of an object; `None` when the answer does not say it.
async fn became(
    client: &Client,
    watch: &Watch,
    patience: Duration,
    l: Leaver,
) -> Option<Observation> {
    #[derive(Deserialize)]
    struct Uid {
        metadata: HeadMeta,
    }
    let uri = format!(
        "/{}/namespaces/{}/{}/{}",
        watch.api,
        escape(&l.namespace),
        watch.resource,
        escape(&l.name)
    );
    let request = Request::get(uri).body(HttpBody::empty()).ok()?;
    let response = timeout(patience, client.send(request)).await.ok()?.ok()?;
    let status = response.status();
    let bytes = collect(response.into_body(), patience).await.ok()?;
    match status {
        StatusCode::OK => {
            let object = serde_json::from_slice::<Uid>(&bytes).ok()?;
            if object.metadata.uid != l.uid {
                // Another object has its name by now.
                return Some(l.deleted);
            }
            let stamp = Stamp::exact(clock::now());
            decode_object(&bytes, watch.kind, WatchEvent::Modified, stamp).ok()
        }
        StatusCode::NOT_FOUND => Some(l.deleted),
        _ => None,
    }
}

/// Runs the watches of a scope.
pub fn start(
    server: &Server,
    scope: &Scope,
    pace: Pace,
    board: &crate::live::Board,
    tasks: &mut tokio::task::JoinSet<()>,
) {
    for (name, watch) in watches(scope) {
        let out = board.out(Source::Kube, name);
        tasks.spawn(run(server.clone(), watch, pace, out));
    }
}

/// Starts only the watches that an agent has: of the pods that are bound to its node, and of the node.
pub fn start_node(
    server: &Server,
    scope: &Scope,
    pace: Pace,
    board: &crate::live::Board,
    tasks: &mut tokio::task::JoinSet<()>,
) {
    for (name, watch) in watches(scope) {
        if matches!(name, "pods" | "nodes") {
            let out = board.out(Source::Kube, name);
            tasks.spawn(run(server.clone(), watch, pace, out));
        }
    }
}

#[cfg(test)]
mod tests;
