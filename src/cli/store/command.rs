//! `kflow store`: lists and tidies the content of a store.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context as _, ensure};
use serde::Serialize;

use super::super::args::store::{AddArgs, LsArgs, OfStore, StoreAction, StoreCommand};
use super::super::{ERROR, OK, out};
#[cfg(feature = "fleet")]
use super::spinner;
use super::{for_writing, shown};
use kflow_export::rows;
use kflow_export::text::clean;
use kflow_model::units::{counted, date_and_clock, size};
use kflow_model::{Nanos, clock};
use kflow_store::add::AddError;
use kflow_store::compact::{compact, hours, prune, would_prune};
use kflow_store::fetch::{cluster, clusters};
use kflow_store::layout::{NO_NODE, Object, once};
use kflow_store::object::StoreError;
use kflow_store::scratch::Scratch;
use kflow_store::{Cluster, Store, Use};

/// `kflow store`
pub(in super::super) fn store(args: &StoreCommand) -> anyhow::Result<u8> {
    let runtime = super::super::runtime()?;
    let done = runtime.block_on(act(&args.what));
    // A read from a file system that hangs is abandoned.
    runtime.shutdown_background();
    done
}

async fn act(what: &StoreAction) -> anyhow::Result<u8> {
    let now = clock::now();
    match what {
        StoreAction::Add(args) => return add(args).await,
        StoreAction::Ls(args) => {
            let (store, all) = of(&args.of).await?;
            list(&store, &all, args).await?;
        }
        StoreAction::Prune(args) => {
            let (store, all) = of(&args.of).await?;
            ensure!(
                !args.keep.is_zero(),
                "--keep 0 keeps nothing: name a time, like 14d"
            );
            let keep = i64::try_from(args.keep.as_nanos()).unwrap_or(i64::MAX);
            let until = Nanos(now.0.saturating_sub(keep));
            for cluster in &all {
                let (done, does) = if args.dry_run {
                    let would = would_prune(&store, cluster, until);
                    (
                        shown("looking for what is too old", would).await?,
                        "would be removed",
                    )
                } else {
                    let done = prune(&store, cluster, until);
                    (shown("removing what is too old", done).await?, "removed")
                };
                out::tell(&format!(
                    "{}: {} {does} ({}) that ended before {until}, {} of the index, and {} of tables",
                    cluster.name,
                    counted(done.segments, "segment"),
                    size(done.bytes),
                    counted(done.rows, "object"),
                    counted(done.tables, "file")
                ));
                if done.unfinished > 0 {
                    out::tell(&format!(
                        "{}: {} removed that never came to an end",
                        cluster.name,
                        counted(done.unfinished, "file")
                    ));
                }
            }
        }
        #[cfg(not(feature = "fleet"))]
        StoreAction::Tables(_) => anyhow::bail!(super::super::WITHOUT_FLEET),
        #[cfg(feature = "fleet")]
        StoreAction::Tables(args) => {
            let (store, all) = of(args).await?;
            for cluster in &all {
                tables(&store, cluster, now).await?;
            }
        }
        StoreAction::Compact(args) => {
            let (store, all) = of(args).await?;
            for cluster in &all {
                let done = shown("merging the index", compact(&store, cluster, now)).await?;
                out::tell(&format!(
                    "{}: {} of the index became {}",
                    cluster.name,
                    counted(done.objects, "object"),
                    done.made
                ));
                if done.unreadable > 0 {
                    out::tell(&format!(
                        "{}: what cannot be read stays: {} of the index",
                        cluster.name,
                        counted(done.unreadable, "object")
                    ));
                }
            }
        }
    }
    Ok(OK)
}

/// The store, and the requested clusters in it.
async fn of(args: &OfStore) -> anyhow::Result<(Store, Vec<Cluster>)> {
    let store = Store::open(&args.url, Use::Read)?;
    let mut all = Vec::new();
    match &args.cluster {
        Some(name) => all.push(cluster(&store, Some(name)).await?),
        None => {
            for name in clusters(&store).await? {
                all.push(Cluster::new(store.root(), &name)?);
            }
        }
    }
    Ok((store, all))
}

/// Adds recordings to a store.
async fn add(args: &AddArgs) -> anyhow::Result<u8> {
    let store = for_writing(&args.url)?;
    let cluster = Cluster::new(store.root(), &args.cluster)?;
    let mut code = OK;
    for file in &args.file {
        let scratch = Scratch::new(&std::env::temp_dir());
        let scratch = scratch.context("cannot make a folder for segments")?;
        let folder = scratch.path().join("spool");
        let node = args.node.as_deref();
        let what = format!("putting {} there", file.display());
        let done = kflow_store::add::add(&store, &cluster, file, node, &folder);
        let done = match shown(&what, done).await {
            // What is wrong with the store is wrong for each.
            Err(e @ (AddError::Send(_) | AddError::Spool(_) | AddError::Scratch { .. })) => {
                return Err(e.into());
            }
            Err(e) if args.file.len() > 1 => {
                out::tell(&format!("{} is left out: {e}", file.display()));
                code = ERROR;
                continue;
            }
            done => done?,
        };
        let node = if done.node.is_empty() {
            NO_NODE
        } else {
            &done.node
        };
        out::tell(&format!(
            "{}: {} observations of {node} in cluster {}, {} to {} UTC, {} of {}",
            file.display(),
            done.observations,
            cluster.name,
            date_and_clock(done.begin, 0, 0),
            date_and_clock(done.end, 0, 0),
            counted(done.segments, "segment"),
            size(done.bytes)
        ));
        if let Some(why) = done.cut {
            out::tell(&format!("{}: its end is missing: {why}", file.display()));
            code = ERROR;
        }
    }
    Ok(code)
}

#[cfg(feature = "fleet")]
async fn tables(store: &Store, cluster: &Cluster, now: Nanos) -> anyhow::Result<()> {
    let bar = spinner("looking which tables are missing");
    let each = |hour| bar.set_message(format!("making the tables of {hour}"));
    let done = kflow_fleet::store::make_all(store, cluster, now, each).await;
    bar.finish_and_clear();
    let done = done?;
    for (path, why) in &done.unreadable {
        out::tell(&format!("{path} is left out: {why}"));
    }
    out::tell(&format!(
        "{}: tables of {} hours made: {} rows, {}; those of {} hours were there",
        cluster.name,
        done.hours,
        done.rows,
        size(done.bytes),
        done.fresh
    ));
    Ok(())
}

/// What the store has of a node.
#[derive(Debug, Default, Serialize)]
struct Row {
    cluster: String,
    node: String,
    /// Begin of its first segment, and end of its last.
    begin_ns: Nanos,
    end_ns: Nanos,
    segments: u64,
    observations: u64,
    bytes: u64,
    /// Number of segments that are missing although a later one of the same run exists.
    missing: u64,
}

struct Node {
    begin: Nanos,
    end: Nanos,
    segments: u64,
    observations: u64,
    bytes: u64,
    /// For each run, the lowest and highest segment number, and the number of segments.
    runs: BTreeMap<String, (u32, u32, u64)>,
}

async fn rows_of(store: &Store, cluster: &Cluster) -> Result<Vec<Row>, StoreError> {
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for hour in hours(store, cluster, &cluster.segments()).await? {
        let all = store.list(&cluster.segments_in(hour)).await?;
        let all = all.iter();
        let mut all: Vec<Object> = all
            .filter_map(|o| Object::parse(&o.location, o.size))
            .collect();
        once(&mut all);
        for o in all {
            let node = nodes.entry(o.node.to_string()).or_insert_with(|| Node {
                begin: o.begin,
                end: o.end,
                segments: 0,
                observations: 0,
                bytes: 0,
                runs: BTreeMap::new(),
            });
            node.begin = node.begin.min(o.begin);
            node.end = node.end.max(o.end);
            node.segments += 1;
            node.observations += o.observations;
            node.bytes += o.bytes;
            let run = node.runs.entry(o.part.run.to_string());
            let (low, high, n) = run.or_insert((o.part.n, o.part.n, 0));
            (*low, *high, *n) = ((*low).min(o.part.n), (*high).max(o.part.n), *n + 1);
        }
    }
    let row = |(name, n): (String, Node)| Row {
        cluster: cluster.name.to_string(),
        node: name,
        begin_ns: n.begin,
        end_ns: n.end,
        segments: n.segments,
        observations: n.observations,
        bytes: n.bytes,
        missing: n
            .runs
            .values()
            .map(|(low, high, n)| (u64::from(high - low) + 1).saturating_sub(*n))
            .sum(),
    };
    Ok(nodes.into_iter().map(row).collect())
}

async fn list(store: &Store, all: &[Cluster], args: &LsArgs) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for cluster in all {
        rows.extend(shown("listing what is there", rows_of(store, cluster)).await?);
    }
    let mut out = out::stdout();
    match args.output.rows() {
        Some(form) => rows::values(&mut out, form, rows.iter())?,
        None if rows.is_empty() => out::tell(&format!("the store {} is empty", store.url())),
        None => {
            let head = [
                "CLUSTER", "NODE", "BEGIN", "END", "SEGMENTS", "SIZE", "MISSING",
            ];
            let mut table = vec![head.map(str::to_owned)];
            table.extend(rows.iter().map(|r| {
                [
                    clean(&r.cluster).into_owned(),
                    clean(&r.node).into_owned(),
                    r.begin_ns.to_rfc3339_seconds(),
                    r.end_ns.to_rfc3339_seconds(),
                    r.segments.to_string(),
                    size(r.bytes),
                    r.missing.to_string(),
                ]
            }));
            let width = |n: usize| {
                let of = |r: &[String; 7]| r.get(n).map_or(0, |c| c.chars().count());
                table.iter().map(of).max().unwrap_or(0)
            };
            let widths: Vec<usize> = (0..head.len()).map(width).collect();
            for row in &table {
                let cells = row.iter().zip(&widths);
                let line: Vec<String> = cells.map(|(c, w)| format!("{c:<w$}")).collect();
                writeln!(out, "{}", line.join("  ").trim_end())?;
            }
        }
    }
    Ok(out.flush()?)
}
