//! Completion and help while the user types an expression.

use super::{FIELDS, FLAGS, Field, NUMBERS, Number, QueryError, parse};

/// A proposal to complete the last word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The whole text with the proposal in its place.
    pub text: String,
    /// The proposal alone.
    pub label: String,
    pub help: String,
}

/// Returns proposals for the end of `text`. `known` returns the existing values of a field (namespaces, methods, …).
pub fn complete(text: &str, known: &dyn Fn(Field) -> Vec<String>) -> Vec<Candidate> {
    let start = text
        .rfind(|c: char| c.is_whitespace() || "()|&".contains(c))
        .map_or(0, |i| {
            i + text
                .get(i..)
                .and_then(|t| t.chars().next())
                .map_or(1, char::len_utf8)
        });
    let (before, word) = text.split_at_checked(start).unwrap_or((text, ""));
    let bare = word.trim_start_matches(['!', '-']);
    let prefix = word.strip_suffix(bare).unwrap_or("");
    let make = |label: String, help: &str| Candidate {
        text: format!("{before}{prefix}{label}"),
        label,
        help: help.to_owned(),
    };
    if let Some((name, value)) = bare.split_once([':', '~']) {
        let Some(field) = Field::parse(name) else {
            return Vec::new();
        };
        let sign = if bare.contains(':') { ':' } else { '~' };
        let mut values = match (field, field.values()) {
            // For `reason:`, the reasons that occur are proposed, not all of the catalogue.
            (Field::Reason, _) | (_, None) => known(field),
            (_, Some(all)) => all.into_iter().map(str::to_owned).collect(),
        };
        values.sort();
        values.dedup();
        let lower = value.to_lowercase();
        return values
            .into_iter()
            .filter(|v| v.to_lowercase().starts_with(&lower) && *v != value)
            .take(20)
            .map(|v| make(format!("{name}{sign}{v}"), field_help(field)))
            .collect();
    }
    if bare.contains(['<', '>', '=', '"', '/']) {
        return Vec::new();
    }
    let lower = bare.to_lowercase();
    let fields = FIELDS.iter().map(|(_, n, h)| (format!("{n}:"), *h));
    let numbers = NUMBERS.iter().map(|(_, n, h)| (format!("{n}>"), *h));
    let flags = FLAGS.iter().map(|(_, n, h)| ((*n).to_owned(), *h));
    fields
        .chain(numbers)
        .chain(flags)
        .filter(|(l, _)| l.starts_with(&lower) && *l != lower)
        .map(|(l, h)| make(l, h))
        .collect()
}

fn field_help(field: Field) -> &'static str {
    FIELDS
        .iter()
        .find(|(f, _, _)| *f == field)
        .map_or("", |(_, _, h)| h)
}

/// Returns one line of help for what is being typed: the meaning of the last field, or the forms of an expression. The
/// error says why the text is no expression.
pub fn explain(text: &str) -> Result<String, QueryError> {
    parse(text)?;
    let word = text
        .rsplit(|c: char| c.is_whitespace() || "()|&".contains(c))
        .next()
        .unwrap_or("")
        .trim_start_matches(['!', '-']);
    let name = word
        .split([':', '~', '<', '>', '=', '!'])
        .next()
        .unwrap_or("");
    if let Some(f) = Field::parse(name) {
        return Ok(format!("{}: {}", f.name(), field_help(f)));
    }
    if let Some(n) = Number::parse(name) {
        let help = NUMBERS
            .iter()
            .find(|(x, _, _)| *x == n)
            .map_or("", |(_, _, h)| h);
        return Ok(format!("{}: {help}", n.name()));
    }
    Ok("field:value  field~part  dur>2s  !ok  a | b  /regex/  \"text\"".to_owned())
}
