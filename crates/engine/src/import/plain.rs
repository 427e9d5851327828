//! Text as it was printed, without what it went through since: colours of a terminal, marks of Markdown, HTML and Jira, typographic
//! quotation marks, line numbers and names of files that `grep` and editors put before each line, and a table drawn with `|`.
//!
//! Somebody who pastes into a ticket chooses none of that. Nothing that a component of Kubernetes prints looks so.

use serde_json::{Map, Value};
use std::borrow::Cow;

mod emphasis;

use emphasis::unmarked;

/// Tags of HTML that format text; `<none>` and `<unknown>` are kubectl's.
const TAGS: [&str; 21] = [
    "a",
    "b",
    "blockquote",
    "br",
    "code",
    "details",
    "div",
    "em",
    "font",
    "i",
    "li",
    "ol",
    "p",
    "small",
    "span",
    "strong",
    "summary",
    "td",
    "tr",
    "tt",
    "ul",
];
/// Begin and end of a code block in Markdown. Nothing that kubectl prints goes beyond one.
const FENCE: &str = "```";
/// The same in Jira and in forums: begin, sign before the name of a language (`{code:yaml}`), end.
const BLOCKS: [(&str, char, char); 4] = [
    ("{code", ':', '}'),
    ("{noformat", ':', '}'),
    ("[code", '=', ']'),
    ("[/code", '=', ']'),
];
/// Tags that end a line.
const BREAKS: [&str; 5] = ["br", "p", "div", "li", "tr"];
/// What pages of HTML write for a character, beside its number.
const ENTITIES: [(&str, char); 8] = [
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("amp", '&'),
    ("ldquo", '"'),
    ("rdquo", '"'),
];
/// Lines in a row that have a number before them.
const NUMBERED: usize = 3;

/// Returns the text as it was printed, where it went through something. `is_known` says whether a text has anything that is read.
pub(super) fn plain(text: &str, is_known: impl Fn(&str) -> bool) -> Option<String> {
    let mut now = Cow::Borrowed(text);
    for step in [
        headed, uncoloured, untagged, in_ascii, quoted, unnumbered, unadded, undrawn, ticked,
        fenced, unmarked,
    ] {
        if let Some(better) = step(&now) {
            now = Cow::Owned(better);
        }
    }
    if let Some(lines) = unescaped(&now)
        && !is_known(&now)
        && is_known(&lines)
    {
        now = Cow::Owned(lines);
    }
    (now != text).then(|| now.into_owned())
}

/// Splits off the lines at the begin of which each is an object in JSON, though none of the API: what a tool says of the command that
/// it ran, or lines of a log. `None` where there are none, or nothing else.
pub(super) fn heading(text: &str) -> Option<(&str, &str)> {
    let is_of_heading = |line: &&str| {
        let object = serde_json::from_str::<Map<String, Value>>(line.trim());
        object.is_ok_and(|o| !o.contains_key("apiVersion") && !o.contains_key("items"))
    };
    let lines = text.split_inclusive('\n').take_while(is_of_heading);
    let (heading, rest) = text.split_at_checked(lines.map(str::len).sum())?;
    let is_text = !rest.trim().is_empty() && !rest.trim_start().starts_with('{');
    (!heading.is_empty() && is_text).then_some((heading, rest))
}

/// Replaces lines of JSON before a text by the command of kubectl in them, and the names of the streams that a tool puts before what a
/// command wrote, with the quotation marks around that, by marks of a code block.
fn headed(text: &str) -> Option<String> {
    let (heading, rest) = heading(text).unwrap_or(("", text));
    let mut out = String::with_capacity(text.len());
    for line in heading.split_inclusive('\n') {
        let command = serde_json::from_str(line).ok();
        match command.as_ref().and_then(command_in) {
            Some(command) => {
                out.push_str(command);
                out.push('\n');
            }
            None => out.push_str(line),
        }
    }
    let (stream, printed) = rest.trim_start().split_once('\n').unwrap_or_default();
    if stream.trim_end() == "stdout:" {
        let (printed, errors) = printed.rsplit_once("\nstderr:").unwrap_or((printed, ""));
        let printed = printed.trim();
        let inside = printed
            .strip_prefix('"')
            .map(|p| p.strip_suffix('"').unwrap_or(p));
        out += &[FENCE, inside.unwrap_or(printed), FENCE, errors].join("\n");
    } else {
        out.push_str(rest);
    }
    (out != text).then_some(out)
}

/// Returns the command of kubectl that is a member of an object, or of one in it.
fn command_in(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => {
            let is_command = text.starts_with("kubectl ") && !text.contains('\n');
            is_command.then_some(text)
        }
        Value::Object(members) => members.values().find_map(command_in),
        _ => None,
    }
}

/// Takes the colours out that a terminal shows (ECMA-48, `ESC [ 31 m`), also where the escape itself is written out or lost.
fn uncoloured(text: &str) -> Option<String> {
    /// As `cat -v`, rsyslog, JSON and shells write it.
    const ESCAPES: [&str; 7] = [
        "^[[", "#033[", "\\u001b[", "\\u001B[", "\\x1b[", "\\033[", "\\e[",
    ];
    let has_bare = text.contains("[0m");
    if !text.contains('\u{1b}') && !has_bare {
        return None;
    }
    let mut text = Cow::Borrowed(text);
    for escape in ESCAPES.iter().filter(|_| has_bare) {
        if text.contains(escape) {
            text = Cow::Owned(text.replace(escape, "\u{1b}["));
        }
    }
    let stripped = anstream::adapter::strip_str(&text).to_string();
    // Some places keep the escape from being shown: `[31m`.
    Some(if stripped.contains("[0m") {
        without_bare(&stripped)
    } else {
        stripped
    })
}

/// Takes `[31m` and `[0m` out.
fn without_bare(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_digit() && c != ';');
        match end.and_then(|end| after.split_at_checked(end)) {
            Some((numbers, behind)) if !numbers.is_empty() && behind.starts_with('m') => {
                rest = behind.get(1..).unwrap_or_default();
            }
            _ => {
                out.push('[');
                rest = after;
            }
        }
    }
    out + rest
}

/// Puts line feeds, tabs and quotation marks in that are written out: a text within a string of JSON.
fn unescaped(text: &str) -> Option<String> {
    let written = [
        ("\\r\\n", "\n"),
        ("\\n", "\n"),
        ("\\t", "\t"),
        ("\\\"", "\""),
    ];
    text.contains("\\n").then(|| {
        let one = |text: String, (written, is): (&str, &str)| text.replace(written, is);
        written.into_iter().fold(text.to_owned(), one)
    })
}

/// Takes tags and entities of HTML out.
fn untagged(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '&']) {
        let (before, from) = rest.split_at_checked(at)?;
        out.push_str(before);
        let length = if let Some((replacement, length)) = tag(from) {
            out.push_str(replacement);
            length
        } else {
            let (c, length) = entity(from).or_else(|| {
                let first = from.chars().next()?;
                Some((first, first.len_utf8()))
            })?;
            out.push(c);
            length
        };
        rest = from.get(length..)?;
    }
    out.push_str(rest);
    (out != text).then_some(out)
}

/// Reads a tag: what stands for it, and its length in bytes.
fn tag(text: &str) -> Option<(&'static str, usize)> {
    let inside = up_to(text.strip_prefix('<')?, b'<', b'>')?;
    let name = inside.trim_start_matches('/').split([' ', '/']).next()?;
    let is_known = |names: &[&str]| names.iter().any(|n| n.eq_ignore_ascii_case(name));
    let replacement = if is_known(&["pre"]) {
        "\n```\n"
    } else if is_known(&BREAKS) {
        "\n"
    } else if is_known(&TAGS) {
        ""
    } else {
        return None;
    };
    (!inside.contains('\n')).then_some((replacement, inside.len() + 2))
}

/// Returns what stands before the end of a tag or an entity; none has the begin of another in it.
fn up_to(text: &str, begin: u8, end: u8) -> Option<&str> {
    let at = memchr::memchr2(begin, end, text.as_bytes())?;
    (text.as_bytes().get(at) == Some(&end)).then(|| text.get(..at))?
}

/// Reads an entity: the character, and its length in bytes.
fn entity(text: &str) -> Option<(char, usize)> {
    let name = up_to(text.strip_prefix('&')?, b'&', b';')?;
    let by_number = |number: &str| {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => number.parse(),
        };
        code.ok().and_then(char::from_u32)
    };
    let by_name = || ENTITIES.iter().find(|(n, _)| *n == name).map(|(_, c)| *c);
    let found = name.strip_prefix('#').map_or_else(by_name, by_number)?;
    Some((found, name.len() + 2))
}

/// Puts the quotation marks, dashes and blanks of ASCII in, which word processors and chats replace.
fn in_ascii(text: &str) -> Option<String> {
    let plain = |c: char| match c {
        '\u{201c}'..='\u{201f}' | '\u{2033}' => '"',
        '\u{2018}'..='\u{201b}' | '\u{2032}' => '\'',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2007}' | '\u{202f}' => ' ',
        c => c,
    };
    let is_other = |c: char| !c.is_ascii() && plain(c) != c || is_nothing(c);
    text.contains(is_other).then(|| {
        text.chars()
            .filter(|c| !is_nothing(*c))
            .map(plain)
            .collect()
    })
}

/// Puts quotation marks in where somebody wrote apostrophes around the name of a volume, and takes out the escapes that Markdown has
/// before `<` and `>`.
fn quoted(text: &str) -> Option<String> {
    const FRONT: &str = " failed for volume '";
    let has_escape = text.contains("\\<");
    if !has_escape && !text.contains(FRONT) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(FRONT) {
        out.push_str(before);
        let line = after.split('\n').next().unwrap_or(after);
        if let Some((name, _)) = line.split_once('\'') {
            out.push_str(&FRONT.replace('\'', "\""));
            out.push_str(name);
            out.push('"');
            rest = after.get(name.len() + 1..).unwrap_or_default();
        } else {
            out.push_str(FRONT);
            rest = after;
        }
    }
    out.push_str(rest);
    Some(if has_escape {
        out.replace("\\<", "<").replace("\\>", ">")
    } else {
        out
    })
}

/// Characters that take no room.
const fn is_nothing(c: char) -> bool {
    matches!(
        c,
        '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{ad}'
    )
}

/// Takes out what stands before each of several lines: a number that counts (`12:`), and a file's name (`out.txt:12:`, `out.txt:`).
fn unnumbered(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let mut found = false;
    while let Some(line) = lines.get(at) {
        let run = numbered(lines.get(at..)?);
        if run.len() < NUMBERED {
            out.push_str(line);
            out.push('\n');
            at += 1;
            continue;
        }
        found = true;
        for rest in &run {
            out.push_str(rest);
            out.push('\n');
        }
        at += run.len();
    }
    found.then_some(out)
}

/// Returns the first lines as far as each has the same name and a greater number before it, without these.
fn numbered<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut out = Vec::new();
    let mut last: Option<(&str, u32)> = None;
    for line in lines {
        let Some((name, number, rest)) = front(line) else {
            break;
        };
        let goes_on = match (last, number) {
            (None, _) => true,
            (Some((before, _)), None) => before == name,
            // `grep` leaves lines out; nothing else does.
            (Some((before, n)), Some(number)) => {
                before == name && (number == n + 1 || !name.is_empty() && number > n)
            }
        };
        if !goes_on {
            break;
        }
        last = Some((name, number.unwrap_or_default()));
        out.push(rest);
    }
    out
}

/// Splits `out.txt:12:rest`, `out.txt:rest`, `12: rest` and `  12  rest`.
fn front(line: &str) -> Option<(&str, Option<u32>, &str)> {
    let number = |text: &str| text.parse::<u32>().ok();
    let is_file = |name: &str| {
        let of_name = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        (name.starts_with(['/', '.'])
            || [".log", ".txt", ".out"]
                .iter()
                .any(|end| name.ends_with(end)))
            && name.chars().all(of_name)
    };
    if let Some((name, rest)) = line.split_once(':')
        && is_file(name)
    {
        let numbered = rest
            .split_once(':')
            .and_then(|(n, rest)| Some((number(n)?, rest)));
        return Some(numbered.map_or((name, None, rest), |(n, rest)| (name, Some(n), rest)));
    }
    let text = line.trim_start();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, rest) = text.split_at_checked(digits)?;
    let rest = match rest.strip_prefix([':', '.', '|']) {
        // `10:42:01` is a time.
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => return None,
        Some(rest) => rest.strip_prefix(' ').unwrap_or(rest),
        None => rest
            .strip_prefix("  ")
            .or_else(|| rest.strip_prefix('\t'))
            .or_else(|| rest.strip_prefix(' '))?,
    };
    Some(("", Some(number(digits)?), rest))
}

/// Takes out the sign before each of several lines that a change has added.
fn unadded(text: &str) -> Option<String> {
    let is_added = |line: &&&str| line.starts_with('+') && !line.starts_with("+++");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(rest) = lines.get(at..).filter(|rest| !rest.is_empty()) {
        let run = rest.iter().take_while(is_added).count();
        let sign = usize::from(run >= NUMBERED);
        let run = run.max(1);
        for line in rest.iter().take(run) {
            out.push_str(line.get(sign..).unwrap_or_default());
        }
        at += run;
    }
    (out != text).then_some(out)
}

/// Takes the lines of a table out that is drawn with `|`, as Markdown has it, and a `|` before each line.
fn undrawn(text: &str) -> Option<String> {
    let is_drawn = |line: &str| line.trim_start().starts_with('|');
    let lines: Vec<&str> = text.lines().collect();
    // A single one is a line of something else.
    let is_framed = lines.windows(2).any(|two| two.iter().all(|l| is_drawn(l)));
    // Markdown needs no line at the sides: then the ruler tells.
    if !is_framed && !lines.iter().any(|l| is_ruler(l)) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut is_table = false;
    for (at, line) in lines.iter().enumerate() {
        let next = lines.get(at + 1).copied().unwrap_or_default();
        is_table = line.contains('|') && (is_table || is_ruler(next));
        // It is a line of no table that kubectl prints.
        if is_ruler(line) {
            continue;
        }
        match line.trim().strip_prefix('|') {
            Some(inside) if is_framed => match inside.strip_suffix('|') {
                Some(inside) => out.push_str(&cells(inside)),
                // The last row may be cut.
                None if is_table => out.push_str(&cells(inside)),
                None => out.push_str(inside.strip_prefix(' ').unwrap_or(inside)),
            },
            _ if is_table => out.push_str(&cells(line)),
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    (out != text).then_some(out)
}

/// `|--|:-:|`, `+----+----+`
fn is_ruler(line: &str) -> bool {
    let has = |c: char| line.contains(c);
    has('-') && (has('|') || has('+')) && line.trim().chars().all(|c| "|+-:= ".contains(c))
}

/// The cells of a row that is drawn, without the marks of code around one.
fn cells(row: &str) -> String {
    let cell = |cell: &str| {
        let cell = cell.trim();
        let code = cell.strip_prefix('`').and_then(|c| c.strip_suffix('`'));
        code.unwrap_or(cell).to_owned()
    };
    let row = row.trim().trim_matches('|');
    row.split('|').map(cell).collect::<Vec<_>>().join("   ")
}

/// Makes a code block of code of several lines that has the mark of one in a sentence (`` `NAME   STATUS … ``).
fn ticked(text: &str) -> Option<String> {
    const MARK: char = '`';
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let has_one = |line: &&str| line.matches(MARK).count() == 1;
    let mut out = String::with_capacity(text.len());
    // The line in which the code that is open ends.
    let mut last = None;
    for (at, line) in lines.iter().enumerate() {
        let begin = line
            .trim_start()
            .strip_prefix(MARK)
            .filter(|_| last.is_none() && has_one(line));
        if let Some(code) = begin {
            let mut rest = lines.iter().enumerate().skip(at + 1);
            let end = rest.find(|(_, line)| line.contains(MARK));
            last = end.filter(|(_, l)| has_one(l) && l.trim_end().ends_with(MARK));
            if last.is_some() {
                out += &[FENCE, "\n", code].concat();
                continue;
            }
        }
        if last.is_some_and(|(end, _)| end == at) {
            let code = line.trim_end().trim_end_matches(MARK);
            out += &[code, "\n", FENCE, "\n"].concat();
            last = None;
        } else {
            out.push_str(line);
        }
    }
    (out != text).then_some(out)
}

/// Puts the marks of a code block into lines of their own, all as Markdown has them.
fn fenced(text: &str) -> Option<String> {
    if !text.contains(FENCE) && !BLOCKS.iter().any(|(name, ..)| text.contains(name)) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end();
        let end = line.get(content.len()..).unwrap_or_default();
        let (begin, content) = match content.trim_start().strip_prefix(FENCE) {
            // A word behind it names a language.
            Some(code) if code.trim().contains(' ') && !code.starts_with('`') => (true, code),
            Some(_) => (false, content),
            None => begins_block(content).map_or((false, content), |code| (true, code)),
        };
        let (content, ends) = match content.strip_suffix(FENCE) {
            Some(code) if !code.trim().is_empty() && !code.contains(FENCE) => (code, true),
            Some(_) => (content, false),
            None => ends_block(content).map_or((content, false), |code| (code, true)),
        };
        let is_said = !content.trim().is_empty() || !(begin || ends);
        for (is_there, part) in [(begin, FENCE), (is_said, content), (ends, FENCE)] {
            if is_there {
                out.push_str(part);
                out.push('\n');
            }
        }
        if end.is_empty() {
            out.pop();
        }
    }
    (out != text).then_some(out)
}

/// Reads a mark of [`BLOCKS`]: what stands behind it.
fn block(text: &str) -> Option<&str> {
    BLOCKS.iter().find_map(|(name, sign, end)| {
        let (language, behind) = text.strip_prefix(name)?.split_once(*end)?;
        let is_mark = language.is_empty() || language.starts_with(*sign);
        (is_mark && !language.contains(' ')).then_some(behind)
    })
}

fn begins_block(line: &str) -> Option<&str> {
    block(line.trim_start())
}

fn ends_block(line: &str) -> Option<&str> {
    let (code, mark) = line.split_at_checked(line.rfind(['{', '['])?)?;
    block(mark).filter(|rest| rest.is_empty()).map(|_| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str =
        "  Warning  Failed  8s (x4 over 93s)  kubelet  Error: secret \"db\" not found\n";

    #[test]
    fn marks_of_others_are_taken_out() {
        let of_lines = |line: fn((usize, &str)) -> String| {
            let lines = ROW.repeat(4);
            (
                lines
                    .lines()
                    .enumerate()
                    .map(line)
                    .collect::<Vec<_>>()
                    .join("\n")
                    + "\n",
                lines,
            )
        };
        let of_row = |from: &str, to: &str| (ROW.replace(from, to), ROW.to_owned());
        for (text, want) in [
            of_row("Warning", "\u{1b}[33mWarning\u{1b}[0m"),
            of_row("Warning", "\u{1b}[1;33mWarning\u{1b}[m"),
            of_row("Warning", "^[[33mWarning^[[0m"),
            of_row("Warning", "#033[33mWarning#033[0m"),
            of_row("Warning", "[1;33mWarning[0m"),
            of_row("Warning", "**Warning**"),
            of_row("Warning", "<b>Warning</b>"),
            of_row("\"", "&quot;"),
            of_row("\"", "&#34;"),
            of_row("\"", "&#x22;"),
            (
                ROW.replacen('"', "\u{201c}", 1)
                    .replacen('"', "\u{201d}", 1),
                ROW.to_owned(),
            ),
            of_row("  ", "\u{a0} "),
            of_row("Warning", "\u{200b}Warning"),
            of_row("\n", "<br/>"),
            (
                format!("<pre class=\"x\"><code>{ROW}</code></pre>"),
                format!("\n```\n{ROW}\n```\n"),
            ),
            (
                format!("{{code:bash}}\n{ROW}{{code}}\n"),
                format!("```\n{ROW}```\n"),
            ),
            (
                format!("{{noformat}}{}{{noformat}}\n", ROW.trim_end()),
                format!("```\n{ROW}```\n"),
            ),
            (format!("[code]\n{ROW}[/code]"), format!("```\n{ROW}```")),
            of_lines(|(n, line)| format!("{:4}  {line}", n + 7)),
            of_lines(|(n, line)| format!("{}: {line}", n + 9)),
            of_lines(|(n, line)| format!("out.txt:{}:{line}", 3 * n + 1)),
            of_lines(|(_, line)| format!("/var/log/x:{line}")),
            of_lines(|(_, line)| format!("| {line}")),
            of_lines(|(_, line)| format!("`{line}`")),
            (format!("```{ROW}```\n"), format!("```\n{ROW}```\n")),
            // Minikube 12944, kubernetes-retired/dashboard 7541, openshift/origin 19174.
            (
                "kubelet  F**ailed to pull image \"selenium/hub\": x509: unknown authority**\n".to_owned(),
                "kubelet  Failed to pull image \"selenium/hub\": x509: unknown authority\n".to_owned(),
            ),
            (
                "calico-6c79   0/1   CrashLoopBackOff   32 (60s ago)    38m**\n".to_owned(),
                "calico-6c79   0/1   CrashLoopBackOff   32 (60s ago)    38m\n".to_owned(),
            ),
            (
                "**oc describe pod router-1-deploy \n 31m  a **b** \"c\" does not exist**.\n".to_owned(),
                "oc describe pod router-1-deploy \n 31m  a b \"c\" does not exist.\n".to_owned(),
            ),
            (
                "due to _UnmountVolume.TearDown failed for volume_ with *target is busy*, __8d__\n".to_owned(),
                "due to UnmountVolume.TearDown failed for volume with target is busy, 8d\n".to_owned(),
            ),
            // SupportArticles, fail-to-mount-azure-disk-volume and fail-to-mount-azure-file-share.
            (
                "MountVolume.SetUp failed for volume '<PV/disk-name>': applyFSGroup failed for vol 'a'\n".to_owned(),
                "MountVolume.SetUp failed for volume \"<PV/disk-name>\": applyFSGroup failed for vol 'a'\n".to_owned(),
            ),
            (
                "MountVolume.MountDevice failed for volume \"\\<pv-fileshare-name>\"\n".to_owned(),
                "MountVolume.MountDevice failed for volume \"<pv-fileshare-name>\"\n".to_owned(),
            ),
            // K3s 2350, and the same without lines at the sides.
            (
                "| NAME |    READY |  STATUS  | AGE|\n|--|:-:|--|--|\n|local-4hvf2 |  0/1  |   `Pending` |     18m|\n\n".to_owned(),
                "NAME   READY   STATUS   AGE\nlocal-4hvf2   0/1   Pending   18m\n\n".to_owned(),
            ),
            (
                "NAME | READY | AGE\n-- | -- | --\nweb-0 | 0/1 | 18m\nnot a | b\n\na | b\n".to_owned(),
                "NAME   READY   AGE\nweb-0   0/1   18m\nnot a   b\n\na | b\n".to_owned(),
            ),
            (
                format!("```{}```\n", ROW.trim_end()),
                format!("```\n{ROW}```\n"),
            ),
            // Nfs-subdir-external-provisioner 62.
            (
                "I get:\n`NAME   STATUS    AGE\nnfs    Pending   7m53s`\n\nWhy?\n".to_owned(),
                "I get:\n```\nNAME   STATUS    AGE\nnfs    Pending   7m53s\n```\n\nWhy?\n".to_owned(),
            ),
        ] {
            let got = plain(&text, |_| true).unwrap_or_default();
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn what_is_printed_so_stays() {
        for text in [
            ROW,
            "Node:  <none>\nIP:  <unknown>\nA <set to the key 'x' of config map 'y'> Optional: false\n",
            "rate(x[5m]) and [10m] are lengths\n",
            "10:42:01 a\n11:42:01 b\n12:42:01 c\n13:42:01 d\n",
            "msg=\"a\\nb\\nc\\nd\"\n",
            "glob /var/**/x.log and **/y, 2**10, 10.1.**.** and web-**\n",
            "failed to list *v1.Node: x, */5 * * * *, web-0_shop(a) and _netdev\n * a\n * b\n",
            "1  web-0\n5  web-1\n9  web-2\n",
            "a & b; c &d; AT&T;\n",
            "a | b\n| c\n",
            "```yaml\na: b\n```\n",
            "use ```a b``` here\n",
            "`a\nb` and c\n`a` and `b\n",
            "GET /{code} and {codec}, see [code] and [codes]\n",
            "",
        ] {
            assert_eq!(plain(text, |_| true), None, "{text}");
        }
    }

    /// Recorded texts of kubectl, of components and of runtimes.
    #[test]
    fn recorded_texts_stay() {
        let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        let mut read = 0;
        for folder in ["kubectl", "klog", "crio", "runtime", "journal"] {
            for entry in std::fs::read_dir(fixtures.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                let is_document = path
                    .extension()
                    .is_some_and(|e| e == "json" || e == "jsonl");
                let Ok(text) = std::fs::read_to_string(&path) else {
                    continue;
                };
                if !is_document {
                    read += 1;
                    assert_eq!(plain(&text, |_| true), None, "{}", path.display());
                }
            }
        }
        assert!(read > 30, "{read}");
    }

    #[test]
    fn a_text_in_a_string_is_taken_out_if_it_says_something() {
        let text = "\"message\": \"Events:\\n  Warning  Failed\\tx\\n\"";
        let of_rows = |text: &str| text.lines().any(|l| l.trim().starts_with("Warning"));
        assert!(of_rows(&plain(text, of_rows).unwrap()));
        assert_eq!(plain(text, |_| true), None);
        assert_eq!(plain(text, |_| false), None);
    }
}
