//! The correlator on real sessions: what it shows is what was, whatever came in whichever order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use kflow::correlate::{PodView, World};
use kflow::diagnose::State;
use kflow::model::{Body, Nanos, PodUid, Source};
use kflow::timeline::{Certainty, Evidence, Span};
use proptest::prelude::*;

/// Observations of a recorded session, in order of arrival.
#[expect(clippy::panic, reason = "a broken fixture fails the test")]
pub(crate) fn session(name: &str) -> Vec<Evidence> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/sessions")
        .join(format!("{name}.kflow.zst"));
    kflow::session::load(&path)
        .unwrap_or_else(|e| panic!("{name}: {e}"))
        .observations
}

/// The world after these observations.
pub(crate) fn world<'a>(observations: impl IntoIterator<Item = &'a Evidence>) -> World {
    let mut w = World::new();
    for o in observations {
        w.observe(o);
    }
    w.settle();
    w
}

/// As of a moment: of what was seen by then.
fn as_of(observations: &[Evidence], at: Nanos) -> World {
    world(observations.iter().filter(|o| o.stamp.seen <= at))
}

const SESSIONS: [&str; 14] = [
    "S1-basics",
    "S2-stuck-early",
    "S3-crashes",
    "S4-runtime",
    "S5-burst",
    "S6-slowpull",
    "S7-restart-json",
    "S8-node",
    "S9-evented-json",
    "S10-pleg",
    "S11-control-plane",
    "S12-alpha-gates",
    "S13-crictl",
    "S14-verbosity2",
];

/// What `kubectl get -o json` gave at the snapshot of each scenario, reduced to the columns of `kubectl get pods` by a
/// second, independent port of its printer (fixtures/correlate/README.md).
#[test]
fn every_pod_of_every_scenario_reads_as_kubectl_showed_it_at_the_snapshot() {
    let table = include_str!("../../fixtures/correlate/status-at-snapshots.tsv");
    let mut rows: BTreeMap<&str, Vec<Vec<&str>>> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        rows.entry(fields[0]).or_default().push(fields);
    }
    let (mut checked, mut wrong) = (0, Vec::new());
    for (name, rows) in rows {
        let observations = session(name);
        for r in rows {
            let at = Nanos(r[2].parse().unwrap());
            // kubectl asked a moment after the mark, so the watch may be behind by a state: the version that kubectl
            // got decides which one is compared.
            let version: u64 = r[5].parse().unwrap();
            let arrived = observations
                .iter()
                .filter_map(|o| match &o.body {
                    Body::Pod(p) if p.uid.as_str() == r[4] && p.resource_version <= version => {
                        Some(o.stamp.seen)
                    }
                    _ => None,
                })
                .max()
                .unwrap_or(at);
            let newer = observations
                .iter()
                .filter_map(|o| match &o.body {
                    Body::Pod(p) if p.uid.as_str() == r[4] && p.resource_version > version => {
                        Some(o.stamp.seen)
                    }
                    _ => None,
                })
                .min();
            let mut when = at.max(arrived);
            if let Some(n) = newer {
                when = when.min(Nanos(n.0 - 1));
            }
            let w = as_of(&observations, when);
            checked += 1;
            let Some(p) = w.pod(&PodUid::from(r[4])) else {
                wrong.push(format!("{r:?}: no such pod"));
                continue;
            };
            let got = (
                p.key(),
                p.status.to_string(),
                format!("{}/{}", p.ready.0, p.ready.1),
                p.restarts.to_string(),
            );
            let want = (r[3].into(), r[6].into(), r[7].into(), r[8].into());
            if got != want {
                wrong.push(format!("{} {}: {got:?}, not {want:?}", r[0], r[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(checked, 74);
}

/// Everything that a view says, as text, so that a difference can be read.
fn told(w: &World) -> Vec<String> {
    let mut out = Vec::new();
    for p in w.pods() {
        out.push(format!(
            "{} {} {:?} {} {:?} {} {:?} {:?} {:?} {:?}",
            p.uid,
            p.key(),
            p.mirrors,
            p.status,
            p.ready,
            p.restarts,
            p.stages,
            p.current,
            p.gone,
            p.owners
        ));
        for c in &p.containers {
            out.push(format!("  {c:?}"));
        }
        for s in &p.timeline.spans {
            out.push(format!(
                "  {} {} {} {} {:?} {:?} {:?} {} {} {:?} {:?} {:?} {}",
                s.stage,
                s.step,
                s.container,
                s.attempt,
                s.start,
                s.end,
                s.outcome,
                s.code,
                s.message,
                s.certainty,
                s.parent,
                s.call,
                s.evidence.len()
            ));
        }
        for m in &p.timeline.marks {
            out.push(format!(
                "  {:?} {:?} {} {} {}",
                m.at, m.kind, m.container, m.text, m.count
            ));
        }
        out.push(format!("  {:?}", p.timeline.gaps));
    }
    for c in w.calls().iter() {
        out.push(format!(
            "{:?} {:?} {:?} {} {} {} {} {} {} {:?}",
            c.key,
            c.start,
            c.end,
            c.method,
            c.pod_uid,
            c.namespace,
            c.pod,
            c.container,
            c.container_id,
            c.attempt
        ));
    }
    out
}

fn first_difference(a: &[String], b: &[String]) -> Option<String> {
    let at = (0..a.len().max(b.len())).find(|i| a.get(*i) != b.get(*i))?;
    Some(format!("line {at}:\n  {:?}\n  {:?}", a.get(at), b.get(at)))
}

/// A pseudo-random order that depends on the seed alone.
fn shuffled(observations: &[Evidence], seed: u64) -> Vec<Evidence> {
    let mut v: Vec<(u64, &Evidence)> = observations
        .iter()
        .enumerate()
        .map(|(i, o)| {
            let mut x = seed ^ (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x ^= x >> 30;
            x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x ^= x >> 27;
            x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
            (x ^ (x >> 31), o)
        })
        .collect();
    v.sort_by_key(|(k, _)| *k);
    v.into_iter().map(|(_, o)| Arc::clone(o)).collect()
}

#[test]
fn any_order_of_arrival_gives_the_same_world() {
    for name in SESSIONS {
        let observations = session(name);
        let straight = told(&world(&observations));
        let backwards = told(&world(observations.iter().rev()));
        assert_eq!(
            first_difference(&straight, &backwards),
            None,
            "{name} backwards"
        );
        let shuffled = told(&world(&shuffled(&observations, 7)));
        assert_eq!(
            first_difference(&straight, &shuffled),
            None,
            "{name} shuffled"
        );
    }
}

#[test]
fn settling_in_between_and_hearing_everything_twice_changes_nothing() {
    for name in ["S1-basics", "S3-crashes", "S7-restart-json"] {
        let observations = session(name);
        let straight = told(&world(&observations));
        let mut w = World::new();
        let mut seen = Vec::new();
        for (i, o) in observations.iter().enumerate() {
            w.observe(o);
            w.observe(o);
            if i % 997 == 0 {
                w.settle();
                seen.push(w.clone());
            }
        }
        w.settle();
        assert_eq!(first_difference(&straight, &told(&w)), None, "{name}");
    }
}

/// Nothing is invented: every span has evidence, and its edges lie where its evidence does.
fn check_spans(p: &PodView) -> Result<(), String> {
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
    let known: std::collections::HashSet<*const kflow::model::Observation> =
        p.evidence.iter().map(Arc::as_ptr).collect();
    for (i, s) in p.timeline.spans.iter().enumerate() {
        if s.evidence.is_empty() {
            return Err(format!("{} has no evidence", describe(s)));
        }
        for e in &s.evidence {
            // A list of the runtime and the end of a list of pods are not the pod's own.
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

/// Every moment that an observation tells, ns.
fn moments(o: &kflow::model::Observation) -> Vec<i64> {
    fn collect(json: &serde_json::Value, out: &mut Vec<i64>) {
        match json {
            serde_json::Value::Number(n) => out
                .extend(n.as_i64().filter(|n| {
                    (1_795_200_000_000_000_000..1_795_300_000_000_000_000).contains(n)
                })),
            serde_json::Value::Array(v) => v.iter().for_each(|x| collect(x, out)),
            serde_json::Value::Object(m) => m.values().for_each(|x| collect(x, out)),
            _ => {}
        }
    }
    let mut out = Vec::new();
    collect(&serde_json::to_value(o).expect("it serialises"), &mut out);
    // A deletion was asked for when its grace period began.
    if let Body::Pod(p) = &o.body
        && let Some(at) = p.deletion
    {
        out.push(at.0 - p.deletion_grace_s.unwrap_or(0) * 1_000_000_000);
    }
    out
}

/// What is measured was told by the span's own evidence, to the nanosecond or within the edge's precision; every other
/// edge is a moment that some evidence of the pod told, or the end of a list of pods.
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

/// Steps bear the names of the call flow, so that every one can be looked up in its map.
#[test]
fn every_step_of_every_timeline_is_in_the_flow_map() {
    let map = kflow::flow::map::Map::embedded();
    let mut unknown = std::collections::BTreeSet::new();
    for name in SESSIONS {
        for p in world(&session(name)).pods() {
            for s in p.timeline.steps().filter(|s| !s.is_run()) {
                // Spans of the runtime inside a call bear the runtime's names.
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

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 20, ..ProptestConfig::default() })]

    /// Any part of the evidence, in any order, some of it twice: no panic, nothing invented, and the order is no matter.
    #[test]
    fn any_subset_in_any_order_is_the_same_and_invents_nothing(
        seed in any::<u64>(),
        keep in 1_u64..16,
        which in 0..SESSIONS.len(),
    ) {
        let observations = session(SESSIONS[which]);
        let part: Vec<Evidence> = shuffled(&observations, seed)
            .into_iter()
            .enumerate()
            .filter(|(i, _)| (*i as u64 ^ seed) % 16 < keep)
            .map(|(_, o)| o)
            .collect();
        let mut straight = part.clone();
        straight.sort();
        let a = world(&straight);
        let mut twice = part.clone();
        twice.extend(part.iter().take(part.len() / 3).cloned());
        let b = world(&twice);
        prop_assert_eq!(first_difference(&told(&a), &told(&b)), None);
        for p in a.pods() {
            if let Err(e) = check_spans(p) {
                prop_assert!(false, "{}", e);
            }
        }
    }
}

/// How much later the second life is, ns.
const LATER: i64 = 100_000_000_000;

/// Moves every moment of the recordings' day.
fn later(json: &mut serde_json::Value, by: i64) {
    match json {
        serde_json::Value::Number(n) => {
            if let Some(at) = n
                .as_i64()
                .filter(|n| (1_795_200_000_000_000_000..1_795_300_000_000_000_000).contains(n))
            {
                *json = (at + by).into();
            }
        }
        serde_json::Value::Array(v) => v.iter_mut().for_each(|x| later(x, by)),
        serde_json::Value::Object(m) => m.values_mut().for_each(|x| later(x, by)),
        _ => {}
    }
}

/// Two pods of one name, one after the other: what tells a name alone goes to the one that lived then.
#[test]
fn a_pod_that_is_created_anew_under_its_name_keeps_its_own_story() {
    let observations = session("S1-basics");
    // The second life: the first one's evidence a minute later, under another UID.
    let old = "4ac3c3e9-1ad8-496b-869a-7687fcb13acf";
    let new = "5bd4d4f0-2be9-4a7c-97ab-8798fdc24bd0";
    let about = |o: &&Evidence| {
        let text = serde_json::to_string(o).unwrap();
        text.contains("s01/healthy")
            || text.contains(old)
            || text.contains("\"ns\":\"s01\",\"n\":\"healthy\"")
    };
    // Calls are told apart by connection and stream, which this copy would repeat: logs, events and states will do.
    let first: Vec<Evidence> = observations
        .iter()
        .filter(|o| matches!(o.source, Source::Kubelet | Source::Kube | Source::Fs))
        .filter(about)
        .cloned()
        .collect();
    let second: Vec<Evidence> = first
        .iter()
        .map(|o| {
            let text = serde_json::to_string(o).unwrap().replace(old, new);
            let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
            later(&mut json, LATER);
            let mut o: kflow::model::Observation = serde_json::from_value(json).unwrap();
            if let Body::Pod(p) = &mut o.body {
                p.resource_version += 100_000;
            }
            Arc::new(o)
        })
        .collect();
    let alone = world(&first);
    let both = world(first.iter().chain(&second));
    let steps = |p: &PodView| -> Vec<String> {
        p.timeline
            .spans
            .iter()
            .map(|s| format!("{} {} {} {:?}", s.stage, s.step, s.container, s.start))
            .collect()
    };
    let a = alone.pod(&old.into()).expect("the first life");
    let b = both
        .pod(&old.into())
        .expect("the first life beside the second");
    assert_eq!(steps(a), steps(b));
    let c = both.pod(&new.into()).expect("the second life");
    assert_eq!(steps(a).len(), steps(c).len());
    for (x, y) in a.timeline.spans.iter().zip(&c.timeline.spans) {
        assert_eq!(
            (x.stage, &x.step, &x.container),
            (y.stage, &y.step, &y.container)
        );
        assert_eq!(x.start.at + LATER, y.start.at, "{} {}", x.stage, x.step);
    }
    assert_eq!(both.find("s01/healthy").len(), 2);
}

#[test]
fn a_static_pod_and_its_mirrors_are_one_story() {
    let w = world(&session("S1-basics"));
    let found = w.find("s17/static-web-node1");
    assert_eq!(found.len(), 1);
    let p = found[0];
    assert_eq!(
        p.uid.as_str().len(),
        32,
        "the UID is the kubelet's: {}",
        p.uid
    );
    assert_eq!(
        p.mirrors.len(),
        2,
        "the mirror was deleted once and made again"
    );
    for mirror in &p.mirrors {
        assert_eq!(w.pod(mirror).map(|x| &x.uid), Some(&p.uid));
    }
    let starts = p
        .timeline
        .spans
        .iter()
        .filter(|s| s.step == "StartContainer")
        .count();
    assert_eq!(starts, 1, "deleting the mirror stops nothing");
}

/// Pods that were deleted before the recording began are left in the runtime and in old Events.
#[test]
fn a_pod_that_a_complete_list_did_not_hold_is_gone_and_waits_for_nothing() {
    let mut gone = 0;
    for name in &SESSIONS[1..] {
        let observations = session(name);
        let listed_at = observations
            .iter()
            .find_map(|o| match &o.body {
                Body::Watch(n) if n.resource == "pods" => Some(o.stamp.seen),
                _ => None,
            })
            .expect("a list of pods");
        for p in world(&observations).pods() {
            let old = p.evidence.iter().any(|o| o.stamp.at < listed_at);
            if p.api.is_some() || !old || p.uid.as_str().len() == 32 {
                continue;
            }
            gone += 1;
            assert_eq!(p.status, "Gone", "{name} {}", p.key());
            assert_eq!(p.current, None, "{name} {}", p.key());
            assert!(
                p.gone.is_some_and(|at| at >= listed_at),
                "{name} {}",
                p.key()
            );
        }
    }
    assert!(gone > 20, "{gone}");
    // What a list leaves out that has another scope is no pod less.
    let observations: Vec<Evidence> = session("S2-stuck-early")
        .iter()
        .map(|o| {
            let mut o: kflow::model::Observation = (**o).clone();
            if let Body::Watch(n) = &mut o.body {
                n.scope = "elsewhere".into();
            }
            Arc::new(o)
        })
        .collect();
    let w = world(&observations);
    assert_eq!(
        w.find("s21/sidecar").first().expect("the remnant").gone,
        None
    );
}

#[test]
fn with_the_tap_alone_what_is_left_of_a_pod_has_exited_and_is_not_stuck() {
    let mut remnants = 0;
    for name in SESSIONS {
        let observations = session(name);
        let w = world(observations.iter().filter(|o| o.source == Source::Cri));
        let now = w.now();
        for p in w.pods().iter().filter(|p| p.is_remnant()) {
            remnants += 1;
            assert_eq!(p.current, None, "{name} {}", p.uid);
            let state = kflow::diagnose::why(&w, p, now).map(|v| v.state);
            assert!(
                matches!(state, Some(State::Healthy | State::Recovered)),
                "{name} {} {state:?}",
                p.uid
            );
            assert!(
                p.containers
                    .iter()
                    .all(|c| c.state.starts_with("terminated")),
                "{name} {:?}",
                p.containers
            );
        }
        // Nothing of the tap's tells that a pod is gone from the API.
        assert!(w.pods().iter().all(|p| p.gone.is_none()), "{name}");
    }
    assert!(remnants > 20, "{remnants}");
}

/// What the apiserver, the scheduler and the controllers stamp, by a clock that is `by` ns ahead.
fn with_api_ahead(observations: &[Evidence], by: i64) -> Vec<Evidence> {
    observations
        .iter()
        .map(|o| {
            let mut o: kflow::model::Observation = (**o).clone();
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
