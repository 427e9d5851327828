//! Diagnoses every pod of a large session. The aim is less than 200 ms for 10,000 pods.
//!
//! The pods are those of three recordings in the middle of their stories, copied under other names and UIDs with
//! everything that the API and a kubelet at -v=4 reported about them. In one case all are stuck, in one all crash, and
//! in one all are well.
#![expect(
    clippy::expect_used,
    reason = "a benchmark that cannot set up should stop"
)]

#[path = "shared/allocator.rs"]
mod allocator;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use kflow_core::correlate::World;
use kflow_core::diagnose::Diagnoser;
use kflow_model::session::reader;
use kflow_model::{Body, Evidence, Nanos, Observation, PodUid, Source};

const PODS: usize = 10_000;

/// Returns a world with a recorded session's pods, copied until there are enough: they hold what real pods hold.
fn world(session: &str, pods: usize, log: bool) -> (World, Nanos) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("fixtures/sessions/{session}.kflow.zst"));
    let session = reader::load(&path).expect("the session is readable");
    let end = session
        .observations
        .last()
        .expect("it is not empty")
        .stamp
        .seen;
    // In the middle of the session every pod is stuck and none is deleted yet.
    let begin = session
        .observations
        .first()
        .expect("it is not empty")
        .stamp
        .seen;
    let now = begin.plus(end.since(begin) / 2);
    let mut first = World::new();
    for o in session.observations.iter().filter(|o| o.stamp.seen <= now) {
        first.observe(o);
    }
    first.refresh();
    let originals: Vec<PodUid> = first
        .pods()
        .iter()
        .filter(|p| p.gone.is_none() && p.api.is_some())
        .map(|p| p.uid.clone())
        .collect();
    let mut all = World::new();
    let mut made = 0;
    'fill: loop {
        for uid in &originals {
            let pod = first.pod(uid).expect("it was there");
            for o in pod.evidence.iter().filter(|o| copies(o, log)) {
                all.observe(&Arc::new(copy(o, uid, made)));
            }
            made += 1;
            if made == pods {
                break 'fill;
            }
        }
    }
    all.refresh();
    assert!(all.pods().len() >= pods, "{} pods", all.pods().len());
    (all, now)
}

/// Whether an observation identifies its pod by UID, and so can be copied for another pod.
fn copies(o: &Evidence, log: bool) -> bool {
    (o.source == Source::Kube || (log && o.source == Source::Kubelet))
        && matches!(o.body, Body::Pod(_) | Body::Event(_) | Body::Log(_))
}

fn copy(o: &Observation, uid: &PodUid, n: usize) -> Observation {
    let mut o = o.clone();
    let own = PodUid::from(format!("{}-{n}", uid.as_str()));
    let name = |old: &str| format!("{old}-{n}").into();
    match &mut o.body {
        Body::Pod(p) => {
            p.uid = own;
            p.name = name(&p.name);
        }
        Body::Event(e) => {
            e.object.uid = own.0;
            e.object.name = name(&e.object.name);
        }
        Body::Log(l) => {
            l.pod.uid = own;
            l.pod.name = name(&l.pod.name);
        }
        _ => {}
    }
    o
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("diagnose");
    group.sample_size(10);
    for (session, expected) in [
        ("S2-stuck-early", PODS),
        ("S3-crashes", PODS),
        ("S5-burst", 0),
    ] {
        for log in [false, true] {
            case(&mut group, session, expected, log);
        }
    }
    group.finish();
}

/// Measures with observations of the API alone, as most of 10,000 pods are known (a kubelet's log covers one node), or
/// with every pod's log lines at -v=4.
fn case(group: &mut BenchmarkGroup<'_, WallTime>, session: &str, expected: usize, log: bool) {
    let with = if log { ", with log lines" } else { "" };
    let (world, now) = world(session, PODS, log);
    group.bench_function(format!("all of 10,000 pods like {session}{with}"), |b| {
        b.iter(|| black_box(Diagnoser::new().update(&world, now)));
    });
    let mut warm = Diagnoser::new();
    let told = warm.update(&world, now).0.len();
    // In the middle of the story the API alone does not show the trouble of every pod.
    assert!(
        told <= expected && told * 10 >= expected * 8,
        "{session}: {told} of {PODS} pods have a verdict"
    );
    group.bench_function(format!("again, nothing changed, {session}{with}"), |b| {
        b.iter(|| black_box(warm.update(&world, now)));
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
