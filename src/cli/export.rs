//! `kflow export`: timelines in the formats of other programs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use super::args::{ExportArgs, ExportFormat, Input};
use super::input::Observations;
use super::pods::Chosen;
use super::why::name_recording;
use super::{agents, bar, out, pods};
use kflow_core::correlate::{Hindsight, Pod};
use kflow_core::diagnose::unknown;
use kflow_core::suggest::suggest;
use kflow_engine::Overview;
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_export::file::{self, Kind, Told};
use kflow_model::file::{self as files, Access, AtomicFile};
use kflow_model::session;
use kflow_tui::theme::{BUILT_IN, Theme};

/// `kflow export`
pub(super) fn export(args: &ExportArgs) -> anyhow::Result<u8> {
    let store = super::traces::store(&args.traces)?;
    let form = match (&store, args.output) {
        (Some(_), None) => ExportFormat::Timelines(Kind::OtlpProtobuf),
        (Some(_), Some(_)) => anyhow::bail!(
            "--otlp-to sends traces to a trace store, and -o writes a form: leave one of them out"
        ),
        (None, form) => form.context("name a form with -o")?,
    };
    let theme = theme(form, args.theme.as_deref())?;
    let output = args.output_file.as_deref().filter(|p| *p != Path::new("-"));
    let inputs = inputs(&args.input);
    files::distinct(
        output.unwrap_or(Path::new("-")),
        inputs.iter().map(PathBuf::as_path),
    )?;
    if let Some(path) = output {
        no_session(path)?;
    }
    let source = Observations::open(&args.input, args.pod.as_deref())?;
    let snap = snapshot(&source, form, &args.input);
    source.check(&snap.world)?;
    let Chosen { pods, past, .. } = pods::chosen(&snap.world, args.pod.as_deref(), args.past);
    let asked = source.asked(&snap.world);
    if let Some(query) = args.pod.as_deref().filter(|_| pods.is_empty()) {
        return pods::no_pods(query, asked);
    }
    let missing = unknown::partial(asked);
    if pods.is_empty()
        && let Some(unknown) = unknown::none(asked)
    {
        return Err(unknown.into());
    }
    fits(form, args.pod.as_deref(), &pods)?;
    match output {
        _ if store.is_some() => {}
        None => {
            let mut out = out::stdout();
            write(form, theme, &pods, &snap, &mut out)?;
            out.flush()?;
        }
        Some(path) => {
            let mut out = AtomicFile::create(path, Access::Private)?;
            write(form, theme, &pods, &snap, &mut out)
                .with_context(|| format!("cannot write {}", path.display()))?;
            out.commit()?;
        }
    }
    if let Some(store) = &store {
        let spans = super::traces::send(store, &pods, &snap)?;
        super::out::tell(&format!("{spans} spans sent to {}", store.uri()));
    }
    if pods.is_empty() {
        pods::tell_of_none("pods", asked);
    }
    pods::tell_of_past(past);
    Ok(pods::whole(missing.as_ref()))
}

/// The theme of a picture; an error for an unknown name.
fn theme(form: ExportFormat, named: Option<&str>) -> anyhow::Result<&str> {
    let Some(name) = named else {
        return Ok("dark");
    };
    anyhow::ensure!(form == ExportFormat::Svg, "--theme is of -o svg");
    if Theme::built_in(name).is_none() {
        let near = suggest(name, BUILT_IN.iter().map(|(n, _)| *n), |n| n);
        match near.as_slice() {
            [] => anyhow::bail!("no theme {name}: `kflow themes` lists them"),
            near => anyhow::bail!("no theme {name}: did you mean {}?", near.join(", ")),
        }
    }
    Ok(name)
}

/// Every input file that the arguments name.
fn inputs(input: &Input) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = input.session.clone().into_iter().collect();
    {
        let live = &input.live;
        let control = &live.control;
        all.extend(live.kubeconfig.clone());
        all.extend(live.kubelet_log.as_deref().map(PathBuf::from));
        for logs in [
            &control.audit_log,
            &control.apiserver_log,
            &control.scheduler_log,
            &control.controller_manager_log,
            &control.containerd_log,
            &control.crio_log,
        ] {
            all.extend(logs.iter().cloned());
        }
    }
    all
}

/// Refuses to overwrite a recording with an export.
fn no_session(path: &Path) -> anyhow::Result<()> {
    let is_file = files::place(path)? == files::Place::File;
    anyhow::ensure!(
        !(is_file && session::Reader::open(path).is_ok()),
        "{} is a kflow session, and an export does not replace one: give another name, or move it away",
        path.display()
    );
    Ok(())
}

/// Refuses a number of pods that the format cannot show, and names the pods to choose from.
fn fits(format: ExportFormat, query: Option<&str>, pods: &[Pod]) -> anyhow::Result<()> {
    let what = match format {
        ExportFormat::Svg => "picture",
        ExportFormat::Timelines(kind) if kind.of_one() => "diagram",
        ExportFormat::Timelines(_) => return Ok(()),
    };
    let found = match query {
        Some(query) => format!("{query} has {}", pods.len()),
        None => format!("{} were found", pods.len()),
    };
    // Pods of a StatefulSet reuse a name.
    let name = |p: &Pod| match pods.iter().filter(|o| o.key() == p.key()).count() {
        1 => p.key(),
        _ => p.uid.to_string(),
    };
    let names = match pods {
        [] => "ns/name or UID".to_owned(),
        // The newest are wanted more often.
        pods => agents::names(pods.iter().rev().map(name)),
    };
    anyhow::ensure!(
        pods.len() == 1,
        "a {what} is of one pod, and {found}: name one, as {names}"
    );
    Ok(())
}

/// The state at the requested moment, with verdicts; for a format that includes them, also with past incidents.
fn snapshot(source: &Observations, form: ExportFormat, input: &Input) -> Snapshot {
    let mut pipeline = source.pipeline();
    let upto = source.session.arrived_by(source.at);
    for o in source.session.observations.iter().take(upto) {
        pipeline.observe(Arc::clone(o));
    }
    let range = source.session.range().unwrap_or((source.at, source.at));
    let mode = Mode::paused("export");
    pipeline.look_back(Arc::new(Hindsight::of(&source.session.observations)));
    let mut snap = pipeline.snapshot(source.at, mode, range, Vec::new());
    if matches!(form, ExportFormat::Timelines(kind) if kind.tells_of_the_past()) {
        let observations = source.session.observations.iter().take(upto);
        let selection = Arc::clone(source.selection());
        let scope = snap.scope.as_deref().cloned();
        snap.overview = Arc::new(bar::looking(observations, upto, |observations| {
            Overview::of(observations, selection, scope, (range.0, source.at))
        }));
    }
    for v in Arc::make_mut(&mut snap.verdicts).values_mut() {
        name_recording(input, Arc::make_mut(v));
    }
    for v in Arc::make_mut(&mut snap.owner_verdicts) {
        name_recording(input, Arc::make_mut(v));
    }
    snap
}

fn write(
    format: ExportFormat,
    theme: &str,
    pods: &[Pod],
    snap: &Snapshot,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    match format {
        ExportFormat::Timelines(kind) => {
            let told = Told {
                pods: &snap.verdicts,
                others: &snap.owner_verdicts,
                incidents: &snap.overview.incidents,
            };
            file::write(kind, &snap.world, pods, &told, snap.now, out)?;
        }
        ExportFormat::Svg => {
            for pod in pods {
                let picture = kflow_tui::picture::timeline(snap, pod, theme);
                out.write_all(picture.context("no such theme")?.as_bytes())?;
            }
        }
    }
    Ok(())
}
