//! Pods and Jobs that Kueue holds: its scheduling gates, Jobs that it keeps suspended, and what it says of the Workload
//! that stands for them.

use super::Context;
use crate::correlate::{ObjectState, World};
use crate::diagnose::Confidence;
use crate::diagnose::cause;
use crate::diagnose::finding::{Finding, owner_arg};
use crate::diagnose::history::PodHistory;
use crate::diagnose::limits;
use crate::diagnose::text::list;
use crate::flow::Stage;
use kflow_model::pod::{Condition, PodSeen, WatchEvent};
use kflow_model::{Body, Evidence, Nanos, Text, event::EventSeen, object::ObjectSeen};
use rustc_hash::{FxHashMap, FxHashSet};

/// Prefix of Kueue's scheduling gates. What one of them waits for is in its whole name: `kueue.x-k8s.io/elastic-job`
/// (`apis/kueue/v1beta1/constants.go`, `ElasticJobSchedulingGate`) does not wait for the admission.
const GATES: &str = "kueue.x-k8s.io/";
/// The gate that Kueue removes when it has admitted the pod's Workload (kubernetes-sigs/kueue
/// `pkg/controller/jobs/pod/constants/constants.go`, `SchedulingGateName`).
const ADMISSION: &str = "kueue.x-k8s.io/admission";
/// Label with the LocalQueue that the pod waits in (`pkg/controller/constants/constants.go`, `QueueLabel`).
const QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Label with the group that the pod is in; the group's Workload has the same name
/// (`pkg/controller/jobs/pod/constants/constants.go`, `GroupNameLabel`).
const GROUP: &str = "kueue.x-k8s.io/pod-group-name";
/// Begin of Kueue's Event message on the object that a Workload was created for
/// (`pkg/controller/jobframework/reconciler.go`).
const CREATED: &str = "Created Workload: ";
/// The gate that Kueue removes after admission, when it has given the pod a place in its topology
/// (`apis/kueue/v1beta2/topology_types.go`, `TopologySchedulingGate`; `pkg/controller/tas/topology_ungater.go`).
const TOPOLOGY: &str = "kueue.x-k8s.io/topology";
/// Kinds of jobs that Kueue keeps suspended and of which `spec.suspend` is read; it makes one Workload for all Jobs of a JobSet
/// (`pkg/controller/jobs/jobset/jobset_controller.go`).
const JOBS: [&str; 2] = ["Job", JOBSET];
const JOBSET: &str = "JobSet";
/// Reasons of Events that say that a Workload gets on (`pkg/scheduler/scheduler.go`, `admit`).
const GETS_ON: [&str; 2] = ["QuotaReserved", "Admitted"];

pub(super) fn rules<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let Some(pod) = f.api else { return };
    let gates = &pod.spec.scheduling_gates;
    let held = gates.iter().filter(|g| g.starts_with(GATES)).count();
    if held == 0 {
        return;
    }
    let mut x = Finding::new(cause::KF231, f).proof_if(f.api_evidence);
    if held == gates.len() {
        found.retain(|k| k.cause.id != cause::KF220);
    } else {
        // Other gates hold the pod as well. They come first, because Kueue does not remove them.
        x.rank = 79;
        for k in found.iter_mut().filter(|k| k.cause.id == cause::KF220) {
            k.alone = false;
        }
    }
    if let Some(queue) = label(pod, QUEUE) {
        x.names.set("queue", queue);
    }
    let workload = workload(cx, f, pod);
    let admitted = workload
        .as_ref()
        .and_then(|name| cx.world.object("Workload", &f.view.namespace, name))
        .and_then(admitted);
    let own = || gates.iter().filter(|g| g.starts_with(GATES));
    let topology_only = own().all(|g| g == TOPOLOGY);
    let waits = own().any(|g| g == ADMISSION);
    // A Job's pods exist, and those of a pod group have lost their other gate, once the Workload is admitted.
    let past = match admitted {
        Some(admitted) => admitted,
        None => topology_only,
    };
    if !waits || past {
        let left: Vec<&Text> = own().collect();
        let left = match left.as_slice() {
            [one] => format!("gate {one}"),
            many => format!("gates {}", list(many)),
        };
        let said = match (past, topology_only) {
            (true, true) => format!(
                "Kueue has admitted the pod and has given it no place in its topology: {left} is left"
            ),
            (true, false) => {
                format!(
                    "Kueue has admitted the pod's Workload, and has not taken {left} off the pod"
                )
            }
            (false, _) if admitted.is_some() => {
                format!("Kueue holds the pod by {left}, and has not admitted its Workload")
            }
            (false, _) => format!("Kueue holds the pod by {left}"),
        };
        x.names.set("held", &said);
        x.names.remove("queue");
        if past && topology_only {
            x.names.set("placeless", TOPOLOGY);
        } else if past {
            x.names.set("left", &left);
        }
    }
    // What is not known of a gate is not made up of what other gates wait for.
    let known = waits || topology_only || admitted == Some(false);
    let mut x = told(cx, &f.view.namespace, workload, past, known, x);
    // Why Kueue has made no Workload yet.
    if let Some(i) = found.iter().position(|k| k.cause.id == cause::KF231) {
        let why = found.remove(i);
        if !past && x.names.get("what").is_none() {
            x.names.remove("unheard");
            x.names.remove("workload");
            x.names.remove("waits");
            for (key, value) in why.names.iter() {
                x.names.set(key, value);
            }
            x.proofs.extend(why.proofs);
        }
    }
    found.push(x);
}

/// True when Kueue has made the pod's Workload after a moment, or does not hold the pod any more: its warning about a group that
/// is not complete stays.
pub(super) fn is_composed(f: &PodHistory<'_>, at: Nanos) -> bool {
    let mut later = f.view.evidence.iter().filter(|o| o.stamp.at >= at);
    let is_held = |p: &PodSeen| p.spec.scheduling_gates.iter().any(|g| g.starts_with(GATES));
    later.any(|o| created(o).is_some()) || f.api.is_some_and(|p| !is_held(p))
}

/// Whether Kueue has admitted a Workload, by its conditions or else its Events; `None` while nothing says so.
fn admitted(o: &ObjectState) -> Option<bool> {
    let is = |kind: &str| {
        let conditions = o.api.iter().flat_map(|w| &w.conditions);
        let mut of_kind = conditions.filter(|c| c.kind == kind);
        of_kind.next().map(Condition::is_true)
    };
    let by_condition = is("Admitted").or_else(|| is("QuotaReserved").filter(|reserved| !reserved));
    let by_event = || {
        let mut newest = o.evidence.iter().rev().filter_map(|o| match &o.body {
            Body::Event(e) => Some(e.reason == "Admitted"),
            _ => None,
        });
        newest.next().filter(|admitted| *admitted)
    };
    by_condition.or_else(by_event)
}

/// Adds what is known of the Workload to a finding. `admitted`: what it says of a time before its admission is over.
/// `silence`: the pod is known to wait for it, so that it is told too when nothing was heard of it.
fn told<'a>(
    cx: Context<'_>,
    namespace: &str,
    workload: Option<Text>,
    admitted: bool,
    silence: bool,
    mut x: Finding<'a>,
) -> Finding<'a> {
    if !admitted && silence {
        x.names.set("waits", "waits");
    }
    let Some(name) = workload else {
        if silence {
            x.names.set("unheard", "no Workload of it was heard of");
        }
        return x.at_most(Confidence::Likely);
    };
    x.names.set("workload", &name);
    let object = cx.world.object("Workload", namespace, &name);
    let api = object.and_then(|o| {
        o.api.as_ref().zip(
            o.evidence
                .iter()
                .rev()
                .find(|e| matches!(e.body, Body::Object(_))),
        )
    });
    if let Some((w, proof)) = api.filter(|_| !admitted) {
        let checks = checks(w);
        let refused = w.condition("QuotaReserved").filter(|c| !c.is_true());
        let inactive = w.fact("active") == Some("false");
        if inactive || !checks.is_empty() {
            let says: Vec<String> = checks.iter().map(|(_, says)| says.clone()).collect();
            let says = if inactive {
                vec!["the Workload is not active any more".to_owned()]
            } else {
                says
            };
            x.names.set("what", &list(&says));
            if let Some((check, _)) = checks.first().filter(|_| !inactive) {
                x.names.set("check", check);
            }
            return x.proof(proof);
        }
        if let Some(c) = refused.filter(|c| !c.message.is_empty()) {
            x = x.proof(proof);
            x.names
                .set("condition", c.message.trim_end_matches(['.', ' ']));
        }
    }
    let said = object.and_then(|o| newest(o, admitted));
    let condition = x.names.get("condition").map(str::to_owned);
    match (said, condition) {
        (Some((o, e)), _) => {
            x.names.set("what", e.message.trim_end_matches(['.', ' ']));
            x = x.proof(o);
        }
        (None, Some(condition)) => x.names.set("what", &condition),
        (None, None) if admitted || !silence => {}
        (None, None) => x
            .names
            .set("unheard", "no Event of the Workload was seen that says why"),
    }
    x
}

/// Returns the admission checks of a Workload that are not ready, each with what it says.
fn checks(w: &ObjectSeen) -> Vec<(String, String)> {
    let states = w.facts.iter().filter_map(|(key, state)| {
        let name = key.strip_prefix("check.")?.strip_suffix(".state")?;
        (state != "Ready").then_some((name, state))
    });
    let says = states.map(|(name, state)| {
        let how = match state.as_str() {
            "Retry" => "has failed and is to be tried again",
            "Rejected" => "has rejected it",
            _ => "is not done",
        };
        let message = w.fact(&format!("check.{name}.message"));
        let message = message.filter(|m| !m.is_empty());
        let why = message.map_or(String::new(), |m| {
            format!(": {}", m.trim_end_matches(['.', ' ']))
        });
        (
            name.to_owned(),
            format!("admission check {name} {how}{why}"),
        )
    });
    says.collect()
}

/// True for a JobSet that is suspended. Its controller suspends the Jobs that it makes (kubernetes-sigs/jobset
/// `pkg/controllers/jobset_controller.go`, `constructJob`).
pub(in crate::diagnose) fn is_suspended_set(o: &ObjectState) -> bool {
    o.object.kind == JOBSET && is_suspended(o)
}

fn is_suspended(o: &ObjectState) -> bool {
    let job = o
        .api
        .as_ref()
        .filter(|_| JOBS.contains(&o.object.kind.as_str()));
    job.is_some_and(|job| job.fact("suspend") == Some("true"))
}

/// Returns the suspended JobSet that a Job is of.
pub(super) fn set_of<'w>(cx: Context<'w>, job: &ObjectState) -> Option<&'w ObjectState> {
    let by = job.api.as_ref()?.owner.as_ref()?;
    let set = cx.world.object(&by.kind, &job.object.namespace, &by.name);
    set.filter(|set| is_suspended_set(set))
}

/// Returns a finding for a Job or a JobSet that Kueue keeps suspended until its Workload is admitted
/// (`pkg/controller/jobframework/reconciler.go`, `stopJob`).
pub(super) fn suspended<'a>(
    cx: Context<'_>,
    f: &PodHistory<'a>,
    o: &ObjectState,
) -> Option<Finding<'a>> {
    let job = o.api.as_ref().filter(|_| is_suspended(o))?;
    if cx.now.since(job.created) < limits::CONTROLLER.ns {
        return None;
    }
    if let Some(set) = set_of(cx, o) {
        return suspended(cx, f, set);
    }
    let workload = owned_by(cx, &o.object).or_else(|| created_for(o));
    let queue = job.fact("queue");
    if workload.is_none() && queue.is_none() {
        return None;
    }
    let w = workload
        .as_ref()
        .and_then(|w| cx.world.object("Workload", &o.object.namespace, w));
    if w.and_then(admitted) == Some(true) {
        return None;
    }
    let mut x = Finding::new(cause::KF231, f)
        .at(Stage::Api)
        .since(job.created);
    x.names.set("whom", &owner_arg(&o.object));
    x.names.set("queue", queue.unwrap_or_default());
    let seen = o
        .evidence
        .iter()
        .rev()
        .find(|e| matches!(e.body, Body::Object(_)));
    Some(told(cx, &o.object.namespace, workload, false, true, x).proof_if(seen))
}

/// True for a Workload that is not admitted, where nothing of what it stands for tells that: an object of a kind that was not read,
/// or a paste of the Workload alone.
pub(super) fn is_alone(cx: Context<'_>, o: &ObjectState) -> bool {
    let waits =
        |w: &ObjectSeen| !w.holds("Finished") && cx.now.since(w.created) >= limits::CONTROLLER.ns;
    o.object.kind == "Workload"
        && o.api.as_deref().is_some_and(waits)
        && admitted(o) == Some(false)
        && !cx
            .shared
            .workloads(cx.world)
            .told
            .contains(&o.object.namespace)
}

/// Returns a finding for such a Workload.
pub(super) fn alone<'a>(
    cx: Context<'_>,
    f: &PodHistory<'a>,
    o: &ObjectState,
) -> Option<Finding<'a>> {
    let api = o.api.as_ref().filter(|_| is_alone(cx, o))?;
    let mut x = Finding::new(cause::KF231, f)
        .at(Stage::Api)
        .since(api.created);
    x.names.set("held", "Kueue has not admitted the Workload");
    let (namespace, name) = (&o.object.namespace, o.object.name.clone());
    Some(told(cx, namespace, Some(name), false, true, x))
}

/// Names of Kueue's Workloads, by what they stand for.
#[derive(Clone, Debug, Default)]
pub struct Workloads {
    /// Namespaces that have a pod with a gate of Kueue or a suspended Job or JobSet. Its verdict names the Workload, so that the Workload
    /// needs none of its own.
    told: FxHashSet<Text>,
    /// By namespace, kind and name of the object that controls the Workload.
    owned: FxHashMap<(Text, Text, Text), Newest>,
    /// By namespace and the Workload's name without the hash at its end.
    named: FxHashMap<(Text, Text), Text>,
}

/// The newest Workload that has not ended, because a job that grows has another Workload for each of its sizes
/// (`pkg/workloadslicing/workloadslicing.go`).
#[derive(Clone, Debug)]
struct Newest {
    age: (bool, Nanos),
    name: Text,
}

impl Workloads {
    pub(in crate::diagnose) fn of(world: &World) -> Self {
        let mut all = Self::default();
        let is_gated = |p: &PodSeen| p.spec.scheduling_gates.iter().any(|g| g.starts_with(GATES));
        let pods = world.every_pod().iter();
        let gated = pods.filter(|p| p.api.as_deref().is_some_and(is_gated));
        all.told.extend(gated.map(|p| p.namespace.clone()));
        let jobs = world.objects().into_iter().filter(|o| is_suspended(o));
        all.told.extend(jobs.map(|o| o.object.namespace.clone()));
        let workloads = world.objects().into_iter();
        for o in workloads.filter(|o| o.object.kind == "Workload") {
            let (ns, name) = (&o.object.namespace, &o.object.name);
            if let Some((stem, hash)) = name.rsplit_once('-')
                && !hash.is_empty()
            {
                let key = (ns.clone(), stem.into());
                all.named.entry(key).or_insert_with(|| name.clone());
            }
            let api = o.api.as_ref().filter(|a| a.event != WatchEvent::Deleted);
            let Some((api, by)) = api.and_then(|a| Some((a, a.owner.as_ref()?))) else {
                continue;
            };
            let new = Newest {
                age: (!api.holds("Finished"), api.created),
                name: name.clone(),
            };
            let key = (ns.clone(), by.kind.clone(), by.name.clone());
            let newest = all.owned.entry(key).or_insert_with(|| new.clone());
            if new.age >= newest.age {
                *newest = new;
            }
        }
        all
    }
}

/// Returns the Workload that an object controls.
fn owned_by(cx: Context<'_>, owner: &kflow_model::ObjectRef) -> Option<Text> {
    let key = (
        owner.namespace.clone(),
        owner.kind.clone(),
        owner.name.clone(),
    );
    let all = cx.shared.workloads(cx.world);
    all.owned.get(&key).map(|newest| newest.name.clone())
}

/// Returns the Workload that Kueue's Event on an object says it has created for it.
fn created_for(o: &ObjectState) -> Option<Text> {
    o.evidence.iter().rev().find_map(created)
}

fn created(o: &Evidence) -> Option<Text> {
    match &o.body {
        Body::Event(e) => {
            let key = e.message.strip_prefix(CREATED)?;
            Some(Text::from(key.rsplit('/').next()?.trim()))
        }
        _ => None,
    }
}

fn label<'p>(pod: &'p PodSeen, key: &str) -> Option<&'p str> {
    let found = pod.labels.iter().find(|(k, _)| k == key)?;
    Some(found.1.as_str()).filter(|v| !v.is_empty())
}

/// Returns the name of the Workload that stands for the pod: the one in Kueue's Event on the pod or one of its owners,
/// the one that an owner controls, that of the pod's group, or the one that is named after the pod
/// (`pkg/controller/jobframework/workload_names.go`: kind, name and a hash).
fn workload(cx: Context<'_>, f: &PodHistory<'_>, pod: &PodSeen) -> Option<Text> {
    if let Some(name) = f.view.evidence.iter().rev().find_map(created) {
        return Some(name);
    }
    for owner in &f.view.owners {
        let state = cx.world.object(&owner.kind, &owner.namespace, &owner.name);
        if let Some(name) = state.and_then(created_for).or_else(|| owned_by(cx, owner)) {
            return Some(name);
        }
    }
    if let Some(group) = label(pod, GROUP) {
        return Some(group.into());
    }
    let key = (f.view.namespace.clone(), format!("pod-{}", pod.name).into());
    cx.shared.workloads(cx.world).named.get(&key).cloned()
}

/// Returns the Event on a Workload that says why it does not get on: the newest one, unless that says that it does; of a
/// Workload that is admitted, the newest warning.
fn newest(workload: &ObjectState, admitted: bool) -> Option<(&Evidence, &EventSeen)> {
    let events = workload.evidence.iter().filter_map(|o| match &o.body {
        Body::Event(e) if e.warning || !admitted => Some((o, e.as_ref())),
        _ => None,
    });
    let newest = events.max_by_key(|(o, _)| o.stamp.at);
    newest.filter(|(_, e)| !GETS_ON.contains(&e.reason.as_str()))
}
