use std::path::Path as FsPath;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Found, SETTLED, fetch_files, find, make_all};
use crate::questions::answer;
use crate::tables::Table;
use crate::{Asked, Engine, Question, Rows, Tables};
use kflow_model::clock::{self, Reading};
use kflow_model::session::{self, Session, format};
use kflow_model::stamp::SECOND;
use kflow_model::units::{DAY, HOUR};
use kflow_model::{Nanos, Observation};
use kflow_store::compact::prune;
use kflow_store::layout::Hour;
use kflow_store::{Bounds, Cluster, Options, Spool, Store, Uploader, Use};

/// A recording as this kflow would have made it.
fn recording(name: &str) -> Session {
    let path = format!(
        "{}/../../fixtures/sessions/{name}.kflow.zst",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut session = session::load(path.as_ref()).unwrap();
    for o in &mut session.observations {
        *o = Arc::new(format::redacted(Observation::clone(o)));
    }
    session
}

/// Puts a session into a store as a recorder does, cut into `segments` segments.
fn put(store: &Store, session: &Session, node: &str, segments: usize) {
    let dir = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        bytes: u64::MAX,
        free: 0,
        ..Bounds::default()
    };
    let options = Options {
        node: node.into(),
        bounds,
        owed: true,
    };
    let mut spool = Spool::open(&dir.path().join("spool"), options).unwrap();
    let mut now = Reading {
        wall: Nanos(0),
        monotonic: clock::monotonic(),
        apart: Duration::ZERO,
    };
    let all = &session.observations;
    for (n, o) in all.iter().enumerate() {
        if n > 0 && n % (all.len() / segments + 1) == 0 {
            spool.close(now);
        }
        now.wall = o.stamp.seen;
        spool.take(o, now);
    }
    now.wall = session.range().unwrap().1;
    spool.close(now);
    let cluster = Cluster::new(store.root(), "lab").unwrap();
    let up = Uploader::start(spool.ring(), store.clone(), cluster, None).unwrap();
    assert_eq!(up.stop(Duration::from_secs(120)).sent, segments as u64);
}

struct Rig {
    _dir: tempfile::TempDir,
    store: Store,
    cluster: Cluster,
    runtime: tokio::runtime::Runtime,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(
            &format!("file://{}/store", dir.path().display()),
            Use::Write,
        )
        .unwrap();
        let cluster = Cluster::new(store.root(), "lab").unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        Self {
            _dir: dir,
            store,
            cluster,
            runtime,
        }
    }

    fn make(&self, now: Nanos) -> super::Made {
        let made = make_all(&self.store, &self.cluster, now, |_| {});
        self.runtime.block_on(made).unwrap()
    }

    fn found(&self) -> Found {
        let all = find(&self.store, &self.cluster, Nanos(0), Nanos(i64::MAX - 1));
        self.runtime.block_on(all).unwrap()
    }

    fn ask(&self, sql: &str) -> Rows {
        let found = self.found();
        self.runtime.block_on(async {
            let here = fetch_files(&self.store, &found.files).await.unwrap();
            let tables = Tables {
                files: here.files,
                ..Tables::default()
            };
            let engine = Engine::new(&tables, None, 2).await.unwrap();
            engine.ask(sql).await.unwrap()
        })
    }

    /// Every file with its bytes.
    fn contents(&self, of: &Found) -> Vec<(String, Vec<u8>)> {
        let each = of.files.iter().map(|(_, path, _)| {
            (
                path.to_string(),
                self.runtime.block_on(self.store.get(path)).unwrap(),
            )
        });
        each.collect()
    }
}

/// The calls of a recording, in SQL's order.
fn calls(session: &Session) -> Vec<Vec<Value>> {
    let world = kflow_engine::world_at(session, session.range().unwrap().1, Arc::default());
    let row =
        |c: &Arc<kflow_core::correlate::Call>| vec![json!(c.start), json!(c.end), json!(c.method)];
    world.calls().iter().map(row).collect()
}

#[test]
fn tables_of_a_store_have_the_rows_of_what_was_recorded() {
    let rig = Rig::new();
    let session = recording("S5-burst");
    put(&rig.store, &session, "node1", 4);
    let (begin, end) = session.range().unwrap();
    // Nothing is made for an hour that ended only a moment ago.
    assert_eq!(rig.make(begin), super::Made::default());
    let made = rig.make(end.plus(2 * HOUR));
    assert!(made.hours >= 1 && made.rows > 1000, "{made:?}");
    assert_eq!(made.unreadable, vec![]);
    let found = rig.found();
    assert_eq!(found.missing, vec![]);
    let sql = "SELECT start_ns, end_ns, method FROM calls ORDER BY start_ns, conn, stream";
    let mut want = calls(&session);
    let sort = |rows: &mut Vec<Vec<Value>>| rows.sort_by_key(|r| format!("{r:?}"));
    let mut got = rig.ask(sql).rows;
    sort(&mut want);
    sort(&mut got);
    assert!(got == want, "{} {}", got.len(), want.len());
    let nodes = rig.ask("SELECT DISTINCT cluster FROM calls");
    assert_eq!(nodes.rows, [[json!("lab")]]);

    // A second run has nothing to do. Tables that are made anew have the same bytes.
    let before = rig.contents(&found);
    let again = rig.make(end.plus(2 * HOUR));
    assert_eq!((again.hours, again.fresh), (0, made.hours));
    let (_, path, _) = &found.files[0];
    rig.runtime.block_on(rig.store.remove(path)).unwrap();
    assert!(rig.make(end.plus(2 * HOUR)).hours >= 1);
    assert!(rig.contents(&rig.found()) == before);
    // Segments that come later are included too.
    put(&rig.store, &session, "node2", 1);
    let later = rig.make(end.plus(3 * HOUR));
    assert_eq!(later.hours, made.hours);
    let pods = rig.ask("SELECT count(*), count(DISTINCT uid) FROM pods");
    assert_eq!(
        pods.rows[0][0], pods.rows[0][1],
        "a pod that two saw is told once"
    );
    let twice = rig.ask("SELECT count(*) FROM calls").rows[0][0]
        .as_i64()
        .unwrap();
    assert_eq!(twice, 2 * want.len() as i64, "calls are each node's own");
    assert!(rig.contents(&rig.found()) != before);

    // Prune removes old tables too.
    let done = prune(&rig.store, &rig.cluster, end.plus(DAY));
    let done = rig.runtime.block_on(done).unwrap();
    assert_eq!(done.tables as usize, found.files.len());
    assert!(rig.found().files.is_empty());
}

#[test]
fn what_a_node_and_the_cluster_recorded_is_told_once() {
    let rig = Rig::new();
    let session = recording("S2-stuck-early");
    let end = session.range().unwrap().1;
    let counts = || Table::ALL.map(|t| rig.ask(&format!("SELECT count(*) FROM {}", t.name())).rows);
    put(&rig.store, &session, "node1", 1);
    rig.make(end.plus(2 * HOUR));
    let alone = counts();
    put(&rig.store, &session, "", 1);
    assert!(rig.make(end.plus(2 * HOUR)).hours >= 1);
    assert_eq!(counts(), alone);
}

#[test]
fn an_hour_without_tables_is_told_and_damaged_segments_are_counted() {
    let rig = Rig::new();
    let session = recording("S13-crictl");
    put(&rig.store, &session, "node1", 3);
    let found = rig.found();
    let hours = found.missing.len();
    assert!(found.files.is_empty() && hours >= 1);
    // One segment of three is cut.
    let (begin, end) = session.range().unwrap();
    let segments = rig
        .runtime
        .block_on(rig.store.list(&rig.cluster.segments()))
        .unwrap();
    let path = &segments[1].location;
    rig.runtime.block_on(async {
        rig.store.put(path, b"no session".to_vec()).await.unwrap();
    });
    let made = rig.make(end.plus(SETTLED + 2 * HOUR));
    assert_eq!(made.hours as usize, hours);
    assert!(
        made.unreadable.iter().any(|(p, _)| *p == path.to_string()),
        "{made:?}"
    );
    let found = rig.found();
    assert_eq!(found.missing, vec![]);
    let per_hour = found.files.iter().filter(|(_, p, _)| {
        p.as_ref()
            .contains(&format!("/{:02}.", Hour::of(begin).of_day()))
    });
    assert_eq!(per_hour.count(), Table::ALL.len());
    let engine_rows = rig.ask("SELECT count(*) FROM calls").rows;
    assert!(engine_rows[0][0].as_i64() > Some(0));
    let here = rig
        .runtime
        .block_on(fetch_files(&rig.store, &found.files))
        .unwrap();
    assert!(
        here.files
            .values()
            .flatten()
            .all(|p| FsPath::new(p).exists())
    );
    assert_eq!(here.fetched, 0);
    let tables = Tables {
        files: here.files,
        ..Tables::default()
    };
    let asked = Asked {
        question: Question::Lengths,
        by: None,
        target_ns: 5 * SECOND,
    };
    let rows = rig.runtime.block_on(async {
        let engine = Engine::new(&tables, Some((begin, end)), 2).await.unwrap();
        answer(&engine, asked).await.unwrap()
    });
    assert!(!rows.rows.is_empty());
}
