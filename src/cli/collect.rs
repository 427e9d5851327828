//! One look at what runs: the live sources until they have told what there is, for commands that answer once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;

use super::agents::{self, Said};
use super::args::Input;
use super::args::live::LiveArgs;
use super::input::SAID;
use kflow_core::correlate::{Coverage, Failing};
use kflow_core::diagnose::unknown;
use kflow_engine::cluster::{Hearing, NodeHeard};
use kflow_engine::live::{self, AGENT, Config, Live};
use kflow_engine::snapshot::own;
use kflow_engine::{Cluster, Snapshot};
use kflow_model::clock;
use kflow_model::gap::{Failure, WatchNote};
use kflow_model::session::{Header, Report, Session};
use kflow_model::units::estimate;
use kflow_model::{Nanos, Scope, Source, Text};
use kflow_sources::kube::live::watches;
use kflow_sources::live::SourceStatus;

/// Longest wait for lists unless told otherwise.
const MOST: Duration = Duration::from_secs(15);
/// What sources that have no end (a proxy's ring, a log) get once the lists are complete.
const GRACE: Duration = Duration::from_millis(700);
/// How often it is looked whether that is so.
const POLL: Duration = Duration::from_millis(50);

/// Sources that run, and what was asked of them.
pub(super) struct Collected {
    /// The run.
    pub(super) live: Live,
    /// What is looked at.
    pub(super) scope: Option<Scope>,
}

/// The sources that the arguments name, running, once they have told what there is.
pub(super) fn start(input: &Input, pod: Option<&str>) -> anyhow::Result<Collected> {
    let config = config(input, pod)?;
    let scope = config.scope.clone();
    let live = Live::start(config)?;
    told(&live, scope.as_ref(), input)?;
    Ok(Collected { live, scope })
}

fn config(input: &Input, pod: Option<&str>) -> anyhow::Result<Config> {
    let config = super::live::config(&input.live, pod)?;
    if !asks_anything(&config) {
        bail!(
            "nothing to ask: --no-api leaves no source; name one, such as --tap ebpf, --proxy or --runtime"
        );
    }
    Ok(config)
}

/// Waits until a run has told what there is.
fn told(live: &Live, scope: Option<&Scope>, input: &Input) -> anyhow::Result<()> {
    let begun = clock::monotonic();
    let waited = |since: Instant| clock::monotonic().saturating_duration_since(since);
    let mut complete = None;
    loop {
        std::thread::sleep(POLL);
        live.check()?;
        let snapshot = live.snapshot();
        if complete.is_none() && has_told(&snapshot, scope) {
            complete = Some(clock::monotonic());
        }
        let enough = match input.for_time {
            Some(time) => {
                let late = if is_silent(&snapshot) {
                    GRACE
                } else {
                    Duration::ZERO
                };
                waited(begun) >= time.saturating_add(late)
            }
            None => complete.is_some_and(|t| waited(t) >= GRACE) || waited(begun) >= MOST,
        };
        if enough {
            tell(&snapshot);
            return Ok(());
        }
    }
}

/// True once each list has ended or cannot be had, and it is known whether the node has an agent.
fn has_told(snapshot: &Snapshot, scope: Option<&Scope>) -> bool {
    let lists: Vec<(Text, Text)> = scope.into_iter().flat_map(asked_for).collect();
    answered(snapshot.world.coverage(), &lists) && !is_looked_for(snapshot)
}

/// What runs, for who stays: where all pods that are asked about lie on one node, that node with its agent is followed as if it
/// had been named.
pub(super) struct Watched {
    cluster: Cluster,
    /// Agents may be asked.
    asks: bool,
    /// Who looks judges pods of several nodes by the agents of each.
    listens: bool,
    /// What was said of the nodes.
    said: String,
    /// What was told of the agent of each node.
    told: BTreeMap<Text, Told>,
    begun: Instant,
    /// Moment of the first whole picture of a node that was followed.
    joined: Option<Nanos>,
}

/// What was told of the agent of a node.
struct Told {
    how: How,
    /// Since when it is so.
    since: Instant,
    lost: u64,
}

/// How the agent of a node is heard.
#[derive(Clone, PartialEq, Eq)]
enum How {
    Heard,
    /// It was heard before.
    Off(String),
    Silent(String),
}

/// What is known now.
pub(super) struct Look {
    pub(super) snapshot: Arc<Snapshot>,
    /// The pods are on several nodes, whose agents may be listened to.
    pub(super) several: bool,
    /// It is soon known what an agent saw.
    pub(super) coming: bool,
}

/// How long what agents saw is waited for before anything is told.
const COMING: Duration = Duration::from_secs(10);

impl Watched {
    /// Once it has told what there is.
    pub(super) fn start(input: &Input, pod: Option<&str>, listens: bool) -> anyhow::Result<Self> {
        let asks = agents::asks(input);
        let config = Config {
            agents: asks.then(|| live::Look::new(input.live.agents())),
            ..config(input, pod)?
        };
        let scope = config.scope.clone();
        let cluster = Cluster::start(config)?;
        told(cluster.main(), scope.as_ref(), input)?;
        Ok(Self {
            cluster,
            asks,
            listens,
            said: String::new(),
            told: BTreeMap::new(),
            begun: clock::monotonic(),
            joined: None,
        })
    }

    /// Fails once the engine has ended by itself.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.cluster.main().check()?;
        Ok(self.cluster.live().check()?)
    }

    /// What is known now.
    pub(super) fn look(&mut self, pod: Option<&str>) -> Look {
        let whole = self.cluster.main().snapshot();
        let alone = |several| Look {
            snapshot: Arc::clone(&whole),
            several,
            coming: false,
        };
        if !self.asks {
            return alone(false);
        }
        let nodes = super::pods::nodes(&whole.world, pod);
        let several = nodes.len() > 1;
        let said = match (nodes.len(), nodes.into_iter().next()) {
            (1, Some(node)) => match self.cluster.open(&node) {
                Ok(()) => format!("{node} is followed, with its agent if it has one"),
                Err(e) => e.to_string(),
            },
            (n, _) => {
                self.cluster.leave();
                if several && !self.listens {
                    agents::several(n)
                } else {
                    String::new()
                }
            }
        };
        if said != self.said && !said.is_empty() {
            super::out::tell(&said);
        }
        self.said = said;
        let Some(node) = self.cluster.node().map(Text::from) else {
            return alone(several && self.listens);
        };
        let of_node = self.cluster.live().snapshot();
        // Before its first picture it has no scope.
        let scope = of_node.scope.as_deref();
        if scope.is_none() || !has_told(&of_node, scope) {
            return Look {
                coming: self.may_wait(),
                ..alone(false)
            };
        }
        // The first picture in which its agent is on may lack what that saw before, and that it does.
        let joined = *self.joined.get_or_insert(of_node.now);
        let behind = (of_node.world.coverage()).is_being_listed(WatchNote::CALLS);
        let coming = (joined == of_node.now || behind) && self.may_wait();
        if !coming {
            self.tell_of_open(node, &of_node);
        }
        Look {
            coming,
            snapshot: of_node,
            several: false,
        }
    }

    fn may_wait(&self) -> bool {
        clock::monotonic().saturating_duration_since(self.begun) < COMING
    }

    /// What is known of several nodes, by the agent of each and by the apiserver; `None` while that is not known yet, or again.
    pub(super) fn hear(&mut self, nodes: &[Text], said: Said) -> Option<Vec<(Text, NodeHeard)>> {
        let heard = self.cluster.listen(nodes)?;
        let coming = heard.iter().any(|(_, h)| matches!(h, Hearing::Coming));
        let mut known = Vec::new();
        let mut all = Vec::new();
        let mut clocks = Vec::new();
        for (node, hearing) in heard {
            match hearing {
                Hearing::Coming => {}
                Hearing::Silent(why) => all.push((node, How::Silent(why), 0)),
                Hearing::Heard(told) => {
                    let how = told.off.clone().map_or(How::Heard, How::Off);
                    all.push((node.clone(), how, told.lost));
                    if !self.told.contains_key(&node) {
                        clocks.extend(agents::off(&node, told.offset.certain_ns()));
                    }
                    known.push((node, *told));
                }
            }
        }
        if coming && self.may_wait() {
            return None;
        }
        let lines = self.changes(all, said).into_iter();
        for line in lines.chain(agents::clocks(clocks)) {
            super::out::tell(&line);
        }
        Some(known)
    }

    /// What is to be told of agents, and is remembered as told.
    fn changes(&mut self, all: Vec<(Text, How, u64)>, said: Said) -> Vec<String> {
        let now = clock::monotonic();
        let (mut heard, mut silent) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
        let mut lines = Vec::new();
        for (node, how, lost) in all {
            let before = self.told.get(&node);
            let more = lost.saturating_sub(before.map_or(0, |t| t.lost));
            if more > 0 {
                lines.push(format!("{more} observations of {node} were lost"));
            }
            let same = before.is_some_and(|t| {
                // The words of a reason may change.
                std::mem::discriminant(&t.how) == std::mem::discriminant(&how)
            });
            match (&how, before) {
                _ if same => {}
                (How::Heard, Some(t)) if matches!(t.how, How::Off(_)) => {
                    let away = now.saturating_duration_since(t.since).as_nanos();
                    let away = estimate(i64::try_from(away).unwrap_or(i64::MAX));
                    lines.push(format!("the agent of {node} is heard again, after {away}"));
                }
                (How::Heard, _) => heard.push(node.to_string()),
                (How::Off(why), _) => lines.push(format!(
                    "the agent of {node} is not heard any more, and what it saw stands as it was: {why}"
                )),
                (How::Silent(why), _) => {
                    let of = silent.entry(why.clone()).or_default();
                    of.push(node.to_string());
                }
            }
            let since = before.filter(|_| same).map_or(now, |t| t.since);
            self.told.insert(node, Told { how, since, lost });
        }
        if !heard.is_empty() {
            let heard = agents::names(heard.into_iter());
            lines.push(format!("what the agents of {heard} saw {}", said.heard));
        }
        lines.extend(silent.into_iter().map(|(why, of)| {
            let of = agents::names(of.into_iter());
            format!("pods of {of} {}: {why}", said.silent)
        }));
        lines
    }

    /// Tells how the agent of the open node is heard, where that changed after it was heard.
    fn tell_of_open(&mut self, node: Text, of_node: &Snapshot) {
        let agent = of_node.sources.iter().find(|s| s.name == AGENT);
        let how = match agent {
            Some(a) if a.is_on() => How::Heard,
            Some(a) if a.is_off() => match self.told.get(&node) {
                Some(t) if !matches!(t.how, How::Silent(_)) => How::Off(a.detail().to_owned()),
                _ => How::Silent(a.detail().to_owned()),
            },
            _ => return,
        };
        let lost = Source::ALL.iter().map(|s| of_node.world.source(*s).lost);
        for line in self.changes(vec![(node, how, lost.sum())], SAID) {
            super::out::tell(&line);
        }
    }
}

/// True while nothing has been said of the kubeconfig: that it has not been read is said soon.
fn is_silent(snapshot: &Snapshot) -> bool {
    let starts = |s: &SourceStatus| s.name == own::KUBECONFIG && !s.is_on() && !s.is_off();
    snapshot.world.coverage().whole().is_none() && snapshot.sources.iter().any(starts)
}

/// True while it is not known whether the node has an agent.
fn is_looked_for(snapshot: &Snapshot) -> bool {
    let starts = |s: &SourceStatus| s.name == AGENT && !s.is_on() && !s.is_off();
    snapshot.sources.iter().any(starts)
}

/// The lists of a scope: resource and bounds.
fn asked_for(scope: &Scope) -> impl Iterator<Item = (Text, Text)> + use<> {
    watches(scope)
        .into_iter()
        .map(|(_, w)| (Text::from(w.resource), w.scope()))
}

/// True when each list has ended, or cannot be had.
fn answered(coverage: &Coverage, lists: &[(Text, Text)]) -> bool {
    let is_final = |f: &Failing| f.failure.is_final();
    // A kubeconfig that has not been read may still be.
    let refused = |f: &Failing| f.failure != Failure::TimedOut;
    coverage.whole().is_some_and(refused)
        || lists.iter().all(|(resource, scope)| {
            coverage.watches().any(|(r, s, w)| {
                r == resource
                    && s == scope
                    && (w.list().is_some() || w.failing().is_some_and(is_final))
            })
        })
}

/// What the sources have told, as a session.
pub(super) fn session(snapshot: &Snapshot, args: &LiveArgs) -> Session {
    Session {
        header: Header {
            node: args.scope.node.as_deref().unwrap_or_default().into(),
            ..Header::new(snapshot.range.0)
        },
        observations: snapshot.log.iter().cloned().collect(),
        report: Report::default(),
    }
}

fn asks_anything(c: &Config) -> bool {
    c.scope.is_some()
        || c.agent.is_some()
        || c.proxy.is_some()
        || c.ebpf.is_some()
        || c.runtime.is_some()
        || c.kubelet.is_some()
        || c.kubelet_root.is_some()
        || c.kubelet_log != kflow_engine::live::KubeletLog::Off
        || !c.control.logs.is_empty()
        || !c.control.audit_logs.is_empty()
        || !c.control.otlp.is_empty()
        || c.control.audit_webhook.is_some()
}

/// Says what could not be read, after the answer.
fn tell(snapshot: &Snapshot) {
    for n in notices(snapshot) {
        super::out::tell_later(&n.text);
    }
}

/// What is said of something that could not be read.
pub(super) struct Notice {
    /// The same while the cause is the same, whatever its words are.
    pub(super) key: String,
    /// What could not be read, why, and what would help.
    pub(super) text: String,
}

/// What could not be read: of the apiserver each cause once, then the other sources.
pub(super) fn notices(snapshot: &Snapshot) -> Vec<Notice> {
    let troubles = unknown::troubles(snapshot.world.coverage(), snapshot.now);
    let mut all: Vec<Notice> = troubles
        .iter()
        .map(|t| Notice {
            key: format!(
                "{} {}",
                t.failure.name(),
                t.resources().collect::<Vec<_>>().join(" ")
            ),
            text: format!("{}; {}", t.sentence(), t.help()),
        })
        .collect();
    // What goes by way of an apiserver that cannot be had need not be said to fail too.
    let away = troubles.iter().any(|t| t.concerns("pods"));
    let others = snapshot
        .sources
        .iter()
        .filter(|s| s.is_off() && s.source != Source::Kube)
        .filter(|s| !(away && s.source == Source::Metrics));
    all.extend(others.map(|s| {
        let key = format!("{} {}", s.source.name(), s.name);
        let text = format!("{key}: {}", s.detail());
        Notice { key, text }
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_engine::Pipeline;
    use kflow_engine::snapshot::Mode;

    #[test]
    fn before_its_first_picture_a_run_has_told_nothing_that_was_asked_for() {
        let now = clock::now();
        let empty = Pipeline::new().snapshot(now, Mode::paused(""), (now, now), Vec::new());
        assert!(!has_told(&empty, Some(&Scope::default())));
        assert!(has_told(&empty, None), "nothing was asked for");
    }
}
