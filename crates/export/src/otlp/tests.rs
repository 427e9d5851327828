use std::sync::Arc;

use super::*;
use kflow_core::correlate::Pod;
use kflow_core::timeline::RUN;
use kflow_core::timeline::{Certainty, Edge, Timeline};

fn span(
    stage: Stage,
    step: &str,
    container: &str,
    attempt: u32,
    times: (i64, Option<i64>),
) -> Span {
    let edge = |at| Edge {
        at: Nanos(at),
        precision: 1,
    };
    let end = times.1.map(edge);
    let mut s = Span::new(
        stage,
        step,
        edge(times.0),
        end,
        Certainty::Measured,
        Vec::new(),
    );
    s.container = container.into();
    s.attempt = attempt;
    s
}

fn pod(uid: &str, spans: Vec<Span>) -> Pod {
    let view = PodView {
        uid: uid.into(),
        name: "web".into(),
        created: Nanos(1),
        timeline: Arc::new(Timeline {
            spans,
            ..Timeline::default()
        })
        .into(),
        ..PodView::default()
    };
    Arc::new(view.into())
}

fn of(pod: &Pod) -> Vec<Trace> {
    traces(pod, Findings::default(), Nanos(100))
}

#[test]
fn a_trace_is_found_by_the_uid_where_it_is_one() {
    let spans = || vec![span(Stage::Image, "PullImage", "c", 0, (5, Some(9)))];
    let by_uid = of(&pod("81226506-aa00-404e-9d17-93c2c3f03142", spans()));
    assert_eq!(by_uid[0].id.to_string(), "81226506aa00404e9d1793c2c3f03142");
    // The UID of a static pod is a hash without dashes.
    let of_file = of(&pod("5b0f1e2ba7b44e8f9d1793c2c3f03142", spans()));
    assert_eq!(
        of_file[0].id.to_string(),
        "5b0f1e2ba7b44e8f9d1793c2c3f03142"
    );
    for odd in ["", "u1", "00000000-0000-0000-0000-000000000000", "ä"] {
        let trace = &of(&pod(odd, spans()))[0];
        assert!(trace.id.is_valid(), "{odd}");
        assert_eq!(trace.id, of(&pod(odd, spans()))[0].id);
    }
    // These ids must not change with a version of kflow, as a store keeps those that were sent. Computed with another
    // implementation of SipHash.
    assert_eq!(
        of(&pod("u1", spans()))[0].id.to_string(),
        "c10f4ddcec3ed345a0da0b9c7e194b18"
    );
    assert_eq!(by_uid[0].spans[2].id.to_string(), "3a32a7ef028e594a");
}

#[test]
fn a_life_is_told_in_episodes() {
    let all = vec![
        span(Stage::Start, "StartContainer", "c", 0, (5, Some(9))),
        span(Stage::Start, RUN, "c", 0, (9, Some(20))),
        span(Stage::Start, "Relist", "c", 0, (8, Some(10))),
        span(Stage::Start, "Relist", "c", 0, (15, Some(21))),
        span(Stage::Start, "CrashLoopBackOff", "c", 0, (21, Some(31))),
        span(Stage::Start, "StartContainer", "c", 1, (31, Some(35))),
        span(Stage::Start, "CrashLoopBackOff", "c", 1, (40, None)),
        span(Stage::Terminate, "StopContainer", "c", 1, (60, Some(70))),
    ];
    let told: Vec<(String, Vec<String>, Option<i64>)> = of(&pod("u1", all))
        .iter()
        .map(|t| {
            let steps = t.spans.iter().filter(|m| {
                let is_step = |a: &wire::KeyValue| a.key == "kflow.step";
                m.span.attributes.iter().any(is_step)
            });
            let names = steps.map(|m| format!("{} {}", m.span.name, m.span.start_time_unix_nano));
            (
                t.spans[0].span.name.clone(),
                names.collect(),
                t.over.map(|o| o.0),
            )
        })
        .collect();
    let told: Vec<_> = told
        .iter()
        .map(|(name, steps, over)| (name.as_str(), steps.join(", "), *over))
        .collect();
    assert_eq!(
        told,
        [
            ("pod start", "StartContainer 5, Relist 8".to_owned(), None),
            (
                "container restart",
                "Relist 15, CrashLoopBackOff 21, StartContainer 31".to_owned(),
                Some(35)
            ),
            ("container exit", "CrashLoopBackOff 40".to_owned(), None),
            ("pod termination", "StopContainer 60".to_owned(), None),
        ]
    );
}

#[test]
fn a_termination_ends_when_the_pod_is_gone_and_not_with_garbage_collection() {
    let stop = || span(Stage::Terminate, "StopContainer", "c", 0, (20, Some(30)));
    let collect = || span(Stage::Terminate, "RemovePodSandbox", "", 0, (80, Some(90)));
    for (spans, gone, over) in [
        (vec![stop(), collect()], Some(40), Some(40)),
        // The API may lose a pod before its node is done with it.
        (vec![stop(), collect()], Some(25), Some(30)),
        (vec![collect()], Some(40), Some(40)),
        (vec![stop(), collect()], None, None),
    ] {
        let view = PodView {
            deletion_requested: Some(Nanos(10)),
            gone: gone.map(Nanos),
            ..PodView::clone(&pod("u1", spans))
        };
        let traces = of(&Arc::new(view.into()));
        let of_end = |t: &&Trace| t.episode == Episode::Termination;
        let end = traces.iter().find(of_end).unwrap();
        assert_eq!(end.over, over.map(Nanos));
        let root = &end.spans[0].span;
        let until = over.map_or(100, |o| o as u64);
        assert_eq!(
            (root.start_time_unix_nano, root.end_time_unix_nano),
            (10, until)
        );
    }
}

#[test]
fn what_goes_on_is_not_final_and_what_is_over_soon_is() {
    let mut done = span(Stage::Start, "StartContainer", "c", 1, (5, Some(9)));
    done.container = "c".into();
    let traces = of(&pod("u1", vec![done]));
    let [restart] = &traces[..] else {
        panic!("{traces:?}");
    };
    assert_eq!(restart.settled(Nanos(9 + SETTLED_NS - 1)).count(), 0);
    assert_eq!(restart.settled(Nanos(9 + SETTLED_NS)).count(), 3);
    let open = span(Stage::Image, "PullImage", "c", 0, (5, None));
    let traces = of(&pod("u1", vec![open]));
    assert_eq!(traces[0].settled(Nanos(i64::MAX)).count(), 0);
}
