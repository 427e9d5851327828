//! Clocks that differ.

use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_model::{Body, Evidence};

use super::{session, world};

/// What the apiserver, the scheduler and the controllers stamp, by a clock that is `by` ns ahead.
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

#[test]
fn a_control_plane_whose_clock_is_minutes_off_is_found_out_and_drawn_in_order() {
    const MINUTES: i64 = 180_000_000_000;
    const MILLI: i64 = 1_000_000;
    let observations = session("S1-basics");
    let linked = observations
        .iter()
        .any(|o| matches!(&o.body, Body::Span(s) if !s.links.is_empty()));
    // Without linked spans the kubelet's Events and the watch bound the clocks, within a second or so.
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
