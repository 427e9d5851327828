//! How long the standing questions take over ten million calls.
//!
//! The rows are **synthesised**: 1,000 nodes, a day, 23 methods and 200 images with the frequencies and lengths that a seed gives. No
//! recording has so many, and the time depends on their number and on how many different values a column has, not on what they say.
//!
//!     cargo bench --profile fleet -p kflow-fleet --bench ask                  # makes them, asks each question some times, tells seconds
//!     cargo bench --profile fleet -p kflow-fleet --bench ask -- make FOLDER   # makes a store of them, for `kflow fleet --store file://FOLDER`

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark may give up when its rows are broken"
)]

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, ListArray, RecordBatch, StringArray};
use kflow_fleet::questions::answer;
use kflow_fleet::tables::encode;
use kflow_fleet::{Asked, Engine, Question, Table, Tables};
use kflow_model::Nanos;
use kflow_model::clock::monotonic;
use kflow_model::cri::method;
use kflow_model::stamp::{MICRO, SECOND};
use kflow_model::units::HOUR;

const CALLS: usize = 10_000_000;
const PODS: usize = 100_000;
const INCIDENTS: usize = 10_000;
const NODES: usize = 1_000;
const IMAGES: usize = 200;
const HOURS: i64 = 24;
/// 2026-11-24T00:00:00Z
const BEGIN: i64 = 1_795_478_400 * SECOND;
const CORES: usize = 2;
const TIMES: usize = 5;

/// A length with a long tail: most near its scale, one in a thousand some hundred times as long.
fn length(rng: &mut fastrand::Rng, scale: i64) -> i64 {
    let x = rng.f64().max(1e-9);
    (scale as f64 * x.powf(-0.8)) as i64
}

fn node(n: usize) -> String {
    format!("node-{n:04}")
}

fn image(n: usize) -> String {
    format!("registry.example/team-{}/app-{n}:v{}", n % 17, n % 9)
}

/// Rows of a table: what `value` has no value for is empty, false, 0 or null.
fn batch(
    table: Table,
    rows: usize,
    mut value: impl FnMut(&str) -> Option<ArrayRef>,
) -> RecordBatch {
    use arrow_schema::DataType;
    let schema = table.schema();
    let columns = schema.fields().iter().map(|f| {
        value(f.name()).unwrap_or_else(|| match f.data_type() {
            DataType::Int64 if f.is_nullable() => Arc::new(Int64Array::new_null(rows)) as ArrayRef,
            DataType::Int64 => Arc::new(Int64Array::from(vec![0; rows])),
            DataType::Boolean => Arc::new(BooleanArray::from(vec![false; rows])),
            DataType::Utf8 if f.is_nullable() => Arc::new(StringArray::new_null(rows)),
            DataType::Utf8 => Arc::new(StringArray::from(vec![""; rows])),
            other => panic!("no values of {other}"),
        })
    });
    let columns = columns.collect();
    RecordBatch::try_new(schema, columns).expect("columns are those of the schema")
}

fn ints(all: Vec<i64>) -> Option<ArrayRef> {
    Some(Arc::new(Int64Array::from(all)))
}
fn texts(all: Vec<String>) -> Option<ArrayRef> {
    Some(Arc::new(StringArray::from(all)))
}

fn calls(rng: &mut fastrand::Rng, hour: i64, rows: usize) -> RecordBatch {
    let mut start: Vec<i64> = (0..rows)
        .map(|_| BEGIN + hour * HOUR + rng.i64(0..HOUR))
        .collect();
    start.sort_unstable();
    let methods: Vec<usize> = (0..rows)
        .map(|_| (rng.f64().powi(3) * method::ALL.len() as f64) as usize)
        .collect();
    let lengths: Vec<i64> = methods
        .iter()
        .map(|m| length(rng, (*m as i64 + 1) * 300 * MICRO))
        .collect();
    let nodes: Vec<usize> = (0..rows).map(|_| rng.usize(0..NODES)).collect();
    batch(Table::Calls, rows, |column| match column {
        "cluster" => texts(vec!["synthesised".into(); rows]),
        "node" => texts(nodes.iter().map(|n| node(*n)).collect()),
        "kubelet_version" => texts(
            nodes
                .iter()
                .map(|n| format!("v1.{}.2", 34 + n % 3))
                .collect(),
        ),
        "runtime_version" => texts(
            nodes
                .iter()
                .map(|n| format!("containerd://2.{}.0", n % 2))
                .collect(),
        ),
        "start_ns" => ints(start.clone()),
        "end_ns" => ints(start.iter().zip(&lengths).map(|(a, b)| a + b).collect()),
        "length_ns" => ints(lengths.clone()),
        "failed" => Some(Arc::new(BooleanArray::from(
            (0..rows).map(|_| rng.u32(0..500) == 0).collect::<Vec<_>>(),
        ))),
        "conn" => ints((0..rows).map(|_| rng.i64(1..5)).collect()),
        "stream" => ints((0..rows as i64).map(|n| n * 2 + 1).collect()),
        "service" => texts(vec!["runtime.v1.RuntimeService".into(); rows]),
        "method" => texts(methods.iter().map(|m| method::ALL[*m].to_owned()).collect()),
        "code" => texts(vec!["OK".into(); rows]),
        "namespace" => texts(
            (0..rows)
                .map(|_| format!("team-{}", rng.u32(0..40)))
                .collect(),
        ),
        "pod_uid" | "sandbox_id" => texts(
            (0..rows)
                .map(|_| format!("{:032x}", rng.u128(0..100_000)))
                .collect(),
        ),
        "image" => texts(
            methods
                .iter()
                .map(|m| {
                    if *m % 5 == 0 {
                        image(rng.usize(0..IMAGES))
                    } else {
                        String::new()
                    }
                })
                .collect(),
        ),
        _ => None,
    })
}

fn pods(rng: &mut fastrand::Rng, hour: i64, rows: usize) -> RecordBatch {
    let mut zero: Vec<i64> = (0..rows)
        .map(|_| BEGIN + hour * HOUR + rng.i64(0..HOUR))
        .collect();
    zero.sort_unstable();
    batch(Table::Pods, rows, |column| match column {
        "cluster" => texts(vec!["synthesised".into(); rows]),
        "node" => texts((0..rows).map(|_| node(rng.usize(0..NODES))).collect()),
        "namespace" => texts(
            (0..rows)
                .map(|_| format!("team-{}", rng.u32(0..40)))
                .collect(),
        ),
        "uid" | "name" => texts((0..rows).map(|n| format!("{hour}-{n}")).collect()),
        "images" => {
            let of = |n: usize| Some(vec![Some(image(n % IMAGES))]);
            let mut list =
                arrow_array::builder::ListBuilder::new(arrow_array::builder::StringBuilder::new())
                    .with_field(arrow_schema::Field::new(
                        "item",
                        arrow_schema::DataType::Utf8,
                        false,
                    ));
            for n in 0..rows {
                for image in of(n).into_iter().flatten().flatten() {
                    list.values().append_value(image);
                }
                list.append(true);
            }
            let list: ListArray = list.finish();
            Some(Arc::new(list))
        }
        "zero_ns" | "created_ns" => ints(zero.clone()),
        "start_total_ns" | "start_sli_ns" | "ready_total_ns" => {
            ints((0..rows).map(|_| length(rng, 2 * SECOND)).collect())
        }
        stage if stage.ends_with("_begin_ns") => ints(zero.clone()),
        stage if stage.ends_with("_ns") && !stage.ends_with("precision_ns") => {
            ints((0..rows).map(|_| length(rng, SECOND / 5)).collect())
        }
        _ => None,
    })
}

fn verdicts(rng: &mut fastrand::Rng, hour: i64, rows: usize) -> RecordBatch {
    batch(Table::Verdicts, rows, |column| match column {
        "node" => texts((0..rows).map(|_| node(rng.usize(0..NODES))).collect()),
        "begin_ns" => ints(vec![BEGIN + hour * HOUR; rows]),
        "length_ns" => ints((0..rows).map(|_| length(rng, 30 * SECOND)).collect()),
        "cause" | "title" => texts((0..rows).map(|n| format!("KF{}", 100 + n % 90)).collect()),
        _ => None,
    })
}

/// Makes a store; bytes of its calls.
fn make(folder: &Path) -> u64 {
    let mut rng = fastrand::Rng::with_seed(13);
    let mut bytes = 0;
    for hour in 0..HOURS {
        let part =
            |all: usize| all / HOURS as usize + usize::from(hour == 0) * (all % HOURS as usize);
        for (table, batch) in [
            (Table::Calls, calls(&mut rng, hour, part(CALLS))),
            (Table::Pods, pods(&mut rng, hour, part(PODS))),
            (Table::Verdicts, verdicts(&mut rng, hour, part(INCIDENTS))),
        ] {
            let to = folder
                .join("synthesised/tables")
                .join(table.name())
                .join("date=2026-11-24");
            std::fs::create_dir_all(&to).expect("a folder");
            let file = encode(table, &[batch]).expect("a file");
            if table == Table::Calls {
                bytes += file.len() as u64;
            }
            std::fs::write(to.join(format!("{hour:02}.0.parquet")), file).expect("written");
        }
    }
    bytes
}

fn files(folder: &Path) -> Tables {
    let mut tables = Tables::default();
    for table in Table::ALL {
        let of = folder
            .join("synthesised/tables")
            .join(table.name())
            .join("date=2026-11-24");
        let Ok(all) = std::fs::read_dir(of) else {
            continue;
        };
        let mut all: Vec<_> = all.map(|e| e.expect("a file").path()).collect();
        all.sort();
        tables.files.insert(table, all);
    }
    tables
}

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    if let [make_it, folder] = args.as_slice()
        && make_it == "make"
    {
        make(Path::new(folder));
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let bytes = make(dir.path());
    let tables = files(dir.path());
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{CALLS} synthesised calls of {NODES} nodes and {HOURS} hours: {:.1} bytes each as Parquet, {} files",
        bytes as f64 / CALLS as f64,
        tables.files[&Table::Calls].len()
    )
    .expect("told");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CORES)
        .build()
        .expect("a runtime");
    let mut questions: Vec<(String, Option<kflow_fleet::By>, Vec<Question>)> =
        vec![("all of them".to_owned(), None, Question::ALL.to_vec())];
    for question in Question::ALL {
        questions.push((question.name().to_owned(), None, vec![question]));
    }
    for by in [
        kflow_fleet::By::Node,
        kflow_fleet::By::Image,
        kflow_fleet::By::Kubelet,
    ] {
        let name = format!("lengths --by {}", by.name());
        questions.push((name, Some(by), vec![Question::Lengths]));
    }
    for (name, by, of) in questions {
        let mut took = Vec::new();
        for _ in 0..TIMES {
            let begun = monotonic();
            runtime.block_on(async {
                let range = (Nanos(BEGIN), Nanos(BEGIN + HOURS * HOUR));
                let engine = Engine::new(&tables, Some(range), CORES)
                    .await
                    .expect("opened");
                for question in &of {
                    let asked = Asked {
                        question: *question,
                        by,
                        target_ns: 5 * SECOND,
                    };
                    let rows = answer(&engine, asked).await.expect("answered");
                    assert!(!rows.rows.is_empty());
                }
            });
            took.push(begun.elapsed().as_secs_f64());
        }
        took.sort_by(f64::total_cmp);
        writeln!(
            out,
            "{name:<22} {:.2} s (of {TIMES} times the middle; {:.2} to {:.2})",
            took[TIMES / 2],
            took[0],
            took[TIMES - 1]
        )
        .expect("told");
    }
}
