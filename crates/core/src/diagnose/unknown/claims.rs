//! Claims that wait, and of which nothing tells what they wait for.

use super::{Asked, Reason, Unknown};
use crate::correlate::ObjectState;
use crate::diagnose::claims_alone;
use crate::diagnose::text::list;
use kflow_model::ObjectRef;

/// Says of the claims of a recording that wait and that no known pod mounts that nothing tells what they wait for; `None`
/// without such claims.
pub fn claims_unexplained(asked: Asked<'_>) -> Option<Unknown> {
    asked.recorded?;
    let (_, untold) = claims_alone(asked.world, asked.at);
    unexplained(&untold)
}

/// Returns whether it is known what a claim waits for; `None` for another owner, and for a claim that is bound or that a
/// pod mounts.
pub(super) fn known(asked: Asked<'_>, claim: &ObjectRef) -> Option<Result<(), Unknown>> {
    let (well, mut untold) = claims_alone(asked.world, asked.at);
    if well.iter().any(|v| v.owner.as_ref() == Some(claim)) {
        return Some(Ok(()));
    }
    untold.retain(|o| o.object == *claim);
    unexplained(&untold).map(Err)
}

fn unexplained(claims: &[&ObjectState]) -> Option<Unknown> {
    let first = &claims.first()?.object;
    let name = |o: &&ObjectState| format!("{}/{}", o.object.namespace, o.object.name);
    let all: Vec<String> = claims.iter().map(name).collect();
    let what = match all.as_slice() {
        [one] => format!("what claim {one} waits for"),
        many => format!("what claims {} wait for", list(many)),
    };
    Some(Unknown {
        what,
        reason: Reason::NotRecorded,
        why: "nothing that was read says why no volume is bound".to_owned(),
        help: format!(
            "add more: kubectl describe pvc -n {} {}",
            first.namespace, first.name
        ),
    })
}
