use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::versions::Versions;
use super::{Made, Of, Seen, Table, Type, VERSION, decode, encode, make};
use kflow_core::correlate::World;
use kflow_core::stats::{self, Chosen, GroupBy, Measure};
use kflow_engine::{Overview, world_at};
use kflow_export::calls::Filter;
use kflow_export::rows::Rows;
use kflow_export::{calls, incidents, requests};
use kflow_model::Nanos;
use kflow_model::session::{self, Session};

fn recordings() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/sessions");
    let all = std::fs::read_dir(folder).unwrap();
    let mut all: Vec<PathBuf> = all.map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.to_string_lossy().ends_with(".kflow.zst"));
    all.sort();
    assert!(all.len() > 10);
    all
}

struct Known {
    session: Session,
    world: World,
    versions: Versions,
    overview: Overview,
    at: Nanos,
}

impl Known {
    fn read(path: &std::path::Path) -> Self {
        let session = session::load(path).unwrap();
        let range = session.range().unwrap();
        let world = world_at(&session, range.1, Arc::default());
        let overview = Overview::of(&session.observations, Arc::default(), None, range);
        Self {
            world,
            versions: Versions::of(&session.observations),
            overview,
            at: range.1,
            session,
        }
    }

    fn of(&self) -> Of<'_> {
        Of {
            world: &self.world,
            versions: &self.versions,
            incidents: &self.overview.incidents,
            within: self.overview.within,
            at: self.at,
            cluster: "lab",
            node: &self.session.header.node,
            range: None,
        }
    }
}

/// The rows of a table as JSON, after writing and reading its files.
fn through_files(made: &Made, table: Table) -> Vec<Map<String, Value>> {
    let mut rows = Vec::new();
    for ((_, day), batch) in made.iter().filter(|((t, _), _)| *t == table) {
        let bytes = encode(table, std::slice::from_ref(batch)).unwrap();
        assert_eq!(bytes, encode(table, std::slice::from_ref(batch)).unwrap());
        let (read, batches) = decode("it", bytes).unwrap();
        assert_eq!(read, table);
        for batch in batches {
            assert_eq!(batch.schema(), table.schema());
            let all: Vec<Map<String, Value>> = serde_arrow::from_record_batch(&batch).unwrap();
            for row in &all {
                let at = row[table.time()].as_i64().unwrap();
                assert_eq!(at.div_euclid(kflow_model::units::DAY), *day);
            }
            rows.extend(all);
        }
    }
    rows
}

fn lines(jsonl: &[u8]) -> Vec<Map<String, Value>> {
    let text = std::str::from_utf8(jsonl).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// Asserts that the rows have all keys of `told`, except those in `left_out`, with the same values.
fn same(table: Table, rows: &[Map<String, Value>], told: &[Map<String, Value>], left_out: &[&str]) {
    assert_eq!(rows.len(), told.len(), "{table:?}");
    for (row, told) in rows.iter().zip(told) {
        for (key, value) in told.iter().filter(|(k, _)| !left_out.contains(&k.as_str())) {
            assert_eq!(&row[key], value, "{table:?} {key} of {told:?}");
        }
    }
}

/// Compares with `kflow calls -o jsonl`, `requests --list -o jsonl`, `why --ever -o jsonl` and `stats`
/// of the same session.
#[test]
fn rows_of_every_recording_are_what_the_commands_say_of_it() {
    let mut seen = [0; 4];
    for path in recordings() {
        let known = Known::read(&path);
        let (world, at) = (&known.world, known.at);
        let made = make(known.of(), &mut Seen::default()).unwrap();
        let rows = |table| through_files(&made, table);

        let mut out = Vec::new();
        calls::rows(&mut out, world, &Filter::default(), at, Rows::Jsonl).unwrap();
        let of_calls = rows(Table::Calls);
        same(Table::Calls, &of_calls, &lines(&out), &[]);

        let mut out = Vec::new();
        let mut asked = world.requests().list();
        asked.sort_by_key(|r| r.received);
        let asked = asked.iter().map(|r| &***r);
        requests::rows(&mut out, asked, at, Rows::Jsonl).unwrap();
        let nested = [
            "latency",
            "admission",
            "webhooks",
            "trace",
            "sources",
            "steps",
        ];
        let of_requests = rows(Table::Requests);
        same(Table::Requests, &of_requests, &lines(&out), &nested);

        let mut found: Vec<_> = known.overview.incidents.iter().collect();
        found.sort_by_key(|i| i.begin);
        let mut out = Vec::new();
        incidents::rows(
            &found,
            at,
            known.overview.within,
            |_| None,
            &mut out,
            Rows::Jsonl,
        )
        .unwrap();
        let of_verdicts = rows(Table::Verdicts);
        same(
            Table::Verdicts,
            &of_verdicts,
            &lines(&out),
            &["subject", "parts", "nodes"],
        );

        let pods = rows(Table::Pods);
        for row in stats::rows(world, at, GroupBy::All, Chosen::default()) {
            let (mut lengths, open) = match &row.measure {
                Measure::Call(method) => {
                    let its: Vec<_> = of_calls
                        .iter()
                        .filter(|c| c["method"] == **method)
                        .collect();
                    let failed = its.iter().filter(|c| c["failed"] == true).count();
                    assert_eq!(failed, row.errors, "{}", row.measure);
                    let open = its.iter().filter(|c| c["length_ns"].is_null()).count();
                    (column(its, "length_ns"), open)
                }
                Measure::Start => (column(&pods, "start_total_ns"), flags(&pods, "start_open")),
                Measure::StartSli => (column(&pods, "start_sli_ns"), flags(&pods, "start_open")),
                Measure::Ready => (column(&pods, "ready_total_ns"), flags(&pods, "ready_open")),
                Measure::Stage(stage) => {
                    let (begin, ns) = (format!("{stage}_begin_ns"), format!("{stage}_ns"));
                    let open = pods
                        .iter()
                        .filter(|p| !p[&begin].is_null() && p[&ns].is_null());
                    (column(&pods, &ns), open.count())
                }
                Measure::Condition(_) => continue,
            };
            lengths.sort_unstable();
            assert_eq!(lengths, row.lengths, "{path:?}: {}", row.measure);
            assert_eq!(open, row.open, "{path:?}: {}", row.measure);
        }
        let all = [&pods, &of_verdicts, &of_calls, &of_requests];
        for (n, rows) in seen.iter_mut().zip(all) {
            *n += rows.len();
        }
    }
    assert!(seen.iter().all(|n| *n > 50), "{seen:?}");
}

fn column<'r>(rows: impl IntoIterator<Item = &'r Map<String, Value>>, name: &str) -> Vec<i64> {
    rows.into_iter().filter_map(|r| r[name].as_i64()).collect()
}

fn flags(rows: &[Map<String, Value>], name: &str) -> usize {
    rows.iter().filter(|r| r[name] == true).count()
}

#[test]
fn a_range_takes_each_row_into_one_part() {
    let known = Known::read(&recordings()[0]);
    let (begin, end) = known.session.range().unwrap();
    let middle = begin.plus(end.since(begin) / 2);
    let (first, last) = (Nanos(i64::MIN), Nanos(i64::MAX));
    let made = |range| {
        make(
            Of {
                range: Some(range),
                ..known.of()
            },
            &mut Seen::default(),
        )
        .unwrap()
    };
    let (before, after) = (made((first, middle)), made((middle, last)));
    let whole = make(known.of(), &mut Seen::default()).unwrap();
    for table in Table::ALL {
        let mut parts = through_files(&before, table);
        let n = parts.len();
        parts.extend(through_files(&after, table));
        assert_eq!(parts, through_files(&whole, table), "{table:?}");
        if table == Table::Calls {
            assert!(n > 0 && n < parts.len());
        }
    }
}

#[test]
fn a_file_of_others_of_a_newer_kflow_or_damaged_is_refused() {
    let known = Known::read(&recordings()[0]);
    let made = make(known.of(), &mut Seen::default()).unwrap();
    let ((table, _), batch) = made.iter().next().unwrap();
    let bytes = encode(*table, std::slice::from_ref(batch)).unwrap();
    let said = |bytes: Vec<u8>| decode("a.parquet", bytes).unwrap_err().to_string();
    assert!(said(b"PAR1".to_vec()).contains("no Parquet file"));
    let half = bytes[..bytes.len() / 2].to_vec();
    assert!(said(half).contains("a.parquet is no Parquet file"));
    // Replaces a text in the file's bytes, such as the version or a key of the metadata.
    let with = |from: &str, to: &str| {
        let mut bytes = bytes.clone();
        let at = bytes
            .windows(from.len())
            .rposition(|w| w == from.as_bytes())
            .unwrap();
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    assert!(
        said(with("kflow.tables.version", "other.tables.version")).contains("no table of kflow")
    );
    let key = bytes
        .windows(20)
        .rposition(|w| w == b"kflow.tables.version")
        .unwrap();
    let mut newer = bytes.clone();
    let digit = (key..bytes.len())
        .find(|n| bytes[*n] == b'0' + VERSION as u8)
        .unwrap();
    newer[digit] = b'9';
    assert!(said(newer).contains("version 9"));
}

#[test]
fn every_column_is_in_the_page_with_its_type() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tables.md");
    let page = std::fs::read_to_string(page).unwrap();
    for table in Table::ALL {
        let (_, part) = page
            .split_once(&format!("\n## `{}`", table.name()))
            .unwrap();
        let part = part.split("\n## ").next().unwrap();
        for c in table.columns() {
            let stage = kflow_core::flow::Stage::ALL
                .iter()
                .find_map(|s| c.name.strip_prefix(s.name())?.strip_prefix('_'))
                .filter(|_| table == Table::Pods && c.null);
            let cell = match stage {
                Some(rest) if !part.contains(&format!("`{}`", c.name)) => format!("`STAGE_{rest}`"),
                _ => format!("`{}`", c.name),
            };
            let row = part
                .lines()
                .find(|l| l.starts_with('|') && l.split('|').nth(1).unwrap().contains(&cell));
            let row = row.unwrap_or_else(|| panic!("{table:?}: no row of {cell}"));
            let ty = match c.ty {
                Type::Int => "int64",
                Type::Bool => "bool",
                Type::Text => "text",
                Type::Texts => "list of text",
            };
            let want = format!("{ty}{}", if c.null { ", null" } else { "" });
            assert_eq!(
                row.split('|').nth(2).unwrap().trim(),
                want,
                "{table:?} {cell}"
            );
        }
    }
    assert!(page.contains(&format!("`kflow.tables.version` = `{VERSION}`")));
}
