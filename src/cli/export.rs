//! `kflow export`: timelines in other people's formats.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use super::args::{ExportArgs, ExportFormat};
use super::input::Source;
use super::{OK, out, read};
use crate::correlate::Pod;
use crate::engine::Core;
use crate::engine::snapshot::{Mode, Snapshot};
use crate::export::file::{self, Kind};

/// `kflow export`
pub(super) fn export(args: &ExportArgs) -> anyhow::Result<u8> {
    let source = Source::open(&args.input)?;
    let snap = snapshot(&source);
    let (pods, past) = read::chosen(&snap.world, args.pod.as_deref(), &args.input, args.past);
    if let Some(query) = args.pod.as_deref().filter(|_| pods.is_empty()) {
        return Ok(read::no_such_pod(query, &snap.world));
    }
    match args.out.as_deref().filter(|p| *p != Path::new("-")) {
        None => {
            let mut out = out::stdout();
            write(args.format, &pods, &snap, &mut out)?;
            out.flush()?;
        }
        Some(path) => {
            let what = || format!("cannot write {}", path.display());
            let mut out = BufWriter::new(File::create(path).with_context(what)?);
            write(args.format, &pods, &snap, &mut out).with_context(what)?;
            out.flush().with_context(what)?;
        }
    }
    read::tell_of_past(past);
    Ok(OK)
}

/// What was known at the moment that was asked for, with verdicts.
fn snapshot(source: &Source) -> Snapshot {
    let mut core = Core::new();
    let all = &source.session.observations;
    for o in all.iter().filter(|o| o.stamp.seen <= source.at) {
        core.observe(Arc::clone(o));
    }
    let range = source.session.range().unwrap_or((source.at, source.at));
    let mode = Mode::Replay {
        name: "export".into(),
        playing: false,
        speed_permille: 1000,
        loading_permille: 1000,
    };
    core.snapshot(source.at, mode, range, Vec::new())
}

fn write(
    format: ExportFormat,
    pods: &[Pod],
    snap: &Snapshot,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let kind = match format {
        ExportFormat::Perfetto => Kind::Perfetto,
        ExportFormat::Otlp => Kind::Otlp,
        ExportFormat::Html => Kind::Html,
        ExportFormat::Json => Kind::Json,
        ExportFormat::Text => Kind::Text,
        #[cfg(feature = "tui")]
        ExportFormat::Svg => {
            let [pod] = pods else {
                anyhow::bail!(
                    "a picture is of one pod, and {} were found: name one, as ns/name or UID",
                    pods.len()
                );
            };
            out.write_all(crate::tui::shots::timeline(snap, pod).as_bytes())?;
            return Ok(());
        }
    };
    file::write(kind, pods, &snap.verdicts, snap.now, out)?;
    Ok(())
}
