//! What `why` says where no verdict is about what was asked for.

use std::collections::BTreeMap;

use super::super::args::WhyArgs;
use super::there;
use kflow_core::correlate::World;
use kflow_core::diagnose::finding::owner_arg;
use kflow_core::diagnose::unknown::Asked;
use kflow_core::diagnose::{self, Target};
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
    let (mut body_of_owner, mut body_of_node);
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
                let held = api.filter(|n| n.unschedulable);
                let held = held.and_then(|_| diagnose::held_on_node(world, name));
                body_of_node = match held {
                    Some(held) => format!("{body} {held}"),
                    None => body.to_owned(),
                };
                (format!("node/{name}"), &*body_of_node)
            }
            Target::Owner(o, pods) => {
                body_of_owner = diagnose::at_rest(asked, o, &pods);
                let o = &o.object;
                let head = match o.namespace.as_str() {
                    "" => owner_arg(o),
                    namespace => format!("{} ({namespace})", owner_arg(o)),
                };
                (head, &*body_of_owner)
            }
        };
        text.push_str(&kflow_export::text::clean(&head));
        text.push('\n');
        text.push_str(&kflow_export::text::clean(body));
        text.push('\n');
    }
    text
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
