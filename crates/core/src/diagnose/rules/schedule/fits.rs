//! Which reason leads where some node has what the pod asks for: what keeps the pod from that node.

use crate::correlate::Pod;
use crate::diagnose::Confidence;
use crate::diagnose::cause;
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::rules::Context;
use crate::diagnose::scheduler::{Beside, Required, Sentence};
use crate::diagnose::text::list;
use kflow_model::{Text, pod::PodSeen};

/// Lets the cordon lead where each node that is not cordoned lacks what the pod has to be beside, or the labels that it
/// wants, and a cordoned one has that: the scheduler looks at the cordon first, and says no more of such a node
/// (`pkg/scheduler/apis/config/v1/default_plugins.go`: NodeUnschedulable before NodeAffinity and InterPodAffinity).
pub(super) fn cordoned_fits(
    cx: Context<'_>,
    f: &PodHistory<'_>,
    sentence: &Sentence<'_>,
    told: &mut [Finding<'_>],
) {
    let is = |x: &Finding<'_>, id| x.cause.id == id;
    let only = |x: &Finding<'_>| {
        is(x, cause::KF204) || is(x, cause::KF205) || (is(x, cause::KF207) && !is_anti(x))
    };
    let (Some(pod), true) = (f.api, told.iter().all(only)) else {
        return;
    };
    if sentence.total != Some(sentence.counted()) || told.len() < 2 {
        return;
    }
    let states = cx.world.nodes();
    let cordoned = states.iter().filter_map(|n| n.api.as_deref());
    let cordoned = cordoned.filter(|n| n.unschedulable);
    let beside = told.iter().any(|x| is(x, cause::KF207));
    let labels = told.iter().any(|x| is(x, cause::KF205));
    let required = labels.then(|| Required::of(&pod.spec));
    let neighbours = beside.then(|| Neighbours::of(pod));
    let sure = neighbours.as_ref().is_none_or(|n| n.named.is_some());
    let fits: Vec<String> = cordoned
        .filter_map(|n| {
            // A row of a table has no labels.
            let fits = |r: &Required<'_>| !n.is_row && r.fits(n);
            if !required.as_ref().is_none_or(fits) {
                return None;
            }
            let Some(neighbours) = &neighbours else {
                return Some(format!("{} has the labels that it wants", n.name));
            };
            let others = neighbours.on(cx, &n.name);
            let what = if sure {
                "which the pod has to run beside"
            } else {
                "which it may have to run beside"
            };
            (!others.is_empty()).then(|| format!("{} has {}, {what}", n.name, list(&others)))
        })
        .collect();
    let above = told.iter().map(|x| x.rank).max();
    let (Some(above), false) = (above, fits.is_empty()) else {
        return;
    };
    for x in told.iter_mut().filter(|x| is(x, cause::KF204)) {
        x.rank = above.saturating_add(1);
        x.names.set("fits", &list(&fits));
        if !sure {
            x.confidence = x.confidence.max(Confidence::Likely);
        }
    }
}

/// Ranks missing labels last where some node has them: what keeps the pod from that node is the reason.
pub(super) fn some_node_has_the_labels(
    cx: Context<'_>,
    f: &PodHistory<'_>,
    told: &mut [Finding<'_>],
) {
    let (labels, others): (Vec<_>, Vec<_>) =
        told.iter_mut().partition(|x| x.cause.id == cause::KF205);
    let lowest = others.iter().map(|x| x.rank).min();
    let (Some(pod), Some(lowest), false) = (f.api, lowest, labels.is_empty()) else {
        return;
    };
    let required = Required::of(&pod.spec);
    let states = cx.world.nodes();
    let mut nodes = states.iter().filter_map(|n| n.api.as_deref());
    if !required.is_empty() && nodes.any(|n| !n.is_row && required.fits(n)) {
        for x in labels {
            x.rank = x.rank.min(lowest.saturating_sub(1));
        }
    }
}

/// True for an anti-affinity, or for words that do not say which of the two it is.
pub(super) fn is_anti(x: &Finding<'_>) -> bool {
    x.names.get("rule").is_none_or(|rule| rule.contains("anti"))
}

/// The pods that a pod has to run beside.
struct Neighbours<'p> {
    namespace: &'p Text,
    /// By the pod's affinity; `None` where that is not known, as in what kubectl prints: then it may be any pod of its
    /// namespace.
    named: Option<Beside<'p>>,
}

impl<'p> Neighbours<'p> {
    fn of(pod: &'p PodSeen) -> Self {
        Self {
            namespace: &pod.namespace,
            named: (!pod.spec.affinity.is_empty()).then(|| Beside::of(pod)),
        }
    }
    /// Returns those on a node, in words.
    fn on(&self, cx: Context<'_>, node: &str) -> Vec<String> {
        let is = |p: &&Pod| {
            let api = p.api.as_deref().filter(|a| !a.status.phase.is_over());
            api.is_some_and(|api| match &self.named {
                Some(named) => named.is(api),
                None => p.namespace == *self.namespace,
            })
        };
        let there = cx.shared.on_node(cx.world, node).iter().filter(is);
        there.map(|p| format!("pod {}", p.name)).collect()
    }
}
