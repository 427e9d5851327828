//! `kflow import`: reads raw captures, writes a session, and prints a summary of the lines used and left out.

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::args::ImportArgs;
use super::out;
use super::store::moment;
use kflow_engine::import::{
    self, Bundle, Dating, Imported, Input, Kind, Left, Options, Progress, Summary,
};
use kflow_export::text;
use kflow_model::file;
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
    let named = named(args);
    let found = found(args)?;
    let mut inputs = named.clone();
    inputs.extend(found.inputs.iter().cloned());
    let given = inputs.iter().map(|i| i.path.as_path());
    file::distinct(
        output,
        given.chain(args.captures.iter().map(PathBuf::as_path)),
    )?;
    let now = kflow_model::clock::now();
    let taken = args.taken.as_deref();
    let options = Options {
        year: args.year,
        utc_offset_s: args.utc_offset,
        node: args.node.as_str().into(),
        host: found.host.as_str().into(),
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
    // A file named with a flag must be of that flag's kind.
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
    if imported.observations.is_empty() {
        if !args.quiet {
            let mut said = Vec::new();
            table(&mut said, &imported, &found.left)?;
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
        table(&mut said, &imported, &found.left)?;
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

/// The captures that are named with the flag of their kind.
fn named(args: &ImportArgs) -> Vec<Input> {
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
fn found(args: &ImportArgs) -> anyhow::Result<Bundle> {
    let paths = &args.captures;
    if paths.is_empty() {
        return Ok(Bundle::default());
    }
    // What is unpacked takes as much room as the captures: beside the session there is more of it than in /tmp.
    let beside = args
        .output_file
        .parent()
        .filter(|_| args.output_file.as_os_str() != "-");
    let scratch = match beside {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => std::env::temp_dir(),
    };
    let found = import::find(paths, &args.node, &scratch)?;
    anyhow::ensure!(
        found.strange.is_empty(),
        "not known, by name and content: {}; give such a file with the flag of its kind, such as --kubelet-log",
        some(found.strange.iter(), MANY)
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
    let left = || match found.left.as_slice() {
        [] => String::new(),
        left => format!(". Not read: {}", some(left.iter(), 3)),
    };
    anyhow::ensure!(
        !found.inputs.is_empty(),
        "{} has no capture that kflow knows (such as kubelet.log, pods.json, watch.jsonl, audit.log): name the captures with their flags, such as --kubelet-log{}",
        names(),
        left()
    );
    if !found.nodes.is_empty() {
        out::tell(&format!(
            "The captures of nodes were left out, because a session has those of one: choose one with --node: {}",
            nodes()
        ));
    }
    Ok(found)
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

/// Prints a row for each input: lines, observations, and what was left out. Those of a large bundle are told by kind.
fn table(out: &mut impl Write, imported: &Imported, not_read: &[Left]) -> io::Result<()> {
    let all = &imported.summaries;
    let rows: Vec<(String, Summary)> = if all.len() > MANY {
        by_kind(all)
    } else {
        let named = |s: &Summary| (s.input.name.clone(), s.clone());
        all.iter().map(named).collect()
    };
    let names = rows.iter().map(|(name, _)| name.chars().count()).max();
    let names = names.unwrap_or_default().clamp(24, 44);
    // Width left for the last column.
    let left = width().saturating_sub(names + 26);
    writeln!(
        out,
        "{:<names$} {:>10} {:>12}  left out",
        "input", "lines", "observations"
    )?;
    for (name, s) in &rows {
        writeln!(
            out,
            "{:<names$} {:>10} {:>12}  {}",
            tail(&text::clean(name), names),
            s.lines,
            s.observations,
            fold(&left_out(s), left, width())
        )?;
    }
    if not_read.is_empty() {
        return Ok(());
    }
    if not_read.len() <= MANY {
        return writeln!(out, "not read: {}", some(not_read.iter(), MANY));
    }
    let reasons = not_read.iter().filter(|left| !left.why.is_empty());
    let reasons: Vec<String> = reasons.map(|left| tail(&left.to_string(), 100)).collect();
    let others = not_read.len() - reasons.len();
    writeln!(out, "not read: {others} files of other kinds")?;
    if !reasons.is_empty() {
        writeln!(out, "not read: {}", some(reasons.iter(), MANY))?;
    }
    Ok(())
}

/// Adds up the lists of API objects, and logs of a kind that are in many files.
fn by_kind(all: &[Summary]) -> Vec<(String, Summary)> {
    let mut rows: Vec<(String, Summary)> = Vec::new();
    for kind in Kind::ALL {
        let of: Vec<&Summary> = all.iter().filter(|s| s.input.kind == kind).collect();
        let alone = of.len() <= FEW;
        let told = |s: &&&Summary| alone || s.cut.is_some() || s.misfit.is_some();
        let named = |s: &&Summary| (s.input.name.clone(), (*s).clone());
        rows.extend(of.iter().filter(told).map(named));
        let mut rest = of.iter().filter(|s| !told(s));
        let Some(first) = rest.next() else {
            continue;
        };
        let mut sum = (*first).clone();
        let mut n = 1;
        for s in rest {
            n += 1;
            sum.lines += s.lines;
            sum.observations += s.observations;
            for (why, n) in &s.ignored {
                *sum.ignored.entry(why).or_default() += n;
            }
            for (why, n) in &s.malformed {
                *sum.malformed.entry(why).or_default() += n;
            }
        }
        rows.push((format!("{n} files: {}", kind.noun()), sum));
    }
    rows
}

/// Returns the end of a path that is longer than `most` characters, behind `…`.
fn tail(path: &str, most: usize) -> String {
    let over = path.chars().count().saturating_sub(most);
    if over == 0 {
        return path.to_owned();
    }
    std::iter::once('…')
        .chain(path.chars().skip(over + 1))
        .collect()
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
/// Number of logs of a kind up to which each has a row, where there are many inputs.
const FEW: usize = 3;

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
