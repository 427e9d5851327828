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
use crate::kube::live::{escape, explain};
use crate::live::{Backoff, Out, Stopped};
use kflow_model::clock;
use kflow_model::stamp::SECOND;
use kflow_model::units::wait;
use kflow_model::{Nanos, Source};

/// How often a remote log is asked for.
pub const ASK: Duration = Duration::from_secs(2);
/// How far back the first query of the journal reaches, ns.
const BEFORE: i64 = 600 * SECOND;
/// How far a query of the journal reaches back before the previous answer, ns: both times are whole seconds.
const OVERLAP: i64 = 2 * SECOND;
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
        since: None,
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
    /// From when on the journal is asked for, by the node's clock; `None` before the first answer.
    since: Option<Nanos>,
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
            if let Some(answer) = self.query().await? {
                return self.lines(answer).await;
            }
            self.file = Some(self.kubelet.find().await?);
        }
        self.follow().await
    }

    /// Asks for the journal. When kflow's clock is ahead of the node's, the first answer reaches back less than
    /// [`BEFORE`], or not at all, and is asked for once more.
    async fn query(&mut self) -> Result<Option<Answer>, Trouble> {
        let own = clock::now().plus(-BEFORE);
        let answer = self.kubelet.query(self.since.unwrap_or(own)).await?;
        let Some(Answer { now, .. }) = answer else {
            return Ok(None);
        };
        let by_the_node = now.plus(-BEFORE);
        if self.since.is_some() || own.since(by_the_node) <= OVERLAP {
            return Ok(answer);
        }
        Ok(self.kubelet.query(by_the_node).await?)
    }

    /// Takes the lines of the journal that the previous answer did not have.
    async fn lines(&mut self, answer: Answer) -> Result<(), Trouble> {
        self.feed.out.on(format!(
            "log of {} by way of the apiserver, every {}",
            self.kubelet.node,
            wait(self.every)
        ));
        let mut now_known = FxHashSet::default();
        for line in answer.text.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            if !self.known.contains(line) {
                self.feed.push(line).await?;
                self.feed.push(b"\n").await?;
            }
            now_known.insert(line.to_vec());
        }
        self.known = now_known;
        self.since = Some(answer.now.plus(-OVERLAP));
        Ok(())
    }

    /// Takes what the file has grown by. An answer that fails leaves the position where it is.
    async fn follow(&mut self) -> Result<(), Trouble> {
        let Some(mut at) = self.file.take() else {
            return Ok(());
        };
        let taken = self.pieces(&mut at).await;
        let node = &self.kubelet.node;
        if matches!(taken, Ok(false)) {
            let why = format!("{} of {node} is gone; looking again", at.name);
            self.feed.lost(&why).await?;
            self.feed.end().await?;
            return Err(Trouble::Why(why));
        }
        let name = at.name;
        self.file = Some(at);
        taken?;
        self.feed.out.on(format!(
            "/var/log/{name} of {node} by way of the apiserver, every {}",
            wait(self.every)
        ));
        Ok(())
    }

    /// Reads the file to its end; returns false when it is not there any more.
    async fn pieces(&mut self, at: &mut Following) -> Result<bool, Trouble> {
        loop {
            let range = format!("bytes={}-{}", at.position, at.position + PIECE - 1);
            match self.kubelet.part(at.name, &range).await? {
                Part::None => return Ok(false),
                Part::Beyond { length } if length < at.position => {
                    self.feed.lost("the log was truncated or rotated").await?;
                    self.feed.end().await?;
                    at.position = 0;
                    at.within_line = false;
                }
                Part::Beyond { .. } => return Ok(true),
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
                        return Ok(true);
                    }
                }
            }
        }
    }
}

/// The journal's lines.
struct Answer {
    text: Vec<u8>,
    /// When the node answered, by the node's clock: the apiserver passes on the `Date` that the kubelet set. By kflow's
    /// clock where something between them removes it.
    now: Nanos,
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
    async fn query(&self, since: Nanos) -> Result<Option<Answer>, String> {
        let asked = clock::now();
        let node = &self.node;
        let uri = format!(
            "/api/v1/nodes/{}/proxy/logs/?query=kubelet&sinceTime={}",
            escape(node),
            escape(&since.to_rfc3339())
        );
        let request = Request::get(uri)
            .body(HttpBody::empty())
            .map_err(|e| e.to_string())?;
        let (status, headers, body) = self.send(request).await?;
        match status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => return Ok(None),
            status => return Err(format!("the kubelet of {node} answers {status}")),
        }
        // Without the query feature, the same path lists the files in /var/log; with it, a kubelet that logs to a
        // file refuses the time. Both answer with status 200.
        let listed = body.starts_with(b"<!doctype html>");
        let date = headers
            .get("Date")
            .and_then(|v| Nanos::parse_rfc2822(v.to_str().ok()?));
        Ok((!listed && !refused(&body)).then_some(Answer {
            text: body,
            now: date.unwrap_or(asked),
        }))
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
            .map_err(|e| explain("the apiserver", &e).1)?;
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
    use crate::klog::live::tests::{lines, told};
    use crate::live::Board;
    use crate::live::silent::{self, client};
    use std::sync::{Arc, Mutex};
    use tonic::codegen::http::Response;

    #[tokio::test]
    async fn a_kubelet_that_says_no_more_is_waited_for_no_longer_than_its_time() {
        for (answer, what) in [
            (
                silent::Answer::Nothing,
                "the log of node1 did not come within",
            ),
            (
                silent::Answer::Head,
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

    /// Times from when on the node is asked.
    type Asked = Arc<Mutex<Vec<Nanos>>>;

    /// A node whose clock is behind kflow's, and whose journal has a line of each of its `seconds`.
    fn node(now: Nanos, seconds: std::ops::Range<i64>) -> (Client, Asked) {
        let asked = Asked::default();
        let remember = Arc::clone(&asked);
        let client = silent::answers(move |request| {
            let uri = request.uri().to_string();
            let (_, since) = uri.split_once("sinceTime=").unwrap();
            let since = since.replace("%3A", ":");
            let (since, _) = Nanos::parse_rfc3339(&since).unwrap();
            let mut asked = remember.lock().unwrap();
            asked.push(since);
            // Each answer comes a second after the one before.
            let n = asked.len() as i64;
            let lines: Vec<String> = seconds
                .clone()
                .filter(|s| *s < n && now.plus(s * SECOND) >= since)
                .map(|s| format!("line {s}\n"))
                .collect();
            let date = now.plus(n * SECOND).to_rfc3339();
            let (date, time) = date.split_once('T').unwrap();
            let (time, _) = time.split_once('.').unwrap();
            let [year, "11", day] = date.split('-').collect::<Vec<_>>()[..] else {
                panic!("{date}")
            };
            let date = format!("Sat, {day} Nov {year} {time} GMT");
            let answer = Response::builder().header("Date", date);
            answer.body(lines.concat()).unwrap()
        });
        (client, asked)
    }

    #[tokio::test]
    async fn a_journal_is_asked_for_by_the_clock_of_its_node() {
        let (now, _) = Nanos::parse_rfc3339("2020-11-21T01:00:00Z").unwrap();
        let (client, asked) = node(now, -500..6);
        let (board, mut from) = Board::new(1024);
        let out = board.out(Source::Kubelet, "remote log");
        let kubelet = Kubelet::new(client, "node1");
        let every = Duration::from_millis(1);
        let task = tokio::spawn(remote(kubelet, Source::Kubelet, lines(), every, out));
        for n in -500..6 {
            assert_eq!(told(&mut from).await, format!("line {n}"));
        }
        task.abort();
        // The first question was by kflow's clock, and asked for what lies ahead of the node.
        let asked = asked.lock().unwrap().clone();
        assert!(asked[0] > now.plus(BEFORE));
        assert_eq!(asked[1], now.plus(SECOND - BEFORE));
        assert!(asked[2..].iter().all(|since| *since < now.plus(6 * SECOND)));
    }

    /// The answers of one file: its content at each request, or a status.
    fn file(mut answers: Vec<Result<&'static str, u16>>) -> Client {
        answers.reverse();
        silent::answers(move |request| {
            let status = |code: u16| Response::builder().status(code);
            let Some(range) = request.headers().get("Range") else {
                return status(404).body(String::new()).unwrap();
            };
            let asked = range.to_str().unwrap().strip_prefix("bytes=").unwrap();
            // The last answer stays.
            let answer = match answers.last() {
                Some(answer) if answers.len() == 1 => *answer,
                _ => answers.pop().unwrap(),
            };
            let text = match answer {
                Ok(text) => text,
                Err(code) => return status(code).body(String::new()).unwrap(),
            };
            let begin = match asked.split_once('-').unwrap() {
                ("", last) => text.len() - last.parse::<usize>().unwrap(),
                (begin, _) => begin.parse().unwrap(),
            };
            let length = text.len();
            match text.get(begin..).filter(|t| !t.is_empty()) {
                Some(part) => status(206)
                    .header(
                        "Content-Range",
                        format!("bytes {begin}-{}/{length}", length - 1),
                    )
                    .body(part.to_owned())
                    .unwrap(),
                None => status(416)
                    .header("Content-Range", format!("bytes */{length}"))
                    .body(String::new())
                    .unwrap(),
            }
        })
    }

    async fn follows(answers: Vec<Result<&'static str, u16>>, wanted: &[&str]) {
        let (board, mut from) = Board::new(64);
        let out = board.out(Source::Kubelet, "remote log");
        let kubelet = Kubelet::new(file(answers), "node1");
        let every = Duration::from_millis(1);
        let task = tokio::spawn(remote(kubelet, Source::Kubelet, lines(), every, out));
        for line in wanted {
            assert_eq!(told(&mut from).await, *line);
        }
        task.abort();
    }

    #[tokio::test]
    async fn an_answer_that_fails_leaves_the_place_in_the_file() {
        let (begun, whole) = ("one\ntw", "one\ntwo\nthree\n");
        let answers = vec![Ok(begun), Ok(begun), Err(503), Err(500), Ok(whole)];
        follows(answers, &["one", "two", "three"]).await;
    }

    #[tokio::test]
    async fn a_file_that_is_gone_is_a_gap_and_its_half_line_is_no_part_of_the_next() {
        let begun = "one\ntw";
        let answers = vec![
            Ok(begun),
            Ok(begun),
            Err(404),
            Err(404),
            Err(404),
            Ok("new\n"),
        ];
        let gone = "[kubelet.log of node1 is gone; looking again]";
        follows(answers, &["one", gone, "new"]).await;
    }
}
