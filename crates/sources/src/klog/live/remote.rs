//! Follows a node's kubelet log through the apiserver, in either of the two forms that a kubelet offers.
//!
//! * `/logs/?query=kubelet` asks for the node's journal (`enableSystemLogQuery`, off by default). A kubelet that logs to
//!   a file refuses to return a part of its log this way.
//! * `/logs/kubelet.log` is the file in the node's `/var/log` (`enableSystemLogHandler`, on by default), of which a part
//!   can be requested by `Range`, as of any file on a web server.
//!
//! The query is tried first; where there is none, the file is followed.

use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::{Body as HttpBody, Client};
use rustc_hash::FxHashSet;
use tokio::time::timeout;
use tonic::codegen::http::{HeaderMap, Request, StatusCode};

use super::{Feed, NewDecoder};
use crate::kube::live::escape;
use crate::live::root;
use crate::live::{Backoff, Out, Stopped};
use kflow_model::clock;
use kflow_model::stamp::SECOND;
use kflow_model::units::wait;
use kflow_model::{Nanos, Source};

/// How often a remote log is asked for.
pub const ASK: Duration = Duration::from_secs(2);
/// How far back the first query of the journal reaches, ns.
const BEFORE: i64 = 600 * SECOND;
/// How much of the end of a file is read at first, bytes.
const FILE_BEFORE: u64 = 4 << 20;
/// How much of a file is requested at once, bytes.
const PIECE: u64 = 4 << 20;
/// How long an answer may take to begin, and then to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Largest answer that is read, bytes.
const ANSWER_MAX: usize = 64 << 20;
/// Where a kubelet looks for its own log below `/var/log` (pkg/kubelet/kubelet_server_journal.go).
pub const FILES: [&str; 2] = ["kubelet.log", "kubelet/kubelet.log"];

/// The form in which a kubelet offers its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The journal, by a query.
    Query,
    /// The file of this name in `/var/log`.
    File(&'static str),
}

/// A kubelet that is asked through the apiserver.
#[derive(Clone)]
pub struct Kubelet {
    client: Client,
    node: String,
    /// How long an answer may take to begin, and then to end.
    patience: Duration,
}

/// Requests a node's kubelet log again and again, with a pause of `every` between.
pub async fn remote(
    kubelet: Kubelet,
    source: Source,
    decoder: NewDecoder,
    every: Duration,
    out: Out,
) {
    let mut log = Log {
        kubelet,
        every,
        feed: Feed::new(source, decoder(), out),
        since: clock::now().plus(-BEFORE),
        known: FxHashSet::default(),
        file: None,
    };
    let mut backoff = Backoff::new(every, Duration::from_secs(60));
    loop {
        let pause = match log.ask().await {
            Ok(()) => {
                backoff.reset();
                every
            }
            Err(Trouble::Stopped) => return,
            Err(Trouble::Why(why)) => {
                log.feed.out.off(why);
                backoff.pause()
            }
        };
        log.feed.out.pause(pause).await;
    }
}

struct Log {
    kubelet: Kubelet,
    every: Duration,
    feed: Feed,
    since: Nanos,
    /// The lines of the previous answer, which the next answer may repeat: the query's resolution is one second.
    known: FxHashSet<Vec<u8>>,
    /// The file that is followed, where there is no query.
    file: Option<Following>,
}

struct Following {
    name: &'static str,
    position: u64,
    /// The position is in the middle of a line.
    within_line: bool,
}

enum Trouble {
    Stopped,
    Why(String),
}

impl From<Stopped> for Trouble {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self::Why(why)
    }
}

impl Log {
    async fn ask(&mut self) -> Result<(), Trouble> {
        if self.file.is_none() {
            let asked = clock::now();
            if let Some(text) = self.kubelet.query(self.since).await? {
                return self.lines(&text, asked).await;
            }
            self.file = Some(self.kubelet.find().await?);
        }
        self.follow().await
    }

    /// Takes the lines of the journal that the previous answer did not have.
    async fn lines(&mut self, text: &[u8], asked: Nanos) -> Result<(), Trouble> {
        self.feed.out.on(format!(
            "log of {} by way of the apiserver, every {}",
            self.kubelet.node,
            wait(self.every)
        ));
        let mut now_known = FxHashSet::default();
        for line in text.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            if !self.known.contains(line) {
                self.feed.push(line).await?;
                self.feed.push(b"\n").await?;
            }
            now_known.insert(line.to_vec());
        }
        self.known = now_known;
        self.since = asked.plus(-2 * SECOND);
        Ok(())
    }

    /// Takes what the file has grown by.
    async fn follow(&mut self) -> Result<(), Trouble> {
        let Some(mut at) = self.file.take() else {
            return Ok(());
        };
        loop {
            let range = format!("bytes={}-{}", at.position, at.position + PIECE - 1);
            match self.kubelet.part(at.name, &range).await? {
                Part::None => {
                    return Err(Trouble::Why(format!(
                        "{} of {} is gone; looking again",
                        at.name, self.kubelet.node
                    )));
                }
                Part::Beyond { length } if length < at.position => {
                    self.feed.lost("the log was truncated or rotated").await?;
                    self.feed.end().await?;
                    at.position = 0;
                    at.within_line = false;
                }
                Part::Beyond { .. } => break,
                Part::Bytes { bytes, .. } => {
                    at.position += bytes.len() as u64;
                    let mut new = bytes.as_slice();
                    if at.within_line
                        && let Some(i) = memchr::memchr(b'\n', new)
                    {
                        new = new.get(i + 1..).unwrap_or_default();
                        at.within_line = false;
                    }
                    if !at.within_line {
                        self.feed.push(new).await?;
                    }
                    if (bytes.len() as u64) < PIECE {
                        break;
                    }
                }
            }
        }
        self.feed.out.on(format!(
            "/var/log/{} of {} by way of the apiserver, every {}",
            at.name,
            self.kubelet.node,
            wait(self.every)
        ));
        self.file = Some(at);
        Ok(())
    }
}

/// A part of a node's file.
enum Part {
    /// There is no such file, or the kubelet does not serve it in parts.
    None,
    /// The file has this many bytes, and the requested range begins behind them.
    Beyond { length: u64 },
    /// Bytes of the file, and the offset of the first of them.
    Bytes { first: u64, bytes: Vec<u8> },
}

impl Kubelet {
    pub fn new(client: Client, node: &str) -> Self {
        Self {
            client,
            node: node.to_owned(),
            patience: PATIENCE,
        }
    }

    /// Returns what the kubelet offers; the error says why it offers nothing.
    pub async fn offer(&self) -> Result<Offer, String> {
        match self.query(clock::now()).await? {
            Some(_) => Ok(Offer::Query),
            None => Ok(Offer::File(self.find().await?.name)),
        }
    }

    /// Returns the first of [`FILES`] that exists, positioned at most [`FILE_BEFORE`] bytes before its end.
    async fn find(&self) -> Result<Following, String> {
        let node = &self.node;
        for name in FILES {
            // One byte tells where the end is.
            let position = match self.part(name, "bytes=-1").await? {
                Part::None => continue,
                Part::Beyond { length } => length,
                Part::Bytes { first, bytes } => first + bytes.len() as u64,
            };
            let position = position.saturating_sub(FILE_BEFORE);
            return Ok(Following {
                name,
                position,
                within_line: position > 0,
            });
        }
        Err(nothing(node))
    }

    async fn part(&self, name: &str, range: &str) -> Result<Part, String> {
        let node = &self.node;
        let uri = format!("/api/v1/nodes/{}/proxy/logs/{name}", escape(node));
        let request = Request::get(uri)
            .header("Range", range)
            .body(HttpBody::empty())
            .map_err(|e| e.to_string())?;
        let (status, headers, body) = self.send(request).await?;
        // `bytes 10-19/20`, or `bytes */20` where there is nothing.
        let says = headers
            .get("Content-Range")
            .and_then(|v| v.to_str().ok()?.strip_prefix("bytes ")?.split_once('/'));
        Ok(match status {
            StatusCode::PARTIAL_CONTENT => {
                let first = says.and_then(|(range, _)| range.split('-').next()?.parse().ok());
                let first = first.ok_or_else(|| format!("{name} of {node}: no Content-Range"))?;
                Part::Bytes { first, bytes: body }
            }
            // An empty file has no ranges.
            StatusCode::OK if body.is_empty() => Part::Beyond { length: 0 },
            // A file that is not served in parts cannot be followed.
            StatusCode::OK => Part::None,
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let length = says.and_then(|(_, length)| length.parse().ok());
                Part::Beyond {
                    length: length.unwrap_or(0),
                }
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Part::None,
            status => return Err(format!("the kubelet of {node} answers {status} for {name}")),
        })
    }

    /// Returns the lines of the journal since a time; `None` where the kubelet has no query, or no journal.
    async fn query(&self, since: Nanos) -> Result<Option<Vec<u8>>, String> {
        let node = &self.node;
        let uri = format!(
            "/api/v1/nodes/{}/proxy/logs/?query=kubelet&sinceTime={}",
            escape(node),
            escape(&since.to_rfc3339())
        );
        let request = Request::get(uri)
            .body(HttpBody::empty())
            .map_err(|e| e.to_string())?;
        let (status, _, body) = self.send(request).await?;
        match status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => return Ok(None),
            status => return Err(format!("the kubelet of {node} answers {status}")),
        }
        // Without the query feature, the same path lists the files in /var/log; with it, a kubelet that logs to a
        // file refuses the time. Both answer with status 200.
        let listed = body.starts_with(b"<!doctype html>");
        Ok((!listed && !refused(&body)).then_some(body))
    }

    async fn send(
        &self,
        request: Request<HttpBody>,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), String> {
        let node = &self.node;
        let late = |what: &str| {
            format!(
                "{what} of {node} did not come within {}",
                wait(self.patience)
            )
        };
        let response = timeout(self.patience, self.client.send(request))
            .await
            .map_err(|_| late("the log"))?
            .map_err(|e| format!("cannot reach the apiserver: {}", root(&e)))?;
        if response.status() == StatusCode::FORBIDDEN {
            return Err("forbidden: needs get on nodes/proxy".into());
        }
        let (head, body) = response.into_parts();
        let bytes = timeout(
            self.patience,
            http_body_util::Limited::new(body, ANSWER_MAX).collect(),
        )
        .await
        .map_err(|_| late("the rest of the log"))?
        .map_err(|e| format!("the log of {node} broke off: {e}"))?
        .to_bytes();
        Ok((head.status, head.headers, bytes.to_vec()))
    }
}

/// Returns true for the answer of a kubelet that logs to a file to a query with options.
fn refused(body: &[u8]) -> bool {
    body.trim_ascii_start()
        .starts_with(b"options present and query resolved to log files")
}

fn nothing(node: &str) -> String {
    format!(
        "the kubelet of {node} gives no log: set enableSystemLogQuery: true (and enableSystemLogHandler: true) in its configuration where it logs to the journal, or let it log to /var/log/kubelet.log"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::silent::{Answer, client};

    #[tokio::test]
    async fn a_kubelet_that_says_no_more_is_waited_for_no_longer_than_its_time() {
        for (answer, what) in [
            (Answer::Nothing, "the log of node1 did not come within"),
            (
                Answer::Head,
                "the rest of the log of node1 did not come within",
            ),
        ] {
            let kubelet = Kubelet {
                patience: Duration::from_millis(20),
                ..Kubelet::new(client(move |_| answer), "node1")
            };
            let said = kubelet.offer().await.unwrap_err();
            assert!(said.contains(what), "{said}");
        }
    }
}
