//! The kubelet behind the apiserver's node proxy: its log, its health, its metrics.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kflow_model::{Body, Source};
use kflow_sources::klog::live::remote::{Kubelet, Offer, remote};
use kflow_sources::live::Board;
use kflow_sources::metrics::live::{of_node, scrape};
use prost::bytes::Bytes;
use tokio::net::TcpListener;
use tonic::codegen::http::{Request, Response};

use super::{PATIENCE, expect, lines};

/// Pause between two requests.
const EVERY: Duration = Duration::from_millis(1);

/// Starts to follow the log of a kubelet.
fn follow(kubelet: Kubelet, board: &Board) -> tokio::task::JoinHandle<()> {
    let out = board.out(Source::Kubelet, "remote log");
    tokio::spawn(remote(kubelet, Source::Kubelet, lines(), EVERY, out))
}

type Page = Box<dyn FnMut(&str) -> (u16, String) + Send>;

/// An apiserver that answers each request with what `page` returns for its URI and `Range` header, and remembers these.
/// The first line of the text of a 206 or 416 is its `Content-Range`.
async fn stand_in(page: Page) -> (kube::Client, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (remember, page) = (Arc::clone(&asked), Arc::new(Mutex::new(page)));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (remember, page) = (Arc::clone(&remember), Arc::clone(&page));
            tokio::spawn(async move {
                let serve = service_fn(move |r: Request<Incoming>| {
                    let mut uri = r.uri().to_string();
                    if let Some(range) = r.headers().get("Range") {
                        uri.extend([" ", range.to_str().unwrap()]);
                    }
                    let (code, mut text) = page.lock().unwrap()(&uri);
                    let mut response = Response::builder().status(code);
                    if code == 206 || code == 416 {
                        let (range, rest) = text.split_once('\n').unwrap();
                        response = response.header("Content-Range", range);
                        text = rest.to_owned();
                    }
                    remember.lock().unwrap().push(uri);
                    async move {
                        Ok::<_, Infallible>(response.body(Full::new(Bytes::from(text))).unwrap())
                    }
                });
                // A client that goes away ends its connection.
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), serve)
                    .await
                    .ok();
            });
        }
    });
    let config = kube::Config::new(url.parse().unwrap());
    (kube::Client::try_from(config).unwrap(), asked)
}

#[tokio::test]
async fn a_remote_log_is_asked_for_again_and_overlapping_lines_come_once() {
    let mut answers = vec![
        (200, "three\nfour\n"),
        // The query's resolution is a second, so lines come twice.
        (200, "two\nthree\n"),
        (503, "the kubelet restarts"),
        (200, "one\ntwo\n"),
    ];
    let page: Page = Box::new(move |_| {
        let (code, text) = answers.pop().unwrap_or((200, ""));
        (code, text.to_owned())
    });
    let (client, asked) = stand_in(page).await;
    let (board, mut from) = Board::new(64);
    let task = follow(Kubelet::new(client, "node1"), &board);
    expect(&mut from, &["one", "two", "three", "four"]).await;
    let asked = asked.lock().unwrap().clone();
    assert!(asked.len() >= 4);
    for uri in &asked {
        assert!(
            uri.starts_with("/api/v1/nodes/node1/proxy/logs/?query=kubelet&sinceTime="),
            "{uri}"
        );
        assert!(!uri.contains('+'), "{uri}");
    }
    assert!(board.statuses()[0].is_on());
    task.abort();
}

#[tokio::test]
async fn a_remote_log_that_is_not_to_be_had_says_what_is_missing() {
    // A kubelet that does not know the query answers with the listing of its log folder.
    const LISTING: &str = "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n<a href=\"README\">README</a>\n";
    for (code, body, wanted) in [
        (403, "", "needs get on nodes/proxy"),
        (404, "", "set enableSystemLogQuery: true"),
        (405, "", "set enableSystemLogQuery: true"),
        (200, LISTING, "set enableSystemLogQuery: true"),
        (500, "", "answers 500"),
    ] {
        let (client, _) = stand_in(Box::new(move |_| (code, body.to_owned()))).await;
        let (board, _from) = Board::new(64);
        let task = follow(Kubelet::new(client, "node1"), &board);
        let told = async {
            while !board.statuses()[0].detail().contains(wanted) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, told)
            .await
            .unwrap_or_else(|_| panic!("{code}: {:?}", board.statuses()));
        assert!(!board.statuses()[0].is_on());
        task.abort();
    }
}

/// A part of a file, as Go's file server sends it.
fn part(file: &str, range: &str) -> (u16, String) {
    let length = file.len();
    let (from, to) = range
        .strip_prefix("bytes=")
        .unwrap()
        .split_once('-')
        .unwrap();
    let (from, to) = match (from.parse(), to.parse::<usize>()) {
        (Ok(from), Ok(to)) => (from, (to + 1).min(length)),
        (Ok(from), Err(_)) => (from, length),
        (Err(_), to) => (length - to.unwrap().min(length), length),
    };
    match file.get(from..to).filter(|part| !part.is_empty()) {
        Some(part) => (206, format!("bytes {from}-{}/{length}\n{part}", to - 1)),
        None => (416, format!("bytes */{length}\ninvalid range")),
    }
}

#[tokio::test]
async fn a_log_that_is_a_file_is_followed_where_the_kubelet_refuses_the_query() {
    // The answer of a kubelet 1.36 whose log query is enabled, and whose log is a file.
    const REFUSED: &str = "\noptions present and query resolved to log files for [kubelet]\ntry without specifying options\n\n";
    let log = Arc::new(Mutex::new("one\ntwo\n".to_owned()));
    let grows = Arc::clone(&log);
    let (client, _) = stand_in(Box::new(move |uri| match uri.split_once(' ') {
        None => (200, REFUSED.to_owned()),
        Some(("/api/v1/nodes/node1/proxy/logs/kubelet/kubelet.log", range)) => {
            part(&log.lock().unwrap(), range)
        }
        Some(_) => (404, "404 page not found\n".to_owned()),
    }))
    .await;
    let kubelet = Kubelet::new(client, "node1");
    let offered = kubelet.offer().await;
    assert_eq!(offered, Ok(Offer::File("kubelet/kubelet.log")));
    let (board, mut from) = Board::new(64);
    let task = follow(kubelet, &board);
    expect(&mut from, &["one", "two"]).await;
    // A line is passed on when it is complete.
    grows.lock().unwrap().push_str("thr");
    grows.lock().unwrap().push_str("ee\nfour\n");
    expect(&mut from, &["three", "four"]).await;
    assert!(
        board.statuses()[0]
            .detail()
            .contains("/var/log/kubelet/kubelet.log")
    );
    "five\n".clone_into(&mut grows.lock().unwrap());
    expect(&mut from, &["[the log was truncated or rotated]", "five"]).await;
    task.abort();
}

#[tokio::test]
async fn health_settings_and_metrics_are_asked_for_and_a_missing_right_is_told() {
    let page: Page = Box::new(|uri| match uri {
        "/api/v1/nodes/node1/proxy/healthz" => (200, "ok".into()),
        "/api/v1/nodes/node1/proxy/metrics" => (
            200,
            "# TYPE kubelet_running_pods gauge\nkubelet_running_pods 2\n".into(),
        ),
        "/api/v1/nodes/node1/proxy/configz" => (
            200,
            r#"{"kubeletconfig":{"maxPods":110,"cgroupDriver":"systemd"}}"#.into(),
        ),
        _ => (403, String::new()),
    });
    let (client, asked) = stand_in(page).await;
    let (board, mut from) = Board::new(64);
    let target = of_node("node1");
    let task = tokio::spawn(scrape(
        client,
        target,
        board.out(Source::Metrics, "kubelet"),
    ));
    let mut got = Vec::new();
    while got.len() < 3 {
        let o = tokio::time::timeout(PATIENCE, from.recv())
            .await
            .unwrap()
            .unwrap();
        let Body::Sample(s) = o.body else {
            panic!("{:?}", o.body)
        };
        got.push((s.what.to_string(), s.code, s.values.len()));
    }
    got.sort();
    assert_eq!(
        got,
        [
            ("kubelet-configz".to_owned(), 200, 0),
            ("kubelet-healthz".to_owned(), 200, 0),
            ("kubelet-metrics".to_owned(), 200, 1),
        ]
    );
    let told = async {
        while board.statuses()[0].detail() != "forbidden: needs get on nodes/proxy" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    assert_eq!(asked.lock().unwrap().len(), 5);
    task.abort();
}
