//! `kflow flow`: the call flow as a map, and as it ran.

use anyhow::Context as _;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::args::Input;
use super::args::control::FlowArgs;
use super::args::live::ScopeArgs;
use super::input::Observations;
use super::pods::{named, no_pods, tell_of_empty_scope, whole};
use super::{NO_SUCH, OK, out};
use kflow_core::correlate::steps::steps;
use kflow_core::diagnose::unknown;
use kflow_core::flow::glossary;
use kflow_core::flow::map::{EMBEDDED, Map, StepId};
use kflow_core::flow::runs::{StepRuns, lit, passes};
use kflow_export::flow;
use kflow_model::{Evidence, patient};

/// Path of the user's map when the command line names none.
fn own_map() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CONFIG_HOME")
        .filter(|v| Path::new(v).is_absolute())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".config")))?;
    Some(base.join("kflow").join("flow.toml"))
}

/// Replaces the embedded map with the user's, if there is one.
pub(super) fn take_map(named: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = named.map(Path::to_owned).or_else(own_map) else {
        return Ok(());
    };
    let text = match patient::read_to_string(&path) {
        Err(e) if named.is_none() && e.kind() == ErrorKind::NotFound => return Ok(()),
        text => text.with_context(|| format!("cannot read the flow map {}", path.display()))?,
    };
    let map = Map::overlaid(&text).with_context(|| path.display().to_string())?;
    Map::install(map);
    Ok(())
}

/// The part of the map that the arguments name.
enum Asked {
    All,
    Flow(usize),
    Step(StepId),
    /// Steps that have the same name, the best match first.
    Steps(Vec<StepId>),
}

fn asked(map: &Map, what: &str) -> Option<Asked> {
    if let Some((i, _)) = map.flow(what) {
        return Some(Asked::Flow(i));
    }
    let named = map.named(what);
    match named.as_slice() {
        [] => None,
        [one] => Some(Asked::Step(*one)),
        _ => Some(Asked::Steps(named)),
    }
}

/// `kflow flow`
pub(super) fn flow(args: &FlowArgs) -> anyhow::Result<u8> {
    let mut out = out::stdout();
    if args.map_source {
        out.write_all(EMBEDDED.as_bytes())?;
        out.flush()?;
        return Ok(OK);
    }
    take_map(args.map.as_deref())?;
    let map = Map::active();
    let what = args.what.as_deref().unwrap_or_default();
    let found = args.what.as_deref().map(|w| asked(map, w));
    let word = match (&args.pod, args.output.rows()) {
        (None, None) => glossary::find(what),
        _ => None,
    };
    if let Some(word) = word
        && !looks(&args.input)
    {
        writeln!(out, "{}  {}", word.name, word.means)?;
        if !matches!(found, Some(Some(_))) {
            out.flush()?;
            return Ok(OK);
        }
        // A step may have the word's name.
        writeln!(out)?;
    }
    // Words of a label; a single word may be a pod where there is something to look at.
    let found = match found {
        Some(None) if what.contains(' ') || args.pod.is_none() && !looks(&args.input) => {
            let ids = map.labelled(what);
            Some((!ids.is_empty()).then_some(Asked::Steps(ids)))
        }
        found => found,
    };
    // Without a pod and a source, the command prints the map.
    if !looks(&args.input) && args.pod.is_none() && !matches!(found, Some(None)) {
        let asked = found.flatten().unwrap_or(Asked::All);
        match (asked, args.output.rows()) {
            (Asked::Step(id), None) => flow::step_text(&mut out, map, id)?,
            (Asked::Step(id), Some(form)) => flow::map_json(&mut out, map, form, |_, i| i == id)?,
            (Asked::Steps(ids), None) => {
                for (n, id) in ids.into_iter().enumerate() {
                    if n > 0 {
                        writeln!(out)?;
                    }
                    flow::step_text(&mut out, map, id)?;
                }
            }
            (Asked::Steps(ids), Some(form)) => {
                flow::map_json(&mut out, map, form, |_, i| ids.contains(&i))?;
            }
            (Asked::Flow(f), None) => {
                flow::map_text(&mut out, map, Some(f), out::colour())?;
            }
            (Asked::Flow(f), Some(form)) => flow::map_json(&mut out, map, form, |i, _| i == f)?,
            (Asked::All, None) => flow::map_text(&mut out, map, None, out::colour())?,
            (Asked::All, Some(form)) => flow::map_json(&mut out, map, form, |_, _| true)?,
        }
        out.flush()?;
        return Ok(OK);
    }

    // The first word is taken for a pod when no flow or step has that name.
    let (asked, pod) = match (found, &args.pod) {
        (None, pod) => (Asked::All, pod.as_deref()),
        (Some(Some(a)), pod) => (a, pod.as_deref()),
        (Some(None), None) => (Asked::All, args.what.as_deref()),
        (Some(None), Some(_)) => {
            out::tell(&not_in_the_map(map, what));
            return Ok(NO_SUCH);
        }
    };
    // A word that is nearly one of the map's is not looked for in a cluster that nobody named.
    if matches!(asked, Asked::All)
        && args.pod.is_none()
        && !looks(&args.input)
        && !what.contains('/')
        && !map.near(what).is_empty()
    {
        out::tell(&not_in_the_map(map, what));
        out::tell("a pod is named with its namespace: NAMESPACE/NAME, or -n");
        return Ok(NO_SUCH);
    }
    let source = Observations::open(&args.input, pod)?;
    let world = source.world()?;
    let asked_of = source.asked(&world);
    let missing = unknown::partial(asked_of);
    let pods = match pod {
        None => Vec::new(),
        Some(query) => {
            let pods = named(&world, query);
            if pods.is_empty() {
                if let Some(word) = word {
                    writeln!(out, "{}  {}", word.name, word.means)?;
                    out.flush()?;
                    return Ok(OK);
                }
                // Names in the map contain no slash.
                if args.pod.is_none() && !query.contains('/') {
                    out::tell(&not_in_the_map(map, what));
                }
                return no_pods(query, asked_of);
            }
            pods
        }
    };
    if pods.is_empty()
        && world.pods().is_empty()
        && source.recorded.is_none()
        && let Some(unknown) = missing
    {
        return Err(unknown.into());
    }
    // Of several steps with one name, shows the best match.
    let asked = match asked {
        Asked::Steps(ids) => ids.first().map_or(Asked::All, |id| Asked::Step(*id)),
        asked => asked,
    };
    let flows: Vec<usize> = match &asked {
        Asked::All | Asked::Steps(_) => (0..map.flows().len()).collect(),
        Asked::Flow(f) => vec![*f],
        Asked::Step(id) => map.get(*id).map(|s| s.flow).into_iter().collect(),
    };
    let step = match &asked {
        Asked::Step(id) => Some(*id),
        _ => None,
    };
    let mut passed = Vec::new();
    if pods.is_empty() {
        let upto = source.session.arrived_by(source.at);
        // A list of Events begins with those of the last hour, which are older than the recording.
        let begin = source.session.range().map_or(source.at, |(begin, _)| begin);
        let all: Vec<Evidence> = source
            .session
            .observations
            .iter()
            .take(upto)
            .filter(|o| o.stamp.until() >= begin && world.selects_observation(o))
            .cloned()
            .collect();
        let whole = lit(map, &all, source.at);
        add(map, &flows, (&all, whole), "", &source, &mut passed);
    }
    for p in &pods {
        let whole = steps(map, &world, p);
        add(
            map,
            &flows,
            (&p.evidence, whole),
            &p.key(),
            &source,
            &mut passed,
        );
    }
    let options = flow::Options {
        now: source.at,
        step,
        all: args.all,
    };
    match args.output.rows() {
        None => {
            flow::lit_text(&mut out, map, &passed, &options, out::colour())?;
            source.tell_moment(&args.input);
        }
        Some(form) => flow::lit_json(&mut out, map, &passed, &options, form)?,
    }
    out.flush()?;
    tell_of_empty_scope(asked_of);
    Ok(whole(missing.as_ref()))
}

/// Adds the passes of each flow to `to`.
fn add(
    map: &Map,
    flows: &[usize],
    (evidence, whole): (&[Evidence], Vec<StepRuns>),
    pod: &str,
    source: &Observations,
    to: &mut Vec<flow::Pass>,
) {
    for f in flows {
        let anchored = map.flows().get(*f).is_some_and(|f| f.anchor.is_some());
        if !anchored {
            to.push(flow::Pass {
                flow: *f,
                number: 1,
                of: 1,
                pod: pod.to_owned(),
                lit: whole.clone(),
            });
            continue;
        }
        let pieces = passes(map, *f, evidence);
        let of = pieces.len();
        for (i, piece) in pieces.iter().enumerate() {
            to.push(flow::Pass {
                flow: *f,
                number: i + 1,
                of,
                pod: pod.to_owned(),
                lit: lit(map, piece, source.at),
            });
        }
    }
}

/// True when the arguments name a source: a recording, or something live.
fn looks(input: &Input) -> bool {
    let live = &input.live;
    let runs = live.live_flag().is_some() || live.scope != ScopeArgs::default();
    input.session.is_some() || input.at.is_some() || input.for_time.is_some() || runs
}

fn not_in_the_map(map: &Map, what: &str) -> String {
    let near = map.near(what);
    if !near.is_empty() {
        return format!(
            "{what:?} is no flow, step, function or word of the map; did you mean {}?",
            near.join(", ")
        );
    }
    let flows: Vec<&str> = map.flows().iter().map(|f| f.name.as_str()).collect();
    format!(
        "{what:?} is no flow, step, function or word of the map; flows are {}",
        flows.join(", ")
    )
}
