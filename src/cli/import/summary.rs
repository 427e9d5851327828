//! What was imported, and what was left out, in lines.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use crate::cli::args::quoted;
use kflow_engine::import::{Bundle, Dating, Imported, Kind, Left, Summary};
use kflow_export::text;
use kflow_model::Nanos;
use kflow_model::units::{DAY, HOUR, duration};

/// The summary of an import into the session `to`, of so many bytes.
pub(super) fn of(
    imported: &Imported,
    found: &Bundle,
    to: &Path,
    bytes: u64,
) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    table(&mut said, imported, &found.left)?;
    let span = match (imported.observations.first(), imported.observations.last()) {
        (Some(a), Some(b)) => format!(
            ", {} from {}",
            duration(b.stamp.seen - a.stamp.seen),
            a.stamp.seen
        ),
        _ => String::new(),
    };
    let session = format!(
        "{}: {} observations, {bytes} bytes{span}",
        to.display(),
        imported.observations.len()
    );
    let printed = printed(&imported.dating);
    let lines = [session].into_iter().chain(printed);
    for line in lines.chain(notes(imported, found, None)) {
        writeln!(said, "{}", text::clean(&line))?;
    }
    Ok(said)
}

/// The summary of an import that has no observation.
pub(super) fn of_nothing(imported: &Imported, found: &Bundle) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    table(&mut said, imported, &found.left)?;
    for summary in imported.summaries.iter().filter(|s| s.misfit.is_none()) {
        for line in &summary.unread {
            let line = format!("left out of {}: {line}", summary.input.name);
            writeln!(said, "{}", text::clean(&line))?;
        }
    }
    for line in cuts(imported, found) {
        writeln!(said, "{}", text::clean(&line))?;
    }
    Ok(said)
}

/// What to know of what was imported: how it was dated, and what it lacks. Not yet escaped. `from`: what was named to a command that
/// does not take the flags of `kflow import`.
pub(in crate::cli) fn notes(
    imported: &Imported,
    found: &Bundle,
    from: Option<&Path>,
) -> Vec<String> {
    let mut notes: Vec<String> = dated(&imported.dating, from).into_iter().collect();
    if imported.has_placeholders() {
        let placeholders =
            "NAMESPACE, POD and the like stand for names that the text does not tell";
        notes.push(placeholders.to_owned());
    }
    notes.extend(apart(imported, &found.bundles));
    let joined = found.joined.iter();
    notes.extend(joined.map(|file| format!("{}: {}", file.name, file.why)));
    notes.extend(cuts(imported, found));
    notes
}

/// A line for each archive and file whose end is missing.
fn cuts<'a>(imported: &'a Imported, found: &'a Bundle) -> impl Iterator<Item = String> + use<'a> {
    let files = imported.summaries.iter();
    let files = files.filter_map(|s| Some((s.input.name.as_str(), s.cut.as_deref()?)));
    let archives = found.cut.iter().map(|a| (a.name.as_str(), a.why.as_str()));
    files.chain(archives).map(|(name, why)| {
        format!("CUT: {name}: {why}. What follows was not read: answers may be incomplete")
    })
}

/// A line for each bundle that ends long before another.
fn apart(imported: &Imported, names: &[String]) -> Vec<String> {
    let Some((last, end)) = imported.ends.iter().max_by_key(|(_, end)| **end) else {
        return Vec::new();
    };
    let name = |bundle: &usize| match names.get(*bundle).map(String::as_str) {
        None | Some("") => "what was given by itself",
        Some(name) => name,
    };
    let before = |its| end.since(its);
    let early = imported
        .ends
        .iter()
        .filter(|(_, its)| before(**its) > APART);
    let line = |(bundle, its): (&usize, &Nanos)| {
        format!(
            "{} ends {} before {}: what it shows as stuck was not seen since; ask as of its end (--at {})",
            name(bundle),
            duration(before(*its)),
            name(last),
            its.to_rfc3339()
        )
    };
    early.map(line).collect()
}

/// The first `most` names, and the number of the others.
pub(in crate::cli) fn some<T: std::fmt::Display>(
    names: impl ExactSizeIterator<Item = T>,
    most: usize,
) -> String {
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
        let named = |s: &Summary| (name_of(s, all), s.clone());
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
pub(super) fn passed_over(out: &mut impl Write, not_read: &[Left]) -> io::Result<()> {
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

/// Returns the name of an input, with its kind where a journal of several programs is several inputs.
fn name_of(s: &Summary, all: &[Summary]) -> String {
    let name = &s.input.name;
    let is_other = |o: &Summary| o.input.name == *name && o.input.kind != s.input.kind;
    if all.iter().any(is_other) {
        format!("{name} ({})", s.input.kind.noun().trim_start_matches("a "))
    } else {
        name.clone()
    }
}

/// Adds up the lists of API objects, and logs of a kind that are in many files.
fn by_kind(all: &[Summary]) -> Vec<(String, Summary)> {
    let mut rows: Vec<(String, Summary)> = Vec::new();
    for kind in Kind::ALL {
        let of: Vec<&Summary> = all.iter().filter(|s| s.input.kind == kind).collect();
        let alone = of.len() <= FEW;
        let told = |s: &&&Summary| alone || s.cut.is_some() || s.misfit.is_some();
        let named = |s: &&Summary| (name_of(s, all), (*s).clone());
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

/// Says how lists were dated that do not tell when they were read.
fn dated(dating: &Dating, from: Option<&Path>) -> Option<String> {
    let by_file = dating.by_file.map(|off| {
        let off = duration(off);
        let when = if dating.by_name {
            "at the date in the name of their bundle or file, taken for UTC"
        } else {
            "when their file was written"
        };
        format!("{when}, up to {off} after their newest time")
    });
    let late = dating.late.map(|late| late.by);
    let by_list = (dating.by_list.or(late)).map(|_| {
        let own = dating.by_list.map(duration);
        let own = own.map_or_else(String::new, |off| format!(", up to {off} after their own"));
        let file = late.map(duration);
        let file = file.map_or_else(String::new, |off| {
            format!(", and {off} before their file was written")
        });
        let at = dating.late.map(|late| late.written.plus(-late.by));
        let at = at.map_or_else(String::new, |at| format!(" ({})", at.to_rfc3339_seconds()));
        format!("at the newest time in any of them{at}{own}{file}")
    });
    let parts: Vec<String> = by_file.into_iter().chain(by_list).collect();
    (!parts.is_empty()).then(|| {
        let how = parts.join(", or ");
        let which = dating
            .longest()
            .map(|name| format!(" ({})", short(name, NAME)));
        let which = which.unwrap_or_default();
        let better = match dating.late {
            // The time of a checkout or a copy.
            Some(late) if late.by <= LONG_AFTER => {
                let written = late.written.to_rfc3339_seconds();
                let again = again(&written, from);
                format!("if that file was written when it was read, {again} says so")
            }
            Some(_) | None => format!("{} says it better", again("TIME", from)),
        };
        format!("lists count as read {how}{which}; {better}")
    })
}

/// Returns what says when something was read: the flag, or the command that has it.
fn again(time: &str, from: Option<&Path>) -> String {
    let flag = format!("--taken {time}");
    from.map_or_else(
        || flag.clone(),
        |from| {
            let from = quoted(&from.display().to_string());
            format!("`kflow import {from} {flag} -O taken.kflow`")
        },
    )
}

/// Says from when the ages count back that kubectl printed.
fn printed(dating: &Dating) -> Option<String> {
    let (first, last) = dating.printed?;
    let (from, to) = (first.to_rfc3339_seconds(), last.to_rfc3339_seconds());
    let when = if from == to {
        format!("at {from}")
    } else {
        format!("from {from} to {to}")
    };
    let by = if dating.by_name {
        "by the date in the name of their bundle or file, taken for UTC"
    } else {
        "by the bundle's date or the times of their files"
    };
    Some(format!(
        "tables and descriptions count as printed {when}, {by}; --taken TIME says it better"
    ))
}

/// Number of inputs up to which each has a row.
pub(in crate::cli) const MANY: usize = 20;
/// Number of logs of a kind up to which each has a row, where there are many inputs; of files that are named as not read.
pub(super) const FEW: usize = 3;
/// Number of reasons for not reading files that are told.
const REASONS: usize = 6;
/// Bundles that end further apart were made at different moments, ns.
const APART: i64 = HOUR;
/// A file that was written so long after the newest time in its lists was not written when they were read, ns.
const LONG_AFTER: i64 = 60 * DAY;
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
