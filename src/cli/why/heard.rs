//! `kflow why` over several live nodes: queries the agents of the nodes with pods that are not well or on their way,
//! so that their verdicts are based on CRI calls too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::agents::{self, Said};
use super::super::args::WhyArgs;
use super::super::input::Observations;
use super::super::watched::Watched;
use super::{is_bad, worst_first};
use kflow_core::correlate::{PodView, World};
use kflow_core::diagnose::{self, Target, Verdict};
use kflow_engine::ask::{ApiTold, NodeTold};
use kflow_model::pod::{Condition, PodPhase};
use kflow_model::{Nanos, PodUid, Text};

/// The verdicts by a node's own world, on its requested pods and on the node.
struct Judged {
    now: Nanos,
    ahead: i64,
    pods: Vec<(PodUid, Option<Verdict>)>,
    node: Option<Verdict>,
}

const SAID: Said = Said {
    heard: "is in the verdicts",
    silent: "are judged by the API alone",
};

/// The pods whose nodes' agents are queried.
struct Concerned {
    pods: BTreeMap<Text, Vec<PodUid>>,
    /// The nodes with most such pods first.
    nodes: Vec<Text>,
    /// True when pods that are well are left out.
    only_bad: bool,
}

impl Concerned {
    fn of(args: &WhyArgs, world: &World, verdicts: &[Arc<Verdict>]) -> Self {
        let targets = args.pod.as_deref().map(|q| diagnose::find(world, q));
        let pods = asked_about(targets.as_deref(), world, verdicts);
        let mut nodes: Vec<Text> = pods.keys().cloned().collect();
        nodes.sort_by_key(|n| std::cmp::Reverse(pods.get(n).map(Vec::len)));
        Self {
            pods,
            nodes,
            only_bad: !matches!(targets.as_deref(), Some([Target::Pod(_), ..])),
        }
    }
}

/// Updates verdicts with the current data of the nodes' agents. Returns false while that data is about to arrive.
pub(super) fn listening(
    args: &WhyArgs,
    watched: &mut Watched,
    world: &World,
    verdicts: &mut Vec<Arc<Verdict>>,
) -> bool {
    let of = Concerned::of(args, world, verdicts);
    let Some(heard) = watched.hear(&of.nodes, SAID) else {
        return false;
    };
    for (node, told) in heard {
        let ahead = told.offset.certain_ns();
        let judged = judged(&node, &told.world, told.now, ahead, of.pods.get(&node));
        put(verdicts, of.only_bad, &node, judged);
    }
    if args.pod.is_none() {
        worst_first(verdicts);
    }
    true
}

/// Updates verdicts with data from the nodes' agents. Returns the moment that the verdicts are then of.
pub(super) fn heard(
    args: &WhyArgs,
    source: &Observations,
    world: &World,
    verdicts: &mut Vec<Arc<Verdict>>,
) -> anyhow::Result<Nanos> {
    if !agents::asks(&args.input) {
        return Ok(source.at);
    }
    let Concerned {
        pods,
        nodes,
        only_bad,
    } = Concerned::of(args, world, verdicts);
    if pods.is_empty() {
        return Ok(source.at);
    }
    let told = ApiTold::of(world, &source.session.observations, &nodes);
    let look = move |node: &Text, told: NodeTold| {
        let ahead = told.offset.certain_ns();
        judged(node, &told.world(), told.now, ahead, pods.get(node))
    };
    let heard = agents::heard(&args.input, &nodes, None, told, look)?;
    agents::tell(&heard, args.input.live.agents(), SAID);
    let mut at = source.at;
    let mut clocks = Vec::new();
    for (node, answer) in heard.nodes {
        let Ok(judged) = answer else { continue };
        let ahead = judged.ahead;
        at = at.max(judged.now.plus(ahead.saturating_neg()));
        clocks.extend(agents::off(&node, ahead));
        put(verdicts, only_bad, &node, judged);
    }
    if args.pod.is_none() {
        worst_first(verdicts);
    }
    agents::tell_of_clocks(clocks);
    Ok(at)
}

/// The nodes to query, each with its pods that are not well or on their way: of the targets, or of all pods.
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

/// True when the API shows the pod as starting, stopping or failed.
fn is_unsettled(p: &PodView) -> bool {
    p.deletion_requested.is_some()
        || p.api.as_ref().is_none_or(|a| {
            let ready = a.condition("Ready").is_some_and(Condition::is_true);
            !ready && a.status.phase != PodPhase::Succeeded
        })
}

fn judged(
    node: &Text,
    world: &World,
    now: Nanos,
    ahead: i64,
    pods: Option<&Vec<PodUid>>,
) -> Judged {
    let here = |v: Verdict| v.by_clock_behind(ahead);
    let known = pods.into_iter().flatten().filter_map(|uid| world.pod(uid));
    let known: Vec<&PodView> = known.map(|p| &***p).collect();
    let verdicts = diagnose::why_each(world, known.iter().copied(), now);
    let uids = known.iter().map(|p| p.uid.clone());
    Judged {
        now,
        ahead,
        pods: uids.zip(verdicts.map(|v| v.map(here))).collect(),
        node: diagnose::why_node(world, node, now).map(here),
    }
}

/// Replaces verdicts that are based on the API alone by those of a node's own world. With `only_bad`, verdicts that
/// are well are left out.
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
