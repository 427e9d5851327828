//! Recordings in a store: what comes back is what was recorded, whatever it was cut into, and every command reads it as a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use kflow_engine::world_at;
use kflow_model::clock::{self, Reading};
use kflow_model::session::reader::sort_arrivals;
use kflow_model::session::{Session, Writer, format, load};
use kflow_model::{Nanos, Observation};
use kflow_store::fetch::{Want, fetch, plan};
use kflow_store::{Bounds, Cluster, Options, Spool, Store, Uploader, Use};

use crate::fixture;
use crate::program::{self, Said, run};

const PATIENCE: Duration = Duration::from_secs(120);

/// A recording as this kflow would have made it.
fn recording(path: &Path) -> Session {
    let mut session = load(path).unwrap();
    for o in &mut session.observations {
        *o = Arc::new(format::redacted(Observation::clone(o)));
    }
    session
}

fn recordings() -> Vec<PathBuf> {
    let all = fs::read_dir(fixture("sessions")).unwrap();
    let mut all: Vec<PathBuf> = all.map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.to_string_lossy().ends_with(".kflow.zst"));
    all.sort();
    assert!(all.len() > 10);
    all
}

/// Puts a session into a store, cut into so many segments, by way of a spool as a recorder does.
fn put(store: &Store, session: &Session, node: &str, segments: usize) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        node: node.into(),
        bounds: Bounds {
            bytes: u64::MAX,
            free: 0,
            ..Bounds::default()
        },
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
    // Until the recording's end, which may be later than its last observation.
    now.wall = session.range().unwrap().1;
    spool.close(now);
    let cluster = Cluster::new(store.root(), "lab").unwrap();
    let up = Uploader::start(spool.ring(), store.clone(), cluster).unwrap();
    assert_eq!(up.stop(PATIENCE).sent, segments as u64);
}

fn url(dir: &Path) -> String {
    format!("file://{}/store", dir.display())
}

/// The whole of a store, as a session's file.
fn get(store: &Store, to: &Path) -> Session {
    let want = Want {
        cluster: None,
        node: None,
        pod: None,
        from: Nanos(i64::MIN),
        to: Nanos(i64::MAX),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let done = runtime.block_on(async {
        let plan = plan(store, &want).await.unwrap();
        fetch(store, &plan, None, to, |_| {}).await.unwrap()
    });
    assert_eq!((done.holes, done.unreadable), (vec![], vec![]));
    load(to).unwrap()
}

/// Issue: for every recording, however it was cut into segments.
#[test]
fn every_recording_comes_back_as_the_same_world() {
    for (n, path) in recordings().iter().enumerate() {
        let session = recording(path);
        // Another number of cuts for each, the smallest by several: one that is not cut, and ones within a second.
        let ways: &[usize] = match n {
            4 => &[1, 2, 60],
            _ => &[[1, 3, 7, 20][n % 4]],
        };
        for segments in ways {
            let what = format!("{} in {segments}", path.display());
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(&url(dir.path()), Use::Write).unwrap();
            put(&store, &session, &session.header.node, *segments);
            let mut back = get(&store, &dir.path().join("back.kflow.zst"));
            sort_arrivals(&mut back.observations);
            assert!(back.observations == session.observations, "{what}");
            let end = session.range().unwrap().1;
            assert_eq!(back.range().unwrap().1, end, "{what}");
            if n % 4 == 0 {
                let world = |s: &Session| world_at(s, end, Arc::default());
                let (was, is) = (world(&session), world(&back));
                let told = |w: &kflow_core::correlate::World| -> Vec<String> {
                    w.pods().iter().map(|p| format!("{:?}", **p)).collect()
                };
                assert!(told(&was) == told(&is), "{what}");
                assert!(format!("{:?}", was.calls()) == format!("{:?}", is.calls()));
            }
        }
    }
}

/// A recording in a store of four segments.
pub(crate) struct Rig {
    dir: tempfile::TempDir,
    /// The same as a file.
    file: PathBuf,
    session: Session,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let session = recording(&fixture("sessions/S13-crictl.kflow.zst"));
        let store = Store::open(&url(dir.path()), Use::Write).unwrap();
        put(&store, &session, "node1", 4);
        let file = dir.path().join("file.kflow.zst");
        let mut w = Writer::replace(&file, 3, &session.header).unwrap();
        for o in &session.observations {
            w.write(o).unwrap();
        }
        w.finish().unwrap();
        Self { dir, file, session }
    }
    pub(crate) fn url(&self) -> String {
        url(self.dir.path())
    }
    fn command(&self) -> Command {
        let mut c = program::command();
        c.env("XDG_CACHE_HOME", self.dir.path().join("cache"))
            .env("XDG_STATE_HOME", self.dir.path().join("state"));
        c
    }
    fn stored(&self, args: &[&str], more: &[&str]) -> Said {
        let (from, to) = self.session.range().unwrap();
        let (from, to) = (from.to_rfc3339(), to.to_rfc3339());
        let url = self.url();
        let store = ["--store", &url, "--from", &from, "--to", &to];
        run(self.command().args(args).args(store).args(more))
    }
    fn of_file(&self, args: &[&str]) -> Said {
        run(self.command().args(args).arg("-s").arg(&self.file))
    }
}

#[test]
fn every_command_reads_a_store_as_it_reads_a_file() {
    let rig = Rig::new();
    let pod = rig.of_file(&["timeline", "-o", "name"]).out;
    let pod = pod.lines().next().unwrap().replace("pod/", "");
    for args in [
        &["why", "--all", "-o", "json"][..],
        &["why", "--ever", "--all", "-o", "csv"],
        &["why", &pod],
        &["timeline", "-o", "json"],
        &["timeline", &pod, "-o", "csv"],
        &["calls", "-o", "jsonl"],
        &["requests", "-o", "json"],
        &["stats", "-o", "json"],
        &["flow", &pod, "-o", "json"],
        &["export", "-o", "json"],
    ] {
        let (code, out, _) = rig.of_file(args).parts();
        let said = rig.stored(args, &[]);
        assert_eq!(
            (said.code, &said.out),
            (code, &out),
            "{args:?}: {}",
            said.err
        );
        assert!(!out.is_empty(), "{args:?}");
    }
    // What was fetched is told when that is asked for, and the second time nothing is fetched.
    let said = rig.stored(&["why", &pod], &["-v"]);
    assert!(said.err.contains("lab/segments/2026-"), "{}", said.err);
    assert!(said.err.contains(" 0 bytes fetched"), "{}", said.err);
    assert!(!said.err.contains(" 0 bytes of the index"), "{}", said.err);
    let cache = rig.dir.path().join("cache/kflow/segments");
    let kept: Vec<_> = fs::read_dir(cache).unwrap().collect();
    assert_eq!(kept.len(), 4, "{kept:?}");
    // What is not there.
    let said = rig.stored(&["why", "nobody/nothing"], &[]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("no such pod"), "{}", said.err);
    let said = rig.stored(&["calls"], &["--node", "node2"]);
    assert!(said.err.contains("then it has node1"), "{}", said.err);
    let said = rig.stored(&["calls"], &["-s", "x"]);
    assert!(said.err.contains("two recordings"), "{}", said.err);
    let url = url(rig.dir.path());
    let said = run(rig
        .command()
        .args(["calls", "--store", &url, "--from", "-2h"]));
    assert!(
        said.err.contains("it has something from 2026"),
        "{}",
        said.err
    );
    let said = run(rig.command().args(["calls", "--from", "-2h"]));
    assert_eq!(said.code, Some(2));
}

#[test]
fn a_run_is_recorded_into_a_store_and_what_the_store_refuses_waits() {
    let rig = Rig::new();
    let log = rig.dir.path().join("kubelet.log");
    let packed = fs::read(fixture("captures/kubelet.log.zst")).unwrap();
    fs::write(&log, zstd::decode_all(&packed[..]).unwrap()).unwrap();
    let url = format!("file://{}/live", rig.dir.path().display());
    let record = |more: &[&str]| {
        let mut c = rig.command();
        c.args(["record", "--no-api", "--tap", "off", "--for", "1s"])
            .arg("--kubelet-log")
            .arg(&log)
            .args(["--store", &url, "--cluster", "live"])
            .args(more);
        run(&mut c)
    };
    // A file stands where its folder would be.
    let store = rig.dir.path().join("live");
    fs::create_dir(&store).unwrap();
    fs::write(store.join("live"), "").unwrap();
    let said = record(&[]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("They wait in"), "{}", said.err);
    fs::remove_file(store.join("live")).unwrap();
    let said = record(&[]);
    assert!(said.err.contains("2 segments sent"), "{}", said.err);
    let said = run(rig
        .command()
        .args(["timeline", "--store", &url, "-o", "name"]));
    // Between the two runs there is a time of which none tells.
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(
        said.err.contains("no segment tells of this time"),
        "{}",
        said.err
    );
    assert!(said.out.lines().count() > 1, "{}", said.out);
    // What goes together with no store, and what does not go with one.
    for args in [
        &["record", "-O", "x.kflow", "--cluster", "c"][..],
        &["record", "-O", "x.kflow", "--store", &url],
        &["record", "--store", &url, "--max-size", "1M"],
        &["record", "--store", &url, "--cluster", "a/b", "--no-api"],
        &["record", "-O", "x.kflow", "--spool", "s"],
        &["record", "-O", "x.kflow", "--spool-size", "1M"],
        &["record", "-O", "x.kflow", "--segment", "1m"],
    ] {
        let said = run(rig.command().args(args).current_dir(rig.dir.path()));
        assert_eq!(said.code, Some(2), "{args:?}");
        assert!(
            said.err.contains("--store") || said.err.contains("a/b"),
            "{args:?}: {}",
            said.err
        );
    }
}

#[test]
fn what_a_store_has_is_listed_and_what_is_old_goes() {
    let rig = Rig::new();
    let url = rig.url();
    let store = |args: &[&str]| run(rig.command().arg("store").args(args));
    let listed = |name: &str| -> serde_json::Value {
        let said = store(&["ls", &url, "-o", "json"]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let rows: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        rows[0][name].clone()
    };
    assert_eq!(
        (listed("cluster"), listed("node")),
        ("lab".into(), "node1".into())
    );
    assert_eq!(
        (listed("segments"), listed("missing")),
        (4.into(), 0.into())
    );
    let all = rig.session.observations.len();
    assert_eq!(listed("observations"), all);
    let text = store(&["ls", &url]).out;
    assert!(text.starts_with("CLUSTER  NODE "), "{text}");
    // The second of four goes by hand.
    let hour = kflow_store::layout::Hour::of(rig.session.range().unwrap().0);
    let folder = rig
        .dir
        .path()
        .join(format!("store/lab/segments/{hour}/node1"));
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    if files.len() == 4 {
        fs::remove_file(&files[1]).unwrap();
        assert_eq!(listed("missing"), 1);
        let said = rig.stored(&["calls"], &[]);
        assert!(
            said.err.contains("nothing is kept of node1 between"),
            "{}",
            said.err
        );
    }
    let said = store(&["compact", &url]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("of the index became 1"), "{}", said.err);
    let said = store(&["prune", &url]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("--keep"), "{}", said.err);
    let said = store(&["prune", &url, "--keep", "9999d"]);
    assert!(said.err.contains(" 0 segments removed"), "{}", said.err);
    let said = store(&["prune", &url, "--keep", "1s", "--cluster", "lab"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(store(&["ls", &url, "-o", "json"]).out, "[]\n");
    assert_eq!(store(&["ls", &url, "--cluster", "other"]).code, Some(2));
}
