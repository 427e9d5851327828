//! gRPC over a unix socket.

use std::io;
use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

/// Nobody accepts connections on a socket.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect to {path}: {source}")]
pub struct Error {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Connects to a socket; the channel reconnects by itself when the connection breaks.
pub async fn channel(path: &Path) -> Result<Channel, Error> {
    let failed = |source| Error {
        path: path.to_path_buf(),
        source,
    };
    // Tried here first, because the channel hides the system's own error.
    drop(UnixStream::connect(path).await.map_err(failed)?);
    let at = path.to_path_buf();
    Endpoint::from_static("http://localhost")
        .user_agent(concat!("kflow/", env!("CARGO_PKG_VERSION")))
        .map_err(|e| failed(io::Error::other(e)))?
        .connect_with_connector(tower::service_fn(move |_: Uri| {
            let at = at.clone();
            async move { UnixStream::connect(at).await.map(TokioIo::new) }
        }))
        .await
        .map_err(|e| failed(io::Error::other(e)))
}
