//! `kflow why` and `kflow causes`: verdicts, and the catalogue that they come from.

use std::io::Write;
use std::sync::Arc;

use super::args::{CausesArgs, Format, WhyArgs};
use super::input::Source;
use super::{NO_SUCH_POD, OK, VERDICT, out, read};
use crate::correlate::World;
use crate::diagnose::{self, Catalogue, Diagnoser, State, Target, Verdict};
use crate::export::{causes, why};
use crate::model::Nanos;

/// `kflow why`
pub(super) fn why(args: &WhyArgs) -> anyhow::Result<u8> {
    let source = Source::open(&args.input)?;
    let world = source.world();
    let verdicts = match &args.pod {
        Some(query) => {
            let targets = diagnose::find(&world, query, args.namespace.as_deref());
            if targets.is_empty() {
                return read::no_such_pod(query, &world);
            }
            of_targets(&world, &targets, source.at)
        }
        None => all(&world, source.at),
    };
    let bad = verdicts.iter().any(|v| is_bad(v));
    let mut out = out::stdout();
    match args.output {
        Format::Json => {
            out.write_all(why::json(verdicts.iter().map(AsRef::as_ref), source.at).as_bytes())?
        }
        Format::Text => {
            for (n, v) in verdicts.iter().enumerate() {
                if n > 0 {
                    writeln!(out)?;
                }
                out.write_all(why::text(v, source.at).as_bytes())?;
            }
            if verdicts.is_empty() {
                writeln!(
                    out,
                    "{} pods are known, and all are well",
                    world.pods().len()
                )?;
            }
        }
    }
    out.flush()?;
    Ok(if bad { VERDICT } else { OK })
}

fn is_bad(v: &Verdict) -> bool {
    !matches!(v.state, State::Healthy | State::Recovered)
}

/// The verdict on each target: the newest pod of a name, or an owner and those of its pods that are not well.
fn of_targets(world: &World, targets: &[Target<'_>], now: Nanos) -> Vec<Arc<Verdict>> {
    let mut verdicts = Vec::new();
    for target in targets {
        match target {
            Target::Pod(p) => verdicts.extend(diagnose::why(world, p, now)),
            Target::Owner(o, pods) => {
                verdicts.extend(diagnose::why_owner(world, &o.object, now));
                let of_pods = pods.iter().filter_map(|p| diagnose::why(world, p, now));
                verdicts.extend(of_pods.filter(is_bad));
            }
        }
    }
    verdicts.into_iter().map(Arc::new).collect()
}

/// Everything that is not well, worst first: owners without pods, then by state, then by age.
fn all(world: &World, now: Nanos) -> Vec<Arc<Verdict>> {
    let (pods, owners) = Diagnoser::new().update(world, now);
    let mut verdicts: Vec<Arc<Verdict>> = pods
        .values()
        .chain(owners.iter())
        .filter(|v| is_bad(v))
        .cloned()
        .collect();
    verdicts.sort_by(|a, b| {
        let key = |v: &Verdict| (!v.pod.is_empty(), v.state, v.since);
        key(a)
            .cmp(&key(b))
            .then_with(|| (&a.namespace, &a.pod, &a.uid).cmp(&(&b.namespace, &b.pod, &b.uid)))
    });
    verdicts
}

/// `kflow causes`
pub(super) fn catalogue(args: &CausesArgs) -> anyhow::Result<u8> {
    let catalogue = Catalogue::get();
    let text = match &args.id {
        None => causes::table(catalogue),
        Some(id) => match catalogue.find(&id.to_ascii_uppercase()) {
            Some(cause) => causes::entry(cause),
            None => {
                no_such_cause(id);
                return Ok(NO_SUCH_POD);
            }
        },
    };
    let mut out = out::stdout();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        writeln!(out)?;
    }
    out.flush()?;
    Ok(OK)
}

#[expect(clippy::print_stderr, reason = "a notice instead of a result")]
fn no_such_cause(id: &str) {
    eprintln!(
        "kflow: no cause {}: `kflow causes` lists them",
        crate::export::text::clean(id)
    );
}
