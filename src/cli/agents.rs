//! Queries the agents of several nodes once, and reports which of them answered.

use std::path::Path;

use super::args::Input;
use super::live::this_machine_among;
use super::out;
use kflow_engine::ask::{ApiTold, Heard, NodeTold, Past, Patience, Question, Unheard, ask};
use kflow_engine::live::Config;
use kflow_model::Text;
use kflow_model::stamp::SECOND;
use kflow_model::units::estimate;
use kflow_sources::agent;

/// Number of nodes that a line names; the others are counted.
const NAMED: usize = 5;

/// True for a look at the present that may query agents. With `--node` the node's agent is followed instead.
pub(super) fn asks(input: &Input) -> bool {
    may_ask(input) && input.at.is_none() && input.live.scope.node.is_none()
}

/// True when the arguments do not forbid to query agents, and do not name a recording.
pub(super) const fn may_ask(input: &Input) -> bool {
    let live = &input.live;
    let forbidden = live.no_agent || live.no_api || live.local;
    // An agent that was started for this command is followed.
    input.session.is_none() && !forbidden && live.debugged.is_none()
}

/// Message about pods on several nodes whose agents are not queried.
pub(super) fn several(nodes: usize) -> String {
    format!(
        "these pods are on {nodes} nodes, and are shown by the API alone: name one of them, or a node with --node, for what its agent saw"
    )
}

/// Queries the agents of the nodes.
pub(super) fn heard<T: Send + 'static>(
    input: &Input,
    nodes: &[Text],
    past: Option<Past>,
    told: ApiTold,
    look: impl Fn(&Text, NodeTold) -> T + Send + Sync + 'static,
) -> anyhow::Result<Heard<T>> {
    let config = Config {
        kubeconfig: input.live.kubeconfig.clone(),
        context: input.live.context.clone(),
        ..Config::nothing()
    };
    let question = Question {
        config: &config,
        namespace: input.live.agents(),
        here: Some(Path::new(agent::SOCKET)),
        patience: Patience::default(),
        nodes,
        past,
    };
    Ok(ask(question, told, look)?)
}

/// Prints a line with the nodes that answered, and one for each reason for which others did not.
pub(super) fn tell<T>(heard: &Heard<T>, namespace: &str, said: Said) {
    let nodes = heard.nodes.iter();
    let without = nodes.filter(|(_, answer)| matches!(answer, Err(Unheard::None)));
    let here = this_machine_among(without.map(|(node, _)| node.as_str()));
    let lines = lines(&heard.nodes, namespace, said, here).into_iter();
    for line in lines.chain(heard.note.clone()) {
        out::tell_later(&line);
    }
}

/// `node1 (3.20s ahead of this machine's)`; `None` for less than a second.
pub(super) fn off(node: &Text, ahead_ns: i64) -> Option<String> {
    let by = ahead_ns.saturating_abs();
    let way = if ahead_ns > 0 { "ahead of" } else { "behind" };
    (by >= SECOND).then(|| format!("{node} ({} {way} this machine's)", estimate(by)))
}

/// Prints by which clocks the times are, when some of these clocks are off.
pub(super) fn tell_of_clocks(off: Vec<String>) {
    if let Some(line) = clocks(off) {
        out::tell_later(&line);
    }
}

pub(super) fn clocks(off: Vec<String>) -> Option<String> {
    (!off.is_empty()).then(|| {
        let off = names(off.into_iter());
        format!("times of evidence are by the clocks of its nodes, of which some are off: {off}")
    })
}

/// Ends of the sentences about nodes that answered, and nodes that did not.
#[derive(Clone, Copy)]
pub(super) struct Said {
    /// For example `is in the verdicts`.
    pub(super) heard: &'static str,
    /// For example `are judged by the API alone`.
    pub(super) silent: &'static str,
}

/// `here` is the node without an agent that this machine is.
fn lines<T>(
    nodes: &[(Text, Result<T, Unheard>)],
    namespace: &str,
    said: Said,
    here: Option<&str>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let heard: Vec<&Text> = nodes
        .iter()
        .filter_map(|(node, answer)| answer.is_ok().then_some(node))
        .collect();
    if !heard.is_empty() {
        lines.push(format!(
            "what the agents of {} saw {}",
            names(heard.iter().map(ToString::to_string)),
            said.heard
        ));
    }
    let silent = nodes.iter();
    let mut rest: Vec<(&Text, &Unheard)> = silent
        .filter_map(|(node, answer)| Some((node, answer.as_ref().err()?)))
        .collect();
    while let Some((_, why)) = rest.first().copied() {
        let (like, others) = rest
            .into_iter()
            .partition::<Vec<_>, _>(|s| s.1.is_like(why));
        rest = others;
        let mut line = format!(
            "pods of {} {}: {why}",
            names(like.iter().map(|(node, _)| node.to_string())),
            said.silent
        );
        if let (Unheard::None, Some(here)) = (why, here) {
            line.push_str(&format!(
                ", but this machine is {here}: with --node {here} kflow reads what it has (CRI calls, kubelet log, cgroups, volumes)"
            ));
        } else if *why == Unheard::None {
            line.push_str(&format!(
                " (namespace {namespace}): with one, CRI calls, kubelet log, cgroups and volumes are seen too; `kflow agent install`"
            ));
        }
        lines.push(line);
    }
    lines
}

/// `a, b and 3 more`
pub(super) fn names(all: impl ExactSizeIterator<Item = String>) -> String {
    let left = all.len().saturating_sub(NAMED);
    let named: Vec<String> = all.take(NAMED).collect();
    let named = named.join(", ");
    match left {
        0 => named,
        n => format!("{named} and {n} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_sources::agent::Silent;

    #[test]
    fn a_line_tells_each_reason_once_and_names_a_few_nodes() {
        let node = |n: usize| Text::from(format!("node{n}"));
        let failed = |why: &str| Unheard::Silent(Silent::Failed(why.to_owned()));
        let mut nodes = vec![(node(1), Ok(())), (node(10), Err(failed("broken")))];
        nodes.extend((2..9).map(|n| (node(n), Err(Unheard::None))));
        nodes.push((node(11), Err(failed("gone"))));
        let said = Said {
            heard: "is in the verdicts",
            silent: "are judged by the API alone",
        };
        assert_eq!(
            lines(&nodes, "kflow", said, None),
            [
                "what the agents of node1 saw is in the verdicts",
                "pods of node10, node11 are judged by the API alone: the agent there did not answer: broken",
                "pods of node2, node3, node4, node5, node6 and 2 more are judged by the API alone: no agent of kflow is there (namespace kflow): with one, CRI calls, kubelet log, cgroups and volumes are seen too; `kflow agent install`",
            ]
        );
        let here = lines(&nodes, "kflow", said, Some("node3"));
        assert!(
            here.last().is_some_and(|l| l.ends_with(
                "no agent of kflow is there, but this machine is node3: with --node node3 kflow reads what it has (CRI calls, kubelet log, cgroups, volumes)"
            )),
            "{here:?}"
        );
    }
}
