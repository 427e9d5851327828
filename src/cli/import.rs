//! `kflow import`: reads raw captures, writes a session, and prints a summary of the lines used and left out.

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
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
use kflow_core::query::Moment;
use kflow_engine::import::{
    self, Bundle, Dating, Imported, Input, Kind, Left, Options, Progress, Summary,
};
use kflow_export::text;
use kflow_model::session::{self, Header, Writer};
use kflow_model::stamp::SECOND;
use kflow_model::units::{DAY, HOUR, duration};
use kflow_model::{Nanos, file};

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
    let taken = args.taken.as_deref().map(|text| taken(text, &inputs, now));
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
            tell_cuts(&mut said, &imported, &found.cut)?;
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
        tell_apart(&mut said, &imported, &found.bundles)?;
        for file in &found.joined {
            writeln!(
                said,
                "{}",
                text::clean(&format!("{}: {}", file.name, file.why))
            )?;
        }
        tell_cuts(&mut said, &imported, &found.cut)?;
        out::tell_bytes(&said);
    }
    Ok(super::OK)
}

/// The time from `--taken`. A time of day is the first one after the newest time in the lists.
fn taken(text: &str, inputs: &[Input], now: Nanos) -> anyhow::Result<Nanos> {
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
    // A reason that says what to do needs no advice.
    let known = |left: &Left| left.why.starts_with("it is ");
    let strange = some(found.strange.iter(), FEW);
    anyhow::ensure!(
        !found.strange.iter().any(known),
        "not a capture that kflow reads: {strange}"
    );
    anyhow::ensure!(
        found.strange.is_empty(),
        "not known, by name and content: {strange}; give such a file with the flag of its kind, such as --kubelet-log"
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
                ": name the captures with their flags, such as --kubelet-log"
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

/// The first `most` names, and the number of the others.
fn some<T: std::fmt::Display>(names: impl ExactSizeIterator<Item = T>, most: usize) -> String {
    let more = names.len().saturating_sub(most);
    let mut parts: Vec<String> = names.take(most).map(|n| n.to_string()).collect();
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    text::clean(&parts.join(", ")).into_owned()
}

/// Prints what was not read, and a row for each input: lines, observations, and what was left out. Those of a large
/// bundle are told by kind.
fn table(out: &mut impl Write, imported: &Imported, not_read: &[Left]) -> io::Result<()> {
    passed_over(out, not_read)?;
    let all = &imported.summaries;
    let rows: Vec<(String, Summary)> = if all.len() > MANY {
        by_kind(all)
    } else {
        let named = |s: &Summary| (s.input.name.clone(), s.clone());
        all.iter().map(named).collect()
    };
    let names = rows.iter().map(|(name, _)| name.chars().count()).max();
    let names = names.unwrap_or_default().clamp(24, NAME);
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
            short(&text::clean(name), names),
            s.lines,
            s.observations,
            fold(&left_out(s), left, width())
        )?;
    }
    Ok(())
}

/// Prints a line for each reason for not reading files: how many, and some of them.
fn passed_over(out: &mut impl Write, not_read: &[Left]) -> io::Result<()> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Left { name, why } in not_read {
        let why = match why.as_str() {
            "" => "of another kind",
            // What it is the same as differs from file to file.
            why if why.starts_with("the same as ") => "the same as another",
            why => why,
        };
        reasons.entry(why).or_default().push(name);
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    for (why, names) in reasons.iter().take(REASONS) {
        let shown = names.iter().map(|name| short(name, NAME));
        let why = text::clean(why);
        match names.len() {
            1 => writeln!(out, "not read: {} ({why})", some(shown, 1))?,
            n if n <= FEW => writeln!(out, "not read, {why}: {}", some(shown, FEW))?,
            n if *why == *"empty" => writeln!(out, "not read, {why}: {n} files")?,
            n => writeln!(
                out,
                "not read, {why}: {n} files, such as {}",
                some(shown.take(1), 1)
            )?,
        }
    }
    let others = reasons.iter().skip(REASONS).map(|(_, names)| names.len());
    match others.sum() {
        0 => Ok(()),
        n => writeln!(out, "not read, for other reasons: {n} files"),
    }
}

/// Prints a line for each archive and file whose end is missing.
fn tell_cuts(out: &mut impl Write, imported: &Imported, archives: &[Left]) -> io::Result<()> {
    let files = imported.summaries.iter();
    let files = files.filter_map(|s| Some((s.input.name.as_str(), s.cut.as_deref()?)));
    let archives = archives.iter().map(|a| (a.name.as_str(), a.why.as_str()));
    for (name, why) in files.chain(archives) {
        let said =
            format!("CUT: {name}: {why}. What follows was not read: answers may be incomplete");
        writeln!(out, "{}", text::clean(&said))?;
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

/// Returns a path that is longer than `most` characters without its middle: its begin tells the bundle, its end the file.
fn short(path: &str, most: usize) -> String {
    let length = path.chars().count();
    if length <= most {
        return path.to_owned();
    }
    let front = most / 4;
    let skipped = length.saturating_sub(most - front).saturating_add(1);
    let (front, back) = (path.chars().take(front), path.chars().skip(skipped));
    front.chain(['…']).chain(back).collect()
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
        writeln!(out, "{}", text::clean(&said))?;
    }
    if imported.has_placeholders() {
        writeln!(
            out,
            "NAMESPACE, POD and the like stand for names that the text does not tell"
        )?;
    }
    Ok(())
}

/// Says which bundles end long before another.
fn tell_apart(out: &mut impl Write, imported: &Imported, names: &[String]) -> io::Result<()> {
    let Some((last, end)) = imported.ends.iter().max_by_key(|(_, end)| **end) else {
        return Ok(());
    };
    let name = |bundle: &usize| match names.get(*bundle).map(String::as_str) {
        None | Some("") => "what was given by itself",
        Some(name) => name,
    };
    for (bundle, its) in &imported.ends {
        let before = end.since(*its);
        if before > APART {
            let said = format!(
                "{} ends {} before {}: what it shows as stuck was not seen since; ask as of its end (--at {})",
                name(bundle),
                duration(before),
                name(last),
                its.to_rfc3339()
            );
            writeln!(out, "{}", text::clean(&said))?;
        }
    }
    Ok(())
}

/// Says how lists were dated that do not tell when they were read.
fn dated(dating: &Dating) -> Option<String> {
    let by_file = dating.by_file.map(|off| {
        let off = duration(off);
        format!("when their file was written, up to {off} after their newest time")
    });
    let late = dating.late.map(|late| late.by);
    let by_list = (dating.by_list.or(late)).map(|_| {
        let own = dating.by_list.map(duration);
        let own = own.map_or_else(String::new, |off| format!(", up to {off} after their own"));
        let file = late.map(duration);
        let file = file.map_or_else(String::new, |off| {
            format!(", and {off} before their file was written")
        });
        format!("at the newest time in any of them{own}{file}")
    });
    let parts: Vec<String> = by_file.into_iter().chain(by_list).collect();
    (!parts.is_empty()).then(|| {
        let how = parts.join(", or ");
        let which = dating
            .longest()
            .map(|name| format!(" ({})", short(name, NAME)));
        let which = which.unwrap_or_default();
        let better = match dating.late {
            Some(late) => {
                let written = late.written.to_rfc3339_seconds();
                format!("if that file was written when it was read, import with --taken {written}")
            }
            None => "--taken TIME says it better".to_owned(),
        };
        format!("lists count as read {how}{which}; {better}")
    })
}

/// Number of inputs up to which each has a row.
const MANY: usize = 20;
/// Number of logs of a kind up to which each has a row, where there are many inputs; of files that are named as not read.
const FEW: usize = 3;
/// Number of reasons for not reading files that are told.
const REASONS: usize = 6;
/// Bundles that end further apart were made at different moments, ns.
const APART: i64 = HOUR;
/// Longest name of a file in the summary, characters.
const NAME: usize = 44;

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
    if s.cut.is_some() {
        parts.push("CUT".to_owned());
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
