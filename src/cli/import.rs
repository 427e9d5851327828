//! `kflow import`: reads raw captures, writes a session, and prints a summary of the lines used and left out.

use anyhow::Context;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::args::ImportArgs;
use super::bar::{Bar, WRITING};
use super::out;
use kflow_engine::import::Progress;
use kflow_model::file;
use kflow_model::session::{self, Header, Writer};

pub(super) mod captures;
pub(super) mod summary;

/// `kflow import`
pub(super) fn run(args: &ImportArgs) -> anyhow::Result<u8> {
    let output = &args.output_file;
    let to_stdout = output.as_os_str() == "-";
    anyhow::ensure!(
        !(to_stdout && io::stdout().is_terminal()),
        "a session is not for a terminal: name a file with -O, or send standard output into one"
    );
    if !to_stdout {
        // Checked before the work, so that it is not lost.
        session::replaceable(output)?;
    }
    // What is unpacked takes as much room as the captures: beside the session there is more of it than in /tmp.
    let beside = output.parent().filter(|_| !to_stdout);
    let scratch = match beside {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => std::env::temp_dir(),
    };
    let found = captures::find(&args.captures, &scratch)?;
    let given = found.inputs.iter().map(|i| i.path.as_path());
    let paths = args.captures.captures.iter();
    file::distinct(output, given.chain(paths.map(PathBuf::as_path)))?;
    let shown = !args.quiet && io::stderr().is_terminal();
    let imported = captures::read(&args.captures, &found, shown)?;
    if imported.observations.is_empty() {
        if !args.quiet {
            out::tell_bytes(&summary::of_nothing(&imported, &found)?);
        }
        anyhow::bail!("no observation in what was given: no session was written");
    }
    let mut writer = if to_stdout {
        stdout(&imported.header).context("cannot write to standard output")?
    } else {
        Writer::replace(output, args.level, &imported.header)?
    };
    let progress = Arc::new(Progress::default());
    let all = imported.observations.len() as u64;
    progress.total.store(all, Ordering::Relaxed);
    let bar = shown.then(|| Bar::start(&progress, WRITING));
    let written = imported.observations.chunks(1 << 16).try_for_each(|some| {
        progress
            .taken
            .fetch_add(some.len() as u64, Ordering::Relaxed);
        writer.write_all(some)
    });
    if let Some(bar) = bar {
        bar.stop();
    }
    written?;
    let bytes = writer.finish()?;
    if !args.quiet {
        out::tell_bytes(&summary::of(&imported, &found, output, bytes)?);
    }
    Ok(super::OK)
}

/// Writes a session to standard output.
fn stdout(header: &Header) -> anyhow::Result<Writer> {
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    Ok(Writer::stream(file, "on standard output", header)?)
}
