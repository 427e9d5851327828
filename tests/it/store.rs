//! Recordings in a store: what is read back is what was recorded, however it was cut into segments, and every command
//! reads a store like a file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use kflow_engine::world_at;
use kflow_model::clock::{self, Reading};
use kflow_model::session::reader::sort_arrivals;
use kflow_model::session::{Header, Session, Writer, format, load};
use kflow_model::{Evidence, Nanos, Observation};
use kflow_store::fetch::{Want, fetch, plan};
use kflow_store::{Bounds, Cluster, Options, Spool, Store, Uploader, Use};
use proptest::prelude::*;

use crate::fixture;
use crate::program::{self, Said, run};

const PATIENCE: Duration = Duration::from_secs(120);

/// Loads a recording, redacted as the current kflow would have recorded it.
fn recording(path: &Path) -> Session {
    let mut session = load(path).unwrap();
    for o in &mut session.observations {
        *o = Arc::new(format::redacted(Observation::clone(o)));
    }
    session
}

fn recordings() -> Vec<PathBuf> {
    let folders = ["sessions", "versions"];
    let all = folders
        .iter()
        .flat_map(|f| fs::read_dir(fixture(f)).unwrap());
    let mut all: Vec<PathBuf> = all.map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.to_string_lossy().ends_with(".kflow.zst"));
    all.sort();
    assert!(all.len() > 10);
    all
}

/// Puts a session into a store in this many segments, through a spool as a recorder does.
pub(crate) fn put(store: &Store, session: &Session, node: &str, segments: usize) {
    let len = session.observations.len();
    let cuts: Vec<usize> = (1..len).filter(|n| n % (len / segments + 1) == 0).collect();
    assert_eq!(put_cut(store, session, node, &cuts), segments as u64);
}

/// Like [`put`], with a cut before each of these observations; returns the number of segments.
fn put_cut(store: &Store, session: &Session, node: &str, cuts: &[usize]) -> u64 {
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
    for (n, o) in session.observations.iter().enumerate() {
        if n > 0 && cuts.contains(&n) {
            spool.close(now);
        }
        now.wall = o.stamp.seen;
        spool.take(o, now);
    }
    // The recording may end later than its last observation.
    now.wall = session.range().unwrap().1;
    spool.close(now);
    let cluster = Cluster::new(store.root(), "lab").unwrap();
    let up = Uploader::start(spool.ring(), store.clone(), cluster, None).unwrap();
    up.stop(PATIENCE).sent
}

fn url(dir: &Path) -> String {
    format!("file://{}/store", dir.display())
}

/// Reads everything in a store, and writes it as a session file.
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

/// Returns everything that a world holds, as text.
fn told(session: &Session, at: Nanos) -> String {
    let world = world_at(session, at, Arc::default());
    let mut told = format!("{:?}", world.calls());
    for pod in world.pods() {
        told.push_str(&format!("\n{:?}", **pod));
    }
    told
}

/// Returns the bytes of a session file with these observations.
fn written(header: &Header, all: &[Evidence], path: &Path) -> Vec<u8> {
    let mut w = Writer::replace(path, 1, header).unwrap();
    for o in all {
        w.write(o).unwrap();
    }
    w.finish().unwrap();
    fs::read(path).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        // One case already covers all recordings. A smaller one would explain a failure no better, and each test run
        // has other random values.
        cases: 1,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    /// For every recording, however it is cut into segments, the store returns observations that give the same world as
    /// the file, byte for byte.
    #[test]
    fn every_recording_comes_back_as_the_same_world(
        places in prop::collection::vec(0.0..1.0_f64, 0..9),
        close in prop::collection::vec(0_usize..40, 0..3),
        moment in 0.0..1.0_f64,
    ) {
        for (n, path) in recordings().iter().enumerate() {
            let session = recording(path);
            let len = session.observations.len();
            // Cuts at random places, and some so close together that a segment has hardly any observation.
            let mut cuts: Vec<usize> = places.iter().map(|p| 1 + (p * (len - 1) as f64) as usize).collect();
            cuts.extend(close.iter().map(|c| (len / 2 + c).min(len - 1)));
            cuts.retain(|c| *c < len);
            cuts.sort_unstable();
            cuts.dedup();
            let what = format!("{} cut at {cuts:?}", path.display());
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(&url(dir.path()), Use::Write).unwrap();
            let segments = put_cut(&store, &session, &session.header.node, &cuts);
            prop_assert_eq!(segments, cuts.len() as u64 + 1, "{}", &what);
            let mut back = get(&store, &dir.path().join("back.kflow.zst"));
            sort_arrivals(&mut back.observations);
            let bytes = |s: &Session, name: &str| written(&session.header, &s.observations, &dir.path().join(name));
            prop_assert!(bytes(&back, "is.kflow.zst") == bytes(&session, "was.kflow.zst"), "{what}");
            let (begin, end) = session.range().unwrap();
            prop_assert_eq!(back.range().unwrap(), (begin, end), "{}", &what);
            // Equal bytes give equal worlds. For one recording in four the test checks that at a random moment.
            if n % 4 == 0 {
                let at = begin.plus((end.since(begin) as f64 * moment) as i64);
                prop_assert!(told(&back, at) == told(&session, at), "{what}");
            }
        }
    }
}

/// A recording in a store, as four segments.
pub(crate) struct Rig {
    dir: tempfile::TempDir,
    /// The same recording as a file.
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
    // Next steps name the recording, each in its own way.
    let named = regex::Regex::new(r#" (-s|--store) [^"\n]*"#).unwrap();
    let unnamed = |out: &str| named.replace_all(out, "").into_owned();
    for args in [
        &["why", "--all", "-o", "json"][..],
        &["why", "--ever", "--all", "-o", "csv"],
        &["why", &pod, "-o", "json"],
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
            (said.code, unnamed(&said.out)),
            (code, unnamed(&out)),
            "{args:?}: {}",
            said.err
        );
        assert!(!out.is_empty(), "{args:?}");
    }
    // With `-v` the command reports what it fetched; the second time it fetches nothing.
    let said = rig.stored(&["why", &pod], &["-v"]);
    assert!(said.err.contains("lab/segments/2026-"), "{}", said.err);
    assert!(said.err.contains(" 0 bytes fetched"), "{}", said.err);
    assert!(!said.err.contains(" 0 bytes of the index"), "{}", said.err);
    let cache = rig.dir.path().join("cache/kflow/segments");
    let kept: Vec<_> = fs::read_dir(cache).unwrap().collect();
    assert_eq!(kept.len(), 4, "{kept:?}");
    // Pods and nodes that the store does not have.
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
    // A file takes the path of the store's folder.
    let store = rig.dir.path().join("live");
    fs::create_dir(&store).unwrap();
    fs::write(store.join("live"), "").unwrap();
    let said = record(&[]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("What waits in "), "{}", said.err);
    fs::remove_file(store.join("live")).unwrap();
    let said = record(&[]);
    assert!(said.err.contains("2 segments sent"), "{}", said.err);
    let said = run(rig
        .command()
        .args(["timeline", "--store", &url, "-o", "name"]));
    // Nobody recorded between the two runs: the command says so, and answers from what was recorded.
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains(": nobody recorded\n"), "{}", said.err);
    assert!(said.out.lines().count() > 1, "{}", said.out);
    // For one pod the log only has the UID.
    assert!(!said.out.lines().any(|l| l == "pod/"), "{}", said.out);
    // Flags that need a store, and flags that a store excludes.
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
    // The test deletes the second of four segments.
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
        // The first upload of the first segment broke off, and it was sent again: both count as one segment.
        let name = files[0].to_string_lossy().into_owned();
        let (begin, _) = name
            .strip_suffix(".kflow.zst")
            .unwrap()
            .rsplit_once('.')
            .unwrap();
        fs::copy(&files[0], format!("{begin}.1.kflow.zst")).unwrap();
        assert_eq!(
            (listed("segments"), listed("observations")),
            (4.into(), all.into())
        );
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
    let said = store(&["prune", &url, "--keep", "0"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    let before = store(&["ls", &url, "-o", "json"]).out;
    let said = store(&["prune", &url, "--keep", "1s", "--dry-run"]);
    assert!(said.err.contains("would be removed"), "{}", said.err);
    assert!(!said.err.contains(" 0 segments"), "{}", said.err);
    assert_eq!(store(&["ls", &url, "-o", "json"]).out, before);
    let said = store(&["prune", &url, "--keep", "1s", "--cluster", "lab"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(store(&["ls", &url, "-o", "json"]).out, "[]\n");
    assert_eq!(store(&["ls", &url, "--cluster", "other"]).code, Some(2));
}

#[test]
fn what_a_store_does_not_have_is_said_with_what_it_has() {
    let rig = Rig::new();
    let (begin, end) = rig.session.range().unwrap();
    let pod = rig.of_file(&["timeline", "-o", "name"]).out;
    let pod = pod.lines().next().unwrap().replace("pod/", "");
    // A name that is written wrongly, and rows for who asks for them.
    let wrong = format!("{pod}x");
    let said = rig.stored(&["why", &wrong, "-o", "json"], &[]);
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("did you mean ") && said.err.contains(&format!("{pod}?")),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("it has something from 2026"),
        "{}",
        said.err
    );
    let rows: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(rows[0]["state"], "unknown", "{}", said.out);
    let said = rig.stored(&["calls"], &["--node", "Node1"]);
    assert!(said.err.contains("did you mean node1?"), "{}", said.err);
    // `--at` alone is enough to find what is of that time.
    let url = rig.url();
    let middle = begin.plus(end.since(begin) / 2).to_rfc3339();
    let at = |moment: &str| {
        let mut c = rig.command();
        run(c.args(["timeline", "-o", "json", "--store", &url, "--at", moment]))
    };
    let file = rig.of_file(&["timeline", "-o", "json", "--at", &middle]);
    assert_eq!(at(&middle).out, file.out);
    let said = at("2020-01-01T00:00:00Z");
    let second = |at: Nanos| at.to_rfc3339()[..19].to_owned();
    for bound in [second(begin), second(end)] {
        assert!(said.err.contains(&bound), "{bound}: {}", said.err);
    }
    // The folder of a cluster is no store.
    let said = run(rig.command().args(["store", "ls", &format!("{url}/lab")]));
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("--cluster lab"), "{}", said.err);
    // Without an index the segments themselves are looked into.
    fs::remove_dir_all(rig.dir.path().join("store/lab/pods")).unwrap();
    let said = rig.stored(&["timeline", &pod, "-o", "json"], &[]);
    assert!(said.err.contains("no index of pods"), "{}", said.err);
    assert_eq!(said.out, rig.of_file(&["timeline", &pod, "-o", "json"]).out);
}

#[test]
fn an_answer_is_not_whole_where_a_segment_at_an_end_cannot_be_read() {
    for bad in [0, 3] {
        let rig = Rig::new();
        let mut segments = Vec::new();
        let mut folders = vec![rig.dir.path().join("store/lab/segments")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                (if path.is_dir() {
                    &mut folders
                } else {
                    &mut segments
                })
                .push(path);
            }
        }
        segments.sort_by_key(|p| p.file_name().unwrap().to_owned());
        fs::write(&segments[bad], "").unwrap();
        let said = rig.stored(&["timeline"], &[]);
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(
            said.err.contains("nothing is kept of node1 between"),
            "{}",
            said.err
        );
    }
}

/// The quota keeps the Deployment without a pod.
#[test]
fn an_owner_without_pods_is_found_although_no_pod_leads_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}/store", dir.path().display());
    let file = fixture("sessions/S2-stuck-early.kflow.zst");
    let file = file.to_string_lossy();
    let mut c = program::command();
    c.env("XDG_CACHE_HOME", dir.path().join("cache"));
    let said = run(c.args(["store", "add", &url, &file]));
    assert_eq!(said.code, Some(0), "{}", said.err);
    let (from, to) = load(Path::new(&*file)).unwrap().range().unwrap();
    let (from, to) = (from.to_rfc3339(), to.to_rfc3339());
    let asks = ["why", "--ever", "s29/deployment/quota", "-o", "json"];
    let of_file = program::kflow(asks.iter().copied().chain(["-s", &file]));
    let mut c = program::command();
    c.env("XDG_CACHE_HOME", dir.path().join("cache"));
    let said = run(c
        .args(asks)
        .args(["--store", &url, "--from", &from, "--to", &to]));
    assert_eq!(
        (said.code, said.out),
        (of_file.code, of_file.out),
        "{}",
        said.err
    );
    assert_eq!(said.code, Some(1));
}

/// A user who only has a recording adds it to a store, and the store then answers as the file does.
#[test]
fn a_recording_that_is_added_is_asked_as_the_file_is_and_shown_by_its_name() {
    let rig = Rig::new();
    let url = format!("file://{}/added", rig.dir.path().display());
    let file = rig.file.display().to_string();
    let add = |more: &[&str]| {
        let mut c = rig.command();
        run(c.args(["store", "add", &url, &file]).args(more))
    };
    for _ in 0..2 {
        let said = add(&["--cluster", "prod", "--node", "node1"]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(
            said.err.contains(" of node1 in cluster prod"),
            "{}",
            said.err
        );
        assert!(said.err.contains(" UTC, 1 segment of "), "{}", said.err);
    }
    let said = add(&["--node", "node7"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains(" is of node1, "), "{}", said.err);
    let (from, to) = rig.session.range().unwrap();
    let (from, to) = (from.to_rfc3339(), to.to_rfc3339());
    let store = ["--store", &url, "--from", &from, "--to", &to];
    let said = run(rig.command().args(["calls", "-o", "jsonl"]).args(store));
    assert_eq!(said.out, rig.of_file(&["calls", "-o", "jsonl"]).out);
    // Adding a recording leaves nothing behind but the segment cache.
    let left = fs::read_dir(rig.dir.path().join("cache/kflow")).unwrap();
    let left: Vec<_> = left.map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["segments"]);
    for (file, why) in [
        ("nothing.kflow", "nothing.kflow"),
        ("Cargo.toml", "Cargo.toml"),
    ] {
        let said = run(rig.command().args(["store", "add", &url, file]));
        assert_eq!(said.code, Some(2), "{file}");
        assert!(said.err.contains(why), "{}", said.err);
    }
    // A folder that everyone may read is named when something is put there.
    let shared = rig.dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    for (mode, tells) in [(0o755, true), (0o750, false)] {
        fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).unwrap();
        let shared = format!("file://{}", shared.display());
        let said = run(rig.command().args(["store", "add", &shared, &file]));
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert_eq!(
            said.err.contains("(mode 755): chmod o="),
            tells,
            "{}",
            said.err
        );
    }
    // One that cannot be added keeps no other from it.
    let other = format!("file://{}/other", rig.dir.path().display());
    let mut c = rig.command();
    let said = run(c.args(["store", "add", &other, "Cargo.toml", &file]));
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(
        said.err.contains("Cargo.toml is left out: "),
        "{}",
        said.err
    );
    assert!(
        said.err.contains(" of node1 in cluster default"),
        "{}",
        said.err
    );
    // A flag of another action is refused.
    let said = run(rig.command().args(["store", "ls", &url, "--keep", "1d"]));
    assert_eq!(said.code, Some(2), "{}", said.out);
}

/// `--from` and similar flags take a value that may begin with a dash, but `--help` behind them still shows the help.
#[test]
fn help_is_help_behind_a_flag_whose_value_may_begin_with_a_dash() {
    for args in [
        &[
            "calls",
            "--store",
            "file:///no/such/store",
            "--from",
            "--help",
        ][..],
        &["stats", "-s", "a.kflow", "--range", "--help"],
        &["fleet", "a.kflow", "--compare", "..50%", "--help"],
    ] {
        let said = program::kflow(args);
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.err);
        let usage = format!("Usage: kflow {} ", args[0]);
        assert!(said.out.contains(&usage), "{args:?}: {}", said.out);
    }
    let said = program::kflow(["calls", "--from", "-2h", "--nonsense", "--help"]);
    assert_eq!(said.code, Some(2), "{}", said.out);
}
