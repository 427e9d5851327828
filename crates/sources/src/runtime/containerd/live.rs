//! Asks containerd for the progress of its pulls, every half second while there is one, else every second; and
//! subscribes to its events.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;
use tracing::debug;

use super::events::{Envelope, TOPICS, Timestamp};
use super::messages::{
    self, Filters, Info, InfoRequest, InfoResponse, Infos, ReadRequest, ReadResponse, Statuses,
};
use super::{Ingest, Manifest, Pulls};
use crate::live::{Backoff, Out, Stopped, unix};
use kflow_model::units::wait;
use kflow_model::{Nanos, Text, clock};

/// The namespace in which the CRI plugin keeps images (`internal/cri/constants`, K8sContainerdNamespace).
const NAMESPACE: &str = "k8s.io";
/// Filter for the blobs that are manifests: containerd labels each with its configuration.
const IS_MANIFEST: &str = r#"labels."containerd.io/gc.ref.content.config""#;
/// Largest manifest, bytes: containerd's own limit (`remotes/docker/fetcher.go`: 4 MiB in 1.6, 8 MiB in 2.x).
const MANIFEST_MAX: usize = 8 << 20;
/// Pauses between two requests: without a pull, and during one.
const CALM: Duration = Duration::from_secs(1);
const BUSY: Duration = Duration::from_millis(500);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Shortest and longest pause between attempts to reach containerd.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Why containerd could not be asked.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    Connect(#[from] unix::Error),
    #[error("containerd does not answer {question}: {} ({:?})", status.message(), status.code())]
    Answer {
        question: &'static str,
        status: Box<Status>,
    },
    #[error("containerd did not answer {question} within {}", wait(PATIENCE))]
    Late { question: &'static str },
}

/// Why following containerd ended.
enum End {
    Stopped,
    /// The runtime is another one, which does not offer this service.
    Other,
    Failed(Error),
}

impl From<Error> for End {
    fn from(e: Error) -> Self {
        match e {
            Error::Answer { status, .. } if status.code() == Code::Unimplemented => Self::Other,
            e => Self::Failed(e),
        }
    }
}

impl From<Stopped> for End {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopped
    }
}

/// Follows the pulls of the containerd at a socket, through its restarts, until the receiver of observations is gone.
pub async fn pulls(path: PathBuf, mut out: Out) {
    let mut backoff = Backoff::new(RETRY.0, RETRY.1);
    loop {
        match follow(&path, &mut backoff, &mut out).await {
            Err(End::Stopped) | Ok(()) => return,
            Err(End::Other) => {
                out.on("nothing: this runtime does not show the progress of pulls, only containerd does");
                return;
            }
            Err(End::Failed(e)) => out.off(e.to_string()),
        }
        out.pause(backoff.pause()).await;
    }
}

async fn follow(path: &Path, backoff: &mut Backoff, out: &mut Out) -> Result<(), End> {
    let mut client = Client::connect(path).await?;
    let mut pulls = Pulls::default();
    let mut got = Vec::new();
    loop {
        let ingests = client.ingests().await?;
        if pulls.wants_manifests(&ingests) {
            client.learn(&mut pulls, out).await?;
            pulls.learned(&ingests);
        }
        let there = client.there(&pulls.wants_layers(&ingests)).await?;
        pulls.take(clock::now(), &ingests, &there, &mut got);
        out.on("layers that are fetched, as they come");
        backoff.reset();
        out.send_all(&mut got).await?;
        tokio::time::sleep(if pulls.is_pulling() { BUSY } else { CALM }).await;
    }
}

/// Subscribes to events. Containerd responds with the first event: until then this call waits,
/// unless the runtime refuses.
pub(crate) async fn subscribe(channel: Channel) -> Result<Streaming<Envelope>, Status> {
    let filters = TOPICS.iter();
    let filters = filters.map(|t| format!("namespace=={NAMESPACE},topic==\"{t}\""));
    let ask = Filters {
        filters: filters.collect(),
    };
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(|e| gone(&e))?;
    let path = PathAndQuery::from_static(messages::SUBSCRIBE);
    let answer = grpc.server_streaming(Request::new(ask), path, ProstCodec::default());
    Ok(answer.await?.into_inner())
}

struct Client(Grpc<Channel>);

impl Client {
    async fn connect(path: &Path) -> Result<Self, Error> {
        let channel = unix::channel(path).await?;
        Ok(Self(
            Grpc::new(channel).max_decoding_message_size(2 * MANIFEST_MAX),
        ))
    }

    /// Calls a method that responds with one message.
    async fn unary<Q, A>(&mut self, question: &'static str, ask: Q) -> Result<A, Error>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut answer = A::default();
        self.stream(question, ask, |message| answer = message)
            .await?;
        Ok(answer)
    }

    /// Calls a method, and passes each message of the response to `each`.
    async fn stream<Q, A>(
        &mut self,
        question: &'static str,
        ask: Q,
        mut each: impl FnMut(A),
    ) -> Result<(), Error>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let failed = |status| answer(question, status);
        let asking = async {
            self.0.ready().await.map_err(|e| failed(gone(&e)))?;
            let path = PathAndQuery::from_static(question);
            let codec = ProstCodec::<Q, A>::default();
            let answer = self.0.server_streaming(of_kubernetes(ask), path, codec);
            let mut messages: Streaming<A> = answer.await.map_err(failed)?.into_inner();
            while let Some(message) = messages.message().await.map_err(failed)? {
                each(message);
            }
            Ok(())
        };
        let late = |_| Error::Late { question };
        timeout(PATIENCE, asking).await.map_err(late)?
    }

    /// Returns the layers that are being written.
    async fn ingests(&mut self) -> Result<Vec<Ingest>, Error> {
        let filters = Vec::new();
        let answer: Statuses = self
            .unary(messages::LIST_STATUSES, Filters { filters })
            .await?;
        let layer = |s: messages::Status| {
            Some(Ingest {
                digest: s.reference.strip_prefix("layer-")?.into(),
                offset: u64::try_from(s.offset).ok()?,
                started: time(s.started_at),
                moved: time(s.updated_at),
            })
        };
        Ok(answer.statuses.into_iter().filter_map(layer).collect())
    }

    /// Reads the manifests that are not known yet.
    async fn learn(&mut self, pulls: &mut Pulls, out: &Out) -> Result<(), Error> {
        let filters = vec![IS_MANIFEST.to_owned()];
        let mut new: Vec<Info> = Vec::new();
        self.stream(messages::LIST, Filters { filters }, |some: Infos| {
            new.extend(some.info);
        })
        .await?;
        new.retain(|i| !pulls.knows(&i.digest));
        for info in new {
            let ask = ReadRequest {
                digest: info.digest.clone(),
                offset: 0,
                size: 0,
            };
            let mut json = Vec::new();
            let read = self.stream(messages::READ, ask, |part: ReadResponse| {
                if json.len() + part.data.len() <= MANIFEST_MAX {
                    json.extend_from_slice(&part.data);
                }
            });
            match read.await {
                // The manifest was removed meanwhile.
                Err(Error::Answer { status, .. }) if status.code() == Code::NotFound => continue,
                read => read?,
            }
            let labels = info.labels.iter().map(|(k, v)| (k.as_str(), v.as_str()));
            match Manifest::read(&info.digest, &json, labels, time(info.created_at)) {
                Ok(manifest) => pulls.learn(info.digest.into(), manifest),
                Err(e) => debug!(parent: out.span(), error = %e, "no manifest of layers"),
            }
        }
        Ok(())
    }

    /// Returns those of the wanted blobs that exist.
    async fn there(&mut self, wanted: &[Text]) -> Result<BTreeSet<Text>, Error> {
        let mut there = BTreeSet::new();
        for digest in wanted {
            let ask = InfoRequest {
                digest: digest.to_string(),
            };
            match self.unary::<_, InfoResponse>(messages::INFO, ask).await {
                Ok(_) => {
                    there.insert(digest.clone());
                }
                Err(Error::Answer { status, .. }) if status.code() == Code::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(there)
    }
}

fn of_kubernetes<T>(ask: T) -> Request<T> {
    let mut request = Request::new(ask);
    request.metadata_mut().insert(
        "containerd-namespace",
        MetadataValue::from_static(NAMESPACE),
    );
    request
}

fn answer(question: &'static str, status: Status) -> Error {
    Error::Answer {
        question: question.rsplit('/').next().unwrap_or(question),
        status: Box::new(status),
    }
}

fn gone(e: &tonic::transport::Error) -> Status {
    Status::unavailable(e.to_string())
}

/// Returns the time in ns; 0 where there is none.
fn time(t: Option<Timestamp>) -> Nanos {
    t.and_then(Timestamp::nanos).unwrap_or_default()
}
