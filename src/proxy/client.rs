//! A subscriber of the observation service.

use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::wire::{self, Batch, InfoRequest, InfoResponse, SubscribeRequest};

/// Messages hold at most 256 KiB of lines, or one line; a line is bounded by the largest CRI answer.
const MAX_MESSAGE: usize = 64 << 20;

/// Why the proxy could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers on the socket.
    #[error("cannot connect to the proxy's socket {path}: {source}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The proxy answered with an error.
    #[error("the proxy at {path} answered {status}")]
    Status {
        /// The socket.
        path: PathBuf,
        /// What it answered.
        status: Box<Status>,
    },
}

/// A connection to the service.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    grpc: Grpc<Channel>,
}

impl Client {
    /// Connects.
    pub async fn connect(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Connect {
            path: path.to_path_buf(),
            source,
        };
        // Tried here first, because the channel hides the system's own error.
        drop(UnixStream::connect(path).await.map_err(failed)?);
        let at = path.to_path_buf();
        let channel = Endpoint::from_static("http://localhost")
            .connect_with_connector(tower::service_fn(move |_: Uri| {
                let at = at.clone();
                async move { UnixStream::connect(at).await.map(TokioIo::new) }
            }))
            .await
            .map_err(|e| failed(std::io::Error::other(e)))?;
        Ok(Self {
            path: path.to_path_buf(),
            grpc: Grpc::new(channel).max_decoding_message_size(MAX_MESSAGE),
        })
    }

    /// Subscribes.
    pub async fn subscribe(&mut self, wants: SubscribeRequest) -> Result<Streaming<Batch>, Error> {
        self.ready().await?;
        let path = PathAndQuery::from_static(wire::SUBSCRIBE);
        self.grpc
            .server_streaming(Request::new(wants), path, ProstCodec::default())
            .await
            .map(tonic::Response::into_inner)
            .map_err(|status| self.status(status))
    }

    /// Asks how the proxy is doing.
    pub async fn info(&mut self) -> Result<InfoResponse, Error> {
        self.ready().await?;
        let path = PathAndQuery::from_static(wire::INFO);
        self.grpc
            .unary(Request::new(InfoRequest {}), path, ProstCodec::default())
            .await
            .map(tonic::Response::into_inner)
            .map_err(|status| self.status(status))
    }

    async fn ready(&mut self) -> Result<(), Error> {
        self.grpc.ready().await.map_err(|e| Error::Connect {
            path: self.path.clone(),
            source: std::io::Error::other(e),
        })
    }

    fn status(&self, status: Status) -> Error {
        Error::Status {
            path: self.path.clone(),
            status: Box::new(status),
        }
    }
}
