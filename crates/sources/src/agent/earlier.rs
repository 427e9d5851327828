//! What an agent kept from before it is followed, and how far that has been read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep;

use crate::live::{Out, Stopped, gap};
use kflow_model::units::wait;
use kflow_model::{Nanos, Observation, Source, Text, clock};
use kflow_serve::wire::InfoResponse;

/// How long nothing of it may come before it counts as missing.
const PATIENCE: Duration = Duration::from_secs(30);
/// The sources of an agent that has not said which it has.
const USUAL: [Source; 4] = [Source::Cri, Source::Kubelet, Source::Fs, Source::Runtime];

/// What an agent kept since a moment, which is asked for once. Clones share the state: the source that reads it
/// changes it, others wait for it.
#[derive(Clone, Debug)]
pub struct Earlier {
    since: Nanos,
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug)]
struct State {
    reading: Reading,
    /// The agent's sources.
    of: Vec<Source>,
    /// Arrival at the agent of the newest observation that was read.
    to: Option<Nanos>,
    /// Since when nothing has come.
    still: Instant,
    /// Why the last attempt to reach the agent failed.
    failed: Option<Text>,
    /// What the agent does not have of it, if it does not have all.
    lacks: Option<Text>,
}

/// How far what an agent kept has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Not all of it has come yet.
    Coming,
    /// All that the agent kept and saw up to the connection.
    Read,
    /// Some or all of it is missing and will not come; with the reason.
    Missing(Text),
}

impl Earlier {
    /// What was kept since this moment, by this machine's clock.
    pub fn since(since: Nanos) -> Self {
        let state = State {
            reading: Reading::Coming,
            of: USUAL.to_vec(),
            to: None,
            still: clock::monotonic(),
            failed: None,
            lacks: None,
        };
        Self {
            since,
            state: Arc::new(watch::Sender::new(state)),
        }
    }

    /// Returns the moment since when it is asked for.
    pub const fn begin(&self) -> Nanos {
        self.since
    }

    pub fn reading(&self) -> Reading {
        self.state.borrow().reading.clone()
    }

    pub fn is_coming(&self) -> bool {
        self.state.borrow().reading == Reading::Coming
    }

    /// Returns up to which arrival at the agent it has been read, and why the last attempt to reach the agent failed.
    pub fn progress(&self) -> (Option<Nanos>, Option<Text>) {
        let state = self.state.borrow();
        (state.to, state.failed.clone())
    }

    /// Waits until it has been read or is known to be missing.
    pub async fn over(&self) {
        self.until(|s| s.reading != Reading::Coming).await;
    }

    /// Waits until other sources may start: it has been read, is missing, or the agent was not reached at once.
    pub async fn awaited(&self) {
        self.until(|s| s.reading != Reading::Coming || s.failed.is_some())
            .await;
    }

    async fn until(&self, wanted: impl FnMut(&State) -> bool) {
        // The sender is as old as this value.
        self.state.subscribe().wait_for(wanted).await.ok();
    }

    /// An agent answered.
    pub(super) fn joined(&self, info: &InfoResponse) {
        let named = |name: &str| Source::ALL.into_iter().find(|s| s.name() == name);
        let all = info.agent.iter().flat_map(|a| &a.sources);
        let on = all.filter(|s| s.state == 1);
        let mut of: Vec<Source> = on.filter_map(|s| named(&s.kind)).collect();
        of.retain(|s| !matches!(s, Source::Kube | Source::Kflow));
        of.sort_unstable();
        of.dedup();
        self.state.send_modify(|s| {
            if !of.is_empty() {
                s.of = of;
            }
            s.still = clock::monotonic();
            s.failed = None;
        });
    }

    /// An observation of it was read, which arrived at the agent at this time.
    pub(super) fn reached(&self, at: Nanos) {
        self.state.send_modify(|s| {
            s.to = s.to.max(Some(at));
            s.still = clock::monotonic();
        });
    }

    /// An attempt to reach the agent failed.
    pub fn failed(&self, why: &str) {
        self.state.send_modify(|s| s.failed = Some(why.into()));
    }

    /// All that the agent has of it was read.
    pub(super) fn read(&self) {
        self.state.send_modify(|s| {
            if s.reading == Reading::Coming {
                s.reading = s.lacks.take().map_or(Reading::Read, Reading::Missing);
            }
        });
    }

    /// The rest of it will not come: tells that in the stream. Does nothing when it is over already.
    pub async fn give_up(&self, why: &str, out: &mut Out) -> Result<(), Stopped> {
        // Whoever ends the run while a gap waits for room tells it himself ([`cut`](Self::cut)).
        out.send_all(&mut self.lack(why)).await?;
        self.cut(why);
        Ok(())
    }

    /// The agent has nothing from before this moment: tells that in the stream, once.
    pub(super) async fn lacks(
        &self,
        until: Nanos,
        why: &str,
        out: &mut Out,
    ) -> Result<(), Stopped> {
        if self.state.borrow().lacks.is_none() {
            let mut gaps = self.gaps(self.since, until, why);
            out.send_all(&mut gaps).await?;
            self.state.send_modify(|s| s.lacks = Some(why.into()));
        }
        Ok(())
    }

    /// Returns what tells, for each of the agent's sources, that the rest is missing; nothing when it is over.
    pub fn lack(&self, why: &str) -> Vec<Observation> {
        if !self.is_coming() {
            return Vec::new();
        }
        let from = self.state.borrow().to.unwrap_or(self.since);
        self.gaps(from, clock::now(), why)
    }

    /// Ends the wait because the run or its recording ends. Returns what tells that the rest is missing.
    pub fn cut(&self, why: &str) -> Vec<Observation> {
        let lack = self.lack(why);
        self.state.send_modify(|s| {
            if s.reading == Reading::Coming {
                s.reading = Reading::Missing(why.into());
            }
        });
        lack
    }

    fn gaps(&self, since: Nanos, until: Nanos, why: &str) -> Vec<Observation> {
        let now = clock::now();
        let why = format!("what the agent of the node kept is missing: {why}");
        let told = |of: &Source| {
            let mut o = gap(*of, since.min(until), until.min(now), 0, &why);
            o.stamp.seen = now;
            o
        };
        self.state.borrow().of.iter().map(told).collect()
    }

    /// Gives up once nothing has come of it for too long, whatever it waits for.
    pub async fn watch(self, mut out: Out) {
        while self.is_coming() {
            let now = clock::monotonic();
            let still = now.saturating_duration_since(self.state.borrow().still);
            let Some(left) = PATIENCE.checked_sub(still).filter(|l| !l.is_zero()) else {
                let failed = self.state.borrow().failed.clone();
                let why = failed.map_or_else(String::new, |why| format!(" ({why})"));
                let why = format!("nothing of it has come for {}{why}", wait(PATIENCE));
                // The run is over when nobody takes it.
                self.give_up(&why, &mut out).await.ok();
                return;
            };
            tokio::select! {
                () = sleep(left) => {}
                () = self.over() => {}
            }
        }
    }
}
