//! Shows the columns of an answer to people.

use serde_json::Value;

use crate::engine::Rows;
use kflow_export::text::clean;
use kflow_model::units::duration;

/// Text with more bytes than this counts as long.
const LONG: usize = 24;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    /// A length of time, in nanoseconds.
    Length,
    /// A share in thousandths, shown as a percentage.
    Share,
}

/// A column to show, which may combine the columns before and after of a comparison.
#[derive(Clone, Debug)]
pub(super) struct Column {
    head: String,
    kind: Kind,
    /// Its index in a row, and that of the column `after_…`.
    places: (usize, Option<usize>),
}

impl Column {
    /// Returns the columns of a standing question. A column without any value is left out.
    pub(super) fn of(rows: &Rows) -> Vec<Self> {
        let place = |name: &str| rows.columns.iter().position(|c| c == name);
        let of = |(n, name): (usize, &String)| {
            let (name, after) = match name.strip_prefix("before_") {
                Some(name) => (name, place(&format!("after_{name}"))),
                None => (name.as_str(), None),
            };
            let (head, kind) = match (name.strip_suffix("_ns"), name.strip_suffix("_permille")) {
                (Some(length), _) => (length.to_owned(), Kind::Length),
                (_, Some(share)) => (format!("{share} %"), Kind::Share),
                _ => (name.to_owned(), kind(rows, n)),
            };
            Self {
                head: head.replace('_', " ").to_uppercase(),
                kind,
                places: (n, after),
            }
        };
        let second = |name: &str| {
            name.strip_prefix("after_")
                .is_some_and(|name| place(&format!("before_{name}")).is_some())
        };
        let says = |n: usize| {
            let blank = |row: &Vec<Value>| row.get(n).and_then(Value::as_str) == Some("");
            rows.rows.is_empty() || !rows.rows.iter().all(blank)
        };
        let all = rows.columns.iter().enumerate();
        all.filter(|(n, name)| !second(name) && says(*n))
            .map(of)
            .collect()
    }

    /// Returns the columns of a user's own query, as the query names them.
    pub(super) fn as_they_are(rows: &Rows) -> Vec<Self> {
        let of = |(n, name): (usize, &String)| Self {
            head: clean(name).into_owned(),
            kind: kind(rows, n),
            places: (n, None),
        };
        rows.columns.iter().enumerate().map(of).collect()
    }

    pub(super) fn head(&self) -> String {
        self.head.clone()
    }

    pub(super) const fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Text)
    }

    /// True if the column has text that is better shown on two lines than on one.
    pub(super) fn is_long(&self, rows: &Rows) -> bool {
        let text = |row: &Vec<Value>| row.get(self.places.0).and_then(Value::as_str).map(str::len);
        rows.rows.iter().filter_map(text).any(|len| len > LONG)
    }

    /// Returns the text of a row's cell.
    pub(super) fn cell(&self, row: &[Value]) -> String {
        let told = |n: usize| self.told(row.get(n).unwrap_or(&Value::Null));
        let (first, second) = self.places;
        match second.map(told) {
            Some(after) => format!("{} → {after}", told(first)),
            None => told(first),
        }
    }

    fn told(&self, value: &Value) -> String {
        match (self.kind, value.as_i64()) {
            (Kind::Length, Some(ns)) => duration(ns),
            (Kind::Share, Some(permille)) => format!("{}.{}", permille / 10, permille % 10),
            _ => plain(value),
        }
    }
}

/// A column is text if any of its values is. Nothing more is known about the columns of a user's query.
fn kind(rows: &Rows, n: usize) -> Kind {
    let mut all = rows.rows.iter().filter_map(|r| r.get(n));
    if all.any(Value::is_string) {
        Kind::Text
    } else {
        Kind::Number
    }
}

pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => clean(text).into_owned(),
        other => clean(&other.to_string()).into_owned(),
    }
}
