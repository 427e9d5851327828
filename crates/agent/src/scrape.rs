//! Serves the page of metrics by HTTP on loopback: `/metrics`.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

use kflow_export::open_metrics;

/// How many connections are served at once; others wait.
const AT_ONCE: usize = 8;
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted, usually for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns the page of metrics.
pub type Page = Arc<dyn Fn() -> io::Result<Vec<u8>> + Send + Sync>;

/// Serves the page until the process ends.
pub fn serve(listener: TcpListener, page: &Page) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let page = Arc::clone(page);
            tokio::spawn(async move {
                let _place = place;
                let answers = service_fn(move |asked| {
                    let answer = answer(&asked, &page);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let served = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), answers);
                // An error or a time-out concerns the client only.
                drop(tokio::time::timeout(PATIENCE, served).await);
            });
        }
    })
}

fn answer(asked: &Request<Incoming>, page: &Page) -> Response<Full<Bytes>> {
    let text =
        |status, text: &'static str| (status, Bytes::from_static(text.as_bytes()), "text/plain");
    let (status, body, kind) = match (asked.method(), asked.uri().path()) {
        (&Method::GET, "/metrics") => match page() {
            Ok(page) => (StatusCode::OK, page.into(), open_metrics::CONTENT_TYPE),
            Err(_) => text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the page could not be written\n",
            ),
        },
        (&Method::GET, _) => text(StatusCode::NOT_FOUND, "there is /metrics\n"),
        _ => text(StatusCode::METHOD_NOT_ALLOWED, "GET /metrics\n"),
    };
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
