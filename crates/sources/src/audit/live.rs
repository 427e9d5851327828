//! The audit webhook: receives the `EventList` batches that the apiserver posts (`--audit-webhook-config-file`).
//!
//! Batches on any path are accepted, since the apiserver posts to whatever path its kubeconfig names. They are
//! accepted at once: the apiserver must never wait or retry because of a program that only observes.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tonic::codegen::http::{Method, StatusCode};

use crate::Fed;
use crate::audit::decode;
use crate::receive::{self, Error, Listener, Sink};
use kflow_model::clock;

/// Name in errors and in the status bar.
const WHAT: &str = "the audit webhook receiver";

/// Binds the receiver's address.
pub async fn bind(addr: SocketAddr, anywhere: bool) -> Result<TcpListener, Error> {
    receive::bind(WHAT, addr, anywhere).await
}

/// Receives batches until `stop` is done.
pub async fn serve(
    listener: impl Into<Listener>,
    sink: Sink,
    stop: impl Future<Output = ()> + Send,
) {
    let handler: receive::Handler = Arc::new(move |request| {
        let sink = Arc::clone(&sink);
        Box::pin(async move {
            if request.method() != Method::POST {
                return receive::answer(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "text/plain",
                    "post an EventList",
                );
            }
            let body = match receive::body(request).await {
                Ok(body) => body,
                Err(refusal) => return refusal,
            };
            let mut out = Vec::new();
            let fed = decode::decode_batch(&body, clock::now(), &mut out);
            // One malformed record does not make the others worthless.
            if let Fed::Malformed(why) = fed
                && out.is_empty()
            {
                return receive::answer(StatusCode::BAD_REQUEST, "text/plain", why);
            }
            // Observations for which the engine has no room are counted there; the apiserver is not asked to send
            // them again.
            sink(out);
            receive::answer(StatusCode::OK, "text/plain", "")
        })
    });
    receive::serve(listener, handler, stop).await;
}
