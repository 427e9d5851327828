//! Owners that cannot create their pods, owners that no controller works on, and Jobs that have failed.

use crate::diagnose::cause;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::OnceCell;

use super::refused::refused;
use super::{Context, claims, heard, jobs, kueue, namespace, scale, without_pod};
use crate::correlate::owners::{self, may_be_of};
use crate::correlate::{ObjectState, Pod};
use crate::diagnose::finding::{Finding, owner_arg, proof};
use crate::diagnose::history::PodHistory;
use crate::diagnose::limits;
use crate::diagnose::signal;
use crate::diagnose::{State, Verdict, standing};
use kflow_model::kind::{AUTOSCALER, BUDGET, CLAIM, CRON_JOB, NAMESPACE};
use kflow_model::object::ObjectSeen;
use kflow_model::{Body, Evidence, Nanos, ObjectRef, Source, pod::WatchEvent, stamp::SECOND};

/// A controller that runs reacts within a second.
const SILENT_NS: i64 = limits::CONTROLLER.ns;
/// Kinds of owners whose controllers are Kubernetes' own. An object of another kind is known as an owner by what its
/// controller says of the pods that it creates ([`creates_pods`]).
const KINDS: [&str; 6] = [
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "ReplicationController",
];

/// The reason of an Event and of the condition Progressing of a Deployment that cannot create a ReplicaSet (Kubernetes 1.36
/// `pkg/controller/deployment/sync.go`, `getNewReplicaSet`).
pub(super) const SET_REFUSED: &str = "ReplicaSetCreateError";

/// Returns the verdicts on all selected owners that cannot create pods, or have failed without a pod that tells it, by
/// namespace and owner.
pub fn owners(cx: Context<'_>) -> Vec<Verdict> {
    let mut out: Vec<Verdict> = Vec::new();
    let objects = cx.world.objects();
    let all = Owners::of(cx, &objects);
    for o in objects {
        // The verdict on a Deployment covers its ReplicaSets.
        let selected = cx.world.selection().admits_owner(&o.object.namespace);
        let is_owner = is_built_in(o) || cannot_create(o);
        let of_kueue = kueue::is_alone(cx, o) || kueue::is_suspended_set(o);
        let is_covered = parent(cx, o).is_some() || kueue::set_of(cx, o).is_some();
        if !selected || !(is_owner || of_kueue) || is_covered {
            continue;
        }
        out.extend(told(cx, o, &all));
    }
    out.sort_by(|a, b| (&a.namespace, &a.owner, &a.cause).cmp(&(&b.namespace, &b.owner, &b.cause)));
    out
}

fn is_built_in(o: &ObjectState) -> bool {
    KINDS.contains(&o.object.kind.as_str())
}

/// True when Kubernetes' own controllers make what the owner wants. A CronJob makes Jobs, at the times of its schedule: that nothing
/// happens does not show that its controller stands still.
pub(super) fn is_of_kubernetes(o: &ObjectState) -> bool {
    is_built_in(o) || o.object.kind == CRON_JOB
}

/// True when the object's controller has said that it cannot create a pod of it.
pub(in crate::diagnose) fn cannot_create(o: &ObjectState) -> bool {
    o.evidence.iter().any(|e| creates_pods(o, e))
}

/// True for an Event by which a controller says that it cannot create a pod of this object. Controllers of other projects
/// have reasons of their own (ray-project/kuberay `ray-operator/controllers/ray/utils/constant.go`,
/// `FailedToCreateWorkerPod`; kubevirt/kubevirt `pkg/virt-controller/watch/vmi/lifecycle.go`, `FailedCreate`); the error in
/// it is the apiserver's (k8s.io/apimachinery `pkg/api/errors/errors.go`, `NewForbidden`, `NewInvalid`).
pub(super) fn creates_pods(o: &ObjectState, e: &Evidence) -> bool {
    let Body::Event(e) = &e.body else {
        return false;
    };
    if is_of_kubernetes(o) {
        return e.reason == "FailedCreate" || e.reason == SET_REFUSED;
    }
    // The claim's provisioner makes pods of its own, which are not the claim's.
    let never = [
        "Pod",
        "PersistentVolumeClaim",
        "Node",
        "Namespace",
        "Workload",
    ];
    if !e.warning || never.contains(&o.object.kind.as_str()) {
        return false;
    }
    let says = e.reason.starts_with("Failed") && e.reason.contains("Create");
    signal::refuses_pod(&e.message) || (says && signal::is_creating_pod(&e.message))
}

/// Returns the Deployment of a ReplicaSet; `None` for another kind, or when the Deployment is not known.
fn parent<'w>(cx: Context<'w>, rs: &ObjectState) -> Option<&'w ObjectState> {
    if rs.object.kind != "ReplicaSet" {
        return None;
    }
    let name = match rs.api.as_ref().and_then(|a| a.owner.clone()) {
        Some(o) => o.name,
        // `web-7849b8659f`: the hash of the pod template comes last.
        None => rs.object.name.rsplit_once('-')?.0.into(),
    };
    cx.world.object("Deployment", &rs.object.namespace, &name)
}

/// What is needed about all owners together, computed once.
pub(super) struct Owners<'w> {
    /// ReplicaSets by the namespace and name of their Deployment.
    children: FxHashMap<(&'w str, &'w str), Vec<&'w ObjectState>>,
    /// Kinds of which the API has shown objects.
    listed: FxHashSet<&'w str>,
    /// When a pod of each owner was last created, by the owner's namespace, kind and name: the pod's controller, or,
    /// where that is not known, as in a table of pods, each owner whose pods have such names.
    created: OnceCell<FxHashMap<(&'w str, &'w str, &'w str), Nanos>>,
}

impl<'w> Owners<'w> {
    fn of(cx: Context<'w>, objects: &[&'w ObjectState]) -> Self {
        let mut all = Self {
            children: FxHashMap::default(),
            listed: FxHashSet::default(),
            created: OnceCell::new(),
        };
        for o in objects {
            if o.api.is_some() {
                all.listed.insert(&o.object.kind);
            }
            if let Some(p) = parent(cx, o) {
                all.children
                    .entry((&p.object.namespace, &p.object.name))
                    .or_default()
                    .push(o);
            }
        }
        all
    }
    /// Returns when a pod of the owner was last created.
    pub(super) fn created(&self, cx: Context<'w>, owner: &ObjectRef) -> Option<Nanos> {
        let all = self.created.get_or_init(|| {
            let mut all = FxHashMap::default();
            for pod in cx.world.every_pod() {
                let Some(api) = pod.api.as_deref() else {
                    continue;
                };
                let mut of = |kind: &'w str, name: &'w str| {
                    let key = (pod.namespace.as_str(), kind, name);
                    let newest = all.entry(key).or_insert(api.created);
                    *newest = api.created.max(*newest);
                };
                match &api.owner {
                    Some(owner) => of(&owner.kind, &owner.name),
                    None => may_be_of(&pod.name).into_iter().for_each(|(k, n)| of(k, n)),
                }
            }
            all
        });
        let key = (
            owner.namespace.as_str(),
            owner.kind.as_str(),
            owner.name.as_str(),
        );
        all.get(&key).copied()
    }
}

/// Returns the verdict on one owner; `None` when it has no trouble creating pods. Of a claim that no pod mounts, what it
/// waits for.
pub fn owner(cx: Context<'_>, o: &ObjectState) -> Option<Verdict> {
    match o.object.kind.as_str() {
        CLAIM => {
            let alone = super::claims_alone(cx.world, cx.now);
            let alone = alone.iter().any(|a| a.object == o.object);
            let waits = || super::claim(cx, o).filter(|_| alone);
            claims::stays(cx, o).or_else(waits)
        }
        NAMESPACE => namespace::namespace(cx, o),
        AUTOSCALER => scale::autoscaler(cx, o),
        BUDGET => None,
        _ => told(cx, o, &Owners::of(cx, &cx.world.objects())),
    }
}

/// Returns the verdicts on what an owner has made and what makes its pods, but for a Deployment's ReplicaSets, which its own
/// verdict covers: on the Jobs of a CronJob, and on an owner's autoscalers. Of a namespace, on all that is in it but pods.
pub fn below(cx: Context<'_>, o: &ObjectState) -> Vec<Verdict> {
    if o.object.kind == NAMESPACE {
        let mut all = owners(cx);
        all.extend(scale::autoscalers(cx));
        all.extend(claims::claims(cx).into_iter().chain(claims::deleted(cx)));
        all.retain(|v| v.namespace == o.object.name);
        return all;
    }
    let objects = cx.world.objects();
    let all = Owners::of(cx, &objects);
    let is_it = |x: &ObjectRef| {
        x.kind == o.object.kind && x.name == o.object.name && x.namespace == o.object.namespace
    };
    let is_below = |c: &&ObjectState| above(cx, c).iter().any(is_it) && parent(cx, c).is_none();
    let mut below: Vec<&ObjectState> = objects.iter().copied().filter(is_below).collect();
    below.retain(|c| is_built_in(c) || cannot_create(c));
    let told = below.into_iter().filter_map(|c| told(cx, c, &all));
    told.chain(scale::below(cx, &o.object)).collect()
}

/// Returns the owners of an owner, upwards: the CronJob of a Job.
fn above(cx: Context<'_>, o: &ObjectState) -> Vec<ObjectRef> {
    let above = |of: &ObjectRef| {
        let object = cx.world.object(&of.kind, &of.namespace, &of.name)?;
        object.api.as_ref()?.owner.clone()
    };
    let made = o.api.as_ref().and_then(|api| api.owner.as_ref());
    made.map_or_else(Vec::new, |made| {
        owners::chain(made, &o.object.namespace, above)
    })
}

fn told<'w>(cx: Context<'w>, o: &ObjectState, all: &Owners<'w>) -> Option<Verdict> {
    if gone(o) || unlisted(all, o) {
        return None;
    }
    let none = Vec::new();
    let children = if o.object.kind == "Deployment" {
        all.children
            .get(&(o.object.namespace.as_str(), o.object.name.as_str()))
            .unwrap_or(&none)
    } else {
        &none
    };
    let created = (o.api.as_ref().map(|a| a.created))
        .or_else(|| o.evidence.first().map(|e| e.stamp.at))
        .unwrap_or(cx.now);
    let view = without_pod(o, &o.object.namespace, created);
    let f = PodHistory::gather(&view, cx.now);
    let own = std::iter::once(o).chain(children.iter().copied());
    let x = own
        .filter_map(|s| refused(cx, &f, s, all))
        .max_by_key(|x| x.proofs.first().map(|p| p.at))
        // What a controller of another project does at once is not known.
        .or_else(|| is_built_in(o).then(|| ignored(cx, &f, o, children))?)
        .or_else(|| kueue::suspended(cx, &f, o))
        .or_else(|| kueue::alone(cx, &f, o));
    let of = |x: Finding<'_>| {
        let mut v = x.name("owner", &owner_arg(&o.object)).verdict(&f);
        v.owner = Some(o.object.clone());
        v.root = above(cx, o).last().cloned();
        // A table of Events, or a message alone, may not say since when.
        let undated = |e: &Evidence| matches!(&e.body, Body::Event(e) if e.first.is_none());
        v.at_least |= o.api.is_none() && o.evidence.first().is_some_and(undated);
        // A status that no controller has written lately says nothing of now.
        let is_old = v.state == State::Failed || v.cause == Some(cause::KF110);
        v.owner_state = standing::said(o).filter(|_| !is_old);
        v
    };
    // Nothing is tried any more for a Job that has failed.
    if let Some(failed) = jobs::without_pods(cx, &f, o) {
        let mut v = of(failed);
        v.also.extend(x.map(of));
        return Some(v);
    }
    let x = x?;
    let wanted = format!("create {}", x.names.get("made").unwrap_or("a pod"));
    let mut v = of(x);
    v.not_reached = vec![wanted.into()];
    Some(v)
}

/// True when the object was deleted and no other one of its name was created since.
pub(in crate::diagnose) fn gone(o: &ObjectState) -> bool {
    o.api
        .as_ref()
        .is_some_and(|a| a.event == WatchEvent::Deleted)
        || deleted(o).is_some_and(|at| !is_anew(o, at))
}

/// Returns when a request last deleted an object of this name.
fn deleted(o: &ObjectState) -> Option<Nanos> {
    let deletions = o.evidence.iter().filter(|e| is_done(e, o, "delete"));
    deletions.map(|e| e.stamp.at).max()
}

/// True when an object of this name was created after `deleted`. The API truncates the time of creation to the second.
fn is_anew(o: &ObjectState, deleted: Nanos) -> bool {
    o.evidence.iter().any(|e| match &e.body {
        Body::Object(s) => s.created.plus(SECOND) > deleted,
        _ => e.stamp.at > deleted && is_done(e, o, "create"),
    })
}

/// True for a request of this verb on the object itself that went well.
fn is_done(e: &Evidence, o: &ObjectState, verb: &str) -> bool {
    matches!(&e.body, Body::Audit(a) if a.verb == verb && (200..300).contains(&a.code) && !a.resource.contains('/') && plural_is(&a.resource, &o.object))
}

/// Returns the evidence of the object that exists, without that of a deleted one of the same name.
pub(super) fn of_this_one(o: &ObjectState) -> impl Iterator<Item = &Evidence> {
    let deleted = deleted(o);
    let is_later = move |e: &&Evidence| deleted.is_none_or(|at| e.stamp.at > at);
    o.evidence.iter().filter(is_later)
}

/// True for an owner that the API has not shown, and that is named by Events alone.
pub(in crate::diagnose) fn events_alone(o: &ObjectState) -> bool {
    o.api.is_none() && o.evidence.iter().all(|e| matches!(e.body, Body::Event(_)))
}

/// True when only Events of the owner are left: the API lists owners of its kind, and it is not among them.
fn unlisted(all: &Owners<'_>, o: &ObjectState) -> bool {
    events_alone(o) && all.listed.contains(o.object.kind.as_str())
}

fn plural_is(resource: &str, o: &ObjectRef) -> bool {
    resource
        .strip_suffix('s')
        .is_some_and(|r| r.eq_ignore_ascii_case(&o.kind))
}

/// Returns a finding when no controller has reacted to the owner since it was created or changed.
fn ignored<'a>(
    cx: Context<'_>,
    f: &PodHistory<'a>,
    o: &ObjectState,
    children: &[&ObjectState],
) -> Option<Finding<'a>> {
    let mut asked: Option<(Nanos, &Evidence)> = None;
    let mut answered: Option<Nanos> = None;
    for e in of_this_one(o) {
        let at = e.stamp.at;
        match &e.body {
            Body::Audit(a) if (200..300).contains(&a.code) => {
                if a.user.contains("controller") {
                    answered = Some(at);
                } else if a.verb == "create" && asked.is_none() {
                    asked = Some((at, e));
                }
            }
            Body::Event(_) => answered = Some(at),
            Body::Object(s) => {
                // A Job has no observed generation: the counts in its status show that its controller has seen it.
                let counted = ["startTime", "active", "succeeded", "failed"]
                    .iter()
                    .any(|k| s.fact(k).is_some());
                if s.generation > s.observed_generation && !counted {
                    if asked.is_none_or(|(t, _)| answered.is_some_and(|a| a > t)) {
                        // Of a later change nothing tells the time but its arrival.
                        let new = s.generation == 1 && s.created.0 > 0;
                        asked = Some((if new { s.created.min(at) } else { at }, e));
                    }
                } else {
                    answered = Some(at);
                }
            }
            _ => {}
        }
    }
    // Of one that is deleted they wait for its pods and finalizers, and do not count its generations any more.
    if standing::there(o).is_some_and(|api| api.deletion.is_some()) {
        return None;
    }
    if let Some(x) = uncounted(cx, f, o, children) {
        return Some(x);
    }
    let (at, e) = asked?;
    // What was there before a change does not show that anything reacts to it.
    let made = |uid| {
        let created = cx
            .world
            .pod(uid)
            .and_then(|p| Some(p.api.as_ref()?.created));
        created.is_none_or(|created| created.plus(SECOND) > at)
    };
    let is_later = |e: &Evidence| match &e.body {
        Body::Object(s) if s.event == WatchEvent::Listed => s.created.plus(SECOND) > at,
        _ => e.stamp.at >= at,
    };
    let mut of_children = children.iter().flat_map(|c| c.evidence.iter());
    let worked =
        answered.is_some_and(|t| t >= at) || o.pods.iter().any(made) || of_children.any(is_later);
    // An owner that wants no pods needs no reaction.
    if worked || scaled_to_nothing(o) {
        return None;
    }
    let heard = heard::controllers(cx);
    // A controller needs some time to react. When something was changed before this look began, nobody knows.
    let is_change = |s: &ObjectSeen| s.event == WatchEvent::Listed && s.generation > 1;
    let x = match &e.body {
        Body::Object(s) if is_change(s) => {
            let silent = cx.now.since(at) >= SILENT_NS;
            if !silent && !heard.as_ref().is_some_and(|h| is_away(cx, h)) {
                return None;
            }
            let x = Finding::new(cause::KF110, f).seen_only(cx.now);
            if silent { x.since(at) } else { x }
        }
        _ if cx.now.since(at) < SILENT_NS => return None,
        _ => Finding::new(cause::KF110, f).since(at),
    };
    let mut x = x.absence(
        at,
        Source::Kube,
        format!(
            "no event, no request of a controller and no pod of {} since",
            owner_arg(&o.object)
        ),
    );
    x.proofs.insert(0, proof(e));
    if let Body::Object(s) = &e.body
        && s.observed_generation > 0
    {
        let (new, seen) = (s.generation, s.observed_generation);
        x.names.set(
            "changed",
            &format!("its generation {new} was not taken up (its status is of generation {seen})"),
        );
    }
    let Some(manager) = manager(o) else {
        x = x.name("builtin", BUILTIN);
        let Some(h) = heard else { return Some(x) };
        let runs = h.at > at && cx.now.since(h.at) < limits::LEADER.ns;
        x = x
            .varying(if runs { "renewed" } else { "heard" }, &h.in_words(cx.now))
            .proof_if(h.evidence.as_ref());
        return Some(x);
    };
    let left =
        format!("spec.managedBy leaves it to {manager}, and no event and no pod of it exist");
    Some(x.name("changed", &left).name("manager", manager))
}

/// What works on owners of Kubernetes' own kinds.
const BUILTIN: &str = "the controller-manager";

/// Who runs a Job in the built-in controller's place, by its `spec.managedBy` (Kubernetes 1.36
/// `pkg/controller/job/job_controller.go`, `controllerName`).
fn manager(o: &ObjectState) -> Option<&str> {
    let manager = o.api.as_ref()?.fact("managedBy")?;
    (manager != "kubernetes.io/job-controller").then_some(manager)
}

/// Returns a finding when pods of a ReplicaSet ended and its status still counts them: its controller writes it, and makes new
/// pods, within a second (Kubernetes 1.36 `pkg/controller/replicaset/replica_set.go`, `syncReplicaSet`).
fn uncounted<'a>(
    cx: Context<'_>,
    f: &PodHistory<'a>,
    o: &ObjectState,
    children: &[&ObjectState],
) -> Option<Finding<'a>> {
    let sets = || std::iter::once(o).chain(children.iter().copied());
    let (set, counted, left, since) = sets().find_map(|set| {
        // A StatefulSet counts the pods that end, too (pkg/controller/statefulset/stateful_set_control.go, `updateStatus`).
        let counts_all = match set.object.kind.as_str() {
            "ReplicaSet" => false,
            "StatefulSet" => true,
            _ => return None,
        };
        let api = standing::there(set)?;
        let count = |fact: &str| api.fact(fact)?.parse::<usize>().ok();
        let counted = count("statusReplicas").filter(|n| count("replicas") >= Some(*n))?;
        let pods: Vec<_> = set
            .pods
            .iter()
            .filter_map(|uid| cx.world.pod(uid))
            .collect();
        let ended = |p: &&&Pod| {
            let ends = p.deletion_requested.is_some() || p.phase.is_over();
            p.gone.is_some() || ends && !counts_all
        };
        let left = pods.iter().filter(|p| !ended(p)).count();
        let ended = pods.iter().filter(ended);
        let last = ended.filter_map(|p| p.deletion_requested.or(p.gone)).max();
        (left < counted).then_some((set, counted, left, last))
    })?;
    let coverage = cx.world.coverage();
    let scope = cx.world.selection().scope();
    // On other nodes, or with other labels, it may have more pods than are looked at.
    if scope.node.is_some() || !scope.labels.is_empty() || !scope.fields.is_empty() {
        return None;
    }
    let followed = |resource: &str| coverage.incomplete(resource, Some(scope), cx.now).is_none();
    let kind = if set.object.kind == "ReplicaSet" {
        "replicasets"
    } else {
        "statefulsets"
    };
    if !followed("pods") || !followed(kind) {
        return None;
    }
    let heard = heard::controllers(cx);
    // Of a pod that went before this look nobody knows when: the two lists may be of before it and after it.
    let x = Finding::new(cause::KF110, f);
    let x = match since {
        Some(since) if cx.now.since(since) >= SILENT_NS => x.since(since),
        None if heard.as_ref().is_some_and(|h| is_away(cx, h)) => x.seen_only(cx.now),
        // What both lists showed has not changed since.
        None => {
            let listed = coverage
                .newest_list("pods")
                .max(coverage.newest_list(kind))?;
            if cx.now.since(listed) < SILENT_NS {
                return None;
            }
            x.seen_only(cx.now)
        }
        Some(_) => return None,
    };
    let name = owner_arg(&set.object);
    let changed = format!("{name} still counts {counted} pods, and {left} of them are there");
    let x = x.name("changed", &changed).name("builtin", BUILTIN);
    let x = match super::newest_state(set) {
        Some(e) => x.proof_as(e, format!("{name}, its status says {counted} replicas")),
        None => x,
    };
    let Some(h) = heard else { return Some(x) };
    let runs = since.is_some_and(|since| h.at > since) && cx.now.since(h.at) < limits::LEADER.ns;
    let key = if runs { "renewed" } else { "heard" };
    Some(
        x.varying(key, &h.in_words(cx.now))
            .proof_if(h.evidence.as_ref()),
    )
}

/// True where the controller-manager has not renewed its lease in time.
fn is_away(cx: Context<'_>, h: &heard::Heard) -> bool {
    cx.now.since(h.at) >= 2 * limits::LEADER.ns
}

fn scaled_to_nothing(o: &ObjectState) -> bool {
    o.api.as_ref().is_some_and(|a| {
        a.fact("suspend") == Some("true")
            || (a.fact("replicas") == Some("0") && a.generation <= a.observed_generation)
    })
}
