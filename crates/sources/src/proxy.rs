//! A client of the observation service that a proxy or an agent offers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tracing::debug;

use crate::live::{Backoff, Out, Stopped, gap, root, unix};
use crate::position::Position;
use kflow_model::clock;
use kflow_model::session::format::{self, Line};
use kflow_model::turns::Turns;
use kflow_model::units::wait;
use kflow_model::{Nanos, Source};
use kflow_serve::wire::{self, Batch, InfoRequest, InfoResponse, SubscribeRequest};

/// Largest message that is accepted, bytes. A message holds at most 256 KiB of lines, or one line; a line is bounded
/// by the largest CRI response.
const MAX_MESSAGE: usize = 64 << 20;
/// After so long without an answer, the proxy or agent hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a proxy or an agent could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody accepts connections on the socket.
    #[error("no proxy: {0}")]
    Connect(#[from] unix::Error),
    /// The connection is gone.
    #[error("{who} cannot be asked any more: {why}")]
    Gone { who: String, why: String },
    /// The connection was accepted, and a question was not answered.
    #[error("{who} does not answer: {} went by", wait(*after))]
    Silent { who: String, after: Duration },
    /// The proxy or agent answered with an error.
    #[error("{who} broke off: {}", status.message())]
    Status {
        /// `the proxy at /run/kflow/observations.sock`
        who: String,
        status: Box<Status>,
    },
}

/// Tells the user what it means that some connections lost bytes.
pub fn in_part(connections: u64) -> String {
    let they = if connections == 1 {
        "1 connection lost bytes".to_owned()
    } else {
        format!("{connections} connections lost bytes")
    };
    format!(
        "{they} that there was no room for: calls have no method (?) until their headers come anew, with the next calls"
    )
}

/// A connection to the observation service.
#[derive(Debug)]
pub struct Client {
    who: String,
    grpc: Grpc<Channel>,
    patience: Duration,
}

impl Client {
    /// Connects to the observation socket of a proxy.
    pub async fn connect(path: &Path) -> Result<Self, Error> {
        let channel = unix::channel(path).await?;
        Ok(Self::over(
            channel,
            format!("the proxy at {}", path.display()),
        ))
    }

    /// Uses a connection that exists already; `who` names its other end in messages.
    pub fn over(channel: Channel, who: String) -> Self {
        Self {
            who,
            grpc: Grpc::new(channel).max_decoding_message_size(MAX_MESSAGE),
            patience: PATIENCE,
        }
    }

    /// Subscribes to observations; those in the ring come first.
    pub async fn subscribe(&mut self, wants: SubscribeRequest) -> Result<Streaming<Batch>, Error> {
        let path = PathAndQuery::from_static(wire::SUBSCRIBE);
        let (who, patience) = (self.who.clone(), self.patience);
        let asked = async {
            self.ready().await?;
            let asked = Request::new(wants);
            let answer = (self.grpc).server_streaming(asked, path, ProstCodec::default());
            answer.await.map_err(|status| self.status(status))
        };
        in_time(who, patience, asked)
            .await
            .map(Response::into_inner)
    }

    /// Asks for the state of the proxy or agent.
    pub async fn info(&mut self) -> Result<InfoResponse, Error> {
        let path = PathAndQuery::from_static(wire::INFO);
        let (who, patience) = (self.who.clone(), self.patience);
        let asked = async {
            self.ready().await?;
            let asked = Request::new(InfoRequest {});
            let answer = (self.grpc).unary(asked, path, ProstCodec::default());
            answer.await.map_err(|status| self.status(status))
        };
        in_time(who, patience, asked)
            .await
            .map(Response::into_inner)
    }

    async fn ready(&mut self) -> Result<(), Error> {
        self.grpc.ready().await.map_err(|e| Error::Gone {
            who: self.who.clone(),
            why: root(&e),
        })
    }

    /// Turns the status of a stream that broke off into an error.
    pub fn status(&self, status: Status) -> Error {
        Error::Status {
            who: self.who.clone(),
            status: Box::new(status),
        }
    }
}

/// Waits for the answer to a question, at most `patience`.
async fn in_time<T>(
    who: String,
    patience: Duration,
    asked: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let late = Error::Silent {
        who,
        after: patience,
    };
    timeout(patience, asked).await.unwrap_or(Err(late))
}

/// Shortest and longest pause between attempts to reach the proxy.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// Follows a proxy's observations through its restarts, until the receiver of observations is gone. While the proxy
/// cannot be reached, the status shows `instead` beside the reason: why there is no other tap.
pub async fn follow(path: PathBuf, instead: Option<String>, mut out: Out) {
    let mut backoff = Backoff::new(RETRY.0, RETRY.1);
    let mut position = Position::default();
    let mut told = Nanos::default();
    loop {
        let ended = match Client::connect(&path).await {
            Err(e) => e.to_string(),
            Ok(client) => match session(client, &mut position, &mut backoff, &mut out).await {
                Ok(()) => "the proxy has stopped".to_owned(),
                Err(End::Stopped(_)) => return,
                Err(End::Failed(e)) => e.to_string(),
            },
        };
        match &instead {
            Some(why) => out.off(format!("{ended}; {why}")),
            None => out.off(ended.as_str()),
        }
        // Once for each time that the stream breaks off, however often connecting fails after it.
        if position.epoch != 0 && std::mem::replace(&mut told, position.reached) != position.reached
        {
            let gap = gap(Source::Cri, position.reached, clock::now(), 0, &ended);
            if out.send(gap).await.is_err() || position.broke_off(&mut out).await.is_err() {
                return;
            }
        }
        let pause = backoff.pause();
        debug!(parent: out.span(), why = ended, ?pause, "connecting again");
        out.pause(pause).await;
    }
}

/// How often the proxy is asked for its state.
const LOOK: Duration = Duration::from_secs(5);

/// Lines that are decoded in one turn, after which the thread yields ([`Turns`]).
const TURN: usize = 16;

enum End {
    Stopped(Stopped),
    Failed(Error),
}

async fn session(
    mut client: Client,
    position: &mut Position,
    backoff: &mut Backoff,
    out: &mut Out,
) -> Result<(), End> {
    let mut stream = client
        .subscribe(SubscribeRequest {
            from: position.next,
            epoch: position.epoch,
            ..SubscribeRequest::default()
        })
        .await
        .map_err(End::Failed)?;
    let info = client.info().await.map_err(End::Failed)?;
    let begun = wait(Duration::from_nanos(info.ring_age_ns));
    position.joined(&info, out).await.map_err(End::Stopped)?;
    let mut look = tokio::time::interval(LOOK);
    let mut turns = Turns::of(TURN);
    loop {
        let message = tokio::select! {
            message = stream.message() => message,
            _ = look.tick() => {
                let info = client.info().await.map_err(End::Failed)?;
                if info.upstream_up {
                    let open = info.connections;
                    let mut detail = format!("{open} connections; begun with its last {begun}");
                    if info.partial > 0 {
                        detail.push_str("; ");
                        detail.push_str(&in_part(info.partial));
                    }
                    out.on(detail);
                } else {
                    out.off(format!("the runtime at {} does not answer", info.upstream));
                }
                continue;
            }
        };
        let batch = match message {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(()),
            Err(status) => return Err(End::Failed(client.status(status))),
        };
        backoff.reset();
        position.take(&batch);
        turns.waited();
        for line in &batch.lines {
            // Lines of a later kflow that this one does not know are skipped, as in a session.
            if let Line::Observation(mut o) = format::decode(line) {
                position.numbers.number(&mut o);
                o.stamp.seen = clock::now();
                out.send(o).await.map_err(End::Stopped)?;
            }
            turns.done();
        }
        position.passed(out).await.map_err(End::Stopped)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_that_accepts_and_never_answers_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("observations.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut client = Client::connect(&path).await.unwrap();
        client.patience = Duration::from_millis(20);
        let asked = client.info().await.map(|_| ());
        let streamed = client.subscribe(SubscribeRequest::default()).await;
        for answer in [asked, streamed.map(|_| ())] {
            let why = answer.unwrap_err().to_string();
            let said = format!("the proxy at {} does not answer: ", path.display());
            assert!(why.starts_with(&said), "{why}");
        }
    }
}
