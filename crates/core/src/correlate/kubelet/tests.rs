use super::*;
use kflow_model::stamp::SECOND;
use kflow_model::{PodRef, Source, Stamp, sample::Value};
use std::sync::Arc;

fn line(message: &str, at_ms: i64, fields: &[(&str, &str)]) -> Evidence {
    let at = Nanos(1_795_220_659_000_000_000 + at_ms * 1_000_000);
    Arc::new(Observation {
        stamp: Stamp::new(at, 1000, at),
        source: Source::Kubelet,
        body: Body::Log(Box::new(LogLine {
            pod: PodRef::by_name("s01", "healthy"),
            fields: fields
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            ..LogLine::new(Component::Kubelet, Severity::Info, message)
        })),
    })
}

#[test]
fn loops_are_counted_timed_and_spread_over_seconds() {
    let mut m = KubeletActivity::default();
    for n in 0..5 {
        m.observe(&line("SyncLoop (housekeeping)", n * 2000, &[]));
        m.observe(&line(
            "SyncLoop (housekeeping) end",
            n * 2000 + 3,
            &[("duration", "3ms")],
        ));
    }
    let h = m.work(Work::Housekeeping).unwrap();
    assert_eq!(
        (h.count, h.mean_ns(), h.worst_ns),
        (5, Some(3_000_000), 3_000_000)
    );
    let now = h.last.unwrap();
    assert_eq!(h.series.last(now, 4), [0, 1, 0, 1]);
    assert_eq!(h.series.last(now, 20).iter().sum::<u64>(), 5);
}

#[test]
fn a_pod_workers_two_messages_are_told_apart() {
    let mut m = KubeletActivity::default();
    m.observe(&line("Processing pod event", 0, &[]));
    m.observe(&line("Processing pod event", 1, &[]));
    m.observe(&line("Processing pod event done", 2, &[]));
    assert_eq!(m.busy_workers(), Some(1));
    assert_eq!(KubeletActivity::default().busy_workers(), None);
}

#[test]
fn the_kubelets_own_measure_of_a_start_is_kept() {
    let mut m = KubeletActivity::default();
    let l = line(
        "Observed pod startup duration",
        0,
        &[
            ("podStartSLOduration", "1.948909655"),
            ("podStartE2EDuration", "4.012289846s"),
            ("totalImagesPullingTime", "62.66673ms"),
            ("totalInitContainerRuntime", "2.000713461s"),
        ],
    );
    m.observe(&l);
    m.observe(&l);
    let s = m.starts().next().unwrap();
    assert_eq!(m.starts().count(), 1);
    assert_eq!((s.sli_ns, s.total_ns), (1_948_909_655, 4_012_289_846));
    assert_eq!(s.total_ns - s.pulling_ns - s.init_ns, 1_948_909_655);
}

#[test]
fn the_lines_of_the_kubelets_own_start_are_kept_and_bounded() {
    let mut m = KubeletActivity::default();
    let mut banner = (*line("Kubelet version", 0, &[("kubeletVersion", "v1.36.2")])).clone();
    if let Body::Log(l) = &mut banner.body {
        l.pod = PodRef::default();
    }
    for n in 0..100 {
        let mut again = banner.clone();
        again.stamp.at = again.stamp.at.plus(n * SECOND);
        m.observe(&Arc::new(again.clone()));
        m.observe(&Arc::new(again));
    }
    let kept = m.startup();
    assert_eq!(kept.len(), STARTUP_KEEP);
    assert_eq!(
        kept.last().unwrap().stamp.at,
        banner.stamp.at.plus(99 * SECOND)
    );
    let (flow, _) = Map::embedded().flow(STARTUP).unwrap();
    assert_eq!(
        crate::flow::runs::passes(Map::embedded(), flow, &kept).len(),
        STARTUP_KEEP
    );
}

#[test]
fn series_forget_the_oldest_and_survive_jumps() {
    let mut s = Series::default();
    for n in 0..2000 {
        s.add(Nanos(n * SECOND));
    }
    assert_eq!(s.counts.len(), SERIES_SECONDS);
    s.add(Nanos(5 * SECOND));
    s.add(Nanos(i64::MAX / 2));
    s.add(Nanos(0));
    assert!(s.counts.len() <= SERIES_SECONDS);
    assert_eq!(s.last(Nanos(i64::MAX / 2), 1), [1]);
}

#[test]
fn metric_means_are_of_the_time_between_scrapes() {
    let mut m = KubeletActivity::default();
    let scrape = |s: i64, sum: Option<f64>, count: f64| {
        let sum = sum.map(|sum| {
            (
                "kubelet_pleg_relist_duration_seconds_sum".into(),
                Value(sum),
            )
        });
        let count = (
            "kubelet_pleg_relist_duration_seconds_count".into(),
            Value(count),
        );
        Arc::new(Observation {
            stamp: Stamp::exact(Nanos(s * SECOND)),
            source: Source::Metrics,
            body: Body::Sample(Box::new(Sample {
                what: "kubelet-metrics".into(),
                code: 200,
                took_ns: 0,
                values: sum.into_iter().chain([count]).collect(),
                lines: Vec::new(),
            })),
        })
    };
    let mean = |m: &KubeletActivity| m.histogram_mean("kubelet_pleg_relist_duration_seconds");
    let is = |mean: Option<f64>, s: f64| (mean.unwrap() - s).abs() < 1e-9;
    m.observe(&scrape(20, Some(1.2), 30.0));
    m.observe(&scrape(10, Some(1.0), 20.0));
    assert!(is(mean(&m), 0.02), "{:?}", mean(&m));
    // Ten observations of 0 s: the sum is not reported again.
    m.observe(&scrape(30, None, 40.0));
    assert!(is(mean(&m), 0.0), "{:?}", mean(&m));
    m.observe(&scrape(40, Some(2.2), 50.0));
    assert!(is(mean(&m), 0.1), "{:?}", mean(&m));
}

#[test]
fn what_changed_and_which_signal_are_kept_the_newest_of_each() {
    let mut m = KubeletActivity::default();
    for i in (0..20).rev() {
        m.observe(&line(
            "GenericPLEG",
            i,
            &[("oldState", "running"), ("newState", "exited")],
        ));
    }
    for list in [
        "thresholds - ignoring grace period",
        "thresholds - grace periods satisfied",
    ] {
        m.observe(&line(
            "Eviction manager: threshold observed resource",
            30,
            &[("log", list), ("signal", "memory.available")],
        ));
    }
    let kept: Vec<i64> = m
        .newest(Work::PlegChange)
        .map(|o| o.stamp.at.0 / 1_000_000 % 1000)
        .collect();
    assert_eq!(kept, [12, 13, 14, 15, 16, 17, 18, 19]);
    assert_eq!(m.newest(Work::Threshold).count(), 1, "once for each look");
    assert_eq!(m.work(Work::Threshold).unwrap().count, 1);
    m.observe(&line("SyncLoop ADD", 40, &[]));
    assert_eq!(m.newest(Work::ConfigAdd).count(), 0, "nothing more to say");
}
