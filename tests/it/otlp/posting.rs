//! Export to a trace store over HTTP, which the test serves itself: what the store receives, and what kflow reports
//! when the store does not accept it.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::thread;

use kflow_export::otlp::wire::{Request, Span};
use prost::Message as _;

use crate::fixture;

/// What the store does with one request.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// Sends this status line with headers, and this body.
    Says(&'static str, &'static [u8]),
    /// Reads the request and closes the connection.
    Closes,
    Hangs,
}

pub(crate) const OK: Answer = Answer::Says("200 OK", b"");

/// A request: its head in lower case, and its decoded body.
#[derive(Clone, Debug)]
struct Got {
    head: String,
    request: Request,
}

pub(crate) struct Store {
    addr: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Store {
    /// Starts a store that gives these answers in turn, and then repeats the last one.
    pub(crate) fn answering(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let got: Arc<Mutex<Vec<Got>>> = Arc::default();
        let (to, mut answers) = (Arc::clone(&got), VecDeque::from(answers.to_vec()));
        thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let answer = *answers.front().unwrap();
                let Some(one) = read(&stream) else { continue };
                to.lock().unwrap().push(one);
                if answers.len() > 1 {
                    answers.pop_front();
                }
                match answer {
                    Answer::Says(head, body) => {
                        let n = body.len();
                        let head = format!(
                            "HTTP/1.1 {head}\r\ncontent-length: {n}\r\nconnection: close\r\n\r\n"
                        );
                        stream.write_all(head.as_bytes()).unwrap();
                        stream.write_all(body).unwrap();
                    }
                    Answer::Closes => {}
                    Answer::Hangs => open.push(stream),
                }
            }
        });
        Self { addr, got }
    }
    /// Returns all spans received so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut resources: Vec<_> = self
            .got()
            .into_iter()
            .flat_map(|g| g.request.resource_spans)
            .collect();
        let scopes = resources.iter_mut().flat_map(|r| r.scope_spans.drain(..));
        scopes.flat_map(|s| s.spans).collect()
    }
    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

fn read(stream: &TcpStream) -> Option<Got> {
    let mut from = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_lowercase();
    let length = head.split("content-length: ").nth(1)?;
    let length = length.split("\r\n").next()?.parse().ok()?;
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    let request = Request::decode(body.as_slice()).expect("an export request");
    Some(Got { head, request })
}

fn export(url: &str, headers: &str) -> Output {
    crate::program::command()
        .args(["export", "--otlp-to", url, "-s"])
        .arg(fixture("sessions/S3-crashes.kflow.zst"))
        .env("OTEL_EXPORTER_OTLP_HEADERS", headers)
        .env_remove("OTEL_EXPORTER_OTLP_TRACES_HEADERS")
        .output()
        .unwrap()
}

fn spans(got: &[Got]) -> usize {
    let resources = got.iter().flat_map(|g| &g.request.resource_spans);
    let scopes = resources.flat_map(|r| &r.scope_spans);
    scopes.map(|s| s.spans.len()).sum()
}

#[test]
fn a_recording_is_sent_whole_with_the_headers_of_the_environment() {
    let store = Store::answering(&[
        Answer::Says("503 Service Unavailable\r\nretry-after: 0", b"busy"),
        Answer::Closes,
        OK,
    ]);
    let out = export(&store.url(), "authorization=Bearer%20t0ps3cret");
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(0), "{said}");
    let got = store.got();
    let taken = spans(&got[2..]);
    assert!(
        said.contains(&format!("{taken} spans sent to {}/v1/traces", store.url())),
        "{said}"
    );
    assert!(
        said.contains("it answered 503 Service Unavailable: busy; again in"),
        "{said}"
    );
    assert!(!said.contains("t0ps3cret"), "{said}");
    // The first request was sent three times, with the same content.
    assert_eq!(got[0].request, got[2].request);
    for g in &got {
        assert!(
            g.head.starts_with("post /v1/traces http/1.1\r\n"),
            "{}",
            g.head
        );
        assert!(
            g.head.contains("\r\nauthorization: bearer t0ps3cret\r\n"),
            "{}",
            g.head
        );
        assert!(
            g.head
                .contains("\r\ncontent-type: application/x-protobuf\r\n"),
            "{}",
            g.head
        );
        assert!(spans(std::slice::from_ref(g)) <= 512);
    }
    // The store has all spans that the file export has.
    let file = crate::program::command()
        .args(["export", "-o", "otlp-protobuf", "-s"])
        .arg(fixture("sessions/S3-crashes.kflow.zst"))
        .output()
        .unwrap();
    let request = Request::decode(file.stdout.as_slice()).unwrap();
    let of_file = Got {
        head: String::new(),
        request,
    };
    assert_eq!(taken, spans(&[of_file]));
    assert!(taken > 500, "{taken}");
}

#[test]
fn a_store_that_refuses_is_quoted_and_nothing_is_said_to_be_sent() {
    // A partial success: 7 spans were rejected, with the message "old".
    let partial = b"\x0a\x07\x08\x07\x12\x03old";
    for (answer, said) in [
        (
            Answer::Says("401 Unauthorized", b"no \x1b[31mtoken"),
            "401 Unauthorized: no ",
        ),
        (
            Answer::Says("301 Moved\r\nlocation: http://127.0.0.1:1/", b""),
            "301 Moved",
        ),
        (Answer::Says("200 OK", partial), "and rejected 7: old"),
    ] {
        let store = Store::answering(&[answer]);
        let out = export(&store.url(), "");
        let told = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{told}");
        assert!(told.contains(said) && !told.contains('\x1b'), "{told}");
        assert!(!told.contains("spans sent to"), "{told}");
        // kflow retries none of these.
        assert_eq!(store.got().len(), 1);
    }
}

#[test]
fn a_run_ends_in_time_when_the_store_hangs() {
    let store = Store::answering(&[Answer::Hangs]);
    let dir = tempfile::tempdir().unwrap();
    let begun = kflow_model::clock::monotonic();
    let out = crate::program::command()
        .args(["record", "--no-api", "--tap", "off", "--for", "100ms", "-O"])
        .arg(dir.path().join("a.kflow"))
        .args(["--otlp-to", &store.url()])
        .output()
        .unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(begun.elapsed().as_secs() < 30, "{said}");
    assert!(
        said.contains("traces: 0 spans sent to http://127.0.0.1:"),
        "{said}"
    );
}
