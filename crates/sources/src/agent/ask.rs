//! What an agent's ring holds, read once: for who asks many agents and follows none.

use kube::client::Client as Kube;
use prost::bytes::Bytes;

use super::is_of_node;
use super::reach::{Absent, AgentPod, Reached, forward};
use crate::cri::Numbers;
use crate::proxy::Client;
use kflow_model::session::format::{self, Line};
use kflow_model::units::size;
use kflow_model::{Nanos, Observation, clock};
use kflow_serve::wire::{InfoResponse, SubscribeRequest};

/// Longest ring that is read, bytes: one has 8 MiB unless it was told otherwise.
const LONGEST: u64 = 64 << 20;
/// How often an agent is asked for its clock: the quickest answer bounds it best.
const LOOKS: usize = 3;

/// Why what an agent knows is not had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Silent {
    /// What it says could be misread.
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

/// How far the clock of an agent's node is ahead of this machine's, ns: between `ahead - within` and `ahead + within`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    pub ahead_ns: i64,
    pub within_ns: i64,
}

impl Offset {
    /// Of a clock that was read at some moment between two others.
    pub fn between(sent: Nanos, there: Nanos, received: Nanos) -> Self {
        let half = received.since(sent).max(0) / 2;
        Self {
            ahead_ns: there.since(sent.plus(half)),
            within_ns: half.saturating_add(1),
        }
    }
    /// What the two clocks differ for certain, ns: 0 where they may agree.
    pub fn certain_ns(self) -> i64 {
        if self.ahead_ns.saturating_abs() > self.within_ns {
            self.ahead_ns
        } else {
            0
        }
    }
}

/// What an agent told.
#[derive(Debug)]
pub struct Told {
    /// Of its clock.
    pub offset: Offset,
    lines: Vec<Bytes>,
    /// When the last of them was here, by this machine's clock.
    received: Nanos,
}

impl Told {
    /// What its ring holds, without what it knows of the apiserver; by the node's clock, when it was received too.
    pub fn observations(&self) -> impl Iterator<Item = Observation> {
        let seen = self.received.plus(self.offset.certain_ns());
        let mut numbers = Numbers::default();
        self.lines.iter().filter_map(move |line| {
            // A line that this kflow does not know is passed over, as in a session.
            let Line::Observation(mut o) = format::decode(line) else {
                return None;
            };
            if !is_of_node(&o) {
                return None;
            }
            numbers.number(&mut o);
            o.stamp.seen = seen;
            Some(o)
        })
    }
}

/// Asks the agent in a pod on a node, through the apiserver. It has no time limit of its own.
pub async fn ask(
    client: &Kube,
    namespace: &str,
    node: &str,
    pod: &AgentPod,
) -> Result<Told, Silent> {
    if !pod.version.is_empty() {
        same_version(&pod.version)?;
    }
    if !pod.ready {
        return Err(Silent::NotReady);
    }
    let Reached { mut client, broken } = forward(client, namespace, node, &pod.name).await?;
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
    let mut stream = client.subscribe(SubscribeRequest::default()).await?;
    let (mut lines, mut bytes) = (Vec::new(), info.ring_bytes);
    loop {
        if bytes > LONGEST {
            return Err(Silent::TooMuch);
        }
        match stream.message().await {
            Ok(Some(batch)) => {
                lines.extend(batch.lines);
                if batch.next >= info.next {
                    break;
                }
                bytes = lines.iter().map(|l: &Bytes| l.len() as u64).sum();
            }
            Ok(None) => return Err(Silent::Failed("it has stopped".to_owned())),
            Err(status) => return Err(client.status(status).into()),
        }
    }
    Ok(Told {
        offset,
        lines,
        received: clock::now(),
    })
}

fn same_version(there: &str) -> Result<(), Silent> {
    if there == env!("CARGO_PKG_VERSION") {
        return Ok(());
    }
    let there = there.to_owned();
    Err(Silent::OtherVersion { there })
}

/// How it is doing, and its clock.
async fn info(client: &mut Client) -> Result<(InfoResponse, Offset), crate::proxy::Error> {
    let (mut info, mut best) = (client.info().await?, None::<Offset>);
    for _ in 0..LOOKS {
        let sent = clock::now();
        info = client.info().await?;
        let there = Nanos(i64::try_from(info.now).unwrap_or(i64::MAX));
        let offset = Offset::between(sent, there, clock::now());
        best = best.into_iter().chain([offset]).min_by_key(|o| o.within_ns);
    }
    Ok((info, best.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_read_between_two_moments_is_off_by_what_these_allow() {
        for (sent, there, received, ahead, certain) in [
            (0, 5_000, 10, 4_995, 4_995),
            (1_000, 1_004, 1_010, -1, 0),
            (1_000, 0, 1_010, -1_005, -1_005),
            // The own clock was set back meanwhile.
            (1_010, 1_000, 1_000, -10, -10),
        ] {
            let o = Offset::between(Nanos(sent), Nanos(there), Nanos(received));
            assert_eq!((o.ahead_ns, o.certain_ns()), (ahead, certain));
            assert!(o.within_ns * 2 >= received - sent);
        }
    }
}
