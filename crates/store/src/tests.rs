//! From a spool into a store and back, with a recording of a real node. tests/it/store.rs has all recordings.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kflow_model::clock::{self, Reading};
use kflow_model::gap::Note;
use kflow_model::session::{Session, format, load, reader::sort_arrivals};
use kflow_model::{Body, Evidence, Nanos, Observation};
use tempfile::TempDir;

use crate::cache::Cache;
use crate::compact::{compact, merge_rows, prune};
use crate::fetch::{FetchError, Want, fetch, index, plan};
use crate::index::Asked;
use crate::layout::{Cluster, Hour};
use crate::spool::{Bounds, Options, Spool};
use crate::tidy::{Tidy, merge_hours};
use crate::{Store, Uploader, Use};

mod add;
mod cut;

/// Time limit for what should take milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The smallest recording, as this kflow would have recorded it.
fn recording() -> Session {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sessions");
    let mut session = load(&dir.join("S13-crictl.kflow.zst")).unwrap();
    for o in &mut session.observations {
        *o = Arc::new(format::redacted(Observation::clone(o)));
    }
    session
}

struct Rig {
    dir: TempDir,
    session: Session,
}

impl Rig {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            session: recording(),
        }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn url(&self) -> String {
        format!("file://{}", self.path("store").display())
    }
    fn store(&self) -> Store {
        Store::open(&self.url(), Use::Write).unwrap()
    }
    fn cluster(&self) -> Cluster {
        Cluster::new(self.store().root(), "lab").unwrap()
    }
    /// A spool of a node with the recording, cut into `segments` segments and shifted by `hours` hours.
    fn spool(&self, node: &str, segments: usize, hours: i64) -> Spool {
        self.spool_of(node, segments, hours, &self.session.observations)
    }
    /// The same, of some observations.
    fn spool_of(&self, node: &str, segments: usize, hours: i64, all: &[Evidence]) -> Spool {
        let options = Options {
            node: node.into(),
            bounds: Bounds {
                bytes: u64::MAX,
                free: 0,
                ..Bounds::default()
            },
            owed: true,
        };
        let mut spool = Spool::open(&self.path(&format!("spool-{node}")), options).unwrap();
        let monotonic = clock::monotonic();
        let mut now = Reading {
            wall: Nanos(0),
            monotonic,
            apart: Duration::ZERO,
        };
        for (n, o) in all.iter().enumerate() {
            let o = shifted(o, hours);
            if n > 0 && n % (all.len() / segments + 1) == 0 {
                spool.close(now);
            }
            now.wall = o.stamp.seen;
            spool.take(&o, now);
        }
        spool.close(now);
        assert_eq!(spool.ring().segments().len(), segments);
        spool
    }
    fn send(&self, spool: &Spool) -> crate::upload::Status {
        let up = Uploader::start(spool.ring(), self.store(), self.cluster(), None).unwrap();
        up.stop(PATIENCE)
    }
    fn run<T>(&self, what: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(what)
    }
    fn want(&self) -> Want {
        Want {
            cluster: None,
            node: None,
            pod: None,
            from: Nanos(i64::MIN),
            to: Nanos(i64::MAX),
        }
    }
    fn fetched(&self, want: &Want, cache: Option<&Cache>) -> (Session, crate::fetch::Fetched) {
        let (store, to) = (self.store(), self.path("out.kflow.zst"));
        fs::remove_file(&to).ok();
        let done = self.run(async {
            let plan = plan(&store, want).await.unwrap();
            fetch(&store, &plan, cache, &to, |_| {}).await.unwrap()
        });
        (load(&to).unwrap(), done)
    }
    fn refused(&self, want: &Want) -> String {
        let store = self.store();
        self.run(plan(&store, want)).unwrap_err().to_string()
    }
    /// The names of all objects, sorted.
    fn objects(&self) -> Vec<String> {
        let store = self.store();
        let all = self.run(store.list(store.root())).unwrap();
        all.iter().map(|o| o.location.to_string()).collect()
    }
}

fn shifted(o: &Evidence, hours: i64) -> Evidence {
    if hours == 0 {
        return Arc::clone(o);
    }
    let mut o = Observation::clone(o);
    o.stamp.seen = o.stamp.seen.plus(hours * kflow_model::units::HOUR);
    o.stamp.at = o.stamp.at.plus(hours * kflow_model::units::HOUR);
    Arc::new(o)
}

#[test]
fn what_comes_back_is_what_was_recorded_and_what_is_sent_twice_is_there_once() {
    let rig = Rig::new();
    let spool = rig.spool("node1", 5, 0);
    assert_eq!(rig.send(&spool).sent, 5);
    let objects = rig.objects();
    assert_eq!(objects.len(), 10, "{objects:#?}");
    let (session, done) = rig.fetched(&rig.want(), None);
    assert!(session.observations == rig.session.observations);
    assert_eq!(session.header.node, "node1");
    assert_eq!(session.header.segment, None);
    assert_eq!((done.holes.len(), done.unreadable.len()), (0, 0));
    assert_eq!(
        session.report.until,
        Some(session.observations.last().unwrap().stamp.seen)
    );
    // Nothing is owed any more. A process that was killed before it marked segments as sent sends all again.
    assert_eq!(rig.send(&spool).sent, 0);
    let dir = rig.path("spool-node1");
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_string_lossy().into_owned();
        if name.contains(".sent.") {
            fs::rename(&path, name.replace(".sent.", ".")).unwrap();
        }
    }
    drop(spool);
    let options = Options {
        owed: true,
        ..Options::default()
    };
    let spool = Spool::open(&dir, options).unwrap();
    assert_eq!(rig.send(&spool).sent, 5);
    assert_eq!(rig.objects(), objects);
    assert!(rig.fetched(&rig.want(), None).0.observations == rig.session.observations);
}

#[test]
fn only_what_is_asked_for_is_fetched_and_once() {
    let rig = Rig::new();
    for (node, hours) in [("node1", 0), ("node2", 0), ("node2", 24)] {
        let spool = rig.spool(node, 4, hours);
        rig.send(&spool);
        drop(spool);
        fs::remove_dir_all(rig.path(&format!("spool-{node}"))).unwrap();
    }
    let (begin, end) = rig.session.range().unwrap();
    // A short time of one node.
    let middle = begin.plus(end.since(begin) / 2);
    let want = Want {
        node: Some("node1".into()),
        from: middle,
        to: middle.plus(1),
        ..rig.want()
    };
    let cache = Cache::open(&rig.path("cache"), 1 << 30).unwrap();
    let (session, done) = rig.fetched(&want, Some(&cache));
    assert!(done.bytes > 0 && done.cached == 0);
    let store = rig.store();
    assert_eq!(rig.run(plan(&store, &want)).unwrap().segments.len(), 1);
    assert!(session.observations.iter().all(|o| o.stamp.seen <= want.to));
    let (again, done) = rig.fetched(&want, Some(&cache));
    assert!(done.bytes == 0 && done.cached > 0);
    assert!(again.observations == session.observations);
    // A cached file whose bytes are not the object's is fetched again.
    for entry in fs::read_dir(rig.path("cache")).unwrap() {
        fs::write(entry.unwrap().path(), "x").unwrap();
    }
    assert!(rig.fetched(&want, Some(&cache)).1.bytes > 0);
    // Both nodes: connections of different nodes get different numbers.
    let want = Want {
        to: end.plus(1),
        ..rig.want()
    };
    let (both, _) = rig.fetched(&want, None);
    assert_eq!(both.observations.len(), 2 * rig.session.observations.len());
    let connections = |s: &Session| -> std::collections::BTreeSet<u32> {
        let calls = s.observations.iter().filter_map(|o| match &o.body {
            Body::CallStart(c) => Some(c.key.conn),
            _ => None,
        });
        calls.collect()
    };
    assert_eq!(
        connections(&both).len(),
        2 * connections(&rig.session).len()
    );
    // For what is not there, the error says what is.
    let none = |want: Want| rig.refused(&want);
    let of = |node: &str| Want {
        node: Some(node.into()),
        ..rig.want()
    };
    assert!(none(of("node3")).contains("node1, node2"));
    let early = Want {
        to: Nanos(0),
        ..rig.want()
    };
    let early = Want {
        from: Nanos(-1),
        ..early
    };
    assert!(none(early).contains("it has something from 2026"));
    let elsewhere = Want {
        cluster: Some("other".into()),
        ..rig.want()
    };
    assert!(none(elsewhere).contains("it has lab"));
}

#[test]
fn a_pod_leads_to_its_node_without_a_segment_being_read() {
    let rig = Rig::new();
    let spool = rig.spool("node2", 3, 0);
    rig.send(&spool);
    // The same on another node that none of the pods is on: only the watch of unscheduled pods names them.
    let pods: Vec<_> = rig
        .session
        .observations
        .iter()
        .filter_map(|o| match &o.body {
            Body::Pod(p) if !p.spec.node.is_empty() => Some(p.clone()),
            _ => None,
        })
        .collect();
    let pod = pods.first().unwrap();
    let store = rig.store();
    let cluster = rig.cluster();
    let (all, bytes, unreadable) = rig
        .run(index(&store, &cluster, Nanos(i64::MIN), Nanos(i64::MAX)))
        .unwrap();
    assert!(bytes > 0 && unreadable.is_empty());
    let row = all.rows().find(|r| r.uid == pod.uid.0).unwrap();
    assert_eq!((&row.name, &row.namespace), (&pod.name, &pod.namespace));
    let asked = |query: &str| Want {
        pod: Some(Asked::pod(query, None)),
        ..rig.want()
    };
    for query in [
        format!("{}/{}", pod.namespace, pod.name),
        pod.name.to_string(),
        pod.uid.0.to_string(),
    ] {
        let plan = rig.run(plan(&store, &asked(&query))).unwrap();
        assert_eq!(plan.nodes().into_iter().collect::<Vec<_>>(), ["node2"]);
        assert!(plan.index_bytes > 0);
    }
    assert!(rig.refused(&asked("nobody")).contains("no such pod"));
    // Two processes merge at once, in two orders, and again: the same rows end up in one object.
    let before = all;
    let until = Nanos(i64::MAX / 2);
    rig.run(async {
        let (a, b) = tokio::join!(
            compact(&store, &cluster, until),
            compact(&store, &cluster, until)
        );
        a.unwrap();
        b.unwrap();
        compact(&store, &cluster, until).await.unwrap();
    });
    let objects = rig.objects();
    let merged: Vec<_> = objects.iter().filter(|o| o.contains("/pods/")).collect();
    let hours: std::collections::BTreeSet<Hour> = spool
        .ring()
        .segments()
        .iter()
        .map(|s| Hour::of(s.begin))
        .collect();
    assert_eq!(merged.len(), hours.len(), "{merged:#?}");
    assert!(merged.iter().all(|o| o.contains("merged-")));
    let (after, ..) = rig
        .run(index(&store, &cluster, Nanos(i64::MIN), Nanos(i64::MAX)))
        .unwrap();
    assert_eq!(after, before);
    // An object that is sent again is merged again, into the same object.
    let name = merged[0].clone();
    let folder = object_store::path::Path::from(name.as_str());
    let folder = folder.parent().unwrap();
    let done = rig.run(merge_rows(&store, &folder)).unwrap();
    assert_eq!((done.objects, done.made), (0, 0));
}

/// What the agents of three nodes and a command would do.
#[test]
fn agents_tidy_at_once_with_commands_and_no_row_goes() {
    let rig = Rig::new();
    for node in ["node1", "node2", "node3"] {
        rig.send(&rig.spool(node, 4, 0));
    }
    let (store, cluster) = (rig.store(), rig.cluster());
    let all = || index(&store, &cluster, Nanos(i64::MIN), Nanos(i64::MAX));
    let (whole, ..) = rig.run(all()).unwrap();
    let (begin, end) = rig.session.range().unwrap();
    let rows = || {
        let objects = rig.objects().into_iter();
        objects.filter(|o| o.contains("/pods/")).collect::<Vec<_>>()
    };
    let (apart, hour) = (rows().len(), kflow_model::units::HOUR);
    assert_eq!(Hour::of(begin), Hour::of(end), "the fixture is of one hour");
    // An hour that has just ended is left alone.
    let over = Hour::of(end).end();
    let early = rig.run(merge_hours(&store, &cluster, over, u64::MAX));
    assert_eq!((early.unwrap().objects, rows().len()), (0, apart));
    // More bytes than may be held in memory become several objects.
    let sizes = rows()
        .into_iter()
        .map(|o| fs::metadata(rig.path("store").join(o)).unwrap().len());
    let most = sizes.max().unwrap() * 5;
    let now = over.plus(hour / 2);
    rig.run(merge_hours(&store, &cluster, now, most)).unwrap();
    let some = rows().len();
    assert!((2..apart).contains(&some), "{apart} became {some}");
    assert!(rig.run(all()).unwrap().0 == whole);
    // All at once, and once more.
    let tidy = Tidy {
        keep: Some(Duration::from_secs(24 * 3600)),
    };
    for node in ["node1", "node2", "node3"] {
        fs::remove_dir_all(rig.path(&format!("spool-{node}"))).unwrap();
        rig.send(&rig.spool(node, 4, 0));
    }
    for _ in 0..2 {
        let (a, b, c, d) = rig.run(async {
            tokio::join!(
                tidy.look(&store, &cluster, now, true),
                tidy.look(&store, &cluster, now, true),
                compact(&store, &cluster, now),
                prune(&store, &cluster, begin)
            )
        });
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!((a.1.segments, b.1.segments), (0, 0));
        c.unwrap();
        d.unwrap();
        assert!(rig.run(all()).unwrap().0 == whole);
    }
    // A day later several agents at once remove the segments; an agent that keeps everything removes none.
    let later = end.plus(25 * hour);
    let kept = rig
        .run(Tidy::default().look(&store, &cluster, later, true))
        .unwrap();
    assert_eq!(kept.1.segments, 0);
    let (a, b) = rig.run(async {
        tokio::join!(
            tidy.look(&store, &cluster, later, true),
            tidy.look(&store, &cluster, later, true)
        )
    });
    let gone = a.unwrap().1.segments + b.unwrap().1.segments;
    assert!(gone >= 12, "{gone}");
    assert!(!rig.objects().iter().any(|o| o.contains("/segments/")));
}

/// Objects that are merged while the index is read are read from the merged object instead.
#[test]
fn an_index_that_is_compacted_while_it_is_read_is_read_whole() {
    let rig = Rig::new();
    rig.send(&rig.spool("node1", 5, 0));
    let (store, cluster) = (rig.store(), rig.cluster());
    let rows: Vec<(PathBuf, Vec<u8>)> = rig
        .objects()
        .iter()
        .filter(|o| o.contains("/pods/"))
        .map(|o| {
            let path = rig.path("store").join(o);
            let bytes = fs::read(&path).unwrap();
            (path, bytes)
        })
        .collect();
    let all = || index(&store, &cluster, Nanos(i64::MIN), Nanos(i64::MAX));
    let (whole, ..) = rig.run(all()).unwrap();
    for n in 0..50 {
        for (path, bytes) in &rows {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let (read, done) =
            rig.run(async { tokio::join!(all(), compact(&store, &cluster, Nanos(i64::MAX / 2))) });
        done.unwrap();
        let (read, _, unreadable) = read.unwrap();
        assert!(read == whole, "{n}: {unreadable:?}");
    }
}

#[test]
fn what_is_too_old_goes_by_two_at_once_and_the_rest_stays_whole() {
    let rig = Rig::new();
    for hours in [0, 24] {
        let spool = rig.spool("node1", 3, hours);
        rig.send(&spool);
        drop(spool);
        fs::remove_dir_all(rig.path("spool-node1")).unwrap();
    }
    let (store, cluster) = (rig.store(), rig.cluster());
    let (begin, end) = rig.session.range().unwrap();
    let until = end.plus(12 * kflow_model::units::HOUR);
    let nothing = rig.run(prune(&store, &cluster, begin)).unwrap();
    assert_eq!((nothing.segments, nothing.rows), (0, 0));
    let (a, b) = rig.run(async {
        tokio::join!(
            prune(&store, &cluster, until),
            prune(&store, &cluster, until)
        )
    });
    let (a, b) = (a.unwrap(), b.unwrap());
    assert!(a.segments + b.segments >= 3 && a.segments.max(b.segments) <= 3);
    assert!(a.bytes > 0 && a.rows + b.rows >= 3);
    let again = rig.run(prune(&store, &cluster, until)).unwrap();
    assert_eq!((again.segments, again.rows), (0, 0));
    assert_eq!(rig.objects().len(), 6);
    // A file left by a killed writer is not an object, and is removed once it is old enough.
    let kept = rig.path("store").join(rig.objects().remove(0));
    let left = PathBuf::from(format!("{}#1", kept.display()));
    fs::write(&left, "half a seg").unwrap();
    let other = kept.with_file_name("kept#x");
    fs::write(&other, "").unwrap();
    let age = |at: Nanos| {
        let at = Duration::from_nanos(at.0.unsigned_abs());
        let file = fs::File::options().append(true).open(&left).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + at).unwrap();
    };
    let pruned = |done: crate::compact::Pruned| (done.segments, done.unfinished);
    age(until);
    let done = rig.run(prune(&store, &cluster, until)).unwrap();
    assert_eq!((pruned(done), left.exists()), ((0, 0), true));
    age(until.plus(-1));
    let (a, b) = rig.run(async {
        tokio::join!(
            prune(&store, &cluster, until),
            prune(&store, &cluster, until)
        )
    });
    assert_eq!(a.unwrap().unfinished + b.unwrap().unfinished, 1);
    assert!(!left.exists() && other.exists() && kept.exists());
    fs::remove_file(other).unwrap();
    let (mut rest, _) = rig.fetched(&rig.want(), None);
    sort_arrivals(&mut rest.observations);
    assert_eq!(rest.observations.len(), rig.session.observations.len());
    assert!(rest.observations[0].stamp.seen > end);
}

#[test]
fn while_the_store_is_away_nothing_is_lost_and_it_is_told() {
    let rig = Rig::new();
    let spool = rig.spool("node1", 3, 0);
    // A file stands where the cluster's folder would be: every write fails.
    let store = rig.store();
    let away = rig.path("store/lab");
    fs::write(&away, "").unwrap();
    let up = Uploader::start(spool.ring(), store, rig.cluster(), None).unwrap();
    let failing = Mutex::new(None);
    while failing.lock().unwrap().is_none() {
        std::thread::yield_now();
        *failing.lock().unwrap() = up.status().failing;
    }
    let why = failing.into_inner().unwrap().unwrap();
    assert!(why.starts_with("cannot write lab/segments/"), "{why}");
    assert_eq!(spool.ring().status().waiting, 3);
    // Told to end during a pause, the uploader tries at once until all is sent.
    fs::remove_file(&away).unwrap();
    let status = up.stop(PATIENCE);
    assert_eq!((status.sent, status.failing), (3, None));
    assert_eq!(spool.ring().status().waiting, 0);
    assert!(rig.fetched(&rig.want(), None).0.observations == rig.session.observations);
}

#[test]
fn one_that_cannot_be_read_holds_up_no_other_and_a_bad_name_is_told() {
    let rig = Rig::new();
    let spool = rig.spool("node1", 3, 0);
    let first = spool.ring().segments()[0].clone();
    fs::write(&first.path, "no session").unwrap();
    let status = rig.send(&spool);
    assert_eq!((status.sent, status.unsendable), (2, 1));
    assert_eq!(spool.ring().status().waiting, 1);
    let spool = rig.spool("no node", 2, 0);
    let status = rig.send(&spool);
    assert_eq!((status.sent, status.unsendable), (0, 2));
}

/// Too many open files, or a disk that does not answer once.
#[test]
fn one_that_cannot_be_read_now_is_sent_later() {
    let rig = Rig::new();
    let spool = rig.spool("node1", 3, 0);
    let first = spool.ring().segments()[0].path.clone();
    let aside = rig.path("aside");
    fs::rename(&first, &aside).unwrap();
    // A folder is opened, and reading it fails.
    fs::create_dir(&first).unwrap();
    let up = Uploader::start(spool.ring(), rig.store(), rig.cluster(), None).unwrap();
    while up.status().failing.is_none() {
        std::thread::yield_now();
    }
    let status = up.status();
    assert_eq!((status.sent, status.unsendable), (2, 0));
    fs::remove_dir(&first).unwrap();
    fs::rename(&aside, &first).unwrap();
    let status = up.stop(PATIENCE);
    assert_eq!(
        (status.sent, status.unsendable, status.failing),
        (3, 0, None)
    );
    assert!(rig.fetched(&rig.want(), None).0.observations == rig.session.observations);
}

#[test]
fn a_segment_that_is_damaged_or_gone_is_told_and_the_rest_is_read() {
    let rig = Rig::new();
    rig.send(&rig.spool("node1", 4, 0));
    let segments: Vec<String> = rig
        .objects()
        .into_iter()
        .filter(|o| o.contains("/segments/"))
        .collect();
    fs::write(rig.path("store").join(&segments[1]), "damaged").unwrap();
    let (store, to) = (rig.store(), rig.path("out.kflow.zst"));
    let done = rig.run(async {
        let plan = plan(&store, &rig.want()).await.unwrap();
        fs::remove_file(rig.path("store").join(&segments[2])).unwrap();
        fetch(&store, &plan, None, &to, |_| {}).await.unwrap()
    });
    let told: Vec<&str> = done.unreadable.iter().map(|(p, _)| p.as_str()).collect();
    assert!(told.contains(&segments[1].as_str()) && told.contains(&segments[2].as_str()));
    assert_eq!(done.holes.len(), 1);
    assert!(done.holes[0].1.lost);
    assert!(done.observations > 0);
}

#[test]
fn a_store_is_made_for_its_owner_and_no_url_holds_a_password() {
    use std::os::unix::fs::PermissionsExt;
    let rig = Rig::new();
    let absent = Store::open(&rig.url(), Use::Read).unwrap_err();
    assert!(
        absent.to_string().contains("kflow record --store"),
        "{absent}"
    );
    rig.store();
    let mode = fs::metadata(rig.path("store"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    let store = Store::open(&rig.url(), Use::Read).unwrap();
    let empty = rig.run(plan(&store, &rig.want())).unwrap_err();
    assert!(matches!(empty, FetchError::Empty { .. }), "{empty}");
    for (url, says) in [
        ("s3://key:secret@bucket/x", "password"),
        ("/var/lib/store", "no URL of a store"),
        ("file://relative/x", "no URL of a store"),
        ("ftp://host/x", "no URL of a store"),
        ("file:///x?y", "query"),
    ] {
        let e = Store::open(url, Use::Read).unwrap_err().to_string();
        assert!(e.contains(says) && !e.contains("secret"), "{url}: {e}");
    }
}

/// Of a segment at an end no other segment's number tells.
#[test]
fn a_segment_that_cannot_be_read_is_a_gap_also_at_an_end() {
    for bad in [0, 3] {
        let rig = Rig::new();
        rig.send(&rig.spool("node1", 4, 0));
        let objects = rig.objects();
        let mut segments = objects.iter().filter(|o| o.contains("/segments/"));
        fs::write(rig.path("store").join(segments.nth(bad).unwrap()), "").unwrap();
        let (session, done) = rig.fetched(&rig.want(), None);
        assert_eq!((done.unreadable.len(), done.holes.len()), (1, 1), "{bad}");
        let hole = done.holes[0].1;
        assert!(hole.lost && hole.from < hole.to, "{bad}: {hole:?}");
        let gap = |o: &&Evidence| matches!(&o.body, Body::Gap(g) if g.since == hole.from);
        assert_eq!(session.observations.iter().filter(gap).count(), 1, "{bad}");
        let (begin, end) = session.range().unwrap();
        assert!(begin <= hole.to && hole.to <= end, "{bad}");
    }
}

/// A segment of which only the begin can be read, because the rest is gone or is other bytes.
#[test]
fn a_segment_that_is_read_in_part_is_told_and_is_a_gap() {
    for bad in 0..4 {
        for overwritten in [false, true] {
            let rig = Rig::new();
            rig.send(&rig.spool("node1", 4, 0));
            let objects = rig.objects();
            let mut segments = objects.iter().filter(|o| o.contains("/segments/"));
            let name = segments.nth(bad).unwrap();
            let path = rig.path("store").join(name);
            let mut bytes = fs::read(&path).unwrap();
            let half = bytes.len() / 2;
            if overwritten {
                bytes[half..].fill(0x5a);
            } else {
                bytes.truncate(half);
            }
            fs::write(&path, bytes).unwrap();
            let (session, done) = rig.fetched(&rig.want(), None);
            let told: Vec<&str> = done.damaged.iter().map(|(p, _)| p.as_str()).collect();
            assert_eq!(told, [name], "{bad} {overwritten}");
            assert!(session.observations.len() < rig.session.observations.len());
            let gap = |o: &&Evidence| matches!(&o.body, Body::Gap(g) if g.is_loss());
            assert!(
                session.observations.iter().any(|o| gap(&o)),
                "{bad} {overwritten}"
            );
        }
    }
}

/// A node's agent beside a recording of the whole cluster: both were recorded of one cluster. Of the recording half the
/// pods and lines are those that the agent told too.
#[test]
fn what_is_recorded_of_the_cluster_counts_where_one_node_is_recorded_too() {
    let rig = Rig::new();
    let told = |o: &&Evidence| {
        matches!(
            o.body,
            Body::Pod(_) | Body::Event(_) | Body::Log(_) | Body::Node(_)
        )
    };
    let all: Vec<Evidence> = rig
        .session
        .observations
        .iter()
        .filter(told)
        .cloned()
        .collect();
    let half = all.len() / 2;
    rig.send(&rig.spool_of("node1", 2, 0, &all[half..]));
    rig.send(&rig.spool_of("", 2, 0, &all));
    let (session, done) = rig.fetched(&rig.want(), None);
    assert_eq!((done.holes.len(), done.unreadable.len()), (0, 0));
    for o in &all {
        assert!(session.observations.contains(o), "{o:?}");
    }
    let lines = |all: &[Evidence]| {
        all.iter()
            .filter(|o| matches!(o.body, Body::Log(_)))
            .count()
    };
    assert!(lines(&all[half..]) > 0 && lines(&all[..half]) > 0);
    assert_eq!(lines(&session.observations), lines(&all));
    // The time of the recording is that of the cluster's.
    assert_eq!(session.range().unwrap().0, all[0].stamp.seen);
    // What is asked of the node is what it recorded.
    let node = Want {
        node: Some("node1".into()),
        ..rig.want()
    };
    assert_eq!(rig.fetched(&node, None).0.observations, all[half..]);
}

#[test]
fn what_is_no_object_in_a_folder_hides_none_and_a_file_that_fails_costs_itself() {
    let rig = Rig::new();
    rig.send(&rig.spool("node1", 4, 0));
    let (objects, store) = (rig.objects(), rig.path("store"));
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, store.join(name)).unwrap();
    link("..", "lab/segments/up");
    link("circle", "lab/segments/circle");
    link("nowhere", "lab/pods/nowhere");
    for odd in ["lab/segments/\u{1b}[31m", "lab/pods/a b\u{7}"] {
        fs::create_dir(store.join(odd)).unwrap();
        fs::write(store.join(odd).join("x"), "").unwrap();
    }
    assert_eq!(rig.objects(), objects);
    assert!(rig.fetched(&rig.want(), None).0.observations == rig.session.observations);
    let mut segments = objects.iter().filter(|o| o.contains("/segments/"));
    let bad = segments.nth(1).unwrap();
    let (store, to) = (rig.store(), rig.path("other.kflow.zst"));
    let done = rig.run(async {
        let plan = plan(&store, &rig.want()).await.unwrap();
        let path = rig.path("store").join(bad);
        fs::remove_file(&path).unwrap();
        // A folder is opened, and reading it fails.
        fs::create_dir(&path).unwrap();
        fetch(&store, &plan, None, &to, |_| {}).await.unwrap()
    });
    assert_eq!(done.unreadable.len(), 1, "{done:?}");
    assert_eq!(&done.unreadable[0].0, bad);
    assert!(done.holes[0].1.lost);
}

#[test]
fn an_index_that_cannot_be_read_is_told_although_another_names_a_node() {
    let rig = Rig::new();
    for node in ["node1", "node2"] {
        rig.send(&rig.spool(node, 1, 0));
    }
    let objects = rig.objects();
    let index = objects
        .iter()
        .find(|o| o.contains("/pods/") && o.contains("node2"));
    fs::write(rig.path("store").join(index.unwrap()), "damaged").unwrap();
    let pod = rig.session.observations.iter().find_map(|o| match &o.body {
        Body::Pod(p) => Some(p.uid.0.to_string()),
        _ => None,
    });
    let want = Want {
        pod: Some(Asked::pod(&pod.unwrap(), None)),
        ..rig.want()
    };
    let plan = rig.run(plan(&rig.store(), &want)).unwrap();
    let told: Vec<&String> = plan.unreadable.iter().map(|(path, _)| path).collect();
    assert_eq!(told, [index.unwrap()]);
}

/// The canary is invented; tests/it/secrets.rs puts canaries everywhere. A mark beside it proves that
/// the note was sent.
#[test]
fn no_object_holds_a_secret() {
    use kflow_model::{Source, Stamp};
    let rig = Rig::new();
    let mut spool = rig.spool("node1", 1, 0);
    let at = rig.session.range().unwrap().1.plus(1);
    let note = Observation {
        stamp: Stamp::exact(at),
        source: Source::Kflow,
        body: Body::Note(Box::new(Note {
            text: "mark0001q Authorization: Bearer Kanarie0001q".into(),
        })),
    };
    let now = Reading {
        wall: at,
        monotonic: clock::monotonic(),
        apart: Duration::ZERO,
    };
    spool.take(&Arc::new(note), now);
    spool.close(now);
    assert_eq!(rig.send(&spool).sent, 2);
    let mut marks = 0;
    for object in rig.objects() {
        let bytes = fs::read(rig.path("store").join(&object)).unwrap();
        let text = zstd::stream::decode_all(&bytes[..]).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains("Kanarie0001q"), "{object}");
        marks += usize::from(text.contains("mark0001q"));
    }
    assert_eq!(marks, 1);
}
