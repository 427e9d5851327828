//! The order of arrival does not matter, and neither do duplicates.

use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_model::{Evidence, Source};
use proptest::prelude::*;

use super::proof::check_spans;
use super::{SESSIONS, session, world};

/// Everything that the views show, as text, so that a difference can be read.
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

/// The observations in a pseudo-random order that depends on the seed alone.
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
fn refreshing_in_between_and_hearing_everything_twice_changes_nothing() {
    for name in ["S1-basics", "S3-crashes", "S7-restart-json"] {
        let observations = session(name);
        let straight = told(&world(&observations));
        let mut w = World::new();
        let mut seen = Vec::new();
        for (i, o) in observations.iter().enumerate() {
            w.observe(o);
            w.observe(o);
            if i % 997 == 0 {
                w.refresh();
                seen.push(w.clone());
            }
        }
        w.refresh();
        assert_eq!(first_difference(&straight, &told(&w)), None, "{name}");
    }
}

/// A log that is read again, or a second recording of the same time: what is there twice was seen at two times.
#[test]
fn reading_everything_again_later_changes_nothing() {
    for name in SESSIONS {
        let observations = session(name);
        let straight = told(&world(&observations));
        let of_a_log = |o: &&Evidence| o.source != Source::Kube;
        let again = observations.iter().filter(of_a_log).map(|o| {
            let mut o = (**o).clone();
            o.stamp.seen = o.stamp.seen.plus(5_000_000_000);
            Arc::new(o)
        });
        let twice: Vec<Evidence> = observations.iter().cloned().chain(again).collect();
        let twice = told(&world(&twice));
        assert_eq!(first_difference(&straight, &twice), None, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 20, ..ProptestConfig::default() })]

    /// Any part of the evidence, in any order, some of it twice: no panic, nothing is invented, and the
    /// order does not matter.
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
