//! `kflow stats`

use std::io::Write as _;
use std::path::Path;

use anyhow::bail;

use super::args::Input;
use super::args::stats::{StatsArgs, StatsFormat};
use super::input::Observations;
use super::out;
use super::pods::{tell_of_loss, tell_of_none, whole};
use kflow_core::diagnose::Unknown;
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_core::query::Query;
use kflow_core::stats::{self, GroupBy, Row};
use kflow_core::suggest::suggest;
use kflow_export::stats as export;

/// `kflow stats`
pub(super) fn stats(args: &StatsArgs) -> anyhow::Result<u8> {
    if let [before, after] = args.compare.as_slice() {
        let filter = args.filter.as_ref();
        let (before, lacks) = of_recording(args, before, filter)?;
        let (after, lacks_too) = of_recording(args, after, filter)?;
        differences(args, before, after)?;
        return Ok(whole(lacks.or(lacks_too).as_ref()));
    }
    let source = Observations::open(&args.input, None)?;
    let world = source.world()?;
    let asked = source.asked(&world);
    let missing = unknown::partial(asked);
    is_there_any(asked)?;
    let of = |query: Option<&Query>| {
        let rows = stats::rows(&world, source.at, by(args), query);
        measured(args, rows)
    };
    let rows = of(args.filter.as_ref())?;
    let is_empty = rows.is_empty();
    match &args.against {
        Some(query) => differences(args, of(Some(query))?, rows)?,
        None => write(args, &rows)?,
    }
    if is_empty {
        tell_of_none("starts and calls to measure", asked);
    }
    tell_of_loss(&world);
    Ok(whole(missing.as_ref()))
}

/// The rows of a recording, and what it lacks.
fn of_recording(
    args: &StatsArgs,
    file: &Path,
    filter: Option<&Query>,
) -> anyhow::Result<(Vec<Row>, Option<Unknown>)> {
    let input = Input {
        session: Some(file.to_owned()),
        ..args.input.clone()
    };
    let source = Observations::open(&input, None)?;
    let world = source.world()?;
    let asked = source.asked(&world);
    is_there_any(asked)?;
    let rows = stats::rows(&world, source.at, by(args), filter);
    Ok((measured(args, rows)?, unknown::partial(asked)))
}

/// An error when neither pods nor calls are known, and it cannot be said that there are none.
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

/// The rows of the measures that were asked for. An error when rows are there and a name fits none of them.
fn measured(args: &StatsArgs, rows: Vec<Row>) -> anyhow::Result<Vec<Row>> {
    if args.measure.is_empty() || rows.is_empty() {
        return Ok(rows);
    }
    let fits = |name: &str, row: &Row| {
        let measure = row.measure.to_string();
        let rest = measure.strip_prefix(name);
        rest.is_some_and(|r| r.is_empty() || r.starts_with('/'))
    };
    for name in &args.measure {
        if !rows.iter().any(|r| fits(name, r)) {
            let mut known: Vec<String> = rows.iter().map(|r| r.measure.to_string()).collect();
            known.dedup();
            let near = suggest(name, known.iter().map(String::as_str), |m| m);
            if !near.is_empty() {
                bail!(
                    "nothing was measured of {name:?}: did you mean {}?",
                    near.join(", ")
                );
            }
            bail!(
                "nothing was measured of {name:?}: --measure takes {}",
                known.join(", ")
            );
        }
    }
    let asked = |r: &Row| args.measure.iter().any(|name| fits(name, r));
    Ok(rows.into_iter().filter(asked).collect())
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
