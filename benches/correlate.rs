//! The correlator on synthetic churn that resembles the recordings: observations per second, and the cost of many pods.
//!
//! The life of each pod is a copy of the recorded life of `s01/healthy`: its evidence (about a thousand observations
//! from every source) with other UIDs, names, ids and times. The lives overlap, so that hundreds of pods are always in
//! the middle of theirs.
//!
//! `cargo bench --bench correlate` prints throughput and the ratio; it asserts nothing, because a busy machine is slow.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "a benchmark prints, asks the clock, and may give up when its fixture is broken"
)]

#[path = "shared/allocator.rs"]
mod allocator;
#[path = "shared/life.rs"]
mod life;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kflow_core::correlate::World;
use kflow_model::{Body, Evidence, Observation};

/// Returns the life of the n-th pod; one begins every 20 ms.
fn pod(lines: &[String], n: u64) -> Vec<Evidence> {
    let all = life::copy(lines, n, n as i64 * 20_000_000);
    all.into_iter().map(Arc::new).collect()
}

/// Returns a world that has long known `pods` pods, each with its newest state and one call.
fn old(lines: &[String], pods: u64) -> World {
    let mut w = World::new();
    let template = pod(lines, 0);
    // Every source has already reported something, and its first observation is earlier than any of the churn's: a new
    // source, or an earlier beginning of one, would make the world rebuild all views.
    for o in pod(lines, 0x0fff_0000) {
        let mut o = Arc::unwrap_or_clone(o);
        let earlier = -0x0fff_0000 * 20_000_000;
        o.stamp.at = o.stamp.at + earlier;
        o.stamp.seen = o.stamp.seen + earlier;
        w.observe(&Arc::new(o));
    }
    let few: Vec<&Evidence> = template
        .iter()
        .filter(|o| matches!(o.body, Body::Pod(_)))
        .take(1)
        .chain(
            template
                .iter()
                .filter(|o| matches!(&o.body, Body::CallStart(c) if c.method == "RunPodSandbox")),
        )
        .collect();
    for n in 0..pods {
        let uid = format!("{n:08x}-0000-496b-869a-7687fcb13acf");
        for o in &few {
            let mut o: Observation = (***o).clone();
            match &mut o.body {
                Body::Pod(p) => {
                    p.uid = uid.as_str().into();
                    p.name = format!("old-{n}").into();
                }
                Body::CallStart(c) => {
                    c.key.conn = 1_000_000 + n as u32;
                    c.subject.pod.uid = uid.as_str().into();
                    c.subject.pod.name = format!("old-{n}").into();
                    c.traceparent = None;
                }
                _ => {}
            }
            w.observe(&Arc::new(o));
        }
    }
    w.refresh();
    w
}

/// Returns the processor time of this thread, which a busy machine does not lengthen (Linux;
/// elsewhere the elapsed time).
fn used(since: Instant) -> Duration {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|s| s.split(' ').next()?.parse().ok())
        .map_or_else(|| since.elapsed(), Duration::from_nanos)
}

/// Which views an engine's frame reads.
#[derive(Clone, Copy)]
enum Looks {
    /// No view: a recording, an import, or a seek before its end.
    Nowhere,
    /// Every view that changed, in full: the list of pods, or a diagnosis of everything.
    Everywhere,
}

/// Returns the time for filing `churn`, for refreshing and for looking. There is one frame (a refresh, a snapshot, and
/// looking at views) for every `every` observations.
fn run(mut w: World, churn: &[Evidence], every: usize, looks: Looks) -> [Duration; 3] {
    let mut spent = [Duration::ZERO; 3];
    let begin = Instant::now();
    for part in churn.chunks(every) {
        let t = used(begin);
        for o in part {
            w.observe(o);
        }
        let filed = used(begin);
        w.refresh();
        let shot = std::hint::black_box(w.clone());
        let refreshed = used(begin);
        if let Looks::Everywhere = looks {
            for p in shot.pods() {
                std::hint::black_box(p.timeline.spans.len());
            }
        }
        let looked = used(begin);
        for (sum, (from, to)) in
            spent
                .iter_mut()
                .zip([(t, filed), (filed, refreshed), (refreshed, looked)])
        {
            *sum += to.saturating_sub(from);
        }
    }
    spent
}

fn main() {
    let lines = life::recorded();
    println!("one life: {} observations", lines.len());
    let mut churn: Vec<Evidence> = (0..300).flat_map(|n| pod(&lines, n)).collect();
    churn.sort_by_key(|o| o.stamp.seen);
    println!("churn: {} observations of 300 pods", churn.len());
    let n = churn.len() as f64;
    let mut costs = Vec::new();
    // A frame every 4,096 observations is one every 4 ms at a million observations per second; every 65,536, one every
    // 65 ms.
    let frames = [
        ("one frame at the end", usize::MAX, Looks::Nowhere),
        ("a frame every 4,096", 4_096, Looks::Nowhere),
        ("a frame every 65,536", 65_536, Looks::Nowhere),
        (
            "a frame every 65,536 that looks at all",
            65_536,
            Looks::Everywhere,
        ),
    ];
    for pods in [1_000_u64, 100_000] {
        let known = old(&lines, pods);
        // The views of the known pods are made before the measurement.
        for p in known.pods() {
            std::hint::black_box(p.timeline.spans.len());
        }
        for (what, every, looks) in frames {
            // The fastest of three runs, because the machine does other work too.
            let spent = (0..3)
                .map(|_| run(known.clone(), &churn, every, looks))
                .min_by_key(|s| s.iter().sum::<Duration>())
                .expect("three runs");
            let whole: Duration = spent.iter().sum();
            let each = spent.map(|d| d.as_nanos() as f64 / n);
            println!(
                "{pods:>7} pods, {what:38} filing {:5.0} ns, refreshing {:5.0} ns, looking {:5.0} ns each: {:.2} M/s",
                each[0],
                each[1],
                each[2],
                n / whole.as_secs_f64() / 1e6,
            );
            costs.push(whole.as_secs_f64());
        }
        let t = Instant::now();
        std::hint::black_box(known.clone());
        println!(
            "{pods:>7} pods: a clone {:.2} ms",
            t.elapsed().as_secs_f64() * 1e3
        );
    }
    let (few, many) = costs.split_at(frames.len());
    for ((what, ..), (few, many)) in frames.iter().zip(few.iter().zip(many)) {
        println!(
            "cost at 100,000 to that at 1,000 pods, {what}: {:.2}",
            many / few
        );
    }
}
