//! Reads once what an agent's ring holds: for commands that ask many agents and follow none.

use std::path::Path;

use kube::client::Client as Kube;
use prost::bytes::Bytes;

use super::is_of_node;
use super::reach::{Absent, AgentPod, Reached, by_socket, forward};
use crate::cri::Numbers;
use crate::proxy::Client;
use kflow_model::clock;
use kflow_model::offset::Offset;
use kflow_model::session::format::{self, Line};
use kflow_model::units::size;
use kflow_model::{Nanos, Observation};
use kflow_serve::wire::{Batch, InfoResponse, SubscribeRequest};

/// Most that is read from one agent, bytes of lines.
const LONGEST: u64 = 64 << 20;
/// How often an agent is asked for its clock: the quickest answer bounds the offset best.
const LOOKS: usize = 3;

/// Why an agent's observations were not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Silent {
    /// The agent is another version of kflow, so that its answers could be misread.
    #[error("the agent there is kflow {there}, and this is kflow {here}", here = env!("CARGO_PKG_VERSION"))]
    OtherVersion { there: String },
    #[error("the pod of the agent there is not ready")]
    NotReady,
    #[error(
        "the agent there gives more than {}, which is what is read of one",
        size(LONGEST)
    )]
    TooMuch,
    #[error("the agent there did not answer: {0}")]
    Failed(String),
}

impl From<Absent> for Silent {
    fn from(e: Absent) -> Self {
        Self::Failed(e.to_string())
    }
}

impl From<crate::proxy::Error> for Silent {
    fn from(e: crate::proxy::Error) -> Self {
        Self::Failed(e.to_string())
    }
}

/// A range of past time for which an agent is asked, by this machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub since: Nanos,
    pub until: Nanos,
}

/// The observations that an agent sent.
#[derive(Debug)]
pub struct Told {
    /// How far the agent's clock is ahead of this machine's.
    pub offset: Offset,
    lines: Vec<Bytes>,
    /// When the last line arrived, by this machine's clock.
    received: Nanos,
    /// Also keeps what the agent knows from the apiserver. Set for a range of the past, of which the apiserver itself
    /// says nothing.
    all: bool,
}

impl Told {
    /// Returns what the agent's ring holds, without what the agent knows from the apiserver; for a range of the past,
    /// all that the agent kept. Times of arrival are those at the agent, by the node's clock.
    pub fn observations(&self) -> impl Iterator<Item = Observation> {
        // Nothing arrives later than now, here by the node's clock.
        let received = self.received.plus(self.offset.certain_ns());
        let mut numbers = Numbers::default();
        self.lines.iter().filter_map(move |line| {
            // Lines that this kflow does not know are skipped, as in a session.
            let Line::Observation(mut o) = format::decode(line) else {
                return None;
            };
            if !(self.all || is_of_node(&o)) {
                return None;
            }
            numbers.number(&mut o);
            o.stamp.seen = o.stamp.seen.min(received);
            Some(o)
        })
    }
}

/// An agent that has answered.
#[derive(Debug)]
pub struct Greeted {
    client: Client,
    info: InfoResponse,
    offset: Offset,
}

/// Connects to the agent in a pod on a node, through the apiserver, and compares clocks. It has no time limit of its own.
pub async fn greet(
    client: &Kube,
    namespace: &str,
    node: &str,
    pod: &AgentPod,
) -> Result<Greeted, Silent> {
    if !pod.version.is_empty() {
        same_version(&pod.version)?;
    }
    if !pod.ready {
        return Err(Silent::NotReady);
    }
    greeted(forward(client, namespace, node, &pod.name).await?).await
}

/// Like [`greet`], with the agent at a socket on this machine, whatever the name of its node.
pub async fn greet_here(socket: &Path) -> Result<Greeted, Silent> {
    greeted(by_socket(socket).await?).await
}

async fn greeted(
    Reached {
        mut client, broken, ..
    }: Reached,
) -> Result<Greeted, Silent> {
    let (info, offset) = match info(&mut client).await {
        Ok(told) => told,
        Err(e) => {
            return Err(match broken {
                Some(broken) => Silent::Failed(broken.why(e.to_string()).await),
                None => e.into(),
            });
        }
    };
    same_version(&info.version)?;
    if info.now == 0 {
        let there = format!("{} of an earlier build", info.version);
        return Err(Silent::OtherVersion { there });
    }
    Ok(Greeted {
        client,
        info,
        offset,
    })
}

impl Greeted {
    /// Returns the name of the agent's node, as the agent reports it.
    pub fn node(&self) -> Option<&str> {
        self.info.agent.as_ref().map(|a| a.node.as_str())
    }
    /// Reads what the agent's ring holds, or what the agent kept of a range of the past. It has no time
    /// limit of its own.
    pub async fn told(self, past: Option<Past>) -> Result<Told, Silent> {
        let Self {
            mut client,
            info,
            offset,
        } = self;
        let there = |at: Nanos| at.plus(offset.certain_ns());
        let since = past.map_or(0, |p| u64::try_from(there(p.since).0).unwrap_or(0));
        let request = SubscribeRequest {
            since,
            ..SubscribeRequest::default()
        };
        let mut stream = client.subscribe(request).await?;
        let (mut lines, mut bytes) = (Vec::new(), 0);
        let over = |batch: &Batch| {
            let last = batch.lines.last().map(|l| format::decode(l));
            let seen = |last| matches!(last, Line::Observation(o) if past.is_some_and(|p| o.stamp.seen > there(p.until)));
            last.is_some_and(seen)
        };
        loop {
            if bytes > LONGEST {
                return Err(Silent::TooMuch);
            }
            match stream.message().await {
                Ok(Some(batch)) => {
                    bytes += batch.lines.iter().map(|l| l.len() as u64).sum::<u64>();
                    let over = over(&batch) || (!batch.past && batch.next >= info.next);
                    lines.extend(batch.lines);
                    if over {
                        break;
                    }
                }
                Ok(None) => return Err(Silent::Failed("it has stopped".to_owned())),
                Err(status) => return Err(client.status(status).into()),
            }
        }
        Ok(Told {
            offset,
            lines,
            received: clock::now(),
            all: past.is_some(),
        })
    }
}

fn same_version(there: &str) -> Result<(), Silent> {
    if there == env!("CARGO_PKG_VERSION") {
        return Ok(());
    }
    let there = there.to_owned();
    Err(Silent::OtherVersion { there })
}

/// Returns the agent's state, and the offset of its clock where the agent sends one.
pub(super) async fn clocked(
    client: &mut Client,
) -> Result<(InfoResponse, Option<Offset>), crate::proxy::Error> {
    let sent = clock::now();
    let info = client.info().await?;
    let there = Nanos(i64::try_from(info.now).unwrap_or(i64::MAX));
    let offset = (info.now != 0).then(|| Offset::between(sent, there, clock::now()));
    Ok((info, offset))
}

/// Returns the agent's state, and the best of [`LOOKS`] comparisons of its clock; an offset of 0 where the agent
/// sends no clock.
async fn info(client: &mut Client) -> Result<(InfoResponse, Offset), crate::proxy::Error> {
    let (mut info, mut best) = (client.info().await?, None::<Offset>);
    for _ in 0..LOOKS {
        let (now, offset) = clocked(client).await?;
        info = now;
        best = best.into_iter().chain(offset).min_by_key(|o| o.within_ns);
    }
    Ok((info, best.unwrap_or_default()))
}
