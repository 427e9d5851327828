//! Statistics of lengths, and their comparisons: as text and rows (documented in `docs/json.md` and `docs/stats.md`),
//! and in OpenMetrics.

use serde::Serialize;
use std::io::{self, Write};

use super::open_metrics::{Kind, Page};
use super::rows::{self, Rows};
use super::text::{clean, cut};
use super::timeline::Paint;
use kflow_core::stats::{Difference, Judgement, Row};
use kflow_model::units::duration;

/// A quantile that is shown.
struct Quantile {
    permille: usize,
    /// The head of its column.
    head: &'static str,
    /// Its `quantile` label in OpenMetrics.
    label: &'static str,
    /// Only shown in wide tables.
    wide: bool,
}

const QUANTILES: [Quantile; 4] = [
    Quantile::of(500, "P50", "0.5", false),
    Quantile::of(900, "P90", "0.9", false),
    Quantile::of(950, "P95", "0.95", true),
    Quantile::of(990, "P99", "0.99", false),
];

impl Quantile {
    const fn of(permille: usize, head: &'static str, label: &'static str, wide: bool) -> Self {
        Self {
            permille,
            head,
            label,
            wide,
        }
    }
}

fn quantiles(wide: bool) -> impl Iterator<Item = &'static Quantile> {
    QUANTILES.iter().filter(move |q| wide || !q.wide)
}

/// The fields that JSON and CSV share.
#[derive(Default, Serialize)]
struct Figures<'a> {
    measure: String,
    group: &'a str,
    count: usize,
    open: usize,
    errors: usize,
    p50_ns: i64,
    p90_ns: i64,
    p95_ns: i64,
    p99_ns: i64,
    max_ns: i64,
    total_ns: i64,
    share_permille: Option<u16>,
}

impl<'a> Figures<'a> {
    fn of(r: &'a Row) -> Self {
        Self {
            measure: r.measure.to_string(),
            group: &r.group,
            count: r.lengths.len(),
            open: r.open,
            errors: r.errors,
            p50_ns: r.percentile(500),
            p90_ns: r.percentile(900),
            p95_ns: r.percentile(950),
            p99_ns: r.percentile(990),
            max_ns: r.max_ns(),
            total_ns: r.total_ns,
            share_permille: r.share_permille,
        }
    }
}

#[derive(Default, Serialize)]
struct RowJson<'a> {
    #[serde(flatten)]
    figures: Figures<'a>,
    slowest: Vec<Slow<'a>>,
}

#[derive(Default, Serialize)]
struct RowCsv<'a> {
    #[serde(flatten)]
    figures: Figures<'a>,
    slowest_pod: &'a str,
}

#[derive(Serialize)]
struct Slow<'a> {
    pod: &'a str,
    ns: i64,
}

impl<'a> RowJson<'a> {
    fn of(r: &'a Row) -> Self {
        let slowest = r.slowest.iter();
        Self {
            figures: Figures::of(r),
            slowest: slowest.map(|(pod, ns)| Slow { pod, ns: *ns }).collect(),
        }
    }
}

#[derive(Default, Serialize)]
struct DifferenceJson<'a> {
    measure: String,
    group: &'a str,
    judgement: Option<Judgement>,
    p50_difference_ns: Option<i64>,
    chance: Option<f64>,
    before: Option<RowJson<'a>>,
    after: Option<RowJson<'a>>,
}

#[derive(Default, Serialize)]
struct DifferenceCsv<'a> {
    measure: String,
    group: &'a str,
    judgement: Option<Judgement>,
    chance: Option<f64>,
    before_count: Option<usize>,
    before_p50_ns: Option<i64>,
    before_p90_ns: Option<i64>,
    after_count: Option<usize>,
    after_p50_ns: Option<i64>,
    after_p90_ns: Option<i64>,
    p50_difference_ns: Option<i64>,
}

/// Writes a row per measure and group; in CSV with the slowest pod only.
pub fn rows(out: &mut impl Write, all: &[Row], form: Rows) -> io::Result<()> {
    if form != Rows::Csv {
        return rows::write(out, form, all.iter().map(RowJson::of));
    }
    let rows = all.iter().map(|r| RowCsv {
        figures: Figures::of(r),
        slowest_pod: r.slowest.first().map_or("", |(pod, _)| pod),
    });
    rows::write(out, form, rows)
}

/// Writes a row per difference; in CSV only with the quantiles that are compared.
pub fn difference_rows(out: &mut impl Write, all: &[Difference], form: Rows) -> io::Result<()> {
    if form != Rows::Csv {
        let rows = all.iter().map(|d| DifferenceJson {
            measure: d.measure.to_string(),
            group: &d.group,
            judgement: Some(d.judgement),
            p50_difference_ns: d.p50_ns,
            chance: d.chance,
            before: d.before.as_ref().map(RowJson::of),
            after: d.after.as_ref().map(RowJson::of),
        });
        return rows::write(out, form, rows);
    }
    let rows = all.iter().map(|d| {
        let count = |row: &Option<Row>| row.as_ref().map(|r| r.lengths.len());
        let at = |row: &Option<Row>, permille| row.as_ref().map(|r| r.percentile(permille));
        DifferenceCsv {
            measure: d.measure.to_string(),
            group: &d.group,
            judgement: Some(d.judgement),
            chance: d.chance,
            before_count: count(&d.before),
            before_p50_ns: at(&d.before, 500),
            before_p90_ns: at(&d.before, 900),
            after_count: count(&d.after),
            after_p50_ns: at(&d.after, 500),
            after_p90_ns: at(&d.after, 900),
            p50_difference_ns: d.p50_ns,
        }
    });
    rows::write(out, form, rows)
}

/// Writes a table for people; wide with sums and all slowest pods.
pub fn text(out: &mut impl Write, rows: &[Row], wide: bool, colour: bool) -> io::Result<()> {
    let paint = Paint { colour };
    let group = width(rows.iter().map(|r| r.group.as_str()));
    let measure = width(rows.iter().map(|r| r.measure.to_string()));
    let mut head = format!("{:<measure$}", "MEASURE");
    if group > 0 {
        head.push_str(&format!("  {:<group$}", "GROUP"));
    }
    head.push_str(&format!(" {:>6} {:>5} {:>6}", "COUNT", "OPEN", "ERRORS"));
    for q in quantiles(wide) {
        head.push_str(&format!(" {:>8}", q.head));
    }
    head.push_str(&format!(" {:>8}", "MAX"));
    if wide {
        head.push_str(&format!(" {:>8}", "TOTAL"));
    }
    head.push_str(&format!(" {:>6}  SLOWEST", "SHARE"));
    writeln!(out, "{}", paint.bold(&head))?;
    for r in rows {
        let mut line = format!("{:<measure$}", clean(&r.measure.to_string()));
        if group > 0 {
            line.push_str(&format!("  {:<group$}", cut(&clean(&r.group), group)));
        }
        let errors = format!("{:>6}", r.errors);
        line.push_str(&format!(
            " {:>6} {:>5} {}",
            r.lengths.len(),
            r.open,
            if r.errors > 0 {
                paint.red(&errors)
            } else {
                errors
            },
        ));
        let none = r.lengths.is_empty();
        let length = |ns| if none { "-".to_owned() } else { duration(ns) };
        for q in quantiles(wide) {
            line.push_str(&format!(" {:>8}", length(r.percentile(q.permille))));
        }
        line.push_str(&format!(" {:>8}", length(r.max_ns())));
        if wide {
            line.push_str(&format!(" {:>8}", length(r.total_ns)));
        }
        line.push_str(&format!(" {:>6}", share(r)));
        let slowest = if wide {
            let each = r.slowest.iter();
            let each = each.map(|(pod, ns)| format!("{} {}", clean(pod), duration(*ns)));
            each.collect::<Vec<_>>().join(", ")
        } else {
            let first = r.slowest.first();
            first.map_or_else(String::new, |(pod, _)| clean(pod).into_owned())
        };
        if !slowest.is_empty() {
            line.push_str("  ");
            line.push_str(&paint.dim(&slowest));
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn share(r: &Row) -> String {
    r.share_permille
        .map_or_else(String::new, |p| format!("{}.{} %", p / 10, p % 10))
}

/// Returns the width of the widest text, at most 48 characters.
fn width(texts: impl Iterator<Item = impl AsRef<str>>) -> usize {
    let widest = texts.map(|t| t.as_ref().chars().count()).max();
    widest.unwrap_or(0).min(48)
}

/// Writes differences for people, significant ones first; wide with more quantiles.
pub fn differences(
    out: &mut impl Write,
    all: &[Difference],
    wide: bool,
    colour: bool,
) -> io::Result<()> {
    let paint = Paint { colour };
    let group = width(all.iter().map(|d| d.group.as_str()));
    let measure = width(all.iter().map(|d| d.measure.to_string()));
    let mut head = format!("{:<measure$}", "MEASURE");
    if group > 0 {
        head.push_str(&format!("  {:<group$}", "GROUP"));
    }
    head.push_str(&format!(" {:>13} {:>17} {:>17}", "COUNT", "P50", "P90"));
    if wide {
        head.push_str(&format!(" {:>17} {:>17}", "P99", "MAX"));
    }
    head.push_str(&format!(" {:>9}  JUDGEMENT", "P50 BY"));
    writeln!(out, "{}", paint.bold(&head))?;
    for d in all {
        let mut line = format!("{:<measure$}", clean(&d.measure.to_string()));
        if group > 0 {
            line.push_str(&format!("  {:<group$}", cut(&clean(&d.group), group)));
        }
        let side = |row: &Option<Row>, f: &dyn Fn(&Row) -> String| {
            row.as_ref().map_or_else(|| "-".to_owned(), f)
        };
        let pair =
            |f: &dyn Fn(&Row) -> String| format!("{} → {}", side(&d.before, f), side(&d.after, f));
        let at = |permille: usize| {
            pair(&move |r: &Row| match r.lengths.as_slice() {
                [] => "-".to_owned(),
                _ => duration(r.percentile(permille)),
            })
        };
        let by = d.p50_ns.map_or_else(String::new, |ns| {
            let sign = if ns < 0 { '-' } else { '+' };
            format!("{sign}{}", duration(ns.saturating_abs()))
        });
        line.push_str(&format!(
            " {:>13} {:>17} {:>17}",
            pair(&|r: &Row| r.lengths.len().to_string()),
            at(500),
            at(900),
        ));
        if wide {
            line.push_str(&format!(" {:>17} {:>17}", at(990), at(1000)));
        }
        line.push_str(&format!(" {by:>9}  "));
        line.push_str(&match d.judgement {
            Judgement::Slower => paint.red(&judged(d)),
            Judgement::Faster => paint.bold(&judged(d)),
            Judgement::Chance | Judgement::TooFew => paint.dim(&judged(d)),
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn judged(d: &Difference) -> String {
    match d.chance {
        Some(p) if p < 0.001 => format!("{} (p < 0.001)", d.judgement.name()),
        Some(p) => format!("{} (p {p:.3})", d.judgement.name()),
        None => d.judgement.name().to_owned(),
    }
}

/// Writes the rows as summaries in OpenMetrics.
pub fn open_metrics(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    const LENGTH: &str = "kflow_duration_seconds";
    let mut page = Page::new(out);
    page.family(
        LENGTH,
        Kind::Summary,
        "Length of pod starts, their conditions and stages, and CRI calls that ended.",
    )?;
    for r in rows {
        let measure = r.measure.to_string();
        let labels = [("measure", measure.as_str()), ("group", r.group.as_str())];
        for q in &QUANTILES {
            let value = in_seconds(r.percentile(q.permille));
            if !r.lengths.is_empty() {
                let [measure, group] = labels;
                page.sample(LENGTH, &[measure, group, ("quantile", q.label)], value)?;
            }
        }
        let (count, sum) = (format!("{LENGTH}_count"), format!("{LENGTH}_sum"));
        page.sample(&count, &labels, r.lengths.len())?;
        page.sample(&sum, &labels, in_seconds(r.total_ns))?;
    }
    for (name, help, value) in [
        (
            "kflow_open",
            "Begun and not ended.",
            (|r| r.open) as fn(&Row) -> usize,
        ),
        ("kflow_failed", "CRI calls that failed.", |r| r.errors),
    ] {
        page.family(name, Kind::Gauge, help)?;
        for r in rows {
            let measure = r.measure.to_string();
            let labels = [("measure", measure.as_str()), ("group", r.group.as_str())];
            page.sample(name, &labels, value(r))?;
        }
    }
    page.end()
}

fn in_seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}
