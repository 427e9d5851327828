//! How the owner of a pod stands, by its status: how many of its pods are ready, whether a rollout hangs, which pods are not
//! made. It says what the trouble of one pod means for the others, and of an owner without trouble what is known of it.

use kflow_model::Body;
use kflow_model::object::ObjectSeen;
use kflow_model::pod::{Condition, PodPhase, WatchEvent};
use kflow_model::units::counted;

use super::finding::owner_arg;
use super::rules::scale::AtMost;
use super::rules::{Context, budget, scale};
use super::text::{capital, shorten, span};
use super::unknown::{self, Asked};
use super::{NextStep, Verdict};
use crate::correlate::{ObjectState, Pod, PodView, World};
use kflow_model::kind::{AUTOSCALER, BUDGET, CLAIM, CRON_JOB, NAMESPACE};

/// Length of the longest message of a condition that is repeated, characters.
const LONGEST: usize = 160;

/// Returns the owner of a pod whose status tells most: the Deployment, not the ReplicaSet.
fn of_pod<'w>(world: &'w World, pod: &PodView) -> Option<&'w ObjectState> {
    let object = |kind: &str, name: &str| world.object(kind, &pod.namespace, name);
    let mut known = pod.owners.iter().filter_map(|o| object(&o.kind, &o.name));
    known.rfind(|o| said(o).is_some())
}

/// Adds to a verdict how the owner of its pod stands, and what that suggests.
pub(super) fn add(cx: Context<'_>, pod: &PodView, v: &mut Verdict) {
    let waits = held_run(cx.world, pod);
    let Some(owner) = of_pod(cx.world, pod) else {
        v.owner_state = waits;
        return;
    };
    v.owner_state = said(owner);
    if let (Some(said), Some(waits)) = (&mut v.owner_state, waits) {
        said.push_str("; ");
        said.push_str(&waits);
    }
    let at_most = cx.shared.at_most(cx.world);
    if let (Some(said), Some(autoscaler)) = (&mut v.owner_state, at_most.said(&owner.object)) {
        said.push_str("; ");
        said.push_str(autoscaler.trim_end_matches('.'));
    }
    v.next.extend(undo(owner));
    if let (Some(said), Some((words, step))) = (
        &mut v.owner_state,
        left_over(owner, pod).or_else(|| outdated(owner, pod)),
    ) {
        said.push_str("; ");
        said.push_str(&words);
        v.next.insert(0, step);
    }
}

/// Of a pod whose Job still runs: the CronJob that makes no other Job meanwhile (Kubernetes 1.36
/// `pkg/controller/cronjob/cronjob_controllerv2.go`, `syncCronJob`).
fn held_run(world: &World, pod: &PodView) -> Option<String> {
    let object = |kind: &str| {
        let of_kind = pod.owners.iter().find(|o| o.kind == kind)?;
        world.object(kind, &pod.namespace, &of_kind.name)
    };
    let job = there(object("Job")?)?;
    let cron_job = object(CRON_JOB)?;
    let forbids = there(cron_job)?.fact("concurrencyPolicy") == Some("Forbid");
    let runs = !job.holds("Complete") && !job.holds("Failed");
    (forbids && runs).then(|| {
        let name = owner_arg(&cron_job.object);
        format!("{name} starts no other Job while this one runs (concurrencyPolicy Forbid)")
    })
}

/// Returns the Job that has completed although this pod of it has failed: another one did its work.
pub(super) fn completed_without<'w>(world: &'w World, pod: &PodView) -> Option<&'w ObjectState> {
    let of = pod.owners.iter().find(|o| o.kind == "Job")?;
    let job = world.object("Job", &pod.namespace, &of.name)?;
    let is_complete = there(job)?.holds("Complete");
    (pod.phase == PodPhase::Failed && is_complete).then_some(job)
}

/// Of a pod that has failed while all that its owner wants are ready: nothing waits for it. The garbage collector of the
/// controller-manager leaves 12,500 such pods (Kubernetes 1.36, `--terminated-pod-gc-threshold`).
fn left_over(owner: &ObjectState, pod: &PodView) -> Option<(String, NextStep)> {
    let api = there(owner)?;
    let ready = count(api, "readyReplicas").or_else(|| count(api, "numberReady"))?;
    let wanted = count(api, "replicas").or_else(|| count(api, "desiredNumberScheduled"))?;
    let over = pod.phase == PodPhase::Failed && pod.deletion_requested.is_none();
    (over && wanted > 0 && ready >= wanted).then(|| {
        (
            "this failed pod is left over".to_owned(),
            delete("nothing needs it any more", pod),
        )
    })
}

/// Of a pod of a StatefulSet whose template was changed since: with `OrderedReady` the controller replaces no pod before
/// this one is ready, which it may never be (Kubernetes, StatefulSets, "Forced rollback").
fn outdated(owner: &ObjectState, pod: &PodView) -> Option<(String, NextStep)> {
    let set = there(owner).filter(|_| owner.object.kind == "StatefulSet")?;
    let newest = set.fact("updateRevision")?;
    let mut labels = pod.api.as_ref()?.labels.iter();
    let (_, own) = labels.find(|(key, _)| key == "controller-revision-hash")?;
    let held = set.fact("podManagementPolicy") == Some("OrderedReady");
    (held && own != newest && set.generation <= set.observed_generation).then(|| {
        (
            "this pod is of a former template, and is not replaced until it is ready".to_owned(),
            delete("let it be made anew by the newest template", pod),
        )
    })
}

fn delete(text: &str, pod: &PodView) -> NextStep {
    NextStep {
        text: text.to_owned(),
        command: format!("kubectl -n {} delete pod {}", pod.namespace, pod.name),
    }
}

/// Says how an owner stands; `None` for one that has no pods of its own, or of which no status is known.
pub(super) fn said(o: &ObjectState) -> Option<String> {
    let api = there(o)?;
    let said = match o.object.kind.as_str() {
        "Deployment" => deployment(api),
        "ReplicaSet" | "ReplicationController" => ready(api, "readyReplicas", "replicas"),
        "StatefulSet" => stateful_set(api),
        "DaemonSet" => daemon_set(api),
        "Job" => job(api),
        _ => None,
    };
    Some(format!("{}: {}", owner_arg(&o.object), said?))
}

/// Returns how to end the rollout of a Deployment of whose former template pods are left.
fn undo(o: &ObjectState) -> Option<NextStep> {
    let api = there(o).filter(|_| o.object.kind == "Deployment")?;
    let ready = count(api, "readyReplicas").unwrap_or(0);
    (former(api) > 0 && ready > 0).then(|| NextStep {
        text: "or go back to the former template, whose pods still run".to_owned(),
        command: format!(
            "kubectl -n {} rollout undo {}",
            o.object.namespace,
            owner_arg(&o.object)
        ),
    })
}

/// The newest state of an owner that the API has not shown as deleted.
pub(super) fn there(o: &ObjectState) -> Option<&ObjectSeen> {
    let api = o.api.as_deref();
    api.filter(|api| api.event != WatchEvent::Deleted)
}

/// Returns a Job that exists and has failed, and its condition Failed.
pub(super) fn failed(o: &ObjectState) -> Option<(&ObjectSeen, &Condition)> {
    let job = there(o).filter(|_| o.object.kind == "Job")?;
    let failed = job.condition("Failed").filter(|c| c.is_true())?;
    Some((job, failed))
}

/// The number of a Deployment's pods that are of a template before the newest; 0 until its controller has looked at a change.
fn former(api: &ObjectSeen) -> u32 {
    if api.generation > api.observed_generation {
        return 0;
    }
    let all = count(api, "statusReplicas").unwrap_or(0);
    all.saturating_sub(count(api, "updatedReplicas").unwrap_or(0))
}

/// Returns a fact of an object that is a number.
pub(super) fn count(api: &ObjectSeen, fact: &str) -> Option<u32> {
    api.fact(fact)?.parse().ok()
}

/// `1 of 3 pods is ready`.
fn ready(api: &ObjectSeen, ready: &str, wanted: &str) -> Option<String> {
    let wanted = count(api, wanted)?;
    // A status leaves out a count of zero.
    Some(match (count(api, ready).unwrap_or(0), wanted) {
        (_, 0) => "it wants no pods".to_owned(),
        (0, 1) => "its pod is not ready".to_owned(),
        (0, n) => format!("none of {} is ready", counted(n.into(), "pod")),
        (1, n) => format!("1 of {} is ready", counted(n.into(), "pod")),
        (ready, n) => format!("{ready} of {} are ready", counted(n.into(), "pod")),
    })
}

fn deployment(api: &ObjectSeen) -> Option<String> {
    let mut said = ready(api, "readyReplicas", "replicas")?;
    let updated = count(api, "updatedReplicas").unwrap_or(0);
    let former = former(api);
    if former > 0 {
        said.push_str(&format!(
            "; of its new template there {}, of the former {former}",
            there_are(updated)
        ));
    }
    if api.fact("paused") == Some("true") {
        said.push_str("; it is paused (spec.paused)");
    }
    if let Some(c) = api.condition("Progressing").filter(|c| c.status == "False") {
        said.push_str(&format!("; its rollout does not go on: {}", c.reason));
    }
    Some(said)
}

fn there_are(n: u32) -> String {
    match n {
        1 => "is 1 pod".to_owned(),
        n => format!("are {}", counted(n.into(), "pod")),
    }
}

/// With the policy `OrderedReady` the controller makes the next pod only when all before it are running and ready
/// (Kubernetes 1.36 `pkg/controller/statefulset/stateful_set_control.go`, `processReplica`).
fn stateful_set(api: &ObjectSeen) -> Option<String> {
    let mut said = ready(api, "readyReplicas", "replicas")?;
    let made = count(api, "statusReplicas").unwrap_or(0);
    let missing = count(api, "replicas")?.saturating_sub(made);
    if made > 0 && missing > 0 && api.fact("podManagementPolicy") == Some("OrderedReady") {
        let which = match missing {
            1 => "the last one is".to_owned(),
            n => format!("the next {n} are"),
        };
        said.push_str(&format!(
            "; {which} not made until all before are ready (podManagementPolicy OrderedReady)"
        ));
    }
    said.extend(kept(api).map(|words| format!("; {words}")));
    Some(said)
}

fn daemon_set(api: &ObjectSeen) -> Option<String> {
    let mut said = ready(api, "numberReady", "desiredNumberScheduled")?;
    said.extend(kept(api).map(|words| format!("; {words}")));
    Some(said)
}

/// Says which pods are of a former template because their owner replaces none of them by itself: it is paused, or its update strategy
/// says so (Kubernetes 1.36 `pkg/controller/statefulset/stateful_set_control.go`, `updateStatefulSetAfterInvariantEstablished`;
/// `pkg/controller/daemon/daemon_controller.go`, `updateDaemonSet`).
fn kept(api: &ObjectSeen) -> Option<String> {
    if api.generation > api.observed_generation {
        return None;
    }
    let (all, updated) = match api.object.kind.as_str() {
        "Deployment" if api.fact("paused") != Some("true") => return None,
        "DaemonSet" => (
            count(api, "currentNumberScheduled")?,
            count(api, "updatedNumberScheduled"),
        ),
        "StatefulSet" if api.fact("currentRevision") == api.fact("updateRevision") => return None,
        "Deployment" | "StatefulSet" => {
            (count(api, "statusReplicas")?, count(api, "updatedReplicas"))
        }
        _ => return None,
    };
    let former = all.saturating_sub(updated.unwrap_or(0));
    let (of_former, them) = match former {
        0 => return None,
        1 => ("1 pod is of a former template".to_owned(), "it"),
        n => {
            let pods = counted(n.into(), "pod");
            (format!("{pods} are of a former template"), "them")
        }
    };
    if api.object.kind == "Deployment" {
        return Some(format!(
            "{of_former} until somebody resumes the rollout (spec.paused)"
        ));
    }
    match (api.fact("strategy")?, count(api, "partition")) {
        ("OnDelete", _) => Some(format!(
            "{of_former} until somebody deletes {them} (updateStrategy OnDelete)"
        )),
        ("RollingUpdate", Some(least)) if least > 0 && former <= least => Some(format!(
            "{of_former}, as pods below the partition {least} are not replaced (updateStrategy.rollingUpdate.partition)"
        )),
        _ => None,
    }
}

fn job(api: &ObjectSeen) -> Option<String> {
    if let Some(failed) = api.condition("Failed").filter(|c| c.is_true()) {
        return Some(format!(
            "it has failed, so no other pod follows ({})",
            failure(api, failed)
        ));
    }
    let wanted = count(api, "completions").filter(|n| *n > 1);
    let done = wanted.map(|wanted| match count(api, "succeeded").unwrap_or(0) {
        0 => format!("none of {wanted} completions is done"),
        1 => format!("1 of {wanted} completions is done"),
        n => format!("{n} of {wanted} completions are done"),
    });
    let failed = count(api, "failed").filter(|n| *n > 0);
    let failed = failed.map(|failed| {
        let limit = api.fact("backoffLimit");
        let limit = limit.map_or_else(String::new, |n| format!(" (backoffLimit {n})"));
        let have = if failed == 1 { "has" } else { "have" };
        format!("{} {have} failed{limit}", counted(failed.into(), "pod"))
    });
    let all: Vec<String> = done.into_iter().chain(failed).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Why a Job has failed, with the limit that it met.
pub(super) fn failure(api: &ObjectSeen, failed: &Condition) -> String {
    let limit = match failed.reason.as_str() {
        "DeadlineExceeded" => "activeDeadlineSeconds",
        "BackoffLimitExceeded" => "backoffLimit",
        _ => return condition(failed),
    };
    let why = condition(failed);
    api.fact(limit)
        .map_or_else(|| why.clone(), |n| format!("{why} ({limit} {n})"))
}

/// Reason and message of a condition, as a part of a sentence.
fn condition(c: &Condition) -> String {
    match c.message.trim_end_matches('.') {
        "" => c.reason.to_string(),
        message => format!("{}: {}", c.reason, shorten(message, LONGEST)),
    }
}

/// Says what is known of an owner or claim that no verdict is about.
pub fn at_rest(asked: Asked<'_>, o: &ObjectState, pods: &[&Pod]) -> String {
    let api = o.api.as_deref();
    let fact = |key| api.and_then(|api| api.fact(key));
    let number = pods.iter().filter(|p| p.gone.is_none()).count();
    let is_suspended = fact("suspend") == Some("true");
    if unknown::is_deleted(asked, o) {
        let end = last_event(o).map_or_else(String::new, |event| format!(" {event}"));
        return format!("It does not exist any more.{end}");
    }
    match o.object.kind.as_str() {
        "Job" if api.is_some_and(|api| api.holds("Complete")) => "It is complete.".to_owned(),
        "Job" if is_suspended && number == 0 => {
            "It is suspended (spec.suspend), so it makes no pod.".to_owned()
        }
        "Job" if fact("parallelism") == Some("0") && number == 0 => {
            "It wants no pods (spec.parallelism is 0).".to_owned()
        }
        CRON_JOB if is_suspended => {
            let run = last_run(fact).map_or_else(String::new, |run| format!(" {run}"));
            format!("It is suspended (spec.suspend), so it makes no Job.{run}")
        }
        CRON_JOB => {
            let held = match last_event(o) {
                Some(_) => "",
                None => ", and nothing says that it is kept from making a Job",
            };
            let has = match number {
                0 => format!("It has no pods now{held}."),
                _ => of_its_pods(pods),
            };
            let own = own_state(asked, o);
            own.map_or_else(|| has.clone(), |own| format!("{has} {own}"))
        }
        AUTOSCALER => scaled(o, pods),
        BUDGET => {
            let said = own_state(asked, o);
            said.unwrap_or_else(|| "What it lets happen is not known.".to_owned())
        }
        NAMESPACE if number == 0 => format!("{}It has no pods.", emptied(asked, api)),
        NAMESPACE => format!("{}{}", emptied(asked, api), of_its_pods(pods)),
        _ if number > 0 => {
            if let Some(untaken) = api.and_then(untaken) {
                return format!("{untaken} {}", of_its_pods(pods));
            }
            let kept = api.and_then(kept);
            let kept = kept.map_or_else(String::new, |words| format!(" {}.", capital(&words)));
            let at_most = AtMost::of(asked.world);
            let scaled = at_most.said(&o.object);
            let scaled = scaled.map_or_else(String::new, |said| format!(" {said}"));
            format!("{}{kept}{scaled}", of_its_pods(pods))
        }
        CLAIM => "No pod mounts it.".to_owned(),
        _ if fact("replicas") == Some("0") => "It wants no pods (spec.replicas is 0).".to_owned(),
        "DaemonSet" if fact("desiredNumberScheduled") == Some("0") => {
            "It wants no pods: no node fits its node selector, affinity and tolerations.".to_owned()
        }
        _ if fact("paused") == Some("true") && pods.is_empty() => {
            "It is paused (spec.paused), so it makes no pod.".to_owned()
        }
        _ => {
            let none = match pods {
                [] => "It has no pods",
                _ => "Its pods are gone",
            };
            match api.and_then(untaken) {
                Some(untaken) => format!("{untaken} {none}."),
                None => format!("{none}, and nothing says that it is kept from making one."),
            }
        }
    }
}

/// Says what is known of an owner whose state is none of its pods': a CronJob, an autoscaler, a disruption budget.
pub fn own_state(asked: Asked<'_>, o: &ObjectState) -> Option<String> {
    match o.object.kind.as_str() {
        // Why it has started no Job, or skips one, only its Events tell: a missed time, a Job that still runs, a schedule that
        // cannot be read (Kubernetes 1.36 `pkg/controller/cronjob/cronjob_controllerv2.go`, `syncCronJob`).
        CRON_JOB => {
            let api = there(o);
            let run = last_run(|key| api.and_then(|api| api.fact(key)));
            let all: Vec<String> = run.into_iter().chain(last_event(o)).collect();
            (!all.is_empty()).then(|| all.join(" "))
        }
        AUTOSCALER => scale::at_rest(o),
        BUDGET => budget::at_rest(asked.world, o),
        _ => None,
    }
}

/// The taint of a cordoned node, which says no more than that it is cordoned (k8s.io/api `core/v1/well_known_taints.go`).
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// Says what keeps pods away from a node that may be well: that it is cordoned, with the pods that block a drain of it, and its taints.
pub fn node_state(world: &World, name: &str) -> Option<String> {
    let node = world.node(name)?.api.as_deref()?;
    let mut all = Vec::new();
    if node.unschedulable {
        all.push("It is cordoned (spec.unschedulable): no new pod comes.".to_owned());
    }
    for (key, value, effect) in node.taints.iter().filter(|(key, ..)| key != CORDONED) {
        let value = match value.as_str() {
            "" => String::new(),
            value => format!("={value}"),
        };
        let does = match effect.as_str() {
            "NoExecute" => "keeps pods away that do not tolerate it, and ends those that run",
            "NoSchedule" => "keeps pods away that do not tolerate it",
            _ => continue,
        };
        all.push(format!("Taint {key}{value}:{effect} {does}."));
    }
    all.extend(budget::of_node(world, name).filter(|_| node.unschedulable));
    (!all.is_empty()).then(|| all.join(" "))
}

/// Says how an autoscaler stands, and the pods that it scales.
fn scaled(o: &ObjectState, pods: &[&Pod]) -> String {
    let said = scale::at_rest(o);
    let said = said.unwrap_or_else(|| "Its controller has not written its status yet.".to_owned());
    if pods.iter().all(|p| p.gone.is_some()) {
        return said;
    }
    format!("{said} {}", of_its_pods(pods))
}

/// How many of the pods that exist are well, have completed, or are on their way: `Of its 3 pods: 2 well, 1 on their way.`
fn of_its_pods(pods: &[&Pod]) -> String {
    let there: Vec<&&Pod> = pods.iter().filter(|p| p.gone.is_none()).collect();
    let is_over = |p: &Pod| p.phase == PodPhase::Succeeded;
    let over = there.iter().filter(|p| is_over(p)).count();
    let ready = there.iter().filter(|p| p.current.is_none() && !is_over(p));
    let ready = ready.count();
    let rest = there.len().saturating_sub(over + ready);
    let all = |one: &str, many: &str| match there.len() {
        1 => format!("Its pod {one}."),
        n => format!("Its {n} pods {many}."),
    };
    match (ready, over, rest) {
        (_, 0, 0) => all("is well", "are well"),
        (0, _, 0) => all("has completed", "have completed"),
        (0, 0, _) => all("is on its way", "are on their way"),
        _ => {
            let parts = [(ready, "well"), (over, "completed"), (rest, "on their way")];
            let parts = parts.iter().filter(|(n, _)| *n > 0);
            let parts: Vec<String> = parts.map(|(n, how)| format!("{n} {how}")).collect();
            format!("Of its {} pods: {}.", there.len(), parts.join(", "))
        }
    }
}

/// Says of a namespace that it was deleted, before a sentence on its pods: it takes a while to be emptied.
fn emptied(asked: Asked<'_>, api: Option<&ObjectSeen>) -> String {
    let deleted = api.and_then(|api| api.deletion);
    deleted.map_or_else(String::new, |at| {
        let ago = span(asked.at.since(at));
        format!("It was deleted {ago} ago and is being emptied. ")
    })
}

/// Says of an owner that was changed that its controller has not written its status since: it does so within a second where it runs.
fn untaken(api: &ObjectSeen) -> Option<String> {
    let (new, seen) = (api.generation, api.observed_generation);
    let wanted = count(api, "replicas").map(|n| counted(n.into(), "pod"));
    let wanted = wanted.map_or_else(String::new, |n| format!(", which wants {n}"));
    (seen > 0 && new > seen).then(|| {
        format!(
            "Its controller has not taken up its newest form{wanted} (generation {new}; its status is of generation {seen})."
        )
    })
}

/// The newest Event of an owner.
fn last_event(o: &ObjectState) -> Option<String> {
    o.evidence.iter().rev().find_map(|e| match &e.body {
        Body::Event(e) => Some(format!("Its last Event: {}: {}", e.reason, e.message)),
        _ => None,
    })
}

/// When a CronJob starts its Jobs, and when it has last started one.
fn last_run<'f>(fact: impl Fn(&'static str) -> Option<&'f str>) -> Option<String> {
    let schedule = fact("schedule")?;
    // It decides whether a run begins while the last one goes on.
    let policy = fact("concurrencyPolicy").filter(|policy| *policy != "Allow");
    let policy = policy.map_or_else(String::new, |p| format!(" (concurrencyPolicy {p})"));
    Some(match fact("lastScheduleTime") {
        Some(at) => {
            format!("Its schedule is {schedule}{policy}, and its last Job started at {at}.")
        }
        None => format!("Its schedule is {schedule}{policy}, and it has started no Job yet."),
    })
}
