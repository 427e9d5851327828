//! A live engine's log is bounded. Of the observations that leave it, those that still stand are carried along: a
//! picture of the past and a recording that is begun late know pods, calls and lists that have been quiet since.

use std::collections::BTreeSet;
use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_engine::Pipeline;
use kflow_model::Nanos;

use super::{SESSIONS, session, world};

/// The number of observations that the log keeps; older ones leave in whole chunks of 4,096.
const KEEP: usize = 1;

/// Pods that exist, with what `kubectl get pods` shows of them. With `heard`, also pods that only requests and log
/// lines name.
fn standing(world: &World, heard: bool) -> BTreeSet<String> {
    let pods = world.pods().iter().filter(|p| p.gone.is_none() && !p.past);
    pods.filter(|p| heard || p.api.is_some())
        .map(|p| {
            format!(
                "{}/{} {} {} {} {}",
                p.namespace, p.name, p.uid, p.status, p.restarts, p.node
            )
        })
        .collect()
}

fn in_flight(world: &World) -> BTreeSet<String> {
    let calls = world.calls().in_flight();
    calls.map(|c| format!("{:?} {}", c.key, c.method)).collect()
}

/// True when the world knows that its list of pods is complete.
fn complete(world: &World, at: Nanos) -> bool {
    let asked = Asked {
        world,
        at,
        scope: None,
        recorded: None,
    };
    unknown::partial(asked).is_none()
}

#[test]
fn what_stands_outlives_the_log() {
    let (mut pods, mut calls, mut dropped) = (0, 0, 0);
    for name in SESSIONS {
        let all = session(name);
        for part in [3, 2, 1] {
            let seen = all.get(..all.len() / part).unwrap_or_default();
            let mut pipeline = Pipeline::new();
            for o in seen {
                pipeline.observe(Arc::clone(o));
                pipeline.shrink(KEEP);
            }
            let log = pipeline.log();
            dropped += seen.len() - log.len();
            let (whole, late) = (world(seen), world(log.history()));
            let now = seen.iter().map(|o| o.stamp.seen).max().unwrap_or_default();
            let (known, there) = (standing(&whole, true), standing(&late, true));
            let none: [&String; 0] = [];
            assert_eq!(
                there.difference(&known).collect::<Vec<_>>(),
                none,
                "{name} 1/{part}"
            );
            let known = standing(&whole, false);
            assert_eq!(
                known.difference(&there).collect::<Vec<_>>(),
                none,
                "{name} 1/{part}"
            );
            assert_eq!(in_flight(&whole), in_flight(&late), "{name} 1/{part}");
            assert_eq!(
                complete(&whole, now),
                complete(&late, now),
                "{name} 1/{part}"
            );
            pods += known.len();
            calls += in_flight(&whole).len();
        }
    }
    assert!(
        dropped > 100_000 && pods > 100 && calls > 10,
        "{dropped} {pods} {calls}"
    );
}
