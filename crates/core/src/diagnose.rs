//! Why a pod is not well: causes, rules, verdicts. The module reads the world and never changes it; it is pure, and
//! time is an argument.
//!
//! | part | owns |
//! |---|---|
//! | [`catalogue`], [`cause`] | the causes, as data: how each is recognised, what is said about it, what to do next; their ids |
//! | [`history`], [`signal`] | one pass over a pod's evidence: what the pod did last, what failed since, what is in flight |
//! | [`scheduler`], [`quantity`] | the scheduler's `FailedScheduling` message, resource quantities |
//! | [`limits`] | how long a rule waits before it reports something, with the source of each time |
//! | [`admission`] | who refused a request, and which webhooks were called for it |
//! | [`awaited`] | the calls and pods outside of a pod that had to end before its start could go on |
//! | [`pulls`] | which container waits for its image, and behind which pull |
//! | [`cluster`] | facts that concern several pods: a runtime that hangs, the health of nodes |
//! | [`rules`] | which causes are true; the first unfinished stage comes first |
//! | `replicas` | the verdict on a pod that only `kubectl get pods` shows, from the verdict on a replica of it |
//! | [`verdict`] | the verdict: what is said about a pod, owner or node |
//! | [`incidents`] | every verdict of a session, as intervals of time |
//! | [`unknown`] | what cannot be said, because the data for it could not be read |

pub mod admission;
pub mod awaited;
pub mod catalogue;
pub mod cause;
pub mod cluster;
pub mod finding;
pub mod history;
pub mod incidents;
pub mod limits;
pub mod pulls;
pub mod quantity;
mod replicas;
pub mod rules;
pub mod scheduler;
pub mod signal;
mod standing;
mod target;
pub mod text;
mod told;
pub mod unknown;
pub mod verdict;
mod well;

pub use catalogue::{Catalogue, Cause};
pub use cause::CauseId;
pub use incidents::{Incident, Incidents, Knowledge, Part, Subject, Walk};
pub use standing::{at_rest, node_state, own_state};
pub use target::{Target, find, namespace_asked, namespace_of, node_asked, owner_asked, pods_of};
pub use unknown::Unknown;
pub use verdict::{About, Confidence, InFlightCall, NextStep, Proof, Recurrence, State, Verdict};

use kflow_model::pod::{Condition, PodPhase};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::backoff;
use crate::correlate::{ObjectState, Pod, PodView, World};
use crate::parallel;
use cluster::Cluster;
use history::PodHistory;
use kflow_model::{Nanos, ObjectRef, PodUid, stamp::SECOND};
use rules::{Context, Health};
use told::Texts;
use well::{unexplained, well};

/// The verdicts on pods, by UID; and the verdicts on owners that cannot create pods, on nodes that are not well and on
/// claims that wait for a volume.
pub type Verdicts = (Arc<FxHashMap<PodUid, Arc<Verdict>>>, Arc<Vec<Arc<Verdict>>>);

/// The largest number of further causes that a verdict lists.
const ALSO: usize = 6;

/// The verdict on a pod that is not [`Said::quiet`] is made again after this time, ns, also when its evidence has not
/// changed: calls grow old, grace periods end.
const AGAIN_NS: i64 = SECOND;

/// The number of a healthy pod's newest observations that are searched for a refused deletion.
const LAST: usize = 8;

/// The newest verdict on a pod, and the view that it was made from.
#[derive(Debug)]
struct Said {
    /// Keeps the view alive, so that a new one cannot have its address.
    view: Pod,
    /// The moment as of which the verdict was made.
    at: Nanos,
    /// The pod is well, and time alone cannot change that: only new evidence can.
    quiet: bool,
    verdict: Option<Arc<Verdict>>,
}

/// Keeps verdicts up to date at a cost proportional to what changed.
///
/// A pod is diagnosed anew when its view has changed, when something that concerns several pods has changed, or, while
/// time alone can change its verdict, when a second has passed (calls grow old, grace periods end).
#[derive(Debug, Default)]
pub struct Diagnoser {
    said: FxHashMap<PodUid, Said>,
    fingerprint: u64,
    last: Verdicts,
}

impl Diagnoser {
    pub fn new() -> Self {
        Self::default()
    }
    /// Returns the verdicts on all pods that are not well or recovered in the last ten minutes, on owners and on
    /// nodes, as of `now`.
    pub fn update(&mut self, world: &World, now: Nanos) -> Verdicts {
        world.derive();
        let shared = Cluster::gather(world, now);
        let fingerprint = shared.fingerprint(now);
        let moved = fingerprint != self.fingerprint;
        self.fingerprint = fingerprint;
        let texts = Texts::default();
        let cx = Context {
            world,
            shared: &shared,
            texts: &texts,
            now,
        };
        let stale: Vec<&Pod> = world
            .pods()
            .iter()
            .filter(|pod| {
                self.said.get(&pod.uid).is_none_or(|s| {
                    let quiet = s.quiet && !(moved && nodeless(cx, pod));
                    !Arc::ptr_eq(&s.view, pod)
                        || !(quiet || (!moved && now >= s.at && now.since(s.at) < AGAIN_NS))
                })
            })
            .collect();
        let changed = !stale.is_empty() || self.said.len() != world.pods().len();
        let told = parallel::map_with(&stale, Texts::default, |texts, pod| {
            let cx = Context {
                world,
                shared: &shared,
                texts,
                now,
            };
            let (health, verdict) = pod_verdict(cx, pod);
            (health, verdict.map(Arc::new))
        });
        let new = world.pods().len().saturating_sub(self.said.len());
        self.said.reserve(new);
        for (pod, (health, verdict)) in stale.iter().copied().zip(told) {
            self.said.insert(
                pod.uid.clone(),
                Said {
                    view: pod.clone(),
                    at: now,
                    quiet: health == Health::Well && verdict.is_none() && over(pod),
                    verdict,
                },
            );
        }
        if self.said.len() > world.pods().len() {
            let known: rustc_hash::FxHashSet<&PodUid> =
                world.pods().iter().map(|p| &p.uid).collect();
            self.said.retain(|uid, _| known.contains(uid));
        }
        let pods = if changed {
            let said = self.said.iter();
            let mut pods: FxHashMap<PodUid, Arc<Verdict>> = said
                .filter_map(|(uid, s)| Some((uid.clone(), s.verdict.clone()?)))
                .collect();
            let verdict = |uid: &PodUid| self.said.get(uid)?.verdict.as_deref();
            let is_well = |uid: &PodUid| self.said.get(uid).is_some_and(|s| s.quiet);
            let told = replicas::told(world, verdict, is_well, now);
            pods.extend(told.into_iter().map(|v| (v.uid.clone(), Arc::new(v))));
            Arc::new(pods)
        } else {
            self.last.0.clone()
        };
        let mut claims = rules::claims(cx);
        claims.retain(|claim| !pods.values().any(|of: &Arc<Verdict>| tells(of, claim)));
        let others = rules::nodes(cx).into_iter().chain(rules::namespaces(cx));
        let others = others
            .chain(rules::owners(cx))
            .chain(rules::scale::autoscalers(cx));
        let others = others.chain(claims).chain(rules::claims_deleted(cx));
        let owners = Arc::new(others.map(Arc::new).collect());
        self.last = (pods, owners);
        self.last.clone()
    }
}

/// True when the verdict on a pod tells what the one on a claim does, by the same observation.
fn tells(of: &Verdict, claim: &Verdict) -> bool {
    let its = |p: &Proof| p.evidence.as_ref().map(Arc::as_ptr);
    let same = |p: &Proof| {
        let mut own = claim.evidence.iter();
        own.any(|o| o.evidence.is_some() && its(o) == its(p))
    };
    of.namespace == claim.namespace
        && (of.evidence.iter().any(same) || of.also.iter().any(|v| v.evidence.iter().any(same)))
}

/// True for a pod that, once well, stays well until new evidence comes.
fn over(p: &PodView) -> bool {
    p.gone.is_some() || p.phase == PodPhase::Succeeded || p.api.is_some()
}

/// True for a pod that is bound to a node that does not exist, so that no kubelet updates its status, `Ready` included.
fn nodeless(cx: Context<'_>, view: &PodView) -> bool {
    view.gone.is_none()
        && !view.phase.is_over()
        && !view.node.is_empty()
        && view.api.is_some()
        && cx.shared.missing(cx.world, &view.node).is_some()
}

/// Returns the pod's health, before any cause is looked for.
fn health(cx: Context<'_>, f: &PodHistory<'_>) -> Health {
    match rules::health(f) {
        Health::Well | Health::Flapping
            if nodeless(cx, f.view) && rules::no_node::missing(cx, f).is_some() =>
        {
            Health::Unwell
        }
        Health::Unwell if standing::completed_without(cx.world, f.view).is_some() => Health::Well,
        health => health,
    }
}

fn pod_verdict(cx: Context<'_>, view: &PodView) -> (Health, Option<Verdict>) {
    if quick(cx, view) && !nodeless(cx, view) {
        return (Health::Well, None);
    }
    if may_be_gone(cx, view) {
        return (Health::Unwell, None);
    }
    let f = PodHistory::gather(view, cx.now);
    let health = health(cx, &f);
    if health == Health::Well {
        let lately = |v: &Verdict| {
            v.state == State::Recovered
                && v.recurrence
                    .is_some_and(|r| cx.now.since(r.last) < backoff::FORGOTTEN_NS)
        };
        let over = view.gone.is_some()
            || f.removed.is_some()
            || view.deletion_requested.is_some()
            || view.phase == PodPhase::Succeeded;
        let told = (!over)
            .then(|| again(&f).unwrap_or_else(|| unknown::resting(cx.world, &f, well(&f, false))));
        return (health, told.filter(|v| lately(v) || v.cause.is_some()));
    }
    (health, worst(cx, &f, health))
}

/// True when the API alone shows that the pod is well and always was, so that its evidence need not be read.
fn quick(cx: Context<'_>, view: &PodView) -> bool {
    let now = cx.now;
    if view.gone.is_some() || stray(cx, view) {
        return true;
    }
    let Some(api) = view.api.as_deref() else {
        return false;
    };
    // The most expensive check comes last: a cheaper one recognises most pods that are not well.
    let calm = api.status.phase == PodPhase::Running
        && api.deletion.is_none()
        && view.deletion_requested.is_none()
        && api.statuses().all(|s| s.restarts == 0 && s.last.is_none())
        && view
            .containers
            .iter()
            .all(|c| c.attempt == 0 && (c.init || !c.state.is_terminated()))
        && api.condition("PodResizePending").is_none();
    let refused = || {
        let mut last = view.evidence.iter().rev().take(LAST);
        last.any(|o| {
            matches!(&o.body, kflow_model::Body::Audit(a) if history::refused_delete(a) || history::refused_eviction(a))
        })
    };
    // Ready for longer than the time for which a loss of readiness counts, or never unready since
    // it first became ready.
    let ready = |c: &Condition| {
        let long = |t| now.since(t) > backoff::FORGOTTEN_NS;
        c.is_true() && (c.transition.is_some_and(long) || never_unready(view))
    };
    // A liveness probe may fail while the pod is ready.
    let probed = |c: &Condition| {
        let ready_then = |t| c.transition.is_some_and(|ready| ready >= t);
        let recent = |t| now.since(t) < limits::EVENTS_REPEAT.ns && !ready_then(t);
        let killed = view.oom_killed;
        let is_over = |t| now.since(t) >= limits::EVENTS_REPEAT.ns;
        view.probe_failed.is_none_or(|t| !recent(t)) && killed.is_none_or(is_over)
    };
    let ready = |c: &Condition| probed(c) && ready(c);
    calm && !refused() && api.condition("Ready").is_some_and(ready)
}

/// True when no API state among the evidence shows the pod as not ready after one that shows it as ready.
fn never_unready(view: &PodView) -> bool {
    let mut was_ready = false;
    view.evidence.iter().all(|o| {
        let kflow_model::Body::Pod(p) = &o.body else {
            return true;
        };
        let ready = p.condition("Ready").is_some_and(Condition::is_true);
        let fell = was_ready && !ready;
        was_ready |= ready;
        !fell
    })
}

/// True for what only looks like a pod. Only its Events are left, and the API does not list it: the pod went before
/// kflow began to look. Or only a directory is left, which neither the API nor the kubelet's log mentions.
fn stray(cx: Context<'_>, view: &PodView) -> bool {
    use kflow_model::{Body, cri::ContainerEventKind};
    let only = |is: fn(&Body) -> bool| view.evidence.iter().all(|o| is(&o.body));
    let is_removal =
        |b: &Body| matches!(b, Body::ContainerEvent(c) if c.kind == ContainerEventKind::Deleted);
    // The runtime reports that the pod's sandbox was removed, and nothing shows that the kubelet ever
    // worked on the pod.
    let aside = |b: &Body| match b {
        Body::ContainerEvent(c) => c.kind == ContainerEventKind::Deleted,
        Body::Log(l) => !crate::flow::line(l).is_some_and(|l| {
            use crate::flow::Fact;
            matches!(
                l.fact(),
                Fact::PodAdded | Fact::SyncBegan | Fact::EventLogged
            )
        }),
        Body::Event(_) | Body::Fs(_) => true,
        _ => false,
    };
    let aside = view.containers.is_empty() && only(aside);
    let removed = aside && view.evidence.iter().any(|o| is_removal(&o.body));
    view.api.is_none()
        // The request to create it was refused: there is no pod.
        && (removed
            // It was made through the runtime alone (`crictl runp`): the kubelet never had it, and the API does not
            // list it.
            || aside && listed_without(cx, view)
            || only(|b| matches!(b, Body::Audit(a) if history::refused_create(a)))
            || (cx.shared.has_objects && only(|b| matches!(b, Body::Event(_))))
            || ((cx.shared.has_pods || cx.shared.has_log) && only(|b| matches!(b, Body::Fs(_)))))
}

/// True for a pod of which only Events tell, none of them of late: it may be gone as well as stuck, unless kubectl described it.
/// Where pods were listed after the logs of the node ended, also for one of which only these logs tell.
fn may_be_gone(cx: Context<'_>, view: &PodView) -> bool {
    use kflow_model::{Body, Source};
    let over = |at: Nanos| cx.now.since(at) >= limits::EVENTS_REPEAT.ns;
    let log_is_over = || {
        let sources = [Source::Kubelet, Source::Runtime];
        let mut ends = sources.iter().filter_map(|s| cx.world.source(*s).last);
        cx.shared.has_pods && ends.all(over)
    };
    let told = |with_logs: bool| {
        let mut bodies = view.evidence.iter().map(|o| &o.body);
        bodies.all(|b| matches!(b, Body::Event(_)) || (with_logs && matches!(b, Body::Log(_))))
    };
    let newest = || view.evidence.iter().map(|o| o.stamp.at).max();
    view.api.is_none()
        && !view.uid.is_described()
        && (told(false) || (log_is_over() && told(true)))
        && newest().is_some_and(over)
}

/// True when the list of pods is complete, and the pod has been missing from it for longer than a watch may lag.
fn listed_without(cx: Context<'_>, view: &PodView) -> bool {
    let coverage = cx.world.coverage();
    let first = view.evidence.first().map(|o| o.stamp.seen);
    coverage.incomplete("pods", None, cx.now).is_none()
        && first.is_some_and(|at| cx.now.since(at) > limits::NODE_APPEARS.ns)
}

fn worst(cx: Context<'_>, f: &PodHistory<'_>, health: Health) -> Option<Verdict> {
    let mut found = rules::diagnose(cx, f, health).into_iter();
    let Some(first) = found.next() else {
        return (health == Health::Flapping).then(|| unexplained(f));
    };
    let mut first = first.verdict(f);
    first.also = found.take(ALSO).map(|x| x.verdict(f)).collect();
    standing::add(cx, f.view, &mut first);
    let is_behind_node = first.behind.as_ref().is_some_and(|b| b.kind == "Node");
    if !is_behind_node && !f.view.phase.is_over() {
        first.node_state = cx.shared.idle(cx, &f.view.node).map(str::to_owned);
    }
    Some(first)
}

/// Returns the verdict on one pod as of `now`, also for a pod that is well ([`State::Healthy`], [`State::Recovered`])
/// or gone. `None` when the pod is not well yet and no rule has anything to say.
pub fn why(world: &World, pod: &PodView, now: Nanos) -> Option<Verdict> {
    why_each(world, [pod], now).next().flatten()
}

/// Returns the verdict on each of several pods as of `now`, as [`why`] does.
pub fn why_each<'p>(
    world: &World,
    pods: impl IntoIterator<Item = &'p PodView>,
    now: Nanos,
) -> impl Iterator<Item = Option<Verdict>> {
    let shared = Cluster::gather(world, now);
    let texts = Texts::default();
    let mut known = replicas::Known::of(world);
    pods.into_iter().map(move |pod| {
        let cx = Context {
            world,
            shared: &shared,
            texts: &texts,
            now,
        };
        let own = why_in(cx, pod);
        let replicas = known.replicas(pod, own.as_ref(), now);
        let told = replicas.into_iter().find_map(|replica| {
            let of = why_in(cx, replica)?;
            replicas::alike(pod, own.as_ref(), replica, &of)
        });
        told.or(own)
    })
}

/// The verdict on a pod that is well again, where somebody asks what was before.
fn again(f: &PodHistory<'_>) -> Option<Verdict> {
    let mut v = rules::killed_before(f)?.verdict(f);
    v.at_least = true;
    Some(v)
}

fn why_in(cx: Context<'_>, pod: &PodView) -> Option<Verdict> {
    let f = PodHistory::gather(pod, cx.now);
    if stray(cx, pod) {
        let refused = f.signals.iter().any(|s| s.reason == "FailedCreate");
        let told = worst(cx, &f, Health::Unwell).map(|v| Verdict {
            state: State::Failed,
            ..v
        });
        return told.filter(|_| refused).or_else(|| Some(well(&f, true)));
    }
    if may_be_gone(cx, pod) {
        return None;
    }
    match health(cx, &f) {
        Health::Well => {
            // The API shows a pod that has completed after its runtime has removed it.
            let gone = f.view.gone.is_some() || f.api.is_none() && f.removed.is_some();
            let mut told =
                again(&f).unwrap_or_else(|| unknown::resting(cx.world, &f, well(&f, gone)));
            if let Some(job) = standing::completed_without(cx.world, pod).filter(|_| !gone) {
                told.sentence = format!(
                    "The pod has failed, and {} is complete: nothing waits for it.",
                    finding::owner_arg(&job.object)
                );
            }
            let beside = (!gone).then(|| rules::budget::of_pod(cx.world, pod));
            if let Some(beside) = beside.flatten() {
                told.sentence = format!("{} {beside}", told.sentence);
            }
            Some(told)
        }
        health => worst(cx, &f, health),
    }
}

/// Returns the verdicts on what is not well because of others, by the verdicts on those: directly, or through further
/// ones. The order is that of namespaces and names.
pub fn followers(world: &World, of: &[Arc<Verdict>], now: Nanos) -> Vec<Arc<Verdict>> {
    let (pods, owners) = Diagnoser::new().update(world, now);
    let mut left: Vec<&Arc<Verdict>> = pods.values().chain(owners.iter()).collect();
    left.retain(|v| !v.state.is_well() && v.behind.is_some());
    left.sort_by_key(|v| (&v.namespace, &v.pod, &v.uid));
    let mut found: Vec<Arc<Verdict>> = Vec::new();
    let mut ahead: FxHashSet<About<'_>> = of.iter().filter_map(|v| v.about()).collect();
    let asked = ahead.clone();
    loop {
        let (next, rest): (Vec<_>, Vec<_>) =
            (left.into_iter()).partition(|v| v.follows().is_some_and(|of| ahead.contains(&of)));
        if next.is_empty() {
            return found;
        }
        ahead.extend(next.iter().filter_map(|v| v.about()));
        let new = next
            .into_iter()
            .filter(|v| v.about().is_none_or(|a| !asked.contains(&a)));
        found.extend(new.cloned());
        left = rest;
    }
}

/// Returns the verdict on a node; `None` when nothing shows that the node is not well.
pub fn why_node(world: &World, name: &str, now: Nanos) -> Option<Verdict> {
    asked(world, now, |cx| rules::node(cx, name))
}

/// Judges one thing that was asked for, as of `now`.
fn asked<T>(world: &World, now: Nanos, judge: impl FnOnce(Context<'_>) -> T) -> T {
    judge(Context {
        world,
        shared: &Cluster::gather(world, now),
        texts: &Texts::default(),
        now,
    })
}

/// Returns the verdict on an owner that cannot create pods, or that no controller works on; else `None`.
pub fn why_owner(world: &World, owner: &ObjectRef, now: Nanos) -> Option<Verdict> {
    let object = world.object(&owner.kind, &owner.namespace, &owner.name)?;
    asked(world, now, |cx| rules::owner(cx, object))
}

/// Returns the verdicts on the owners that this one has made: on the Jobs of a CronJob.
pub fn why_below(world: &World, owner: &ObjectState, now: Nanos) -> Vec<Verdict> {
    asked(world, now, |cx| rules::below(cx, owner))
}

/// The claims that wait and that no known pod mounts, beside those of [`Verdicts`]: the verdicts on those that are well,
/// as they wait for their first pod; and those of which nothing tells what they wait for.
pub fn claims_alone(world: &World, now: Nanos) -> (Vec<Verdict>, Vec<&ObjectState>) {
    asked(world, now, |cx| {
        let mut well = Vec::new();
        let mut untold = Vec::new();
        for o in rules::claims_alone(world, now) {
            match rules::claim(cx, o) {
                Some(v) => well.extend(v.state.is_well().then_some(v)),
                None => untold.push(o),
            }
        }
        (well, untold)
    })
}
