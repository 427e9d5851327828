//! Rows for programs: one JSON array, JSON lines, or CSV.

use std::fmt;
use std::io::{self, Write};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text::clean;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One JSON array, a row a line: `jq` reads it whole, `grep` line by line.
    Json,
    /// A JSON value a line.
    Jsonl,
    /// A head, and a line a row (RFC 4180).
    Csv,
}

/// Writes rows whose columns are the keys of their JSON.
pub(crate) fn write<T: Serialize + Default>(
    out: &mut impl Write,
    form: Rows,
    rows: impl Iterator<Item = T>,
) -> io::Result<()> {
    match form {
        Rows::Json => json_array(out, rows),
        Rows::Jsonl => json_lines(out, rows),
        Rows::Csv => csv(out, rows),
    }
}

/// Writes rows that have lists of objects in them: JSON, as no table takes them.
pub(crate) fn nested<T: Serialize>(
    out: &mut impl Write,
    form: Rows,
    rows: impl Iterator<Item = T>,
) -> io::Result<()> {
    match form {
        Rows::Jsonl => json_lines(out, rows),
        Rows::Json | Rows::Csv => json_array(out, rows),
    }
}

fn json_array<T: Serialize>(out: &mut impl Write, rows: impl Iterator<Item = T>) -> io::Result<()> {
    let mut first = true;
    for row in rows {
        out.write_all(if first { b"[\n" } else { b",\n" })?;
        first = false;
        serde_json::to_writer(&mut *out, &row)?;
    }
    out.write_all(if first { b"[]\n" } else { b"\n]\n" })
}

fn json_lines<T: Serialize>(out: &mut impl Write, rows: impl Iterator<Item = T>) -> io::Result<()> {
    for row in rows {
        serde_json::to_writer(&mut *out, &row)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// The keys of a row that is nothing yet are the head, which is there without rows too. Text is escaped as on a terminal:
/// CSV has no escapes of its own.
fn csv<T: Serialize + Default>(
    out: &mut impl Write,
    rows: impl Iterator<Item = T>,
) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(cells(&T::default())?.iter().map(|(key, _)| key))?;
    for row in rows {
        table.write_record(cells(&row)?.iter().map(|(_, cell)| cell))?;
    }
    table.flush()
}

fn cells(row: &impl Serialize) -> io::Result<Vec<(String, String)>> {
    let Keys(all) = serde_json::from_str(&serde_json::to_string(row)?)?;
    Ok(all.into_iter().map(|(key, v)| (key, cell(&v))).collect())
}

/// A list is its items with a space between them.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => clean(text).into_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// An object with its keys in order.
struct Keys(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Keys;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut all = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    all.push(pair);
                }
                Ok(Keys(all))
            }
        }
        d.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, Serialize)]
    struct Row {
        zebra: &'static str,
        count: Option<u32>,
        all: Vec<u32>,
    }

    fn written(form: Rows, rows: Vec<Row>) -> String {
        let mut out = Vec::new();
        write(&mut out, form, rows.into_iter()).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    fn rows() -> Vec<Row> {
        let row = |zebra, count, all| Row { zebra, count, all };
        vec![
            row("a,\"b\"\nc", Some(3), vec![1, 2]),
            row("\u{1b}[2J\u{202e}", None, Vec::new()),
        ]
    }

    #[test]
    fn a_row_is_a_line_in_every_form() {
        assert_eq!(written(Rows::Json, rows()).lines().count(), 4);
        assert_eq!(written(Rows::Json, Vec::new()), "[]\n");
        let lines = written(Rows::Jsonl, rows());
        assert!(
            lines
                .lines()
                .all(|l| serde_json::from_str::<Value>(l).is_ok())
        );
        assert_eq!(lines.lines().count(), 2);
        assert_eq!(written(Rows::Jsonl, Vec::new()), "");
    }

    #[test]
    fn csv_has_a_head_and_nothing_that_harms_a_terminal() {
        assert_eq!(written(Rows::Csv, Vec::new()), "zebra,count,all\n");
        let text = written(Rows::Csv, rows());
        let mut table = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(
            table.headers().expect("head"),
            vec!["zebra", "count", "all"]
        );
        let all: Vec<_> = table.records().map(|r| r.expect("row")).collect();
        assert_eq!(all.len(), 2);
        assert_eq!(&all[0][1], "3");
        assert_eq!(&all[0][2], "1 2");
        assert_eq!(&all[1][1], "");
        let harm = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!text.contains(harm), "{text:?}");
    }
}
