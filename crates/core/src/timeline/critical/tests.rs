use super::*;
use crate::timeline::tests::{span, start};
use crate::timeline::{RUN, UnknownGap};
use proptest::prelude::*;

/// The pieces until `end`: the blocker, the step, begin and end.
fn told(t: &Timeline, end: i64) -> Vec<(Blocker, &str, i64, i64)> {
    let pieces = partition(t, &[], Nanos(end)).expect("it has spans");
    let step = |p: &Piece| {
        let s = p.span.and_then(|i| t.spans.get(i as usize));
        s.map_or("", |s| s.step.as_str())
    };
    pieces
        .iter()
        .map(|p| (p.blocker, step(p), p.start.0, p.end.0))
        .collect()
}

#[test]
fn each_instant_of_a_start_has_one_blocker() {
    use Blocker::{InitContainer, Step, Unknown};
    assert_eq!(
        told(&start(), 400),
        [
            (Step, "RunPodSandbox", 0, 20),
            (Step, "cni.setup_pod_network", 20, 90),
            (Step, "RunPodSandbox", 90, 100),
            (Unknown, "", 100, 150),
            (Step, "StartContainer", 150, 170),
            (InitContainer, RUN, 170, 300),
            (Step, "StartContainer", 300, 330),
            (Step, "SetPodStatus", 330, 400),
        ]
    );
}

#[test]
fn a_pull_waits_in_the_queue_until_the_runtime_is_asked() {
    let spans = vec![
        span(Stage::Image, "image", "", 0, Some(100), None),
        span(
            Stage::Image,
            "EnsureImageExists",
            "web",
            0,
            Some(100),
            Some(0),
        ),
        span(Stage::Image, "PullImage", "web", 70, Some(95), Some(1)),
    ];
    let t = Timeline {
        spans,
        ..Timeline::default()
    };
    assert_eq!(
        told(&t, 100),
        [
            (Blocker::Queue, "EnsureImageExists", 0, 70),
            (Blocker::Step, "PullImage", 70, 95),
            (Blocker::Step, "EnsureImageExists", 95, 100),
        ]
    );
}

#[test]
fn a_status_is_sent_after_the_probe_that_lies_beside_it() {
    let spans = vec![
        span(Stage::Ready, "ready", "", 0, Some(100), None),
        span(Stage::Ready, "SetPodStatus", "", 0, Some(100), Some(0)),
        span(Stage::Ready, "readinessProbe", "web", 0, Some(90), Some(0)),
    ];
    let t = Timeline {
        spans,
        ..Timeline::default()
    };
    assert_eq!(
        told(&t, 100),
        [
            (Blocker::Probe, "readinessProbe", 0, 90),
            (Blocker::Step, "SetPodStatus", 90, 100),
        ]
    );
}

#[test]
fn what_no_span_shows_says_between_what_and_why() {
    let mut t = start();
    t.gaps.push(UnknownGap {
        stage: Stage::Start,
        start: Nanos(100),
        end: Some(Nanos(150)),
        why: "no kubelet log".into(),
    });
    let path = Critical {
        pieces: partition(&t, &[], Nanos(400)).expect("it has spans"),
        reached: Reached::Ready,
    };
    assert_eq!(
        words(&t, &path, 3),
        "no span between RunPodSandbox and StartContainer [init]: no kubelet log"
    );
    assert_eq!(words(&t, &path, 5), "init container [init] ran");
    assert_eq!(path.ns(), 400);
    let shares = path.shares(&t);
    assert_eq!(shares.iter().map(|s| s.ns).sum::<i64>(), 400);
    assert_eq!(shares.first().map(|s| s.ns), Some(130));
}

proptest! {
    /// For any spans, even those that no correlator makes, the pieces touch and cover the whole.
    #[test]
    fn the_pieces_of_any_spans_are_a_partition(
        edges in prop::collection::vec((0i64..60, 0i64..60, 0u32..12, any::<bool>()), 1..12),
        end in 0i64..80,
    ) {
        let mut spans: Vec<Span> = edges
            .iter()
            .map(|&(a, b, parent, open)| {
                let (from, to) = (a.min(b), a.max(b));
                span(Stage::Start, "StartContainer", "c", from, (!open).then_some(to), Some(parent))
            })
            .collect();
        spans.sort_by_key(|s| s.start.at);
        let begin = spans.first().map_or(0, |s| s.start.at.0);
        let t = Timeline { spans, ..Timeline::default() };
        let pieces = partition(&t, &[], Nanos(end)).expect("it has spans");
        let mut at = begin;
        for p in &pieces {
            prop_assert_eq!(p.start.0, at);
            prop_assert!(p.end.0 > at);
            at = p.end.0;
        }
        prop_assert_eq!(at, end.max(begin));
    }
}
