//! A node's agent as a source: its stream of observations, over a unix socket on the node or from anywhere through
//! the apiserver.
//!
//! What the agent knows from the apiserver is left out, because a viewer watches the apiserver itself;
//! [`Follow::all`] takes it too.

mod ask;
mod earlier;
mod machine;
mod reach;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::client::Client as Kube;
use tokio::sync::watch;
use tracing::debug;

use crate::live::{Backoff, Out, Stopped, gap};
use crate::position::Position;
use kflow_model::offset::Offset;
use kflow_model::session::format::{self, Line};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, Observation, Source, clock};
use kflow_serve::wire::{Batch, InfoResponse, SubscribeRequest};

pub use ask::{Greeted, Past, Silent, Told, greet, greet_here};
pub use earlier::{Earlier, Reading};
pub use machine::{Machine, OwnAgent, machine, own_agent};
pub use reach::{Absent, AgentPod, Reached, agents, reach};

/// Default path of the unix socket on which an agent serves on its node.
pub const SOCKET: &str = "/run/kflow/agent.sock";
/// Default path of the unix socket on which an agent receives spans on its node, beside [`SOCKET`].
pub const SPANS: &str = "/run/kflow/otlp.sock";
/// Default namespace of agents.
pub const NAMESPACE: &str = "kflow";
/// Label selector of agents' pods.
pub const LABEL: &str = "app.kubernetes.io/name=kflow-agent";
/// Port on which an agent serves on the loopback interface of its pod.
pub const PORT: u16 = 9777;

/// Shortest and longest pause between attempts to reach an agent.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Pause before the next attempt after an error that only a person can change ([`Absent::is_final`]).
const ABSENT: Duration = Duration::from_secs(30);
/// How much later than it was asked for what an agent kept may begin, ns: a moment is named by hand.
const BEGINS: i64 = 2 * SECOND;
/// How often a followed agent is asked for its state.
const LOOK: Duration = Duration::from_secs(5);
/// How long an agent or the apiserver may take to answer before the attempt is given up.
const ANSWER: Duration = Duration::from_secs(10);

/// How an agent is reached.
#[derive(Clone)]
pub enum Way {
    /// Through the unix socket of an agent on this machine.
    Socket(PathBuf),
    /// Through a port-forward by the apiserver to the agent's pod on a node.
    Pod {
        client: Kube,
        namespace: String,
        /// Label selector of the agent's pod: [`LABEL`], or the label of one certain pod.
        labels: String,
        node: String,
        /// Socket of an agent on this machine. It is used when the pod cannot be reached and the agent's node is the
        /// wanted one.
        here: Option<PathBuf>,
    },
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Way {
    /// Returns the agent's name for messages: `the agent at /run/kflow/agent.sock`, `the agent of node1`.
    pub fn name(&self) -> String {
        match self {
            Self::Socket(path) => format!("the agent at {}", path.display()),
            Self::Pod { node, .. } => format!("the agent of {node}"),
        }
    }
}

/// Sources that an agent runs, so that a viewer starts none of its own for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gives {
    /// The agent was looked for; the other fields mean nothing before.
    pub known: bool,
    /// The agent follows the kubelet's log.
    pub kubelet_log: bool,
    /// The agent asks the kubelet for health and metrics.
    pub metrics: bool,
}

impl Gives {
    /// No agent is connected.
    const NOTHING: Self = Self {
        known: true,
        kubelet_log: false,
        metrics: false,
    };

    fn of(info: &InfoResponse) -> Self {
        let on = |source: Source| {
            let all = info.agent.iter().flat_map(|a| &a.sources);
            all.into_iter()
                .any(|s| s.kind == source.name() && s.state == 1)
        };
        Self {
            known: true,
            kubelet_log: on(Source::Kubelet),
            metrics: on(Source::Metrics),
        }
    }
}

/// How far an agent was followed, and how far its clock is off. A world that follows the agent again later has none
/// of the earlier observations: a gap reports what the agent's ring no longer holds of the time between.
#[derive(Clone, Debug, Default)]
pub struct Mark(Arc<Mutex<Marked>>);

#[derive(Debug, Default)]
struct Marked {
    followed: Option<Followed>,
    /// Offset of the agent's clock by the quickest answer, which bounds it best, and when that answer came. It counts
    /// for [`QUICKEST`] only, because clocks drift.
    clock: Option<(Instant, Offset)>,
}

/// Reason in the gap for observations that the agent dropped before kflow read them.
const SLOW: &str = "kflow read the agent of the node more slowly than that one saw";

/// How long the quickest answer stands for the clock's offset; then any newer answer replaces it.
const QUICKEST: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Followed {
    epoch: u64,
    next: u64,
    at: Nanos,
}

impl Mark {
    fn lock(&self) -> MutexGuard<'_, Marked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Returns how far the agent's clock is ahead of this machine's; `None` when the agent has sent no clock.
    pub fn clock(&self) -> Option<Offset> {
        self.lock().clock.map(|(_, offset)| offset)
    }
    fn compare(&self, offset: Offset, now: Instant) {
        let mut of = self.lock();
        let better = of.clock.is_none_or(|(at, old)| {
            let apart = old.ahead_ns.abs_diff(offset.ahead_ns).cast_signed();
            // The two intervals do not overlap: one of the clocks was set.
            let contradicts = apart > old.within_ns.saturating_add(offset.within_ns);
            contradicts
                || offset.within_ns <= old.within_ns
                || now.saturating_duration_since(at) > QUICKEST
        });
        if better {
            of.clock = Some((now, offset));
        }
    }
    fn set(&self, batch: &Batch, at: Nanos) {
        if !batch.past {
            let (epoch, next) = (batch.epoch, batch.next);
            self.lock().followed = Some(Followed { epoch, next, at });
        }
    }
}

/// Returns the gap from the last batch of an earlier subscription to the first batch of this one; `None` when the
/// ring still holds everything between. Within one run of the agent (`epoch`) the gap counts the observations that
/// the ring has dropped; across runs they cannot be counted, and the count is 0.
fn unseen(last: Followed, batch: &Batch) -> Option<Observation> {
    let begin = batch.next.saturating_sub(batch.lines.len() as u64);
    let same = last.epoch == batch.epoch;
    if same && begin <= last.next {
        return None;
    }
    let first = batch.lines.iter().find_map(|l| match format::decode(l) {
        Line::Observation(o) => Some(o.stamp.seen),
        _ => None,
    });
    let lost = if same { begin - last.next } else { 0 };
    let why = "the node was not open, and the ring of its agent begins later";
    let until = first.unwrap_or(last.at).max(last.at);
    Some(gap(Source::Cri, last.at, until, lost, why))
}

/// Parameters of [`follow`].
#[derive(Debug)]
pub struct Follow {
    pub way: Way,
    /// What the agent kept is sent first, if it is asked for.
    pub earlier: Option<Earlier>,
    /// How far the agent was followed, for a later [`follow`] into another world.
    pub mark: Mark,
    /// Also takes what the agent knows from the apiserver.
    pub all: bool,
    /// Receives the sources that the agent runs, whenever they change.
    pub gives: watch::Sender<Gives>,
}

/// Follows an agent until the receiver of observations is gone.
pub async fn follow(follow: Follow, mut out: Out) {
    let mut backoff = Backoff::new(RETRY.0, RETRY.1);
    let mut following = Following {
        before: follow.mark.lock().followed.take(),
        ..Following::default()
    };
    loop {
        let (ended, pause, over) = match reach(&follow.way).await {
            Err(absent) => {
                let last = absent.is_final();
                let pause = if last { ABSENT } else { backoff.pause() };
                (absent.to_string(), pause, last)
            }
            Ok(reached) => {
                let ended = session(reached, &follow, &mut following, &mut backoff, &mut out);
                let ended = match ended.await {
                    Err(End::Stopped(_)) => return,
                    Err(End::Failed(why)) => why,
                    Ok(()) => "it has stopped".to_owned(),
                };
                // Asked for again, what is kept would come from its begin once more.
                (ended, backoff.pause(), following.in_past)
            }
        };
        follow.gives.send_replace(Gives::NOTHING);
        out.off(ended.as_str());
        if let Some(earlier) = &follow.earlier {
            earlier.failed(&ended);
            if over && earlier.give_up(&ended, &mut out).await.is_err() {
                return;
            }
        }
        if following.broke_off(&ended, &mut out).await.is_err() {
            return;
        }
        debug!(parent: out.span(), why = ended, ?pause, "connecting again");
        out.pause(pause).await;
    }
}

/// What is kept of following the agent, across connections.
#[derive(Debug, Default)]
struct Following {
    position: Position,
    /// Start of what is asked for from an agent that was restarted, before what its ring holds.
    since: Option<Nanos>,
    /// The last batch was of what the agent kept.
    in_past: bool,
    /// How far the agent was followed into a world that no longer exists.
    before: Option<Followed>,
    /// Sources that sent an observation since the connection began.
    sources: BTreeSet<Source>,
}

impl Following {
    /// Reports a gap for each source that had sent something, because nothing is seen until the next connection.
    async fn broke_off(&mut self, why: &str, out: &mut Out) -> Result<(), Stopped> {
        let (now, reached) = (clock::now(), self.position.reached);
        for source in std::mem::take(&mut self.sources) {
            out.send(gap(source, reached, now, 0, why)).await?;
        }
        self.position.broke_off(out).await?;
        if std::mem::take(&mut self.in_past) {
            self.since = None;
        }
        if self.position.epoch != 0 && self.since.is_none() {
            // An agent that was restarted sends what it kept since this moment; an agent that still runs ignores it.
            self.since = Some(reached);
        }
        Ok(())
    }
}

enum End {
    Stopped(Stopped),
    Failed(String),
}

impl From<crate::proxy::Error> for End {
    fn from(e: crate::proxy::Error) -> Self {
        Self::Failed(e.to_string())
    }
}

async fn session(
    mut reached: Reached,
    follow: &Follow,
    following: &mut Following,
    backoff: &mut Backoff,
    out: &mut Out,
) -> Result<(), End> {
    let (info, offset) = match ask::clocked(&mut reached.client).await {
        Err(e) => {
            let e = e.to_string();
            return Err(End::Failed(match reached.broken.take() {
                Some(broken) => broken.why(e).await,
                None => e,
            }));
        }
        Ok(answer) => answer,
    };
    let compare = |offset: Option<Offset>| {
        if let Some(offset) = offset {
            follow.mark.compare(offset, clock::monotonic());
        }
    };
    compare(offset);
    // Set before the source's status turns to on: whoever sees it on then knows whether everything that the agent saw
    // has arrived.
    let joined = following.position.joined(&info, out).await;
    joined.map_err(End::Stopped)?;
    follow.gives.send_replace(Gives::of(&info));
    // The agent compares it with its own clock.
    let ahead_ns = follow.mark.clock().map_or(0, Offset::certain_ns);
    let there = |at: Nanos| at.plus(ahead_ns);
    // Once its ring is read, a connection that broke goes on where it was.
    let earlier = follow.earlier.as_ref();
    let earlier = earlier.filter(|e| e.is_coming() && following.position.next == 0);
    if let Some(earlier) = earlier {
        earlier.joined(&info);
        if let Some((begin, why)) = later(&info, there(earlier.begin())) {
            let told = earlier.lacks(begin, &why, out).await;
            told.map_err(End::Stopped)?;
        }
    }
    let said = |reached: &Reached, info: &InfoResponse| {
        let said = reached.said(info);
        match &follow.earlier {
            Some(earlier) if earlier.is_coming() => {
                let begin = earlier.begin().to_rfc3339_seconds();
                format!("{said}; what it kept since {begin} is being read")
            }
            _ => said,
        }
    };
    out.on(said(&reached, &info));
    let since = earlier.map(Earlier::begin).or(following.since);
    let since = since.map_or(0, |at| u64::try_from(there(at).0).unwrap_or(0));
    let wants = SubscribeRequest {
        from: following.position.next,
        epoch: following.position.epoch,
        only_new: false,
        since,
    };
    let mut stream = reached.client.subscribe(wants).await?;
    let mut look = tokio::time::interval(LOOK);
    loop {
        let message = tokio::select! {
            message = stream.message() => message,
            _ = look.tick() => {
                let (info, offset) = ask::clocked(&mut reached.client).await?;
                compare(offset);
                let gives = Gives::of(&info);
                follow.gives.send_if_modified(|g| std::mem::replace(g, gives) != gives);
                out.on(said(&reached, &info));
                continue;
            }
        };
        let batch = match message {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(()),
            Err(status) => return Err(End::Failed(reached.client.status(status).to_string())),
        };
        backoff.reset();
        let before = following.position.reached;
        following.position.take(&batch);
        following.in_past = batch.past;
        if !batch.past {
            following.since = None;
        }
        let now = clock::now();
        if batch.lost > 0 {
            // The agent itself reports the gap of calls, with the number of lines. Which of its other sources lost
            // lines is not known.
            let others = following.sources.iter().copied();
            for source in others.filter(|s| !matches!(s, Source::Cri | Source::Kflow)) {
                let gap = gap(source, before, now, 0, SLOW);
                out.send(gap).await.map_err(End::Stopped)?;
            }
        }
        follow.mark.set(&batch, now);
        if let Some(before) = following.before.take()
            && let Some(gap) = unseen(before, &batch)
        {
            out.send(gap).await.map_err(End::Stopped)?;
        }
        let mut read_to = None;
        for line in &batch.lines {
            // Lines of a later kflow that this one does not know are skipped, as in a session.
            if let Line::Observation(mut o) = format::decode(line) {
                if !(follow.all || is_of_node(&o)) {
                    continue;
                }
                if let (Some(why), Some(earlier)) = (unkept(&o, since), earlier) {
                    let age = i64::try_from(info.ring_age_ns).unwrap_or(i64::MAX);
                    let ring = now.plus(age.saturating_neg());
                    earlier.lacks(ring, why, out).await.map_err(End::Stopped)?;
                    continue;
                }
                if batch.past {
                    read_to = read_to.max(Some(o.stamp.seen.min(now)));
                }
                following.position.numbers.number(&mut o);
                following.sources.insert(o.source);
                // An observation of the past keeps its time of arrival at the agent, by the agent's clock, but not
                // later than now.
                o.stamp.seen = if batch.past {
                    o.stamp.seen.min(now)
                } else {
                    now
                };
                out.send(o).await.map_err(End::Stopped)?;
            }
        }
        if let (Some(earlier), Some(at)) = (&follow.earlier, read_to) {
            earlier.reached(at);
        }
        if !batch.past {
            let has_all = following.position.passed(out).await;
            if has_all.map_err(End::Stopped)?
                && let Some(earlier) = follow.earlier.as_ref().filter(|e| e.is_coming())
            {
                earlier.read();
                out.on(reached.said(&info));
            }
        }
    }
}

/// Returns since when an agent keeps what it sees, if that is after `since`, by its own clock.
fn later(info: &InfoResponse, since: Nanos) -> Option<(Nanos, String)> {
    let agent = info.agent.as_ref()?;
    let begin = Nanos(i64::try_from(agent.spool.as_ref()?.since).ok()?);
    let why = || {
        let (node, begin) = (&agent.node, begin.to_rfc3339_seconds());
        format!("the agent of {node} keeps what it saw since {begin}")
    };
    (begin.since(since) > BEGINS).then(|| (begin, why()))
}

/// Returns why an agent has nothing from before its ring, when the observation tells that of what was asked for since
/// this moment.
fn unkept(o: &Observation, since: u64) -> Option<&str> {
    match &o.body {
        Body::Gap(g) if o.source == Source::Kflow && u64::try_from(g.since.0) == Ok(since) => {
            Some(&g.why)
        }
        _ => None,
    }
}

/// Returns false for what a viewer learns from the apiserver itself, and for what is about the agent's own process.
fn is_of_node(o: &Observation) -> bool {
    match &o.body {
        Body::Watch(_) | Body::ClockStep(_) => false,
        Body::Gap(g) => g.of != Source::Kube,
        _ => o.source != Source::Kube,
    }
}

/// Describes the agent's state in one line.
fn said(info: &InfoResponse) -> String {
    let own = env!("CARGO_PKG_VERSION");
    let mut text = if info.version == own {
        format!("kflow {own}")
    } else {
        format!(
            "kflow {} there, {own} here: what one of them does not know is left out",
            info.version
        )
    };
    let Some(agent) = &info.agent else {
        return text;
    };
    let on = agent.sources.iter().filter(|s| s.state == 1).count();
    text.push_str(&format!(", {on} of {} sources", agent.sources.len()));
    let off: Vec<String> = agent
        .sources
        .iter()
        .filter(|s| s.state == 2)
        .map(|s| format!("{} {}: {}", s.kind, s.name, s.detail))
        .collect();
    if !off.is_empty() {
        text.push_str(&format!("; off there: {}", off.join("; ")));
    }
    let lost: u64 = agent.sources.iter().map(|s| s.lost).sum();
    if lost > 0 {
        text.push_str(&format!("; it lost {lost} observations"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::stamp::MILLI;
    use prost::bytes::Bytes;

    #[test]
    fn the_quickest_answer_tells_the_clock_until_it_is_old_or_contradicted() {
        let offset = |ahead, within| Offset {
            ahead_ns: ahead * MILLI,
            within_ns: within * MILLI,
        };
        let (mark, begun) = (Mark::default(), clock::monotonic());
        assert_eq!(mark.clock(), None);
        for (after, told, want) in [
            (0, offset(5, 40), offset(5, 40)),
            (5, offset(3, 2), offset(3, 2)),
            // Slower than the first answer, and consistent with it.
            (10, offset(9, 30), offset(3, 2)),
            // The clock was set.
            (
                15,
                offset(3 * SECOND / MILLI, 30),
                offset(3 * SECOND / MILLI, 30),
            ),
            (
                20,
                offset(3 * SECOND / MILLI, 50),
                offset(3 * SECOND / MILLI, 30),
            ),
            (
                80,
                offset(3 * SECOND / MILLI, 50),
                offset(3 * SECOND / MILLI, 50),
            ),
        ] {
            mark.compare(told, begun + Duration::from_secs(after));
            assert_eq!(mark.clock(), Some(want), "{after}");
        }
    }

    #[test]
    fn what_a_ring_has_no_more_since_a_node_was_left_is_a_gap_and_nothing_else() {
        let batch = |epoch, next, lines: &[&'static [u8]]| Batch {
            epoch,
            next,
            lines: lines.iter().map(|l| Bytes::from_static(l)).collect(),
            lost: 0,
            past: false,
        };
        let mark = Mark::default();
        mark.set(&batch(7, 10, &[]), Nanos(900));
        let last = mark.lock().followed.take().unwrap();
        assert_eq!(unseen(last, &batch(7, 12, &[b"a", b"b"])), None);
        for (epoch, want) in [(7, 5), (8, 0)] {
            let told = unseen(last, &batch(epoch, 17, &[b"a", b"b"])).unwrap();
            assert!(
                matches!(&told.body, Body::Gap(g) if g.since == Nanos(900) && g.lost == want),
                "{told:?}"
            );
        }
    }
}
