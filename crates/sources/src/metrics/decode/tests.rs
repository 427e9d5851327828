use super::*;
use kflow_model::Nanos;
use proptest::prelude::*;

fn sample(scrapes: &mut Scrapes, what: &str, code: u16, body: &str) -> Sample {
    let o = scrapes
        .sample(Scrape {
            at: Nanos(1_000),
            took_ns: 10,
            what,
            code,
            body,
        })
        .unwrap();
    assert_eq!(o.stamp, Stamp::new(Nanos(990), 11, Nanos(1_000)));
    match o.body {
        Body::Sample(s) => *s,
        other => panic!("{other:?}"),
    }
}
fn values(s: &Sample) -> Vec<(&str, f64)> {
    s.values.iter().map(|(n, v)| (n.as_str(), v.0)).collect()
}

const FIRST: &str = r#"# HELP kubelet_running_pods [ALPHA] Number of pods
# TYPE kubelet_running_pods gauge
kubelet_running_pods 2
kubelet_started_pods_total 0
kubelet_runtime_operations_total{operation_type="list_containers"} 41
kubelet_admission_rejections_total{reason="brace } in \"text"} 1
kubelet_pleg_last_seen_seconds 1.795220678e+09
go_goroutines 200
apiserver_request_duration_seconds_bucket{resource="pods",le="0.1"} 3
apiserver_request_duration_seconds_sum{resource="pods"} 0.5
apiserver_request_duration_seconds_sum{resource="secrets"} 0.5
"#;

#[test]
fn only_kept_families_and_values_that_are_not_zero_are_given_out() {
    let s = sample(&mut Scrapes::default(), "kubelet-metrics", 200, FIRST);
    assert_eq!(
        values(&s),
        [
            ("kubelet_running_pods", 2.0),
            (
                r#"kubelet_runtime_operations_total{operation_type="list_containers"}"#,
                41.0
            ),
            (
                r#"kubelet_admission_rejections_total{reason="brace } in \"text"}"#,
                1.0
            ),
            ("kubelet_pleg_last_seen_seconds", 1_795_220_678.0),
            (
                r#"apiserver_request_duration_seconds_sum{resource="pods"}"#,
                0.5
            ),
        ]
    );
}

#[test]
fn a_second_scrape_gives_only_what_changed_and_what_vanished() {
    let mut scrapes = Scrapes::default();
    sample(&mut scrapes, "kubelet-metrics", 200, FIRST);
    let s = sample(
        &mut scrapes,
        "kubelet-metrics",
        200,
        "kubelet_running_pods 2\nkubelet_started_pods_total 1\nkubelet_pleg_last_seen_seconds 1.795220678e+09\napiserver_request_duration_seconds_sum{resource=\"pods\"} 0.5\n",
    );
    assert_eq!(
        values(&s),
        [
            ("kubelet_started_pods_total", 1.0),
            (
                r#"kubelet_admission_rejections_total{reason="brace } in \"text"}"#,
                0.0
            ),
            (
                r#"kubelet_runtime_operations_total{operation_type="list_containers"}"#,
                0.0
            ),
        ]
    );
    let s = sample(
        &mut scrapes,
        "other-metrics",
        200,
        "kubelet_running_pods 2\n",
    );
    assert_eq!(
        values(&s),
        [("kubelet_running_pods", 2.0)],
        "endpoints do not mix"
    );
}

#[test]
fn a_failed_scrape_says_why_and_forgets_nothing() {
    let mut scrapes = Scrapes::default();
    sample(&mut scrapes, "kubelet-metrics", 200, FIRST);
    let s = sample(
        &mut scrapes,
        "kubelet-metrics",
        0,
        "ConnectionRefusedError(111)",
    );
    assert_eq!(
        (s.code, s.lines),
        (0, vec!["ConnectionRefusedError(111)".into()])
    );
    assert!(
        sample(&mut scrapes, "kubelet-metrics", 200, FIRST)
            .values
            .is_empty()
    );
}

#[test]
fn of_a_health_answer_the_failed_checks_and_the_result_are_kept() {
    const PASSED: &str = "[+]ping ok\n[+]syncloop ok\nhealthz check passed\n";
    let mut s = Scrapes::default();
    assert_eq!(
        sample(&mut s, "kubelet-healthz", 200, PASSED).lines,
        ["[+]ping ok", "[+]syncloop ok", "healthz check passed"],
        "the first answer names all"
    );
    assert_eq!(
        sample(
            &mut s,
            "apiserver-readyz",
            500,
            "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"
        )
        .lines,
        [
            "[+]ping ok",
            "[-]etcd failed: reason withheld",
            "readyz check failed"
        ]
    );
    assert_eq!(
        sample(&mut s, "kubelet-healthz", 200, PASSED).lines,
        ["healthz check passed"],
        "what passed before is not told again"
    );
}

#[test]
fn configz_becomes_the_settings_that_explain_pods() {
    let s = sample(
        &mut Scrapes::default(),
        "kubelet-configz",
        200,
        r#"{"kubeletconfig":{"kind":"KubeletConfiguration","tlsPrivateKeyFile":"/k","serializeImagePulls":true,"registryPullQPS":5,"evictionHard":{"memory.available":"100Mi"},"syncFrequency":"1m0s","runtimeRequestTimeout":"2m0s"}}"#,
    );
    assert_eq!(
        s.lines,
        [
            r#"evictionHard={"memory.available":"100Mi"}"#,
            "registryPullQPS=5",
            "runtimeRequestTimeout=2m0s",
            "serializeImagePulls=true",
            "syncFrequency=1m0s",
        ]
    );
}

#[test]
fn settings_are_listed_in_order() {
    assert!(SETTINGS.is_sorted());
}

#[test]
fn pages_without_use_and_nonsense_are_told_apart() {
    let take = |what, code, body| {
        let scrape = Scrape {
            at: Nanos(1),
            took_ns: 0,
            what,
            code,
            body,
        };
        Scrapes::default().take(scrape, &mut Vec::new())
    };
    assert_eq!(
        take("kubelet-runningpods", 200, "{}"),
        Err("running pods, which the CRI shows better")
    );
    assert_eq!(take("kubelet-healthz", 0, "refused"), Ok(()));
    assert_eq!(
        take("kubelet-configz", 200, "["),
        Err("configz that does not parse")
    );
}

proptest! {
    #[test]
    fn no_text_panics(body in ".{0,200}", labels in ".{0,60}") {
        let mut s = Scrapes::default();
        for what in ["kubelet-metrics", "kubelet-healthz", "kubelet-configz", "apiserver-version"] {
            drop(s.sample(Scrape { at: Nanos(0), took_ns: u64::MAX, what, code: 200, body: &body }));
        }
        let _ = series(&format!("kubelet_running_pods{{{labels} 1"));
        let _ = series(&format!("kubelet_running_pods{{{labels}}} {body}"));
    }
}

#[test]
fn series_for_which_there_is_no_room_are_counted() {
    let series = |n: usize| {
        let line = |n| format!("kubelet_runtime_operations_total{{operation_type=\"{n}\"}} 1\n");
        (0..n).map(line).collect::<String>()
    };
    let mut scrapes = Scrapes::default();
    let mut lost = |body: &str| {
        let (mut out, what) = (Vec::new(), "kubelet-metrics");
        let scrape = Scrape {
            at: Nanos(1_000),
            took_ns: 10,
            what,
            code: 200,
            body,
        };
        scrapes.take(scrape, &mut out).unwrap();
        out.into_iter().find_map(|o| match o.body {
            Body::Gap(g) => Some(g.lost),
            _ => None,
        })
    };
    assert_eq!(lost(&series(SERIES_MAX)), None);
    assert_eq!(lost(&series(SERIES_MAX + 3)), Some(3));
    // It is told once.
    assert_eq!(lost(&series(SERIES_MAX + 3)), None);
    assert_eq!(lost(&series(SERIES_MAX + 4)), Some(4));
}
