//! Parses a text to a [`Query`].

use crate::suggest::suggest;
use kflow_model::units::{UnitError, parse_duration, parse_size};

use super::{Cmp, Field, Flag, Number, Op, Pattern, Query};

/// Deepest nesting of parentheses and negations; more is an error.
const DEEPEST: usize = 64;

/// Why a text is no expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter, column {column}: {why}")]
pub struct QueryError {
    /// Column of the error in characters, from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub why: String,
}

/// True for words that have a meaning of their own: flags and operators.
pub(super) fn is_reserved(word: &str) -> bool {
    Flag::parse(word).is_some() || matches!(word, "and" | "or" | "not" | "AND" | "OR" | "NOT")
}

struct Parser {
    chars: Vec<char>,
    at: usize,
}

/// Parses an expression; the empty text matches everything.
pub fn parse(text: &str) -> Result<Query, QueryError> {
    let mut p = Parser {
        chars: text.chars().collect(),
        at: 0,
    };
    p.space();
    if p.peek().is_none() {
        return Ok(Query::All);
    }
    let q = p.or(0)?;
    p.space();
    match p.peek() {
        None => Ok(q),
        Some(c) => Err(p.wrong(format!("'{c}' has no counterpart"))),
    }
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }
    fn space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }
    fn wrong(&self, why: impl Into<String>) -> QueryError {
        QueryError {
            column: self.at + 1,
            why: why.into(),
        }
    }
    /// Consumes a keyword (`and`, `or`, `not`) that stands alone, and says whether it did.
    fn keyword(&mut self, word: &str) -> bool {
        let end = self.at + word.len();
        let same = self
            .chars
            .get(self.at..end)
            .is_some_and(|w| w.iter().collect::<String>().eq_ignore_ascii_case(word));
        let alone = self
            .chars
            .get(end)
            .is_none_or(|c| c.is_whitespace() || *c == '(');
        if same && alone {
            self.at = end;
        }
        same && alone
    }
    fn or(&mut self, depth: usize) -> Result<Query, QueryError> {
        let mut all = vec![self.and(depth)?];
        loop {
            self.space();
            if self.peek() == Some('|') {
                self.at += 1;
                if self.peek() == Some('|') {
                    self.at += 1;
                }
            } else if !self.keyword("or") {
                break;
            }
            all.push(self.and(depth)?);
        }
        Ok(match all.len() {
            1 => all.pop().unwrap_or_default(),
            _ => Query::Or(all),
        })
    }
    fn and(&mut self, depth: usize) -> Result<Query, QueryError> {
        let mut all = vec![self.not(depth)?];
        loop {
            self.space();
            let before = self.at;
            match self.peek() {
                None | Some(')' | '|') => break,
                Some('&') => {
                    self.at += 1;
                    if self.peek() == Some('&') {
                        self.at += 1;
                    }
                }
                Some(_) => {
                    if self.keyword("or") {
                        self.at = before;
                        break;
                    }
                    self.keyword("and");
                }
            }
            all.push(self.not(depth)?);
        }
        Ok(match all.len() {
            1 => all.pop().unwrap_or_default(),
            _ => Query::And(all),
        })
    }
    fn not(&mut self, depth: usize) -> Result<Query, QueryError> {
        self.space();
        if depth > DEEPEST {
            return Err(self.wrong("this is nested too deeply"));
        }
        if matches!(self.peek(), Some('!' | '-')) {
            self.at += 1;
            return Ok(Query::Not(Box::new(self.not(depth + 1)?)));
        }
        if self.keyword("not") {
            return Ok(Query::Not(Box::new(self.not(depth + 1)?)));
        }
        if self.peek() == Some('(') {
            self.at += 1;
            let q = self.or(depth + 1)?;
            self.space();
            if self.peek() != Some(')') {
                return Err(self.wrong("a ')' is missing"));
            }
            self.at += 1;
            return Ok(q);
        }
        self.term()
    }
    fn term(&mut self) -> Result<Query, QueryError> {
        let start = self.at;
        if self.peek() == Some('"') || self.peek() == Some('/') {
            let (value, op) = self.value()?;
            let op = if op == Op::Is { Op::Contains } else { op };
            return self.pattern(start, &value, op).map(Query::Word);
        }
        let mut name = String::new();
        while let Some(c) = self.peek()
            && !c.is_whitespace()
            && !"()|&:~=!<>\"".contains(c)
        {
            name.push(c);
            self.at += 1;
        }
        let op: String = self
            .chars
            .iter()
            .skip(self.at)
            .take(2)
            .take_while(|c| ":~=!<>".contains(**c))
            .collect();
        let op = match op.as_str() {
            "!=" | "<=" | ">=" => op,
            _ => op.chars().take(1).collect(),
        };
        if op.is_empty() {
            return match name.as_str() {
                "" => Err(match self.peek() {
                    None => self.wrong("something is missing here"),
                    Some(c) => self.wrong(format!("'{c}' is not expected here")),
                }),
                _ if name.eq_ignore_ascii_case("in-flight") => Ok(Query::Flag(Flag::InFlight)),
                _ => match Flag::parse(&name) {
                    Some(f) => Ok(Query::Flag(f)),
                    None => {
                        let op = if name.contains(['*', '?']) {
                            Op::Is
                        } else {
                            Op::Contains
                        };
                        self.pattern(start, &name, op).map(Query::Word)
                    }
                },
            };
        }
        let after_name = self.at;
        self.at += op.chars().count();
        if let Some(number) = Number::parse(&name) {
            let cmp = match op.as_str() {
                "=" | ":" => Cmp::Eq,
                "!=" => Cmp::Ne,
                "<" => Cmp::Lt,
                "<=" => Cmp::Le,
                ">" => Cmp::Gt,
                ">=" => Cmp::Ge,
                _ => {
                    self.at = after_name;
                    return Err(self.wrong(format!(
                        "{} is a number: use <, >, = with it",
                        number.name()
                    )));
                }
            };
            let at = self.at;
            let (value, _) = self.value()?;
            let parsed = if number.is_time() {
                parse_duration(&value)
            } else {
                parse_size(&value)
                    .and_then(|n| i64::try_from(n).map_err(|_| UnitError::Size(value.clone())))
            };
            return parsed.map(|v| Query::Number(number, cmp, v)).map_err(|e| {
                self.at = at;
                self.wrong(format!("{}: {e}", number.name()))
            });
        }
        let Some(field) = Field::parse(&name) else {
            self.at = start;
            let close = nearest(&name);
            return Err(self.wrong(format!("there is no field \"{name}\"{close}")));
        };
        let value_at = self.at;
        let (value, value_op) = self.value()?;
        let (pattern_op, negated) = match (op.as_str(), value_op) {
            (":" | "=" | "~", Op::Regex) => (Op::Regex, false),
            (":" | "=", _) => (Op::Is, false),
            ("~", _) => (Op::Contains, false),
            ("!=", Op::Regex) => (Op::Regex, true),
            ("!=", _) => (Op::Is, true),
            _ => {
                self.at = after_name;
                return Err(self.wrong(format!("{} is text: use : or ~ with it", field.name())));
            }
        };
        let pattern = self.pattern(value_at, &value, pattern_op)?;
        self.possible(value_at, field, &pattern)?;
        let q = Query::Text(field, pattern);
        Ok(if negated { Query::Not(Box::new(q)) } else { q })
    }
    fn pattern(&mut self, start: usize, text: &str, op: Op) -> Result<Pattern, QueryError> {
        Pattern::new(text, op).map_err(|why| {
            self.at = start;
            self.wrong(format!("\"{text}\" {why}"))
        })
    }
    /// Refuses a value that the field never has: a typo would otherwise look like an empty result.
    fn possible(
        &mut self,
        start: usize,
        field: Field,
        pattern: &Pattern,
    ) -> Result<(), QueryError> {
        let value = pattern.text.as_str();
        let Some(all) = field.values().filter(|_| !field.is_open_to(value)) else {
            return Ok(());
        };
        if all.iter().any(|v| pattern.matches(v)) {
            return Ok(());
        }
        self.at = start;
        let near = suggest(value, all.iter().copied(), |v| v);
        let name = field.name();
        Err(self.wrong(match near.as_slice() {
            [] if field == Field::Reason => {
                format!("there is no cause \"{value}\"; `kflow causes` lists them")
            }
            [] => format!(
                "there is no {name} \"{value}\"; there are {}",
                all.join(", ")
            ),
            near => format!(
                "there is no {name} \"{value}\"; did you mean {}?",
                near.join(", ")
            ),
        }))
    }
    /// Reads a value: `"quoted"`, `/regex/`, or all up to a space, a parenthesis, `|`, `&` or a quote.
    fn value(&mut self) -> Result<(String, Op), QueryError> {
        let start = self.at;
        let quote = self.peek().filter(|c| matches!(c, '"' | '/'));
        let mut out = String::new();
        let Some(quote) = quote else {
            while let Some(c) = self.peek()
                && !c.is_whitespace()
                && !"()|&\"".contains(c)
            {
                out.push(c);
                self.at += 1;
            }
            if out.is_empty() {
                return Err(self.wrong("a value is missing"));
            }
            return Ok((out, Op::Is));
        };
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += 1;
            if c == quote {
                let op = if quote == '/' { Op::Regex } else { Op::Is };
                return Ok((out, op));
            }
            if c == '\\' {
                match self.peek() {
                    Some(next) if next == quote || (quote == '"' && next == '\\') => {
                        out.push(next);
                        self.at += 1;
                        continue;
                    }
                    _ => {}
                }
            }
            out.push(c);
        }
        self.at = start;
        Err(self.wrong(format!("the closing {quote} is missing")))
    }
}

fn nearest(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let known = super::FIELDS
        .iter()
        .map(|(_, n, _)| *n)
        .chain(super::NUMBERS.iter().map(|(_, n, _)| *n));
    let alias = match lower.as_str() {
        "namespace" => Some("ns"),
        "message" | "text" => Some("msg"),
        "duration" | "latency" | "time" => Some("dur"),
        "name" => Some("pod"),
        "bytes" => Some("size"),
        _ => known
            .clone()
            .find(|k| !lower.is_empty() && (k.starts_with(&lower) || lower.starts_with(k)))
            .or_else(|| suggest(&lower, known.clone(), |k| k).into_iter().next()),
    };
    match alias {
        Some(a) => format!("; did you mean {a}?"),
        None => format!("; fields are {}", known.collect::<Vec<_>>().join(", ")),
    }
}
