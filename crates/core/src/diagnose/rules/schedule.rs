//! Pods that are not bound: the scheduler's message, claims, gates, preemption, and a scheduler that does not run.

use super::claims::{binds, claims_of, waiting};
use super::{Context, autoscaler, claims, heard, kueue, taints};
use crate::correlate::PodView;
use crate::diagnose::cause;
use crate::diagnose::finding::Finding;
use crate::diagnose::history::PodHistory;
use crate::diagnose::limits;
use crate::diagnose::quantity::Quantity;
use crate::diagnose::scheduler::{self, Clause, Sentence};
use crate::diagnose::signal::{self, Signal};
use crate::diagnose::text::{Names, list, span};
use crate::diagnose::{Catalogue, CauseId, Confidence, State};
use crate::flow::Stage;
use kflow_model::node::NodeSeen;
use kflow_model::pod::{PodPhase, PodSeen};
use kflow_model::{Body, Nanos, ObjectRef, Source, Text};
use std::cmp::Reverse;

mod fits;

/// A scheduler that runs says something about a pod within milliseconds.
pub(super) const SILENT_NS: i64 = limits::SCHEDULER.ns;

pub(super) fn rules<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    clauses(cx, f, found);
    claims::rules(cx, f, found);
    groups(cx, f, found);
    preemption(cx, f, found);
    autoscaler::rules(cx, f, found);
    kueue::rules(cx, f, found);
    name_group(f, found);
    silent(cx, f, found);
    // Who waits for the pod to be scheduled is no reason why it is not.
    if found.iter().any(|x| x.cause.id != cause::KF215) {
        found.retain(|x| x.cause.id != cause::KF215);
    }
}

fn clauses<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    // The Event and the condition have the same message; the newest counts.
    let Some(s) = f
        .signals
        .iter()
        .filter(|s| s.reason == "FailedScheduling")
        .max_by_key(|s| (s.at, s.first))
    else {
        return;
    };
    let sentence = scheduler::parse(&s.text);
    let only = f.api.and_then(|pod| scheduler::only_node(&pod.spec));
    // Of several reasons with one cause, that of most nodes is told, and the others stand beside it.
    let mut clauses: Vec<&Clause<'_>> = sentence.clauses.iter().collect();
    clauses.sort_by_key(|c| Reverse(c.nodes));
    let mut told: Vec<Finding<'a>> = Vec::new();
    let mut beside: Vec<(CauseId, String)> = Vec::new();
    let mut unknown: Vec<&Clause<'_>> = Vec::new();
    let mut counted: Vec<(CauseId, u32)> = Vec::new();
    let mut most = 0;
    for clause in clauses {
        let best = Catalogue::get().best("@clause", clause.text, |_| true);
        let Some((cause, names)) = best else {
            unknown.push(clause);
            continue;
        };
        if claims::exists_by_now(cx, f, s, &names) {
            continue;
        }
        most = most.max(clause.nodes);
        counted.push((cause.id, clause.nodes));
        if told.iter().any(|x| x.cause.id == cause.id) {
            beside.push((cause.id, in_words(&sentence, clause)));
        }
        let mut x = Finding::of_signal(cause, names, s, f);
        if let Some(only) = &only {
            x.names.set("only", only);
        }
        if let Some(share) = sentence.share(clause.nodes) {
            x.names.set("share", &share);
            x.names.set("share_nodes", &clause.nodes.to_string());
        }
        explain(cx, s, &sentence, f.api, clause, &mut x);
        told.push(x);
    }
    fits::cordoned_fits(cx, f, &sentence, &mut told);
    // What another clause says holds of the node that the pod is for: the others do not match it, and need not.
    if only.is_some() && told.len() > 1 {
        told.retain(|x| x.cause.id != cause::KF205);
    }
    fits::some_node_has_the_labels(cx, f, &mut told);
    lead_by_all(sentence.total, &counted, &mut told);
    // Some entries know whole messages.
    let is_known = Catalogue::get()
        .best(&s.reason, &s.text, |_| true)
        .is_some();
    let alone = told.is_empty() && !found.iter().any(|k| k.stage == Stage::Schedule);
    if let Some(first) = unknown
        .first()
        .filter(|c| !is_known && (alone || c.nodes > 0))
    {
        if alone || first.nodes > most {
            let above = told.iter().map(|x| x.rank).max();
            told.push(unheard_of(&sentence, &unknown, above, s, f));
        } else if let Some(leads) = told.iter().max_by_key(|x| x.rank) {
            let words = unknown.iter().map(|c| in_words(&sentence, c));
            beside.extend(words.map(|words| (leads.cause.id, words)));
        }
    }
    for x in &mut told {
        let its = beside.iter().filter(|(id, _)| *id == x.cause.id);
        let words: Vec<&str> = its.map(|(_, words)| words.as_str()).collect();
        if !words.is_empty() {
            let words = format!("The scheduler says as well: {}.", words.join("; "));
            x.names.set("beside", &words);
        }
    }
    if let Some(words) = sentence.total.and_then(|n| outdated(cx, s, n)) {
        let shown = told
            .into_iter()
            .map(|x| x.absence(s.at, Source::Kube, words.clone()));
        found.extend(shown);
    } else {
        found.extend(told);
    }
}

/// Puts a reason that holds of all nodes before those that hold of some of these: as long as it does, the others do not matter. Up to
/// 1.18 the scheduler said all reasons of a node (pkg/scheduler/core/generic_scheduler.go, `podFitsOnNode`).
fn lead_by_all(total: Option<u32>, counted: &[(CauseId, u32)], told: &mut [Finding<'_>]) {
    let Some(total) = total else { return };
    let most = |x: &Finding<'_>| {
        let of_it = counted.iter().filter(|(id, _)| *id == x.cause.id);
        of_it.map(|(_, nodes)| *nodes).max().unwrap_or_default()
    };
    let of_some = told.iter().filter(|x| (1..total).contains(&most(x)));
    let Some(above) = of_some.map(|x| x.rank).max() else {
        return;
    };
    for x in told.iter_mut().filter(|x| most(x) == total) {
        x.rank = x.rank.max(above.saturating_add(1));
    }
}

/// Returns a reason in the scheduler's words, with the number of its nodes, and what it means where that is known.
fn in_words(sentence: &Sentence<'_>, clause: &Clause<'_>) -> String {
    let share = sentence.share(clause.nodes);
    let means = signal::scheduler_words(clause.text).map(|w| w.means.clone());
    let more: Vec<String> = share.into_iter().chain(means).collect();
    match more.as_slice() {
        [] => clause.text.to_owned(),
        more => format!("{} ({})", clause.text, more.join(": ")),
    }
}

/// Returns the finding of reasons that the catalogue does not know, such as those of an out-of-tree plugin or an extender.
/// `above`: the highest rank of those that it knows, which are reasons of fewer nodes.
fn unheard_of<'a>(
    sentence: &Sentence<'_>,
    unknown: &[&Clause<'_>],
    above: Option<u8>,
    s: &Signal<'a>,
    f: &PodHistory<'a>,
) -> Finding<'a> {
    let cause = Catalogue::get().cause(cause::KF226);
    let mut x = Finding::of_signal(cause, Names::default(), s, f);
    let said: Vec<String> = unknown.iter().map(|c| in_words(sentence, c)).collect();
    x.names.set("what", &said.join("; "));
    let mut meant = unknown
        .iter()
        .filter_map(|c| signal::scheduler_words(c.text).next());
    if let Some(words) = meant.next() {
        x.names.set("by", &words.by);
    }
    x.rank = above.map_or(x.rank, |rank| rank.saturating_add(1).max(x.rank));
    x
}

/// Says that the scheduler has not looked at the pod since nodes joined: each try counts the nodes, and would have said
/// another number.
fn outdated(cx: Context<'_>, s: &Signal<'_>, counted: u32) -> Option<String> {
    let states = cx.world.nodes();
    let there: Vec<&NodeSeen> = states
        .iter()
        .filter(|n| cx.shared.missing(cx.world, &n.name).is_none())
        .filter_map(|n| n.api.as_deref())
        .collect();
    // A new node makes the scheduler try again, after a back-off of 10 s at most.
    let is_new = |n: &&&NodeSeen| n.created > s.at && cx.now.since(n.created) >= limits::UNBOUND.ns;
    let new: Vec<&Text> = there.iter().filter(is_new).map(|n| &n.name).collect();
    let more = u32::try_from(there.len()).is_ok_and(|n| n > counted);
    (more && !new.is_empty()).then(|| {
        format!(
            "no word of the scheduler since it counted nodes ({counted}), although {} joined after that",
            list(&new)
        )
    })
}

/// Adds to a clause's finding what the nodes and the pod's spec say about it.
fn explain(
    cx: Context<'_>,
    s: &Signal<'_>,
    sentence: &Sentence<'_>,
    api: Option<&PodSeen>,
    clause: &Clause<'_>,
    x: &mut Finding<'_>,
) {
    let Some(pod) = api else { return };
    let states = cx.world.nodes();
    let nodes: Vec<&NodeSeen> = states
        .iter()
        .filter(|n| cx.shared.missing(cx.world, &n.name).is_none())
        .filter(|n| x.names.get("only").is_none_or(|only| n.name == only))
        .filter_map(|n| n.api.as_deref())
        .collect();
    let whole: Vec<&NodeSeen> = nodes.iter().copied().filter(|n| !n.is_row).collect();
    let shortfall = |resource: &str| {
        let usage = cx.shared.usage(cx.world);
        scheduler::shortfall(cx.world, cx.now, usage, pod, resource)
    };
    match x.cause.id {
        cause::KF201 => {
            let resource = x.names.get("resource").unwrap_or("cpu").to_owned();
            let requested = scheduler::requested(&pod.spec, &resource);
            if requested != Quantity::default() {
                x.names.set("requested", &requested.show(&resource));
            }
            if let Some(d) = shortfall(&resource) {
                x.names.set("detail", &d);
            }
        }
        cause::KF202 => {
            if let Some(d) = shortfall("pods") {
                x.names.set("detail", &d);
            }
        }
        cause::KF203 => {
            let named = x
                .names
                .get("taint")
                .and_then(scheduler::key_of)
                .map(Text::from);
            if let Some(key) = named
                .as_deref()
                .filter(|key| super::taints::is_of_health(key))
            {
                x.names.set("sick", key);
            }
            let its = |key: &str| named.as_ref().is_none_or(|named| *named == key);
            // The scheduler names the first taint of a node that the pod does not tolerate.
            let (taints, others) = scheduler::taints(pod, &whole, its);
            match taints.as_slice() {
                [] if named.as_deref() == Some("node.kubernetes.io/not-ready") => {
                    let rows = super::taints::rows_not_ready(&nodes);
                    let are = if rows.len() == 1 { "is" } else { "are" };
                    if !rows.is_empty() {
                        x.names
                            .set("detail", &format!("({} {are} NotReady)", list(&rows)));
                    }
                }
                [] => {}
                [one] if x.names.get("taint").is_none() => {
                    let (taint, node) = one.split_once(" on ").unwrap_or((one, ""));
                    x.names.set("taint", taint);
                    x.names.set("detail", &format!("({node})"));
                }
                many => {
                    let either = match others.as_slice() {
                        [] => String::new(),
                        others => format!("; nor does it tolerate {}", list(others)),
                    };
                    x.names.set("detail", &format!("({}{either})", list(many)));
                }
            }
            let mut all = whole.iter().flat_map(|n| scheduler::untolerated(pod, n));
            let of_it = all.find_map(|t| {
                let other = scheduler::other_effect(pod, t).filter(|_| its(&t.0))?;
                Some(format!(
                    "it tolerates {} with {other} only, and the taint's effect is {}",
                    t.0, t.2
                ))
            });
            x.names.set("effect", &of_it.unwrap_or_default());
            let key = x.names.get("taint").unwrap_or_default().to_owned();
            if let Some(r) = signal::remover(&key) {
                x.names.set("remover", &r.by);
                x.names.set("removed", &r.key);
                x.names.set("remover_pods", &r.pods);
            }
            taints::root(cx, pod, &nodes, x);
        }
        cause::KF204 => {
            let cordoned: Vec<&Text> = nodes
                .iter()
                .filter(|n| n.unschedulable)
                .map(|n| &n.name)
                .collect();
            x.names.set("detail", &list(&cordoned));
            if let Some(first) = cordoned.first() {
                x.names.set("cordoned", first);
            }
        }
        cause::KF205 | cause::KF206 => {
            let total = sentence.total;
            let all = total.is_none_or(|total| whole.len() as u64 >= u64::from(total));
            if let Some(d) = scheduler::labels(pod, &whole, all && whole.len() == nodes.len()) {
                x.names.set("detail", &d);
            }
        }
        cause::KF207 => {
            let anti = x.names.get("rule").is_some_and(|r| r.contains("anti"));
            if let Some(d) = scheduler::neighbours(&pod.spec, anti) {
                x.names.set("detail", &d);
            }
        }
        cause::KF208 => {
            let keys = scheduler::spread_over(&pod.spec);
            if !keys.is_empty() {
                x.names.set(
                    "detail",
                    &format!("it is to be spread over {}", list(&keys)),
                );
            }
        }
        cause::KF209 => {
            let nodes: Vec<&Text> = nodes.iter().map(|n| &n.name).collect();
            ports(cx, pod, &nodes, x);
        }
        cause::KF213 => {
            let claims = claims_of(pod);
            let waiting = waiting(cx, &pod.namespace, &claims);
            // The message is of a time when the claim had no volume.
            if waiting.is_empty() && !claims.is_empty() {
                claims::name(&claims, x);
                let silent = cx.now.since(s.at);
                let bound = match claims.len() {
                    1 => "which is bound by now",
                    _ => "which are bound by now",
                };
                if silent < limits::UNBOUND.ns {
                    x.names.set("unbound", bound);
                } else {
                    let said = format!(
                        "the scheduler has said nothing of the pod for {}",
                        span(silent)
                    );
                    x.names.vary("unbound", &format!("{bound}: {said}"), bound);
                    x.names.set("forgotten", &said);
                }
            }
            claims::name(&waiting, x);
        }
        cause::KF212 | cause::KF216 | cause::KF217 | cause::KF219 => {
            let total = sentence.total;
            let all = total.is_some_and(|total| whole.len() as u64 >= u64::from(total));
            let known = claims::Nodes { known: whole, all };
            claims::explain(cx, pod, &known, x);
        }
        _ => {}
    }
    x.names.set("nodes", &clause.nodes.to_string());
}

/// Names the host ports that a pod asks for, and the pods that have them on these nodes.
pub(super) fn ports(cx: Context<'_>, pod: &PodSeen, nodes: &[&Text], x: &mut Finding<'_>) {
    let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    let wanted: Vec<i32> = containers.flat_map(|c| c.host_ports.clone()).collect();
    let mut found = Vec::new();
    for node in nodes {
        for port in &wanted {
            let pods = cx.shared.holders(cx.world, node, *port);
            found.extend(pods.iter().map(|pod| format!("{pod} on {node}")));
        }
    }
    // A pod may have several of the ports.
    found.dedup();
    let wanted: Vec<String> = wanted.iter().map(i32::to_string).collect();
    x.names.set("ports", &list(&wanted));
    x.names.set("holder", &list(&found));
}

/// Adds what Volcano says of the pod's group: it is named after the pod's controller, or else the pod (`podgroup-UID`;
/// volcano.sh/apis `pkg/apis/helpers/helpers.go`, `GeneratePodgroupName`), or after a Job of Volcano (`NAME-UID`;
/// `pkg/controllers/job/job_controller_actions.go`, `generateRelatedPodGroupName`).
fn groups<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let owner = f.view.owners.first();
    let uid = owner.map_or(f.view.uid.as_str(), |o| o.uid.as_str());
    let of_job = owner.map(|o| format!("{}-{uid}", o.name));
    let named = f.api.map(|pod| pod.spec.pod_group.to_string());
    let names = [named, Some(format!("podgroup-{uid}")), of_job];
    let group = |name: &String| cx.world.object("PodGroup", &f.view.namespace, name);
    let Some(group) = names.iter().flatten().find_map(group) else {
        return;
    };
    // The group outlives its pods. While there is no quota, Volcano says so in each session, and then that the group
    // has no place.
    let newest = group.evidence.last().map_or(f.view.created, |o| o.stamp.at);
    let of_now = |o: &&kflow_model::Evidence| {
        o.stamp.at >= f.view.created && newest.since(o.stamp.at) < limits::UNBOUND.ns
    };
    for o in group.evidence.iter().rev().filter(of_now) {
        let Body::Event(e) = &o.body else { continue };
        let reason = format!("@group/{}", e.reason);
        if let Some((cause, names)) = Catalogue::get().best(&reason, &e.message, |_| true) {
            let mut x = Finding::of(cause, f).proof(o);
            x.names = names;
            found.push(x);
            return;
        }
    }
}

/// Adds a finding for pods that have to make room for this one, and still exist.
fn preemption<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let Some(pod) = f.api else { return };
    let mut victims: Vec<(&PodView, &kflow_model::Evidence)> = Vec::new();
    let nominated = pod.status.nominated_node.as_str();
    let waits = f.signals.iter().any(|s| s.reason == "FailedScheduling");
    if nominated.is_empty() && !waits {
        return;
    }
    for v in cx.shared.victims(cx.world) {
        if v.pod.uid != f.view.uid
            && let Some(o) = v.proof(f.view, nominated)
        {
            victims.push((&v.pod, o));
        }
    }
    if victims.is_empty() && (nominated.is_empty() || binds(cx, f, pod, found)) {
        return;
    }
    if victims.is_empty() && refuses_to_preempt(pod) {
        return;
    }
    let names: Vec<String> = victims.iter().map(|(p, _)| p.key()).collect();
    let node = victims.first().map_or(nominated, |(p, _)| p.node.as_str());
    let mut x = Finding::new(cause::KF222, f);
    x.behind = victims.first().map(|(p, _)| ObjectRef {
        kind: "Pod".into(),
        namespace: p.namespace.clone(),
        name: p.name.clone(),
        uid: p.uid.as_str().into(),
    });
    x = x
        .name(
            "nominated",
            if nominated.is_empty() {
                node
            } else {
                nominated
            },
        )
        .state(State::Blocked)
        .proof_if(f.api_evidence);
    if names.is_empty() {
        // No victim was seen, and the message may be another component's: that it is preemption is likely, not certain.
        let said = pod
            .condition("PodScheduled")
            .map_or("", |c| c.message.as_str());
        let what = format!("the scheduler has nominated it for that node, and says: {said}");
        x = x
            .name("what", what.trim_end_matches(['.', ' ']))
            .at_most(Confidence::Likely);
    } else {
        let have = if names.len() == 1 {
            "which has a lower priority, is"
        } else {
            "which have a lower priority, are"
        };
        x = x.name("victims", &format!("{}, {have}", list(&names)));
    }
    for (_, o) in victims {
        x = x.proof(o);
    }
    found.push(x);
}

/// True when the scheduler says why it makes no room for the pod, the nominated node included, and names no pod that is
/// on its way out: the nomination is of an earlier time, or another component's.
fn refuses_to_preempt(pod: &PodSeen) -> bool {
    let Some(c) = pod.condition("PodScheduled") else {
        return false;
    };
    let why = scheduler::parse(&c.message).preemption;
    let ending = crate::diagnose::signal::scheduler().ending.as_str();
    !why.is_empty() && why.iter().all(|clause| !clause.text.contains(ending))
}

/// Adds the PodGroup that a scheduler says that the pod waits for. (A group of Kubernetes 1.35 is a part of its Workload.)
fn name_group(f: &PodHistory<'_>, found: &mut [Finding<'_>]) {
    let group = f.api.map_or("", |pod| pod.spec.pod_group.as_str());
    if group.is_empty() || group.contains('/') {
        return;
    }
    for x in found.iter_mut().filter(|x| x.cause.id == cause::KF109) {
        x.names.set("podgroup", group);
    }
}

/// Returns a finding for a pod of an incomplete gang, which Kubernetes 1.36 holds before the scheduler's queue,
/// without a condition or an Event.
fn gang<'a>(cx: Context<'a>, f: &PodHistory<'a>, pod: &PodSeen) -> Option<Finding<'a>> {
    let members = cx.world.every_pod().iter().filter(|p| {
        p.gone.is_none()
            && p.namespace == f.view.namespace
            && p.api
                .as_ref()
                .is_some_and(|a| a.spec.pod_group == pod.spec.pod_group)
    });
    let have = match members.count() {
        1 => "is only this one".to_owned(),
        n => format!("are {n}"),
    };
    let x = Finding::new(cause::KF109, f)
        .name("group", &pod.spec.pod_group)
        .name("have", &have);
    Some(unseen(x, f, pod))
}

/// Returns a finding for a pod whose resource claim does not exist yet, which is held before the scheduler's queue,
/// without a condition or an Event.
fn unclaimed<'a>(f: &PodHistory<'a>, pod: &PodSeen) -> Option<Finding<'a>> {
    let claims: Vec<String> = pod
        .spec
        .resource_claims
        .iter()
        .map(|c| match c.strip_prefix("template/") {
            Some(t) => format!("the claim that is made of template {t}"),
            None => format!("claim {c}"),
        })
        .collect();
    let what = format!("the scheduler waits until there is {}", list(&claims));
    let x = Finding::new(cause::KF221, f).name("what", &what);
    Some(unseen(x, f, pod))
}

/// Adds the evidence that no scheduler has said anything: only that shows that the pod is held
/// before the scheduler's queue.
fn unseen<'a>(x: Finding<'a>, f: &PodHistory<'a>, pod: &PodSeen) -> Finding<'a> {
    x.at_most(Confidence::Likely)
        .proof_if(f.api_evidence)
        .absence(
            pod.created,
            Source::Kube,
            "no PodScheduled condition and no event of a scheduler since",
        )
}

/// True for a component that is called a scheduler, or that the pod names as its own (`volcano`, `yunikorn`).
fn is_scheduler(component: &str, pod: &PodSeen) -> bool {
    component.contains("scheduler") || !component.is_empty() && component == pod.spec.scheduler
}

/// Adds a finding for a pod about which no scheduler has said anything.
fn silent<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let Some(pod) = f.api else { return };
    let said = pod.condition("PodScheduled").is_some()
        || !pod.status.nominated_node.is_empty()
        || f.signals.iter().any(|s| s.reason == "FailedScheduling")
        || f.view
            .evidence
            .iter()
            .any(|o| matches!(&o.body, Body::Event(e) if is_scheduler(&e.component, pod)));
    // Of a cut or a made object nothing can be missed, and the states of containers are a kubelet's.
    let is_whole = pod.created > Nanos(0)
        && pod.status.phase == PodPhase::Pending
        && pod.status.containers.is_empty();
    if said
        || !is_whole
        || !pod.spec.scheduling_gates.is_empty()
        || f.now.since(pod.created) < SILENT_NS
    {
        return;
    }
    // Another scheduler's group may wait for more than its members.
    let is_default = pod.spec.scheduler.is_empty();
    if !pod.spec.pod_group.is_empty() && is_default {
        found.extend(gang(cx, f, pod));
        return;
    }
    if !pod.spec.resource_claims.is_empty() {
        found.extend(unclaimed(f, pod));
        return;
    }
    let (chosen, node) = claims::chosen(cx, f, pod);
    if !chosen.is_empty() {
        // What provisioners say of the claim is more than that it is waited for.
        if !found.iter().any(|k| k.cause.id == cause::KF214) {
            let node = node.map(|n| format!("node {n}"));
            let mut x =
                Finding::new(cause::KF229, f).name("chosen", node.as_deref().unwrap_or("a node"));
            claims::name(&chosen, &mut x);
            found.push(x.proof_if(f.api_evidence));
        }
        return;
    }
    let absence = format!(
        "no PodScheduled condition and no event of a scheduler for {}",
        super::ago(f, pod.created)
    );
    if let Some(claims) = claims::may_be_waited_for(cx, f, pod) {
        if found.iter().any(|k| k.cause.id == cause::KF214) {
            return;
        }
        let quiet = super::ago(f, pod.created);
        let mut x = Finding::new(cause::KF229, f)
            .varying("silent", &quiet)
            .at_most(Confidence::Possible);
        claims::name(&claims, &mut x);
        found.push(
            x.proof_if(f.api_evidence)
                .absence(pod.created, Source::Kube, absence),
        );
        return;
    }
    let x = Finding::new(cause::KF223, f);
    let alive = cx.shared.placed(cx.world, &pod.spec.scheduler);
    let x = match alive.filter(|(at, _)| at.since(pod.created) > SILENT_NS) {
        Some((_, other)) => x.name("alive", other).at_most(Confidence::Possible),
        None => x,
    };
    let mut x = x.varying("unseen", &super::ago(f, pod.created));
    let heard = heard::scheduler(cx, &pod.spec.scheduler);
    // What lived after the pod was there is not known to be down.
    let lived = heard
        .as_ref()
        .is_some_and(|h| h.at.since(pod.created) > SILENT_NS);
    let runs = heard
        .as_ref()
        .is_some_and(|h| lived && cx.now.since(h.at) < limits::LEADER.ns);
    let binds = || {
        let bound = cx.shared.last_bound(cx.world, &pod.spec.scheduler);
        bound.is_some_and(|at| at.since(pod.created) > SILENT_NS)
    };
    if x.names.get("alive").is_none() && !lived && !binds() {
        x = x.name("absent", "running");
    } else if !runs {
        x = x.at_most(Confidence::Possible);
    }
    if let Some(h) = heard {
        let key = if runs && x.names.get("alive").is_none() {
            "renewed"
        } else {
            "heard"
        };
        x = x
            .varying(key, &h.in_words(cx.now))
            .proof_if(h.evidence.as_ref());
    }
    found.push(
        x.proof_if(f.api_evidence)
            .absence(pod.created, Source::Kube, absence),
    );
}
