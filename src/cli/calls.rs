//! `kflow calls`

use std::io::Write as _;

use super::args::{CallsArgs, Format};
use super::input::Observations;
use super::out;
use super::pods::{chosen, no_such_pod, tell_of_empty_scope, tell_of_loss, whole};
use kflow_core::diagnose::unknown;
use kflow_export::calls;

/// `kflow calls`
pub(super) fn calls(args: &CallsArgs) -> anyhow::Result<u8> {
    let query = args.filter.pod.as_deref();
    let source = Observations::open(&args.input, query)?;
    let world = source.world()?;
    let pods = query.map(|query| chosen(&world, Some(query), true).0);
    let asked = source.asked(&world);
    if let (Some(query), Some([])) = (query, pods.as_deref()) {
        return no_such_pod(query, asked);
    }
    let missing = unknown::calls(asked);
    if world.calls().is_empty()
        && let Some(unknown) = missing
    {
        return Err(unknown.into());
    }
    let pods = pods.map(|pods| pods.iter().map(|p| p.uid.clone()).collect());
    let filter = calls::Filter {
        pods,
        methods: args.filter.method.clone(),
        query: args.filter.filter.clone(),
        errors: args.filter.errors,
        slower_than_ns: args.filter.slower_than,
        no_noise: args.filter.no_noise,
    };
    let mut out = out::stdout();
    match args.output {
        Format::Json => calls::json(&mut out, &world, &filter, source.at)?,
        Format::Text => calls::text(&mut out, &world, &filter, source.at, out::colour())?,
    }
    out.flush()?;
    tell_of_empty_scope(asked);
    tell_of_loss(&world);
    Ok(whole(missing.as_ref()))
}
