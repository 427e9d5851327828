//! Merges objects into fewer and larger ones, and removes old ones. Any process may do so at any time, several at
//! once too.
//!
//! Only the index is merged: segments stay as they are, and their names tell what is in them. Merged objects are
//! removed after the object that holds their rows has been written, and that object is named by its content. So a
//! process that is interrupted, or that does the same at the same time, removes no row that is not in another object.

use std::time::Duration;

use kflow_model::Nanos;
use object_store::path::Path;

use crate::index::Index;
use crate::layout::{
    Cluster, Hour, Object, ObjectMeta, is_rows, last, merged, rows_end, table_time,
};
use crate::object::{Store, StoreError};
use crate::spool::LONGEST;

/// The result of merging the objects of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Objects that were read, merged and removed.
    pub objects: u64,
    /// Objects that were written.
    pub made: u64,
    /// Objects that could not be read, and were left as they are.
    pub unreadable: u64,
}

impl std::ops::AddAssign for Merged {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.made += other.made;
        self.unreadable += other.unreadable;
    }
}

/// Merges all index objects below `folder` into one object in it.
pub async fn merge_rows(store: &Store, folder: &Path) -> Result<Merged, StoreError> {
    let mut all = store.list(folder).await?;
    all.retain(|o| is_rows(&o.location));
    if all.is_empty() {
        return Ok(Merged::default());
    }
    if let [one] = all.as_slice()
        && right_here(&one.location, folder)
    {
        return Ok(Merged::default());
    }
    merge(store, folder, all).await
}

/// Does the same with little memory: merges index objects in deeper folders, as nodes wrote them, in groups of up to
/// `most` bytes. Several objects may result, and objects that were merged before stay as they are.
pub async fn merge_some(store: &Store, folder: &Path, most: u64) -> Result<Merged, StoreError> {
    let mut all = store.list(folder).await?;
    all.retain(|o| is_rows(&o.location) && !right_here(&o.location, folder));
    let mut done = Merged::default();
    let mut some: Vec<ObjectMeta> = Vec::new();
    let mut bytes = 0;
    for object in all {
        if bytes + object.size > most && some.len() > 1 {
            done += merge(store, folder, std::mem::take(&mut some)).await?;
            bytes = 0;
        }
        bytes += object.size;
        some.push(object);
    }
    if some.len() > 1 {
        done += merge(store, folder, some).await?;
    }
    Ok(done)
}

fn right_here(path: &Path, folder: &Path) -> bool {
    path.prefix_match(folder).is_some_and(|p| p.count() == 1)
}

async fn merge(
    store: &Store,
    folder: &Path,
    objects: Vec<ObjectMeta>,
) -> Result<Merged, StoreError> {
    let mut done = Merged::default();
    let mut index = Index::default();
    let mut read = Vec::new();
    for object in objects {
        let bytes = match store.get(&object.location).await {
            // Another process merged the object at the same time: its rows are in another object.
            Err(e) if e.is_absence() => continue,
            bytes => bytes?,
        };
        match Index::decode(&bytes) {
            Ok(rows) if rows.damaged == 0 => {
                index.merge(rows);
                read.push(object.location);
            }
            Ok(_) | Err(_) => done.unreadable += 1,
        }
    }
    if read.is_empty() {
        return Ok(done);
    }
    let (hash, bytes) = index.encode().map_err(|source| StoreError::Encode {
        what: folder.to_string(),
        source,
    })?;
    let whole = folder.clone().join(merged(hash));
    store.put(&whole, bytes).await?;
    done.made += 1;
    for path in read.iter().filter(|p| **p != whole) {
        store.remove(path).await?;
        done.objects += 1;
    }
    Ok(done)
}

/// Merges the index of each hour that ended before `until`.
pub async fn compact(store: &Store, cluster: &Cluster, until: Nanos) -> Result<Merged, StoreError> {
    let mut done = Merged::default();
    for hour in hours(store, cluster, &cluster.pods()).await? {
        if hour.end() <= until {
            done += merge_rows(store, &cluster.pods_in(hour)).await?;
        }
    }
    Ok(done)
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub segments: u64,
    /// Bytes of the segments.
    pub bytes: u64,
    /// Objects of the index.
    pub rows: u64,
    /// Objects that were never completely written.
    pub unfinished: u64,
    /// Files of tables.
    pub tables: u64,
}

/// Removes the segments that ended before `until`, the index objects about them alone, the tables of hours and days
/// before it, and objects left incomplete before then.
pub async fn prune(store: &Store, cluster: &Cluster, until: Nanos) -> Result<Pruned, StoreError> {
    let mut done = old(store, cluster, until, true).await?;
    done.unfinished = store.remove_unfinished(cluster.root(), until).await?;
    Ok(done)
}

/// Returns what [`prune`] would remove, but for what is incomplete.
pub async fn would_prune(
    store: &Store,
    cluster: &Cluster,
    until: Nanos,
) -> Result<Pruned, StoreError> {
    old(store, cluster, until, false).await
}

async fn old(
    store: &Store,
    cluster: &Cluster,
    until: Nanos,
    goes: bool,
) -> Result<Pruned, StoreError> {
    let remove = async |path: &Path| -> Result<(), StoreError> {
        if goes {
            store.remove(path).await?;
        }
        Ok(())
    };
    let mut done = Pruned::default();
    // The folders of days after it are not listed.
    let old = |folder| async move { hours_between(store, cluster, &folder, Nanos(0), until).await };
    for hour in old(cluster.segments()).await? {
        if hour.begin() >= until {
            continue;
        }
        for object in store.list(&cluster.segments_in(hour)).await? {
            let Some(segment) = Object::parse(&object.location, object.size) else {
                continue;
            };
            if segment.end < until {
                remove(&segment.path).await?;
                done.segments += 1;
                done.bytes += segment.bytes;
            }
        }
    }
    for hour in old(cluster.pods()).await? {
        if hour.begin() >= until {
            continue;
        }
        for object in store.list(&cluster.pods_in(hour)).await? {
            let path = object.location;
            // An object about many segments is removed when the last segment that it can be about has been.
            let end = rows_end(&path).unwrap_or(hour.end().plus(longest()));
            if is_rows(&path) && end < until {
                remove(&path).await?;
                done.rows += 1;
            }
        }
    }
    for table in store.folders(&cluster.every_table()).await? {
        for file in store.list(&table).await? {
            if table_time(&file.location).is_some_and(|(_, end)| end < until) {
                remove(&file.location).await?;
                done.tables += 1;
            }
        }
    }
    Ok(done)
}

/// Returns the longest time that a segment may cover, ns: on a busy machine it is closed some time after [`LONGEST`].
pub(crate) fn longest() -> i64 {
    let late = LONGEST + Duration::from_secs(60);
    i64::try_from(late.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the hours for which a folder of the cluster has objects.
pub async fn hours(
    store: &Store,
    cluster: &Cluster,
    folder: &Path,
) -> Result<Vec<Hour>, StoreError> {
    hours_between(store, cluster, folder, Nanos(i64::MIN), Nanos(i64::MAX)).await
}

/// The same, for hours that begin before `to` and end after `from`.
pub async fn hours_between(
    store: &Store,
    cluster: &Cluster,
    folder: &Path,
    from: Nanos,
    to: Nanos,
) -> Result<Vec<Hour>, StoreError> {
    let (first, final_) = (Hour::of(from).to_string(), Hour::of(to).to_string());
    let date = |hour: &str| {
        hour.split('/')
            .next()
            .map(str::to_owned)
            .unwrap_or_default()
    };
    let bounded = from > Nanos(i64::MIN) && to < Nanos(i64::MAX);
    let mut all = Vec::new();
    for day in store.folders(folder).await? {
        let name = last(&day);
        if bounded && (name < date(&first).as_str() || name > date(&final_).as_str()) {
            continue;
        }
        for hour in store.folders(&day).await? {
            all.extend(cluster.hour(&hour));
        }
    }
    all.retain(|h| h.begin() <= to && h.end() > from);
    Ok(all)
}
