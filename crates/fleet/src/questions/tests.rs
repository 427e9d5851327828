use std::sync::Arc;

use serde_json::{Value, json};

use super::{Asked, By, Question, answer, compare};
use crate::tables::{Seen, Table, encode, of_session};
use crate::{Engine, Rows, Tables};
use kflow_core::correlate::World;
use kflow_core::stats::{self, Chosen, GroupBy};
use kflow_engine::{Overview, world_at};
use kflow_model::Nanos;
use kflow_model::session;
use kflow_model::stamp::SECOND;

struct Known {
    world: World,
    overview: Overview,
    range: (Nanos, Nanos),
    tables: Tables,
}

fn known(name: &str) -> Known {
    let path = format!(
        "{}/../../fixtures/sessions/{name}.kflow.zst",
        env!("CARGO_MANIFEST_DIR")
    );
    let session = session::load(path.as_ref()).unwrap();
    let range = session.range().unwrap();
    let world = world_at(&session, range.1, Arc::default());
    let overview = Overview::of(&session.observations, Arc::default(), None, range);
    let node = &session.header.node;
    let made = of_session(&session, "lab", node, None, &mut Seen::default()).unwrap();
    let mut tables = Tables::default();
    for ((table, _), batch) in made {
        tables.batches.entry(table).or_default().push(batch);
    }
    Known {
        world,
        overview,
        range,
        tables,
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap()
}

fn ask(tables: &Tables, range: Option<(Nanos, Nanos)>, question: Question, by: Option<By>) -> Rows {
    let asked = Asked {
        question,
        by,
        target_ns: 5 * SECOND,
    };
    runtime().block_on(async {
        let engine = Engine::new(tables, range, 2).await.unwrap();
        answer(&engine, asked).await.unwrap()
    })
}

fn sql(tables: &Tables, sql: &str) -> Result<Rows, String> {
    runtime().block_on(async {
        let engine = Engine::new(tables, None, 2).await.unwrap();
        engine.ask(sql).await.map_err(|e| e.to_string())
    })
}

/// Measure, group, count, open, errors, p50, p95, p99, maximum.
fn told(rows: &[stats::Row]) -> Vec<Vec<Value>> {
    let has = |r: &&stats::Row| !r.measure.to_string().starts_with("condition/");
    let each = rows.iter().filter(has).map(|r| {
        let at = |permille| match r.lengths.as_slice() {
            [] => Value::Null,
            _ => r.percentile(permille).into(),
        };
        vec![
            json!(r.measure.to_string()),
            json!(r.group),
            json!(r.lengths.len()),
            json!(r.open),
            json!(r.errors),
            at(500),
            at(950),
            at(990),
            at(1000),
        ]
    });
    each.collect()
}

#[test]
fn lengths_are_those_of_stats() {
    for name in ["S1-basics", "S2-stuck-early", "S5-burst", "S6-slowpull"] {
        let k = known(name);
        for (by, group) in [
            (None, GroupBy::All),
            (Some(By::Namespace), GroupBy::Namespace),
            (Some(By::Image), GroupBy::Image),
        ] {
            let rows = ask(&k.tables, None, Question::Lengths, by);
            let columns = "measure group count open errors p50_ns p95_ns p99_ns max_ns";
            assert_eq!(rows.columns.join(" "), columns);
            let stats = stats::rows(&k.world, k.range.1, group, Chosen::default());
            let mut want = told(&stats);
            // A pod without containers has no image.
            let mut rows = rows.rows;
            rows.sort_by_key(|r| r[..2].iter().map(Value::to_string).collect::<Vec<_>>());
            want.sort_by_key(|r| r[..2].iter().map(Value::to_string).collect::<Vec<_>>());
            assert_eq!(rows, want, "{name} by {by:?}");
            assert!(rows.len() > 10);
        }
    }
}

#[test]
fn causes_starts_nodes_and_images_are_those_of_the_recording() {
    let k = known("S2-stuck-early");
    let causes = ask(&k.tables, None, Question::Causes, None);
    let count: i64 = causes.rows.iter().map(|r| r[3].as_i64().unwrap()).sum();
    assert_eq!(count, k.overview.incidents.len() as i64);
    for row in &causes.rows {
        let of = |i: &&kflow_core::diagnose::Incident| {
            i.verdict.cause.map_or(Value::Null, |c| json!(c)) == row[0]
                && *i.verdict.title == *row[1].as_str().unwrap()
        };
        assert_eq!(
            k.overview.incidents.iter().filter(of).count() as i64,
            row[3],
            "{row:?}"
        );
    }
    let by_hour = ask(&k.tables, None, Question::Causes, Some(By::Hour));
    for row in &by_hour.rows {
        assert!(row[2].as_str().unwrap().ends_with(":00Z"), "{row:?}");
    }

    let k = known("S5-burst");
    let starts = ask(&k.tables, None, Question::Starts, None);
    assert_eq!(
        starts.columns.join(" "),
        "group count within open late within_permille p50_ns p95_ns p99_ns max_ns"
    );
    let all = stats::rows(&k.world, k.range.1, GroupBy::All, Chosen::default());
    let sli = all
        .iter()
        .find(|r| r.measure.to_string() == "start-sli")
        .unwrap();
    let within = sli.lengths.iter().filter(|ns| **ns <= 5 * SECOND).count();
    let row = &starts.rows[0];
    assert_eq!(
        (&row[1], &row[2], &row[3]),
        (&json!(sli.lengths.len()), &json!(within), &json!(sli.open))
    );
    assert!(
        row[2].as_i64() > Some(0) && row[2].as_i64() < row[1].as_i64(),
        "{row:?}"
    );
    let nodes = ask(&k.tables, None, Question::Nodes, None);
    assert_eq!(
        nodes.columns[..5].join(" "),
        "node count late incidents errors"
    );
    assert_eq!(nodes.rows[0][1], json!(sli.lengths.len()));
    let k = known("S6-slowpull");
    let images = ask(&k.tables, None, Question::Images, None);
    assert_eq!(images.columns[0], "image");
    let pulls = images
        .rows
        .iter()
        .map(|r| r[1].as_i64().unwrap() + r[2].as_i64().unwrap());
    let of = |c: &&std::sync::Arc<kflow_core::correlate::Call>| c.method == "PullImage";
    assert_eq!(
        pulls.sum::<i64>(),
        k.world.calls().iter().filter(of).count() as i64
    );
}

/// Writes the same tables to files, named as in the layout.
fn in_files(tables: &Tables, dir: &std::path::Path) -> Tables {
    let mut files = Tables::default();
    for (table, batches) in &tables.batches {
        let folder = dir.join(table.name()).join("date=2026-11-24");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("08.parquet");
        std::fs::write(&path, encode(*table, batches).unwrap()).unwrap();
        files.files.entry(*table).or_default().push(path);
    }
    files
}

#[test]
fn files_and_memory_give_the_same_answers_and_ranges_add_up() {
    let mut told = std::collections::BTreeSet::new();
    // All pods of the first session are gone by its end, and those of the second are all well.
    let both = ["S2-stuck-early", "S5-burst"].map(|name| {
        let k = known(name);
        let dir = tempfile::tempdir().unwrap();
        let files = in_files(&k.tables, dir.path());
        for question in Question::ALL {
            let memory = ask(&k.tables, None, question, None);
            assert_eq!(ask(&files, None, question, None), memory, "{question:?}");
            told.extend((!memory.rows.is_empty()).then_some(question));
        }
        (k, files, dir)
    });
    assert_eq!(told.len(), Question::ALL.len(), "{told:?}");
    let (k, files, _dir) = &both[0];
    let middle = k.range.0.plus(k.range.1.since(k.range.0) / 2);
    let halves = [(Nanos(i64::MIN), middle), (middle, Nanos(i64::MAX))];
    let of = |range| ask(files, range, Question::Lengths, None);
    let counts = |rows: &Rows| -> i64 { rows.rows.iter().map(|r| r[2].as_i64().unwrap()).sum() };
    let [before, after] = halves.map(|h| of(Some(h)));
    assert!(counts(&before) > 0 && counts(&after) > 0);
    assert_eq!(counts(&before) + counts(&after), counts(&of(None)));
    // A file of another table.
    let calls = files.files[&Table::Calls].clone();
    let wrong = Tables {
        files: [(Table::Pods, calls)].into(),
        ..Tables::default()
    };
    let e = runtime()
        .block_on(Engine::new(&wrong, None, 2))
        .err()
        .unwrap();
    assert!(e.to_string().contains("has the table calls"), "{e}");
}

#[test]
fn sql_reads_and_never_writes() {
    let k = known("S5-burst");
    let rows = sql(
        &k.tables,
        "SELECT method, count(*) AS n, p95(length_ns) AS p95, ranks(length_ns) AS r FROM calls GROUP BY method ORDER BY n DESC, method LIMIT 2",
    )
    .unwrap();
    assert_eq!(rows.columns, ["method", "n", "p95", "r"]);
    assert_eq!(rows.rows.len(), 2);
    assert_eq!(rows.rows[0][2], rows.rows[0][3][1]);
    let none = sql(
        &k.tables,
        "SELECT p50(length_ns), ranks(length_ns) FROM calls WHERE false",
    )
    .unwrap();
    assert_eq!(none.rows, [vec![Value::Null, json!([null, null, null])]]);
    let twice = sql(
        &k.tables,
        "SELECT a.uid, b.uid FROM pods a JOIN pods b ON a.uid = b.uid LIMIT 1",
    )
    .unwrap();
    assert_eq!(twice.rows[0][0], twice.rows[0][1]);
    let times = sql(&k.tables, "SELECT to_timestamp_nanos(start_ns) AS at, 1.5 AS x, now() > to_timestamp_nanos(0) AS y FROM calls LIMIT 1").unwrap();
    assert!(
        times.rows[0][0].as_str().unwrap().starts_with("2026-"),
        "{times:?}"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.csv");
    for (bad, words) in [
        (
            format!("COPY calls TO '{}'", path.display()),
            "DML not supported",
        ),
        ("DROP VIEW calls".to_owned(), "DDL not supported"),
        (
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'".to_owned(),
            "DDL not supported",
        ),
        ("SELECT * FROM '/etc/passwd'".to_owned(), "not found"),
        (
            "SET datafusion.execution.batch_size = 1".to_owned(),
            "not supported",
        ),
        ("SELEC 1".to_owned(), "cannot answer"),
        ("SELECT nothing FROM calls".to_owned(), "nothing"),
    ] {
        let e = sql(&k.tables, &bad).unwrap_err();
        assert!(e.contains(words), "{bad}: {e}");
    }
    assert!(!path.exists());
    let much = "SELECT 1 FROM calls a, calls b";
    assert!(
        sql(&k.tables, much)
            .unwrap_err()
            .contains("more than 1000000 rows")
    );
}

#[test]
fn a_comparison_has_every_row_of_both() {
    let rows = |all: &[(&str, i64)]| Rows {
        columns: ["group", "count", "max_ns"].map(str::to_owned).to_vec(),
        rows: all
            .iter()
            .map(|(g, n)| vec![json!(g), json!(n), Value::Null])
            .collect(),
    };
    let both = compare(
        Question::Starts,
        rows(&[("a", 1), ("b", 2)]),
        rows(&[("c", 3), ("b", 4)]),
    );
    assert_eq!(
        both.columns.join(" "),
        "group before_count before_max_ns after_count after_max_ns"
    );
    let null = Value::Null;
    assert_eq!(
        both.rows,
        [
            vec![
                json!("c"),
                null.clone(),
                null.clone(),
                json!(3),
                null.clone()
            ],
            vec![json!("b"), json!(2), null.clone(), json!(4), null.clone()],
            vec![json!("a"), json!(1), null.clone(), null.clone(), null],
        ]
    );
}

#[test]
fn a_question_without_such_groups_says_so() {
    assert!(Question::Lengths.allows(By::Image).is_ok());
    let e = Question::Causes.allows(By::Image).unwrap_err().to_string();
    assert!(e.starts_with("causes are not grouped by image: "), "{e}");
}
