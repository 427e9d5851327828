//! `kflow timeline`

use std::collections::BTreeMap;
use std::io::Write as _;

use super::agents::{self, Said};
use super::args::{TimelineArgs, TimelineFormat as Format};
use super::input::Observations;
use super::out;
use super::pods::{
    Chosen, absence, chosen, no_pods, tell_of_loss, tell_of_none, tell_of_past, whole, within,
};
use kflow_core::correlate::{ObjectState, Pod, World};
use kflow_core::diagnose::Target;
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_engine::ask::{ApiTold, NodeTold};
use kflow_export::abreast::{Clock, Lane};
use kflow_export::{critical, names, owner, timeline};
use kflow_model::{PodUid, Text};

/// `kflow timeline`
pub(super) fn timeline(args: &TimelineArgs) -> anyhow::Result<u8> {
    let source = Observations::open(&args.input, args.pod.as_deref())?;
    let world = source.world()?;
    let asked = source.asked(&world);
    let chosen = chosen(&world, args.pod.as_deref(), args.past);
    if let Some(query) = args.pod.as_deref() {
        let owners = chosen.targets.iter().filter_map(|t| match t {
            Target::Owner(o, _) => Some(*o),
            _ => None,
        });
        let owners: Vec<&ObjectState> = owners.collect();
        // Only a pod has a critical path.
        if !owners.is_empty() && !args.critical {
            return self::owners(args, &source, asked, query, &owners);
        }
        if chosen.pods.is_empty() {
            return no_pods(query, asked);
        }
    }
    let Chosen { pods, past, .. } = chosen;
    let missing = unknown::partial(asked);
    if pods.is_empty()
        && let Some(unknown) = unknown::none(asked)
    {
        return Err(unknown.into());
    }
    let mut out = out::stdout();
    match (args.output.rows(), args.critical) {
        (None, _) if args.output == Format::Name => {
            let within = within(asked, args.pod.as_deref());
            names::of_pods(&mut out, &pods, within)?;
        }
        (Some(form), true) => critical::rows(&mut out, &world, &pods, source.at, form)?,
        (None, true) => critical::text(&mut out, &world, &pods, source.at, out::colour())?,
        (Some(form), false) => timeline::rows(&mut out, &pods, form)?,
        (None, false) => timeline::text(&mut out, &world, &pods, source.at, out::colour())?,
    }
    out.flush()?;
    if pods.is_empty() {
        tell_of_none("pods", asked);
    } else if args.output.rows().is_none() && args.output != Format::Name {
        source.tell_moment(&args.input);
    }
    tell_of_past(past);
    tell_of_loss(&world);
    Ok(whole(missing.as_ref()))
}

/// Prints the timelines of owners and their pods.
fn owners(
    args: &TimelineArgs,
    source: &Observations,
    asked: Asked<'_>,
    query: &str,
    found: &[&ObjectState],
) -> anyhow::Result<u8> {
    let stories = found.iter().map(|o| owner::story(asked.world, o, asked.at));
    let mut stories: Vec<_> = stories.collect();
    if args.output != Format::Name {
        let lanes = stories.iter_mut().flat_map(|s| &mut s.lanes);
        heard(args, source, asked.world, lanes.collect())?;
    }
    let mut out = out::stdout();
    match args.output.rows() {
        Some(form) => owner::rows(&mut out, &stories, form)?,
        None if args.output == Format::Name => {
            let objects = found.iter().map(|o| &o.object);
            names::of_objects(&mut out, objects, within(asked, Some(query)))?;
        }
        None => {
            for story in &stories {
                owner::text(&mut out, story, out::colour())?;
            }
            source.tell_moment(&args.input);
        }
    }
    out.flush()?;
    let missing = unknown::partial(asked);
    if missing.is_none()
        && stories.iter().all(|s| s.pods.is_empty())
        && let Ok(said) = absence(query, asked)
    {
        out::tell(&said);
    }
    Ok(whole(missing.as_ref()))
}

/// Replaces the timelines of pods by those from their nodes' agents, each by its node's clock.
fn heard(
    args: &TimelineArgs,
    source: &Observations,
    world: &World,
    lanes: Vec<&mut Lane>,
) -> anyhow::Result<()> {
    let mut pods: BTreeMap<Text, Vec<PodUid>> = BTreeMap::new();
    for p in lanes.iter().map(|l| &l.pod).filter(|p| !p.node.is_empty()) {
        let of = pods.entry(p.node.clone()).or_default();
        of.push(p.uid.clone());
    }
    if pods.is_empty() || !agents::asks(&args.input) {
        return Ok(());
    }
    let nodes: Vec<Text> = pods.keys().cloned().collect();
    let told = ApiTold::of(world, &source.session.observations, &nodes);
    let look = move |node: &Text, told: NodeTold| {
        let world = told.world();
        let uids = pods.get(node).into_iter().flatten();
        let known = uids.filter_map(|uid| world.pod(uid));
        let lane = |pod: &Pod| Lane {
            pod: Pod::clone(pod),
            clock: Clock::Node(told.offset),
            now: told.now,
        };
        known.map(lane).collect::<Vec<Lane>>()
    };
    let heard = agents::heard(&args.input, &nodes, None, told, look)?;
    let apiserver = Clock::Apiserver(heard.apiserver);
    let said = Said {
        heard: "is in the rows",
        silent: "are shown by the API alone",
    };
    agents::tell(&heard, args.input.live.agents(), said);
    let known = heard.nodes.into_iter().filter_map(|(_, lanes)| lanes.ok());
    let known = known.flatten().map(|l| (l.pod.uid.clone(), l));
    let mut known: BTreeMap<PodUid, Lane> = known.collect();
    for lane in lanes {
        match known.remove(&lane.pod.uid) {
            Some(told) => *lane = told,
            None => lane.clock = apiserver,
        }
    }
    Ok(())
}
