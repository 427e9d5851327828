//! Answers as a page that holds all that it needs, with a plot beside each row.

use std::io::{self, Write};

use serde_json::Value;

use super::{head, is_length, plain};
use crate::engine::Rows;
use kflow_export::html::{Escaped, page};
use kflow_model::units::duration;

/// Width of a plot, px.
const WIDE: f64 = 260.0;
/// Rows of a table.
const MOST: usize = 500;

/// A part of a page.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub title: &'a str,
    pub rows: &'a Rows,
}

/// Writes the page. `about` says what was asked of what.
pub fn html(out: &mut impl Write, title: &str, about: &str, parts: &[Part<'_>]) -> io::Result<()> {
    let mut body = format!("<p class=\"dim\">{}</p>\n", Escaped(about));
    for part in parts {
        section(&mut body, *part);
    }
    page(title, &body, out)
}

fn section(body: &mut String, part: Part<'_>) {
    let rows = part.rows;
    body.push_str(&format!("<h2>{}</h2>\n", Escaped(part.title)));
    if rows.rows.is_empty() {
        body.push_str("<p class=\"dim\">No row is about this.</p>\n");
        return;
    }
    let plots = plots(rows);
    body.push_str("<table><tr>");
    for column in &rows.columns {
        body.push_str(&format!("<th>{}</th>", Escaped(&head(column))));
    }
    for plot in &plots {
        body.push_str(&format!("<th>{}</th>", Escaped(&plot.legend())));
    }
    body.push_str("</tr>\n");
    for row in rows.rows.iter().take(MOST) {
        body.push_str("<tr>");
        for (column, value) in rows.columns.iter().zip(row) {
            let text = match value.as_i64() {
                Some(ns) if is_length(column) => duration(ns),
                _ => plain(value),
            };
            body.push_str(&format!("<td>{}</td>", Escaped(&text)));
        }
        for plot in &plots {
            body.push_str("<td>");
            plot.draw(body, row);
            body.push_str("</td>");
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</table>\n");
    let more = rows.rows.len().saturating_sub(MOST);
    if more > 0 {
        body.push_str(&format!("<p class=\"dim\">… and {more} more</p>\n"));
    }
}

/// A plot of one side: where p50, p95 and p99 lie between the shortest and the longest of all rows, or how many there are.
struct Plot {
    side: &'static str,
    kind: Kind,
}

enum Kind {
    /// Columns of p50, p95 and p99; least and most of all rows, ns.
    Lengths([usize; 3], f64, f64),
    /// Column of a number, and the largest.
    Count(usize, f64),
}

fn plots(rows: &Rows) -> Vec<Plot> {
    let at = |name: String| rows.columns.iter().position(|c| *c == name);
    let compared = at("before_count".to_owned()).is_some();
    let sides: &[&'static str] = if compared {
        &["before_", "after_"]
    } else {
        &[""]
    };
    let number = |row: &Vec<Value>, n: usize| row.get(n).and_then(Value::as_f64);
    let mut all = Vec::new();
    for side in sides {
        let named = ["p50_ns", "p95_ns", "p99_ns"].map(|n| at(format!("{side}{n}")));
        if let [Some(a), Some(b), Some(c)] = named {
            // Both sides on one scale.
            let every = rows.columns.iter().enumerate();
            let every = every.filter(|(_, c)| ["p50_ns", "p99_ns"].iter().any(|p| c.ends_with(p)));
            let columns: Vec<usize> = every.map(|(n, _)| n).collect();
            let values = rows
                .rows
                .iter()
                .flat_map(|r| columns.iter().filter_map(|n| number(r, *n)));
            let (mut least, mut most) = (f64::MAX, 1.0_f64);
            for v in values {
                least = least.min(v.max(1.0));
                most = most.max(v);
            }
            all.push(Plot {
                side,
                kind: Kind::Lengths([a, b, c], least.min(most), most),
            });
        }
        if let Some(n) = at(format!("{side}count"))
            && at("cause".to_owned()).is_some()
        {
            let most = rows
                .rows
                .iter()
                .filter_map(|r| number(r, n))
                .fold(1.0, f64::max);
            all.push(Plot {
                side,
                kind: Kind::Count(n, most),
            });
        }
    }
    all
}

impl Plot {
    fn legend(&self) -> String {
        let what = match &self.kind {
            Kind::Lengths(_, least, most) => format!(
                "p50 to p95 to p99, {} to {} (logarithmic)",
                duration(*least as i64),
                duration(*most as i64)
            ),
            Kind::Count(_, most) => format!("count, up to {most}"),
        };
        match self.side.strip_suffix('_') {
            Some(side) => format!("{side}: {what}"),
            None => what,
        }
    }

    fn draw(&self, body: &mut String, row: &[Value]) {
        let number = |n: usize| row.get(n).and_then(Value::as_f64);
        let mut shapes = String::new();
        match &self.kind {
            Kind::Count(n, most) => {
                let wide = number(*n).unwrap_or(0.0) / most * WIDE;
                bar(&mut shapes, 0.0, wide, "var(--run)", 1.0);
            }
            Kind::Lengths([a, b, c], least, most) => {
                let span = (most / least).ln().max(1e-9);
                let x = |ns: f64| (ns.max(*least) / least).ln() / span * WIDE;
                if let (Some(p50), Some(p95), Some(p99)) = (number(*a), number(*b), number(*c)) {
                    bar(&mut shapes, x(p50), x(p95), "var(--run)", 1.0);
                    bar(&mut shapes, x(p95), x(p99), "var(--run)", 0.4);
                }
            }
        }
        body.push_str(&format!(
            "<svg width=\"{0}\" height=\"14\" viewBox=\"0 0 {0} 14\" role=\"img\" aria-hidden=\"true\">{shapes}</svg>",
            WIDE + 4.0
        ));
    }
}

fn bar(shapes: &mut String, from: f64, to: f64, colour: &str, opacity: f64) {
    let wide = (to - from).max(2.0);
    shapes.push_str(&format!(
        "<rect x=\"{from:.1}\" y=\"2\" width=\"{wide:.1}\" height=\"10\" fill=\"{colour}\" opacity=\"{opacity}\"/>"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_is_whole_and_a_hostile_name_stays_text() {
        let rows = Rows {
            columns: [
                "measure", "group", "count", "p50_ns", "p95_ns", "p99_ns", "max_ns",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: vec![
                vec![
                    json!("start"),
                    json!("<script>alert(1)</script>\u{202e}"),
                    json!(2),
                    json!(10),
                    json!(1000),
                    json!(5000),
                    json!(5000),
                ],
                vec![
                    json!("start"),
                    json!("n2"),
                    json!(0),
                    Value::Null,
                    Value::Null,
                    Value::Null,
                    Value::Null,
                ],
            ],
        };
        let mut out = Vec::new();
        let part = Part {
            title: "Lengths",
            rows: &rows,
        };
        html(&mut out, "a & b", "of \"x\"", &[part]).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(page.contains("<h1>a &amp; b</h1>") && page.contains("&lt;script&gt;"));
        assert!(!page.contains("<script") && !page.contains('\u{202e}'));
        // The first has a bar from the least to p95 and one to the end of the scale, the second none.
        assert_eq!(page.matches("<rect").count(), 2);
        assert!(page.contains("<rect x=\"0.0\""), "{page}");
        let ends: Vec<f64> = page
            .split("<rect x=\"")
            .skip(1)
            .map(|r| {
                let of = |s: &str| s.split('"').next().unwrap().parse::<f64>().unwrap();
                of(r) + of(r.split("width=\"").nth(1).unwrap())
            })
            .collect();
        assert!((ends[1] - WIDE).abs() < 0.2, "{ends:?}");
    }
}
