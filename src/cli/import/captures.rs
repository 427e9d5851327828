//! Reads raw captures.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::summary::{FEW, MANY, passed_over, some};
use crate::cli::args::CaptureArgs;
use crate::cli::bar::{Bar, READING};
use crate::cli::out;
use crate::cli::store::moment;
use kflow_core::query::Moment;
use kflow_engine::import::{self, Bundle, Imported, Input, Kind, Left, Options, Progress};
use kflow_export::text;
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;
use kflow_model::units::DAY;

/// The captures that are given with the flag of their kind, and those that are found in files, folders and archives. What is
/// unpacked goes into a nameless file in the folder `scratch`.
pub(in crate::cli) fn find(args: &CaptureArgs, scratch: &Path) -> anyhow::Result<Bundle> {
    let mut found = unpacked(args, scratch)?;
    found.inputs.splice(0..0, named(args));
    Ok(found)
}

/// Reads them. `shown`: with a progress bar.
pub(in crate::cli) fn read(
    args: &CaptureArgs,
    found: &Bundle,
    shown: bool,
) -> anyhow::Result<Imported> {
    let now = kflow_model::clock::now();
    let taken = args.taken.as_deref();
    let taken = taken.map(|text| taken_at(text, &found.inputs, now));
    let options = Options {
        year: args.year,
        utc_offset_s: args.utc_offset,
        node: found.node.as_ref().unwrap_or(&args.node).as_str().into(),
        host: found.node.as_ref().unwrap_or(&found.host).as_str().into(),
        cut: found.cut.iter().map(|left| left.name.clone()).collect(),
        fallback: Some(now),
        taken: taken.transpose()?,
        made: found.made.clone(),
    };
    let progress = Arc::new(Progress::default());
    let bar = shown.then(|| Bar::start(&progress, READING));
    let imported = import::run(&found.inputs, &options, &progress);
    if let Some(bar) = bar {
        bar.stop();
    }
    let imported = imported?;
    // A file named with a flag must be of that flag's kind.
    let named = named(args);
    let misfits: Vec<&str> = imported
        .summaries
        .iter()
        .filter(|s| named.contains(&s.input))
        .filter_map(|s| s.misfit.as_deref())
        .collect();
    anyhow::ensure!(
        misfits.is_empty(),
        "{}",
        text::clean(&misfits.join("; and "))
    );
    Ok(imported)
}

/// The time from `--taken`. A time of day is the first one after the newest time in the lists.
fn taken_at(text: &str, inputs: &[Input], now: Nanos) -> anyhow::Result<Nanos> {
    let at = match Moment::parse(text) {
        Some(clock @ Moment::Clock(_)) => match import::newest_of_lists(inputs) {
            // Times of the API are cut to seconds.
            Some(newest) => {
                let at = clock.within((newest, newest), None, |_| 0);
                let before = at.plus(SECOND) < newest;
                at.plus(if before { DAY } else { 0 })
            }
            None => moment("--taken", text, now)?,
        },
        _ => moment("--taken", text, now)?,
    };
    anyhow::ensure!(
        at <= now,
        "--taken ({at}) is in the future: lists were read before now"
    );
    Ok(at)
}

/// The captures that are named with the flag of their kind.
fn named(args: &CaptureArgs) -> Vec<Input> {
    let named = [
        (Kind::Watch, &args.watch),
        (Kind::Audit, &args.audit),
        (Kind::Otlp, &args.otlp),
        (Kind::Containerd, &args.containerd_log),
        (Kind::Crio, &args.crio_log),
        (Kind::Kubelet, &args.kubelet_log),
        (Kind::Apiserver, &args.apiserver_log),
        (Kind::Scheduler, &args.scheduler_log),
        (Kind::ControllerManager, &args.controller_manager_log),
    ];
    let of = |(kind, paths): (Kind, &Vec<PathBuf>)| -> Vec<Input> {
        paths.iter().map(|p| Input::new(kind, p)).collect()
    };
    named.into_iter().flat_map(of).collect()
}

/// The captures that are found in files, folders and archives.
fn unpacked(args: &CaptureArgs, scratch: &Path) -> anyhow::Result<Bundle> {
    let paths = &args.captures;
    if paths.is_empty() {
        return Ok(Bundle::default());
    }
    let found = import::find(paths, &args.node, scratch)?;
    // A reason that says what to do needs no advice.
    let known = |left: &Left| left.why.starts_with("it is ");
    let strange = some(found.strange.iter(), FEW);
    anyhow::ensure!(
        !found.strange.iter().any(known),
        "not a capture that kflow reads: {strange}"
    );
    anyhow::ensure!(
        found.strange.is_empty(),
        "nothing that kflow knows, by name or content, is in {strange}; it reads what `kubectl describe pod POD`, `kubectl get pods -A` and `kubectl get events -A` print, and logs by the flag of their kind, as in `kflow import --kubelet-log FILE`"
    );
    let nodes = || some(found.nodes.iter(), MANY);
    if !args.node.is_empty() && !found.nodes.is_empty() {
        anyhow::bail!(
            "there are no captures of node {}: there are those of {}",
            text::clean(&args.node),
            nodes()
        );
    }
    if found.inputs.is_empty() && !found.nodes.is_empty() {
        anyhow::bail!(
            "these are captures of several nodes, and a session has those of one: choose one with --node: {}",
            nodes()
        );
    }
    let name = |path: &PathBuf| match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string(),
    };
    let names = || some(paths.iter().map(name), 3);
    if found.inputs.is_empty() {
        if let Some(cut) = found.cut.first() {
            anyhow::bail!(
                "{}: {}, and there is no capture that kflow knows before it",
                text::clean(&cut.name),
                cut.why
            );
        }
        let mut told = Vec::new();
        passed_over(&mut told, &found.left)?;
        out::tell_bytes(&told);
        anyhow::bail!(
            "{} has no capture that kflow knows (such as kubelet.log, pods.json, watch.jsonl, audit.log){}",
            names(),
            if found.left.iter().any(|left| !left.why.is_empty()) {
                ""
            } else {
                ": import the captures with their flags, as in `kflow import --kubelet-log FILE`"
            }
        );
    }
    if !found.nodes.is_empty() {
        out::tell(&format!(
            "The captures of nodes were left out, because a session has those of one: choose one with --node: {} (kflow import {} --node {} -O NODE.kflow)",
            nodes(),
            some(paths.iter().map(|p| p.display()), 3).replace(", ", " "),
            some(found.nodes.iter().take(1), 1)
        ));
    }
    Ok(found)
}
