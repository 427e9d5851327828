//! Answers for people and programs.

mod page;

use std::io::{self, Write};

use serde_json::Value;

use crate::engine::Rows;
use kflow_export::rows::Rows as Form;
use kflow_export::text::{clean, cut};
use kflow_model::units::duration;

pub use page::{Part, html};

/// Widest cell of a table.
const WIDEST: usize = 64;

/// A table; no more than so many rows, and how many there are besides.
pub fn text(out: &mut impl Write, rows: &Rows, most: usize) -> io::Result<()> {
    let is_length: Vec<bool> = rows.columns.iter().map(|c| is_length(c)).collect();
    table(out, rows, most, |n, value| {
        let length = is_length.get(n).copied().unwrap_or(false);
        match value.as_i64() {
            Some(ns) if length => duration(ns),
            _ => plain(value),
        }
    })
}

/// The answer to a query of somebody's own: as it is.
pub fn sql_text(out: &mut impl Write, rows: &Rows) -> io::Result<()> {
    table(out, rows, usize::MAX, |_, value| plain(value))
}

/// A column of lengths: standing questions have no other ns.
fn is_length(column: &str) -> bool {
    column.ends_with("_ns")
}

/// A column's name for people.
fn head(column: &str) -> String {
    let name = column.strip_suffix("_ns").unwrap_or(column);
    clean(&name.replace('_', " ").to_uppercase()).into_owned()
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => clean(text).into_owned(),
        other => clean(&other.to_string()).into_owned(),
    }
}

fn table(
    out: &mut impl Write,
    rows: &Rows,
    most: usize,
    cell: impl Fn(usize, &Value) -> String,
) -> io::Result<()> {
    // A column in which nothing stands says nothing.
    let says = |n: usize| {
        let blank = |v: &Value| v.as_str() == Some("");
        let all = rows.rows.iter().filter_map(|r| r.get(n));
        rows.rows.is_empty() || !all.into_iter().all(blank)
    };
    let shown: Vec<usize> = (0..rows.columns.len()).filter(|n| says(*n)).collect();
    let is_text = |n: usize| {
        let mut all = rows.rows.iter().filter_map(|r| r.get(n));
        all.all(|v| v.is_string() || v.is_null())
    };
    let head = |n: &usize| head(rows.columns.get(*n).map_or("", String::as_str));
    let mut lines = vec![shown.iter().map(head).collect::<Vec<String>>()];
    for row in rows.rows.iter().take(most) {
        let each = shown.iter().map(|n| {
            let value = row.get(*n).unwrap_or(&Value::Null);
            cut(&cell(*n, value), WIDEST).trim_end().to_owned()
        });
        lines.push(each.collect());
    }
    let width = |n: usize| {
        let of = |l: &Vec<String>| l.get(n).map_or(0, |c| c.chars().count());
        lines.iter().map(of).max().unwrap_or(0)
    };
    let widths: Vec<(usize, bool)> = shown
        .iter()
        .enumerate()
        .map(|(at, n)| (width(at), is_text(*n)))
        .collect();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(c, (w, left))| {
            if *left {
                format!("{c:<w$}")
            } else {
                format!("{c:>w$}")
            }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    let more = rows.rows.len().saturating_sub(most);
    if more > 0 {
        writeln!(out, "… and {more} more")?;
    }
    Ok(())
}

/// A row of an answer: its columns in their order, behind the question where that is one of several.
struct Row<'a> {
    question: Option<&'a str>,
    columns: &'a [String],
    row: &'a [Value],
}

impl serde::Serialize for Row<'_> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let question = self.question.map(|q| ("question", Value::from(q)));
        let own = self
            .columns
            .iter()
            .map(String::as_str)
            .zip(self.row.iter().cloned());
        s.collect_map(question.into_iter().chain(own))
    }
}

/// Rows for programs. In CSV only one answer has its place.
pub fn rows(out: &mut impl Write, answers: &[(Option<&str>, Rows)], form: Form) -> io::Result<()> {
    if form == Form::Csv {
        let Some((_, only)) = answers.first() else {
            return Ok(());
        };
        return kflow_export::rows::table(out, &only.columns, &only.rows);
    }
    let each = answers.iter().flat_map(|(question, rows)| {
        rows.rows.iter().map(|row| Row {
            question: *question,
            columns: &rows.columns,
            row,
        })
    });
    kflow_export::rows::values(out, form, each)
}
