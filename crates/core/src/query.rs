//! What users type to find something, in the terminal and on the command line: the expression language that filters
//! pods, calls and observations, and moments of a session.
//!
//! ```text
//! method:RunPodSandbox dur>2s !ok pod:web*        terms next to each other must all hold
//! (source:cri | source:kubelet) msg~"no such"     | is or, ! or - is not, parentheses group
//! code:/Not(Found|Ready)/                         regular expression
//! ```
//!
//! `field:value` matches a whole value without regard to case, with `*` and `?`; `field~value` matches a part of it;
//! `=`, `!=`, `<`, `<=`, `>`, `>=` compare numbers (durations and sizes as [`kflow_model::units`] reads them: `250ms`,
//! `1m30s`; `64KiB`, `16M`). A single word is searched for in all fields. Pure.

mod complete;
pub mod docs;
mod field;
mod moment;
mod parse;
mod record;

pub use complete::{Candidate, complete, explain};
pub use field::{FIELDS, FLAGS, Field, Flag, NUMBERS, Number};
pub use moment::{FORMS, Moment, lasted_in};
pub use parse::{QueryError, parse};
pub use record::{CallRecord, OwnerRecord, PodRecord, Record};

use crate::suggest::suggest;
use kflow_model::scope::is_uid;
use regex::{Regex, RegexBuilder};
use std::fmt;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `:` matches the whole value, with wildcards.
    Is,
    /// `~` matches a part of the value.
    Contains,
    /// `:/…/` is a regular expression.
    Regex,
}

/// A text pattern, ready to be matched.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    op: Op,
    compiled: Compiled,
}

#[derive(Clone, Debug)]
enum Compiled {
    Equal,
    Regex(Regex),
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.op == other.op
    }
}

impl Pattern {
    /// Compiles a pattern. The error says why a regular expression is refused: it is invalid, or too large.
    pub fn new(text: &str, op: Op) -> Result<Self, String> {
        let source = match op {
            Op::Is if !text.contains(['*', '?']) => None,
            Op::Is => {
                let mut re = String::from("^");
                for c in text.chars() {
                    match c {
                        '*' => re.push_str(".*"),
                        '?' => re.push('.'),
                        c => re.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
                    }
                }
                re.push('$');
                Some(re)
            }
            Op::Contains => Some(regex::escape(text)),
            Op::Regex => Some(text.to_owned()),
        };
        let compiled = match source {
            None => Compiled::Equal,
            Some(s) => Compiled::Regex(
                RegexBuilder::new(&s)
                    .case_insensitive(true)
                    .dot_matches_new_line(true)
                    .size_limit(1 << 20)
                    .build()
                    .map_err(|e| match e {
                        regex::Error::CompiledTooBig(_) => "is too large a pattern".to_owned(),
                        _ => "is not a regular expression".to_owned(),
                    })?,
            ),
        };
        Ok(Self {
            text: text.to_owned(),
            op,
            compiled,
        })
    }
    pub fn matches(&self, value: &str) -> bool {
        match &self.compiled {
            Compiled::Equal => value.eq_ignore_ascii_case(&self.text),
            Compiled::Regex(r) => r.is_match(value),
        }
    }
    /// Appends the byte ranges of `text` that the pattern finds. A pattern for a whole value with wildcards has none.
    fn parts(&self, text: &str, out: &mut Vec<Range<usize>>) {
        match &self.compiled {
            Compiled::Regex(_) if self.op == Op::Is => {}
            Compiled::Regex(r) => out.extend(r.find_iter(text).map(|m| m.range())),
            Compiled::Equal if self.text.is_empty() => {}
            Compiled::Equal => {
                // ASCII case folding keeps the byte positions.
                let (text, part) = (text.to_ascii_lowercase(), self.text.to_ascii_lowercase());
                let found = text.match_indices(&part);
                out.extend(found.map(|(at, m)| at..at + m.len()));
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Cmp {
    const fn text(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }
    const fn holds(self, a: i64, b: i64) -> bool {
        match self {
            Self::Eq => a == b,
            Self::Ne => a != b,
            Self::Lt => a < b,
            Self::Le => a <= b,
            Self::Gt => a > b,
            Self::Ge => a >= b,
        }
    }
}

/// A parsed expression.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Query {
    /// Matches everything: the empty expression.
    #[default]
    All,
    /// Matches if all of these do.
    And(Vec<Query>),
    /// Matches if any of these does.
    Or(Vec<Query>),
    /// Matches if this does not.
    Not(Box<Query>),
    Text(Field, Pattern),
    Number(Number, Cmp, i64),
    Flag(Flag),
    /// A word, searched for in all fields.
    Word(Pattern),
}

impl Query {
    pub fn matches(&self, r: &dyn Record) -> bool {
        match self {
            Self::All => true,
            Self::And(v) => v.iter().all(|q| q.matches(r)),
            Self::Or(v) => v.iter().any(|q| q.matches(r)),
            Self::Not(q) => !q.matches(r),
            Self::Text(f, p) => {
                values(r, *f, &mut |t| p.matches(t))
                    || *f == Field::Pod
                        && p.op == Op::Is
                        && is_uid(&p.text)
                        && r.text(Field::Id, &mut |t| p.matches(t))
            }
            Self::Number(n, c, v) => r.number(*n).is_some_and(|x| c.holds(x, *v)),
            Self::Flag(f) => r.flag(*f),
            Self::Word(p) => FIELDS
                .iter()
                .any(|(f, _, _)| r.text(*f, &mut |t| p.matches(t))),
        }
    }
    /// Appends the byte ranges of `text` that the terms find, for highlighting, whichever field a term is about.
    pub fn parts(&self, text: &str, out: &mut Vec<Range<usize>>) {
        match self {
            Self::All | Self::Not(_) | Self::Number(..) | Self::Flag(_) => {}
            Self::And(v) | Self::Or(v) => v.iter().for_each(|q| q.parts(text, out)),
            Self::Text(_, p) | Self::Word(p) => p.parts(text, out),
        }
    }
    /// Calls `f` with every term, in order.
    fn each<'q>(&'q self, f: &mut dyn FnMut(&'q Self)) {
        match self {
            Self::And(v) | Self::Or(v) => v.iter().for_each(|q| q.each(f)),
            Self::Not(q) => q.each(f),
            term => f(term),
        }
    }
    /// Returns the name of the first field or number in the expression that is not among these, because the records
    /// lack it.
    pub fn foreign(&self, fields: &[Field], numbers: &[Number]) -> Option<&'static str> {
        let mut first = None;
        self.each(&mut |term| {
            let name = match term {
                Self::Text(f, _) if !fields.contains(f) => f.name(),
                Self::Number(n, ..) if !numbers.contains(n) => n.name(),
                _ => return,
            };
            first.get_or_insert(name);
        });
        first
    }
    /// Returns the values that the expression compares a field with by `:`, without wildcards.
    pub fn exact(&self, field: Field) -> Vec<&str> {
        let mut all = Vec::new();
        self.each(&mut |term| {
            if let Self::Text(f, p) = term
                && *f == field
                && p.op == Op::Is
                && matches!(p.compiled, Compiled::Equal)
            {
                all.push(p.text.as_str());
            }
        });
        all
    }
    /// Returns why the expression may hold for none of these records: a value that no record's field has, with similar
    /// ones, or a word that is text where a flag may be meant.
    pub fn unmet<'r>(
        &self,
        thing: &str,
        records: impl Iterator<Item = &'r dyn Record> + Clone,
    ) -> Option<String> {
        let mut first = None;
        self.each(&mut |term| {
            if first.is_some() {
                return;
            }
            first = match term {
                Self::Text(field, p) if matches!(p.compiled, Compiled::Equal) => {
                    unmet(*field, &p.text, term, thing, records.clone())
                }
                Self::Word(p) if AS_IN_FLIGHT.contains(&p.text.to_ascii_lowercase().as_str()) => {
                    Some(format!(
                        "{} is searched for in texts; inflight is what has not ended",
                        p.text
                    ))
                }
                _ => None,
            };
        });
        first
    }
    /// True if it may depend on a pod's verdict whether the expression holds for the pod.
    pub fn asks_for_verdicts(&self) -> bool {
        let mut asks = false;
        self.each(&mut |term| {
            asks |= match term {
                Self::Text(field, _) => matches!(field, Field::Reason | Field::Message),
                Self::Flag(flag) => matches!(flag, Flag::Error | Flag::Warning),
                Self::Word(_) => true,
                _ => false,
            }
        });
        asks
    }
    /// Returns true if the expression has this word.
    pub fn has(&self, flag: Flag) -> bool {
        let mut found = false;
        self.each(&mut |term| found |= matches!(term, Self::Flag(f) if *f == flag));
        found
    }
    /// True for the empty expression, which matches everything.
    pub const fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }
}

/// Words that may be meant for [`Flag::InFlight`].
const AS_IN_FLIGHT: [&str; 6] = [
    "flying",
    "hanging",
    "open",
    "pending",
    "running",
    "unfinished",
];

/// The most values of a field that are listed.
const LISTED: usize = 8;

/// Says that no record's field has a value, with similar ones; `None` when one has.
fn unmet<'r>(
    field: Field,
    value: &str,
    term: &Query,
    thing: &str,
    records: impl Iterator<Item = &'r dyn Record>,
) -> Option<String> {
    let mut known = std::collections::BTreeSet::new();
    for r in records {
        if term.matches(r) {
            return None;
        }
        values(r, field, &mut |t| {
            if !known.contains(t) {
                known.insert(t.to_owned());
            }
            false
        });
    }
    let name = field.name();
    let near = suggest(value, known.iter(), last);
    let qualified = |t: &&&String| field != Field::Pod || t.contains('/');
    let near: Vec<&str> = near.iter().filter(qualified).map(|t| t.as_str()).collect();
    Some(match (near.as_slice(), known.len()) {
        ([], 0) => format!("no {thing} has the field {name}"),
        ([], 1..=LISTED) => {
            let all: Vec<&str> = known.iter().map(String::as_str).collect();
            format!("no {thing} has {name}:{value}, but {}", all.join(", "))
        }
        ([], _) => format!("no {thing} has {name}:{value}"),
        (near, _) => format!(
            "no {thing} has {name}:{value}: did you mean {}?",
            near.join(", ")
        ),
    })
}

/// Calls `f` with each value that `field:` compares, until it returns true, and returns whether it did.
fn values(r: &dyn Record, field: Field, f: &mut dyn FnMut(&str) -> bool) -> bool {
    r.text(field, f) || field == Field::Reason && r.reasons(f)
}

/// The name of `ns/name`.
fn last(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

fn quoted(f: &mut fmt::Formatter<'_>, p: &Pattern) -> fmt::Result {
    if p.op == Op::Regex {
        return write!(f, "/{}/", p.text.replace('/', "\\/"));
    }
    let plain = !p.text.is_empty()
        && p.text
            .chars()
            .all(|c| c.is_alphanumeric() || "._*?@%+,-".contains(c))
        && !p.text.starts_with('-');
    if plain {
        f.write_str(&p.text)
    } else {
        write!(
            f,
            "\"{}\"",
            p.text.replace('\\', "\\\\").replace('"', "\\\"")
        )
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => Ok(()),
            Self::And(v) => {
                for (i, q) in v.iter().enumerate() {
                    if i > 0 {
                        f.write_str(" ")?;
                    }
                    match q {
                        Self::Or(_) | Self::And(_) => write!(f, "({q})")?,
                        _ => write!(f, "{q}")?,
                    }
                }
                Ok(())
            }
            Self::Or(v) => {
                for (i, q) in v.iter().enumerate() {
                    if i > 0 {
                        f.write_str(" | ")?;
                    }
                    match q {
                        Self::Or(_) => write!(f, "({q})")?,
                        _ => write!(f, "{q}")?,
                    }
                }
                Ok(())
            }
            Self::Not(q) => match &**q {
                Self::And(_) | Self::Or(_) => write!(f, "!({q})"),
                q => write!(f, "!{q}"),
            },
            Self::Text(field, p) => {
                let sign = if p.op == Op::Contains { "~" } else { ":" };
                write!(f, "{}{sign}", field.name())?;
                quoted(f, p)
            }
            Self::Number(n, c, v) => {
                write!(f, "{}{}", n.name(), c.text())?;
                if n.is_time() {
                    write!(f, "{v}ns")
                } else {
                    write!(f, "{v}")
                }
            }
            Self::Flag(flag) => f.write_str(flag.name()),
            Self::Word(p) => {
                // Quoted, because a bare word would be read as a flag or an operator.
                if p.op == Op::Contains && parse::is_reserved(&p.text) {
                    write!(f, "\"{}\"", p.text)
                } else {
                    quoted(f, p)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
