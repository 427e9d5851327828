//! `kflow import`: raw captures in, a session out, and a summary of what became of every line.

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::args::ImportArgs;
use crate::engine::import::{self, Imported, Input, Kind, Options, Progress, Summary};
use crate::export::text;
use crate::session::Writer;

/// `kflow import`
pub(super) fn run(args: &ImportArgs) -> anyhow::Result<u8> {
    let (inputs, unknown) = inputs(args)?;
    let options = Options {
        year: args.year,
        utc_offset_s: args.utc_offset,
        node: args.node.as_str().into(),
        fallback: Some(crate::clock::now()),
    };
    let progress = Arc::new(Progress::default());
    let bar = (!args.quiet && io::stderr().is_terminal()).then(|| Bar::start(&progress));
    let imported = import::run(&inputs, &options, &progress);
    if let Some(bar) = bar {
        bar.stop();
    }
    let imported = imported?;
    let mut writer = Writer::replace(&args.output, args.level, &imported.header)?;
    for o in &imported.observations {
        writer.write(o)?;
    }
    let bytes = writer.finish()?;
    if !args.quiet {
        summary(&mut io::stderr().lock(), args, &imported, &unknown, bytes)?;
    }
    Ok(super::OK)
}

fn inputs(args: &ImportArgs) -> anyhow::Result<(Vec<Input>, Vec<String>)> {
    let named = [
        (Kind::CriBytes, &args.cri_bytes),
        (Kind::Watch, &args.watch),
        (Kind::Audit, &args.audit),
        (Kind::Otlp, &args.otlp),
        (Kind::Fs, &args.fs),
        (Kind::Snapshots, &args.snapshots),
        (Kind::Containerd, &args.containerd_log),
        (Kind::Kubelet, &args.kubelet_log),
        (Kind::Apiserver, &args.apiserver_log),
        (Kind::Scheduler, &args.scheduler_log),
        (Kind::ControllerManager, &args.controller_manager_log),
    ];
    let mut inputs = Vec::new();
    let mut unknown = Vec::new();
    for (kind, paths) in named {
        inputs.extend(paths.iter().map(|p| Input {
            kind,
            path: p.clone(),
        }));
    }
    for dir in &args.dir {
        let folder =
            import::scan(dir).with_context(|| format!("cannot read folder {}", dir.display()))?;
        anyhow::ensure!(
            !folder.inputs.is_empty(),
            "{} holds no file that kflow knows (such as kubelet.log, watch.jsonl, pods.json, audit.log, cri-bytes.jsonl); name the captures with flags instead",
            dir.display()
        );
        inputs.extend(folder.inputs);
        unknown.extend(folder.unknown);
    }
    Ok((inputs, unknown))
}

fn summary(
    out: &mut impl Write,
    args: &ImportArgs,
    imported: &Imported,
    unknown: &[String],
    bytes: u64,
) -> io::Result<()> {
    writeln!(
        out,
        "{:<24} {:>10} {:>12}  left out",
        "input", "lines", "observations"
    )?;
    for s in &imported.summaries {
        writeln!(
            out,
            "{:<24} {:>10} {:>12}  {}",
            text::cut(&text::clean(&s.input.name()), 24),
            s.lines,
            s.observations,
            left_out(s)
        )?;
    }
    if !unknown.is_empty() {
        writeln!(out, "not read: {}", text::clean(&unknown.join(", ")))?;
    }
    let span = match (imported.observations.first(), imported.observations.last()) {
        (Some(a), Some(b)) => format!(
            ", {} from {}",
            text::duration(b.stamp.seen - a.stamp.seen),
            a.stamp.seen
        ),
        _ => String::new(),
    };
    writeln!(
        out,
        "{}: {} observations, {} bytes{span}",
        text::clean(&args.output.display().to_string()),
        imported.observations.len(),
        bytes
    )
}

/// `4 blank, 1 malformed: not klog; cut: …`
fn left_out(s: &Summary) -> String {
    let mut parts: Vec<String> = s
        .ignored
        .iter()
        .map(|(why, n)| format!("{n} {why}"))
        .collect();
    parts.extend(
        s.malformed
            .iter()
            .map(|(why, n)| format!("{n} malformed ({why})")),
    );
    if let Some(cut) = &s.cut {
        parts.push(format!("CUT: {cut}"));
    }
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join(", ")
    }
}

/// A progress bar that looks at the counters ten times a second.
struct Bar {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Bar {
    fn start(progress: &Arc<Progress>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (progress, stopped) = (Arc::clone(progress), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let style = ProgressStyle::with_template(
                "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            );
            let bar = ProgressBar::new(0);
            if let Ok(style) = style {
                bar.set_style(style);
            }
            while !stopped.load(Ordering::Relaxed) {
                bar.set_length(progress.total.load(Ordering::Relaxed));
                bar.set_position(progress.taken.load(Ordering::Relaxed));
                std::thread::park_timeout(Duration::from_millis(100));
            }
            bar.finish_and_clear();
        });
        Self { stop, thread }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            // Only the drawing of the bar is lost.
        }
    }
}
