//! Disruption budgets: which pods they select, and whether the apiserver would let one of them be evicted now (Kubernetes 1.36
//! `pkg/registry/core/pod/storage/eviction.go`, `Create`, `checkAndDecrement`).

use super::{Context, newest_state};
use crate::correlate::{ObjectState, PodView, World};
use crate::diagnose::Proof;
use crate::diagnose::finding::{Finding, proof};
use crate::diagnose::standing::{count, there};
use crate::diagnose::text::list;
use crate::selection::LabelSelector;
use kflow_model::kind::BUDGET;
use kflow_model::object::ObjectSeen;
use kflow_model::pod::{Condition, PodSeen};
use kflow_model::units::counted;

/// Most pods that are named.
const NAMED: usize = 4;

/// A budget that exists, with its selector.
#[derive(Clone, Debug)]
pub(in crate::diagnose) struct Budget<'w> {
    object: &'w ObjectState,
    api: &'w ObjectSeen,
    selector: LabelSelector,
}

impl<'w> Budget<'w> {
    fn all(world: &'w World) -> Vec<Self> {
        let objects = world.objects().into_iter();
        objects.filter_map(Self::of).collect()
    }
    /// Returns the budget that an object is; `None` for one that was deleted, or whose selector is not known.
    pub(in crate::diagnose) fn of(object: &'w ObjectState) -> Option<Self> {
        let api = there(object).filter(|_| object.object.kind == BUDGET)?;
        let selector = LabelSelector::parse(api.fact("selector")?)?;
        Some(Self {
            object,
            api,
            selector,
        })
    }
    /// True for a pod that the budget selects.
    pub(in crate::diagnose) fn has(&self, pod: &PodView) -> bool {
        pod.namespace == self.object.object.namespace
            && (pod.api.as_deref()).is_some_and(|p| self.selector.fits(&p.labels))
    }
    fn count(&self, fact: &str) -> Option<u32> {
        count(self.api, fact)
    }
    /// Says why no healthy pod may be evicted now: `it needs 2 healthy pods and has 2`; `None` where one may be, or where that
    /// is not known.
    fn refuses(&self) -> Option<String> {
        let failed = |c: &&Condition| c.status == "False" && c.reason == "SyncFailed";
        if let Some(c) = self.api.condition("DisruptionAllowed").filter(failed) {
            let why = c.message.trim_end_matches(['.', ' ']);
            return Some(format!("its controller cannot work it out: {why}"));
        }
        if self.api.observed_generation < self.api.generation {
            return Some("its controller has not looked at its newest form".to_owned());
        }
        if self.count("disruptionsAllowed")? > 0 {
            return None;
        }
        let needed = self.count("desiredHealthy")?;
        let healthy = self.count("currentHealthy")?;
        let pods = counted(needed.into(), "healthy pod");
        Some(format!("it needs {pods} and has {healthy}"))
    }
    /// Whether a pod that is not ready may be evicted all the same.
    fn lets_unready_go(&self) -> bool {
        let always = self.api.fact("unhealthyPodEvictionPolicy") == Some("AlwaysAllow");
        let healthy = self.count("currentHealthy");
        let needed = self.count("desiredHealthy");
        always || (healthy >= needed && needed.is_some_and(|n| n > 0))
    }
}

fn is_ready(pod: &PodSeen) -> bool {
    pod.condition("Ready").is_some_and(Condition::is_true)
}

/// Returns the one budget that selects a pod; `None` where none does, or several do.
fn over<'b, 'w>(budgets: &'b [Budget<'w>], pod: &PodView) -> Option<&'b Budget<'w>> {
    let mut its = budgets.iter().filter(|b| b.has(pod));
    its.next().filter(|_| its.next().is_none())
}

/// Says by which budget the apiserver would refuse that a pod is evicted now, and why; `None` where it would not, or where that is
/// not known.
fn held_by(budgets: &[Budget<'_>], pod: &PodView) -> Option<String> {
    let api = pod.api.as_deref()?;
    // The apiserver looks at no budget for a pod that does not run (`canIgnorePDB`).
    let free = api.status.phase.is_over() || !api.is_bound() || pod.deletion_requested.is_some();
    if free {
        return None;
    }
    let its: Vec<&Budget<'_>> = budgets.iter().filter(|b| b.has(pod)).collect();
    let [budget] = its[..] else {
        let names: Vec<&str> = its.iter().map(|b| &*b.object.object.name).collect();
        let several = names.len() > 1;
        return several.then(|| {
            format!(
                "budgets {} select it, and the apiserver evicts no pod that has more than one",
                list(&names)
            )
        });
    };
    if !is_ready(api) && budget.lets_unready_go() {
        return None;
    }
    let why = budget.refuses()?;
    Some(format!("budget {}: {why}", budget.object.object.name))
}

/// Says which pods of a cordoned node no drain can evict now.
pub(in crate::diagnose) fn of_node(world: &World, node: &str) -> Option<String> {
    let budgets = Budget::all(world);
    let pods = world.pods().iter();
    let there = pods.filter(|p| p.gone.is_none() && p.node == node);
    let mut held: Vec<String> = there
        .filter_map(|p| Some(format!("{} ({})", p.key(), held_by(&budgets, p)?)))
        .collect();
    if held.is_empty() {
        return None;
    }
    let more = held.len().saturating_sub(NAMED);
    held.truncate(NAMED);
    if more > 0 {
        held.push(format!("{more} more"));
    }
    Some(format!(
        "A drain of it would wait, as disruption budgets let these pods not be evicted now: {}.",
        held.join("; ")
    ))
}

/// Says of a pod on a cordoned node that it cannot be evicted now.
pub(in crate::diagnose) fn of_pod(world: &World, pod: &PodView) -> Option<String> {
    let node = world.node(&pod.node)?;
    node.api.as_deref().filter(|n| n.unschedulable)?;
    let held = held_by(&Budget::all(world), pod)?;
    Some(format!(
        "Its node {} is cordoned, and the pod cannot be evicted now: {held}.",
        pod.node
    ))
}

/// Says what a budget lets happen now, and which of its pods are not healthy.
pub(in crate::diagnose) fn at_rest(world: &World, o: &ObjectState) -> Option<String> {
    let budget = Budget::of(o)?;
    let unready = unready(world, &budget);
    let unready = match unready.as_slice() {
        [] => String::new(),
        [one] => format!(" Not ready: pod {one}."),
        many => format!(" Not ready: pods {}.", list(many)),
    };
    if budget.count("expectedPods") == Some(0) {
        return Some("It selects no pods.".to_owned());
    }
    Some(match budget.refuses() {
        Some(why) => format!(
            "It lets no pod be evicted now: {why}; a drain of a node of its pods waits until it does.{unready}"
        ),
        None => {
            let allowed = budget.count("disruptionsAllowed")?;
            let pods = counted(allowed.into(), "pod");
            format!("It lets {pods} be evicted now.{unready}")
        }
    })
}

fn unready(world: &World, budget: &Budget<'_>) -> Vec<String> {
    let pods = world.pods().iter().filter(|p| p.gone.is_none());
    let its = pods.filter(|p| budget.has(p));
    let unready = its.filter(|p| p.api.as_deref().is_some_and(|p| !is_ready(p)));
    unready.map(|p| p.name.to_string()).collect()
}

/// Adds to a refused eviction which budget it is by, and why.
pub(super) fn refused(cx: Context<'_>, pod: &PodView, x: &mut Finding<'_>) {
    let budgets = Budget::all(cx.world);
    let Some(budget) = over(&budgets, pod) else {
        return;
    };
    x.names.set("budget", &budget.object.object.name);
    if let Some(why) = budget.refuses() {
        x.names.set("why", &why);
    }
    let unready = unready(cx.world, budget);
    if !unready.is_empty() {
        x.names.set("unready", &list(&unready));
    }
    let Some(e) = newest_state(budget.object) else {
        return;
    };
    let allowed = budget.api.fact("disruptionsAllowed").unwrap_or("?");
    x.proofs.push(Proof {
        what: format!(
            "disruption budget {}, disruptionsAllowed {allowed}",
            budget.object.object.name
        ),
        words: None,
        ..proof(e)
    });
}
