//! Marks of bold, italics and code in Markdown.

use std::borrow::Cow;

/// Marks of bold and of italics in Markdown.
const MARKS: [&str; 4] = ["**", "__", "*", "_"];
/// Longest text in italics, characters: `*` and `_` alone stand in names and types too.
const ITALICS: usize = 80;

/// Takes Markdown's marks of bold and of italics out, and those of code around a whole line.
pub(super) fn unmarked(text: &str) -> Option<String> {
    let of_code = |line: &str| {
        let inside = line
            .trim()
            .strip_prefix('`')
            .and_then(|l| l.strip_suffix('`'));
        inside.is_some_and(|l| !l.is_empty() && !l.contains('`'))
    };
    if !text.contains(['*', '_']) && !text.lines().any(of_code) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut line = if of_code(line) {
            Cow::Owned(line.replace('`', ""))
        } else {
            Cow::Borrowed(line)
        };
        for mark in MARKS {
            if let Some(without) = without(mark, &line) {
                line = Cow::Owned(without);
            }
        }
        out.push_str(&line);
    }
    (out != text).then_some(out)
}

/// What a mark of emphasis may be at its place: one that begins, one that ends, or both.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: usize,
    begins: bool,
    ends: bool,
    /// True at the begin of a word, or at its end.
    is_outside: bool,
}

impl Mark {
    /// `None` for what is no emphasis: a pattern of paths (`/var/**/x`), a power, blanks at both sides, a part of a longer run.
    fn new(mark: &str, line: &str, at: usize) -> Option<Self> {
        let sign = mark.chars().next()?;
        let before = line.get(..at)?.chars().next_back();
        let after = line.get(at + mark.len()..)?.chars().next();
        let is_other = |c: Option<char>| c.is_some_and(|c| c == '/' || c == sign);
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        if is_other(before) || is_other(after) || is_digit(before) && is_digit(after) {
            return None;
        }
        let is_of_text = |c: char, more: &str| c.is_alphanumeric() || more.contains(c);
        let is_apart =
            |c: Option<char>, more: &str| c.is_none_or(|c| c.is_whitespace() || more.contains(c));
        let starts = after.is_some_and(|c| is_of_text(c, "\"'`([{<"));
        let stops = before.is_some_and(|c| is_of_text(c, "\"'`)]}>.:!?,"));
        let out = Self {
            at,
            begins: starts && (mark == "**" || is_apart(before, "\"'([{|")),
            ends: stops && (mark == "**" || is_apart(after, "\"')]}|.,;:!?")),
            is_outside: is_apart(before, "\"'([{|") != is_apart(after, "\"')]}|.,;:!?")
                && (starts || before.is_some_and(|c| is_of_text(c, "\"')]}>"))),
        };
        (out.begins || out.ends).then_some(out)
    }

    /// True for a mark of which the other one is in another line.
    fn goes_alone(&self, mark: &str) -> bool {
        mark == "**" && self.is_outside
    }
}

/// Returns a line without the pairs of a mark, and without those that stand alone at the begin or end of a word.
fn without(mark: &str, line: &str) -> Option<String> {
    let all = line.match_indices(mark);
    let all: Vec<Mark> = all
        .filter_map(|(at, _)| Mark::new(mark, line, at))
        .collect();
    let mut gone = Vec::new();
    let mut begun: Option<&Mark> = None;
    for now in &all {
        let is_pair = |begin: &&Mark| {
            let inside = line.get(begin.at..now.at);
            let is_short = || inside.is_some_and(|i| i.chars().count() <= ITALICS);
            now.ends && (mark.len() > 1 || is_short())
        };
        if let Some(begin) = begun.filter(is_pair) {
            gone.extend([begin.at, now.at]);
            begun = None;
            continue;
        }
        gone.extend(begun.filter(|m| m.goes_alone(mark)).map(|m| m.at));
        begun = Some(now).filter(|m| m.begins);
        gone.extend((begun.is_none() && now.goes_alone(mark)).then_some(now.at));
    }
    gone.extend(begun.filter(|m| m.goes_alone(mark)).map(|m| m.at));
    let mut out = String::with_capacity(line.len());
    let mut from = 0;
    for at in &gone {
        out.push_str(line.get(from..*at)?);
        from = at + mark.len();
    }
    out.push_str(line.get(from..)?);
    (!gone.is_empty()).then_some(out)
}
