//! Where a message ends: one that stands within a sentence, and one that goes on in further lines.

use super::age::word;
use super::wrapped::is_member;

/// A sign of Chinese, Japanese or Korean, punctuation and signs of full width among them.
pub(super) const fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}')
}

/// Signs that enclose a message in a sentence.
const ENCLOSED: [(char, char); 4] = [('\u{300c}', '\u{300d}'), ('(', ')'), ('`', '`'), ('"', '"')];
/// Words with which a sentence begins that is no part of a message.
const PROSE: [&str; 30] = [
    "We", "I", "I'm", "I've", "It", "It's", "They", "He", "She", "You", "My", "Our", "This",
    "That", "These", "There", "So", "But", "And", "Then", "Also", "Any", "Anyone", "How", "What",
    "Why", "Does", "After", "When", "As",
];

/// With what lines begin that are no begin of a message, and with what messages end of which more has to come: kind, words.
const CONTINUED: &str = include_str!("continued.tsv");

/// Returns the words of a kind in [`CONTINUED`].
fn words_of(kind: &str) -> impl Iterator<Item = &str> {
    let rows = CONTINUED.lines().filter(|l| !l.starts_with('#'));
    rows.filter_map(move |row| {
        let (of, words) = row.split_once('\t')?;
        (of == kind).then_some(words)
    })
}

/// True for a line that can only be the next one of a message that stands outside of a table.
pub(super) fn is_next(message: &str, line: &str, after_blank: bool) -> bool {
    let line = line.trim();
    let begins = |kind: &str| words_of(kind).any(|begin| line.starts_with(begin));
    // fsck puts the device before each line.
    let (first, _) = word(line);
    let device = first.trim_end_matches(':');
    let of_device = device.starts_with("/dev/") && message.contains(device);
    let is_in_json = || message.matches('{').count() > message.matches('}').count();
    let of_json = || (line.starts_with('}') || is_member(line)) && is_in_json();
    let of_program = || message.contains("Output: ") && begins("output");
    of_device || !after_blank && (begins("status") || begins("line") || of_json() || of_program())
}

/// True for a message that ends where more of it has to come.
pub(super) fn is_open(message: &str) -> bool {
    message.trim_end().ends_with([':', '=', '{']) || is_cut(message)
}

/// True for a message that somebody broke where it has no line feed.
fn is_cut(message: &str) -> bool {
    let message = message.trim_end();
    let of_list =
        || message.ends_with(',') && words_of("list").any(|begin| message.contains(begin));
    words_of("open").any(|end| message.ends_with(end)) || of_list()
}

/// Adds a line to a message: behind a blank if the line break is not the message's own (a gRPC status has none), else behind
/// a line feed.
pub(super) fn append(message: &mut String, line: &str) {
    let line = line.trim();
    let is_broken = is_cut(message) || words_of("status").any(|begin| line.starts_with(begin));
    if is_broken {
        message.truncate(message.trim_end().len());
    }
    message.push(if is_broken { ' ' } else { '\n' });
    message.push_str(line);
}

/// Returns a message without the sentence that goes on behind it. `before`: what stands before it in the line.
pub(super) fn up_to_prose<'a>(before: &str, message: &'a str) -> &'a str {
    let mut message = message;
    let last = before.trim_end().chars().next_back();
    let signs = last.and_then(|last| ENCLOSED.iter().find(|(begin, _)| *begin == last));
    if let Some((begin, end)) = signs.filter(|_| !before.ends_with(' ')) {
        message = enclosed(message, *begin, *end);
    }
    if before.contains(is_ideograph) {
        message = message.split(is_ideograph).next().unwrap_or(message);
    }
    // A row and a log have only names and times before the message.
    let has_prose = before
        .split_whitespace()
        .filter(|w| w.bytes().all(|b| b.is_ascii_lowercase()));
    if has_prose.count() < 2 {
        return message;
    }
    let mut ends = message.match_indices(". ").filter(|(at, _)| {
        let (first, _) = word(message.get(at + 2..).unwrap_or_default());
        PROSE.contains(&first.trim_end_matches(','))
    });
    let end = ends.next().map_or(message.len(), |(at, _)| at);
    message.get(..end).unwrap_or(message)
}

/// Returns a text up to the sign that ends it; such pairs may be within it.
fn enclosed(text: &str, begin: char, end: char) -> &str {
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let after = text.get(at + c.len_utf8()..).and_then(|t| t.chars().next());
        let opens = begin != end || before.is_whitespace() || "([{=:/,".contains(before);
        if c == begin && opens && after.is_some_and(|c| !c.is_whitespace()) {
            depth += 1;
        } else if c == end && depth > 0 {
            depth -= 1;
        } else if c == end {
            return text.get(..at).unwrap_or(text);
        }
        before = c;
    }
    text
}
