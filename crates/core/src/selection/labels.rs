//! Parses label selectors (`k8s.io/apimachinery/pkg/labels/selector.go`).

use kflow_model::Text;
use serde_json::Value;

/// A requirement on a label's value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    /// `key`
    Exists,
    /// `!key`
    Absent,
    /// `key=a`, `key in (a, b)`
    In(Vec<String>),
    /// `key!=a`, `key notin (a, b)`: also fits without the label.
    NotIn(Vec<String>),
    /// `key>1`
    Greater(i64),
    /// `key<1`
    Less(i64),
}

impl Wanted {
    fn one_of<'v>(values: impl IntoIterator<Item = &'v Value>) -> Self {
        let texts = values.into_iter().filter_map(Value::as_str);
        Self::In(texts.map(str::to_owned).collect())
    }
    /// Reads the operator and values of a requirement. One that the API would refuse fits nothing.
    fn of_json(e: &Value) -> Self {
        let values = e.get("values").and_then(Value::as_array);
        let values = || values.into_iter().flatten();
        let number = || values().next()?.as_str()?.parse().ok();
        let read = match e.get("operator").and_then(Value::as_str) {
            Some("In") => Some(Self::one_of(values())),
            Some("NotIn") => match Self::one_of(values()) {
                Self::In(set) => Some(Self::NotIn(set)),
                _ => None,
            },
            Some("Exists") => Some(Self::Exists),
            Some("DoesNotExist") => Some(Self::Absent),
            Some("Gt") => number().map(Self::Greater),
            Some("Lt") => number().map(Self::Less),
            _ => None,
        };
        read.unwrap_or_else(|| Self::In(Vec::new()))
    }
}

/// Requirements that all have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<(String, Wanted)>);

impl LabelSelector {
    /// Parses a selector as kubectl takes it; `None` for what is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        parse(text).ok()
    }
    /// Reads a selector of an API object: its `matchLabels` and `matchExpressions`.
    pub(crate) fn of_json(selector: &Value) -> Self {
        let pairs = selector.get("matchLabels").and_then(Value::as_object);
        let pair = |(key, value): (&String, &Value)| (key.clone(), Wanted::one_of([value]));
        let mut all: Vec<_> = pairs.into_iter().flatten().map(pair).collect();
        all.extend(Self::of_expressions(selector.get("matchExpressions")).0);
        Self(all)
    }
    /// Reads a list of requirements, as a selector's `matchExpressions` is and a node selector term's `matchFields`.
    pub(crate) fn of_expressions(all: Option<&Value>) -> Self {
        let all = all.and_then(Value::as_array);
        let read = |e: &Value| {
            let key = e.get("key").and_then(Value::as_str).unwrap_or_default();
            (key.to_owned(), Wanted::of_json(e))
        };
        Self(all.into_iter().flatten().map(read).collect())
    }
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub(crate) fn fits(&self, labels: &[(Text, Text)]) -> bool {
        self.0.iter().all(|(key, wanted)| {
            let value = labels
                .iter()
                .find(|(k, _)| k == key.as_str())
                .map(|(_, v)| v.as_str());
            let number = || value.and_then(|v| v.parse::<i64>().ok());
            match wanted {
                Wanted::Exists => value.is_some(),
                Wanted::Absent => value.is_none(),
                Wanted::In(set) => value.is_some_and(|v| set.iter().any(|s| s == v)),
                Wanted::NotIn(set) => value.is_none_or(|v| set.iter().all(|s| s != v)),
                Wanted::Greater(n) => number().is_some_and(|v| v > *n),
                Wanted::Less(n) => number().is_some_and(|v| v < *n),
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
}

const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let sign = SIGNS.into_iter().find(|s| rest.starts_with(s));
        let (token, after) = match sign {
            Some(sign) => (Token::Sign(sign), rest.strip_prefix(sign).unwrap_or("")),
            None => {
                let end = rest.find(|c: char| c.is_whitespace() || "=!(),<>".contains(c));
                let (word, after) = rest
                    .split_at_checked(end.unwrap_or(rest.len()))
                    .unwrap_or((rest, ""));
                (Token::Word(word.to_owned()), after)
            }
        };
        out.push(token);
        rest = after.trim_start();
    }
    out
}

/// Parses a label selector; the empty text selects everything.
pub(super) fn parse(text: &str) -> Result<LabelSelector, String> {
    let tokens = tokens(text);
    let mut at = tokens.into_iter().peekable();
    let mut all = Vec::new();
    while at.peek().is_some() {
        if !all.is_empty() {
            match at.next() {
                Some(Token::Sign(",")) => {}
                other => return Err(format!("{} where a comma belongs", said(other.as_ref()))),
            }
        }
        all.push(requirement(&mut at)?);
    }
    Ok(LabelSelector(all))
}

fn requirement(
    at: &mut std::iter::Peekable<impl Iterator<Item = Token>>,
) -> Result<(String, Wanted), String> {
    let absent = at.next_if_eq(&Token::Sign("!")).is_some();
    let key = match at.next() {
        Some(Token::Word(key)) => key,
        other => {
            return Err(format!(
                "{} where a label's name belongs",
                said(other.as_ref())
            ));
        }
    };
    if absent {
        return Ok((key, Wanted::Absent));
    }
    let wanted = match at.peek() {
        None | Some(Token::Sign(",")) => Wanted::Exists,
        Some(Token::Sign("=" | "==")) => {
            at.next();
            Wanted::In(vec![value(at)])
        }
        Some(Token::Sign("!=")) => {
            at.next();
            Wanted::NotIn(vec![value(at)])
        }
        Some(Token::Sign(sign @ (">" | "<"))) => {
            let greater = *sign == ">";
            at.next();
            let text = value(at);
            let n = text
                .parse()
                .map_err(|_| format!("{text:?} is not a whole number"))?;
            if greater {
                Wanted::Greater(n)
            } else {
                Wanted::Less(n)
            }
        }
        Some(Token::Word(word)) if word == "in" => {
            at.next();
            Wanted::In(set(at)?)
        }
        Some(Token::Word(word)) if word == "notin" => {
            at.next();
            Wanted::NotIn(set(at)?)
        }
        other => return Err(format!("{} after {key}", said(other))),
    };
    Ok((key, wanted))
}

/// Reads a value; without one the value is empty, as in `key=`.
fn value(at: &mut std::iter::Peekable<impl Iterator<Item = Token>>) -> String {
    match at.next_if(|t| matches!(t, Token::Word(_))) {
        Some(Token::Word(word)) => word,
        _ => String::new(),
    }
}

fn set(at: &mut std::iter::Peekable<impl Iterator<Item = Token>>) -> Result<Vec<String>, String> {
    match at.next() {
        Some(Token::Sign("(")) => {}
        other => return Err(format!("{} where ( belongs", said(other.as_ref()))),
    }
    let mut values = vec![value(at)];
    loop {
        match at.next() {
            Some(Token::Sign(",")) => values.push(value(at)),
            Some(Token::Sign(")")) => return Ok(values),
            other => return Err(format!("{} where ) belongs", said(other.as_ref()))),
        }
    }
}

/// Returns a token for an error message.
fn said(token: Option<&Token>) -> String {
    match token {
        Some(Token::Word(word)) => format!("{word:?}"),
        Some(Token::Sign(sign)) => format!("'{sign}'"),
        None => "the end".to_owned(),
    }
}
