//! `kflow requests`

use std::io::Write as _;
use std::sync::Arc;

use anyhow::bail;

use super::args::control::RequestsArgs;
use super::input::Observations;
use super::pods::{named, no_pods, tell_of_empty_scope, tell_of_no_match, whole, within};
use super::{OK, out};
use kflow_core::correlate::{About, World};
use kflow_core::diagnose::unknown;
use kflow_core::query::lasted_in;
use kflow_export::{names, requests};

/// `kflow requests`
pub(super) fn requests(args: &RequestsArgs) -> anyhow::Result<u8> {
    let source = Observations::open(&args.input, args.pod.as_deref())?;
    let world = source.world()?;
    let log = world.requests();
    let listed = args.list
        || args.slow.is_some()
        || args.errors
        || args.pod.is_some()
        || args.range.is_some();
    if args.output.is_wide() && !listed {
        bail!(
            "-o wide has more columns of requests: use it with --list, --slow, --errors, --range or --pod"
        );
    }
    if args.output.is_name() && !listed {
        bail!(
            "-o name tells the pods that requests are about: use it with --list, --slow, --errors, --range or --pod"
        );
    }
    let asked = source.asked(&world);
    let about = match &args.pod {
        None => None,
        Some(query) => {
            let pods = named(&world, query);
            if pods.is_empty() {
                return no_pods(query, asked);
            }
            Some(About::pods(&world, &pods))
        }
    };
    let range = source.range(args.range)?;
    let missing = unknown::requests(asked);
    if log.list().is_empty()
        && let Some(unknown) = missing
    {
        return Err(unknown.into());
    }
    let mut out = out::stdout();
    if let Some(id) = &args.id {
        let found: Vec<_> = log
            .list()
            .into_iter()
            .filter(|r| r.audit_id.starts_with(id.as_str()) && world.selects_request(r))
            .collect();
        let request = match found.as_slice() {
            [one] => *one,
            [] => bail!(
                "no request has the audit id {id}: `kflow requests --list{}` names those that are known",
                args.input.flags().unwrap_or_default()
            ),
            several => bail!(
                "{} audit ids begin with {id}: write more of it",
                several.len()
            ),
        };
        match args.output.rows() {
            None => requests::waterfall(&mut out, request, source.at, out::colour())?,
            Some(form) => {
                let one = std::iter::once(request.as_ref());
                requests::rows(&mut out, one, source.at, form)?;
            }
        }
        out.flush()?;
        return Ok(OK);
    }
    if !listed {
        let groups = log.groups_of(|r| world.selects_request(r));
        match args.output.rows() {
            None => requests::groups(&mut out, &groups, out::colour())?,
            Some(form) => requests::group_rows(&mut out, &groups, form)?,
        }
        lost(&world);
        tell_of_empty_scope(asked);
        out.flush()?;
        return Ok(whole(missing.as_ref()));
    }
    let in_scope = || log.list().into_iter().filter(|r| world.selects_request(r));
    let chosen = in_scope().filter(|r| {
        about.as_ref().is_none_or(|about| about.is_about(r))
            && (!args.errors || r.is_error())
            && range.is_none_or(|range| lasted_in(range, r.received, r.ended))
            && args
                .slow
                .is_none_or(|ns| !r.is_long_running() && r.duration(source.at) > ns)
    });
    let chosen: Vec<_> = chosen.collect();
    if chosen.is_empty() {
        tell_of_no_match("requests", in_scope().count(), asked, None);
    }
    let chosen = chosen.into_iter();
    let chosen = chosen.map(Arc::as_ref);
    match args.output.rows() {
        None if args.output.is_name() => {
            let within = within(asked, args.pod.as_deref());
            names::of_requests(&mut out, chosen, within)?;
        }
        None => {
            let wide = args.output.is_wide();
            requests::list(&mut out, chosen, source.at, wide, out::colour())?;
        }
        Some(form) => requests::rows(&mut out, chosen, source.at, form)?,
    }
    lost(&world);
    tell_of_empty_scope(asked);
    out.flush()?;
    Ok(whole(missing.as_ref()))
}

/// Reports on standard error what is missing from the requests.
fn lost(world: &World) {
    let (forgotten, spans) = world.requests().forgotten();
    if forgotten > 0 {
        out::tell(&format!("{forgotten} older requests were forgotten"));
    }
    if spans > 0 {
        out::tell(&format!("{spans} spans found no request, or no room in it"));
    }
}
