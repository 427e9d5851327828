//! Verdicts as text of at most 80 columns, as JSON, and as Markdown for a ticket or a chat.
//!
//! Pure: nothing here reads a clock or a terminal. Untrusted text arrives as one line without control characters (see
//! [`kflow_core::diagnose::text`]) and is escaped once more by [`clean`].

pub(crate) mod evidence;
mod groups;
mod markdown;
mod rows;

use crate::text::clean;
use evidence::{clock, precision, source_name, told_once};
pub use groups::{Group, groups, groups_of};
use kflow_core::diagnose::finding::owner_arg;
use kflow_core::diagnose::text::{span, times};
use kflow_core::diagnose::{Confidence, State, Verdict};
use kflow_model::{Nanos, stamp::SECOND};
pub use markdown::{escaped, markdown};
pub use rows::rows;

/// Most columns of a line.
pub const WIDTH: usize = 80;

/// Most pods without an owner, and most owners, that are named below a verdict which holds for all of them.
const NAMED: usize = 20;
/// Most pods of one owner that are named below such a verdict.
const NAMED_OF_OWNER: usize = 3;

/// Most further owners of which it is said how they stand below such a verdict.
const NAMED_OWNERS: usize = 4;

/// Returns groups of verdicts as text. Of verdicts that say the same, the first is written in full and the others by
/// name; with `each`, every one is written in full.
pub fn report(groups: &[Group<'_>], now: Nanos, each: bool) -> String {
    let mut reports = Vec::new();
    for group in groups {
        if each {
            let all = std::iter::once(&group.told).chain(&group.behind);
            reports.extend(all.flatten().map(|v| text(v, now)));
            continue;
        }
        let Some((first, others)) = group.told.split_first() else {
            continue;
        };
        let mut told = text(first, now);
        if !others.is_empty() {
            field(&mut told, "same", &alike(first, others));
            for stands in owners(first, others) {
                field(&mut told, "owner", &clean(stands));
            }
        }
        let mut label = "";
        for behind in &group.behind {
            let led = leads(behind);
            let again = std::mem::replace(&mut label, led) == led;
            let label = if again { "" } else { led };
            field(&mut told, label, &clean(&held_up(behind, now)));
        }
        reports.push(told);
    }
    reports.join("\n")
}

/// Returns what a verdict does to those that follow from it. Failed ones are over: the cause ended them, and does not
/// hold them up.
fn leads(behind: &[&Verdict]) -> &'static str {
    match behind.first().map(|v| v.state) {
        Some(State::Failed) => "ended",
        _ => "holds up",
    }
}

/// `s24a/queued and 2 more, waiting in image for 38s (KF610): The pull of …`
fn held_up(group: &[&Verdict], now: Nanos) -> String {
    let Some((first, others)) = group.split_first() else {
        return String::new();
    };
    let more = match others.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!(
        "{}{more}, {} ({}): {}",
        subject(first),
        standing(first, now),
        first.cause_id(),
        first.sentence
    )
}

/// `997 more: 499 of shop/deployment/web (web-1, web-2, web-3, …), shop/alone and 477 others (--each tells each)`
///
/// A pod in another stage than the first one's is named with its stage, and one of which the cause is less certain with how certain.
fn alike(first: &Verdict, others: &[&Verdict]) -> String {
    let differs = |v: &Verdict| {
        let stage = Some(v.stage).filter(|stage| *stage != first.stage);
        let stage = stage.map_or(String::new(), |stage| format!(" in {}", stage.name()));
        match v.confidence {
            c if c <= first.confidence => stage,
            c => format!("{stage} ({})", confidence_name(c)),
        }
    };
    let mut names = Vec::new();
    let mut told = 0;
    let of_one = |a: &&Verdict, b: &&Verdict| {
        a.root.is_some() && (&a.namespace, &a.root) == (&b.namespace, &b.root)
    };
    for run in others.chunk_by(of_one) {
        if names.len() >= NAMED {
            break;
        }
        told += run.len();
        match (run, run.first().and_then(|v| v.root.as_ref())) {
            ([one], _) => names.push(subject(one) + &differs(one)),
            ([first, ..], Some(o)) => {
                let shown = run.iter().take(NAMED_OF_OWNER);
                let mut pods: Vec<String> =
                    shown.map(|v| v.pod.to_string() + &differs(v)).collect();
                if run.len() > NAMED_OF_OWNER {
                    pods.push("…".to_owned());
                }
                names.push(format!(
                    "{} of {}/{} ({})",
                    run.len(),
                    first.namespace,
                    owner_arg(o),
                    pods.join(", ")
                ));
            }
            (_, _) => {}
        }
    }
    let mut value = format!("{} more: {}", others.len(), names.join(", "));
    let left = others.len().saturating_sub(told);
    if left > 0 {
        value.push_str(&format!(" and {left} others"));
    }
    value + " (--each tells each)"
}

/// How the owners of the others stand, where they are other owners than the first's.
fn owners<'v>(first: &Verdict, others: &[&'v Verdict]) -> Vec<&'v str> {
    let mut owners: Vec<&str> = Vec::new();
    for v in others.iter().filter(|v| v.root != first.root) {
        if let Some(stands) = v.owner_state.as_deref()
            && owners.len() < NAMED_OWNERS
            && !owners.contains(&stands)
        {
            owners.push(stands);
        }
    }
    owners
}

/// Returns the verdict as text, each line at most [`WIDTH`] columns wide (a command is never broken).
pub fn text(v: &Verdict, now: Nanos) -> String {
    let mut out = String::new();
    headline(v, now, &mut out);
    for l in wrap(&clean(&v.sentence), WIDTH) {
        push(&mut out, &l);
    }
    evidence(v, now, &mut out);
    if !v.not_reached.is_empty() {
        let names: Vec<&str> = v
            .not_reached
            .iter()
            .map(kflow_model::Text::as_str)
            .collect();
        field(&mut out, "not yet", &names.join(", "));
    }
    for (label, state) in [("owner", &v.owner_state), ("node", &v.node_state)] {
        if let Some(state) = state {
            field(&mut out, label, &clean(state));
        }
    }
    for (i, n) in v.next.iter().enumerate() {
        let label = if i == 0 { "do" } else { "" };
        let text = clean(&n.text);
        if n.command.is_empty() {
            field(&mut out, label, &text);
            continue;
        }
        let command = clean(&n.command);
        let one = format!("  {label:<8}  {text}:  {command}");
        if one.chars().count() <= WIDTH {
            push(&mut out, &one);
        } else {
            field(&mut out, label, &format!("{text}:"));
            for l in wrap_command(&command, WIDTH - 14) {
                push(&mut out, &format!("              {l}"));
            }
        }
    }
    if let Some(id) = v.cause {
        let c = kflow_core::diagnose::Catalogue::get().cause(id);
        push(&mut out, &format!("  {:<8}  {}", "docs", c.docs));
    }
    for other in &v.also {
        field(
            &mut out,
            "also",
            &format!(
                "{} {}: {}",
                other.cause_id(),
                other.stage,
                clean(&other.sentence)
            ),
        );
    }
    out
}

/// `s02/image-missing   stuck in image for 2m41s, backing off (attempt 5, next in 80 s)        KF601`
fn headline(v: &Verdict, now: Nanos, out: &mut String) {
    let who = subject(v);
    let how = standing(v, now);
    let mut more = Vec::new();
    more.extend(v.told_attempt().map(|n| format!("attempt {n}")));
    if let Some(t) = v.next_retry.filter(|t| *t > now) {
        more.push(format!("next in {}", span(t.since(now))));
    }
    let how = if more.is_empty() {
        how
    } else {
        format!("{how} ({})", more.join(", "))
    };
    let how = match v.confidence {
        Confidence::Certain => how,
        Confidence::Likely => format!("{how}, likely"),
        Confidence::Possible => format!("{how}, possibly"),
    };
    let left = format!("{}   {how}", clean(&who));
    let pad = WIDTH.saturating_sub(left.chars().count() + v.cause_id().chars().count());
    if pad >= 2 || v.cause.is_none() {
        push(out, format!("{left}{:pad$}{}", "", v.cause_id()).trim_end());
        return;
    }
    // Too long for one line: the subject first, its state in lines below.
    let pad = WIDTH
        .saturating_sub(who.chars().count() + v.cause_id().chars().count())
        .max(2);
    push(out, &format!("{}{:pad$}{}", clean(&who), "", v.cause_id()));
    for l in wrap(&how, WIDTH - 2) {
        push(out, &format!("  {l}"));
    }
}

/// Returns the state and its duration: `stuck in image for 2m41s, backing off`,
/// `crash-looping in start, now running for 12 s`.
pub fn standing(v: &Verdict, now: Nanos) -> String {
    let length = now.since(v.since);
    let lasts = match (v.at_least, span(length)) {
        (true, _) if length < SECOND => String::new(),
        (true, since) => format!(" for at least {since}"),
        (false, since) => format!(" for {since}"),
    };
    let stage = v.stage.name();
    let up = v.recurrence.and_then(|r| r.up).map(|t| span(now.since(t)));
    let often = v
        .recurrence
        .map(|r| format!(": {} in {}", times(r.times), span(now.since(r.first))))
        .unwrap_or_default();
    match v.state {
        State::Stuck => format!("stuck in {stage}{lasts}"),
        State::Slow => format!("slow in {stage}{lasts}"),
        State::BackingOff => format!("stuck in {stage}{lasts}, backing off"),
        State::CrashLooping => match up {
            Some(up) => format!("crash-looping in {stage}, now running for {up}"),
            None => format!("crash-looping in {stage}{lasts}"),
        },
        State::Flapping => match up {
            Some(up) => format!("flapping in {stage}{often}, now ready for {up}"),
            None => format!("flapping in {stage}{often}"),
        },
        State::Blocked => format!("waiting in {stage}{lasts}"),
        State::Failed => match (v.at_least, span(length)) {
            (true, _) if length < SECOND => format!("failed in {stage}"),
            (true, since) => format!("failed in {stage} at least {since} ago"),
            (false, since) => format!("failed in {stage} {since} ago"),
        },
        State::Recovered => format!("recovered, well{lasts}"),
        State::Healthy => "well".to_owned(),
        State::Gone => "gone".to_owned(),
    }
}

/// Returns the subject: `ns/pod`, `deployment/name (ns)` for an owner without pods, or `node/name`.
pub fn subject(v: &Verdict) -> String {
    match (&v.owner, v.pod.is_empty()) {
        (Some(o), true) if o.namespace.is_empty() => owner_arg(o),
        (Some(o), true) => format!("{} ({})", owner_arg(o), o.namespace),
        (None, true) => v.uid.to_string(),
        _ => format!("{}/{}", v.namespace, v.pod),
    }
}

fn evidence(v: &Verdict, now: Nanos, out: &mut String) {
    // Only the text is limited, not the JSON. The best evidence comes first.
    const MOST: usize = 4;
    let (shown, more) = told_once(&v.evidence, MOST);
    for (i, (p, also)) in shown.into_iter().enumerate() {
        let label = if i == 0 { "evidence" } else { "" };
        let head = format!("  {label:<8}  {:<12}  ", clock(p, now));
        let indent = head.chars().count();
        let mut from = format!("{}, {}", source_name(p.source), precision(p));
        if !also.is_empty() {
            from = format!("{from}; also {}", also.join(", "));
        }
        let body = format!("{}  ({from})", clean(&p.to_string()));
        for (n, l) in wrap(&body, WIDTH - indent).into_iter().enumerate() {
            if n == 0 {
                push(out, &format!("{head}{l}"));
            } else {
                push(out, &format!("{:indent$}{l}", ""));
            }
        }
    }
    if more > 0 {
        field(out, "", &format!("and {more} more"));
    }
}

fn field(out: &mut String, label: &str, value: &str) {
    for (i, l) in wrap(&clean(value), WIDTH - 12).into_iter().enumerate() {
        let label = if i == 0 { label } else { "" };
        push(out, format!("  {label:<8}  {l}").trim_end());
    }
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// Wraps a text at spaces. A word that is longer than a line is broken at the line's end.
pub fn wrap(s: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in s.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + word.len() <= width {
            line.push(' ');
            line.extend(&word);
            used += 1 + word.len();
            continue;
        }
        if used > 0 {
            lines.push(std::mem::take(&mut line));
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        used = word.len();
        line = word.into_iter().collect();
    }
    lines.push(line);
    lines.iter().map(|l| l.trim_end().to_owned()).collect()
}

/// Wraps a command for pasting: it is broken at spaces outside of quotes, with a backslash.
fn wrap_command(command: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut word = String::new();
    let mut quote = None;
    let flush = |line: &mut String, word: &mut String, lines: &mut Vec<String>| {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() + 2 > width {
            lines.push(format!("{line} \\"));
            line.clear();
            line.push_str("  ");
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        word.clear();
    };
    for c in command.chars() {
        match (c, quote) {
            (' ', None) => flush(&mut line, &mut word, &mut lines),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.push(c);
            }
            (c, Some(q)) if c == q => {
                quote = None;
                word.push(c);
            }
            (c, _) => word.push(c),
        }
    }
    flush(&mut line, &mut word, &mut lines);
    lines.push(line);
    lines
}

pub(super) fn confidence_name(c: Confidence) -> &'static str {
    match c {
        Confidence::Certain => "certain",
        Confidence::Likely => "likely",
        Confidence::Possible => "possible",
    }
}
