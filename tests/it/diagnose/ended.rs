//! What a recording does not hold: the time after its sources were followed, and the time in which nobody recorded. The
//! silence of either says nothing of the kubelet. The observations are those of real recordings, cut.

use std::sync::Arc;

use crate::program::kflow;

use kflow_core::correlate::{Hindsight, World};
use kflow_core::diagnose::{self, CauseId, Incident, Walk, cause};
use kflow_model::gap::Gap;
use kflow_model::session::reader;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Evidence, Nanos, Observation, Source, Stamp};

fn recorded(name: &str) -> Vec<Evidence> {
    let path = crate::recording(name);
    let session = reader::load(&path).unwrap_or_else(|e| panic!("{e}"));
    session.observations
}

fn gap(since: Nanos, at: Nanos, resource: &str) -> Evidence {
    Arc::new(Observation {
        stamp: Stamp::exact(at),
        source: Source::Kflow,
        body: Body::Gap(Box::new(Gap {
            of: Source::Kflow,
            since,
            lost: 0,
            conn: 0,
            resource: resource.into(),
            why: "test".into(),
        })),
    })
}

/// The cause told of node1 three minutes after the last of these observations, with more of them; what is recorded only
/// later is looked back at.
fn of_node(all: &[Evidence], more: &[Evidence], later: &[Evidence]) -> Option<CauseId> {
    let last = all.last().expect("a recording").stamp.seen;
    let now = last.plus(180 * SECOND);
    let mut world = World::new();
    for o in all.iter().chain(more) {
        world.observe(o);
    }
    world.look_back(&Hindsight::of(later), now);
    world.refresh();
    let found = diagnose::find(&world, "node/node1");
    found.first()?.verdict(&world, now)?.cause
}

#[test]
fn a_source_that_is_not_followed_is_not_silent() {
    let all = recorded("S13-crictl");
    let last = all.last().expect("a recording").stamp.seen;
    assert_eq!(
        of_node(&all, &[], &[]),
        Some(cause::KF301),
        "it stands still while it is followed"
    );
    assert_eq!(of_node(&all, &[gap(last, last, Gap::END)], &[]), None);
    // The kubelet was silent for longer than any kubelet is, and then its recording ended.
    let stood = last.plus(170 * SECOND);
    assert_eq!(
        of_node(&all, &[gap(stood, stood, Gap::END)], &[]),
        Some(cause::KF301)
    );
    let until = last.plus(300 * SECOND);
    assert_eq!(
        of_node(&all, &[], &[gap(last, until, Gap::UNRECORDED)]),
        None
    );
}

#[test]
fn no_incident_lies_in_a_time_in_which_nobody_recorded() {
    let (first, then) = (recorded("S13-crictl"), recorded("S14-verbosity2"));
    let ended = first.last().expect("a recording").stamp.seen;
    let begun = then.first().expect("a recording").stamp.seen;
    assert!(begun.since(ended) > 120 * SECOND);
    let incidents = |hole: Option<Evidence>| {
        let end = then.last().expect("a recording").stamp.seen;
        let from = first.first().expect("a recording").stamp.seen;
        let mut walk = Walk::new(Arc::default(), None, (from, end));
        for o in first.iter().chain(&hole).chain(&then) {
            walk.observe(o);
        }
        let (incidents, _) = walk.finish();
        let causes: Vec<CauseId> = incidents
            .list()
            .iter()
            .filter_map(Incident::cause)
            .collect();
        causes
    };
    let of_kubelet = cause::KF301;
    assert!(incidents(None).contains(&of_kubelet));
    let hole = gap(ended, begun, Gap::UNRECORDED);
    assert!(!incidents(Some(hole)).contains(&of_kubelet));
}

/// A log that begins while the pod is tried again and again does not show since when.
#[test]
fn what_was_so_before_a_log_begins_has_been_so_at_least_as_long() {
    let all = recorded("S2-stuck-early");
    let log: Vec<&Evidence> = all.iter().filter(|o| o.source == Source::Kubelet).collect();
    // The newest back-off before the fourth pull.
    let (amid, _) = Nanos::parse_rfc3339("2026-11-21T00:28:49.4Z").expect("a time");
    let now = amid.plus(2 * SECOND);
    let standing = |from: Nanos| {
        let mut world = World::new();
        let seen = |o: &&&Evidence| (from..=now).contains(&o.stamp.at);
        for o in log.iter().filter(seen) {
            world.observe(o);
        }
        world.refresh();
        let pods = world.find("s02/image-missing");
        let v = diagnose::why(&world, pods.first().expect("its log"), now).expect("it is stuck");
        (v.at_least, kflow_export::why::standing(&v, now))
    };
    let (at_least, said) = standing(amid);
    assert!(
        at_least && said.starts_with("stuck in image for at least "),
        "{said}"
    );
    let (at_least, said) = standing(Nanos(0));
    assert!(
        !at_least && said.starts_with("stuck in image for 1m0"),
        "{said}"
    );
}

/// The kubelet says of pods that run, too, that the network is not ready, and says nothing more of them once it is back.
#[test]
fn a_network_that_is_back_keeps_no_pod_waiting() {
    let file = crate::in_repository("fixtures/correlate/network-was-away.kflow.zst");
    let file = file.display().to_string();
    let said = kflow(["why", "start/gate-ready", "-s", &file]);
    assert!(said.out.contains("KF804"), "{}", said.out);
    assert!(!said.out.contains("KF310"), "{}", said.out);
}
