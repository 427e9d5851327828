//! The agent of the run's node. It replaces the sources whose observations it gives; they run while it does not.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Config;
use super::sources::connect;
use kflow_model::Source;
use kflow_sources::agent::{Earlier, Follow, Gives as What, LABEL, Mark, SOCKET, Way, follow};
use kflow_sources::live::{Backoff, Board, Out};

/// Longest wait for what an agent stored earlier, before other sources start.
const PAST: Duration = Duration::from_secs(60);

/// Where an agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its socket on this machine.
    Socket(PathBuf),
    /// A pod in this namespace that has these labels (a selector), on the node of the scope.
    Pods {
        namespace: String,
        labels: String,
        /// Socket of an agent on this machine, as [`Way::Pod`] has it.
        here: Option<PathBuf>,
    },
}

impl Place {
    /// The agents installed in this namespace, and an agent on this machine for its own node.
    pub fn installed(namespace: &str) -> Self {
        Self::Pods {
            namespace: namespace.to_owned(),
            labels: LABEL.to_owned(),
            here: Some(SOCKET.into()),
        }
    }

    /// Returns the way to the agent. The way to a pod needs an apiserver's client and a node: `None` without them.
    pub fn way(self, through: Option<(kube::Client, String)>) -> Option<Way> {
        match self {
            Self::Socket(path) => Some(Way::Socket(path)),
            Self::Pods {
                namespace,
                labels,
                here,
            } => through.map(|(client, node)| Way::Pod {
                client,
                namespace,
                labels,
                node,
                here,
            }),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Agent {
    pub place: Place,
    /// What the agent stored is read first, if it is asked for.
    pub earlier: Option<Earlier>,
    /// How far the agent's stream was read before.
    pub mark: Mark,
}

/// Which sources the agent replaces at the moment.
#[derive(Clone, Debug)]
pub(super) struct Gives(watch::Receiver<What>);

impl Gives {
    /// True while an agent is followed that has sources of the node.
    pub(super) fn anything(&self) -> bool {
        let gives = *self.0.borrow();
        gives.known && (gives.kubelet_log || gives.metrics)
    }
    /// Runs a source while there is no agent that gives the same observations.
    pub(super) async fn unless<F: Future<Output = ()> + Send>(
        mut self,
        given: fn(&What) -> bool,
        out: Out,
        source: impl Fn(Out) -> F + Send,
    ) {
        loop {
            // The sender is dropped when the engine stops.
            if self.0.wait_for(|g| g.known && !given(g)).await.is_err() {
                return;
            }
            let running = source(out.share());
            tokio::select! {
                () = running => return,
                it = self.0.wait_for(given) => if it.is_err() {
                    return;
                },
            }
            out.on("the agent gives it");
        }
    }
}

/// Follows the configuration's agent.
pub(super) fn spawn(config: &Config, board: &Board, tasks: &mut JoinSet<()>) -> Option<Gives> {
    let agent = config.agent.clone()?;
    let out = board.out(Source::Cri, super::AGENT);
    let (gives, given) = watch::channel(What::default());
    if let Some(earlier) = agent.earlier.clone() {
        tasks.spawn(earlier.watch(out.share()));
    }
    let config = config.clone();
    tasks.spawn(async move {
        let node = config.scope.as_ref().and_then(|s| s.node.clone());
        let through = match (&agent.place, node) {
            (Place::Pods { .. }, Some(node)) => {
                let client = client(&config, agent.earlier.as_ref(), &out).await;
                Some((client, node))
            }
            _ => None,
        };
        let Some(way) = agent.place.way(through) else {
            return;
        };
        let wanted = Follow {
            way,
            earlier: agent.earlier,
            mark: agent.mark,
            all: config.scope.is_none(),
            gives,
        };
        follow(wanted, out).await;
    });
    Some(Gives(given))
}

/// Returns a client for the apiserver as soon as there is one. What prevents it is reported by the watches.
async fn client(config: &Config, earlier: Option<&Earlier>, out: &Out) -> kube::Client {
    let mut backoff = Backoff::new(config.pace.backoff.0, config.pace.backoff.1);
    loop {
        match connect(config).await {
            Ok((client, _)) => return client,
            Err(why) => {
                if let Some(earlier) = earlier {
                    earlier.failed(&why);
                }
                out.off(why);
            }
        }
        out.pause(backoff.pause()).await;
    }
}

/// Waits until what an agent stored earlier has been read or is missing, up to [`PAST`].
pub(super) async fn past(earlier: &Earlier) {
    // A slow agent must not keep everything else from starting.
    tokio::time::timeout(PAST, earlier.awaited()).await.ok();
}
