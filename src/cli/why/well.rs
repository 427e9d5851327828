//! What `why` says where no verdict is about what was asked for.

use std::collections::BTreeMap;

use super::super::args::WhyArgs;
use super::there;
use kflow_core::correlate::owners::CLAIM;
use kflow_core::correlate::{ObjectState, Pod, World};
use kflow_core::diagnose::finding::owner_arg;
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_core::diagnose::{self, Target};
use kflow_model::Body;
use kflow_model::pod::PodPhase;
use kflow_model::units::{clock, counted};

/// The text without a verdict: all pods are well, or the pods of the query are on their way.
pub(super) fn nothing(args: &WhyArgs, asked: Asked<'_>) -> String {
    let world = asked.world;
    let Some(query) = &args.pod else {
        let place = asked.scope.map(|s| format!(" in {}", s.name()));
        let place = place.unwrap_or_default();
        let moving = on_their_way(world);
        return match pods_there(world) {
            n if n > 0 && !moving.is_empty() => format!(
                "There {} {}{place}. Nothing has failed, and nothing has taken too long so far; on their way: {moving}.\n",
                if n == 1 { "is" } else { "are" },
                counted(n as u64, "pod"),
            ),
            0 => format!("There are no pods{place}.\n{}", were_there(args, asked)),
            1 => format!("There is 1 pod{place}, and it is well.\n"),
            n => format!("There are {n} pods{place}, and all are well.\n"),
        };
    };
    let mut text = String::new();
    let mut body_of_owner;
    for target in diagnose::find(world, query) {
        let there = there(&target).count();
        let (head, body) = match target {
            Target::Pod(p) => {
                let status = if p.status.is_empty() {
                    "in no status yet"
                } else {
                    p.status.as_str()
                };
                (
                    format!("{}   {status}", p.key()),
                    "Nothing has failed, and nothing has taken too long so far.",
                )
            }
            Target::Node(name, _) => {
                let api = world.node(name).and_then(|n| n.api.as_deref());
                let body = match (there, api.is_some_and(|n| n.unschedulable)) {
                    (0, false) => "It is well, and has no pods.",
                    (_, false) => "It is well, and its pods are well or on their way.",
                    (0, true) => "It is well, but cordoned (spec.unschedulable), and has no pods.",
                    (_, true) => {
                        "It is well, but cordoned (spec.unschedulable): no new pod comes. Its pods are well or on their way."
                    }
                };
                (format!("node/{name}"), body)
            }
            Target::Owner(o, pods) => {
                body_of_owner = owner(asked, o, &pods);
                let o = &o.object;
                (
                    format!("{} ({})", owner_arg(o), o.namespace),
                    &*body_of_owner,
                )
            }
        };
        text.push_str(&kflow_export::text::clean(&head));
        text.push('\n');
        text.push_str(&kflow_export::text::clean(body));
        text.push('\n');
    }
    text
}

/// What is known of an owner or claim that is not kept from anything.
fn owner(asked: Asked<'_>, o: &ObjectState, pods: &[&Pod]) -> String {
    let api = o.api.as_deref();
    let fact = |key| api.and_then(|api| api.fact(key));
    let holds = |condition: &str| {
        let mut all = api.iter().flat_map(|api| &api.conditions);
        all.any(|c| c.kind == condition && c.is_true())
    };
    let there = pods.iter().filter(|p| p.gone.is_none());
    let number = there.clone().count();
    let is_suspended = fact("suspend") == Some("true");
    if unknown::is_deleted(asked, o) {
        let end = o.evidence.iter().rev().find_map(|e| match &e.body {
            Body::Event(e) => Some(format!(" Its last Event: {}: {}", e.reason, e.message)),
            _ => None,
        });
        return format!("It does not exist any more.{}", end.unwrap_or_default());
    }
    match o.object.kind.as_str() {
        "Job" if holds("Complete") => "It is complete.".to_owned(),
        "Job" if is_suspended && number == 0 => {
            "It is suspended (spec.suspend), so it makes no pod.".to_owned()
        }
        "CronJob" if is_suspended => format!(
            "It is suspended (spec.suspend), so it makes no Job.{}",
            last_run(fact)
        ),
        "CronJob" if number > 0 => {
            let policy = fact("concurrencyPolicy").unwrap_or("Allow");
            format!(
                "{}{} (concurrencyPolicy {policy})",
                of_its_pods(pods),
                last_run(fact).trim_end_matches('.')
            )
        }
        _ if number > 0 => of_its_pods(pods),
        CLAIM => "No pod mounts it.".to_owned(),
        "CronJob" => format!(
            "It has no pods now, and nothing says that it is kept from making a Job.{}",
            last_run(fact)
        ),
        _ if fact("replicas") == Some("0") => "It wants no pods (spec.replicas is 0).".to_owned(),
        "DaemonSet" if fact("desiredNumberScheduled") == Some("0") => {
            "It wants no pods: no node fits its node selector, affinity and tolerations.".to_owned()
        }
        _ if fact("paused") == Some("true") && pods.is_empty() => {
            "It is paused (spec.paused), so it makes no pod.".to_owned()
        }
        _ if pods.is_empty() => {
            "It has no pods, and nothing says that it was kept from making one.".to_owned()
        }
        _ => "Its pods are gone, and nothing says that it is kept from making one.".to_owned(),
    }
}

/// How many of the pods that exist are well, have completed, or are on the way: `Its 3 pods: 2 well, 1 on the way.`
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

/// When a CronJob starts its Jobs, and when it has last started one.
fn last_run<'f>(fact: impl Fn(&'static str) -> Option<&'f str>) -> String {
    let Some(schedule) = fact("schedule") else {
        return String::new();
    };
    match fact("lastScheduleTime") {
        Some(at) => format!(" Its schedule is {schedule}, and its last Job started at {at}."),
        None => format!(" Its schedule is {schedule}, and it has started no Job yet."),
    }
}

/// The number of pods that exist.
pub(super) fn pods_there(world: &World) -> usize {
    let pods = world.pods().iter();
    pods.filter(|p| p.gone.is_none() && !p.past).count()
}

/// The statuses of pods that start or end, with how many pods have each: `4 Terminating, 1 Init:0/1`.
fn on_their_way(world: &World) -> String {
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    let there = world.pods().iter().filter(|p| p.gone.is_none() && !p.past);
    for p in there.filter(|p| p.current.is_some()) {
        let status = match p.status.as_str() {
            "" => "in no status yet",
            "Running" => "Running and not ready yet",
            status => status,
        };
        *all.entry(status).or_default() += 1;
    }
    let all = all.iter().map(|(status, n)| format!("{n} {status}"));
    kflow_export::text::clean(&all.collect::<Vec<_>>().join(", ")).into_owned()
}

/// The pods that are gone by the moment of a recording, and how to ask about them; empty when there are none.
fn were_there(args: &WhyArgs, asked: Asked<'_>) -> String {
    let gone = asked.world.pods().iter().filter_map(|p| p.gone);
    let (n, last) = (gone.clone().count(), gone.max());
    let input = &args.input;
    let (Some(last), Some(flags), Some(recording)) = (last, input.flags(), input.recording())
    else {
        return String::new();
    };
    if asked.recorded.is_none() {
        return String::new();
    }
    // The middle of the recording may be after a moment that was named.
    let earlier = match input.at {
        None => "50%".to_owned(),
        Some(_) => last.plus(-1).to_rfc3339(),
    };
    format!(
        "{} there before {} and gone by then. What was ever not well:  kflow why --ever{flags}\n\
         As of an earlier moment:  kflow why --all --at {earlier}{recording}\n",
        if n == 1 {
            "1 pod was".to_owned()
        } else {
            format!("{n} pods were")
        },
        clock(asked.at, 0, 0)
    )
}
