//! What `why` says where no verdict is about what was asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::args::WhyArgs;
use super::there;
use kflow_core::correlate::{Pod, World};
use kflow_core::diagnose::finding::owner_arg;
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_core::diagnose::{self, Target, Verdict};
use kflow_export::why::{WIDTH, wrap};
use kflow_model::ObjectRef;
use kflow_model::pod::PodPhase;
use kflow_model::units::{clock, counted};

/// The text without a verdict: all pods are well, or the pods of the query are on their way.
pub(super) fn nothing(args: &WhyArgs, asked: Asked<'_>) -> String {
    let world = asked.world;
    let Some(query) = &args.pod else {
        let place = asked.scope.map(|s| format!(" {}", s.place()));
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
                let body = match there {
                    0 => "It is well, and has no pods.",
                    _ => "It is well, and its pods are well or on their way.",
                };
                let state = diagnose::node_state(world, name);
                body_of_node = state.map_or_else(|| body.to_owned(), |s| format!("{body} {s}"));
                (format!("node/{name}"), &*body_of_node)
            }
            Target::Owner(o, pods) => {
                body_of_owner = diagnose::at_rest(asked, o, &pods);
                (head_of(&o.object), &*body_of_owner)
            }
        };
        paragraph(&mut text, &head, body);
    }
    text
}

/// What is known of the owners and nodes that were asked about beside the verdicts on their pods.
pub(super) fn beside(args: &WhyArgs, asked: Asked<'_>, verdicts: &[Arc<Verdict>]) -> String {
    let mut text = String::new();
    let targets = args.pod.as_deref().map(|q| diagnose::find(asked.world, q));
    for target in targets.into_iter().flatten() {
        let (head, own) = match target {
            Target::Pod(_) => continue,
            Target::Owner(o, _) => (head_of(&o.object), diagnose::own_state(asked, o)),
            Target::Node(name, _) => (
                format!("node/{name}"),
                diagnose::node_state(asked.world, name),
            ),
        };
        let is_told = |v: &&Verdict| v.uid.is_empty();
        let mut of_owners = verdicts.iter().map(AsRef::as_ref).filter(is_told);
        let told =
            of_owners.any(|v: &Verdict| v.owner.as_ref().is_some_and(|o| head_of(o) == head));
        if let Some(own) = own.filter(|_| !told) {
            text.push('\n');
            paragraph(&mut text, &head, &wrap(&own, WIDTH).join("\n"));
        }
    }
    text
}

pub(super) fn head_of(o: &ObjectRef) -> String {
    match o.namespace.as_str() {
        "" => owner_arg(o),
        namespace => format!("{} ({namespace})", owner_arg(o)),
    }
}

fn paragraph(text: &mut String, head: &str, body: &str) {
    for line in std::iter::once(head).chain(body.lines()) {
        text.push_str(&kflow_export::text::clean(line));
        text.push('\n');
    }
}

/// The text where there may be more pods than a recording shows, and those that it shows are well.
pub(super) fn shown(asked: Asked<'_>) -> Option<String> {
    let pods = || pods(asked.world);
    let is_well = |p: &Pod| unknown::known(asked, p).is_none();
    if asked.recorded.is_none() || !pods().all(is_well) || !on_their_way(asked.world).is_empty() {
        return None;
    }
    match pods().count() {
        0 => None,
        1 => Some("What was read shows 1 pod, and it is well.\n".to_owned()),
        n => Some(format!("What was read shows {n} pods, and all are well.\n")),
    }
}

/// The pods that exist.
fn pods(world: &World) -> impl Iterator<Item = &Pod> {
    let all = world.pods().iter();
    all.filter(|p| p.gone.is_none() && !p.past)
}

/// The number of pods that exist.
pub(super) fn pods_there(world: &World) -> usize {
    pods(world).count()
}

/// The statuses of pods that start or end, with how many pods have each: `4 Terminating, 1 Init:0/1`.
fn on_their_way(world: &World) -> String {
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for p in pods(world).filter(|p| p.current.is_some() && p.phase != PodPhase::Succeeded) {
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
