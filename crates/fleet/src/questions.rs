//! The standing questions. Each is one or a few queries, and the columns of an answer are the same
//! whatever is asked for.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::engine::{AskError, Engine, Rows};
use crate::ranks::RANKS;
use kflow_model::Nanos;
use kflow_model::units::HOUR;

/// A standing question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Which causes occurred, and how often.
    Causes,
    /// How many starts were within a target.
    Starts,
    /// How long starts, stages and calls took.
    Lengths,
    /// Which nodes have the most trouble.
    Nodes,
    /// Which images have the most trouble.
    Images,
}

/// What rows are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Cluster,
    Node,
    Namespace,
    Image,
    /// The kubelet's version.
    Kubelet,
    /// The runtime's version.
    Runtime,
    /// The hour, in UTC, in which the row's subject began.
    Hour,
}

/// A question with its options.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub question: Question,
    pub by: Option<By>,
    /// A start that takes longer than this is late, ns.
    pub target_ns: i64,
}

/// The question cannot be grouped this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} are not grouped by {}: {why}", question.name(), by.name())]
pub struct NoGroups {
    pub question: Question,
    pub by: By,
    pub why: &'static str,
}

impl Question {
    pub const ALL: [Self; 5] = [
        Self::Causes,
        Self::Starts,
        Self::Lengths,
        Self::Nodes,
        Self::Images,
    ];
    pub const fn name(self) -> &'static str {
        match self {
            Self::Causes => "causes",
            Self::Starts => "starts",
            Self::Lengths => "lengths",
            Self::Nodes => "nodes",
            Self::Images => "images",
        }
    }
    /// Number of leading columns that identify a row.
    pub const fn keys(self) -> usize {
        match self {
            Self::Causes => 3,
            Self::Lengths => 2,
            Self::Starts | Self::Nodes | Self::Images => 1,
        }
    }
    /// Returns an error if the question cannot be grouped this way.
    pub const fn allows(self, by: By) -> Result<(), NoGroups> {
        let why = match (self, by) {
            (Self::Nodes, _) => "a row is a node",
            (Self::Images, _) => "a row is an image",
            (Self::Causes, By::Image) => "a cause befalls a pod, an owner or a node",
            _ => return Ok(()),
        };
        Err(NoGroups {
            question: self,
            by,
            why,
        })
    }
}

impl By {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Node => "node",
            Self::Namespace => "namespace",
            Self::Image => "image",
            Self::Kubelet => "kubelet",
            Self::Runtime => "runtime",
            Self::Hour => "hour",
        }
    }
}

/// SQL for the group of a row; `time` is the table's time column.
fn group(by: Option<By>, time: &str) -> String {
    match by {
        None => "''".to_owned(),
        Some(By::Cluster) => "cluster".to_owned(),
        Some(By::Node) => "node".to_owned(),
        Some(By::Namespace) => "namespace".to_owned(),
        Some(By::Image) => "image".to_owned(),
        Some(By::Kubelet) => "kubelet_version".to_owned(),
        Some(By::Runtime) => "runtime_version".to_owned(),
        Some(By::Hour) => format!("{time} / {HOUR}"),
    }
}

/// SQL for pods or stages; grouped by image, one row per image of a pod.
fn pods(table: &str, by: Option<By>) -> String {
    if by == Some(By::Image) {
        return format!("(SELECT *, unnest(images) AS image FROM {table})");
    }
    table.to_owned()
}

/// SQL for the columns of every table of durations.
const LENGTHS: &str = "max(ns) AS max_ns, ranks(ns) AS ranks";

/// Answers a question.
pub async fn answer(engine: &Engine, asked: Asked) -> Result<Rows, AskError> {
    let by = asked.by;
    let mut rows = match asked.question {
        Question::Causes => {
            let g = group(by, "begin_ns");
            let sql = format!(
                "SELECT cause, title, {g} AS grp, count(*) AS count, count(*) - count(end_ns) AS open, \
                 CAST(sum(pods) AS BIGINT) AS pods, CAST(sum(length_ns) AS BIGINT) AS total_ns, max(length_ns) AS max_ns, \
                 ranks(length_ns) AS ranks FROM verdicts GROUP BY cause, title, {g} ORDER BY count DESC, total_ns DESC, cause, title, grp"
            );
            engine.ask(&sql).await?
        }
        Question::Starts => {
            let g = group(by, "zero_ns");
            let target = asked.target_ns;
            let sql = format!(
                "SELECT {g} AS grp, count(start_sli_ns) AS count, \
                 count(CASE WHEN start_sli_ns <= {target} THEN 1 END) AS within, \
                 count(CASE WHEN start_open THEN 1 END) AS open, \
                 count(CASE WHEN start_open AND known_ns - zero_ns > {target} THEN 1 END) AS late, \
                 max(start_sli_ns) AS max_ns, ranks(start_sli_ns) AS ranks \
                 FROM {} GROUP BY {g} ORDER BY grp",
                pods("pods", by)
            );
            let mut rows = engine.ask(&sql).await?;
            rows.rows.retain(|r| count(r, 1) + count(r, 3) > 0);
            share(&mut rows);
            rows
        }
        Question::Lengths => lengths(engine, by).await?,
        Question::Nodes => nodes(engine, asked.target_ns).await?,
        Question::Images => {
            let sql = "SELECT image AS grp, count(length_ns) AS count, count(*) - count(length_ns) AS open, \
                 count(CASE WHEN failed THEN 1 END) AS errors, max(length_ns) AS max_ns, ranks(length_ns) AS ranks \
                 FROM calls WHERE method = 'PullImage' GROUP BY image";
            let mut rows = engine.ask(sql).await?;
            ranked(&mut rows);
            let p95 = rows.columns.iter().position(|c| c == "p95_ns");
            rows.rows.sort_by_key(|r| {
                let p95 = p95.map_or(0, |n| count(r, n));
                let name = r.first().and_then(Value::as_str).unwrap_or_default();
                (-count(r, 3), -count(r, 2), -p95, name.to_owned())
            });
            rows
        }
    };
    ranked(&mut rows);
    rename(&mut rows, asked);
    if by == Some(By::Hour) {
        hours(&mut rows);
    }
    Ok(rows)
}

/// Durations of starts, stages and calls, in the order of `kflow stats`.
async fn lengths(engine: &Engine, by: Option<By>) -> Result<Rows, AskError> {
    let mut all = Rows::default();
    let of_pod = [
        ("start", "start_total_ns", "start_open"),
        ("start-sli", "start_sli_ns", "start_open"),
        ("ready", "ready_total_ns", "ready_open"),
    ];
    let mut queries = Vec::new();
    for (measure, ns, open) in of_pod {
        let g = group(by, "zero_ns");
        queries.push(format!(
            "SELECT '{measure}' AS measure, {g} AS grp, count(ns) AS count, count(CASE WHEN open THEN 1 END) AS open, 0 AS errors, {LENGTHS} \
             FROM (SELECT *, {ns} AS ns, {open} AS open FROM {}) WHERE ns IS NOT NULL OR open GROUP BY {g} ORDER BY grp",
            pods("pods", by)
        ));
    }
    let g = group(by, "zero_ns");
    queries.push(format!(
        "SELECT 'stage/' || stage AS measure, {g} AS grp, count(ns) AS count, count(*) - count(ns) AS open, 0 AS errors, {LENGTHS} \
         FROM {} GROUP BY stage, {g} ORDER BY {}, grp",
        pods("stages", by),
        in_order()
    ));
    let g = group(by, "start_ns");
    queries.push(format!(
        "SELECT 'call/' || method AS measure, {g} AS grp, count(ns) AS count, count(*) - count(ns) AS open, \
         count(CASE WHEN failed THEN 1 END) AS errors, {LENGTHS} \
         FROM (SELECT *, length_ns AS ns FROM calls) GROUP BY method, {g} ORDER BY method, grp"
    ));
    for sql in queries {
        let some = engine.ask(&sql).await?;
        all.columns = some.columns;
        // Without GROUP BY, SQL returns a row even if nothing matches.
        let has = |r: &&Vec<Value>| count(r, 2) + count(r, 3) > 0;
        all.rows.extend(some.rows.iter().filter(has).cloned());
    }
    Ok(all)
}

/// SQL that sorts stages in their order.
fn in_order() -> String {
    let stages = kflow_core::flow::Stage::ALL.iter();
    let when = stages.map(|s| format!("WHEN '{}' THEN {}", s.name(), s.index()));
    format!("CASE stage {} END", when.collect::<Vec<_>>().join(" "))
}

/// Nodes, sorted by the number of late starts, then of incidents, then of failed calls, most first.
async fn nodes(engine: &Engine, target: i64) -> Result<Rows, AskError> {
    const OF: [&str; 4] = ["count", "late", "incidents", "errors"];
    let starts = format!(
        "SELECT node, count(start_sli_ns), count(CASE WHEN start_sli_ns > {target} OR start_open AND known_ns - zero_ns > {target} THEN 1 END), \
         max(start_sli_ns), ranks(start_sli_ns) FROM pods WHERE node <> '' GROUP BY node"
    );
    let mut by_node: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let blank = || {
        let mut row = vec![Value::from(0); OF.len()];
        row.extend([Value::Null, Value::Null]);
        row
    };
    let mut put = |rows: Rows, to: &[usize]| {
        for row in rows.rows {
            let mut row = row.into_iter();
            let Some(Value::String(node)) = row.next() else {
                continue;
            };
            let of_it = by_node.entry(node).or_insert_with(blank);
            for (n, value) in to.iter().zip(row) {
                if let Some(cell) = of_it.get_mut(*n) {
                    *cell = value;
                }
            }
        }
    };
    put(engine.ask(&starts).await?, &[0, 1, 4, 5]);
    let incidents = "SELECT node, count(*) FROM verdicts WHERE node <> '' GROUP BY node";
    put(engine.ask(incidents).await?, &[2]);
    let errors =
        "SELECT node, count(CASE WHEN failed THEN 1 END) FROM calls WHERE node <> '' GROUP BY node";
    put(engine.ask(errors).await?, &[3]);
    let mut columns = vec!["grp".to_owned()];
    columns.extend(OF.map(str::to_owned));
    columns.extend(["max_ns".to_owned(), "ranks".to_owned()]);
    let mut rows: Vec<Vec<Value>> = by_node
        .into_iter()
        .map(|(node, row)| std::iter::once(Value::from(node)).chain(row).collect())
        .collect();
    rows.sort_by_key(|r| (-count(r, 2), -count(r, 3), -count(r, 4)));
    Ok(Rows { columns, rows })
}

fn count(row: &[Value], n: usize) -> i64 {
    row.get(n).and_then(Value::as_i64).unwrap_or(0)
}

/// Adds the share of starts within the target, among those that are complete or late.
fn share(rows: &mut Rows) {
    rows.columns.insert(5, "within_permille".to_owned());
    for row in &mut rows.rows {
        let all = count(row, 1) + count(row, 4);
        let share = (all > 0).then(|| count(row, 2) * 1000 / all);
        row.insert(5, share.map_or(Value::Null, Value::from));
    }
}

/// Splits the list of percentiles into columns before the maximum.
fn ranked(rows: &mut Rows) {
    let at = |name: &str| rows.columns.iter().position(|c| c == name);
    let (Some(ranks), Some(max)) = (at("ranks"), at("max_ns")) else {
        return;
    };
    rows.columns.remove(ranks);
    let names = RANKS.map(|p| format!("p{}_ns", p / 10));
    rows.columns.splice(max..max, names);
    for row in &mut rows.rows {
        let list = row.remove(ranks);
        let value = |n| list.get(n).cloned().unwrap_or(Value::Null);
        row.splice(max..max, (0..RANKS.len()).map(value));
    }
}

/// Renames the group's column to what the rows are grouped by.
fn rename(rows: &mut Rows, asked: Asked) {
    let name = match asked.question {
        Question::Nodes => "node",
        Question::Images => "image",
        _ => "group",
    };
    for column in rows.columns.iter_mut().filter(|c| *c == "grp") {
        name.clone_into(column);
    }
}

/// Shows hours as RFC 3339, to the minute.
fn hours(rows: &mut Rows) {
    let Some(at) = rows.columns.iter().position(|c| c == "group") else {
        return;
    };
    for row in &mut rows.rows {
        if let Some(cell) = row.get_mut(at)
            && let Some(hour) = cell.as_i64()
        {
            let text = Nanos(hour.saturating_mul(HOUR)).to_rfc3339();
            *cell = format!("{}Z", text.get(..16).unwrap_or(&text)).into();
        }
    }
}

/// Joins two answers to the same question: columns `before_…` and `after_…` follow the columns that identify a row.
/// Rows of the second answer come first, in their order.
pub fn compare(question: Question, before: Rows, after: Rows) -> Rows {
    let keys = question.keys();
    let split = |mut row: Vec<Value>| {
        let rest = row.split_off(keys.min(row.len()));
        (row, rest)
    };
    let names = if after.columns.is_empty() {
        before.columns
    } else {
        after.columns
    };
    let (mut columns, values): (Vec<String>, Vec<String>) = {
        let (a, b) = names.split_at(keys.min(names.len()));
        (a.to_vec(), b.to_vec())
    };
    for side in ["before", "after"] {
        columns.extend(values.iter().map(|v| format!("{side}_{v}")));
    }
    let key = |row: &[Value]| row.iter().map(Value::to_string).collect::<Vec<_>>();
    let none = vec![Value::Null; values.len()];
    let mut earlier: BTreeMap<Vec<String>, Vec<Vec<Value>>> = BTreeMap::new();
    let mut order = Vec::new();
    for row in before.rows {
        let (about, rest) = split(row);
        order.push(about.clone());
        earlier.entry(key(&about)).or_default().push(rest);
    }
    let mut rows = Vec::new();
    for row in after.rows {
        let (about, rest) = split(row);
        let was = earlier.get_mut(&key(&about)).and_then(Vec::pop);
        rows.push([about, was.unwrap_or_else(|| none.clone()), rest].concat());
    }
    for about in order {
        if let Some(was) = earlier.get_mut(&key(&about)).and_then(Vec::pop) {
            rows.push([about, was, none.clone()].concat());
        }
    }
    Rows { columns, rows }
}

#[cfg(test)]
mod tests;
