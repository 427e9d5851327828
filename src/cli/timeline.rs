//! `kflow timeline`

use std::io::Write as _;

use super::args::{TimelineArgs, TimelineFormat as Format};
use super::input::Observations;
use super::out;
use super::pods::{chosen, no_such_pod, tell_of_loss, tell_of_none, tell_of_past, whole, within};
use kflow_core::correlate::ObjectState;
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_export::{critical, names, owner, timeline};

/// `kflow timeline`
pub(super) fn timeline(args: &TimelineArgs) -> anyhow::Result<u8> {
    let source = Observations::open(&args.input, args.pod.as_deref())?;
    let world = source.world()?;
    let asked = source.asked(&world);
    let (pods, past) = chosen(&world, args.pod.as_deref(), args.past);
    if let Some(query) = args.pod.as_deref().filter(|_| pods.is_empty()) {
        let owners = owner::find(&world, query);
        if owners.is_empty() {
            return no_such_pod(query, asked);
        }
        anyhow::ensure!(
            !args.critical,
            "{query} makes pods, and --critical is about the start of a pod: name one of its pods"
        );
        return self::owners(asked, query, &owners, args.output);
    }
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
    }
    tell_of_past(past);
    tell_of_loss(&world);
    Ok(whole(missing.as_ref()))
}

/// The stories of what makes pods.
fn owners(
    asked: Asked<'_>,
    query: &str,
    found: &[&ObjectState],
    form: Format,
) -> anyhow::Result<u8> {
    let stories = found.iter().map(|o| owner::story(asked.world, o));
    let stories: Vec<_> = stories.collect();
    let mut out = out::stdout();
    match form.rows() {
        Some(form) => owner::rows(&mut out, &stories, form)?,
        None if form == Format::Name => {
            let objects = found.iter().map(|o| &o.object);
            names::of_objects(&mut out, objects, within(asked, Some(query)))?;
        }
        None => {
            for story in &stories {
                owner::text(&mut out, story, out::colour())?;
            }
        }
    }
    out.flush()?;
    Ok(whole(unknown::partial(asked).as_ref()))
}
