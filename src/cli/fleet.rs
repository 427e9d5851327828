//! `kflow fleet`

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

use super::args::fleet::{FleetArgs, FleetBy, FleetFormat, FleetQuestion};
use super::input::load;
use super::store::shown;
use super::{ERROR, OK, out};
use kflow_fleet::answer;
use kflow_fleet::questions::{Asked, By, Question, compare};
use kflow_fleet::store as tables_of_store;
use kflow_fleet::tables::{self, Made, Seen, Table};
use kflow_fleet::{Engine, Rows, Tables};
use kflow_model::file::{self as files, Access, AtomicFile};
use kflow_model::units::{date_and_clock, size};
use kflow_model::{Nanos, clock};
use kflow_store::fetch;
use kflow_store::layout::{self, Cluster, Hour};
use kflow_store::name;
use kflow_store::{Store, Use};

/// Number of rows in a text table when no question was named.
const MOST: usize = 20;
/// Cluster name for recordings that are not from a store.
const CLUSTER: &str = "default";

impl From<FleetQuestion> for Question {
    fn from(q: FleetQuestion) -> Self {
        match q {
            FleetQuestion::Causes => Self::Causes,
            FleetQuestion::Starts => Self::Starts,
            FleetQuestion::Lengths => Self::Lengths,
            FleetQuestion::Nodes => Self::Nodes,
            FleetQuestion::Images => Self::Images,
        }
    }
}

impl From<FleetBy> for By {
    fn from(by: FleetBy) -> Self {
        match by {
            FleetBy::Cluster => Self::Cluster,
            FleetBy::Node => Self::Node,
            FleetBy::Namespace => Self::Namespace,
            FleetBy::Image => Self::Image,
            FleetBy::Kubelet => Self::Kubelet,
            FleetBy::Runtime => Self::Runtime,
            FleetBy::Hour => Self::Hour,
        }
    }
}

/// `kflow fleet`
pub(super) fn fleet(args: &FleetArgs) -> anyhow::Result<u8> {
    let questions = questions(args)?;
    if let Some(path) = output(args) {
        files::distinct(path, args.file.iter().map(std::path::PathBuf::as_path))?;
    }
    if let Some(url) = &args.store.store {
        return of_store(args, &questions, url);
    }
    let cluster = Cluster::new(&layout::Path::ROOT, CLUSTER)?;
    let mut read: Vec<(Nanos, Made)> = Vec::new();
    let mut range: Option<(Nanos, Nanos)> = None;
    for path in &args.file {
        let session = load(path, None)?;
        let Some(its) = session.range() else {
            bail!("{} has no observation", path.display());
        };
        range = Some(range.map_or(its, |(a, b)| (a.min(its.0), b.max(its.1))));
        let node = &session.header.node;
        let made = tables::of_session(&session, CLUSTER, node, None, &mut Seen::default())?;
        read.push((its.0, made));
    }
    let range = range.context("name recordings")?;
    if args.output == FleetFormat::Parquet {
        let folder = output(args).context("-o parquet wants a folder: name it with -O")?;
        return write_tables(folder, &cluster, &read);
    }
    let mut tables = Tables::default();
    for (_, made) in read {
        for ((table, _), batch) in made {
            tables.batches.entry(table).or_default().push(batch);
        }
    }
    let runtime = runtime()?;
    runtime.block_on(answered(args, &questions, &tables, range, None))?;
    Ok(OK)
}

/// Answers the questions from the tables of a store.
fn of_store(args: &FleetArgs, questions: &[Asked], url: &str) -> anyhow::Result<u8> {
    ensure!(
        args.output != FleetFormat::Parquet,
        "the tables of a store lie in it already: `kflow store tables {url}` makes them"
    );
    let (from, to) = super::store::times(&args.store, clock::now())?;
    let store = Store::open(url, Use::Read)?;
    let runtime = runtime()?;
    let missing = runtime.block_on(async {
        let clusters = match &args.store.cluster {
            Some(name) => vec![fetch::cluster(&store, Some(name)).await?],
            None => {
                let names = fetch::clusters(&store).await?;
                let all = names.iter().map(|n| Cluster::new(store.root(), n));
                all.collect::<Result<Vec<_>, _>>()?
            }
        };
        let mut files = Vec::new();
        let mut missing = Vec::new();
        for cluster in &clusters {
            let find = tables_of_store::find(&store, cluster, from, to);
            let found = shown("looking which tables there are", find).await?;
            files.extend(found.files);
            missing.extend(found.missing.into_iter().map(|h| (cluster.name.clone(), h)));
        }
        ensure!(
            !files.is_empty(),
            "the store {url} has no tables between {from} and {to}: `kflow store tables {url}` makes them of hours that are over, or name \
             another time with --from and --to"
        );
        let fetch = tables_of_store::fetch_files(&store, &files);
        let here = shown("fetching tables", fetch).await?;
        if args.store.verbose {
            for (_, path, bytes) in &files {
                out::tell(&format!("{path} ({})", size(*bytes)));
            }
            out::tell(&format!(
                "{} files of {}: {} bytes fetched",
                files.len(),
                size(files.iter().map(|(.., bytes)| bytes).sum()),
                here.fetched
            ));
        }
        let tables = Tables {
            files: here.files.clone(),
            ..Tables::default()
        };
        answered(args, questions, &tables, (from, to), Some((from, to))).await?;
        anyhow::Ok(missing)
    })?;
    if let [(cluster, first), rest @ ..] = missing.as_slice() {
        let last = rest.last().map_or(first, |(_, h)| h);
        out::tell(&format!(
            "the answer is not whole: of {} hours of {cluster} from {first} to {last} there are segments and no tables; \
             `kflow store tables {url}` makes them when an hour is over for a quarter of one",
            missing.len()
        ));
        return Ok(ERROR);
    }
    Ok(OK)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores())
        .enable_all()
        .build()
        .context("cannot ask the tables")
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn output(args: &FleetArgs) -> Option<&Path> {
    args.output_file.as_deref().filter(|p| *p != Path::new("-"))
}

/// The questions; an error when the output format does not allow them.
fn questions(args: &FleetArgs) -> anyhow::Result<Vec<Asked>> {
    let by = args.by.map(By::from);
    let target_ns = i64::try_from(args.target.as_nanos()).unwrap_or(i64::MAX);
    let asked = |question, by| Asked {
        question,
        by,
        target_ns,
    };
    let mut all = Vec::new();
    for question in &args.question {
        let question = Question::from(*question);
        if let Some(by) = by {
            question.allows(by)?;
        }
        all.push(asked(question, by));
    }
    if args.question.is_empty() {
        let fits = |q: &Question| by.is_none_or(|by| q.allows(by).is_ok());
        all.extend(Question::ALL.into_iter().filter(fits).map(|q| asked(q, by)));
    }
    ensure!(
        args.output != FleetFormat::Csv || args.sql.is_some() || all.len() == 1,
        "-o csv is one table: name one question with --question ({})",
        Question::ALL.map(Question::name).join(", ")
    );
    let part = args.range.is_some() || !args.compare.is_empty() || args.sql.is_some();
    ensure!(
        args.output != FleetFormat::Parquet || !part,
        "-o parquet writes whole tables: leave --range, --compare and --sql out"
    );
    Ok(all)
}

/// Writes the tables of recordings below a folder, in the layout of a store.
fn write_tables(folder: &Path, cluster: &Cluster, read: &[(Nanos, Made)]) -> anyhow::Result<u8> {
    let mut written: BTreeMap<Table, (usize, usize)> = BTreeMap::new();
    for (begin, made) in read {
        for ((table, day), batch) in made {
            let within = cluster.table(table.name(), Hour::of(tables::begin_of(*day)));
            let folder = folder.join(within.as_ref());
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            let path = folder.join(format!("{}.parquet", name::time(*begin)));
            let bytes = tables::encode(*table, std::slice::from_ref(batch))?;
            files::write(&path, Access::Private, &bytes)?;
            let (n, rows) = written.entry(*table).or_default();
            (*n, *rows) = (*n + 1, *rows + batch.num_rows());
        }
    }
    for (table, (n, rows)) in written {
        out::tell(&format!("{}: {rows} rows in {n} files", table.name()));
    }
    Ok(OK)
}

/// Answers the questions from tables that cover the time `known`. Without `--range` and `--compare`, the answer is
/// about all of `known`, or about `usual`.
async fn answered(
    args: &FleetArgs,
    questions: &[Asked],
    tables: &Tables,
    known: (Nanos, Nanos),
    usual: Option<(Nanos, Nanos)>,
) -> anyhow::Result<()> {
    let cores = cores();
    let ranges: Vec<(Nanos, Nanos)> = args
        .range
        .iter()
        .chain(&args.compare)
        .map(|r| r.within(known))
        .collect::<anyhow::Result<_>>()?;
    let engine = Engine::new(tables, ranges.first().copied().or(usual), cores).await?;
    let times = if ranges.is_empty() {
        vec![known]
    } else {
        ranges.clone()
    };
    let answers = if let Some(sql) = &args.sql {
        vec![(None, engine.ask(sql).await?)]
    } else {
        let other = match ranges.get(1) {
            Some(range) => Some(Engine::new(tables, Some(*range), cores).await?),
            None => None,
        };
        let mut answers = Vec::new();
        for asked in questions {
            let mut rows = kflow_fleet::questions::answer(&engine, *asked).await?;
            if let Some(other) = &other {
                let after = kflow_fleet::questions::answer(other, *asked).await?;
                rows = compare(asked.question, rows, after);
            }
            answers.push((Some(asked.question), rows));
        }
        answers
    };
    match output(args) {
        None => {
            let mut out = out::stdout();
            write(args, &times, &answers, &mut out)?;
            out.flush()?;
        }
        Some(path) => {
            let mut out = AtomicFile::create(path, Access::Private)?;
            write(args, &times, &answers, &mut out)
                .with_context(|| format!("cannot write {}", path.display()))?;
            out.commit()?;
        }
    }
    if answers.iter().all(|(_, rows)| rows.rows.is_empty()) {
        out::tell("no row of the tables is about this");
    }
    Ok(())
}

fn write(
    args: &FleetArgs,
    times: &[(Nanos, Nanos)],
    answers: &[(Option<Question>, Rows)],
    out: &mut impl Write,
) -> std::io::Result<()> {
    if let Some(form) = args.output.rows() {
        let named = |(q, rows): &(Option<Question>, Rows)| (q.map(Question::name), rows.clone());
        let all: Vec<_> = answers.iter().map(named).collect();
        return answer::rows(out, &all, form);
    }
    if args.output == FleetFormat::Html {
        return page(args, times, answers, out);
    }
    for (n, (question, rows)) in answers.iter().enumerate() {
        let Some(question) = question else {
            answer::sql_text(out, rows)?;
            continue;
        };
        if n > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", title(*question, args))?;
        let most = if args.question.is_empty() {
            MOST
        } else {
            usize::MAX
        };
        answer::text(out, rows, most)?;
    }
    Ok(())
}

fn page(
    args: &FleetArgs,
    times: &[(Nanos, Nanos)],
    answers: &[(Option<Question>, Rows)],
    out: &mut impl Write,
) -> std::io::Result<()> {
    let titles: Vec<String> = answers
        .iter()
        .map(|(q, _)| match q {
            Some(q) => title(*q, args),
            None => args.sql.clone().unwrap_or_default(),
        })
        .collect();
    let parts = titles.iter().zip(answers);
    let parts: Vec<answer::Part<'_>> = parts
        .map(|(title, (question, rows))| answer::Part {
            title,
            question: *question,
            rows,
        })
        .collect();
    let time = |(from, to): &(Nanos, Nanos)| {
        let second = |at| date_and_clock(at, 0, 0);
        format!("{} to {}", second(*from), second(*to))
    };
    let when: Vec<String> = times.iter().map(time).collect();
    let by = args.by.map(|by| format!(", by {}", By::from(by).name()));
    let mut about = vec![format!(
        "{} UTC{}, by kflow {}",
        when.join(" UTC, beside "),
        by.unwrap_or_default(),
        env!("CARGO_PKG_VERSION")
    )];
    about.push(match &args.store.store {
        Some(url) => format!("Of the store {}", kflow_model::redact::text(url)),
        None => {
            let name = |f: &std::path::PathBuf| {
                let name = f.file_name().unwrap_or(f.as_os_str());
                name.to_string_lossy().into_owned()
            };
            let names: Vec<String> = args.file.iter().map(name).collect();
            format!("Of {}", names.join(", "))
        }
    });
    let once = args.by != Some(FleetBy::Image);
    answer::html(out, "What happened to pods", &about, &parts, once)
}

fn title(question: Question, args: &FleetArgs) -> String {
    let target = kflow_model::units::wait(args.target);
    match question {
        Question::Causes => "Causes, the most frequent first".to_owned(),
        Question::Starts => {
            format!("Starts of pods within {target}, without pulls and init containers")
        }
        Question::Lengths => "How long starts, stages and CRI calls took".to_owned(),
        Question::Nodes => format!("Nodes, those with the most starts over {target} first"),
        Question::Images => "Images, those first whose pulls failed most".to_owned(),
    }
}
