//! Which reason leads where some node has what the pod asks for: what keeps the pod from that node.

use crate::diagnose::Confidence;
use crate::diagnose::cause;
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::rules::Context;
use crate::diagnose::scheduler::{self, Sentence};
use crate::diagnose::text::list;
use kflow_model::pod::PodSeen;

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
    let nodes: u32 = sentence.clauses.iter().map(|c| c.nodes).sum();
    let (Some(pod), true) = (f.api, told.iter().all(only)) else {
        return;
    };
    if sentence.total != Some(nodes) || told.len() < 2 {
        return;
    }
    let states = cx.world.nodes();
    let cordoned = states.iter().filter_map(|n| n.api.as_deref());
    let cordoned = cordoned.filter(|n| n.unschedulable);
    let beside = told.iter().any(|x| is(x, cause::KF207));
    let labels = told.iter().any(|x| is(x, cause::KF205));
    let mut sure = true;
    let fits: Vec<String> = cordoned
        .filter_map(|n| {
            // A row of a table has no labels.
            if labels && (n.is_row() || !scheduler::selects(&pod.spec, n)) {
                return None;
            }
            if !beside {
                return Some(format!("{} has the labels that it wants", n.name));
            }
            let (others, known) = neighbours_on(cx, pod, &n.name);
            sure &= known;
            let what = if known {
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

/// Lets the labels that other nodes lack follow what keeps the pod from the nodes that have them.
pub(super) fn some_node_has_the_labels(
    cx: Context<'_>,
    f: &PodHistory<'_>,
    told: &mut [Finding<'_>],
) {
    let Some(pod) = f.api else { return };
    let states = cx.world.nodes();
    let mut nodes = states.iter().filter_map(|n| n.api.as_deref());
    let others = told.iter().filter(|x| x.cause.id != cause::KF205);
    let lowest = others.map(|x| x.rank).min();
    let is_wanted = !scheduler::wanted_labels(&pod.spec).is_empty();
    if is_wanted && nodes.any(|n| !n.is_row() && scheduler::selects(&pod.spec, n)) {
        let labels = told.iter_mut().filter(|x| x.cause.id == cause::KF205);
        for (x, lowest) in labels.zip(lowest) {
            x.rank = x.rank.min(lowest.saturating_sub(1));
        }
    }
}

/// True for an anti-affinity, or for words that do not say which of the two it is.
pub(super) fn is_anti(x: &Finding<'_>) -> bool {
    x.names.get("rule").is_none_or(|rule| rule.contains("anti"))
}

/// Returns the pods of a node that the pod has to run beside, and true; where the pod's affinity is not known, as in what
/// kubectl prints, the pods of its namespace there, and false.
fn neighbours_on(cx: Context<'_>, pod: &PodSeen, node: &str) -> (Vec<String>, bool) {
    let known = !pod.spec.affinity.is_empty();
    let there = cx.world.every_pod().iter().filter(|p| {
        let api = p.api.as_deref().filter(|a| !a.status.phase.is_over());
        p.gone.is_none()
            && p.node == node
            && api.is_some_and(|a| {
                if known {
                    scheduler::is_beside(pod, a)
                } else {
                    p.namespace == pod.namespace
                }
            })
    });
    (there.map(|p| format!("pod {}", p.name)).collect(), known)
}
