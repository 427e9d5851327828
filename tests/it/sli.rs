//! How long pods took to start, beside what the kubelet logged of the same pods (`Observed pod startup duration`).

use kflow::correlate::sli;
use kflow::model::Body;
use kflow::model::stamp::{MILLI, SECOND};

use super::requests::sessions;

#[test]
fn starts_agree_with_what_the_kubelet_measured() {
    let (mut same, mut missed, mut explained, mut other, mut worst) = (0, 0, 0, 0, 0);
    for (name, world, _) in sessions() {
        for told in world.machinery().starts() {
            // Several pods may have borne the name: the one that was created as long ago as the kubelet says.
            let created = told.at.plus(-told.total_ns);
            let Some(ours) = world
                .find(&told.pod)
                .into_iter()
                .filter(|p| p.created.since(created).abs() < 2 * SECOND)
                .find_map(|p| sli::start(p))
            else {
                other += 1;
                continue;
            };
            // Pulls and init containers agree always: both are measured at the same calls.
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
            assert!(
                later > -100 * MILLI,
                "{name} {}: {told:?} {ours:?}",
                told.pod
            );
            if later < 100 * MILLI {
                same += 1;
                worst = worst.max((told.sli_ns - ours.sli_ns).abs());
            } else {
                // The kubelet missed that change. It looks at all its pods whenever any of them changes, so there is
                // a later change, of this pod or another, that the watch shows too.
                missed += 1;
                let other_change = world
                    .pods()
                    .iter()
                    .flat_map(|p| p.evidence.iter())
                    .any(|e| {
                        matches!(e.body, Body::Pod(_))
                            && e.stamp.seen > ours.observed
                            && e.stamp.seen.since(told.at).abs() < 100 * MILLI
                    });
                explained += usize::from(other_change);
            }
        }
    }
    println!(
        "{same} same, at most {worst} ns apart; {missed} later, {explained} by a later change; {other} of mirrors or begun before"
    );
    assert!(
        same >= 50 && missed - explained <= missed / 10,
        "{same} {missed} {explained}"
    );
}
