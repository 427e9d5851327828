//! The tables in a store: made of its segments hour by hour, and found for queries.
//!
//! A row belongs to the hour in which its subject begins, and has what is known some minutes after the end of that
//! hour ([`SETTLED`]): a pod that is created in the last second of an hour is Ready by then, or hangs. What lasts
//! longer than that is shown as still going on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use arrow_array::RecordBatch;
use kflow_model::session::{self, SessionError};
use kflow_model::units::MINUTE;
use kflow_model::{Nanos, Text};
use kflow_store::compact::{hours, hours_between};
use kflow_store::fetch::{FetchError, Want, fetch, plan};
use kflow_store::layout::{Hour, NO_NODE, Object, ObjectMeta, Path, last, table_hour, table_time};
use kflow_store::object::StoreError;
use kflow_store::{Cluster, Store};

use crate::tables::{Seen, Table, TableError, encode, of_session};

/// How long after an hour's end its tables are made, ns.
pub const SETTLED: i64 = 15 * MINUTE;
/// Most rows of a file; the table of an hour with more rows has several files.
const ROWS: usize = 4_000_000;
/// Suffix of a file.
const ENDING: &str = ".parquet";

#[derive(Debug, thiserror::Error)]
pub enum StoreTablesError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(transparent)]
    File(#[from] kflow_model::file::FileError),
    #[error("cannot make a file in {folder}: {source}")]
    Scratch {
        folder: String,
        source: std::io::Error,
    },
}

/// The result of making tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Hours whose tables existed already and to which no segments were added since.
    pub fresh: u64,
    pub hours: u64,
    pub rows: u64,
    pub bytes: u64,
    /// Segments that could not be read: path and reason.
    pub unreadable: Vec<(String, String)>,
}

/// Makes the tables of every hour that ended at least [`SETTLED`] before `now`, if they do not exist or segments were
/// added since. Processes that do so at the same time write the same.
pub async fn make_all(
    store: &Store,
    cluster: &Cluster,
    now: Nanos,
    mut each: impl FnMut(Hour),
) -> Result<Made, StoreTablesError> {
    let mut done = Made::default();
    for hour in hours(store, cluster, &cluster.segments()).await? {
        if hour.end().plus(SETTLED) > now {
            continue;
        }
        if is_fresh(store, cluster, hour).await? {
            done.fresh += 1;
            continue;
        }
        each(hour);
        make_hour(store, cluster, hour, &mut done).await?;
        done.hours += 1;
    }
    Ok(done)
}

/// Returns the files of an hour of a table, sorted by number.
async fn files(
    store: &Store,
    cluster: &Cluster,
    table: Table,
    hour: Hour,
) -> Result<Vec<ObjectMeta>, StoreError> {
    let folder = cluster.table(table.name(), hour);
    let mut all = store.list(&folder).await?;
    all.retain(|o| table_hour(&o.location) == Some(hour));
    Ok(all)
}

/// True when the tables of an hour exist and no segment of that hour or the next was added later.
async fn is_fresh(store: &Store, cluster: &Cluster, hour: Hour) -> Result<bool, StoreError> {
    let mut made = None;
    for table in Table::ALL {
        let all = files(store, cluster, table, hour).await?;
        let Some(first) = all.iter().map(|o| o.last_modified).min() else {
            return Ok(false);
        };
        made = Some(made.unwrap_or(first).min(first));
    }
    for of in [hour, Hour::of(hour.end())] {
        let came = store.list(&cluster.segments_in(of)).await?;
        let later = |o: &ObjectMeta| made.is_none_or(|m| o.last_modified > m);
        // Segments of the next hour that begin after its first minutes concern no row of this hour.
        let concerns = |o: &ObjectMeta| {
            of == hour
                || Object::parse(&o.location, o.size)
                    .is_none_or(|s| s.begin < hour.end().plus(SETTLED))
        };
        if came.iter().any(|o| concerns(o) && later(o)) {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn make_hour(
    store: &Store,
    cluster: &Cluster,
    hour: Hour,
    done: &mut Made,
) -> Result<(), StoreTablesError> {
    let folders = store.folders(&cluster.segments_in(hour)).await?;
    let mut nodes: Vec<Text> = folders.iter().map(|f| last(f).into()).collect();
    // The recordings of nodes tell the same of their pods as the cluster's, and more. It has the pods of nodes that
    // record nothing.
    nodes.sort_by_key(|n| (n == NO_NODE, n.clone()));
    let mut seen = Seen::of(nodes.iter().filter(|n| *n != NO_NODE).cloned());
    let mut writer = Writer {
        store,
        cluster,
        hour,
        waiting: BTreeMap::new(),
        parts: BTreeMap::new(),
    };
    for node in nodes {
        for (table, batch) in of_node(store, cluster, hour, &node, &mut seen, done).await? {
            done.rows += batch.num_rows() as u64;
            let waiting = writer.waiting.entry(table).or_default();
            waiting.push(batch);
            if waiting.iter().map(RecordBatch::num_rows).sum::<usize>() >= ROWS {
                done.bytes += writer.write(table).await?;
            }
        }
    }
    for table in Table::ALL {
        done.bytes += writer.finish(table).await?;
    }
    Ok(())
}

/// Returns the rows of one node's recording.
async fn of_node(
    store: &Store,
    cluster: &Cluster,
    hour: Hour,
    node: &Text,
    seen: &mut Seen,
    done: &mut Made,
) -> Result<Vec<(Table, RecordBatch)>, StoreTablesError> {
    let want = Want {
        cluster: Some(cluster.name.to_string()),
        node: Some(node.to_string()),
        pod: None,
        from: hour.begin(),
        to: hour.end().plus(SETTLED),
    };
    let plan = plan(store, &want).await?;
    let scratch = tempfile::Builder::new().suffix(".kflow.zst").tempfile();
    let scratch = scratch.map_err(|source| StoreTablesError::Scratch {
        folder: std::env::temp_dir().display().to_string(),
        source,
    })?;
    let path = scratch.into_temp_path();
    let fetched = fetch(store, &plan, None, &path, |_| {}).await?;
    done.unreadable.extend(fetched.unreadable);
    if fetched.observations == 0 {
        return Ok(Vec::new());
    }
    let session = session::load(&path)?;
    let node = if node == NO_NODE { "" } else { node };
    let range = Some((hour.begin(), hour.end()));
    let made = of_session(&session, &cluster.name, node, range, seen)?;
    Ok(made.into_iter().map(|((t, _), batch)| (t, batch)).collect())
}

struct Writer<'a> {
    store: &'a Store,
    cluster: &'a Cluster,
    hour: Hour,
    waiting: BTreeMap<Table, Vec<RecordBatch>>,
    /// Number of files written.
    parts: BTreeMap<Table, u32>,
}

impl Writer<'_> {
    fn path(&self, table: Table, part: u32) -> Path {
        let folder = self.cluster.table(table.name(), self.hour);
        folder.join(format!("{:02}.{part}{ENDING}", self.hour.of_day()))
    }

    /// Writes the waiting rows to a file. Returns its size in bytes.
    async fn write(&mut self, table: Table) -> Result<u64, StoreTablesError> {
        let batches = self.waiting.remove(&table).unwrap_or_default();
        let bytes = encode(table, &batches)?;
        let part = self.parts.entry(table).or_default();
        let n = *part;
        *part += 1;
        let len = bytes.len() as u64;
        self.store.put(&self.path(table, n), bytes).await?;
        Ok(len)
    }

    /// Writes the remaining rows, and removes files that an earlier run had in addition. A table without rows gets an
    /// empty file.
    async fn finish(&mut self, table: Table) -> Result<u64, StoreTablesError> {
        let mut bytes = 0;
        if self.waiting.contains_key(&table) || !self.parts.contains_key(&table) {
            bytes = self.write(table).await?;
        }
        let parts = self.parts.get(&table).copied().unwrap_or(0);
        let kept: BTreeSet<Path> = (0..parts).map(|n| self.path(table, n)).collect();
        for file in files(self.store, self.cluster, table, self.hour).await? {
            if !kept.contains(&file.location) {
                self.store.remove(&file.location).await?;
            }
        }
        Ok(bytes)
    }
}

/// The tables of a time range.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Table, path and size in bytes.
    pub files: Vec<(Table, Path, u64)>,
    /// Hours that have segments but no tables.
    pub missing: Vec<Hour>,
}

/// Finds the tables of the hours between two times.
pub async fn find(
    store: &Store,
    cluster: &Cluster,
    from: Nanos,
    to: Nanos,
) -> Result<Found, StoreError> {
    let mut found = Found::default();
    let mut has: BTreeSet<Hour> = BTreeSet::new();
    for table in Table::ALL {
        for day in store.folders(&cluster.tables(table.name())).await? {
            // The time of the day's folder is that of a file with the whole day.
            let whole = table_time(&day.clone().join(ENDING));
            if whole.is_none_or(|(begin, end)| begin > to || end <= from) {
                continue;
            }
            for file in store.list(&day).await? {
                let Some((begin, end)) = table_time(&file.location) else {
                    continue;
                };
                if begin <= to && end > from {
                    has.extend(table_hour(&file.location));
                    found.files.push((table, file.location, file.size));
                }
            }
        }
    }
    let segments = hours_between(store, cluster, &cluster.segments(), from, to).await?;
    found.missing = segments.into_iter().filter(|h| !has.contains(h)).collect();
    Ok(found)
}

/// The files of tables on this machine. Fetched files exist as long as this value.
#[derive(Debug)]
pub struct Here {
    pub files: BTreeMap<Table, Vec<PathBuf>>,
    /// Bytes that were fetched; 0 for a store that is a folder.
    pub fetched: u64,
    /// The folder of fetched files; removed on drop.
    scratch: Option<tempfile::TempDir>,
}

/// Fetches the files that are not on this machine.
pub async fn fetch_files(
    store: &Store,
    found: &[(Table, Path, u64)],
) -> Result<Here, StoreTablesError> {
    let mut here = Here {
        files: BTreeMap::new(),
        fetched: 0,
        scratch: None,
    };
    if let Some(folder) = folder_of(store) {
        for (table, path, _) in found {
            let of_it = here.files.entry(*table).or_default();
            of_it.push(folder.join(path.as_ref()));
        }
        return Ok(here);
    }
    let failed = |source| StoreTablesError::Scratch {
        folder: std::env::temp_dir().display().to_string(),
        source,
    };
    let scratch = tempfile::Builder::new().prefix("kflow-tables-").tempdir();
    let scratch = scratch.map_err(failed)?;
    for (n, (table, path, _)) in found.iter().enumerate() {
        let bytes = store.get(path).await?;
        here.fetched += bytes.len() as u64;
        let to = scratch.path().join(format!("{n}{ENDING}"));
        kflow_model::file::write(&to, kflow_model::file::Access::Private, &bytes)?;
        here.files.entry(*table).or_default().push(to);
    }
    here.scratch = Some(scratch);
    Ok(here)
}

/// Returns the folder of a store that is one; `None` for object storage.
fn folder_of(store: &Store) -> Option<PathBuf> {
    let url = url::Url::parse(store.url()).ok()?;
    (url.scheme() == "file").then(|| url.to_file_path().ok())?
}

#[cfg(test)]
mod tests;
