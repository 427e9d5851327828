//! Checks the agent of the node.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

use super::{AS_ROOT, Check, Health, denied, files};
use kflow_agent::find::KUBELET_SPANS;
use kflow_engine::live::{Agent, Config, Place, connect};
use kflow_model::units::wait;
use kflow_sources::agent::{Absent, Mark, SOCKET, Way, reach};

/// Longest wait for an agent, which includes a port-forward through the apiserver.
const PATIENCE: Duration = Duration::from_secs(10);

/// The agent at this machine's socket, whether or not it answers; `None` without a socket.
pub fn own(root: &Path) -> Option<Agent> {
    let socket = root.join(SOCKET.strip_prefix('/').unwrap_or(SOCKET));
    // A folder that this user may not read may contain the socket.
    let there = files::exists(&socket).unwrap_or(true);
    there.then(|| Agent {
        place: Place::Socket(socket),
        earlier: None,
        mark: Mark::default(),
    })
}

/// Checks the agent, and each finding about a missing source; empty when the arguments look for no agent. If the
/// agent answers, also returns whether the kubelet sends its spans to it.
pub(super) async fn agent(config: &Config) -> (Vec<Check>, Option<bool>) {
    const WHAT: &str = "agent";
    let Some(place) = config.agent.as_ref().map(|a| a.place.clone()) else {
        return (Vec::new(), None);
    };
    let node = config.scope.as_ref().and_then(|s| s.node.clone());
    let through = match (&place, node) {
        // A failure to reach the apiserver has a check of its own.
        (Place::Pods { .. }, Some(node)) => (connect(config).await).ok().map(|(c, _)| (c, node)),
        _ => None,
    };
    let Some(way) = place.way(through) else {
        return (Vec::new(), None);
    };
    let asked = async {
        let mut reached = reach(&way).await?;
        let info = reached.client.info().await;
        let info = info.map_err(|e| Absent::Failed(e.to_string()))?;
        Ok((reached.said(&info), info))
    };
    let answer = timeout(PATIENCE, asked).await.unwrap_or_else(|_| {
        let why = format!("{}: no answer for {}", way.name(), wait(PATIENCE));
        Err(Absent::Failed(why))
    });
    let (said, info) = match answer {
        Ok(told) => told,
        Err(why) => {
            let check = Check::new(WHAT, Health::Off, why.to_string());
            let check = match &way {
                Way::Socket(path) if denied(path) => check.todo(AS_ROOT),
                _ => check,
            };
            return (vec![check], None);
        }
    };
    let of = info.agent.as_ref().map_or("", |a| a.node.as_str());
    let mut all = vec![Check::new(WHAT, Health::Works, format!("on {of}: {said}"))];
    let missing = info.agent.iter().flat_map(|a| &a.findings);
    all.extend(missing.filter(|f| !f.there).map(|f| {
        let found = format!("{}: {}", f.what, f.found);
        Check::new(WHAT, Health::Warning, found).todo(f.todo.clone())
    }));
    let findings = info.agent.iter().flat_map(|a| &a.findings);
    let sent = findings
        .filter(|f| f.what == KUBELET_SPANS)
        .all(|f| f.there);
    (all, Some(sent))
}
