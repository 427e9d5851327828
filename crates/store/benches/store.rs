//! Finding a pod in a store of 1,000 nodes and a week, and what recordings cost.
//!
//! The store is a **simulation**. Its index is synthesised: 40 pods a node, a quarter of them new every hour. Of the hours that are asked for
//! every node has its rows and its twelve segments, all but one node's with the same body (it is never read); that one's are a recorded
//! node's, S5-burst, moved to three days back. The other hours of the week are listed and never read: they are one hour's object, by reference.
//!
//! `cargo bench -p kflow-store` measures with the index as nodes leave it (an object a node and hour) and compacted (an object an hour).
//! With `KFLOW_BENCH_STORE=FOLDER` the store stays there, and the line that a user would type is printed.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints, and may give up when its fixture is broken"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kflow_model::clock::{self, Reading};
use kflow_model::session::{Part, Session, load};
use kflow_model::units::{DAY, HOUR, size};
use kflow_model::{Body, Nanos, Observation};
use kflow_store::compact::compact;
use kflow_store::fetch::{Want, fetch, plan};
use kflow_store::index::{Asked, Index, Row};
use kflow_store::layout::{Hour, merged};
use kflow_store::name::File;
use kflow_store::{Bounds, Cluster, Options, Spool, Store, Uploader, Use};

const NODES: u32 = 1000;
const PODS: u32 = 40;
const HOURS: i64 = 7 * 24;
/// The node that is asked about.
const NODE: &str = "node0500";
/// How many hours ago the recording ends.
const AGO: i64 = 72;
/// Hours before that of which nodes have their segments and indexes: what is asked for reaches back so far.
const BACK: i64 = 3;
/// Segments of an hour.
const SEGMENTS: i64 = 12;
const NOW: Nanos = Nanos(1_795_510_800_000_000_000);

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sessions")
}

/// The pods of a node in an hour.
fn rows(node: &str, hour: i64, begin: Nanos, end: Nanos) -> Index {
    let mut index = Index::default();
    for n in 0..PODS {
        // Each lasts four hours, and a quarter of them begins with each.
        let born = (hour + i64::from(n % 4)) / 4;
        let seed = node
            .bytes()
            .fold(u64::from(n) << 48 ^ (born as u64) << 24, |a, b| {
                a.wrapping_mul(31).wrapping_add(u64::from(b))
            });
        let mut random = fastrand::Rng::with_seed(seed);
        let (a, b) = (random.u64(..), random.u64(..));
        let uid = format!("{a:016x}{b:016x}");
        let uid: Vec<&str> = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)]
            .iter()
            .filter_map(|(from, to)| uid.get(*from..*to))
            .collect();
        index.add(Row {
            uid: uid.join("-").into(),
            namespace: format!("team-{}", n % 12).into(),
            name: format!("service-{n}-{:08x}-{:05x}", a >> 32, b >> 44).into(),
            node: node.into(),
            recorder: node.into(),
            begin,
            end,
        });
    }
    index
}

fn spool_in(dir: &Path, node: &str) -> Spool {
    let options = Options {
        node: node.into(),
        bounds: Bounds {
            bytes: u64::MAX,
            free: 0,
            ..Bounds::default()
        },
        owed: true,
    };
    Spool::open(&dir.join("spool"), options).expect("a spool")
}

fn reading(wall: Nanos) -> Reading {
    Reading {
        wall,
        monotonic: clock::monotonic(),
        apart: Duration::ZERO,
    }
}

/// The recording, ending at `end`; one of its pods, by name.
fn put_recording(store: &Store, cluster: &Cluster, end: Nanos) -> String {
    let session = load(&fixtures().join("S5-burst.kflow.zst")).expect("the fixture");
    let by = end.since(session.range().expect("not empty").1);
    let dir = tempfile::tempdir().expect("a folder");
    let mut spool = spool_in(dir.path(), NODE);
    let all = &session.observations;
    let mut pod = None;
    let mut last = Nanos(0);
    for (n, o) in all.iter().enumerate() {
        let mut o = Observation::clone(o);
        o.stamp.seen = o.stamp.seen.plus(by);
        o.stamp.at = o.stamp.at.plus(by);
        if let Body::Pod(p) = &o.body
            && !p.spec.node.is_empty()
        {
            pod.get_or_insert_with(|| format!("{}/{}", p.namespace, p.name));
        }
        if n > 0 && n % (all.len() / SEGMENTS as usize + 1) == 0 {
            spool.close(reading(last));
        }
        last = o.stamp.seen;
        spool.take(&Arc::new(o), reading(last));
    }
    spool.close(reading(last));
    let up = Uploader::start(spool.ring(), store.clone(), cluster.clone(), None).expect("a thread");
    assert_eq!(up.stop(Duration::from_secs(60)).sent, SEGMENTS as u64);
    pod.expect("a pod")
}

/// What a recording takes in a store, in segments of five minutes.
fn cost(path: &Path) {
    let session: Session = load(path).expect("the fixture");
    let (begin, end) = session.range().expect("not empty");
    let dir = tempfile::tempdir().expect("a folder");
    let mut spool = spool_in(dir.path(), "node1");
    let mut next = begin.plus(HOUR / SEGMENTS);
    for o in &session.observations {
        if o.stamp.seen >= next {
            spool.close(reading(next));
            next = next.plus(HOUR / SEGMENTS);
        }
        spool.take(o, reading(o.stamp.seen));
    }
    spool.close(reading(end));
    let of = |f: fn(&Body) -> bool| session.observations.iter().filter(|o| f(&o.body)).count();
    let bytes: u64 = spool.ring().segments().iter().map(|s| s.bytes).sum();
    let length = end.since(begin);
    let day = bytes as f64 * DAY as f64 / length as f64;
    println!(
        "| {} | {:.1} min | {} calls, {} log lines | {} | {} |",
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .replace(".kflow.zst", ""),
        length as f64 / 60e9,
        of(|b| matches!(b, Body::CallEnd(_))),
        of(|b| matches!(b, Body::Log(_))),
        size(bytes),
        size(day as u64)
    );
}

fn main() {
    println!("| recording | length | of it | segments | a day at this rate |");
    let versions = fixtures().join("../versions");
    let mut all: Vec<PathBuf> = [fixtures(), versions]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("fixtures"))
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.to_string_lossy().ends_with(".kflow.zst"))
        .collect();
    all.sort();
    for recording in &all {
        cost(recording);
    }

    let temporary = tempfile::tempdir().expect("a folder");
    let kept = std::env::var_os("KFLOW_BENCH_STORE").map(PathBuf::from);
    let root = kept
        .clone()
        .unwrap_or_else(|| temporary.path().join("store"));
    let url = format!("file://{}", root.display());
    let store = Store::open(&url, Use::Write).expect("a store");
    let cluster = Cluster::new(store.root(), "lab").expect("a name");
    let end = Nanos(NOW.0 - AGO * HOUR);
    let write = |path: &dyn AsRef<str>, bytes: &[u8]| {
        let file = root.join(path.as_ref());
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(file, bytes).expect("written");
    };
    let began = clock::monotonic();
    let mut bytes_of_index = 0;
    let mut whole = Index::default();
    for n in AGO..AGO + BACK {
        let begin = Nanos(NOW.0 - (n + 1) * HOUR);
        whole = Index::default();
        for node in 0..NODES {
            let node = format!("node{node:04}");
            let its = rows(&node, n, begin, begin.plus(HOUR));
            let (hash, bytes) = its.encode().expect("encoded");
            let folder = cluster.pods_of(Hour::of(begin), &node);
            bytes_of_index += bytes.len();
            write(&folder.join(merged(hash)), &bytes);
            whole.merge(its);
        }
    }
    let (hash, bytes) = whole.encode().expect("encoded");
    let one = root.join("index");
    fs::write(&one, &bytes).expect("written");
    for n in (0..HOURS).filter(|n| !(AGO..AGO + BACK).contains(n)) {
        let begin = Nanos(NOW.0 - (n + 1) * HOUR);
        let folder = root.join(cluster.pods_in(Hour::of(begin)).as_ref());
        fs::create_dir_all(&folder).expect("made");
        let name = merged(hash);
        fs::hard_link(&one, folder.join(name)).expect("linked");
        bytes_of_index += bytes.len();
    }
    // Every node's segments of the hours that are asked for: their names alone are looked at.
    let body = root.join("body");
    fs::write(&body, vec![0; 100 << 10]).expect("written");
    let mut segments = 0;
    for back in 0..BACK {
        for node in (0..NODES)
            .map(|n| format!("node{n:04}"))
            .filter(|n| n != NODE)
        {
            for n in 0..SEGMENTS {
                let begin = Nanos(end.0 - (back + 1) * HOUR + n * HOUR / SEGMENTS);
                let file = File::Closed {
                    begin,
                    end: begin.plus(HOUR / SEGMENTS),
                    part: Part {
                        run: format!("{:016x}", fastrand::u64(..)).into(),
                        n: 0,
                    },
                    observations: 9,
                    sent: false,
                };
                let folder = root.join(cluster.segments_of(Hour::of(begin), &node).as_ref());
                fs::create_dir_all(&folder).expect("made");
                fs::hard_link(&body, folder.join(file.to_string())).expect("linked");
                segments += 1;
            }
        }
    }
    let pod = put_recording(&store, &cluster, end);
    println!(
        "{NODES} nodes, {HOURS} hours: an index of {}, and {segments} segments in {BACK} hours; made in {:.1?}",
        size(bytes_of_index as u64),
        began.elapsed()
    );
    let from = end.plus(-HOUR);
    println!(
        "kflow why {pod} --store {url} --cluster lab --from {} --to {} -v",
        from.to_rfc3339(),
        end.to_rfc3339()
    );
    let want = Want {
        cluster: Some("lab".to_owned()),
        node: None,
        pod: Some(Asked::pod(&pod, None)),
        from,
        to: end,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    for what in ["as nodes left it", "compacted"] {
        // A recording is replaced by none.
        let out = temporary.path().join(format!("{what}.kflow.zst"));
        let began = clock::monotonic();
        let (plan, done, found) = runtime.block_on(async {
            let plan = plan(&store, &want).await.expect("found");
            let found = began.elapsed();
            let done = fetch(&store, &plan, None, &out, |_| {}).await;
            (plan, done.expect("fetched"), found)
        });
        println!(
            "index {what}: {:.2?}, of it {found:.2?} to find it; {} of the index and {} of {} segments of {:?}",
            began.elapsed(),
            size(plan.index_bytes),
            size(done.bytes),
            plan.segments.len(),
            plan.nodes()
        );
        if what == "compacted" {
            continue;
        }
        let began = clock::monotonic();
        let done = runtime.block_on(compact(&store, &cluster, NOW));
        println!(
            "compacting: {:.2?} for {} objects",
            began.elapsed(),
            done.expect("compacted").objects
        );
    }
}
