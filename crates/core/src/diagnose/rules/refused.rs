//! Owners that the apiserver refuses what they create: pods, the Jobs of a CronJob, the ReplicaSet of a Deployment.

use super::owner::{Owners, SET_REFUSED, creates_pods, is_of_kubernetes, of_this_one};
use super::{Context, newest_state, webhook};
use crate::correlate::ObjectState;
use crate::diagnose::finding::{Finding, proof};
use crate::diagnose::history::PodHistory;
use crate::diagnose::signal::Tally;
use crate::diagnose::text::span;
use crate::diagnose::{Catalogue, Confidence, cause, limits, standing};
use kflow_model::kind::CRON_JOB;
use kflow_model::object::ObjectSeen;
use kflow_model::pod::Condition;
use kflow_model::{Body, Evidence, Nanos, stamp::SECOND};

/// Returns a finding when the newest attempt to create a pod failed.
pub(super) fn refused<'a, 'w>(
    cx: Context<'w>,
    f: &PodHistory<'a>,
    o: &'a ObjectState,
    all: &Owners<'w>,
) -> Option<Finding<'a>> {
    if has_all(o) {
        return None;
    }
    let mut newest: Option<(Nanos, &Evidence, &str)> = None;
    let mut worked: Option<Nanos> = None;
    let mut first = None;
    // A table of Events may not say when the first of them was.
    let mut undated = false;
    // Both may tell of the same attempts.
    let (mut events, mut requests) = (0_u32, 0);
    let mut told = Tally::default();
    for e in of_this_one(o) {
        let at = e.stamp.at;
        match &e.body {
            Body::Event(ev) if creates_pods(o, e) => {
                newest = Some((at, e, ev.message.as_str()));
                first = first.or(Some(ev.first.unwrap_or(at)));
                undated = ev.first.is_none();
                let more = told.add(e, ev.message.as_str().into(), ev.count.max(1));
                events = events.saturating_add(more);
            }
            // What a Deployment says once it has its ReplicaSet.
            Body::Event(ev) if matches!(&*ev.reason, "SuccessfulCreate" | "ScalingReplicaSet") => {
                worked = Some(at);
                first = None;
                (events, requests) = (0, 0);
            }
            Body::Audit(a) if a.verb == "create" && a.resource == "pods" => {
                if a.code >= 400 {
                    if newest.is_none_or(|(t, ..)| at.since(t) > SECOND) {
                        newest = Some((at, e, a.message.as_str()));
                    }
                    first = first.or(Some(at));
                    requests += 1;
                } else if a.code >= 200 {
                    worked = Some(at);
                    first = None;
                    (events, requests) = (0, 0);
                }
            }
            _ => {}
        }
    }
    let Some((at, e, message)) = newest else {
        return by_condition(cx, f, o, worked);
    };
    let tried_for = if undated {
        limits::CONTROLLER_RETRY.ns
    } else {
        at.since(first.unwrap_or(at))
    };
    let old = forgotten(f.now, tried_for, at);
    if !is_of_kubernetes(o) || undated {
        worked = worked.max(created_since(cx, o, all, at));
    }
    // A paste of Events alone is all that is known of its owner.
    let alone = o.api.is_none() && cx.world.coverage().newest_list("pods").is_none();
    if worked.is_some_and(|w| w >= at) || (old && !lacks(o) && !alone) {
        return None;
    }
    let mut x = of_message(cx, f, message)?.since(first.unwrap_or(at));
    name_made(
        o,
        matches!(&e.body, Body::Event(e) if e.reason == SET_REFUSED),
        &mut x,
    );
    if let Some(tries) = tries(cx.now, at, tried_for) {
        x.names.vary("beside", &tries, "");
    }
    // The apiserver did not say what it waited for.
    if x.names.get("late").is_some() {
        x = x.at_most(Confidence::Likely);
    }
    x.attempt = events.max(requests);
    x.proofs.push(proof(e));
    if old || undated {
        x = x.at_most(Confidence::Likely);
    }
    Some(x)
}

/// What the apiserver's refusal means.
fn of_message<'a>(cx: Context<'_>, f: &PodHistory<'a>, message: &str) -> Option<Finding<'a>> {
    let (cause, names) = Catalogue::get().best("FailedCreate", message, |_| true)?;
    let mut x = Finding::of(cause, f);
    x.names = names;
    webhook::follow(cx, message, &mut x);
    if let Some(excess) = excess(&x) {
        x.names.set("excess", &excess);
    }
    if x.cause.id == cause::KF104
        && let Some((_, what)) = message.split_once(VIOLATES)
        && let Some((_, what)) = what.split_once(": ")
    {
        x.names.replace("what", &violations(what));
    }
    Some(x)
}

/// Names what an owner was refused, where it is no pod.
fn name_made(o: &ObjectState, is_set: bool, x: &mut Finding<'_>) {
    let (made, all) = match o.object.kind.as_str() {
        CRON_JOB => ("the Job", "jobs"),
        "Deployment" if is_set => ("the ReplicaSet", "replicasets"),
        _ => return,
    };
    x.names.set("made", made);
    x.names.set("all_made", all);
}

/// The condition by which an owner's status says that its controller is refused; its message is that of the first refusal (Kubernetes
/// 1.36 `pkg/controller/replicaset/replica_set_utils.go`, `calculateStatus`).
fn refusal(api: &ObjectSeen) -> Option<&Condition> {
    let fails = api.condition("ReplicaFailure");
    let fails = fails.filter(|c| c.is_true() && c.reason == "FailedCreate");
    let of_set = api.condition("Progressing");
    fails.or_else(|| of_set.filter(|c| c.reason == SET_REFUSED))
}

/// Returns a finding for an owner of whose refusals no Event or request is known: they may not be read, or have expired.
fn by_condition<'a>(
    cx: Context<'_>,
    f: &PodHistory<'a>,
    o: &'a ObjectState,
    worked: Option<Nanos>,
) -> Option<Finding<'a>> {
    let c = refusal(standing::there(o)?)?;
    let shown = newest_state(o)?;
    if worked.is_some_and(|w| w >= shown.stamp.at) {
        return None;
    }
    let mut x = of_message(cx, f, &c.message)?;
    name_made(o, c.reason == SET_REFUSED, &mut x);
    let x = match c.transition {
        Some(at) => x.since(at),
        None => x.seen_only(f.now),
    };
    Some(x.condition(shown, c).at_most(Confidence::Likely))
}

/// Returns when the newest pod of the owner was created, if that was after `at`.
fn created_since<'w>(
    cx: Context<'w>,
    o: &ObjectState,
    all: &Owners<'w>,
    at: Nanos,
) -> Option<Nanos> {
    let pods = o.pods.iter().filter_map(|uid| cx.world.pod(uid));
    let created = pods.filter_map(|p| Some(p.api.as_ref()?.created));
    let newest = created.max().max(all.created(cx, &o.object));
    newest.filter(|created| *created > at)
}

/// True when the owner wants no pod beside those that it has, whatever was refused before: it was scaled down, suspended or replaced
/// by one with another template, or is done. Its controller says nothing then that would end the refusal.
fn has_all(o: &ObjectState) -> bool {
    let Some(api) = standing::there(o) else {
        return false;
    };
    // It makes a ReplicaSet for each template, also for none of its pods.
    if o.object.kind == "Deployment" {
        return api.condition("Progressing").is_some() && refusal(api).is_none();
    }
    let counts = ["replicas", "desiredNumberScheduled"];
    let is_counted = counts.iter().any(|key| api.fact(key).is_some());
    api.fact("suspend") == Some("true") || api.holds("Complete") || (is_counted && !lacks(o))
}

/// True when the owner's status still shows fewer pods than it wants. Its newer Events may have been dropped by their
/// sender (25 in a burst, then one in five minutes), or its controller may stand still: the last refusal is the best
/// that is known.
fn lacks(o: &ObjectState) -> bool {
    let Some(api) = &o.api else { return false };
    let count = |key: &str| api.fact(key).and_then(|n| n.parse::<i64>().ok());
    match o.object.kind.as_str() {
        "DaemonSet" => count("desiredNumberScheduled") > count("currentNumberScheduled"),
        _ => count("replicas").is_some_and(|want| want > count("statusReplicas").unwrap_or(0)),
    }
}

/// True when a refusal is too old to count. The controller doubles its wait after each failure, up to 1000 s
/// (client-go's item exponential failure rate limiter): when no failure follows for much longer than that, the owner
/// is gone or its trouble is over.
fn forgotten(now: Nanos, tried_for: i64, last: Nanos) -> bool {
    now.since(next_try(tried_for, last)) > limits::CONTROLLER_LATE.ns
}

/// When the controller tries again, at the latest: as it waits twice as long after each failure, no longer than it has tried.
fn next_try(tried_for: i64, last: Nanos) -> Nanos {
    last.plus(tried_for.min(limits::CONTROLLER_RETRY.ns))
}

/// Says when the controller tried last and tries again: what kept it may be repaired since, and it does not look before. `None`
/// while it tries often.
fn tries(now: Nanos, last: Nanos, tried_for: i64) -> Option<String> {
    const OFTEN_NS: i64 = 5 * SECOND;
    let ago = now.since(last);
    let next = next_try(tried_for, last).since(now);
    (ago >= OFTEN_NS && next > 0).then(|| {
        format!(
            "It was refused last {} ago; its controller tries again within {}.",
            span(ago),
            span(next)
        )
    })
}

/// Before the level, in what the apiserver says of Pod Security (k8s.io/pod-security-admission `admission/admission.go`,
/// EvaluatePod).
const VIOLATES: &str = "violates PodSecurity ";

/// Returns what a pod violates, without the fields that each container has to set, which would fill the sentence:
/// `runAsNonRoot != true (pod or container "app" must set securityContext.runAsNonRoot=true)` without `must set …`.
fn violations(what: &str) -> String {
    let mut parts = what.trim_end_matches('.').split(" must set ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((_, rest)) => {
                out.push(')');
                out.push_str(rest);
            }
            // The message is cut.
            None => out.push_str(" …"),
        }
    }
    out
}

/// Returns the resources that exceed a quota, the one that exceeds it most first: `pods over by 1, requests.cpu over by 50m`.
fn excess(x: &Finding<'_>) -> Option<String> {
    use crate::diagnose::quantity::Quantity;
    let table = |key: &str| -> Vec<(String, Quantity)> {
        x.names
            .get(key)
            .unwrap_or_default()
            .split(',')
            .filter_map(|p| {
                let (k, v) = p.split_once('=')?;
                Some((k.trim().to_owned(), Quantity::parse(v)?))
            })
            .collect()
    };
    let (used, limited) = (table("used"), table("limited"));
    let of = |t: &[(String, Quantity)], k: &str| t.iter().find(|(n, _)| n == k).map(|(_, q)| *q);
    let mut over: Vec<(i128, String)> = table("requested")
        .into_iter()
        .filter_map(|(k, want)| {
            let limit = of(&limited, &k)?;
            let over = of(&used, &k).unwrap_or_default() + want - limit;
            let resource = k.rsplit('.').next().unwrap_or(&k);
            let words = || format!("{k} over by {}", over.show(resource));
            (over > Quantity(0)).then(|| (over.0 * 1000 / limit.0.max(1), words()))
        })
        .collect();
    over.sort_by_key(|(ratio, _)| std::cmp::Reverse(*ratio));
    let over: Vec<String> = over.into_iter().map(|(_, words)| words).collect();
    (!over.is_empty()).then(|| over.join(", "))
}
