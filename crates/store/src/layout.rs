//! The names of objects in a store. Pure.
//!
//! | object | is |
//! |---|---|
//! | `CLUSTER/segments/DATE/HOUR/NODE/BEGIN-END.RUN-N.OBSERVATIONS.kflow.zst` | a segment, under the name that it has in a spool |
//! | `CLUSTER/pods/DATE/HOUR/NODE/BEGIN-END.RUN-N.jsonl.zst` | the pods of a segment ([`index`](crate::index)) |
//! | `CLUSTER/pods/DATE/HOUR/NODE/merged-HASH.jsonl.zst` | the pods of a node's segments of that hour |
//! | `CLUSTER/pods/DATE/HOUR/merged-HASH.jsonl.zst` | the pods of all nodes' segments of that hour |
//! | `CLUSTER/tables/TABLE/date=DATE/NAME.parquet` | rows of a table (the crate `kflow-fleet`) |
//!
//! DATE and HOUR (`2026-11-24/08`) are those of BEGIN, in UTC. Recordings of a cluster, not of a node, have
//! [`NO_NODE`] as NODE. Objects never change: one that is written again has the same content.

use kflow_model::units::HOUR as HOUR_NS;
use kflow_model::{Nanos, Text};
pub use object_store::ObjectMeta;
pub use object_store::path::Path;

use crate::name::{self, ENDING, File};

/// Stands for the node's name in recordings of a cluster. No node can have this name.
pub const NO_NODE: &str = "_cluster";
/// Folder of segments.
const SEGMENTS: &str = "segments";
/// Folder of the index of pods.
const PODS: &str = "pods";
/// Folder of tables.
const TABLES: &str = "tables";
/// Prefix of the name of a table's folder for one day.
const DATE: &str = "date=";
/// Suffix of an index object.
const ROWS: &str = ".jsonl.zst";
/// Prefix of a merged index object.
const MERGED: &str = "merged-";

/// A name that cannot be part of an object's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} {name:?} cannot be part of an object's name: write letters, digits, `-`, `.` and `_`, 253 at most, with a letter or digit first"
)]
pub struct BadName {
    /// `cluster` or `node`.
    pub what: &'static str,
    pub name: String,
}

/// Checks a name. All names of Kubernetes nodes pass (RFC 1123 subdomains).
fn checked(what: &'static str, name: &str) -> Result<(), BadName> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let begins = name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    if begins && name.len() <= 253 && name.bytes().all(fits) {
        return Ok(());
    }
    let name = name.to_owned();
    Err(BadName { what, name })
}

/// An hour of UTC, counted from the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hour(i64);

impl Hour {
    pub const fn of(at: Nanos) -> Self {
        Self(at.0.div_euclid(HOUR_NS))
    }
    /// `2026-11-24` and `08`.
    fn parts(self) -> (String, String) {
        let text = Nanos(self.0.saturating_mul(HOUR_NS)).to_rfc3339();
        let (date, clock) = text.split_once('T').unwrap_or((&text, ""));
        let hour = clock.get(..2).unwrap_or_default();
        (date.to_owned(), hour.to_owned())
    }
    /// Parses both; `None` for anything else.
    fn parse(date: &str, hour: &str) -> Option<Self> {
        let (at, _) = Nanos::parse_rfc3339(&format!("{date}T{hour}:00:00Z"))?;
        let read = Self::of(at);
        let (d, h) = read.parts();
        (d == date && h == hour).then_some(read)
    }
    /// Hour of the day, 0 to 23.
    pub const fn of_day(self) -> i64 {
        self.0.rem_euclid(24)
    }
    pub const fn begin(self) -> Nanos {
        Nanos(self.0.saturating_mul(HOUR_NS))
    }
    pub const fn end(self) -> Nanos {
        Nanos(self.0.saturating_add(1).saturating_mul(HOUR_NS))
    }
}

impl std::fmt::Display for Hour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (date, hour) = self.parts();
        write!(f, "{date}/{hour}")
    }
}

/// The last part of a path.
pub fn last(path: &Path) -> &str {
    path.filename().unwrap_or_default()
}

/// A cluster's part of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    root: Path,
    pub name: Text,
}

impl Cluster {
    /// A cluster in a store whose objects lie below `root`.
    pub fn new(root: &Path, name: &str) -> Result<Self, BadName> {
        checked("the cluster", name)?;
        Ok(Self {
            root: root.clone().join(name),
            name: name.into(),
        })
    }

    /// The folder of everything about the cluster.
    pub const fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of all segments.
    pub fn segments(&self) -> Path {
        self.root.clone().join(SEGMENTS)
    }

    /// The folder of the whole index.
    pub fn pods(&self) -> Path {
        self.root.clone().join(PODS)
    }

    /// The folder of a node's segments of an hour.
    pub fn segments_of(&self, hour: Hour, node: &str) -> Path {
        in_hour(self.segments(), hour).join(node)
    }

    /// The folder of the segments of an hour.
    pub fn segments_in(&self, hour: Hour) -> Path {
        in_hour(self.segments(), hour)
    }

    /// The folder of the index of an hour.
    pub fn pods_in(&self, hour: Hour) -> Path {
        in_hour(self.pods(), hour)
    }

    /// The folder of the index of a node's segments of an hour.
    pub fn pods_of(&self, hour: Hour, node: &str) -> Path {
        self.pods_in(hour).join(node)
    }

    /// The folder of a table.
    pub fn tables(&self, table: &str) -> Path {
        self.root.clone().join(TABLES).join(table)
    }

    /// The folder of all tables.
    pub fn every_table(&self) -> Path {
        self.root.clone().join(TABLES)
    }

    /// The folder of a table's rows of the day of an hour.
    pub fn table(&self, table: &str, hour: Hour) -> Path {
        let (date, _) = hour.parts();
        self.tables(table).join(format!("{DATE}{date}"))
    }

    /// Returns the hour of a folder of segments or of the index; `None` for any other folder.
    pub fn hour(&self, folder: &Path) -> Option<Hour> {
        let mut rest = folder.prefix_match(&self.root)?;
        let _kind = rest.next()?;
        let (date, hour) = (rest.next()?, rest.next()?);
        Hour::parse(date.as_ref(), hour.as_ref())
    }
}

fn in_hour(folder: Path, hour: Hour) -> Path {
    let (date, hour) = hour.parts();
    folder.join(date).join(hour)
}

/// True for a folder of the name of a cluster's segments.
pub(crate) fn is_of_segments(folder: &Path) -> bool {
    last(folder) == SEGMENTS
}

/// True for a folder of the name of a day.
pub(crate) fn is_day(folder: &Path) -> bool {
    Hour::parse(last(folder), "00").is_some()
}

/// Returns the folder name for a node; [`NO_NODE`] for an empty name.
pub fn folder_of(node: &str) -> Result<&str, BadName> {
    if node.is_empty() {
        return Ok(NO_NODE);
    }
    checked("the node", node).map(|()| node)
}

/// A segment, as described by its object's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub path: Path,
    /// Name of the folder: a node, or [`NO_NODE`].
    pub node: Text,
    pub begin: Nanos,
    pub end: Nanos,
    pub part: kflow_model::session::Part,
    /// Number of its own observations, without those carried over from before it.
    pub observations: u64,
    pub bytes: u64,
}

/// Keeps each segment once, sorted by node and part. If a segment was sent twice under two names, it was cut short
/// the first time: the one with more observations is kept.
pub fn once(segments: &mut Vec<Object>) {
    segments.sort_by(|a, b| {
        let key = |s: &Object| (s.node.clone(), s.part.clone());
        key(a)
            .cmp(&key(b))
            .then(b.observations.cmp(&a.observations))
    });
    segments.dedup_by(|a, b| a.node == b.node && a.part == b.part);
}

impl Object {
    /// Parses an object's name; `None` if it is not a segment.
    pub fn parse(path: &Path, bytes: u64) -> Option<Self> {
        let File::Closed {
            begin,
            end,
            part,
            observations,
            sent: false,
        } = File::parse(last(path))?
        else {
            return None;
        };
        let node = path.parts().rev().nth(1)?;
        Some(Self {
            path: path.clone(),
            node: node.as_ref().into(),
            begin,
            end,
            part,
            observations,
            bytes,
        })
    }

    /// True when the segment overlaps this time.
    pub fn is_within(&self, from: Nanos, to: Nanos) -> bool {
        self.begin <= to && self.end >= from
    }
}

/// Returns the name of a segment's index object, from the segment's own name.
pub fn rows_of(segment: &str) -> String {
    let stem = segment.strip_suffix(ENDING).unwrap_or(segment);
    // Without the number of observations.
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    format!("{stem}{ROWS}")
}

/// Returns the name of a merged index object, from a hash of its content.
pub fn merged(hash: u64) -> String {
    format!("{MERGED}{hash:016x}{ROWS}")
}

/// True for an index object.
pub fn is_rows(path: &Path) -> bool {
    last(path).ends_with(ROWS)
}

/// Returns the hour of a table's file by its name (`date=2026-11-24/08.0.parquet`); `None` for a file that does not
/// hold a single hour.
pub fn table_hour(path: &Path) -> Option<Hour> {
    let (hour, part) = last(path).strip_suffix(".parquet")?.split_once('.')?;
    part.parse::<u32>().ok()?;
    Hour::parse(&table_date(path)?, hour)
}

/// Returns begin and end of the rows in a table's file, by its name: an hour, or a day.
pub fn table_time(path: &Path) -> Option<(Nanos, Nanos)> {
    if !last(path).ends_with(".parquet") {
        return None;
    }
    if let Some(hour) = table_hour(path) {
        return Some((hour.begin(), hour.end()));
    }
    let midnight = Hour::parse(&table_date(path)?, "00")?;
    Some((midnight.begin(), midnight.begin().plus(24 * HOUR_NS)))
}

fn table_date(path: &Path) -> Option<String> {
    let day = path.parts().rev().nth(1)?;
    day.as_ref().strip_prefix(DATE).map(str::to_owned)
}

/// Returns the end of a segment's index object; `None` for a merged one.
pub fn rows_end(path: &Path) -> Option<Nanos> {
    let (span, _) = last(path).split_once("Z.")?;
    name::parse_span(&format!("{span}Z")).map(|(_, end)| end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_found_where_it_was_put_and_tells_what_it_is() {
        let root = Path::from("some/prefix");
        let c = Cluster::new(&root, "prod").unwrap();
        let begin = Nanos(1_795_508_400_000_000_007);
        let file = File::Closed {
            begin,
            end: begin.plus(300_000_000_000),
            part: kflow_model::session::Part {
                run: "00000000000000ab".into(),
                n: 3,
            },
            observations: 17,
            sent: false,
        };
        let folder = c.segments_of(Hour::of(begin), "node1");
        let path = folder.clone().join(file.to_string());
        assert_eq!(
            path.as_ref(),
            "some/prefix/prod/segments/2026-11-24/08/node1/\
             20261124T082000.000000007Z-20261124T082500.000000007Z.00000000000000ab-3.17.kflow.zst"
        );
        let o = Object::parse(&path, 5).unwrap();
        assert_eq!(
            (o.node.as_str(), o.part.n, o.observations),
            ("node1", 3, 17)
        );
        assert_eq!(c.hour(&folder), Some(Hour::of(begin)));
        assert_eq!(c.hour(&c.pods_in(Hour::of(begin))), Some(Hour::of(begin)));
        let rows = folder.join(rows_of(last(&path)));
        assert!(last(&rows).ends_with("Z.00000000000000ab-3.jsonl.zst"));
        assert_eq!(rows_end(&rows), Some(o.end));
        assert_eq!(rows_end(&Path::from(merged(7))), None);
        // Not a segment that is being written, or that has the spool's mark.
        for other in ["20261124T082000.000000007Z.ab-3.open.kflow.zst", "x", ""] {
            assert_eq!(Object::parse(&c.segments().join(other), 5), None);
        }
    }

    #[test]
    fn a_file_of_a_table_tells_its_time() {
        let c = Cluster::new(&Path::ROOT, "prod").unwrap();
        let hour = Hour::of(Nanos(1_795_508_400_000_000_007));
        let folder = c.table("calls", hour);
        assert_eq!(folder.as_ref(), "prod/tables/calls/date=2026-11-24");
        let file = |name: &str| folder.clone().join(name);
        assert_eq!(table_hour(&file("08.0.parquet")), Some(hour));
        assert_eq!(hour.of_day(), 8);
        assert_eq!(
            table_time(&file("08.12.parquet")),
            Some((hour.begin(), hour.end()))
        );
        let of_recording = file("20261124T082000.000000007Z.parquet");
        assert_eq!(table_hour(&of_recording), None);
        let (begin, end) = table_time(&of_recording).unwrap();
        assert!(begin < hour.begin() && end > hour.end());
        assert_eq!(end.since(begin), 24 * HOUR_NS);
        for other in [
            "08.0.parquet.tmp",
            "24.0.parquet",
            "8.0.parquet",
            "08.x.parquet",
            "x",
        ] {
            assert_eq!(table_hour(&file(other)), None, "{other}");
        }
        assert_eq!(table_time(&Path::from("x/08.0.parquet")), None);
    }

    #[test]
    fn hours_are_of_utc_also_before_the_epoch_and_names_are_checked() {
        for at in [
            i64::MIN,
            -1,
            0,
            1,
            HOUR_NS - 1,
            HOUR_NS,
            1_795_508_400_000_000_007,
        ] {
            let hour = Hour::of(Nanos(at));
            let (d, h) = hour.parts();
            if at > i64::MIN {
                assert_eq!(Hour::parse(&d, &h), Some(hour), "{d} {h}");
                assert!(hour.begin() <= Nanos(at) && Nanos(at) < hour.end());
            }
        }
        assert_eq!(Hour::parse("2026-11-24", "24"), None);
        assert_eq!(Hour::parse("2026-11-24", "8"), None);
        for bad in [
            "",
            "a/b",
            "..",
            ".a",
            "_cluster",
            "a b",
            "é",
            &"a".repeat(300),
        ] {
            assert!(Cluster::new(&Path::ROOT, bad).is_err(), "{bad}");
        }
        assert_eq!(folder_of(""), Ok(NO_NODE));
        assert_eq!(
            folder_of("ip-10-0-0-1.ec2.internal"),
            Ok("ip-10-0-0-1.ec2.internal")
        );
        assert!(folder_of("a/b").is_err());
    }
}
