//! Control plane and node whose clocks differ.

use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::flow::Stage;
use kflow_model::{Body, Evidence, Source};

use super::{session, world};

/// The observations, as if the clock of the apiserver, the scheduler and the controllers were `by` ns ahead.
fn with_api_ahead(observations: &[Evidence], by: i64) -> Vec<Evidence> {
    observations
        .iter()
        .map(|o| {
            let mut o: kflow_model::Observation = (**o).clone();
            match &mut o.body {
                Body::Audit(a) => {
                    o.stamp.at = o.stamp.at + by;
                    o.stamp.seen = o.stamp.seen + by;
                    a.received = a.received + by;
                }
                Body::Span(s) if s.service != "kubelet" && s.service != "containerd" => {
                    o.stamp.at = o.stamp.at + by;
                    s.end = s.end + by;
                }
                Body::Event(e) if e.component != "kubelet" => {
                    o.stamp.at = o.stamp.at + by;
                    e.first = e.first.map(|t| t + by);
                }
                Body::Pod(p) => {
                    p.created = p.created + by;
                    p.deletion = p.deletion.map(|d| d + by);
                    for c in &mut p.status.conditions {
                        if c.kind == "PodScheduled" {
                            c.transition = c.transition.map(|t| t + by);
                        }
                    }
                }
                _ => {}
            }
            Arc::new(o)
        })
        .collect()
}

/// The ends of sandboxes by pod, without the node's sources: the API alone shows them.
fn sandboxes_by_api(observations: &[Evidence], by: i64) -> (World, Vec<(String, i64)>) {
    let far = |o: &Evidence| match &o.body {
        Body::Span(s) => s.service != "containerd" && !s.name.starts_with("runtime.v1"),
        _ => matches!(o.source, Source::Kube | Source::Audit),
    };
    let mut all = with_api_ahead(observations, by);
    all.retain(far);
    let w = world(&all);
    let mut ends = Vec::new();
    for p in w.pods() {
        let mut sandboxes = p
            .timeline
            .spans
            .iter()
            .filter(|s| s.stage == Stage::Sandbox);
        ends.extend(sandboxes.find_map(|s| Some((p.key(), s.end?.at.0))));
    }
    ends.sort();
    (w, ends)
}

#[test]
fn a_sandbox_that_the_api_alone_shows_is_ready_by_the_kubelets_clock() {
    const MINUTES: i64 = 180_000_000_000;
    let observations = session("S1-basics");
    let (_, straight) = sandboxes_by_api(&observations, 0);
    assert!(!straight.is_empty());
    for by in [MINUTES, -MINUTES] {
        let (w, ends) = sandboxes_by_api(&observations, by);
        let skew = w.skew();
        assert!(skew.api_ns.is_some(), "{skew:?}");
        assert_eq!(ends.len(), straight.len());
        for (a, b) in straight.iter().zip(&ends) {
            assert_eq!(a.0, b.0);
            assert!((a.1 - b.1).abs() <= 1_000_000_000, "{by}: {a:?} {b:?}");
        }
    }
}

#[test]
fn a_control_plane_whose_clock_is_minutes_off_is_found_out_and_drawn_in_order() {
    const MINUTES: i64 = 180_000_000_000;
    const MILLI: i64 = 1_000_000;
    let observations = session("S1-basics");
    let linked = observations
        .iter()
        .any(|o| matches!(&o.body, Body::Span(s) if !s.links.is_empty()));
    // Without linked spans the kubelet's Events and the watch bound the difference of the clocks, to about a second.
    let bound = if linked { 2 * MILLI } else { 1_000 * MILLI };
    let straight = world(&observations);
    for by in [MINUTES, -MINUTES] {
        let w = world(&with_api_ahead(&observations, by));
        let skew = w.skew();
        let found = skew.api_ns.expect("bounds from both sides");
        assert!(skew.api_within_ns <= bound, "{skew:?}");
        assert!((found - by).abs() <= skew.api_within_ns, "{by}: {skew:?}");
        let steps = |w: &World| -> Vec<(String, i64)> {
            let p = w.find("s01/healthy")[0];
            p.timeline
                .spans
                .iter()
                .map(|s| {
                    (
                        format!("{} {} {} {}", s.stage, s.step, s.container, s.attempt),
                        s.start.at.0,
                    )
                })
                .collect()
        };
        let (mut a, mut b) = (steps(&straight), steps(&w));
        a.sort();
        b.sort();
        assert_eq!(a.len(), b.len());
        for (x, y) in a.iter().zip(&b) {
            assert_eq!(x.0, y.0);
            assert!((x.1 - y.1).abs() <= 2 * bound, "{by}: {x:?} {y:?}");
        }
    }
}

/// The end of a call is kept, with no duration, when the node's clock was set back while the call went on. The recorded
/// clock does not step: the test moves the ends.
#[test]
fn a_call_that_ends_before_it_began_has_ended() {
    let observations = session("S1-basics");
    let back: Vec<Evidence> = observations
        .iter()
        .map(|o| {
            let mut o: kflow_model::Observation = (**o).clone();
            if matches!(o.body, Body::CallEnd(_)) {
                o.stamp.at = o.stamp.at.plus(-3_600_000_000_000);
            }
            Arc::new(o)
        })
        .collect();
    let mut calls = 0;
    let w = world(&back);
    for (now, before) in w.pods().iter().zip(world(&observations).pods()) {
        assert_eq!(now.key(), before.key());
        for s in now.timeline.spans.iter().filter(|s| s.call.is_some()) {
            let same = |x: &&kflow_core::timeline::Span| x.call == s.call;
            let there = before.timeline.spans.iter().find(same);
            let there = there.unwrap_or_else(|| panic!("{} {}", now.key(), s.step));
            assert_eq!(s.outcome, there.outcome, "{} {}", now.key(), s.step);
            let call = w.calls().iter().find(|c| Some(c.key) == s.call);
            let call = call.unwrap_or_else(|| panic!("{s:?}"));
            // A hook is drawn around its call, from other evidence.
            if s.step == call.method {
                assert_eq!(s.end.map(|e| e.at), call.end);
                assert!(s.end.is_none_or(|e| e.at == s.start.at), "{s:?}");
                calls += usize::from(s.end.is_some());
            }
        }
    }
    assert!(calls > 50, "{calls}");
}
