//! `kflow why` of what runs on several nodes: the agents of those with pods that are not well, or on their way, are asked too, so
//! that their verdicts know of calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::args::WhyArgs;
use super::super::input::Observations;
use super::super::{live, out};
use super::{is_bad, worst_first};
use kflow_core::correlate::{PodView, World};
use kflow_core::diagnose::{self, Target, Verdict};
use kflow_engine::ask::{ApiTold, Error, NodeWorld, Patience, Unheard, ask};
use kflow_model::pod::{Condition, PodPhase};
use kflow_model::units::duration;
use kflow_model::{Nanos, PodUid, Text};

/// Nodes that are named in a line; the others are counted.
const NAMED: usize = 5;
/// A clock that differs from this machine's by more is told of, ns.
const CLOCK: i64 = kflow_model::stamp::SECOND;

/// What a node's world says of its pods that were asked about, and of the node.
struct Judged {
    now: Nanos,
    ahead: i64,
    pods: Vec<(PodUid, Option<Verdict>)>,
    node: Option<Verdict>,
}

/// Gives verdicts what the agents of their nodes know; the moment that they are of then.
pub(super) fn heard(
    args: &WhyArgs,
    source: &Observations,
    world: &World,
    verdicts: &mut Vec<Arc<Verdict>>,
) -> anyhow::Result<Nanos> {
    let input = &args.input.live;
    let asks = source.recorded.is_none()
        && args.input.at.is_none()
        && input.scope.node.is_none()
        && !(input.no_agent || input.no_api || input.local);
    if !asks {
        return Ok(source.at);
    }
    let targets = args.pod.as_deref().map(|q| diagnose::find(world, q));
    let pods = asked_about(targets.as_deref(), world, verdicts);
    if pods.is_empty() {
        return Ok(source.at);
    }
    // Those with most to ask about first.
    let mut nodes: Vec<Text> = pods.keys().cloned().collect();
    nodes.sort_by_key(|n| std::cmp::Reverse(pods.get(n).map(Vec::len)));
    let only_bad = !matches!(targets.as_deref(), Some([Target::Pod(_), ..]));
    let config = live::config(input, args.pod.as_deref())?;
    let told = ApiTold::of(world, &source.session.observations, &nodes);
    let look = move |node: &Text, w: NodeWorld| judged(node, &w, pods.get(node));
    let namespace = input.agents();
    let answers = ask(&config, namespace, Patience::default(), &nodes, told, look);
    let answers = match answers {
        Ok(answers) => answers,
        // That is told as everything is that could not be read.
        Err(why @ (Error::Agents(_) | Error::Apiserver(_))) => {
            out::tell_later(&why.to_string());
            return Ok(source.at);
        }
        Err(why) => return Err(why.into()),
    };
    let mut at = source.at;
    let mut silent = Vec::new();
    let (mut heard, mut clocks) = (Vec::new(), Vec::new());
    for (node, answer) in answers {
        match answer {
            Err(why) => silent.push((node, why)),
            Ok(judged) => {
                at = at.max(judged.now.plus(judged.ahead.saturating_neg()));
                if judged.ahead.saturating_abs() >= CLOCK {
                    clocks.push((node.clone(), judged.ahead));
                }
                put(verdicts, only_bad, &node, judged);
                heard.push(node);
            }
        }
    }
    if args.pod.is_none() {
        worst_first(verdicts);
    }
    for line in told_of(&heard, &silent, &clocks, namespace) {
        out::tell_later(&line);
    }
    Ok(at)
}

/// Nodes to ask, and of each the pods that are not well or on their way: of the targets, or of all.
fn asked_about(
    targets: Option<&[Target<'_>]>,
    world: &World,
    verdicts: &[Arc<Verdict>],
) -> BTreeMap<Text, Vec<PodUid>> {
    let bad = || verdicts.iter().filter(|v| is_bad(v));
    let uids: BTreeSet<&PodUid> = bad().map(|v| &v.uid).collect();
    let mut of_node: BTreeMap<Text, Vec<PodUid>> = BTreeMap::new();
    let mut want = |p: &PodView| {
        let there = p.gone.is_none() && !p.past && !p.node.is_empty();
        if there && (uids.contains(&p.uid) || is_unsettled(p)) {
            let pods = of_node.entry(p.node.clone()).or_default();
            pods.push(p.uid.clone());
        }
    };
    match targets {
        None => world.pods().iter().for_each(|p| want(p)),
        Some(targets) => {
            for target in targets {
                if let Target::Pod(p) = target {
                    want(p);
                }
                target.pods().iter().for_each(|p| want(p));
            }
        }
    }
    let nodes = bad().filter_map(|v| v.owner.as_ref().filter(|o| o.kind == "Node"));
    for node in nodes {
        of_node.entry(node.name.clone()).or_default();
    }
    of_node
}

/// By the API it starts or stops, or has failed.
fn is_unsettled(p: &PodView) -> bool {
    p.deletion_requested.is_some()
        || p.api.as_ref().is_none_or(|a| {
            let ready = a.condition("Ready").is_some_and(Condition::is_true);
            !ready && a.status.phase != PodPhase::Succeeded
        })
}

fn judged(node: &Text, w: &NodeWorld, pods: Option<&Vec<PodUid>>) -> Judged {
    let ahead = w.offset.certain_ns();
    let here = |v: Verdict| v.by_clock_behind(ahead);
    let known = pods
        .into_iter()
        .flatten()
        .filter_map(|uid| w.world.pod(uid));
    let known: Vec<&PodView> = known.map(|p| &***p).collect();
    let verdicts = diagnose::why_each(&w.world, known.iter().copied(), w.now);
    let uids = known.iter().map(|p| p.uid.clone());
    Judged {
        now: w.now,
        ahead,
        pods: uids.zip(verdicts.map(|v| v.map(here))).collect(),
        node: diagnose::why_node(&w.world, node, w.now).map(here),
    }
}

/// Puts what a node's own world says into the place of what the apiserver alone shows. What is well is left out with `only_bad`.
fn put(verdicts: &mut Vec<Arc<Verdict>>, only_bad: bool, node: &Text, judged: Judged) {
    let mut put = |is_of: &dyn Fn(&Verdict) -> bool, now: Option<Verdict>| {
        let place = verdicts.iter().position(|v| is_of(v));
        match (place, now.filter(|v| !only_bad || is_bad(v))) {
            (Some(n), Some(v)) => {
                if let Some(old) = verdicts.get_mut(n) {
                    *old = Arc::new(v);
                }
            }
            (Some(n), None) if only_bad => drop(verdicts.remove(n)),
            (None, Some(v)) if is_bad(&v) => verdicts.push(Arc::new(v)),
            _ => {}
        }
    };
    for (uid, verdict) in judged.pods {
        put(&|v| v.uid == uid, verdict);
    }
    let is_node = |v: &Verdict| {
        let owner = v.owner.as_ref().filter(|_| v.uid.is_empty());
        owner.is_some_and(|o| o.kind == "Node" && o.name == *node)
    };
    put(&is_node, judged.node);
}

/// A line of whom was asked, one for each reason for which others were not, and one of clocks.
fn told_of(
    heard: &[Text],
    silent: &[(Text, Unheard)],
    clocks: &[(Text, i64)],
    namespace: &str,
) -> Vec<String> {
    let mut lines = Vec::new();
    if !heard.is_empty() {
        lines.push(format!(
            "what the agents of {} saw is in the verdicts",
            names(heard.iter().map(Text::to_string))
        ));
    }
    let mut rest: Vec<&(Text, Unheard)> = silent.iter().collect();
    while let Some((_, why)) = rest.first().copied() {
        let (like, others) = rest
            .into_iter()
            .partition::<Vec<_>, _>(|s| s.1.is_like(why));
        rest = others;
        let mut line = format!(
            "pods of {} are judged by the API alone: {why}",
            names(like.iter().map(|(node, _)| node.to_string()))
        );
        if *why == Unheard::None {
            line.push_str(&format!(
                " (namespace {namespace}): with one, CRI calls, kubelet log, cgroups and volumes are seen too; `kflow agent install`"
            ));
        }
        lines.push(line);
    }
    if !clocks.is_empty() {
        let of_each = clocks.iter().map(|(node, ahead)| {
            let way = if *ahead > 0 { "ahead of" } else { "behind" };
            let by = duration(ahead.saturating_abs());
            format!("{node} ({by} {way} this machine's)")
        });
        lines.push(format!(
            "times of evidence are by the clocks of its nodes, of which some are off: {}",
            names(of_each)
        ));
    }
    lines
}

/// `a, b and 3 more nodes`
fn names(all: impl ExactSizeIterator<Item = String>) -> String {
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
        let mut silent: Vec<(Text, Unheard)> = (2..9).map(|n| (node(n), Unheard::None)).collect();
        silent.insert(1, (node(10), failed("broken")));
        silent.push((node(11), failed("gone")));
        let lines = told_of(&[node(1)], &silent, &[(node(1), -90 * CLOCK)], "kflow");
        assert_eq!(
            lines,
            [
                "what the agents of node1 saw is in the verdicts",
                "pods of node2, node3, node4, node5, node6 and 2 more are judged by the API alone: no agent of kflow is there (namespace kflow): with one, CRI calls, kubelet log, cgroups and volumes are seen too; `kflow agent install`",
                "pods of node10, node11 are judged by the API alone: the agent there did not answer: broken",
                "times of evidence are by the clocks of its nodes, of which some are off: node1 (1m30s behind this machine's)",
            ]
        );
    }
}
