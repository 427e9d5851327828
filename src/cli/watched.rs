//! Live sources for commands that keep running. If the pods that the command is about are on one node, this follows
//! the node with its agent, as if `--node` named it; if they are on several nodes, it follows the agent of each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::agents::{self, Said};
use super::args::Input;
use super::collect::{config, has_told, told};
use super::input::SAID;
use kflow_engine::cluster::{Hearing, Joined, NodeHeard};
use kflow_engine::live::{self, AGENT, Config};
use kflow_engine::{Cluster, Snapshot};
use kflow_model::units::{counted, estimate};
use kflow_model::{Source, Text, clock};

/// See the [module](self).
pub(super) struct Watched {
    cluster: Cluster,
    /// True when agents may be queried.
    asks: bool,
    /// The last message about the followed node.
    said: String,
    /// The reported state of each node's agent.
    told: BTreeMap<Text, Told>,
    /// The last message about the agent on this machine.
    note: Option<String>,
    begun: Instant,
    joined: Joined,
}

/// The reported state of a node's agent.
struct Told {
    how: How,
    /// Since when this state holds.
    since: Instant,
    lost: u64,
}

/// Connection to a node's agent.
#[derive(Clone, PartialEq, Eq)]
enum How {
    Heard,
    /// Lost, after it was up; with the reason.
    Off(String),
    Silent(String),
}

/// The current snapshot, and what it is about.
pub(super) struct Look {
    pub(super) snapshot: Arc<Snapshot>,
    /// The node of the snapshot; `None` when it is of the cluster.
    pub(super) node: Option<Text>,
    /// True when the pods are on several nodes, whose agents may be followed.
    pub(super) several: bool,
    /// True while an agent's data is about to arrive.
    pub(super) coming: bool,
}

/// Longest wait for the data of agents before the first answer.
const COMING: Duration = Duration::from_secs(10);

impl Watched {
    /// Starts the sources, and waits for their initial data.
    pub(super) fn start(input: &Input, pod: Option<&str>) -> anyhow::Result<Self> {
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
            said: String::new(),
            told: BTreeMap::new(),
            note: None,
            begun: clock::monotonic(),
            joined: Joined::default(),
        })
    }

    /// An error when the engine has ended by itself.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.cluster.main().check()?;
        Ok(self.cluster.live().check()?)
    }

    /// The current state. Follows the node of the pods if there is only one.
    pub(super) fn look(&mut self, pod: Option<&str>) -> Look {
        let whole = self.cluster.main().snapshot();
        let alone = |several| Look {
            snapshot: Arc::clone(&whole),
            node: (whole.scope.as_ref()).and_then(|s| s.node.as_deref().map(Text::from)),
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
            _ => {
                self.cluster.leave();
                String::new()
            }
        };
        if said != self.said && !said.is_empty() {
            super::out::tell(&said);
        }
        self.said = said;
        let Some(node) = self.cluster.node().map(Text::from) else {
            return alone(several);
        };
        let of_node = self.cluster.live().snapshot();
        // Before its first snapshot the run has no scope.
        let scope = of_node.scope.as_deref();
        if scope.is_none() || !has_told(&of_node, scope) {
            return Look {
                coming: self.may_wait(),
                ..alone(false)
            };
        }
        self.tell_note(&node);
        let coming = !self.joined.has_all(&of_node) && self.may_wait();
        if !coming {
            self.tell_of_open(node.clone(), &of_node);
        }
        Look {
            node: Some(node),
            coming,
            snapshot: of_node,
            several: false,
        }
    }

    fn tell_note(&mut self, node: &str) {
        let note = self.cluster.note(node);
        if note.is_some() && note != self.note {
            if let Some(said) = &note {
                super::out::tell(said);
            }
            self.note = note;
        }
    }

    fn may_wait(&self) -> bool {
        clock::monotonic().saturating_duration_since(self.begun) < COMING
    }

    /// The current state of several nodes, each from its agent and the apiserver; `None` while the agents' data is
    /// about to arrive.
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
                    self.tell_note(&node);
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

    /// The messages about changed states of agents; stores the new states as reported.
    fn changes(&mut self, all: Vec<(Text, How, u64)>, said: Said) -> Vec<String> {
        let now = clock::monotonic();
        let (mut heard, mut silent) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
        let mut lines = Vec::new();
        for (node, how, lost) in all {
            let before = self.told.get(&node);
            let more = lost.saturating_sub(before.map_or(0, |t| t.lost));
            if more > 0 {
                lines.push(format!("lost of {node}: {}", counted(more, "observation")));
            }
            let same = before.is_some_and(|t| {
                // The wording of a reason may change.
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

    /// Reports changes in the connection to the followed node's agent.
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
