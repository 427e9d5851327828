//! `kflow calls`

use std::io::Write as _;

use anyhow::bail;

use super::args::CallsArgs;
use super::input::Observations;
use super::out;
use super::pods::{
    chosen, no_such_pod, tell_of_empty_scope, tell_of_loss, tell_of_no_match, whole,
};
use kflow_core::correlate::World;
use kflow_core::diagnose::unknown;
use kflow_core::suggest::suggest;
use kflow_export::calls;
use kflow_model::cri::method;

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
    for wanted in &filter.methods {
        known_method(wanted, &world)?;
    }
    let mut out = out::stdout();
    match args.output.rows() {
        Some(form) => calls::rows(&mut out, &world, &filter, source.at, form)?,
        None => {
            let wide = args.output.is_wide();
            calls::text(&mut out, &world, &filter, source.at, wide, out::colour())?;
        }
    }
    out.flush()?;
    if let (0, all) = calls::matched(&world, &filter, source.at) {
        tell_of_no_match("calls", all, asked);
    }
    tell_of_empty_scope(asked);
    tell_of_loss(&world);
    Ok(whole(missing.as_ref()))
}

/// Refuses a method that the CRI does not have and that was not seen either: a slip of the hand would look like a runtime
/// that was never called.
fn known_method(wanted: &str, world: &World) -> anyhow::Result<()> {
    let seen = world.calls().iter().map(|c| c.method.as_str());
    let mut known: Vec<&str> = seen.chain(method::ALL.iter().copied()).collect();
    known.sort_unstable();
    known.dedup();
    if known.iter().any(|k| k.eq_ignore_ascii_case(wanted)) {
        return Ok(());
    }
    let near = suggest(wanted, known.iter().copied(), |m| m);
    if near.is_empty() {
        bail!("no method {wanted}: the CRI has {}", method::ALL.join(", "));
    }
    bail!("no method {wanted}: did you mean {}?", near.join(", "));
}
