//! `kflow stats`

use std::io::Write as _;
use std::path::Path;

use anyhow::{bail, ensure};

use super::args::stats::{Side, StatsArgs, StatsFormat};
use super::args::{Input, Range};
use super::input::Observations;
use super::out;
use super::pods::{tell_of_loss, tell_of_none, tell_of_own, whole};
use kflow_core::correlate::World;
use kflow_core::correlate::world::Pod;
use kflow_core::diagnose::Unknown;
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_core::query::{PodRecord, Query, Record};
use kflow_core::stats::{self, Chosen, GroupBy, Row};
use kflow_core::suggest::suggest;
use kflow_export::stats as export;
use kflow_model::Nanos;

/// `kflow stats`
pub(super) fn stats(args: &StatsArgs) -> anyhow::Result<u8> {
    known(&args.measure)?;
    let times = match args.compare.as_slice() {
        [Side::Time(before), Side::Time(after)] => Some((*before, *after)),
        [Side::Recording(before), Side::Recording(after)] => {
            return recordings(args, before, after);
        }
        [] => None,
        _ => bail!("a time and a recording cannot be compared: name two times, or two recordings"),
    };
    let source = Observations::open(&args.input, None)?;
    let world = source.world()?;
    let asked = source.asked(&world);
    let missing = unknown::partial(asked);
    is_there_any(asked)?;
    let begin = source.from(None)?;
    let of = |query: Option<&Query>, range: Option<Range>| {
        let range = range.map(|r| r.within((begin, source.at))).transpose()?;
        let rows = stats::rows(&world, source.at, by(args), Chosen { query, range });
        anyhow::Ok(measured(args, rows))
    };
    let filter = args.filter.as_ref();
    let is_empty = match (times, &args.against) {
        (Some((before, after)), _) => {
            let (before, after) = (of(filter, Some(before))?, of(filter, Some(after))?);
            let none = before.is_empty() && after.is_empty();
            differences(args, before, after)?;
            none
        }
        (None, against) => {
            let rows = of(filter, args.range)?;
            let none = rows.is_empty();
            match against {
                Some(query) => differences(args, of(Some(query), args.range)?, rows)?,
                None => write(args, &rows)?,
            }
            none
        }
    };
    if is_empty {
        match args.measure.as_slice() {
            [] => tell_of_none("starts and calls to measure", asked),
            names => tell_of_none(&format!("lengths of {}", names.join(", ")), asked),
        }
        if let Some(why) = unmet(args, &world, source.at) {
            out::tell(&why);
        }
    }
    if filter.is_none() && measures_calls(&args.measure) {
        let own =
            kflow_export::calls::own(&world, &kflow_export::calls::Filter::default(), source.at);
        tell_of_own(own, "not measured", &args.input);
    }
    tell_of_loss(&world);
    Ok(whole(missing.as_ref()))
}

fn measures_calls(measures: &[String]) -> bool {
    let of_calls = |name: &String| name.split('/').next() == Some("call");
    measures.is_empty() || measures.iter().any(of_calls)
}

/// Why a filter expression may hold for no pod.
fn unmet(args: &StatsArgs, world: &World, now: Nanos) -> Option<String> {
    let mut queries = args.filter.iter().chain(&args.against);
    queries.find_map(|q| {
        let verdicts = stats::verdicts(world, now, Some(q));
        let verdict = |p: &Pod| verdicts.get(&p.uid).map(|v| &**v);
        let pods = world.pods().iter();
        let all: Vec<_> = pods.map(|p| PodRecord::new(p, verdict(p), now)).collect();
        q.unmet("pod", all.iter().map(|r| r as &dyn Record))
    })
}

/// Compares two recordings.
fn recordings(args: &StatsArgs, before: &Path, after: &Path) -> anyhow::Result<u8> {
    let input = &args.input;
    ensure!(
        input.session.is_none() && input.store.store.is_none(),
        "two recordings are compared, or two times of one: leave -s and --store out"
    );
    let (before, lacks) = of_recording(args, before)?;
    let (after, lacks_too) = of_recording(args, after)?;
    differences(args, before, after)?;
    Ok(whole(lacks.or(lacks_too).as_ref()))
}

/// The rows of a recording, and the data that it lacks.
fn of_recording(args: &StatsArgs, file: &Path) -> anyhow::Result<(Vec<Row>, Option<Unknown>)> {
    let input = Input {
        session: Some(file.to_owned()),
        ..args.input.clone()
    };
    let source = Observations::open(&input, None)?;
    let world = source.world()?;
    let asked = source.asked(&world);
    is_there_any(asked)?;
    let chosen = Chosen {
        query: args.filter.as_ref(),
        range: None,
    };
    let rows = stats::rows(&world, source.at, by(args), chosen);
    Ok((measured(args, rows), unknown::partial(asked)))
}

/// An error when neither pods nor calls are known, and missing data may be the reason.
fn is_there_any(asked: Asked<'_>) -> Result<(), Unknown> {
    let (pods, calls) = (asked.world.pods(), asked.world.calls());
    if pods.is_empty() && calls.is_empty() {
        return unknown::none(asked).map_or(Ok(()), Err);
    }
    Ok(())
}

fn by(args: &StatsArgs) -> GroupBy {
    args.by.map_or(GroupBy::All, GroupBy::from)
}

/// Refuses an unknown measure: a typing error would look like something that never happened.
fn known(asked: &[String]) -> anyhow::Result<()> {
    let names = stats::names();
    // A runtime may have additional methods.
    let is_known = |name: &String| names.contains(name) || name.starts_with("call/");
    let Some(name) = asked.iter().find(|n| !is_known(n)) else {
        return Ok(());
    };
    let near = suggest(name, names.iter().map(String::as_str), |m| m);
    if near.is_empty() {
        bail!("no measure {name}: there are {}", names.join(", "));
    }
    bail!("no measure {name}: did you mean {}?", near.join(", "));
}

/// The rows of the requested measures.
fn measured(args: &StatsArgs, mut rows: Vec<Row>) -> Vec<Row> {
    let fits = |name: &String, measure: &str| {
        let rest = measure.strip_prefix(name.as_str());
        rest.is_some_and(|r| r.is_empty() || r.starts_with('/'))
    };
    if !args.measure.is_empty() {
        rows.retain(|r| {
            let measure = r.measure.to_string();
            args.measure.iter().any(|name| fits(name, &measure))
        });
    }
    rows
}

fn write(args: &StatsArgs, rows: &[Row]) -> anyhow::Result<()> {
    let mut out = out::stdout();
    match (args.output.rows(), args.output) {
        (Some(form), _) => export::rows(&mut out, rows, form)?,
        (None, StatsFormat::Openmetrics) => export::open_metrics(&mut out, rows)?,
        (None, form) => export::text(&mut out, rows, form.is_wide(), out::colour())?,
    }
    Ok(out.flush()?)
}

fn differences(args: &StatsArgs, before: Vec<Row>, after: Vec<Row>) -> anyhow::Result<()> {
    let all = stats::compare(before, after);
    let mut out = out::stdout();
    match (args.output.rows(), args.output) {
        (Some(form), _) => export::difference_rows(&mut out, &all, form)?,
        (None, StatsFormat::Openmetrics) => {
            bail!(
                "a comparison has no form in OpenMetrics: use -o text, wide, json, jsonl, yaml or csv"
            )
        }
        (None, form) => export::differences(&mut out, &all, form.is_wide(), out::colour())?,
    }
    Ok(out.flush()?)
}
