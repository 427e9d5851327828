//! What runs, for commands that stay: where all pods that are asked about lie on one node, that node with its agent is followed as if it
//! had been named; of pods on several nodes the agents of each are listened to.

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
    /// Agents may be asked.
    asks: bool,
    /// What was said of the nodes.
    said: String,
    /// What was told of the agent of each node.
    told: BTreeMap<Text, Told>,
    /// What was said of the agent on this machine.
    note: Option<String>,
    begun: Instant,
    joined: Joined,
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
    /// The node that it is of, where it is of one.
    pub(super) node: Option<Text>,
    /// The pods are on several nodes, whose agents may be listened to.
    pub(super) several: bool,
    /// It is soon known what an agent saw.
    pub(super) coming: bool,
}

/// How long what agents saw is waited for before anything is told.
const COMING: Duration = Duration::from_secs(10);

impl Watched {
    /// Once it has told what there is.
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
        // Before its first picture it has no scope.
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

    /// What is to be told of agents, and is remembered as told.
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
