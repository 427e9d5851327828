//! Answers as a self-contained HTML page, with a plot beside each row.

use std::io::{self, Write};

use serde_json::Value;

use super::column::Column;
use crate::engine::Rows;
use crate::questions::Question;
use kflow_export::html::{Escaped, page};
use kflow_model::stamp::{MICRO, MILLI, SECOND};
use kflow_model::units::{DAY, HOUR, MINUTE, duration};

/// Width of a plot, px. `EDGE` is left free on its right for half of the last mark.
const WIDE: f64 = 240.0;
const EDGE: f64 = 2.0;
/// Height of a bar, and of the line of marks (`AXIS`), px.
const HIGH: f64 = 10.0;
const AXIS: f64 = 16.0;
/// Width of a mark's text, px.
const MARK: f64 = 40.0;
/// Most rows of a table.
const MOST: usize = 500;
/// Where a scale of durations can begin, end and have marks, ns.
const MARKS: [i64; 18] = [
    1,
    100,
    MICRO,
    10 * MICRO,
    100 * MICRO,
    MILLI,
    10 * MILLI,
    100 * MILLI,
    SECOND,
    10 * SECOND,
    MINUTE,
    10 * MINUTE,
    HOUR,
    10 * HOUR,
    4 * DAY,
    40 * DAY,
    400 * DAY,
    4000 * DAY,
];

/// A part of a page.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub title: &'a str,
    /// `None` for a user's own query.
    pub question: Option<Question>,
    pub rows: &'a Rows,
}

/// Writes the page. Each line of `about` says what was asked, and of which data. `once` says that no pod is in two rows
/// of an answer: only then are totals shown.
pub fn html(
    out: &mut impl Write,
    title: &str,
    about: &[String],
    parts: &[Part<'_>],
    once: bool,
) -> io::Result<()> {
    let mut body = String::new();
    for line in about {
        body.push_str(&format!("<p class=\"dim\">{}</p>\n", Escaped(line)));
    }
    if once {
        tiles(&mut body, parts);
    }
    for part in parts {
        section(&mut body, *part);
    }
    page(title, &body, out)
}

/// Writes the totals as a few large numbers; for a comparison, before and after.
fn tiles(body: &mut String, parts: &[Part<'_>]) {
    let rows = |q: Question| {
        let of = parts.iter().find(|p| p.question == Some(q));
        of.map(|p| p.rows).filter(|rows| !rows.rows.is_empty())
    };
    let all = |_: &[Value]| true;
    let mut tiles: Vec<(String, &str)> = Vec::new();
    if let Some(rows) = rows(Question::Starts) {
        tiles.push((told(rows, |of| of.sum("count", all)), "pods started"));
        let within = |of: &Side<'_>| {
            let of_these = of.sum("count", all)? + of.sum("late", all)?;
            let permille = of
                .sum("within", all)?
                .checked_mul(1000)?
                .checked_div(of_these)?;
            Some(format!("{}.{} %", permille / 10, permille % 10))
        };
        tiles.push((told(rows, within), "of them in time"));
    }
    if let Some(rows) = rows(Question::Causes) {
        tiles.push((told(rows, |of| of.sum("count", all)), "incidents"));
    }
    if let Some(rows) = rows(Question::Lengths) {
        let is_call = |row: &[Value]| {
            let measure = row.first().and_then(Value::as_str);
            measure.is_some_and(|m| m.starts_with("call/"))
        };
        tiles.push((told(rows, |of| of.sum("count", is_call)), "CRI calls"));
        tiles.push((told(rows, |of| of.sum("errors", is_call)), "of them failed"));
    }
    if let Some(rows) = rows(Question::Nodes) {
        let n = rows.rows.len();
        tiles.push((n.to_string(), if n == 1 { "node" } else { "nodes" }));
    }
    if tiles.is_empty() {
        return;
    }
    body.push_str("<ul class=\"tiles\">");
    for (value, what) in tiles {
        body.push_str(&format!(
            "<li><b>{}</b> {}</li>",
            Escaped(&value),
            Escaped(what)
        ));
    }
    body.push_str("</ul>\n");
}

/// The columns of one of the two sides of a comparison, or of an answer that is not compared.
struct Side<'a> {
    rows: &'a Rows,
    prefix: &'static str,
}

impl Side<'_> {
    /// Returns the sum of a column; `None` if there is no such column.
    fn sum(&self, column: &str, takes: impl Fn(&[Value]) -> bool) -> Option<i64> {
        let n = place(self.rows, self.prefix, column)?;
        let taken = self.rows.rows.iter().filter(|row| takes(row));
        Some(taken.filter_map(|row| row.get(n)?.as_i64()).sum())
    }
}

/// Returns a number of an answer, or the two of a comparison.
fn told<T: ToString>(rows: &Rows, of: impl Fn(&Side<'_>) -> Option<T>) -> String {
    let value = |prefix: &&'static str| {
        let told = of(&Side { rows, prefix });
        told.map_or_else(|| "-".to_owned(), |v| v.to_string())
    };
    let each: Vec<String> = sides(rows).iter().map(value).collect();
    each.join(" → ")
}

/// Returns the prefixes of the names of an answer's columns.
fn sides(rows: &Rows) -> &'static [&'static str] {
    if place(rows, "before_", "count").is_some() {
        &["before_", "after_"]
    } else {
        &[""]
    }
}

fn place(rows: &Rows, prefix: &str, column: &str) -> Option<usize> {
    let is = |c: &String| c.strip_prefix(prefix) == Some(column);
    rows.columns.iter().position(is)
}

fn section(body: &mut String, part: Part<'_>) {
    let rows = part.rows;
    body.push_str(&format!("<h2>{}</h2>\n", Escaped(part.title)));
    if rows.rows.is_empty() {
        body.push_str("<p class=\"dim\">No row is about this.</p>\n");
        return;
    }
    let (columns, plots) = if part.question.is_some() {
        (Column::of(rows), plots(rows))
    } else {
        (Column::as_they_are(rows), Vec::new())
    };
    if !plots.is_empty() {
        let legends: Vec<String> = plots.iter().map(Plot::legend).collect();
        let legends = legends.join("</li><li>");
        body.push_str(&format!(
            "<ul class=\"legend dim\"><li>{legends}</li></ul>\n"
        ));
    }
    body.push_str("<div class=\"wide\"><table class=\"figures\"><thead><tr>");
    let class = |c: &Column| match c.is_text() {
        true if c.is_long(rows) => " class=\"long\"",
        true => "",
        false => " class=\"n\"",
    };
    for column in &columns {
        let head = column.head();
        body.push_str(&format!("<th{}>{}</th>", class(column), Escaped(&head)));
    }
    for plot in &plots {
        body.push_str("<th>");
        plot.axis(body);
        body.push_str("</th>");
    }
    body.push_str("</tr></thead>\n<tbody>");
    for row in rows.rows.iter().take(MOST) {
        body.push_str("<tr>");
        for column in &columns {
            let cell = column.cell(row);
            body.push_str(&format!("<td{}>{}</td>", class(column), Escaped(&cell)));
        }
        for plot in &plots {
            body.push_str("<td>");
            plot.draw(body, row);
            body.push_str("</td>");
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</tbody></table></div>\n");
    let more = rows.rows.len().saturating_sub(MOST);
    if more > 0 {
        body.push_str(&format!("<p class=\"dim\">… and {more} more</p>\n"));
    }
}

/// A plot beside each row: where p50, p95 and p99 are on a scale common to all rows, or a count. A
/// comparison has two bars.
enum Plot {
    /// Indexes of the columns p50, p95 and p99 of each side.
    Lengths(Vec<[usize; 3]>, Scale),
    /// Index of the count's column of each side, and the largest count.
    Count(Vec<usize>, f64),
}

/// A logarithmic scale, from one mark to another.
struct Scale {
    marks: &'static [i64],
}

impl Scale {
    /// Returns the smallest scale that contains all of these, ns.
    fn of(values: impl Iterator<Item = i64> + Clone) -> Self {
        let least = values.clone().min().unwrap_or(SECOND);
        let most = values.max().unwrap_or(SECOND);
        let from = MARKS.partition_point(|m| *m <= least).saturating_sub(1);
        let to = MARKS.partition_point(|m| *m < most).max(from + 1);
        Self {
            marks: MARKS.get(from..=to).or(MARKS.get(from..)).unwrap_or(&MARKS),
        }
    }

    fn x(&self, ns: f64) -> f64 {
        let (Some(least), Some(most)) = (self.marks.first(), self.marks.last()) else {
            return 0.0;
        };
        let (least, most) = (*least as f64, *most as f64);
        let span = (most / least).ln().max(1e-9);
        (ns.clamp(least, most.max(least)) / least).ln() / span * WIDE
    }
}

fn plots(rows: &Rows) -> Vec<Plot> {
    let sides = sides(rows);
    let each = |column: &str| -> Option<Vec<usize>> {
        sides.iter().map(|s| place(rows, s, column)).collect()
    };
    let mut all = Vec::new();
    if let (Some(p50), Some(p95), Some(p99)) = (each("p50_ns"), each("p95_ns"), each("p99_ns")) {
        let values = rows.rows.iter().flat_map(|row| {
            let ends = p50.iter().chain(&p99);
            ends.filter_map(|n| row.get(*n)?.as_i64())
        });
        let scale = Scale::of(values);
        let columns = p50.iter().zip(&p95).zip(&p99);
        let columns = columns.map(|((a, b), c)| [*a, *b, *c]).collect();
        all.push(Plot::Lengths(columns, scale));
    }
    if let (Some(counts), true) = (each("count"), place(rows, "", "cause").is_some()) {
        let values = rows
            .rows
            .iter()
            .flat_map(|row| counts.iter().filter_map(|n| row.get(*n)?.as_f64()));
        let most = values.fold(1.0, f64::max);
        all.push(Plot::Count(counts, most));
    }
    all
}

impl Plot {
    fn sides(&self) -> usize {
        match self {
            Self::Lengths(sides, _) => sides.len(),
            Self::Count(sides, _) => sides.len(),
        }
    }

    /// Returns the explanation of the plot, as HTML.
    fn legend(&self) -> String {
        let key = |opacity: f64, colour: &str| {
            let mut shape = String::new();
            bar(&mut shape, (0.0, 24.0), 0.0, colour, opacity);
            format!(
                "<svg class=\"key\" width=\"24\" height=\"{HIGH}\" aria-hidden=\"true\">{shape}</svg>"
            )
        };
        let run = "var(--run)";
        let what = match self {
            Self::Lengths(..) => format!(
                "{} from p50 to p95, {} to p99, on a logarithmic scale",
                key(1.0, run),
                key(0.4, run)
            ),
            Self::Count(..) => format!("{} how many", key(1.0, run)),
        };
        match self.sides() {
            1 => what,
            _ => format!(
                "{what}; above, in grey {}, what was before",
                key(1.0, "var(--gap)")
            ),
        }
    }

    /// Writes the marks of the scale, as an image above all rows.
    fn axis(&self, body: &mut String) {
        let mut shapes = String::new();
        let mut mark = |x: f64, text: &str, anchor: &str| {
            shapes.push_str(&format!(
                "<text x=\"{x:.1}\" y=\"12\" text-anchor=\"{anchor}\">{}</text>",
                Escaped(text)
            ));
        };
        match self {
            Self::Lengths(_, scale) => {
                let last = scale.marks.len().saturating_sub(1);
                let mut free = 0.0;
                for (n, ns) in scale.marks.iter().enumerate() {
                    let x = scale.x(*ns as f64);
                    let anchor = match n {
                        0 => "start",
                        n if n == last => "end",
                        _ => "middle",
                    };
                    // The last mark is always shown.
                    if n == last || (x >= free && (n == 0 || x + 1.5 * MARK < WIDE)) {
                        mark(x, &short(*ns), anchor);
                        free = x + if n == 0 { 1.5 * MARK } else { MARK };
                    }
                }
            }
            Self::Count(_, most) => {
                mark(0.0, "0", "start");
                mark(WIDE, &most.to_string(), "end");
            }
        }
        picture(body, AXIS, &shapes);
    }

    fn draw(&self, body: &mut String, row: &[Value]) {
        let number = |n: &usize| row.get(*n).and_then(Value::as_f64);
        let mut shapes = String::new();
        let sides = self.sides();
        let height = HIGH * sides as f64 + 2.0;
        if let Self::Lengths(_, scale) = self {
            for ns in scale.marks {
                let x = scale.x(*ns as f64);
                shapes.push_str(&format!(
                    "<path d=\"M{x:.1} 0V{height}\" stroke=\"var(--line)\"/>"
                ));
            }
        }
        for side in 0..sides {
            let y = 1.0 + side as f64 * HIGH;
            let colour = if side + 1 < sides {
                "var(--gap)"
            } else {
                "var(--run)"
            };
            match self {
                Self::Count(columns, most) => {
                    if let Some(count) = columns.get(side).and_then(number) {
                        bar(&mut shapes, (0.0, count / most * WIDE), y, colour, 1.0);
                    }
                }
                Self::Lengths(columns, scale) => {
                    let ranks = columns.get(side).map(|c| c.each_ref().map(number));
                    if let Some([Some(p50), Some(p95), Some(p99)]) = ranks {
                        let (p50, p95, p99) = (scale.x(p50), scale.x(p95), scale.x(p99));
                        bar(&mut shapes, (p95, p99), y, colour, 0.4);
                        bar(&mut shapes, (p50, p95), y, colour, 1.0);
                    }
                }
            }
        }
        picture(body, height, &shapes);
    }
}

/// Returns the text of a mark, shortened: marks are one number and a unit.
fn short(ns: i64) -> String {
    let text = duration(ns);
    let cut = |unit: &str| text.strip_suffix(unit).map(str::to_owned);
    if ns < MINUTE {
        // `1.00ms`
        return text.replace(".00", "").replace(".0", "");
    }
    cut("00s")
        .or_else(|| cut("00m"))
        .or_else(|| cut("00h"))
        .unwrap_or(text)
}

fn picture(body: &mut String, height: f64, shapes: &str) {
    let wide = WIDE + EDGE;
    body.push_str(&format!(
        "<svg width=\"{wide}\" height=\"{height}\" viewBox=\"0 0 {wide} {height}\" aria-hidden=\"true\">{shapes}</svg>"
    ));
}

fn bar(shapes: &mut String, (from, to): (f64, f64), y: f64, colour: &str, opacity: f64) {
    let wide = (to - from).max(EDGE);
    let high = HIGH - 1.0;
    shapes.push_str(&format!(
        "<rect x=\"{from:.1}\" y=\"{y}\" width=\"{wide:.1}\" height=\"{high}\" fill=\"{colour}\" opacity=\"{opacity}\"/>"
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
            question: Some(Question::Lengths),
            rows: &rows,
        };
        html(&mut out, "a & b", &["of \"x\"".to_owned()], &[part], true).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(page.contains("<h1>a &amp; b</h1>") && page.contains("&lt;script&gt;"));
        assert!(!page.contains("<script") && !page.contains('\u{202e}'));
        // The scale is from 1 ns to 10 µs. Two bars are the legend's; the first row has one from p50 to p95 and one to
        // p99, the second row has none.
        let bars: Vec<(f64, f64)> = page
            .split("<rect x=\"")
            .skip(1)
            .map(|r| {
                let of = |s: &str| s.split('"').next().unwrap().parse::<f64>().unwrap();
                (of(r), of(r.split("width=\"").nth(1).unwrap()))
            })
            .collect();
        let at = |ns: f64| ns.log10() / 4.0 * WIDE;
        let near = |(from, wide): (f64, f64), begin: f64, end: f64| {
            (from - at(begin)).abs() < 0.1 && (from + wide - at(end)).abs() < 0.2
        };
        assert_eq!(bars.len(), 4, "{bars:?}");
        assert!(
            near(bars[2], 1000.0, 5000.0) && near(bars[3], 10.0, 1000.0),
            "{bars:?}"
        );
        for mark in [">1ns<", ">10.0µs<", ">10µs<"] {
            assert_eq!(page.contains(mark), mark != ">10.0µs<", "{mark}");
        }
    }

    #[test]
    fn a_comparison_has_both_sides_in_a_cell_and_a_plot() {
        let columns = [
            "group",
            "before_count",
            "before_within",
            "before_late",
            "before_within_permille",
            "after_count",
            "after_within",
            "after_late",
            "after_within_permille",
        ];
        let rows = Rows {
            columns: columns.map(str::to_owned).to_vec(),
            rows: vec![
                [json!("n1"), json!(4), json!(3), json!(0), json!(750)]
                    .into_iter()
                    .chain([const { Value::Null }; 4])
                    .collect(),
                [
                    json!("n2"),
                    json!(6),
                    json!(6),
                    json!(0),
                    json!(1000),
                    json!(2),
                    json!(1),
                    json!(6),
                    json!(125),
                ]
                .to_vec(),
            ],
        };
        let mut out = Vec::new();
        let part = Part {
            title: "Starts",
            question: Some(Question::Starts),
            rows: &rows,
        };
        html(&mut out, "t", &[], &[part], true).unwrap();
        let page = String::from_utf8(out).unwrap();
        for cell in [
            "<b>10 → 2</b> pods started",
            "<b>90.0 % → 12.5 %</b> of them in time",
            "<td class=\"n\">75.0 → -</td>",
            "<th class=\"n\">WITHIN %</th>",
            "<td class=\"n\">100.0 → 12.5</td>",
        ] {
            assert!(page.contains(cell), "{cell}: {page}");
        }
    }

    #[test]
    fn a_scale_goes_from_mark_to_mark() {
        let of = |values: &[i64]| {
            let scale = Scale::of(values.iter().copied());
            let told = |m: Option<&i64>| short(*m.unwrap());
            (told(scale.marks.first()), told(scale.marks.last()))
        };
        let want = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(of(&[]), want("1s", "10s"));
        assert_eq!(of(&[MILLI]), want("1ms", "10ms"));
        assert_eq!(of(&[2 * MILLI, 61 * SECOND]), want("1ms", "10m"));
        assert_eq!(of(&[0, 11 * HOUR]), want("1ns", "4d"));
        assert_eq!(of(&[i64::MAX]), want("4000d", "4000d"));
        for (at, x) in [(0.0, 0.0), (1e6, 0.0), (1e7, WIDE), (1e9, WIDE)] {
            let scale = Scale::of([MILLI, 9 * MILLI].into_iter());
            assert!((scale.x(at) - x).abs() < 0.1, "{at}");
        }
    }
}
