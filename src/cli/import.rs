//! `kflow import`: reads raw captures, writes a session, and prints a summary of the lines used and left out.

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::args::ImportArgs;
use super::out;
use super::store::moment;
use kflow_engine::import::{self, Dating, Imported, Input, Kind, Options, Progress, Summary};
use kflow_export::text;
use kflow_model::file;
use kflow_model::patient;
use kflow_model::session::{self, Header, Writer};
use kflow_model::units::duration;

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
    let (inputs, unknown) = inputs(args)?;
    file::distinct(output, inputs.iter().map(|i| i.path.as_path()))?;
    let now = kflow_model::clock::now();
    let taken = args.taken.as_deref();
    let options = Options {
        year: args.year,
        utc_offset_s: args.utc_offset,
        node: args.node.as_str().into(),
        fallback: Some(now),
        taken: taken.map(|t| moment("--taken", t, now)).transpose()?,
    };
    let progress = Arc::new(Progress::default());
    let shown = !args.quiet && io::stderr().is_terminal();
    let bar = shown.then(|| Bar::start(&progress, READING));
    let imported = import::run(&inputs, &options, &progress);
    if let Some(bar) = bar {
        bar.stop();
    }
    let imported = imported?;
    // A file that was found in a folder may be of any kind; a file named with a flag must be of that flag's kind.
    let misfits: Vec<&str> = imported
        .summaries
        .iter()
        .filter(|s| !args.dir.iter().any(|d| s.input.path.starts_with(d)))
        .filter_map(|s| s.misfit.as_deref())
        .collect();
    anyhow::ensure!(
        misfits.is_empty(),
        "{}",
        text::clean(&misfits.join("; and "))
    );
    if imported.observations.is_empty() {
        if !args.quiet {
            let mut said = Vec::new();
            table(&mut said, &imported, &unknown)?;
            out::tell_bytes(&said);
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
        let mut said = Vec::new();
        table(&mut said, &imported, &unknown)?;
        summary(&mut said, output, &imported, bytes)?;
        out::tell_bytes(&said);
    }
    Ok(super::OK)
}

/// Writes a session to standard output.
fn stdout(header: &Header) -> anyhow::Result<Writer> {
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    Ok(Writer::stream(file, "on standard output", header)?)
}

fn inputs(args: &ImportArgs) -> anyhow::Result<(Vec<Input>, Vec<String>)> {
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
    let mut inputs = Vec::new();
    let mut unknown = Vec::new();
    for (kind, paths) in named {
        inputs.extend(paths.iter().map(|p| Input::new(kind, p)));
    }
    for dir in &args.dir {
        let its = dir.clone();
        let is_file = patient::ask(dir, move || its.is_file())
            .with_context(|| format!("cannot read folder {}", dir.display()))?;
        anyhow::ensure!(
            !is_file,
            "{} is a file, and --dir takes a folder: {}",
            dir.display(),
            match dir
                .file_name()
                .and_then(|n| Kind::of_file(&n.to_string_lossy()))
            {
                Some(kind) => format!("give it with --{}", kind.flag()),
                None => "give it with the flag of its kind, such as --kubelet-log".to_owned(),
            }
        );
        let folder =
            import::scan(dir).with_context(|| format!("cannot read folder {}", dir.display()))?;
        anyhow::ensure!(
            folder.nodes.is_empty(),
            "{} holds captures of several nodes or recordings, and a session has those of one: give one of the folders in it, such as {}",
            dir.display(),
            some(folder.nodes.iter().map(|p| p.display()), 3)
        );
        anyhow::ensure!(
            !folder.inputs.is_empty(),
            "{} holds no file that kflow knows (such as kubelet.log, pods.json, watch.jsonl, audit.log), nor do the folders in it: name the captures with flags instead",
            dir.display()
        );
        inputs.extend(folder.inputs);
        unknown.extend(folder.unknown);
    }
    Ok((inputs, unknown))
}

/// The first `most` names, and the number of the others.
fn some<T: std::fmt::Display>(names: impl ExactSizeIterator<Item = T>, most: usize) -> String {
    let more = names.len().saturating_sub(most);
    let mut parts: Vec<String> = names.take(most).map(|n| n.to_string()).collect();
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    text::clean(&parts.join(", ")).into_owned()
}

/// Prints a row for each input: lines, observations, and what was left out.
fn table(out: &mut impl Write, imported: &Imported, unknown: &[String]) -> io::Result<()> {
    // A bundle has a list of each kind for each namespace, most of which are empty.
    let says = |s: &&Summary| {
        s.observations > 0 || !s.malformed.is_empty() || s.cut.is_some() || s.misfit.is_some()
    };
    let all = &imported.summaries;
    let told: Vec<&Summary> = if all.len() > MANY {
        all.iter().filter(says).collect()
    } else {
        all.iter().collect()
    };
    let names = told.iter().map(|s| s.input.name.chars().count()).max();
    let names = names.unwrap_or_default().clamp(24, 40);
    // Width left for the last column.
    let left = width().saturating_sub(names + 26);
    writeln!(
        out,
        "{:<names$} {:>10} {:>12}  left out",
        "input", "lines", "observations"
    )?;
    for s in &told {
        writeln!(
            out,
            "{:<names$} {:>10} {:>12}  {}",
            text::cut(&text::clean(&s.input.name), names),
            s.lines,
            s.observations,
            fold(&left_out(s), left, width())
        )?;
    }
    if told.len() < all.len() {
        let silent = all.len() - told.len();
        writeln!(out, "{silent} more inputs have nothing that kflow uses")?;
    }
    if !unknown.is_empty() {
        writeln!(out, "not read: {}", some(unknown.iter(), MANY))?;
    }
    Ok(())
}

/// Prints a line about the session that was written.
fn summary(out: &mut impl Write, to: &Path, imported: &Imported, bytes: u64) -> io::Result<()> {
    let span = match (imported.observations.first(), imported.observations.last()) {
        (Some(a), Some(b)) => format!(
            ", {} from {}",
            duration(b.stamp.seen - a.stamp.seen),
            a.stamp.seen
        ),
        _ => String::new(),
    };
    writeln!(
        out,
        "{}: {} observations, {} bytes{span}",
        text::clean(&to.display().to_string()),
        imported.observations.len(),
        bytes
    )?;
    if let Some(said) = dated(&imported.dating) {
        writeln!(out, "{said}")?;
    }
    Ok(())
}

/// Says how lists were dated that do not tell when they were read.
fn dated(dating: &Dating) -> Option<String> {
    let by_file = dating.by_file.map(|off| {
        let off = duration(off);
        format!("when their file was written, up to {off} after their newest time")
    });
    let by_list = (dating.by_list.or(dating.unlikely)).map(|_| {
        let own = dating.by_list.map(duration);
        let own = own.map_or_else(String::new, |off| format!(", up to {off} after their own"));
        let file = dating.unlikely.map(duration);
        let file = file.map_or_else(String::new, |off| {
            format!(", and {off} before their file was written")
        });
        format!("at the newest time in any of them{own}{file}")
    });
    let parts: Vec<String> = by_file.into_iter().chain(by_list).collect();
    (!parts.is_empty()).then(|| {
        let how = parts.join(", or ");
        format!("lists count as read {how} (--taken TIME says it better)")
    })
}

/// Number of inputs up to which each has a row, and of files that are listed as not read.
const MANY: usize = 20;

/// Width of the terminal that shows the summary; unlimited when standard error is no terminal.
fn width() -> usize {
    if io::stderr().is_terminal()
        && let Ok((columns, _)) = crossterm::terminal::size()
    {
        return usize::from(columns);
    }
    usize::MAX
}

/// Returns the list; when it does not fit beside its row, on lines of its own below, broken between its parts.
fn fold(list: &str, left: usize, width: usize) -> String {
    const INDENT: &str = "    ";
    if list.chars().count() <= left {
        return list.to_owned();
    }
    let mut out = format!("\n{INDENT}");
    let mut line = INDENT.len();
    for part in list.split_inclusive(", ") {
        let long = part.trim_end().chars().count();
        if line > INDENT.len() && line + long > width {
            out.truncate(out.trim_end().len());
            out.push('\n');
            out.push_str(INDENT);
            line = INDENT.len();
        }
        out.push_str(part);
        line += part.chars().count();
    }
    out
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
    if let Some(misfit) = &s.misfit {
        parts.push(text::clean(misfit).into_owned());
    }
    if s.lines == 0 && s.cut.is_none() {
        parts.push("it is empty".to_owned());
    }
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join(", ")
    }
}

const READING: &str = "reading {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
const WRITING: &str = "writing {wide_bar} {human_pos}/{human_len} observations {eta}";

/// A progress bar that reads the counters ten times a second.
struct Bar {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Bar {
    fn start(progress: &Arc<Progress>, template: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (progress, stopped) = (Arc::clone(progress), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let style = ProgressStyle::with_template(template);
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
            // A panic in the bar's thread costs only its drawing.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_broken_between_its_parts() {
        let list = "5137 cAdvisor, 147 command line flag, 1 no klog header";
        assert_eq!(fold(list, usize::MAX, usize::MAX), list);
        assert_eq!(fold("-", 30, 80), "-");
        assert_eq!(
            fold(list, 10, 46),
            "\n    5137 cAdvisor, 147 command line flag,\n    1 no klog header"
        );
    }
}
