//! Rows for programs: one JSON array, JSON lines, YAML, or CSV.

use std::fmt;
use std::io::{self, Write};

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::ser::Formatter;
use serde_saphyr::DoubleQuoted;

use super::text::{clean, is_hostile};

/// The format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One JSON array with one row per line: `jq` reads the whole, `grep` single lines.
    Json,
    /// One JSON value per line.
    Jsonl,
    /// One YAML sequence with the keys of the JSON.
    Yaml,
    /// A head, and one line per row (RFC 4180).
    Csv,
}

/// Writes rows; the keys of their JSON are the columns.
pub(crate) fn write<T: Serialize + Default>(
    out: &mut impl Write,
    form: Rows,
    rows: impl Iterator<Item = T>,
) -> io::Result<()> {
    match form {
        Rows::Json => json_array(out, rows),
        Rows::Jsonl => json_lines(out, rows),
        Rows::Yaml => yaml(out, rows),
        Rows::Csv => csv(out, rows, true),
    }
}

/// Appends rows to those already written.
pub(crate) fn more<T: Serialize + Default>(
    out: &mut impl Write,
    form: Rows,
    rows: impl Iterator<Item = T>,
) -> io::Result<()> {
    match form {
        Rows::Csv => csv(out, rows, false),
        form => write(out, form, rows),
    }
}

/// Writes rows that contain lists of objects, which do not fit in a table: CSV becomes a JSON array.
pub fn values<T: Serialize>(
    out: &mut impl Write,
    form: Rows,
    rows: impl Iterator<Item = T>,
) -> io::Result<()> {
    match form {
        Rows::Jsonl => json_lines(out, rows),
        Rows::Yaml => yaml(out, rows),
        Rows::Json | Rows::Csv => json_array(out, rows),
    }
}

fn json_array<T: Serialize>(out: &mut impl Write, rows: impl Iterator<Item = T>) -> io::Result<()> {
    let mut first = true;
    for row in rows {
        out.write_all(if first { b"[\n" } else { b",\n" })?;
        first = false;
        json(out, &row)?;
    }
    out.write_all(if first { b"[]\n" } else { b"\n]\n" })
}

fn json_lines<T: Serialize>(out: &mut impl Write, rows: impl Iterator<Item = T>) -> io::Result<()> {
    for row in rows {
        json(out, &row)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn json<T: Serialize>(out: &mut impl Write, row: &T) -> io::Result<()> {
    let mut to = serde_json::Serializer::with_formatter(out, Escaped);
    Ok(row.serialize(&mut to)?)
}

/// Escapes the characters that JSON allows but that affect a terminal: the other controls, and characters that reorder
/// or hide text.
struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_hostile(*c)) {
            let (before, from) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = from.strip_prefix(c).unwrap_or_default();
        }
        out.write_all(rest.as_bytes())
    }
}

fn yaml<T: Serialize>(out: &mut impl Write, rows: impl Iterator<Item = T>) -> io::Result<()> {
    let mut none = true;
    for row in rows {
        let row: Plain = serde_json::from_str(&serde_json::to_string(&row)?)?;
        let text = serde_saphyr::to_string(&[row]).map_err(io::Error::other)?;
        for c in text.chars() {
            match c {
                // The text is between double quotes, so an escape is valid YAML.
                c if c != '\n' && is_hostile(c) => write!(out, "\\U{:08x}", u32::from(c))?,
                c => write!(out, "{c}")?,
            }
        }
        none = false;
    }
    if none {
        out.write_all(b"[]\n")?;
    }
    Ok(())
}

/// A JSON value that keeps its keys in order.
enum Plain {
    Value(Value),
    List(Vec<Plain>),
    Object(Vec<(String, Plain)>),
}

impl Plain {
    /// Formats a cell; the items of a list are separated by spaces, and an object has no cell.
    fn cell(&self) -> String {
        match self {
            Self::Value(v) => cell(v),
            Self::List(items) => items.iter().map(Self::cell).collect::<Vec<_>>().join(" "),
            Self::Object(_) => String::new(),
        }
    }
}

impl Serialize for Plain {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(Value::String(text))
                if text.chars().any(|c| c != '\n' && is_hostile(c)) =>
            {
                DoubleQuoted(text).serialize(s)
            }
            Self::Value(v) => v.serialize(s),
            Self::List(all) => all.serialize(s),
            Self::Object(all) => s.collect_map(all.iter().map(|(key, v)| (key, v))),
        }
    }
}

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Plain;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E>(self) -> Result<Plain, E> {
                Ok(Plain::Value(Value::Null))
            }
            fn visit_bool<E>(self, v: bool) -> Result<Plain, E> {
                Ok(Plain::Value(v.into()))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Plain, E> {
                Ok(Plain::Value(v.into()))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Plain, E> {
                Ok(Plain::Value(v.into()))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Plain, E> {
                Ok(Plain::Value(v.into()))
            }
            fn visit_str<E>(self, v: &str) -> Result<Plain, E> {
                Ok(Plain::Value(v.into()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Plain, A::Error> {
                let mut all = Vec::new();
                while let Some(v) = seq.next_element()? {
                    all.push(v);
                }
                Ok(Plain::List(all))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Plain, A::Error> {
                let mut all = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    all.push(pair);
                }
                Ok(Plain::Object(all))
            }
        }
        d.deserialize_any(Any)
    }
}

/// Writes CSV. The head is the keys of a default row, and is written even without rows. Text is escaped as for a
/// terminal, because CSV has no escapes of its own.
fn csv<T: Serialize + Default>(
    out: &mut impl Write,
    rows: impl Iterator<Item = T>,
    head: bool,
) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    if head {
        table.write_record(cells(&T::default())?.iter().map(|(key, _)| key))?;
    }
    for row in rows {
        table.write_record(cells(&row)?.iter().map(|(_, cell)| cell))?;
    }
    table.flush()
}

/// Writes a CSV table whose columns are known only at run time.
pub fn table(out: &mut impl Write, columns: &[String], rows: &[Vec<Value>]) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(columns.iter().map(|c| clean(c).into_owned()))?;
    for row in rows {
        table.write_record(row.iter().map(cell))?;
    }
    table.flush()
}

fn cells(row: &impl Serialize) -> io::Result<Vec<(String, String)>> {
    match serde_json::from_str(&serde_json::to_string(row)?)? {
        Plain::Object(all) => Ok(all.into_iter().map(|(key, v)| (key, v.cell())).collect()),
        Plain::Value(_) | Plain::List(_) => Err(io::Error::other("a row has no columns")),
    }
}

/// Formats a cell; the items of a list are separated by spaces.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => clean(text).into_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
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

    /// True for characters that affect a terminal.
    fn harms(c: char) -> bool {
        c != '\n' && is_hostile(c)
    }

    fn rows() -> Vec<Row> {
        let row = |zebra, count, all| Row { zebra, count, all };
        vec![
            row("a,\"b\"\nc", Some(3), vec![1, 2]),
            row("\u{1b}[2J\u{9b}2J\u{202e}\u{e0041} x", None, Vec::new()),
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
        assert!(!lines.contains(harms), "{lines:?}");
        let last: Value = serde_json::from_str(lines.lines().last().expect("2")).expect(&lines);
        assert_eq!(last["zebra"], rows()[1].zebra);
        assert_eq!(written(Rows::Jsonl, Vec::new()), "");
    }

    #[test]
    fn yaml_is_what_the_json_is_in_its_order() {
        assert_eq!(written(Rows::Yaml, Vec::new()), "[]\n");
        let text = written(Rows::Yaml, rows());
        let read: Vec<Value> = serde_saphyr::from_str(&text).expect(&text);
        assert_eq!(read[0]["count"], 3);
        assert_eq!(read[0]["all"], serde_json::json!([1, 2]));
        assert_eq!(read[1]["count"], Value::Null);
        assert!(text.starts_with("- zebra"), "{text}");
        assert_eq!(read[1]["zebra"], rows()[1].zebra, "{text}");
        assert!(!text.contains(harms), "{text:?}");
        // Texts that YAML could take for another type stay strings, also for readers of YAML 1.1.
        let odd = [
            "no",
            "on",
            "1.0",
            "0x1f",
            "null",
            "~",
            "1e3",
            "12:30:45",
            "- a",
            "a: b",
            "#x",
            "",
            " x ",
            "2026-11-21",
            "{}",
            "*a",
            "&a",
            "!x",
            "|",
            "%",
            "@",
            "`",
            "'",
            "\"",
        ];
        let mut out = Vec::new();
        values(&mut out, Rows::Yaml, odd.iter()).expect("written");
        let text = String::from_utf8(out).expect("UTF-8");
        let read: Vec<Value> = serde_saphyr::from_str(&text).expect(&text);
        let read: Vec<&str> = read.iter().filter_map(Value::as_str).collect();
        assert_eq!(read, odd, "{text}");
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
        assert!(!text.contains(harms), "{text:?}");
    }
}
