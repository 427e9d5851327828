//! Answers for people and programs.

mod column;
mod page;

use std::io::{self, Write};

use serde_json::Value;

use crate::engine::Rows;
use column::Column;
use kflow_export::rows::Rows as Form;
use kflow_export::text::cut;

pub use page::{Part, html};

/// Widest cell of a text table, characters.
const WIDEST: usize = 64;

/// Writes a text table of at most `most` rows, and how many more there are.
pub fn text(out: &mut impl Write, rows: &Rows, most: usize) -> io::Result<()> {
    table(out, rows, most, &Column::of(rows))
}

/// Writes the answer to a user's own SQL query, with columns unchanged.
pub fn sql_text(out: &mut impl Write, rows: &Rows) -> io::Result<()> {
    table(out, rows, usize::MAX, &Column::as_they_are(rows))
}

fn table(out: &mut impl Write, rows: &Rows, most: usize, columns: &[Column]) -> io::Result<()> {
    let mut lines = vec![columns.iter().map(Column::head).collect::<Vec<String>>()];
    for row in rows.rows.iter().take(most) {
        let each = columns.iter().map(|c| {
            let cell = c.cell(row);
            cut(&cell, WIDEST).trim_end().to_owned()
        });
        lines.push(each.collect());
    }
    let width = |n: usize| {
        let of = |l: &Vec<String>| l.get(n).map_or(0, |c| c.chars().count());
        lines.iter().map(of).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    for line in &lines {
        let cells = line.iter().zip(&widths).zip(columns);
        let cells = cells.map(|((cell, wide), column)| {
            if column.is_text() {
                format!("{cell:<wide$}")
            } else {
                format!("{cell:>wide$}")
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

/// A row of an answer as JSON: the question, if there are several, and then the columns in their order.
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

/// Writes rows for programs. CSV has room for one answer only: the first.
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
