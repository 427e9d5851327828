//! What is told of one pod, for its replicas of which a row of a table is all that is known.
//!
//! A ticket has a table of all pods and the description of one. A row shows a status and no reason. Pods of one template that show
//! the same trouble have most likely one cause.

use rustc_hash::FxHashMap;

use super::finding::proof;
use super::{Confidence, Proof, State, Verdict};
use crate::correlate::{Pod, PodView, World, owners};
use kflow_model::{Body, Evidence, Nanos, PodUid, stamp::SECOND};

/// A younger pod may be starting as it should, ns. Chosen: longer than a start takes that pulls no image.
const YOUNG: i64 = 60 * SECOND;

/// The namespace of a pod, and its name up to the part that was generated: equal for the replicas of one template, as that is the
/// name of a ReplicaSet, a DaemonSet or a Job.
type Template<'w> = (&'w str, &'w str);

fn template(pod: &PodView) -> Option<Template<'_>> {
    Some((pod.namespace.as_str(), owners::generated(&pod.name)?))
}

/// True for a pod of which only rows of tables are known: these name no container.
fn is_row(pod: &PodView) -> bool {
    let names_none = |o: &Evidence| match &o.body {
        Body::Pod(p) => p.spec.containers.iter().all(|c| c.name.is_empty()),
        _ => false,
    };
    pod.api.is_some() && pod.gone.is_none() && pod.evidence.iter().all(names_none)
}

/// True for a verdict that is as true of another pod of the template: that is certain, and no call or other pod is waited for.
fn is_of_template(v: &Verdict) -> bool {
    v.cause.is_some()
        && v.confidence == Confidence::Certain
        && !v.state.is_well()
        && v.in_flight.is_none()
        && v.behind.is_none()
}

/// True for a pod that is not well and whose verdict, if there is one, rests on its status alone.
fn is_open(pod: &PodView, own: Option<&Verdict>, now: Nanos) -> bool {
    let tells = |v: &Verdict| v.confidence == Confidence::Certain || v.state.is_well();
    !own.is_some_and(tells) && now.since(pod.created) >= YOUNG && is_row(pod)
}

/// The verdicts on pods that are rows alone, by those on their replicas. `verdict`: that on a pod, if there is one. `is_well`: true for
/// a pod that is well and has none.
pub(super) fn told<'w>(
    world: &'w World,
    verdict: impl Fn(&PodUid) -> Option<&'w Verdict>,
    is_well: impl Fn(&PodUid) -> bool,
    now: Nanos,
) -> Vec<Verdict> {
    let mut known = Known::of(world);
    let from = |pod: &'w Pod| {
        let own = verdict(&pod.uid);
        if own.is_none() && is_well(&pod.uid) {
            return None;
        }
        let replicas = known.replicas(pod, own, now);
        let told = |replica: &Pod| alike(pod, own, replica, verdict(&replica.uid)?);
        replicas.into_iter().find_map(told)
    };
    world.pods().iter().filter_map(from).collect()
}

/// The pods of which more than a row is known, by template.
pub(super) struct Known<'w> {
    world: &'w World,
    /// Gathered when the first row asks.
    pods: Option<FxHashMap<Template<'w>, Vec<&'w Pod>>>,
}

impl<'w> Known<'w> {
    pub(super) fn of(world: &'w World) -> Self {
        Self { world, pods: None }
    }
    /// The replicas by which a pod can be told that is a row alone; none for another pod.
    pub(super) fn replicas(
        &mut self,
        pod: &PodView,
        own: Option<&Verdict>,
        now: Nanos,
    ) -> Vec<&'w Pod> {
        if !is_open(pod, own, now) {
            return Vec::new();
        }
        let world = self.world;
        let pods: &FxHashMap<_, Vec<_>> = self.pods.get_or_insert_with(|| {
            let mut pods: FxHashMap<_, Vec<_>> = FxHashMap::default();
            for pod in world.pods().iter().filter(|p| !is_row(p)) {
                if let Some(template) = template(pod) {
                    pods.entry(template).or_default().push(pod);
                }
            }
            pods
        });
        let known = template(pod).and_then(|template| pods.get(&template));
        known.cloned().unwrap_or_default()
    }
}

/// The verdict on a pod by that on a replica; `None` where the two show different trouble.
pub(super) fn alike(
    pod: &PodView,
    own: Option<&Verdict>,
    replica: &PodView,
    of: &Verdict,
) -> Option<Verdict> {
    let initialises = |pod: &PodView| pod.status.starts_with("Init:");
    let same = match own {
        Some(own) => own.stage == of.stage && initialises(pod) == initialises(replica),
        None => pod.status == replica.status,
    };
    if !same || !is_of_template(of) {
        return None;
    }
    let theirs = of.evidence.iter().map(|p| {
        let mut p = p.clone();
        p.what = format!("{} of {}", p.what, of.pod);
        p
    });
    let its = pod.evidence.iter().next_back().map(|row| Proof {
        what: format!("status {}", pod.status),
        ..proof(row)
    });
    Some(Verdict {
        uid: pod.uid.clone(),
        pod: pod.name.clone(),
        state: match of.state {
            State::BackingOff => own.map_or(State::Stuck, |own| own.state),
            state => state,
        },
        since: own.map_or(pod.created, |own| own.since),
        at_least: own.is_some_and(|own| own.at_least),
        attempt: 0,
        next_retry: None,
        recurrence: None,
        // Without how often, which is of the replica.
        sentence: of.same.clone(),
        evidence: its.into_iter().chain(theirs).collect(),
        node_state: None,
        confidence: Confidence::Likely,
        also: Vec::new(),
        ..of.clone()
    })
}
