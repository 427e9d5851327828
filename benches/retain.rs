//! A day of a busy node: 200,000 pods come and go, and the benchmark prints resident memory every simulated hour.
//!
//! Each pod's life is a part of the recorded life of `s01/healthy` (its states, calls, Events and log lines), copied
//! under other UIDs, names, ids and times; it ends with a deletion that repeats the last state. Every ten simulated
//! seconds a picture is taken as in a live engine: the log is truncated, pods that are gone leave the world, verdicts
//! are made.
//!
//! `cargo bench --bench retain` plays the day; `cargo bench --bench retain -- HOURS` plays that many hours of it.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::string_slice,
    reason = "a benchmark prints, and may give up when its fixture is broken"
)]

#[path = "shared/allocator.rs"]
mod allocator;
#[path = "shared/life.rs"]
mod life;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use kflow_core::correlate::Retention;
use kflow_engine::Pipeline;
use kflow_engine::snapshot::Mode;
use kflow_model::cri::is_noise;
use kflow_model::pod::WatchEvent;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos, Text};

/// Pods per day.
const PODS: i64 = 200_000;
const DAY: i64 = 86_400 * SECOND;
/// Observations per life, at most.
const LIFE: usize = 60;
/// The number of observations that a live engine's log keeps.
const KEEP: usize = 500_000;
const FRAME: i64 = 10 * SECOND;

/// Returns the lines of the recorded life to copy: at most an equal share of states, calls, Events and log lines.
fn lines() -> Vec<String> {
    let mut by_kind: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut noise = HashSet::new();
    for line in life::recorded() {
        let kind = match life::observation(&line).body {
            Body::Pod(_) => "pod",
            Body::CallStart(c) if is_noise(&c.method) => {
                noise.insert(c.key);
                continue;
            }
            Body::CallStart(_) => "call",
            Body::CallEnd(c) if !noise.contains(&c.key) => "call",
            Body::Event(_) => "event",
            Body::Log(_) => "log",
            _ => continue,
        };
        by_kind.entry(kind).or_default().push(line);
    }
    let share = LIFE / by_kind.len().max(1);
    by_kind
        .into_values()
        .flat_map(|lines| lines.into_iter().take(share))
        .collect()
}

/// Returns the life of the n-th pod, from `begin` to its deletion. `recorded` is the beginning of the recorded life.
fn pod(lines: &[String], recorded: Nanos, n: u64, begin: Nanos) -> Vec<Evidence> {
    let mut all = life::copy(lines, n, begin.since(recorded));
    all.sort();
    let last = all
        .iter()
        .rev()
        .find(|o| matches!(o.body, Body::Pod(_)))
        .cloned();
    if let Some(mut end) = last {
        let until = all.iter().map(|o| o.stamp.at).max().unwrap_or(begin);
        end.stamp.at = until.plus(SECOND);
        end.stamp.seen = end.stamp.at;
        if let Body::Pod(p) = &mut end.body {
            p.event = WatchEvent::Deleted;
            p.resource_version += 500;
        }
        all.push(end);
    }
    all.into_iter().map(Arc::new).collect()
}

/// Returns the resident memory, MB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:"));
    let kib = line.and_then(|l| l.split_whitespace().nth(1)?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0 / 1e6
}

fn main() {
    let hours = std::env::args()
        .skip(1)
        .find_map(|a| a.parse::<i64>().ok())
        .unwrap_or(24);
    let lines = lines();
    let recorded = lines
        .iter()
        .map(|l| life::observation(l).stamp.at)
        .min()
        .expect("a life has observations");
    println!(
        "{} observations a life, {PODS} pods a day, {hours} hours",
        lines.len() + 1
    );
    println!(
        "hour      RSS MB   pods  files  evidence  names    uids   ids   joins    calls   log"
    );
    let begin = Nanos::from_secs(1_795_000_000);
    let mode = Mode::Live {
        scope: Text::new("node1"),
        following: true,
        recording: Text::default(),
    };
    let (mut pipeline, keep) = (Pipeline::new(), Retention::default());
    let mut coming: BTreeMap<(Nanos, i64, usize), Evidence> = BTreeMap::new();
    let mut frame = begin;
    let mut hour = 1;
    for n in 0..PODS * hours / 24 {
        let at = begin.plus(DAY / PODS * n);
        for (i, o) in pod(&lines, recorded, n as u64, at).into_iter().enumerate() {
            coming.insert((o.stamp.seen, n, i), o);
        }
        let later = coming.split_off(&(at, i64::MIN, 0));
        for o in std::mem::replace(&mut coming, later).into_values() {
            pipeline.observe(o);
        }
        if at.since(frame) >= FRAME {
            frame = at;
            pipeline.shrink(KEEP);
            pipeline.retire(at, &keep);
            std::hint::black_box(pipeline.snapshot(at, mode.clone(), (begin, at), Vec::new()));
        }
        if at.since(begin) + DAY / PODS >= hour * 3600 * SECOND {
            let s = pipeline.world().sizes();
            println!(
                "{hour:4} {:11.1} {:6} {:6} {:9} {:6} {:7} {:5} {:7} {:8} {:7}",
                resident(),
                s.pods,
                s.files,
                s.evidence,
                s.names,
                s.uids,
                s.runtime_ids,
                s.joins,
                s.calls.0,
                pipeline.log().len(),
            );
            hour += 1;
        }
    }
    let told = pipeline.world().unfiled();
    println!(
        "{} pods left with {} observations; {} calls were forgotten",
        told.left, told.left_evidence, told.calls_forgotten
    );
}
