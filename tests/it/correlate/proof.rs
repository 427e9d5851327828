//! Nothing is invented: every span has evidence, and every edge is a time that some observation has.

use std::sync::Arc;

use kflow_core::correlate::PodView;
use kflow_core::timeline::{Certainty, Span};
use kflow_model::{Body, Source};

use super::{SESSIONS, session, world};

/// Checks that every span has evidence of its pod, does not end before it starts, and follows its parent
/// in the same stage.
pub(super) fn check_spans(p: &PodView) -> Result<(), String> {
    let describe = |s: &Span| {
        format!(
            "{} {} {} {} #{}",
            p.key(),
            s.stage,
            s.step,
            s.container,
            s.attempt
        )
    };
    let known: std::collections::HashSet<*const kflow_model::Observation> =
        p.evidence.iter().map(Arc::as_ptr).collect();
    for (i, s) in p.timeline.spans.iter().enumerate() {
        if s.evidence.is_empty() {
            return Err(format!("{} has no evidence", describe(s)));
        }
        for e in &s.evidence {
            // Lists of the runtime and the ends of lists of pods are not filed under the pod.
            if !known.contains(&Arc::as_ptr(e))
                && !matches!(e.body, Body::Inventory(_) | Body::Watch(_))
            {
                return Err(format!(
                    "{} is proved by what is not the pod's: {e:?}",
                    describe(s)
                ));
            }
        }
        if s.end.is_some_and(|e| e.at < s.start.at) {
            return Err(format!("{} ends before it starts", describe(s)));
        }
        if let Some(up) = s.parent {
            let parent = p
                .timeline
                .spans
                .get(up as usize)
                .ok_or_else(|| format!("{} has a parent that is not there", describe(s)))?;
            if up as usize >= i {
                return Err(format!("{} comes before its parent", describe(s)));
            }
            if parent.stage != s.stage {
                return Err(format!(
                    "{} lies in another stage's {}",
                    describe(s),
                    parent.step
                ));
            }
        }
    }
    Ok(())
}

/// Every time that an observation has, ns.
fn moments(o: &kflow_model::Observation) -> Vec<i64> {
    fn collect(json: &serde_json::Value, out: &mut Vec<i64>) {
        match json {
            serde_json::Value::Number(n) => out
                .extend(n.as_i64().filter(|n| {
                    (1_795_200_000_000_000_000..1_795_400_000_000_000_000).contains(n)
                })),
            serde_json::Value::Array(v) => v.iter().for_each(|x| collect(x, out)),
            serde_json::Value::Object(m) => m.values().for_each(|x| collect(x, out)),
            _ => {}
        }
    }
    let mut out = Vec::new();
    collect(&serde_json::to_value(o).expect("it serialises"), &mut out);
    // A deletion was requested when its grace period began.
    if let Body::Pod(p) = &o.body
        && let Some(at) = p.deletion
    {
        out.push(at.0 - p.deletion_grace_s.unwrap_or(0) * 1_000_000_000);
    }
    out
}

/// A measured edge is a time of the span's own evidence, to the nanosecond or within the edge's precision. Every other
/// edge is a time of some evidence of the pod, or the end of a list of pods.
fn check_edges(p: &PodView, lists: &[i64]) -> Result<(), String> {
    let sorted = |all: &mut dyn Iterator<Item = i64>| {
        let mut v: Vec<i64> = all.collect();
        v.sort_unstable();
        v
    };
    let among = |told: &[i64], at: i64, precision: u32| {
        let i = told.partition_point(|t| *t < at);
        told.get(i)
            .is_some_and(|t| *t - at < i64::from(precision.max(1)))
    };
    let lists_of_runtime = p.timeline.spans.iter().flat_map(|s| &s.evidence);
    let all = sorted(
        &mut p
            .evidence
            .iter()
            .chain(lists_of_runtime)
            .flat_map(|o| moments(o))
            .chain(lists.iter().copied()),
    );
    for s in &p.timeline.spans {
        let own = sorted(&mut s.evidence.iter().flat_map(|o| moments(o)));
        let measured = s.certainty == Certainty::Measured && !s.is_stage();
        for (edge, name) in [(Some(s.start), "start"), (s.end, "end")] {
            let Some(e) = edge else { continue };
            let ok = if measured {
                among(&own, e.at.0, e.precision)
            } else {
                among(&all, e.at.0, e.precision)
            };
            if !ok {
                return Err(format!(
                    "{} {} {} {} #{}: {:?} {name} {e:?} that nobody told",
                    p.key(),
                    s.stage,
                    s.step,
                    s.container,
                    s.attempt,
                    s.certainty,
                ));
            }
        }
    }
    Ok(())
}

#[test]
fn no_edge_of_any_span_is_a_moment_that_nobody_told() {
    let mut wrong = Vec::new();
    for name in SESSIONS {
        let observations = session(name);
        let lists: Vec<i64> = observations
            .iter()
            .filter(|o| matches!(o.body, Body::Watch(_)))
            .map(|o| o.stamp.at.0)
            .collect();
        for sources in [
            &Source::ALL[..],
            &[Source::Kube],
            &[Source::Cri],
            &[Source::Kubelet],
            &[Source::Otlp],
            &[Source::Kube, Source::Kubelet],
        ] {
            let w = world(observations.iter().filter(|o| sources.contains(&o.source)));
            wrong.extend(
                w.pods()
                    .iter()
                    .filter_map(|p| Some(format!("{name} {}", check_edges(p, &lists).err()?))),
            );
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Steps have the names of the call flow's steps, so that every one can be looked up in its map.
#[test]
fn every_step_of_every_timeline_is_in_the_flow_map() {
    let map = kflow_core::flow::map::Map::embedded();
    let mut unknown = std::collections::BTreeSet::new();
    for name in SESSIONS {
        for p in world(&session(name)).pods() {
            for s in p.timeline.steps().filter(|s| !s.is_run()) {
                // Spans of the runtime inside a call have the runtime's names.
                let inside = s.parent.is_some_and(|up| {
                    p.timeline
                        .spans
                        .get(up as usize)
                        .is_some_and(|u| !u.is_stage())
                });
                if !inside && map.step_by_function(&s.step).is_none() {
                    unknown.insert(format!("{} {}", s.stage, s.step));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn no_span_of_any_session_is_without_evidence_or_out_of_place() {
    for name in SESSIONS {
        let w = world(&session(name));
        for p in w.pods() {
            check_spans(p).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}

#[test]
fn every_source_alone_and_every_source_left_out_gives_a_world() {
    for name in ["S1-basics", "S2-stuck-early", "S3-crashes", "S8-node"] {
        let observations = session(name);
        for source in Source::ALL {
            for alone in [true, false] {
                let w = world(
                    observations
                        .iter()
                        .filter(|o| (o.source == source) == alone),
                );
                for p in w.pods() {
                    check_spans(p).unwrap_or_else(|e| panic!("{name} {source:?} {alone}: {e}"));
                }
            }
        }
    }
}
