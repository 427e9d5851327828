//! kflow's pod startup durations, compared with those that the kubelet logged for the same pods (`Observed pod startup
//! duration`).

use kflow_core::correlate::startup_latency;
use kflow_model::Body;
use kflow_model::stamp::{MILLI, SECOND};

use super::requests::sessions;

/// The largest time difference, in ns, between two watches on one apiserver.
const SLACK: i64 = 100 * MILLI;

/// For every start in the recordings the kubelet's figure equals kflow's, or is later for one known reason, which the
/// test checks.
#[test]
fn starts_agree_with_what_the_kubelet_measured() {
    let (mut same, mut missed, mut exact, mut other, mut worst) = (0, 0, 0, 0, 0);
    for (name, world, _) in sessions() {
        for told in world.kubelet().starts() {
            // Several pods may have had this name: take the one that was created at the time that the kubelet's figures
            // imply.
            let created = told.at.plus(-told.total_ns);
            let Some(ours) = world
                .find(&told.pod)
                .into_iter()
                .filter(|p| p.created.since(created).abs() < 2 * SECOND)
                .find_map(|p| startup_latency::start(p))
            else {
                other += 1;
                continue;
            };
            // The times of pulls and init containers always agree: both sides measure them at the same calls.
            for (theirs, ours) in [
                (told.pulling_ns, ours.pulling_ns),
                (told.init_ns, ours.init_ns),
            ] {
                assert!(
                    (theirs - ours).abs() < 10 * MILLI,
                    "{name} {}: {told:?} {ours:?}",
                    told.pod
                );
            }
            let later = told.total_ns - ours.total_ns;
            assert!(later > -SLACK, "{name} {}: {told:?} {ours:?}", told.pod);
            if later < SLACK {
                same += 1;
                worst = worst.max((told.sli_ns - ours.sli_ns).abs());
            } else {
                // The kubelet missed that change, because it had not yet noted that it had sent this status. It looks
                // at all its pods whenever any of them changes, so it logs the first change after its note.
                missed += 1;
                let mut changes = world
                    .pods()
                    .iter()
                    .flat_map(|p| p.evidence.iter())
                    .filter(|e| matches!(&e.body, Body::Pod(p) if !p.spec.node.is_empty()))
                    .map(|e| e.stamp.seen);
                let noted = told.noted.unwrap_or(ours.observed);
                let watched = told.watched.unwrap_or(told.at);
                assert!(
                    ours.observed.since(noted) < MILLI,
                    "{name} {}: noted before the watch showed it: {told:?} {ours:?}",
                    told.pod
                );
                let next = changes
                    .clone()
                    .filter(|at| at.since(noted.max(ours.observed)) > SLACK)
                    .min();
                let at_once = changes.any(|at| at.since(watched).abs() < SLACK);
                let first = next.is_some_and(|n| watched.since(n) < SLACK);
                assert!(
                    at_once && first,
                    "{name} {}: {told:?} {ours:?} {next:?}",
                    told.pod
                );
                exact += usize::from(told.noted.is_some());
            }
        }
    }
    println!(
        "{same} same, at most {worst} ns apart; {missed} later, {exact} of them with the time of the note; {other} of mirrors or begun before"
    );
    assert!(
        same >= 50 && exact >= 30 && other <= 2,
        "{same} {missed} {exact} {other}"
    );
}
