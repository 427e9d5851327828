//! Commands that read observations and print what follows from them.

use std::io::Write;

use super::args::{CallsArgs, Format, TimelineArgs};
use super::input::Source;
use super::{NO_SUCH_POD, OK, out};
use crate::correlate::{Pod, World};
use crate::export::{calls, timeline};
use crate::model::PodUid;

/// `kflow timeline`
pub(super) fn timeline(args: &TimelineArgs) -> anyhow::Result<u8> {
    let source = Source::open(&args.input)?;
    let world = source.world();
    let pods = match &args.pod {
        Some(query) => find(&world, query),
        None => world.pods().to_vec(),
    };
    if let Some(query) = args.pod.as_deref().filter(|_| pods.is_empty()) {
        return no_such_pod(query, &world);
    }
    let mut out = out::stdout();
    match args.output {
        Format::Json => timeline::json(&mut out, &pods)?,
        Format::Text => timeline::text(&mut out, &pods, source.at, out::colour())?,
    }
    out.flush()?;
    Ok(OK)
}

/// `kflow calls`
pub(super) fn calls(args: &CallsArgs) -> anyhow::Result<u8> {
    let source = Source::open(&args.input)?;
    let world = source.world();
    let pods = match &args.filter.pod {
        Some(query) => {
            let pods = find(&world, query);
            if pods.is_empty() {
                return no_such_pod(query, &world);
            }
            Some(pods.iter().map(|p| p.uid.clone()).collect::<Vec<_>>())
        }
        None => None,
    };
    let filter = calls::Filter {
        pods,
        methods: args.filter.method.clone(),
        errors: args.filter.errors,
        slower_than_ns: args.filter.slower_than,
        no_noise: args.filter.no_noise,
    };
    let mut out = out::stdout();
    match args.output {
        Format::Json => calls::json(&mut out, world.calls(), &filter, source.at)?,
        Format::Text => calls::text(&mut out, world.calls(), &filter, source.at, out::colour())?,
    }
    out.flush()?;
    Ok(OK)
}

/// Pods by `ns/name`, `name` or UID (a mirror pod's UID leads to its static pod), oldest first.
pub(super) fn find(world: &World, query: &str) -> Vec<Pod> {
    let mut pods: Vec<Pod> = world.find(query).into_iter().cloned().collect();
    if pods.is_empty() {
        pods.extend(world.pod(&PodUid::from(query)).cloned());
    }
    pods.reverse();
    pods
}

/// Says so, and names what comes near.
#[expect(clippy::print_stderr, reason = "a notice instead of a result")]
pub(super) fn no_such_pod(query: &str, world: &World) -> anyhow::Result<u8> {
    let wanted = query.rsplit('/').next().unwrap_or(query);
    let mut near: Vec<String> = world
        .pods()
        .iter()
        .filter(|p| !wanted.is_empty() && p.name.contains(wanted))
        .map(|p| p.key())
        .collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(5);
    let hint = if near.is_empty() {
        format!("{} pods are known", world.pods().len())
    } else {
        format!("did you mean {}?", near.join(", "))
    };
    eprintln!(
        "kflow: no pod {}: {}",
        crate::export::text::clean(query),
        crate::export::text::clean(&hint)
    );
    Ok(NO_SUCH_POD)
}
