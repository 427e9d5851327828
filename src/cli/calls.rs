//! `kflow calls`

use std::io::Write as _;

use anyhow::{bail, ensure};

use super::args::{CallFilter, CallsArgs, Input, TableFormat};
use super::input::{Observations, SAID};
use super::pods::{
    named, no_pods, tell_of_empty_scope, tell_of_loss, tell_of_no_match, tell_of_own, whole, within,
};
use super::watched::Watched;
use super::{ERROR, out, pods};
use kflow_core::correlate::{Pod, World};
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_core::query::{CallRecord, Field, Record};
use kflow_core::suggest::suggest;
use kflow_engine::cluster::NodeHeard;
use kflow_export::{calls, names};
use kflow_model::cri::method;
use kflow_model::{Nanos, Text};

/// `kflow calls`
pub(super) fn calls(args: &CallsArgs) -> anyhow::Result<u8> {
    if args.follow {
        return follow(args);
    }
    let query = args.filter.pod.as_deref();
    let source = Observations::open(&args.input, query)?;
    let world = source.world()?;
    let pods = query.map(|query| named(&world, query));
    let asked = source.asked(&world);
    if let (Some(query), Some([])) = (query, pods.as_deref()) {
        return no_pods(query, asked);
    }
    let missing = unknown::calls(asked);
    if world.calls().is_empty()
        && let Some(unknown) = missing
    {
        return Err(unknown.into());
    }
    let mut filter = filter(args, pods.as_deref());
    filter.range = source.range(args.filter.range)?;
    known_methods(&args.filter, &world)?;
    let mut out = out::stdout();
    match args.output.rows() {
        None if args.output.is_name() => {
            let found = calls::chosen(&world, &filter, source.at);
            names::of_calls(&mut out, found, within(asked, query))?;
        }
        Some(form) => calls::rows(&mut out, &world, &filter, source.at, form)?,
        None => {
            let wide = args.output.is_wide();
            calls::text(&mut out, &world, &filter, source.at, wide, out::colour())?;
        }
    }
    out.flush()?;
    if let (0, all) = calls::matched(&world, &filter, source.at) {
        tell_of_no_match("calls", all, asked, unmet(args, &world, source.at));
    }
    tell_of_own(
        calls::own(&world, &filter, source.at),
        "left out",
        &args.input,
    );
    tell_of_empty_scope(asked);
    tell_of_loss(&world);
    Ok(whole(missing.as_ref()))
}

/// Why the filter expression may hold for no call.
fn unmet(args: &CallsArgs, world: &World, now: Nanos) -> Option<String> {
    let query = args.filter.filter.as_ref()?;
    let all = calls::selected(world).map(|call| CallRecord {
        call,
        now,
        own: world.is_own_call(call),
    });
    let all: Vec<CallRecord<'_>> = all.collect();
    query.unmet("call", all.iter().map(|r| r as &dyn Record))
}

fn filter(args: &CallsArgs, pods: Option<&[Pod]>) -> calls::Filter {
    calls::Filter {
        pods: pods.map(|pods| pods.iter().map(|p| p.uid.clone()).collect()),
        methods: args.filter.method.clone(),
        query: args.filter.filter.clone(),
        errors: args.filter.errors,
        slower_than_ns: args.filter.slower_than,
        range: None,
        no_noise: args.filter.no_noise,
    }
}

/// Prints calls as they end, until interrupted or until `--for` is over; then prints the calls in flight.
fn follow(args: &CallsArgs) -> anyhow::Result<u8> {
    ensure!(
        args.input.session.is_none() && args.input.at.is_none(),
        "--follow looks at what runs: leave out --session and --at (a recording has ended: all its calls are printed without it)"
    );
    ensure!(
        args.output != TableFormat::Json,
        "-o json is one array, which has no end here: use -o jsonl, yaml, csv, text or wide"
    );
    ensure!(
        !args.output.is_name(),
        "-o name tells each pod once, and --follow each call: use -o jsonl, yaml, csv, text or wide"
    );
    let query = args.filter.pod.as_deref();
    // `--for` limits the following, not the first look.
    let first = Input {
        for_time: None,
        ..args.input.clone()
    };
    let mut watched = Watched::start(&first, query)?;
    known_methods(&args.filter, &watched.look(query).snapshot.world)?;
    let mut follow = Following {
        args,
        told: calls::Follow::default(),
        heard: Vec::new(),
    };
    let mut unwritten = None;
    super::live::wait(args.input.for_time, || {
        if watched.check().is_err() {
            return false;
        }
        let written = follow.tell(&mut watched, false);
        let goes_on = matches!(written, Ok(true));
        unwritten = written.err();
        goes_on
    })?;
    if let Some(e) = unwritten {
        return Err(e.into());
    }
    watched.check()?;
    follow.tell(&mut watched, true)?;
    let look = watched.look(query);
    drop(watched);
    let (world, asked) = (&look.snapshot.world, look.snapshot.asked());
    if let Some(query) = query
        && named(world, query).is_empty()
    {
        return no_pods(query, asked);
    }
    if !look.several {
        let pods = query.map(|q| named(world, q));
        let own = calls::own(world, &filter(args, pods.as_deref()), look.snapshot.now);
        tell_of_own(own, "left out", &args.input);
        tell_of_loss(world);
        return Ok(whole(unknown::calls(asked).as_ref()));
    }
    let missing = follow.heard.iter().find_map(|(_, told)| {
        tell_of_loss(&told.world);
        let asked = Asked {
            world: &told.world,
            at: told.now,
            ..asked
        };
        unknown::calls(asked)
    });
    let silent = follow.heard.len() < pods::nodes(world, query).len();
    Ok(if silent {
        ERROR
    } else {
        whole(missing.as_ref())
    })
}

/// State of `--follow`: which calls were printed, and the newest answers of the nodes.
struct Following<'a> {
    args: &'a CallsArgs,
    told: calls::Follow,
    /// The newest answers of several nodes' agents, by node.
    heard: Vec<(Text, NodeHeard)>,
}

impl Following<'_> {
    /// Prints the calls that ended since the last call of `tell`. Returns false once the reader of standard output
    /// has gone.
    fn tell(&mut self, watched: &mut Watched, last: bool) -> std::io::Result<bool> {
        let args = self.args;
        let query = args.filter.pod.as_deref();
        let of = |node, world, now, ahead| calls::OfNode {
            node,
            world,
            filter: filter(args, query.map(|q| named(world, q)).as_deref()),
            now,
            ahead,
        };
        let look = watched.look(query);
        let nodes = if look.several {
            let nodes = pods::nodes(&look.snapshot.world, query);
            let nodes: Vec<Text> = nodes.into_iter().collect();
            if let Some(heard) = watched.hear(&nodes, SAID) {
                self.heard = heard;
            } else if !last {
                return Ok(true);
            }
            let heard = self.heard.iter();
            heard
                .map(|(node, told)| of(node, &told.world, told.now, told.offset.certain_ns()))
                .collect()
        } else {
            let node = look.node.as_deref().unwrap_or_default();
            vec![of(node, &look.snapshot.world, look.snapshot.now, 0)]
        };
        let form = calls::Form {
            rows: args.output.rows(),
            wide: args.output.is_wide(),
            colour: out::colour(),
        };
        let mut out = out::stdout();
        self.told.tell(&mut out, &nodes, look.several, form, last)?;
        out.flush()?;
        Ok(!out.reader_gone())
    }
}

/// Refuses a method that the CRI does not define and that was not seen: a typing error would look like a runtime that
/// was never called.
fn known_methods(filter: &CallFilter, world: &World) -> anyhow::Result<()> {
    let of_filter = filter.filter.iter().flat_map(|q| q.exact(Field::Method));
    for wanted in filter.method.iter().map(String::as_str).chain(of_filter) {
        known_method(wanted, world)?;
    }
    Ok(())
}

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
