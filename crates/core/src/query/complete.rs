//! Completion and help while an expression is being typed.

use super::{FIELDS, FLAGS, Field, NUMBERS, Number, QueryError, parse};

/// A proposal: what the last word would become, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The whole text with the proposal in it.
    pub text: String,
    /// The proposal alone.
    pub label: String,
    /// What it means.
    pub help: String,
}

/// Proposals for the end of `text`. `known` gives values of a field that exist (namespaces, methods, …).
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
            // Of reasons those are proposed that there are.
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

/// One line of help for what is being typed: the error, the meaning of the last field, or the forms.
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
